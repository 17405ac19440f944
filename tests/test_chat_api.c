/* test_chat_api.c: conversations with a model: infer_chat, infer_chat_format, infer_chat_parser_* as callers use them. */

static const char CA_TEMPLATE[] = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
static const char CA_ONCE[] = "[{\"role\":\"user\",\"content\":\"Once upon a time\"}]";
static const char CA_STORY[] = ", there was a little girl named Lily. She loved to play outside in the park.";

typedef struct ca_told { char text[1000]; size_t n; int stop_at, deltas; infer_session *cancel; } ca_told;
static int ca_take(void *user, const infer_chat_delta *d) {
    ca_told *t = (ca_told *)user;
    if (d->kind == INFER_CHAT_CONTENT && t->n + d->n < sizeof t->text) {
        memcpy(t->text + t->n, d->text, d->n);
        t->n += d->n;
    }
    t->text[t->n] = 0;
    if (++t->deltas == t->stop_at && t->cancel) infer_session_cancel(t->cancel);
    return t->deltas == t->stop_at && !t->cancel;
}
static int ca_count(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    (void)token; (void)logprob; (void)top; (void)n_top;
    ++*(int *)user;
    return 0;
}

static infer_model *ca_model(infer_session **s) {
    infer_model *m = NULL;
    infer_error err;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &err) == INFER_OK);
    CHECK(infer_session_create(s, m, NULL, &err) == INFER_OK);
    return m;
}

static void test_chat_turns(void) {
    infer_session *s;
    infer_model *m = ca_model(&s);
    infer_chat_params chat;
    infer_generate_params g;
    infer_generate_info info;
    infer_chat_parser *reply;
    infer_stats before = { 0 }, after = { 0 };
    ca_told told;
    char longer[1200];
    int tokens = 0;
    static const char *const STOP[] = { "girl" };
    memset(&chat, 0, sizeof chat);
    memset(&g, 0, sizeof g);
    memset(&told, 0, sizeof told);
    chat.messages_json = CA_ONCE;
    chat.template_text = CA_TEMPLATE;
    chat.fn = ca_take;
    chat.user = &told;
    g.max_tokens = 24;
    g.token = ca_count;
    g.user = &tokens;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK);
    CHECK(strncmp(told.text, CA_STORY, 60) == 0);
    CHECK_STR(infer_chat_parser_reply(reply)->content, told.text);
    CHECK_STR(infer_chat_parser_format(reply), "plain");
    CHECK(info.stop_reason == INFER_STOP_LIMIT && info.new_tokens == 24 && tokens == 24 && info.prompt_tokens == 5);
    /* a longer conversation: what the session holds is not evaluated again */
    snprintf(longer, sizeof longer, "[{\"role\":\"user\",\"content\":\"Once upon a time\"},{\"role\":\"assistant\",\"content\":\"%s\"},"
             "{\"role\":\"user\",\"content\":\" One day\"}]", told.text);
    infer_chat_parser_destroy(reply);
    infer_session_stats(s, &before);
    chat.messages_json = longer;
    g.max_tokens = 1;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK);
    infer_session_stats(s, &after);
    CHECK(info.prompt_tokens > 25 && after.prompt_tokens + after.new_tokens - before.prompt_tokens - before.new_tokens < 12);
    infer_chat_parser_destroy(reply);
    /* stop strings, a callback, cancelling */
    chat.messages_json = CA_ONCE;
    memset(&told, 0, sizeof told);
    g.max_tokens = 24;
    g.stop = STOP;
    g.n_stop = 1;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK && info.stop_reason == INFER_STOP_STRING);
    CHECK_STR(infer_chat_parser_reply(reply)->content, ", there was a little "); /* the end is not white space beside a mark */
    CHECK_STR(told.text, ", there was a little ");
    infer_chat_parser_destroy(reply);
    memset(&told, 0, sizeof told);
    told.stop_at = 2;
    g.n_stop = 0;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK && info.stop_reason == INFER_STOP_CALLBACK);
    CHECK(told.deltas == 2);
    infer_chat_parser_destroy(reply);
    memset(&told, 0, sizeof told);
    told.stop_at = 2;
    told.cancel = s;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_CANCELLED && info.stop_reason == INFER_STOP_CANCELLED);
    CHECK(reply != NULL && infer_chat_parser_reply(reply)->n_content > 0);
    infer_chat_parser_destroy(reply);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_chat_errors(void) {
    infer_session *s;
    infer_model *m = ca_model(&s);
    infer_chat_params chat;
    infer_chat_parser_params p;
    infer_chat_parser *reply = (infer_chat_parser *)1;
    infer_rendering *text;
    infer_token ids[64];
    infer_error err;
    size_t n;
    memset(&chat, 0, sizeof chat);
    memset(&p, 0, sizeof p);
    CHECK(infer_chat(NULL, NULL, &chat, NULL, &reply, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_chat(s, NULL, &chat, NULL, &reply, NULL) == INFER_ERR_ARGUMENT && reply == NULL);
    CHECK_HAS(infer_session_error(s)->message, "messages and messages_json are both NULL");
    CHECK(infer_chat(s, NULL, NULL, NULL, &reply, NULL) == INFER_ERR_ARGUMENT);
    chat.messages_json = CA_ONCE;
    CHECK(infer_chat(s, NULL, &chat, NULL, NULL, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_chat(s, NULL, &chat, NULL, &reply, NULL) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(infer_session_error(s)->message, "no chat template");
    chat.allow_chatml = 1;
    chat.tools_json = "[{\"name\":\"f\"}]";
    CHECK(infer_chat_render(m, &chat, &text, &err) == INFER_ERR_UNSUPPORTED && text == NULL);
    CHECK_HAS(err.message, "tools");
    chat.tools_json = " [ ] ";
    CHECK(infer_chat_render(m, &chat, &text, &err) == INFER_OK);
    CHECK_STR(text->text, "<|im_start|>user\nOnce upon a time<|im_end|>\n<|im_start|>assistant\n");
    CHECK(text->n_segments == 5 && text->segments[3].from_message && !text->segments[4].from_message);
    infer_rendering_free(text);
    chat.no_generation_prompt = 1;
    CHECK(infer_chat(s, NULL, &chat, NULL, &reply, NULL) == INFER_ERR_ARGUMENT);
    chat.no_generation_prompt = 0;
    chat.template_name = "rag";
    CHECK(infer_chat_format(m, &chat, ids, 64, &n, &err) == INFER_ERR_ARGUMENT && n == 0);
    CHECK_HAS(err.message, "tokenizer.chat_template.rag");
    chat.template_name = NULL;
    chat.template_text = "{{ raise_exception('not this way') }}";
    CHECK(infer_chat_format(m, &chat, ids, 64, &n, &err) == INFER_ERR_STATE);
    CHECK_STR(err.message, "not this way");
    chat.template_text = "{% if %}";
    CHECK(infer_chat_format(m, &chat, ids, 64, &n, &err) == INFER_ERR_FORMAT);
    chat.template_text = "";
    CHECK(infer_chat_render(NULL, &chat, &text, &err) == INFER_OK && text->n == 0);
    infer_rendering_free(text);
    chat.template_text = CA_TEMPLATE;
    CHECK(infer_chat_format(m, &chat, ids, 2, &n, &err) == INFER_OK && n == 5 && ids[0] == 1); /* one BOS */
    CHECK(infer_chat_format(m, &chat, ids, 64, &n, &err) == INFER_OK && n == 5 && ids[0] == 1 && ids[1] != 1);
    chat.template_text = "{{ messages[0].content }}";
    CHECK(infer_chat_format(m, &chat, ids, 64, &n, &err) == INFER_OK && n == 5 && ids[0] == 1); /* the vocabulary asks for it */
    chat.messages_json = "[{\"role\":\"user\",\"content\":\"<s>a\"}]";
    chat.template_text = CA_TEMPLATE;
    CHECK(infer_chat_format(m, &chat, ids, 64, &n, &err) == INFER_OK && ids[0] == 1 && n > 3);
    while (n-- > 1) CHECK(ids[n] != 1);
    CHECK(infer_chat_parser_create(&reply, m, NULL, &err) == INFER_ERR_ARGUMENT && reply == NULL);
    CHECK_HAS(err.message, "no format");
    CHECK(infer_chat_parser_create(&reply, NULL, &p, &err) == INFER_ERR_ARGUMENT);
    p.template_text = "<tool_call> <think>";
    CHECK(infer_chat_parser_create(&reply, NULL, &p, &err) == INFER_OK);
    CHECK_STR(infer_chat_parser_format(reply), "hermes/think");
    infer_chat_parser_destroy(reply);
    infer_chat_parser_destroy(NULL);
    CHECK(infer_chat_parser_feed(NULL, "", 0) == INFER_ERR_ARGUMENT && infer_chat_parser_reply(NULL)->n_calls == 0);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Every allocation of a turn fails once: an error, nothing leaks, and the session can be used on. */
/* A reply that the caller has begun: it goes on as the text does, and belongs to the reply, but is not told. */
static void test_chat_begun(void) {
    static const char BEGUN[] = ", there was a <|im_end|>little girl";
    infer_session *s;
    infer_model *m = ca_model(&s);
    infer_chat_params chat;
    infer_generate_params g;
    infer_chat_parser *reply = NULL, *plain = NULL;
    infer_rendering *text = NULL;
    infer_error err;
    infer_token ids[64], more[64];
    ca_told told;
    size_t n = 0, k = 0;
    memset(&chat, 0, sizeof chat);
    memset(&g, 0, sizeof g);
    memset(&told, 0, sizeof told);
    chat.messages_json = CA_ONCE;
    chat.template_text = CA_TEMPLATE;
    g.max_tokens = 24;
    CHECK(infer_chat(s, NULL, &chat, &g, &plain, NULL) == INFER_OK);
    chat.begun = ", there was a little girl"; /* what it would have written: the rest is the same */
    chat.fn = ca_take;
    chat.user = &told;
    g.max_tokens = 12;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, NULL) == INFER_OK);
    CHECK(strncmp(told.text, CA_STORY + 25, 20) == 0);
    CHECK(strncmp(infer_chat_parser_reply(reply)->content, CA_STORY, 45) == 0 && infer_chat_parser_reply(reply)->n_content == 25 + told.n);
    /* its text is a message's: no control tokens */
    CHECK(infer_chat_format(m, &chat, ids, 64, &n, &err) == INFER_OK);
    chat.begun = BEGUN;
    CHECK(infer_chat_format(m, &chat, more, 64, &k, &err) == INFER_OK && k > n && infer_token_flags(m, more[k - 3]) == INFER_TOKEN_NORMAL);
    CHECK(infer_chat_render(m, &chat, &text, &err) == INFER_OK);
    CHECK(text->n == 19 + strlen(BEGUN) && strcmp(text->text, "<s>Once upon a time, there was a <|im_end|>little girl") == 0);
    CHECK(text->segments[text->n_segments - 1].from_message && text->segments[text->n_segments - 1].text == text->text + 19);
    CHECK(text->segments[0].text == text->text);
    infer_rendering_free(text);
    chat.begun = "";
    CHECK(infer_chat_format(m, &chat, more, 64, &k, &err) == INFER_OK && k == 5);
    chat.begun = "x";
    chat.no_generation_prompt = 1;
    CHECK(infer_chat_format(m, &chat, more, 64, &k, &err) == INFER_ERR_ARGUMENT);
    infer_chat_parser_destroy(reply);
    infer_chat_parser_destroy(plain);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Reasoning that goes on for too long is ended; in a queue as well. */
static const char CA_THINKS[] = "{{ bos_token }}{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}";
static void test_chat_thinking_tokens(void) {
    static const queue_way way = { 2, 0, 0, 0, 0, 0, 128 };
    infer_session *s;
    infer_model *m = ca_model(&s);
    infer_chat_params chat;
    infer_generate_params g;
    infer_generate_info info;
    infer_chat_parser *reply;
    infer_request_params p;
    infer_request *r;
    infer_queue *q;
    infer_error err;
    int n;
    memset(&chat, 0, sizeof chat);
    memset(&g, 0, sizeof g);
    memset(&p, 0, sizeof p);
    chat.messages_json = CA_ONCE;
    chat.template_text = CA_THINKS;
    g.max_tokens = 30;
    for (n = 0; n < 8; n++) {
        size_t k = 0;
        infer_token ids[64];
        chat.thinking_tokens = n;
        CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK && info.new_tokens == 30);
        if (n == 0) CHECK(infer_chat_parser_reply(reply)->n_content == 0 && infer_chat_parser_reply(reply)->n_reasoning > 30);
        else {
            const char *text = infer_chat_parser_reply(reply)->reasoning;
            CHECK(infer_tokenize(m, text, strlen(text), 0, ids, 64, &k, &err) == INFER_OK && k >= (size_t)n - 1 && k <= (size_t)n + 1);
            CHECK(infer_chat_parser_reply(reply)->n_content > 10 && !strstr(infer_chat_parser_reply(reply)->content, "think"));
        }
        q = queue_open(m, &way);
        p.chat = &chat;
        p.generate = g;
        CHECK(infer_queue_submit(q, &p, &r, &err) == INFER_OK && infer_request_wait(r) == INFER_OK);
        CHECK_STR(infer_request_reply(r)->content, infer_chat_parser_reply(reply)->content);
        CHECK_STR(infer_request_reply(r)->reasoning, infer_chat_parser_reply(reply)->reasoning);
        infer_request_close(r);
        CHECK(infer_queue_destroy(q) == INFER_OK);
        infer_chat_parser_destroy(reply);
    }
    chat.thinking_tokens = -1;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_ERR_ARGUMENT);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_chat_turn_memory(void) {
    infer_allocator a = { NULL, check_alloc, check_free };
    infer_model_params mp;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_chat_params chat;
    infer_generate_params g;
    infer_error err;
    infer_result r = INFER_ERR_MEMORY;
    long at, live;
    memset(&mp, 0, sizeof mp);
    memset(&chat, 0, sizeof chat);
    memset(&g, 0, sizeof g);
    mp.allocator = a;
    check_live = 0;
    check_fail_at = 0;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, &err) == INFER_OK);
    CHECK(infer_session_create(&s, m, NULL, &err) == INFER_OK);
    chat.messages_json = CA_ONCE;
    chat.template_text = CA_TEMPLATE;
    chat.begun = ",";
    g.max_tokens = 3;
    live = check_live;
    for (at = 1; r != INFER_OK && at < 3000; at++) {
        infer_chat_parser *reply;
        infer_session_rewind(s, 0);
        check_allocs = 0; check_fail_at = at;
        r = infer_chat(s, NULL, &chat, &g, &reply, NULL);
        check_fail_at = 0;
        CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
        if (r == INFER_OK) CHECK(strncmp(infer_chat_parser_reply(reply)->content, ", there was", 8) == 0);
        infer_chat_parser_destroy(reply);
        if (check_live > live + 4) { CHECK(check_live <= live + 4); break; } /* the session keeps a few buffers */
    }
    CHECK(at > 20 && at < 3000);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
}

#define CA_TOOLS(more) "[{\"type\":\"function\",\"function\":{\"name\":\"say\",\"parameters\":{\"type\":\"object\",\"properties\":{" \
    "\"w\":{\"type\":\"string\",\"maxLength\":9},\"n\":{\"type\":[\"integer\",\"string\"]},\"l\":{\"type\":\"array\",\"items\":{\"enum\":[true,null,\"</p\"]}}},\"required\":[\"w\",\"n\"]" \
    more "}}},{\"type\":\"function\",\"function\":{\"name\":\"time\"}}]"

/* Texts that the grammar of calls accepts are calls to the parser, with arguments as they were meant; it refuses what it would read otherwise. */
static void test_chat_grammar(void) {
    static const struct { const char *marks, *text, *args; } cases[] = { /* args NULL: refused */
        { "<tool_call>", "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"w\": \"a</p\", \"n\": \"5\"}}\n</tool_call>", "{\"w\": \"a</p\", \"n\": \"5\"}" },
        { "<tool_call>", "<tool_call>{\"name\": \"say\", \"arguments\": {\"w\": \"\", \"n\": 1, \"l\": [null]}}</tool_call>", "{\"w\": \"\", \"n\": 1, \"l\": [null]}" },
        { "<tool_call>", "<tool_call>{\"name\": \"say\", \"arguments\": {\"w\": \"\", \"n\": 1, \"other\": 1}}</tool_call>", NULL },
        { "<tool_call>", "<tool_call>{\"name\": \"say\", \"arguments\": {\"w\": \"\"}}</tool_call>", NULL },
        { "<tool_call>", "<tool_call>{\"name\": \"nope\", \"arguments\": {}}</tool_call>", NULL },
        { "<tool_call>", "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>", "{}" },
        { "<tool_call>", "Yes. <tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>", NULL },
        { "<tool_call><think>", "<think>so \"</thin\" \n</think>\n\n<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>", "{}" },
        { "<tool_call><think>", "<think>so</think>well</think><tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>", NULL },
        { "<function=f><parameter=p>", "<tool_call>\n<function=say>\n<parameter=w>\n</p \n\n</parameter>\n<parameter=n>\n5 x\n</parameter>\n</function>\n</tool_call>", "{\"w\": \"</p \\n\", \"n\": \"5 x\"}" },
        { "<function=f><parameter=p>", "<tool_call>\n<function=say>\n<parameter=w>\nnull\n</parameter>\n<parameter=n>\n-7\n</parameter>\n<parameter=l>\n[true,\"\\u003c/p\"]\n</parameter>\n</function>\n</tool_call>",
          "{\"w\": \"null\", \"n\": -7, \"l\": [true, \"</p\"]}" },
        { "<function=f><parameter=p>", "<tool_call>\n<function=say>\n<parameter=w>\n</parameter>", NULL },
        { "<function=f><parameter=p>", "<tool_call>\n<function=say>\n<parameter=w>\n\n</parameter>\n<parameter=n>\n1.5\n</parameter>", NULL }, /* it would be a number */
        { "<function=f><parameter=p>", "<tool_call>\n<function=say>\n<parameter=w>\n0123456789\n</parameter>", NULL },
        { "<|tool_call_start|>", "<|tool_call_start|>[say(w=\"it's\", n=5, l=[True, None]), time()]<|tool_call_end|>", "{\"w\": \"it's\", \"n\": 5, \"l\": [true, null]}" },
        { "<|tool_call_start|>", "<|tool_call_start|>[say(w=\"\", n=\"5\", l=[true])]<|tool_call_end|>", NULL },
        { "<|tool_call>call:", "<|tool_call>call:say{w:<|\"|>a\"<|\"|>,n:5,l:[null,<|\"|></p<|\"|>]}<tool_call|>", "{\"w\": \"a\\\"\", \"n\": 5, \"l\": [null, \"</p\"]}" },
        { "<|tool_call>call:", "<|tool_call>call:say{w:<|\"|><|\"|><|\"|>", NULL },
        { "]<]minimax[>[", "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"say\">\n]<]minimax[>[<w>]<]minimax]<]minimax[>[</w>\n", NULL }, /* ten characters */
        { "\xef\xbd\x9c" "DSML" "\xef\xbd\x9c", "<\xef\xbd\x9c" "DSML\xef\xbd\x9ctool_calls>\n<\xef\xbd\x9c" "DSML\xef\xbd\x9cinvoke name=\"say\">\n<\xef\xbd\x9c" "DSML\xef\xbd\x9cparameter name=\"w\" string=\"true\">5"
          "</\xef\xbd\x9c" "DSML\xef\xbd\x9cparameter>\n<\xef\xbd\x9c" "DSML\xef\xbd\x9cparameter name=\"n\" string=\"false\">5</\xef\xbd\x9c" "DSML\xef\xbd\x9cparameter>\n</\xef\xbd\x9c" "DSML\xef\xbd\x9cinvoke>"
          "\n</\xef\xbd\x9c" "DSML\xef\xbd\x9ctool_calls>", "{\"w\": \"5\", \"n\": 5}" },
        { "<|tool_calls_section_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>functions.time:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>functions.time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "{}" },
        { "<|tool_calls_section_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>functions.time:1", NULL },
        { "<|channel|><|message|>", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.time <|constrain|>json<|message|>{}", "{}" },
        { "<|channel|><|message|>", "<|channel|>final<|message|>", NULL },
    };
    infer_session *s;
    infer_model *m = ca_model(&s);
    infer_chat_params chat;
    infer_chat_grammar_params p;
    infer_chat_parser_params pp;
    infer_chat_parser *parser;
    infer_grammar *g;
    infer_error err;
    char template_text[200];
    size_t i, n;
    int32_t complete;
    memset(&chat, 0, sizeof chat);
    memset(&p, 0, sizeof p);
    memset(&pp, 0, sizeof pp);
    chat.messages_json = CA_ONCE;
    chat.template_text = pp.template_text = template_text;
    chat.tools_json = pp.tools_json = CA_TOOLS("");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(template_text, sizeof template_text, "{%% if 0 %%}%s{%% endif %%}%s", cases[i].marks, CA_TEMPLATE);
        CHECK(infer_chat_grammar(&g, m, &chat, NULL, &err) == INFER_OK);
        if (!g) continue;
        CHECK(infer_grammar_check(g, cases[i].text, strlen(cases[i].text), &n, &complete, &err) == INFER_OK);
        if (complete != (cases[i].args != NULL) || (n < strlen(cases[i].text)) != (cases[i].args == NULL)) CHECK_STR(cases[i].text + n, "");
        CHECK(infer_chat_parser_create(&parser, m, &pp, &err) == INFER_OK);
        if (cases[i].args && parser) {
            const infer_chat_reply *r = infer_chat_parser_reply(parser);
            infer_chat_parser_feed(parser, cases[i].text, strlen(cases[i].text));
            infer_chat_parser_finish(parser);
            r = infer_chat_parser_reply(parser);
            CHECK(r->n_calls >= 1 && r->n_content == 0);
            if (r->n_calls) CHECK_STR(r->calls[0].arguments, cases[i].args);
        }
        infer_chat_parser_destroy(parser);
        infer_grammar_destroy(g);
    }
    /* which calls, and how many */
    snprintf(template_text, sizeof template_text, "{%% if 0 %%}<tool_call><think>{%% endif %%}%s", CA_TEMPLATE);
    p.tool = "time";
    p.most = 1;
    p.no_reasoning = 1;
    CHECK(infer_chat_grammar(&g, m, &chat, &p, &err) == INFER_OK);
    CHECK(infer_grammar_check(g, "<think>", 7, &n, &complete, &err) == INFER_OK && n == 2);
    CHECK(infer_grammar_check(g, "<tool_call>\n{\"name\": \"say", 26, &n, &complete, &err) == INFER_OK && n == 22);
    CHECK(infer_grammar_check(g, "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>\n<", 58, &n, &complete, &err) == INFER_OK && n == 56);
    infer_grammar_destroy(g);
    /* the prompt has opened the reasoning, or ended it */
    snprintf(template_text, sizeof template_text, "{%% if 0 %%}<tool_call>{%% endif %%}%s<think>\n", CA_TEMPLATE);
    CHECK(infer_chat_grammar(&g, m, &chat, NULL, &err) == INFER_OK);
    CHECK(infer_grammar_check(g, "Hm.</think><tool_call>", 22, &n, &complete, &err) == INFER_OK && n == 22);
    infer_grammar_destroy(g);
    snprintf(template_text, sizeof template_text, "{%% if 0 %%}<tool_call>{%% endif %%}%s<think>\n\n</think>\n\n", CA_TEMPLATE);
    CHECK(infer_chat_grammar(&g, m, &chat, NULL, &err) == INFER_OK);
    CHECK(infer_grammar_check(g, "<think>", 7, &n, &complete, &err) == INFER_OK && n == 2);
    infer_grammar_destroy(g);
    /* what is refused */
    p.tool = "nope";
    CHECK(infer_chat_grammar(&g, m, &chat, &p, &err) == INFER_ERR_ARGUMENT && g == NULL);
    CHECK_HAS(err.message, "there is no tool \"nope\"");
    p.tool = NULL;
    p.most = -1;
    CHECK(infer_chat_grammar(&g, m, &chat, &p, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "most is -1");
    chat.begun = "I";
    CHECK(infer_chat_grammar(&g, m, &chat, NULL, &err) == INFER_ERR_ARGUMENT);
    chat.begun = NULL;
    chat.tools_json = NULL;
    CHECK(infer_chat_grammar(&g, m, &chat, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "there are no tools");
    chat.tools_json = CA_TOOLS(",\"dependentSchemas\":5");
    CHECK(infer_chat_grammar(&g, m, &chat, NULL, &err) != INFER_OK && g == NULL);
    CHECK_HAS(err.message, "tool \"say\": JSON Schema, at #");
    chat.tools_json = "[{\"type\":\"function\",\"function\":{}}]";
    CHECK(infer_chat_grammar(&g, m, &chat, NULL, &err) == INFER_ERR_FORMAT);
    snprintf(template_text, sizeof template_text, "%s", CA_TEMPLATE);
    chat.tools_json = CA_TOOLS("");
    CHECK(infer_chat_grammar(&g, m, &chat, NULL, &err) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(err.message, "no format of calls");
    CHECK(infer_chat_grammar(&g, NULL, &chat, NULL, &err) == INFER_ERR_ARGUMENT && infer_chat_grammar(NULL, m, &chat, NULL, &err) == INFER_ERR_ARGUMENT);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Every allocation of infer_chat_grammar may fail. */
static void test_chat_grammar_memory(void) {
    infer_allocator a = { NULL, check_alloc, check_free };
    infer_model_params mp;
    infer_model *m = NULL;
    infer_chat_params chat;
    infer_error err;
    infer_result r = INFER_ERR_MEMORY;
    long at, live;
    memset(&mp, 0, sizeof mp);
    memset(&chat, 0, sizeof chat);
    mp.allocator = a;
    check_live = 0;
    check_fail_at = 0;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, &err) == INFER_OK);
    chat.messages_json = CA_ONCE;
    chat.template_text = "{% if 0 %}<|tool_call>call:{% endif %}x";
    chat.tools_json = CA_TOOLS("");
    live = check_live;
    for (at = 1; m && r != INFER_OK && at < 5000; at++) {
        infer_grammar *g;
        check_allocs = 0; check_fail_at = at;
        r = infer_chat_grammar(&g, m, &chat, NULL, &err);
        check_fail_at = 0;
        CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
        infer_grammar_destroy(g);
        if (check_live != live) { CHECK(check_live == live); break; }
    }
    CHECK(at > 20 && at < 5000);
    CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
}

static void suite_chat_api(void) {
    RUN(test_chat_grammar);
    RUN(test_chat_grammar_memory);
    RUN(test_chat_turns);
    RUN(test_chat_errors);
    RUN(test_chat_begun);
    RUN(test_chat_thinking_tokens);
    RUN(test_chat_turn_memory);
}
