/* test_guide.c: classifier-free guidance beside the same done by hand: two sessions, logits combined in the test. */

typedef struct guide_pair { infer_model *m; infer_context *context; infer_session *pos, *neg; } guide_pair;
static void guide_open(guide_pair *g, infer_model *m, int apart) {
    infer_context_params cp;
    infer_session_params sp;
    infer_error e;
    memset(g, 0, sizeof *g);
    memset(&cp, 0, sizeof cp);
    memset(&sp, 0, sizeof sp);
    cp.cells = 512;
    cp.threads = 1;
    sp.context = 128;
    g->m = m;
    CHECK(infer_context_create(&g->context, m, &cp, &e) == INFER_OK);
    CHECK(infer_session_create_in(&g->pos, g->context, &sp, &e) == INFER_OK);
    if (apart) g->neg = generate_session(m, 128);
    else CHECK(infer_session_create_in(&g->neg, g->context, &sp, &e) == INFER_OK);
}
static void guide_close(guide_pair *g) {
    infer_session_destroy(g->pos);
    infer_session_destroy(g->neg);
    CHECK(infer_context_destroy(g->context) == INFER_OK);
}
static void guide_hold(infer_session *s, const char *text) {
    infer_token ids[64];
    size_t n = 0;
    CHECK(infer_tokenize(s->context->model, text, strlen(text), INFER_TEXT_ADD_SPECIAL, ids, 64, &n, NULL) == INFER_OK);
    CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, (int32_t)n) == INFER_OK);
}

/* neg + scale * (pos - neg) of log softmaxes. */
static void guide_by_hand(const float *pos, const float *neg, int32_t n, float scale, float *out) {
    double a = pos[0], b = neg[0], sa = 0, sb = 0;
    int32_t i;
    for (i = 1; i < n; i++) {
        if (pos[i] > a) a = pos[i];
        if (neg[i] > b) b = neg[i];
    }
    for (i = 0; i < n; i++) {
        sa += exp((double)pos[i] - a);
        sb += exp((double)neg[i] - b);
    }
    for (i = 0; i < n; i++) {
        const double p = (double)pos[i] - a - log(sa), q = (double)neg[i] - b - log(sb);
        out[i] = (float)(q + scale * (p - q));
    }
}

static infer_sampler *guide_sampler(infer_model *m, int greedy) {
    infer_sampler *s = NULL;
    infer_stage st[2];
    memset(st, 0, sizeof st);
    st[0].kind = INFER_STAGE_TOP_K;
    st[0].p[0] = 20;
    st[1].kind = INFER_STAGE_TEMPERATURE;
    st[1].p[0] = 0.9f;
    if (!greedy) CHECK(infer_sampler_create(&s, m, st, 2, 5, NULL) == INFER_OK);
    return s;
}

static void test_guide_same(void) {
    enum { N = 24 };
    static const float scales[] = { 1.5f, 3, 1, -0.5f };
    infer_model *m = generate_model(NULL);
    guide_pair a, b;
    infer_model_info mi;
    infer_token want[N], plain[N], strong[N];
    float *row;
    size_t k;
    int way, i, differ = 0;
    infer_model_get_info(m, &mi);
    row = (float *)malloc((size_t)mi.vocab * sizeof *row);
    for (k = 0; k < INFER__COUNT(scales); k++)
        for (way = 0; way < 4; way++) { /* greedy or not; one context or two */
            infer_sampler *by_hand = guide_sampler(m, way & 1), *ours = guide_sampler(m, way & 1);
            generate_sink sink;
            infer_generate_params p = generate_params(&sink, N);
            infer_generate_info info;
            guide_open(&a, m, 0);
            guide_open(&b, m, way & 2);
            guide_hold(a.pos, "Once upon a time");
            guide_hold(a.neg, "The dog was sad");
            for (i = 0; i < N; i++) {
                guide_by_hand(infer_session_logits(a.pos, -1), infer_session_logits(a.neg, -1), mi.vocab, scales[k], row);
                if (by_hand) CHECK(infer_sampler_sample(by_hand, row, mi.vocab, &want[i], NULL) == INFER_OK && infer_sampler_accept(by_hand, want[i]) == INFER_OK);
                else {
                    int32_t j, best = 0;
                    for (j = 1; j < mi.vocab; j++) if (row[j] > row[best]) best = j;
                    want[i] = best;
                }
                CHECK(infer_session_eval(a.pos, &want[i], 1) == INFER_OK && infer_session_eval(a.neg, &want[i], 1) == INFER_OK);
            }
            guide_hold(b.neg, "The dog was sad");
            p.negative = b.neg;
            p.guidance = scales[k];
            p.ignore_end = 1;
            CHECK(infer_generate(b.pos, ours, "Once upon a time", &p, &info) == INFER_OK && info.new_tokens == N);
            CHECK(memcmp(sink.ids, want, sizeof want) == 0);
            CHECK(infer_session_position(b.neg) == infer_session_position(a.neg) && infer_session_position(b.pos) == infer_session_position(a.pos));
            CHECK(memcmp(infer_session_tokens(b.neg), infer_session_tokens(a.neg), (size_t)infer_session_position(a.neg) * sizeof(infer_token)) == 0);
            if (scales[k] == 3) memcpy(strong, want, sizeof strong);
            if (scales[k] == 1) memcpy(plain, want, sizeof plain);
            infer_sampler_destroy(by_hand);
            infer_sampler_destroy(ours);
            guide_close(&a);
            guide_close(&b);
        }
    guide_open(&a, m, 0); /* scale 1 greedy is the text without guidance; 0 in guidance is 1.5 */
    {
        generate_sink s1, s2;
        infer_generate_params p = generate_params(&s1, N);
        guide_hold(a.neg, "The dog was sad");
        p.ignore_end = 1;
        p.negative = a.neg;
        CHECK(infer_generate(a.pos, NULL, "Once upon a time", &p, NULL) == INFER_OK);
        guide_hold(a.neg, "The dog was sad");
        CHECK(infer_session_rewind(a.pos, 0) == INFER_OK);
        p = generate_params(&s2, N);
        p.ignore_end = 1;
        p.negative = a.neg;
        p.guidance = 1.5f;
        CHECK(infer_generate(a.pos, NULL, "Once upon a time", &p, NULL) == INFER_OK && memcmp(s1.ids, s2.ids, N * sizeof(infer_token)) == 0);
        CHECK(infer_session_rewind(a.pos, 0) == INFER_OK);
        p = generate_params(&s2, N);
        p.ignore_end = 1;
        CHECK(infer_generate(a.pos, NULL, "Once upon a time", &p, NULL) == INFER_OK);
        for (i = 0; i < N; i++) differ += strong[i] != s2.ids[i];
        CHECK(differ > 0 && memcmp(s2.ids, plain, sizeof plain) == 0);
    }
    guide_close(&a);
    free(row);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* In pieces, with a stop string, a grammar, an end token: the same text, and the model's own logits are left. */
static void test_guide_with_others(void) {
    infer_model *m = generate_model(NULL);
    guide_pair a, b;
    generate_sink k, k2;
    infer_generate_info info;
    infer_generate_params p = generate_params(&k, 30);
    infer_grammar *grammar = NULL;
    infer_grammar_params gp;
    infer_sampler *sampler = NULL;
    infer_stage st[1];
    infer_bias bias[1];
    static const char *const stop[] = { "her " };
    float *before;
    infer_model_info mi;
    int i;
    infer_model_get_info(m, &mi);
    guide_open(&a, m, 0);
    guide_open(&b, m, 0);
    guide_hold(a.neg, "The dog was sad");
    p.negative = a.neg;
    p.guidance = 2;
    CHECK(infer_generate(a.pos, NULL, "Once upon a time", &p, &info) == INFER_OK && info.new_tokens == 30);
    guide_hold(b.neg, "The dog was sad");
    p = generate_params(&k2, 1);
    p.negative = b.neg;
    p.guidance = 2;
    for (i = 0; i < 30; i++) CHECK(infer_generate(b.pos, NULL, i ? NULL : "Once upon a time", &p, &info) == INFER_OK);
    CHECK_STR(k.text, k2.text);
    /* a token that ends it is not evaluated: the row is the model's again, and so is what follows */
    memset(st, 0, sizeof st);
    st[0].kind = INFER_STAGE_LOGIT_BIAS;
    st[0].bias = bias;
    st[0].n = 1;
    bias[0].token = infer_token_special(m, INFER_SPECIAL_EOS);
    bias[0].bias = 1e4f;
    CHECK(infer_sampler_create(&sampler, m, st, 1, 1, NULL) == INFER_OK);
    before = (float *)malloc((size_t)mi.vocab * sizeof *before);
    memcpy(before, infer_session_logits(b.pos, -1), (size_t)mi.vocab * sizeof *before);
    CHECK(infer_generate(b.pos, sampler, NULL, &p, &info) == INFER_OK && info.stop_reason == INFER_STOP_TOKEN && info.new_tokens == 0);
    CHECK(memcmp(before, infer_session_logits(b.pos, -1), (size_t)mi.vocab * sizeof *before) == 0);
    free(before);
    infer_sampler_destroy(sampler);
    p.max_tokens = 40;
    CHECK(infer_generate(b.pos, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens > 0);
    /* a stop string */
    guide_hold(b.neg, "The dog was sad");
    CHECK(infer_session_rewind(b.pos, 0) == INFER_OK);
    p = generate_params(&k2, 60);
    p.negative = b.neg;
    p.guidance = 2;
    p.stop = stop;
    p.n_stop = 1;
    p.logprobs = 2;
    CHECK(infer_generate(b.pos, NULL, "Once upon a time", &p, &info) == INFER_OK);
    CHECK(info.stop_reason != INFER_STOP_STRING || !strstr(k2.text, "her "));
    CHECK(strncmp(k.text, k2.text, INFER__MIN(k.n, k2.n)) == 0 && k2.n > 0);
    /* a grammar */
    memset(&gp, 0, sizeof gp);
    gp.gbnf = "root ::= \" yes\" | \" no\"";
    CHECK(infer_grammar_create(&grammar, m, &gp, NULL) == INFER_OK);
    st[0].kind = INFER_STAGE_GRAMMAR;
    st[0].bias = NULL;
    st[0].n = 0;
    st[0].grammar = grammar;
    CHECK(infer_sampler_create(&sampler, m, st, 1, 1, NULL) == INFER_OK);
    p = generate_params(&k2, 60);
    p.negative = b.neg;
    p.guidance = 2;
    CHECK(infer_generate(b.pos, sampler, NULL, &p, &info) == INFER_OK && (strcmp(k2.text, " yes") == 0 || strcmp(k2.text, " no") == 0));
    infer_sampler_destroy(sampler);
    infer_grammar_destroy(grammar);
    guide_close(&a);
    guide_close(&b);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_guide_bad(void) {
    static const queue_way way = { 2, 0, 0, 0, 0, 0, 64 };
    infer_model *m = generate_model(NULL), *other = generate_model(NULL);
    guide_pair a;
    infer_session *foreign = generate_session(other, 32), *narrow = generate_session(m, 8);
    infer_queue *q = queue_open(m, &way);
    infer_request_params rp;
    infer_request *r = NULL;
    infer_generate_params zero, p;
    infer_generate_info info;
    generate_sink k;
    infer_error e;
    const float big[1] = { 1e30f };
    memset(&zero, 0, sizeof zero);
    guide_open(&a, m, 0);
    p = zero; p.negative = a.neg; generate_bad(a.pos, &p, "holds no tokens");
    guide_hold(a.neg, "The dog");
    p = zero; p.negative = a.pos; generate_bad(a.pos, &p, "the session itself");
    p = zero; p.negative = foreign; generate_bad(a.pos, &p, "another model");
    p = zero; p.negative = a.neg; p.guidance = big[0] * big[0]; generate_bad(a.pos, &p, "not finite");
    p = zero; p.negative = a.neg; p.lookup = 1;
    CHECK(infer_generate(a.pos, NULL, "Once", &p, NULL) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(infer_session_error(a.pos)->message, "drafts (lookup)");
    p = zero; p.negative = a.neg; p.draft = narrow;
    CHECK(infer_generate(a.pos, NULL, "Once", &p, NULL) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(infer_session_error(a.pos)->message, "drafts (draft)");
    p = zero; p.negative = a.neg; p.on_full = INFER_FULL_SLIDE;
    CHECK(infer_generate(a.pos, NULL, "Once", &p, NULL) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(infer_session_error(a.pos)->message, "on_full");
    memset(&rp, 0, sizeof rp);
    rp.prompt = "Once";
    rp.generate.negative = a.neg;
    rp.generate.max_tokens = 1;
    CHECK(infer_queue_submit(q, &rp, &r, &e) == INFER_ERR_UNSUPPORTED && !r);
    CHECK_HAS(e.message, "negative");
    /* the negative session is full: as a full context */
    guide_hold(narrow, "The dog");
    p = generate_params(&k, 30);
    p.negative = narrow;
    CHECK(infer_generate(a.pos, NULL, "Once", &p, &info) == INFER_OK && info.stop_reason == INFER_STOP_FULL);
    CHECK(info.new_tokens > 0 && infer_session_position(narrow) == 8);
    /* it is free again, and may have been rewound */
    CHECK(infer_session_rewind(narrow, 2) == INFER_OK);
    p.max_tokens = 3;
    CHECK(infer_generate(a.pos, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens == 3 && infer_session_position(narrow) == 5);
    infer_session_destroy(foreign);
    infer_session_destroy(narrow);
    guide_close(&a);
    CHECK(infer_queue_destroy(q) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(other) == INFER_OK);
}

static void test_guide_memory(void) {
    infer_model_params mp;
    infer_model *m;
    long fail, live = check_live;
    int failures = 0;
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    check_fail_at = 0;
    m = generate_model(&mp);
    for (fail = 1; fail < 100; fail++) {
        guide_pair a;
        generate_sink k;
        infer_generate_params p = generate_params(&k, 6);
        infer_result r;
        int used;
        guide_open(&a, m, 0);
        guide_hold(a.neg, "The dog");
        p.negative = a.neg;
        p.min_tokens = 2;
        p.logprobs = 1;
        check_allocs = 0;
        check_fail_at = fail;
        r = infer_generate(a.pos, NULL, "Once", &p, NULL);
        used = check_allocs >= fail;
        check_fail_at = 0;
        CHECK(r == (used ? INFER_ERR_MEMORY : INFER_OK));
        failures += r != INFER_OK;
        CHECK(infer_generate(a.pos, NULL, "One", &p, NULL) == INFER_OK);
        guide_close(&a);
        if (!used) break;
    }
    CHECK(failures > 3 && fail < 100);
    CHECK(infer_model_close(m) == INFER_OK && check_live == live);
}

/* Piece by piece, in slices of the least there is: the same tokens; given up in the middle of a token, neither session has it. */
static void test_guide_slices(void) {
    enum { N = 12 };
    infer_model *m = generate_model(NULL);
    guide_pair a;
    generate_sink want, sink;
    infer_generate_info got;
    infer_generation *x = NULL;
    infer_generate_params p;
    infer_token stop;
    int apart, within, i, pos, neg;
    for (apart = 0; apart < 2; apart++) {
        guide_open(&a, m, apart);
        guide_hold(a.neg, "The dog was sad");
        p = generate_params(&want, N);
        p.ignore_end = 1;
        p.negative = a.neg;
        CHECK(infer_generate(a.pos, NULL, "Once upon a time", &p, NULL) == INFER_OK);
        guide_hold(a.neg, "The dog was sad");
        CHECK(infer_session_rewind(a.pos, 0) == INFER_OK);
        p = generate_params(&sink, N);
        p.text = NULL;
        p.ignore_end = 1;
        p.negative = a.neg;
        stop = want.ids[N - 1];
        p.stop_tokens = &stop;
        p.n_stop_tokens = 1;
        CHECK(infer_generation_begin(&x, a.pos, NULL, "Once upon a time", &p, NULL) == INFER_OK);
        stop = 0; /* it was copied */
        for (within = 0; infer_generation_next(x, 0, NULL, NULL) == INFER_MORE;) within += a.pos->paused || a.neg->paused;
        CHECK(infer_generation_info(x, &got) == INFER_OK && infer_generation_end(x) == INFER_OK && within > N);
        CHECK(got.stop_reason == INFER_STOP_TOKEN && got.new_tokens >= 1 && got.new_tokens < N);
        CHECK(memcmp(infer_session_tokens(a.pos) + a.pos->n - got.new_tokens, want.ids, (size_t)got.new_tokens * sizeof(infer_token)) == 0);
        CHECK(!a.pos->paused && !a.neg->paused);
        for (i = 1; i < 40; i += 3) { /* given up after so many slices */
            int k;
            guide_hold(a.neg, "The dog was sad");
            neg = infer_session_position(a.neg);
            guide_hold(a.pos, "Once upon a time");
            pos = infer_session_position(a.pos);
            p = generate_params(&sink, N);
            p.text = NULL;
            p.ignore_end = 1;
            p.negative = a.neg;
            CHECK(infer_generation_begin(&x, a.pos, NULL, NULL, &p, NULL) == INFER_OK);
            for (k = 0; k < i && infer_generation_next(x, 0, NULL, NULL) == INFER_MORE; k++) {}
            CHECK(infer_generation_info(x, &got) == INFER_OK && infer_generation_end(x) == INFER_OK);
            CHECK(infer_session_position(a.pos) == pos + got.new_tokens && infer_session_position(a.neg) == neg + got.new_tokens);
            CHECK(memcmp(infer_session_tokens(a.pos) + pos, want.ids, (size_t)got.new_tokens * sizeof(infer_token)) == 0);
        }
        guide_close(&a);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_guide(void) {
    RUN(test_guide_same);
    RUN(test_guide_with_others);
    RUN(test_guide_slices);
    RUN(test_guide_bad);
    RUN(test_guide_memory);
}
