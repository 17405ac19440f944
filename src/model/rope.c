/* rope.c: RoPE frequencies: base, position scalings and per-dimension factors folded into one number a pair.
 *
 * Owns:  infer__rope of a model: set 0 for layers that see everything, set 1 for sliding-window layers. After this, to
 *        rotate is angle = pos * freq[i], whatever the scaling.
 * Sources: RoFormer (arXiv 2104.09864); linear position interpolation (arXiv 2306.15595); YaRN (arXiv 2309.00071,
 *        with beta 32 and 1 unless the file says otherwise); LongRoPE (arXiv 2402.13753: factors per pair, the long
 *        ones when the context is longer than the one trained for); Llama 3.1's frequency factors arrive as the tensor
 *        rope_freqs, which divides.
 */
#include "model.h"

/* Pair index at which a rotation turns `turns` times over the trained context (YaRN, section 3.2). */
static double infer__yarn_pair(int32_t n_rot, int32_t ctx, double turns, double base) {
    return n_rot * log(ctx / (turns * 2 * 3.14159265358979323846)) / (2 * log(base));
}

/* Share of the extrapolated angle for pair i: 1 below `low`, 0 above `high`. */
static double infer__yarn_ramp(double low, double high, int32_t i) {
    double y = (i - low) / (high - low > 0.001 ? high - low : 0.001);
    return 1 - (y < 0 ? 0 : y > 1 ? 1 : y);
}

static void infer__rope_fill(const infer__hparams *hp, int scaled, double base, int32_t n_rot, const float *factors,
                             float *out) {
    double low = 0, high = 0, shrink = 1;
    int32_t i, yarn = scaled && hp->rope_scaling == INFER__SCALING_YARN;
    if (scaled && (yarn || hp->rope_scaling == INFER__SCALING_LINEAR)) shrink = 1.0 / hp->rope_factor;
    if (yarn) {
        low = floor(infer__yarn_pair(n_rot, hp->rope_ctx, hp->yarn_fast, base));
        high = ceil(infer__yarn_pair(n_rot, hp->rope_ctx, hp->yarn_slow, base));
        low = low < 0 ? 0 : low;
        high = high > n_rot - 1 ? n_rot - 1 : high;
    }
    for (i = 0; i < n_rot / 2; i++) {
        double f = pow(base, -2.0 * i / n_rot) / (factors ? factors[i] : 1.0);
        double mix = yarn ? infer__yarn_ramp(low, high, i) * hp->yarn_ext : 0;
        out[i] = (float)(f * shrink * (1 - mix) + f * mix);
    }
}

/* Whether position scalings and factors apply to a set: window layers of some models ignore them. */
static int infer__rope_scaled(const infer_model *m, int32_t set) {
    return set == 0 || !(m->arch->flags & INFER__WINDOW_ROPE_PLAIN);
}

static infer_result infer__rope_check(const infer_model *m, infer_error *err) {
    int32_t slot, i, used;
    for (slot = INFER__W_ROPE_FREQS; slot <= INFER__W_ROPE_SHORT; slot++) {
        const infer__weight *w = &m->w[slot];
        if (!w->type) continue;
        for (i = 0, used = 0; i < m->hp.n_layer; i++) {
            const infer__layer *l = &m->layers[i];
            if (l->rope_kind == INFER__ROPE_NONE || !infer__rope_scaled(m, l->group)) continue;
            used = 1;
            if (w->cols != l->n_rot / 2)
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
    int32_t set, i, half;
    for (set = 0; set < INFER__ROPE_SETS; set++) {
        const infer__layer *like = NULL;
        infer__rope *r = &m->ropes[set];
        int scaled = infer__rope_scaled(m, set);
        double base = set == 0 ? hp->rope_base : hp->rope_base_window;
        for (i = 0; i < hp->n_layer && !like; i++)
            if (m->layers[i].group == set && m->layers[i].rope_kind != INFER__ROPE_NONE) like = &m->layers[i];
        if (!like) continue;
        if (!(base > 1)) return infer__error(err, INFER_ERR_FORMAT, "key %s.rope.freq_base is %g", m->arch->name, base);
        half = like->n_rot / 2;
        r->freq.bytes = (uint64_t)half * 2 * sizeof(float);
        r->freq.host = infer__arena_alloc(&m->arena, r->freq.bytes);
        if (!r->freq.host) return infer__error(err, INFER_ERR_MEMORY, "no memory for RoPE frequencies");
        infer__rope_fill(hp, scaled, base, like->n_rot, scaled ? normal : NULL, (float *)r->freq.host);
        infer__rope_fill(hp, scaled, base, like->n_rot, scaled ? extended : NULL, (float *)r->freq.host + half);
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
        for (i = 0; i < hp->n_layer; i++)
            if (m->layers[i].group == set && m->layers[i].rope_kind != INFER__ROPE_NONE) {
                if (m->layers[i].n_rot != like->n_rot)
                    return infer__error(err, INFER_ERR_UNSUPPORTED,
                                        "layers with different rotated widths are not there yet");
                m->layers[i].rope = r;
            }
    }
    return INFER_OK;
}
