/* test_json.c: JSON values and numbers. More texts, against Python's json: tests/cli/test_text.py. */

static void js_round(const char *text, const char *want, int indent) {
    infer_json *v;
    infer_error err;
    char out[400];
    size_t len;
    CHECK(infer_json_parse(&v, text, strlen(text), NULL, &err) == INFER_OK);
    CHECK(infer_json_write(v, indent, out, sizeof out, &len) == INFER_OK && len == strlen(out));
    CHECK_STR(out, want);
    infer_json_free(v);
}
static void js_refused(const char *text, size_t n, const char *what) {
    infer_json *v = (infer_json *)1;
    infer_error err;
    CHECK(infer_json_parse(&v, text, n, NULL, &err) == INFER_ERR_FORMAT && v == NULL);
    CHECK_HAS(err.message, what);
}

static void test_json_values(void) {
    static const char text[] = "{\"a\": [1, -2.5, \"x\\u00e9\\ud83d\\ude00\\n\\u0000z\"], \"b\": {}, \"a b\": null, \"t\": true}";
    infer_json *v;
    const infer_json *a;
    infer_error err;
    size_t n, len;
    char out[8];
    js_round(" [ ] ", "[]", -1);
    js_round("{\"a\":{\"b\":[1,[],{}]},\"c\":\"\\\"\\\\/\\/\\u001f\"}", "{\"a\": {\"b\": [1, [], {}]}, \"c\": \"\\\"\\\\//\\u001f\"}", -1);
    js_round("{\"a\":[1,{\"b\":2}],\"c\":{}}", "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": {}\n}", 2);
    js_round("[1.0,1e5,-0,-0.0,123456789012345678901234567890,9223372036854775807,1E-7,0.1]",
             "[1.0, 100000.0, 0, -0.0, 123456789012345678901234567890, 9223372036854775807, 1e-07, 0.1]", -1);
    js_round("[1e999,-2.5E+400,1e-999]", "[1e999, -2.5E+400, 0.0]", -1); /* still JSON */
    js_round("{\"a\":1,\"b\":2,\"a\":3,\"c\":4,\"b\":{\"a\":5}}", "{\"a\": 3, \"b\": {\"a\": 5}, \"c\": 4}", -1);
    js_round("\"\\ud800x\"", "\"\xef\xbf\xbdx\"", -1);
    CHECK(infer_json_parse(&v, text, sizeof text - 1, NULL, &err) == INFER_OK);
    CHECK(infer_json_kind(v) == INFER_JSON_OBJECT && infer_json_count(v) == 4);
    a = infer_json_get(v, "a");
    CHECK(infer_json_kind(a) == INFER_JSON_ARRAY && infer_json_count(a) == 3 && infer_json_at(v, 0) == a);
    CHECK(infer_json_int(infer_json_at(a, 0)) == 1 && infer_json_number(infer_json_at(a, 1)) == -2.5);
    CHECK(infer_json_at(a, 3) == NULL && infer_json_get(a, "x") == NULL && infer_json_kind(NULL) == INFER_JSON_NULL);
    CHECK(memcmp(infer_json_string(infer_json_at(a, 2), &n), "x\xc3\xa9\xf0\x9f\x98\x80\n\0z", 11) == 0 && n == 10);
    CHECK_STR(infer_json_name(v, 2, &n), "a b");
    CHECK(n == 3 && infer_json_int(infer_json_get(v, "t")) == 1 && infer_json_kind(infer_json_get(v, "a b")) == INFER_JSON_NULL);
    CHECK(infer_json_write(v, -1, out, sizeof out, &len) == INFER_OK && len > 60 && strlen(out) == 7);
    CHECK(infer_json_write(NULL, -1, out, sizeof out, &len) == INFER_OK && strcmp(out, "null") == 0);
    infer_json_free(v);
    infer_json_free(NULL);
}

static void test_json_refused(void) {
    static const char *const bad[][2] = {
        { "", "line 1 column 1: the text ends" }, { "[1,]", "value is expected" }, { "[1\n 2]", "line 2 column 2: ',' or ']'" },
        { "{\"a\" 1}", "':'" }, { "{a:1}", "name in quotes" }, { "{\"a\":1,}", "name in quotes" }, { "\"a", "no end" }, { "\"a\\", "no end" },
        { "\"\\x\"", "escape" }, { "\"\\u12g4\"", "escape" }, { "\"\t\"", "control" }, { "\"\xff\"", "UTF-8" }, { "01", "leading zero" },
        { "1.", "after the point" }, { "1e", "exponent" }, { "-", "value" }, { "nul", "value" }, { "1 2", "follows" }, { "NaN", "value" } };
    size_t i;
    char deep[600];
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) js_refused(bad[i][0], strlen(bad[i][0]), bad[i][1]);
    memset(deep, '[', sizeof deep);
    js_refused(deep, sizeof deep, "too many levels");
    memset(deep + 256, ']', 256);
    { infer_json *v; CHECK(infer_json_parse(&v, deep, 512, NULL, NULL) == INFER_OK); infer_json_free(v); }
    js_refused("[1, 2, \"abc\"]", 9, "no end"); /* every cut is an error, none reads on */
}

static void test_json_memory(void) {
    static const char text[] = "{\"a\":[1,2,3,{\"b\":\"c\",\"b\":1.5}],\"d\":[[[]]]}";
    infer_allocator a = { NULL, check_alloc, check_free };
    infer_json *v;
    long at;
    check_live = 0;
    for (at = 1;; at++) {
        infer_error err;
        infer_result r;
        check_allocs = 0; check_fail_at = at;
        r = infer_json_parse(&v, text, sizeof text - 1, &a, &err);
        check_fail_at = 0;
        if (r == INFER_OK) break;
        CHECK(r == INFER_ERR_MEMORY && v == NULL && check_live == 0);
    }
    CHECK(at > 3);
    infer_json_free(v);
    CHECK(check_live == 0);
}

/* Memory is bounded by the text's length, but a vocabulary without spaces fits. */
static void test_json_bound(void) {
    enum { TOKENS = 500000, ONES = 3000000 };
    char *text = (char *)malloc(16 * (size_t)TOKENS + 16);
    infer_json *v = NULL;
    infer_error err;
    size_t n = 0, i;
    CHECK(text != NULL);
    if (text == NULL) return;
    text[n++] = '{';
    for (i = 0; i < TOKENS; i++) n += (size_t)snprintf(text + n, 16, "\"%x\":1,", (unsigned)i);
    text[n - 1] = '}';
    CHECK(infer_json_parse(&v, text, n, NULL, NULL) == INFER_OK && infer_json_count(v) == TOKENS);
    infer_json_free(v);
    text[0] = '[';
    for (i = 0; i < ONES; i++) memcpy(text + 1 + 2 * i, "1,", 2);
    text[2 * (size_t)ONES] = ']';
    CHECK(infer_json_parse(&v, text, 2 * (size_t)ONES + 1, NULL, &err) == INFER_ERR_MEMORY && v == NULL);
    CHECK_HAS(err.message, "more memory");
    free(text);
}

static void test_json_numbers(void) {
    static const struct { const char *in, *out; } cases[] = {
        { "0.1", "0.1" }, { "1e23", "1e+23" }, { "9007199254740993", "9007199254740992.0" }, { "2.4703282292062328e-324", "5e-324" },
        { "2.4703282292062327e-324", "0.0" }, { "1.7976931348623159e308", "inf" }, { "-1e-400", "-0.0" }, { "1e16", "1e+16" },
        { "123456789012345680", "1.2345678901234568e+17" }, { "0.0001", "0.0001" }, { "0.00001", "1e-05" }, { "5e-324", "5e-324" },
        { "2.2250738585072011e-308", "2.225073858507201e-308" }, { "0.30000000000000004", "0.30000000000000004" } };
    size_t i, len;
    char out[32];
    uint64_t state = 1;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double x = infer__double_parse(cases[i].in, strlen(cases[i].in), &len);
        CHECK(len == strlen(cases[i].in));
        infer__double_text(x, out);
        CHECK_STR(out, cases[i].out);
    }
    for (i = 0; i < 20000; i++) { /* what is written reads back, bit for bit */
        double x, y;
        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(&x, &state, 8);
        if ((state >> 52 & 0x7ff) == 0x7ff) continue;
        len = infer__double_text(x, out);
        y = infer__double_parse(out, len, &len);
        CHECK(memcmp(&x, &y, 8) == 0 && out[len] == 0);
    }
    CHECK(infer__double_parse("1e+x", 4, &len) == 1 && len == 1);
    CHECK(infer__double_parse("x", 1, &len) == 0 && len == 0);
    CHECK(infer__double_parse(".", 1, &len) == 0 && len == 0);
}

static void js_quoted(const char *text, size_t n, const char *want) {
    char out[64];
    size_t len = 0, whole = strlen(want), cap;
    infer_json *v = NULL;
    check_detail = want;
    CHECK(infer_json_quote(text, n, NULL, 0, &len) == INFER_OK && len == whole);
    CHECK(infer_json_quote(text, n, out, sizeof out, &len) == INFER_OK && len == whole);
    CHECK_STR(out, want);
    CHECK(infer_json_parse(&v, out, len, NULL, NULL) == INFER_OK && infer_json_kind(v) == INFER_JSON_STRING);
    infer_json_free(v);
    for (cap = 1; cap <= whole; cap++) { /* a beginning, and its zero */
        memset(out, '#', sizeof out);
        CHECK(infer_json_quote(text, n, out, cap, &len) == INFER_OK && len == whole);
        CHECK(memcmp(out, want, cap - 1) == 0 && out[cap - 1] == 0 && out[cap] == '#');
    }
}
static void test_json_quote(void) {
    size_t len = 5;
    char out[4];
    js_quoted("", 0, "\"\"");
    js_quoted(NULL, 0, "\"\"");
    js_quoted("plain", 5, "\"plain\"");
    js_quoted("\"\\/\b\f\n\r\t", 8, "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    js_quoted("a\0b\x1f\x7f", 5, "\"a\\u0000b\\u001f\x7f\"");
    js_quoted("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    js_quoted("\xff\xc3", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");                 /* no lead byte; cut off */
    js_quoted("\xc0\x80\xed\xa0\x80x", 6, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\""); /* too long; a surrogate */
    js_quoted("\xe2\x82\n\"", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\\n\\\"\"");
    CHECK(infer_json_quote(NULL, 1, out, sizeof out, &len) == INFER_ERR_ARGUMENT && len == 0);
    CHECK(infer_json_quote("a", 1, NULL, 4, &len) == INFER_ERR_ARGUMENT && infer_json_quote("a", 1, out, 4, NULL) == INFER_ERR_ARGUMENT);
}

static void suite_json(void) {
    RUN(test_json_quote);
    RUN(test_json_values);
    RUN(test_json_refused);
    RUN(test_json_memory);
    RUN(test_json_bound);
    RUN(test_json_numbers);
}
