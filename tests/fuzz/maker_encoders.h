/* maker_encoders.h: what model_maker.h's encoders have beside other models: norms after the additions, kinds of tokens,
 * classifiers, matrices behind pooling, T5's two stacks. model_maker.h includes this file where maker_linear is known. */

static int maker_is_bert(const maker *m) { return m->a->parts == infer__parts_bert; }
static int maker_is_t5(const maker *m) { return m->a->parts == infer__parts_t5; }

static void maker_shape_encoder(maker *m, int size) {
    fuzz_in *in = &m->in;
    int l;
    if (maker_is_bert(m)) m->post &= ~3;
    if (m->a->keys == infer__nomic_moe_keys) {
        if (m->moe) m->experts_every = 2 + (int)fuzz_below(in, 2);
    } else m->moe = 0;
    if (maker_is_t5(m)) {
        m->post = m->bias = m->qk_norm = m->fused = m->by_layer = 0;
        m->dim_v = m->dim_k;
        for (l = 0; l < m->layers; l++) {
            m->heads[l] = m->kv[l] = m->heads[0];
            m->ff[l] = m->ff[0];
        }
        if (m->a->decoder) m->decoder = fuzz_below(in, 2) ? 1 + (int)fuzz_below(in, 3) : m->layers;
    }
    if (!m->a->encoder) return;
    m->labels = fuzz_below(in, 2) ? 1 + (int)fuzz_below(in, 4) : 0;
    m->dense = fuzz_below(in, 4) ? 0 : size < 9 ? 1 + (int)fuzz_below(in, 40) : size < 15 ? 32 : 256;
}

static void maker_encoder_keys(maker *m) {
    static const char *const names[] = { "no", "yes", "", "maybe", "other" };
    char key[160];
    if (m->experts_every) maker_int(m, "moe_every_n_layers", m->experts_every);
    if (m->decoder && (m->decoder != m->layers || fuzz_below(&m->in, 2))) maker_int(m, "decoder_block_count", m->decoder);
    if (m->decoder && fuzz_below(&m->in, 2)) maker_int(m, "decoder_start_token_id", m->vocab - 1);
    if (maker_is_t5(m)) maker_int(m, "attention.relative_buckets_count", 32);
    if (m->decoder) return;
    if (fuzz_below(&m->in, 2)) maker_int(m, "pooling_type", (int64_t)fuzz_below(&m->in, m->labels ? 5 : 4));
    if (m->labels && fuzz_below(&m->in, 2)) maker_int(m, "classifier.pooling_type", 1 + (int64_t)fuzz_below(&m->in, 3));
    if (m->labels && fuzz_below(&m->in, 2))
        gw_strs(&m->w, maker_key(m, "classifier.output_labels", key), names, (size_t)m->labels + (maker_slip(m) ? 1 : 0));
    if (m->dense && fuzz_below(&m->in, 2)) maker_int(m, "dense_2_feat_out", m->dense);
}

/* Outside the layers: kinds of tokens, the last norm, what pooling's result goes through. */
static void maker_encoder_front(maker *m) {
    const int bias = maker_norm_bias(m), cls = m->labels && fuzz_below(&m->in, 2);
    if (maker_is_bert(m) && (fuzz_below(&m->in, 4) || maker_needs(m, INFER__W_TOKEN_TYPES))) maker_tensor(m, "token_types.weight", 'm', (uint64_t)m->width, 1 + fuzz_below(&m->in, 2), 1);
    if (m->a->flags & INFER__OUT_NORM_ENC) m->stack = "enc.";
    if (!maker_is_bert(m) && !m->decoder) maker_norm(m, -1, "output_norm", bias && !*m->stack, m->width, 1);
    m->stack = "";
    if (cls) {
        const int rows = m->dense ? m->dense : m->width;
        maker_tensor(m, "cls.weight", 'm', (uint64_t)m->width, (uint64_t)rows, 1);
        if (fuzz_below(&m->in, 2)) maker_tensor(m, "cls.bias", 'v', (uint64_t)rows, 1, 1);
        if (fuzz_below(&m->in, 2)) maker_tensor(m, "cls.norm.weight", 'n', (uint64_t)rows, 1, 1);
        maker_tensor(m, "cls.output.weight", 'm', (uint64_t)rows, (uint64_t)m->labels, 1);
    } else if (m->labels) maker_tensor(m, "cls.output.weight", 'm', (uint64_t)m->width, (uint64_t)m->labels, 1);
    if (m->labels && fuzz_below(&m->in, 2)) maker_tensor(m, "cls.output.bias", 'v', (uint64_t)m->labels, 1, 1);
    if (m->dense && !cls) {
        maker_tensor(m, "dense_2.weight", 'm', (uint64_t)m->width, (uint64_t)m->dense, 1);
        if (fuzz_below(&m->in, 2)) maker_tensor(m, "dense_3.weight", 'm', (uint64_t)m->dense, 1 + fuzz_below(&m->in, 9), 1);
    }
}

static void maker_encoder_layer(maker *m, int l) {
    const int bias = m->bias & 1;
    if (!maker_is_bert(m)) return;
    maker_norm(m, l, "attn_output_norm", bias, m->width, 1);
    if ((m->a->flags & INFER__FFN_NORM_2) && (m->post & 4)) maker_norm(m, l, "attn_norm_2", bias, m->width, 1);
    maker_norm(m, l, "layer_output_norm", bias, m->width, 1);
}

/* A layer of T5: attention with biases of distances, in the decoder also to what was encoded, then the FFN. */
static void maker_t5_layer(maker *m, int l, int every) {
    const int att = m->heads[0] * m->dim_k;
    maker_norm(m, l, "attn_norm", 0, m->width, 1);
    maker_linear(m, l, "attn_q", 0, m->width, att);
    maker_linear(m, l, "attn_k", 0, m->width, att);
    maker_linear(m, l, "attn_v", 0, m->width, att);
    maker_linear(m, l, "attn_o", 0, att, m->width);
    if (l == 0 || every) maker_norm(m, l, "attn_rel_b", 0, m->heads[0], 32);
    if (m->stack[0] == 'd') {
        maker_norm(m, l, "cross_attn_norm", 0, m->width, 1);
        maker_linear(m, l, "cross_attn_q", 0, m->width, att);
        maker_linear(m, l, "cross_attn_k", 0, m->width, att);
        maker_linear(m, l, "cross_attn_v", 0, m->width, att);
        maker_linear(m, l, "cross_attn_o", 0, att, m->width);
    }
    maker_norm(m, l, "ffn_norm", 0, m->width, 1);
    if (m->gate) maker_linear(m, l, "ffn_gate", 0, m->width, m->ff[0]);
    maker_linear(m, l, "ffn_up", 0, m->width, m->ff[0]);
    maker_linear(m, l, "ffn_down", 0, m->ff[0], m->width);
}

static void maker_stacks(maker *m) {
    const int every = (int)fuzz_below(&m->in, 2);
    int l;
    m->stack = "enc.";
    for (l = 0; l < m->layers; l++) maker_t5_layer(m, l, every);
    if (m->decoder) maker_norm(m, -1, "output_norm", 0, m->width, 1);
    m->stack = "dec.";
    for (l = 0; l < m->decoder; l++) maker_t5_layer(m, l, every);
    if (m->decoder) maker_norm(m, -1, "output_norm", 0, m->width, 1);
    m->stack = "";
}
