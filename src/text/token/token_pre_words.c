/* token_pre_words.c: the matchers of pre-tokenizers that know words.
 *
 * Owns:  GPT-2's expression and the families that grew out of it: cl100k's (Llama 3, Qwen, ..), o200k's (words change
 *        from upper to lower case), DeepSeek V3's; and what cuts numbers into threes.
 * Rules: no state, no memory. A matcher gives the first piece of a text and reads it at most a bounded number of times,
 *        so that a text takes linear time; what needs to know how long a run is, is cut in several steps. The end of
 *        the text counts as the end of a match, as the expressions have it. Invalid bytes are symbols (U+FFFD).
 * Names: L, M, N, P, S are the general categories; "letters" in comments are the regular expression's \p{L}.
 * Start: infer__split_words.
 */
#include "../text.h"
#include "../unicode_tables.h"

enum { INFER__UC_LNS = INFER__UC_LETTER | INFER__UC_NUMBER | INFER__UC_SPACE };

/* Class and length of the first character; 0 and 0 at the end. */
INFER__INLINE uint32_t infer__class_at(const char *s, size_t n, size_t *len) {
    *len = 0;
    if (n == 0) return 0;
    *len = 1;
    if ((uint8_t)s[0] < 0x80) return INFER__UC_ASCII[(uint8_t)s[0]];
    return infer__uc_class(infer__utf8_next(s, n, len, NULL));
}

/* Bytes of the longest run of at most `most` characters of these classes. */
static size_t infer__span_most(const char *s, size_t n, uint32_t classes, size_t most) {
    size_t at = 0, len;
    while (most-- > 0 && (infer__class_at(s + at, n - at, &len) & classes)) at += len;
    return at;
}
INFER__INLINE size_t infer__span(const char *s, size_t n, uint32_t classes) {
    size_t at = 0, len;
    while (infer__class_at(s + at, n - at, &len) & classes) at += len;
    return at;
}
/* A run of characters that are of none of these classes. */
static size_t infer__span_not(const char *s, size_t n, uint32_t classes) {
    size_t at = 0, len;
    while (at < n && !(infer__class_at(s + at, n - at, &len) & classes)) at += len;
    return at;
}
INFER__INLINE int infer__is_line(char c) { return c == '\r' || c == '\n'; }

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

/* \s*[\r\n]+|\s+(?!\S)|\s+ (without the first when lines = 0): white space up to the last newline; else up to, not
 * including, the last one before something else; a single one whole. */
static size_t infer__white_space(const char *s, size_t n, int lines) {
    size_t at = 0, last = 0, newline = 0, len;
    while (infer__class_at(s + at, n - at, &len) & INFER__UC_SPACE) {
        last = at;
        at += len;
        if (infer__is_line(s[last])) newline = at;
    }
    if (lines && newline) return newline;
    return at < n && last > 0 ? last : at;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+. Files also have it without the last part:
 * what then matches nothing is a single white space, so the pieces are the same. */
static size_t infer__split_gpt2(const void *rule, const char *s, size_t n) {
    size_t at = s[0] == ' ', len = infer__contraction(s, n, 0);
    uint32_t c;
    (void)rule;
    if (len) return len;
    c = infer__class_at(s + at, n - at, &len);
    if (c & INFER__UC_LETTER) return at + infer__span(s + at, n - at, INFER__UC_LETTER);
    if (c & INFER__UC_NUMBER) return at + infer__span(s + at, n - at, INFER__UC_NUMBER);
    if (c & INFER__UC_SPACE || at == n) return infer__white_space(s, n, 0);
    return at + infer__span_not(s + at, n - at, INFER__UC_LNS);
}

/* ---- the families of cl100k and o200k ------------------------------------------------------------------ */

/* contraction | [^\r\n\p{L}\p{N}]? word contraction? | \p{N}{1,digits} | ?[^\s\p{L}\p{N}]+ tail | \s*[\r\n]+ |
 * \s+(?!\S) | \s+. "\s*[\r\n]" without the plus, as some have it, matches the same. */
typedef struct infer__words_rule {
    uint8_t shape, contraction, tail;
    uint8_t digits; /* most numbers of a piece, 0 = all */
} infer__words_rule;
enum {
    INFER__WORD_LETTERS, /* \p{L}+ */
    INFER__WORD_MARKS,   /* [\p{L}\p{M}]+; marks are nothing else then */
    INFER__WORD_CASED,   /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+, or else the same with + and * */
    INFER__WORD_NO_HAN,  /* CASED without \p{Han}, and \p{Han}+ before all else */
    INFER__WORD_PHRASE   /* (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ */
};
enum { INFER__SHORT_NONE, INFER__SHORT_FIRST, INFER__SHORT_AFTER }; /* contractions: none, a piece, a word's end */
enum {
    INFER__TAIL_NONE,
    INFER__TAIL_LINES,
    INFER__TAIL_SLASHES,
    INFER__TAIL_ONE
}; /* none, [\r\n]*, [\r\n/]*, [\r\n/]? */

/* \p{Han}: the script, Scripts.txt of Unicode 15.1. */
static const uint32_t INFER__HAN[][2] = {
    {0x2e80, 0x2e99}, {0x2e9b, 0x2ef3}, {0x2f00, 0x2fd5}, {0x3005, 0x3005}, {0x3007, 0x3007}, {0x3021, 0x3029},
    {0x3038, 0x303b}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfa6d}, {0xfa70, 0xfad9}, {0x16fe2, 0x16fe3},
    {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739}, {0x2b740, 0x2b81d}, {0x2b820, 0x2cea1},
    {0x2ceb0, 0x2ebe0}, {0x2ebf0, 0x2ee5d}, {0x2f800, 0x2fa1d}, {0x30000, 0x3134a}, {0x31350, 0x323af}
};

/* 1 when cp is in one of n ordered ranges. */
static int infer__in_ranges(const uint32_t (*ranges)[2], size_t n, uint32_t cp) {
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (ranges[mid][1] < cp) lo = mid + 1;
        else hi = mid;
    }
    return lo < n && ranges[lo][0] <= cp;
}
/* The length of the first character when it is of the Han script, else 0. */
static size_t infer__han_at(const char *s, size_t n) {
    size_t len;
    if (n == 0 || (uint8_t)s[0] < 0xe2) return 0; /* U+2E80 begins with E2 */
    return infer__in_ranges(INFER__HAN, INFER__COUNT(INFER__HAN), infer__utf8_next(s, n, &len, NULL)) ? len : 0;
}

/* Upper case, then lower case, where letters without case and marks are both: the longest run of either, going back as
 * far as the expression must to end in one that may be lower case. *upper = 1: there is none, it is all upper case.
 * 0 = no word here. */
static size_t infer__word_cased(const char *s, size_t n, int no_han, int *upper) {
    const uint32_t word = INFER__UC_LETTER | INFER__UC_MARK;
    size_t at = 0, len, both = 0;
    uint32_t c;
    *upper = 0;
    for (;; at += len) {
        c = infer__class_at(s + at, n - at, &len);
        if (!(c & word) || (c & INFER__UC_LOWER) || (no_han && infer__han_at(s + at, n - at))) break;
        if (!(c & INFER__UC_UPPER)) both = at + len;
    }
    if (c & INFER__UC_LOWER) {
        for (;; at += len) {
            c = infer__class_at(s + at, n - at, &len);
            if (!(c & word) || (c & INFER__UC_UPPER) || (no_han && infer__han_at(s + at, n - at))) return at;
        }
    }
    if (both) return both;
    *upper = 1;
    return at;
}

/* (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ : letters, marks after them, single spaces before letters. */
static size_t infer__word_phrase(const char *s, size_t n) {
    size_t at = 0, len, next;
    uint32_t c = infer__class_at(s, n, &len);
    if (!(c & INFER__UC_LETTER)) return 0;
    for (;;) {
        at += len;
        c = infer__class_at(s + at, n - at, &len);
        if (c & (INFER__UC_LETTER | INFER__UC_MARK)) continue;
        if (at >= n || s[at] != ' ' || !(infer__class_at(s + at + 1, n - at - 1, &next) & INFER__UC_LETTER)) return at;
        len += next;
    }
}

/* [^\r\n\p{L}\p{N}]? and a word; 0 = none here. c and len are those of the first character. */
static size_t infer__word_at(const infer__words_rule *r, const char *s, size_t n, uint32_t c, size_t len) {
    const uint32_t letters = r->shape == INFER__WORD_MARKS ? INFER__UC_LETTER | INFER__UC_MARK : INFER__UC_LETTER;
    size_t at = c & letters ? 0 : len, word;
    int no_han = r->shape == INFER__WORD_NO_HAN, upper;
    if (at && (c & INFER__UC_NUMBER || infer__is_line(s[0]))) return 0;
    switch (r->shape) {
        case INFER__WORD_CASED:
        case INFER__WORD_NO_HAN:
            word = infer__word_cased(s + at, n - at, no_han, &upper);
            if (at && (c & INFER__UC_MARK) && upper) { /* the mark is better the word's than before it */
                at = 0;
                word = infer__word_cased(s, n, no_han, &upper);
            }
            break;
        case INFER__WORD_PHRASE: word = infer__word_phrase(s + at, n - at); break;
        default: word = infer__span(s + at, n - at, letters);
    }
    if (word == 0) return 0;
    at += word;
    return r->contraction == INFER__SHORT_AFTER ? at + infer__contraction(s + at, n - at, 1) : at;
}

static size_t infer__split_words(const void *rule, const char *s, size_t n) {
    const infer__words_rule *r = (const infer__words_rule *)rule;
    const uint32_t not_other = r->shape == INFER__WORD_MARKS ? INFER__UC_LNS | INFER__UC_MARK : INFER__UC_LNS;
    size_t at, len, next;
    uint32_t c;
    if (r->contraction == INFER__SHORT_FIRST && (len = infer__contraction(s, n, 1)) != 0) return len;
    if (r->shape == INFER__WORD_NO_HAN && infer__han_at(s, n)) {
        for (at = 0; (len = infer__han_at(s + at, n - at)) != 0; ) at += len;
        return at;
    }
    c = infer__class_at(s, n, &len);
    if (c & INFER__UC_NUMBER) return infer__span_most(s, n, INFER__UC_NUMBER, r->digits ? r->digits : n);
    at = infer__word_at(r, s, n, c, len);
    if (at) return at;
    at = s[0] == ' ';
    if (at < n && !(infer__class_at(s + at, n - at, &next) & not_other)) {
        at += infer__span_not(s + at, n - at, not_other);
        if (r->tail == INFER__TAIL_NONE) return at;
        while (at < n && (infer__is_line(s[at]) || (s[at] == '/' && r->tail != INFER__TAIL_LINES))) {
            at++;
            if (r->tail == INFER__TAIL_ONE) break;
        }
        return at;
    }
    return infer__white_space(s, n, 1);
}

/* \s{512}(?!\S)|\s{256}(?!\S)|..|\s{4}(?!\S)|\s{1,2}(?!\S)|\s, on a piece that \s+(?!\S)|\s+ matched: all of it may be
 * cut. Other pieces stay whole: they end in a newline or have something else after one white space. */
static size_t infer__split_white_512(const void *rule, const char *s, size_t n) {
    size_t at = 0, len, count = 0, cut = 512;
    (void)rule;
    if (infer__is_line(s[n - 1])) return n;
    while (count < 512 && (infer__class_at(s + at, n - at, &len) & INFER__UC_SPACE)) {
        at += len;
        count++;
    }
    if (count == 0 || (count < 512 && at < n)) return n;
    while (cut > count) cut /= 2;
    return infer__span_most(s, n, INFER__UC_SPACE, cut);
}

/* ---- DeepSeek V3's ------------------------------------------------------------------------------------- */

typedef struct infer__marks_rule { uint8_t spark; } infer__marks_rule;

/* What [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+ matches at s; 0 = nothing. spark: without [\r\n]* and with [\r\n] for \s*[\r\n]+. */
static size_t infer__marks_at(const infer__marks_rule *r, const char *s, size_t n) {
    const uint32_t marks = INFER__UC_PUNCT | INFER__UC_SYMBOL, word = INFER__UC_LETTER | INFER__UC_MARK;
    size_t len, next, at;
    uint32_t c = infer__class_at(s, n, &len);
    if ((uint8_t)s[0] < 0x80 && (c & marks)) {
        for (at = 1; at < n && (uint8_t)s[at] < 0x80 && (INFER__UC_ASCII[(uint8_t)s[at]] & INFER__UC_LETTER); ) at++;
        if (at > 1) return at;
    }
    at = c & word ? 0 : len;
    if (at == 0 || (!(c & marks) && !infer__is_line(s[0]))) {
        next = infer__span(s + at, n - at, word);
        if (next) return at + next;
    }
    at = s[0] == ' ';
    if (infer__class_at(s + at, n - at, &next) & marks) {
        at += infer__span(s + at, n - at, marks);
        while (!r->spark && at < n && infer__is_line(s[at])) at++;
        return at;
    }
    if (r->spark && infer__is_line(s[0])) return 1;
    return infer__white_space(s, n, !r->spark);
}

static size_t infer__split_marks(const void *rule, const char *s, size_t n) {
    const infer__marks_rule *r = (const infer__marks_rule *)rule;
    size_t at = infer__marks_at(r, s, n), len;
    if (at) return at;
    while (at < n && !infer__marks_at(r, s + at, n - at)) {
        infer__class_at(s + at, n - at, &len);
        at += len;
    }
    return at;
}

/* ---- numbers in threes, counted from their end ------------------------------------------------------------ */

/* A piece of \d{1,3}(?=(?:\d{3})*\b) before the threes are cut: an integer that no letter, mark or _ follows, or
 * what stands before one. */
static size_t infer__split_numbers(const void *rule, const char *s, size_t n) {
    const uint32_t word = INFER__UC_LETTER | INFER__UC_MARK | INFER__UC_DIGIT | INFER__UC_CONNECTOR;
    size_t at = 0, len, run;
    (void)rule;
    while (at < n) {
        run = infer__span(s + at, n - at, INFER__UC_DIGIT);
        if (run == 0) {
            infer__class_at(s + at, n - at, &len);
            at += len;
        } else if (infer__class_at(s + at + run, n - at - run, &len) & word) {
            at += run;
        } else {
            return at ? at : run;
        }
    }
    return n;
}

/* Characters of a run of these classes, and its bytes. */
static size_t infer__count_run(const char *s, size_t n, uint32_t classes, size_t *bytes) {
    size_t count = 0, len;
    for (*bytes = 0; infer__class_at(s + *bytes, n - *bytes, &len) & classes; *bytes += len) count++;
    return count;
}

/* In a piece that is a number: what stands before its threes, then the threes together. rule: NULL = of \p{N}, else of
 * \d. */
static size_t infer__split_head(const void *rule, const char *s, size_t n) {
    const uint32_t digit = rule ? INFER__UC_DIGIT : INFER__UC_NUMBER;
    size_t bytes, count = infer__count_run(s, n, digit, &bytes);
    return bytes < n || count % 3 == 0 ? n : infer__span_most(s, n, digit, count % 3);
}
/* Other pieces than such threes end in something else than a digit, or have less than four in front. */
static size_t infer__split_threes(const void *rule, const char *s, size_t n) {
    const uint32_t digit = rule ? INFER__UC_DIGIT : INFER__UC_NUMBER;
    size_t at = infer__span_most(s, n, digit, 3), last = n - 1, len;
    if (!(infer__class_at(s + at, n - at, &len) & digit)) return n;
    while (last > 0 && ((uint8_t)s[last] & 0xc0) == 0x80) last--;
    return infer__class_at(s + last, n - last, &len) & digit ? at : n;
}

/* (?=(\d{3})+(?!\d)) cuts before every digit of a run that has 3, 6, 9 .. after it. Here: up to the first cut of a
 * run, or all threes of the run it begins with but the last, which are infer__split_threes'. */
static size_t infer__split_before_threes(const void *rule, const char *s, size_t n) {
    size_t at = 0, bytes, len, count;
    (void)rule;
    while (at < n) {
        count = infer__count_run(s + at, n - at, INFER__UC_DIGIT, &bytes);
        if (count >= 3 && (at > 0 || count % 3))
            return at + infer__span_most(s + at, n - at, INFER__UC_DIGIT, count % 3);
        if (count > 3) return infer__span_most(s, n, INFER__UC_DIGIT, count - 3);
        at += bytes;
        if (count == 0) {
            infer__class_at(s + at, n - at, &len);
            at += len;
        }
    }
    return n;
}
