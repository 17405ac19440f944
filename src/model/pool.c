/* pool.c: pooling the hidden states of a text into one vector, and the classifier or dense matrices after that.
 *
 * Owns:  the model's slots from CLS to DENSE_3. They are small and read once per text, so they stay on the host,
 *        wherever layers run, and sums are in double: the same on every machine.
 * Forms: cls, tanh (or the row's activation), cls.norm, cls.output, each of them or not (BERT's pooler and classifier,
 *        RoBERTa's and ModernBERT's heads); dense_2, dense_3 (the Dense modules of sentence-transformers).
 */
#include "model.h"

static int32_t infer__looks(const infer_model *m) {
    return m->w[INFER__W_TOKEN_TYPES].type ? 1 : m->hp.ngrams.heads;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Check the shape of the tensor of `slot` against those before it. 0 = any. */
static infer_result infer__pool_shape(const infer_model *m, int slot, int32_t rows, int32_t cols, infer_error *err) {
    const infer__weight *w = &m->w[slot];
    if (!w->type || ((rows == 0 || w->rows == rows) && (cols == 0 || w->cols == cols))) return INFER_OK;
    return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d rows of %d, the model needs %d of %d (0: any)",
                        w->name, (int)w->rows, (int)w->cols, (int)rows, (int)cols);
}

static infer_result infer__pool_with(const infer_model *m, int slot, int with, infer_error *err) {
    if (!m->w[slot].type || m->w[with].type) return INFER_OK;
    return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: there is no %s that it belongs to", m->w[slot].name,
                        INFER__MODEL_SLOT_TABLE[with].name);
}

/* Check that there are as many labels as the classifier gives, and the widths of the dense matrices if the file has
 * them. */
static infer_result infer__pool_keys(const infer_model *m, infer_error *err) {
    static const struct { const char *name; int8_t slot, rows; } wide[] = {
        { "dense_2_feat_in", INFER__W_DENSE_2, 0 }, { "dense_2_feat_out", INFER__W_DENSE_2, 1 },
        { "dense_3_feat_in", INFER__W_DENSE_3, 0 }, { "dense_3_feat_out", INFER__W_DENSE_3, 1 } };
    const infer__kv *labels;
    char key[160];
    uint32_t n;
    size_t i;
    int r;
    infer__format(key, sizeof key, "%.64s.classifier.output_labels", infer__arch_of(m)->name);
    labels = infer__gguf_peek(&m->gguf, key);
    if (labels && m->hp.n_labels &&
        (labels->type != INFER__GGUF_ARRAY || labels->element != INFER__GGUF_STRING ||
         labels->n != (uint64_t)m->hp.n_labels))
        return infer__error(err, INFER_ERR_FORMAT, "key %s: not a list of %d names, one for each result", key,
                            (int)m->hp.n_labels);
    for (i = 0; i < INFER__COUNT(wide); i++) {
        const infer__weight *w = &m->w[wide[i].slot];
        infer__format(key, sizeof key, "%.64s.%s", infer__arch_of(m)->name, wide[i].name);
        r = infer__gguf_u32(&m->gguf, key, &n, err);
        if (r < 0) return (infer_result)r;
        if (r > 0 && n > 0 && w->type && n != (uint32_t)(wide[i].rows ? w->rows : w->cols))
            return infer__error(err, INFER_ERR_FORMAT, "key %s is %u, but tensor %s has %d rows of %d", key,
                                (unsigned)n, w->name, (int)w->rows, (int)w->cols);
    }
    return INFER_OK;
}

static infer_result infer__pool_check(infer_model *m, infer_error *err) {
    infer__hparams *hp = &m->hp;
    const infer__weight *w = m->w;
    int32_t in = w[INFER__W_CLS].type ? w[INFER__W_CLS].rows : hp->n_embd;
    infer_result r = INFER_OK;
    hp->n_labels = w[INFER__W_CLS_OUT].type ? w[INFER__W_CLS_OUT].rows
                   : w[INFER__W_CLS].type   ? w[INFER__W_CLS].rows
                                            : 0;
    hp->n_out = w[INFER__W_DENSE_3].type   ? w[INFER__W_DENSE_3].rows
                : w[INFER__W_DENSE_2].type ? w[INFER__W_DENSE_2].rows
                                           : hp->n_embd;
    if (!INFER__HAS_EMBED) return INFER_OK; /* nothing reads them */
    r = infer__pool_shape(m, INFER__W_CLS_B, 1, in, err);
    if (!r) r = infer__pool_with(m, INFER__W_CLS_B, INFER__W_CLS, err);
    if (!r) r = infer__pool_with(m, INFER__W_CLS_NORM, INFER__W_CLS, err);
    if (!r) r = infer__pool_shape(m, INFER__W_CLS_NORM, 1, in, err);
    if (!r) r = infer__pool_with(m, INFER__W_CLS_OUT_B, INFER__W_CLS_OUT, err);
    if (!r) r = infer__pool_shape(m, INFER__W_CLS_OUT, 0, in, err);
    if (!r) r = infer__pool_shape(m, INFER__W_CLS_OUT_B, 1, hp->n_labels, err);
    if (!r) r = infer__pool_with(m, INFER__W_DENSE_3, INFER__W_DENSE_2, err);
    if (!r && w[INFER__W_DENSE_2].type) r = infer__pool_shape(m, INFER__W_DENSE_3, 0, w[INFER__W_DENSE_2].rows, err);
    if (!r && w[INFER__W_TOKEN_TYPES].type && hp->ngrams.size)
        r = infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: not beside n-grams", w[INFER__W_TOKEN_TYPES].name);
    if (!r && hp->pooling == INFER_POOL_RANK && hp->n_labels == 0)
        r = infer__error(err, INFER_ERR_FORMAT, "key %s.pooling_type asks for a classifier, but there is no %s",
                         infer__arch_of(m)->name, INFER__MODEL_SLOT_TABLE[INFER__W_CLS_OUT].name);
    return r ? r : infer__pool_keys(m, err);
}

static int32_t infer__pool_usual(const infer_model *m) {
    return infer__encoder(&m->hp) || infer__n_enc(&m->hp) ? INFER_POOL_MEAN : INFER_POOL_LAST;
}

static int32_t infer__pool_default(const infer_model *m) {
    return m->hp.pooling != INFER_POOL_DEFAULT ? m->hp.pooling : infer__pool_usual(m);
}

/* ---- a text ------------------------------------------------------------------------------------------------------ */

/* y = w x + b. scratch: a row of w, or b. */
static void infer__pool_product(const infer_model *m, int slot, int bias, const float *x, float *y, float *scratch) {
    const infer__weight *w = &m->w[slot], *b = bias ? infer__opt(&m->w[bias]) : NULL;
    int64_t stride;
    int32_t r, i;
    for (r = 0; r < w->rows; r++) {
        const float *row = infer__weight_rows(w, r, 1, scratch, &stride);
        double sum[4] = { 0, 0, 0, 0 };
        for (i = 0; i < w->cols; i++) sum[i & 3] += (double)row[i] * x[i];
        y[r] = (float)(sum[0] + sum[1] + sum[2] + sum[3]);
    }
    if (!b) return;
    b->type->decode(b->data, scratch, b->cols);
    for (r = 0; r < w->rows; r++) y[r] += scratch[r];
}

static void infer__pool_norm(const infer_model *m, int slot, float *x, int32_t n, float *scratch) {
    double mean = 0, square = 0, by;
    int32_t i;
    m->w[slot].type->decode(m->w[slot].data, scratch, n);
    for (i = 0; i < n; i++) mean += x[i];
    mean /= n;
    for (i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    by = 1 / sqrt(square / n + m->hp.eps);
    for (i = 0; i < n; i++) x[i] = (float)((x[i] - mean) * by * scratch[i]);
}

/* Tanh, or GELU with erf. */
static float infer__pool_act(const infer_model *m, float x) {
    if (infer__arch_of(m)->label_act == 1 + INFER__ACT_GELU_ERF)
        return (float)(0.5 * x * (1 + erf(x * 0.70710678118654752440)));
    return (float)tanh(x);
}

/* x: the classifier's input. a: width of cls's results. */
static void infer__pool_labels(const infer_model *m, const float *x, float *out, float *a, float *scratch) {
    const int32_t n = m->hp.n_labels;
    float most;
    double sum = 0;
    int32_t i;
    if (m->w[INFER__W_CLS].type) {
        infer__pool_product(m, INFER__W_CLS, INFER__W_CLS_B, x, a, scratch);
        for (i = 0; i < m->w[INFER__W_CLS].rows; i++) a[i] = infer__pool_act(m, a[i]);
        if (m->w[INFER__W_CLS_NORM].type) infer__pool_norm(m, INFER__W_CLS_NORM, a, m->w[INFER__W_CLS].rows, scratch);
        x = a;
    }
    if (m->w[INFER__W_CLS_OUT].type) infer__pool_product(m, INFER__W_CLS_OUT, INFER__W_CLS_OUT_B, x, out, scratch);
    else memcpy(out, x, (size_t)n * sizeof *out);
    if (!infer__arch_of(m)->label_softmax) return;
    for (most = out[0], i = 1; i < n; i++) most = INFER__MAX(most, out[i]);
    for (i = 0; i < n; i++) sum += exp((double)out[i] - most);
    for (i = 0; i < n; i++) out[i] = (float)(exp((double)out[i] - most) / sum);
}

/* A row of each matrix, the vector, and intermediate values. */
static uint64_t infer__pool_scratch(const infer_model *m) {
    int32_t most = m->hp.n_embd, s;
    for (s = INFER__W_CLS; s <= INFER__W_DENSE_3; s++) most = INFER__MAX(most, INFER__MAX(m->w[s].rows, m->w[s].cols));
    return 3 * (uint64_t)most;
}

static infer_result infer__pool_text(const infer_model *m, int32_t pooling, const float *rows, int32_t n, float *out,
                                float *scratch, infer_error *err) {
    const uint64_t most = infer__pool_scratch(m) / 3;
    const int rank = pooling == INFER_POOL_RANK, dense = m->w[INFER__W_DENSE_2].type && !rank;
    float *x = rank || dense ? scratch : out, *y = scratch + most, *row = y + most;
    const int32_t width = m->hp.n_embd, how = rank ? m->hp.label_pooling : pooling;
    enum { COLUMNS = 64 }; /* that are summed side by side */
    int32_t i, r, k;
    if (rank && m->hp.n_labels == 0)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "the model has no classifier (cls.output.weight)");
    if (how != INFER_POOL_MEAN)
        memcpy(x, how == INFER_POOL_FIRST ? rows : rows + (int64_t)(n - 1) * width, (size_t)width * sizeof *x);
    else
        for (i = 0; i < width; i += COLUMNS) {
            const int32_t here = INFER__MIN(COLUMNS, width - i);
            double sum[COLUMNS] = { 0 };
            for (r = 0; r < n; r++)
                for (k = 0; k < here; k++) sum[k] += rows[(int64_t)r * width + i + k];
            for (k = 0; k < here; k++) x[i + k] = (float)(sum[k] / n);
        }
    if (!rank && !dense) return INFER_OK;
    if (infer__weights_hold(m, err)) return INFER_ERR_STATE;
    if (rank) infer__pool_labels(m, x, out, y, row);
    if (dense && m->w[INFER__W_DENSE_3].type) {
        infer__pool_product(m, INFER__W_DENSE_2, 0, x, y, row);
        infer__pool_product(m, INFER__W_DENSE_3, 0, y, out, row);
    } else if (dense) infer__pool_product(m, INFER__W_DENSE_2, 0, x, out, row);
    infer__weights_let(m);
    return INFER_OK;
}

static void infer__pool_scale(float *x, int32_t n, int32_t norm) {
    double sum = 0;
    int32_t i;
    for (i = 0; i < n; i++) sum += norm == 1 ? fabs((double)x[i]) : (double)x[i] * x[i];
    if (norm == 2) sum = sqrt(sum);
    if (norm < 1 || !(sum > 0)) return;
    for (i = 0; i < n; i++) x[i] = (float)(x[i] / sum);
}

static void infer__pool_describe(infer__text_out *o, const infer_model *m) {
    static const char *const names[] = { "", "", "mean", "first", "last", "rank" };
    const int32_t how = infer__pool_default(m);
    const int rank = how == INFER_POOL_RANK;
    infer__text_add(o, "v = %s\n", how == INFER_POOL_NONE ? "x" : names[rank ? m->hp.label_pooling : how]);
    if (m->w[INFER__W_DENSE_2].type)
        infer__text_add(o, "v = v dense_2%s\n", m->w[INFER__W_DENSE_3].type ? " dense_3" : "");
    if (m->w[INFER__W_CLS].type && rank)
        infer__text_add(o, "v = %s(v cls%s)%s\n", infer__arch_of(m)->label_act ? "gelu" : "tanh",
                        m->w[INFER__W_CLS_B].type ? " + bias" : "", m->w[INFER__W_CLS_NORM].type ? ", normed" : "");
    if (m->w[INFER__W_CLS_OUT].type && rank)
        infer__text_add(o, "scores = v cls.output%s  # %d labels\n", m->w[INFER__W_CLS_OUT_B].type ? " + bias" : "",
                        (int)m->hp.n_labels);
}
