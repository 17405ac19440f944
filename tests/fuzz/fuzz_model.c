/* fuzz_model.c: libFuzzer target for everything between a file and its logits, through the public interface: opens the bytes,
 * describes the model, makes a session (with little memory allowed), evaluates a few tokens, rewinds, forks.
 *
 * -DFUZZ_SEEDS gives a main that writes the seeds into the folder named: tiny models of several kinds. */
#define INFER_IMPLEMENTATION
#define INFER_NO_SIMD /* fuzz_arch has the instructions: a third of the time to compile */
#define INFER_NO_GPU
#include "../../src/infer_all.c"
#include "../gguf_write.h"

static void fuzz_session(infer_model *m) {
    infer_session_params p;
    infer_session *s = NULL, *t = NULL;
    infer_token ids[5] = { 0, 1, 2, 1, 0 };
    memset(&p, 0, sizeof p);
    p.context = 8;
    p.own.threads = 1;
    p.own.batch = 3;
    p.own.keep = 1;
    if (infer_session_create(&s, m, &p, NULL) == INFER_OK) {
        if (infer_session_eval(s, ids, 5) == INFER_OK) {
            if (infer_session_fork(&t, s, NULL) == INFER_OK) infer_session_eval(t, ids, 1);
            infer_session_rewind(s, 2);
            infer_session_eval(s, ids, 2);
        }
    }
    infer_session_destroy(t);
    infer_session_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    char text[64];
    size_t n;
    void *copy = malloc(size + 1); /* its own block, so that reading past the end is seen */
    if (!copy) return 0;
    memcpy(copy, data, size);
    memset(&p, 0, sizeof p);
    p.max_memory = 32 << 20;
    p.allow_default_pre = 1;
    if (infer_model_open_memory(&m, copy, size, &p, &e) == INFER_OK) {
        infer_model_describe(m, text, sizeof text, &n);
        fuzz_session(m);
        if (infer_model_close(m) != INFER_OK) __builtin_trap();
    } else if (m || e.code == INFER_OK || !e.message[0]) __builtin_trap();
    free(copy);
    return 0;
}

#ifdef FUZZ_SEEDS
/* Numbers that are no zeros, so that a wrong address shows in a result. */
static void seed_tensor(gguf_writer *w, const char *name, uint64_t cols, uint64_t rows, uint64_t deep) {
    uint64_t dims[3];
    float x[1024];
    size_t i, n = (size_t)(cols * rows * deep);
    dims[0] = cols;
    dims[1] = rows;
    dims[2] = deep;
    for (i = 0; i < n && i < 1024; i++) x[i] = (float)((i * 37 + n) % 19) / 19 - 0.4f;
    gw_tensor(w, name, 0, deep > 1 ? 3 : rows > 1 ? 2 : 1, dims, x, n * 4, 4);
}

static void seed(const char *folder, const char *arch, int fused, int experts, int gated, int post, int positions) {
    gguf_writer w;
    char key[96], path[512];
    unsigned char *file;
    size_t n;
    int l;
    static const struct { const char *name; int value; } ints[] = {
        { "embedding_length", 8 }, { "block_count", 2 }, { "context_length", 8 }, { "feed_forward_length", 6 },
        { "attention.head_count", 2 }, { "attention.head_count_kv", 1 }, { "attention.sliding_window", 2 },
        { "expert_used_count", 2 } };
    size_t i;
    gw_init(&w);
    gw_str(&w, "general.architecture", arch);
    for (i = 0; i < sizeof ints / sizeof *ints; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, ints[i].name);
        gw_int(&w, key, GW_U32, ints[i].value);
    }
    snprintf(key, sizeof key, "%s.expert_count", arch);
    gw_int(&w, key, GW_U32, experts);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    gw_f32(&w, key, 1e-5f);
    snprintf(key, sizeof key, "%s.attention.layer_norm_epsilon", arch);
    gw_f32(&w, key, 1e-5f);
    seed_tensor(&w, "token_embd.weight", 8, 5, 1);
    seed_tensor(&w, "output_norm.weight", 8, 1, 1);
    if (positions) seed_tensor(&w, "position_embd.weight", 8, 8, 1);
    for (l = 0; l < 2; l++) {
#define SEED(part, cols, rows, deep) (snprintf(key, sizeof key, "blk.%d.%s.weight", l, part), seed_tensor(&w, key, cols, rows, deep))
        SEED("attn_norm", 8, 1, 1);
        SEED("ffn_norm", 8, 1, 1);
        if (fused) SEED("attn_qkv", 8, 16, 1);
        else { SEED("attn_q", 8, 8, 1); SEED("attn_k", 8, 4, 1); SEED("attn_v", 8, 4, 1); SEED("attn_q_norm", 4, 1, 1); }
        SEED("attn_output", 8, 8, 1);
        if (post) { SEED("post_attention_norm", 8, 1, 1); SEED("post_ffw_norm", 8, 1, 1); }
        if (experts) {
            SEED("ffn_gate_inp", 8, (uint64_t)experts, 1);
            SEED("ffn_gate_exps", 8, 6, (uint64_t)experts);
            SEED("ffn_up_exps", 8, 6, (uint64_t)experts);
            SEED("ffn_down_exps", 6, 8, (uint64_t)experts);
        } else {
            if (gated) SEED("ffn_gate", 8, 6, 1);
            SEED("ffn_up", 8, 6, 1);
            SEED("ffn_down", 6, 8, 1);
        }
    }
    file = gw_finish(&w, &n);
    snprintf(path, sizeof path, "%s/%s%s.gguf", folder, arch, experts ? "-moe" : "");
    if (!gw_save(path, file, n)) fprintf(stderr, "%s: not written\n", path);
    LLVMFuzzerTestOneInput(file, n);
    free(file);
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : ".";
    seed(folder, "llama", 0, 0, 1, 0, 0);
    seed(folder, "llama", 0, 3, 1, 0, 0);
    seed(folder, "gemma3", 0, 0, 1, 1, 0);
    seed(folder, "gpt2", 1, 0, 0, 0, 1);
    seed(folder, "phi2", 1, 0, 0, 0, 0);
    seed(folder, "bloom", 1, 0, 0, 0, 0);
    return 0;
}
#endif
