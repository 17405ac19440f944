/* bench_count.c: the matrix products of one storage type with fixed inputs, for counting their instructions.
 *
 *     bench_count --list     names of the types that a model's matrices can have
 *     bench_count TYPE       one layer in memory whose matrices are of TYPE: a prompt of PROMPT tokens, then one token
 *
 * tests/bench_count.py runs it under callgrind, or under qemu with tests/qemu_count.c: they count inside of
 * infer__cpu_matmul and start again at the calls of count_prompt and count_one. Everything goes through the library's
 * interface, so that the op gets what a user's model gives it; what comes before count_prompt (a first pass of both
 * kinds) is not counted, nor what a first use prepares.
 * Deterministic: one thread, blocks from a fixed sequence. */
#include "../src/infer_all.c"
#include "gguf_write.h"

enum { WIDTH = 512, HEADS = 8, KV_HEADS = 2, HEAD_DIM = 64, FFN = 768, VOCAB = 16, PROMPT = 16, POOL = 32 };

static uint32_t seed = 12345;
static uint32_t bits(void) {
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

/* Blocks whose values are at most 1 and not all tiny: encoded, or random bytes with which scales come out like that. */
static void make_block(const infer__quant *q, uint8_t *block) {
    float values[256], most;
    int i;
    do {
        if (q->encode) {
            for (i = 0; i < q->values; i++) values[i] = (float)(bits() >> 8) / 8388608.0f - 1.0f;
            q->encode(values, block, q->values);
        } else {
            for (i = 0; i < q->bytes; i++) block[i] = (uint8_t)(bits() >> 11);
        }
        q->decode(block, values, q->values);
        for (i = 0, most = 0; i < q->values; i++) {
            if (!(fabsf(values[i]) <= most)) most = fabsf(values[i]); /* NaN too */
        }
    } while (!(most <= 1.0f && most > 0.001f));
}

static void add_matrix(gguf_writer *w, const char *name, const infer__quant *q, const uint8_t *pool, uint64_t cols,
                       uint64_t rows) {
    uint64_t dims[2], n = rows * cols / (uint64_t)q->values, i;
    size_t bytes = (size_t)q->bytes;
    uint8_t *data = (uint8_t *)malloc((size_t)n * bytes);
    dims[0] = cols;
    dims[1] = rows;
    if (!data) exit(1);
    for (i = 0; i < n; i++) memcpy(data + i * bytes, pool + (bits() >> 7) % POOL * bytes, bytes);
    gw_tensor(w, name, (uint32_t)q->id, 2, dims, data, (size_t)n * bytes, q->swap ? bytes : 1);
    free(data);
}

static void add_f32(gguf_writer *w, const char *name, uint64_t cols, uint64_t rows) {
    uint64_t dims[2], i;
    float *data = (float *)malloc((size_t)(cols * rows) * sizeof *data);
    dims[0] = cols;
    dims[1] = rows;
    if (!data) exit(1);
    for (i = 0; i < cols * rows; i++) data[i] = rows == 1 ? 1.0f : (float)(bits() >> 8) / 8388608.0f - 1.0f;
    gw_tensor(w, name, 0, rows == 1 ? 1 : 2, dims, data, (size_t)(cols * rows) * sizeof *data, sizeof *data);
    free(data);
}

static unsigned char *make_model(const infer__quant *q, size_t *n) {
    uint8_t pool[POOL * 2048];
    gguf_writer w;
    int i;
    for (i = 0; i < POOL; i++) make_block(q, pool + i * q->bytes);
    gw_init(&w);
    gw_str(&w, "general.architecture", "llama");
    gw_int(&w, "llama.embedding_length", GW_U32, WIDTH);
    gw_int(&w, "llama.block_count", GW_U32, 1);
    gw_int(&w, "llama.context_length", GW_U32, 64);
    gw_int(&w, "llama.feed_forward_length", GW_U32, FFN);
    gw_int(&w, "llama.attention.head_count", GW_U32, HEADS);
    gw_int(&w, "llama.attention.head_count_kv", GW_U32, KV_HEADS);
    gw_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    add_f32(&w, "token_embd.weight", WIDTH, VOCAB);
    add_f32(&w, "output_norm.weight", WIDTH, 1);
    add_f32(&w, "blk.0.attn_norm.weight", WIDTH, 1);
    add_f32(&w, "blk.0.ffn_norm.weight", WIDTH, 1);
    add_matrix(&w, "blk.0.attn_q.weight", q, pool, WIDTH, HEADS * HEAD_DIM);
    add_matrix(&w, "blk.0.attn_k.weight", q, pool, WIDTH, KV_HEADS * HEAD_DIM);
    add_matrix(&w, "blk.0.attn_v.weight", q, pool, WIDTH, KV_HEADS * HEAD_DIM);
    add_matrix(&w, "blk.0.attn_output.weight", q, pool, HEADS * HEAD_DIM, WIDTH);
    add_matrix(&w, "blk.0.ffn_gate.weight", q, pool, WIDTH, FFN);
    add_matrix(&w, "blk.0.ffn_up.weight", q, pool, WIDTH, FFN);
    add_matrix(&w, "blk.0.ffn_down.weight", q, pool, FFN, WIDTH);
    return gw_finish(&w, n);
}

static int eval(infer_session *s, int32_t n) {
    static const infer_token ids[PROMPT] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
    return infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, n) == INFER_OK;
}

/* Named on the counter's command line: functions of their own, and different, so that they are not merged. */
#define COUNTED __attribute__((noinline))
static volatile int calls;
COUNTED static int count_prompt(infer_session *s) {
    calls += 1;
    return eval(s, PROMPT);
}
COUNTED static int count_one(infer_session *s) {
    calls += 2;
    return eval(s, 1);
}

/* Types that matrices of real files have: not those of activations, nor integers and doubles. */
static int usable(const infer__quant *q) {
    if (q->swap) return strcmp(q->name, "F32") == 0 || strcmp(q->name, "F16") == 0 || strcmp(q->name, "BF16") == 0;
    return q->storable;
}

int main(int argc, char **argv) {
    const infer__quant *q, *found = NULL;
    infer_session_params params;
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_error err;
    unsigned char *file;
    size_t n;
    int32_t i;
    int ok;
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
        if (argc == 2 && strcmp(argv[1], "--list") == 0 && usable(q)) puts(q->name);
        if (argc == 2 && strcmp(argv[1], q->name) == 0 && usable(q)) found = q;
    }
    if (found == NULL) return argc != 2 || strcmp(argv[1], "--list") != 0;
    file = make_model(found, &n);
    memset(&params, 0, sizeof params);
    params.own.threads = 1;
    ok = infer_model_open_memory(&model, file, n, NULL, &err) == INFER_OK &&
         infer_session_create(&session, model, &params, &err) == INFER_OK;
    if (!ok) fprintf(stderr, "bench_count: %s\n", err.message);
    ok = ok && eval(session, PROMPT) && eval(session, 1) && count_prompt(session) && count_one(session);
    printf("%s %d\n", infer__int8_find(infer__cpu_found())->name,
           WIDTH * (2 * HEADS * HEAD_DIM + 2 * KV_HEADS * HEAD_DIM + 3 * FFN));
    infer_session_destroy(session);
    infer_model_close(model);
    free(file);
    return !ok;
}
