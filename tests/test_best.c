/* test_best.c: infer_generate_best: each reply as alone with its seed, the likeliest held by the session; little memory,
 * models of several kinds; failures. Biases by text. */

static infer_sampler *best_sampler(infer_model *m, uint64_t seed) {
    infer_sampler *s = NULL;
    infer_stage st[1];
    memset(st, 0, sizeof st);
    st[0].kind = INFER_STAGE_TEMPERATURE;
    st[0].p[0] = 1.2f;
    CHECK(infer_sampler_create(&s, m, st, 1, seed, NULL) == INFER_OK);
    return s;
}

typedef struct best_sum { double sum; int n; infer_token ids[128]; } best_sum;
static int best_count(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    best_sum *b = (best_sum *)user;
    (void)top; (void)n_top;
    b->sum += logprob;
    b->ids[b->n++] = token;
    return 0;
}

/* n replies of `tokens` to what session s holds and a prompt, beside infer_generate in sessions of their own. */
static void best_compare(infer_model *m, infer_session *s, const infer_token *held, int32_t n_held, const char *prompt, int32_t n, int32_t tokens) {
    infer_sampler *samplers[8];
    infer_generate_params p;
    infer_best *best = NULL;
    generate_sink shown;
    double most = -1e300;
    int32_t i, likeliest = 0;
    memset(&p, 0, sizeof p);
    memset(&shown, 0, sizeof shown);
    p.max_tokens = tokens;
    p.ignore_end = 1;
    p.text = generate_text;
    p.user = &shown;
    for (i = 0; i < n; i++) samplers[i] = i == 3 ? NULL : best_sampler(m, (uint64_t)(40 + i));
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    if (n_held) CHECK(infer_session_eval(s, held, n_held) == INFER_OK);
    CHECK(infer_generate_best(s, samplers, n, prompt, &p, &best) == INFER_OK);
    CHECK_STR(infer_session_error(s)->message, "");
    CHECK(best && best->n == n);
    for (i = 0; best && i < n; i++) {
        infer_session *alone = cells_session(m, 512, 0, 2);
        infer_sampler *sampler = i == 3 ? NULL : best_sampler(m, (uint64_t)(40 + i));
        infer_generate_info info;
        best_sum sum;
        memset(&sum, 0, sizeof sum);
        if (n_held) CHECK(infer_session_eval(alone, held, n_held) == INFER_OK);
        memset(&p, 0, sizeof p);
        p.max_tokens = tokens;
        p.ignore_end = 1;
        p.logprobs = 1;
        p.token = best_count;
        p.user = &sum;
        CHECK(infer_generate(alone, sampler, prompt, &p, &info) == INFER_OK);
        CHECK(best->replies[i].n_tokens == sum.n && memcmp(best->replies[i].tokens, sum.ids, (size_t)sum.n * sizeof *sum.ids) == 0);
        CHECK(best->replies[i].logprob == sum.sum / sum.n && best->replies[i].n_text == (size_t)info.bytes);
        CHECK(best->replies[i].info.new_tokens == sum.n && best->replies[i].info.prompt_tokens == info.prompt_tokens && best->replies[i].info.stop_reason == info.stop_reason);
        if (best->replies[i].logprob > most) { most = best->replies[i].logprob; likeliest = i; }
        if (i == best->best) { /* the session holds it, and goes on as that one does */
            CHECK(infer_session_position(s) == infer_session_position(alone));
            CHECK(memcmp(infer_session_tokens(s), infer_session_tokens(alone), (size_t)infer_session_position(s) * sizeof(infer_token)) == 0);
            CHECK(infer_session_logits(s, -1) && memcmp(infer_session_logits(s, -1), infer_session_logits(alone, -1), (size_t)m->hp.n_vocab * sizeof(float)) == 0);
            CHECK(shown.n == best->replies[i].n_text && memcmp(shown.text, best->replies[i].text, shown.n) == 0 && shown.pieces == (shown.n > 0));
        }
        infer_sampler_destroy(sampler);
        infer_session_destroy(alone);
    }
    CHECK(best && best->best == likeliest);
    infer_best_free(best);
    for (i = 0; i < n; i++) CHECK(infer_sampler_destroy(samplers[i]) == INFER_OK);
}

static void test_best_same(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = cells_session(m, 512, 0, 2);
    infer_token held[40];
    int i;
    for (i = 0; i < 40; i++) held[i] = i ? i * 7 % 400 + 3 : 1;
    best_compare(m, s, NULL, 0, "Once upon a time", 5, 20);
    best_compare(m, s, NULL, 0, "Once upon a time, there was a little dog who liked to run in the park with a ball", 8, 30);
    best_compare(m, s, held, 40, NULL, 4, 17); /* what is there already */
    best_compare(m, s, held, 40, " One day", 1, 5);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Other kinds of state; cells for a few replies only, so that some wait. */
static void test_best_kinds(void) {
    infer_model *words = generate_model(NULL);
    infer_token held[50];
    size_t i;
    int k;
    for (k = 0; k < 50; k++) held[k] = k * 5 % 29 + 1;
    for (i = 0; i < INFER__COUNT(queue_files); i += (size_t)check_every(3)) {
        infer_model *m = cache_model(queue_files[i]);
        infer__tokenizer *own = m ? m->tokenizer : NULL;
        infer_session *s;
        if (!m) continue;
        check_detail = queue_files[i];
        m->tokenizer = words->tokenizer; /* these files have no texts of tokens */
        s = cells_session(m, 512, 0, 2);
        best_compare(m, s, held, 50, NULL, 4, 12);
        infer_session_destroy(s);
        s = cells_session(m, 128, 0, 2);
        best_compare(m, s, held, 50, NULL, 6, 24);
        infer_session_destroy(s);
        m->tokenizer = own;
        CHECK(infer_model_close(m) == INFER_OK);
    }
    check_detail = "";
    CHECK(infer_model_close(words) == INFER_OK);
}

static int best_stop(void *user, const char *text, size_t n) { (void)text; (void)n; infer_session_cancel((infer_session *)user); return 0; }
static int best_progress(void *user, float done) { (void)done; if (--*(int *)user == 0) return 1; return 0; }
static void test_best_bad(void) {
    infer_model *m = generate_model(NULL), *t5 = embed_open("t5-dense");
    infer_session *s = generate_session(m, 64), *other = NULL;
    infer_sampler *samplers[3];
    infer_generate_params p;
    infer_best *best = (infer_best *)1;
    infer_session_params sp;
    infer_error e;
    int i, left;
    static const char *const stop[] = { "girl" };
    for (i = 0; i < 3; i++) samplers[i] = best_sampler(m, (uint64_t)i);
    memset(&p, 0, sizeof p);
    p.max_tokens = 6;
    CHECK(infer_generate_best(NULL, samplers, 3, "Once", &p, &best) == INFER_ERR_ARGUMENT && !best);
    CHECK(infer_generate_best(s, samplers, 3, "Once", &p, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_generate_best(s, samplers, 0, "Once", &p, &best) == INFER_ERR_ARGUMENT);
    CHECK(infer_generate_best(s, samplers, 65, "Once", &p, &best) == INFER_ERR_ARGUMENT);
    CHECK(infer_generate_best(s, NULL, 1, "Once", &p, &best) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "samplers is NULL");
    CHECK(infer_sampler_destroy(samplers[2]) == INFER_OK);
    samplers[2] = samplers[0];
    CHECK(infer_generate_best(s, samplers, 3, "Once", &p, &best) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "samplers 0 and 2");
    samplers[2] = NULL;
    p.token = best_count;
    CHECK(infer_generate_best(s, samplers, 3, "Once", &p, &best) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "token must be NULL");
    p.token = NULL;
    p.negative = s;
    CHECK(infer_generate_best(s, samplers, 3, "Once", &p, &best) == INFER_ERR_UNSUPPORTED);
    p.negative = NULL;
    p.draft = s;
    CHECK(infer_generate_best(s, samplers, 3, "Once", &p, &best) == INFER_ERR_ARGUMENT);
    p.draft = NULL;
    p.max_tokens = -1;
    CHECK(infer_generate_best(s, samplers, 3, "Once", &p, &best) == INFER_ERR_ARGUMENT && infer_session_position(s) == 0);
    p.max_tokens = 6;
    CHECK(infer__claim(&samplers[1]->calls)); /* in use elsewhere: the first one is let go */
    CHECK(infer_generate_best(s, samplers, 3, "Once", &p, &best) == INFER_ERR_STATE && !best);
    CHECK_HAS(infer_session_error(s)->message, "sampler");
    infer__unclaim(&samplers[1]->calls);
    CHECK(infer_session_position(s) == 0);
    CHECK(infer_generate_best(s, samplers, 3, "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z", &p, &best) == INFER_CONTEXT_FULL && !best);
    CHECK(infer_session_position(s) == 0);
    /* without a token of text: an end at once */
    {
        infer_stage st[1];
        infer_bias bias[1];
        infer_sampler *end = NULL, *two[2];
        memset(st, 0, sizeof st);
        bias[0].token = infer_token_special(m, INFER_SPECIAL_EOS);
        bias[0].bias = 1e4f;
        st[0].kind = INFER_STAGE_LOGIT_BIAS;
        st[0].bias = bias;
        st[0].n = 1;
        CHECK(infer_sampler_create(&end, m, st, 1, 1, &e) == INFER_OK);
        two[0] = end;
        two[1] = NULL;
        p.stop = stop;
        p.n_stop = 1;
        p.max_tokens = 30;
        CHECK(infer_generate_best(s, two, 2, "Once upon a time", &p, &best) == INFER_OK);
        CHECK(best->best == 1 && best->replies[0].n_tokens == 0 && best->replies[0].logprob < -1e29 && best->replies[0].text[0] == 0);
        CHECK(best->replies[0].info.stop_reason == INFER_STOP_TOKEN && best->replies[1].info.stop_reason == INFER_STOP_STRING);
        CHECK_STR(best->replies[1].text, ", there was a little ");
        infer_best_free(best);
        CHECK(infer_generate_best(s, two, 1, NULL, &p, &best) == INFER_OK && best->best == 0);
        infer_best_free(best);
        infer_sampler_destroy(end);
    }
    infer_session_destroy(s);
    /* cancelled between passes, by the session and by its progress */
    memset(&sp, 0, sizeof sp);
    left = 6;
    sp.context = 128;
    sp.own.cells = 512;
    sp.progress = best_progress;
    sp.progress_user = &left;
    CHECK(infer_session_create(&other, m, &sp, &e) == INFER_OK);
    memset(&p, 0, sizeof p);
    p.max_tokens = 20;
    CHECK(infer_generate_best(other, samplers, 3, "Once upon a time", &p, &best) == INFER_CANCELLED && !best);
    CHECK(infer_session_position(other) == 5);
    left = -1;
    p.text = best_stop;
    p.user = other;
    CHECK(infer_generate_best(other, samplers, 3, NULL, &p, &best) == INFER_OK && infer_session_position(other) > 5);
    infer_best_free(best);
    infer_session_destroy(other);
    if (t5 && infer_session_create(&s, t5, NULL, &e) == INFER_OK) {
        samplers[2] = NULL;
        CHECK(infer_generate_best(s, samplers + 2, 1, "x", NULL, &best) == INFER_ERR_UNSUPPORTED);
        infer_session_destroy(s);
    }
    infer_best_free(NULL);
    for (i = 0; i < 2; i++) CHECK(infer_sampler_destroy(samplers[i]) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(t5) == INFER_OK);
}

/* With an adapter, as alone; not when the tokens there were evaluated without it. */
static void test_best_adapter(void) {
    infer_model *m = generate_model(NULL);
    infer_adapter *a = adapter_of(m, "attn", 2);
    infer_adapter_use use;
    infer_session *s = cells_session(m, 512, 0, 2), *alone = cells_session(m, 512, 0, 2);
    infer_sampler *samplers[3], *sampler = NULL;
    infer_generate_params p;
    infer_best *best = NULL;
    int i;
    memset(&use, 0, sizeof use);
    memset(&p, 0, sizeof p);
    use.adapter = a;
    use.scale = 0.5f;
    p.max_tokens = 20;
    p.ignore_end = 1;
    for (i = 0; i < 3; i++) samplers[i] = best_sampler(m, (uint64_t)i);
    CHECK(infer_session_set_adapters(s, &use, 1) == INFER_OK && infer_session_set_adapters(alone, &use, 1) == INFER_OK);
    CHECK(infer_generate_best(s, samplers, 3, "Once upon a time, there was a little dog who liked to run", &p, &best) == INFER_OK);
    for (i = 0; i < 3 && best; i++) {
        int32_t n;
        sampler = best_sampler(m, (uint64_t)i);
        CHECK(infer_session_rewind(alone, 0) == INFER_OK);
        CHECK(infer_generate(alone, sampler, "Once upon a time, there was a little dog who liked to run", &p, NULL) == INFER_OK);
        n = infer_session_position(alone) - 20;
        CHECK(n > 0 && best->replies[i].n_tokens == 20 && memcmp(best->replies[i].tokens, infer_session_tokens(alone) + n, 20 * sizeof(infer_token)) == 0);
        infer_sampler_destroy(sampler);
    }
    infer_best_free(best);
    CHECK(infer_session_set_adapters(s, NULL, 0) == INFER_OK);
    CHECK(infer_generate_best(s, samplers, 3, " One day", &p, &best) == INFER_ERR_UNSUPPORTED && !best);
    CHECK_HAS(infer_session_error(s)->message, "other adapters");
    for (i = 0; i < 3; i++) CHECK(infer_sampler_destroy(samplers[i]) == INFER_OK);
    infer_session_destroy(s);
    infer_session_destroy(alone);
    CHECK(infer_adapter_close(a) == INFER_OK && infer_model_close(m) == INFER_OK);
}

static void test_best_memory(void) {
    infer_model_params mp;
    infer_model *m;
    long fail, live = check_live;
    int failures = 0;
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    check_fail_at = 0;
    m = generate_model(&mp);
    for (fail = 1; fail < 500; fail += check_every(5)) {
        infer_session *s = generate_session(m, 64);
        infer_sampler *samplers[3];
        infer_generate_params p;
        infer_best *best = NULL;
        infer_result r;
        int used, i;
        for (i = 0; i < 3; i++) samplers[i] = best_sampler(m, (uint64_t)i);
        memset(&p, 0, sizeof p);
        p.max_tokens = 5;
        check_allocs = 0;
        check_fail_at = fail;
        r = infer_generate_best(s, samplers, 3, "Once upon a time", &p, &best);
        used = check_allocs >= fail;
        check_fail_at = 0;
        CHECK((r == INFER_OK || (used && r == INFER_ERR_MEMORY)) && !best == (r != INFER_OK)); /* OK: a pass is tried again */
        failures += r != INFER_OK;
        infer_best_free(best);
        CHECK(infer_generate_best(s, samplers, 3, " One", &p, &best) == INFER_OK);
        infer_best_free(best);
        for (i = 0; i < 3; i++) CHECK(infer_sampler_destroy(samplers[i]) == INFER_OK);
        infer_session_destroy(s);
        if (!used) break;
    }
    CHECK(failures > 10 && fail < 500);
    CHECK(infer_model_close(m) == INFER_OK && check_live == live);
}

static void test_best_bias_text(void) {
    infer_model *m = generate_model(NULL);
    infer_bias bias[4];
    infer_error e;
    infer_token id;
    infer_model_info mi;
    size_t n = 0, len;
    char text[64];
    int tokens = 0, own;
    infer_model_get_info(m, &mi);
    for (id = 0; id < mi.vocab; id++) { /* every token is found by its text */
        CHECK(infer_token_text(m, id, text, sizeof text, &len) == INFER_OK && len <= sizeof text);
        if (len == 0) continue;
        CHECK(infer_bias_text(m, text, len, 2.5f, bias, 4, &n, &e) == INFER_OK && n >= 1 && n <= 4);
        for (own = 0; n > 0 && own < (int)n && bias[own].token != id; own++) {}
        CHECK(own < (int)n && bias[own].bias == 2.5f);
        tokens += n > 1; /* a byte's token beside a usual one */
    }
    CHECK(tokens > 10);
    CHECK(infer_bias_text(m, " girl girl", 10, 1, bias, 4, &n, &e) == INFER_ERR_ARGUMENT && n == 0);
    CHECK_HAS(e.message, "\" girl girl\": no token spells it, it takes 6");
    CHECK(infer_bias_text(m, "a", 1, 1, NULL, 0, &n, &e) == INFER_OK && n > 0);
    CHECK(infer_bias_text(NULL, "a", 1, 1, NULL, 0, &n, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_bias_text(m, "", 0, 1, NULL, 0, &n, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_bias_text(m, NULL, 1, 1, NULL, 0, &n, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_bias_text(m, "a", 1, 1, NULL, 1, &n, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_bias_text(m, "a", 1, 1, bias, 4, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_best(void) {
    RUN(test_best_same);
    RUN(test_best_kinds);
    RUN(test_best_bad);
    RUN(test_best_adapter);
    RUN(test_best_memory);
    RUN(test_best_bias_text);
}
