/* library_api.c: what does not need a model: version, build, devices, lists of what is supported.
 *
 * Owns:  infer_version, infer_build_info, the names of results, the walk over the tables of the layers below.
 * Rules: every list is another layer's table; nothing is listed here. The one buffer is filled once (infer__call_once).
 */
#include "../model/model.h"

INFER_API uint32_t infer_version(void) {
    return INFER_VERSION;
}

INFER_API const char *infer_result_string(infer_result r) {
    switch (r) {
    case INFER_OK: return "ok";
    case INFER_CANCELLED: return "cancelled";
    case INFER_CONTEXT_FULL: return "context full";
    case INFER_MORE: return "more to do";
    case INFER_ERR_ARGUMENT: return "bad argument";
    case INFER_ERR_MEMORY: return "out of memory";
    case INFER_ERR_IO: return "read error";
    case INFER_ERR_FORMAT: return "malformed";
    case INFER_ERR_UNSUPPORTED: return "not supported";
    case INFER_ERR_DEVICE: return "device error";
    case INFER_ERR_STATE: return "wrong state";
    case INFER_ERR_LIMIT: return "time limit";
    }
    return "unknown result";
}

/* ---- build ----------------------------------------------------------------------------------------- */

#if defined(__clang__)
#  define INFER__COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#  define INFER__COMPILER "gcc " __VERSION__
#elif defined(_MSC_VER)
#  define INFER__COMPILER "msvc"
#elif defined(__TINYC__)
#  define INFER__COMPILER "tcc"
#else
#  define INFER__COMPILER "unknown compiler"
#endif

/* Configuration macros in force, each with a leading space. */
static const char infer__build_without[] = ""
#ifdef INFER_NO_STDIO
    " no-stdio"
#endif
#ifdef INFER_NO_MMAP
    " no-mmap"
#endif
#ifdef INFER_NO_THREADS
    " no-threads"
#endif
#ifdef INFER_NO_MALLOC
    " no-malloc"
#endif
#ifdef INFER_NO_SIMD
    " no-simd"
#endif
#ifdef INFER_NO_AVX2
    " no-avx2"
#endif
#ifdef INFER_NO_AVX512
    " no-avx512"
#endif
#ifdef INFER_NO_GPU
    " no-gpu"
#endif
#ifdef INFER_NO_RUNTIME_LINKING
    " no-runtime-linking"
#endif
#ifdef INFER_NO_CHAT
    " no-chat"
#endif
#ifdef INFER_NO_GRAMMAR
    " no-grammar"
#endif
#ifdef INFER_NO_ADAPTERS
    " no-adapters"
#endif
#ifdef INFER_NO_DESCRIBE
    " no-describe"
#endif
#ifdef INFER_NO_DRAFTS
    " no-drafts"
#endif
#ifdef INFER_NO_EMBED
    " no-embed"
#endif
#ifdef INFER_NO_ENCODE
    " no-encode"
#endif
#ifdef INFER_NO_EXPERTS
    " no-experts"
#endif
#ifdef INFER_NO_FILL
    " no-fill"
#endif
#ifdef INFER_NO_GUIDES
    " no-guides"
#endif
#ifdef INFER_NO_JSON
    " no-json"
#endif
#ifdef INFER_NO_MEDIA
    " no-media"
#endif
#ifdef INFER_NO_OFFLOAD
    " no-offload"
#endif
#ifdef INFER_NO_QUEUE
    " no-queue"
#endif
#ifdef INFER_NO_RANGES
    " no-ranges"
#endif
#ifdef INFER_NO_SAVE
    " no-save"
#endif
#ifdef INFER_NO_SCORES
    " no-scores"
#endif
#ifdef INFER_NO_SLICES
    " no-slices"
#endif
#ifdef INFER_NO_SPLIT
    " no-split"
#endif
#ifdef INFER_ONLY_QUANTS
    " some-types"
#endif
#ifdef INFER_ONLY_ARCHS
    " some-archs"
#endif
#ifdef INFER_ONLY_TOKENIZERS
    " some-tokenizers"
#endif
#ifdef INFER_ONLY_PRETOKENIZERS
    " some-pretokenizers"
#endif
#ifdef INFER_ONLY_CACHES
    " some-caches"
#endif
#ifdef INFER_ONLY_SAMPLERS
    " some-samplers"
#endif
#if defined(__GNUC__) && !defined(__OPTIMIZE__)
    " unoptimised"
#endif
    ;

/* Names of the levels that this CPU has, separated by spaces: "scalar sse41 avx2". */
static void infer__level_list(char *dst, size_t cap) {
    const char *name;
    int32_t level, usable;
    size_t n = 0;
    dst[0] = 0;
    for (level = INFER_CPU_SCALAR; (name = infer_cpu_level_name(level, &usable)) != NULL && n < cap; level++)
        if (usable) n += infer__format(dst + n, cap - n, n ? " %s" : "%s", name);
}

static struct {
    infer__once once;
    char text[384];
} infer__build;

static void infer__build_fill(void) {
    char levels[120];
    infer__level_list(levels, sizeof levels);
    infer__format(infer__build.text, sizeof infer__build.text, "infer.h %d.%d.%d, %.80s, without:%s, cpu: %s",
                  INFER_VERSION >> 16, INFER_VERSION >> 8 & 0xff, INFER_VERSION & 0xff, INFER__COMPILER,
                  infer__build_without[0] ? infer__build_without : " nothing", levels);
}

INFER_API const char *infer_build_info(void) {
    infer__call_once(&infer__build.once, infer__build_fill);
    return infer__build.text;
}

/* ---- devices and CPU levels --------------------------------------------------------------------------- */

INFER_API const char *infer_cpu_level_name(int32_t level, int32_t *usable) {
    uint32_t need = 0;
    const char *name = infer__cpu_level_name(level, &need);
    if (usable) *usable = name != NULL && infer__cpu_mask(level) == need;
    return name;
}

INFER_API int32_t infer_device_count(void) {
    return 1 + infer__gpu_count(); /* the CPU */
}

INFER_API infer_result infer_device_get(int32_t index, infer_device_info *out) {
    char levels[100];
    uint64_t swap;
    if (!out) return INFER_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    if (index < 0 || index >= infer_device_count()) return INFER_ERR_ARGUMENT;
    if (index > 0) {
        infer__gpu_info(index - 1, out);
        out->device = index;
        out->automatic = infer__gpu_automatic(NULL, INFER__AUTO_TAKES_GPUS) == index - 1;
        return INFER_OK;
    }
    out->backend = INFER_CPU;
    out->processor = 1;
    out->automatic = infer__gpu_automatic(NULL, INFER__AUTO_TAKES_GPUS) < 0;
    out->unified = out->usable = 1;
    infer__machine_memory(&out->total, &out->free, &swap);
    infer__level_list(levels, sizeof levels);
    infer__format(out->name, sizeof out->name, "CPU, %d cores, %s", infer__cores(), levels);
    return INFER_OK;
}

/* Without a callback all rows are run, too. */
static int infer__kernel_told(void *user, const infer_kernel_check *row) {
    (void)user; (void)row;
    return 0;
}

INFER_API infer_result infer_device_check(int32_t device, const infer_model_params *params, infer_kernel_fn fn,
                                          void *user, infer_error *err) {
    infer_model_params p;
    infer__report report;
    infer__gpu_uses uses;
    infer_error why;
    infer_result r;
    infer__mem mem;
    infer__gpu *gpu;
    int32_t verdict;
    memset(&p, 0, sizeof p);
    memset(&report, 0, sizeof report);
    if (params) p = *params;
    if (device < 1 || device >= infer_device_count())
        return infer__error(err, INFER_ERR_ARGUMENT, "device %d is no GPU", (int)device);
    if (!p.allocator.alloc != !p.allocator.free)
        return infer__error(err, INFER_ERR_ARGUMENT, "allocator: one of alloc and free is NULL");
    report.log = p.log;
    report.user = p.log_user;
    infer__mem_init(&mem, &p.allocator, p.max_memory);
    infer__error_clear(&why);
    r = infer__gpu_open_row(NULL, &gpu, &mem, &report, device - 1, &p.cache, &why);
    if (!r) {
        infer__gpu_uses_all(&uses);
        r = infer__gpu_check(gpu, &uses, &mem, fn ? fn : infer__kernel_told, user, &verdict, &why);
        infer__gpu_close(gpu);
    }
    if (r) return infer__error(err, r, "%s", why.message);
    infer__error_clear(err);
    return INFER_OK;
}

/* ---- lists ------------------------------------------------------------------------------------------------ */

INFER_API const char *infer_arch_name(int32_t index) {
    const infer__arch *a = index < 0 ? NULL : infer__arch_row(index);
    return a ? a->name : NULL;
}

INFER_API const char *infer_arch_reference(int32_t index) {
    const infer__arch *a = index < 0 ? NULL : infer__arch_row(index);
    return !a ? NULL : a->reference ? a->reference : "";
}

INFER_API const char *infer_arch_layers(int32_t index) {
    const infer__arch *a = index < 0 ? NULL : infer__arch_row(index);
    return !a ? NULL : a->layers ? a->layers : "attention, dense FFN";
}

INFER_API const char *infer_arch_lacks(int32_t index) {
    const infer__arch *a = index < 0 ? NULL : infer__arch_row(index);
    return !a ? NULL : a->lacks ? a->lacks : "";
}

INFER_API const char *infer_type_name(int32_t id) {
    const infer__quant *q = infer__quant_find(id, NULL);
    return q ? q->name : NULL;
}

INFER_API infer_result infer_type_get(int32_t index, infer_type_info *out) {
    const infer__quant *q = index < 0 ? NULL : infer__quant_row(index);
    if (!out) return INFER_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    if (!q) return INFER_ERR_ARGUMENT;
    out->id = q->id;
    out->name = q->name;
    out->values = q->values;
    out->bytes = q->bytes;
    out->storable = q->storable;
    return INFER_OK;
}

/* The row of a type whose blocks n values fill, or NULL after saying what is wrong. */
static const infer__quant *infer__type_of(int32_t type, const void *from, const void *to, uint64_t n, infer_error *err,
                                          infer_result *r) {
    const infer__quant *q = infer__quant_find(type, NULL);
    *r = INFER_OK;
    if (!q)
        *r = infer__error(err, INFER_ERR_UNSUPPORTED, "storage type %ld is not one that this build reads", (long)type);
    else if (n > INT64_MAX / 8 || n % (uint64_t)q->values || (n && (!from || !to)))
        *r = infer__error(err, INFER_ERR_ARGUMENT, "%s has blocks of %ld values", q->name, (long)q->values);
    return *r ? NULL : q;
}

INFER_API infer_result infer_type_decode(int32_t type, const void *data, uint64_t n, float *values, infer_error *err) {
    infer_result r;
    const infer__quant *q = infer__type_of(type, data, values, n, err, &r);
    if (!q) return r;
    infer__error_clear(err);
    q->decode(data, values, (int64_t)n);
    return INFER_OK;
}

INFER_API infer_result infer_type_encode(int32_t type, const float *values, const float *importance, uint64_t n,
                                         void *data, infer_error *err) {
    const infer__quant *q;
    infer_result r;
    uint64_t i;
    if (!INFER__HAS_ENCODE) return infer__left_out(err, "encoders", "INFER_NO_ENCODE");
    q = infer__type_of(type, values, data, n, err, &r);
    if (!q) return r;
    if (!q->search && !q->encode) return infer__error(err, INFER_ERR_UNSUPPORTED, "%s is read only", q->name);
    for (i = 0; importance && i < n; i++)
        if (!infer__finite(importance[i]) || importance[i] < 0)
            return infer__error(err, INFER_ERR_ARGUMENT, "the importance of value %lu is negative or not a number",
                                (unsigned long)i);
    infer__error_clear(err);
    if (q->search) q->search(values, importance, data, (int64_t)n);
    else q->encode(values, data, (int64_t)n);
    return INFER_OK;
}

#undef INFER__COMPILER
