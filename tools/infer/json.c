/* json.c: writing JSON. The output is always valid: strings from files are repaired, numbers that JSON cannot represent
 * become null. */
#include "cli.h"

#include <string.h>

size_t cli_utf8_length(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    size_t i;
    if (len == 0 || len > n) return 0;
    for (i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
    }
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;
    if (s[0] == 0xED && s[1] > 0x9F) return 0;
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
    return len;
}

void json_string(FILE *file, const char *s, size_t n) {
    size_t i = 0;
    fputc('"', file);
    while (i < n) {
        const unsigned char *c = (const unsigned char *)s + i;
        size_t len = cli_utf8_length(s + i, n - i);
        if (len == 0)
            fputs("\\ufffd", file);
        else if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c == '\n')
            fputs("\\n", file);
        else if (*c < 32 || *c == 127)
            fprintf(file, "\\u%04x", *c);
        else
            fwrite(c, 1, len, file);
        i += len ? len : 1;
    }
    fputc('"', file);
}

void json_text(FILE *file, const char *s) {
    if (s)
        json_string(file, s, strlen(s));
    else
        fputs("null", file);
}

void json_number(FILE *file, double x) {
    if (x >= -1e300 && x <= 1e300)
        fprintf(file, "%.9g", x);
    else
        fputs("null", file);
}

void json_ids(FILE *file, const infer_token *ids, size_t n) {
    size_t i;
    fputc('[', file);
    for (i = 0; i < n; i++) fprintf(file, i ? ", %ld" : "%ld", (long)ids[i]);
    fputc(']', file);
}
