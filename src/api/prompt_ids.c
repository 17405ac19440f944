/* prompt_ids.c: prompts as tokens: a text, or the segments of a conversation, with media in the place of its markers.
 *
 * Owns:  where a text is cut at INFER_MEDIA_MARKER: what lies between is tokenized by itself, the texts that belong to
 *        a picture with control tokens, and a row of it is a token below -1 (model/session/media.c).
 */
#include "../model/model.h"

static int infer__ids_reserve(infer__ids *x, uint64_t n, infer_error *err) {
    infer_token *p;
    if (n <= x->cap) return 1;
    p = (infer_token *)infer__realloc(x->mem, x->ids, n, sizeof *p);
    if (!p) {
        infer__error(err, INFER_ERR_MEMORY, "no memory for %llu tokens", (unsigned long long)n);
        return 0;
    }
    x->ids = p;
    x->cap = n;
    return 1;
}

static void infer__ids_free(infer__ids *x) { infer__free(x->mem, x->ids); }

/* Append the tokens of segments, or with structure NULL of one segment's text alone, by `flags`. */
static infer_result infer__ids_add(infer__ids *x, const infer_segment *segments, size_t n, const uint8_t *structure,
                                   int32_t flags, infer_error *err) {
    const infer__tokenizer *t = x->model->tokenizer;
    size_t count = 0, most = 16, i; /* a text has hardly more tokens than bytes */
    infer_result r = INFER_OK;
    for (i = 0; i < n; i++) most += structure ? segments[i].n / 3 : segments[i].n;
    do {
        most = INFER__MAX(most, count);
        if (!infer__ids_reserve(x, (uint64_t)x->n + most + 1, err)) return INFER_ERR_MEMORY; /* one is left for BOS */
        if (structure)
            r = infer__tokenize_segments(t, x->mem, segments, n, structure, 0, x->ids + x->n, most, &count, err);
        else if (n && segments->n)
            r = infer__tokenize(t, x->mem, segments->text, segments->n, flags, x->ids + x->n, most, &count, err);
    } while (r == INFER_OK && count > most);
    if (r == INFER_OK) x->n += count;
    return r;
}

static infer_result infer__ids_media(infer__ids *x, const infer_media *media, infer_error *err) {
    int32_t i, k;
    infer_result r = INFER_OK;
    for (i = 0; i < media->n_parts && !r; i++) {
        const infer__media_part *p = &media->parts[i];
        infer_segment text;
        if (p->rows) {
            if (!infer__ids_reserve(x, (uint64_t)x->n + (uint64_t)p->n + 1, err)) return INFER_ERR_MEMORY;
            for (k = 0; k < p->n; k++) x->ids[x->n++] = infer__media_token(p, k);
            continue;
        }
        memset(&text, 0, sizeof text);
        text.text = p->text;
        text.n = strlen(p->text);
        r = infer__ids_add(x, &text, 1, NULL, INFER_TEXT_PARSE_SPECIAL, err);
    }
    return r;
}

/* The first marker in s; NULL when there is none. */
static const char *infer__marker_in(const char *s, size_t n) {
    const size_t len = sizeof INFER_MEDIA_MARKER - 1;
    for (; n >= len; s++, n--)
        if (*s == INFER_MEDIA_MARKER[0] && memcmp(s, INFER_MEDIA_MARKER, len) == 0) return s;
    return NULL;
}

static infer_result infer__ids_make(infer__ids *x, const infer_segment *segments, size_t n, const uint8_t *structure,
                                    int32_t flags, infer_media *const *media, int32_t n_media, infer_error *err) {
    infer_segment *run = NULL; /* segments up to the next marker */
    size_t i, filled = 0;
    int32_t seen = 0;
    infer_result r = INFER_OK;
    if (!INFER__HAS_MEDIA || n_media < 1) return infer__ids_add(x, segments, n, structure, flags, err);
    run = (infer_segment *)infer__calloc(x->mem, (uint64_t)n + 1, sizeof *run);
    if (!run) return infer__error(err, INFER_ERR_MEMORY, "no memory for a prompt");
    for (i = 0; i < n && !r; i++) {
        infer_segment rest = segments[i];
        const char *marker;
        while (!r && (marker = infer__marker_in(rest.text, rest.n)) != NULL) {
            run[filled] = rest;
            run[filled].n = (size_t)(marker - rest.text);
            filled += run[filled].n > 0;
            if (filled) r = infer__ids_add(x, run, filled, structure, flags, err);
            if (!r && seen < n_media) r = infer__ids_media(x, media[seen], err);
            filled = 0;
            seen++;
            rest.n -= (size_t)(marker - rest.text) + sizeof INFER_MEDIA_MARKER - 1;
            rest.text = marker + sizeof INFER_MEDIA_MARKER - 1;
        }
        run[filled] = rest;
        filled += rest.n > 0;
    }
    if (!r && filled) r = infer__ids_add(x, run, filled, structure, flags, err);
    infer__free(x->mem, run);
    if (!r && seen != n_media)
        r = infer__error(err, INFER_ERR_ARGUMENT,
                         "the prompt has %d markers (" INFER_MEDIA_MARKER ") for %d pictures and sounds", (int)seen,
                         (int)n_media);
    return r;
}

static infer_result infer__ids_begin(infer__ids *x, infer_error *err) {
    const infer__tokenizer *t = x->model->tokenizer;
    const infer_token bos = infer__token_special(t, INFER_SPECIAL_BOS);
    if (!infer__tokenizer_adds_bos(t) || bos < 0 || (x->n > 0 && x->ids[0] == bos)) return INFER_OK;
    if (!infer__ids_reserve(x, (uint64_t)x->n + 1, err)) return INFER_ERR_MEMORY;
    memmove(x->ids + 1, x->ids, x->n * sizeof *x->ids);
    x->ids[0] = bos;
    x->n++;
    return INFER_OK;
}

/* Media of a call: they are of the model, and there are places for them. */
static infer_result infer__media_check(const infer_model *model, infer_media *const *media, int32_t n,
                                       infer_error *err) {
    int32_t i;
    if (n < 0 || (n > 0 && !media))
        return infer__error(err, INFER_ERR_ARGUMENT, n < 0 ? "n_media is below 0" : "media is NULL, n_media is not 0");
    if (!INFER__HAS_MEDIA && n > 0) return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
    for (i = 0; i < n; i++)
        if (!media[i] || media[i]->model != model)
            return infer__error(err, INFER_ERR_ARGUMENT, "media %d: it is %s", (int)i,
                                media[i] ? "another model's" : "NULL");
    return INFER_OK;
}

static infer_result infer__prompt_ids(const infer_model *model, infer__mem *mem, const char *prompt,
                                      const infer_generate_params *p, int begins, infer_token **out, size_t *n,
                                      infer_error *err) {
    infer__ids x;
    infer_segment text;
    infer_result r;
    memset(&x, 0, sizeof x);
    memset(&text, 0, sizeof text);
    x.mem = mem;
    x.model = model;
    text.text = prompt ? prompt : "";
    text.n = strlen(text.text);
    *n = 0;
    r = infer__media_check(model, p->media, p->n_media, err);
    if (!r)
        r = infer__ids_make(&x, &text, 1, NULL, p->text_flags & INFER_TEXT_PARSE_SPECIAL, p->media, p->n_media, err);
    if (!r && begins) r = infer__ids_begin(&x, err);
    if (!r && !infer__ids_reserve(&x, (uint64_t)x.n + 1, err)) r = INFER_ERR_MEMORY;
    if (r) {
        infer__ids_free(&x);
        return r;
    }
    *out = x.ids;
    *n = x.n;
    return INFER_OK;
}
