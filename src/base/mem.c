/* mem.c: counted, limited memory and arenas.
 *
 * Owns:  every allocation of the library. A block remembers its size in a header before it, so that freeing needs
 *        no size and the user's free gets the one that its alloc got.
 * May not know: what is stored.
 * Invariants: `used` is the sum of the sizes asked for (headers and padding, under 200 bytes a block, are not counted),
 *        plus what infer__mem_reserve added; `held` is what the allocator was asked for, headers and padding included
 *        (but not the addresses before a huge page, where there is no memory). Both are 0 when everything was freed.
 *        Blocks are aligned to INFER__ALIGN even when the user's allocator ignores its align argument.
 */
#include "base.h"
#if !defined(INFER_NO_MALLOC)
#  include <stdlib.h>
#endif

/* Larger blocks begin at a huge page where the system has such: 512 rows of activations are on as many pages of 4 KiB,
 * more than its TLB holds (a prompt of a 1B model: 1.2 times as fast). */
enum { INFER__HUGE_PAGE = 1 << 21 };

typedef struct infer__block {
    uint64_t size;     /* what the library asked for */
    uint64_t raw_size; /* what the allocator was asked for */
    void *raw;         /* what it returned */
} infer__block;

#if defined(INFER_NO_MALLOC)
static void *infer__heap_alloc(size_t size, int zero) { (void)size; (void)zero; return NULL; }
static void infer__heap_free(void *p) { (void)p; }
#else
static void *infer__heap_alloc(size_t size, int zero) { return zero ? calloc(1, size) : malloc(size); }
static void infer__heap_free(void *p) { free(p); }
#endif

static void *infer__default_alloc(void *user, size_t size, size_t align) {
    (void)user;
    (void)align; /* infer__block_new aligns */
    return infer__heap_alloc(size, 0);
}

static void infer__default_free(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    infer__heap_free(p);
}

static void infer__mem_init(infer__mem *m, const infer_allocator *a, uint64_t limit) {
    memset(m, 0, sizeof *m);
    if (a && a->alloc && a->free) {
        m->a = *a;
    } else {
        m->a.alloc = infer__default_alloc;
        m->a.free = infer__default_free;
    }
    m->limit = limit;
}

static int infer__mem_reserve(infer__mem *m, uint64_t n) {
    uint64_t before, after;
    if (n > INT64_MAX) return 0;
    before = (uint64_t)infer__atomic_add(&m->used, (int64_t)n); /* add first: two threads cannot both slip through */
    if (infer__add_ok(before, n, &after) && after <= INT64_MAX && (m->limit == 0 || after <= m->limit)) return 1;
    infer__atomic_add(&m->used, -(int64_t)n);
    return 0;
}

static void infer__mem_release(infer__mem *m, uint64_t n) {
    infer__atomic_add(&m->used, -(int64_t)n);
}

static infer__block *infer__block_of(void *p) {
    return (infer__block *)(void *)((char *)p - sizeof(infer__block));
}

static uint64_t infer__block_bytes(uint64_t size) {
    return size ? size + sizeof(infer__block) + INFER__ALIGN : 0;
}

static void *infer__block_new(infer__mem *m, uint64_t size, int zero) {
    uint64_t raw_size;
    infer__block *b;
    void *raw;
    char *p;
    const int own = m->a.alloc == infer__default_alloc;
    const int own_zero = zero && own; /* calloc leaves fresh pages untouched */
    const uint64_t align = INFER__HUGE_PAGES && own && size >= INFER__HUGE_PAGE ? INFER__HUGE_PAGE : INFER__ALIGN;
    if (size == 0 || !infer__add_ok(size, sizeof(infer__block) + align, &raw_size) || raw_size > SIZE_MAX / 2)
        return NULL;
    if (!infer__mem_reserve(m, size)) return NULL;
    raw = own_zero ? infer__heap_alloc((size_t)raw_size, 1) : m->a.alloc(m->a.user, (size_t)raw_size, INFER__ALIGN);
    if (!raw) {
        infer__mem_release(m, size);
        return NULL;
    }
    infer__atomic_raise(&m->peak, infer__atomic_add(&m->held, (int64_t)infer__block_bytes(size)) +
                                      (int64_t)infer__block_bytes(size));
    p = (char *)raw + sizeof(infer__block);
    p += (align - (uintptr_t)p % align) % align;
    if (align > INFER__ALIGN) infer__os_huge_pages(p, (size_t)size);
    b = infer__block_of(p);
    b->size = size;
    b->raw_size = raw_size;
    b->raw = raw;
    if (zero && !own_zero) memset(p, 0, (size_t)size);
    return p;
}

static void *infer__alloc(infer__mem *m, uint64_t size) {
    return infer__block_new(m, size, 0);
}

static void *infer__calloc(infer__mem *m, uint64_t n, uint64_t size) {
    uint64_t bytes;
    return infer__mul_ok(n, size, &bytes) ? infer__block_new(m, bytes, 1) : NULL;
}

static void infer__free(infer__mem *m, void *p) {
    infer__block *b;
    uint64_t size;
    if (!p) return;
    b = infer__block_of(p);
    size = b->size;
    m->a.free(m->a.user, b->raw, (size_t)b->raw_size);
    infer__atomic_add(&m->held, -(int64_t)infer__block_bytes(size));
    infer__mem_release(m, size);
}

static void *infer__realloc(infer__mem *m, void *p, uint64_t n, uint64_t size) {
    uint64_t bytes, old;
    void *q;
    if (!infer__mul_ok(n, size, &bytes) || bytes == 0) return NULL;
    old = p ? infer__block_of(p)->size : 0;
    if (p && bytes <= old && bytes >= old / 2) return p; /* a little smaller: not worth a copy */
    q = infer__alloc(m, bytes);
    if (!q) return NULL;
    if (p) {
        memcpy(q, p, (size_t)INFER__MIN(old, bytes));
        infer__free(m, p);
    }
    return q;
}

/* ---- arena --------------------------------------------------------------------------------------- */

typedef union infer__arena_head {
    void *next;
    char pad[16]; /* what follows is aligned to 16 */
} infer__arena_head;

static infer__arena_head *infer__arena_block(infer__arena *a, size_t cap) {
    return (infer__arena_head *)infer__alloc(a->mem, (uint64_t)cap + sizeof(infer__arena_head));
}

/* Begin a block for small pieces. */
static int infer__arena_grow(infer__arena *a, size_t cap) {
    infer__arena_head *h = infer__arena_block(a, cap);
    if (!h) return 0;
    h->next = a->blocks;
    a->blocks = h;
    a->at = 0;
    a->cap = cap;
    return 1;
}

/* n bytes in a block of their own. It goes behind the block that is being filled, which so is not left half empty, and
 * does not make the next ones larger. */
static void *infer__arena_alone(infer__arena *a, size_t n) {
    infer__arena_head *h = infer__arena_block(a, n), *first = (infer__arena_head *)a->blocks;
    if (!h) return NULL;
    h->next = first ? first->next : NULL;
    if (first) first->next = h;
    else a->blocks = h;
    return h + 1;
}

static void *infer__arena_raw(infer__arena *a, uint64_t size) {
    /* blocks double up to 1 MiB */
    const size_t next = a->cap < 2048 ? 4096 : a->cap < ((size_t)1 << 19) ? a->cap * 2 : (size_t)1 << 20;
    size_t n;
    char *p;
    if (size > SIZE_MAX / 4) return NULL;
    n = ((size_t)INFER__MAX(size, 1) + 15) & ~(size_t)15;
    if (n > a->cap - a->at) {
        if (n > next / 2) return infer__arena_alone(a, n);
        if (!infer__arena_grow(a, next)) return NULL;
    }
    p = (char *)a->blocks + sizeof(infer__arena_head) + a->at;
    a->at += n;
    return p;
}

static void *infer__arena_alloc(infer__arena *a, uint64_t size) {
    void *p = infer__arena_raw(a, size);
    if (p) memset(p, 0, (size_t)INFER__MAX(size, 1));
    return p;
}

static char *infer__arena_text(infer__arena *a, const char *s, size_t n) {
    char *p = n < SIZE_MAX ? (char *)infer__arena_alloc(a, (uint64_t)n + 1) : NULL;
    if (p && n) memcpy(p, s, n);
    return p;
}

static void infer__arena_free(infer__arena *a) {
    while (a->blocks) {
        infer__arena_head *h = (infer__arena_head *)a->blocks;
        a->blocks = h->next;
        infer__free(a->mem, h);
    }
    a->at = a->cap = 0;
}

/* ---- texts that grow --------------------------------------------------------------------------------- */

static void infer__bytes_put(infer__bytes *b, const void *s, size_t n) {
    if (b->failed || n == 0) return;
    if (b->limit && n > b->limit - b->n) {
        b->failed = 1;
        return;
    }
    if (n >= b->cap - b->n) {
        uint64_t cap = (uint64_t)b->n + n + 1;
        void *p;
        cap += cap / 2 + 48;
        p = cap > SIZE_MAX ? NULL : infer__realloc(b->mem, b->s, cap, 1);
        if (!p) {
            b->failed = 1;
            return;
        }
        b->s = (char *)p;
        b->cap = (size_t)cap;
    }
    memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = 0;
}

static void infer__bytes_text(infer__bytes *b, const char *s) { infer__bytes_put(b, s, strlen(s)); }
static void infer__bytes_char(infer__bytes *b, char c) { infer__bytes_put(b, &c, 1); }

static void infer__bytes_format(infer__bytes *b, const char *format, ...) {
    char line[501];
    size_t full = 0;
    va_list args;
    va_start(args, format);
    if (infer__format_cut(line, sizeof line, &full, format, args)) b->failed = 1;
    va_end(args);
    infer__bytes_text(b, line);
}

static void infer__bytes_free(infer__bytes *b) {
    infer__free(b->mem, b->s);
    b->s = NULL;
    b->n = b->cap = 0;
    b->failed = 0;
}
