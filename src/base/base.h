/* base.h: the interface of the lowest layer: compiler and CPU detection, memory, errors, log, OS, threads.
 *
 * Owns:  everything that depends on the compiler or the operating system.
 * Rules: os.c is the only file with OS calls. Nothing here knows files, tensors or models.
 *        No mutable globals except behind infer__once. No abort, exit or printf anywhere.
 * Start: infer__error (how calls fail), infer__alloc (how memory is counted), infer__parallel (how work is split).
 */
#ifndef INFER__BASE_H
#define INFER__BASE_H

#include "../api.h"
#include "archs.h"
#include "switches.h"
#include <stdarg.h>
#include <string.h>

/* ---- compiler, CPU, OS ------------------------------------------------------------------------ */

#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
#  define INFER__X86 1
#elif defined(__aarch64__) || defined(_M_ARM64)
#  define INFER__ARM64 1
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#  define INFER__BIG_ENDIAN 1
#else
#  define INFER__BIG_ENDIAN 0
#endif

/* Code for specific instruction sets is built (and chosen at run time; see compute/isa.c). */
#if !defined(INFER_NO_SIMD) && !defined(__TINYC__) && (defined(__GNUC__) || defined(__clang__) || defined(_MSC_VER))
#  if defined(INFER__X86)
#    define INFER__SIMD_X86 1
#    if !defined(INFER_NO_AVX2)
#      define INFER__SIMD_AVX2 1
#      if defined(__clang__) ? __clang_major__ >= 13 : defined(__GNUC__) ? __GNUC__ >= 11 : _MSC_VER >= 1930
#        define INFER__HAS_AVXVNNI 1 /* the compiler knows it */
#      endif
#      if !defined(INFER_NO_AVX512)
#        define INFER__SIMD_AVX512 1 /* its code also uses that of AVX2 */
#      endif
#    endif
#  elif defined(INFER__ARM64) && !INFER__BIG_ENDIAN
#    define INFER__SIMD_ARM 1
#  endif
#endif

/* Vector extensions used if the compiler's target has them. */
#if !defined(INFER_NO_SIMD)
#  if defined(__riscv_vector) && defined(__riscv_v_intrinsic)
#    define INFER__SIMD_RVV 1
#  elif defined(__wasm_simd128__)
#    define INFER__SIMD_WASM 1
#  endif
#endif

#if defined(_WIN32)
#  define INFER__WINDOWS 1
#endif

/* Atomics are used whenever the compiler has them, also without threads of our own: the host may have threads. */
#if defined(__GNUC__) || defined(__clang__)
#  define INFER__ATOMICS 1
#  if defined(__GCC_ATOMIC_LLONG_LOCK_FREE) && __GCC_ATOMIC_LLONG_LOCK_FREE == 2
#    define INFER__ATOMICS_NATIVE 1
#  else
#    define INFER__ATOMICS_LOCKED 1
#  endif
#elif defined(_MSC_VER)
#  define INFER__ATOMICS 1
#  define INFER__ATOMICS_MSVC 1
#endif

/* Threads of our own: not where there are no atomics (tcc) or no threads. */
#if !defined(INFER_NO_THREADS) && defined(INFER__ATOMICS)
#  if defined(INFER__WINDOWS) || defined(__APPLE__) || defined(__linux__) || defined(__HAIKU__) || \
      (defined(__EMSCRIPTEN__) ? defined(__EMSCRIPTEN_PTHREADS__) : defined(__unix__))
#    define INFER__THREADS 1
#  endif
#endif

#if defined(__GNUC__) || defined(__clang__)
#  define INFER__FOLDED static inline __attribute__((always_inline, unused)) /* what it returns is known to callers */
/* without target attributes the compiler may weigh it */
#  if defined(INFER_NO_SIMD) && (defined(__OPTIMIZE_SIZE__) || defined(INFER_MINIMAL))
#    define INFER__INLINE static inline __attribute__((unused))
#  else
#    define INFER__INLINE INFER__FOLDED
#  endif
#  define INFER__TARGET(t) __attribute__((target(t)))
#  if defined(__MINGW32__) && !defined(__clang__)
#    define INFER__PRINTF(f, a) __attribute__((format(gnu_printf, f, a)))
#  else
#    define INFER__PRINTF(f, a) __attribute__((format(printf, f, a)))
#  endif
#  define INFER__UNUSED __attribute__((unused))
#  define INFER__RESTRICT __restrict__
#elif defined(_MSC_VER)
#  define INFER__FOLDED static __forceinline
#  define INFER__INLINE static __forceinline
#  define INFER__TARGET(t)
#  define INFER__PRINTF(f, a)
#  define INFER__UNUSED
#  define INFER__RESTRICT __restrict
#else
#  define INFER__FOLDED static inline
#  define INFER__INLINE static inline
#  define INFER__TARGET(t)
#  define INFER__PRINTF(f, a)
#  define INFER__UNUSED
#  define INFER__RESTRICT
#endif

/* Around parts that run once or rarely: with less optimisation there, compile time drops and no benchmark changes. Left
 * alone, clang makes one giant function of parts that are called once, hence noinline; gcc's -Og is its cheapest level,
 * but objects grow unless it inlines what is called once. Without optimisation all stay without.
 * INFER_MINIMAL is for size: there what INFER__SMALL_BEGIN .. END enclose is such a part, too: all but kernels.
 * No header of intrinsics may come first in such a part: clang would call every one (tests/compile/cold.py). */
#if defined(__clang__) && defined(__OPTIMIZE__)
#  define INFER__COLD_BEGIN _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)") \
                            _Pragma("clang attribute push(__attribute__((noinline)), apply_to = function)")
#  define INFER__COLD_END _Pragma("clang attribute pop") _Pragma("clang attribute pop")
#elif defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#  if defined(INFER_MINIMAL) && __GNUC__ >= 12
#    define INFER__COLD_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize (\"Oz\", \"no-tree-dominator-opts\")")
#  elif defined(INFER_MINIMAL)
#    define INFER__COLD_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize (\"Os\")")
#  else
#    define INFER__COLD_BEGIN _Pragma("GCC push_options") \
                              _Pragma("GCC optimize (\"Og\", \"inline-functions-called-once\")")
#  endif
#  define INFER__COLD_END _Pragma("GCC pop_options")
#else
#  define INFER__COLD_BEGIN
#  define INFER__COLD_END
#endif
#if defined(INFER_MINIMAL)
#  define INFER__SMALL_BEGIN INFER__COLD_BEGIN
#  define INFER__SMALL_END INFER__COLD_END
#else
#  define INFER__SMALL_BEGIN
#  define INFER__SMALL_END
#endif

/* Passes of gcc -O2 that are 5 % of its instructions and change no kernel (make bench-count, make bench-text), off
 * in all of the implementation but INFER_MINIMAL, which would grow. Scheduling pays on CPUs that run instructions in
 * order; those of x86 do not. Headers of intrinsics come outside: with options of its own each of their functions takes
 * memory. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8 && defined(__OPTIMIZE__) && \
    !defined(__OPTIMIZE_SIZE__) && !defined(INFER_MINIMAL)
#  if defined(__x86_64__) || defined(__i386__)
#    define INFER__PASSES _Pragma("GCC optimize \"no-tree-pre,no-cse-follow-jumps,no-crossjumping,no-schedule-insns2\"")
#  else
#    define INFER__PASSES _Pragma("GCC optimize \"no-tree-pre,no-cse-follow-jumps,no-crossjumping\"")
#  endif
#  define INFER__PASSES_BEGIN _Pragma("GCC push_options") INFER__PASSES
#  define INFER__PASSES_END _Pragma("GCC pop_options")
#else
#  define INFER__PASSES_BEGIN
#  define INFER__PASSES_END
#endif

/* Before a loop over an array of registers: gcc -O2 leaves it a loop, and the registers in memory. */
#if defined(__clang__)
#  define INFER__UNROLL _Pragma("unroll")
#elif defined(__GNUC__) && __GNUC__ >= 8
#  define INFER__UNROLL _Pragma("GCC unroll 16")
#else
#  define INFER__UNROLL
#endif

/* Prefetch a cache line that will be read (written) soon; any address. FAR: into the L2 cache, for data that
 * is read once from memory: a core has several times as many misses under way to it as to the first level (Zen 4: a
 * token of a 1B model takes two thirds of the time). */
#if defined(__wasm__) || (defined(__riscv) && !defined(__riscv_zicbop)) /* has no such instruction */
#  define INFER__CAN_PREFETCH 0
#elif defined(__GNUC__) || defined(__clang__)
#  define INFER__CAN_PREFETCH 1
#  define INFER__PREFETCH(p) __builtin_prefetch(p)
#  if defined(__x86_64__) && !defined(__TINYC__) /* without -mprfchw the builtin would ask for a copy to read */
#    define INFER__PREFETCH_WRITE(p) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(p)))
#  else
#    define INFER__PREFETCH_WRITE(p) __builtin_prefetch(p, 1)
#  endif
#  define INFER__PREFETCH_FAR(p) __builtin_prefetch(p, 0, 2)
#else
#  define INFER__CAN_PREFETCH 0
#endif
#if !INFER__CAN_PREFETCH
#  define INFER__PREFETCH(p) (void)(p)
#  define INFER__PREFETCH_WRITE(p) (void)(p)
#  define INFER__PREFETCH_FAR(p) (void)(p)
#endif

/* The float v as if stored and reloaded: prevents fusing across this point, and x87's extra precision. */
#if defined(__GNUC__) || defined(__clang__)
#  define INFER__ROUNDED(v) __asm__("" : "+m"(v))
#else
#  define INFER__ROUNDED(v) (void)(v)
#endif

/* A programming error inside the library: checked in tests (their build defines INFER_ASSERT), absent for users. */
#ifdef INFER_ASSERT
#  define INFER__ASSERT(x) INFER_ASSERT(x)
#else
#  define INFER__ASSERT(x) ((void)0)
#endif

#define INFER__COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define INFER__MIN(a, b) ((a) < (b) ? (a) : (b))
#define INFER__MAX(a, b) ((a) > (b) ? (a) : (b))
#define INFER__ALIGN 64 /* of every allocation: a cache line, and one AVX-512 register */

/* Overflow-checked sizes: return 1 and set *out, or return 0. */
INFER__INLINE int infer__mul_ok(uint64_t a, uint64_t b, uint64_t *out) {
    if (a != 0 && b > UINT64_MAX / a) return 0;
    *out = a * b;
    return 1;
}
INFER__INLINE int infer__add_ok(uint64_t a, uint64_t b, uint64_t *out) {
    if (b > UINT64_MAX - a) return 0;
    *out = a + b;
    return 1;
}

/* Unaligned little-endian loads: files are little-endian and blocks may be at any address. */
INFER__INLINE uint16_t infer__load_u16(const void *p) {
    const uint8_t *b = (const uint8_t *)p;
    return (uint16_t)(b[0] | b[1] << 8);
}
INFER__INLINE uint32_t infer__load_u32(const void *p) {
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
INFER__INLINE uint64_t infer__load_u64(const void *p) {
    return (uint64_t)infer__load_u32(p) | (uint64_t)infer__load_u32((const uint8_t *)p + 4) << 32;
}
INFER__INLINE float infer__bits_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
INFER__INLINE uint32_t infer__f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
INFER__INLINE float infer__load_f32(const void *p) { return infer__bits_f32(infer__load_u32(p)); }

/* IEEE half -> float, exact, all inputs (subnormals, infinities, NaN). Never touches a float32 subnormal, so that
 * -ffast-math, which makes the CPU flush those to zero, changes nothing. Masks: gcc does not vectorise a branch. */
INFER__INLINE float infer__f16_f32(uint16_t h) {
    uint32_t em = (uint32_t)(h & 0x7fffu) << 13;                              /* exponent and mantissa in place */
    float tiny = (float)(int32_t)(h & 0x3ffu) * infer__bits_f32(0x33800000u); /* if subnormal: mantissa * 2^-24 */
    uint32_t is_tiny = 0u - (uint32_t)(em < 0x00800000u);                     /* masks: all ones when so */
    uint32_t is_top = 0u - (uint32_t)(em >= 0x0f800000u);                     /* infinity, NaN: exponent stays on top */
    uint32_t bits = em + 0x38000000u + (is_top & 0x38000000u);
    bits = (bits & ~is_tiny) | (infer__f32_bits(tiny) & is_tiny);
    return infer__bits_f32((uint32_t)(h & 0x8000u) << 16 | bits);
}
/* float -> half (IEEE 754-2019, 4.3.1): to nearest, ties to even, overflow to infinity, NaN kept quiet. Masks as above.
 * Below 2^-14 the sum with 0.5, whose last bit is 2^-24, is rounded as a subnormal half is. */
INFER__INLINE uint16_t infer__f32_f16(float f) {
    uint32_t u = infer__f32_bits(f), a = u & 0x7fffffffu;
    uint32_t is_tiny = 0u - (uint32_t)((int32_t)a < 0x38800000);
    uint32_t is_top = 0u - (uint32_t)((int32_t)a >= 0x477ff000); /* 65520 and more */
    uint32_t is_nan = 0u - (uint32_t)((int32_t)a > 0x7f800000);
    uint32_t r = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13; /* a carry moves into the exponent as it should */
    uint32_t tiny = infer__f32_bits(infer__bits_f32(a) + 0.5f) - 0x3f000000u;
    uint32_t top = 0x7c00u | (is_nan & (0x200u | (a >> 13 & 0x3ffu)));
    r = (r & ~is_tiny & ~is_top) | (tiny & is_tiny) | (top & is_top);
    return (uint16_t)(u >> 16 & 0x8000u) | (uint16_t)r;
}
INFER__INLINE float infer__bf16_f32(uint16_t h) { return infer__bits_f32((uint32_t)h << 16); }
/* float -> bfloat16, round to nearest even, NaN kept quiet. */
INFER__INLINE uint16_t infer__f32_bf16(float f) {
    uint32_t u = infer__f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 64);
    return (uint16_t)((u + (0x7fffu + (u >> 16 & 1))) >> 16);
}
/* 1 when f is neither infinite nor NaN; by bits, so that -ffast-math cannot remove it. */
INFER__INLINE int infer__finite(float f) { return (infer__f32_bits(f) & 0x7f800000u) != 0x7f800000u; }

/* Random numbers: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). */
INFER__INLINE uint64_t infer__splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* FNV-1a, 64 bits, over more bytes; INFER__FNV is the hash of none (Fowler, Noll, Vo; IETF draft-eastlake-fnv). */
#define INFER__FNV 0xcbf29ce484222325u
INFER__INLINE uint64_t infer__fnv(uint64_t h, const void *data, uint64_t n) {
    const uint8_t *p = (const uint8_t *)data;
    uint64_t i;
    for (i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* ---- atomics ---------------------------------------------------------------------------------- */
/* Sequentially consistent on 32 and 64 bits; plain accesses only where the compiler has no atomics (tcc). In os.c. */
#if defined(INFER__ATOMICS_NATIVE)
typedef struct infer__atomic { volatile int64_t v __attribute__((aligned(8))); } infer__atomic; /* i386 would say 4 */
#elif defined(INFER__ATOMICS_LOCKED)
typedef struct infer__atomic { volatile int64_t v; volatile char lock; } infer__atomic;
#else
typedef struct infer__atomic { volatile int64_t v; } infer__atomic;
#endif
static int64_t infer__atomic_add(infer__atomic *a, int64_t n); /* returns the value before */
static int64_t infer__atomic_get(const infer__atomic *a);
static void infer__atomic_set(infer__atomic *a, int64_t n);
static int infer__atomic_swap(infer__atomic *a, int64_t from, int64_t to); /* 1: it was `from` and is `to` */
static void infer__atomic_raise(infer__atomic *a, int64_t n);              /* to n, unless it is more */
/* An object that runs one call at a time counts beginnings and ends of calls: odd while one runs, and then its number.
 * 1: the object is claimed by this call until infer__unclaim; 0: it is in use. */
static int infer__claim(infer__atomic *calls);
static void infer__unclaim(infer__atomic *calls);
/* How long an object lives: references of the caller who made it (INFER__OWNED, until infer__refs_close) and of each
 * object and each running call that needs it. Whoever is told that it was the last frees the object. */
#define INFER__OWNED ((int64_t)1 << 40)
static void infer__refs_take(infer__atomic *refs);
static int infer__refs_drop(infer__atomic *refs);  /* 1 = it was the last */
static int infer__refs_close(infer__atomic *refs); /* 1 = it was the last, 0 = others are left, -1 = closed before */
static int infer__refs_open(const infer__atomic *refs); /* 1 = not closed */
/* A list that any thread puts links on; one thread at a time takes all of them. Empty = 0. */
typedef struct infer__link { struct infer__link *next; } infer__link;
static void infer__links_put(infer__atomic *list, infer__link *x);
static infer__link *infer__links_take(infer__atomic *list);

/* ---- report.c: errors and log ------------------------------------------------------------------ */

typedef struct infer__report {
    infer_log_fn log; /* may be NULL */
    void *user;
} infer__report;

/* Fill *err (may be NULL) and return code, so that `return infer__error(err, INFER_ERR_FORMAT, "...", ...)`
 * is the usual way to fail. Long messages are truncated at a UTF-8 character boundary; control bytes become '?'. */
static infer_result infer__error(infer_error *err, infer_result code, const char *format, ...) INFER__PRINTF(3, 4);
/* ARGUMENT when a field of a later version is set in the caller's struct, which is called `name`. */
enum { INFER__RESERVED = 4 };
static infer_result infer__reserved_check(const uint64_t *reserved, const char *name, infer_error *err);
/* UNSUPPORTED: `what` (a plural) was left out of this build by the switch `by`. */
static infer_result infer__left_out(infer_error *err, const char *what, const char *by);
/* *err = no error; NULL is accepted. */
static void infer__error_clear(infer_error *err);
/* snprintf for the library: no locale, no <stdio.h>; d i u x X p s c g f e % with flags, width, precision and lengths.
 * Always terminates (cap 0: writes nothing) and returns the full length. Doubles are correct to about 15 digits. */
static size_t infer__format(char *dst, size_t cap, const char *format, ...) INFER__PRINTF(3, 4);
/* The same with a va_list: returns 1 when it was cut, *full is the full length; cap >= 1. */
static int infer__format_cut(char *dst, size_t cap, size_t *full, const char *f, va_list args);
static void infer__log(const infer__report *r, int level, const char *format, ...) INFER__PRINTF(3, 4);

/* ---- mem.c: counted, limited memory ------------------------------------------------------------ */

/* One per model; contexts and sessions use the model's. Counts live bytes against the limit. Thread safe as far
 * as the user's allocator is. */
typedef struct infer__mem {
    infer_allocator a; /* resolved: never NULL functions */
    uint64_t limit;    /* 0 = none */
    infer__atomic used; /* bytes allocated, plus what infer__mem_reserve counted */
    infer__atomic held; /* bytes that the allocator gave: those allocated, with headers and padding; */
    infer__atomic peak; /* and the most at one time */
} infer__mem;

static void infer__mem_init(infer__mem *m, const infer_allocator *a, uint64_t limit);
/* size bytes aligned to INFER__ALIGN, NOT zeroed; NULL when out of memory, past the limit, or size is 0. */
static void *infer__alloc(infer__mem *m, uint64_t size);
/* n * size bytes, zeroed; NULL on overflow too. */
static void *infer__calloc(infer__mem *m, uint64_t n, uint64_t size);
/* Resize to n * size keeping the content (p may be NULL); NULL leaves p as it was. */
static void *infer__realloc(infer__mem *m, void *p, uint64_t n, uint64_t size);
/* NULL is accepted; the size is remembered with the block. */
static void infer__free(infer__mem *m, void *p);
/* Bytes that the allocator is asked for by infer__alloc(m, size); 0 for 0. */
static uint64_t infer__block_bytes(uint64_t size);
/* Count n bytes that are not allocated here (mapped files) against the limit: 1, or 0 when it would be passed. */
static int infer__mem_reserve(infer__mem *m, uint64_t n);
static void infer__mem_release(infer__mem *m, uint64_t n);

/* Many small allocations that are freed together. Zero-initialise with mem set. */
typedef struct infer__arena {
    infer__mem *mem;
    void *blocks; /* singly linked */
    size_t at, cap;
} infer__arena;
/* size bytes (0 counts as 1) aligned to 16, zeroed; NULL when out of memory. */
static void *infer__arena_alloc(infer__arena *a, uint64_t size);
static void *infer__arena_raw(infer__arena *a, uint64_t size); /* not zeroed */
static char *infer__arena_text(infer__arena *a, const char *s, size_t n); /* a zero-terminated copy */
static void infer__arena_free(infer__arena *a);

/* A growing string. Zero-initialise with mem set; limit = maximum bytes, 0 = none. After a failure (no memory, or limit
 * exceeded) failed is 1 and further output is dropped, so that callers check once, at the end. s is zero-terminated
 * when not
 * NULL. */
typedef struct infer__bytes {
    infer__mem *mem;
    char *s;
    size_t n, cap, limit;
    int failed;
} infer__bytes;
static void infer__bytes_put(infer__bytes *b, const void *s, size_t n);
static void infer__bytes_text(infer__bytes *b, const char *s); /* zero-terminated */
static void infer__bytes_char(infer__bytes *b, char c);
static void infer__bytes_format(infer__bytes *b, const char *format, ...) INFER__PRINTF(2, 3); /* at most 500 bytes */
static void infer__bytes_free(infer__bytes *b); /* as it was before the first put */

/* ---- number.c: decimal <-> double, exactly, in every locale --------------------------------------- */

/* The double nearest to the number that s[0..n) begins with ([+-] digits [. digits] [e [+-] digits]), ties to even, as
 * IEEE 754 has it; overflow gives infinity. *len is the length read, 0 when there is no number. */
static double infer__double_parse(const char *s, size_t n, size_t *len);
/* The shortest text that reads back as x, as Python's repr writes it: "0.1", "1e-07", "100000.0", "inf", "nan". Returns
 * its length (below 32); out is zero-terminated. */
static size_t infer__double_text(double x, char out[32]);
/* x (finite, >= 0) with `precision` (0 to 300) digits after the point, correctly rounded, ties to even: 12.50,
 * 1.25e+01. Returns the length; out is zero-terminated. */
static size_t infer__double_fixed(double x, int precision, char out[700]);
static size_t infer__double_scientific(double x, int precision, char out[700]);

/* ---- os.c: the only OS calls ------------------------------------------------------------------- */

static double infer__seconds(void); /* monotonic */
/* The local time now: year, month 1..12, day, hour, minute, second. 0 = not known. */
static int infer__local_time(int out[6]);
/* The number of processors that this process may run on, and of cores among them; both >= 1. */
static int infer__processors(int *cores);
static int infer__cores(void);      /* the latter */
static void infer__yield(void);     /* let another thread run */

/* The machine's memory in bytes, or the limit of control groups; 0 where the system does not report it. `available`
 * includes reclaimable caches. */
static void infer__machine_memory(uint64_t *total, uint64_t *available, uint64_t *swap);
static int64_t infer__process(void); /* number of this process; another one after fork(). 0 where that is unknown */
/* ---- watch.c: how long a call may go on ----------------------------------------------------------- */

enum { INFER__WATCH_EVERY = 4096 }; /* units of work between two looks: 0.2 ms */
/* Default time limit in seconds for calls that compile or render untrusted input, when limits.seconds is 0. */
#ifndef INFER__WATCH_SECONDS
#  define INFER__WATCH_SECONDS 2.0
#endif
/* Belongs to one call. */
typedef struct infer__watch {
    infer_limits limits;
    double end;          /* of infer__seconds */
    uint64_t done, next; /* units of work, some 50 ns each; when to look again */
    infer_result r;      /* why it has to stop */
} infer__watch;
/* limits may be NULL; usual: seconds where they say none, 0 = no deadline. */
static void infer__watch_begin(infer__watch *w, const infer_limits *limits, double usual);
static int infer__watch_look(infer__watch *w);
/* Count n units: 1 = go on. w may be NULL. */
INFER__INLINE int infer__watch_work(infer__watch *w, uint64_t n) {
    return !w || (w->done += n) < w->next || infer__watch_look(w);
}
/* "cancelled while WHAT", or "WHAT took longer than ...". */
static infer_result infer__watch_error(const infer__watch *w, const char *what, infer_error *err);

/* Slices: work that stops after a while and continues in a later call. The end of one is a time of infer__seconds; 0 =
 * no limit; below 0 = after the smallest piece, whatever the clock's resolution. */
INFER__INLINE double infer__slice_end(int32_t budget_ms) { /* below 0 = without an end */
    return budget_ms < 0 ? 0 : budget_ms == 0 ? -1 : infer__seconds() + budget_ms * 1e-3;
}
INFER__INLINE int infer__slice_over(double end) {
    return INFER__HAS_SLICES && end != 0 && (end < 0 || infer__seconds() >= end);
}

/* Work in slices (opening a model): loops process a piece, remember where they are, and return INFER_MORE when the
 * slice is over. NULL, or no limit: one piece is everything. */
typedef struct infer__budget {
    double end;    /* infer__slice_end */
    uint64_t done; /* units of work since the slice began: elements of an array, or INFER__BUDGET_BYTES each */
} infer__budget;
enum { INFER__BUDGET_PIECE = 2048, INFER__BUDGET_BYTES = 512 }; /* units of a piece: some 0.1 to 0.5 ms */
/* How many of n elements, each of the given units, are done before the next look at the clock. */
INFER__INLINE uint64_t infer__budget_piece(const infer__budget *s, uint64_t n, uint64_t units) {
    return INFER__HAS_SLICES && s && s->end != 0 ? INFER__MIN(n, INFER__BUDGET_PIECE / units) : n;
}
/* As many bytes as a piece may have, of n. */
INFER__INLINE uint64_t infer__budget_bytes(const infer__budget *s, uint64_t n) {
    return INFER__HAS_SLICES && s && s->end != 0 ? INFER__MIN(n, (uint64_t)INFER__BUDGET_PIECE * INFER__BUDGET_BYTES)
                                                 : n;
}
/* Count n units; 1 = the slice is over. */
INFER__INLINE int infer__budget_over(infer__budget *s, uint64_t n) {
    if (!INFER__HAS_SLICES || !s) return 0;
    s->done += n;
    return infer__slice_over(s->end);
}

/* A file for reading. Paths are UTF-8. Directories, pipes and devices are refused; an empty file has size 0 and no
 * map. A map that fails is no error: map stays NULL and infer__file_read works. INFER_NO_STDIO: UNSUPPORTED.
 * INFER__MAP_SAFE does not map a file that every user may write, since it could be truncated while mapped. */
enum { INFER__MAP_NEVER, INFER__MAP_SAFE, INFER__MAP_ALWAYS };
typedef struct infer__file {
    intptr_t handle; /* 0 = closed */
    uint64_t size;
    void *map; /* whole file, or NULL */
    intptr_t map_handle;
    int shared; /* that is why it is not mapped */
} infer__file;
/* 0 when a mapped file has been truncated, to *size bytes: reading beyond that would kill the process. */
static int infer__file_whole(const infer__file *f, uint64_t *size);
static infer_result infer__file_open(infer__file *f, const char *path, int want_map, infer_error *err);
static size_t infer__file_read(infer__file *f, uint64_t offset, void *dst, size_t n); /* bytes read; thread safe */
static void infer__file_close(infer__file *f);
static void
infer__file_release(const infer__file *f);         /* gives the pages of its map, locked or not, back to the system,
                                                    * which reads them again on access */
/* n bytes of its map, from a multiple of 1 MiB on, stay in memory until it is closed; 0 = not possible */
static int infer__file_lock(const infer__file *f, uint64_t from, uint64_t n);

typedef struct infer__mutex infer__mutex; /* the structs are in os.c; *_init and *_start return 1, or 0 on failure */
typedef struct infer__cond infer__cond;
typedef struct infer__thread infer__thread;
typedef void (*infer__thread_fn)(void *arg);
static int infer__mutex_init(infer__mutex *m);
static void infer__mutex_destroy(infer__mutex *m);
static void infer__mutex_lock(infer__mutex *m);
static void infer__mutex_unlock(infer__mutex *m);
static int infer__cond_init(infer__cond *c);
static void infer__cond_destroy(infer__cond *c);
static void infer__cond_wait(infer__cond *c, infer__mutex *m);
static void infer__cond_broadcast(infer__cond *c);
static int infer__thread_start(infer__thread *t, infer__thread_fn fn, void *arg); /* 0 with INFER_NO_THREADS */
static void infer__thread_join(infer__thread *t);
/* Where a pool's threads run: worker i on processors[i % n] (n 0 = anywhere); low: behind other threads. */
typedef struct infer__placing { const int32_t *processors; int32_t n, low; } infer__placing;
/* 1 when this process may run there and the system can pin a thread there; -1 = it cannot pin threads. */
static int infer__processor_there(int32_t processor);
static void infer__thread_place(int32_t processor, int low); /* the calling thread; processor -1 = anywhere */
static uint64_t infer__thread_self(void); /* the calling thread: never 0 */

/* Threads that are started between the two block every signal except their own faults, and so does the caller. */
typedef struct infer__signals { uint64_t old[16]; int held; } infer__signals;
static void infer__signals_block(infer__signals *s);
static void infer__signals_restore(const infer__signals *s);

/* Run fn once in the process, whatever the number of callers and threads; with signals blocked. */
typedef struct infer__once { infer__atomic state; } infer__once;
static void infer__call_once(infer__once *o, void (*fn)(void));

/* Ask for huge pages for n bytes at p, which the program allocated; a hint. */
#if defined(__linux__) && !defined(INFER_NO_MMAP) && UINTPTR_MAX > 0xffffffffu
#  define INFER__HUGE_PAGES 1
static void infer__os_huge_pages(void *p, size_t n);
#else
#  define INFER__HUGE_PAGES 0
#  define infer__os_huge_pages(p, n) ((void)(p), (void)(n))
#endif

/* dlopen and friends: NULL when there is no such library or symbol, or with INFER_NO_RUNTIME_LINKING. */
static void *infer__lib_open(const char *name);
static void *infer__lib_symbol(void *lib, const char *name);
static void infer__lib_close(void *lib);

/* ---- pool.c: parallel_for ---------------------------------------------------------------------- */

typedef struct infer__pool infer__pool;
/* fn(arg, task, worker): task in 0..n_tasks-1, each exactly once; worker in 0..threads-1 names scratch that no
 * other running task uses. */
typedef void (*infer__task_fn)(void *arg, int task, int worker);
/* threads >= 1 including the caller's; placing NULL = anywhere; host != NULL uses the host's parallel_for instead of
 * own threads.
 * Starting fewer threads than asked is not an error (the pool runs with those it has). */
static infer_result infer__pool_create(infer__pool **out, infer__mem *mem, int threads, const infer__placing *placing,
                                       infer_parallel_fn host, void *host_user, infer_error *err);
/* Bytes that one of so many threads takes of the allocator. */
static uint64_t infer__pool_bytes(int threads, infer_parallel_fn host);
static void infer__pool_destroy(infer__pool *p);
static int infer__pool_threads(const infer__pool *p);
/* 1 in a child of fork(), which has no worker threads. */
static int infer__pool_lost(const infer__pool *p);
/* The task that a worker begins with; its next ones are those after it. */
static int infer__pool_first(const infer__pool *p, int n_tasks, int worker);
/* In a task: wait until *a is n, which running tasks on other threads will make true within microseconds. */
static void infer__await(const infer__atomic *a, int64_t n);
/* Run all tasks and return. Results must not depend on which worker runs a task: every sum has a fixed order. Runs
 * inline when n_tasks is 1. p NULL = inline. One job at a time; tasks do not call it. */
static void infer__parallel(infer__pool *p, int n_tasks, infer__task_fn fn, void *arg);

#endif
