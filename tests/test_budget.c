/* test_budget.c: what is not trusted ends in time: every operation of templates counts the bytes that it looks at, whole numbers
 * at the ends of their range, deadlines and cancelling, work of schemas, grammars and tokenizers that grows with their input
 * and no faster. Work is counted, time is CPU time with room: both so that a busy machine changes nothing. */
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CHECK_EMULATED)
enum { BUDGET_SLOW = 100 };
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
enum { BUDGET_SLOW = 100 };
#  else
enum { BUDGET_SLOW = 1 };
#  endif
#else
enum { BUDGET_SLOW = 1 };
#endif

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
    for (k = 0; k < n_cases; k++) {
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
        CHECK(seconds < 3.0 * BUDGET_SLOW);
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
#endif

static void suite_budget(void) {
#if !defined(INFER_NO_CHAT)
    RUN(test_budget_operations);
#endif
}
