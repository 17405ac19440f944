/* fuzz_json.c: libFuzzer target for JSON: what is read and written again reads as the same value, and is written the same.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Itests tests/fuzz/fuzz_json.c -o fuzz_json -lm
 *     ./fuzz_json -max_len=4096 tests/fuzz/corpus_json
 */
#include "../text_parts.c"
#include <stdio.h>
#include <stdlib.h>

static int fuzz_equal(const infer_json *a, const infer_json *b) {
    uint64_t i, n;
    if (a->kind != b->kind) return 0;
    if (a->kind == INFER_JSON_INT) return a->v.i == b->v.i;
    if (a->kind == INFER_JSON_FLOAT) return memcmp(&a->v.f, &b->v.f, sizeof a->v.f) == 0;
    if (a->kind == INFER_JSON_STRING) return a->n == b->n && (a->n == 0 || memcmp(a->s, b->s, (size_t)a->n) == 0);
    if (a->kind < INFER_JSON_ARRAY) return 1;
    if (a->n != b->n) return 0;
    n = a->kind == INFER_JSON_OBJECT ? 2 * a->n : a->n;
    for (i = 0; i < n; i++) if (!fuzz_equal(&a->v.items[i], &b->v.items[i])) return 0;
    return 1;
}

/* Is there a number that is infinite? JSON cannot write it. */
static int fuzz_infinite(const infer_json *v) {
    uint64_t i, n = v->kind == INFER_JSON_OBJECT ? 2 * v->n : v->kind == INFER_JSON_ARRAY ? v->n : 0;
    if (v->kind == INFER_JSON_FLOAT) return v->v.f - v->v.f != 0;
    for (i = 0; i < n; i++) if (fuzz_infinite(&v->v.items[i])) return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = (char *)malloc(size ? size : 1);
    const infer_json *v, *again;
    infer__arena arena;
    infer__mem mem;
    infer__bytes out, twice;
    infer_error err;
    int32_t indent = size ? data[0] % 4 - 1 : -1;
    infer__mem_init(&mem, NULL, 0);
    memset(&arena, 0, sizeof arena);
    memset(&out, 0, sizeof out);
    arena.mem = out.mem = &mem;
    twice = out;
    if (size) memcpy(text, data, size);
    if (infer__json_parse(&v, &arena, text, size, &err) == INFER_OK && !fuzz_infinite(v)) {
        infer__json_write(&out, v, indent);
        if (out.failed || infer__json_parse(&again, &arena, out.s, out.n, &err) != INFER_OK || !fuzz_equal(v, again))
            __builtin_trap();
        infer__json_write(&twice, again, indent);
        if (twice.n != out.n || memcmp(twice.s, out.s, out.n) != 0) __builtin_trap();
    } else if (err.code != INFER_OK && err.message[0] == 0) {
        __builtin_trap();
    }
    free(text);
    infer__bytes_free(&out);
    infer__bytes_free(&twice);
    infer__arena_free(&arena);
    if (infer__atomic_get(&mem.used) != 0) __builtin_trap();
    return 0;
}
