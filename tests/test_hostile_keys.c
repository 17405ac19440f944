/* test_hostile_keys.c: keys of the file that change what a model computes.
 *
 * A key of the architecture is followed, or the model is refused by its name, or it is known to be without effect: never
 * silently dropped. Every name that llama.cpp and its converters know is added to a model of every row, with a value that
 * would matter. Keys are put in front of those of recorded models. */
#include "gguf_write.h"

typedef struct key_case {
    const char *name;   /* behind the prefix; with ':' in front a whole name */
    char type;          /* u U32, i I32, f F32, b BOOL, s STRING, l array of U32, one for each layer */
    double value;
    const char *text;
    char effect;        /* X: followed or refused, whatever the row. N: it changes nothing. Else only a model that `has` it
                         * must do so: E experts, C scored by softmax, S by sigmoid, D with weights divided by their sum, Q
                         * not so, H shared ones, R rotation, W windows, Y YaRN, L mean in its norms, M none, B serial
                         * blocks, G Granite's switch, O rotation and no other factor */
} key_case;

static const key_case KEY_CASES[] = {
    { "vocab_size", 'u', 77, NULL, 'N' },
    { "context_length", 'u', 99, NULL, 'N' },
    { "embedding_length", 'u', 48, NULL, 'X' },
    { "embedding_length_out", 'u', 7, NULL, 'X' },
    { "embedding_length_per_layer_input", 'u', 8, NULL, 'X' },
    { "features_length", 'u', 8, NULL, 'X' },
    { "block_count", 'u', 9, NULL, 'X' },
    { "leading_dense_block_count", 'u', 1, NULL, 'N' },
    { "attn_res.block_size", 'u', 2, NULL, 'X' },
    { "activation.situ_beta", 'f', 2, NULL, 'X' },
    { "activation.situ_linear_beta", 'f', 2, NULL, 'X' },
    { "activation_sparsity_scale", 'f', 2, NULL, 'X' },
    { "feed_forward_length", 'u', 40, NULL, 'X' },
    { "expert_feed_forward_length", 'u', 40, NULL, 'E' },
    { "expert_shared_feed_forward_length", 'u', 40, NULL, 'H' },
    { "expert_chunk_feed_forward_length", 'u', 40, NULL, 'E' },
    { "swiglu_clamp_exp", 'l', 3, NULL, 'X' },
    { "swiglu_clamp_shexp", 'l', 3, NULL, 'X' },
    { "use_parallel_residual", 'b', 1, NULL, 'B' },
    { "tensor_data_layout", 's', 0, "Meta AI original pth", 'N' },
    { "expert_count", 'u', 3, NULL, 'E' },
    { "expert_used_count", 'u', 1, NULL, 'X' },
    { "expert_shared_count", 'u', 2, NULL, 'N' },
    { "expert_group_count", 'u', 2, NULL, 'E' },
    { "expert_group_used_count", 'u', 2, NULL, 'N' },
    { "expert_weights_scale", 'f', 2.5, NULL, 'E' },
    { "expert_weights_norm", 'b', 0, NULL, 'D' },
    { "expert_weights_norm", 'b', 1, NULL, 'Q' },
    { "expert_latent_length", 'u', 8, NULL, 'E' },
    { "expert_gating_func", 'u', 2, NULL, 'C' }, /* sigmoid */
    { "expert_gating_func", 'u', 1, NULL, 'S' }, /* softmax */
    { "expert_gating_func", 'u', 4, NULL, 'E' }, /* the square root of softplus */
    { "expert_group_scale", 'f', 0.5, NULL, 'E' },
    { "experts_per_group", 'u', 2, NULL, 'E' },
    { "moe_every_n_layers", 'u', 2, NULL, 'E' },
    { "moe_latent_size", 'u', 8, NULL, 'E' },
    { "interleave_moe_layer_step", 'u', 2, NULL, 'E' },
    { "nextn_predict_layers", 'u', 1, NULL, 'X' },
    { "n_deepstack_layers", 'u', 1, NULL, 'X' },
    { "deepstack_mapping", 'l', 1, NULL, 'X' },
    { "hidden_activation", 's', 0, "gelu_new", 'X' },
    { "pooling_type", 'u', 2, NULL, 'N' }, /* of embeddings; logits stay */
    { "logit_scale", 'f', 0.37, NULL, 'X' },
    { "decoder_start_token_id", 'i', 3, NULL, 'N' },
    { "decoder_block_count", 'u', 1, NULL, 'X' },
    { "attn_logit_softcapping", 'f', 1.5, NULL, 'X' },
    { "router_logit_softcapping", 'f', 1.5, NULL, 'X' },
    { "final_logit_softcapping", 'f', 0.5, NULL, 'X' },
    { "swin_norm", 'b', 1, NULL, 'X' },
    { "rescale_every_n_layers", 'u', 2, NULL, 'X' },
    { "time_mix_extra_dim", 'u', 2, NULL, 'X' },
    { "time_decay_extra_dim", 'u', 2, NULL, 'X' },
    { "residual_scale", 'f', 0.3, NULL, 'X' },
    { "embedding_scale", 'f', 0.3, NULL, 'X' },
    { "adapters.count", 'u', 2, NULL, 'X' },
    { "adapters.token_ids_activate", 'l', 2, NULL, 'X' },
    { "adapters.token_ids_substitute", 'l', 2, NULL, 'X' },
    { "adapters.lora_rank", 'u', 2, NULL, 'X' },
    { "adapters.router_gain", 'f', 2, NULL, 'X' },
    { "token_shift_count", 'u', 3, NULL, 'X' },
    { "full_attention_interval", 'u', 2, NULL, 'X' },
    { "num_loops", 'u', 2, NULL, 'X' },
    { "skip_loop_final_norm", 'b', 1, NULL, 'X' },
    { "hrm.layers_per_stack", 'u', 2, NULL, 'X' },
    { "hrm.h_cycles", 'u', 2, NULL, 'X' },
    { "hrm.l_cycles", 'u', 2, NULL, 'X' },
    { "hrm.prefix_lm", 'b', 1, NULL, 'X' },
    { "altup.active_idx", 'u', 1, NULL, 'X' },
    { "altup.num_inputs", 'u', 2, NULL, 'X' },
    { "attention.head_count", 'u', 2, NULL, 'X' },
    { "attention.head_count_kv", 'u', 3, NULL, 'X' },
    { "attention.max_alibi_bias", 'f', 3, NULL, 'X' },
    { "attention.clamp_kqv", 'f', 0.05, NULL, 'X' },
    { "attention.key_length", 'u', 10, NULL, 'X' },
    { "attention.value_length", 'u', 10, NULL, 'X' },
    { "attention.layer_norm_epsilon", 'f', 0.5, NULL, 'L' },
    { "attention.layer_norm_rms_epsilon", 'f', 0.5, NULL, 'M' },
    { "attention.group_norm_epsilon", 'f', 0.5, NULL, 'X' },
    { "attention.group_norm_groups", 'u', 2, NULL, 'X' },
    { "attention.causal", 'b', 0, NULL, 'X' },
    { "attention.q_lora_rank", 'u', 8, NULL, 'X' },
    { "attention.kv_lora_rank", 'u', 8, NULL, 'X' },
    { "attention.kv_lora_rank_swa", 'u', 8, NULL, 'X' },
    { "attention.decay_lora_rank", 'u', 8, NULL, 'X' },
    { "attention.iclr_lora_rank", 'u', 8, NULL, 'X' },
    { "attention.value_residual_mix_lora_rank", 'u', 8, NULL, 'X' },
    { "attention.gate_lora_rank", 'u', 8, NULL, 'X' },
    { "attention.relative_buckets_count", 'u', 8, NULL, 'X' },
    { "attention.sliding_window", 'u', 3, NULL, 'X' },
    { "attention.sliding_window_pattern", 'u', 0, NULL, 'W' }, /* 0: all layers have a window */
    { "attention.rope_pattern", 'l', 0, NULL, 'R' },
    { "attention.scale", 'f', 0.9, NULL, 'X' },
    { "attention.output_scale", 'f', 0.5, NULL, 'X' },
    { "attention.value_scale", 'f', 0.5, NULL, 'X' },
    { "attention.temperature_length", 'u', 8, NULL, 'X' },
    { "attention.temperature_scale", 'f', 0.7, NULL, 'X' },
    { "attention.key_length_mla", 'u', 8, NULL, 'X' },
    { "attention.value_length_mla", 'u', 8, NULL, 'X' },
    { "attention.key_length_swa", 'u', 8, NULL, 'W' },
    { "attention.value_length_swa", 'u', 8, NULL, 'W' },
    { "attention.key_length_mla_swa", 'u', 8, NULL, 'X' },
    { "attention.value_length_mla_swa", 'u', 8, NULL, 'X' },
    { "attention.indexer.head_count", 'u', 2, NULL, 'X' },
    { "attention.indexer.key_length", 'u', 8, NULL, 'X' },
    { "attention.indexer.top_k", 'u', 8, NULL, 'X' },
    { "attention.indexer.block_size", 'u', 8, NULL, 'X' },
    { "attention.indexer.local_blocks", 'u', 8, NULL, 'X' },
    { "attention.indexer.types", 'l', 1, NULL, 'X' },
    { "attention.indexer.kpool", 'u', 2, NULL, 'X' },
    { "attention.indexer.kpool_select_tail", 'b', 1, NULL, 'N' },
    { "attention.output_group_count", 'u', 2, NULL, 'X' },
    { "attention.output_lora_rank", 'u', 8, NULL, 'X' },
    { "attention.compress_rope_freq_base", 'f', 100, NULL, 'X' },
    { "attention.compress_ratios", 'l', 2, NULL, 'X' },
    { "attention.shared_kv_layers", 'u', 1, NULL, 'X' },
    { "attention.recurrent_layers", 'l', 1, NULL, 'X' },
    { "hyper_connection.count", 'u', 2, NULL, 'X' },
    { "hyper_connection.sinkhorn_iterations", 'u', 2, NULL, 'X' },
    { "hyper_connection.epsilon", 'f', 0.5, NULL, 'X' },
    { "hyper_connection.magnitude", 'f', 0.5, NULL, 'X' },
    { "hyper_connection.low_rank", 'u', 2, NULL, 'X' },
    { "ple.layers", 'l', 1, NULL, 'X' },
    { "ple.ngram_size", 'u', 2, NULL, 'X' },
    { "ple.heads_per_ngram", 'u', 2, NULL, 'X' },
    { "ple.conv_kernel", 'u', 2, NULL, 'X' },
    { "ple.layer_multipliers", 'l', 2, NULL, 'X' },
    { "ple.head_offsets", 'l', 2, NULL, 'X' },
    { "ple.head_vocab_sizes", 'l', 2, NULL, 'X' },
    { "ple.eos_token_id", 'u', 2, NULL, 'X' },
    { "ple.image_token_id", 'u', 2, NULL, 'X' },
    { "hash_layer_count", 'u', 1, NULL, 'X' },
    { "rope.dimension_count", 'u', 6, NULL, 'R' },
    { "rope.dimension_count_swa", 'u', 6, NULL, 'W' },
    { "rope.dimension_sections", 'l', 4, NULL, 'X' },
    { "rope.freq_base", 'f', 777, NULL, 'R' },
    { "rope.freq_base_swa", 'f', 777, NULL, 'W' },
    { "rope.scale_linear", 'f', 3, NULL, 'O' },
    { "rope.scaling.type", 's', 0, "magic", 'X' },
    { "rope.scaling.factor", 'f', 3, NULL, 'R' },
    { "rope.scaling.alpha", 'f', 3, NULL, 'X' },
    { "rope.scaling.attn_factor", 'f', 1.3, NULL, 'R' },
    { "rope.scaling.original_context_length", 'u', 3000, NULL, 'Y' },
    { "rope.scaling.finetuned", 'b', 0, NULL, 'G' },
    { "rope.scaling.yarn_log_multiplier", 'f', 0.7, NULL, 'Y' },
    { "rope.scaling.yarn_ext_factor", 'f', 0.4, NULL, 'X' },
    { "rope.scaling.yarn_attn_factor", 'f', 1.4, NULL, 'X' },
    { "rope.scaling.yarn_beta_fast", 'f', 0.01, NULL, 'Y' },
    { "rope.scaling.yarn_beta_slow", 'f', 0.05, NULL, 'Y' },
    { "ssm.conv_kernel", 'u', 4, NULL, 'X' },
    { "ssm.inner_size", 'u', 4, NULL, 'X' },
    { "ssm.state_size", 'u', 4, NULL, 'X' },
    { "ssm.time_step_rank", 'u', 4, NULL, 'X' },
    { "ssm.group_count", 'u', 4, NULL, 'X' },
    { "ssm.dt_b_c_rms", 'b', 1, NULL, 'X' },
    { "kda.head_dim", 'u', 4, NULL, 'X' },
    { "kda.safe_gate", 'b', 1, NULL, 'X' },
    { "kda.gate_lower_bound", 'f', -5, NULL, 'X' },
    { "wkv.head_size", 'u', 4, NULL, 'X' },
    { "posnet.embedding_length", 'u', 4, NULL, 'X' },
    { "posnet.block_count", 'u', 4, NULL, 'X' },
    { "convnext.embedding_length", 'u', 4, NULL, 'X' },
    { "convnext.block_count", 'u', 4, NULL, 'X' },
    { "classifier.output_labels", 's', 0, "yes", 'N' },
    { "classifier.pooling_type", 'u', 1, NULL, 'N' },
    { "target_layers", 'l', 1, NULL, 'X' },
    { "target_hidden_size", 'u', 4, NULL, 'X' },
    { "norm_before_residual", 'b', 1, NULL, 'X' },
    { "norm_before_fc", 'b', 1, NULL, 'X' },
    { "block_size", 'u', 4, NULL, 'X' },
    { "conv_kernel_size", 'u', 4, NULL, 'X' },
    { "conv_group_size", 'u', 4, NULL, 'X' },
    { "selector_rank", 'u', 4, NULL, 'X' },
    { "selector_top_k", 'u', 4, NULL, 'X' },
    { "shortconv.l_cache", 'u', 5, NULL, 'X' },
    { "dense_2_feat_in", 'u', 8, NULL, 'X' },
    { "dense_2_feat_out", 'u', 8, NULL, 'X' },
    { "dense_3_feat_in", 'u', 8, NULL, 'X' },
    { "dense_3_feat_out", 'u', 8, NULL, 'X' },
    /* what other converters write, and what nobody has written yet */
    { "rope.local.freq_base", 'f', 777, NULL, 'X' },
    { "rope.global.freq_base", 'f', 777, NULL, 'X' },
    { "mm.tokens_per_image", 'u', 256, NULL, 'X' },
    { "vision.block_count", 'u', 27, NULL, 'X' },
    { "ssm.", 'u', 1, NULL, 'X' },
    { "new_in_2031", 'f', 1, NULL, 'X' },
    { "new_in_2031.zero", 'u', 0, NULL, 'X' },
    /* keys without the prefix */
    { ":general.type", 's', 0, "adapter", 'X' },
    { ":general.quantization_version", 'u', 3, NULL, 'X' },
    { ":general.alignment", 'u', 32, NULL, 'N' },
    { ":general.file_type", 'u', 7, NULL, 'N' },
    { ":general.sampling.temp", 'f', 0.1, NULL, 'N' },
    { ":adapter.type", 's', 0, "lora", 'X' },
    { ":adapter.lora.alpha", 'f', 16, NULL, 'X' },
    { ":diffusion.shift_logits", 'b', 1, NULL, 'X' },
    { ":xielu.alpha_n", 'l', 1, NULL, 'X' },
    { ":xielu.alpha_p", 'l', 1, NULL, 'X' },
    { ":xielu.beta", 'l', 1, NULL, 'X' },
    { ":xielu.eps", 'l', 1, NULL, 'X' },
    { ":quantize.imatrix.entries_count", 'u', 5, NULL, 'N' },
    { ":tokenizer.ggml.token_type_count", 'u', 5, NULL, 'N' },
};

/* A model of each row, and what it has. */
static const struct { const char *arch, *file, *has; } KEY_MODELS[] = {
    { "arcee", "arcee-dense", "R" },        { "bloom", "bloom-real-dense", "L" },
    { "cohere2", "cohere2-swa-dense", "LRWP" }, { "command-r", "command-r-plain-dense", "LRP" },
    { "exaone", "exaone-dense", "R" },      { "gemma", "gemma-headdim-dense", "R" },
    { "gemma2", "gemma2-softcap-dense", "RW" }, { "gemma3", "gemma3-real-dense", "RW" },
    { "gpt2", "gpt2-tied-dense", "L" },     { "gptneox", "gptneox-seq-dense", "LR" },
    { "granite", "granite-real-dense", "RG" }, { "granite", "granite-moe", "RGECDH" },
    { "internlm2", "internlm2-dense", "R" }, { "lfm2", "lfm2-dense", "RW" },
    { "lfm2moe", "lfm2moe-moe", "RES" }, { "cohere2moe", "cohere2moe-moe", "RWPESQH" }, { "llama", "llama-dense", "R" },
    { "llama", "llama-mixtral-moe", "RECD" }, { "llama", "llama-yarn-dense", "RY" },
    { "minicpm", "minicpm-real-dense", "R" }, { "mistral3", "mistral3-yarn-dense", "RY" },
    { "mpt", "mpt-plain-dense", "L" },      { "nemotron", "nemotron-dense", "LR" },
    { "olmo", "olmo-dense", "LR" },         { "olmo2", "olmo2-swa-dense", "RWY" },
    { "orion", "orion-dense", "LR" },       { "phi2", "phi2-dense", "LRP" },
    { "phi3", "phi3-partial-dense", "R" },  { "qwen2", "qwen2-plain-dense", "R" },
    { "qwen3", "qwen3-plain-dense", "R" },  { "qwen3moe", "qwen3moe-norm-moe", "RECD" },
    { "seed_oss", "seed_oss-dense", "R" },  { "smollm3", "smollm3-nope-dense", "R" },
    { "stablelm", "stablelm-plain-dense", "LRP" }, { "starcoder2", "starcoder2-tied-dense", "LR" },
    { "bailingmoe", "bailingmoe-moe", "RECQH" }, { "bailingmoe2", "bailingmoe2-moe", "RESQH" },
    { "deepseek", "deepseek-moe", "RECQH" }, { "dots1", "dots1-moe", "RESQH" },
    { "ernie4_5-moe", "ernie4_5-moe-moe", "RECDH" }, { "exaone-moe", "exaone-moe-moe", "RWESQH" },
    { "glm4moe", "glm4moe-moe", "RESQH" },  { "gpt-oss", "gpt-oss-moe", "RWECD" },
    { "granitemoe", "granitemoe-real-moe", "RGECD" }, { "hy_v3", "hy_v3-moe", "RESQH" },
    { "mellum", "mellum-moe", "RWECD" },    { "minimax-m2", "minimax-m2-moe", "RES" },
    { "olmoe", "olmoe-moe", "RECQ" },       { "phimoe", "phimoe-moe", "RECD" },
    { "arctic", "arctic-moe", "RECD" },     { "smallthinker", "smallthinker-moe", "RWES" },
    { "afmoe", "afmoe-moe", "RWESQH" },     { "dbrx", "dbrx-moe", "LRECD" },
    { "grok", "grok-moe", "REC" },          { "hunyuan-moe", "hunyuan-moe-moe", "RECDH" }, { "laguna", "laguna-moe", "RWESQH" },
    { "mimo2", "mimo2-moe", "RWES" },
    { "qwen2moe", "qwen2moe-plain-moe", "RECQH" }, { "qwen3vlmoe", "qwen3vlmoe-moe", "RECD" },
};

/* Where a key that must matter elsewhere changes nothing, and why. */
static const struct { const char *file, *name, *why; } KEY_WITHOUT_EFFECT[] = {
    { "phi3-partial-dense", "attention.sliding_window", "recorded references see everything, whatever the key says" },
    { "granite-moe", "feed_forward_length", "no layer without experts; theirs is in the shape of a tensor" },
    { "llama-mixtral-moe", "feed_forward_length", "the same" },
    { "qwen3moe-norm-moe", "feed_forward_length", "the same" },
    { "lfm2-dense", "attention.sliding_window_pattern", "0: every layer of attention has a window, as without the key" },
    { "bailingmoe-moe", "feed_forward_length", "the same" },
    { "gpt-oss-moe", "feed_forward_length", "the same" },
    { "granitemoe-real-moe", "feed_forward_length", "the same" },
    { "hy_v3-moe", "feed_forward_length", "the same: dense tensors beside experts are not used" },
    { "mellum-moe", "feed_forward_length", "the same" },
    { "minimax-m2-moe", "feed_forward_length", "the same" },
    { "olmoe-moe", "feed_forward_length", "the same" },
    { "phimoe-moe", "feed_forward_length", "the same" },
    { "qwen2moe-plain-moe", "feed_forward_length", "the same" },
    { "qwen3vlmoe-moe", "feed_forward_length", "the same" },
    { "phimoe-moe", "attention.sliding_window", "as phi3's" },
    { "qwen3vlmoe-moe", "rope.dimension_sections", "the positions of a text are equal in all sections" },
    { "qwen3vlmoe-moe", "n_deepstack_layers", "of pictures" },
    { "dbrx-moe", "feed_forward_length", "no layer without experts" },
    { "arctic-moe", "feed_forward_length", "the dense FFN is as wide as the model" },
    { "smallthinker-moe", "feed_forward_length", "no layer without experts" },
    { "hunyuan-moe-moe", "feed_forward_length", "the same" },
    { "grok-moe", "router_logit_softcapping", "the references do not apply it" },
    { "mimo2-moe", "feed_forward_length", "the same" },
    { "ernie4_5-moe-moe", "interleave_moe_layer_step", "it is what the file says" },
};

/* Sizes: the message may name a tensor that does not have it, or another size. */
static const char *const KEY_SIZES[] = {
    "embedding_length", "block_count", "feed_forward_length", "expert_feed_forward_length",
    "expert_shared_feed_forward_length", "expert_count", "attention.head_count", "attention.head_count_kv",
    "attention.key_length", "attention.value_length", "rope.dimension_count", "rope.dimension_count_swa", "shortconv.l_cache",
};

static const int32_t KEY_IDS = 72; /* more than the windows, and than mistral3's context before its temperature grows */

/* The file with more keys in front of its own, which have to take a multiple of the alignment: a last one fills up. A key
 * that the file has already gets another name. free() it. */
static char *keys_file(const char *data, size_t n, gguf_writer *w, const char *replaced, size_t *size) {
    char *out, *at;
    uint64_t count = infer__load_u64(data + 16);
    size_t len = replaced ? strlen(replaced) : 0, i;
    static const char filler[64] = { 0 };
    gw_strn(w, "zzz.filler", filler, (32 - (w->kv.n + 8 + 10 + 4 + 8) % 32) % 32);
    count += w->n_kv;
    *size = n + w->kv.n;
    out = (char *)malloc(*size);
    if (out) {
        memcpy(out, data, 24);
        for (i = 0; i < 8; i++) out[16 + i] = (char)(count >> 8 * i);
        memcpy(out + 24, w->kv.p, w->kv.n);
        memcpy(out + 24 + w->kv.n, data + 24, n - 24);
        at = out + 24 + w->kv.n;
        for (i = 0; len && i + 8 + len < n - 24 && i < 20000; i++)
            if (infer__load_u64(at + i) == len && memcmp(at + i + 8, replaced, len) == 0) {
                at[i + 8] = '~';
                break;
            }
    }
    free(w->kv.p);
    memset(w, 0, sizeof *w);
    return out;
}

static void keys_put(gguf_writer *w, const key_case *c, const char *key, int32_t layers) {
    int64_t all[64];
    int32_t i;
    switch (c->type) {
    case 'u': gw_int(w, key, GW_U32, (int64_t)c->value); break;
    case 'i': gw_int(w, key, GW_I32, (int64_t)c->value); break;
    case 'b': gw_int(w, key, GW_BOOL, (int64_t)c->value); break;
    case 'f': gw_f32(w, key, (float)c->value); break;
    case 's': gw_str(w, key, c->text); break;
    default:
        for (i = 0; i < layers && i < 64; i++) all[i] = (int64_t)c->value;
        gw_ints(w, key, GW_U32, all, (size_t)layers);
    }
}

typedef struct keys_log { int n; char text[2000]; } keys_log;
static void keys_on_log(void *user, int level, const char *message) {
    keys_log *log = (keys_log *)user;
    size_t at = strlen(log->text);
    if (level != 2) return;
    log->n++;
    snprintf(log->text + at, sizeof log->text - at, "%s\n", message);
}

/* Logits of the last of KEY_IDS tokens to out (vocab floats), or why not. 1 = computed. */
static int keys_run(const char *data, size_t n, int allow, keys_log *log, float *out, int32_t cap, char *why, size_t why_cap) {
    infer_model_params mp;
    infer_session_params sp;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error e;
    infer_model_info info;
    infer_token ids[72];
    int32_t i;
    int ok = 0;
    memset(&mp, 0, sizeof mp);
    memset(&sp, 0, sizeof sp);
    mp.backend = INFER_CPU;
    mp.allow_unknown = allow;
    mp.exact = 1;
    if (log) {
        memset(log, 0, sizeof *log);
        mp.log = keys_on_log;
        mp.log_user = log;
    }
    why[0] = 0;
    if (infer_model_open_memory(&m, data, n, &mp, &e)) { /* the file itself opens, whatever its keys say */
        check_note(__FILE__, __LINE__, e.message);
        return 0;
    }
    snprintf(why, why_cap, "%s", infer_model_why_not(m));
    CHECK(infer_model_get_info(m, &info) == INFER_OK && info.computes == !why[0]);
    sp.context = 96;
    sp.own.threads = 1;
    sp.own.kv_type = INFER_KV_F32;
    if (why[0]) {
        CHECK(infer_session_create(&s, m, &sp, &e) != INFER_OK && s == NULL);
        CHECK_STR(e.message, why);
    } else {
        for (i = 0; i < KEY_IDS; i++) ids[i] = (infer_token)((i * 37 + 11) % (info.vocab < 100 ? info.vocab : 100));
        if (infer_session_create(&s, m, &sp, &e)) check_note(__FILE__, __LINE__, e.message);
        else if (infer_session_eval(s, ids, KEY_IDS)) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
        else {
            memcpy(out, infer_session_logits(s, -1), (size_t)INFER__MIN(cap, info.vocab) * sizeof *out);
            ok = 1;
        }
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return ok;
}

static int keys_have(const char *data, size_t n, const char *key) {
    size_t len = strlen(key), i;
    for (i = 24; i + len < n && i < 20000; i++)
        if (memcmp(data + i, key, len) == 0 && infer__load_u64(data + i - 8) == len) return 1;
    return 0;
}

/* 1 when the key must be followed or refused in this model, 0 when it must change nothing. */
static int key_matters(const key_case *c, size_t model, const char *data, size_t n) {
    const char *has = KEY_MODELS[model].has;
    char key[160];
    size_t i;
    for (i = 0; i < sizeof KEY_WITHOUT_EFFECT / sizeof *KEY_WITHOUT_EFFECT; i++)
        if (strcmp(KEY_WITHOUT_EFFECT[i].file, KEY_MODELS[model].file) == 0 &&
            strcmp(KEY_WITHOUT_EFFECT[i].name, c->name) == 0)
            return 0;
    switch (c->effect) {
    case 'X': return 1;
    case 'N': return 0;
    case 'M': return !strchr(has, 'L');
    case 'B': return !strchr(has, 'P');
    case 'O':
        snprintf(key, sizeof key, "%s.rope.scaling.factor", KEY_MODELS[model].arch);
        return strchr(has, 'R') && !keys_have(data, n, key);
    default: return strchr(has, c->effect) != NULL;
    }
}

static int key_is_size(const char *name) {
    size_t i;
    for (i = 0; i < sizeof KEY_SIZES / sizeof *KEY_SIZES; i++)
        if (strcmp(KEY_SIZES[i], name) == 0) return 1;
    return 0;
}

enum { KEYS_VOCAB = 128 };

/* The model's file, in the repository or among the references; NULL when that is not there. */
static const char *key_model_path(size_t model, int *kept) {
    char name[128];
    const char *p;
    FILE *f;
    snprintf(name, sizeof name, "archs/%s.gguf", KEY_MODELS[model].file);
    p = check_data(name);
    f = fopen(p, "rb");
    *kept = f != NULL;
    if (f) fclose(f);
    return f ? p : check_reference(name);
}

/* Every key of KEY_CASES in every model that is kept here, or in those that are not: no value that matters is dropped,
 * none that does not is refused. */
static void keys_in_rows(int here) {
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    char why[512], key[160], detail[200];
    const char *from;
    int followed = 0, refused = 0, idle = 0, kept, part = check_every(8);
    size_t f, i, n, size;
    int32_t row;
    for (row = 0; infer_arch_name(row); row++) { /* none is left out */
        for (f = 0; f < sizeof KEY_MODELS / sizeof *KEY_MODELS; f++)
            if (strcmp(KEY_MODELS[f].arch, infer_arch_name(row)) == 0) break;
        check_detail = infer_arch_name(row);
        CHECK(f < sizeof KEY_MODELS / sizeof *KEY_MODELS);
    }
    for (f = 0; f < sizeof KEY_MODELS / sizeof *KEY_MODELS; f += (size_t)part) {
        char *data, *file;
        int32_t layers;
        infer_model *m = NULL;
        infer_model_info info;
        from = key_model_path(f, &kept);
        check_detail = KEY_MODELS[f].file;
        if (kept != here) continue;
        data = from ? check_read(from, &n) : NULL;
        CHECK(data && infer_model_open_memory(&m, data, n, NULL, NULL) == INFER_OK);
        if (!m) { free(data); continue; }
        CHECK(infer_model_get_info(m, &info) == INFER_OK && info.vocab <= KEYS_VOCAB);
        layers = info.layers;
        infer_model_close(m);
        CHECK(keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
        for (i = 0; i < sizeof KEY_CASES / sizeof *KEY_CASES; i++) {
            const key_case *c = &KEY_CASES[i];
            int matters = key_matters(c, f, data, n), computed, same;
            gguf_writer w;
            gw_init(&w);
            if (c->name[0] == ':') snprintf(key, sizeof key, "%s", c->name + 1);
            else snprintf(key, sizeof key, "%s.%s", KEY_MODELS[f].arch, c->name);
            snprintf(detail, sizeof detail, "%s in %s", key, KEY_MODELS[f].file);
            check_detail = detail;
            keys_put(&w, c, key, layers);
            file = keys_file(data, n, &w, key, &size);
            memset(with, 0, sizeof with);
            computed = file && keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why);
            same = computed && memcmp(with, plain, (size_t)info.vocab * sizeof *with) == 0;
            if (matters && same) check_note(__FILE__, __LINE__, "silently ignored");
            if (!matters && !computed) check_note(__FILE__, __LINE__, why);
            if (!matters && computed && !same) check_note(__FILE__, __LINE__, "changes the result");
            /* a key that stops every rotation leaves the file's factors without use: then those are named */
            if (!computed && !key_is_size(c->name) && !strstr(why, ".weight: no layer uses RoPE factors")) CHECK_HAS(why, key);
            followed += computed && !same;
            refused += !computed;
            idle += same;
            free(file);
        }
        free(data);
    }
    if (getenv("CHECK_VERBOSE")) printf("keys: %d followed, %d refused by name, %d without effect\n", followed, refused, idle);
    if (here) CHECK(followed > 300 / part && refused > 2000 / part && idle > 500 / part);
}

static void test_hostile_keys_all_rows(void) { keys_in_rows(1); }

static void test_hostile_keys_references(void) {
    if (!check_reference("archs/olmoe-moe.gguf")) SKIP("needs INFER_TEST_DATA");
    keys_in_rows(0);
}

/* A model, keys that are added to it, what has to come of it. */
typedef struct keys_few {
    const char *file, *note;
    key_case add[4];
    const char *message; /* in why_not; NULL = it computes */
    int differs;         /* and the result is another one */
} keys_few;

static void keys_check_few(const keys_few *c) {
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    char path[128], why[512], key[160], arch[32], *data, *file;
    size_t n, size, i;
    gguf_writer w;
    int computed;
    check_detail = c->note;
    snprintf(path, sizeof path, "archs/%s.gguf", c->file);
    snprintf(arch, sizeof arch, "%.*s", (int)strcspn(c->file, "-"), c->file);
    data = check_read(check_data(path), &n);
    CHECK(data != NULL);
    if (!data) return;
    CHECK(keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
    gw_init(&w);
    for (i = 0; i < 4 && c->add[i].name; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, c->add[i].name);
        keys_put(&w, &c->add[i], key, 2);
    }
    snprintf(key, sizeof key, "%s.%s", arch, c->add[0].name); /* only the first may be there already */
    file = keys_file(data, n, &w, key, &size);
    memset(with, 0, sizeof with);
    computed = file && keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why);
    if (c->message) {
        CHECK(!computed);
        CHECK_HAS(why, c->message);
        CHECK_HAS(why, key);
    } else {
        CHECK_STR(why, "");
        CHECK((memcmp(with, plain, sizeof with) != 0) == c->differs);
    }
    free(file);
    free(data);
}

/* What used to be dropped without a word. */
static void test_hostile_keys_were_silent(void) {
    static const keys_few cases[] = {
        { "llama-mixtral-moe", "scale of experts", { { "expert_weights_scale", 'f', 2.5, NULL, 0 } }, NULL, 1 },
        { "qwen3moe-norm-moe", "sigmoid", { { "expert_gating_func", 'u', 2, NULL, 0 } }, NULL, 1 },
        { "llama-mixtral-moe", "groups", { { "expert_group_count", 'u', 4, NULL, 0 },
                                           { "expert_group_used_count", 'u', 1, NULL, 0 } }, NULL, 1 },
        { "llama-mixtral-moe", "all groups", { { "expert_group_count", 'u', 4, NULL, 0 },
                                               { "expert_group_used_count", 'u', 4, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "the root of softplus", { { "expert_gating_func", 'u', 4, NULL, 0 } }, NULL, 1 },
        { "qwen3moe-norm-moe", "not divided", { { "expert_weights_norm", 'b', 0, NULL, 0 } }, NULL, 1 },
        { "llama-yarn-dense", "betas", { { "rope.scaling.yarn_beta_fast", 'f', 4, NULL, 0 },
                                         { "rope.scaling.yarn_beta_slow", 'f', 0.1, NULL, 0 } }, NULL, 1 },
        { "llama-dense", "a scale that the row has not", { { "logit_scale", 'f', 0.5, NULL, 0 } }, "only 0 and 1", 0 },
        { "llama-dense", "a window", { { "attention.sliding_window", 'u', 4, NULL, 0 } }, "window", 0 },
        { "granite-real-dense", "no rotation", { { "rope.scaling.finetuned", 'b', 0, NULL, 0 } }, NULL, 1 },
        { "gemma3-real-dense", "cap of scores", { { "attn_logit_softcapping", 'f', 20, NULL, 0 } }, "only 0", 0 },
        { "gemma3-real-dense", "a period of windows", { { "attention.sliding_window_pattern", 'u', 2, NULL, 0 } }, NULL, 1 },
        { "llama-dense", "predicted tokens", { { "nextn_predict_layers", 'u', 1, NULL, 0 } }, "nextn_predict_layers is 1", 0 },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) keys_check_few(&cases[i]);
}

/* Values that say what the row does anyway. */
static void test_hostile_keys_fine(void) {
    static const keys_few cases[] = {
        { "llama-mixtral-moe", "scale 1", { { "expert_weights_scale", 'f', 1, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "scale 0", { { "expert_weights_scale", 'f', 0, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "softmax", { { "expert_gating_func", 'u', 1, NULL, 0 },
                                            { "expert_weights_norm", 'b', 1, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "softmax of those used", { { "expert_gating_func", 'u', 3, NULL, 0 },
                                                          { "expert_weights_norm", 'b', 0, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "as llama.cpp saves it", { { "expert_gating_func", 'u', 0, NULL, 0 },
                                                          { "expert_weights_norm", 'b', 0, NULL, 0 } }, NULL, 0 },
        { "llama-mixtral-moe", "one group", { { "expert_group_count", 'u', 1, NULL, 0 },
                                              { "expert_group_used_count", 'u', 1, NULL, 0 } }, NULL, 0 },
        { "llama-dense", "sigmoid without experts", { { "expert_gating_func", 'u', 2, NULL, 0 } }, NULL, 0 },
        { "llama-yarn-dense", "usual betas", { { "rope.scaling.yarn_beta_fast", 'f', 32, NULL, 0 },
                                               { "rope.scaling.yarn_beta_slow", 'f', 1, NULL, 0 },
                                               { "rope.scaling.yarn_ext_factor", 'f', 1, NULL, 0 } }, NULL, 0 },
        { "llama-yarn-dense", "not given", { { "rope.scaling.yarn_ext_factor", 'f', -1, NULL, 0 },
                                             { "rope.scaling.yarn_attn_factor", 'f', 1, NULL, 0 } }, NULL, 0 },
        { "llama-dense", "scale 1 of logits", { { "logit_scale", 'f', 1, NULL, 0 } }, NULL, 0 },
        { "llama-dense", "a window as large as the context", { { "attention.sliding_window", 'u', 256, NULL, 0 } }, NULL, 0 },
        { "qwen2-plain-dense", "no pooling", { { "pooling_type", 'u', 4294967295.0, NULL, 0 } }, NULL, 0 },
        { "qwen2-plain-dense", "the same, signed", { { "pooling_type", 'i', -1, NULL, 0 } }, NULL, 0 },
        { "gemma3-real-dense", "as wide as the others", { { "attention.key_length_swa", 'u', 32, NULL, 0 } }, NULL, 0 },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) keys_check_few(&cases[i]);
}

/* Types, ranges, arrays of another length or with numbers that differ: errors that name the key. */
static void test_hostile_keys_types(void) {
    static const keys_few cases[] = {
        { "llama-dense", "text", { { "attention.head_count", 's', 0, "eight", 0 } }, "not an integer", 0 },
        { "llama-dense", "array", { { "embedding_length", 'l', 64, NULL, 0 } }, "is an array", 0 },
        { "llama-dense", "text as float", { { "rope.freq_base", 's', 0, "1e4", 0 } }, "not a number", 0 },
        { "llama-dense", "float as integer", { { "block_count", 'f', 2, NULL, 0 } }, "not an integer", 0 },
        { "llama-dense", "number as bool", { { "attention.causal", 'u', 2, NULL, 0 } }, "neither 0 nor 1", 0 },
        { "llama-dense", "infinite", { { "rope.freq_base", 'f', INFINITY, NULL, 0 } }, "finite", 0 },
        { "llama-yarn-dense", "beta 0", { { "rope.scaling.yarn_beta_fast", 'f', 0, NULL, 0 } }, "not positive", 0 },
        { "llama-yarn-dense", "beta below 0", { { "rope.scaling.yarn_beta_slow", 'f', -1, NULL, 0 } }, "not positive", 0 },
        { "llama-yarn-dense", "share above 1", { { "rope.scaling.yarn_ext_factor", 'f', 2, NULL, 0 } }, "is 2", 0 },
        { "llama-yarn-dense", "attention 0", { { "rope.scaling.yarn_attn_factor", 'f', 0, NULL, 0 } }, "not positive", 0 },
        { "llama-mixtral-moe", "gating as text", { { "expert_gating_func", 's', 0, "softmax", 0 } }, "not an integer", 0 },
        { "llama-mixtral-moe", "gating that nobody knows", { { "expert_gating_func", 'u', 5, NULL, 0 } }, "outside 0..4", 0 },
        { "llama-mixtral-moe", "too many experts", { { "expert_count", 'u', 1025, NULL, 0 } }, "outside 0..1024", 0 },
        { "llama-mixtral-moe", "groups, and none used", { { "expert_group_count", 'u', 2, NULL, 0 } },
          "2 of 8 experts cannot come from 0 of these groups", 0 },
        { "llama-mixtral-moe", "groups that do not divide", { { "expert_group_count", 'u', 3, NULL, 0 },
                                                              { "expert_group_used_count", 'u', 2, NULL, 0 } },
          "cannot come from 2 of these groups", 0 },
        { "llama-mixtral-moe", "groups too small", { { "expert_group_count", 'u', 8, NULL, 0 },
                                                     { "expert_group_used_count", 'u', 1, NULL, 0 } },
          "2 of 8 experts cannot come from 1 of these groups", 0 },
        { "llama-mixtral-moe", "too many groups", { { "expert_group_count", 'u', 65, NULL, 0 } }, "outside 0..64", 0 },

        { "cohere2-swa-dense", "five layers, two flags", { { "attention.sliding_window_pattern", 'l', 1, NULL, 0 } },
          "an array of 2, not of 5 numbers", 0 },
        { "smollm3-nope-dense", "five layers, two numbers", { { "attention.head_count_kv", 'l', 2, NULL, 0 } },
          "an array of 2, not of 5 numbers", 0 },
        { "gemma3-real-dense", "flag 7", { { "attention.sliding_window_pattern", 'l', 7, NULL, 0 } }, "array of 2", 0 },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) keys_check_few(&cases[i]);
}

/* Arrays: one number for each layer that agree are one number; those that differ are refused where one is needed. */
static void test_hostile_keys_arrays(void) {
    static const int64_t same[2] = { 2, 2 }, differ[2] = { 2, 1 }, both[2] = { 1, 0 };
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    size_t n, size;
    char *data = check_read(check_data("archs/llama-mixtral-moe.gguf"), &n), *file, why[512];
    gguf_writer w;
    CHECK(data && keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
    if (!data) return;
    gw_init(&w);
    gw_ints(&w, "llama.expert_used_count", GW_U32, same, 2);
    file = keys_file(data, n, &w, "llama.expert_used_count", &size);
    CHECK(keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why));
    CHECK(memcmp(with, plain, sizeof with) == 0);
    free(file);
    gw_init(&w);
    gw_ints(&w, "llama.expert_used_count", GW_U32, differ, 2);
    file = keys_file(data, n, &w, "llama.expert_used_count", &size);
    CHECK(!keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why));
    CHECK_HAS(why, "key llama.expert_used_count: numbers that differ");
    free(file);
    gw_init(&w);
    gw_ints(&w, "llama.attention.rope_pattern", GW_BOOL, both, 2);
    file = keys_file(data, n, &w, NULL, &size);
    CHECK(keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why));
    CHECK(memcmp(with, plain, sizeof with) != 0);
    free(file);
    free(data);
}

/* allow_unknown: the model computes as without the keys, and the log has a line for each. */
static void test_hostile_keys_allowed(void) {
    static const char *const names[] = { "llama.new_in_2031", "llama.experts_per_group", "llama.logit_scale",
                                         "llama.nextn_predict_layers", "xielu.beta" };
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    keys_log log;
    size_t n, size, i;
    char *data = check_read(check_data("archs/llama-mixtral-moe.gguf"), &n), *file, why[512];
    gguf_writer w;
    CHECK(data && keys_run(data, n, 1, &log, plain, KEYS_VOCAB, why, sizeof why));
    CHECK(log.n == 0);
    if (!data) return;
    gw_init(&w);
    gw_str(&w, names[0], "x");
    gw_int(&w, names[1], GW_U32, 2);
    gw_f32(&w, names[2], 0.25f);
    gw_int(&w, names[3], GW_U32, 1);
    gw_f32(&w, names[4], 0.25f);
    file = keys_file(data, n, &w, NULL, &size);
    CHECK(!keys_run(file, size, 0, &log, with, KEYS_VOCAB, why, sizeof why));
    CHECK_HAS(why, names[0]);
    CHECK_HAS(why, "(and 4 more keys)");
    CHECK(keys_run(file, size, 1, &log, with, KEYS_VOCAB, why, sizeof why));
    CHECK(memcmp(with, plain, sizeof with) == 0);
    CHECK(log.n == 5);
    for (i = 0; i < 5; i++) CHECK_HAS(log.text, names[i]);
    free(file);
    free(data);
}

/* All keys that llama.cpp writes when it saves a model, with its values for what a model has not: each row computes on,
 * bit for bit. */
static void test_hostile_keys_as_saved(void) {
    static const key_case saved[] = {
        { "leading_dense_block_count", 'u', 0, NULL, 0 }, { "expert_feed_forward_length", 'u', 0, NULL, 0 },
        { "expert_latent_length", 'u', 0, NULL, 0 }, { "expert_shared_feed_forward_length", 'u', 0, NULL, 0 },
        { "expert_chunk_feed_forward_length", 'u', 0, NULL, 0 }, { "swiglu_clamp_exp", 'l', 0, NULL, 0 },
        { "swiglu_clamp_shexp", 'l', 0, NULL, 0 }, { "use_parallel_residual", 'b', 0, NULL, 0 },
        { "expert_count", 'u', 0, NULL, 0 }, { "expert_used_count", 'u', 0, NULL, 0 }, { "expert_shared_count", 'u', 0, NULL, 0 },
        { "expert_group_count", 'u', 0, NULL, 0 }, { "expert_group_used_count", 'u', 0, NULL, 0 },
        { "expert_weights_scale", 'f', 0, NULL, 0 }, { "expert_weights_norm", 'b', 0, NULL, 0 },
        { "expert_gating_func", 'u', 0, NULL, 0 }, { "expert_group_scale", 'f', 0.05, NULL, 0 },
        { "experts_per_group", 'u', 0, NULL, 0 }, { "moe_every_n_layers", 'u', 0, NULL, 0 },
        { "nextn_predict_layers", 'u', 0, NULL, 0 }, { "n_deepstack_layers", 'u', 0, NULL, 0 },
        { "pooling_type", 'u', 4294967295.0, NULL, 0 }, { "logit_scale", 'f', 0, NULL, 0 },
        { "decoder_start_token_id", 'i', -1, NULL, 0 }, { "decoder_block_count", 'u', 0, NULL, 0 },
        { "attn_logit_softcapping", 'f', 50, NULL, 0 }, { "router_logit_softcapping", 'f', 30, NULL, 0 },
        { "final_logit_softcapping", 'f', 30, NULL, 0 }, { "swin_norm", 'b', 0, NULL, 0 },
        { "rescale_every_n_layers", 'u', 0, NULL, 0 }, { "time_mix_extra_dim", 'u', 0, NULL, 0 },
        { "time_decay_extra_dim", 'u', 0, NULL, 0 }, { "residual_scale", 'f', 0, NULL, 0 }, { "embedding_scale", 'f', 0, NULL, 0 },
        { "hrm.layers_per_stack", 'u', 0, NULL, 0 }, { "hrm.h_cycles", 'u', 0, NULL, 0 }, { "hrm.l_cycles", 'u', 0, NULL, 0 },
        { "hrm.prefix_lm", 'b', 0, NULL, 0 }, { "token_shift_count", 'u', 2, NULL, 0 }, { "interleave_moe_layer_step", 'u', 0, NULL, 0 },
        { "attention.max_alibi_bias", 'f', 0, NULL, 0 }, { "attention.clamp_kqv", 'f', 0, NULL, 0 },
        { "attention.layer_norm_epsilon", 'f', 0, NULL, 0 }, { "attention.layer_norm_rms_epsilon", 'f', 0, NULL, 0 },
        { "attention.group_norm_epsilon", 'f', 0, NULL, 0 }, { "attention.group_norm_groups", 'u', 0, NULL, 0 },
        { "attention.causal", 'b', 1, NULL, 0 }, { "attention.q_lora_rank", 'u', 0, NULL, 0 },
        { "attention.kv_lora_rank", 'u', 0, NULL, 0 }, { "attention.relative_buckets_count", 'u', 0, NULL, 0 },
        { "attention.rope_pattern", 'u', 1, NULL, 0 }, { "attention.sliding_window", 'u', 0, NULL, 0 },
        { "attention.scale", 'f', 0, NULL, 0 }, { "attention.output_scale", 'f', 0, NULL, 0 },
        { "attention.value_scale", 'f', 0, NULL, 0 }, { "attention.temperature_length", 'u', 0, NULL, 0 },
        { "attention.temperature_scale", 'f', 0, NULL, 0 }, { "attention.indexer.kpool_select_tail", 'b', 1, NULL, 0 },
        { "attention.indexer.types", 'u', 0, NULL, 0 }, { "attention.recurrent_layers", 'u', 0, NULL, 0 },
        { "attention.compress_ratios", 'u', 0, NULL, 0 }, { "hyper_connection.magnitude", 'f', 0, NULL, 0 },
        { "rope.dimension_sections", 'l', 0, NULL, 0 }, { "rope.freq_base_swa", 'f', 10000, NULL, 0 },
        { "rope.scaling.type", 's', 0, "linear", 0 }, { "rope.scaling.factor", 'f', 0, NULL, 0 },
        { "rope.scaling.attn_factor", 'f', 1, NULL, 0 }, { "rope.scaling.yarn_log_multiplier", 'f', 0, NULL, 0 },
        { "rope.scaling.yarn_ext_factor", 'f', -1, NULL, 0 }, { "rope.scaling.yarn_attn_factor", 'f', 1, NULL, 0 },
        { "rope.scaling.yarn_beta_fast", 'f', 32, NULL, 0 }, { "rope.scaling.yarn_beta_slow", 'f', 1, NULL, 0 },
        { "ssm.conv_kernel", 'u', 0, NULL, 0 }, { "ssm.dt_b_c_rms", 'b', 0, NULL, 0 }, { "kda.safe_gate", 'b', 0, NULL, 0 },
        { "kda.gate_lower_bound", 'f', -INFINITY, NULL, 0 }, { "wkv.head_size", 'u', 0, NULL, 0 },
        { "shortconv.l_cache", 'u', 0, NULL, 0 }, { "attn_res.block_size", 'u', 0, NULL, 0 },
        { "activation.situ_beta", 'f', 1, NULL, 0 }, { "activation.situ_linear_beta", 'f', 0, NULL, 0 },
        { "dense_2_feat_in", 'u', 0, NULL, 0 }, { ":xielu.alpha_n", 'l', 0, NULL, 0 }, { ":xielu.eps", 'l', 0, NULL, 0 },
    };
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    char why[512], key[160];
    const char *path;
    size_t f, i, n, size;
    int kept;
    for (f = 0; f < sizeof KEY_MODELS / sizeof *KEY_MODELS; f++) {
        char *data, *file;
        gguf_writer w;
        path = key_model_path(f, &kept);
        check_detail = KEY_MODELS[f].file;
        if (!path) continue; /* test_hostile_keys_references says so */
        data = check_read(path, &n);
        CHECK(data && keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
        if (!data) continue;
        gw_init(&w);
        for (i = 0; i < sizeof saved / sizeof *saved; i++) {
            if (saved[i].name[0] == ':') snprintf(key, sizeof key, "%s", saved[i].name + 1);
            else snprintf(key, sizeof key, "%s.%s", KEY_MODELS[f].arch, saved[i].name);
            if (keys_have(data, n, key)) continue; /* the model has it */
            /* what a row has is written with its own value */
            if (strcmp(saved[i].name, "rope.freq_base_swa") == 0 && strchr(KEY_MODELS[f].has, 'W')) continue;
            if (strcmp(saved[i].name, "final_logit_softcapping") == 0 && strcmp(KEY_MODELS[f].arch, "gemma3") == 0) continue;
            if (strstr(saved[i].name, "_softcapping") && strcmp(KEY_MODELS[f].arch, "grok") == 0) continue;
            keys_put(&w, &saved[i], key, 2);
        }
        file = keys_file(data, n, &w, NULL, &size);
        memset(with, 0, sizeof with);
        CHECK(file && keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why));
        CHECK_STR(why, "");
        CHECK(memcmp(with, plain, sizeof with) == 0);
        free(file);
        free(data);
    }
}

/* Tensors that nobody binds are refused by name as well, and go by with allow_unknown. */
static void test_hostile_keys_tensors(void) {
    static const uint64_t dims[2] = { 4, 3 };
    infer_model_params mp;
    infer_model *m = NULL;
    infer_error e;
    keys_log log;
    gguf_writer w;
    size_t n;
    unsigned char *file;
    int allow;
    static const struct { const char *name; uint64_t cols, rows; } tensors[] = {
        { "token_embd.weight", 16, 10 }, { "output_norm.weight", 16, 1 }, { "blk.0.attn_norm.weight", 16, 1 },
        { "blk.0.ffn_norm.weight", 16, 1 }, { "blk.0.attn_q.weight", 16, 16 }, { "blk.0.attn_k.weight", 16, 16 },
        { "blk.0.attn_v.weight", 16, 16 }, { "blk.0.attn_output.weight", 16, 16 }, { "blk.0.ffn_gate.weight", 16, 20 },
        { "blk.0.ffn_up.weight", 16, 20 }, { "blk.0.ffn_down.weight", 20, 16 } };
    static float zeros[400];
    size_t i;
    gw_init(&w);
    gw_str(&w, "general.architecture", "llama");
    gw_int(&w, "llama.block_count", GW_U32, 1);
    gw_int(&w, "llama.embedding_length", GW_U32, 16);
    gw_int(&w, "llama.feed_forward_length", GW_U32, 20);
    gw_int(&w, "llama.attention.head_count", GW_U32, 2);
    gw_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        uint64_t d[2];
        d[0] = tensors[i].cols;
        d[1] = tensors[i].rows;
        gw_tensor(&w, tensors[i].name, 0, tensors[i].rows == 1 ? 1 : 2, d, zeros, (size_t)(d[0] * d[1]) * 4, 4);
    }
    gw_tensor(&w, "blk.0.attn_q.scale", 0, 2, dims, zeros, 48, 4);
    file = gw_finish(&w, &n);
    for (allow = 0; allow < 2; allow++) {
        memset(&mp, 0, sizeof mp);
        memset(&log, 0, sizeof log);
        mp.allow_unknown = allow;
        mp.log = keys_on_log;
        mp.log_user = &log;
        CHECK(infer_model_open_memory(&m, file, n, &mp, &e) == INFER_OK);
        if (!m) break;
        if (allow) CHECK_STR(infer_model_why_not(m), "");
        else CHECK_HAS(infer_model_why_not(m), "tensor blk.0.attn_q.scale");
        CHECK(log.n == allow);
        if (allow) CHECK_HAS(log.text, "blk.0.attn_q.scale");
        CHECK(infer_model_close(m) == INFER_OK);
    }
    free(file);
}

/* Keys of the tokenizer: one that nobody reads may mean other ids, so texts are refused by its name. */
static void test_hostile_keys_tokenizer(void) {
    static const struct { const char *key; char type; double value; int fine; } cases[] = {
        { "tokenizer.ggml.normalizer.unicode", 's', 0, 0 },
        { "tokenizer.ggml.byte_fallback", 'b', 1, 0 },
        { "tokenizer.ggml.normalizer.lowercase", 'b', 1, 0 },
        { "tokenizer.ggml.normalizer.lowercase", 'b', 0, 1 },
        { "tokenizer.ggml.normalizer.strip_accents", 'b', 1, 0 },
        { "tokenizer.ggml.remove_extra_whitespaces", 'b', 1, 0 },
        { "tokenizer.ggml.remove_extra_whitespaces", 'b', 0, 1 },
        { "tokenizer.ggml.precompiled_charsmap", 'l', 7, 0 },
        { "tokenizer.ggml.token_type_count", 'u', 2, 1 },
        { "tokenizer.ggml.suppress_tokens", 'l', 1, 1 },
        { "tokenizer.ggml.scores", 'l', 1, 1 },
        { "tokenizer.ggml.separator_token_id", 'u', 1, 1 },
        { "tokenizer.ggml.image_token_id", 'u', 1, 1 },
        { "tokenizer.chat_template.tool_use", 's', 0, 1 },
        { "tokenizer.huggingface.json", 's', 0, 1 },
    };
    size_t n, size, i;
    char *data = check_read(check_data("vocab-bpe-small.gguf"), &n);
    int allow;
    CHECK(data != NULL);
    if (!data) return;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        key_case c;
        gguf_writer w;
        char *file;
        memset(&c, 0, sizeof c);
        c.type = cases[i].type;
        c.value = cases[i].value;
        c.text = "x";
        check_detail = cases[i].key;
        gw_init(&w);
        keys_put(&w, &c, cases[i].key, 2);
        file = keys_file(data, n, &w, cases[i].key, &size);
        for (allow = 0; file && allow < 2; allow++) {
            infer_model_params mp;
            infer_model *m = NULL;
            infer_error e;
            keys_log log;
            infer_token ids[16];
            size_t count = 0;
            infer_result r;
            memset(&mp, 0, sizeof mp);
            memset(&log, 0, sizeof log);
            mp.allow_unknown = allow;
            mp.log = keys_on_log;
            mp.log_user = &log;
            CHECK(infer_model_open_memory(&m, file, size, &mp, &e) == INFER_OK);
            if (!m) break;
            r = infer_tokenize(m, "a b", 3, 0, ids, 16, &count, &e);
            if (cases[i].fine || allow) CHECK(r == INFER_OK && count > 0);
            else {
                CHECK(r == INFER_ERR_UNSUPPORTED);
                CHECK_HAS(e.message, cases[i].key);
            }
            CHECK((strstr(log.text, cases[i].key) != NULL) == (allow && !cases[i].fine));
            CHECK(infer_model_close(m) == INFER_OK);
        }
        free(file);
    }
    free(data);
}

/* Every row of the table of keys without effect is among the cases above. */
static void test_hostile_keys_table(void) {
    size_t i, j;
    for (i = 0; i < INFER__COUNT(INFER__IDLE_KEYS); i++) {
        for (j = 0; j < sizeof KEY_CASES / sizeof *KEY_CASES; j++)
            if (strcmp(KEY_CASES[j].name + (KEY_CASES[j].name[0] == ':'), INFER__IDLE_KEYS[i].name) == 0) break;
        check_detail = INFER__IDLE_KEYS[i].name;
        CHECK(j < sizeof KEY_CASES / sizeof *KEY_CASES);
        CHECK(INFER__IDLE_KEYS[i].why[0]);
    }
}

static void suite_hostile_keys(void) {
    RUN(test_hostile_keys_table);
    RUN(test_hostile_keys_all_rows);
    RUN(test_hostile_keys_references);
    RUN(test_hostile_keys_were_silent);
    RUN(test_hostile_keys_fine);
    RUN(test_hostile_keys_types);
    RUN(test_hostile_keys_arrays);
    RUN(test_hostile_keys_allowed);
    RUN(test_hostile_keys_as_saved);
    RUN(test_hostile_keys_tensors);
    RUN(test_hostile_keys_tokenizer);
}
