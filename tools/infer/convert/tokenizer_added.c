/* tokenizer_added.c: tokens that were added to a model's own, and what kind each one is.
 *
 * The kinds are those of llama.cpp's converter: CONTROL tokens are parsed in templates only, USER tokens in every text. A
 * user's token holds spaces as they are, not as U+2581.
 */
#include "tokenizer_parts.h"

#include <string.h>

static int begins(hf_text t, const char *s) { return t.n >= strlen(s) && memcmp(t.s, s, strlen(s)) == 0; }
static int ends(hf_text t, const char *s) { return t.n >= strlen(s) && memcmp(t.s + t.n - strlen(s), s, strlen(s)) == 0; }

/* Models mark some control tokens as ordinary ones. */
static int looks_special(hf_text t) {
    static const char *const TEXTS[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    static const char BAR[] = "\xef\xbd\x9c"; /* U+FF5C */
    size_t i;
    for (i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        if (hf_same(t, TEXTS[i])) return 1;
    if (begins(t, "<|") && ends(t, "|>")) return 1;
    if (begins(t, "<") && ends(t, ">") && t.n >= 8 && memcmp(t.s + 1, BAR, 3) == 0 && memcmp(t.s + t.n - 4, BAR, 3) == 0) return 1;
    return begins(t, "<unused") && ends(t, ">");
}

static int is_true(const infer_json *v, const char *name) { return infer_json_kind(infer_json_get(v, name)) == INFER_JSON_TRUE; }

/* ---- names ---- */

/* The token with the text, wherever it is, is named. */
static void mark(hf_vocab *v, const infer_json *name) {
    hf_text text = hf_string(infer_json_kind(name) == INFER_JSON_OBJECT ? infer_json_get(name, "content") : name);
    int64_t id = hf_find(v, text);
    if (id >= 0) v->tokens[id].named = 1;
}

static void mark_named_in(hf_vocab *v, const infer_json *from) {
    static const char *const LISTS[] = {"additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"};
    static const char *const NAMES[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
    size_t i, k;
    for (i = 0; i < sizeof NAMES / sizeof *NAMES; i++) mark(v, infer_json_get(from, NAMES[i]));
    for (i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        const infer_json *list = infer_json_get(from, LISTS[i]);
        if (infer_json_kind(list) != INFER_JSON_ARRAY && infer_json_kind(list) != INFER_JSON_OBJECT) continue;
        for (k = 0; k < infer_json_count(list) && k < 4096; k++) mark(v, infer_json_at(list, k));
    }
}

static void mark_named(hf_vocab *v) {
    int i;
    for (i = 0; i < HF_NAMED; i++) { /* also those that a post-processor names */
        const int64_t id = hf_find(v, v->names[i]);
        if (id >= 0) v->tokens[id].named = 1;
    }
    mark_named_in(v, v->settings);
    mark_named_in(v, v->map);
}

/* ---- what an entry says ---- */

typedef struct entry {
    int64_t id;
    hf_text text;
    const infer_json *flags;
} entry;

/* Entry i of added_tokens (a list) or added_tokens_decoder (an object by id). 0 when it is malformed. */
static int entry_at(const infer_json *list, size_t i, entry *out) {
    out->flags = infer_json_at(list, i);
    out->text = hf_string(infer_json_get(out->flags, "content"));
    out->id = -1;
    if (infer_json_kind(list) == INFER_JSON_ARRAY) {
        const infer_json *id = infer_json_get(out->flags, "id");
        if (infer_json_kind(id) == INFER_JSON_INT) out->id = infer_json_int(id);
    } else {
        const char *name = infer_json_name(list, i, NULL);
        for (out->id = name && *name ? 0 : -1; name && *name; name++) {
            if (*name < '0' || *name > '9' || out->id > INT32_MAX) return 0;
            out->id = out->id * 10 + (*name - '0');
        }
    }
    return out->id >= 0 && out->text.s != NULL;
}

static int malformed(const hf_vocab *v, size_t i) {
    return cli_fail(v->command, "%s: added token %.0f has no id or no content", v->folder, (double)i), 0;
}

/* ---- BPE over bytes, WordPiece ---- */

/* The byte that stands behind a character of a vocabulary of bytes, -1 = it is none of them. */
static int byte_of(uint32_t cp) {
    static const unsigned char LAST[] = {'~', 0xac, 0xff}, FIRST[] = {'!', 0xa1, 0xae};
    int b, n = 0, i;
    for (i = 0; i < 3; i++)
        if (cp >= FIRST[i] && cp <= LAST[i]) return (int)cp;
    if (cp < 256 || cp > 323) return -1;
    for (b = 0; b < 256; b++) { /* the others, in order, are 256 and on */
        if ((b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae) continue;
        if ((uint32_t)(256 + n++) == cp) return b;
    }
    return -1;
}

/* Well-formed UTF-8 of at most two bytes a character covers all that byte_of knows. */
static int decode_bytes(hf_vocab *v, hf_text *text) {
    const unsigned char *s = (const unsigned char *)text->s;
    char *p = hf_bytes(v, text->n);
    size_t i = 0, n = 0;
    if (p == NULL) return 0;
    while (i < text->n) {
        const int two = s[i] >= 0xc0 && s[i] < 0xe0 && i + 1 < text->n, b = s[i] < 0x80 ? byte_of(s[i])
                                                                         : two          ? byte_of((uint32_t)(s[i] & 31) << 6 | (s[i + 1] & 63))
                                                                                        : -1;
        if (b < 0 || b >= 0x80) return 1; /* the text itself */
        p[n++] = (char)b;
        i += two ? 2 : 1;
    }
    p[n] = 0;
    text->s = p;
    text->n = n;
    return 1;
}

static int has_byte_decoder(const hf_vocab *v) {
    const infer_json *decoder = infer_json_get(v->tokenizer, "decoder"), *list = infer_json_get(decoder, "decoders");
    size_t i;
    if (hf_same(hf_string(infer_json_get(decoder, "type")), "ByteLevel")) return 1;
    for (i = 0; i < infer_json_count(list); i++)
        if (hf_same(hf_string(infer_json_get(infer_json_at(list, i), "type")), "ByteLevel")) return 1;
    return 0;
}

static int set_gpt2(hf_vocab *v, const entry *e) {
    hf_token *t = hf_token_at(v, e->id);
    if (t == NULL) return 0;
    t->text = e->text;
    t->type = is_true(e->flags, "special") || looks_special(e->text) ? HF_CONTROL : HF_USER;
    if (!is_true(e->flags, "normalized") && has_byte_decoder(v) && !decode_bytes(v, &t->text)) return 0;
    return t->type == HF_CONTROL || hf_spaces(v, &t->text);
}

int hf_added_gpt2(hf_vocab *v) {
    const infer_json *added = infer_json_get(v->tokenizer, "added_tokens"), *decoder = infer_json_get(v->settings, "added_tokens_decoder");
    size_t i;
    entry e;
    mark_named(v);
    for (i = 0; i < v->n; i++)
        if (v->tokens[i].named) v->tokens[i].type = HF_CONTROL;
    for (i = 0; i < infer_json_count(added) && infer_json_kind(added) == INFER_JSON_ARRAY; i++)
        if (!entry_at(added, i, &e)) return malformed(v, i);
        else if (!set_gpt2(v, &e)) return 0;
    for (i = 0; i < infer_json_count(decoder) && infer_json_kind(decoder) == INFER_JSON_OBJECT; i++) {
        if (!entry_at(decoder, i, &e)) return malformed(v, i);
        if ((uint64_t)e.id < v->n && v->tokens[e.id].text.s) continue; /* known already */
        if (!set_gpt2(v, &e)) return 0;
    }
    mark_named(v);
    for (i = 0; i < v->n; i++)
        if (v->tokens[i].named && v->tokens[i].type == HF_USER) v->tokens[i].type = HF_CONTROL;
    return 1;
}

/* ---- BPE with byte fallback, Unigram ---- */

/* Gemma 4: marks of replies that programs look for in the text. */
static int shown(hf_text t) {
    static const char *const TEXTS[] = {"<|channel>",   "<channel|>",   "<|tool_call>", "<tool_call|>", "<|tool_response>",
                                        "<tool_response|>", "<|\"|>"};
    size_t i;
    for (i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        if (hf_same(t, TEXTS[i])) return 1;
    return 0;
}

static int set_plain(hf_vocab *v, const entry *e) {
    const int unigram = infer_json_kind(infer_json_get(infer_json_get(v->tokenizer, "model"), "vocab")) == INFER_JSON_ARRAY;
    const int known = (uint64_t)e->id < v->n_base && v->tokens[e->id].text.s != NULL;
    hf_token *t = hf_token_at(v, e->id);
    if (t == NULL) return 0;
    t->text = e->text;
    if (!known) t->score = -1000;
    if (t->type == HF_UNKNOWN || t->type == HF_BYTE) return 1;
    if (is_true(e->flags, "special") || (!known && looks_special(e->text))) t->type = HF_CONTROL;
    else if (!known || unigram || !v->family || strncmp(v->family, "gemma4", 6) != 0) t->type = HF_USER;
    return t->type == HF_USER ? hf_spaces(v, &t->text) : 1;
}

int hf_added_plain(hf_vocab *v) {
    const infer_json *added = infer_json_get(v->tokenizer, "added_tokens");
    size_t i;
    for (i = 0; i < v->n; i++)
        if (v->tokens[i].type == HF_NORMAL && v->scored == 0 && hf_is_byte(v->tokens[i].text)) v->tokens[i].type = HF_BYTE;
    for (i = 0; i < infer_json_count(added) && infer_json_kind(added) == INFER_JSON_ARRAY; i++) {
        entry e;
        if (!entry_at(added, i, &e)) return malformed(v, i);
        if (!set_plain(v, &e)) return 0;
    }
    mark_named(v);
    for (i = 0; i < v->n; i++) {
        hf_token *t = &v->tokens[i];
        if (t->named && t->type != HF_UNKNOWN && t->type != HF_BYTE) t->type = HF_CONTROL;
        if (t->text.s && shown(t->text) && strncmp(v->family, "gemma4", 6) == 0) t->type = HF_USER;
    }
    return 1;
}

/* ---- on top of SentencePiece ---- */

static int set_spm(hf_vocab *v, const entry *e, int looks) {
    hf_token *t;
    if (v->rows && (uint64_t)e->id >= v->rows) {
        hf_note(v, "the token %.0f '%.40s' is left out: the embedding has %.0f rows", (double)e->id, e->text.s, (double)v->rows);
        return 1;
    }
    t = hf_token_at(v, e->id);
    if (t == NULL) return 0;
    t->text = e->text;
    t->score = -1000;
    t->type = is_true(e->flags, "special") || (looks && looks_special(e->text)) ? HF_CONTROL : HF_USER;
    return t->type == HF_CONTROL || hf_spaces(v, &t->text);
}

/* Entries of a list; from: the first id that is taken. */
static int add_list(hf_vocab *v, const infer_json *list, uint64_t from, int looks) {
    size_t i;
    if (infer_json_kind(list) != INFER_JSON_ARRAY && infer_json_kind(list) != INFER_JSON_OBJECT) return 1;
    for (i = 0; i < infer_json_count(list); i++) {
        entry e;
        if (!entry_at(list, i, &e)) return malformed(v, i);
        if ((uint64_t)e.id >= from && !set_spm(v, &e, looks)) return 0;
    }
    return 1;
}

int hf_added_spm(hf_vocab *v) {
    const int phi3 = strncmp(v->family, "phi3", 4) == 0, unigram = strcmp(v->model, "t5") == 0;
    const uint64_t base = v->n_base;
    const infer_json *map;
    int failed = 0;
    size_t i;
    map = hf_read_json(v, "added_tokens.json", &failed);
    if (failed) return 0;
    for (i = 0; i < infer_json_count(map); i++) {
        entry e;
        e.text.s = infer_json_name(map, i, &e.text.n);
        e.flags = NULL;
        e.id = infer_json_int(infer_json_at(map, i));
        if (infer_json_kind(infer_json_at(map, i)) != INFER_JSON_INT || e.id < 0) return malformed(v, i);
        if (!set_spm(v, &e, 0)) return 0;
    }
    /* tokenizer.json repeats what the others say; it counts where they say nothing, and for Phi-3 */
    if (!phi3 && !add_list(v, infer_json_get(v->tokenizer, "added_tokens"), base, 1)) return 0;
    if (!add_list(v, infer_json_get(v->settings, "added_tokens_decoder"), unigram ? base : 0, !phi3)) return 0;
    return !phi3 || add_list(v, infer_json_get(v->tokenizer, "added_tokens"), 0, 0);
}
