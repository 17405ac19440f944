/* test_parts.c: matrices in parts. Models of one file, each with some rows of every wide matrix, in a thread each, also of
 * layers that are cut, too: the bits of one model, for every architecture, whatever sessions do. */

enum { PARTS_MOST = 4, PARTS_RANGES = 3, PARTS_CONTEXTS = 16 };

typedef struct parts_mail {
    struct parts_mail *next;
    size_t size, n, back;
    unsigned char *message;
    float *rows;
    infer_rows_info info;
} parts_mail;

typedef struct parts parts;
typedef struct parts_node {
    parts *g;
    int32_t range, part, started, busy;
    infer_model *m;
    infer_context *c, *of[PARTS_CONTEXTS]; /* without c: made as messages come, by the numbers of rank 0's */
    uint64_t next; /* pass */
    infer__thread thread;
    parts_mail *first, *end; /* what is to be done, in order */
    uint64_t passes, heads, gathers;
    int32_t last; /* it was said that there is no more */
    float *values; /* of the exchange that it waits in */
    const size_t *firsts;
} parts_node;

struct parts {
    infer__mutex lock;
    infer__cond cond;
    parts_node node[PARTS_RANGES][PARTS_MOST];
    int32_t ranges, n, closing;
    int32_t waiting[PARTS_RANGES], round[PARTS_RANGES]; /* of exchanges */
    infer_result failed;
    char why[200];
    float *reply[PARTS_CONTEXTS];
    size_t replied[PARTS_CONTEXTS], shared, held_back;
    int64_t fails_in; /* the exchange that fails, counted down; 0 = none */
    infer_session *cancel; /* once the second message of part 0 is on its way */
};

static parts_mail *parts_mail_new(const void *message, size_t size, const float *rows, size_t n, size_t back) {
    const size_t cap = n > back ? n : back;
    parts_mail *x = (parts_mail *)calloc(1, sizeof *x);
    x->message = (unsigned char *)malloc(size ? size : 1);
    memcpy(x->message, message, size);
    x->rows = (float *)malloc((cap ? cap : 1) * sizeof *x->rows);
    if (n) memcpy(x->rows, rows, n * sizeof *rows);
    x->size = size;
    x->n = n;
    x->back = back;
    CHECK(infer_rows_read(message, size, &x->info, NULL) == INFER_OK && x->info.context < PARTS_CONTEXTS);
    return x;
}

static void parts_mail_free(parts_mail *x) {
    free(x->message);
    free(x->rows);
    free(x);
}

static void parts_post(parts_node *to, parts_mail *x) {
    if (to->end) to->end->next = x;
    else to->first = x;
    to->end = x;
    infer__cond_broadcast(&to->g->cond);
}

static infer_result parts_share(void *user, const void *message, size_t size, const float *rows, size_t n, infer_error *err) {
    parts_node *self = (parts_node *)user;
    parts *g = self->g;
    int32_t p;
    (void)err;
    infer__mutex_lock(&g->lock);
    if (++g->shared == 2 && g->cancel) infer_session_cancel(g->cancel);
    for (p = 1; p < g->n; p++) parts_post(&g->node[0][p], parts_mail_new(message, size, rows, n, 0));
    infer__mutex_unlock(&g->lock);
    return INFER_OK;
}

static infer_result parts_rest(void *user, const void *message, size_t size, float *rows, size_t n, size_t back, infer_error *err) {
    parts_node *self = (parts_node *)user;
    parts *g = self->g;
    parts_mail *x = parts_mail_new(message, size, rows, n, back);
    const uint64_t of = x->info.context;
    infer_result r;
    int32_t i;
    for (i = 0; i < (int32_t)(x->info.pass * 7919 % 5) * 100; i++) infer__yield(); /* so that others overtake */
    infer__mutex_lock(&g->lock);
    g->replied[of] = 0;
    parts_post(&g->node[1][0], x);
    while (back && !g->replied[of] && !g->failed) infer__cond_wait(&g->cond, &g->lock);
    r = g->failed;
    if (r) infer__error(err, r, "%s", g->why);
    else if (back) {
        CHECK(g->replied[of] == back);
        memcpy(rows, g->reply[of], back * sizeof *rows);
    }
    infer__mutex_unlock(&g->lock);
    return r;
}

/* All parts of a range meet; then each takes what it has not. */
static infer_result parts_gather(void *user, float *values, const size_t *first, int32_t to, infer_error *err) {
    parts_node *self = (parts_node *)user, *row;
    parts *g = self->g;
    const int32_t r = self->range;
    int32_t round, p;
    infer_result result = INFER_OK;
    infer__mutex_lock(&g->lock);
    row = g->node[r];
    self->values = values;
    self->firsts = first;
    self->gathers++;
    round = g->round[r];
    if (++g->waiting[r] == g->n) {
        for (p = 1; p < g->n; p++) CHECK(memcmp(row[p].firsts, row[0].firsts, ((size_t)g->n + 1) * sizeof *first) == 0);
        CHECK(first[0] == 0);
        if (g->fails_in > 0 && --g->fails_in == 0) g->failed = INFER_ERR_IO;
        for (p = 0; p < g->n && !g->failed; p++) {
            int32_t q;
            for (q = 0; q < g->n; q++)
                if (q != p && (to < 0 || to == p))
                    memcpy(row[p].values + first[q], row[q].values + first[q], (first[q + 1] - first[q]) * sizeof(float));
        }
        g->waiting[r] = 0;
        g->round[r]++;
        infer__cond_broadcast(&g->cond);
    }
    while (g->round[r] == round && !g->failed) infer__cond_wait(&g->cond, &g->lock);
    if (g->failed) result = infer__error(err, g->failed, "%s", g->why[0] ? g->why : "no exchange");
    infer__mutex_unlock(&g->lock);
    return result;
}

static infer_context *parts_context(parts_node *self, const infer_rows_info *info, infer_error *e) {
    infer_context_params p = info->params;
    infer_context **c = &self->of[info->context];
    if (self->c) return self->c;
    p.threads = 1;
    p.gather = parts_gather;
    p.parts_user = self;
    return *c || !infer_context_create(c, self->m, &p, e) ? *c : NULL;
}

static void parts_work(parts_node *self, parts_mail *x) {
    parts *g = self->g;
    infer_error e;
    size_t n = 0;
    infer_context *c = parts_context(self, &x->info, &e);
    const size_t cap = x->n > x->back ? x->n : x->back;
    infer_result r = c ? infer_context_rows(c, x->message, x->size, x->rows, x->n, cap, &n, &e) : e.code;
    if (x->info.last && c && c != self->c) {
        CHECK(infer_context_destroy(c) == INFER_OK);
        self->of[x->info.context] = NULL;
    }
    infer__mutex_lock(&g->lock);
    if (r) {
        if (!g->failed) {
            g->failed = r;
            snprintf(g->why, sizeof g->why, "%.190s", e.message);
        }
    } else {
        self->passes += x->n > 0;
        self->heads += (uint64_t)x->info.head;
        self->last |= x->info.last;
        if (!x->info.head && self->range + 1 < g->ranges)
            parts_post(&g->node[self->range + 1][self->part], parts_mail_new(x->message, x->size, x->rows, n, x->back));
        else if (self->part == 0 && x->back) {
            float **to = &g->reply[x->info.context];
            *to = (float *)realloc(*to, n * sizeof **to);
            memcpy(*to, x->rows, n * sizeof **to);
            g->replied[x->info.context] = n;
        }
    }
    self->busy = 0;
    infer__cond_broadcast(&g->cond);
    infer__mutex_unlock(&g->lock);
}

/* What can be done now. Where rank 0's contexts come together: the next pass, or another message with none of its context
 * before it. The lock is held. */
static parts_mail *parts_take(parts_node *self) {
    parts_mail **at, *x, *before;
    for (at = &self->first, before = NULL; (x = *at) != NULL; before = x, at = &x->next) {
        parts_mail *k = self->first;
        if (self->range == 1 && self->part == 0) {
            while (k != x && k->info.context != x->info.context) k = k->next;
            if (k != x || (x->info.pass && x->info.pass != self->next + 1)) {
                self->g->held_back++;
                continue;
            }
            self->next += x->info.pass != 0;
        }
        *at = x->next;
        if (self->end == x) self->end = before;
        return x;
    }
    return NULL;
}

static void parts_run(void *arg) {
    parts_node *self = (parts_node *)arg;
    parts *g = self->g;
    for (;;) {
        parts_mail *x;
        infer__mutex_lock(&g->lock);
        while ((x = parts_take(self)) == NULL && !g->closing) infer__cond_wait(&g->cond, &g->lock);
        self->busy = x != NULL;
        infer__mutex_unlock(&g->lock);
        if (!x) return;
        parts_work(self, x);
        parts_mail_free(x);
    }
}

/* Nobody has anything to do. */
static void parts_settle(parts *g) {
    int32_t r, p, busy = 1;
    infer__mutex_lock(&g->lock);
    while (busy) {
        for (busy = r = 0; r < g->ranges; r++)
            for (p = 0; p < g->n; p++) busy |= g->node[r][p].first != NULL || g->node[r][p].busy;
        if (busy) infer__cond_wait(&g->cond, &g->lock);
    }
    infer__mutex_unlock(&g->lock);
}

static void parts_close(parts *g) {
    int32_t r, p;
    int ended = 1;
    if (g->node[0][0].c) CHECK(infer_context_destroy(g->node[0][0].c) == INFER_OK);
    g->node[0][0].c = NULL;
    if (!g->failed) parts_settle(g);
    infer__mutex_lock(&g->lock);
    g->closing = 1;
    infer__cond_broadcast(&g->cond);
    infer__mutex_unlock(&g->lock);
    for (r = 0; r < g->ranges; r++)
        for (p = 0; p < g->n; p++) {
            parts_node *x = &g->node[r][p];
            if (x->started) infer__thread_join(&x->thread);
            while (x->first) {
                parts_mail *mail = x->first;
                x->first = mail->next;
                parts_mail_free(mail);
            }
            if (x->started) ended &= x->last;
        }
    CHECK(ended || g->failed);
    for (r = 0; r < g->ranges; r++)
        for (p = 0; p < g->n; p++) {
            parts_node *x = &g->node[r][p];
            if (x->c) CHECK(infer_context_destroy(x->c) == INFER_OK);
            if (x->m) CHECK(infer_model_close(x->m) == INFER_OK);
        }
    for (p = 0; p < PARTS_CONTEXTS; p++) free(g->reply[p]);
    infer__cond_destroy(&g->cond);
    infer__mutex_destroy(&g->lock);
    memset(g, 0, sizeof *g);
}

/* n parts of each of the ranges [at[0], at[1]), .., with a context unless cp is NULL. 0: a check failed. */
static int parts_open(parts *g, const char *path, const infer_model_params *mp, const infer_context_params *cp, const int32_t *at,
                      int32_t ranges, int32_t n) {
    infer_model_params p = *mp;
    infer_context_params c;
    infer_error e;
    int32_t r, k, ok = 1;
    if (cp) c = *cp;
    memset(g, 0, sizeof *g);
    g->ranges = ranges;
    g->n = n;
    CHECK(infer__mutex_init(&g->lock) && infer__cond_init(&g->cond));
    for (r = 0; r < ranges; r++)
        for (k = 0; k < n && ok; k++) {
            parts_node *x = &g->node[r][k];
            x->g = g;
            x->range = r;
            x->part = k;
            p.first_layer = at[r];
            p.layers = at[r + 1] - at[r];
            p.part = k;
            p.parts = n;
            if (!p.part_least) p.part_least = 1;
            c.rest = parts_rest;
            c.rest_user = c.parts_user = x;
            c.share = parts_share;
            c.gather = parts_gather;
            if (infer_model_open(&x->m, path, &p, &e) || (cp && infer_context_create(&x->c, x->m, &c, &e))) {
                check_note(__FILE__, __LINE__, e.message);
                ok = 0;
            } else if (r || k) {
                x->started = infer__thread_start(&x->thread, parts_run, x);
                CHECK(x->started);
                ok = x->started;
            }
        }
    if (!ok) {
        g->failed = INFER_ERR_STATE;
        parts_close(g);
    }
    return ok;
}

/* The script of test_ranges.c in parts, beside what one model gives. */
static void parts_compare(const char *path, const infer_model_params *mp, const infer_context_params *cp, const int32_t *at,
                          int32_t ranges, int32_t n, const infer_token *ids, int32_t n_ids, const ranges_out *want) {
    static parts g;
    ranges_out got;
    char how[80];
    int32_t r, p;
    memset(&got, 0, sizeof got);
    if (!parts_open(&g, path, mp, cp, at, ranges, n)) return;
    ranges_script(g.node[0][0].c, ids, n_ids, &got);
    parts_settle(&g);
    if (g.failed) check_note(__FILE__, __LINE__, g.why);
    snprintf(how, sizeof how, "%d parts of %d ranges", (int)n, (int)ranges);
    CHECK(got.n == want->n && g.shared > 0);
    if (got.n == want->n) arch_same(how, got.x, want->x, got.n);
    for (r = 0; r < ranges; r++)
        for (p = 0; p < n; p++) {
            CHECK(g.node[r][p].gathers == g.node[r][0].gathers && (g.node[r][p].gathers > 0 || r > 0)); /* some are narrow */
            CHECK((r == 0 && p == 0) || g.node[r][p].passes > 0);
            CHECK((g.node[r][p].heads > 0) == (r == 0 && p > 0 && g.node[0][0].m->cut_head));
        }
    CHECK(g.node[0][0].m->hp.encoder || g.node[0][0].m->cut_head == (g.node[0][0].m->hp.n_vocab >= INFER__CUT_ROWS * n));
    parts_close(&g);
    free(got.x);
}

static void parts_file(const char *path, const infer_model_params *mp) {
    infer_context_params cp;
    ranges_out want;
    infer_token ids[40];
    int32_t at[3] = { 0, 0, 0 }, n_ids = ranges_ids(ids, 40), all, unit;
    ranges_context(&cp);
    if (!ranges_whole(path, mp, &cp, ids, n_ids, &want, &all, &unit)) return;
    at[1] = all;
    parts_compare(path, mp, &cp, at, 1, 2, ids, n_ids, &want);
    cp.threads = 1;
    parts_compare(path, mp, &cp, at, 1, 3, ids, n_ids, &want);
    at[1] = (all + 1) / 2;
    at[2] = all;
    if (at[1] <= unit && at[1] < at[2] && getenv("DEEP")) parts_compare(path, mp, &cp, at, 2, 2, ids, n_ids, &want);
    free(want.x);
}

/* ---- ways to open ------------------------------------------------------------------------------------------------ */

/* Ranges and parts, weights that are read instead of mapped, in memory before, gone for a while. */
static void test_parts_ways(void) {
    static const char *const files[] = { "models/stories260K.F32.gguf", "archs/grovemoe-groups-moe.gguf", "archs/qwen3moe-norm-moe.gguf",
                                         "archs/phi3-partial-dense.gguf", "archs/qwen35-dense.gguf", "archs/kimi-k3-moe.gguf", "models/TinyStories-656K.Q8_0.gguf", "archs/gpt-oss-moe.gguf" };
    static parts g;
    infer_context_params cp;
    infer_model_params mp;
    infer_token ids[20];
    infer_error e;
    int32_t at[4] = { 0, 0, 0, 0 }, all, unit, i, k;
    size_t f;
    ranges_context(&cp);
    cp.threads = 1;
    for (i = 0; i < 20; i++) ids[i] = 3 + i * 7 % 50;
    for (f = 0; f < sizeof files / sizeof *files && !check_bad; f++) {
        const char *path = check_data(files[f]);
        ranges_out want, got;
        check_detail = files[f];
        memset(&mp, 0, sizeof mp);
        if (!ranges_whole(path, &mp, &cp, ids, 20, &want, &all, &unit)) return;
        at[1] = 1;
        at[2] = all > 2 ? 2 : all;
        at[3] = all;
        parts_compare(path, &mp, &cp, at, at[2] < at[3] ? 3 : 2, 2, ids, 20, &want);
        at[1] = all;
        mp.no_mmap = 1;
        parts_compare(path, &mp, &cp, at, 1, 2, ids, 20, &want);
        mp.no_mmap = 0;
        mp.preload = 1;
        parts_compare(path, &mp, &cp, at, 1, 3, ids, 20, &want);
        for (k = 0; k < 2; k++) {
            memset(&got, 0, sizeof got);
            mp.no_mmap = k;
            if (!parts_open(&g, path, &mp, &cp, at, 1, 3)) return;
            for (i = 0; i < 3; i++) CHECK(infer_model_offload(g.node[0][i].m, &e) == INFER_OK);
            for (i = 0; i < 3; i++) CHECK(infer_model_reload(g.node[0][i].m, &e) == INFER_OK);
            ranges_script(g.node[0][0].c, ids, 20, &got);
            CHECK(got.n == want.n && memcmp(got.x, want.x, got.n * sizeof *got.x) == 0);
            parts_close(&g);
            free(got.x);
        }
        free(want.x);
    }
    check_detail = "";
}

/* ---- what it takes ----------------------------------------------------------------------------------------------- */

/* Bytes of tensors of which every part has all; of the others they have all together. */
static void parts_sums(const infer_model *m, uint64_t *whole, uint64_t *cut) {
    int32_t i, k;
    *whole = *cut = 0;
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const infer__weight *w;
        for (k = 0; (w = infer__weights_all((infer_model *)(uintptr_t)m, k)) != NULL && !(w->type && w->tensor == i + 1); k++) {}
        if (w && m->gguf.tensors[i].every) *cut += m->gguf.tensors[i].bytes;
        else if (w) *whole += m->gguf.tensors[i].bytes;
    }
}

static void parts_memory_of(const char *name, int no_mmap, int32_t n) {
    static parts g;
    const char *path = check_data(name);
    infer_context_params cp;
    infer_model_params mp;
    infer_memory all;
    infer_error e;
    uint64_t whole = 0, cut = 0, sum = 0;
    int32_t i;
    check_detail = name;
    memset(&mp, 0, sizeof mp);
    ranges_context(&cp);
    CHECK(infer_model_memory_path(path, &mp, &cp, &all, &e) == INFER_OK);
    mp.allocator.alloc = ranges_alloc;
    mp.allocator.free = ranges_free;
    mp.no_mmap = no_mmap;
    mp.parts = n;
    mp.part_least = 1;
    memset(&g, 0, sizeof g);
    CHECK(infer__mutex_init(&g.lock) && infer__cond_init(&g.cond));
    g.node[0][0].g = &g;
    cp.share = parts_share; /* to nobody: it hears of the end */
    cp.gather = parts_gather;
    cp.parts_user = &g.node[0][0];
    for (i = 0; i < n; i++) {
        const infer__weight *head;
        ranges_piece x;
        uint64_t own, of_cut;
        mp.part = i;
        if (!ranges_piece_open(&x, path, &mp, &cp, &all)) return;
        CHECK(x.said.cache == all.cache);
        parts_sums(x.m, &own, &of_cut);
        if (i == 1) {
            whole = own;
            cut = of_cut;
        }
        CHECK(i < 2 || (own == whole && of_cut == cut));
        sum += x.weights - own;
        head = &x.m->w[INFER__W_OUTPUT];
        if (!i && head->tensor == x.m->w[INFER__W_TOKEN_EMBD].tensor) /* it has the embedding whole */
            sum += (uint64_t)head->held * head->row_bytes;
        CHECK(of_cut > own);
        ranges_piece_close(&x);
    }
    CHECK(sum == cut);
    CHECK(g.shared == 1);
    infer__cond_destroy(&g.cond);
    infer__mutex_destroy(&g.lock);
    check_detail = "";
}

static void test_parts_memory(void) {
    int i;
    for (i = 0; i < 2; i++) {
        parts_memory_of("models/stories260K.F32.gguf", i, 2);
        parts_memory_of("archs/grovemoe-groups-moe.gguf", i, 2);
        parts_memory_of("archs/phi3-partial-dense.gguf", i, 3);
        parts_memory_of("archs/qwen35-dense.gguf", i, 3);
    }
}

/* ---- refusals and failures --------------------------------------------------------------------------------------- */

static void test_parts_refuse(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params cp;
    infer_model_params mp;
    infer_session *s = NULL;
    infer_context *c = NULL;
    infer_adapter *a = NULL;
    infer_model *m = NULL;
    infer_error e;
    static const struct { int32_t part, parts; } bad[] = { { -1, 2 }, { 2, 2 }, { 0, -1 }, { 0, 65 }, { 1, 0 }, { 1, 1 }, { 0, INT32_MAX } };
    size_t i;
    memset(&mp, 0, sizeof mp);
    ranges_context(&cp);
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        mp.part = bad[i].part;
        mp.parts = bad[i].parts;
        CHECK(infer_model_open(&m, path, &mp, &e) == INFER_ERR_ARGUMENT && !m);
        CHECK_HAS(e.message, "there are at most 64");
    }
    mp.part = 0;
    mp.parts = 2;
    mp.backend = INFER_OPENCL;
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_ERR_UNSUPPORTED && !m);
    if (INFER__HAS_GPU) CHECK_HAS(e.message, "a GPU, with matrices in parts"); /* else all GPUs are refused before */
    mp.backend = INFER_AUTO;
    mp.gpu_layers = 1;
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_ERR_UNSUPPORTED && !m);
    mp.gpu_layers = 0;
    mp.device = 1;
    CHECK(infer_model_open(&m, path, &mp, &e) == (INFER__HAS_GPU ? INFER_ERR_UNSUPPORTED : INFER_ERR_ARGUMENT) && !m);
    mp.device = 0;
    mp.preload = 2;
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_ERR_UNSUPPORTED && !m);
    mp.preload = 0;
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_OK && m->n_devices == 0);
    if (!m) return;
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_ERR_ARGUMENT && !c);
    CHECK_HAS(e.message, "gather is NULL");
    cp.gather = parts_gather;
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_ERR_ARGUMENT && !c);
    CHECK_HAS(e.message, "share is NULL");
    CHECK(infer_adapter_open(&a, m, path, 0, &e) == INFER_ERR_UNSUPPORTED && !a);
    cp.share = parts_share;
    cp.inputs = (infer_inputs_fn)(void (*)(void))1;
    CHECK(infer_context_create(&c, m, &cp, &e) == INFER_ERR_UNSUPPORTED && !c);
    cp.inputs = NULL;
    infer_model_close(m);
    mp.part = 1;
    cp.share = NULL;
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_OK && infer_context_create(&c, m, &cp, &e) == INFER_OK);
    CHECK(infer_session_create_in(&s, c, NULL, &e) == INFER_ERR_STATE && !s);
    CHECK_HAS(e.message, "part 1");
    infer_context_destroy(c);
    infer_model_close(m);
}

/* An exchange that fails is the eval's error, with the session where it was; then it goes on with the same bits. */
static void test_parts_fail(void) {
    static const int32_t at[] = { 0, 5 };
    static parts g;
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params cp;
    infer_model_params mp;
    ranges_seen x;
    int32_t i;
    memset(&mp, 0, sizeof mp);
    ranges_context(&cp);
    if (!parts_open(&g, path, &mp, &cp, at, 1, 3)) return;
    if (!ranges_seen_begin(&x, g.node[0][0].c)) return;
    CHECK(g.node[0][0].gathers == 4 * 5 + 1); /* Q K V, output, gate and up, down; the head */
    CHECK(infer_session_rewind(x.s, 11) == INFER_OK);
    for (i = 1; i <= 21; i += 4) {
        g.fails_in = i;
        ranges_seen_fails(&x, INFER_ERR_IO, "no exchange");
        parts_settle(&g);
        infer__mutex_lock(&g.lock);
        g.failed = INFER_OK;
        memset(g.why, 0, sizeof g.why);
        infer__mutex_unlock(&g.lock);
    }
    ranges_seen_end(&x);
    parts_close(&g);
}

/* An eval that is cancelled ends between two passes, in all parts alike. */
static void test_parts_cancel(void) {
    static const int32_t at[] = { 0, 5 };
    static parts g;
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params cp;
    infer_model_params mp;
    ranges_seen x;
    uint64_t gathers;
    memset(&mp, 0, sizeof mp);
    ranges_context(&cp);
    cp.batch = 8;
    if (!parts_open(&g, path, &mp, &cp, at, 1, 2)) return;
    if (!ranges_seen_begin(&x, g.node[0][0].c)) return;
    CHECK(infer_session_rewind(x.s, 0) == INFER_OK);
    parts_settle(&g);
    gathers = g.node[0][0].gathers;
    g.shared = 0;
    g.cancel = x.s;
    ranges_seen_fails(&x, INFER_CANCELLED, "cancelled");
    g.cancel = NULL;
    parts_settle(&g);
    CHECK(g.shared == 2 && g.node[0][0].gathers == gathers + 2 * 4 * 5 && g.node[0][1].gathers == g.node[0][0].gathers);
    CHECK(!g.failed);
    ranges_seen_end(&x);
    parts_close(&g);
}

/* Every failing allocation while a part opens and gets a context. */
static void test_parts_oom(void) {
    const char *path = check_data("models/stories260K.F32.gguf");
    static parts g;
    infer_context_params cp;
    infer_model_params mp;
    infer_error e;
    int32_t part;
    long i;
    memset(&mp, 0, sizeof mp);
    memset(&g, 0, sizeof g);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    mp.parts = 2;
    mp.part_least = 1;
    ranges_context(&cp);
    cp.threads = 1;
    cp.share = parts_share;
    cp.gather = parts_gather;
    g.node[0][0].g = &g;
    cp.parts_user = &g.node[0][0];
    CHECK(infer__mutex_init(&g.lock));
    for (part = 0; part < 2; part++) {
        int done = 0;
        mp.part = part;
        mp.no_mmap = part;
        for (i = 1; !done && !check_bad; i++) {
            infer_context *c = NULL;
            infer_model *m = NULL;
            check_allocs = check_live = 0;
            check_fail_at = i;
            if (infer_model_open(&m, path, &mp, &e)) CHECK(e.code == INFER_ERR_MEMORY && !m);
            else if (infer_context_create(&c, m, &cp, &e)) CHECK(e.code == INFER_ERR_MEMORY && !c);
            done = c && check_allocs < i;
            infer_context_destroy(c);
            infer_model_close(m);
            CHECK(check_live == 0);
        }
        CHECK(i > 30);
    }
    check_fail_at = 0;
    infer__mutex_destroy(&g.lock);
}

/* Messages of a head that are changed are refused, and nothing is exchanged or written outside. */
static infer_result parts_alone(void *user, float *values, const size_t *first, int32_t to, infer_error *err) {
    const size_t all = first[2];
    (void)err;
    (void)to;
    memset(values, 0, all * sizeof *values); /* there is room */
    ++*(int *)user;
    return INFER_OK;
}

static void test_parts_hostile(void) {
    static parts g;
    const char *path = check_data("models/stories260K.F32.gguf");
    static const int32_t words[] = { -1, INT32_MIN, INT32_MAX, 1 << 20, 9, 0 }, at[] = { 0, 5 };
    infer_context_params cp;
    infer_model_params mp;
    infer_session *s = NULL;
    infer_context *c = NULL;
    infer_model *m = NULL;
    infer_token ids[20];
    infer_error e;
    int32_t w[INFER__MSG_WORDS], i;
    size_t k, back, refused = 0;
    float *rows;
    int exchanges = 0;
    memset(&mp, 0, sizeof mp);
    ranges_context(&cp);
    cp.threads = 1;
    for (i = 0; i < 20; i++) ids[i] = 3 + i % 7;
    if (!parts_open(&g, path, &mp, &cp, at, 1, 2)) return;
    CHECK(infer_session_create_in(&s, g.node[0][0].c, NULL, &e) == INFER_OK);
    CHECK(s && infer_session_eval(s, ids, 20) == INFER_OK);
    parts_settle(&g);
    memcpy(w, infer__rest_words(g.node[0][0].c), sizeof w); /* the last one was of the head */
    CHECK(w[INFER__MSG_KIND] == INFER__MSG_HEAD && w[INFER__MSG_ROWS] == 1);
    mp.part = 1;
    mp.parts = 2;
    mp.part_least = 1;
    cp.gather = parts_alone;
    cp.parts_user = &exchanges;
    CHECK(infer_model_open(&m, path, &mp, &e) == INFER_OK && infer_context_create(&c, m, &cp, &e) == INFER_OK);
    rows = (float *)calloc(64, sizeof *rows);
    CHECK(infer_context_rows(c, w, sizeof w, rows, 64, 64, &back, &e) == INFER_OK && back == 0 && exchanges == 1);
    CHECK(infer_context_rows(c, w, sizeof w, rows, 63, 64, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_context_rows(c, w, sizeof w, rows, 64, 63, &back, &e) == INFER_ERR_ARGUMENT);
    for (i = 0; i < INFER__MSG_WORDS; i++)
        for (k = 0; k < sizeof words / sizeof *words; k++) {
            const int32_t was = w[i];
            w[i] = words[k];
            refused += infer_context_rows(c, w, sizeof w, rows, 64, 64, &back, &e) != INFER_OK;
            w[i] = was;
        }
    CHECK(refused > 60 && exchanges > 1); /* numbers of contexts and passes may be others */
    w[INFER__MSG_PARTS] = 3;
    CHECK(infer_context_rows(c, w, sizeof w, rows, 64, 64, &back, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "parts and part_least");
    free(rows);
    infer_context_destroy(c);
    infer_model_close(m);
    infer_session_destroy(s);
    parts_close(&g);
}

/* Three queues with a thread each, contexts of the other parts made as messages come, as ranks do. */
static void test_parts_queues(void) {
    static infer_token want[RANGES_QUEUES][RANGES_NEW], got[RANGES_QUEUES][RANGES_NEW];
    static const struct { int32_t ranges, n, at[4]; } how[] = { { 1, 3, { 0, 5, 0, 0 } }, { 2, 2, { 0, 2, 5, 0 } }, { 3, 2, { 0, 1, 3, 5 } } };
    static parts g;
    const char *path = check_data("models/stories260K.F32.gguf");
    infer_context_params with;
    infer_model_params mp;
    infer_model *m = NULL;
    int32_t r, p;
    size_t k;
    memset(&mp, 0, sizeof mp);
    memset(&with, 0, sizeof with);
    CHECK(infer_model_open(&m, path, &mp, NULL) == INFER_OK);
    if (!m) return;
    ranges_ask(m, &with, want);
    infer_model_close(m);
    for (k = 0; k < sizeof how / sizeof *how && !check_bad; k++) {
        if (!parts_open(&g, path, &mp, NULL, how[k].at, how[k].ranges, how[k].n)) return;
        with.rest = parts_rest;
        with.share = parts_share;
        with.gather = parts_gather;
        with.rest_user = with.parts_user = &g.node[0][0];
        ranges_ask(g.node[0][0].m, &with, got);
        parts_settle(&g);
        if (g.failed) check_note(__FILE__, __LINE__, g.why);
        CHECK(want[0][1] != 0 && memcmp(want, got, sizeof want) == 0);
        for (r = 0; r < g.ranges; r++)
            for (p = 0; p < g.n; p++) CHECK(g.node[r][p].gathers > 0);
        parts_close(&g);
    }
}

static void suite_parts(void) {
#if !defined(INFER__THREADS)
    return; /* each part is a thread */
#endif
    RUN(test_parts_refuse);
    RUN(test_parts_fail);
    RUN(test_parts_memory);
    RUN(test_parts_ways);
    RUN(test_parts_cancel);
    RUN(test_parts_oom);
    RUN(test_parts_hostile);
    RUN(test_parts_queues);
    ranges_archs("test_parts_arch", parts_file);
}
