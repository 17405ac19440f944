/* keys.c: keys of the file that were not looked up: either they have no effect, or the model is refused.
 *
 * Owns:  INFER__IDLE_KEYS, the keys that may stay unread, each with the reason; the refusal of all others.
 * Rules: a key under the architecture's prefix is looked up by those who use its value (hparams.c), or has a row here,
 *        or the model is refused and the message names the key: an unread key means a different model. So looking up a
 *        key and dropping its value is a mistake: look it up only where the row of ARCHS, or the rest of the file, uses
 *        it.
 * Names: the GGUF specification (ggml, docs/gguf.md), and what llama.cpp and its converters write. llama.cpp writes
 *        every key it knows into a file that it saves, with the values below where they do not apply.
 */
#include "model.h"

/* Keys that are without effect when `idle` says so for their value. */
typedef struct infer__idle_key {
    const char *names; /* separated by spaces: after the architecture's prefix; whole for keys that begin with a text of
                        * INFER__STRICT */
    int (*idle)(const infer_model *m, const infer__kv *kv, double value);
    double value;
    const char *why;  /* why it may stay unread; with a condition: the required value */
} infer__idle_key;

/* Prefixes of other keys that are all checked: they affect the computation, too. */
static const char *const INFER__STRICT[] = { "general.quantization_version", "adapter.", "diffusion.", "xielu." };

/* ---- conditions ------------------------------------------------------------------------------------- */

static int infer__idle_is(const infer_model *m, const infer__kv *kv, double value) {
    uint64_t i;
    (void)m;
    if (kv->type == INFER__GGUF_STRING || kv->type == INFER__GGUF_ARRAY) {
        if (kv->n == 0) return 1;
        if (!infer__kv_is_numbers(kv)) return 0;
    }
    for (i = 0; i < kv->n; i++) {
        double v = infer__kv_number(kv, i);
        if (v != 0 && v != value) return 0;
    }
    return 1;
}

static int infer__idle_any(const infer_model *m, const infer__kv *kv, double value) {
    (void)m; (void)kv; (void)value;
    return 1;
}

static int infer__idle_below(const infer_model *m, const infer__kv *kv, double value) {
    uint64_t i;
    (void)m;
    if (kv->type == INFER__GGUF_STRING || (kv->type == INFER__GGUF_ARRAY && !infer__kv_is_numbers(kv))) return 0;
    for (i = 0; i < kv->n; i++)
        if (!(infer__kv_number(kv, i) < value)) return 0;
    return 1;
}

static int infer__idle_width(const infer_model *m, const infer__kv *kv, double value) {
    (void)value;
    return infer__idle_is(m, kv, (double)m->hp.n_embd);
}

/* No layer has a window, or those that have one are like the others. value: 0 keys, 1 values, 2 rotated. */
static int infer__idle_window_dim(const infer_model *m, const infer__kv *kv, double value) {
    int32_t i;
    for (i = 0; i < m->hp.n_layer; i++) {
        const infer__layer *l = &m->layers[i];
        int32_t dim = value == 0 ? l->dim_k : value == 1 ? l->dim_v : l->n_rot;
        if (l->window && !infer__idle_is(m, kv, (double)dim)) return 0;
    }
    return 1;
}

/* A window that no text reaches. */
static int infer__idle_window(const infer_model *m, const infer__kv *kv, double value) {
    (void)value;
    if (infer__idle_is(m, kv, 0)) return 1;
    return kv->type != INFER__GGUF_ARRAY && infer__kv_number(kv, 0) >= (double)m->hp.n_ctx;
}

static int infer__idle_parallel(const infer_model *m, const infer__kv *kv, double value) {
    return m->hp.block == INFER__BLOCK_PARALLEL || infer__idle_is(m, kv, value);
}

/* Widths of dense matrices after pooling, which infer__pool_keys compares. value: of the first, of the second. */
static int infer__idle_dense(const infer_model *m, const infer__kv *kv, double value) {
    return infer__gguf_tensor_find(&m->gguf, value > 0 ? "dense_3.weight" : "dense_2.weight") != NULL ||
           infer__idle_is(m, kv, 0);
}

/* Keys of experts where there are none. */
static int infer__idle_experts(const infer_model *m, const infer__kv *kv, double value) {
    return m->hp.n_expert == 0 || infer__idle_is(m, kv, value);
}

/* ---- the keys ----------------------------------------------------------------------------------------- */

#define INFER__BY(f, value) infer__idle_##f, value
#define INFER__ANY INFER__BY(any, 0)
#define INFER__OFF INFER__BY(is, 0)
#define INFER__IS(value) INFER__BY(is, value)
#define INFER__EXPERTS(value) INFER__BY(experts, value)
/* Names, the condition, the reason: builds without descriptions name the key alone. */
#define INFER__IDLE(names, by, why) { names, by, INFER__HAS_DESCRIBE ? why : "a value that is not supported" },

static const infer__idle_key INFER__IDLE_KEYS[] = {
    INFER__IDLE("vocab_size", INFER__ANY, "token_embd.weight has as many rows as there are tokens")
    INFER__IDLE("tensor_data_layout", INFER__ANY, "where the weights came from; rows of Q and K are in the row's order")
    INFER__IDLE("embedding_length_out", INFER__BY(width, 0), "only results as wide as the model are supported")
    INFER__IDLE("leading_dense_block_count", INFER__ANY, "a layer has experts when it has a router")
    INFER__IDLE("expert_shared_count", INFER__ANY, "shared experts are one tensor, whose shape says how wide they are")
    INFER__IDLE("classifier.output_labels", INFER__ANY, "names of a classifier's results: infer__pool_keys")
    INFER__IDLE("classifier.pooling_type", INFER__ANY, "of a classifier that the file does not ask for")
    INFER__IDLE("dense_2_feat_in dense_2_feat_out", INFER__BY(dense, 0), "there is no dense_2.weight: infer__pool_keys")
    INFER__IDLE("dense_3_feat_in dense_3_feat_out", INFER__BY(dense, 1), "there is no dense_3.weight: infer__pool_keys")
    INFER__IDLE("decoder_start_token_id", INFER__ANY, "there is no decoder beside an encoder")
    INFER__IDLE("attention.layer_norm_epsilon attention.layer_norm_rms_epsilon", INFER__ANY, "the other kind of norm")
    INFER__IDLE("use_parallel_residual", INFER__BY(parallel, 0), "only serial blocks are supported")
    INFER__IDLE("rope.scaling.finetuned", INFER__ANY, "how the model was trained")
    INFER__IDLE("rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow rope.scaling.yarn_log_multiplier",
      INFER__ANY, "rope.scaling.type is not yarn")
    INFER__IDLE("rope.scaling.yarn_ext_factor",
      INFER__BY(below, 1e-30), "rope.scaling.type is not yarn: only 0, or below for none")
    INFER__IDLE("rope.scaling.yarn_attn_factor", INFER__IS(1), "rope.scaling.type is not yarn: only 0 and 1")
    INFER__IDLE("rope.scale_linear", INFER__ANY, "rope.scaling.factor counts")
    INFER__IDLE("rope.freq_base_swa attention.sliding_window_pattern", INFER__ANY, "no layer has a window")
    INFER__IDLE("attention.sliding_window",
      INFER__BY(window, 0), "layers with a window are not there: only 0, or the whole context")
    INFER__IDLE("attention.key_length_swa", INFER__BY(window_dim, 0), "layers with a window are as wide as the others")
    INFER__IDLE("attention.value_length_swa",
      INFER__BY(window_dim, 1), "layers with a window are as wide as the others")
    INFER__IDLE("rope.dimension_count_swa",
      INFER__BY(window_dim, 2), "layers with a window rotate as much as the others")
    INFER__IDLE("expert_group_used_count", INFER__ANY, "expert_group_count says that there are no groups")
    /* scales and caps that the row does not have */
    INFER__IDLE("logit_scale attention.output_scale attention.value_scale rope.scaling.alpha activation.situ_beta",
      INFER__IS(1), "only 0 and 1")
    INFER__IDLE("attn_logit_softcapping",
      INFER__IS(50), "only 0, or 50, which llama.cpp writes for models without a cap")
    INFER__IDLE("final_logit_softcapping router_logit_softcapping",
      INFER__IS(30), "only 0, or 30, which llama.cpp writes for models without a cap")
    INFER__IDLE("attention.max_alibi_bias", INFER__OFF, "slopes are not there: only 0")
    INFER__IDLE("attention.scale", INFER__OFF, "attention.output_scale counts")
    /* and what else llama.cpp writes for models that do not have it */
    INFER__IDLE("attention.temperature_scale attention.temperature_length swiglu_clamp_exp swiglu_clamp_shexp "
      "embedding_length_per_layer_input hash_layer_count rescale_every_n_layers time_mix_extra_dim "
      "time_decay_extra_dim wkv.head_size attn_res.block_size activation.situ_linear_beta "
      "hrm.layers_per_stack hrm.h_cycles hrm.l_cycles attention.group_norm_epsilon "
      "attention.group_norm_groups attention.q_lora_rank attention.kv_lora_rank "
      "attention.kv_lora_rank_swa attention.decay_lora_rank attention.iclr_lora_rank "
      "attention.value_residual_mix_lora_rank attention.gate_lora_rank attention.relative_buckets_count "
      "attention.key_length_mla attention.value_length_mla attention.key_length_mla_swa "
      "attention.value_length_mla_swa attention.indexer.head_count attention.indexer.key_length "
      "attention.indexer.top_k attention.indexer.block_size attention.indexer.local_blocks "
      "attention.indexer.types attention.indexer.kpool attention.recurrent_layers "
      "attention.output_group_count attention.output_lora_rank attention.compress_rope_freq_base "
      "attention.compress_ratios attention.shared_kv_layers hyper_connection.count "
      "hyper_connection.sinkhorn_iterations hyper_connection.epsilon hyper_connection.magnitude "
      "hyper_connection.low_rank ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank "
      "ssm.group_count kda.head_dim posnet.embedding_length posnet.block_count "
      "convnext.embedding_length convnext.block_count shortconv.l_cache xielu.alpha_n xielu.alpha_p "
      "xielu.beta xielu.eps",
      INFER__OFF, "only 0")
    INFER__IDLE("rope.dimension_sections", INFER__OFF, "only zeros: one position a token")
    /* experts */
    INFER__IDLE("expert_gating_func expert_group_count", INFER__EXPERTS(0), "there are no experts")
    INFER__IDLE("expert_group_scale",
      INFER__EXPERTS((double)0.05f), "only 0, or 0.05, which llama.cpp writes for all models")
    INFER__IDLE("experts_per_group expert_chunk_feed_forward_length expert_latent_length moe_latent_size",
      INFER__EXPERTS(0), "only 0")
    INFER__IDLE("moe_every_n_layers interleave_moe_layer_step",
      INFER__EXPERTS(1), "a layer has experts when it has a router: only 0 and 1")
    INFER__IDLE("nextn_predict_layers", INFER__OFF, "layers that predict further tokens are not there")
    INFER__IDLE("n_deepstack_layers", INFER__OFF, "pictures are not there")
    INFER__IDLE("deepstack_mapping", INFER__BY(below, 0), "pictures are not there: only -1")
    INFER__IDLE("decoder_block_count", INFER__OFF, "decoders of an encoder are not there")
    INFER__IDLE("swin_norm hrm.prefix_lm ssm.dt_b_c_rms kda.safe_gate", INFER__OFF, "only false")
    INFER__IDLE("token_shift_count", INFER__IS(2), "only 0, or 2, which llama.cpp writes for all models")
    INFER__IDLE("attention.indexer.kpool_select_tail", INFER__ANY, "indexers are refused by their other keys")
    INFER__IDLE("kda.gate_lower_bound", INFER__BY(below, -1e300), "only minus infinity")
    INFER__IDLE("general.quantization_version", INFER__BY(below, 3), "blocks are those of version 2")
};
#undef INFER__IDLE
#undef INFER__BY
#undef INFER__ANY
#undef INFER__OFF
#undef INFER__IS
#undef INFER__EXPERTS

/* ---- the check ---------------------------------------------------------------------------------------- */

/* The key's name in the tables: the part after "<architecture>.", or all of a key covered by INFER__STRICT; NULL when
 * it does not affect the computation. */
static const char *infer__key_of(const infer_model *m, const char *key) {
    const char *prefix = infer__stack_row_of(m) ? infer__stack_prefix(m) : infer__arch_of(m)->name;
    size_t n = strlen(prefix), i;
    if (strncmp(key, prefix, n) == 0 && key[n] == '.') return key + n + 1;
    if (infer__stack_row_of(m) && strncmp(key, "clip.", 5) == 0) return infer__stack_other(m, key) ? NULL : key;
    for (i = 0; i < INFER__COUNT(INFER__STRICT); i++)
        if (strncmp(key, INFER__STRICT[i], strlen(INFER__STRICT[i])) == 0) return key;
    return NULL;
}

static int infer__words_have(const char *words, const char *word) {
    size_t n = strlen(word);
    while (words && *words) {
        size_t len = strcspn(words, " ");
        if (len == n && memcmp(words, word, n) == 0) return 1;
        words += len;
        words += strspn(words, " ");
    }
    return 0;
}

static const infer__idle_key *infer__idle_find(const char *name) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__IDLE_KEYS); i++)
        if (infer__words_have(INFER__IDLE_KEYS[i].names, name)) return &INFER__IDLE_KEYS[i];
    return NULL;
}

/* For messages: " is 2", where the value is one number. */
static const char *infer__key_value(char out[40], const infer__kv *kv) {
    out[0] = 0;
    if (infer__kv_kind(kv->type)) infer__format(out, 40, " is %g", infer__kv_number(kv, 0));
    return out;
}

static infer_result infer__key_refuse(const infer_model *m, const char *key, const char *why, infer_error *err) {
    char name[84], value[40] = "";
    const infer__kv *kv = infer__gguf_peek(&m->gguf, key);
    infer__gguf_clip(name, key);
    if (kv) infer__key_value(value, kv);
    if (m->params.allow_unknown) {
        infer__log(&m->report, 2, "key %s%s: ignored, the model may compute something else (%.200s)", name, value, why);
        return INFER_OK;
    }
    return infer__error(err, INFER_ERR_UNSUPPORTED, "key %s%s: %.200s", name, value, why);
}

static infer_result infer__check_type(const infer_model *m, infer_error *err) {
    infer__str s = { "", 0 };
    int r = infer__gguf_str(&m->gguf, "general.type", &s, err);
    if (r < 0) return (infer_result)r;
    if (r == 0 || (s.n == 5 && memcmp(s.s, "model", 5) == 0 && !infer__stack_row_of(m))) return INFER_OK;
    if (infer__stack_row_of(m) && s.n == 6 && memcmp(s.s, "mmproj", 6) == 0) return INFER_OK;
    return infer__error(err, INFER_ERR_UNSUPPORTED, "key general.type is \"%.*s\": the file is no model",
                        (int)INFER__MIN(s.n, 40), s.s);
}

static infer_result infer__key_ids(infer__arena *arena, const infer__kv *kv, const char *key, uint64_t n,
                                   uint64_t vocab, int32_t **out, infer_error *err) {
    uint64_t i;
    if (!kv || kv->type != INFER__GGUF_ARRAY || !infer__kv_is_numbers(kv) || kv->n != n)
        return infer__error(err, INFER_ERR_FORMAT, "key %s: not an array of %llu ids", key, (unsigned long long)n);
    *out = (int32_t *)infer__arena_alloc(arena, n * sizeof **out);
    if (!*out) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", key);
    for (i = 0; i < n; i++) {
        const double v = infer__kv_number(kv, i);
        if (!(v >= 0 && v < (double)vocab && v == floor(v)))
            return infer__error(err, INFER_ERR_FORMAT, "key %s: %g is no id of a vocabulary of %llu", key, v,
                                (unsigned long long)vocab);
        (*out)[i] = (int32_t)v;
    }
    return INFER_OK;
}

static infer_result infer__keys_check(const infer_model *m, infer_error *err) {
    infer_error other;
    infer_result r = INFER_OK;
    int32_t i, more = 0;
    for (i = 0; i < m->gguf.n_kv; i++) {
        const infer__kv *kv = &m->gguf.kv[i];
        const char *name = infer__key_of(m, kv->key), *why = "nothing here knows what it does to this architecture";
        const infer__idle_key *row;
        if (!name || infer__gguf_asked(&m->gguf, i)) continue;
        row = infer__idle_find(name);
        if (row && row->idle(m, kv, row->value)) continue;
        if (infer__words_have(infer__arch_of(m)->idle, name)) continue;
        if (row) why = row->why;
        if (r == INFER_OK) r = infer__key_refuse(m, kv->key, why, err);
        else if (infer__key_refuse(m, kv->key, why, &other) != INFER_OK) {
            infer__log(&m->report, 3, "%s", other.message);
            more++;
        }
    }
    if (more && err) {
        size_t n = strlen(err->message);
        infer__format(err->message + n, sizeof err->message - n, " (and %d more keys)", (int)more);
    }
    return r;
}
