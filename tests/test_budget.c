/* test_budget.c: what is not trusted ends in time: every operation of templates counts the bytes that it looks at, whole numbers
 * at the ends of their range, deadlines and cancelling, work of schemas, grammars and tokenizers that grows with their input
 * and no faster. Work is counted, time is CPU time with room: both so that a busy machine changes nothing. */
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { BUDGET_BUILT_SLOW = 100 };
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
enum { BUDGET_BUILT_SLOW = 100 };
#  else
enum { BUDGET_BUILT_SLOW = 1 };
#  endif
#else
enum { BUDGET_BUILT_SLOW = 1 };
#endif

#define BUDGET_SLOW (getenv("CHECK_EMULATED") ? 1000 : BUDGET_BUILT_SLOW)

static double budget_cpu(void) { return (double)clock() / CLOCKS_PER_SEC; }

#if !defined(INFER_NO_CHAT)

enum { BUDGET_BYTES = 16 << 20, BUDGET_ITEMS = 100000 };

/* The variables: s, t, h are strings of 16 MiB ("aaa...", words and tags with some that are no ASCII, one word at its end),
 * digits is such a string of digits, l and w are lists of 100,000 numbers and of as many words, d is a dict of them. */
typedef struct budget_context {
    infer_json root, items[14], *numbers, *words, *pairs;
    char *s, *t, *h, *digits, *names;
} budget_context;
static infer_json budget_text(const char *s, size_t n) {
    infer_json v;
    memset(&v, 0, sizeof v);
    v.kind = INFER_JSON_STRING;
    v.s = s;
    v.n = n;
    return v;
}
static void budget_variable(budget_context *c, const char *name, infer_json v) {
    c->items[2 * c->root.n] = budget_text(name, strlen(name));
    c->items[2 * c->root.n + 1] = v;
    c->root.n++;
}
static infer_json budget_many(int kind, const infer_json *items, size_t n) {
    infer_json v;
    memset(&v, 0, sizeof v);
    v.kind = kind;
    v.n = n;
    v.v.items = items;
    return v;
}
static void budget_begin(budget_context *c) {
    static const char piece[] = "\xc3\xa9 <b>a%</b>\n Word ";
    size_t i;
    memset(c, 0, sizeof *c);
    c->root.kind = INFER_JSON_OBJECT;
    c->root.v.items = c->items;
    c->s = (char *)malloc(BUDGET_BYTES);
    c->t = (char *)malloc(BUDGET_BYTES);
    c->h = (char *)malloc(BUDGET_BYTES);
    c->digits = (char *)malloc(BUDGET_BYTES);
    c->names = (char *)malloc(BUDGET_ITEMS * 12);
    c->numbers = (infer_json *)calloc(BUDGET_ITEMS, sizeof *c->numbers);
    c->words = (infer_json *)calloc(BUDGET_ITEMS, sizeof *c->words);
    c->pairs = (infer_json *)calloc(2 * BUDGET_ITEMS, sizeof *c->pairs);
    memset(c->s, 'a', BUDGET_BYTES);
    memset(c->h, ' ', BUDGET_BYTES);
    c->h[BUDGET_BYTES - 1] = 'z';
    memset(c->digits, '0', BUDGET_BYTES);
    memset(c->t, ' ', BUDGET_BYTES);
    for (i = 0; i + sizeof piece < BUDGET_BYTES; i += sizeof piece - 1) memcpy(c->t + i, piece, sizeof piece - 1);
    for (i = 0; i < BUDGET_ITEMS; i++) {
        int n = snprintf(c->names + 12 * i, 12, "k%d", (int)(i * 7919 % BUDGET_ITEMS));
        c->numbers[i].kind = INFER_JSON_INT;
        c->numbers[i].v.i = (int64_t)i;
        c->words[i] = c->pairs[2 * i] = budget_text(c->names + 12 * i, (size_t)n);
        c->pairs[2 * i + 1] = c->numbers[i];
    }
    budget_variable(c, "s", budget_text(c->s, BUDGET_BYTES));
    budget_variable(c, "t", budget_text(c->t, BUDGET_BYTES));
    budget_variable(c, "h", budget_text(c->h, BUDGET_BYTES));
    budget_variable(c, "digits", budget_text(c->digits, BUDGET_BYTES));
    budget_variable(c, "l", budget_many(INFER_JSON_ARRAY, c->numbers, BUDGET_ITEMS));
    budget_variable(c, "w", budget_many(INFER_JSON_ARRAY, c->words, BUDGET_ITEMS));
    budget_variable(c, "d", budget_many(INFER_JSON_OBJECT, c->pairs, BUDGET_ITEMS));
}
static void budget_end(budget_context *c) {
    free(c->s); free(c->t); free(c->h); free(c->digits); free(c->names); free(c->numbers); free(c->words); free(c->pairs);
}

/* Render; the seconds that it took and the steps that it counted. */
static infer_result budget_render(const budget_context *c, const char *text, uint64_t max_steps, double *seconds, uint64_t *steps,
                                  infer_error *err) {
    infer__template *t = NULL;
    infer__rendered out;
    infer__render_options o;
    infer__watch watch;
    infer__mem mem;
    infer_limits limits = { -1, NULL, NULL };
    infer_result r;
    double begin;
    memset(&o, 0, sizeof o);
    memset(&out, 0, sizeof out);
    infer__mem_init(&mem, NULL, 0);
    infer__watch_begin(&watch, &limits, 0);
    o.watch = &watch;
    o.now = "2024-07-26 00:00:00";
    o.max_steps = max_steps;
    o.max_memory = (uint64_t)1 << 30;
    r = infer__template_open(&t, &mem, text, strlen(text), err);
    begin = budget_cpu();
    if (r == INFER_OK) r = infer__template_render(t, &c->root, &o, &out, err);
    *seconds = budget_cpu() - begin;
    *steps = out.steps;
    if (r == INFER_OK) infer__rendered_free(&out);
    infer__template_close(t);
    return r;
}

/* An expression for each row of the tables, and for what has no table. whole: it looks at all of a string of 16 MiB (1), or all
 * of a list of 100,000 (2), so that it must count that; 0: it may be done earlier. */
typedef struct budget_case { const char *name, *text; int whole; } budget_case;
static const budget_case BUDGET_FILTERS[] = {
    {"abs", "(0-5)|abs", 0}, {"attr", "d|attr(s)", 0}, {"batch", "l|batch(3)", 2}, {"batch", "l|batch(9, s)|list", 2}, {"capitalize", "t|capitalize", 1},
    {"center", "t|center(99999999)", 1}, {"center", "'x'|center(9999)", 0}, {"count", "t|count", 1}, {"d", "x|d(s)", 0}, {"default", "s|default(t)", 0},
    {"dictsort", "d|dictsort", 2}, {"dictsort", "d|dictsort(by='value', reverse=true)", 2}, {"e", "t|e", 1}, {"escape", "t|escape", 1},
    {"filesizeformat", "1e300|filesizeformat", 0}, {"first", "t|first", 0}, {"first", "l|first", 0}, {"float", "digits|float", 1}, {"float", "s|float", 1},
    {"forceescape", "t|forceescape", 1}, {"format", "t|replace('%', '')|format", 1}, {"format", "'%s'|format(s)", 1}, {"format", "'%9999d'|format(5)", 0},
    {"groupby", "w|groupby(s, default=1)", 2}, {"groupby", "l|groupby(none)", 2}, {"indent", "t|indent", 1}, {"indent", "'a\nb'|indent(999999)", 0},
    {"int", "digits|int", 1}, {"int", "h|int", 1}, {"items", "d|items", 2}, {"join", "w|join(',')", 2}, {"join", "[s, s]|join(t)", 1}, {"last", "l|last", 0},
    {"last", "t|last", 0}, {"length", "t|length", 1}, {"list", "l|list", 2}, {"list", "s|list", 1}, {"lower", "t|lower", 1}, {"map", "w|map('upper')", 2},
    {"map", "w|map(attribute=s, default=1)", 2}, {"max", "l|max", 2}, {"min", "w|min", 2}, {"pprint", "", 0}, {"random", "", 0}, {"reject", "l|reject('odd')", 2},
    {"rejectattr", "w|rejectattr('x')", 2}, {"replace", "t|replace('a', 'bc')", 1}, {"replace", "s|replace('ab', '')", 1}, {"replace", "s|replace('', '-')", 1},
    {"reverse", "l|reverse", 2}, {"reverse", "t|reverse", 1}, {"round", "1e300|round(300)", 0}, {"round", "1.5e-300|round(-5)", 0}, {"safe", "s|safe", 0},
    {"select", "l|select('odd')", 2}, {"selectattr", "w|selectattr('x')", 2}, {"slice", "l|slice(3)", 2}, {"slice", "l|slice(99999, s)", 2}, {"sort", "w|sort", 2},
    {"sort", "w|sort(attribute=s)", 0}, {"sort", "[s ~ 'b', s ~ 'a']|sort", 1}, {"string", "l|string", 2}, {"striptags", "t|striptags", 1},
    {"striptags", "('<' ~ t.replace('>', ''))|striptags", 1}, {"sum", "l|sum", 2}, {"title", "t|title", 1}, {"tojson", "t|tojson", 1}, {"tojson", "d|tojson(sort_keys=true)", 2},
    {"tojson", "[[[1]]]|tojson(indent=99999)", 0}, {"trim", "h|trim", 1}, {"trim", "s|trim('ba')", 1}, {"trim", "'xyx'|trim(s)", 0}, {"truncate", "t|truncate(9999999)", 1},
    {"unique", "w|unique", 2}, {"unique", "[s, t]|unique", 1}, {"upper", "t|upper", 1}, {"urlencode", "t|urlencode", 1}, {"urlencode", "d|urlencode", 2},
    {"wordcount", "t|wordcount", 1}, {"wordwrap", "", 0}, {"xmlattr", "{'a': t}|xmlattr", 1}, {"xmlattr", "d|xmlattr", 2},
};
static const budget_case BUDGET_STRING_METHODS[] = {
    {"capitalize", "t.capitalize()", 1}, {"casefold", "t.casefold()", 1}, {"center", "'x'.center(99999999)", 0}, {"center", "t.center(5)", 1}, {"count", "t.count('a')", 1},
    {"count", "s.count('b')", 1}, {"count", "s.count('')", 1}, {"count", "s.count('ab')", 1}, {"endswith", "(s ~ 'b').endswith(s)", 1}, {"endswith", "t.endswith('x', 5)", 1},
    {"expandtabs", "t.expandtabs()", 1}, {"expandtabs", "'\t'.expandtabs(99999)", 0}, {"find", "s.find('b')", 1}, {"find", "s.find('ab')", 1}, {"find", "t.find('a', 100)", 1},
    {"format", "'{}'.format(s)", 1}, {"format", "t.format()", 1}, {"format", "'{:>99999}'.format(1)", 0}, {"format", "'{:300f}'.format(1e300)", 0}, {"index", "h.index('z')", 1},
    {"isalnum", "s.isalnum()", 1}, {"isalpha", "s.isalpha()", 1}, {"isascii", "s.isascii()", 1}, {"isdecimal", "digits.isdecimal()", 1}, {"isdigit", "digits.isdigit()", 1},
    {"isidentifier", "s.isidentifier()", 1}, {"islower", "s.islower()", 1}, {"isnumeric", "digits.isnumeric()", 1}, {"isspace", "h.isspace()", 1}, {"istitle", "digits.istitle()", 1},
    {"isupper", "digits.isupper()", 1}, {"join", "','.join(w)", 2}, {"join", "s.join(['', '', ''])", 1}, {"ljust", "t.ljust(5)", 1}, {"ljust", "'x'.ljust(99999999)", 0},
    {"lower", "t.lower()", 1}, {"lstrip", "h.lstrip()", 1}, {"lstrip", "s.lstrip('ba')", 1}, {"partition", "s.partition('b')", 1}, {"removeprefix", "(s ~ 'b').removeprefix(s)", 1},
    {"removesuffix", "('b' ~ s).removesuffix(s)", 1}, {"replace", "t.replace('a', 'bc')", 1}, {"rfind", "s.rfind('b')", 1}, {"rfind", "s.rfind('ab')", 1}, {"rindex", "('z' ~ s).rindex('z')", 1},
    {"rjust", "t.rjust(5)", 1}, {"rjust", "'x'.rjust(99999999)", 0}, {"rpartition", "s.rpartition('b')", 1}, {"rsplit", "t.rsplit()", 1}, {"rsplit", "s.rsplit('b')", 1},
    {"rstrip", "s.rstrip('ba')", 1}, {"rstrip", "('z' ~ h).rstrip('z ')", 1}, {"split", "t.split()", 1}, {"split", "s.split('b')", 1}, {"split", "s.split(none, 1)", 1}, {"splitlines", "t.splitlines()", 1},
    {"startswith", "(s ~ 'b').startswith(s)", 1}, {"startswith", "s.startswith((t, s ~ 'c', s))", 1}, {"strip", "h.strip()", 1}, {"swapcase", "t.swapcase()", 1}, {"title", "t.title()", 1},
    {"upper", "t.upper()", 1}, {"zfill", "t.zfill(5)", 1}, {"zfill", "'-5'.zfill(99999999)", 0},
};
static const budget_case BUDGET_LIST_METHODS[] = {
    {"append", "l.append(1)", 0}, {"clear", "(l + []).clear()", 2}, {"copy", "l.copy()", 2}, {"count", "l.count(5)", 2}, {"extend", "[].extend(l)", 2}, {"index", "l.index(99999)", 2},
    {"insert", "l.insert(0, 1)", 0}, {"pop", "l.pop()", 0}, {"pop", "(l + [1]).pop(0)", 2}, {"remove", "(l + [-1]).remove(-1)", 2}, {"reverse", "l.reverse()", 2}, {"sort", "(w + []).sort()", 2},
    {"sort", "(l + []).sort(reverse=true)", 2},
};
static const budget_case BUDGET_TUPLE_METHODS[] = {{"count", "(s, s ~ '').count(s ~ '')", 1}, {"index", "(s ~ 'b', s ~ 'c').index(s ~ 'c')", 1}};
static const budget_case BUDGET_DICT_METHODS[] = {
    {"clear", "d.copy().clear()", 2}, {"copy", "d.copy()", 2}, {"get", "d.get(s)", 1}, {"items", "d.items()", 2}, {"keys", "d.keys()", 2}, {"pop", "d.pop('k1', 0)", 0}, {"pop", "d.pop(s, 0)", 1},
    {"popitem", "d.copy().popitem()", 2}, {"setdefault", "d.setdefault(s, 1)", 1}, {"update", "{}.update(d)", 2}, {"values", "d.values()", 2},
};
static const budget_case BUDGET_CYCLER_METHODS[] = {{"next", "cycler(1, 2).next()", 0}, {"reset", "cycler(1, 2).reset()", 0}};
static const budget_case BUDGET_LOOP_METHODS[] = {{"changed", "[loop.changed(s), loop.changed(s ~ '')]", 1}, {"cycle", "loop.cycle(1, 2)", 0}};
static const budget_case BUDGET_TESTS[] = {
    {"!=", "s is ne(s ~ '')", 1}, {"<", "s is lt(s ~ 'b')", 1}, {"<=", "s is le(s ~ '')", 1}, {"==", "s is eq(s ~ '')", 1}, {">", "s is gt(s ~ '')", 1}, {">=", "s is ge(s ~ '')", 1},
    {"boolean", "s is boolean", 0}, {"callable", "s is callable", 0}, {"defined", "s is defined", 0}, {"divisibleby", "5 is divisibleby 2", 0}, {"divisibleby", "1e300 is divisibleby 3e-300", 0},
    {"eq", "l is eq(l + [])", 2}, {"equalto", "s is equalto(s ~ '')", 1}, {"escaped", "s is escaped", 0}, {"even", "1e300 is even", 0}, {"false", "s is false", 0}, {"filter", "s is filter", 0},
    {"float", "s is float", 0}, {"ge", "l is ge(l + [])", 2}, {"greaterthan", "s is greaterthan(s ~ '')", 1}, {"gt", "s is gt(s ~ '')", 1}, {"in", "'b' is in(s)", 1}, {"in", "-1 is in(l)", 2},
    {"in", "s is in(d)", 1}, {"integer", "s is integer", 0}, {"iterable", "s is iterable", 0}, {"le", "s is le(s ~ '')", 1}, {"lessthan", "s is lessthan(s ~ '')", 1}, {"lower", "s is lower", 1},
    {"lt", "s is lt(s ~ '')", 1}, {"mapping", "s is mapping", 0}, {"ne", "s is ne(s ~ '')", 1}, {"none", "s is none", 0}, {"number", "s is number", 0}, {"odd", "1e300 is odd", 0},
    {"sameas", "s is sameas(s ~ '')", 1}, {"sequence", "s is sequence", 0}, {"string", "s is string", 0}, {"test", "s is test", 0}, {"true", "s is true", 0}, {"undefined", "s is undefined", 0},
    {"upper", "digits is upper", 1},
};
static const budget_case BUDGET_GLOBALS[] = {
    {"cycler", "cycler(*l)", 2}, {"dict", "dict(d)", 2}, {"joiner", "joiner(s)", 0}, {"lipsum", "", 0}, {"namespace", "namespace(d)", 2}, {"raise_exception", "", 0}, {"range", "range(100000)", 2},
    {"strftime_now", "strftime_now(s)", 1}, {"strftime_now", "strftime_now('%c' * 999)", 0},
};
/* Operators, literals, statements. */
static const budget_case BUDGET_OTHERS[] = {
    {"+", "s + t", 1}, {"+", "l + l", 2}, {"~", "s ~ t", 1}, {"~", "l ~ ''", 2}, {"*", "'ab' * 9999999", 1}, {"*", "l * 5", 2}, {"*", "[1] * 999999", 2}, {"%", "t.replace('%', '') % ()", 1},
    {"%", "'%s' % s", 1}, {"%", "'%r' % t", 1}, {"%", "'%99999s' % 1", 0}, {"%", "'%.300e' % 1e300", 0}, {"%", "1e300 % 3e-300", 0}, {"//", "1e300 // 3e-300", 0}, {"**", "2 ** 62", 0},
    {"**", "1.5 ** 1e3", 0}, {"/", "1 / 3", 0}, {"-", "-(1.5e300)", 0}, {"==", "s == s ~ ''", 1}, {"==", "d == d.copy()", 2}, {"!=", "s != s ~ ''", 1}, {"<", "s < s ~ ''", 1}, {">", "l > l + []", 2},
    {"<=", "s <= s ~ ''", 1}, {">=", "s >= s ~ ''", 1}, {"in", "'b' in s", 1}, {"in", "'ab' in s", 1}, {"in", "-1 in l", 2}, {"not in", "'ba' not in s", 1}, {"and", "s and t", 0}, {"or", "s or t", 0},
    {"not", "not s", 0}, {"[]", "t[-1]", 1}, {"[]", "t[5000000]", 1}, {"[]", "d[s]", 1}, {"[:]", "t[1:]", 1}, {"[:]", "t[::-1]", 1}, {"[:]", "l[1:]", 2}, {"[:]", "l[::-1]", 2}, {".", "d.nothing", 0},
    {"lookup", "nothing_of_that_name", 0}, {"list", "[s, t, l]", 0}, {"dict", "{s: 1}", 1}, {"tuple", "(s, t)", 0}, {"if", "1 if s else 2", 0}, {"repr", "[t] ~ ''", 1}, {"repr", "[1e-300] ~ ''", 0},
    {"spread", "dict(**d)", 2}, {"int", "(1.5e300)|string", 0},
};

/* Every row of a table has a case, and every case ends by the budget. A fortieth of the budget is given, and a fortieth of the
 * time: what is counted too low is far above that. */
static void budget_table(const budget_context *c, const char *what, const infer__jfunction *rows, size_t n_rows, const budget_case *cases, size_t n_cases,
                         double *worst) {
    static const char loop[] = "{%% for i in range(99999) %%}{%% for k in range(99999) %%}{%% set x = %s %%}{%% endfor %%}{%% endfor %%}";
    static const char once[] = "{%% for i in [1] %%}{%% set x = %s %%}{%% endfor %%}";
    char text[400], detail[200];
    double seconds, empty;
    uint64_t steps, none;
    infer_error err;
    size_t i, k;
    for (i = 0; i < n_rows; i++) {
        for (k = 0; k < n_cases && strcmp(cases[k].name, rows[i].name) != 0; k++) {}
        check_detail = rows[i].name;
        if (k == n_cases) check_note(__FILE__, __LINE__, "a row of a table of templates' functions has no case here");
    }
    CHECK(budget_render(c, "", 0, &empty, &none, &err) == INFER_OK);
    for (k = 0; k < n_cases; k += BUDGET_SLOW > 1 ? 16 : 1) { /* under sanitizers and emulators a sample: minutes otherwise */
        infer_result r;
        snprintf(detail, sizeof detail, "%s %s: %s", what, cases[k].name, cases[k].text);
        check_detail = detail;
        if (!cases[k].text[0]) continue; /* refused by name */
        if (cases[k].whole) {
            snprintf(text, sizeof text, once, cases[k].text);
            r = budget_render(c, text, none + INFER__TEMPLATE_STEPS / 16, &seconds, &steps, &err);
            CHECK(r == INFER_OK || r == INFER_ERR_MEMORY || (r == INFER_ERR_FORMAT && strstr(cases[k].text, "format")));
            CHECK(steps - none >= (cases[k].whole == 1 ? BUDGET_BYTES / 64 : BUDGET_ITEMS / 4));
        }
        snprintf(text, sizeof text, loop, cases[k].text);
        r = budget_render(c, text, none + INFER__TEMPLATE_STEPS / 40, &seconds, &steps, &err);
        if (r != INFER_ERR_MEMORY && !(r == INFER_ERR_FORMAT && strstr(cases[k].text, "format"))) check_note(__FILE__, __LINE__, r == INFER_OK ? "it has an end" : err.message);
        seconds = seconds > empty ? 40 * (seconds - empty) : 0;
        if (seconds > *worst) *worst = seconds;
        if (getenv("BUDGET_SHOW")) fprintf(stderr, "%6.3f s  %s\n", seconds, detail);
        CHECK(seconds < 10.0 * BUDGET_SLOW); /* at most 2 on a quiet machine; what is counted too low takes minutes */
    }
}
static void test_budget_operations(void) {
    budget_context c;
    double worst = 0;
    budget_begin(&c);
#define BUDGET_TABLE(what, rows, cases) budget_table(&c, what, rows, INFER__COUNT(rows), cases, INFER__COUNT(cases), &worst)
    BUDGET_TABLE("filter", INFER__JFILTERS, BUDGET_FILTERS);
    BUDGET_TABLE("method", INFER__JSTR_METHODS, BUDGET_STRING_METHODS);
    BUDGET_TABLE("method", INFER__JLIST_METHODS, BUDGET_LIST_METHODS);
    BUDGET_TABLE("method", INFER__JTUPLE_METHODS, BUDGET_TUPLE_METHODS);
    BUDGET_TABLE("method", INFER__JDICT_METHODS, BUDGET_DICT_METHODS);
    BUDGET_TABLE("method", INFER__JCYCLER_METHODS, BUDGET_CYCLER_METHODS);
    BUDGET_TABLE("method", INFER__JLOOP_METHODS, BUDGET_LOOP_METHODS);
    BUDGET_TABLE("test", INFER__JTESTS, BUDGET_TESTS);
    BUDGET_TABLE("function", INFER__JGLOBALS, BUDGET_GLOBALS);
    budget_table(&c, "operator", NULL, 0, BUDGET_OTHERS, INFER__COUNT(BUDGET_OTHERS), &worst);
    budget_end(&c);
}
/* Whole numbers at the ends of their range as every argument that takes one: a result or an error with a message, and no undefined
 * behaviour (this runs under UBSan). Results of Jinja2 where they are small. */
static const char *const BUDGET_ONE[] = {
    "'ab cd'.center(%s)", "'ab'.ljust(%s)", "'ab'.rjust(%s)", "'-x'.zfill(%s)", "'x'.zfill(%s)",
    "'a\tb\t'.expandtabs(%s)", "'aaa'.replace('a','b',%s)", "'a b c'.split(none,%s)", "'a,b,c'.split(',',%s)",
    "'a b c'.rsplit(none,%s)", "'a,b,c'.rsplit(',',%s)", "'abc'.find('b',%s)", "'abc'.find('b',0,%s)",
    "'abc'.rfind('b',%s)", "'abab'.count('b',%s)", "'abab'.count('',%s)", "'abab'.count('b',0,%s)",
    "'abc'.startswith('b',%s)", "'abc'.startswith('a',0,%s)", "'abc'.endswith('c',%s)", "'abc'.endswith('c',0,%s)",
    "'ab'|center(%s)", "'a\nb'|indent(%s)", "'a b c d e'|truncate(%s,true,'')", "'a b c d e'|truncate(3,true,'',%s)",
    "[1,2,3]|batch(%s)|list", "[1,2,3]|batch(%s,0)|list", "[1,2,3]|slice(%s)|list", "[1,2,3]|slice(%s,0)|list",
    "(%s)|abs", "(%s)|int", "(%s)|float", "(%s)|round", "(%s)|round(0)", "(%s)|round(-1)", "(%s)|round(-18)",
    "(%s)|round(-19)", "(%s)|round(-20)", "15|round(%s)", "1.5|round(%s)", "(%s)|round(2,'floor')",
    "1.5|round(%s,'ceil')", "-(%s)", "+(%s)", "(%s)|string", "(%s)|filesizeformat", "(%s)|tojson",
    "{'a':1}|tojson(indent=%s)", "'abc'[%s]", "'abc'[%s:]", "'abc'[:%s]", "'abc'[::%s]", "[1,2,3][%s]",
    "[1,2,3][%s:]", "[1,2,3][:%s]", "[1,2,3][::%s]", "[1,2,3][2::%s]", "range(5)[%s:]", "range(5)[:%s]",
    "range(5)[::%s]", "'ab'*(%s)", "[1]*(%s)", "(1,)*(%s)", "(%s)*'ab'", "'%%d' %% (%s)", "'%%x' %% (%s)",
    "'%%o' %% (%s)", "'%%c' %% (%s)", "'%%5d' %% (%s)", "'%%05d' %% (%s)", "'%%+d' %% (%s)", "'%%f' %% (%s)",
    "'%%e' %% (%s)", "'%%g' %% (%s)", "'%%s' %% (%s)", "'%%*d' %% (%s,5)", "'%%.*d' %% (%s,5)", "'%%.*f' %% (%s,5)",
    "'%%.*s' %% (%s,'abc')", "'%%-*d|' %% (%s,5)", "'{:d}'.format(%s)", "'{:x}'.format(%s)", "'{:b}'.format(%s)",
    "'{:,}'.format(%s)", "'{:c}'.format(%s)", "'{:%%}'.format(%s)", "'{:{}}'.format(5,%s)",
    "'{:.{}}'.format('abc',%s)", "'{:e}'.format(%s)", "range(%s)|list", "range(%s,3)|list", "range(3,%s)|list",
    "range(0,3,%s)|list", "range(-3,%s,4611686018427387904)|list",
    "range(%s,9223372036854775807,4611686018427387904)|list",
    "range(%s,-9223372036854775807,-4611686018427387904)|list", "[1,2,3].insert(%s,9)", "[1,2,3].pop(%s)",
    "(%s) is odd", "(%s) is even", "(%s) is divisibleby(-1)", "(%s) is divisibleby(3)", "7 is divisibleby(%s)",
    "'12'|int(0,%s)", "'zz'|int(%s)", "(%s)|default(1)", "[3,%s,1]|sort", "[%s,1]|sum", "[1]|sum(start=%s)",
    "[%s,0]|max", "[%s,0]|min", "{%s:1}|dictsort", "[1,2][%s]|default(8)", "(%s)|format",
    "cycler(1,2).next() ~ (%s)", "dict(a=%s)", "[{'a':%s}]|groupby('a')|list",
    "[[1,2],[3,4]]|map(attribute=%s)|list", "[1,2]|join(',',%s)", "'a'|urlencode ~ (%s)", "[%s]|unique|list",
    "'aXbXc'|replace('X','-',%s)", "'x'|wordcount ~ (%s)", "'%%(a)*d' %% {'a':%s}",
    "range(9223372036854775800,9223372036854775807)[%s::9223372036854775807]",
    "range(-9223372036854775800,9223372036854775807,4611686018427387904)[::%s]",
};
static const char *const BUDGET_TWO[] = {
    "(%s)+(%s)", "(%s)-(%s)", "(%s)*(%s)", "(%s)//(%s)", "(%s)%%(%s)", "(%s)/(%s)", "(%s)<(%s)", "(%s)==(%s)",
    "'abcdef'[%s:%s]", "[1,2,3,4][%s:%s]", "'abcdef'[%s::%s]", "[1,2,3,4][:%s:%s]", "'abab'.count('a',%s,%s)",
    "'abab'.find('b',%s,%s)", "range(%s,%s)|list", "range(5)[%s:%s]", "range(0,%s,%s)|list",
    "'a b c d'|truncate(%s,true,'',%s)", "[1]|truncate(%s,true,'',%s)", "{}|truncate(%s,true,'',%s)", "(%s)**(%s)",
    "'%%*.*f' %% (%s,%s,1.5)", "(%s)|round(%s)", "(%s) is divisibleby(%s)", "1.5|round(%s)|round(%s)", "(%s)~(%s)",
};
static void budget_integer(const char *expression) {
    static const infer_json none = { INFER_JSON_OBJECT, 0, 0, NULL, { 0 } };
    budget_context c;
    double seconds;
    uint64_t steps;
    infer_error err;
    char text[300];
    infer_result r;
    memset(&c, 0, sizeof c);
    c.root = none;
    err.message[0] = 0;
    check_detail = text;
    snprintf(text, sizeof text, "{{ %s }}", expression);
    r = budget_render(&c, text, 200000, &seconds, &steps, &err);
    CHECK(r == INFER_OK || ((r == INFER_ERR_FORMAT || r == INFER_ERR_MEMORY) && strncmp(err.message, "template, line ", 15) == 0));
}
static void test_budget_integers(void) {
    static const char *const values[] = {"(-9223372036854775807-1)", "(-9223372036854775807)", "(-101)", "(-1)", "0", "1", "2147483648", "9223372036854775806", "9223372036854775807"};
    static const char *const same[][2] = { /* of the reproducers, by Jinja2 3.1.6 */
        {"'x'.center((-9223372036854775807-1))", "x"}, {"'aaa'.replace('a','b',(-9223372036854775807-1))", "bbb"}, {"'a b c'.rsplit(none,(-9223372036854775807-1))", "['a', 'b', 'c']"},
        {"'a b c'.split(none,(-9223372036854775807-1))", "['a', 'b', 'c']"}, {"'a,b,c'.split(',',(-9223372036854775807-1))", "['a', 'b', 'c']"},
        {"[1]|truncate(9223372036854775807,true,'',9223372036854775807)", "[1]"}, {"'-x'.zfill((-9223372036854775807-1))", "-x"}, {"range(5)[::9223372036854775807]", "range(0, 5, 9223372036854775807)"},
        {"range(-9223372036854775807, 9223372036854775807, 4611686018427387904)|list", "[-9223372036854775807, -4611686018427387903, 1, 4611686018427387905]"},
        {"'abcdef'[-9223372036854775807:9223372036854775807:2]", "ace"}, {"1234|round(-2)", "1200"}, {"4999999999999999999|round(-19)", "0"}};
    char text[300];
    size_t i, k, m;
    for (i = 0; i < INFER__COUNT(BUDGET_ONE); i++)
        for (k = 0; k < INFER__COUNT(values); k++) {
            snprintf(text, sizeof text, BUDGET_ONE[i], values[k]);
            budget_integer(text);
        }
    for (i = 0; i < INFER__COUNT(BUDGET_TWO); i++)
        for (k = 0; k < INFER__COUNT(values); k++)
            for (m = 0; m < INFER__COUNT(values); m++) {
                snprintf(text, sizeof text, BUDGET_TWO[i], values[k], values[m]);
                budget_integer(text);
            }
    for (i = 0; i < INFER__COUNT(same); i++) {
        infer__template *t = NULL;
        infer__rendered out;
        infer__mem mem;
        infer_error err;
        infer__mem_init(&mem, NULL, 0);
        snprintf(text, sizeof text, "{{ %s }}", same[i][0]);
        check_detail = text;
        CHECK(infer__template_open(&t, &mem, text, strlen(text), &err) == INFER_OK);
        if (infer__template_render(t, NULL, NULL, &out, &err) != INFER_OK) check_note(__FILE__, __LINE__, err.message);
        else { CHECK_STR(out.text, same[i][1]); infer__rendered_free(&out); }
        infer__template_close(t);
    }
}

/* 24 doublings make a string of 16 MiB, and two loops count its characters four million times: it took hours. */
static void test_budget_doubled_string(void) {
    static const char text[] = "{% set ns=namespace(s='a') %}{% for i in range(24) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{% set s=ns.s %}"
                               "{% for i in range(100000) %}{% for k in range(40) %}{% if s|length %}{% endif %}{% endfor %}{% endfor %}";
    infer__template *t = NULL;
    infer__render_options o;
    infer__rendered out;
    infer__watch watch;
    infer__mem mem;
    infer_error err;
    infer_limits limits = { -1, NULL, NULL };
    double begin = budget_cpu();
    memset(&o, 0, sizeof o);
    infer__watch_begin(&watch, &limits, 0);
    o.watch = &watch;
    infer__mem_init(&mem, NULL, 0);
    CHECK(infer__template_open(&t, &mem, text, sizeof text - 1, &err) == INFER_OK);
    CHECK(infer__template_render(t, NULL, &o, &out, &err) == INFER_ERR_MEMORY);
    CHECK_HAS(err.message, "max_steps");
    CHECK(budget_cpu() - begin < 1.0 * BUDGET_SLOW);
    infer__template_close(t);
}
#endif

/* ---- deadlines and cancelling -------------------------------------------------------------------------------------- */

static int budget_asked;
static int budget_cancel(void *user) { budget_asked++; return user != NULL; }

/* A call is asked now and then, ends with CANCELLED when it is told to, and with LIMIT when its time is up; both by name. */
static void budget_ends(infer_result (*call)(const infer_limits *limits, infer_error *err), const char *what) {
    infer_limits limits = { -1, budget_cancel, NULL };
    infer_error err;
    check_detail = what;
    err.message[0] = 0;
    budget_asked = 0;
    CHECK(call(&limits, &err) <= 0 && budget_asked > 0);
    limits.user = &limits;
    budget_asked = 0;
    CHECK(call(&limits, &err) == INFER_CANCELLED && budget_asked == 1);
    CHECK_HAS(err.message, "cancelled");
    CHECK_HAS(err.message, what);
    limits.cancel = NULL;
    limits.seconds = 1e-9;
    CHECK(call(&limits, &err) == INFER_ERR_LIMIT);
    CHECK_HAS(err.message, "limits.seconds");
    CHECK_HAS(err.message, what);
}
#if !defined(INFER_NO_CHAT)
static infer_result budget_call_render(const infer_limits *limits, infer_error *err) {
    static const char text[] = "{% for i in range(9999) %}{{ i }}{% endfor %}";
    infer__template *t = NULL;
    infer__render_options o;
    infer__rendered out;
    infer__watch watch;
    infer__mem mem;
    infer_result r;
    infer__mem_init(&mem, NULL, 0);
    memset(&o, 0, sizeof o);
    infer__watch_begin(&watch, limits, 1);
    o.watch = &watch;
    CHECK(infer__template_open(&t, &mem, text, sizeof text - 1, err) == INFER_OK);
    r = infer__template_render(t, NULL, &o, &out, err);
    if (r == INFER_OK) infer__rendered_free(&out);
    infer__template_close(t);
    CHECK(infer__atomic_get(&mem.used) == 0);
    return r;
}
#endif
static infer_result budget_grammar(const infer_grammar_params *p, infer_error *err) {
    infer_grammar *g = NULL;
    infer__mem mem;
    infer_result r;
    infer__mem_init(&mem, NULL, 0);
    r = infer__grammar_open(&g, &mem, NULL, p, err);
    infer__grammar_close(g);
    CHECK(infer__atomic_get(&mem.used) == 0);
    return r;
}
static char *budget_repeat(const char *begin, const char *piece, size_t n, const char *end) {
    size_t len = strlen(piece), head = strlen(begin), i;
    char *s = (char *)malloc(head + n * len + strlen(end) + 1);
    memcpy(s, begin, head);
    for (i = 0; i < n; i++) memcpy(s + head + i * len, piece, len);
    strcpy(s + head + n * len, end);
    return s;
}
static infer_result budget_call_gbnf(const infer_limits *limits, infer_error *err) {
    char *text = budget_repeat("root ::= \"x\"", " | \"ab\" [0-9]", 3000, "");
    infer_grammar_params p;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.gbnf = text;
    p.limits = *limits;
    r = budget_grammar(&p, err);
    free(text);
    return r;
}
static infer_result budget_call_schema(const infer_limits *limits, infer_error *err) {
    char *text = budget_repeat("{\"enum\":[1", ",[1]", 5000, "]}");
    infer_grammar_params p;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.schema = text;
    p.limits = *limits;
    r = budget_grammar(&p, err);
    free(text);
    return r;
}
static void test_budget_limits(void) {
#if !defined(INFER_NO_CHAT)
    budget_ends(budget_call_render, "rendering a template");
#endif
    budget_ends(budget_call_gbnf, "compiling a grammar");
    budget_ends(budget_call_schema, "compiling a JSON Schema");
}

/* Work of what is twice as long is about twice as much. */
static uint64_t budget_schema_work(const char *begin, const char *piece, size_t n, const char *end) {
    char *text = budget_repeat(begin, piece, n, end);
    infer_limits limits = { -1, NULL, NULL };
    infer__watch watch;
    infer__bytes out;
    infer__mem mem;
    infer_error err;
    infer__mem_init(&mem, NULL, 0);
    memset(&out, 0, sizeof out);
    out.mem = &mem;
    infer__watch_begin(&watch, &limits, 0);
    err.message[0] = 0;
    if (infer__schema_gbnf(&out, &mem, &watch, text, strlen(text), &err) != INFER_OK) check_note(__FILE__, __LINE__, err.message);
    infer__bytes_free(&out);
    free(text);
    return watch.done;
}
static void test_budget_schema_linear(void) {
    static const char *const pieces[][3] = {
        {"{\"enum\":[0", ",17", "]}"}, {"{\"enum\":[0", ",\"text\"", "]}"}, {"{\"type\":\"integer\",\"enum\":[0", ",17", "]}"}, {"{\"enum\":[0", ",[1,2]", "]}"},
        {"{\"const\":[0", ",1.5", "]}"}, {"{\"prefixItems\":[{}", ",{\"type\":\"integer\"}", "]}"}};
    size_t i;
    for (i = 0; i < INFER__COUNT(pieces); i++) {
        uint64_t one = budget_schema_work(pieces[i][0], pieces[i][1], 3000, pieces[i][2]), two = budget_schema_work(pieces[i][0], pieces[i][1], 6000, pieces[i][2]);
        check_detail = pieces[i][1];
        CHECK(one > 3000 && two < 2 * one + one / 4);
    }
}
/* 40,000 numbers: it was quadratic, and 200,000 took 15 seconds. */
static void test_budget_schema_enum_40000(void) {
    double begin = budget_cpu();
    CHECK(budget_schema_work("{\"enum\":[0", ",12345", 40000, "]}") > 40000);
    CHECK(budget_cpu() - begin < 0.5 * BUDGET_SLOW);
}
/* A schema of a few bytes takes no more than its share of memory: an error comes first. */
static void test_budget_schema_memory(void) {
    static const char *const schemas[] = {"{\"allOf\":[{\"type\":\"string\",\"pattern\":\"a.{8}$\"},{\"pattern\":\"b.{8}\"}]}", "{\"type\":\"integer\",\"multipleOf\":499}", "{\"type\":\"integer\",\"multipleOf\":99999}"};
    size_t i;
    for (i = 0; i < INFER__COUNT(schemas); i++) {
        infer_grammar_params p;
        infer_error err;
        infer_grammar *g = NULL;
        infer__mem mem;
        infer_result r;
        check_detail = schemas[i];
        memset(&p, 0, sizeof p);
        p.schema = schemas[i];
        infer__mem_init(&mem, NULL, (uint64_t)70 << 20);
        r = infer__grammar_open(&g, &mem, NULL, &p, &err);
        CHECK(r == INFER_OK || r == INFER_ERR_UNSUPPORTED); /* not MEMORY: the limit above is not reached */
        infer__grammar_close(g);
    }
}

/* A million digits, or thousands of numbers of 800: each was read in a millisecond. */
static void test_budget_decimals(void) {
    char number[900], *text;
    infer__arena arena;
    infer__mem mem;
    infer_error err;
    const infer_json *v;
    double begin;
    size_t i;
    number[0] = ',';
    memcpy(number + 1, "0.", 2);
    for (i = 3; i < 800; i++) number[i] = (char)('0' + i * 7 % 10);
    number[800] = 0;
    text = budget_repeat("[1", number, 1000, "]");
    infer__mem_init(&mem, NULL, 0);
    memset(&arena, 0, sizeof arena);
    arena.mem = &mem;
    begin = budget_cpu();
    CHECK(infer__json_parse(&v, &arena, text, strlen(text), &err) == INFER_OK);
    CHECK(budget_cpu() - begin < 0.3 * BUDGET_SLOW);
    infer__arena_free(&arena);
    free(text);
}

#if !defined(CHECK_PARTS)
static infer_model *budget_model(const infer_limits *limits) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error err;
    memset(&p, 0, sizeof p);
    p.limits = *limits;
    p.vocab_only = 1;
    if (infer_model_open(&m, check_data("vocab-bpe-small.gguf"), &p, &err) != INFER_OK) check_note(__FILE__, __LINE__, err.message);
    return m;
}
static infer_result budget_call_tokenize(const infer_limits *limits, infer_error *err) {
    infer_model *m = budget_model(limits);
    char *text = budget_repeat("", "abc 12.", 20000, "");
    size_t count;
    infer_result r = infer_tokenize(m, text, strlen(text), 0, NULL, 0, &count, err);
    CHECK(r == INFER_OK || count == 0);
    free(text);
    CHECK(infer_model_close(m) == INFER_OK);
    return r;
}
static void test_budget_tokenize(void) { budget_ends(budget_call_tokenize, "tokenizing"); }

/* Memory for a text is at most ten times the text (JSON: forty times) and 64 MiB, then an error says so. */
static void test_budget_memory(void) {
    infer__mem mem;
    infer__arena arena;
    infer_error err;
    const infer_json *v;
    infer_grammar_params p;
    infer_grammar *g = NULL;
    char *text = budget_repeat("[1", ",1", 2000000, "]");
    uint64_t limit = INFER__JSON_TIMES * (uint64_t)strlen(text) + ((uint64_t)64 << 20);
    infer__mem_init(&mem, NULL, limit);
    memset(&arena, 0, sizeof arena);
    arena.mem = &mem;
    CHECK(infer__json_parse(&v, &arena, text, strlen(text), &err) == INFER_ERR_MEMORY);
    CHECK_HAS(err.message, "values");
    infer__arena_free(&arena);
    free(text);
    text = budget_repeat("[1", ",1", 400000, "]");
    CHECK(infer__json_parse(&v, &arena, text, strlen(text), &err) == INFER_OK && v->n == 400001);
    infer__arena_free(&arena);
    free(text);
    memset(&p, 0, sizeof p);
    p.gbnf = text = budget_repeat("root ::= \"", "abcd", 500000, "\"");
    limit = 10 * (uint64_t)strlen(text) + ((uint64_t)64 << 20);
    infer__mem_init(&mem, NULL, limit);
    CHECK(infer__grammar_open(&g, &mem, NULL, &p, &err) == INFER_ERR_FORMAT);
    CHECK_HAS(err.message, "too large");
    free(text);
    p.gbnf = text = budget_repeat("root ::= \"", "abcd", 200000, "\"");
    CHECK(infer__grammar_open(&g, &mem, NULL, &p, &err) == INFER_OK);
    infer__grammar_close(g);
    free(text);
}

/* An indentation makes no text of any length. */
static void test_budget_json_write(void) {
    char *text = budget_repeat("[1", ",1", 60000, "]"), *deep;
    infer_json *v;
    infer_error err;
    size_t len;
    CHECK(infer_json_parse(&v, text, strlen(text), NULL, &err) == INFER_OK);
    CHECK(infer_json_write(v, 64, NULL, 0, &len) == INFER_OK && len == 60001 * 67 + 2);
    CHECK(infer_json_write(v, 65, NULL, 0, &len) == INFER_ERR_ARGUMENT && len == 0);
    CHECK(infer_json_write(v, INT32_MAX, NULL, 0, &len) == INFER_ERR_ARGUMENT);
    infer_json_free(v);
    deep = (char *)malloc(strlen(text) + 500);
    memset(deep, '[', 250);
    strcpy(deep + 250, text);
    memset(deep + 250 + strlen(text), ']', 250);
    CHECK(infer_json_parse(&v, deep, 500 + strlen(text), NULL, &err) == INFER_OK);
    CHECK(infer_json_write(v, 64, NULL, 0, &len) == INFER_ERR_MEMORY && len == 0); /* 970 MB */
    CHECK(infer_json_write(v, 1, NULL, 0, &len) == INFER_OK);
    infer_json_free(v);
    free(text);
    free(deep);
}
#endif

static void suite_budget(void) {
#if !defined(INFER_NO_CHAT)
    RUN(test_budget_operations);
    RUN(test_budget_integers);
    RUN(test_budget_doubled_string);
#endif
    RUN(test_budget_limits);
    RUN(test_budget_schema_linear);
    RUN(test_budget_schema_enum_40000);
    RUN(test_budget_schema_memory);
    RUN(test_budget_decimals);
#if !defined(CHECK_PARTS)
    RUN(test_budget_tokenize);
    RUN(test_budget_json_write);
    RUN(test_budget_memory);
#endif
}
