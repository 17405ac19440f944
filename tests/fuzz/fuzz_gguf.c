/* fuzz_gguf.c: libFuzzer target for the file layer. Opens the bytes as a GGUF file three ways (in memory, in two halves as
 * a split model, through callbacks), looks at all metadata, and decodes tensors of modest size.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/fuzz_gguf.c -o fuzz_gguf -lm
 *     ./fuzz_gguf -max_len=8192 tests/fuzz/corpus_gguf
 *
 * -DFUZZ_SEEDS gives a main of its own that writes the seeds into the folder named. Crashes that were
 * found go into the corpus, which the tests run. */
#include "library.h"
#include "fuzz.h"
#include "../gguf_write.h"

static volatile double fuzz_sink; /* so that nothing is optimised away */

/* A copy aligned to 32 bytes (which the library does not copy again); with ASan, reading past its end is an error. */
static uint8_t *fuzz_copy(const uint8_t *p, size_t n, void **raw) {
    uint8_t *to;
    *raw = calloc(1, n + 64);
    if (!*raw) __builtin_trap();
    to = (uint8_t *)*raw;
    to += (32 - (uintptr_t)to % 32) % 32;
    if (n) memcpy(to, p, n);
#if defined(FUZZ_POISON)
    ASAN_POISON_MEMORY_REGION(to + n, 32);
#endif
    return to;
}

static void fuzz_walk(infer__gguf *g) {
    double sum = 0;
    int32_t i;
    uint64_t j, k;
    for (i = 0; i < g->n_kv; i++) {
        const infer__kv *kv = &g->kv[i];
        uint32_t u;
        float f;
        int b;
        infer__str s;
        if (infer__gguf_find(g, kv->key) != kv) __builtin_trap();
        sum += infer__gguf_u32(g, kv->key, &u, NULL) + infer__gguf_f32(g, kv->key, &f, NULL);
        sum += infer__gguf_bool(g, kv->key, &b, NULL) + infer__gguf_str(g, kv->key, &s, NULL);
        if (kv->type == INFER__GGUF_STRING)
            for (j = 0; j < kv->n; j++) sum += ((const unsigned char *)kv->data)[j];
        else if (infer__kv_is_strings(kv))
            for (j = 0; j < kv->n; j++) {
                s = infer__kv_string(kv, j);
                for (k = 0; k < s.n; k++) sum += (unsigned char)s.s[k];
            }
        else for (j = 0; j < kv->n; j++) sum += infer__kv_number(kv, j) > 0;
    }
    for (i = 0; i < g->n_tensors; i++) {
        infer__gguf_tensor *t = &g->tensors[i];
        float *x;
        if (infer__gguf_tensor_find(g, t->name) != t) __builtin_trap();
        if (t->rows * t->dims[0] > 65536) continue;
        x = (float *)malloc((size_t)(t->rows * t->dims[0]) * sizeof *x);
        for (k = 0; k < 2; k++) { /* from the file, then from loaded bytes */
            if (infer__gguf_read_rows(g, t, 0, t->rows, x, NULL) == INFER_OK)
                for (j = 0; j < t->rows * t->dims[0]; j++) sum += x[j] > 0;
            if (k == 0) infer__gguf_load(g, t, NULL);
        }
        free(x);
    }
    fuzz_sink = sum;
}

static void fuzz_one(const infer_io *io, int n_io, const void *data, size_t size) {
    infer__gguf g;
    infer__mem mem;
    infer_error e;
    infer_result r;
    infer__mem_init(&mem, NULL, (uint64_t)64 << 20);
    memset(&e, 0, sizeof e);
    r = io ? infer__gguf_open_io(&g, &mem, NULL, io, n_io, &e) : infer__gguf_open_memory(&g, &mem, NULL, data, size, &e);
    if (r == INFER_OK) fuzz_walk(&g);
    else if (!e.message[0] || r == INFER_ERR_MEMORY) __builtin_trap();
    infer__gguf_close(&g);
    if (infer__atomic_get(&mem.used) != 0) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_file f[2];
    infer_io io[2];
    void *raw;
    uint8_t *copy = fuzz_copy(data, size, &raw);
    size_t half;
    int i;
    fuzz_one(NULL, 0, copy, size);
    free(raw);
    memset(io, 0, sizeof io);
    memset(f, 0, sizeof f);
    /* Two parts: the second begins at the second "GGUF". */
    for (half = 4; half + 4 <= size && memcmp(data + half, "GGUF", 4) != 0; half++) continue;
    if (half + 4 > size) half = size;
    f[0].p = data;
    f[0].n = half;
    f[1].p = data + half;
    f[1].n = size - half;
    for (i = 0; i < 2; i++) {
        io[i].user = &f[i];
        io[i].read = fuzz_read;
        io[i].size = f[i].n;
    }
    fuzz_one(io, half < size ? 2 : 1, NULL, 0);
    return 0;
}

#if defined(FUZZ_SEEDS)
static void seed_save(const char *dir, const char *name, gguf_writer *w) {
    char path[1024];
    size_t n;
    unsigned char *p = gw_finish(w, &n);
    snprintf(path, sizeof path, "%s/%s.gguf", dir, name);
    if (!gw_save(path, p, n)) fprintf(stderr, "cannot write %s\n", path);
    free(p);
}

static void seed_metadata(const char *dir, const char *name, int big, uint32_t version) {
    static const char *const words[] = { "<unk>", "", "a b" };
    static const float scores[] = { 0, -1, 0.5f };
    static const int64_t ints[] = { 3, -1, 6 };
    gguf_writer w;
    char key[16];
    int t;
    gw_init(&w);
    w.big = big;
    w.version = version;
    gw_str(&w, "general.architecture", "llama");
    gw_align(&w, 16);
    for (t = GW_U8; t <= GW_F64; t++) {
        if (t == GW_STRING || t == GW_ARRAY) continue;
        snprintf(key, sizeof key, "k%d", t);
        gw_int(&w, key, t, 1);
        snprintf(key, sizeof key, "a%d", t);
        gw_ints(&w, key, t, ints, t == GW_BOOL ? 0 : 2);
    }
    gw_strs(&w, "tokens", words, 3);
    gw_f32s(&w, "scores", scores, 3);
    seed_save(dir, name, &w);
}

/* A tensor of every type, a block or two of each. */
static void seed_tensors(const char *dir, const char *name, int big) {
    const infer__quant *q;
    unsigned char bytes[1024];
    char text[16];
    int i, k;
    gguf_writer w;
    gw_init(&w);
    w.big = big;
    gw_str(&w, "general.architecture", "llama");
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
        uint64_t dims[2];
        dims[0] = (uint64_t)q->values;
        dims[1] = 2;
        if (2 * q->bytes > (int)sizeof bytes) continue;
        for (k = 0; k < 2 * q->bytes; k++) bytes[k] = (unsigned char)(k * 37 + i);
        snprintf(text, sizeof text, "t%d", i);
        gw_tensor(&w, text, (uint32_t)q->id, 2, dims, bytes, 2 * (size_t)q->bytes, q->swap ? (size_t)q->swap : 1);
    }
    seed_save(dir, name, &w);
}

/* One tensor, and two that lie out of order. */
static void seed_small(const char *dir) {
    gguf_writer w;
    uint64_t dims[4] = { 4, 2, 1, 1 };
    static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    gw_init(&w);
    seed_save(dir, "empty", &w);
    gw_init(&w);
    gw_str(&w, "general.name", "x");
    gw_tensor(&w, "a", 0, 4, dims, x, sizeof x, 4);
    seed_save(dir, "one", &w);
    gw_init(&w);
    gw_raw_tensor(&w, "b", 1, 0, 1, dims, 32);
    gw_raw_tensor(&w, "a", 1, 0, 1, dims, 0);
    gw_add(&w.data, x, sizeof x);
    gw_add(&w.data, x, sizeof x);
    seed_save(dir, "order", &w);
}

/* Two parts of a split in one file, as the target takes them apart. */
static void seed_split(const char *dir) {
    uint64_t dims[1] = { 8 };
    char path[1024];
    FILE *file;
    int i;
    snprintf(path, sizeof path, "%s/split.gguf", dir);
    file = fopen(path, "wb");
    for (i = 0; file && i < 2; i++) {
        gguf_writer w;
        unsigned char *p;
        size_t n;
        gw_init(&w);
        gw_split(&w, i, 2, 2);
        gw_tensor(&w, i ? "b" : "a", 0, 1, dims, NULL, 32, 4);
        p = gw_finish(&w, &n);
        fwrite(p, 1, n, file);
        free(p);
    }
    if (file) fclose(file);
}

int main(int argc, char **argv) {
    const char *dir = argc > 1 ? argv[1] : ".";
    seed_metadata(dir, "metadata", 0, 3);
    seed_metadata(dir, "metadata-v2", 0, 2);
    seed_metadata(dir, "metadata-big", 1, 3);
    seed_tensors(dir, "tensors", 0);
    seed_tensors(dir, "tensors-big", 1);
    seed_small(dir);
    seed_split(dir);
    return 0;
}
#endif
