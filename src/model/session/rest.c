/* rest.c: layers elsewhere: passes whose layers are cut over several models of one file, in this process or on other
 * machines (section 22 of the manual).
 *
 * How:   the model with layer 0 has all sessions. Its passes go on as a message (ids, positions, page tables, cells)
 *        and rows (the residual stream and what layers carry beside it). The others have pages and cells of their
 *        layers by the same numbers, so what sessions do needs no messages, but for pages that are copied or saved.
 * Rules: weights that are not of the range are forgotten once bound: then they are not there, for all parts. A message
 *        that does not fit the context is refused and touches nothing; rows are trusted.
 * Start: infer__rest_give, infer__context_rows.
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static infer_result infer__range_check(infer_model *m, infer_error *err) {
    const int32_t all = m->hp.n_layer, first = m->params.first_layer, n = m->params.layers;
    const infer_result r = infer__parts_check(m, err);
    int32_t unit = 0, cut; /* unit: the first layer whose keys later ones read; they all stay together */
    while (unit < all && !m->layers[unit].kv_read) unit++;
    m->first = 0;
    m->end = all;
    if (r || m->stack.kind || (!first && !n && m->parts == 1)) return r;
    if (!INFER__HAS_RANGES) return infer__left_out(err, "models of some layers", "INFER_NO_RANGES");
    if (first < 0 || n < 0 || first >= all || n > all - first)
        return infer__error(err, INFER_ERR_ARGUMENT, "first_layer %d, layers %d: the model has %d", (int)first, (int)n,
                            (int)all);
    m->first = first;
    m->end = n ? first + n : all;
    if (!infer__ranged(m)) return INFER_OK;
    if (m->params.mtp || m->params.preload == 2)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "%s, with layers elsewhere",
                            m->params.mtp ? "mtp" : "preload 2 (locks files)");
    if (m->params.projector && (infer__follows(m) || m->end < m->hp.n_deepstack))
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            infer__follows(m) ? "a projector belongs to the model with layer 0"
                                     : "pictures go to layers 0 to %d: these cannot be elsewhere",
                            (int)m->hp.n_deepstack - 1);
    cut = m->first > unit ? m->first : m->end;
    if (cut <= unit || cut == all) return INFER_OK;
    return infer__error(err, INFER_ERR_UNSUPPORTED,
                        "layers %d to %d share keys and values: they cannot be cut before layer %d", (int)unit,
                        (int)all - 1, (int)cut);
}

/* 1 when a weight of the model's own is read by its layers. */
static int infer__range_slot(const infer_model *m, int32_t slot) {
    if (slot >= INFER__W_ROPE_FREQS) return 1;
    if (slot == INFER__W_PER_LAYER_EMBD && m->hp.ngrams.size) return infer__here(m, m->hp.ngrams.layer);
    if (slot == INFER__W_ALTUP_UNEMBD || slot == INFER__W_OUT_RES_SCORE ||
        (slot >= INFER__W_OUT_HYPER && slot <= INFER__W_OUT_HYPER_UP)) /* of the last layer */
        return m->end == m->hp.n_layer;
    return m->first == 0;
}

static infer_result infer__range_drop(infer_model *m, infer_error *err) {
    uint8_t *seen = (uint8_t *)infer__calloc(&m->mem, (uint64_t)m->gguf.n_tensors, 1);
    infer__weight *w;
    int32_t i;
    if (!seen) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d tensors", (int)m->gguf.n_tensors);
    /* a mapped file's metadata are mapped as well */
    m->range_bytes = m->gguf.sources[0].io.mapped ? m->gguf.file_bytes - m->gguf.tensor_bytes : 0;
    for (i = 0; (w = infer__weights_all(m, i)) != NULL; i++) {
        const int here = i < INFER__MODEL_SLOT_COUNT
                             ? infer__range_slot(m, i) && infer__parts_slot(m, i)
                             : infer__here(m, (i - INFER__MODEL_SLOT_COUNT) / INFER__LAYER_SLOT_COUNT);
        if (!here) w->type = NULL;
    }
    infer__parts_cut(m);
    for (i = 0; (w = infer__weights_all(m, i)) != NULL; i++) {
        if (!w->type || !w->tensor || seen[w->tensor - 1]) continue;
        seen[w->tensor - 1] = 1;
        m->range_bytes += infer__gguf_needed(&m->gguf.tensors[w->tensor - 1]);
    }
    infer__free(&m->mem, seen);
    if (!infer__follows(m) && !m->sizes_only) m->has_turn = infer__mutex_init(&m->turn);
    return INFER_OK;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

enum { /* words of a message; the last ones depend on its kind */
    INFER__MSG_MAGIC, INFER__MSG_KIND, INFER__MSG_CONTEXT, INFER__MSG_CONTEXT_2, INFER__MSG_PRINT, INFER__MSG_PRINT_2,
    INFER__MSG_KV, INFER__MSG_CELLS, INFER__MSG_BATCH, INFER__MSG_KEEP, INFER__MSG_SESSIONS,
    INFER__MSG_COLS, /* floats a row that come along */
    INFER__MSG_PARTS, INFER__MSG_LEAST, INFER__MSG_LEAST_2, /* of the first layers; */
    INFER__MSG_NUMBER, INFER__MSG_NUMBER_2,                 /* of a pass, in layers after them; 0 = not there */
    INFER__MSG_ARGS,
    INFER__MSG_ROWS = INFER__MSG_ARGS, INFER__MSG_SEQS, INFER__MSG_OUT, INFER__MSG_ENCODES, INFER__MSG_FLAGS,
    INFER__MSG_WORDS
};
enum { /* kinds */
    INFER__MSG_PASS, INFER__MSG_COPY, INFER__MSG_OUT_OF, INFER__MSG_INTO, INFER__MSG_LAST, INFER__MSG_HEAD,
    INFER__MSG_KINDS
};
enum { INFER__MSG_HAS_END = 1, INFER__MSG_HAS_AXES = 2 };                                        /* flags */
enum { INFER__MSG_VERSION = 0x1f4d0002 };

static int64_t infer__rest_cols(const infer__plan *p, const infer_model *m) { return m->hp.n_embd + p->carried; }

/* Floats of the buffer for rows: of a pass, or of a page. */
static uint64_t infer__rest_floats(const infer__plan *p, const infer_model *m) {
    uint64_t most = (uint64_t)p->batch * (uint64_t)infer__rest_cols(p, m);
    int32_t i;
    for (i = 0; i < m->n_states; i++)
        if (!infer__state_here(m, i) || m->parts > 1)
            most = INFER__MAX(most, infer__page_bytes(p->kv_type, &m->states[i]) / 4 + 1);
    return most;
}

static uint64_t infer__rest_bytes(infer__plan *p, const infer_model *m) {
    p->rest_floats = infer__rest_floats(p, m);
    if (infer__follows(m) || !infer__ranged(m)) return 0;
    return sizeof(int32_t) *
           (p->rest_floats + INFER__MSG_WORDS + p->block_len + 2 * INFER__CACHE_GROUPS * (uint64_t)p->n_seq);
}

static infer_result infer__rest_check(const infer_model *m, const infer_context_params *in, infer_error *err) {
    if (!infer__ranged(m)) return INFER_OK;
    if (in && in->inputs)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "context_params.inputs, with layers elsewhere");
    if (!infer__follows(m) && m->end < m->hp.n_layer && !(in && in->rest))
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "context_params.rest is NULL: layers %d to %d are elsewhere, and it runs them",
                            (int)m->end, (int)m->hp.n_layer - 1);
    return infer__parts_context(m, in, err);
}

/* What both contexts must agree on, and the kind; args: 0. */
static void infer__msg_header(const infer_context *c, int32_t kind, int32_t *w) {
    memset(w, 0, INFER__MSG_WORDS * sizeof *w);
    w[INFER__MSG_MAGIC] = INFER__MSG_VERSION;
    w[INFER__MSG_KIND] = kind;
    memcpy(w + INFER__MSG_CONTEXT, &c->number, sizeof c->number);
    memcpy(w + INFER__MSG_PRINT, &c->model->weights_print, sizeof c->model->weights_print);
    w[INFER__MSG_KV] = c->plan.kv_type;
    w[INFER__MSG_CELLS] = c->plan.cells;
    w[INFER__MSG_BATCH] = c->plan.batch;
    w[INFER__MSG_KEEP] = c->plan.keep;
    w[INFER__MSG_SESSIONS] = c->plan.sessions;
    w[INFER__MSG_COLS] = (int32_t)infer__rest_cols(&c->plan, c->model);
    w[INFER__MSG_PARTS] = c->model->parts;
    memcpy(w + INFER__MSG_LEAST, &c->model->part_least, sizeof c->model->part_least);
}

/* ---- the side with the sessions ---------------------------------------------------------------------------------- */

/* The message, after the rows: of a context that gives some (rest_bytes). */
static int32_t *infer__rest_words(const infer_context *c) {
    return (int32_t *)(void *)(c->rows + c->plan.rest_floats);
}

static void infer__turn_take(infer_context *c) {
    if (!INFER__HAS_RANGES || !c->plan.rest_bytes || !c->model->has_turn) return;
    infer__mutex_lock(&c->model->turn);
    c->in_turn = 1;
}

static void infer__turn_give(infer_context *c) {
    if (INFER__HAS_RANGES && c->in_turn) infer__mutex_unlock(&c->model->turn);
    c->in_turn = 0;
}

static void infer__rest_call(infer_context *c, uint64_t words, uint64_t n, uint64_t back) {
    const int32_t in_turn = c->in_turn;
    infer_error e;
    infer_result r;
    if (!c->rest) return;
    infer__error_clear(&e);
    infer__turn_give(c);
    r = c->rest(c->rest_user, infer__rest_words(c), (size_t)words * sizeof(int32_t), c->rows, (size_t)n, (size_t)back,
                &e);
    if (in_turn) infer__turn_take(c);
    if (r) infer__fail(&c->ctx, r, "%s", e.message[0] ? e.message : "the layers elsewhere failed");
}

/* To the other parts: in turn, so that all of them do the same in the same order. */
static void infer__share_out(infer_context *c, uint64_t words, uint64_t n) {
    infer_error e;
    infer_result r;
    if (!c->share || !infer__ok(&c->ctx)) return;
    infer__error_clear(&e);
    r = c->share(c->parts_user, infer__rest_words(c), (size_t)words * sizeof(int32_t), c->rows, (size_t)n, &e);
    if (r) infer__fail(&c->ctx, r, "%s", e.message[0] ? e.message : "the other parts failed");
}

static void infer__rest_end(infer_context *c) {
    infer__error_clear(&c->ctx.error);
    infer__msg_header(c, INFER__MSG_LAST, infer__rest_words(c));
    infer__share_out(c, INFER__MSG_WORDS, 0);
    infer__rest_call(c, INFER__MSG_WORDS, 0, 0);
}

static void infer__rest_copy(infer_context *c, int32_t group, int32_t to, int32_t from) {
    int32_t *w = infer__rest_words(c);
    infer__msg_header(c, INFER__MSG_COPY, w);
    w[INFER__MSG_ARGS] = group;
    w[INFER__MSG_ARGS + 1] = to;
    w[INFER__MSG_ARGS + 2] = from;
    infer__share_out(c, INFER__MSG_WORDS, 0);
    if (infer__ok(&c->ctx)) infer__rest_call(c, INFER__MSG_WORDS, 0, 0);
}

static void infer__rest_move(infer_context *c, int32_t state, int32_t page, char *data, int out) {
    const uint64_t bytes = infer__page_bytes(c->plan.kv_type, &c->model->states[state]), n = (bytes + 3) / 4;
    int32_t *w = infer__rest_words(c);
    if (!infer__ok(&c->ctx)) return;
    infer__msg_header(c, out ? INFER__MSG_OUT_OF : INFER__MSG_INTO, w);
    w[INFER__MSG_ARGS] = state;
    w[INFER__MSG_ARGS + 1] = page;
    if (!out) {
        memcpy(c->rows, data, (size_t)bytes);
        infer__share_out(c, INFER__MSG_WORDS, n); /* which have it, too */
        if (!infer__ok(&c->ctx)) return;
    }
    if (infer__state_here(c->model, state)) return;
    infer__rest_call(c, INFER__MSG_WORDS, out ? 0 : n, out ? n : 0);
    if (out && infer__ok(&c->ctx)) memcpy(data, c->rows, (size_t)bytes);
}

static int32_t *infer__put_ints(int32_t *to, const int32_t *from, int64_t n) {
    if (n) memcpy(to, from, (size_t)n * sizeof *to);
    return to + n;
}

/* A sequence's table: the run of pages up to position `end`, those before that a window has dropped left out. */
static int32_t *infer__put_pages(int32_t *to, const int32_t *pages, int32_t end) {
    const int32_t n = (end + INFER__PAGE - 1) / INFER__PAGE;
    int32_t first = 0;
    while (first < n && pages[first] < 0) first++;
    to[0] = first;
    to[1] = n - first;
    return infer__put_ints(to + 2, pages + first, n - first);
}

/* The message of the pass; returns its end. */
static int32_t *infer__put_pass(const infer_context *c, int32_t *w) {
    const infer__pass *p = &c->ctx.pass;
    const int64_t n = p->n_rows;
    int32_t *at = w + INFER__MSG_WORDS, q, g, r, k;
    infer__msg_header(c, INFER__MSG_PASS, w);
    w[INFER__MSG_ROWS] = p->n_rows;
    w[INFER__MSG_SEQS] = p->n_seq;
    w[INFER__MSG_OUT] = p->n_out;
    w[INFER__MSG_ENCODES] = c->encodes;
    w[INFER__MSG_FLAGS] = (p->end ? INFER__MSG_HAS_END : 0) | (p->axis[0] ? INFER__MSG_HAS_AXES : 0);
    at = infer__put_ints(at, p->ids, n);
    at = infer__put_ints(at, p->pos, n);
    at = infer__put_ints(at, p->seq, n);
    at = infer__put_ints(at, p->out, p->n_out);
    if (p->end) at = infer__put_ints(at, p->end, n);
    for (k = 0; p->axis[0] && k < INFER__AXES; k++) at = infer__put_ints(at, p->axis[k], n);
    if (c->model->hp.ngrams.size) at = infer__put_ints(at, p->looked, n * p->looks);
    at = infer__put_ints(at, p->extended, p->n_seq);
    if (p->source) at = infer__put_ints(at, p->source, p->n_seq);
    if (p->cell_in) at = infer__put_ints(at, p->cell_in, p->n_seq);
    if (p->cell_in) at = infer__put_ints(at, p->cell_out, p->n_seq);
    for (q = r = 0; q < p->n_seq; q++) {
        while (r < n && p->seq[r] == q) r++; /* a sequence's rows follow each other */
        for (g = 0; g < INFER__CACHE_GROUPS; g++) {
            const int source = g == 1 && p->source;
            if (c->plan.n_pages[g] || source)
                at = infer__put_pages(at, p->pages[g] + (int64_t)q * p->max_pages,
                                      source ? p->source[q] : p->pos[r - 1] + 1);
        }
    }
    return at;
}

/* The stream of n rows and what they carry, here: to c->rows, or from there. */
static void infer__rest_rows(infer_context *c, int32_t n, int out) {
    const infer__ops *ops = infer__ops_of(&c->ctx);
    const uint64_t x = (uint64_t)n * (uint64_t)c->model->hp.n_embd, kept = (uint64_t)n * (uint64_t)c->plan.carried;
    const uint64_t at = (uint64_t)n * (uint64_t)(c->plan.work_cols - c->plan.pass_kept), each = sizeof(float);
    if (out) {
        ops->download(&c->ctx, &c->at->x, 0, c->rows, x * each);
        if (kept) ops->download(&c->ctx, &c->at->work, at * each, c->rows + x, kept * each);
        ops->sync(&c->ctx);
    } else {
        ops->upload(&c->ctx, &c->at->x, 0, c->rows, x * each);
        if (kept) ops->upload(&c->ctx, &c->at->work, at * each, c->rows + x, kept * each);
    }
}

static void infer__share_pass(infer_context *c, int32_t n) {
    const uint64_t cols = (uint64_t)infer__rest_cols(&c->plan, c->model);
    int32_t *w;
    if (!c->share) return;
    w = infer__rest_words(c);
    infer__rest_rows(c, n, 1);
    infer__share_out(c, (uint64_t)(infer__put_pass(c, w) - w), (uint64_t)n * cols);
}

static void infer__share_head(infer_context *c, const infer__tensor *x) {
    int32_t *w, i;
    if (!c->share || !infer__ok(&c->ctx)) return;
    w = infer__rest_words(c);
    infer__msg_header(c, INFER__MSG_HEAD, w);
    w[INFER__MSG_ROWS] = x->rows;
    for (i = 0; i < x->rows; i++)
        memcpy(c->rows + (int64_t)i * x->cols, infer__row(x, i), (size_t)x->cols * sizeof(float));
    infer__share_out(c, INFER__MSG_WORDS, (uint64_t)x->rows * (uint64_t)x->cols);
}

static void infer__rest_give(infer_context *c, int32_t n) {
    const uint64_t back = (uint64_t)c->ctx.pass.n_out * (uint64_t)c->model->hp.n_embd;
    int32_t *w, *end;
    infer__rest_rows(c, n, 1);
    if (infer__follows(c->model) || !infer__ok(&c->ctx)) return;
    w = infer__rest_words(c);
    end = infer__put_pass(c, w);
    c->model->n_given++; /* in turn */
    memcpy(w + INFER__MSG_NUMBER, &c->model->n_given, sizeof c->model->n_given);
    infer__rest_call(c, (uint64_t)(end - w), (uint64_t)n * (uint64_t)infer__rest_cols(&c->plan, c->model), back);
    if (!back || !infer__ok(&c->ctx)) return;
    if (c->checking && !c->ctx.kernels->finite(c->rows, (int32_t)back))
        infer__fail(&c->ctx, INFER_ERR_STATE, "the layers from %d on, elsewhere, give values that are not finite",
                    (int)c->model->end);
    infer__enter(c, infer__head_place(c->model));
    infer__ops_of(&c->ctx)->upload(&c->ctx, &c->at->xn, 0, c->rows, back * sizeof(float));
}

/* ---- the other side ---------------------------------------------------------------------------------------------- */

/* Words of a message that are left; bad: there were too few, or one is out of range. */
typedef struct infer__words { const char *p; size_t n; int bad; } infer__words;

/* The next n to `to`, each in lo .. hi. */
static void infer__get_ints(infer__words *in, int32_t *to, int64_t n, int64_t lo, int64_t hi) {
    int64_t i;
    if (in->bad || n < 0 || (uint64_t)n > in->n) {
        in->bad = 1;
        return;
    }
    if (n) memcpy(to, in->p, (size_t)n * sizeof *to);
    in->p += (size_t)n * sizeof *to;
    in->n -= (size_t)n;
    for (i = 0; i < n; i++) in->bad |= to[i] < lo || to[i] > hi;
}

/* Pages of positions low .. end - 1 of a sequence must be there. */
static void infer__get_pages(infer__words *in, const infer_context *c, int32_t g, int32_t *pages, int32_t low,
                             int32_t end) {
    const int32_t n = (end + INFER__PAGE - 1) / INFER__PAGE;
    int32_t run[2] = { 0, 0 }, i;
    infer__get_ints(in, run, 2, 0, n);
    if (in->bad || run[0] > INFER__MAX(low, 0) / INFER__PAGE || run[0] + run[1] != n) {
        in->bad = 1;
        return;
    }
    for (i = 0; i < run[0]; i++) pages[i] = -1;
    infer__get_ints(in, pages + run[0], run[1], 0, c->plan.n_pages[g] - 1);
}

/* Rows of a sequence follow each other, position by position; sequences too. */
static int infer__pass_ordered(const infer__pass *p) {
    int32_t i;
    if (p->seq[0] != 0 || p->seq[p->n_rows - 1] != p->n_seq - 1) return 0;
    for (i = 1; i < p->n_rows; i++)
        if (p->seq[i] == p->seq[i - 1] ? p->pos[i] != p->pos[i - 1] + 1 : p->seq[i] != p->seq[i - 1] + 1) return 0;
    for (i = 1; i < p->n_out; i++)
        if (p->out[i] <= p->out[i - 1]) return 0;
    return 1;
}

static void infer__get_pass(infer__words *in, infer_context *c, const int32_t *w) {
    const infer__hparams *hp = &c->model->hp;
    const int32_t n = w[INFER__MSG_ROWS], cells = c->plan.cells, axes = w[INFER__MSG_FLAGS] & INFER__MSG_HAS_AXES;
    infer__pass *p = &c->ctx.pass;
    int32_t q, g, r, first, k;
    c->encodes = w[INFER__MSG_ENCODES];
    infer__pass_begin(c);
    p->n_rows = n;
    p->n_seq = w[INFER__MSG_SEQS];
    p->n_out = w[INFER__MSG_OUT];
    infer__get_ints(in, p->ids, n, -1, hp->n_vocab - 1);
    infer__get_ints(in, p->pos, n, 0, cells - 1);
    infer__get_ints(in, p->seq, n, 0, p->n_seq - 1);
    infer__get_ints(in, p->out, p->n_out, 0, n - 1);
    c->n_whole = w[INFER__MSG_FLAGS] & INFER__MSG_HAS_END && !p->end;
    c->n_shifted = axes != 0;
    if (w[INFER__MSG_FLAGS] & INFER__MSG_HAS_END) infer__get_ints(in, p->end ? p->end : c->row_end, n, 1, cells);
    for (k = 0; axes && k < INFER__AXES; k++)
        infer__get_ints(in, c->row_axis + (int64_t)k * c->plan.batch, n, 0, INT32_MAX);
    if (hp->ngrams.size) infer__get_ints(in, c->row_looked, (int64_t)n * p->looks, 0, (int64_t)hp->ngrams.rows - 1);
    infer__get_ints(in, p->extended, p->n_seq, 0, 1);
    if (p->source) infer__get_ints(in, p->source, p->n_seq, 1, cells);
    if (p->cell_in) infer__get_ints(in, p->cell_in, p->n_seq, -1, c->plan.n_pages[INFER__GROUP_CELLS] - 1);
    if (p->cell_in) infer__get_ints(in, p->cell_out, p->n_seq, 0, c->plan.n_pages[INFER__GROUP_CELLS] - 1);
    if (in->bad || !infer__pass_ordered(p)) {
        in->bad = 1;
        return;
    }
    infer__spans_use(c);
    for (q = r = 0; q < p->n_seq; q++) {
        for (first = r; r < n && p->seq[r] == q; r++) in->bad |= p->end && p->end[r] <= p->pos[r];
        for (k = first; p->end && k < r; k++) in->bad |= p->end[k] > p->pos[r - 1] + 1;
        if (p->cell_in) in->bad |= p->cell_in[q] == p->cell_out[q];
        for (g = 0; g < INFER__CACHE_GROUPS; g++) {
            const int source = g == 1 && p->source;
            const int32_t window = source ? 0 : c->cache.groups[g].window;
            if (c->plan.n_pages[g] || source)
                infer__get_pages(in, c, source ? 0 : g, p->pages[g] + (int64_t)q * p->max_pages,
                                 window ? p->pos[first] - window + 1 : 0, source ? p->source[q] : p->pos[r - 1] + 1);
        }
    }
    for (r = 0; r < n; r++) c->row_embd[r] = NULL;
}

/* Why the message does not fit the context, NULL when it does. */
static const char *infer__msg_misfit(const infer_context *c, const int32_t *w) {
    const infer_model *m = c->model;
    int32_t own[INFER__MSG_WORDS];
    infer__msg_header(c, 0, own);
    if (w[INFER__MSG_KIND] < 0 || w[INFER__MSG_KIND] >= INFER__MSG_KINDS) return "of an unknown kind";
    if (w[INFER__MSG_MAGIC] != own[INFER__MSG_MAGIC]) return "not of this version, or of a machine like this";
    if (memcmp(w + INFER__MSG_PRINT, own + INFER__MSG_PRINT, 2 * sizeof *w)) return "of another model";
    if (memcmp(w + INFER__MSG_KV, own + INFER__MSG_KV, (INFER__MSG_PARTS - INFER__MSG_KV) * sizeof *w))
        return "of a context with other parameters (cells, batch, kv_type, keep and sessions must be the same)";
    if (!m->first && memcmp(w + INFER__MSG_PARTS, own + INFER__MSG_PARTS, 3 * sizeof *w)) /* later layers may differ */
        return "of a model in other parts (parts and part_least must be the same)";
    if (w[INFER__MSG_KIND] == INFER__MSG_HEAD)
        return !m->cut_head ? "for a head, which this part has not"
               : w[INFER__MSG_ROWS] < 1 || w[INFER__MSG_ROWS] > c->plan.head_rows ? "of too many rows"
                                                                                  : NULL;
    if (w[INFER__MSG_KIND] != INFER__MSG_PASS) return NULL;
    if (w[INFER__MSG_ROWS] < 1 || w[INFER__MSG_ROWS] > c->plan.batch || w[INFER__MSG_SEQS] < 1 ||
        w[INFER__MSG_SEQS] > c->plan.n_seq || w[INFER__MSG_OUT] < 0 || w[INFER__MSG_OUT] > w[INFER__MSG_ROWS])
        return "of a pass that is larger than this context's";
    if (w[INFER__MSG_ENCODES] < 0 || w[INFER__MSG_ENCODES] > (infer__n_enc(&m->hp) ? INFER__ENCODES_VECTORS : 0))
        return "of a model with an encoder";
    if (((w[INFER__MSG_FLAGS] & INFER__MSG_HAS_AXES) && (!INFER__HAS_MEDIA || !m->hp.axes)) ||
        (!INFER__HAS_MEDIA && (w[INFER__MSG_FLAGS] & INFER__MSG_HAS_END) && !infer__not_causal(&m->hp) &&
         !infer__n_enc(&m->hp)))
        return "of a pass with pictures";
    return NULL;
}

/* A page or cell of a saved session: OUT_OF it to rows, or from rows INTO it. */
static void infer__msg_move(infer_context *c, const int32_t *w, float *rows, size_t n, size_t cap, size_t *back) {
    const int32_t state = w[INFER__MSG_ARGS], page = w[INFER__MSG_ARGS + 1],
                  out = w[INFER__MSG_KIND] == INFER__MSG_OUT_OF;
    const infer__state *s = state >= 0 && state < c->model->n_states ? &c->model->states[state] : NULL;
    const uint64_t bytes = s ? infer__page_bytes(c->plan.kv_type, s) : 0, floats = (bytes + 3) / 4;
    char *spare;
    if (s && !infer__state_here(c->model, state)) return; /* of another one */
    if (!s || page < 0 || page >= c->plan.n_pages[s->group] || (!out && n != floats) || (out && cap < floats)) {
        infer__fail(&c->ctx, INFER_ERR_ARGUMENT, "infer_context_rows: no such page");
        return;
    }
    *back = out ? (size_t)floats : 0;
    spare = (char *)infer__alloc(c->ctx.mem, bytes);
    if (!spare) infer__fail(&c->ctx, INFER_ERR_MEMORY, "infer_context_rows: no memory for a page");
    else if (s->kind == INFER__STATE_RECURRENT) infer__cell_move(c, state, page, (char *)rows, out);
    else infer__page_move(c, state, page, (char *)rows, spare, out);
    if (spare && !out) infer__page_waited(c, infer__state_place(c->model, state));
    infer__free(c->ctx.mem, spare);
}

static infer_result infer__msg_pass(infer_context *c, infer__words *in, const int32_t *w, float *rows, size_t n,
                                    size_t *back, infer_error *err) {
    const int last = c->model->end == c->model->hp.n_layer;
    infer_result r;
    int32_t i;
    infer__get_pass(in, c, w);
    if (in->bad || in->n || n != (size_t)w[INFER__MSG_ROWS] * (size_t)infer__rest_cols(&c->plan, c->model))
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_rows: the message is malformed");
    for (i = 0; i < w[INFER__MSG_OUT]; i++) {
        c->out_logits[i] = NULL;
        c->out_top[i] = 0;
        c->out_hidden[i] = rows + (int64_t)i * c->model->hp.n_embd;
    }
    c->rows = rows;
    c->n_adapted = 0;
    c->trace = NULL;
    if (!last) c->ctx.pass.n_out = 0;
    else *back = (size_t)w[INFER__MSG_OUT] * (size_t)c->model->hp.n_embd;
    if ((r = infer__weights_hold(c->model, err)) != INFER_OK) return r;
    c->ctx.cancel_seen = infer__atomic_get(&c->calls);
    r = infer__pass_run(c, err);
    infer__weights_let(c->model);
    return r;
}

/* The header to w; returns the words that follow. */
static infer__words infer__get_header(const void *message, size_t size, int32_t *w) {
    infer__words in;
    in.p = (const char *)message;
    in.n = size / sizeof *w;
    in.bad = 0;
    infer__get_ints(&in, w, INFER__MSG_WORDS, INT32_MIN, INT32_MAX);
    return in;
}

static infer_result infer__msg_head(infer_context *c, const int32_t *w, const float *rows, size_t n, infer_error *err) {
    const infer_model *m = c->model;
    const int32_t count = w[INFER__MSG_ROWS];
    infer__tensor x, y;
    infer_result r;
    if (n != (size_t)count * (size_t)m->hp.n_embd)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_rows: the message is malformed");
    if ((r = infer__weights_hold(m, err)) != INFER_OK) return r;
    infer__enter(c, infer__head_place(m));
    x = infer__view(&c->at->xn, 0, count, m->hp.n_embd);
    y = infer__view(&c->at->work, 0, count, m->hp.n_vocab);
    memcpy(infer__row(&x, 0), rows, n * sizeof *rows);
    infer__parts_head(c, &x, &y);
    infer__weights_let(m);
    return infer__ok(&c->ctx) ? INFER_OK : infer__error(err, c->ctx.error.code, "%s", c->ctx.error.message);
}

static infer_result infer__context_rows(infer_context *c, const void *message, size_t size, float *rows, size_t n,
                                        size_t cap, size_t *back, infer_error *err) {
    int32_t w[INFER__MSG_WORDS];
    const char *why;
    infer__words in = infer__get_header(message, size, w);
    *back = n;
    if (!infer__follows(c->model))
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_rows: a model with layer 0 gives messages");
    why = in.bad || size % sizeof *w || cap < n ? "malformed" : infer__msg_misfit(c, w);
    if (why) return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_rows: the message is %s", why);
    if (w[INFER__MSG_KIND] == INFER__MSG_PASS) return infer__msg_pass(c, &in, w, rows, n, back, err);
    infer__error_clear(&c->ctx.error);
    if (w[INFER__MSG_KIND] == INFER__MSG_HEAD) {
        *back = 0;
        return infer__msg_head(c, w, rows, n, err);
    }
    if (w[INFER__MSG_KIND] == INFER__MSG_LAST) return INFER_OK;
    if (w[INFER__MSG_KIND] == INFER__MSG_COPY) {
        const int32_t g = w[INFER__MSG_ARGS], to = w[INFER__MSG_ARGS + 1], from = w[INFER__MSG_ARGS + 2];
        if (g < 0 || g >= INFER__CACHE_GROUPS || INFER__MIN(to, from) < 0 ||
            INFER__MAX(to, from) >= c->plan.n_pages[g] || to == from)
            return infer__error(err, INFER_ERR_ARGUMENT, "infer_context_rows: no such pages");
        infer__page_copy(c, g, to, from);
    } else infer__msg_move(c, w, rows, n, cap, back);
    return infer__ok(&c->ctx) ? INFER_OK : infer__error(err, c->ctx.error.code, "%s", c->ctx.error.message);
}

static infer_result infer__rows_read(const void *message, size_t size, infer_rows_info *out, infer_error *err) {
    int32_t w[INFER__MSG_WORDS];
    const infer__words in = infer__get_header(message, size, w);
    if (in.bad || w[INFER__MSG_MAGIC] != INFER__MSG_VERSION)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_rows_read: no message of this version");
    memcpy(&out->context, w + INFER__MSG_CONTEXT, sizeof out->context);
    out->last = w[INFER__MSG_KIND] == INFER__MSG_LAST;
    out->head = w[INFER__MSG_KIND] == INFER__MSG_HEAD;
    memcpy(&out->pass, w + INFER__MSG_NUMBER, sizeof out->pass);
    out->params.cells = w[INFER__MSG_CELLS];
    out->params.batch = w[INFER__MSG_BATCH];
    out->params.kv_type = w[INFER__MSG_KV];
    out->params.keep = w[INFER__MSG_KEEP];
    out->params.sessions = w[INFER__MSG_SESSIONS];
    return INFER_OK;
}
