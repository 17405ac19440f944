/* args.c: options and --help, from tables.
 *
 * A command describes its options in an array of cli_option and names the groups of shared ones it takes. Options and
 * other words may be mixed; --name=value works; "--" ends the options. Every wrong usage is one line on stderr and
 * exit status 2. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARED = 24 + CLI_SAMPLING_OPTIONS };

static const char SHARED_BACKENDS[] = "auto|cpu|cuda|hip|opencl|metal"; /* in the order of infer_backend */
static const char SHARED_KV[] = "default|f32|f16|bf16|q8_0|q4_0";       /* in the order of infer_kv_type */

static cli_option option(const char *name, int kind, void *value, const char *arg, const char *help, int64_t lo,
                         int64_t hi) {
    cli_option o;
    o.name = name;
    o.kind = kind;
    o.value = value;
    o.arg = arg;
    o.help = help;
    o.lo = lo;
    o.hi = hi;
    return o;
}

/* The shared options of a command, written to out (MAX_SHARED). */
static int shared_options(int takes, cli_common *c, cli_option *out) {
    int n = 0;
    if (takes & TAKES_COMPUTE) {
        out[n++] = option("-t,--threads", OPT_INT, &c->threads, "N", "threads (default: one per core)", 1, 64);
        out[n++] = option("--exact", OPT_FLAG, &c->exact, NULL, "activations in F32 everywhere", 0, 0);
        out[n++] = option("--cpu-level", OPT_STRING, &c->cpu_level, "LEVEL",
                          "use no instructions beyond this level of `infer devices`", 0, 0);
        out[n++] = option("--preload", OPT_FLAG, &c->preload, NULL, "read all weights before anything else", 0, 0);
        out[n++] = option("--lock", OPT_FLAG, &c->lock, NULL, "the same, and keep the file in memory", 0, 0);
    }
    if (takes & TAKES_DEVICE) {
        out[n++] = option("--backend", OPT_CHOICE, &c->backend, SHARED_BACKENDS, "where to compute", 0, 0);
        out[n++] = option("--device", OPT_INT, &c->device, "N", "device, as `infer devices` numbers them", 0, 1000);
        out[n++] = option("--devices", OPT_STRING, &c->devices, "N,N,..", "several of one backend, in this order", 0, 0);
        out[n++] = option("--shares", OPT_STRING, &c->shares, "X,X,..",
                          "how --devices share the layers (default: by free memory)", 0, 0);
        out[n++] = option("--gpu-layers", OPT_INT, &c->gpu_layers, "N",
                          "layers on the GPU; 0 = none (default: as many as fit)", 0, 1000000);
        out[n++] = option("--gpu-unchecked", OPT_FLAG, &c->gpu_unchecked, NULL,
                          "do not check the GPU's kernels beside the CPU first", 0, 0);
        out[n++] = option("--kernel-cache", OPT_STRING, &c->kernel_cache, "DIR",
                          "keep compiled GPU kernels there (default: the user's caches; '' = nowhere)", 0, 0);
    }
    if (takes & TAKES_CONTEXT) {
        out[n++] = option("--ctx", OPT_INT, &c->ctx, "N", "positions in the context", 1, INT32_MAX);
        out[n++] = option("--kv", OPT_CHOICE, &c->kv, SHARED_KV, "how keys and values are stored (default: f16)", 0, 0);
    }
    if (takes & TAKES_ADAPTERS) {
        out[n++] = option("--lora", OPT_LIST, &c->loras, "FILE[=SCALE]", "use this adapter (several)", 0, 0);
        out[n++] = option("--merge", OPT_FLAG, &c->merge, NULL,
                          "put --lora into the weights: takes memory, and no time afterwards (CPU)", 0, 0);
        out[n++] = option("--control", OPT_LIST, &c->controls, "FILE[=SCALE][,FIRST-LAST]",
                          "add this control vector, after these layers", 0, 0);
    }
    if (takes & TAKES_SAMPLING) n += cli_sampling_options(&c->sampling, out + n);
    if (takes & TAKES_SEED) {
        out[n++] = option("--seed", OPT_INT, &c->seed, "N", "seed of the random numbers", 0, INT64_MAX);
    }
    if (takes & TAKES_MODEL) {
        out[n++] = option("--pre", OPT_STRING, &c->pre, "NAME", "pre-tokenizer, in place of the file's", 0, 0);
        out[n++] = option("--allow-unknown", OPT_FLAG, &c->allow_unknown, NULL,
                          "go on without keys and tensors of unknown use", 0, 0);
        out[n++] = option("--max-memory", OPT_INT, &c->max_memory, "BYTES", "fail rather than use more", 1, INT64_MAX);
        out[n++] = option("-v,--verbose", OPT_FLAG, &c->verbose, NULL, "log to stderr", 0, 0);
    }
    if (takes & TAKES_JSON) {
        out[n++] = option("--json", OPT_FLAG, &c->json, NULL, "machine-readable result on stdout", 0, 0);
    }
    return n;
}

/* Does one of the spellings in o->name equal the n bytes at word? */
static int option_is(const cli_option *o, const char *word, size_t n) {
    const char *s = o->name;
    while (*s) {
        const char *end = strchr(s, ',');
        size_t len = end ? (size_t)(end - s) : strlen(s);
        if (len == n && memcmp(s, word, n) == 0) return 1;
        s += len + (end ? 1 : 0);
    }
    return 0;
}

static const cli_option *find_option(const cli_option *list, int n_list, const char *word, size_t n) {
    int i;
    for (i = 0; i < n_list; i++) {
        if (option_is(&list[i], word, n)) return &list[i];
    }
    return NULL;
}

static int parse_choice(const char *words, const char *text) {
    size_t n = strlen(text);
    int index = 0;
    while (*words) {
        const char *end = strchr(words, '|');
        size_t len = end ? (size_t)(end - words) : strlen(words);
        if (len == n && memcmp(words, text, n) == 0) return index;
        words += len + (end ? 1 : 0);
        index++;
    }
    return -1;
}

/* Store one option's value. Returns 0 after saying what is wrong. */
static int set_option(const char *command, const cli_option *o, const char *name, const char *text) {
    char *end = NULL;
    if (o->kind == OPT_STRING) {
        *(const char **)o->value = text;
    } else if (o->kind == OPT_LIST) {
        cli_list *list = o->value;
        const char **items = cli_grow(command, (void *)list->items, (size_t)list->n + 1, sizeof *items);
        if (items == NULL) return 0;
        items[list->n++] = text;
        list->items = items;
    } else if (o->kind == OPT_CHOICE) {
        int k = parse_choice(o->arg, text);
        if (k < 0) {
            cli_usage_error(command, "%s is one of %s, not '%s'", name, o->arg, text);
            return 0;
        }
        *(int64_t *)o->value = k;
    } else if (o->kind == OPT_FLOAT) {
        double x = strtod(text, &end);
        if (end == text || *end != 0 || !(x >= -1e30 && x <= 1e30)) {
            cli_usage_error(command, "%s needs a number, not '%s'", name, text);
            return 0;
        }
        *(double *)o->value = x;
    } else {
        int64_t hi = o->lo == 0 && o->hi == 0 ? INT64_MAX : o->hi;
        long long x;
        errno = 0;
        x = strtoll(text, &end, 10);
        if (end == text || *end != 0 || errno != 0 || x < o->lo || x > hi) {
            cli_usage_error(command, "%s needs a whole number, %lld or more%s, not '%s'", name, (long long)o->lo,
                            end != text && *end == 0 && x > hi ? " and not as much" : "", text);
            return 0;
        }
        *(int64_t *)o->value = x;
    }
    return 1;
}

static void print_options(const cli_option *list, int n) {
    int i;
    for (i = 0; i < n; i++) {
        char head[96];
        const char *comma = strchr(list[i].name, ',');
        int first = comma ? (int)(comma - list[i].name) : (int)strlen(list[i].name);
        snprintf(head, sizeof head, "%.*s%s%s%s%s", first, list[i].name, comma ? ", " : "", comma ? comma + 1 : "",
                 list[i].arg ? " " : "", list[i].arg ? list[i].arg : "");
        if (strlen(head) > 26)
            printf("  %s\n  %-26s  %s\n", head, "", list[i].help);
        else
            printf("  %-26s  %s\n", head, list[i].help);
    }
}

static void print_help(const cli_spec *spec, const cli_option *shared, int n_shared) {
    printf("usage: infer %s %s\n\n%s", spec->command, spec->usage, spec->about);
    if (spec->n_options + n_shared > 0) printf("\noptions:\n");
    print_options(spec->options, spec->n_options);
    print_options(shared, n_shared);
}

static int is_option(const char *word) { return word[0] == '-' && word[1] != 0; }

/* One option at argv[*i], which may use the next word too. Returns 0 after saying what is wrong. */
static int take_option(const cli_spec *spec, const cli_option *shared, int n_shared, int argc, char **argv, int *i) {
    const char *word = argv[*i];
    const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    const char *text = equals ? equals + 1 : NULL;
    const cli_option *o = find_option(spec->options, spec->n_options, word, n);
    char name[64];
    if (o == NULL) o = find_option(shared, n_shared, word, n);
    snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), word);
    if (o == NULL) {
        cli_usage_error(spec->command, "there is no option %s", name);
        return 0;
    }
    if (o->kind == OPT_FLAG) {
        if (text) {
            cli_usage_error(spec->command, "%s takes no value", name);
            return 0;
        }
        *(int *)o->value = 1;
        return 1;
    }
    if (text == NULL) {
        if (*i + 1 >= argc) {
            cli_usage_error(spec->command, "%s needs a value", name);
            return 0;
        }
        text = argv[++*i];
    }
    return set_option(spec->command, o, name, text);
}

int cli_parse(const cli_spec *spec, int argc, char **argv, cli_common *common, const char **args, int *status) {
    cli_option shared[MAX_SHARED];
    int n_shared, i, n_args = 0, options_end = 0;
    memset(common, 0, sizeof *common);
    common->device = -1;
    common->gpu_layers = -1;
    common->seed = -1;
    n_shared = shared_options(spec->takes, common, shared);
    *status = CLI_USAGE;
    for (i = 0; i < spec->n_args_max; i++) args[i] = NULL;
    for (i = 0; i < argc; i++) {
        if (!options_end && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            print_help(spec, shared, n_shared);
            *status = CLI_DONE;
            return 0;
        }
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = 1;
        } else if (!options_end && is_option(argv[i])) {
            if (!take_option(spec, shared, n_shared, argc, argv, &i)) return 0;
        } else {
            if (n_args == spec->n_args_max) {
                cli_usage_error(spec->command, "there is one word too many: '%s'", argv[i]);
                return 0;
            }
            args[n_args++] = argv[i];
        }
    }
    if (n_args < spec->n_args_min) {
        cli_usage_error(spec->command, "usage: infer %s %s", spec->command, spec->usage);
        return 0;
    }
    if ((spec->takes & TAKES_SAMPLING) && !cli_sampling_check(spec->command, &common->sampling)) return 0;
    common->seed_given = common->seed >= 0;
    if (!common->seed_given) common->seed = 0;
    *status = CLI_DONE;
    return 1;
}

int cli_usage_error(const char *command, const char *format, ...) {
    va_list list;
    fprintf(stderr, "infer %s: ", command);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, " (infer %s --help)\n", command);
    return CLI_USAGE;
}
