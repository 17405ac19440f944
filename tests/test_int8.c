/* test_int8.c: integer dot products: what a storage type's unpack gives, every level against the scalar one, and the
 * whole product against its definition: the sum of decode(w) * d * q, where x was quantised to d * q. Types and levels
 * come from their tables. */
#if defined(__linux__)
#  include <fcntl.h>
#  include <sys/mman.h>
#  include <unistd.h>
#endif

/* ---- helpers -------------------------------------------------------------------------------------------------- */

/* n zeroed things at a cache line; free *base. */
static void *int8_aligned(size_t size, void **base) {
    *base = calloc(1, size + 63);
    return (void *)(((uintptr_t)*base + 63) & ~(uintptr_t)63);
}

static int int8_same(float a, float b) { /* the same bits, or both NaN, which conversions may make quiet */
    return infer__f32_bits(a) == infer__f32_bits(b) || (a != a && b != b);
}

/* n bytes that end where reading on is a fault (Linux), or where the address sanitizer sees it. */
typedef struct int8_edge { uint8_t *p; void *base; size_t size; } int8_edge;
static void int8_edge_open(int8_edge *e, size_t n) {
#if defined(__linux__)
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int zero = open("/dev/zero", O_RDONLY);
    e->size = (n + page - 1) / page * page + page;
    e->base = mmap(NULL, e->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
    close(zero);
    CHECK(e->base != MAP_FAILED && mprotect((char *)e->base + e->size - page, page, PROT_NONE) == 0);
    e->p = (uint8_t *)e->base + e->size - page - n;
#else
    e->p = (uint8_t *)(e->base = malloc(n));
#endif
}
static void int8_edge_close(int8_edge *e) {
#if defined(__linux__)
    munmap(e->base, e->size);
#else
    free(e->base);
#endif
}

/* All CPU masks that this CPU covers, the scalar one first. */
static int int8_mask(size_t i, uint32_t *mask) {
    *mask = i < INFER__COUNT(infer__cpu_levels) ? infer__cpu_levels[i].mask : 0;
    check_detail = i < INFER__COUNT(infer__cpu_levels) ? infer__cpu_levels[i].name : "";
    return !(*mask & ~infer__cpu_found());
}

/* ---- unpack --------------------------------------------------------------------------------------------------- */

enum { INT8_ZEROS, INT8_ONES, INT8_ENCODED, INT8_BYTES, INT8_FILLS = 8 }; /* from INT8_BYTES: random bytes */

static void int8_fill(uint8_t *p, size_t n, int fill) {
    size_t i;
    for (i = 0; i < n; i++) p[i] = fill == INT8_ZEROS ? 0 : fill == INT8_ONES ? 255 : (uint8_t)(ops_bits() >> 11);
}

static void int8_unpacked_quiet(infer__unpacked *u) { /* nothing to ask for */
    u->ahead.at = u->ahead.due = u->ahead.end = u->q[0];
    u->ahead.step = 0;
    u->tiled = 0;
}

static void int8_unpacked_fill(infer__unpacked *u, int byte) {
    memset(u, byte, sizeof *u);
    int8_unpacked_quiet(u);
}

/* A value is scale * (q - offset) + min, up to the rounding of the product and of the sum. */
static void int8_unpack_values(const infer__quant *t, const infer__unpacked *u, const uint8_t *src, uint64_t row_bytes,
                               int n_blocks) {
    float v[INFER__CHUNK];
    int r, k;
    for (r = 0; r < INFER__GROUP; r++, src += row_bytes) {
        t->decode(src, v, 32 * n_blocks);
        for (k = 0; k < 32 * n_blocks; k++) {
            int q = u->q[r][infer__q_index(k)], s = k / t->grain;
            double scale = u->scale[s][r], min = t->has_min ? u->min[s][r] : 0.0, d = scale * (q - t->offset) + min;
            CHECK(q <= t->largest && (t->offset == 128 ? t->largest == 255 : t->largest <= 127));
            if (infer__finite(v[k])) CHECK(fabs(d - v[k]) <= (fabs(scale * (q - t->offset)) + fabs(min)) / (1 << 22));
            else CHECK(!infer__finite((float)d));
        }
    }
}

/* What a level's own function leaves of a group of zeros is what its dots take. */
static void int8_unpack_order(const infer__quant *t, const uint8_t *zeros, uint64_t row_bytes, infer__unpacked *u) {
    size_t l;
    for (l = 0; l < INFER__COUNT(infer__int8_levels); l++) {
        const infer__int8 *level = &infer__int8_levels[l];
        if (level->need & ~infer__cpu_found()) continue;
        int8_unpacked_fill(u, 0);
        infer__unpack_find(t, level->need)(zeros, row_bytes, INFER__CHUNK / 32, u);
        CHECK(u->tiled <= level->tiles);
    }
}

static void test_int8_unpack(void) {
    void *base;
    infer__unpacked *u = (infer__unpacked *)int8_aligned(sizeof *u, &base);
    const infer__quant *t;
    int fill, n;
    int32_t i, seen = 0;
    for (i = 0; (t = infer__quant_row(i)) != NULL; i++) {
        uint64_t row = (uint64_t)(INFER__CHUNK / t->values * t->bytes);
        uint8_t *src;
        if (!t->unpack) continue;
        check_detail = t->name;
        seen++;
        CHECK((t->grain == 16 || t->grain == 32) && t->offset >= 0 && t->offset <= 128 && t->values % 32 == 0);
        CHECK((!t->has_min || t->offset == 0) && (t->offset != 128 || t->grain == 32)); /* int8_arm.c counts on it */
        src = (uint8_t *)calloc(1, (size_t)(INFER__GROUP * row + INFER__OVERREAD));
        int8_unpack_order(t, src, row, u);
        free(src);
        for (fill = 0; fill < INT8_FILLS; fill++)
            for (n = t->values / 32; n <= 8; n += t->values / 32) {
                src = fill == INT8_ENCODED ? ops_blocks(t, INFER__GROUP * INFER__CHUNK, 0)
                                           : (uint8_t *)malloc((size_t)(INFER__GROUP * row));
                if (fill != INT8_ENCODED) int8_fill(src, (size_t)(INFER__GROUP * row), fill);
                int8_unpacked_fill(u, 0x5a);
                t->unpack(src, row, n, u);
                int8_unpack_values(t, u, src, row, n);
                free(src);
            }
    }
    CHECK(seen > 0);
    free(base);
}

/* The code of value k of row r, in either order. */
static int int8_code(const infer__unpacked *u, int r, int k) {
    const uint8_t *all = (const uint8_t *)u->q;
    return u->tiled ? all[k / 4 * 64 + 4 * r + k % 4] : u->q[r][infer__q_index(k)];
}

/* Equal in the first n_blocks blocks. */
static void int8_unpacked_equal(const infer__quant *t, const infer__unpacked *a, const infer__unpacked *b,
                                int n_blocks) {
    int r, k, s;
    for (r = 0; r < INFER__GROUP; r++) {
        for (k = 0; k < 32 * n_blocks; k++) CHECK(int8_code(a, r, k) == int8_code(b, r, k));
        for (s = 0; s < 32 * n_blocks / t->grain; s++) {
            CHECK(int8_same(a->scale[s][r], b->scale[s][r]));
            if (t->has_min) CHECK(int8_same(a->min[s][r], b->min[s][r]));
        }
    }
}

/* Every row of every set of this build that this CPU can run; rows from odd addresses and apart, up to the last byte
 * that may be read. */
static void test_int8_unpack_sets(void) {
    static const uint64_t gaps[] = {0, 1, 2, 7, 1000};
    void *base[2];
    infer__unpacked *want = (infer__unpacked *)int8_aligned(sizeof *want, &base[0]);
    infer__unpacked *got = (infer__unpacked *)int8_aligned(sizeof *got, &base[1]);
    size_t s, i, g;
    int n, fill;
    for (s = 0; s < INFER__COUNT(infer__unpack_sets); s++)
        for (i = 0; i < infer__unpack_sets[s].n; i++) {
            const infer__unpack_row *row = &infer__unpack_sets[s].rows[i];
            const infer__quant *t = infer__quant_find(row->id, NULL);
            CHECK((t && t->unpack) || row->id == -1); /* -1: the last row of some sets */
            if (!t || !t->unpack || row->need & ~infer__cpu_found()) continue;
            check_detail = t->name;
            (void)infer__unpack_find(t, row->need); /* what they need is made when they are chosen */
            for (n = t->values / 32; n <= 8; n += t->values / 32)
                for (g = 0; g < INFER__COUNT(gaps); g++)
                    for (fill = 0; fill < INT8_FILLS; fill++) {
                        uint64_t bytes = (uint64_t)(32 * n / t->values * t->bytes), stride = bytes + gaps[g];
                        size_t size = (size_t)((INFER__GROUP - 1) * stride + bytes + INFER__OVERREAD);
                        int8_edge e;
                        if (fill == INT8_ENCODED) continue;
                        int8_edge_open(&e, size);
                        int8_fill(e.p, size, fill);
                        int8_unpacked_fill(want, 0x5a);
                        int8_unpacked_fill(got, 0xa5);
                        t->unpack(e.p, stride, n, want);
                        row->fn(e.p, stride, n, got);
                        CHECK(!want->tiled && got->tiled == infer__unpack_sets[s].tiled);
                        int8_unpacked_equal(t, want, got, n);
                        int8_edge_close(&e);
                    }
        }
    free(base[0]);
    free(base[1]);
}

/* ---- rounding of activations ---------------------------------------------------------------------------------- */

static float int8_activation(int kind) {
    static const uint32_t odd[] = {0,          0x80000000, 1,          0x00400000, 0x0d000000, 0x0cffffff,
                                   0x7f7fffff, 0xff7fffff, 0x3f800000, 0x7f800000, 0xff800000, 0x7fc00000};
    if (kind == 0) return ops_rand();
    if (kind == 1) return 0.0f;
    if (kind == 2) return (float)(ops_bits() % 255) - 127.0f + (ops_bits() & 1 ? 0.5f : 0.0f); /* ties */
    if (kind == 3) return infer__bits_f32(ops_bits() % 0x0e000000u); /* near and below the limit */
    if (kind == 4) return infer__bits_f32(odd[ops_bits() % 8]);      /* finite, from denormal to the largest */
    if (kind == 5) return infer__bits_f32(odd[ops_bits() % 12]);
    return infer__bits_f32(ops_bits()); /* any */
}

enum { INT8_QUANTISED = 2 }; /* chunks, of which one is written */

static void int8_quantise_case(const infer__int8 *l, const float *x, int32_t n, void *const *mem) {
    infer__x8 *a = (infer__x8 *)mem[0], *b = (infer__x8 *)mem[1];
    int32_t i, k;
    memset(a, 0x5a, INT8_QUANTISED * sizeof *a);
    memset(b, 0x5a, INT8_QUANTISED * sizeof *b);
    infer__quantise_scalar(x, n, a);
    l->quantise(x, n, b);
    CHECK(memcmp(a, b, INT8_QUANTISED * sizeof *a) == 0);
    for (i = 0; i < (n + 31) / 32; i++) { /* and what it means */
        float d = b->d[i];
        int sum = 0, j;
        for (j = 0; j < 32; j++) {
            int q = b->q[i * 32 + j];
            k = 32 * i + j;
            sum += q;
            CHECK(q >= -127 && q <= 127);
            if (k >= n) CHECK(q == 0);
            else if (!infer__finite(d)) continue;
            else CHECK(fabs((double)d * q - x[k]) <= fabs((double)d) * 0.5001 + 1e-30);
        }
        CHECK(b->sum32[i] == sum && (int)b->fsum32[i] == sum);
        CHECK(b->sum16[0][i] + b->sum16[1][i] == sum);
        for (j = 0; j < 2; j++) CHECK((int)b->fsum16[j][i] == b->sum16[j][i]);
    }
}

static void test_int8_quantise(void) {
    static const int32_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 224, 225, 255, 256};
    void *base[2], *mem[2];
    size_t l, s, i;
    int kind, round;
    for (i = 0; i < 2; i++) mem[i] = int8_aligned(INT8_QUANTISED * sizeof(infer__x8), &base[i]);
    for (l = 0; l < INFER__COUNT(infer__int8_levels); l++) {
        const infer__int8 *level = &infer__int8_levels[l];
        if (level->need & ~infer__cpu_found()) continue;
        check_detail = level->name;
        for (s = 0; s < INFER__COUNT(sizes); s++)
            for (kind = 0; kind < 7; kind++)
                for (round = 0; round < 4; round++) {
                    float *x = (float *)malloc((size_t)sizes[s] * sizeof *x); /* exactly so long */
                    for (i = 0; i < (size_t)sizes[s]; i++)
                        x[i] = int8_activation(kind < 3 || i % 32 == 7 ? kind : round & 1 ? kind : 0);
                    int8_quantise_case(level, x, sizes[s], mem);
                    free(x);
                }
    }
    free(base[0]);
    free(base[1]);
}

/* ---- dots ----------------------------------------------------------------------------------------------------- */

enum { INT8_COLUMNS = 70, INT8_STRIDE = 32 };

typedef struct int8_dots {
    infer__unpacked *w; /* two groups */
    infer__x8 *x;       /* INT8_COLUMNS chunks */
    float *want, *got, *alone; /* INT8_COLUMNS x INT8_STRIDE */
    uint8_t *tile;
    infer__tile_scratch *scratch;
    double size[INT8_COLUMNS][INT8_STRIDE]; /* sum of the magnitudes that were added */
    void *base[7];
} int8_dots;

/* Random weights and columns; what lies beyond n_blocks is NaN, or as large as can be. Extreme: the largest codes. */
static void int8_dots_fill(int8_dots *d, const infer__quant *t, int n_blocks, int extreme) {
    float x[INFER__CHUNK];
    int g, r, k, j;
    for (g = 0; g < 2; g++)
        for (r = 0; r < INFER__GROUP; r++) {
            for (k = 0; k < INFER__CHUNK; k++)
                d->w[g].q[r][infer__q_index(k)] =
                    (uint8_t)(extreme || k >= 32 * n_blocks ? t->largest : (int)(ops_bits() >> 9) % (t->largest + 1));
            for (k = 0; k < INFER__CHUNK / t->grain; k++) {
                int beyond = k * t->grain >= 32 * n_blocks;
                d->w[g].scale[k][r] = beyond ? NAN : extreme ? 65504.0f : ops_rand();
                d->w[g].min[k][r] = beyond || !t->has_min ? NAN : extreme ? -65504.0f : ops_rand();
            }
        }
    for (j = 0; j < INT8_COLUMNS; j++) {
        for (k = 0; k < INFER__CHUNK; k++) x[k] = extreme ? j & 1 ? 1.0f : -1.0f : ops_rand();
        infer__quantise_scalar(x, INFER__CHUNK, d->x + j);
        for (k = n_blocks; k < 8; k++) d->x[j].d[k] = d->x[j].fsum32[k] = d->x[j].fsum16[0][k] = NAN;
    }
}

static void int8_dots_args(const int8_dots *d, const infer__quant *t, int n_blocks, infer__dots_args *a) {
    memset(a, 0, sizeof *a);
    int8_unpacked_quiet(&d->w[0]);
    a->ahead = &d->w[0].ahead;
    a->w = d->w;
    a->tile = d->tile;
    a->scratch = d->scratch;
    a->type = t;
    a->x = d->x;
    a->n_blocks = n_blocks;
    a->stride = INT8_STRIDE;
}

/* The scalar sums, and the size of what was added for each. */
static void int8_dots_reference(int8_dots *d, const infer__quant *t, int n_blocks, const float *start) {
    infer__dots_args a;
    int j, i, k;
    int8_dots_args(d, t, n_blocks, &a);
    memcpy(d->want, start, INT8_COLUMNS * INT8_STRIDE * sizeof *start);
    a.n_groups = 2;
    a.n_x = INT8_COLUMNS;
    a.y = d->want;
    infer__dots_scalar(&a);
    for (j = 0; j < INT8_COLUMNS; j++)
        for (i = 0; i < INT8_STRIDE; i++) {
            const infer__unpacked *w = d->w + i / INFER__GROUP;
            double sum = fabs(start[j * INT8_STRIDE + i]);
            for (k = 0; k < 32 * n_blocks; k++) {
                int s = k / t->grain, r = i % INFER__GROUP;
                sum += fabs((double)w->scale[s][r] * (w->q[r][infer__q_index(k)] - t->offset) * d->x[j].q[k] *
                            d->x[j].d[k / 32]);
                if (t->has_min) sum += fabs((double)w->min[s][r] * d->x[j].q[k] * d->x[j].d[k / 32]);
            }
            d->size[j][i] = sum;
        }
}

static void int8_dots_case(int8_dots *d, const infer__int8 *l, const infer__quant *t, int n_blocks,
                           const float *start) {
    static const int32_t counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                     14, 15, 16, 17, 18, 19, 20, 31, 32, 33, 64, 69};
    int32_t cols[INT8_COLUMNS];
    infer__dots_args a;
    size_t c;
    int32_t j, i, groups, indexed, way, ways = infer__int8_many_find(l, t, INT8_COLUMNS) ? 2 : 1;
    for (j = 0; j < INT8_COLUMNS; j++) cols[j] = (j * 37 + 11) % INT8_COLUMNS;
    int8_dots_args(d, t, n_blocks, &a);
    memcpy(d->alone, start, INT8_COLUMNS * INT8_STRIDE * sizeof *start);
    for (j = 0; j < INT8_COLUMNS; j++)
        for (i = 0; i < 2; i++) { /* each column and group by itself */
            a.w = d->w + i;
            a.n_groups = a.n_x = 1;
            a.x = d->x + j;
            a.y = d->alone + j * INT8_STRIDE + i * INFER__GROUP;
            l->dots(&a);
        }
    for (j = 0; j < INT8_COLUMNS; j++)
        for (i = 0; i < INT8_STRIDE; i++)
            CHECK(ops_near(d->alone[j * INT8_STRIDE + i], d->want[j * INT8_STRIDE + i], d->size[j][i], 1e-6));
    a.w = d->w;
    a.x = d->x;
    a.y = d->got;
    for (c = 0; c < INFER__COUNT(counts); c++)
        for (groups = 1; groups <= 2; groups++)
            for (indexed = 0, way = 0; indexed < 2; way = (way + 1) % ways, indexed += way == 0) {
                a.cols = indexed ? cols : NULL;
                a.n_groups = groups;
                a.n_x = counts[c];
                if (way && a.n_x < l->many->least) continue;
                for (j = 0; j < INT8_COLUMNS; j++)
                    memcpy(d->got + j * INT8_STRIDE, start + (indexed ? cols[j] : j) * INT8_STRIDE,
                           INT8_STRIDE * sizeof *start);
                if (way) {
                    l->many->begin();
                    l->many->dots(&a);
                    l->many->end();
                } else {
                    l->dots(&a);
                }
                for (j = 0; j < INT8_COLUMNS; j++) {
                    const float *got = d->got + j * INT8_STRIDE, *to = d->alone + (indexed ? cols[j] : j) * INT8_STRIDE;
                    const float *from = start + (indexed ? cols[j] : j) * INT8_STRIDE;
                    int32_t done = j < counts[c] ? groups * INFER__GROUP : 0; /* the rest is as it was */
                    CHECK(memcmp(got, to, (size_t)done * sizeof *got) == 0);
                    CHECK(memcmp(got + done, from + done, (size_t)(INT8_STRIDE - done) * sizeof *got) == 0);
                }
            }
}

static void test_int8_dots(void) {
    static const struct { int32_t grain, offset, has_min, largest; } kinds[] = {
        {32, 8, 0, 15}, {32, 0, 1, 31},  {32, 128, 0, 255}, {16, 0, 1, 3},
        {16, 32, 0, 63}, {16, 43, 0, 86}, {32, 62, 0, 124},  {16, 128, 0, 255}};
    const size_t floats = INT8_COLUMNS * INT8_STRIDE * sizeof(float);
    int8_dots *d = (int8_dots *)calloc(1, sizeof *d);
    float *start = ops_floats(INT8_COLUMNS * INT8_STRIDE);
    size_t l, k;
    int n, extreme;
    d->w = (infer__unpacked *)int8_aligned(2 * sizeof *d->w, &d->base[0]);
    d->x = (infer__x8 *)int8_aligned((INT8_COLUMNS + INFER__TILE_COLS) * sizeof *d->x, &d->base[1]);
    d->want = (float *)int8_aligned(floats, &d->base[2]);
    d->got = (float *)int8_aligned(floats, &d->base[3]);
    d->alone = (float *)int8_aligned(floats, &d->base[4]);
    d->tile = (uint8_t *)int8_aligned(2 * INFER__GROUP * INFER__CHUNK, &d->base[5]);
    d->scratch = (infer__tile_scratch *)int8_aligned(sizeof *d->scratch, &d->base[6]);
    for (k = 0; k < INFER__COUNT(kinds); k++)
        for (n = 1; n <= 8; n++)
            for (extreme = n % check_every(2); extreme < 2; extreme += check_every(2)) {
                infer__quant t;
                memset(&t, 0, sizeof t);
                t.grain = kinds[k].grain;
                t.offset = kinds[k].offset;
                t.has_min = kinds[k].has_min;
                t.largest = kinds[k].largest;
                int8_dots_fill(d, &t, n, extreme);
                int8_dots_reference(d, &t, n, start);
                for (l = 0; l < INFER__COUNT(infer__int8_levels); l++) {
                    const infer__int8 *level = &infer__int8_levels[l];
                    check_detail = level->name;
                    if (!(level->need & ~infer__cpu_found())) int8_dots_case(d, level, &t, n, start);
                }
            }
    for (k = 0; k < INFER__COUNT(d->base); k++) free(d->base[k]);
    free(start);
    free(d);
}

/* ---- the whole product ---------------------------------------------------------------------------------------- */

static void int8_matmul(infer__ctx *c, const infer__weight *w, float *x, int32_t n, int32_t stride, float *y) {
    infer__matmul_args a;
    infer__buf bx, by;
    memset(&a, 0, sizeof a);
    a.n_w = 1;
    a.w[0] = w;
    a.x = ops_tensor(&bx, x, n, w->cols, stride);
    a.y[0] = ops_tensor(&by, y, n, w->rows, w->rows);
    c->ops->matmul(c, &a);
}

/* The definition: sum of decode(w) * d * q, in double. */
static void int8_matmul_defined(const infer__weight *w, const float *x, int32_t n, int32_t stride, const float *y) {
    infer__x8 *x8 = (infer__x8 *)calloc(8, sizeof *x8);
    float *v = (float *)malloc((size_t)w->cols * sizeof *v);
    int32_t r, j, k;
    for (j = 0; j < n; j++) {
        for (k = 0; k < w->cols; k += INFER__CHUNK)
            infer__quantise_scalar(x + (int64_t)j * stride + k, INFER__MIN(w->cols - k, INFER__CHUNK), x8 + k / INFER__CHUNK);
        for (r = 0; r < w->rows; r++) {
            double sum = 0, size = 0;
            w->type->decode((const char *)w->data + (uint64_t)r * w->row_bytes, v, w->cols);
            for (k = 0; k < w->cols; k++) {
                double p = (double)v[k] * x8[k / 256].d[k % 256 / 32] * x8[k / 256].q[k % 256];
                sum += p;
                size += fabs(p);
            }
            /* a type with minima rounds its values, and adds what cancels there as two large terms here */
            CHECK(ops_near(y[j * w->rows + r], sum, size, w->type->has_min ? 4e-6 : 1e-6));
        }
    }
    free(x8);
    free(v);
}

static void int8_matmul_case(const infer__quant *t, int32_t rows, int32_t cols) {
    enum { N = 11, WIDE = 7 };
    int32_t stride = cols + WIDE, j;
    uint8_t *blocks = ops_blocks(t, (int64_t)rows * cols, rows & 1);
    infer__weight w = ops_weight(t, blocks, rows, cols);
    float *x = ops_floats((size_t)(N * stride)), *y = ops_floats((size_t)(N * rows));
    float *z = ops_floats((size_t)(N * rows));
    infer__ctx c;
    uint32_t mask;
    size_t i;
    for (j = 0; j < cols; j++) { /* a column of the largest codes, one of zeros, and one that is not a number */
        x[3 * stride + j] = 1.0f;
        x[4 * stride + j] = 0.0f;
    }
    for (i = 0; i < INFER__COUNT(infer__cpu_levels); i++) {
        if (!int8_mask(i, &mask)) continue;
        for (j = 1; j <= 4; j += i ? 3 : 1) {
            ops_open(&c, j, mask, cols);
            c.exact = 0;
            int8_matmul(&c, &w, x, N, stride, j == 1 ? y : z);
            if (j > 1) CHECK(memcmp(y, z, (size_t)(N * rows) * sizeof *y) == 0);
            if (j < 4) {
                ops_close(&c);
                continue;
            }
            int8_matmul_defined(&w, x, 5, stride, y);
            for (j = 0; j < N; j += 5) { /* GEMV, and two columns */
                int8_matmul(&c, &w, x + j * stride, j ? 1 : 2, stride, z);
                CHECK(memcmp(y + j * rows, z, (size_t)(j ? rows : 2 * rows) * sizeof *y) == 0);
            }
            j = 4;
            ops_close(&c);
        }
    }
    free(blocks - (rows & 1));
    free(x);
    free(y);
    free(z);
}

static void test_int8_matmul(void) {
    static const int32_t rows[] = {1, 15, 16, 17, 31, 33, 100}, cols[] = {32, 64, 96, 256, 288, 576, 1024};
    const infer__quant *t;
    int32_t i;
    size_t r, k;
    for (i = 0; (t = infer__quant_row(i)) != NULL; i++) {
        if (!t->unpack) continue;
        for (r = 0; r < INFER__COUNT(rows); r++)
            for (k = getenv("CHECK_EMULATED") ? (r + (size_t)i) % 4 : 0; k < INFER__COUNT(cols);
                 k += getenv("CHECK_EMULATED") ? 4 : 1)
                if (cols[k] % t->values == 0) int8_matmul_case(t, rows[r], cols[k]);
    }
}

#if defined(INFER__SIMD_X86)
/* Whether vcvtph2ps keeps a subnormal fp16 while MXCSR takes subnormal floats for zeros, as Intel's manual says it does;
 * qemu 7.2's gives 0. */
INFER__ON_avx2 static int int8_converts(unsigned mode) {
    volatile int16_t half = 0x0123;
    float v;
    _mm_setcsr(mode | 0x8040u);
    v = _mm_cvtss_f32(_mm_cvtph_ps(_mm_set1_epi16(half)));
    _mm_setcsr(mode);
    return v != 0;
}
#endif

/* A host may take subnormal floats for zeros (-ffast-math at its start, audio programs): scales that are subnormal in fp16
 * keep their values. */
static void test_int8_flush(void) {
#if defined(INFER__SIMD_X86)
    enum { ROWS = 16, COLS = 512, N = 5 };
    const unsigned mode = _mm_getcsr();
    const int converts = !(infer__cpu_found() & INFER__CPU_AVX2) || int8_converts(mode);
    const infer__quant *t;
    int32_t k, flush;
    uint32_t mask;
    size_t i;
    CHECK(converts || getenv("CHECK_EMULATED"));
    for (k = 0; (t = infer__quant_row(k)) != NULL; k++) {
        float *v = ops_floats((size_t)(ROWS * COLS)), *x = ops_floats((size_t)(N * COLS));
        float y[2][N * ROWS];
        uint8_t *blocks = (uint8_t *)calloc((size_t)(ROWS * COLS / t->values), (size_t)t->bytes);
        infer__weight w = ops_weight(t, blocks, ROWS, COLS);
        for (i = 0; i < ROWS * COLS; i++) v[i] *= 4e-4f;
        if (t->unpack && t->encode) t->encode(v, blocks, ROWS * COLS);
        else if (t->unpack && t->search) t->search(v, NULL, blocks, ROWS * COLS);
        t->decode(blocks, v, ROWS * COLS);
        for (i = 0; t->unpack && i < INFER__COUNT(infer__cpu_levels); i++) {
            infer__ctx c;
            if (!int8_mask(i, &mask) || (!converts && mask & INFER__CPU_AVX2)) continue;
            check_detail = t->name;
            ops_open(&c, 1, mask, COLS);
            c.exact = 0;
            for (flush = 0; flush < 2; flush++) {
                if (flush) _mm_setcsr(mode | 0x8040u);
                int8_matmul(&c, &w, x, 1, COLS, y[flush]);
                int8_matmul(&c, &w, x, N - 1, COLS, y[flush] + ROWS);
                _mm_setcsr(mode);
            }
            CHECK(memcmp(y[0], y[1], sizeof y[0]) == 0 && (y[0][0] != 0 || v[0] == 0));
            ops_close(&c);
        }
        free(blocks);
        free(v);
        free(x);
    }
#else
    SKIP("cpu: not x86");
#endif
}

/* Against exact: rounding of x is the only error, about (max / 127)^2 / 12 of a value's square. More columns than a
 * panel has, and one that is not finite: it shows, and spoils no other. */
static void test_int8_exact(void) {
    enum { ROWS = 70, COLS = 512, N = 520, BAD = 517 };
    const infer__quant *t;
    float *x = ops_floats(N * COLS), *y = ops_floats(N * ROWS), *z = ops_floats(N * ROWS);
    infer__ctx c;
    int32_t i, j;
    ops_open(&c, 2, infer__cpu_found(), COLS);
    c.exact = 0;
    c.ops->finish(&c);
    ops_prepare(&c, infer__cpu_found(), N, COLS);
    for (i = 0; (t = infer__quant_row(i)) != NULL; i += check_every(3)) {
        uint8_t *blocks;
        infer__weight w;
        if (!t->unpack) continue;
        check_detail = t->name;
        blocks = ops_blocks(t, ROWS * COLS, 0);
        w = ops_weight(t, blocks, ROWS, COLS);
        c.exact = 1;
        int8_matmul(&c, &w, x, N, COLS, y);
        c.exact = 0;
        int8_matmul(&c, &w, x, N, COLS, z);
        CHECK(check_nmse(z, y, N * ROWS) < 3e-5);
        CHECK(check_nmse(z, y, N * ROWS) > 1e-6); /* quantised at all */
        memcpy(y, z, N * ROWS * sizeof *y);
        x[BAD * COLS + 300] = i & 1 ? NAN : INFINITY;
        int8_matmul(&c, &w, x, N, COLS, z);
        x[BAD * COLS + 300] = 0.5f;
        for (j = 0; j < ROWS; j++) CHECK(!infer__finite(z[BAD * ROWS + j]));
        CHECK(memcmp(y, z, BAD * ROWS * sizeof *y) == 0);
        CHECK(memcmp(y + (BAD + 1) * ROWS, z + (BAD + 1) * ROWS, (N - BAD - 1) * ROWS * sizeof *y) == 0);
        free(blocks);
    }
    ops_close(&c);
    free(x);
    free(y);
    free(z);
}

/* ---- AMX ------------------------------------------------------------------------------------------------------ */

/* Tiles of columns give the bits of the level below, whatever the shape and the threads. */
static void test_int8_tiles(void) {
    enum { COLS = 800, N = 545 };
    static const int32_t rows[] = {1, 16, 33, 70}, columns[] = {28, 33, 36, 64, N};
    uint32_t found = infer__cpu_found();
    const infer__quant *t;
    float *x = ops_floats(N * COLS), *y = ops_floats(N * 70), *z = ops_floats(N * 70);
    int32_t i, way;
    size_t r, n;
    for (i = 0; (t = infer__quant_row(i)) != NULL && found & INFER__CPU_AMXINT8; i++) {
        const int32_t cols = t->values == 256 ? 768 : t->values == 128 ? 640 : COLS / 64 * 64;
        if (!t->unpack) continue;
        check_detail = t->name;
        for (r = 0; r < INFER__COUNT(rows); r++) {
            uint8_t *blocks = ops_blocks(t, (int64_t)rows[r] * cols, 0);
            infer__weight w = ops_weight(t, blocks, rows[r], cols);
            for (n = (r + (size_t)i) % (size_t)check_every(3); n < INFER__COUNT(columns); n += (size_t)check_every(3))
                for (way = 0; way < 2; way++) {
                    infer__ctx c;
                    ops_open(&c, way ? 3 : 1, way ? found : found & ~(uint32_t)INFER__CPU_AMX, COLS);
                    c.exact = 0;
                    c.ops->finish(&c);
                    ops_prepare(&c, way ? found : found & ~(uint32_t)INFER__CPU_AMX, N, COLS);
                    CHECK_STR(c.int8->name, way ? "amxint8" : "avx512vnni");
                    int8_matmul(&c, &w, x, columns[n], COLS, way ? z : y);
                    if (way) CHECK(memcmp(y, z, (size_t)(columns[n] * rows[r]) * sizeof *y) == 0);
                    ops_close(&c);
                }
            free(blocks);
        }
    }
    free(x);
    free(y);
    free(z);
    if (!(found & INFER__CPU_AMXINT8)) SKIP("cpu: no AMX");
#if defined(INFER__AMX_TWIN)
    CHECK(twin_wrong == 0);
#endif
}

#if defined(INFER__AMX) && !defined(INFER__AMX_TWIN)
/* One product of tiles on the CPU and on the twin: shapes as the library uses them. */
#define INT8_TWIN_CASE(LOAD, DOT8, DOT16, STORE, to) \
    do { \
        LOAD(2, c, 64); \
        LOAD(5, a, 96); \
        LOAD(7, b, 64); \
        if (bf16) DOT16(2, 5, 7); \
        else DOT8(2, 5, 7); \
        STORE(2, to, 64); \
    } while (0)
static void int8_twin_case(int bf16, int a_bytes, uint8_t *a, uint8_t *b, uint8_t *c, uint8_t *want) {
    infer__tile_shape s = infer__tiles_shape(a_bytes, a_bytes / 4, 64);
    int i;
    twin_configure(&s);
    INT8_TWIN_CASE(twin_load, twin_dot8, twin_dot16, twin_store, want);
    infer__tiles_begin(a_bytes, a_bytes / 4, 64);
    INT8_TWIN_CASE(INFER__TILE_LOAD, INFER__TILE_DOT8, INFER__TILE_DOT16, INFER__TILE_STORE, c);
    INFER__TILE_ZERO(3);
    INFER__TILE_STORE(3, a, 64);
    INFER__TILE_RELEASE();
    for (i = 0; i < 1024; i++) CHECK(a[i] == 0);
}
#endif

static void test_int8_twin(void) {
#if defined(INFER__AMX) && !defined(INFER__AMX_TWIN)
    static uint8_t a[16 * 96], b[1024], c[1024], want[1024];
    int round, i, bytes, bf16;
    if ((infer__cpu_found() & INFER__CPU_AMX) != INFER__CPU_AMX) SKIP("cpu: no AMX");
    for (round = 0; round < 600; round++) {
        bf16 = round % 2;
        bytes = bf16 ? 64 : 16 << round / 2 % 3;
        for (i = 0; i < 16 * 96; i++) a[i] = (uint8_t)(ops_bits() >> 11);
        for (i = 0; i < 1024; i++) b[i] = (uint8_t)(ops_bits() >> 11), c[i] = (uint8_t)(ops_bits() >> 11);
        for (i = 0; i < 1024 && bf16; i += 4) { /* numbers of all sizes that can be added, some subnormal; no infinity */
            a[i + 1] = (uint8_t)((a[i + 1] & 0x80) | (round % 3 ? 0x3e + a[i + 1] % 4 : a[i + 1] % 0x40));
            a[i + 3] = (uint8_t)((a[i + 3] & 0x80) | (round % 3 ? 0x3e + a[i + 3] % 4 : a[i + 3] % 0x40));
            b[i + 1] = (uint8_t)((b[i + 1] & 0x80) | (round % 3 ? 0x3e + b[i + 1] % 4 : b[i + 1] % 0x40));
            b[i + 3] = (uint8_t)((b[i + 3] & 0x80) | (round % 3 ? 0x3e + b[i + 3] % 4 : b[i + 3] % 0x40));
            c[i + 3] = (uint8_t)((c[i + 3] & 0x80) | (round % 3 ? 0x3e + c[i + 3] % 4 : c[i + 3] % 0x40));
        }
        for (i = 1024; i < 16 * 96; i += 2) a[i + 1] = (uint8_t)(bf16 ? (a[i + 1] & 0x80) | 0x3f : a[i + 1]);
        int8_twin_case(bf16, bytes, a, b, c, want);
        CHECK(memcmp(c, want, 1024) == 0);
    }
    CHECK(twin_wrong == 0);
#else
    SKIP("cpu: no AMX");
#endif
}

static void suite_int8(void) {
    RUN(test_int8_unpack);
    RUN(test_int8_unpack_sets);
    RUN(test_int8_quantise);
    RUN(test_int8_dots);
    RUN(test_int8_matmul);
    RUN(test_int8_flush);
    RUN(test_int8_exact);
    RUN(test_int8_tiles);
    RUN(test_int8_twin);
}
