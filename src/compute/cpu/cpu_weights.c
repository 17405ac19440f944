/* cpu_weights.c: shared by the CPU's ops: weights as float32, the workers' scratch, running tasks on the pool, angles.
 *
 * Owns:  infer__cpu_run, infer__cpu_scratch, infer__weight_rows, infer__weight_values, infer__turn.
 */
#include "../backend.h"

enum {
    INFER__TILE_ROWS = 32,          /* rows of a weight that are decoded at once, at most */
    INFER__TILE_FLOATS = 64 * 1024, /* and their values: 256 KiB stay in the L2 cache */
    INFER__TASK_ROWS = 512,         /* rows of a task at most, */
    INFER__TASK_BYTES = 256 * 1024, /* and their bytes when memory is the limit: bounds the delay by a busy core */
    INFER__SMALL_WORK = 32 * 1024   /* multiplications that are done before another thread has woken up */
};

/* Run the tasks on the pool, or inline when there is too little work (counted in multiplications). */
static void infer__cpu_run(infer__ctx *c, int n_tasks, int64_t work, infer__task_fn fn, void *arg) {
    infer__parallel(work < INFER__SMALL_WORK ? NULL : c->pool, n_tasks, fn, arg);
}

static float *infer__cpu_scratch(const infer__ctx *c, int worker) {
    return c->cpu->scratch + worker * c->cpu->scratch_len;
}

/* Cosine and sine of pair i at position `at`, times the scale, to to[i] and to[n_rot / 2 + i]. In double: at * freq may
 * be thousands of revolutions. */
static void infer__turn(const infer__rope_args *a, int32_t i, int32_t at, int extended, float *to) {
    const int32_t half = a->n_rot / 2;
    const double angle = (double)at * (double)((const float *)a->freq->host)[extended ? half + i : i];
    to[i] = (float)(cos(angle) * a->scale);
    to[half + i] = (float)(sin(angle) * a->scale);
}

/* Rows of a weight of `cols` columns that a task decodes at once. */
static int32_t infer__tile_rows(int32_t cols) {
    int32_t rows = INFER__TILE_FLOATS / cols;
    return rows < 4 ? 4 : INFER__MIN(rows, INFER__TILE_ROWS);
}

/* Rows per task when memory bandwidth is the limit. */
static int32_t infer__task_rows(const infer__weight *w) {
    return (int32_t)INFER__MIN(INFER__TASK_BYTES / w->row_bytes, INFER__TASK_ROWS);
}

/* Rows r .. r+n-1 as float32, *stride apart: in place, or decoded to `scratch` (n * cols floats). */
static const float *infer__weight_rows(const infer__weight *w, int64_t r, int32_t n, float *scratch, int64_t *stride) {
    const char *data = (const char *)w->data + (uint64_t)r * w->row_bytes;
    const float *p = infer__quant_in_place(w->type, data);
    int32_t i;
    if (p && w->row_bytes % sizeof(float) == 0) {
        *stride = (int64_t)(w->row_bytes / sizeof(float));
        return p;
    }
    *stride = w->cols;
    for (i = 0; i < n; i++, data += w->row_bytes) w->type->decode(data, scratch + (int64_t)i * w->cols, w->cols);
    return scratch;
}

/* Values first .. first+n-1 of a vector (bias, norm), both multiples of the type's block. */
static const float *infer__weight_values(const infer__weight *w, int64_t first, int64_t n, float *scratch) {
    const char *data = (const char *)w->data + first / w->type->values * w->type->bytes;
    const float *p = infer__quant_in_place(w->type, data);
    if (p) return p;
    w->type->decode(data, scratch, n);
    return scratch;
}
