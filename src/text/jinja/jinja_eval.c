/* jinja_eval.c: expressions -> values: operators, attributes, items, slices, calls.
 *
 * Rules: Python's semantics within 64 bits; a result beyond them is an error. A value that is not there is UNDEFINED:
 *        empty when written, false, and an error in arithmetic or when something of it is asked for.
 * Start: infer__jj_eval.
 */
#include "jinja.h"

static infer__jv infer__jj_is_undefined(infer__jj *j, infer__jv v) {
    return infer__jj_fail(j, INFER_ERR_FORMAT, "'%.*s' is undefined", v.u.s ? (int)INFER__MIN(v.u.s->n, 200) : 1,
                          v.u.s ? v.u.s->s : "?");
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------ */

static infer__jv infer__jj_overflow(infer__jj *j) {
    return infer__jj_fail(j, INFER_ERR_FORMAT, "a whole number beyond 64 bits");
}
static int infer__i64_mul_ok(int64_t a, int64_t b, int64_t *out) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b, z;
    int negative = (a < 0) != (b < 0);
    if (!infer__mul_ok(x, y, &z) || z > (uint64_t)INT64_MAX + negative) return 0;
    *out = (int64_t)(negative ? 0 - z : z);
    return 1;
}
static int infer__i64_add_ok(int64_t a, int64_t b, int64_t *out) {
    if (b >= 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return 0;
    *out = a + b;
    return 1;
}

static infer__jv infer__jj_power(infer__jj *j, infer__jv a, infer__jv b) {
    int64_t x = a.u.i, n = b.u.i, out = 1;
    double f, g;
    if (a.kind == INFER__JV_FLOAT || b.kind == INFER__JV_FLOAT || n < 0) {
        f = infer__jv_number(a);
        g = infer__jv_number(b);
        if (f == 0 && g < 0) return infer__jj_fail(j, INFER_ERR_FORMAT, "0 to a negative power");
        if (f < 0 && g != floor(g)) return infer__jj_fail(j, INFER_ERR_FORMAT, "a complex number");
        f = pow(f, g);
        if (infer__double_special(f) && !infer__double_special(infer__jv_number(a)) && !infer__double_special(g))
            return infer__jj_fail(j, INFER_ERR_FORMAT, "a float too large");
        return infer__jv_float(f);
    }
    if (x == 0 || x == 1) return infer__jv_int(n == 0 ? 1 : x);
    if (x == -1) return infer__jv_int(n % 2 ? -1 : 1);
    if (n >= 64) return infer__jj_overflow(j);
    for (; n > 0; n--) if (!infer__i64_mul_ok(out, x, &out)) return infer__jj_overflow(j);
    return infer__jv_int(out);
}

static infer__jv infer__jj_arithmetic(infer__jj *j, int op, infer__jv a, infer__jv b) {
    int floats = a.kind == INFER__JV_FLOAT || b.kind == INFER__JV_FLOAT, ok = 1;
    double x = infer__jv_number(a), y = infer__jv_number(b), f = 0;
    int64_t i = a.u.i, k = b.u.i, out = 0;
    if (floats && (op == '%' || op == INFER__JOP('/', '/')) && !infer__jj_work(j, INFER__JINJA_FLOAT))
        return a; /* fmod */
    if ((op == '/' || op == '%' || op == INFER__JOP('/', '/')) && y == 0)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "division by zero");
    if (floats || op == '/') {
        switch (op) {
        case '+': f = x + y; break;
        case '-': f = x - y; break;
        case '*': f = x * y; break;
        case '/': f = x / y; break;
        default: /* the remainder has the sign of the divisor */
            f = fmod(x, y);
            if (op == '%') {
                if (f != 0 && (f < 0) != (y < 0)) f += y;
                if (f == 0) f = y < 0 ? -0.0 : 0.0;
            } else {
                double r = f, q = (x - r) / y;
                if (r != 0 && (r < 0) != (y < 0)) q -= 1;
                f = q != 0 ? floor(q) : x / y < 0 ? -0.0 : 0.0;
                if (q - f > 0.5) f += 1;
            }
            break;
        }
        return infer__jv_float(f);
    }
    switch (op) {
    case '+': ok = infer__i64_add_ok(i, k, &out); break;
    case '-': ok = k == INT64_MIN ? i < 0 : infer__i64_add_ok(i, -k, &out);
        if (ok && k == INT64_MIN) out = i - INT64_MIN;
        break;
    case '*': ok = infer__i64_mul_ok(i, k, &out); break;
    default:
        if (k == -1) {
            ok = op == '%' || i != INT64_MIN;
            out = op == '%' || !ok ? 0 : -i;
            break;
        }
        out = op == '%' ? i % k : i / k;
        if (i % k != 0 && (i % k < 0) != (k < 0)) out = op == '%' ? out + k : out - 1;
        break;
    }
    return ok ? infer__jv_int(out) : infer__jj_overflow(j);
}

static infer__jv infer__jj_repeat(infer__jj *j, infer__jv v, int64_t times) {
    infer__jv out;
    size_t i;
    if (v.kind == INFER__JV_STRING) {
        infer__jbuf b = infer__jbuf_new(j);
        if (v.u.s->n > 0 && times > 0) {
            uint64_t n;
            if (!infer__mul_ok(v.u.s->n, (uint64_t)times, &n) || n > j->max_memory)
                return infer__jj_fail(j, INFER_ERR_MEMORY, INFER__JINJA_MEMORY);
            infer__jbuf_room(&b, (size_t)n, v.u.s->marks != NULL);
            for (; times > 0 && infer__jj_work(j, 1); times--) infer__jbuf_str(&b, v.u.s);
        }
        return infer__jbuf_done(&b);
    }
    out = infer__jv_list(j, v.kind);
    for (; v.u.l->n > 0 && times > 0 && infer__jj_work(j, v.u.l->n); times--)
        for (i = 0; i < v.u.l->n; i++) infer__jlist_add(j, out.u.l, v.u.l->items[i]);
    return out;
}

static infer__jv infer__jj_binary(infer__jj *j, int op, infer__jv a, infer__jv b) {
    infer__jv v;
    size_t i;
    int mark = 0;
    char name[3];
    if (j->r != INFER_OK) return infer__jv_none();
    if (infer__jv_is_number(a) && infer__jv_is_number(b)) {
        v = op == INFER__JOP('*', '*') ? infer__jj_power(j, a, b) : infer__jj_arithmetic(j, op, a, b);
        v.mark = a.mark | b.mark;
        return v;
    }
    if (op == '%' && a.kind == INFER__JV_STRING) return infer__jv_percent(j, a, b);
    if (op == '+' && a.kind == INFER__JV_STRING && b.kind == INFER__JV_STRING) {
        if (a.u.s->safe != b.u.s->safe) *(a.u.s->safe ? &b : &a) = infer__jv_escape(j, a.u.s->safe ? b : a);
        mark = a.u.s->safe;
        v = infer__jv_concat(j, a, b);
        if (v.kind == INFER__JV_STRING) v.u.s->safe = (uint8_t)mark;
        return v;
    }
    if (op == '+' && a.kind == b.kind && (a.kind == INFER__JV_LIST || a.kind == INFER__JV_TUPLE)) {
        v = infer__jv_member(infer__jv_list(j, a.kind), a.mark | b.mark);
        for (i = 0; i < a.u.l->n && infer__jj_work(j, 1); i++) infer__jlist_add(j, v.u.l, a.u.l->items[i]);
        for (i = 0; i < b.u.l->n && infer__jj_work(j, 1); i++) infer__jlist_add(j, v.u.l, b.u.l->items[i]);
        return v;
    }
    if (op == '*') {
        infer__jv box = a.kind == INFER__JV_BOOL || a.kind == INFER__JV_INT ? b : a, n = box.kind == a.kind ? b : a;
        if ((box.kind == INFER__JV_STRING || box.kind == INFER__JV_LIST || box.kind == INFER__JV_TUPLE) &&
            (n.kind == INFER__JV_BOOL || n.kind == INFER__JV_INT))
            return infer__jv_claim(j, infer__jj_repeat(j, box, n.u.i), n.mark);
    }
    if (a.kind == INFER__JV_UNDEFINED || b.kind == INFER__JV_UNDEFINED)
        return infer__jj_is_undefined(j, a.kind == INFER__JV_UNDEFINED ? a : b);
    if (a.kind == INFER__JV_BIG || b.kind == INFER__JV_BIG) return infer__jj_overflow(j);
    name[0] = (char)(op > 255 ? op >> 8 : op);
    name[1] = (char)(op > 255 ? op & 255 : 0);
    name[2] = 0;
    return infer__jj_fail(j, INFER_ERR_FORMAT, "unsupported operand type(s) for %s: '%s' and '%s'", name,
                          infer__jv_type(a), infer__jv_type(b));
}

/* ---- attributes, items, slices ----------------------------------------------------------------------------------- */

static infer__jv infer__jj_method(infer__jj *j, infer__jv object, const char *s, size_t n) {
    const infer__jfunction *fn = infer__jinja_method(object.kind, s, n);
    infer__jv v = infer__jv_none();
    if (!infer__jj_work(j, 2) || !fn) return v;
    v.kind = INFER__JV_METHOD;
    v.u.bound = (infer__jbound *)infer__jj_alloc(j, 1, sizeof *v.u.bound);
    if (!v.u.bound) return infer__jv_none();
    v.u.bound->fn = fn;
    v.u.bound->self = object;
    return v;
}

static infer__jv infer__jj_attr(infer__jj *j, infer__jv object, const char *s, size_t n) {
    infer__jv v, *found;
    if (object.kind == INFER__JV_UNDEFINED) return infer__jj_is_undefined(j, object);
    if (object.kind == INFER__JV_LOOP) return infer__jloop_attr(j, object.u.loop, s, n);
    if (object.kind == INFER__JV_MACRO && n == 4 && memcmp(s, "name", 4) == 0)
        return infer__jv_view(j, object.u.macro->node->s, object.u.macro->node->n, 0);
    if (object.kind == INFER__JV_CYCLER && n == 7 && memcmp(s, "current", 7) == 0)
        return object.u.l->items[object.u.l->at];
    v = infer__jj_method(j, object, s, n);
    if (v.kind == INFER__JV_METHOD) return v;
    if (object.kind == INFER__JV_DICT || object.kind == INFER__JV_SPACE) {
        found = infer__jdict_name(j, object.u.d, s, n);
        if (found) return *found;
    }
    return infer__jv_undefined(j, s, n);
}

static int infer__jv_is_sequence(infer__jv v) {
    return v.kind == INFER__JV_LIST || v.kind == INFER__JV_TUPLE || v.kind == INFER__JV_RANGE;
}

static infer__jv infer__jj_item(infer__jj *j, infer__jv object, infer__jv index) {
    infer__jv *found;
    int mark = infer__jv_mark(index);
    if (object.kind == INFER__JV_UNDEFINED) return infer__jj_is_undefined(j, object);
    if (object.kind == INFER__JV_DICT) {
        if (index.kind == INFER__JV_LIST || index.kind == INFER__JV_DICT) return infer__jv_undefined(j, "item", 4);
        found = infer__jdict_find(j, object.u.d, index);
        if (found) return infer__jv_member(*found, mark);
    }
    if (index.kind == INFER__JV_BOOL || index.kind == INFER__JV_INT) {
        int64_t i = index.u.i, n;
        if (infer__jv_is_sequence(object)) {
            n = (int64_t)object.u.l->n;
            if (i < 0) i += n;
            if (i >= 0 && i < n) return infer__jv_member(object.u.l->items[i], mark | object.mark);
        } else if (object.kind == INFER__JV_STRING && infer__jj_scan(j, 2 * (uint64_t)object.u.s->n)) {
            const infer__jstr *s = object.u.s;
            size_t at, len;
            n = (int64_t)infer__jinja_count(s->s, s->n);
            if (i < 0) i += n;
            if (i >= 0 && i < n) {
                at = infer__jinja_offset(s->s, s->n, (size_t)i);
                infer__utf8_next(s->s + at, s->n - at, &len, NULL);
                return infer__jv_claim(j, infer__jv_part(j, s, at, at + len), mark);
            }
        }
    }
    if (index.kind == INFER__JV_STRING) return infer__jj_attr(j, object, index.u.s->s, index.u.s->n);
    return infer__jv_undefined(j, "item", 4);
}

/* Part v of a slice (NULL = not given) as a place in a sequence of n; after the last for step > 0, before the
 * first for step < 0. */
static int64_t infer__jj_slice_end(infer__jj *j, infer__jv v, int64_t n, int64_t step, int64_t none) {
    int64_t i = v.u.i;
    if (v.kind == INFER__JV_NONE) return none;
    if (v.kind != INFER__JV_INT && v.kind != INFER__JV_BOOL) {
        if (v.kind == INFER__JV_UNDEFINED) infer__jj_is_undefined(j, v);
        else infer__jj_fail(j, INFER_ERR_FORMAT, "slice indices must be integers or None");
        return 0;
    }
    if (i < 0) i = i < -n ? -1 : i + n;
    if (i < 0) return step < 0 ? -1 : 0;
    return i >= n ? (step < 0 ? n - 1 : n) : i;
}

static infer__jv infer__jj_slice(infer__jj *j, infer__jscope *scope, infer__jv object, const infer__jnode *e) {
    infer__jv part[3], out = infer__jv_none();
    int64_t n, start, stop, step, i;
    int k, mark = 0;
    for (k = 0; k < 3; k++) {
        part[k] = e->kids[k] ? infer__jj_eval(j, scope, e->kids[k]) : infer__jv_none();
        mark |= infer__jv_mark(part[k]);
    }
    if (j->r != INFER_OK) return out;
    if (object.kind == INFER__JV_UNDEFINED) return infer__jj_is_undefined(j, object);
    if (object.kind != INFER__JV_STRING && !infer__jv_is_sequence(object))
        return infer__jj_fail(j, INFER_ERR_FORMAT, "'%s' object is not subscriptable", infer__jv_type(object));
    step = part[2].kind == INFER__JV_NONE ? 1 : part[2].u.i;
    if (part[2].kind != INFER__JV_NONE && part[2].kind != INFER__JV_INT)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "slice indices must be integers or None");
    if (step == 0) return infer__jj_fail(j, INFER_ERR_FORMAT, "slice step cannot be zero");
    if (!infer__jj_scan(j, object.kind == INFER__JV_STRING ? 3 * (uint64_t)object.u.s->n : 0)) return out;
    n = (int64_t)(object.kind == INFER__JV_STRING ? infer__jinja_count(object.u.s->s, object.u.s->n) : object.u.l->n);
    start = infer__jj_slice_end(j, part[0], n, step, step < 0 ? n - 1 : 0);
    stop = infer__jj_slice_end(j, part[1], n, step, step < 0 ? -1 : n);
    if (j->r != INFER_OK) return out;
    if (object.kind == INFER__JV_STRING && step == 1) {
        const infer__jstr *s = object.u.s;
        size_t from = infer__jinja_offset(s->s, s->n, (size_t)start),
               to = infer__jinja_offset(s->s, s->n, (size_t)stop);
        return infer__jv_claim(j, infer__jv_part(j, s, from, to), mark);
    }
    if (object.kind == INFER__JV_STRING) {
        infer__jlist *chars = infer__jv_items(j, object);
        infer__jbuf b = infer__jbuf_new(j);
        for (i = start; chars && (step > 0 ? i < stop : i > stop);) {
            infer__jbuf_str(&b, chars->items[i].u.s);
            if (!infer__i64_add_ok(i, step, &i)) break;
        }
        return infer__jv_claim(j, infer__jbuf_done(&b), mark);
    }
    mark |= object.mark;
    out = infer__jv_member(infer__jv_list(j, object.kind), mark);
    if (j->r != INFER_OK) return out;
    for (i = start; step > 0 ? i < stop : i > stop;) {
        infer__jlist_add(j, out.u.l, infer__jv_member(object.u.l->items[i], mark));
        if (!infer__jj_work(j, 1) || !infer__i64_add_ok(i, step, &i)) break;
    }
    if (object.kind == INFER__JV_RANGE) {
        infer__jlist *r = object.u.l, *o = out.u.l;
        if (!infer__i64_mul_ok(start, r->step, &i) || !infer__i64_add_ok(i, r->start, &o->start) ||
            !infer__i64_mul_ok(stop, r->step, &i) || !infer__i64_add_ok(i, r->start, &o->stop) ||
            !infer__i64_mul_ok(r->step, step, &o->step))
            return infer__jj_overflow(j);
    }
    return out;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void infer__jargs_add(infer__jj *j, infer__jargs *args, infer__jv v) {
    infer__jlist l;
    memset(&l, 0, sizeof l);
    l.items = args->v;
    l.n = args->n;
    l.cap = args->cap;
    infer__jlist_add(j, &l, v);
    args->v = l.items;
    args->n = l.n;
    args->cap = l.cap;
}
static void infer__jargs_name(infer__jj *j, infer__jargs *args, infer__jv key, infer__jv v) {
    if (!args->named) args->named = infer__jv_dict(j).u.d;
    if (j->r != INFER_OK) return;
    if (infer__jdict_find(j, args->named, key))
        infer__jj_fail(j, INFER_ERR_FORMAT, "got multiple values for an argument");
    else infer__jdict_set(j, args->named, key, v);
}

/* The arguments kids[from..) of a call. */
static infer__jargs infer__jj_arguments(infer__jj *j, infer__jscope *scope, const infer__jnode *e, uint32_t from) {
    infer__jargs args;
    uint32_t i;
    size_t k;
    memset(&args, 0, sizeof args);
    for (i = from; i < e->n_kids && j->r == INFER_OK; i++) {
        const infer__jnode *a = e->kids[i];
        infer__jv v =
            infer__jj_eval(j, scope, a->kind >= INFER__JN_KEYWORD && a->kind <= INFER__JN_SPREAD2 ? a->kids[0] : a);
        if (j->r != INFER_OK) break;
        if (a->kind == INFER__JN_KEYWORD) {
            infer__jargs_name(j, &args, infer__jv_view(j, a->s, a->n, 0), v);
        } else if (a->kind == INFER__JN_SPREAD) {
            infer__jlist *l = infer__jv_items(j, v);
            for (k = 0; l && k < l->n && infer__jj_work(j, 1); k++) infer__jargs_add(j, &args, l->items[k]);
        } else if (a->kind == INFER__JN_SPREAD2) {
            if (v.kind != INFER__JV_DICT) infer__jj_fail(j, INFER_ERR_FORMAT, "argument after ** must be a mapping");
            for (k = 0; j->r == INFER_OK && k < v.u.d->n && infer__jj_work(j, 1); k++)
                infer__jargs_name(j, &args, v.u.d->items[2 * k], v.u.d->items[2 * k + 1]);
        } else {
            infer__jargs_add(j, &args, v);
        }
    }
    j->at = e->at;
    return args;
}

/* The number of the parameter `name` in a list, -1 = none. */
static int infer__jfunction_param(const char *params, const char *name, size_t n) {
    int i = 0;
    const char *p = params, *end;
    for (; *p; p = *end ? end + 1 : end, i++) {
        for (end = p; *end && *end != ' '; end++) {}
        if ((size_t)(end - p) == n && memcmp(p, name, n) == 0) return i;
    }
    return -1;
}

/* 1 when the function cuts or pads its value as its arguments say; replace: as its first and third do. */
static int infer__jfunction_cuts(const char *name) {
    static const char NAMES[] = "strip lstrip rstrip trim split rsplit partition rpartition removeprefix removesuffix "
                                "replace center ljust rjust zfill expandtabs indent truncate filesizeformat";
    return infer__jfunction_param(NAMES, name, strlen(name)) >= 0;
}

/* What a function has made, with the mark that its value and its arguments give it. */
static infer__jv infer__jj_result(infer__jj *j, const infer__jfunction *fn, const infer__jcall *c, infer__jv out) {
    int mark = 0, cut = 0;
    size_t i;
    for (i = 0; i < c->args->n; i++) {
        int here = infer__jv_mark(c->args->v[i]);
        mark |= here;
        if (i != 1 || strcmp(fn->name, "replace") != 0) cut |= here;
    }
    for (i = 0; c->args->named && i < c->args->named->n; i++) {
        int here = infer__jv_mark(c->args->named->items[2 * i + 1]);
        mark |= here;
        if (!infer__jv_is(c->args->named->items[2 * i], "new")) cut |= here;
    }
    if (out.kind != INFER__JV_STRING) out = infer__jv_member(out, mark | infer__jv_mark(c->self));
    if (!cut || j->r != INFER_OK || !infer__jfunction_cuts(fn->name)) return out;
    if (out.kind == INFER__JV_STRING) return infer__jv_claim(j, out, 1);
    if ((out.kind != INFER__JV_LIST && out.kind != INFER__JV_TUPLE) || out.u.l == c->self.u.l) return out;
    for (i = 0; i < out.u.l->n; i++)
        out.u.l->items[i] = infer__jv_claim(j, out.u.l->items[i], 1);
    return out;
}

static infer__jv infer__jj_run_function(infer__jj *j, const infer__jfunction *fn, infer__jv self,
                                        const infer__jargs *args, infer__jscope *scope) {
    infer__jv bound[INFER__JINJA_PARAMS], out = infer__jv_none();
    infer__jcall c;
    size_t i;
    const char *p;
    int n_params = *fn->params != 0;
    if (!infer__jj_work(j, 1)) return out;
    memset(bound, 0, sizeof bound);
    for (i = 0; i < INFER__JINJA_PARAMS; i++) bound[i].flag = 1; /* UNDEFINED, not given */
    for (p = fn->params; *p; p++) n_params += *p == ' ';
    if (fn->params[0] != '*') {
        if (args->n > (size_t)n_params)
            return infer__jj_fail(j, INFER_ERR_FORMAT, "%s takes at most %d arguments", fn->name, n_params);
        for (i = 0; i < args->n; i++) {
            bound[i] = args->v[i];
            bound[i].flag = 0;
        }
        for (i = 0; args->named && i < args->named->n; i++) {
            infer__jv key = args->named->items[2 * i];
            int at = key.kind == INFER__JV_STRING ? infer__jfunction_param(fn->params, key.u.s->s, key.u.s->n) : -1;
            if (at < 0 || infer__jv_given(bound[at]))
                return infer__jj_fail(j, INFER_ERR_FORMAT, "%s got an unexpected or second argument '%.*s'", fn->name,
                                      key.kind == INFER__JV_STRING ? (int)INFER__MIN(key.u.s->n, 100) : 0,
                                      key.kind == INFER__JV_STRING ? key.u.s->s : "");
            bound[at] = args->named->items[2 * i + 1];
            bound[at].flag = 0;
        }
        for (i = 0; i < (size_t)fn->required; i++)
            if (!infer__jv_given(bound[i]))
                return infer__jj_fail(j, INFER_ERR_FORMAT, "%s needs %d arguments", fn->name, fn->required);
    }
    c.self = self;
    c.a = bound;
    c.args = args;
    c.scope = scope;
    if (infer__jj_enter(j)) out = fn->run(j, &c);
    infer__jj_leave(j);
    return infer__jj_result(j, fn, &c, out);
}

static infer__jv infer__jj_call(infer__jj *j, infer__jscope *scope, infer__jv callee, infer__jargs *args) {
    if (j->r != INFER_OK) return infer__jv_none();
    switch (callee.kind) {
    case INFER__JV_METHOD:
        return infer__jj_run_function(j, callee.u.bound->fn, callee.u.bound->self, args, scope);
    case INFER__JV_FUNCTION: return infer__jj_run_function(j, callee.u.fn, infer__jv_none(), args, scope);
    case INFER__JV_MACRO: return infer__jj_call_macro(j, callee.u.macro, args);
    case INFER__JV_LOOP:
        if (args->n == 1 && !args->named) return infer__jj_call_loop(j, callee.u.loop, args->v[0]);
        return infer__jj_fail(j, INFER_ERR_FORMAT, "loop() takes one argument");
    case INFER__JV_JOINER: /* the separator, but the first time nothing */
        if (callee.u.l->at++ == 0) return infer__jv_view(j, "", 0, 0);
        return callee.u.l->items[0];
    case INFER__JV_UNDEFINED: return infer__jj_is_undefined(j, callee);
    default: return infer__jj_fail(j, INFER_ERR_FORMAT, "'%s' object is not callable", infer__jv_type(callee));
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static infer__jv infer__jj_lookup(infer__jj *j, const infer__jscope *scope, const char *s, size_t n) {
    infer__jv *found, v = infer__jv_none();
    size_t i, seen = 0;
    for (; scope; scope = scope->parent) {
        for (i = 0; i < scope->n; i++)
            if (scope->locals[i].n == n && memcmp(scope->locals[i].s, s, n) == 0)
                return infer__jj_work(j, (seen + i) / 4 * (1 + n / 64)) ? scope->locals[i].v : v;
        seen += scope->n + 4;
    }
    if (!infer__jj_work(j, seen / 4 * (1 + n / 64))) return v;
    found = infer__jdict_name(j, j->trusted, s, n);
    if (!found) found = infer__jdict_name(j, j->context, s, n);
    if (found) return *found;
    v.u.fn = infer__jinja_global(s, n);
    if (!v.u.fn) return infer__jv_undefined(j, s, n);
    v.kind = INFER__JV_FUNCTION;
    return v;
}

static infer__jv infer__jj_compare(infer__jj *j, infer__jscope *scope, const infer__jnode *e) {
    infer__jv a = infer__jj_eval(j, scope, e->kids[0]);
    uint32_t i;
    int yes = 1, mark = infer__jv_mark(a);
    for (i = 1; i < e->n_kids && yes && j->r == INFER_OK; i++) {
        infer__jv b = infer__jj_eval(j, scope, e->kids[i]->kids[0]);
        int c = infer__jv_is_number(a) && infer__jv_is_number(b) ? infer__jv_compare_numbers(a, b) : 3;
        j->at = e->kids[i]->at;
        mark |= infer__jv_mark(b);
        if (j->r != INFER_OK) break;
        switch (e->kids[i]->op) {
        case INFER__JOP('=', '='): yes = infer__jv_equal(j, a, b); break;
        case INFER__JOP('!', '='): yes = !infer__jv_equal(j, a, b); break;
        case '<': yes = infer__jv_less(j, a, b); break;
        case '>': yes = infer__jv_less(j, b, a); break;
        case INFER__JOP('<', '='): yes = c < 3 ? c <= 0 : !infer__jv_less(j, b, a); break;
        case INFER__JOP('>', '='): yes = c < 3 ? c == 0 || c == 1 : !infer__jv_less(j, a, b); break;
        case INFER__JOP_IN: yes = infer__jv_has(j, b, a); break;
        default: yes = !infer__jv_has(j, b, a); break;
        }
        a = b;
    }
    return infer__jv_member(infer__jv_bool(yes), mark);
}

static infer__jv infer__jj_literal(infer__jj *j, infer__jscope *scope, const infer__jnode *e) {
    infer__jv v = e->kind == INFER__JN_DICT
                      ? infer__jv_dict(j)
                      : infer__jv_list(j, e->kind == INFER__JN_LIST ? INFER__JV_LIST : INFER__JV_TUPLE);
    uint32_t i;
    for (i = 0; i < e->n_kids && j->r == INFER_OK; i++) {
        infer__jv item = infer__jj_eval(j, scope, e->kids[i]);
        if (e->kind == INFER__JN_DICT) infer__jdict_set(j, v.u.d, item, infer__jj_eval(j, scope, e->kids[++i]));
        else infer__jlist_add(j, v.u.l, item);
    }
    return v;
}

static infer__jv infer__jj_sign(infer__jj *j, infer__jv v, int op) {
    if (v.kind == INFER__JV_UNDEFINED) return infer__jj_is_undefined(j, v);
    if (!infer__jv_is_number(v))
        return infer__jj_fail(j, INFER_ERR_FORMAT, "bad operand type for unary %s: '%s'",
                              op == INFER__JN_NEG ? "-" : "+", infer__jv_type(v));
    if (v.kind == INFER__JV_BOOL) v.kind = INFER__JV_INT;
    if (op == INFER__JN_POS) return v;
    if (v.kind == INFER__JV_FLOAT) v.u.f = -v.u.f;
    else if (v.u.i == INT64_MIN) return infer__jj_overflow(j);
    else v.u.i = -v.u.i;
    return v;
}

static infer__jv infer__jj_apply(infer__jj *j, infer__jscope *scope, const infer__jnode *e, infer__jv value) {
    const infer__jfunction *fn =
        e->kind == INFER__JN_FILTER ? infer__jinja_filter(e->s, e->n) : infer__jinja_test(e->s, e->n);
    infer__jargs args;
    if (!infer__jj_work(j, 2)) return value;
    if (!fn)
        return infer__jj_fail(j, INFER_ERR_FORMAT, "no %s named '%.*s'",
                              e->kind == INFER__JN_FILTER ? "filter" : "test", (int)INFER__MIN(e->n, 100), e->s);
    args = infer__jj_arguments(j, scope, e, 1);
    return j->r == INFER_OK ? infer__jj_run_function(j, fn, value, &args, scope) : value;
}

static infer__jv infer__jj_concat_all(infer__jj *j, infer__jscope *scope, const infer__jnode *e) {
    infer__jv v = infer__jv_str(j, infer__jj_eval(j, scope, e->kids[0]));
    uint32_t i;
    for (i = 1; i < e->n_kids && j->r == INFER_OK; i++) {
        infer__jv part = infer__jv_str(j, infer__jj_eval(j, scope, e->kids[i]));
        if (j->r == INFER_OK) v = infer__jv_concat(j, v, part);
    }
    return v;
}

static infer__jv infer__jj_eval_node(infer__jj *j, infer__jscope *scope, const infer__jnode *e) {
    infer__jv a, b;
    infer__jargs args;
    switch (e->kind) {
    case INFER__JN_STRING: return infer__jv_view(j, e->s, e->n, 0);
    case INFER__JN_INT: return infer__jv_int(e->v.i);
    case INFER__JN_FLOAT: return infer__jv_float(e->v.f);
    case INFER__JN_TRUE: return infer__jv_bool(1);
    case INFER__JN_FALSE: return infer__jv_bool(0);
    case INFER__JN_NONE: return infer__jv_none();
    case INFER__JN_NAME: return infer__jj_lookup(j, scope, e->s, e->n);
    case INFER__JN_LIST: case INFER__JN_TUPLE: case INFER__JN_DICT: return infer__jj_literal(j, scope, e);
    case INFER__JN_CONCAT: return infer__jj_concat_all(j, scope, e);
    case INFER__JN_COMPARE: return infer__jj_compare(j, scope, e);
    default: break;
    }
    a = e->kids[0] ? infer__jj_eval(j, scope, e->kids[0]) : infer__jv_none();
    if (j->r != INFER_OK) return infer__jv_none();
    j->at = e->at;
    switch (e->kind) {
    case INFER__JN_ATTR: return infer__jj_attr(j, a, e->s, e->n);
    case INFER__JN_ITEM:
        if (e->kids[1]->kind == INFER__JN_SLICE) return infer__jj_slice(j, scope, a, e->kids[1]);
        b = infer__jj_eval(j, scope, e->kids[1]);
        j->at = e->at;
        return j->r == INFER_OK ? infer__jj_item(j, a, b) : b;
    case INFER__JN_CALL:
        args = infer__jj_arguments(j, scope, e, 1);
        return infer__jj_call(j, scope, a, &args);
    case INFER__JN_FILTER: case INFER__JN_TEST: return infer__jj_apply(j, scope, e, a);
    case INFER__JN_NOT: return infer__jv_member(infer__jv_bool(!infer__jv_true(a)), infer__jv_mark(a));
    case INFER__JN_NEG: case INFER__JN_POS: return infer__jj_sign(j, a, e->kind);
    case INFER__JN_AND: return infer__jv_true(a) ? infer__jj_eval(j, scope, e->kids[1]) : a;
    case INFER__JN_OR: return infer__jv_true(a) ? a : infer__jj_eval(j, scope, e->kids[1]);
    case INFER__JN_BINARY:
        b = infer__jj_eval(j, scope, e->kids[1]);
        j->at = e->at;
        return infer__jj_binary(j, e->op, a, b);
    case INFER__JN_COND:
        if (infer__jv_true(a)) return infer__jj_eval(j, scope, e->kids[1]);
        return e->n_kids > 2 ? infer__jj_eval(j, scope, e->kids[2]) : infer__jv_undefined(j, "an if without else", 18);
    case INFER__JN_SLICE: return infer__jj_fail(j, INFER_ERR_UNSUPPORTED, "a slice among several indices");
    default: return infer__jj_fail(j, INFER_ERR_UNSUPPORTED, "an expression of unknown kind");
    }
}

static infer__jv infer__jj_eval(infer__jj *j, infer__jscope *scope, const infer__jnode *e) {
    infer__jv v = infer__jv_none();
    if (!infer__jj_work(j, 1)) return v;
    j->at = e->at;
    if (infer__jj_enter(j)) v = infer__jj_eval_node(j, scope, e);
    infer__jj_leave(j);
    return j->r == INFER_OK ? v : infer__jv_none();
}
