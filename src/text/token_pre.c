/* token_pre.c: pre-tokenizers: where a text is cut into words before byte pairs are merged.
 *
 * Owns:  PRETOKENIZERS: one row per group of tokenizer.ggml.pre names with the same rule. Models define the rule as a
 *        regular expression; here each is a matcher written by hand that gives the first word of a text and never
 *        looks further than a bounded number of characters beyond it, so that a text takes linear time.
 * Rules: no state, no memory. A matcher returns 1..n for n >= 1. The end of the text counts as the end of a match, as
 *        the expressions have it.
 * To add one: write or reuse a matcher, put it in the row of its names, record reference ids as a test.
 * Start: INFER__PRETOKENIZERS.
 */
#include "text.h"

enum { INFER__UC_LNS = INFER__UC_LETTER | INFER__UC_NUMBER | INFER__UC_SPACE };

/* Class and length of the first character; 0 and 0 at the end. */
static uint32_t infer__class_at(const char *s, size_t n, size_t *len) {
    *len = 0;
    return n == 0 ? 0 : infer__uc_class(infer__utf8_next(s, n, len, NULL));
}

/* Bytes of the longest run of at most `most` characters of these classes. */
static size_t infer__span_most(const char *s, size_t n, uint32_t classes, size_t most) {
    size_t at = 0, len;
    while (most-- > 0 && (infer__class_at(s + at, n - at, &len) & classes)) at += len;
    return at;
}
static size_t infer__span(const char *s, size_t n, uint32_t classes) {
    return infer__span_most(s, n, classes, n);
}
/* [^\s\p{L}\p{N}]* */
static size_t infer__span_other(const char *s, size_t n) {
    size_t at = 0, len;
    while (at < n && !(infer__class_at(s + at, n - at, &len) & INFER__UC_LNS)) at += len;
    return at;
}

/* 's|'t|'re|'ve|'m|'ll|'d; 0 = no match. fold = 1: of either case, as Unicode folds it (U+017F is an s). */
static size_t infer__contraction(const char *s, size_t n, int fold) {
    char a, b;
    if (n < 2 || s[0] != '\'') return 0;
    a = fold && s[1] >= 'A' && s[1] <= 'Z' ? (char)(s[1] - 'A' + 'a') : s[1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (n < 3) return 0;
    if (fold && memcmp(s + 1, "\xc5\xbf", 2) == 0) return 3;
    b = fold && s[2] >= 'A' && s[2] <= 'Z' ? (char)(s[2] - 'A' + 'a') : s[2];
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s+(?!\S)|\s+ : white space up to, not including, the last one before something else; a single one whole. */
static size_t infer__white_space(const char *s, size_t n) {
    size_t at = 0, last = 0, len;
    while (infer__class_at(s + at, n - at, &len) & INFER__UC_SPACE) {
        last = at;
        at += len;
    }
    return at < n && last > 0 ? last : at;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t infer__split_gpt2(const char *s, size_t n) {
    size_t at = s[0] == ' ', len = infer__contraction(s, n, 0);
    uint32_t c;
    if (len) return len;
    c = infer__class_at(s + at, n - at, &len);
    if (c & INFER__UC_LETTER) return at + infer__span(s + at, n - at, INFER__UC_LETTER);
    if (c & INFER__UC_NUMBER) return at + infer__span(s + at, n - at, INFER__UC_NUMBER);
    if (c & INFER__UC_SPACE || at == n) return infer__white_space(s, n);
    return at + infer__span_other(s + at, n - at);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t infer__split_llama3_digits(const char *s, size_t n, size_t digits) {
    size_t at, newline = 0, len = infer__contraction(s, n, 1), next;
    uint32_t c;
    if (len) return len;
    c = infer__class_at(s, n, &len);
    if (c & INFER__UC_NUMBER) return infer__span_most(s, n, INFER__UC_NUMBER, digits);
    if (s[0] != '\r' && s[0] != '\n') {
        at = c & INFER__UC_LETTER ? 0 : len;
        if (infer__class_at(s + at, n - at, &next) & INFER__UC_LETTER)
            return at + infer__span(s + at, n - at, INFER__UC_LETTER);
    }
    at = s[0] == ' ';
    if (at < n && !(infer__class_at(s + at, n - at, &next) & INFER__UC_LNS)) {
        at += infer__span_other(s + at, n - at);
        while (at < n && (s[at] == '\r' || s[at] == '\n')) at++;
        return at;
    }
    for (at = 0; infer__class_at(s + at, n - at, &len) & INFER__UC_SPACE; at += len) {
        if (s[at] == '\r' || s[at] == '\n') newline = at + 1;
    }
    return newline ? newline : infer__white_space(s, n);
}
static size_t infer__split_llama3(const char *s, size_t n) { return infer__split_llama3_digits(s, n, 3); }
static size_t infer__split_qwen2(const char *s, size_t n) { return infer__split_llama3_digits(s, n, 1); }

/* [\p{P}\$\+<=>\^~\|], on the first character. */
static int infer__is_default_mark(const char *s, size_t n, size_t *len) {
    uint32_t c = infer__class_at(s, n, len);
    return (c & INFER__UC_PUNCT) || ((c & INFER__UC_SYMBOL) && memchr("$+<=>^~|", s[0], 8) != NULL);
}

/* What [0-9][0-9][0-9] leaves of a run of numbers: three digits, or what stands before the next three. */
static size_t infer__default_digits(const char *s, size_t n) {
    size_t at = 0, digits = 0, len;
    while (digits < 3 && (infer__class_at(s + at, n - at, &len) & INFER__UC_NUMBER)) {
        digits = s[at] >= '0' && s[at] <= '9' ? digits + 1 : 0;
        at += len;
    }
    return digits == 3 && at > 3 ? at - 3 : at;
}

/* Three cuts one after the other, each inside the pieces of the one before: [\p{P}\$\+<=>\^~\|]+, then GPT-2's, then
 * \p{N}+ and [0-9][0-9][0-9]. So a mark ends every match, as the end of the text does, and contractions never occur. */
static size_t infer__split_default(const char *s, size_t n) {
    size_t at = 0, len;
    uint32_t c;
    while (infer__is_default_mark(s + at, n - at, &len)) at += len;
    if (at > 0) return at;
    c = infer__class_at(s, n, &len);
    if (c & INFER__UC_NUMBER) return infer__default_digits(s, n);
    at = s[0] == ' ';
    c = infer__class_at(s + at, n - at, &len);
    if (c & INFER__UC_NUMBER) return at;
    if (c & INFER__UC_LETTER) return at + infer__span(s + at, n - at, INFER__UC_LETTER);
    if (at < n && !(c & INFER__UC_SPACE) && !infer__is_default_mark(s + at, n - at, &len)) {
        while (at < n && !(infer__class_at(s + at, n - at, &len) & INFER__UC_LNS) &&
               !infer__is_default_mark(s + at, n - at, &len)) at += len;
        return at;
    }
    at = infer__span(s, n, INFER__UC_SPACE);
    return infer__is_default_mark(s + at, n - at, &len) ? at : infer__white_space(s, n);
}

static const infer__pretokenizer INFER__PRETOKENIZERS[] = {
    {"default", infer__split_default, 0},
    {"gpt-2 phi-2 jina-es jina-de gigachat a.x-4.0 mellum modern-bert jina-v1-en roberta-bpe exaone4 mpt olmo jais trillion "
     "granite-docling", infer__split_gpt2, 0},
    {"jina-v2-es jina-v2-de jina-v2-code", infer__split_gpt2, INFER__PRE_MASK_LSTRIP},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", infer__split_llama3,
     INFER__PRE_IGNORE_MERGES | INFER__PRE_ADD_BOS},
    {"dbrx smaug-bpe glm4 chatglm-bpe", infer__split_llama3, 0},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open", infer__split_qwen2, 0},
    /* Known, their matchers are still to be written. */
    {"jais-2 deepseek-llm deepseek-coder deepseek-v3 hunyuan-dense joyai-llm falcon starcoder refact command-r smollm "
     "codeshell exaone minerva-7b mellum2 qwen35 poro-chat bloom gpt3-finnish viking gpt-4o llama4 kanana2 talkie "
     "minimax-m2 tiny_aya cohere2moe kimi-k2 superbpe bailingmoe bailingmoe2 llada-moe seed-coder grok-2 afmoe laguna "
     "exaone-moe", NULL, 0},
    {"youtu granite-embed-multi-97m minicpm5", NULL, INFER__PRE_IGNORE_MERGES},
    {"tekken", NULL, INFER__PRE_IGNORE_MERGES | INFER__PRE_ADD_BOS},
    {"chameleon", NULL, INFER__PRE_ADD_BOS}
};

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
