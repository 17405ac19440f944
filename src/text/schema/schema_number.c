/* schema_number.c: numbers: exact decimals, and grammars for ranges and multiples of them.
 *
 * Rules: bounds are compared digit by digit as they are written, so that 64-bit integers and 0.1 are exact. A number
 *        between bounds is written without an exponent, without "-0", with at most 20 digits before the point (more
 *        when a bound has more) and at most 20 after the digits of its bounds.
 * Start: infer__schema_numbers.
 */
#include "schema.h"

enum { INFER__NUMBER_DIGITS = 20, INFER__NUMBER_BOUND = 320 /* digits of a bound */, INFER__MULTIPLE = 500,
       INFER__DOUBLE_DIGITS = 15 /* DBL_DIG */ };

/* ---- exact decimals ------------------------------------------------------------------------------------------- */

static infer__exact infer__exact_of(infer__schema *c, const infer_json *v) {
    infer__exact d;
    const char *s = v->s;
    size_t n = (size_t)v->n, i, k = 0, lead = 0;
    int64_t exponent = 0, point = 0;
    int seen = 0, down = 0;
    char *digits;
    memset(&d, 0, sizeof d);
    d.digits = "";
    digits = (char *)infer__schema_get_mem(c, (uint64_t)n + 1, 1);
    if (!digits || !infer__schema_step(c, n)) return d;
    for (i = (s[0] == '-'); i < n && s[i] != 'e' && s[i] != 'E'; i++) {
        if (s[i] == '.') seen = 1;
        else {
            digits[k++] = s[i];
            point += !seen;
        }
    }
    for (i++; i < n; i++) {
        if (s[i] == '-') down = 1;
        else if (s[i] != '+' && exponent < 1000000000) exponent = exponent * 10 + (s[i] - '0');
    }
    while (lead < k && digits[lead] == '0') lead++;
    while (k > lead && digits[k - 1] == '0') k--;
    if (k == lead) return d;
    d.digits = digits + lead;
    d.n = k - lead;
    d.point = point - (int64_t)lead + (down ? -exponent : exponent);
    d.negative = s[0] == '-';
    return d;
}

static int infer__exact_compare(const infer__exact *a, const infer__exact *b) { /* -1, 0, 1 */
    int sign = a->negative ? -1 : 1, c;
    if (a->n == 0 || b->n == 0) return a->n ? sign : b->n ? (b->negative ? 1 : -1) : 0;
    if (a->negative != b->negative) return sign;
    if (a->point != b->point) return a->point > b->point ? sign : -sign;
    c = memcmp(a->digits, b->digits, INFER__MIN(a->n, b->n));
    if (c != 0) return c > 0 ? sign : -sign;
    return a->n == b->n ? 0 : a->n > b->n ? sign : -sign;
}
static int infer__exact_whole(const infer__exact *a) { return a->n == 0 || (int64_t)a->n <= a->point; }

/* Digit i (0 = the first before the point of a number with `whole` digits there). */
static int infer__exact_digit(const infer__exact *d, int64_t whole, int64_t i) {
    int64_t at = i - whole + d->point;
    return at >= 0 && at < (int64_t)d->n ? d->digits[at] - '0' : 0;
}
/* All digits from i on are zero. */
static int infer__exact_ends(const infer__exact *d, int64_t whole, int64_t i) {
    return d->n == 0 || i - whole + d->point >= (int64_t)d->n;
}

static int infer__exact_multiple(infer__schema *c, const infer_json *where, const infer__exact *a,
                                   const infer__exact *m) {
    int64_t i;
    uint64_t divisor = 0, rest = 0;
    if (a->n == 0) return 1;
    if (!infer__exact_whole(m) || m->n == 0 || m->point > 18 || a->point > 100000) {
        infer__schema_no(c, where, "multipleOf something that is not a whole number below 10^18");
        return 0;
    }
    if (!infer__exact_whole(a) || !infer__schema_step(c, (uint64_t)a->point)) return 0;
    for (i = 0; i < m->point; i++) divisor = divisor * 10 + (uint64_t)infer__exact_digit(m, m->point, i);
    for (i = 0; i < a->point; i++) { /* rest * 10 fits: the divisor is below 10^18 */
        rest = (rest * 10 + (uint64_t)infer__exact_digit(a, a->point, i)) % divisor;
    }
    return rest == 0;
}

/* ---- the range of a place --------------------------------------------------------------------------------------- */

typedef struct infer__bounds {
    infer__exact lo, hi;
    int has_lo, has_hi, open_lo, open_hi; /* open: the bound itself is excluded */
    const infer_json *where, *multiple;
} infer__bounds;

static const infer_json *infer__bound_value(infer__schema *c, const infer_json *node, const char *name) {
    const infer_json *v = infer__schema_key(node, name);
    if (!v || v->kind == INFER_JSON_INT || v->kind == INFER_JSON_FLOAT) return v;
    if (name[0] == 'e' && (v->kind == INFER_JSON_TRUE || v->kind == INFER_JSON_FALSE)) return NULL; /* draft 4 */
    infer__schema_fail(c, v, INFER_ERR_FORMAT, "a number is expected");
    return NULL;
}

static void infer__bounds_add(infer__schema *c, infer__bounds *b, const infer_json *v, int upper, int open) {
    infer__exact d;
    int order;
    if (!v) return;
    d = infer__exact_of(c, v);
    if (d.n > INFER__NUMBER_BOUND || d.point > INFER__NUMBER_BOUND || d.point < -INFER__NUMBER_BOUND) {
        infer__schema_no(c, v, "a bound of more than 320 digits");
        return;
    }
    if (upper) {
        order = b->has_hi ? infer__exact_compare(&d, &b->hi) : -1;
        if (order < 0) b->hi = d, b->open_hi = open;
        else if (order == 0) b->open_hi |= open;
        b->has_hi = 1;
    } else {
        order = b->has_lo ? infer__exact_compare(&d, &b->lo) : 1;
        if (order > 0) b->lo = d, b->open_lo = open;
        else if (order == 0) b->open_lo |= open;
        b->has_lo = 1;
    }
    b->where = v;
}

static void infer__bounds_of(infer__schema *c, const infer__alt *a, infer__bounds *b) {
    uint32_t i;
    memset(b, 0, sizeof *b);
    for (i = 0; i < a->n; i++) {
        const infer_json *node = a->nodes[i], *x = infer__schema_key(node, "exclusiveMinimum"),
                         *y = infer__schema_key(node, "exclusiveMaximum"), *m = infer__schema_key(node, "multipleOf");
        infer__bounds_add(c, b, infer__bound_value(c, node, "minimum"), 0, x && x->kind == INFER_JSON_TRUE);
        infer__bounds_add(c, b, infer__bound_value(c, node, "maximum"), 1, y && y->kind == INFER_JSON_TRUE);
        infer__bounds_add(c, b, infer__bound_value(c, node, "exclusiveMinimum"), 0, 1);
        infer__bounds_add(c, b, infer__bound_value(c, node, "exclusiveMaximum"), 1, 1);
        if (!m) continue;
        if (m->kind != INFER_JSON_INT && m->kind != INFER_JSON_FLOAT)
            infer__schema_fail(c, m, INFER_ERR_FORMAT, "a number is expected");
        else if (b->multiple && (m->n != b->multiple->n || memcmp(m->s, b->multiple->s, (size_t)m->n) != 0))
            infer__schema_no(c, m, "two different multipleOf at one place");
        b->multiple = m;
    }
}
static int infer__bounds_none(const infer__bounds *b) {
    int order = b->has_lo && b->has_hi ? infer__exact_compare(&b->lo, &b->hi) : -1;
    return order > 0 || (order == 0 && (b->open_lo || b->open_hi));
}

static int infer__schema_numbers_empty(infer__schema *c, const infer__alt *a) {
    infer__bounds b;
    infer__bounds_of(c, a, &b);
    return infer__bounds_none(&b);
}

static int infer__schema_within(infer__schema *c, const infer_json *node, const infer__exact *x) {
    infer__bounds b;
    infer__alt a;
    int order;
    memset(&a, 0, sizeof a);
    a.nodes = &node;
    a.n = 1;
    infer__bounds_of(c, &a, &b);
    order = b.has_lo ? infer__exact_compare(x, &b.lo) : 1;
    if (order < 0 || (order == 0 && b.open_lo)) return 0;
    order = b.has_hi ? infer__exact_compare(x, &b.hi) : -1;
    return order < 0 || (order == 0 && !b.open_hi);
}

/* ---- digits between bounds --------------------------------------------------------------------------------------- */

typedef struct infer__digits_in {
    infer__schema *c;
    const infer__exact *lo, *hi; /* magnitudes */
    int64_t whole;                        /* digits before the point */
    int64_t most;                         /* digits after it */
    int open_lo, open_hi;
    uint32_t *rules; /* made, by place and which bounds are still touched: number + 1 */
} infer__digits_in;

static const infer__sx *infer__digit(infer__schema *c, int from, int to) {
    infer__range r;
    if (from > to) return &INFER__SX_NONE;
    r.lo = (uint32_t)('0' + from);
    r.hi = (uint32_t)('0' + to);
    return infer__sx_class(c, &r, 1);
}
static const infer__sx *infer__digits_any(infer__schema *c, int64_t min, int64_t max) {
    return max < min || max < 0 ? &INFER__SX_NONE
                                : infer__sx_rep(c, infer__digit(c, 0, 9), (uint32_t)INFER__MAX(min, 0), (uint32_t)max);
}

/* What may follow when i digits stand there; tl, th: they are those of lo, of hi. */
static const infer__sx *infer__digits_from(infer__digits_in *in, int64_t i, int tl, int th) {
    infer__schema *c = in->c;
    const infer__sx *items[4];
    uint32_t n = 0, *rule = NULL;
    int64_t left = in->whole + in->most - i;
    int lo_ends = tl && infer__exact_ends(in->lo, in->whole, i),
        hi_ends = th && infer__exact_ends(in->hi, in->whole, i);
    int stop, from, to;
    if (lo_ends && !in->open_lo) tl = 0; /* whatever follows is not below */
    if (!infer__schema_step(c, 1)) return &INFER__SX_NONE;
    stop = i >= in->whole && (!tl || (lo_ends && !in->open_lo)) && (!th || !hi_ends || !in->open_hi);
    if (!tl && !th) {
        if (i < in->whole) {
            items[0] = infer__digits_any(c, in->whole - i, in->whole - i);
            return infer__sx_pair(c, items[0], infer__digits_from(in, in->whole, 0, 0));
        }
        if (i > in->whole) return infer__digits_any(c, 0, left);
        items[0] = infer__sx_pair(c, infer__sx_word(c, "."), infer__digits_any(c, 1, in->most));
        return in->most > 0 ? infer__sx_rep(c, items[0], 0, 1) : &INFER__SX_NOTHING;
    }
    if (stop) items[n++] = &INFER__SX_NOTHING;
    if (stop && hi_ends && i == in->whole && in->most > 0)
        items[n++] = infer__sx_word(c, ".0");       /* as floats are printed */
    if (left > 0 && !(hi_ends && i >= in->whole)) { /* at hi only zeros could follow: nothing does */
        const infer__sx *digits[3];
        from = tl ? infer__exact_digit(in->lo, in->whole, i) : 0;
        to = th ? infer__exact_digit(in->hi, in->whole, i) : 9;
        rule = &in->rules[(i * 4 + tl * 2 + th)];
        if (*rule) return infer__sx_ref(c, *rule - 1);
        *rule = infer__sx_rule_new(c) + 1;
        if (tl && th && from == to) {
            digits[0] = infer__sx_pair(c, infer__digit(c, from, from), infer__digits_from(in, i + 1, 1, 1));
            digits[1] = digits[2] = &INFER__SX_NONE;
        } else {
            digits[0] = tl ? infer__sx_pair(c, infer__digit(c, from, from), infer__digits_from(in, i + 1, 1, 0))
                           : &INFER__SX_NONE;
            digits[1] = infer__sx_pair(c, infer__digit(c, from + tl, to - th), infer__digits_from(in, i + 1, 0, 0));
            digits[2] =
                th ? infer__sx_pair(c, infer__digit(c, to, to), infer__digits_from(in, i + 1, 0, 1)) : &INFER__SX_NONE;
        }
        items[n] = infer__sx_alt(c, digits, 3);
        if (i == in->whole) items[n] = infer__sx_pair(c, infer__sx_word(c, "."), items[n]);
        n++;
    }
    if (!rule) return infer__sx_alt(c, items, n);
    infer__sx_define(c, *rule - 1, infer__sx_alt(c, items, n));
    return infer__sx_ref(c, *rule - 1);
}

/* Magnitudes with from..to digits before the point; bounds are touched when there is one length only. */
static const infer__sx *infer__digits_length(infer__digits_in *in, int64_t from, int64_t to, int tl, int th) {
    infer__schema *c = in->c;
    const infer__sx *x;
    int last;
    in->whole = to;
    in->rules = (uint32_t *)infer__schema_get_mem(c, (uint64_t)(to + in->most + 2) * 4, sizeof *in->rules);
    if (!in->rules || from > to) return &INFER__SX_NONE;
    if (tl) return infer__digits_from(in, 0, 1, th); /* lo has no leading zero */
    if (th) {
        last = infer__exact_digit(in->hi, to, 0);
        x = infer__sx_pair(c, infer__digit(c, 1, last - 1), infer__digits_from(in, 1, 0, 0));
        return infer__sx_or(c, x, infer__sx_pair(c, infer__digit(c, last, last), infer__digits_from(in, 1, 0, 1)));
    }
    x = infer__sx_pair(c, infer__digit(c, 1, 9), infer__digits_any(c, from - 1, to - 1));
    return infer__sx_pair(c, x, infer__digits_from(in, to, 0, 0));
}

/* Magnitudes from lo to hi (NULL = no end). Readers round what they read to doubles: near an excluded bound numbers
 * have 15 digits at most, which no rounding makes equal to another number of 15 digits. */
static const infer__sx *infer__digits_range(infer__schema *c, const infer__exact *lo, int open_lo,
                                            const infer__exact *hi, int open_hi, int fraction) {
    const infer__sx *items[4];
    infer__digits_in in;
    int64_t low = INFER__MAX(lo->point, 1), high = hi ? INFER__MAX(hi->point, 1) : 0, behind, most;
    if (!hi) high = low >= INFER__NUMBER_DIGITS ? low + 1 : INFER__NUMBER_DIGITS;
    if (high < low) return &INFER__SX_NONE;
    behind = (int64_t)lo->n - lo->point;
    if (hi) behind = INFER__MAX(behind, (int64_t)hi->n - hi->point);
    most = fraction ? INFER__MAX(behind, 0) + INFER__NUMBER_DIGITS : 0;
    memset(&in, 0, sizeof in);
    in.c = c;
    in.lo = lo;
    in.hi = hi;
    in.open_lo = open_lo;
    in.open_hi = open_hi;
    items[0] = items[1] = items[2] = items[3] = &INFER__SX_NONE;
    in.most = fraction && (open_lo || (open_hi && low + 1 >= high)) ? INFER__MAX(INFER__DOUBLE_DIGITS - low, 0) : most;
    items[0] = infer__digits_length(&in, low, low, 1, hi && low == high);
    if (low == high) return items[0];
    in.most = most;
    if (!hi || !open_hi) {
        items[1] = infer__digits_length(&in, low + 1, hi ? high - 1 : high, 0, 0);
        if (hi) items[2] = infer__digits_length(&in, high, high, 0, 1);
    } else {
        items[1] = infer__digits_length(&in, low + 1, high - 2, 0, 0);
        in.most = fraction ? INFER__MAX(INFER__DOUBLE_DIGITS - high, 0) : 0;
        if (high - 1 > low) items[2] = infer__digits_length(&in, high - 1, high - 1, 0, 0);
        items[3] = infer__digits_length(&in, high, high, 0, 1);
    }
    return infer__sx_alt(c, items, 4);
}

static const infer__sx *infer__range_text(infer__schema *c, const infer__bounds *b, int fraction) {
    static const infer__exact zero = {"", 0, 0, 0};
    infer__exact lo = b->lo, hi = b->hi;
    const infer__sx *minus = &INFER__SX_NONE, *plus = &INFER__SX_NONE;
    if (infer__bounds_none(b)) return &INFER__SX_NONE;
    lo.negative = hi.negative = 0;
    if (!b->has_lo || b->lo.negative) { /* magnitudes from -hi (or 0, which is not written -0) to -lo */
        int below = b->has_hi && b->hi.negative;
        minus = infer__digits_range(c, below ? &hi : &zero, below ? b->open_hi : 1, b->has_lo ? &lo : NULL, b->open_lo,
                                    fraction);
        minus = infer__sx_pair(c, infer__sx_word(c, "-"), minus);
    }
    if (!b->has_hi || !b->hi.negative) {
        int above = b->has_lo && !b->lo.negative;
        plus = infer__digits_range(c, above ? &lo : &zero, above ? b->open_lo : 0, b->has_hi ? &hi : NULL, b->open_hi,
                                   fraction);
    }
    return infer__sx_or(c, minus, plus);
}

/* Whole numbers that m divides: a rule for each remainder. */
static const infer__sx *infer__multiple_text(infer__schema *c, uint32_t m) {
    const infer__sx *items[12];
    uint32_t first = c->n_rules, r, d, n;
    for (r = 0; r < m; r++) infer__sx_rule_new(c);
    for (r = 0; r < m && c->r == INFER_OK; r++) {
        for (n = 0, d = 0; d < 10; d++) {
            infer__range digit;
            digit.lo = digit.hi = '0' + d;
            items[n++] = infer__sx_pair(c, infer__sx_class(c, &digit, 1), infer__sx_ref(c, first + (r * 10 + d) % m));
        }
        if (r == 0) items[n++] = &INFER__SX_NOTHING;
        infer__sx_define(c, first + r, infer__sx_alt(c, items, n));
    }
    return infer__sx_pair(c, infer__sx_rep(c, infer__sx_word(c, "-"), 0, 1), infer__sx_ref(c, first));
}

static const infer__sx *infer__multiples(infer__schema *c, const infer__bounds *b, const infer__sx *range) {
    infer__exact m = infer__exact_of(c, b->multiple);
    infer__lang l[2];
    uint32_t v = 0;
    int64_t i;
    if (m.n == 0 || m.negative) {
        infer__schema_fail(c, b->multiple, INFER_ERR_FORMAT, "multipleOf is above zero");
        return range;
    }
    if (!infer__exact_whole(&m) || m.point > 6) {
        infer__schema_no(c, b->multiple, "multipleOf other than a whole number of at most 500");
        return range;
    }
    for (i = 0; i < m.point; i++) v = v * 10 + (uint32_t)infer__exact_digit(&m, m.point, i);
    if (v == 1) return range;
    if (v > INFER__MULTIPLE) infer__schema_no(c, b->multiple, "multipleOf other than a whole number of at most 500");
    if (c->r != INFER_OK) return range;
    l[0].x = range;
    l[1].x = infer__multiple_text(c, v);
    l[0].want = l[1].want = l[0].whole = l[1].whole = 1;
    return infer__dfa_text(c, b->multiple, l, 2, 1);
}

/* Numbers that are not whole: a last digit other than 0 after the point, and 15 digits at most: a double has them. */
static const infer__sx *infer__number_broken(infer__schema *c) {
    static const uint8_t DIGITS[][2] = {{10, 5}, {5, 10}};
    const infer__sx *items[2], *x;
    uint32_t i;
    for (i = 0; i < 2; i++) {
        x = infer__sx_pair(c, infer__digit(c, 1, 9), infer__digits_any(c, 0, DIGITS[i][0] - 1));
        x = infer__sx_or(c, infer__sx_word(c, "0"), x);
        x = infer__sx_pair(c, infer__sx_rep(c, infer__sx_word(c, "-"), 0, 1), x);
        x = infer__sx_pair(c, infer__sx_pair(c, x, infer__sx_word(c, ".")), infer__digits_any(c, 0, DIGITS[i][1] - 1));
        items[i] = infer__sx_pair(c, x, infer__digit(c, 1, 9));
    }
    return infer__sx_alt(c, items, 2);
}

static const infer__sx *infer__schema_numbers(infer__schema *c, const infer__alt *a) {
    infer__bounds b;
    int whole = !(a->types & INFER__T_FRAC);
    infer__bounds_of(c, a, &b);
    if (c->r != INFER_OK) return &INFER__SX_NONE;
    if (b.multiple) { /* of an integer: these are integers too */
        if (!(a->types & INFER__T_INT)) {
            infer__schema_no(c, b.multiple, "multipleOf together with numbers that are not whole");
            return &INFER__SX_NONE;
        }
        return infer__multiples(c, &b, infer__range_text(c, &b, 0));
    }
    if (!(a->types & INFER__T_INT)) {
        if (b.has_lo || b.has_hi) infer__schema_no(c, b.where, "bounds of numbers that are not whole");
        return infer__number_broken(c);
    }
    if (!b.has_lo && !b.has_hi) return infer__sx_shared(c, whole ? INFER__SX_INTEGER : INFER__SX_NUMBER);
    if (!whole && ((b.has_lo && b.open_lo && b.lo.n > INFER__DOUBLE_DIGITS) ||
                   (b.has_hi && b.open_hi && b.hi.n > INFER__DOUBLE_DIGITS)))
        infer__schema_no(c, b.where, "an excluded bound of more than 15 digits");
    return infer__range_text(c, &b, !whole);
}
