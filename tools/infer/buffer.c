/* buffer.c: a text in memory that grows. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

void cli_text_put(const char *command, cli_text *t, const char *s, size_t n) {
    if (t->failed) return;
    if (t->n + n + 1 > t->cap) {
        char *grown = cli_grow(command, t->s, (t->n + n + 1) * 2, 1);
        if (grown == NULL) {
            t->failed = 1;
            return;
        }
        t->s = grown;
        t->cap = (t->n + n + 1) * 2;
    }
    if (n) memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void cli_text_json(const char *command, cli_text *t, const char *s, size_t n) {
    size_t len;
    char *quoted = NULL;
    if (infer_json_quote(s, n, NULL, 0, &len) == INFER_OK) quoted = cli_grow(command, NULL, len + 1, 1);
    if (quoted == NULL || infer_json_quote(s, n, quoted, len + 1, &len) != INFER_OK) t->failed = 1;
    else cli_text_put(command, t, quoted, len);
    free(quoted);
}
