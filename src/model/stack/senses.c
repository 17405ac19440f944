/* senses.c: the projector of a text model: opening it, and encoding pictures and sounds for prompts.
 *
 * Owns:  infer_model.senses. One encoding runs at a time; others wait for it.
 * How:   src/media makes tensors and texts of a picture or sound (a list of pieces), a stack makes embeddings of the
 *        tensors, and both become the parts of an infer_media. Media is kept by a hash of the pixels or samples: also
 *        after its last reference has gone, when the model no longer counts it as a child, until others displace it.
 * Start: infer__senses_open, infer__media_encode.
 */
#include "../../media/media.h"
#include "../../media/prepare.h"
#include "../model.h"

#if !defined(INFER_NO_MEDIA)

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void infer__senses_close(infer_model *m) {
    struct infer__senses *x = m->senses;
    int32_t i;
    if (!x) return;
    for (i = 0; i < INFER__KEPT_MEDIA; i++)
        if (x->kept[i].key && x->kept[i].idle) infer__media_free_parts(x->kept[i].media);
    for (i = 0; i < INFER__SENSES; i++) {
        if (x->contexts[i]) infer__context_end(x->contexts[i]);
        if (x->stacks[i]) infer__model_free(x->stacks[i]);
    }
    infer__mutex_destroy(&x->lock);
    infer__mutex_destroy(&x->encoding);
    infer__free(&m->mem, x);
    m->senses = NULL;
}

/* A stack runs where the text model may run, and on the CPU where devices have no kernels for it. */
static infer_result infer__senses_stack(const infer_model *m, const infer__gguf_origin *origin, int32_t kind,
                                        infer_model **out, infer_error *err) {
    infer_model_params p = m->params;
    infer_result r = infer__stack_open(out, origin, kind, &p, err);
    infer_error first = *err;
    if (r != INFER_ERR_UNSUPPORTED || !INFER__HAS_GPU || p.backend == INFER_CPU) return r;
    memset(p.devices, 0, sizeof p.devices);
    p.backend = INFER_CPU;
    p.device = p.gpu_layers = 0;
    r = infer__stack_open(out, origin, kind, &p, err);
    if (r == INFER_OK) infer__log(&m->report, 2, "the projector runs on the CPU: %s", first.message);
    else *err = first;
    return r;
}

static infer_result infer__senses_open(infer_model *m, const infer__gguf_origin *origin, int alone, infer_error *err) {
    struct infer__senses *x;
    int32_t width = m->hp.n_embd * (1 + m->hp.n_deepstack);
    int32_t i, found = 0;
    infer_result r = INFER_OK, unsupported = INFER_OK;
    if (m->why_code != INFER_OK && !alone) return infer__error(err, m->why_code, "%s", m->why_not);
    if (m->senses) return infer__error(err, INFER_ERR_STATE, "the model has a projector already");
    if (m->params.media_kept < -1 || m->params.media_kept > INFER__KEPT_MEDIA)
        return infer__error(err, INFER_ERR_ARGUMENT, "media_kept is %d, outside -1..%d", (int)m->params.media_kept,
                            INFER__KEPT_MEDIA);
    x = (struct infer__senses *)infer__calloc(&m->mem, 1, sizeof *x);
    if (!x) return infer__error(err, INFER_ERR_MEMORY, "no memory for a projector");
    if (!infer__mutex_init(&x->lock)) goto no_mutex;
    if (!infer__mutex_init(&x->encoding)) {
        infer__mutex_destroy(&x->lock);
        goto no_mutex;
    }
    x->most = m->params.media_kept < 0 ? 0 : m->params.media_kept ? m->params.media_kept : INFER__KEPT_MEDIA / 2;
    m->senses = x;
    for (i = 0; i < INFER__SENSES && !r; i++) {
        r = infer__senses_stack(m, origin, INFER__STACK_VISION + i, &x->stacks[i], &x->why[i]);
        if (x->stacks[i] && alone && !found) m->hp.n_embd = width = infer__stack_width(x->stacks[i]);
        if (x->stacks[i]) found++;
        if (x->stacks[i] && infer__stack_width(x->stacks[i]) != width)
            r = infer__error(&x->why[i], INFER_ERR_ARGUMENT, "the projector makes embeddings of %d values, %s %d",
                             (int)infer__stack_width(x->stacks[i]), alone ? "of pictures" : "the text model needs",
                             (int)width);
        if (r && err) *err = x->why[i];
        if (r == INFER_ERR_UNSUPPORTED) { /* one of two is better than none */
            unsupported = r;
            r = INFER_OK;
        }
    }
    if (!r && !found)
        r = unsupported ? unsupported
                        : infer__error(err, INFER_ERR_FORMAT, "the file has no encoder of pictures or sound");
    if (r) infer__senses_close(m);
    else infer__error_clear(err);
    return r;
no_mutex:
    infer__free(&m->mem, x);
    return infer__error(err, INFER_ERR_MEMORY, "no mutex for a projector");
}

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

static int infer__senses_keep(infer_media *x) {
    struct infer__senses *s = x->model->senses;
    infer__kept_media *least = NULL;
    infer_media *gone = NULL;
    int32_t i, idle = 0, keeps = 0;
    if (!s) return 0;
    infer__mutex_lock(&s->lock);
    for (i = 0; i < INFER__KEPT_MEDIA; i++)
        if (s->kept[i].key && s->kept[i].media == x) {
            keeps = s->most > 0;
            s->kept[i].idle = keeps;
            if (!keeps) s->kept[i].key = 0;
        }
    for (i = 0; i < INFER__KEPT_MEDIA; i++) {
        if (!s->kept[i].key || !s->kept[i].idle) continue;
        idle++;
        if (!least || s->kept[i].used < least->used) least = &s->kept[i];
    }
    if (idle > s->most && least) {
        gone = least->media;
        least->key = 0;
        if (gone == x) keeps = 0;
    }
    infer__mutex_unlock(&s->lock);
    if (gone && gone != x) infer__media_free_parts(gone);
    return keeps;
}

/* One more owner, unless the last reference has gone. */
static int infer__media_again(infer_media *x) {
    int64_t n;
    do n = infer__atomic_get(&x->refs);
    while (n > 0 && !infer__atomic_swap(&x->refs, n, n + INFER__OWNED));
    return n > 0;
}

/* A reference to media that is kept under a key; NULL when there is none. The lock is held. */
static infer_media *infer__senses_find(struct infer__senses *s, uint64_t key) {
    int32_t i;
    for (i = 0; i < INFER__KEPT_MEDIA; i++) {
        infer__kept_media *k = &s->kept[i];
        if (k->key != key) continue;
        k->used = ++s->uses;
        if (k->idle) {
            infer__atomic_set(&k->media->refs, INFER__OWNED);
            infer__model_hold(k->media->model);
            k->idle = 0;
            return k->media;
        }
        return infer__media_again(k->media) ? k->media : NULL;
    }
    return NULL;
}

/* The lock is held; makes room by what was used longest ago. */
static void infer__senses_note(struct infer__senses *s, uint64_t key, infer_media *media) {
    infer__kept_media *k = &s->kept[0];
    int32_t i;
    for (i = 1; i < INFER__KEPT_MEDIA && k->key; i++)
        if (!s->kept[i].key || s->kept[i].used < k->used) k = &s->kept[i];
    if (k->key && k->idle) infer__media_free_parts(k->media);
    k->key = key;
    k->used = ++s->uses;
    k->media = media;
    k->idle = 0;
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* What is encoded: pictures (several are frames of a video that become one), or a sound of 16 kHz. */
typedef struct infer__encoding {
    infer_model *model;
    const infer_image *images;
    int32_t n_images;
    const infer_sound *sound;
    const infer_encode_params *p;
    const infer__media_settings *settings;
    infer__media_list list;
    infer__media_part *parts; /* list.n_pieces */
    int32_t media, given;     /* pieces that are encoded; begun so far */
} infer__encoding;

/* Progress of one entry among all. */
static int infer__encode_progress(void *user, float done) {
    const infer__encoding *e = (const infer__encoding *)user;
    return e->p->progress(e->p->progress_user, ((float)(e->given - 1) + done) / (float)e->media);
}

/* The context of a stack, for an entry of this size. */
static infer_result infer__encoding_context(const infer__encoding *e, int32_t stack, const infer__media_entry *entry,
                                            infer_error *err) {
    struct infer__senses *s = e->model->senses;
    infer_context_params p;
    memset(&p, 0, sizeof p);
    p.threads = e->p->threads;
    if (s->contexts[stack]) {
        if (infer__stack_fits(s->contexts[stack], entry->width, entry->height) &&
            (!p.threads || p.threads == s->contexts[stack]->plan.threads))
            return INFER_OK;
        infer__context_end(s->contexts[stack]);
        s->contexts[stack] = NULL;
    }
    return infer__stack_context(&s->contexts[stack], s->stacks[stack], &p, entry->width, entry->height, err);
}

static infer_result infer__encode_piece(infer__encoding *e, const infer__media_piece *piece, infer__media_part *part,
                                        infer_error *err) {
    const int32_t stack = piece->kind == INFER__MEDIA_SOUND ? INFER__STACK_AUDIO - 1 : INFER__STACK_VISION - 1;
    const infer__media_entry *entry = &e->list.entries[piece->entry];
    const infer_model *m = e->model;
    const uint64_t width = (uint64_t)infer__stack_width(m->senses->stacks[stack]) * sizeof(float);
    infer_session_params sp;
    int32_t frame, n;
    infer_result r = infer__encoding_context(e, stack, entry, err);
    if (r) return r;
    n = infer__stack_tokens(m->senses->stacks[stack], entry->width, entry->height, err);
    if (n != piece->n_tokens)
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "a picture or sound of %d x %d has %d embeddings, and %d places in the prompt",
                            (int)entry->width, (int)entry->height, (int)n, (int)piece->n_tokens);
    part->n = piece->n_tokens;
    part->n_pos = piece->n_pos;
    part->nx = piece->grid ? piece->nx : 0;
    part->whole = piece->non_causal;
    part->rows = (float *)infer__alloc(&e->model->mem, (uint64_t)part->n * width);
    if (!part->rows)
        return infer__error(err, INFER_ERR_MEMORY, "no memory for %d embeddings of a picture or sound", (int)part->n);
    memset(&sp, 0, sizeof sp);
    if (e->p->progress) sp.progress = infer__encode_progress;
    sp.progress_user = e;
    for (frame = 0; e->p->prepared && frame < piece->n_entries; frame++)
        e->p->prepared(e->p->prepared_user, e->given, frame, entry[frame].values, entry[frame].width,
                       entry[frame].height);
    e->given++;
    return infer__stack_encode(m->senses->contexts[stack], entry->values, entry->width, entry->height,
                               piece->n_entries > 1 ? entry[1].values : NULL, &sp, part->rows, err);
}

static infer_result infer__encode_list(infer__encoding *e, infer_media **out, infer_error *err) {
    infer__mem *mem = &e->model->mem;
    int32_t i;
    infer_result r = e->sound ? infer__media_plan_sound(mem, e->settings, e->sound->n, &e->list, err)
                              : infer__media_plan(mem, e->settings, e->images, e->n_images, &e->list, err);
    if (r) return r;
    r = e->sound ? infer__media_fill_sound(&e->list, e->settings, e->sound->samples, err)
                 : infer__media_fill(&e->list, e->settings, e->images, err);
    for (i = 0; i < e->list.n_pieces; i++) e->media += e->list.pieces[i].kind != INFER__MEDIA_TEXT;
    e->parts = (infer__media_part *)infer__calloc(mem, (uint64_t)e->list.n_pieces, sizeof *e->parts);
    if (!r && !e->parts) r = infer__error(err, INFER_ERR_MEMORY, "no memory for a picture or sound");
    for (i = 0; i < e->list.n_pieces && !r; i++) {
        const infer__media_piece *piece = &e->list.pieces[i];
        if (piece->kind == INFER__MEDIA_TEXT) e->parts[i].text = (char *)(uintptr_t)piece->text; /* it is copied */
        else r = infer__encode_piece(e, piece, &e->parts[i], err);
    }
    if (!r) r = infer__media_make(out, e->model, e->parts, e->list.n_pieces, err);
    for (i = 0; r && e->parts && i < e->list.n_pieces; i++) infer__free(mem, e->parts[i].rows);
    infer__free(mem, e->parts);
    infer__media_list_free(&e->list);
    return r;
}

static uint64_t infer__encoding_key(const infer__encoding *e) {
    const int32_t how[3] = { e->n_images, e->p->min_tokens, e->p->max_tokens };
    uint64_t h = infer__fnv(INFER__FNV, how, sizeof how);
    int32_t i;
    for (i = 0; i < e->n_images; i++) {
        const int32_t size[2] = { e->images[i].width, e->images[i].height };
        h = infer__fnv(infer__fnv(h, size, sizeof size), e->images[i].rgb, (uint64_t)size[0] * (uint64_t)size[1] * 3);
    }
    if (e->sound) h = infer__fnv(h, e->sound->samples, (uint64_t)e->sound->n * sizeof(float));
    return h ? h : 1;
}

static infer_result infer__encode_kept(infer__encoding *e, infer_media **out, infer_error *err) {
    struct infer__senses *s = e->model->senses;
    const uint64_t key = infer__encoding_key(e);
    const uint64_t self = infer__thread_self();
    infer_result r = INFER_OK;
    int own, fresh;
    infer__mutex_lock(&s->lock);
    own = s->thread == self;
    *out = own ? NULL : infer__senses_find(s, key); /* what is kept waits for no encoding */
    infer__mutex_unlock(&s->lock);
    if (own) return infer__error(err, INFER_ERR_STATE, "a callback of an encoding cannot encode with the same model");
    if (*out) return INFER_OK;
    infer__mutex_lock(&s->encoding);
    infer__mutex_lock(&s->lock);
    s->thread = self;
    *out = infer__senses_find(s, key); /* another thread may have encoded it meanwhile */
    infer__mutex_unlock(&s->lock);
    fresh = !*out;
    if (fresh) r = infer__encode_list(e, out, err);
    infer__mutex_lock(&s->lock);
    if (fresh && !r) infer__senses_note(s, key, *out);
    s->thread = 0;
    infer__mutex_unlock(&s->lock);
    infer__mutex_unlock(&s->encoding);
    return r;
}

static infer_result infer__media_encode(infer_media **out, infer_model *m, const infer_image *images, int32_t n,
                                        const infer_sound *sound, const infer_encode_params *params, infer_error *err) {
    static const char *const WHAT[] = { "pictures", "sound" };
    const int32_t stack = sound ? INFER__STACK_AUDIO - 1 : INFER__STACK_VISION - 1;
    infer_encode_params none;
    infer__media_options options;
    infer__media_file file;
    infer__encoding e;
    infer_result r;
    int32_t i;
    memset(&none, 0, sizeof none);
    memset(&options, 0, sizeof options);
    memset(&e, 0, sizeof e);
    e.model = m;
    e.images = images;
    e.n_images = n;
    e.sound = sound;
    e.p = params ? params : &none;
    if (infer__reserved_check(e.p->reserved, "encode_params", err)) return INFER_ERR_ARGUMENT;
    if (!m->senses && m->why_code != INFER_OK) /* a projector's file that was refused, too */
        return infer__error(err, INFER_ERR_UNSUPPORTED, "%s: %s", WHAT[stack], m->why_not);
    if (!m->senses)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "the model has no projector, which %s need", WHAT[stack]);
    if (!m->senses->stacks[stack])
        return infer__error(err, INFER_ERR_UNSUPPORTED, m->senses->why[stack].message[0] ? "%s: %s"
                                                        : "the projector has no encoder of %s%s",
                            WHAT[stack], m->senses->why[stack].message);
    for (i = 0; i < n; i++)
        if (images[i].width < 1 || images[i].height < 1 || !images[i].rgb)
            return infer__error(err, INFER_ERR_ARGUMENT, "picture %d: %d x %d pixels%s", (int)i, (int)images[i].width,
                                (int)images[i].height, images[i].rgb ? "" : ", and rgb is NULL");
    if (sound && (!sound->samples || sound->n < 1 || sound->rate < 1))
        return infer__error(err, INFER_ERR_ARGUMENT, "a sound of %llu samples, %d a second%s",
                            (unsigned long long)sound->n, (int)sound->rate, sound->samples ? "" : ", samples is NULL");
    options.min_tokens = e.p->min_tokens;
    options.max_tokens = e.p->max_tokens;
    options.mrope = m->hp.axes != NULL;
    options.vocab = infer__tokenizer_vocab(m->tokenizer);
    r = infer__media_settings_read(&m->senses->stacks[stack]->gguf, &options, &file, err);
    if (r) return r;
    e.settings = sound ? &file.sound : &file.image;
    if (e.settings->why.code) return infer__error(err, e.settings->why.code, "%s", e.settings->why.message);
    if (!e.settings->row)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "the projector has no encoder of %s", WHAT[stack]);
    return infer__encode_kept(&e, out, err);
}

#else
static void infer__senses_close(infer_model *m) { (void)m; }
static int infer__senses_keep(infer_media *x) {
    (void)x;
    return 0;
}
static infer_result infer__senses_open(infer_model *m, const infer__gguf_origin *origin, int alone, infer_error *err) {
    (void)m, (void)origin, (void)alone;
    return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
}
static infer_result infer__media_encode(infer_media **out, infer_model *m, const infer_image *images, int32_t n,
                                        const infer_sound *sound, const infer_encode_params *params, infer_error *err) {
    (void)out, (void)m, (void)images, (void)n, (void)sound, (void)params;
    return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA");
}
#endif
