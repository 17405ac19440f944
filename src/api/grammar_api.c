/* grammar_api.c: grammars for callers.
 *
 * Owns:  argument checks of infer_grammar_*; the work is in src/text/grammar/grammar.c.
 */
#include "../model/model.h"

#if !defined(INFER_NO_GRAMMAR)
INFER_API infer_result infer_grammar_create(infer_grammar **out, infer_model *model, const infer_grammar_params *params,
                                            infer_error *err) {
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!params) return infer__error(err, INFER_ERR_ARGUMENT, "params is NULL");
    infer__error_clear(err);
    if (infer__reserved_check(params->reserved, "grammar_params", err)) return INFER_ERR_ARGUMENT;
    infer__model_hold(model);
    r = infer__grammar_open(out, model ? &model->mem : NULL, model ? model->tokenizer : NULL, params, err);
    if (r != INFER_OK) return infer__model_let(model, r);
    (*out)->model = model;
    infer__atomic_set(&(*out)->refs, INFER__OWNED);
    return INFER_OK;
}

static void infer__grammar_take(infer_grammar *grammar) {
    if (grammar) infer__refs_take(&grammar->refs);
}

/* Nobody has a reference of the grammar. */
static void infer__grammar_gone(infer_grammar *grammar) {
    infer_model *model = grammar->model;
    infer__grammar_close(grammar);
    infer__model_let(model, INFER_OK);
}

static void infer__grammar_let(infer_grammar *grammar) {
    if (grammar && infer__refs_drop(&grammar->refs)) infer__grammar_gone(grammar);
}

INFER_API infer_result infer_grammar_destroy(infer_grammar *grammar) {
    int last;
    if (!grammar) return INFER_OK;
    last = infer__refs_close(&grammar->refs);
    if (last > 0) infer__grammar_gone(grammar);
    return last < 0 ? INFER_ERR_STATE : INFER_OK;
}

/* The grammar is claimed. */
static infer_result infer__grammar_check(infer_grammar *grammar, const char *text, size_t n, size_t *accepted,
                                         int32_t *complete, infer_error *err) {
    infer__matcher *m;
    size_t done = 0;
    infer_result r = infer__matcher_open(&m, grammar, err);
    if (r != INFER_OK) return r;
    r = infer__matcher_check(m, text ? text : "", n, &done, err);
    if (accepted) *accepted = done;
    if (complete) *complete = r == INFER_OK && done == n && infer__matcher_complete(m);
    infer__matcher_close(m);
    return r;
}

INFER_API infer_result infer_grammar_check(infer_grammar *grammar, const char *text, size_t n, size_t *accepted,
                                           int32_t *complete, infer_error *err) {
    infer_result r;
    if (accepted) *accepted = 0;
    if (complete) *complete = 0;
    if (!grammar) return infer__error(err, INFER_ERR_ARGUMENT, "grammar is NULL");
    if (!text && n > 0) return infer__error(err, INFER_ERR_ARGUMENT, "text is NULL but n is not 0");
    infer__error_clear(err);
    if (!infer__claim(&grammar->calls))
        return infer__error(err, INFER_ERR_STATE,
                            "another call uses the grammar: this one comes from a callback of it, or is another "
                            "thread's");
    infer__grammar_take(grammar);
    r = infer__grammar_check(grammar, text, n, accepted, complete, err);
    infer__unclaim(&grammar->calls);
    infer__grammar_let(grammar);
    return r;
}

#else
INFER_API infer_result infer_grammar_create(infer_grammar **out, infer_model *model, const infer_grammar_params *params,
                                            infer_error *err) {
    (void)model;
    (void)params;
    if (out) *out = NULL;
    return infer__grammar_left_out(err);
}
static void infer__grammar_take(infer_grammar *grammar) { (void)grammar; }
static void infer__grammar_let(infer_grammar *grammar) { (void)grammar; }
INFER_API infer_result infer_grammar_destroy(infer_grammar *grammar) {
    (void)grammar;
    return INFER_OK;
}
INFER_API infer_result infer_grammar_check(infer_grammar *grammar, const char *text, size_t n, size_t *accepted,
                                           int32_t *complete, infer_error *err) {
    (void)grammar;
    (void)text;
    (void)n;
    if (accepted) *accepted = 0;
    if (complete) *complete = 0;
    return infer__grammar_left_out(err);
}
#endif
