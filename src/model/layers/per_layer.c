/* per_layer.c: per-layer embeddings, inputs of each layer besides the residual stream (Gemma 3n and 4), and scales of
 * the stream.
 *
 * Owns:  the kinds "inputs of layers", "input of the layer", "scale", "output scale". A token has n_per_layer values
 *        for every layer: a row of a second table, and a norm of a product of its embedding. All are computed before
 *        layer 0 and kept for the pass (infer__pass_kept); each layer gates its own and adds a product of them.
 * Source: transformers, modeling_gemma3n.py and modeling_gemma4.py; no paper describes them.
 */
#include "../model.h"

static int32_t infer__per_layer_all(const infer_model *m) { return m->hp.n_per_layer * m->hp.n_layer; }

/* [rows][n_layer * n_per_layer] */
static infer__tensor infer__per_layer_inputs(infer_context *c, int32_t rows) {
    return infer__pass_kept(c, rows, 0, rows, infer__per_layer_all(c->model));
}

static int64_t infer__inputs_cols(const infer_model *m, const infer__layer *l) {
    (void)l;
    return infer__per_layer_all(m);
}

static void infer__inputs_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)l;
    infer__need_cols(n, infer__per_layer_all(m));
}

static infer_result infer__inputs_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const struct { int slot; const char *name; } need[] = {
        { INFER__W_PER_LAYER_EMBD, "per_layer_token_embd.weight" },
        { INFER__W_PER_LAYER_PROJ, "per_layer_model_proj.weight" },
        { INFER__W_PER_LAYER_NORM, "per_layer_proj_norm.weight" } };
    size_t i;
    (void)l;
    for (i = 0; i < INFER__COUNT(need); i++)
        if (!m->w[need[i].slot].type) return infer__error(err, INFER_ERR_FORMAT, "missing tensor %s", need[i].name);
    return INFER_OK;
}

/* (table[token] * sqrt(n) + norm(x P / sqrt(width))) / sqrt(2), for all layers. A row that was given as an embedding
 * has no token: it takes those of token 0, as llama.cpp does. */
static void infer__inputs_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer_model *m = c->model;
    int32_t n = s->x.rows;
    infer__tensor y = infer__per_layer_inputs(c, n), p = infer__view(&c->at->work, 0, n, y.cols);
    infer__embed_args e;
    infer__norm_args norm;
    memset(&e, 0, sizeof e);
    e.y = y;
    e.table = &m->w[INFER__W_PER_LAYER_EMBD];
    e.scale = sqrtf((float)m->hp.n_per_layer);
    e.pad = 1;
    c->ctx.ops->embed(&c->ctx, &e);
    infer__product(c, &s->x, &m->w[INFER__W_PER_LAYER_PROJ], NULL, &p);
    infer__scale_rows(c, 1.0f / sqrtf((float)m->hp.n_embd), &p);
    memset(&norm, 0, sizeof norm);
    norm.x = norm.y = p;
    norm.weight = &m->w[INFER__W_PER_LAYER_NORM];
    norm.kind = m->hp.norm;
    norm.n_groups = m->hp.n_layer;
    norm.eps = m->hp.eps;
    c->ctx.ops->norm(&c->ctx, &norm);
    infer__add_to(c, &p, &y);
    infer__scale_rows(c, 0.70710678f, &y);
    infer__trace(c, l->index, "inputs", &y);
}

static void infer__inputs_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    (void)l;
    infer__text_add(o, "    i = (inputs[token] * %g + %s(%s Wi / %g)) / %g  # %d for each layer\n",
                    sqrt((double)m->hp.n_per_layer), infer__norm_name(m), in, sqrt((double)m->hp.n_embd), sqrt(2.0),
                    (int)m->hp.n_per_layer);
}

/* ---- a layer's own ----------------------------------------------------------------------------------------------- */

static int64_t infer__input_cols(const infer_model *m, const infer__layer *l) {
    (void)l;
    return m->hp.n_per_layer;
}

static infer_result infer__input_check(const infer_model *m, infer__layer *l, infer_error *err) {
    infer_result r = infer__need(l, INFER__W_INPUT_GATE, err);
    (void)m;
    return r ? r : infer__need(l, INFER__W_INPUT_PROJ, err);
}

/* out = (act(gate x) * input) W */
static void infer__input_to(infer_context *c, const infer__layer *l, const infer__tensor *x, const infer__tensor *out) {
    int32_t n = x->rows, each = c->model->hp.n_per_layer;
    infer__tensor g = infer__view(&c->at->work, 0, n, each), in = infer__per_layer_inputs(c, n);
    infer__act_args act;
    in.offset += (uint64_t)l->index * (uint64_t)each * sizeof(float);
    in.cols = each;
    infer__product(c, x, &l->w[INFER__W_INPUT_GATE], NULL, &g);
    memset(&act, 0, sizeof act);
    act.x = act.y = g;
    act.up = in;
    act.kind = l->act;
    c->ctx.ops->act(&c->ctx, &act);
    infer__product(c, &g, &l->w[INFER__W_INPUT_PROJ], NULL, out);
}

static void infer__input_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    infer__input_to(c, l, &s->x, &s->out);
    infer__sublayer_add(c, s);
}

static void infer__input_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    infer__text_add(o, "    e = (%s(gate_i %s) * i[layer]) Wo_i  # %d wide\n", infer__act_name(l->act), in,
                    (int)m->hp.n_per_layer);
}

static const infer__label INFER__INPUT_LABELS[] = {
    { INFER__W_INPUT_GATE, "gate_i" }, { INFER__W_INPUT_PROJ, "Wo_i" }, { 0, NULL } };

/* ---- the stream times a number ----------------------------------------------------------------------------------- */

static infer_result infer__out_scale_split(infer_model *m, infer__layer *l, infer_error *err) {
    int32_t i;
    (void)m;
    (void)err;
    for (i = 0; i < l->n_parts; i++)
        if (l->parts[i].kind == infer__sublayer_kind_of(INFER__SUBLAYER_OUT_SCALE))
            l->parts[i].scale = infer__slot_float(l, INFER__W_EMBED_SKIP, l->parts[i].scale);
    return INFER_OK;
}

static void infer__out_scale_run(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    (void)l;
    infer__scale_rows(c, s->part->scale, &s->x);
}

static void infer__out_scale_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    int32_t i;
    (void)m;
    (void)in;
    for (i = 0; i < l->n_parts; i++)
        if (l->parts[i].kind->run == infer__out_scale_run) break;
    if (i < l->n_parts) infer__text_add(o, "    x = x * %g\n", l->parts[i].scale);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void infer__per_layer_keys(infer__keys *k, infer__hparams *hp, int32_t absent) {
    hp->n_per_layer = infer__key_int(k, "embedding_length_per_layer_input", 0, INFER__MAX_DIM, absent, 0);
    if (!k->failed && (int64_t)hp->n_per_layer * hp->n_layer > INFER__MAX_DIM) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_UNSUPPORTED, "key %s is %d: for %d layers more than %d are not supported",
                     k->key, (int)hp->n_per_layer, (int)hp->n_layer, (int)INFER__MAX_DIM);
    }
    hp->pass_kept = (int64_t)hp->n_per_layer * hp->n_layer;
}

/* The last layers read the keys and values of the last one of their kind (window or none) that has some. */
static void infer__shared_kv_keys(infer__keys *k, infer__hparams *hp, int32_t absent) {
    hp->n_kv_layer =
        hp->n_layer - infer__key_int(k, "attention.shared_kv_layers", 0, hp->n_layer - 1, INFER__MAX(absent, 0), 0);
}

static void infer__gemma4_keys(infer__keys *k, infer__hparams *hp) {
    infer__per_layer_keys(k, hp, 0);
    infer__shared_kv_keys(k, hp, 0);
}

/* What is absent is what llama.cpp takes for E2B and E4B. */
static void infer__gemma3n_keys(infer__keys *k, infer__hparams *hp) {
    infer__per_layer_keys(k, hp, 256);
    infer__shared_kv_keys(k, hp, hp->n_layer - 20);
    hp->n_streams = infer__key_int(k, "altup.num_inputs", 2, INFER__MAX_STREAMS, 4, 0);
    if (infer__key_int(k, "altup.active_idx", 0, INFER__MAX_STREAMS, 0, 0) != 0)
        infer__key_unsupported(k, "altup.active_idx", "only 0");
    hp->pass_kept += (int64_t)(hp->n_streams - 1) * hp->n_embd;
}
