/* jinja_tags.c: tokens -> tree: statements, and opening a template.
 *
 * Owns:  TAGS, one row per statement; what is refused by name (include, import, extends).
 * Start: TAGS, infer__template_open.
 */
#include "jinja.h"

/* Statements up to a tag with one of these names (a list that ends in NULL), which is left to be read; text stands for
 * the end of the template. */
static infer__jnode *infer__jparse_body(infer__jparse *p, const char *const *ends);

static int infer__jparse_any(const infer__jparse *p, const char *const *names) {
    for (; *names; names++) if (infer__jparse_name(p, *names)) return 1;
    return 0;
}
static void infer__jparse_tag_end(infer__jparse *p) {
    if (p->k->kind == INFER__JT_TAG_END) infer__jparse_next(p, 1);
    else infer__jparse_fail(p, "'%}' is expected");
}
/* The body of a statement up to {% end %}, of which all is taken. After an end tag's name anything but %} is
 * refused. */
static infer__jnode *infer__jparse_block(infer__jparse *p, const char *end) {
    const char *ends[2];
    infer__jnode *body;
    ends[0] = end;
    ends[1] = NULL;
    infer__jparse_tag_end(p);
    body = infer__jparse_body(p, ends);
    infer__jparse_skip_name(p, end);
    return body;
}

/* ---- targets -------------------------------------------------------------------------------------------------- */

/* One name, or name.attribute; or a tuple in brackets. */
static infer__jnode *infer__jparse_target_one(infer__jparse *p, int attributes) {
    const infer__jtoken *k = p->k;
    infer__jnode *e;
    if (k->kind != INFER__JT_NAME) {
        infer__jparse_fail(p, "a name to assign to is expected");
        return &p->spare;
    }
    e = infer__jparse_word(p);
    if (e->kind != INFER__JN_NAME) infer__jparse_fail(p, "true, false and none cannot be assigned to");
    if (attributes && infer__jparse_is(p, '.') && p->k[1].kind == INFER__JT_NAME) e = infer__jparse_subscript(p, e);
    return e;
}
static infer__jnode *infer__jparse_target(infer__jparse *p, int attributes) {
    size_t base = p->n_stack;
    uint32_t at = p->k->at;
    int tuple = 0;
    infer__jnode *e;
    do {
        if (p->n_stack > base && (infer__jparse_name(p, "in") || infer__jparse_is(p, '=') || infer__jparse_is(p, ')')))
            break; /* a comma at the end */
        if (infer__jparse_is(p, '(')) {
            if (!infer__jparse_enter(p)) break;
            infer__jparse_next(p, 1);
            infer__jparse_push(p, infer__jparse_target(p, attributes));
            infer__jparse_expect(p, ')');
            p->depth--;
        } else {
            infer__jparse_push(p, infer__jparse_target_one(p, attributes));
        }
        if (infer__jparse_is(p, ',')) tuple = 1;
    } while (infer__jparse_skip(p, ',') && p->r == INFER_OK);
    if (!tuple && p->r == INFER_OK && p->n_stack == base + 1) return p->stack[--p->n_stack];
    e = infer__jparse_node(p, INFER__JN_TUPLE, at);
    return infer__jparse_take(p, e, base);
}

/* ---- statements: after the tag's name ------------------------------------------------------------------------- */

static infer__jnode *infer__jtag_if(infer__jparse *p, uint32_t at) {
    static const char *const ENDS[] = {"elif", "else", "endif", NULL};
    size_t base = p->n_stack;
    infer__jnode *e = infer__jparse_node(p, INFER__JN_IF, at);
    int soft = p->soft;
    if (!infer__jparse_enter(p)) return e;
    infer__jparse_push(p, infer__jparse_tuple(p, 0, 0));
    infer__jparse_tag_end(p);
    p->soft = 1;
    infer__jparse_push(p, infer__jparse_body(p, ENDS));
    if (infer__jparse_name(p, "elif")) {
        uint32_t elif = p->k->at;
        infer__jparse_next(p, 1);
        infer__jparse_push(p, infer__jtag_if(p, elif)); /* takes endif */
    } else if (infer__jparse_skip_name(p, "else")) {
        infer__jparse_push(p, infer__jparse_block(p, "endif"));
    } else {
        infer__jparse_skip_name(p, "endif");
    }
    p->soft = soft;
    p->depth--;
    return infer__jparse_take(p, e, base);
}

static infer__jnode *infer__jtag_for(infer__jparse *p, uint32_t at) {
    static const char *const ENDS[] = {"else", "endfor", NULL};
    infer__jnode *e = infer__jparse_node(p, INFER__JN_FOR, at), *kids[5];
    int soft = p->soft;
    memset(kids, 0, sizeof kids);
    kids[0] = infer__jparse_target(p, 0);
    if (kids[0]->kind == INFER__JN_NAME && kids[0]->n == 4 && memcmp(kids[0]->s, "loop", 4) == 0)
        infer__jparse_fail(p, "'loop' cannot be the variable of a loop");
    if (!infer__jparse_skip_name(p, "in")) infer__jparse_fail(p, "'in' is expected");
    kids[1] = infer__jparse_tuple(p, 0, 0);
    p->soft = 0;
    if (infer__jparse_skip_name(p, "if")) kids[2] = infer__jparse_expression(p);
    e->op = (uint16_t)infer__jparse_skip_name(p, "recursive");
    infer__jparse_tag_end(p);
    p->in_loop++;
    kids[3] = infer__jparse_body(p, ENDS);
    p->in_loop--;
    if (infer__jparse_skip_name(p, "else")) kids[4] = infer__jparse_block(p, "endfor");
    else infer__jparse_skip_name(p, "endfor");
    p->soft = soft;
    e->kids = (infer__jnode **)infer__arena_alloc(&p->t->arena, sizeof kids);
    if (!e->kids) infer__jparse_no_memory(p);
    if (p->r != INFER_OK) return e;
    memcpy(e->kids, kids, sizeof kids);
    e->n_kids = 5;
    return e;
}

static infer__jnode *infer__jtag_set(infer__jparse *p, uint32_t at) {
    size_t base = p->n_stack;
    infer__jnode *e, *target = infer__jparse_target(p, 1), *filters = NULL;
    if (infer__jparse_skip(p, '='))
        return infer__jparse_with(p, INFER__JN_SET, at, target, infer__jparse_tuple(p, 1, 0));
    e = infer__jparse_node(p, INFER__JN_SET_BLOCK, at);
    while (p->r == INFER_OK && infer__jparse_skip(p, '|')) filters = infer__jparse_filter(p, filters);
    infer__jparse_push(p, target);
    infer__jparse_push(p, filters);
    infer__jparse_push(p, infer__jparse_block(p, "endset"));
    return infer__jparse_take(p, e, base);
}

static infer__jnode *infer__jtag_with(infer__jparse *p, uint32_t at) {
    size_t base = p->n_stack;
    infer__jnode *e = infer__jparse_node(p, INFER__JN_WITH, at);
    infer__jparse_push(p, NULL);
    while (p->r == INFER_OK && p->k->kind != INFER__JT_TAG_END) {
        if (p->n_stack > base + 1) infer__jparse_expect(p, ',');
        infer__jparse_push(p, infer__jparse_target_one(p, 0));
        infer__jparse_expect(p, '=');
        infer__jparse_push(p, infer__jparse_expression(p));
    }
    {
        infer__jnode *body = infer__jparse_block(p, "endwith");
        if (p->r == INFER_OK) p->stack[base] = body;
    }
    return infer__jparse_take(p, e, base);
}

/* Does a tree read this name? */
static int infer__jnode_reads(const infer__jnode *e, const char *name, size_t n) {
    uint32_t i;
    if (!e) return 0;
    if (e->kind == INFER__JN_NAME && e->n == n && memcmp(e->s, name, n) == 0) return 1;
    for (i = 0; i < e->n_kids; i++) {
        int is_target =
            i == 0 && (e->kind == INFER__JN_SET || e->kind == INFER__JN_SET_BLOCK || e->kind == INFER__JN_FOR);
        if (e->kind == INFER__JN_WITH && i % 2 == 1) is_target = 1;
        if (is_target && e->kids[i] && e->kids[i]->kind != INFER__JN_ATTR) continue;
        if (infer__jnode_reads(e->kids[i], name, n)) return 1;
    }
    return 0;
}

/* ( parameters ) and the body up to `end`, into a MACRO. */
static void infer__jparse_macro(infer__jparse *p, infer__jnode *e, const char *end, int signature) {
    size_t base = p->n_stack;
    int defaults = 0, first = 1, soft = p->soft, in_loop = p->in_loop;
    uint32_t i;
    infer__jparse_push(p, NULL);
    if (signature) infer__jparse_expect(p, '(');
    while (signature && p->r == INFER_OK && !infer__jparse_is(p, ')')) {
        infer__jnode *param;
        const infer__jtoken *k;
        if (!first) infer__jparse_expect(p, ',');
        first = 0;
        k = p->k;
        infer__jparse_target_one(p, 0);
        if (infer__jparse_skip(p, '=')) {
            param = infer__jparse_with(p, INFER__JN_PARAM, k->at, infer__jparse_expression(p), NULL);
            defaults = 1;
        } else {
            if (defaults) infer__jparse_fail(p, "a parameter without a default after one with a default");
            param = infer__jparse_node(p, INFER__JN_PARAM, k->at);
        }
        param->s = k->s;
        param->n = k->n;
        infer__jparse_push(p, param);
    }
    if (signature) infer__jparse_expect(p, ')');
    /* what follows up to %} is the call of a call block: see infer__jtag_call */
    if (strcmp(end, "endcall") == 0) {
        infer__jnode *call = infer__jparse_expression(p);
        if (call->kind != INFER__JN_CALL) infer__jparse_fail(p, "a call is expected");
        infer__jparse_push(p, call); /* the last kid; infer__jtag_call takes it away */
    }
    p->soft = p->in_loop = 0;
    {
        infer__jnode *body = infer__jparse_block(p, end);
        if (p->r == INFER_OK) p->stack[base] = body;
    }
    p->soft = soft;
    p->in_loop = in_loop;
    infer__jparse_take(p, e, base);
    if (p->r != INFER_OK) return;
    for (i = 0; i < e->n_kids; i++) {
        if (infer__jnode_reads(e->kids[i], "varargs", 7)) e->op |= INFER__JM_VARARGS;
        if (infer__jnode_reads(e->kids[i], "kwargs", 6)) e->op |= INFER__JM_KWARGS;
        if (infer__jnode_reads(e->kids[i], "caller", 6)) e->op |= INFER__JM_CALLER;
    }
}
static infer__jnode *infer__jtag_macro(infer__jparse *p, uint32_t at) {
    infer__jnode *e = infer__jparse_node(p, INFER__JN_MACRO, at), *name = infer__jparse_target_one(p, 0);
    e->s = name->s;
    e->n = name->n;
    infer__jparse_macro(p, e, "endmacro", 1);
    return e;
}
static infer__jnode *infer__jtag_call(infer__jparse *p, uint32_t at) {
    infer__jnode *e = infer__jparse_node(p, INFER__JN_MACRO, at), *call;
    e->s = "caller";
    e->n = 6;
    infer__jparse_macro(p, e, "endcall", infer__jparse_is(p, '('));
    if (p->r != INFER_OK) return e;
    call = e->kids[--e->n_kids];
    return infer__jparse_with(p, INFER__JN_CALL_BLOCK, at, call, e);
}

static infer__jnode *infer__jtag_filter(infer__jparse *p, uint32_t at) {
    infer__jnode *filters = infer__jparse_filter(p, NULL);
    while (p->r == INFER_OK && infer__jparse_skip(p, '|')) filters = infer__jparse_filter(p, filters);
    return infer__jparse_with(p, INFER__JN_FILTER_BLOCK, at, filters, infer__jparse_block(p, "endfilter"));
}
static infer__jnode *infer__jtag_print(infer__jparse *p, uint32_t at) {
    size_t base = p->n_stack;
    infer__jnode *e = infer__jparse_node(p, INFER__JN_PRINT, at);
    while (p->r == INFER_OK && p->k->kind != INFER__JT_TAG_END) {
        if (p->n_stack > base) infer__jparse_expect(p, ',');
        infer__jparse_push(p, infer__jparse_expression(p));
    }
    return infer__jparse_take(p, e, base);
}
static infer__jnode *infer__jtag_flow(infer__jparse *p, uint32_t at, int kind) {
    if (!p->in_loop) infer__jparse_fail(p, "break and continue belong into a loop");
    return infer__jparse_node(p, kind, at);
}
static infer__jnode *infer__jtag_break(infer__jparse *p, uint32_t at) {
    return infer__jtag_flow(p, at, INFER__JN_BREAK);
}
static infer__jnode *infer__jtag_continue(infer__jparse *p, uint32_t at) {
    return infer__jtag_flow(p, at, INFER__JN_CONTINUE);
}
static infer__jnode *infer__jtag_generation(infer__jparse *p, uint32_t at) {
    int in_loop = p->in_loop;
    infer__jnode *body;
    p->in_loop = 0;
    body = infer__jparse_block(p, "endgeneration");
    p->in_loop = in_loop;
    return infer__jparse_with(p, INFER__JN_SCOPE, at, body, NULL);
}

static const struct {
    const char *name;
    infer__jnode *(*parse)(infer__jparse *p, uint32_t at); /* NULL: known, and refused */
} INFER__JINJA_TAGS[] = {
    {"if", infer__jtag_if},         {"for", infer__jtag_for},           {"set", infer__jtag_set},
    {"macro", infer__jtag_macro},   {"call", infer__jtag_call},         {"filter", infer__jtag_filter},
    {"with", infer__jtag_with},     {"break", infer__jtag_break},       {"continue", infer__jtag_continue},
    {"print", infer__jtag_print},   {"generation", infer__jtag_generation},
    {"include", NULL},              {"import", NULL},                   {"from", NULL},
    {"extends", NULL},              {"block", NULL},                    {"autoescape", NULL},
};

static infer__jnode *infer__jparse_statement(infer__jparse *p) { /* after {% */
    const infer__jtoken *k = p->k;
    size_t i;
    char what[96];
    for (i = 0; i < INFER__COUNT(INFER__JINJA_TAGS); i++) {
        infer__jnode *e;
        if (!infer__jparse_name(p, INFER__JINJA_TAGS[i].name)) continue;
        if (!INFER__JINJA_TAGS[i].parse) break;
        infer__jparse_next(p, 1);
        e = INFER__JINJA_TAGS[i].parse(p, k->at);
        infer__jparse_tag_end(p);
        return e;
    }
    if (k->kind != INFER__JT_NAME) {
        infer__jparse_fail(p, "the name of a tag is expected");
    } else {
        int known = i < INFER__COUNT(INFER__JINJA_TAGS);
        infer__format(what, sizeof what, known ? "the tag '%.*s' is not supported" : "unknown tag '%.*s'",
                      (int)INFER__MIN(k->n, 40), k->s);
        if (p->r == INFER_OK && known) p->r = infer__jinja_error(p->t, k->at, p->err, INFER_ERR_UNSUPPORTED, what);
        infer__jparse_fail(p, what);
    }
    return &p->spare;
}

static infer__jnode *infer__jparse_body(infer__jparse *p, const char *const *ends) {
    size_t base = p->n_stack;
    infer__jnode *body = infer__jparse_node(p, INFER__JN_BODY, p->k->at), *e;
    int ended = 0;
    if (!infer__jparse_enter(p)) {
        p->depth--;
        return body;
    }
    while (p->r == INFER_OK && !ended) {
        const infer__jtoken *k = p->k;
        switch (k->kind) {
        case INFER__JT_TEXT:
            infer__jparse_next(p, 1);
            e = infer__jparse_node(p, INFER__JN_TEXT, k->at);
            e->s = k->s;
            e->n = k->n;
            infer__jparse_push(p, e);
            break;
        case INFER__JT_PRINT:
            infer__jparse_next(p, 1);
            e = infer__jparse_with(p, INFER__JN_PRINT, k->at, infer__jparse_tuple(p, 1, 0), NULL);
            if (p->k->kind == INFER__JT_PRINT_END) infer__jparse_next(p, 1);
            else infer__jparse_fail(p, "'}}' is expected");
            infer__jparse_push(p, e);
            break;
        case INFER__JT_TAG:
            infer__jparse_next(p, 1);
            if (ends && infer__jparse_any(p, ends)) ended = 1;
            else infer__jparse_push(p, infer__jparse_statement(p));
            break;
        default:
            if (ends) infer__jparse_fail(p, "the template ends inside of a block");
            ended = 1;
            break;
        }
    }
    p->depth--;
    return infer__jparse_take(p, body, base);
}

static const infer__jnode *infer__jinja_parse(infer__template *t, const infer__jtoken *tokens, infer_error *err,
                                              infer_result *r) {
    infer__jparse p;
    const infer__jnode *root;
    memset(&p, 0, sizeof p);
    p.t = t;
    p.k = tokens;
    p.err = err;
    root = infer__jparse_body(&p, NULL);
    infer__free(t->mem, p.stack);
    *r = p.r;
    return p.r == INFER_OK ? root : NULL;
}

/* Filters and tests that do not exist are an error when a template is opened; in an if, or where `x if y` decides, only
 * when they are reached: templates ask there what they may use. */
static infer_result infer__jnode_check(const infer__template *t, const infer__jnode *e, int soft, infer_error *err) {
    uint32_t i;
    char what[96];
    if (!e) return INFER_OK;
    if (!soft && ((e->kind == INFER__JN_FILTER && !infer__jinja_filter(e->s, e->n)) ||
                  (e->kind == INFER__JN_TEST && !infer__jinja_test(e->s, e->n)))) {
        infer__format(what, sizeof what, "no %s named '%.*s'", e->kind == INFER__JN_FILTER ? "filter" : "test",
                      (int)INFER__MIN(e->n, 40), e->s);
        return infer__jinja_error(t, e->at, err, INFER_ERR_FORMAT, what);
    }
    if (e->kind == INFER__JN_COND || e->kind == INFER__JN_IF) soft = 1;
    if (e->kind == INFER__JN_FOR || e->kind == INFER__JN_MACRO || e->kind == INFER__JN_WITH) soft = 0;
    for (i = 0; i < e->n_kids; i++) {
        infer_result r = infer__jnode_check(t, e->kids[i], soft, err);
        if (r != INFER_OK) return r;
    }
    return INFER_OK;
}

static infer_result infer__template_read(infer__template *t, const char *text, size_t n, infer_error *err) {
    const infer__jtoken *tokens;
    infer_result r;
    size_t at, len, i;
    int ok;
    char *s = n <= INFER__TEMPLATE_TEXT ? (char *)infer__arena_alloc(&t->arena, (uint64_t)n + 1) : NULL;
    if (n > INFER__TEMPLATE_TEXT)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "a template of more than %d bytes", (int)INFER__TEMPLATE_TEXT);
    if (!s) return infer__error(err, INFER_ERR_MEMORY, "template: out of memory");
    for (at = i = 0; i < n; i++) { /* one kind of line end */
        s[at++] = text[i] == '\r' ? '\n' : text[i];
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n') i++;
    }
    if (at > 0 && s[at - 1] == '\n') at--;
    s[at] = 0;
    t->text = s;
    t->n = at;
    for (i = 0; i < at; i += len) {
        infer__utf8_next(s + i, at - i, &len, &ok);
        if (!ok) return infer__jinja_error(t, i, err, INFER_ERR_FORMAT, "invalid UTF-8");
    }
    tokens = infer__jinja_lex(t, err, &r);
    if (!tokens) return r;
    t->root = infer__jinja_parse(t, tokens, err, &r);
    infer__free(t->mem, (void *)(uintptr_t)tokens);
    return r == INFER_OK ? infer__jnode_check(t, t->root, 0, err) : r;
}

static infer_result infer__template_open(infer__template **out, infer__mem *mem, const char *text, size_t n,
                                         infer_error *err) {
    infer__template *t = (infer__template *)infer__calloc(mem, 1, sizeof *t);
    infer_result r;
    *out = NULL;
    if (!t) return infer__error(err, INFER_ERR_MEMORY, "template: out of memory");
    t->mem = mem;
    t->arena.mem = mem;
    r = infer__template_read(t, text, n, err);
    if (r == INFER_OK) *out = t; else infer__template_close(t);
    return r;
}

static void infer__template_close(infer__template *t) {
    if (!t) return;
    infer__arena_free(&t->arena);
    infer__free(t->mem, t);
}

static int infer__template_uses(const infer__template *t, const char *name) {
    return infer__jnode_reads(t->root, name, strlen(name));
}
