/* write_model.c: a model in one file, or in parts. Of parts the first holds the metadata, each holds some of the tensors in their order,
 * and each says which part it is: split.no, split.count, split.tensors.count, with llama.cpp's types. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

int out_is_split(const out_model *m) { return m->max_size > 0 || m->max_tensors > 0 || m->keep_split; }

static const file_tensor *tensor_of(const out_model *m, size_t i) { return m->tensors ? &m->tensors[i] : &m->in->tensors[i]; }

static void announce(const out_model *m, gguf_out *out, size_t i) {
    const file_tensor *t = tensor_of(m, i);
    gguf_tensor(out, t->name, t->type, t->n_dims, t->dims, t->bytes);
}

/* The keys that every part has: u16, u16, i32. */
static void put_part_keys(gguf_out *out, int part, int n_parts, size_t n_tensors) {
    unsigned char no[2], count[2], tensors[4];
    gguf_store(no, (uint64_t)part, 2);
    gguf_store(count, (uint64_t)n_parts, 2);
    gguf_store(tensors, n_tensors, 4);
    gguf_raw(out, "split.no", GGUF_U16, no, 2);
    gguf_raw(out, "split.count", GGUF_U16, count, 2);
    gguf_raw(out, "split.tensors.count", GGUF_I32, tensors, 4);
}

/* The header of a file without its tensors. Other parts than the first have no key for the alignment. */
static void put_keys(const out_model *m, gguf_out *out, int part) {
    size_t i;
    out->alignment = part == 0 ? m->alignment : GGUF_ALIGNMENT;
    for (i = 0; part == 0 && i < m->n_keys; i++) gguf_raw(out, m->keys[i]->name, m->keys[i]->type, m->keys[i]->value, m->keys[i]->bytes);
    if (out_is_split(m)) put_part_keys(out, part, m->n_files, m->in->n_tensors);
}

/* ---- plan ------------------------------------------------------------------------------------- */

/* Does tensor i go into the file that `out` describes so far, which begins with tensor `first`? Announces it there. */
static int fits(const out_model *m, gguf_out *out, size_t first, size_t i) {
    if (m->keep_split && m->in->tensors[i].part >= m->n_files) return 0;
    if (m->max_tensors > 0 && i - first >= (size_t)m->max_tensors) return 0;
    announce(m, out, i);
    return m->max_size == 0 || gguf_header_bytes(out) + out->data_n <= (uint64_t)m->max_size;
}

/* The next file, from tensor *i on. `out` has its keys. */
static int plan_file(out_model *m, gguf_out *out, size_t *i) {
    const char *command = m->in->command;
    const size_t first = *i;
    const uint64_t empty = gguf_header_bytes(out);
    const file_tensor *t;
    if (m->n_files == FILE_MAX_PARTS) return cli_fail(command, "more than %d files would be needed", FILE_MAX_PARTS) == CLI_DONE;
    if (m->max_size > 0 && empty > (uint64_t)m->max_size)
        return cli_fail(command, "the metadata takes %.0f bytes: more than a file may have", (double)empty) == CLI_DONE;
    m->first[m->n_files++] = first;
    while (*i < m->in->n_tensors && fits(m, out, first, *i)) ++*i;
    if (out->failed) return cli_fail(command, "out of memory") == CLI_DONE;
    if (*i > first || *i == m->in->n_tensors || m->n_files == 1 || m->keep_split) return 1;
    t = tensor_of(m, first);
    return cli_fail(command, "tensor %s takes %.0f bytes, with a header of %.0f: more than a file may have", t->name, (double)t->bytes,
                    (double)gguf_header_bytes(out)) == CLI_DONE;
}

/* What the files take, whose tensors are known. */
static void measure(out_model *m) {
    int part;
    size_t i;
    m->header_bytes = m->bytes = 0;
    for (part = 0; part < m->n_files; part++) {
        gguf_out out = {0};
        put_keys(m, &out, part);
        for (i = m->first[part]; i < m->first[part + 1]; i++) announce(m, &out, i);
        m->header_bytes += gguf_header_bytes(&out);
        m->bytes += gguf_header_bytes(&out) + out.data_n;
        gguf_free(&out);
    }
}

int out_plan(out_model *m) {
    size_t i = 0;
    int ok = 1;
    free(m->first);
    m->n_files = 0;
    m->first = cli_alloc(m->in->command, m->in->n_tensors + FILE_MAX_PARTS + 1, sizeof *m->first);
    if (m->first == NULL) return 0;
    do {
        gguf_out out = {0};
        put_keys(m, &out, m->n_files);
        ok = plan_file(m, &out, &i);
        gguf_free(&out);
    } while (ok && (i < m->in->n_tensors || (m->keep_split && m->n_files < m->in->n_parts)));
    m->first[m->n_files] = m->in->n_tensors;
    if (ok) measure(m);
    return ok;
}

/* ---- writing ---------------------------------------------------------------------------------- */

/* The names of the files, of which parts may be none of the input's. */
static int name_files(out_model *m, const char *path) {
    const char *command = m->in->command;
    const size_t length = strlen(path), n = length + 32;
    const size_t stem = length > 5 && strcmp(path + length - 5, ".gguf") == 0 ? length - 5 : length;
    int i;
    m->paths = cli_alloc(command, (size_t)m->n_files, sizeof *m->paths);
    if (m->paths == NULL) return 0;
    for (i = 0; i < m->n_files; i++) m->paths[i] = NULL;
    for (i = 0; i < m->n_files; i++) {
        m->paths[i] = cli_alloc(command, n, 1);
        if (m->paths[i] == NULL) return 0;
        if (!out_is_split(m)) memcpy(m->paths[i], path, length + 1);
        else snprintf(m->paths[i], n, "%.*s-%05d-of-%05d.gguf", (int)stem, path, i + 1, m->n_files);
        if (out_is_split(m) && file_is_part(m->in, m->paths[i]))
            return cli_fail(command, "%s is a file of the input: give another name", m->paths[i]) == CLI_DONE;
    }
    return 1;
}

static int write_file(out_model *m, out_file *o, int part, out_progress *p) {
    const size_t end = m->first[part + 1];
    int status = CLI_DONE;
    size_t i;
    if (!out_open(o, m->in->command, m->paths[part])) return CLI_FAILED;
    put_keys(m, &o->out, part);
    for (i = m->first[part]; i < end; i++) announce(m, &o->out, i);
    gguf_begin(&o->out);
    for (i = m->first[part]; i < end && status == CLI_DONE && !o->out.failed; i++) {
        status = m->data ? m->data(m->user, &o->out, i, p) : out_copy(&o->out, m->in, &m->in->tensors[i], p);
        gguf_pad(&o->out);
    }
    return status == CLI_DONE && !out_close(o) ? CLI_FAILED : status;
}

/* All files get their names, the first one last: without it the others are no model. One of an earlier model must not find them. */
static int rename_files(const out_model *m, out_file *files) {
    int i, ok = 1;
    if (m->n_files > 1) platform_remove(m->paths[0]);
    for (i = m->n_files - 1; ok && i >= 0; i--) ok = out_rename(&files[i]);
    return ok;
}

int out_write(out_model *m, const char *path) {
    out_file *files;
    out_progress p = {0};
    int i, status = CLI_DONE;
    if (!out_plan(m) || !name_files(m, path)) return CLI_FAILED;
    files = cli_alloc(m->in->command, (size_t)m->n_files, sizeof *files);
    if (files == NULL) return CLI_FAILED;
    memset(files, 0, (size_t)m->n_files * sizeof *files);
    cli_progress_begin(&p.bar, m->doing ? m->doing : "writing");
    for (i = 0; status == CLI_DONE && i < m->n_files; i++) status = write_file(m, &files[i], i, &p);
    cli_progress_end(&p.bar);
    if (status == CLI_DONE && ((m->check && !m->check(m->user, files[0].part)) || !rename_files(m, files))) status = CLI_FAILED;
    for (i = 0; i < m->n_files; i++) out_free(&files[i], status == CLI_DONE);
    free(files);
    return status;
}

void out_model_free(out_model *m) {
    int i;
    for (i = 0; m->paths && i < m->n_files; i++) free(m->paths[i]);
    free(m->paths);
    free(m->first);
    memset(m, 0, sizeof *m);
}
