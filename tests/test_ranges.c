/* test_ranges.c: layers elsewhere. Several models of one file, each with other layers, rows passed by hand from one to the next: the
 * same bits as one model, for every architecture, at every boundary between layers, whatever sessions do. */

enum { RANGES_MOST = 256 };

typedef struct ranges {
    infer_model *m[RANGES_MOST];
    infer_context *c[RANGES_MOST];
    int32_t n;
    float *rows; /* `cap` floats, on their way */
    size_t cap, size;
    unsigned char message[1 << 16]; /* the last one */
    uint64_t messages, back, number; /* number: of the context that the last one came from */
    int32_t last;                    /* it said that it is no more */
    int32_t fails_at; /* the context that does not answer, 0 = all do */
} ranges;

/* The layers of all contexts but the first, one after the other. */
static infer_result ranges_rest(void *user, const void *message, size_t size, float *rows, size_t n, size_t back, infer_error *err) {
    ranges *g = (ranges *)user;
    infer_result r = INFER_OK;
    infer_rows_info info;
    size_t most = n > back ? n : back;
    int32_t i;
    if (most > g->cap) {
        free(g->rows);
        g->rows = (float *)malloc((g->cap = most) * sizeof *g->rows);
    }
    if (n) memcpy(g->rows, rows, n * sizeof *rows);
    g->size = size < sizeof g->message ? size : sizeof g->message;
    memcpy(g->message, message, g->size);
    g->messages++;
    CHECK(infer_rows_read(message, size, &info, err) == INFER_OK);
    CHECK(g->c[0] == NULL || (info.params.cells == g->c[0]->plan.cells && info.params.batch == g->c[0]->plan.batch));
    g->number = info.context;
    g->last = info.last;
    for (i = 1; i < g->n && !r; i++) {
        if (i == g->fails_at) return infer__error(err, INFER_ERR_IO, "no answer");
        r = infer_context_rows(g->c[i], message, size, g->rows, n, g->cap, &n, err);
    }
    g->back += back;
    CHECK(r || n == back || back == 0);
    if (!r && back) memcpy(rows, g->rows, back * sizeof *rows);
    return r;
}

static void ranges_close(ranges *g) {
    int32_t i;
    for (i = 0; i < g->n; i++) {
        CHECK(infer_context_destroy(g->c[i]) == INFER_OK);
        CHECK(i > 0 || !g->c[0] || (g->last && g->number > 0));
        CHECK(infer_model_close(g->m[i]) == INFER_OK);
    }
    free(g->rows);
    memset(g, 0, sizeof *g);
}

/* Models and contexts with the layers [at[0], at[1]), [at[1], at[2]), .. of n ranges; at[n] is what there is. 0: a check failed. */
static int ranges_open(ranges *g, const char *path, const infer_model_params *mp, const infer_context_params *cp, const int32_t *at,
                       int32_t n) {
    infer_model_params p = *mp;
    infer_context_params c = *cp;
    infer_error e;
    memset(g, 0, sizeof *g);
    for (; g->n < n; g->n++) {
        p.first_layer = at[g->n];
        p.layers = at[g->n + 1] - at[g->n];
        c.rest = g->n ? NULL : ranges_rest;
        c.rest_user = g;
        if (infer_model_open(&g->m[g->n], path, &p, &e)) break;
        if (infer_context_create(&g->c[g->n], g->m[g->n], &c, &e)) {
            infer_model_close(g->m[g->n]);
            break;
        }
    }
    if (g->n == n) return 1;
    check_note(__FILE__, __LINE__, e.message);
    ranges_close(g);
    return 0;
}

typedef struct ranges_out { float *x; size_t n, cap; } ranges_out;

static void ranges_put(ranges_out *o, const float *x, size_t n) {
    if (o->n + n > o->cap) o->x = (float *)realloc(o->x, (o->cap = 2 * (o->n + n)) * sizeof *o->x);
    if (x) memcpy(o->x + o->n, x, n * sizeof *x);
    else memset(o->x + o->n, 0x7f, n * sizeof *o->x);
    o->n += n;
}

static infer_step ranges_step(infer_session *s, const infer_token *ids, int32_t n) {
    infer_step st = slice_step(s, ids, n);
    st.outputs = s->context->model->hp.encoder ? INFER_OUT_HIDDEN : INFER_OUT_ALL | INFER_OUT_HIDDEN;
    return st;
}

/* Results of a step that was evaluated. */
static void ranges_results(const infer_step *st, ranges_out *o) {
    const infer__hparams *hp = &st->session->context->model->hp;
    ranges_put(o, infer_session_hidden(st->session, 0), (size_t)st->n * (size_t)hp->n_embd);
    if (!hp->encoder) ranges_put(o, infer_session_logits(st->session, 0), (size_t)st->n * (size_t)hp->n_vocab);
}

static void ranges_eval(infer_session *s, const infer_token *ids, int32_t n, int32_t piece, ranges_out *o) {
    infer_error e;
    int32_t at, k;
    for (at = 0; at < n && !check_bad; at += k) {
        infer_step st = ranges_step(s, ids + at, k = piece < n - at ? piece : n - at);
        if (infer_eval(s->context, &st, 1, &e)) check_note(__FILE__, __LINE__, e.message);
        else ranges_results(&st, o);
    }
}

/* What sessions of a context do with n ids: all at once; back, and on in pieces beside a fork; saved and loaded; two in one pass; in
 * slices. Every result goes to o. */
static void ranges_script(infer_context *c, const infer_token *ids, int32_t n, ranges_out *o) {
    const infer__hparams *hp = &c->model->hp;
    infer_session_params p;
    infer_session *s = NULL, *t = NULL;
    infer_step st[2];
    infer_error e;
    infer_result r;
    state_bytes b;
    memset(&p, 0, sizeof p);
    memset(&b, 0, sizeof b);
    p.context = hp->n_ctx < 256 ? hp->n_ctx : 256;
    if (infer_session_create_in(&s, c, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    if (!s) return;
    if (hp->n_enc) CHECK(infer_session_encode(s, ids, n) == INFER_OK);
    ranges_eval(s, ids, n, n, o);
    if (hp->not_causal || hp->encoder) {
        CHECK(infer_session_fork(&t, s, &e) == INFER_OK);
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_rewind(t, 0) == INFER_OK);
        st[0] = ranges_step(s, ids, n / 2);
        st[1] = ranges_step(t, ids + n / 2, n - n / 2);
        CHECK(infer_eval(c, st, 2, &e) == INFER_OK);
        ranges_results(&st[0], o);
        ranges_results(&st[1], o);
    } else {
        CHECK(infer_session_rewind(s, n / 3) == INFER_OK);
        CHECK(infer_session_fork(&t, s, &e) == INFER_OK);
        if (!t) return;
        ranges_eval(s, ids + n / 3, n - n / 3, 9, o);
        ranges_eval(t, ids + n / 3, n - n / 3 - 1, 4, o);
        CHECK(infer_session_save(t, state_write, &b) == INFER_OK);
        ranges_eval(t, ids + n - 1, 1, 1, o);
        CHECK(infer_session_rewind(t, 0) == INFER_OK);
        if (infer_session_load(t, state_read, &b)) check_note(__FILE__, __LINE__, infer_session_error(t)->message);
        ranges_eval(t, ids + n - 1, 1, 1, o);
        free(b.p);
        CHECK(infer_session_rewind(s, n / 2) == INFER_OK && infer_session_rewind(t, 0) == INFER_OK);
        if (hp->n_enc) CHECK(infer_session_encode(t, ids, n / 2) == INFER_OK);
        st[0] = ranges_step(s, ids + n / 2, n - n / 2);
        st[1] = ranges_step(t, ids, n / 2);
        do r = infer_eval_slice(c, st, 2, 0, &e);
        while (r == INFER_MORE);
        CHECK(r == INFER_OK);
        ranges_results(&st[0], o);
        ranges_results(&st[1], o);
    }
    infer_session_destroy(t);
    infer_session_destroy(s);
}

static void ranges_context(infer_context_params *cp) {
    memset(cp, 0, sizeof *cp);
    cp->threads = 2;
    cp->batch = 48;
    cp->cells = 768;
    cp->sessions = 3;
    cp->snapshot_every = 16;
}

/* The ids of the reference of the file, at most `cap`. */
static int32_t ranges_ids(infer_token *ids, int32_t cap) {
    arch_ref r;
    int32_t n;
    if (!arch_ref_open(&r)) return 0;
    n = r.n < cap ? r.n : cap;
    memcpy(ids, r.ids, (size_t)n * sizeof *ids);
    free(r.data);
    return n;
}

/* The script in these ranges, beside what one model gives. */
static void ranges_compare(const char *path, const infer_model_params *mp, const infer_context_params *cp, const int32_t *at, int32_t n,
                           const infer_token *ids, int32_t n_ids, const ranges_out *want) {
    static ranges g;
    ranges_out got;
    char how[80];
    memset(&got, 0, sizeof got);
    if (!ranges_open(&g, path, mp, cp, at, n)) return;
    ranges_script(g.c[0], ids, n_ids, &got);
    snprintf(how, sizeof how, "%d ranges, the first of %d layers", (int)n, (int)at[1]);
    CHECK(got.n == want->n && g.messages > 0);
    if (got.n == want->n) arch_same(how, got.x, want->x, got.n);
    ranges_close(&g);
    free(got.x);
}

/* What one model gives, to *want; its layers, and the first one whose keys later ones read. 0: a check failed. */
static int ranges_whole(const char *path, const infer_model_params *mp, const infer_context_params *cp, const infer_token *ids,
                        int32_t n_ids, ranges_out *want, int32_t *all, int32_t *unit) {
    infer_model *m = NULL;
    infer_context *c = NULL;
    infer_error e;
    memset(want, 0, sizeof *want);
    CHECK(n_ids >= 8);
    if (infer_model_open(&m, path, mp, &e) || infer_context_create(&c, m, cp, &e)) check_note(__FILE__, __LINE__, e.message);
    if (!c || n_ids < 8) return 0;
    ranges_script(c, ids, n_ids, want);
    *all = m->hp.n_layer;
    for (*unit = 0; *unit < *all && !m->layers[*unit].kv_read; ++*unit) {}
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
    return 1;
}

/* Every layer by itself, and the cut into two in the middle, with DEEP every one; cuts that may not are refused by name. */
static void ranges_file(const char *path, const infer_model_params *mp) {
    infer_context_params cp;
    infer_model_params p = *mp;
    infer_error e;
    ranges_out want;
    infer_token ids[40];
    const int deep = getenv("DEEP") != NULL; /* make deep */
    int32_t at[RANGES_MOST + 1], two[3], n = 0, n_ids = ranges_ids(ids, 40), i, all, unit;
    ranges_context(&cp);
    if (!ranges_whole(path, mp, &cp, ids, n_ids, &want, &all, &unit)) return;
    for (i = 0; i < all && !check_bad; i++) {
        infer_model *half = NULL;
        if (i <= unit) {
            at[n++] = i;
            two[0] = 0;
            two[1] = i;
            two[2] = all;
            if (i && (deep || i == (all + 1) / 2)) ranges_compare(path, mp, &cp, two, 2, ids, n_ids, &want);
            continue;
        }
        p.first_layer = i;
        CHECK(infer_model_open(&half, path, &p, &e) == INFER_ERR_UNSUPPORTED && !half);
        CHECK_HAS(e.message, "share keys and values");
        p.first_layer = 0;
        p.layers = i;
        CHECK(infer_model_open(&half, path, &p, &e) == INFER_ERR_UNSUPPORTED && !half);
        p.layers = 0;
    }
    at[n] = all;
    if (n > 1) ranges_compare(path, mp, &cp, at, n, ids, n_ids, &want);
    free(want.x);
}

static void (*ranges_do)(const char *path, const infer_model_params *mp); /* with a file of every architecture */
static void ranges_arch(void) {
    const char *path = arch_path("gguf");
    infer_model_params mp;
    memset(&mp, 0, sizeof mp);
    if (!path) SKIP("needs INFER_TEST_DATA");
    check_detail = arch_file;
    ranges_do(path, &mp);
    check_detail = "";
}

static void ranges_archs(const char *test, void (*file)(const char *path, const infer_model_params *mp)) {
    char name[80];
    size_t i;
    ranges_do = file;
    for (i = 0; i < sizeof ARCH_FILES / sizeof *ARCH_FILES; i += (size_t)check_every(16)) {
        arch_file = ARCH_FILES[i];
        snprintf(name, sizeof name, "%s_%s", test, arch_file);
        check_run(name, ranges_arch);
    }
}

/* ---- what it takes ----------------------------------------------------------------------------------------------- */

static uint64_t ranges_held, ranges_peak;
static void *ranges_alloc(void *user, size_t size, size_t align) {
    (void)user;
    (void)align;
    ranges_held += size;
    if (ranges_held > ranges_peak) ranges_peak = ranges_held;
    return calloc(1, size); /* messages that are changed may name cells that no pass wrote, which are as memory was */
}
static void ranges_free(void *user, void *p, size_t size) {
    (void)user;
    ranges_held -= size;
    free(p);
}

/* Bytes of all tensors that a model of the file reads. */
static uint64_t ranges_bound(const char *path) {
    infer_model *m = NULL;
    uint64_t sum = 0;
    int32_t i, k;
    CHECK(infer_model_open(&m, path, NULL, NULL) == INFER_OK);
    for (i = 0; m && i < m->gguf.n_tensors; i++) {
        const infer__weight *w;
        for (k = 0; (w = infer__weights_all(m, k)) != NULL && !(w->type && w->tensor == i + 1); k++) {}
        if (w) sum += m->gguf.tensors[i].bytes;
    }
    infer_model_close(m);
    return sum;
}

/* Some of a file's weights, with a context, and a session where those are. */
typedef struct ranges_piece {
    infer_model *m;
    infer_context *c;
    infer_session *s;
    infer_memory said;
    uint64_t weights; /* bytes of tensors */
} ranges_piece;

/* What is predicted is what is held. all: of the whole model. 0: it does not open. */
static int ranges_piece_open(ranges_piece *x, const char *path, const infer_model_params *mp, const infer_context_params *cp,
                             const infer_memory *all) {
    infer_memory before;
    infer_error e;
    uint64_t want;
    memset(x, 0, sizeof *x);
    CHECK(infer_model_memory_path(path, mp, cp, &before, &e) == INFER_OK);
    ranges_held = ranges_peak = 0;
    CHECK(infer_model_open(&x->m, path, mp, &e) == INFER_OK);
    if (!x->m) return 0;
    CHECK(infer_model_memory(x->m, cp, &x->said, &e) == INFER_OK);
    CHECK(x->said.weights < all->weights && x->said.layers == (mp->layers ? mp->layers : all->layers));
    CHECK(x->said.layers == before.layers && (mp->no_mmap || x->said.weights == before.weights) && x->said.cache == before.cache);
    CHECK(infer_context_create(&x->c, x->m, cp, &e) == INFER_OK);
    if (x->c && !mp->first_layer && !mp->part) {
        infer_session_params sp;
        memset(&sp, 0, sizeof sp);
        sp.context = cp->cells;
        CHECK(infer_session_create_in(&x->s, x->c, &sp, &e) == INFER_OK);
    }
    want = x->said.cache + x->said.scratch + (mp->no_mmap ? x->said.weights : 0);
    if (x->c && ranges_held != want) {
        char text[160];
        snprintf(text, sizeof text, "%d layers from %d on, part %d: %llu bytes are held, %llu were predicted", (int)mp->layers,
                 (int)mp->first_layer, (int)mp->part, (unsigned long long)ranges_held, (unsigned long long)want);
        check_note(__FILE__, __LINE__, text);
    }
    CHECK(ranges_peak <= x->said.peak);
    x->weights = x->said.weights - (mp->no_mmap ? 0 : x->m->gguf.file_bytes - x->m->gguf.tensor_bytes);
    return 1;
}

static void ranges_piece_close(ranges_piece *x) {
    infer_session_destroy(x->s);
    infer_context_destroy(x->c);
    CHECK(infer_model_close(x->m) == INFER_OK);
    CHECK(ranges_held == 0);
}

/* Ranges hold weights once in all. */
static void ranges_memory_of(const char *name, int no_mmap) {
    static ranges g;
    const char *path = check_data(name);
    infer_context_params cp;
    infer_model_params mp;
    infer_memory all;
    infer_error e;
    uint64_t sum = 0;
    int32_t i, n = 3, cut[4];
    check_detail = name;
    memset(&mp, 0, sizeof mp);
    ranges_context(&cp);
    CHECK(infer_model_memory_path(path, &mp, &cp, &all, &e) == INFER_OK);
    cut[0] = 0;
    cut[1] = 1;
    cut[2] = all.layers > 2 ? 2 : all.layers;
    cut[3] = all.layers;
    if (cut[2] == cut[3]) n = 2;
    mp.allocator.alloc = ranges_alloc;
    mp.allocator.free = ranges_free;
    mp.no_mmap = no_mmap;
    memset(&g, 0, sizeof g);
    cp.rest_user = &g; /* it hears of the end */
    for (i = 0; i < n; i++) {
        ranges_piece x;
        mp.first_layer = cut[i];
        mp.layers = cut[i + 1] - cut[i];
        cp.rest = i ? NULL : ranges_rest;
        if (!ranges_piece_open(&x, path, &mp, &cp, &all)) return;
        sum += x.weights;
        ranges_piece_close(&x);
        CHECK(g.last == !i);
        g.last = 0;
    }
    CHECK(sum == ranges_bound(path));
    check_detail = "";
}

static void test_ranges_memory(void) {
    int i;
    for (i = 0; i < 2; i++) {
        ranges_memory_of("models/stories260K.F32.gguf", i);
        ranges_memory_of("archs/llama-mixtral-moe.gguf", i);
        ranges_memory_of("archs/qwen35-dense.gguf", i);
        ranges_memory_of("archs/qwen4exp-moe.gguf", i);
    }
}

/* ---- refusals and failures --------------------------------------------------------------------------------------- */

static void test_ranges_refuse(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params cp;
    infer_session_params sp;
    infer_model_params mp;
    infer_session *s = NULL;
    infer_context *c = NULL;
    infer_adapter *a = NULL;
    infer_model *m = NULL;
    infer_rows_info info;
    infer_error e;
    size_t back;
    static const struct { int32_t first, n; const char *why; } bad[] = {
        { -1, 0, "first_layer -1" }, { 0, -1, "layers -1" }, { 5, 0, "the model has 5" }, { 3, 3, "the model has 5" },
        { 0, 6, "the model has 5" }, { INT32_MAX, INT32_MAX, "the model has 5" } };
    size_t i;
    memset(&mp, 0, sizeof mp);
    memset(&sp, 0, sizeof sp);
    ranges_context(&cp);
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        mp.first_layer = bad[i].first;
        mp.layers = bad[i].n;
        CHECK(infer_model_open(&m, path, &mp, &e) == INFER_ERR_ARGUMENT && !m);
        CHECK_HAS(e.message, bad[i].why);
    }
    mp.first_layer = 0;
    mp.layers = 2;
    mp.preload = 2;
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_ERR_UNSUPPORTED && !m);
    mp.preload = 1; /* what is there */
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_OK);
    if (!m) return;
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_ERR_ARGUMENT && !c);
    CHECK_HAS(e.message, "layers 2 to 4 are elsewhere");
    CHECK(infer_session_create(&s, m, NULL, &e) == INFER_ERR_ARGUMENT && !s);
    CHECK(infer_adapter_open(&a, m, path, 0, &e) == INFER_ERR_UNSUPPORTED && !a);
    CHECK_HAS(e.message, "layers elsewhere");
    cp.rest = ranges_rest;
    cp.inputs = (infer_inputs_fn)(void (*)(void))1;
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_ERR_UNSUPPORTED && !c);
    infer_model_close(m);
    mp.first_layer = 2;
    mp.layers = 0;
    cp.inputs = NULL;
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_OK && infer_context_create(&c, m, &cp, &e) == INFER_OK);
    CHECK(infer_session_create_in(&s, c, &sp, &e) == INFER_ERR_STATE && !s);
    CHECK_HAS(e.message, "no layers before 2");
    CHECK(infer_context_rows(NULL, "", 0, NULL, 0, 0, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(c, NULL, 0, NULL, 0, 0, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(c, "", 0, NULL, 0, 0, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(c, "", 0, NULL, 1, 1, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(c, "", 0, NULL, 0, 0, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "malformed");
    CHECK(infer_rows_read("", 0, &info, &e) == INFER_ERR_ARGUMENT && infer_rows_read(NULL, 0, &info, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_rows_read("", 0, NULL, &e) == INFER_ERR_ARGUMENT);
    infer_context_destroy(c);
    infer_model_close(m);
}

enum { RANGES_IDS = 30, RANGES_VOCAB = 512 }; /* of sessions that fail; logits of stories260K */
typedef struct ranges_seen {
    infer_session *s;
    infer_token ids[RANGES_IDS];
    float logits[RANGES_VOCAB]; /* after them */
} ranges_seen;

/* A session that has evaluated them. 0: there is none. */
static int ranges_seen_begin(ranges_seen *x, infer_context *c) {
    infer_error e;
    int32_t i;
    memset(x, 0, sizeof *x);
    for (i = 0; i < RANGES_IDS; i++) x->ids[i] = 5 + i * 11 % 400;
    CHECK(infer_session_create_in(&x->s, c, NULL, &e) == INFER_OK && infer_session_eval(x->s, x->ids, RANGES_IDS) == INFER_OK);
    if (!x->s || check_bad) return 0;
    memcpy(x->logits, infer_session_logits(x->s, -1), sizeof x->logits);
    return 1;
}

/* Evaluating the rest of the ids is this error, and the session stays where it is. */
static void ranges_seen_fails(ranges_seen *x, infer_result want, const char *why) {
    const int32_t at = infer_session_position(x->s);
    CHECK(infer_session_eval(x->s, x->ids + at, RANGES_IDS - at) == want);
    CHECK_HAS(infer_session_error(x->s)->message, why);
    CHECK(infer_session_position(x->s) == at && !infer_session_logits(x->s, -1));
}

/* It goes on with the same bits. */
static void ranges_seen_end(ranges_seen *x) {
    const int32_t at = infer_session_position(x->s);
    CHECK(at < RANGES_IDS && infer_session_eval(x->s, x->ids + at, RANGES_IDS - at) == INFER_OK);
    CHECK(memcmp(x->logits, infer_session_logits(x->s, -1), sizeof x->logits) == 0);
    infer_session_destroy(x->s);
}

/* An error elsewhere is the eval's, and the session is where it was; then it goes on with the same bits. */
static void test_ranges_fail(void) {
    static const int32_t at[] = { 0, 2, 4, 5 };
    static ranges g;
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params cp;
    infer_model_params mp;
    ranges_seen x;
    int32_t i;
    memset(&mp, 0, sizeof mp);
    ranges_context(&cp);
    if (!ranges_open(&g, path, &mp, &cp, at, 3)) return;
    if (ranges_seen_begin(&x, g.c[0])) {
        CHECK(infer_session_rewind(x.s, 11) == INFER_OK);
        for (i = 1; i < 3; i++) {
            g.fails_at = i;
            ranges_seen_fails(&x, INFER_ERR_IO, "no answer");
        }
        g.fails_at = 0;
        ranges_seen_end(&x);
    }
    ranges_close(&g);
}

/* Messages with a word changed, cut or longer are refused or change numbers only; nothing outside of buffers is touched. */
static void ranges_hostile(const char *name, int32_t first) {
    static ranges g;
    const char *path = check_data(name);
    infer_context_params cp;
    infer_model_params mp;
    infer_session *s = NULL;
    infer_token ids[20];
    infer_error e;
    unsigned char *copy;
    float *rows;
    size_t i, k, back, n, refused = 0;
    int32_t at[3], w;
    static const int32_t words[] = { -1, INT32_MIN, INT32_MAX, 1 << 20, 3, 0 };
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = ranges_alloc;
    mp.allocator.free = ranges_free;
    ranges_context(&cp);
    cp.threads = 1;
    at[0] = 0;
    at[1] = first;
    check_detail = name;
    CHECK(infer_model_open(&g.m[0], path, &mp, &e) == INFER_OK);
    at[2] = g.m[0]->hp.n_layer;
    infer_model_close(g.m[0]);
    for (i = 0; i < 20; i++) ids[i] = 3 + (infer_token)i % 7;
    if (!ranges_open(&g, path, &mp, &cp, at, 2)) return;
    CHECK(infer_session_create_in(&s, g.c[0], NULL, &e) == INFER_OK);
    CHECK(s && infer_session_eval(s, ids, 20) == INFER_OK);
    memcpy(&w, g.message + 4 * INFER__MSG_ROWS, 4);
    n = (size_t)w * (size_t)infer__rest_cols(&g.c[1]->plan, g.m[1]);
    rows = (float *)calloc(n, sizeof *rows);
    copy = (unsigned char *)malloc(g.size + 4);
    for (i = 0; i < g.size / 4; i++) { /* each length, in a block of its own, for sanitizers */
        unsigned char *cut = (unsigned char *)malloc(i ? 4 * i : 1);
        memcpy(cut, g.message, 4 * i);
        CHECK(infer_context_rows(g.c[1], cut, 4 * i, rows, n, n, &back, &e) == INFER_ERR_ARGUMENT);
        free(cut);
    }
    memcpy(copy, g.message, g.size);
    memset(copy + g.size, 0, 4);
    CHECK(infer_context_rows(g.c[1], copy, g.size + 4, rows, n, n, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(g.c[1], copy, g.size - 1, rows, n, n, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(g.c[1], copy, g.size, rows, n - 1, n, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(g.c[1], copy, g.size, rows, n, n - 1, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(g.c[1], copy, g.size, rows, n, n, &back, &e) == INFER_OK && back == (size_t)g.m[0]->hp.n_embd);
    for (i = 0; i < g.size / 4; i++)
        for (k = 0; k < sizeof words / sizeof *words; k++) {
            memcpy(copy, g.message, g.size);
            memcpy(copy + 4 * i, &words[k], 4);
            memset(rows, 0, n * sizeof *rows);
            refused += infer_context_rows(g.c[1], copy, g.size, rows, n, n, &back, &e) != INFER_OK;
        }
    CHECK(refused > 3 * (g.size / 4)); /* ids and cells may be others */
    for (w = INFER__MSG_COPY; w <= INFER__MSG_INTO + 1; w++) /* the header as one of another kind */
        for (k = 0; k < sizeof words / sizeof *words; k++)
            for (i = 0; i < 3; i++) {
                memcpy(copy, g.message, g.size);
                memcpy(copy + 4 * INFER__MSG_KIND, &w, 4);
                memcpy(copy + 4 * (INFER__MSG_ARGS + (int)i), &words[k], 4);
                memset(rows, 0, n * sizeof *rows);
                infer_context_rows(g.c[1], copy, 4 * INFER__MSG_WORDS, rows, 0, n, &back, &e);
                CHECK(back <= n);
            }
    free(copy);
    free(rows);
    infer_session_destroy(s);
    ranges_close(&g);
    check_detail = "";
}

static void test_ranges_hostile(void) {
    ranges_hostile("models/stories260K.F32.gguf", 2);
    ranges_hostile("archs/qwen35-dense.gguf", 1);
    ranges_hostile("archs/gemma2-softcap-dense.gguf", 1);
}

/* Every failing allocation while contexts are made and a session evaluated. */
static void test_ranges_oom(void) {
    static const int32_t at[] = { 0, 2, 5 };
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params cp;
    infer_model_params mp;
    infer_token ids[4] = { 1, 2, 3, 4 };
    infer_error e;
    long i;
    int done = 0;
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    ranges_context(&cp);
    cp.threads = 1;
    for (i = 1; !done && !check_bad; i++) {
        static ranges g;
        infer_session *s = NULL;
        infer_model_params p = mp;
        int32_t k;
        memset(&g, 0, sizeof g);
        check_allocs = check_live = 0;
        check_fail_at = i;
        for (k = 0; k < 2; k++) {
            p.first_layer = at[k];
            p.layers = at[k + 1] - at[k];
            cp.rest = k ? NULL : ranges_rest;
            cp.rest_user = &g;
            if (infer_model_open(&g.m[k], path, &p, &e)) CHECK(e.code == INFER_ERR_MEMORY);
            else if (infer_context_create(&g.c[k], g.m[k], &cp, &e)) CHECK(e.code == INFER_ERR_MEMORY);
        }
        g.n = 2;
        if (g.c[0] && g.c[1] && !infer_session_create_in(&s, g.c[0], NULL, &e)) done = !infer_session_eval(s, ids, 4);
        done = done && check_allocs < i;
        infer_session_destroy(s);
        ranges_close(&g);
        CHECK(check_live == 0);
    }
    check_fail_at = 0;
    CHECK(i > 50);
}

/* ---- several contexts at a time ---------------------------------------------------------------------------------- */

enum { RANGES_QUEUES = 3, RANGES_NEW = 12 };
static struct {
    infer__mutex lock;
    infer_model *m;
    infer_context *of[64]; /* by the number of the context that asks */
    int32_t made, gone;
} ranges_far;

/* The second model, as a rank has it: one pass at a time, contexts made and ended by messages. */
static infer_result ranges_far_rest(void *user, const void *message, size_t size, float *rows, size_t n, size_t back, infer_error *err) {
    infer_rows_info info;
    infer_result r = infer_rows_read(message, size, &info, err);
    size_t got = 0;
    (void)user;
    infer__mutex_lock(&ranges_far.lock);
    if (!r && info.context < 64 && info.last) {
        r = infer_context_destroy(ranges_far.of[info.context]);
        ranges_far.of[info.context] = NULL;
        ranges_far.gone++;
    } else if (!r && info.context < 64) {
        info.params.threads = 1;
        if (!ranges_far.of[info.context] && !(r = infer_context_create(&ranges_far.of[info.context], ranges_far.m, &info.params, err))) ranges_far.made++;
        if (!r) r = infer_context_rows(ranges_far.of[info.context], message, size, rows, n, n > back ? n : back, &got, err);
    }
    infer__mutex_unlock(&ranges_far.lock);
    return r;
}

/* The tokens of a request for each queue, whose contexts have the callbacks of `with`. */
static void ranges_ask(infer_model *m, const infer_context_params *with, infer_token out[RANGES_QUEUES][RANGES_NEW]) {
    infer_queue *q[RANGES_QUEUES] = { NULL };
    infer_request *r[RANGES_QUEUES] = { NULL };
    infer_queue_params qp;
    infer_request_params rp;
    infer_error e;
    infer_token ids[RANGES_QUEUES][20];
    int32_t i, k;
    memset(&qp, 0, sizeof qp);
    memset(&rp, 0, sizeof rp);
    memset(out, 0, sizeof(infer_token) * RANGES_QUEUES * RANGES_NEW);
    qp.thread = 1;
    qp.positions = 64;
    qp.context = *with;
    qp.context.threads = 1;
    qp.context.batch = 8;
    for (i = 0; i < RANGES_QUEUES; i++) {
        for (k = 0; k < 20; k++) ids[i][k] = 5 + (i + 3) * k % 400;
        CHECK(infer_queue_create(&q[i], m, &qp, &e) == INFER_OK);
        if (!q[i]) return;
        rp.tokens = ids[i];
        rp.n_tokens = 20;
        rp.generate.max_tokens = RANGES_NEW;
        rp.generate.ignore_end = 1;
        CHECK(infer_queue_submit(q[i], &rp, &r[i], &e) == INFER_OK);
    }
    for (i = 0; i < RANGES_QUEUES; i++) {
        const infer_token *tokens;
        int32_t n_prompt = 0, n = 0;
        CHECK(infer_request_wait(r[i]) == INFER_OK);
        tokens = infer_request_tokens(r[i], &n_prompt, &n);
        CHECK(tokens && n == n_prompt + RANGES_NEW);
        if (!check_bad) memcpy(out[i], tokens + n_prompt, sizeof out[i]);
        infer_request_close(r[i]);
    }
    for (i = 0; i < RANGES_QUEUES; i++) CHECK(infer_queue_destroy(q[i]) == INFER_OK);
}

/* Three queues with a thread each, under way at the same time: the tokens of a model that is whole. */
static void test_ranges_queues(void) {
    static infer_token want[RANGES_QUEUES][RANGES_NEW], got[RANGES_QUEUES][RANGES_NEW];
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params with;
    infer_model_params mp;
    infer_model *m[2] = { NULL, NULL };
    memset(&mp, 0, sizeof mp);
    memset(&with, 0, sizeof with);
    memset(&ranges_far, 0, sizeof ranges_far);
#if !defined(INFER__THREADS)
    SKIP("cpu: no threads");
#endif
    CHECK(infer__mutex_init(&ranges_far.lock));
    CHECK(infer_model_open(&m[0], path, &mp, NULL) == INFER_OK);
    mp.first_layer = 3;
    CHECK(infer_model_open(&ranges_far.m, path, &mp, NULL) == INFER_OK);
    mp.first_layer = 0;
    mp.layers = 3;
    CHECK(infer_model_open(&m[1], path, &mp, NULL) == INFER_OK);
    if (m[0] && m[1] && ranges_far.m) {
        ranges_ask(m[0], &with, want);
        with.rest = ranges_far_rest;
        ranges_ask(m[1], &with, got);
        CHECK(want[0][1] != 0 && memcmp(want, got, sizeof want) == 0);
        CHECK(ranges_far.made == RANGES_QUEUES && ranges_far.gone == RANGES_QUEUES);
    }
    infer_model_close(m[0]);
    infer_model_close(m[1]);
    infer_model_close(ranges_far.m);
    infer__mutex_destroy(&ranges_far.lock);
}

static void suite_ranges(void) {
    RUN(test_ranges_refuse);
    RUN(test_ranges_fail);
    RUN(test_ranges_memory);
    RUN(test_ranges_hostile);
    RUN(test_ranges_oom);
    RUN(test_ranges_queues);
    ranges_archs("test_ranges_arch", ranges_file);
}
