/* tokenizer_json.c: the models that tokenizer.json can hold: BPE over bytes, BPE with byte fallback, Unigram, WordPiece. */
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

int hf_vocab_object(hf_vocab *v, const infer_json *vocab) {
    const size_t n = infer_json_count(vocab);
    size_t i;
    if (infer_json_kind(vocab) != INFER_JSON_OBJECT) return cli_fail(v->command, "%s: the vocabulary is no JSON object", v->folder), 0;
    v->n = v->n_base = n; /* ids may lie as far apart as there are tokens */
    v->cap = n + 1;
    v->tokens = cli_alloc(v->command, v->cap, sizeof *v->tokens);
    if (v->tokens == NULL) return 0;
    memset(v->tokens, 0, v->cap * sizeof *v->tokens);
    for (i = 0; i < n; i++) {
        const infer_json *id = infer_json_at(vocab, i);
        hf_text text;
        hf_token *t;
        text.s = infer_json_name(vocab, i, &text.n);
        if (infer_json_kind(id) != INFER_JSON_INT)
            return cli_fail(v->command, "%s: the id of the token '%.40s' is no integer", v->folder, text.s), 0;
        t = hf_token_at(v, infer_json_int(id));
        if (t == NULL) return 0;
        if (t->text.s) {
            cli_fail(v->command, "%s: the tokens '%.40s' and '%.40s' have the same id, %.0f", v->folder, t->text.s, text.s,
                     (double)infer_json_int(id));
            return 0;
        }
        t->text = text;
        t->type = HF_NORMAL;
        t->score = -1000;
    }
    while (v->n && v->tokens[v->n - 1].text.s == NULL) v->n--;
    v->n_base = v->n;
    return 1;
}

/* "a b"; a space inside a part becomes U+0120, as GGUF files have it. */
static int merge_of(hf_vocab *v, const infer_json *pair, hf_text *out) {
    hf_text part[2];
    size_t n = 1, k, i;
    char *p;
    for (k = 0; k < 2; k++) {
        part[k] = hf_string(infer_json_at(pair, k));
        if (part[k].s == NULL || infer_json_count(pair) != 2) return cli_fail(v->command, "%s: a merge is no pair of texts", v->folder), 0;
        n += part[k].n;
        for (i = 0; i < part[k].n; i++) n += part[k].s[i] == ' ';
    }
    out->s = p = hf_bytes(v, n);
    out->n = n;
    if (p == NULL) return 0;
    for (k = 0; k < 2; k++) {
        if (k) *p++ = ' ';
        for (i = 0; i < part[k].n; i++) {
            if (part[k].s[i] == ' ') *p++ = '\xc4';
            *p++ = part[k].s[i] == ' ' ? '\xa0' : part[k].s[i];
        }
    }
    return 1;
}

int hf_merges(hf_vocab *v, const infer_json *merges) {
    const size_t n = infer_json_count(merges);
    size_t i;
    if (infer_json_kind(merges) != INFER_JSON_ARRAY) return cli_fail(v->command, "%s: the merges are no JSON array", v->folder), 0;
    v->merges = cli_alloc(v->command, n + 1, sizeof *v->merges);
    if (v->merges == NULL) return 0;
    for (i = 0; i < n; i++) {
        const infer_json *m = infer_json_at(merges, i);
        hf_text *out = &v->merges[i];
        *out = hf_string(m);
        if (out->s == NULL && !merge_of(v, m, out)) return 0;
        if (memchr(out->s, ' ', out->n) == NULL) return cli_fail(v->command, "%s: the merge '%.60s' has no space", v->folder, out->s), 0;
    }
    v->n_merges = n;
    v->has_merges = 1;
    return 1;
}

/* ---- BPE ---- */

static uint32_t hash_of(const char *a, size_t n_a, const char *b, size_t n_b) {
    uint32_t h = 2166136261u;
    size_t i;
    for (i = 0; i < n_a; i++) h = (h ^ (unsigned char)a[i]) * 16777619u;
    for (i = 0; i < n_b; i++) h = (h ^ (unsigned char)b[i]) * 16777619u;
    return h;
}

/* Scores for a tokenizer that joins the pair with the highest score first: minus the place of the first merge that makes the
 * token. SentencePiece's own scores went into the order of the merges in the same way. */
static int scores_from_merges(hf_vocab *v) {
    size_t slots = 64, i;
    uint32_t *table;
    while (slots < 2 * v->n) slots *= 2;
    table = cli_alloc(v->command, slots, sizeof *table);
    if (table == NULL) return 0;
    memset(table, 0, slots * sizeof *table);
    for (i = 0; i < v->n; i++) {
        const hf_text *t = &v->tokens[i].text;
        size_t at;
        if (t->s == NULL) continue;
        for (at = hash_of(t->s, t->n, "", 0) & (slots - 1); table[at]; at = (at + 1) & (slots - 1)) { }
        table[at] = (uint32_t)i + 1;
        if (i < v->n_base) v->tokens[i].score = v->tokens[i].type == HF_NORMAL ? -(double)v->n_merges - 1 : 0;
    }
    for (i = v->n_merges; i-- > 0;) { /* backwards: the first one stays */
        const hf_text *m = &v->merges[i];
        const char *space = memchr(m->s, ' ', m->n);
        const size_t n_a = (size_t)(space - m->s), n_b = m->n - n_a - 1;
        size_t at = hash_of(m->s, n_a, space + 1, n_b) & (slots - 1);
        for (; table[at]; at = (at + 1) & (slots - 1)) {
            hf_token *t = &v->tokens[table[at] - 1];
            if (t->text.n != n_a + n_b || memcmp(t->text.s, m->s, n_a) != 0 || memcmp(t->text.s + n_a, space + 1, n_b) != 0) continue;
            t->score = 0 - (double)i;
            break;
        }
    }
    free(table);
    return 1;
}

/* Llama 2, Gemma and their like: UTF-8 with U+2581 for spaces; bytes that no token has become <0xFF>. */
static int from_fallback_bpe(hf_vocab *v) {
    hf_marked rules;
    if (!hf_marked_rules(v, &rules) || !hf_added_plain(v)) return 0;
    v->scored = 1;
    if (rules.by_space || !rules.prefix) { /* merges as they are, nothing put before the text */
        v->model = "gemma4";
        v->pre = v->wanted_pre;
        v->space_prefix = 0;
        return 1;
    }
    if (rules.unless)
        hf_note(v, "tokenizer.json: a space is put before texts unless they begin with one: GGUF files cannot say so, it is put before all");
    v->model = "llama";
    v->pre = "default";
    v->has_merges = 0;
    return scores_from_merges(v);
}

static int from_bpe(hf_vocab *v, const infer_json *model) {
    static const char *const AFFIXES[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    int i;
    for (i = 0; i < 2; i++)
        if (infer_json_count(infer_json_get(model, AFFIXES[i])) > 0)
            return cli_fail(v->command, "%s: BPE with %s is not supported", v->folder, AFFIXES[i]), 0;
    if (!hf_vocab_object(v, infer_json_get(model, "vocab")) || !hf_merges(v, infer_json_get(model, "merges"))) return 0;
    if (infer_json_kind(infer_json_get(model, "byte_fallback")) == INFER_JSON_TRUE) return from_fallback_bpe(v);
    v->model = "gpt2";
    v->pre = v->wanted_pre ? v->wanted_pre : hf_pre_find(v);
    return v->pre != NULL && hf_added_gpt2(v);
}

/* ---- Unigram ---- */

static int decode_charsmap(hf_vocab *v, hf_text text) {
    char *p;
    if (text.s == NULL) return 1;
    v->charsmap.s = p = hf_bytes(v, text.n / 4 * 3 + 3);
    if (p == NULL) return 0;
    if (cli_base64_read(text.s, text.n, p, &v->charsmap.n)) return cli_fail(v->command, "%s: precompiled_charsmap is not base64", v->folder), 0;
    return 1;
}

/* Normalizers of Unigram models: a map of characters, and what becomes of spaces. */
static int unigram_normalizer(hf_vocab *v, const infer_json *rule, int depth) {
    const infer_json *list = infer_json_get(rule, "normalizers");
    hf_text type = hf_string(infer_json_get(rule, "type"));
    size_t i;
    if (type.s == NULL) return 1;
    if (hf_same(type, "Sequence")) {
        for (i = 0; i < infer_json_count(list) && depth < 8; i++)
            if (!unigram_normalizer(v, infer_json_at(list, i), depth + 1)) return 0;
        return 1;
    }
    if (hf_same(type, "Precompiled")) return decode_charsmap(v, hf_string(infer_json_get(rule, "precompiled_charsmap")));
    if (hf_same(type, "Replace") && hf_same(hf_string(infer_json_get(infer_json_get(rule, "pattern"), "Regex")), " {2,}")) {
        v->extra_spaces = 1;
        return 1;
    }
    if (hf_same(type, "Strip")) return 1; /* part of removing superfluous spaces */
    return cli_fail(v->command, "%s: the normalizer '%.40s' of a Unigram model is not supported", v->folder, type.s), 0;
}

static int unigram_pre(hf_vocab *v, const infer_json *rule, int depth) {
    const infer_json *list = infer_json_get(rule, "pretokenizers"), *prefix;
    hf_text type = hf_string(infer_json_get(rule, "type")), scheme;
    size_t i;
    if (type.s == NULL) return 1;
    if (hf_same(type, "Sequence")) {
        for (i = 0; i < infer_json_count(list) && depth < 8; i++)
            if (!unigram_pre(v, infer_json_at(list, i), depth + 1)) return 0;
        return 1;
    }
    if (hf_same(type, "WhitespaceSplit")) {
        v->extra_spaces = 1;
        return 1;
    }
    if (!hf_same(type, "Metaspace"))
        return cli_fail(v->command, "%s: the pre-tokenizer '%.40s' of a Unigram model is not supported", v->folder, type.s), 0;
    scheme = hf_string(infer_json_get(rule, "prepend_scheme"));
    prefix = infer_json_get(rule, "add_prefix_space");
    v->space_prefix = scheme.s ? !hf_same(scheme, "never") : infer_json_kind(prefix) != INFER_JSON_FALSE;
    return 1;
}

static int from_unigram(hf_vocab *v, const infer_json *model) {
    const infer_json *vocab = infer_json_get(model, "vocab"), *unk = infer_json_get(model, "unk_id");
    const int bytes = infer_json_kind(infer_json_get(model, "byte_fallback")) == INFER_JSON_TRUE;
    size_t i;
    if (infer_json_kind(vocab) != INFER_JSON_ARRAY) return cli_fail(v->command, "%s: the vocabulary is no JSON array", v->folder), 0;
    v->space_prefix = v->extra_spaces = 0;
    if (!unigram_normalizer(v, infer_json_get(v->tokenizer, "normalizer"), 0) ||
        !unigram_pre(v, infer_json_get(v->tokenizer, "pre_tokenizer"), 0))
        return 0;
    for (i = 0; i < infer_json_count(vocab); i++) {
        const infer_json *entry = infer_json_at(vocab, i), *score = infer_json_at(entry, 1);
        hf_token *t = hf_token_at(v, (int64_t)i);
        if (t == NULL) return 0;
        t->text = hf_string(infer_json_at(entry, 0));
        t->score = infer_json_number(score);
        t->type = bytes && t->text.s && hf_is_byte(t->text) ? HF_BYTE : HF_NORMAL;
        if (t->text.s == NULL || (infer_json_kind(score) != INFER_JSON_INT && infer_json_kind(score) != INFER_JSON_FLOAT))
            return cli_fail(v->command, "%s: token %.0f is not a text with a score", v->folder, (double)i), 0;
    }
    v->n_base = v->n;
    if (infer_json_kind(unk) == INFER_JSON_INT && infer_json_int(unk) >= 0 && (uint64_t)infer_json_int(unk) < v->n)
        v->tokens[infer_json_int(unk)].type = HF_UNKNOWN;
    v->model = "t5";
    v->pre = "default";
    v->scored = 1;
    return hf_added_plain(v);
}

/* ---- WordPiece ---- */

int hf_wordpiece_marks(hf_vocab *v) {
    size_t i;
    for (i = 0; i < v->n; i++) {
        hf_token *t = &v->tokens[i];
        char *p;
        if (t->text.s == NULL || t->type == HF_CONTROL) continue;
        if (t->text.n >= 2 && memcmp(t->text.s, "##", 2) == 0) {
            t->text.s += 2;
            t->text.n -= 2;
            continue;
        }
        p = hf_bytes(v, t->text.n + 3);
        if (p == NULL) return 0;
        memcpy(p, "\xe2\x96\x81", 3);
        memcpy(p + 3, t->text.s, t->text.n);
        t->text.s = p;
        t->text.n += 3;
    }
    return 1;
}

static int from_wordpiece(hf_vocab *v, const infer_json *model) {
    hf_text prefix = hf_string(infer_json_get(model, "continuing_subword_prefix"));
    if (prefix.s && !hf_same(prefix, "##"))
        return cli_fail(v->command, "%s: WordPiece with the prefix '%.20s' is not supported", v->folder, prefix.s), 0;
    v->model = "bert";
    v->pre = v->wanted_pre ? v->wanted_pre : "bert-bge";
    return hf_vocab_object(v, infer_json_get(model, "vocab")) && hf_added_gpt2(v) && hf_wordpiece_marks(v);
}

/* ---- which one ---- */

int hf_from_json(hf_vocab *v) {
    const infer_json *model = infer_json_get(v->tokenizer, "model");
    hf_text type = hf_string(infer_json_get(model, "type"));
    if (type.s == NULL) /* older files */
        type.s = infer_json_get(model, "merges") ? "BPE" : infer_json_get(model, "continuing_subword_prefix") ? "WordPiece" : "Unigram";
    if (type.n == 0) type.n = strlen(type.s);
    if (hf_same(type, "BPE")) return from_bpe(v, model);
    if (hf_same(type, "Unigram")) return from_unigram(v, model);
    if (hf_same(type, "WordPiece")) return from_wordpiece(v, model);
    return cli_fail(v->command, "%s/tokenizer.json: a model of type '%.40s' is not supported", v->folder, type.s), 0;
}
