/* test_grammar.c: GBNF, the states of a grammar, masks over vocabularies, lazy grammars, the sampler's stage. */
#include "gguf_write.h"

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

static void suite_grammar(void) {
    RUN(test_grammar_texts);
    RUN(test_grammar_errors);
    RUN(test_grammar_masks_small);
    RUN(test_grammar_masks_large);
}
