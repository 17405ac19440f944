/* embed.c: turns many texts into vectors or scores. The public calls are in embed_api.c.
 *
 * How:   a text becomes tokens, those become windows (one, except for long texts that may have several), and windows
 *        are packed into batches of as many rows, sequences and pages as the context has. A window is a step of a
 *        private session, so that encoders and decoders, with whatever state they have, use the same code as elsewhere.
 * Rules: results are delivered in the order of the texts. Nothing is kept after the call. A slice ends between texts,
 *        or during the eval of a batch (INFER_MORE); whatever returned that is called again and continues.
 * Start: infer__embed_next.
 */
#include "../model/model.h"

/* The rest of the text in text_ids, to be split into windows: each has at most `room` tokens of `at` to `end`, preceded
 * by the first `head` tokens and followed by n_tail tokens from `tail` on. */
typedef struct infer__text_cut {
    int32_t left, text, head, n_tail, room, type_from; /* left 0 = nothing */
    uint64_t at, end, tail;
} infer__text_cut;

/* A window: tokens of a batch that form one sequence. */
typedef struct infer__window {
    int32_t text, n, type_from;
    int32_t last; /* 1 = of its text */
    size_t at;    /* of its first token in infer__embedding.ids */
} infer__window;

/* A running call. */
typedef struct infer__embedding {
    infer_context *c;
    const infer_embed_params *p;
    const char *const *texts;
    const char *query, *pair; /* of infer_rerank; pair NULL: the vocabulary's separator */
    int32_t n, pooling, width; /* width: of what leaves */
    int32_t most;              /* tokens of a window */
    infer_token yes, no;       /* logits that are scores; -1 = vectors are wanted */
    infer_session **sessions;
    infer_step *steps;
    infer__window *windows;
    int32_t n_windows, max_windows, n_sessions, rows, pages;
    infer_token *ids, *text_ids; /* of the batch; of the text that is read */
    uint64_t n_ids, ids_cap, text_cap;
    char *text;
    uint64_t chars_cap;
    float *sum, *vector, *scratch; /* hp.n_out or labels; weight: tokens in sum */
    double weight;
    float *out;
    int32_t next, done;        /* the text to read next; 1 = all are delivered */
    infer__text_cut cut;
    infer_error why;           /* the error of text next - 1: delivered after the texts before it */
    int32_t evaluating;        /* a slice has ended in the eval of the batch */
    double until;              /* of this slice, 0 = it has no end */
} infer__embedding;

/* Room for n items in a growing array; 0 = there is no memory. */
static int infer__embed_grow(infer__embedding *e, void **p, uint64_t *cap, uint64_t n, uint64_t size) {
    void *q;
    if (n <= *cap) return 1;
    q = infer__realloc(&e->c->model->mem, *p, n + n / 2 + 64, size);
    if (!q) return 0;
    *p = q;
    *cap = n + n / 2 + 64;
    return 1;
}

static infer_result infer__embed_memory(int32_t text, infer_error *err) {
    return infer__error(err, INFER_ERR_MEMORY, "text %d: no memory for it", (int)text);
}

/* ---- what leaves ------------------------------------------------------------------------------------------------- */

/* Deliver a text: its vectors, or its error. */
static infer_result infer__embed_leave(infer__embedding *e, int32_t text, const float *v, int32_t rows,
                                       const infer_error *why, infer_error *err) {
    infer_error none;
    infer__error_clear(&none);
    if (e->out && v) memcpy(e->out + (int64_t)text * e->width, v, (size_t)e->width * sizeof *v);
    if (e->out && !v) memset(e->out + (int64_t)text * e->width, 0, (size_t)e->width * sizeof *v);
    if (e->p->results) e->p->results[text] = why ? why->code : INFER_OK;
    if (why && !e->p->results) return infer__error(err, why->code, "%s", why->message);
    if (e->p->each && e->p->each(e->p->user, text, v, v ? rows : 0, e->width, why ? why : &none))
        return infer__error(err, INFER_CANCELLED, "cancelled at text %d", (int)text);
    return INFER_OK;
}

/* The probability of "yes" against "no". */
static float infer__embed_yes(const infer__embedding *e, const infer_session *s) {
    const float gap = s->logits[e->no] - s->logits[e->yes];
    return (float)(1 / (1 + exp((double)gap)));
}

/* Take the results of a window that session s has evaluated. */
static infer_result infer__embed_window(infer__embedding *e, const infer__window *w, infer_session *s,
                                        infer_error *err) {
    const infer_model *m = e->c->model;
    const int rank = e->pooling == INFER_POOL_RANK;
    const int32_t full = rank ? m->hp.n_labels : m->hp.n_out;
    const int32_t norm = rank ? -1 : e->p->normalize == 0 ? 2 : e->p->normalize;
    infer_result r;
    int32_t i;
    if (e->yes >= 0) {
        if ((r = infer__results_bring(s, err)) != INFER_OK) return r;
        e->sum[0] = infer__embed_yes(e, s);
        return infer__embed_leave(e, w->text, e->sum, 1, NULL, err);
    }
    if (e->pooling == INFER_POOL_NONE) {
        for (i = 0; i < w->n; i++) { /* in place: rows become shorter */
            memmove(s->hidden + (int64_t)i * e->width, s->hidden + (int64_t)i * m->hp.n_embd,
                    (size_t)e->width * sizeof(float));
            infer__pool_scale(s->hidden + (int64_t)i * e->width, e->width, norm);
        }
        return infer__embed_leave(e, w->text, s->hidden, w->n, NULL, err);
    }
    r = infer__pool_text(m, e->pooling, s->hidden, w->n, e->vector, e->scratch, err);
    if (r) return r;
    if (e->weight <= 0) memset(e->sum, 0, (size_t)full * sizeof *e->sum);
    if (w->last && e->weight <= 0) memcpy(e->sum, e->vector, (size_t)full * sizeof *e->sum); /* the only one */
    else
        for (i = 0; i < full; i++) e->sum[i] += (float)w->n * e->vector[i];
    if (!w->last) {
        e->weight += w->n;
        return INFER_OK;
    }
    for (i = 0; i < full && e->weight > 0; i++) e->sum[i] = (float)(e->sum[i] / (e->weight + w->n));
    e->weight = 0;
    infer__pool_scale(e->sum, e->width, norm);
    return infer__embed_leave(e, w->text, e->sum, 1, NULL, err);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* The sessions of the batch, and their steps. */
static infer_result infer__embed_steps(infer__embedding *e, infer_error *err) {
    infer_session_params sp;
    infer_result r = INFER_OK;
    int32_t i;
    memset(&sp, 0, sizeof sp);
    sp.context = e->most;
    while (e->n_sessions < e->n_windows) {
        r = infer__session_make(&e->sessions[e->n_sessions], e->c, &sp, err);
        if (r) return r;
        if (infer__n_enc(&e->c->model->hp)) e->sessions[e->n_sessions]->encodes = INFER__ENCODES_VECTORS;
        infer__session_claim(e->sessions[e->n_sessions++]); /* unused by others: it cannot fail */
    }
    for (i = 0; i < e->n_windows; i++) {
        memset(&e->steps[i], 0, sizeof *e->steps);
        e->steps[i].session = e->sessions[i];
        e->steps[i].tokens = e->ids + e->windows[i].at;
        e->steps[i].n = e->windows[i].n;
        e->steps[i].outputs = e->yes >= 0 ? INFER_OUT_LAST : INFER_OUT_HIDDEN;
        e->sessions[i]->type_from = e->windows[i].type_from;
    }
    return INFER_OK;
}

/* Evaluate the batch and deliver its texts. */
static infer_result infer__embed_flush(infer__embedding *e, infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i, done;
    if (e->n_windows == 0) return INFER_OK;
    if (!e->evaluating) r = infer__embed_steps(e, err);
    if (r) return r;
    infer__slice_begin(e->c, e->until);
    r = infer__eval_steps(e->c, e->steps, e->n_windows, err);
    infer__slice_begin(e->c, 0);
    e->evaluating = r == INFER_MORE;
    if (e->evaluating) return r;
    for (i = 0; i < e->n_windows && !r; i++) r = infer__embed_window(e, &e->windows[i], e->sessions[i], err);
    done = e->windows[e->n_windows - 1].text + 1;
    for (i = 0; i < e->n_windows && !r; i++) r = infer__session_cut(e->sessions[i], 0);
    e->n_windows = e->rows = e->pages = 0;
    e->n_ids = 0;
    if (!r && e->p->progress && e->p->progress(e->p->progress_user, (float)done / (float)e->n))
        r = infer__error(err, INFER_CANCELLED, "cancelled by the progress callback");
    return r;
}

/* Pages that are free for a batch: those of the group that has fewest. */
static int32_t infer__embed_pages(const infer_context *c) {
    int32_t g, n = INT32_MAX;
    for (g = 0; g < INFER__CACHE_GROUPS; g++)
        if (c->cache.groups[g].n_pages) n = INFER__MIN(n, c->cache.groups[g].n_free);
    return n;
}

/* One more window of the text: head, some tokens, tail. */
static infer_result infer__embed_add(infer__embedding *e, infer_error *err) {
    infer__text_cut *cut = &e->cut;
    const int32_t n = (int32_t)INFER__MIN((uint64_t)cut->room, cut->end - cut->at);
    const int32_t all = cut->head + n + cut->n_tail, pages = (all + INFER__PAGE - 1) / INFER__PAGE;
    infer__window *w;
    infer_result r = INFER_OK;
    if (e->evaluating || e->n_windows == e->max_windows ||
        (e->n_windows > 0 && (e->rows + all > e->c->plan.batch || e->pages + pages > infer__embed_pages(e->c))))
        r = infer__embed_flush(e, err);
    if (r) return r;
    if (!infer__embed_grow(e, (void **)&e->ids, &e->ids_cap, e->n_ids + (uint64_t)all, sizeof *e->ids))
        return infer__embed_memory(cut->text, err);
    w = &e->windows[e->n_windows++];
    w->text = cut->text;
    w->n = all;
    w->type_from = cut->type_from;
    w->last = cut->at + (uint64_t)n == cut->end;
    w->at = (size_t)e->n_ids;
    memcpy(e->ids + e->n_ids, e->text_ids, (size_t)cut->head * sizeof *e->ids);
    memcpy(e->ids + e->n_ids + cut->head, e->text_ids + cut->at, (size_t)n * sizeof *e->ids);
    memcpy(e->ids + e->n_ids + cut->head + n, e->text_ids + cut->tail, (size_t)cut->n_tail * sizeof *e->ids);
    e->n_ids += (uint64_t)all;
    e->rows += all;
    e->pages += pages;
    cut->at += (uint64_t)n;
    cut->left = !w->last;
    return INFER_OK;
}

/* ---- texts as tokens --------------------------------------------------------------------------------------------- */

/* Tokens of a text after the first `at` of text_ids; *at moves on. */
static infer_result infer__embed_tokens(infer__embedding *e, int32_t text, const infer_segment *segments, size_t n,
                                        const char *plain, size_t bytes, int32_t flags, uint64_t *at,
                                        infer_error *why) {
    const infer_model *m = e->c->model;
    size_t count = 0;
    int turn;
    for (turn = 0; turn < 2; turn++) {
        infer_token *to = e->text_ids ? e->text_ids + *at : NULL;
        const size_t cap = e->text_ids ? (size_t)(e->text_cap - *at) : 0;
        infer_result r = segments ? infer__tokenize_segments(m->tokenizer, &e->c->model->mem, segments, n, NULL, flags,
                                                             to, cap, &count, why)
                                  : infer__tokenize(m->tokenizer, &e->c->model->mem, plain, bytes, flags, to, cap,
                                                    &count, why);
        if (r) {
            infer_error was = *why;
            return infer__error(why, r, "text %d: %s", (int)text, was.message);
        }
        if (count <= cap) break;
        if (!infer__embed_grow(e, (void **)&e->text_ids, &e->text_cap, *at + count, sizeof *e->text_ids))
            return infer__embed_memory(text, why);
    }
    *at += count;
    return INFER_OK;
}

/* n more bytes at the end of the `used` that e->text has. */
static int infer__embed_chars(infer__embedding *e, uint64_t *used, const char *s, size_t n) {
    if (!infer__embed_grow(e, (void **)&e->text, &e->chars_cap, *used + n + 1, 1)) return 0;
    if (n) memcpy(e->text + *used, s, n);
    *used += n;
    return 1;
}

/* A query and a document in the file's or the caller's prompt template; their text is never parsed as template. */
static infer_result infer__embed_prompt(infer__embedding *e, int32_t text, const char *document, size_t n,
                                        uint64_t *count, infer_error *why) {
    const struct { const char *name, *value; size_t n; } parts[] = {
        { "{query}", e->query, strlen(e->query) }, { "{document}", document, n },
        { "{instruction}", e->p->prefix ? e->p->prefix : "", e->p->prefix ? strlen(e->p->prefix) : 0 } };
    infer_segment segments[17];
    const char *at = e->pair;
    uint64_t used = 0;
    size_t k = 0, i, j;
    while (*at) {
        const char *next = at;
        for (i = INFER__COUNT(parts); *next && i == INFER__COUNT(parts); next++)
            for (i = 0; i < INFER__COUNT(parts) && strncmp(next, parts[i].name, strlen(parts[i].name)) != 0; i++) {}
        if (i < INFER__COUNT(parts)) next--;
        for (j = 0; j < 2; j++) { /* what is between, then the text */
            const char *s = j ? parts[i].value : at;
            const size_t len = j ? parts[i].n : (size_t)(next - at);
            if (k == INFER__COUNT(segments))
                return infer__error(why, INFER_ERR_ARGUMENT, "the prompt of a pair has more than 8 places");
            segments[k].n = len;
            segments[k++].from_message = (int32_t)j;
            if (!infer__embed_chars(e, &used, s, len)) return infer__embed_memory(text, why);
            if (i == INFER__COUNT(parts)) break;
        }
        at = i == INFER__COUNT(parts) ? next : next + strlen(parts[i].name);
    }
    for (i = 0, used = 0; i < k; used += segments[i++].n) segments[i].text = e->text + used;
    *count = 0;
    return infer__embed_tokens(e, text, segments, k, NULL, 0, 0, count, why);
}

/* [CLS] query [SEP] document [SEP]; RoBERTa and its relatives have two separators in between. */
static infer_result infer__embed_pair(infer__embedding *e, int32_t text, const char *document, size_t n,
                                      uint64_t *count, int32_t *type_from, infer_error *why) {
    const infer__tokenizer *t = e->c->model->tokenizer;
    const infer__vocab *v = infer__tokenizer_vocab(t);
    const infer_token sep = v->special[INFER_SPECIAL_SEP] >= 0 ? v->special[INFER_SPECIAL_SEP]
                                                               : v->special[INFER_SPECIAL_EOS];
    infer_result r;
    int i, two = infer__vocab_kind(v, INFER__VOCAB_UGM) || infer__tokenizer_pairs_apart(t);
    *count = 0;
    if (sep < 0)
        return infer__error(why, INFER_ERR_UNSUPPORTED, "text %d: the vocabulary has no separator for pairs of texts",
                            (int)text);
    r = infer__embed_tokens(e, text, NULL, 0, e->query, strlen(e->query), INFER_TEXT_ADD_SPECIAL, count, why);
    if (r) return r;
    /* what ends a text is there already, where the vocabulary adds it */
    for (i = infer__tokenizer_end(v) >= 0 ? 1 : 0; i < 1 + two; i++) {
        if (!infer__embed_grow(e, (void **)&e->text_ids, &e->text_cap, *count + 1, sizeof *e->text_ids))
            return infer__embed_memory(text, why);
        e->text_ids[(*count)++] = sep;
    }
    *type_from = (int32_t)INFER__MIN(*count, INT32_MAX);
    r = infer__embed_tokens(e, text, NULL, 0, document, n, 0, count, why);
    if (r) return r;
    if (!infer__embed_grow(e, (void **)&e->text_ids, &e->text_cap, *count + 1, sizeof *e->text_ids))
        return infer__embed_memory(text, why);
    e->text_ids[(*count)++] = sep;
    return INFER_OK;
}

/* Text `i` to e->text_ids; *head and *tail: special tokens around it. */
static infer_result infer__embed_read(infer__embedding *e, int32_t i, uint64_t *count, int32_t *head, int32_t *tail,
                                      int32_t *type_from, infer_error *why) {
    const infer_model *m = e->c->model;
    const char *text = e->texts ? e->texts[i] : NULL;
    size_t n = e->p->lengths ? e->p->lengths[i] : text ? strlen(text) : 0, k;
    uint64_t used = 0;
    *count = 0;
    *head = *tail = *type_from = 0;
    if (e->p->ids && !e->query) {
        n = e->p->n_ids[i];
        if (!e->p->ids[i] && n) return infer__error(why, INFER_ERR_ARGUMENT, "text %d: its ids are NULL", (int)i);
        if (!infer__embed_grow(e, (void **)&e->text_ids, &e->text_cap, n, sizeof *e->text_ids))
            return infer__embed_memory(i, why);
        for (k = 0; k < n; k++) {
            e->text_ids[k] = e->p->ids[i][k];
            if (e->text_ids[k] < 0 || e->text_ids[k] >= m->hp.n_vocab)
                return infer__error(why, INFER_ERR_ARGUMENT, "text %d: token %llu is %d, outside 0..%d", (int)i,
                                    (unsigned long long)k, (int)e->text_ids[k], (int)m->hp.n_vocab - 1);
        }
        *count = n;
        return INFER_OK;
    }
    if (!text) return infer__error(why, INFER_ERR_ARGUMENT, "text %d is NULL", (int)i);
    *tail = infer__tokenizer_end(infer__tokenizer_vocab(m->tokenizer)) >= 0;
    *head = infer__tokenizer_adds_bos(m->tokenizer);
    if (e->query && e->pair) {
        *head = *tail = 0;
        return infer__embed_prompt(e, i, text, n, count, why);
    }
    if (e->query) {
        *tail = 1;
        return infer__embed_pair(e, i, text, n, count, type_from, why);
    }
    if (e->p->prefix) {
        if (!infer__embed_chars(e, &used, e->p->prefix, strlen(e->p->prefix)) || !infer__embed_chars(e, &used, text, n))
            return infer__embed_memory(i, why);
        text = e->text;
        n = (size_t)used;
    }
    return infer__embed_tokens(e, i, NULL, 0, text, n, INFER_TEXT_ADD_SPECIAL, count, why);
}

/* Read text i and decide how it is split into windows. */
static infer_result infer__embed_text(infer__embedding *e, int32_t i, infer_error *why) {
    const infer_model *m = e->c->model;
    infer__text_cut *cut = &e->cut;
    int32_t head, tail, type_from, how = e->p->long_texts;
    uint64_t count;
    infer_result r = infer__embed_read(e, i, &count, &head, &tail, &type_from, why);
    if (r) return r;
    if (count == 0) return infer__error(why, INFER_ERR_ARGUMENT, "text %d has no tokens", (int)i);
    if (e->p->counts) e->p->counts[i] = (int32_t)INFER__MIN(count, (uint64_t)INT32_MAX);
    memset(cut, 0, sizeof *cut);
    cut->text = i;
    cut->type_from = type_from;
    cut->room = (int32_t)INFER__MIN(count, (uint64_t)e->most);
    cut->end = count;
    cut->left = 1;
    if (count <= (uint64_t)e->most) return INFER_OK;
    cut->left = 0;
    cut->room = e->most - head - tail;
    if (how == INFER_LONG_CUT && e->query && e->pair) how = INFER_LONG_ERROR; /* a prompt has no end to cut off */
    if (how == INFER_LONG_ERROR || cut->room < 1 || (type_from > 0 && type_from >= e->most - tail))
        return infer__error(why, INFER_CONTEXT_FULL,
                            "text %d has %llu tokens, more than the %d that fit: %s %d%s", (int)i,
                            (unsigned long long)count, (int)e->most,
                            e->most < m->hp.n_ctx ? "the context has" : "the model has", (int)e->most,
                            e->most < m->hp.n_ctx ? " cells or rows of its batch" : " positions");
    cut->left = 1;
    cut->head = head;
    cut->n_tail = tail;
    cut->at = (uint64_t)head;
    cut->tail = count - (uint64_t)tail;
    cut->end = how == INFER_LONG_CUT ? cut->at + (uint64_t)cut->room : cut->tail;
    if (how == INFER_LONG_WINDOWS) cut->type_from = 0;
    return INFER_OK;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* The next piece of work: a window of the current text, its error, the next text, or the end. */
static infer_result infer__embed_next(infer__embedding *e, infer_error *err) {
    infer_result r;
    if (e->cut.left) return infer__embed_add(e, err);
    if (e->next < e->n && e->why.code == INFER_OK && !e->evaluating) {
        infer__embed_text(e, e->next, &e->why);
        e->next++;
        return INFER_OK;
    }
    r = infer__embed_flush(e, err); /* of a text that has none: those before it leave first */
    if (r) return r;
    if (e->why.code != INFER_OK) {
        const infer_error why = e->why;
        infer__error_clear(&e->why);
        return infer__embed_leave(e, e->next - 1, NULL, 0, &why, err);
    }
    e->done = 1;
    return INFER_OK;
}

/* INFER_MORE: the slice is over. */
static infer_result infer__embed_run(infer__embedding *e, double until, infer_error *err) {
    infer_result r;
    e->until = until;
    do r = infer__embed_next(e, err);
    while (r == INFER_OK && !e->done && !infer__slice_over(until));
    return r == INFER_OK && !e->done ? INFER_MORE : r;
}

/* Maximum tokens of a text: limited by the model's positions, the context's, and, where tokens attend to each other, a
 * pass. */
static int32_t infer__embed_most(const infer_context *c) {
    const infer_model *m = c->model;
    int32_t most = INFER__MIN(c->plan.cells, m->hp.n_ctx);
    if (m->w[INFER__W_POS_EMBD].type) most = INFER__MIN(most, m->w[INFER__W_POS_EMBD].rows);
    return infer__not_causal(&m->hp) || infer__n_enc(&m->hp) ? INFER__MIN(most, c->plan.batch) : most;
}

/* Memory for batches. After a failure infer__embed_stop. */
static infer_result infer__embed_start(infer__embedding *e, infer_error *err) {
    infer_context *c = e->c;
    infer__mem *mem = &c->model->mem;
    const uint64_t full = (uint64_t)INFER__MAX(INFER__MAX(c->model->hp.n_out, c->model->hp.n_labels), 1);
    e->most = infer__embed_most(c);
    e->max_windows = infer__cells_used(c) || c->cache.groups[INFER__GROUP_WINDOW].n_pages
                         ? INFER__MIN(c->plan.n_seq, c->plan.sessions)
                         : c->plan.n_seq;
    e->sessions = (infer_session **)infer__calloc(mem, (uint64_t)e->max_windows, sizeof *e->sessions);
    e->steps = (infer_step *)infer__calloc(mem, (uint64_t)e->max_windows, sizeof *e->steps);
    e->windows = (infer__window *)infer__calloc(mem, (uint64_t)e->max_windows, sizeof *e->windows);
    e->sum = (float *)infer__calloc(mem, full, 2 * sizeof *e->sum);
    e->scratch = (float *)infer__calloc(mem, infer__pool_scratch(c->model), sizeof *e->scratch);
    if (!e->sessions || !e->steps || !e->windows || !e->sum || !e->scratch)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for batches of %d texts", (int)e->max_windows);
    e->vector = e->sum + full;
    return INFER_OK;
}

/* Free everything; an unfinished eval is abandoned. The context is claimed. */
static void infer__embed_stop(infer__embedding *e) {
    infer__mem *mem = &e->c->model->mem;
    int32_t i;
    if (e->evaluating) infer__eval_drop(e->c);
    for (i = 0; i < e->n_sessions; i++) infer__session_free(e->sessions[i]);
    infer__free(mem, e->sessions);
    infer__free(mem, e->steps);
    infer__free(mem, e->windows);
    infer__free(mem, e->sum);
    infer__free(mem, e->scratch);
    infer__free(mem, e->ids);
    infer__free(mem, e->text_ids);
    infer__free(mem, e->text);
}
