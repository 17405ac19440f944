/* fuzz_chat.c: libFuzzer target for replies: what models write when nobody is looking.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DINFER_QUIET tests/fuzz/fuzz_chat.c -o fuzz_chat -lm
 *     ./fuzz_chat -max_len=4096 tests/fuzz/corpus_chat
 *
 * The first byte chooses the format, the second its reasoning and how the text is cut, the rest is the reply. Always: the
 * result is the same at once and in pieces; arguments are JSON objects, of calls with names; without calls, reasoning and
 * words that are dropped, nothing but white space is lost. */
#include "../text_parts.c"
#include <stdio.h>
#include <stdlib.h>

static void fuzz_stop(const char *what) {
    fprintf(stderr, "fuzz_chat: %s\n", what);
    abort();
}

/* The bytes of s that are no white space: compared, and counted. */
static size_t fuzz_solid(const char *s, size_t n, size_t *at) {
    while (*at < n && infer__chat_space(s[*at])) ++*at;
    return *at < n;
}
static int fuzz_same_solid(const char *a, size_t n, const char *b, size_t m) {
    size_t i = 0, k = 0;
    for (;;) {
        size_t more = fuzz_solid(a, n, &i);
        if (more != fuzz_solid(b, m, &k)) return 0;
        if (!more) return 1;
        if (a[i++] != b[k++]) return 0;
    }
}

static infer__chat_reader *fuzz_read(infer__mem *mem, const infer__chat_options *o, const char *text, size_t n,
                                     size_t step) {
    infer__chat_reader *p;
    size_t at;
    if (infer__chat_reader_open(&p, mem, o, NULL) != INFER_OK) fuzz_stop("a format does not open");
    for (at = 0; at < n; at += step) {
        size_t len = step < n - at ? step : n - at;
        char *piece = (char *)malloc(len);
        memcpy(piece, text + at, len);
        if (infer__chat_reader_feed(p, piece, len) != INFER_OK) fuzz_stop("feed failed");
        free(piece);
    }
    if (infer__chat_reader_finish(p) != INFER_OK) fuzz_stop("finish failed");
    return p;
}

static void fuzz_check(infer__mem *mem, infer__chat_reader *a, infer__chat_reader *b, const char *text, size_t n) {
    const infer_chat_reply *x = infer__chat_reader_reply(a), *y = infer__chat_reader_reply(b);
    size_t i;
    if (x->n_content != y->n_content || memcmp(x->content, y->content, x->n_content)) fuzz_stop("content by cut");
    if (x->n_reasoning != y->n_reasoning || memcmp(x->reasoning, y->reasoning, x->n_reasoning))
        fuzz_stop("reasoning by cut");
    if (x->n_calls != y->n_calls) fuzz_stop("calls by cut");
    for (i = 0; i < x->n_calls; i++) {
        const infer_chat_call *c = &x->calls[i], *d = &y->calls[i];
        infer__arena arena;
        const infer_json *v;
        memset(&arena, 0, sizeof arena);
        arena.mem = mem;
        if (strcmp(c->name, d->name) || strcmp(c->id, d->id) || strcmp(c->arguments, d->arguments))
            fuzz_stop("a call by cut");
        if (!c->name[0] || !c->id[0]) fuzz_stop("a call without a name");
        if (infer__json_parse(&v, &arena, c->arguments, c->n_arguments, NULL) != INFER_OK || v->kind != INFER_JSON_OBJECT)
            fuzz_stop("arguments");
        infer__arena_free(&arena);
    }
    if (x->n_calls == 0 && !strchr(a->name, '/') && !a->format->dropped &&
        !fuzz_same_solid(text, n, x->content, x->n_content))
        fuzz_stop("something was lost");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char TOOLS[] = "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{"
                                "\"type\":[\"integer\",\"null\"]},\"o\":{\"type\":\"object\"}}}}]";
    const infer__chat_format *format;
    const infer__chat_think *think;
    infer__chat_options o;
    infer__chat_reader *a, *b;
    infer__mem mem;
    char name[64];
    size_t n_formats = 0, n_thinks = 0, n;
    const char *text;
    if (size < 2) return 0;
    while (infer__chat_format_at(n_formats)) n_formats++;
    while (infer__chat_think_at(n_thinks)) n_thinks++;
    format = infer__chat_format_at(data[0] % n_formats);
    think = infer__chat_think_at((size_t)(data[1] & 15)); /* NULL past the end: none */
    snprintf(name, sizeof name, "%s%s%s", format->name, think ? "/" : "", think ? think->name : "");
    memset(&o, 0, sizeof o);
    infer__mem_init(&mem, NULL, 0);
    o.format = name;
    if (data[1] & 16) o.tools = TOOLS;
    if ((data[1] & 32) && think) {
        o.prompt = think->open;
        o.n_prompt = strlen(think->open);
    }
    text = (const char *)data + 2;
    n = size - 2;
    a = fuzz_read(&mem, &o, text, n, n + 1);
    b = fuzz_read(&mem, &o, text, n, 1 + (size_t)(data[1] >> 6));
    fuzz_check(&mem, a, b, text, n);
    infer__chat_reader_close(a);
    infer__chat_reader_close(b);
    if (infer__atomic_get(&mem.used) != 0) fuzz_stop("memory is left");
    return 0;
}
