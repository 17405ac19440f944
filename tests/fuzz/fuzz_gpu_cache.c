/* fuzz_gpu_cache.c: libFuzzer target for bytes that become GPU programs, without a GPU: what the caller's cache gives back
 * (infer_cache.get), and the unpacker of embedded kernels.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DINFER_QUIET -Itests tests/fuzz/fuzz_gpu_cache.c -o fuzz_gpu_cache -lm
 *     ./fuzz_gpu_cache -max_len=4096 tests/fuzz/corpus_gpu_cache
 *
 * The first byte chooses. Always: the unpacker writes exactly what was asked for or refuses, and never beside it; a changed
 * kernel is refused or gives the text; from the cache come the bytes that were kept under this key or none, whatever sizes
 * the callback names; a program that the driver refuses is compiled, on the made-up libcuda of fake_cuda.h, and kept anew. */
#define INFER_IMPLEMENTATION
#define INFER_NO_SIMD
#include "../../src/infer_all.c"
#include "fuzz.h"
#define CHECK(x) ((x) ? (void)0 : fuzz_stop(#x))
static const char *check_detail;
#include "../fake_cuda.h"

/* ---- the unpacker ------------------------------------------------------------------------------------------------ */

static infer__lzma fuzz_lzma;

/* Into a block of exactly text->bytes; what came out, NULL = refused. */
static char *fuzz_unpack(const infer__kernel_text *text) {
    char *out = (char *)malloc(text->bytes ? text->bytes : 1);
    if (!out) fuzz_stop("no memory");
    if (infer__text_unpack(&fuzz_lzma, text, out, text->bytes)) return out;
    free(out);
    return NULL;
}

/* Any characters, cut into pieces anywhere, with any lengths. */
static void fuzz_digits(fuzz_in *in) {
    infer__kernel_text text;
    const char *pieces[8];
    char *all = (char *)malloc(in->n + 9), *at = all;
    int i, n = 1 + (int)fuzz_below(in, 8);
    if (!all) fuzz_stop("no memory");
    memset(&text, 0, sizeof text);
    text.packed = fuzz_word(in);
    text.bytes = fuzz_word(in);
    for (i = 0; i < n; i++) {
        size_t k = i + 1 < n ? fuzz_byte(in) : in->n;
        if (k > in->n) k = in->n;
        pieces[i] = at;
        memcpy(at, in->p, k);
        at[k] = 0;
        at += strlen(at) + 1;
        in->p += k;
        in->n -= k;
    }
    text.pieces = pieces;
    text.n_pieces = n;
    free(fuzz_unpack(&text));
    free(all);
}

/* Any packed bytes, spelled right: they reach the decoder. */
static void fuzz_packed(fuzz_in *in) {
    static const char digits[] = "#$&()+,-.0123456789:;<=>@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~";
    infer__kernel_text text;
    const char *piece;
    char *all, *p;
    uint32_t i, k, group;
    memset(&text, 0, sizeof text);
    text.bytes = fuzz_word(in) & 4095;
    text.packed = (uint32_t)in->n;
    all = p = (char *)malloc((in->n + 3) / 4 * 5 + 1);
    if (!all) fuzz_stop("no memory");
    for (i = 0; i < text.packed; i += 4, p += 5) {
        for (group = 0, k = 0; k < 4; k++) group = group << 8 | (i + k < text.packed ? in->p[i + k] : 0u);
        if (i == 0) group &= 0xffffff; /* a stream begins with 0 */
        for (k = 5; k-- > 0; group /= 85) p[k] = digits[group % 85];
    }
    *p = 0;
    piece = all;
    text.pieces = &piece;
    text.n_pieces = 1;
    free(fuzz_unpack(&text));
    free(all);
}

/* A kernel's text with a few characters changed, or other lengths. */
static void fuzz_kernel(fuzz_in *in) {
    const infer__kernel_text *from = infer__kernel_file(fuzz_below(in, (uint32_t)INFER__COUNT(INFER__KERNEL_TEXTS)));
    infer__kernel_text text = *from;
    const char *piece;
    char *all, *out, *good = fuzz_unpack(from);
    size_t n = 0;
    int32_t i;
    if (!good) fuzz_stop("a kernel of this build does not unpack");
    for (i = 0; i < from->n_pieces; i++) n += strlen(from->pieces[i]);
    piece = all = (char *)malloc(n + 1);
    if (!all) fuzz_stop("no memory");
    for (n = 0, i = 0; i < from->n_pieces; n += strlen(from->pieces[i]), i++) memcpy(all + n, from->pieces[i], strlen(from->pieces[i]));
    all[n] = 0;
    text.pieces = &piece;
    text.n_pieces = 1;
    for (i = (int32_t)fuzz_below(in, 4); i >= 0; i--) all[fuzz_word(in) % n] = (char)fuzz_byte(in);
    if (fuzz_below(in, 4) == 3) text.bytes = text.bytes - 8 + fuzz_below(in, 16);
    if (fuzz_below(in, 4) == 3) text.packed = text.packed - 8 + fuzz_below(in, 16);
    out = fuzz_unpack(&text);
    if (out && text.bytes < from->bytes && memcmp(out, good, text.bytes)) fuzz_stop("a shorter text that is another");
    free(out);
    free(good);
    free(all);
}

/* Bytes for names of PTX, into a block of exactly the text's size. */
static void fuzz_names(fuzz_in *in) {
    static infer__ptx_names names;
    const uint32_t bytes = fuzz_word(in) & 1023;
    char *src, *dst = (char *)malloc((size_t)bytes + 1);
    src = (char *)malloc(in->n + 1);
    if (!src || !dst) fuzz_stop("no memory");
    memcpy(src, in->p, in->n);
    if (infer__ptx_names_write(&names, src, (uint32_t)in->n, dst, bytes) && dst[bytes]) fuzz_stop("no zero behind the text");
    free(src);
    free(dst);
}

/* ---- the cache ------------------------------------------------------------------------------------------------------ */

typedef struct fuzz_cache {
    fuzz_in in;              /* what the callback says, when it is no honest one */
    int honest, gets, puts;
    uint8_t kept[4096];
    size_t n;
    char key[128];
} fuzz_cache;

static size_t fuzz_cache_get(void *user, const char *key, void *dst, size_t cap) {
    fuzz_cache *c = (fuzz_cache *)user;
    size_t n = c->n, i;
    c->gets++;
    if (strlen(key) >= sizeof c->key) fuzz_stop("a long key");
    for (i = 0; key[i]; i++)
        if (key[i] < '!' || key[i] > '~' || key[i] == '/') fuzz_stop("a key that is no short printable text");
    if (!c->honest) {
        switch (fuzz_below(&c->in, 6)) {
        case 0: n = fuzz_word(&c->in); break;
        case 1: n = (size_t)-1 - fuzz_byte(&c->in); break;
        case 2: n = (size_t)INFER__GPU_CACHE_MAX + fuzz_byte(&c->in) - 128; n = n > 65536 && n <= INFER__GPU_CACHE_MAX ? 70000 : n; break;
        default: break;
        }
    }
    if (cap && !dst) fuzz_stop("no room to write to");
    for (i = 0; i < cap && i < n; i++) ((uint8_t *)dst)[i] = i < c->n ? c->kept[i] : (uint8_t)fuzz_byte(&c->in);
    return n;
}
static void fuzz_cache_put(void *user, const char *key, const void *data, size_t n) {
    fuzz_cache *c = (fuzz_cache *)user;
    c->puts++;
    snprintf(c->key, sizeof c->key, "%s", key);
    c->n = n < sizeof c->kept ? n : sizeof c->kept;
    memcpy(c->kept, data, c->n);
}

static infer__gpu_source fuzz_source(const infer_cache *cache) {
    static const char *const text[] = {FAKECU_PTX};
    infer__gpu_source s;
    memset(&s, 0, sizeof s);
    s.text = text;
    s.n_text = 1;
    s.name = "test";
    s.hash = 0x0123456789abcdefu;
    s.cache = cache;
    return s;
}

/* Keep bytes, change them or the key, ask for them. */
static void fuzz_kept(fuzz_in *in) {
    static fuzz_cache c;
    infer_cache cache = {NULL, NULL, NULL};
    infer__gpu_source s = fuzz_source(&cache);
    infer__mem mem;
    uint8_t binary[300 + INFER__GPU_CACHE_HEAD], before[4096], *data;
    size_t n = 1 + fuzz_byte(in), size = 1, i, n_before;
    int same = 1;
    memset(&c, 0, sizeof c);
    infer__mem_init(&mem, NULL, (uint64_t)64 << 20);
    cache.user = &c;
    cache.get = fuzz_cache_get;
    cache.put = fuzz_cache_put;
    for (i = 0; i < n; i++) binary[INFER__GPU_CACHE_HEAD + i] = (uint8_t)(i * 7);
    infer__gpu_keep(&s, "api", 42, binary, n);
    if (c.puts != 1 || c.n != n + INFER__GPU_CACHE_HEAD) fuzz_stop("not kept");
    memcpy(before, c.kept, n_before = c.n);
    for (i = fuzz_below(in, 4); i > 0; i--) c.kept[fuzz_word(in) % c.n] = (uint8_t)fuzz_byte(in);
    if (fuzz_below(in, 4) == 3) c.n = fuzz_word(in) % sizeof c.kept;
    if (fuzz_below(in, 4) == 3) { s.name = "other"; same = 0; }
    if (fuzz_below(in, 4) == 3) { s.hash++; same = 0; }
    c.honest = fuzz_below(in, 2) == 0;
    c.in = *in;
    same = same && c.n == n_before && memcmp(before, c.kept, n_before) == 0;
    data = infer__gpu_cached(&mem, &s, "api", 42, &size);
    if (data && (size != n || memcmp(data + INFER__GPU_CACHE_HEAD, binary + INFER__GPU_CACHE_HEAD, n))) fuzz_stop("bytes that were not kept");
    if (data && c.honest && !same) fuzz_stop("changed bytes are taken");
    if (!data && c.honest && same) fuzz_stop("kept bytes are not found");
    infer__free(&mem, data);
    if (infer__atomic_get(&mem.used) != 0) fuzz_stop("memory is left");
}

/* A device of the made-up libcuda loads a program; the cache has what the bytes say, its check sum right. */
static void fuzz_load(fuzz_in *in) {
    static fuzz_cache c;
    infer_cache cache = {NULL, NULL, NULL};
    infer__gpu_source s = fuzz_source(&cache);
    infer__mem mem;
    infer_error err;
    void *device = NULL, *program = NULL;
    char key[96];
    uint64_t hash;
    size_t i;
    memset(&c, 0, sizeof c);
    memset(&err, 0, sizeof err);
    infer__mem_init(&mem, NULL, (uint64_t)64 << 20);
    infer__cuda_devices(NULL); /* its once is done: nothing looks for a library from here on */
    fakecu_reset(1);
    infer__cuda.n = 0;
    memset(infer__cuda.rows, 0, sizeof infer__cuda.rows);
    fakecu_table(&infer__cuda.cu);
    infer__cuda_list(&infer__cuda);
    cache.user = &c;
    cache.get = fuzz_cache_get;
    cache.put = fuzz_cache_put;
    hash = infer__gpu_key(&s, "cuda", infer__cuda.rows[0].hash, key);
    c.n = 1 + fuzz_word(in) % 600;
    for (i = 0; i < c.n; i++) c.kept[i] = (uint8_t)fuzz_byte(in);
    if (c.n > INFER__GPU_CACHE_HEAD + 4 && fuzz_below(in, 4)) memcpy(c.kept + INFER__GPU_CACHE_HEAD, "\177ELF", 4);
    if (c.n > INFER__GPU_CACHE_HEAD) infer__gpu_head(c.kept, hash, c.kept + INFER__GPU_CACHE_HEAD, c.n - INFER__GPU_CACHE_HEAD);
    c.honest = fuzz_below(in, 4) != 3;
    c.in = *in;
    fakecu.refuse_binary = 1;
    if (infer__cuda_driver.open(&device, &mem, 0, &err) != INFER_OK) fuzz_stop(err.message);
    if (infer__cuda_driver.load(device, &s, &program, &err) != INFER_OK || !program) fuzz_stop("hostile bytes of the cache stop a program from being compiled");
    if (fakecu.compiled < 1) fuzz_stop("a refused binary became a program");
    infer__cuda_driver.unload(device, program);
    infer__cuda_driver.close(device);
    fakecu_closed();
    if (infer__atomic_get(&mem.used) != 0) fuzz_stop("memory is left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in;
    in.p = data;
    in.n = size;
    switch (fuzz_below(&in, 8)) {
    case 0: fuzz_digits(&in); break;
    case 1: fuzz_packed(&in); break;
    case 2: fuzz_names(&in); break;
    case 3: fuzz_kernel(&in); break;
    case 4: case 5: fuzz_load(&in); break;
    default: fuzz_kept(&in); break;
    }
    return 0;
}
