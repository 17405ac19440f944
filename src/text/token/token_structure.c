/* token_structure.c: tokens that only a template may write: the marks of turns, reasoning and calls in a conversation.
 *
 * Owns:  which tokens of a vocabulary are structure (a bit a token, made for one rendering), and the question whether
 *        one may stand for a stretch of text.
 * Rules: control tokens need no bit: no message becomes one (vocab.c, lexicon.c), except for RWKV's. Structure is a
 *        user-defined token of two or more characters, not white space alone, that occurs in the template's own
 *        text, or is a mark of a known format, or is written like a mark: "<|" in front or "|>" after, the bar also
 *        U+FF5C. So is a normal token in angle or square brackets that meets one of the three. A token that is
 *        structure stands for the template's bytes only: a stretch that contains a byte of a message becomes other
 *        tokens, in every algorithm, also by merges, and when template and message meet inside it. Limit: a mark that
 *        the vocabulary spells with several ordinary tokens ("[INST]" in many) cannot be distinguished from text.
 * Start: infer__token_barred; infer__structure_open and infer__structure_note make the bits.
 */
#include "../text.h"

/* 1 when s[0..n), n >= 1, a part of w's text, holds a byte of a message. */
static int infer__from_message(const infer__token_work *w, const char *s, size_t n) {
    size_t lo = 0, hi = w->n_segments;
    while (lo < hi) { /* the first segment that ends after s */
        size_t mid = lo + (hi - lo) / 2;
        if (w->segments[mid].text + w->segments[mid].n <= s) lo = mid + 1;
        else hi = mid;
    }
    for (; lo < w->n_segments && w->segments[lo].text < s + n; lo++)
        if (w->segments[lo].n > 0 && w->segments[lo].from_message) return 1;
    return 0;
}

INFER__INLINE int infer__structure_has(const uint8_t *bits, int32_t token) {
    return bits != NULL && token >= 0 && (bits[token >> 3] >> (token & 7) & 1);
}

/* 1 when this token may not stand for s[0..n), a part of w's text. */
static int infer__token_barred(const infer__token_work *w, int32_t token, const char *s, size_t n) {
    return infer__structure_has(w->structure, token) && infer__from_message(w, s, n);
}

/* ---- making the bits --------------------------------------------------------------------------------------------- */
INFER__COLD_BEGIN

/* Two characters or more, and not white space alone. */
static int infer__structure_may(const infer__vocab *v, int32_t token) {
    const infer__str *t = &v->text[token];
    size_t at, len, count = 0, dark = 0;
    if (!(v->flags[token] & (INFER_TOKEN_USER | INFER_TOKEN_NORMAL))) return 0;
    for (at = 0; at < t->n; at += len, count++) {
        uint32_t cp = infer__utf8_next(t->s + at, (size_t)t->n - at, &len, NULL);
        dark += !(infer__uc_class(cp) & INFER__UC_SPACE) && cp != 0x2581;
    }
    return count >= 2 && dark > 0;
}

/* "<|" or "|>" with something between; the bar also U+FF5C, the piece of n bytes as it is written. */
static int infer__structure_barred_form(const char *s, size_t n) {
    static const char WIDE[] = "\xef\xbd\x9c";
    if (n < 4 || s[0] != '<' || s[n - 1] != '>') return 0;
    if (s[1] == '|' || s[n - 2] == '|') return 1;
    return n > 5 && (memcmp(s + 1, WIDE, 3) == 0 || memcmp(s + n - 4, WIDE, 3) == 0);
}

static void infer__structure_set(uint8_t *bits, int32_t token) {
    bits[token >> 3] |= (uint8_t)(1 << (token & 7));
}
/* After the bits of structure there are as many for marked tokens that cannot be: asked once, not at every place. */
static uint8_t *infer__structure_others(uint8_t *bits, const infer__vocab *v) {
    return bits + v->n / 8 + 1;
}

static infer_result infer__structure_open(uint8_t **out, infer__mem *mem, const infer__vocab *v, infer_error *err) {
    char piece[INFER__MARKED_LONGEST];
    int32_t i;
    *out = (uint8_t *)infer__calloc(mem, (uint64_t)v->n / 8 + 1, 2);
    if (!*out) return infer__error(err, INFER_ERR_MEMORY, "out of memory for the marks of %d tokens", (int)v->n);
    for (i = 0; i < v->n_marked; i++) {
        int32_t token = v->marked[i];
        size_t n = infer__vocab_piece(v, token, 0, piece, sizeof piece);
        if (v->kind == INFER__VOCAB_RWKV && (v->flags[token] & INFER_TOKEN_CONTROL)) infer__structure_set(*out, token);
        if (!infer__structure_may(v, token)) infer__structure_set(infer__structure_others(*out, v), token);
        else if (n <= sizeof piece && infer__structure_barred_form(piece, n)) infer__structure_set(*out, token);
    }
    return INFER_OK;
}

/* Set the bits of what may be structure and s[0..n) begins with; whole: of what is all of it. */
static void infer__structure_at(uint8_t *bits, const infer__vocab *v, const char *s, size_t n, int whole) {
    const int kinds = INFER_TOKEN_USER | INFER_TOKEN_NORMAL;
    const uint8_t *others = infer__structure_others(bits, v);
    uint8_t first = (uint8_t)s[0];
    int32_t lo = v->marked_from[first], hi = v->marked_from[first + 1];
    size_t depth;
    if (!(v->marked_kinds[first] & kinds)) return;
    for (depth = 1; lo < hi; depth++) { /* the range of texts that begin with s[0..depth) */
        for (; lo < hi && v->text[v->marked[lo]].n == depth; lo++)
            if ((!whole || depth == n) && !infer__structure_has(others, v->marked[lo]))
                infer__structure_set(bits, v->marked[lo]);
        if (depth >= n || lo >= hi) return;
        lo = infer__marked_bound(v, lo, hi, depth, (uint8_t)s[depth]);
        hi = infer__marked_bound(v, lo, hi, depth, (uint8_t)s[depth] + 1);
    }
}
static void infer__structure_scan(uint8_t *bits, const infer__vocab *v, const char *s, size_t n, int whole) {
    size_t at;
    for (at = 0; at < (whole ? INFER__MIN(n, 1) : n); at++) infer__structure_at(bits, v, s + at, n - at, whole);
}

/* s[0..n) as the vocabulary spells ordinary text: its length, out has 3 n bytes. */
static size_t infer__structure_spelled(const infer__vocab *v, const char *s, size_t n, char *out) {
    size_t i, len = 0;
    int bytes = v->kind == INFER__VOCAB_BPE && v->form == INFER__FORM_BYTES;
    for (i = 0; i < n; i++) {
        if (bytes) len += infer__utf8_put(infer__byte_to_char((uint8_t)s[i]), out + len);
        else if (s[i] == ' ') len += infer__utf8_put(0x2581, out + len);
        else out[len++] = s[i];
    }
    return len;
}

static infer_result infer__structure_note(uint8_t *bits, infer__mem *mem, const infer__vocab *v, const char *s,
                                          size_t n, int whole, infer_error *err) {
    char *spelled;
    if (n == 0 || v->n_marked == 0) return INFER_OK;
    infer__structure_scan(bits, v, s, n, whole);
    spelled = (char *)infer__alloc(mem, 3 * (uint64_t)n + 4);
    if (!spelled)
        return infer__error(err, INFER_ERR_MEMORY, "out of memory for the marks of %llu bytes", (unsigned long long)n);
    infer__structure_scan(bits, v, spelled, infer__structure_spelled(v, s, n, spelled), whole);
    infer__free(mem, spelled);
    return INFER_OK;
}
INFER__COLD_END
