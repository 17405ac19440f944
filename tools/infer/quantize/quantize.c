/* quantize.c: `infer quantize`, a model in another storage type. */
#include "quantize.h"

#include <stdlib.h>
#include <string.h>

typedef struct job {
    file_model in;
    importance importance;
    const recipe *recipe;
    const file_key **keys; /* of the new file */
    size_t n_keys;
    file_tensor *tensors; /* as the new file has them */
    uint64_t alignment;
    int threads, json, error, again; /* error: measured for each tensor; again: types with blocks may be encoded again */
    cli_list types, keep;
    const char *output, *embedding, *target;
    double *errors;
    size_t n_fitted; /* matrices whose rows do not fit */
} job;

/* ---- plan ------------------------------------------------------------------------------------- */

/* Does a name have this part? A pattern is a part of a name; * stands for anything. */
static int matches(const char *pattern, size_t n, const char *name) {
    const char *star = memchr(pattern, '*', n);
    const size_t head = star ? (size_t)(star - pattern) : n;
    for (; *name; name++) {
        if (strncmp(name, pattern, head) == 0 && (star == NULL || matches(star + 1, n - head - 1, name + head))) return 1;
    }
    return n == 0 || (head == 0 && star && matches(star + 1, n - 1, name));
}

static int kept(const job *j, const char *name) {
    int i;
    for (i = 0; i < j->keep.n; i++)
        if (matches(j->keep.items[i], strlen(j->keep.items[i]), name)) return 1;
    return 0;
}

/* PATTERN=TYPE of the command line; the last one that fits counts. -1 = none. */
static int32_t asked(const job *j, const char *name) {
    infer_type_info t;
    int32_t type = -1;
    int i;
    if (j->embedding && strcmp(name, "token_embd.weight") == 0) type = type_named(j->embedding, &t);
    if (j->output && strcmp(name, "output.weight") == 0) type = type_named(j->output, &t);
    for (i = 0; i < j->types.n; i++) {
        const char *equal = strrchr(j->types.items[i], '=');
        if (matches(j->types.items[i], (size_t)(equal - j->types.items[i]), name)) type = type_named(equal + 1, &t);
    }
    return type;
}

static int check_types(const job *j) {
    infer_type_info t;
    int i;
    if (j->output && type_named(j->output, &t) < 0) return cli_usage_error("quantize", "--output-type: '%s' is no type that can be written", j->output) == CLI_DONE;
    if (j->embedding && type_named(j->embedding, &t) < 0)
        return cli_usage_error("quantize", "--embedding-type: '%s' is no type that can be written", j->embedding) == CLI_DONE;
    for (i = 0; i < j->types.n; i++) {
        const char *equal = strrchr(j->types.items[i], '=');
        if (equal == NULL || equal == j->types.items[i]) return cli_usage_error("quantize", "--type: expected PATTERN=TYPE, got '%s'", j->types.items[i]) == CLI_DONE;
        if (type_named(equal + 1, &t) < 0) return cli_usage_error("quantize", "--type: '%s' is no type that can be written", equal + 1) == CLI_DONE;
    }
    return 1;
}

/* Types that hold whole numbers of values, which another type would change again. */
static int has_blocks(uint32_t type) {
    infer_type_info t;
    return type_info((int32_t)type, &t) && t.values > 1;
}

/* The new type of each tensor. */
static int plan(job *j) {
    layout l;
    size_t i;
    layout_of(&j->in, &l);
    j->tensors = cli_alloc("quantize", j->in.n_tensors + 1, sizeof *j->tensors);
    j->errors = cli_alloc("quantize", j->in.n_tensors + 1, sizeof *j->errors);
    if (j->tensors == NULL || j->errors == NULL) return 0;
    for (i = 0; i < j->in.n_tensors; i++) {
        const file_tensor *from = &j->in.tensors[i];
        int32_t type = asked(j, from->name), fits;
        j->tensors[i] = *from;
        j->errors[i] = -1;
        if (kept(j, from->name) || (type < 0 && !recipe_takes(from))) continue;
        if (type < 0) type = recipe_type(j->recipe, &l, from);
        fits = type_fitting(type, from->dims[0]);
        j->n_fitted += fits != type;
        if (fits == (int32_t)from->type) continue;
        if (has_blocks(from->type) && !j->again)
            return cli_fail("quantize", "%s is %s already: quantise the original, or lose twice (--requantize)", from->name, infer_type_name((int32_t)from->type)) == CLI_DONE;
        j->tensors[i].type = (uint32_t)fits;
        j->tensors[i].bytes = type_bytes(fits, from);
    }
    return 1;
}

/* --target-size: types for those that the plan would change, so that the file is no larger. */
static int plan_target(job *j, const converting *c, uint64_t header, uint64_t most) {
    const file_tensor **list = cli_alloc("quantize", j->in.n_tensors + 1, sizeof *list);
    int32_t *types = cli_alloc("quantize", j->in.n_tensors + 1, sizeof *types);
    uint64_t *bytes = cli_alloc("quantize", j->in.n_tensors + 1, sizeof *bytes), other = header;
    size_t i, n = 0;
    int status = list && types && bytes ? CLI_DONE : CLI_FAILED;
    for (i = 0; status == CLI_DONE && i < j->in.n_tensors; i++) {
        if (j->tensors[i].type != j->in.tensors[i].type && asked(j, j->tensors[i].name) < 0) list[n++] = &j->in.tensors[i];
        else other += j->tensors[i].bytes;
        other += j->alignment; /* at most, between tensors */
    }
    if (status == CLI_DONE && other >= most) status = cli_fail("quantize", "--target-size: what is not changed takes %.0f bytes already", (double)other);
    if (status == CLI_DONE) status = target_types(c, &j->importance, list, n, most - other, types, bytes);
    for (i = n = 0; status == CLI_DONE && i < j->in.n_tensors; i++) {
        if (j->tensors[i].type == j->in.tensors[i].type || asked(j, j->tensors[i].name) >= 0) continue;
        j->tensors[i].type = (uint32_t)types[n];
        j->tensors[i].bytes = bytes[n++];
    }
    free((void *)list);
    free(types);
    free(bytes);
    return status;
}

/* The input's keys, with the new file's type. */
static int make_keys(job *j) {
    static unsigned char file_type[4], version[4];
    static file_key own[2] = {{(char *)"general.file_type", GGUF_U32, 0, 1, file_type, 4}, {(char *)"general.quantization_version", GGUF_U32, 0, 1, version, 4}};
    size_t i, n = 0;
    int k;
    gguf_store(file_type, recipe_file_type(j->recipe), 4);
    gguf_store(version, 2, 4);
    j->keys = cli_alloc("quantize", j->in.n_keys + 2, sizeof *j->keys);
    if (j->keys == NULL) return 0;
    for (i = 0; i < j->in.n_keys; i++) {
        if (file_is_split(j->in.keys[i].name)) continue;
        for (k = 0; k < 2 && strcmp(j->in.keys[i].name, own[k].name) != 0; k++) {}
        if (k == 2) j->keys[n++] = &j->in.keys[i];
    }
    for (k = 0; k < 2; k++) j->keys[n++] = &own[k];
    j->n_keys = n;
    return 1;
}

static uint64_t header_bytes(job *j, uint64_t *total) {
    gguf_out out;
    size_t i;
    uint64_t header;
    memset(&out, 0, sizeof out);
    out.alignment = j->alignment;
    for (i = 0; i < j->n_keys; i++) gguf_raw(&out, j->keys[i]->name, j->keys[i]->type, j->keys[i]->value, j->keys[i]->bytes);
    for (i = 0; i < j->in.n_tensors; i++) out_announce(&out, &j->tensors[i]);
    header = gguf_header_bytes(&out);
    *total = header + out.data_n;
    if (out.failed) header = 0;
    gguf_free(&out);
    return header;
}

/* ---- output ----------------------------------------------------------------------------------- */

static void print_plan(const job *j, uint64_t total) {
    char from[32], to[32];
    double bits = 0, values = 0;
    size_t i;
    for (i = 0; i < j->in.n_tensors; i++) {
        bits += 8 * (double)j->tensors[i].bytes;
        values += (double)j->tensors[i].dims[0] * (double)j->tensors[i].rows;
    }
    if (j->json) printf("{\"bytes\": %.0f, \"tensors\": [", (double)total);
    for (i = 0; i < j->in.n_tensors; i++) {
        const file_tensor *a = &j->in.tensors[i], *b = &j->tensors[i];
        if (j->json) {
            printf("%s{\"name\": ", i ? ",\n  " : "\n  ");
            json_text(stdout, a->name);
            printf(", \"from\": \"%s\", \"type\": \"%s\", \"bytes\": %.0f", infer_type_name((int32_t)a->type), infer_type_name((int32_t)b->type), (double)b->bytes);
            if (j->errors[i] >= 0) {
                printf(", \"error\": ");
                json_number(stdout, j->errors[i]);
            }
            printf("}");
        } else if (a->type != b->type) {
            printf("%-40s %-6s -> %-6s %9s -> %9s", a->name, infer_type_name((int32_t)a->type), infer_type_name((int32_t)b->type), cli_bytes_text((double)a->bytes, from),
                   cli_bytes_text((double)b->bytes, to));
            if (j->errors[i] >= 0) printf("  error %.3g", j->errors[i]);
            printf("\n");
        }
    }
    if (j->json) printf("\n]}\n");
    else printf("%s of %s: %.2f bits per value\n", cli_bytes_text((double)total, to), cli_bytes_text((double)j->in.data_bytes, from), values > 0 ? bits / values : 0);
}

/* ---- the work --------------------------------------------------------------------------------- */

static int convert_one(job *j, converting *c, size_t i) {
    float *w = NULL;
    uint64_t n_matrices = 1;
    int status;
    if (j->tensors[i].type != j->in.tensors[i].type && !importance_read(&j->importance, &j->in.tensors[i], &w, &n_matrices)) return CLI_FAILED;
    status = convert_tensor(c, &j->in.tensors[i], (int32_t)j->tensors[i].type, w, n_matrices, j->error ? &j->errors[i] : NULL);
    free(w);
    return status;
}

static int write_model(job *j, converting *c, const char *path) {
    out_progress p = {0};
    out_file o;
    size_t i;
    int status = CLI_FAILED;
    c->progress = &p;
    if (out_open(&o, "quantize", path)) {
        o.out.alignment = j->alignment;
        out_keys(&o, j->keys, j->n_keys);
        for (i = 0; i < j->in.n_tensors; i++) out_announce(&o.out, &j->tensors[i]);
        gguf_begin(&o.out);
        c->out = &o.out;
        cli_progress_begin(&p.bar, "quantising");
        status = CLI_DONE;
        for (i = 0; i < j->in.n_tensors && status == CLI_DONE; i++) {
            if (j->tensors[i].type != j->in.tensors[i].type) {
                status = convert_one(j, c, i);
                gguf_pad(&o.out);
            } else status = out_copy(&o, &j->in, &j->in.tensors[i], &p);
        }
        cli_progress_end(&p.bar);
        if (status == CLI_DONE && (!out_close(&o) || !out_rename(&o))) status = CLI_FAILED;
    }
    out_free(&o, status == CLI_DONE);
    return status;
}

static int measure_all(job *j, converting *c) {
    size_t i;
    int status = CLI_DONE;
    for (i = 0; i < j->in.n_tensors && status == CLI_DONE; i++)
        if (j->tensors[i].type != j->in.tensors[i].type) status = convert_one(j, c, i);
    return status;
}

/* Matrices that a file of importance lacks, but the two that usually have none. */
static void tell_unknown(const job *j) {
    unsigned long changed = 0, without = 0;
    size_t i;
    for (i = 0; i < j->in.n_tensors; i++) {
        const file_tensor *t = &j->in.tensors[i];
        if (j->tensors[i].type == t->type || strcmp(t->name, "token_embd.weight") == 0 || strcmp(t->name, "output.weight") == 0) continue;
        changed++;
        without += !importance_has(&j->importance, t);
    }
    if (j->importance.file.open && without) fprintf(stderr, "warning: %lu of %lu matrices have no importance in %s\n", without, changed, j->importance.file.path);
}

static int run_job(job *j, const char *path, int64_t target, int dry) {
    converting c;
    uint64_t total, header;
    int status = CLI_DONE;
    memset(&c, 0, sizeof c);
    c.in = &j->in;
    c.threads = j->threads;
    j->alignment = file_alignment("quantize", j->in.path, j->in.keys, j->in.n_keys);
    if (j->alignment == 0 || !make_keys(j) || !plan(j)) return CLI_FAILED;
    tell_unknown(j);
    header = header_bytes(j, &total);
    if (header == 0) return cli_fail("quantize", "out of memory");
    if (target) status = plan_target(j, &c, header, (uint64_t)target);
    header_bytes(j, &total);
    if (status == CLI_DONE && dry) status = j->error ? measure_all(j, &c) : CLI_DONE;
    else if (status == CLI_DONE) status = write_model(j, &c, path);
    if (status != CLI_DONE) return status;
    if (j->n_fitted) fprintf(stderr, "%.0f tensors have rows that are no multiple of the type's blocks: they got another type\n", (double)j->n_fitted);
    if (dry || j->error) print_plan(j, total);
    return status;
}

int cmd_quantize(int argc, char **argv) {
    const char *args[3], *matrix = NULL;
    int64_t threads = 0, target = 0;
    int status, dry = 0;
    job j;
    const cli_option options[] = {
        {"--imatrix", OPT_STRING, &matrix, "FILE", "importance of columns, as `infer imatrix` and llama-imatrix write it", 0, 0},
        {"--type|--tensor-type", OPT_LIST, &j.types, "PATTERN=TYPE", "the type of tensors whose name has this part (* stands for anything)", 0, 0},
        {"--output-type|--output-tensor-type", OPT_STRING, &j.output, "TYPE", "the type of output.weight", 0, 0},
        {"--embedding-type|--token-embedding-type", OPT_STRING, &j.embedding, "TYPE", "the type of token_embd.weight", 0, 0},
        {"--keep", OPT_LIST, &j.keep, "PATTERN", "tensors that stay as they are", 0, 0},
        {"--target-size", OPT_INT, &target, "SIZE", "choose types so that the file is no larger and the error small", 1, INT64_MAX},
        {"--dry-run", OPT_FLAG, &dry, NULL, "write nothing; show types and sizes", 0, 0},
        {"--errors", OPT_FLAG, &j.error, NULL, "show the error of each tensor: squared differences over squared values", 0, 0},
        {"--requantize|--allow-requantize", OPT_FLAG, &j.again, NULL, "also of a file that is quantised already", 0, 0},
        {"-t,--threads", OPT_INT, &threads, "N", "threads (default: one per core)", 1, 256},
    };
    const cli_spec spec = {"quantize",
                           "IN OUT TYPE",
                           "Write a model with its matrices in another storage type: F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q2_K_S Q3_K_S Q3_K_M\n"
                           "Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4_MOE NVFP4 Q1_0 Q2_0 F32. In the mixtures\n"
                           "(_S, _M, _L) some tensors get more bits. Vectors, routers and convolutions stay as they are. OUT appears when it is\n"
                           "complete. With --dry-run OUT may be left out.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_JSON,
                           2,
                           3};
    cli_common common;
    memset(&j, 0, sizeof j);
    if (cli_parse(&spec, argc, argv, &common, args, &status)) {
        const char *type = args[2] ? args[2] : args[1], *path = args[2] ? args[1] : NULL;
        status = CLI_FAILED;
        j.json = common.json;
        j.threads = threads ? (int)threads : platform_cores();
        j.recipe = recipe_named(type);
        if (j.recipe == NULL) status = cli_usage_error("quantize", "unknown type %s: one of %s", type, recipe_names());
        else if (path == NULL && !dry) status = cli_usage_error("quantize", "give IN, OUT and TYPE");
        else if (!check_types(&j)) status = CLI_USAGE;
        else if (file_open(&j.in, "quantize", args[0])) {
            cli_catch_interrupts();
            if (path && !dry && file_is_part(&j.in, path)) status = cli_usage_error("quantize", "OUT is a file of the input: give another name");
            else if (matrix == NULL || importance_open(&j.importance, "quantize", matrix, &j.in)) status = run_job(&j, path, target, dry);
        }
    }
    importance_close(&j.importance);
    file_close(&j.in);
    free((void *)j.keys);
    free(j.tensors);
    free(j.errors);
    free((void *)j.types.items);
    free((void *)j.keep.items);
    return status;
}
