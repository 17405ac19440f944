/* test_grammar.c: GBNF, the states of a grammar, masks over vocabularies, lazy grammars, the sampler's stage. */
#include "grammar_vocab.h"

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static infer_grammar *gram_open(const char *gbnf, const infer__tokenizer *t, infer_error *err) {
    infer_grammar_params p;
    infer_grammar *g;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.gbnf = gbnf;
    r = infer__grammar_open(&g, NULL, t, &p, err);
    CHECK((r == INFER_OK) == (g != NULL));
    return g;
}

/* 1 = accepted whole, 0 = not, and *bytes = what was accepted. */
static int gram_accepts(infer_grammar *g, const char *text, size_t n, size_t *bytes) {
    infer__matcher *m;
    infer_error err;
    int yes;
    if (infer__matcher_open(&m, g, &err) != INFER_OK) return -1;
    if (infer__matcher_check(m, text, n, bytes, &err) != INFER_OK) { check_note(__FILE__, __LINE__, err.message); *bytes = 0; }
    yes = *bytes == n && infer__matcher_complete(m);
    infer__matcher_close(m);
    return yes;
}

/* texts: "yes\0yes\0\0" lists end with an empty text; the empty text itself is written "\x01". */
static void gram_check_texts(const char *gbnf, const char *const *yes, const char *const *no) {
    infer_error err;
    infer_grammar *g = gram_open(gbnf, NULL, &err);
    size_t bytes;
    check_detail = gbnf;
    if (!g) {
        check_note(__FILE__, __LINE__, err.message);
        return;
    }
    for (; *yes; yes++) {
        if (gram_accepts(g, *yes, strlen(*yes), &bytes) == 1) continue;
        fprintf(stderr, "  text: %s, accepted %u bytes\n", *yes, (unsigned)bytes);
        check_note(__FILE__, __LINE__, "a text of the grammar is refused");
    }
    for (; *no; no++) {
        if (gram_accepts(g, *no, strlen(*no), &bytes) == 0) continue;
        fprintf(stderr, "  text: %s\n", *no);
        check_note(__FILE__, __LINE__, "a text that is none of the grammar's is accepted");
    }
    infer__grammar_close(g);
}
#define LIST(...) (const char *const[]){ __VA_ARGS__, NULL }

static void test_grammar_texts(void) {
    gram_check_texts("root ::= \"a\"", LIST("a"), LIST("", "b", "aa", "ab"));
    gram_check_texts("root ::= \"\"", LIST(""), LIST("a"));
    gram_check_texts("root ::=", LIST(""), LIST("a"));
    gram_check_texts("root ::= \"ab\" | \"ac\" |", LIST("", "ab", "ac"), LIST("a", "abac"));
    gram_check_texts("root ::= \"a\\n\\r\\t\\\\\\\"\\x41\\u00e9\\U0001F600\"", LIST("a\n\r\t\\\"A\xc3\xa9\xf0\x9f\x98\x80"), LIST("a"));
    gram_check_texts("root ::= [a-cx] [^a-c\\]] [-a] [a-] [\\]\\[] [\\^]", LIST("bd--]^", "xzaa[^"), LIST("b]--]^", "dd--]^", "bdb-]^", "bd--^]"));
    gram_check_texts("root ::= .", LIST("a", "\n", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf", "\xee\x80\x80"),
                     LIST("", "\xc3", "\xa9", "\xed\xa0\x80", "\xc0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "ab"));
    gram_check_texts("root ::= [^\\x00-\\x7F]+", LIST("\xc2\x80", "\xc3\xa9\xe2\x82\xac", "\xf0\x9f\x98\x80"), LIST("a", "\xc3\xa9z", "\x7f"));
    gram_check_texts("root ::= [\xc3\xa0-\xc3\xbf\xe2\x82\xac]*", LIST("", "\xc3\xa0\xc3\xbf", "\xe2\x82\xac"), LIST("\xc3\x9f", "\xe2\x82\xad"));
    gram_check_texts("root ::= \"a\"* \"b\"+ \"c\"?", LIST("b", "aaabbbc", "bc"), LIST("", "ac", "abcc"));
    gram_check_texts("root ::= \"ab\"{2}", LIST("abab"), LIST("", "ab", "ababab"));
    gram_check_texts("root ::= \"ab\"{2,}", LIST("abab", "ababab", "abababab"), LIST("", "ab", "ababa"));
    gram_check_texts("root ::= \"ab\"{0,2}", LIST("", "ab", "abab"), LIST("ababab"));
    gram_check_texts("root ::= \"ab\"{1,3} \"c\"", LIST("abc", "ababc", "abababc"), LIST("c", "ababababc", "ab"));
    gram_check_texts("root ::= \"a\"{0}", LIST(""), LIST("a"));
    gram_check_texts("root ::= \"a\"{ 1 , 2 }", LIST("a", "aa"), LIST("", "aaa"));
    gram_check_texts("root ::= (\"a\" | \"b\"\n # comment\n \"c\")+", LIST("a", "bc", "abcbca"), LIST("", "b", "ac"));
    gram_check_texts("# first\n\nroot ::= x | # behind a bar\n  \"z\"\nx ::= \"x\" y-1_A # last\ny-1_A ::= \"y\"", LIST("xy", "z"), LIST("x", "xz"));
    gram_check_texts("root ::= \"(\" root \")\" | \"\"", LIST("", "()", "((()))"), LIST("(", "())"));
    gram_check_texts("root ::= s\ns ::= \"a\" s \"b\" s | \"\"", LIST("", "ab", "aabb", "abab", "aababbab"), LIST("a", "ba", "aab"));
    gram_check_texts("root ::= (\"a\"*)* \"b\"", LIST("b", "aaaab"), LIST("aaaa", "ba"));
    gram_check_texts("root ::= (\"a\"? \"b\"?){2,3}", LIST("", "a", "ab", "abab", "ababab", "aaa", "bbb"), LIST("abababa", "aaaa", "c"));
    gram_check_texts("root ::= ((\"a\"? \"b\"?){2,40}){3,30} \"c\"", LIST("c", "abababc", "aaabbbc"), LIST("", "ca"));
    gram_check_texts("root ::= x{2,3} x{2,3}\nx ::= [a-z]{8,30} \",\"", LIST("aaaaaaaa,bbbbbbbb,cccccccc,dddddddd,", "abcdefghijkl,aaaaaaaaaaa,aaaaaaaaaaa,aaaaaaaaaaaaa,aaaaaaaaaaaaaaaaa,aaaaaaaaaaaaaaa,"),
                     LIST("aaaaaaaa,aaaaaaaa,aaaaaaaa,", "aaaaaaa,"));
}

static void test_grammar_errors(void) {
    static const struct { const char *gbnf, *what; } cases[] = {
        { "", "there is no rule 'root'" }, { "x ::= \"a\"", "there is no rule 'root'" },
        { "root ::= x", "line 1 column 10: rule 'x' is not defined" },
        { "root ::= \"a\"\n  root ::= \"b\"", "line 2 column 3: rule 'root' is defined twice" },
        { "root ::= \"a", "line 1 column 10: the literal has no closing quote" },
        { "root ::= [a", "the set has no ']'" }, { "root ::= []", "an empty set" }, { "root ::= [^]", "an empty set" },
        { "root ::= [^\\x00-\\U0010FFFF]", "an empty set" }, { "root ::= [^\\x00-\\uD7FF\\uE000-\\U0010FFFF]", "an empty set" },
        { "root ::= [b-a]", "a range that ends" }, { "root ::= \"\\q\"", "unknown escape" }, { "root ::= \"\\x4\"", "2 hexadecimal" },
        { "root ::= \"\\uD800\"", "no character" }, { "root ::= \"\\U00110000\"", "no character" }, { "root ::= \"\xff\"", "invalid UTF-8" },
        { "root ::= (\"a\"", "')' is expected" }, { "root ::= \"a\")", "cannot stand here" }, { "root ::= *", "cannot stand here" },
        { "root \"a\"", "'::=' is expected" }, { "root ::= \"a\"{2", "'}' is expected" }, { "root ::= \"a\"{2,1}", "ends before" },
        { "root ::= \"a\"{x}", "a number" }, { "root ::= \"a\"{1000001}", "more than 1000000" }, { "root ::= \"a\"{99999999999999999999}", "more than" },
        { "::= \"a\"", "the name of a rule" }, { "root ::= \"a\" ! \"b\"", "'<' is expected" }, { "root ::= <think>", "needs a model" },
        { "root ::= <[1]", "no '>'" }, { "root ::= <[x]>", "no token" }, { "root ::= <[]>", "no token" },
        { "root ::= root \"a\" | \"b\"", "rule 'root' begins with itself" },
        { "root ::= x \"a\" | \"b\"\nx ::= y? z\ny ::= \"q\"\nz ::= root \"c\"", "begins with itself" },
        { "root ::= (\"a\"? root){0,100} \"b\"", "begins with itself" },
        { "root ::= \"a\" root", "rule 'root' never ends" }, { "root ::= \"a\" | x\nx ::= \"(\" x \")\" | \"b\" x", "rule 'x' never ends" } };
    size_t i;
    infer_error err;
    char *deep = (char *)malloc(2000);
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        infer_grammar *g = gram_open(cases[i].gbnf, NULL, &err);
        check_detail = cases[i].gbnf;
        CHECK(g == NULL && err.code == INFER_ERR_FORMAT);
        CHECK_HAS(err.message, cases[i].what);
        infer__grammar_close(g);
    }
    strcpy(deep, "root ::= ");
    memset(deep + 9, '(', 900);
    strcpy(deep + 909, "\"a\"");
    CHECK(gram_open(deep, NULL, &err) == NULL);
    CHECK_HAS(err.message, "too many parentheses");
    free(deep);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

typedef struct gram_file {
    infer__mem mem;
    infer__gguf g;
    infer__tokenizer *t;
} gram_file;
static int gram_vocab(gram_file *f, const char *path) {
    infer__tokenizer_options options;
    infer_error err;
    memset(f, 0, sizeof *f);
    memset(&options, 0, sizeof options);
    options.allow_default_pre = 1;
    infer__mem_init(&f->mem, NULL, 0);
    if (infer__gguf_open_path(&f->g, &f->mem, NULL, path, 1, &err) != INFER_OK) return 0;
    if (infer__tokenizer_open(&f->t, &f->mem, NULL, &f->g, &options, &err) == INFER_OK) return 1;
    infer__gguf_close(&f->g);
    return 0;
}
static void gram_vocab_close(gram_file *f) {
    infer__tokenizer_close(f->t);
    infer__gguf_close(&f->g);
    CHECK(infer__atomic_get(&f->mem.used) == 0);
}

/* The mask of a matcher's state by definition: every token is tried, `skip` - 1 of `skip` are left out. */
static int gram_mask_right(infer__matcher *m, const infer__tokenizer *t, uint32_t skip, uint32_t from) {
    const uint32_t *bits;
    infer__matcher *probe;
    infer_error err;
    int32_t i, n = infer__tokenizer_size(t), bad = 0;
    uint32_t *copy;
    if (infer__matcher_mask(m, &bits, &err) != INFER_OK || !bits) {
        check_note(__FILE__, __LINE__, err.message);
        return 0;
    }
    copy = (uint32_t *)malloc(((size_t)n / 32 + 1) * 4);
    memcpy(copy, bits, ((size_t)n / 32 + 1) * 4);
    infer__matcher_open(&probe, m->grammar, &err);
    for (i = (int32_t)(from % skip); i < n; i += (int32_t)skip) {
        int allowed;
        infer__matcher_copy(probe, m, &err);
        allowed = infer__matcher_accept(probe, i, &err) == INFER_OK;
        if (allowed == (int)(copy[i >> 5] >> (i & 31) & 1)) continue;
        if (bad++ < 5) fprintf(stderr, "  token %d is %s, the mask says otherwise\n", (int)i, allowed ? "allowed" : "not allowed");
    }
    CHECK((n & 31) == 0 || (copy[n >> 5] >> (n & 31)) == 0);
    infer__matcher_close(probe);
    free(copy);
    return bad == 0;
}

static uint64_t gram_seed = 1;
static uint32_t gram_random(uint32_t n) {
    gram_seed = gram_seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((gram_seed >> 33) % n);
}

/* A token that the mask allows, -1 = none. */
static int32_t gram_pick(const uint32_t *bits, int32_t n) {
    int32_t start = (int32_t)gram_random((uint32_t)n), i;
    for (i = 0; i < n; i++) {
        int32_t t = (start + i) % n;
        if (bits[t >> 5] >> (t & 31) & 1) return t;
    }
    return -1;
}

static const char *const GRAM_MASKS[] = {
    "root ::= \"yes\" | \"no\" | \"maybe\"",
    "root ::= [a-z]+ (\" \" [a-z]+)* \".\"",
    "root ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" .)* \"\\\"\"",
    "root ::= \"[\" item (\", \" item){0,9} \"]\"\nitem ::= \"\\\"\" [a-z ]{3,20} \"\\\"\" | [0-9]{1,3}",
    "root ::= e\ne ::= t ([-+] t)*\nt ::= [0-9]+ | \"(\" e \")\"",
    "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\" s \"a\" | [a-z ]",
    "root ::= [^\\x00-\\x7F]{2,50} \"!\"",
    "root ::= .{0,12}",
    "root ::= x x x\nx ::= .{1,30} \" \"",
    "root ::= (\"a\" | \"aa\" | \"the\"){10,40} \"\\n\"",
    "root ::= <[5]> [a-z]* !<[7]> \"x\" | \"the\" .*",
};

static void gram_check_masks(const char *path, int walks, int length, uint32_t skip) {
    gram_file f;
    infer_error err;
    size_t k;
    int w, i;
    if (!gram_vocab(&f, path)) {
        check_note(__FILE__, __LINE__, path);
        return;
    }
    for (k = 0; k <= sizeof GRAM_MASKS / sizeof GRAM_MASKS[0]; k++) {
        int json = k == sizeof GRAM_MASKS / sizeof GRAM_MASKS[0];
        infer_grammar *g;
        infer__matcher *m;
        check_detail = json ? "json" : GRAM_MASKS[k];
        g = gram_open(json ? INFER__JSON_GBNF : GRAM_MASKS[k], f.t, &err);
        if (!g) {
            check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        infer__matcher_open(&m, g, &err);
        for (w = 0; w < walks; w++) {
            infer__matcher_reset(m);
            for (i = 0; i < length; i++) {
                const uint32_t *bits;
                int32_t t;
                if (!gram_mask_right(m, f.t, skip, gram_random(skip))) break;
                CHECK(infer__matcher_mask(m, &bits, &err) == INFER_OK);
                t = gram_pick(bits, infer__tokenizer_size(f.t));
                if (t < 0 || (infer__token_flags(f.t, t) & INFER_TOKEN_END)) break;
                if (infer__matcher_accept(m, t, &err) != INFER_OK) check_note(__FILE__, __LINE__, err.message);
            }
        }
        infer__matcher_close(m);
        infer__grammar_close(g);
    }
    gram_vocab_close(&f);
}

static void test_grammar_masks_small(void) { gram_check_masks(check_data("vocab-bpe-small.gguf"), 6, 12, 1); }
static void test_grammar_masks_large(void) {
    static const char *const names[] = { "vocabs/ggml-vocab-llama-bpe.gguf", "vocabs/ggml-vocab-llama-spm.gguf", "vocabs/ggml-vocab-qwen2.gguf" };
    size_t i;
    for (i = 0; i < 3; i++) {
        const char *path = check_reference(names[i]);
        if (!path) SKIP("needs INFER_TEST_DATA: vocabularies");
        gram_check_masks(path, 2, 12, 7);
    }
}


/* ---- random grammars against a matcher of sets of ends ----------------------------------------------------------------- */

/* Small grammars over a, b and a character of two bytes, as trees; texts of up to 14 characters, so that a set of places in a
 * text fits 16 bits. */
enum { RG_CHAR, RG_SEQ, RG_ALT, RG_REPEAT, RG_RULE, RG_EMPTY };
typedef struct rg_node { int kind, a, b, least, most; } rg_node;
typedef struct rg_grammar {
    rg_node x[200];
    int n, rules[4];
    uint16_t memo[4][16];
    uint8_t known[4][16]; /* 1 = being computed, 2 = done */
    const uint8_t *text;  /* characters 0, 1, 2 */
    int len, open;        /* open: some character was expected at the end of the text */
    int left_recursion;
} rg_grammar;

static int rg_make(rg_grammar *g, int depth, int rule) {
    int me = g->n++;
    rg_node x;
    memset(&x, 0, sizeof x);
    if (depth == 0 || g->n > 150) x.kind = gram_random(8) ? RG_CHAR : RG_EMPTY;
    else x.kind = (int)gram_random(5);
    if (x.kind == RG_RULE && depth > 3) x.kind = RG_SEQ;
    switch (x.kind) {
    case RG_CHAR: x.a = (int)gram_random(7) + 1; break; /* bits: which characters */
    case RG_SEQ:
    case RG_ALT:
        x.a = rg_make(g, depth - 1, rule);
        x.b = rg_make(g, depth - 1, rule);
        break;
    case RG_REPEAT: {
        static const int bounds[][2] = { { 0, -1 }, { 1, -1 }, { 0, 1 }, { 2, 2 }, { 0, 3 }, { 2, -1 }, { 3, 5 }, { 1, 9 }, { 0, 40 }, { 4, 60 }, { 30, -1 } };
        int k = (int)gram_random(11);
        x.least = bounds[k][0];
        x.most = bounds[k][1];
        x.a = rg_make(g, depth - 1, rule);
        break;
    }
    case RG_RULE: x.a = (int)gram_random(4); break;
    default: break;
    }
    g->x[me] = x;
    return me;
}

static void rg_print(const rg_grammar *g, int i, char *out) {
    const rg_node *x = &g->x[i];
    static const char *const sets[] = { "", "\"a\"", "[b]", "[a-b]", "\"\\u00e9\"", "[a\xc3\xa9]", "[b\\xE9]", "[ab\xc3\xa9]" };
    char *end = out + strlen(out);
    switch (x->kind) {
    case RG_CHAR: sprintf(end, "%s ", sets[x->a]); break;
    case RG_EMPTY: strcat(out, "\"\" "); break;
    case RG_RULE: sprintf(end, "r%d ", x->a); break;
    case RG_REPEAT:
        strcat(out, "(");
        rg_print(g, x->a, out);
        end = out + strlen(out);
        if (x->least == 0 && x->most == 1) strcat(out, ")? ");
        else if (x->most < 0 && x->least < 2) strcat(out, x->least ? ")+ " : ")* ");
        else if (x->most < 0) sprintf(end, "){%d,} ", x->least);
        else if (x->most == x->least) sprintf(end, "){%d} ", x->least);
        else sprintf(end, "){%d,%d} ", x->least, x->most);
        break;
    default:
        strcat(out, "(");
        rg_print(g, x->a, out);
        if (x->kind == RG_ALT) strcat(out, "| ");
        rg_print(g, x->b, out);
        strcat(out, ") ");
    }
}

/* Where a match of x that begins at `at` may end: a bit per place. */
static uint16_t rg_match(rg_grammar *g, int i, int at) {
    const rg_node *x = &g->x[i];
    uint16_t out = 0, step, from;
    int k, e;
    switch (x->kind) {
    case RG_EMPTY: return (uint16_t)(1u << at);
    case RG_CHAR:
        if (at == g->len) { g->open = 1; return 0; }
        return x->a >> g->text[at] & 1 ? (uint16_t)(1u << (at + 1)) : 0;
    case RG_ALT: return rg_match(g, x->a, at) | rg_match(g, x->b, at);
    case RG_SEQ:
        from = rg_match(g, x->a, at);
        for (e = at; e <= g->len; e++) if (from >> e & 1) out |= rg_match(g, x->b, e);
        return out;
    case RG_REPEAT:
        from = (uint16_t)(1u << at);
        if (x->least == 0) out = from;
        for (k = 1; from && (x->most < 0 ? k <= x->least + 17 : k <= x->most); k++) {
            step = 0;
            for (e = at; e <= g->len; e++) if (from >> e & 1) step |= rg_match(g, x->a, e);
            if (k >= x->least) out |= step;
            if (step == from && k > x->least) break;
            from = step;
        }
        return out;
    default:
        if (g->known[x->a][at] == 2) return g->memo[x->a][at];
        if (g->known[x->a][at] == 1) { g->left_recursion = 1; return 0; }
        g->known[x->a][at] = 1;
        out = rg_match(g, g->rules[x->a], at);
        g->known[x->a][at] = 2;
        g->memo[x->a][at] = out;
        return out;
    }
}

static void test_grammar_random(void) {
    static char text[20000];
    static rg_grammar g;
    int round, t, i, refused = 0, checked = 0, accepted = 0;
    for (round = 0; round < 1500; round++) {
        infer_error err;
        infer_grammar *gr;
        memset(&g, 0, sizeof g);
        strcpy(text, "root ::= r0\n");
        gram_seed = (uint64_t)round * 7919 + 1;
        for (i = 0; i < 4; i++) {
            g.rules[i] = rg_make(&g, 1 + (int)gram_random(4), i);
            sprintf(text + strlen(text), "r%d ::= ", i);
            rg_print(&g, g.rules[i], text);
            strcat(text, "\n");
        }
        check_detail = text;
        gr = gram_open(text, NULL, &err);
        if (!gr) {
            refused++;
            if (!strstr(err.message, "begins with itself") && !strstr(err.message, "never ends")) check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        for (t = 0; t < 40; t++) {
            uint8_t chars[15];
            char utf8[32];
            int n = 0, full, viable = -1, len = (int)gram_random(15), got;
            size_t bytes, place[16];
            for (i = 0; i < len; i++) {
                chars[i] = (uint8_t)gram_random(3);
                place[i] = (size_t)n;
                if (chars[i] == 2) { utf8[n++] = '\xc3'; utf8[n++] = '\xa9'; }
                else utf8[n++] = (char)('a' + chars[i]);
            }
            place[len] = (size_t)n;
            for (i = 0, full = 0; i <= len; i++) { /* prefixes: which can still become a text of the grammar? */
                g.text = chars;
                g.len = i;
                g.open = 0;
                memset(g.known, 0, sizeof g.known);
                full = rg_match(&g, g.rules[0], 0) >> i & 1;
                if (full || g.open) viable = i;
                else break;
            }
            CHECK(!g.left_recursion);
            full = viable == len && full;
            got = gram_accepts(gr, utf8, (size_t)n, &bytes);
            checked++;
            accepted += full;
            /* after the last character that may stand there the first byte of the next may still be right */
            if (got == full && viable >= 0 && bytes >= place[viable] && (viable == len || bytes < place[viable + 1])) continue;
            fprintf(stderr, "  text %.*s: %d of %d characters, %s; got %u bytes, %d\n", n, utf8, viable, len, full ? "whole" : "not whole", (unsigned)bytes, got);
            check_note(__FILE__, __LINE__, "a text of a random grammar");
            break;
        }
        infer__grammar_close(gr);
        if (check_bad > 3) break;
    }
    check_detail = "";
    CHECK(checked > 20000 && accepted > 1000 && refused < 1000);
}

/* Masks of random grammars over the small vocabulary, by definition. */
static int gram_small(gram_file *f, infer__tokenizer **t) {
    static uint8_t *bytes;
    size_t n;
    infer_error err;
    memset(f, 0, sizeof *f);
    infer__mem_init(&f->mem, NULL, 0);
    free(bytes);
    bytes = grammar_vocab(&n);
    if (infer__gguf_open_memory(&f->g, &f->mem, NULL, bytes, n, &err) != INFER_OK) return 0;
    if (infer__tokenizer_open(t, &f->mem, NULL, &f->g, NULL, &err) != INFER_OK) return 0;
    f->t = *t;
    return 1;
}

static void test_grammar_random_masks(void) {
    static char text[20000];
    static rg_grammar g;
    gram_file f;
    infer__tokenizer *t;
    infer_error err;
    int round, i, checked = 0;
    if (!gram_small(&f, &t)) { CHECK(0); return; }
    for (round = 0; round < 400 && check_bad < 3; round++) {
        infer_grammar *gr;
        infer__matcher *m;
        memset(&g, 0, sizeof g);
        strcpy(text, "root ::= r0\n");
        gram_seed = (uint64_t)round * 104729 + 5;
        for (i = 0; i < 4; i++) {
            g.rules[i] = rg_make(&g, 1 + (int)gram_random(4), i);
            sprintf(text + strlen(text), "r%d ::= ", i);
            rg_print(&g, g.rules[i], text);
            strcat(text, "\n");
        }
        check_detail = text;
        gr = gram_open(text, t, &err);
        if (!gr) continue;
        infer__matcher_open(&m, gr, &err);
        for (i = 0; i < 25; i++) {
            const uint32_t *bits;
            int32_t token;
            if (!gram_mask_right(m, t, 1, 0)) break;
            checked++;
            if (gram_random(10) == 0) gr->states.trim_at = 0; /* states are forgotten with the next call */
            CHECK(infer__matcher_mask(m, &bits, &err) == INFER_OK);
            token = gram_pick(bits, infer__tokenizer_size(t));
            if (token < 0 || token == GRAMMAR_END) infer__matcher_reset(m);
            else CHECK(infer__matcher_accept(m, token, &err) == INFER_OK);
        }
        infer__matcher_close(m);
        infer__grammar_close(gr);
    }
    check_detail = "";
    CHECK(checked > 2000);
    gram_vocab_close(&f);
}

/* ---- hostile grammars ------------------------------------------------------------------------------------------------------ */

/* Texts that take lists of stacks exponential time: time here is bounded by the number of items, and states by the text. */
static void test_grammar_hostile(void) {
    static const char *const grammars[] = {
        "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\" s \"a\" | \"a\"",
        "root ::= (\"a\"*)*", "root ::= ((\"a\"?){0,1000}){0,1000}", "root ::= (\"a\"? (\"a\"? (\"a\"?)*)*)*",
        "root ::= s s s s s s s\ns ::= \"a\" s | \"a\" | \"\"", "root ::= x{0,1000000}\nx ::= \"a\" | \"aa\" | \"aaa\" y?\ny ::= \"a\" root | \"a\"" };
    size_t i, bytes;
    char *text = (char *)malloc(3000);
    memset(text, 'a', 3000);
    for (i = 0; i < sizeof grammars / sizeof grammars[0]; i++) {
        infer_error err;
        infer_grammar *g = gram_open(grammars[i], NULL, &err);
        infer__matcher *m;
        infer_result r;
        check_detail = grammars[i];
        if (!g) { check_note(__FILE__, __LINE__, err.message); continue; }
        infer__matcher_open(&m, g, &err);
        r = infer__matcher_check(m, text, i == 0 || i == 5 ? 300 : 3000, &bytes, &err);
        CHECK(r == INFER_OK ? bytes == (i == 0 || i == 5 ? 300u : 3000u) : r == INFER_ERR_STATE);
        if (i < 2 || i == 4) CHECK(r == INFER_OK);
        infer__matcher_close(m);
        infer__grammar_close(g);
    }
    {   /* "a"? 300 times, then a whole text: 300 items at most */
        static char many[4000] = "root ::= ";
        infer_error err;
        infer_grammar *g;
        for (i = 0; i < 300; i++) strcat(many, "\"a\"? ");
        g = gram_open(many, NULL, &err);
        CHECK(g && gram_accepts(g, text, 300, &bytes) == 1 && gram_accepts(g, text, 301, &bytes) == 0 && bytes == 300);
        infer__grammar_close(g);
    }
    {   /* nesting as deep as the text is long; states that are not in use are forgotten, those in use are not */
        infer_error err;
        infer_grammar *g = gram_open("root ::= \"(\" root \")\" | \"x\"", NULL, &err);
        infer__matcher *m;
        int k;
        CHECK(g && infer__matcher_open(&m, g, &err) == INFER_OK);
        memset(text, '(', 1000);
        for (k = 0; k < 100; k++) {
            if (k % 9 == 0) g->states.trim_at = 0;
            CHECK(infer__matcher_check(m, text, 1000, &bytes, &err) == INFER_OK && bytes == 1000);
        }
        CHECK(infer__matcher_check(m, "x", 1, &bytes, &err) == INFER_OK && bytes == 1);
        memset(text, ')', 1000);
        for (k = 0; k < 100; k++) {
            if (k % 7 == 0) g->states.trim_at = 0;
            CHECK(!infer__matcher_complete(m));
            CHECK(infer__matcher_check(m, text, 1000, &bytes, &err) == INFER_OK && bytes == 1000);
        }
        CHECK(infer__matcher_complete(m) && !infer__matcher_can_continue(m));
        infer__matcher_close(m);
        infer__grammar_close(g);
    }
    free(text);
}

/* ---- tokens, ends, lazy grammars --------------------------------------------------------------------------------------------- */

static int gram_allows(infer__matcher *m, int32_t token) {
    const uint32_t *bits;
    infer_error err;
    if (infer__matcher_mask(m, &bits, &err) != INFER_OK) return -1;
    return !bits || (bits[token >> 5] >> (token & 31) & 1);
}
static int gram_feed(infer__matcher *m, const char *text) { /* byte tokens: ids are bytes */
    infer_error err;
    for (; *text; text++) if (infer__matcher_accept(m, (uint8_t)*text, &err) != INFER_OK) return 0;
    return 1;
}
static int32_t gram_piece(const char *text) {
    int i;
    for (i = 0; i < GRAMMAR_PIECES_N; i++) if (strcmp(GRAMMAR_PIECES[i], text) == 0) return 256 + i;
    return -1;
}

static void test_grammar_tokens(void) {
    gram_file f;
    infer__tokenizer *t;
    infer_error err;
    infer_grammar *g;
    infer__matcher *m = NULL;
    if (!gram_small(&f, &t)) { CHECK(0); return; }
    /* the end is allowed exactly when the grammar is complete; control and unused tokens never match text */
    g = gram_open("root ::= \"<|tool|>\" | \"<call>\" | \"<unused0>\" | \"ab\"+ | \"<|im_end|>\"", t, &err);
    CHECK(g && infer__matcher_open(&m, g, &err) == INFER_OK);
    CHECK(!gram_allows(m, GRAMMAR_CONTROL) && gram_allows(m, GRAMMAR_USER) && !gram_allows(m, GRAMMAR_UNUSED) && !gram_allows(m, GRAMMAR_END));
    CHECK(infer__matcher_accept(m, GRAMMAR_END, &err) == INFER_ERR_STATE);
    CHECK(gram_feed(m, "ab") && gram_allows(m, GRAMMAR_END) && gram_allows(m, 'a') && !gram_allows(m, 'b'));
    CHECK(infer__matcher_accept(m, 'b', &err) == INFER_ERR_STATE && gram_allows(m, 'a')); /* where it was */
    CHECK(infer__matcher_accept(m, GRAMMAR_END, &err) == INFER_OK);
    CHECK(infer__matcher_accept(m, -1, &err) == INFER_ERR_ARGUMENT && infer__matcher_accept(m, GRAMMAR_TOKENS, &err) == INFER_ERR_ARGUMENT);
    infer__matcher_close(m);
    infer__grammar_close(g);
    /* terminals that name tokens */
    g = gram_open("root ::= <|tool|> \"x\" !<|tool|> <[97]> | <call>+ <|im_end|>", t, &err);
    CHECK(g != NULL);
    if (!g) { check_note(__FILE__, __LINE__, err.message); return; }
    CHECK(infer__matcher_open(&m, g, &err) == INFER_OK);
    CHECK(gram_allows(m, GRAMMAR_CONTROL) && gram_allows(m, GRAMMAR_USER) && !gram_allows(m, '<') && !gram_allows(m, 'x'));
    CHECK(infer__matcher_accept(m, GRAMMAR_CONTROL, &err) == INFER_OK && gram_feed(m, "x"));
    CHECK(gram_allows(m, 'q') && gram_allows(m, GRAMMAR_UNUSED) && !gram_allows(m, GRAMMAR_CONTROL) && !gram_allows(m, GRAMMAR_END));
    CHECK(gram_feed(m, "q") && gram_allows(m, 'a') && !gram_allows(m, 'b') && !gram_allows(m, gram_piece("ab")));
    CHECK(gram_feed(m, "a") && infer__matcher_complete(m) && gram_allows(m, GRAMMAR_END) && !infer__matcher_can_continue(m));
    infer__matcher_reset(m);
    CHECK(infer__matcher_accept(m, GRAMMAR_USER, &err) == INFER_OK && gram_allows(m, GRAMMAR_END) && gram_allows(m, GRAMMAR_USER));
    CHECK(infer__matcher_accept(m, GRAMMAR_END, &err) == INFER_OK && infer__matcher_complete(m));
    infer__matcher_close(m);
    infer__grammar_close(g);
    CHECK(gram_open("root ::= <[400]>", t, &err) == NULL);
    CHECK_HAS(err.message, "<[400]> is no token of this vocabulary");
    CHECK(gram_open("root ::= <no such>", t, &err) == NULL);
    CHECK_HAS(err.message, "<no such> is not one token");
    gram_vocab_close(&f);
}

static void test_grammar_lazy(void) {
    gram_file f;
    infer__tokenizer *t;
    infer_error err;
    infer_grammar *g;
    infer__matcher *m;
    infer_grammar_params p;
    static const char *const words[] = { "<call>", "abc!" };
    static const infer_token tokens[] = { GRAMMAR_CONTROL };
    size_t bytes;
    if (!gram_small(&f, &t)) { CHECK(0); return; }
    memset(&p, 0, sizeof p);
    p.gbnf = "root ::= (\"<call>\" | \"<|tool|>\" | \"abc!\") [a-z]+ \";\"";
    p.trigger_words = words;
    p.n_trigger_words = 2;
    p.trigger_tokens = tokens;
    p.n_trigger_tokens = 1;
    CHECK(infer__grammar_open(&g, NULL, t, &p, &err) == INFER_OK && infer__matcher_open(&m, g, &err) == INFER_OK);
    CHECK(gram_allows(m, 'z') && gram_allows(m, GRAMMAR_UNUSED) && gram_allows(m, GRAMMAR_END) && infer__matcher_complete(m));
    CHECK(gram_feed(m, "anything <cal <<call") && infer__matcher_waiting(m));
    CHECK(infer__matcher_accept(m, GRAMMAR_END, &err) == INFER_OK && infer__matcher_waiting(m));
    CHECK(gram_feed(m, ">") && !infer__matcher_waiting(m) && gram_allows(m, 'a') && !gram_allows(m, ';') && !gram_allows(m, GRAMMAR_END));
    CHECK(gram_feed(m, "xy;") && infer__matcher_complete(m) && gram_allows(m, GRAMMAR_END) && !gram_allows(m, 'a'));
    infer__matcher_reset(m);
    CHECK(infer__matcher_waiting(m) && infer__matcher_accept(m, GRAMMAR_USER, &err) == INFER_OK && !infer__matcher_waiting(m) && gram_allows(m, 'q'));
    infer__matcher_reset(m); /* a trigger token is matched by its text, though it is a control token */
    CHECK(infer__matcher_accept(m, GRAMMAR_CONTROL, &err) == INFER_OK && !infer__matcher_waiting(m) && gram_allows(m, 'q') && !gram_allows(m, '<'));
    infer__matcher_reset(m); /* a trigger that begins in one token and ends in another, and the rest of that */
    CHECK(infer__matcher_accept(m, gram_piece("aa"), &err) == INFER_OK && infer__matcher_accept(m, gram_piece("bc"), &err) == INFER_OK);
    CHECK(infer__matcher_waiting(m) && gram_feed(m, "!") && !infer__matcher_waiting(m) && gram_feed(m, "z;") && infer__matcher_complete(m));
    infer__matcher_reset(m); /* what follows the trigger in its token must match */
    CHECK(gram_feed(m, "qq<call") && infer__matcher_check(m, ">X", 2, &bytes, &err) == INFER_OK && bytes == 1 && infer__matcher_waiting(m));
    CHECK(infer__matcher_check(m, ">z", 2, &bytes, &err) == INFER_OK && bytes == 2 && !infer__matcher_waiting(m));
    infer__matcher_close(m);
    infer__grammar_close(g);
    p.n_trigger_words = -1;
    CHECK(infer__grammar_open(&g, NULL, t, &p, &err) == INFER_ERR_ARGUMENT);
    p.n_trigger_words = 2;
    CHECK(infer__grammar_open(&g, NULL, NULL, &p, &err) == INFER_ERR_ARGUMENT);
    gram_vocab_close(&f);
}

/* A grammar that the vocabulary cannot spell: an error that says so, not an endless loop. */
static void test_grammar_stuck(void) {
    gguf_writer w;
    size_t n;
    uint8_t *bytes;
    gram_file f;
    infer_error err;
    infer_grammar *g;
    infer_sampler *s;
    infer_stage stage;
    infer_token token;
    float logits[4] = { 3, 2, 1, 9 };
    gw_init(&w);
    gw_str(&w, "tokenizer.ggml.model", "gpt2");
    gw_strs(&w, "tokenizer.ggml.tokens", (const char *const[]){ "a", "b", "ab" }, 3);
    gw_strs(&w, "tokenizer.ggml.merges", (const char *const[]){ "a b" }, 1);
    gw_str(&w, "tokenizer.ggml.pre", "gpt-2");
    bytes = gw_finish(&w, &n);
    infer__mem_init(&f.mem, NULL, 0);
    CHECK(infer__gguf_open_memory(&f.g, &f.mem, NULL, bytes, n, &err) == INFER_OK);
    CHECK(infer__tokenizer_open(&f.t, &f.mem, NULL, &f.g, NULL, &err) == INFER_OK);
    g = gram_open("root ::= \"ab\" \"c\"? \"d\"", f.t, &err);
    memset(&stage, 0, sizeof stage);
    stage.kind = INFER_STAGE_GRAMMAR;
    CHECK(infer__sampler_open(&s, NULL, NULL, f.t, &stage, 1, 1, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "grammar is NULL");
    stage.grammar = g;
    CHECK(infer__sampler_open(&s, NULL, NULL, f.t, &stage, 1, 1, &err) == INFER_OK && g->n_matchers == 1);
    CHECK(infer__sampler_choose(s, logits, 4, &token, &err) == INFER_OK && (token == 0 || token == 2)); /* 3 is beyond the vocabulary */
    CHECK(infer__sampler_remember(s, 2, &err) == INFER_OK);
    CHECK(infer__sampler_choose(s, logits, 4, &token, &err) == INFER_ERR_STATE);
    CHECK_HAS(err.message, "no token of the vocabulary spells");
    infer__sampler_restart(s);
    CHECK(infer__sampler_remember(s, 1, &err) == INFER_ERR_STATE && infer__sampler_remember(s, 0, &err) == INFER_OK);
    CHECK(infer__sampler_choose(s, logits, 4, &token, &err) == INFER_OK && token == 1);
    infer__sampler_close(s);
    CHECK(g->dead.v != 0); /* freed when the grammar is next used */
    infer__grammar_close(g);
    gram_vocab_close(&f);
    free(bytes);
}

/* Memory fails at every place once: an error, nothing is lost, and what exists still works. */
static void test_grammar_memory(void) {
    infer_allocator a = { NULL, check_alloc, check_free };
    static const char *const words[] = { "go" };
    gram_file f;
    infer__tokenizer *t;
    long at;
    if (!gram_small(&f, &t)) { CHECK(0); return; }
    check_live = 0;
    for (at = 1; at < 2000; at++) {
        infer__mem mem;
        infer_error err;
        infer_grammar *g = NULL;
        infer__matcher *m = NULL;
        infer_grammar_params p;
        infer_result r;
        const uint32_t *bits;
        int i, failed = 0;
        memset(&p, 0, sizeof p);
        p.gbnf = "root ::= \"go\" (\"[\" item (\",\" item){1,30} \"]\" | <call> v)\nitem ::= [a-z\xc3\xa9]{1,40} | \"\\\"\" [^\"]* \"\\\"\" | v\nv ::= \"(\" v \")\" | [0-9]+ \".\"?";
        p.trigger_words = words;
        p.n_trigger_words = 1;
        check_allocs = 0; check_fail_at = at;
        infer__mem_init(&mem, &a, 0);
        r = infer__grammar_open(&g, &mem, t, &p, &err);
        if (r == INFER_OK) r = infer__matcher_open(&m, g, &err);
        for (i = 0; i < 14 && r == INFER_OK; i++) {
            static const int32_t ids[] = { 'x', 'g', 'o', '[', 'a', 0xc3, 0xa9, ',', '(', '(', '1', ')', ')', ',' };
            r = infer__matcher_mask(m, &bits, &err);
            if (r == INFER_OK) r = infer__matcher_accept(m, ids[i], &err);
            if (i == 9) g->states.trim_at = 0;
            if (r != INFER_OK && check_allocs >= at && !failed) { /* again, with memory */
                CHECK(r == INFER_ERR_MEMORY && err.code == r);
                failed = 1;
                r = INFER_OK;
                i--;
            }
        }
        check_fail_at = 0;
        if (r != INFER_OK && r != INFER_ERR_MEMORY) fprintf(stderr, "  at %ld, step %d: %s\n", at, i, err.message);
        CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
        if (m && r == INFER_OK && at % 5 == 0) gram_mask_right(m, t, 1, 0);
        infer__matcher_close(m);
        infer__grammar_close(g);
        CHECK(check_live == 0 && infer__atomic_get(&mem.used) == 0);
        if (check_allocs < at || check_bad) break;
    }
    CHECK(at > 40 && at < 2000);
    gram_vocab_close(&f);
}

static void suite_grammar(void) {
    RUN(test_grammar_texts);
    RUN(test_grammar_errors);
    RUN(test_grammar_random);
    RUN(test_grammar_random_masks);
    RUN(test_grammar_hostile);
    RUN(test_grammar_tokens);
    RUN(test_grammar_lazy);
    RUN(test_grammar_stuck);
    RUN(test_grammar_memory);
    RUN(test_grammar_masks_small);
    RUN(test_grammar_masks_large);
}
