/* embeddings.c: POST /v1/embeddings and /v1/rerank: vectors and scores of texts.
 *
 * A model has one context for them. The request that gets it takes those that wait for vectors of the same kind along: their texts go
 * through the model side by side, and a text's vector does not depend on the others. */
#include "../serve.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXTS = 2048 };

/* The texts of a request. */
typedef struct texts {
    call *call;
    served *model;
    const char **texts;
    size_t *lengths;
    const infer_token **ids; /* NULL = texts */
    size_t *n_ids;
    size_t n;
    int32_t *counts; /* tokens of each */
    double looked;
    infer_embed_params p;
    float *vectors;
    int32_t width;
    int done;
    infer_result result;
    infer_error error;
    struct texts *next; /* models_lock: in the model's `asking`; else of a batch */
} texts;

static void texts_free(texts *t) {
    size_t i;
    for (i = 0; t->ids && i < t->n; i++) free((void *)t->ids[i]);
    free((void *)t->ids);
    free(t->vectors);
    free(t->counts);
    free(t->n_ids);
    free((void *)t->texts);
    free(t->lengths);
}

static int no_memory(texts *t) { return fail(&t->call->failure, 503, NULL, NULL, "out of memory"); }

/* Clients that have all gone end the work. */
static int look(void *user, float done) {
    texts *t = user;
    const double now = platform_clock();
    (void)done;
    if (t->call->server->abort) return 1;
    if (now - t->looked < 0.2) return 0;
    t->looked = now;
    while (t && !call_alive(t->call)) t = t->next;
    return t == NULL;
}

static const char WHAT[] = "a text, a list of texts, a list of tokens or a list of such lists";

static int take_ids(texts *t, size_t i, const infer_json *list, const char *param) {
    infer_token *ids;
    const int ok = json_tokens(list, t->model->info.vocab, &ids, &t->n_ids[i], param, WHAT, &t->call->failure);
    t->ids[i] = ids;
    return ok && (t->n_ids[i] > 0 || fail(&t->call->failure, 400, NULL, param, "'%s' has an empty list", param));
}

/* A text; or an object that has one, as some clients send documents. */
static const char *text_of(const infer_json *v, size_t *n) {
    const char *s = infer_json_string(v, n);
    return s ? s : infer_json_string(infer_json_get(v, "text"), n);
}

static int take(texts *t, const infer_json *given, const char *param) {
    const infer_json *first = infer_json_at(given, 0);
    const int list = infer_json_kind(given) == INFER_JSON_ARRAY && infer_json_kind(first) != INFER_JSON_INT;
    const int tokens =
        infer_json_kind(given) == INFER_JSON_ARRAY && (infer_json_kind(first) == INFER_JSON_INT || infer_json_kind(first) == INFER_JSON_ARRAY);
    const size_t n = list ? infer_json_count(given) : 1;
    size_t i;
    if (given == NULL) return fail(&t->call->failure, 400, NULL, param, "'%s' is missing", param);
    if (n == 0 || n > MAX_TEXTS) return fail(&t->call->failure, 400, NULL, param, "'%s' must have 1 to %d texts", param, (int)MAX_TEXTS);
    t->texts = calloc(n, sizeof *t->texts);
    t->lengths = calloc(n, sizeof *t->lengths);
    t->n_ids = calloc(n, sizeof *t->n_ids);
    t->counts = calloc(n, sizeof *t->counts);
    if (tokens) t->ids = calloc(n, sizeof *t->ids);
    t->n = n;
    if (!t->texts || !t->lengths || !t->n_ids || !t->counts || (tokens && !t->ids)) return no_memory(t);
    for (i = 0; i < n; i++) {
        const infer_json *one = list ? infer_json_at(given, i) : given;
        if (tokens ? !take_ids(t, i, one, param) : (t->texts[i] = text_of(one, &t->lengths[i])) == NULL)
            return fail(&t->call->failure, 400, "invalid_type", param, "'%s' must be %s", param, WHAT);
        if (!tokens && t->lengths[i] == 0) return fail(&t->call->failure, 400, NULL, param, "'%s' has an empty text", param);
    }
    return 1;
}

/* Tokens of the request, for its usage. */
static long long count_tokens(const texts *t) {
    long long all = 0;
    size_t i;
    for (i = 0; i < t->n; i++) all += t->counts[i];
    return all;
}

static void texts_begin(texts *t, call *c, served *m) {
    memset(t, 0, sizeof *t);
    t->call = c;
    t->model = m;
    t->looked = platform_clock();
}

static void texts_params(texts *t) {
    t->p.lengths = t->ids ? NULL : t->lengths;
    t->p.ids = t->ids;
    t->p.n_ids = t->ids ? t->n_ids : NULL;
    t->p.counts = t->counts;
    t->p.progress = look;
    t->p.progress_user = t;
}

/* ---- vectors -------------------------------------------------------------------------------- */

static const parameter EMBEDDINGS[] = {
    SERVE_PARAM_MODEL,
    {"input", PARAM_ANY, PARAM_AT(input), 0, 0, NULL},
    {"encoding_format", PARAM_TEXT, PARAM_AT(format), 0, 0, NULL},
    {"dimensions", PARAM_INT, PARAM_AT(dimensions), 1, 1e6, NULL},
    {"user", PARAM_IGNORED, 0, 0, 0, NULL},
};

static void write_base64(cli_text *t, const unsigned char *s, size_t n) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char four[4];
    size_t i;
    for (i = 0; i < n; i += 3) {
        const uint32_t x = (uint32_t)s[i] << 16 | (i + 1 < n ? (uint32_t)s[i + 1] << 8 : 0) | (i + 2 < n ? s[i + 2] : 0);
        four[0] = DIGITS[x >> 18];
        four[1] = DIGITS[x >> 12 & 63];
        four[2] = i + 1 < n ? DIGITS[x >> 6 & 63] : '=';
        four[3] = i + 2 < n ? DIGITS[x & 63] : '=';
        cli_text_put("serve", t, four, 4);
    }
}

/* Little-endian float32, as OpenAI's clients read it. */
static void write_floats(cli_text *t, const float *v, int32_t width) {
    unsigned char *bytes = cli_alloc("serve", (size_t)width, 4);
    int32_t i, k;
    for (i = 0; bytes && i < width; i++) {
        uint32_t u;
        memcpy(&u, &v[i], 4);
        for (k = 0; k < 4; k++) bytes[4 * i + k] = (unsigned char)(u >> 8 * k);
    }
    if (bytes) write_base64(t, bytes, 4 * (size_t)width);
    else t->failed = 1;
    free(bytes);
}

static void write_vector(cli_text *t, const float *v, int32_t width, int base64) {
    int32_t i;
    out(t, base64 ? "\"" : "[");
    if (base64) write_floats(t, v, width);
    for (i = 0; !base64 && i < width; i++) out(t, i ? ",%g" : "%g", (double)v[i]);
    out(t, base64 ? "\"" : "]");
}

/* ---- the model's context for them ------------------------------------------------------------ */

static void texts_join(texts **list, texts *t) {
    while (*list) list = &(*list)->next;
    t->next = NULL;
    *list = t;
}

static void texts_leave(texts **list, texts *t) {
    while (*list && *list != t) list = &(*list)->next;
    if (*list) *list = t->next;
    t->next = NULL;
}

int models_texts(server *s, served *m, struct texts *t, failure *f) {
    infer_context_params params;
    infer_error err;
    int busy;
    pthread_mutex_lock(&s->models_lock);
    busy = m->texts_waiting >= s->options->waiting;
    m->texts_waiting += !busy;
    if (!busy && t) texts_join(&m->asking, t);
    pthread_mutex_unlock(&s->models_lock);
    if (busy) {
        f->retry = 1;
        return fail(f, 429, "rate_limit_exceeded", NULL, "too many requests wait");
    }
    pthread_mutex_lock(&m->texts_lock);
    if (m->texts) return 1;
    cli_context_params(s->options->common, &params);
    params.cells = m->positions;
    if (infer_context_create(&m->texts, m->model, &params, &err) == INFER_OK && cli_adapters_use(m->texts, &err) == INFER_OK) return 1;
    infer_context_destroy(m->texts);
    m->texts = NULL;
    pthread_mutex_lock(&s->models_lock);
    if (t) texts_leave(&m->asking, t);
    pthread_mutex_unlock(&s->models_lock);
    models_texts_done(s, m);
    return fail_by(f, err.code, err.message);
}

void models_texts_done(server *s, served *m) {
    pthread_mutex_unlock(&m->texts_lock);
    pthread_mutex_lock(&s->models_lock);
    m->texts_waiting--;
    pthread_mutex_unlock(&s->models_lock);
}

/* One request alone. */
static void make_vectors(texts *t) {
    t->next = NULL;
    t->result = infer_embed(t->model->texts, t->ids ? NULL : t->texts, (int32_t)t->n, &t->p, t->vectors, &t->error);
    t->done = 1;
}

/* The n texts of all requests in one call. Returns 0 when there is no memory for it. */
static int make_together(texts *first, size_t n) {
    infer_embed_params p = first->p;
    const size_t width = (size_t)first->width;
    float *vectors = cli_alloc("serve", n * width, sizeof *vectors);
    const char **all = calloc(n, sizeof *all);
    size_t *lengths = calloc(n, sizeof *lengths), *n_ids = calloc(n, sizeof *n_ids), at = 0, i;
    const infer_token **ids = calloc(n, sizeof *ids);
    infer_result *results = calloc(n, sizeof *results);
    int32_t *counts = calloc(n, sizeof *counts);
    texts *t, *next;
    const int ok = vectors && all && lengths && n_ids && ids && results && counts;
    infer_result r = INFER_OK;
    infer_error err;
    for (t = first; ok && t; t = t->next) {
        for (i = 0; i < t->n; i++, at++) {
            all[at] = t->texts[i];
            lengths[at] = t->lengths[i];
            n_ids[at] = t->n_ids[i];
            ids[at] = t->ids ? t->ids[i] : NULL;
        }
    }
    p.lengths = first->ids ? NULL : lengths;
    p.ids = first->ids ? ids : NULL;
    p.n_ids = first->ids ? n_ids : NULL;
    p.counts = counts;
    p.results = results;
    p.progress_user = first;
    if (ok) r = infer_embed(first->model->texts, first->ids ? NULL : all, (int32_t)n, &p, vectors, &err);
    for (t = first, at = 0; ok && t; at += t->n, t = next) {
        next = t->next;
        t->done = 1;
        for (i = 0; i < t->n && results[at + i] == INFER_OK; i++) {}
        if (r == INFER_CANCELLED) {
            t->result = r;
            t->error = err;
        } else if (r != INFER_OK || i < t->n) make_vectors(t); /* for its own error */
        else {
            memcpy(t->vectors, vectors + at * width, t->n * width * sizeof *vectors);
            memcpy(t->counts, counts + at, t->n * sizeof *counts);
        }
    }
    free(vectors);
    free((void *)all);
    free(lengths);
    free(n_ids);
    free((void *)ids);
    free(results);
    free(counts);
    return ok;
}

/* The vectors of t, and of those that wait for the same kind. The model's context is locked. */
static void make_waiting(texts *t) {
    server *s = t->call->server;
    texts *batch = NULL, *x, *next;
    size_t n = 0;
    if (t->done) return; /* by another request */
    pthread_mutex_lock(&s->models_lock);
    texts_leave(&t->model->asking, t);
    texts_join(&batch, t);
    n = t->n;
    for (x = t->model->asking; x; x = next) {
        next = x->next;
        if (n + x->n > MAX_TEXTS || !x->ids != !t->ids || x->p.dimensions != t->p.dimensions) continue;
        n += x->n;
        texts_leave(&t->model->asking, x);
        texts_join(&batch, x);
    }
    pthread_mutex_unlock(&s->models_lock);
    if (batch->next && make_together(batch, n)) return;
    for (x = batch; x; x = next) {
        next = x->next;
        make_vectors(x);
    }
}

static void embed(texts *t, const asked *a, int base64) {
    call *c = t->call;
    int32_t width;
    size_t i;
    long long tokens;
    texts_params(t);
    t->p.dimensions = a->dimensions > 0 ? (int32_t)a->dimensions : 0;
    t->p.prefix = cli_adapters_prefix();
    width = infer_embed_width(t->model->model, &t->p);
    if (width <= 0 || t->model->info.pooling == INFER_POOL_RANK || t->model->info.pooling == INFER_POOL_NONE) {
        fail(&c->failure, 400, "unsupported", "model", "the model has no vectors of texts%s", a->dimensions > 0 ? " of so many dimensions" : "");
        return;
    }
    t->width = width;
    t->vectors = cli_alloc("serve", t->n * (size_t)width, sizeof *t->vectors);
    if (t->vectors == NULL) {
        no_memory(t);
        return;
    }
    if (models_texts(c->server, t->model, t, &c->failure)) {
        make_waiting(t);
        models_texts_done(c->server, t->model);
        if (t->result != INFER_OK) fail_by(&c->failure, t->result, t->error.message);
    }
    if (!c->failure.status) {
        tokens = count_tokens(t);
        out(&c->out, "{\"object\":\"list\",\"data\":[");
        for (i = 0; i < t->n; i++) {
            out(&c->out, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i ? "," : "", (long long)i);
            write_vector(&c->out, t->vectors + i * (size_t)width, width, base64);
            out(&c->out, "}");
        }
        out(&c->out, "],\"model\":%j,\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}}", t->model->id, tokens, tokens);
    }
}

void route_embeddings(call *c) {
    asked a;
    texts t;
    served *m = NULL;
    int base64 = 0;
    if (asked_read(&a, c->json, EMBEDDINGS, sizeof EMBEDDINGS / sizeof EMBEDDINGS[0], NULL, &c->failure)) {
        base64 = a.format && strcmp(a.format, "base64") == 0;
        if (a.format && !base64 && strcmp(a.format, "float") != 0)
            fail(&c->failure, 400, NULL, "encoding_format", "'encoding_format' must be float or base64");
        else m = models_take(c->server, a.model, &c->failure);
    }
    texts_begin(&t, c, m);
    if (m && take(&t, a.input, "input")) embed(&t, &a, base64);
    texts_free(&t);
    models_release(c->server, m);
    asked_free(&a);
}

/* ---- scores --------------------------------------------------------------------------------- */

static const parameter RERANK[] = {
    SERVE_PARAM_MODEL,
    {"query", PARAM_TEXT, PARAM_AT(query), 0, 0, NULL},
    {"documents", PARAM_LIST, PARAM_AT(documents), 0, 0, NULL},
    {"top_n", PARAM_INT, PARAM_AT(top_n), 1, 1e9, NULL},
    {"return_documents", PARAM_FLAG, PARAM_AT(return_documents), 0, 0, NULL},
    {"instruction", PARAM_TEXT, PARAM_AT(instructions), 0, 0, NULL},
    {"user", PARAM_IGNORED, 0, 0, 0, NULL},
};

typedef struct ranked { float score; size_t text; } ranked;

static int better(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->text < y->text ? -1 : x->text > y->text;
}

static void write_ranked(const texts *t, const asked *a, const float *scores, ranked *r) {
    call *c = t->call;
    size_t i, n = a->top_n > 0 && (size_t)a->top_n < t->n ? (size_t)a->top_n : t->n;
    const long long tokens = count_tokens(t);
    for (i = 0; i < t->n; i++) {
        r[i].score = scores[i];
        r[i].text = i;
    }
    qsort(r, t->n, sizeof *r, better);
    out(&c->out, "{\"object\":\"list\",\"model\":%j,\"results\":[", t->model->id);
    for (i = 0; i < n; i++) {
        out(&c->out, "%s{\"index\":%d,\"relevance_score\":%g", i ? "," : "", (long long)r[i].text, (double)r[i].score);
        if (a->return_documents) out(&c->out, ",\"document\":{\"text\":%J}", t->texts[r[i].text], t->lengths[r[i].text]);
        out(&c->out, "}");
    }
    out(&c->out, "],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d}}", tokens, tokens);
}

static void rerank(texts *t, const asked *a) {
    call *c = t->call;
    infer_error err;
    infer_result r;
    float *scores;
    ranked *order;
    if (t->ids) {
        fail(&c->failure, 400, "invalid_type", "documents", "'documents' must be a list of texts");
        return;
    }
    texts_params(t);
    t->p.prefix = a->instructions;
    scores = cli_alloc("serve", t->n, sizeof *scores);
    order = cli_alloc("serve", t->n, sizeof *order);
    if (!scores || !order) no_memory(t);
    else if (models_texts(c->server, t->model, NULL, &c->failure)) {
        r = infer_rerank(t->model->texts, a->query, t->texts, (int32_t)t->n, &t->p, scores, &err);
        models_texts_done(c->server, t->model);
        if (r != INFER_OK) fail_by(&c->failure, r, err.message);
        else write_ranked(t, a, scores, order);
    }
    free(scores);
    free(order);
}

void route_rerank(call *c) {
    asked a;
    texts t;
    served *m = NULL;
    if (asked_read(&a, c->json, RERANK, sizeof RERANK / sizeof RERANK[0], NULL, &c->failure)) {
        if (a.query == NULL) fail(&c->failure, 400, NULL, "query", "'query' is missing");
        else m = models_take(c->server, a.model, &c->failure);
    }
    texts_begin(&t, c, m);
    if (m && take(&t, a.documents, "documents")) rerank(&t, &a);
    texts_free(&t);
    models_release(c->server, m);
    asked_free(&a);
}
