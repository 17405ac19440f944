/* test_hostile_state.c: forged session states, sessions that cannot compute again what they have lost, and extreme arguments:
 * an error or a right result; never an eval on memory that nobody wrote or on another session's rows. */

/* ---- forged states ---------------------------------------------------------------------------------------------------- */

enum { STATE_N = 7, STATE_VALID = 8, STATE_FIRST = 9, STATE_TOKENS = 68 }; /* words of the header; byte of the tokens */

static uint32_t hostile_word(const state_bytes *b, int word) {
    uint32_t v;
    memcpy(&v, b->p + word * 4, 4);
    return v;
}
static void hostile_set(state_bytes *b, int word, uint32_t v) { memcpy(b->p + word * 4, &v, 4); }

/* The check sum at the end fits again: it is no secret. */
static void hostile_seal(state_bytes *b) {
    uint64_t sum = infer__fnv(INFER__FNV, b->p, b->n - 8);
    memcpy(b->p + b->n - 8, &sum, 8);
    b->at = 0;
}

/* A context with two sessions, of which the first has evaluated tokens that depend on `secret`. */
typedef struct hostile_pair { infer_context *c; infer_session *other, *s; } hostile_pair;
static int hostile_pair_open(hostile_pair *p, infer_model *m, uint32_t secret) {
    infer_context_params cp;
    infer_session_params sp;
    infer_token ids[120];
    memset(&cp, 0, sizeof cp);
    memset(&sp, 0, sizeof sp);
    memset(p, 0, sizeof *p);
    cp.threads = 1;
    cp.cells = 512;
    cp.batch = 32;
    cp.keep = 1;
    cp.kv_type = INFER_KV_F32;
    sp.context = 200;
    cache_ids(ids, 120, secret, 128);
    if (infer_context_create(&p->c, m, &cp, NULL)) return 0;
    if (infer_session_create_in(&p->other, p->c, &sp, NULL) || infer_session_create_in(&p->s, p->c, &sp, NULL)) return 0;
    if (infer_session_eval(p->s, ids, 100)) return 0; /* pages that are given back keep what was in them */
    if (infer_session_rewind(p->s, 0)) return 0;
    return infer_session_eval(p->other, ids, 120) == INFER_OK;
}
static void hostile_pair_close(hostile_pair *p) {
    infer_session_destroy(p->other);
    infer_session_destroy(p->s);
    CHECK(infer_context_destroy(p->c) == INFER_OK);
}

/* CVE-2026-43629 is the class: a state that says more than it brings. Tokens that were given as embeddings and have no cache
 * cannot be computed again, so a state with such is malformed. (It was loaded, and computed on the other session's rows.) */
static void test_hostile_state_embeddings(void) {
    infer_model *m = cache_model("llama-dense");
    hostile_pair p;
    state_bytes b;
    infer_token minus = -1, one = 1;
    int32_t valid, at, i;
    memset(&b, 0, sizeof b);
    if (!m || !hostile_pair_open(&p, m, 1)) { CHECK(0); return; }
    for (valid = 0; valid < 4; valid++) { /* of four tokens, those from `valid` on are not in the cache */
        for (at = 0; at < 4; at++) {
            infer_token ids[4] = { 3, 5, 7, 9 };
            infer_result r;
            CHECK(infer_session_rewind(p.s, 0) == INFER_OK);
            if (valid) CHECK(infer_session_eval(p.s, ids, valid) == INFER_OK);
            b.n = 0;
            CHECK(infer_session_save(p.s, state_write, &b) == INFER_OK);
            state_write(&b, ids, 16); /* room for the tokens that are not there yet */
            memmove(b.p + STATE_TOKENS + 16, b.p + STATE_TOKENS + valid * 4, b.n - 16 - STATE_TOKENS - (size_t)valid * 4);
            b.n -= (size_t)valid * 4;
            memcpy(b.p + STATE_TOKENS, ids, 16);
            memcpy(b.p + STATE_TOKENS + at * 4, &minus, 4);
            hostile_set(&b, STATE_N, 4);
            hostile_seal(&b);
            CHECK(infer_session_rewind(p.s, 0) == INFER_OK);
            r = infer_session_load(p.s, state_read, &b);
            CHECK(r == (at >= valid ? INFER_ERR_FORMAT : INFER_OK));
            if (r) CHECK_HAS(infer_session_error(p.s)->message, "given as an embedding");
            CHECK(infer_session_position(p.s) == (r ? 0 : 4));
            CHECK(infer_session_eval(p.s, &one, 1) == INFER_OK);
        }
    }
    for (i = 0; i < 4; i++) { /* as found: four of them and no cache at all */
        CHECK(infer_session_rewind(p.s, 0) == INFER_OK);
        b.n = 0;
        CHECK(infer_session_save(p.s, state_write, &b) == INFER_OK);
        b.n -= 8;
        for (at = 0; at < 4; at++) state_write(&b, &minus, 4);
        state_write(&b, "12345678", 8);
        hostile_set(&b, STATE_N, (uint32_t)i + 1);
        b.n -= (size_t)(3 - i) * 4;
        hostile_seal(&b);
        CHECK(infer_session_load(p.s, state_read, &b) == INFER_ERR_FORMAT);
    }
    hostile_pair_close(&p);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
}

/* Every word of the header and tokens at the edges, with a sum that fits: refused with the reason, and nothing changes. */
static void test_hostile_state_header(void) {
    static const struct { int word; uint32_t v; infer_result r; const char *why; } cases[] = {
        { 0, 0x41414141u, INFER_ERR_FORMAT, "not a saved session" },
        { 2, 0x04030201u, INFER_ERR_FORMAT, "not a saved session" },
        { 3, 1, INFER_ERR_UNSUPPORTED, "version 1" },
        { 3, 0xffffffffu, INFER_ERR_UNSUPPORTED, "version" },
        { 4, INFER_KV_F16, INFER_ERR_ARGUMENT, "another kv_type" },
        { 4, 0xffffffffu, INFER_ERR_ARGUMENT, "another kv_type" },
        { 5, 0, INFER_ERR_ARGUMENT, "another model" },
        { 6, 0xffffffffu, INFER_ERR_ARGUMENT, "another model" },
        { STATE_N, 201, INFER_CONTEXT_FULL, "do not fit a context" },
        { STATE_N, 0x80000000u, INFER_CONTEXT_FULL, "do not fit a context" },
        { STATE_N, 0xffffffffu, INFER_CONTEXT_FULL, "do not fit a context" },
        { STATE_N, 0, INFER_ERR_FORMAT, "of 0 tokens are in the cache" },
        { STATE_VALID, 161, INFER_ERR_FORMAT, "161 of 160 tokens" },
        { STATE_VALID, 0x7fffffffu, INFER_ERR_FORMAT, "tokens are in the cache" },
        { STATE_VALID, 0x80000000u, INFER_ERR_FORMAT, "tokens are in the cache" },
        { STATE_VALID, 0x80000010u, INFER_ERR_FORMAT, "tokens are in the cache" },
        { STATE_VALID, 0xffffffffu, INFER_ERR_FORMAT, "tokens are in the cache" },
        { STATE_FIRST, 1, INFER_ERR_FORMAT, "begins at page 1" },
        { STATE_FIRST, 0xffffffffu, INFER_ERR_FORMAT, "begins at page" },
        { STATE_FIRST + 1, 10, INFER_ERR_FORMAT, "begins at page 10" },
        { STATE_FIRST + 1, 0x80000000u, INFER_ERR_FORMAT, "begins at page" },
        { STATE_FIRST + 1, 0, INFER_ERR_IO, "ends early" }, /* pages that the window has given up, and does not bring */
        { STATE_VALID, 1, INFER_ERR_FORMAT, "" },
        { 11, 1, INFER_ERR_ARGUMENT, "rotates otherwise" },
        { 12, 1, INFER_ERR_FORMAT, "word 12" },
        { 14, 0, INFER_ERR_ARGUMENT, "another model, of the same shape" },
        { 15, 0x80000000u, INFER_ERR_ARGUMENT, "its weights are others" },
        { STATE_TOKENS / 4, 128, INFER_ERR_FORMAT, "token 0 is 128" },
        { STATE_TOKENS / 4, 0xfffffffeu, INFER_ERR_FORMAT, "token 0 is -2" },
        { STATE_TOKENS / 4 + 159, 0x80000000u, INFER_ERR_FORMAT, "token 159 is -2147483648" },
        { STATE_TOKENS / 4 + 159, 0x7fffffffu, INFER_ERR_FORMAT, "token 159 is 2147483647" } };
    infer_model *m = cache_model("gemma3-real-dense");
    hostile_pair p;
    state_bytes b;
    infer_token ids[170];
    float want[128];
    size_t i;
    memset(&b, 0, sizeof b);
    cache_ids(ids, 170, 5, 128);
    if (!m || !hostile_pair_open(&p, m, 1)) { CHECK(0); return; }
    CHECK(infer_session_eval(p.s, ids, 160) == INFER_OK);
    CHECK(infer_session_save(p.s, state_write, &b) == INFER_OK);
    CHECK(hostile_word(&b, STATE_FIRST + 1) > 0);
    CHECK(infer_session_eval(p.s, ids + 160, 1) == INFER_OK);
    memcpy(want, infer_session_logits(p.s, -1), sizeof want);
    CHECK(infer_session_rewind(p.s, 0) == INFER_OK);
    CHECK(infer_session_eval(p.s, ids + 100, 20) == INFER_OK);
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t old = hostile_word(&b, cases[i].word);
        check_detail = cases[i].why;
        hostile_set(&b, cases[i].word, cases[i].v);
        hostile_seal(&b);
        CHECK(infer_session_load(p.s, state_read, &b) == cases[i].r);
        CHECK_HAS(infer_session_error(p.s)->message, cases[i].why);
        CHECK(infer_session_position(p.s) == 20);
        CHECK(memcmp(infer_session_tokens(p.s), ids + 100, 20 * sizeof *ids) == 0);
        hostile_set(&b, cases[i].word, old);
    }
    check_detail = "as it was";
    hostile_seal(&b);
    CHECK(infer_session_load(p.s, state_read, &b) == INFER_OK);
    CHECK(infer_session_eval(p.s, ids + 160, 1) == INFER_OK);
    CHECK(memcmp(want, infer_session_logits(p.s, -1), sizeof want) == 0);
    hostile_pair_close(&p);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
}

/* Forged at random, loaded in two contexts in which other sessions have left other things: what is loaded computes the same
 * in both, so nothing is read that the state did not bring. */
static void test_hostile_state_forged(void) {
    static const char *const files[] = { "gemma3-real-dense", "llama-dense" };
    size_t f;
    for (f = 0; f < 2; f++) {
        infer_model *m = cache_model(files[f]);
        hostile_pair p[2];
        state_bytes b, c;
        infer_token ids[64], one = 1;
        uint32_t seed = 9;
        int i, j, loaded = 0, refused = 0;
        memset(&b, 0, sizeof b);
        memset(&c, 0, sizeof c);
        cache_ids(ids, 64, 5, 128);
        if (!m || !hostile_pair_open(&p[0], m, 1) || !hostile_pair_open(&p[1], m, 77)) { CHECK(0); return; }
        CHECK(infer_session_eval(p[0].s, ids, 64) == INFER_OK);
        CHECK(infer_session_save(p[0].s, state_write, &b) == INFER_OK);
        for (i = 0; i < 120 && check_bad < 5; i += check_every(13)) {
            infer_result r[2];
            uint32_t n = 64, valid, first;
            c.n = 0;
            state_write(&c, b.p, b.n);
            seed = seed * 1664525u + 1013904223u;
            valid = i % 3 ? (seed >> 8) % 65 : 64 - (seed >> 8) % 5;
            n = i % 5 ? n : (seed >> 20) % 100; /* the bytes are of 64: tokens and pages are cut elsewhere */
            first = hostile_word(&b, STATE_FIRST + 1) + (uint32_t)(i % 4) - 1;
            if (i % 2) hostile_set(&c, STATE_VALID, valid);
            if (i % 7 == 0) hostile_set(&c, STATE_N, n);
            if (i % 3 == 0) hostile_set(&c, STATE_FIRST + 1, first);
            for (j = 0; j < i % 4; j++) { /* keys and values that are anything but infinite */
                seed = seed * 1664525u + 1013904223u;
                if (i % 11) c.p[STATE_TOKENS + 256 + (seed >> 4) % (c.n - 332) / 4 * 4] ^= (char)(seed >> 24);
                else hostile_set(&c, STATE_TOKENS / 4 + (int)(seed >> 16) % 64, 0xffffffffu);
            }
            hostile_seal(&c); /* for the length as it is ... */
            for (j = 0; j < 2; j++) {
                infer_session *s = p[j].s;
                infer_token secret[32];
                uint32_t w[INFER__STATE_WORDS];
                cache_ids(secret, 32, (uint32_t)j * 1000 + (uint32_t)i, 128); /* what lies in the work area */
                CHECK(infer_session_rewind(p[j].other, 88) == INFER_OK);
                CHECK(infer_session_eval(p[j].other, secret, 32) == INFER_OK);
                c.at = 0;
                memcpy(w, c.p, sizeof w);
                infer__error_clear(&s->error);
                if (infer__state_check(s, w) == INFER_OK) { /* ... and for the one that the header says */
                    uint64_t size = infer__state_size(s, w) + sizeof w, sum;
                    while (c.n < size + 8) state_write(&c, b.p, 64);
                    sum = infer__fnv(INFER__FNV, c.p, size);
                    memcpy(c.p + size, &sum, 8);
                }
                r[j] = infer_session_load(s, state_read, &c);
                if (r[j] == INFER_OK) r[j] = infer_session_eval(s, &one, 1);
            }
            CHECK(r[0] == r[1]);
            if (r[0]) refused++;
            else {
                loaded++;
                CHECK(memcmp(infer_session_logits(p[0].s, -1), infer_session_logits(p[1].s, -1), 128 * sizeof(float)) == 0);
            }
        }
        CHECK(loaded > 20 / check_every(13) && refused > 20 / check_every(13));
        hostile_pair_close(&p[0]);
        hostile_pair_close(&p[1]);
        CHECK(infer_model_close(m) == INFER_OK);
        free(b.p);
        free(c.p);
    }
}

/* Keys that were rotated for a short context are not taken into a long one, where the model rotates otherwise (LongRoPE). */
static void test_hostile_state_context(void) {
    infer_model *m = cache_model("phi3-longrope-long-dense"), *plain = cache_model("llama-dense");
    infer_session *s, *t, *u;
    infer_token ids[20];
    state_bytes b;
    memset(&b, 0, sizeof b);
    cache_ids(ids, 20, 5, 128);
    if (!m || !plain) return;
    s = cache_session(m, 1, 0, 100, 0, 0); /* trained for 128 */
    t = cache_session(m, 1, 0, 200, 0, 0);
    u = cache_session(m, 1, 0, 60, 0, 0);
    if (s && t && u) {
        CHECK(infer_session_eval(s, ids, 20) == INFER_OK && infer_session_save(s, state_write, &b) == INFER_OK);
        CHECK(infer_session_load(t, state_read, &b) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(t)->message, "at most 128 positions");
        b.at = 0;
        CHECK(infer_session_load(u, state_read, &b) == INFER_OK);
        b.n = b.at = 0;
        CHECK(infer_session_eval(t, ids, 20) == INFER_OK && infer_session_save(t, state_write, &b) == INFER_OK);
        CHECK(infer_session_load(s, state_read, &b) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(s)->message, "more than 128 positions");
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    infer_session_destroy(u);
    s = cache_session(plain, 1, 0, 64, 0, 0);
    t = cache_session(plain, 1, 0, 1000, 0, 0); /* more than it was trained for, but rotated alike */
    if (s && t) {
        b.n = b.at = 0;
        CHECK(infer_session_eval(s, ids, 20) == INFER_OK && infer_session_save(s, state_write, &b) == INFER_OK);
        CHECK(infer_session_load(t, state_read, &b) == INFER_OK);
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(infer_model_close(plain) == INFER_OK);
    free(b.p);
}

/* A window of one position: after a rewind the pages begin no later than the session ends, and nothing is saved of pages that
 * the session has not written. (It saved a state that could not be loaded.) */
static void test_hostile_window_one(void) {
    infer_model *m = cache_model("gemma3-real-dense");
    infer_session *s, *t;
    infer_token ids[100];
    state_bytes b;
    int32_t i;
    memset(&b, 0, sizeof b);
    cache_ids(ids, 100, 3, 128);
    if (!m) return;
    for (i = 0; i < m->hp.n_layer; i++)
        if (m->layers[i].window) m->layers[i].window = 1;
    s = cache_session(m, 1, 8, 200, 1, 0);
    t = cache_session(m, 1, 8, 200, 1, 0);
    for (i = 100; s && t && i > 0; i -= 7 * check_every(5)) {
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, 100) == INFER_OK);
        CHECK(infer_session_rewind(s, i) == INFER_OK);
        CHECK(s->first_page[1] * INFER__PAGE <= s->n_valid);
        b.n = b.at = 0;
        CHECK(infer_session_save(s, state_write, &b) == INFER_OK);
        CHECK(infer_session_load(t, state_read, &b) == INFER_OK && infer_session_position(t) == i);
        CHECK(infer_session_eval(s, ids, 1) == INFER_OK && infer_session_eval(t, ids, 1) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), 128 * sizeof(float)) == 0);
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
}

/* ---- what a window has given up --------------------------------------------------------------------------------------- */

static int hostile_stop_at, hostile_seen;
static int hostile_progress(void *user, float done) {
    (void)user;
    (void)done;
    return ++hostile_seen == hostile_stop_at;
}

/* Embeddings, then an eval that is cancelled after so many passes of 8 tokens. */
static infer_session *hostile_cancelled(infer_model *m, int32_t rows, int passes) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_token ids[200];
    infer_step st;
    float *x = (float *)malloc((size_t)rows * 64 * sizeof *x);
    int32_t i;
    memset(&p, 0, sizeof p);
    memset(&st, 0, sizeof st);
    cache_ids(ids, 200, 8, 128);
    for (i = 0; x && i < rows * 64; i++) x[i] = (float)(i * 37 % 101 - 50) / 50.0f;
    p.context = 400;
    p.own.batch = 8;
    p.own.keep = 1;
    p.own.threads = 1;
    p.progress = hostile_progress;
    hostile_stop_at = -1;
    if (infer_session_create(&s, m, &p, NULL) || !x) { CHECK(0); return NULL; }
    st.session = s;
    st.embeddings = x;
    st.n = rows;
    CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
    hostile_seen = 0;
    hostile_stop_at = passes;
    if (passes) CHECK(infer_session_eval(s, ids, 200) == INFER_CANCELLED);
    hostile_stop_at = -1;
    CHECK(infer_session_position(s) == rows);
    free(x);
    return s;
}

/* A cancelled eval puts the session back to where it stood. Where a sliding window has moved on meanwhile that means to compute
 * again, which rows given as embeddings do not allow: an error, until they are rewound. (It computed on what lay in the work
 * area, and returned INFER_OK.) */
static void test_hostile_embeddings_cancelled(void) {
    static const struct { const char *file; int passes, lost; } cases[] = {
        { "gemma3-real-dense", 1, 0 }, { "gemma3-real-dense", 12, 1 }, { "llama-dense", 12, 0 } };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        infer_model *m = cache_model(cases[i].file);
        infer_session *s = m ? hostile_cancelled(m, 50, cases[i].passes) : NULL, *t = m ? hostile_cancelled(m, 50, 0) : NULL;
        infer_session *fork = NULL;
        infer_token one = 1, ids[30];
        state_bytes b;
        memset(&b, 0, sizeof b);
        cache_ids(ids, 30, 2, 128);
        if (!s || !t) { CHECK(0); continue; }
        CHECK(infer_session_eval(t, &one, 1) == INFER_OK);
        if (cases[i].lost) {
            CHECK(infer_session_eval(s, &one, 1) == INFER_ERR_STATE);
            CHECK_HAS(infer_session_error(s)->message, "position 0 was given as an embedding");
            CHECK(infer_session_logits(s, -1) == NULL);
            CHECK(infer_session_save(s, state_write, &b) == INFER_ERR_STATE && b.n == 0);
            CHECK_HAS(infer_session_error(s)->message, "given as an embedding");
            CHECK(infer_session_fork(&fork, s, NULL) == INFER_OK);
            CHECK(infer_session_eval(fork, &one, 1) == INFER_ERR_STATE);
            CHECK(infer_session_rewind(s, 50) == INFER_ERR_STATE && infer_session_rewind(s, 1) == INFER_ERR_STATE);
            CHECK(infer_session_position(s) == 50);
            CHECK(infer_generate(s, NULL, "a", NULL, NULL) < 0);
            CHECK(infer_session_rewind(s, 0) == INFER_OK);
            CHECK(infer_session_rewind(t, 0) == INFER_OK);
            CHECK(infer_session_eval(s, ids, 30) == INFER_OK && infer_session_eval(t, ids, 30) == INFER_OK);
        } else CHECK(infer_session_eval(s, &one, 1) == INFER_OK);
        CHECK(infer_session_logits(s, -1) && infer_session_logits(t, -1));
        if (!check_bad) CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), 128 * sizeof(float)) == 0);
        infer_session_destroy(fork);
        infer_session_destroy(s);
        infer_session_destroy(t);
        CHECK(infer_model_close(m) == INFER_OK);
        free(b.p);
    }
}

/* ---- extreme arguments ------------------------------------------------------------------------------------------------- */

static const int32_t HOSTILE_NUMBERS[] = { INT32_MIN, INT32_MIN + 1, -(1 << 30), -2, -1, 0, 1, (1 << 20) + 1, 1 << 30, (1 << 30) + 1,
                                           INT32_MAX - 1, INT32_MAX };

static infer_session *hostile_s;   /* position 20 of 64, with logits and hidden states of all rows of the last eval (20) */
static infer_model *hostile_m;     /* at most 64 MiB */

/* Each gets a number and returns what came; *message is what it says. */
static infer_result hostile_create(const infer_context_params *cp, int32_t context, infer_error *e) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_memory memory;
    infer_token ids[2] = { 1, 2 };
    infer_result r;
    memset(&p, 0, sizeof p);
    p.own = *cp;
    p.context = context;
    r = infer_model_memory(hostile_m, cp, &memory, e);
    if (r && r != INFER_ERR_MEMORY) CHECK(r == INFER_ERR_ARGUMENT && memory.cache == 0);
    r = infer_session_create(&s, hostile_m, &p, e);
    CHECK((r == INFER_OK) == (s != NULL));
    if (!s) return r;
    CHECK(infer_session_eval(s, ids, 2) == (infer_session_capacity(s) >= 2 ? INFER_OK : INFER_CONTEXT_FULL));
    infer_session_destroy(s);
    return INFER_OK;
}
#define HOSTILE_PARAM(field)                                                                                                       \
    static infer_result hostile_##field(int32_t v, infer_error *e) {                                                              \
        infer_context_params p;                                                                                                   \
        memset(&p, 0, sizeof p);                                                                                                  \
        p.cells = 64;                                                                                                             \
        p.field = v;                                                                                                              \
        return hostile_create(&p, 0, e);                                                                                          \
    }
HOSTILE_PARAM(threads)
HOSTILE_PARAM(batch)
HOSTILE_PARAM(cells)
HOSTILE_PARAM(kv_type)
HOSTILE_PARAM(keep)
HOSTILE_PARAM(sessions)
static infer_result hostile_context(int32_t v, infer_error *e) {
    infer_context_params p;
    memset(&p, 0, sizeof p);
    return hostile_create(&p, v, e);
}
static infer_result hostile_context_in(int32_t v, infer_error *e) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.context = v;
    r = infer_session_create_in(&s, hostile_s->context, &p, e);
    infer_session_destroy(s);
    return r;
}
static infer_result hostile_told(infer_result r, infer_error *e) {
    *e = *infer_session_error(hostile_s);
    return r;
}
static infer_result hostile_rewind(int32_t v, infer_error *e) {
    infer_session *t = NULL;
    infer_result r;
    if (infer_session_fork(&t, hostile_s, e)) return INFER_ERR_MEMORY;
    r = infer_session_rewind(t, v);
    *e = *infer_session_error(t);
    infer_session_destroy(t);
    return r;
}
static infer_result hostile_eval(int32_t v, infer_error *e) { /* of one token that is there */
    infer_token one = 1;
    return v == 1 ? INFER_OK : hostile_told(infer_session_eval(hostile_s, &one, v), e);
}
static infer_result hostile_sync(int32_t v, infer_error *e) {
    infer_token one = 1;
    int32_t kept = -5;
    infer_result r = v == 1 ? INFER_OK : infer_session_sync(hostile_s, &one, v, &kept);
    CHECK(v == 1 || kept == 0);
    return hostile_told(r, e);
}
static infer_result hostile_token(int32_t v, infer_error *e) {
    infer_result r = v == 0 || v == 1 ? INFER_OK : infer_session_eval(hostile_s, &v, 1);
    return hostile_told(r, e);
}
static infer_result hostile_steps(int32_t v, infer_error *e) {
    infer_token one = 1;
    infer_step st;
    memset(&st, 0, sizeof st);
    st.session = hostile_s;
    st.tokens = &one;
    st.n = 1;
    return v == 1 ? INFER_OK : infer_eval(hostile_s->context, &st, v, e);
}
static infer_result hostile_outputs(int32_t v, infer_error *e) {
    infer_token one = 1;
    infer_step st;
    memset(&st, 0, sizeof st);
    st.session = hostile_s;
    st.tokens = &one;
    st.n = 1;
    st.outputs = v;
    return v == 0 || v == 1 ? INFER_OK : infer_eval(hostile_s->context, &st, 1, e);
}
/* Rows: NULL or a row that is there. */
static infer_result hostile_rows(int32_t v, infer_error *e) {
    const float *x = infer_session_logits(hostile_s, v), *y = infer_session_hidden(hostile_s, v);
    infer_token token = -7;
    int there = v >= -20 && v < 20;
    infer_result r = infer_session_sample(hostile_s, NULL, v, &token);
    CHECK(there == (x != NULL) && there == (y != NULL) && there == (r == INFER_OK));
    return hostile_told(r, e);
}
static infer_result hostile_top(int32_t v, infer_error *e) {
    infer_top top[1];
    return hostile_told(infer_session_top(hostile_s, -1, v, top), e);
}
static infer_result hostile_top_row(int32_t v, infer_error *e) {
    infer_top top[1];
    return hostile_told(infer_session_top(hostile_s, v, 1, top), e);
}
/* CVE-2026-21869: a negative number of tokens to drop when the context is full. Here the number of those that stay. */
static infer_result hostile_keep_first(int32_t v, infer_error *e) {
    infer_session *t = NULL;
    infer_generate_params p;
    infer_generate_info info;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.max_tokens = 100;
    p.on_full = INFER_FULL_SLIDE;
    p.ignore_end = 1;
    p.keep_first = v;
    if (infer_session_fork(&t, hostile_s, e)) return INFER_ERR_MEMORY;
    r = infer_generate(t, NULL, "a", &p, &info);
    *e = *infer_session_error(t);
    CHECK(infer_session_position(t) >= 0 && infer_session_position(t) <= infer_session_capacity(t));
    infer_session_destroy(t);
    return r;
}
#define HOSTILE_GENERATE(field)                                                                                                    \
    static infer_result hostile_##field(int32_t v, infer_error *e) {                                                              \
        static const char *const stop[1] = { "never" };                                                                           \
        infer_session *t = NULL;                                                                                                  \
        infer_generate_params p;                                                                                                  \
        infer_result r;                                                                                                           \
        memset(&p, 0, sizeof p);                                                                                                  \
        p.max_tokens = 2;                                                                                                         \
        p.stop = stop;                                                                                                            \
        p.field = v;                                                                                                              \
        if (infer_session_fork(&t, hostile_s, e)) return INFER_ERR_MEMORY;                                                        \
        r = infer_generate(t, NULL, "a", &p, NULL);                                                                               \
        *e = *infer_session_error(t);                                                                                             \
        infer_session_destroy(t);                                                                                                 \
        return r;                                                                                                                 \
    }
HOSTILE_GENERATE(max_tokens)
HOSTILE_GENERATE(logprobs)
HOSTILE_GENERATE(on_full)
HOSTILE_GENERATE(text_flags)
static infer_result hostile_n_stop(int32_t v, infer_error *e) { /* so many strings that are not there: only negative ones */
    infer_generate_params p;
    memset(&p, 0, sizeof p);
    p.n_stop = v;
    p.max_tokens = 1;
    return v == 0 ? INFER_OK : hostile_told(infer_generate(hostile_s, NULL, "a", &p, NULL), e);
}
#define HOSTILE_MODEL(field)                                                                                                       \
    static infer_result hostile_model_##field(int32_t v, infer_error *e) {                                                        \
        infer_model_params p;                                                                                                     \
        infer_model *m = NULL;                                                                                                    \
        infer_result r;                                                                                                           \
        memset(&p, 0, sizeof p);                                                                                                  \
        p.backend = INFER_CPU;                                                                                                    \
        p.field = v;                                                                                                              \
        r = infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &p, e);                                               \
        CHECK((r == INFER_OK) == (m != NULL));                                                                                    \
        infer_model_close(m);                                                                                                     \
        return r;                                                                                                                 \
    }
HOSTILE_MODEL(cpu_level)
HOSTILE_MODEL(gpu_layers)
HOSTILE_MODEL(device)
#undef HOSTILE_MODEL

/* Numbers in lo..hi may work, or find no memory or place; all others are an error with a message. */
static void test_hostile_numbers(void) {
    static const struct { const char *name; infer_result (*fn)(int32_t v, infer_error *e); int32_t lo, hi; } rows[] = {
        { "context_params.threads", hostile_threads, -1, 1024 },
        { "context_params.batch", hostile_batch, 0, 1 << 20 },
        { "context_params.cells", hostile_cells, 0, 1 << 30 },
        { "context_params.kv_type", hostile_kv_type, 0, INFER_KV_Q4_0 },
        { "context_params.keep", hostile_keep, 0, 1 << 30 },
        { "context_params.sessions", hostile_sessions, 0, 1 << 20 },
        { "session_params.context", hostile_context, 0, 1 << 30 },
        { "session_params.context, shared", hostile_context_in, 0, 64 },
        { "model_params.cpu_level", hostile_model_cpu_level, 0, INFER_CPU_SIMD128 },
        { "model_params.gpu_layers", hostile_model_gpu_layers, -1, INT32_MAX },
        { "model_params.device", hostile_model_device, 0, 1 },
        { "rewind", hostile_rewind, 0, 20 },
        { "eval n", hostile_eval, 1, 1 },
        { "sync n", hostile_sync, 1, 1 },
        { "token", hostile_token, 0, 1 },
        { "n_steps", hostile_steps, 1, 1 },
        { "outputs", hostile_outputs, 0, 1 },
        { "top k", hostile_top, 1, 1 },
        { "top row", hostile_top_row, -20, 19 },
        { "rows", hostile_rows, -20, 19 },
        { "keep_first", hostile_keep_first, 0, INT32_MAX },
        { "max_tokens", hostile_max_tokens, 0, INT32_MAX },
        { "logprobs", hostile_logprobs, 0, INT32_MAX },
        { "on_full", hostile_on_full, 0, 1 },
        { "text_flags", hostile_text_flags, 0, 7 },
        { "n_stop", hostile_n_stop, 0, 0 } };
    infer_model_params mp;
    infer_context_params cp;
    infer_context *c = NULL;
    infer_session_params p;
    infer_step st;
    infer_token ids[20];
    size_t i, j;
    memset(&mp, 0, sizeof mp);
    memset(&cp, 0, sizeof cp);
    memset(&p, 0, sizeof p);
    memset(&st, 0, sizeof st);
    mp.max_memory = 64 << 20; /* so that large contexts are refused, not made */
    mp.backend = INFER_CPU;
    hostile_m = NULL;
    hostile_s = NULL;
    CHECK(infer_model_open(&hostile_m, check_data("models/stories260K.F32.gguf"), &mp, NULL) == INFER_OK);
    if (!hostile_m) return;
    cp.cells = 256; /* forks slide, so they get pages of their own */
    p.context = 64;
    CHECK(infer_context_create(&c, hostile_m, &cp, NULL) == INFER_OK);
    CHECK(c && infer_session_create_in(&hostile_s, c, &p, NULL) == INFER_OK);
    cache_ids(ids, 20, 4, 512);
    st.session = hostile_s;
    st.tokens = ids;
    st.n = 20;
    st.outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
    for (i = 0; hostile_s && i < sizeof rows / sizeof *rows; i++)
        for (j = i % (size_t)check_every(5); j < sizeof HOSTILE_NUMBERS / sizeof *HOSTILE_NUMBERS; j += (size_t)check_every(5)) {
            int32_t v = HOSTILE_NUMBERS[j];
            infer_error e;
            infer_result r;
            check_detail = rows[i].name;
            CHECK(infer_session_rewind(hostile_s, 0) == INFER_OK);
            CHECK(infer_eval(c, &st, 1, NULL) == INFER_OK);
            memset(&e, 0, sizeof e);
            r = rows[i].fn(v, &e);
            if (v < rows[i].lo || v > rows[i].hi) CHECK(r != INFER_OK);
            if (r != INFER_OK) CHECK(e.code == r && e.message[0]);
        }
    infer_session_destroy(hostile_s);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(hostile_m) == INFER_OK);
}

/* Indices of lists. */
static void test_hostile_indices(void) {
    infer_model *m = cache_model("llama-dense");
    infer_device_info device;
    infer_type_info type;
    infer_tensor_info tensor;
    infer_meta meta;
    size_t j, len;
    char text[8];
    float x[64];
    for (j = 0; m && j < sizeof HOSTILE_NUMBERS / sizeof *HOSTILE_NUMBERS; j++) {
        int32_t v = HOSTILE_NUMBERS[j];
        if (v == 0 || v == 1) continue;
        CHECK(infer_device_get(v, &device) == INFER_ERR_ARGUMENT);
        CHECK(infer_type_get(v, &type) == INFER_ERR_ARGUMENT && infer_type_name(v) == NULL);
        CHECK(infer_arch_name(v) == NULL && infer_arch_reference(v) == NULL);
        CHECK(infer_cpu_level_name(v, NULL) == NULL);
        CHECK(infer_meta_key(m, v) == NULL && infer_tensor_get(m, v, &tensor) == INFER_ERR_ARGUMENT);
        CHECK(infer_token_text(m, v, text, sizeof text, &len) == INFER_ERR_ARGUMENT && infer_token_flags(m, v) == 0);
        CHECK(infer_token_special(m, v) == -1);
        CHECK(infer_meta_element(m, "general.architecture", (uint64_t)(int64_t)v, &meta) == INFER_ERR_ARGUMENT);
        CHECK(infer_tensor_read(m, "output_norm.weight", (uint64_t)(int64_t)v, 1, x, NULL) == INFER_ERR_ARGUMENT);
        CHECK(infer_tensor_read(m, "output_norm.weight", 0, (uint64_t)(int64_t)v, x, NULL) == INFER_ERR_ARGUMENT);
        CHECK(infer_tensor_read(m, "output_norm.weight", 1, (uint64_t)(int64_t)v, x, NULL) == INFER_ERR_ARGUMENT);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_hostile_state(void) {
    RUN(test_hostile_state_embeddings);
    RUN(test_hostile_state_header);
    RUN(test_hostile_state_forged);
    RUN(test_hostile_state_context);
    RUN(test_hostile_window_one);
    RUN(test_hostile_embeddings_cancelled);
    RUN(test_hostile_numbers);
    RUN(test_hostile_indices);
}
