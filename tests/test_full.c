/* test_full.c: a full context: the caller says which tokens stay, in infer_generate, infer_chat and queues; conversations
 * that do not fit lose their oldest turns, or get other messages. Tokens that stop a text. */

typedef struct full_asked {
    int calls, answer;            /* answer: tokens to keep; -1 = as many as fit, the first and the last ones */
    int32_t n, most, bad;
    infer_token kept[64];
    int32_t n_kept;
    infer_session *other;         /* evaluated in the callback */
    infer_session *cancel;
    generate_sink *sink;
} full_asked;

/* The generation's callbacks share `user`: a full_asked with a sink. */
static int full_text(void *user, const char *s, size_t n) { return generate_text(((full_asked *)user)->sink, s, n); }
static int full_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    return generate_token(((full_asked *)user)->sink, token, logprob, top, n_top);
}
static int32_t full_take(void *user, const infer_token *tokens, int32_t n, infer_token *keep, int32_t most) {
    full_asked *f = (full_asked *)user;
    int32_t i, k = f->answer < 0 ? INFER__MIN(most, 8) : f->answer;
    f->calls++;
    f->n = n;
    f->most = most;
    if (f->other) f->bad += infer_session_eval(f->other, tokens, 1) != INFER_OK;
    if (f->cancel) infer_session_cancel(f->cancel);
    if (k > most || k > 64) return k;
    for (i = 0; i < k; i++) keep[i] = i < 3 ? tokens[i] : tokens[n - k + i];
    memcpy(f->kept, keep, (size_t)k * sizeof *keep);
    f->n_kept = k;
    return k;
}
static infer_generate_params full_params(full_asked *f, generate_sink *k, int32_t max_tokens) {
    infer_generate_params p = generate_params(k, max_tokens);
    memset(f, 0, sizeof *f);
    f->sink = k;
    f->answer = -1;
    p.user = f;
    p.text = full_text;
    p.token = full_token;
    p.full = full_take;
    p.on_full = INFER_FULL_ASK;
    p.ignore_end = 1;
    return p;
}

/* Generation goes on behind what is kept, as a session does that never held anything else. */
static void test_full_ask(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 24), *fresh = generate_session(m, 24);
    generate_sink k, k2;
    full_asked f;
    infer_generate_info info;
    infer_generate_params p = full_params(&f, &k, 19);
    int after;
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK && f.calls == 0 && info.new_tokens == 19);
    CHECK(infer_session_position(s) == 24);
    p = full_params(&f, &k, 10);
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens == 10 && info.stop_reason == INFER_STOP_LIMIT);
    CHECK(f.calls == 1 && f.n == 24 && f.most == 23 && f.n_kept == 8 && infer_session_position(s) == 18);
    after = 10;
    CHECK(memcmp(infer_session_tokens(s), f.kept, 8 * sizeof(infer_token)) == 0);
    CHECK(infer_session_eval(fresh, f.kept, 8) == INFER_OK);
    p = generate_params(&k2, after);
    p.ignore_end = 1;
    CHECK(infer_generate(fresh, NULL, NULL, &p, NULL) == INFER_OK);
    CHECK(memcmp(k.ids, k2.ids, (size_t)after * sizeof *k.ids) == 0);
    CHECK_STR(k.text, k2.text);
    /* a prompt that does not fit behind the tokens there; many times in one call */
    p = full_params(&f, &k, 100);
    CHECK(infer_generate(s, NULL, "One day, a big dog", &p, &info) == INFER_OK && info.new_tokens == 100);
    CHECK(f.calls > 5 && infer_session_position(s) <= 24);
    /* a prompt that never fits is not asked for */
    p = full_params(&f, &k, 1);
    CHECK(infer_generate(s, NULL, "one two three four five six seven eight nine ten eleven twelve thirteen", &p, &info) == INFER_CONTEXT_FULL);
    CHECK(f.calls == 0);
    infer_session_destroy(s);
    infer_session_destroy(fresh);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_full_ask_ends(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 16), *other = NULL, *in = NULL;
    infer_context *c = NULL;
    infer_context_params cp;
    infer_session_params sp;
    generate_sink k;
    full_asked f;
    infer_generate_info info;
    infer_generate_params p = full_params(&f, &k, 0);
    infer_error e;
    f.answer = 0; /* as STOP, with the token that needs no place */
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK && info.stop_reason == INFER_STOP_FULL);
    CHECK(f.calls == 1 && info.new_tokens == 12 && infer_session_position(s) == 16);
    CHECK(strncmp(k.text, generate_story, k.n) == 0);
    p = full_params(&f, &k, 5); /* more than fit */
    f.answer = 16;
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_ERR_ARGUMENT && infer_session_position(s) == 16);
    CHECK_HAS(infer_session_error(s)->message, "at most 15");
    f.answer = -1;
    f.cancel = s; /* cancelled within */
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_CANCELLED && info.stop_reason == INFER_STOP_CANCELLED && info.new_tokens == 0);
    f.cancel = NULL;
    CHECK(infer_generate(s, NULL, "x", &p, &info) == INFER_OK && info.new_tokens == 5);
    p.full = NULL;
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "full is NULL");
    p.on_full = 3;
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_ERR_ARGUMENT);
    infer_session_destroy(s);
    /* another session of the context may be used meanwhile */
    memset(&cp, 0, sizeof cp);
    memset(&sp, 0, sizeof sp);
    cp.cells = 128;
    sp.context = 32;
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_OK);
    CHECK(infer_session_create_in(&in, c, &sp, &e) == INFER_OK && infer_session_create_in(&other, c, &sp, &e) == INFER_OK);
    p = full_params(&f, &k, 60);
    f.other = other;
    CHECK(infer_generate(in, NULL, "Once upon a time", &p, &info) == INFER_OK && info.new_tokens == 60);
    CHECK(f.calls > 1 && f.bad == 0 && infer_session_position(other) == f.calls);
    infer_session_destroy(in);
    infer_session_destroy(other);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* In a queue: the same tokens as alone. */
static void test_full_queue(void) {
    static const queue_way way = { 2, 0, 0, 0, 0, 0, 48 };
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 48);
    infer_queue *q = queue_open(m, &way);
    generate_sink k, k2;
    full_asked f, f2;
    infer_request *r = NULL;
    infer_request_params rp;
    infer_generate_params p = full_params(&f, &k, 90);
    infer_error e;
    static const infer_token odd[1] = { 1 << 20 };
    infer_token stop[2];
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, NULL) == INFER_OK && f.calls > 1);
    memset(&rp, 0, sizeof rp);
    rp.prompt = "Once upon a time";
    rp.generate = full_params(&f2, &k2, 90);
    CHECK(infer_queue_submit(q, &rp, &r, &e) == INFER_OK && infer_request_wait(r) == INFER_OK);
    CHECK(f2.calls == f.calls && k2.tokens == 90 && memcmp(k.ids, k2.ids, sizeof k.ids) == 0);
    infer_request_close(r);
    /* tokens that stop it, which are copied */
    rp.generate = generate_params(&k2, 40);
    stop[0] = 5;
    stop[1] = k.ids[7];
    rp.generate.stop_tokens = stop;
    rp.generate.n_stop_tokens = 2;
    CHECK(infer_queue_submit(q, &rp, &r, &e) == INFER_OK);
    stop[1] = 5;
    CHECK(infer_request_wait(r) == INFER_OK && k2.tokens <= 7 && memcmp(k.ids, k2.ids, (size_t)k2.tokens * sizeof *k.ids) == 0);
    {
        infer_request_info info;
        CHECK(infer_request_get_info(r, &info) == INFER_OK && info.generate.stop_reason == INFER_STOP_TOKEN && info.generate.stop_token == k.ids[7]);
    }
    infer_request_close(r);
    rp.generate.stop_tokens = odd;
    rp.generate.n_stop_tokens = 1;
    CHECK(infer_queue_submit(q, &rp, &r, &e) == INFER_ERR_ARGUMENT && !r);
    CHECK_HAS(e.message, "stop_tokens[0]");
    infer_session_destroy(s);
    CHECK(infer_queue_destroy(q) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* Stop tokens in infer_generate: not reported, not evaluated; not before min_tokens; whatever ignore_end. */
static void test_full_stop_tokens(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 64);
    generate_sink k, k2;
    infer_generate_info info;
    infer_generate_params p = generate_params(&k, 30);
    infer_token stop[1];
    int i;
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK && info.new_tokens == 30);
    for (i = 0; k.ids[i] != k.ids[10]; i++) {}
    stop[0] = k.ids[10];
    p = generate_params(&k2, 30);
    p.stop_tokens = stop;
    p.n_stop_tokens = 1;
    p.ignore_end = 1;
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK && info.new_tokens == i);
    CHECK(info.stop_reason == INFER_STOP_TOKEN && info.stop_token == stop[0] && infer_session_position(s) == 5 + i);
    p = generate_params(&k2, 30);
    p.stop_tokens = stop;
    p.n_stop_tokens = 1;
    p.min_tokens = 20;
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK && info.new_tokens >= 20);
    for (i = 0; i < 20; i++) CHECK(k2.ids[i] != stop[0]);
    p.n_stop_tokens = -1;
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "n_stop_tokens is -1");
    p.n_stop_tokens = 1 << 30;
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_ERR_ARGUMENT);
    p.n_stop_tokens = 1;
    p.stop_tokens = NULL;
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_ERR_ARGUMENT);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- conversations ---------------------------------------------------------------------------------------------- */

static const char full_template[] = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";

/* A conversation: a system message, then n turns; turn i is a user's, a call, a result and an answer, each named. */
static void full_talk(char *out, size_t cap, int from, int n) {
    size_t at = (size_t)snprintf(out, cap, "[{\"role\": \"system\", \"content\": \"Rules.\"}");
    int i;
    for (i = from; i < n; i++)
        at += (size_t)snprintf(out + at, cap - at,
                               ", {\"role\": \"user\", \"content\": \"u%d\"}, {\"role\": \"assistant\", \"content\": \"c%d\", \"tool_calls\": "
                               "[{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": %d}}}]}, {\"role\": \"tool\", \"content\": \"t%d\"}, "
                               "{\"role\": \"assistant\", \"content\": \"a%d\"}",
                               i, i, i, i, i);
    snprintf(out + at, cap - at, ", {\"role\": \"user\", \"content\": \"last\"}]");
}
static size_t full_count(const infer_model *m, infer_chat_params chat, const char *messages) {
    size_t n = 0;
    infer_error e;
    chat.messages_json = messages;
    CHECK(infer_chat_format(m, &chat, NULL, 0, &n, &e) == INFER_OK);
    return n;
}

static void test_full_chat_drop(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s;
    infer_chat_params chat;
    infer_generate_params g;
    infer_generate_info info;
    infer_chat_parser *reply = NULL;
    char whole[4096], want[4096];
    infer_token ids[512];
    infer_error e;
    size_t n;
    int drop;
    memset(&chat, 0, sizeof chat);
    memset(&g, 0, sizeof g);
    chat.template_text = full_template;
    chat.on_full = INFER_CHAT_FULL_DROP;
    g.max_tokens = 3;
    full_talk(whole, sizeof whole, 0, 6);
    for (drop = 0; drop <= 6; drop++) { /* of the 6 turns so many are left out, where there is room for just the rest */
        full_talk(want, sizeof want, drop, 6);
        n = full_count(m, chat, want);
        s = generate_session(m, (int32_t)n + 3 + 1); /* one more would not be enough for another turn */
        chat.room = 3;
        chat.messages_json = whole;
        CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK);
        CHECK(info.dropped == 4 * drop && info.prompt_tokens == (int32_t)n && info.new_tokens > 0);
        chat.messages_json = want;
        CHECK(infer_chat_format(m, &chat, ids, 512, &n, &e) == INFER_OK && memcmp(ids, infer_session_tokens(s), n * sizeof *ids) == 0);
        infer_chat_parser_destroy(reply);
        infer_session_destroy(s);
    }
    /* less room than asked for is better than none; no room at all is an error */
    full_talk(want, sizeof want, 6, 6);
    n = full_count(m, chat, want);
    s = generate_session(m, (int32_t)n + 1);
    chat.messages_json = whole;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK && info.dropped == 24 && info.stop_reason == INFER_STOP_FULL && info.new_tokens == 2);
    infer_chat_parser_destroy(reply);
    infer_session_destroy(s);
    s = generate_session(m, (int32_t)n);
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_CONTEXT_FULL && info.stop_reason == INFER_STOP_FULL && !reply);
    CHECK_HAS(infer_session_error(s)->message, "last turn");
    /* one turn alone cannot shrink, and the default stops */
    chat.messages_json = "[{\"role\": \"user\", \"content\": \"one two three four five six seven eight nine ten eleven twelve\"}]";
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_CONTEXT_FULL);
    chat.messages_json = whole;
    chat.on_full = 0;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_CONTEXT_FULL && info.dropped == 0);
    infer_chat_parser_destroy(reply);
    chat.on_full = 3;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_ERR_ARGUMENT);
    chat.on_full = INFER_CHAT_FULL_ASK;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "full is NULL");
    chat.room = -1;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_ERR_ARGUMENT);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Ids of the reply's calls go on from the whole conversation; the queue drops as infer_chat does. */
static const char full_calls[] = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{# <tool_call> {\"name\": \"f\", \"arguments\": {}} </tool_call> #}";
static void test_full_chat_ids(void) {
    static const queue_way way = { 2, 0, 0, 0, 0, 0, 64 };
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    infer_queue *q = queue_open(m, &way);
    infer_chat_params chat;
    infer_generate_params g;
    infer_generate_info info;
    infer_request_params rp;
    infer_request_info ri;
    infer_request *r = NULL;
    infer_chat_parser *reply = NULL;
    infer_sampler *script;
    generate_script sc;
    char whole[8192];
    infer_error e;
    memset(&chat, 0, sizeof chat);
    memset(&g, 0, sizeof g);
    chat.template_text = full_calls;
    chat.on_full = INFER_CHAT_FULL_DROP;
    chat.room = 80;
    full_talk(whole, sizeof whole, 0, 12);
    chat.messages_json = whole;
    generate_bytes(m, &sc, "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>");
    script = generate_script_sampler(m, &sc);
    g.max_tokens = sc.n;
    CHECK(infer_chat(s, script, &chat, &g, &reply, &info) == INFER_OK && info.dropped > 0);
    CHECK(reply && infer_chat_parser_reply(reply)->n_calls == 1);
    if (reply && infer_chat_parser_reply(reply)->n_calls == 1) CHECK_STR(infer_chat_parser_reply(reply)->calls[0].id, "call00012");
    infer_chat_parser_destroy(reply);
    CHECK(infer_sampler_destroy(script) == INFER_OK);
    memset(&rp, 0, sizeof rp);
    chat.room = 8;
    rp.chat = &chat;
    rp.generate.max_tokens = 4;
    CHECK(infer_queue_submit(q, &rp, &r, &e) == INFER_OK && infer_request_wait(r) == INFER_OK);
    CHECK(infer_request_get_info(r, &ri) == INFER_OK && ri.generate.dropped > 0 && ri.generate.dropped % 4 == 0 && ri.generate.prompt_tokens <= 56);
    infer_request_close(r);
    chat.on_full = 0;
    CHECK(infer_queue_submit(q, &rp, &r, &e) == INFER_CONTEXT_FULL && !r);
    infer_session_destroy(s);
    CHECK(infer_queue_destroy(q) == INFER_OK && infer_model_close(m) == INFER_OK);
}

typedef struct full_told { const char *answer; int calls, tokens, most; char seen[64]; } full_told;
static int full_messages(void *user, infer_chat_params *chat, int32_t tokens, int32_t most) {
    full_told *t = (full_told *)user;
    t->calls++;
    t->tokens = tokens;
    t->most = most;
    snprintf(t->seen, sizeof t->seen, "%.50s", chat->messages_json);
    chat->messages_json = t->answer;
    return t->answer != NULL;
}
static void test_full_chat_ask(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 64);
    infer_chat_params chat;
    infer_generate_params g;
    infer_generate_info info;
    infer_chat_parser *reply = NULL;
    full_told told;
    char whole[4096];
    memset(&chat, 0, sizeof chat);
    memset(&g, 0, sizeof g);
    memset(&told, 0, sizeof told);
    chat.template_text = full_template;
    chat.on_full = INFER_CHAT_FULL_ASK;
    chat.full = full_messages;
    chat.user = &told;
    g.max_tokens = 4;
    chat.messages_json = CA_ONCE; /* it fits */
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK && told.calls == 0);
    infer_chat_parser_destroy(reply);
    full_talk(whole, sizeof whole, 0, 6);
    chat.messages_json = whole;
    told.answer = "[{\"role\": \"system\", \"content\": \"short\"}, {\"role\": \"user\", \"content\": \"last\"}]";
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_OK && told.calls == 1 && told.most == 60);
    CHECK(told.tokens == (int)full_count(m, chat, whole) && strncmp(told.seen, whole, 50) == 0);
    CHECK(info.prompt_tokens == (int32_t)full_count(m, chat, told.answer) && info.new_tokens > 0);
    infer_chat_parser_destroy(reply);
    told.answer = whole; /* still too long */
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_CONTEXT_FULL && told.calls == 2 && !reply);
    CHECK_HAS(infer_session_error(s)->message, "full: its conversation");
    told.answer = NULL;
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_CONTEXT_FULL && !reply);
    told.answer = "[";
    CHECK(infer_chat(s, NULL, &chat, &g, &reply, &info) == INFER_ERR_FORMAT && !reply);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Every allocation fails once: in the callback's way and in a conversation that drops. */
static void test_full_memory(void) {
    infer_model_params mp;
    infer_model *m;
    long fail, live = check_live;
    int failures = 0, ways;
    char whole[4096];
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    check_fail_at = 0;
    full_talk(whole, sizeof whole, 0, 3);
    m = generate_model(&mp);
    for (ways = 0; ways < 2; ways++)
        for (fail = 1; fail < 3000; fail += ways ? 1 + fail / 16 * check_every(4) : 1) {
            infer_session *s = generate_session(m, ways ? 64 : 24);
            infer_chat_parser *reply = NULL;
            generate_sink k;
            full_asked f;
            infer_generate_params p = full_params(&f, &k, 30), g;
            infer_chat_params chat;
            infer_result r;
            int used;
            memset(&chat, 0, sizeof chat);
            memset(&g, 0, sizeof g);
            chat.template_text = full_template;
            chat.messages_json = whole;
            chat.on_full = INFER_CHAT_FULL_DROP;
            g.max_tokens = 2;
            check_allocs = 0;
            check_fail_at = fail;
            r = ways ? infer_chat(s, NULL, &chat, &g, &reply, NULL) : infer_generate(s, NULL, "Once upon a time", &p, NULL);
            used = check_allocs >= fail;
            check_fail_at = 0;
            CHECK(r == (used ? INFER_ERR_MEMORY : INFER_OK));
            failures += r != INFER_OK;
            infer_chat_parser_destroy(reply);
            CHECK(infer_generate(s, NULL, "x", &p, NULL) == INFER_OK); /* it goes on */
            infer_session_destroy(s);
            if (!used) break;
        }
    CHECK(failures > 20);
    CHECK(infer_model_close(m) == INFER_OK && check_live == live);
}

static void suite_full(void) {
    RUN(test_full_ask);
    RUN(test_full_ask_ends);
    RUN(test_full_queue);
    RUN(test_full_stop_tokens);
    RUN(test_full_chat_drop);
    RUN(test_full_chat_ids);
    RUN(test_full_chat_ask);
    RUN(test_full_memory);
}
