/* schema_tool.c: JSON Schemas by the hundred, for tests/cli/test_schema.py. Reads lines, answers each with one:
 *
 *     S SCHEMA    make a grammar of it                           ok | error CODE MESSAGE
 *     T HEX       does the last one accept this text (in hex)?   1 | 0 | error CODE MESSAGE
 *     R SEED      a random text of the last grammar              HEX | long | stuck | error ...
 *     G           the last grammar as GBNF, line breaks as \x1e  TEXT
 */
#include "text_parts.c"
#include <stdio.h>
#include <stdlib.h>

static char tool_line[4 << 20];

static int tool_hex(char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; }

static void tool_test(infer_grammar *g, const char *hex) {
    size_t n = strlen(hex) / 2, i, accepted;
    char *text = (char *)malloc(n + 1);
    infer__matcher *m = NULL;
    infer_error err;
    infer_result r;
    for (i = 0; text && i < n; i++) text[i] = (char)(tool_hex(hex[2 * i]) << 4 | tool_hex(hex[2 * i + 1]));
    r = g ? infer__matcher_open(&m, g, &err) : infer__error(&err, INFER_ERR_STATE, "no grammar");
    if (r == INFER_OK) r = infer__matcher_check(m, text, n, &accepted, &err);
    if (r == INFER_OK) printf("%d\n", accepted == n && infer__matcher_complete(m));
    else printf("error %d %s\n", (int)r, err.message);
    if (m) infer__matcher_close(m);
    free(text);
}

/* A walk by bytes: any that is allowed, from step 80 on one that closes something when there is one. */
static void tool_random(infer_grammar *g, uint64_t seed) {
    enum { STEPS = 2000, CLOSE = 80 };
    static char text[STEPS];
    infer__matcher *m = NULL, *at = NULL;
    infer_error err;
    infer_result r = g ? infer__matcher_open(&m, g, &err) : infer__error(&err, INFER_ERR_STATE, "no grammar");
    size_t n = 0, i, accepted;
    if (r == INFER_OK) r = infer__matcher_open(&at, g, &err);
    while (r == INFER_OK && n < STEPS) {
        char best = 0;
        uint64_t most = 0;
        int done = infer__matcher_complete(m);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (done && (n >= CLOSE || (seed >> 60) < 4)) break;
        for (i = 0; i < 256 && r == INFER_OK; i++) {
            char b = (char)i;
            uint64_t rank;
            r = infer__matcher_copy(at, m, &err);
            if (r == INFER_OK) r = infer__matcher_check(at, &b, 1, &accepted, &err);
            if (r != INFER_OK || accepted != 1) continue;
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            rank = (seed >> 24) + 1;
            if (i >= 0x80) rank /= 16; /* else most of a string is not ASCII */
            if (n >= CLOSE && strchr("\"]}", b) && b) rank += (uint64_t)1 << 45;
            if (rank <= most) continue;
            most = rank;
            best = b;
        }
        if (most == 0) break;
        text[n++] = best;
        if (r == INFER_OK) r = infer__matcher_check(m, &best, 1, &accepted, &err);
    }
    if (r != INFER_OK) printf("error %d %s", (int)r, err.message);
    else if (!infer__matcher_complete(m)) printf(n == STEPS ? "long" : "stuck");
    else for (i = 0; i < n; i++) printf("%02x", (uint8_t)text[i]);
    printf("\n");
    if (m) infer__matcher_close(m);
    if (at) infer__matcher_close(at);
}

int main(void) {
    infer_grammar *g = NULL;
    infer__mem mem;
    infer__bytes gbnf;
    infer__mem_init(&mem, NULL, 0);
    memset(&gbnf, 0, sizeof gbnf);
    gbnf.mem = &mem;
    while (fgets(tool_line, sizeof tool_line, stdin)) {
        char *arg = tool_line + 2;
        infer_grammar_params p;
        infer_error err;
        infer_result r;
        size_t i, n = strlen(tool_line);
        if (n && tool_line[n - 1] == '\n') tool_line[n - 1] = 0;
        if (tool_line[0] == 'S') {
            if (g) infer__grammar_close(g);
            g = NULL;
            infer__bytes_free(&gbnf);
            memset(&p, 0, sizeof p);
            r = infer__schema_gbnf(&gbnf, &mem, NULL, arg, strlen(arg), &err);
            p.schema = arg;
            if (r == INFER_OK) r = infer__grammar_open(&g, &mem, NULL, &p, &err);
            if (r == INFER_OK) printf("ok\n");
            else printf("error %d %s\n", (int)r, err.message);
        } else if (tool_line[0] == 'T') tool_test(g, n > 2 ? arg : "");
        else if (tool_line[0] == 'R') tool_random(g, (uint64_t)strtoul(arg, NULL, 10));
        else if (tool_line[0] == 'G') {
            for (i = 0; i < gbnf.n; i++) putchar(gbnf.s[i] == '\n' ? 0x1e : gbnf.s[i]);
            putchar('\n');
        }
        fflush(stdout);
    }
    if (g) infer__grammar_close(g);
    infer__bytes_free(&gbnf);
    return 0;
}
