/* sampler_chain.c: the list of stages, their parameters, the usual chain; creating a sampler and choosing.
 *
 * Owns:  INFER__STAGES; checks of what a caller gives; the usual chain and the file's figures for it; opening, closing,
 *        the history of accepted tokens.
 * Rules: a stage that learns from the drawn token (mirostat, adaptive-p) comes last, so that it saw the distribution
 *        that was drawn from. Everything a caller passes is copied.
 * Start: INFER__STAGES, infer__sampler_choose.
 */
#include "../text.h"

/* The caller's function is not trusted to leave candidates that later stages can use. */
static infer_result infer__run_custom(infer_sampler *s, const infer_stage *st, infer_error *err) {
    infer_result r = infer__take_all(s, err);
    int32_t i, n;
    if (r != INFER_OK) return r;
    n = st->fn(st->user, s->c, s->n);
    if (n < 1 || n > s->n)
        return infer__error(err, INFER_ERR_STATE, "sampler: custom stage %d returned %d of %d candidates",
                            (int)(st - s->stages), (int)n, (int)s->n);
    s->n = n;
    s->sorted = 0;
    for (i = 0, n = 0; i < s->n; i++) {
        int ok;
        if (s->c[i].token < 0 || s->c[i].token >= s->n_vocab)
            return infer__error(err, INFER_ERR_STATE, "sampler: custom stage %d left token %d of a vocabulary of %d",
                                (int)(st - s->stages), (int)s->c[i].token, (int)s->n_vocab);
        ok = infer__check_logit(infer__f32_bits(s->c[i].logit), s->c[i].token, err);
        if (ok < 0) return INFER_ERR_STATE;
        if (ok) s->c[n++] = s->c[i];
    }
    s->n = n;
    return n ? INFER_OK : infer__none_left(err);
}

/* The tokens that the grammar allows at the matcher's place. */
static infer_result infer__run_grammar(infer_sampler *s, const infer_stage *st, infer_error *err) {
    const uint32_t *bits;
    float *x;
    infer_result r;
    int32_t i, m = 0, sorted = 0;
    if (infer__matcher_waiting(s->matcher)) return INFER_OK;
    if (s->dense) {
        if ((r = infer__own_logits(s, &x, err)) != INFER_OK) return r;
        return infer__matcher_apply(s->matcher, x, s->n_vocab, err);
    }
    if ((r = infer__matcher_mask(s->matcher, &bits, err)) != INFER_OK) return r;
    for (i = 0; i < s->n; i++) {
        infer_token t = s->c[i].token;
        if (t >= infer__grammar_tokens(st->grammar) || !(bits[t >> 5] >> (t & 31) & 1)) continue;
        sorted += i < s->sorted;
        s->c[m++] = s->c[i];
    }
    s->n = m;
    s->sorted = sorted;
    if (m) return INFER_OK;
    return infer__error(err, INFER_ERR_STATE, "sampler: the grammar allows none of the candidates; it should be the "
                        "first stage");
}

/* ---- the table --------------------------------------------------------------------------------------------- */

enum {
    INFER__STAGE_LAST = 1,      /* must be the last stage: it learns from what is drawn */
    INFER__STAGE_VOCABULARY = 2 /* needs a model with a vocabulary */
};
typedef struct infer__stage_kind {
    int32_t kind;      /* infer_stage_kind */
    const char *names; /* separated by spaces, - is ignored; the first one is for messages */
    uint32_t flags;    /* INFER__STAGE_* */
    int32_t last_n;    /* which parameter is a number of accepted tokens, -1 = none */
    int32_t n_p;       /* parameters used; each must be in lo..hi */
    float lo[4], hi[4];
    infer_result (*run)(infer_sampler *s, const infer_stage *st, infer_error *err);
} infer__stage_kind;

#define INFER__BIG 3e38f
static const infer__stage_kind INFER__STAGES[] = {
    /* kind, names, flags, last n, parameters, least, most, run */
    { INFER_STAGE_GREEDY, "greedy", 0, -1, 0, { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, infer__run_greedy },
    { INFER_STAGE_TEMPERATURE, "plain-temperature", 0, -1, 1, { -INFER__BIG, 0, 0, 0 }, { INFER__BIG, 0, 0, 0 },
      infer__run_temperature },
    { INFER_STAGE_TOP_K, "top-k", 0, -1, 1, { 0, 0, 0, 0 }, { INFER__BIG, 0, 0, 0 }, infer__run_top_k },
    { INFER_STAGE_TOP_P, "top-p nucleus", 0, -1, 1, { 0, 0, 0, 0 }, { 1, 0, 0, 0 }, infer__run_top_p },
    { INFER_STAGE_MIN_P, "min-p", 0, -1, 1, { 0, 0, 0, 0 }, { 1, 0, 0, 0 }, infer__run_min_p },
    { INFER_STAGE_PENALTY, "penalty penalties", 0, 0, 4, { -1, 0, -INFER__BIG, -INFER__BIG },
      { INFER__BIG, INFER__BIG, INFER__BIG, INFER__BIG }, infer__run_penalty },
    { INFER_STAGE_CUSTOM, "custom", 0, -1, 0, { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, infer__run_custom },
    { INFER_STAGE_DYNAMIC_TEMPERATURE, "temperature temp", 0, -1, 3, { -INFER__BIG, 0, 0, 0 },
      { INFER__BIG, INFER__BIG, 100, 0 }, infer__run_dynamic_temperature },
    { INFER_STAGE_TYPICAL, "typical typ typ-p typical-p", 0, -1, 1, { 0, 0, 0, 0 }, { 1, 0, 0, 0 },
      infer__run_typical },
    { INFER_STAGE_TOP_N_SIGMA, "top-n-sigma", 0, -1, 1, { -1, 0, 0, 0 }, { INFER__BIG, 0, 0, 0 },
      infer__run_top_n_sigma },
    { INFER_STAGE_XTC, "xtc", 0, -1, 2, { 0, 0, 0, 0 }, { 1, INFER__BIG, 0, 0 }, infer__run_xtc },
    { INFER_STAGE_MIROSTAT, "mirostat", INFER__STAGE_LAST, -1, 3, { 0, 0, 0, 0 }, { 1000, 1000, 65536, 0 },
      infer__run_mirostat },
    { INFER_STAGE_MIROSTAT_2, "mirostat-2", INFER__STAGE_LAST, -1, 2, { 0, 0, 0, 0 }, { 1000, 1000, 0, 0 },
      infer__run_mirostat_2 },
    { INFER_STAGE_DRY, "dry", 0, 3, 4, { -INFER__BIG, 0, 0, -1 },
      { INFER__BIG, INFER__BIG, INFER__BIG, INFER__BIG }, infer__run_dry },
    { INFER_STAGE_ADAPTIVE_P, "adaptive-p", INFER__STAGE_LAST, -1, 2, { -1, 0, 0, 0 }, { 1, 1, 0, 0 },
      infer__run_adaptive_p },
    { INFER_STAGE_INFILL, "infill", INFER__STAGE_VOCABULARY, -1, 0, { 0, 0, 0, 0 }, { 0, 0, 0, 0 },
      infer__run_infill },
    { INFER_STAGE_LOGIT_BIAS, "logit-bias", 0, -1, 0, { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, infer__run_bias },
    { INFER_STAGE_GRAMMAR, "grammar", 0, -1, 0, { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, infer__run_grammar },
};

static const infer__stage_kind *infer__stage_find(int32_t kind) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__STAGES); i++) if (INFER__STAGES[i].kind == kind) return &INFER__STAGES[i];
    return NULL;
}

/* Does s[0..n) equal the first name in names, except for - and _? */
static int infer__stage_is(const char *names, const char *s, size_t n) {
    size_t i = 0, k = 0, end = strcspn(names, " ");
    for (;;) {
        while (i < n && (s[i] == '-' || s[i] == '_')) i++;
        while (k < end && names[k] == '-') k++;
        if (i == n || k == end) return i == n && k == end;
        if (s[i++] != names[k++]) return 0;
    }
}

/* 0 = no stage has this name. */
static int32_t infer__stage_named(const char *name, size_t n) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__STAGES); i++) {
        const char *s = INFER__STAGES[i].names;
        for (; *s; s += strcspn(s, " "), s += *s == ' ')
            if (infer__stage_is(s, name, n)) return INFER__STAGES[i].kind;
    }
    return 0;
}

/* ---- what a caller gives --------------------------------------------------------------------------------------- */

/* What a kind needs besides its parameters. */
static infer_result infer__stage_check_rest(const infer__stage_kind *kind, const infer_stage *st, int32_t index,
                                            const infer__tokenizer *t, infer_error *err) {
    int32_t i, n = t ? infer__tokenizer_size(t) : 0;
    if (st->kind == INFER_STAGE_CUSTOM && !st->fn)
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (custom): fn is NULL", (int)index);
    if (st->kind == INFER_STAGE_GRAMMAR && !st->grammar)
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (grammar): grammar is NULL", (int)index);
    if ((kind->flags & INFER__STAGE_VOCABULARY) && n == 0)
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (%s) needs a model with a vocabulary", (int)index,
                            kind->names);
    if (st->kind == INFER_STAGE_GRAMMAR && (!st->grammar || (t && !infer__grammar_fits(st->grammar, t))))
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (grammar): grammar is %s", (int)index,
                            st->grammar ? "of another model" : "NULL");
    if (st->kind != INFER_STAGE_LOGIT_BIAS) return INFER_OK;
    if (st->n < 0 || (st->n > 0 && !st->bias))
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (logit bias): bias is %s, n is %d", (int)index,
                            st->bias ? "given" : "NULL", (int)st->n);
    for (i = 0; i < st->n; i++) {
        uint32_t bits = infer__f32_bits(st->bias[i].bias);
        if (st->bias[i].token < 0 || (n > 0 && st->bias[i].token >= n))
            return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (logit bias): there is no token %d", (int)index,
                                (int)st->bias[i].token);
        if (!infer__bits_finite(bits) && bits != 0xff800000u)
            return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (logit bias): the bias of token %d is neither "
                                "finite nor -infinity", (int)index, (int)st->bias[i].token);
    }
    return INFER_OK;
}

static infer_result infer__stage_check(const infer_stage *st, int32_t index, int32_t n_stages,
                                       const infer__tokenizer *t, infer_error *err) {
    const infer__stage_kind *kind = infer__stage_find(st->kind);
    char name[24];
    int32_t i;
    if (!kind)
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d]: there is no stage kind %d", (int)index,
                            (int)st->kind);
    infer__format(name, sizeof name, "%.*s", (int)strcspn(kind->names, " "), kind->names);
    for (i = 0; i < kind->n_p; i++) {
        float p = st->p[i];
        if (!infer__bits_finite(infer__f32_bits(st->p[i])))
            return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (%s): p[%d] is not a finite number", (int)index,
                                name, (int)i);
        if (p < kind->lo[i] || p > kind->hi[i])
            return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (%s): p[%d] = %g is out of range", (int)index,
                                name, (int)i, (double)p);
    }
    if ((kind->flags & INFER__STAGE_LAST) && index != n_stages - 1)
        return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d] (%s) must be the last stage", (int)index, name);
    return infer__stage_check_rest(kind, st, index, t, err);
}

/* A copy of biases in order of tokens, one per token: those of equal tokens are added. */
static infer_result infer__copy_biases(infer_sampler *s, infer_stage *st, const infer_stage *from, infer_error *err) {
    infer_bias *b;
    int32_t i, j, m = 0;
    if (from->n == 0) return INFER_OK;
    st->bias = b = (infer_bias *)infer__calloc(s->mem, (uint64_t)from->n, sizeof *b);
    if (!b) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d biases", (int)from->n);
    memcpy(b, from->bias, (size_t)from->n * sizeof *b);
    for (i = from->n / 2, j = from->n; j > 1;) { /* heap sort by token */
        int32_t root, child;
        infer_bias x;
        if (i > 0) x = b[--i];
        else { x = b[--j]; b[j] = b[0]; }
        for (root = i; (child = 2 * root + 1) < j; root = child) {
            if (child + 1 < j && b[child + 1].token > b[child].token) child++;
            if (b[child].token <= x.token) break;
            b[root] = b[child];
        }
        b[root] = x;
    }
    for (i = 0; i < from->n; i++) {
        if (m > 0 && b[m - 1].token == b[i].token) infer__bias_add(&b[m - 1].bias, &b[i].bias);
        else b[m++] = b[i];
    }
    st->n = m;
    return INFER_OK;
}

static infer_result infer__copy_text(infer_sampler *s, infer_stage *st, const char *text, infer_error *err) {
    size_t len = strlen(text) + 1;
    char *copy = (char *)infer__alloc(s->mem, len);
    if (!copy) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for a text of %llu bytes",
                                   (unsigned long long)len);
    memcpy(copy, text, len);
    st->text = copy;
    return INFER_OK;
}

/* One checked stage into its place, with what it needs. */
static infer_result infer__sampler_copy_stage(infer_sampler *s, int32_t i, const infer_stage *from, infer_error *err) {
    const infer__stage_kind *kind = infer__stage_find(from->kind);
    infer_stage *st = &s->stages[i];
    infer_result r = INFER_OK;
    *st = *from;
    st->text = NULL;
    st->bias = NULL;
    s->n_stages = i + 1;
    infer__stage_forget(st, &s->states[i]);
    if (kind->last_n >= 0) {
        float keep = st->p[kind->last_n];
        int32_t k = keep < 0 || keep > 1e9f ? INT32_MAX : (int32_t)keep;
        s->max_history = INFER__MAX(s->max_history, k);
    }
    if (from->text) r = infer__copy_text(s, st, from->text, err);
    if (r == INFER_OK && st->kind == INFER_STAGE_LOGIT_BIAS) r = infer__copy_biases(s, st, from, err);
    if (r == INFER_OK && st->kind == INFER_STAGE_DRY && st->p[0] != 0 && st->p[1] >= 1.0f && st->p[3] != 0)
        r = infer__dry_open(&s->states[i].dry, s->mem, s->tokenizer, from->text, err);
    if (r == INFER_OK && st->kind == INFER_STAGE_GRAMMAR) {
        if (s->matcher) return infer__error(err, INFER_ERR_ARGUMENT, "stages[%d]: a second grammar", (int)i);
        r = infer__matcher_open(&s->matcher, st->grammar, err);
    }
    if (r == INFER_OK && st->kind == INFER_STAGE_INFILL && !s->pieces) {
        s->pieces = (char *)infer__alloc(s->mem, INFER__INFILL_BEST * INFER__INFILL_TEXT);
        if (!s->pieces) r = infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for texts");
    }
    return r;
}

static infer_result infer__sampler_copy_stages(infer_sampler *s, const infer_stage *stages, int32_t n,
                                               infer_error *err) {
    infer_result r = INFER_OK;
    int32_t i;
    for (i = 0; i < n && r == INFER_OK; i++) r = infer__stage_check(&stages[i], i, n, s->tokenizer, err);
    if (n == 0 || r != INFER_OK) return r;
    s->stages = (infer_stage *)infer__calloc(s->mem, (uint64_t)n, sizeof *stages);
    s->states = (infer__stage_state *)infer__calloc(s->mem, (uint64_t)n, sizeof *s->states);
    if (!s->stages || !s->states)
        return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d stages", (int)n);
    for (i = 0; i < n && r == INFER_OK; i++) r = infer__sampler_copy_stage(s, i, &stages[i], err);
    return r;
}

/* ---- the usual chain --------------------------------------------------------------------------------------------- */

/* The usual order and figures; `key` is of general.sampling.*, and replaces p[0]. */
static const struct { int32_t kind; float p[4]; } INFER__USUAL[] = {
    { INFER_STAGE_PENALTY, { 64, 1, 0, 0 } },
    { INFER_STAGE_DRY, { 0, 1.75f, 2, 64 } },
    { INFER_STAGE_TOP_N_SIGMA, { 0, 0, 0, 0 } },
    { INFER_STAGE_TOP_K, { 40, 0, 0, 0 } },
    { INFER_STAGE_TYPICAL, { 1, 0, 0, 0 } },
    { INFER_STAGE_TOP_P, { 0.95f, 0, 0, 0 } },
    { INFER_STAGE_MIN_P, { 0.05f, 0, 0, 0 } },
    { INFER_STAGE_XTC, { 0, 0.1f, 0, 0 } },
    { INFER_STAGE_DYNAMIC_TEMPERATURE, { 0.8f, 0, 1, 0 } },
    /* not in the usual order: what they begin with when they are named */
    { INFER_STAGE_ADAPTIVE_P, { -1, 0.9f, 0, 0 } },
    { INFER_STAGE_MIROSTAT, { 5, 0.1f, 100, 0 } },
    { INFER_STAGE_MIROSTAT_2, { 5, 0.1f, 0, 0 } },
    { INFER_STAGE_INFILL, { 0, 0, 0, 0 } },
};
enum { INFER__N_USUAL = 9 };

/* What a file may say: a figure of a stage. Values outside lo..hi mean what the limit means. */
static const struct { const char *key; int32_t kind, p; float lo, hi; } INFER__SAMPLING_KEYS[] = {
    { "general.sampling.penalty_last_n", INFER_STAGE_PENALTY, 0, -1, 1e9f },
    { "general.sampling.penalty_repeat", INFER_STAGE_PENALTY, 1, 0, 1e9f },
    { "general.sampling.top_k", INFER_STAGE_TOP_K, 0, 0, 1e9f },
    { "general.sampling.top_p", INFER_STAGE_TOP_P, 0, 0, 1 },
    { "general.sampling.min_p", INFER_STAGE_MIN_P, 0, 0, 1 },
    { "general.sampling.xtc_probability", INFER_STAGE_XTC, 0, 0, 1 },
    { "general.sampling.xtc_threshold", INFER_STAGE_XTC, 1, 0, 1 },
    { "general.sampling.temp", INFER_STAGE_DYNAMIC_TEMPERATURE, 0, 0, 1e9f },
    { "general.sampling.temp", INFER_STAGE_TEMPERATURE, 0, 0, 1e9f },
    { "general.sampling.mirostat_tau", INFER_STAGE_MIROSTAT, 0, 0, 1000 },
    { "general.sampling.mirostat_tau", INFER_STAGE_MIROSTAT_2, 0, 0, 1000 },
    { "general.sampling.mirostat_eta", INFER_STAGE_MIROSTAT, 1, 0, 1000 },
    { "general.sampling.mirostat_eta", INFER_STAGE_MIROSTAT_2, 1, 0, 1000 },
};

/* A stage of this kind with its usual figures, or the file's. */
static infer_result infer__usual_stage(const infer__gguf *g, int32_t kind, infer_stage *st, infer_error *err) {
    size_t i;
    memset(st, 0, sizeof *st);
    st->kind = kind;
    for (i = 0; i < INFER__COUNT(INFER__USUAL); i++)
        if (INFER__USUAL[i].kind == kind) memcpy(st->p, INFER__USUAL[i].p, sizeof st->p);
    for (i = 0; g && i < INFER__COUNT(INFER__SAMPLING_KEYS); i++) {
        const char *key = INFER__SAMPLING_KEYS[i].key;
        float *p = &st->p[INFER__SAMPLING_KEYS[i].p];
        int r;
        if (INFER__SAMPLING_KEYS[i].kind != kind) continue;
        r = infer__gguf_f32(g, key, p, err);
        if (r < 0) return (infer_result)r;
        if (!infer__bits_finite(infer__f32_bits(*p)))
            return infer__error(err, INFER_ERR_FORMAT, "%s is not a finite number", key);
        *p = INFER__MIN(INFER__MAX(*p, INFER__SAMPLING_KEYS[i].lo), INFER__SAMPLING_KEYS[i].hi);
    }
    return INFER_OK;
}

/* The kinds of the chain, at most cap (>= INFER__N_USUAL): in the file's order, else in the usual one. Names that are
 * not known are left out with a line in the log. Stages that learn come last, as they must. */
static infer_result infer__usual_order(const infer__gguf *g, int32_t *kinds, int32_t cap, int32_t *n,
                                       infer_error *err) {
    infer__str list = {"", 0};
    float mirostat = 0;
    int32_t i, learner = 0;
    int found = g ? infer__gguf_f32(g, "general.sampling.mirostat", &mirostat, err) : 0;
    *n = 0;
    if (found < 0) return (infer_result)found;
    if (mirostat == 1.0f || mirostat == 2.0f) {
        kinds[(*n)++] = INFER_STAGE_DYNAMIC_TEMPERATURE;
        kinds[(*n)++] = mirostat == 1.0f ? INFER_STAGE_MIROSTAT : INFER_STAGE_MIROSTAT_2;
        return INFER_OK;
    }
    if (g && (found = infer__gguf_str(g, "general.sampling.sequence", &list, err)) < 0) return (infer_result)found;
    while (list.n > 0) { /* names separated by ; */
        uint64_t k = 0;
        int32_t kind;
        while (k < list.n && list.s[k] != ';') k++;
        kind = infer__stage_named(list.s, (size_t)k);
        if (kind == 0 || kind == INFER_STAGE_CUSTOM || kind == INFER_STAGE_LOGIT_BIAS ||
            kind == INFER_STAGE_GRAMMAR || *n >= cap - 1)
            infer__log(g->report, 2, "general.sampling.sequence: '%.*s' is not used", (int)INFER__MIN(k, 40), list.s);
        else if (infer__stage_find(kind)->flags & INFER__STAGE_LAST) learner = kind;
        else kinds[(*n)++] = kind;
        k += k < list.n;
        list.s += k;
        list.n -= k;
    }
    if (learner) kinds[(*n)++] = learner;
    for (i = 0; *n == 0 && i < INFER__N_USUAL; i++) kinds[i] = INFER__USUAL[i].kind;
    if (*n == 0) *n = INFER__N_USUAL;
    return INFER_OK;
}

static infer_result infer__sampler_usual(const infer__gguf *g, infer_stage *out, int32_t cap, int32_t *n,
                                         infer_error *err) {
    int32_t kinds[INFER_STAGES_USUAL], i;
    infer_result r = infer__usual_order(g, kinds, INFER_STAGES_USUAL, n, err);
    for (i = 0; i < *n && r == INFER_OK; i++) {
        infer_stage st;
        r = infer__usual_stage(g, kinds[i], &st, err);
        if (r == INFER_OK && i < cap) out[i] = st;
    }
    return r;
}

/* ---- one choice -------------------------------------------------------------------------------------------------- */

/* The stages from `from` on, then the draw. */
static infer_result infer__sampler_go_on(infer_sampler *s, int32_t from, infer_token *token, infer_error *err) {
    infer__drawn drawn;
    infer_result r;
    int32_t i;
    for (i = from; i < s->n_stages; i++) {
        r = infer__stage_find(s->stages[i].kind)->run(s, &s->stages[i], err);
        if (r != INFER_OK) return r;
    }
    if ((r = infer__sampler_draw(s, &drawn, err)) != INFER_OK) return r;
    if (s->n_stages > 0) infer__stage_observe(s, &drawn);
    *token = drawn.token;
    return INFER_OK;
}

static infer_result infer__sampler_choose(infer_sampler *s, const float *logits, int32_t n, infer_token *token,
                                          infer_error *err) {
    s->logits = logits;
    s->n_vocab = n;
    s->dense = 1;
    s->n = s->sorted = 0;
    return infer__sampler_go_on(s, 0, token, err);
}

/* ---- opening, closing, history ----------------------------------------------------------------------------------- */

static infer_result infer__sampler_open(infer_sampler **out, infer__mem *mem, const infer__gguf *g,
                                        const infer__tokenizer *tokenizer, const infer_stage *stages, int32_t n_stages,
                                        uint64_t seed, infer_error *err) {
    infer_stage usual[INFER_STAGES_USUAL];
    infer_sampler *s;
    infer__mem own;
    infer_result r;
    *out = NULL;
    if (n_stages < 0 || (!stages && n_stages > 0))
        return infer__error(err, INFER_ERR_ARGUMENT, "stages is %s, n_stages is %d", stages ? "given" : "NULL",
                            (int)n_stages);
    if (!stages) {
        if ((r = infer__sampler_usual(g, usual, INFER_STAGES_USUAL, &n_stages, err)) != INFER_OK) return r;
        stages = usual;
    }
    infer__mem_init(&own, NULL, 0);
    s = (infer_sampler *)infer__calloc(mem ? mem : &own, 1, sizeof *s);
    if (!s) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory");
    s->own = own;
    s->mem = mem ? mem : &s->own;
    s->tokenizer = tokenizer;
    s->seed = s->state = seed;
    if ((r = infer__sampler_copy_stages(s, stages, n_stages, err)) != INFER_OK) {
        infer__sampler_close(s);
        return r;
    }
    *out = s;
    return INFER_OK;
}

static void infer__sampler_close(infer_sampler *s) {
    infer__mem own;
    infer__mem *mem;
    int32_t i;
    if (!s) return;
    own = s->own;
    mem = s->mem == &s->own ? &own : s->mem; /* the struct is freed through it */
    infer__matcher_close(s->matcher);
    for (i = 0; i < s->n_stages; i++) {
        infer__free(mem, (void *)(uintptr_t)s->stages[i].text);
        infer__free(mem, (void *)(uintptr_t)s->stages[i].bias);
        infer__dry_free(s->states[i].dry);
    }
    infer__free(mem, s->stages);
    infer__free(mem, s->states);
    infer__free(mem, s->history);
    infer__free(mem, s->c);
    infer__free(mem, s->work);
    infer__free(mem, s->counts);
    infer__free(mem, s->repeats);
    infer__free(mem, s->pieces);
    infer__free(mem, s);
}

static void infer__sampler_restart(infer_sampler *s) {
    int32_t i;
    s->state = s->seed;
    s->n_history = 0;
    if (s->matcher) infer__matcher_reset(s->matcher);
    for (i = 0; i < s->n_stages; i++) infer__stage_forget(&s->stages[i], &s->states[i]);
}

static int infer__sampler_ended(const infer_sampler *s) {
    return s->matcher && infer__matcher_complete(s->matcher) && !infer__matcher_can_continue(s->matcher);
}

static infer_result infer__sampler_remember(infer_sampler *s, infer_token token, infer_error *err) {
    infer_result r;
    if (token < 0) return infer__error(err, INFER_ERR_ARGUMENT, "sampler: token %d is negative", (int)token);
    if (s->max_history > 0 && s->n_history == s->cap_history) {
        if (s->n_history / 2 >= s->max_history) { /* more than enough: forget the older part */
            memmove(s->history, s->history + (s->n_history - s->max_history), (size_t)s->max_history * sizeof token);
            s->n_history = s->max_history;
        } else {
            int32_t cap = s->cap_history < 64 ? 128 : s->cap_history > INT32_MAX / 2 ? INT32_MAX : s->cap_history * 2;
            void *p = cap == s->cap_history ? NULL : infer__realloc(s->mem, s->history, (uint64_t)cap, sizeof token);
            if (!p) return infer__error(err, INFER_ERR_MEMORY, "sampler: no memory for %d accepted tokens", (int)cap);
            s->history = (infer_token *)p;
            s->cap_history = cap;
        }
    }
    if (s->matcher && (r = infer__matcher_accept(s->matcher, token, err)) != INFER_OK) return r;
    if (s->max_history > 0) s->history[s->n_history++] = token;
    if (s->n_stages > 0) infer__stage_learn(&s->stages[s->n_stages - 1], &s->states[s->n_stages - 1], token);
    return INFER_OK;
}

#undef INFER__BIG
