/* models.c: the models of a server: the one of the command line, or those of a folder, which are loaded when a request
 * first names them and unloaded, the least recently used first, when memory is needed for others. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *copy(const char *s, size_t n) {
    char *text = cli_alloc(serve_command, n + 1, 1);
    if (text == NULL) return NULL;
    memcpy(text, s, n);
    text[n] = 0;
    return text;
}

/* ---- loading -------------------------------------------------------------------------------- */

static int32_t cells_of(const serve_options *o, int32_t positions) {
    int64_t cells = o->cells ? o->cells : 4 * (int64_t)positions;
    return (int32_t)(cells < positions ? positions : cells > 1 << 24 ? 1 << 24 : cells);
}

static void queue_params(const serve_options *o, int32_t positions, infer_queue_params *p) {
    memset(p, 0, sizeof *p);
    cli_context_params(o->common, &p->context);
    p->positions = positions;
    p->context.cells = cells_of(o, positions);
    p->slots = (int32_t)o->slots;
    p->waiting = (int32_t)o->waiting;
    p->thread = 1;
}

/* Positions of a request: --ctx, 0 = all that the model was trained for; else the library's choice. */
static int32_t positions_of(const serve_options *o, const infer_model_info *info) {
    if (o->common->ctx_whole) return info->context > 0 ? info->context : 4096;
    if (o->common->ctx > 0) return (int32_t)o->common->ctx;
    return info->context > 0 && info->context < 4096 ? info->context : 4096;
}

/* Does the usual sampler do anything to the most likely token? */
static int is_plain(const infer_model *model) {
    infer_stage stages[INFER_STAGES_USUAL];
    infer_error err;
    int32_t i, n = 0;
    if (infer_sampler_usual(model, stages, INFER_STAGES_USUAL, &n, &err) != INFER_OK) return 0;
    for (i = 0; i < n; i++) {
        const infer_stage *s = &stages[i];
        if (s->kind == INFER_STAGE_PENALTY && (s->p[1] != 1 || s->p[2] != 0 || s->p[3] != 0)) return 0;
        if ((s->kind == INFER_STAGE_DRY || s->kind == INFER_STAGE_XTC) && s->p[0] != 0) return 0;
        if (s->kind == INFER_STAGE_MIROSTAT || s->kind == INFER_STAGE_MIROSTAT_2 || s->kind == INFER_STAGE_ADAPTIVE_P) return 0;
    }
    return 1;
}

/* The template and the format of replies that it teaches. */
static int read_template(const serve_options *o, served *m, char *why, size_t cap) {
    infer_chat_parser_params p;
    infer_chat_parser *parser = NULL;
    infer_error err;
    infer_meta meta;
    m->template_text = o->template_text;
    if (!m->template_text && infer_meta_value(m->model, "tokenizer.chat_template", &meta) == INFER_OK && meta.kind == INFER_META_STRING)
        m->template_text = copy(meta.s, (size_t)meta.n);
    if (m->template_text == NULL) return 1;
    memset(&p, 0, sizeof p);
    p.template_text = m->template_text;
    if (infer_chat_parser_create(&parser, m->model, &p, &err) != INFER_OK) {
        snprintf(why, cap, "%s", err.message);
        return 0;
    }
    snprintf(m->format, sizeof m->format, "%s", infer_chat_parser_format(parser));
    infer_chat_parser_destroy(parser);
    return 1;
}

/* What an open model has. */
static void drop(const serve_options *o, served *m) {
    infer_queue_destroy(m->queue);
    infer_context_destroy(m->texts);
    if (m->template_text != o->template_text) free((void *)m->template_text);
    cli_model_close(m->model);
    m->queue = NULL;
    m->texts = NULL;
    m->template_text = NULL;
    m->model = NULL;
}

/* models_lock is held, or there is one thread. */
static void unload(const serve_options *o, served *m) {
    drop(o, m);
    m->bytes = 0;
    m->state = MODEL_ABSENT;
}

/* What an open model needs besides: its queue. *bytes: what it takes. why: a message of `cap` bytes. */
static infer_result make_ready(const serve_options *o, served *m, uint64_t *bytes, char *why, size_t cap) {
    infer_queue_params p;
    infer_memory memory;
    infer_error err;
    infer_result r;
    infer_model_get_info(m->model, &m->info);
    if (!m->info.computes) {
        snprintf(why, cap, "%s", infer_model_why_not(m->model));
        return INFER_ERR_UNSUPPORTED;
    }
    m->positions = positions_of(o, &m->info);
    m->slots = (int32_t)o->slots;
    m->plain = is_plain(m->model);
    if (!read_template(o, m, why, cap)) return INFER_ERR_FORMAT;
    queue_params(o, m->positions, &p);
    r = infer_queue_create(&m->queue, m->model, &p, &err);
    if (r == INFER_ERR_UNSUPPORTED) {
        snprintf(m->why_no_queue, sizeof m->why_no_queue, "%s", err.message);
        m->queue = NULL;
        r = INFER_OK;
    }
    if (r != INFER_OK) snprintf(why, cap, "%s", err.message);
    else if (infer_model_memory(m->model, &p.context, &memory, &err) == INFER_OK)
        *bytes = memory.weights + m->projector_bytes + (m->queue ? memory.cache + memory.scratch : 0);
    return r;
}

/* The parameters for opening: the context that must fit beside layers on a GPU is the queue's. */
static int open_params(const serve_options *o, infer_model_params *params) {
    if (!cli_model_params(serve_command, o->common, params)) return 0;
    if (o->common->ctx > 0) params->fit.cells = cells_of(o, (int32_t)o->common->ctx);
    else if (o->cells) params->fit.cells = (int32_t)o->cells;
    params->fit.sessions = (int32_t)o->slots + 4;
    return 1;
}

/* The model of the command line, with whatever else its options name. */
static int open_single(server *s, served *m) {
    const serve_options *o = s->options;
    cli_common common = *o->common;
    char why[512] = "", found[PLATFORM_PATH];
    if (!o->no_projector && !common.projector && cli_projectors_beside(m->path, found, sizeof found) == 1) common.projector = found;
    if (common.projector) m->projector = copy(common.projector, strlen(common.projector));
    if (common.ctx > 0) common.ctx = cells_of(o, (int32_t)common.ctx);
    else if (o->cells) common.needs = o->cells;
    m->model = cli_open(serve_command, m->path, &common, 0);
    if (m->model == NULL) return 0;
    if (make_ready(o, m, &m->bytes, why, sizeof why) != INFER_OK) return cli_fail(serve_command, "%s: %s", m->path, why) == CLI_DONE;
    m->state = MODEL_READY;
    if (m->projector)
        fprintf(stderr, "infer %s: %s%s%s by %s\n", serve_command, m->info.images ? "pictures" : "", m->info.images && m->info.sounds ? " and " : "",
                m->info.sounds ? "sound" : "", m->projector);
    return 1;
}

/* ---- a folder ------------------------------------------------------------------------------- */

static served *add_model(server *s, const char *path, const char *id, size_t n_id) {
    served *m = cli_alloc(serve_command, 1, sizeof *m), **end = &s->models;
    if (m == NULL) return NULL;
    memset(m, 0, sizeof *m);
    m->path = copy(path, strlen(path));
    m->id = copy(id, n_id);
    m->created = (uint64_t)time(NULL);
    pthread_mutex_init(&m->texts_lock, NULL);
    while (*end) end = &(*end)->next;
    *end = m;
    s->n_models++;
    return m->path && m->id ? m : NULL;
}

/* The name without folder, ".gguf" and the number of the first of several files. */
static served *add_path(server *s, const char *path) {
    const char *base = cli_base_name(path), *parts = strstr(base, "-00001-of-");
    size_t n = strlen(base);
    if (n > 5 && cli_ends_with(base, ".gguf")) n -= 5;
    if (parts) n = (size_t)(parts - base);
    return add_model(s, path, base, n);
}

typedef struct listing {
    server *server;
    int failed;
} listing;

static int list_file(void *user, const char *name, int is_folder, uint64_t bytes) {
    listing *l = user;
    char path[PLATFORM_PATH];
    const char *parts = strstr(name, "-of-");
    (void)bytes;
    if (is_folder || !cli_ends_with(name, ".gguf") || name[0] == '.' || cli_projector_word(name)) return 1;
    if (parts && strstr(name, "-00001-of-") == NULL && parts - name > 5 && parts[-6] == '-') return 1; /* not the first part */
    if ((size_t)snprintf(path, sizeof path, "%s/%s", l->server->options->folder, name) >= sizeof path) return 1;
    l->failed |= add_path(l->server, path) == NULL;
    return !l->failed;
}

/* The part of a projector's name that those of its models begin with: NAME-mmproj.gguf, NAME-mmproj-F16.gguf, mmproj-NAME-F16.gguf. */
static const char *projector_key(const char *name, size_t *n) {
    static const char *const TYPES[] = {"f16", "F16", "bf16", "BF16", "f32", "F32", "q8_0", "Q8_0"};
    static const char BETWEEN[] = "-_.";
    const char *at = cli_projector_word(name), *key = name;
    size_t i, length;
    *n = (size_t)(at - name);
    if (at == name) {
        key = at + 6;
        if (*key && strchr(BETWEEN, *key)) key++;
        *n = strlen(key) < 5 ? 0 : strlen(key) - 5; /* without .gguf */
        for (i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
            length = strlen(TYPES[i]);
            if (*n >= length && memcmp(key + *n - length, TYPES[i], length) == 0 && (*n == length || strchr(BETWEEN, key[*n - length - 1]))) break;
        }
        if (i < sizeof TYPES / sizeof TYPES[0]) *n -= length;
    }
    while (*n && strchr(BETWEEN, key[*n - 1])) --*n;
    return key;
}

/* A projector of the folder is that of the models whose names begin as its own does; of several, the one that has more of the name. */
static int pair_projector(void *user, const char *name, int is_folder, uint64_t bytes) {
    listing *l = user;
    char path[PLATFORM_PATH];
    const char *key;
    served *m;
    size_t n;
    if (is_folder || name[0] == '.' || cli_projector_word(name) == NULL) return 1;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", l->server->options->folder, name) >= sizeof path) return 1;
    key = projector_key(name, &n);
    for (m = l->server->models; m && n; m = m->next) {
        if (strncmp(m->id, key, n) != 0 || n <= m->projector_key) continue;
        free(m->projector);
        m->projector = copy(path, strlen(path));
        m->projector_bytes = bytes;
        m->projector_key = n;
        l->failed |= m->projector == NULL;
    }
    return !l->failed;
}

/* In the order of names, whatever the folder's. */
static void sort_models(server *s) {
    served *sorted = NULL, *m, **at;
    while ((m = s->models) != NULL) {
        s->models = m->next;
        for (at = &sorted; *at && strcmp((*at)->id, m->id) < 0; at = &(*at)->next) {}
        m->next = *at;
        *at = m;
    }
    s->models = sorted;
}

int models_open(server *s) {
    const serve_options *o = s->options;
    listing l;
    if (o->model) {
        served *m = add_path(s, o->model);
        return m && open_single(s, m);
    }
    l.server = s;
    l.failed = 0;
    if (!platform_list(o->folder, list_file, &l)) return cli_fail(serve_command, "%s: no such folder", o->folder) == CLI_DONE;
    sort_models(s);
    if (!l.failed && !o->no_projector) platform_list(o->folder, pair_projector, &l);
    if (!l.failed && s->n_models == 0) return cli_fail(serve_command, "%s has no .gguf files", o->folder) == CLI_DONE;
    return !l.failed;
}

void models_close(server *s) {
    served *m;
    while ((m = s->models) != NULL) {
        s->models = m->next;
        unload(s->options, m);
        pthread_mutex_destroy(&m->texts_lock);
        free(m->id);
        free(m->path);
        free(m->projector);
        free(m);
    }
}

/* ---- use ------------------------------------------------------------------------------------ */

/* The name that an alias stands for: "NAME=ID", or "NAME" for the only model. */
static const char *resolve(const server *s, const char *name) {
    const cli_list *list = &s->options->aliases;
    size_t n = strlen(name);
    int i;
    for (i = 0; i < list->n; i++) {
        const char *alias = list->items[i], *equals = strchr(alias, '=');
        if (equals == NULL && s->options->model && (strcmp(alias, name) == 0 || strcmp(alias, "*") == 0)) return s->models->id;
        if (equals && (size_t)(equals - alias) == n && memcmp(alias, name, n) == 0) return equals + 1;
    }
    return name;
}

static served *find(server *s, const char *name, failure *f) {
    served *m;
    if (name == NULL || name[0] == 0) {
        if (s->n_models == 1) return s->models;
        fail(f, 400, "model_required", "model", "'model' is missing; this server has several (GET /v1/models)");
        return NULL;
    }
    name = resolve(s, name);
    for (m = s->models; m; m = m->next) {
        if (strcmp(m->id, name) == 0) return m;
    }
    if (s->n_models == 1)
        fail(f, 404, "model_not_found", "model", "there is no model '%.200s'; this server has '%.200s' (--alias gives it more names)", name,
             s->models->id);
    else fail(f, 404, "model_not_found", "model", "there is no model '%.200s' (GET /v1/models)", name);
    return NULL;
}

/* Unloads the model that was used longest ago; 0 = all are in use. models_lock is held. */
static int unload_oldest(server *s) {
    served *m, *oldest = NULL;
    for (m = s->models; m; m = m->next) {
        if (m->state == MODEL_READY && m->refs == 0 && (!oldest || m->used < oldest->used)) oldest = m;
    }
    if (oldest == NULL) return 0;
    unload(s->options, oldest);
    return 1;
}

static uint64_t loaded_bytes(const server *s) {
    const served *m;
    uint64_t bytes = 0;
    for (m = s->models; m; m = m->next) bytes += m->bytes;
    return bytes;
}

/* Without the folder, which is nobody's business. */
static int not_loaded(failure *f, int status, const char *why) {
    return fail(f, status, "model_not_loaded", "model", "the model cannot be loaded: %s", cli_base_name(why));
}

/* Makes room for a model below --max-memory; models_lock is held. Returns 0 after setting f. */
static int make_room(server *s, served *m, const infer_model_params *params, failure *f) {
    const uint64_t most = (uint64_t)s->options->common->max_memory;
    infer_context_params context;
    infer_memory memory;
    infer_error err;
    uint64_t need;
    cli_context_params(s->options->common, &context);
    context.cells = s->options->cells || s->options->common->ctx > 0 ? cells_of(s->options, (int32_t)s->options->common->ctx) : 4 * 4096;
    if (most == 0) return 1;
    if (infer_model_memory_path(m->path, params, &context, &memory, &err) != INFER_OK) return not_loaded(f, 500, err.message);
    need = memory.weights + memory.cache + memory.scratch + m->projector_bytes;
    if (need > most)
        return fail(f, 500, "model_too_large", "model", "the model needs %llu MiB of memory, and --max-memory is %llu MiB",
                    (unsigned long long)(need >> 20), (unsigned long long)(most >> 20));
    while (loaded_bytes(s) + need > most) {
        if (!unload_oldest(s)) {
            f->retry = 5;
            return fail(f, 503, "models_busy", "model", "the memory is taken by models that other requests use");
        }
    }
    m->bytes = need; /* from now on, for others that load meanwhile */
    return 1;
}

/* Opens a model of the folder. models_lock is not held; no other thread touches m. Returns 0 after setting f. */
static infer_result open_one(server *s, served *m, const infer_model_params *params, uint64_t *bytes, failure *f, int last) {
    infer_error err;
    char why[512] = "";
    infer_model_params own = *params;
    infer_result r = INFER_ERR_IO;
    snprintf(err.message, sizeof err.message, "its layers cannot be elsewhere");
    if (!cli_elsewhere || cli_elsewhere->open(serve_command, m->path, s->options->common, &own)) r = infer_model_open(&m->model, m->path, &own, &err);
    if (r != INFER_OK) {
        m->model = NULL;
        snprintf(why, sizeof why, "%s", err.message);
    } else r = make_ready(s->options, m, bytes, why, sizeof why);
    if (r == INFER_OK || (r == INFER_ERR_MEMORY && !last)) return r;
    not_loaded(f, r == INFER_ERR_MEMORY ? 503 : 500, why);
    return r;
}

/* models_lock is held, and again at the end. */
static int load(server *s, served *m, failure *f) {
    infer_model_params params;
    infer_result r;
    uint64_t bytes;
    int more = 1;
    if (!open_params(s->options, &params)) return fail(f, 500, NULL, NULL, "the server's options are wrong");
    params.max_memory = 0; /* counted over all models here */
    params.projector = m->projector;
    if (!make_room(s, m, &params, f)) return 0;
    m->state = MODEL_LOADING;
    bytes = m->bytes;
    do { /* without a limit given it is the machine's: others make room while there are any */
        pthread_mutex_unlock(&s->models_lock);
        r = open_one(s, m, &params, &bytes, f, !more);
        if (r != INFER_OK) drop(s->options, m);
        pthread_mutex_lock(&s->models_lock);
        if (r == INFER_ERR_MEMORY && more) more = unload_oldest(s);
        else break;
    } while (1);
    m->bytes = r == INFER_OK ? bytes : 0;
    m->state = r == INFER_OK ? MODEL_READY : MODEL_ABSENT;
    pthread_cond_broadcast(&s->models_changed);
    return r == INFER_OK;
}

served *models_take(server *s, const char *name, failure *f) {
    served *m = find(s, name, f);
    if (m == NULL) return NULL;
    pthread_mutex_lock(&s->models_lock);
    while (m->state == MODEL_LOADING) pthread_cond_wait(&s->models_changed, &s->models_lock);
    if (m->state == MODEL_ABSENT && !load(s, m, f)) m = NULL;
    if (m) {
        m->refs++;
        m->used = platform_clock();
    }
    pthread_mutex_unlock(&s->models_lock);
    return m;
}

const served *models_find(server *s, const char *name, failure *f) { return find(s, name, f); }

void models_release(server *s, served *m) {
    if (m == NULL) return;
    pthread_mutex_lock(&s->models_lock);
    m->refs--;
    m->used = platform_clock();
    pthread_mutex_unlock(&s->models_lock);
}
