/* jinja_tests.c: tests (x is odd), and the functions that every template has.
 *
 * Owns:  INFER__JTESTS, INFER__JGLOBALS: one row each.
 */
#include "jinja.h"

/* A test that is an expression of v and, where there is one, of its argument a. */
#define INFER__JTEST(name, expression)                                          \
    static infer__jv infer__jtest_##name(infer__jj *j, const infer__jcall *c) { \
        infer__jv v = c->self, a = c->a[0];                                     \
        (void)j;                                                                \
        (void)v;                                                                \
        (void)a;                                                                \
        return infer__jv_bool(expression);                                      \
    }
INFER__JTEST(boolean, v.kind == INFER__JV_BOOL)
INFER__JTEST(callable, v.kind == INFER__JV_MACRO || v.kind == INFER__JV_METHOD || v.kind == INFER__JV_FUNCTION ||
                           v.kind == INFER__JV_LOOP || v.kind == INFER__JV_JOINER || v.kind == INFER__JV_UNDEFINED)
INFER__JTEST(defined, v.kind != INFER__JV_UNDEFINED)
INFER__JTEST(undefined, v.kind == INFER__JV_UNDEFINED)
INFER__JTEST(none, v.kind == INFER__JV_NONE)
INFER__JTEST(true, v.kind == INFER__JV_BOOL && v.u.i)
INFER__JTEST(false, v.kind == INFER__JV_BOOL && !v.u.i)
INFER__JTEST(integer, v.kind == INFER__JV_INT || v.kind == INFER__JV_BIG)
INFER__JTEST(float, v.kind == INFER__JV_FLOAT)
INFER__JTEST(number, infer__jv_is_number(v) || v.kind == INFER__JV_BIG)
INFER__JTEST(string, v.kind == INFER__JV_STRING)
INFER__JTEST(mapping, v.kind == INFER__JV_DICT)
INFER__JTEST(sequence, v.kind == INFER__JV_STRING || infer__jv_is_sequence(v) || v.kind == INFER__JV_DICT ||
                           v.kind == INFER__JV_UNDEFINED)
INFER__JTEST(iterable, v.kind == INFER__JV_STRING || infer__jv_is_sequence(v) || v.kind == INFER__JV_DICT ||
                           v.kind == INFER__JV_UNDEFINED || v.kind == INFER__JV_ITER || v.kind == INFER__JV_VIEW ||
                           v.kind == INFER__JV_LOOP)
INFER__JTEST(escaped, v.kind == INFER__JV_STRING && v.u.s->safe)
INFER__JTEST(eq, infer__jv_equal(j, v, a))
INFER__JTEST(ne, !infer__jv_equal(j, v, a))
INFER__JTEST(lt, infer__jv_less(j, v, a))
INFER__JTEST(gt, infer__jv_less(j, a, v))
INFER__JTEST(le, !infer__jv_less(j, a, v))
INFER__JTEST(ge, !infer__jv_less(j, v, a))
INFER__JTEST(in, infer__jv_has(j, a, v))
INFER__JTEST(filter, v.kind == INFER__JV_STRING && infer__jinja_filter(v.u.s->s, v.u.s->n) != NULL)
INFER__JTEST(test, v.kind == INFER__JV_STRING && infer__jinja_test(v.u.s->s, v.u.s->n) != NULL)
/* The same object: for numbers and strings, which have no identity here, the same kind and value. */
INFER__JTEST(sameas, v.kind == a.kind && (v.kind <= INFER__JV_STRING ? infer__jv_equal(j, v, a) : v.u.l == a.u.l))

/* v % n == rest */
static infer__jv infer__jtest_rest(infer__jj *j, infer__jv v, infer__jv n, int64_t rest) {
    infer__jv r = infer__jj_binary(j, '%', v, n);
    return infer__jv_bool(j->r == INFER_OK && infer__jv_equal(j, r, infer__jv_int(rest)));
}
static infer__jv infer__jtest_odd(infer__jj *j, const infer__jcall *c) {
    return infer__jtest_rest(j, c->self, infer__jv_int(2), 1);
}
static infer__jv infer__jtest_even(infer__jj *j, const infer__jcall *c) {
    return infer__jtest_rest(j, c->self, infer__jv_int(2), 0);
}
static infer__jv infer__jtest_divisibleby(infer__jj *j, const infer__jcall *c) {
    return infer__jtest_rest(j, c->self, c->a[0], 0);
}
static infer__jv infer__jtest_lower(infer__jj *j, const infer__jcall *c) {
    infer__jcall s = *c;
    s.self = infer__jv_str(j, c->self);
    return j->r == INFER_OK ? infer__jstr_islower(j, &s) : s.self;
}
static infer__jv infer__jtest_upper(infer__jj *j, const infer__jcall *c) {
    infer__jcall s = *c;
    s.self = infer__jv_str(j, c->self);
    return j->r == INFER_OK ? infer__jstr_isupper(j, &s) : s.self;
}

static const infer__jfunction INFER__JTESTS[] = {
    {"!=", infer__jtest_ne, "other", 1},            {"<", infer__jtest_lt, "other", 1},
    {"<=", infer__jtest_le, "other", 1},            {"==", infer__jtest_eq, "other", 1},
    {">", infer__jtest_gt, "other", 1},             {">=", infer__jtest_ge, "other", 1},
    {"boolean", infer__jtest_boolean, "", 0},       {"callable", infer__jtest_callable, "", 0},
    {"defined", infer__jtest_defined, "", 0},       {"divisibleby", infer__jtest_divisibleby, "num", 1},
    {"eq", infer__jtest_eq, "other", 1},            {"equalto", infer__jtest_eq, "other", 1},
    {"escaped", infer__jtest_escaped, "", 0},       {"even", infer__jtest_even, "", 0},
    {"false", infer__jtest_false, "", 0},           {"filter", infer__jtest_filter, "", 0},
    {"float", infer__jtest_float, "", 0},           {"ge", infer__jtest_ge, "other", 1},
    {"greaterthan", infer__jtest_gt, "other", 1},   {"gt", infer__jtest_gt, "other", 1},
    {"in", infer__jtest_in, "seq", 1},              {"integer", infer__jtest_integer, "", 0},
    {"iterable", infer__jtest_iterable, "", 0},     {"le", infer__jtest_le, "other", 1},
    {"lessthan", infer__jtest_lt, "other", 1},      {"lower", infer__jtest_lower, "", 0},
    {"lt", infer__jtest_lt, "other", 1},            {"mapping", infer__jtest_mapping, "", 0},
    {"ne", infer__jtest_ne, "other", 1},            {"none", infer__jtest_none, "", 0},
    {"number", infer__jtest_number, "", 0},         {"odd", infer__jtest_odd, "", 0},
    {"sameas", infer__jtest_sameas, "other", 1},    {"sequence", infer__jtest_sequence, "", 0},
    {"string", infer__jtest_string, "", 0},         {"test", infer__jtest_test, "", 0},
    {"true", infer__jtest_true, "", 0},             {"undefined", infer__jtest_undefined, "", 0},
    {"upper", infer__jtest_upper, "", 0},
};
static const infer__jfunction *infer__jinja_test(const char *s, size_t n) {
    return infer__jfunction_find(INFER__JTESTS, INFER__COUNT(INFER__JTESTS), s, n);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

/* range(stop) or range(start, stop, step=1); at most 100,000 numbers, as Jinja's sandbox has it. */
static infer__jv infer__jglobal_range(infer__jj *j, const infer__jcall *c) {
    int64_t start = 0, stop = infer__jarg_int(j, c->a[0], 0), step = infer__jarg_int(j, c->a[2], 1), i;
    infer__jv v = infer__jv_list(j, INFER__JV_RANGE);
    uint64_t n;
    if (infer__jv_given(c->a[1])) {
        start = stop;
        stop = infer__jarg_int(j, c->a[1], 0);
    }
    if (step == 0) infer__jj_fail(j, INFER_ERR_FORMAT, "range() arg 3 must not be zero");
    if (j->r != INFER_OK) return v;
    n = step > 0 ? (stop > start ? ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1 : 0)
                 : (stop < start ? ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1 : 0);
    if (n > 100000) return infer__jj_fail(j, INFER_ERR_FORMAT, "range too big: more than 100000 numbers");
    for (i = 0; i < (int64_t)n && infer__jj_work(j, 1); i++)
        infer__jlist_add(j, v.u.l, infer__jv_int((int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)step)));
    if (j->r != INFER_OK) return v;
    for (i = 0; i < (int64_t)n; i++)
        v.u.l->items[i].mark = (uint8_t)(infer__jv_mark(c->a[0]) | infer__jv_mark(c->a[1]) | infer__jv_mark(c->a[2]));
    v.u.l->start = start;
    v.u.l->stop = stop;
    v.u.l->step = step;
    return v;
}
static infer__jv infer__jglobal_dict(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_dict(j);
    if (j->r == INFER_OK) infer__jdict_merge(j, v.u.d, infer__jargs_one(j, c), c->args->named);
    return v;
}
static infer__jv infer__jglobal_namespace(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jglobal_dict(j, c);
    if (j->r == INFER_OK) v.kind = INFER__JV_SPACE;
    return v;
}
static infer__jv infer__jglobal_raise(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_str(j, c->a[0]);
    if (j->r == INFER_OK)
        j->r = infer__error(j->err, INFER_ERR_STATE, "%.*s", (int)INFER__MIN(v.u.s->n, 4000), v.u.s->s);
    return v;
}
static infer__jv infer__jglobal_cycler(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_list(j, INFER__JV_CYCLER);
    size_t i;
    if (c->args->n == 0) return infer__jj_fail(j, INFER_ERR_FORMAT, "at least one item has to be provided");
    for (i = 0; i < c->args->n; i++) infer__jlist_add(j, v.u.l, c->args->v[i]);
    return v;
}
static infer__jv infer__jglobal_joiner(infer__jj *j, const infer__jcall *c) {
    infer__jv v = infer__jv_list(j, INFER__JV_JOINER);
    infer__jlist_add(j, v.u.l, infer__jv_given(c->a[0]) ? c->a[0] : infer__jv_view(j, ", ", 2, 0));
    return v;
}

/* ---- the clock --------------------------------------------------------------------------------------------------- */

/* Year, month, day, hour, minute, second from "YYYY-MM-DD HH:MM:SS". 0 = malformed. */
static int infer__jinja_time(const char *s, int t[6]) {
    static const char BETWEEN[] = "-- ::";
    static const int LOW[] = {1, 1, 1, 0, 0, 0}, HIGH[] = {9999, 12, 31, 23, 59, 59};
    int i, k;
    for (i = 0; i < 6; i++) {
        for (t[i] = k = 0; k < (i == 0 ? 4 : 2); k++, s++) {
            if (*s < '0' || *s > '9') return 0;
            t[i] = t[i] * 10 + (*s - '0');
        }
        if (t[i] < LOW[i] || t[i] > HIGH[i] || (i < 5 && *s++ != BETWEEN[i])) return 0;
    }
    return *s == 0;
}
static int infer__jinja_days(int year, int month) { /* before this month, in its year */
    static const int DAYS[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    return DAYS[month - 1] + (month > 2 && (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)));
}

/* One conversion of strftime in the C locale; mark: of its letter. 0 = it is unknown. */
static int infer__jbuf_time(infer__jbuf *b, const int t[6], char c, int plain, int mark) {
    static const char *const DAYS[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    static const char *const MONTHS[] = {"January", "February", "March", "April", "May", "June", "July", "August",
                                         "September", "October", "November", "December"};
    static const struct { char c; const char *as; } LONG[] = {
        {'F', "%Y-%m-%d"}, {'T', "%H:%M:%S"}, {'X', "%H:%M:%S"}, {'D', "%m/%d/%y"}, {'x', "%m/%d/%y"}, {'R', "%H:%M"},
        {'r', "%I:%M:%S %p"}, {'c', "%a %b %e %H:%M:%S %Y"}};
    int day = infer__jinja_days(t[0], t[1]) + t[2], y = t[0] - 1, week, x = -1, wide = 2;
    char text[32], fill = '0';
    size_t i;
    week = (y * 365 + y / 4 - y / 100 + y / 400 + day) % 7; /* 0001-01-01 was a Monday */
    for (i = 0; i < INFER__COUNT(LONG); i++) {
        const char *p = LONG[i].as;
        if (LONG[i].c != c) continue;
        for (; *p; p++) {
            if (*p == '%') infer__jbuf_time(b, t, *++p, 0, mark);
            else infer__jbuf_put(b, p, 1, mark);
        }
        return 1;
    }
    switch (c) {
    case 'A': infer__jbuf_text(b, DAYS[week], mark); return 1;
    case 'a': infer__jbuf_put(b, DAYS[week], 3, mark); return 1;
    case 'B': infer__jbuf_text(b, MONTHS[t[1] - 1], mark); return 1;
    case 'b': case 'h': infer__jbuf_put(b, MONTHS[t[1] - 1], 3, mark); return 1;
    case 'p': infer__jbuf_text(b, t[3] < 12 ? "AM" : "PM", mark); return 1;
    case 'Z': case 'z': return 1; /* a time without a zone */
    case '%': infer__jbuf_text(b, "%", mark); return 1;
    case 'n': infer__jbuf_text(b, "\n", mark); return 1;
    case 't': infer__jbuf_text(b, "\t", mark); return 1;
    case 'Y': x = t[0]; wide = 1; break; /* glibc fills up no year */
    case 'y': x = t[0] % 100; break;
    case 'C': x = t[0] / 100; break;
    case 'm': x = t[1]; break;
    case 'd': x = t[2]; break;
    case 'e': x = t[2]; fill = ' '; break;
    case 'H': x = t[3]; break;
    case 'I': x = t[3] % 12 ? t[3] % 12 : 12; break;
    case 'M': x = t[4]; break;
    case 'S': x = t[5]; break;
    case 'f': x = 0; wide = 6; break;
    case 'j': x = day; wide = 3; break;
    case 'w': x = week; wide = 1; break;
    case 'u': x = week ? week : 7; wide = 1; break;
    default: return 0;
    }
    infer__format(text, sizeof text, fill == ' ' ? "%*d" : "%0*d", plain ? 1 : wide, x);
    infer__jbuf_text(b, text, mark);
    return 1;
}
static infer__jv infer__jglobal_strftime(infer__jj *j, const infer__jcall *c) {
    const infer__jstr *s = infer__jarg_str(j, c->a[0]);
    infer__jbuf b = infer__jbuf_new(j);
    int t[6];
    size_t i;
    if (!s) return infer__jv_none();
    if (j->now ? !infer__jinja_time(j->now, t) : !infer__local_time(t))
        return infer__jj_fail(j, INFER_ERR_ARGUMENT,
                              j->now ? "now must be YYYY-MM-DD HH:MM:SS" : "the clock cannot be read");
    for (i = 0; i < s->n && infer__jj_work(j, 1); i++) {
        int plain = 0;
        if (s->s[i] != '%' || i + 1 >= s->n) {
            infer__jbuf_part(&b, s, i, i + 1);
            continue;
        }
        i++;
        if (s->s[i] == '-' && i + 1 < s->n) plain = 1, i++;
        if (!infer__jj_work(j, 40)) return infer__jv_none(); /* %c has six conversions in it */
        if (!infer__jbuf_time(&b, t, s->s[i], plain, s->marks ? s->marks[i] : s->mark))
            return infer__jj_fail(j, INFER_ERR_UNSUPPORTED, "strftime_now: the conversion %%%c", s->s[i]);
    }
    return infer__jbuf_done(&b);
}

static const infer__jfunction INFER__JGLOBALS[] = {
    {"cycler", infer__jglobal_cycler, "*", 0},       {"dict", infer__jglobal_dict, "*", 0},
    {"joiner", infer__jglobal_joiner, "sep", 0},     {"lipsum", infer__jfilter_refused, "*", 0},
    {"namespace", infer__jglobal_namespace, "*", 0}, {"raise_exception", infer__jglobal_raise, "message", 1},
    {"range", infer__jglobal_range, "start stop step", 1}, {"strftime_now", infer__jglobal_strftime, "format", 1},
};
static const infer__jfunction *infer__jinja_global(const char *s, size_t n) {
    return infer__jfunction_find(INFER__JGLOBALS, INFER__COUNT(INFER__JGLOBALS), s, n);
}
