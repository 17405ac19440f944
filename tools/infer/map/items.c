/* items.c: lines between reading and writing. */
#include "map.h"

#include <stdlib.h>
#include <string.h>

/* ---- waiting -------------------------------------------------------------------------------- */

int map_ended(map *m) {
    int ended;
    pthread_mutex_lock(&m->lock);
    ended = (m->ended || m->stop) && m->first == NULL;
    pthread_mutex_unlock(&m->lock);
    return ended;
}

/* The lock is held. */
static int has_room(const map *m, size_t most) {
    if (m->first == NULL || m->stop || m->items >= most) return 0;
    return m->items == 0 || m->bytes + m->first->bytes <= (size_t)m->options->max_line;
}

map_item *map_next(map *m, int wait, size_t most, map_item **done) {
    enum { LOOK_MS = 100 }; /* how often to see whether a signal has come */
    map_item *it;
    pthread_mutex_lock(&m->lock);
    while (wait && !m->done && !has_room(m, most) && !((m->ended || m->stop) && !m->first && m->running == 0) && system_wait(0) == m->signals &&
           !(m->stop && platform_clock() > m->deadline))
        system_condition_wait(&m->changed, &m->lock, LOOK_MS);
    it = has_room(m, most) ? map_read_take(m) : NULL;
    *done = m->done;
    m->done = NULL;
    pthread_mutex_unlock(&m->lock);
    return it;
}

int map_stopped(map *m) {
    m->signals = system_wait(0);
    if (m->signals == 0 && !m->unwritten) return 0;
    pthread_mutex_lock(&m->lock);
    if (!m->stop) m->deadline = platform_clock() + (double)m->serve.grace;
    m->stop = 1;
    while (m->first) map_item_free(map_read_take(m));
    pthread_cond_signal(&m->room);
    pthread_mutex_unlock(&m->lock);
    return m->signals > 1 || m->unwritten || platform_clock() > m->deadline ? 2 : 1;
}

/* ---- ids ------------------------------------------------------------------------------------ */

void map_id(const map_item *it, cli_text *t) {
    if (it->id) out(t, "%v", it->id);
    else if (it->nameless) out(t, "null");
    else out(t, "%d", (long long)it->line);
}

/* What was known of the item's id: of the line's number, where it has none. */
static int known(map *m, const map_item *it) {
    cli_text key;
    int before;
    memset(&key, 0, sizeof key);
    if (it->nameless) out(&key, "line %d", (long long)it->line);
    else map_id(it, &key);
    before = map_ids_add(&m->ids, &key, ID_READ);
    out_end(&key);
    return before;
}

static int parse(map_item *it, size_t most) {
    failure *f = &it->call.failure;
    infer_error err;
    if (it->too_long) return fail(f, 413, NULL, NULL, "the line has more than %lu bytes (--max-line)", (unsigned long)most);
    if (it->text.failed) return fail(f, 503, NULL, NULL, "out of memory");
    if (infer_json_parse(&it->call.json, it->text.s, it->text.n, NULL, &err) != INFER_OK) return fail_by(f, err.code, err.message);
    return infer_json_kind(it->call.json) == INFER_JSON_OBJECT || fail(f, 400, NULL, NULL, "the line is not a JSON object");
}

static int take_id(map_item *it) {
    const infer_json *id = infer_json_get(it->call.json, "id");
    const int32_t kind = infer_json_kind(id);
    if (kind == INFER_JSON_STRING || kind == INFER_JSON_INT) it->id = id;
    return it->id || kind == INFER_JSON_NULL || fail(&it->call.failure, 400, NULL, "id", "'id' must be a string or a whole number");
}

void map_item_free(map_item *it) {
    if (it->job) job_free(it->job);
    infer_json_free(it->call.json);
    out_end(&it->text);
    out_end(&it->out);
    free(it);
}

int map_item_add(map *m, map_item *it) {
    failure *f = &it->call.failure;
    int before;
    it->call.server = &m->server;
    it->nameless = !parse(it, m->splitter.most) || !take_id(it);
    out_end(&it->text);
    before = known(m, it);
    if (before >= 0 && before & ID_READ) {
        cli_text id;
        memset(&id, 0, sizeof id);
        map_id(it, &id);
        fail(f, 400, NULL, "id", "another line has the id %.200s", id.failed ? "" : id.s);
        out_end(&id);
        it->id = NULL;
        it->nameless = 1;
        before = known(m, it);
    }
    if (before < 0) fail(f, 503, NULL, NULL, "out of memory");
    else if (before & ID_WRITTEN) {
        m->there++;
        map_item_free(it);
        return 0;
    }
    if (m->tail) m->tail->next = it;
    else m->head = it;
    m->tail = it;
    m->items++;
    m->bytes += it->bytes;
    if (f->status) map_item_failed(it);
    return 1;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void ready(map_item *it, int failed) {
    it->state = ITEM_READY;
    it->failed = failed;
    infer_json_free(it->call.json); /* memory for others while it waits for lines before it */
    it->call.json = NULL;
    it->id = NULL;
}

void map_item_failed(map_item *it) {
    out_clear(&it->out);
    out(&it->out, "{\"id\":");
    map_id(it, &it->out);
    out(&it->out, ",\"line\":%d,\"error\":%j}\n", (long long)it->line, it->call.failure.message);
    ready(it, 1);
}

void map_item_answered(map_item *it) { ready(it, 0); }

static void write_item(map *m, const map_item *it) {
    if (it->out.failed) m->unwritten = 2;
    else if (!m->unwritten && (fwrite(it->out.s, 1, it->out.n, m->out) != it->out.n || fflush(m->out) != 0)) m->unwritten = 1;
    if (m->unwritten) return;
    m->failed += it->failed;
    m->answered += !it->failed;
    m->prompt_tokens += (uint64_t)it->prompt;
    m->new_tokens += (uint64_t)it->fresh;
}

void map_write(map *m) {
    map_item **at = &m->head, *it, *last = NULL;
    while ((it = *at) != NULL) {
        if (it->state != ITEM_READY && !m->options->unordered) break; /* what comes after a line without a reply is not written either */
        if (it->state == ITEM_RUNS) {
            last = it;
            at = &it->next;
            continue;
        }
        if (it->state == ITEM_READY) write_item(m, it);
        *at = it->next;
        m->items--;
        m->bytes -= it->bytes;
        map_item_free(it);
    }
    if (m->head == NULL || m->options->unordered) m->tail = last;
}
