/* maker_needs.h: what every model of an architecture has (src/model/needs.c), so that most of model_maker.h's models can be
 * computed. model_maker.h includes this file where maker_slip is known. */

static int maker_needs(const maker *m, int slot) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__NEEDS); i++)
        if (INFER__NEEDS[i].slot == slot && infer__words_have(INFER__NEEDS[i].archs, m->a->name)) return 1;
    for (i = 0; i < INFER__COUNT(INFER__MODEL_NEEDS); i++)
        if (INFER__MODEL_NEEDS[i].slot == slot && infer__words_have(INFER__MODEL_NEEDS[i].archs, m->a->name)) return 1;
    return 0;
}

static int maker_norm_bias(const maker *m) {
    return (m->bias & 1) && (m->a->norm == INFER__NORM_LAYER || maker_needs(m, INFER__W_ATTN_NORM_B));
}

/* The maker's choices that give a tensor, where the architecture needs it. */
static void maker_shape_needs(maker *m) {
    enum { BIAS, POST, QK_NORM, GATE };
    static const struct { int16_t slot; uint8_t choice, bits; } of[] = {
        { INFER__W_ATTN_NORM_B, BIAS, 1 }, { INFER__W_FFN_NORM_B, BIAS, 1 }, { INFER__W_ATTN_OUT_NORM_B, BIAS, 1 },
        { INFER__W_OUT_NORM_B, BIAS, 1 }, { INFER__W_LAYER_OUT_NORM_B, BIAS, 1 }, { INFER__W_EMBD_NORM_B, BIAS, 1 },
        { INFER__W_INDEX_K_NORM_B, BIAS, 1 }, { INFER__W_ATTN_QKV_B, BIAS, 2 }, { INFER__W_SSM_TAPS_B, BIAS, 2 },
        { INFER__W_LATENT_K_NORM, BIAS, 2 }, { INFER__W_ATTN_OUT_B, BIAS, 16 }, { INFER__W_FFN_DOWN_B, BIAS, 16 },
        { INFER__W_FFN_UP_B, BIAS, 32 }, { INFER__W_FFN_GATE_B, BIAS, 32 }, { INFER__W_ATTN_POST_NORM, POST, 1 },
        { INFER__W_FFN_POST_NORM, POST, 2 }, { INFER__W_INPUT_POST_NORM, POST, 4 }, { INFER__W_ATTN_SUB_NORM, POST, 4 },
        { INFER__W_FFN_SUB_NORM, POST, 4 }, { INFER__W_ATTN_GATE, POST, 4 }, { INFER__W_SSM_NORM, POST, 4 },
        { INFER__W_KDA_G_B, POST, 4 }, { INFER__W_KDA_F_B, POST, 8 }, { INFER__W_ATTN_SINKS, POST, 8 },
        { INFER__W_LATENT_SINKS, QK_NORM, 1 }, { INFER__W_ATTN_Q_NORM, QK_NORM, 1 }, { INFER__W_ATTN_K_NORM, QK_NORM, 1 },
        { INFER__W_FFN_GATE, GATE, 1 }, { INFER__W_MOE_GATE, GATE, 1 }, { INFER__W_SHARED_GATE, GATE, 1 } };
    int *const choices[] = { &m->bias, &m->post, &m->qk_norm, &m->gate };
    size_t i;
    for (i = 0; i < INFER__COUNT(of); i++)
        if (maker_needs(m, of[i].slot) && !maker_slip(m)) *choices[of[i].choice] |= of[i].bits;
    if (maker_needs(m, INFER__W_FFN_GATE) && !maker_slip(m)) m->fused &= ~2; /* not in one matrix with `up` */
}

/* What the experts of a layer have beside matrices. */
static void maker_experts_needs(maker *m, int l) {
    const struct { int16_t slot; const char *name; int cols, rows; } of[] = {
        { INFER__W_MOE_ROUTER_B, "ffn_gate_inp.bias", m->experts, 1 },
        { INFER__W_MOE_CHOICE_B, "exp_probs_b.bias", m->experts, 1 },
        { INFER__W_MOE_GATE_B, "ffn_gate_exps.bias", m->ff_expert, m->experts },
        { INFER__W_MOE_UP_B, "ffn_up_exps.bias", m->ff_expert, m->experts },
        { INFER__W_MOE_DOWN_B, "ffn_down_exps.bias", m->width, m->experts },
        { INFER__W_SHARED_SCORE, "ffn_gate_inp_shexp.weight", m->ff_shared ? m->width : 0, 1 } };
    char full[64];
    size_t i;
    for (i = 0; i < INFER__COUNT(of); i++) {
        if (!maker_needs(m, of[i].slot) || of[i].cols == 0) continue;
        snprintf(full, sizeof full, "blk.%d.%s", l, of[i].name);
        maker_tensor(m, full, 'v', (uint64_t)of[i].cols, (uint64_t)of[i].rows, 1);
    }
}
