/* test_infill.c: the tokens that ask for what belongs between two texts: their order, what is cut, and texts that begin in the middle. */

static size_t infill_ids(const infer_model *m, const char *text, int32_t flags, infer_token *out, size_t cap) {
    size_t n = 0;
    CHECK(infer__tokenize(m->tokenizer, &((infer_model *)(uintptr_t)m)->mem, text, strlen(text), flags, out, cap, &n, NULL) == INFER_OK && n <= cap);
    return n;
}

/* bos, prefix mark, the last `keep` of prefix, suffix mark, the first `begin` of suffix, middle mark. */
static void infill_is(const infer_model *m, const char *prefix, const char *suffix, int32_t most, size_t keep, size_t begin) {
    infer_token want[300], got[300], part[300];
    const int32_t bos = infer__tokenizer_adds_bos(m->tokenizer) ? infer_token_special(m, INFER_SPECIAL_BOS) : -1;
    infer_error e;
    size_t n = 0, k, count = 0;
    if (bos >= 0) want[n++] = bos;
    want[n++] = infer_token_special(m, INFER_SPECIAL_FIM_PRE);
    k = infill_ids(m, prefix, 0, part, 300);
    keep = INFER__MIN(keep, k);
    memcpy(want + n, part + k - keep, keep * sizeof *part);
    n += keep;
    want[n++] = infer_token_special(m, INFER_SPECIAL_FIM_SUF);
    k = infill_ids(m, suffix, INFER__TEXT_INSIDE, part, 300);
    begin = INFER__MIN(begin, k);
    memcpy(want + n, part, begin * sizeof *part);
    n += begin;
    want[n++] = infer_token_special(m, INFER_SPECIAL_FIM_MID);
    if (infer_infill(m, prefix, strlen(prefix), suffix, strlen(suffix), most, got, 300, &count, &e)) check_note(__FILE__, __LINE__, e.message);
    CHECK(count == n && memcmp(got, want, n * sizeof *got) == 0);
    CHECK(most == 0 || count <= (size_t)most);
    memset(got, 0xff, sizeof got);
    CHECK(infer_infill(m, prefix, strlen(prefix), suffix, strlen(suffix), most, got, 2, &count, &e) == INFER_OK && count == n && got[1] == want[1] && got[2] == -1);
}

static void infill_model(infer_model *m) {
    static const char prefix[] = "def add(a, b):\n    \"\"\"Adds.\"\"\"\n    return ", suffix[] = "\n\nprint(add(1, 2))\n";
    infill_is(m, prefix, suffix, 0, 300, 300);
    infill_is(m, "", "", 0, 0, 0);
    infill_is(m, prefix, "", 0, 300, 0);
    infill_is(m, "<|im_end|></s>", suffix, 0, 300, 300); /* text of control tokens is text */
}

static void test_infill_forms(void) {
    infer_model *m = NULL;
    infer_error e;
    infer_token ids[64];
    char text[256];
    size_t n = 0, k;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    CHECK(infer_infill(m, "a", 1, "b", 1, 0, ids, 64, &n, &e) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(e.message, "no token for the prefix");
    m->tokenizer->vocab.special[INFER_SPECIAL_FIM_PRE] = 300;
    m->tokenizer->vocab.special[INFER_SPECIAL_FIM_SUF] = 301;
    CHECK(infer_infill(m, "a", 1, "b", 1, 0, ids, 64, &n, &e) == INFER_ERR_UNSUPPORTED);
    m->tokenizer->vocab.special[INFER_SPECIAL_FIM_MID] = 302;
    infill_model(m);
    /* a text that begins in the middle gets no space in front (SentencePiece puts one before others) */
    k = infill_ids(m, "and more", INFER__TEXT_INSIDE, ids, 64);
    CHECK(infer__token_text(m->tokenizer, ids[0], text, sizeof text, &n) == INFER_OK && n > 0 && text[0] == 'a');
    k = infill_ids(m, "and more", 0, ids, 64);
    CHECK(infer__token_text(m->tokenizer, ids[0], text, sizeof text, &n) == INFER_OK && text[0] == ' ');
    CHECK(k > 0);
    CHECK(infer_infill(m, "a", 1, "b", 1, 3, ids, 64, &n, &e) == INFER_ERR_ARGUMENT && infer_infill(m, "a", 1, "b", 1, -1, ids, 64, &n, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_infill(NULL, "a", 1, "b", 1, 0, ids, 64, &n, &e) == INFER_ERR_ARGUMENT && infer_infill(m, NULL, 1, "b", 1, 0, ids, 64, &n, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_infill(m, "a", 1, "b", 1, 0, NULL, 4, &n, &e) == INFER_ERR_ARGUMENT && infer_infill(m, "a", 1, "b", 1, 0, NULL, 0, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Prefix and suffix of so many tokens, in room for `most` with BOS: three quarters for the prefix, unless one needs less. */
static void test_infill_room(void) {
    static const struct { int32_t most; size_t prefix, suffix, keep, begin; } cases[] = {
        { 44, 100, 100, 30, 10 }, { 44, 100, 5, 35, 5 }, { 44, 8, 100, 8, 32 }, { 44, 30, 100, 30, 10 }, { 44, 31, 9, 31, 9 }, { 4, 9, 9, 0, 0 }, { 5, 9, 9, 1, 0 }, { 500, 100, 100, 100, 100 } };
    infer_model *m = NULL;
    infer_error e;
    char prefix[256], suffix[256];
    infer_token ids[300];
    size_t i, one;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (i = 0; i < 3; i++) m->tokenizer->vocab.special[INFER_SPECIAL_FIM_PRE + i] = (infer_token)(300 + i);
    for (i = 0; i < INFER__COUNT(cases); i++) {
        memset(prefix, 0, sizeof prefix);
        memset(suffix, 0, sizeof suffix);
        memset(prefix, '\x01', cases[i].prefix); /* bytes that are tokens of their own */
        memset(suffix, '\x02', cases[i].suffix);
        one = infill_ids(m, prefix, 0, ids, 300) - cases[i].prefix; /* the space in front */
        CHECK(one <= 1);
        infill_is(m, prefix + one, suffix, cases[i].most, cases[i].keep, cases[i].begin);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_infill_vocabularies(void) {
    static const char *const files[] = { "vocabs/ggml-vocab-deepseek-coder.gguf" };
    infer_model_params p;
    infer_error e;
    size_t i;
    memset(&p, 0, sizeof p);
    p.vocab_only = 1;
    for (i = 0; i < INFER__COUNT(files); i++) {
        infer_model *m = NULL;
        const char *path = check_reference(files[i]);
        if (!path) SKIP("needs INFER_TEST_DATA");
        if (infer_model_open(&m, path, &p, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
        check_detail = files[i];
        infill_model(m);
        CHECK(infer_model_close(m) == INFER_OK);
    }
}

static void suite_infill(void) {
    RUN(test_infill_forms);
    RUN(test_infill_room);
    RUN(test_infill_vocabularies);
}
