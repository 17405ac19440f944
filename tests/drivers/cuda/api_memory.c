/* api_memory.c: memory of devices and pinned memory of the host, and the copies between. Addresses of devices are none that the
 * host can read, and none is given twice: whoever keeps one after freeing it is found out. New memory is 0xff (floats: NaN).
 */
#include "fake.h"

typedef struct { ptx_range r; int device; } allocation;
static allocation *all;
static int nall, cap;
typedef struct { uint8_t *p; size_t bytes; int registered, device; } pinned;
static pinned *pins;
static int npins, cap_pins;
static devptr next_address[8];
static size_t used[8];

static size_t total(void) { return (size_t)fake_number("FAKE_CUDA_MEMORY", 4ll << 30); }

ptx_range *fake_range(devptr at, size_t bytes) {
    for (int k = 0; k < nall; k++) {
        ptx_range *r = &all[k].r;
        if (at >= r->base && at - r->base <= r->size && bytes <= r->size - (at - r->base)) return r;
    }
    return NULL;
}
void fake_known(ptx_range *r, devptr at, size_t bytes) {
    if (r->known) memset(r->known + (at - r->base), 1, bytes);
}

/* Pinned memory has host addresses, which are lower than those of devices. */
static int by_base(const void *a, const void *b) {
    const ptx_range *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}
int fake_ranges(int device, ptx_range **out) {
    ptx_range *r = malloc(sizeof *r * (size_t)(nall + npins + 1));
    int k, n = 0;
    *out = r;
    if (!r) return -1;
    for (k = 0; k < npins; k++) {
        ptx_range one = {(uint64_t)(uintptr_t)pins[k].p, pins[k].bytes, pins[k].p, NULL};
        r[n++] = one;
    }
    for (k = 0; k < nall; k++)
        if (all[k].device == device) r[n++] = all[k].r;
    qsort(r, (size_t)n, sizeof *r, by_base);
    return n;
}

static void drop(int k) {
    used[all[k].device] -= all[k].r.size;
    free(all[k].r.host);
    free(all[k].r.known);
    memmove(&all[k], &all[k + 1], sizeof *all * (size_t)(--nall - k));
}
static void unpin(int k) {
    if (!pins[k].registered) {
        memset(pins[k].p, 0xdb, pins[k].bytes);
        free(pins[k].p);
    }
    pins[k] = pins[--npins];
}
void fake_release_memory(int device) {
    int k, lost = 0;
    for (k = nall - 1; k >= 0; k--)
        if (all[k].device == device) drop(k), lost++;
    for (k = npins - 1; k >= 0; k--)
        if (pins[k].device == device) unpin(k), lost++;
    if (lost) fake_log("a context ended with %d allocations in it", lost);
}
int fake_leaked_memory(void) { return nall + npins; }

API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    ENTER(NEED_CTX);
    REQUIRE(free_bytes && total_bytes, E_INVALID_VALUE);
    *total_bytes = total();
    *free_bytes = total() - used[fake_current()->device];
    LEAVE(0);
}

API int cuMemAlloc_v2(devptr *out, size_t bytes);
API int cuMemAlloc_v2(devptr *out, size_t bytes) {
    int d, rc;
    allocation a;
    ENTER(NEED_CTX);
    if ((rc = fake_unsafe())) LEAVE(rc);
    REQUIRE(out && bytes, E_INVALID_VALUE);
    d = fake_current()->device;
    REQUIRE(bytes <= total() && used[d] <= total() - bytes, E_OUT_OF_MEMORY);
    if (nall == cap) {
        int more = cap ? cap * 2 : 64;
        allocation *p = realloc(all, sizeof *p * (size_t)more);
        REQUIRE(p, E_OUT_OF_MEMORY);
        all = p, cap = more;
    }
    memset(&a, 0, sizeof a);
    a.device = d;
    a.r.size = bytes;
    if (!next_address[d]) next_address[d] = (0xa0ull << 48) + ((devptr)d << 44);
    a.r.base = next_address[d];
    a.r.host = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    if (fake_number("FAKE_CUDA_CHECK", 0)) a.r.known = calloc(1, bytes);
    if (!a.r.host || (fake_number("FAKE_CUDA_CHECK", 0) && !a.r.known)) {
        free(a.r.host);
        free(a.r.known);
        LEAVE(E_OUT_OF_MEMORY);
    }
    memset(a.r.host, 0xff, bytes > (size_t)64 << 20 ? (size_t)64 << 20 : bytes);
    next_address[d] += (bytes + 8191) & ~(devptr)4095;
    used[d] += bytes;
    all[nall++] = a;
    *out = a.r.base;
    LEAVE(0);
}
API int cuMemFree_v2(devptr at);
API int cuMemFree_v2(devptr at) {
    int rc;
    ENTER(NEED_CTX | IS_FREE);
    if (!at) LEAVE(0);
    if ((rc = fake_unsafe())) LEAVE(rc);
    rc = fake_drain_context(fake_current(), 0);
    for (int k = 0; k < nall; k++)
        if (all[k].r.base == at) {
            drop(k);
            LEAVE(rc);
        }
    LEAVE(E_INVALID_VALUE);
}

static int pin(void *p, size_t bytes, int registered) {
    if (npins == cap_pins) {
        int more = cap_pins ? cap_pins * 2 : 64;
        pinned *q = realloc(pins, sizeof *q * (size_t)more);
        if (!q) return E_OUT_OF_MEMORY;
        pins = q, cap_pins = more;
    }
    pinned one = {p, bytes, registered, fake_current()->device};
    pins[npins++] = one;
    return 0;
}
static int alloc_host(void **out, size_t bytes) {
    uint8_t *p;
    int rc = fake_unsafe();
    if (rc) return rc;
    if (!out || !bytes) return E_INVALID_VALUE;
    p = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (!p) return E_OUT_OF_MEMORY;
    memset(p, 0xff, bytes);
    rc = pin(p, bytes, 0);
    if (rc) free(p);
    else *out = p;
    return rc;
}
API int cuMemAllocHost_v2(void **out, size_t bytes);
API int cuMemAllocHost_v2(void **out, size_t bytes) {
    ENTER(NEED_CTX);
    LEAVE(alloc_host(out, bytes));
}
API int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
API int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    ENTER(NEED_CTX);
    REQUIRE(!(flags & ~7u), E_INVALID_VALUE);
    LEAVE(alloc_host(out, bytes));
}
API int cuMemFreeHost(void *p);
API int cuMemFreeHost(void *p) {
    int rc;
    ENTER(NEED_CTX | IS_FREE);
    if ((rc = fake_unsafe())) LEAVE(rc);
    rc = fake_drain_context(fake_current(), 0);
    for (int k = 0; k < npins; k++)
        if (pins[k].p == p && !pins[k].registered) {
            unpin(k);
            LEAVE(rc);
        }
    LEAVE(E_INVALID_VALUE);
}
API int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
API int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags) {
    ENTER(NEED_CTX);
    REQUIRE(p && bytes && !(flags & ~15u), E_INVALID_VALUE);
    for (int k = 0; k < npins; k++)
        REQUIRE((uint8_t *)p + bytes <= pins[k].p || (uint8_t *)p >= pins[k].p + pins[k].bytes, E_ALREADY_REGISTERED);
    LEAVE(pin(p, bytes, 1));
}
API int cuMemHostUnregister(void *p);
API int cuMemHostUnregister(void *p) {
    ENTER(NEED_CTX | IS_FREE);
    fake_drain_context(fake_current(), 0);
    for (int k = 0; k < npins; k++)
        if (pins[k].p == p && pins[k].registered) {
            unpin(k);
            LEAVE(0);
        }
    LEAVE(E_NOT_REGISTERED);
}

/* ---- copies --------------------------------------------------------------------------------------------------------------- */

static int copy(int kind, devptr dst, devptr src, void *host, unsigned value, size_t bytes, void *handle, int wait) {
    op *o;
    stream *s = wait ? fake_current()->null : fake_stream(handle);
    int rc;
    if (!s) return E_INVALID_HANDLE;
    if (wait && ((rc = fake_unsafe()) || (rc = fake_legacy(fake_current())))) return rc;
    if (!bytes) return 0;
    if (kind != OP_TO_HOST && !fake_range(dst, bytes)) return E_INVALID_VALUE;
    if ((kind == OP_TO_HOST || kind == OP_COPY) && !fake_range(src, bytes)) return E_INVALID_VALUE;
    if ((kind == OP_TO_HOST || kind == OP_TO_DEVICE) && !host) return E_INVALID_VALUE;
    o = calloc(1, sizeof *o);
    if (!o) return E_OUT_OF_MEMORY;
    o->kind = kind, o->dst = dst, o->src = src, o->host = host, o->value = value, o->bytes = bytes;
    rc = fake_enqueue(s, o);
    return rc || !wait ? rc : fake_drain(s);
}
API int cuMemcpyHtoD_v2(devptr dst, const void *src, size_t bytes);
API int cuMemcpyHtoD_v2(devptr dst, const void *src, size_t bytes) {
    ENTER(NEED_CTX);
    LEAVE(copy(OP_TO_DEVICE, dst, 0, (void *)(uintptr_t)src, 0, bytes, NULL, 1));
}
API int cuMemcpyDtoH_v2(void *dst, devptr src, size_t bytes);
API int cuMemcpyDtoH_v2(void *dst, devptr src, size_t bytes) {
    ENTER(NEED_CTX);
    LEAVE(copy(OP_TO_HOST, 0, src, dst, 0, bytes, NULL, 1));
}
API int cuMemcpyDtoD_v2(devptr dst, devptr src, size_t bytes);
API int cuMemcpyDtoD_v2(devptr dst, devptr src, size_t bytes) {
    ENTER(NEED_CTX);
    LEAVE(copy(OP_COPY, dst, src, NULL, 0, bytes, NULL, 1));
}
API int cuMemsetD8_v2(devptr dst, unsigned char value, size_t bytes);
API int cuMemsetD8_v2(devptr dst, unsigned char value, size_t bytes) {
    ENTER(NEED_CTX);
    LEAVE(copy(OP_SET, dst, 0, NULL, value, bytes, NULL, 1));
}
API int cuMemcpyHtoDAsync_v2(devptr dst, const void *src, size_t bytes, void *s);
API int cuMemcpyHtoDAsync_v2(devptr dst, const void *src, size_t bytes, void *s) {
    ENTER(NEED_CTX);
    LEAVE(copy(OP_TO_DEVICE, dst, 0, (void *)(uintptr_t)src, 0, bytes, s, 0));
}
API int cuMemcpyDtoHAsync_v2(void *dst, devptr src, size_t bytes, void *s);
API int cuMemcpyDtoHAsync_v2(void *dst, devptr src, size_t bytes, void *s) {
    ENTER(NEED_CTX);
    LEAVE(copy(OP_TO_HOST, 0, src, dst, 0, bytes, s, 0));
}
API int cuMemcpyDtoDAsync_v2(devptr dst, devptr src, size_t bytes, void *s);
API int cuMemcpyDtoDAsync_v2(devptr dst, devptr src, size_t bytes, void *s) {
    ENTER(NEED_CTX);
    LEAVE(copy(OP_COPY, dst, src, NULL, 0, bytes, s, 0));
}
API int cuMemsetD8Async(devptr dst, unsigned char value, size_t bytes, void *s);
API int cuMemsetD8Async(devptr dst, unsigned char value, size_t bytes, void *s) {
    ENTER(NEED_CTX);
    LEAVE(copy(OP_SET, dst, 0, NULL, value, bytes, s, 0));
}
