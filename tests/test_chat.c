/* test_chat.c: replies read as they stream: formats by hand, replies that templates write (tests/data/chat-replies.jsonl,
 * made by make_chat_replies.py), every way to cut them, and no memory. */

/* ---- what came --------------------------------------------------------------------------------------------- */

/* Deltas put together again: they must say the same as the reply at the end. */
typedef struct cl_told {
    char content[8192], reasoning[8192], calls[8192];
    int n_calls, broken, stop_at, n;
} cl_told;

static void cl_append(char *to, const char *s, size_t n) {
    size_t at = strlen(to);
    if (at + n < 8192) { memcpy(to + at, s, n); to[at + n] = 0; }
}
static int cl_take(void *user, const infer_chat_delta *d) {
    cl_told *t = (cl_told *)user;
    if (d->kind == INFER_CHAT_CONTENT || d->kind == INFER_CHAT_REASONING) {
        cl_append(d->kind == INFER_CHAT_CONTENT ? t->content : t->reasoning, d->text, d->n);
        if (d->n == 0 || d->call != -1) t->broken = 1;
    } else if (d->kind == INFER_CHAT_CALL) {
        if (d->call != t->n_calls++) t->broken = 1;
        cl_append(t->calls, d->name, strlen(d->name));
    } else {
        if (d->kind != INFER_CHAT_ARGUMENTS || d->call != t->n_calls - 1) t->broken = 1;
        cl_append(t->calls, d->text, d->n);
        cl_append(t->calls, "\n", 1);
    }
    return ++t->n == t->stop_at;
}

/* A reply read in pieces of `step` bytes (0 = at once, -k = cut once, behind byte k - 1); NULL when it cannot be made. */
static infer__chat_reader *cl_read(infer__mem *mem, const infer__chat_options *o, const char *reply, size_t n, long step,
                                   cl_told *told) {
    infer__chat_options with = *o;
    infer__chat_reader *p;
    infer_error err;
    size_t at = 0;
    if (told) { memset(told, 0, sizeof *told); with.fn = cl_take; with.user = told; }
    if (infer__chat_reader_open(&p, mem, &with, &err) != INFER_OK) { CHECK_STR(err.message, "a reader"); return NULL; }
    if (step < 0) {
        at = (size_t)(-step - 1);
        if (at > n) at = n;
        CHECK(infer__chat_reader_feed(p, reply, at) == INFER_OK);
        CHECK(infer__chat_reader_feed(p, reply + at, n - at) == INFER_OK);
    } else {
        for (; at < n; at += (size_t)step) {
            size_t len = step == 0 || (size_t)step > n - at ? n - at : (size_t)step;
            char *piece = (char *)malloc(len); /* so that sanitizers see reading past it */
            memcpy(piece, reply + at, len);
            CHECK(infer__chat_reader_feed(p, piece, len) == INFER_OK);
            free(piece);
            if (step == 0) break;
        }
    }
    CHECK(infer__chat_reader_finish(p) == INFER_OK);
    return p;
}

/* "content|reasoning|name{arguments} id ..." of a reader. */
static void cl_text(infer__chat_reader *p, char *out, size_t cap) {
    const infer_chat_reply *r = infer__chat_reader_reply(p);
    size_t i, at;
    snprintf(out, cap, "%s|%s|", r->content, r->reasoning);
    for (i = 0; i < r->n_calls; i++) {
        at = strlen(out);
        snprintf(out + at, cap - at, "%s%s ", r->calls[i].name, r->calls[i].arguments);
    }
}

/* The same however it is cut, and as told. */
static void cl_cuts(const infer__chat_options *o, const char *reply, const char *want) {
    static char got[16384];
    static cl_told told;
    infer__mem mem;
    size_t n = strlen(reply);
    long step;
    infer__mem_init(&mem, NULL, 0);
    for (step = 7; step >= -(long)n - 1; step--) {
        infer__chat_reader *p = cl_read(&mem, o, reply, n, step, &told);
        const infer_chat_reply *r;
        if (!p) return;
        cl_text(p, got, sizeof got);
        if (strcmp(got, want) != 0) {
            fprintf(stderr, "[%s] step %ld of: %s\n", p->name, step, reply);
            CHECK_STR(got, want);
            step = -(long)n - 1;
        }
        r = infer__chat_reader_reply(p);
        CHECK(!told.broken && told.n_calls == (int)r->n_calls);
        CHECK_STR(told.content, r->content);
        CHECK_STR(told.reasoning, r->reasoning);
        infer__chat_reader_close(p);
    }
    CHECK(infer__atomic_get(&mem.used) == 0);
}

static const char CL_TOOLS[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"
    "\"n\":{\"type\":\"integer\"},\"o\":{\"type\":\"object\",\"properties\":{\"z\":{\"type\":\"string\"}}},\"u\":{\"type\":["
    "\"string\",\"null\"]},\"l\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"b\":{\"anyOf\":[{\"type\":"
    "\"boolean\"},{\"type\":\"null\"}]}}}}},{\"name\":\"g\"}]";

static void cl_case(const char *format, const char *prompt, const char *reply, const char *want) {
    infer__chat_options o;
    memset(&o, 0, sizeof o);
    o.format = format;
    o.prompt = prompt;
    o.n_prompt = strlen(prompt);
    o.tools = CL_TOOLS;
    check_detail = format;
    cl_cuts(&o, reply, want);
}

/* ---- by hand --------------------------------------------------------------------------------------------------- */

static void test_chat_text(void) {
    cl_case("plain", "", "", "||");
    cl_case("plain", "", "  a b \n", "  a b \n||");
    cl_case("plain", "", " \n ", " \n ||");
    cl_case("plain", "", "<think>a</think>b<tool_call>", "<think>a</think>b<tool_call>||");
    cl_case("hermes", "", "h\xc3\xa9llo \xf0\x9f\x98\x80 <", "h\xc3\xa9llo \xf0\x9f\x98\x80 <||");
    cl_case("hermes/think", "", "<think>\nx\n</think>\n\ny z\n", "y z\n|x|");
    cl_case("hermes/think", "", " \n<think>x</think>y", "y|x|");
    cl_case("hermes/think", "", "a <think>x</think> y", "a <think>x</think> y||"); /* not at the beginning: text */
    cl_case("hermes/think", "", "<think>x <think> y</think>z", "z|x <think> y|");
    cl_case("hermes/think", "", "<think>x</thi", "|x</thi|");
    cl_case("hermes/think", "", "<think></think>", "||");
    cl_case("hermes/think", "", "</think>y", "y||"); /* closes nothing */
    cl_case("hermes/think", "user<think>\n", "x\n</think>\ny", "y|x|");
    cl_case("hermes/think", "user<think>", "<tool_call>{\"name\":\"f\"}</tool_call>", "|<tool_call>{\"name\":\"f\"}</tool_call>|");
    cl_case("numbered/think", "<think>", "hm<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
            "<|tool_call_argument_begin|>{}<|tool_call_end|>", "|hm|f{} "); /* a control token ends it */
    cl_case("tool_calls/steps+thinking", "Here are my reasoning steps:\n", "a\n[BEGIN FINAL RESPONSE]\nb[END FINAL RESPONSE]", "b|a|");
    cl_case("tool_calls/steps+thinking", "", "<thinking>a</thinking>b", "b|a|");
    cl_case("brackets/brackets", "", "[THINK]a[/THINK][b", "[b|a|");
}

static void test_chat_json_calls(void) {
    static const char *const H = "hermes";
    cl_case(H, "", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\":\"x\"}}\n</tool_call>", "||f{\"s\": \"x\"} ");
    cl_case(H, "", "a\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>\n",
            "a||f{} g{} ");
    cl_case(H, "", "<tool_call>{\"name\":\"f\"}</tool_call> b", "b||f{} ");
    cl_case(H, "", "a <tool_call>{\"name\":\"f\"}</tool_call> b", "a\nb||f{} ");
    cl_case(H, "", "<tool_call>{\"name\":\"f\"}", "||f{} ");               /* the end is cut off */
    cl_case(H, "", "<tool_call>{\"name\":\"f\"}</tool_", "</tool_||f{} "); /* nothing is lost */
    cl_case(H, "", "<tool_call>{\"name\":\"f\"", "<tool_call>{\"name\":\"f\"||");
    cl_case(H, "", "<tool_call>{\"name\":\"f\"]</tool_call>x", "<tool_call>{\"name\":\"f\"]</tool_call>x||");
    cl_case(H, "", "<tool_call>{name}</tool_call>x", "<tool_call>{name}</tool_call>x||");
    cl_case(H, "", "write <tool_call> first, <tool_call>{\"name\":\"f\"}", "write <tool_call> first,||f{} ");
    cl_case(H, "", "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"n\\\":1}\"}</tool_call>", "||f{\"n\": 1} ");
    cl_case(H, "", "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>", "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>||");
    cl_case(H, "", "<tool_call>{\"name\":\"\"}</tool_call>", "<tool_call>{\"name\":\"\"}</tool_call>||");
    cl_case(H, "", "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"</tool_call>}\\\"{\"}}</tool_call>", "||f{\"s\": \"</tool_call>}\\\"{\"} ");
    cl_case(H, "", "<tool_call>[{\"name\":\"f\"},{\"function\":{\"name\":\"g\",\"arguments\":{}}}]</tool_call>", "||f{} g{} ");
    cl_case(H, "", "<tool_call>[{\"name\":\"f\"},1]</tool_call>", "<tool_call>[{\"name\":\"f\"},1]</tool_call>||");
    cl_case(H, "", "<tool_call>{\"name\":\"a\\u0000\"}</tool_call>", "<tool_call>{\"name\":\"a\\u0000\"}</tool_call>||");
    cl_case(H, "", "<tool_call>[]</tool_call>", "<tool_call>[]</tool_call>||");
    cl_case("TOOLCALL/think", "<think>\n", "x</think>\na\n<TOOLCALL>[{\"name\":\"f\",\"arguments\":{}}]</TOOLCALL>", "a|x|f{} ");
    cl_case("functools", "", "a functools[{\"name\":\"f\",\"arguments\":{}}]", "a||f{} ");
    cl_case("functools", "", "functools are {\"name\":\"f\"}", "functools are {\"name\":\"f\"}||");
    cl_case("role", "", "a<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\":\"f\"}<|message_sep|>\n", "a||f{} ");
    cl_case("role", "", "a<|message_sep|>\nuser<|role_sep|>", "a<|message_sep|>\nuser<|role_sep|>||");
    cl_case("bare", "", "{\"name\": \"f\", \"parameters\": {\"n\": 1}}", "||f{\"n\": 1} ");
    cl_case("bare", "", "\n [ {\"name\": \"f\", \"parameters\": {}}]", "||f{} ");
    cl_case("bare", "", "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", "||f{} g{} ");
    cl_case("bare", "", "{\"name\": \"h\", \"parameters\": {}}", "{\"name\": \"h\", \"parameters\": {}}||"); /* no such tool */
    cl_case("bare", "", "{\"name\": \"f\"} x", "{\"name\": \"f\"} x||");
    cl_case("bare", "", "{\"answer\": [", "{\"answer\": [||");
    cl_case("bare", "", "{\"na", "{\"na||");
    cl_case("bare", "", "a {\"name\": \"f\", \"parameters\": {}}", "a {\"name\": \"f\", \"parameters\": {}}||");
    cl_case("bare", "", "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "||f{} ");
    cl_case("bare", "", "a<|python_tag|>f.call(s=\"x\", n=2)", "a||f{\"s\": \"x\", \"n\": 2} ");
    cl_case("bare", "", "<|python_tag|>print(1)\n", "||code_interpreter{\"code\": \"print(1)\"} ");
    cl_case("bare", "", "<function=f>{\"n\": 1}</function>", "||f{\"n\": 1} ");
}

static void test_chat_args_calls(void) {
    static const char *const M = "brackets/brackets";
    infer__chat_options o;
    infer__chat_reader *p;
    infer__mem mem;
    cl_case(M, "", "[TOOL_CALLS] [{\"name\":\"f\",\"arguments\":{},\"id\":\"123456789\"}]", "||f{} ");
    cl_case(M, "", "[TOOL_CALLS]f[ARGS]{\"n\":1}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}", "||f{\"n\": 1} g{} ");
    cl_case(M, "", "[TOOL_CALLS]f[ARGS]x", "[TOOL_CALLS]f[ARGS]x||");
    cl_case(M, "", "[TOOL_CALLS][ARGS]{}", "[TOOL_CALLS][ARGS]{}||");
    cl_case("numbered", "", "a<|tool_calls_section_begin|> <|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}"
            "<|tool_call_end|><|tool_calls_section_end|>", "a||f{} ");
    cl_case("numbered", "", "<|tool_calls_section_begin|><|tool_calls_section_end|>",
            "<|tool_calls_section_begin|><|tool_calls_section_end|>||");
    memset(&o, 0, sizeof o);
    infer__mem_init(&mem, NULL, 0);
    o.format = "numbered";
    p = cl_read(&mem, &o, "<|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}", 62, 1, NULL);
    CHECK(p && p->n_calls == 1);
    if (p) CHECK_STR(p->calls[0].id, "functions.f:3");
    infer__chat_reader_close(p);
    o.format = M;
    o.call_number = 41;
    p = cl_read(&mem, &o, "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}[TOOL_CALLS]g[ARGS]{}", 76, 0, NULL);
    CHECK(p && p->n_calls == 3);
    if (p) {
        CHECK_STR(p->calls[0].id, "call00041");
        CHECK_STR(p->calls[1].id, "abc");
        CHECK_STR(p->calls[2].id, "call00043");
    }
    infer__chat_reader_close(p);
}

static void test_chat_xml_calls(void) {
    static const char *const X = "function/think";
    cl_case(X, "", "a\n<tool_call>\n<function=f>\n<parameter=s>\n1\n</parameter>\n<parameter=n>\n2\n</parameter>\n</function>\n</tool_call>",
            "a||f{\"s\": \"1\", \"n\": 2} ");
    cl_case(X, "", "<function=f><parameter=u>null</parameter><parameter=b>True</parameter></function>", "||f{\"u\": null, \"b\": true} ");
    cl_case(X, "", "<function=h><parameter=a>12</parameter><parameter=b>x y</parameter><parameter=c>[1, 'a']</parameter></function>",
            "||h{\"a\": 12, \"b\": \"x y\", \"c\": [1, \"a\"]} ");
    cl_case(X, "", "<function=f><parameter=s>\n\n a \n\n</parameter></function>", "||f{\"s\": \"\\n a \\n\"} ");
    cl_case(X, "", "<function=f><parameter=s></function></parameter></function>", "||f{\"s\": \"</function>\"} ");
    cl_case(X, "", "<function=f></function>", "||f{} ");
    cl_case(X, "", "<function=f>x</function>", "<function=f>x</function>||");
    cl_case(X, "", "<tool_call>x", "<tool_call>x||");
    cl_case(X, "", "<function=f><parameter=n>two</parameter></function>", "||f{\"n\": \"two\"} ");
    cl_case("param", "", "<function name=\"f\"><param name=\"s\"><![CDATA[a</param>]]></param></function>", "||f{\"s\": \"a</param>\"} ");
    cl_case("dsml/think", "", "<\xef\xbd\x9c" "DSML\xef\xbd\x9ctool_calls>\n<\xef\xbd\x9c" "DSML\xef\xbd\x9cinvoke name=\"h\">\n<\xef\xbd\x9c"
            "DSML\xef\xbd\x9cparameter name=\"a\" string=\"true\">1</\xef\xbd\x9c" "DSML\xef\xbd\x9cparameter>\n<\xef\xbd\x9c"
            "DSML\xef\xbd\x9cparameter name=\"b\" string=\"false\">1</\xef\xbd\x9c" "DSML\xef\xbd\x9cparameter>\n</\xef\xbd\x9c"
            "DSML\xef\xbd\x9cinvoke>\n</\xef\xbd\x9c" "DSML\xef\xbd\x9ctool_calls>", "||h{\"a\": \"1\", \"b\": 1} ");
    cl_case("arg_key", "", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>1</arg_value>\n</tool_call><tool_call>g</tool_call>", "||f{\"s\": \"1\"} g{} ");
    cl_case("arg_key", "", "use <tool_call> and </tool_call> so", "use <tool_call> and </tool_call> so||");
    cl_case("invoke", "", "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"n\">3</parameter>\n</invoke>\n</minimax:tool_call>", "||f{\"n\": 3} ");
    cl_case("elements", "", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<o>]<]minimax[>[<z>7]<]minimax[>[</z>]<]minimax[>["
            "<y>7]<]minimax[>[</y>]<]minimax[>[</o>]<]minimax[>[<l>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[</l>]<]minimax[>[</invoke>\n"
            "]<]minimax[>[</tool_call>", "||f{\"o\": {\"z\": \"7\", \"y\": 7}, \"l\": [\"1\"]} ");
}

static void test_chat_other_calls(void) {
    cl_case("python", "", "<|tool_call_start|>[f(s='it\\'s', n=-1.50, l=['a', \"b\"]), g()]<|tool_call_end|>x",
            "x||f{\"s\": \"it's\", \"n\": -1.5, \"l\": [\"a\", \"b\"]} g{} ");
    cl_case("python", "", "<|tool_call_start|>[f(s='print('Hello, World!')')]<|tool_call_end|>", "||f{\"s\": \"print('Hello, World!')\"} ");
    cl_case("python", "", "<|tool_call_start|>[f(o={'a': None, \"b\": (1, True)})]<|tool_call_end|>", "||f{\"o\": {\"a\": null, \"b\": [1, true]}} ");
    cl_case("python", "", "<|tool_call_start|>[f(1)]<|tool_call_end|>x", "<|tool_call_start|>[f(1)]<|tool_call_end|>x||");
    cl_case("python", "", "<|tool_call_start|>[f(s='\\u00e9\\x41\\n')]", "||f{\"s\": \"\xc3\xa9" "A\\n\"} ");
    cl_case("braces/channel", "", "<|channel>thought\nhm<channel|><|tool_call>call:f{s:<|\"|>a}<tool_call|>,\"<|\"|>,o:{z:[1,true,null]}}<tool_call|>a",
            "a|hm|f{\"s\": \"a}<tool_call|>,\\\"\", \"o\": {\"z\": [1, true, null]}} ");
    cl_case("escape", "", "<start_function_call>call:f{s:<escape>x<escape>}<end_function_call>", "||f{\"s\": \"x\"} ");
    cl_case("braces", "", "<|tool_call>call:f{s:}<tool_call|>", "<|tool_call>call:f{s:}<tool_call|>||");
    cl_case("harmony", "", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>a b", "a b|hm|");
    cl_case("harmony", "", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
            "<|message|>{\"n\":1}<|call|>", "|hm|f{\"n\": 1} ");
    cl_case("harmony", "<|start|>assistant", " to=functions.f<|channel|>commentary json<|message|>{}", "||f{} ");
    cl_case("harmony", "", "<|channel|>commentary<|message|>I go<|end|><|start|>assistant<|channel|>final<|message|>gone<|return|>", "I go\ngone||");
    cl_case("harmony", "", "<|channel|>commentary to=functions.f<|message|>no", "<|channel|>commentary to=functions.f<|message|>no||");
    cl_case("harmony", "", "just text", "just text||");
    cl_case("turn/turn", "<|begin|>assistant", "<|think|>hm<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>id1<|tool_call:name|>f<|tool_call:args|>"
            "{}<|tool_call:end|><|calls|>", "|hm|f{} ");
    cl_case("turn/turn", "", "<|content|>a<|end|>", "a||");
}

static void test_chat_formats(void) {
    infer__chat_options o;
    infer__chat_reader *p;
    infer__mem mem;
    infer_error err;
    cl_told told;
    size_t i, k;
    const infer__chat_format *f;
    static const char *const BAD[] = { "x", "", "hermes/x", "hermes/think+x", "hermes/", "/think" };
    infer__mem_init(&mem, NULL, 0);
    memset(&o, 0, sizeof o);
    for (i = 0; (f = infer__chat_format_at(i)) != NULL; i++) /* every row's kinds are there, and its marks fit */
        for (k = 0; k < INFER__FORMAT_KINDS && f->kinds[k]; k++) CHECK(infer__chat_kind_find(f->kinds[k]) != NULL);
    for (i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        o.format = BAD[i];
        CHECK(infer__chat_reader_open(&p, &mem, &o, &err) == INFER_ERR_ARGUMENT && p == NULL);
        CHECK_HAS(err.message, "is not known");
    }
    o.format = "plain";
    o.tools = "{\"a\"";
    CHECK(infer__chat_reader_open(&p, &mem, &o, &err) == INFER_ERR_FORMAT && p == NULL);
    o.tools = "{}";
    CHECK(infer__chat_reader_open(&p, &mem, &o, &err) == INFER_ERR_ARGUMENT && p == NULL);
    CHECK_HAS(err.message, "tools");
    o.tools = NULL;
    memset(&told, 0, sizeof told);
    told.stop_at = 1;
    o.fn = cl_take;
    o.user = &told;
    CHECK(infer__chat_reader_open(&p, &mem, &o, &err) == INFER_OK);
    CHECK(infer__chat_reader_feed(p, "a", 1) == INFER_CANCELLED && infer__chat_reader_feed(p, "b", 1) == INFER_CANCELLED);
    CHECK(infer__chat_reader_finish(p) == INFER_CANCELLED && told.n == 1);
    infer__chat_reader_close(p);
    CHECK(infer__atomic_get(&mem.used) == 0);
}

/* ---- what templates write ----------------------------------------------------------------------------------------- */

static const char *cl_str(const infer_json *v, const char *name) {
    const char *s = infer_json_string(infer_json_get(v, name), NULL);
    return s ? s : "";
}

/* "content|reasoning|name{arguments} ..." of a recorded reply. */
static void cl_want(const infer_json *v, char *out, size_t cap) {
    const infer_json *calls = infer_json_get(v, "calls");
    size_t i, len;
    snprintf(out, cap, "%s|%s|", cl_str(v, "content"), cl_str(v, "reasoning"));
    for (i = 0; i < infer_json_count(calls); i++) {
        const infer_json *c = infer_json_at(calls, i);
        char args[2048];
        size_t at = strlen(out);
        infer_json_write(infer_json_get(c, "arguments"), -1, args, sizeof args, &len);
        snprintf(out + at, cap - at, "%s%s ", cl_str(c, "name"), args);
    }
}

static void cl_replies(int by_template) {
    static char want[16384];
    size_t n, at, seen = 0;
    char *data = check_read(check_data("chat-replies.jsonl"), &n);
    char *text = NULL;
    char name[256] = "", tools[4096] = "";
    size_t n_text = 0;
    CHECK(data != NULL);
    for (at = 0; data && at < n;) {
        size_t len = strcspn(data + at, "\n"), n_tools;
        infer_json *v;
        infer__chat_options o;
        CHECK(infer_json_parse(&v, data + at, len, NULL, NULL) == INFER_OK);
        at += len + 1;
        if (infer_json_get(v, "tools")) { /* the first line: what the models were told */
            infer_json_write(infer_json_get(v, "tools"), -1, tools, sizeof tools, &n_tools);
            infer_json_free(v);
            continue;
        }
        memset(&o, 0, sizeof o);
        o.tools = tools;
        o.prompt = cl_str(v, "prompt");
        o.n_prompt = strlen(o.prompt);
        if (!by_template) {
            o.format = cl_str(v, "format");
        } else {
            if (strcmp(name, cl_str(v, "template")) != 0) {
                char path[400];
                snprintf(name, sizeof name, "%s", cl_str(v, "template"));
                snprintf(path, sizeof path, "chat-templates/templates/%s", name);
                free(text);
                text = check_read(check_reference(path), &n_text);
                CHECK(text != NULL);
            }
            o.text = text;
            o.n = n_text;
        }
        if (o.format || text) {
            infer__mem mem;
            infer__chat_reader *p;
            check_detail = cl_str(v, "template");
            infer__mem_init(&mem, NULL, 0);
            CHECK(infer__chat_reader_open(&p, &mem, &o, NULL) == INFER_OK);
            if (p) CHECK_STR(p->name, cl_str(v, "format"));
            infer__chat_reader_close(p);
            cl_want(v, want, sizeof want);
            cl_cuts(&o, cl_str(v, "reply"), want);
            seen++;
        }
        check_detail = "";
        infer_json_free(v);
    }
    CHECK(seen > 100);
    free(text);
    free(data);
}
static void test_chat_replies(void) { cl_replies(0); }
static void test_chat_replies_by_template(void) {
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA: chat templates");
    cl_replies(1);
}

/* ---- no memory, much text ------------------------------------------------------------------------------------------- */

static void test_chat_memory(void) {
    static const char *const CASES[][2] = {
        { "hermes/think", "<think>x</think>y<tool_call>{\"name\":\"f\",\"arguments\":\"{}\"}</tool_call>z" },
        { "function", "<function=f><parameter=s>a</parameter><parameter=n>[1, 'x']</parameter></function>" },
        { "python", "<|tool_call_start|>[f(s='a', o={'b': [1]})]<|tool_call_end|>" },
        { "braces", "<|tool_call>call:f{s:<|\"|>a\xff<|\"|>,o:{z:[1]}}<tool_call|>" },
        { "bare", "<|python_tag|>print(1)" } };
    infer_allocator a = { NULL, check_alloc, check_free };
    size_t i;
    for (i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        long at;
        infer_result r = INFER_ERR_MEMORY;
        check_live = 0;
        check_detail = CASES[i][1];
        for (at = 1; r != INFER_OK && at < 1000; at++) {
            infer__mem mem;
            infer__chat_options o;
            infer__chat_reader *p;
            infer__mem_init(&mem, &a, 0);
            memset(&o, 0, sizeof o);
            o.format = CASES[i][0];
            o.tools = CL_TOOLS;
            check_allocs = 0; check_fail_at = at;
            r = infer__chat_reader_open(&p, &mem, &o, NULL);
            if (r == INFER_OK) r = infer__chat_reader_feed(p, CASES[i][1], strlen(CASES[i][1]));
            if (r == INFER_OK) r = infer__chat_reader_finish(p);
            if (r == INFER_OK) CHECK(infer__chat_reader_reply(p)->n_calls == 1);
            check_fail_at = 0;
            CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
            infer__chat_reader_close(p);
            CHECK(check_live == 0 && infer__atomic_get(&mem.used) == 0);
        }
        CHECK(at > 5 && at < 1000);
    }
}

/* Much in pieces of one byte, of what is hard to tell: linear, or this takes minutes. */
static void test_chat_long(void) {
    static const char *const CASES[][2] = { { "hermes/think", "<tool_call>" }, { "hermes", "<tool_call>{\"" }, { "hermes", " " }, { "bare", " " },
        { "function", "<function=f><parameter=a>" }, { "python", "<|tool_call_start|>[" }, { "python", "<|tool_call_start|>[f(a='" },
        { "harmony", "<|channel|>" }, { "braces", "<|tool_call>call:f{a:<|\"|>" }, { "bare", "{\"name\":[" }, { "bare", "<|python_tag|>{" },
        { "elements", "]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<a>" }, { "brackets", "[TOOL_CALLS]f" }, { "arg_key", "<tool_call>" } };
    enum { SIZE = 100000 };
    char *text = (char *)malloc(SIZE);
    size_t i, k;
    for (i = 0; text && i < sizeof CASES / sizeof CASES[0]; i++) {
        infer__mem mem;
        infer__chat_options o;
        infer__chat_reader *p;
        size_t n = strlen(CASES[i][1]);
        check_detail = CASES[i][1];
        for (k = 0; k < SIZE; k++) text[k] = CASES[i][1][k % n];
        infer__mem_init(&mem, NULL, 0);
        memset(&o, 0, sizeof o);
        o.format = CASES[i][0];
        p = cl_read(&mem, &o, text, SIZE, 1, NULL);
        CHECK(p && infer__chat_reader_reply(p)->n_content == SIZE);
        CHECK(p && memcmp(infer__chat_reader_reply(p)->content, text, SIZE) == 0);
        infer__chat_reader_close(p);
    }
    free(text);
}

static void suite_chat(void) {
    RUN(test_chat_text);
    RUN(test_chat_json_calls);
    RUN(test_chat_args_calls);
    RUN(test_chat_xml_calls);
    RUN(test_chat_other_calls);
    RUN(test_chat_formats);
    RUN(test_chat_replies);
    RUN(test_chat_replies_by_template);
    RUN(test_chat_memory);
    RUN(test_chat_long);
}
