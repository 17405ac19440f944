/* value_text.c: a metadata value as text, for people and as JSON. */
#include "files.h"

enum { SHOWN_BYTES = 160, SHOWN_ELEMENTS = 8, SHORT_ARRAY = 16 };

static const char *const VALUE_TYPES[GGUF_N_TYPES] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                       "bool", "string", "array", "u64", "i64", "f64"};

const char *cli_value_type(int32_t type) { return type >= 0 && type < GGUF_N_TYPES ? VALUE_TYPES[type] : "?"; }

/* A byte of a text from a file, for people: control characters do not reach the terminal. */
static void print_byte(char byte) {
    const unsigned char c = (unsigned char)byte;
    if (c == '\n')
        fputs("\\n", stdout);
    else if (c < 32 || c == 127)
        printf("\\x%02x", c);
    else
        putchar(c);
}

void value_print_name(const char *name) {
    for (; *name; name++) print_byte(*name);
}

/* Long texts are cut. */
static void print_string(const char *s, uint64_t n, int full) {
    uint64_t i;
    putchar('"');
    for (i = 0; i < n && (full || i < SHOWN_BYTES); i++) print_byte(s[i]);
    putchar('"');
    if (i < n) printf("... (%.0f bytes)", (double)n);
}

void cli_print_value(const infer_meta *m, int json, int full) {
    switch (m->kind) {
    case INFER_META_STRING:
        if (json)
            json_string(stdout, m->s, (size_t)m->n);
        else
            print_string(m->s, m->n, full);
        break;
    case INFER_META_BOOL: printf(m->u ? "true" : "false"); break;
    case INFER_META_UINT: printf("%llu", (unsigned long long)m->u); break;
    case INFER_META_INT: printf("%lld", (long long)m->i); break;
    case INFER_META_FLOAT:
        if (json)
            json_number(stdout, m->f);
        else
            printf("%.9g", m->f);
        break;
    default: printf(json ? "null" : "?"); break;
    }
}

void cli_print_array(uint64_t n, int json, int full, cli_element *element, void *from) {
    const uint64_t shown = full || n <= SHORT_ARRAY ? n : SHOWN_ELEMENTS;
    infer_meta m;
    uint64_t i;
    if (json && shown < n) printf("{\"n\": %.0f, \"first\": ", (double)n);
    putchar('[');
    for (i = 0; i < shown; i++) {
        if (i) printf(", ");
        if (element(from, i, &m)) cli_print_value(&m, json, full);
        else printf(json ? "null" : "?");
    }
    if (!json && shown < n) printf(", ...");
    putchar(']');
    if (json && shown < n) putchar('}');
    if (!json && shown < n) printf(" (%.0f)", (double)n);
}

typedef struct elements {
    uint32_t type;
    const unsigned char *at; /* the next one */
} elements;

static int next_element(void *from, uint64_t i, infer_meta *out) {
    elements *e = from;
    (void)i;
    e->at += value_decode(e->type, e->at, out);
    return 1;
}

void value_print(const file_key *k, int json, int full) {
    infer_meta m;
    if (k->type == GGUF_ARRAY) {
        elements e;
        e.type = k->element;
        e.at = k->value + GGUF_ARRAY_HEAD;
        cli_print_array(k->n, json, full, next_element, &e);
        return;
    }
    value_decode(k->type, k->value, &m);
    cli_print_value(&m, json, full);
}

void value_print_type(const file_key *k) {
    printf("%s%s", cli_value_type((int32_t)(k->type == GGUF_ARRAY ? k->element : k->type)),
           k->type == GGUF_ARRAY ? "[]" : "");
}
