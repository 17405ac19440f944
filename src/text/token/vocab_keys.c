/* vocab_keys.c: tokenizer keys that were not looked up: either they have no effect on ids, or tokenizing is refused.
 *
 * Owns:  INFER__IDLE_TOKEN_KEYS, the keys under "tokenizer." that may stay unread, each with the reason.
 * Rules: as for the keys of an architecture (model/keys.c): an unread key may mean other ids.
 */
#include "../text.h"

enum { INFER__KEY_WHOLE, INFER__KEY_BEGINS, INFER__KEY_ENDS, INFER__KEY_EMPTY };
static const struct { int how; const char *text; } INFER__IDLE_TOKEN_KEYS[] = {
    { INFER__KEY_WHOLE, "tokenizer.ggml.merges" }, /* only vocabularies of BPE have merges: llama.cpp writes them for others too */
    { INFER__KEY_WHOLE, "tokenizer.ggml.pre" }, /* only texts for BPE are split first */
    { INFER__KEY_WHOLE, "tokenizer.ggml.scores" }, /* BPE, WordPiece and RWKV choose without scores */
    { INFER__KEY_WHOLE, "tokenizer.ggml.token_type" }, /* there are no tokens */
    { INFER__KEY_WHOLE, "tokenizer.ggml.token_type_count" }, /* kinds of segments of BERT, no kinds of tokens */
    { INFER__KEY_WHOLE, "tokenizer.ggml.suppress_tokens" }, /* a sampler's choice: ids and logits stay as they are */
    { INFER__KEY_WHOLE, "tokenizer.huggingface.json" }, /* the same vocabulary in another form */
    { INFER__KEY_WHOLE, "tokenizer.rwkv.world" }, /* the same vocabulary in another form */
    { INFER__KEY_EMPTY, "tokenizer.ggml.precompiled_charsmap" }, /* a map of characters is read for Unigram alone */
    { INFER__KEY_BEGINS, "tokenizer.chat_template" }, /* conversations: read when one is written */
    { INFER__KEY_ENDS, "_token_id" }, /* an id with a purpose that is not known here; its text is a token like others */
    { INFER__KEY_ENDS, "_token_ids" }, /* ids with a purpose that is not known here */
};

static int infer__token_key_idle(const infer__kv *kv) {
    size_t n = strlen(kv->key), i, len;
    for (i = 0; i < INFER__COUNT(INFER__IDLE_TOKEN_KEYS); i++) {
        const char *text = INFER__IDLE_TOKEN_KEYS[i].text;
        len = strlen(text);
        switch (INFER__IDLE_TOKEN_KEYS[i].how) {
        case INFER__KEY_BEGINS:
            if (strncmp(kv->key, text, len) == 0) return 1;
            break;
        case INFER__KEY_ENDS:
            if (n > len && strcmp(kv->key + n - len, text) == 0) return 1;
            break;
        case INFER__KEY_EMPTY:
            if (kv->n == 0 && (kv->type == INFER__GGUF_ARRAY || kv->type == INFER__GGUF_STRING) &&
                strcmp(kv->key, text) == 0)
                return 1;
            break;
        default:
            if (strcmp(kv->key, text) == 0) return 1;
        }
    }
    return 0;
}

/* Switches that are looked up for every kind of vocabulary, but used by only some: 1 when this kind does not use it. */
static int infer__token_key_in_vain(const infer__vocab *v, const infer__kv *kv) {
    static const struct { const char *key; int kinds[2]; } rows[] = {
        { "tokenizer.ggml.normalizer.lowercase", { INFER__VOCAB_WPM, INFER__VOCAB_WPM } },
        { "tokenizer.ggml.normalizer.strip_accents", { INFER__VOCAB_WPM, INFER__VOCAB_WPM } },
        { "tokenizer.ggml.remove_extra_whitespaces", { INFER__VOCAB_SPM, INFER__VOCAB_UGM } } };
    size_t i;
    for (i = 0; i < INFER__COUNT(rows); i++)
        if (strcmp(kv->key, rows[i].key) == 0)
            return v->kind != rows[i].kinds[0] && v->kind != rows[i].kinds[1] && infer__kv_number(kv, 0) != 0;
    return 0;
}

static void infer__vocab_keys_check(const infer__vocab *v, const infer__gguf *g, const infer__report *report,
                                    int allow_unknown, char *why_not, size_t cap) {
    static const char PREFIX[] = "tokenizer.";
    int32_t i;
    for (i = 0; i < g->n_kv; i++) {
        const infer__kv *kv = &g->kv[i];
        int in_vain;
        char name[84];
        if (strncmp(kv->key, PREFIX, sizeof PREFIX - 1) != 0) continue;
        in_vain = infer__token_key_in_vain(v, kv);
        if (!in_vain && (infer__gguf_asked(g, i) || infer__token_key_idle(kv))) continue;
        infer__gguf_clip(name, kv->key);
        if (allow_unknown) infer__log(report, 2, "key %s: ignored, ids may be wrong", name);
        else if (!why_not[0])
            infer__format(why_not, cap, "key %s: %s", name,
                          in_vain ? "not supported for this kind of vocabulary"
                                  : "nothing here knows what it does to ids");
    }
}
