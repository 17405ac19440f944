/* quantize.c: `infer quantize`, a model in another storage type; and `infer convert`, the same from a Hugging Face folder, where the type
 * may also stay. */
#include "quantize.h"

#include "../convert/convert.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_OUTCOMES = 17 };

typedef struct job {
    const char *command;
    file_model in;
    importance importance;
    const recipe *recipe; /* NULL: types stay */
    const file_key **keys; /* of the new file */
    file_tensor *tensors; /* as the new file has them */
    int threads, json, error, again, checked; /* checked: the library must compute it. error: measured for each tensor; again: types with blocks may be encoded again */
    cli_list types, keep;
    const char *output, *embedding, *matrix, *compared, *pre, *base, *prune;
    int64_t target; /* bytes; 0: none */
    int64_t max_size, max_tensors; /* of a file; 0: no limit */
    int keep_split;
    out_model model; /* the new one; its limits are those above only when it is written */
    converting converting;
    int dry;
    double *errors;
    size_t n_fitted; /* matrices whose rows do not fit */
    const recipe *others[MAX_OUTCOMES - 1]; /* --compare */
    size_t n_others;
    outcome outcomes[MAX_OUTCOMES]; /* of `recipe`, then of the others */
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

/* Types that hold whole numbers of values, which another type would change again. */
static int has_blocks(uint32_t type) {
    infer_type_info t;
    return type_info((int32_t)type, &t) && t.values > 1;
}

/* Does PATTERN=TYPE say something of a tensor? Vectors have plain types alone; so have routers and the like, unless one is named whole. */
static int asks(const char *item, const file_tensor *t, int32_t *type) {
    const size_t n = (size_t)(strrchr(item, '=') - item);
    infer_type_info info;
    if (!matches(item, n, t->name)) return 0;
    *type = type_named(item + n + 1, &info);
    return !has_blocks((uint32_t)*type) || recipe_takes(t) || (t->n_dims > 1 && strlen(t->name) == n && strncmp(item, t->name, n) == 0);
}

/* What the command line asks for; the last one counts. -1 = nothing. */
static int32_t asked(const job *j, const file_tensor *t) {
    infer_type_info info;
    int32_t type = -1, its;
    int i;
    if (j->embedding && strcmp(t->name, "token_embd.weight") == 0) type = type_named(j->embedding, &info);
    if (j->output && strcmp(t->name, "output.weight") == 0) type = type_named(j->output, &info);
    for (i = 0; i < j->types.n; i++)
        if (asks(j->types.items[i], t, &its)) type = its;
    return type;
}

/* Patterns that say nothing of any tensor: a word may be wrong. */
static void tell_idle(const job *j) {
    int32_t type;
    size_t k;
    int i;
    for (i = 0; i < j->types.n; i++) {
        for (k = 0; k < j->in.n_tensors && !asks(j->types.items[i], &j->in.tensors[k], &type); k++) {}
        if (k == j->in.n_tensors) fprintf(stderr, "warning: --type %s: there is no such matrix\n", j->types.items[i]);
    }
    for (i = 0; i < j->keep.n; i++) {
        for (k = 0; k < j->in.n_tensors && !matches(j->keep.items[i], strlen(j->keep.items[i]), j->in.tensors[k].name); k++) {}
        if (k == j->in.n_tensors) fprintf(stderr, "warning: --keep %s: there is no such tensor\n", j->keep.items[i]);
    }
}

static int check_types(const job *j) {
    infer_type_info t;
    int i;
    if (j->output && type_named(j->output, &t) < 0) return cli_usage_error(j->command, "--output-type: '%s' is no type that can be written", j->output) == CLI_DONE;
    if (j->embedding && type_named(j->embedding, &t) < 0)
        return cli_usage_error(j->command, "--embedding-type: '%s' is no type that can be written", j->embedding) == CLI_DONE;
    for (i = 0; i < j->types.n; i++) {
        const char *equal = strrchr(j->types.items[i], '=');
        if (equal == NULL || equal == j->types.items[i]) return cli_usage_error(j->command, "--type: expected PATTERN=TYPE, got '%s'", j->types.items[i]) == CLI_DONE;
        if (type_named(equal + 1, &t) < 0) return cli_usage_error(j->command, "--type: '%s' is no type that can be written", equal + 1) == CLI_DONE;
    }
    return 1;
}

/* The new type of each tensor. */
static int plan(job *j) {
    layout l;
    size_t i;
    layout_of(&j->in, &l);
    l.importance = j->importance.file.open;
    free(j->tensors);
    free(j->errors);
    j->n_fitted = 0;
    j->tensors = cli_alloc(j->command, j->in.n_tensors + 1, sizeof *j->tensors);
    j->errors = cli_alloc(j->command, j->in.n_tensors + 1, sizeof *j->errors);
    if (j->tensors == NULL || j->errors == NULL) return 0;
    for (i = 0; i < j->in.n_tensors; i++) {
        const file_tensor *from = &j->in.tensors[i];
        int32_t type = asked(j, from), fits;
        j->tensors[i] = *from;
        j->errors[i] = -1;
        if (type < 0 && from->natural != from->type && (j->recipe == NULL || kept(j, from->name))) type = (int32_t)from->natural;
        else if (kept(j, from->name) || (type < 0 && !recipe_takes(from) && !file_base(&j->in))) continue;
        if (type < 0) type = j->recipe ? recipe_type(j->recipe, &l, from) : (int32_t)from->type;
        fits = type_fitting(type, from->dims[0]);
        j->n_fitted += fits != type;
        if (fits == (int32_t)from->type) continue;
        if (has_blocks(from->type) && !j->again)
            return cli_fail(j->command, "%s is %s already: quantise the original, or lose twice (--requantize)", from->name, infer_type_name((int32_t)from->type)) == CLI_DONE;
        j->tensors[i].type = (uint32_t)fits;
        j->tensors[i].bytes = type_bytes(fits, from);
    }
    return 1;
}

/* --target-size: types for those that the plan would change, so that the file is no larger. */
static int plan_target(job *j, const converting *c, uint64_t header, uint64_t most) {
    const file_tensor **list = cli_alloc(j->command, j->in.n_tensors + 1, sizeof *list);
    int32_t *types = cli_alloc(j->command, j->in.n_tensors + 1, sizeof *types);
    uint64_t *bytes = cli_alloc(j->command, j->in.n_tensors + 1, sizeof *bytes), other = header;
    size_t i, n = 0;
    int status = list && types && bytes ? CLI_DONE : CLI_FAILED;
    for (i = 0; status == CLI_DONE && i < j->in.n_tensors; i++) {
        if (j->tensors[i].type != j->in.tensors[i].type && asked(j, &j->in.tensors[i]) < 0) list[n++] = &j->in.tensors[i];
        else other += j->tensors[i].bytes;
        other += j->model.alignment; /* at most, between tensors */
    }
    if (status == CLI_DONE && other >= most) status = cli_fail(j->command, "--target-size: what is not changed takes %.0f bytes already", (double)other);
    if (status == CLI_DONE) status = target_types(c, &j->importance, list, n, most - other, types, bytes);
    for (i = n = 0; status == CLI_DONE && i < j->in.n_tensors; i++) {
        if (j->tensors[i].type == j->in.tensors[i].type || asked(j, &j->in.tensors[i]) >= 0) continue;
        j->tensors[i].type = (uint32_t)types[n];
        j->tensors[i].bytes = bytes[n++];
    }
    free((void *)list);
    free(types);
    free(bytes);
    return status;
}

/* The recipe that most of the values are of. */
static const recipe *recipe_of(const file_model *m) {
    uint32_t best = 0;
    uint64_t most = 0;
    size_t i, k;
    for (i = 0; i < m->n_tensors; i++) {
        uint64_t n = 0;
        for (k = 0; k < m->n_tensors; k++)
            if (m->tensors[k].natural == m->tensors[i].natural) n += m->tensors[k].dims[0] * m->tensors[k].rows;
        if (n <= most) continue;
        most = n;
        best = m->tensors[i].natural;
    }
    return recipe_named(infer_type_name((int32_t)best));
}

/* The input's keys, with the new file's type. */
static int make_keys(job *j) {
    const recipe *main_one = j->recipe ? j->recipe : recipe_of(&j->in);
    static unsigned char file_type[4], version[4];
    static file_key own[2] = {{(char *)"general.file_type", GGUF_U32, 0, 1, file_type, 4}, {(char *)"general.quantization_version", GGUF_U32, 0, 1, version, 4}};
    size_t i, n = 0;
    int k;
    gguf_store(file_type, main_one ? recipe_file_type(main_one) : 0, 4);
    gguf_store(version, 2, 4);
    j->keys = cli_alloc(j->command, j->in.n_keys + 2, sizeof *j->keys);
    if (j->keys == NULL) return 0;
    for (i = 0; i < j->in.n_keys; i++) {
        if (file_is_split(j->in.keys[i].name)) continue;
        for (k = 0; k < 2 && strcmp(j->in.keys[i].name, own[k].name) != 0; k++) {}
        if (k == 2) j->keys[n++] = &j->in.keys[i];
    }
    for (k = 0; k < 2; k++) j->keys[n++] = &own[k];
    j->model.keys = j->keys;
    j->model.n_keys = n;
    return 1;
}

/* The types of tensors, and the files that they make: one, until the limits are set. */
static int plan_files(job *j) {
    if (!plan(j)) return 0;
    j->model.tensors = j->tensors;
    return out_plan(&j->model);
}

/* ---- output ----------------------------------------------------------------------------------- */

/* Of the plan that is made. */
static void set_outcome(job *j, size_t at, const char *name) {
    outcome *o = &j->outcomes[at];
    double bits = 0, values = 0, error = 0;
    size_t i;
    for (i = 0; i < j->in.n_tensors; i++) {
        const double n = (double)j->tensors[i].dims[0] * (double)j->tensors[i].rows;
        bits += 8 * (double)j->tensors[i].bytes;
        values += n;
        if (j->errors[i] > 0) error += j->errors[i] * n;
    }
    o->name = name;
    o->bytes = j->model.bytes;
    o->bits = values > 0 ? bits / values : 0;
    o->error = !j->error ? -1 : values > 0 ? error / values : 0;
}

static void print_outcomes(const job *j) {
    char size[32];
    size_t i;
    printf(j->json ? ", \"compared\": [" : "%9s %8s %11s  type\n", "size", "bits", "mean error");
    for (i = 0; i <= j->n_others; i++) {
        const outcome *o = &j->outcomes[i];
        if (!j->json) printf("%9s %8.3f %11.4g  %s\n", cli_bytes_text((double)o->bytes, size), o->bits, o->error, o->name);
        else {
            printf("%s{\"type\": \"%s\", \"bytes\": %.0f, \"bits\": ", i ? ",\n  " : "\n  ", o->name, (double)o->bytes);
            json_number(stdout, o->bits);
            printf(", \"error\": ");
            json_number(stdout, o->error);
            printf("}");
        }
    }
    if (j->json) printf("\n]");
}

static void print_plan(const job *j) {
    char from[32], to[32];
    const double total = (double)j->outcomes[0].bytes;
    size_t i;
    if (j->json) printf("{\"bytes\": %.0f, \"files\": %d, \"tensors\": [", total, j->model.n_files);
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
    if (j->json) printf("\n]");
    else printf("%s of %s: %.2f bits per value\n", cli_bytes_text(total, to), cli_bytes_text((double)j->in.data_bytes, from), j->outcomes[0].bits);
    if (!j->json && out_is_split(&j->model)) printf("in %d files\n", j->model.n_files);
    if (j->n_others) print_outcomes(j);
    if (j->json) printf("}\n");
}

/* ---- the work --------------------------------------------------------------------------------- */

static int changes(const job *j, size_t i) { return j->tensors[i].type != j->in.tensors[i].type; }

static int convert_one(job *j, converting *c, size_t i) {
    float *w = NULL;
    uint64_t n_matrices = 1;
    int status;
    if (changes(j, i) && !importance_read(&j->importance, &j->in.tensors[i], &w, &n_matrices)) return CLI_FAILED;
    status = convert_tensor(c, &j->in.tensors[i], (int32_t)j->tensors[i].type, w, n_matrices, j->error && changes(j, i) ? &j->errors[i] : NULL);
    free(w);
    return status;
}

/* Does the library compute what was written? A tensor may be missing in a checkpoint. */
static int check_model(const job *j, const char *path) {
    infer_model *model = NULL;
    infer_model_params params;
    infer_model_info info;
    infer_error err;
    size_t n;
    int ok;
    memset(&params, 0, sizeof params);
    if (infer_model_open(&model, path, &params, &err) != INFER_OK) return cli_fail(j->command, "%s: what it gives is no model: %s", j->in.path, err.message) == CLI_DONE;
    ok = infer_model_get_info(model, &info) == INFER_OK && info.computes;
    if (!ok) cli_fail(j->command, "%s: what it gives is no complete model: %s", j->in.path, infer_model_why_not(model));
    else if (j->pre && infer_tokenize(model, "a", 1, 0, NULL, 0, &n, &err) != INFER_OK) ok = cli_fail(j->command, "--pre %s: %s", j->pre, err.message) == CLI_DONE;
    infer_model_close(model);
    return ok;
}

/* The same of an adapter, with the model that it is for. */
static int check_adapter(const job *j, const char *path) {
    const char *base = file_base(&j->in);
    infer_model *model = NULL;
    infer_adapter *adapter = NULL;
    infer_model_params params;
    infer_error err;
    infer_result result;
    memset(&params, 0, sizeof params);
    if (platform_path_kind(base) == PLATFORM_FOLDER) result = cli_folder_open(j->command, base, &params, &model, &err);
    else result = infer_model_open(&model, base, &params, &err);
    if (result == INFER_OK) result = infer_adapter_open(&adapter, model, path, 0, &err);
    if (result != INFER_OK && err.message[0]) cli_fail(j->command, "%s: what it gives is no adapter for %s: %s", j->in.path, base, err.message);
    infer_adapter_close(adapter);
    cli_folder_close(model);
    return result == INFER_OK;
}

static int write_tensor(void *user, gguf_out *out, size_t i, out_progress *p) {
    job *j = user;
    const uint32_t type = j->tensors[i].type;
    /* Numbers that stay what they are go the same way: values that are none are found there. */
    if (!changes(j, i) && type != TYPE_F32 && type != TYPE_F16 && type != TYPE_BF16) return out_copy(out, &j->in, &j->in.tensors[i], p);
    j->converting.out = out;
    j->converting.progress = p;
    return convert_one(j, &j->converting, i);
}

static int check_written(void *user, const char *path) {
    const job *j = user;
    return file_base(&j->in) ? check_adapter(j, path) : check_model(j, path);
}

static int write_model(job *j, const char *path) {
    j->model.doing = "quantising";
    j->model.data = write_tensor;
    j->model.check = j->checked ? check_written : NULL;
    j->model.user = j;
    return out_write(&j->model, path);
}

static int measure_all(job *j, converting *c, const char *name) {
    out_progress p = {0};
    size_t i;
    int status = CLI_DONE;
    c->progress = &p;
    cli_progress_begin(&p.bar, name);
    for (i = 0; i < j->in.n_tensors && status == CLI_DONE; i++)
        if (changes(j, i)) status = convert_one(j, c, i);
    cli_progress_end(&p.bar);
    return status;
}

/* --compare: the plans of other types, measured one after the other. The first outcome is the TYPE's, whose plan is made last. */
static int compare(job *j, converting *c) {
    const recipe *own = j->recipe;
    size_t i;
    int status = CLI_DONE;
    for (i = 0; i < j->n_others && status == CLI_DONE; i++) {
        j->recipe = j->others[i];
        if (!plan_files(j)) return CLI_FAILED;
        status = measure_all(j, c, recipe_name(j->recipe));
        if (status == CLI_DONE) set_outcome(j, i + 1, recipe_name(j->recipe));
    }
    j->recipe = own;
    return status;
}

/* Matrices that a file of importance lacks, but the two that usually have none; or that need one and have none. */
static void tell_unknown(const job *j) {
    unsigned long changed = 0, without = 0, wanted = 0;
    const char *type = "";
    size_t i;
    for (i = 0; i < j->in.n_tensors; i++) {
        const file_tensor *t = &j->in.tensors[i];
        if (j->tensors[i].type == t->type || strcmp(t->name, "token_embd.weight") == 0 || strcmp(t->name, "output.weight") == 0) continue;
        changed++;
        if (importance_has(&j->importance, t)) continue;
        without++;
        if (!type_wants_importance((int32_t)j->tensors[i].type)) continue;
        wanted++;
        type = infer_type_name((int32_t)j->tensors[i].type);
    }
    if (j->importance.file.open && without) fprintf(stderr, "warning: %lu of %lu matrices have no importance in %s\n", without, changed, j->importance.file.path);
    else if (wanted) fprintf(stderr, "warning: %lu matrices become %s or the like without --imatrix, which costs quality: see infer imatrix\n", wanted, type);
}

static int run_job(job *j, const char *path) {
    converting *c = &j->converting;
    int status = CLI_DONE;
    c->in = &j->in;
    c->threads = j->threads;
    j->model.in = &j->in;
    j->model.alignment = file_alignment(j->command, j->in.path, j->in.keys, j->in.n_keys);
    if (j->model.alignment == 0 || !make_keys(j)) return CLI_FAILED;
    status = compare(j, c);
    if (status != CLI_DONE) return status;
    if (!plan_files(j)) return CLI_FAILED;
    c->progress = NULL;
    if (j->target) status = plan_target(j, c, j->model.header_bytes, (uint64_t)j->target);
    j->model.max_size = j->max_size;
    j->model.max_tensors = j->max_tensors;
    j->model.keep_split = j->keep_split;
    if (status == CLI_DONE && !out_plan(&j->model)) status = CLI_FAILED;
    if (status == CLI_DONE) tell_unknown(j);
    if (status == CLI_DONE) tell_idle(j);
    if (status == CLI_DONE && j->dry) status = j->error ? measure_all(j, c, "measuring") : CLI_DONE;
    else if (status == CLI_DONE) status = write_model(j, path);
    if (status != CLI_DONE) return status;
    if (j->n_fitted) fprintf(stderr, "%.0f tensors have rows that are no multiple of the type's blocks: they got another type\n", (double)j->n_fitted);
    set_outcome(j, 0, j->target ? "--target-size" : j->recipe ? recipe_name(j->recipe) : "as they are");
    if (j->dry || j->error || j->json) print_plan(j);
    return CLI_DONE;
}

/* --compare TYPE,TYPE,...; the TYPE itself and what is named twice are left out. */
static int parse_others(job *j) {
    const char *text = j->compared;
    if (!j->dry) return cli_usage_error("quantize", "--compare is for --dry-run") == CLI_DONE;
    for (;; text++) {
        const size_t n = strcspn(text, ",");
        const recipe *r;
        char name[32];
        size_t i;
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text);
        r = recipe_named(name);
        if (r == NULL) return cli_usage_error("quantize", "--compare: unknown type '%s': one of %s", name, recipe_names()) == CLI_DONE;
        for (i = 0; i < j->n_others && j->others[i] != r; i++) {}
        if (i == j->n_others && (r != j->recipe || j->target)) {
            if (i == MAX_OUTCOMES - 1) return cli_usage_error("quantize", "--compare takes %d types at most", MAX_OUTCOMES - 1) == CLI_DONE;
            j->others[j->n_others++] = r;
        }
        text += n;
        if (*text == 0) return 1;
    }
}

/* Adapters have the types that the library keeps as they are, and none of the options for matrices of a model. */
static int check_adapter_options(const job *j) {
    static const char *const TYPES = "F32, F16 or BF16";
    infer_type_info t;
    int i;
    if (file_base(&j->in) == NULL) return j->base == NULL || cli_usage_error(j->command, "--base is for folders with an adapter (adapter_config.json)") == CLI_DONE;
    if (j->max_size || j->max_tensors) return cli_usage_error(j->command, "an adapter is one file: it is not split") == CLI_DONE;
    if (j->matrix || j->target || j->output || j->embedding || j->prune)
        return cli_usage_error(j->command, "an adapter has no importance, no size to aim at, no layers to leave out and no types by kinds of matrices") == CLI_DONE;
    if (j->recipe && strstr(TYPES, recipe_name(j->recipe)) == NULL) return cli_usage_error(j->command, "an adapter can be %s", TYPES) == CLI_DONE;
    for (i = 0; i < j->types.n; i++)
        if (type_named(strrchr(j->types.items[i], '=') + 1, &t) < 0 || strstr(TYPES, t.name) == NULL) return cli_usage_error(j->command, "an adapter can be %s", TYPES) == CLI_DONE;
    return 1;
}

/* What both commands do once the options are read. A status. */
static int run_command(job *j, const char *in, const char *path, const cli_common *common, int argc, char **argv) {
    const char *const files[] = {in, path, j->matrix};
    report r = {0};
    int status = CLI_DONE;
    j->json = common->json;
    if (!j->threads) j->threads = platform_cores();
    if (path && !cli_check_output(j->command, path, &j->matrix, 1)) return CLI_USAGE;
    if (!check_types(j) || (j->compared && !parse_others(j))) return CLI_USAGE;
    if (j->compared) j->error = 1;
    if (!file_open_with(&j->in, j->command, in, j->pre, j->base)) return CLI_FAILED;
    if (!check_adapter_options(j)) return CLI_USAGE;
    if (j->prune && !file_prune(&j->in, j->prune)) return CLI_FAILED;
    if (j->in.folder) j->checked = 1;
    if (j->keep_split && (j->max_size || j->max_tensors)) return cli_usage_error(j->command, "--keep-split says already where to split");
    if (j->keep_split && file_find_key(&j->in, "split.count") == NULL) return cli_usage_error(j->command, "--keep-split: %s is not split", in);
    cli_catch_interrupts();
    if (path && !j->dry && file_is_part(&j->in, path)) return cli_usage_error(j->command, "OUT is a file of the input: give another name");
    if (common->report) status = report_open(&r, j->command, common->report, files, 3);
    if (status == CLI_DONE) status = j->matrix == NULL || importance_open(&j->importance, j->command, j->matrix, &j->in) ? run_job(j, path) : CLI_FAILED;
    if (status == CLI_DONE && r.path) {
        report_begin(&r, j->recipe ? "Quantising" : "Converting", cli_base_name(in), argc, argv);
        report_quantize(&r, &j->in, j->tensors, j->errors, j->outcomes, j->n_others + 1);
    }
    return report_close(&r, status);
}

static void free_job(job *j) {
    importance_close(&j->importance);
    out_model_free(&j->model);
    file_close(&j->in);
    free((void *)j->keys);
    free(j->tensors);
    free(j->errors);
}

/* Options of both commands. */
#define COMMON_OPTIONS \
    {"--imatrix", OPT_STRING, &j.matrix, "FILE", "importance of columns, as `infer imatrix` and llama-imatrix write it", 0, 0}, \
    {"--output-type|--output-tensor-type", OPT_STRING, &j.output, "TYPE", "the type of output.weight", 0, 0}, \
    {"--embedding-type|--token-embedding-type", OPT_STRING, &j.embedding, "TYPE", "the type of token_embd.weight", 0, 0}, \
    {"--keep", OPT_LIST, &j.keep, "PATTERN", "tensors that stay as they are", 0, 0}, \
    {"--target-size", OPT_SIZE, &j.target, "SIZE", "choose types so that the file is no larger and the error small", 1, INT64_MAX}, \
    {"--split-max-size", OPT_SIZE, &j.max_size, "SIZE", "write OUT-00001-of-0000N.gguf and so on, each of so many bytes at most: 500M, 2G", 1, INT64_MAX}, \
    {"--split-max-tensors", OPT_INT, &j.max_tensors, "N", "the same, with so many tensors each at most", 1, INT32_MAX}, \
    {"--dry-run", OPT_FLAG, &j.dry, NULL, "write nothing; show types and sizes", 0, 0}, \
    {"--errors", OPT_FLAG, &j.error, NULL, "show the error of each tensor: squared differences over squared values", 0, 0}, \
    {"-t,--threads", OPT_INT, &threads, "N", "threads (default: one per core)", 1, 256}

int cmd_quantize(int argc, char **argv) {
    const char *args[3];
    int64_t threads = 0;
    int status;
    job j;
    const cli_option options[] = {
        {"--type|--tensor-type", OPT_LIST, &j.types, "PATTERN=TYPE", "the type of matrices whose name has this part (* stands for anything)", 0, 0},
        {"--compare", OPT_STRING, &j.compared, "TYPE,TYPE,..", "with --dry-run: also the sizes and errors of these types", 0, 0},
        {"--keep-split", OPT_FLAG, &j.keep_split, NULL, "of a split model: write it split in the same places", 0, 0},
        {"--prune-layers", OPT_STRING, &j.prune, "N,N,..", "leave out these layers; the others move up, also for --type and --keep", 0, 0},
        {"--requantize|--allow-requantize", OPT_FLAG, &j.again, NULL, "also of a file that is quantised already", 0, 0},
        COMMON_OPTIONS,
    };
    const cli_spec spec = {"quantize",
                           "IN OUT TYPE",
                           "Write a model with its matrices in another storage type: F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q2_K_S Q3_K_S Q3_K_M\n"
                           "Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ4_NL IQ4_XS IQ3_M IQ3_S IQ3_XS IQ3_XXS IQ2_M IQ2_S IQ2_XS IQ2_XXS IQ1_M\n"
                           "IQ1_S TQ1_0 TQ2_0 MXFP4_MOE NVFP4 Q1_0 Q2_0 F32. In the mixtures (_S, _M, _L, IQ1 to IQ3) some tensors get more bits.\n"
                           "IQ1, IQ2 and IQ3_XXS want --imatrix: without one there is a warning. Vectors, routers and convolutions stay as they\n"
                           "are. OUT appears when it is complete. With --dry-run OUT may be left out. IN may be a Hugging Face folder, as for\n"
                           "`infer convert`. --report shows bytes by kind of tensor and bits by layer; with --errors errors by layer; with\n"
                           "--compare the types.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_JSON | TAKES_REPORT,
                           2,
                           3};
    cli_common common;
    memset(&j, 0, sizeof j);
    j.command = "quantize";
    if (cli_parse(&spec, argc, argv, &common, args, &status)) {
        const char *type = args[2] ? args[2] : args[1], *path = args[2] ? args[1] : NULL;
        j.threads = (int)threads;
        j.recipe = recipe_named(type);
        if (j.recipe == NULL && (path || j.dry)) status = cli_usage_error("quantize", "unknown type %s: one of %s", type, recipe_names());
        else if (path == NULL && !j.dry) status = cli_usage_error("quantize", "give IN, OUT and TYPE");
        else status = run_command(&j, args[0], path, &common, argc, argv);
    }
    free_job(&j);
    return status;
}

/* TYPE alone is a recipe; PATTERN=TYPE stay in the list. 0 after saying that there is no such type. */
static int take_recipe(job *j) {
    int i, n = 0;
    for (i = 0; i < j->types.n; i++) {
        const char *s = j->types.items[i];
        if (strchr(s, '=')) j->types.items[n++] = s;
        else if ((j->recipe = recipe_named(s)) == NULL) return cli_usage_error(j->command, "unknown type %s: one of %s", s, recipe_names()) == CLI_DONE;
    }
    j->types.n = n;
    return 1;
}

int cmd_convert(int argc, char **argv) {
    const char *args[2];
    int64_t threads = 0;
    int status;
    job j;
    const cli_option options[] = {
        {"--type|--outtype", OPT_LIST, &j.types, "TYPE", "the matrices' type (default: as they are), as for quantize; or PATTERN=TYPE", 0, 0},
        {"--pre", OPT_STRING, &j.pre, "NAME", "the pre-tokenizer (default: found from the rules in tokenizer.json)", 0, 0},
        {"--base", OPT_STRING, &j.base, "MODEL", "of an adapter: the model that it is for, a GGUF file or a folder (default: as it says)", 0, 0},
        COMMON_OPTIONS,
    };
    const cli_spec spec = {"convert",
                           "FOLDER OUT",
                           "Write a Hugging Face folder (config.json, *.safetensors, tokenizer) as a GGUF file, without Python. Matrices stay in\n"
                           "the type that they have (F8 becomes BF16) unless --type says otherwise, for example --type Q4_K_M; nothing is written\n"
                           "in between. OUT appears when it is complete. Pickles (*.bin, *.pth) are not read. A folder with an adapter as PEFT\n"
                           "saves it (adapter_config.json, adapter_model.safetensors) becomes an adapter file for --lora.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_JSON | TAKES_REPORT,
                           1,
                           2};
    cli_common common;
    memset(&j, 0, sizeof j);
    j.command = "convert";
    j.again = j.checked = 1;
    if (cli_parse(&spec, argc, argv, &common, args, &status)) {
        j.threads = (int)threads;
        if (!take_recipe(&j)) status = CLI_USAGE;
        else if (args[1] == NULL && !j.dry) status = cli_usage_error("convert", "give FOLDER and OUT");
        else status = run_command(&j, args[0], args[1], &common, argc, argv);
    }
    free_job(&j);
    return status;
}
