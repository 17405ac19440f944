/* test_memory.c: resident memory with models of real shapes. The files are sparse: a header, then a hole of zeros as long as
 * the weights, so that they cost neither disk nor time. Linux only (reads /proc). */
#include "gguf_write.h"

typedef struct memory_shape { int width, layers, heads, heads_kv, ff, vocab, type, block, bytes; } memory_shape;

/* Write a llama of that shape with no weights behind the header, but a file long enough for them. Returns the size. */
static uint64_t memory_file(const char *path, const memory_shape *s) {
    static const struct { const char *name; int rows, cols; } parts[] = { /* 0 width, 1 K/V width, 2 ff; cols < 0: norm */
        { "attn_norm", 0, -1 }, { "attn_q", 0, 0 }, { "attn_k", 1, 0 }, { "attn_v", 1, 0 }, { "attn_output", 0, 0 },
        { "ffn_norm", 0, -1 }, { "ffn_gate", 2, 0 }, { "ffn_up", 2, 0 }, { "ffn_down", 0, 2 } };
    gguf_writer w;
    unsigned char *header;
    uint64_t at = 0, dims[2], bytes, kv = (uint64_t)s->width / (uint64_t)s->heads * (uint64_t)s->heads_kv, size[3];
    size_t n, p;
    char name[64], zero = 0;
    int l, first = 1;
    FILE *f;
    size[0] = (uint64_t)s->width;
    size[1] = kv;
    size[2] = (uint64_t)s->ff;
    gw_init(&w);
    gw_str(&w, "general.architecture", "llama");
    gw_int(&w, "llama.embedding_length", GW_U32, s->width);
    gw_int(&w, "llama.block_count", GW_U32, s->layers);
    gw_int(&w, "llama.context_length", GW_U32, 131072);
    gw_int(&w, "llama.feed_forward_length", GW_U32, s->ff);
    gw_int(&w, "llama.attention.head_count", GW_U32, s->heads);
    gw_int(&w, "llama.attention.head_count_kv", GW_U32, s->heads_kv);
    gw_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gw_str(&w, "tokenizer.ggml.model", "none");
    for (l = -1; l < s->layers; l++)
        for (p = 0; p < (l < 0 ? 2 : sizeof parts / sizeof *parts); p++) {
            int norm = l < 0 ? p == 1 : parts[p].cols < 0;
            dims[0] = l < 0 || norm ? (uint64_t)s->width : size[parts[p].cols];
            dims[1] = norm ? 1 : l < 0 ? (uint64_t)s->vocab : size[parts[p].rows];
            if (l < 0) snprintf(name, sizeof name, "%s", norm ? "output_norm.weight" : "token_embd.weight");
            else snprintf(name, sizeof name, "blk.%d.%s.weight", l, parts[p].name);
            bytes = norm ? dims[0] * 4 : dims[0] / (uint64_t)s->block * (uint64_t)s->bytes * dims[1];
            gw_raw_tensor(&w, name, strlen(name), norm ? 0 : (uint32_t)s->type, norm ? 1 : 2, dims, at);
            at += (bytes + 31) / 32 * 32;
        }
    header = gw_finish(&w, &n);
    f = fopen(path, "wb");
    if (!f) { free(header); return 0; }
    first = fwrite(header, 1, n, f) == n;
    n = (n + 31) / 32 * 32;
    first = first && fseek(f, (long)(n + at - 1), SEEK_SET) == 0 && fwrite(&zero, 1, 1, f) == 1;
    first = fclose(f) == 0 && first;
    free(header);
    return first ? n + at : 0;
}

/* Resident bytes now, 0 where /proc does not say. */
static uint64_t memory_resident(void) {
    unsigned long long total = 0, resident = 0;
    FILE *f = getenv("CHECK_EMULATED") ? NULL : fopen("/proc/self/statm", "r"); /* qemu-user: its own memory counts */
    if (!f) return 0;
    if (fscanf(f, "%llu %llu", &total, &resident) != 2) resident = 0;
    fclose(f);
    return resident * 4096;
}

static const char *memory_path(void) {
    static char path[600];
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/infer-check-%p.gguf", dir ? dir : "/tmp", (void *)path); /* differs between processes */
    return path;
}

/* Opening 5 GB takes no more than metadata; the 1B shape's scratch at batch 512 is at most 64 MiB, with
 * floats that are not rounded to BF16 (no AVX512-BF16) 72. */
/* Blocks of 2 MiB and more begin at a huge page, smaller ones and those of the host's allocator do not ask for the room. */
static size_t memory_asked;
static void *memory_host_alloc(void *user, size_t size, size_t align) {
    (void)user;
    (void)align;
    memory_asked = size;
    return malloc(size);
}
static void memory_host_free(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    free(p);
}
static void test_memory_huge(void) {
    const uint64_t page = 1 << 21;
    infer_allocator a;
    infer__mem m;
    int zero;
    infer__mem_init(&m, NULL, 0);
    for (zero = 0; zero < 2; zero++) {
        char *p = (char *)(zero ? infer__calloc(&m, 1, page) : infer__alloc(&m, page));
        CHECK(p && (!INFER__HUGE_PAGES || (uintptr_t)p % page == 0));
        CHECK(infer__atomic_get(&m.used) == (int64_t)page);
        if (p) CHECK(!zero || (p[0] == 0 && p[page - 1] == 0));
        if (p) memset(p, 1, (size_t)page);
        infer__free(&m, p);
    }
    CHECK(infer__atomic_get(&m.used) == 0);
    memset(&a, 0, sizeof a);
    a.alloc = memory_host_alloc;
    a.free = memory_host_free;
    infer__mem_init(&m, &a, 0);
    infer__free(&m, infer__alloc(&m, 2 * page));
    CHECK(memory_asked < 2 * page + 200);
}

static void test_memory_big_files(void) {
    static const memory_shape b8 = { 4096, 32, 32, 8, 14336, 128256, 2, 32, 18 };  /* Llama-3.1-8B, Q4_0 */
    static const memory_shape b1 = { 2048, 16, 32, 8, 8192, 128256, 8, 32, 34 };   /* Llama-3.2-1B, Q8_0 */
    const char *path = memory_path();
    infer_context_params p;
    infer_memory need;
    infer_error e;
    infer_model *m = NULL;
    infer_model_info info;
    uint64_t before, size;
    infer_device_count(); /* drivers are loaded once, by the first caller */
    before = memory_resident();
    if (!before) SKIP("cpu: resident memory is not known here (/proc/self/statm)");
    memset(&p, 0, sizeof p);
    p.batch = 512;
    p.threads = 2;
    size = memory_file(path, &b8);
    CHECK(size > 4000000000u || sizeof(long) < 8); /* the C library cannot write such a file on 32 bits */
    if (sizeof(long) < 8) size = 0;
    if (size) {
        CHECK(infer_model_memory_path(path, NULL, &p, &need, &e) == INFER_OK);
        CHECK(need.weights > 4000000000u);
        CHECK(infer_model_open(&m, path, NULL, &e) == INFER_OK);
        if (m) CHECK(infer_model_get_info(m, &info) == INFER_OK && info.computes && info.file_bytes == size);
        CHECK(memory_resident() < before + (4u << 20));
        CHECK(infer_model_close(m) == INFER_OK);
    }
    size = memory_file(path, &b1);
    if (size) {
        CHECK(infer_model_memory_path(path, NULL, &p, &need, &e) == INFER_OK);
        CHECK(need.scratch <= (infer__floats_find(infer__cpu_found())->pairs ? 64u : 72u) << 20);
        CHECK(need.cache == 16ull * 4096 * 2 * 512 * 2); /* layers x positions x (K, V) x width x F16 */
        p.kv_type = INFER_KV_F32;
        CHECK(infer_model_memory_path(path, NULL, &p, &need, &e) == INFER_OK);
        CHECK(need.cache == 2 * 16ull * 4096 * 2 * 512 * 2);
        p.kv_type = INFER_KV_BF16;
        CHECK(infer_model_memory_path(path, NULL, &p, &need, &e) == INFER_OK);
        CHECK(need.cache == 16ull * 4096 * 2 * 512 * 2);
        p.kv_type = INFER_KV_Q8_0;
        CHECK(infer_model_memory_path(path, NULL, &p, &need, &e) == INFER_OK);
        CHECK(need.cache == 16ull * 4096 * 2 * 512 / 32 * 34);
        p.kv_type = INFER_KV_Q4_0;
        CHECK(infer_model_memory_path(path, NULL, &p, &need, &e) == INFER_OK);
        CHECK(need.cache == 16ull * 4096 * 2 * 512 / 32 * 18);
    }
    remove(path);
}

/* A run stays within what was predicted: mapped file, cache and scratch. */
static void test_memory_run(void) {
    static const memory_shape shape = { 576, 6, 9, 3, 1536, 49152, 8, 32, 34 }; /* SmolLM2-135M with fewer layers, Q8_0 */
    const char *path = memory_path();
    infer_session_params p;
    infer_memory need;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error e;
    infer_token ids[300];
    uint64_t before = memory_resident(), after;
    int i;
    if (!before) SKIP("cpu: resident memory is not known here (/proc/self/statm)");
    memset(&p, 0, sizeof p);
    p.context = p.own.cells = 512;
    p.own.threads = 2;
    if (!memory_file(path, &shape)) { CHECK(!"written"); return; }
    for (i = 0; i < 300; i++) ids[i] = i * 131 % 49152;
    CHECK(infer_model_open(&m, path, NULL, &e) == INFER_OK);
    if (m) {
        CHECK(infer_model_memory(m, &p.own, &need, &e) == INFER_OK);
        CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
        CHECK(infer_session_eval(s, ids, 300) == INFER_OK);
        after = memory_resident();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they have memory of their own */
        CHECK(after <= before + need.weights + need.cache + need.scratch + (1u << 20)); /* thread stacks */
#endif
        CHECK(after > before + (1u << 20));
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    remove(path);
}

/* What the allocator is asked for is what was predicted, to the byte: with every kind of layers, many threads or none, each type of cache. */
static void test_memory_exact(void) {
    static const struct { int32_t threads, batch, cells, kv; } cases[] = {
        {1, 1, 16, INFER_KV_DEFAULT}, {3, 8, 60, INFER_KV_Q8_0}, {2, 300, 33, INFER_KV_F32}};
    size_t i, k, opened = 0;
    if (INFER__BIG_ENDIAN) SKIP("cpu: big-endian: weights are copied, the counts below are for mapped ones");
    for (i = 0; i < INFER__COUNT(ARCH_FILES) * INFER__COUNT(cases); i += (size_t)check_every(8)) {
        infer_model_params mp;
        infer_session_params p;
        infer_memory want;
        infer_model *m = NULL;
        infer_session *s = NULL;
        infer_error e;
        char name[160];
        k = i % INFER__COUNT(cases);
        snprintf(name, sizeof name, "archs/%s.gguf", ARCH_FILES[i / INFER__COUNT(cases)]);
        check_detail = name;
        memset(&mp, 0, sizeof mp);
        memset(&p, 0, sizeof p);
        memory_live = memory_peak = 0;
        mp.backend = INFER_CPU;
        mp.allocator.alloc = memory_alloc;
        mp.allocator.free = memory_free;
        p.context = p.own.cells = cases[k].cells;
        p.own.threads = cases[k].threads;
        p.own.batch = cases[k].batch;
        p.own.kv_type = cases[k].kv;
        if (infer_model_open(&m, check_data(name), &mp, &e) != INFER_OK) continue; /* the file is not here */
        opened++;
        if (infer_model_memory(m, &p.own, &want, &e) == INFER_OK) { /* a type of cache may not be for these heads */
            CHECK(memory_peak <= want.peak);
            CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
            CHECK(memory_live == want.cache + want.scratch);
            if (s && !m->hp.encoder && !m->hp.n_enc && !m->hp.not_causal) {
                infer_token ids[16];
                cache_ids(ids, 16, 3, 30);
                CHECK(infer_session_eval(s, ids, 15) == INFER_OK && infer_session_eval(s, ids, 1) == INFER_OK);
                CHECK(infer_session_logits(s, 0) != NULL);
                CHECK(memory_peak == want.peak);
            }
            infer_session_destroy(s);
        }
        CHECK(infer_model_close(m) == INFER_OK && memory_live == 0);
    }
    CHECK(opened > 0);
}

static void suite_memory(void) {
    RUN(test_memory_huge);
    RUN(test_memory_exact);
    RUN(test_memory_big_files);
    RUN(test_memory_run);
}
