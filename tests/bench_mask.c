/* bench_mask.c: what a grammar's mask costs: microseconds a token over the vocabulary of a model.
 *
 *     cc -O2 -Itests -DINFER_QUIET tests/bench_mask.c -o bench_mask -lm -lpthread -ldl
 *     ./bench_mask VOCAB.gguf [ROUNDS]
 *
 * Each case is a JSON Schema and a text that satisfies it. The text is cut into the vocabulary's tokens; for each of them the mask is
 * asked for and the token accepted, as generation does. "cold" is the first round with a new grammar, "warm" the median
 * of later rounds with other places of the matcher's masks still known; "places" the rounds after the first, with whole
 * masks forgotten: what a text costs that stands at places not seen before, in rules that were. */
#include "text_parts.c"
#include <stdio.h>
#include <stdlib.h>

/* schema NULL = any JSON */
static const struct { const char *name, *schema, *text; } CASES[] = {
    { "person",
      "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"age\": {\"type\": \"integer\"}, "
      "\"email\": {\"type\": \"string\"}, \"active\": {\"type\": \"boolean\"}}, \"required\": [\"name\", \"age\", "
      "\"email\", \"active\"], \"additionalProperties\": false}",
      "{\"name\": \"Ada Lovelace, Countess\", \"age\": 36, \"email\": \"ada.lovelace@example.org\", \"active\": true}" },
    { "people, lengths",
      "{\"type\": \"array\", \"maxItems\": 20, \"items\": {\"type\": \"object\", \"properties\": {\"name\": "
      "{\"type\": \"string\", \"minLength\": 1, \"maxLength\": 40}, \"bio\": {\"type\": \"string\", \"maxLength\": "
      "300}}, \"required\": [\"name\", \"bio\"], \"additionalProperties\": false}}",
      "[{\"name\": \"Grace Hopper\", \"bio\": \"Wrote the first compiler, and said that it is easier to ask "
      "forgiveness than to get permission; she was a rear admiral of the United States Navy.\"}, {\"name\": \"Edsger "
      "Dijkstra\", \"bio\": \"Shortest paths, semaphores, structured programming, and more than 1300 notes by hand "
      "\xe2\x80\x94 numbered EWD.\"}, {\"name\": \"Barbara Liskov\", \"bio\": \"\"}]" },
    { "order: enum, pattern, $ref, ranges",
      "{\"type\": \"object\", \"properties\": {\"order\": {\"type\": \"object\", \"properties\": {\"id\": {\"type\": "
      "\"integer\", \"minimum\": 1, \"maximum\": 999999999}, \"status\": {\"enum\": [\"pending\", \"shipped\", "
      "\"delivered\", \"cancelled\"]}}, \"required\": [\"id\", \"status\"], \"additionalProperties\": false}, "
      "\"items\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/item\"}}}, \"required\": [\"order\", "
      "\"items\"], \"additionalProperties\": false, \"$defs\": {\"item\": {\"type\": \"object\", \"properties\": "
      "{\"sku\": {\"type\": \"string\", \"pattern\": \"^[A-Z]{3}-[0-9]{4,8}$\"}, \"quantity\": {\"type\": "
      "\"integer\", \"minimum\": 1, \"maximum\": 1000}, \"price\": {\"type\": \"number\"}, \"tags\": {\"type\": "
      "\"array\", \"items\": {\"type\": \"string\"}}}, \"required\": [\"sku\", \"quantity\", \"price\"], "
      "\"additionalProperties\": false}}}",
      "{\"order\": {\"id\": 129381, \"status\": \"shipped\"}, \"items\": [{\"sku\": \"ABC-12345\", \"quantity\": 3, "
      "\"price\": 19.99, \"tags\": [\"fragile\", \"gift\"]}, {\"sku\": \"XYZ-0001\", \"quantity\": 1, \"price\": "
      "1.5e3}, {\"sku\": \"QRS-87654321\", \"quantity\": 12, \"price\": 0.07, \"tags\": []}]}" },
    { "any JSON",
      NULL,
      "{\"title\": \"A \\\"quoted\\\" title\", \"count\": 12.5e-3, \"list\": [1, 2, [3, [4, [5]]], {\"deep\": "
      "{\"er\": {\"est\": [true, false, null, \"caf\xc3\xa9"" \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\"]}}}], \"empty\": {}, \"text\": \"A longer run of "
      "words, as models write them when they are asked to explain something at length, with commas and full stops.\"}" },
    { "long string",
      "{\"type\": \"object\", \"properties\": {\"answer\": {\"type\": \"string\"}}, \"required\": [\"answer\"], "
      "\"additionalProperties\": false}",
      "{\"answer\": \"The mitochondrion is an organelle found in the cells of most eukaryotes, such as animals, "
      "plants and fungi. Mitochondria have a double membrane structure and use aerobic respiration to generate "
      "adenosine triphosphate, which is used throughout the cell as a source of chemical energy.\\nThey were "
      "discovered by Albert von K\xc3\xb6""lliker in 1857 in the voluntary muscles of insects.\"}" },
    { "uuid, date",
      "{\"type\": \"object\", \"properties\": {\"id\": {\"type\": \"string\", \"format\": \"uuid\"}, \"when\": "
      "{\"type\": \"string\", \"format\": \"date\"}, \"where\": {\"type\": [\"string\", \"null\"]}}, \"required\": "
      "[\"id\", \"when\", \"where\"], \"additionalProperties\": false}",
      "{\"id\": \"123e4567-e89b-12d3-a456-426614174000\", \"when\": \"2026-11-21\", \"where\": \"Z\xc3\xbc""rich, near the "
      "lake\"}" },
    { "tool call: anyOf",
      "{\"anyOf\": [{\"type\": \"object\", \"properties\": {\"name\": {\"const\": \"search\"}, \"arguments\": "
      "{\"type\": \"object\", \"properties\": {\"query\": {\"type\": \"string\"}, \"limit\": {\"type\": \"integer\", "
      "\"minimum\": 1, \"maximum\": 50}}, \"required\": [\"query\"], \"additionalProperties\": false}}, "
      "\"required\": [\"name\", \"arguments\"], \"additionalProperties\": false}, {\"type\": \"object\", "
      "\"properties\": {\"name\": {\"const\": \"open_page\"}, \"arguments\": {\"type\": \"object\", \"properties\": "
      "{\"url\": {\"type\": \"string\", \"maxLength\": 200}}, \"required\": [\"url\"], \"additionalProperties\": "
      "false}}, \"required\": [\"name\", \"arguments\"], \"additionalProperties\": false}]}",
      "{\"name\": \"search\", \"arguments\": {\"query\": \"weather in Lisbon tomorrow\", \"limit\": 5}}" },
};

enum { MAX_TOKENS = 4096, MAX_ROUNDS = 200 };
static double times[MAX_TOKENS * MAX_ROUNDS];

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void show(const char *what, double *t, int n) {
    double sum = 0;
    int i;
    for (i = 0; i < n; i++) sum += t[i];
    qsort(t, (size_t)n, sizeof *t, by_value);
    printf("  %-7s mean %8.1f  median %8.1f  p99 %8.1f  max %8.1f us\n", what, sum / n, t[n / 2], t[(int)(n * 0.99)], t[n - 1]);
}

/* One round over the tokens; 0 = an error. */
static int walk(infer__matcher *m, const infer_token *ids, int n, double *t) {
    infer_error err;
    int i;
    infer__matcher_reset(m);
    for (i = 0; i < n; i++) {
        const uint32_t *bits;
        double begin = infer__seconds();
        infer_result r = infer__matcher_mask(m, &bits, &err);
        if (r == INFER_OK && bits[ids[i] >> 5] >> (ids[i] & 31) & 1) r = infer__matcher_accept(m, ids[i], &err);
        else if (r == INFER_OK) r = infer__error(&err, INFER_ERR_STATE, "token %d (number %d) is not allowed", (int)ids[i], i);
        t[i] = (infer__seconds() - begin) * 1e6;
        if (r != INFER_OK) { fprintf(stderr, "%s\n", err.message); return 0; }
    }
    return 1;
}

static void forget_masks(infer_grammar *g) {
    uint32_t i;
    for (i = 0; i < g->masks.n_masks; i++) {
        if (g->masks.masks[i].state >= 0) g->states.states[g->masks.masks[i].state].mask = -1;
        g->masks.masks[i].state = -1;
    }
}

int main(int argc, char **argv) {
    static infer_token ids[MAX_TOKENS];
    infer__mem mem;
    infer__gguf g;
    infer__tokenizer *t;
    infer_error err;
    int rounds = argc > 2 ? atoi(argv[2]) : 20, r, bad = 0;
    size_t k;
    if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS) return 2;
    infer__mem_init(&mem, NULL, 0);
    if (infer__gguf_open_path(&g, &mem, NULL, argv[1], 1, &err) != INFER_OK ||
        infer__tokenizer_open(&t, &mem, NULL, &g, NULL, &err) != INFER_OK) { fprintf(stderr, "%s\n", err.message); return 1; }
    printf("%s: %d tokens\n", argv[1], (int)infer__tokenizer_size(t));
    for (k = 0; k < sizeof CASES / sizeof CASES[0]; k++) {
        infer_grammar_params p;
        infer_grammar *gr;
        infer__matcher *m;
        size_t n = 0;
        double begin = infer__seconds(), opened, prepared;
        memset(&p, 0, sizeof p);
        p.schema = CASES[k].schema;
        p.json = CASES[k].schema == NULL;
        if (infer__tokenize(t, &mem, CASES[k].text, strlen(CASES[k].text), 0, ids, MAX_TOKENS, &n, &err) != INFER_OK ||
            infer__grammar_open(&gr, &mem, t, &p, &err) != INFER_OK) { fprintf(stderr, "%s: %s\n", CASES[k].name, err.message); return 1; }
        opened = infer__seconds();
        infer__grammar_prepare(gr, &err);
        prepared = infer__seconds();
        infer__matcher_open(&m, gr, &err);
        printf("%s: %d tokens, compiled in %.2f ms, vocabulary in %.1f ms\n", CASES[k].name, (int)n, (opened - begin) * 1e3, (prepared - opened) * 1e3);
        if (!walk(m, ids, (int)n, times)) { bad = 1; continue; }
        show("cold", times, (int)n);
        for (r = 0; r < rounds; r++) { forget_masks(gr); walk(m, ids, (int)n, times + (size_t)r * n); }
        show("places", times, (int)n * rounds);
        walk(m, ids, (int)n, times);
        for (r = 0; r < rounds; r++) walk(m, ids, (int)n, times + (size_t)r * n);
        show("warm", times, (int)n * rounds);
        printf("  %u states, %u frames, %u local masks, caches %.2f MB\n", gr->states.n_states, gr->states.n_frames, gr->masks.n_locals,
               (double)infer__grammar_cached(gr) / 1e6);
        infer__matcher_close(m);
        infer__grammar_close(gr);
    }
    infer__tokenizer_close(t);
    infer__gguf_close(&g);
    return bad;
}
