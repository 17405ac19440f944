/* test_cells.c: recurrent states of sessions, by LFM2's short convolutions: states that are kept, going back to them, failed
 * evals, forks, saving, contexts whose cells run out, hostile sizes. Results are bits of a run from the start. */

enum { CELLS_IDS = 200, CELLS_VOCAB = 128 };

static infer_session *cells_session(infer_model *m, int32_t batch, int32_t every, int32_t sessions) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = 256;
    p.own.threads = 2;
    p.own.batch = batch;
    p.own.cells = 1024;
    p.own.sessions = sessions;
    p.own.kv_type = INFER_KV_F32;
    p.own.snapshot_every = every;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

static int cells_free(const infer_session *s) { return s->context->cache.groups[INFER__GROUP_CELLS].n_free; }

/* 1 when the session's logits are those after n of the ids in a run from the start. */
static int cells_same(infer_model *m, infer_session *s, const infer_token *ids, int32_t n) {
    infer_session *fresh = cells_session(m, 512, 0, 1);
    int same = 0;
    if (fresh) {
        CHECK(infer_session_eval(fresh, ids, n) == INFER_OK);
        same = infer_session_logits(s, -1) && memcmp(infer_session_logits(s, -1), infer_session_logits(fresh, -1),
                                                     CELLS_VOCAB * sizeof(float)) == 0;
    }
    infer_session_destroy(fresh);
    return same;
}

/* Back to `to`, which leaves the state after `valid`; then on to `end`. */
static void cells_back(infer_model *m, infer_session *s, const infer_token *ids, int32_t to, int32_t valid, int32_t end) {
    uint64_t before = s->stats.reevaluated;
    CHECK(infer_session_rewind(s, to) == INFER_OK && s->n == to);
    CHECK(s->n_valid == valid);
    CHECK(infer_session_eval(s, ids + to, end - to) == INFER_OK);
    CHECK(s->stats.reevaluated - before == (uint64_t)(to - valid));
    CHECK(cells_same(m, s, ids, end));
}

static void test_cells_snapshots(void) {
    infer_model *m = cache_model("lfm2-dense");
    infer_session *s = m ? cells_session(m, 512, 32, 1) : NULL;
    infer_token ids[CELLS_IDS];
    int32_t i;
    cache_ids(ids, CELLS_IDS, 5, CELLS_VOCAB);
    if (s) {
        const int all = cells_free(s);
        CHECK(all == INFER__SNAPSHOTS + 3);
        CHECK(infer_session_eval(s, ids, 100) == INFER_OK && s->n_snapshots == 3 && s->snapshots[2].pos == 96);
        CHECK(cells_same(m, s, ids, 100));
        cells_back(m, s, ids, 99, 96, 110);
        cells_back(m, s, ids, 64, 64, 100); /* a state of its own: nothing is evaluated again */
        cells_back(m, s, ids, 31, 0, 100);
        for (i = 100; i < 120; i++) CHECK(infer_session_eval(s, ids + i, 1) == INFER_OK);
        CHECK(s->n_snapshots == INFER__SNAPSHOTS);
        for (i = 0; i < s->n_snapshots; i++) CHECK(i == 0 || s->snapshots[i].pos > s->snapshots[i - 1].pos);
        cells_back(m, s, ids, 100, 100, 120); /* the end of the prompt outlives single tokens */
        cells_back(m, s, ids, 119, 100, 121);
        CHECK(infer_session_rewind(s, 0) == INFER_OK && s->n_snapshots == 0 && cells_free(s) == all);
        CHECK(infer_session_eval(s, ids, 1) == INFER_OK && cells_same(m, s, ids, 1));
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static int cells_stop; /* the progress call that cancels */
static int cells_progress(void *user, float done) {
    (void)user;
    (void)done;
    return --cells_stop == 0;
}

/* A failed eval leaves the state where it was, whatever passes went before. */
static void test_cells_failure(void) {
    infer_model *m = cache_model("lfm2-dense");
    infer_session *s = m ? cells_session(m, 10, 20, 1) : NULL;
    infer_token ids[CELLS_IDS];
    int32_t i, held;
    cache_ids(ids, CELLS_IDS, 6, CELLS_VOCAB);
    if (s) {
        s->progress = cells_progress;
        CHECK(infer_session_eval(s, ids, 45) == INFER_OK);
        for (i = 1; i <= 6; i++) {
            held = cells_free(s) + s->n_snapshots;
            cells_stop = i;
            CHECK(infer_session_eval(s, ids + 45, 70) == INFER_CANCELLED);
            CHECK(s->n == 45 && s->n_valid == 45 && cells_free(s) + s->n_snapshots == held);
        }
        cells_stop = 2; /* while what a rewind gave up is computed again */
        CHECK(infer_session_rewind(s, 44) == INFER_OK && s->n_valid < 44);
        i = s->n_valid;
        CHECK(infer_session_eval(s, ids + 44, 50) == INFER_CANCELLED && s->n == 44 && s->n_valid >= i);
        cells_stop = 0;
        CHECK(infer_session_eval(s, ids + 44, 50) == INFER_OK && cells_same(m, s, ids, 94));
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_cells_fork_save(void) {
    infer_model *m = cache_model("lfm2-dense");
    infer_session *s = m ? cells_session(m, 64, 16, 2) : NULL, *t = NULL, *u = m ? cells_session(m, 64, 16, 1) : NULL;
    infer_token ids[CELLS_IDS], other[CELLS_IDS];
    state_bytes b;
    infer_error e;
    cache_ids(ids, CELLS_IDS, 7, CELLS_VOCAB);
    memset(&b, 0, sizeof b);
    memcpy(other, ids, sizeof ids);
    cache_ids(other + 50, 40, 8, CELLS_VOCAB);
    if (s && u) {
        CHECK(infer_session_eval(s, ids, 50) == INFER_OK);
        CHECK(infer_session_fork(&t, s, &e) == INFER_OK && t->cell == s->cell && t->n_snapshots == s->n_snapshots);
        CHECK(infer_session_eval(t, other + 50, 40) == INFER_OK && infer_session_eval(s, ids + 50, 30) == INFER_OK);
        CHECK(cells_same(m, t, other, 90) && cells_same(m, s, ids, 80));
        infer_session_destroy(s); /* what the fork holds stays */
        s = NULL;
        cells_back(m, t, other, 33, 32, 90);
        CHECK(infer_session_save(t, state_write, &b) == INFER_OK);
        CHECK(infer_session_eval(u, ids, 77) == INFER_OK);
        CHECK(infer_session_load(u, state_read, &b) == INFER_OK && u->n == 90 && u->n_valid == 90 && u->n_snapshots == 0);
        CHECK(infer_session_eval(u, ids, 20) == INFER_OK && infer_session_eval(t, ids, 20) == INFER_OK);
        CHECK(memcmp(infer_session_logits(u, -1), infer_session_logits(t, -1), CELLS_VOCAB * sizeof(float)) == 0);
        memcpy(other + 90, ids, 20 * sizeof *ids);
        cells_back(m, u, other, 40, 0, 100);
        b.at = 0;
        b.p[b.n / 2] ^= 1; /* the sum finds it, and nothing has changed */
        CHECK(infer_session_load(u, state_read, &b) == INFER_ERR_FORMAT && u->n == 100);
        CHECK(infer_session_eval(u, other + 100, 1) == INFER_OK && cells_same(m, u, other, 101));
    }
    free(b.p);
    infer_session_destroy(s);
    infer_session_destroy(t);
    infer_session_destroy(u);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* More sessions than cells were planned for: kept states go first, then evals are refused; nothing is lost. */
static void test_cells_run_out(void) {
    enum { MANY = 16 };
    infer_model *m = cache_model("lfm2-dense");
    infer_context_params p;
    infer_context *c = NULL;
    infer_session *s[MANY];
    infer_token ids[CELLS_IDS];
    infer_error e;
    int32_t i, refused = 0, all;
    if (!m) return;
    memset(s, 0, sizeof s);
    memset(&p, 0, sizeof p);
    p.threads = 1;
    p.cells = 4096;
    p.sessions = 1;
    p.snapshot_every = 4;
    p.kv_type = INFER_KV_F32;
    cache_ids(ids, CELLS_IDS, 9, CELLS_VOCAB);
    CHECK(infer_context_create(&c, m, &p, &e) == INFER_OK);
    if (!c) return;
    all = c->cache.groups[INFER__GROUP_CELLS].n_free;
    for (i = 0; i < MANY; i++) {
        infer_result r;
        CHECK(infer_session_create_in(&s[i], c, NULL, &e) == INFER_OK);
        r = infer_session_eval(s[i], ids, 30);
        CHECK(r == INFER_OK || r == INFER_CONTEXT_FULL);
        if (r) CHECK_HAS(infer_session_error(s[i])->message, "recurrent states");
        else CHECK(cells_same(m, s[i], ids, 30));
        refused += r != INFER_OK;
    }
    CHECK(refused > 0 && refused < MANY);
    CHECK(infer_session_rewind(s[0], 0) == INFER_OK && infer_session_eval(s[MANY - 1], ids, 40) == INFER_OK);
    CHECK(cells_same(m, s[MANY - 1], ids, 40));
    for (i = 0; i < MANY; i++) infer_session_destroy(s[i]);
    CHECK(c->cache.groups[INFER__GROUP_CELLS].n_free == all);
    CHECK(infer_context_destroy(c) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* The number of taps is the file's; sizes that no tensor has and that no scratch holds are refused by the key's name. */
static void test_cells_hostile(void) {
    static const struct { uint32_t taps; const char *why; } cases[] = {
        { 3, NULL }, { 0, "shortconv.l_cache is 0" }, { 1, "shortconv.l_cache is 1" }, { 65, "shortconv.l_cache is 65" },
        { 0x7fffffff, "shortconv.l_cache" }, { 0xffffffffu, "shortconv.l_cache" }, { 4, "shortconv.conv.weight" } };
    static const char key[] = "lfm2.shortconv.l_cache";
    size_t n = 0, i, k;
    char *file = check_read(check_data("archs/lfm2-dense.gguf"), &n), *at = NULL;
    for (i = 0; file && i + sizeof key < n; i++)
        if (memcmp(file + i, key, sizeof key - 1) == 0) at = file + i + sizeof key - 1 + 4; /* behind its type */
    CHECK(at != NULL);
    for (i = 0; at && i < INFER__COUNT(cases); i++) {
        infer_model *m = NULL;
        for (k = 0; k < 4; k++) at[k] = (char)(cases[i].taps >> 8 * k & 255);
        CHECK(infer_model_open_memory(&m, file, n, NULL, NULL) == INFER_OK);
        if (!m) continue;
        CHECK((m->why_code == INFER_OK) == (cases[i].why == NULL));
        if (cases[i].why) CHECK_HAS(infer_model_why_not(m), cases[i].why);
        CHECK(infer_model_close(m) == INFER_OK);
    }
    if (at) { /* without the key */
        infer_model *m = NULL;
        at[-5] = 'x';
        CHECK(infer_model_open_memory(&m, file, n, NULL, NULL) == INFER_OK && m && m->why_code == INFER_ERR_FORMAT);
        if (m) CHECK_HAS(infer_model_why_not(m), "missing key lfm2.shortconv.l_cache");
        infer_model_close(m);
    }
    free(file);
}

/* The op beside double: several sequences, any cut, states from before and behind, with and without gates. */
static void test_cells_conv(void) {
    enum { COLS = 1037, ROWS = 9, CELLS = 6 };
    static const int32_t taps_of[] = { 2, 3, 4, 64 };
    float *x = ops_floats(ROWS * 3 * COLS), *y = ops_floats(ROWS * COLS), *w = ops_floats(64 * COLS);
    int32_t seq[ROWS] = { 0, 0, 0, 0, 0, 1, 2, 2, 2 }, in[3] = { 1, -1, 2 }, out[3] = { 3, 4, 5 }, r, i, k;
    size_t t;
    int gates;
    for (t = 0; t < INFER__COUNT(taps_of); t++)
        for (gates = 0; gates < 2; gates++) {
            const int32_t taps = taps_of[t];
            const size_t cell = (size_t)(taps - 1) * COLS;
            float *state = ops_floats(CELLS * cell);
            infer__weight weight = ops_weight(ops_f32(), w, COLS, taps);
            infer__buf bx, by, bs;
            infer__conv_args a;
            infer__ctx c;
            ops_open(&c, gates ? 3 : 1, infer__cpu_found(), COLS);
            memset(&a, 0, sizeof a);
            memset(&bs, 0, sizeof bs);
            bs.host = state;
            bs.bytes = CELLS * cell * sizeof *state;
            c.pass.seq = seq;
            c.pass.cell_in = in;
            c.pass.cell_out = out;
            c.pass.n_rows = ROWS;
            a.x = ops_tensor(&bx, x, ROWS, COLS, 3 * COLS);
            a.y = ops_tensor(&by, y, ROWS, COLS, COLS);
            if (gates) {
                a.gate_in = a.gate_out = a.x;
                a.gate_in.offset = COLS * sizeof(float);
                a.gate_out.offset = 2 * COLS * sizeof(float);
            }
            a.w = &weight;
            a.state = &bs;
            a.taps = taps;
            c.ops->conv(&c, &a);
            for (r = 0; r < ROWS; r++)
                for (i = 0; i < COLS; i++) {
                    const int32_t s = seq[r], first = s == 0 ? 0 : s == 1 ? 5 : 6;
                    double sum = 0, u;
                    for (k = 0; k < taps; k++) {
                        const int32_t from = r - (taps - 1) + k;
                        if (from >= first) u = (double)x[from * 3 * COLS + i] * (gates ? x[from * 3 * COLS + COLS + i] : 1);
                        else u = in[s] < 0 ? 0 : state[(size_t)in[s] * cell + (size_t)(taps - 1 - (first - from)) * COLS + (size_t)i];
                        sum += (double)w[i * taps + k] * u;
                        if ((r == 4 || r == 5 || r == 8) && k > 0) /* the last row of its sequence: what stays */
                            CHECK(ops_near(state[(size_t)out[s] * cell + (size_t)(k - 1) * COLS + (size_t)i], u, 1, 1e-6));
                    }
                    if (gates) sum *= x[r * 3 * COLS + 2 * COLS + i];
                    CHECK(ops_near(y[r * COLS + i], sum, 4, 2e-6));
                }
            ops_close(&c);
            free(state);
        }
    free(x);
    free(y);
    free(w);
}

static void suite_cells(void) {
    RUN(test_cells_conv);
    RUN(test_cells_snapshots);
    RUN(test_cells_failure);
    RUN(test_cells_fork_save);
    RUN(test_cells_run_out);
    RUN(test_cells_hostile);
}
