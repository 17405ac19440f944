/* folder.c: a Hugging Face folder opened by the library, without a file in between: the header of the GGUF file that `infer convert` would
 * write, and its tensors, made when they are read. */
#include "convert.h"

#include <stdlib.h>
#include <string.h>

typedef struct folder {
    file_model m;
    unsigned char *header;
    uint64_t header_n;
    uint64_t *starts; /* of the tensors, from the start of the file */
    infer_model *model;
    struct folder *next;
} folder;

static folder *folders; /* that are open */

static size_t read_file(void *user, uint64_t offset, void *dst, size_t n) {
    folder *f = user;
    unsigned char *out = dst;
    size_t done = 0, low = 0, high = f->m.n_tensors;
    if (offset < f->header_n) {
        done = f->header_n - offset < n ? (size_t)(f->header_n - offset) : n;
        memcpy(out, f->header + offset, done);
    }
    while (low < high) { /* the last tensor that begins at or before the offset */
        const size_t middle = (low + high) / 2;
        if (f->starts[middle] <= offset + done) low = middle + 1;
        else high = middle;
    }
    for (low = low > 0 ? low - 1 : 0; done < n && low < f->m.n_tensors; low++) {
        const file_tensor *t = &f->m.tensors[low];
        const uint64_t at = offset + done < f->starts[low] ? 0 : offset + done - f->starts[low];
        size_t k;
        if (offset + done < f->starts[low]) { /* padding before it */
            k = f->starts[low] - offset - done < n - done ? (size_t)(f->starts[low] - offset - done) : n - done;
            memset(out + done, 0, k);
            done += k;
        }
        if (at >= t->bytes || done == n) continue;
        k = t->bytes - at < n - done ? (size_t)(t->bytes - at) : n - done;
        if (!made_read(f->m.folder, t, at, out + done, k)) return done;
        done += k;
    }
    memset(out + done, 0, n - done); /* after the last one */
    return n;
}

/* The header, and where tensors are. Returns the size of the file, 0 = out of memory. */
static uint64_t make_header(folder *f) {
    gguf_out out;
    uint64_t size = 0;
    size_t i;
    memset(&out, 0, sizeof out);
    for (i = 0; i < f->m.n_keys; i++) gguf_raw(&out, f->m.keys[i].name, f->m.keys[i].type, f->m.keys[i].value, f->m.keys[i].bytes);
    f->starts = cli_alloc(f->m.command, f->m.n_tensors + 1, sizeof *f->starts);
    for (i = 0; f->starts && i < f->m.n_tensors; i++) {
        const file_tensor *t = &f->m.tensors[i];
        f->starts[i] = out.data_n;
        gguf_tensor(&out, t->name, t->type, t->n_dims, t->dims, t->bytes);
    }
    f->header_n = gguf_header_bytes(&out);
    if (f->starts && !out.failed) f->header = cli_alloc(f->m.command, (size_t)f->header_n, 1);
    if (f->header) {
        gguf_header(&out, f->header);
        for (i = 0; i < f->m.n_tensors; i++) f->starts[i] += f->header_n;
        size = f->header_n + out.data_n;
    }
    gguf_free(&out);
    return size;
}

static void free_folder(folder *f) {
    file_close(&f->m);
    free(f->header);
    free(f->starts);
    free(f);
}

infer_result cli_folder_open(const char *command, const char *path, const infer_model_params *params, infer_model **out, infer_error *err) {
    folder *f = cli_alloc(command, 1, sizeof *f);
    infer_io io;
    infer_result result = INFER_ERR_IO;
    err->message[0] = 0;
    if (f == NULL) return INFER_ERR_IO;
    memset(f, 0, sizeof *f);
    memset(&io, 0, sizeof io);
    io.user = f;
    io.read = read_file;
    if (checkpoint_open(&f->m, command, path, 1, params->pre) && (io.size = make_header(f)) > 0) result = infer_model_open_io(out, &io, 1, params, err);
    if (result != INFER_OK) {
        free_folder(f);
        return result;
    }
    f->model = *out;
    f->next = folders;
    folders = f;
    return INFER_OK;
}

int cli_folder_adapter(const char *command, const char *path, const char *base, unsigned char **out, size_t *n) {
    folder *f = cli_alloc(command, 1, sizeof *f);
    uint64_t size = 0;
    *out = NULL;
    if (f == NULL) return 0;
    memset(f, 0, sizeof *f);
    if (file_open_with(&f->m, command, path, NULL, base)) {
        if (file_base(&f->m) == NULL) cli_fail(command, "%s: it is a model, not an adapter", path);
        else if ((size = make_header(f)) > 0 && size < SIZE_MAX / 2) *out = cli_alloc(command, (size_t)size, 1);
    }
    *n = (size_t)size;
    if (*out && read_file(f, 0, *out, *n) != *n) {
        free(*out);
        *out = NULL;
    }
    free_folder(f);
    return *out != NULL;
}

void cli_folder_close(infer_model *model) {
    folder **at, *f;
    infer_model_close(model);
    for (at = &folders; *at && (*at)->model != model; at = &(*at)->next) {}
    if ((f = *at) == NULL || model == NULL) return;
    *at = f->next;
    free_folder(f);
}
