/* hash.c: `infer hash`, SHA-256 of what a model consists of, whatever the layout of its files. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20 };
typedef struct digest {
    unsigned char bytes[SHA256_BYTES];
} digest;

static void add_number(sha256 *s, uint64_t x, int n) {
    unsigned char b[8];
    gguf_store(b, x, n);
    sha256_add(s, b, (size_t)n);
}

/* As names are stored: length, bytes. */
static void add_name(sha256 *s, const char *name) {
    add_number(s, strlen(name), 8);
    sha256_add(s, name, strlen(name));
}

static int hash_metadata(const file_model *m, digest *out) {
    size_t n, i;
    const file_key **keys = file_sorted_keys(m, &n);
    sha256 s;
    sha256_begin(&s);
    for (i = 0; keys && i < n; i++) {
        add_name(&s, keys[i]->name);
        add_number(&s, keys[i]->type, 4);
        sha256_add(&s, keys[i]->value, keys[i]->bytes);
    }
    sha256_end(&s, out->bytes);
    free((void *)keys);
    return keys != NULL;
}

/* The data of a tensor. CLI_DONE, or the exit status. */
static int hash_data(file_model *m, const file_tensor *t, unsigned char *buf, uint64_t *done, cli_progress *bar, digest *out) {
    uint64_t at;
    sha256 s;
    sha256_begin(&s);
    for (at = 0; at < t->bytes; at += CHUNK) {
        const size_t n = t->bytes - at < CHUNK ? (size_t)(t->bytes - at) : CHUNK;
        if (cli_run_interrupted()) return CLI_INTERRUPTED;
        if (!file_read(m, t, at, buf, n)) return CLI_FAILED;
        sha256_add(&s, buf, n);
        *done += n;
        cli_progress_show(bar, (float)((double)*done / (double)m->data_bytes));
    }
    sha256_end(&s, out->bytes);
    return CLI_DONE;
}

/* all: of the records of all tensors; each: of their data, in the order of `list`. */
static int hash_tensors(file_model *m, const file_tensor **list, digest *all, digest *each) {
    unsigned char *buf = cli_alloc(m->command, CHUNK, 1);
    int status = buf ? CLI_DONE : CLI_FAILED, k;
    uint64_t done = 0;
    cli_progress bar;
    sha256 s;
    size_t i;
    sha256_begin(&s);
    cli_progress_begin(&bar, "hashing");
    for (i = 0; status == CLI_DONE && i < m->n_tensors; i++) {
        const file_tensor *t = list[i];
        status = hash_data(m, t, buf, &done, &bar, &each[i]);
        add_name(&s, t->name);
        add_number(&s, (uint64_t)t->n_dims, 4);
        for (k = 0; k < t->n_dims; k++) add_number(&s, t->dims[k], 8);
        add_number(&s, t->type, 4);
        sha256_add(&s, each[i].bytes, SHA256_BYTES);
    }
    cli_progress_end(&bar);
    sha256_end(&s, all->bytes);
    free(buf);
    return status;
}

static void print_hex(const digest *d) {
    int i;
    for (i = 0; i < SHA256_BYTES; i++) printf("%02x", d->bytes[i]);
}

static void print_json_hash(const char *name, const digest *d) {
    printf("\"%s\": \"", name);
    print_hex(d);
    putchar('"');
}

static void print_line(const digest *d, const char *what) {
    print_hex(d);
    printf("  ");
    value_print_name(what);
    putchar('\n');
}

static void print_hashes(const file_model *m, const file_tensor **list, const digest *each, const digest *metadata,
                         const digest *tensors, const digest *model, int json) {
    size_t i;
    int k;
    if (!json) {
        for (i = 0; i < m->n_tensors; i++) print_line(&each[i], list[i]->name);
        print_line(metadata, "(metadata)");
        print_line(tensors, "(tensors)");
        print_line(model, "(model)");
        return;
    }
    printf("{\"file\": ");
    json_text(stdout, m->path);
    printf(", \"sha256\": {");
    print_json_hash("model", model);
    printf(", ");
    print_json_hash("metadata", metadata);
    printf(", ");
    print_json_hash("tensors", tensors);
    printf("}, \"tensors\": [");
    for (i = 0; i < m->n_tensors; i++) {
        printf("%s{\"name\": ", i ? ", " : "");
        json_text(stdout, list[i]->name);
        printf(", \"type\": \"%s\", \"dims\": [", infer_type_name((int32_t)list[i]->type));
        for (k = 0; k < list[i]->n_dims; k++) printf("%s%.0f", k ? ", " : "", (double)list[i]->dims[k]);
        printf("], \"bytes\": %.0f, ", (double)list[i]->bytes);
        print_json_hash("sha256", &each[i]);
        putchar('}');
    }
    printf("]}\n");
}

static int hash_model(file_model *m, int json) {
    const file_tensor **list = file_sorted_tensors(m);
    digest *each = cli_alloc(m->command, m->n_tensors + 1, sizeof *each), metadata, tensors, model;
    int status = list && each && hash_metadata(m, &metadata) ? hash_tensors(m, list, &tensors, each) : CLI_FAILED;
    sha256 s;
    if (status == CLI_DONE) {
        sha256_begin(&s);
        sha256_add(&s, metadata.bytes, SHA256_BYTES);
        sha256_add(&s, tensors.bytes, SHA256_BYTES);
        sha256_end(&s, model.bytes);
        print_hashes(m, list, each, &metadata, &tensors, &model, json);
    }
    free((void *)list);
    free(each);
    return status;
}

int cmd_hash(int argc, char **argv) {
    const char *args[1];
    int status;
    const cli_spec spec = {"hash",
                           "FILE",
                           "SHA-256 of a model's contents. Files that differ in the order of keys and tensors, in alignment or in\n"
                           "how they are split have the same hashes; of a split model name the first part. A line each:\n"
                           "  TENSOR      the tensor's data, as it is stored; in the order of names\n"
                           "  (metadata)  all keys in the order of their names' bytes, but general.alignment and split.*:\n"
                           "              name, type and value, each as a GGUF file has it\n"
                           "  (tensors)   all tensors in that order: name, number of dimensions, dimensions and type as a GGUF\n"
                           "              file has them, then the 32 bytes of the hash of its data\n"
                           "  (model)     the 32 bytes of (metadata), then those of (tensors)\n",
                           NULL,
                           0,
                           TAKES_JSON,
                           1,
                           1};
    cli_common common;
    file_model m;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (!file_open(&m, "hash", args[0])) return CLI_FAILED;
    cli_catch_interrupts();
    status = hash_model(&m, common.json);
    file_close(&m);
    return status;
}
