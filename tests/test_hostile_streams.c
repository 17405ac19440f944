/* test_hostile_streams.c: keys of rows with chunks, limits of activations, inputs of layers, shared keys and values, several
 * streams, compressed keys. Part of test_hostile_keys.c. */

typedef struct streams_case {
    const char *file, *key;
    char type;       /* i I32, f F32, a array of F32 of `n` numbers */
    double value;
    int n;
    const char *has; /* in the message, which names the key too, or (behind a '!') not; NULL: it computes something else */
} streams_case;

static const streams_case STREAMS_CASES[] = {
    { "gemma4-sharedkv-dense", "gemma4.embedding_length_per_layer_input", 'i', -1, 0, "" },
    { "gemma4-sharedkv-dense", "gemma4.embedding_length_per_layer_input", 'i', 1 << 24, 0, "for 6 layers more than" },
    { "gemma4-sharedkv-dense", "gemma4.embedding_length_per_layer_input", 'i', INT32_MAX, 0, "outside 0.." },
    { "gemma4-sharedkv-dense", "gemma4.embedding_length_per_layer_input", 'i', 0, 0, "!tensor " },
    { "gemma4-sharedkv-dense", "gemma4.embedding_length_per_layer_input", 'i', 5, 0, "!tensor per_layer_token_embd.weight has" },
    { "gemma4-sharedkv-dense", "gemma4.embedding_length_per_layer_input", 'f', 16, 0, "not an integer" },
    { "gemma4-sharedkv-dense", "gemma4.attention.shared_kv_layers", 'i', -1, 0, "" },
    { "gemma4-sharedkv-dense", "gemma4.attention.shared_kv_layers", 'i', 6, 0, "outside 0..5" },
    { "gemma4-sharedkv-dense", "gemma4.attention.shared_kv_layers", 'i', 4, 0, "layer 2 has no earlier layer that sees as much" },
    { "gemma4-sharedkv-dense", "gemma4.attention.shared_kv_layers", 'i', 5, 0, "layer 2 has no earlier layer" },
    { "gemma4-sharedkv-dense", "gemma4.attention.shared_kv_layers", 'i', 2, 0, "!missing tensor blk.3.attn_k.weight" },
    { "gemma4-sharedkv-dense", "gemma4.attention.key_length_swa", 'i', 0, 0, "outside 1.." },
    { "gemma4-sharedkv-dense", "gemma4.attention.value_length_swa", 'i', 1 << 20, 0, "outside 1.." },
    { "gemma4-sharedkv-dense", "gemma4.attention.sliding_window_pattern", 'a', 1, 5, "one for each layer" },
    { "gemma4-sharedkv-dense", "gemma4.attention.sliding_window_pattern", 'a', 2, 6, "outside 0..1" },
    { "llama4-moe", "llama4.attention.sliding_window", 'i', 0, 0, "layers that see everything only are not there" },
    { "llama4-moe", "llama4.attention.sliding_window", 'i', -1, 0, "" },
    { "llama4-moe", "llama4.attention.sliding_window", 'i', 7, 0, NULL },
    { "llama4-moe", "llama4.interleave_moe_layer_step", 'i', 3, 0, "but layer" },
    { "step35-moe", "step35.swiglu_clamp_exp", 'f', -1, 0, "is -1 for layer 0" },
    { "step35-moe", "step35.swiglu_clamp_shexp", 'f', -0.5, 0, "is -0.5 for layer 0" },
    { "step35-moe", "step35.swiglu_clamp_exp", 'f', NAN, 0, "finite" },
    { "step35-moe", "step35.swiglu_clamp_exp", 'a', INFINITY, 2, "finite" },
    { "step35-moe", "step35.swiglu_clamp_exp", 'a', 1, 3, "one for each layer" },
    { "step35-moe", "step35.swiglu_clamp_exp", 'a', 0.05, 2, NULL },
    { "step35-moe", "step35.swiglu_clamp_shexp", 'f', 0.05, 0, NULL },
    { "maple-moe", "maple.swiglu_clamp_exp", 'a', 0.05, 2, NULL },
    { "maple-moe", "maple.swiglu_clamp_exp", 'a', -2, 2, "is -2 for layer 0" },
    { "gemma3n-dense", "gemma3n.altup.num_inputs", 'i', 1, 0, "outside 2..8" },
    { "gemma3n-dense", "gemma3n.altup.num_inputs", 'i', 9, 0, "outside 2..8" },
    { "gemma3n-dense", "gemma3n.altup.num_inputs", 'i', 3, 0, "!tensor altup_proj.weight has" },
    { "gemma3n-dense", "gemma3n.altup.active_idx", 'i', 1, 0, "only 0" },
    { "gemma3n-dense", "gemma3n.activation_sparsity_scale", 'f', 1, 0, "not an array of 22 numbers" },
    { "gemma3n-dense", "gemma3n.activation_sparsity_scale", 'a', 1, 21, "not an array of 22 numbers" },
    { "gemma3n-dense", "gemma3n.activation_sparsity_scale", 'a', NAN, 22, "for layer 0" },
    { "gemma3n-dense", "gemma3n.activation_sparsity_scale", 'a', INFINITY, 22, "for layer 0" },
    { "gemma3n-dense", "gemma3n.activation_sparsity_scale", 'a', -INFINITY, 22, NULL },
    { "gemma3n-dense", "gemma3n.activation_sparsity_scale", 'a', 0.5, 22, NULL },
    { "gemma3n-dense", "gemma3n.attention.shared_kv_layers", 'i', 22, 0, "outside 0..21" },
    { "gemma3n-dense", "gemma3n.attention.shared_kv_layers", 'i', 0, 0, NULL },
    { "gemma3n-dense", "gemma3n.attention.shared_kv_layers", 'i', 18, 0, "layer 4 has no earlier layer that sees as much" },
    { "deepseek4-topk-moe", "deepseek4.attention.compress_ratios", 'a', 4, 3, "not an array of a number for each layer" },
    { "deepseek4-topk-moe", "deepseek4.attention.compress_ratios", 'a', 5, 4, "only 0, 4 and 128" },
    { "deepseek4-topk-moe", "deepseek4.attention.compress_ratios", 'a', NAN, 4, "only 0, 4 and 128" },
    { "deepseek4-topk-moe", "deepseek4.attention.compress_ratios", 'i', 4, 0, "not an array" },
    { "deepseek4-topk-moe", "deepseek4.attention.compress_ratios", 'a', 4, 5, "!missing tensor blk.0.attn_compressor_kv.weight" },
    { "deepseek4-topk-moe", "deepseek4.attention.compress_ratios", 'a', 0, 4, "!tensor blk.2.indexer.attn_q_b.weight" },
    { "deepseek4-topk-moe", "deepseek4.attention.compress_rope_freq_base", 'f', 1, 0, "not above 1" },
    { "deepseek4-topk-moe", "deepseek4.attention.sliding_window", 'i', 0, 0, "missing, or 0" },
    { "deepseek4-topk-moe", "deepseek4.attention.sliding_window", 'i', 7, 0, NULL },
    { "deepseek4-topk-moe", "deepseek4.attention.sliding_window", 'i', 1 << 30, 0, NULL },
    { "deepseek4-topk-moe", "deepseek4.attention.sliding_window_pattern", 'a', 0, 4, "layers without a window are not there" },
    { "deepseek4-topk-moe", "deepseek4.attention.output_group_count", 'i', 3, 0, "does not divide the heads" },
    { "deepseek4-topk-moe", "deepseek4.attention.output_group_count", 'i', 4, 0, "!tensor blk.0.attn_output_a.weight has" },
    { "deepseek4-topk-moe", "deepseek4.attention.output_lora_rank", 'i', 1 << 24, 0, "too many for output_group_count" },
    { "deepseek4-topk-moe", "deepseek4.attention.value_length", 'i', 32, 0, "not attention.key_length" },
    { "deepseek4-topk-moe", "deepseek4.attention.head_count_kv", 'i', 4, 0, "not 1" },
    { "deepseek4-topk-moe", "deepseek4.rope.dimension_count", 'i', 15, 0, "odd, or more than" },
    { "deepseek4-topk-moe", "deepseek4.rope.dimension_count", 'i', 66, 0, "odd, or more than" },
    { "deepseek4-topk-moe", "deepseek4.attention.indexer.key_length", 'i', 8, 0, "less than what is rotated" },
    { "deepseek4-topk-moe", "deepseek4.attention.indexer.top_k", 'i', 0, 0, "outside 1.." },
    { "deepseek4-topk-moe", "deepseek4.attention.indexer.top_k", 'i', 3, 0, NULL },
    { "deepseek4-topk-moe", "deepseek4.hyper_connection.sinkhorn_iterations", 'i', 0, 0, "outside 1.." },
    { "deepseek4-topk-moe", "deepseek4.hyper_connection.sinkhorn_iterations", 'i', 9, 0, NULL },
    { "deepseek4-topk-moe", "deepseek4.hyper_connection.count", 'i', 3, 0, "!has" },
    { "deepseek4-topk-moe", "deepseek4.hash_layer_count", 'i', 3, 0, "!missing tensor blk.2.ffn_gate_tid2eid.weight" },
    { "deepseek4-topk-moe", "deepseek4.swiglu_clamp_shexp", 'f', 0.05, 0, NULL },
};

static void streams_put(gguf_writer *w, const streams_case *c) {
    int i;
    if (c->type == 'i') gw_int(w, c->key, GW_I32, (int64_t)c->value);
    else if (c->type == 'f') gw_f32(w, c->key, (float)c->value);
    else {
        gw_array(w, c->key, GW_F32, (uint64_t)c->n);
        for (i = 0; i < c->n; i++) {
            float v = (float)c->value;
            uint32_t u;
            memcpy(&u, &v, sizeof u);
            gw_uint(w, &w->kv, u, 4);
        }
    }
}

static void test_hostile_streams(void) {
    static float plain[KEYS_VOCAB], with[KEYS_VOCAB];
    size_t i, n, size;
    for (i = 0; i < sizeof STREAMS_CASES / sizeof *STREAMS_CASES; i++) {
        const streams_case *c = &STREAMS_CASES[i];
        char detail[160], why[512], *data, *file;
        const char *path;
        gguf_writer w;
        int computed;
        arch_file = c->file;
        path = arch_path("gguf");
        if (!path) continue; /* of the larger references */
        snprintf(detail, sizeof detail, "%s %g in %s", c->key, c->value, c->file);
        check_detail = detail;
        data = check_read(path, &n);
        CHECK(data && keys_run(data, n, 0, NULL, plain, KEYS_VOCAB, why, sizeof why));
        if (!data) continue;
        gw_init(&w);
        streams_put(&w, c);
        file = keys_file(data, n, &w, c->key, &size);
        computed = file && keys_run(file, size, 0, NULL, with, KEYS_VOCAB, why, sizeof why);
        CHECK(computed == !c->has);
        if (computed) CHECK(memcmp(with, plain, sizeof with) != 0);
        else {
            CHECK_HAS(why, c->has && c->has[0] == '!' ? c->has + 1 : c->has);
            if (c->has && c->has[0] != '!') CHECK_HAS(why, c->key);
        }
        free(file);
        free(data);
    }
}
