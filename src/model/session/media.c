/* media.c: pictures and sound in sessions: positions whose rows are embeddings of an infer_media.
 *
 * How:   a row of a picture or sound has a token below -1, made of a hash of its content. So tokens alone say what a
 *        session has seen: syncing, prefixes and queues compare them as they do those of text. An eval finds the rows
 *        of such tokens in what was offered to the session (infer__session_offer) and keeps them as a span, which has a
 *        reference to the media: what a window has dropped can be computed again.
 * Rules: spans are in order of position and do not overlap. Spans from s->n on belong to the running eval.
 *        For rotation alone, a span takes n_pos positions, and its rows lie on a grid (M-RoPE, arXiv 2409.12191): time
 *        is the span's first position, height and width count from there.
 */
#include "../model.h"

/* ---- media ------------------------------------------------------------------------------------------------------- */

static void infer__media_free_parts(infer_media *x) {
    infer__mem *mem = &x->model->mem;
    int32_t i;
    for (i = 0; i < x->n_parts; i++) {
        infer__free(mem, x->parts[i].text);
        infer__free(mem, x->parts[i].rows);
    }
    infer__free(mem, x->parts);
    infer__free(mem, x);
}

/* No reference is left. */
static void infer__media_gone(infer_media *x) {
    const infer_model *m = x->model;
    if (!infer__senses_keep(x)) infer__media_free_parts(x);
    infer__model_let(m, INFER_OK);
}

static void infer__media_let(infer_media *x) {
    if (x && infer__refs_drop(&x->refs)) infer__media_gone(x);
}

static infer_result infer__media_make(infer_media **out, infer_model *m, const infer__media_part *parts, int32_t n,
                                      infer_error *err) {
    infer_media *x = (infer_media *)infer__calloc(&m->mem, 1, sizeof *x);
    const uint64_t width = (uint64_t)m->hp.n_embd * (uint64_t)(1 + m->hp.n_deepstack) * sizeof(float);
    infer_result r = INFER_OK;
    infer__ids ids;
    int32_t i;
    if (!x || !(x->parts = (infer__media_part *)infer__calloc(&m->mem, (uint64_t)n, sizeof *x->parts))) goto no_memory;
    x->model = m;
    x->n_parts = n;
    for (i = 0; i < n; i++) {
        infer__media_part *p = &x->parts[i];
        if (parts[i].text) {
            const size_t bytes = strlen(parts[i].text) + 1;
            if (!(p->text = (char *)infer__alloc(&m->mem, bytes))) goto no_memory;
            memcpy(p->text, parts[i].text, bytes);
            continue;
        }
        *p = parts[i];
        p->hash = infer__fnv(infer__fnv(INFER__FNV, &p->n, 4 * sizeof p->n), p->rows, (uint64_t)p->n * width);
    }
    memset(&ids, 0, sizeof ids);
    ids.mem = &m->mem;
    ids.model = m;
    for (i = 0; i < n; i++) x->rows += x->parts[i].n;
    x->positions = x->rows;
    if (infer__tokenizer_size(m->tokenizer) > 0) { /* not of a projector alone */
        r = infer__ids_media(&ids, x, err);
        x->positions = (int32_t)ids.n;
        infer__ids_free(&ids);
        if (r) goto failed;
    }
    infer__atomic_set(&x->refs, INFER__OWNED);
    infer__model_hold(m);
    *out = x;
    return INFER_OK;
no_memory:
    r = infer__error(err, INFER_ERR_MEMORY, "no memory for a picture or sound");
failed:
    for (i = 0; x && x->parts && i < n; i++) infer__free(&m->mem, x->parts[i].text);
    if (x) infer__free(&m->mem, x->parts);
    infer__free(&m->mem, x);
    return r;
}

static infer_token infer__media_token(const infer__media_part *p, int32_t i) {
    const uint64_t h = (p->hash + (uint64_t)i) * UINT64_C(0x9E3779B97F4A7C15);
    return -2 - (infer_token)(h >> 34); /* 30 bits */
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* The span that has a position, NULL when it is text's. */
static const infer__media_span *infer__span_at(const infer_session *s, int32_t pos) {
    int32_t i;
    if (!INFER__HAS_MEDIA) return NULL;
    for (i = s->n_spans - 1; i >= 0 && s->spans[i].at > pos; i--) {}
    return i >= 0 && pos < s->spans[i].at + s->spans[i].n ? &s->spans[i] : NULL;
}

static int infer__span_rows(const infer_session *s, int32_t pos) {
    const infer__media_span *p = infer__span_at(s, pos);
    return p && p->part;
}

static int32_t infer__span_start(const infer_session *s, int32_t pos) {
    const infer__media_span *p = infer__span_at(s, pos);
    return p ? p->at : pos;
}

static void infer__spans_cut(infer_session *s, int32_t n) {
    while (INFER__HAS_MEDIA && s->n_spans && s->spans[s->n_spans - 1].at >= n)
        infer__media_let(s->spans[--s->n_spans].media);
}

static int infer__spans_reserve(infer_session *s, int32_t n) {
    infer__media_span *p;
    if (!INFER__HAS_MEDIA || n <= s->spans_cap) return 1;
    p = (infer__media_span *)infer__realloc(&s->context->model->mem, s->spans, (uint64_t)n + 4, sizeof *p);
    if (!p) return 0;
    s->spans = p;
    s->spans_cap = n + 4;
    return 1;
}

static int infer__spans_fork(infer_session *to, const infer_session *from) {
    int32_t i;
    if (!INFER__HAS_MEDIA) return 1;
    if (!infer__spans_reserve(to, from->n_spans)) return 0;
    for (i = 0; i < from->n_spans; i++) {
        to->spans[i] = from->spans[i];
        if (to->spans[i].media) infer__refs_take(&to->spans[i].media->refs);
    }
    to->n_spans = from->n_spans;
    return 1;
}

static void infer__span_words(const infer__media_span *p, uint32_t *words) {
    words[0] = (uint32_t)p->at;
    words[1] = (uint32_t)p->n;
    words[2] = (uint32_t)p->n_pos;
    words[3] = (uint32_t)p->nx;
    words[4] = (uint32_t)p->whole;
}

static int infer__span_of(infer__media_span *p, const uint32_t *words) {
    memset(p, 0, sizeof *p);
    p->at = (int32_t)words[0];
    p->n = (int32_t)words[1];
    p->n_pos = (int32_t)words[2];
    p->nx = (int32_t)words[3];
    p->whole = (int32_t)words[4];
    return p->at >= 0 && p->n > 0 && p->n <= INT32_MAX / 2 && p->n_pos > 0 && p->n_pos <= p->n && p->nx >= 0 &&
           p->nx <= p->n && words[4] <= 1;
}

static void infer__session_offer(infer_session *s, infer_media *const *media, int32_t n) {
    s->offered = media;
    s->n_offered = n;
}

/* The offered part whose first token this is. */
static const infer__media_part *infer__offered(const infer_session *s, infer_token token, infer_media **of) {
    int32_t i, k;
    for (i = 0; i < s->n_offered; i++)
        for (k = 0; k < s->offered[i]->n_parts; k++)
            if (s->offered[i]->parts[k].rows && infer__media_token(&s->offered[i]->parts[k], 0) == token) {
                *of = s->offered[i];
                return &s->offered[i]->parts[k];
            }
    return NULL;
}

static int32_t infer__media_chunk(const infer_session *s, const infer_token *tokens, int32_t n, int32_t left) {
    const infer__media_span *had = infer__span_at(s, s->n);
    infer_media *of;
    int32_t j = had ? had->at + had->n - s->n : 0;
    if (!INFER__HAS_MEDIA) return n;
    while (j < n) {
        const infer__media_part *part = tokens[j] < 0 ? infer__offered(s, tokens[j], &of) : NULL;
        if (part && part->whole && part->n > n - j) return j > 0 ? j : INFER__MIN(part->n, left);
        j += part ? part->n : 1;
    }
    return n;
}

/* Token j of the tokens that follow the session's is media's: the end of its span among them, after adding the span
 * where it begins. */
static infer_result infer__span_take(infer_session *s, const infer_token *tokens, int32_t n, int32_t *j,
                                     infer_error *err) {
    const int32_t pos = s->n + *j, batch = s->context->plan.batch;
    const infer__media_span *had = infer__span_at(s, pos);
    const infer__media_part *part = had ? had->part : NULL;
    infer_media *media = NULL;
    infer__media_span *p;
    int32_t i = had ? pos - had->at : 0, end;
    if (!had) part = infer__offered(s, tokens[*j], &media);
    if (!part)
        return infer__error(err, INFER_ERR_ARGUMENT, "token %d is %d, which stands for nothing that was given", (int)*j,
                            (int)tokens[*j]);
    end = INFER__MIN(*j + part->n - i, n);
    for (; *j < end && tokens[*j] == infer__media_token(part, i); i++, ++*j) {}
    if (*j < end || (part->whole && i < part->n))
        return infer__error(err, INFER_ERR_ARGUMENT, "tokens end inside a picture or sound, after %d of its %d rows",
                            (int)i, (int)part->n);
    if (had) return INFER_OK;
    if (media->model != s->context->model)
        return infer__error(err, INFER_ERR_ARGUMENT, "media was encoded by another model");
    if (part->whole && part->n > batch)
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "a picture of %d tokens is evaluated whole: context_params.batch is %d", (int)part->n,
                            (int)batch);
    if (!infer__spans_reserve(s, s->n_spans + 1))
        return infer__error(err, INFER_ERR_MEMORY, "no memory for a picture's place");
    p = &s->spans[s->n_spans++];
    memset(p, 0, sizeof *p);
    p->at = pos;
    p->n = part->n;
    p->n_pos = part->n_pos;
    p->nx = part->nx;
    p->whole = part->whole;
    p->part = part;
    p->media = media;
    infer__refs_take(&media->refs);
    return INFER_OK;
}

static infer_result infer__spans_take(const infer_step *st, infer_error *err) {
    infer_session *s = st->session;
    const infer__media_span *had = infer__span_at(s, s->n);
    int32_t j = 0;
    infer_result r = INFER_OK;
    if (!INFER__HAS_MEDIA) return r;
    if (had && (!st->tokens || st->tokens[0] >= 0))
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "position %d is inside a picture or sound, which goes on to %d: its rows come next",
                            (int)s->n, (int)(had->at + had->n));
    while (st->tokens && j < st->n && !r) {
        if (st->tokens[j] >= 0) j++;
        else r = infer__span_take(s, st->tokens, st->n, &j, err);
    }
    return r;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static int32_t infer__spans_fit(const infer_session *s, int32_t pos, int32_t count, int32_t first) {
    const infer__media_span *p = infer__span_at(s, pos + count);
    if (!p || !p->whole || p->at == pos + count) return count;
    return p->at > pos || !first ? INFER__MAX(p->at - pos, 0) : p->at + p->n - pos;
}

/* Row r of the pass is position pos of s, an embedding unless text's. */
static void infer__span_row(infer_context *c, const infer_session *s, int32_t r, int32_t pos) {
    infer__pass *p = &c->ctx.pass;
    const int32_t width = c->model->hp.n_embd;
    const infer__media_span *span = NULL;
    int32_t at = pos, i, k;
    if (!INFER__HAS_MEDIA) return;
    if (c->model->hp.n_deepstack) c->row_deep[r] = NULL;
    for (i = 0; i < s->n_spans && s->spans[i].at <= pos; i++) {
        span = &s->spans[i];
        if (pos >= span->at + span->n) at -= span->n - span->n_pos;
    }
    if (span && pos >= span->at + span->n) span = NULL;
    for (k = 0; c->model->hp.axes && k < INFER__AXES; k++) c->row_axis[k * c->plan.batch + r] = at;
    if (at != pos) c->n_shifted++;
    if (c->row_end) c->row_end[r] = pos + 1;
    if (!span) return;
    i = pos - span->at;
    if (span->nx && c->model->hp.axes) {
        at -= i; /* the first one's */
        c->row_axis[r] = at;
        c->row_axis[c->plan.batch + r] = at + i / span->nx;
        c->row_axis[2 * c->plan.batch + r] = at + i % span->nx;
        c->n_shifted++;
    }
    if (span->whole) {
        c->row_end[r] = span->at + span->n;
        c->n_whole++;
    }
    if (!span->part) return;
    p->ids[r] = -1;
    c->row_embd[r] = span->part->rows + (int64_t)i * width * (1 + c->model->hp.n_deepstack);
    if (!c->model->hp.n_deepstack) return;
    c->row_deep[r] = c->row_embd[r] + width;
    c->n_deep++;
}

static void infer__spans_use(infer_context *c) {
    infer__pass *p = &c->ctx.pass;
    int32_t k;
    if (!INFER__HAS_MEDIA) return;
    if (c->n_whole) p->end = c->row_end;
    p->axes = c->model->hp.axes;
    p->n_axes = INFER__MAX_HEAD_DIM / 2;
    for (k = 0; c->picture && p->axes && k < 3; k++) p->axis[k] = c->picture->axis[k % 2];
    for (k = 0; c->n_shifted && c->model->hp.axes && k < INFER__AXES; k++) p->axis[k] = c->row_axis + k * c->plan.batch;
}

/* After layer l: x += the next part of the rows' embeddings (DeepStack, arXiv 2406.04334). */
static void infer__deepstack(infer_context *c, int32_t l, const infer__tensor *x) {
    const uint64_t bytes = (uint64_t)x->cols * sizeof(float);
    int32_t i, k, n;
    if (!c->n_deep || l >= c->model->hp.n_deepstack) return;
    for (i = 0; i < x->rows; i += n) {
        infer__tensor part = infer__view(&c->at->out, 0, 0, x->cols), to = *x;
        for (n = 0; i + n < x->rows && c->row_deep[i + n]; n++) {}
        part.rows = to.rows = n;
        to.offset += (uint64_t)i * (uint64_t)x->stride * sizeof(float);
        for (k = 0; k < n; k++)
            infer__ops_of(&c->ctx)->upload(&c->ctx, part.buf, (uint64_t)k * bytes,
                                           c->row_deep[i + k] + (int64_t)l * x->cols, bytes);
        if (n) infer__add_to(c, &part, &to);
        else n = 1;
    }
}

static void infer__deepstack_keys(infer__keys *k, infer__hparams *hp) {
    hp->n_deepstack = infer__key_int(k, "n_deepstack_layers", 0, hp->n_layer, 0, 0);
}

INFER_API infer_result infer_media_free(infer_media *media) {
    int last = media ? infer__refs_close(&media->refs) : 0;
    if (last < 0) return INFER_ERR_STATE;
    if (last) infer__media_gone(media);
    return INFER_OK;
}
