/* buffer.c: a text in memory that grows. */
#include "cli.h"

#include <string.h>

int cli_text_room(const char *command, cli_text *t, size_t n) {
    if (!t->failed && t->n + n + 1 > t->cap) {
        char *grown = cli_grow(command, t->s, (t->n + n + 1) * 2, 1);
        if (grown) {
            t->s = grown;
            t->cap = (t->n + n + 1) * 2;
        } else t->failed = 1;
    }
    return !t->failed;
}

void cli_text_put(const char *command, cli_text *t, const char *s, size_t n) {
    if (!cli_text_room(command, t, n)) return;
    if (n) memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void cli_text_json(const char *command, cli_text *t, const char *s, size_t n) {
    size_t len;
    infer_result r;
    if (!cli_text_room(command, t, n + 2)) return; /* mostly enough */
    r = infer_json_quote(s, n, t->s + t->n, t->cap - t->n, &len);
    if (r == INFER_OK && len >= t->cap - t->n && cli_text_room(command, t, len)) r = infer_json_quote(s, n, t->s + t->n, t->cap - t->n, &len);
    if (r == INFER_OK && !t->failed) t->n += len;
    else t->failed = 1;
}
