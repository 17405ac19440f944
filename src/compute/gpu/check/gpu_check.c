/* gpu_check.c: checking a device's kernels: each op runs on small inputs, and its results are compared with the CPU's
 * scalar ones.
 *
 * Owns:  INFER__PROBES, a row per op and kind of program, and the inputs: pseudo-random and always the same, sizes that
 *        are no multiple of a group or tile.
 * How:   a case is one block of memory with the same layout on the host and on the device: tensors and weights are
 *        offsets into it. It is filled and uploaded, both backends run the op, and the device's copy is downloaded.
 *        Results must be near the CPU's; every other byte must be unchanged, so that writes outside a result are
 *        detected.
 * Limits: sums differ by a few roundings of the size of their terms (INFER__PROBE_ROUNDING, the tolerance of the
 *        tests); x as halves or BF16, on tensor cores, by the bits that such numbers lack. Where a norm comes before x
 *        is quantised, a last digit may change the rounding: then the mean squared error decides.
 * Rules: knows ops, storage types and programs, no models and no files. A hanging device is not detected.
 * Start: infer__gpu_check, then INFER__PROBES.
 */
#include "../gpu.h"

#ifndef INFER_NO_GPU

#define INFER__PROBE_ROUNDING 2e-6 /* of the size of a sum's terms */
#define INFER__PROBE_BAD 1e30      /* the error of a result that is not a number */
/* Of x as float, as halves, as BF16: 2^-11, 2^-9 of the terms. */
static const double INFER__PROBE_LIMITS[] = {INFER__PROBE_ROUNDING, 1e-3, 2e-3};
static const double INFER__PROBE_NMSES[] = {0, 1e-5, 1e-4};

enum {
    INFER__PROBE_ROWS = 144, /* of a pass, at most */
    INFER__PROBE_PAGES = 64, /* of a sequence */
    INFER__PROBE_COLS = 2048,
    INFER__PROBE_ROOM = 1 << 20, /* bytes of a case, unless heads are long: infer__probe_room */
    INFER__PROBE_MOST_HEADS = 18,
    INFER__PROBE_LEN = 70    /* cached positions: more than one part of attention */
};

typedef struct infer__prober {
    infer__gpu *gpu;
    const infer__gpu_uses *uses;
    infer_kernel_fn tell; /* NULL = stop at the first row that is not ok */
    void *user;
    infer__mem *mem;
    infer__pool *pool;
    infer__ctx side[2];   /* the CPU, the device */
    infer__buf at[2];     /* the case, on each */
    uint8_t *got;         /* the device's copy, downloaded */
    float *sizes, *line;  /* of the terms of each result; a row of a matrix */
    uint64_t used, room;  /* bytes of the case; of `at` */
    uint32_t random;
    int32_t cells[4];     /* of two sequences, before and after a pass */
    int32_t source[2], end[INFER__PROBE_ROWS]; /* of a pass, where it has them */
    const infer__quant *type; /* of the program under test, for those of storage types */
    uint64_t passed[INFER__KERNEL_WORDS]; /* kernels that ran in cases that were ok, as bits */
    /* of the running row: its result, and the worst case's error relative to its limit (1 = at the limit) */
    infer_kernel_check row;
    double nearness;
    char input[120], kernels[120], message[160];
    /* of the running case */
    double error, limit, nmse, nmse_limit;
    int other_bits;       /* differences in bits that must be identical */
    /* of all rows */
    int32_t verdict;      /* of the first failure, with its message */
    char why[400];
    int optional;         /* the row's program is optional */
    int over, stopped;    /* the check is over; tell asked to stop */
} infer__prober;

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static uint32_t infer__probe_bits(infer__prober *k) {
    k->random ^= k->random << 13;
    k->random ^= k->random >> 17;
    k->random ^= k->random << 5;
    return k->random;
}

static float infer__probe_random(infer__prober *k) { /* -1 .. 1 */
    return (float)(infer__probe_bits(k) >> 8) / 8388608.0f - 1.0f;
}

/* Begin a case; 0 when the check is over. */
static int infer__probe_new(infer__prober *k) {
    k->used = 0;
    k->random = 0x2545f491u;
    memset(k->side[1].run->kernels, 0, sizeof k->side[1].run->kernels);
    k->error = k->limit = k->nmse = k->nmse_limit = 0;
    k->other_bits = 0;
    return !k->over;
}

/* Allocate bytes of the case, at a multiple of 64. */
static uint64_t infer__probe_take(infer__prober *k, uint64_t bytes) {
    uint64_t first = (k->used + 63) / 64 * 64;
    INFER__ASSERT(first + bytes <= k->room);
    k->used = first + bytes;
    return first;
}

/* Random rows, `pad` floats between them, `first` floats away from a multiple of 64 bytes. */
static infer__tensor infer__probe_tensor(infer__prober *k, int32_t rows, int32_t cols, int32_t pad, int32_t first) {
    uint64_t n = (uint64_t)first + (uint64_t)rows * (uint64_t)(cols + pad), i;
    infer__tensor t;
    float *x;
    t.buf = &k->at[0];
    t.offset = infer__probe_take(k, n * sizeof(float));
    x = (float *)((char *)k->at[0].host + t.offset);
    for (i = 0; i < n; i++) x[i] = infer__probe_random(k);
    t.offset += (uint64_t)first * sizeof(float);
    t.rows = rows;
    t.cols = cols;
    t.stride = cols + pad;
    return t;
}

/* The same tensor on the CPU (0) or the device (1). */
static infer__tensor infer__probe_on(infer__prober *k, const infer__tensor *t, int g) {
    infer__tensor on = *t;
    on.buf = &k->at[g];
    return on;
}

/* A value of a type that has no encode and no blocks: integers and doubles. */
static void infer__probe_plain(const infer__quant *q, float x, uint8_t *to) {
    const int64_t i64 = (int64_t)(x * 9);
    const int32_t i32 = (int32_t)i64;
    const int16_t i16 = (int16_t)i32;
    const int8_t i8 = (int8_t)i32;
    const double f64 = x;
    const void *from = q->id == INFER__PROBE_F64 ? (const void *)&f64 : q->bytes == 8 ? (const void *)&i64
                     : q->bytes == 4 ? (const void *)&i32 : q->bytes == 2 ? (const void *)&i16 : (const void *)&i8;
    memcpy(to, from, (size_t)q->bytes);
}

/* A block that decodes to numbers of a usual size: encoded random values, or random bytes. */
static void infer__probe_block(infer__prober *k, const infer__quant *q, uint8_t *block) {
    float v[INFER__CHUNK], most;
    int32_t i, tries;
    for (i = 0; i < q->values; i++) v[i] = infer__probe_random(k);
    if (q->encode) {
        q->encode(v, block, q->values);
        return;
    }
    if (q->values == 1) {
        infer__probe_plain(q, v[0], block);
        return;
    }
    for (tries = 0; tries < 100000; tries++) { /* a scale is a half: one of a few is of a usual size */
        for (i = 0; i < q->bytes; i++) block[i] = (uint8_t)(infer__probe_bits(k) >> 11);
        q->decode(block, v, q->values);
        for (i = 0, most = 0; i < q->values; i++) most = infer__finite(v[i]) ? INFER__MAX(most, fabsf(v[i])) : 1e30f;
        if (most > 0.02f && most < 50) return;
    }
    memset(block, 0, (size_t)q->bytes);
}

/* A matrix of a type; a vector is one row of F32. */
static infer__weight infer__probe_weight(infer__prober *k, const infer__quant *q, int32_t rows, int32_t cols) {
    infer__weight w;
    uint64_t i, n = (uint64_t)rows * (uint64_t)(cols / q->values);
    memset(&w, 0, sizeof w);
    w.type = q;
    w.rows = rows;
    w.cols = cols;
    w.row_bytes = (uint64_t)(cols / q->values) * (uint64_t)q->bytes;
    w.name = "a check's weight";
    w.offset = infer__probe_take(k, n * (uint64_t)q->bytes);
    w.data = (char *)k->at[0].host + w.offset;
    w.buf = &k->at[1];
    for (i = 0; i < n; i++) infer__probe_block(k, q, (uint8_t *)k->at[0].host + w.offset + i * (uint64_t)q->bytes);
    return w;
}
static infer__weight infer__probe_vector(infer__prober *k, int32_t n) {
    return infer__probe_weight(k, infer__quant_find(0, NULL), 1, n);
}

/* Frequencies, 2 sets of half pairs: on the CPU, and on the device in revolutions as sums of two floats. 0: no
 * memory. */
static int infer__probe_freq(infer__prober *k, int32_t half, float *host, infer__buf *cpu, infer__buf *gpu) {
    float turns[4 * INFER__PROBE_HALF];
    double angle = 1;
    int32_t i;
    for (i = 0; i < 2 * half; i++, angle *= 0.7) {
        double t;
        if (i == half) angle = 0.25;
        host[i] = (float)angle;
        t = (double)host[i] / (2 * 3.14159265358979323846);
        turns[2 * i] = (float)t;
        turns[2 * i + 1] = (float)(t - (double)turns[2 * i]);
    }
    memset(cpu, 0, sizeof *cpu);
    cpu->host = host;
    cpu->bytes = 2 * (uint64_t)half * sizeof *host;
    if (!k->side[1].ops->alloc(&k->side[1], gpu, 2 * cpu->bytes)) return 0;
    k->side[1].ops->upload(&k->side[1], gpu, 0, turns, gpu->bytes);
    k->side[1].ops->sync(&k->side[1]);
    return 1;
}

/* A pass of n rows, at positions 0, 1, .. of sequence 0. */
static void infer__probe_pass(infer__prober *k, int32_t n) {
    infer__pass *p = &k->side[0].pass;
    int32_t i;
    INFER__ASSERT(n <= INFER__PROBE_ROWS);
    p->n_rows = p->n_out = n;
    for (i = 0; i < n; i++) {
        p->ids[i] = 0;
        p->pos[i] = i;
        p->seq[i] = 0;
        p->out[i] = i;
    }
}

/* Everything is filled: upload the pass and the case. */
static void infer__probe_send(infer__prober *k) {
    infer__ctx *c = &k->side[1];
    c->pass = k->side[0].pass;
    c->ops->begin(c);
    if (k->used) c->ops->upload(c, &k->at[1], 0, k->at[0].host, k->used);
    c->ops->sync(c);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Both have run: download the device's memory. */
static void infer__probe_fetch(infer__prober *k) {
    infer__ctx *c = &k->side[1];
    memset(k->got, 0xff, (size_t)k->used);
    if (k->used) c->ops->download(c, &k->at[1], 0, k->got, k->used);
    c->ops->sync(c);
}

/* An error relative to its limit; NaN: BAD. */
static double infer__probe_share(double error, double limit) {
    if (!(error < INFER__PROBE_BAD)) return INFER__PROBE_BAD;
    return limit > 0 ? error / limit : 0;
}

static double infer__probe_nearness(const infer__prober *k) {
    double a = infer__probe_share(k->error, k->limit), b = infer__probe_share(k->nmse, k->nmse_limit);
    return INFER__MAX(a, b);
}

/* The largest error of n numbers: each by its size, that is sizes[i] (or NULL), `size` and the number itself; the mean
 * squared error is counted, too, unless nmse_limit is 0. */
static void infer__probe_numbers(infer__prober *k, const float *got, const float *want, uint64_t n, double size,
                                 const float *sizes, double *sum, double *norm) {
    uint64_t i;
    for (i = 0; i < n; i++) {
        double d = (double)got[i] - want[i], s = sizes ? sizes[i] : size + fabs((double)want[i]);
        d = d < 0 ? -d : d;
        *sum += d * d;
        *norm += (double)want[i] * want[i];
        if (!(d < INFER__PROBE_BAD)) k->error = INFER__PROBE_BAD;
        else if (d > 0) k->error = INFER__MAX(k->error, d / (s + 1e-30));
    }
}

/* Compare the rows of t, which are results; then mark them as equal. */
static void infer__probe_near(infer__prober *k, const infer__tensor *t, double size, const float *sizes, double limit,
                              double nmse_limit) {
    double sum = 0, norm = 0;
    int32_t r;
    k->limit = INFER__MAX(k->limit, limit);
    for (r = 0; r < t->rows; r++) {
        uint64_t at = t->offset + (uint64_t)r * (uint64_t)t->stride * sizeof(float), n = (uint64_t)t->cols;
        const float *want = (const float *)((const char *)k->at[0].host + at), *got = (const float *)(k->got + at);
        infer__probe_numbers(k, got, want, n, size, sizes ? sizes + (uint64_t)r * n : NULL, &sum, &norm);
        memcpy(k->got + at, want, n * sizeof *want);
    }
    if (nmse_limit > 0) {
        k->nmse = sum < INFER__PROBE_BAD ? INFER__MAX(k->nmse, sum / (norm + 1e-30)) : INFER__PROBE_BAD;
        k->nmse_limit = INFER__MAX(k->nmse_limit, nmse_limit);
    }
}

/* Ignore the rows of t: the device need not have written them. */
static void infer__probe_ignore(infer__prober *k, const infer__tensor *t) {
    double error = k->error, limit = k->limit;
    infer__probe_near(k, t, 1, NULL, 1, 0);
    k->error = error;
    k->limit = limit;
}

/* The names of kernels, separated by spaces. */
static void infer__probe_names(const uint64_t *kernels, char *to, size_t cap) {
    size_t n = 0;
    int32_t i;
    infer__format(to, cap, "(none was launched)");
    for (i = 0; i < INFER__KERNEL_COUNT && n < cap; i++)
        if (kernels[i / 64] >> i % 64 & 1)
            n += infer__format(to + n, cap - n, n ? " %s" : "%s", INFER__KERNELS[i].name);
}

/* A case failed: note the special programs among those of its kernels. */
static void infer__probe_blame(infer__prober *k, const uint64_t *kernels) {
    infer__gpu_blame *b = infer__gpu_blamed(k->gpu);
    int32_t i, j, kind, module;
    for (i = 0; i < INFER__KERNEL_COUNT; i++) {
        kind = INFER__KERNELS[i].kind;
        if (!(kernels[i / 64] >> i % 64 & 1) || kind < INFER__MODULE_SPECIAL) continue;
        module = infer__gpu_module(kind, INFER__KINDS[kind].of == INFER__MODULE_KV ? k->side[1].kv_type
                                                                                   : k->type ? k->type->id : -1);
        for (j = 0; j < b->n && b->modules[j] != module; j++) {}
        if (module >= 0 && j == b->n && b->n < INFER__BLAMED) b->modules[b->n++] = module;
    }
}

/* The row reports the case nearest to its limit: 1 when it is this one. After a failure the suspects are the kernels
 * that have not passed in any case so far. */
static int infer__probe_keep(infer__prober *k, int32_t verdict, double nearness, const char *input) {
    const uint64_t *ran = k->side[1].run->kernels;
    uint64_t fresh[INFER__KERNEL_WORDS], any = 0;
    int32_t i;
    for (i = 0; i < INFER__KERNEL_WORDS; i++) {
        any |= fresh[i] = ran[i] & ~k->passed[i];
        if (verdict == INFER_KERNEL_OK) k->passed[i] |= ran[i];
    }
    if (verdict != INFER_KERNEL_OK && !k->tell) {
        k->over = 1;
        infer__probe_blame(k, fresh);
        if (infer__gpu_blamed(k->gpu)->n == 0) infer__probe_blame(k, ran);
    }
    if (nearness <= k->nearness) return 0;
    k->nearness = nearness;
    k->row.verdict = verdict;
    k->row.error = k->error;
    k->row.limit = k->limit;
    k->row.nmse = k->nmse;
    k->row.nmse_limit = k->nmse_limit;
    infer__format(k->input, sizeof k->input, "%s", input);
    infer__probe_names(verdict == INFER_KERNEL_OK || !any ? ran : fresh, k->kernels, sizeof k->kernels);
    return 1;
}

/* Describes a case's error. */
static void infer__probe_wrong(infer__prober *k) {
    if (k->other_bits) infer__format(k->message, sizeof k->message, "gives other bits than the CPU");
    else if (k->error >= INFER__PROBE_BAD || k->nmse >= INFER__PROBE_BAD)
        infer__format(k->message, sizeof k->message, "gives no number where the CPU gives one");
    else if (infer__probe_share(k->error, k->limit) > 1)
        infer__format(k->message, sizeof k->message, "differs from the CPU by %.2g of the terms' size, %.2g is allowed",
                      k->error, k->limit);
    else
        infer__format(k->message, sizeof k->message,
                      "differs from the CPU by a mean squared error of %.2g, %.2g is allowed", k->nmse, k->nmse_limit);
}

/* End a case whose results have been compared. */
static void infer__probe_end(infer__prober *k, const char *format, ...) INFER__PRINTF(2, 3);
static void infer__probe_end(infer__prober *k, const char *format, ...) {
    infer__ctx *c = &k->side[1];
    char input[sizeof k->input];
    double nearness;
    int32_t verdict = INFER_KERNEL_FAILED;
    size_t full;
    va_list args;
    va_start(args, format);
    infer__format_cut(input, sizeof input, &full, format, args);
    va_end(args);
    if (infer__ok(&k->side[0]) && infer__ok(c)) {
        if (memcmp(k->got, k->at[0].host, (size_t)k->used) != 0) k->other_bits = 1; /* beside the results, too */
        nearness = k->other_bits ? INFER__PROBE_BAD : infer__probe_nearness(k);
        verdict = nearness <= 1 ? INFER_KERNEL_OK : INFER_KERNEL_DIFFERS;
    } else {
        k->error = INFER__PROBE_BAD;
        nearness = 2 * INFER__PROBE_BAD;
    }
    if (infer__probe_keep(k, verdict, nearness, input)) {
        if (verdict == INFER_KERNEL_DIFFERS) infer__probe_wrong(k);
        if (verdict == INFER_KERNEL_FAILED)
            infer__format(k->message, sizeof k->message, "fails: %s",
                          infer__ok(c) ? k->side[0].error.message : c->error.message);
    }
    infer__error_clear(&k->side[0].error);
    infer__error_clear(&c->error);
}

/* Sizes of the terms of y = w x + 1, from sizes[0] on: the scale for rounding errors of a dot product. */
static void infer__probe_dots(infer__prober *k, const infer__weight *w, int64_t first_row, int32_t rows,
                              const float *x, float *sizes) {
    int32_t r, i;
    for (r = 0; r < rows; r++) {
        double size = 1;
        w->type->decode((const uint8_t *)w->data + (uint64_t)(first_row + r) * w->row_bytes, k->line, w->cols);
        for (i = 0; i < w->cols; i++) size += fabs((double)k->line[i] * x[i]);
        sizes[r] = (float)size;
    }
}

#endif
