/* value_parse.c: a metadata value from a text of the command line. */
#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int value_type_named(const char *word, uint32_t *type, uint32_t *element) {
    const size_t n = strlen(word), stem = n > 2 && strcmp(word + n - 2, "[]") == 0 ? n - 2 : n;
    uint32_t i;
    for (i = 0; i < GGUF_N_TYPES; i++) {
        const char *name = cli_value_type((int32_t)i);
        if (i == GGUF_ARRAY || strlen(name) != stem || memcmp(name, word, stem) != 0) continue;
        *type = stem < n ? GGUF_ARRAY : i;
        *element = stem < n ? i : 0;
        return 1;
    }
    return 0;
}

/* What is being parsed, and the bytes so far. */
typedef struct parser {
    const char *command, *key;
    cli_text out;
} parser;

static void put_number(parser *p, uint64_t x, int n) {
    unsigned char b[8];
    gguf_store(b, x, n);
    cli_text_put(p->command, &p->out, (const char *)b, (size_t)n);
}

static void put_string(parser *p, const char *s, size_t n) {
    put_number(p, n, 8);
    cli_text_put(p->command, &p->out, s, n);
}

static int wrong(const parser *p, uint32_t type, const char *text) {
    cli_fail(p->command, "%s: '%.80s' is no %s", p->key, text, cli_value_type((int32_t)type));
    return 0;
}

static int parse_int(parser *p, uint32_t type, const char *text) {
    const int size = value_sizes[type], is_signed = type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
    const uint64_t top = (uint64_t)1 << (8 * size - 1);
    const int negative = text[0] == '-';
    char *end;
    unsigned long long x;
    errno = 0;
    if (text[negative] < '0' || text[negative] > '9') return wrong(p, type, text);
    x = strtoull(text + negative, &end, 10);
    if (*end != 0 || errno != 0) return wrong(p, type, text);
    if (is_signed ? x > top - !negative : negative || x > top - 1 + top) return wrong(p, type, text);
    put_number(p, negative ? 0 - (uint64_t)x : x, size);
    return 1;
}

static int parse_float(parser *p, uint32_t type, const char *text) {
    char *end;
    double x = strtod(text, &end);
    const double limit = type == GGUF_F32 ? 3.4028235677973366e38 : 1.7976931348623157e308; /* rounds to infinity beyond */
    float f;
    uint32_t bits;
    uint64_t bits64;
    if (end == text || *end != 0 || !(x < limit || (type == GGUF_F64 && x <= limit)) || !(x > -limit || (type == GGUF_F64 && x >= -limit)))
        return wrong(p, type, text);
    f = (float)(type == GGUF_F32 ? x : 0);
    memcpy(&bits, &f, 4);
    memcpy(&bits64, &x, 8);
    put_number(p, type == GGUF_F32 ? bits : bits64, value_sizes[type]);
    return 1;
}

static int parse_scalar(parser *p, uint32_t type, const char *text) {
    const int yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (type == GGUF_F32 || type == GGUF_F64) return parse_float(p, type, text);
    if (type != GGUF_BOOL) return parse_int(p, type, text);
    if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0) return wrong(p, type, text);
    put_number(p, (uint64_t)yes, 1);
    return 1;
}

/* The element at *at, to `to`: up to a comma, or in quotes with \" \\ \n and \t. Moves *at behind it. */
static int next_element(parser *p, const char **at, cli_text *to) {
    const char *s = *at, *end;
    to->n = 0;
    if (*s != '"') {
        end = s + strcspn(s, ",]");
        *at = end;
        while (end > s && end[-1] == ' ') end--;
        cli_text_put(p->command, to, s, (size_t)(end - s));
        return !to->failed;
    }
    for (s++; *s && *s != '"'; s++) {
        static const char FROM[] = "nt\"\\", TO[] = "\n\t\"\\";
        const char *escape = *s == '\\' && s[1] ? strchr(FROM, s[1]) : NULL;
        if (*s == '\\' && escape == NULL) break;
        if (escape) s++;
        cli_text_put(p->command, to, escape ? &TO[escape - FROM] : s, 1);
    }
    cli_text_put(p->command, to, "", 0);
    *at = s + 1;
    if (to->failed) return 0;
    if (*s == '"') return 1;
    cli_fail(p->command, "%s: a string in quotes has no end, or an escape that is not one of \\n \\t \\\" \\\\", p->key);
    return 0;
}

/* "1, 2, 3" or "[1, 2, 3]". */
static int parse_array(parser *p, file_key *k, const char *text) {
    cli_text element = {0};
    const int brackets = text[0] == '[';
    const char *s = text + brackets, *stop = brackets ? "]" : "";
    int ok = 1;
    put_number(p, k->element, 4);
    put_number(p, 0, 8);
    k->n = 0;
    s += strspn(s, " ");
    while (ok && *s != *stop) {
        ok = next_element(p, &s, &element);
        if (ok && k->element == GGUF_STRING) put_string(p, element.s, element.n);
        else if (ok) ok = parse_scalar(p, k->element, element.s);
        if (!ok) break;
        k->n++;
        s += strspn(s, " ");
        if (*s == *stop) break;
        if (*s == ',') s += 1 + strspn(s + 1, " ");
        else ok = 0;
        if (!ok || *s == *stop) ok = wrong(p, GGUF_ARRAY, text);
    }
    if (ok && brackets && (s[0] != ']' || s[1] != 0)) ok = wrong(p, GGUF_ARRAY, text);
    if (ok && !p->out.failed) gguf_store((unsigned char *)p->out.s + 4, k->n, 8);
    free(element.s);
    return ok;
}

/* @FILE is the contents of a file, @@ a leading @. */
static int parse_string(parser *p, const char *text) {
    char *data;
    size_t n;
    if (text[0] != '@' || text[1] == '@') {
        put_string(p, text + (text[0] == '@'), strlen(text + (text[0] == '@')));
        return 1;
    }
    data = cli_read_file(p->command, text + 1, &n);
    if (data) put_string(p, data, n);
    free(data);
    return data != NULL;
}

int value_parse(const char *command, file_key *k, const char *text) {
    parser p = {0};
    int ok;
    p.command = command;
    p.key = k->name;
    k->n = 1;
    if (k->type == GGUF_STRING) ok = parse_string(&p, text);
    else if (k->type == GGUF_ARRAY) ok = parse_array(&p, k, text);
    else ok = parse_scalar(&p, k->type, text);
    if (!ok || p.out.failed) {
        free(p.out.s);
        return 0;
    }
    k->value = (unsigned char *)p.out.s;
    k->bytes = p.out.n;
    return 1;
}
