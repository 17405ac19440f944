/* jinja_lex.c: the text of a template -> tokens.
 *
 * Owns:  line ends (all become \n, one at the end is dropped), delimiters, white space control (trim_blocks and
 *        lstrip_blocks are on; - and + in tags), comments, raw, literals.
 * Rules: untrusted text, linear time. No line statements: they are never enabled.
 * Start: infer__jinja_lex.
 */
#include "jinja.h"

typedef struct infer__jlex {
    infer__template *t;
    const char *s;
    size_t n, at;
    infer__jtoken *tokens;
    size_t n_tokens, cap;
    infer_error *err;
    infer_result r;
} infer__jlex;

/* Fail with the place of byte `at`. */
static infer_result infer__jinja_error(const infer__template *t, size_t at, infer_error *err, infer_result code,
                                       const char *what) {
    uint32_t line, column;
    infer__text_place(t->text, t->n, at, &line, &column);
    return infer__error(err, code, "template, line %u column %u: %s", (unsigned)line, (unsigned)column, what);
}
static void infer__jlex_fail(infer__jlex *x, size_t at, const char *what) {
    if (x->r == INFER_OK) x->r = infer__jinja_error(x->t, at, x->err, INFER_ERR_FORMAT, what);
}

static infer__jtoken *infer__jlex_add(infer__jlex *x, int kind, size_t at, const char *s, size_t n) {
    infer__jtoken *k;
    if (x->n_tokens == x->cap) {
        size_t cap = x->cap * 2 + 64;
        infer__jtoken *p = (infer__jtoken *)infer__realloc(x->t->mem, x->tokens, cap, sizeof *p);
        if (!p) {
            if (x->r == INFER_OK) x->r = infer__error(x->err, INFER_ERR_MEMORY, "template: out of memory");
            x->n_tokens = 0; /* there is room to write to, or nothing was ever there */
            if (x->cap == 0) return NULL;
        } else {
            x->tokens = p;
            x->cap = cap;
        }
    }
    k = &x->tokens[x->n_tokens++];
    memset(k, 0, sizeof *k);
    k->kind = kind;
    k->at = (uint32_t)at;
    k->s = s;
    k->n = n;
    return k;
}

/* Bytes of white space that s[at..n) begins with. */
static size_t infer__jinja_spaces(const char *s, size_t n) {
    size_t at = 0, len;
    while (at < n && infer__jinja_space(infer__utf8_next(s + at, n - at, &len, NULL))) at += len;
    return at;
}
/* The length of s[0..n) without the white space at its end. */
static size_t infer__jinja_stripped(const char *s, size_t n) {
    while (n > 0) {
        size_t begin = n - 1, len;
        while (begin > 0 && (s[begin] & 0xc0) == 0x80) begin--;
        if (!infer__jinja_space(infer__utf8_next(s + begin, n - begin, &len, NULL))) break;
        n = begin;
    }
    return n;
}

/* ---- literals ---------------------------------------------------------------------------------------------- */

static int infer__jlex_digit(char c, int base) {
    int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
    return d < base ? d : -1;
}
/* Bytes of digits with single _ between them (also in front, when lead). */
static size_t infer__jlex_digits(const infer__jlex *x, size_t at, int base, int lead) {
    size_t i = at;
    while (i < x->n) {
        if (infer__jlex_digit(x->s[i], base) >= 0) i++;
        else if (x->s[i] == '_' && (i > at || lead) && i + 1 < x->n && infer__jlex_digit(x->s[i + 1], base) >= 0)
            i += 2;
        else break;
    }
    return i - at;
}

static void infer__jlex_integer(infer__jlex *x, size_t at, size_t n, int base) {
    infer__jtoken *k = infer__jlex_add(x, INFER__JT_INT, at, x->s + at, n);
    uint64_t u = 0;
    size_t i;
    for (i = base == 10 ? 0 : 2; i < n; i++) {
        int d = infer__jlex_digit(x->s[at + i], base);
        if (d < 0) continue;
        if (u > ((uint64_t)INT64_MAX - (uint64_t)d) / (uint64_t)base) {
            infer__jlex_fail(x, at, "a whole number beyond 64 bits");
            return;
        }
        u = u * (uint64_t)base + (uint64_t)d;
    }
    if (k) k->v.i = (int64_t)u;
}

static void infer__jlex_number(infer__jlex *x) {
    size_t at = x->at, n = infer__jlex_digits(x, at, 10, 0), end = at + n, len, i;
    char c = at + 1 < x->n ? (char)(x->s[at + 1] | 32) : 0;
    int base = x->s[at] != '0' ? 10 : c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    if (base != 10 && (n = infer__jlex_digits(x, at + 2, base, 1)) > 0) {
        infer__jlex_integer(x, at, n + 2, base);
        x->at = at + 2 + n;
        return;
    }
    n = end - at;
    /* a fraction or an exponent makes it a float, but not after a point: a.1.2 is two numbers */
    if (at == 0 || x->s[at - 1] != '.') {
        size_t f = end;
        if (f + 1 < x->n && x->s[f] == '.' && infer__jlex_digit(x->s[f + 1], 10) >= 0)
            f += 1 + infer__jlex_digits(x, f + 1, 10, 0);
        if (f < x->n && (x->s[f] | 32) == 'e') {
            size_t e = f + 1 + (f + 1 < x->n && (x->s[f + 1] == '+' || x->s[f + 1] == '-'));
            len = infer__jlex_digits(x, e, 10, 0);
            if (len) f = e + len;
        }
        if (f > end) {
            infer__jtoken *k = infer__jlex_add(x, INFER__JT_FLOAT, at, x->s + at, f - at);
            char *plain = infer__arena_text(&x->t->arena, x->s + at, f - at); /* without _ */
            if (plain && k) {
                for (n = i = 0; i < f - at; i++) if (x->s[at + i] != '_') plain[n++] = x->s[at + i];
                k->v.f = infer__double_parse(plain, n, &len);
            } else if (x->r == INFER_OK) {
                x->r = infer__error(x->err, INFER_ERR_MEMORY, "template: out of memory");
            }
            x->at = f;
            return;
        }
    }
    if (x->s[at] == '0') { /* zeros only: 01 is 0 and then 1, which the parser refuses */
        for (n = 1; at + n < end && (x->s[at + n] == '0' || (x->s[at + n] == '_' && x->s[at + n + 1] == '0')); n++) {}
    }
    infer__jlex_integer(x, at, n, 10);
    x->at = at + n;
}

/* The escape after a backslash at s[0..n): its bytes to out, what it took in *took; as Python's string literals. */
static size_t infer__jlex_escape(infer__jlex *x, const char *s, size_t n, char *out, size_t *took) {
    static const char FROM[] = "\\'\"abfnrtv", TO[] = "\\'\"\a\b\f\n\r\t\v";
    const char *p = n > 0 && s[0] ? strchr(FROM, s[0]) : NULL;
    uint32_t cp = 0;
    size_t i, digits;
    *took = 1;
    if (n == 0) return 0;
    if (p) {
        out[0] = TO[p - FROM];
        return 1;
    }
    if (s[0] == '\n') return 0;
    if (s[0] >= '0' && s[0] <= '7') {
        for (i = 0; i < 3 && i < n && s[i] >= '0' && s[i] <= '7'; i++) cp = cp * 8 + (uint32_t)(s[i] - '0');
        *took = i;
        return infer__utf8_put(cp, out);
    }
    digits = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : s[0] == 'U' ? 8 : 0;
    if (digits == 0) { /* unknown: the backslash stays */
        out[0] = '\\';
        *took = 0;
        return 1;
    }
    for (i = 1; i <= digits; i++) {
        int d = i < n ? infer__jlex_digit(s[i], 16) : -1;
        if (d < 0 || cp > 0x10fff) {
            infer__jlex_fail(x, (size_t)(s - x->s), "an escape without its digits, or beyond U+10FFFF");
            return 0;
        }
        cp = cp * 16 + (uint32_t)d;
    }
    if (cp >= 0xd800 && cp < 0xe000) cp = 0xfffd;
    *took = digits + 1;
    return infer__utf8_put(cp, out);
}

static void infer__jlex_string(infer__jlex *x) {
    size_t begin = x->at + 1, end = begin, i, len = 0;
    char quote = x->s[x->at], *out;
    infer__jtoken *k;
    while (end < x->n && x->s[end] != quote) end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->n) {
        infer__jlex_fail(x, x->at, "a string that has no end");
        return;
    }
    out = (char *)infer__arena_alloc(&x->t->arena, (uint64_t)(end - begin) + 4);
    if (!out) {
        if (x->r == INFER_OK) x->r = infer__error(x->err, INFER_ERR_MEMORY, "template: out of memory");
        return;
    }
    for (i = begin; i < end;) {
        size_t took;
        if (x->s[i] != '\\') {
            out[len++] = x->s[i++];
            continue;
        }
        len += infer__jlex_escape(x, x->s + i + 1, end - i - 1, out + len, &took);
        i += 1 + took;
    }
    k = infer__jlex_add(x, INFER__JT_STRING, x->at, out, len);
    (void)k;
    x->at = end + 1;
}

/* ---- inside of a tag ------------------------------------------------------------------------------------------ */

/* Bytes of the name that s[at..) begins with (letters, digits, _; any script). */
static size_t infer__jlex_name(const infer__jlex *x, size_t at) {
    size_t i = at, len;
    while (i < x->n) {
        unsigned char c = (unsigned char)x->s[i];
        if (c < 0x80) {
            if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_')) break;
            i++;
        } else {
            uint32_t is = infer__uc_class(infer__utf8_next(x->s + i, x->n - i, &len, NULL));
            if (!(is & (INFER__UC_LETTER | INFER__UC_NUMBER | (i > at ? INFER__UC_MARK : 0)))) break;
            i += len;
        }
    }
    return i - at;
}

static void infer__jlex_op(infer__jlex *x, char *open, int *depth) {
    static const char TWO[][3] = {"==", "!=", ">=", "<=", "//", "**"};
    char c = x->s[x->at];
    infer__jtoken *k;
    size_t i;
    for (i = 0; i < INFER__COUNT(TWO); i++) {
        if (x->at + 1 >= x->n || c != TWO[i][0] || x->s[x->at + 1] != TWO[i][1]) continue;
        k = infer__jlex_add(x, INFER__JT_OP, x->at, x->s + x->at, 2);
        if (k) k->op = INFER__JOP(TWO[i][0], TWO[i][1]);
        x->at += 2;
        return;
    }
    if (!c || !strchr("+-/*%~[](){}><=.:|,;", c)) {
        infer__jlex_fail(x, x->at, "a character that is not expected in a tag");
        return;
    }
    if (c == '(' || c == '[' || c == '{') {
        if (*depth >= INFER__JINJA_PARSE_DEPTH) {
            infer__jlex_fail(x, x->at, "too many levels of brackets");
            return;
        }
        open[(*depth)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (*depth == 0 || open[--*depth] != c) {
            infer__jlex_fail(x, x->at, "a closing bracket that does not match an open one");
            return;
        }
    }
    k = infer__jlex_add(x, INFER__JT_OP, x->at, x->s + x->at, 1);
    if (k) k->op = c;
    x->at++;
}

/* From after {% or {{ to after its end. c = '%' or '}'. */
static void infer__jlex_tag(infer__jlex *x, char c, size_t begin) {
    char open[INFER__JINJA_PARSE_DEPTH];
    int depth = 0;
    while (x->r == INFER_OK) {
        char d;
        size_t n;
        x->at += infer__jinja_spaces(x->s + x->at, x->n - x->at);
        if (x->at >= x->n) {
            infer__jlex_fail(x, begin, "a tag that has no end");
            return;
        }
        d = x->s[x->at];
        if (depth == 0) {
            size_t sign = d == '-' || (d == '+' && c == '%');
            if (x->n - x->at >= 2 + sign && x->s[x->at + sign] == c && x->s[x->at + sign + 1] == '}') {
                infer__jlex_add(x, c == '%' ? INFER__JT_TAG_END : INFER__JT_PRINT_END, x->at, "", 0);
                x->at += 2 + sign;
                if (d == '-') x->at += infer__jinja_spaces(x->s + x->at, x->n - x->at);
                else if (c == '%' && !sign && x->at < x->n && x->s[x->at] == '\n') x->at++;
                return;
            }
        }
        if (d >= '0' && d <= '9') {
            infer__jlex_number(x);
        } else if (d == '\'' || d == '"') {
            infer__jlex_string(x);
        } else if ((n = infer__jlex_name(x, x->at)) > 0) {
            infer__jlex_add(x, INFER__JT_NAME, x->at, x->s + x->at, n);
            x->at += n;
        } else {
            infer__jlex_op(x, open, &depth);
        }
    }
}

/* ---- between tags ------------------------------------------------------------------------------------------- */

/* The text s[from..to) before a tag with this sign. */
static void infer__jlex_text(infer__jlex *x, size_t from, size_t to, char sign, int lstrip) {
    size_t n = to - from;
    if (sign == '-') {
        n = infer__jinja_stripped(x->s + from, n);
    } else if (sign != '+' && lstrip) {
        size_t line = to;
        while (line > from && x->s[line - 1] != '\n') line--;
        if ((line == 0 || x->s[line - 1] == '\n') && infer__jinja_spaces(x->s + line, to - line) == to - line)
            n = line - from;
    }
    if (n) infer__jlex_add(x, INFER__JT_TEXT, from, x->s + from, n);
}

/* Is there {% sign WORD [-+]%} at `at`? Its length without white space that it strips; *sign, *end: the signs. */
static size_t infer__jlex_word_tag(const infer__jlex *x, size_t at, const char *word, char *sign, char *end) {
    size_t i = at + 2, n = strlen(word);
    if (x->n - at < 2 || x->s[at] != '{' || x->s[at + 1] != '%') return 0;
    *sign = i < x->n && (x->s[i] == '-' || x->s[i] == '+') ? x->s[i++] : 0;
    i += infer__jinja_spaces(x->s + i, x->n - i);
    if (x->n - i < n || memcmp(x->s + i, word, n) != 0) return 0;
    i += n;
    i += infer__jinja_spaces(x->s + i, x->n - i);
    *end = i < x->n && (x->s[i] == '-' || x->s[i] == '+') ? x->s[i++] : 0;
    return x->n - i >= 2 && x->s[i] == '%' && x->s[i + 1] == '}' ? i + 2 - at : 0;
}

static void infer__jlex_raw(infer__jlex *x, size_t begin) { /* x->at is after {% raw %} */
    size_t from = x->at, i = from;
    for (;;) {
        char sign, end;
        size_t n;
        const char *p = i < x->n ? (const char *)memchr(x->s + i, '{', x->n - i) : NULL;
        if (!p) {
            infer__jlex_fail(x, begin, "a raw block that has no end");
            return;
        }
        i = (size_t)(p - x->s);
        n = infer__jlex_word_tag(x, i, "endraw", &sign, &end);
        if (n == 0) {
            i++;
            continue;
        }
        infer__jlex_text(x, from, i, sign, 1);
        x->at = i + n;
        if (end == '-') x->at += infer__jinja_spaces(x->s + x->at, x->n - x->at);
        else if (!end && x->at < x->n && x->s[x->at] == '\n') x->at++;
        return;
    }
}

static void infer__jlex_comment(infer__jlex *x, size_t begin, char sign) {
    size_t i = begin + 2 + (sign != 0), from = i;
    while (i + 1 < x->n && !(x->s[i] == '#' && x->s[i + 1] == '}')) i++;
    if (i + 1 >= x->n) {
        infer__jlex_fail(x, begin, "a comment that has no end");
        return;
    }
    x->at = i + 2;
    if (i > from && x->s[i - 1] == '-') x->at += infer__jinja_spaces(x->s + x->at, x->n - x->at);
    else if (!(i > from && x->s[i - 1] == '+') && x->at < x->n && x->s[x->at] == '\n') x->at++;
}

static const infer__jtoken *infer__jinja_lex(infer__template *t, infer_error *err, infer_result *r) {
    infer__jlex x;
    memset(&x, 0, sizeof x);
    x.t = t;
    x.s = t->text;
    x.n = t->n;
    x.err = err;
    while (x.at < x.n && x.r == INFER_OK) {
        size_t from = x.at, i = from, n;
        char c = 0, sign, end = 0;
        for (; i + 1 < x.n; i++) {
            c = x.s[i] == '{' ? x.s[i + 1] : 0;
            if (c == '{' || c == '%' || c == '#') break;
        }
        if (i + 1 >= x.n) {
            infer__jlex_text(&x, from, x.n, '+', 0);
            break;
        }
        sign = i + 2 < x.n && (x.s[i + 2] == '-' || x.s[i + 2] == '+') ? x.s[i + 2] : 0;
        infer__jlex_text(&x, from, i, sign, c != '{');
        if (c == '#') {
            infer__jlex_comment(&x, i, sign);
        } else if ((n = infer__jlex_word_tag(&x, i, "raw", &sign, &end)) > 0 && end != '+') {
            x.at = i + n;
            if (end == '-') x.at += infer__jinja_spaces(x.s + x.at, x.n - x.at);
            infer__jlex_raw(&x, i);
        } else {
            infer__jlex_add(&x, c == '%' ? INFER__JT_TAG : INFER__JT_PRINT, i, "", 0);
            x.at = i + 2 + (sign != 0);
            infer__jlex_tag(&x, c == '%' ? '%' : '}', i);
        }
    }
    infer__jlex_add(&x, INFER__JT_END, x.n, "", 0);
    *r = x.r;
    if (x.r != INFER_OK) {
        infer__free(t->mem, x.tokens);
        return NULL;
    }
    return x.tokens;
}
