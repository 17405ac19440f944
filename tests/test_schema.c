/* test_schema.c: JSON Schema -> GBNF. The table of constructs is data/schema-cases.jsonl: a schema a line, with values that
 * must be accepted and rejected, or a part of the error's message. tests/cli/test_schema.py checks the table itself against
 * python3-jsonschema and searches for accepted texts that are not valid. */

static infer_grammar *sch_grammar(const char *schema, infer_error *err) {
    infer_grammar_params p;
    infer_grammar *g = NULL;
    memset(&p, 0, sizeof p);
    p.schema = schema;
    if (infer__grammar_open(&g, NULL, NULL, &p, err) != INFER_OK) return NULL;
    return g;
}
static int sch_accepts(infer_grammar *g, const char *text, size_t n) {
    infer__matcher *m = NULL;
    infer_error err;
    size_t accepted = 0;
    int yes = 0;
    CHECK(infer__matcher_open(&m, g, &err) == INFER_OK);
    if (!m) return -1;
    CHECK(infer__matcher_check(m, text, n, &accepted, &err) == INFER_OK);
    yes = accepted == n && infer__matcher_complete(m);
    infer__matcher_close(m);
    return yes;
}
/* 1 = accepted, 0 = not, -1 = no grammar. */
static int sch_check(const char *schema, const char *text) {
    infer_error err;
    infer_grammar *g = sch_grammar(schema, &err);
    int yes;
    if (!g) check_note(__FILE__, __LINE__, err.message);
    if (!g) return -1;
    yes = sch_accepts(g, text, strlen(text));
    infer__grammar_close(g);
    return yes;
}
static void sch_refused(const char *schema, infer_result r, const char *message) {
    infer__mem mem;
    infer__bytes out;
    infer_error err;
    infer__mem_init(&mem, NULL, 0);
    memset(&out, 0, sizeof out);
    out.mem = &mem;
    check_detail = schema;
    CHECK(infer__schema_gbnf(&out, &mem, NULL, schema, strlen(schema), &err) == r && out.n == 0);
    CHECK_HAS(err.message, message);
    infer__bytes_free(&out);
    CHECK(infer__atomic_get(&mem.used) == 0);
}

static void sch_values(infer_grammar *g, const infer_json *list, int want, const char *name) {
    infer__mem mem;
    infer__bytes text;
    size_t i;
    int indent;
    infer__mem_init(&mem, NULL, 0);
    for (i = 0; list && i < list->n; i++)
        for (indent = -1; indent < 5; indent += 3) {
            memset(&text, 0, sizeof text);
            text.mem = &mem;
            infer__json_write(&text, &list->v.items[i], indent);
            check_detail = text.s;
            if (sch_accepts(g, text.s, text.n) != want) check_note(__FILE__, __LINE__, name);
            infer__bytes_free(&text);
        }
}

static const infer_json *sch_get(const infer_json *v, const char *name) { return infer__json_get(v, name, strlen(name)); }

static void test_schema_cases(void) {
    size_t n, n_cases = 0;
    char *all = check_read(check_data("schema-cases.jsonl"), &n), *line, *end;
    CHECK(all != NULL);
    for (line = all; line && *line; line = end + 1, n_cases++) {
        const infer_json *c, *error;
        infer__arena arena;
        infer_grammar *g;
        infer__bytes schema;
        infer__mem mem;
        infer_error err;
        const char *name;
        end = strchr(line, '\n');
        if (!end) break;
        infer__mem_init(&mem, NULL, 0);
        memset(&schema, 0, sizeof schema);
        memset(&arena, 0, sizeof arena);
        schema.mem = arena.mem = &mem;
        CHECK(infer__json_parse(&c, &arena, line, (size_t)(end - line), &err) == INFER_OK);
        if (!c) break;
        name = check_detail = sch_get(c, "name")->s;
        infer__json_write(&schema, sch_get(c, "schema"), -1);
        error = sch_get(c, "error");
        if (error) {
            sch_refused(schema.s, (infer_result)sch_get(c, "code")->v.i, error->s);
        } else if ((g = sch_grammar(schema.s, &err)) == NULL) {
            check_note(__FILE__, __LINE__, err.message);
        } else {
            sch_values(g, sch_get(c, "accept"), 1, name);
            sch_values(g, sch_get(c, "reject"), 0, name);
            infer__grammar_close(g);
        }
        infer__bytes_free(&schema);
        infer__arena_free(&arena);
    }
    CHECK(n_cases >= 120);
    free(all);
}

/* At most one space, or a line break with an indentation, and only where it may be: a model cannot go on with it for ever. */
static void test_schema_space(void) {
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"const\":1}}},\"additionalProperties\":false}";
    static const char *const good[] = { "{}", "{ }", "{\"a\":[]}", "{ \"a\": [ 1, 1 ] }", "{\n  \"a\": [\n    1,\n\t1\n  ]\n}" };
    static const char *const bad[] = { " {}", "{} ", "{  }", "{\"a\" :[]}", "{\"a\":  []}", "{\"a\":\n[]}", "{\"a\":[1 ,1]}", "{\n\n}", "{\"a\":[],}",
        "{\n                                           }", "[1]", "{\"a\":[1,]}", "{,}", "{\"\\u0061\":[]}", "" };
    size_t i;
    for (i = 0; i < sizeof good / sizeof good[0]; i++) { check_detail = good[i]; CHECK(sch_check(schema, good[i]) == 1); }
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) { check_detail = bad[i]; CHECK(sch_check(schema, bad[i]) == 0); }
}

/* Escapes count as one character; only control characters may be written as \u. */
static void test_schema_escapes(void) {
    static const char two[] = "{\"type\":\"string\",\"minLength\":2,\"maxLength\":2}", quote[] = "{\"type\":\"string\",\"pattern\":\"^[\\\"\\\\\\\\\\\\n/]$\"}";
    CHECK(sch_check(two, "\"\\n\\u001F\"") == 1 && sch_check(two, "\"\\\\\\\"\"") == 1 && sch_check(two, "\"\xf0\x9f\x98\x80\xc3\xa9\"") == 1);
    CHECK(sch_check(two, "\"\\n\"") == 0 && sch_check(two, "\"\\u00e9a\"") == 0 && sch_check(two, "\"\\ud83d\\ude00\"") == 0);
    CHECK(sch_check(two, "\"a\nb\"") == 0 && sch_check(two, "\"\xed\xa0\x80\x61\"") == 0 && sch_check(two, "\"\\x41\"") == 0);
    CHECK(sch_check(quote, "\"\\\"\"") == 1 && sch_check(quote, "\"\\\\\"") == 1 && sch_check(quote, "\"\\n\"") == 1);
    CHECK(sch_check(quote, "\"\\u000a\"") == 1 && sch_check(quote, "\"\\u000A\"") == 1 && sch_check(quote, "\"/\"") == 1 && sch_check(quote, "\"\\/\"") == 1);
    CHECK(sch_check(quote, "\"\"\"") == 0 && sch_check(quote, "\"\\\"") == 0 && sch_check(quote, "\"a\"") == 0 && sch_check(quote, "\"\\u000b\"") == 0);
}

/* Every integer around the ends of many ranges. */
static void test_schema_ranges(void) {
    static const int ends[] = { -1234, -1000, -999, -101, -100, -99, -10, -9, -1, 0, 1, 9, 10, 11, 99, 100, 105, 999, 1000, 1099, 2345 };
    size_t i, k;
    int v;
    for (i = 0; i < sizeof ends / sizeof ends[0]; i++)
        for (k = i; k < sizeof ends / sizeof ends[0]; k += 3) {
            char schema[100], text[20];
            infer_error err;
            infer_grammar *g;
            snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}", ends[i], ends[k]);
            g = sch_grammar(schema, &err);
            check_detail = schema;
            CHECK(g != NULL);
            for (v = -2600; g && v <= 2600; v += v < ends[i] - 120 || v > ends[k] + 120 ? 37 : 1) {
                snprintf(text, sizeof text, "%d", v);
                if (sch_accepts(g, text, strlen(text)) != (v >= ends[i] && v <= ends[k])) check_note(__FILE__, __LINE__, text);
            }
            if (g) {
                CHECK(sch_accepts(g, "-0", 2) == 0 && sch_accepts(g, "00", 2) == 0 && sch_accepts(g, "", 0) == 0);
                infer__grammar_close(g);
            }
        }
}

static void sch_repeat(infer__bytes *b, const char *s, int n) {
    while (n-- > 0) infer__bytes_text(b, s);
}

/* What could take for ever, all memory or all stack ends soon: in an error or a grammar. */
static void test_schema_hostile(void) {
    infer__mem mem;
    infer__bytes b, out;
    infer_error err;
    infer_result r;
    int i, k;
    infer__mem_init(&mem, NULL, 512u << 20);
    for (i = 0; i < 10; i++) {
        double start = infer__seconds();
        memset(&b, 0, sizeof b);
        memset(&out, 0, sizeof out);
        b.mem = out.mem = &mem;
        switch (i) {
        case 0: sch_repeat(&b, "{\"items\":", 250); infer__bytes_text(&b, "{}"); sch_repeat(&b, "}", 250); break;
        case 1: sch_repeat(&b, "{\"allOf\":[", 120); infer__bytes_text(&b, "{}"); sch_repeat(&b, "]}", 120); break;
        case 2: /* definitions that each allow two of the next: 2^40 ways */
            infer__bytes_text(&b, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
            for (k = 0; k < 40; k++) infer__bytes_format(&b, "\"d%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/d%d\",\"minLength\":1},{\"$ref\":\"#/$defs/d%d\",\"maxLength\":9}]},", k, k + 1, k + 1);
            infer__bytes_text(&b, "\"d40\":{\"type\":\"string\"}}}");
            break;
        case 3: /* many properties, all optional, counted */
            infer__bytes_text(&b, "{\"type\":\"object\",\"minProperties\":200,\"properties\":{");
            for (k = 0; k < 2000; k++) infer__bytes_format(&b, "%s\"p%d\":{}", k ? "," : "", k);
            infer__bytes_text(&b, "}}");
            break;
        case 4: /* many properties and others beside them */
            infer__bytes_text(&b, "{\"type\":\"object\",\"properties\":{");
            for (k = 0; k < 1500; k++) infer__bytes_format(&b, "%s\"property%d\":{\"type\":\"integer\"}", k ? "," : "", k);
            infer__bytes_text(&b, "}}");
            break;
        case 5: infer__bytes_text(&b, "{\"type\":\"string\",\"pattern\":\""); sch_repeat(&b, "(a|b)*a", 60); infer__bytes_text(&b, "\",\"maxLength\":900}"); break;
        case 6: infer__bytes_text(&b, "{\"type\":\"string\",\"pattern\":\""); sch_repeat(&b, "(", 3000); infer__bytes_text(&b, "\"}"); break;
        case 7: infer__bytes_text(&b, "{\"enum\":["); for (k = 0; k < 20000; k++) infer__bytes_format(&b, "%s\"v%d\"", k ? "," : "", k); infer__bytes_text(&b, "]}"); break;
        case 8: /* sets of schemas that grow: each level holds two of the next */
            infer__bytes_text(&b, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
            for (k = 0; k < 30; k++) infer__bytes_format(&b, "\"d%d\":{\"properties\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]}}},", k, (k * 7 + 1) % 30, (k * 11 + 3) % 30);
            infer__bytes_text(&b, "\"x\":{}}}");
            break;
        default: infer__bytes_text(&b, "{\"type\":\"object\",\"oneOf\":["); for (k = 0; k < 150; k++) infer__bytes_format(&b, "%s{\"required\":[\"p%d\"]}", k ? "," : "", k); infer__bytes_text(&b, "]}"); break;
        }
        r = infer__schema_gbnf(&out, &mem, NULL, b.s, b.n, &err);
        CHECK(!b.failed && (r == INFER_OK ? out.n > 0 : out.n == 0 && err.message[0]));
        CHECK(infer__seconds() - start < 20);
        infer__bytes_free(&b);
        infer__bytes_free(&out);
        CHECK(infer__atomic_get(&mem.used) == 0);
    }
}

static void test_schema_memory(void) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"maxLength\":3},\"b\":{\"$ref\":\"#/$defs/n\"},"
        "\"c\":{\"type\":\"integer\",\"multipleOf\":3,\"minimum\":-5,\"maximum\":50}},\"patternProperties\":{\"^x\":{\"enum\":[1,[\"y\"]]}},"
        "\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"$defs\":{\"n\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}}}";
    infer_allocator a = { NULL, check_alloc, check_free };
    infer_error err;
    long at;
    check_live = 0;
    for (at = 1;; at++) {
        infer__mem mem;
        infer__bytes out;
        infer_result r;
        infer__mem_init(&mem, &a, 0);
        memset(&out, 0, sizeof out);
        out.mem = &mem;
        check_allocs = 0; check_fail_at = at;
        r = infer__schema_gbnf(&out, &mem, NULL, schema, sizeof schema - 1, &err);
        check_fail_at = 0;
        if (r != INFER_OK) CHECK(r == INFER_ERR_MEMORY && out.n == 0 && strstr(err.message, "memory"));
        infer__bytes_free(&out);
        CHECK(check_live == 0);
        if (r == INFER_OK) break;
    }
    CHECK(at > 20);
}

static void test_schema_cut(void) { /* every prefix of a schema is an error, none reads on */
    static const char schema[] = "{\"type\":\"string\",\"pattern\":\"^\\\\d{2,3}[^a-z]|x$\",\"enum\":[1]}";
    infer__mem mem;
    infer__bytes out;
    infer_error err;
    size_t n;
    infer__mem_init(&mem, NULL, 0);
    for (n = 0; n < sizeof schema - 1; n++) {
        char *copy = (char *)malloc(n ? n : 1);
        memcpy(copy, schema, n);
        memset(&out, 0, sizeof out);
        out.mem = &mem;
        CHECK(infer__schema_gbnf(&out, &mem, NULL, copy, n, &err) == INFER_ERR_FORMAT && out.n == 0);
        infer__bytes_free(&out);
        free(copy);
    }
    sch_refused("5", INFER_ERR_FORMAT, "a schema is an object");
    sch_refused("{\"\\u0000pattern\":1,\"pattern\":1,\"type\":\"string\"}", INFER_ERR_FORMAT, "at #/pattern: a string is expected");
}

static void suite_schema(void) {
    RUN(test_schema_cases);
    RUN(test_schema_space);
    RUN(test_schema_escapes);
    RUN(test_schema_ranges);
    RUN(test_schema_hostile);
    RUN(test_schema_memory);
    RUN(test_schema_cut);
}
