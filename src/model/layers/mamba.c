/* mamba.c: state space mixers: Mamba (arXiv 2312.00752), Mamba-2 (arXiv 2405.21060), and PLaMo 2's, which has the
 * projections of the first and the heads of the second.
 *
 * Mamba: x, z = u Win; x = silu(conv x); dt, B, C = x Wx; dt = dt Wdt; s = (ssm(x) * silu(z)) Wout. Every value is a
 * head of its own. In some models (FalconMamba, Jamba) dt, B and C have norms.
 * Mamba-2: z, x, B, C, dt = u Win; x, B, C = silu(conv(x, B, C)); s = norm(ssm(x) * silu(z)) Wout, normed by groups.
 * Its state per session: the last taps - 1 rows for the convolution, and the state of the recurrence (infer__ssm_args).
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum { INFER__MAX_SSM_STATE = 1024 };

static void infer__mamba_sizes(infer__keys *k, infer__layer *l) {
    infer__ssm *s = &l->ssm;
    l->conv_taps = infer__key_int(k, "ssm.conv_kernel", 2, INFER__MAX_TAPS, 0, 1);
    s->inner = infer__key_int(k, "ssm.inner_size", 1, INFER__MAX_DIM / 4, 0, 1);
    s->state = infer__key_int(k, "ssm.state_size", 1, INFER__MAX_SSM_STATE, 0, 1);
    s->rank = infer__key_int(k, "ssm.time_step_rank", 1, INFER__MAX_DIM / 4, 0, 1);
    s->groups = s->dim = 1;
    s->conv = s->inner;
    s->proj = 2 * s->inner;
}

static void infer__mamba_keys(infer__keys *k, infer__layer *l) {
    infer__mamba_sizes(k, l);
    l->ssm.heads = l->ssm.inner;
    l->ssm.own_a = 1;
    l->ssm.bare_norms = infer__key_bool(k, "ssm.dt_b_c_rms", 0);
    if (!k->failed && (int64_t)l->ssm.inner * l->ssm.state > INFER__MAX_DIM)
        infer__key_misfit(k, "ssm.inner_size", "with these states too many values");
}

/* The file's rank is the number of heads. */
static void infer__mamba_to_heads(infer__keys *k, infer__ssm *s) {
    if (k->failed) return;
    s->heads = s->rank;
    if (s->inner % s->heads != 0)
        infer__key_misfit(k, "ssm.time_step_rank", "the heads do not divide ssm.inner_size");
    else
        s->dim = s->inner / s->heads;
    if (s->dim > INFER__MAX_HEAD_DIM) infer__key_misfit(k, "ssm.time_step_rank", "heads of more than 1024 values");
}

static void infer__mamba_2_keys(infer__keys *k, infer__layer *l) {
    infer__ssm *s = &l->ssm;
    infer__mamba_sizes(k, l);
    infer__mamba_to_heads(k, s);
    s->rank = 0;
    s->groups = infer__key_int(k, "ssm.group_count", 1, 1 << 16, 1, 1);
    if (k->failed) return;
    if (s->heads % s->groups != 0)
        infer__key_misfit(k, "ssm.group_count", "does not divide the heads (ssm.time_step_rank)");
    if ((int64_t)s->groups * s->state > INFER__MAX_DIM / 8)
        infer__key_misfit(k, "ssm.group_count", "with these states too many values");
    if (k->failed) return;
    s->conv = s->inner + 2 * s->groups * s->state;
    s->proj = s->inner + s->conv + s->heads;
}

static void infer__mamba_heads_keys(infer__keys *k, infer__layer *l) {
    infer__mamba_sizes(k, l);
    infer__mamba_to_heads(k, &l->ssm);
    l->ssm.rank = INFER__MAX(64, k->m->hp.n_embd / 16); /* of the published models; no key has it */
}

static infer_result infer__mamba_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const int16_t all[] = {INFER__W_SSM_IN, INFER__W_SSM_TAPS, INFER__W_SSM_DT_B,
                                  INFER__W_SSM_A,  INFER__W_SSM_D,    INFER__W_SSM_OUT},
                         old[] = {INFER__W_SSM_X, INFER__W_SSM_DT, INFER__W_SSM_DT_NORM, INFER__W_SSM_B_NORM,
                                  INFER__W_SSM_C_NORM};
    const infer__ssm *s = &l->ssm;
    const infer__weight *w = l->w;
    infer_result r = INFER_OK;
    size_t i;
    for (i = 0; i < INFER__COUNT(all) && !r; i++) r = infer__need(l, all[i], err);
    for (i = 0; i < INFER__COUNT(old) && !r; i++) {
        const int has = w[old[i]].type != NULL;
        if (!s->rank && has) r = infer__no_use(m, l, w[old[i]].name, err);
        if (s->rank && i < 2) r = infer__need(l, old[i], err);
        if (s->rank && i > 2 && has != (w[old[2]].type != NULL)) /* all three norms or none */
            r = infer__need(l, has ? old[2] : old[i], err);
    }
    if (!r && s->rank && w[INFER__W_SSM_NORM].type) r = infer__no_use(m, l, w[INFER__W_SSM_NORM].name, err);
    if (!r && s->own_a && infer__gguf_tensor_find(&m->gguf, w[INFER__W_SSM_A].name)->dims[0] != (uint64_t)s->state)
        r = infer__error(err, INFER_ERR_FORMAT, "tensor %s: its rows are not of %d", w[INFER__W_SSM_A].name,
                         (int)s->state);
    return r;
}

/* Copy a vector to `n` float32 in the model's memory, zero-padded. */
static float *infer__mamba_floats(infer_model *m, infer__weight *w, uint64_t n, infer_error *err) {
    const char *removed;
    float *p = (float *)infer__arena_alloc(&m->arena, n * sizeof *p);
    if (!p) {
        infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
        return NULL;
    }
    if (w->data) w->type->decode(w->data, p, w->cols);
    w->type = infer__quant_find(0, &removed); /* F32 */
    w->row_bytes = (uint64_t)w->cols * sizeof *p;
    if (w->data) w->data = p;
    return p;
}

/* A, D and the bias of dt as float32; A of heads of one value in the order of infer__ssm_args. */
static infer_result infer__mamba_split(infer_model *m, infer__layer *l, infer_error *err) {
    infer__ssm *s = &l->ssm;
    infer__weight *w = &l->w[INFER__W_SSM_A];
    uint64_t n = (uint64_t)s->heads, state = s->own_a ? (uint64_t)s->state : 1, i, j;
    float *a, *lanes;
    if (!infer__mamba_floats(m, &l->w[INFER__W_SSM_DT_B], n, err) ||
        !infer__mamba_floats(m, &l->w[INFER__W_SSM_D], n, err) ||
        (a = infer__mamba_floats(m, w, n * state, err)) == NULL)
        return INFER_ERR_MEMORY;
    if (w->data)
        for (i = 0; i < n * state; i++) s->grows |= a[i] > 0;
    if (!s->own_a) return INFER_OK;
    lanes = (float *)infer__arena_alloc(&m->arena,
                                        (uint64_t)infer__ssm_units(s->heads, 1) * INFER__LANES * state * sizeof *lanes);
    if (!lanes) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", w->name);
    w->cols = infer__ssm_units(s->heads, 1) * INFER__LANES * s->state; /* with the zeros of the last block */
    w->row_bytes = (uint64_t)w->cols * sizeof *lanes;
    if (!w->data) return INFER_OK;
    for (i = 0; i < n; i++)
        for (j = 0; j < state; j++)
            lanes[i / INFER__LANES * INFER__LANES * state + j * INFER__LANES + i % INFER__LANES] = a[i * state + j];
    w->data = lanes;
    return INFER_OK;
}

static void infer__mamba_state(infer_model *m, infer__layer *l, infer__part *p) {
    const infer__ssm *s = &l->ssm;
    p->state[0] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS, l->conv_taps - 1, s->conv);
    p->state[1] = infer__state_add(m, l, INFER__STATE_RECURRENT, INFER__GROUP_CELLS,
                                   infer__ssm_units(s->heads, s->own_a), s->state * infer__ssm_lanes(s->dim, s->own_a));
}

/* What the first matrix gives; what the convolution does; of Mamba dt, B, C before and after their matrices. */
static int64_t infer__mamba_cols(const infer_model *m, const infer__layer *l) {
    const infer__ssm *s = &l->ssm;
    (void)m;
    return (int64_t)s->proj + s->conv + (s->rank ? (int64_t)s->rank + 2 * (int64_t)s->state + s->heads : 0);
}

static void infer__mamba_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_cols(n, INFER__MAX(INFER__MAX(l->ssm.conv, l->ssm.rank), l->ssm.state));
}

static const char *infer__mamba_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__conv_args conv;
    infer__ssm_args a;
    memset(&conv, 0, sizeof conv);
    memset(&a, 0, sizeof a);
    conv.w = &l->w[INFER__W_SSM_TAPS];
    a.state = l->ssm.state;
    a.own_a = l->ssm.own_a;
    return ops->supports(INFER__OP_CONV, &conv) && ops->supports(INFER__OP_SSM, &a) ? NULL : "state space";
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* dt, B, C of what the convolution gave (x), in Mamba. */
static void infer__mamba_select(infer_context *c, const infer__layer *l, const infer__tensor *x, infer__tensor *dbc,
                                infer__ssm_args *a) {
    const infer__ssm *s = &l->ssm;
    const int by_heads = !s->own_a; /* then B and C come first */
    infer__tensor rank = infer__columns(dbc, by_heads ? 2 * s->state : 0, s->rank);
    infer__tensor part[3];
    int i;
    a->b = infer__columns(dbc, by_heads ? 0 : s->rank, s->state);
    a->c = infer__columns(dbc, by_heads ? s->state : s->rank + s->state, s->state);
    infer__product(c, x, &l->w[INFER__W_SSM_X], NULL, dbc);
    part[0] = rank;
    part[1] = a->b;
    part[2] = a->c;
    for (i = 0; i < 3 && (s->bare_norms || l->w[INFER__W_SSM_DT_NORM].type); i++)
        infer__slot_norm(c, l, INFER__W_SSM_DT_NORM + i, 1, &part[i], &part[i]);
    infer__product(c, &rank, &l->w[INFER__W_SSM_DT], NULL, &a->dt);
}

/* y *= silu(z), and its norm. PLaMo 2 has a head's z before its x. */
static void infer__mamba_gate(infer_context *c, const infer__layer *l, const infer__tensor *proj,
                              const infer__tensor *y) {
    const infer__ssm *s = &l->ssm;
    infer__tensor z = infer__columns(proj, s->own_a ? s->inner : 0, s->inner), heads = *y;
    if (s->rank && !s->own_a) {
        z.rows = heads.rows = y->rows * s->heads;
        z.cols = heads.cols = heads.stride = s->dim;
        z.stride = 2 * s->dim;
    }
    infer__gate(c, INFER__ACT_SILU, &z, &heads);
    if (l->w[INFER__W_SSM_NORM].type) infer__slot_norm(c, l, INFER__W_SSM_NORM, s->groups, y, y);
}

/* In all three kinds: project, convolve, select, step, gate, project. */
static void infer__mix_mamba(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__ssm *d = &l->ssm;
    const int32_t n = s->x.rows;
    const uint64_t rows = (uint64_t)n, at = rows * (uint64_t)d->proj, behind = at + rows * (uint64_t)d->conv;
    infer__tensor proj = infer__view(&c->at->work, 0, n, d->proj), conved = infer__view(&c->at->work, at, n, d->conv),
                  dbc;
    infer__matmul_args mm;
    infer__conv_args conv;
    infer__ssm_args a;
    memset(&mm, 0, sizeof mm);
    mm.x = s->x;
    mm.norm = s->norm;
    mm.n_w = 1;
    mm.w[0] = &l->w[INFER__W_SSM_IN];
    mm.y[0] = proj;
    infer__products(c, &mm);
    infer__trace(c, l->index, "ssm_proj", &proj);
    memset(&conv, 0, sizeof conv);
    conv.x = infer__columns(&proj, d->own_a ? 0 : d->rank ? d->dim : d->inner, d->conv);
    if (d->rank && !d->own_a) {
        conv.x_run = d->dim;
        conv.x_step = 2 * d->dim;
    }
    conv.y = conved;
    conv.w = &l->w[INFER__W_SSM_TAPS];
    conv.bias = infer__opt(&l->w[INFER__W_SSM_TAPS_B]);
    conv.silu = 1;
    conv.taps = l->conv_taps;
    conv.state = &c->cache.bufs[s->part->state[0]].buf;
    c->ctx.ops->conv(&c->ctx, &conv);
    infer__trace(c, l->index, "ssm_conv", &conved);
    memset(&a, 0, sizeof a);
    a.x = a.y = infer__columns(&conved, 0, d->inner);
    if (d->rank) {
        dbc = infer__view(&c->at->work, behind, n, d->rank + 2 * d->state);
        a.dt = infer__view(&c->at->work, behind + rows * (uint64_t)dbc.cols, n, d->heads);
        infer__mamba_select(c, l, &a.x, &dbc, &a);
    } else {
        a.b = infer__columns(&conved, d->inner, d->groups * d->state);
        a.c = infer__columns(&conved, d->inner + d->groups * d->state, d->groups * d->state);
        a.dt = infer__columns(&proj, d->inner + d->conv, d->heads);
    }
    a.a = &l->w[INFER__W_SSM_A];
    a.dt_bias = &l->w[INFER__W_SSM_DT_B];
    a.skip = &l->w[INFER__W_SSM_D];
    a.cells = &c->cache.bufs[s->part->state[1]].buf;
    a.heads = d->heads;
    a.dim = d->dim;
    a.groups = d->groups;
    a.state = d->state;
    a.own_a = d->own_a;
    a.grows = d->grows;
    c->ctx.ops->ssm(&c->ctx, &a);
    infer__trace(c, l->index, "ssm", &a.y);
    infer__mamba_gate(c, l, &proj, &a.y);
    infer__last_product(c, &a.y, &l->w[INFER__W_SSM_OUT], NULL, 1, s);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__mamba_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const infer__ssm *s = &l->ssm;
    const char *bias = l->w[INFER__W_SSM_TAPS_B].type ? " + bias" : "";
    (void)m;
    if (s->rank) {
        const char *norm = l->w[INFER__W_SSM_DT_NORM].type ? ", each rms_norm * its weights"
                           : s->bare_norms                 ? ", each rms_norm"
                                                           : "";
        infer__text_add(o, "    %s = %s Win; u = silu(conv u%s)  # causal, %d taps a column\n",
                        s->own_a ? "u, z" : "z, u", in, bias, (int)l->conv_taps);
        infer__text_add(o, "    dt, B, C = u Wx%s; dt = softplus(dt Wdt + bias)\n", norm);
    } else {
        infer__text_add(o, "    z, u, B, C, dt = %s Win; u, B, C = silu(conv(u, B, C)%s)  # causal, %d taps a column\n",
                        in, bias, (int)l->conv_taps);
        infer__text_add(o, "    dt = softplus(dt + bias)\n");
    }
    infer__text_add(o, "    S = exp(dt A) S + dt B u; u = C S + D u  # %d heads of %d, %d groups, %d states\n",
                    (int)s->heads, (int)s->dim, (int)s->groups, (int)s->state);
    if (l->w[INFER__W_SSM_NORM].type)
        infer__text_add(o, "    s = (rms_norm(u * silu(z)) * ssm_norm) Wout\n");
    else
        infer__text_add(o, "    s = (u * silu(z)) Wout\n");
}

static const infer__label INFER__MAMBA_LABELS[] = {
    {INFER__W_SSM_IN, "Win"}, {INFER__W_SSM_X, "Wx"}, {INFER__W_SSM_DT, "Wdt"}, {INFER__W_SSM_OUT, "Wout"}, {0, NULL}};
