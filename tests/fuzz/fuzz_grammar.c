/* fuzz_grammar.c: libFuzzer target for grammars: hostile GBNF, and texts matched with what compiles.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DINFER_QUIET -I. -Itests tests/fuzz/fuzz_grammar.c -o fuzz_grammar -lm
 *     ./fuzz_grammar -max_len=2048 -timeout=20 tests/fuzz/corpus_grammar
 *
 * The input is a grammar, a byte 0xFF, and a text. A grammar either is refused with a message or matches: then the text is
 * walked, along tokens that its bytes choose, and at every place the mask must equal its definition (each token of a small
 * vocabulary tried alone), also after states were forgotten.
 *
 * -DFUZZ_FILES gives a main of its own that runs the files named, for compilers without libFuzzer. */
#define INFER_IMPLEMENTATION
#define INFER__GRAMMAR_WORK 300000 /* slow grammars reach their limit soon */
#include "../text_parts.c"
#include "../grammar_vocab.h"
#include <stdio.h>
#include <stdlib.h>

static infer__mem fuzz_mem; /* of the vocabulary */
static infer__gguf fuzz_gguf;
static infer__tokenizer *fuzz_tokenizer;

static void fuzz_open(void) {
    size_t n;
    infer_error err;
    uint8_t *bytes = grammar_vocab(&n);
    infer__mem_init(&fuzz_mem, NULL, 0);
    if (infer__gguf_open_memory(&fuzz_gguf, &fuzz_mem, NULL, bytes, n, &err) != INFER_OK ||
        infer__tokenizer_open(&fuzz_tokenizer, &fuzz_mem, NULL, &fuzz_gguf, NULL, &err) != INFER_OK) __builtin_trap();
}

/* The mask at m's place must be its definition. 0 = the place has an error (limits). */
static int fuzz_mask(infer__matcher *m, infer__matcher *probe, uint32_t *copy) {
    const uint32_t *bits;
    infer_error err;
    int32_t i;
    if (infer__matcher_mask(m, &bits, &err) != INFER_OK) {
        if (err.code != INFER_ERR_STATE || !err.message[0]) __builtin_trap();
        return 0;
    }
    memcpy(copy, bits, (GRAMMAR_TOKENS / 32 + 1) * 4);
    for (i = 0; i < GRAMMAR_TOKENS; i++) {
        infer_result r;
        if (infer__matcher_copy(probe, m, &err) != INFER_OK) __builtin_trap();
        r = infer__matcher_accept(probe, i, &err);
        if (r != INFER_OK && r != INFER_ERR_STATE) __builtin_trap();
        if (r == INFER_OK && !(copy[i >> 5] >> (i & 31) & 1)) __builtin_trap();
        if (r != INFER_OK && (copy[i >> 5] >> (i & 31) & 1) && !strstr(err.message, "ambiguous")) __builtin_trap();
    }
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int opened;
    const uint8_t *mark = size ? memchr(data, 0xFF, size) : NULL;
    size_t n = mark ? (size_t)(mark - data) : size, i, steps = 0;
    uint32_t copy[GRAMMAR_TOKENS / 32 + 1];
    infer_grammar_params p;
    infer_grammar *g;
    infer__matcher *m, *probe;
    infer__mem mem;
    infer_error err;
    char *text;
    if (!opened) fuzz_open();
    opened = 1;
    infer__mem_init(&mem, NULL, 0);
    text = (char *)malloc(n + 1);
    if (n) memcpy(text, data, n);
    text[n] = 0;
    memset(&p, 0, sizeof p);
    p.gbnf = text;
    if (infer__grammar_open(&g, &mem, fuzz_tokenizer, &p, &err) == INFER_OK) {
        if (infer__matcher_open(&m, g, &err) != INFER_OK || infer__matcher_open(&probe, g, &err) != INFER_OK) __builtin_trap();
        for (i = n + 1; i < size && steps < 16; i++, steps++) {
            int32_t at, k;
            if (data[i] == 0xFE) infer__matcher_reset(m);
            if (data[i] == 0xFD) g->states.trim_at = 0; /* forget with the next call */
            if (g->states.work > 50000 || !fuzz_mask(m, probe, copy)) break; /* slow, by far not endless: not here */
            at = i + 1 < size && data[i] >= 0xF0 ? 256 + data[++i] : data[i];
            for (k = 0; k < GRAMMAR_TOKENS; k++) { /* the next allowed token from there on */
                int32_t t = (at + k) % GRAMMAR_TOKENS;
                if (!(copy[t >> 5] >> (t & 31) & 1)) continue;
                if (infer__matcher_accept(m, t, &err) != INFER_OK && !strstr(err.message, "ambiguous")) __builtin_trap();
                break;
            }
            if (k == GRAMMAR_TOKENS && (infer__matcher_complete(m) || infer__matcher_can_continue(m)) == 0) __builtin_trap();
        }
        infer__matcher_close(probe);
        infer__matcher_close(m);
        infer__grammar_close(g);
    } else if (!err.message[0]) {
        __builtin_trap();
    }
    free(text);
    if (infer__atomic_get(&mem.used) != 0) __builtin_trap();
    return 0;
}

#if defined(FUZZ_FILES)
int main(int argc, char **argv) {
    int i;
    for (i = 1; i < argc; i++) {
        static uint8_t data[1 << 20];
        FILE *f = fopen(argv[i], "rb");
        size_t n;
        if (!f) return 1;
        n = fread(data, 1, sizeof data, f);
        fclose(f);
        LLVMFuzzerTestOneInput(data, n);
    }
    return 0;
}
#endif
