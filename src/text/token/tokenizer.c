/* tokenizer.c: the facade: text <-> ids.
 *
 * Owns:  the parts that all algorithms share: choosing one, marked tokens (control and user-defined ones), which are
 *        cut out of a text before it is split, BOS and EOS, detokenizing.
 * Rules: a tokenizer never changes after it is opened; every call has its own scratch, so threads may share one. An
 *        unsupported vocabulary is not an error at opening: infer__tokenizer_why_not has the reason.
 * Start: infer__tokenize.
 */
#include "../text.h"

struct infer__tokenizer {
    infer__mem *mem;
    infer__vocab vocab;
    infer__merges merges;
    infer__lexicon lexicon;
    const infer__pretokenizer *pre; /* BPE: NULL when it cannot tokenize */
    char why_not[160];
    infer_limits limits;            /* of a call */
};

/* ---- opening ----------------------------------------------------------------------------------------- */
INFER__COLD_BEGIN

/* The pre-tokenizer of a BPE vocabulary, or why there is none. */
static infer_result infer__tokenizer_choose(infer__tokenizer *t, const infer__report *report, const infer__gguf *g,
                                            const infer__tokenizer_options *options, infer_error *err) {
    infer__str name = {"", 0}, model = {"", 0};
    const infer__pretokenizer *pre;
    int found = infer__gguf_str(g, "tokenizer.ggml.pre", &name, err), lowercase = 0;

    if (found < 0) return (infer_result)found;
    infer__gguf_str(g, "tokenizer.ggml.model", &model, NULL);
    if (model.n == 6 && memcmp(model.s, "gemma4", 6) == 0) name = model; /* the model's only one, named or not */
    if (options && options->pre) {
        name.s = options->pre;
        name.n = strlen(options->pre);
    }
    pre = infer__pretokenizer_find(name.s, (size_t)name.n);
    if (!pre && options && options->allow_default_pre) {
        pre = infer__pretokenizer_find("default", 7);
        infer__log(report, 2, "tokenizer.ggml.pre '%.*s' is %s: the default is used, ids may be wrong",
                   (int)INFER__MIN(name.n, 40), name.s, name.n ? "unknown" : "missing");
    }
    if (!pre && name.n == 0) {
        infer__format(t->why_not, sizeof t->why_not, "tokenizer.ggml.pre is missing: give the pre-tokenizer's name, or "
                      "allow the default one");
    } else if (!pre) {
        infer__format(t->why_not, sizeof t->why_not, "tokenizer.ggml.pre '%.*s' is unknown",
                      (int)INFER__MIN(name.n, 40), name.s);
    } else if ((pre->flags & INFER__PRE_DROP_SPACE) &&
               infer__gguf_bool(g, "tokenizer.ggml.normalizer.lowercase", &lowercase, NULL) != 0 && lowercase) {
        infer__format(t->why_not, sizeof t->why_not, "tokenizer.ggml.normalizer.lowercase is not supported with the "
                      "pre-tokenizer '%.*s'", (int)INFER__MIN(name.n, 40), name.s);
    } else if (!infer__gguf_find(g, "tokenizer.ggml.merges")) {
        infer__format(t->why_not, sizeof t->why_not, "tokenizer.ggml.merges is missing");
    } else {
        t->pre = pre;
    }
    if (t->vocab.add_bos < 0) t->vocab.add_bos = pre && (pre->flags & INFER__PRE_ADD_BOS);
    if (pre && (pre->flags & INFER__PRE_ALWAYS_BOS)) t->vocab.add_bos = 1;
    if (pre && (pre->flags & (INFER__PRE_MARKED | INFER__PRE_UTF8))) {
        infer__vocab_spelled(&t->vocab, pre->flags & INFER__PRE_MARKED ? INFER__FORM_MARKED : INFER__FORM_UTF8);
    }
    if (pre && (pre->flags & INFER__PRE_MASK_LSTRIP)) t->vocab.lstrip = infer__vocab_find(&t->vocab, "<mask>", 6);
    return INFER_OK;
}

static infer_result infer__tokenizer_begin(infer__tokenizer_opening *x, infer__mem *mem, const infer__gguf *g,
                                           const infer__tokenizer_options *options, infer_error *err) {
    memset(x, 0, sizeof *x);
    if (options) x->options = *options;
    x->t = (infer__tokenizer *)infer__calloc(mem, 1, sizeof *x->t);
    if (!x->t) return infer__error(err, INFER_ERR_MEMORY, "out of memory for the tokenizer");
    x->t->mem = mem;
    x->t->limits = x->options.limits;
    return infer__vocab_begin(&x->vocab, &x->t->vocab, mem, g, err);
}

enum { /* infer__tokenizer_opening.stage */
    INFER__TOKENIZER_VOCAB, INFER__TOKENIZER_JOINS, INFER__TOKENIZER_MERGES, INFER__TOKENIZER_LEXICON
};

/* With the vocabulary loaded: prepares its algorithm. */
static infer_result infer__tokenizer_next(infer__tokenizer_opening *x, const infer__report *report,
                                          const infer__gguf *g, infer_error *err) {
    infer__tokenizer *t = x->t;
    if (t->vocab.kind == INFER__VOCAB_BPE) {
        x->stage = INFER__TOKENIZER_JOINS;
        return infer__tokenizer_choose(t, report, g, &x->options, err);
    }
    x->stage = INFER__TOKENIZER_LEXICON;
    return t->vocab.kind >= INFER__VOCAB_WPM ? infer__lexicon_begin(&x->lexicon, &t->lexicon, &t->vocab, err)
                                             : INFER_OK;
}

/* BPE with spaces as U+2581: where they stand in tokens. 0 = the slice is over. */
static int infer__tokenizer_joins(infer__tokenizer_opening *x, infer__budget *budget) {
    infer__vocab *v = &x->t->vocab;
    while (v->form == INFER__FORM_MARKED && x->i < v->n) {
        const int32_t n = (int32_t)infer__budget_piece(budget, (uint64_t)(v->n - x->i), 1);
        infer__vocab_joins(v, x->i, x->i + n);
        x->i += n;
        if (infer__budget_over(budget, (uint64_t)n)) return 0;
    }
    return 1;
}

/* Everything is made: why it cannot tokenize, if so. */
static void infer__tokenizer_finish(infer__tokenizer_opening *x, const infer__report *report, const infer__gguf *g) {
    infer__tokenizer *t = x->t;
    infer__str model = {"", 0};
    infer__gguf_str(g, "tokenizer.ggml.model", &model, NULL);
    if (t->vocab.kind == INFER__VOCAB_NONE) {
        infer__format(t->why_not, sizeof t->why_not, "the file has no vocabulary (tokenizer.ggml.model is %s)",
                      model.n ? "none" : "missing");
    } else if (t->vocab.kind == INFER__VOCAB_OTHER) {
        infer__format(t->why_not, sizeof t->why_not, "tokenizer.ggml.model '%.*s' is not supported",
                      (int)INFER__MIN(model.n, 40), model.s);
    }
    infer__vocab_keys_check(&t->vocab, g, report, x->options.allow_unknown, t->why_not, sizeof t->why_not);
    if (t->vocab.add_bos < 0) t->vocab.add_bos = 0;
}

static infer_result infer__tokenizer_step(infer__tokenizer_opening *x, infer__tokenizer **out,
                                          const infer__report *report, const infer__gguf *g, infer__budget *budget,
                                          infer_error *err) {
    infer__tokenizer *t = x->t;
    infer_result r = INFER_OK;
    if (x->stage == INFER__TOKENIZER_VOCAB) {
        r = infer__vocab_step(&x->vocab, &t->vocab, report, g, budget, err);
        if (r == INFER_OK) r = infer__tokenizer_next(x, report, g, err);
        if (r != INFER_OK) return r;
    }
    if (x->stage == INFER__TOKENIZER_JOINS) {
        if (!infer__tokenizer_joins(x, budget)) return INFER_MORE;
        x->stage = INFER__TOKENIZER_MERGES;
        if (t->pre) r = infer__merges_begin(&x->merges, &t->merges, &t->vocab, g, err);
    }
    if (r == INFER_OK && x->stage == INFER__TOKENIZER_MERGES && t->pre)
        r = infer__merges_step(&x->merges, &t->merges, &t->vocab, report, budget, err);
    if (r == INFER_OK && t->vocab.kind >= INFER__VOCAB_WPM)
        r = infer__lexicon_step(&x->lexicon, &t->lexicon, &t->vocab, report, g, budget, err);
    if (r != INFER_OK) return r;
    infer__tokenizer_finish(x, report, g);
    x->t = NULL;
    infer__merges_end(&x->merges, t->mem);
    infer__lexicon_end(&x->lexicon, t->mem);
    *out = t;
    return INFER_OK;
}

static void infer__tokenizer_drop(infer__tokenizer_opening *x) {
    if (!x->t) return;
    infer__merges_end(&x->merges, x->t->mem);
    infer__lexicon_end(&x->lexicon, x->t->mem);
    infer__tokenizer_close(x->t);
    x->t = NULL;
}

static infer_result infer__tokenizer_open(infer__tokenizer **out, infer__mem *mem, const infer__report *report,
                                          const infer__gguf *g, const infer__tokenizer_options *options,
                                          infer_error *err) {
    infer__tokenizer_opening x;
    infer_result r = infer__tokenizer_begin(&x, mem, g, options, err);
    *out = NULL;
    if (r == INFER_OK) r = infer__tokenizer_step(&x, out, report, g, NULL, err);
    if (r != INFER_OK) infer__tokenizer_drop(&x);
    return r;
}

static void infer__tokenizer_close(infer__tokenizer *t) {
    if (!t) return;
    infer__merges_close(&t->merges, t->mem);
    infer__lexicon_close(&t->lexicon, t->mem);
    infer__vocab_close(&t->vocab);
    infer__free(t->mem, t);
}

static const char *infer__tokenizer_why_not(const infer__tokenizer *t) { return t->why_not; }
static const infer__vocab *infer__tokenizer_vocab(const infer__tokenizer *t) { return &t->vocab; }
static int32_t infer__tokenizer_size(const infer__tokenizer *t) { return t->vocab.n; }

static int infer__tokenizer_adds_bos(const infer__tokenizer *t) {
    return t->vocab.add_bos && t->vocab.special[INFER_SPECIAL_BOS] >= 0;
}

INFER__COLD_END
/* ---- text -> ids ------------------------------------------------------------------------------------- */

static int infer__is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* One stretch without marked tokens; it begins the text or follows a marked token, so SPM puts a space before it. */
static int infer__tokenize_plain(const infer__tokenizer *t, infer__token_work *w, const char *s, size_t n,
                                 infer__token_sink *sink) {
    const infer__vocab *v = &t->vocab;
    const int inside = w->inside;
    w->inside = 0;
    if (n == 0) return 1;
    switch (v->kind) {
    case INFER__VOCAB_SPM: return infer__spm_tokenize(v, w, s, n, v->add_space_prefix && !inside, sink);
    case INFER__VOCAB_WPM: return infer__wpm_tokenize(v, &t->lexicon, w, s, n, sink);
    case INFER__VOCAB_UGM: return infer__ugm_tokenize(v, &t->lexicon, w, s, n, sink);
    case INFER__VOCAB_RWKV: return infer__rwkv_tokenize(v, &t->lexicon, w, s, n, sink);
    case INFER__VOCAB_PLAMO2: return infer__plamo2_tokenize(v, &t->lexicon, w, s, n, sink);
    default: return infer__bpe_tokenize(v, &t->merges, t->pre, w, s, n, sink);
    }
}

static infer_token infer__tokenizer_end(const infer__vocab *v) {
    if (v->kind == INFER__VOCAB_WPM && v->add_sep) return v->special[INFER_SPECIAL_SEP];
    return v->add_eos ? v->special[INFER_SPECIAL_EOS] : -1;
}

static int infer__tokenizer_pairs_apart(const infer__tokenizer *t) {
    return t->pre && (t->pre->flags & INFER__PRE_PAIRS_APART);
}

static infer_result infer__tokenize(const infer__tokenizer *t, infer__mem *mem, const char *text, size_t n,
                                    int32_t flags, infer_token *out, size_t cap, size_t *count, infer_error *err) {
    infer_segment all;
    all.text = text;
    all.n = n;
    all.from_message = !(flags & INFER_TEXT_PARSE_SPECIAL);
    return infer__tokenize_segments(t, mem, &all, 1, NULL, flags, out, cap, count, err);
}

static infer_result infer__tokenize_segments(const infer__tokenizer *t, infer__mem *mem, const infer_segment *segments,
                                             size_t n_segments, const uint8_t *structure, int32_t flags,
                                             infer_token *out, size_t cap, size_t *count, infer_error *err) {
    const char *text = n_segments ? segments[0].text : "";
    const infer_segment *here = segments;
    const infer__vocab *v = &t->vocab;
    infer__token_sink sink = {NULL, 0, 0, NULL};
    infer__token_work w;
    infer__watch watch;
    size_t at, begin = 0, end, n = 0, limit = n_segments ? segments[0].n : 0, i;
    const int special = INFER_TOKEN_USER | INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN;
    int ok = 1;
    int32_t token;

    *count = 0;
    for (i = 0; i < n_segments; i++) n += segments[i].n;
    if (t->why_not[0]) return infer__error(err, INFER_ERR_UNSUPPORTED, "cannot tokenize: %s", t->why_not);
    if (n > 0x20000000u)
        return infer__error(err, INFER_ERR_ARGUMENT, "a text of more than 512 MiB cannot be tokenized");
    memset(&w, 0, sizeof w);
    w.mem = mem;
    w.structure = structure;
    w.segments = segments;
    w.n_segments = n_segments;
    w.inside = flags & INFER__TEXT_INSIDE;
    infer__watch_begin(&watch, &t->limits, 0); /* it is linear, so by default there is no limit */
    w.watch = &watch;
    sink.out = out;
    sink.cap = cap;
    if ((flags & INFER_TEXT_ADD_SPECIAL) && infer__tokenizer_adds_bos(t))
        infer__token_put(&sink, v->special[INFER_SPECIAL_BOS]);
    for (at = 0; ok && at < n; ) {
        while (at >= limit) limit += (++here)->n; /* a token's end may be in a later segment */
        token = here->from_message ? infer__vocab_marked(v, text + at, n - at, INFER_TOKEN_USER, structure)
                                   : infer__vocab_marked(v, text + at, limit - at, special, NULL);
        if (token < 0) {
            at++;
            if (at % 4096 == 0) ok = infer__watch_work(&watch, 4096 / 16);
            continue;
        }
        for (end = at; token == v->lstrip && end > begin && infer__is_space(text[end - 1]); end--) {
        }
        ok = infer__tokenize_plain(t, &w, text + begin, end - begin, &sink);
        infer__token_put(&sink, token);
        at += (size_t)v->text[token].n;
        while ((v->flags[token] & INFER__TOKEN_RSTRIP) && at < n && infer__is_space(text[at])) at++;
        begin = at;
    }
    ok = ok && infer__tokenize_plain(t, &w, text + begin, n - begin, &sink);
    infer__token_work_free(&w);
    if (watch.r != INFER_OK) return infer__watch_error(&watch, "tokenizing", err);
    if (!ok)
        return infer__error(err, INFER_ERR_MEMORY, "out of memory for a text of %llu bytes", (unsigned long long)n);
    if ((flags & INFER_TEXT_ADD_SPECIAL) && infer__tokenizer_end(v) >= 0)
        infer__token_put(&sink, infer__tokenizer_end(v));
    *count = sink.count;
    return INFER_OK;
}

/* ---- ids -> text ------------------------------------------------------------------------------------- */

/* The pieces one after the other: their length; at most cap bytes are written. */
static size_t infer__pieces(const infer__vocab *v, const infer_token *tokens, size_t n, int32_t flags, char *out,
                            size_t cap) {
    const int hidden = INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN | INFER_TOKEN_UNUSED;
    int first = v->add_space_prefix; /* nothing is written yet, and a space was put before the text */
    size_t i, done = 0;
    for (i = 0; i < n; i++) {
        size_t left = done < cap ? cap - done : 0, skip;
        char head = 0;
        if ((v->flags[tokens[i]] & hidden) && !(flags & INFER_TEXT_WRITE_SPECIAL)) continue;
        infer__vocab_piece(v, tokens[i], 0, &head, 1);
        skip = first && head == ' ' && (v->flags[tokens[i]] & INFER_TOKEN_NORMAL);
        done += infer__vocab_piece(v, tokens[i], skip, left ? out + done : NULL, left);
        first = 0;
    }
    return done;
}

static infer_result infer__detokenize(const infer__tokenizer *t, const infer_token *tokens, size_t n, int32_t flags,
                                      char *out, size_t cap, size_t *len, infer_error *err) {
    const infer__vocab *v = &t->vocab;
    char *text;
    size_t i;

    *len = 0;
    if (v->kind == INFER__VOCAB_NONE || v->kind == INFER__VOCAB_OTHER) {
        return infer__error(err, INFER_ERR_UNSUPPORTED, "cannot detokenize: %s", t->why_not);
    }
    for (i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= v->n) {
            return infer__error(err, INFER_ERR_ARGUMENT, "token %d at %llu is not in the vocabulary of %d",
                                (int)tokens[i], (unsigned long long)i, (int)v->n);
        }
    }
    *len = infer__pieces(v, tokens, n, flags, out, cap);
    if (v->kind != INFER__VOCAB_WPM || *len == 0) return INFER_OK;
    text = (char *)infer__alloc(t->mem, *len); /* WordPiece puts a space before every word: some are taken out again */
    if (!text) {
        i = *len;
        *len = 0;
        return infer__error(err, INFER_ERR_MEMORY, "out of memory for a text of %llu bytes", (unsigned long long)i);
    }
    infer__pieces(v, tokens, n, flags, text, *len);
    *len = infer__wpm_clean(text, *len);
    if (cap > 0) memcpy(out, text, INFER__MIN(*len, cap));
    infer__free(t->mem, text);
    return INFER_OK;
}

static infer_result infer__token_text(const infer__tokenizer *t, infer_token token, char *out, size_t cap,
                                      size_t *len) {
    *len = 0;
    if (token < 0 || token >= t->vocab.n) return INFER_ERR_ARGUMENT;
    *len = infer__vocab_piece(&t->vocab, token, 0, out, cap);
    return INFER_OK;
}

static int32_t infer__token_flags(const infer__tokenizer *t, infer_token token) {
    return token < 0 || token >= t->vocab.n ? 0 : t->vocab.flags[token] & ~INFER__TOKEN_RSTRIP;
}

static infer_token infer__token_special(const infer__tokenizer *t, int32_t which) {
    return which < 0 || which >= INFER_SPECIAL_COUNT ? -1 : t->vocab.special[which];
}
