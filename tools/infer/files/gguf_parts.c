/* gguf_parts.c: a model of one or several files: opening, reading tensors, and the order of names. */
#include "files.h"

#include "../convert/convert.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ALIGNMENT = 1 << 20 };

static const file_key *find(const file_key *keys, size_t n, const char *name) {
    size_t i;
    for (i = 0; i < n; i++)
        if (strcmp(keys[i].name, name) == 0) return &keys[i];
    return NULL;
}

const file_key *file_find_key(const file_model *m, const char *name) { return find(m->keys, m->n_keys, name); }

const file_tensor *file_find_tensor(const file_model *m, const char *name) {
    size_t i;
    for (i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    return NULL;
}

/* A whole number from 0 to max, *out unchanged when there is no such key. */
static int whole(const char *command, const char *path, const file_key *k, uint64_t max, uint64_t *out) {
    infer_meta v = {0};
    if (k == NULL) return 1;
    if (k->type != GGUF_ARRAY) value_decode(k->type, k->value, &v);
    if (k->type != GGUF_ARRAY && (v.kind == INFER_META_UINT || v.kind == INFER_META_INT) && v.f >= 0 && v.f <= (double)max) {
        *out = (uint64_t)v.f;
        return 1;
    }
    cli_fail(command, "%s: %s must be a whole number from 0 to %.0f", path, k->name, (double)max);
    return 0;
}

uint64_t file_alignment(const char *command, const char *path, const file_key *keys, size_t n) {
    uint64_t x = GGUF_ALIGNMENT;
    if (!whole(command, path, find(keys, n, "general.alignment"), MAX_ALIGNMENT, &x)) return 0;
    if (x != 0 && x % 8 == 0) return x;
    cli_fail(command, "%s: general.alignment must be a multiple of 8", path);
    return 0;
}

char *file_part_path(const file_model *m, int part) {
    const size_t n = strlen(m->path);
    char *path = cli_alloc(m->command, n + 1, 1), digits[16];
    if (path == NULL) return NULL;
    memcpy(path, m->path, n + 1);
    snprintf(digits, sizeof digits, "%05d", part + 1);
    if (part > 0) memcpy(path + n - 19, digits, 5);
    return path;
}

/* Is this the part that it should be? part 0 says how many there are. */
static int check_part(file_model *m, const char *path, const file_key *keys, size_t n_keys, int part) {
    const char *c = m->command;
    uint64_t no = 0, count = 1;
    char end[24];
    size_t n = strlen(path);
    if (!whole(c, path, find(keys, n_keys, "split.no"), FILE_MAX_PARTS - 1, &no) ||
        !whole(c, path, find(keys, n_keys, "split.count"), FILE_MAX_PARTS, &count))
        return 0;
    if (count == 0) count = 1;
    if (part > 0 && (no != (uint64_t)part || count != (uint64_t)m->n_parts))
        return cli_fail(c, "%s: it says that it is part %d of %d, not %d of %d", path, (int)no + 1, (int)count, part + 1,
                        m->n_parts) == CLI_DONE;
    if (part > 0) return 1;
    if (no > 0)
        return cli_fail(c, "%s: this is part %d of a split model: name the first part", path, (int)no + 1) == CLI_DONE;
    m->n_parts = (int)count;
    snprintf(end, sizeof end, "-00001-of-%05d.gguf", (int)count);
    if (count > 1 && (n < strlen(end) || strcmp(path + n - strlen(end), end) != 0))
        return cli_fail(c, "%s: the model is split into %d parts, but the file's name does not end in %s", path, (int)count,
                        end) == CLI_DONE;
    return 1;
}

static int open_part(file_model *m, int part) {
    char *path;
    if (m->file && m->open_part == part) return 1;
    path = file_part_path(m, part);
    if (path == NULL) return 0;
    if (m->file) fclose(m->file);
    m->file = platform_fopen(path, "rb");
    m->open_part = part;
    m->at = 0;
    if (m->file == NULL && m->n_parts > 1)
        cli_fail(m->command, "cannot open %s, part %d of %d", path, part + 1, m->n_parts);
    else if (m->file == NULL)
        cli_fail(m->command, "cannot open %s", path);
    free(path);
    return m->file != NULL;
}

/* ---- order ---------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
    return strcmp((*(const file_key *const *)a)->name, (*(const file_key *const *)b)->name);
}

static int by_tensor(const void *a, const void *b) {
    return strcmp((*(const file_tensor *const *)a)->name, (*(const file_tensor *const *)b)->name);
}

int file_is_split(const char *key) { return strncmp(key, "split.", 6) == 0; }
int file_is_layout(const char *key) { return strcmp(key, "general.alignment") == 0 || file_is_split(key); }

const file_key **file_whole_keys(const file_model *m, size_t *n) {
    const file_key **list = cli_alloc(m->command, m->n_keys + 1, sizeof *list);
    size_t i;
    *n = 0;
    for (i = 0; list && i < m->n_keys; i++)
        if (!file_is_split(m->keys[i].name)) list[(*n)++] = &m->keys[i];
    return list;
}

const file_key **file_sorted_keys(const file_model *m, size_t *n) {
    const file_key **list = cli_alloc(m->command, m->n_keys + 1, sizeof *list);
    size_t i;
    *n = 0;
    for (i = 0; list && i < m->n_keys; i++)
        if (!file_is_layout(m->keys[i].name)) list[(*n)++] = &m->keys[i];
    if (list) qsort((void *)list, *n, sizeof *list, by_key);
    return list;
}

const file_tensor **file_sorted_tensors(const file_model *m) {
    const file_tensor **list = cli_alloc(m->command, m->n_tensors + 1, sizeof *list);
    size_t i;
    for (i = 0; list && i < m->n_tensors; i++) list[i] = &m->tensors[i];
    if (list) qsort((void *)list, m->n_tensors, sizeof *list, by_tensor);
    return list;
}

/* Names must be unique: which one is meant otherwise? */
static int unique(const file_model *m) {
    size_t n, i;
    const file_key **keys = file_sorted_keys(m, &n);
    const file_tensor **tensors = keys ? file_sorted_tensors(m) : NULL;
    const char *twice = NULL;
    int ok = tensors != NULL;
    for (i = 1; ok && i < n; i++)
        if (strcmp(keys[i - 1]->name, keys[i]->name) == 0) twice = keys[i]->name;
    for (i = 1; ok && i < m->n_tensors; i++)
        if (strcmp(tensors[i - 1]->name, tensors[i]->name) == 0) twice = tensors[i]->name;
    if (twice) cli_fail(m->command, "%s: the name %s occurs twice", m->path, twice);
    free((void *)keys);
    free((void *)tensors);
    return ok && twice == NULL;
}

/* ---- opening -------------------------------------------------------------------------------- */

int file_open(file_model *m, const char *command, const char *path) { return file_open_with(m, command, path, NULL, NULL); }

int file_open_with(file_model *m, const char *command, const char *path, const char *pre, const char *base) {
    uint64_t count;
    int part, ok = 1;
    memset(m, 0, sizeof *m);
    m->command = command;
    m->path = path;
    m->n_parts = 1;
    if (platform_path_kind(path) == PLATFORM_FOLDER) {
        ok = (lora_is(path) ? lora_open(m, command, path, base) : checkpoint_open(m, command, path, 0, pre)) && unique(m);
        if (!ok) file_close(m);
        return ok;
    }
    for (part = 0; ok && part < m->n_parts; part++) {
        const size_t first = m->n_keys;
        char *its = NULL;
        ok = open_part(m, part) && (its = file_part_path(m, part)) != NULL && file_read_header(m, its, part) &&
             check_part(m, its, m->keys + first, m->n_keys - first, part);
        if (part > 0) file_drop_keys(m, first);
        free(its);
    }
    m->at = UINT64_MAX; /* not where the next read begins */
    count = m->n_tensors;
    ok = ok && whole(command, path, file_find_key(m, "split.tensors.count"), INT32_MAX, &count) && unique(m);
    if (ok && m->n_parts > 1 && count != m->n_tensors) {
        cli_fail(command, "%s: split.tensors.count is %.0f, but the %d parts have %.0f tensors", path, (double)count, m->n_parts,
                 (double)m->n_tensors);
        ok = 0;
    }
    if (!ok) file_close(m);
    return ok;
}

const char *file_base(const file_model *m) { return m->folder && m->folder->lora ? m->folder->lora->base_path : NULL; }

void file_drop_tensor(file_model *m, size_t i) {
    file_tensor *t = &m->tensors[i];
    const size_t after = m->n_tensors - i - 1;
    free(t->name);
    m->data_bytes -= t->bytes;
    memmove(t, t + 1, after * sizeof *t);
    if (m->folder) made_drop(m->folder, i, after);
    m->n_tensors--;
}

void file_close(file_model *m) {
    checkpoint_close(m->folder);
    file_drop_keys(m, 0);
    while (m->n_tensors > 0) free(m->tensors[--m->n_tensors].name);
    free(m->keys);
    free(m->tensors);
    free(m->was);
    if (m->file) fclose(m->file);
    memset(m, 0, sizeof *m);
}

int file_read(file_model *m, const file_tensor *t, uint64_t offset, void *to, size_t n) {
    const uint64_t at = t->offset + offset;
    if (m->folder) return made_read(m->folder, t, offset, to, n);
    if (!open_part(m, t->part)) return 0;
    if ((m->at != at && !platform_seek(m->file, at)) || fread(to, 1, n, m->file) != n) {
        m->at = UINT64_MAX;
        cli_fail(m->command, "%s: cannot read tensor %s", m->path, t->name);
        return 0;
    }
    m->at = at + n;
    return 1;
}

int file_is_part(const file_model *m, const char *path) {
    int i, same = 0;
    if (m->folder) return checkpoint_is_file(m->folder, path);
    for (i = 0; !same && i < m->n_parts; i++) {
        char *part = file_part_path(m, i);
        same = part == NULL || platform_same_file(part, path);
        free(part);
    }
    return same;
}
