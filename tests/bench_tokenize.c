/* bench_tokenize.c: how fast texts become ids, and what a vocabulary costs to open.
 *
 *     bench_tokenize TEXT VOCABULARY.gguf ..
 *
 * For every vocabulary, tab-separated, times being the best of several runs on one thread:
 *   text     VOCABULARY  MB/s of TEXT repeated to 10 MB (10^6 bytes)  ids  FNV-1a of the ids, as 4 bytes each
 *   hostile  VOCABULARY  seconds for 1 MB of one thing  ids  the thing
 *   open     VOCABULARY  seconds from the parsed file  bytes kept  bytes of the file's tokens and merges, lengths counted
 *   views    VOCABULARY  bytes of the views of those texts that the parsed file keeps besides
 * tools/bench_text.py builds and runs it beside other tokenizers. */
#ifndef INFER_QUIET
#define INFER_QUIET
#endif
#include "text_parts.c"
#include <stdio.h>
#include <stdlib.h>

enum { BENCH_TEXT = 10000000, BENCH_HOSTILE = 1000000, BENCH_RUNS = 5 };

static char *bench_read(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *s = NULL;
    long size;
    *n = 0;
    if (!f) return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 && fseek(f, 0, SEEK_SET) == 0) {
        s = (char *)malloc((size_t)size);
        if (s) *n = fread(s, 1, (size_t)size, f);
    }
    fclose(f);
    return s;
}

/* Best seconds of some runs; *count ids in out. */
static double bench_run(const infer__tokenizer *t, infer__mem *mem, const char *s, size_t n, infer_token *out, size_t cap,
                        int runs, size_t *count) {
    double best = 1e9;
    while (runs-- > 0) {
        double start = infer__seconds(), seconds;
        infer_error err;
        if (infer__tokenize(t, mem, s, n, 0, out, cap, count, &err) != INFER_OK) {
            fprintf(stderr, "bench_tokenize: %s\n", err.message);
            exit(1);
        }
        seconds = infer__seconds() - start;
        if (seconds < best) best = seconds;
    }
    return best;
}

static uint64_t bench_texts(const infer__gguf *g, const char *key, uint64_t *views) {
    const infer__kv *kv = infer__gguf_find(g, key);
    uint64_t bytes = 0, i;
    if (!kv || !infer__kv_is_strings(kv)) return 0;
    for (i = 0; i < kv->n; i++) bytes += 8 + ((const infer__str *)kv->data)[i].n; /* a text is its length and its bytes */
    *views += kv->n * sizeof(infer__str);
    return bytes;
}

static void bench_hostile(const char *name, const infer__tokenizer *t, infer__mem *mem, char *s, infer_token *out,
                          size_t cap) {
    static const struct { const char *name, *unit; } TEXTS[] = {
        {"one letter", "a"}, {"one letter, upper case", "A"}, {"spaces", " "}, {"newlines", "\n"}, {"digits", "7"},
        {"combining marks", "\xcc\x81"}, {"a letter, combining marks", "e\xcc\x81\xcc\xa3"}, {"one mark", "!"},
        {"apostrophes", "'"}, {"spaces and newlines", "  \n"}, {"one CJK character", "\xe4\xb8\xad"},
        {"one emoji", "\xf0\x9f\x98\x80"}, {"random bytes", NULL}, {"random letters", NULL}
    };
    size_t i, k, count = 0;
    for (i = 0; i < INFER__COUNT(TEXTS); i++) {
        uint32_t state = 12345;
        size_t len = TEXTS[i].unit ? strlen(TEXTS[i].unit) : 1, n = BENCH_HOSTILE / len * len;
        double seconds;
        for (k = 0; k < n; k++) {
            state = state * 1664525u + 1013904223u;
            s[k] = TEXTS[i].unit ? TEXTS[i].unit[k % len] : i == 12 ? (char)(state >> 24) : (char)('a' + (state >> 16) % 26);
        }
        seconds = bench_run(t, mem, s, n, out, cap, 1, &count);
        printf("hostile\t%s\t%.3f\t%d\t%s\n", name, seconds, (int)count, TEXTS[i].name);
    }
}

static int bench_vocabulary(const char *path, char *text, infer_token *out, size_t cap) {
    infer__mem file_mem, mem;
    infer__gguf g;
    infer__tokenizer *t = NULL;
    infer__tokenizer_options options;
    infer_error err;
    const char *name = path, *p;
    uint64_t bytes, views = 0, hash = INFER__FNV;
    double open_best = 1e9, seconds;
    size_t count = 0, i;
    int run;
    for (p = path; *p; p++) if (*p == '/' || *p == '\\') name = p + 1;
    memset(&options, 0, sizeof options);
    options.allow_default_pre = 1;
    infer__mem_init(&file_mem, NULL, 0);
    infer__mem_init(&mem, NULL, 0);
    if (infer__gguf_open_path(&g, &file_mem, NULL, path, 1, &err) != INFER_OK) {
        fprintf(stderr, "bench_tokenize: %s: %s\n", path, err.message);
        return 1;
    }
    for (run = 0; run < BENCH_RUNS; run++) {
        infer_result r;
        infer__tokenizer_close(t);
        seconds = infer__seconds();
        r = infer__tokenizer_open(&t, &mem, NULL, &g, &options, &err);
        seconds = infer__seconds() - seconds;
        if (r != INFER_OK || infer__tokenizer_why_not(t)[0]) {
            fprintf(stderr, "bench_tokenize: %s: %s\n", path, r != INFER_OK ? err.message : infer__tokenizer_why_not(t));
            infer__tokenizer_close(t);
            infer__gguf_close(&g);
            return 1;
        }
        if (seconds < open_best) open_best = seconds;
    }
    bytes = bench_texts(&g, "tokenizer.ggml.tokens", &views) + bench_texts(&g, "tokenizer.ggml.merges", &views);
    printf("open\t%s\t%.4f\t%.0f\t%.0f\n", name, open_best, (double)infer__atomic_get(&mem.used), (double)bytes);
    printf("views\t%s\t%.0f\n", name, (double)views);
    seconds = bench_run(t, &mem, text, BENCH_TEXT, out, cap, BENCH_RUNS, &count);
    for (i = 0; i < count; i++) {
        unsigned char b[4];
        int k;
        for (k = 0; k < 4; k++) b[k] = (unsigned char)((uint32_t)out[i] >> 8 * k);
        hash = infer__fnv(hash, b, 4);
    }
    printf("text\t%s\t%.2f\t%d\t%08x%08x\n", name, BENCH_TEXT / 1e6 / seconds, (int)count, (unsigned)(hash >> 32), (unsigned)hash);
    bench_hostile(name, t, &mem, text + BENCH_TEXT, out, cap);
    fflush(stdout);
    infer__tokenizer_close(t);
    infer__gguf_close(&g);
    return 0;
}

int main(int argc, char **argv) {
    size_t n, at, cap = 3 * BENCH_TEXT + 8;
    char *unit, *text = (char *)malloc(BENCH_TEXT + BENCH_HOSTILE);
    infer_token *out = (infer_token *)malloc(cap * sizeof *out);
    int i, failed = 0;
    if (argc < 3) {
        fprintf(stderr, "use: bench_tokenize TEXT VOCABULARY.gguf ..\n");
        return 2;
    }
    unit = bench_read(argv[1], &n);
    if (!unit || !n || !text || !out) {
        fprintf(stderr, "bench_tokenize: cannot read %s\n", argv[1]);
        return 1;
    }
    for (at = 0; at < BENCH_TEXT; at++) text[at] = unit[at % n];
    for (i = 2; i < argc; i++) failed |= bench_vocabulary(argv[i], text, out, cap);
    free(unit);
    free(text);
    free(out);
    return failed;
}
