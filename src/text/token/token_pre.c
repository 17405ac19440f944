/* token_pre.c: pre-tokenizers: splitting a text into words before byte pairs are merged.
 *
 * Owns:  INFER__PRETOKENIZERS: one row per group of tokenizer.ggml.pre names with the same rule. Models define the rule
 *        as regular expressions, applied one after the other, each inside the pieces of the one before; a row has a
 *        step for each. A step is a matcher written by hand with a rule of its own: runs of a set of characters (here),
 *        words (token_pre_words.c).
 * Rules: no memory. A step gives the first piece of a text, 1..n bytes for n >= 1, and the text takes linear time.
 * Facts: the expressions are those of the models' own tokenizer files, as far as they are known; where one has been
 *        published in llama.cpp only, that one.
 * To add one: a row; when no step has its rule, a step. Record ids or splits as a test (tests/data/pre-splits.txt).
 * Start: INFER__PRETOKENIZERS, infer__split_next.
 */
#include "../text.h"

/* ---- runs of characters of a set ------------------------------------------------------------------------ */

/* The expression lead? [set]{least,most}; a piece is a match, or what stands before one. */
typedef struct infer__run_rule {
    uint32_t classes;            /* the set: INFER__UC_*, */
    const char *chars;           /* these ASCII characters, or NULL, */
    const uint32_t (*ranges)[2]; /* and these, in order; */
    uint8_t n_ranges, except;    /* except = 1: all others */
    uint8_t lead;                /* INFER__LEAD_* */
    uint8_t least, most;         /* most 0 = no limit; least is 1 or more */
} infer__run_rule;
enum { INFER__LEAD_NONE, INFER__LEAD_SPACE, INFER__LEAD_WHITE }; /* nothing, " ?", \s? */

/* The length of the first character when it is in the set, else 0. */
static size_t infer__run_char(const infer__run_rule *r, const char *s, size_t n) {
    size_t len;
    uint32_t cp;
    int in;
    if (n == 0) return 0;
    cp = infer__utf8_next(s, n, &len, NULL);
    in = r->classes && ((cp < 0x80 ? INFER__UC_ASCII[cp] : infer__uc_class(cp)) & r->classes);
    if (!in && cp < 0x80) in = r->chars && cp && strchr(r->chars, (int)cp);
    if (!in && r->ranges) in = infer__in_ranges(r->ranges, r->n_ranges, cp);
    return in != r->except ? len : 0;
}

/* The length of the lead that a match at s begins with. */
static size_t infer__run_lead(const infer__run_rule *r, const char *s, size_t n) {
    size_t len;
    uint32_t c;
    if (r->lead == INFER__LEAD_NONE) return 0;
    c = infer__class_at(s, n, &len);
    if (r->lead == INFER__LEAD_SPACE ? s[0] != ' ' : !(c & INFER__UC_SPACE)) return 0;
    return infer__run_char(r, s + len, n - len) ? len : 0;
}

/* The length of the match at s, 0 = none; begins = 1: perhaps only of its beginning. */
static size_t infer__run_at(const infer__run_rule *r, const char *s, size_t n, int begins) {
    size_t at = infer__run_lead(r, s, n), len, count = 0;
    while ((r->most == 0 || count < r->most) && (len = infer__run_char(r, s + at, n - at)) != 0) {
        at += len;
        if (++count >= r->least && begins) break;
    }
    return count < r->least ? 0 : at;
}

static size_t infer__split_run(const void *rule, const char *s, size_t n) {
    const infer__run_rule *r = (const infer__run_rule *)rule;
    size_t at = infer__run_at(r, s, n, 0), len;
    if (at) return at;
    do {
        infer__utf8_next(s + at, n - at, &len, NULL);
        at += len;
    } while (at < n && !infer__run_at(r, s + at, n - at, 1));
    return at;
}

/* \s+$ : the white space that a piece ends in. */
static size_t infer__split_end_space(const void *rule, const char *s, size_t n) {
    size_t at = 0, end = 0, len;
    (void)rule;
    while (at < n) { /* end: after the last character that is no white space */
        uint32_t c = infer__class_at(s + at, n - at, &len);
        at += len;
        if (!(c & INFER__UC_SPACE)) end = at;
    }
    return end ? end : n;
}

/* ---- Chameleon's own ---------------------------------------------------------------------------------------- */

/* <sentinel:[0-9]+> */
static size_t infer__sentinel_at(const char *s, size_t n) {
    size_t at = 10;
    if (n < 12 || memcmp(s, "<sentinel:", 10) != 0) return 0;
    while (at < n && s[at] >= '0' && s[at] <= '9') at++;
    return at > 10 && at < n && s[at] == '>' ? at + 1 : 0;
}
/* (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z */
static size_t infer__image_at(const char *s, size_t n) {
    size_t at = 6;
    if (n < 8 || memcmp(s, "IMGIMG", 6) != 0) return 0;
    while (at < n && at < 10 && s[at] >= 'A' && s[at] <= 'I') at++;
    return at > 6 && at < n && s[at] == 'Z' ? at + 1 : 0;
}
/* ([\t\n]|    |  ) */
static size_t infer__indent_at(const char *s, size_t n) {
    if (s[0] == '\t' || s[0] == '\n') return 1;
    if (n >= 4 && memcmp(s, "    ", 4) == 0) return 4;
    return n >= 2 && memcmp(s, "  ", 2) == 0 ? 2 : 0;
}

typedef struct infer__at_rule { size_t (*at)(const char *s, size_t n); } infer__at_rule;
static size_t infer__split_at(const void *rule, const char *s, size_t n) {
    const infer__at_rule *r = (const infer__at_rule *)rule;
    size_t at = r->at(s, n);
    if (at) return at;
    for (at = 1; at < n && !r->at(s + at, n - at); ) at++; /* matches begin with ASCII, so between characters */
    return at;
}

/* ---- the rows ------------------------------------------------------------------------------------------------ */

/* DeepSeek LLM's letters: \p{Lu}, \p{Lt} and \p{Ll} of an older Unicode, as its file lists them. */
static const uint32_t INFER__DEEPSEEK_LETTERS[][2] = {
    {0x41, 0x5a}, {0x61, 0x7a}, {0xb5, 0xb5}, {0xc0, 0xd6}, {0xd8, 0xf6}, {0xf8, 0x1ba}, {0x1bc, 0x1bf},
    {0x1c4, 0x293}, {0x295, 0x2af}, {0x370, 0x373}, {0x376, 0x377}, {0x37b, 0x37d}, {0x37f, 0x37f},
    {0x386, 0x386}, {0x388, 0x38a}, {0x38c, 0x38c}, {0x38e, 0x3a1}, {0x3a3, 0x3f5}, {0x3f7, 0x481}, {0x48a, 0x52f},
    {0x531, 0x556}, {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd}, {0x1c90, 0x1cba}, {0x1cbd, 0x1cbf},
    {0x1d00, 0x1d2b}, {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15}, {0x1f18, 0x1f1d}, {0x1f20, 0x1f45},
    {0x1f48, 0x1f4d}, {0x1f50, 0x1f57}, {0x1f59, 0x1f59}, {0x1f5b, 0x1f5b}, {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d},
    {0x1f80, 0x1fb4}, {0x1fb6, 0x1fbc}, {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3},
    {0x1fd6, 0x1fdb}, {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc}, {0x2102, 0x2102}, {0x2107, 0x2107},
    {0x210a, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211d}, {0x2124, 0x2124}, {0x2126, 0x2126}, {0x2128, 0x2128},
    {0x212a, 0x212d}, {0x212f, 0x2134}, {0x2139, 0x2139}, {0x213c, 0x213f}, {0x2145, 0x2149}, {0x214e, 0x214e},
    {0x2183, 0x2184}, {0x2c00, 0x2c7b}, {0x2c7e, 0x2ce4}, {0x2ceb, 0x2cee}, {0x2cf2, 0x2cf3}, {0xa640, 0xa66d},
    {0xa680, 0xa69b}, {0xa722, 0xa76f}, {0xa771, 0xa787}, {0xa78b, 0xa78e}, {0xab70, 0xabbf}, {0xfb00, 0xfb06},
    {0xfb13, 0xfb17}, {0xff21, 0xff3a}, {0xff41, 0xff5a}, {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943}
};
static const uint32_t INFER__DEEPSEEK_MARKS[][2] = {
    {0x21, 0x2f}, {0x3a, 0x7e}, {0x2018, 0x201f}, {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}
};
static const uint32_t INFER__DEEPSEEK_CJK[][2] = { {0x800, 0x9fa5}, {0xac00, 0xd7ff} };
static const uint32_t INFER__CJK_KANA[][2] = { {0x3040, 0x30ff}, {0x4e00, 0x9fa5} };
static const uint32_t INFER__HANGUL[][2] = { {0x3131, 0x318e}, {0xac00, 0xd7a3} };
static const uint32_t INFER__BOPOMOFO[][2] = { {0x3105, 0x312f} };
static const uint32_t INFER__YOUTU_MARKS[][2] = {
    {0x2014, 0x2014}, {0x2018, 0x2019}, {0x201c, 0x201d}, {0x2026, 0x2026}, {0x3001, 0x303f}, {0xfe30, 0xfe4f},
    {0xff01, 0xff01}, {0xff0c, 0xff0c}, {0xff1a, 0xff1b}
};
static const uint32_t INFER__AFMOE_SCRIPTS[][2] = {
    {0xe40, 0xeff}, {0x1000, 0x109f}, {0x1100, 0x11ff}, {0x1780, 0x17ff}, {0x2f00, 0x2fdf}, {0x3040, 0x30ff},
    {0x3400, 0x4dbf}, {0x4e00, 0xfaff}, {0xff65, 0xff9f}
};
/* U+060C, U+06D4, U+0964, U+2026, U+3001, U+3002, U+FF0C: ends of sentences and commas of several scripts. */
static const uint32_t INFER__BLOOM_STOPS[][2] = {
    {0x60c, 0x60c}, {0x6d4, 0x6d4}, {0x964, 0x964}, {0x2026, 0x2026}, {0x3001, 0x3002}, {0xff0c, 0xff0c}
};

#define INFER__RANGES(a) a, INFER__COUNT(a)
#define INFER__NO_RANGES NULL, 0
/*                                              classes, chars, ranges, except, lead, least, most */
static const infer__run_rule
    INFER__RUN_LINE_END = {0, "\r\n", INFER__NO_RANGES, 0, 0, 1, 1},                          /* [\r\n] */
    INFER__RUN_LINES = {0, "\n", INFER__NO_RANGES, 0, 0, 1, 0},                               /* [\n]+ and [^\n]+ */
    INFER__RUN_N1 = {INFER__UC_NUMBER, NULL, INFER__NO_RANGES, 0, 0, 1, 1},                   /* \p{N} */
    INFER__RUN_N3 = {INFER__UC_NUMBER, NULL, INFER__NO_RANGES, 0, 0, 1, 3},                   /* \p{N}{1,3} */
    INFER__RUN_N = {INFER__UC_NUMBER, NULL, INFER__NO_RANGES, 0, 0, 1, 0},                    /* \p{N}+ */
    INFER__RUN_012 = {0, "0123456789", INFER__NO_RANGES, 0, 0, 3, 3},                         /* [0-9][0-9][0-9] */
    INFER__RUN_SPACE = {INFER__UC_SPACE, NULL, INFER__NO_RANGES, 0, 0, 1, 0},                 /* \s+ and \S+ */
    INFER__RUN_DEFAULT = {INFER__UC_PUNCT, "$+<=>^~|", INFER__NO_RANGES, 0, 0, 1, 0},         /* [\p{P}\$\+<=>\^~\|]+ */
    INFER__RUN_FALCON = {INFER__UC_PUNCT, "$+<=>^~|`", INFER__NO_RANGES, 0, 0, 1, 0},         /* the same with ` */
    INFER__RUN_CHAMELEON = {INFER__UC_PUNCT, "$+<=>^`|~", INFER__NO_RANGES, 0, 0, 1, 1},      /* [\p{P}!-/:-@\[-`{-~] */
    INFER__RUN_WHITE_L = {INFER__UC_LETTER, NULL, INFER__NO_RANGES, 0, INFER__LEAD_WHITE, 1, 0}, /* \s?\p{L}+ */
    INFER__RUN_WHITE_P = {INFER__UC_PUNCT, NULL, INFER__NO_RANGES, 0, INFER__LEAD_WHITE, 1, 0},  /* \s?\p{P}+ */
    INFER__RUN_LETTERS = {0, NULL, INFER__RANGES(INFER__DEEPSEEK_LETTERS), 0, INFER__LEAD_WHITE, 1, 0},
    INFER__RUN_MARKS = {0, NULL, INFER__RANGES(INFER__DEEPSEEK_MARKS), 0, INFER__LEAD_WHITE, 1, 0},
    INFER__RUN_CJK = {0, NULL, INFER__RANGES(INFER__DEEPSEEK_CJK), 0, 0, 1, 0},
    INFER__RUN_KANA = {0, NULL, INFER__RANGES(INFER__CJK_KANA), 0, 0, 1, 0},
    INFER__RUN_HANGUL = {0, NULL, INFER__RANGES(INFER__HANGUL), 0, 0, 1, 0},
    INFER__RUN_BOPOMOFO = {0, NULL, INFER__RANGES(INFER__BOPOMOFO), 0, 0, 1, 0},
    INFER__RUN_YOUTU = {0, NULL, INFER__RANGES(INFER__YOUTU_MARKS), 0, 0, 1, 0},
    INFER__RUN_AFMOE = {0, NULL, INFER__RANGES(INFER__AFMOE_SCRIPTS), 0, 0, 1, 0},
    INFER__RUN_BLOOM = {INFER__UC_SPACE, "(|.,!?)", INFER__RANGES(INFER__BLOOM_STOPS), 1, INFER__LEAD_SPACE, 1, 0};

/*                                               shape, contraction, tail, digits */
static const infer__words_rule
    INFER__WORDS_LLAMA3 = {INFER__WORD_LETTERS, INFER__SHORT_FIRST, INFER__TAIL_LINES, 3},
    INFER__WORDS_QWEN2 = {INFER__WORD_LETTERS, INFER__SHORT_FIRST, INFER__TAIL_LINES, 1},
    INFER__WORDS_QWEN35 = {INFER__WORD_MARKS, INFER__SHORT_FIRST, INFER__TAIL_LINES, 1},
    INFER__WORDS_MINICPM5 = {INFER__WORD_LETTERS, INFER__SHORT_FIRST, INFER__TAIL_LINES, 0},
    INFER__WORDS_SEED = {INFER__WORD_LETTERS, INFER__SHORT_FIRST, INFER__TAIL_NONE, 1},
    INFER__WORDS_UFAK = {INFER__WORD_LETTERS, INFER__SHORT_NONE, INFER__TAIL_LINES, 1},
    INFER__WORDS_EXAONE = {INFER__WORD_PHRASE, INFER__SHORT_FIRST, INFER__TAIL_ONE, 1},
    INFER__WORDS_TEKKEN = {INFER__WORD_CASED, INFER__SHORT_NONE, INFER__TAIL_SLASHES, 1},
    INFER__WORDS_O200K = {INFER__WORD_CASED, INFER__SHORT_AFTER, INFER__TAIL_SLASHES, 3},
    INFER__WORDS_YOUTU = {INFER__WORD_CASED, INFER__SHORT_AFTER, INFER__TAIL_SLASHES, 1},
    INFER__WORDS_KIMI = {INFER__WORD_NO_HAN, INFER__SHORT_AFTER, INFER__TAIL_LINES, 3};
static const infer__marks_rule INFER__MARKS_DEEPSEEK = {0}, INFER__MARKS_SPARK = {1};
static const infer__at_rule INFER__AT_SENTINEL = {infer__sentinel_at}, INFER__AT_IMAGE = {infer__image_at},
                            INFER__AT_INDENT = {infer__indent_at};
static const char INFER__DIGITS = 1; /* as a rule: \d, not \p{N} */

#define INFER__GPT2 {infer__split_gpt2, NULL}
#define INFER__RUN(r) {infer__split_run, &INFER__RUN_##r}
#define INFER__WORDS(r) {infer__split_words, &INFER__WORDS_##r}
#define INFER__MARKS(r) {infer__split_marks, &INFER__MARKS_##r}
#define INFER__AT(r) {infer__split_at, &INFER__AT_##r}

static const infer__pretokenizer INFER__PRETOKENIZERS[] = {
    {"default", 0, {INFER__RUN(DEFAULT), INFER__GPT2, INFER__RUN(N), INFER__RUN(012)}},
    {"gpt-2 phi-2 jina-es jina-de gigachat a.x-4.0 mellum modern-bert exaone4 mpt olmo jais trillion granite-docling", 0,
     {INFER__GPT2}},
    {"jina-v1-en roberta-bpe", INFER__PRE_PAIRS_APART, {INFER__GPT2}},
    {"jina-v2-es jina-v2-de", INFER__PRE_MASK_LSTRIP, {INFER__GPT2}},
    {"jina-v2-code", INFER__PRE_MASK_LSTRIP | INFER__PRE_PAIRS_APART, {INFER__GPT2}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     INFER__PRE_IGNORE_MERGES | INFER__PRE_ADD_BOS, {INFER__WORDS(LLAMA3)}},
    {"dbrx smaug-bpe chatglm-bpe", 0, {INFER__WORDS(LLAMA3)}},
    {"glm4 glm5", INFER__PRE_IGNORE_MERGES, {INFER__WORDS(LLAMA3)}},
    {"jais-2", 0, {INFER__WORDS(LLAMA3), {infer__split_white_512, NULL}}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 bailingmoe bailingmoe2 llada-moe", 0,
     {INFER__WORDS(QWEN2)}},
    {"qwen35", 0, {INFER__WORDS(QWEN35)}},
    {"seed-coder", 0, {INFER__WORDS(SEED)}},
    {"ufakzeka", 0, {INFER__WORDS(UFAK)}},
    {"laguna", 0, {INFER__RUN(LINES), INFER__WORDS(QWEN2)}},
    {"minicpm5", INFER__PRE_IGNORE_MERGES, {INFER__RUN(N3), INFER__WORDS(MINICPM5)}},
    {"exaone-moe", 0, {INFER__WORDS(EXAONE)}},
    {"tekken", INFER__PRE_IGNORE_MERGES | INFER__PRE_ADD_BOS, {INFER__WORDS(TEKKEN)}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0, {INFER__WORDS(O200K)}},
    {"granite-embed-multi-97m", INFER__PRE_IGNORE_MERGES, {INFER__WORDS(O200K)}},
    {"tiny_aya cohere2moe", 0,
     {{infer__split_numbers, NULL}, {infer__split_head, &INFER__DIGITS}, {infer__split_threes, &INFER__DIGITS},
      INFER__WORDS(O200K)}},
    {"kimi-k2", 0, {INFER__WORDS(KIMI)}},
    {"youtu", INFER__PRE_IGNORE_MERGES,
     {INFER__RUN(HANGUL), INFER__RUN(YOUTU), INFER__RUN(BOPOMOFO), INFER__RUN(KANA), INFER__WORDS(YOUTU)}},
    {"deepseek-llm", 0,
     {INFER__RUN(LINE_END), INFER__RUN(LETTERS), INFER__RUN(MARKS), {infer__split_end_space, NULL}, INFER__RUN(CJK),
      INFER__RUN(N)}},
    {"deepseek-coder", 0,
     {INFER__RUN(LINE_END), INFER__RUN(WHITE_L), INFER__RUN(WHITE_P), INFER__RUN(CJK), INFER__RUN(N1)}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0, {INFER__RUN(N3), INFER__RUN(KANA), INFER__MARKS(DEEPSEEK)}},
    {"spark2_5", 0, {INFER__RUN(N1), INFER__RUN(KANA), INFER__MARKS(SPARK)}},
    {"afmoe", 0,
     {INFER__RUN(N), {infer__split_head, NULL}, {infer__split_threes, NULL}, INFER__RUN(AFMOE), INFER__MARKS(DEEPSEEK)}},
    {"falcon", 0, {INFER__RUN(FALCON), INFER__GPT2, INFER__RUN(012)}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", 0, {INFER__RUN(N1), INFER__GPT2}},
    {"poro-chat bloom gpt3-finnish", 0, {INFER__RUN(BLOOM)}},
    {"viking", 0, {INFER__RUN(BLOOM), INFER__RUN(N1)}},
    {"superbpe", 0, {INFER__RUN(N), {infer__split_before_threes, NULL}, {infer__split_threes, &INFER__DIGITS}}},
    {"chameleon", INFER__PRE_ADD_BOS,
     {INFER__AT(SENTINEL), INFER__AT(IMAGE), INFER__AT(INDENT), INFER__RUN(N1), INFER__RUN(CHAMELEON), INFER__GPT2}},
    {"gemma4 granite-embed-multi-311m", INFER__PRE_MARKED | INFER__PRE_LINES | INFER__PRE_ALWAYS_BOS, {INFER__RUN(LINES)}},
    {"sarvam-moe", INFER__PRE_MARKED, {INFER__RUN(LINES)}},
    {"whitespace", INFER__PRE_UTF8 | INFER__PRE_DROP_SPACE, {INFER__RUN(SPACE)}}
};
#undef INFER__GPT2
#undef INFER__RUN
#undef INFER__WORDS
#undef INFER__MARKS
#undef INFER__AT
#undef INFER__RANGES
#undef INFER__NO_RANGES

static const infer__pretokenizer *infer__pretokenizer_find(const char *name, size_t n) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__PRETOKENIZERS); i++) {
        const char *p = INFER__PRETOKENIZERS[i].names;
        while (*p) {
            size_t len = strcspn(p, " ");
            if (len == n && memcmp(p, name, n) == 0) return &INFER__PRETOKENIZERS[i];
            p += len + (p[len] == ' ');
        }
    }
    return NULL;
}

/* ---- one word after the other ----------------------------------------------------------------------------------- */

static void infer__split_begin(infer__splitter *x, const infer__pretokenizer *pre, const char *s, size_t n) {
    int i;
    x->pre = pre;
    x->at = s;
    for (x->steps = 0; x->steps < INFER__PRE_STEPS && pre->steps[x->steps].first; ) x->steps++;
    x->end[0] = s + n;
    for (i = 1; i <= x->steps; i++) x->end[i] = s; /* no piece yet */
}

static size_t infer__split_next(infer__splitter *x) {
    int i = x->steps - 1;
    size_t n;
    while (i > 0 && x->at == x->end[i]) i--; /* the innermost piece that is not used up */
    if (x->at == x->end[i]) return 0;
    for (; i < x->steps; i++) {
        const infer__pre_step *step = &x->pre->steps[i];
        n = (size_t)(x->end[i] - x->at);
        x->end[i + 1] = x->at + step->first(step->rule, x->at, n);
        INFER__ASSERT(x->end[i + 1] > x->at && x->end[i + 1] <= x->end[i]);
    }
    n = (size_t)(x->end[x->steps] - x->at);
    x->at += n;
    return n;
}
