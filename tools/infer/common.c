/* common.c: what most commands do: open a model as the options say, read files and ids, report failures, write
 * little-endian results. Every function that can fail says why in one line on stderr; callers only clean up. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int cli_fail(const char *command, const char *format, ...) {
    char text[1024];
    size_t i;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (i = 0; text[i]; i++) {
        if ((unsigned char)text[i] < 32) text[i] = ' '; /* names from a file may hold anything: keep it one line */
    }
    fprintf(stderr, "infer %s: %s\n", command, text);
    return CLI_FAILED;
}

/* ---- models --------------------------------------------------------------------------------- */

/* Errors (level 1) are reported by the call that failed; only -v repeats them. */
static void log_line(void *user, int level, const char *message) {
    static const char *const NAMES[] = {"", "error", "warning", "info", "debug"};
    const cli_common *common = user;
    if (level < 1 || level > 4) level = 4;
    if (common->verbose || level == 2) fprintf(stderr, "%s: %s\n", NAMES[level], message);
}

/* The level called `name`, or -1. */
static int32_t cpu_level(const char *name) {
    int32_t level;
    for (level = 1; level < 64; level++) {
        const char *s = infer_cpu_level_name(level, NULL);
        if (s && strcmp(s, name) == 0) return level;
    }
    return strcmp(name, "best") == 0 ? INFER_CPU_BEST : -1;
}

/* At most cap numbers that commas separate, to out; how many, or -1. */
static int number_list(const char *s, double *out, int cap) {
    int n = 0;
    char *end;
    for (; *s && n < cap; n++) {
        if (*s != '.' && (*s < '0' || *s > '9')) return -1;
        out[n] = strtod(s, &end);
        if (*end == ',' && end[1]) end++;
        else if (*end) return -1;
        s = end;
    }
    return *s ? -1 : n;
}

/* --devices and --shares. */
static int device_list(const char *command, const cli_common *common, infer_model_params *out) {
    double numbers[INFER_MAX_DEVICES], shares[INFER_MAX_DEVICES];
    int n = common->devices ? number_list(common->devices, numbers, INFER_MAX_DEVICES) : 0;
    int n_shares = common->shares ? number_list(common->shares, shares, INFER_MAX_DEVICES) : n, i;
    for (i = 0; i < n && n_shares == n; i++) {
        out->devices[i] = (int32_t)numbers[i];
        if (numbers[i] < 1 || numbers[i] > 1000 || numbers[i] != (int32_t)numbers[i]) n = -1;
        if (common->shares) out->shares[i] = (float)shares[i];
    }
    if (n >= 0 && n_shares == n && (n > 0 || !common->devices)) return 1;
    cli_fail(command, "--devices takes up to %d numbers of GPUs from `infer devices`, --shares as many", INFER_MAX_DEVICES);
    return 0;
}

int cli_model_params(const char *command, const cli_common *common, infer_model_params *out) {
    int32_t level = INFER_CPU_BEST;
    memset(out, 0, sizeof *out);
    if (common->cpu_level && (level = cpu_level(common->cpu_level)) < 0) {
        cli_fail(command, "unknown CPU level '%s'; `infer devices` lists them", common->cpu_level);
        return 0;
    }
    out->backend = (int32_t)common->backend;
    if (common->device == 0) {
        if (out->backend != INFER_AUTO && out->backend != INFER_CPU) {
            cli_fail(command, "device 0 is the CPU, and --backend is another");
            return 0;
        }
        out->backend = INFER_CPU;
    }
    out->device = common->device > 0 ? (int32_t)common->device : 0;
    if (!device_list(command, common, out)) return 0;
    out->gpu_layers = (int32_t)common->gpu_layers;
    out->gpu_unchecked = common->gpu_unchecked;
    cli_kernel_cache(common->kernel_cache, &out->cache);
    out->fit.cells = (int32_t)(common->ctx ? common->ctx : common->needs);
    out->fit.kv_type = (int32_t)common->kv;
    out->fit.batch = (int32_t)common->batch;
    out->fit.sessions = 1; /* see cli_session */
    out->cpu_level = level;
    out->exact = common->exact;
    out->mtp = common->mtp;
    out->preload = common->lock ? 2 : common->preload;
    out->no_mmap = common->no_mmap;
    out->allow_default_pre = common->pre == NULL; /* a name given by the user must be known */
    out->allow_unknown = common->allow_unknown;
    out->projector = common->projector;
    out->pre = common->pre;
    out->max_memory = (uint64_t)common->max_memory;
    out->log = log_line;
    out->log_user = (void *)common;
    return 1;
}

const cli_elsewhere_hooks *cli_elsewhere;

infer_model *cli_open(const char *command, const char *path, const cli_common *common, int vocab_only) {
    infer_model_params params;
    infer_model *model = NULL;
    infer_error err;
    infer_result result;
    cli_progress bar;
    char projector[PLATFORM_PATH];
    if (!cli_model_params(command, common, &params)) return NULL;
    params.vocab_only = vocab_only;
    if (common->media.n && !common->projector) {
        if (!cli_projector_find(command, path, projector, sizeof projector)) return NULL;
        params.projector = projector;
    }
    if (cli_elsewhere && !vocab_only && !cli_elsewhere->open(command, path, common, &params)) return NULL;
    cli_progress_begin(&bar, "loading");
    params.progress = cli_progress_show;
    params.progress_user = &bar;
    if (platform_path_kind(path) == PLATFORM_FOLDER) {
        result = cli_folder_open(command, path, &params, &model, &err);
    } else result = infer_model_open(&model, path, &params, &err);
    cli_progress_end(&bar);
    if (result == INFER_ERR_IO && err.message[0] == 0) return NULL; /* the folder's error was said */
    if (result != INFER_OK) {
        if (strstr(err.message, path)) cli_fail(command, "%s", err.message); /* it names the file itself */
        else cli_fail(command, "%s: %s", path, err.message);
        return NULL;
    }
    if (!cli_adapters_open(command, model, path, common)) {
        cli_model_close(model);
        return NULL;
    }
    return model;
}

void cli_context_params(const cli_common *common, infer_context_params *out) {
    memset(out, 0, sizeof *out);
    out->threads = (int32_t)common->threads;
    out->kv_type = (int32_t)common->kv;
    out->batch = (int32_t)common->batch;
    if (cli_elsewhere) cli_elsewhere->context(out);
}

int32_t cli_cells(const cli_common *common, const infer_model *model, size_t n) {
    infer_model_info info;
    int64_t cells = 4096;
    if (common->ctx > 0) return (int32_t)common->ctx;
    if (infer_model_get_info(model, &info) != INFER_OK) info.context = 0;
    if (info.context > 0 && (info.context < cells || common->ctx_whole)) cells = info.context;
    if (n > (size_t)cells) cells = n > INT32_MAX ? INT32_MAX : (int64_t)n;
    return (int32_t)cells;
}

cli_progress cli_prompt_bar;

/* adapters: those of the command line are for it. */
static int make_session(const char *command, infer_model *model, const infer_context_params *params, int32_t cells,
                        int adapters, infer_context **context, infer_session **session) {
    infer_context_params with_cells = *params;
    infer_session_params session_params;
    infer_error err;
    *context = NULL;
    *session = NULL;
    if (with_cells.cells < cells) with_cells.cells = cells;
    if (with_cells.sessions == 0) with_cells.sessions = 1;
    memset(&session_params, 0, sizeof session_params);
    session_params.context = cells;
    session_params.progress = cli_progress_show;
    session_params.progress_user = &cli_prompt_bar;
    if (infer_context_create(context, model, &with_cells, &err) == INFER_OK &&
        (!adapters || cli_adapters_use(*context, &err) == INFER_OK) &&
        infer_session_create_in(session, *context, &session_params, &err) == INFER_OK)
        return 1;
    cli_fail(command, "%s", err.message);
    infer_context_destroy(*context);
    *context = NULL;
    return 0;
}

int cli_session(const char *command, infer_model *model, const infer_context_params *params, int32_t cells,
                infer_context **context, infer_session **session) {
    return make_session(command, model, params, cells, 1, context, session);
}

int cli_session_plain(const char *command, infer_model *model, const infer_context_params *params, int32_t cells,
                      infer_context **context, infer_session **session) {
    return make_session(command, model, params, cells, 0, context, session);
}

int cli_drafter_open(const char *command, cli_drafter *d, const char *path, const cli_common *common,
                     const infer_context_params *params, int32_t cells) {
    cli_common its = *common;
    infer_model_info info;
    memset(d, 0, sizeof *d);
    if (path == NULL) return 1;
    its.loras.n = its.controls.n = its.merge = its.media.n = 0;
    its.projector = NULL;
    d->model = cli_open(command, path, &its, 0);
    if (d->model == NULL || infer_model_get_info(d->model, &info) != INFER_OK) return 0;
    if (!info.computes) return cli_fail(command, "%s: %s", path, infer_model_why_not(d->model)) == CLI_DONE;
    return cli_session_plain(command, d->model, params, cells, &d->context, &d->session);
}

void cli_drafter_close(cli_drafter *d) {
    infer_session_destroy(d->session);
    infer_context_destroy(d->context);
    cli_folder_close(d->model);
}

int cli_list_ids(const char *command, const char *option, const cli_list *list, infer_token **ids) {
    infer_token *one = NULL;
    size_t count = 0;
    int i;
    *ids = list->n ? cli_alloc(command, (size_t)list->n, sizeof **ids) : NULL;
    for (i = 0; *ids && i < list->n; i++) {
        if (!cli_parse_ids(command, option, list->items[i], strlen(list->items[i]), &one, &count)) break;
        if (count != 1) {
            free(one);
            cli_fail(command, "%s needs one id, not '%s'", option, list->items[i]);
            break;
        }
        (*ids)[i] = one[0];
        free(one);
    }
    if (i == list->n) return 1;
    free(*ids);
    *ids = NULL;
    return 0;
}

int cli_tokenize(const char *command, const infer_model *model, const char *text, size_t n, int32_t flags,
                 infer_token **ids, size_t *count) {
    infer_error err;
    size_t cap = n / 2 + 64; /* enough for most texts; the second round is exact */
    *ids = NULL;
    for (;;) {
        infer_token *grown = cli_grow(command, *ids, cap, sizeof **ids);
        if (grown == NULL) break;
        *ids = grown;
        if (infer_tokenize(model, text, n, flags, *ids, cap, count, &err) != INFER_OK) {
            cli_fail(command, "%s", err.message);
            break;
        }
        if (*count <= cap) return 1;
        cap = *count;
    }
    free(*ids);
    *ids = NULL;
    return 0;
}

char *cli_detokenize(const char *command, const infer_model *model, const infer_token *ids, size_t count, int32_t flags,
                     size_t *n) {
    infer_error err;
    size_t cap = count * 8 + 64; /* enough for most texts; the second round is exact */
    char *text = NULL;
    for (;;) {
        char *grown = cli_grow(command, text, cap, 1);
        if (grown == NULL) break;
        text = grown;
        if (infer_detokenize(model, ids, count, flags, text, cap, n, &err) != INFER_OK) {
            cli_fail(command, "%s", err.message);
            break;
        }
        if (*n <= cap) return text;
        cap = *n;
    }
    free(text);
    return NULL;
}

/* ---- Ctrl-C --------------------------------------------------------------------------------- */

static infer_session *volatile running; /* the session that Ctrl-C stops */
static volatile int interrupted;

static void on_interrupt(void) {
    interrupted = 1;
    if (running) infer_session_cancel(running);
}

void cli_catch_interrupts(void) { platform_on_interrupt(on_interrupt); }

void cli_run_begin(infer_session *session) {
    running = session;
    cli_progress_begin(&cli_prompt_bar, "prompt");
}

void cli_run_forget(void) { interrupted = 0; }

int cli_run_interrupted(void) { return interrupted; }

void cli_run_end(void) {
    cli_progress_end(&cli_prompt_bar);
    running = NULL;
}

/* ---- texts of options ----------------------------------------------------------------------- */

void cli_unescape(char *text) {
    static const char FROM[] = "nrt\\'\"", TO[] = "\n\r\t\\'\"";
    char *out = text;
    for (; *text; text++) {
        const char *found = *text == '\\' && text[1] ? strchr(FROM, text[1]) : NULL;
        if (found) text++;
        *out++ = found ? TO[found - FROM] : *text;
    }
    *out = 0;
}

char *cli_prompt(const char *command, const char *text, const char *path, int escapes, size_t *n) {
    char *data;
    if (path == NULL) {
        *n = strlen(text);
        data = cli_alloc(command, *n + 1, 1);
        if (data) memcpy(data, text, *n + 1);
    } else {
        data = cli_read_file(command, path, n);
    }
    if (data && strlen(data) != *n) {
        cli_fail(command, "%s holds a zero byte", path);
        free(data);
        return NULL;
    }
    if (data && escapes) {
        cli_unescape(data);
        *n = strlen(data);
    }
    return data;
}

/* ---- memory and files ----------------------------------------------------------------------- */

void *cli_grow(const char *command, void *p, size_t n, size_t size) {
    void *grown = NULL;
    if (size == 0 || n <= SIZE_MAX / 2 / size) grown = realloc(p, n > 0 && size > 0 ? n * size : 1);
    if (grown == NULL) cli_fail(command, "out of memory for %.0f bytes", (double)n * (double)size);
    return grown;
}

void *cli_alloc(const char *command, size_t n, size_t size) { return cli_grow(command, NULL, n, size); }

char *cli_read_file(const char *command, const char *path, size_t *n) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : platform_fopen(path, "rb");
    char *data = NULL;
    size_t cap = 1 << 16, got;
    int ok = 0;
    *n = 0;
    if (file == NULL) {
        cli_fail(command, "cannot open %s", path);
        return NULL;
    }
    for (;;) {
        char *grown = *n + 1 >= cap || data == NULL ? cli_grow(command, data, cap *= 2, 1) : data;
        if (grown == NULL) break;
        data = grown;
        got = fread(data + *n, 1, cap - *n - 1, file);
        *n += got;
        if (got == 0) {
            ok = !ferror(file);
            if (!ok) cli_fail(command, "cannot read %s", path);
            break;
        }
    }
    if (file != stdin) fclose(file);
    if (!ok) {
        free(data);
        return NULL;
    }
    data[*n] = 0;
    return data;
}

/* Texts that cannot be file names: several lines, JSON, a grammar rule, a template tag. */
static int is_text(const char *s) {
    const char first = s[strspn(s, " \t\r\n")];
    return first == '{' || first == '[' || strchr(s, '\n') || strstr(s, "::=") || strstr(s, "{{") || strstr(s, "{%");
}

char *cli_read_text(const char *command, const char *value, size_t *n, const char **name) {
    char *copy;
    *name = value[0] == '@' ? value + 1 : value;
    if (value[0] == '@' || !is_text(value)) return cli_read_file(command, *name, n);
    *name = "text";
    *n = strlen(value);
    copy = cli_alloc(command, *n + 1, 1);
    if (copy) memcpy(copy, value, *n + 1);
    return copy;
}

int cli_parse_ids(const char *command, const char *where, const char *text, size_t n, infer_token **ids,
                  size_t *count) {
    size_t i = 0, cap = 0;
    *ids = NULL;
    *count = 0;
    for (;;) {
        size_t start;
        int64_t x = 0;
        while (i < n && (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r'))) i++;
        if (i == n) return 1;
        start = i;
        while (i < n && text[i] >= '0' && text[i] <= '9' && x < INT32_MAX) x = x * 10 + (text[i++] - '0');
        if (i == start || x > INT32_MAX || (i < n && text[i] != ' ' && !(text[i] >= '\t' && text[i] <= '\r'))) {
            cli_fail(command, "%s: not an id at byte %lu", where, (unsigned long)start);
            break;
        }
        if (*count == cap) {
            infer_token *grown = cli_grow(command, *ids, cap = cap * 2 + 256, sizeof **ids);
            if (grown == NULL) break;
            *ids = grown;
        }
        (*ids)[(*count)++] = (infer_token)x;
    }
    free(*ids);
    *ids = NULL;
    return 0;
}

int cli_check_output(const char *command, const char *path, const char *const *inputs, size_t n) {
    size_t i;
    for (i = 0; i < n; i++)
        if (inputs[i] && strcmp(path, "-") != 0 && (strcmp(inputs[i], path) == 0 || platform_same_file(inputs[i], path)))
            return cli_usage_error(command, "%s is another file of this command: give another name", path) == CLI_DONE;
    return 1;
}

FILE *cli_create(const char *command, const char *path) {
    FILE *file = strcmp(path, "-") == 0 ? stdout : platform_fopen(path, "wb");
    if (file == NULL) cli_fail(command, "cannot write %s", path);
    return file;
}

int cli_close(const char *command, FILE *file, const char *path) {
    int ok = fflush(file) == 0 && !ferror(file);
    if (file != stdout && fclose(file) != 0) ok = 0;
    if (!ok) cli_fail(command, "cannot write %s: is there space left?", path);
    return ok;
}

static void store_u32(unsigned char *p, uint32_t x) {
    p[0] = (unsigned char)x;
    p[1] = (unsigned char)(x >> 8);
    p[2] = (unsigned char)(x >> 16);
    p[3] = (unsigned char)(x >> 24);
}

/* n 4-byte values, converted to little-endian. */
static int write_words(FILE *file, const void *x, size_t n) {
    unsigned char buffer[4096];
    const unsigned char *from = x;
    while (n > 0) {
        size_t i, k = n < sizeof buffer / 4 ? n : sizeof buffer / 4;
        for (i = 0; i < k; i++) {
            uint32_t word;
            memcpy(&word, from + 4 * i, 4);
            store_u32(buffer + 4 * i, word);
        }
        if (fwrite(buffer, 4, k, file) != k) return 0;
        from += 4 * k;
        n -= k;
    }
    return 1;
}

int cli_write_i32(FILE *file, const int32_t *x, size_t n) { return write_words(file, x, n); }

int cli_write_f32(FILE *file, const float *x, size_t n) { return write_words(file, x, n); }

/* ---- texts ---------------------------------------------------------------------------------- */

static const char *scaled(double n, double step, const char *const *units, char *out) {
    int u = 0;
    while (n >= step && units[u + 1]) {
        n /= step;
        u++;
    }
    snprintf(out, 32, u == 0 ? "%.0f %s" : n < 100 ? "%.2f %s" : "%.0f %s", n, units[u]);
    return out;
}

const char *cli_count_text(double n, char *out) {
    static const char *const UNITS[] = {"", "K", "M", "B", "T", NULL};
    return scaled(n, 1000, UNITS, out);
}

const char *cli_bytes_text(double n, char *out) {
    static const char *const UNITS[] = {"B", "KB", "MB", "GB", "TB", NULL};
    return scaled(n, 1000, UNITS, out);
}

int cli_ends_with(const char *s, const char *end) {
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

const char *cli_base_name(const char *path) {
    const char *base = path;
    for (; *path; path++) {
        if (*path == '/' || *path == '\\') base = path + 1;
    }
    return base;
}
