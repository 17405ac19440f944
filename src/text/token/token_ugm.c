/* token_ugm.c: SentencePiece's Unigram ("t5" vocabularies).
 *
 * Owns:  the character map that normalises a text, white space, and the cut into the tokens whose scores have the
 *        greatest sum.
 * Rules: a character that is no token costs ten more than the worst token and becomes its byte tokens, where the
 *        vocabulary has them; else the unknown token, once for a run of such characters. User-defined tokens cost
 *        nothing. Sums are made from left to right in double, as other implementations do, so that ties fall the same.
 * Method: Kudo 2018, Viterbi's algorithm. A text of n bytes takes n steps for every byte of the longest token at most.
 *        Cells are kept back to the last position that every path passes, which is rarely more than a few words away.
 * Format: SentencePiece's precompiled_charsmap: u32 size, that many bytes of units, then zero-terminated replacements.
 *        The units are the double array of Darts-clone: bits 0-7 and 31 the label, bit 8 a value follows, bit 9
 *        the offset counts 256-fold, bits 10-30 the offset; of a value bits 0-30, the place of a replacement.
 * Start: infer__ugm_tokenize.
 */
#include "../text.h"

enum {
    INFER__UGM_REPLACEMENT = 256, /* bytes: bounds what a text can grow to; NFKC's longest has 33 */
    INFER__UGM_MAPPED = 256,      /* bytes that are replaced at once: a damaged map can go in circles */
    INFER__UGM_CELLS = 1 << 14,   /* kept before looking for a place to begin again */
    INFER__UGM_TEXT = 0x7fffff00  /* bytes of a normalised text */
};

static infer_result infer__ugm_open(infer__lexicon *x, const infer__vocab *v, const infer__gguf *g, infer_error *err) {
    static const char KEY[] = "tokenizer.ggml.precompiled_charsmap";
    const infer__kv *kv = infer__gguf_find(g, KEY);
    const uint8_t *data;
    uint32_t size, i, run = 0;
    float worst = 0;
    int32_t t, any = 0;

    for (t = 0; t < v->n; t++) {
        float score = infer__vocab_score(v, t);
        if (!(v->flags[t] & INFER_TOKEN_NORMAL)) continue;
        if (!any || score < worst) worst = score;
        any = 1;
    }
    worst -= 10;
    INFER__ROUNDED(worst);
    x->unknown = worst;
    if (!kv) return INFER_OK;
    if (kv->type != INFER__GGUF_ARRAY || (kv->element != INFER__GGUF_U8 && kv->element != INFER__GGUF_I8)) {
        return infer__error(err, INFER_ERR_FORMAT, "%s is not an array of bytes", KEY);
    }
    if (kv->n == 0) return INFER_OK;
    data = (const uint8_t *)kv->data;
    size = kv->n < 4 ? 0 : infer__load_u32(data);
    if (size < 4 || size % 4 != 0 || kv->n > UINT32_MAX || size >= kv->n - 4) {
        return infer__error(err, INFER_ERR_FORMAT, "%s: %llu bytes do not hold their trie and replacements", KEY,
                            (unsigned long long)kv->n);
    }
    x->units = data + 4;
    x->n_units = size / 4;
    x->replacements = (const char *)data + 4 + size;
    x->n_replacements = (uint32_t)kv->n - 4 - size;
    for (i = 0; i < x->n_replacements; i++) {
        run = x->replacements[i] ? run + 1 : 0;
        if (run > INFER__UGM_REPLACEMENT) {
            return infer__error(err, INFER_ERR_FORMAT, "%s: a replacement of more than %d bytes", KEY,
                                (int)INFER__UGM_REPLACEMENT);
        }
    }
    return run == 0 ? INFER_OK : infer__error(err, INFER_ERR_FORMAT, "%s: the last replacement does not end", KEY);
}

/* ---- normalising --------------------------------------------------------------------------------------- */

static uint32_t infer__ugm_unit(const infer__lexicon *x, uint32_t i) {
    return i < x->n_units ? infer__load_u32(x->units + 4 * (size_t)i) : 0x80000000u; /* no label is equal to that */
}
static uint32_t infer__ugm_offset(uint32_t unit) { return unit >> 10 << (unit >> 6 & 8); }

/* What the longest prefix of s[0..n) that the map has is replaced with, *used = its length; NULL = it has none. */
static const char *infer__ugm_mapped(const infer__lexicon *x, const char *s, size_t n, size_t *used) {
    const char *found = NULL;
    uint32_t unit, i, value;
    size_t at;
    if (!x->units) return NULL;
    i = infer__ugm_offset(infer__ugm_unit(x, 0));
    for (at = 0; at < n && at < INFER__UGM_MAPPED && s[at] != 0; at++) {
        i ^= (uint8_t)s[at];
        unit = infer__ugm_unit(x, i);
        if ((unit & 0x800000ffu) != (uint8_t)s[at]) break;
        i ^= infer__ugm_offset(unit);
        if (!(unit >> 8 & 1)) continue;
        value = infer__ugm_unit(x, i) & 0x7fffffffu;
        if (value >= x->n_replacements) continue; /* a damaged map */
        found = x->replacements + value;
        *used = at + 1;
    }
    return found;
}

/* Room for `more` bytes after w->text[0..text_n), which keep their content. 0 = out of memory. */
static int infer__ugm_grow(infer__token_work *w, size_t more) {
    size_t need = w->text_n + more, cap;
    char *text;
    if (need <= w->text_cap) return 1;
    if (need > INFER__UGM_TEXT) return 0;
    cap = need + need / 2 + 64;
    text = (char *)infer__realloc(w->mem, w->text, cap, 1);
    if (!text) return 0;
    w->text = text;
    w->text_cap = cap;
    return 1;
}

static void infer__ugm_space(infer__token_work *w) {
    memcpy(w->text + w->text_n, INFER__SPACE_MARK, 3);
    w->text_n += 3;
}

/* w->text = the text in the vocabulary's form. Where extra white space is removed, every word gets its space, also the
 * first one, whatever add_space_prefix says: so llama.cpp has it, and converters write both or neither. 0 = out of
 * memory. */
static int infer__ugm_normalise(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                                size_t n) {
    int begun = 0, in_word = 0;
    size_t used, len, i;
    w->text_n = 0;
    for (; n > 0; s += used, n -= used) {
        const char *to = infer__ugm_mapped(x, s, n, &used);
        if (to) {
            len = strlen(to);
        } else {
            int ok;
            infer__utf8_next(s, n, &used, &ok);
            to = ok ? s : "\xef\xbf\xbd"; /* U+FFFD */
            len = ok ? used : 3;
        }
        if (!infer__ugm_grow(w, 4 * len + 3))
            return 0; /* every byte may be a space, which takes three, after another */
        for (i = 0; i < len; i++) {
            if (to[i] == ' ') {
                in_word = 0;
                if (!v->remove_extra_whitespaces) infer__ugm_space(w);
                continue;
            }
            if (!in_word && ((v->add_space_prefix && !begun) || v->remove_extra_whitespaces)) {
                infer__ugm_space(w);
                begun = 1;
            }
            in_word = 1;
            w->text[w->text_n++] = to[i];
        }
    }
    if (begun || !v->add_space_prefix || w->text_n == 0) return 1;
    if (!infer__ugm_grow(w, 3)) return 0;
    infer__ugm_space(w); /* spaces alone: SentencePiece puts its space before them, llama.cpp before words only */
    return 1;
}

/* ---- the best cut ---------------------------------------------------------------------------------------- */

/* A character without a token: its bytes, or the unknown token unless the one before is it (again); returns 1 when the
 * last one is it now. */
static int infer__ugm_unknown(const infer__vocab *v, const char *s, size_t n, int again, infer__token_sink *sink) {
    size_t i;
    for (i = 0; i < n && v->byte_token[(uint8_t)s[i]] >= 0; i++) {
    }
    if (i == n) {
        for (i = 0; i < n; i++) infer__token_put(sink, v->byte_token[(uint8_t)s[i]]);
        return 0;
    }
    if (!again && v->unknown >= 0) infer__token_put(sink, v->unknown);
    return 1;
}

/* Put the tokens of the best way through s[0..n), n >= 1, whose cells are known. unknown: 1 when the one before is the
 * unknown token; returns the same for the last one. */
static int infer__ugm_emit(const infer__vocab *v, infer__cell *cells, const char *s, size_t n, int unknown,
                           infer__token_sink *sink) {
    infer__cell step = cells[n];
    size_t at, from;
    for (at = n; at > 0; at = from) { /* steps are stored at their ends: move them to their beginnings */
        infer__cell before;
        from = at - step.span;
        before = cells[from];
        cells[from] = step;
        step = before;
    }
    for (at = 0; at < n; at += cells[at].span) {
        if (cells[at].token >= 0) {
            infer__token_put(sink, cells[at].token);
            unknown = 0;
        } else {
            unknown = infer__ugm_unknown(v, s + at, cells[at].span, unknown, sink);
        }
    }
    return unknown;
}

/* Offer a token that begins at cells[at] to the cell where it ends. 0 = out of memory. */
static int infer__ugm_step(infer__token_work *w, size_t at, size_t span, int32_t token, double score, size_t *reach) {
    infer__cell *cell;
    if (at + span > *reach) {
        if (!infer__token_work_cells(w, at + span + 1)) return 0;
        while (*reach < at + span) w->cells[++*reach].span = 0; /* not reached yet */
    }
    score += w->cells[at].best.score;
    INFER__ROUNDED(score);
    cell = &w->cells[at + span];
    if (cell->span == 0 || score > cell->best.score) {
        cell->best.score = score;
        cell->token = token;
        cell->span = (uint32_t)span;
    }
    return 1;
}

/* Bytes of the character at s[0..n), from its first byte alone. */
static size_t infer__ugm_char(const char *s, size_t n) {
    uint8_t b = (uint8_t)s[0];
    return INFER__MIN(n, b < 0xc0 ? 1u : b < 0xe0 ? 2u : b < 0xf0 ? 3u : 4u);
}

static int infer__ugm_tokenize(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                               size_t n, infer__token_sink *sink) {
    size_t base = 0, at = 0, reach = 0, size; /* cells[i] is byte base + i; reach: the last one that has a way */
    const uint8_t *const structure = w->structure;
    int unknown = 0;
    if (!infer__ugm_normalise(v, x, w, s, n)) return 0;
    if (!infer__token_work_cells(w, INFER__UGM_CELLS)) return 0;
    w->cells[0].best.score = 0;
    for (; base + at < w->text_n; at += size) {
        infer__trie_walk walk;
        int32_t token, whole = 0;
        if (at == reach && at >= INFER__UGM_CELLS / 2) { /* every path passes here */
            double score = w->cells[at].best.score;
            unknown = infer__ugm_emit(v, w->cells, w->text + base, at, unknown, sink);
            w->cells[0].best.score = score;
            base += at;
            at = reach = 0;
        }
        memset(&walk, 0, sizeof walk);
        walk.s = w->text + base + at;
        walk.n = w->text_n - base - at;
        size = infer__ugm_char(walk.s, walk.n);
        if (!infer__watch_work(w->watch, 4)) return 0;
        while ((token = infer__trie_next(&x->trie, &walk)) >= 0) {
            double score = v->flags[token] & INFER_TOKEN_USER ? 0 : infer__vocab_score(v, token);
            if (structure && infer__token_barred(w, token, s, n)) continue; /* the text is another: all of it counts */
            whole |= walk.at == size;
            if (!infer__ugm_step(w, at, walk.at, token, score, &reach)) return 0;
        }
        if (!whole && !infer__ugm_step(w, at, size, -1, x->unknown, &reach)) return 0;
    }
    if (at > 0) infer__ugm_emit(v, w->cells, w->text + base, at, unknown, sink);
    return 1;
}
