/* fuzz_schema.c: libFuzzer target: a JSON Schema that nobody meant -> GBNF.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DINFER_QUIET -Itests tests/fuzz/fuzz_schema.c -o fuzz_schema -lm
 *     ./fuzz_schema -max_len=4096 -timeout=20 tests/fuzz/corpus_schema
 *
 * The input is the schema. Whatever it is, the end comes soon, and what comes out is a grammar that the engine takes: it
 * can end, and every text that it accepts is JSON. The text is found by a walk over bytes that the schema's hash chooses.
 */
#include "../text_parts.c"
#include <stdio.h>
#include <stdlib.h>

static void fuzz_walk(infer_grammar *g, uint64_t seed) {
    infer__matcher *m = NULL, *at = NULL;
    infer__bytes text;
    infer__arena arena;
    const infer_json *value;
    infer_error err;
    infer__mem mem;
    size_t accepted;
    int step, tries;
    infer__mem_init(&mem, NULL, 0);
    memset(&text, 0, sizeof text);
    memset(&arena, 0, sizeof arena);
    text.mem = arena.mem = &mem;
    if (infer__matcher_open(&m, g, &err) != INFER_OK || infer__matcher_open(&at, g, &err) != INFER_OK) abort();
    for (step = 0; step < 60; step++) {
        static const char LIKELY[] = "\"{}[],:0123456789-.abtrfnul es\\/x";
        for (tries = 0; tries < 80; tries++) {
            char b;
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            b = tries < 60 ? LIKELY[(seed >> 40) % (sizeof LIKELY - 1)] : (char)(seed >> 40);
            if (infer__matcher_copy(at, m, &err) != INFER_OK) abort();
            if (infer__matcher_check(at, &b, 1, &accepted, &err) != INFER_OK) goto end; /* a limit of the engine */
            if (accepted == 1) {
                infer__bytes_char(&text, b);
                if (infer__matcher_copy(m, at, &err) != INFER_OK) abort();
                break;
            }
        }
        if (infer__matcher_complete(m) && infer__json_parse(&value, &arena, text.s, text.n, &err) != INFER_OK) {
            fprintf(stderr, "accepted and no JSON: %s\n", text.s);
            abort();
        }
        if (tries == 80) break;
    }
end:
    infer__arena_free(&arena);
    infer__bytes_free(&text);
    infer__matcher_close(m);
    infer__matcher_close(at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    infer__mem mem;
    infer__bytes out;
    infer_grammar_params p;
    infer_grammar *g = NULL;
    infer_error err;
    infer__mem_init(&mem, NULL, 0);
    memset(&out, 0, sizeof out);
    memset(&p, 0, sizeof p);
    out.mem = &mem;
    if (infer__schema_gbnf(&out, &mem, NULL, (const char *)data, size, &err) == INFER_OK) {
        p.gbnf = out.s;
        if (infer__grammar_open(&g, &mem, NULL, &p, &err) != INFER_OK) {
            fprintf(stderr, "the engine refuses: %s\n%s\n", err.message, out.s);
            abort();
        }
        fuzz_walk(g, infer__fnv(INFER__FNV, data, size));
        infer__grammar_close(g);
    } else if (out.n != 0 || err.message[0] == 0) abort();
    infer__bytes_free(&out);
    if (infer__atomic_get(&mem.used) != 0) abort();
    return 0;
}
