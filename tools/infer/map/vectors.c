/* vectors.c: --embed: lines as texts, many at a time. */
#include "map.h"

#include <string.h>

enum { TEXTS_MOST = 256 };

static const parameter TABLE[] = {
    SERVE_IGNORED("id"),
    SERVE_IGNORED("model"),
    {"text", PARAM_TEXT, PARAM_AT(content), 0, 0, NULL},
};

/* Texts that are embedded together. */
typedef struct batch {
    map *m;
    map_item *items[TEXTS_MOST];
    const char *texts[TEXTS_MOST];
    size_t lengths[TEXTS_MOST];
    int32_t counts[TEXTS_MOST], n;
    infer_result results[TEXTS_MOST];
    int tokens; /* a text has a vector for each token */
} batch;

static void add(batch *b, map_item *it) {
    failure *f = &it->call.failure;
    asked a;
    if (asked_read(&a, it->call.json, TABLE, sizeof TABLE / sizeof TABLE[0], NULL, f) && a.content == NULL) fail(f, 400, NULL, "text", "'text' is missing");
    if (!f->status) {
        b->items[b->n] = it;
        b->texts[b->n] = a.content;
        b->lengths[b->n++] = strlen(a.content);
    } else map_item_failed(it);
    asked_free(&a);
}

/* The library's messages begin with the number of the text, which is none of the input's. */
static void failed(map_item *it, const infer_error *error) {
    const char *s = error->message;
    if (strncmp(s, "text ", 5) == 0) {
        s += 5;
        s += strspn(s, "0123456789");
        fail(&it->call.failure, 400, NULL, NULL, "the text%s", s);
    } else fail_by(&it->call.failure, error->code, s);
    map_item_failed(it);
}

static int each(void *user, int32_t text, const float *v, int32_t rows, int32_t width, const infer_error *error) {
    batch *b = user;
    map_item *it = b->items[text];
    cli_text *t = &it->out;
    int32_t i, k;
    if (error->code != INFER_OK) {
        failed(it, error);
        return 0;
    }
    out(t, "{\"id\":");
    map_id(it, t);
    out(t, ",\"%s\":%s", b->tokens ? "embeddings" : "embedding", b->tokens ? "[" : "");
    for (i = 0; i < rows; i++) {
        out(t, i ? ",[" : "[");
        for (k = 0; k < width; k++) out(t, k ? ",%g" : "%g", (double)v[(size_t)i * (size_t)width + (size_t)k]);
        out(t, "]");
    }
    it->prompt = b->counts[text];
    out(t, "%s,\"usage\":{\"prompt_tokens\":%d}}\n", b->tokens ? "]" : "", (long long)it->prompt);
    map_item_answered(it);
    return 0;
}

static int progress(void *user, float done) {
    (void)done;
    return map_stopped(user) == 2;
}

static void embed(batch *b, infer_context *context) {
    infer_embed_params p;
    infer_error err;
    infer_result r;
    int32_t i;
    memset(&p, 0, sizeof p);
    p.prefix = cli_adapters_prefix();
    p.lengths = b->lengths;
    p.results = b->results;
    p.counts = b->counts;
    p.each = each;
    p.user = b;
    p.progress = progress;
    p.progress_user = b->m;
    r = infer_embed(context, b->texts, b->n, &p, NULL, &err);
    for (i = 0; i < b->n; i++) {
        if (b->items[i]->state != ITEM_RUNS) continue;
        if (r == INFER_CANCELLED) b->items[i]->state = ITEM_DROPPED;
        else failed(b->items[i], &err);
    }
}

static void embed_all(map *m, batch *b, infer_context *context) {
    map_item *it, *done;
    do {
        b->n = 0;
        for (it = map_next(m, 1, TEXTS_MOST, &done); it; it = map_next(m, 0, TEXTS_MOST, &done)) {
            if (map_item_add(m, it) && it->state == ITEM_RUNS) add(b, it);
        }
        if (b->n) embed(b, context);
        map_write(m);
        map_stopped(m);
    } while (!map_ended(m));
}

int map_vectors(map *m) {
    static batch b;
    infer_context *context = NULL;
    infer_model_info info;
    infer_model *model = cli_open(serve_command, m->serve.model, m->common, 0);
    int ok = model && cli_embed_context(serve_command, model, m->common, &context) && infer_model_get_info(model, &info) == INFER_OK;
    if (ok && infer_embed_width(model, NULL) <= 0) ok = cli_fail(serve_command, "%s gives no vectors", m->serve.model) == CLI_DONE;
    ok = ok && map_open_output(m);
    b.m = m;
    b.tokens = ok && info.pooling == INFER_POOL_NONE;
    if (ok) embed_all(m, &b, context);
    infer_context_destroy(context);
    cli_model_close(model);
    return ok;
}
