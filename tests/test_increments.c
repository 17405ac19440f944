/* test_increments.c: sessions saved record by record: every kind of state, what it costs, records that are cut short or
 * damaged anywhere, marks that do not belong, failures of writing and of memory. */

enum { INC_CONTEXT = 200, INC_STEPS = 24 };

static infer_session *inc_session(infer_model *m, int32_t kv, int32_t threads) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = INC_CONTEXT;
    p.own.threads = threads;
    p.own.kv_type = kv;
    p.own.batch = 32;
    p.own.keep = 2;
    p.own.snapshot_every = 16;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

/* All that infer_session_save knows of two sessions is the same. */
static int inc_same(infer_session *a, infer_session *b) {
    state_bytes x, y;
    int same;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    same = infer_session_save(a, state_write, &x) == INFER_OK && infer_session_save(b, state_write, &y) == INFER_OK &&
           x.n == y.n && memcmp(x.p, y.p, x.n) == 0;
    free(x.p);
    free(y.p);
    return same;
}

static infer_result inc_load(infer_session *s, infer_session_mark *mark, const state_bytes *b, size_t n) {
    state_bytes part = *b;
    part.n = n;
    part.at = 0;
    return infer_session_load_more(s, mark, state_read, &part);
}

/* A step of a random walk: some tokens, one token, back by some, back to the beginning. */
static void inc_step(infer_session *s, uint32_t *seed) {
    infer_token ids[40];
    const int32_t vocab = s->context->model->hp.n_vocab, at = infer_session_position(s);
    int32_t n, i;
    *seed = *seed * 1664525u + 1013904223u;
    n = 1 + (int32_t)(*seed >> 20) % 40;
    for (i = 0; i < 40; i++) ids[i] = (infer_token)((*seed >> 8) + (uint32_t)(i * i)) % vocab;
    switch ((*seed >> 28) % 8) {
    case 0: CHECK(infer_session_rewind(s, at - INFER__MIN(at, n)) == INFER_OK); break;
    case 1: CHECK(infer_session_rewind(s, (*seed >> 16) % 4 ? at / 2 : 0) == INFER_OK); /* and on */ /* fallthrough */
    case 2: n = 1; /* fallthrough */
    default:
        if (infer_session_position(s) + n > INC_CONTEXT) CHECK(infer_session_rewind(s, 20) == INFER_OK);
        CHECK(infer_session_eval(s, ids, n) == INFER_OK);
    }
}

/* Of every kind of state, after every step: what the records give is what a whole state gives, and goes on with the same bits;
 * also when saving goes on behind a load. */
static void test_increments_walk(void) {
    static const struct { const char *file; int32_t kv; } cases[] = {
        { "llama-dense", INFER_KV_F32 },       { "llama-dense", INFER_KV_Q4_0 },         { "gemma3-real-dense", INFER_KV_F16 },
        { "gemma3-real-dense", INFER_KV_Q8_0 }, { "lfm2-dense", INFER_KV_F16 },          { "deepseek2-yarn-moe", INFER_KV_BF16 },
        { "nemotron_h-dense", INFER_KV_F16 },   { "rwkv7-small-dense", INFER_KV_F16 },          { "mamba2-groups-dense", INFER_KV_F16 },
        { "deepseek4-topk-moe", INFER_KV_F16 },   { "glm-dsa-shared-moe", INFER_KV_F16 },        { "kimi-linear-moe", INFER_KV_F16 },
        { "qwen35-dense", INFER_KV_F16 },      { "falcon-h1-groups-dense", INFER_KV_F32 },
        { "gemma4-sharedkv-dense", INFER_KV_F16 }, { "minimax-m3-blocks-moe", INFER_KV_F16 }, { "llama4-moe", INFER_KV_F16 } };
    size_t f;
    for (f = 0; f < INFER__COUNT(cases); f += (size_t)check_every(5)) {
        infer_model *m = cache_model(cases[f].file);
        infer_session *s = m ? inc_session(m, cases[f].kv, 1) : NULL, *t = m ? inc_session(m, cases[f].kv, 2) : NULL;
        infer_session_mark mark, got;
        infer_token one = 1;
        state_bytes b;
        uint32_t seed = (uint32_t)f + 5;
        int i;
        memset(&b, 0, sizeof b);
        memset(&mark, 0, sizeof mark);
        check_detail = cases[f].file;
        for (i = 0; s && t && i < INC_STEPS && check_bad < 5; i++) {
            size_t before = b.n;
            inc_step(s, &seed);
            if (i % 3 == 2) inc_step(s, &seed); /* two steps in a record */
            CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_OK && mark.bytes == b.n && b.n >= before);
            CHECK(inc_load(t, &got, &b, b.n) == INFER_OK);
            CHECK(got.bytes == b.n && got.left == 0 && got.sum == mark.sum);
            CHECK(inc_same(s, t));
            CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_OK && mark.bytes == b.n && b.n == got.bytes);
            if (i % 4 == 3) { /* the one that was loaded goes on, and with it the records */
                infer_session *u = s;
                s = t;
                t = u;
                mark = got;
            }
        }
        if (s && t) {
            CHECK(infer_session_eval(s, &one, 1) == INFER_OK && infer_session_eval(t, &one, 1) == INFER_OK);
            CHECK(i % 4 == 0 || memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1),
                                       (size_t)m->hp.n_vocab * sizeof(float)) == 0);
        }
        infer_session_destroy(s);
        infer_session_destroy(t);
        CHECK(infer_model_close(m) == INFER_OK);
        free(b.p);
    }
}

/* A turn costs what is new in it, however long the session is: 92 bytes of header, the tokens, their rows, a sum. */
static void test_increments_cost(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session *s = m ? inc_session(m, INFER_KV_F16, 1) : NULL;
    infer_token ids[INC_CONTEXT];
    infer_session_mark mark;
    state_bytes b;
    uint64_t row = 0, before = 0;
    int32_t k, i;
    memset(&b, 0, sizeof b);
    memset(&mark, 0, sizeof mark);
    cache_ids(ids, INC_CONTEXT, 9, 128);
    for (k = 0; m && k < m->n_states; k++)
        row += (uint64_t)m->states[k].n_head * (uint64_t)m->states[k].dim * 2;
    for (i = 0; s && i < INC_CONTEXT; before = mark.bytes) {
        const int32_t n = INFER__MIN(1 + i % 7, INC_CONTEXT - i);
        CHECK(infer_session_eval(s, ids + i, n) == INFER_OK);
        CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
        CHECK(mark.bytes - before == 100 + (uint64_t)n * (row + sizeof *ids));
        i += n;
    }
    CHECK(s && infer_session_rewind(s, 190) == INFER_OK && infer_session_eval(s, ids, 2) == INFER_OK);
    CHECK(s && infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
    CHECK(mark.bytes - before == 100 + 2 * (row + sizeof *ids)); /* 190 positions are as they were */
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
}

static int inc_warned;
static void inc_log(void *user, int level, const char *message) {
    (void)user;
    if (level == 2 && strstr(message, "is not loaded")) inc_warned++;
}

/* Records, whose ends are known, and what the session was at each. */
typedef struct inc_records { state_bytes b; size_t end[8]; int32_t position[8], n; } inc_records;
static infer_model *inc_records_make(inc_records *r, const char *file, infer_session **s, infer_session **t) {
    infer_model_params mp;
    infer_session_mark mark;
    infer_model *m = NULL;
    infer_error e;
    infer_token ids[40];
    memset(r, 0, sizeof *r);
    memset(&mp, 0, sizeof mp);
    memset(&mark, 0, sizeof mark);
    mp.backend = INFER_CPU;
    mp.log = inc_log;
    cache_ids(ids, 40, 3, 128);
    if (infer_model_open(&m, check_data(file), &mp, &e)) { check_note(__FILE__, __LINE__, e.message); return NULL; }
    *s = inc_session(m, INFER_KV_Q4_0, 1);
    *t = inc_session(m, INFER_KV_Q4_0, 1);
    for (r->n = 0; *s && r->n < 4; r->n++) {
        if (r->n == 2) CHECK(infer_session_rewind(*s, 3) == INFER_OK);
        CHECK(infer_session_eval(*s, ids, r->n == 1 ? 1 : 4) == INFER_OK);
        CHECK(infer_session_save_more(*s, &mark, state_write, &r->b) == INFER_OK);
        r->end[r->n] = r->b.n;
        r->position[r->n] = infer_session_position(*s);
    }
    return m;
}
/* The record that byte `at` belongs to. */
static int inc_record_of(const inc_records *r, size_t at) {
    int i = 0;
    while (at >= r->end[i]) i++;
    return i;
}

/* Cut at every byte: the records before the cut load, and what is behind them is told. */
static void test_increments_cut(void) {
    infer_session *s = NULL, *t = NULL;
    inc_records r;
    infer_session_mark mark;
    infer_token one = 1;
    infer_model *m = inc_records_make(&r, "archs/lfm2-dense.gguf", &s, &t);
    size_t n;
    CHECK(m && s && t && infer_session_eval(t, &one, 1) == INFER_OK);
    for (n = 0; m && s && t && n <= r.b.n; n = n < r.b.n ? INFER__MIN(n + (size_t)check_every(97), r.b.n) : n + 1) {
        const int whole = n == r.b.n ? r.n : inc_record_of(&r, n);
        const infer_result got = inc_load(t, &mark, &r.b, n);
        if (whole == 0) {
            CHECK(got == INFER_ERR_IO && infer_session_position(t) == 1);
            CHECK_HAS(infer_session_error(t)->message, n ? "cut short" : "there is none");
            continue;
        }
        CHECK(got == INFER_OK && mark.bytes == r.end[whole - 1] && mark.left == n - r.end[whole - 1]);
        CHECK(inc_warned == (mark.left > 0));
        inc_warned = 0;
        CHECK(infer_session_position(t) == r.position[whole - 1]);
    }
    if (s && t) CHECK(inc_same(s, t));
    /* cut back, the records go on */
    if (s && t) {
        CHECK(inc_load(t, &mark, &r.b, r.end[2] + 5) == INFER_OK && mark.left == 5);
        r.b.n = (size_t)mark.bytes;
        CHECK(infer_session_eval(t, &one, 1) == INFER_OK && infer_session_save_more(t, &mark, state_write, &r.b) == INFER_OK);
        CHECK(inc_load(s, &mark, &r.b, r.b.n) == INFER_OK && mark.left == 0 && inc_same(s, t));
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
    free(r.b.p);
    inc_warned = 0;
}

/* A bit of every byte flipped: the records before it load and nothing of it, or there are none and nothing changes. */
static void test_increments_damaged(void) {
    infer_session *s = NULL, *t = NULL;
    inc_records r;
    infer_session_mark mark;
    infer_token one = 1;
    infer_model *m = inc_records_make(&r, "archs/llama-dense.gguf", &s, &t);
    size_t at;
    CHECK(m && s && t && infer_session_eval(t, &one, 1) == INFER_OK);
    for (at = 0; m && s && t && at < r.b.n; at += (size_t)check_every(97)) {
        const int whole = inc_record_of(&r, at);
        infer_result got;
        r.b.p[at] ^= (char)(1 << at % 8);
        got = inc_load(t, &mark, &r.b, r.b.n);
        r.b.p[at] ^= (char)(1 << at % 8);
        if (whole == 0) {
            CHECK(got < 0 && infer_session_position(t) == 1 && infer_session_error(t)->message[0]);
            continue;
        }
        CHECK(got == INFER_OK && mark.bytes == r.end[whole - 1] && mark.left == r.b.n - mark.bytes);
        CHECK(infer_session_position(t) == r.position[whole - 1]);
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
    free(r.b.p);
    inc_warned = 0;
}

/* The sums fit again. */
static void inc_seal(inc_records *r) {
    uint64_t sum = 0;
    uint32_t before[2];
    size_t from = 0;
    int i;
    for (i = 0; i < r->n; from = r->end[i++]) {
        char *p = r->b.p + from;
        before[0] = (uint32_t)sum; /* the lower half first, whatever the machine */
        before[1] = (uint32_t)(sum >> 32);
        memcpy(p + 76, before, 8);
        sum = infer__fnv(i ? sum : INFER__FNV, p, 84);
        memcpy(p + 84, &sum, 8);
        sum = infer__fnv(sum, p + 84, r->end[i] - from - 92);
        memcpy(r->b.p + r->end[i] - 8, &sum, 8);
    }
}

/* Words of headers with sums that fit: refused by name, and nothing changes; or less than a record, which is told. */
static void test_increments_forged(void) {
    static const struct { int record, word; uint32_t v; infer_result r; const char *why; } cases[] = {
        { 0, 3, 1, INFER_ERR_UNSUPPORTED, "version 1" },
        { 1, 3, 0xffffffffu, INFER_ERR_UNSUPPORTED, "version" },
        { 0, 4, INFER_KV_F16, INFER_ERR_ARGUMENT, "another kv_type" },
        { 2, 4, INFER_KV_F16, INFER_ERR_ARGUMENT, "another kv_type" },
        { 0, 5, 1, INFER_ERR_ARGUMENT, "another model" },
        { 3, 14, 1, INFER_ERR_ARGUMENT, "its weights are others" },
        { 0, 7, 201, INFER_CONTEXT_FULL, "do not fit a context" },
        { 1, 7, 0xffffffffu, INFER_CONTEXT_FULL, "do not fit a context" },
        { 1, 8, 6, INFER_ERR_FORMAT, "6 of 5 tokens are in the cache" },
        { 1, 8, 3, INFER_ERR_FORMAT, "begins at position 4, which does not follow" },
        { 1, 8, 0x80000000u, INFER_ERR_FORMAT, "tokens are in the cache" },
        { 1, 9, 1, INFER_ERR_FORMAT, "begins at page 1" },
        { 1, 10, 0x10000000u, INFER_ERR_FORMAT, "begins at page" },
        { 1, 11, 1, INFER_ERR_ARGUMENT, "rotates otherwise" },
        { 0, 12, 1, INFER_ERR_FORMAT, "word 12" },
        { 1, 12, 1, INFER_ERR_FORMAT, "does not follow" },
        { 1, 13, 0xffffffffu, INFER_ERR_FORMAT, "does not follow" },
        { 0, 16, 1, INFER_ERR_FORMAT, "its check sum does not match" },
        { 1, 16, 99, INFER_ERR_FORMAT, "word 16" },
        { 0, 17, 1, INFER_ERR_FORMAT, "does not follow" },
        { 1, 17, 5, INFER_ERR_FORMAT, "does not follow" },
        { 2, 17, 0x80000003u, INFER_ERR_FORMAT, "does not follow" },
        { 0, 18, 0, INFER_ERR_FORMAT, "does not follow" },
        { 1, 18, 1, INFER_ERR_FORMAT, "does not follow" },
        { 1, 18, 2, INFER_ERR_FORMAT, "does not follow" },
        { 0, 23, 128, INFER_ERR_FORMAT, "token 0 is 128" },
        { 3, 23, 0x80000000u, INFER_ERR_FORMAT, "token 7 is -2147483648" },
        { 1, 2, 0x04030201u, INFER_OK, "" } };
    infer_session *s = NULL, *t = NULL;
    inc_records r;
    infer_session_mark mark;
    infer_token one = 1;
    infer_model *m = inc_records_make(&r, "archs/llama-dense.gguf", &s, &t);
    size_t i;
    CHECK(m && s && t && infer_session_eval(t, &one, 1) == INFER_OK);
    for (i = 0; m && s && t && i < INFER__COUNT(cases); i++) {
        char *p = r.b.p + (cases[i].record ? r.end[cases[i].record - 1] : 0) + cases[i].word * 4, old[4];
        check_detail = cases[i].why;
        memcpy(old, p, 4);
        memcpy(p, &cases[i].v, 4);
        inc_seal(&r);
        CHECK(inc_load(t, &mark, &r.b, r.b.n) == cases[i].r);
        if (cases[i].r) CHECK_HAS(infer_session_error(t)->message, cases[i].why);
        else CHECK(mark.left > 0);
        CHECK(infer_session_position(t) == (cases[i].r ? 1 : 4));
        memcpy(p, old, 4);
    }
    inc_seal(&r);
    if (t) CHECK(inc_load(t, &mark, &r.b, r.b.n) == INFER_OK && mark.left == 0 && inc_same(s, t));
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
    free(r.b.p);
    inc_warned = 0;
}

/* What may be given, which marks belong to a session, forks. */
static void test_increments_marks(void) {
    infer_model *m = cache_model("gemma3-real-dense"), *bert = cache_model("bert-mean");
    infer_session *s = m ? inc_session(m, 0, 1) : NULL, *t = m ? inc_session(m, 0, 1) : NULL, *f = NULL;
    infer_session_mark mark, old, other;
    infer_token ids[30];
    state_bytes b, plain, copy;
    memset(&b, 0, sizeof b);
    memset(&plain, 0, sizeof plain);
    memset(&copy, 0, sizeof copy);
    memset(&mark, 0, sizeof mark);
    cache_ids(ids, 30, 4, 128);
    CHECK(infer_session_save_more(NULL, &mark, state_write, &b) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_load_more(NULL, &mark, state_read, &b) == INFER_ERR_ARGUMENT);
    if (s && t) {
        CHECK(infer_session_save_more(s, NULL, state_write, &b) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(s)->message, "mark is NULL");
        CHECK(infer_session_save_more(s, &mark, NULL, &b) == INFER_ERR_ARGUMENT);
        CHECK(infer_session_load_more(s, NULL, state_read, &b) == INFER_ERR_ARGUMENT);
        CHECK(infer_session_load_more(s, &mark, NULL, &b) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(s)->message, "read is NULL");
        CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_OK && mark.bytes == b.n && b.n > 0); /* empty */
        CHECK(inc_load(t, &other, &b, b.n) == INFER_OK && infer_session_position(t) == 0);
        CHECK(infer_session_eval(s, ids, 20) == INFER_OK);
        old = mark;
        CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
        CHECK(infer_session_save_more(s, &old, state_write, &b) == INFER_ERR_STATE); /* that was before */
        CHECK_HAS(infer_session_error(s)->message, "not of this session's last save");
        CHECK(infer_session_save_more(t, &mark, state_write, &b) == INFER_ERR_STATE); /* that of another one */
        CHECK(mark.bytes == b.n);
        /* a fork goes on in a copy */
        CHECK(infer_session_fork(&f, s, NULL) == INFER_OK);
        state_write(&copy, b.p, b.n);
        other = mark;
        if (f) CHECK(infer_session_rewind(f, 17) == INFER_OK && infer_session_eval(f, ids + 3, 9) == INFER_OK);
        CHECK(f && infer_session_save_more(f, &other, state_write, &copy) == INFER_OK);
        CHECK(infer_session_eval(s, ids + 5, 9) == INFER_OK && infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
        CHECK(inc_load(t, &old, &copy, copy.n) == INFER_OK && f && inc_same(f, t));
        CHECK(inc_load(t, &old, &b, b.n) == INFER_OK && inc_same(s, t));
        /* states and records are told apart; after a state the mark is no more */
        CHECK(infer_session_save(s, state_write, &plain) == INFER_OK);
        CHECK(inc_load(t, &old, &plain, plain.n) == INFER_ERR_FORMAT);
        CHECK_HAS(infer_session_error(t)->message, "infer_session_save_more");
        b.at = 0;
        CHECK(infer_session_load(t, state_read, &b) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(t)->message, "infer_session_load_more reads");
        CHECK(infer_session_load(s, state_read, &plain) == INFER_OK);
        CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_ERR_STATE);
    }
    infer_session_destroy(f);
    infer_session_destroy(s);
    infer_session_destroy(t);
    s = bert ? cache_session(bert, 1, 32, 64, 0, 0) : NULL;
    memset(&mark, 0, sizeof mark);
    CHECK(s && infer_session_save_more(s, &mark, state_write, &b) == INFER_ERR_UNSUPPORTED);
    CHECK(s && infer_session_load_more(s, &mark, state_read, &b) == INFER_ERR_UNSUPPORTED);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(infer_model_close(bert) == INFER_OK);
    free(b.p);
    free(copy.p);
    free(plain.p);
}

/* Writing fails at some byte: the mark stays, and the same again succeeds. Positions that are embeddings are saved, too. */
static void test_increments_write_fails(void) {
    infer_model *m = cache_model("gemma3-real-dense");
    infer_session *s = m ? inc_session(m, 0, 1) : NULL, *t = m ? inc_session(m, 0, 1) : NULL;
    infer_session_mark mark, before, got;
    infer_token ids[40];
    float x[3 * 1024];
    infer_step st;
    state_bytes b;
    int i;
    memset(&b, 0, sizeof b);
    memset(&mark, 0, sizeof mark);
    memset(&st, 0, sizeof st);
    memset(x, 0, sizeof x);
    cache_ids(ids, 40, 4, 128);
    for (i = 0; s && t && i < 30; i++) {
        size_t n = b.n;
        CHECK(infer_session_eval(s, ids + i, 2) == INFER_OK);
        before = mark;
        b.stop = n + 1 + (size_t)i * 37;
        CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_ERR_IO);
        CHECK_HAS(infer_session_error(s)->message, "wrote too little");
        CHECK(memcmp(&before, &mark, sizeof mark) == 0);
        b.n = n;
        b.stop = 0;
        CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
        CHECK(inc_load(t, &got, &b, b.n) == INFER_OK && got.left == 0 && inc_same(s, t));
    }
    if (s && t) {
        st.session = s;
        st.embeddings = x;
        st.n = 3;
        CHECK(m->hp.n_embd <= 1024 && infer_eval(s->context, &st, 1, NULL) == INFER_OK);
        CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
        CHECK(inc_load(t, &got, &b, b.n) == INFER_OK && infer_session_tokens(t)[62] == -1 && inc_same(s, t));
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
}

/* Every allocation fails once: an error, the mark and the session as they were, and the same again succeeds. */
static void test_increments_oom(void) {
    infer_model_params mp;
    infer_model *m = NULL;
    infer_session *s, *t;
    infer_session_mark mark, before;
    infer_token ids[40];
    infer_error e;
    state_bytes b;
    long n, save_fails = 0, load_fails = 0;
    infer_result r;
    memset(&mp, 0, sizeof mp);
    memset(&mark, 0, sizeof mark);
    memset(&b, 0, sizeof b);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    mp.backend = INFER_CPU;
    cache_ids(ids, 40, 4, 128);
    check_fail_at = check_allocs = check_live = 0;
    CHECK(infer_model_open(&m, check_data("archs/lfm2-dense.gguf"), &mp, &e) == INFER_OK);
    if (!m) return;
    s = inc_session(m, 0, 1);
    t = inc_session(m, 0, 1);
    CHECK(s && t && infer_session_eval(s, ids, 30) == INFER_OK && infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
    CHECK(infer_session_eval(t, ids + 9, 3) == INFER_OK && infer_session_eval(s, ids, 7) == INFER_OK);
    for (n = 1, r = INFER_ERR_MEMORY; r && n < 20; n++) {
        const long live = check_live;
        before = mark;
        check_allocs = 0;
        check_fail_at = n;
        r = infer_session_save_more(s, &mark, state_write, &b);
        check_fail_at = 0;
        CHECK(check_live == live && (r == INFER_OK || r == INFER_ERR_MEMORY));
        save_fails += r != INFER_OK;
        if (r) CHECK(memcmp(&before, &mark, sizeof mark) == 0 && b.n == mark.bytes);
    }
    for (n = 1, r = INFER_ERR_MEMORY; r && n < 200; n++) {
        const long live = check_live;
        check_allocs = 0;
        check_fail_at = n;
        r = inc_load(t, &before, &b, b.n);
        check_fail_at = 0;
        CHECK(check_live == live && (r == INFER_OK || r == INFER_ERR_MEMORY));
        load_fails += r != INFER_OK;
        CHECK(infer_session_position(t) == (r ? 3 : 37));
    }
    CHECK(r == INFER_OK && save_fails == 1 && load_fails > 10 && inc_same(s, t));
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0);
    free(b.p);
}

/* An encoder beside a decoder: the first record has the text that is answered, later ones do not, and a new text is a new
 * beginning within the records. */
static void test_increments_source(void) {
    infer_model *m = cache_model("t5-gated-dense");
    infer_session *s = m ? inc_session(m, 0, 1) : NULL, *t = m ? inc_session(m, 0, 1) : NULL;
    infer_session_mark mark, got;
    infer_token ids[40];
    state_bytes b;
    uint64_t at;
    int i;
    memset(&b, 0, sizeof b);
    memset(&mark, 0, sizeof mark);
    cache_ids(ids, 40, 4, 100);
    for (i = 0; s && t && i < 3; i++) {
        CHECK(infer_session_encode(s, ids + i, 10 + i) == INFER_OK);
        if (i == 1) CHECK(infer_session_save_more(s, &mark, state_write, &b) == INFER_OK); /* at 0 */
        CHECK(infer_session_eval(s, ids, 4) == INFER_OK && infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
        CHECK(inc_load(t, &got, &b, b.n) == INFER_OK && inc_same(s, t));
        at = mark.bytes;
        CHECK(infer_session_eval(s, ids, 1) == INFER_OK && infer_session_save_more(s, &mark, state_write, &b) == INFER_OK);
        CHECK(b.p[at + 18 * 4] == 0 && b.p[at + 12 * 4] == 0);
        CHECK(inc_load(t, &got, &b, b.n) == INFER_OK && inc_same(s, t));
        CHECK(infer_session_eval(s, ids, 1) == INFER_OK && infer_session_eval(t, ids, 1) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), (size_t)m->hp.n_vocab * sizeof(float)) == 0);
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
}

static void suite_increments(void) {
    RUN(test_increments_walk);
    RUN(test_increments_cost);
    RUN(test_increments_cut);
    RUN(test_increments_damaged);
    RUN(test_increments_forged);
    RUN(test_increments_marks);
    RUN(test_increments_write_fails);
    RUN(test_increments_oom);
    RUN(test_increments_source);
}
