/* test_queue.c: queues: the same bits as each request alone, for every kind of state, with few slots, little memory, drafts and shared
 * beginnings; ends of every kind; random lives; threads; without memory. */

enum { QUEUE_N = 7, QUEUE_MOST = 160 };
typedef struct queue_out { infer_token tokens[QUEUE_MOST]; float logprobs[QUEUE_MOST]; int32_t n, reason; char text[2048]; size_t len; } queue_out;
static int queue_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    queue_out *o = (queue_out *)user;
    (void)top;
    if (o->n == QUEUE_MOST) return 1;
    if (n_top) o->logprobs[o->n] = logprob;
    o->tokens[o->n++] = token;
    return 0;
}
static int queue_text(void *user, const char *s, size_t n) {
    queue_out *o = (queue_out *)user;
    if (n > sizeof o->text - o->len) return 1;
    memcpy(o->text + o->len, s, n);
    o->len += n;
    return 0;
}

/* Request k: `common` tokens that all have, and some of its own; greedy, or by seed. */
static int32_t queue_prompt(infer_token *ids, int32_t k, int32_t common) {
    const int32_t n = common + 3 + 5 * (k % 4);
    int32_t i;
    for (i = 0; i < n; i++) ids[i] = (infer_token)(i < common ? (i % 9) * 3 + 1 : (i * (k + 2)) % 29 + 1);
    return n;
}
static infer_sampler *queue_sampler(infer_model *m, int32_t k) {
    infer_sampler *s = NULL;
    infer_stage chain[2];
    infer_error e;
    memset(chain, 0, sizeof chain);
    chain[0].kind = INFER_STAGE_TOP_K;
    chain[0].p[0] = 4;
    chain[1].kind = INFER_STAGE_TEMPERATURE;
    chain[1].p[0] = 0.7f;
    if (k % 2) CHECK(infer_sampler_create(&s, m, chain, 2, (uint64_t)(7 + k), &e) == INFER_OK);
    return s;
}
static infer_generate_params queue_generate(int32_t k, int lookup, queue_out *o) {
    infer_generate_params p;
    memset(o, 0, sizeof *o);
    memset(&p, 0, sizeof p);
    p.max_tokens = 12 + 9 * (k % 3);
    p.ignore_end = 1;
    p.logprobs = k % 3 == 1;
    p.lookup = lookup && k % 3 == 0;
    p.user = o;
    p.token = queue_token;
    p.text = queue_text;
    return p;
}

/* What each request gives alone. */
static void queue_alone(infer_model *m, int32_t k, int32_t common, const infer_adapter_use *use, queue_out *o) {
    infer_session *s = cells_session(m, 512, 0, 2);
    infer_sampler *sampler = queue_sampler(m, k);
    infer_generate_params p = queue_generate(k, 0, o);
    infer_generate_info info;
    infer_token ids[256];
    const int32_t n = queue_prompt(ids, k, common);
    if (use) CHECK(infer_session_set_adapters(s, use, 1) == INFER_OK);
    CHECK(s && infer_session_eval(s, ids, n) == INFER_OK);
    CHECK(infer_generate(s, sampler, NULL, &p, &info) == INFER_OK);
    o->reason = info.stop_reason;
    infer_sampler_destroy(sampler);
    infer_session_destroy(s);
}

typedef struct queue_way { int32_t slots, rows, cells, kept, lookup, thread, positions; } queue_way;
static infer_queue *queue_open(infer_model *m, const queue_way *w) {
    infer_queue_params qp;
    infer_queue *q = NULL;
    infer_error e;
    memset(&qp, 0, sizeof qp);
    qp.context.threads = 2;
    qp.context.kv_type = INFER_KV_F32;
    qp.context.cells = w->cells;
    qp.context.batch = 64;
    qp.positions = w->positions ? w->positions : 256;
    qp.slots = w->slots;
    qp.prompt_rows = w->rows;
    qp.kept = w->kept;
    qp.thread = w->thread;
    if (infer_queue_create(&q, m, &qp, &e)) check_note(__FILE__, __LINE__, e.message);
    return q;
}

/* All requests in a queue: the same as alone. Returns the queue's numbers. */
static infer_queue_stats queue_go(infer_model *m, const queue_way *w, int32_t common, const infer_adapter_use *use, const queue_out *want,
                                  queue_out *got) {
    infer_queue *q = queue_open(m, w);
    infer_request *r[QUEUE_N];
    infer_sampler *samplers[QUEUE_N];
    infer_request_params p;
    infer_queue_stats stats;
    infer_error e;
    const infer_token *tokens;
    infer_token ids[256];
    int32_t k, n_prompt, n;
    memset(&stats, 0, sizeof stats);
    if (!q) return stats;
    for (k = 0; k < QUEUE_N; k++) {
        memset(&p, 0, sizeof p);
        p.tokens = ids;
        p.n_tokens = queue_prompt(ids, k, common);
        p.sampler = samplers[k] = queue_sampler(m, k);
        p.generate = queue_generate(k, w->lookup, &got[k]);
        p.adapters = use;
        p.n_adapters = use && k % 2;
        if (infer_queue_submit(q, &p, &r[k], &e)) check_note(__FILE__, __LINE__, e.message);
    }
    if (!w->thread) CHECK(infer_queue_step(q, 0) == INFER_MORE);
    for (k = QUEUE_N - 1; k >= 0; k--) {
        infer_request_info info;
        char name[80];
        snprintf(name, sizeof name, "request %d of %d slots, %d rows, %d cells, lookup %d", (int)k, (int)w->slots, (int)w->rows, (int)w->cells, (int)w->lookup);
        check_detail = name;
        CHECK(infer_request_wait(r[k]) == INFER_OK);
        CHECK_STR(infer_request_error(r[k])->message, "");
        CHECK(infer_request_get_info(r[k], &info) == INFER_OK);
        CHECK(info.state == INFER_REQUEST_ENDED && info.result == INFER_OK && info.generate.new_tokens == got[k].n && info.first > 0 && info.seconds >= info.first);
        got[k].reason = info.generate.stop_reason;
        CHECK(memcmp(&got[k], &want[k], sizeof *got) == 0);
        tokens = infer_request_tokens(r[k], &n_prompt, &n);
        CHECK(n_prompt == queue_prompt(ids, k, common) && n == n_prompt + got[k].n && memcmp(tokens, ids, (size_t)n_prompt * sizeof *ids) == 0);
        CHECK(memcmp(tokens + n_prompt, got[k].tokens, (size_t)got[k].n * sizeof *tokens) == 0);
        CHECK_STR(infer_request_text(r[k], NULL), got[k].text);
        infer_request_close(r[k]);
        CHECK(infer_sampler_destroy(samplers[k]) == INFER_OK);
    }
    check_detail = "";
    CHECK(infer_queue_get_stats(q, &stats) == INFER_OK);
    CHECK(stats.ended == QUEUE_N && stats.running == 0 && stats.waiting == 0);
    CHECK(infer_queue_destroy(q) == INFER_OK);
    return stats;
}

static const char *const queue_files[] = { "llama-dense", "gemma3-real-dense", "minicpm3-dense", "qwen35-dense", "mamba2-groups-dense", "rwkv7-small-dense", "lfm2-dense", "qwen3moe-norm-moe" };

static void test_queue_same(void) {
    static const queue_way ways[] = { { 16, 0, 0, 0, 0, 0, 0 }, { 3, 16, 0, 4, 1, 0, 0 }, { 1, 5, 0, -1, 0, 0, 0 }, { 5, 40, 0, 2, 1, 1, 0 }, { 16, 16, 256, 0, 1, 0, 0 } };
    queue_out *want = (queue_out *)calloc(QUEUE_N, sizeof *want), *got = (queue_out *)calloc(QUEUE_N, sizeof *got);
    infer_model *words = NULL;
    infer_error e;
    size_t i, w;
    int32_t k, preempted = 0;
    if (infer_model_open(&words, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (i = 0; i < INFER__COUNT(queue_files); i += (size_t)check_every(3)) {
        infer_model *m = cache_model(queue_files[i]);
        infer__tokenizer *own = m ? m->tokenizer : NULL;
        if (!m) continue;
        m->tokenizer = words->tokenizer; /* these files have no texts of tokens */
        for (k = 0; k < QUEUE_N; k++) queue_alone(m, k, 90, NULL, &want[k]);
        for (w = 0; w < INFER__COUNT(ways); w++) {
            const queue_way way = ways[w];
            const infer_queue_stats s = queue_go(m, &way, 90, NULL, want, got);
            preempted += (int32_t)s.preempted;
            /* the common tokens are evaluated once, where requests run side by side or are kept */
            if (ways[w].kept >= 0 && ways[w].cells == 0 && !ways[w].thread) CHECK(s.reused >= 90 * (QUEUE_N - 1)); /* a thread may have begun */
            if (ways[w].kept < 0) CHECK(s.reused == 0 && s.prompt_tokens > 90 * QUEUE_N);
        }
        m->tokenizer = own;
        CHECK(infer_model_close(m) == INFER_OK);
    }
    CHECK(preempted > 0);
    CHECK(infer_model_close(words) == INFER_OK);
    free(want);
    free(got);
}

/* Some requests with an adapter, some without: they share beginnings among themselves only. */
static void test_queue_adapters(void) {
    static const queue_way way = { 16, 32, 0, 0, 0, 0, 0 };
    queue_out *want = (queue_out *)calloc(QUEUE_N, sizeof *want), *got = (queue_out *)calloc(QUEUE_N, sizeof *got);
    infer_model *m = NULL;
    infer_adapter *a;
    infer_adapter_use use;
    infer_error e;
    infer_queue_stats s;
    int32_t k;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    a = adapter_of(m, "attn", 2);
    memset(&use, 0, sizeof use);
    use.adapter = a;
    use.scale = 0.5f;
    for (k = 0; k < QUEUE_N; k++) queue_alone(m, k, 90, k % 2 ? &use : NULL, &want[k]);
    s = queue_go(m, &way, 90, &use, want, got);
    CHECK(s.reused == 90 * (QUEUE_N - 2));
    CHECK(infer_adapter_close(a) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(want);
    free(got);
}

/* ---- ends, order, refusals --------------------------------------------------------------------------------------- */

typedef struct queue_seen { infer_queue *q; infer_request *ended[16], *other; int32_t n, refused; infer_sampler *sampler; } queue_seen;
static void queue_done(void *user, infer_request *r) {
    queue_seen *s = (queue_seen *)user;
    infer_request_info info;
    CHECK(infer_request_get_info(r, &info) == INFER_OK && info.state == INFER_REQUEST_ENDED);
    s->refused += infer_queue_step(s->q, 0) == INFER_ERR_STATE && infer_request_wait(r) == INFER_ERR_STATE;
    if (s->n < 16) s->ended[s->n++] = r;
}
/* Ends another request, and asks for a new one. */
static int queue_meddle(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    queue_seen *s = (queue_seen *)user;
    (void)token; (void)logprob; (void)top; (void)n_top;
    infer_request_cancel(s->other);
    return 0;
}

static void test_queue_ends(void) {
    static const queue_way way = { 2, 16, 0, 0, 0, 0, 64 };
    static const char *const stop[] = { "park" };
    infer_model *m = NULL;
    infer_queue *q;
    infer_request *r[8];
    infer_request_params p;
    infer_request_info info;
    infer_sampler *sampler = NULL, *strict = NULL;
    infer_grammar *grammar = NULL;
    infer_grammar_params gp;
    infer_stage stage;
    infer_error e;
    queue_seen seen;
    size_t bytes;
    int32_t i, n;
    memset(&seen, 0, sizeof seen);
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    q = seen.q = queue_open(m, &way);
    memset(&p, 0, sizeof p);
    p.prompt = "Once upon a time";
    p.done = queue_done;
    p.user = &seen;
    CHECK(infer_sampler_create(&sampler, m, NULL, 0, 1, NULL) == INFER_OK);
    p.generate.max_tokens = 5;
    p.sampler = sampler;
    CHECK(infer_queue_submit(q, &p, &r[0], &e) == INFER_OK);
    CHECK(infer_queue_submit(q, &p, &r[1], &e) == INFER_ERR_STATE); /* the sampler is r[0]'s */
    p.sampler = NULL;
    p.generate.stop = stop;
    p.generate.n_stop = 1;
    p.generate.max_tokens = 0;
    CHECK(infer_queue_submit(q, &p, &r[1], &e) == INFER_OK);
    p.generate.n_stop = 0;
    p.priority = 1;
    CHECK(infer_queue_submit(q, &p, &r[2], &e) == INFER_OK); /* until its positions are full */
    p.priority = -1;
    p.generate.max_tokens = 3;
    p.generate.token = queue_meddle;
    p.generate.user = &seen;
    CHECK(infer_queue_submit(q, &p, &r[3], &e) == INFER_OK);
    p.generate.token = NULL;
    p.priority = -2;
    CHECK(infer_queue_submit(q, &p, &r[4], &e) == INFER_OK); /* cancelled by r[3]'s callback before it begins */
    seen.other = r[4];
    p.generate.seconds = 1e-9;
    CHECK(infer_queue_submit(q, &p, &r[5], &e) == INFER_OK); /* no time */
    p.generate.seconds = 0;
    memset(&gp, 0, sizeof gp);
    gp.gbnf = "root ::= \"the cat\"";
    CHECK(infer_grammar_create(&grammar, m, &gp, &e) == INFER_OK);
    memset(&stage, 0, sizeof stage);
    stage.kind = INFER_STAGE_GRAMMAR;
    stage.grammar = grammar;
    CHECK(infer_sampler_create(&strict, m, &stage, 1, 1, &e) == INFER_OK);
    p.sampler = strict;
    p.generate.max_tokens = 0;
    CHECK(infer_queue_submit(q, &p, &r[6], &e) == INFER_OK);
    CHECK_STR(infer_request_text(r[0], &bytes), "");
    CHECK(bytes == 0 && infer_request_tokens(r[0], NULL, &n) == NULL && n == 0);
    while (infer_queue_step(q, 1) == INFER_MORE) {}
    CHECK(seen.n == 7 && seen.refused == 7);
    CHECK(seen.ended[0] == r[5]); /* nothing to do for it */
    for (i = 0; i < 7; i++) {
        static const int32_t reasons[] = { INFER_STOP_LIMIT, INFER_STOP_STRING, INFER_STOP_FULL, INFER_STOP_LIMIT, INFER_STOP_CANCELLED, INFER_STOP_TIME, INFER_STOP_GRAMMAR };
        char name[32];
        snprintf(name, sizeof name, "request %d", (int)i);
        check_detail = name;
        CHECK(infer_request_get_info(r[i], &info) == INFER_OK && info.generate.stop_reason == reasons[i]);
        CHECK(infer_request_wait(r[i]) == (i == 4 ? INFER_CANCELLED : INFER_OK));
    }
    CHECK_STR(infer_request_text(r[6], NULL), "the cat");
    CHECK(strstr(infer_request_text(r[1], NULL), "park") == NULL);
    for (i = 0; i < 7; i++) infer_request_close(r[i]);
    CHECK(infer_sampler_destroy(sampler) == INFER_OK && infer_sampler_destroy(strict) == INFER_OK && infer_grammar_destroy(grammar) == INFER_OK);
    p.sampler = NULL; /* nobody waits for it */
    CHECK(infer_queue_submit(q, &p, NULL, &e) == INFER_OK);
    infer_queue_step(q, 0);
    CHECK(infer_queue_submit(q, &p, NULL, &e) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(infer_queue_destroy(q) == INFER_OK && seen.n == 9);
    check_detail = "";
}

/* A prompt beside a request that generates comes in pieces of prompt_rows; higher priorities begin first, equal ones in order. */
static void test_queue_order(void) {
    static const queue_way pace = { 4, 8, 0, -1, 0, 0, 256 }, one = { 1, 0, 0, -1, 0, 0, 256 };
    static const int32_t priorities[] = { 0, 2, 1, 2, 0 }, order[] = { 1, 3, 2, 0, 4 };
    infer_model *m = NULL;
    infer_queue *q;
    infer_request *r[5];
    infer_request_params p;
    infer_request_info info, first;
    infer_error e;
    infer_token ids[256];
    queue_seen seen;
    int32_t i, before;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    q = queue_open(m, &pace);
    memset(&p, 0, sizeof p);
    memset(&seen, 0, sizeof seen);
    p.tokens = ids;
    p.n_tokens = queue_prompt(ids, 0, 0);
    p.generate.max_tokens = 60;
    p.generate.ignore_end = 1;
    CHECK(infer_queue_submit(q, &p, &r[0], &e) == INFER_OK && infer_queue_step(q, 0) == INFER_MORE);
    CHECK(infer_request_get_info(r[0], &first) == INFER_OK && first.state == INFER_REQUEST_RUNS);
    before = first.generate.new_tokens;
    p.n_tokens = 64;
    for (i = 0; i < 64; i++) ids[i] = 1 + i * 7 % 29;
    CHECK(infer_queue_submit(q, &p, &r[1], &e) == INFER_OK);
    do CHECK(infer_queue_step(q, 0) == INFER_MORE && infer_request_get_info(r[1], &info) == INFER_OK);
    while (info.state < INFER_REQUEST_RUNS && !check_bad);
    CHECK(infer_request_get_info(r[0], &first) == INFER_OK && first.generate.new_tokens == before + 8); /* 64 tokens in pieces of 8 */
    for (i = 0; i < 2; i++) infer_request_close(r[i]);
    CHECK(infer_queue_destroy(q) == INFER_OK);
    q = seen.q = queue_open(m, &one);
    p.n_tokens = 5;
    p.generate.max_tokens = 3;
    p.done = queue_done;
    p.user = &seen;
    for (i = 0; i < 5; i++) {
        p.priority = priorities[i];
        CHECK(infer_queue_submit(q, &p, &r[i], &e) == INFER_OK);
    }
    CHECK(infer_queue_step(q, -1) == INFER_OK && seen.n == 5);
    for (i = 0; i < 5; i++) CHECK(seen.ended[i] == r[order[i]]);
    for (i = 0; i < 5; i++) infer_request_close(r[i]);
    CHECK(infer_queue_destroy(q) == INFER_OK && infer_model_close(m) == INFER_OK);
}

static void test_queue_refused(void) {
    static const queue_way way = { 2, 0, 0, 0, 0, 0, 64 };
    infer_model *m = NULL, *bert = embed_open("bert-rank2"), *t5 = embed_open("t5-dense");
    infer_queue *q, *none = NULL;
    infer_queue_params qp;
    infer_request *r = NULL;
    infer_request_params p;
    infer_token ids[70] = { 1 };
    infer_error e;
    memset(&p, 0, sizeof p);
    memset(&qp, 0, sizeof qp);
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    CHECK(infer_queue_create(NULL, m, NULL, &e) == INFER_ERR_ARGUMENT && infer_queue_create(&none, NULL, NULL, &e) == INFER_ERR_ARGUMENT);
    if (bert) CHECK(infer_queue_create(&none, bert, NULL, &e) == INFER_ERR_UNSUPPORTED && !none);
    if (t5) {
        CHECK(infer_queue_create(&none, t5, NULL, &e) == INFER_ERR_UNSUPPORTED && !none);
        CHECK_HAS(e.message, "\"t5\" has an encoder");
    }
    qp.slots = -1;
    CHECK(infer_queue_create(&none, m, &qp, &e) == INFER_ERR_ARGUMENT && !none);
    qp.slots = 0;
    qp.positions = 100;
    qp.context.cells = 64;
    CHECK(infer_queue_create(&none, m, &qp, &e) == INFER_ERR_ARGUMENT && !none);
    q = queue_open(m, &way);
    CHECK(infer_queue_submit(NULL, &p, &r, &e) == INFER_ERR_ARGUMENT && infer_queue_submit(q, NULL, &r, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_ERR_ARGUMENT && !r);
    CHECK_HAS(e.message, "one of prompt, tokens and chat");
    p.tokens = ids;
    p.n_tokens = 65;
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_CONTEXT_FULL && !r);
    ids[2] = 1 << 20;
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_ERR_ARGUMENT && !r);
    CHECK_HAS(e.message, "token 2");
    p.tokens = NULL;
    p.prompt = "x";
    p.generate.max_tokens = -1;
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_ERR_ARGUMENT && !r);
    p.generate.max_tokens = 1;
    p.n_adapters = 1;
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_ERR_ARGUMENT && !r);
    p.n_adapters = 0;
    q->params.waiting = 1;
    CHECK(infer_queue_submit(q, &p, NULL, &e) == INFER_OK);
    CHECK(infer_queue_submit(q, &p, NULL, &e) == INFER_ERR_LIMIT);
    CHECK_HAS(e.message, "full");
    CHECK(infer_queue_step(q, -2) == INFER_ERR_ARGUMENT && infer_queue_step(NULL, 0) == INFER_ERR_ARGUMENT);
    CHECK(infer_queue_step(q, -1) == INFER_OK && infer_queue_step(q, 0) == INFER_OK);
    CHECK(infer_request_wait(NULL) == INFER_ERR_ARGUMENT && infer_request_get_info(NULL, NULL) == INFER_ERR_ARGUMENT);
    infer_request_cancel(NULL);
    infer_request_close(NULL);
    CHECK(infer_queue_destroy(NULL) == INFER_OK && infer_queue_destroy(q) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(bert) == INFER_OK && infer_model_close(t5) == INFER_OK);
}

/* A conversation: the reply is parsed as infer_chat parses it; a second turn evaluates what is new. */
static void test_queue_chat(void) {
    static const queue_way way = { 2, 0, 0, 0, 0, 1, 256 };
    infer_model *m = NULL;
    infer_queue *q;
    infer_request *r;
    infer_request_params p;
    infer_request_info info;
    infer_chat_params chat;
    infer_chat_parser *parser = NULL;
    infer_generate_params g;
    infer_session *s;
    infer_error e;
    char first[1024];
    memset(&chat, 0, sizeof chat);
    memset(&p, 0, sizeof p);
    memset(&g, 0, sizeof g);
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    q = queue_open(m, &way);
    s = cells_session(m, 512, 0, 2);
    chat.allow_chatml = 1;
    chat.messages_json = "[{\"role\": \"user\", \"content\": \"Tell me about a dog and a cat who went to the park.\"}]";
    g.max_tokens = 20;
    CHECK(infer_chat(s, NULL, &chat, &g, &parser, NULL) == INFER_OK);
    p.chat = &chat;
    p.generate = g;
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_OK);
    CHECK(infer_request_wait(r) == INFER_OK);
    CHECK(strlen(infer_chat_parser_reply(parser)->content) > 5);
    CHECK_STR(infer_request_reply(r)->content, infer_chat_parser_reply(parser)->content);
    snprintf(first, sizeof first, "[{\"role\": \"user\", \"content\": \"Tell me about a dog and a cat who went to the park.\"}, {\"role\": \"assistant\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"And then?\"}]");
    infer_request_close(r);
    chat.messages_json = first;
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_OK);
    CHECK(infer_request_wait(r) == INFER_OK && infer_request_get_info(r, &info) == INFER_OK && info.reused >= 32);
    infer_request_close(r);
    p.generate.text = queue_text;
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_ERR_ARGUMENT);
    p.generate.text = NULL;
    chat.messages_json = "[";
    CHECK(infer_queue_submit(q, &p, &r, &e) == INFER_ERR_FORMAT && !r);
    infer_chat_parser_destroy(parser);
    infer_session_destroy(s);
    CHECK(infer_queue_destroy(q) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* ---- lives ------------------------------------------------------------------------------------------------------- */

static int queue_stops(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    (void)logprob; (void)top; (void)n_top;
    return token % 11 == *(int32_t *)user;
}

/* Requests come, are cancelled, fail, are closed and run in slices, in random order, with little memory. */
static void queue_life(uint32_t seed, int32_t steps, int32_t thread) {
    const queue_way way = { 4, 24, 160, 3, 0, thread, 128 };
    static int32_t eleven[11] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    infer_model *m = NULL;
    infer_queue *q;
    infer_request *open[24];
    infer_sampler *samplers[24];
    infer_request_params p;
    infer_queue_stats stats;
    infer_error e;
    infer_token ids[200];
    int32_t i, k, n = 0;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    q = queue_open(m, &way);
    for (i = 0; i < steps && q && !check_bad; i++) {
        seed = seed * 1664525u + 1013904223u;
        k = (int32_t)(seed >> 8);
        switch (k % 7) {
        case 0: case 1:
            if (n == 24) break;
            memset(&p, 0, sizeof p);
            p.tokens = ids;
            p.n_tokens = queue_prompt(ids, k / 7 % 5, k / 35 % 3 * 40);
            p.generate.max_tokens = k / 105 % 110 + k / 5 % 2; /* not without an end */
            p.generate.lookup = k / 3 % 2;
            p.generate.on_full = k / 5 % 2;
            p.priority = k / 11 % 3;
            if (k / 13 % 4 == 0) p.generate.seconds = 1e-4;
            if (k / 17 % 3 == 0) {
                p.generate.token = queue_stops;
                p.generate.user = &eleven[k / 19 % 11];
            }
            p.sampler = samplers[n] = queue_sampler(m, k / 23);
            CHECK(infer_queue_submit(q, &p, &open[n], &e) == INFER_OK);
            n++;
            break;
        case 2:
            if (n > 0) infer_request_cancel(open[k / 7 % n]);
            break;
        case 3: /* in any order; samplers after that */
            if (n == 0) break;
            k = k / 7 % n;
            if (k % 2) infer_request_cancel(open[k]);
            CHECK(infer_request_wait(open[k]) >= 0);
            infer_request_close(open[k]);
            CHECK(infer_sampler_destroy(samplers[k]) == INFER_OK);
            n--;
            open[k] = open[n];
            samplers[k] = samplers[n];
            break;
        default:
            CHECK(infer_queue_step(q, k / 7 % 3) >= (thread ? INFER_ERR_STATE : INFER_OK));
        }
    }
    while (n > 0) {
        infer_request_cancel(open[--n]);
        CHECK(infer_request_wait(open[n]) >= 0);
        infer_request_close(open[n]);
        CHECK(infer_sampler_destroy(samplers[n]) == INFER_OK);
    }
    CHECK(infer_queue_get_stats(q, &stats) == INFER_OK && stats.preempted > 0);
    CHECK(infer_queue_destroy(q) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}
static void test_queue_life(void) { queue_life(1, 10000 / check_every(20), 0); }
static void test_queue_life_thread(void) { queue_life(2, 3000 / check_every(10), 1); }

/* Several threads submit and wait, with a queue that has a thread and one that they run themselves. */
typedef struct queue_user { infer__thread thread; infer_queue *q; infer_model *m; const queue_out *want; int32_t first, bad; } queue_user;
static void queue_user_main(void *arg) {
    queue_user *u = (queue_user *)arg;
    int32_t k, turn;
    for (turn = 0; turn < 3; turn++)
        for (k = u->first; k < QUEUE_N; k += 3) {
            queue_out *o = (queue_out *)calloc(1, sizeof *o);
            infer_sampler *sampler = queue_sampler(u->m, k);
            infer_request_params p;
            infer_request *r = NULL;
            infer_token ids[256];
            memset(&p, 0, sizeof p);
            p.tokens = ids;
            p.n_tokens = queue_prompt(ids, k, 40);
            p.sampler = sampler;
            p.generate = queue_generate(k, 1, o);
            u->bad += infer_queue_submit(u->q, &p, &r, NULL) != INFER_OK || infer_request_wait(r) != INFER_OK;
            u->bad += memcmp(o->tokens, u->want[k].tokens, sizeof o->tokens) != 0 || o->n != u->want[k].n;
            infer_request_close(r);
            infer_sampler_destroy(sampler);
            free(o);
        }
}
static void test_queue_threads(void) {
    queue_out *want = (queue_out *)calloc(QUEUE_N, sizeof *want);
    infer_model *m = NULL;
    infer_error e;
    int32_t k, thread;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (k = 0; k < QUEUE_N; k++) queue_alone(m, k, 40, NULL, &want[k]);
    for (thread = 0; thread < 2; thread++) {
        const queue_way way = { 4, 16, 512, 0, 0, thread, 0 };
        queue_user users[3];
        memset(users, 0, sizeof users);
        for (k = 0; k < 3; k++) {
            users[k].q = k ? users[0].q : queue_open(m, &way);
            users[k].m = m;
            users[k].want = want;
            users[k].first = k;
        }
        for (k = 0; k < 3; k++) CHECK(infer__thread_start(&users[k].thread, queue_user_main, &users[k]));
        for (k = 0; k < 3; k++) {
            infer__thread_join(&users[k].thread);
            CHECK(users[k].bad == 0);
        }
        CHECK(infer_queue_destroy(users[0].q) == INFER_OK);
    }
    CHECK(infer_model_close(m) == INFER_OK);
    free(want);
}

/* The n-th allocation fails: only the request that needed it ends, with an error; memory is back where it was. */
static void test_queue_oom(void) {
    infer_model_params mp;
    infer_model *m = NULL;
    infer_error e;
    long fail, live = check_live;
    int failures = 0, lonely = 0;
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    check_fail_at = 0;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (fail = 1; fail < 500; fail += check_every(7)) {
        static const queue_way way = { 3, 16, 256, 2, 1, 0, 128 };
        static const char *const stop[] = { "never said" };
        infer_queue_params qp;
        infer_queue *q = NULL;
        infer_request *r[4];
        infer_request_params p;
        infer_sampler *samplers[4];
        infer_token ids[256];
        queue_out *o = (queue_out *)calloc(4, sizeof *o);
        int32_t k, bad = 0, submitted = 0;
        int used;
        for (k = 0; k < 4; k++) samplers[k] = queue_sampler(m, k);
        memset(&qp, 0, sizeof qp);
        qp.positions = way.positions;
        qp.slots = way.slots;
        qp.kept = way.kept;
        qp.context.cells = way.cells;
        qp.context.threads = 1;
        check_allocs = 0;
        check_fail_at = fail;
        if (infer_queue_create(&q, m, &qp, &e)) {
            CHECK(e.code == INFER_ERR_MEMORY && !q);
            bad++;
        }
        for (k = 0; k < 4 && q; k++) {
            memset(&p, 0, sizeof p);
            p.tokens = ids;
            p.n_tokens = queue_prompt(ids, k, 60);
            p.sampler = samplers[k];
            p.generate = queue_generate(k, 1, &o[k]);
            p.generate.stop = stop;
            p.generate.n_stop = 1;
            r[k] = NULL;
            if (infer_queue_submit(q, &p, &r[k], &e)) {
                CHECK(e.code == INFER_ERR_MEMORY && !r[k]);
                bad++;
            } else submitted++;
        }
        for (k = 0; k < 4 && q; k++) {
            infer_result result;
            if (!r[k]) continue;
            result = infer_request_wait(r[k]);
            CHECK(result == INFER_OK || result == INFER_ERR_MEMORY);
            CHECK(infer_request_error(r[k])->code == result);
            bad += result != INFER_OK;
            infer_request_close(r[k]);
        }
        used = check_allocs >= fail;
        check_fail_at = 0;
        CHECK(bad <= used); /* a pass that failed is tried again, for each request alone */
        lonely += bad == 1 && submitted > 2;
        failures += bad;
        CHECK(infer_queue_destroy(q) == INFER_OK);
        for (k = 0; k < 4; k++) infer_sampler_destroy(samplers[k]);
        free(o);
        if (!used) break;
    }
    CHECK(failures >= 5 && lonely > 0 && fail < 500);
    CHECK(infer_model_close(m) == INFER_OK && check_live == live);
}

static void suite_queue(void) {
    RUN(test_queue_same);
    RUN(test_queue_adapters);
    RUN(test_queue_ends);
    RUN(test_queue_order);
    RUN(test_queue_refused);
    RUN(test_queue_chat);
    RUN(test_queue_life);
    RUN(test_queue_life_thread);
    RUN(test_queue_threads);
    RUN(test_queue_oom);
}
