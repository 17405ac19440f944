/* ngrams.c: embeddings of n-grams (Qwen 3.8 Flash Next): one layer adds rows of a large table to the residual streams,
 * chosen by hashes of a token and those before it.
 *
 * For n = 2 .. size: hash_n = id_0 m_0 ^ id_1 m_1 ^ .. (n of them, id_0 the token's, id_1 that of the one before it;
 * 64 bits), and head h of the heads that n has takes row hash_n % count_h + first_h. An end-of-text id, and the
 * beginning of the text, stop the lookback: earlier ids count as that id. A position given as an embedding has the id
 * ple.image_token_id, as a picture's positions do. With e the rows beside each other, s the streams (hyper_low.c):
 *     k = norm(e Wk), q = norm(s), of each stream; g_i = sigmoid of the signed root of k_i q_i / root of width
 *     v_i = g_i (e Wv);  s_i += v_i + silu(conv(norm(v_i)))
 * The convolution is causal, each column for itself, and its taps are `size` positions apart.
 * Owns:  the kind "n-grams". Ids come from the session and the step while a pass is built, so a session needs no state
 *        for them; the convolution's earlier positions are a recurrent state. Source: llama.cpp's computation, as in
 *        the recordings.
 */
#include "../model.h"

/* An array of n integers in least .. most (at most 2^53, which doubles have). */
static void infer__ngram_array(infer__keys *k, const char *name, int32_t n, double least, double most, double *out) {
    const infer__kv *kv = infer__gguf_find(k->g, infer__key_name(k, name));
    int32_t i;
    if (!kv || kv->type != INFER__GGUF_ARRAY || !infer__kv_is_numbers(kv) || kv->n != (uint64_t)n) {
        infer__key_misfit(k, name, kv ? "not an array of as many numbers as other keys say" : "missing");
        return;
    }
    for (i = 0; i < n; i++) {
        out[i] = infer__kv_number(kv, (uint64_t)i);
        if (!(out[i] >= least && out[i] <= most && out[i] == floor(out[i])))
            infer__key_misfit(k, name, "not an integer, or out of range");
    }
}

static void infer__ngram_keys(infer__keys *k, infer__hparams *hp) {
    infer__ngrams *g = &hp->ngrams;
    const infer__kv *kv = infer__gguf_find(k->g, infer__key_name(k, "ple.layers"));
    double v[2][INFER__NGRAM_HEADS];
    int32_t i;
    if (!kv || k->failed || (kv->type == INFER__GGUF_ARRAY && kv->n == 0)) return;
    if (kv->type == INFER__GGUF_ARRAY && kv->n > 1) infer__key_unsupported(k, "ple.layers", "only one layer");
    infer__ngram_array(k, "ple.layers", 1, 0, hp->n_layer - 1, v[0]);
    g->size = infer__key_int(k, "ple.ngram_size", 2, INFER__NGRAM_MOST, 0, 1);
    g->each = infer__key_int(k, "ple.heads_per_ngram", 1, INFER__NGRAM_HEADS, 0, 1);
    g->taps = infer__key_int(k, "ple.conv_kernel", 2, INFER__NGRAM_MOST, 0, 1);
    g->end = infer__key_int(k, "ple.eos_token_id", 0, INFER__MAX_DIM, 0, 1);
    g->given = infer__key_int(k, "ple.image_token_id", 0, INFER__MAX_DIM, 0, 0);
    hp->n_per_layer = infer__key_int(k, "embedding_length_per_layer_input", 1, INFER__MAX_DIM, 0, 1);
    if (k->failed) return;
    g->layer = (int32_t)v[0][0];
    g->heads = (g->size - 1) * g->each;
    if (!g->given) g->given = g->end;
    if (g->heads > INFER__NGRAM_HEADS || (int64_t)g->heads * hp->n_per_layer > INFER__MAX_DIM) {
        infer__key_misfit(k, "ple.heads_per_ngram", "too many for ple.ngram_size and embedding_length_per_layer_input");
        return;
    }
    infer__ngram_array(k, "ple.layer_multipliers", g->size, 0, 9007199254740992.0, v[0]);
    for (i = 0; i < g->size && !k->failed; i++) g->times[i] = (uint64_t)v[0][i];
    infer__ngram_array(k, "ple.head_offsets", g->heads, 0, INT32_MAX, v[0]);
    infer__ngram_array(k, "ple.head_vocab_sizes", g->heads, 1, INT32_MAX, v[1]);
    for (i = 0; i < g->heads && !k->failed; i++) {
        if (v[0][i] + v[1][i] > INT32_MAX) infer__key_misfit(k, "ple.head_offsets", "rows from 2^31 on");
        g->first[i] = (int32_t)v[0][i];
        g->count[i] = (int32_t)v[1][i];
        g->rows = INFER__MAX(g->rows, (uint64_t)(v[0][i] + v[1][i]));
    }
}

static void infer__qwen4exp_keys(infer__keys *k, infer__hparams *hp) {
    infer__hyper_low_keys(k, hp);
    infer__ngram_keys(k, hp);
}

static infer_result infer__ngrams_check(const infer_model *m, infer__layer *l, infer_error *err) {
    (void)l;
    return m->w[INFER__W_PER_LAYER_EMBD].type
               ? INFER_OK
               : infer__error(err, INFER_ERR_FORMAT, "missing tensor per_layer_token_embd.weight");
}

static void infer__ngrams_state(infer_model *m, infer__layer *l, infer__part *p) {
    const infer__ngrams *g = &m->hp.ngrams;
    p->state[0] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, (g->taps - 1) * g->size,
                                   m->hp.n_hyper * m->hp.n_embd);
}

/* The table's rows, the value, and three rows of streams. */
static int64_t infer__ngrams_cols(const infer_model *m, const infer__layer *l) {
    (void)l;
    return (int64_t)m->hp.ngrams.heads * m->hp.n_per_layer + (1 + 3 * (int64_t)m->hp.n_hyper) * m->hp.n_embd;
}

static void infer__ngrams_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    infer__hyper_needs(m, l, n);
    infer__need_cols(n, m->hp.ngrams.heads * m->hp.n_per_layer);
}

static const char *infer__ngrams_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__streams_args keyed;
    infer__conv_args conv;
    memset(&keyed, 0, sizeof keyed);
    memset(&conv, 0, sizeof conv);
    keyed.kind = INFER__STREAMS_KEYED;
    conv.w = &l->w[INFER__W_NGRAM_TAPS];
    return ops->supports(INFER__OP_STREAMS, &keyed) && ops->supports(INFER__OP_CONV, &conv) ? NULL : "n-grams";
}

/* Rows of the table for the last `count` rows of the pass: tokens of st from `at` on, the first of st at `base`. */
static void infer__ngram_rows(infer_context *c, const infer_step *st, int32_t base, int32_t at, int32_t count) {
    const infer__ngrams *g = &c->model->hp.ngrams;
    int32_t *row, i, j, e, id, end;
    if (!g->size) return;
    row = c->row_looked + (int64_t)(c->ctx.pass.n_rows - count) * g->heads;
    for (i = at; i < at + count; i++) {
        uint64_t hash = 0;
        for (j = end = 0; j < g->size; j++) {
            if (j > base + i) end = 1;
            id = end ? g->end : j > i ? st->session->tokens[base + i - j] : st->tokens ? st->tokens[i - j] : -1;
            if (id < 0) id = g->given;
            end |= j > 0 && id == g->end;
            hash ^= (uint64_t)id * g->times[j];
            for (e = (j - 1) * g->each; j > 0 && e < j * g->each; e++)
                *row++ = (int32_t)(hash % (uint64_t)g->count[e]) + g->first[e];
        }
    }
}

/* y = norm(x) of each stream. */
static void infer__ngrams_norm(infer_context *c, const infer__layer *l, int slot, const infer__tensor *x,
                               const infer__tensor *y) {
    infer__slot_norm(c, l, slot, c->model->hp.n_hyper, x, y);
}

static void infer__ngrams_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__hparams *hp = &c->model->hp;
    const infer__ngrams *g = &hp->ngrams;
    const int32_t rows = s->x.rows, wide = hp->n_hyper * hp->n_embd, cols = g->heads * hp->n_per_layer;
    const uint64_t n = (uint64_t)rows, at = n * (uint64_t)(cols + hp->n_embd);
    infer__tensor streams = infer__pass_kept(c, rows, 0, rows, wide), e = infer__view(&c->at->work, 0, rows, cols);
    infer__tensor v = infer__view(&c->at->work, n * (uint64_t)cols, rows, hp->n_embd), t[3];
    infer__embed_args embed;
    infer__streams_args keyed;
    infer__conv_args conv;
    int i;
    for (i = 0; i < 3; i++) t[i] = infer__view(&c->at->work, at + n * (uint64_t)i * (uint64_t)wide, rows, wide);
    memset(&embed, 0, sizeof embed);
    embed.y = infer__view(&c->at->work, 0, rows * g->heads, hp->n_per_layer);
    embed.table = &c->model->w[INFER__W_PER_LAYER_EMBD];
    embed.looked = 1;
    embed.scale = 1;
    c->ctx.ops->embed(&c->ctx, &embed);
    infer__trace(c, l->index, "ngrams", &e);
    infer__product(c, &e, &l->w[INFER__W_NGRAM_KEY], NULL, &t[0]);
    infer__product(c, &e, &l->w[INFER__W_NGRAM_VALUE], NULL, &v);
    infer__ngrams_norm(c, l, INFER__W_NGRAM_KEY_NORM, &t[0], &t[0]);
    infer__ngrams_norm(c, l, INFER__W_NGRAM_QUERY_NORM, &streams, &t[1]);
    memset(&keyed, 0, sizeof keyed);
    keyed.kind = INFER__STREAMS_KEYED;
    keyed.n = hp->n_hyper;
    keyed.x = v;
    keyed.rest = t[0];
    keyed.base = t[1];
    c->ctx.ops->streams(&c->ctx, &keyed);
    infer__ngrams_norm(c, l, INFER__W_NGRAM_CONV_NORM, &t[0], &t[1]);
    memset(&conv, 0, sizeof conv);
    conv.x = t[1];
    conv.y = t[2];
    conv.w = &l->w[INFER__W_NGRAM_TAPS];
    conv.silu = 1;
    conv.taps = g->taps;
    conv.apart = g->size;
    conv.state = &c->cache.bufs[s->part->state[0]].buf;
    c->ctx.ops->conv(&c->ctx, &conv);
    infer__add_to(c, &t[2], &t[0]);
    infer__add_to(c, &t[0], &streams);
    infer__trace(c, l->index, "ngrams_out", &t[0]);
}

static void infer__ngrams_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const infer__ngrams *g = &m->hp.ngrams;
    (void)l;
    (void)in;
    infer__text_add(o,
                    "    e = %d rows of %llu, by hashes of the last 2 to %d ids; "
                    "v = gate(e Wk, s) * e Wv, of each stream\n",
                    (int)g->heads, (unsigned long long)g->rows, (int)g->size);
    infer__text_add(o, "    s = s + v + silu(conv(%s(v)))  # causal, %d taps a column, %d positions apart\n",
                    infer__norm_name(m), (int)g->taps, (int)g->size);
}

static const infer__label INFER__NGRAM_LABELS[] = {
    { INFER__W_NGRAM_KEY, "Wk" }, { INFER__W_NGRAM_VALUE, "Wv" }, { 0, NULL } };
