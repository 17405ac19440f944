/* json_api.c: JSON values for callers.
 *
 * Owns:  infer_json documents of the caller: an arena with its own memory, before the root. The work is in
 *        src/text/json.c.
 */
#include "../model/model.h"

/* The root of a document that infer_json_parse made; infer_json_free finds the rest after it. */
typedef struct infer__json_document {
    infer_json root; /* first: the caller's pointer */
    infer__mem mem;
    infer__arena arena;
} infer__json_document;

/* What calls check that make something of a text. */
static infer_result infer__source_check(const char *text, size_t n, const infer_allocator *allocator,
                                        infer_error *err) {
    if (!text && n > 0) return infer__error(err, INFER_ERR_ARGUMENT, "text is NULL but n is not 0");
    if (allocator && (!allocator->alloc != !allocator->free))
        return infer__error(err, INFER_ERR_ARGUMENT, "allocator: alloc and free must both be given, or neither");
    infer__error_clear(err);
    return INFER_OK;
}

INFER_API infer_result infer_json_parse(infer_json **out, const char *text, size_t n, const infer_allocator *allocator,
                                        infer_error *err) {
    infer__json_document *d;
    const infer_json *root;
    infer__mem mem;
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!INFER__HAS_JSON) return infer__left_out(err, "JSON values", "INFER_NO_JSON");
    if ((r = infer__source_check(text, n, allocator, err)) != INFER_OK) return r;
    infer__mem_init(&mem, allocator, 0);
    d = (infer__json_document *)infer__calloc(&mem, 1, sizeof *d);
    if (!d) return infer__error(err, INFER_ERR_MEMORY, "JSON: out of memory");
    d->mem = mem;
    d->arena.mem = &d->mem;
    r = infer__json_parse(&root, &d->arena, text ? text : "", n, err);
    if (r != INFER_OK) {
        infer_json_free(&d->root);
        return r;
    }
    d->root = *root;
    *out = &d->root;
    return INFER_OK;
}

INFER_API void infer_json_free(infer_json *document) {
    infer__json_document *d = (infer__json_document *)document;
    infer__mem mem;
    if (!d) return;
    infer__arena_free(&d->arena);
    mem = d->mem; /* the struct is freed through it */
    infer__free(&mem, d);
}

INFER_API int32_t infer_json_kind(const infer_json *v) { return v ? v->kind : INFER_JSON_NULL; }

INFER_API size_t infer_json_count(const infer_json *v) { return v && v->kind >= INFER_JSON_STRING ? (size_t)v->n : 0; }

INFER_API const infer_json *infer_json_at(const infer_json *v, size_t index) {
    if (!v || v->kind < INFER_JSON_ARRAY || index >= v->n) return NULL;
    return v->kind == INFER_JSON_OBJECT ? &v->v.items[2 * index + 1] : &v->v.items[index];
}

INFER_API const char *infer_json_name(const infer_json *v, size_t index, size_t *n) {
    int ok = v && v->kind == INFER_JSON_OBJECT && index < v->n;
    if (n) *n = ok ? (size_t)v->v.items[2 * index].n : 0;
    return ok ? v->v.items[2 * index].s : NULL;
}

INFER_API const infer_json *infer_json_get(const infer_json *v, const char *name) {
    return name ? infer__json_get(v, name, strlen(name)) : NULL;
}

INFER_API const char *infer_json_string(const infer_json *v, size_t *n) {
    int ok = v && v->kind == INFER_JSON_STRING;
    if (n) *n = ok ? (size_t)v->n : 0;
    return ok ? v->s : NULL;
}

INFER_API int64_t infer_json_int(const infer_json *v) {
    if (!v) return 0;
    if (v->kind != INFER_JSON_FLOAT) return v->kind <= INFER_JSON_INT ? v->v.i : 0;
    return v->v.f >= 9223372036854775808.0 ? INT64_MAX : v->v.f <= -9223372036854775808.0 ? INT64_MIN : (int64_t)v->v.f;
}

INFER_API double infer_json_number(const infer_json *v) {
    if (!v) return 0;
    return v->kind == INFER_JSON_FLOAT ? v->v.f : v->kind <= INFER_JSON_INT ? (double)v->v.i : 0;
}

/* A text that was written, or its beginning, for the caller; frees it. */
static infer_result infer__json_give(infer__bytes *b, char *out, size_t cap, size_t *len) {
    infer_result r = b->failed ? INFER_ERR_MEMORY : INFER_OK;
    if (r == INFER_OK) {
        size_t n = cap == 0 ? 0 : INFER__MIN(b->n, cap - 1);
        *len = b->n;
        if (n) memcpy(out, b->s, n);
        if (cap) out[n] = 0;
    }
    infer__bytes_free(b);
    return r;
}

INFER_API infer_result infer_json_write(const infer_json *v, int32_t indent, char *out, size_t cap, size_t *len) {
    static const infer_json none = {INFER_JSON_NULL, 0, 0, NULL, {0}};
    infer__mem mem;
    infer__bytes b;
    if (len) *len = 0;
    if (!INFER__HAS_JSON) return INFER_ERR_UNSUPPORTED;
    if (!len || (!out && cap > 0) || indent > INFER__JSON_INDENT) return INFER_ERR_ARGUMENT;
    infer__mem_init(&mem, NULL, 0);
    memset(&b, 0, sizeof b);
    b.mem = &mem;
    b.limit = INFER__JSON_OUT;
    infer__json_write(&b, v ? v : &none, indent);
    return infer__json_give(&b, out, cap, len);
}

INFER_API infer_result infer_json_quote(const char *text, size_t n, char *out, size_t cap, size_t *len) {
    infer__mem mem;
    infer__bytes b;
    if (len) *len = 0;
    if (!INFER__HAS_JSON) return INFER_ERR_UNSUPPORTED;
    if (!len || (!text && n > 0) || (!out && cap > 0)) return INFER_ERR_ARGUMENT;
    infer__mem_init(&mem, NULL, 0);
    memset(&b, 0, sizeof b);
    b.mem = &mem;
    b.limit = INFER__JSON_OUT;
    infer__json_quote(&b, text ? text : "", n);
    return infer__json_give(&b, out, cap, len);
}
