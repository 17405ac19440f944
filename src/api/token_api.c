/* token_api.c: text <-> ids for callers.
 *
 * Owns:  argument checks of infer_tokenize and its siblings, and infer_utf8_whole. The work is in src/text.
 * Rules: buffers follow one rule: the full length is returned, at most cap is written, a NULL buffer goes with cap 0.
 */
#include "../model/model.h"

/* The model is const for callers; only its memory counter changes, atomically. */
static infer__mem *infer__model_mem(const infer_model *m) {
    return &((infer_model *)(uintptr_t)m)->mem;
}

/* What both directions check. `input` is the caller's text or tokens, `count` where the full length goes. */
static infer_result infer__text_check(const infer_model *model, const char *input_name, const void *input, size_t n,
                                      int32_t flags, int32_t known, const void *out, size_t cap, const size_t *count,
                                      infer_error *err) {
    if (!model) return infer__error(err, INFER_ERR_ARGUMENT, "model is NULL");
    if (!input && n > 0) return infer__error(err, INFER_ERR_ARGUMENT, "%s is NULL but n is not 0", input_name);
    if (!out && cap > 0) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL but cap is not 0");
    if (!count) return infer__error(err, INFER_ERR_ARGUMENT, "there is no place for the full length: NULL");
    if (flags & ~known) return infer__error(err, INFER_ERR_ARGUMENT, "flags: %d is not known", (int)(flags & ~known));
    return INFER_OK;
}

INFER_API infer_result infer_tokenize(const infer_model *model, const char *text, size_t n, int32_t flags,
                                      infer_token *out, size_t cap, size_t *count, infer_error *err) {
    infer_result r;
    if (count) *count = 0;
    r = infer__text_check(model, "text", text, n, flags, INFER_TEXT_SPECIAL, out, cap, count, err);
    if (r != INFER_OK) return r;
    infer__error_clear(err);
    infer__model_hold(model);
    r = infer__tokenize(model->tokenizer, infer__model_mem(model), text ? text : "", n, flags, out, cap, count, err);
    return infer__model_let(model, r);
}

INFER_API infer_result infer_detokenize(const infer_model *model, const infer_token *tokens, size_t n, int32_t flags,
                                        char *out, size_t cap, size_t *len, infer_error *err) {
    infer_result r;
    if (len) *len = 0;
    r = infer__text_check(model, "tokens", tokens, n, flags, INFER_TEXT_WRITE_SPECIAL, out, cap, len, err);
    if (r != INFER_OK) return r;
    infer__error_clear(err);
    return infer__detokenize(model->tokenizer, tokens, n, flags, out, cap, len, err);
}

INFER_API infer_result infer_token_text(const infer_model *model, infer_token token, char *out, size_t cap,
                                        size_t *len) {
    if (len) *len = 0;
    if (!model || !len || (!out && cap > 0)) return INFER_ERR_ARGUMENT;
    return infer__token_text(model->tokenizer, token, out, cap, len);
}

/* No token spells the text: how many does it take? */
static infer_result infer__bias_none(const infer_model *model, const char *text, size_t n, infer_error *err) {
    size_t tokens = 0;
    infer_result r = infer__tokenize(model->tokenizer, infer__model_mem(model), text, n, INFER__TEXT_INSIDE, NULL, 0,
                                     &tokens, err);
    if (r != INFER_OK) return r;
    return infer__error(err, INFER_ERR_ARGUMENT, "a bias for \"%.*s\": no token spells it, it takes %llu",
                        (int)INFER__MIN(n, 60), text, (unsigned long long)tokens);
}

INFER_API infer_result infer_bias_text(const infer_model *model, const char *text, size_t n, float bias,
                                       infer_bias *out, size_t cap, size_t *count, infer_error *err) {
    infer_result r;
    size_t len, found = 0;
    infer_token id;
    char *own;
    if (count) *count = 0;
    r = infer__text_check(model, "text", text, n, 0, 0, out, cap, count, err);
    if (r == INFER_OK && n == 0) r = infer__error(err, INFER_ERR_ARGUMENT, "a bias for an empty text");
    if (r != INFER_OK) return r;
    infer__error_clear(err);
    infer__model_hold(model);
    own = (char *)infer__realloc(infer__model_mem(model), NULL, n, 1);
    if (!own) return infer__model_let(model, infer__error(err, INFER_ERR_MEMORY, "no memory for a text"));
    for (id = 0; infer__token_text(model->tokenizer, id, own, n, &len) == INFER_OK; id++) {
        if (len != n || memcmp(own, text, n) != 0) continue;
        if (found < cap) {
            out[found].token = id;
            out[found].bias = bias;
        }
        found++;
    }
    infer__free(infer__model_mem(model), own);
    *count = found;
    return infer__model_let(model, found ? INFER_OK : infer__bias_none(model, text, n, err));
}

INFER_API int32_t infer_token_flags(const infer_model *model, infer_token token) {
    return model ? infer__token_flags(model->tokenizer, token) : 0;
}

INFER_API infer_token infer_token_special(const infer_model *model, int32_t which) {
    if (!model || which < 0 || which >= INFER_SPECIAL_COUNT) return -1;
    return infer__token_special(model->tokenizer, which);
}

INFER_API infer_result infer_infill(const infer_model *model, const char *prefix, size_t n_prefix, const char *suffix,
                                    size_t n_suffix, int32_t most, infer_token *out, size_t cap, size_t *count,
                                    infer_error *err) {
    const infer__tokenizer *t = model ? model->tokenizer : NULL;
    infer_token marks[4] = { -1 }, *ids;
    infer__token_sink sink = { NULL, 0, 0, NULL };
    size_t n[2] = { 0, 0 }, room, from, i;
    const size_t first = n_prefix + 16; /* where the suffix's begin: texts have hardly more tokens than bytes */
    infer__mem *mem;
    infer_result r;
    if (count) *count = 0;
    if (!INFER__HAS_FILL) return infer__left_out(err, "filling in", "INFER_NO_FILL");
    r = infer__text_check(model, "prefix", prefix, n_prefix, 0, 0, out, cap, count, err);
    if (r == INFER_OK) r = infer__text_check(model, "suffix", suffix, n_suffix, 0, 0, out, cap, count, err);
    if (r == INFER_OK && (most < 0 || (most > 0 && most < 4)))
        r = infer__error(err, INFER_ERR_ARGUMENT, "most is %d: three tokens are marks", (int)most);
    if (r != INFER_OK) return r;
    infer__error_clear(err);
    if (infer__tokenizer_adds_bos(t)) marks[0] = infer__token_special(t, INFER_SPECIAL_BOS);
    for (i = 0; i < 3; i++) {
        static const int32_t kinds[] = { INFER_SPECIAL_FIM_PRE, INFER_SPECIAL_FIM_SUF, INFER_SPECIAL_FIM_MID };
        static const char *const names[] = { "prefix", "suffix", "middle" };
        marks[1 + i] = infer__token_special(t, kinds[i]);
        if (marks[1 + i] < 0)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "the vocabulary has no token for the %s of a gap",
                                names[i]);
    }
    mem = infer__model_mem(model);
    infer__model_hold(model);
    ids = n_prefix < SIZE_MAX / 8 && n_suffix < SIZE_MAX / 8 - first
              ? (infer_token *)infer__realloc(mem, NULL, first + n_suffix + 16, sizeof *ids) : NULL;
    if (!ids) return infer__model_let(model, infer__error(err, INFER_ERR_MEMORY, "no memory for two texts' tokens"));
    r = infer__tokenize(t, mem, prefix ? prefix : "", n_prefix, 0, ids, first, &n[0], err);
    if (r == INFER_OK)
        r = infer__tokenize(t, mem, suffix ? suffix : "", n_suffix, INFER__TEXT_INSIDE, ids + first, n_suffix + 16,
                            &n[1], err);
    if (r == INFER_OK && (n[0] > first || n[1] > n_suffix + 16))
        r = infer__error(err, INFER_ERR_UNSUPPORTED, "the vocabulary has more tokens for a text than it has bytes");
    if (r == INFER_OK) {
        from = n[0];
        if (most > 0) { /* keep what is next to the gap: three quarters for the prefix, if it is that long */
            room = (size_t)most - 3 - (marks[0] >= 0);
            if (n[1] > room / 4) n[1] = INFER__MIN(n[1], INFER__MAX(room / 4, room - INFER__MIN(room, n[0])));
            n[0] = INFER__MIN(n[0], room - n[1]);
        }
        from -= n[0];
        sink.out = out;
        sink.cap = cap;
        if (marks[0] >= 0) infer__token_put(&sink, marks[0]);
        infer__token_put(&sink, marks[1]);
        for (i = 0; i < n[0]; i++) infer__token_put(&sink, ids[from + i]);
        infer__token_put(&sink, marks[2]);
        for (i = 0; i < n[1]; i++) infer__token_put(&sink, ids[first + i]);
        infer__token_put(&sink, marks[3]);
        *count = sink.count;
    }
    infer__free(mem, ids);
    return infer__model_let(model, r);
}

INFER_API size_t infer_utf8_whole(const char *s, size_t n) {
    return s ? infer__utf8_whole(s, n) : 0;
}
