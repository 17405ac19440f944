/* imatrix_sums.c: importance in memory: adding, merging, writing. */
#include "imatrix.h"

#include <stdlib.h>
#include <string.h>

enum { F32 = 0 };

/* ---- lists ----------------------------------------------------------------------------------- */

static void sum_free(imatrix_sum *t) {
    if (t == NULL) return;
    free(t->name);
    free(t->total);
    free(t->chunk);
    free(t->counts);
    free(t->chunk_counts);
    free(t);
}

void imatrix_sums_free(imatrix_sums *s) {
    size_t i;
    for (i = 0; i < s->n; i++) sum_free(s->items[i]);
    for (i = 0; i < s->n_datasets; i++) free(s->datasets[i]);
    free((void *)s->items);
    free((void *)s->datasets);
    memset(s, 0, sizeof *s);
}

/* A list of n pointers with room for one more; NULL after saying that there is no memory. */
static void *room(const char *command, void *list, size_t n) {
    enum { STEP = 64 };
    return n % STEP ? list : cli_grow(command, list, n + STEP, sizeof(void *));
}

static char *copy_name(const char *command, const char *name) {
    const size_t n = strlen(name) + 1;
    char *out = cli_alloc(command, n, 1);
    if (out) memcpy(out, name, n);
    return out;
}

static void *zeros(const char *command, uint64_t n, size_t size) {
    void *p = cli_alloc(command, (size_t)n, size);
    if (p) memset(p, 0, (size_t)n * size);
    return p;
}

imatrix_sum *imatrix_sums_add(imatrix_sums *s, const char *name, uint64_t n_values, uint64_t n_counts) {
    imatrix_sum **grown = room(s->command, (void *)s->items, s->n), *t;
    if (grown == NULL) return NULL;
    s->items = grown;
    t = zeros(s->command, 1, sizeof *t);
    if (t == NULL) return NULL;
    t->n_values = n_values;
    t->n_counts = n_counts;
    t->name = copy_name(s->command, name);
    t->total = zeros(s->command, n_values, sizeof *t->total);
    t->chunk = zeros(s->command, n_values, sizeof *t->chunk);
    t->counts = zeros(s->command, n_counts, sizeof *t->counts);
    t->chunk_counts = zeros(s->command, n_counts, sizeof *t->chunk_counts);
    if (t->name == NULL || t->total == NULL || t->chunk == NULL || t->counts == NULL || t->chunk_counts == NULL) {
        sum_free(t);
        return NULL;
    }
    s->items[s->n++] = t;
    return t;
}

static imatrix_sum *find(const imatrix_sums *s, const char *name) {
    size_t i;
    for (i = 0; i < s->n; i++)
        if (strcmp(s->items[i]->name, name) == 0) return s->items[i];
    return NULL;
}

int imatrix_add_dataset(imatrix_sums *s, const char *name) {
    size_t i;
    char **grown, *copy;
    for (i = 0; i < s->n_datasets; i++)
        if (strcmp(s->datasets[i], name) == 0) return 1;
    grown = room(s->command, (void *)s->datasets, s->n_datasets);
    if (grown == NULL) return 0;
    s->datasets = grown;
    copy = copy_name(s->command, name);
    if (copy) s->datasets[s->n_datasets++] = copy;
    return copy != NULL;
}

/* ---- adding --------------------------------------------------------------------------------- */

int imatrix_spread(const char *command, imatrix_sum *t, uint64_t n_counts) {
    double *counts, *chunk_counts;
    uint64_t i;
    if (t->n_counts == n_counts) return 1;
    counts = zeros(command, n_counts, sizeof *counts);
    chunk_counts = zeros(command, n_counts, sizeof *chunk_counts);
    for (i = 0; counts && chunk_counts && i < n_counts; i++) {
        counts[i] = t->counts[0];
        chunk_counts[i] = t->chunk_counts[0];
    }
    if (counts == NULL || chunk_counts == NULL) {
        free(counts);
        free(chunk_counts);
        return 0;
    }
    free(t->counts);
    free(t->chunk_counts);
    t->counts = counts;
    t->chunk_counts = chunk_counts;
    t->n_counts = n_counts;
    return 1;
}

static int is_finite(float x) { return x - x == 0; }

static int add_entry(imatrix_sums *s, imatrix_file *f, const imatrix_entry *e, double times) {
    imatrix_sum *t = find(s, e->name);
    float *values = cli_alloc(s->command, (size_t)e->n_values, sizeof *values), *counts = cli_alloc(s->command, (size_t)e->n_counts, sizeof *counts);
    int ok = values && counts && imatrix_read(f, e, values, counts);
    uint64_t i;
    if (ok && t == NULL) ok = (t = imatrix_sums_add(s, e->name, e->n_values, e->n_counts)) != NULL;
    if (ok && (t->n_values != e->n_values || (t->n_counts != e->n_counts && t->n_counts != 1 && e->n_counts != 1)))
        ok = cli_fail(s->command, "%s: %s has another shape than before: is it of another model?", f->path, e->name) == CLI_DONE;
    if (ok && t->n_counts < e->n_counts) ok = imatrix_spread(s->command, t, e->n_counts);
    for (i = 0; ok && i < e->n_values; i++) {
        t->total[i] += values[i] * (float)times;
        if (!is_finite(t->total[i])) ok = cli_fail(s->command, "%s: %s: the sum is too large", f->path, e->name) == CLI_DONE;
    }
    for (i = 0; ok && i < t->n_counts; i++) t->counts[i] += times * (double)counts[e->n_counts > 1 ? i : 0];
    free(values);
    free(counts);
    return ok;
}

int imatrix_merge(imatrix_sums *s, imatrix_file *f) {
    const uint64_t size = f->chunk_size ? f->chunk_size : s->chunk_size;
    size_t i;
    for (i = 0; i < f->n; i++)
        if (!add_entry(s, f, &f->entries[i], f->old ? (double)size : 1)) return 0;
    for (i = 0; i < f->n_datasets; i++)
        if (!imatrix_add_dataset(s, f->datasets[i])) return 0;
    s->tokens += (double)f->chunks * (double)size;
    return 1;
}

int imatrix_chunk_done(imatrix_sums *s) {
    size_t k;
    uint64_t i;
    for (k = 0; k < s->n; k++) {
        imatrix_sum *t = s->items[k];
        int all = 1;
        for (i = 0; i < t->n_values; i++) {
            t->total[i] += t->chunk[i];
            all &= is_finite(t->total[i]);
        }
        for (i = 0; i < t->n_counts; i++) t->counts[i] += t->chunk_counts[i];
        memset(t->chunk, 0, (size_t)t->n_values * sizeof *t->chunk);
        memset(t->chunk_counts, 0, (size_t)t->n_counts * sizeof *t->chunk_counts);
        if (!all) return cli_fail(s->command, "%s: its inputs have values that are not finite, or too large", t->name) == CLI_DONE;
    }
    s->tokens += (double)s->chunk_size;
    return 1;
}

/* ---- writing -------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp((*(const imatrix_sum *const *)a)->name, (*(const imatrix_sum *const *)b)->name); }

typedef struct float_buffer {
    unsigned char bytes[4096];
    size_t n;
} float_buffer;

static void put_float(gguf_out *out, float_buffer *b, float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    gguf_store(b->bytes + b->n, bits, 4);
    b->n += 4;
    if (b->n < sizeof b->bytes) return;
    gguf_data(out, b->bytes, b->n);
    b->n = 0;
}

static void put_end(gguf_out *out, float_buffer *b) {
    gguf_data(out, b->bytes, b->n);
    gguf_pad(out);
    b->n = 0;
}

static void put_sum(gguf_out *out, const imatrix_sum *t) {
    float_buffer b;
    uint64_t i;
    b.n = 0;
    for (i = 0; i < t->n_values; i++) put_float(out, &b, t->total[i]);
    put_end(out, &b);
    for (i = 0; i < t->n_counts; i++) put_float(out, &b, (float)t->counts[i]);
    put_end(out, &b);
}

static int announce(const imatrix_sums *s, gguf_out *out, const imatrix_sum *t) {
    const uint64_t sums[2] = {t->n_values / t->n_counts, t->n_counts}, counts[2] = {1, t->n_counts};
    const size_t n = strlen(t->name);
    const int n_dims = t->n_counts > 1 ? 2 : 1; /* as llama-imatrix writes them */
    char *name = cli_alloc(s->command, n + 16, 1);
    if (name == NULL) return 0;
    snprintf(name, n + 16, "%s.in_sum2", t->name);
    gguf_tensor(out, name, F32, n_dims, sums, 4 * t->n_values);
    snprintf(name, n + 16, "%s.counts", t->name);
    gguf_tensor(out, name, F32, n_dims, counts, 4 * t->n_counts);
    free(name);
    return 1;
}

int imatrix_write(const imatrix_sums *s, const char *path) {
    imatrix_sum **sorted = cli_alloc(s->command, s->n + 1, sizeof *sorted);
    out_file o;
    size_t i;
    int ok = sorted != NULL;
    memset(&o, 0, sizeof o);
    if (ok) {
        memcpy((void *)sorted, (void *)s->items, s->n * sizeof *sorted);
        qsort((void *)sorted, s->n, sizeof *sorted, by_name);
        ok = out_open(&o, s->command, path);
    }
    if (ok) {
        gguf_string(&o.out, "general.type", "imatrix");
        gguf_array(&o.out, "imatrix.datasets", GGUF_STRING, s->n_datasets);
        for (i = 0; i < s->n_datasets; i++) gguf_element_string(&o.out, s->datasets[i]);
        gguf_u32(&o.out, "imatrix.chunk_count", (uint32_t)(s->tokens / (double)s->chunk_size));
        gguf_u32(&o.out, "imatrix.chunk_size", (uint32_t)s->chunk_size);
        for (i = 0; ok && i < s->n; i++) ok = announce(s, &o.out, sorted[i]);
    }
    if (ok) {
        gguf_begin(&o.out);
        for (i = 0; i < s->n && !o.out.failed; i++) put_sum(&o.out, sorted[i]);
        ok = out_close(&o) && out_rename(&o);
    }
    out_free(&o, ok);
    free((void *)sorted);
    return ok;
}
