/* model_maker.h: models out of a fuzzer's bytes, right in most things: any row of INFER__ARCHS, odd shapes and numbers, arrays
 * by layer, every storage type, a vocabulary that need not be as long as the embedding, a chat template.
 *
 *     maker m; size_t n; unsigned char *file;
 *     maker_init(&m, data, size);
 *     file = maker_file(&m, &n);      of a split model the first part, see m.part; maker_free(&m) frees all.
 *                                     m.in goes on behind the bytes that were used
 *
 * Owns:  what a consistent model is (its shapes are computed here, not by the library), and slips: every key and tensor is a
 *        point where the model may go wrong; the bytes name at most two of them, so that the rest is looked at too.
 * Rules: the library is included before. Without bytes everything is 0, which is always a right choice. */
#ifndef MODEL_MAKER_H
#define MODEL_MAKER_H
#include "../gguf_write.h"
#include "fuzz.h"
#include <math.h>

/* ---- the model ------------------------------------------------------------------------------------------------------ */

enum { MAKER_LAYERS = 7, MAKER_SLIPS = 2, MAKER_BLOCKS = 8, MAKER_TYPES = 40, MAKER_PARTS = 3,
       MAKER_ARCHS = INFER__COUNT(INFER__ARCHS) - 1 /* without the row that ends the table */ };

typedef struct maker {
    fuzz_in in;
    gguf_writer w;                    /* the file, or the first of its parts: metadata is there */
    gguf_writer more[MAKER_PARTS - 1];
    unsigned char *part[MAKER_PARTS]; /* of maker_file; [0] is what it returns */
    size_t part_n[MAKER_PARTS];
    int parts;
    const infer__arch *a;
    uint32_t seed;              /* of what tensors hold */
    int point, slips[MAKER_SLIPS];
    int odd;                    /* something is not as it should be: results may be anything */
    int layers, width, vocab, tokens, context, dim_k, dim_v, rot, experts, used, ff_expert, ff_shared;
    int heads[MAKER_LAYERS], kv[MAKER_LAYERS], ff[MAKER_LAYERS];
    int conv[MAKER_LAYERS], taps; /* layers that are short convolutions, in rows that have those */
    int ssm[MAKER_LAYERS], ssm_kind, inner, state, rank, groups; /* layers with state spaces, INFER__SUBLAYER_* of them */
    int rwkv, wkv_dim, wkv_rank;    /* of RWKV: its version, 0 = none; width of heads; a rank, others are near */
    int index_heads, index_dim, index_shared[MAKER_LAYERS], window[MAKER_LAYERS], expert_in; /* width of what experts read */
    int latent, latent_q, absorbed; /* ranks, in rows with latent attention; the newer form of its tensors */
    int out_groups, out_rank, every[MAKER_LAYERS], by_id; /* compressed attention; layers with a table of ids */
    int adapters, low_rank;         /* that tokens switch on: how many, and of what rank */
    int means, hyper_rank;          /* an indexer's keys are means of so many positions; hyper-connections of a low rank */
    int grams, gram_each, gram_taps, gram_width, gram_layer; /* n-grams up to so long, 0 = none; heads for each; .. */
    int hyper, cycle, low;          /* streams of hyper-connections; layers of a stack of two, runs of the low one */
    int per_layer, shared, streams, laurel; /* of Gemma 3n and 4: values a layer, layers without K/V, streams, laurel's rank */
    int by_layer, moe, fused, gate, bias, qk_norm, post, row_types, fill, tokenizer, templ;
    int decoder, labels, dense, experts_every; /* layers of T5's decoder; a classifier's; rows behind pooling; 0 = all layers */
    const char *stack;                         /* before a layer's names: "", "enc." or "dec." */
} maker;

static uint32_t maker_random(maker *m) { /* numbers, not choices: those come from the bytes */
    m->seed = m->seed * 1664525u + 1013904223u;
    return m->seed >> 8;
}
static float maker_float(maker *m) { return (float)((int32_t)(maker_random(m) & 0xffff) - 0x8000) / 32768.0f; }

static int maker_slip(maker *m) {
    m->point++;
    if (m->point != m->slips[0] && m->point != m->slips[1]) return 0;
    m->odd = 1;
    return 1;
}

static const char *maker_key(maker *m, const char *name, char key[160]) {
    snprintf(key, 160, "%s.%s", m->a->name, name);
    return key;
}

static void maker_any_int(maker *m, const char *key, int64_t v) {
    static const int types[] = { GW_U32, GW_I32, GW_U64, GW_I64, GW_U16, GW_I16 };
    int type = types[fuzz_below(&m->in, 6)];
    if (v < 0 || v > 30000) type = v < INT32_MIN || v > INT32_MAX ? GW_I64 : GW_I32;
    gw_int(&m->w, key, type, v);
}

static void maker_int(maker *m, const char *name, int64_t v) {
    static const int64_t bad[] = { 0, -1, 1, 2, 3, 5, 7, 255, 256, 1000, 1023, 1024, 4096, 65535, 65536, 1 << 24, (1 << 24) + 1, 1 << 30,
                                   INT32_MAX, INT32_MIN, (int64_t)UINT32_MAX, (int64_t)1 << 32, INT64_MAX, INT64_MIN };
    char key[160];
    maker_key(m, name, key);
    if (maker_slip(m)) {
        switch (fuzz_below(&m->in, 8)) {
        case 0: return; /* missing */
        case 1: gw_str(&m->w, key, "seven"); return;
        case 2: gw_f32(&m->w, key, (float)v + 0.5f); return;
        case 3: gw_int(&m->w, key, GW_BOOL, 1); return;
        case 4: gw_ints(&m->w, key, GW_I32, &v, 1); return;
        case 5: v += fuzz_below(&m->in, 2) ? 1 : -1; break;
        default: v = bad[fuzz_below(&m->in, sizeof bad / sizeof *bad)];
        }
    }
    maker_any_int(m, key, v);
}

static void maker_float_key(maker *m, const char *name, float v) {
    static const float bad[] = { 0, -0.0f, -1, 1, 1e-45f, 1e-38f, 1e-20f, 1e20f, 3e38f, -3e38f, 0.5f, 1e9f };
    char key[160];
    maker_key(m, name, key);
    if (maker_slip(m)) {
        switch (fuzz_below(&m->in, 6)) {
        case 0: return;
        case 1: gw_f32(&m->w, key, (float)NAN); return;
        case 2: gw_f64(&m->w, key, fuzz_below(&m->in, 2) ? 1e300 : -INFINITY); return;
        case 3: gw_str(&m->w, key, "1"); return;
        default: v = bad[fuzz_below(&m->in, sizeof bad / sizeof *bad)];
        }
    }
    if (fuzz_below(&m->in, 8) == 7) gw_f64(&m->w, key, v);
    else gw_f32(&m->w, key, v);
}

/* One number for all layers, or an array. */
static void maker_layer_ints(maker *m, const char *name, const int *v) {
    int64_t all[MAKER_LAYERS + 1];
    char key[160];
    int i, n = m->layers, same = 1;
    for (i = 0; i < n; i++) same &= v[i] == v[0];
    if (same && !m->by_layer) {
        maker_int(m, name, v[0]);
        return;
    }
    maker_key(m, name, key);
    for (i = 0; i < n; i++) all[i] = v[i];
    all[n] = v[0];
    if (maker_slip(m)) {
        switch (fuzz_below(&m->in, 4)) {
        case 0: n--; break;
        case 1: n++; break;
        case 2: all[fuzz_below(&m->in, (uint32_t)n)] = fuzz_below(&m->in, 2) ? 0 : -1; break;
        default: all[fuzz_below(&m->in, (uint32_t)n)] += 1; break;
        }
    }
    gw_ints(&m->w, key, fuzz_below(&m->in, 2) ? GW_I64 : GW_I32, all, (size_t)n);
}

/* ---- tensors ---------------------------------------------------------------------------------------------------------- */

/* Blocks of a type whose values are small and not all zero: tried out once, since no type's layout is known here. */
static const uint8_t *maker_block(const infer__quant *q, uint32_t which) {
    static uint8_t pool[MAKER_TYPES][MAKER_BLOCKS][512];
    static uint8_t filled[MAKER_TYPES];
    int t = infer__quant_index(q), b, i, tries;
    if (t >= MAKER_TYPES || q->bytes > 512) fuzz_stop("a storage type more than the maker has room for");
    if (!filled[t]) {
        uint32_t seed = 12345u + (uint32_t)q->id;
        float x[256];
        for (b = 0; b < MAKER_BLOCKS; b++) {
            for (tries = 0; tries < 20000; tries++) {
                float most = 0;
                int good = 1;
                for (i = 0; i < q->bytes; i++) pool[t][b][i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
                q->decode(pool[t][b], x, q->values);
                for (i = 0; i < q->values; i++) {
                    good &= infer__finite(x[i]) && fabsf(x[i]) < 1.0f;
                    if (good && fabsf(x[i]) > most) most = fabsf(x[i]);
                }
                if (good && most > 0.05f) break;
            }
        }
        filled[t] = 1;
    }
    return pool[t][which % MAKER_BLOCKS];
}

/* n values as `kind` of tensor wants them: 'n' near 1 (norms), 'v' small, 'm' matrices. */
static void maker_fill(maker *m, const infer__quant *q, int kind, uint64_t n, uint64_t cols, unsigned char *p) {
    float scale = kind == 'm' ? 1.3f / sqrtf((float)cols) : 0.2f, shift = kind == 'n' ? 1.0f : 0.0f;
    uint64_t i, bytes = n / (uint64_t)q->values * (uint64_t)q->bytes;
    if (m->fill) {
        m->odd = 1;
        for (i = 0; i < bytes; i++) p[i] = m->fill == 1 ? (unsigned char)maker_random(m) : m->fill == 2 ? 0 : 0xff;
        return;
    }
    if (q->values > 1) {
        for (i = 0; i < n / (uint64_t)q->values; i++)
            memcpy(p + i * (uint64_t)q->bytes, maker_block(q, maker_random(m)), (size_t)q->bytes);
        return;
    }
    for (i = 0; i < n; i++) {
        float x = shift + scale * maker_float(m);
        if (q->encode) q->encode(&x, p + i * (uint64_t)q->bytes, 1);
        else if (q->id == 28) { double d = x; memcpy(p + i * 8, &d, 8); }
        else { int64_t v = kind == 'n' ? 1 : (int64_t)(maker_random(m) % 3) - 1; memcpy(p + i * (uint64_t)q->bytes, &v, (size_t)q->bytes); }
    }
}

/* A storage type whose blocks a row of `cols` values is made of. */
static const infer__quant *maker_type(maker *m, uint64_t cols, int kind) {
    uint32_t want = m->row_types == 1 ? fuzz_byte(&m->in) : (uint32_t)m->row_types, i, n = 0;
    const infer__quant *fits[MAKER_TYPES];
    for (i = 0; i < INFER__COUNT(infer__quants); i++) {
        const infer__quant *q = &infer__quants[i];
        if (cols % (uint64_t)q->values == 0 && (q->storable || maker_slip(m)) && (kind == 'm' || q->values == 1)) fits[n++] = q;
    }
    return kind != 'm' && want % 4 ? &infer__quants[0] : fits[want % n];
}

static void maker_tensor(maker *m, const char *name, int kind, uint64_t cols, uint64_t rows, uint64_t deep) {
    static const uint64_t bad[] = { 0, 1, 3, 31, 33, 257, 65536, (uint64_t)1 << 31, (uint64_t)1 << 32, (uint64_t)1 << 62, UINT64_MAX };
    const infer__quant *q;
    uint64_t dims[4], n;
    uint32_t n_dims, part = m->parts > 1 ? fuzz_below(&m->in, (uint32_t)m->parts) : 0;
    gguf_writer *w = part ? &m->more[part - 1] : &m->w;
    unsigned char *p;
    dims[0] = cols; dims[1] = rows; dims[2] = deep; dims[3] = 1;
    n_dims = deep > 1 ? 3 : rows > 1 || kind == 'm' ? 2 : 1;
    if (maker_slip(m)) {
        switch (fuzz_below(&m->in, 9)) {
        case 0: return;
        case 1: dims[0] += 1; break;
        case 2: dims[0] = dims[0] > 1 ? dims[0] - 1 : 1; break;
        case 3: dims[1] += 1; n_dims = n_dims < 2 ? 2 : n_dims; break;
        case 4: dims[1] = dims[1] > 1 ? dims[1] - 1 : 1; break;
        case 5: { uint64_t x = dims[0]; dims[0] = dims[1]; dims[1] = x; n_dims = n_dims < 2 ? 2 : n_dims; break; }
        case 6: /* an entry that says anything */
            dims[fuzz_below(&m->in, 3)] = bad[fuzz_below(&m->in, 11)];
            gw_raw_tensor(w, name, strlen(name), fuzz_byte(&m->in), fuzz_below(&m->in, 5), dims, (uint64_t)fuzz_byte(&m->in) * 32);
            return;
        case 7: m->fill = 1 + (int)fuzz_below(&m->in, 3); break;
        default: if (strlen(name) < 60) { char other[80]; snprintf(other, sizeof other, "%s.x", name); maker_tensor(m, other, kind, cols, rows, deep); }
        }
    }
    n = dims[0] * dims[1] * dims[2];
    if (n == 0 || n > 1 << 20) return;
    q = maker_type(m, dims[0], kind);
    p = (unsigned char *)malloc((size_t)(n / (uint64_t)q->values * (uint64_t)q->bytes));
    if (!p) return;
    maker_fill(m, q, kind, n, dims[0], p);
    gw_tensor(w, name, (uint32_t)q->id, n_dims, dims, p, (size_t)(n / (uint64_t)q->values * (uint64_t)q->bytes),
              q->values > 1 ? 1 : (size_t)q->bytes);
    free(p);
}

static void maker_linear(maker *m, int layer, const char *name, int has_bias, int cols, int rows) {
    char full[96];
    snprintf(full, sizeof full, "%sblk.%d.%s.weight", m->stack, layer, name);
    maker_tensor(m, full, 'm', (uint64_t)cols, (uint64_t)rows, 1);
    snprintf(full, sizeof full, "%sblk.%d.%s.bias", m->stack, layer, name);
    if (has_bias) maker_tensor(m, full, 'v', (uint64_t)rows, 1, 1);
}
static void maker_norm(maker *m, int layer, const char *name, int has_bias, int cols, int rows) {
    char full[96];
    snprintf(full, sizeof full, layer < 0 ? "%s%.0d%s.weight" : "%sblk.%d.%s.weight", m->stack, layer < 0 ? 0 : layer, name);
    maker_tensor(m, full, 'n', (uint64_t)cols, (uint64_t)rows, 1);
    snprintf(full, sizeof full, layer < 0 ? "%s%.0d%s.bias" : "%sblk.%d.%s.bias", m->stack, layer < 0 ? 0 : layer, name);
    if (has_bias) maker_tensor(m, full, 'v', (uint64_t)cols, (uint64_t)rows, 1);
}
static void maker_experts(maker *m, int layer, const char *name, int cols, int rows) {
    char full[96];
    snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    maker_tensor(m, full, 'm', (uint64_t)cols, (uint64_t)rows, (uint64_t)m->experts);
}

/* The scales of matrices in a row that has them. */
static void maker_scales(maker *m, int layer, const char *const *names, int n) {
    char full[96];
    int i;
    for (i = 0; i < n && (m->a->flags & INFER__MATRIX_SCALES) && (m->bias & 1); i++) {
        snprintf(full, sizeof full, "blk.%d.%s.scale", layer, names[i]);
        maker_tensor(m, full, 'n', 1, 1, 1);
    }
}

#include "maker_needs.h"
#include "maker_mixers.h"
#include "maker_encoders.h"

/* INFER__SUBLAYER_* of layers without attention, 0 = none. */
static int maker_mixer(const maker *m) { return m->a->mixer_else ? m->a->mixer_else->id : 0; }

/* Rows whose layers are one sublayer. */
static int maker_one_part(const maker *m) {
    return m->a->parts == infer__parts_mamba || m->a->parts == infer__parts_nemotron_h;
}

/* What Gemma 3n and 4 have beside the stream. */
static void maker_streams(maker *m, int l) {
    static const char *const coefs[] = { "altup_predict_coef", "altup_correct_coef", "altup_router" };
    int n = m->streams, i;
    if (m->per_layer) {
        maker_linear(m, l, "inp_gate", 0, m->width, m->per_layer);
        maker_linear(m, l, "proj", 0, m->per_layer, m->width);
        if ((m->post & 4) || maker_slip(m)) maker_norm(m, l, "post_norm", 0, m->width, 1);
    }
    if ((m->a->flags & INFER__V_MAY_BE_K) && (m->post & 2)) maker_norm(m, l, "layer_output_scale", 0, 1, 1);
    if (n == 0) return;
    for (i = 0; i < 3; i++) maker_linear(m, l, coefs[i], 0, i == 2 ? m->width : n, i ? n : n * n);
    maker_norm(m, l, "altup_router_norm", 0, m->width, 1);
    maker_norm(m, l, "altup_correct_scale", 0, m->width, 1);
    maker_linear(m, l, "laurel_l", 0, m->width, m->laurel);
    maker_linear(m, l, "laurel_r", 0, m->laurel, m->width);
    maker_norm(m, l, "laurel_post_norm", 0, m->width, 1);
}

static void maker_streams_model(maker *m) {
    if (m->per_layer) {
        maker_tensor(m, "per_layer_token_embd.weight", 'm', (uint64_t)(m->per_layer * m->layers), (uint64_t)m->vocab, 1);
        maker_tensor(m, "per_layer_model_proj.weight", 'm', (uint64_t)m->width, (uint64_t)(m->per_layer * m->layers), 1);
        maker_tensor(m, "per_layer_proj_norm.weight", 'n', (uint64_t)m->per_layer, 1, 1);
    }
    if (!m->streams) return;
    maker_tensor(m, "altup_proj.weight", 'm', (uint64_t)m->width, (uint64_t)m->width, (uint64_t)m->streams - 1);
    maker_tensor(m, "altup_unembd_proj.weight", 'm', (uint64_t)m->width, (uint64_t)m->width, (uint64_t)m->streams - 1);
}

/* Low-rank additions to the matrices of a layer, for rows before and behind each adapter's token. */
static void maker_adapters(maker *m, int l) {
    const int q = m->heads[l] * m->dim_k, k = m->kv[l] * m->dim_k, v = m->kv[l] * m->dim_v, att = m->heads[l] * m->dim_v, w = m->width;
    const struct { const char *name; int cols, rows; } of[] = {
        { "attn_q", w, q }, { "attn_k", w, k }, { "attn_v", w, v }, { "attn_output", att, w },
        { "ffn_gate", w, m->ff[l] }, { "ffn_up", w, m->ff[l] }, { "ffn_down", m->ff[l], w } };
    char full[64];
    int i, n = m->moe && !(m->by_layer && l == 0) ? 4 : 7;
    for (i = 0; i < n; i++) {
        snprintf(full, sizeof full, "blk.%d.%s.lora_a", l, of[i].name);
        maker_tensor(m, full, 'm', (uint64_t)of[i].cols, (uint64_t)m->low_rank, (uint64_t)m->adapters + 1);
        snprintf(full, sizeof full, "blk.%d.%s.lora_b", l, of[i].name);
        maker_tensor(m, full, 'm', (uint64_t)m->low_rank, (uint64_t)of[i].rows, (uint64_t)m->adapters + 1);
    }
}

static void maker_layer(maker *m, int l) {
    static const char *const scaled[] = { "ffn_up", "ffn_down", "ffn_gate" };
    const uint64_t flags = m->a->flags;
    char beside[64];
    int parallel = m->a->block == INFER__BLOCK_PARALLEL, ln_bias = maker_norm_bias(m);
    if (!(flags & (INFER__NO_PRE_NORM | INFER__NORM_BARE)) && !m->hyper_rank) {
        maker_norm(m, l, "attn_norm", ln_bias, m->width, 1);
        if (flags & INFER__FFN_NORM_2) maker_norm(m, l, "attn_norm_2", ln_bias, m->width, 1);
        if ((flags & INFER__ATTN_NORM_2) && (m->post & 8)) maker_norm(m, l, "attn_norm_2", ln_bias, m->width, 1);
        if (!(parallel && (m->post & 4)) && !(flags & (INFER__ATTN_NORM_2 | INFER__FFN_NORM_2)) && !maker_one_part(m) && m->a->parts != infer__parts_dbrx)
            maker_norm(m, l, flags & INFER__POST_ATTN_IS_FFN ? "post_attention_norm" : "ffn_norm", ln_bias && !(flags & INFER__POST_ATTN_IS_FFN), m->width, 1);
    }
    if (m->conv[l]) maker_conv(m, l);
    else if (m->rwkv) maker_time(m, l);
    else if (m->ssm[l])
        (m->ssm_kind == INFER__SUBLAYER_DELTA ? maker_delta : m->ssm_kind == INFER__SUBLAYER_KDA ? maker_kda :
         m->ssm_kind == INFER__SUBLAYER_LIGHTNING ? maker_lightning : maker_ssm)(m, l);
    else if (m->latent) maker_latent(m, l);
    else if (m->out_groups) maker_compressed(m, l);
    else if (!m->a->parts || m->a->parts != infer__parts_nemotron_h || !m->ff[l]) maker_attention(m, l);
    if (m->ssm[l] == 2) maker_attention(m, l); /* side by side */
    if (m->a->parts == infer__parts_mamba || (m->a->parts == infer__parts_nemotron_h && !m->ff[l])) return;
    maker_encoder_layer(m, l);
    if ((m->post & 1) && !(flags & INFER__POST_ATTN_IS_FFN)) maker_norm(m, l, "post_attention_norm", 0, m->width, 1);
    if (m->post & 2) maker_norm(m, l, "post_ffw_norm", 0, m->width, 1);
    if (m->a->parts == infer__parts_dbrx || m->a->parts == infer__parts_grok) maker_norm(m, l, "attn_output_norm", 0, m->width, 1);
    if (m->a->parts == infer__parts_grok && !(m->post & 2)) maker_norm(m, l, "layer_output_norm", 0, m->width, 1);
    if (m->a->parts == infer__parts_arctic) maker_norm(m, l, "ffn_norm_exps", 0, m->width, 1);
    if (flags & INFER__Q_NORM_HEADS) {
        char full[64];
        snprintf(full, sizeof full, "blk.%d.layer_output_scale.weight", l);
        maker_tensor(m, full, 'v', 1, 1, 1);
    }
    maker_streams(m, l);
    if (m->hyper) maker_hyper(m, l);
    if (m->grams && m->gram_layer == l) maker_grams(m, l);
    if (m->adapters) maker_adapters(m, l);
    if (m->a->parts == infer__parts_kimi_k3) {
        maker_norm(m, l, "attn_res_score", 0, m->width, 1);
        maker_norm(m, l, "ffn_res_score", 0, m->width, 1);
    }
    if (m->rwkv && m->a->norm == INFER__NORM_LAYER) {
        maker_channel(m, l);
        return;
    }
    if (m->moe && (m->experts_every ? l % m->experts_every == 1 : !(m->by_layer && l == 0))) {
        if (flags & INFER__V_MAY_BE_K) { /* beside a dense FFN */
            maker_norm(m, l, "pre_ffw_norm_2", 0, m->width, 1);
            maker_norm(m, l, "post_ffw_norm_1", 0, m->width, 1);
            maker_norm(m, l, "post_ffw_norm_2", 0, m->width, 1);
            snprintf(beside, sizeof beside, "blk.%d.ffn_gate_inp.scale", l);
            maker_tensor(m, beside, 'n', (uint64_t)m->width, 1, 1);
            snprintf(beside, sizeof beside, "blk.%d.ffn_down_exps.scale", l);
            if (m->post & 1) maker_tensor(m, beside, 'n', (uint64_t)m->experts, 1, 1);
        }
        maker_linear(m, l, "ffn_gate_inp", 0, m->width, m->experts);
        if (l < m->by_id) maker_table(m, l);
        if (m->expert_in) {
            maker_linear(m, l, "ffn_routed_down", 0, m->width, m->expert_in);
            maker_linear(m, l, "ffn_routed_up", 0, m->expert_in, m->width);
        }
        if (m->gate) maker_experts(m, l, "ffn_gate_exps", m->expert_in ? m->expert_in : m->width, m->ff_expert);
        maker_experts(m, l, "ffn_up_exps", m->expert_in ? m->expert_in : m->width, m->ff_expert);
        maker_experts(m, l, "ffn_down_exps", m->ff_expert, m->expert_in ? m->expert_in : m->width);
        maker_experts_needs(m, l);
        if (m->ff_shared) {
            if (m->gate) maker_linear(m, l, "ffn_gate_shexp", 0, m->width, m->ff_shared);
            maker_linear(m, l, "ffn_up_shexp", 0, m->width, m->ff_shared);
            maker_linear(m, l, "ffn_down_shexp", 0, m->ff_shared, m->width);
        }
        if (!(flags & INFER__V_MAY_BE_K) && m->a->parts != infer__parts_arctic) return;
    }
    if (m->gate && !(m->fused & 2)) maker_linear(m, l, "ffn_gate", m->bias & 32, m->width, m->ff[l]);
    maker_linear(m, l, "ffn_up", m->bias & 32, m->width, m->gate && (m->fused & 2) ? 2 * m->ff[l] : m->ff[l]);
    maker_linear(m, l, "ffn_down", m->bias & 16, m->ff[l], m->width);
    if (!(flags & INFER__MATRIX_SCALES)) return;
    if (m->post & 4) maker_norm(m, l, "ffn_sub_norm", 0, m->ff[l], 1);
    maker_scales(m, l, scaled, m->gate && !(m->fused & 2) ? 3 : 2);
}

/* ---- vocabulary, template ------------------------------------------------------------------------------------------------ */

static const char *const MAKER_TEMPLATES[] = {
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{{ bos_token }}{% for m in messages %}[{{ loop.index }}] {{ m.content | trim }}{% endfor %}",
    "{%- if tools %}<tool_call>{{ tools | tojson }}</tool_call>{% endif %}{% for m in messages %}{{ m['content'] }}<think></think>{% endfor %}",
    "{{ raise_exception('no') }}", "{% for", "{{ messages[0].content * 3 }}{{ messages | length }}<s>" };
static const char *const MAKER_MODELS[] = { NULL, "llama", "gpt2", "bert", "t5", "rwkv", "plamo2", "gemma4", "whitespace", "none", "other" };
enum { MAKER_N_MODELS = 11, MAKER_N_TEMPLATES = 6 };

/* The i-th token of n: special ones, bytes where there is room for all, then letters and pairs of them. */
static int maker_token(const maker *m, int i, int n, char text[16]) {
    static const char *const first[] = { "<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>",
                                         "</tool_call>", "\xe2\x96\x81", "\xc4\xa0", "\xc4\x8a", "a\xe2\x96\x81", "\xe2\x96\x81the" };
    static const int types[] = { 2, 3, 3, 3, 3, 4, 4, 4, 3, 1, 1, 1, 1, 1 };
    const int bytes = n >= 300 && m->tokenizer != 2;
    if (i < 14) {
        snprintf(text, 16, "%s", first[i]);
        return types[i];
    }
    i -= 14;
    if (bytes && i < 256) {
        snprintf(text, 16, "<0x%02X>", i);
        return 6;
    }
    i -= bytes ? 256 : 0;
    if (i < 94) snprintf(text, 16, "%c", 33 + i);
    else snprintf(text, 16, "%c%c", 'a' + (i - 94) % 26, 'a' + (i - 94) / 26 % 26);
    return 1;
}

static void maker_vocabulary(maker *m) {
    static const char *const merges[] = { "a b", "ab c", "\xc4\xa0 a", "t h", "th e", "x" };
    static const char *const ids[] = { "bos", "eos", "unknown", "padding", "eot", "seperator" };
    char text[16], key[80];
    int i, n = m->tokens;
    if (!MAKER_MODELS[m->tokenizer]) return;
    gw_str(&m->w, "tokenizer.ggml.model", MAKER_MODELS[m->tokenizer]);
    if (fuzz_below(&m->in, 2) == 0) gw_str(&m->w, "tokenizer.ggml.pre", fuzz_below(&m->in, 2) ? "qwen2" : "gpt-2");
    gw_array(&m->w, "tokenizer.ggml.tokens", GW_STRING, (uint64_t)n);
    for (i = 0; i < n; i++) {
        maker_token(m, i, n, text);
        gw_raw_string(&m->w, &m->w.kv, text, strlen(text));
    }
    if (!maker_slip(m)) {
        gw_array(&m->w, "tokenizer.ggml.token_type", GW_I32, (uint64_t)n + (maker_slip(m) ? 1 : 0));
        for (i = 0; i < n + (m->point == m->slips[0] || m->point == m->slips[1]); i++)
            gw_uint(&m->w, &m->w.kv, (uint64_t)maker_token(m, i, n, text), 4);
    }
    if (!maker_slip(m)) {
        gw_array(&m->w, "tokenizer.ggml.scores", GW_F32, (uint64_t)n);
        for (i = 0; i < n; i++) {
            float score = (float)-i;
            uint32_t u;
            memcpy(&u, &score, 4);
            gw_uint(&m->w, &m->w.kv, u, 4);
        }
    }
    if (m->tokenizer == 2 || m->tokenizer == 7) gw_strs(&m->w, "tokenizer.ggml.merges", merges, maker_slip(m) ? 6 : 5);
    for (i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", ids[i]);
        if (fuzz_below(&m->in, 2) == 0) continue;
        if (maker_slip(m)) gw_int(&m->w, key, GW_I32, fuzz_below(&m->in, 2) ? n : -1);
        else gw_int(&m->w, key, GW_U32, (int64_t)fuzz_below(&m->in, 12) % n);
    }
    if (fuzz_below(&m->in, 2)) gw_int(&m->w, "tokenizer.ggml.add_bos_token", GW_BOOL, fuzz_below(&m->in, 2));
    if (m->templ) gw_str(&m->w, "tokenizer.chat_template", MAKER_TEMPLATES[m->templ - 1]);
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------- */

static void maker_shape_rwkv(maker *m) {
    int l, few = m->a->norm == INFER__NORM_RMS && maker_mixer(m) == INFER__SUBLAYER_TIME_MIX_6;
    m->rwkv = maker_mixer(m) == INFER__SUBLAYER_TIME_MIX_6 ? 6 : 7;
    m->wkv_rank = 1 + (int)fuzz_below(&m->in, 9);
    m->wkv_dim = 1 + (int)fuzz_below(&m->in, (uint32_t)m->width);
    while (m->width % m->wkv_dim) m->wkv_dim--;
    few = few && m->width / m->wkv_dim % 2 == 0 && fuzz_below(&m->in, 2);
    for (l = 0; l < m->layers; l++) {
        m->heads[l] = few ? m->width / m->wkv_dim : 0;
        m->kv[l] = few ? m->heads[l] / 2 : 0;
        m->ff[l] = m->ff[0];
    }
    m->by_layer = m->moe = 0;
    m->post &= ~3;
}

static void maker_shape(maker *m) {
    static const int odd[] = { 8, 6, 10, 7, 12, 1, 14, 33 }, blocks[] = { 32, 64, 32, 96 }, heads[] = { 1, 2, 3, 4, 2, 6 };
    static const int dims[] = { 4, 2, 6, 8, 10, 16, 18, 32, 34, 24, 66, 130, 3, 1 };
    fuzz_in *in = &m->in;
    int l, size = (int)fuzz_below(in, 16); /* 0..8 odd, ..14 blocks of 32, 15 of 256 */
    int n_dims = size == 15 ? 7 : m->a->rope == INFER__ROPE_NONE ? 14 : 12;
    m->layers = 1 + (int)fuzz_below(in, size == 15 ? 1 : m->a->window_every ? MAKER_LAYERS : 3);
    m->width = size < 9 ? odd[fuzz_below(in, 8)] : size < 15 ? blocks[fuzz_below(in, 4)] : 256;
    m->dim_k = dims[fuzz_below(in, (uint32_t)n_dims)];
    m->dim_v = fuzz_below(in, 4) == 3 ? dims[fuzz_below(in, 14)] : m->dim_k;
    m->by_layer = fuzz_below(in, 4) == 3;
    for (l = 0; l < m->layers; l++) {
        if (l == 0 || m->by_layer) {
            m->heads[l] = heads[fuzz_below(in, 6)];
            m->kv[l] = fuzz_below(in, 2) ? m->heads[l] : m->heads[l] % 2 == 0 && fuzz_below(in, 2) ? 2 : 1;
            m->ff[l] = size < 9 ? 1 + (int)fuzz_below(in, 40) : 32 * (1 + (int)fuzz_below(in, 2));
            if (size == 15) m->ff[l] = 256;
        } else {
            m->heads[l] = m->heads[0];
            m->kv[l] = m->kv[0];
            m->ff[l] = m->ff[0];
        }
    }
    m->rot = fuzz_below(in, 4) == 3 ? 2 * (int)fuzz_below(in, (uint32_t)m->dim_k / 2 + 1) : m->dim_k;
    m->context = 8 + (int)fuzz_below(in, 120);
    m->vocab = 2 + (int)fuzz_below(in, 60);
    if (fuzz_below(in, 8) == 7) m->vocab += 300;
    m->tokens = m->vocab;
    if (maker_slip(m)) m->tokens = m->vocab + (int)fuzz_below(in, 20) - 10;
    if (m->tokens < 1) m->tokens = 1;
    m->moe = (fuzz_below(in, 4) == 3 && m->a->parts != infer__parts_falcon_h1) || m->a->parts == infer__parts_arctic ||
             m->a->parts == infer__parts_dbrx;
    if (m->moe) {
        m->experts = 1 + (int)fuzz_below(in, 6);
        m->used = 1 + (int)fuzz_below(in, (uint32_t)m->experts);
        m->ff_expert = size < 9 ? 1 + (int)fuzz_below(in, 30) : size < 15 ? 32 : 256;
        m->ff_shared = fuzz_below(in, 2) ? m->ff_expert : 0;
    }
    m->fused = (int)fuzz_below(in, 4);
    m->gate = fuzz_below(in, 4) != 3 || m->a->act == INFER__ACT_SITU;
    if (m->a->act == INFER__ACT_SITU) m->fused &= 1;
    m->bias = (int)fuzz_byte(in) & 63;
    if ((m->a->flags & INFER__MATRIX_SCALES) && (m->bias & 1)) m->bias = 1; /* a matrix has a scale or a bias */
    if ((m->a->flags & INFER__QKV_WIDE) && m->dim_v > m->dim_k) m->dim_v = m->dim_k;
    m->qk_norm = (int)fuzz_below(in, 8);
    m->qk_norm = m->qk_norm > 3 ? 0 : m->qk_norm;
    m->post = (int)fuzz_byte(in) & 15;
    if (m->a->flags & INFER__NO_PRE_NORM) m->post |= 3;
    if (m->a->parts == infer__parts_mamba || m->a->parts == infer__parts_nemotron_h || m->a->parts == infer__parts_falcon_h1)
        m->post &= ~3;
    for (l = 0; l + 1 < m->layers && maker_mixer(m) == INFER__SUBLAYER_SHORTCONV; l++) /* the last one rotates */
        if (fuzz_below(in, 2)) {
            m->conv[l] = 1;
            m->kv[l] = 0;
            m->taps = 2 + (int)fuzz_below(in, 5);
        }
    m->ssm_kind = m->a->parts == infer__parts_falcon_h1 ? INFER__SUBLAYER_MAMBA_2 : maker_mixer(m);
    if ((m->ssm_kind < INFER__SUBLAYER_MAMBA || m->ssm_kind > INFER__SUBLAYER_MAMBA_HEADS) &&
        m->ssm_kind != INFER__SUBLAYER_DELTA && m->ssm_kind != INFER__SUBLAYER_KDA && m->ssm_kind != INFER__SUBLAYER_LIGHTNING)
        m->ssm_kind = 0;
    if (m->ssm_kind == INFER__SUBLAYER_KDA || m->ssm_kind == INFER__SUBLAYER_LIGHTNING || m->a->index) m->by_layer = 0;
    if (m->ssm_kind == INFER__SUBLAYER_LIGHTNING) m->dim_v = m->dim_k;
    for (l = 0; l < m->layers && !m->by_layer; l++) { /* as far as that has come already */
        m->heads[l] = m->heads[0];
        m->kv[l] = m->kv[0];
        m->ff[l] = m->ff[0];
    }
    for (l = 0; l < m->layers && m->ssm_kind; l++) {
        const int all = m->a->parts == infer__parts_mamba || m->a->parts == infer__parts_falcon_h1;
        if (all || (l + 1 < m->layers && fuzz_below(in, 2))) { /* the last one has attention, or an FFN */
            m->ssm[l] = m->a->parts == infer__parts_falcon_h1 ? 2 : 1;
            if (m->ssm[l] == 1) m->kv[l] = 0;
        }
        if (m->a->parts == infer__parts_nemotron_h && (m->ssm[l] || l + 1 == m->layers || fuzz_below(in, 2))) m->ff[l] = 0;
    }
    if (m->ssm_kind) {
        m->taps = 2 + (int)fuzz_below(in, 5);
        m->state = 1 + (int)fuzz_below(in, 20);
        m->groups = 1 + (int)fuzz_below(in, 3);
        m->rank = m->groups * (1 + (int)fuzz_below(in, 3));
        m->inner = m->rank * (1 + (int)fuzz_below(in, 30));
        if (size >= 9) m->inner = m->rank = m->groups = size == 15 ? 256 : 32; /* blocks of quantised rows */
        if (size >= 9 && (m->ssm_kind == INFER__SUBLAYER_MAMBA_2 || m->ssm_kind == INFER__SUBLAYER_DELTA))
            m->groups = 1 << fuzz_below(in, 3);
    }
    if (m->ssm_kind == INFER__SUBLAYER_KDA) {
        m->rank = m->groups = m->heads[0];
        m->inner = m->rank * (m->state = size < 9 ? 1 + (int)fuzz_below(in, 20) : 32);
    }
    if (m->a->parts == infer__parts_rwkv) maker_shape_rwkv(m);
    if (m->a->parts == infer__parts_kimi_k3 && m->moe && fuzz_below(in, 2)) m->expert_in = 1 + (int)fuzz_below(in, 40);
    if (m->a->keys == infer__switch_keys) {
        m->adapters = 1 + (int)fuzz_below(in, 3);
        m->low_rank = size == 15 ? 32 : 1 + (int)fuzz_below(in, 9);
    }
    if (m->a->keys == infer__hyper_keys) m->hyper = 2 + (int)fuzz_below(in, 4);
    if (m->a->keys == infer__cycles_keys) {
        static const int shapes[][3] = { { 1, 1, 2 }, { 1, 2, 3 }, { 2, 1, 4 }, { 1, 1, 4 }, { 1, 2, 6 }, { 2, 2, 6 } };
        const int *shape = shapes[fuzz_below(in, size == 15 ? 1 : 6)];
        m->cycle = shape[0];
        m->low = shape[1];
        m->layers = shape[2];
        m->by_layer = 0;
        for (l = 1; l < m->layers; l++) {
            m->heads[l] = m->heads[0];
            m->kv[l] = m->kv[0];
            m->ff[l] = m->ff[0];
        }
    }
    if (m->a->parts == infer__parts_latent || m->a->parts == infer__parts_kimi_k3 || m->hyper) {
        if (m->dim_k < 2) m->dim_k = 2;
        m->rot = 2 * (1 + (int)fuzz_below(in, (uint32_t)m->dim_k / 2));
        m->latent = size < 9 ? 1 + (int)fuzz_below(in, 40) : size < 15 ? 32 * (1 + (int)fuzz_below(in, 3)) : 256;
        if (fuzz_below(in, 2)) m->latent_q = size < 9 ? 1 + (int)fuzz_below(in, 20) : size < 15 ? 32 : 256;
        m->absorbed = m->rot < m->dim_k && fuzz_below(in, 2);
        for (l = 0; l < m->layers; l++)
            if (m->kv[l] != m->heads[l] && m->kv[l]) m->kv[l] = 1;
    }
    if (m->a->index) {
        m->index_heads = m->latent ? 1 + (int)fuzz_below(in, 4) : m->kv[0];
        m->index_dim = m->rot + (int)fuzz_below(in, 20);
        if (m->index_dim < 1) m->index_dim = 1;
        if (m->latent && !m->latent_q) m->latent_q = 32;
        for (l = 1; l < m->layers && (m->a->flags & INFER__INDEX_SHARED); l++) m->index_shared[l] = (int)fuzz_below(in, 2);
    }
    if (m->a->keys == infer__deepseek4_keys) maker_shape_compressed(m, size);
    if (m->a->keys == infer__qwen4exp_keys) maker_shape_low(m, size);
    if (m->a->flags & INFER__Q_GATED) {
        m->dim_v = m->dim_k;
        m->fused &= 2;
        m->qk_norm = 1;
    }
    if (m->a->flags & INFER__ROPE_HALF) m->rot &= ~3;
    if (m->a->flags & INFER__V_NORM_BARE) {
        m->streams = m->a->flags & INFER__SPARSE ? 2 + (int)fuzz_below(in, 4) : 0;
        if (m->streams || fuzz_below(in, 2)) m->per_layer = size < 9 ? 1 + (int)fuzz_below(in, 12) : 32;
        m->laurel = size < 9 ? 1 + (int)fuzz_below(in, 9) : 32;
        m->shared = m->by_layer || m->layers < 2 ? 0 : (int)fuzz_below(in, (uint32_t)m->layers);
        if (m->shared) m->fused &= 2;
        if (m->streams) m->moe = 0;
    }
    if (m->a->encoder || m->a->decoder) maker_shape_encoder(m, size);
    maker_shape_needs(m);
    for (l = 0; l < m->layers && m->a->parts == infer__parts_arctic; l++) {
        m->ff[l] = m->width;
        m->post &= ~3;
    }
    m->row_types = (int)fuzz_byte(in);
    m->fill = (int)fuzz_byte(in);
    m->fill = m->fill < 225 ? 0 : m->fill % 3 + 1;
    m->tokenizer = (int)fuzz_below(in, MAKER_N_MODELS);
    m->templ = (int)fuzz_below(in, MAKER_N_TEMPLATES + 1);
}

static void maker_rope(maker *m) {
    static const float bases[] = { 10000, 1e6f, 500, 1.5f };
    static const char *const kinds[] = { NULL, "linear", "yarn", "longrope", "none", "su", "bad" };
    int kind = (int)fuzz_below(&m->in, 12);
    char key[160];
    if (m->a->rope == INFER__ROPE_NONE) return;
    if (fuzz_below(&m->in, 2)) maker_float_key(m, "rope.freq_base", bases[fuzz_below(&m->in, 4)]);
    if (kind >= 7 || !kinds[kind]) return;
    if (kind == 6 && !maker_slip(m)) return;
    gw_str(&m->w, maker_key(m, "rope.scaling.type", key), kinds[kind]);
    maker_float_key(m, "rope.scaling.factor", kind == 3 || kind == 5 ? 1.0f : 1.0f + (float)fuzz_below(&m->in, 60) / 4);
    if (fuzz_below(&m->in, 2)) maker_int(m, "rope.scaling.original_context_length", 4 + (int)fuzz_below(&m->in, 100));
    if (fuzz_below(&m->in, 2)) maker_float_key(m, "rope.scaling.attn_factor", 0.5f + (float)fuzz_below(&m->in, 8) / 4);
    if (kind == 3 || kind == 5) {
        int half = m->rot / (m->a->flags & INFER__ROPE_HALF ? 4 : 2);
        maker_tensor(m, "rope_factors_long.weight", 'n', (uint64_t)half, 1, 1);
        maker_tensor(m, "rope_factors_short.weight", 'n', (uint64_t)half, 1, 1);
    }
}

/* Keys that only some rows follow. */
static void maker_row_keys(maker *m) {
    static const char *const xielu[] = { "xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps" };
    static const char *const acts[] = { "silu", "relu2", "relu", "gelu", "gelu_new", "other" };
    const infer__arch *a = m->a;
    char key[160];
    int i;
    for (i = 0; i < 4 && a->act == INFER__ACT_XIELU; i++) {
        if (maker_slip(m)) continue;
        gw_f32(&m->w, xielu[i], i == 3 ? -1e-6f : 0.25f * (float)fuzz_below(&m->in, 8));
    }
    if (a->act_by_key && fuzz_below(&m->in, 2))
        gw_str(&m->w, maker_key(m, "hidden_activation", key), acts[maker_slip(m) ? 5 : fuzz_below(&m->in, 5)]);
    if ((a->flags & INFER__ROPE_SECTIONS) && fuzz_below(&m->in, 2)) {
        int64_t sections[4] = { 0 };
        for (i = 0; i < 3; i++) sections[i] = (int64_t)fuzz_below(&m->in, 20);
        if (maker_slip(m)) sections[3] = (int64_t)fuzz_byte(&m->in) - 100;
        gw_ints(&m->w, maker_key(m, "rope.dimension_sections", key), GW_I32, sections, maker_slip(m) ? fuzz_below(&m->in, 3) : 4);
    }
    if (a->flags & INFER__V_NORM_BARE) {
        maker_int(m, "embedding_length_per_layer_input", m->per_layer);
        maker_int(m, "attention.shared_kv_layers", m->shared);
        if (m->streams != 4 || fuzz_below(&m->in, 2)) {
            if (m->streams) maker_int(m, "altup.num_inputs", m->streams);
            if (m->streams) maker_int(m, "altup.active_idx", 0);
        }
    }
    if ((a->flags & INFER__SPARSE) && fuzz_below(&m->in, 2)) {
        int n = m->layers + maker_slip(m);
        gw_array(&m->w, maker_key(m, "activation_sparsity_scale", key), GW_F32, (uint64_t)n);
        for (i = 0; i < n; i++) {
            float v = maker_slip(m) ? (float)NAN : fuzz_below(&m->in, 2) ? (float)fuzz_below(&m->in, 20) / 8 : -INFINITY;
            uint32_t u;
            memcpy(&u, &v, 4);
            gw_uint(&m->w, &m->w.kv, u, 4);
        }
    }
    if (a->full_every) {
        int64_t other[MAKER_LAYERS];
        for (i = 0; i < m->layers; i++) other[i] = m->ssm[i] != 0;
        gw_ints(&m->w, maker_key(m, "attention.recurrent_layers", key), GW_I32, other, (size_t)m->layers - (maker_slip(m) ? 1 : 0));
    }
    for (i = 0; i < 2 && (a->flags & (INFER__CLAMPS | INFER__CLAMPS_BEFORE)); i++)
        if (fuzz_below(&m->in, 2) && (i == 0 || (a->flags & INFER__CLAMPS)))
            maker_float_key(m, i ? "swiglu_clamp_shexp" : "swiglu_clamp_exp", (float)fuzz_below(&m->in, 12) / 8);
    if (m->rwkv) {
        static const char *const ranks[] = { "decay", "iclr", "value_residual_mix", "gate" };
        maker_int(m, "wkv.head_size", m->wkv_dim);
        if (fuzz_below(&m->in, 2)) maker_int(m, "token_shift_count", a->norm == INFER__NORM_LAYER ? 2 : 1);
        if (a->keys == infer__rwkv6_keys && fuzz_below(&m->in, 2)) maker_int(m, "rescale_every_n_layers", 1 + (int)fuzz_below(&m->in, 4));
        if (m->rwkv == 6) maker_int(m, "time_mix_extra_dim", m->wkv_rank);
        if (m->rwkv == 6) maker_int(m, "time_decay_extra_dim", m->wkv_rank + 1);
        for (i = 0; i < 3 + ((m->post & 4) != 0) && m->rwkv == 7; i++) {
            char name[64];
            snprintf(name, sizeof name, "attention.%s_lora_rank", ranks[i]);
            maker_int(m, name, m->wkv_rank + i);
        }
    }
    for (i = 0; i < m->layers && !m->ssm[i]; i++) continue;
    if (m->ssm_kind == INFER__SUBLAYER_KDA && i < m->layers) {
        maker_int(m, "ssm.conv_kernel", m->taps);
        maker_int(m, "kda.head_dim", m->state);
        if (a->flags & INFER__KDA_A_PLUS) gw_int(&m->w, maker_key(m, "kda.safe_gate", key), GW_BOOL, !maker_slip(m));
        if ((a->flags & INFER__KDA_A_PLUS) || ((a->flags & INFER__KDA_BOUND) && fuzz_below(&m->in, 2)))
            maker_float_key(m, "kda.gate_lower_bound", -5.0f);
    }
    if (m->expert_in) maker_int(m, "expert_latent_length", m->expert_in);
    if (a->parts == infer__parts_kimi_k3) maker_int(m, "attn_res.block_size", 1 + (int)fuzz_below(&m->in, 4));
    if (m->hyper && !m->hyper_rank) {
        maker_int(m, "hyper_connection.count", m->hyper);
        maker_float_key(m, "hyper_connection.epsilon", 1e-6f);
        if (m->out_groups) maker_compressed_keys(m);
        else maker_float_key(m, "hyper_connection.magnitude", 2.0f);
    }
    if (m->hyper_rank) {
        maker_int(m, "hyper_connection.count", m->hyper);
        maker_int(m, "hyper_connection.low_rank", m->hyper_rank);
        maker_gram_keys(m);
    }
    if (m->adapters) {
        int64_t ids[3];
        maker_int(m, "adapters.count", m->adapters);
        maker_int(m, "adapters.lora_rank", m->low_rank);
        if (fuzz_below(&m->in, 2)) maker_float_key(m, "adapters.router_gain", 0.5f + (float)fuzz_below(&m->in, 20));
        for (i = 0; i < m->adapters; i++) ids[i] = maker_slip(m) ? m->vocab : (i + 1) % m->vocab;
        gw_ints(&m->w, maker_key(m, "adapters.token_ids_activate", key), GW_I32, ids, (size_t)m->adapters);
        for (i = 0; i < m->adapters; i++) ids[i] = maker_slip(m) ? -1 : (i + 5) % m->vocab;
        gw_ints(&m->w, maker_key(m, "adapters.token_ids_substitute", key), GW_I32, ids, (size_t)m->adapters - (maker_slip(m) ? 1 : 0));
    }
    if (m->cycle) {
        maker_int(m, "hrm.layers_per_stack", m->cycle);
        maker_int(m, "hrm.l_cycles", m->low);
        maker_int(m, "hrm.h_cycles", m->layers / (m->cycle * (m->low + 1)));
    }
    if (m->index_heads) {
        int64_t own[MAKER_LAYERS];
        maker_int(m, "attention.indexer.head_count", m->index_heads);
        maker_int(m, "attention.indexer.key_length", m->index_dim);
        maker_int(m, "attention.indexer.top_k", (m->means && !maker_slip(m) ? m->means : 1) + (int)fuzz_below(&m->in, 20));
        if (!m->latent && !m->out_groups && !m->means) {
            maker_int(m, "attention.indexer.block_size", 1 + (int)fuzz_below(&m->in, 9));
            maker_int(m, "attention.indexer.local_blocks", (int)fuzz_below(&m->in, 2));
        }
        for (i = 0; i < m->layers && m->means; i++) own[i] = maker_slip(m) ? 3 : m->means;
        if (m->means) gw_ints(&m->w, maker_key(m, "attention.compress_ratios", key), GW_I32, own, (size_t)m->layers - (maker_slip(m) ? 1 : 0));
        for (i = 0; i < m->layers; i++) own[i] = !m->index_shared[i] && !m->window[i];
        if (a->flags & INFER__INDEX_SHARED)
            gw_ints(&m->w, maker_key(m, "attention.indexer.types", key), GW_I32, own, (size_t)m->layers - (maker_slip(m) ? 1 : 0));
    }
    if ((a->flags & INFER__ROPE_ALPHA) && fuzz_below(&m->in, 2)) maker_float_key(m, "rope.scaling.alpha", 1.0f + (float)fuzz_below(&m->in, 40));
}

static void maker_keys(maker *m) {
    const infer__arch *a = m->a;
    fuzz_in *in = &m->in;
    char key[160];
    int i;
    gw_str(&m->w, "general.architecture", maker_slip(m) ? "llamas" : a->name);
    maker_int(m, "embedding_length", m->width);
    maker_int(m, "block_count", m->layers);
    maker_int(m, "context_length", m->context);
    maker_layer_ints(m, "attention.head_count", m->heads);
    maker_layer_ints(m, "attention.head_count_kv", m->kv);
    if (a->flags & INFER__FF_TWICE) {
        int l, twice[MAKER_LAYERS] = { 0 };
        for (l = 0; l < m->layers; l++) twice[l] = 2 * m->ff[l];
        maker_layer_ints(m, "feed_forward_length", twice);
    } else maker_layer_ints(m, "feed_forward_length", m->ff);
    if (m->latent) maker_int(m, "attention.kv_lora_rank", m->latent);
    if (m->latent_q) maker_int(m, "attention.q_lora_rank", m->latent_q);
    if (m->absorbed) {
        maker_int(m, "attention.key_length_mla", m->dim_k);
        maker_int(m, "attention.value_length_mla", m->dim_v);
        if (fuzz_below(in, 2)) maker_int(m, "attention.key_length", m->latent + m->rot);
        if (fuzz_below(in, 2)) maker_int(m, "attention.value_length", m->latent);
    } else {
        if (m->dim_k * m->heads[0] != m->width || m->by_layer || m->out_groups || fuzz_below(in, 2)) maker_int(m, "attention.key_length", m->dim_k);
        if (m->dim_v * m->heads[0] != m->width || m->by_layer || fuzz_below(in, 2)) maker_int(m, "attention.value_length", m->dim_v);
    }
    if (m->taps && !m->ssm_kind) maker_int(m, "shortconv.l_cache", m->taps);
    for (i = 0; i < m->layers && !m->ssm[i]; i++) continue;
    if (i < m->layers && m->ssm_kind != INFER__SUBLAYER_KDA && m->ssm_kind != INFER__SUBLAYER_LIGHTNING) {
        maker_int(m, "ssm.conv_kernel", m->taps);
        maker_int(m, "ssm.inner_size", m->inner);
        maker_int(m, "ssm.state_size", m->state);
        maker_int(m, "ssm.time_step_rank", m->rank);
        if (m->ssm_kind == INFER__SUBLAYER_MAMBA_2 || m->ssm_kind == INFER__SUBLAYER_DELTA)
            maker_int(m, "ssm.group_count", m->groups);
        if (m->ssm_kind == INFER__SUBLAYER_MAMBA && fuzz_below(in, 2))
            gw_int(&m->w, maker_key(m, "ssm.dt_b_c_rms", key), GW_BOOL, fuzz_below(in, 2));
    }
    if (a->rope != INFER__ROPE_NONE || m->latent) maker_int(m, "rope.dimension_count", m->rot);
    maker_float_key(m, a->norm == INFER__NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
                    fuzz_below(in, 2) ? 1e-6f : 1e-5f);
    if (m->moe) {
        maker_int(m, "expert_count", m->experts);
        maker_int(m, "expert_used_count", m->used);
        if (fuzz_below(in, 2)) maker_int(m, "expert_feed_forward_length", m->ff_expert);
        if (m->ff_shared) maker_int(m, "expert_shared_feed_forward_length", m->ff_shared);
    }
    if ((a->window_every || (a->flags & INFER__WINDOW_ALL)) && (fuzz_below(in, 4) || m->out_groups)) {
        maker_int(m, "attention.sliding_window", 1 + (int)fuzz_below(in, 30));
        if (m->out_groups ? maker_slip(m) : fuzz_below(in, 4) == 3 || a->window_every == INFER__WINDOW_BY_FILE || m->shared) {
            int64_t on[MAKER_LAYERS];
            int l;
            for (l = 0; l < m->layers; l++) on[l] = m->shared && l ? on[0] : (int64_t)fuzz_below(in, 2);
            for (l = 0; l < m->layers; l++) m->window[l] = on[l] != 0;
            gw_ints(&m->w, maker_key(m, "attention.sliding_window_pattern", key), GW_I32, on, (size_t)m->layers - (maker_slip(m) ? 1 : 0));
        }
    }
    maker_rope(m);
    maker_row_keys(m);
    if (fuzz_below(in, 4) == 3) maker_float_key(m, "embedding_scale", 2.5f);
    if (fuzz_below(in, 4) == 3) maker_float_key(m, "residual_scale", 0.5f);
    if ((a->flags & (INFER__LOGITS_TIMES | INFER__LOGITS_OVER)) && fuzz_below(in, 2)) maker_float_key(m, "logit_scale", 0.25f);
    if (fuzz_below(in, 4) == 3) maker_float_key(m, a->flags & INFER__ATTN_SCALE_OUT ? "attention.output_scale" : "attention.scale", 0.3f);
    if (fuzz_below(in, a->flags & INFER__ATTN_CAP ? 2 : 32) == 1) maker_float_key(m, "attn_logit_softcapping", 20.0f);
    if (fuzz_below(in, a->flags & INFER__FINAL_CAP ? 2 : 32) == 1) maker_float_key(m, "final_logit_softcapping", 10.0f);
    if (fuzz_below(in, m->latent || m->out_groups ? 32 : 4) == 3) maker_float_key(m, "attention.clamp_kqv", 1.5f);
    if (a->flags & INFER__ALIBI && fuzz_below(in, 2)) maker_float_key(m, "attention.max_alibi_bias", 4.0f);
    if (a->flags & INFER__ATTN_TEMPERATURE && fuzz_below(in, 2)) maker_float_key(m, "attention.temperature_scale", 0.1f);
    if (m->a->encoder || m->a->decoder) maker_encoder_keys(m);
    else if (fuzz_below(in, 8) == 7) maker_int(m, "pooling_type", (int64_t)fuzz_below(in, 5));
    if (a->flags & INFER__PARALLEL_BY_KEY && fuzz_below(in, 2))
        gw_int(&m->w, maker_key(m, "use_parallel_residual", key), GW_BOOL, fuzz_below(in, 2));
    if (maker_slip(m)) gw_int(&m->w, maker_key(m, "attention.causal", key), GW_BOOL, 0);
    if (maker_slip(m)) gw_int(&m->w, maker_key(m, "unheard_of", key), GW_U32, 1);
}

static void maker_init(maker *m, const uint8_t *data, size_t size) {
    int i, mess;
    memset(m, 0, sizeof *m);
    m->stack = "";
    m->in.p = data;
    m->in.n = size;
    m->a = &INFER__ARCHS[fuzz_below(&m->in, MAKER_ARCHS)];
    mess = (int)fuzz_below(&m->in, 4) - 1; /* half of the models are right */
    for (i = 0; i < MAKER_SLIPS && i < mess; i++) m->slips[i] = 1 + (int)(fuzz_word(&m->in) % 260);
    m->seed = 1 + fuzz_byte(&m->in);
    maker_shape(m);
}

/* Parts in order; slips: another number, count or number of tensors, the same part twice, a part less. */
static void maker_split(maker *m) {
    uint64_t tensors = m->w.n_tensors;
    int i, wrong = (int)fuzz_below(&m->in, 6);
    for (i = 1; i < m->parts; i++) tensors += m->more[i - 1].n_tensors;
    for (i = 0; i < m->parts; i++) {
        gguf_writer *w = i ? &m->more[i - 1] : &m->w;
        int slip = maker_slip(m);
        gw_split(w, i + (slip && wrong == 0), m->parts + (slip && wrong == 1) - (slip && wrong == 2) * 2, (int)tensors + (slip && wrong == 3));
        m->part[i] = gw_finish(w, &m->part_n[i]);
        if (slip && wrong == 4 && i > 0) {
            free(m->part[i]);
            m->part[i] = (unsigned char *)malloc(m->part_n[0]);
            if (m->part[i]) memcpy(m->part[i], m->part[0], m->part_n[i] = m->part_n[0]);
        }
    }
    if (maker_slip(m)) free(m->part[--m->parts]);
}

static void maker_free(maker *m) {
    int i;
    for (i = 0; i < m->parts; i++) free(m->part[i]);
    m->parts = 0;
}

/* The file; the writer is empty afterwards. */
static unsigned char *maker_file(maker *m, size_t *n) {
    const int t5 = m->a->parts == infer__parts_t5, bert = m->a->parts == infer__parts_bert;
    int l, learnt = m->a->rope == INFER__ROPE_NONE && !(m->a->flags & INFER__ALIBI) && !t5 && m->a->fixup != infer__fix_alibi;
    m->parts = fuzz_below(&m->in, 8) == 7 ? 2 + (int)fuzz_below(&m->in, MAKER_PARTS - 1) : 1;
    gw_init(&m->w);
    for (l = 1; l < m->parts; l++) gw_init(&m->more[l - 1]);
    maker_keys(m);
    maker_vocabulary(m);
    maker_tensor(m, "token_embd.weight", 'm', (uint64_t)m->width, (uint64_t)m->vocab, 1);
    if (learnt || maker_slip(m)) maker_tensor(m, "position_embd.weight", 'm', (uint64_t)m->width, (uint64_t)m->context, 1);
    if (!(m->a->flags & INFER__EMBD_NORM_IS_OUT) && !t5 && (fuzz_below(&m->in, 4) >= (bert ? 1 : 3) || maker_needs(m, INFER__W_EMBD_NORM)))
        maker_norm(m, -1, "token_embd_norm", m->bias & 1, m->width, 1);
    if (m->a->encoder || t5) maker_encoder_front(m);
    else if (!(m->a->flags & INFER__NORM_BARE) && !m->hyper_rank) maker_norm(m, -1, m->a->flags & INFER__EMBD_NORM_IS_OUT ? "token_embd_norm" : "output_norm", maker_norm_bias(m), m->width, 1);
    if (!m->a->encoder && (fuzz_below(&m->in, 2) || maker_needs(m, INFER__W_OUTPUT))) maker_tensor(m, "output.weight", 'm', (uint64_t)m->width, (uint64_t)m->vocab, 1);
    if (fuzz_below(&m->in, 8) == 7 || maker_needs(m, INFER__W_OUTPUT_B)) maker_tensor(m, "output.bias", 'v', (uint64_t)m->vocab, 1, 1);
    if (m->a->rope != INFER__ROPE_NONE && ((!m->shared && fuzz_below(&m->in, 8) == 7) || (maker_needs(m, INFER__W_ROPE_FREQS) && !maker_slip(m))))
        maker_tensor(m, "rope_freqs.weight", 'n', (uint64_t)m->rot / (m->a->flags & INFER__ROPE_HALF ? 4 : 2), 1, 1);
    maker_streams_model(m);
    if (m->grams) maker_grams(m, -1);
    if (m->a->parts == infer__parts_kimi_k3) maker_tensor(m, "output_res_score.weight", 'n', (uint64_t)m->width, 1, 1);
    if (m->hyper) maker_hyper(m, -1);
    if (m->cycle) maker_tensor(m, "hrm.z_l_init", 'v', (uint64_t)m->width, 1, 1);
    if (t5) maker_stacks(m);
    else for (l = 0; l < (m->cycle ? 2 * m->cycle : m->layers); l++) maker_layer(m, l);
    if (maker_slip(m)) m->w.n_tensors += fuzz_below(&m->in, 2) ? 1 : (uint64_t)1 << 40;
    if (maker_slip(m)) m->w.n_kv += fuzz_below(&m->in, 2) ? 1 : (uint64_t)1 << 60;
    if (maker_slip(m)) m->w.cut_padding = 1;
    if (m->parts > 1) maker_split(m);
    else m->part[0] = gw_finish(&m->w, &m->part_n[0]);
    *n = m->part_n[0];
    return m->part[0];
}

/* Model `number` of INFER__ARCHS[row] without slips, its weights of ordinary sizes; as maker_file gives it. */
static unsigned char *maker_numbered(maker *m, uint32_t row, uint32_t number, size_t *n) {
    uint8_t bytes[120];
    uint32_t x = (number + row * 7919) * 2654435761u;
    size_t i;
    unsigned char *file;
    for (i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
    bytes[0] = (uint8_t)row;
    bytes[1] = 0;
    maker_init(m, bytes, sizeof bytes);
    m->fill = 0;
    file = maker_file(m, n);
    m->in.n = 0; /* bytes are this function's */
    return file;
}

/* The first such model of at most max_bytes that can be computed, made and opened. NULL when none of `tries` can. */
static infer_model *maker_computed(maker *m, uint32_t row, uint32_t *number, uint32_t tries, size_t max_bytes) {
    infer_model_params p;
    infer_model *model = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.backend = INFER_CPU;
    p.allow_default_pre = 1;
    for (; tries; tries--, ++*number) {
        size_t n;
        unsigned char *file = maker_numbered(m, row, *number, &n);
        if (m->parts == 1 && n <= max_bytes && infer_model_open_memory(&model, file, n, &p, &e) == INFER_OK) {
            if (!infer_model_why_not(model)[0]) return model; /* and keeps its file */
            infer_model_close(model);
            model = NULL;
        }
        maker_free(m);
    }
    return NULL;
}
#endif
