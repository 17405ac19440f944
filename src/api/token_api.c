/* token_api.c: text <-> ids for callers.
 *
 * Owns:  argument checks of infer_tokenize and its siblings, and infer_utf8_whole. The work is in src/text.
 * Rules: buffers follow one rule: the full length is returned, at most cap is written, a NULL buffer goes with cap 0.
 */
#include "../model/model.h"

/* The model is const for callers; its memory counter is atomic and the one thing in it that changes. */
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

INFER_API int32_t infer_token_flags(const infer_model *model, infer_token token) {
    return model ? infer__token_flags(model->tokenizer, token) : 0;
}

INFER_API infer_token infer_token_special(const infer_model *model, int32_t which) {
    if (!model || which < 0 || which >= INFER_SPECIAL_COUNT) return -1;
    return infer__token_special(model->tokenizer, which);
}

INFER_API size_t infer_utf8_whole(const char *s, size_t n) {
    return s ? infer__utf8_whole(s, n) : 0;
}
