/* fuzz.h: what the fuzz targets of models share: choices out of the fuzzer's bytes, memory that shows every read behind its
 * end, files that are read by callbacks. The library is included before. */
#ifndef FUZZ_H
#define FUZZ_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define FUZZ_POISON
#  endif
#elif defined(__SANITIZE_ADDRESS__)
#  define FUZZ_POISON
#endif
#if defined(FUZZ_POISON)
#  include <sanitizer/asan_interface.h>
#endif

static void fuzz_stop(const char *what) {
    fprintf(stderr, "fuzz: %s\n", what);
    __builtin_trap();
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

typedef struct fuzz_in { const uint8_t *p; size_t n; } fuzz_in;
static uint32_t fuzz_byte(fuzz_in *in) {
    if (in->n == 0) return 0;
    in->n--;
    return *in->p++;
}
static uint32_t fuzz_below(fuzz_in *in, uint32_t n) { return fuzz_byte(in) % n; }
static uint32_t fuzz_word(fuzz_in *in) {
    uint32_t low = fuzz_byte(in);
    return low | fuzz_byte(in) << 8;
}

/* ---- memory that shows every read behind its end ------------------------------------------------------------------ */

/* The library's blocks have up to INFER__ALIGN bytes of room behind them: poisoned, ASan sees those too. */
typedef struct fuzz_heap { long live, calls, fail_at; } fuzz_heap;
static void *fuzz_alloc(void *user, size_t size, size_t align) {
    fuzz_heap *h = (fuzz_heap *)user;
    char *p;
    (void)align;
    if (++h->calls == h->fail_at) return NULL;
    p = (char *)malloc(size);
    if (!p) return NULL;
    h->live++;
#if defined(FUZZ_POISON)
    {
        size_t head = sizeof(infer__block), used = size - head - INFER__ALIGN;
        char *at = p + head;
        at += (INFER__ALIGN - (uintptr_t)at % INFER__ALIGN) % INFER__ALIGN;
        ASAN_POISON_MEMORY_REGION(at + used, (size_t)(p + size - (at + used)));
    }
#endif
    return p;
}
static void fuzz_free(void *user, void *p, size_t size) {
    fuzz_heap *h = (fuzz_heap *)user;
    h->live--;
#if defined(FUZZ_POISON)
    ASAN_UNPOISON_MEMORY_REGION(p, size);
#endif
    (void)size;
    free(p);
}
static infer_allocator fuzz_allocator(fuzz_heap *h) {
    infer_allocator a;
    memset(h, 0, sizeof *h);
    a.user = h;
    a.alloc = fuzz_alloc;
    a.free = fuzz_free;
    return a;
}

/* A file in memory, read by calls; call number fail_at reads too little. */
typedef struct fuzz_file { const unsigned char *p; size_t n; long calls, fail_at; } fuzz_file;
static size_t fuzz_read(void *user, uint64_t offset, void *dst, size_t n) {
    fuzz_file *f = (fuzz_file *)user;
    if (offset > f->n || n > f->n - offset) fuzz_stop("a read behind the end of the file");
    if (++f->calls == f->fail_at) return n / 2;
    memcpy(dst, f->p + offset, n);
    return n;
}
#endif
