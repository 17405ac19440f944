/* test_jinja.c: templates. The language against what Jinja2 made of recorded cases (tests/data/jinja-cases.jsonl, with
 * INFER_TEST_DATA the chat templates too); marks, errors, limits, memory by hand. Live: tests/cli/test_template.py. */

#if !defined(INFER_NO_CHAT)
#define JJ_NOW "2024-07-26 00:00:00"

/* Render a template with a context. Returns the result; the rendering is to be freed when that is INFER_OK. */
static infer_result jj_render(const char *text, size_t n, const char *context, const infer__render_options *options,
                              infer__rendered *out, infer_error *err) {
    infer__template *t = NULL;
    const infer_json *v = NULL;
    infer__arena arena;
    static infer__mem mem;
    infer__render_options o;
    infer_result r;
    infer__mem_init(&mem, NULL, 0);
    memset(&arena, 0, sizeof arena);
    arena.mem = &mem;
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    if (!o.now) o.now = JJ_NOW;
    CHECK(infer__json_parse(&v, &arena, context, strlen(context), err) == INFER_OK);
    r = infer__template_open(&t, &mem, text, n, err);
    if (r == INFER_OK) r = infer__template_render(t, v, &o, out, err);
    infer__template_close(t);
    infer__arena_free(&arena);
    return r;
}
static void jj_gives(const char *text, const char *context, const char *want) {
    infer__rendered r;
    infer_error err;
    check_detail = text;
    if (jj_render(text, strlen(text), context, NULL, &r, &err) != INFER_OK) { check_note(__FILE__, __LINE__, err.message); return; }
    CHECK_STR(r.text, want);
    infer__rendered_free(&r);
}
static void jj_fails(const char *text, infer_result code, const char *what) {
    infer__rendered r;
    infer_error err;
    infer_result got = jj_render(text, strlen(text), "{\"s\":\"abc\",\"n\":1,\"xs\":[1,2,3]}", NULL, &r, &err);
    check_detail = text;
    CHECK(got == code);
    if (got == INFER_OK) infer__rendered_free(&r);
    else CHECK_HAS(err.message, what);
}

static void test_jinja_language(void) {
    static const char c[] = "{\"s\":\"Hello\",\"n\":3,\"xs\":[1,2,3],\"d\":{\"a\":1}}";
    jj_gives("", c, "");
    jj_gives("a\r\nb\rc\n", c, "a\nb\nc");
    jj_gives("{% if n == 3 -%}\n  x\n{%- endif %}|{{ s[::-1] }}|{{ '%s' % n }}", c, "x|olleH|3");
    jj_gives("{% macro m(a, b=a) %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, 3) }}", c, "11()12(3,)");
    jj_gives("{% for x in xs if x != 2 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% endfor %}", c, "1/2:1,2/2:3");
    jj_gives("{% for x in [[1,[2,[3]]]] recursive %}{{ loop.depth }}{{ loop(x) if x is iterable else x }}{% endfor %}", c, "121232343");
    jj_gives("{% set ns = namespace(t=0) %}{% for x in xs %}{% set ns.t = ns.t + x %}{% set n = 9 %}{% endfor %}{{ ns.t }}{{ n }}", c, "63");
    jj_gives("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 5.5 // -2 }} {{ 1e16 }} {{ 0.1 + 0.2 }}", c,
             "-4 2 3.5 64 4 -3.0 1e+16 0.30000000000000004");
    jj_gives("{{ 9007199254740993 == 9007199254740992.0 }} {{ 1 == 1.0 == true }} {{ {1: 'a', true: 'b', 1.0: 'c'} }}", c, "False True {1: 'c'}");
    jj_gives("{{ [1, 'a\\'b', none, 2.0, (1,), {}] }} {{ undefined_name }}|{{ undefined_name is defined }}", c, "[1, \"a'b\", None, 2.0, (1,), {}] |False");
    jj_gives("{{ 2.675|round(2) }} {{ 2.5|round }} {{ '%.2f' % 2.675 }} {{ '%.0f' % 0.5 }} {{ '%e' % 12345.678 }} {{ '%g' % 1e20 }}", c,
             "2.67 2.0 2.67 0 1.234568e+04 1e+20");
    jj_gives("{{ 1250.0|round(-2) }} {{ 49.0|round(-2) }} {{ 51.5|round(-2) }} {{ -0.001|round(1, 'ceil') }} {{ '{:.3}'.format(352.0) }} {{ '{:.3}'.format(12.0) }}", c,
             "1200.0 0.0 100.0 0.0 3.52e+02 12.0");
    jj_gives("{{ strftime_now('%d %b %Y, %A %H:%M %-d %j %%') }}", c, "26 Jul 2024, Friday 00:00 26 208 %");
    jj_gives("{{ d|tojson(indent=2) }}{{ '<\xc3\xa9>'|tojson }}", c, "{\n  \"a\": 1\n}\"<\xc3\xa9>\"");
    jj_gives("{% generation %}x{% set y = 1 %}{% endgeneration %}{{ y is defined }}", c, "xFalse");
    jj_gives("{% macro m() %}<{{ caller(2) }}>{% endmacro %}{% call(a) m() %}{{ a + n }}{% endcall %}", c, "<5>");
}

static void test_jinja_errors(void) {
    jj_fails("a\n {{ x.y }}", INFER_ERR_FORMAT, "template, line 2 column 6: 'x' is undefined");
    jj_fails("{{ raise_exception('Only \"user\"') }}", INFER_ERR_STATE, "Only \"user\"");
    jj_fails("{% if x %}", INFER_ERR_FORMAT, "ends inside of a block");
    jj_fails("{% endif %}", INFER_ERR_FORMAT, "unknown tag 'endif'");
    jj_fails("{% include 'x' %}", INFER_ERR_UNSUPPORTED, "'include'");
    jj_fails("{% extends 'x' %}", INFER_ERR_UNSUPPORTED, "'extends'");
    jj_fails("{{ x|nosuch }}", INFER_ERR_FORMAT, "no filter named 'nosuch'");
    jj_fails("{{ xs|random }}", INFER_ERR_UNSUPPORTED, "random");
    jj_fails("{{ 'a }}", INFER_ERR_FORMAT, "a string that has no end");
    jj_fails("{{ (1 }}", INFER_ERR_FORMAT, "closing bracket");
    jj_fails("{# a", INFER_ERR_FORMAT, "comment");
    jj_fails("{% raw %}", INFER_ERR_FORMAT, "raw");
    jj_fails("\xff", INFER_ERR_FORMAT, "UTF-8");
    jj_fails("{{ 1 + 'a' }}", INFER_ERR_FORMAT, "unsupported operand");
    jj_fails("{{ 9223372036854775807 + 1 }}", INFER_ERR_FORMAT, "64 bits");
    jj_fails("{{ 3 ** 99 }}", INFER_ERR_FORMAT, "64 bits");
    jj_fails("{{ 99999999999999999999 }}", INFER_ERR_FORMAT, "64 bits");
    jj_fails("{{ 1 // 0 }}", INFER_ERR_FORMAT, "division by zero");
    jj_fails("{% break %}", INFER_ERR_FORMAT, "loop");
    jj_fails("{% set s.x = 1 %}", INFER_ERR_FORMAT, "namespace");
    jj_fails("{% for a, b in [[1]] %}{% endfor %}", INFER_ERR_FORMAT, "unpack");
    jj_fails("{% set a, b, c, d, e, f = [] %}", INFER_ERR_FORMAT, "not enough values to unpack");
}

/* What a hostile template can try. */
static void test_jinja_limits(void) {
    infer__render_options o;
    infer__rendered r;
    infer_error err;
    char *deep = (char *)malloc(200001);
    jj_fails("{{ range(10**9) }}", INFER_ERR_FORMAT, "range too big");
    jj_fails("{{ 'x' * 10**9 }}", INFER_ERR_MEMORY, "memory");
    jj_fails("{{ 'x' * 10**18 }}", INFER_ERR_MEMORY, "memory");
    jj_fails("{{ [0] * 10**12 }}", INFER_ERR_MEMORY, "");
    jj_fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", INFER_ERR_MEMORY, "levels");
    jj_fails("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", INFER_ERR_MEMORY, "levels");
    jj_fails("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", INFER_ERR_MEMORY, "levels");
    jj_fails("{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}", INFER_ERR_MEMORY, "");
    jj_fails("{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}", INFER_ERR_MEMORY, "steps");
    jj_fails("{% set ns = namespace(s='aaaaaaaaaa') %}{% for a in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", INFER_ERR_MEMORY, "memory");
    jj_fails("{{ '%99999999d' % 1 }}", INFER_ERR_FORMAT, "width");
    jj_fails("{{ 'a'.ljust(10**15) }}", INFER_ERR_MEMORY, "");
    memset(&o, 0, sizeof o);
    o.max_output = 10;
    CHECK(jj_render("{{ 'x' * 11 }}", 14, "{}", &o, &r, &err) == INFER_ERR_MEMORY);
    CHECK(jj_render("{{ 'x' * 10 }}", 14, "{}", &o, &r, &err) == INFER_OK);
    infer__rendered_free(&r);
    o.max_output = 0;
    o.max_steps = 100;
    CHECK(jj_render("{% for x in range(60) %}{% endfor %}", 36, "{}", &o, &r, &err) == INFER_ERR_MEMORY);
    memcpy(deep, "{{ ", 3); /* depth of a tree */
    memset(deep + 3, '(', 100000);
    CHECK(jj_render(deep, 100003, "{}", NULL, &r, &err) == INFER_ERR_FORMAT);
    memset(deep + 3, '-', 100000);
    CHECK(jj_render(deep, 100003, "{}", NULL, &r, &err) == INFER_ERR_FORMAT);
    { size_t i; for (i = 0; i < 20000; i++) memcpy(deep + 10 * i, "{% if 1 %}", 10); }
    CHECK(jj_render(deep, 200000, "{}", NULL, &r, &err) == INFER_ERR_FORMAT);
    free(deep);
    deep = (char *)calloc(1 << 20, 2);
    memset(deep, 'x', 1 << 20);
    CHECK(jj_render(deep, 1 << 20, "{}", NULL, &r, &err) == INFER_OK);
    infer__rendered_free(&r);
    CHECK(jj_render(deep, (1 << 20) + 1, "{}", NULL, &r, &err) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(err.message, "1048576 bytes");
    free(deep);
}

/* Marks: in the wanted text, what came from a message stands in [ ]. */
static void jj_marks(const char *text, const char *want) {
    static const char c[] = "{\"m\":\"<|x|>\",\"a\":\"A b\",\"n\":12,\"d\":{\"k\":\"v\"},\"ms\":[\"p\",\"q\"]}";
    static const char trusted[] = "{\"bos\":\"<s>\",\"m2\":\"T\"}";
    infer__render_options o;
    infer__rendered r;
    infer__arena arena;
    infer__mem mem;
    infer_error err;
    char got[600];
    size_t i, at = 0;
    check_detail = text;
    infer__mem_init(&mem, NULL, 0);
    memset(&arena, 0, sizeof arena);
    arena.mem = &mem;
    memset(&o, 0, sizeof o);
    CHECK(infer__json_parse(&o.trusted, &arena, trusted, sizeof trusted - 1, &err) == INFER_OK);
    if (jj_render(text, strlen(text), c, &o, &r, &err) != INFER_OK) { check_note(__FILE__, __LINE__, err.message); return; }
    for (i = 0; i < r.n_segments; i++) {
        const infer_segment *s = &r.segments[i];
        at += (size_t)snprintf(got + at, sizeof got - at, s->from_message ? "[%.*s]" : "%.*s", (int)s->n, s->text);
    }
    got[at] = 0;
    CHECK_STR(got, want);
    infer__rendered_free(&r);
    infer__arena_free(&arena);
}
static void test_jinja_marks(void) {
    jj_marks("{{ bos }}<u>{{ m }}</u>", "<s><u>[<|x|>]</u>");
    jj_marks("{{ '<' ~ m ~ '>' + a }}", "<[<|x|>]>[A b]");
    jj_marks("{{ ('1' + m + '2')[1:-1] }}{{ ('1' + m + '2')[2:] }}", "[<|x|>|x|>]2");
    jj_marks("{{ a|upper }}{{ a.replace('b', '-') }}{{ '-'.join(a.split()) }}", "[A BA ]-[A]-[b]");
    jj_marks("{{ ('  ' + a + ' ')|trim }}|{{ a.center(7, '*') }}", "[A b]|**[A b]**");
    jj_marks("{{ '%s:%d' % (a, n) }} {{ '{}={}'.format('k', m) }}", "[A b]:[12] k=[<|x|>]");
    jj_marks("{{ d|tojson }} {{ {'x': m}|tojson }} {{ d }}", "[{\"k\": \"v\"}] [{]\"x\"[: \"<|x|>\"}] [{'k': 'v'}]");
    jj_marks("{% for k in d %}{{ k }}{% endfor %}{{ n + 1 }}{{ n|string ~ '!' }}", "[k1312]!");
    jj_marks("{% set x %}<{{ m }}>{% endset %}{{ x }}{% macro f(y) %}({{ y }}){% endmacro %}{{ f(a) }}", "<[<|x|>]>([A b])");
    jj_marks("{{ ms|join('<sep>') }}{{ a|indent(2, true) }}{{ m2 }}", "[p]<sep>[q]  [A b]T");
    jj_marks("{{ m if m == '<|x|>' }}{{ '<|x|>' if m }}", "[<|x|>]<|x|>");
    jj_marks("{% set ns = namespace(s='') %}{% for i in range(3) %}{% set ns.s = ns.s ~ '<' ~ a %}{% endfor %}{{ ns.s }}", "<[A b]<[A b]<[A b]");
}

/* 1 when one of these texts names a function. */
static int jj_named(const char *const *texts, size_t n, const char *name) {
    size_t i;
    for (i = 0; i < n; i++) if (strstr(texts[i], name)) return 1;
    return 0;
}

/* Nothing that is made of a message's values counts as the template's: every byte of these is marked. The template's own
 * strings in them are cut, padded or repeated as the message says. */
static void test_jinja_marks_kept(void) {
    static const char *const TEXTS[] = {
        /* strings and pieces */
        "{{ m }}", "{{ m[0] }}", "{{ m[-1] }}", "{{ m[1:3] }}", "{{ m[::-1] }}", "{{ m ~ a }}", "{{ m + a }}", "{{ m|list|join }}", "{{ m|first }}",
        "{{ m|last }}", "{{ m|reverse }}", "{{ m|upper }}", "{{ a|lower }}", "{{ a|title }}", "{{ a|capitalize }}", "{{ a.swapcase() }}",
        "{{ a|trim }}", "{{ a.strip('A') }}", "{{ a.split() }}", "{{ a.split(' ')[1] }}", "{{ a.rsplit(' ', 1)|last }}", "{{ a.partition(' ')|join }}",
        "{{ a.rpartition('x')[2] }}", "{{ a.splitlines()[0] }}", "{{ a.removeprefix('A') }}", "{{ a.removesuffix('b') }}", "{{ a.replace('A', '') }}",
        "{{ m|e }}", "{{ m|forceescape }}", "{{ m|safe }}", "{{ m|urlencode }}", "{{ m|string }}", "{{ m|striptags }}{{ a|striptags }}",
        "{{ 'x y'|truncate(1, true, m[:1], 0) }}", "{{ (a ~ a ~ a ~ a)|truncate(5, true, leeway=0) }}", "{{ a|indent(0) }}", "{{ m * 2 }}",
        "{{ (m ~ '\t' ~ n)|replace('\t', '')|expandtabs if 0 else m.expandtabs() }}", "{{ a.encode if 0 else a.title() }}", "{{ a.join(['', '']) }}",
        "{% for c in m %}{{ c }}{% endfor %}", "{% for w in a.split() %}{{ w }}{% endfor %}", "{% set x, y = ms %}{{ x }}{{ y }}",
        "{% set x %}{{ m }}{% endset %}{{ x }}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(m) }}", "{% filter upper %}{{ a }}{% endfilter %}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{{ m }}{% endcall %}", "{% with x = m %}{{ x }}{% endwith %}",
        "{% set ns = namespace(x=m) %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.x = m %}{{ ns.x }}", "{{ dict(x=m).x }}", "{{ [m][0] }}",
        "{{ {'x': m}.x }}", "{{ {m: 1}|first }}", "{{ {m: 1}.keys()|list|first }}", "{{ (m, 1)[0] }}", "{{ cycler(m).next() }}",
        "{{ m if m else 'x' }}", "{{ m or 'x' }}", "{{ '' or m }}", "{{ m|default('x') }}", "{{ zz|default(m) }}", "{{ [m, 'zzz']|min }}",
        "{{ [m]|sort|first }}", "{{ [m]|unique|first }}", "{{ [m]|map('upper')|first }}", "{{ [m]|select|first }}", "{{ [m]|batch(1)|first|first }}",
        "{{ [{'x': m}]|map(attribute='x')|first }}", "{{ [{'x': m}]|groupby('x')|map('first')|first }}", "{{ {'x': m}|dictsort|map('last')|first }}",
        "{{ {'x': m}|items|map('last')|first }}", "{{ d|xmlattr }}", "{{ d|urlencode }}", "{{ ms|join }}", "{{ ms|join(m) }}", "{{ m.join(ms) }}",
        "{{ '%s' % m }}", "{{ '%.2s' % m }}", "{{ '%r' % m }}", "{{ '{}'.format(m) }}", "{{ '{0[1]}'.format(m) }}", "{{ '{x.k}'.format(x=d) }}",
        "{{ '{!r}'.format(m) }}", "{{ m|format if 0 else '%s'|format(m) }}", "{{ d|tojson }}", "{{ m|tojson }}", "{{ n|tojson }}", "{{ ms|tojson(indent=1) }}",
        "{{ [m] if 0 else d }}", "{{ ms }}", "{{ e }}", "{{ e|tojson }}", "{{ o }}", "{{ z }}", "{{ t }}{{ t|tojson }}", "{{ z|tojson }}", "{{ {n: n}|first }}",
        /* numbers and what is made of them */
        "{{ n }}", "{{ n + 1 }}", "{{ 1 - n }}", "{{ -n }}", "{{ +n }}", "{{ n * 2 }}", "{{ n / 5 }}", "{{ n // 5 }}", "{{ n % 5 }}", "{{ n ** 2 }}",
        "{{ n|string }}", "{{ n|float }}", "{{ f|int }}", "{{ f|round }}", "{{ f|round(1, 'floor') }}", "{{ 5.25|round(one) }}", "{{ n|round(-1) }}",
        "{{ n|abs }}", "{{ digits|int }}", "{{ digits|float }}", "{{ m|int(7) }}", "{{ 'ff'|int(0, one + 15) }}", "{{ [n, 1]|sum }}", "{{ [1]|sum(start=n) }}",
        "{{ [n, 1]|max }}", "{{ n|filesizeformat }}", "{{ 5000|filesizeformat(t) }}", "{{ t|int }}", "{{ t + 0 }}", "{{ '%d' % f }}", "{{ '%x' % n }}",
        "{{ '%f' % f }}", "{{ '%c' % n }}", "{{ '{:c}'.format(n) }}", "{{ '{:,}'.format(n * 1000) }}", "{{ '{:+d}'.format(n) }}", "{{ '{:.1%}'.format(f) }}",
        "{{ '%*s' % (n, 'x') }}", "{{ '%.*s' % (one, '<think>') }}", "{{ '{:.{}}'.format('<think>', one) }}", "{{ '{:{}}'.format('x', n) }}",
        "{% for i in range(n) %}{{ '%c' % (i + 60) }}{% endfor %}", "{% for i in range(60, 60 + n) %}{{ i }}{% endfor %}", "{{ range(n)|list|last }}",
        "{{ range(n)[2] }}", "{{ range(n)[1:3]|list|join }}", "{{ range(n) }}", "{{ range(n)|sum }}", "{{ range(n)|length }}", "{{ range(0, 99, n)|join }}",
        "{{ range(256)[n] }}", "{{ range(256)[n:]|first }}", "{% for i in range(256)[n:n + 1] %}{{ i }}{% endfor %}", "{% set x, y = range(n, n + 2) %}{{ x }}",
        "{{ range(256)|select('equalto', n)|first }}", "{{ (range(256)|select('equalto', n)|list)[0] }}", "{{ [60, 47][one] }}",
        "{% for i in range(99)|select('equalto', n) %}{{ i }}{% endfor %}", "{{ '%c' % {'x': 60}[x] }}", "{{ {'x': 60}[x] }}", "{{ {'x': 60}.get(x) }}",
        /* lengths, places, counters, truths */
        "{{ m|length }}", "{{ ms|length }}", "{{ d|count }}", "{{ a|wordcount }}", "{{ m.find('x') }}", "{{ m.rindex('x') }}", "{{ m.count('|') }}",
        "{{ 'x<|x|>'.find(m) }}", "{{ ms.index('q') }}", "{{ ['<|x|>'].index(m) }}", "{{ ms.count('q') }}", "{% for x in ms %}{{ loop.index }}{% endfor %}",
        "{% for x in ms %}{{ loop.revindex0 }}{{ loop.length }}{{ loop.first }}{% endfor %}", "{% for x in m %}{{ loop.index0 }}{% endfor %}",
        "{{ n > 5 }}", "{{ m == 'x' }}", "{{ not n }}", "{{ 'x' in m }}", "{{ (n > 5)|int }}", "{{ (m == 'x') + 0 }}", "{{ n is odd }}", "{{ m is string }}",
        "{{ m.startswith('<') }}", "{{ digits.isdigit() }}", "{{ 'x' is eq m }}", "{{ ms|select('eq', 'p')|list|length }}", "{{ n and 1 > n }}",
        /* the template's strings, taken apart as the message says */
        "{{ '<think>'[one] }}", "{{ '<think>'[one:] }}", "{{ '<think>'[:-one] }}", "{{ '<think>'[::one] }}", "{{ 'ab' * n }}", "{{ n * 'ab' }}",
        "{{ '<think>'.strip(x) }}", "{{ '<think>x'|trim(x) }}", "{{ '<axb>'.split(x) }}", "{{ '<axb>'.split(x)[1] }}", "{{ '<axb>'.partition(x)[2] }}",
        "{{ 'x<a>'.removeprefix(x) }}", "{{ '<a>x'.removesuffix(x) }}", "{{ '<axb>'.replace(x, '') }}", "{{ '<axb>'.replace('x', '', one) }}",
        "{{ '<think>'|truncate(one, true, '', 0) }}", "{{ 'x'.center(n) }}", "{{ 'x'|center(n) }}", "{{ 'x'.ljust(n, '<') }}", "{{ '5'.zfill(n) }}",
        "{{ 'x'|indent(n, true) }}", "{{ '\t'.expandtabs(n) }}", "{{ ['<a']|map(attribute=zero)|first }}", "{{ (brace ~ '0[1]}').format('<a') }}",
        "{{ [n, n]|tojson(separators=(x, x)) }}", "{{ [n]|tojson(indent=x) }}", "{{ [n]|tojson(indent=one) }}", "{{ [[]]|tojson(separators=(x, x)) }}", "{{ strftime_now(time) }}",
        /* the other rows of the tables */
        "{{ m|escape }}", "{{ [m]|reject|join ~ m }}", "{{ [d]|selectattr('k')|map(attribute='k')|first }}", "{{ [d]|rejectattr('x')|first }}",
        "{{ ms|slice(1)|first|first }}", "{{ ms|slice(n)|list|length }}", "{{ a.casefold() }}", "{{ m.endswith('>') }}", "{{ a.isalnum() }}",
        "{{ a.isalpha() }}", "{{ a.isascii() }}", "{{ digits.isdecimal() }}", "{{ a.isidentifier() }}", "{{ a.islower() }}", "{{ a.isnumeric() }}",
        "{{ a.isspace() }}", "{{ a.istitle() }}", "{{ a.isupper() }}", "{{ a.lstrip('A') }}", "{{ a.rstrip('b') }}", "{{ '<a>x'.rstrip(x) }}",
        "{{ 'x<a>'.lstrip(x) }}", "{{ m.rfind('x') }}", "{{ m.index('x') }}", "{{ 'x'.rjust(n) }}", "{{ d|attr('get')('k') }}",
        "{% set l = [] %}{% set q = l.append(m) %}{{ l[0] }}{{ l.pop() }}", "{% set l = [m].copy() %}{% set q = l.insert(0, a) %}{{ l[0] }}{{ l }}",
        "{% set l = ['x'] %}{% set q = l.extend(ms) %}{% set q = l.remove('x') %}{% set q = l.reverse() %}{% set q = l.sort() %}{{ l[1] }}",
        "{% set l = [m] %}{% set q = l.clear() %}{{ m }}", "{% set e = {'x': m}.copy() %}{{ e.pop('x') }}", "{{ {m: a}.popitem()|join }}",
        "{% set e = {} %}{{ e.setdefault('x', m) }}{{ e.x }}", "{% set e = {} %}{% set q = e.update(x=m) %}{{ e.values()|first }}",
        "{% set e = {'x': m} %}{% set q = e.clear() %}{{ m }}", "{{ n != 5 }}{{ n <= 5 }}{{ n >= 5 }}{{ n is divisibleby 5 }}{{ n is even }}", "{{ n is ge 5 }}",
        "{{ m is defined }}{{ m is escaped }}{{ m is boolean }}{{ n is sameas 5 }}{{ m is sequence }}{{ n is in [1] }}", "{% set j = joiner(m) %}{{ j() }}{{ j() }}",
        "{% for x in ms %}{{ loop.changed(x) }}{{ loop.cycle(m, a) }}{% endfor %}", "{% for x in ms %}{{ loop.nextitem }}{{ loop.previtem }}{% endfor %}",
        "{% for x in [1, 2] if x < n %}{% for y in ms recursive %}{{ loop.depth }}{% endfor %}{% endfor %}"};
    static const char CONTEXT[] = "{\"m\":\"<|x|>\",\"a\":\"A b\",\"n\":12,\"d\":{\"k\":\"v\"},\"ms\":[\"p\",\"q\"],\"e\":[],\"o\":{},\"z\":null,\"t\":true,"
                                  "\"f\":3.25,\"one\":1,\"digits\":\"42\",\"x\":\"x\",\"zero\":\"0\",\"brace\":\"{\",\"time\":\"%Y%n%%%F%p\"}";
    size_t i, k, unmarked;
    for (i = 0; i < INFER__COUNT(TEXTS); i++) {
        infer__render_options o;
        infer__rendered r;
        infer_error err;
        char m[500];
        check_detail = TEXTS[i];
        memset(&o, 0, sizeof o);
        o.now = "2024-07-26 00:00:00";
        if (jj_render(TEXTS[i], strlen(TEXTS[i]), CONTEXT, &o, &r, &err) != INFER_OK) {
            check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        for (k = unmarked = 0; k < r.n_segments; k++) unmarked += r.segments[k].from_message ? 0 : r.segments[k].n;
        snprintf(m, sizeof m, "%d bytes without a mark in \"%.300s\"", (int)unmarked, r.text);
        if (unmarked || r.n == 0) check_note(__FILE__, __LINE__, m);
        infer__rendered_free(&r);
    }
#define JJ_NAMED(table)                                                                                              \
    for (i = 0; i < INFER__COUNT(table); i++) {                                                                      \
        check_detail = table[i].name;                                                                                \
        CHECK(table[i].run == infer__jfilter_refused || jj_named(TEXTS, INFER__COUNT(TEXTS), table[i].name));        \
    }
    JJ_NAMED(INFER__JFILTERS) /* a new function gets a text */
    JJ_NAMED(INFER__JSTR_METHODS)
    JJ_NAMED(INFER__JLIST_METHODS)
    JJ_NAMED(INFER__JDICT_METHODS)
    JJ_NAMED(INFER__JLOOP_METHODS)
}

/* What a message only chooses stays the template's. */
static void test_jinja_marks_chosen(void) {
    jj_marks("{{ {'A b': '<x>'}[a] }}{{ ['<y>', '<z>'][n - 11] }}{{ {'A b': '<x>'}.get(a) }}", "<x><z><x>");
    jj_marks("{% if n > 5 %}<a>{% endif %}{{ '<b>' if m else '<c>' }}{{ m and '<d>' }}", "<a><b><d>");
    jj_marks("{% for i in range(n) %}{% if i < 2 %}<s>{% endif %}{% endfor %}{% for x in ms %}<i>{% endfor %}", "<s><s><i><i>");
    jj_marks("{{ a.replace(' ', '<s>') }}{{ 'x-y'.replace('-', a) }}{{ 'x-y'|replace(old='-', new=a) }}", "[A]<s>[b]x[A b]yx[A b]y");
    jj_marks("{{ '<|' ~ n ~ '|>' }}{{ '<{}>{}</>'.format(a, n) }}{{ '%s:%5d|' % ('<k>', n) }}", "<|[12]|><[A b]>[12]</><k>:   [12]|");
    jj_marks("{{ ['<a>', '<b>']|join('<s>') }}{{ ['<a>', m]|last }}{{ ['<a>', '<b>']|select('ne', m)|join }}", "<a><s><b>[<|x|>]<a><b>");
    jj_marks("{{ {'x': '<b>', 'y': n}|tojson }}{{ 3 + 4 }}{{ '%d' % 5 }}{{ 'ab'|length }}{{ range(3)|join }}{{ 1 == 1 }}",
             "[{]\"x\"[: ]\"<b>\"[, ]\"y\"[: 12}]7520" "12True");
    jj_marks("{{ '<a-b>'.split('-')[1] }}{{ '<a>'[1:] }}{{ 'x'.center(3) }}{{ 'ab' * 2 }}{% for x in [1] %}{{ loop.index }}{% endfor %}", "b>a> x abab1");
}

/* Long texts that are put together piece by piece take linear time and memory, and pieces do not disturb each other. */
static void test_jinja_append(void) {
    infer__rendered r;
    infer_error err;
    static const char t[] = "{% set ns = namespace(s='') %}{% for i in range(20000) %}{% set ns.s = ns.s ~ 'line ' ~ i ~ '\\n' %}{% endfor %}{{ ns.s|length }}";
    CHECK(jj_render(t, sizeof t - 1, "{}", NULL, &r, &err) == INFER_OK);
    CHECK_STR(r.text, "208890");
    infer__rendered_free(&r);
    jj_gives("{% set a = 'x' * 300 %}{% set b = a ~ 'b' %}{% set c = a ~ 'c' %}{% set d = b ~ 'd' %}{% set e = b ~ 'e' %}"
             "{{ b[-2:] }} {{ c[-2:] }} {{ d[-3:] }} {{ e[-3:] }}", "{}", "xb xc xbd xbe");
}

/* One line of recorded cases: template, context, and expected or error (raised: the message of raise_exception). */
static void jj_case(const infer_json *v, infer__mem *mem, const char *template_text, size_t template_n, const infer_json *context) {
    const infer_json *expected = infer__json_get(v, "expected", 8), *error = infer__json_get(v, "error", 5);
    infer__template *t = NULL;
    infer__render_options o;
    infer__rendered r;
    infer_error err;
    infer_result got = infer__template_open(&t, mem, template_text, template_n, &err);
    memset(&o, 0, sizeof o);
    o.now = JJ_NOW;
    if (got == INFER_OK) got = infer__template_render(t, context, &o, &r, &err);
    infer__template_close(t);
    if (expected) {
        CHECK(got == INFER_OK);
        if (got != INFER_OK) { check_note(__FILE__, __LINE__, err.message); return; }
        CHECK(r.n == expected->n && memcmp(r.text, expected->s, r.n) == 0);
    } else {
        CHECK(got != INFER_OK);
        if (error && error->kind == INFER_JSON_STRING) CHECK(got == INFER_ERR_STATE && strncmp(err.message, error->s, 480) == 0);
    }
    if (got == INFER_OK) infer__rendered_free(&r);
}

/* Each line of a file. templates, contexts: where named ones are; NULL = they are in the line. Returns the number of lines. */
static int jj_cases(const char *path, const char *templates, const char *contexts) {
    size_t n, from, to;
    char *text = check_read(path, &n), name[400];
    int count = 0;
    infer__mem mem;
    infer__arena shared;
    const infer_json *usual = NULL; /* the context of lines that have none: that of the first line */
    if (!text) return 0;
    infer__mem_init(&mem, NULL, 0);
    memset(&shared, 0, sizeof shared);
    shared.mem = &mem;
    for (from = 0; from < n; from = to + 1) {
        infer__arena arena;
        const infer_json *v, *t, *c;
        infer_error err;
        char *own = NULL, *context = NULL;
        size_t own_n = 0, context_n = 0;
        memset(&arena, 0, sizeof arena);
        arena.mem = &mem;
        for (to = from; to < n && text[to] != '\n'; to++) {}
        if (to == from) continue;
        if (infer__json_parse(&v, count ? &arena : &shared, text + from, to - from, &err) != INFER_OK) { check_note(__FILE__, __LINE__, err.message); break; }
        t = infer__json_get(v, "template", 8);
        c = infer__json_get(v, "context", 7);
        if (count == 0) usual = c;
        if (!c) c = usual;
        snprintf(name, sizeof name, "%.300s", t->s);
        check_detail = name;
        if (templates) {
            own = check_read(check_path(templates, t->s), &own_n);
            snprintf(name, sizeof name, "%.200s.json", c->s);
            context = check_read(check_path(contexts, name), &context_n);
            snprintf(name, sizeof name, "%.200s %.100s", t->s, c->s);
            CHECK(own && context && infer__json_parse(&c, &arena, context, context_n, &err) == INFER_OK);
        }
        if (!templates) jj_case(v, &mem, t->s, (size_t)t->n, c);
        else if (own && context) jj_case(v, &mem, own, own_n, c);
        free(own);
        free(context);
        infer__arena_free(&arena);
        count++;
    }
    infer__arena_free(&shared);
    CHECK(infer__atomic_get(&mem.used) == 0);
    free(text);
    return count;
}
static void test_jinja_recorded(void) { CHECK(jj_cases(check_data("jinja-cases.jsonl"), NULL, NULL) > 500); }
static void test_jinja_references(void) {
    const char *dir = check_reference("chat-templates");
    char folder[700], templates[720], contexts[720];
    if (!dir) SKIP("needs INFER_TEST_DATA: chat-templates");
    snprintf(folder, sizeof folder, "%.600s", dir);
    snprintf(templates, sizeof templates, "%s/templates", folder);
    snprintf(contexts, sizeof contexts, "%s/contexts", folder);
    CHECK(jj_cases(check_path(folder, "cases.jsonl"), templates, contexts) > 300);
    CHECK(jj_cases(check_path(folder, "jinja-syntax.jsonl"), NULL, NULL) > 100);
}

static void test_jinja_uses(void) {
    static const char t[] = "{% for m in messages %}{{ m.x }}{% endfor %}{% if tools is defined %}{% endif %}{% set y = 1 %}{% macro f(z) %}{% endmacro %}{{ 'enable_thinking' }}";
    infer__template *p;
    infer__mem mem;
    infer__mem_init(&mem, NULL, 0);
    CHECK(infer__template_open(&p, &mem, t, sizeof t - 1, NULL) == INFER_OK);
    CHECK(infer__template_uses(p, "messages") && infer__template_uses(p, "tools"));
    CHECK(!infer__template_uses(p, "y") && !infer__template_uses(p, "enable_thinking") && !infer__template_uses(p, "x"));
    infer__template_close(p);
}

/* Every allocation fails once: an error, nothing is lost. */
static void test_jinja_memory(void) {
    static const char t[] = "{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{% for x in xs if x %}{{ m(x, b=loop.index) }}{% endfor %}{{ d|tojson(indent=1) }}"
                            "{{ xs|map('string')|join(',') }}{{ '%s-%5.1f' % (s, 2.25) }}{{ s.split(' ')|sort|list }}{% set q = s ~ 1 ~ s %}{{ q[::2] }}";
    static const char c[] = "{\"xs\":[1,2,0,3],\"s\":\"one two\",\"d\":{\"k\":[1,{\"z\":null}]}}";
    infer_allocator a = { NULL, check_alloc, check_free };
    infer__mem mem, json_mem;
    infer__arena arena;
    const infer_json *v;
    infer_error err;
    long at;
    infer__mem_init(&json_mem, NULL, 0);
    memset(&arena, 0, sizeof arena);
    arena.mem = &json_mem;
    CHECK(infer__json_parse(&v, &arena, c, sizeof c - 1, &err) == INFER_OK);
    check_live = 0;
    for (at = 1; at < 1000; at++) {
        infer__template *p = NULL;
        infer__rendered out;
        infer_result r;
        infer__mem_init(&mem, &a, 0);
        check_allocs = 0; check_fail_at = at;
        r = infer__template_open(&p, &mem, t, sizeof t - 1, &err);
        if (r == INFER_OK) r = infer__template_render(p, v, NULL, &out, &err);
        check_fail_at = 0;
        if (r == INFER_OK) infer__rendered_free(&out);
        infer__template_close(p);
        CHECK(check_live == 0 && infer__atomic_get(&mem.used) == 0);
        if (r == INFER_OK) break;
        CHECK(r == INFER_ERR_MEMORY);
        CHECK_HAS(err.message, "memory");
    }
    CHECK(at > 5 && at < 1000);
    infer__arena_free(&arena);
}

/* Memory ends in the middle of every rule of the parser: blocks of nodes and the stack of kids grow at any of them, when more
 * or fewer kids lie before it. Under ASan: the parser read behind the token that stands for the end. */
static void test_jinja_parse_memory(void) {
    static const char *const rules[] = {"f(1)", "f(a=1)(*b)", "'a'", "'a' 'b'", "1", "1.5", "[1]", "{1:2}", "(1,2)", "x.y", "x[1]", "x[::2]", "x is y",
                                        "x is not y(1)", "x|y.z(1)", "a < b", "a not in b", "not a", "a ~ b", "-a ** b", "a if b else c", "none", "(f|g)(1)"};
    infer_allocator a = { NULL, check_alloc, check_free };
    size_t i, n, at;
    check_live = 0;
    for (i = 0; i < sizeof rules / sizeof *rules; i++) {
        for (n = 0; n < 200; n++) {
            char text[2048] = "{% if x %}{{ [";
            size_t len = strlen(text);
            check_detail = rules[i];
            for (at = 0; at < n; at++, len += 2) memcpy(text + len, "1,", 2);
            snprintf(text + len, sizeof text - len, "%s] }}{%% endif %%}", rules[i]);
            for (at = 1;; at++) {
                infer__template *p = NULL;
                infer__mem mem;
                infer_error err;
                infer_result r;
                infer__mem_init(&mem, &a, 0);
                check_allocs = 0; check_fail_at = (long)at;
                r = infer__template_open(&p, &mem, text, strlen(text), &err);
                check_fail_at = 0;
                infer__template_close(p);
                CHECK(check_live == 0 && (r == INFER_OK || (r == INFER_ERR_MEMORY && strstr(err.message, "memory"))));
                if (r == INFER_OK || check_bad) break;
            }
        }
    }
    check_detail = "";
}


#if !defined(CHECK_PARTS) /* the text layer alone has no public calls */
static void test_jinja_api(void) {
    static const char text[] = "<s>{{ m }}{{ bos }}";
    infer_allocator a = { NULL, check_alloc, check_free };
    infer_template_params params;
    infer_template *t = (infer_template *)1;
    infer_rendering *r = (infer_rendering *)1;
    infer_json *context, *trusted, *list;
    infer_error err;
    long at;
    CHECK(infer_json_parse(&context, "{\"m\":\"hi\"}", 10, NULL, &err) == INFER_OK);
    CHECK(infer_json_parse(&trusted, "{\"bos\":\"B\"}", 11, NULL, &err) == INFER_OK);
    CHECK(infer_json_parse(&list, "[]", 2, NULL, &err) == INFER_OK);
    memset(&params, 0, sizeof params);
    params.trusted = trusted;
    CHECK(infer_template_create(NULL, text, 1, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_template_create(&t, NULL, 1, NULL, &err) == INFER_ERR_ARGUMENT && t == NULL);
    CHECK(infer_template_create(&t, "{{", 2, NULL, &err) == INFER_ERR_FORMAT && t == NULL);
    CHECK_HAS(err.message, "line 1 column 1");
    check_live = 0;
    for (at = 1; at < 100; at++) {
        infer_result result;
        check_allocs = 0; check_fail_at = at;
        result = infer_template_create(&t, text, sizeof text - 1, &a, &err);
        if (result == INFER_OK) result = infer_template_render(t, context, &params, &r, &err);
        check_fail_at = 0;
        if (result == INFER_OK) break;
        CHECK(result == INFER_ERR_MEMORY);
        infer_template_destroy(t);
        CHECK(check_live == 0);
    }
    CHECK(at > 3 && at < 100);
    infer_rendering_free(r);
    CHECK(infer_template_render(t, list, NULL, &r, &err) == INFER_ERR_ARGUMENT && r == NULL);
    CHECK(infer_template_render(NULL, context, NULL, &r, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_template_render(t, context, NULL, NULL, &err) == INFER_ERR_ARGUMENT);
    params.max_output = 4;
    CHECK(infer_template_render(t, context, &params, &r, &err) == INFER_ERR_MEMORY && r == NULL);
    params.max_output = 0;
    CHECK(infer_template_render(t, context, &params, &r, &err) == INFER_OK && err.code == INFER_OK);
    infer_template_destroy(t); /* the rendering stays */
    CHECK_STR(r->text, "<s>hiB");
    CHECK(r->n == 6 && r->n_segments == 3 && r->segments[1].from_message && !r->segments[2].from_message && r->segments[1].n == 2);
    infer_rendering_free(r);
    infer_template_destroy(NULL);
    infer_rendering_free(NULL);
    infer_json_free(context);
    infer_json_free(trusted);
    infer_json_free(list);
}
#endif
#endif

static void suite_jinja(void) {
#if !defined(INFER_NO_CHAT)
    RUN(test_jinja_language);
    RUN(test_jinja_errors);
    RUN(test_jinja_limits);
    RUN(test_jinja_marks);
    RUN(test_jinja_marks_kept);
    RUN(test_jinja_marks_chosen);
    RUN(test_jinja_append);
    RUN(test_jinja_recorded);
    RUN(test_jinja_references);
    RUN(test_jinja_uses);
    RUN(test_jinja_memory);
    RUN(test_jinja_parse_memory);
#  if !defined(CHECK_PARTS)
    RUN(test_jinja_api);
#  endif
#endif
}
