/* grammar.c: grammars and matchers: what the sampler and callers use.
 *
 * Owns:  infer_grammar (rules, vocabulary, caches), infer__matcher (where one text stands in it), lazy grammars.
 * Rules: the compiled grammar never changes; states and masks are caches, so a grammar and its matchers belong to one
 *        thread at a time. A call that fails leaves the matcher where it was.
 * Lazy:  a grammar with triggers allows everything until one of them appears in the text. The grammar then matches from
 *        the trigger's first byte on, with the rest of the token that holds it; of several triggers the one that begins
 *        first counts (the longest of those that begin there). A trigger token is matched whole, by its text too when
 *        it is a control token. As llama.cpp does.
 * Start: infer__grammar_open, infer__matcher_accept, infer__matcher_mask.
 */
#include "grammar.h"

struct infer_grammar {
    infer__mem *mem;
    infer__mem own;             /* mem points here when there is no model */
    struct infer_model *model;  /* of the layer above */
    const infer__tokenizer *tokenizer;
    infer__automaton automaton;
    infer__states states;
    infer__spellings lexicon;
    infer__masks masks;
    int32_t has_masks;
    infer__matcher *matchers;   /* all of them: their states are kept */
    uint32_t n_matchers;
    char **words;               /* triggers */
    infer_token *tokens;
    int32_t n_words, n_tokens;
    size_t longest;             /* bytes of a trigger word */
    infer__atomic calls;        /* infer__claim: of the layer above */
};

struct infer__matcher {
    infer_grammar *grammar;
    infer__matcher *prev, *next;
    int32_t state;
    int32_t waiting;     /* for a trigger */
    infer__bytes seen;   /* while waiting: the end of the text, which a trigger may have begun in */
    infer__bytes piece;  /* text of a token */
};

/* Any JSON value (RFC 8259), white space where it may be, bounded so that a reply cannot be white space alone. */
static const char INFER__JSON_GBNF[] =
    "root ::= value\n"
    "value ::= (object | array | string | number | \"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws (member (\",\" ws member)*)? \"}\"\n"
    "member ::= string ws \":\" ws value\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\"\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "char ::= [^\"\\\\\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

/* ---- opening --------------------------------------------------------------------------------------------------- */
INFER__COLD_BEGIN

static infer_result infer__grammar_compile(infer_grammar *g, infer__watch *watch, const char *text, size_t n,
                                           const char *root, infer_error *err) {
    infer__gbnf tree;
    infer_result r = infer__gbnf_parse(&tree, g->mem, watch, g->tokenizer, text, n, root ? root : "root", err);
    if (r != INFER_OK) return r;
    r = infer__automaton_build(&g->automaton, &tree, err);
    infer__gbnf_free(&tree);
    return r == INFER_OK ? infer__states_open(&g->states, g->mem, &g->automaton, err) : r;
}

static infer_result infer__grammar_schema(infer_grammar *g, infer__watch *watch, const char *schema,
                                          infer_error *err) {
    infer__bytes text;
    infer_result r;
    memset(&text, 0, sizeof text);
    text.mem = g->mem;
    r = infer__schema_gbnf(&text, g->mem, watch, schema, strlen(schema), err);
    if (r == INFER_OK) r = infer__grammar_compile(g, watch, text.s, text.n, NULL, err);
    infer__bytes_free(&text);
    return r;
}

static infer_result infer__grammar_triggers(infer_grammar *g, const infer_grammar_params *p, infer_error *err) {
    int32_t i;
    if (p->n_trigger_words < 0 || p->n_trigger_tokens < 0 || (p->n_trigger_words > 0 && !p->trigger_words) ||
        (p->n_trigger_tokens > 0 && !p->trigger_tokens))
        return infer__error(err, INFER_ERR_ARGUMENT, "grammar: a list of triggers is NULL or its length negative");
    if (p->n_trigger_words > 0) {
        g->words = (char **)infer__calloc(g->mem, (uint64_t)p->n_trigger_words, sizeof *g->words);
        if (!g->words) goto no_memory;
    }
    for (i = 0; i < p->n_trigger_words; i++) {
        size_t n = p->trigger_words[i] ? strlen(p->trigger_words[i]) : 0;
        if (n == 0)
            return infer__error(err, INFER_ERR_ARGUMENT, "grammar: trigger_words[%d] is %s", (int)i,
                                p->trigger_words[i] ? "empty" : "NULL");
        g->words[i] = (char *)infer__alloc(g->mem, (uint64_t)n + 1);
        if (!g->words[i]) goto no_memory;
        memcpy(g->words[i], p->trigger_words[i], n + 1);
        g->n_words++;
        g->longest = INFER__MAX(g->longest, n);
    }
    if (p->n_trigger_tokens == 0) return INFER_OK;
    if (!g->tokenizer) return infer__error(err, INFER_ERR_ARGUMENT, "grammar: trigger tokens need a model");
    g->tokens = (infer_token *)infer__realloc(g->mem, NULL, (uint64_t)p->n_trigger_tokens, sizeof *g->tokens);
    if (!g->tokens) goto no_memory;
    for (i = 0; i < p->n_trigger_tokens; i++) {
        g->tokens[i] = p->trigger_tokens[i];
        if (g->tokens[i] < 0 || g->tokens[i] >= infer__tokenizer_size(g->tokenizer))
            return infer__error(err, INFER_ERR_ARGUMENT, "grammar: trigger_tokens[%d] = %d is not in the vocabulary",
                                (int)i, (int)g->tokens[i]);
    }
    g->n_tokens = p->n_trigger_tokens;
    return INFER_OK;
no_memory:
    return infer__error(err, INFER_ERR_MEMORY, "out of memory for the grammar");
}

static infer_result infer__grammar_open(infer_grammar **out, infer__mem *mem, const infer__tokenizer *tokenizer,
                                        const infer_grammar_params *p, infer_error *err) {
    int32_t n_texts = (p->gbnf != NULL) + (p->schema != NULL) + (p->json != 0);
    infer_grammar *g;
    infer__watch watch;
    infer__mem own;
    infer_result r;
    *out = NULL;
    if (n_texts != 1)
        return infer__error(err, INFER_ERR_ARGUMENT, "grammar: %s of gbnf, schema and json must be given",
                            n_texts ? "only one" : "one");
    infer__mem_init(&own, NULL, 0);
    g = (infer_grammar *)infer__calloc(mem ? mem : &own, 1, sizeof *g);
    if (!g) return infer__error(err, INFER_ERR_MEMORY, "out of memory for the grammar");
    g->own = own;
    g->mem = mem ? mem : &g->own;
    g->tokenizer = tokenizer && infer__tokenizer_size(tokenizer) > 0 ? tokenizer : NULL;
    infer__watch_begin(&watch, &p->limits, INFER__WATCH_SECONDS);
    r = p->gbnf     ? infer__grammar_compile(g, &watch, p->gbnf, strlen(p->gbnf), p->root, err)
        : p->schema ? infer__grammar_schema(g, &watch, p->schema, err)
                    : infer__grammar_compile(g, &watch, INFER__JSON_GBNF, sizeof INFER__JSON_GBNF - 1, p->root, err);
    if (r == INFER_OK) r = infer__grammar_triggers(g, p, err);
    if (r != INFER_OK) {
        infer__grammar_close(g);
        return r;
    }
    *out = g;
    return INFER_OK;
}

static void infer__grammar_close(infer_grammar *g) {
    infer__mem own, *mem;
    int32_t i;
    if (!g) return;
    own = g->own;
    mem = g->mem == &g->own ? &own : g->mem; /* the struct is freed through it */
    if (g->has_masks) {
        infer__masks_free(&g->masks);
        infer__spellings_close(&g->lexicon);
    }
    if (g->states.mem) infer__states_free(&g->states);
    if (g->automaton.mem) infer__automaton_free(&g->automaton);
    for (i = 0; i < g->n_words; i++) infer__free(mem, g->words[i]);
    infer__free(mem, g->words);
    infer__free(mem, g->tokens);
    infer__free(mem, g);
}

static uint64_t infer__grammar_cached(const infer_grammar *g) {
    return g->has_masks ? infer__masks_bytes(&g->masks) : infer__states_bytes(&g->states);
}

static int infer__grammar_used(const infer_grammar *g) { return g->matchers != NULL; }
static int infer__grammar_fits(const infer_grammar *g, const infer__tokenizer *t) { return g->tokenizer == t; }
static int32_t infer__grammar_tokens(const infer_grammar *g) {
    return g->tokenizer ? infer__tokenizer_size(g->tokenizer) : 0;
}

/* The trie of the vocabulary is made for the first mask: checking a text needs none. */
static infer_result infer__grammar_prepare(infer_grammar *g, infer_error *err) {
    infer_result r;
    if (g->has_masks) return INFER_OK;
    if (!g->tokenizer) return infer__error(err, INFER_ERR_STATE, "grammar: it was made without a vocabulary");
    if ((r = infer__spellings_open(&g->lexicon, g->mem, g->tokenizer, err)) != INFER_OK) return r;
    r = infer__masks_open(&g->masks, g->mem, &g->lexicon, &g->states, err);
    if (r != INFER_OK) infer__spellings_close(&g->lexicon);
    else g->has_masks = 1;
    return r;
}

/* Errors of the engine. */
static infer_result infer__grammar_error(infer_result r, infer_error *err) {
    if (r == INFER_ERR_MEMORY) return infer__error(err, r, "out of memory for the grammar's states");
    return infer__error(err, INFER_ERR_STATE,
                        "the grammar is too ambiguous, or nested too deeply here: its states pass "
                        "the limits of work or memory");
}

/* Start of every call: limits, and memory. */
static infer_result infer__grammar_begin(infer_grammar *g, infer_error *err) {
    infer__matcher *m;
    int32_t **keep;
    uint32_t n = 0;
    infer_result r;
    g->states.work = 0;
    g->states.work_limit = INFER__GRAMMAR_WORK;
    if (infer__states_bytes(&g->states) <= g->states.trim_at) return INFER_OK;
    keep = (int32_t **)infer__realloc(g->mem, NULL, (uint64_t)g->n_matchers + 1, sizeof *keep);
    if (!keep) return infer__grammar_error(INFER_ERR_MEMORY, err);
    for (m = g->matchers; m; m = m->next) keep[n++] = &m->state;
    r = g->has_masks ? infer__masks_trim(&g->masks, keep, n) : infer__states_collect(&g->states, keep, n);
    infer__free(g->mem, keep);
    if (r != INFER_OK) return infer__grammar_error(r, err);
    g->states.trim_at = INFER__MAX((uint64_t)INFER__STATES_USUAL, infer__states_bytes(&g->states) * 2);
    return INFER_OK;
}

INFER__COLD_END
/* ---- matchers ---------------------------------------------------------------------------------------------------- */

static infer_result infer__matcher_open(infer__matcher **out, infer_grammar *g, infer_error *err) {
    infer__matcher *m = (infer__matcher *)infer__calloc(g->mem, 1, sizeof *m);
    *out = NULL;
    if (!m) return infer__error(err, INFER_ERR_MEMORY, "out of memory for a grammar's matcher");
    m->grammar = g;
    m->next = g->matchers;
    if (m->next) m->next->prev = m;
    g->matchers = m;
    g->n_matchers++;
    m->seen.mem = m->piece.mem = g->mem;
    infer__matcher_reset(m);
    *out = m;
    return INFER_OK;
}

static void infer__matcher_close(infer__matcher *m) {
    if (!m) return;
    if (m->prev) m->prev->next = m->next;
    else m->grammar->matchers = m->next;
    if (m->next) m->next->prev = m->prev;
    m->grammar->n_matchers--;
    infer__bytes_free(&m->seen);
    infer__bytes_free(&m->piece);
    infer__free(m->grammar->mem, m);
}

static infer__atomic *infer__matcher_calls(infer__matcher *m) { return m ? &m->grammar->calls : NULL; }

static void infer__matcher_reset(infer__matcher *m) {
    m->state = m->grammar->states.start;
    m->waiting = m->grammar->n_words > 0 || m->grammar->n_tokens > 0;
    m->seen.n = 0;
}

static infer_result infer__matcher_copy(infer__matcher *to, const infer__matcher *from, infer_error *err) {
    to->seen.n = 0;
    infer__bytes_put(&to->seen, from->seen.s, from->seen.n);
    if (to->seen.failed) {
        to->seen.failed = 0;
        to->seen.n = 0;
        return infer__error(err, INFER_ERR_MEMORY, "out of memory for a grammar's matcher");
    }
    to->state = from->state;
    to->waiting = from->waiting;
    return INFER_OK;
}

static int infer__matcher_waiting(const infer__matcher *m) { return m->waiting; }
static int infer__matcher_complete(const infer__matcher *m) {
    return m->waiting || m->grammar->states.states[m->state].complete;
}
static int infer__matcher_can_continue(const infer__matcher *m) {
    return m->waiting || m->grammar->states.states[m->state].n > 0;
}

/* Follow n bytes from `state`; *done is how many were accepted. The state, 0 = the next byte is not allowed, < 0. */
static int32_t infer__matcher_run(infer_grammar *g, int32_t state, const char *s, size_t n, size_t *done) {
    size_t i;
    for (i = 0; i < n; i++) {
        int32_t to = infer__states_step(&g->states, state, (uint8_t)s[i]);
        if (to <= 0) {
            *done = i;
            return to;
        }
        state = to;
    }
    *done = n;
    return state;
}

/* The first trigger word in s[0..n): 1 and where it begins, or 0. */
static int infer__matcher_trigger(const infer_grammar *g, const char *s, size_t n, size_t *at) {
    size_t i;
    int32_t k;
    for (i = 0; i < n; i++) {
        for (k = 0; k < g->n_words; k++) {
            size_t len = strlen(g->words[k]);
            if (len > n - i || memcmp(s + i, g->words[k], len) != 0) continue;
            *at = i;
            return 1;
        }
    }
    return 0;
}

/* Text while waiting. *accepted: bytes of s that are allowed; fewer than n: the matcher is where it was. */
static infer_result infer__matcher_wait(infer__matcher *m, const char *s, size_t n, size_t *accepted,
                                        infer_error *err) {
    infer_grammar *g = m->grammar;
    size_t before = m->seen.n, at, done;
    *accepted = n;
    infer__bytes_put(&m->seen, s, n);
    if (m->seen.failed) {
        m->seen.failed = 0;
        return infer__grammar_error(INFER_ERR_MEMORY, err);
    }
    if (infer__matcher_trigger(g, m->seen.s, m->seen.n, &at)) {
        int32_t to = infer__matcher_run(g, g->states.start, m->seen.s + at, m->seen.n - at, &done);
        if (to <= 0) {
            m->seen.n = before;
            *accepted = at + done > before ? at + done - before : 0;
            return to < 0 ? infer__grammar_error((infer_result)to, err) : INFER_OK;
        }
        m->state = to;
        m->waiting = 0;
        m->seen.n = 0;
    } else if (m->seen.n >= g->longest) { /* only the end may still become a trigger */
        size_t keep = g->longest ? g->longest - 1 : 0;
        memmove(m->seen.s, m->seen.s + (m->seen.n - keep), keep);
        m->seen.n = keep;
    }
    return INFER_OK;
}

static infer_result infer__matcher_check(infer__matcher *m, const char *s, size_t n, size_t *accepted,
                                         infer_error *err) {
    infer_result r = INFER_OK;
    *accepted = 0;
    if (m->waiting && n > 0) {
        if ((r = infer__grammar_begin(m->grammar, err)) == INFER_OK) r = infer__matcher_wait(m, s, n, accepted, err);
        return r;
    }
    while (*accepted < n) { /* long texts in parts, each with its own limits */
        size_t part = INFER__MIN(n - *accepted, 4096), done;
        int32_t to;
        if ((r = infer__grammar_begin(m->grammar, err)) != INFER_OK) return r;
        to = infer__matcher_run(m->grammar, m->state, s + *accepted, part, &done);
        *accepted += done;
        if (to < 0) return infer__grammar_error((infer_result)to, err);
        if (to == 0) return INFER_OK;
        m->state = to;
    }
    return INFER_OK;
}

/* The text of a token to m->piece. */
static infer_result infer__matcher_piece(infer__matcher *m, infer_token token, infer_error *err) {
    const infer__tokenizer *t = m->grammar->tokenizer;
    size_t len = 0, again;
    m->piece.n = 0;
    if (infer__token_text(t, token, NULL, 0, &len) != INFER_OK)
        return infer__error(err, INFER_ERR_ARGUMENT, "token %d is not in the vocabulary", (int)token);
    while (m->piece.n < len && !m->piece.failed) infer__bytes_char(&m->piece, 0);
    if (m->piece.failed) {
        m->piece.failed = 0;
        return infer__grammar_error(INFER_ERR_MEMORY, err);
    }
    if (len) infer__token_text(t, token, m->piece.s, len, &again);
    return INFER_OK;
}

static infer_result infer__matcher_refuse(infer_token token, infer_error *err) {
    return infer__error(err, INFER_ERR_STATE, "token %d is not what the grammar allows here", (int)token);
}

static infer_result infer__matcher_accept(infer__matcher *m, infer_token token, infer_error *err) {
    infer_grammar *g = m->grammar;
    int32_t i, to, flags;
    int trigger = 0;
    size_t done;
    infer_result r;
    if (!g->tokenizer) return infer__error(err, INFER_ERR_STATE, "grammar: it was made without a vocabulary");
    if ((r = infer__grammar_begin(g, err)) != INFER_OK || (r = infer__matcher_piece(m, token, err)) != INFER_OK)
        return r;
    flags = infer__token_flags(g->tokenizer, token);
    for (i = 0; m->waiting && i < g->n_tokens; i++) trigger |= g->tokens[i] == token;
    if (m->waiting && !trigger) {
        if (!(flags & INFER__GRAMMAR_TEXTS) || (flags & INFER_TOKEN_END) || m->piece.n == 0) return INFER_OK;
        r = infer__matcher_wait(m, m->piece.s, m->piece.n, &done, err);
        return r != INFER_OK || done == m->piece.n ? r : infer__matcher_refuse(token, err);
    }
    if ((flags & INFER_TOKEN_END) && !trigger && g->states.states[m->state].complete) return INFER_OK;
    if (!trigger && ((flags & INFER_TOKEN_END) || !(flags & INFER__GRAMMAR_TEXTS))) m->piece.n = 0;
    to = infer__states_token(&g->states, m->state, token, flags & INFER_TOKEN_END, m->piece.s, m->piece.n);
    if (to < 0) return infer__grammar_error((infer_result)to, err);
    if (to == 0) return infer__matcher_refuse(token, err);
    m->state = to;
    m->waiting = 0;
    m->seen.n = 0;
    return INFER_OK;
}

static infer_result infer__matcher_mask(infer__matcher *m, const uint32_t **bits, infer_error *err) {
    infer_grammar *g = m->grammar;
    infer_result r = infer__grammar_prepare(g, err);
    *bits = NULL;
    if (r != INFER_OK || m->waiting) return r;
    if ((r = infer__grammar_begin(g, err)) != INFER_OK) return r;
    *bits = infer__masks_get(&g->masks, m->state, &r);
    return *bits ? INFER_OK : infer__grammar_error(r, err);
}

/* Logits of tokens that are not allowed become -inf. What is beyond the vocabulary is not allowed. */
static infer_result infer__matcher_apply(infer__matcher *m, float *x, int32_t n, infer_error *err) {
    const uint32_t *bits;
    const float none = infer__bits_f32(0xff800000u);
    infer_result r = infer__matcher_mask(m, &bits, err);
    int32_t i, j, size = m->grammar->lexicon.n;
    uint32_t any = 0;
    if (r != INFER_OK || !bits) return r;
    for (i = 0; i < n; i += 32) {
        int32_t end = INFER__MIN(n - i, 32);
        uint32_t all = end == 32 ? UINT32_MAX : (1u << end) - 1, word = i < size ? bits[i >> 5] & all : 0;
        any |= word;
        for (j = 0; j < end && word != all; j++) if (!(word >> j & 1)) x[i + j] = none;
    }
    if (any) return INFER_OK;
    return infer__error(err, INFER_ERR_STATE, infer__matcher_can_continue(m)
                        ? "the grammar cannot go on: no token of the vocabulary spells what it allows"
                        : "the grammar has ended, and the vocabulary has no token that ends a reply");
}
