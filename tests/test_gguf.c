/* test_gguf.c: the file layer: reading what is well formed in every way there is, refusing what is not. */
#include "gguf_write.h"
#include <limits.h>
#if !defined(_MSC_VER)
#  include <dirent.h>
#endif

/* ---- opening a file in memory in every way ---- */

enum { GGUF_MEMORY, GGUF_UNALIGNED, GGUF_READ, GGUF_MAPPED, GGUF_MAPPED_ODD, GGUF_PATH, GGUF_PATH_READ, GGUF_WAYS };
static const char *const gguf_ways[] = { "memory", "unaligned memory", "io", "mapped io", "unaligned mapped io", "path",
                                         "path without map" };

typedef struct gguf_file { /* for callbacks */
    const unsigned char *p;
    uint64_t n;      /* bytes there really are; the rest reads as zeros */
    long calls, fail_at;
    uint64_t most;   /* the highest offset read */
} gguf_file;

static size_t gguf_read_some(void *user, uint64_t offset, void *dst, size_t n) {
    gguf_file *f = (gguf_file *)user;
    if (++f->calls == f->fail_at) return n / 2;
    if (offset + n > f->most) f->most = offset + n;
    memset(dst, 0, n);
    if (offset < f->n) memcpy(dst, f->p + offset, f->n - offset < n ? (size_t)(f->n - offset) : n);
    return n;
}

/* A copy of the file at an address that is 0 or 8 modulo 32; the memory to free is in *raw. */
static unsigned char *gguf_copy_at(const unsigned char *p, size_t n, size_t off, void **raw) {
    unsigned char *to = (unsigned char *)malloc(n + 96);
    *raw = to;
    to += (32 - (uintptr_t)to % 32) % 32 + off;
    if (n) memcpy(to, p, n);
    return to;
}

typedef struct gguf_opened {
    infer__gguf g;
    infer__mem mem;
    infer_error err;
    infer_result code;
    gguf_file file;
    void *raw;
    char path[256];
} gguf_opened;

static const char *gguf_temp(char *out, size_t cap, const char *name) {
    const char *dir = getenv("TMPDIR");
    static unsigned long process;
    if (!dir) dir = getenv("TEMP");
    if (!process) process = (unsigned long)(infer__seconds() * 1e6) ^ (unsigned long)(uintptr_t)&cap;
    snprintf(out, cap, "%s/check%lx-%s", dir && *dir ? dir : ".", process, name);
    return out;
}

static void gguf_open(gguf_opened *o, int way, const unsigned char *p, size_t n, const infer_allocator *a, uint64_t limit) {
    infer_io io;
    memset(o, 0, sizeof *o);
    memset(&io, 0, sizeof io);
    infer__mem_init(&o->mem, a, limit);
    o->file.p = p;
    o->file.n = n;
    io.user = &o->file;
    io.read = gguf_read_some;
    io.size = n;
    switch (way) {
    case GGUF_MEMORY: case GGUF_UNALIGNED:
        p = gguf_copy_at(p, n, way == GGUF_MEMORY ? 0 : 8, &o->raw);
        o->code = infer__gguf_open_memory(&o->g, &o->mem, NULL, p, n, &o->err);
        break;
    case GGUF_MAPPED: case GGUF_MAPPED_ODD:
        io.mapped = gguf_copy_at(p, n, way == GGUF_MAPPED ? 0 : 8, &o->raw);
        o->code = infer__gguf_open_io(&o->g, &o->mem, NULL, &io, 1, &o->err);
        break;
    case GGUF_READ:
        o->code = infer__gguf_open_io(&o->g, &o->mem, NULL, &io, 1, &o->err);
        break;
    default:
        CHECK(gw_save(gguf_temp(o->path, sizeof o->path, "gguf.gguf"), p, n));
        o->code = infer__gguf_open_path(&o->g, &o->mem, NULL, o->path, way == GGUF_PATH, &o->err);
    }
}

static void gguf_close(gguf_opened *o) {
    infer__gguf_close(&o->g);
    CHECK(infer__atomic_get(&o->mem.used) == 0);
    free(o->raw);
    if (o->path[0]) remove(o->path);
}

/* The file must be refused with this code and a message that contains `part`; nothing may be left. Frees the file. */
static void gguf_refuse(unsigned char *file, size_t n, infer_result code, const char *part) {
    static const int ways[] = { GGUF_MEMORY, GGUF_READ };
    gguf_opened o;
    size_t i;
    for (i = 0; i < 2; i++) {
        gguf_open(&o, ways[i], file, n, NULL, 0);
        CHECK(o.code == code && o.err.code == code);
        CHECK_HAS(o.err.message, part);
        CHECK(o.g.kv == NULL && o.g.mem == NULL);
        gguf_close(&o);
    }
    free(file);
}
static void gguf_refuse_w(gguf_writer *w, infer_result code, const char *part) {
    size_t n;
    unsigned char *file = gw_finish(w, &n);
    gguf_refuse(file, n, code, part);
}

/* Look at everything: metadata of all types, a few rows of every tensor. Returns something that depends on all of it. */
static double gguf_walk(infer__gguf *g) {
    double sum = 0;
    int32_t i;
    uint64_t j, k;
    infer_error e;
    for (i = 0; i < g->n_kv; i++) {
        const infer__kv *kv = &g->kv[i];
        if (infer__gguf_find(g, kv->key) != kv) return -1e30;
        if (kv->type == INFER__GGUF_STRING) for (j = 0; j < kv->n; j++) sum += ((const unsigned char *)kv->data)[j];
        else if (infer__kv_is_strings(kv)) {
            for (j = 0; j < kv->n; j++) {
                infer__str s = infer__kv_string(kv, j);
                for (k = 0; k < s.n; k++) sum += (unsigned char)s.s[k];
            }
        } else for (j = 0; j < kv->n; j++) sum += infer__kv_number(kv, j) > 0;
    }
    for (i = 0; i < g->n_tensors; i++) {
        infer__gguf_tensor *t = &g->tensors[i];
        uint64_t rows = t->rows < 3 ? t->rows : 3;
        float *x;
        if (infer__gguf_tensor_find(g, t->name) != t) return -1e30;
        if (t->dims[0] > 100000) continue;
        x = (float *)malloc((size_t)(rows * t->dims[0]) * sizeof *x);
        if (infer__gguf_read_rows(g, t, t->rows - rows, rows, x, &e) == INFER_OK)
            for (j = 0; j < rows * t->dims[0]; j++) sum += x[j] > 0;
        else if (e.code != INFER_ERR_UNSUPPORTED) sum = -1e30;
        free(x);
    }
    return sum;
}

/* ---- well-formed files ---- */

static const int64_t gguf_low[] = { 0, -128, 0, -32768, 0, INT32_MIN, 0, 0, 0, 0, 0, INT64_MIN };
static const uint64_t gguf_high[] = { 255, 127, 65535, 32767, UINT32_MAX, INT32_MAX, 0, 1, 0, 0, UINT64_MAX, INT64_MAX };
static const char *const gguf_type_names[] = { "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64",
                                               "i64", "f64" };
#define GGUF_BIG 40000 /* values of a tensor that is longer than one read of read_rows */

/* Every value type as scalar and array, plain tensors and one of blocks (not when big-endian). */
static unsigned char *gguf_everything(int big, uint32_t version, uint32_t align, size_t *n) {
    gguf_writer w;
    char key[32];
    static const char *const words[] = { "", "a", "\xe2\x96\x81token", "b" };
    static const float floats[] = { -1.5f, 0, 3.25f };
    float *x = (float *)malloc(GGUF_BIG * sizeof *x);
    uint64_t dims[4] = { 3, 2, 1, 1 };
    int16_t shorts[6] = { -1, 2, -3, 4, -5, 600 };
    double doubles[6] = { 1, 2.5, -3, 4, 5, 1e10 };
    unsigned char blocks[68];
    int t, i;
    gw_init(&w);
    w.big = big;
    w.version = version;
    gw_str(&w, "general.architecture", "test");
    if (align) gw_align(&w, align);
    for (t = 0; t <= GW_F64; t++) {
        if (t == GW_F32 || t == GW_STRING || t == GW_ARRAY || t == GW_F64) continue;
        snprintf(key, sizeof key, "low.%s", gguf_type_names[t]);
        gw_int(&w, key, t, gguf_low[t]);
        snprintf(key, sizeof key, "high.%s", gguf_type_names[t]);
        gw_int(&w, key, t, (int64_t)gguf_high[t]);
        snprintf(key, sizeof key, "array.%s", gguf_type_names[t]);
        gw_array(&w, key, (uint32_t)t, 3);
        gw_uint(&w, &w.kv, (uint64_t)gguf_low[t], gw_size(t));
        gw_uint(&w, &w.kv, gguf_high[t], gw_size(t));
        gw_uint(&w, &w.kv, 1, gw_size(t));
    }
    gw_f32(&w, "f32", 0.1f);
    gw_f64(&w, "f64", 1e100);
    gw_f32s(&w, "array.f32", floats, 3);
    gw_array(&w, "array.f64", GW_F64, 1);
    gw_uint(&w, &w.kv, 0x4004000000000000u, 8); /* 2.5 */
    gw_strs(&w, "words", words, 4);
    gw_str(&w, "empty", "");
    gw_array(&w, "none", GW_STRING, 0);
    gw_array(&w, "nothing", GW_U32, 0);
    gw_tensor(&w, "shorts", 25, 2, dims, shorts, sizeof shorts, 2);
    gw_tensor(&w, "doubles", 28, 2, dims, doubles, sizeof doubles, 8);
    for (i = 0; i < GGUF_BIG; i++) x[i] = (float)i * 0.5f - 7;
    dims[0] = 20;
    dims[1] = 10;
    dims[2] = GGUF_BIG / 200;
    gw_tensor(&w, "floats", 0, 3, dims, x, GGUF_BIG * sizeof *x, 4);
    for (i = 0; i < 68; i++) blocks[i] = (unsigned char)(i % 34 - 2);
    blocks[0] = blocks[34] = 0;
    blocks[1] = 0x38;  /* d = 0.5 */
    blocks[35] = 0x3c; /* d = 1 */
    dims[0] = 64;
    gw_tensor(&w, "blocks", 8, 1, dims, blocks, sizeof blocks, 1);
    free(x);
    return gw_finish(&w, n);
}

static void gguf_check_values(infer__gguf *g) {
    static const float tenth = 0.1f; /* not the constants themselves: some machines compute them in more precision */
    static const double huge = 1e100;
    char key[32];
    int t;
    const infer__kv *kv;
    infer__str s;
    for (t = 0; t <= GW_F64; t++) {
        if (t == GW_F32 || t == GW_STRING || t == GW_ARRAY || t == GW_F64) continue;
        snprintf(key, sizeof key, "low.%s", gguf_type_names[t]);
        kv = infer__gguf_find(g, key);
        CHECK(kv && kv->type == (uint32_t)t && kv->n == 1 && memcmp(kv->data, &gguf_low[t], 8) == 0);
        CHECK(kv && infer__kv_number(kv, 0) == (double)gguf_low[t]);
        snprintf(key, sizeof key, "high.%s", gguf_type_names[t]);
        kv = infer__gguf_find(g, key);
        CHECK(kv && memcmp(kv->data, &gguf_high[t], 8) == 0);
        CHECK(kv && infer__kv_number(kv, 0) == (double)gguf_high[t]);
        snprintf(key, sizeof key, "array.%s", gguf_type_names[t]);
        kv = infer__gguf_find(g, key);
        CHECK(kv && infer__kv_is_numbers(kv) && !infer__kv_is_strings(kv) && kv->n == 3);
        CHECK(kv && infer__kv_number(kv, 0) == (double)gguf_low[t] && infer__kv_number(kv, 1) == (double)gguf_high[t]);
        CHECK(kv && infer__kv_number(kv, 2) == 1);
    }
    kv = infer__gguf_find(g, "f32");
    CHECK(kv && infer__kv_number(kv, 0) == (double)tenth);
    kv = infer__gguf_find(g, "f64");
    CHECK(kv && infer__kv_number(kv, 0) == huge);
    kv = infer__gguf_find(g, "array.f32");
    CHECK(kv && kv->n == 3 && infer__kv_number(kv, 0) == -1.5 && infer__kv_number(kv, 2) == 3.25);
    kv = infer__gguf_find(g, "array.f64");
    CHECK(kv && kv->n == 1 && infer__kv_number(kv, 0) == 2.5);
    kv = infer__gguf_find(g, "words");
    CHECK(kv && infer__kv_is_strings(kv) && !infer__kv_is_numbers(kv) && kv->n == 4);
    s = infer__kv_string(kv, 0);
    CHECK(s.n == 0);
    s = infer__kv_string(kv, 2);
    CHECK(s.n == 8 && memcmp(s.s, "\xe2\x96\x81token", 8) == 0);
    s = infer__kv_string(kv, 3);
    CHECK(s.n == 1 && s.s[0] == 'b');
    CHECK(infer__gguf_str(g, "general.architecture", &s, NULL) == 1 && s.n == 4 && memcmp(s.s, "test", 4) == 0);
    CHECK(infer__gguf_str(g, "empty", &s, NULL) == 1 && s.n == 0);
    kv = infer__gguf_find(g, "none");
    CHECK(kv && infer__kv_is_strings(kv) && kv->n == 0);
    kv = infer__gguf_find(g, "nothing");
    CHECK(kv && infer__kv_is_numbers(kv) && kv->n == 0);
    CHECK(infer__gguf_find(g, "absent") == NULL && infer__gguf_find(g, "") == NULL);
    CHECK(infer__gguf_tensor_find(g, "absent") == NULL);
}

static void gguf_check_tensors(infer__gguf *g, int big) {
    static const float shorts[] = { -1, 2, -3, 4, -5, 600 }, doubles[] = { 1, 2.5f, -3, 4, 5, 1e10f };
    float *x = (float *)malloc(GGUF_BIG * sizeof *x);
    int pass, i;
    infer_error e;
    infer__gguf_tensor *t = infer__gguf_tensor_find(g, "shorts"), *d = infer__gguf_tensor_find(g, "doubles");
    infer__gguf_tensor *f = infer__gguf_tensor_find(g, "floats"), *b = infer__gguf_tensor_find(g, "blocks");
    CHECK(t && d && f && b && g->n_tensors == 4);
    CHECK(t->n_dims == 2 && t->dims[0] == 3 && t->dims[1] == 2 && t->dims[2] == 1 && t->dims[3] == 1 && t->rows == 2);
    CHECK(t->bytes == 12 && t->row_bytes == 6 && t->shard == 0 && strcmp(t->type->name, "I16") == 0);
    CHECK(f->n_dims == 3 && f->rows == GGUF_BIG / 20 && b->bytes == 68 && b->rows == 1);
    for (pass = 0; pass < 2; pass++) { /* first through the source, then from loaded bytes */
        CHECK(infer__gguf_read_rows(g, t, 0, 2, x, &e) == INFER_OK && memcmp(x, shorts, sizeof shorts) == 0);
        CHECK(infer__gguf_read_rows(g, d, 1, 1, x, &e) == INFER_OK && memcmp(x, doubles + 3, 12) == 0);
        CHECK(infer__gguf_read_rows(g, f, 0, f->rows, x, &e) == INFER_OK);
        for (i = 0; i < GGUF_BIG && x[i] == (float)i * 0.5f - 7; i++) continue;
        CHECK(i == GGUF_BIG);
        CHECK(infer__gguf_read_rows(g, f, f->rows - 1, 1, x, &e) == INFER_OK && x[0] == (GGUF_BIG - 20) * 0.5f - 7);
        CHECK(infer__gguf_read_rows(g, f, f->rows, 0, x, &e) == INFER_OK);
        CHECK(infer__gguf_read_rows(g, f, f->rows, 1, x, &e) == INFER_ERR_ARGUMENT);
        CHECK_HAS(e.message, "tensor \"floats\", byte ");
        CHECK_HAS(e.message, "1 rows from row 2000: there are 2000");
        CHECK(infer__gguf_read_rows(g, f, 1, UINT64_MAX, x, &e) == INFER_ERR_ARGUMENT);
        CHECK(infer__gguf_read_rows(g, f, UINT64_MAX, 1, x, &e) == INFER_ERR_ARGUMENT);
        CHECK(infer__gguf_read_rows(g, b, 0, 1, x, &e) == (big ? INFER_ERR_UNSUPPORTED : INFER_OK));
        if (!big) CHECK(x[0] == 0 && x[1] == 0.5f && x[31] == 15.5f && x[32] == 0 && x[63] == 31);
        else CHECK_HAS(e.message, "tensor \"blocks\"");
        CHECK(infer__gguf_load(g, t, &e) == INFER_OK && memcmp(t->data, "\xff\xff", 2) == 0);
        CHECK(infer__gguf_load(g, d, &e) == INFER_OK && infer__gguf_load(g, f, &e) == INFER_OK);
        if (f->data) memcpy(x, f->data, 4);
        CHECK(f->data && x[0] == -7);
        CHECK(infer__gguf_load(g, b, &e) == (big ? INFER_ERR_UNSUPPORTED : INFER_OK));
        CHECK(b->data ? ((const unsigned char *)b->data)[1] == 0x38 : big);
    }
    free(x);
}

static void test_gguf_all_ways(void) {
    static char detail[100];
    uint32_t version;
    int big, way;
    for (version = 2; version <= 3; version++)
        for (big = 0; big < 2; big++) {
            size_t n;
            unsigned char *file = gguf_everything(big, version, version == 2 ? 0 : 8, &n);
            for (way = 0; way < GGUF_WAYS; way++) {
                gguf_opened o;
                snprintf(detail, sizeof detail, "version %u, %s-endian, %s", version, big ? "big" : "little", gguf_ways[way]);
                check_detail = detail;
                gguf_open(&o, way, file, n, NULL, 0);
                CHECK_STR(o.err.message, "");
                CHECK(o.code == INFER_OK);
                if (o.code == INFER_OK) {
                    const infer__source *s = &o.g.sources[0]; /* what is mapped is aligned; else copied or read */
                    CHECK((uintptr_t)s->io.mapped % 32 == 0 && (s->copy != NULL) == (way == GGUF_UNALIGNED));
                    CHECK(way != GGUF_MAPPED_ODD || !s->io.mapped);
                    CHECK(o.g.version == version && o.g.swapped == (big != INFER__BIG_ENDIAN) && o.g.file_bytes == n);
                    CHECK(o.g.tensor_bytes == 12 + 48 + GGUF_BIG * 4 + 68);
                    gguf_check_values(&o.g);
                    gguf_check_tensors(&o.g, big);
                    gguf_check_values(&o.g);
                }
                gguf_close(&o);
            }
            free(file);
        }
}

static void gguf_check_model(const char *name, int n_kv, int n_tensors, int n_tokens, const char *token0, const float *first) {
    int read;
    for (read = 0; read < 2; read++) {
        infer__mem mem;
        infer__gguf g;
        infer_error e;
        infer__str s;
        const infer__kv *kv;
        float *x;
        infer__mem_init(&mem, NULL, 0);
        check_detail = name;
        if (infer__gguf_open_path(&g, &mem, NULL, check_data(name), !read, &e) != INFER_OK) {
            CHECK_STR(e.message, "");
            return;
        }
        CHECK(g.n_kv == n_kv && g.n_tensors == n_tensors && g.version == 3);
        kv = infer__gguf_find(&g, "tokenizer.ggml.tokens");
        CHECK(kv && infer__kv_is_strings(kv) && kv->n == (uint64_t)n_tokens);
        s = infer__kv_string(kv, 0);
        CHECK(s.n == strlen(token0) && memcmp(s.s, token0, (size_t)s.n) == 0);
        x = (float *)malloc((size_t)g.tensors[0].dims[0] * sizeof *x);
        CHECK_STR(g.tensors[0].name, "token_embd.weight");
        CHECK(infer__gguf_read_rows(&g, &g.tensors[0], 0, 1, x, &e) == INFER_OK && memcmp(x, first, 12) == 0);
        free(x);
        CHECK(gguf_walk(&g) > 0);
        infer__gguf_close(&g);
        CHECK(infer__atomic_get(&mem.used) == 0);
    }
}

static void test_gguf_models(void) {
    static const float stories[] = { -0.29474878311157227f, 0.5618956089019775f, 0.1754225343465805f };
    static const float tiny[] = { -0.68389892578125f, -0.022796630859375f, 0.59271240234375f };
    static const float sort[] = { 0.05984091758728027f, 0.0015325188869610429f, -0.00639647850766778f };
    infer__mem mem;
    infer__gguf g;
    uint32_t u = 0;
    float f = 0;
    int b = 1;
    gguf_check_model("models/stories260K.F32.gguf", 19, 48, 512, "<unk>", stories);
    gguf_check_model("models/TinyStories-656K.Q8_0.gguf", 25, 20, 2048, "<unk>", tiny);
    gguf_check_model("models/gpt-nano-sort.F32.gguf", 16, 41, 3, "A", sort);
    infer__mem_init(&mem, NULL, 0);
    CHECK(infer__gguf_open_path(&g, &mem, NULL, check_data("models/TinyStories-656K.Q8_0.gguf"), 1, NULL) == INFER_OK);
    CHECK(infer__gguf_u32(&g, "llama.feed_forward_length", &u, NULL) == 1 && u == 384);
    CHECK(infer__gguf_f32(&g, "llama.rope.freq_base", &f, NULL) == 1 && f == 10000);
    CHECK(infer__gguf_bool(&g, "tokenizer.ggml.add_eos_token", &b, NULL) == 1 && b == 0);
    CHECK(g.file_bytes == 749216 && g.tensor_bytes == 698880);
    infer__gguf_close(&g);
    infer__gguf_close(&g); /* closing twice does nothing */
}

/* Opens every GGUF of a folder, mapped and not. */
static void gguf_check_folder(const char *folder, int least) {
#if defined(_MSC_VER)
    (void)folder; (void)least;
    SKIP("no listing of folders");
#else
    const char *root = check_reference(folder);
    char path[1200];
    DIR *dir;
    struct dirent *e;
    int n = 0;
    if (!root) SKIP("INFER_TEST_DATA is not set");
    dir = opendir(root);
    if (!dir) SKIP("the folder is not there");
    while ((e = readdir(dir)) != NULL) {
        size_t length = strlen(e->d_name);
        int map;
        double sum[2];
        if (length < 5 || strcmp(e->d_name + length - 5, ".gguf") != 0) continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", root, e->d_name);
        check_detail = e->d_name;
        for (map = 0; map < 2; map++) {
            infer__mem mem;
            infer__gguf g;
            infer_error err;
            infer__str s;
            infer__mem_init(&mem, NULL, 0);
            if (infer__gguf_open_path(&g, &mem, NULL, path, map, &err) != INFER_OK) {
                CHECK_STR(err.message, "");
                break;
            }
            if (strcmp(e->d_name, "quant-vectors.gguf") != 0) CHECK(infer__gguf_str(&g, "general.architecture", &s, NULL) == 1);
            sum[map] = gguf_walk(&g);
            CHECK(sum[map] > 0);
            if (map) CHECK(sum[0] == sum[1]);
            infer__gguf_close(&g);
            CHECK(infer__atomic_get(&mem.used) == 0);
        }
        check_detail = "";
    }
    closedir(dir);
    CHECK(n >= least);
#endif
}
static void test_gguf_reference_archs(void) { gguf_check_folder("archs", 200); }
static void test_gguf_reference_quants(void) { gguf_check_folder("quants", 20); }
static void test_gguf_reference_models(void) { gguf_check_folder("models", 11); }
static void test_gguf_reference_vocabs(void) { gguf_check_folder("vocabs", 14); }

/* ---- typed metadata ---- */

static void test_gguf_typed(void) {
    gguf_writer w;
    gguf_opened o;
    size_t n;
    unsigned char *file;
    static const int64_t ints[] = { 1, 2 };
    uint32_t u = 77;
    float f = 77;
    int b = 77;
    infer__str s = { "old", 3 };
    infer_error e;
    gw_init(&w);
    gw_int(&w, "u8", GW_U8, 200);
    gw_int(&w, "i64", GW_I64, 5000000000);
    gw_int(&w, "minus", GW_I32, -1);
    gw_int(&w, "max", GW_U32, UINT32_MAX);
    gw_int(&w, "yes", GW_BOOL, 1);
    gw_f32(&w, "f32", 2.5f);
    gw_f64(&w, "f64", 1e300);
    gw_int(&w, "inf", GW_F32, 0x7f800000);
    gw_int(&w, "nan", GW_F32, 0x7fc00000);
    gw_str(&w, "str", "text");
    gw_ints(&w, "arr", GW_I32, ints, 2);
    file = gw_finish(&w, &n);
    gguf_open(&o, GGUF_MEMORY, file, n, NULL, 0);
    CHECK(o.code == INFER_OK && o.g.n_tensors == 0 && o.g.n_kv == 11);
    CHECK(infer__gguf_u32(&o.g, "absent", &u, NULL) == 0 && u == 77 && infer__gguf_f32(&o.g, "absent", &f, NULL) == 0);
    CHECK(infer__gguf_bool(&o.g, "absent", &b, NULL) == 0 && infer__gguf_str(&o.g, "absent", &s, NULL) == 0 && s.n == 3);
    CHECK(infer__gguf_u32(&o.g, "u8", &u, NULL) == 1 && u == 200);
    CHECK(infer__gguf_u32(&o.g, "max", &u, NULL) == 1 && u == UINT32_MAX);
    CHECK(infer__gguf_u32(&o.g, "yes", &u, NULL) == 1 && u == 1);
    CHECK(infer__gguf_u32(&o.g, "i64", &u, &e) == INFER_ERR_FORMAT && u == 1);
    CHECK_HAS(e.message, "metadata key \"i64\", byte ");
    CHECK_HAS(e.message, "5000000000 is out of range (0 to 4294967295)");
    CHECK(infer__gguf_u32(&o.g, "minus", &u, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "\"minus\", byte ");
    CHECK(infer__gguf_u32(&o.g, "f32", &u, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "\"f32\", byte ");
    CHECK_HAS(e.message, "is a float, not an integer");
    CHECK(infer__gguf_u32(&o.g, "str", &u, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "is a string, not an integer");
    CHECK(infer__gguf_u32(&o.g, "arr", &u, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "is an array, not an integer");
    CHECK(infer__gguf_f32(&o.g, "f32", &f, NULL) == 1 && f == 2.5f);
    CHECK(infer__gguf_f32(&o.g, "minus", &f, NULL) == 1 && f == -1);
    CHECK(infer__gguf_f32(&o.g, "u8", &f, NULL) == 1 && f == 200);
    CHECK(infer__gguf_f32(&o.g, "f64", &f, &e) == INFER_ERR_FORMAT && infer__gguf_f32(&o.g, "inf", &f, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "metadata key \"inf\", byte ");
    CHECK(infer__gguf_f32(&o.g, "nan", &f, &e) == INFER_ERR_FORMAT && f == 200);
    CHECK(infer__gguf_f32(&o.g, "str", &f, &e) == INFER_ERR_FORMAT && f == 200);
    CHECK_HAS(e.message, "is a string, not a number");
    CHECK(infer__gguf_bool(&o.g, "yes", &b, NULL) == 1 && b == 1);
    CHECK(infer__gguf_bool(&o.g, "u8", &b, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "neither 0 nor 1");
    CHECK(infer__gguf_bool(&o.g, "f32", &b, &e) == INFER_ERR_FORMAT);
    CHECK(infer__gguf_str(&o.g, "str", &s, NULL) == 1 && s.n == 4 && memcmp(s.s, "text", 4) == 0);
    CHECK(infer__gguf_str(&o.g, "yes", &s, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "is a bool, not a string");
    gguf_close(&o);
    free(file);
}

#include "test_gguf_refuse.c"

/* ---- failures that come from outside ---- */

static void test_gguf_memory_fails(void) {
    static const int ways[] = { GGUF_MEMORY, GGUF_UNALIGNED, GGUF_READ, GGUF_PATH_READ };
    static const infer_allocator a = { NULL, check_alloc, check_free };
    size_t n, i;
    unsigned char *file = gguf_everything(!INFER__BIG_ENDIAN, 3, 0, &n);
    for (i = 0; i < INFER__COUNT(ways); i++) {
        long fail;
        infer_result r = INFER_ERR_MEMORY;
        for (fail = 1; fail < 500 && r != INFER_OK; fail++) {
            gguf_opened o;
            check_allocs = 0;
            check_fail_at = fail;
            gguf_open(&o, ways[i], file, n, &a, 0);
            r = o.code;
            if (r == INFER_OK) {
                float x[20];
                r = infer__gguf_load(&o.g, infer__gguf_tensor_find(&o.g, "doubles"), &o.err);
                if (r == INFER_OK) r = infer__gguf_read_rows(&o.g, infer__gguf_tensor_find(&o.g, "floats"), 0, 1, x, &o.err);
            }
            CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && strstr(o.err.message, "no memory")));
            gguf_close(&o);
            CHECK(check_live == 0);
        }
        CHECK(fail > 8 && r == INFER_OK);
    }
    check_fail_at = 0;
    free(file);
}

static void test_gguf_read_fails(void) {
    gguf_opened o;
    size_t n;
    unsigned char *file = gguf_everything(0, 3, 0, &n);
    long fail;
    float x[20];
    infer__gguf_tensor *t;
    gguf_open(&o, GGUF_READ, file, n, NULL, 0);
    CHECK(o.code == INFER_OK && o.file.calls >= 1);
    t = infer__gguf_tensor_find(&o.g, "floats");
    o.file.fail_at = o.file.calls + 1;
    CHECK(infer__gguf_load(&o.g, t, &o.err) == INFER_ERR_IO && t->data == NULL && t->owned == NULL);
    CHECK_HAS(o.err.message, "tensor \"floats\", byte ");
    CHECK_HAS(o.err.message, "reading 160000 bytes at byte ");
    o.file.fail_at = o.file.calls + 1;
    CHECK(infer__gguf_read_rows(&o.g, t, 0, 1, x, &o.err) == INFER_ERR_IO);
    CHECK_HAS(o.err.message, "tensor \"floats\", byte ");
    CHECK(infer__gguf_load(&o.g, t, &o.err) == INFER_OK);
    gguf_close(&o);
    for (fail = 1; fail < 3; fail++) { /* the header itself: 65,536 bytes, then more */
        infer_io io;
        gguf_file f;
        infer__gguf g;
        infer__mem mem;
        gguf_writer w;
        unsigned char *big;
        char *text = (char *)calloc(1, 100000);
        gw_init(&w);
        gw_strn(&w, "long", text, 100000);
        gw_str(&w, "last", "x");
        big = gw_finish(&w, &n);
        memset(&f, 0, sizeof f);
        memset(&io, 0, sizeof io);
        f.p = big;
        f.n = io.size = n;
        f.fail_at = fail;
        io.user = &f;
        io.read = gguf_read_some;
        infer__mem_init(&mem, NULL, 0);
        CHECK(infer__gguf_open_io(&g, &mem, NULL, &io, 1, &o.err) == INFER_ERR_IO);
        CHECK_HAS(o.err.message, fail == 1 ? "header, byte 0: reading 65536 bytes" : "metadata key \"long\", byte 48: reading ");
        CHECK(infer__atomic_get(&mem.used) == 0);
        f.fail_at = 0;
        CHECK(infer__gguf_open_io(&g, &mem, NULL, &io, 1, &o.err) == INFER_OK && g.kv[0].n == 100000);
        infer__gguf_close(&g);
        io.read = NULL;
        CHECK(infer__gguf_open_io(&g, &mem, NULL, &io, 1, &o.err) == INFER_ERR_ARGUMENT);
        CHECK_HAS(o.err.message, "neither read nor mapped");
        free(big);
        free(text);
    }
    free(file);
}

/* ---- sizes ---- */

/* A model of 5 GB is opened without reading its tensors, in memory for its metadata alone. */
static void test_gguf_lazy(void) {
    const uint64_t size = (uint64_t)5 << 30;
    uint64_t dims[] = { 1 << 20, 128 };
    gguf_writer w;
    gguf_file f;
    infer_io io;
    infer__gguf g;
    infer__mem mem;
    infer_error e;
    float *x = (float *)malloc(4 << 20);
    int i;
    size_t n;
    gw_init(&w);
    gw_str(&w, "general.architecture", "big");
    for (i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        gw_raw_tensor(&w, name, strlen(name), 0, 2, dims, (uint64_t)i << 29);
    }
    memset(&f, 0, sizeof f);
    memset(&io, 0, sizeof io);
    f.p = gw_finish(&w, &n);
    f.n = n;
    io.user = &f;
    io.read = gguf_read_some;
    io.size = size;
    infer__mem_init(&mem, NULL, 100000);
    CHECK(infer__gguf_open_io(&g, &mem, NULL, &io, 1, &e) == INFER_OK);
    CHECK(g.file_bytes == size && g.tensor_bytes == (uint64_t)9 << 29 && f.most <= 65536);
    CHECK(infer__gguf_load(&g, &g.tensors[8], &e) == INFER_ERR_MEMORY); /* max_memory */
    CHECK_HAS(e.message, "tensor \"t8\", byte ");
    CHECK(infer__gguf_read_rows(&g, &g.tensors[8], 127, 1, x, &e) == INFER_ERR_MEMORY);
    mem.limit = 0;
    CHECK(infer__gguf_read_rows(&g, &g.tensors[8], 127, 1, x, &e) == INFER_OK && f.most == g.tensors[8].offset + (1u << 29));
    infer__gguf_close(&g);
    free((void *)(uintptr_t)f.p);
    free(x);
}

/* Loading a view counts against the memory limit like an allocation. */
static void test_gguf_view_counts(void) {
    size_t n;
    unsigned char *file = gguf_everything(INFER__BIG_ENDIAN, 3, 0, &n);
    gguf_opened o;
    gguf_open(&o, GGUF_MEMORY, file, n, NULL, 100000);
    CHECK(o.code == INFER_OK);
    CHECK(infer__gguf_load(&o.g, infer__gguf_tensor_find(&o.g, "shorts"), &o.err) == INFER_OK);
    CHECK(infer__gguf_load(&o.g, infer__gguf_tensor_find(&o.g, "floats"), &o.err) == INFER_ERR_MEMORY);
    CHECK_HAS(o.err.message, "no memory for 160000 bytes");
    o.mem.limit = 0;
    CHECK(infer__gguf_load(&o.g, infer__gguf_tensor_find(&o.g, "floats"), &o.err) == INFER_OK);
    CHECK(o.g.reserved == 12 + 160000);
    gguf_close(&o);
    free(file);
}

/* Memory stays proportional to the header, and many names are found in constant time. */
static void test_gguf_many(void) {
    enum { KEYS = 50000, TENSORS = 50000, WORDS = 262144 };
    gguf_writer w;
    char name[32];
    uint64_t dims[] = { 1 };
    unsigned char *file;
    size_t n;
    int i, way, wrong = 0;
    double start;
    gw_init(&w);
    w.align = 8;
    gw_int(&w, "general.alignment", GW_U32, 8);
    for (i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "key.%d", i);
        gw_int(&w, name, GW_U16, i & 0xffff);
    }
    gw_array(&w, "words", GW_STRING, WORDS);
    for (i = 0; i < WORDS; i++) {
        int length = snprintf(name, sizeof name, "%d", i);
        gw_raw_string(&w, &w.kv, name, (size_t)length);
    }
    for (i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof name, "blk.%d.weight", i);
        gw_raw_tensor(&w, name, strlen(name), 24, 1, dims, (uint64_t)(TENSORS - 1 - i) * 8);
    }
    gw_add(&w.data, NULL, TENSORS * 8);
    file = gw_finish(&w, &n);
    for (way = GGUF_MEMORY; way <= GGUF_READ; way += GGUF_READ - GGUF_MEMORY) {
        gguf_opened o;
        start = infer__seconds();
        gguf_open(&o, way, file, n, NULL, 12 * n);
        CHECK_STR(o.err.message, "");
        CHECK(o.g.n_kv == KEYS + 2 && o.g.n_tensors == TENSORS);
        for (i = 0; i < o.g.n_kv; i++) wrong += infer__gguf_find(&o.g, o.g.kv[i].key) != &o.g.kv[i];
        for (i = 0; i < o.g.n_tensors; i++) wrong += infer__gguf_tensor_find(&o.g, o.g.tensors[i].name) != &o.g.tensors[i];
        CHECK(wrong == 0);
        CHECK(infer__seconds() - start < 5); /* quadratic search would take minutes */
        gguf_close(&o);
    }
    free(file);
}

/* ---- damage ---- */

/* Bytes of header in a file: where its first tensor starts. */
static size_t gguf_header_bytes(const unsigned char *p, size_t n) {
    gguf_opened o;
    size_t bytes = 0;
    gguf_open(&o, GGUF_MEMORY, p, n, NULL, 0);
    if (o.code == INFER_OK) bytes = (size_t)o.g.tensors[0].offset;
    gguf_close(&o);
    return bytes;
}

static void test_gguf_truncated(void) {
    size_t n = 0, header, i;
    unsigned char *file = (unsigned char *)check_read(check_data("models/stories260K.F32.gguf"), &n);
    int bad = 0;
    if (!file) { CHECK(!"tests/data/models is there"); return; }
    header = gguf_header_bytes(file, n);
    CHECK(header == 14176);
    for (i = 0; i <= header; i++) { /* never opens; says so in one line that names a place */
        gguf_opened o;
        gguf_open(&o, i & 1 ? GGUF_READ : GGUF_MEMORY, file, i, NULL, 0);
        if (o.code != INFER_ERR_FORMAT || !strstr(o.err.message, "byte ")) bad++;
        gguf_close(&o);
    }
    CHECK(bad == 0);
    free(file);
}

static uint32_t gguf_random(uint32_t *state) { /* xorshift32 */
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void test_gguf_flipped(void) {
    enum { ROUNDS = 10000 };
    size_t n = 0, header;
    void *raw;
    unsigned char *read = (unsigned char *)check_read(check_data("models/stories260K.F32.gguf"), &n), *file;
    uint32_t state = 20250101;
    int i, k, opened = 0, refused = 0, silent = 0;
    if (!read) { CHECK(!"tests/data/models is there"); return; }
    header = gguf_header_bytes(read, n);
    file = gguf_copy_at(read, n, 0, &raw);
    for (i = 0; i < ROUNDS; i++) {
        size_t at[4];
        unsigned char was[4];
        int flips = 1 + (int)(gguf_random(&state) % 4);
        infer__gguf g;
        infer__mem mem;
        infer_error e;
        for (k = 0; k < flips; k++) {
            at[k] = gguf_random(&state) % header;
            if (gguf_random(&state) & 1) at[k] %= 200; /* half of them near the start */
            was[k] = file[at[k]];
            file[at[k]] ^= (unsigned char)(1u << gguf_random(&state) % 8);
        }
        infer__mem_init(&mem, NULL, 0);
        if (infer__gguf_open_memory(&g, &mem, NULL, file, n, &e) == INFER_OK) {
            opened++;
            gguf_walk(&g);
        } else {
            refused++;
            if (!strstr(e.message, "byte ") && !strstr(e.message, "split.")) silent++;
        }
        infer__gguf_close(&g);
        if (infer__atomic_get(&mem.used) != 0) silent++;
        for (k = flips; k-- > 0;) file[at[k]] = was[k];
    }
    CHECK(opened > 100 && refused > 100 && silent == 0);
    free(raw);
    free(read);
}

/* The fuzzer's corpus, crashes that it found included: any answer but a crash is right. */
static void test_gguf_corpus(void) {
#if defined(_MSC_VER)
    SKIP("no listing of folders");
#else
    const char *folder = getenv("INFER_TEST_CORPUS");
    DIR *dir = opendir(folder ? folder : "tests/fuzz/corpus_gguf");
    struct dirent *d;
    int files = 0, way;
    CHECK(dir != NULL);
    while (dir && (d = readdir(dir)) != NULL) {
        size_t n;
        unsigned char *p;
        if (d->d_name[0] == '.') continue;
        p = (unsigned char *)check_read(check_path(folder ? folder : "tests/fuzz/corpus_gguf", d->d_name), &n);
        if (!p) continue;
        files++;
        for (way = GGUF_MEMORY; way <= GGUF_READ; way++) {
            gguf_opened o;
            gguf_open(&o, way, p, n, NULL, 0);
            if (o.code == INFER_OK) gguf_walk(&o.g);
            else CHECK(o.err.message[0] != 0);
            gguf_close(&o);
        }
        free(p);
    }
    if (dir) closedir(dir);
    CHECK(files >= 8);
#endif
}

static void suite_gguf(void) {
    RUN(test_gguf_all_ways);
    RUN(test_gguf_models);
    RUN(test_gguf_typed);
    RUN(test_gguf_refuses_header);
    RUN(test_gguf_refuses_counts);
    RUN(test_gguf_refuses_metadata);
    RUN(test_gguf_refuses_alignment);
    RUN(test_gguf_refuses_tensors);
    RUN(test_gguf_split_io);
    RUN(test_gguf_split_path);
    RUN(test_gguf_split_keys);
    RUN(test_gguf_memory_fails);
    RUN(test_gguf_read_fails);
    RUN(test_gguf_lazy);
    RUN(test_gguf_view_counts);
    RUN(test_gguf_many);
    RUN(test_gguf_truncated);
    RUN(test_gguf_flipped);
    RUN(test_gguf_corpus);
    RUN(test_gguf_reference_archs);
    RUN(test_gguf_reference_quants);
    RUN(test_gguf_reference_models);
    RUN(test_gguf_reference_vocabs);
}
