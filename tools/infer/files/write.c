/* write.c: writing models. A file is written under another name beside its place and renamed when it is complete, so
 * that there is never half a file under its own name. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20 };

int out_open(out_file *o, const char *command, const char *path) {
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
    snprintf(o->part, n, "%s.%ld.part", path, platform_process());
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

void out_keys(out_file *o, const file_key *const *keys, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) gguf_raw(&o->out, keys[i]->name, keys[i]->type, keys[i]->value, keys[i]->bytes);
}

void out_announce(gguf_out *out, const file_tensor *t) { gguf_tensor(out, t->name, t->type, t->n_dims, t->dims, t->bytes); }

/* The data of a tensor. An exit status; a failed write is found when the file is closed. */
static int copy_data(file_model *in, const file_tensor *t, gguf_out *out, unsigned char *buf, out_progress *p) {
    uint64_t at;
    for (at = 0; at < t->bytes && !out->failed; at += CHUNK) {
        const size_t n = t->bytes - at < CHUNK ? (size_t)(t->bytes - at) : CHUNK;
        if (cli_run_interrupted()) return CLI_INTERRUPTED;
        if (!file_read(in, t, at, buf, n)) return CLI_FAILED;
        gguf_data(out, buf, n);
        p->done += n;
        cli_progress_show(&p->bar, (float)((double)p->done / (double)in->data_bytes));
    }
    gguf_pad(out);
    return CLI_DONE;
}

int out_copy(out_file *o, file_model *in, const file_tensor *t, out_progress *p) {
    unsigned char *buf = cli_alloc(o->command, CHUNK, 1);
    const int status = buf ? copy_data(in, t, &o->out, buf, p) : CLI_FAILED;
    free(buf);
    return status;
}

int out_tensors(out_file *o, file_model *in, size_t first, size_t n, out_progress *p) {
    unsigned char *buf = cli_alloc(o->command, CHUNK, 1);
    int status = buf ? CLI_DONE : CLI_FAILED;
    size_t i;
    for (i = first; buf && i < first + n; i++) out_announce(&o->out, &in->tensors[i]);
    if (buf) gguf_begin(&o->out);
    for (i = first; status == CLI_DONE && i < first + n; i++) status = copy_data(in, &in->tensors[i], &o->out, buf, p);
    free(buf);
    return status == CLI_DONE && !out_close(o) ? CLI_FAILED : status;
}

int out_model(file_model *in, const file_key *const *keys, size_t n_keys, uint64_t alignment, const char *path) {
    out_progress p = {0};
    out_file o;
    int status = CLI_FAILED;
    if (out_open(&o, in->command, path)) {
        o.out.alignment = alignment;
        out_keys(&o, keys, n_keys);
        cli_progress_begin(&p.bar, "writing");
        status = out_tensors(&o, in, 0, in->n_tensors, &p);
        cli_progress_end(&p.bar);
    }
    if (status == CLI_DONE && !out_rename(&o)) status = CLI_FAILED;
    out_free(&o, status == CLI_DONE);
    return status;
}
