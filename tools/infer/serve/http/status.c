/* status.c: what the server has and does: /health, /v1/models, /props, /slots, /metrics. */
#include "../serve.h"

#include <string.h>

void route_health(call *c) { out(&c->out, "{\"status\":\"ok\"}"); }

/* m: what the id stands for; NULL = nothing. What it can do is known when it is loaded. models_lock is held. */
static void write_model(cli_text *t, const char *id, size_t n, uint64_t created, const served *m) {
    out(t, "{\"id\":%J,\"object\":\"model\",\"created\":%d,\"owned_by\":\"infer\"", id, n, (long long)created);
    if (m && m->state == MODEL_READY)
        out(t, ",\"capabilities\":[%s%s]", m->queue ? "\"completion\"" : "\"embedding\"", m->info.images || m->info.sounds ? ",\"multimodal\"" : "");
    out(t, "}");
}

void route_models(call *c) {
    const served *m;
    const cli_list *aliases = &c->server->options->aliases;
    int i;
    pthread_mutex_lock(&c->server->models_lock);
    out(&c->out, "{\"object\":\"list\",\"data\":[");
    for (m = c->server->models; m; m = m->next) {
        if (m != c->server->models) out(&c->out, ",");
        write_model(&c->out, m->id, strlen(m->id), m->created, m);
    }
    for (i = 0; i < aliases->n; i++) {
        const size_t n = strcspn(aliases->items[i], "=");
        if (strcmp(aliases->items[i], "*") == 0) continue;
        out(&c->out, ",");
        for (m = c->server->models; m && aliases->items[i][n] && strcmp(m->id, aliases->items[i] + n + 1) != 0; m = m->next) {}
        write_model(&c->out, aliases->items[i], n, c->server->models->created, m);
    }
    out(&c->out, "]}");
    pthread_mutex_unlock(&c->server->models_lock);
}

void route_model(call *c) {
    const served *m = models_find(c->server, c->rest, &c->failure);
    if (m == NULL) return;
    pthread_mutex_lock(&c->server->models_lock);
    write_model(&c->out, m->id, strlen(m->id), m->created, m);
    pthread_mutex_unlock(&c->server->models_lock);
}

/* What a page needs to know of a model (?model=ID). */
void route_props(call *c) {
    served *m = models_take(c->server, call_argument(c, "model"), &c->failure);
    if (m == NULL) return;
    out(&c->out,
        "{\"model\":%j,\"context\":%d,\"slots\":%d,\"chat\":%b,\"generates\":%b,\"format\":%j,\"embedding\":%d,\"labels\":%d,\"parameters\":%d,"
        "\"quant\":%j,\"arch\":%j,\"modalities\":{\"vision\":%b,\"audio\":%b}}",
        m->id, (long long)m->positions, (long long)m->slots, m->queue && (m->template_text || c->server->options->chatml), m->queue != NULL,
        m->format, (long long)m->info.embedding, (long long)m->info.labels, (long long)m->info.parameters, m->info.quant, m->info.arch, m->info.images,
        m->info.sounds);
    models_release(c->server, m);
}

/* ---- what runs ------------------------------------------------------------------------------ */

void route_slots(call *c) {
    static const char *const STATES[] = {"waiting", "prompt", "running", "ended"};
    server *s = c->server;
    infer_request_info info;
    const job *j;
    int i, n = 0;
    out(&c->out, "[");
    pthread_mutex_lock(&s->lock);
    for (j = s->jobs; j; j = j->after) {
        for (i = 0; i < j->n_choices; i++) {
            infer_request_get_info(j->choices[i].request, &info);
            out(&c->out,
                "%s{\"id\":%j,\"choice\":%d,\"model\":%j,\"state\":%j,\"prompt_tokens\":%d,\"reused\":%d,\"new_tokens\":%d,\"waited\":%g,\"seconds\":"
                "%g}",
                n++ ? "," : "", j->id, (long long)i, j->model->id, STATES[info.state & 3], (long long)info.generate.prompt_tokens,
                (long long)info.reused, (long long)info.generate.new_tokens, info.waited, info.seconds);
        }
    }
    pthread_mutex_unlock(&s->lock);
    out(&c->out, "]");
}

static void counter(cli_text *t, const char *name, const char *help, uint64_t value) {
    out(t, "# HELP infer_%s %s\n# TYPE infer_%s counter\ninfer_%s %d\n", name, help, name, name, (long long)value);
}

static void histogram(cli_text *t, const char *name, const char *help, const uint64_t *buckets, double sum) {
    uint64_t n = 0;
    int i;
    out(t, "# HELP infer_%s %s\n# TYPE infer_%s histogram\n", name, help, name);
    for (i = 0; i < TIMES; i++) {
        n += buckets[i];
        out(t, "infer_%s_bucket{le=\"%g\"} %d\n", name, SERVE_TIMES[i], (long long)n);
    }
    n += buckets[TIMES];
    out(t, "infer_%s_bucket{le=\"+Inf\"} %d\ninfer_%s_sum %g\ninfer_%s_count %d\n", name, (long long)n, name, sum, name, (long long)n);
}

/* A label's value in Prometheus' text. */
static void label(cli_text *t, const char *s) {
    for (; *s; s++) out(t, *s == '"' || *s == '\\' ? "\\%S" : *s == '\n' ? "\\n" : "%S", s, (size_t)1);
}

/* A gauge of each loaded model's queue. */
static void queue_gauges(server *s, cli_text *t) {
    static const char *const NAMES[] = {"queue_waiting", "queue_running", "queue_kept", "queue_preempted_total", "queue_passes_total"};
    static const char *const HELP[] = {"requests that wait", "requests that run", "ended requests whose cache is kept",
                                       "requests that were suspended for others", "passes over the weights"};
    served *m;
    int i;
    for (i = 0; i < 5; i++) {
        out(t, "# HELP infer_%s %s\n# TYPE infer_%s %s\n", NAMES[i], HELP[i], NAMES[i], i < 3 ? "gauge" : "counter");
        for (m = s->models; m; m = m->next) {
            infer_queue_stats stats;
            if (m->state != MODEL_READY || m->queue == NULL || infer_queue_get_stats(m->queue, &stats) != INFER_OK) continue;
            {
                const long long values[] = {stats.waiting, stats.running, stats.kept, (long long)stats.preempted, (long long)stats.passes};
                out(t, "infer_%s{model=\"", NAMES[i]);
                label(t, m->id);
                out(t, "\"} %d\n", values[i]);
            }
        }
    }
}

void route_metrics(call *c) {
    server *s = c->server;
    counters n;
    pthread_mutex_lock(&s->lock);
    n = s->counters;
    pthread_mutex_unlock(&s->lock);
    c->type = "text/plain; version=0.0.4; charset=utf-8";
    counter(&c->out, "requests_total", "HTTP requests", n.requests);
    counter(&c->out, "requests_failed_total", "HTTP requests with a status of 400 and more", n.failed);
    counter(&c->out, "requests_refused_total", "HTTP requests with status 429: the queue was full", n.refused);
    counter(&c->out, "requests_cancelled_total", "replies whose client had gone or was too slow", n.cancelled);
    counter(&c->out, "prompt_tokens_total", "tokens of prompts", n.prompt_tokens);
    counter(&c->out, "prompt_tokens_cached_total", "tokens of prompts that were not evaluated again", n.reused);
    counter(&c->out, "new_tokens_total", "generated tokens", n.new_tokens);
    counter(&c->out, "images_total", "pictures of prompts", n.media[0]);
    counter(&c->out, "sounds_total", "sounds of prompts", n.media[1]);
    counter(&c->out, "media_tokens_total", "positions of prompts that pictures and sounds took", n.media_positions);
    histogram(&c->out, "first_token_seconds", "time until the first token of a reply", n.first, n.first_sum);
    histogram(&c->out, "reply_seconds", "time until the end of a reply", n.whole, n.whole_sum);
    pthread_mutex_lock(&s->models_lock);
    queue_gauges(s, &c->out);
    pthread_mutex_unlock(&s->models_lock);
}
