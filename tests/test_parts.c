/* test_parts.c: matrices in parts. Models of one file, each with some rows of every wide matrix, in a thread each, also of
 * layers that are cut, too: the bits of one model, for every architecture, whatever sessions do. */

enum { PARTS_MOST = 4, PARTS_RANGES = 3 };

typedef struct parts_mail {
    struct parts_mail *next;
    size_t size, n, back;
    unsigned char *message;
    float *rows;
} parts_mail;

typedef struct parts parts;
typedef struct parts_node {
    parts *g;
    int32_t range, part, started;
    infer_model *m;
    infer_context *c;
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
    float *reply;
    size_t replied, shared;
    int64_t fails_in; /* the exchange that fails, counted down; 0 = none */
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
    g->shared++;
    for (p = 1; p < g->n; p++) parts_post(&g->node[0][p], parts_mail_new(message, size, rows, n, n));
    infer__mutex_unlock(&g->lock);
    return INFER_OK;
}

static infer_result parts_rest(void *user, const void *message, size_t size, float *rows, size_t n, size_t back, infer_error *err) {
    parts_node *self = (parts_node *)user;
    parts *g = self->g;
    infer_result r;
    infer__mutex_lock(&g->lock);
    g->replied = 0;
    parts_post(&g->node[1][0], parts_mail_new(message, size, rows, n, back));
    while (back && !g->replied && !g->failed) infer__cond_wait(&g->cond, &g->lock);
    r = g->failed;
    if (r) infer__error(err, r, "%s", g->why);
    else if (back) {
        CHECK(g->replied == back);
        memcpy(rows, g->reply, back * sizeof *rows);
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

static void parts_work(parts_node *self, parts_mail *x) {
    parts *g = self->g;
    infer_rows_info info;
    infer_error e;
    size_t n = 0;
    infer_result r = infer_rows_read(x->message, x->size, &info, &e);
    const size_t cap = x->n > x->back ? x->n : x->back;
    if (!r) r = infer_context_rows(self->c, x->message, x->size, x->rows, x->n, cap, &n, &e);
    infer__mutex_lock(&g->lock);
    if (r) {
        if (!g->failed) {
            g->failed = r;
            snprintf(g->why, sizeof g->why, "%.190s", e.message);
        }
    } else {
        self->passes += x->n > 0;
        self->heads += (uint64_t)info.head;
        self->last |= info.last;
        if (!info.head && self->range + 1 < g->ranges)
            parts_post(&g->node[self->range + 1][self->part], parts_mail_new(x->message, x->size, x->rows, n, x->back > n ? x->back : n));
        else if (self->part == 0 && x->back) {
            g->reply = (float *)realloc(g->reply, n * sizeof(float));
            memcpy(g->reply, x->rows, n * sizeof(float));
            g->replied = n;
        }
    }
    infer__cond_broadcast(&g->cond);
    infer__mutex_unlock(&g->lock);
}

static void parts_run(void *arg) {
    parts_node *self = (parts_node *)arg;
    parts *g = self->g;
    for (;;) {
        parts_mail *x;
        infer__mutex_lock(&g->lock);
        while (!self->first && !g->closing) infer__cond_wait(&g->cond, &g->lock);
        x = self->first;
        if (x && (self->first = x->next) == NULL) self->end = NULL;
        infer__mutex_unlock(&g->lock);
        if (!x) return;
        parts_work(self, x);
        parts_mail_free(x);
    }
}

/* Nobody has anything to do. */
static void parts_settle(parts *g) {
    int32_t r, p, busy = 1;
    while (busy) {
        infer__mutex_lock(&g->lock);
        for (busy = r = 0; r < g->ranges; r++)
            for (p = 0; p < g->n; p++) busy |= g->node[r][p].first != NULL;
        infer__mutex_unlock(&g->lock);
    }
}

static void parts_close(parts *g) {
    int32_t r, p, k;
    int ended = 1;
    if (g->node[0][0].c) CHECK(infer_context_destroy(g->node[0][0].c) == INFER_OK);
    g->node[0][0].c = NULL;
    for (k = 0; k < g->ranges && !g->failed; k++) parts_settle(g); /* messages go from range to range */
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
    free(g->reply);
    infer__cond_destroy(&g->cond);
    infer__mutex_destroy(&g->lock);
    memset(g, 0, sizeof *g);
}

/* n parts of each of the ranges [at[0], at[1]), .. 0: a check failed. */
static int parts_open(parts *g, const char *path, const infer_model_params *mp, const infer_context_params *cp, const int32_t *at,
                      int32_t ranges, int32_t n) {
    infer_model_params p = *mp;
    infer_context_params c = *cp;
    infer_error e;
    int32_t r, k, ok = 1;
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
            if (infer_model_open(&x->m, path, &p, &e) || infer_context_create(&x->c, x->m, &c, &e)) {
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
            CHECK(g.node[r][p].gathers > 0);
            CHECK((r == 0 && p == 0) || g.node[r][p].passes > 0);
            CHECK((g.node[r][p].heads > 0) == (r == 0 && p > 0 && g.node[0][0].m->cut_head));
        }
    CHECK(g.node[0][0].m->hp.encoder || g.node[0][0].m->cut_head);
    parts_close(&g);
    free(got.x);
}

static void parts_file(const char *path, const infer_model_params *mp) {
    infer_context_params cp;
    infer_model *m = NULL;
    infer_context *c = NULL;
    infer_error e;
    ranges_out want;
    infer_token ids[40];
    int32_t at[3] = { 0, 0, 0 }, n_ids = ranges_ids(ids, 40), unit = 0;
    memset(&want, 0, sizeof want);
    ranges_context(&cp);
    if (infer_model_open(&m, path, mp, &e) || infer_context_create(&c, m, &cp, &e)) check_note(__FILE__, __LINE__, e.message);
    if (!c || n_ids < 8) { CHECK(n_ids >= 8); return; }
    ranges_script(c, ids, n_ids, &want);
    at[1] = m->hp.n_layer;
    while (unit < m->hp.n_layer && !m->layers[unit].kv_read) unit++;
    parts_compare(path, mp, &cp, at, 1, 2, ids, n_ids, &want);
    cp.threads = 1;
    parts_compare(path, mp, &cp, at, 1, 3, ids, n_ids, &want);
    at[1] = (m->hp.n_layer + 1) / 2;
    at[2] = m->hp.n_layer;
    if (at[1] <= unit && at[1] < at[2] && getenv("DEEP")) parts_compare(path, mp, &cp, at, 2, 2, ids, n_ids, &want);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
    free(want.x);
}

static void parts_arch(void) {
    const char *path = arch_path("gguf");
    infer_model_params mp;
    memset(&mp, 0, sizeof mp);
    if (!path) SKIP("needs INFER_TEST_DATA");
    check_detail = arch_file;
    parts_file(path, &mp);
    check_detail = "";
}

static void suite_parts(void) {
    char name[80];
    size_t i;
    for (i = 0; i < sizeof ARCH_FILES / sizeof *ARCH_FILES; i += (size_t)check_every(16)) {
        arch_file = ARCH_FILES[i];
        snprintf(name, sizeof name, "test_parts_arch_%s", arch_file);
        check_run(name, parts_arch);
    }
}
