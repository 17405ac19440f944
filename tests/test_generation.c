/* test_generation.c: a text piece by piece: the same tokens, text and logits as infer_generate, for every kind of state, with
 * drafts, sliding, stop strings and grammars, whatever the slices; cancelled and given up anywhere; what is refused; no memory. */

typedef struct generation_way { int32_t budget, lookup, by, sampled, context; const char *stop; } generation_way;
typedef struct generation_out {
    infer_token ids[200];
    int32_t n, pieces, slices, empty;
    char text[4096];
    size_t len;
    infer_generate_info info;
    infer_result result;
    float logits[32];
} generation_out;

static int generation_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    generation_out *o = (generation_out *)user;
    CHECK(n_top == 2 && top[0].token >= 0 && logprob <= 0);
    if (o->n == 200) return 1;
    o->ids[o->n++] = token;
    return 0;
}
static int generation_text(void *user, const char *text, size_t n) {
    generation_out *o = (generation_out *)user;
    CHECK(n > 0 && infer_utf8_whole(text, n) == n && text[n] == 0 && o->len + n < sizeof o->text);
    memcpy(o->text + o->len, text, n);
    o->len += n;
    o->pieces++;
    return 0;
}
static int generation_shown(void *user, const char *text, size_t n) { /* of infer_generate: no zero behind it */
    generation_out *o = (generation_out *)user;
    memcpy(o->text + o->len, text, n);
    o->len += n;
    return 0;
}

static infer_session *generation_session(infer_model *m, int32_t context) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = context;
    p.own.threads = 2;
    p.own.batch = 16;
    p.own.cells = 512;
    p.own.kv_type = INFER_KV_F32;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

static infer_sampler *generation_sampler(infer_model *m) {
    infer_sampler *s = NULL;
    infer_stage chain[3];
    memset(chain, 0, sizeof chain);
    chain[0].kind = INFER_STAGE_PENALTY;
    chain[0].p[0] = 20;
    chain[0].p[1] = 1.2f;
    chain[1].kind = INFER_STAGE_TOP_K;
    chain[1].p[0] = 4;
    chain[2].kind = INFER_STAGE_TEMPERATURE;
    chain[2].p[0] = 0.8f;
    CHECK(infer_sampler_create(&s, m, chain, 3, 7, NULL) == INFER_OK);
    return s;
}

/* To its end; nothing but MORE comes before. */
static void generation_all(infer_generation *x, int32_t budget, generation_out *o) {
    const char *text;
    size_t n;
    do {
        o->result = infer_generation_next(x, budget, &text, &n);
        if (n) generation_text(o, text, n);
        else o->empty += o->result == INFER_MORE;
        o->slices++;
    } while (o->result == INFER_MORE && !check_bad);
    CHECK(infer_generation_info(x, &o->info) == INFER_OK && o->info.bytes == o->len);
    CHECK(infer_generation_next(x, budget, &text, &n) == o->result && n == 0 && text[0] == 0);
}

/* budget -2: infer_generate. */
static void generation_go(infer_model *m, infer_session *by, const generation_way *way, int32_t most, generation_out *o) {
    infer_session *s = generation_session(m, way->context);
    infer_sampler *sampler = way->sampled ? generation_sampler(m) : NULL;
    infer_generation *x = NULL;
    infer_generate_params p;
    infer_token ids[40];
    infer_error e;
    const char *stop[1];
    int32_t i;
    memset(o, 0, sizeof *o);
    memset(&p, 0, sizeof p);
    if (!s) return;
    for (i = 0; i < 40; i++) ids[i] = (infer_token)(i % 9 * 3 + 1);
    CHECK(infer_session_eval(s, ids, 40) == INFER_OK && infer_session_rewind(s, 38) == INFER_OK); /* it is evaluated again */
    stop[0] = way->stop;
    p.max_tokens = most;
    p.min_tokens = 3;
    p.ignore_end = 1;
    p.logprobs = 2;
    p.token = generation_token;
    p.user = o;
    p.stop = stop;
    p.n_stop = way->stop != NULL;
    p.on_full = INFER_FULL_SLIDE;
    p.keep_first = 4;
    p.lookup = way->lookup;
    p.draft = way->by ? by : NULL;
    p.draft_tokens = 5;
    if (way->budget == -2) {
        p.text = generation_shown;
        o->result = infer_generate(s, sampler, NULL, &p, &o->info);
    } else {
        CHECK(infer_generation_begin(&x, s, sampler, NULL, &p, &e) == INFER_OK);
        memset(stop, 0, sizeof stop);
        memset(&p, 0, sizeof p);
        if (x) generation_all(x, way->budget, o);
        CHECK(infer_generation_end(x) == INFER_OK);
    }
    if (o->result) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
    CHECK(s->ahead == 0 && !s->paused && infer_session_logits(s, -1) != NULL);
    CHECK(infer_session_rewind(s, infer_session_position(s) - 3) == INFER_OK && infer_session_eval(s, ids, 3) == INFER_OK); /* it goes on */
    memcpy(o->logits, infer_session_logits(s, -1), sizeof o->logits);
    infer_session_destroy(s);
    CHECK(infer_sampler_destroy(sampler) == INFER_OK);
}

static void generation_same(const generation_out *got, const generation_out *want) {
    CHECK(got->result == want->result && got->n == want->n && memcmp(got->ids, want->ids, sizeof got->ids) == 0);
    CHECK_STR(got->text, want->text);
    CHECK(memcmp(&got->info, &want->info, sizeof got->info) == 0);
    CHECK(memcmp(got->logits, want->logits, sizeof got->logits) == 0);
}

static void test_generation_same(void) {
    static const char *const files[] = { "llama-dense", "gemma3-real-dense", "minicpm3-dense", "qwen35-dense", "mamba2-groups-dense", "rwkv7-small-dense", "lfm2-dense", "qwen3moe-norm-moe" };
    static const generation_way ways[] = { { 0, 0, 0, 0, 256, NULL }, { 0, 1, 0, 1, 64, NULL }, { 0, 0, 1, 0, 64, NULL }, { -1, 1, 1, 1, 256, NULL }, { 1, 0, 0, 1, 64, NULL } };
    generation_out *want = (generation_out *)calloc(1, sizeof *want), *got = (generation_out *)calloc(1, sizeof *got);
    infer_model *words = NULL;
    infer_error e;
    size_t i, w;
    int32_t drafted = 0;
    if (infer_model_open(&words, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (i = 0; i < INFER__COUNT(files); i += (size_t)check_every(3)) {
        infer_model *m = cache_model(files[i]), *other = cache_model(files[i]);
        infer_session *by = other ? generation_session(other, 256) : NULL;
        infer__tokenizer *own[2] = { m ? m->tokenizer : NULL, other ? other->tokenizer : NULL };
        if (m && other) m->tokenizer = other->tokenizer = words->tokenizer; /* these files have no texts of tokens */
        for (w = 0; m && by && w < INFER__COUNT(ways); w++) {
            generation_way plain = ways[w];
            plain.budget = -2;
            generation_go(m, by, &plain, 70, want);
            generation_go(m, by, &ways[w], 70, got);
            check_detail = files[i];
            generation_same(got, want);
            CHECK(got->n == 70);
            drafted += got->info.drafted;
            if (ways[w].budget == 0 && !ways[w].lookup) CHECK(got->slices >= 70 * m->hp.n_layer); /* a layer at a time */
            if (ways[w].budget == -1) CHECK(got->empty == 0 && got->pieces > 10); /* text in each of them */
        }
        infer_session_destroy(by);
        if (m) m->tokenizer = own[0];
        if (other) other->tokenizer = own[1];
        CHECK(infer_model_close(m) == INFER_OK && infer_model_close(other) == INFER_OK);
    }
    CHECK(drafted > 0 && infer_model_close(words) == INFER_OK);
    free(want);
    free(got);
}

/* Where it ends: limits, stop strings whose beginning is held back, a grammar, characters of several tokens. */
static void test_generation_text(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    infer_grammar *grammar = NULL;
    infer_grammar_params gp;
    infer_sampler *strict = NULL, *scripted;
    infer_stage stage;
    generate_script script;
    infer_error e;
    static const char *const stops[] = { "never", "the park", "big, red bell" };
    int32_t k;
    memset(&gp, 0, sizeof gp);
    memset(&stage, 0, sizeof stage);
    gp.gbnf = "root ::= \"the cat\" | \"a dog\"";
    CHECK(infer_grammar_create(&grammar, m, &gp, &e) == INFER_OK);
    stage.kind = INFER_STAGE_GRAMMAR;
    stage.grammar = grammar;
    CHECK(infer_sampler_create(&strict, m, &stage, 1, 1, &e) == INFER_OK);
    generate_bytes(m, &script, "a\xc3\xa9 \xe6\xbc\xa2\xf0\x9f\x98\x80!");
    scripted = generate_script_sampler(m, &script);
    for (k = 0; k < 10; k++) { /* with and without slices */
        infer_sampler *sampler = k / 2 == 2 ? strict : k / 2 == 3 ? scripted : NULL;
        infer_generation *x = NULL;
        infer_generate_info info;
        infer_generate_params p;
        generate_sink sink;
        generation_out o;
        p = generate_params(&sink, k / 2 == 2 ? 0 : k / 2 == 3 ? 11 : 60);
        p.token = NULL;
        if (k / 2 == 1) { p.stop = stops; p.n_stop = 3; }
        if (k / 2 == 4) p.seconds = 1e-9;
        script.at = 0;
        CHECK(infer_sampler_reset(sampler) == INFER_OK && infer_session_rewind(s, 0) == INFER_OK);
        CHECK(infer_generate(s, sampler, "Once upon a time", &p, &info) == INFER_OK);
        script.at = 0;
        CHECK(infer_sampler_reset(sampler) == INFER_OK && infer_session_rewind(s, 0) == INFER_OK);
        p.text = NULL;
        memset(&o, 0, sizeof o);
        CHECK(infer_generation_begin(&x, s, sampler, "Once upon a time", &p, &e) == INFER_OK);
        if (!x) break;
        generation_all(x, k % 2 ? 0 : -1, &o);
        CHECK_STR(o.text, sink.text);
        CHECK(o.result == INFER_OK && memcmp(&o.info, &info, sizeof info) == 0);
        CHECK(o.info.stop_reason == (k / 2 == 1 ? INFER_STOP_STRING : k / 2 == 2 ? INFER_STOP_GRAMMAR : k / 2 == 4 ? INFER_STOP_TIME : INFER_STOP_LIMIT));
        CHECK(infer_session_position(s) == info.prompt_tokens + info.new_tokens); /* it is free before the end */
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        CHECK(infer_generation_end(x) == INFER_OK);
    }
    infer_sampler_destroy(strict);
    infer_sampler_destroy(scripted);
    infer_grammar_destroy(grammar);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Cancelled or given up after every slice: the session holds what was reported, and goes on with what would have come. */
static void test_generation_stopped(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    infer_generate_params p;
    infer_generate_info info;
    generate_sink sink;
    infer_error e;
    char whole[512], got[512];
    const char *text;
    size_t n, len;
    int32_t stop, i, prompts = 0, tokens = 0;
    p = generate_params(&sink, 12);
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, NULL) == INFER_OK);
    memcpy(whole, sink.text, sizeof whole);
    for (stop = 0; stop < 90; stop += check_every(7)) {
        infer_generation *x = NULL;
        p = generate_params(&sink, 12);
        p.text = NULL;
        p.token = NULL;
        p.lookup = stop % 2;
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_generation_begin(&x, s, NULL, "Once upon a time", &p, &e) == INFER_OK);
        if (!x) break;
        for (i = 0, len = 0; i < stop && infer_generation_next(x, 0, &text, &n) == INFER_MORE; i++) {
            memcpy(got + len, text, n);
            len += n;
        }
        if (i < stop) memcpy(got + len, text, n), len += n;
        if (i == stop && stop % 4 < 2) { /* at the next slice */
            infer_session_cancel(s);
            CHECK(infer_generation_next(x, 0, &text, &n) == INFER_CANCELLED);
            memcpy(got + len, text, n); /* held back */
            len += n;
            CHECK(infer_generation_info(x, &info) == INFER_OK && info.stop_reason == INFER_STOP_CANCELLED);
            CHECK(infer_generation_next(x, 0, &text, &n) == INFER_CANCELLED);
        }
        CHECK(infer_generation_info(x, &info) == INFER_OK && infer_generation_end(x) == INFER_OK);
        CHECK(!s->paused && infer_session_position(s) == info.prompt_tokens + info.new_tokens);
        prompts += info.prompt_tokens == 0;
        tokens += info.new_tokens > 0 && info.new_tokens < 12;
        if (info.new_tokens < 12) { /* one call goes on */
            p = generate_params(&sink, 12 - info.new_tokens);
            CHECK(infer_generate(s, NULL, info.prompt_tokens ? NULL : "Once upon a time", &p, NULL) == INFER_OK);
            memcpy(got + len, sink.text, sink.n);
            len += sink.n;
        }
        got[len] = 0;
        CHECK_STR(got, whole);
    }
    CHECK(prompts > 0 && tokens > 0);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

typedef struct generation_meddler { infer_generation *x; infer_session *s; int32_t n; } generation_meddler;
static int generation_meddle(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    generation_meddler *k = (generation_meddler *)user;
    const char *text;
    (void)token; (void)logprob; (void)top; (void)n_top;
    CHECK(infer_generation_next(k->x, 0, &text, NULL) == INFER_ERR_STATE && text[0] == 0 && infer_generation_end(k->x) == INFER_ERR_STATE);
    return ++k->n == 3;
}

static void test_generation_refused(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = NULL, *t = NULL, *u = NULL;
    infer_context *c = slice_context(m, &s, &t);
    infer_generation *x = NULL, *y = NULL;
    infer_sampler *sampler = NULL;
    infer_generate_params p;
    infer_generate_info info;
    infer_error e;
    generation_meddler meddler;
    const char *text;
    size_t n;
    int32_t i;
    memset(&p, 0, sizeof p);
    p.max_tokens = 8;
    CHECK(infer_sampler_create(&sampler, m, NULL, 0, 1, NULL) == INFER_OK);
    CHECK(infer_generation_begin(NULL, s, NULL, "x", &p, &e) == INFER_ERR_ARGUMENT && infer_generation_begin(&x, NULL, NULL, "x", &p, &e) == INFER_ERR_ARGUMENT);
    p.text = generate_text;
    CHECK(infer_generation_begin(&x, s, NULL, "x", &p, &e) == INFER_ERR_ARGUMENT && !x);
    CHECK_HAS(e.message, "text must be NULL");
    p.text = NULL;
    p.n_stop = 1; /* of NULL */
    CHECK(infer_generation_begin(&x, s, NULL, "x", &p, &e) == INFER_ERR_ARGUMENT && !x);
    p.n_stop = 0;
    CHECK(infer_generation_begin(&x, s, sampler, "Once upon a time", &p, &e) == INFER_OK);
    CHECK(infer_generation_next(x, -2, &text, &n) == INFER_ERR_ARGUMENT && infer_generation_next(NULL, 0, &text, &n) == INFER_ERR_ARGUMENT && text[0] == 0);
    CHECK(infer_generation_info(NULL, &info) == INFER_ERR_ARGUMENT && infer_generation_end(NULL) == INFER_OK);
    /* in use from begin to end; the context only in the middle of an eval */
    CHECK(infer_session_eval(s, (const infer_token[]){ 1 }, 1) == INFER_ERR_STATE);
    CHECK(infer_sampler_reset(sampler) == INFER_ERR_STATE);
    CHECK(infer_generation_begin(&y, s, NULL, "x", &p, &e) == INFER_ERR_STATE && infer_generation_begin(&y, t, sampler, "x", &p, &e) == INFER_ERR_STATE && !y);
    CHECK(infer_session_eval(t, (const infer_token[]){ 1 }, 1) == INFER_OK);
    CHECK(infer_generation_begin(&y, t, NULL, "One day", &p, &e) == INFER_OK);
    while (!s->paused) CHECK(infer_generation_next(x, 0, &text, &n) == INFER_MORE);
    CHECK(infer_generation_next(y, 0, &text, &n) == INFER_ERR_STATE && infer_session_error(t)->code == INFER_ERR_STATE);
    CHECK(infer_session_logits(s, -1) == NULL && infer_session_logits(t, -1) == NULL);
    CHECK(infer_session_fork(&u, s, &e) == INFER_ERR_STATE && infer_eval_slice(c, NULL, 0, 0, &e) == INFER_OK && s->paused);
    for (i = 0; i < 500 && !check_bad; i++) { /* in turns, whenever it can be */
        const int32_t paused = t->paused && !x->over;
        const infer_result a = infer_generation_next(x, 0, NULL, NULL), b = infer_generation_next(y, 0, NULL, NULL);
        CHECK((a == INFER_ERR_STATE) == paused && (b == INFER_ERR_STATE) == (s->paused && !y->over));
        if (a == INFER_OK && b == INFER_OK) break;
    }
    CHECK(i < 500 && infer_generation_info(y, &info) == INFER_OK && info.new_tokens == 8);
    CHECK(infer_generation_end(x) == INFER_OK && infer_generation_end(y) == INFER_OK);
    /* a callback cannot go on with it, and stops it */
    memset(&meddler, 0, sizeof meddler);
    p.token = generation_meddle;
    p.user = &meddler;
    CHECK(infer_generation_begin(&x, s, NULL, NULL, &p, &e) == INFER_OK);
    meddler.x = x;
    while (infer_generation_next(x, 3, NULL, NULL) == INFER_MORE) {}
    CHECK(infer_generation_info(x, &info) == INFER_OK && info.stop_reason == INFER_STOP_CALLBACK && info.new_tokens == 3);
    CHECK(infer_generation_end(x) == INFER_OK);
    /* a prompt that does not fit */
    memset(&p, 0, sizeof p);
    u = generate_session(m, 8);
    CHECK(infer_generation_begin(&x, u, NULL, "Once upon a time there was a big dog", &p, &e) == INFER_OK);
    CHECK(infer_generation_next(x, -1, &text, &n) == INFER_CONTEXT_FULL && n == 0 && infer_session_position(u) == 0);
    CHECK(infer_generation_end(x) == INFER_OK);
    infer_session_destroy(u);
    infer_session_destroy(s);
    infer_session_destroy(t);
    infer_sampler_destroy(sampler);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* An encoder's pass in slices: the answer is that of infer_generate. */
static void test_generation_encoder(void) {
    infer_model *m = embed_open("t5-dense");
    infer_session *s = m ? generation_session(m, 64) : NULL;
    infer_generation *x = NULL;
    infer_generate_params p;
    infer_token ids[12], want[20];
    infer_error e;
    int32_t i, turn;
    memset(&p, 0, sizeof p);
    if (!s) return;
    for (i = 0; i < 12; i++) ids[i] = 3 + i * 5;
    p.max_tokens = 15;
    p.ignore_end = 1;
    for (turn = 0; turn < 3; turn++) {
        int32_t slices = 0;
        CHECK(infer_generation_begin(&x, s, NULL, NULL, &p, &e) == INFER_OK);
        if (!x) break;
        memcpy(x->g.ids, ids, sizeof ids); /* as if they came from a prompt: the file has no vocabulary */
        x->g.n_ids = 12;
        while (infer_generation_next(x, turn ? 0 : -1, NULL, NULL) == INFER_MORE) {
            if (turn == 1 && s->source && s->source->paused) break; /* given up in the encoder's pass */
            slices++;
        }
        CHECK(infer_generation_end(x) == INFER_OK);
        if (turn == 0) memcpy(want, infer_session_tokens(s), 16 * sizeof *want);
        if (turn == 1) CHECK(infer_session_eval(s, ids, 1) == INFER_ERR_STATE && !s->source->paused); /* there is no text to answer */
        if (turn == 2) CHECK(slices > m->hp.n_enc && infer_session_position(s) == 16 && memcmp(want, infer_session_tokens(s), 16 * sizeof *want) == 0);
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static infer_result generation_no_memory(infer_model *m) {
    infer_session *s = NULL, *by = NULL;
    infer_session_params sp;
    infer_generation *x = NULL;
    infer_generate_params p;
    infer_error e;
    infer_result r;
    static const char *const stops[] = { "zzz", "yyy" };
    const char *text;
    size_t n;
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    sp.context = 24;
    sp.own.threads = 1;
    p.max_tokens = 30;
    p.min_tokens = 2;
    p.stop = stops;
    p.n_stop = 2;
    p.on_full = INFER_FULL_SLIDE;
    p.lookup = 1;
    r = infer_session_create(&s, m, &sp, &e);
    if (!r) r = infer_session_create(&by, m, &sp, &e);
    p.draft = by;
    if (!r) {
        r = infer_generation_begin(&x, s, NULL, "Once upon a time", &p, &e);
        CHECK(r == e.code && !r == !!x);
    }
    while (x && (r = infer_generation_next(x, 0, &text, &n)) == INFER_MORE) {}
    CHECK(infer_generation_end(x) == INFER_OK && (!s || !s->paused));
    infer_session_destroy(s);
    infer_session_destroy(by);
    return r;
}

static void test_generation_memory(void) {
    infer_model_params mp;
    infer_model *m;
    long total, live, i;
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    check_fail_at = 0;
    m = generate_model(&mp);
    live = check_live;
    check_allocs = 0;
    CHECK(generation_no_memory(m) == INFER_OK && check_live == live);
    total = check_allocs;
    CHECK(total > 10);
    for (i = 1; i <= total && check_bad < 5; i++) {
        infer_result r;
        check_allocs = 0;
        check_fail_at = i;
        r = generation_no_memory(m);
        CHECK((r == INFER_ERR_MEMORY || r == INFER_OK) && check_live == live);
    }
    check_fail_at = 0;
    CHECK(infer_model_close(m) == INFER_OK);
}

/* A second thread is refused while one runs; one cancels. */
static void generation_other(void *arg) {
    infer_generation *x = (infer_generation *)arg;
    int32_t i;
    for (i = 0; i < 200; i++) {
        const infer_result r = infer_generation_next(x, 0, NULL, NULL);
        CHECK(r == INFER_ERR_STATE || r == INFER_MORE || r == INFER_OK || r == INFER_CANCELLED);
    }
}
static void test_generation_threads(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    infer_generation *x = NULL;
    infer_generate_params p;
    infer_generate_info info;
    infer__thread thread;
    infer_error e;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.max_tokens = 60;
    CHECK(infer_generation_begin(&x, s, NULL, "Once upon a time", &p, &e) == INFER_OK);
    if (x && infer__thread_start(&thread, generation_other, x)) {
        do r = infer_generation_next(x, 0, NULL, NULL);
        while (r == INFER_MORE || r == INFER_ERR_STATE);
        CHECK(r == INFER_OK);
        infer__thread_join(&thread);
        CHECK(infer_generation_info(x, &info) == INFER_OK && info.new_tokens == 60);
    }
    CHECK(infer_generation_end(x) == INFER_OK);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_generation(void) {
    RUN(test_generation_same);
    RUN(test_generation_text);
    RUN(test_generation_stopped);
    RUN(test_generation_refused);
    RUN(test_generation_encoder);
    RUN(test_generation_memory);
    RUN(test_generation_threads);
}
