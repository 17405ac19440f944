/* chat_file.c: `infer chat --session FILE`: the conversation in FILE, a message a line, and in FILE.state what the model has
 * evaluated of it. A turn appends its messages and one record (infer_session_save_more); after other changes FILE is
 * rewritten, and so is the state unless a part of it is still valid. Missing state is evaluated again, so FILE alone is
 * enough. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

static const char ASSISTANT[] = "{\"role\":\"assistant\"";

static int begins(const char *s, size_t n, const char *with) { return n >= strlen(with) && memcmp(s, with, strlen(with)) == 0; }

/* ---- the conversation ------------------------------------------------------------------------------------------------------ */

int chat_file_open(chat_file *f, const char *path, char **messages, size_t *n) {
    FILE *file = platform_fopen(path, "rb");
    size_t i, line, end = 0;
    memset(f, 0, sizeof *f);
    *messages = NULL;
    *n = 0;
    f->path = path;
    f->state = cli_alloc("chat", strlen(path) + 7, 1);
    if (f->state == NULL) return 0;
    sprintf(f->state, "%s.state", path);
    if (file == NULL) return 1; /* a new one */
    fclose(file);
    *messages = cli_read_file("chat", path, n);
    if (*messages == NULL) return 0;
    for (i = line = 0; i < *n; i++) { /* up to the last reply: what comes after it was being written */
        if ((*messages)[i] == 0) return cli_fail("chat", "%s holds a zero byte", path) == CLI_DONE;
        if ((*messages)[i] != '\n') continue;
        if (begins(*messages + line, i - line, ASSISTANT)) end = i + 1;
        line = i + 1;
    }
    if (*n && !begins(*messages, *n, "{\"role\":\"")) return cli_fail("chat", "%s is not a conversation saved by infer chat --session", path) == CLI_DONE;
    if (end < *n) {
        fprintf(stderr, "infer chat: %s ends in the middle of a turn: its last %lu bytes are ignored\n", path, (unsigned
        long)(*n - end));
        if (!platform_cut(path, end)) return cli_fail("chat", "cannot write %s", path) == CLI_DONE;
    }
    *n = end;
    (*messages)[end] = 0;
    return 1;
}

int chat_file_add(chat_file *f, const char *messages, size_t n) {
    FILE *file = platform_fopen(f->path, "ab");
    int ok = file != NULL && fwrite(messages, 1, n, file) == n;
    if (file != NULL && fclose(file) != 0) ok = 0;
    if (!ok) cli_fail("chat", "cannot write %s", f->path);
    return ok;
}

int chat_file_replace(chat_file *f, const char *messages, size_t n) {
    const size_t length = strlen(f->path);
    char *spare = cli_alloc("chat", length + 5, 1); /* the old file stays until the new one is complete */
    FILE *file;
    int ok;
    if (spare == NULL) return 0;
    sprintf(spare, "%s.new", f->path);
    file = platform_fopen(spare, "wb");
    ok = file != NULL && fwrite(messages, 1, n, file) == n;
    if (file != NULL && fclose(file) != 0) ok = 0;
    if (ok) ok = platform_rename(spare, f->path);
    if (!ok) {
        if (file != NULL) platform_remove(spare);
        cli_fail("chat", "cannot write %s", f->path);
    }
    free(spare);
    return ok;
}

void chat_file_forget(chat_file *f) {
    memset(&f->mark, 0, sizeof f->mark);
    platform_remove(f->state);
}

/* ---- what was evaluated ---------------------------------------------------------------------------------------------------- */

static size_t read_bytes(void *user, void *data, size_t n) { return fread(data, 1, n, (FILE *)user); }
static size_t write_bytes(void *user, const void *data, size_t n) { return fwrite(data, 1, n, (FILE *)user); }

int chat_file_load(chat_file *f, infer_session *session) {
    FILE *file = platform_fopen(f->state, "rb");
    infer_result r;
    if (file == NULL) return 1;
    r = infer_session_load_more(session, &f->mark, read_bytes, file);
    fclose(file);
    if (r != INFER_OK) {
        cli_fail("chat", "%s: %s (delete this file to evaluate the conversation again)", f->state,
        infer_session_error(session)->message);
        return 0;
    }
    if (f->mark.left == 0) return 1;
    fprintf(stderr, "infer chat: %s ends in %lu bytes that are not a whole record; they are ignored\n", f->state,
    (unsigned long)f->mark.left);
    if (platform_cut(f->state, f->mark.bytes)) return 1;
    cli_fail("chat", "cannot write %s", f->state);
    return 0;
}

int chat_file_save(chat_file *f, infer_session *session) {
    FILE *file = platform_fopen(f->state, f->mark.bytes ? "ab" : "wb");
    const infer_session_mark before = f->mark;
    infer_result r = INFER_ERR_IO;
    if (file != NULL) r = infer_session_save_more(session, &f->mark, write_bytes, file);
    if (file != NULL && fclose(file) != 0) r = INFER_ERR_IO;
    if (r == INFER_OK) return 1;
    cli_fail("chat", "%s: %s", f->state, r == INFER_ERR_IO ? "cannot be written" : infer_session_error(session)->message);
    if (file != NULL) platform_cut(f->state, before.bytes);
    return 0;
}

void chat_file_close(chat_file *f) { free(f->state); }
