/* lines.c: a file's lines. The input's wait for the main thread, as many as there is room for; then reading waits. */
#include "map.h"

#include <stdlib.h>
#include <string.h>

enum { WAITING_MOST = 64 }; /* lines */

int map_split(map_splitter *s, const char *text, size_t n, map_line_fn *fn, void *user) {
    while (n > 0) {
        const char *end = memchr(text, '\n', n);
        const size_t k = end ? (size_t)(end - text) : n, all = k + (end != NULL);
        if (s->line.n + k > s->most) {
            s->too_long = 1;
            out_end(&s->line); /* what is left of it has no place */
        }
        if (!s->too_long) cli_text_put(serve_command, &s->line, text, k);
        s->bytes += all;
        text += all;
        n -= all;
        if (end == NULL) return 1;
        s->number++;
        s->ended = s->bytes;
        if (!fn(user, s)) return 0;
        out_clear(&s->line);
        s->line.failed = s->too_long = 0;
    }
    return 1;
}

/* ---- the thread that reads ------------------------------------------------------------------ */

static int is_blank(const cli_text *t) {
    size_t i = 0;
    while (i < t->n && strchr(" \t\r", t->s[i]) && t->s[i]) i++;
    return i == t->n;
}

static int keep_line(void *user, map_splitter *s) {
    map *m = user;
    map_item *it;
    int stop;
    if (s->number == 1 && s->line.n >= 3 && memcmp(s->line.s, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark */
        s->line.n -= 3;
        memmove(s->line.s, s->line.s + 3, s->line.n + 1);
    }
    if ((s->number - 1) % m->parts != m->part || (!s->too_long && !s->line.failed && is_blank(&s->line))) return 1;
    it = cli_alloc(serve_command, 1, sizeof *it);
    if (it == NULL) return 0;
    memset(it, 0, sizeof *it);
    it->text = s->line;
    it->bytes = s->line.n;
    it->line = s->number;
    it->too_long = s->too_long;
    memset(&s->line, 0, sizeof s->line);
    pthread_mutex_lock(&m->lock);
    while (!m->stop && m->n_lines > 0 && (m->n_lines >= WAITING_MOST || m->n_bytes + it->bytes > s->most)) pthread_cond_wait(&m->room, &m->lock);
    stop = m->stop;
    if (!stop) {
        if (m->last) m->last->next = it;
        else m->first = it;
        m->last = it;
        m->n_lines++;
        m->n_bytes += it->bytes;
        pthread_cond_signal(&m->changed);
    }
    pthread_mutex_unlock(&m->lock);
    if (stop) map_item_free(it);
    return !stop;
}

static void *read_lines(void *user) {
    map *m = user;
    map_splitter *s = &m->splitter;
    char buffer[1 << 16];
    long n;
    int ok = 1;
    while (ok && (n = platform_read(m->in, buffer, sizeof buffer)) > 0) ok = map_split(s, buffer, (size_t)n, keep_line, m);
    if (ok && n == 0 && (s->line.n > 0 || s->too_long || s->line.failed)) ok = map_split(s, "\n", 1, keep_line, m); /* the last line may have no end */
    pthread_mutex_lock(&m->lock);
    m->broken = (!ok || n < 0) && !m->stop;
    m->ended = 1;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

int map_read_start(map *m) {
    pthread_t thread;
    m->splitter.most = (size_t)m->options->max_line;
    if (pthread_create(&thread, NULL, read_lines, m) != 0) return cli_fail(serve_command, "a thread cannot be started") == CLI_DONE;
    pthread_detach(thread); /* it may wait for input that never comes */
    return 1;
}

map_item *map_read_take(map *m) {
    map_item *it = m->first;
    if (it == NULL) return NULL;
    m->first = it->next;
    if (m->first == NULL) m->last = NULL;
    it->next = NULL;
    m->n_lines--;
    m->n_bytes -= it->bytes;
    pthread_cond_signal(&m->room);
    return it;
}
