/* peaks.c: the machine's peak rates, for `infer bench`: bytes read from memory per second, int8 and bf16 dot
 * products and float32 multiply-adds per second, with the threads of the run and within its CPU level.
 *
 * How:   all threads start at one moment and work in small pieces until another; only work between the two counts, so
 *        that slow starts of threads do not matter. The best of several windows is the peak: other load makes one
 *        slower, never faster.
 * Rules: a loop keeps enough independent sums to hide the latency of its instruction (4 to 6 cycles, two a cycle: 12 on
 *        x86, 16 on ARM with four units; 8 where three instructions make a step). KEEP makes the compiler forget what a
 *        register holds; without it equal sums would be computed once, and constant products before the loop.
 *        A multiplication and its addition are two operations, as in every data sheet.
 * Start: cli_measure_peaks; the tables above it say what is tried, best first.
 * Without GCC's or Clang's target attributes, and on other CPUs, plain C is measured: what it reaches there. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__) && !defined(INFER_NO_SIMD)
#  if defined(__x86_64__)
#    define ON_X86 1
#    include <immintrin.h>
#    if defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11
#      define HAS_AVXVNNI 1
#    endif
#    if defined(__clang__) ? __clang_major__ >= 9 : __GNUC__ >= 10
#      define HAS_BF16 1
#    endif
#  elif defined(__aarch64__) && !defined(__AARCH64EB__) /* intrinsics by attribute: GCC 10 and Clang 16 */
#    define ON_ARM 1
#    include <arm_neon.h>
#    if defined(__clang__) ? __clang_major__ >= 16 : __GNUC__ >= 10
#      define HAS_DOTS 1
#    endif
#  endif
#endif

enum {
    LANES = 64,              /* values of the plain loops */
    WINDOWS = 25,            /* measured; the best one counts: short ones, so that some are undisturbed */
    PIECE = 256 * 1024,      /* bytes that a thread reads between two looks at the clock */
    MOST_BYTES = 512 << 20,  /* read in sequence: far more than caches hold */
    LEAST_BYTES = 32 << 20
};
static const double WINDOW_S = 0.006, START_S = 0.002;

/* What one thread works on. */
typedef struct lane {
    const char *data; /* its part of the buffer, a multiple of PIECE */
    size_t bytes, at;
    int8_t a[LANES], b[LANES];
    float x[LANES], y[LANES];
    uint64_t sum;
    double done, ended; /* units of work in the window, when its last piece was finished */
} lane;

/* ---- plain C --------------------------------------------------------------------------------- */

static void int8_plain(lane *l, long n) {
    for (; n > 0; n--) {
        int32_t s = 0;
        int i;
        l->a[n & (LANES - 1)] = (int8_t)n; /* so that no pass over them is like the last */
        for (i = 0; i < LANES; i++) s += (int32_t)l->a[i] * l->b[i];
        l->sum += (uint32_t)s;
    }
}

static void f32_plain(lane *l, long n) {
    float s[LANES];
    int i;
    memcpy(s, l->y, sizeof s);
    for (; n > 0; n--) {
        for (i = 0; i < LANES; i++) s[i] += l->x[i] * l->y[i];
    }
    memcpy(l->y, s, sizeof s);
}

static void read_plain(lane *l, long n) {
    const uint64_t *p = (const uint64_t *)(const void *)(l->data + l->at), *end = p + (size_t)n / sizeof *p;
    uint64_t s[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int i;
    for (; p < end; p += 8) {
        for (i = 0; i < 8; i++) s[i] ^= p[i];
    }
    for (i = 0; i < 8; i++) l->sum ^= s[i];
}

/* ---- loops of one instruction ----------------------------------------------------------------- */

#define EACH_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH_12(X) EACH_8(X) X(8) X(9) X(10) X(11)
#define EACH_16(X) EACH_12(X) X(12) X(13) X(14) X(15)
#define KEEP_SUM(i) KEEP(s##i)

/* A function NAME whose rounds do STEP(i) to the sums s0, s1, ... (as many as EACH goes through) with inputs a, b. */
#define LOOP(NAME, TARGET, EACH, SUMS, INPUTS, STEP)                                                                   \
    __attribute__((target(TARGET))) static void NAME(lane *l, long n) {                                                \
        INPUTS EACH(SUMS)                                                                                              \
        (void)l;                                                                                                       \
        for (; n > 0; n--) { EACH(STEP) }                                                                              \
        EACH(KEEP_SUM)                                                                                                 \
    }

/* A function NAME that reads n bytes: 8 loads of SIZE bytes a round into four sums; AHEAD asks for lines further on. */
#define READ(NAME, TARGET, TYPE, ZERO, LOAD, XOR, SIZE, AHEAD)                                                         \
    __attribute__((target(TARGET))) static void NAME(lane *l, long n) {                                                \
        const char *p = l->data + l->at, *end = p + n;                                                                 \
        TYPE s0 = ZERO, s1 = s0, s2 = s0, s3 = s0;                                                                     \
        for (; p < end; p += 8 * (SIZE)) {                                                                             \
            AHEAD                                                                                                      \
            s0 = XOR(XOR(s0, LOAD(p)), LOAD(p + 4 * (SIZE)));                                                          \
            s1 = XOR(XOR(s1, LOAD(p + (SIZE))), LOAD(p + 5 * (SIZE)));                                                 \
            s2 = XOR(XOR(s2, LOAD(p + 2 * (SIZE))), LOAD(p + 6 * (SIZE)));                                             \
            s3 = XOR(XOR(s3, LOAD(p + 3 * (SIZE))), LOAD(p + 7 * (SIZE)));                                             \
        }                                                                                                              \
        KEEP_SUM(0) KEEP_SUM(1) KEEP_SUM(2) KEEP_SUM(3)                                                                \
    }

#ifdef ON_X86
/* Not "v", which may name the registers that only AVX-512 has. */
#  define KEEP(x) __asm__ volatile("" : "+x"(x));
#  define AVX512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"
#  define INT128(i) __m128i s##i = _mm_setzero_si128(); KEEP(s##i)
#  define INT256(i) __m256i s##i = _mm256_setzero_si256(); KEEP(s##i)
#  define INT512(i) __m512i s##i = _mm512_setzero_si512(); KEEP(s##i)
#  define FLOAT256(i) __m256 s##i = _mm256_setzero_ps(); KEEP(s##i)
#  define FLOAT512(i) __m512 s##i = _mm512_setzero_ps(); KEEP(s##i)

/* Before VNNI: unsigned x signed bytes to pairs in int16, those to pairs in int32, added. */
#  define MADD_128(i) KEEP(a) s##i = _mm_add_epi32(s##i, _mm_madd_epi16(_mm_maddubs_epi16(a, b), one));
#  define MADD_256(i) KEEP(a) s##i = _mm256_add_epi32(s##i, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), one));
#  define MADD_512(i) KEEP(a) s##i = _mm512_add_epi32(s##i, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), one));
LOOP(int8_sse41, "sse4.1", EACH_8, INT128,
     __m128i a = _mm_set1_epi8(1); __m128i b = a; __m128i one = _mm_set1_epi16(1);, MADD_128)
LOOP(int8_avx2, "avx2", EACH_8, INT256,
     __m256i a = _mm256_set1_epi8(1); __m256i b = a; __m256i one = _mm256_set1_epi16(1);, MADD_256)
LOOP(int8_avx512, AVX512, EACH_12, INT512,
     __m512i a = _mm512_set1_epi8(1); __m512i b = a; __m512i one = _mm512_set1_epi16(1);, MADD_512)

#  define DOT_512(i) s##i = _mm512_dpbusd_epi32(s##i, a, b);
LOOP(int8_avx512vnni, AVX512 ",avx512vnni", EACH_12, INT512, __m512i a = _mm512_set1_epi8(1); __m512i b = a;, DOT_512)
#  ifdef HAS_AVXVNNI
#    define DOT_256(i) s##i = _mm256_dpbusd_avx_epi32(s##i, a, b);
LOOP(int8_avxvnni, "avx2,avxvnni", EACH_12, INT256, __m256i a = _mm256_set1_epi8(1); __m256i b = a;, DOT_256)
#  endif
#  ifdef HAS_BF16
#    define DOT_BF16(i) s##i = _mm512_dpbf16_ps(s##i, (__m512bh)a, (__m512bh)b);
LOOP(bf16_avx512, AVX512 ",avx512bf16", EACH_12, FLOAT512, __m512i a = _mm512_set1_epi16(0x3F80); __m512i b = a;,
     DOT_BF16)
#  endif

#  if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#    define HAS_AMX 1
/* Tiles of 16 rows of 64 bytes; 0 to 3 += 4 x 5. As bytes, which every assembler takes: configure, zero, multiply, release. */
#    define TILE(bytes) __asm__ volatile(".byte 0xc4, 0xe2, " bytes);
#    define AMX(NAME, KIND, CODE)                                                                                        \
        static void NAME(lane *l, long n) {                                                                            \
            unsigned char shape[64] = {1};                                                                             \
            int i;                                                                                                     \
            (void)l;                                                                                                   \
            for (i = 0; i < 8; i++) shape[16 + 2 * i] = 64, shape[48 + i] = 16;                                        \
            __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" ::"a"(shape), "m"(shape));                           \
            TILE("0x7b, 0x49, 0xe0") TILE("0x7b, 0x49, 0xe8")                                                          \
            for (; n > 0; n--) {                                                                                       \
                TILE(KIND ", " CODE ", 0xc4") TILE(KIND ", " CODE ", 0xcc")                                            \
                TILE(KIND ", " CODE ", 0xd4") TILE(KIND ", " CODE ", 0xdc")                                            \
            }                                                                                                          \
            TILE("0x78, 0x49, 0xc0")                                                                                   \
        }
AMX(int8_amx, "0x53", "0x5e")
AMX(bf16_amx, "0x52", "0x5c")
#  endif

#  define FMA_256(i) s##i = _mm256_fmadd_ps(a, b, s##i);
#  define FMA_512(i) s##i = _mm512_fmadd_ps(a, b, s##i);
LOOP(f32_avx2, "avx2,fma", EACH_12, FLOAT256, __m256 a = _mm256_set1_ps(1); __m256 b = _mm256_set1_ps(1e-9f);, FMA_256)
LOOP(f32_avx512, AVX512, EACH_12, FLOAT512, __m512 a = _mm512_set1_ps(1); __m512 b = _mm512_set1_ps(1e-9f);, FMA_512)

#  define LOAD_256(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#  define LOAD_512(p) _mm512_loadu_si512((const void *)(p))
#  define LINE(i) _mm_prefetch(p + 4096 + 64 * (i), _MM_HINT_T0);
#  define LINES_4 LINE(0) LINE(1) LINE(2) LINE(3)
#  define LINES_8 LINES_4 LINE(4) LINE(5) LINE(6) LINE(7)
READ(read_avx2, "avx2", __m256i, _mm256_setzero_si256(), LOAD_256, _mm256_xor_si256, 32, LINES_4)
READ(read_avx2_alone, "avx2", __m256i, _mm256_setzero_si256(), LOAD_256, _mm256_xor_si256, 32, )
READ(read_avx512, AVX512, __m512i, _mm512_setzero_si512(), LOAD_512, _mm512_xor_si512, 64, LINES_8)
READ(read_avx512_alone, AVX512, __m512i, _mm512_setzero_si512(), LOAD_512, _mm512_xor_si512, 64, )
#endif

#ifdef ON_ARM
#  define KEEP(x) __asm__ volatile("" : "+w"(x));
#  define INT(i) int32x4_t s##i = vdupq_n_s32(0); KEEP(s##i)
#  define FLOAT(i) float32x4_t s##i = vdupq_n_f32(0); KEEP(s##i)
/* Before sdot: two widening products added in int16, their pairs added to int32. */
#  define MULL_S8(i)                                                                                                   \
      KEEP(a)                                                                                                          \
      s##i = vpadalq_s16(s##i, vmlal_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vget_high_s8(a), vget_high_s8(b)));
#  define FMA(i) s##i = vfmaq_f32(s##i, a, b);
LOOP(int8_neon, "arch=armv8-a", EACH_16, INT, int8x16_t a = vdupq_n_s8(1); int8x16_t b = a;, MULL_S8)
LOOP(f32_neon, "arch=armv8-a", EACH_16, FLOAT, float32x4_t a = vdupq_n_f32(1); float32x4_t b = vdupq_n_f32(1e-9f);, FMA)
#  ifdef HAS_DOTS
#    define SDOT(i) s##i = vdotq_s32(s##i, a, b);
#    define SMMLA(i) s##i = vmmlaq_s32(s##i, a, b);
LOOP(int8_dotprod, "arch=armv8.2-a+dotprod", EACH_16, INT, int8x16_t a = vdupq_n_s8(1); int8x16_t b = a;, SDOT)
LOOP(int8_i8mm, "arch=armv8.2-a+i8mm", EACH_16, INT, int8x16_t a = vdupq_n_s8(1); int8x16_t b = a;, SMMLA)
#  endif
#  define LOAD_128(p) vld1q_u8((const uint8_t *)(p))
#  define LINES_2 __builtin_prefetch(p + 4096); __builtin_prefetch(p + 4096 + 64);
READ(read_neon, "arch=armv8-a", uint8x16_t, vdupq_n_u8(0), LOAD_128, veorq_u8, 16, LINES_2)
READ(read_neon_alone, "arch=armv8-a", uint8x16_t, vdupq_n_u8(0), LOAD_128, veorq_u8, 16, )
#endif

/* ---- what is tried --------------------------------------------------------------------------- */

enum { READS, INT8, BF16, F32, N_KINDS };

/* Best first: of a kind, the first row whose level is there and allowed is measured; of reads, all of that level. */
static const struct way {
    int kind;
    int32_t level;
    const char *name;
    void (*run)(lane *l, long n);
    double per_round; /* operations of one round */
    double int16;     /* where encoders multiply integers of 16 bits: that rate's share of this one */
} WAYS[] = {
#ifdef ON_X86
    {READS, INFER_CPU_AVX512, "avx512", read_avx512, 0, 0},
    {READS, INFER_CPU_AVX512, "avx512", read_avx512_alone, 0, 0},
    {READS, INFER_CPU_AVX2, "avx2", read_avx2, 0, 0},
    {READS, INFER_CPU_AVX2, "avx2", read_avx2_alone, 0, 0},
#  ifdef HAS_AMX
    {INT8, INFER_CPU_AMXINT8, "tdpbssd", int8_amx, 4 * 16 * 16 * 64 * 2, 0},
    {BF16, INFER_CPU_AMXBF16, "tdpbf16ps", bf16_amx, 4 * 16 * 16 * 32 * 2, 0},
#  endif
    {INT8, INFER_CPU_AVX512VNNI, "vpdpbusd zmm", int8_avx512vnni, 12 * 64 * 2, 0.5},
#  ifdef HAS_AVXVNNI
    {INT8, INFER_CPU_AVXVNNI, "vpdpbusd ymm", int8_avxvnni, 12 * 32 * 2, 0},
#  endif
    {INT8, INFER_CPU_AVX512, "vpmaddubsw zmm", int8_avx512, 12 * 64 * 2, 0},
    {INT8, INFER_CPU_AVX2, "vpmaddubsw ymm", int8_avx2, 8 * 32 * 2, 0},
    {INT8, INFER_CPU_SSE41, "pmaddubsw", int8_sse41, 8 * 16 * 2, 0},
#  ifdef HAS_BF16
    {BF16, INFER_CPU_AVX512BF16, "vdpbf16ps zmm", bf16_avx512, 12 * 32 * 2, 0},
#  endif
    {F32, INFER_CPU_AVX512, "vfmadd zmm", f32_avx512, 12 * 16 * 2, 0},
    {F32, INFER_CPU_AVX2, "vfmadd ymm", f32_avx2, 12 * 8 * 2, 0},
#endif
#ifdef ON_ARM
    {READS, INFER_CPU_NEON, "neon", read_neon, 0, 0},
    {READS, INFER_CPU_NEON, "neon", read_neon_alone, 0, 0},
#  ifdef HAS_DOTS
    {INT8, INFER_CPU_I8MM, "smmla", int8_i8mm, 16 * 32 * 2, 0},
    {INT8, INFER_CPU_DOTPROD, "sdot", int8_dotprod, 16 * 16 * 2, 0},
#  endif
    {INT8, INFER_CPU_NEON, "smlal", int8_neon, 16 * 16 * 2, 0},
    {F32, INFER_CPU_NEON, "fmla", f32_neon, 16 * 4 * 2, 0},
#endif
    {READS, INFER_CPU_SCALAR, "plain C", read_plain, 0, 0},
    {INT8, INFER_CPU_SCALAR, "plain C", int8_plain, LANES * 2, 0},
    {F32, INFER_CPU_SCALAR, "plain C", f32_plain, LANES * 2, 0},
};
enum { N_WAYS = (int)(sizeof WAYS / sizeof WAYS[0]) };

/* May a run that is limited to a level use the instructions of another one? A level is a set of features with those of
 * the levels before it, except for AVX-VNNI, which is beside AVX-512. */
static int level_is_there(int32_t level, int32_t limit) {
    int usable = 0;
    int32_t there;
    if (level == INFER_CPU_SCALAR) return 1;
    if (infer_cpu_level_name(level, &there) != NULL) usable = there;
    if (limit == INFER_CPU_BEST) return usable;
    return usable && level <= limit && !(level == INFER_CPU_AVXVNNI && limit != INFER_CPU_AVXVNNI);
}

/* ---- measuring ------------------------------------------------------------------------------- */

typedef struct window {
    const struct way *way;
    lane *lanes;
    double begin, end;
    long rounds; /* of one piece */
} window;

static void work(void *arg, int i) {
    const window *w = arg;
    lane *l = &w->lanes[i];
    double now;
    l->done = 0;
    do now = platform_clock();
    while (now < w->begin);
    while (now < w->end) {
        if (w->way->kind == READS) {
            w->way->run(l, PIECE);
            l->at = l->at + PIECE < l->bytes ? l->at + PIECE : 0;
            l->done += PIECE;
        } else {
            w->way->run(l, w->rounds);
            l->done += (double)w->rounds * w->way->per_round;
        }
        now = platform_clock();
    }
    l->ended = now;
}

/* Units per second of all threads together in one window of the given length; 0 when threads cannot be started. Each
 * thread's rate is over its own time, so a last piece that runs past the end counts fully. */
static double one_window(window *w, int threads, double seconds) {
    double sum = 0;
    int i;
    w->begin = platform_clock() + START_S;
    w->end = w->begin + seconds;
    if (!platform_run_threads(threads, work, w)) return 0;
    for (i = 0; i < threads; i++) {
        if (w->lanes[i].ended > w->begin) sum += w->lanes[i].done / (w->lanes[i].ended - w->begin);
    }
    return sum;
}

static double best_window(const struct way *way, lane *lanes, int threads) {
    window w;
    double best = 0, rate;
    int i;
    w.way = way;
    w.lanes = lanes;
    w.rounds = 1000;
    if (way->kind != READS) { /* pieces of about 0.1 ms */
        rate = one_window(&w, 1, 0.002);
        if (rate > 0) w.rounds = (long)(1e-4 * rate / way->per_round) + 1;
    }
    for (i = 0; i < WINDOWS; i++) {
        rate = one_window(&w, threads, WINDOW_S);
        if (rate > best) best = rate;
    }
    return best;
}

static void touch(void *arg, int i) {
    const lane *l = (const lane *)arg + i;
    memset((char *)l->data, 1, l->bytes);
}

/* A buffer for all threads, its pages there; NULL when there is no memory for it. Free it. Parts begin at cache lines:
 * a load across two of them would be two. */
static char *share_buffer(lane *lanes, int threads) {
    size_t bytes = MOST_BYTES, part;
    char *data = NULL;
    int i;
    while (bytes >= LEAST_BYTES && (data = malloc(bytes + 64)) == NULL) bytes /= 2;
    if (data == NULL) return NULL;
    part = bytes / (size_t)threads / PIECE * PIECE;
    for (i = 0; i < threads; i++) {
        lanes[i].data = data + (64 - (uintptr_t)data % 64) + (size_t)i * part;
        lanes[i].bytes = part;
    }
    if (part > 0 && platform_run_threads(threads, touch, lanes)) return data;
    free(data);
    return NULL;
}

void cli_measure_peaks(int threads, int32_t level, cli_peaks *out) {
    double best[N_KINDS] = {0, 0, 0, 0};
    const char *by[N_KINDS] = {"", "", "", ""};
    int32_t found[N_KINDS] = {-1, -1, -1, -1};
    lane *lanes = calloc((size_t)threads, sizeof *lanes);
    char *data = lanes ? share_buffer(lanes, threads) : NULL;
    int i;
    memset(out, 0, sizeof *out);
    for (i = 0; lanes && i < N_WAYS; i++) {
        const struct way *w = &WAYS[i];
        double rate;
        if (w->kind == READS && data == NULL) continue;
        if (found[w->kind] >= 0 && (w->kind != READS || found[w->kind] != w->level)) continue;
        if (!level_is_there(w->level, level)) continue;
        found[w->kind] = w->level;
        rate = best_window(w, lanes, threads);
        if (rate <= best[w->kind]) continue;
        best[w->kind] = rate;
        by[w->kind] = w->name;
        if (w->kind == INT8) out->int16 = rate * w->int16;
    }
    free(data);
    free(lanes);
    out->bandwidth = best[READS];
    out->int8 = best[INT8];
    out->bf16 = best[BF16];
    out->f32 = best[F32];
    out->int8_by = by[INT8];
    out->bf16_by = by[BF16];
    out->f32_by = by[F32];
}
