/* imatrix_read.c: files of importance. GGUF: F32 tensors NAME.in_sum2 (sums of squares, a row for each matrix) and NAME.counts (how many
 * inputs each row has seen), keys imatrix.*. The older form, little-endian: int32 number of entries; of each an int32 length and the name, int32
 * number of chunks n, int32 number of values, float32 values (n times the mean square); and, in later files, int32 number of chunks, int32
 * length and name of the text. Nothing in a file is trusted. */
#include "imatrix.h"

#include <stdlib.h>
#include <string.h>

enum { F32 = 0, MAX_NAME = 65535 };

static int bad(const imatrix_file *f, const char *what) { return cli_fail(f->command, "%s: %s", f->path, what) == CLI_DONE; }

static int by_name(const void *a, const void *b) { return strcmp(((const imatrix_entry *)a)->name, ((const imatrix_entry *)b)->name); }

const imatrix_entry *imatrix_find(const imatrix_file *f, const char *name) {
    imatrix_entry key;
    memset(&key, 0, sizeof key);
    key.name = (char *)name;
    return f->n ? bsearch(&key, f->entries, f->n, sizeof key, by_name) : NULL;
}

static char *copy_text(const char *command, const char *s, size_t n) {
    char *out = cli_alloc(command, n + 1, 1);
    if (out == NULL) return NULL;
    memcpy(out, s, n);
    out[n] = 0;
    return out;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

/* The length of a name before this ending, 0 = it has another. */
static size_t before(const char *name, const char *ending) {
    const size_t n = strlen(name), e = strlen(ending);
    return n > e && strcmp(name + n - e, ending) == 0 ? n - e : 0;
}

static uint64_t whole(const file_model *m, const char *key) {
    const file_key *k = file_find_key(m, key);
    infer_meta v;
    memset(&v, 0, sizeof v);
    if (k && k->type != GGUF_STRING && k->type != GGUF_ARRAY) value_decode(k->type, k->value, &v);
    return v.f >= 1 && v.f < 4294967296.0 ? (uint64_t)v.f : 0;
}

static int gguf_datasets(imatrix_file *f) {
    const file_key *k = file_find_key(&f->gguf, "imatrix.datasets");
    const unsigned char *p;
    uint64_t i;
    if (k == NULL || k->type != GGUF_ARRAY || k->element != GGUF_STRING) return 1;
    f->datasets = cli_alloc(f->command, (size_t)k->n + 1, sizeof *f->datasets);
    p = k->value + GGUF_ARRAY_HEAD;
    for (i = 0; f->datasets && i < k->n; i++) {
        const size_t n = (size_t)gguf_load(p, 8);
        f->datasets[i] = copy_text(f->command, (const char *)p + 8, n);
        if (f->datasets[i] == NULL) return 0;
        f->n_datasets++;
        p += 8 + n;
    }
    return f->datasets != NULL;
}

static const file_tensor *tensor_named(const file_tensor *const *sorted, size_t n, const char *name) {
    size_t a = 0, b = n;
    while (a < b) {
        const size_t mid = (a + b) / 2;
        const int c = strcmp(sorted[mid]->name, name);
        if (c == 0) return sorted[mid];
        if (c < 0) a = mid + 1;
        else b = mid;
    }
    return NULL;
}

/* The entry of a tensor NAME.in_sum2. */
static int gguf_entry(imatrix_file *f, const file_tensor *const *sorted, const file_tensor *sums, size_t n) {
    imatrix_entry *e = &f->entries[f->n];
    char *counts = cli_alloc(f->command, n + sizeof ".counts", 1);
    int ok = counts != NULL;
    memset(e, 0, sizeof *e);
    e->sums = sums;
    if (ok) {
        memcpy(counts, sums->name, n);
        memcpy(counts + n, ".counts", sizeof ".counts");
        e->counts = tensor_named(sorted, f->gguf.n_tensors, counts);
        if (e->counts == NULL) ok = cli_fail(f->command, "%s: there is no %s", f->path, counts) == CLI_DONE;
    }
    free(counts);
    if (!ok) return 0;
    if (sums->type != F32 || e->counts->type != F32) return cli_fail(f->command, "%s: %s has another type than F32", f->path, sums->name) == CLI_DONE;
    e->n_values = sums->bytes / 4;
    e->n_counts = e->counts->bytes / 4;
    if (e->n_values % e->n_counts != 0) return cli_fail(f->command, "%s: %s has another shape than its counts", f->path, sums->name) == CLI_DONE;
    e->name = copy_text(f->command, sums->name, n);
    if (e->name == NULL) return 0;
    f->n++;
    return 1;
}

static int open_gguf(imatrix_file *f) {
    const file_tensor **sorted;
    size_t i, n;
    int ok;
    if (!file_open(&f->gguf, f->command, f->path)) return 0;
    sorted = file_sorted_tensors(&f->gguf);
    f->entries = cli_alloc(f->command, f->gguf.n_tensors + 1, sizeof *f->entries);
    f->chunks = whole(&f->gguf, "imatrix.chunk_count");
    f->chunk_size = whole(&f->gguf, "imatrix.chunk_size");
    ok = sorted && f->entries && gguf_datasets(f);
    for (i = 0; ok && i < f->gguf.n_tensors; i++) {
        const char *name = f->gguf.tensors[i].name;
        n = before(name, ".in_sum2");
        if (n) ok = gguf_entry(f, sorted, &f->gguf.tensors[i], n);
        else if (!before(name, ".counts")) ok = cli_fail(f->command, "%s: tensor %s: this is no file of importance", f->path, name) == CLI_DONE;
    }
    free((void *)sorted);
    return ok;
}

/* ---- the older form ------------------------------------------------------------------------- */

/* The next n bytes; left: how many the file still has. */
static int take(imatrix_file *f, void *to, size_t n, uint64_t *left) {
    if (n > *left) return bad(f, "the file ends early, or is no file of importance");
    if (n > 0 && fread(to, 1, n, f->file) != n) return bad(f, "cannot read the file");
    *left -= n;
    return 1;
}

static int take_int(imatrix_file *f, int64_t *out, uint64_t *left) {
    unsigned char b[4];
    if (!take(f, b, 4, left)) return 0;
    *out = (int64_t)(int32_t)(uint32_t)gguf_load(b, 4);
    return 1;
}

/* A length and as many bytes. */
static char *take_name(imatrix_file *f, uint64_t *left) {
    int64_t n;
    char *name;
    if (!take_int(f, &n, left)) return NULL;
    if (n < 0 || n > MAX_NAME) {
        bad(f, "a name of this length is not possible: this is no file of importance");
        return NULL;
    }
    name = cli_alloc(f->command, (size_t)n + 1, 1);
    if (name && !take(f, name, (size_t)n, left)) {
        free(name);
        return NULL;
    }
    if (name) name[n] = 0;
    return name;
}

static int old_entry(imatrix_file *f, uint64_t size, uint64_t *left) {
    imatrix_entry *e = &f->entries[f->n];
    int64_t calls, n;
    memset(e, 0, sizeof *e);
    e->name = take_name(f, left);
    if (e->name == NULL) return 0;
    f->n++;
    if (e->name[0] == 0) return bad(f, "an entry without a name");
    if (!take_int(f, &calls, left) || !take_int(f, &n, left)) return 0;
    if (n < 1 || (uint64_t)n > *left / 4) return cli_fail(f->command, "%s: %s: the values go past the end of the file", f->path, e->name) == CLI_DONE;
    e->n_values = (uint64_t)n;
    e->n_counts = 1;
    e->calls = calls > 0 ? (float)calls : 1; /* the values of some early files are means */
    e->at = size - *left;
    *left -= 4 * (uint64_t)n;
    if ((uint64_t)calls > f->chunks && calls > 0) f->chunks = (uint64_t)calls;
    return platform_seek(f->file, size - *left) || bad(f, "cannot read the file");
}

static int open_old(imatrix_file *f) {
    uint64_t size, left;
    int64_t n, i, chunks;
    f->old = 1;
    if (!platform_size(f->file, &size)) return bad(f, "cannot read the file");
    left = size;
    if (!take_int(f, &n, &left)) return 0;
    if (n < 1 || (uint64_t)n > left / 16) return bad(f, "this is no file of importance, neither GGUF nor of the older form");
    f->entries = cli_alloc(f->command, (size_t)n, sizeof *f->entries);
    if (f->entries == NULL) return 0;
    for (i = 0; i < n; i++)
        if (!old_entry(f, size, &left)) return 0;
    if (left == 0) return 1;
    if (!take_int(f, &chunks, &left)) return 0;
    if (chunks > 0) f->chunks = (uint64_t)chunks;
    if (left == 0) return 1;
    f->datasets = cli_alloc(f->command, 1, sizeof *f->datasets);
    if (f->datasets == NULL || (f->datasets[0] = take_name(f, &left)) == NULL) return 0;
    f->n_datasets = 1;
    return left == 0 || bad(f, "there are bytes after its end: this is no file of importance");
}

/* ---- both ----------------------------------------------------------------------------------- */

int imatrix_open(imatrix_file *f, const char *command, const char *path) {
    char magic[4];
    size_t i;
    int ok;
    memset(f, 0, sizeof *f);
    f->command = command;
    f->path = path;
    f->file = platform_path_kind(path) == PLATFORM_FOLDER ? NULL : platform_fopen(path, "rb");
    if (f->file == NULL) return cli_fail(command, "cannot open %s", path) == CLI_DONE;
    f->open = 1;
    if (fread(magic, 1, 4, f->file) == 4 && memcmp(magic, "GGUF", 4) == 0) {
        fclose(f->file);
        f->file = NULL;
        ok = open_gguf(f);
    } else ok = open_old(f);
    if (ok && f->n == 0) ok = bad(f, "it has the importance of no tensor");
    if (ok) qsort(f->entries, f->n, sizeof *f->entries, by_name);
    for (i = 1; ok && i < f->n; i++)
        if (strcmp(f->entries[i - 1].name, f->entries[i].name) == 0) ok = cli_fail(command, "%s: the name %s occurs twice", path, f->entries[i].name) == CLI_DONE;
    if (!ok) imatrix_close(f);
    return ok;
}

void imatrix_close(imatrix_file *f) {
    size_t i;
    if (!f->open) return;
    for (i = 0; i < f->n; i++) free(f->entries[i].name);
    for (i = 0; i < f->n_datasets; i++) free(f->datasets[i]);
    free(f->entries);
    free(f->datasets);
    file_close(&f->gguf);
    if (f->file) fclose(f->file);
    memset(f, 0, sizeof *f);
}

/* n numbers of an entry, at its place in the older form or of a tensor. */
static int floats(imatrix_file *f, const imatrix_entry *e, const file_tensor *t, float *out, uint64_t n) {
    unsigned char *raw = cli_alloc(f->command, (size_t)n, 4);
    uint64_t i;
    int ok = raw != NULL;
    if (ok && t) ok = file_read(&f->gguf, t, 0, raw, (size_t)(4 * n));
    else if (ok) ok = (platform_seek(f->file, e->at) && fread(raw, 4, (size_t)n, f->file) == n) || bad(f, "cannot read the file");
    if (ok) ok = infer_type_decode(F32, raw, n, out, NULL) == INFER_OK;
    for (i = 0; ok && i < n; i++)
        if (!(out[i] >= 0 && out[i] - out[i] == 0)) ok = cli_fail(f->command, "%s: %s: a value is negative or not a number", f->path, e->name) == CLI_DONE;
    free(raw);
    return ok;
}

int imatrix_read(imatrix_file *f, const imatrix_entry *e, float *sums, float *counts) {
    if (!floats(f, e, e->sums, sums, e->n_values)) return 0;
    if (!f->old) return floats(f, e, e->counts, counts, e->n_counts);
    counts[0] = e->calls;
    return 1;
}
