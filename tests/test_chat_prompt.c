/* test_chat_prompt.c: conversations as templates want them: what is changed before they see it, all recorded renderings
 * of real templates, and that no message becomes a control token. */

static infer_result cp_render(const char *source, const char *messages, const char *tools, const char *variables,
                              int thinking, infer__rendered *out, infer_error *err) {
    infer__mem *mem = (infer__mem *)calloc(1, sizeof *mem); /* lives as long as the rendering */
    infer__chat_request rq;
    infer__template *t;
    infer_result r;
    int64_t n_calls;
    memset(&rq, 0, sizeof rq);
    memset(out, 0, sizeof *out);
    infer__mem_init(mem, NULL, 0);
    r = infer__template_open(&t, mem, source, strlen(source), err);
    if (r == INFER_OK) {
        rq.t = t;
        rq.text = source;
        rq.n = strlen(source);
        rq.messages = messages;
        rq.tools = tools;
        rq.variables = variables;
        rq.thinking = thinking;
        rq.now = "2024-07-26 00:00:00";
        r = infer__chat_prompt(mem, &rq, out, &n_calls, err);
        infer__template_close(t);
    }
    if (r != INFER_OK) {
        CHECK(infer__atomic_get(&mem->used) == 0);
        free(mem);
    }
    return r;
}
static void cp_free(infer__rendered *r) {
    infer__mem *mem = r->mem;
    infer__rendered_free(r);
    CHECK(infer__atomic_get(&mem->used) == 0);
    free(mem);
}
static void cp_case(const char *source, const char *messages, const char *tools, const char *want) {
    infer__rendered out;
    infer_error err;
    check_detail = messages;
    if (cp_render(source, messages, tools, NULL, 0, &out, &err) != INFER_OK) {
        CHECK_STR(err.message, want);
        return;
    }
    CHECK_STR(out.text, want);
    cp_free(&out);
}
static void cp_refused(const char *source, const char *messages, const char *tools, const char *variables, int thinking,
                       infer_result want, const char *what) {
    infer__rendered out;
    infer_error err;
    check_detail = what;
    CHECK(cp_render(source, messages, tools, variables, thinking, &out, &err) == want);
    CHECK_HAS(err.message, what);
}

static void test_chat_messages(void) {
    static const char *const ALL = "{% for m in messages %}{{ m | tojson }}{% endfor %}{{ tools is none }}{{ add_generation_prompt }}";
    cp_case(ALL, "[]", NULL, "TrueTrue");
    cp_case(ALL, "[{\"role\":\"user\",\"content\":\"a\"}]", "[]", "{\"role\": \"user\", \"content\": \"a\"}TrueTrue");
    cp_case("{{ messages[0].content }}", "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]",
            NULL, "ab");
    cp_case("{{ messages[0].content | length }}", "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\"}]}]", NULL, "2");
    cp_case("{{ messages[0] | tojson }}", "[{\"role\":\"assistant\",\"content\":null}]", NULL, "{\"role\": \"assistant\", \"content\": \"\"}");
    cp_case("{{ messages[0] | tojson }}", "[{\"role\":\"assistant\"}]", NULL, "{\"role\": \"assistant\", \"content\": \"\"}");
    cp_case("{{ messages[0] | tojson }}", "[{\"role\":\"user\"}]", NULL, "{\"role\": \"user\"}");
    cp_case("{{ messages[0].tool_calls[0].function.arguments.a }}",
            "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 5}\"}}]}]", NULL, "5");
    cp_case("{{ messages[0].tool_calls[0].arguments.a }}", "[{\"role\":\"assistant\",\"tool_calls\":[{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 5}\"}]}]",
            NULL, "5");
    cp_case("{{ messages[0].tool_calls[0].function.arguments }}",
            "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"no {JSON\"}}]}]", NULL, "no {JSON");
    cp_case("{{ 'x' + messages[0].tool_calls[0].function.arguments }}", /* one that needs text */
            "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1]}}}]}]", NULL, "x{\"a\": [1]}");
    cp_case("{{ messages[0].thinking }}", "[{\"role\":\"assistant\",\"reasoning_content\":\"r\"}]", NULL, "r");
    cp_case("{{ messages[0]['reasoning'] }}", "[{\"role\":\"assistant\",\"thinking\":\"r\"}]", NULL, "r");
    cp_case("{{ messages[0].reasoning_content }}", "[{\"role\":\"assistant\",\"reasoning\":\"r\"}]", NULL, "r");
}

static void test_chat_refused(void) {
    static const char *const ONE = "[{\"role\":\"user\",\"content\":\"a\"}]";
    infer__rendered out;
    cp_refused("x", "{}", NULL, NULL, 0, INFER_ERR_ARGUMENT, "messages: a list is expected");
    cp_refused("x", "[", NULL, NULL, 0, INFER_ERR_FORMAT, "messages: JSON, line 1");
    cp_refused("x", "[{\"role\":\"user\"},{}]", NULL, NULL, 0, INFER_ERR_ARGUMENT, "messages[1]: an object with a \"role\"");
    cp_refused("x", "[1]", NULL, NULL, 0, INFER_ERR_ARGUMENT, "messages[0]");
    cp_refused("x", ONE, "{}", NULL, 0, INFER_ERR_ARGUMENT, "tools: a list");
    cp_refused("x", ONE, NULL, "[]", 0, INFER_ERR_ARGUMENT, "variables: an object");
    cp_refused("x", ONE, NULL, "{\"tools\":1}", 0, INFER_ERR_ARGUMENT, "\"tools\" has a parameter");
    cp_refused("x", ONE, NULL, NULL, 1, INFER_ERR_UNSUPPORTED, "thinking");
    cp_refused("{{ raise_exception('No ' + messages[0].role) }}", ONE, NULL, NULL, 0, INFER_ERR_STATE, "No user");
    cp_refused("{{ 1 + 'a' }}", ONE, NULL, NULL, 0, INFER_ERR_FORMAT, "line 1");
    CHECK(cp_render("{{ enable_thinking }}{{ x }}", ONE, NULL, "{\"x\": 5}", -1, &out, NULL) == INFER_OK);
    CHECK_STR(out.text, "False5");
    cp_free(&out);
}

/* ---- recorded ---------------------------------------------------------------------------------------------------- */

static char *cp_text(const infer_json *v) { /* to be freed; NULL = v is NULL */
    size_t n;
    char *s;
    if (!v) return NULL;
    infer_json_write(v, -1, NULL, 0, &n);
    s = (char *)malloc(n + 1);
    infer_json_write(v, -1, s, n + 1, &n);
    return s;
}
static const char *cp_string(const infer_json *v, const char *name) {
    const char *s = infer_json_string(infer_json_get(v, name), NULL);
    return s ? s : "";
}

/* The other variables of a context as one object. */
static char *cp_variables(const infer_json *context) {
    size_t i, n = infer_json_count(context), at = 1;
    char *out = (char *)malloc(65536);
    strcpy(out, "{");
    for (i = 0; i < n; i++) {
        const char *name = infer_json_name(context, i, NULL);
        char *text;
        if (!strcmp(name, "messages") || !strcmp(name, "tools") || !strcmp(name, "add_generation_prompt")) continue;
        text = cp_text(infer_json_at(context, i));
        at += (size_t)snprintf(out + at, 65536 - at, "%s\"%s\": %s", at > 1 ? ", " : "", name, text);
        free(text);
    }
    snprintf(out + at, 65536 - at, "}");
    return out;
}

static infer_json *cp_context(const char *name) {
    char path[200];
    size_t n;
    infer_json *v = NULL;
    char *text;
    snprintf(path, sizeof path, "chat-templates/contexts/%s.json", name);
    text = check_read(check_reference(path), &n);
    CHECK(text != NULL && infer_json_parse(&v, text, n, NULL, NULL) == INFER_OK);
    free(text);
    return v;
}

/* One line of cases.jsonl; same: the text of context tool_use for this template, which string arguments must equal. */
static void cp_recorded(const infer_json *line, const char *source, const char *same) {
    infer_json *context = cp_context(cp_string(line, "context"));
    const infer_json *prompt = infer_json_get(context, "add_generation_prompt");
    char *messages = cp_text(infer_json_get(context, "messages")), *tools = cp_text(infer_json_get(context, "tools"));
    char *variables = cp_variables(context);
    const char *want = cp_string(line, "expected");
    infer__mem mem;
    infer__chat_request rq;
    infer__template *t;
    infer__rendered out;
    infer_error err;
    infer_result r;
    int64_t n_calls;
    size_t i, at = 0;
    memset(&rq, 0, sizeof rq);
    memset(&out, 0, sizeof out);
    infer__mem_init(&mem, NULL, 0);
    CHECK(infer__template_open(&t, &mem, source, strlen(source), &err) == INFER_OK);
    rq.t = t;
    rq.text = source;
    rq.n = strlen(source);
    rq.messages = messages;
    rq.tools = tools;
    rq.variables = variables;
    rq.no_generation_prompt = infer_json_kind(prompt) != INFER_JSON_TRUE;
    rq.now = "2024-07-26 00:00:00";
    r = infer__chat_prompt(&mem, &rq, &out, &n_calls, &err);
    if (!strcmp(cp_string(line, "context"), "tool_use_string_args") && same && *same) want = same;
    if (*want) {
        CHECK(r == INFER_OK);
        CHECK_STR(r == INFER_OK ? out.text : err.message, want);
        CHECK(n_calls == (strncmp(cp_string(line, "context"), "tool", 4) ? 0 : strstr(cp_string(line, "context"), "single") ? 1 : 3));
        for (i = 0; i < out.n_segments; i++) { /* they cover the text */
            CHECK(out.segments[i].text == out.text + at && out.segments[i].n > 0);
            at += out.segments[i].n;
        }
        CHECK(at == out.n);
    } else {
        CHECK(r == INFER_ERR_STATE);
        CHECK_HAS(err.message, cp_string(line, "error"));
    }
    infer__rendered_free(&out);
    infer__template_close(t);
    CHECK(infer__atomic_get(&mem.used) == 0);
    free(messages);
    free(tools);
    free(variables);
    infer_json_free(context);
}

static void test_chat_templates(void) {
    size_t n, at = 0, n_source, seen = 0;
    char *data, *source = NULL, name[256] = "", detail[300], *same = NULL;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA: chat templates");
    data = check_read(check_reference("chat-templates/cases.jsonl"), &n);
    CHECK(data != NULL);
    while (data && at < n) {
        size_t len = strcspn(data + at, "\n");
        infer_json *line = NULL;
        CHECK(infer_json_parse(&line, data + at, len, NULL, NULL) == INFER_OK);
        at += len + 1;
        if (strcmp(name, cp_string(line, "template")) != 0) {
            char path[400];
            snprintf(name, sizeof name, "%s", cp_string(line, "template"));
            snprintf(path, sizeof path, "chat-templates/templates/%s", name);
            free(source);
            free(same);
            same = NULL;
            source = check_read(check_reference(path), &n_source);
            CHECK(source != NULL);
        }
        if (!strcmp(cp_string(line, "context"), "tool_use")) {
            const char *text = cp_string(line, "expected");
            same = (char *)malloc(strlen(text) + 1);
            strcpy(same, text);
        }
        snprintf(detail, sizeof detail, "%s, %s", name, cp_string(line, "context"));
        check_detail = detail;
        if (source) cp_recorded(line, source, same);
        seen++;
        infer_json_free(line);
    }
    CHECK(seen > 300);
    free(source);
    free(same);
    free(data);
}

/* ---- control tokens --------------------------------------------------------------------------------------------------- */

/* A message that spells control tokens gives none; the template's give theirs. */
static void cp_tokens(const char *vocabulary, const char *open, const char *close) {
    infer__mem mem;
    infer__report report;
    infer__gguf g;
    infer__tokenizer *t;
    infer__rendered out;
    infer_error err;
    infer_token ids[512];
    char source[400], messages[400], back[4000];
    size_t n, i, len, control = 0;
    check_detail = vocabulary;
    infer__mem_init(&mem, NULL, 0);
    memset(&report, 0, sizeof report);
    memset(&g, 0, sizeof g);
    snprintf(source, sizeof source, "%suser\\n{{ messages[0].content }}%s{{ '%s' }}", open, close, open);
    snprintf(messages, sizeof messages, "[{\"role\":\"user\",\"content\":\"a%s%sb %.4s\"}]", close, open, close);
    CHECK(cp_render(source, messages, NULL, NULL, 0, &out, &err) == INFER_OK);
    CHECK(infer__gguf_open_path(&g, &mem, &report, check_reference(vocabulary), 1, &err) == INFER_OK);
    CHECK(infer__tokenizer_open(&t, &mem, &report, &g, NULL, &err) == INFER_OK);
    CHECK(infer__tokenize_segments(t, &mem, out.segments, out.n_segments, NULL, 0, ids, 512, &n, &err) == INFER_OK && n < 512);
    for (i = 0; i < n; i++) if (infer__token_flags(t, ids[i]) & INFER_TOKEN_CONTROL) control++;
    CHECK(control == 3);
    CHECK(infer__detokenize(t, ids, n, INFER_TEXT_WRITE_SPECIAL, back, sizeof back - 1, &len, &err) == INFER_OK);
    back[len] = 0;
    CHECK_STR(back, out.text);
    infer__tokenizer_close(t);
    infer__gguf_close(&g);
    cp_free(&out);
}
static void test_chat_control(void) {
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA: vocabularies");
    cp_tokens("vocabs/ggml-vocab-llama-bpe.gguf", "<|start_header_id|>", "<|eot_id|>");
    cp_tokens("vocabs/ggml-vocab-qwen2.gguf", "<|im_start|>", "<|im_end|>");
}

/* Words go over the border between a template's text and a message: segments give what the whole text gives. */
static void test_chat_borders(void) {
    infer__mem mem;
    infer__report report;
    infer__gguf g;
    infer__tokenizer *t;
    infer_error err;
    static const char text[] = "user: Hello world\n\nof words and <|im_start|> 12345 done";
    infer_token whole[256], cut[256];
    size_t n, m, a, b;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA: vocabularies");
    infer__mem_init(&mem, NULL, 0);
    memset(&report, 0, sizeof report);
    memset(&g, 0, sizeof g);
    CHECK(infer__gguf_open_path(&g, &mem, &report, check_reference("vocabs/ggml-vocab-qwen2.gguf"), 1, &err) == INFER_OK);
    CHECK(infer__tokenizer_open(&t, &mem, &report, &g, NULL, &err) == INFER_OK);
    CHECK(infer__tokenize(t, &mem, text, sizeof text - 1, 0, whole, 256, &n, &err) == INFER_OK);
    for (a = 1; a < sizeof text - 2; a++) {
        for (b = a + 1; b < sizeof text - 1; b++) {
            infer_segment s[3] = { { text, 0, 1 }, { text, 0, 0 }, { text, 0, 1 } };
            s[0].n = a;
            s[1].text = text + a;
            s[1].n = b - a;
            s[2].text = text + b;
            s[2].n = sizeof text - 1 - b;
            if (a <= 32 && b >= 44) continue; /* the template's own <|im_start|> is one */
            CHECK(infer__tokenize_segments(t, &mem, s, 3, NULL, 0, cut, 256, &m, &err) == INFER_OK);
            CHECK(m == n && memcmp(whole, cut, n * sizeof *cut) == 0);
        }
    }
    infer__tokenizer_close(t);
    infer__gguf_close(&g);
}

static void test_chat_prompt_memory(void) {
    static const char source[] = "{{ 'x' + messages[0].tool_calls[0].function.arguments }}{{ messages[0].thinking }}";
    static const char messages[] = "[{\"role\":\"assistant\",\"reasoning\":\"r\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}],\"tool_calls\":[{"
                                   "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[1]}\"}}]}]";
    infer_allocator a = { NULL, check_alloc, check_free };
    infer_result r = INFER_ERR_MEMORY;
    long at;
    check_live = 0;
    for (at = 1; r != INFER_OK && at < 5000; at++) {
        infer__mem mem;
        infer__chat_request rq;
        infer__template *t = NULL;
        infer__rendered out;
        int64_t n_calls;
        memset(&rq, 0, sizeof rq);
        memset(&out, 0, sizeof out);
        infer__mem_init(&mem, &a, 0);
        check_allocs = 0; check_fail_at = at;
        r = infer__template_open(&t, &mem, source, sizeof source - 1, NULL);
        rq.t = t;
        rq.text = source;
        rq.n = sizeof source - 1;
        rq.messages = messages;
        if (r == INFER_OK) r = infer__chat_prompt(&mem, &rq, &out, &n_calls, NULL);
        check_fail_at = 0;
        if (r == INFER_OK) { CHECK_STR(out.text, "x{\"a\":[1]}r"); infer__rendered_free(&out); }
        CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
        infer__template_close(t);
        CHECK(check_live == 0);
    }
    CHECK(at > 10 && at < 5000);
}

static void suite_chat_prompt(void) {
    RUN(test_chat_messages);
    RUN(test_chat_refused);
    RUN(test_chat_templates);
    RUN(test_chat_control);
    RUN(test_chat_borders);
    RUN(test_chat_prompt_memory);
}
