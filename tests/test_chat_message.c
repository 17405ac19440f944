/* test_chat_message.c: conversations from structs: what they become, that both forms give the same, what is refused. */

/* ---- JSON -> structs ---------------------------------------------------------------------------------------------- */

enum { CM_MOST = 32, CM_TEXT = 1 << 16 };
typedef struct cm_talk {
    infer_chat_message m[CM_MOST];
    infer_chat_call calls[CM_MOST][4];
    infer_chat_part parts[CM_MOST][4];
    infer_chat_tool tools[CM_MOST];
    char *text[4 * CM_MOST];
    size_t n, n_tools, n_text;
} cm_talk;

static const char *cm_write(cm_talk *t, const infer_json *v) {
    return t->text[t->n_text++] = cp_text(v);
}
static const char *cm_member(const infer_json *v, const char *name) { return infer_json_string(infer_json_get(v, name), NULL); }

/* 1 = the structs can say all that is there. */
static int cm_from_json(cm_talk *t, const infer_json *messages, const infer_json *tools) {
    size_t i, k;
    memset(t, 0, sizeof *t);
    for (i = 0; i < infer_json_count(messages); i++) {
        const infer_json *v = infer_json_at(messages, i), *content = infer_json_get(v, "content"), *calls = infer_json_get(v, "tool_calls");
        infer_chat_message *m = &t->m[t->n++];
        m->role = cm_member(v, "role");
        m->content = infer_json_string(content, &m->n_content);
        m->reasoning = infer_json_string(infer_json_get(v, "reasoning_content"), &m->n_reasoning);
        m->tool_call_id = cm_member(v, "tool_call_id");
        m->name = cm_member(v, "name");
        for (k = 0; k < infer_json_count(v); k++)
            if (!strstr("role content reasoning_content tool_calls tool_call_id name", infer_json_name(v, k, NULL))) return 0;
        if (infer_json_kind(content) == INFER_JSON_ARRAY) {
            m->parts = t->parts[i];
            m->n_parts = infer_json_count(content);
            for (k = 0; k < m->n_parts; k++) {
                t->parts[i][k].kind = INFER_CHAT_PART_TEXT;
                t->parts[i][k].text = infer_json_string(infer_json_get(infer_json_at(content, k), "text"), &t->parts[i][k].n);
            }
        }
        m->calls = t->calls[i];
        m->n_calls = infer_json_count(calls);
        for (k = 0; k < m->n_calls; k++) {
            const infer_json *f = infer_json_get(infer_json_at(calls, k), "function");
            if (infer_json_kind(infer_json_get(f, "arguments")) != INFER_JSON_OBJECT) return 0; /* structs have no such choice */
            t->calls[i][k].id = cm_member(infer_json_at(calls, k), "id");
            t->calls[i][k].name = cm_member(f, "name");
            t->calls[i][k].arguments = cm_write(t, infer_json_get(f, "arguments"));
            t->calls[i][k].n_arguments = k % 2 ? strlen(t->calls[i][k].arguments) : 0;
        }
    }
    for (i = 0; i < infer_json_count(tools); i++) {
        const infer_json *f = infer_json_get(infer_json_at(tools, i), "function");
        t->tools[t->n_tools].name = cm_member(f, "name");
        t->tools[t->n_tools].description = cm_member(f, "description");
        t->tools[t->n_tools++].parameters = cm_write(t, infer_json_get(f, "parameters"));
        for (k = 0; k < infer_json_count(f); k++)
            if (!strstr("name description parameters", infer_json_name(f, k, NULL))) return 0;
    }
    return 1;
}
static void cm_free(cm_talk *t) {
    while (t->n_text > 0) free(t->text[--t->n_text]);
}

/* JSON with its members in the order of structs, which templates that show whole messages or tools write; behind what is
 * in out, of so many bytes. */
static size_t cm_ordered(const infer_json *v, int inner, char *out, size_t at) {
    static const char *const ORDER[] = { "role", "content", "reasoning_content", "tool_calls", "tool_call_id", "id", "type", "text", "function",
                                         "name", "description", "arguments", "parameters" };
    const int kind = infer_json_kind(v);
    size_t i, n, len = 0;
    const char *comma = "";
    if (inner || (kind != INFER_JSON_ARRAY && kind != INFER_JSON_OBJECT)) {
        CHECK(infer_json_write(v, -1, out + at, CM_TEXT - at, &len) == INFER_OK && at + len < CM_TEXT);
        return at + len;
    }
    n = kind == INFER_JSON_ARRAY ? infer_json_count(v) : sizeof ORDER / sizeof *ORDER;
    out[at++] = kind == INFER_JSON_ARRAY ? '[' : '{';
    for (i = 0; i < n; i++) {
        const infer_json *item = kind == INFER_JSON_ARRAY ? infer_json_at(v, i) : infer_json_get(v, ORDER[i]);
        if (!item) continue;
        at += (size_t)sprintf(out + at, "%s", comma);
        if (kind == INFER_JSON_OBJECT) at += (size_t)sprintf(out + at, "\"%s\": ", ORDER[i]);
        at = cm_ordered(item, kind == INFER_JSON_OBJECT && i >= 11, out, at);
        comma = ", ";
    }
    out[at++] = kind == INFER_JSON_ARRAY ? ']' : '}';
    out[at] = 0;
    return at;
}

/* Everything that a caller can see of both forms: code, message or text, segments. 1 = it was rendered. */
static int cm_same(const infer_chat_params *json, const cm_talk *t) {
    infer_chat_params structs = *json;
    infer_rendering *a = NULL, *b = NULL;
    infer_error ea, eb;
    infer_result ra, rb;
    size_t i;
    int rendered;
    structs.messages_json = structs.tools_json = NULL;
    structs.messages = t->m;
    structs.n_messages = t->n;
    structs.tools = t->n_tools ? t->tools : NULL;
    structs.n_tools = t->n_tools;
    ra = infer_chat_render(NULL, json, &a, &ea);
    rb = infer_chat_render(NULL, &structs, &b, &eb);
    CHECK(ra == rb);
    CHECK_STR(eb.message, ea.message);
    rendered = a && b;
    if (rendered) {
        CHECK_STR(b->text, a->text);
        CHECK(a->n == b->n && a->n_segments == b->n_segments);
        for (i = 0; i < a->n_segments && i < b->n_segments; i++)
            CHECK(a->segments[i].n == b->segments[i].n && a->segments[i].from_message == b->segments[i].from_message);
    }
    infer_rendering_free(a);
    infer_rendering_free(b);
    return rendered;
}

/* ---- tests -------------------------------------------------------------------------------------------------------- */

static const char CM_ALL[] = "{{ messages | tojson }}{{ tools | tojson }}";
static const char CM_TALK[] =
    "[{\"role\": \"system\", \"content\": \"Say \\\"hi\\\"\\n\\u0001 \xc3\xa9\"}, {\"role\": \"user\", \"content\": "
    "[{\"type\": \"text\", \"text\": \"1 + \"}, {\"type\": \"text\", \"text\": \"2\"}], \"name\": \"Ann\"}, {\"role\": \"assistant\", \"reasoning_content\": \"add\", "
    "\"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", \"function\": {\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2.50, {}]}}}, {\"type\": "
    "\"function\", \"function\": {\"name\": \"nop\", \"arguments\": {}}}]}, {\"role\": \"tool\", "
    "\"content\": \"3\", \"tool_call_id\": \"c1\", \"name\": \"add\"}, {\"role\": \"user\", \"content\": \"\"}, {\"role\": \"assistant\"}]";
static const char CM_TOOLS[] = "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"a + b\", \"parameters\": {\"type\": "
                               "\"object\", \"properties\": {\"a\": {\"type\": \"number\"}}}}}]";

static void test_chat_structs(void) {
    infer_chat_message m[3] = { { "user", "\"a\"\\\n\x01\xff\xc3", 0, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, { 0 } } };
    infer_chat_tool tools[2] = { { "f", NULL, NULL }, { "g", "", " {\"type\":\"object\"} " } };
    infer_chat_call call = { "", "f", NULL, 0 };
    infer_chat_params chat;
    infer_rendering *out = NULL;
    infer_json *messages = NULL, *list = NULL;
    infer_error err;
    cm_talk talk;
    memset(&chat, 0, sizeof chat);
    chat.template_text = CM_ALL;
    CHECK(infer_json_parse(&messages, CM_TALK, sizeof CM_TALK - 1, NULL, &err) == INFER_OK);
    CHECK(infer_json_parse(&list, CM_TOOLS, sizeof CM_TOOLS - 1, NULL, &err) == INFER_OK);
    CHECK(cm_from_json(&talk, messages, list) && talk.n == 6 && talk.n_tools == 1);
    chat.messages_json = CM_TALK;
    chat.tools_json = CM_TOOLS;
    CHECK(cm_same(&chat, &talk)); /* its members are in the order of structs, so the text of all of them is the same */
    cm_free(&talk);
    infer_json_free(messages);
    infer_json_free(list);
    /* what fields become */
    chat.messages_json = chat.tools_json = NULL;
    m[1].role = "assistant";
    m[1].content = "x\0y";
    m[1].n_content = 3;
    m[1].reasoning = "";
    m[1].calls = &call;
    m[1].n_calls = 1;
    m[2].role = "tool";
    m[2].content = "ok";
    m[2].tool_call_id = "1";
    m[2].name = "f";
    chat.messages = m;
    chat.n_messages = 3;
    chat.tools = tools;
    chat.n_tools = 2;
    CHECK(infer_chat_render(NULL, &chat, &out, &err) == INFER_OK);
    if (out)
        CHECK_STR(out->text,
                  "[{\"role\": \"user\", \"content\": \"\\\"a\\\"\\\\\\n\\u0001\xef\xbf\xbd\xef\xbf\xbd\"}, {\"role\": \"assistant\", \"content\": "
                  "\"x\\u0000y\", \"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]}, {\"role\": "
                  "\"tool\", \"content\": \"ok\", \"tool_call_id\": \"1\", \"name\": \"f\"}][{\"type\": \"function\", \"function\": {\"name\": \"f\", "
                  "\"parameters\": {\"type\": \"object\", \"properties\": {}}}}, {\"type\": \"function\", \"function\": {\"name\": \"g\", "
                  "\"description\": \"\", \"parameters\": {\"type\": \"object\"}}}]");
    infer_rendering_free(out);
}

/* Every real template with every conversation that structs can say. */
static void test_chat_structs_templates(void) {
    static const char *const CONTEXTS[] = { "conversation6", "no_generation_prompt", "one_user", "simple", "system", "tool_use", "tools_single_call" };
    static const char THOUGHT[] = "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello\", \"reasoning_content\": "
                                  "\"greet\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"And \"}, {\"type\": \"text\", \"text\": \"now?\"}]}]";
    size_t n, at = 0, n_source, i;
    int compared = 0, rendered = 0;
    char *data, *source = NULL, name[256] = "";
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA: chat templates");
    data = check_read(check_reference("chat-templates/cases.jsonl"), &n);
    CHECK(data != NULL);
    while (data && at < n) {
        size_t len = strcspn(data + at, "\n");
        infer_json *line = NULL;
        char path[400];
        CHECK(infer_json_parse(&line, data + at, len, NULL, NULL) == INFER_OK);
        at += len + 1;
        if (strcmp(name, cp_string(line, "template")) == 0) {
            infer_json_free(line);
            continue;
        }
        snprintf(name, sizeof name, "%s", cp_string(line, "template"));
        infer_json_free(line);
        snprintf(path, sizeof path, "chat-templates/templates/%s", name);
        source = check_read(check_reference(path), &n_source);
        CHECK(source != NULL);
        for (i = 0; i <= sizeof CONTEXTS / sizeof *CONTEXTS && source; i++) {
            infer_json *context = NULL, *thought = NULL;
            const infer_json *messages;
            static char json[CM_TEXT], tools[CM_TEXT];
            char *variables = NULL;
            infer_chat_params chat;
            cm_talk talk;
            memset(&chat, 0, sizeof chat);
            if (i < sizeof CONTEXTS / sizeof *CONTEXTS) context = cp_context(CONTEXTS[i]);
            else CHECK(infer_json_parse(&thought, THOUGHT, sizeof THOUGHT - 1, NULL, NULL) == INFER_OK);
            messages = context ? infer_json_get(context, "messages") : thought;
            cm_ordered(messages, 0, json, 0);
            cm_ordered(infer_json_get(context, "tools"), 0, tools, 0);
            if (context) variables = cp_variables(context);
            check_detail = name;
            CHECK(cm_from_json(&talk, messages, infer_json_get(context, "tools")));
            chat.template_text = source;
            chat.messages_json = json;
            if (talk.n_tools) chat.tools_json = tools;
            chat.variables = variables;
            chat.now = "2024-07-26 00:00:00";
            rendered += cm_same(&chat, &talk);
            compared++;
            cm_free(&talk);
            free(variables);
            infer_json_free(context);
            infer_json_free(thought);
        }
        free(source);
    }
    CHECK(compared > 300 && rendered > 250);
    free(data);
}

static void cm_refused(const infer_chat_message *last, const infer_chat_tool *tool, infer_result want, const char *what) {
    infer_chat_message m[2] = { { "user", "a", 0, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, { 0 } } };
    infer_chat_params chat;
    infer_rendering *out = (infer_rendering *)1;
    infer_error err;
    memset(&chat, 0, sizeof chat);
    m[1] = *last;
    chat.template_text = CM_ALL;
    chat.messages = m;
    chat.n_messages = 2;
    chat.tools = tool;
    chat.n_tools = tool != NULL;
    check_detail = what;
    CHECK(infer_chat_render(NULL, &chat, &out, &err) == want && !out);
    CHECK_STR(err.message, what);
}
static void test_chat_structs_refused(void) {
    static const infer_chat_message user = { "user", "b", 0, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, { 0 } };
    infer_chat_message m = user;
    infer_chat_part parts[2] = { { INFER_CHAT_PART_TEXT, "a", 0 }, { INFER_CHAT_PART_MEDIA, NULL, 0 } };
    infer_chat_call calls[2] = { { "1", "f", "{}", 0 }, { "2", "g", "{\"a\": }", 0 } };
    infer_chat_tool tool = { NULL, "d", NULL };
    infer_chat_params chat;
    infer_chat_parser_params pp;
    infer_chat_parser *parser = NULL;
    infer_rendering *out = NULL;
    infer_error err;
    m.role = NULL;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: role is NULL");
    m = user;
    m.content = NULL;
    m.n_content = 1;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: content is NULL but n_content is not 0");
    m = user;
    m.n_reasoning = 1;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: reasoning is NULL but n_reasoning is not 0");
    m = user;
    m.n_parts = 1;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: parts is NULL but n_parts is not 0");
    m.parts = parts;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: content and parts are both given");
    m.content = NULL;
    m.n_parts = 2;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: parts[1] is a picture or sound, and n_media is 0");
    parts[1].kind = 7;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: parts[1]: kind 7 is no INFER_CHAT_PART_*");
    parts[1].kind = INFER_CHAT_PART_TEXT;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: parts[1]: text is NULL");
    m = user;
    m.n_calls = 2;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: calls is NULL but n_calls is not 0");
    m.calls = calls;
    cm_refused(&m, NULL, INFER_ERR_FORMAT, "messages[1]: calls[1]: arguments: JSON, line 1 column 7: a value is expected");
    calls[1].arguments = "[]";
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: calls[1]: arguments: an object is expected");
    calls[1].arguments = "{}}, {"; /* it cannot end what is around it */
    cm_refused(&m, NULL, INFER_ERR_FORMAT, "messages[1]: calls[1]: arguments: JSON, line 1 column 3: something follows the value");
    calls[1].n_arguments = 2;
    calls[1].name = NULL;
    cm_refused(&m, NULL, INFER_ERR_ARGUMENT, "messages[1]: calls[1]: name is NULL");
    cm_refused(&user, &tool, INFER_ERR_ARGUMENT, "tools[0]: name is NULL");
    tool.name = "f";
    tool.parameters = "{";
    cm_refused(&user, &tool, INFER_ERR_FORMAT, "tools[0]: parameters: JSON, line 1 column 2: a name in quotes is expected");
    memset(&pp, 0, sizeof pp);
    pp.format = "hermes";
    pp.tools = &tool;
    pp.n_tools = 1;
    CHECK(infer_chat_parser_create(&parser, NULL, &pp, &err) == INFER_ERR_FORMAT && !parser);
    pp.tools_json = "[]";
    CHECK(infer_chat_parser_create(&parser, NULL, &pp, &err) == INFER_ERR_ARGUMENT && !parser);
    memset(&chat, 0, sizeof chat);
    chat.template_text = CM_ALL;
    chat.messages = &user;
    CHECK(infer_chat_render(NULL, &chat, &out, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "n_messages is 0");
    chat.n_messages = 1;
    chat.n_tools = 1;
    CHECK(infer_chat_render(NULL, &chat, &out, &err) == INFER_ERR_ARGUMENT);
    CHECK_STR(err.message, "tools is NULL but n_tools is not 0");
    chat.tools = &tool;
    chat.tools_json = "[]";
    CHECK(infer_chat_render(NULL, &chat, &out, &err) == INFER_ERR_ARGUMENT);
    CHECK_STR(err.message, "tools and tools_json are both given");
    chat.messages_json = "[]";
    CHECK(infer_chat_render(NULL, &chat, &out, &err) == INFER_ERR_ARGUMENT);
    CHECK_STR(err.message, "messages and messages_json are both given");
}

/* A reply passed back as a message; what conversations and requests make of structs; types of arguments from tools. */
static void test_chat_structs_reply(void) {
    static const char TYPED[] = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>12</arg_value>\n</tool_call>";
    static const queue_way way = { 2, 0, 0, 0, 0, 0, 128 };
    infer_chat_tool tool = { "f", NULL, "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}}}" };
    infer_chat_parser_params pp;
    infer_chat_parser *parser = NULL, *json = NULL;
    infer_chat_params chat;
    infer_chat_message m[3];
    infer_generate_params g;
    infer_request_params rp;
    infer_request *request = NULL;
    infer_session *s;
    infer_model *model = ca_model(&s);
    infer_queue *q = queue_open(model, &way);
    const infer_chat_reply *r;
    infer_error err;
    infer_token a[400], b[400];
    char text[2000];
    size_t n = 0, k = 0, len = 0;
    memset(&pp, 0, sizeof pp);
    memset(&chat, 0, sizeof chat);
    memset(m, 0, sizeof m);
    memset(&g, 0, sizeof g);
    memset(&rp, 0, sizeof rp);
    pp.format = "arg_key";
    pp.tools = &tool;
    pp.n_tools = 1;
    CHECK(infer_chat_parser_create(&parser, NULL, &pp, &err) == INFER_OK);
    CHECK(infer_chat_parser_feed(parser, TYPED, sizeof TYPED - 1) == INFER_OK && infer_chat_parser_finish(parser) == INFER_OK);
    r = infer_chat_parser_reply(parser);
    CHECK(r->n_calls == 1);
    if (r->n_calls == 1) CHECK_STR(r->calls[0].arguments, "{\"a\": \"12\"}"); /* a string, as the tool says */
    infer_chat_parser_destroy(parser);
    /* the same reply by infer_chat and by a queue, and again behind what was answered */
    chat.template_text = CA_TEMPLATE;
    m[0].role = "user";
    m[0].content = "Once upon a time";
    chat.messages = m;
    chat.n_messages = 1;
    g.max_tokens = 24;
    CHECK(infer_chat(s, NULL, &chat, &g, &parser, NULL) == INFER_OK);
    r = infer_chat_parser_reply(parser);
    CHECK(strncmp(r->content, CA_STORY, 60) == 0);
    rp.chat = &chat;
    rp.generate.max_tokens = 24;
    CHECK(infer_queue_submit(q, &rp, &request, &err) == INFER_OK);
    memset(m, 0xee, sizeof m); /* everything was copied */
    CHECK(infer_request_wait(request) == INFER_OK);
    CHECK_STR(infer_request_reply(request)->content, r->content);
    infer_request_close(request);
    memset(m, 0, sizeof m);
    m[0].role = "user";
    m[0].content = "Once upon a time";
    m[1].role = "assistant";
    m[1].content = r->content;
    m[1].n_content = r->n_content;
    m[1].reasoning = r->reasoning;
    m[1].n_reasoning = r->n_reasoning;
    m[1].calls = r->calls;
    m[1].n_calls = r->n_calls;
    m[2].role = "user";
    m[2].content = " One \"day\"";
    chat.n_messages = 3;
    CHECK(infer_chat_format(model, &chat, a, 400, &n, &err) == INFER_OK);
    len = (size_t)snprintf(text, sizeof text, "[{\"role\":\"user\",\"content\":\"Once upon a time\"},{\"role\":\"assistant\",\"content\":");
    CHECK(infer_json_quote(r->content, r->n_content, text + len, sizeof text - len, &k) == INFER_OK);
    snprintf(text + len + k, sizeof text - len - k, "},{\"role\":\"user\",\"content\":\" One \\\"day\\\"\"}]");
    chat.messages = NULL;
    chat.n_messages = 0;
    chat.messages_json = text;
    CHECK(infer_chat_format(model, &chat, b, 400, &k, &err) == INFER_OK && k == n && memcmp(a, b, n * sizeof *a) == 0);
    infer_chat_parser_destroy(parser);
    infer_chat_parser_destroy(json);
    infer_session_destroy(s);
    CHECK(infer_queue_destroy(q) == INFER_OK && infer_model_close(model) == INFER_OK);
}

/* A full conversation of structs: turns are dropped, and full answers with structs. */
static int cm_full(void *user, infer_chat_params *chat, int32_t tokens, int32_t most) {
    int *called = (int *)user;
    CHECK(!chat->messages_json && chat->n_messages == 9 && tokens > most);
    chat->messages += 8; /* the last one */
    chat->n_messages = 1;
    if ((*called)++ == 1) chat->messages_json = "[]"; /* both */
    return 1;
}
static void test_chat_structs_full(void) {
    infer_model *model = generate_model(NULL);
    infer_session *s = generate_session(model, 64);
    infer_chat_message m[9];
    infer_chat_params chat;
    infer_chat_parser *reply = NULL;
    infer_generate_params g;
    infer_generate_info info;
    int i, called = 0;
    memset(m, 0, sizeof m);
    memset(&chat, 0, sizeof chat);
    memset(&g, 0, sizeof g);
    for (i = 0; i < 9; i++) {
        m[i].role = i % 2 ? "assistant" : "user";
        m[i].content = i == 8 ? "Who?" : "Lily went to the park with her dog.";
    }
    chat.template_text = CA_TEMPLATE;
    chat.messages = m;
    chat.n_messages = 9;
    chat.user = &called;
    g.max_tokens = 4;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_CONTEXT_FULL);
    infer_chat_parser_destroy(reply);
    chat.on_full = INFER_CHAT_FULL_DROP;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK && info.dropped > 0 && info.dropped % 2 == 0 && info.new_tokens > 0);
    infer_chat_parser_destroy(reply);
    chat.on_full = INFER_CHAT_FULL_ASK;
    chat.full = cm_full;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK && called == 1 && info.prompt_tokens < 8 && info.new_tokens > 0);
    infer_chat_parser_destroy(reply);
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_ERR_ARGUMENT && !reply && called == 2);
    infer_session_destroy(s);
    CHECK(infer_model_close(model) == INFER_OK);
}

/* Every allocation fails once. */
static void test_chat_structs_memory(void) {
    infer_allocator a = { NULL, check_alloc, check_free };
    infer_chat_call call = { "1", "f", "{\"a\": 1}", 0 };
    infer_chat_tool tool = { "f", "d", "{}" };
    infer_chat_message m[2] = { { "user", "a", 0, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, { 0 } }, { "assistant", "b", 0, "r", 0, NULL, 1, NULL, NULL, NULL, 0, { 0 } } };
    infer_model_params mp;
    infer_model *model = NULL;
    infer_chat_params chat;
    infer_result r = INFER_ERR_MEMORY;
    infer_error err;
    infer_token ids[100];
    size_t n;
    long at, live;
    memset(&mp, 0, sizeof mp);
    memset(&chat, 0, sizeof chat);
    mp.allocator = a;
    check_live = check_fail_at = 0;
    CHECK(infer_model_open(&model, check_data("models/stories260K.F32.gguf"), &mp, &err) == INFER_OK);
    m[1].calls = &call;
    chat.template_text = CM_ALL;
    chat.messages = m;
    chat.n_messages = 2;
    chat.tools = &tool;
    chat.n_tools = 1;
    live = check_live;
    for (at = 1; r != INFER_OK && at < 3000; at++) {
        check_allocs = 0;
        check_fail_at = at;
        r = infer_chat_format(model, &chat, ids, 100, &n, &err);
        check_fail_at = 0;
        CHECK((r == INFER_OK || r == INFER_ERR_MEMORY) && check_live == live);
    }
    CHECK(at > 20 && at < 3000);
    CHECK(infer_model_close(model) == INFER_OK && check_live == 0);
}

static void suite_chat_message(void) {
    RUN(test_chat_structs);
    RUN(test_chat_structs_templates);
    RUN(test_chat_structs_refused);
    RUN(test_chat_structs_reply);
    RUN(test_chat_structs_full);
    RUN(test_chat_structs_memory);
}
