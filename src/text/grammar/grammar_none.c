/* grammar_none.c: replaces the grammar engine in a build with INFER_NO_GRAMMAR.
 *
 * Rules: matchers cannot be created: the first call that would need one returns UNSUPPORTED. The others accept NULL,
 *        which their callers pass without a grammar.
 */
#include "../text.h"

#if defined(INFER_NO_GRAMMAR)
static infer_result infer__grammar_left_out(infer_error *err) {
    return infer__error(err, INFER_ERR_UNSUPPORTED, "grammars are left out of this build (INFER_NO_GRAMMAR)");
}
static int32_t infer__grammar_tokens(const infer_grammar *g) { (void)g; return 0; }
static int infer__grammar_fits(const infer_grammar *g, const infer__tokenizer *t) { (void)g; (void)t; return 1; }
static infer_result infer__matcher_open(infer__matcher **out, infer_grammar *g, infer_error *err) {
    (void)g;
    *out = NULL;
    return infer__grammar_left_out(err);
}
static void infer__matcher_close(infer__matcher *m) { (void)m; }
static infer__atomic *infer__matcher_calls(infer__matcher *m) { (void)m; return NULL; }
static void infer__matcher_reset(infer__matcher *m) { (void)m; }
static infer_result infer__matcher_copy(infer__matcher *to, const infer__matcher *from, infer_error *err) {
    (void)to;
    (void)from;
    return infer__grammar_left_out(err);
}
static infer_result infer__matcher_accept(infer__matcher *m, infer_token token, infer_error *err) {
    (void)m;
    (void)token;
    return infer__grammar_left_out(err);
}
static int infer__matcher_waiting(const infer__matcher *m) { (void)m; return 0; }
static int infer__matcher_complete(const infer__matcher *m) { (void)m; return 0; }
static int infer__matcher_can_continue(const infer__matcher *m) { (void)m; return 0; }
static infer_result infer__matcher_mask(infer__matcher *m, const uint32_t **bits, infer_error *err) {
    (void)m;
    *bits = NULL;
    return infer__grammar_left_out(err);
}
static infer_result infer__matcher_apply(infer__matcher *m, float *x, int32_t n, infer_error *err) {
    (void)m;
    (void)x;
    (void)n;
    return infer__grammar_left_out(err);
}
#endif
