/* write.c: writing files. A file is written under another name beside its place and renamed when it is complete, so
 * that there is never half a file under its own name. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20 };

/* "-00001-of-00003.gguf" of a part's path, which must stay the end of its other name for the library to find the others; or "". */
static const char *part_end(const char *path) {
    const size_t n = strlen(path);
    const char *end = path + (n > 20 ? n - 20 : n);
    return *end == '-' && memcmp(end + 6, "-of-", 4) == 0 && strcmp(end + 15, ".gguf") == 0 ? end : path + n;
}

int out_open(out_file *o, const char *command, const char *path) {
    const char *end = part_end(path);
    const int kind = platform_path_kind(path);
    const size_t n = strlen(path) + 40;
    memset(o, 0, sizeof *o);
    o->command = command;
    o->path = path;
    if (strcmp(path, "-") == 0) {
        cli_fail(command, "cannot write a model to stdout: name a file");
        return 0;
    }
    if (kind == PLATFORM_FOLDER || kind == PLATFORM_OTHER) {
        cli_fail(command, "cannot write %s: it is %s", path, kind == PLATFORM_FOLDER ? "a folder" : "not an ordinary file");
        return 0;
    }
    o->part = cli_alloc(command, n, 1);
    if (o->part == NULL) return 0;
    snprintf(o->part, n, "%.*s.%ld.part%s", (int)(strlen(path) - strlen(end)), path, platform_process(), end);
    o->out.file = platform_fopen(o->part, "wb");
    if (o->out.file) return 1;
    cli_fail(command, "cannot write %s", path);
    free(o->part);
    o->part = NULL;
    return 0;
}

int out_close(out_file *o) {
    int ok = !o->out.failed && fflush(o->out.file) == 0 && !ferror(o->out.file);
    if (fclose(o->out.file) != 0) ok = 0;
    o->out.file = NULL;
    if (!ok) cli_fail(o->command, "cannot write %s: out of memory or disk space", o->path);
    return ok;
}

int out_rename(out_file *o) {
    if (!platform_rename(o->part, o->path)) {
        cli_fail(o->command, "cannot write %s: its temporary file could not be renamed", o->path);
        return 0;
    }
    o->renamed = 1;
    return 1;
}

void out_free(out_file *o, int kept) {
    if (o->out.file) fclose(o->out.file);
    if (o->part && !o->renamed) platform_remove(o->part);
    if (o->renamed && !kept) platform_remove(o->path);
    free(o->part);
    gguf_free(&o->out);
    memset(o, 0, sizeof *o);
}

int out_copy(gguf_out *out, file_model *in, const file_tensor *t, out_progress *p) {
    unsigned char *buf = cli_alloc(in->command, CHUNK, 1);
    uint64_t at;
    int status = buf ? CLI_DONE : CLI_FAILED;
    for (at = 0; status == CLI_DONE && at < t->bytes && !out->failed; at += CHUNK) {
        const size_t n = t->bytes - at < CHUNK ? (size_t)(t->bytes - at) : CHUNK;
        if (cli_run_interrupted()) status = CLI_INTERRUPTED;
        else if (!file_read(in, t, at, buf, n)) status = CLI_FAILED;
        else gguf_data(out, buf, n);
        p->done += n;
        cli_progress_show(&p->bar, (float)((double)p->done / (double)in->data_bytes));
    }
    free(buf);
    return status;
}
