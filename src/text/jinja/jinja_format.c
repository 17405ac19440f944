/* jinja_format.c: "%s" % x and "{}".format(x).
 *
 * Owns:  the two small languages of format strings, over one function that formats a number or a text with flags.
 * Rules: floats are rounded exactly (infer__double_fixed); widths and precisions are bounded.
 */
#include "jinja.h"

enum { INFER__JFORMAT_WIDTH = 100000, INFER__JFORMAT_PRECISION = 300 };
typedef struct infer__jspec {
    const infer__jstr *fill; /* NULL = a space */
    char align;              /* < > = ^, 0 = by type */
    char sign;               /* + or space, else 0 */
    char comma;              /* , or _ between thousands */
    char type;               /* 0 = by value */
    int alternate, zero;     /* #, 0 */
    int64_t width, precision; /* -1 = not given */
} infer__jspec;

/* Digits of x in a base, with a minus sign and room for a prefix and commas. */
static size_t infer__jformat_digits(uint64_t x, int base, int upper, char *out) {
    char text[68];
    size_t n = 0, i;
    do {
        text[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[x % (uint64_t)base];
        x /= (uint64_t)base;
    } while (x);
    for (i = 0; i < n; i++) out[i] = text[n - 1 - i];
    return n;
}

/* |x| as a float's text of this type (f F e E g G; r: like g, and never without a fraction) to out (800 bytes): its
 * length. */
static size_t infer__jformat_float(double x, char type, int precision, int alternate, char *out) {
    char lower = (char)(type | 32);
    size_t n, i;
    if (infer__double_special(x)) {
        memcpy(out, infer__double_special(x) == 2 ? "nan" : "inf", 3);
        n = 3;
    } else if (lower == 'f') {
        n = infer__double_fixed(x, precision, out);
    } else if (lower == 'e') {
        n = infer__double_scientific(x, precision, out);
    } else { /* g: by the exponent that e gives */
        int p = precision == 0 ? 1 : precision, e, plain;
        size_t end;
        n = infer__double_scientific(x, p - 1, out);
        for (i = n; out[i - 1] != 'e'; i--) {}
        for (e = 0, n = i + 1; out[n]; n++) e = e * 10 + (out[n] - '0');
        if (out[i] == '-') e = -e;
        plain = e >= -4 && e < p - (lower == 'r');
        end = plain ? infer__double_fixed(x, p - 1 - e, out) : i - 1; /* of the digits */
        n = plain ? end : n;
        if (!alternate && memchr(out, '.', end)) { /* without zeros at the end */
            size_t from = end;
            while (out[end - 1] == '0') end--;
            if (out[end - 1] == '.') end--;
            memmove(out + end, out + from, n - from);
            n -= from - end;
        }
        if (plain && lower == 'r' && !memchr(out, '.', n)) {
            memcpy(out + n, ".0", 2);
            n += 2;
        }
    }
    for (i = 0; i < n && type < 'a'; i++) if (out[i] >= 'a' && out[i] <= 'z') out[i] = (char)(out[i] - 32);
    return n;
}

/* sign + prefix + digits, filled to the width. digits may have a fraction or an exponent after the whole part. */
static void infer__jformat_put(infer__jbuf *b, const infer__jspec *f, const char *sign, const char *digits, size_t n,
                               int mark, const infer__jstr *text) {
    char grouped[1200];
    size_t whole = 0, at = 0, i, len;
    int64_t fill;
    char align = f->align ? f->align : text ? '<' : '>';
    static const infer__jstr space = {" ", NULL, 1, 0, 0, NULL}, zero = {"0", NULL, 1, 0, 0, NULL};
    const infer__jstr *with = f->fill ? f->fill : f->zero && !text ? &zero : &space;
    if (f->zero && !f->align && !text) align = '=';
    if (!text && f->comma) {
        while (whole < n && digits[whole] >= '0' && digits[whole] <= '9') whole++;
        for (i = 0; i < n && at < sizeof grouped - 2; i++) {
            if (i > 0 && i < whole && (whole - i) % 3 == 0) grouped[at++] = f->comma;
            grouped[at++] = digits[i];
        }
        digits = grouped;
        n = at;
    }
    if (!infer__jj_scan(b->j, text ? text->n : 0)) return;
    len = text ? infer__jinja_count(text->s, text->n) : strlen(sign) + n;
    fill = f->width > (int64_t)len ? f->width - (int64_t)len : 0;
    if (!infer__jj_work(b->j, (uint64_t)fill / 4)) return;
    for (i = 0; align != '<' && align != '=' && (int64_t)i < (align == '^' ? fill / 2 : fill); i++)
        infer__jbuf_str(b, with);
    if (text) infer__jbuf_str(b, text); else infer__jbuf_text(b, sign, mark);
    for (i = 0; align == '=' && (int64_t)i < fill; i++) infer__jbuf_str(b, with);
    if (!text) infer__jbuf_put(b, digits, n, mark);
    fill = align == '<' ? fill : align == '^' ? fill - fill / 2 : 0;
    for (i = 0; (int64_t)i < fill; i++) infer__jbuf_str(b, with);
}

/* One value of a type: d b o x X (integers), e f g % (floats), c, s. */
static void infer__jformat_value(infer__jbuf *b, const infer__jspec *f, infer__jv v) {
    infer__jj *j = b->j;
    char digits[1100], sign[4] = "", type = f->type;
    int negative, i = 0, base;
    size_t n;
    if (j->r != INFER_OK) return;
    if (f->width > INFER__JFORMAT_WIDTH || f->precision > INFER__JFORMAT_PRECISION) {
        infer__jj_fail(j, INFER_ERR_FORMAT, "a format with too large a width or precision");
        return;
    }
    if (v.kind == INFER__JV_STRING) {
        infer__jv text = v;
        if (type && type != 's') infer__jj_fail(j, INFER_ERR_FORMAT, "the format '%c' needs a number", type);
        if (f->precision >= 0 && infer__jj_scan(j, v.u.s->n))
            text = infer__jv_part(j, v.u.s, 0, infer__jinja_offset(v.u.s->s, v.u.s->n, (size_t)f->precision));
        if (j->r == INFER_OK) infer__jformat_put(b, f, "", "", 0, 0, text.u.s);
        return;
    }
    if (!infer__jv_is_number(v)) {
        infer__jj_want(j, "a number", v);
        return;
    }
    if (!type) type = v.kind == INFER__JV_FLOAT ? 'r' : 'd';
    if (type == 'c') {
        char text[4];
        infer__jv one;
        if (v.kind == INFER__JV_FLOAT || v.u.i < 0 || v.u.i > 0x10ffff || (v.u.i >= 0xd800 && v.u.i < 0xe000)) {
            infer__jj_fail(j, INFER_ERR_FORMAT, "the format 'c' needs a character's code");
            return;
        }
        one = infer__jv_text(j, text, infer__utf8_put((uint32_t)v.u.i, text), 1);
        if (j->r == INFER_OK) infer__jformat_put(b, f, "", "", 0, 0, one.u.s);
        return;
    }
    base = type == 'd' || type == 'n' ? 10 : type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 0;
    if (base && v.kind == INFER__JV_FLOAT) {
        infer__jj_fail(j, INFER_ERR_FORMAT, "the format '%c' needs a whole number", type);
        return;
    }
    if (!base && !strchr("feEFgG%r", type)) {
        infer__jj_fail(j, INFER_ERR_FORMAT, "unknown format '%c'", type);
        return;
    }
    if (base) {
        negative = v.u.i < 0;
        n = infer__jformat_digits(negative ? 0 - (uint64_t)v.u.i : (uint64_t)v.u.i, base, type == 'X', digits);
    } else {
        double x = infer__jv_number(v) * (type == '%' ? 100 : 1);
        uint64_t bits;
        if (!infer__jj_work(j, INFER__JINJA_FLOAT)) return;
        memcpy(&bits, &x, 8);
        negative = bits >> 63 && infer__double_special(x) != 2;
        if (negative) x = -x;
        if (type == 'r' && f->precision < 0) {
            n = infer__double_text(x, digits);
        } else {
            n = infer__jformat_float(x, type == '%' ? 'f' : type,
                                     f->precision < 0 ? 6 : (int)f->precision, f->alternate, digits);
            if (type == '%') digits[n++] = '%';
        }
    }
    if (negative) sign[i++] = '-';
    else if (f->sign) sign[i++] = f->sign;
    if (f->alternate && base && base != 10) {
        sign[i++] = '0';
        sign[i++] = type;
    }
    sign[i] = 0;
    infer__jformat_put(b, f, sign, digits, n, v.mark, NULL);
}

/* The same; mark 1: what is made counts as a message's, since the format does. */
static void infer__jformat_marked(infer__jbuf *b, const infer__jspec *f, infer__jv v, int mark) {
    infer__jbuf text = infer__jbuf_new(b->j);
    infer__jformat_value(mark ? &text : b, f, v);
    if (mark && b->j->r == INFER_OK) infer__jbuf_put(b, text.s, text.n, 1);
}

/* ---- "..." % x --------------------------------------------------------------------------------------------------- */

typedef struct infer__jpercent {
    infer__jv args;
    size_t used;
    int mark; /* the width or precision of this conversion is a message's */
} infer__jpercent;
static infer__jv infer__jpercent_next(infer__jj *j, infer__jpercent *p) {
    size_t n = p->args.kind == INFER__JV_TUPLE ? p->args.u.l->n : 1;
    if (p->used >= n) return infer__jj_fail(j, INFER_ERR_FORMAT, "not enough arguments for format string");
    return p->args.kind == INFER__JV_TUPLE ? p->args.u.l->items[p->used++] : (p->used++, p->args);
}

/* A number or *; -1 = too large. */
static int64_t infer__jpercent_number(infer__jj *j, const infer__jstr *s, size_t *i, infer__jpercent *p) {
    int64_t x = 0;
    if (*i < s->n && s->s[*i] == '*') {
        infer__jv v = infer__jpercent_next(j, p);
        ++*i;
        p->mark |= infer__jv_mark(v);
        return infer__jarg_int(j, v, 0);
    }
    for (; *i < s->n && s->s[*i] >= '0' && s->s[*i] <= '9'; ++*i) x = x < 1000000 ? x * 10 + (s->s[*i] - '0') : x;
    return x;
}

/* One conversion; *i is after the %. */
static void infer__jpercent_one(infer__jbuf *b, const infer__jstr *s, size_t *i, infer__jpercent *p) {
    infer__jj *j = b->j;
    infer__jspec f;
    infer__jv v = infer__jv_none();
    int left = 0, named = 0;
    char type;
    memset(&f, 0, sizeof f);
    f.precision = -1;
    if (*i < s->n && s->s[*i] == '(') {
        size_t from = ++*i;
        while (*i < s->n && s->s[*i] != ')') ++*i;
        if (p->args.kind == INFER__JV_DICT && *i < s->n) {
            infer__jv *found = infer__jdict_name(j, p->args.u.d, s->s + from, *i - from);
            if (found) v = *found; else infer__jj_fail(j, INFER_ERR_FORMAT, "the format string's key is not there");
        } else {
            infer__jj_fail(j, INFER_ERR_FORMAT, "format requires a mapping");
        }
        named = 1;
        p->used = 1;
        ++*i;
    }
    for (; *i < s->n && s->s[*i] && strchr("-+ #0", s->s[*i]); ++*i) {
        char c = s->s[*i];
        if (c == '-') left = 1;
        if (c == '+' || (c == ' ' && !f.sign)) f.sign = c;
        if (c == '#') f.alternate = 1;
        if (c == '0') f.zero = 1;
    }
    f.width = infer__jpercent_number(j, s, i, p);
    if (f.width < 0) left = 1, f.width = f.width < -INFER__JFORMAT_WIDTH ? INFER__JFORMAT_WIDTH + 1 : -f.width;
    if (*i < s->n && s->s[*i] == '.') {
        ++*i;
        f.precision = infer__jpercent_number(j, s, i, p);
        if (f.precision < 0) f.precision = 0;
    }
    while (*i < s->n && s->s[*i] && strchr("hlL", s->s[*i])) ++*i;
    if (*i >= s->n || j->r != INFER_OK) {
        infer__jj_fail(j, INFER_ERR_FORMAT, "incomplete format");
        return;
    }
    type = s->s[(*i)++];
    if (type == '%') {
        infer__jbuf_put(b, "%", 1, s->marks ? s->marks[*i - 1] : s->mark);
        return;
    }
    if (!named) v = infer__jpercent_next(j, p);
    if (left) f.align = '<', f.zero = 0;
    else if (!f.zero) f.align = '>';
    f.type = type == 'i' || type == 'u' ? 'd' : type;
    if (type == 's' || type == 'r' || type == 'a') {
        infer__jbuf text = infer__jbuf_new(j);
        f.type = 's';
        f.zero = 0;
        if (!f.align) f.align = '>';
        if (type == 's') infer__jbuf_value(&text, v); else infer__jbuf_repr(&text, v);
        v = infer__jbuf_done(&text);
    } else if (type == 'c' && v.kind == INFER__JV_STRING && infer__jinja_count(v.u.s->s, v.u.s->n) == 1) {
        f.type = 's';
    } else if (!strchr("diuoxXeEfFgGc", type) || v.kind == INFER__JV_STRING) {
        infer__jj_fail(j, INFER_ERR_FORMAT, "the format '%%%c' cannot take a %s", type, infer__jv_type(v));
    } else if (f.type == 'd' && v.kind == INFER__JV_FLOAT) {
        if (!(v.u.f > -9.2e18 && v.u.f < 9.2e18)) infer__jj_overflow(j);
        else v = infer__jv_member(infer__jv_int((int64_t)v.u.f), v.mark);
    } else if (f.type == 'd' && f.precision >= 0) {
        f.precision = -1;
    }
    infer__jformat_marked(b, &f, v, p->mark);
    p->mark = 0;
}

static infer__jv infer__jv_percent(infer__jj *j, infer__jv format, infer__jv args) {
    const infer__jstr *s = format.u.s;
    infer__jbuf b = infer__jbuf_new(j);
    infer__jpercent p;
    size_t i = 0, from = 0;
    p.args = args;
    p.used = 0;
    p.mark = 0;
    while (i < s->n && infer__jj_work(j, 1)) {
        if (s->s[i] != '%') {
            i++;
            continue;
        }
        infer__jbuf_part(&b, s, from, i++);
        infer__jpercent_one(&b, s, &i, &p);
        from = i;
    }
    infer__jbuf_part(&b, s, INFER__MIN(from, s->n), s->n);
    if (j->r == INFER_OK && args.kind != INFER__JV_DICT && args.kind != INFER__JV_LIST &&
        args.kind != INFER__JV_RANGE && args.kind != INFER__JV_UNDEFINED && /* what has items may go unused */
        p.used < (args.kind == INFER__JV_TUPLE ? args.u.l->n : 1))
        infer__jj_fail(j, INFER_ERR_FORMAT, "not all arguments converted during string formatting");
    return infer__jbuf_done(&b);
}

/* ---- "...".format(...) ------------------------------------------------------------------------------------------- */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static void infer__jformat_spec(infer__jj *j, const infer__jstr *s, infer__jspec *f) {
    size_t i = 0, len = 0;
    memset(f, 0, sizeof *f);
    f->precision = -1;
    if (s->n) infer__utf8_next(s->s, s->n, &len, NULL);
    if (len && len < s->n && strchr("<>=^", s->s[len])) {
        infer__jv fill = infer__jv_part(j, s, 0, len);
        if (j->r != INFER_OK) return;
        f->fill = fill.u.s;
        f->align = s->s[len];
        i = len + 1;
    } else if (s->n && s->s[0] && strchr("<>=^", s->s[0])) {
        f->align = s->s[i++];
    }
    if (i < s->n && (s->s[i] == '+' || s->s[i] == ' ' || s->s[i] == '-')) f->sign = s->s[i] == '-' ? 0 : s->s[i], i++;
    if (i < s->n && s->s[i] == '#') f->alternate = 1, i++;
    if (i < s->n && s->s[i] == '0') f->zero = 1, i++;
    for (; i < s->n && s->s[i] >= '0' && s->s[i] <= '9'; i++)
        f->width = f->width < 1000000 ? f->width * 10 + s->s[i] - '0' : f->width;
    if (i < s->n && (s->s[i] == ',' || s->s[i] == '_')) f->comma = s->s[i++];
    if (i < s->n && s->s[i] == '.') {
        f->precision = 0;
        if (i + 1 >= s->n || s->s[i + 1] < '0' || s->s[i + 1] > '9')
            infer__jj_fail(j, INFER_ERR_FORMAT, "format specifier missing precision");
        for (i++; i < s->n && s->s[i] >= '0' && s->s[i] <= '9'; i++)
            f->precision = f->precision < 1000000 ? f->precision * 10 + s->s[i] - '0' : f->precision;
    }
    if (i < s->n) f->type = s->s[i++];
    if (i < s->n || (unsigned char)f->type > 127) infer__jj_fail(j, INFER_ERR_FORMAT, "invalid format specifier");
}

typedef struct infer__jfields {
    const infer__jargs *args;
    int64_t next; /* -1 = fields are numbered by hand */
} infer__jfields;

/* The value of a field's name: number or name, then .attribute and [item]. */
static infer__jv infer__jformat_field(infer__jj *j, const infer__jstr *s, size_t from, size_t to,
                                      infer__jfields *fields) {
    size_t i = from, k;
    infer__jv v = infer__jv_none(), *found;
    uint64_t index = 0;
    while (i < to && s->s[i] != '.' && s->s[i] != '[') i++;
    for (k = from; k < i && s->s[k] >= '0' && s->s[k] <= '9' && index < 1000000; k++)
        index = index * 10 + (uint64_t)(s->s[k] - '0');
    if (k == i) {
        if (i > from ? fields->next > 0 : fields->next < 0)
            return infer__jj_fail(j, INFER_ERR_FORMAT, "cannot switch between numbered and unnumbered fields");
        if (i == from) index = (uint64_t)fields->next++; else fields->next = -1;
        if (index >= fields->args->n)
            return infer__jj_fail(j, INFER_ERR_FORMAT, "format: no argument %llu", (unsigned long long)index);
        v = fields->args->v[index];
    } else {
        found = fields->args->named ? infer__jdict_name(j, fields->args->named, s->s + from, i - from) : NULL;
        if (!found)
            return infer__jj_fail(j, INFER_ERR_FORMAT, "format: no argument '%.*s'", (int)INFER__MIN(i - from, 100),
                                  s->s + from);
        v = *found;
    }
    while (i < to && j->r == INFER_OK) {
        size_t begin = i + 1, end = begin;
        if (s->s[i] == '.') {
            while (end < to && s->s[end] != '.' && s->s[end] != '[') end++;
            v = infer__jj_attr(j, v, s->s + begin, end - begin);
            i = end;
        } else {
            int number = 1;
            while (end < to && s->s[end] != ']') end++;
            if (s->s[i] != '[' || end >= to || end == begin)
                return infer__jj_fail(j, INFER_ERR_FORMAT, "format: a field that is malformed");
            for (index = 0, k = begin; k < end; k++) {
                number = number && s->s[k] >= '0' && s->s[k] <= '9' && index < 1000000;
                index = index * 10 + (uint64_t)(s->s[k] - '0');
            }
            v = infer__jj_item(j, v, number ? infer__jv_member(infer__jv_int((int64_t)index), s->marks || s->mark)
                                            : infer__jv_part(j, s, begin, end));
            i = end + 1;
        }
    }
    return v;
}

static infer__jv infer__jformat_text(infer__jj *j, const infer__jstr *s, infer__jfields *fields, int depth);

/* {name!conversion:spec}; s[from..to) is what is between the brackets. */
static void infer__jformat_one(infer__jbuf *b, const infer__jstr *s, size_t from, size_t to, infer__jfields *fields,
                               int depth) {
    infer__jj *j = b->j;
    size_t end = from, square = 0;
    char conversion = 0;
    infer__jv v, spec;
    infer__jspec f;
    while (end < to && (square || (s->s[end] != '!' && s->s[end] != ':'))) {
        if (s->s[end] == '[') square = 1;
        if (s->s[end] == ']') square = 0;
        end++;
    }
    v = infer__jformat_field(j, s, from, end, fields);
    if (end < to && s->s[end] == '!') {
        conversion = end + 1 < to ? s->s[end + 1] : 0;
        end += 2;
        if (!(conversion == 's' || conversion == 'r' || conversion == 'a') || (end < to && s->s[end] != ':'))
            infer__jj_fail(j, INFER_ERR_FORMAT, "format: an unknown conversion");
    }
    if (j->r != INFER_OK) return;
    if (conversion) {
        infer__jbuf text = infer__jbuf_new(j);
        if (conversion == 's') infer__jbuf_value(&text, v); else infer__jbuf_repr(&text, v);
        v = infer__jbuf_done(&text);
    }
    spec = infer__jv_part(j, s, INFER__MIN(end + 1, to), to);
    if (j->r == INFER_OK && memchr(spec.u.s->s, '{', spec.u.s->n))
        spec = infer__jformat_text(j, spec.u.s, fields, depth + 1);
    if (j->r != INFER_OK) return;
    if (spec.u.s->n == 0) {
        infer__jbuf_value(b, v);
        return;
    }
    if (v.kind != INFER__JV_STRING && !infer__jv_is_number(v)) {
        infer__jj_fail(j, INFER_ERR_FORMAT, "unsupported format string for %s", infer__jv_type(v));
        return;
    }
    infer__jformat_spec(j, spec.u.s, &f);
    if (v.kind == INFER__JV_BOOL && !f.type) v = infer__jv_str(j, v);
    if (v.kind == INFER__JV_STRING && f.zero) f.zero = 0, f.align = f.align ? f.align : '<';
    infer__jformat_marked(b, &f, v, infer__jv_mark(spec));
}

static infer__jv infer__jformat_text(infer__jj *j, const infer__jstr *s, infer__jfields *fields, int depth) {
    infer__jbuf b = infer__jbuf_new(j);
    size_t i = 0, from = 0;
    if (depth > 1) return infer__jj_fail(j, INFER_ERR_FORMAT, "format: too many levels of fields");
    while (i < s->n && infer__jj_work(j, 1)) {
        char c = s->s[i];
        size_t end = i + 1, open = 1;
        if (c != '{' && c != '}') {
            i++;
            continue;
        }
        if (i + 1 < s->n && s->s[i + 1] == c) { /* doubled: itself */
            infer__jbuf_part(&b, s, from, i + 1);
            from = i += 2;
            continue;
        }
        infer__jbuf_part(&b, s, from, i);
        for (; c == '{' && end < s->n && open > 0; end++) open += (s->s[end] == '{') - (size_t)(s->s[end] == '}');
        if (!infer__jj_work(j, (end - i) / 4)) break;
        if (c == '}' || open > 0) return infer__jj_fail(j, INFER_ERR_FORMAT, "format: a single '%c'", c);
        infer__jformat_one(&b, s, i + 1, end - 1, fields, depth);
        from = i = end;
    }
    infer__jbuf_part(&b, s, from, s->n);
    return infer__jbuf_done(&b);
}

static infer__jv infer__jstr_format(infer__jj *j, const infer__jcall *c) {
    infer__jfields fields;
    fields.args = c->args;
    fields.next = 0;
    return infer__jformat_text(j, c->self.u.s, &fields, 0);
}
