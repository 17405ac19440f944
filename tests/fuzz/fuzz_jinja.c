/* fuzz_jinja.c: libFuzzer target for templates: any text as a template, with a JSON context behind byte 0x1E when there is
 * one, else a context that has a bit of everything.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Itests tests/fuzz/fuzz_jinja.c -o fuzz_jinja -lm
 *     ./fuzz_jinja -max_len=2048 -dict=... tests/fuzz/corpus_jinja
 *
 * What is checked: no crash, no leak, the limits hold; segments cover the text and are not empty; a rendering twice is
 * the same; and with a context of which every byte is 'Q', no byte of a segment marked as the template's comes from it
 * (upper and lower case aside: 'Q' and 'q' then stand in no segment of the template's unless they are in its text). */
#include "../text_parts.c"
#include <stdio.h>
#include <stdlib.h>

static const char FUZZ_CONTEXT[] =
    "{\"n\":3,\"k\":-7,\"f\":2.5,\"s\":\"QqQ QQ\",\"e\":\"\",\"t\":true,\"nn\":null,\"xs\":[3,1,2],\"ss\":[\"Q\",\"qQ\"],\"d\":{\"a\":1,\"b\":"
    "{\"c\":[1,\"Q\"]},\"items\":2},\"messages\":[{\"role\":\"QQ\",\"content\":\"Q\\nQ\"},{\"role\":\"q\",\"content\":[{\"type\":\"Q\"}]}],"
    "\"big\":18446744073709551615,\"x\":\"\\u00e9\\u4e16\"}";

static int fuzz_render(const infer__template *t, const infer_json *context, infer__rendered *r) {
    infer__render_options o;
    infer_error err;
    infer_result result;
    memset(&o, 0, sizeof o);
    o.now = "2024-02-29 23:05:09";
    o.max_steps = 20000;
    o.max_memory = 1 << 20;
    o.max_output = 1 << 16;
    result = infer__template_render(t, context, &o, r, &err);
    if (result != INFER_OK && (r->text || r->segments || (err.code != result))) __builtin_trap();
    return result == INFER_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *cut = size ? (const uint8_t *)memchr(data, 0x1e, size) : NULL;
    size_t n = cut ? (size_t)(cut - data) : size, i, at = 0;
    char *text = (char *)malloc(n ? n : 1); /* so that reading past its end is seen */
    const infer_json *context = NULL;
    infer__arena arena;
    infer__mem mem;
    infer__template *t = NULL;
    infer__rendered a, b;
    infer_error err;
    int own = 1;
    infer__mem_init(&mem, NULL, 0);
    memset(&arena, 0, sizeof arena);
    arena.mem = &mem;
    if (n) memcpy(text, data, n);
    if (cut) infer__json_parse(&context, &arena, (const char *)cut + 1, size - n - 1, &err), own = 0;
    if (!context || context->kind != INFER_JSON_OBJECT) {
        if (infer__json_parse(&context, &arena, FUZZ_CONTEXT, sizeof FUZZ_CONTEXT - 1, &err) != INFER_OK) __builtin_trap();
        own = 1;
    }
    if (infer__template_open(&t, &mem, text, n, &err) == INFER_OK) {
        free(text); /* the template does not need it */
        text = NULL;
        infer__template_uses(t, "messages");
        if (fuzz_render(t, context, &a)) {
            for (i = 0; i < a.n_segments; i++) {
                const infer_segment *s = &a.segments[i];
                if (s->text != a.text + at || s->n == 0 || (i && s->from_message == a.segments[i - 1].from_message))
                    __builtin_trap();
                at += s->n;
                if (own && !s->from_message && memchr(s->text, 'Q', s->n) && !memchr(data, 'Q', n) && !memchr(data, 'q', n) &&
                    !memchr(data, '\\', n) && !memchr(data, '%', n) && !memchr(data, 'c', n)) __builtin_trap();
            }
            if (at != a.n) __builtin_trap();
            if (!fuzz_render(t, context, &b) || a.n != b.n || memcmp(a.text, b.text, a.n) != 0) __builtin_trap();
            infer__rendered_free(&a);
            infer__rendered_free(&b);
        }
        infer__template_close(t);
    }
    free(text);
    infer__arena_free(&arena);
    if (infer__atomic_get(&mem.used) != 0) __builtin_trap();
    return 0;
}
