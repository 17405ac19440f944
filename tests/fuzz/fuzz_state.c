/* fuzz_state.c: libFuzzer target for saved sessions whose check sum is right, whatever else they say:
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DINFER_QUIET -Itests tests/fuzz/fuzz_state.c -o fuzz_state -lm
 *     ./fuzz_state -max_len=256 tests/fuzz/corpus_state
 *
 * A session is saved; the bytes choose what becomes of its header, tokens and pages; lengths and check sum are made to fit
 * again; it is loaded into a session that shares its context with another one, and used. Or it is saved record by record, and
 * that is changed. Always: an error has a message and
 * changes nothing; tokens exist; what is saved again loads again; and nothing depends on the other session's tokens, which is
 * tried with two of them. */
#include "library.h"
#include "model_maker.h"

enum { FUZZ_HEAD = 16, FUZZ_CONTEXT = 41, FUZZ_N = 7, FUZZ_VALID = 8, FUZZ_FIRST = 9, FUZZ_RUNS = 13 /* words of the header */ };

/* The models: rows of INFER__ARCHS by name, and the group of the cache that each is here for. */
static const struct { const char *arch; int group; } FUZZ_STATES_OF[] = {
    {"llama", INFER__GROUP_FULL},
    {"gemma3", INFER__GROUP_WINDOW},
    {"gemma2", INFER__GROUP_WINDOW},
    {"gpt2", INFER__GROUP_FULL},
    {"cohere2", INFER__GROUP_WINDOW},
    {"bloom", INFER__GROUP_FULL},
    {"lfm2", INFER__GROUP_CELLS},
    {"deepseek2", INFER__GROUP_FULL},   /* latent attention */
    {"gemma4", INFER__GROUP_WINDOW},    /* layers that share keys and values */
    {"falcon-h1", INFER__GROUP_CELLS},  /* a state space beside attention */
    {"mamba2", INFER__GROUP_CELLS},
    {"qwen3next", INFER__GROUP_CELLS},  /* delta net */
    {"rwkv7", INFER__GROUP_CELLS},
    {"glm-dsa", INFER__GROUP_FULL},     /* keys of an indexer */
};
#define FUZZ_KINDS INFER__COUNT(FUZZ_STATES_OF)

typedef struct fuzz_bytes { unsigned char *p; size_t n, cap, at; long calls, fail_at; } fuzz_bytes;
static size_t fuzz_put(void *user, const void *data, size_t n) {
    fuzz_bytes *b = (fuzz_bytes *)user;
    if (++b->calls == b->fail_at) n /= 2;
    if (b->n + n > b->cap) {
        b->cap = (b->n + n) * 2;
        b->p = (unsigned char *)realloc(b->p, b->cap);
        if (!b->p) fuzz_stop("no memory");
    }
    if (n) memcpy(b->p + b->n, data, n);
    b->n += n;
    return n;
}
static size_t fuzz_get(void *user, void *data, size_t n) {
    fuzz_bytes *b = (fuzz_bytes *)user;
    if (n > b->n - b->at) n = b->n - b->at;
    if (++b->calls == b->fail_at) n /= 2;
    if (n) memcpy(data, b->p + b->at, n);
    b->at += n;
    return n;
}

/* ---- changing a state ------------------------------------------------------------------------------------------------ */

/* Bytes behind the header that it asks for; 0 = a length that nobody has memory for. */
static size_t fuzz_body(const infer_session *s, const uint32_t *w) {
    const infer_context *c = s->context;
    size_t n = (size_t)w[FUZZ_N] * sizeof(infer_token) + (w[FUZZ_RUNS] < 4096 ? w[FUZZ_RUNS] : 0) * 12, pages = ((size_t)w[FUZZ_VALID] + INFER__PAGE - 1) / INFER__PAGE;
    int32_t i;
    if (w[FUZZ_N] > 4096 || w[FUZZ_VALID] > 4096) return 0;
    for (i = 0; i < c->model->n_states; i++) {
        const infer__state *state = &c->model->states[i];
        size_t bytes = (size_t)infer__page_bytes(c->plan.kv_type, state);
        if (state->group == INFER__GROUP_CELLS) n += w[FUZZ_VALID] ? bytes : 0;
        else if (w[FUZZ_FIRST + state->group] < pages) n += bytes * (pages - w[FUZZ_FIRST + state->group]);
    }
    return n;
}

/* New sizes: the header's, with what was there as far as it goes. */
static void fuzz_fit(const infer_session *s, fuzz_bytes *b, const uint32_t *w) {
    size_t body = fuzz_body(s, w), n = FUZZ_HEAD * 4 + body + 8;
    unsigned char *p;
    if (body == 0 && w[FUZZ_N]) return;
    p = (unsigned char *)calloc(1, n);
    if (!p) fuzz_stop("no memory");
    memcpy(p, b->p, b->n - 8 < n - 8 ? b->n - 8 : n - 8);
    free(b->p);
    b->p = p;
    b->n = b->cap = n;
}

static void fuzz_change(fuzz_in *in, const infer_session *s, fuzz_bytes *b) {
    static const uint32_t words[] = {0, 1, 15, 16, 17, 31, 32, 33, 48, 64, 100, 1 << 20, 0x7fffffff, 0x80000000u, 0xffffffffu};
    uint32_t w[FUZZ_HEAD];
    int times = 1 + (int)fuzz_below(in, 6);
    memcpy(w, b->p, sizeof w);
    while (times--) {
        size_t tokens = w[FUZZ_N] < 4096 ? w[FUZZ_N] : 0, body = b->n - 8 - sizeof w, at, n;
        int32_t t;
        if (tokens * 4 > body) tokens = body / 4;
        switch (fuzz_below(in, 8)) {
        case 0: w[fuzz_below(in, FUZZ_HEAD)] = words[fuzz_below(in, 15)]; break;
        case 1: w[FUZZ_N + fuzz_below(in, 4)] = fuzz_below(in, 70); break;
        case 2: w[FUZZ_N + fuzz_below(in, 4)] += fuzz_below(in, 2) ? 1 : (uint32_t)-1; break;
        case 3: /* all tokens, or one */
            t = (int32_t)fuzz_below(in, 8) - 2;
            if (t == 5) t = INT32_MAX;
            if (t == 4) t = s->context->model->hp.n_vocab;
            at = fuzz_byte(in);
            for (n = 0; n < tokens; n++)
                if (at > 200 || n == at % tokens) memcpy(b->p + sizeof w + 4 * n, &t, 4);
            break;
        case 4: /* a run of bytes of the pages */
            if (body <= tokens * 4) break;
            at = tokens * 4 + (size_t)fuzz_word(in) * 8 % (body - tokens * 4);
            n = 1 + fuzz_byte(in);
            t = (int32_t)fuzz_byte(in);
            for (; n && at < body; n--, at++) b->p[sizeof w + at] = (unsigned char)t;
            break;
        case 5: w[FUZZ_VALID] = fuzz_below(in, 2) ? w[FUZZ_N] : 0; break;
        case 6: w[FUZZ_N] = w[FUZZ_VALID] = fuzz_below(in, 50); break;
        default: if (fuzz_below(in, 4) == 0) b->fail_at = 1 + (long)fuzz_below(in, 3); break;
        }
        memcpy(b->p, w, sizeof w);
        fuzz_fit(s, b, w);
    }
    if (fuzz_below(in, 16) == 15) b->n -= fuzz_below(in, (uint32_t)(b->n < 200 ? b->n : 200));
    else {
        uint64_t sum = infer__fnv(INFER__FNV, b->p, b->n - 8);
        memcpy(b->p + b->n - 8, &sum, 8);
    }
}

/* ---- records ----------------------------------------------------------------------------------------------------------- */

/* Records of a session that goes on and back. Gives how many; ends[i] is where record i ends. */
static int fuzz_records(fuzz_in *in, infer_session *s, fuzz_bytes *b, size_t ends[8]) {
    infer_session_mark mark;
    infer_token ids[16];
    int i, n = 0, steps = 1 + (int)fuzz_below(in, 8);
    memset(&mark, 0, sizeof mark);
    for (i = 0; i < 16; i++) ids[i] = (infer_token)(i * 5 % s->context->model->hp.n_vocab);
    while (steps--) {
        const int32_t at = infer_session_position(s), more = 1 + (int32_t)fuzz_below(in, 16);
        const size_t before = b->n;
        if (fuzz_below(in, 4) == 3) infer_session_rewind(s, (int32_t)fuzz_below(in, (uint32_t)at + 1));
        else if (at + more <= FUZZ_CONTEXT && infer_session_eval(s, ids, more)) fuzz_stop(infer_session_error(s)->message);
        if (infer_session_save_more(s, &mark, fuzz_put, b) != INFER_OK || mark.bytes != b->n) fuzz_stop("save_more");
        if (b->n > before) ends[n++] = b->n;
    }
    return n;
}

/* Header words, bytes and ends are changed; mostly the sums fit again. */
static void fuzz_records_change(fuzz_in *in, fuzz_bytes *b, const size_t ends[8], int n) {
    int times = (int)fuzz_below(in, 6), i;
    uint64_t sum = 0;
    uint32_t v;
    while (times--) {
        const int k = (int)fuzz_below(in, (uint32_t)n);
        const size_t from = k ? ends[k - 1] : 0;
        unsigned char *p = b->p + from;
        if (fuzz_below(in, 2)) {
            p += 4 * (7 + fuzz_below(in, 11)); /* what it has of everything */
            memcpy(&v, p, 4);
            v = fuzz_below(in, 4) ? v + fuzz_below(in, 9) - 4 : fuzz_word(in);
            memcpy(p, &v, 4);
        } else p[fuzz_word(in) % (ends[k] - from)] = (unsigned char)fuzz_byte(in);
    }
    for (i = 0; i < n && fuzz_below(in, 8) < 7; i++) {
        unsigned char *p = b->p + (i ? ends[i - 1] : 0);
        memcpy(p + 72, &sum, 8);
        sum = infer__fnv(i ? sum : INFER__FNV, p, 80);
        memcpy(p + 80, &sum, 8);
        sum = infer__fnv(sum, p + 80, (size_t)(b->p + ends[i] - p) - 88);
        memcpy(b->p + ends[i] - 8, &sum, 8);
    }
    if (fuzz_below(in, 4) == 3) b->n -= fuzz_below(in, (uint32_t)b->n);
}

/* ---- using it ----------------------------------------------------------------------------------------------------------- */

typedef struct fuzz_print { uint64_t h; } fuzz_print; /* of all that came out */
static void fuzz_saw(fuzz_print *f, const void *p, size_t n) { f->h = infer__fnv(f->h, p, n); }
static void fuzz_saw_logits(fuzz_print *f, infer_session *s) {
    const float *x = infer_session_logits(s, -1);
    int32_t i;
    for (i = 0; x && i < s->context->model->hp.n_vocab; i++) {
        float v = x[i] != x[i] ? 1e30f : x[i];
        fuzz_saw(f, &v, sizeof v);
    }
}
static void fuzz_saw_result(fuzz_print *f, infer_session *s, infer_result r) {
    if (r < 0 && !infer_session_error(s)->message[0]) fuzz_stop("an error without a message");
    fuzz_saw(f, &r, sizeof r);
    if (r == INFER_OK) fuzz_saw_logits(f, s);
}

static void fuzz_again(fuzz_print *f, infer_session *s) {
    infer_session_mark mark;
    fuzz_bytes b, c;
    infer_session *t = NULL;
    infer_error e;
    int32_t n = infer_session_position(s);
    memset(&b, 0, sizeof b);
    memset(&c, 0, sizeof c);
    if (infer_session_save(s, fuzz_put, &b) != INFER_OK) fuzz_stop("a loaded session cannot be saved");
    if (infer_session_fork(&t, s, &e) == INFER_OK) {
        infer_result r = infer_session_load(t, fuzz_get, &b);
        if (r != INFER_OK && r != INFER_CONTEXT_FULL) fuzz_stop("what was saved again does not load");
        if (r == INFER_OK) {
            if (infer_session_position(t) != n) fuzz_stop("another position after load");
            if (infer_session_save(t, fuzz_put, &c) != INFER_OK || c.n != b.n || memcmp(b.p, c.p, b.n)) fuzz_stop("saved bytes differ");
        }
    }
    fuzz_saw(f, b.p, b.n);
    if (t) { /* and as records */
        b.n = b.at = 0;
        memset(&mark, 0, sizeof mark);
        if (infer_session_save_more(s, &mark, fuzz_put, &b) != INFER_OK) fuzz_stop("a loaded session cannot be saved in records");
        if (infer_session_load_more(t, &mark, fuzz_get, &b) == INFER_OK && (mark.left || infer_session_position(t) != n)) fuzz_stop("records lose something");
    }
    infer_session_destroy(t);
    free(b.p);
    free(c.p);
}

static void fuzz_use(fuzz_in *in, fuzz_print *f, infer_session *s) {
    infer_token ids[24];
    infer_session *t = NULL;
    infer_generate_params p;
    infer_error e;
    int steps, i, vocab = s->context->model->hp.n_vocab;
    memset(&p, 0, sizeof p);
    p.max_tokens = 4;
    for (steps = 1 + (int)fuzz_below(in, 6); steps > 0; steps--) {
        int32_t n = 1 + (int32_t)fuzz_below(in, 24), position = infer_session_position(s);
        for (i = 0; i < 24; i++) ids[i] = (infer_token)((fuzz_byte(in) + (uint32_t)i) % (uint32_t)vocab);
        switch (fuzz_below(in, 7)) {
        case 0: fuzz_saw_result(f, s, infer_session_eval(s, ids, n)); break;
        case 1: fuzz_saw_result(f, s, infer_session_rewind(s, (int32_t)fuzz_below(in, (uint32_t)position + 2))); break;
        case 2: fuzz_saw_result(f, s, infer_session_sync(s, ids, n, NULL)); break;
        case 3:
            if (infer_session_fork(&t, s, &e) == INFER_OK) fuzz_saw_result(f, t, infer_session_eval(t, ids, 1));
            infer_session_destroy(t);
            t = NULL;
            break;
        case 4: fuzz_again(f, s); break;
        case 5:
            if (position > 0 && position < 20) { /* the same tokens and one more */
                memcpy(ids, infer_session_tokens(s), (size_t)position * sizeof *ids);
                fuzz_saw_result(f, s, infer_session_sync(s, ids, position + 1, NULL));
            }
            break;
        default: fuzz_saw_result(f, s, infer_generate(s, NULL, NULL, &p, NULL)); break;
        }
    }
}

/* All of it with one of two texts in the other session; the print of what came out. */
static uint64_t fuzz_once(infer_model *m, fuzz_in in, int other) {
    infer_context_params cp;
    infer_session_params p;
    infer_context *c = NULL;
    infer_session *a = NULL, *s = NULL, *t = NULL;
    infer_token ids[40];
    infer_session_mark mark;
    fuzz_bytes b;
    fuzz_print f;
    infer_error e;
    infer_result r;
    size_t ends[8];
    int32_t i, n, records;
    memset(&cp, 0, sizeof cp);
    memset(&p, 0, sizeof p);
    memset(&b, 0, sizeof b);
    f.h = INFER__FNV;
    cp.threads = 1;
    cp.batch = 8;
    cp.cells = 256;
    cp.keep = 1 + (int32_t)fuzz_below(&in, 4);
    cp.sessions = 4;
    cp.kv_type = (int32_t)fuzz_below(&in, 6);
    if (infer_context_create(&c, m, &cp, &e) != INFER_OK) fuzz_stop(e.message);
    p.context = FUZZ_CONTEXT;
    if (infer_session_create_in(&a, c, &p, &e) || infer_session_create_in(&s, c, &p, &e)) fuzz_stop(e.message);
    if (fuzz_below(&in, 4) == 3) p.context = 20;
    if (infer_session_create_in(&t, c, &p, &e)) fuzz_stop(e.message);
    n = (int32_t)fuzz_below(&in, 41);
    for (i = 0; i < 40; i++) ids[i] = (infer_token)(i * 7 % m->hp.n_vocab);
    if (n && infer_session_eval(s, ids, n) != INFER_OK) fuzz_stop(infer_session_error(s)->message);
    if (fuzz_below(&in, 4) == 3) infer_session_rewind(s, n / 2);
    records = fuzz_below(&in, 2) ? fuzz_records(&in, s, &b, ends) : 0;
    if (records) fuzz_records_change(&in, &b, ends, records);
    else if (infer_session_save(s, fuzz_put, &b) != INFER_OK) fuzz_stop("save");
    else fuzz_change(&in, s, &b);
    for (i = 0; i < 40; i++) ids[i] = (infer_token)((other ? 3 * i + 1 : i * i) % m->hp.n_vocab);
    if (infer_session_eval(a, ids, 1 + (int32_t)fuzz_below(&in, 40)) != INFER_OK) fuzz_stop(infer_session_error(a)->message);
    n = (int32_t)fuzz_below(&in, 10);
    for (i = 0; i < n; i++) ids[i] = (infer_token)(5 * i % m->hp.n_vocab);
    if (n) fuzz_saw_result(&f, t, infer_session_eval(t, ids, n)); /* what a load must not leave half */
    if (infer_session_eval(a, ids, 1) != INFER_OK) fuzz_stop("the other session");
    b.calls = 0;
    r = records ? infer_session_load_more(t, &mark, fuzz_get, &b) : infer_session_load(t, fuzz_get, &b);
    if (records && r == INFER_OK) fuzz_saw(&f, &mark, sizeof mark);
    if (r < 0 && !infer_session_error(t)->message[0]) fuzz_stop("an error without a message");
    fuzz_saw(&f, &r, sizeof r);
    if (r && infer_session_position(t) != n) fuzz_stop("a load that failed has changed the session");
    for (i = 0; i < infer_session_position(t); i++)
        if (infer_session_tokens(t)[i] < -1 || infer_session_tokens(t)[i] >= m->hp.n_vocab) fuzz_stop("a token that does not exist");
    fuzz_use(&in, &f, t);
    free(b.p);
    infer_session_destroy(t);
    infer_session_destroy(s);
    infer_session_destroy(a);
    for (i = 0; i < INFER__GROUPS; i++)
        if (c->cache.groups[i].n_free != c->cache.groups[i].n_pages) fuzz_stop("pages are lost");
    if (infer_context_destroy(c) != INFER_OK) fuzz_stop("the context is in use");
    return f.h;
}

/* The first model that the maker builds that can be computed and has what it is here for. */
static infer_model *fuzz_model(uint32_t kind) {
    static infer_model *models[FUZZ_KINDS];
    uint32_t number, row;
    int32_t i, has = 0;
    if (models[kind]) return models[kind];
    for (row = 0; strcmp(INFER__ARCHS[row].name, FUZZ_STATES_OF[kind].arch); row++) continue;
    for (number = 0; number < 1000; number++) {
        maker mk;
        infer_model *m = maker_computed(&mk, row, &number, 1000, SIZE_MAX);
        for (i = 0; m && i < m->n_states; i++) has |= m->states[i].group == FUZZ_STATES_OF[kind].group;
        if (has && m->hp.n_layer < 5 && m->hp.n_ctx >= FUZZ_CONTEXT) return models[kind] = m; /* and keeps its file */
        if (!m) break;
        infer_model_close(m);
        maker_free(&mk);
        has = 0;
    }
    fprintf(stderr, "fuzz: %s\n", FUZZ_STATES_OF[kind].arch);
    fuzz_stop("the maker builds no model of it");
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in;
    infer_model *m;
    in.p = data;
    in.n = size;
    m = fuzz_model(fuzz_below(&in, FUZZ_KINDS));
    if (fuzz_once(m, in, 0) != fuzz_once(m, in, 1)) fuzz_stop("results depend on another session's tokens");
    return 0;
}
