/* rope.c: RoPE frequencies: base, position scalings and per-dimension factors folded into one number a pair.
 *
 * Owns:  the sets of frequencies of a model (infer_model.ropes), one for each base, width and scaling that layers have.
 *        After this, to rotate is angle = pos * freq[i], whatever the scaling.
 * Sources: RoFormer (arXiv 2104.09864); linear position interpolation (arXiv 2306.15595); YaRN (arXiv 2309.00071,
 *        with beta 32 and 1 unless the file says otherwise); LongRoPE (arXiv 2402.13753: factors per pair, the long
 *        ones when the context is longer than the one trained for); Llama 3.1's frequency factors arrive as the tensor
 *        rope_freqs, which divides.
 */
#include "model.h"

/* Pair index whose rotation makes `turns` revolutions over the trained context (YaRN, section 3.2). */
static double infer__yarn_pair(int32_t n_rot, int32_t ctx, double turns, double base) {
    return n_rot * log(ctx / (turns * 2 * 3.14159265358979323846)) / (2 * log(base));
}

/* Share of the extrapolated angle for pair i: 1 below `low`, 0 above `high`. */
static double infer__yarn_ramp(double low, double high, int32_t i) {
    double y = (i - low) / (high - low > 0.001 ? high - low : 0.001);
    return 1 - (y < 0 ? 0 : y > 1 ? 1 : y);
}

static void infer__rope_fill(const infer_model *m, int scaled, int turn, double base, int32_t n_rot,
                             const float *factors, float *out) {
    const infer__hparams *hp = &m->hp;
    double low = 0, high = 0, shrink = 1;
    int32_t i, yarn = scaled && hp->rope_scaling == INFER__SCALING_YARN;
    if (scaled && (yarn || hp->rope_scaling == INFER__SCALING_LINEAR)) shrink = 1.0 / hp->rope_factor;
    if (yarn) {
        low = infer__yarn_pair(n_rot, hp->rope_ctx, hp->yarn_fast, base);
        high = infer__yarn_pair(n_rot, hp->rope_ctx, hp->yarn_slow, base);
        if (!(infer__arch_of(m)->flags & INFER__YARN_UNROUNDED)) {
            low = floor(low);
            high = ceil(high);
        }
        low = low < 0 ? 0 : low;
        high = high > n_rot - 1 ? n_rot - 1 : high;
    }
    for (i = 0; i < n_rot / 2; i++) {
        /* of a grid each half has the frequencies of a head of half the width; the second one may have those between */
        const int32_t of = turn ? n_rot / 2 : n_rot, pair = turn && i >= n_rot / 4 ? i - n_rot / 4 : i;
        const double shift = turn & INFER__TURN_BETWEEN && i >= n_rot / 4 ? pow(base, -2.0 / n_rot) : 1;
        double f = shift * pow(base, -2.0 * pair / of) / (factors ? factors[i] : 1.0);
        double mix = yarn ? infer__yarn_ramp(low, high, i) * hp->yarn_ext : 0;
        out[i] = (float)(f * shrink * (1 - mix) + f * mix);
    }
}

/* Layers with the same frequencies share a set. */
static infer_result infer__rope_choose(infer_model *m, infer_error *err) {
    int32_t i, set;
    for (i = 0; i < infer__n_all(&m->hp); i++) {
        infer__layer *l = &m->layers[i];
        infer__rope *r = m->ropes;
        if (l->rope_kind == INFER__ROPE_NONE) continue;
        for (set = 0; set < m->n_ropes; set++, r++)
            if (memcmp(&r->base, &l->rope_base, sizeof r->base) == 0 && r->n_rot == l->n_rot &&
                r->scaled == l->rope_scaled)
                break;
        if (set == INFER__ROPE_SETS)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "layers rotate in more than %d different ways",
                                (int)INFER__ROPE_SETS);
        if (set == m->n_ropes) {
            m->n_ropes++;
            r->base = l->rope_base;
            r->n_rot = l->n_rot;
            r->scaled = l->rope_scaled;
            r->turn = infer__stack_row_of(m) ? infer__stack_row_of(m)->turn : 0;
        }
        l->rope = r;
    }
    return INFER_OK;
}

static int infer__rope_scales(const infer_model *m) {
    int32_t i;
    for (i = 0; i < infer__n_all(&m->hp); i++)
        if (m->layers[i].rope && m->layers[i].rope->scaled) return 1;
    return 0;
}

static infer_result infer__rope_check(const infer_model *m, infer_error *err) {
    const int used = infer__rope_scales(m);
    int32_t slot, i, most = 0;
    for (i = 0; i < infer__n_all(&m->hp); i++)
        if (m->layers[i].rope) most = INFER__MAX(most, m->layers[i].n_rot / 2);
    for (slot = INFER__W_ROPE_FREQS; slot <= INFER__W_ROPE_SHORT; slot++) {
        const infer__weight *w = &m->w[slot];
        if (!w->type) continue;
        for (i = 0; i < infer__n_all(&m->hp); i++) {
            const infer__layer *l = &m->layers[i];
            if (!l->rope || !l->rope->scaled) continue;
            if (w->cols != l->n_rot / 2 && w->cols != most) /* layers that rotate less take the first ones */
                return infer__error(err, INFER_ERR_FORMAT, "tensor %s has %d values, layer %d rotates %d pairs",
                                    w->name, (int)w->cols, (int)i, (int)l->n_rot / 2);
        }
        if (!used)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: no layer uses RoPE factors", w->name);
    }
    return INFER_OK;
}

/* The n_rot/2 factors of a slot, NULL when the file has none. dst is where to decode them. */
static const float *infer__rope_factors(const infer_model *m, int slot, float *dst) {
    const infer__weight *w = infer__opt(&m->w[slot]);
    if (!w) return NULL;
    INFER__ASSERT(w->cols <= INFER__MAX_HEAD_DIM / 2);
    w->type->decode(w->data, dst, w->cols);
    return dst;
}

static infer_result infer__rope_build(infer_model *m, infer_error *err) {
    const infer__hparams *hp = &m->hp;
    float all[INFER__MAX_HEAD_DIM / 2], l[INFER__MAX_HEAD_DIM / 2], s[INFER__MAX_HEAD_DIM / 2];
    const float *any = infer__rope_factors(m, INFER__W_ROPE_FREQS, all);
    const float *extended = any ? any : infer__rope_factors(m, INFER__W_ROPE_LONG, l);
    const float *normal = any ? any : infer__rope_factors(m, INFER__W_ROPE_SHORT, s);
    int32_t set, half;
    for (set = 0; set < m->n_ropes; set++) {
        infer__rope *r = &m->ropes[set];
        double base = r->base;
        int scaled = r->scaled;
        if (!(base > 1))
            return infer__error(err, INFER_ERR_FORMAT, "key %s.rope.freq_base is %g", infer__arch_of(m)->name, base);
        half = r->n_rot / 2;
        r->freq.bytes = (uint64_t)half * 2 * sizeof(float);
        r->freq.host = infer__arena_alloc(&m->arena, r->freq.bytes);
        if (!r->freq.host) return infer__error(err, INFER_ERR_MEMORY, "no memory for RoPE frequencies");
        infer__rope_fill(m, scaled, r->turn, base, r->n_rot, scaled ? normal : NULL, (float *)r->freq.host);
        infer__rope_fill(m, scaled, r->turn, base, r->n_rot, scaled ? extended : NULL, (float *)r->freq.host + half);
        r->scale = 1;
        if (scaled) {
            /* YaRN enlarges q and k by 0.1 ln(factor) + 1; a log multiplier says that the model already counts it in */
            r->scale = hp->rope_attn_factor;
            if (hp->yarn_attn != 0) {
                r->scale *= hp->yarn_attn;
            } else if (hp->rope_scaling == INFER__SCALING_YARN && hp->rope_factor > 1 && hp->yarn_ext != 0) {
                double ln = log(hp->rope_factor);
                r->scale *=
                    (float)(hp->rope_log_mul != 0 ? (0.1 * ln + 1) / (0.1 * hp->rope_log_mul * ln + 1) : 0.1 * ln + 1);
            }
        }
    }
    return INFER_OK;
}
