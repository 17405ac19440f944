/* token_wpm.c: WordPiece ("bert" vocabularies).
 *
 * Owns:  BERT's basic tokenizer (what is dropped, lower case, accents, where a word ends) and the greedy cut of a word
 *        into the longest tokens. In GGUF files a token that begins a word begins with U+2581 and the others, "##x" in
 *        the model's own file, are bare.
 * Rules: a word with a part that is no token is one unknown token.
 * Method: BERT (Devlin et al. 2018), as its models were trained: where accents go, texts are decomposed and lose marks
 *        of category Mn; a word of over 100 characters is unknown (Hugging Face's limit; Google's code has 200).
 *        Controls are dropped, also those that are white space (U+000B, U+0085), but tabs and ends of lines.
 *        llama.cpp keeps only the first character of a decomposition (of a Hangul syllable the leading consonant),
 *        drops all of category M, and has no limit.
 * Start: infer__wpm_tokenize.
 */
#include "../text.h"

/* Chinese characters are words of one character: ranges of BERT's tokenizer; U+2B920 for U+2B820 as in Hugging
 * Face's. */
static int infer__wpm_is_cjk(uint32_t cp) {
    static const uint32_t RANGES[][2] = {{0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2a6df},
                                         {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    size_t i;
    for (i = 0; i < INFER__COUNT(RANGES); i++) {
        if (cp >= RANGES[i][0] && cp <= RANGES[i][1]) return 1;
    }
    return 0;
}

enum { INFER__WPM_LETTERS = 100 };

/* The ids of the word w->text[0..n), which begins with U+2581; it was made of some of w->word. */
static void infer__wpm_word(const infer__vocab *v, const infer__lexicon *x, const infer__token_work *w, size_t n,
                            infer__token_sink *sink) {
    const char *word = w->text;
    size_t at, len, letters = 0, before = sink->count;
    for (at = 3; n > INFER__WPM_LETTERS && at < n; at++) letters += ((uint8_t)word[at] & 0xc0) != 0x80;
    for (at = letters > INFER__WPM_LETTERS ? n + 1 : 0; at < n; at += len) {
        int32_t token = w->structure ? infer__lexicon_longest(x, w, word + at, n - at, w->word, w->word_n, &len)
                                     : infer__trie_longest(&x->trie, word + at, n - at, &len);
        if (token < 0) break;
        if (at > 0 && len >= 3 && memcmp(word + at, INFER__SPACE_MARK, 3) == 0) break; /* it begins words */
        infer__token_put(sink, token);
    }
    if (at == n) return;
    sink->count = before;
    if (v->unknown >= 0) infer__token_put(sink, v->unknown);
}

static int infer__wpm_tokenize(const infer__vocab *v, const infer__lexicon *x, infer__token_work *w, const char *s,
                               size_t n, infer__token_sink *sink) {
    const size_t head = 3; /* bytes of U+2581 */
    size_t len, end = head;
    /* what is mapped grows to three times its bytes at most */
    if (!infer__token_work_text(w, head + 3 * n + 12)) return 0;
    memcpy(w->text, INFER__SPACE_MARK, head);
    w->word = s;
    w->word_n = n;
    for (; n > 0 && infer__watch_work(w->watch, 1); s += len, n -= len) {
        uint32_t cp = infer__utf8_next(s, n, &len, NULL), rest[3], c;
        int alone, dropped, more = v->strip_accents ? infer__uc_rest(cp, rest + 1) : 0, i;
        rest[0] = v->strip_accents ? infer__uc_base(cp) : cp;
        c = infer__uc_class(rest[0]);
        dropped =
            infer__uc_control(rest[0]) && !(cp == '\t' || cp == '\n' || cp == '\r'); /* some are white space, too */
        alone = (c & INFER__UC_PUNCT) || (rest[0] < 0x7f && (c & INFER__UC_SYMBOL)) || infer__wpm_is_cjk(rest[0]);
        if (alone || ((c & INFER__UC_SPACE) && !dropped)) {
            if (end > head) infer__wpm_word(v, x, w, end, sink);
            end = head;
            if (!alone) continue;
        }
        for (i = 0; i <= more; i++) {
            if (rest[i] == 0xfffd || infer__uc_control(rest[i])) continue;
            if (v->strip_accents && (infer__uc_class(rest[i]) & INFER__UC_NONSPACING)) continue;
            end += infer__utf8_put(v->lowercase ? infer__uc_lower(rest[i]) : rest[i], w->text + end);
        }
        if (!alone) continue;
        infer__wpm_word(v, x, w, end, sink);
        end = head;
    }
    if (end > head) infer__wpm_word(v, x, w, end, sink);
    return 1;
}

/* ---- ids -> text ------------------------------------------------------------------------------------- */

/* 1 when the space before s is taken out in this pass. */
static int infer__wpm_closes(int pass, const char *s, size_t n) {
    if (pass == 0) return s[0] == '?' || s[0] == '!' || s[0] == '.' || s[0] == ',';
    if (s[0] != '\'' || n < 2) return 0;
    if (pass == 1) return s[1] == ' ';
    if (s[1] == 's' || s[1] == 'm') return 1;
    return n > 2 && s[2] == 'e' && (s[1] == 'r' || s[1] == 'v');
}

/* What Hugging Face calls clean_up_tokenization_spaces, which is part of decoding WordPiece: " ." becomes ".", then " '
 * " becomes "'", then " 's", " 'm", " 're", " 've" lose the space. */
static size_t infer__wpm_clean(char *s, size_t n) {
    int pass;
    for (pass = 0; pass < 3 && n > 0; pass++) {
        char before = s[0];
        size_t i, out = 1;
        for (i = 1; i < n; i++) {
            int joins = before == ' ' && infer__wpm_closes(pass, s + i, n - i);
            before = s[i];
            s[out - (size_t)joins] = before;
            out += 1 - (size_t)joins;
            if (joins && pass == 1) { /* the space after it too */
                i++;
                before = 0;
            }
        }
        n = out;
    }
    return n;
}
