/* test_constrained.c: grammars through the public interface: objects that need each other, sampling and generating under a
 * grammar, lazy grammars in a generation. Uses generate_* of test_generate.c. */

static infer_model *constrained_model(void) {
    infer_model *m = NULL;
    infer_error err;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &err) != INFER_OK) check_note(__FILE__, __LINE__, err.message);
    return m;
}
static infer_sampler *constrained_sampler(infer_model *m, infer_grammar *g, int greedy, uint64_t seed) {
    infer_stage st[2];
    infer_sampler *s = NULL;
    infer_error err;
    memset(st, 0, sizeof st);
    st[0].kind = INFER_STAGE_GRAMMAR;
    st[0].grammar = g;
    st[1].kind = INFER_STAGE_GREEDY;
    if (infer_sampler_create(&s, m, st, greedy ? 2 : 1, seed, &err) != INFER_OK) check_note(__FILE__, __LINE__, err.message);
    return s;
}

static void test_constrained_objects(void) {
    infer_model *m = constrained_model(), *other = constrained_model();
    infer_grammar *g = NULL, *alone = NULL;
    infer_grammar_params p;
    infer_sampler *s, *none = NULL;
    infer_stage st;
    infer_error err;
    size_t bytes = 9;
    int32_t complete = 9;
    memset(&p, 0, sizeof p);
    CHECK(infer_grammar_create(&g, m, &p, &err) == INFER_ERR_ARGUMENT && !g);
    CHECK_HAS(err.message, "one of gbnf, schema and json");
    p.gbnf = "root ::= \"a\"+ \"b\"";
    p.json = 1;
    CHECK(infer_grammar_create(&g, m, &p, &err) == INFER_ERR_ARGUMENT && !g);
    p.json = 0;
    CHECK(infer_grammar_create(NULL, m, &p, &err) == INFER_ERR_ARGUMENT && infer_grammar_create(&g, m, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_grammar_create(&g, m, &p, &err) == INFER_OK && err.code == INFER_OK);
    CHECK(infer_grammar_create(&alone, NULL, &p, &err) == INFER_OK);
    CHECK(infer_grammar_check(g, "aab", 3, &bytes, &complete, &err) == INFER_OK && bytes == 3 && complete == 1);
    CHECK(infer_grammar_check(alone, "aaxb", 4, &bytes, &complete, &err) == INFER_OK && bytes == 2 && complete == 0);
    CHECK(infer_grammar_check(alone, "aa", 2, NULL, &complete, NULL) == INFER_OK && complete == 0);
    CHECK(infer_grammar_check(NULL, "a", 1, &bytes, &complete, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_grammar_check(g, NULL, 1, &bytes, &complete, &err) == INFER_ERR_ARGUMENT);
    memset(&st, 0, sizeof st);
    st.kind = INFER_STAGE_GRAMMAR;
    CHECK(infer_sampler_create(&none, m, &st, 1, 1, &err) == INFER_ERR_ARGUMENT && !none);
    st.grammar = alone;
    CHECK(infer_sampler_create(&none, m, &st, 1, 1, &err) == INFER_ERR_ARGUMENT && !none);
    CHECK_HAS(err.message, "another model");
    st.grammar = g;
    CHECK(infer_sampler_create(&none, other, &st, 1, 1, &err) == INFER_ERR_ARGUMENT && !none);
    s = constrained_sampler(m, g, 0, 1);
    CHECK(infer_grammar_destroy(g) == INFER_OK && infer_sampler_accept(s, 0) != INFER_ERR_ARGUMENT); /* the sampler uses it */
    infer_sampler_destroy(s);
    CHECK(infer_grammar_destroy(alone) == INFER_OK && infer_grammar_destroy(NULL) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(other) == INFER_OK);
}

/* Generate; the text must be a text of the grammar when the grammar ended it. */
static void constrained_generate(infer_session *session, infer_model *m, const char *gbnf, int rounds, int want_end) {
    infer_grammar_params p;
    infer_grammar *g = NULL;
    infer_error err;
    int i;
    memset(&p, 0, sizeof p);
    p.gbnf = gbnf;
    p.json = gbnf == NULL;
    check_detail = gbnf ? gbnf : "json";
    if (infer_grammar_create(&g, m, &p, &err) != INFER_OK) { check_note(__FILE__, __LINE__, err.message); return; }
    for (i = 0; i < rounds; i++) {
        generate_sink k;
        infer_generate_params gp = generate_params(&k, 100);
        infer_generate_info info;
        infer_sampler *s = constrained_sampler(m, g, 0, (uint64_t)i);
        size_t bytes;
        int32_t complete;
        CHECK(infer_session_rewind(session, 0) == INFER_OK);
        if (infer_generate(session, s, "Once upon a time", &gp, &info) != INFER_OK) check_note(__FILE__, __LINE__, infer_session_error(session)->message);
        CHECK(infer_grammar_check(g, k.text, k.n, &bytes, &complete, &err) == INFER_OK && bytes == k.n);
        CHECK(info.stop_reason == INFER_STOP_LIMIT || complete);
        if (want_end) CHECK(info.stop_reason == want_end && complete);
        infer_sampler_destroy(s);
    }
    CHECK(infer_grammar_destroy(g) == INFER_OK);
}

static void test_constrained_generate(void) {
    infer_model *m = constrained_model();
    infer_session *session = NULL;
    infer_error err;
    CHECK(infer_session_create(&session, m, NULL, &err) == INFER_OK);
    constrained_generate(session, m, "root ::= \", there was a \" (\"cat\" | \"dog\") [a-z ]{0,20} \".\"", 20, INFER_STOP_GRAMMAR);
    constrained_generate(session, m, "root ::= [0-9]{3} \"-\" [0-9]{4}", 20, INFER_STOP_GRAMMAR);
    constrained_generate(session, m, "root ::= \"[\" (\"(\" [a-z]{1,6} \")\"){1,3} \"]\"", 20, INFER_STOP_GRAMMAR);
    constrained_generate(session, m, "root ::= [a-z ]+", 5, 0); /* the end token stops it, or the limit */
    constrained_generate(session, m, NULL, 20, 0);
    infer_session_destroy(session);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Without a trigger the text is what it is without a grammar; behind one it is the grammar's. */
static void test_constrained_lazy(void) {
    static const char *const never[] = { "zebra" }, *const often[] = { " there" };
    infer_model *m = constrained_model();
    infer_session *session = NULL;
    infer_grammar_params p;
    infer_error err;
    int pass;
    CHECK(infer_session_create(&session, m, NULL, &err) == INFER_OK);
    for (pass = 0; pass < 2; pass++) {
        generate_sink k;
        infer_generate_params gp = generate_params(&k, 60);
        infer_generate_info info;
        infer_grammar *g = NULL;
        infer_sampler *s;
        memset(&p, 0, sizeof p);
        p.gbnf = "root ::= \" there\" \" lived \" (\"a cat\" | \"a king\")";
        p.trigger_words = pass ? often : never;
        p.n_trigger_words = 1;
        CHECK(infer_grammar_create(&g, m, &p, &err) == INFER_OK);
        s = constrained_sampler(m, g, 1, 1);
        CHECK(infer_session_rewind(session, 0) == INFER_OK);
        CHECK(infer_generate(session, s, "Once upon a time", &gp, &info) == INFER_OK);
        k.text[INFER__MIN(k.n, sizeof k.text - 1)] = 0;
        if (pass == 0) CHECK(strncmp(k.text, generate_story, 60) == 0 && info.stop_reason == INFER_STOP_LIMIT);
        else CHECK(info.stop_reason == INFER_STOP_GRAMMAR && (strcmp(k.text, ", there lived a cat") == 0 || strcmp(k.text, ", there lived a king") == 0));
        infer_sampler_destroy(s);
        CHECK(infer_grammar_destroy(g) == INFER_OK);
    }
    infer_session_destroy(session);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_constrained(void) {
    RUN(test_constrained_objects);
    RUN(test_constrained_generate);
    RUN(test_constrained_lazy);
}
