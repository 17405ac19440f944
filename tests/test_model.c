/* test_model.c: files that are well formed but cannot be computed: they open, and creating a session says why, with the name
 * of the key or tensor. */
#include "gguf_write.h"

/* A one-layer llama of width 32, with one thing changed. */
typedef struct model_change {
    const char *drop;         /* key or tensor left out */
    const char *key;          /* key written with another value: */
    const char *text;         /* a string, or */
    int64_t number;           /* an integer */
    const char *tensor;       /* a tensor added or reshaped */
    uint64_t dims[2];
    const char *message;      /* what the error must contain */
} model_change;

static void model_int(gguf_writer *w, const model_change *c, const char *key, int64_t v) {
    if (c->drop && strcmp(c->drop, key) == 0) return;
    if (c->key && strcmp(c->key, key) == 0) return;
    gw_int(w, key, GW_U32, v);
}
static void model_tensor(gguf_writer *w, const model_change *c, const char *name, uint64_t cols, uint64_t rows) {
    uint64_t dims[2];
    if (c->drop && strcmp(c->drop, name) == 0) return;
    dims[0] = cols;
    dims[1] = rows;
    if (c->tensor && strcmp(c->tensor, name) == 0) memcpy(dims, c->dims, sizeof dims);
    gw_tensor(w, name, 0, dims[1] == 1 ? 1 : 2, dims, NULL, (size_t)(dims[0] * dims[1] * 4), 4);
}

static unsigned char *model_file(const model_change *c, size_t *n) {
    static const struct { const char *name; uint64_t cols, rows; } tensors[] = {
        { "token_embd.weight", 32, 10 }, { "output_norm.weight", 32, 1 }, { "blk.0.attn_norm.weight", 32, 1 },
        { "blk.0.attn_q.weight", 32, 32 }, { "blk.0.attn_k.weight", 32, 16 }, { "blk.0.attn_v.weight", 32, 16 },
        { "blk.0.attn_output.weight", 32, 32 }, { "blk.0.ffn_norm.weight", 32, 1 }, { "blk.0.ffn_gate.weight", 32, 48 },
        { "blk.0.ffn_up.weight", 32, 48 }, { "blk.0.ffn_down.weight", 48, 32 } };
    gguf_writer w;
    size_t i;
    int known = 0;
    gw_init(&w);
    if (!(c->key && strcmp(c->key, "general.architecture") == 0) && !(c->drop && strcmp(c->drop, "general.architecture") == 0))
        gw_str(&w, "general.architecture", "llama");
    model_int(&w, c, "llama.embedding_length", 32);
    model_int(&w, c, "llama.block_count", 1);
    model_int(&w, c, "llama.context_length", 64);
    model_int(&w, c, "llama.feed_forward_length", 48);
    model_int(&w, c, "llama.attention.head_count", 4);
    model_int(&w, c, "llama.attention.head_count_kv", 2);
    if (!(c->drop && strstr(c->drop, "epsilon"))) gw_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (c->key && c->text) gw_str(&w, c->key, c->text);
    else if (c->key) gw_int(&w, c->key, GW_U32, c->number);
    for (i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        model_tensor(&w, c, tensors[i].name, tensors[i].cols, tensors[i].rows);
        if (c->tensor && strcmp(c->tensor, tensors[i].name) == 0) known = 1;
    }
    if (c->tensor && !known) model_tensor(&w, c, c->tensor, c->dims[0], c->dims[1]);
    return gw_finish(&w, n);
}

static const model_change MODEL_CHANGES[] = {
    { .drop = "general.architecture", .message = "general.architecture" },
    { .key = "general.architecture", .text = "wizard", .message = "\"wizard\" is not supported; infer_arch_name" },
    { .key = "general.architecture", .text = "wizard", .message = "(infer info --archs)" },
    { .key = "general.architecture", .number = 3, .message = "general.architecture" },
    { .drop = "llama.embedding_length", .message = "llama.embedding_length" },
    { .drop = "llama.block_count", .message = "llama.block_count" },
    { .key = "llama.block_count", .text = "many", .message = "llama.block_count" },
    { .key = "llama.block_count", .number = 0, .message = "llama.block_count" },
    { .key = "llama.block_count", .number = 4000000000, .message = "llama.block_count" },
    { .key = "llama.block_count", .number = 2, .message = "blk.1." },
    { .key = "llama.embedding_length", .number = 48, .message = "token_embd.weight" },
    { .drop = "llama.attention.head_count", .message = "llama.attention.head_count" },
    { .key = "llama.attention.head_count_kv", .number = 3, .message = "do not fit together" },
    { .key = "llama.attention.head_count", .number = 8, .message = "attn_" },
    { .key = "llama.attention.key_length", .number = 2000, .message = "llama.attention.key_length" },
    { .key = "llama.rope.dimension_count", .number = 7, .message = "do not fit together" },
    { .key = "llama.rope.dimension_count", .number = 16, .message = "do not fit together" },
    { .key = "llama.rope.scaling.type", .text = "magic", .message = "\"magic\" is not supported" },
    { .key = "llama.expert_used_count", .number = 2, .message = "expert_used_count" },
    { .drop = "epsilon", .message = "layer_norm_rms_epsilon" },
    { .drop = "token_embd.weight", .message = "token_embd.weight" },
    { .drop = "output_norm.weight", .message = "output_norm.weight" },
    { .drop = "blk.0.attn_k.weight", .message = "blk.0.attn_k.weight" },
    { .drop = "blk.0.ffn_norm.weight", .message = "blk.0.ffn_norm.weight" },
    { .drop = "blk.0.ffn_down.weight", .message = "blk.0.ffn_down.weight" },
    { .tensor = "blk.0.attn_q.weight", .dims = { 32, 31 }, .message = "blk.0.attn_q.weight" },
    { .tensor = "blk.0.ffn_up.weight", .dims = { 32, 96 }, .message = "blk.0.ffn_up.weight" },
    { .tensor = "blk.0.attn_norm.weight", .dims = { 33, 1 }, .message = "blk.0.attn_norm.weight" },
    { .tensor = "blk.0.mystery.weight", .dims = { 4, 4 }, .message = "blk.0.mystery.weight" },
    { .tensor = "blk.1.attn_q.weight", .dims = { 32, 32 }, .message = "blk.1.attn_q.weight" },
    { .tensor = "blk.0.attn_qkv.weight", .dims = { 32, 64 }, .message = "attn_qkv" },
    { .tensor = "blk.0.ffn_gate_inp.weight", .dims = { 32, 4 }, .message = "ffn_gate_inp.weight has 4 rows of 32, the model needs 0" },
    { .tensor = "blk.0.ffn_up_exps.weight", .dims = { 32, 96 }, .message = "ffn_up_exps" },
    { .tensor = "blk.0.attn_q_norm.bias", .dims = { 8, 1 }, .message = "attn_q_norm.bias" },
    { .tensor = "blk.0.attn_sinks.weight", .dims = { 3, 1 }, .message = "blk.0.attn_sinks.weight" },
    { .tensor = "rope_freqs.weight", .dims = { 3, 1 }, .message = "rope_freqs.weight" },
};

static void test_model_why_not(void) {
    size_t i, n;
    for (i = 0; i < sizeof MODEL_CHANGES / sizeof *MODEL_CHANGES; i++) {
        const model_change *c = &MODEL_CHANGES[i];
        unsigned char *file = model_file(c, &n);
        infer_model *m = NULL;
        infer_session *s = NULL;
        infer_context *x = NULL;
        infer_model_info info;
        infer_error e;
        infer_result r;
        check_detail = c->message;
        CHECK(infer_model_open_memory(&m, file, n, NULL, &e) == INFER_OK);
        if (m) {
            CHECK(infer_model_get_info(m, &info) == INFER_OK && !info.computes);
            CHECK_HAS(infer_model_why_not(m), c->message);
            r = infer_session_create(&s, m, NULL, &e);
            CHECK((r == INFER_ERR_FORMAT || r == INFER_ERR_UNSUPPORTED) && s == NULL);
            CHECK_HAS(e.message, c->message);
            CHECK(infer_context_create(&x, m, NULL, &e) == r && x == NULL);
            CHECK(infer_tensor_count(m) >= 10);
        }
        CHECK(infer_model_close(m) == INFER_OK);
        free(file);
    }
}

/* The unchanged file computes (zeros everywhere, so all logits are 0). */
static void test_model_plain(void) {
    static const model_change none = { .message = "" };
    size_t n;
    unsigned char *file = model_file(&none, &n);
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error e;
    infer_token ids[3] = { 1, 2, 9 };
    CHECK(infer_model_open_memory(&m, file, n, NULL, &e) == INFER_OK);
    CHECK(infer_session_create(&s, m, NULL, &e) == INFER_OK);
    if (s) CHECK(infer_session_eval(s, ids, 3) == INFER_OK && infer_session_logits(s, -1)[5] == 0);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    free(file);
}

static void suite_model(void) {
    RUN(test_model_why_not);
    RUN(test_model_plain);
}
