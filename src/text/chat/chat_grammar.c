/* chat_grammar.c: the grammar of replies that call tools, as the template's format writes calls.
 *
 * Owns:  infer__call_maker: rows of CHAT_CALLS -> expressions around the arguments of schema.c, written as one grammar.
 * Rules: what the grammar allows, chat_call.c reads as calls of the tools that were asked for, with arguments that
 *        satisfy their schemas. So a text between tags has no closing tag in it, and a string that the reader would
 *        take for another value (see infer__chat_value_put) is not written where the schema allows both. Marks that are
 *        tokens are those tokens.
 * Start: infer__chat_grammar.
 */
#include "chat.h"
#include "../schema/schema.h"

enum { INFER__CALLS_USUAL = 16 }; /* the most calls of a reply, unless the caller says */

typedef struct infer__call_maker {
    infer__schema c;
    infer__args args;
    const infer__chat_reader *p;
    const infer__calls_wanted *want;
    const infer__chat_call_kind *k;
    const infer_json **names;    /* of n tools that may be called, */
    const infer__sx **arguments; /* and the rules of theirs */
    uint32_t n;
} infer__call_maker;

static const infer_json INFER__CALL_NO_PARAMETERS = {.kind = INFER_JSON_OBJECT};

/* A mark: its special tokens as such, what is between them as text. */
static const infer__sx *infer__call_mark(infer__call_maker *m, const char *s) {
    const infer__tokenizer *t = m->want->tokenizer;
    const size_t n = s ? strlen(s) : 0;
    const infer__sx *x = &INFER__SX_NOTHING;
    infer_token ids[64];
    char text[64];
    size_t count = 0, at = 0, i, len, found;
    if (t && n && infer__tokenize(t, m->c.mem, s, n, INFER_TEXT_PARSE_SPECIAL, ids, 64, &count, NULL) != INFER_OK)
        count = 0;
    for (i = 0; i < INFER__MIN(count, 64); i++) {
        const int32_t flags = infer__token_flags(t, ids[i]);
        if (!(flags & (INFER_TOKEN_CONTROL | INFER_TOKEN_USER))) continue;
        if (infer__token_text(t, ids[i], text, sizeof text, &len) != INFER_OK || len == 0 || len > sizeof text)
            continue;
        if (!(flags & INFER_TOKEN_CONTROL) && !strchr("<[]", text[0])) continue; /* white space, perhaps */
        if ((found = infer__chat_find(s, n, at, text, len)) == n) continue;
        x = infer__sx_pair(&m->c, x, infer__sx_text(&m->c, s + at, found - at));
        x = infer__sx_pair(&m->c, x, infer__sx_token(&m->c, ids[i]));
        at = found + len;
    }
    return infer__sx_pair(&m->c, x, infer__sx_text(&m->c, s + at, n - at));
}

/* Up to n line breaks. */
static const infer__sx *infer__call_break(infer__call_maker *m, uint32_t n) {
    return infer__sx_rep(&m->c, infer__sx_word(&m->c, "\n"), 0, n);
}

/* ---- an argument between tags -------------------------------------------------------------------------------- */

/* What a string must not look like where other values may stand too: to infer__chat_value_put it would be one. */
static const struct { unsigned kinds; const char *pattern; } INFER__CALL_TAKEN[] = {
    {1u << INFER_JSON_NULL, "^\\s*(null|None)\\s*$"},
    {1u << INFER_JSON_TRUE, "^\\s*[tT]rue\\s*$"},
    {1u << INFER_JSON_FALSE, "^\\s*[fF]alse\\s*$"},
    {1u << INFER_JSON_INT | 1u << INFER_JSON_FLOAT, "^\\s*[-+]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][-+]?[0-9]*)?\\s*$"},
    {1u << INFER_JSON_ARRAY, "^\\s*[\\[(]"},
    {1u << INFER_JSON_OBJECT, "^\\s*\\{"}};

/* A string of an enum as it is, if it is read as that again. */
static const infer__sx *infer__call_literal(infer__call_maker *m, const infer_json *v, const infer_json *schema) {
    const infer__sx *x = &INFER__SX_NONE;
    infer__bytes read, want;
    size_t i, n = (size_t)v->n;
    if (v->kind != INFER_JSON_STRING) return x;
    for (i = 0; i < INFER__COUNT(m->c.avoid) && m->c.avoid[i]; i++)
        if (n && infer__chat_find(v->s, n, 0, m->c.avoid[i], strlen(m->c.avoid[i])) < n) return x;
    memset(&read, 0, sizeof read);
    memset(&want, 0, sizeof want);
    read.mem = want.mem = m->c.mem;
    infer__chat_value_put(&read, v->s, n, schema,
                          m->k->flags & INFER__CALL_TYPED ? INFER__VALUE_STRING : INFER__VALUE_TYPED);
    infer__json_quote(&want, v->s, n);
    if (read.failed || want.failed) infer__schema_no_memory(&m->c);
    else if (read.n == want.n && memcmp(read.s, want.s, want.n) == 0) x = infer__sx_text(&m->c, v->s, n);
    infer__bytes_free(&read);
    infer__bytes_free(&want);
    return x;
}

/* Strings that satisfy the schemas, without quotes. kinds: what the reader takes for something else. */
static const infer__sx *infer__call_strings(infer__call_maker *m, const infer__nodes *list, const infer_json *schema,
                                            unsigned kinds) {
    infer__schema *c = &m->c;
    const infer__sx **items, **literals;
    infer__lang taken[INFER__COUNT(INFER__CALL_TAKEN)];
    infer__alts alts;
    infer__alt *a;
    infer__nodes all = *list, values;
    uint32_t n = 0, k, i;
    memset(taken, 0, sizeof taken);
    all.cap = all.n; /* list stays as it is */
    infer__nodes_add(c, &all, infer__schema_of_types(c, c->root, INFER__T_STRING));
    for (i = k = 0; i < INFER__COUNT(INFER__CALL_TAKEN); i++) {
        const char *pattern = INFER__CALL_TAKEN[i].pattern;
        if (INFER__CALL_TAKEN[i].kinds & kinds)
            taken[k++].x = infer__pattern_parse(c, c->root, pattern, strlen(pattern));
    }
    memset(&alts, 0, sizeof alts);
    infer__schema_expand(c, all.v, all.n, &alts);
    items = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)alts.n + 1, sizeof *items);
    for (a = alts.first; a && items && c->r == INFER_OK; a = a->next) {
        if (!(a->types & INFER__T_STRING)) continue;
        if (infer__schema_literals(c, a->nodes, a->n, &values)) {
            literals = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)values.n + 1, sizeof *literals);
            for (i = 0; literals && i < values.n; i++) literals[i] = infer__call_literal(m, values.v[i], schema);
            if (literals) items[n++] = infer__sx_alt(c, literals, values.n);
            continue;
        }
        for (i = 0; i < a->n; i++) infer__schema_refuse(c, a->nodes[i], INFER__T_STRING, 0);
        items[n++] = infer__schema_chars(c, a, taken, k);
    }
    return items && c->r == INFER_OK ? infer__sx_alt(c, items, n) : &INFER__SX_NONE;
}

/* Values that satisfy the schemas and are no strings. kinds: INFER_JSON_* that the reader knows there, 0 = all. */
static const infer__sx *infer__call_others(infer__call_maker *m, const infer__nodes *list, unsigned kinds) {
    static const uint32_t TYPES[][2] = {{INFER_JSON_NULL, INFER__T_NULL}, {INFER_JSON_TRUE, INFER__T_TRUE},
        {INFER_JSON_FALSE, INFER__T_FALSE}, {INFER_JSON_INT, INFER__T_INT}, {INFER_JSON_FLOAT, INFER__T_FRAC},
        {INFER_JSON_ARRAY, INFER__T_ARRAY}, {INFER_JSON_OBJECT, INFER__T_OBJECT}};
    infer__nodes all = *list;
    uint32_t types = 0, i;
    for (i = 0; i < INFER__COUNT(TYPES); i++) if (!kinds || (kinds >> TYPES[i][0] & 1)) types |= TYPES[i][1];
    all.cap = all.n;
    infer__nodes_add(&m->c, &all, infer__schema_of_types(&m->c, m->c.root, types));
    return infer__schema_rule(&m->c, all.v, all.n);
}

/* Strings as they are or as JSON, whatever the reader would take for the value. */
static const infer__sx *infer__call_member(infer__args *args, infer__schema *c, const infer_json *name,
                                           const infer__nodes *list) {
    infer__call_maker *m = (infer__call_maker *)args->user;
    const infer__chat_call_kind *k = m->k;
    const int xml = k->shape == INFER__SHAPE_XML, typed = k->flags & INFER__CALL_TYPED;
    const infer_json *schema = infer__chat_property(c->root, name->s, (size_t)name->n);
    const unsigned string = 1u << INFER_JSON_STRING, kinds = infer__chat_allowed(schema, 0);
    const infer__sx *v[8], *text, *other;
    char end[INFER__CHAT_NAME_MAX + 32];
    size_t i;
    for (i = 0; i < name->n; i++)
        if (xml ? (uint8_t)name->s[i] < 0x20 || strchr("<>\"", name->s[i]) : !infer__chat_ident(name->s[i])) break;
    if (i == 0 || i < name->n || name->n > INFER__CHAT_NAME_MAX) {
        infer__format(end, sizeof end, "the name \"%.60s\" of an argument in this format of calls", name->s);
        infer__schema_no(c, c->root, end);
        return &INFER__SX_NONE;
    }
    if (!xml) {
        v[0] = infer__sx_pair(c, infer__sx_text(c, name->s, i), infer__sx_word(c, "="));
        return infer__sx_pair(c, v[0], infer__schema_rule(c, list->v, list->n));
    }
    infer__format(end, sizeof end, INFER__MM "</%s>", name->s);
    if (k->value_end) infer__format(end, sizeof end, "%s", k->value_end);
    c->avoid[0] = k->value_end ? k->value_end : INFER__MM; /* also where elements are inside */
    c->avoid[1] = "<![CDATA[";
    text = typed || !kinds || (kinds & string) ? infer__call_strings(m, list, schema,
                                                                     typed || kinds == string ? 0
                                                                     : kinds                  ? kinds
                                                                                              : ~0u)
                                               : &INFER__SX_NONE;
    c->avoid[0] = c->avoid[1] = NULL;
    other = kinds == string && !typed ? &INFER__SX_NONE
            : typed || !kinds || (kinds & string) ? infer__call_others(m, list, typed ? 0 : kinds & ~string)
                                                  : infer__schema_rule(c, list->v, list->n);
    if (typed) {
        text = infer__sx_pair(c, infer__sx_word(c, "\" string=\"true\">"), text);
        other = infer__sx_pair(c, infer__sx_word(c, "\" string=\"false\">"), other);
    }
    v[0] = infer__call_mark(m, k->key);
    v[1] = infer__sx_text(c, name->s, (size_t)name->n);
    v[2] = typed ? &INFER__SX_NOTHING : infer__call_mark(m, k->key_end);
    v[3] = infer__call_mark(m, k->value);
    v[4] = v[6] = k->flags & INFER__CALL_LINES ? infer__sx_word(c, "\n") : &INFER__SX_NOTHING;
    v[5] = infer__sx_or(c, text, other);
    v[7] = infer__sx_pair(c, infer__call_mark(m, end), infer__call_break(m, 1));
    return infer__sx_seq(c, v, 8);
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

/* How each kind writes values, and whether the arguments are a JSON object. */
static void infer__call_notation(infer__call_maker *m) {
    const infer__chat_call_kind *k = m->k;
    infer__schema *c = &m->c;
    infer__alt any;
    m->args.user = m;
    m->args.open = m->args.comma = m->args.close = &INFER__SX_NOTHING;
    if (k->shape == INFER__SHAPE_XML) {
        c->as = k->flags & INFER__CALL_NESTED ? INFER__AS_SIGNS : INFER__AS_TAGS;
        m->args.member = infer__call_member;
    } else if (k->shape == INFER__SHAPE_PYTHON) {
        c->as = INFER__AS_PYTHON;
        m->args.member = infer__call_member;
        m->args.open = infer__sx_word(c, "(");
        m->args.comma = infer__sx_word(c, ", ");
        m->args.close = infer__sx_word(c, ")");
    } else if (k->shape == INFER__SHAPE_BRACES) {
        c->as = INFER__AS_MARKS;
        c->quote = infer__call_mark(m, k->value);
        c->avoid[0] = k->value;
        c->string = infer__sx_rule_new(c);
        memset(&any, 0, sizeof any);
        any.types = INFER__T_STRING;
        infer__sx_define(
            c, c->string,
            infer__sx_pair(c, infer__sx_pair(c, c->quote, infer__schema_chars(c, &any, NULL, 0)), c->quote));
    }
}

/* Call number i of a tool, without what stands around all of them. */
static const infer__sx *infer__call_of(infer__call_maker *m, const infer_json *name, const infer__sx *args,
                                       uint32_t i) {
    const infer__chat_call_kind *k = m->k;
    infer__schema *c = &m->c;
    const infer__sx *v[16], *called = infer__sx_text(c, name->s, (size_t)name->n), *line = infer__call_break(m, 1);
    const long long number = (long long)(m->p->call_number + i);
    char id[32];
    const int harmony = (m->p->format->flags & INFER__FORMAT_HARMONY) != 0,
              list = k->shape == INFER__SHAPE_ARGS && (k->flags & INFER__CALL_LIST);
    uint32_t n = 0;
    if (k->shape == INFER__SHAPE_JSON || list) {
        v[n++] = infer__sx_word(c, "{\"name\": ");
        v[n++] = infer__sx_string(c, name->s, (size_t)name->n);
        v[n++] = infer__sx_word(c, k->flags & INFER__CALL_BARE ? ", \"parameters\": " : ", \"arguments\": ");
        v[n++] = args;
        v[n++] = infer__sx_word(c, "}");
    } else if (k->shape == INFER__SHAPE_PYTHON) {
        v[n++] = called;
        v[n++] = args;
    } else if (k->shape == INFER__SHAPE_BRACES) {
        v[n++] = infer__sx_pair(c, infer__sx_word(c, "call:"), called);
        v[n++] = args;
    } else {
        v[n++] = harmony ? infer__call_mark(m, "<|channel|>commentary to=functions.") : infer__call_mark(m, k->prefix);
        if (k->flags & INFER__CALL_ID_FIRST) {
            v[n++] = infer__sx_text(c, id, infer__format(id, sizeof id, "call%05lld", number));
            v[n++] = infer__call_mark(m, k->id_sep);
        }
        v[n++] = called;
        if (k->flags & INFER__CALL_ID_NUMBERED)
            v[n++] = infer__sx_text(c, id, infer__format(id, sizeof id, ":%lld", number));
        v[n++] = infer__call_mark(m, harmony ? " <|constrain|>json<|message|>" : k->name_end);
        v[n++] = k->shape == INFER__SHAPE_XML ? line : k->tail ? infer__sx_word(c, "\n") : &INFER__SX_NOTHING;
        v[n++] = args;
        if (k->tail) v[n++] = infer__sx_pair(c, infer__sx_word(c, "\n"), infer__call_mark(m, k->tail));
    }
    return infer__sx_seq(c, v, n);
}

/* A rule for call number i of any of the tools. */
static const infer__sx *infer__call_any(infer__call_maker *m, uint32_t i, const infer__sx *const *around) {
    infer__schema *c = &m->c;
    const infer__sx **calls = (const infer__sx **)infer__schema_get_mem(c, (uint64_t)m->n + 1, sizeof *calls);
    const uint32_t rule = infer__sx_rule_new(c);
    const infer__sx *x;
    uint32_t k;
    for (k = 0; calls && k < m->n; k++) calls[k] = infer__call_of(m, m->names[k], m->arguments[k], i);
    x = calls ? infer__sx_alt(c, calls, m->n) : &INFER__SX_NONE;
    infer__sx_define(c, rule, infer__sx_pair(c, infer__sx_pair(c, around[0], x), around[1]));
    return infer__sx_ref(c, rule);
}

/* The calls: what stands around each of them, between them, and around all. */
static const infer__sx *infer__call_all(infer__call_maker *m) {
    const infer__chat_call_kind *k = m->k;
    infer__schema *c = &m->c;
    const infer__sx *line = infer__call_break(m, 1), *around[2], *x[4], *call, *rest, *between;
    const int json = k->shape == INFER__SHAPE_JSON,
              list = (k->flags & INFER__CALL_LIST) != 0 || k->shape == INFER__SHAPE_PYTHON;
    const int harmony = (m->p->format->flags & INFER__FORMAT_HARMONY) != 0, one = k->flags & INFER__CALL_ONE;
    const uint32_t most = one ? 1 : m->want->most > 0 ? (uint32_t)m->want->most : INFER__CALLS_USUAL;
    const infer__sx *section =
        infer__sx_pair(c, infer__call_mark(m, k->section), k->section ? line : &INFER__SX_NOTHING);
    const infer__sx *section_end =
        k->section_end ? infer__sx_pair(c, line, infer__call_mark(m, k->section_end)) : &INFER__SX_NOTHING;
    const infer__sx *open =
        infer__sx_pair(c, infer__call_mark(m, k->open), json && k->open && !list ? line : &INFER__SX_NOTHING);
    const infer__sx *end =
        one || (k->flags & INFER__CALL_BARE) || harmony
            ? &INFER__SX_NOTHING
            : infer__sx_pair(c, json && !list ? line : &INFER__SX_NOTHING, infer__call_mark(m, k->end));
    uint32_t i;
    around[0] = list ? &INFER__SX_NOTHING : open;
    around[1] = list ? &INFER__SX_NOTHING : end;
    if (!list && (k->flags & INFER__CALL_EACH)) {
        around[0] = infer__sx_pair(c, section, open);
        around[1] = infer__sx_pair(c, end, section_end);
        section = section_end = &INFER__SX_NOTHING;
    }
    between = list ? infer__sx_word(c, ", ") : k->flags & INFER__CALL_BARE ? infer__sx_word(c, "; ") : line;
    if (k->flags & (INFER__CALL_ID_FIRST | INFER__CALL_ID_NUMBERED)) { /* each has its own number */
        for (rest = &INFER__SX_NOTHING, i = INFER__MIN(most, 100); i-- > 1 && c->r == INFER_OK;)
            rest = infer__sx_rep(c, infer__sx_pair(c, infer__sx_pair(c, between, infer__call_any(m, i, around)), rest),
                                 0, 1);
        call = infer__call_any(m, 0, around);
    } else {
        call = infer__call_any(m, 0, around);
        rest = infer__sx_rep(c, infer__sx_pair(c, between, call), 0, most - 1);
    }
    x[0] = list ? infer__sx_pair(c, open, infer__sx_word(c, "[")) : section;
    x[1] = call;
    x[2] = rest;
    x[3] = list ? infer__sx_pair(c, infer__sx_word(c, "]"), end) : section_end;
    return infer__sx_seq(c, x, 4);
}

/* ---- reasoning ------------------------------------------------------------------------------------------------- */

/* The rest of reasoning that has begun, and what ends it. */
static const infer__sx *infer__call_reasoned(infer__call_maker *m, const char *close, const char *then) {
    static const char *const HEADERS[] = {"<|start|>", "<|channel|>", "<|message|>"};
    infer__schema *c = &m->c;
    const infer__sx *v[4];
    infer__lang l[4 + 2 * INFER__FORMAT_KINDS];
    uint32_t n = 0;
    int i;
    memset(l, 0, sizeof l);
    l[n++].x = infer__pattern_exact(c, close, strlen(close));
    for (i = 0; i < m->p->n_kinds; i++) {
        const infer__chat_call_kind *k = m->p->kinds[i];
        if (!(k->flags & INFER__CALL_INTERRUPTS)) continue;
        if (k->section) l[n++].x = infer__pattern_exact(c, k->section, strlen(k->section));
        if (k->open) l[n++].x = infer__pattern_exact(c, k->open, strlen(k->open));
    }
    for (i = 0; (m->p->format->flags & INFER__FORMAT_HARMONY) && i < 3; i++)
        l[n++].x = infer__pattern_exact(c, HEADERS[i], strlen(HEADERS[i]));
    v[0] = infer__dfa_text(c, c->root, l, n, 1);
    v[1] = infer__call_mark(m, close);
    v[2] = infer__call_break(m, 2);
    v[3] = infer__call_mark(m, then);
    return infer__sx_seq(c, v, 4);
}

/* What comes before the calls. */
static const infer__sx *infer__call_reasoning(infer__call_maker *m) {
    const infer__chat_reader *p = m->p;
    infer__schema *c = &m->c;
    const infer__sx *x = &INFER__SX_NOTHING;
    int i;
    if (p->mode == INFER_CHAT_REASONING) {
        const infer__chat_think *t = infer__chat_think_at((size_t)p->think);
        return infer__call_reasoned(m, t->close, t->then);
    }
    if (m->want->no_reasoning) return x;
    for (i = 0; i < p->n_marks; i++) {
        const infer__chat_think *t = infer__chat_think_at(p->marks[i].row);
        if (p->marks[i].what != INFER__MARK_THINK) continue;
        x = infer__sx_or(c, x,
                         infer__sx_pair(c, infer__call_mark(m, t->open), infer__call_reasoned(m, t->close, t->then)));
    }
    if (p->format->flags & INFER__FORMAT_HARMONY)
        x = infer__sx_or(c, x, infer__sx_pair(c, infer__call_mark(m, "<|channel|>analysis<|message|>"),
                                              infer__call_reasoned(m, "<|end|>", "<|start|>assistant")));
    return x;
}

/* ---- the way in ------------------------------------------------------------------------------------------------ */

/* 1 when this kind can write the name. */
static int infer__call_names(const infer__chat_call_kind *k, const infer_json *name) {
    size_t i;
    if (!infer__chat_named(name->s, (size_t)name->n)) return 0;
    for (i = 0; i < name->n; i++)
        if (k->shape != INFER__SHAPE_JSON && !infer__chat_ident(name->s[i]) && name->s[i] != '-' && name->s[i] != '.')
            return 0;
    return 1;
}

/* Tool i, unless it is another than the one that is wanted. */
static void infer__call_tool(infer__call_maker *m, size_t i) {
    const infer_json *tool = &m->p->tools->v.items[i], *f = infer__json_get(tool, "function", 8), *name;
    infer__schema *c = &m->c;
    const infer__sx *x;
    uint32_t rule;
    char said[sizeof c->err->message];
    if (f && f->kind == INFER_JSON_OBJECT) tool = f;
    name = infer__json_get(tool, "name", 4);
    if (!name || name->kind != INFER_JSON_STRING) {
        c->r = infer__error(c->err, INFER_ERR_FORMAT, "tools[%u]: a name is expected", (unsigned)i);
        return;
    }
    if (m->want->tool && (strlen(m->want->tool) != name->n || memcmp(m->want->tool, name->s, (size_t)name->n) != 0))
        return;
    if (!infer__call_names(m->k, name)) {
        c->r = infer__error(c->err, INFER_ERR_UNSUPPORTED, "calls in the format %s cannot have the name \"%.60s\"",
                            m->p->format->name, name->s);
        return;
    }
    c->root = infer__json_get(tool, "parameters", 10);
    if (!c->root || c->root->kind == INFER_JSON_NULL) c->root = &INFER__CALL_NO_PARAMETERS;
    c->nested_ids = -1;
    x = infer__schema_args(c, &m->args);
    rule = infer__sx_rule_new(c);
    infer__sx_define(c, rule, x);
    m->names[m->n] = name;
    m->arguments[m->n++] = infer__sx_ref(c, rule);
    if (c->r != INFER_OK && c->r != INFER_ERR_MEMORY && c->err) {
        infer__format(said, sizeof said, "%s", c->err->message);
        infer__error(c->err, c->r, "tool \"%.60s\": %s", name->s, said);
    }
}

static infer_result infer__chat_grammar(infer__bytes *out, const infer__chat_reader *p, infer__mem *mem,
                                        const infer__calls_wanted *want, infer_error *err) {
    infer__call_maker m;
    const infer__sx *root = &INFER__SX_NONE;
    infer_error own;
    infer__chat_call_kind kind;
    size_t i, n = p->tools ? p->tools->n : 0;
    memset(&m, 0, sizeof m);
    m.p = p;
    m.want = want;
    m.k = infer__chat_kind_find(p->format->name);
    if (!m.k) return infer__error(err, INFER_ERR_UNSUPPORTED, "the template teaches no format of calls");
    kind = *m.k;
    if ((kind.flags & INFER__CALL_JSON_TOO) &&
        infer__chat_find(want->text, want->n, 0, kind.name_end, strlen(kind.name_end)) < want->n)
        kind.flags &= ~INFER__CALL_LIST; /* NAME[ARGS]{...} and not a list */
    m.k = &kind;
    infer__schema_begin(&m.c, mem, want->watch, 0, err ? err : &own);
    m.c.root = &INFER__CALL_NO_PARAMETERS;
    infer__call_notation(&m);
    m.names = (const infer_json **)infer__schema_get_mem(&m.c, (uint64_t)n + 1, sizeof *m.names);
    m.arguments = (const infer__sx **)infer__schema_get_mem(&m.c, (uint64_t)n + 1, sizeof *m.arguments);
    for (i = 0; m.names && m.arguments && i < n && m.c.r == INFER_OK; i++) infer__call_tool(&m, i);
    if (m.c.r == INFER_OK && m.n == 0)
        m.c.r = infer__error(m.c.err, INFER_ERR_ARGUMENT,
                             want->tool ? "there is no tool \"%.60s\"" : "there are no tools%.0s",
                             want->tool ? want->tool : "");
    m.c.root = &INFER__CALL_NO_PARAMETERS;
    if (m.c.r == INFER_OK) root = infer__sx_pair(&m.c, infer__call_reasoning(&m), infer__call_all(&m));
    return infer__schema_end(&m.c, root, out);
}
