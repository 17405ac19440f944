/* out.c: writing JSON: text with values in their places. */
#include "serve.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void put(cli_text *t, const char *s, size_t n) { cli_text_put(serve_command, t, s, n); }

static void out_value(cli_text *t, const infer_json *v) {
    size_t n;
    infer_result r;
    if (!cli_text_room(serve_command, t, 0)) return;
    r = infer_json_write(v, -1, t->s + t->n, t->cap - t->n, &n);
    if (r == INFER_OK && n >= t->cap - t->n && cli_text_room(serve_command, t, n)) r = infer_json_write(v, -1, t->s + t->n, t->cap - t->n, &n);
    if (r == INFER_OK && !t->failed) t->n += n;
    else t->failed = 1;
}

static void out_number(cli_text *t, double x) {
    char text[40];
    if (x >= -1e300 && x <= 1e300) put(t, text, (size_t)snprintf(text, sizeof text, "%.9g", x));
    else put(t, "null", 4);
}

/* One directive's value. */
static void out_one(cli_text *t, char directive, va_list *list) {
    char text[24];
    const cli_text *other;
    const char *s;
    size_t n;
    switch (directive) {
    case 'j':
    case 's':
        s = va_arg(*list, const char *);
        if (directive == 's') put(t, s, strlen(s));
        else if (s) cli_text_json(serve_command, t, s, strlen(s));
        else put(t, "null", 4);
        return;
    case 'J':
    case 'S':
        s = va_arg(*list, const char *);
        n = va_arg(*list, size_t);
        if (directive == 'J') cli_text_json(serve_command, t, s, n);
        else put(t, s, n);
        return;
    case 't':
    case 'T':
        other = va_arg(*list, const cli_text *);
        t->failed |= other->failed;
        if (directive == 'T') cli_text_json(serve_command, t, other->s, other->n);
        else put(t, other->s, other->n);
        return;
    case 'd': put(t, text, (size_t)snprintf(text, sizeof text, "%lld", va_arg(*list, long long))); return;
    case 'g': out_number(t, va_arg(*list, double)); return;
    case 'b':
        s = va_arg(*list, int) ? "true" : "false";
        put(t, s, strlen(s));
        return;
    case 'v': out_value(t, va_arg(*list, const infer_json *)); return;
    default: put(t, &directive, 1);
    }
}

void out(cli_text *t, const char *format, ...) {
    va_list list;
    va_start(list, format);
    while (*format) {
        const size_t n = strcspn(format, "%");
        put(t, format, n);
        format += n;
        if (format[0] == 0 || format[1] == 0) break;
        out_one(t, format[1], &list);
        format += 2;
    }
    va_end(list);
}

void out_clear(cli_text *t) {
    t->n = 0;
    if (t->s) t->s[0] = 0;
}

void out_end(cli_text *t) {
    free(t->s);
    memset(t, 0, sizeof *t);
}
