/* test_versions.c: which versions of infer.h fit which library, and fields that later versions may add (section 20 of the manual): they
 * must be 0, and each struct of parameters says so by name. */

static void test_versions_fit(void) {
    static const struct { uint32_t program, library; int fits; } cases[] = {
        { 0x000100, 0x000100, 1 }, { 0x000107, 0x000100, 1 }, { 0x000100, 0x000107, 1 }, { 0x000100, 0x000200, 0 }, { 0x000200, 0x000100, 0 },
        { 0x010000, 0x010000, 1 }, { 0x010000, 0x010300, 1 }, { 0x010305, 0x010300, 1 }, { 0x010400, 0x0103ff, 0 }, { 0x010000, 0x020000, 0 },
        { 0x020000, 0x010000, 0 }, { 0x000100, 0x010000, 0 }, { 0x010000, 0x000100, 0 }, { 0, 0x000100, 0 }, { 0xffffffff, 0x000100, 0 },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) CHECK(infer__version_fits(cases[i].program, cases[i].library) == cases[i].fits);
}

/* Every reserved field of a struct, one after the other; `call` returns what the call said of it, and fills e. */
#define RESERVED_REFUSED(p, name, call)                                                                                  \
    do {                                                                                                                 \
        int32_t reserved_;                                                                                               \
        for (reserved_ = 0; reserved_ < INFER__RESERVED; reserved_++) {                                                  \
            (p).reserved[reserved_] = (uint64_t)1 << 63 >> 21 * reserved_;                                               \
            infer__error_clear(&e);                                                                                      \
            CHECK((call) == INFER_ERR_ARGUMENT);                                                                         \
            CHECK_HAS(e.message, name ".reserved is not 0");                                                             \
            (p).reserved[reserved_] = 0;                                                                                 \
        }                                                                                                                \
    } while (0)

static infer_result versions_error(infer_session *s, infer_result r, infer_error *e) {
    *e = *infer_session_error(s);
    return r;
}

static void test_versions_reserved(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    const infer_token ids[] = { 1, 2 };
    infer_token out[4];
    infer_model_params mp = { 0 };
    infer_context_params cp = { 0 };
    infer_session_params sp = { 0 };
    infer_generate_params gp = { 0 };
    infer_fill_params fp = { 0 };
    infer_embed_params ep = { 0 };
    infer_queue_params qp = { 0 };
    infer_request_params rp = { 0 };
    infer_model *m = NULL;
    infer_context *c = NULL;
    infer_session *s = NULL;
    infer_queue *q = NULL;
    infer_generation *g = NULL;
    infer_best *best = NULL;
    infer_sampler *one[1] = { NULL };
    const char *texts[] = { "a" };
    float vectors[64];
    infer_error e;
    RESERVED_REFUSED(mp, "model_params", infer_model_open(&m, path, &mp, &e));
    RESERVED_REFUSED(mp.fit, "fit", infer_model_open(&m, path, &mp, &e));
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_OK);
    if (!m) return;
    RESERVED_REFUSED(cp, "context_params", infer_context_create(&c, m, &cp, &e));
    RESERVED_REFUSED(sp.own, "context_params", infer_session_create(&s, m, &sp, &e));
    RESERVED_REFUSED(sp, "session_params", infer_session_create(&s, m, &sp, &e));
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_OK);
    RESERVED_REFUSED(sp, "session_params", infer_session_create_in(&s, c, &sp, &e));
    CHECK(infer_session_create_in(&s, c, &sp, &e) == INFER_OK);
    gp.max_tokens = fp.n = 1;
    RESERVED_REFUSED(gp, "generate_params", versions_error(s, infer_generate(s, NULL, "a", &gp, NULL), &e));
    RESERVED_REFUSED(gp, "generate_params", infer_generation_begin(&g, s, NULL, "a", &gp, &e));
    RESERVED_REFUSED(gp, "generate_params", versions_error(s, infer_generate_best(s, one, 1, "a", &gp, &best), &e));
    RESERVED_REFUSED(fp, "fill_params", versions_error(s, infer_session_fill(s, NULL, ids, 2, &fp, out), &e));
    RESERVED_REFUSED(ep, "embed_params", infer_embed(c, texts, 1, &ep, vectors, &e));
    RESERVED_REFUSED(qp, "queue_params", infer_queue_create(&q, m, &qp, &e));
    CHECK(infer_queue_create(&q, m, &qp, &e) == INFER_OK);
    rp.prompt = "a";
    RESERVED_REFUSED(rp, "request_params", infer_queue_submit(q, &rp, NULL, &e));
    RESERVED_REFUSED(rp.generate, "generate_params", infer_queue_submit(q, &rp, NULL, &e));
    CHECK(infer_queue_destroy(q) == INFER_OK && infer_session_destroy(s) == INFER_OK && infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

#if !defined(INFER_NO_CHAT) && !defined(INFER_NO_GRAMMAR)
static void test_versions_reserved_text(void) {
    const infer_chat_message hello = { "user", "a", 0, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, { 0 } };
    infer_chat_message messages[2];
    infer_chat_params cp = { 0 };
    infer_chat_parser_params pp = { 0 };
    infer_template_params tp = { 0 };
    infer_grammar_params gp = { 0 };
    infer_chat_grammar_params cgp = { 0 };
    infer_template *t = NULL;
    infer_rendering *shown = NULL;
    infer_json *json = NULL;
    infer_grammar *grammar = NULL;
    infer_chat_parser *parser = NULL;
    infer_error e;
    messages[0] = messages[1] = hello;
    cp.messages = messages;
    cp.n_messages = 2;
    cp.template_text = "{{ messages[0].content }}";
    RESERVED_REFUSED(cp, "chat_params", infer_chat_render(NULL, &cp, &shown, &e));
    RESERVED_REFUSED(messages[1], "a chat_message", infer_chat_render(NULL, &cp, &shown, &e));
    pp.format = "plain";
    RESERVED_REFUSED(pp, "chat_parser_params", infer_chat_parser_create(&parser, NULL, &pp, &e));
    gp.json = 1;
    RESERVED_REFUSED(gp, "grammar_params", infer_grammar_create(&grammar, NULL, &gp, &e));
    RESERVED_REFUSED(cgp, "chat_grammar_params", infer_chat_grammar(&grammar, (infer_model *)&cp, &cp, &cgp, &e)); /* not looked at */
    CHECK(infer_template_create(&t, "a", 1, NULL, &e) == INFER_OK && infer_json_parse(&json, "{}", 2, NULL, &e) == INFER_OK);
    RESERVED_REFUSED(tp, "template_params", infer_template_render(t, json, &tp, &shown, &e));
    infer_template_destroy(t);
    infer_json_free(json);
}
#endif

static void suite_versions(void) {
    RUN(test_versions_fit);
    RUN(test_versions_reserved);
#if !defined(INFER_NO_CHAT) && !defined(INFER_NO_GRAMMAR)
    RUN(test_versions_reserved_text);
#endif
}
