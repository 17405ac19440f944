/* split.c: `infer split`, a model in several files. The first holds the metadata, each holds some of the tensors in their
 * order, and each says which part it is: split.no, split.count, split.tensors.count, with llama.cpp's types. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

typedef struct split {
    file_model in;
    const file_key **keys; /* of the first file, but split.* */
    size_t n_keys;
    uint64_t alignment;
    int64_t max_size, max_tensors; /* 0 = no limit */
    size_t *first;                 /* n_parts + 1: the first tensor of each part, then their number */
    int n_parts;
    char **paths; /* n_parts */
} split;

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

/* Other parts than the first have no key for it. */
static uint64_t alignment_of(const split *s, int part) { return part == 0 ? s->alignment : GGUF_ALIGNMENT; }

/* The header of a part without its tensors. */
static void put_keys(const split *s, gguf_out *out, int part) {
    size_t i;
    out->alignment = alignment_of(s, part);
    for (i = 0; part == 0 && i < s->n_keys; i++)
        gguf_raw(out, s->keys[i]->name, s->keys[i]->type, s->keys[i]->value, s->keys[i]->bytes);
    put_part_keys(out, part, s->n_parts, s->in.n_tensors);
}

/* Does this tensor fit into the part that `out` describes so far? Announces it there. */
static int fits(const split *s, gguf_out *out, const file_tensor *t, size_t n) {
    if (s->max_tensors > 0 && n >= (size_t)s->max_tensors) return 0;
    out_announce(out, t);
    return s->max_size == 0 || gguf_header_bytes(out) + out->data_n <= (uint64_t)s->max_size;
}

/* Which tensors go into which part. */
static int plan(split *s) {
    gguf_out out;
    size_t i = 0;
    int ok = 1;
    s->first = cli_alloc("split", s->in.n_tensors + 3, sizeof *s->first);
    if (s->first == NULL) return 0;
    memset(&out, 0, sizeof out);
    put_keys(s, &out, 0);
    if (s->max_size > 0 && gguf_header_bytes(&out) > (uint64_t)s->max_size)
        ok = cli_fail("split", "the metadata takes %.0f bytes: more than --max-size", (double)gguf_header_bytes(&out)) == CLI_DONE;
    while (ok) {
        s->first[s->n_parts++] = i;
        while (i < s->in.n_tensors && fits(s, &out, &s->in.tensors[i], i - s->first[s->n_parts - 1])) i++;
        ok = !out.failed;
        if (!ok) cli_fail("split", "out of memory");
        if (i == s->in.n_tensors || !ok) break;
        if (i == s->first[s->n_parts - 1] && s->n_parts > 1)
            ok = cli_fail("split", "tensor %s takes %.0f bytes, with a header of %.0f: more than --max-size", s->in.tensors[i].name,
                          (double)s->in.tensors[i].bytes, (double)gguf_header_bytes(&out)) == CLI_DONE;
        if (ok && s->n_parts == FILE_MAX_PARTS)
            ok = cli_fail("split", "more than %d files would be needed", FILE_MAX_PARTS) == CLI_DONE;
        gguf_free(&out);
        put_keys(s, &out, s->n_parts);
    }
    s->first[s->n_parts] = s->in.n_tensors;
    gguf_free(&out);
    return ok;
}

/* The names of the files, none of which may be one of the input's. */
static int name_parts(split *s, const char *prefix) {
    const size_t n = strlen(prefix) + 32;
    int i, k, ok = 1;
    s->paths = cli_alloc("split", (size_t)s->n_parts, sizeof *s->paths);
    if (s->paths == NULL) return 0;
    for (i = 0; i < s->n_parts; i++) s->paths[i] = NULL;
    for (i = 0; i < s->n_parts; i++) {
        s->paths[i] = cli_alloc("split", n, 1);
        if (s->paths[i] == NULL) return 0;
        snprintf(s->paths[i], n, "%s-%05d-of-%05d.gguf", prefix, i + 1, s->n_parts);
    }
    for (k = 0; ok && k < s->in.n_parts; k++) {
        char *path = file_part_path(&s->in, k);
        ok = path != NULL;
        for (i = 0; ok && i < s->n_parts; i++)
            if (platform_same_file(path, s->paths[i])) ok = cli_fail("split", "%s is a file of the input: choose another prefix", path) == CLI_DONE;
        free(path);
    }
    return ok;
}

static int write_part(split *s, out_file *o, int part, out_progress *p) {
    if (!out_open(o, "split", s->paths[part])) return CLI_FAILED;
    put_keys(s, &o->out, part);
    return out_tensors(o, &s->in, s->first[part], s->first[part + 1] - s->first[part], p);
}

/* All are written before the first is renamed. */
static int write_parts(split *s) {
    out_file *files = cli_alloc("split", (size_t)s->n_parts, sizeof *files);
    out_progress p = {0};
    int i, status = files ? CLI_DONE : CLI_FAILED;
    if (files == NULL) return status;
    memset(files, 0, (size_t)s->n_parts * sizeof *files);
    cli_progress_begin(&p.bar, "writing");
    for (i = 0; status == CLI_DONE && i < s->n_parts; i++) status = write_part(s, &files[i], i, &p);
    cli_progress_end(&p.bar);
    for (i = 0; status == CLI_DONE && i < s->n_parts; i++)
        if (!out_rename(&files[i])) status = CLI_FAILED;
    for (i = 0; i < s->n_parts; i++) out_free(&files[i], status == CLI_DONE);
    free(files);
    return status;
}

static int split_model(split *s, const char *prefix) {
    size_t i;
    int status = CLI_FAILED;
    s->keys = cli_alloc("split", s->in.n_keys + 1, sizeof *s->keys);
    for (i = 0; s->keys && i < s->in.n_keys; i++)
        if (!file_is_split(s->in.keys[i].name)) s->keys[s->n_keys++] = &s->in.keys[i];
    s->alignment = file_alignment("split", s->in.path, s->in.keys, s->in.n_keys);
    if (s->keys && s->alignment && plan(s) && name_parts(s, prefix)) status = write_parts(s);
    if (status == CLI_DONE)
        fprintf(stderr, "%s: %d file%s, %.0f tensors\n", s->paths[0], s->n_parts, s->n_parts == 1 ? "" : "s", (double)s->in.n_tensors);
    return status;
}

int cmd_split(int argc, char **argv) {
    const char *args[2];
    int status, i;
    split s;
    const cli_option options[] = {
        {"--max-size", OPT_INT, &s.max_size, "SIZE", "bytes of a file at most: 500M, 2G", 1, INT64_MAX},
        {"--max-tensors", OPT_INT, &s.max_tensors, "N", "tensors of a file at most", 1, INT32_MAX},
    };
    const cli_spec spec = {"split",
                           "IN PREFIX --max-size SIZE | --max-tensors N",
                           "Split a model into files PREFIX-00001-of-0000N.gguf and so on. The first holds the metadata, and is the\n"
                           "one to name when the model is used. A split model can be split again. The input is not changed; the\n"
                           "files appear when all are complete. It fails if a single tensor needs more than --max-size.\n",
                           options,
                           2,
                           0,
                           2,
                           2};
    cli_common common;
    memset(&s, 0, sizeof s);
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if ((s.max_size > 0) + (s.max_tensors > 0) == 0) return cli_usage_error("split", "give --max-size or --max-tensors");
    if (!file_open(&s.in, "split", args[0])) return CLI_FAILED;
    cli_catch_interrupts();
    status = split_model(&s, args[1]);
    for (i = 0; s.paths && i < s.n_parts; i++) free(s.paths[i]);
    free(s.paths);
    free(s.first);
    free((void *)s.keys);
    file_close(&s.in);
    return status;
}
