/* maker_mixers.h: the mixers of model_maker.h's layers: attention of both kinds and what chooses its positions, short
 * convolutions, state spaces, delta nets of both kinds, lightning attention, RWKV. Shapes come from the maker's fields; model_maker.h includes this file where those and maker_linear are known. */

/* What only some rows have around the heads. */
static void maker_row_attention(maker *m, int l) {
    static const char *const scaled[] = { "attn_q", "attn_k", "attn_v", "attn_output" };
    const uint64_t flags = m->a->flags;
    if (flags & INFER__Q_NORM_HEADS) maker_norm(m, l, "attn_q_norm", 0, m->heads[l], 1);
    if (m->a->gate && !(flags & INFER__Q_GATED) && ((flags & INFER__GATE_NEEDED) || (m->post & 4)))
        maker_linear(m, l, "attn_gate", 0, m->width, m->post & 8 ? m->heads[l] : m->heads[l] * m->dim_v);
    if (!(flags & INFER__MATRIX_SCALES)) return;
    if (m->post & 4) maker_norm(m, l, "attn_sub_norm", 0, m->heads[l] * m->dim_v, 1);
    if (!(m->fused & 1)) maker_scales(m, l, scaled, 4);
}

/* Indexers: of latent attention, or of the usual. */
static void maker_index(maker *m, int l) {
    const int q = m->index_heads * m->index_dim;
    if (!m->index_heads || m->window[l] || m->index_shared[l]) return;
    if (m->latent) maker_linear(m, l, "indexer.attn_q_b", 0, m->latent_q, q);
    else maker_linear(m, l, "indexer.q_proj", 0, m->width, q);
    maker_linear(m, l, m->latent ? "indexer.attn_k" : "indexer.k_proj", 0, m->width, m->index_dim);
    maker_norm(m, l, "indexer.k_norm", m->latent && (m->bias & 1), m->index_dim, 1);
    if (m->latent) maker_linear(m, l, "indexer.proj", 0, m->width, m->index_heads);
    else maker_norm(m, l, "indexer.q_norm", 0, m->index_dim, 1);
}

static void maker_attention(maker *m, int l) {
    int q = m->heads[l] * m->dim_k * (m->a->flags & INFER__Q_GATED ? 2 : 1), k = m->kv[l] * m->dim_k, v = m->kv[l] * m->dim_v, i;
    int k_is_v = (m->a->flags & INFER__V_MAY_BE_K) && (m->post & 8) && m->dim_k == m->dim_v;
    if (l >= m->layers - m->shared && !(m->post & 1)) maker_linear(m, l, "attn_q", 0, m->width, q);
    else if (m->fused & 1) maker_linear(m, l, "attn_qkv", m->bias & 2, m->width, m->a->flags & INFER__QKV_WIDE ? 3 * q : q + k + v);
    else {
        maker_linear(m, l, "attn_q", m->bias & 2, m->width, q);
        maker_linear(m, l, "attn_k", m->bias & 2, m->width, k);
        if (!k_is_v || maker_slip(m)) maker_linear(m, l, "attn_v", m->bias & 4, m->width, v);
    }
    maker_row_attention(m, l);
    maker_index(m, l);
    for (i = 0; i < 2 && m->qk_norm && !(m->a->flags & (INFER__Q_NORM_HEADS | INFER__QK_NORM_BARE)); i++) { /* 1: one for every head; 2: over the row; 3: one per head */
        int heads = i ? m->kv[l] : m->heads[l];
        maker_norm(m, l, i ? "attn_k_norm" : "attn_q_norm", (m->bias & 8) != 0, m->qk_norm == 2 ? heads * m->dim_k : m->dim_k,
                   m->qk_norm == 3 ? heads : 1);
    }
    if (m->post & 8) {
        char full[64];
        snprintf(full, sizeof full, "blk.%d.attn_sinks.weight", l);
        maker_tensor(m, full, 'v', (uint64_t)m->heads[l], 1, 1);
    }
    maker_linear(m, l, "attn_output", m->bias & 16, m->heads[l] * m->dim_v, m->width);
}

static void maker_conv(maker *m, int l) {
    char full[64];
    maker_linear(m, l, "shortconv.in_proj", 0, m->width, 3 * m->width);
    snprintf(full, sizeof full, "blk.%d.shortconv.conv.weight", l);
    maker_tensor(m, full, 'n', (uint64_t)m->taps, (uint64_t)m->width, 1);
    maker_linear(m, l, "shortconv.out_proj", 0, m->width, m->width);
}

/* Vectors and rows of floats, as the library reads them. */
static void maker_ssm_tensor(maker *m, int l, const char *name, char kind, int cols, int rows) {
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s", l, name);
    maker_tensor(m, full, kind, (uint64_t)cols, (uint64_t)rows, 1);
}

static void maker_ssm(maker *m, int l) {
    const int two = m->ssm_kind == INFER__SUBLAYER_MAMBA_2, old = m->ssm_kind == INFER__SUBLAYER_MAMBA;
    const int heads = old ? m->inner : m->rank, conv = m->inner + (two ? 2 * m->groups * m->state : 0);
    const int rank = old ? m->rank : m->width / 16 > 64 ? m->width / 16 : 64;
    maker_linear(m, l, "ssm_in", 0, m->width, two ? m->inner + conv + heads : 2 * m->inner);
    maker_ssm_tensor(m, l, "ssm_conv1d.weight", 'n', m->taps, conv);
    if (m->bias & 2) maker_ssm_tensor(m, l, "ssm_conv1d.bias", 'v', conv, 1);
    if (!two) {
        maker_linear(m, l, "ssm_x", 0, m->inner, rank + 2 * m->state);
        maker_linear(m, l, "ssm_dt", 0, rank, heads);
        if (m->post & 4) {
            maker_norm(m, l, "ssm_dt_norm", 0, rank, 1);
            maker_norm(m, l, "ssm_b_norm", 0, m->state, 1);
            maker_norm(m, l, "ssm_c_norm", 0, m->state, 1);
        }
    } else if (m->post & 4) maker_norm(m, l, "ssm_norm", 0, m->inner / m->groups, m->groups);
    maker_ssm_tensor(m, l, "ssm_dt.bias", 'v', heads, 1);
    maker_ssm_tensor(m, l, "ssm_a", 'v', old ? m->state : 1, heads);
    maker_ssm_tensor(m, l, "ssm_d", 'v', heads, 1);
    maker_linear(m, l, "ssm_out", 0, m->inner, m->width);
}

/* Queries by one matrix or two, keys and values in one tensor or two. */
static void maker_latent(maker *m, int l) {
    const int h = m->heads[l], q = h * m->dim_k, nope = m->dim_k - m->rot, rank = m->latent;
    char full[64];
    if (m->latent_q) {
        maker_linear(m, l, "attn_q_a", 0, m->width, m->latent_q);
        maker_norm(m, l, "attn_q_a_norm", 0, m->latent_q, 1);
        maker_linear(m, l, "attn_q_b", 0, m->latent_q, q);
    } else maker_linear(m, l, "attn_q", 0, m->width, q);
    maker_linear(m, l, "attn_kv_a_mqa", 0, m->width, rank + m->rot);
    maker_norm(m, l, "attn_kv_a_norm", 0, rank, 1);
    if (!m->absorbed) maker_linear(m, l, "attn_kv_b", 0, rank, h * (nope + m->dim_v));
    else {
        snprintf(full, sizeof full, "blk.%d.attn_k_b.weight", l);
        maker_tensor(m, full, 'm', (uint64_t)nope, (uint64_t)rank, (uint64_t)h);
        snprintf(full, sizeof full, "blk.%d.attn_v_b.weight", l);
        maker_tensor(m, full, 'm', (uint64_t)rank, (uint64_t)m->dim_v, (uint64_t)h);
    }
    if (m->a->gate && ((m->a->flags & INFER__GATE_NEEDED) || (m->post & 4)))
        maker_linear(m, l, "attn_gate", 0, m->width, m->post & 8 ? h : h * m->dim_v);
    if (m->a->index && (m->bias & 2)) maker_norm(m, l, "attn_k_norm", 0, m->rot, 1);
    maker_index(m, l);
    maker_linear(m, l, "attn_output", 0, h * m->dim_v, m->width);
}

static void maker_delta(maker *m, int l) {
    const int conv = m->inner + 2 * m->groups * m->state;
    maker_linear(m, l, "attn_qkv", 0, m->width, conv);
    maker_linear(m, l, "attn_gate", 0, m->width, m->inner);
    if (m->post & 4) maker_linear(m, l, "ssm_ba", 0, m->width, 2 * m->rank);
    else {
        maker_linear(m, l, "ssm_beta", 0, m->width, m->rank);
        maker_linear(m, l, "ssm_alpha", 0, m->width, m->rank);
    }
    maker_ssm_tensor(m, l, "ssm_conv1d.weight", 'n', m->taps, conv);
    maker_ssm_tensor(m, l, "ssm_dt.bias", 'v', m->rank, 1);
    maker_ssm_tensor(m, l, "ssm_a", 'v', m->rank, 1);
    maker_norm(m, l, "ssm_norm", 0, m->inner / m->rank, 1);
    maker_linear(m, l, "ssm_out", 0, m->inner, m->width);
}

/* Kimi delta attention: gates by one matrix or by two. */
static void maker_kda(maker *m, int l) {
    static const char *const three[] = { "q", "k", "v" };
    const int few = 1 + m->inner / 3;
    char name[32];
    int i;
    for (i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "attn_%s", three[i]);
        maker_linear(m, l, name, 0, m->width, m->inner);
        snprintf(name, sizeof name, "ssm_conv1d_%s.weight", three[i]);
        maker_ssm_tensor(m, l, name, 'n', m->taps, m->inner);
    }
    for (i = 0; i < 2; i++) {
        const int two = m->post & (i ? 4 : 8);
        snprintf(name, sizeof name, "ssm_%c%s", i ? 'g' : 'f', i && !two ? "" : "_a");
        maker_linear(m, l, name, 0, m->width, two ? few : m->inner);
        snprintf(name, sizeof name, "ssm_%c_b", i ? 'g' : 'f');
        if (two) maker_linear(m, l, name, 0, few, m->inner);
    }
    maker_linear(m, l, "ssm_beta", 0, m->width, m->rank);
    maker_ssm_tensor(m, l, "ssm_dt.bias", 'v', m->inner, 1);
    maker_ssm_tensor(m, l, "ssm_a", m->a->flags & INFER__KDA_A_PLUS ? 'n' : 'v', m->rank, 1);
    maker_norm(m, l, "ssm_norm", 0, m->inner / m->rank, 1);
    maker_linear(m, l, "attn_output", 0, m->inner, m->width);
}

static void maker_lightning(maker *m, int l) {
    const int inner = m->heads[l] * m->dim_k;
    maker_linear(m, l, "attn_qkv", 0, m->width, 3 * inner);
    maker_linear(m, l, "attn_gate", 0, m->width, inner);
    maker_norm(m, l, "attn_norm_2", 0, inner, 1);
    maker_linear(m, l, "attn_output", 0, inner, m->width);
}

/* RWKV: vectors of the model's width, pairs of matrices with few values between, and the usual ones. */
static void maker_time_pair(maker *m, int l, const char *first, const char *last, int few) {
    maker_linear(m, l, first, 0, m->width, few);
    maker_linear(m, l, last, 0, few, m->width);
}

static void maker_time(maker *m, int l) {
    static const char *const lerps[] = { "w", "k", "v", "r", "g" }, *const sevens[] = { "w", "a", "v", "g" };
    const int own = m->a->norm == INFER__NORM_LAYER, keys = m->kv[l] ? m->kv[l] * m->wkv_dim : m->width;
    const int gate = m->rwkv == 6 || (m->post & 4), fused = m->rwkv == 7 || (m->post & 8);
    char name[48], pair[48];
    int i;
    maker_linear(m, l, "time_mix_key", m->bias & 2, m->width, keys);
    maker_linear(m, l, "time_mix_value", m->bias & 4, m->width, keys);
    maker_linear(m, l, "time_mix_receptance", m->bias & 8, m->width, m->width);
    maker_linear(m, l, "time_mix_output", 0, m->width, m->width);
    if (own || (m->bias & 16)) maker_norm(m, l, "time_mix_ln", 1, m->width, 1);
    if (m->rwkv == 6 && (own || (m->bias & 16))) maker_ssm_tensor(m, l, "time_mix_first.weight", 'v', m->width, 1);
    if (fused) maker_ssm_tensor(m, l, "time_mix_lerp_fused.weight", 'v', (5 + (m->rwkv == 7 && gate)) * m->width, 1);
    for (i = 0; i < 5 && !fused; i++) {
        snprintf(name, sizeof name, "time_mix_lerp_%s.weight", lerps[i]);
        maker_ssm_tensor(m, l, name, 'v', m->width, 1);
    }
    if (m->rwkv == 6) {
        maker_ssm_tensor(m, l, "time_mix_lerp_x.weight", 'v', m->width, 1);
        maker_linear(m, l, "time_mix_gate", 0, m->width, m->width);
        maker_linear(m, l, "time_mix_w1", 0, m->width, 5 * m->wkv_rank);
        maker_tensor(m, (snprintf(name, sizeof name, "blk.%d.time_mix_w2.weight", l), name), 'm', (uint64_t)m->wkv_rank,
                     (uint64_t)m->width, 5);
        maker_ssm_tensor(m, l, "time_mix_decay.weight", 'v', m->width, 1);
        maker_time_pair(m, l, "time_mix_decay_w1", "time_mix_decay_w2", m->wkv_rank + 1);
        return;
    }
    for (i = 0; i < 3 + gate; i++) {
        if (i == 2 && l == 0 && (m->fused & 1)) continue; /* layer 0 mixes no values */
        snprintf(name, sizeof name, "time_mix_%s0.weight", sevens[i]);
        if (i < 3) maker_ssm_tensor(m, l, name, 'v', m->width, 1);
        snprintf(name, sizeof name, "time_mix_%s1", sevens[i]);
        snprintf(pair, sizeof pair, "time_mix_%s2", sevens[i]);
        maker_time_pair(m, l, name, pair, m->wkv_rank + i);
    }
    maker_ssm_tensor(m, l, "time_mix_k_k.weight", 'v', m->width, 1);
    maker_ssm_tensor(m, l, "time_mix_k_a.weight", 'v', m->width, 1);
    maker_ssm_tensor(m, l, "time_mix_r_k.weight", 'v', m->width, 1);
}

static void maker_channel(maker *m, int l) {
    maker_ssm_tensor(m, l, "channel_mix_lerp_k.weight", 'v', m->width, 1);
    if (m->rwkv == 6) maker_ssm_tensor(m, l, "channel_mix_lerp_r.weight", 'v', m->width, 1);
    if (m->rwkv == 6) maker_linear(m, l, "channel_mix_receptance", 0, m->width, m->width);
    maker_linear(m, l, "channel_mix_key", 0, m->width, m->ff[l]);
    maker_linear(m, l, "channel_mix_value", 0, m->ff[l], m->width);
}

/* Compressed attention: all layers have as many heads, and one that is key and value. */
static void maker_shape_compressed(maker *m, int size) {
    static const int every[] = { 0, 4, 128 };
    fuzz_in *in = &m->in;
    int l;
    if (m->dim_k < 2) m->dim_k = 2;
    m->dim_v = m->dim_k;
    m->rot = 2 * (1 + (int)fuzz_below(in, (uint32_t)m->dim_k / 2));
    m->latent_q = size < 9 ? 1 + (int)fuzz_below(in, 20) : size < 15 ? 32 : 256;
    m->out_groups = m->heads[0] % 2 == 0 && fuzz_below(in, 2) ? 2 : 1;
    m->out_rank = size < 9 ? 1 + (int)fuzz_below(in, 20) : size < 15 ? 32 : 256;
    m->hyper = 2 + (int)fuzz_below(in, 3);
    m->index_heads = 1 + (int)fuzz_below(in, 4);
    m->index_dim = m->rot + (int)fuzz_below(in, 20);
    m->by_id = m->moe ? (int)fuzz_below(in, 3) : 0;
    for (l = 0; l < m->layers; l++) {
        m->kv[l] = 1;
        m->every[l] = every[fuzz_below(in, 3)];
    }
}

static void maker_compressed_keys(maker *m) {
    int64_t every[MAKER_LAYERS + 1] = { 0 };
    char key[160];
    int i;
    for (i = 0; i < m->layers; i++) every[i] = maker_slip(m) ? (int64_t)fuzz_byte(&m->in) - 2 : m->every[i];
    gw_ints(&m->w, maker_key(m, "attention.compress_ratios", key), GW_I32, every,
            (size_t)m->layers + fuzz_below(&m->in, 2) - (maker_slip(m) ? 1 : 0));
    maker_float_key(m, "attention.compress_rope_freq_base", 5000);
    maker_int(m, "attention.output_group_count", m->out_groups);
    maker_int(m, "attention.output_lora_rank", m->out_rank);
    maker_int(m, "hyper_connection.sinkhorn_iterations", 1 + (int)fuzz_below(&m->in, 5));
    if (m->by_id || fuzz_below(&m->in, 2)) maker_int(m, "hash_layer_count", m->by_id);
}

static void maker_compressed(maker *m, int l) {
    static const char *const of[] = { "attn_compressor", "indexer_compressor" };
    const int each = m->every[l] == 4 ? 2 : 1;
    char name[64];
    int i;
    maker_linear(m, l, "attn_q_a", 0, m->width, m->latent_q);
    maker_norm(m, l, "attn_q_a_norm", 0, m->latent_q, 1);
    maker_linear(m, l, "attn_q_b", 0, m->latent_q, m->heads[l] * m->dim_k);
    maker_linear(m, l, "attn_kv", 0, m->width, m->dim_k);
    maker_norm(m, l, "attn_kv_a_norm", 0, m->dim_k, 1);
    maker_linear(m, l, "attn_output_a", 0, m->heads[l] * m->dim_k / m->out_groups, m->out_rank * m->out_groups);
    maker_linear(m, l, "attn_output_b", 0, m->out_rank * m->out_groups, m->width);
    for (i = 0; i < each && m->every[l]; i++) {
        const int dim = i ? m->index_dim : m->dim_k;
        snprintf(name, sizeof name, "%s_kv", of[i]);
        maker_linear(m, l, name, 0, m->width, each * dim);
        snprintf(name, sizeof name, "%s_gate", of[i]);
        maker_linear(m, l, name, 0, m->width, each * dim);
        snprintf(name, sizeof name, "%s_ape", of[i]);
        maker_linear(m, l, name, 0, each * dim, m->every[l]);
        snprintf(name, sizeof name, "%s_norm", of[i]);
        maker_norm(m, l, name, 0, dim, 1);
    }
    if (m->every[l] != 4) return;
    maker_linear(m, l, "indexer.attn_q_b", 0, m->latent_q, m->index_heads * m->index_dim);
    maker_linear(m, l, "indexer.proj", 0, m->width, m->index_heads);
}

/* Experts of each id. */
static void maker_table(maker *m, int l) {
    const uint64_t dims[2] = { (uint64_t)m->used, (uint64_t)m->vocab };
    const size_t n = (size_t)m->used * (size_t)m->vocab;
    int32_t *ids = (int32_t *)malloc(n * sizeof *ids);
    char name[64];
    size_t i;
    if (!ids) return;
    for (i = 0; i < n; i++) ids[i] = (int32_t)(maker_random(m) % (uint32_t)m->experts);
    if (maker_slip(m)) ids[fuzz_below(&m->in, (uint32_t)n)] = fuzz_below(&m->in, 2) ? m->experts : -1;
    snprintf(name, sizeof name, "blk.%d.ffn_gate_tid2eid.weight", l);
    gw_tensor(&m->w, name, 26, 2, dims, ids, n * sizeof *ids, 4);
    free(ids);
}

/* Hyper-connections of a layer, or (-1) of the head; sinks. */
/* Hyper-connections of a low rank, n-grams, an indexer by means. */
static void maker_shape_low(maker *m, int size) {
    fuzz_in *in = &m->in;
    m->hyper = 2 + (int)fuzz_below(in, 4);
    m->hyper_rank = size < 9 ? 1 + (int)fuzz_below(in, 20) : size < 15 ? 32 : 256;
    m->means = 2 << fuzz_below(in, 4);
    m->index_heads = 1 + (int)fuzz_below(in, 4);
    m->post &= ~3;
    if (fuzz_below(in, 4) == 3) return;
    m->grams = 2 + (int)fuzz_below(in, 3);
    m->gram_each = 1 + (int)fuzz_below(in, 3);
    m->gram_taps = 2 + (int)fuzz_below(in, 3);
    m->gram_width = size < 9 ? 1 + (int)fuzz_below(in, 12) : size < 15 ? 32 : 256;
    m->gram_layer = (int)fuzz_below(in, (uint32_t)m->layers);
}

enum { MAKER_GRAM_ROWS = 7 }; /* of the first head, of the next one more, .. */

static void maker_gram_keys(maker *m) {
    const int heads = (m->grams - 1) * m->gram_each;
    int64_t v[16], at = 0;
    char key[160];
    int i;
    if (!m->grams) return;
    v[0] = maker_slip(m) ? m->layers : m->gram_layer;
    gw_ints(&m->w, maker_key(m, "ple.layers", key), GW_I32, v, 1);
    maker_int(m, "ple.ngram_size", m->grams);
    maker_int(m, "ple.heads_per_ngram", m->gram_each);
    maker_int(m, "ple.conv_kernel", m->gram_taps);
    maker_int(m, "ple.eos_token_id", (int64_t)fuzz_below(&m->in, (uint32_t)m->vocab));
    if (fuzz_below(&m->in, 2)) maker_int(m, "ple.image_token_id", 1);
    maker_int(m, "embedding_length_per_layer_input", m->gram_width);
    for (i = 0; i < m->grams; i++) v[i] = maker_slip(m) ? -1 : 1 + 2 * (int64_t)fuzz_word(&m->in);
    gw_ints(&m->w, maker_key(m, "ple.layer_multipliers", key), GW_I64, v, (size_t)m->grams - (maker_slip(m) ? 1 : 0));
    for (i = 0; i < heads; at += MAKER_GRAM_ROWS + i++) v[i] = at + maker_slip(m);
    gw_ints(&m->w, maker_key(m, "ple.head_offsets", key), GW_I64, v, (size_t)heads);
    for (i = 0; i < heads; i++) v[i] = maker_slip(m) ? 0 : MAKER_GRAM_ROWS + i;
    gw_ints(&m->w, maker_key(m, "ple.head_vocab_sizes", key), GW_I64, v, (size_t)heads);
}

/* The table (l < 0); what its layer has. */
static void maker_grams(maker *m, int l) {
    const int heads = (m->grams - 1) * m->gram_each, wide = m->hyper * m->width;
    if (l < 0) {
        maker_tensor(m, "per_layer_token_embd.weight", 'm', (uint64_t)m->gram_width, (uint64_t)(heads * MAKER_GRAM_ROWS + heads * (heads - 1) / 2), 1);
        return;
    }
    maker_linear(m, l, "ple_key", 0, heads * m->gram_width, wide);
    maker_linear(m, l, "ple_value", 0, heads * m->gram_width, m->width);
    maker_norm(m, l, "ple_norm_key", 0, m->width, m->hyper);
    maker_norm(m, l, "ple_norm_query", 0, m->width, m->hyper);
    maker_norm(m, l, "ple_norm_conv", 0, m->width, m->hyper);
    maker_ssm_tensor(m, l, "ple_conv1d.weight", 'n', m->gram_taps, wide);
}

static void maker_hyper_low(maker *m, int l) {
    const int wide = m->hyper * m->width;
    char name[64];
    int i;
    for (i = 0; i < (l < 0 ? 1 : 2); i++) {
        const char *of = i ? "ffn" : "attn";
        if (l < 0) {
            maker_tensor(m, "output_hc_norm.weight", 'n', (uint64_t)m->width, (uint64_t)m->hyper, 1);
            maker_tensor(m, "output_hc_down.weight", 'm', (uint64_t)wide, (uint64_t)m->hyper_rank, 1);
            maker_tensor(m, "output_hc_up.weight", 'm', (uint64_t)m->hyper_rank, (uint64_t)wide, 1);
            return;
        }
        snprintf(name, sizeof name, "hc_%s_norm", of);
        maker_norm(m, l, name, 0, m->width, m->hyper);
        snprintf(name, sizeof name, "hc_%s_down", of);
        maker_linear(m, l, name, 0, wide, m->hyper_rank);
        snprintf(name, sizeof name, "hc_%s_up", of);
        maker_linear(m, l, name, 0, m->hyper_rank, wide);
        snprintf(name, sizeof name, "hc_%s_inject", of);
        maker_linear(m, l, name, 0, wide, m->hyper);
    }
}

static void maker_hyper(maker *m, int l) {
    static const char *const parts[] = { "fn", "base", "scale" };
    const int mixed = m->out_groups != 0; /* streams go to each other, too */
    const uint64_t n = (uint64_t)(m->hyper * (l < 0 ? 1 : mixed ? 2 + m->hyper : 2));
    const uint64_t dims[] = { (uint64_t)(m->hyper * m->width), n, l < 0 ? 1 : mixed ? 3 : 2 };
    char name[64];
    int i;
    if (m->hyper_rank) {
        maker_hyper_low(m, l);
        return;
    }
    for (i = 0; i < (l < 0 ? 3 : 6); i++) {
        if (l < 0) snprintf(name, sizeof name, "output_hc_%s.weight", parts[i]);
        else snprintf(name, sizeof name, "blk.%d.hc_%s_%s.weight", l, i < 3 ? "attn" : "ffn", parts[i % 3]);
        maker_tensor(m, name, "mvn"[i % 3], dims[i % 3], i % 3 ? 1 : n, 1);
    }
    if (l < 0 || (!mixed && !(m->qk_norm & 1))) return;
    snprintf(name, sizeof name, "blk.%d.attn_sinks.weight", l);
    maker_tensor(m, name, 'v', (uint64_t)m->heads[l], 1, 1);
}
