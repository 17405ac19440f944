/* cpu_int8.c: the engine of quantised matrix products: the choice of functions, and splitting a product into tasks.
 *
 * Owns:  INT8 (levels), the choice of unpack functions, quantising activations, and the task of a few rows.
 * How:   the input is quantised to 8 bits once (infer__x8_prepare), chunk by chunk for all columns. A task then takes
 *        two groups of 16 rows of a weight and iterates along K in chunks of 256 values: unpack the chunk of all rows,
 *        then multiply it with every column while it is in the L1 cache. Sums are accumulated in the worker's
 *        scratch and written to y at the end. So a weight is read and unpacked once per INFER__INT8_PANEL columns,
 *        whatever the type.
 * Invariant: an element's sum runs over K in order, whatever the batch, the tiles or the threads.
 * Start: infer__int8_rows.
 */
#include "cpu_int8.h"

enum {
    INFER__INT8_ROWS = INFER__INT8_GROUPS * INFER__GROUP,
    INFER__INT8_PANEL = 512,  /* columns whose sums a worker holds, at most: 64 KiB */
    INFER__INT8_FEW = 4,      /* fewer columns are not worth a tile of two groups, */
    INFER__INT8_FEW_LONG = 8, /* nor are these of long rows of a byte a value, for which memory is the limit */
    INFER__CHUNK_BYTES = 320, /* of a row at most, in any type that unpacks: Q8_0 has 272 */
    INFER__ROW_LEAST = 512,   /* columns from which on a row is a stream; with fewer 16 rows at a time are faster */
    INFER__ROW_SPAN = 64,     /* chunks of a row whose t is kept, at most */
    INFER__ALONE_ASKS = 23    /* of an infer__alone_fn for what comes next, at most; the rest is asked for after it */
};

/* A worker's memory. */
typedef struct infer__int8_scratch {
    infer__unpacked w[INFER__INT8_GROUPS];
    uint8_t tile[INFER__INT8_ROWS * INFER__CHUNK];
#if defined(INFER__AMX)
    infer__tile_scratch tiles;
#endif
    uint8_t copy[INFER__GROUP * INFER__CHUNK_BYTES + INFER__OVERREAD]; /* rows at the end of a weight */
#if defined(INFER__ROWS)
    float t[8][INFER__ROW_SPAN * INFER__CHUNK / 32 + 16]; /* of eight rows, not 2 KiB apart: a cache's sets */
#endif
    float y[]; /* the sums of cpu_run.panel columns, INFER__INT8_ROWS each */
} infer__int8_scratch;

/* Floats of it. */
static int64_t infer__int8_scratch_len(int32_t panel) {
    return (int64_t)(sizeof(infer__int8_scratch) / sizeof(float)) + (int64_t)panel * INFER__INT8_ROWS;
}

/* ---- levels ------------------------------------------------------------------------------------------------ */

static const infer__int8 infer__int8_levels[] = { /* best first */
#if defined(INFER__SIMD_AVX512)
#  if defined(INFER__AMX)
    {"amxint8", INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512VNNI | INFER__CPU_AMXINT8,
     infer__quantise_avx512, infer__dots_avx512vnni, infer__ones_avx512vnni,
     INFER__COUNT(infer__ones_avx512vnni), infer__add_rows_avx2, &infer__int8_many_amx, 0},
#  endif
    {"avx512vnni", INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512VNNI, infer__quantise_avx512,
     infer__dots_avx512vnni, infer__ones_avx512vnni, INFER__COUNT(infer__ones_avx512vnni), infer__add_rows_avx2,
     NULL, 0},
    {"avx512", INFER__CPU_AVX2 | INFER__CPU_AVX512, infer__quantise_avx512, infer__dots_avx512, NULL, 0, NULL, NULL,
     0},
#endif
#if defined(INFER__SIMD_ARM)
#  if defined(INFER__HAVE_i8mm)
    {"i8mm", INFER__CPU_NEON | INFER__CPU_DOTPROD | INFER__CPU_I8MM, infer__quantise_neon, infer__dots_i8mm,
     infer__ones_dotprod, INFER__COUNT(infer__ones_dotprod), NULL, NULL, 0},
#  endif
#  if defined(INFER__HAVE_dotprod)
    {"dotprod", INFER__CPU_NEON | INFER__CPU_DOTPROD, infer__quantise_neon, infer__dots_dotprod,
     infer__ones_dotprod, INFER__COUNT(infer__ones_dotprod), NULL, NULL, 0},
#  endif
    {"neon", INFER__CPU_NEON, infer__quantise_neon, infer__dots_neon, infer__ones_neon,
     INFER__COUNT(infer__ones_neon), NULL, NULL, 0},
#endif
#if defined(INFER__HAS_AVXVNNI)
    {"avxvnni", INFER__CPU_AVX2 | INFER__CPU_AVXVNNI, infer__quantise_avx2, infer__dots_avxvnni,
     infer__ones_avxvnni, INFER__COUNT(infer__ones_avxvnni), infer__add_rows_avx2, NULL, 1},
#endif
#if defined(INFER__SIMD_AVX2)
    {"avx2", INFER__CPU_AVX2, infer__quantise_avx2, infer__dots_avx2, infer__ones_avx2,
     INFER__COUNT(infer__ones_avx2), infer__add_rows_avx2, NULL, 1},
#endif
#if defined(INFER__SIMD_X86)
    {"sse41", INFER__CPU_SSE41, infer__quantise_sse41, infer__dots_sse41, infer__ones_sse41,
     INFER__COUNT(infer__ones_sse41), infer__add_rows_sse41, NULL, 0},
#endif
#if defined(INFER__SIMD_RVV)
    {"rvv", INFER__CPU_RVV, infer__quantise_rvv, infer__dots_rvv, infer__ones_rvv, INFER__COUNT(infer__ones_rvv),
     infer__add_rows_rvv, NULL, 0},
#elif defined(INFER__SIMD_WASM)
    {"simd128", INFER__CPU_SIMD128, infer__quantise_scalar, infer__dots_simd128, infer__ones_simd128,
     INFER__COUNT(infer__ones_simd128), infer__add_rows_simd128, NULL, 0},
#endif
    {"scalar", 0, infer__quantise_scalar, infer__dots_scalar, NULL, 0, NULL, NULL, 0},
};

/* Best first. tiled: for levels that take such codes (infer__unpacked). */
static const struct { const infer__unpack_row *rows; size_t n; int tiled; } infer__unpack_sets[] = {
#if defined(INFER__SIMD_AVX512)
    {infer__unpacks_avx512, INFER__COUNT(infer__unpacks_avx512), 0},
    {infer__unpacks_avx512_k, INFER__COUNT(infer__unpacks_avx512_k), 0},
    {infer__unpacks_avx512_iq, INFER__COUNT(infer__unpacks_avx512_iq), 0},
#endif
#if defined(INFER__SIMD_AVX2)
    {infer__unpacks_avx2, INFER__COUNT(infer__unpacks_avx2), 1},
    {infer__unpacks_avx2_iq, INFER__COUNT(infer__unpacks_avx2_iq), 0},
#endif
#if defined(INFER__SIMD_X86)
    {infer__unpacks_sse41, INFER__COUNT(infer__unpacks_sse41), 0},
#endif
#if defined(INFER__SIMD_ARM)
    {infer__unpacks_neon, INFER__COUNT(infer__unpacks_neon), 0},
#endif
#if defined(INFER__SIMD_RVV)
    {infer__unpacks_rvv, INFER__COUNT(infer__unpacks_rvv), 0},
#endif
    {NULL, 0, 0},
};

static const infer__int8 *infer__int8_find(uint32_t cpu) {
    const infer__int8 *row = infer__int8_levels;
    while (row->need & ~cpu) row++; /* the last row has no requirements */
    return row;
}

static infer__unpack_fn infer__unpack_find(const infer__quant *type, uint32_t cpu) {
    const int tiles = infer__int8_find(cpu)->tiles;
    size_t s, i;
#if defined(INFER__BOOKS)
    infer__call_once(&infer__books_once, infer__books_make);
#endif
    for (s = 0; s < INFER__COUNT(infer__unpack_sets); s++)
        for (i = 0; i < infer__unpack_sets[s].n; i++) {
            const infer__unpack_row *row = &infer__unpack_sets[s].rows[i];
            if (row->id == type->id && !(row->need & ~cpu) && infer__unpack_sets[s].tiled <= tiles) return row->fn;
        }
    return type->unpack;
}

/* The GEMV of a type: neither on some levels. */
static infer__one_row infer__one_find(const infer__quant *type, const infer__int8 *level) {
    const infer__one_row none = {-1, NULL, NULL};
    int32_t i;
    for (i = 0; i < level->n_one; i++)
        if (level->one[i].id == type->id) return level->one[i];
    return none;
}

static void infer__cpu_select(infer__ctx *c, uint32_t cpu) {
    const infer__quant *t;
    int32_t i;
    c->kernels = infer__kernels_find(cpu);
    c->floats = infer__floats_find(cpu);
    c->int8 = infer__int8_find(cpu);
    for (i = 0; (t = infer__quant_row(i)) != NULL && i < INFER__QUANTS_MAX; i++)
        c->unpack[i] = infer__unpack_find(t, cpu);
}

/* ---- activations --------------------------------------------------------------------------------------------- */

static int32_t infer__chunks(int32_t cols) { return (cols + INFER__CHUNK - 1) / INFER__CHUNK; }

static uint64_t infer__cpu_x8_len(uint64_t rows, int32_t cols) { return rows * (uint64_t)infer__chunks(cols); }
static uint64_t infer__cpu_x8_bytes(uint64_t len) { /* tiles of columns read past the end */
    return len ? (len + INFER__TILE_COLS) * sizeof(infer__x8) : 0;
}

static int infer__int8_usable(const infer__ctx *c, const infer__weight *w) {
    return !c->exact && c->unpack[infer__quant_index(w->type)] != NULL;
}

enum { INFER__X8_STEP = 8 }; /* rows of a task, when there are many */
typedef struct infer__x8_job { infer__ctx *c; const infer__tensor *x; int32_t step; } infer__x8_job;

/* `step` rows. A chunk is made in memory of the worker's own and then copied in one go: all workers have read the last
 * ones, so every cache line is first taken from them, which takes half the time when lines are written one after
 * another (Zen 4, two cores that share no cache: 1.3 instead of 2 to 3 ns a value; 0.4 where they share one). */
static void infer__x8_task(void *arg, int task, int worker) {
    const infer__x8_job *job = (const infer__x8_job *)arg;
    const infer__tensor *x = job->x;
    const int32_t end = INFER__MIN((task + 1) * job->step, x->rows);
    infer__x8 own;
    int32_t row, k, n;
    (void)worker;
    memset(&own, 0, sizeof own);
    for (row = task * job->step; row < end; row++) {
        infer__x8 *to = job->c->cpu->x8 + row;
        for (k = 0; k < x->cols; k += n, to += x->rows) {
            n = INFER__MIN(x->cols - k, INFER__CHUNK);
            job->c->int8->quantise(infer__row(x, row) + k, n, &own);
            memcpy(to, &own, sizeof *to);
        }
    }
}

/* Quantise all rows of x; chunk i of row r goes to c->cpu->x8[i * rows + r]. */
static void infer__x8_prepare(infer__ctx *c, const infer__tensor *x) {
    infer__x8_job job;
    INFER__ASSERT((uint64_t)x->rows * (uint64_t)infer__chunks(x->cols) <= c->cpu->x8_len);
    job.c = c;
    job.x = x;
    job.step = INFER__MAX(1, INFER__MIN(x->rows / (4 * infer__pool_threads(c->pool)), INFER__X8_STEP));
    infer__cpu_run(c, (x->rows + job.step - 1) / job.step, (int64_t)x->rows * x->cols, infer__x8_task, &job);
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

/* A weight prepared for the tasks, once per op, since divisions for every chunk cost a quarter of a token's time. */
typedef struct infer__int8_weight {
    const uint8_t *data, *end;
    uint64_t row_bytes;
    infer__unpack_fn unpack;
    infer__one_row one;              /* its functions are NULL where the type has none here */
    const infer__quant *type;
    int32_t rows;
    int32_t chunks, chunk_bytes;     /* of a row; bytes of all but the last */
    int32_t last_bytes, last_blocks; /* of the last chunk */
    int32_t few;                     /* with fewer columns, one group at a time */
    int32_t ahead;                   /* bytes to prefetch per chunk: those of a group, divided by chunks */
} infer__int8_weight;

static void infer__int8_weight_init(const infer__ctx *c, const infer__weight *w, infer__int8_weight *out) {
    int32_t last;
    out->data = (const uint8_t *)w->data;
    out->end = out->data + (uint64_t)w->rows * w->row_bytes;
    out->row_bytes = w->row_bytes;
    out->type = w->type;
    out->unpack = c->unpack[infer__quant_index(w->type)];
    out->one = infer__one_find(w->type, c->int8);
    if (out->one.alone && w->cols < INFER__ROW_LEAST) out->one.row = NULL;
    out->rows = w->rows;
    out->chunks = infer__chunks(w->cols);
    last = w->cols - (out->chunks - 1) * INFER__CHUNK;
    out->chunk_bytes = INFER__CHUNK / w->type->values * w->type->bytes;
    out->last_bytes = last / w->type->values * w->type->bytes;
    out->last_blocks = last / 32;
    out->few = out->chunk_bytes < INFER__CHUNK || w->cols < INFER__ROW_LEAST ? INFER__INT8_FEW : INFER__INT8_FEW_LONG;
    INFER__ASSERT(out->chunk_bytes <= INFER__CHUNK_BYTES);
    out->ahead = (int32_t)(INFER__GROUP * w->row_bytes / (uint64_t)out->chunks);
}

/* Chunk `i` of n rows from row r for functions that read INFER__GROUP rows, and past them: at the end of the weight,
 * and where rows are missing, a copy. */
static const uint8_t *infer__int8_chunk(const infer__int8_weight *w, int64_t r, int32_t n, int32_t i,
                                        infer__int8_scratch *s, uint64_t *stride) {
    uint64_t bytes = (uint64_t)(i == w->chunks - 1 ? w->last_bytes : w->chunk_bytes);
    const uint8_t *src = w->data + (uint64_t)r * w->row_bytes + (uint64_t)i * (uint64_t)w->chunk_bytes;
    int j;
    *stride = w->row_bytes;
    if (n < INFER__GROUP || (uint64_t)(w->end - src) < (INFER__GROUP - 1) * *stride + bytes + INFER__OVERREAD) {
        for (j = 0; j < INFER__GROUP; j++)
            memcpy(s->copy + (uint64_t)j * bytes, src + (uint64_t)INFER__MIN(j, n - 1) * *stride, (size_t)bytes);
        *stride = bytes;
        return s->copy;
    }
    return src;
}

/* Prefetch part i of a group of consecutive rows from r on, in steps, while part i of the previous group is processed.
 * Without prefetching a token of the 1B model reads 14 GB/s. */
static infer__ahead infer__int8_ahead(const infer__int8_weight *w, int64_t r, int32_t i, int32_t steps) {
    infer__ahead a;
    int32_t bytes = r + INFER__GROUP > w->rows ? 0 : w->ahead;
    a.at = a.due = w->data + (uint64_t)r * w->row_bytes + (uint64_t)i * (uint64_t)bytes;
    a.end = a.at + bytes;
    a.step = (uint64_t)(bytes / steps);
    return a;
}

/* Prefetch the rest. Inline, or gcc 12 drops the calls: it considers a function of prefetches pure. */
INFER__INLINE void infer__int8_ask_rest(infer__ahead *a) {
    for (; INFER__CAN_PREFETCH && a->at < a->end; a->at += 64) INFER__PREFETCH_FAR(a->at);
}

/* Rows r .. r+n-1 (n <= INFER__INT8_ROWS) of a weight with n_x columns (<= cpu_run.panel) of the x_rows rows of x:
 * those in cols, or from `first` on. next: the worker's next rows, to be prefetched; w->rows: none. */
typedef struct infer__int8_block {
    int64_t r, next;
    int32_t n, first, n_x, x_rows;
    const int32_t *cols;
} infer__int8_block;

/* A faster way than a level's dots for n_x columns of a type, or NULL. */
static const infer__int8_many *infer__int8_many_find(const infer__int8 *level, const infer__quant *type, int32_t n_x) {
    const infer__int8_many *many = level->many;
    return many && many->grain == type->grain && n_x >= many->least ? many : NULL;
}

/* What follows chunk i, at src, of a group: the next chunk of its rows, or the first one of the group from row `next`
 * on; src if there is none, or if it is a copy. */
static const uint8_t *infer__int8_following(const infer__int8_weight *w, int32_t i, int64_t next, const uint8_t *src,
                                            const infer__int8_scratch *s) {
    if (src == s->copy) return src;
    if (i + 1 < w->chunks) return src + w->chunk_bytes;
    return next + INFER__GROUP <= w->rows ? w->data + (uint64_t)next * w->row_bytes : src;
}

#if defined(INFER__ROWS)
/* One column, a row after the other: all whole chunks, which are counted. */
static int32_t infer__int8_row_by_row(const infer__int8 *level, const infer__int8_weight *w, const infer__int8_block *b,
                                      const infer__x8 *x, infer__int8_scratch *s) {
    const int32_t whole = w->last_blocks == INFER__CHUNK / 32 ? w->chunks : w->chunks - 1;
    const infer__row_fn row = w->one.row;
    const uint64_t row_bytes = w->row_bytes;
    const int64_t x_step = b->x_rows;
    const uint8_t *rows = w->data + (uint64_t)b->r * row_bytes;
    int32_t i, k, c, n, n_rows;
    for (i = 0; i < b->n; i += 8, rows += 8 * row_bytes) {
        n_rows = INFER__MIN(b->n - i, 8);
        for (c = 0; c < whole; c += n) {
            const infer__x8 *from = x + c * x_step;
            const uint8_t *p = rows + (uint64_t)c * (uint64_t)w->chunk_bytes;
            n = INFER__MIN(whole - c, INFER__ROW_SPAN);
            for (k = 0; k < n_rows; k++, p += row_bytes) row(p, n, from, x_step, s->t[k]);
            level->add_rows(s->t[0], INFER__COUNT(s->t[0]), n, from, x_step, s->y + i);
        }
    }
    return whole;
}
#endif

/* The sums are left in s->y, INFER__INT8_ROWS floats per column. */
static void infer__int8_rows(const infer__ctx *c, const infer__int8_weight *w, const infer__int8_block *b,
                             infer__int8_scratch *s) {
    const infer__int8_many *many = infer__int8_many_find(c->int8, w->type, b->n_x);
    infer__dots_args a;
    const uint8_t *src;
    uint64_t stride;
    int alone;
    const int32_t n = b->n, n_x = b->n_x;
    int32_t i = 0, g;
    a.w = s->w;
    a.tile = s->tile;
#if defined(INFER__AMX)
    a.scratch = &s->tiles;
#else
    a.scratch = NULL;
#endif
    a.type = w->type;
    a.cols = b->cols;
    a.n_groups = (n + INFER__GROUP - 1) / INFER__GROUP;
    a.n_x = n_x;
    a.y = s->y;
    a.stride = INFER__INT8_ROWS;
    a.x = c->cpu->x8 + b->first;
    if (n_x == 1) memset(s->y, 0, INFER__INT8_ROWS * sizeof *s->y); /* no call */
    else memset(s->y, 0, (size_t)n_x * INFER__INT8_ROWS * sizeof *s->y);
#if defined(INFER__ROWS)
    if (n_x == 1 && w->one.row) i = infer__int8_row_by_row(c->int8, w, b, infer__x8_col(&a, 0), s);
    a.x += (int64_t)i * b->x_rows;
#endif
    if (many) many->begin();
    for (; i < w->chunks; i++, a.x += b->x_rows) {
        a.n_blocks = i == w->chunks - 1 ? w->last_blocks : INFER__CHUNK / 32;
        alone = n_x == 1 && w->one.alone && a.n_blocks == INFER__CHUNK / 32;
        for (g = 0; g < a.n_groups; g++) {
            int32_t at = g * INFER__GROUP;
            s->w[g].tiled = 0;
            s->w[g].ahead = infer__int8_ahead(w, b->next + at, i, alone ? INFER__ALONE_ASKS : INFER__GROUP * 3 / 2);
            src = infer__int8_chunk(w, b->r + at, INFER__MIN(n - at, INFER__GROUP), i, s, &stride);
            if (alone)
                w->one.alone(src, stride, infer__int8_following(w, i, b->next + at, src, s), infer__x8_col(&a, 0),
                             &s->w[g], s->y + at);
            else w->unpack(src, stride, a.n_blocks, &s->w[g]);
        }
        a.ahead = &s->w[0].ahead;
        if (!alone) (many ? many->dots : c->int8->dots)(&a);
        for (g = 0; g < a.n_groups; g++) infer__int8_ask_rest(&s->w[g].ahead);
    }
    if (many) many->end();
}

/* Prefetch n (at most INFER__INT8_ROWS) floats of a row of y, INFER__INT8_AHEAD rows before sums are stored there:
 * without it stores were a tenth of a long prompt. For all rows at once there is no room in the first cache, of whose
 * sets rows that are a multiple of 512 bytes apart share a few. */
enum { INFER__INT8_AHEAD = 32 };
INFER__INLINE void infer__int8_ask_y(const infer__tensor *y, int32_t row, int32_t col, int32_t n) {
    const float *to = infer__row(y, row) + col;
    INFER__PREFETCH_WRITE(to);
    INFER__PREFETCH_WRITE(to + n - 1);
}

/* n floats, a group at a time: calls of memcpy for 128 bytes were 4 % of a prompt, and for 64 bytes gcc inlines it. */
INFER__INLINE void infer__int8_copy(float *to, const float *from, int32_t n) {
    for (; n >= INFER__GROUP; n -= INFER__GROUP, to += INFER__GROUP, from += INFER__GROUP)
        memcpy(to, from, INFER__GROUP * sizeof *to);
    if (n > 0) memcpy(to, from, (size_t)n * sizeof *to);
}

/* Prefetch a whole group of rows that was not prefetched during earlier work. */
static void infer__int8_cold(const infer__int8_weight *w, int64_t r) {
    int32_t j;
    for (j = 0; j < w->chunks; j++) {
        infer__ahead a = infer__int8_ahead(w, r, j, 1);
        infer__int8_ask_rest(&a);
    }
}

/* Rows r .. r+n-1 of w times all of x, any n, plus `bias` (of these rows, or NULL); the worker continues with the rows
 * after them. cold: the first group has not been prefetched. */
static void infer__int8_task(const infer__ctx *c, const infer__int8_weight *w, int32_t r, int32_t n, int cold,
                             int32_t n_x, const infer__tensor *y, const float *bias, int worker) {
    infer__int8_scratch *s = (infer__int8_scratch *)(void *)infer__cpu_scratch(c, worker);
    const int by_row = n_x == 1 && w->one.row;
    const int alone = by_row && w->last_blocks == INFER__CHUNK / 32; /* no chunk is left for groups of rows */
    infer__int8_block b;
    int32_t j;
    memset(&b, 0, sizeof b);
    b.x_rows = n_x;
    if (cold && !by_row) infer__int8_cold(w, r);
    for (; n > 0; n -= b.n, r += b.n) {
        b.n = INFER__MIN(n, n_x < w->few && !alone ? INFER__GROUP : INFER__INT8_ROWS);
        b.r = r;
        b.next = r + b.n;
        for (b.first = 0; b.first < n_x; b.first += b.n_x) {
            b.n_x = INFER__MIN(n_x - b.first, c->cpu->panel);
            infer__int8_rows(c, w, &b, s);
            for (j = 0; j < b.n_x; j++) {
                float *to = infer__row(y, b.first + j) + r;
                const float *from = s->y + (int64_t)j * INFER__INT8_ROWS;
                if (j + INFER__INT8_AHEAD < b.n_x) infer__int8_ask_y(y, b.first + j + INFER__INT8_AHEAD, r, b.n);
                if (bias) infer__plus(to, from, bias, b.n);
                else infer__int8_copy(to, from, b.n);
            }
        }
        if (bias) bias += b.n;
    }
}
