/* test_gpu_sample.c: sampling where the logits are: they stay on the device, the few largest come down, and the tokens are
 * the same as with all of them. Part of test_gpu_models.c, whose helpers it uses. */

/* Greedy: 8 bytes a token; a usual chain: as many pairs as it keeps; what needs all logits gets all, in the same wait. */
static void test_gpu_model_sample_traffic(void) {
    static const struct { const char *name; float top_k, temp, penalty; uint64_t pairs; } cases[] = {
        {"greedy", 0, 0, 1, 1}, {"top-k 40", 40, 1, 1, 40}, {"top-k 7, scaled", 7, 0.7f, 1, 23}, {"penalty", 40, 1, 1.2f, 0},
        {"all", 0, 1, 1, 0}};
    infer_model *m;
    infer_error e;
    size_t k;
    int32_t i;
    GPU_NEEDED();
    check_live = check_fail_at = 0;
    m = gpu_open(check_data("models/stories260K.F32.gguf"), check_backend(), 0);
    if (!m) return;
    for (k = 0; k < sizeof cases / sizeof *cases; k++) {
        infer_stage st[4];
        infer_sampler *sampler = NULL;
        infer_session *s = NULL;
        infer_session_params p;
        infer_stats stats;
        infer_token token = 1;
        uint64_t vocab = (uint64_t)m->hp.n_vocab * sizeof(float);
        long allocs = 0;
        memset(st, 0, sizeof st);
        memset(&p, 0, sizeof p);
        p.context = 64;
        check_detail = cases[k].name;
        st[0].kind = INFER_STAGE_PENALTY;
        st[0].p[0] = 64;
        st[0].p[1] = cases[k].penalty;
        st[1].kind = INFER_STAGE_TEMPERATURE;
        st[1].p[0] = cases[k].temp;
        st[2].kind = INFER_STAGE_TOP_K;
        st[2].p[0] = cases[k].top_k;
        if (k > 0) CHECK(infer_sampler_create(&sampler, m, st, 3, 5, &e) == INFER_OK);
        CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
        for (i = 0; i < 20; i++) {
            uint64_t want = cases[k].pairs ? 8 * cases[k].pairs : vocab;
            if (i == 4) allocs = check_allocs;
            CHECK(infer_session_eval(s, &token, 1) == INFER_OK);
            CHECK(infer_session_sample(s, sampler, -1, &token) == INFER_OK);
            CHECK(infer_session_stats(s, &stats) == INFER_OK);
            /* the first eval does not know what will be asked for; a penalty needs all from the second token on */
            if (i > 1) CHECK(stats.bytes_down == want && stats.syncs == 1);
            if (i == 0) CHECK(stats.bytes_down == (k == 0 ? 8 : k == 3 ? 8 + 8 * 40 : 8 + want));
        }
        if (k != 0) CHECK(check_allocs <= allocs + 4); /* the sampler's history grows */
        else CHECK(check_allocs == allocs);
        infer_session_destroy(s);
        infer_sampler_destroy(sampler);
    }
    check_detail = "";
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0);
}

/* Two sessions of a context that evaluate the same ids in turns: one samples on the device, the other from all logits.
 * The first's logits stay valid while the second evaluates; destroyed and rewound sessions are let go. */
static void test_gpu_model_sample_equal(void) {
    static const char *const files[] = {"models/stories260K.F32.gguf", "models/TinyStories-656K.Q8_0.gguf"};
    size_t f;
    GPU_NEEDED();
    for (f = 0; f < 2; f++) {
        infer_model *m;
        infer_context *c = NULL;
        infer_context_params cp;
        infer_error e;
        uint64_t seed;
        check_live = check_fail_at = 0;
        m = gpu_open(check_data(files[f]), check_backend(), 0);
        if (!m) return;
        memset(&cp, 0, sizeof cp);
        cp.cells = 512;
        cp.sessions = 4;
        CHECK(infer_context_create(&c, m, &cp, &e) == INFER_OK);
        for (seed = 0; c && seed < 6 && !check_bad; seed += (uint64_t)check_every(5)) {
            infer_stage st[12];
            infer_sampler *one = NULL, *two = NULL;
            infer_session *s = NULL, *t = NULL, *u = NULL;
            infer_session_params p;
            infer_token a = 1, b = 1, greedy;
            size_t n = (size_t)m->hp.n_vocab;
            int32_t n_st = 0, i;
            float *kept = (float *)calloc(n, sizeof *kept);
            memset(&p, 0, sizeof p);
            p.context = 128;
            CHECK(infer_sampler_usual(m, st, 12, &n_st, &e) == INFER_OK);
            if (seed % 2) st[0] = sampler_stage(INFER_STAGE_TEMPERATURE, 0.6f); /* before the cut */
            CHECK(infer_sampler_create(&one, m, st, n_st, seed, &e) == INFER_OK);
            CHECK(infer_sampler_create(&two, m, st, n_st, seed, &e) == INFER_OK);
            CHECK(infer_session_create_in(&s, c, &p, &e) == INFER_OK);
            CHECK(infer_session_create_in(&t, c, &p, &e) == INFER_OK);
            CHECK(infer_session_create_in(&u, c, &p, &e) == INFER_OK);
            for (i = 0; i < 60 && !check_bad; i++) {
                CHECK(infer_session_eval(s, &a, 1) == INFER_OK);
                CHECK(s->kept_row == 1);
                CHECK(infer_session_sample(s, NULL, -1, &greedy) == INFER_OK);
                CHECK(infer_session_sample(s, one, -1, &a) == INFER_OK);
                CHECK(s->kept_row == 1);
                CHECK(infer_session_eval(t, &b, 1) == INFER_OK); /* brings the other's down */
                CHECK(s->kept_row == 0);
                CHECK(infer_sampler_sample(two, infer_session_logits(t, -1), (int32_t)n, &b, &e) == INFER_OK);
                CHECK(infer_sampler_accept(two, b) == INFER_OK);
                CHECK(a == b);
                CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), n * sizeof(float)) == 0);
                s->all_wanted = 0; /* the next ones stay again */
                CHECK(infer__sample_greedy(infer_session_logits(t, -1), (int32_t)n, &b, &e) == INFER_OK && b == greedy);
                b = a;
                if (i == 30) { /* logits that are not there any more are not brought */
                    CHECK(infer_session_eval(u, &a, 1) == INFER_OK && u->kept_row == 1 && c->n_kept == 1);
                    CHECK(infer_session_rewind(u, 0) == INFER_OK && c->n_kept == 0);
                    CHECK(infer_session_logits(u, -1) == NULL);
                    CHECK(infer_session_eval(u, &a, 1) == INFER_OK && c->n_kept == 1);
                    memcpy(kept, infer_session_logits(u, -1), n * sizeof *kept);
                    u->all_wanted = 0;
                }
            }
            { /* three in a pass: each has a row; a changed logit counts */
                infer_step steps[3];
                infer_session *three[3];
                three[0] = u;
                three[1] = s;
                three[2] = t;
                CHECK(infer_session_rewind(u, 0) == INFER_OK);
                memset(steps, 0, sizeof steps);
                for (i = 0; i < 3; i++) {
                    steps[i].session = three[i];
                    steps[i].tokens = &a;
                    steps[i].n = 1;
                    steps[i].outputs = INFER_OUT_LAST;
                    three[i]->all_wanted = 0;
                    three[i]->top_wanted = 1 + 2 * i;
                }
                { /* more rows than may stay: all come down, as do those of sessions that asked for all */
                    int32_t most = c->plan.top_rows;
                    c->plan.top_rows = 2;
                    CHECK(infer_eval(c, steps, 3, &e) == INFER_OK && c->n_kept == 0);
                    CHECK(c->ctx.bytes_down == 3 * n * sizeof(float) && c->ctx.syncs == 1);
                    c->plan.top_rows = most;
                    s->all_wanted = 1;
                    CHECK(infer_eval(c, steps, 3, &e) == INFER_OK && c->n_kept == 2 && s->kept_row == 0);
                    CHECK(c->ctx.bytes_down == n * sizeof(float) + 8 * (1 + 5) && c->ctx.syncs == 1);
                }
                CHECK(infer_eval(c, steps, 3, &e) == INFER_OK);
                CHECK(c->n_kept == 3 && u->kept_row == 1 && s->kept_row == 2 && t->kept_row == 3);
                CHECK(c->ctx.bytes_down == 8 * (1 + 3 + 5) && c->ctx.syncs == 1);
                infer_session_destroy(u);
                CHECK(c->n_kept == 2);
                for (i = 1; i < 3; i++) {
                    infer_token best, again;
                    float *x;
                    CHECK(infer_session_sample(three[i], NULL, -1, &best) == INFER_OK && three[i]->kept_row == i + 1);
                    x = infer_session_logits(three[i], -1);
                    CHECK(x && three[i]->kept_row == 0 && infer__sample_greedy(x, (int32_t)n, &again, &e) == INFER_OK && again == best);
                    x[7] = x[best] + 1;
                    CHECK(infer_session_sample(three[i], NULL, -1, &best) == INFER_OK && best == 7);
                }
            }
            infer_session_destroy(s);
            infer_session_destroy(t);
            infer_sampler_destroy(one);
            infer_sampler_destroy(two);
            free(kept);
        }
        CHECK(infer_context_destroy(c) == INFER_OK);
        CHECK(infer_model_close(m) == INFER_OK);
        CHECK(check_live == 0);
    }
}
