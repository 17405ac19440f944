/* grammar_api.c: grammars for callers.
 *
 * Owns:  argument checks of infer_grammar_*; the work is in src/text/grammar.c.
 */
#include "../model/model.h"

INFER_API infer_result infer_grammar_create(infer_grammar **out, infer_model *model, const infer_grammar_params *params,
                                            infer_error *err) {
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!params) return infer__error(err, INFER_ERR_ARGUMENT, "params is NULL");
    infer__error_clear(err);
    r = infer__grammar_open(out, model ? &model->mem : NULL, model ? model->tokenizer : NULL, params, err);
    if (r != INFER_OK) return r;
    (*out)->model = model;
    if (model) infer__atomic_add(&model->users, 1);
    return INFER_OK;
}

INFER_API infer_result infer_grammar_destroy(infer_grammar *grammar) {
    infer_model *model;
    if (!grammar) return INFER_OK;
    if (infer__grammar_used(grammar)) return INFER_ERR_STATE;
    model = grammar->model;
    infer__grammar_close(grammar);
    if (model) infer__atomic_add(&model->users, -1);
    return INFER_OK;
}

INFER_API infer_result infer_grammar_check(infer_grammar *grammar, const char *text, size_t n, size_t *accepted,
                                           int32_t *complete, infer_error *err) {
    infer__matcher *m;
    infer_result r;
    size_t done = 0;
    if (accepted) *accepted = 0;
    if (complete) *complete = 0;
    if (!grammar) return infer__error(err, INFER_ERR_ARGUMENT, "grammar is NULL");
    if (!text && n > 0) return infer__error(err, INFER_ERR_ARGUMENT, "text is NULL but n is not 0");
    infer__error_clear(err);
    if ((r = infer__matcher_open(&m, grammar, err)) != INFER_OK) return r;
    r = infer__matcher_check(m, text ? text : "", n, &done, err);
    if (accepted) *accepted = done;
    if (complete) *complete = r == INFER_OK && done == n && infer__matcher_complete(m);
    infer__matcher_close(m);
    return r;
}
