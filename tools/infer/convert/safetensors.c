/* safetensors.c: reading the headers of safetensors files, and their data. */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100 << 20, MAX_FILES = 4096 }; /* the format's own limit; files of a model */

const int st_type_bytes[ST_N_TYPES] = {4, 2, 2, 1, 1, 1, 4, 8, 8, 1};
static const char *const TYPES[ST_N_TYPES] = {"F32", "F16", "BF16", "F8_E4M3", "U8", "I8", "I32", "I64", "F64", "BOOL"};

char *st_path(const char *command, const char *folder, const char *name) {
    const size_t n = strlen(folder) + strlen(name) + 2;
    char *path = cli_alloc(command, n, 1);
    if (path) snprintf(path, n, "%s/%s", folder, name);
    return path;
}

/* ---- one file --------------------------------------------------------------------------------- */

static int bad(const st_files *s, int file, const char *tensor, const char *what) {
    if (tensor) cli_fail(s->command, "%s: tensor %s: %s", s->paths[file], tensor, what);
    else cli_fail(s->command, "%s: %s", s->paths[file], what);
    return 0;
}

/* A whole number that is not negative. */
static int whole(const infer_json *v, uint64_t *out) {
    if (v == NULL || infer_json_kind(v) != INFER_JSON_INT || infer_json_int(v) < 0) return 0;
    *out = (uint64_t)infer_json_int(v);
    return 1;
}

/* *end: of the data of all tensors so far. */
static int read_tensor(st_files *s, int file, const char *name, const infer_json *v, uint64_t start, uint64_t size, uint64_t *end) {
    const infer_json *dtype = infer_json_get(v, "dtype"), *shape = infer_json_get(v, "shape"), *ends = infer_json_get(v, "data_offsets");
    const char *type = dtype ? infer_json_string(dtype, NULL) : NULL;
    st_tensor t, *grown;
    uint64_t from, to, bytes;
    size_t i;
    memset(&t, 0, sizeof t);
    if (type == NULL || shape == NULL || ends == NULL || infer_json_kind(shape) != INFER_JSON_ARRAY || infer_json_count(ends) != 2 ||
        !whole(infer_json_at(ends, 0), &from) || !whole(infer_json_at(ends, 1), &to))
        return bad(s, file, name, "dtype, shape or data_offsets are missing");
    while (t.type < ST_N_TYPES && strcmp(TYPES[t.type], type) != 0) t.type++;
    if (t.type == ST_N_TYPES) {
        cli_fail(s->command, "%s: tensor %s: values of type %.20s are not supported", s->paths[file], name, type);
        return 0;
    }
    if (infer_json_count(shape) > ST_DIMS) return bad(s, file, name, "too many dimensions");
    t.n_dims = (int)infer_json_count(shape);
    t.n = 1;
    for (i = 0; i < (size_t)t.n_dims; i++) {
        if (!whole(infer_json_at(shape, i), &t.dims[i]) || (t.dims[i] > 0 && t.n > (uint64_t)INT64_MAX / 8 / t.dims[i]))
            return bad(s, file, name, "this shape is not possible");
        t.n *= t.dims[i];
    }
    bytes = t.n * (uint64_t)st_type_bytes[t.type];
    if (to < from || to - from != bytes) return bad(s, file, name, "its data_offsets do not fit its shape");
    if (to > size - start) return bad(s, file, name, "its data goes past the end of the file: is the file complete?");
    if (to > *end) *end = to;
    t.file = file;
    t.offset = start + from;
    grown = (s->n & (s->n - 1)) == 0 ? cli_grow(s->command, s->tensors, s->n ? 2 * s->n : 1, sizeof *grown) : s->tensors;
    if (grown == NULL) return 0;
    s->tensors = grown;
    t.name = cli_alloc(s->command, strlen(name) + 1, 1);
    if (t.name == NULL) return 0;
    memcpy(t.name, name, strlen(name) + 1);
    s->tensors[s->n++] = t;
    return 1;
}

static int read_header(st_files *s, int file) {
    unsigned char length[8];
    uint64_t size, n = 0, end = 0;
    infer_json *header = NULL;
    infer_error err;
    char *text;
    size_t i;
    int ok = 1;
    if (!platform_size(s->file, &size) || fread(length, 1, 8, s->file) != 8) return bad(s, file, NULL, "not a safetensors file: it is too short");
    for (i = 8; i-- > 0;) n = n << 8 | length[i];
    if (n > MAX_HEADER || n > size - 8) return bad(s, file, NULL, "not a safetensors file, or it is not complete: the header is longer than it can be");
    text = cli_alloc(s->command, (size_t)n + 1, 1);
    if (text == NULL) return 0;
    if (fread(text, 1, (size_t)n, s->file) != n) ok = bad(s, file, NULL, "cannot read the file");
    else if (infer_json_parse(&header, text, (size_t)n, NULL, &err) != INFER_OK) ok = bad(s, file, NULL, err.message);
    else if (infer_json_kind(header) != INFER_JSON_OBJECT) ok = bad(s, file, NULL, "not a safetensors file: the header is no object");
    for (i = 0; ok && i < infer_json_count(header); i++) {
        size_t name_n;
        const char *name = infer_json_name(header, i, &name_n);
        if (strcmp(name, "__metadata__") == 0) continue;
        if (strlen(name) != name_n) ok = bad(s, file, NULL, "a name with a zero byte");
        else ok = read_tensor(s, file, name, infer_json_at(header, i), 8 + n, size, &end);
    }
    if (ok && end != size - 8 - n) ok = bad(s, file, NULL, "the header does not account for all bytes of the file");
    infer_json_free(header);
    free(text);
    return ok;
}

static int open_file(st_files *s, int file) {
    if (s->file && s->open == file) return 1;
    if (s->file) fclose(s->file);
    s->file = platform_path_kind(s->paths[file]) == PLATFORM_FILE ? platform_fopen(s->paths[file], "rb") : NULL;
    s->open = file;
    s->at = UINT64_MAX;
    if (s->file == NULL) cli_fail(s->command, "cannot open %s", s->paths[file]);
    return s->file != NULL;
}

int st_read(st_files *s, const st_tensor *t, uint64_t first, void *to, size_t n) {
    const uint64_t size = (uint64_t)st_type_bytes[t->type], at = t->offset + first * size;
    if (n == 0) return 1;
    if (!open_file(s, t->file)) return 0;
    if ((s->at != at && !platform_seek(s->file, at)) || fread(to, (size_t)size, n, s->file) != n) {
        s->at = UINT64_MAX;
        return bad(s, t->file, t->name, "cannot read it");
    }
    s->at = at + n * size;
    return 1;
}

/* ---- the folder ------------------------------------------------------------------------------- */

static int add_path(st_files *s, const char *folder, const char *name) {
    char **grown = cli_grow(s->command, s->paths, (size_t)s->n_paths + 1, sizeof *grown);
    if (grown == NULL) return 0;
    s->paths = grown;
    s->paths[s->n_paths] = st_path(s->command, folder, name);
    return s->paths[s->n_paths] != NULL && ++s->n_paths;
}

static int by_name(const void *a, const void *b) { return strcmp(((const st_tensor *)a)->name, ((const st_tensor *)b)->name); }

/* The files that the index names; each tensor that it names must be there. */
static int add_listed(st_files *s, const char *folder, const char *index, const infer_json *map) {
    size_t i;
    int k;
    for (i = 0; i < infer_json_count(map); i++) {
        const infer_json *v = infer_json_at(map, i);
        const char *name = infer_json_string(v, NULL);
        const size_t n = strlen(folder) + 1;
        if (name == NULL || name[0] == 0 || name[0] == '.' || strpbrk(name, "/\\:"))
            return cli_fail(s->command, "%s: the name of a file is none", index) == CLI_DONE;
        for (k = 0; k < s->n_paths && strcmp(s->paths[k] + n, name) != 0; k++) {}
        if (k < s->n_paths) continue;
        if (k == MAX_FILES) return cli_fail(s->command, "%s: more than %d files", index, MAX_FILES) == CLI_DONE;
        if (!add_path(s, folder, name)) return 0;
    }
    return 1;
}

static int check_listed(const st_files *s, const char *index, const infer_json *map) {
    size_t i;
    for (i = 0; i < infer_json_count(map); i++)
        if (st_find(s, infer_json_name(map, i, NULL)) == NULL)
            return cli_fail(s->command, "%s: %s is not in %s", index, infer_json_name(map, i, NULL), infer_json_string(infer_json_at(map, i), NULL)) == CLI_DONE;
    return 1;
}

/* What else such a folder may hold, to name it. */
static int other_form(void *user, const char *name, int is_folder, uint64_t bytes) {
    static const char *const ENDS[] = {".bin", ".pth", ".pt", ".ckpt", ".pkl", ".gguf"};
    const size_t n = strlen(name);
    size_t i;
    char *out = user;
    (void)bytes;
    for (i = 0; !is_folder && i < sizeof ENDS / sizeof ENDS[0]; i++)
        if (n < 200 && cli_ends_with(name, ENDS[i])) memcpy(out, name, n + 1);
    return 1;
}

static int say_missing(const st_files *s, const char *folder, const char *stem) {
    char other[256] = "";
    platform_list(folder, other_form, other);
    if (other[0] == 0) cli_fail(s->command, "%s: there is no %s.safetensors and no %s.safetensors.index.json", folder, stem, stem);
    else if (strstr(other, ".gguf")) cli_fail(s->command, "%s: there is no %s.safetensors; %s is a GGUF file already", folder, stem, other);
    else cli_fail(s->command, "%s: there is no %s.safetensors; %s is a pickle, which can run code and is not read: save it as safetensors", folder, stem, other);
    return 0;
}

static int open_all(st_files *s, const char *folder, const char *stem, const char *single, const char *index) {
    infer_json *list = NULL;
    infer_error err;
    const infer_json *map = NULL;
    size_t n, i;
    int k, ok = 1;
    if (platform_path_kind(index) == PLATFORM_FILE) {
        char *text = cli_read_file(s->command, index, &n);
        ok = text != NULL;
        if (ok && infer_json_parse(&list, text, n, NULL, &err) != INFER_OK) ok = cli_fail(s->command, "%s: %s", index, err.message) == CLI_DONE;
        free(text);
        map = ok ? infer_json_get(list, "weight_map") : NULL;
        if (ok && (map == NULL || infer_json_kind(map) != INFER_JSON_OBJECT)) ok = cli_fail(s->command, "%s: weight_map is missing", index) == CLI_DONE;
        ok = ok && add_listed(s, folder, index, map);
    } else if (platform_path_kind(single) != PLATFORM_FILE) ok = say_missing(s, folder, stem);
    else ok = add_path(s, folder, single + strlen(folder) + 1);
    for (k = 0; ok && k < s->n_paths; k++) ok = open_file(s, k) && read_header(s, k);
    if (ok && s->n > 0) qsort(s->tensors, s->n, sizeof *s->tensors, by_name);
    for (i = 1; ok && i < s->n; i++)
        if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0) ok = bad(s, s->tensors[i].file, s->tensors[i].name, "it occurs twice");
    if (ok && map) ok = check_listed(s, index, map);
    infer_json_free(list);
    return ok;
}

int st_open(st_files *s, const char *command, const char *folder, const char *stem) {
    char name[64], *single, *index;
    int ok;
    memset(s, 0, sizeof *s);
    s->command = command;
    snprintf(name, sizeof name, "%s.safetensors", stem);
    single = st_path(command, folder, name);
    snprintf(name, sizeof name, "%s.safetensors.index.json", stem);
    index = st_path(command, folder, name);
    ok = single && index && open_all(s, folder, stem, single, index);
    s->at = UINT64_MAX; /* not where the next read begins */
    free(single);
    free(index);
    if (!ok) st_close(s);
    return ok;
}

void st_close(st_files *s) {
    while (s->n > 0) free(s->tensors[--s->n].name);
    while (s->n_paths > 0) free(s->paths[--s->n_paths]);
    free(s->tensors);
    free(s->paths);
    if (s->file) fclose(s->file);
    memset(s, 0, sizeof *s);
}

st_tensor *st_find(const st_files *s, const char *name) {
    st_tensor key = {0};
    key.name = (char *)name;
    return s->n ? bsearch(&key, s->tensors, s->n, sizeof key, by_name) : NULL;
}
