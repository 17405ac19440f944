/* test_api.c: the public functions around a model: what they return and what they say when a call is wrong. */
#if !defined(_WIN32)
#  include <pthread.h>
#endif
#include "gguf_write.h"

static infer_model *api_open(const char *name, const infer_model_params *p) {
    infer_model *m = NULL;
    infer_error err;
    CHECK(infer_model_open(&m, check_data(name), p, &err) == INFER_OK);
    CHECK_STR(err.message, "");
    return m;
}

static infer_session *api_session(infer_model *m, int32_t context, int32_t threads) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error err;
    memset(&p, 0, sizeof p);
    p.context = context;
    p.own.threads = threads;
    p.own.batch = 64;
    CHECK(infer_session_create(&s, m, &p, &err) == INFER_OK);
    CHECK_STR(err.message, "");
    return s;
}

#define API_STORY "models/stories260K.F32.gguf"

/* ---- library ----------------------------------------------------------------------------------------- */

static void test_api_library(void) {
    infer_device_info d;
    infer_type_info t;
    int32_t i, usable = -1, found = 0;
    CHECK(infer_version() == INFER_VERSION);
    CHECK_HAS(infer_build_info(), "infer.h ");
    CHECK_HAS(infer_build_info(), "cpu: scalar");
    CHECK(infer_build_info() == infer_build_info() && strchr(infer_build_info(), '\n') == NULL);
    for (i = -20; i < 20; i++) CHECK(infer_result_string((infer_result)i)[0] != 0);
    CHECK_STR(infer_result_string(INFER_OK), "ok");
    CHECK_STR(infer_result_string((infer_result)99), "unknown result");
    for (i = INFER_ERR_STATE; i < INFER_CONTEXT_FULL; i++)
        CHECK(strcmp(infer_result_string((infer_result)i), infer_result_string((infer_result)(i + 1))) != 0);
    CHECK(infer_device_count() >= 1);
    CHECK(infer_device_get(0, &d) == INFER_OK && d.backend == INFER_CPU && d.usable == 1 && d.unified == 1);
    CHECK_HAS(d.name, "CPU");
    CHECK_STR(d.why_not, "");
    CHECK(infer_device_get(infer_device_count(), &d) == INFER_ERR_ARGUMENT && infer_device_get(-1, &d) == INFER_ERR_ARGUMENT);
    CHECK(infer_device_get(0, NULL) == INFER_ERR_ARGUMENT);
    CHECK_STR(infer_cpu_level_name(INFER_CPU_SCALAR, &usable), "scalar");
    CHECK(usable == 1);
    CHECK_STR(infer_cpu_level_name(INFER_CPU_AVX2, NULL), "avx2");
    CHECK_STR(infer_cpu_level_name(INFER_CPU_I8MM, &usable), "i8mm");
    CHECK(infer_cpu_level_name(99, &usable) == NULL && usable == 0 && infer_cpu_level_name(-1, NULL) == NULL);
    for (i = 0; infer_arch_name(i); i++) {
        CHECK(infer_arch_name(i)[0] != 0 && infer_arch_reference(i) != NULL);
        CHECK(infer_arch_layers(i)[0] != 0 && infer_arch_lacks(i) != NULL);
        found += strcmp(infer_arch_name(i), "llama") == 0;
    }
    CHECK(infer_arch_layers(i) == NULL && infer_arch_layers(-1) == NULL && infer_arch_lacks(i) == NULL && infer_arch_lacks(-1) == NULL);
    CHECK(found == 1 && infer_arch_reference(i) == NULL && infer_arch_name(-1) == NULL && infer_arch_reference(-1) == NULL);
    CHECK_STR(infer_type_name(8), "Q8_0");
    CHECK(infer_type_name(4) == NULL && infer_type_name(-1) == NULL && infer_type_name(9999) == NULL);
    for (i = 0; infer_type_get(i, &t) == INFER_OK; i++) {
        CHECK_STR(infer_type_name(t.id), t.name);
        CHECK(t.values > 0 && t.bytes > 0);
    }
    CHECK(i == 35); /* live ids of the format */
    CHECK(infer_type_get(-1, &t) == INFER_ERR_ARGUMENT && t.name == NULL && infer_type_get(0, NULL) == INFER_ERR_ARGUMENT);
}

/* ---- opening -------------------------------------------------------------------------------------------- */

static void api_bad_open(const char *path, const infer_model_params *p, infer_result want, const char *part) {
    infer_model *m = (infer_model *)&p;
    infer_error err;
    check_detail = path ? path : "NULL";
    CHECK(infer_model_open(&m, path, p, &err) == want);
    CHECK(m == NULL && err.code == want);
    CHECK_HAS(err.message, part);
    CHECK(infer_model_open(&m, path, p, NULL) == want); /* err may be NULL */
}

/* The functions that macros of the same names hide. */
static void test_api_open_functions(void) {
    infer_model *m = NULL;
    infer_loading *l = NULL;
    infer_error err;
    size_t n;
    char *data = check_read(check_data(API_STORY), &n);
    CHECK((infer_model_open)(&m, check_data(API_STORY), NULL, &err) == INFER_OK && infer_model_close(m) == INFER_OK);
    CHECK((infer_model_open_memory)(&m, data, n, NULL, &err) == INFER_OK && infer_model_close(m) == INFER_OK);
    CHECK((infer_model_open_io)(&m, NULL, 1, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "io is NULL");
    CHECK((infer_model_open_begin)(&l, check_data(API_STORY), NULL, &err) == INFER_OK);
    CHECK(infer_loading_step(l, -1, &err) == INFER_OK && infer_loading_end(l, &m) == INFER_OK && infer_model_close(m) == INFER_OK);
    CHECK((infer_model_open_memory_begin)(&l, data, n, NULL, &err) == INFER_OK);
    CHECK(infer_loading_step(l, -1, &err) == INFER_OK && infer_loading_end(l, &m) == INFER_OK && infer_model_close(m) == INFER_OK);
    CHECK((infer_model_open_io_begin)(&l, NULL, 1, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "io is NULL");
    free(data);
}

static void test_api_open_bad(void) {
    infer_model_params p, zero;
    infer_model *m = (infer_model *)&p;
    infer_error err;
    infer_io io;
    const char *good = check_data(API_STORY);
    memset(&zero, 0, sizeof zero);
    memset(&io, 0, sizeof io);
    api_bad_open(NULL, NULL, INFER_ERR_ARGUMENT, "path is NULL");
    api_bad_open("no/such/file.gguf", NULL, INFER_ERR_IO, "no/such/file.gguf");
    api_bad_open(check_data("models"), NULL, INFER_ERR_IO, "directory");
    api_bad_open(check_data("base_empty.bin"), NULL, INFER_ERR_FORMAT, "not a GGUF file");
    api_bad_open(check_data("base_ten.bin"), NULL, INFER_ERR_FORMAT, "not a GGUF file");
    CHECK(infer_model_open(NULL, good, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "out is NULL");
    CHECK(infer_model_open_v(&m, good, NULL, &err, INFER_VERSION + 0x100) == INFER_ERR_ARGUMENT && m == NULL);
    CHECK_HAS(err.message, "infer.h is version");
    CHECK(infer_model_open_v(&m, good, NULL, &err, INFER_VERSION ^ 1) == INFER_OK); /* another patch version */
    CHECK(infer_model_close(m) == INFER_OK);
    p = zero; p.backend = 77; api_bad_open(good, &p, INFER_ERR_ARGUMENT, "backend 77");
    p = zero; p.backend = -1; api_bad_open(good, &p, INFER_ERR_ARGUMENT, "backend -1");
    p = zero; p.device = 99; api_bad_open(good, &p, INFER_ERR_ARGUMENT, "device 99");
    p = zero; p.cpu_level = 55; api_bad_open(good, &p, INFER_ERR_ARGUMENT, "cpu_level 55");
    p = zero; p.gpu_layers = -7; api_bad_open(good, &p, INFER_ERR_ARGUMENT, "gpu_layers is -7");
    p = zero; p.allocator.alloc = check_alloc; api_bad_open(good, &p, INFER_ERR_ARGUMENT, "allocator: free is NULL");
    p = zero; p.allocator.free = check_free; api_bad_open(good, &p, INFER_ERR_ARGUMENT, "allocator: alloc is NULL");
    p = zero; p.max_memory = 1000; api_bad_open(good, &p, INFER_ERR_MEMORY, "memory");
    p = zero; p.max_memory = 600000; api_bad_open(good, &p, INFER_ERR_MEMORY, "memory");
    CHECK(infer_model_open_memory(&m, NULL, 10, NULL, &err) == INFER_ERR_ARGUMENT && m == NULL);
    CHECK_HAS(err.message, "data is NULL");
    CHECK(infer_model_open_memory(&m, "GGU", 3, NULL, &err) == INFER_ERR_FORMAT && m == NULL);
    CHECK(infer_model_open_io(&m, NULL, 1, NULL, &err) == INFER_ERR_ARGUMENT && m == NULL);
    CHECK_HAS(err.message, "io is NULL");
    CHECK(infer_model_open_io(&m, &io, 0, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "n_io is 0");
    CHECK(infer_model_open_io(&m, &io, 1, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "neither read nor mapped");
    CHECK(infer_model_close(NULL) == INFER_OK);
}

/* The three ways to open give the same model; so does every way to get memory. */
static size_t api_read(void *user, uint64_t offset, void *dst, size_t n) {
    memcpy(dst, (const char *)user + offset, n);
    return n;
}
static size_t api_read_short(void *user, uint64_t offset, void *dst, size_t n) {
    return offset > 700000 ? n / 2 : api_read(user, offset, dst, n);
}

static void api_same_logits(infer_model *m, const float *want) {
    const infer_token ids[6] = { 1, 403, 407, 261, 378, 277 };
    infer_session *s = m ? api_session(m, 32, 1) : NULL;
    if (!s) return;
    CHECK(infer_session_eval(s, ids, 6) == INFER_OK);
    CHECK(memcmp(infer_session_logits(s, -1), want, 512 * sizeof *want) == 0);
    infer_session_destroy(s);
}

static void test_api_open_ways(void) {
    const infer_token ids[6] = { 1, 403, 407, 261, 378, 277 };
    float want[512];
    size_t n = 0;
    char *bytes = check_read(check_data(API_STORY), &n), *odd = (char *)malloc(n + 64);
    infer_model *m = api_open(API_STORY, NULL);
    infer_session *s = api_session(m, 32, 2);
    infer_model_params p;
    infer_io io;
    infer_error err;
    CHECK(infer_session_eval(s, ids, 6) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(infer_model_open_memory(&m, bytes, n, NULL, &err) == INFER_OK);
    api_same_logits(m, want);
    CHECK(infer_model_close(m) == INFER_OK);
    memcpy(odd + 3, bytes, n); /* not aligned: it is copied */
    CHECK(infer_model_open_memory(&m, odd + 3, n, NULL, &err) == INFER_OK);
    api_same_logits(m, want);
    CHECK(infer_model_close(m) == INFER_OK);
    memset(&io, 0, sizeof io);
    io.user = bytes;
    io.read = api_read;
    io.size = n;
    CHECK(infer_model_open_io(&m, &io, 1, NULL, &err) == INFER_OK);
    api_same_logits(m, want);
    CHECK(infer_model_close(m) == INFER_OK);
    io.read = api_read_short;
    CHECK(infer_model_open_io(&m, &io, 1, NULL, &err) == INFER_ERR_IO && m == NULL);
    CHECK_HAS(err.message, "gave");
    memset(&p, 0, sizeof p);
    p.no_mmap = 1;
    m = api_open(API_STORY, &p);
    api_same_logits(m, want);
    CHECK(infer_model_close(m) == INFER_OK);
    p.exact = 1;
    p.cpu_level = INFER_CPU_SCALAR;
    m = api_open(API_STORY, &p);
    s = api_session(m, 32, 1);
    CHECK(infer_session_eval(s, ids, 6) == INFER_OK);
    CHECK(check_nmse(infer_session_logits(s, -1), want, 512) < 1e-6); /* the cache is F16 */
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    free(odd);
    free(bytes);
}

static void test_api_info(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_model_info i;
    infer_model_params p;
    infer_session *s = NULL;
    infer_error err;
    size_t n = 0;
    char text[8192], cut[20];
    CHECK(infer_model_get_info(m, &i) == INFER_OK);
    CHECK_STR(i.arch, "llama");
    CHECK_STR(i.quant, "F32");
    CHECK(i.name && i.vocab == 512 && i.layers == 5 && i.width == 64 && i.context == 2048 && i.computes == 1);
    CHECK(i.embedding_only == 0 && i.file_bytes == 1185376 && i.parameters > 250000 && i.parameters < 300000);
    CHECK_STR(infer_model_why_not(m), "");
    CHECK(infer_model_get_info(NULL, &i) == INFER_ERR_ARGUMENT && infer_model_get_info(m, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_why_not(NULL)[0] != 0);
    CHECK(infer_model_describe(m, NULL, 0, &n) == INFER_OK && n > 100 && n < sizeof text);
    CHECK(infer_model_describe(m, text, sizeof text, &n) == INFER_OK && strlen(text) == n);
    CHECK(infer_model_describe(m, cut, sizeof cut, &n) == INFER_OK && strlen(cut) == sizeof cut - 1);
    CHECK(strncmp(cut, text, sizeof cut - 1) == 0);
    CHECK(infer_model_describe(NULL, text, sizeof text, &n) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_close(m) == INFER_OK);
    memset(&p, 0, sizeof p);
    p.vocab_only = 1;
    m = api_open(API_STORY, &p);
    CHECK(infer_model_get_info(m, &i) == INFER_OK && i.computes == 0 && i.vocab == 512 && i.layers == 5 && i.width == 64);
    CHECK_HAS(infer_model_why_not(m), "vocab_only");
    CHECK(infer_session_create(&s, m, NULL, &err) == INFER_ERR_STATE && s == NULL);
    CHECK_HAS(err.message, "vocab_only");
    CHECK(infer_model_close(m) == INFER_OK);
}

/* A file of an unknown architecture opens; only sessions are refused, by name. */
static void test_api_unknown_arch(void) {
    gguf_writer w;
    size_t n = 0;
    unsigned char *bytes;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_context *c = NULL;
    infer_model_info i;
    infer_memory mem;
    infer_error err;
    gw_init(&w);
    gw_str(&w, "general.architecture", "nonsuch9");
    gw_int(&w, "nonsuch9.context_length", GW_U32, 77);
    bytes = gw_finish(&w, &n);
    CHECK(infer_model_open_memory(&m, bytes, n, NULL, &err) == INFER_OK);
    CHECK_HAS(infer_model_why_not(m), "nonsuch9");
    CHECK(infer_model_get_info(m, &i) == INFER_OK && i.computes == 0 && i.context == 77 && i.vocab == 0 && i.layers == 0);
    CHECK(infer_session_create(&s, m, NULL, &err) == INFER_ERR_UNSUPPORTED && s == NULL);
    CHECK_HAS(err.message, "nonsuch9");
    CHECK(infer_context_create(&c, m, NULL, &err) == INFER_ERR_UNSUPPORTED && c == NULL);
    CHECK(infer_model_memory(m, NULL, &mem, &err) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(err.message, "nonsuch9");
    CHECK(infer_tensor_count(m) == 0 && infer_meta_count(m) == 2);
    CHECK(infer_model_close(m) == INFER_OK);
    free(bytes);
}

/* ---- metadata and tensors ------------------------------------------------------------------------------------- */

static void test_api_meta(void) {
    static const char *const words[] = { "zero", "", "two" };
    static const int64_t wide[] = { INT64_MIN, -1, INT64_MAX };
    static const float floats[] = { 0.5f, -2.0f };
    gguf_writer w;
    size_t n = 0;
    unsigned char *bytes;
    infer_model *m = NULL;
    infer_meta v;
    infer_error err;
    gw_init(&w);
    gw_str(&w, "general.architecture", "x");
    gw_int(&w, "a.u8", GW_U8, 200);
    gw_int(&w, "a.i8", GW_I8, -100);
    gw_int(&w, "a.u64", GW_U64, -1);
    gw_int(&w, "a.i64", GW_I64, INT64_MIN);
    gw_int(&w, "a.bool", GW_BOOL, 1);
    gw_f32(&w, "a.f32", 0.1f);
    gw_f64(&w, "a.f64", 1e300);
    gw_strn(&w, "a.str", "a\0b\xff", 4);
    gw_strs(&w, "a.words", words, 3);
    gw_ints(&w, "a.wide", GW_I64, wide, 3);
    gw_f32s(&w, "a.floats", floats, 2);
    gw_array(&w, "a.none", GW_U32, 0);
    bytes = gw_finish(&w, &n);
    CHECK(infer_model_open_memory(&m, bytes, n, NULL, &err) == INFER_OK);
    CHECK_STR(err.message, "");
    CHECK(infer_meta_count(m) == 13 && infer_meta_count(NULL) == 0);
    CHECK_STR(infer_meta_key(m, 0), "general.architecture");
    CHECK_STR(infer_meta_key(m, 12), "a.none");
    CHECK(!infer_meta_key(m, 13) && !infer_meta_key(m, -1) && !infer_meta_key(NULL, 0));
    CHECK(infer_meta_value(m, "a.u8", &v) == INFER_OK && v.kind == INFER_META_UINT && v.u == 200 && v.f == 200 && v.type == 0);
    CHECK(infer_meta_value(m, "a.i8", &v) == INFER_OK && v.kind == INFER_META_INT && v.i == -100 && v.f == -100);
    CHECK(infer_meta_value(m, "a.u64", &v) == INFER_OK && v.kind == INFER_META_UINT && v.u == UINT64_MAX && v.type == 10);
    CHECK(infer_meta_value(m, "a.i64", &v) == INFER_OK && v.kind == INFER_META_INT && v.i == INT64_MIN);
    CHECK(infer_meta_value(m, "a.bool", &v) == INFER_OK && v.kind == INFER_META_BOOL && v.u == 1 && v.f == 1);
    CHECK(infer_meta_value(m, "a.f32", &v) == INFER_OK && v.kind == INFER_META_FLOAT && v.f == (double)0.1f);
    CHECK(infer_meta_value(m, "a.f64", &v) == INFER_OK && v.kind == INFER_META_FLOAT && v.f == 1e300 && v.type == 12);
    CHECK(infer_meta_value(m, "a.str", &v) == INFER_OK && v.kind == INFER_META_STRING && v.n == 4);
    CHECK(memcmp(v.s, "a\0b\xff", 4) == 0);
    CHECK(infer_meta_value(m, "a.words", &v) == INFER_OK && v.kind == INFER_META_ARRAY && v.element == INFER_META_STRING);
    CHECK(v.n == 3 && v.type == 8);
    CHECK(infer_meta_value(m, "a.none", &v) == INFER_OK && v.kind == INFER_META_ARRAY && v.n == 0 && v.element == INFER_META_UINT);
    CHECK(infer_meta_value(m, "a.nothing", &v) == INFER_ERR_ARGUMENT && v.kind == 0);
    CHECK(infer_meta_value(NULL, "a.u8", &v) == INFER_ERR_ARGUMENT && infer_meta_value(m, NULL, &v) == INFER_ERR_ARGUMENT);
    CHECK(infer_meta_value(m, "a.u8", NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_meta_element(m, "a.words", 2, &v) == INFER_OK && v.kind == INFER_META_STRING && v.n == 3);
    CHECK(memcmp(v.s, "two", 3) == 0);
    CHECK(infer_meta_element(m, "a.words", 1, &v) == INFER_OK && v.n == 0);
    CHECK(infer_meta_element(m, "a.words", 3, &v) == INFER_ERR_ARGUMENT && v.kind == 0);
    CHECK(infer_meta_element(m, "a.wide", 0, &v) == INFER_OK && v.kind == INFER_META_INT && v.i == INT64_MIN);
    CHECK(infer_meta_element(m, "a.wide", 2, &v) == INFER_OK && v.i == INT64_MAX && v.type == 11);
    CHECK(infer_meta_element(m, "a.floats", 1, &v) == INFER_OK && v.kind == INFER_META_FLOAT && v.f == -2);
    CHECK(infer_meta_element(m, "a.u8", 0, &v) == INFER_ERR_ARGUMENT); /* no array */
    CHECK(infer_meta_element(m, "a.none", 0, &v) == INFER_ERR_ARGUMENT);
    CHECK(infer_meta_element(m, "a.wide", 0, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_meta_element(NULL, "a.wide", 0, &v) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_close(m) == INFER_OK);
    free(bytes);
}

static void test_api_tensors(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_tensor_info t, u;
    infer_error err;
    float *all, row[64];
    int32_t i;
    uint64_t bytes = 0;
    CHECK(infer_tensor_count(m) == 48 && infer_tensor_count(NULL) == 0);
    for (i = 0; i < infer_tensor_count(m); i++) {
        CHECK(infer_tensor_get(m, i, &t) == INFER_OK && infer_tensor_find(m, t.name, &u) == INFER_OK);
        CHECK(memcmp(&t, &u, sizeof t) == 0);
        CHECK(t.rows == t.dims[1] * t.dims[2] * t.dims[3] && t.n_dims >= 1 && t.n_dims <= 4 && infer_type_name(t.type));
        bytes += t.bytes;
    }
    CHECK(bytes > 1000000);
    CHECK(infer_tensor_get(m, i, &t) == INFER_ERR_ARGUMENT && t.name == NULL && infer_tensor_get(m, -1, &t) == INFER_ERR_ARGUMENT);
    CHECK(infer_tensor_get(NULL, 0, &t) == INFER_ERR_ARGUMENT && infer_tensor_get(m, 0, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_tensor_find(m, "no.such", &t) == INFER_ERR_ARGUMENT && infer_tensor_find(m, NULL, &t) == INFER_ERR_ARGUMENT);
    CHECK(infer_tensor_find(m, "token_embd.weight", &t) == INFER_OK && t.dims[0] == 64 && t.rows == 512);
    all = (float *)malloc(64 * 512 * sizeof *all);
    CHECK(infer_tensor_read(m, "token_embd.weight", 0, 512, all, &err) == INFER_OK);
    CHECK(infer_tensor_read(m, "token_embd.weight", 300, 1, row, &err) == INFER_OK);
    CHECK(memcmp(row, all + 300 * 64, sizeof row) == 0);
    CHECK(infer_tensor_read(m, "token_embd.weight", 512, 0, NULL, &err) == INFER_OK);
    CHECK(infer_tensor_read(m, "token_embd.weight", 512, 1, row, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "token_embd.weight has 512 rows");
    CHECK(infer_tensor_read(m, "token_embd.weight", UINT64_MAX, 2, row, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_tensor_read(m, "token_embd.weight", 1, UINT64_MAX, row, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_tensor_read(m, "no.such", 0, 1, row, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "no tensor no.such");
    CHECK(infer_tensor_read(m, "token_embd.weight", 0, 1, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "dst is NULL");
    CHECK(infer_tensor_read(NULL, "token_embd.weight", 0, 1, row, &err) == INFER_ERR_ARGUMENT);
    free(all);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void test_api_memory(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_context_params p;
    infer_context *c = NULL;
    infer_memory a, b, d;
    infer_error err;
    memset(&p, 0, sizeof p);
    p.cells = 100;
    p.threads = 1;
    p.batch = 16;
    p.sessions = 2;
    CHECK(infer_model_memory(m, &p, &a, &err) == INFER_OK);
    CHECK(a.weights == 1185376 && a.cache > 0 && a.scratch > 0 && a.device == 0);
    CHECK(infer_model_memory_path(check_data(API_STORY), NULL, &p, &b, &err) == INFER_OK);
    /* from the header alone: the same but for a few tables that are made from weights */
    CHECK(a.weights == b.weights && a.cache == b.cache && b.scratch <= a.scratch && a.scratch - b.scratch < 65536);
    CHECK(infer_context_create(&c, m, &p, &err) == INFER_OK && infer_context_memory(c, &d) == INFER_OK);
    CHECK(memcmp(&a, &d, sizeof a) == 0);
    CHECK(infer_context_memory(NULL, &d) == INFER_ERR_ARGUMENT && infer_context_memory(c, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_context_destroy(NULL) == INFER_OK);
    p.cells = 200;
    CHECK(infer_model_memory(m, &p, &b, &err) == INFER_OK && b.cache > a.cache * 3 / 2);
    p.kv_type = INFER_KV_F32;
    CHECK(infer_model_memory(m, &p, &d, &err) == INFER_OK && d.cache == 2 * b.cache);
    p.kv_type = 99;
    CHECK(infer_model_memory(m, &p, &d, &err) == INFER_ERR_ARGUMENT && d.cache == 0);
    CHECK_HAS(err.message, "kv_type 99");
    CHECK(infer_model_memory(NULL, &p, &d, &err) == INFER_ERR_ARGUMENT && infer_model_memory(m, &p, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_memory(m, NULL, &d, NULL) == INFER_OK);
    CHECK(infer_model_memory_path("no/such", NULL, NULL, &d, &err) == INFER_ERR_IO);
    CHECK_HAS(err.message, "no/such");
    CHECK(infer_model_memory_path(NULL, NULL, NULL, &d, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_close(m) == INFER_OK);
    { /* the limit: a model fits, its session does not, then both */
        infer_model_params mp;
        infer_session *s = NULL;
        memset(&mp, 0, sizeof mp);
        for (m = NULL; !m && mp.max_memory < 4u << 20;) {
            mp.max_memory += 64u << 10;
            infer_model_open(&m, check_data(API_STORY), &mp, &err);
        }
        CHECK(m && mp.max_memory > 1u << 20);
        CHECK(infer_session_create(&s, m, NULL, &err) == INFER_ERR_MEMORY && s == NULL);
        CHECK_HAS(err.message, "memory");
        CHECK(infer_model_close(m) == INFER_OK); /* the refused session left nothing behind */
        mp.max_memory = 64u << 20;
        m = api_open(API_STORY, &mp);
        s = api_session(m, 64, 1);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
    }
}

static void test_api_allocator(void) {
    infer_model_params p;
    infer_model *m;
    infer_session *s;
    infer_sampler *sampler = NULL;
    long live = check_live, before = check_allocs;
    infer_token ids[3] = { 1, 50, 60 };
    memset(&p, 0, sizeof p);
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    check_fail_at = 0;
    m = api_open(API_STORY, &p);
    CHECK(check_allocs > before + 3);
    s = api_session(m, 64, 2);
    CHECK(infer_session_eval(s, ids, 3) == INFER_OK);
    before = check_allocs;
    CHECK(infer_session_eval(s, ids, 1) == INFER_OK && infer_session_eval(s, ids, 2) == INFER_OK);
    CHECK(check_allocs == before); /* evaluating allocates nothing */
    CHECK(infer_sampler_create(&sampler, m, NULL, 0, 1, NULL) == INFER_OK && check_allocs > before);
    infer_sampler_destroy(sampler);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == live);
}

/* ---- life and death ---------------------------------------------------------------------------------------------- */

static void test_api_close(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_context_params cp;
    infer_context *c = NULL;
    infer_session *s = NULL;
    infer_sampler *sampler = NULL;
    infer_error err;
    memset(&cp, 0, sizeof cp);
    cp.cells = 64;
    cp.threads = 1;
    CHECK(infer_context_create(&c, m, &cp, &err) == INFER_OK);
    CHECK(infer_session_create_in(&s, c, NULL, &err) == INFER_OK);
    infer_session_destroy(s);
    infer_session_destroy(NULL);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_sampler_create(&sampler, m, NULL, 0, 0, &err) == INFER_OK);
    infer_sampler_destroy(sampler);
    s = api_session(m, 32, 1);
    CHECK(infer_context_destroy(infer_session_get_context(s)) == INFER_ERR_STATE); /* it is not the caller's */
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(m) == INFER_ERR_STATE);
    CHECK(infer_session_eval(s, (const infer_token[]){ 1 }, 1) == INFER_OK); /* it lives on */
    infer_session_destroy(s);
    /* wrong calls */
    CHECK(infer_context_create(NULL, NULL, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "out is NULL");
    CHECK(infer_context_create(&c, NULL, NULL, &err) == INFER_ERR_ARGUMENT && c == NULL);
    CHECK_HAS(err.message, "model is NULL");
    CHECK(infer_session_create(NULL, NULL, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_create(&s, NULL, NULL, &err) == INFER_ERR_ARGUMENT && s == NULL);
    CHECK_HAS(err.message, "model is NULL");
    CHECK(infer_session_create_in(&s, NULL, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "context is NULL");
    CHECK(infer_sampler_create(NULL, NULL, NULL, 0, 0, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "out is NULL");
}

static void api_bad_context(infer_model *m, infer_context_params p, const char *part) {
    infer_context *c = (infer_context *)&p;
    infer_session_params sp;
    infer_session *s = (infer_session *)&p;
    infer_error err;
    CHECK(infer_context_create(&c, m, &p, &err) == INFER_ERR_ARGUMENT && c == NULL);
    CHECK_HAS(err.message, part);
    memset(&sp, 0, sizeof sp);
    sp.own = p;
    CHECK(infer_session_create(&s, m, &sp, &err) == INFER_ERR_ARGUMENT && s == NULL);
    CHECK_HAS(err.message, part);
}

static void test_api_session_params(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_context_params p, zero;
    infer_session_params sp;
    infer_session *s = NULL;
    infer_error err;
    memset(&zero, 0, sizeof zero);
    memset(&sp, 0, sizeof sp);
    p = zero; p.threads = -2; api_bad_context(m, p, "threads is -2, outside -1..1024");
    p = zero; p.threads = 100000; api_bad_context(m, p, "threads");
    p = zero; p.batch = -1; api_bad_context(m, p, "batch is -1");
    p = zero; p.cells = -5; api_bad_context(m, p, "cells is -5");
    p = zero; p.keep = -5; api_bad_context(m, p, "keep is -5");
    p = zero; p.sessions = -5; api_bad_context(m, p, "sessions is -5");
    p = zero; p.kv_type = -1; api_bad_context(m, p, "kv_type -1");
    sp.context = -1;
    CHECK(infer_session_create(&s, m, &sp, &err) == INFER_ERR_ARGUMENT && s == NULL);
    CHECK_HAS(err.message, "context is -1");
    sp.context = 16;
    for (sp.own.threads = -1; sp.own.threads <= 1; sp.own.threads++) { /* half of the cores, all of them, one */
        const int32_t cores = INFER__MIN(infer__cores(), 64);
        CHECK(infer_session_create(&s, m, &sp, &err) == INFER_OK);
        CHECK(s && infer_session_get_context(s)->plan.threads == (sp.own.threads > 0 ? 1 : sp.own.threads < 0 ? INFER__MAX(cores / 2, 1) : cores));
        infer_session_destroy(s);
        s = NULL;
    }
    sp.own.threads = 0;
    sp.context = 50;
    sp.own.cells = 40;
    CHECK(infer_session_create(&s, m, &sp, &err) == INFER_ERR_ARGUMENT && s == NULL);
    CHECK_HAS(err.message, "40 cells");
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- evaluation: wrong calls change nothing ------------------------------------------------------------------------- */

static void test_api_eval_bad(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_session *s = api_session(m, 16, 1), *t = api_session(m, 16, 1);
    infer_token ids[20], bad[3] = { 1, 512, 2 };
    infer_step st[2];
    infer_error err;
    infer_top top[2];
    infer_stats stats;
    infer_profile_row rows[4];
    float v[64];
    int32_t i, n = -1;
    for (i = 0; i < 20; i++) ids[i] = 10 + i;
    CHECK(infer_session_eval(s, ids, 4) == INFER_OK && infer_session_position(s) == 4 && infer_session_capacity(s) == 16);
    CHECK(infer_session_get_context(s) == s->context && infer_session_get_context(t) != infer_session_get_context(s));
    CHECK(infer_session_eval(s, bad, 3) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "token 1 is 512");
    bad[1] = -1;
    CHECK(infer_session_eval(s, bad, 3) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "token 1 is -1");
    CHECK(infer_session_eval(s, ids, 13) == INFER_CONTEXT_FULL);
    CHECK_HAS(infer_session_error(s)->message, "13 tokens at position 4");
    CHECK(infer_session_eval(s, ids, 0) == INFER_ERR_ARGUMENT && infer_session_eval(s, ids, -3) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_eval(s, NULL, 3) == INFER_ERR_ARGUMENT && infer_session_eval(NULL, ids, 3) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_position(s) == 4 && memcmp(infer_session_tokens(s), ids, 4 * sizeof *ids) == 0);
    CHECK(infer_session_eval(s, ids + 4, 12) == INFER_OK && infer_session_position(s) == 16);
    CHECK(infer_session_eval(s, ids, 1) == INFER_CONTEXT_FULL);
    CHECK(infer_session_rewind(s, 17) == INFER_ERR_ARGUMENT && infer_session_rewind(s, -1) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_rewind(NULL, 0) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_rewind(s, 2) == INFER_OK && infer_session_position(s) == 2 && !infer_session_logits(s, -1));
    CHECK(infer_session_error(s)->code == INFER_OK || infer_session_error(s)->code == INFER_ERR_ARGUMENT);
    memset(st, 0, sizeof st);
    CHECK(infer_eval(s->context, NULL, 1, &err) == INFER_ERR_ARGUMENT && infer_eval(NULL, st, 1, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_eval(s->context, st, 0, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_eval(s->context, st, 1, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "NULL");
    st[0].session = t;
    CHECK(infer_eval(s->context, st, 1, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "another context");
    st[0].session = st[1].session = s;
    st[0].tokens = st[1].tokens = ids;
    st[0].n = st[1].n = 1;
    CHECK(infer_eval(s->context, st, 2, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "one session");
    st[0].embeddings = v;
    CHECK(infer_eval(s->context, st, 1, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "one of the two");
    st[0].embeddings = NULL;
    st[0].outputs = 64;
    CHECK(infer_eval(s->context, st, 1, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "outputs 64");
    CHECK(infer_session_position(s) == 2);
    /* reading results that are not there */
    CHECK(!infer_session_logits(NULL, 0) && !infer_session_hidden(NULL, 0) && !infer_session_hidden(s, 0));
    CHECK(infer_session_top(s, -1, 2, top) == INFER_ERR_STATE && infer_session_top(NULL, 0, 1, top) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_embedding(s, v, &err) == INFER_ERR_STATE);
    CHECK_HAS(err.message, "hidden");
    CHECK(infer_session_embedding(NULL, v, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_position(NULL) == 0 && infer_session_capacity(NULL) == 0 && !infer_session_tokens(NULL) && !infer_session_get_context(NULL));
    CHECK(infer_session_error(NULL)->code == INFER_ERR_ARGUMENT);
    infer_session_cancel(NULL);
    CHECK(infer_session_stats(s, &stats) == INFER_OK && stats.prompt_tokens == 16 && stats.new_tokens == 0);
    CHECK(infer_session_stats(NULL, &stats) == INFER_ERR_ARGUMENT && infer_session_stats(s, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_profile(s, rows, 4, &n) == INFER_OK && n == 0); /* not asked for */
    CHECK(infer_session_profile(s, NULL, 4, &n) == INFER_ERR_ARGUMENT && infer_session_profile(s, rows, 4, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_fork(NULL, s, &err) == INFER_ERR_ARGUMENT && infer_session_sync(NULL, ids, 1, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_save(NULL, NULL, NULL) == INFER_ERR_ARGUMENT && infer_session_load(NULL, NULL, NULL) == INFER_ERR_ARGUMENT);
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_api_profile(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_session_params p;
    infer_session *s = NULL;
    infer_profile_row rows[32];
    infer_token ids[4] = { 1, 2, 3, 4 };
    int32_t i, n = 0, matmul = 0;
    memset(&p, 0, sizeof p);
    p.context = 32;
    p.own.profile = 1;
    CHECK(infer_session_create(&s, m, &p, NULL) == INFER_OK && infer_session_eval(s, ids, 4) == INFER_OK);
    CHECK(infer_session_profile(s, NULL, 0, &n) == INFER_OK && n > 3 && n <= 32);
    CHECK(infer_session_profile(s, rows, 32, &n) == INFER_OK);
    for (i = 0; i < n && i < 32; i++) {
        CHECK(rows[i].op && rows[i].calls > 0 && rows[i].seconds >= 0);
        matmul += strcmp(rows[i].op, "matmul") == 0 && rows[i].bytes > 0;
    }
    CHECK(matmul == 1);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- text ------------------------------------------------------------------------------------------------------------ */

static void test_api_text(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_token ids[32], few[2] = { -5, -5 };
    infer_token bos = infer_token_special(m, INFER_SPECIAL_BOS), eos = infer_token_special(m, INFER_SPECIAL_EOS);
    size_t n = 0, len = 0, whole;
    char text[64], one;
    infer_error err;
    CHECK(bos == 1 && eos == 2);
    CHECK(infer_tokenize(m, "Once upon", 9, INFER_TEXT_ADD_SPECIAL, ids, 32, &n, &err) == INFER_OK && n > 2 && ids[0] == bos);
    whole = n;
    CHECK(infer_tokenize(m, "Once upon", 9, INFER_TEXT_ADD_SPECIAL, NULL, 0, &n, &err) == INFER_OK && n == whole);
    CHECK(infer_tokenize(m, "Once upon", 9, INFER_TEXT_ADD_SPECIAL, few, 1, &n, &err) == INFER_OK && n == whole);
    CHECK(few[0] == ids[0] && few[1] == -5); /* at most cap */
    CHECK(infer_tokenize(m, "Once upon", 9, 0, few, 2, &n, &err) == INFER_OK && n == whole - 1 && few[0] == ids[1]);
    CHECK(infer_tokenize(m, NULL, 0, 0, NULL, 0, &n, &err) == INFER_OK && n == 0);
    CHECK(infer_detokenize(m, ids, whole, 0, text, sizeof text, &len, &err) == INFER_OK && len == 9);
    CHECK(memcmp(text, "Once upon", 9) == 0);
    CHECK(infer_detokenize(m, ids, whole, 0, NULL, 0, &len, &err) == INFER_OK && len == 9);
    memset(text, '#', sizeof text);
    CHECK(infer_detokenize(m, ids, whole, 0, text, 4, &len, &err) == INFER_OK && len == 9 && memcmp(text, "Once#", 5) == 0);
    CHECK(infer_detokenize(m, NULL, 0, 0, NULL, 0, &len, &err) == INFER_OK && len == 0);
    /* wrong calls */
    CHECK(infer_tokenize(NULL, "x", 1, 0, ids, 32, &n, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "model is NULL");
    CHECK(infer_tokenize(m, NULL, 1, 0, ids, 32, &n, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "text is NULL");
    CHECK(infer_tokenize(m, "x", 1, 0, NULL, 32, &n, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "out is NULL");
    CHECK(infer_tokenize(m, "x", 1, 0, ids, 32, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_tokenize(m, "x", 1, 64, ids, 32, &n, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "flags: 64");
    ids[0] = 512;
    CHECK(infer_detokenize(m, ids, 1, 0, text, sizeof text, &len, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "token 512");
    ids[0] = -1;
    CHECK(infer_detokenize(m, ids, 1, 0, text, sizeof text, &len, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_detokenize(m, NULL, 1, 0, text, sizeof text, &len, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "tokens is NULL");
    CHECK(infer_detokenize(m, ids, 0, 1, text, sizeof text, &len, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_token_text(m, 512, text, sizeof text, &len) == INFER_ERR_ARGUMENT && len == 0);
    CHECK(infer_token_text(m, -1, text, sizeof text, &len) == INFER_ERR_ARGUMENT);
    CHECK(infer_token_text(NULL, 5, text, sizeof text, &len) == INFER_ERR_ARGUMENT);
    CHECK(infer_token_text(m, 5, NULL, 5, &len) == INFER_ERR_ARGUMENT && infer_token_text(m, 5, &one, 1, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_token_text(m, 300, NULL, 0, &len) == INFER_OK && len > 0);
    CHECK((infer_token_flags(m, bos) & INFER_TOKEN_CONTROL) && (infer_token_flags(m, eos) & INFER_TOKEN_END));
    CHECK(infer_token_flags(m, 512) == 0 && infer_token_flags(m, -1) == 0 && infer_token_flags(NULL, 1) == 0);
    CHECK(infer_token_special(m, INFER_SPECIAL_COUNT) == -1 && infer_token_special(m, -1) == -1);
    CHECK(infer_token_special(m, INFER_SPECIAL_FIM_PRE) == -1 && infer_token_special(NULL, INFER_SPECIAL_BOS) == -1);
    CHECK(infer_model_close(m) == INFER_OK);
    /* a model without a vocabulary says so */
    m = api_open("archs/llama-dense.gguf", NULL);
    if (m && infer_tokenize(m, "x", 1, 0, ids, 32, &n, &err) != INFER_OK) {
        CHECK(err.code == INFER_ERR_UNSUPPORTED && n == 0);
        CHECK_HAS(err.message, "cannot tokenize");
        CHECK(infer_token_special(m, INFER_SPECIAL_BOS) == -1 && infer_token_flags(m, 0) == 0);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_api_utf8_whole(void) {
    static const struct { const char *s; size_t n, whole; } cases[] = {
        { "", 0, 0 }, { "abc", 3, 3 }, { "a\xc3", 2, 1 }, { "a\xc3\xa9", 3, 3 }, { "\xe6\xbc", 2, 0 }, { "\xe6", 1, 0 },
        { "x\xf0\x9f\x98", 4, 1 }, { "x\xf0\x9f\x98\x80", 5, 5 }, { "\xf0\x9f", 2, 0 },
        { "\x80\x80", 2, 2 }, { "\xff", 1, 1 }, { "\xc0", 1, 1 }, { "\xe0\x80", 2, 2 }, { "\xed\xa0", 2, 2 },
        { "\xf4\x90", 2, 2 }, { "\xf5\x80", 2, 2 }, { "\xe0\xa0", 2, 0 }, { "\xc3\xa9\xc3", 3, 2 } };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) CHECK(infer_utf8_whole(cases[i].s, cases[i].n) == cases[i].whole);
    CHECK(infer_utf8_whole(NULL, 5) == 0);
}

/* ---- callbacks -------------------------------------------------------------------------------------------------------- */

typedef struct api_calls { int n, last_level, worst; float done; int stop; char text[300]; } api_calls;

static void api_log(void *user, int level, const char *message) {
    api_calls *c = (api_calls *)user;
    c->n++;
    if (level < 1 || level > 4 || strchr(message, '\n')) c->worst++;
    snprintf(c->text, sizeof c->text, "%s", message);
}
static int api_progress(void *user, float done) {
    api_calls *c = (api_calls *)user;
    if (done < c->done || done < 0 || done > 1) c->worst++;
    c->done = done;
    return ++c->n == c->stop;
}

static void test_api_callbacks(void) {
    infer_model_params p;
    infer_session_params sp;
    infer_session *s = NULL;
    infer_model *m = NULL;
    infer_error err;
    api_calls log, progress;
    infer_token ids[60];
    int i, n;
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    memset(&log, 0, sizeof log);
    memset(&progress, 0, sizeof progress);
    for (i = 0; i < 60; i++) ids[i] = i + 5;
    p.log = api_log;
    p.log_user = &log;
    p.progress = api_progress;
    p.progress_user = &progress;
    m = api_open(API_STORY, &p);
    CHECK(log.n > 0 && log.worst == 0);
    CHECK(progress.n >= 2 && progress.done == 1.0f && progress.worst == 0);
    n = progress.n;
    CHECK(infer_model_close(m) == INFER_OK);
    for (i = 1; i <= n; i++) { /* cancelling at any call */
        memset(&progress, 0, sizeof progress);
        progress.stop = i;
        CHECK(infer_model_open(&m, check_data(API_STORY), &p, &err) == INFER_CANCELLED && m == NULL);
        CHECK(progress.n == i);
        CHECK_HAS(err.message, "cancelled");
    }
    p.progress = NULL;
    m = api_open(API_STORY, &p);
    memset(&progress, 0, sizeof progress);
    sp.context = 64;
    sp.own.batch = 10;
    sp.progress = api_progress;
    sp.progress_user = &progress;
    CHECK(infer_session_create(&s, m, &sp, &err) == INFER_OK);
    CHECK(infer_session_eval(s, ids, 60) == INFER_OK && progress.n == 6 && progress.done == 1.0f && progress.worst == 0);
    CHECK(infer_session_rewind(s, 5) == INFER_OK);
    memset(&progress, 0, sizeof progress);
    progress.stop = 3;
    CHECK(infer_session_eval(s, ids, 55) == INFER_CANCELLED && infer_session_position(s) == 5);
    CHECK(infer_session_eval(s, ids + 5, 55) == INFER_OK && infer_session_position(s) == 60);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* The host runs the tasks, in an order of its own: the same bits. */
typedef struct api_host { int calls, tasks; } api_host;
static void api_parallel(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    api_host *h = (api_host *)user;
    h->calls++;
    h->tasks += n;
    while (n-- > 0) task(arg, n);
}

static void test_api_parallel(void) {
    infer_model_params p;
    infer_model *m = api_open(API_STORY, NULL);
    infer_session *s = api_session(m, 32, 1);
    api_host host = { 0, 0 };
    infer_token ids[9] = { 1, 9, 99, 109, 119, 129, 139, 149, 159 };
    float want[512];
    int threads;
    CHECK(infer_session_eval(s, ids, 9) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    memset(&p, 0, sizeof p);
    p.parallel = api_parallel;
    p.parallel_user = &host;
    m = api_open(API_STORY, &p);
    for (threads = 1; threads <= 5; threads += 2) {
        s = api_session(m, 32, threads);
        CHECK(infer_session_eval(s, ids, 9) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), want, sizeof want) == 0);
        infer_session_destroy(s);
    }
    CHECK(host.calls > 0 && host.tasks > host.calls);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- cancelling from another thread -------------------------------------------------------------------------------------- */

#if !defined(_WIN32) && !defined(INFER_NO_THREADS)
typedef struct api_canceller { infer_session *s; volatile int running, stop; long calls; } api_canceller;

static void *api_cancel_thread(void *arg) {
    api_canceller *c = (api_canceller *)arg;
    __atomic_store_n(&c->running, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&c->stop, __ATOMIC_SEQ_CST)) {
        infer_session_cancel(c->s);
        c->calls++;
    }
    return NULL;
}

static void test_api_cancel_thread(void) {
    infer_model *m = api_open(API_STORY, NULL);
    infer_session *s = api_session(m, 512, 2);
    infer_generate_params p;
    infer_generate_info info;
    infer_token ids[400];
    api_canceller c;
    pthread_t thread;
    int i, cancelled = 0;
    for (i = 0; i < 400; i++) ids[i] = i + 3;
    memset(&c, 0, sizeof c);
    memset(&p, 0, sizeof p);
    p.max_tokens = 50;
    c.s = s;
    CHECK(pthread_create(&thread, NULL, api_cancel_thread, &c) == 0);
    while (!__atomic_load_n(&c.running, __ATOMIC_SEQ_CST)) { }
    for (i = 0; i < 20; i++) {
        int32_t before = infer_session_position(s);
        infer_result r = infer_session_eval(s, ids, 400);
        CHECK(r == INFER_CANCELLED || r == INFER_OK);
        CHECK(infer_session_position(s) == before + (r == INFER_OK ? 400 : 0));
        cancelled += r == INFER_CANCELLED;
        if (r == INFER_OK) CHECK(infer_session_rewind(s, 0) == INFER_OK);
        r = infer_generate(s, NULL, "Once", &p, &info);
        CHECK(r == INFER_CANCELLED || r == INFER_OK);
        cancelled += r == INFER_CANCELLED;
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
    }
    __atomic_store_n(&c.stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    CHECK(cancelled > 0 && c.calls > 0);
    /* no request is left over: all is as if nothing had happened */
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK && info.new_tokens == 50);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* A model is shared: two threads, a session each, the same results as alone. */
typedef struct api_worker { infer_model *m; infer_token ids[60]; int n; } api_worker;

static int api_collect(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    api_worker *w = (api_worker *)user;
    (void)logprob; (void)top; (void)n_top;
    if (w->n < 60) w->ids[w->n++] = token;
    return 0;
}

static void *api_worker_thread(void *arg) {
    api_worker *w = (api_worker *)arg;
    infer_session *s = NULL;
    infer_generate_params p;
    infer_session_params sp;
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    sp.context = 128;
    sp.own.threads = 2;
    p.max_tokens = 60;
    p.token = api_collect;
    p.user = w;
    if (infer_session_create(&s, w->m, &sp, NULL) == INFER_OK) infer_generate(s, NULL, "One day", &p, NULL);
    infer_session_destroy(s);
    return NULL;
}

static void test_api_two_threads(void) {
    infer_model *m = api_open(API_STORY, NULL);
    api_worker w[3];
    pthread_t thread[2];
    int i;
    memset(w, 0, sizeof w);
    for (i = 0; i < 3; i++) w[i].m = m;
    api_worker_thread(&w[2]);
    for (i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, api_worker_thread, &w[i]) == 0);
    for (i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    for (i = 0; i < 2; i++) CHECK(w[i].n == 60 && memcmp(w[i].ids, w[2].ids, sizeof w[i].ids) == 0);
    CHECK(infer_model_close(m) == INFER_OK);
}
#endif

/* ---- samplers ---------------------------------------------------------------------------------------------------------------- */

static void test_api_sampler(void) {
    infer_sampler *s = NULL;
    infer_error err;
    const float x[3] = { 1, 5, 2 };
    infer_token t = -1;
    infer_stage st;
    memset(&st, 0, sizeof st);
    st.kind = INFER_STAGE_GREEDY;
    CHECK(infer_sampler_create(&s, NULL, &st, 1, 0, &err) == INFER_OK);
    CHECK(infer_sampler_sample(s, x, 3, &t, &err) == INFER_OK && t == 1);
    t = -1;
    CHECK(infer_sampler_sample(NULL, x, 3, &t, &err) == INFER_OK && t == 1); /* greedy, as everywhere */
    CHECK(infer_sampler_sample(s, NULL, 3, &t, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "logits is NULL");
    CHECK(infer_sampler_sample(s, x, 3, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "token is NULL");
    CHECK(infer_sampler_sample(s, x, 0, &t, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "n is 0");
    CHECK(infer_sampler_accept(s, 1) == INFER_OK && infer_sampler_accept(s, -1) == INFER_ERR_ARGUMENT);
    CHECK(infer_sampler_accept(NULL, 1) == INFER_OK);
    infer_sampler_reset(s);
    infer_sampler_reset(NULL);
    infer_sampler_destroy(s);
    st.kind = 42;
    CHECK(infer_sampler_create(&s, NULL, &st, 1, 0, &err) == INFER_ERR_ARGUMENT && s == NULL);
    CHECK_HAS(err.message, "stages[0]");
}

static void suite_api(void) {
    RUN(test_api_library);
    RUN(test_api_open_bad);
    RUN(test_api_open_functions);
    RUN(test_api_open_ways);
    RUN(test_api_info);
    RUN(test_api_unknown_arch);
    RUN(test_api_meta);
    RUN(test_api_tensors);
    RUN(test_api_memory);
    RUN(test_api_allocator);
    RUN(test_api_close);
    RUN(test_api_session_params);
    RUN(test_api_eval_bad);
    RUN(test_api_profile);
    RUN(test_api_text);
    RUN(test_api_utf8_whole);
    RUN(test_api_callbacks);
    RUN(test_api_parallel);
#if !defined(_WIN32) && !defined(INFER_NO_THREADS)
    RUN(test_api_cancel_thread);
    RUN(test_api_two_threads);
#endif
    RUN(test_api_sampler);
}
