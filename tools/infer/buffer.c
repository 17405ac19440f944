/* buffer.c: a text in memory that grows; base64 as bytes. */
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

/* ---- base64 (RFC 4648) ---- */

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

const char *cli_base64_read(const char *s, size_t n, void *out, size_t *size) {
    unsigned char *bytes = out;
    uint32_t bits = 0;
    size_t i;
    *size = 0;
    if (n % 4 == 0 && n && s[n - 1] == '=') n -= 1 + (s[n - 2] == '=');
    for (i = 0; i < n; i++) {
        const int digit = base64_digit(s[i]);
        if (digit < 0) return s + i;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4) bytes[(*size)++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    return n % 4 == 1 ? s + n : NULL;
}
