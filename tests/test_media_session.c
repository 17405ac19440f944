/* test_media_session.c: embeddings of pictures and sound in sessions: logits after recorded embeddings are those of
 * llama.cpp, for every text model of the references; in passes and slices of every size, after rewinds, in forks and
 * saved sessions with the same bits; what is refused. */

/* A recorded file of vision/cases: int32 n, width, n ids, n * width floats. */
typedef struct seen_rows { int32_t n, width; int32_t *ids; float *v; } seen_rows;
static int seen_read(seen_rows *x, const char *path) {
    FILE *f = path ? fopen(path, "rb") : NULL;
    memset(x, 0, sizeof *x);
    if (!f) return 0;
    if (fread(&x->n, 4, 1, f) == 1 && fread(&x->width, 4, 1, f) == 1) {
        x->ids = (int32_t *)malloc(4 * (size_t)x->n);
        x->v = (float *)malloc(4 * (size_t)x->n * (size_t)x->width);
        CHECK(fread(x->ids, 4, (size_t)x->n, f) == (size_t)x->n);
        CHECK(fread(x->v, 4, (size_t)x->n * (size_t)x->width, f) == (size_t)x->n * (size_t)x->width);
    }
    fclose(f);
    return 1;
}
static void seen_rows_free(seen_rows *x) { free(x->ids); free(x->v); }

static const char *const MEDIA_CASES[] = {
#include "media_cases.h"
};

/* A case: its tokens, with those of the media, and the rows whose logits are recorded. */
typedef struct seen_case {
    infer_json *json;
    infer_media *media[64];
    int32_t n_media, n;
    infer_token tokens[4096];
    int32_t whole, grid;
    seen_rows logits;
} seen_case;


static char *seen_json(const char *name, infer_json **out) {
    char file[160], *text;
    size_t n;
    infer_error e;
    snprintf(file, sizeof file, "vision/cases/%s.json", name);
    text = check_read(check_reference(file), &n);
    if (!text || infer_json_parse(out, text, n, NULL, &e) != INFER_OK) *out = NULL;
    return text;
}
static int32_t seen_int(const infer_json *v, const char *name) {
    const infer_json *k = infer_json_get(v, name);
    return k ? (int32_t)infer_json_int(k) : -1;
}

/* Where models run, for test_gpu_media.c; a function that gets one of them before it has contexts. */
static int32_t seen_backend = INFER_CPU, seen_layers, seen_exact;
static void (*seen_opened)(infer_model *m);

static void seen_params(infer_model_params *p) {
    memset(p, 0, sizeof *p);
    p->allocator.alloc = check_alloc;
    p->allocator.free = check_free;
    p->backend = seen_backend;
    p->gpu_layers = seen_layers;
    p->exact = seen_exact;
}

static infer_model *seen_text_model(const infer_json *j) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    char file[80];
    snprintf(file, sizeof file, "vision/text/%s.gguf", infer_json_string(infer_json_get(j, "text_model"), NULL));
    seen_params(&p);
    if (infer_model_open(&m, check_reference(file), &p, &e) != INFER_OK) check_note(__FILE__, __LINE__, e.message);
    if (m && seen_opened) seen_opened(m);
    return m;
}

/* The case's tokens and media for an open model. */
static int seen_case_make(seen_case *x, const char *name, const infer_json *j, infer_model *m) {
    const infer_json *chunks = infer_json_get(j, "chunks");
    size_t i, k;
    int32_t media = 0, r;
    char file[200];
    memset(x, 0, sizeof *x);
    for (i = 0; i < infer_json_count(chunks); i++) {
        const infer_json *c = infer_json_at(chunks, i), *ids = infer_json_get(c, "ids"), *grid = infer_json_get(c, "grid");
        infer__media_part part;
        seen_rows rows;
        infer_error e;
        if (ids) {
            for (k = 0; k < infer_json_count(ids); k++) x->tokens[x->n++] = (infer_token)infer_json_int(infer_json_at(ids, k));
            continue;
        }
        snprintf(file, sizeof file, "vision/cases/%s.%d.embd", name, (int)media);
        if (!seen_read(&rows, check_reference(file))) { check_note(__FILE__, __LINE__, file); return 0; }
        memset(&part, 0, sizeof part);
        part.n = rows.n;
        part.n_pos = seen_int(c, "n_pos");
        part.whole = infer_json_kind(infer_json_get(c, "non_causal")) == INFER_JSON_TRUE;
        part.nx = part.n_pos != part.n || infer_json_get(c, "positions_txy") ? (int32_t)infer_json_int(infer_json_at(grid, 0)) : 0;
        x->whole += part.whole;
        x->grid += part.nx > 0;
        CHECK(rows.n == seen_int(c, "n_tokens") && rows.width == m->hp.n_embd * (1 + m->hp.n_deepstack));
        part.rows = (float *)infer__alloc(&m->mem, 4 * (uint64_t)rows.n * (uint64_t)rows.width);
        memcpy(part.rows, rows.v, 4 * (size_t)rows.n * (size_t)rows.width);
        seen_rows_free(&rows);
        CHECK(infer__media_make(&x->media[media], m, &part, 1, &e) == INFER_OK);
        for (r = 0; r < part.n; r++) x->tokens[x->n++] = infer__media_token(&x->media[media]->parts[0], r);
        x->n_media = ++media;
    }
    snprintf(file, sizeof file, "vision/cases/%s.logits", name);
    return seen_read(&x->logits, check_reference(file));
}
static void seen_case_free(seen_case *x) {
    int32_t i;
    for (i = 0; i < x->n_media; i++) infer_media_free(x->media[i]);
    seen_rows_free(&x->logits);
}

static infer_session *seen_session(infer_model *m, int32_t batch, int32_t threads, infer_context **c) {
    infer_context_params p;
    infer_session_params sp;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    p.batch = batch;
    p.threads = threads;
    p.cells = 4096;
    p.kv_type = INFER_KV_F32;
    sp.context = 2048;
    if (infer_context_create(c, m, &p, &e) != INFER_OK || infer_session_create_in(&s, *c, &sp, &e) != INFER_OK) check_note(__FILE__, __LINE__, e.message);
    return s;
}

/* Evaluate all; rows of logits of text go to out, at most rows of them. */
static int32_t seen_eval(infer_session *s, const seen_case *x, float *out) {
    const int32_t n_vocab = s->context->model->hp.n_vocab;
    int32_t i, rows = 0;
    infer_step step;
    infer_error e;
    memset(&step, 0, sizeof step);
    step.session = s;
    step.tokens = x->tokens;
    step.n = x->n;
    step.outputs = INFER_OUT_ALL;
    infer__session_offer(s, x->media, x->n_media);
    if (infer_eval(s->context, &step, 1, &e) != INFER_OK) { check_note(__FILE__, __LINE__, e.message); return 0; }
    infer__session_offer(s, NULL, 0);
    for (i = 0; i < x->n; i++)
        if (x->tokens[i] >= 0) memcpy(out + (size_t)rows++ * (size_t)n_vocab, infer_session_logits(s, i), 4 * (size_t)n_vocab);
    return rows;
}

static void test_media_logits(void) {
    static float got[128 * 336], same[128 * 336];
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(MEDIA_CASES); i += (size_t)check_every(9)) {
        infer_json *j;
        char *text = seen_json(MEDIA_CASES[i], &j);
        infer_model *m = j ? seen_text_model(j) : NULL;
        seen_case x;
        check_detail = MEDIA_CASES[i];
        if (!m) { check_note(__FILE__, __LINE__, "no case"); free(text); continue; }
        if (seen_case_make(&x, MEDIA_CASES[i], j, m)) {
            infer_context *c = NULL;
            infer_session *s = seen_session(m, x.whole ? 256 : 512, 1, &c);
            const int32_t rows = seen_eval(s, &x, got);
            const double error = check_nmse(got, x.logits.v, (size_t)rows * 336);
            CHECK(rows == x.logits.n);
            if (getenv("MEDIA_PRINT")) printf("%-60s %g\n", MEDIA_CASES[i], error);
            CHECK(error < 2e-6);
            infer_session_destroy(s);
            infer_context_destroy(c);
            s = seen_session(m, x.whole ? 173 : 7, 2, &c); /* in other passes */
            CHECK(seen_eval(s, &x, same) == rows && memcmp(got, same, 4 * (size_t)rows * 336) == 0);
            infer_session_destroy(s);
            infer_context_destroy(c);
        }
        seen_case_free(&x);
        infer_model_close(m);
        infer_json_free(j);
        free(text);
    }
    CHECK(check_live == 0);
}


/* Models with every kind of place for media: a window and a whole block, a grid, parts after later layers, a recurrent state, a chunked window. */
static const char *const MEDIA_KINDS[] = { "gemma3_gradient-64x48+checker-20x20", "qwen2vl_text-200x120+gradient-64x48",
    "qwen3vl_text-200x120+gradient-64x48", "lfm2_noise-37x91", "llama4_noise-37x91", "gemma4v_gradient-64x48" };

typedef struct seen_world {
    infer_json *json;
    char *text;
    infer_model *m;
    infer_context *c;
    infer_session *s;
    seen_case x;
} seen_world;

static int seen_begin(seen_world *w, const char *name, int32_t batch) {
    memset(w, 0, sizeof *w);
    check_detail = name;
    w->text = seen_json(name, &w->json);
    w->m = w->json ? seen_text_model(w->json) : NULL;
    if (!w->m || !seen_case_make(&w->x, name, w->json, w->m)) { check_note(__FILE__, __LINE__, "no case"); return 0; }
    w->s = seen_session(w->m, batch, 1, &w->c);
    return w->s != NULL;
}
static void seen_end(seen_world *w) {
    if (w->m) seen_case_free(&w->x);
    infer_session_destroy(w->s);
    infer_context_destroy(w->c);
    infer_model_close(w->m);
    infer_json_free(w->json);
    free(w->text);
}
/* The logits of the last row after these tokens; same: they must be these. */
static void seen_last(infer_session *s, float *to) { memcpy(to, infer_session_logits(s, -1), 336 * sizeof *to); }
static int seen_same(infer_session *s, const float *want) {
    const float *x = infer_session_logits(s, -1);
    return x && memcmp(x, want, 336 * sizeof *x) == 0;
}

/* The first position of the last picture, and one after it. */
static int32_t seen_first(const seen_case *x, int32_t *end) {
    int32_t i = x->n, k;
    while (i > 0 && x->tokens[i - 1] >= 0) i--;
    *end = i;
    for (k = i; k > 0 && x->tokens[k - 1] < 0; k--) {}
    return k;
}

/* The sum of a state that was changed. */
static void seen_sum(state_bytes *b) {
    const uint64_t sum = infer__fnv(INFER__FNV, b->p, b->n - 8);
    memcpy(b->p + b->n - 8, &sum, 8);
    b->at = 0;
}

static void test_media_kinds(void) {
    static const infer_token more[] = { 65, 66, 67 };
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(MEDIA_KINDS); i++) {
        seen_world w;
        infer_session *f = NULL;
        infer_step step;
        infer_error e;
        infer_result r;
        infer_session_mark mark;
        infer_token bad[4096];
        state_bytes b;
        float last[336], then[336];
        int32_t first, end, k, kept, slices = 0;
        if (!seen_begin(&w, MEDIA_KINDS[i], 256)) continue;
        first = seen_first(&w.x, &end);
        memset(&b, 0, sizeof b);
        memset(&mark, 0, sizeof mark);
        /* nothing was offered; then whole */
        CHECK(infer_session_eval(w.s, w.x.tokens, w.x.n) == INFER_ERR_ARGUMENT && infer_session_position(w.s) == 0);
        CHECK_HAS(infer_session_error(w.s)->message, "stands for nothing that was given");
        CHECK(w.s->n_spans == 0);
        CHECK(infer_session_media(w.s, w.x.media, w.x.n_media) == INFER_OK);
        CHECK(infer_session_eval(w.s, w.x.tokens, w.x.n) == INFER_OK);
        seen_last(w.s, last);
        CHECK(infer_session_eval(w.s, more, 3) == INFER_OK);
        seen_last(w.s, then);
        /* saved, both ways; forked */
        CHECK(infer_session_rewind(w.s, w.x.n) == INFER_OK);
        CHECK(infer_session_eval(w.s, more, 1) == INFER_OK);
        CHECK(infer_session_save(w.s, state_write, &b) == INFER_OK);
        CHECK(infer_session_create_in(&f, w.c, NULL, &e) == INFER_OK && infer_session_load(f, state_read, &b) == INFER_OK);
        CHECK(infer_session_eval(f, more + 1, 2) == INFER_OK && seen_same(f, then));
        CHECK(f->n_spans == w.s->n_spans && (f->n_spans == 0 || !f->spans[0].part));
        b.n = b.at = 0;
        CHECK(infer_session_save_more(w.s, &mark, state_write, &b) == INFER_OK);
        CHECK(infer_session_load_more(f, &mark, state_read, &b) == INFER_OK);
        CHECK(infer_session_eval(f, more + 1, 2) == INFER_OK && seen_same(f, then));
        CHECK(infer_session_destroy(f) == INFER_OK);
        CHECK(infer_session_fork(&f, w.s, &e) == INFER_OK && infer_session_eval(f, more + 1, 2) == INFER_OK && seen_same(f, then));
        /* the fork goes back: into a picture it cannot, before it it can, and what it saw is found by its tokens */
        CHECK(infer_session_rewind(f, first + 1) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(f)->message, "is inside a picture or sound");
        CHECK(infer_session_rewind(f, first) == INFER_OK && infer_session_position(f) == first);
        CHECK(infer_session_media(f, w.x.media, w.x.n_media) == INFER_OK);
        CHECK(infer_session_eval(f, w.x.tokens + first, w.x.n - first) == INFER_OK && seen_same(f, last));
        CHECK(infer_session_sync(f, w.x.tokens, w.x.n, &kept) == INFER_OK && kept > (i == 3 ? -1 : end) && seen_same(f, last));
        memcpy(bad, w.x.tokens, sizeof bad);
        bad[first > 0 ? 0 : end] ^= 1; /* another beginning: all again */
        CHECK(infer_session_sync(f, bad, w.x.n, NULL) == INFER_OK && !seen_same(f, last));
        CHECK(infer_session_sync(f, w.x.tokens, w.x.n, NULL) == INFER_OK && seen_same(f, last));
        /* tokens that are no picture's, or not all of one */
        bad[0] = w.x.tokens[first];
        bad[1] = w.x.tokens[first + 1] ^ 1;
        CHECK(infer_session_eval(f, bad, 2) == INFER_ERR_ARGUMENT && infer_session_position(f) == w.x.n && f->n_spans == w.s->n_spans);
        bad[0] = -1;
        CHECK(infer_session_eval(f, bad, 1) == INFER_ERR_ARGUMENT);
        if (w.x.whole) {
            CHECK(infer_session_eval(f, w.x.tokens + first, end - first - 1) == INFER_ERR_ARGUMENT);
            CHECK_HAS(infer_session_error(f)->message, "tokens end inside a picture or sound");
        }
        CHECK(infer_session_eval(f, more, 3) == INFER_OK && seen_same(f, then));
        /* in slices, and token by token where that is possible */
        CHECK(infer_session_rewind(f, 0) == INFER_OK && f->n_spans == 0);
        memset(&step, 0, sizeof step);
        step.session = f;
        step.tokens = w.x.tokens;
        step.n = w.x.n;
        step.outputs = INFER_OUT_LAST;
        while ((r = infer_eval_slice(w.c, &step, 1, 0, &e)) == INFER_MORE) slices++;
        CHECK(r == INFER_OK && slices > 1 && seen_same(f, last));
        if (!w.x.whole) {
            CHECK(infer_session_rewind(f, 0) == INFER_OK);
            for (k = 0; k < w.x.n; k++) CHECK(infer_session_eval(f, w.x.tokens + k, 1) == INFER_OK);
            CHECK(seen_same(f, last) && f->n_spans == w.s->n_spans);
            /* its other rows come first */
            CHECK(infer_session_rewind(f, 0) == INFER_OK && infer_session_eval(f, w.x.tokens, first + 1) == INFER_OK);
            CHECK(infer_session_eval(f, more, 1) == INFER_ERR_ARGUMENT && infer_session_position(f) == first + 1);
            CHECK_HAS(infer_session_error(f)->message, "is inside a picture or sound, which goes on");
            CHECK(infer_session_eval(f, w.x.tokens + first + 1, w.x.n - first - 1) == INFER_OK && seen_same(f, last));
        }
        /* states whose spans are not where the tokens are */
        for (k = 0; k < 2; k++) {
            const int32_t zero = 0, n = w.x.n + 1; /* more[0], too */
            uint32_t length;
            b.n = b.at = 0;
            CHECK(infer_session_rewind(w.s, w.x.n) == INFER_OK && infer_session_eval(w.s, more, 1) == INFER_OK);
            CHECK(infer_session_save(w.s, state_write, &b) == INFER_OK);
            memcpy(&length, b.p + 4 * (size_t)(INFER__STATE_WORDS + n) + 4, 4);
            length += (uint32_t)n;
            if (k == 0) memcpy(b.p + 4 * (size_t)(INFER__STATE_WORDS + first + 1), &zero, 4);
            else memcpy(b.p + 4 * (size_t)(INFER__STATE_WORDS + n) + 4, &length, 4);
            seen_sum(&b);
            CHECK(infer_session_load(f, state_read, &b) == INFER_ERR_FORMAT);
            CHECK_HAS(infer_session_error(f)->message, "does not fit the tokens");
        }
        CHECK(infer_session_media(f, NULL, 0) == INFER_OK && infer_session_media(f, NULL, 1) == INFER_ERR_ARGUMENT);
        CHECK(infer_session_destroy(f) == INFER_OK);
        free(b.p);
        seen_end(&w);
        CHECK(check_live == 0);
        if (check_bad) return;
    }
}

/* A block that does not fit a pass; media of another model; media freed while sessions use it; freed twice. */
static void test_media_refused(void) {
    seen_world a, b;
    infer_media *x;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    if (!seen_begin(&a, "gemma3_rings-64x64", 8) || !seen_begin(&b, "gemma3_noise-37x91", 64)) return;
    CHECK(infer_session_media(a.s, a.x.media, 1) == INFER_OK);
    CHECK(infer_session_eval(a.s, a.x.tokens, a.x.n) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(a.s)->message, "a picture of 16 tokens is evaluated whole: context_params.batch is 8");
    CHECK(infer_session_media(b.s, a.x.media, 1) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(b.s)->message, "another model's");
    CHECK(infer_session_media(b.s, b.x.media, 1) == INFER_OK && infer_session_eval(b.s, b.x.tokens, b.x.n) == INFER_OK);
    x = b.x.media[0];
    CHECK(infer_media_free(x) == INFER_OK && infer_media_free(x) == INFER_ERR_STATE); /* the session has it */
    b.x.n_media = 0;
    CHECK(infer_session_media(b.s, NULL, 0) == INFER_OK && infer_session_rewind(b.s, b.x.n - 1) == INFER_OK);
    CHECK(infer_session_eval(b.s, b.x.tokens + b.x.n - 1, 1) == INFER_OK); /* what the windows dropped is computed from it */
    CHECK(infer_media_free(NULL) == INFER_OK);
    seen_end(&a);
    seen_end(&b);
    CHECK(check_live == 0);
}

static void test_media_oom(void) {
    seen_world w;
    infer_session *f = NULL;
    infer_error e;
    infer_result r = INFER_ERR_MEMORY;
    int32_t at, n = 0;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    if (!seen_begin(&w, "qwen3vl_text-200x120+gradient-64x48", 64)) return;
    CHECK(infer_session_media(w.s, w.x.media, w.x.n_media) == INFER_OK);
    for (at = 1; r == INFER_ERR_MEMORY; at++, n++) {
        check_allocs = 0;
        check_fail_at = at;
        r = infer_session_eval(w.s, w.x.tokens, w.x.n);
        if (!r) r = infer_session_fork(&f, w.s, &e);
        check_fail_at = 0;
        if (r) CHECK(r == INFER_ERR_MEMORY && w.s->n_spans == (w.s->n ? 2 : 0));
        if (r && w.s->n) CHECK(infer_session_rewind(w.s, 0) == INFER_OK);
    }
    CHECK(r == INFER_OK && n > 3);
    infer_session_destroy(f);
    seen_end(&w);
    CHECK(check_live == 0);
}


/* From pixels and samples to logits: projector, prompt with markers, positions, everything; kept media; errors. */
static infer_model *seen_open_both(const char *text, const char *projector, infer_error *e) {
    infer_model_params p;
    infer_model *m = NULL;
    char file[100];
    snprintf(file, sizeof file, "vision/text/%s.gguf", text);
    seen_params(&p);
    p.projector = projector;
    infer_model_open(&m, check_reference(file), &p, e);
    return m;
}

/* The case's pictures or sound, as files that are decoded; frames that one medium has in *each. */
static int seen_load(infer_media **out, infer_model *m, const char *name, const char *const *more, int32_t frames, const infer_encode_params *p) {
    infer_image images[4];
    infer_sound sound;
    infer_error e;
    infer_result r;
    char file[120], *data;
    size_t n, k;
    int32_t i;
    memset(&sound, 0, sizeof sound);
    snprintf(file, sizeof file, "vision/audio/%s.s16", name);
    data = check_read(check_reference(file), &n);
    if (data) {
        sound.n = n / 2;
        sound.rate = 16000;
        sound.samples = (float *)malloc(sound.n * sizeof *sound.samples);
        for (k = 0; k < sound.n; k++) {
            int16_t v;
            memcpy(&v, data + 2 * k, 2);
            sound.samples[k] = (float)v / 32768.0f;
        }
        r = infer_media_encode_sound(out, m, &sound, p, &e);
        free(sound.samples);
        free(data);
    } else {
        for (i = 0; i < frames; i++) {
            snprintf(file, sizeof file, "vision/images/%s.ppm", i ? more[i - 1] : name);
            if (infer_image_open(&images[i], check_reference(file), NULL, &e) != INFER_OK) check_note(__FILE__, __LINE__, e.message);
        }
        r = infer_media_encode(out, m, images, frames, p, &e);
        for (i = 0; i < frames; i++) infer_image_free(&images[i]);
    }
    if (r) check_note(__FILE__, __LINE__, e.message);
    return r == INFER_OK;
}

static void media_whole(const char *name) {
    static float got[128 * 336];
    size_t k;
    infer_json *j = NULL;
    char *text = seen_json(name, &j), projector[120];
    const infer_json *names = infer_json_get(j, "media"), *options = infer_json_get(j, "options"), *chunks = infer_json_get(j, "chunks");
    const char *prompt = infer_json_string(infer_json_get(j, "prompt"), NULL), *more[4];
    infer_encode_params p;
    infer_model *m;
    infer_error e;
    seen_case x;
    size_t count = 0;
    int32_t at = 0, want = 0, frames;
    double limit = 2e-6;
    check_detail = name;
    memset(&p, 0, sizeof p);
    memset(&x, 0, sizeof x);
    if (!j) { check_note(__FILE__, __LINE__, "no case"); free(text); return; }
    snprintf(projector, sizeof projector, "%s", check_reference("vision/models/"));
    snprintf(projector + strlen(projector), sizeof projector - strlen(projector), "%s.gguf", infer_json_string(infer_json_get(j, "model"), NULL));
    m = seen_open_both(infer_json_string(infer_json_get(j, "text_model"), NULL), projector, &e);
    if (!m) {
        if (getenv("MEDIA_PRINT")) printf("%-60s %s\n", name, e.message);
        CHECK_HAS(e.message, "");
        check_note(__FILE__, __LINE__, e.message);
        infer_json_free(j);
        free(text);
        return;
    }
    if (seen_opened) seen_opened(m);
    if (strncmp(name, "llava-cls", 9) == 0) limit = 1; /* llama.cpp loses a patch: the model's own is right (docs/media.md) */
    frames = 1;
    for (k = 0; k < infer_json_count(options); k++) {
        const char *o = infer_json_string(infer_json_at(options, k), NULL);
        if (strcmp(o, "--merge") == 0) frames = 2;
        if (strcmp(o, "--min") == 0) p.min_tokens = atoi(infer_json_string(infer_json_at(options, k + 1), NULL));
        if (strcmp(o, "--max") == 0) p.max_tokens = atoi(infer_json_string(infer_json_at(options, k + 1), NULL));
    }
    for (k = 0; k < infer_json_count(names); k += (size_t)frames) {
        more[0] = k + 1 < infer_json_count(names) ? infer_json_string(infer_json_at(names, k + 1), NULL) : NULL;
        x.n_media += seen_load(&x.media[x.n_media], m, infer_json_string(infer_json_at(names, k), NULL), more, more[0] ? frames : 1, &p);
    }
    if (frames == 2) prompt = x.n_media == 2 ? "V:<__media__><__media__>\nC" : "V:<__media__>\nC"; /* a marker for both frames */
    if (infer_media_tokens(m, prompt, strlen(prompt), INFER_TEXT_PARSE_SPECIAL, x.media, x.n_media, x.tokens, 4096, &count, &e) != INFER_OK)
        check_note(__FILE__, __LINE__, e.message);
    x.n = (int32_t)count;
    if (infer_json_int(infer_json_at(infer_json_get(infer_json_at(chunks, 0), "ids"), 0)) == 257) { /* BOS: not of a text */
        memmove(x.tokens + 1, x.tokens, (size_t)x.n++ * sizeof *x.tokens);
        x.tokens[0] = 257;
    }
    for (k = 0; k < infer_json_count(chunks); k++) {
        const infer_json *c = infer_json_at(chunks, k), *ids = infer_json_get(c, "ids");
        size_t q;
        want += ids ? (int32_t)infer_json_count(ids) : seen_int(c, "n_tokens");
        for (q = 0; ids && q < infer_json_count(ids); q++, at++) CHECK(x.tokens[at] == infer_json_int(infer_json_at(ids, q)));
        if (!ids) at += seen_int(c, "n_tokens");
    }
    CHECK(x.n == want);
    snprintf(projector, sizeof projector, "vision/cases/%s.logits", name);
    if (seen_read(&x.logits, check_reference(projector))) {
        infer_context *c = NULL;
        infer_session *s = seen_session(m, 512, 1, &c);
        const int32_t rows = seen_eval(s, &x, got);
        const double error = check_nmse(got, x.logits.v, (size_t)rows * 336);
        if (getenv("MEDIA_PRINT")) printf("%-60s %g\n", name, error);
        CHECK(rows == x.logits.n && error < limit);
        infer_session_destroy(s);
        infer_context_destroy(c);
    }
    seen_case_free(&x);
    CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
    infer_json_free(j);
    free(text);
}

static void test_media_whole(void) {
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(MEDIA_CASES); i += (size_t)check_every(9))
        if (!getenv("MEDIA_CASE") || strstr(MEDIA_CASES[i], getenv("MEDIA_CASE"))) media_whole(MEDIA_CASES[i]);
}


/* A projector's file as a model of its own: embeddings of tiles as with the text model, the tensors before, progress after every layer, cancelling. */
typedef struct seen_progress { int32_t calls, stop, tensors; float last; size_t floats; } seen_progress;
static int seen_step(void *user, float done) {
    seen_progress *x = (seen_progress *)user;
    CHECK(done > x->last && done <= 1);
    x->last = done;
    return ++x->calls == x->stop;
}
static void seen_tensor(void *user, int32_t embedding, int32_t frame, const float *values, int32_t width, int32_t height) {
    seen_progress *x = (seen_progress *)user;
    CHECK(embedding == x->tensors++ && frame == 0 && values && width == 32 && height == 32);
    x->floats += (size_t)width * (size_t)height;
}
static void test_media_alone(void) {
    infer_model_params p;
    infer_model *alone = NULL, *text;
    infer_model_info info;
    infer_image image;
    infer_error e;
    infer_session *s = NULL;
    infer_media *a = NULL, *b = NULL;
    infer_encode_params ep;
    seen_progress x;
    const float *rows;
    char projector[120];
    int32_t i, k, n, width, m, other, embeddings;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    snprintf(projector, sizeof projector, "%s", check_reference("vision/models/idefics3.gguf"));
    memset(&p, 0, sizeof p);
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    CHECK(infer_model_open(&alone, projector, &p, &e) == INFER_OK);
    text = seen_open_both("llama", projector, &e);
    CHECK(text && alone && infer_image_open(&image, check_reference("vision/images/noise-37x91.ppm"), NULL, &e) == INFER_OK);
    if (!text || !alone) return;
    CHECK(infer_model_get_info(alone, &info) == INFER_OK && info.images == 1 && info.sounds == 0 && !info.computes);
    CHECK_HAS(infer_model_why_not(alone), "it encodes pictures and sound");
    CHECK(infer_session_create(&s, alone, NULL, &e) == INFER_ERR_UNSUPPORTED && !s);
    memset(&ep, 0, sizeof ep);
    memset(&x, 0, sizeof x);
    ep.progress = seen_step;
    ep.prepared = seen_tensor;
    ep.progress_user = ep.prepared_user = &x;
    CHECK(infer_media_encode(&a, alone, &image, 1, &ep, &e) == INFER_OK && x.tensors > 4 && x.calls >= x.tensors && x.last == 1);
    CHECK(infer_media_encode(&b, text, &image, 1, NULL, &e) == INFER_OK);
    CHECK(infer_media_positions(b, &embeddings) > embeddings);
    for (i = 0, k = 0; (rows = infer_media_embeddings(a, i, &n, &width)) != NULL; i++, k += n) {
        const float *same = infer_media_embeddings(b, i, &m, &other);
        CHECK(same && m == n && width == other && width == 64 && memcmp(rows, same, 4 * (size_t)n * 64) == 0);
    }
    CHECK(i == x.tensors && k == embeddings && !infer_media_embeddings(b, i, NULL, NULL) && !infer_media_embeddings(NULL, 0, NULL, NULL));
    CHECK(infer_media_free(a) == INFER_OK);
    a = NULL;
    for (k = 1, n = x.calls; k <= n; k += 3) { /* the first 8 that were freed are kept: others */
        image.rgb[0] ^= 1 << k % 8;
        memset(&x, 0, sizeof x);
        x.stop = k;
        ep.prepared = NULL;
        CHECK(infer_media_encode(&a, alone, &image, 1, &ep, &e) == INFER_CANCELLED && !a && x.calls == k);
    }
    x.stop = 0;
    x.last = 0;
    CHECK(infer_media_encode(&a, alone, &image, 1, &ep, &e) == INFER_OK && infer_media_free(a) == INFER_OK);
    CHECK(infer_media_encode_sound(&a, alone, NULL, NULL, &e) == INFER_ERR_ARGUMENT);
    infer_image_free(&image);
    CHECK(infer_media_free(b) == INFER_OK && infer_model_close(text) == INFER_OK && infer_model_close(alone) == INFER_OK && check_live == 0);
}

static size_t seen_file_read(void *user, uint64_t offset, void *dst, size_t n) {
    memcpy(dst, (const char *)user + offset, n);
    return n;
}

/* A projector's file in memory, behind callbacks, or opened in slices, encodes as one that is opened by its path. */
static void test_media_alone_ways(void) {
    const char *path = check_data("media/gemma4a.gguf");
    infer_model *m[5] = { NULL };
    infer_loading *l[2] = { NULL, NULL };
    static float samples[4000];
    const infer_sound sound = { .samples = samples, .n = 4000, .rate = 16000 };
    infer_error e;
    size_t size, i;
    char *data = check_read(path, &size);
    const infer_io io = { .user = data, .read = seen_file_read, .size = size };
    infer_media *first = NULL;
    int32_t n, width, other, same;
    for (i = 0; i < 4000; i++) samples[i] = (float)(i * i % 61) / 61 - 0.5f;
    CHECK(infer_model_open(&m[0], path, NULL, &e) == INFER_OK && infer_model_open_memory(&m[1], data, size, NULL, &e) == INFER_OK);
    CHECK(infer_model_open_io(&m[2], &io, 1, NULL, &e) == INFER_OK && infer_model_open_begin(&l[0], path, NULL, &e) == INFER_OK);
    CHECK(infer_model_open_memory_begin(&l[1], data, size, NULL, &e) == INFER_OK);
    for (i = 0; i < 2 && l[i]; i++) {
        while (infer_loading_step(l[i], 1, &e) == INFER_MORE) {}
        CHECK(infer_loading_end(l[i], &m[3 + i]) == INFER_OK);
    }
    for (i = 0; i < 5 && m[i]; i++) {
        infer_media *x = NULL;
        CHECK(infer_media_encode_sound(&x, m[i], &sound, NULL, &e) == INFER_OK);
        if (!x) check_note(__FILE__, __LINE__, e.message);
        else if (i == 0) first = x;
        else {
            const float *a = infer_media_embeddings(first, 0, &n, &width), *b = infer_media_embeddings(x, 0, &other, &same);
            CHECK(a && b && n == other && width == same && memcmp(a, b, sizeof *a * (size_t)n * (size_t)width) == 0);
        }
        if (i) CHECK(infer_media_free(x) == INFER_OK);
    }
    CHECK(infer_media_free(first) == INFER_OK);
    for (i = 0; i < 5; i++) CHECK(infer_model_close(m[i]) == INFER_OK);
    free(data);
}

/* A projector's file whose encoder is refused: encoding says why, not that there is no projector. */
static void test_media_alone_refused(void) {
    size_t size, at = 0;
    char *data = check_read(check_data("media/gemma3nv.gguf"), &size);
    uint8_t rgb[3] = { 0, 0, 0 };
    infer_image image = { .width = 1, .height = 1, .rgb = rgb };
    infer_model *m = NULL;
    infer_media *x = NULL;
    infer_error e;
    while (at + 8 < size && memcmp(data + at, "gemma3nv", 8) != 0) at++;
    CHECK(at + 8 < size);
    data[at + 5] = '9';
    CHECK(infer_model_open_memory(&m, data, size, NULL, &e) == INFER_OK);
    CHECK(infer_media_encode(&x, m, &image, 1, NULL, &e) == INFER_ERR_UNSUPPORTED && !x);
    CHECK_HAS(e.message, "pictures: projector type \"gemma9nv\"");
    CHECK(infer_model_close(m) == INFER_OK);
    free(data);
}

static void suite_media_session(void) {
    RUN(test_media_alone_ways);
    RUN(test_media_alone_refused);
    RUN(test_media_whole);
    RUN(test_media_alone);
    RUN(test_media_logits);
    RUN(test_media_kinds);
    RUN(test_media_refused);
    RUN(test_media_oom);
}
