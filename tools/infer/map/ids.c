/* ids.c: ids that came before. Only 126 bits of each are kept: that two ids are taken for one is less likely than a fault of the machine. */
#include "map.h"

#include "../files/files.h"

#include <stdlib.h>
#include <string.h>

/* ---- a set ---------------------------------------------------------------------------------- */

/* The row of a key, or the empty one where it belongs. */
static uint64_t *find(const map_ids *ids, const uint64_t *key) {
    size_t i = (size_t)key[0] & (ids->cap - 1);
    while (ids->rows[i][1] && (ids->rows[i][0] != key[0] || (ids->rows[i][1] ^ key[1]) >> 2)) i = (i + 1) & (ids->cap - 1);
    return ids->rows[i];
}

static int grow(map_ids *ids) {
    map_ids more = *ids;
    size_t i;
    if (ids->n < ids->cap / 2) return 1;
    more.cap = ids->cap ? 2 * ids->cap : 1024;
    more.rows = cli_alloc(serve_command, more.cap, sizeof *more.rows);
    if (more.rows == NULL) return 0;
    memset(more.rows, 0, more.cap * sizeof *more.rows);
    for (i = 0; i < ids->cap; i++) {
        if (ids->rows[i][1]) memcpy(find(&more, ids->rows[i]), ids->rows[i], sizeof *more.rows);
    }
    free(ids->rows);
    *ids = more;
    return 1;
}

int map_ids_add(map_ids *ids, const cli_text *id, int known) {
    unsigned char hash[SHA256_BYTES];
    uint64_t key[2], *row;
    sha256 sum;
    int before;
    if (id->failed || !grow(ids)) return -1;
    sha256_begin(&sum);
    sha256_add(&sum, id->s, id->n);
    sha256_end(&sum, hash);
    memcpy(key, hash, sizeof key);
    key[1] &= ~(uint64_t)3;
    row = find(ids, key);
    before = (int)(row[1] & 3);
    ids->n += before == 0;
    row[0] = key[0];
    row[1] = key[1] | (uint64_t)(before | known);
    return before;
}

void map_ids_free(map_ids *ids) {
    free(ids->rows);
    memset(ids, 0, sizeof *ids);
}

/* ---- what an earlier run wrote -------------------------------------------------------------- */

typedef struct earlier {
    map_ids *ids;
    const char *path;
    uint64_t *failed;
} earlier;

static int take_written(void *user, map_splitter *s) {
    const earlier *e = user;
    infer_json *record = NULL;
    const infer_json *id, *line;
    infer_error err;
    cli_text key;
    int ok;
    memset(&key, 0, sizeof key);
    ok = !s->too_long && !s->line.failed && infer_json_parse(&record, s->line.s, s->line.n, NULL, &err) == INFER_OK;
    id = infer_json_get(record, "id");
    line = infer_json_get(record, "line");
    if (infer_json_kind(id) == INFER_JSON_STRING || infer_json_kind(id) == INFER_JSON_INT) out(&key, "%v", id);
    else if (infer_json_kind(line) == INFER_JSON_INT) out(&key, "line %v", line);
    else ok = 0;
    if (!ok) cli_fail(serve_command, "--resume: line %llu of %s is no line of this command's output", (unsigned long long)s->number, e->path);
    ok = ok && map_ids_add(e->ids, &key, ID_WRITTEN) >= 0;
    *e->failed += infer_json_get(record, "error") != NULL;
    out_end(&key);
    infer_json_free(record);
    return ok;
}

int map_ids_written(map_ids *ids, const char *path, uint64_t *failed) {
    enum { LINE_MOST = 1 << 30 };
    char buffer[1 << 16];
    map_splitter s;
    earlier e;
    FILE *file;
    size_t n;
    int ok = 1;
    *failed = 0;
    if (platform_path_kind(path) == PLATFORM_ABSENT) return 1;
    file = platform_path_kind(path) == PLATFORM_FILE ? platform_fopen(path, "rb") : NULL;
    if (file == NULL) return cli_fail(serve_command, "--resume: %s cannot be read", path) == CLI_DONE;
    memset(&s, 0, sizeof s);
    s.most = LINE_MOST;
    e.ids = ids;
    e.path = path;
    e.failed = failed;
    while (ok && (n = fread(buffer, 1, sizeof buffer, file)) > 0) ok = map_split(&s, buffer, n, take_written, &e);
    if (ferror(file)) ok = cli_fail(serve_command, "--resume: %s cannot be read", path) == CLI_DONE;
    fclose(file);
    if (ok && s.bytes > s.ended && !platform_cut(path, s.ended))
        ok = cli_fail(serve_command, "--resume: the last line of %s has no end, and cannot be cut off", path) == CLI_DONE;
    out_end(&s.line);
    return ok;
}
