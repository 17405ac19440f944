/* jinja_run.c: statements -> text: scopes, loops, macros, and a whole rendering.
 *
 * Owns:  scopes (loops, macros, with, call, filter and set blocks have one of their own; if has none), loop.*, the
 *        segments of the result.
 * Start: infer__template_render.
 */
#include "jinja.h"

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

static infer__jscope *infer__jscope_new(infer__jj *j, infer__jscope *parent) {
    infer__jscope *s = (infer__jscope *)infer__jj_alloc(j, 1, sizeof *s);
    if (s) s->parent = parent;
    return s;
}
static void infer__jscope_set(infer__jj *j, infer__jscope *scope, const char *s, size_t n, infer__jv v) {
    size_t i;
    if (!infer__jj_work(j, scope ? scope->n / 4 * (1 + n / 64) : 0)) return;
    for (i = 0; i < scope->n; i++) {
        if (scope->locals[i].n != n || memcmp(scope->locals[i].s, s, n) != 0) continue;
        scope->locals[i].v = v;
        return;
    }
    if (scope->n == scope->cap) {
        size_t cap = scope->cap * 2 + 4;
        struct infer__jlocal *p = (struct infer__jlocal *)infer__jj_alloc(j, cap, sizeof *p);
        if (!p) return;
        if (scope->n) memcpy(p, scope->locals, scope->n * sizeof *p);
        scope->locals = p;
        scope->cap = cap;
    }
    scope->locals[scope->n].s = s;
    scope->locals[scope->n].n = n;
    scope->locals[scope->n++].v = v;
}

/* Assign to a name, to a namespace's attribute, or to a tuple of such. */
static void infer__jj_assign(infer__jj *j, infer__jscope *scope, const infer__jnode *target, infer__jv v) {
    infer__jlist *l;
    infer__jv object;
    uint32_t i;
    if (j->r != INFER_OK) return;
    j->at = target->at;
    switch (target->kind) {
    case INFER__JN_NAME: infer__jscope_set(j, scope, target->s, target->n, v); break;
    case INFER__JN_ATTR:
        object = infer__jj_eval(j, scope, target->kids[0]);
        if (j->r == INFER_OK && object.kind != INFER__JV_SPACE)
            infer__jj_fail(j, INFER_ERR_FORMAT, "only attributes of a namespace can be assigned to");
        if (j->r == INFER_OK)
            infer__jdict_set(j, object.u.d, infer__jv_view(j, target->s, target->n, 0), v);
        break;
    default:
        l = infer__jv_items(j, v);
        if (l && l->n != target->n_kids)
            infer__jj_fail(j, INFER_ERR_FORMAT, "%s values to unpack (expected %u)",
                           l->n > target->n_kids ? "too many" : "not enough", (unsigned)target->n_kids);
        for (i = 0; j->r == INFER_OK && i < target->n_kids; i++)
            infer__jj_assign(j, scope, target->kids[i], infer__jv_member(l->items[i], infer__jv_mark(v)));
        break;
    }
}

/* The text that a body writes. */
static infer__jv infer__jj_capture(infer__jj *j, infer__jscope *scope, const infer__jnode *body) {
    infer__jbuf b = infer__jbuf_new(j), *out = j->out;
    j->out = &b;
    if (scope) infer__jj_exec(j, scope, body);
    j->out = out;
    return infer__jbuf_done(&b);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* Read the next item that passes the filter into l->next. */
static void infer__jloop_peek(infer__jj *j, infer__jloop *l) {
    const infer__jnode *filter = l->node->kids[2];
    infer__jlist *items = l->source.u.l;
    while (!l->has_next && !l->ended && infer__jj_work(j, 1)) {
        if (l->at >= items->n) {
            l->ended = 1;
            return;
        }
        l->next = infer__jv_member(items->items[l->at++], l->mark);
        l->has_next = 1;
        if (filter) {
            infer__jscope *scope = infer__jscope_new(j, l->scope);
            if (!scope) return;
            infer__jj_assign(j, scope, l->node->kids[0], l->next);
            l->has_next = infer__jv_true(infer__jj_eval(j, scope, filter));
        }
    }
}
/* Items that are still to come; filters are asked now, as for every question about the length. */
static int64_t infer__jloop_left(infer__jj *j, infer__jloop *l) {
    infer__jv rest = infer__jv_list(j, INFER__JV_LIST);
    if (!l->node->kids[2]) return (int64_t)(l->source.u.l->n - l->at) + l->has_next;
    for (infer__jloop_peek(j, l); l->has_next && j->r == INFER_OK; infer__jloop_peek(j, l)) {
        infer__jlist_add(j, rest.u.l, l->next);
        l->has_next = 0;
    }
    if (j->r != INFER_OK) return 0;
    l->source = rest; /* these have passed: see kids[2] above */
    l->at = 0;
    l->ended = 0;
    {
        infer__jnode *node = (infer__jnode *)infer__jj_alloc(j, 1, sizeof *node);
        infer__jnode **kids = (infer__jnode **)infer__jj_alloc(j, 5, sizeof *kids);
        if (!node || !kids) return 0;
        *node = *l->node;
        memcpy(kids, l->node->kids, 5 * sizeof *kids);
        kids[2] = NULL;
        node->kids = kids;
        l->node = node;
    }
    return (int64_t)rest.u.l->n;
}

static infer__jv infer__jloop_changed(infer__jj *j, const infer__jcall *c) {
    infer__jloop *l = c->self.u.loop;
    infer__jv now = infer__jv_list(j, INFER__JV_TUPLE);
    size_t i;
    int same;
    for (i = 0; i < c->args->n; i++) infer__jlist_add(j, now.u.l, c->args->v[i]);
    if (j->r != INFER_OK) return now;
    same = l->has_changed && infer__jv_equal(j, l->changed, now);
    l->changed = now;
    l->has_changed = 1;
    return infer__jv_bool(!same);
}
static infer__jv infer__jloop_cycle(infer__jj *j, const infer__jcall *c) {
    if (c->args->n == 0) return infer__jj_fail(j, INFER_ERR_FORMAT, "no items for cycling given");
    return c->args->v[(size_t)c->self.u.loop->index % c->args->n];
}
static const infer__jfunction INFER__JLOOP_METHODS[] = {
    {"changed", infer__jloop_changed, "*", 0}, {"cycle", infer__jloop_cycle, "*", 0}};

enum { INFER__JL_INDEX, INFER__JL_INDEX0, INFER__JL_REVINDEX, INFER__JL_REVINDEX0, INFER__JL_FIRST, INFER__JL_LAST,
       INFER__JL_LENGTH, INFER__JL_DEPTH, INFER__JL_DEPTH0, INFER__JL_PREVIOUS, INFER__JL_NEXT };
static infer__jv infer__jloop_value(infer__jj *j, infer__jloop *l, const char *s, size_t n) {
    static const char *const NAMES[] = {"index", "index0", "revindex", "revindex0", "first",   "last",
                                        "length", "depth", "depth0",   "previtem",  "nextitem"};
    infer__jv v = infer__jv_none();
    size_t i = 0;
    while (i < INFER__COUNT(NAMES) && !(strlen(NAMES[i]) == n && memcmp(NAMES[i], s, n) == 0)) i++;
    switch (i) {
    case INFER__JL_INDEX: return infer__jv_int(l->index + 1);
    case INFER__JL_INDEX0: return infer__jv_int(l->index);
    case INFER__JL_REVINDEX: return infer__jv_int(infer__jloop_left(j, l) + 1);
    case INFER__JL_REVINDEX0: return infer__jv_int(infer__jloop_left(j, l));
    case INFER__JL_FIRST: return infer__jv_bool(l->index == 0);
    case INFER__JL_LENGTH: return infer__jv_int(infer__jloop_left(j, l) + l->index + 1);
    case INFER__JL_DEPTH: return infer__jv_int(l->depth + 1);
    case INFER__JL_DEPTH0: return infer__jv_int(l->depth);
    case INFER__JL_LAST:
        infer__jloop_peek(j, l);
        return infer__jv_bool(!l->has_next);
    case INFER__JL_PREVIOUS:
        return l->index > 0 ? l->previous : infer__jv_undefined(j, "there is no previous item", 25);
    case INFER__JL_NEXT:
        infer__jloop_peek(j, l);
        return l->has_next ? l->next : infer__jv_undefined(j, "there is no next item", 21);
    default: break;
    }
    v.u.bound = (infer__jbound *)infer__jj_alloc(j, 1, sizeof *v.u.bound);
    if (!v.u.bound) return v;
    v.u.bound->fn = infer__jfunction_find(INFER__JLOOP_METHODS, INFER__COUNT(INFER__JLOOP_METHODS), s, n);
    v.u.bound->self.kind = INFER__JV_LOOP;
    v.u.bound->self.u.loop = l;
    v.kind = INFER__JV_METHOD;
    return v.u.bound->fn ? v : infer__jv_undefined(j, s, n);
}
static infer__jv infer__jloop_attr(infer__jj *j, infer__jloop *l, const char *s, size_t n) {
    return infer__jv_member(infer__jloop_value(j, l, s, n), l->mark);
}

static void infer__jj_loop(infer__jj *j, infer__jscope *scope, const infer__jnode *node, infer__jv source, int depth) {
    infer__jloop *l = (infer__jloop *)infer__jj_alloc(j, 1, sizeof *l);
    infer__jscope *inner = infer__jscope_new(j, scope);
    infer__jlist *items = infer__jv_items(j, source);
    infer__jv self = infer__jv_none();
    int whole =
        0; /* an iteration came to its end: as in Jinja, one that was left by break or continue does not count */
    if (!l || !inner || !items) return;
    l->node = node;
    l->scope = scope;
    l->source.kind = INFER__JV_LIST;
    l->source.u.l = items;
    l->mark = infer__jv_mark(source);
    l->index = -1;
    l->depth = depth;
    self.kind = INFER__JV_LOOP;
    self.u.loop = l;
    for (;;) {
        infer__jloop_peek(j, l);
        if (!l->has_next || j->r != INFER_OK) break;
        l->previous = l->current;
        l->current = l->next;
        l->has_next = 0;
        l->index++;
        inner->n = 0; /* what an iteration sets is gone in the next */
        infer__jscope_set(j, inner, "loop", 4, self);
        infer__jj_assign(j, inner, node->kids[0], l->current);
        infer__jj_exec(j, inner, node->kids[3]);
        if (j->r != INFER_OK || j->flow == INFER__JFLOW_BREAK) break;
        if (j->flow == INFER__JFLOW_GO) whole = 1;
        j->flow = INFER__JFLOW_GO;
    }
    j->flow = INFER__JFLOW_GO;
    if (!whole && node->kids[4] && j->r == INFER_OK) infer__jj_exec(j, infer__jscope_new(j, scope), node->kids[4]);
}
static infer__jv infer__jj_call_loop(infer__jj *j, infer__jloop *l, infer__jv source) {
    infer__jbuf b = infer__jbuf_new(j), *out = j->out;
    if (!l->node->op)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "the loop must have the 'recursive' marker to be called");
    j->out = &b;
    if (infer__jj_enter(j)) infer__jj_loop(j, l->scope, l->node, source, l->depth + 1);
    infer__jj_leave(j);
    j->out = out;
    return infer__jbuf_done(&b);
}

/* ---- macros ------------------------------------------------------------------------------------------------------ */

static infer__jv infer__jj_call_macro(infer__jj *j, const infer__jmacro *m, const infer__jargs *args) {
    const infer__jnode *node = m->node;
    infer__jscope *scope = infer__jscope_new(j, m->scope);
    infer__jv rest = infer__jv_list(j, INFER__JV_TUPLE), named = infer__jv_dict(j), caller = infer__jv_none(), v;
    size_t i, n_params = node->n_kids - 1;
    int has_caller = 0;
    uint8_t *given = (uint8_t *)infer__jj_alloc(j, n_params + 1, 1);
    if (j->r != INFER_OK) return rest;
    for (i = 0; i < args->n; i++) {
        if (i >= n_params) {
            infer__jlist_add(j, rest.u.l, args->v[i]);
            continue;
        }
        infer__jscope_set(j, scope, node->kids[i + 1]->s, node->kids[i + 1]->n, args->v[i]);
        given[i] = 1;
    }
    for (i = 0; args->named && i < args->named->n; i++) {
        infer__jv key = args->named->items[2 * i];
        size_t k = 0;
        if (key.kind != INFER__JV_STRING) return infer__jj_fail(j, INFER_ERR_FORMAT, "keywords must be strings");
        if (!infer__jj_work(j, n_params / 4 * (1 + key.u.s->n / 64))) return rest;
        while (k < n_params && (node->kids[k + 1]->n != key.u.s->n ||
                                memcmp(node->kids[k + 1]->s, key.u.s->s, key.u.s->n) != 0)) k++;
        if (k < n_params && !given[k]) {
            infer__jscope_set(j, scope, node->kids[k + 1]->s, node->kids[k + 1]->n, args->named->items[2 * i + 1]);
            given[k] = 1;
        } else if (k == n_params && infer__jv_is(key, "caller") && (node->op & INFER__JM_CALLER)) {
            caller = args->named->items[2 * i + 1];
            has_caller = 1;
        } else {
            infer__jdict_set(j, named.u.d, key, args->named->items[2 * i + 1]);
        }
    }
    if (rest.u.l->n > 0 && !(node->op & INFER__JM_VARARGS))
        return infer__jj_fail(j, INFER_ERR_FORMAT, "macro '%.*s' takes not more than %u argument(s)",
                              (int)INFER__MIN(node->n, 100), node->s, (unsigned)n_params);
    if (named.u.d->n > 0 && !(node->op & INFER__JM_KWARGS))
        return infer__jj_fail(j, INFER_ERR_FORMAT, "macro '%.*s' got an unexpected argument '%.*s'",
                              (int)INFER__MIN(node->n, 100), node->s,
                              (int)INFER__MIN(named.u.d->items[0].u.s->n, 100), named.u.d->items[0].u.s->s);
    for (i = 0; i < n_params && j->r == INFER_OK; i++) {
        const infer__jnode *p = node->kids[i + 1];
        if (given[i]) continue;
        v = p->n_kids ? infer__jj_eval(j, scope, p->kids[0]) : infer__jv_undefined(j, p->s, p->n);
        infer__jscope_set(j, scope, p->s, p->n, v);
    }
    if (node->op & INFER__JM_VARARGS) infer__jscope_set(j, scope, "varargs", 7, rest);
    if (node->op & INFER__JM_KWARGS) infer__jscope_set(j, scope, "kwargs", 6, named);
    if (node->op & INFER__JM_CALLER)
        infer__jscope_set(j, scope, "caller", 6, has_caller ? caller : infer__jv_undefined(j, "caller", 6));
    v = infer__jv_none();
    if (infer__jj_enter(j)) {
        int flow = j->flow;
        v = infer__jj_capture(j, scope, node->kids[0]);
        j->flow = flow;
    }
    infer__jj_leave(j);
    return v;
}
static infer__jv infer__jj_macro(infer__jj *j, infer__jscope *scope, const infer__jnode *node) {
    infer__jv v = infer__jv_none();
    v.u.macro = (infer__jmacro *)infer__jj_alloc(j, 1, sizeof *v.u.macro);
    if (!v.u.macro) return v;
    v.kind = INFER__JV_MACRO;
    v.u.macro->node = node;
    v.u.macro->scope = scope;
    return v;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* The filters of a block, innermost first, applied to v. */
static infer__jv infer__jj_filters(infer__jj *j, infer__jscope *scope, const infer__jnode *e, infer__jv v) {
    if (!e) return v;
    v = infer__jj_filters(j, scope, e->kids[0], v);
    j->at = e->at;
    return infer__jj_apply(j, scope, e, v);
}

static void infer__jj_exec_with(infer__jj *j, infer__jscope *scope, const infer__jnode *s) {
    infer__jscope *inner = infer__jscope_new(j, scope);
    uint32_t i;
    for (i = 1; i + 1 < s->n_kids && j->r == INFER_OK; i += 2)
        infer__jj_assign(j, inner, s->kids[i], infer__jj_eval(j, scope, s->kids[i + 1]));
    if (j->r == INFER_OK) infer__jj_exec(j, inner, s->kids[0]);
}
static void infer__jj_exec_call(infer__jj *j, infer__jscope *scope, const infer__jnode *s) {
    const infer__jnode *call = s->kids[0];
    infer__jv callee = infer__jj_eval(j, scope, call->kids[0]);
    infer__jargs args = infer__jj_arguments(j, scope, call, 1);
    if (j->r != INFER_OK) return;
    infer__jargs_name(j, &args, infer__jv_view(j, "caller", 6, 0), infer__jj_macro(j, scope, s->kids[1]));
    infer__jbuf_value(j->out, infer__jj_call(j, scope, callee, &args));
}

static void infer__jj_exec_node(infer__jj *j, infer__jscope *scope, const infer__jnode *s) {
    infer__jv v;
    uint32_t i;
    switch (s->kind) {
    case INFER__JN_BODY:
        for (i = 0; i < s->n_kids && j->r == INFER_OK && j->flow == INFER__JFLOW_GO; i++)
            infer__jj_exec(j, scope, s->kids[i]);
        break;
    case INFER__JN_TEXT: infer__jbuf_put(j->out, s->s, s->n, 0); break;
    case INFER__JN_PRINT:
        for (i = 0; i < s->n_kids && j->r == INFER_OK; i++) {
            v = infer__jj_eval(j, scope, s->kids[i]);
            if (j->r == INFER_OK) infer__jbuf_value(j->out, v);
        }
        break;
    case INFER__JN_IF:
        v = infer__jj_eval(j, scope, s->kids[0]);
        if (j->r != INFER_OK) break;
        if (infer__jv_true(v)) infer__jj_exec(j, scope, s->kids[1]);
        else if (s->n_kids > 2) infer__jj_exec(j, scope, s->kids[2]);
        break;
    case INFER__JN_FOR:
        v = infer__jj_eval(j, scope, s->kids[1]);
        if (j->r == INFER_OK) infer__jj_loop(j, scope, s, v, 0);
        break;
    case INFER__JN_SET: infer__jj_assign(j, scope, s->kids[0], infer__jj_eval(j, scope, s->kids[1])); break;
    case INFER__JN_SET_BLOCK:
        v = infer__jj_capture(j, infer__jscope_new(j, scope), s->kids[2]);
        infer__jj_assign(j, scope, s->kids[0], infer__jj_filters(j, scope, s->kids[1], v));
        break;
    case INFER__JN_WITH: infer__jj_exec_with(j, scope, s); break;
    case INFER__JN_MACRO: infer__jscope_set(j, scope, s->s, s->n, infer__jj_macro(j, scope, s)); break;
    case INFER__JN_CALL_BLOCK: infer__jj_exec_call(j, scope, s); break;
    case INFER__JN_FILTER_BLOCK:
        v = infer__jj_capture(j, infer__jscope_new(j, scope), s->kids[1]);
        v = infer__jj_filters(j, scope, s->kids[0], v);
        if (j->r == INFER_OK && v.kind != INFER__JV_STRING)
            infer__jj_fail(j, INFER_ERR_FORMAT, "a filter block must give a string, not %s", infer__jv_type(v));
        if (j->r == INFER_OK) infer__jbuf_str(j->out, v.u.s);
        break;
    case INFER__JN_SCOPE: infer__jj_exec(j, infer__jscope_new(j, scope), s->kids[0]); break;
    case INFER__JN_BREAK: j->flow = INFER__JFLOW_BREAK; break;
    case INFER__JN_CONTINUE: j->flow = INFER__JFLOW_CONTINUE; break;
    default: infer__jj_fail(j, INFER_ERR_UNSUPPORTED, "a statement of unknown kind"); break;
    }
}
static void infer__jj_exec(infer__jj *j, infer__jscope *scope, const infer__jnode *s) {
    if (!infer__jj_work(j, 1)) return;
    j->at = s->at;
    if (infer__jj_enter(j)) infer__jj_exec_node(j, scope, s);
    infer__jj_leave(j);
}

/* ---- a rendering ------------------------------------------------------------------------------------------------- */

/* Copy the text and cut it where its marks change. */
static infer_result infer__rendered_make(infer__rendered *out, infer__jj *j, const infer__jbuf *b) {
    infer_error *err = j->err;
    size_t i, from, n = 0;
    out->text = (char *)infer__calloc(out->mem, (uint64_t)b->n + 1, 1);
    if (!out->text) return infer__error(err, INFER_ERR_MEMORY, "template: out of memory");
    if (b->n) memcpy(out->text, b->s, b->n);
    out->n = b->n;
    if (b->n == 0) return INFER_OK;
    for (n = 1, i = 1; b->marks && i < b->n; i++) n += b->marks[i] != b->marks[i - 1];
    if (n > (j->max_memory - INFER__MIN(j->used, j->max_memory)) / sizeof *out->segments) {
        infer__jj_fail(j, INFER_ERR_MEMORY, INFER__JINJA_MEMORY);
        return j->r;
    }
    out->segments = (infer_segment *)infer__calloc(out->mem, n, sizeof *out->segments);
    if (!out->segments) return infer__error(err, INFER_ERR_MEMORY, "template: out of memory");
    for (from = 0; from < b->n; from = i) {
        infer_segment *s = &out->segments[out->n_segments++];
        int mark = b->marks ? b->marks[from] : b->mark;
        for (i = b->marks ? from + 1 : b->n; i < b->n && b->marks[i] == mark; i++) {}
        s->text = out->text + from;
        s->n = i - from;
        s->from_message = mark;
    }
    return INFER_OK;
}

static infer__jdict *infer__jj_variables(infer__jj *j, const infer_json *v, int mark) {
    infer__jv d = v && v->kind == INFER_JSON_OBJECT ? infer__jv_json(j, v, mark) : infer__jv_dict(j);
    return d.u.d;
}

static infer_result infer__template_render(const infer__template *t, const infer_json *context,
                                           const infer__render_options *options, infer__rendered *out,
                                           infer_error *err) {
    return infer__template_render_with(t, t->mem, context, options, out, err);
}
static infer_result infer__template_render_with(const infer__template *t, infer__mem *mem, const infer_json *context,
                                                const infer__render_options *options, infer__rendered *out,
                                                infer_error *err) {
    static const infer__render_options none = {NULL, NULL, 0, 0, 0, NULL};
    const infer__render_options *o = options ? options : &none;
    infer__watch watch;
    infer__jj j;
    infer__jbuf b;
    infer_result r;
    memset(out, 0, sizeof *out);
    out->mem = mem;
    if ((context && context->kind != INFER_JSON_OBJECT) || (o->trusted && o->trusted->kind != INFER_JSON_OBJECT))
        return infer__error(err, INFER_ERR_ARGUMENT, "template: the variables must be a JSON object");
    memset(&j, 0, sizeof j);
    j.t = t;
    j.arena.mem = mem;
    j.err = err;
    j.now = o->now;
    if (!o->watch) infer__watch_begin(&watch, NULL, INFER__WATCH_SECONDS);
    j.watch = o->watch ? o->watch : &watch;
    j.max_work = o->max_steps ? o->max_steps : INFER__TEMPLATE_STEPS;
    j.max_output = o->max_output ? o->max_output : INFER__TEMPLATE_OUTPUT;
    j.max_memory = o->max_memory ? o->max_memory : INFER__TEMPLATE_MEMORY + 10 * (uint64_t)t->n;
    j.grows = o->max_memory == 0;
    b = infer__jbuf_new(&j);
    b.is_output = 1;
    j.out = &b;
    j.trusted = infer__jj_variables(&j, o->trusted, 0);
    j.context = infer__jj_variables(&j, context, 1);
    if (j.grows) j.max_memory = INFER__MIN(j.max_memory, INFER__TEMPLATE_MEMORY_MOST);
    if (j.r == INFER_OK) {
        infer__jscope *root = infer__jscope_new(&j, NULL);
        if (root) infer__jj_exec(&j, root, t->root);
    }
    r = j.r == INFER_OK ? infer__rendered_make(out, &j, &b) : j.r;
    if (r != INFER_OK) infer__rendered_free(out);
    out->steps = j.work;
    out->used = j.used;
    infer__arena_free(&j.arena);
    return r;
}

static void infer__rendered_free(infer__rendered *r) {
    if (!r || !r->mem) return;
    infer__free(r->mem, r->text);
    infer__free(r->mem, r->segments);
    memset(r, 0, sizeof *r);
}
