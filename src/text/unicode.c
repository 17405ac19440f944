/* unicode.c: UTF-8, the character classes of pre-tokenizers, case and base characters.
 *
 * Owns:  the rules of well-formed UTF-8 (Unicode standard, table 3-7: no overlong forms, no surrogates, nothing
 *        above U+10FFFF) and the lookups in unicode_tables.h and unicode_maps.h.
 * Rules: knows no vocabulary. An invalid byte is one character, U+FFFD, of length 1, so that every text splits into
 *        characters and no byte is lost.
 * Start: infer__utf8_next.
 */
#include "text.h"
#include "unicode_tables.h"
#include "unicode_maps.h"

/* Length 1..4 that the lead byte b announces, 0 when no character starts with it; *low and *high bound the second
 * byte (the later ones are 80..BF). */
static size_t infer__utf8_lead(uint8_t b, uint8_t *low, uint8_t *high) {
    *low = 0x80;
    *high = 0xbf;
    if (b < 0x80) return 1;
    if (b < 0xc2) return 0;
    if (b < 0xe0) return 2;
    if (b < 0xf0) {
        if (b == 0xe0) *low = 0xa0;  /* below: overlong */
        if (b == 0xed) *high = 0x9f; /* above: surrogates */
        return 3;
    }
    if (b < 0xf5) {
        if (b == 0xf0) *low = 0x90;  /* below: overlong */
        if (b == 0xf4) *high = 0x8f; /* above: U+110000 and on */
        return 4;
    }
    return 0;
}

static uint32_t infer__utf8_next(const char *s, size_t n, size_t *len, int *ok) {
    const uint8_t *b = (const uint8_t *)s;
    uint8_t low, high;
    size_t i, need;
    uint32_t cp;

    *len = 1;
    if (ok) *ok = 1;
    if (b[0] < 0x80) return b[0];
    need = infer__utf8_lead(b[0], &low, &high);
    if (need == 0 || need > n || b[1] < low || b[1] > high) goto invalid;
    cp = (uint32_t)b[0] & (0xffu >> (need + 1));
    for (i = 1; i < need; i++) {
        if ((b[i] & 0xc0) != 0x80) goto invalid;
        cp = cp << 6 | (b[i] & 0x3fu);
    }
    *len = need;
    return cp;
invalid:
    if (ok) *ok = 0;
    return 0xfffd;
}

static size_t infer__utf8_put(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | (cp >> 18 & 7));
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

static size_t infer__utf8_whole(const char *s, size_t n) {
    const uint8_t *b = (const uint8_t *)s;
    size_t tail, need, i;
    uint8_t low, high;

    for (tail = 1; tail <= 3 && tail <= n; tail++) { /* bytes from the last lead byte to the end */
        const uint8_t *lead = b + n - tail;
        if ((*lead & 0xc0) == 0x80) continue;
        need = infer__utf8_lead(*lead, &low, &high);
        if (need <= tail) return n; /* complete, or invalid */
        if (tail > 1 && (lead[1] < low || lead[1] > high)) return n;
        for (i = 2; i < tail; i++) {
            if ((lead[i] & 0xc0) != 0x80) return n;
        }
        return n - tail;
    }
    return n;
}

static uint32_t infer__uc_class(uint32_t cp) {
    if (cp < INFER__UC_LIMIT) {
        uint32_t in_block = cp & 127;
        uint32_t word = INFER__UC_WORDS[INFER__UC_BLOCK[cp >> 7] * 16u + (in_block >> 3)];
        return INFER__UC_CLASSES[word >> (in_block & 7) * 4 & 15];
    }
    {
        size_t i;
        for (i = 0; i < INFER__COUNT(INFER__UC_RANGES) && INFER__UC_RANGES[i].first <= cp; i++) {
            if (cp <= INFER__UC_RANGES[i].last) return INFER__UC_CLASSES[INFER__UC_RANGES[i].number];
        }
    }
    return INFER__UC_OTHER;
}

/* ---- maps ------------------------------------------------------------------------------------------ */

static uint32_t infer__uc_case_of(const infer__uc_case *runs, size_t n, uint32_t cp) {
    size_t lo = 0, hi = n;
    while (lo < hi) { /* the first run that ends at cp or later */
        size_t mid = lo + (hi - lo) / 2;
        if (runs[mid].last < cp) lo = mid + 1;
        else hi = mid;
    }
    if (lo == n || cp < runs[lo].first || (cp - runs[lo].first) % (uint32_t)runs[lo].step != 0) return cp;
    return (uint32_t)((int32_t)cp + runs[lo].distance);
}
static uint32_t infer__uc_lower(uint32_t cp) {
    if (cp < 0x80) return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    return infer__uc_case_of(INFER__UC_TO_LOWER, INFER__COUNT(INFER__UC_TO_LOWER), cp);
}
static uint32_t infer__uc_upper(uint32_t cp) {
    if (cp < 0x80) return cp >= 'a' && cp <= 'z' ? cp - 32 : cp;
    return infer__uc_case_of(INFER__UC_TO_UPPER, INFER__COUNT(INFER__UC_TO_UPPER), cp);
}

/* Hangul: Unicode standard, 3.12: 588 syllables for each leading consonant. */
static uint32_t infer__uc_base(uint32_t cp) {
    size_t lo = 0, hi = INFER__COUNT(INFER__UC_BASE_RUNS);
    if (cp < 0xc0) return cp;
    if (cp >= 0xac00 && cp < 0xd7a4) return 0x1100 + (cp - 0xac00) / 588;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (INFER__UC_BASE_RUNS[mid].last < cp) lo = mid + 1;
        else hi = mid;
    }
    if (lo == INFER__COUNT(INFER__UC_BASE_RUNS) || cp < INFER__UC_BASE_RUNS[lo].first) return cp;
    return INFER__UC_BASES[INFER__UC_BASE_RUNS[lo].at + (cp - INFER__UC_BASE_RUNS[lo].first)];
}

/* Hangul: 28 syllables for each vowel, the first of which ends with it. */
static int infer__uc_rest(uint32_t cp, uint32_t to[2]) {
    size_t lo = 0, hi = INFER__COUNT(INFER__UC_RESTS);
    if (cp < 0x9cb) return 0; /* below the first */
    if (cp >= 0xac00 && cp < 0xd7a4) {
        to[0] = 0x1161 + (cp - 0xac00) % 588 / 28;
        to[1] = 0x11a7 + (cp - 0xac00) % 28;
        return 1 + ((cp - 0xac00) % 28 != 0);
    }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (INFER__UC_RESTS[mid].cp < cp) lo = mid + 1;
        else hi = mid;
    }
    if (lo == INFER__COUNT(INFER__UC_RESTS) || INFER__UC_RESTS[lo].cp != cp) return 0;
    memcpy(to, INFER__UC_RESTS[lo].to, sizeof INFER__UC_RESTS[lo].to);
    return 1 + (to[1] != 0);
}

static int infer__uc_control(uint32_t cp) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__UC_CONTROL) && INFER__UC_CONTROL[i].first <= cp; i++) {
        if (cp <= INFER__UC_CONTROL[i].last) return 1;
    }
    return 0;
}
