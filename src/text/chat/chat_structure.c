/* chat_structure.c: the tokens that are structure in a conversation: the template's text and known marks, passed to
 * token_structure.c.
 *
 * Rules: a template's own text comprises its strings, the text between its tags, and what it wrote in this rendering
 *        (marks that it concatenates). Known marks are those of the tables in chat_format.c that begin and end with
 *        brackets, even if this template does not write them: models may know them anyway.
 * Start: infer__chat_structure.
 */
#include "chat.h"
#include "../jinja/jinja.h"

typedef struct infer__chat_noting {
    uint8_t *bits;
    infer__mem *mem;
    const infer__vocab *v;
    infer_error *err;
} infer__chat_noting;

static infer_result infer__chat_note(const infer__chat_noting *x, const char *s, size_t n, int whole) {
    return infer__structure_note(x->bits, x->mem, x->v, s, n, whole, x->err);
}

/* The texts of a tree; its depth is bounded where it is parsed. */
static infer_result infer__chat_note_tree(const infer__chat_noting *x, const infer__jnode *e) {
    infer_result r = INFER_OK;
    uint32_t i;
    if (!e) return r;
    if (e->kind == INFER__JN_STRING || e->kind == INFER__JN_TEXT) r = infer__chat_note(x, e->s, e->n, 0);
    for (i = 0; i < e->n_kids && r == INFER_OK; i++) r = infer__chat_note_tree(x, e->kids[i]);
    return r;
}

static infer_result infer__chat_structure(uint8_t **out, infer__mem *mem, const infer__tokenizer *tokenizer,
                                          const infer__template *t, const infer__rendered *text, infer_error *err) {
    infer__chat_noting x;
    const char *mark;
    infer_result r;
    size_t i;
    x.mem = mem;
    x.v = infer__tokenizer_vocab(tokenizer);
    x.err = err;
    r = infer__structure_open(&x.bits, mem, x.v, err);
    for (i = 0; r == INFER_OK && (mark = infer__chat_known_at(i)) != NULL; i++) {
        size_t n = strlen(mark);
        if (n > 2 && strchr("<[]", mark[0]) && strchr(">]=", mark[n - 1])) r = infer__chat_note(&x, mark, n, 1);
    }
    if (r == INFER_OK) r = infer__chat_note_tree(&x, t->root);
    for (i = 0; r == INFER_OK && i < text->n_segments; i++)
        if (!text->segments[i].from_message) r = infer__chat_note(&x, text->segments[i].text, text->segments[i].n, 0);
    if (r != INFER_OK) {
        infer__free(mem, x.bits);
        x.bits = NULL;
    }
    *out = x.bits;
    return r;
}
