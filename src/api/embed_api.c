/* embed_api.c: infer_embed, infer_rerank, infer_classify, whole and in slices. What happens is in embed.c.
 *
 * Owns:  infer_embedding, the job of all three.
 * Rules: the context is claimed from begin until the job has ended; the model stays open until infer_embed_end, since
 *        the memory is counted in it.
 */
#include "../model/model.h"

struct infer_embedding {
    infer_model *model;
    infer__atomic calls;   /* infer__claim */
    infer__embedding e;
    infer_embed_params p;
    char *prompt;          /* infer_rerank: the file's, to be freed */
    float *scores;         /* infer_rerank: of each document, */
    int32_t label;         /* this value of what the classifier says */
    float *probabilities;  /* infer_classify: where scores become them in the end */
    int32_t over;          /* it has ended, with this result */
    infer_error error;
};

static int32_t infer__embed_pooling(const infer_model *m, const infer_embed_params *p) {
    return p->pooling != INFER_POOL_DEFAULT ? (int32_t)p->pooling : infer__pool_default(m);
}

static int32_t infer__embed_wide(const infer_model *m, const infer_embed_params *p) {
    const int32_t pooling = infer__embed_pooling(m, p);
    const int32_t full = pooling == INFER_POOL_RANK   ? m->hp.n_labels
                         : pooling == INFER_POOL_NONE ? m->hp.n_embd
                                                      : m->hp.n_out;
    return p->dimensions > 0 && pooling != INFER_POOL_RANK ? INFER__MIN(p->dimensions, full) : full;
}

INFER_API int32_t infer_embed_width(const infer_model *model, const infer_embed_params *params) {
    infer_embed_params zero;
    memset(&zero, 0, sizeof zero);
    return INFER__HAS_EMBED && model && !model->why_code ? infer__embed_wide(model, params ? params : &zero) : 0;
}

/* Check the arguments; derived fields of e are not set yet. */
static infer_result infer__embed_check(infer__embedding *e, const char *call, infer_error *err) {
    const infer_model *m = e->c->model;
    const infer_embed_params *p = e->p;
    if (e->n < 0 || (e->n > 0 && !e->texts && !(p->ids && p->n_ids)))
        return infer__error(err, INFER_ERR_ARGUMENT, "%s: %s", call, e->n < 0 ? "n is below 0" : "there are no texts");
    if ((uint32_t)p->pooling > INFER_POOL_RANK || p->normalize < -1 ||
        p->normalize > 2 || p->dimensions < 0 || p->long_texts < INFER_LONG_ERROR || p->long_texts > INFER_LONG_WINDOWS)
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "%s: params: pooling %d, normalize %d, dimensions %d or long_texts %d is unknown", call,
                            (int)p->pooling, (int)p->normalize, (int)p->dimensions, (int)p->long_texts);
    e->pooling = infer__embed_pooling(m, p);
    e->width = e->yes >= 0 ? 1 : infer__embed_wide(m, p);
    if (e->pooling == INFER_POOL_RANK && m->hp.n_labels == 0 && e->yes < 0)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "%s: the model has no classifier (cls.output.weight)", call);
    if (p->dimensions > e->width && e->pooling != INFER_POOL_RANK)
        return infer__error(err, INFER_ERR_ARGUMENT, "%s: params.dimensions is %d, vectors have %d", call,
                            (int)p->dimensions, (int)e->width);
    if (p->long_texts == INFER_LONG_WINDOWS &&
        (e->pooling == INFER_POOL_NONE || e->pooling == INFER_POOL_RANK || e->query))
        return infer__error(err, INFER_ERR_ARGUMENT, "%s: windows are for vectors of texts", call);
    if (!p->each && !e->out && e->n > 0)
        return infer__error(err, INFER_ERR_ARGUMENT, "%s: out and params.each are NULL", call);
    if (e->out && e->pooling == INFER_POOL_NONE)
        return infer__error(err, INFER_ERR_ARGUMENT,
                            "%s: vectors of tokens go to params.each: texts have different numbers of them", call);
    return INFER_OK;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* A new, empty job; the model is held. */
static infer_result infer__job_make(infer_embedding **out, infer_context *c, const infer_embed_params *params,
                                    infer_error *err) {
    infer_embedding *x;
    if (params && infer__reserved_check(params->reserved, "embed_params", err)) return INFER_ERR_ARGUMENT;
    x = (infer_embedding *)infer__calloc(&c->model->mem, 1, sizeof *x);
    if (!x) return infer__error(err, INFER_ERR_MEMORY, "no memory for a job of texts");
    infer__model_hold(c->model);
    x->model = c->model;
    if (params) x->p = *params;
    x->e.c = c;
    x->e.p = &x->p;
    x->e.yes = x->e.no = -1;
    *out = x;
    return INFER_OK;
}

static infer_result infer__job_free(infer_embedding *x, infer_result r) {
    infer_model *m = x->model;
    infer__free(&m->mem, x->prompt);
    infer__free(&m->mem, x);
    return infer__model_let(m, r);
}

/* Everything is set: check it and take the context, or free the job. */
static infer_result infer__job_begin(infer_embedding **out, infer_embedding *x, const char *call, infer_error *err) {
    infer_result r = infer__embed_check(&x->e, call, err);
    if (!r) r = infer__context_claim(x->e.c, call, err);
    if (r) return infer__job_free(x, r);
    r = infer__embed_start(&x->e, err);
    if (r) {
        infer__embed_stop(&x->e);
        infer__context_leave(x->e.c);
        return infer__job_free(x, r);
    }
    *out = x;
    return INFER_OK;
}

/* Scores of labels become probabilities. */
static void infer__job_probabilities(const infer_embedding *x) {
    const int32_t labels = x->model->hp.n_labels;
    int64_t i;
    int32_t k;
    for (i = 0; i < x->e.n && !infer__arch_of(x->model)->label_softmax; i++) {
        float *v = x->probabilities + i * labels, most = v[0];
        double sum = 0;
        if (x->p.results && x->p.results[i] != INFER_OK) continue;
        if (labels == 1) v[0] = (float)(1 / (1 + exp(-(double)v[0])));
        if (labels == 1) continue;
        for (k = 1; k < labels; k++) most = INFER__MAX(most, v[k]);
        for (k = 0; k < labels; k++) sum += exp((double)v[k] - most);
        for (k = 0; k < labels; k++) v[k] = (float)(exp((double)v[k] - most) / sum);
    }
}

/* End the job and release its context. */
static void infer__job_over(infer_embedding *x, infer_result r) {
    infer__embed_stop(&x->e);
    infer__context_leave(x->e.c);
    if (r == INFER_OK && x->probabilities) infer__job_probabilities(x);
    x->over = 1;
    x->error.code = r;
}

INFER_API infer_result infer_embed_step(infer_embedding *embedding, int32_t budget_ms, infer_error *err) {
    const double until = infer__slice_end(budget_ms);
    infer_embedding *x = embedding;
    infer_result r;
    if (!INFER__HAS_EMBED) return infer__left_out(err, "vectors and scores of texts", "INFER_NO_EMBED");
    if (!INFER__HAS_SLICES && budget_ms >= 0) return infer__left_out(err, "slices", "INFER_NO_SLICES");
    infer__error_clear(err);
    if (!x || budget_ms < -1)
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_embed_step: %s", x ? "budget_ms is below -1" : "NULL");
    if (!infer__claim(&x->calls))
        return infer__error(err, INFER_ERR_STATE, "infer_embed_step: another call runs the job");
    if (!x->over && infer__context_lost(x->e.c)) {
        infer__unclaim(&x->calls);
        return infer__error(err, INFER_ERR_STATE, "infer_embed_step: the context was made before fork()");
    }
    if (!x->over && infer__weights_hold(x->model, err) != INFER_OK) { /* the job waits for them */
        infer__unclaim(&x->calls);
        return INFER_ERR_STATE;
    }
    r = x->over ? x->error.code : infer__embed_run(&x->e, until, &x->error);
    if (!x->over) infer__weights_let(x->model);
    if (r != INFER_MORE && !x->over) infer__job_over(x, r);
    if (err && r != INFER_MORE) *err = x->error;
    infer__unclaim(&x->calls);
    return r;
}

INFER_API infer_result infer_embed_end(infer_embedding *embedding) {
    infer_embedding *x = embedding;
    if (!INFER__HAS_EMBED || !x) return INFER_OK;
    if (!infer__claim(&x->calls)) return INFER_ERR_STATE;
    if (!x->over) infer__job_over(x, INFER_CANCELLED);
    return infer__job_free(x, INFER_OK);
}

/* Run a job to its end, unless its begin has failed (r). */
static infer_result infer__job_all(infer_embedding *x, infer_result r, infer_error *err) {
    if (!INFER__HAS_EMBED) return r;
    if (r != INFER_OK) return r;
    r = infer_embed_step(x, -1, err);
    infer_embed_end(x);
    return r;
}

/* Vectors, or the scores of labels. */
static infer_result infer__vectors_begin(infer_embedding **out, infer_context *c, const char *const *texts, int32_t n,
                                         const infer_embed_params *params, float *to, int classify, const char *call,
                                         infer_error *err) {
    infer_embedding *x = NULL;
    infer_result r;
    if (!INFER__HAS_EMBED && out) *out = NULL;
    if (!INFER__HAS_EMBED) return infer__left_out(err, "vectors and scores of texts", "INFER_NO_EMBED");
    infer__error_clear(err);
    if (!out || !c) return infer__error(err, INFER_ERR_ARGUMENT, "%s: %s is NULL", call, out ? "context" : "out");
    *out = NULL;
    r = infer__job_make(&x, c, params, err);
    if (r) return r;
    x->e.texts = texts;
    x->e.n = n;
    x->e.out = to;
    if (classify) {
        x->p.pooling = INFER_POOL_RANK;
        x->p.normalize = x->p.dimensions = 0;
        x->p.each = NULL;
        x->probabilities = to;
    }
    return infer__job_begin(out, x, call, err);
}

INFER_API infer_result infer_embed_begin(infer_embedding **out, infer_context *context, const char *const *texts,
                                         int32_t n, const infer_embed_params *params, float *vectors,
                                         infer_error *err) {
    return infer__vectors_begin(out, context, texts, n, params, vectors, 0, "infer_embed", err);
}

INFER_API infer_result infer_classify_begin(infer_embedding **out, infer_context *context, const char *const *texts,
                                            int32_t n, const infer_embed_params *params, float *probabilities,
                                            infer_error *err) {
    return infer__vectors_begin(out, context, texts, n, params, probabilities, 1, "infer_classify", err);
}

INFER_API infer_result infer_embed(infer_context *context, const char *const *texts, int32_t n,
                                   const infer_embed_params *params, float *out, infer_error *err) {
    infer_embedding *x = NULL;
    const infer_result r = infer_embed_begin(&x, context, texts, n, params, out, err);
    return infer__job_all(x, r, err);
}

INFER_API infer_result infer_classify(infer_context *context, const char *const *texts, int32_t n,
                                      const infer_embed_params *params, float *out, infer_error *err) {
    infer_embedding *x = NULL;
    const infer_result r = infer_classify_begin(&x, context, texts, n, params, out, err);
    return infer__job_all(x, r, err);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* What the file says of a text's labels: their names. */
static infer_result infer__label_name(const infer_model *m, int32_t label, infer__str *out) {
    char key[160];
    const infer__kv *kv;
    infer__format(key, sizeof key, "%.64s.classifier.output_labels", infer__arch_of(m)->name);
    kv = infer__gguf_peek(&m->gguf, key);
    if (!kv || kv->type != INFER__GGUF_ARRAY || kv->element != INFER__GGUF_STRING || label < 0 ||
        (uint64_t)label >= kv->n || label >= m->hp.n_labels)
        return INFER_ERR_ARGUMENT;
    *out = infer__kv_string(kv, (uint64_t)label);
    return INFER_OK;
}

INFER_API infer_result infer_model_label(const infer_model *model, int32_t label, char *out, size_t cap, size_t *len) {
    infer__str name;
    if (!INFER__HAS_EMBED || !model || !len || (!out && cap > 0) || model->why_code ||
        infer__label_name(model, label, &name))
        return INFER_ERR_ARGUMENT;
    *len = (size_t)name.n;
    if (cap > 0) {
        memcpy(out, name.s, INFER__MIN(cap - 1, *len));
        out[INFER__MIN(cap - 1, *len)] = 0;
    }
    return INFER_OK;
}

/* The token of a word that is a single token, else -1. */
static infer_token infer__word_token(const infer_model *m, const char *word) {
    infer_token ids[2];
    size_t count = 0;
    if (infer__tokenize(m->tokenizer, &((infer_model *)(uintptr_t)m)->mem, word, strlen(word), 0, ids, 2, &count, NULL))
        return -1;
    return count == 1 ? ids[0] : -1;
}

/* The file's prompt for a query and a document, as a text to free; NULL when it has none. */
static char *infer__rerank_prompt(infer_model *m, infer_result *r) {
    infer__str s = { "", 0 };
    char *text;
    if (infer__gguf_str(&m->gguf, "tokenizer.chat_template.rerank", &s, NULL) <= 0) return NULL;
    text = (char *)infer__alloc(&m->mem, s.n + 1);
    if (!text) *r = INFER_ERR_MEMORY;
    if (!text) return NULL;
    memcpy(text, s.s, (size_t)s.n);
    text[s.n] = 0;
    return text;
}

/* Which of several labels is the score: "yes", else the first one. */
static int32_t infer__rerank_label(const infer_model *m) {
    infer__str name;
    int32_t i;
    for (i = 0; i < m->hp.n_labels; i++)
        if (infer__label_name(m, i, &name) == INFER_OK && name.n == 3 && memcmp(name.s, "yes", 3) == 0) return i;
    return 0;
}

static int infer__rerank_each(void *user, int32_t text, const float *v, int32_t rows, int32_t width,
                              const infer_error *error) {
    const infer_embedding *x = (const infer_embedding *)user;
    (void)rows;
    (void)error;
    x->scores[text] = v ? v[x->label < width ? x->label : 0] : 0.0f;
    return 0;
}

INFER_API infer_result infer_rerank_begin(infer_embedding **out, infer_context *context, const char *query,
                                          const char *const *documents, int32_t n, const infer_embed_params *params,
                                          float *scores, infer_error *err) {
    infer_embedding *x = NULL;
    const infer_model *m = context ? context->model : NULL;
    infer_result r;
    if (!INFER__HAS_EMBED && out) *out = NULL;
    if (!INFER__HAS_EMBED) return infer__left_out(err, "vectors and scores of texts", "INFER_NO_EMBED");
    infer__error_clear(err);
    if (!out || !context || !query || (!scores && n > 0) || (!documents && n > 0))
        return infer__error(err, INFER_ERR_ARGUMENT, "infer_rerank: %s is NULL",
                            !out         ? "out"
                            : !context   ? "context"
                            : !query     ? "query"
                            : !documents ? "documents"
                                         : "scores");
    *out = NULL;
    if ((r = infer__job_make(&x, context, params, err)) != INFER_OK) return r;
    x->e.texts = documents;
    x->e.n = n;
    if (!x->p.pair) x->prompt = infer__rerank_prompt(context->model, &r);
    if (r) return infer__job_free(x, infer__error(err, r, "no memory for a prompt"));
    if (m->hp.n_labels == 0 && !infer__encoder(&m->hp) && (x->p.pair || x->prompt)) {
        x->e.yes = infer__word_token(m, "yes");
        x->e.no = infer__word_token(m, "no");
    }
    x->scores = scores;
    x->label = infer__rerank_label(m);
    x->p.pooling = INFER_POOL_RANK;
    x->p.normalize = x->p.dimensions = 0;
    x->p.ids = NULL;
    x->p.each = infer__rerank_each;
    x->p.user = x;
    x->e.query = query;
    x->e.pair = x->p.pair ? x->p.pair : x->prompt;
    if (m->hp.n_labels == 0 && (x->e.yes < 0 || x->e.no < 0)) {
        r = infer__error(err, INFER_ERR_UNSUPPORTED,
                         "infer_rerank: the model has no classifier (cls.output.weight), and %s",
                         x->e.pair ? "its vocabulary not the words yes and no" : "its file no prompt for pairs");
        return infer__job_free(x, r);
    }
    return infer__job_begin(out, x, "infer_rerank", err);
}

INFER_API infer_result infer_rerank(infer_context *context, const char *query, const char *const *documents, int32_t n,
                                    const infer_embed_params *params, float *scores, infer_error *err) {
    infer_embedding *x = NULL;
    const infer_result r = infer_rerank_begin(&x, context, query, documents, n, params, scores, err);
    return infer__job_all(x, r, err);
}

INFER_API void infer_vector_int8(const float *x, int32_t n, int8_t *out) {
    int32_t i;
    for (i = 0; i < n; i++) {
        const float v = INFER__MAX(-127.0f, INFER__MIN(127.0f, x[i] * 127.0f));
        out[i] = (int8_t)(v < 0 ? v - 0.5f : v + 0.5f);
    }
}

INFER_API void infer_vector_binary(const float *x, int32_t n, uint8_t *out) {
    int32_t i;
    for (i = 0; i < n; i++) {
        if (i % 8 == 0) out[i / 8] = 0;
        if (x[i] > 0) out[i / 8] = (uint8_t)(out[i / 8] | 128 >> i % 8);
    }
}
