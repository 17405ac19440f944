/* info.c: `infer info`, what a file holds and what this build can do with it. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct elements {
    const infer_model *model;
    const char *key;
} elements;

static int element_at(void *from, uint64_t i, infer_meta *out) {
    const elements *e = from;
    return infer_meta_element(e->model, e->key, i, out) == INFER_OK;
}

static void print_metadata(const infer_model *model, int json, int full) {
    int32_t i, n = infer_meta_count(model);
    if (json)
        printf("\"metadata\": {");
    else
        printf("\nmetadata (%ld)\n", (long)n);
    for (i = 0; i < n; i++) {
        const char *key = infer_meta_key(model, i);
        infer_meta m;
        if (json) {
            if (i) printf(", ");
            json_text(stdout, key);
            printf(": ");
        } else {
            printf("  %s", key);
        }
        if (infer_meta_value(model, key, &m) != INFER_OK) {
            printf(json ? "null" : " = ?\n");
            continue;
        }
        if (!json) printf("  %s%s = ", cli_value_type(m.type), m.kind == INFER_META_ARRAY ? "[]" : "");
        if (m.kind == INFER_META_ARRAY) {
            elements e;
            e.model = model;
            e.key = key;
            cli_print_array(m.n, json, full, element_at, &e);
        } else {
            cli_print_value(&m, json, full);
        }
        if (!json) putchar('\n');
    }
    if (json) putchar('}');
}

static const char *type_name(int32_t id) {
    const char *name = infer_type_name(id);
    return name ? name : "?";
}

static void print_tensors(const infer_model *model, int json) {
    int32_t i, k, n = infer_tensor_count(model);
    infer_tensor_info t;
    if (json)
        printf(", \"tensors\": [");
    else
        printf("\ntensors (%ld)\n", (long)n);
    for (i = 0; i < n; i++) {
        if (infer_tensor_get(model, i, &t) != INFER_OK) continue;
        if (json) {
            printf("%s{\"name\": ", i ? ", " : "");
            json_text(stdout, t.name);
            printf(", \"type\": \"%s\", \"dims\": [", type_name(t.type));
            for (k = 0; k < t.n_dims; k++) printf("%s%.0f", k ? ", " : "", (double)t.dims[k]);
            printf("], \"offset\": %.0f, \"bytes\": %.0f}", (double)t.offset, (double)t.bytes);
        } else {
            char dims[100];
            int at = 0;
            for (k = 0; k < t.n_dims && at < 80; k++) {
                at += snprintf(dims + at, sizeof dims - (size_t)at, k ? " x %.0f" : "%.0f", (double)t.dims[k]);
            }
            printf("  %-40s %-8s %-24s %12.0f bytes at %.0f\n", t.name, type_name(t.type), dims, (double)t.bytes,
                   (double)t.offset);
        }
    }
    if (json) putchar(']');
}

/* The resolved layers; NULL when the model does not compute or there is no memory. */
static char *describe(const infer_model *model) {
    size_t n = 0;
    char *text;
    if (infer_model_describe(model, NULL, 0, &n) != INFER_OK || n == 0) return NULL;
    text = cli_alloc("info", n + 1, 1);
    if (text && infer_model_describe(model, text, n + 1, &n) != INFER_OK) {
        free(text);
        text = NULL;
    }
    return text;
}

static void print_layers(const infer_model *model, int json) {
    char *text = describe(model);
    if (json) {
        printf(", \"layers\": ");
        json_text(stdout, text);
    } else if (text) {
        printf("\nlayers\n%s%s", text, text[0] && text[strlen(text) - 1] == '\n' ? "" : "\n");
    }
    free(text);
}

/* One device's part: on a line, or as an object. */
static void print_device_memory(const infer_device_memory *m, int json, int first) {
    infer_device_info d;
    char a[32], b[32], c[32], e[32];
    if (infer_device_get(m->device, &d) != INFER_OK) return;
    if (json) {
        printf("%s{\"device\": %ld, \"name\": ", first ? "" : ", ", (long)m->device);
        json_text(stdout, d.name);
        printf(", \"layers\": %ld, \"weights\": %.0f, \"cache\": %.0f, \"scratch\": %.0f, \"free\": %.0f}",
               (long)m->layers, (double)m->weights, (double)m->cache, (double)m->scratch, (double)m->free);
    } else {
        printf("    device %ld, %s: %ld layers; weights %s, cache %s, scratch %s; %s free\n", (long)m->device, d.name,
               (long)m->layers, cli_bytes_text((double)m->weights, a), cli_bytes_text((double)m->cache, b),
               cli_bytes_text((double)m->scratch, c), cli_bytes_text((double)m->free, e));
    }
}

static void print_host_memory(const infer_memory *m) {
    char a[32], b[32], c[32];
    printf("weights %s, cache %s, scratch %s\n", cli_bytes_text((double)m->weights, a),
           cli_bytes_text((double)m->cache, b), cli_bytes_text((double)m->scratch, c));
}

/* The memory of the machine or its container, where the system reports it. */
static void print_machine(void) {
    infer_device_info d;
    char a[32], b[32];
    if (infer_device_get(0, &d) != INFER_OK || d.total == 0) return;
    printf("  the machine has %s", cli_bytes_text((double)d.total, a));
    if (d.free) printf(", %s of it free", cli_bytes_text((double)d.free, b));
    printf("\n");
}

static void print_memory_json(const infer_memory *cpu, const infer_memory *m, int32_t cells) {
    infer_device_info machine;
    int32_t i;
    if (infer_device_get(0, &machine) != INFER_OK) machine.total = machine.free = 0;
    printf(", \"memory\": {\"context\": %ld, \"weights\": %.0f, \"cache\": %.0f, \"scratch\": %.0f, "
           "\"device\": %.0f, \"devices\": [",
           (long)cells, (double)m->weights, (double)m->cache, (double)m->scratch, (double)m->device);
    for (i = 0; i < m->n_devices; i++) print_device_memory(&m->devices[i], 1, i == 0);
    printf("], \"cpu\": {\"weights\": %.0f, \"cache\": %.0f, \"scratch\": %.0f, \"total\": %.0f, \"free\": %.0f}}",
           (double)cpu->weights, (double)cpu->cache, (double)cpu->scratch, (double)machine.total, (double)machine.free);
}

/* On the CPU, and where the options (or auto) would put it. Predicted from the file's header: nothing is loaded. */
static void print_memory(const infer_model *model, const char *path, const cli_common *common, int32_t batch,
                         int json) {
    infer_context_params params;
    infer_model_params model_params;
    infer_memory cpu, there;
    infer_error err, there_err;
    infer_result r, there_r;
    char text[32];
    int32_t i;
    cli_context_params(common, &params);
    params.cells = cli_cells(common, model, 0);
    params.batch = batch;
    params.sessions = 1;
    if (!cli_model_params("info", common, &model_params)) return;
    model_params.fit.batch = batch;
    r = infer_model_memory(model, &params, &cpu, &err);
    there = cpu;
    there_r = platform_path_kind(path) == PLATFORM_FOLDER ? r : infer_model_memory_path(path, &model_params, &params, &there, &there_err);
    if (r != INFER_OK || there_r != INFER_OK) {
        if (json)
            printf(", \"memory\": null");
        else
            printf("\nmemory: %s\n", r != INFER_OK ? err.message : there_err.message);
        return;
    }
    if (json) {
        print_memory_json(&cpu, &there, params.cells);
        return;
    }
    printf("\nmemory for a context of %ld (--ctx, --kv, --batch)\n  on the CPU: ", (long)params.cells);
    print_host_memory(&cpu);
    print_machine();
    if (there.n_devices == 0) return;
    printf("  on %s: %s together; on the CPU beside it ", there.n_devices == 1 ? "a GPU" : "GPUs",
           cli_bytes_text((double)there.device, text));
    print_host_memory(&there);
    for (i = 0; i < there.n_devices; i++) print_device_memory(&there.devices[i], 0, 0);
}

/* Length of the beginning of a tensor's name that names its block: "v.blk.3.", or "v.blk.3.1." where there are stages. 0 = it is in none. */
static size_t block_of(const char *name, const char *blocks) {
    size_t n = strlen(blocks), end = 0, k;
    if (strncmp(name, blocks, n) != 0) return 0;
    while ((k = strspn(name + n, "0123456789")) > 0 && name[n + k] == '.') end = n += k + 1;
    return end;
}

typedef struct block_name { char text[32]; } block_name;

static int by_text(const void *a, const void *b) { return strcmp(((const block_name *)a)->text, ((const block_name *)b)->text); }

/* Blocks that the file has tensors of: what keys say is of something else where there are several stages (gemma3nv). */
static int count_blocks(const infer_model *model, const char *blocks) {
    const int32_t n = infer_tensor_count(model);
    block_name *names = cli_alloc("info", (size_t)n + 1, sizeof *names);
    infer_tensor_info t;
    int32_t i, found = 0, different = 0;
    for (i = 0; names && i < n; i++) {
        const size_t length = infer_tensor_get(model, i, &t) == INFER_OK ? block_of(t.name, blocks) : 0;
        if (length > 0 && length < sizeof names->text) snprintf(names[found++].text, sizeof names->text, "%.*s", (int)length, t.name);
    }
    if (found) qsort(names, (size_t)found, sizeof *names, by_text);
    for (i = 0; i < found; i++) different += i == 0 || strcmp(names[i - 1].text, names[i].text) != 0;
    free(names);
    return different;
}

/* What a projector's file encodes, a line for each kind; how many there are. */
static int print_encoders(const infer_model *model, const infer_model_info *info) {
    static const char *const KINDS[][3] = {{"vision", "pictures", "v.blk."}, {"audio", "sound", "a.blk."}};
    static const char *const FIGURES[][2] = {{"embedding_length", " wide"}, {"projection_dim", " values of the text model"}};
    infer_meta m;
    char key[64], type[64];
    int i, n = 0;
    size_t k;
    for (i = 0; i < 2; i++) {
        int layers;
        snprintf(key, sizeof key, "clip.has_%s_encoder", KINDS[i][0]);
        if (infer_meta_value(model, key, &m) != INFER_OK || m.kind != INFER_META_BOOL || !m.u) continue;
        snprintf(key, sizeof key, "clip.%s.projector_type", KINDS[i][0]);
        if ((infer_meta_value(model, "clip.projector_type", &m) != INFER_OK && infer_meta_value(model, key, &m) != INFER_OK) || m.kind != INFER_META_STRING) continue;
        for (k = 0; k < m.n && k + 1 < sizeof type; k++) type[k] = m.s[k] < 33 || m.s[k] > 126 ? '?' : m.s[k];
        type[k] = 0;
        layers = count_blocks(model, KINDS[i][2]);
        printf("encodes  %s: %s, %d layer%s", KINDS[i][1], type, layers, layers == 1 ? "" : "s");
        for (k = 0; k < 2; k++) {
            snprintf(key, sizeof key, "clip.%s.%s", KINDS[i][0], FIGURES[k][0]);
            if (infer_meta_value(model, key, &m) == INFER_OK && m.kind == INFER_META_UINT) printf(", %.0f%s", m.f, FIGURES[k][1]);
        }
        printf("%s\n", (i ? info->sounds : info->images) || !(info->sounds || info->images) ? "" : "; refused: infer media says why");
        n++;
    }
    if (n && !info->images && !info->sounds) printf("computes no: %s\n", infer_model_why_not(model));
    else if (n) printf("use it   with its text model: infer chat MODEL --projector FILE\n");
    return n;
}

static void print_summary(const infer_model *model, const char *path, const infer_model_info *info, int json) {
    char a[32], b[32];
    if (json) {
        printf("{\"file\": ");
        json_text(stdout, path);
        printf(", \"arch\": ");
        json_text(stdout, info->arch);
        printf(", \"name\": ");
        json_text(stdout, info->name);
        printf(", \"type\": ");
        json_text(stdout, info->quant);
        printf(", \"parameters\": %.0f, \"file_bytes\": %.0f, \"vocab\": %ld, \"context\": %ld, \"n_layers\": %ld, "
               "\"width\": %ld, \"computes\": %s, \"embedding_only\": %s, \"why_not\": ",
               (double)info->parameters, (double)info->file_bytes, (long)info->vocab, (long)info->context,
               (long)info->layers, (long)info->width, info->computes ? "true" : "false",
               info->embedding_only ? "true" : "false");
        json_text(stdout, infer_model_why_not(model));
        printf(", ");
        return;
    }
    printf("file     %s, %s\n", path, cli_bytes_text((double)info->file_bytes, a));
    printf("model    %s%s%s, %s parameters, %s\n", info->arch, info->name[0] ? ": " : "", info->name,
           cli_count_text((double)info->parameters, b), info->quant);
    if (print_encoders(model, info)) return;
    printf("shape    %ld layers, width %ld, vocabulary %ld, context %ld\n", (long)info->layers, (long)info->width,
           (long)info->vocab, (long)info->context);
    printf("computes %s%s%s\n", info->computes ? "yes" : "no: ", info->computes ? "" : infer_model_why_not(model),
           info->embedding_only ? " (hidden states only)" : "");
}

static int print_model(const infer_model *model, const char *path, const cli_common *common, int32_t batch, int full) {
    infer_model_info info;
    if (infer_model_get_info(model, &info) != INFER_OK) return 0;
    print_summary(model, path, &info, common->json);
    print_metadata(model, common->json, full);
    print_tensors(model, common->json);
    if (info.computes) {
        print_layers(model, common->json);
        print_memory(model, path, common, batch, common->json);
    }
    if (common->json) printf("}\n");
    return 1;
}

/* ---- --check -------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b) {
    const infer_tensor_info *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* No two tensors share bytes. Split files have offsets of their own each, so they are left out. */
static int check_overlap(const infer_model *model, const char *path) {
    int32_t i, n = infer_tensor_count(model);
    infer_tensor_info *all;
    infer_meta m;
    int ok = 1;
    if (infer_meta_value(model, "split.count", &m) == INFER_OK && m.f > 1) return 1;
    all = cli_alloc("info", (size_t)n, sizeof *all);
    if (all == NULL) return 0;
    for (i = 0; i < n; i++) infer_tensor_get(model, i, &all[i]);
    qsort(all, (size_t)n, sizeof *all, by_offset);
    for (i = 1; ok && i < n; i++) {
        if (all[i - 1].offset + all[i - 1].bytes <= all[i].offset) continue;
        cli_fail("info", "%s: tensors %s and %s overlap", path, all[i - 1].name, all[i].name);
        ok = 0;
    }
    free(all);
    return ok;
}

/* Reads a tensor and looks for values that no trained model holds. The comparison works under -ffast-math too:
 * the exponent bits are all ones exactly for infinities and NaNs. */
static int check_tensor(const infer_model *model, const infer_tensor_info *t, const char *path) {
    uint64_t row, i, width = t->dims[0] ? t->dims[0] : 1, step = (1 << 18) / width;
    infer_error err;
    float *x;
    int ok = 1;
    if (step == 0) step = 1;
    x = cli_alloc("info", (size_t)(step * width), sizeof *x);
    if (x == NULL) return 0;
    for (row = 0; ok && row < t->rows; row += step) {
        uint64_t n = t->rows - row < step ? t->rows - row : step;
        if (infer_tensor_read(model, t->name, row, n, x, &err) != INFER_OK) {
            cli_fail("info", "%s: %s", path, err.message);
            ok = 0;
        }
        for (i = 0; ok && i < n * t->dims[0]; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], 4);
            if ((bits & 0x7F800000u) != 0x7F800000u) continue;
            cli_fail("info", "%s: tensor %s: row %.0f holds a value that is not finite", path, t->name,
                     (double)(row + i / width));
            ok = 0;
        }
    }
    free(x);
    return ok;
}

static int check_metadata(const infer_model *model, const char *path) {
    int32_t i, n = infer_meta_count(model);
    uint64_t k;
    infer_meta m, element;
    for (i = 0; i < n; i++) {
        const char *key = infer_meta_key(model, i);
        infer_result r = infer_meta_value(model, key, &m);
        for (k = 0; r == INFER_OK && m.kind == INFER_META_ARRAY && k < m.n; k++) {
            if (m.element == INFER_META_ARRAY) break;
            r = infer_meta_element(model, key, k, &element);
        }
        if (r == INFER_OK) continue;
        cli_fail("info", "%s: cannot read the value of %s", path, key);
        return 0;
    }
    return 1;
}

static int check_model(const infer_model *model, const char *path, int json) {
    int32_t i, n = infer_tensor_count(model);
    double bytes = 0;
    infer_tensor_info t;
    char text[32];
    if (!check_metadata(model, path) || !check_overlap(model, path)) return 0;
    for (i = 0; i < n; i++) {
        if (infer_tensor_get(model, i, &t) != INFER_OK) continue;
        if (platform_is_terminal(stderr)) fprintf(stderr, "\r%3.0f %%", 100.0 * i / n);
        if (!check_tensor(model, &t, path)) return 0;
        bytes += (double)t.bytes;
    }
    if (platform_is_terminal(stderr)) fprintf(stderr, "\r      \r");
    if (json) {
        printf("{\"file\": ");
        json_text(stdout, path);
        printf(", \"ok\": true, \"metadata\": %ld, \"tensors\": %ld, \"tensor_bytes\": %.0f}\n",
               (long)infer_meta_count(model), (long)n, bytes);
    } else {
        printf("ok: %ld metadata values, %ld tensors of %s\n", (long)infer_meta_count(model), (long)n,
               cli_bytes_text(bytes, text));
    }
    return 1;
}

/* ---- --archs, --types ------------------------------------------------------------------------ */

static void print_archs(int json) {
    int32_t i;
    const char *name;
    if (json) putchar('[');
    for (i = 0; (name = infer_arch_name(i)) != NULL; i++) {
        const char *proof = infer_arch_reference(i), *layers = infer_arch_layers(i), *lacks = infer_arch_lacks(i);
        if (json) {
            printf("%s{\"name\": ", i ? ", " : "");
            json_text(stdout, name);
            printf(", \"layers\": ");
            json_text(stdout, layers);
            printf(", \"devices_lack\": ");
            json_text(stdout, lacks);
            printf(", \"reference\": ");
            json_text(stdout, proof);
            putchar('}');
        } else {
            printf("%-20s %s; GPU: %s%s; %s\n", name, layers, lacks[0] ? "no kernels yet for " : "all layers", lacks,
                   proof[0] ? proof : "unproven");
        }
    }
    if (json) printf("]\n");
}

static void print_types(int json) {
    int32_t i;
    infer_type_info t;
    if (json) putchar('[');
    for (i = 0; infer_type_get(i, &t) == INFER_OK; i++) {
        if (json) {
            printf("%s{\"id\": %ld, \"name\": \"%s\", \"values\": %ld, \"bytes\": %ld, \"storable\": %s}",
                   i ? ", " : "", (long)t.id, t.name, (long)t.values, (long)t.bytes, t.storable ? "true" : "false");
        } else {
            printf("%3ld  %-8s %3ld values in %3ld bytes, %.4g bits each%s\n", (long)t.id, t.name, (long)t.values,
                   (long)t.bytes, 8.0 * t.bytes / t.values, t.storable ? "" : "  (activations only)");
        }
    }
    if (json) printf("]\n");
}

int cmd_info(int argc, char **argv) {
    const char *args[1];
    int archs = 0, types = 0, check = 0, full = 0, status, ok;
    int64_t batch = 0;
    const cli_option options[] = {
        {"--archs", OPT_FLAG, &archs, NULL, "list the supported architectures and what verifies each", 0, 0},
        {"--types", OPT_FLAG, &types, NULL, "list the storage types", 0, 0},
        {"--check", OPT_FLAG, &check, NULL, "read every byte and verify the file", 0, 0},
        {"--full", OPT_FLAG, &full, NULL, "show long arrays and strings in full", 0, 0},
        {"-b,--batch|--batch-size,-ub,--ubatch-size", OPT_INT, &batch, "N", "prompt tokens per pass, for the memory needed (default 512)", 1, 1 << 20},
    };
    const cli_spec spec = {"info",
                           "MODEL | --archs | --types",
                           "Show what a GGUF file holds: metadata, tensors, what the layers compute, memory needed for a\n"
                           "context. Works on any well-formed GGUF file. --check fails on unreadable data, overlapping\n"
                           "tensors and values that are not finite.\n",
                           options,
                           5,
                           TAKES_MODEL | TAKES_DEVICE | TAKES_CONTEXT | TAKES_JSON,
                           0,
                           1};
    cli_common common, here; /* here: on the CPU */
    infer_model_params params;
    infer_model *model;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (archs + types + (args[0] != NULL) != 1) {
        return cli_usage_error("info", "give one of MODEL, --archs and --types");
    }
    if (archs) print_archs(common.json);
    if (types) print_types(common.json);
    if (args[0] == NULL) return CLI_DONE;
    if (!cli_model_params("info", &common, &params)) return CLI_FAILED; /* before anything is printed */
    here = common;
    here.backend = INFER_CPU;
    here.device = -1;
    here.devices = here.shares = NULL;
    model = cli_open("info", args[0], &here, 0);
    if (model == NULL) return CLI_FAILED;
    ok = check ? check_model(model, args[0], common.json) : print_model(model, args[0], &common, (int32_t)batch, full);
    cli_model_close(model);
    return ok ? CLI_DONE : CLI_FAILED;
}
