/* fuzz_arch.c: libFuzzer target for models that are right in most things (model_maker.h), and for all that is done with one:
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DINFER_QUIET -Itests tests/fuzz/fuzz_arch.c -o fuzz_arch -lm
 *     ./fuzz_arch -max_len=256 tests/fuzz/corpus_arch
 *
 * Weights are read into blocks of their own (callbacks, no mapping), so that a read behind a tensor is seen. Always: an error
 * has a message; what a failed call leaves can be used on; a prompt at once, cut into passes, one token at a time, beside
 * another sequence, after rewind, in a fork, after save and load and with a trace gives the same bits; the CPU's other levels give
 * nearly the same (fuzz_level); a text's vector does not depend on what is beside it; every block is freed. */
#define INFER_IMPLEMENTATION
#define INFER_NO_GPU
#if defined(__clang__) /* counting every comparison of the kernels takes ten times as long as all the rest */
#  pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function)
#endif
#include "../../src/infer_all.c"
#if defined(__clang__)
#  pragma clang attribute pop
#endif
#include "model_maker.h"

enum { FUZZ_TOKENS = 20, FUZZ_CONTEXT = 48 };

typedef struct fuzz_run {
    maker m;
    fuzz_in in;
    infer_model *model;
    int32_t vocab, width, out; /* out: values of a result's row: logits, or of a model without them hidden states */
    infer_token ids[FUZZ_TOKENS];
    int32_t n;
    float *rows; /* results of all of ids, by the first way */
    fuzz_file files[MAKER_PARTS];
    int finite, kv_type, threads, exact;
    int32_t level;
    struct fuzz_seen *seen; /* what a session's trace fills, or NULL */
} fuzz_run;

static void fuzz_trace(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols);

static void fuzz_failed(infer_result r, const infer_error *e) {
    if (r < 0 && (!e->message[0] || e->code != r)) fuzz_stop("an error without a message");
    if (r < 0 && strlen(e->message) >= sizeof e->message - 1) fuzz_stop("a message that does not end");
}

/* NaN is NaN: its sign and payload are the processor's. */
static int fuzz_same(const float *a, const float *b, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], 4) != 0 && !(a[i] != a[i] && b[i] != b[i])) return 0;
    return 1;
}
static int fuzz_all_finite(const float *a, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++)
        if (!infer__finite(a[i])) return 0;
    return 1;
}

/* ---- sessions ------------------------------------------------------------------------------------------------------- */

static infer_session *fuzz_session(const fuzz_run *f, infer_model *m, int32_t batch, infer_result *r) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = FUZZ_CONTEXT;
    p.own.threads = f->threads;
    p.own.batch = m->hp.n_enc && batch < FUZZ_TOKENS ? FUZZ_TOKENS : batch; /* a source is one pass */
    p.own.keep = 1 + f->n % 5;
    p.own.kv_type = f->kv_type;
    p.own.sessions = m->hp.n_enc ? 8 : 3; /* a source is one */
    p.own.cells = 3 * FUZZ_CONTEXT;
    p.trace = f->seen ? fuzz_trace : NULL;
    p.trace_user = f->seen;
    *r = infer_session_create(&s, m, &p, &e);
    fuzz_failed(*r, &e);
    if ((*r == INFER_OK) != (s != NULL)) fuzz_stop("a session that is none");
    return s;
}

static const float *fuzz_result(infer_session *s, int32_t row) {
    const float *x = infer_session_logits(s, row);
    return x ? x : infer_session_hidden(s, row);
}

/* An encoder beside a decoder reads the tokens first. */
static void fuzz_source(const fuzz_run *f, infer_session *s) {
    infer_result r = s && f->model->hp.n_enc ? infer_session_encode(s, f->ids, f->n) : INFER_OK;
    if (r) fuzz_failed(r, infer_session_error(s));
}

/* The row of the last token must be the first way's row `at`. */
static void fuzz_check(const fuzz_run *f, infer_session *s, int32_t at, const char *how) {
    const float *x = infer_session_logits(s, -1);
    if (!x) fuzz_stop("no logits after an eval");
    if (!fuzz_same(x, f->rows + (size_t)at * (size_t)f->out, f->out)) fuzz_stop(how);
}

static void fuzz_eval(infer_session *s, const infer_token *ids, int32_t n, const char *how) {
    infer_result r = infer_session_eval(s, ids, n);
    if (r == INFER_OK) return;
    fprintf(stderr, "%s: %d %s\n", how, (int)r, infer_session_error(s)->message);
    fuzz_stop("an eval that worked before fails now");
}

typedef struct fuzz_bytes { unsigned char p[1 << 20]; size_t n, at; } fuzz_bytes;
static fuzz_bytes fuzz_saved;
static size_t fuzz_put(void *user, const void *data, size_t n) {
    fuzz_bytes *b = (fuzz_bytes *)user;
    if (n > sizeof b->p - b->n) return 0;
    memcpy(b->p + b->n, data, n);
    b->n += n;
    return n;
}
static size_t fuzz_get(void *user, void *data, size_t n) {
    fuzz_bytes *b = (fuzz_bytes *)user;
    if (n > b->n - b->at) n = b->n - b->at;
    memcpy(data, b->p + b->at, n);
    b->at += n;
    return n;
}

/* One by one, then back, forks, another sequence beside it, save and load. */
static void fuzz_ways(fuzz_run *f, infer_session *s) {
    infer_result r;
    infer_session *t = fuzz_session(f, f->model, 1 + (int32_t)fuzz_below(&f->in, 7), &r), *u = NULL;
    int32_t i, k = (int32_t)fuzz_below(&f->in, (uint32_t)f->n), kept;
    infer_error e;
    if (r == INFER_ERR_MEMORY) return; /* of two the states may be too much */
    if (!t) fuzz_stop("a second session cannot be made");
    fuzz_source(f, t);
    for (i = 0; i < f->n; i++) {
        fuzz_eval(t, f->ids + i, 1, "one by one");
        fuzz_check(f, t, i, "one by one is not as at once");
    }
    if (infer_session_rewind(t, k) != INFER_OK) fuzz_stop("rewind fails");
    fuzz_eval(t, f->ids + k, f->n - k, "after rewind");
    fuzz_check(f, t, f->n - 1, "after rewind it is another result");
    if (infer_session_sync(t, f->ids, k + 1, &kept) != INFER_OK) fuzz_stop("sync fails");
    fuzz_check(f, t, k, "after sync it is another result");
    r = infer_session_fork(&u, t, &e);
    fuzz_failed(r, &e);
    if (r == INFER_OK && k + 1 < f->n) {
        infer_step st[2];
        memset(st, 0, sizeof st);
        st[0].session = t;
        st[1].session = u;
        st[0].tokens = st[1].tokens = f->ids + k + 1;
        st[0].n = f->n - k - 1;
        st[1].n = 1;
        st[0].outputs = st[1].outputs = INFER_OUT_LAST;
        r = infer_eval(t->context, st, 2, &e);
        fuzz_failed(r, &e);
        if (r == INFER_OK) {
            fuzz_check(f, t, f->n - 1, "beside a neighbour it is another result");
            fuzz_check(f, u, k + 1, "in a fork it is another result");
        } else if (r != INFER_CONTEXT_FULL) fuzz_stop("two steps fail");
    }
    infer_session_destroy(u);
    fuzz_saved.n = fuzz_saved.at = 0;
    if (infer_session_save(s, fuzz_put, &fuzz_saved) == INFER_OK) {
        if (infer_session_load(t, fuzz_get, &fuzz_saved) != INFER_OK) fuzz_stop("what was saved cannot be loaded");
        if (infer_session_rewind(t, f->n - 1) != INFER_OK) fuzz_stop("rewind after load fails");
        fuzz_eval(t, f->ids + f->n - 1, 1, "after load");
        fuzz_check(f, t, f->n - 1, "after load it is another result");
    }
    infer_session_destroy(t);
}

/* ---- choices and texts ------------------------------------------------------------------------------------------------ */

static int fuzz_show(void *user, const char *text, size_t n) {
    (void)user;
    (void)text;
    return n == 0;
}

static void fuzz_sample(fuzz_run *f, infer_session *s) {
    static const char *const GRAMMARS[] = { "root ::= [a-z]*", "root ::= \"a\" root | \"b\"", "root ::= .*", "root ::= <think> [^<]* </think>" };
    infer_stage st[8];
    infer_sampler *q = NULL;
    infer_grammar *g = NULL;
    infer_grammar_params gp;
    infer_generate_params p;
    infer_error e;
    infer_token token;
    infer_result r;
    int i, n = (int)fuzz_below(&f->in, 7);
    memset(st, 0, sizeof st);
    memset(&gp, 0, sizeof gp);
    memset(&p, 0, sizeof p);
    for (i = 0; i < n; i++) {
        int32_t kind = 2 + (int32_t)fuzz_below(&f->in, 15);
        if (kind == INFER_STAGE_CUSTOM || infer_sampler_stage(f->model, kind, &st[i], NULL) != INFER_OK) st[i].kind = INFER_STAGE_GREEDY;
        else if (fuzz_below(&f->in, 2)) st[i].p[fuzz_below(&f->in, 4)] = (float)fuzz_byte(&f->in) / 16;
    }
    if (fuzz_below(&f->in, 3) == 2) {
        gp.gbnf = GRAMMARS[fuzz_below(&f->in, 4)];
        r = infer_grammar_create(&g, f->model, &gp, &e);
        fuzz_failed(r, &e);
        if (g) {
            memmove(st + 1, st, sizeof st - sizeof *st);
            memset(st, 0, sizeof *st);
            st[0].kind = INFER_STAGE_GRAMMAR;
            st[0].grammar = g;
            n++;
        }
    }
    r = infer_sampler_create(&q, f->model, st, n, 7, &e);
    fuzz_failed(r, &e);
    if (q) {
        r = infer_session_sample(s, q, -1, &token);
        fuzz_failed(r, infer_session_error(s));
        if (r == INFER_OK && (token < 0 || token >= f->vocab)) fuzz_stop("a sampled token that does not exist");
        p.max_tokens = 6;
        p.text = fuzz_show;
        p.on_full = (int32_t)fuzz_below(&f->in, 2);
        p.keep_first = (int32_t)fuzz_below(&f->in, 20);
        r = infer_generate(s, q, "ab a", &p, NULL);
        fuzz_failed(r, infer_session_error(s));
    }
    infer_sampler_destroy(q);
    if (infer_grammar_destroy(g) != INFER_OK) fuzz_stop("a grammar is in use");
}

static void fuzz_chat(fuzz_run *f, infer_session *s) {
    infer_chat_params c;
    infer_generate_params p;
    infer_chat_parser *reply = NULL;
    infer_result r;
    memset(&c, 0, sizeof c);
    memset(&p, 0, sizeof p);
    c.messages_json = fuzz_below(&f->in, 2) ? "[{\"role\":\"user\",\"content\":\"ab <|im_end|></think>\"}]"
                                       : "[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"\"}]";
    if (fuzz_below(&f->in, 4) == 3) c.tools_json = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]";
    c.allow_chatml = 1;
    c.now = "2024-01-02 03:04:05";
    p.max_tokens = 4;
    r = infer_chat(s, NULL, &c, &p, &reply, NULL);
    fuzz_failed(r, infer_session_error(s));
    infer_chat_parser_destroy(reply);
}

static void fuzz_texts(fuzz_run *f, infer_model *m) {
    static const char *const TEXTS[] = { "", "ab abc", " a  <s>\n\t\xc3\xa9\xff\x80 <0x41>", "<|im_end|>\xe2\x96\x81the\xf0\x9f\x98\x80" };
    infer_token ids[64], one;
    char text[512], *long_text;
    size_t i, n, len;
    infer_error e;
    infer_meta v;
    infer_result r;
    for (i = 0; i < 4; i++) {
        r = infer_tokenize(m, TEXTS[i], strlen(TEXTS[i]), (int32_t)(i & 3), ids, 64, &n, &e);
        fuzz_failed(r, &e);
        if (r) continue;
        r = infer_detokenize(m, ids, n < 64 ? n : 64, INFER_TEXT_WRITE_SPECIAL, text, sizeof text, &len, &e);
        fuzz_failed(r, &e);
    }
    for (one = -1; one < 400; one++) infer_token_text(m, one, text, sizeof text, &len), infer_token_flags(m, one);
    for (i = 0; (int32_t)i < infer_meta_count(m); i++) {
        infer_meta_value(m, infer_meta_key(m, (int32_t)i), &v);
        if (v.kind == INFER_META_ARRAY) infer_meta_element(m, infer_meta_key(m, (int32_t)i), v.n - 1, &v);
    }
    infer_model_describe(m, NULL, 0, &len);
    long_text = (char *)malloc(len + 1);
    if (long_text && (infer_model_describe(m, long_text, len + 1, &n) != INFER_OK || n != len || strlen(long_text) != len)) fuzz_stop("describe");
    free(long_text);
    (void)f;
}

/* ---- a model -------------------------------------------------------------------------------------------------------------- */

static infer_model *fuzz_open(fuzz_heap *heap, long fail_at, fuzz_run *f, int32_t level, uint64_t max_memory, infer_result *r) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    infer_io io[MAKER_PARTS];
    int i;
    memset(&p, 0, sizeof p);
    memset(io, 0, sizeof io);
    p.backend = INFER_CPU;
    p.cpu_level = level;
    p.exact = f->exact;
    p.no_mmap = 1;
    p.max_memory = max_memory;
    p.allow_default_pre = 1;
    p.allocator = fuzz_allocator(heap);
    heap->fail_at = fail_at;
    for (i = 0; i < f->m.parts; i++) {
        io[i].user = &f->files[i];
        io[i].read = fuzz_read;
        io[i].size = f->files[i].n;
    }
    *r = infer_model_open_io(&m, io, f->m.parts, &p, &e);
    fuzz_failed(*r, &e);
    if ((*r == INFER_OK) != (m != NULL)) fuzz_stop("a model that is none");
    if (!m && heap->live) fuzz_stop("memory is left after an open that failed");
    return m;
}

static void fuzz_close(infer_model *m, fuzz_heap *heap) {
    if (infer_model_close(m) != INFER_OK) fuzz_stop("the model is in use");
    if (heap->live) fuzz_stop("memory is left");
}

/* A row of embeddings instead of tokens, all results. */
static void fuzz_embeddings(fuzz_run *f, infer_session *s) {
    float x[2 * 256];
    infer_step st;
    infer_error e;
    infer_result r;
    int32_t i;
    if (f->width > 256) return;
    for (i = 0; i < 2 * f->width; i++) x[i] = (float)(i % 7) - 3;
    memset(&st, 0, sizeof st);
    st.session = s;
    st.embeddings = x;
    st.n = 2;
    st.outputs = (int32_t)fuzz_below(&f->in, 8);
    r = infer_eval(s->context, &st, 1, &e);
    fuzz_failed(r, &e);
    r = infer_session_embedding(s, x, &e);
    fuzz_failed(r, &e);
}

/* Vectors of the tokens twice with others between them, then alone; texts as they come. */
static void fuzz_embed(fuzz_run *f, infer_context *c) {
    static const char *const texts[] = { "ab abc", "", " a <s>\xc3\xa9\xff", "a" };
    const infer_token *ids[3];
    size_t n_ids[3];
    infer_result results[4], r;
    infer_embed_params p;
    infer_error e;
    float *v, *w;
    int32_t width, i;
    if (f->n < 1) return;
    memset(&p, 0, sizeof p);
    p.pooling = (infer_pooling)fuzz_below(&f->in, 6);
    p.normalize = (int32_t)fuzz_below(&f->in, 4) - 1;
    p.long_texts = (int32_t)fuzz_below(&f->in, 3);
    p.dimensions = fuzz_below(&f->in, 4) == 3 ? 1 + (int32_t)fuzz_below(&f->in, 9) : 0;
    if (fuzz_below(&f->in, 4) == 3) p.prefix = "b ";
    if (p.pooling == INFER_POOL_NONE) p.pooling = INFER_POOL_MEAN;
    width = infer_embed_width(c->model, &p);
    v = (float *)calloc(4 * ((size_t)width + (size_t)c->model->hp.n_labels + 1), sizeof *v);
    w = (float *)calloc((size_t)width + 1, sizeof *w);
    if (!v || !w) fuzz_stop("memory");
    for (i = 0; i < 3; i++) {
        ids[i] = f->ids;
        n_ids[i] = (size_t)(i == 1 ? 1 + fuzz_below(&f->in, (uint32_t)f->n) : (uint32_t)f->n);
    }
    p.ids = ids;
    p.n_ids = n_ids;
    p.results = results;
    r = infer_embed(c, NULL, 3, &p, v, &e);
    fuzz_failed(r, &e);
    if (r == INFER_OK && results[0] == INFER_OK) {
        if (!width) fuzz_stop("vectors without a width");
        if (!fuzz_same(v, v + 2 * width, width)) fuzz_stop("the same tokens twice are two vectors");
        r = infer_embed(c, NULL, 1, &p, w, &e);
        fuzz_failed(r, &e);
        if (r ? r != INFER_ERR_MEMORY : results[0] ? results[0] != INFER_ERR_MEMORY : !fuzz_same(v, w, width))
            fuzz_stop("alone it is another vector");
    }
    p.ids = NULL;
    p.n_ids = NULL;
    r = infer_embed(c, texts, 4, &p, v, &e);
    fuzz_failed(r, &e);
    p.results = NULL;
    r = infer_classify(c, texts, 4, &p, v, &e);
    fuzz_failed(r, &e);
    r = infer_rerank(c, "b", texts, 4, &p, v, &e);
    fuzz_failed(r, &e);
    p.pair = "{query} {document} {instruction}";
    r = infer_rerank(c, "b", texts, 4, &p, v, &e);
    fuzz_failed(r, &e);
    free(v);
    free(w);
}

/* The first way: all at once, all results. 1 when it worked. */
static int fuzz_first(fuzz_run *f, infer_session *s) {
    infer_step st;
    infer_error e;
    infer_result r;
    int32_t i;
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = f->ids;
    st.n = f->n;
    st.outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
    r = infer_eval(s->context, &st, 1, &e);
    fuzz_failed(r, &e);
    if (r) return 0;
    f->finite = 1;
    for (i = 0; i < f->n; i++) {
        const float *x = fuzz_result(s, i);
        if (!x) fuzz_stop("no results of a row");
        memcpy(f->rows + (size_t)i * (size_t)f->out, x, (size_t)f->out * sizeof *x);
        f->finite &= fuzz_all_finite(x, f->out);
    }
    return 1;
}

/* ---- other levels of the CPU ------------------------------------------------------------------------------------------ */

/* Levels differ by fused multiply-add only: in last bits. But where activations or the cache are quantised, a last bit is a whole
 * step now and then, and a small model with large weights makes anything out of a step (corpus_arch/cache-rounding: 5e-14 behind
 * layer 0, 0.016 in the logits). How far the exact result is says little: one step more or less can be all of the error
 * (corpus_arch/activation-rounding: 2e-5 and 1e-4). So levels that differ are measured by what last bits do to one of
 * them: it computes again with all values that a trace sees changed by so little, and must come about as far. Half of
 * the tries change more: no trace sees scores, of which large ones make much of a last bit. */
static const double FUZZ_NMSE = 1e-6, FUZZ_TIMES = 4; /* seen without a step: 1e-9 */
/* One value whose code of 8 bits is the next one, of the 32 of a block or of a row that is shorter: (2.5 / 127)^2 / n
 * of a row whose largest is 2.5 times the usual one, and as many of those as a model has matrices (corpus_arch/activation-steps:
 * 3.2e-4 of a row of 10, six times one; where a norm behind a matrix makes more of it, 2.7e-3 was seen). None of the tries that change last bits need meet the value that lies between. What
 * passes here must agree without steps: fuzz_level looks again with exact products and an F32 cache. */
static double fuzz_step(int32_t width) { return 5e-2 / (width < 32 ? width : 32); }
enum { FUZZ_ROCKS = 48 };

/* Layer 0 as far as no expert is chosen, where little is made of a step, and the logits of the last token. */
typedef struct fuzz_seen {
    const char *step;
    uint32_t rock; /* not 0: seed of what changes last bits */
    float bits;    /* by so much of a value */
    size_t n[2];
    float x[2][FUZZ_TOKENS * 256];
} fuzz_seen;

static void fuzz_see(fuzz_seen *seen, int which, const float *x, size_t n) {
    if (n > FUZZ_TOKENS * 256 - seen->n[which]) n = 0; /* a model with a slip, which is not compared */
    memcpy(seen->x[which] + seen->n[which], x, n * sizeof *x);
    seen->n[which] += n;
}
static void fuzz_trace(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols) {
    fuzz_seen *seen = (fuzz_seen *)user;
    float *y = (float *)x; /* on the CPU a trace sees what the next step reads */
    size_t i;
    for (i = 0; i < rows * cols && seen->rock; i++) {
        seen->rock = seen->rock * 1664525u + 1013904223u;
        y[i] *= 1.0f + (float)((int32_t)(seen->rock >> 16) - 0x8000) / 0x8000 * seen->bits;
    }
    if (layer == 0 && strcmp(step, seen->step) == 0) fuzz_see(seen, 0, x, rows * cols);
}

static int fuzz_look(const fuzz_run *f, int32_t level, uint32_t rock, fuzz_seen *seen) {
    static fuzz_run g;
    fuzz_heap heap;
    infer_result r;
    infer_model *m;
    infer_session *s;
    infer_step st;
    const float *x = NULL;
    g = *f;
    g.seen = seen;
    seen->rock = rock;
    seen->bits = 1.0f / (rock > FUZZ_ROCKS / 2 ? 1 << 17 : 1 << 21);
    seen->step = f->m.moe ? "attn_out" : "out";
    seen->n[0] = seen->n[1] = 0;
    m = fuzz_open(&heap, 0, &g, level, 0, &r);
    s = m ? fuzz_session(&g, m, m->hp.not_causal ? FUZZ_TOKENS : 5, &r) : NULL;
    if (!s) fuzz_stop("another level opens no session");
    g.model = m;
    fuzz_source(&g, s);
    seen->n[0] = 0; /* layer 0 is the encoder's, and the decoder's too */
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = f->ids;
    st.n = f->n;
    st.outputs = INFER_OUT_LAST | (m->hp.encoder ? INFER_OUT_HIDDEN : 0);
    if (infer_eval(s->context, &st, 1, NULL) == INFER_OK) x = fuzz_result(s, -1);
    else if (f->finite && !rock) fuzz_stop("another level cannot evaluate");
    if (x) fuzz_see(seen, 1, x, (size_t)f->out);
    infer_session_destroy(s);
    fuzz_close(m, &heap);
    return x != NULL;
}

static double fuzz_nmse(const fuzz_seen *a, const fuzz_seen *right, int which) {
    const float *x = a->x[which], *y = right->x[which];
    double e = 0, sum = 0;
    size_t i;
    for (i = 0; i < right->n[which]; i++) {
        e += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        sum += (double)y[i] * y[i];
    }
    return e == 0 ? 0 : e / sum;
}

/* 1: the levels agree without a closer look; 2: as far as last bits go. */
static int fuzz_agree(const fuzz_run *f, int32_t level, const fuzz_seen *ours, const fuzz_seen *theirs, int which) {
    static fuzz_seen rocked;
    double e = fuzz_nmse(theirs, ours, which), most = 0, far = 0;
    uint32_t i;
    for (i = 0; i < ours->n[which]; i++)
        if (fabs(ours->x[which][i]) > most) most = fabs(ours->x[which][i]);
    if (most <= 0.05 || e <= FUZZ_NMSE) return 1; /* what is left of values that cancel says nothing */
    for (i = 1; i <= FUZZ_ROCKS; i++) {
        double d;
        if (!fuzz_look(f, f->level, i, &rocked)) return 2; /* a last bit makes it infinite */
        d = fuzz_nmse(&rocked, ours, which);
        if (d > far) far = d;
        if (e <= FUZZ_TIMES * far) return 2;
    }
    if (!f->exact && e <= fuzz_step(f->width)) return 2;
    fprintf(stderr, "%s, level %d beside %d: NMSE %g, and %g when last bits change; cache %d, exact %d\n",
            which ? "logits" : "layer 0", (int)level, (int)f->level, e, far, f->kv_type, f->exact);
    fuzz_stop("another level of the CPU gives another result");
    return 0;
}

static void fuzz_level(const fuzz_run *f, int32_t level) {
    static fuzz_seen ours, theirs;
    int last = f->m.moe ? 0 : 1, which, how = 1; /* a last bit may choose another expert */
    if (!fuzz_look(f, level, 0, &theirs) || !f->finite || f->m.odd || f->width < 6) return;
    fuzz_look(f, f->level, 0, &ours);
    if (f->rows && !fuzz_same(ours.x[1], f->rows + (size_t)(f->n - 1) * (size_t)f->out, f->out)) fuzz_stop("with a trace it is another result");
    for (which = 0; which <= last; which++)
        if (fuzz_agree(f, level, &ours, &theirs, which) == 2) how = 2;
    if (how == 2 && (!f->exact || f->kv_type != INFER_KV_F32)) { /* what steps may hide */
        fuzz_run g = *f;
        g.exact = 1;
        g.kv_type = INFER_KV_F32;
        g.rows = NULL;
        fuzz_level(&g, level);
    }
}

static void fuzz_model(fuzz_run *f) {
    infer_result r;
    infer_session *s = fuzz_session(f, f->model, 4 + (int32_t)fuzz_below(&f->in, 30), &r);
    infer_model_info info;
    infer_memory memory;
    infer_error e;
    int32_t i;
    infer_model_get_info(f->model, &info);
    f->vocab = info.vocab;
    f->width = info.width;
    f->out = f->model->hp.encoder ? f->width : f->vocab;
    r = infer_model_memory(f->model, NULL, &memory, &e);
    fuzz_failed(r, &e);
    if (!s) return;
    f->n = 1 + (int32_t)fuzz_below(&f->in, FUZZ_TOKENS);
    if (info.context < f->n) f->n = info.context;
    for (i = 0; i < f->n; i++) f->ids[i] = (infer_token)(fuzz_byte(&f->in) % (uint32_t)f->vocab);
    fuzz_source(f, s);
    f->rows = (float *)malloc((size_t)f->n * (size_t)f->out * sizeof *f->rows);
    if (f->rows && fuzz_first(f, s)) {
        if (!f->model->hp.not_causal) fuzz_ways(f, s); /* in pieces it is another result */
        fuzz_level(f, f->level == INFER_CPU_SCALAR ? INFER_CPU_BEST : INFER_CPU_SCALAR);
        if (f->model->hp.encoder || fuzz_below(&f->in, 4) == 3) fuzz_embed(f, s->context);
        if (!f->model->hp.encoder) {
            fuzz_sample(f, s);
            if (fuzz_below(&f->in, 4) == 3) fuzz_chat(f, s);
        }
        if (fuzz_below(&f->in, 4) == 3) fuzz_embeddings(f, s);
        infer_session_rewind(s, 0);
    }
    free(f->rows);
    infer_session_destroy(s);
}

/* One allocation fails, anywhere: every call may fail then, and nothing may be lost. */
static void fuzz_short_of_memory(fuzz_run *f) {
    fuzz_heap heap;
    infer_result r;
    infer_model *m = fuzz_open(&heap, 1 + (long)fuzz_word(&f->in) % 400, f, f->level, 0, &r);
    infer_session *s = m ? fuzz_session(f, m, 5, &r) : NULL, *t = NULL;
    infer_model_info info;
    infer_error e;
    int32_t i;
    if (s) {
        infer_model_get_info(m, &info);
        for (i = 0; i < 8; i++) f->ids[i] = i % info.vocab;
        f->model = m;
        f->vocab = info.vocab;
        f->width = info.width;
        f->n = info.context < 8 ? info.context : 8;
        fuzz_source(f, s);
        r = infer_session_eval(s, f->ids, info.context < 8 ? info.context : 8);
        if (r != INFER_OK && infer_session_position(s) != 0) fuzz_stop("an eval that failed has left tokens");
        r = infer_session_fork(&t, s, &e);
        fuzz_failed(r, &e);
        fuzz_saved.n = fuzz_saved.at = 0;
        if (t && infer_session_save(s, fuzz_put, &fuzz_saved) == INFER_OK) infer_session_load(t, fuzz_get, &fuzz_saved);
        infer_session_destroy(t);
        if (infer_session_position(s) > 0 && infer_session_logits(s, -1)) fuzz_sample(f, s);
        fuzz_chat(f, s);
        fuzz_embeddings(f, s);
        fuzz_embed(f, s->context);
    }
    infer_session_destroy(s);
    if (m) fuzz_close(m, &heap);
}

/* Once: of every architecture the maker builds models that can be computed, or little is tried here. */
static void fuzz_maker(void) {
    static int done;
    uint32_t row, number;
    if (done) return;
    done = 1;
    for (row = 0; row < MAKER_ARCHS; row++) {
        maker mk;
        infer_model *m;
        number = 0;
        m = maker_computed(&mk, row, &number, 100, SIZE_MAX);
        if (m) {
            infer_model_close(m);
            maker_free(&mk);
        } else if (strcmp(INFER__ARCHS[row].name, "grovemoe")) { /* its groups of experts are not built */
            fprintf(stderr, "fuzz: %s\n", INFER__ARCHS[row].name);
            fuzz_stop("the maker builds no model of it");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fuzz_run f;
    fuzz_heap heap;
    infer_result r;
    size_t n;
    int i;
    fuzz_maker();
    memset(&f, 0, sizeof f);
    maker_init(&f.m, data, size);
    maker_file(&f.m, &n);
    for (i = 0; i < f.m.parts; i++) {
        f.files[i].p = f.m.part[i];
        f.files[i].n = f.m.part_n[i];
    }
    f.in = f.m.in;
    f.kv_type = (int)fuzz_below(&f.in, 6);
    f.threads = fuzz_below(&f.in, 16) == 15 ? 2 : 1;
    f.exact = fuzz_below(&f.in, 4) == 3;
    if (fuzz_below(&f.in, 16) == 15) f.files[0].fail_at = 1 + (long)fuzz_below(&f.in, 40);
    f.level = INFER_CPU_SCALAR + (int32_t)fuzz_below(&f.in, 7); /* what a CPU lacks is not used */
    f.model = fuzz_open(&heap, 0, &f, f.level, (uint64_t)64 << 20, &r);
    f.files[0].fail_at = 0;
#ifdef FUZZ_TELL /* for work on the maker: half of the models should open */
    fprintf(stderr, "%s odd %d: %s\n", f.m.a->name, f.m.odd, r ? "not opened" : infer_model_why_not(f.model));
#endif
    if (f.model) {
        fuzz_texts(&f, f.model);
        fuzz_model(&f);
        fuzz_close(f.model, &heap);
        if (fuzz_below(&f.in, 8) == 7) fuzz_short_of_memory(&f);
    }
    maker_free(&f.m);
    return 0;
}
