/* test_slices.c: evals in slices: a layer or a piece of the output matrix at a time, the same bits; what is refused meanwhile; cancelled, given up, failed between two
 * slices. A queue in slices gives what test_queue.c expects. */

static infer_step slice_step(infer_session *s, const infer_token *ids, int32_t n) {
    infer_step st;
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = ids;
    st.n = n;
    st.outputs = INFER_OUT_LAST;
    return st;
}

static infer_context *slice_context(infer_model *m, infer_session **s, infer_session **t) {
    infer_context *c = NULL;
    infer_context_params p;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.threads = 2;
    p.batch = 16;
    p.cells = 512;
    p.kv_type = INFER_KV_F32;
    if (infer_context_create(&c, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    CHECK(c && infer_session_create_in(s, c, NULL, &e) == INFER_OK && infer_session_create_in(t, c, NULL, &e) == INFER_OK);
    return c;
}

/* Slices of an eval until it ends; *n: how many said that there is more. */
static infer_result slice_all(infer_context *c, const infer_step *steps, int32_t n_steps, int32_t *n, infer_error *e) {
    infer_result r;
    for (*n = 0; (r = infer_eval_slice(c, steps, n_steps, 0, e)) == INFER_MORE; ++*n) {}
    return r;
}

static void test_slices_same(void) {
    infer_error e;
    size_t i;
    for (i = 0; i < INFER__COUNT(queue_files); i += (size_t)check_every(3)) {
        infer_model *m = cache_model(queue_files[i]);
        infer_session *s = NULL, *t = NULL, *fresh;
        infer_context *c = m ? slice_context(m, &s, &t) : NULL;
        infer_token ids[60], other[20];
        infer_step steps[2];
        int32_t k, n, vocab = m ? m->hp.n_vocab : 0;
        if (!c) continue;
        for (k = 0; k < 60; k++) ids[k] = (infer_token)(k * 7 % 29 + 1);
        for (k = 0; k < 20; k++) other[k] = (infer_token)(k * 5 % 23 + 2);
        steps[0] = slice_step(s, ids, 60);
        steps[1] = slice_step(t, other, 20);
        CHECK(slice_all(c, steps, 2, &n, &e) == INFER_OK);
        CHECK(n >= 4 * (m->hp.n_layer - 1)); /* five passes of 16 rows */
        CHECK(infer_session_position(s) == 60 && infer_session_position(t) == 20);
        fresh = cells_session(m, 512, 0, 2);
        CHECK(infer_session_eval(fresh, ids, 60) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(fresh, -1), (size_t)vocab * sizeof(float)) == 0);
        CHECK(infer_session_rewind(fresh, 0) == INFER_OK && infer_session_eval(fresh, other, 20) == INFER_OK);
        CHECK(memcmp(infer_session_logits(t, -1), infer_session_logits(fresh, -1), (size_t)vocab * sizeof(float)) == 0);
        /* one token more, after a rewind */
        CHECK(infer_session_rewind(t, 13) == INFER_OK);
        steps[1] = slice_step(t, ids, 3);
        CHECK(slice_all(c, steps + 1, 1, &n, &e) == INFER_OK && n >= m->hp.n_layer - 1);
        CHECK(infer_session_rewind(fresh, 13) == INFER_OK && infer_session_eval(fresh, ids, 3) == INFER_OK);
        CHECK(memcmp(infer_session_logits(t, -1), infer_session_logits(fresh, -1), (size_t)vocab * sizeof(float)) == 0);
        steps[0] = slice_step(s, ids, 1); /* all the time that it takes */
        CHECK(infer_eval_slice(c, steps, 1, 100000, &e) == INFER_OK);
        infer_session_destroy(fresh);
        infer_session_destroy(s);
        infer_session_destroy(t);
        CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    }
}

/* The output matrix is cut into as many pieces as its bytes are those of layers: here of 64 rows. */
static void slice_head(infer_model *m, int32_t head_rows) {
    infer_session *s = NULL, *t = NULL, *fresh;
    infer_context *c = m ? slice_context(m, &s, &t) : NULL;
    const infer__weight *w = m ? &m->w[INFER__W_OUTPUT] : NULL;
    const int32_t pieces = m ? (m->hp.n_vocab + 63) / 64 : 0;
    infer_token ids[20];
    infer_step steps[1], whole[1];
    infer_error e;
    int32_t k, n;
    if (!c) return;
    m->token_bytes = w->row_bytes * (uint64_t)(w->rows + 64 * m->hp.n_layer);
    if (head_rows) c->plan.head_rows = head_rows;
    c->row_seconds = 1e-30; /* all rows in one pass, if the batch has as many */
    for (k = 0; k < 20; k++) ids[k] = (infer_token)(k * 7 % 29 + 1);
    fresh = cells_session(m, 512, 0, 2);
    whole[0] = slice_step(fresh, ids, 16);
    whole[0].outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
    CHECK(infer_eval(fresh->context, whole, 1, &e) == INFER_OK);
    steps[0] = slice_step(s, ids, 16);
    steps[0].outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
    CHECK(slice_all(c, steps, 1, &n, &e) == INFER_OK);
    CHECK(n == m->hp.n_layer + (16 + c->plan.head_rows - 1) / c->plan.head_rows * pieces - 1 + (m->hp.n_predict > 0));
    CHECK(memcmp(s->logits, fresh->logits, (size_t)(16 * m->hp.n_vocab) * sizeof(float)) == 0);
    CHECK(memcmp(s->hidden, fresh->hidden, (size_t)(16 * m->hp.n_embd) * sizeof(float)) == 0);
    /* cancelled between two pieces, and after that one token */
    for (k = 0; k < 2; k++) {
        CHECK(infer_session_rewind(s, 15) == INFER_OK);
        steps[0] = slice_step(s, ids + 15, 1);
        while (!c->head_row && infer_eval_slice(c, steps, 1, 0, &e) == INFER_MORE) {}
        CHECK(c->head_row > 0);
        if (k) infer_session_cancel(s);
        CHECK(infer_eval_slice(c, k ? steps : NULL, k, 0, &e) == (k ? INFER_CANCELLED : INFER_OK) && !c->head_row && !c->stage && !c->resume);
    }
    CHECK(slice_all(c, steps, 1, &n, &e) == INFER_OK && n >= m->hp.n_layer + pieces - 1);
    CHECK(memcmp(s->logits, fresh->logits + (int64_t)15 * m->hp.n_vocab, (size_t)m->hp.n_vocab * sizeof(float)) == 0);
    CHECK(infer_session_eval(t, ids, 16) == INFER_OK && memcmp(t->logits, s->logits, (size_t)m->hp.n_vocab * sizeof(float)) == 0);
    infer_session_destroy(fresh);
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_context_destroy(c) == INFER_OK);
}

static void test_slices_head(void) {
    static const char *const files[] = { "models/stories260K.F32.gguf", "models/TinyStories-656K.Q8_0.gguf", "archs/gemma2-softcap-dense.gguf", "archs/phi2-dense.gguf", "archs/lfm2-dense.gguf", "archs/glm4moe-nextn-moe.gguf" };
    size_t i;
    int32_t k;
    for (i = 0; i < INFER__COUNT(files); i++)
        for (k = 0; k < 2; k++) {
            infer_model_params p;
            infer_model *m = NULL;
            infer_error e;
            memset(&p, 0, sizeof p);
            p.mtp = strstr(files[i], "nextn") != NULL;
            check_detail = files[i];
            if (infer_model_open(&m, check_data(files[i]), &p, &e)) check_note(__FILE__, __LINE__, e.message);
            slice_head(m, k ? 5 : 0);
            CHECK(infer_model_close(m) == INFER_OK);
        }
}

/* Passes of a slice have so many rows that a layer takes a quarter of it, but 16 at least; where tokens see each other, all. */
static void test_slices_rows(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session *s = m ? cells_session(m, 128, 0, 2) : NULL;
    infer_context *c = s ? s->context : NULL;
    infer_token ids[200];
    infer_step steps[1];
    infer_error e;
    int32_t k, n;
    if (!s) return;
    for (k = 0; k < 200; k++) ids[k] = (infer_token)(k * 7 % 29 + 1);
    steps[0] = slice_step(s, ids, 200);
    CHECK(slice_all(c, steps, 1, &n, &e) == INFER_OK && n == 13 * m->hp.n_layer); /* its clock may be too coarse to see a layer */
    c->slice = 1;
    c->row_seconds = 1 / 4.0 / 40.5;
    CHECK(infer__pass_rows(c, s) == 40);
    c->row_seconds = 1e-300;
    CHECK(infer__pass_rows(c, s) == 128);
    c->row_seconds = 1;
    CHECK(infer__pass_rows(c, s) == 16);
    c->slice = 0;
    CHECK(infer__pass_rows(c, s) == 128);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_slices_ends(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session *s = NULL, *t = NULL, *u = NULL;
    infer_context *c = m ? slice_context(m, &s, &t) : NULL;
    infer_token ids[40];
    infer_step steps[1], others[1];
    infer_error e;
    float want[16];
    int32_t k;
    if (!c) return;
    for (k = 0; k < 40; k++) ids[k] = (infer_token)(k * 7 % 29 + 1);
    steps[0] = slice_step(s, ids, 40);
    others[0] = slice_step(t, ids, 4);
    CHECK(infer_eval_slice(NULL, steps, 1, 0, &e) == INFER_ERR_ARGUMENT && infer_eval_slice(c, steps, 1, -1, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_eval_slice(c, NULL, 0, 0, &e) == INFER_OK); /* nothing to give up */
    CHECK(infer_eval_slice(c, NULL, 1, 0, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_eval(s, ids, 40) == INFER_OK);
    memcpy(want, infer_session_logits(s, -1), sizeof want);
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    /* meanwhile everything else is refused */
    CHECK(infer_eval_slice(c, steps, 1, 0, &e) == INFER_MORE);
    CHECK(infer_session_eval(s, ids, 1) == INFER_ERR_STATE && infer_session_eval(t, ids, 1) == INFER_ERR_STATE);
    CHECK(infer_eval(c, steps, 1, &e) == INFER_ERR_STATE && infer_session_rewind(s, 0) == INFER_ERR_STATE);
    CHECK(infer_eval_slice(c, others, 1, 0, &e) == INFER_ERR_STATE);
    CHECK_HAS(e.message, "has not ended");
    CHECK(infer_session_logits(s, -1) == NULL && infer_session_fork(&u, s, &e) == INFER_ERR_STATE);
    CHECK(infer_session_position(s) == 0);
    CHECK(slice_all(c, steps, 1, &k, &e) == INFER_OK);
    CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
    /* cancelled, given up */
    for (k = 0; k < 2; k++) {
        CHECK(infer_session_rewind(s, 3) == INFER_OK);
        steps[0] = slice_step(s, ids + 3, 37);
        CHECK(infer_eval_slice(c, steps, 1, 0, &e) == INFER_MORE && infer_eval_slice(c, steps, 1, 0, &e) == INFER_MORE);
        if (k) infer_session_cancel(s);
        CHECK(k ? infer_eval_slice(c, steps, 1, 0, &e) == INFER_CANCELLED : infer_eval_slice(c, NULL, 0, 0, &e) == INFER_OK);
        CHECK(infer_session_error(s)->code == INFER_CANCELLED);
        CHECK(infer_session_position(s) == 3);
        CHECK(infer_session_eval(t, ids, 1) == INFER_OK && infer_session_eval(s, ids + 3, 37) == INFER_OK);
        CHECK(memcmp(want, infer_session_logits(s, -1), sizeof want) == 0);
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* What a rewind has made unusable is computed again in slices, too; given up in the middle of it. */
static void test_slices_behind(void) {
    static const char *const files[] = { "lfm2-dense", "mamba2-groups-dense", "gemma3-real-dense" };
    size_t i;
    for (i = 0; i < INFER__COUNT(files); i++) {
        infer_model *m = cache_model(files[i]);
        infer_session *s = NULL, *t = NULL, *fresh;
        infer_context *c = m ? slice_context(m, &s, &t) : NULL;
        infer_token ids[80];
        infer_step steps[2];
        infer_error e;
        int32_t k, n, turn, within = 0;
        if (!c) continue;
        for (k = 0; k < 80; k++) ids[k] = (infer_token)(k * 7 % 29 + 1);
        c->plan.keep = 1; /* windows forget soon */
        fresh = cells_session(m, 512, 0, 2);
        CHECK(infer_session_eval(fresh, ids, 26) == INFER_OK);
        for (turn = 0; turn < 2; turn++) {
            CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, 80) == INFER_OK);
            CHECK(infer_session_rewind(s, 25) == INFER_OK && infer_session_rewind(t, 0) == INFER_OK && infer_session_eval(t, ids, 7) == INFER_OK && infer_session_rewind(t, 5) == INFER_OK);
            steps[0] = slice_step(s, ids + 25, 1);
            steps[1] = slice_step(t, ids + 5, 21);
            for (n = 0; n < 3 && turn == 0 && infer_eval_slice(c, steps, 2, 0, &e) == INFER_MORE; n++) within += c->cursor.behind < 2;
            if (turn == 0) CHECK(infer_eval_slice(c, NULL, 0, 0, &e) == INFER_OK && infer_session_position(s) == 25 && infer_session_position(t) == 5);
            CHECK(slice_all(c, steps, 2, &n, &e) == INFER_OK && infer_session_position(s) == 26 && infer_session_position(t) == 26);
            CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(fresh, -1), (size_t)m->hp.n_vocab * sizeof(float)) == 0);
            CHECK(memcmp(infer_session_logits(t, -1), infer_session_logits(fresh, -1), (size_t)m->hp.n_vocab * sizeof(float)) == 0);
        }
        CHECK(within > 0 && s->stats.reevaluated > 0);
        infer_session_destroy(fresh);
        infer_session_destroy(s);
        infer_session_destroy(t);
        CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    }
}

/* A queue that is run a layer at a time. */
static void slice_queue(const char *name, queue_out *want, queue_out *got) {
    static const queue_way way = { 3, 16, 0, 4, 1, 0, 0 };
    infer_model *m = cache_model(name);
    infer_queue *q = m ? queue_open(m, &way) : NULL;
    infer_request *r[QUEUE_N];
    infer_sampler *samplers[QUEUE_N];
    infer_queue_stats stats;
    infer_error e;
    infer_token ids[256];
    int32_t k, slices = 0;
    if (!q) return;
    for (k = 0; k < QUEUE_N; k++) queue_alone(m, k, 90, NULL, &want[k]);
    for (k = 0; k < QUEUE_N; k++) {
        infer_request_params p;
        memset(&p, 0, sizeof p);
        p.tokens = ids;
        p.n_tokens = queue_prompt(ids, k, 90);
        p.sampler = samplers[k] = queue_sampler(m, k);
        p.generate = queue_generate(k, 1, &got[k]);
        CHECK(infer_queue_submit(q, &p, &r[k], &e) == INFER_OK);
    }
    check_detail = name;
    CHECK(infer__claim(&q->calls));
    while (infer__queue_round(q, 1e-9)) slices++;
    infer__unclaim(&q->calls);
    CHECK(infer_queue_step(q, 1) == INFER_OK);
    CHECK(infer_queue_get_stats(q, &stats) == INFER_OK && slices > (m->hp.n_layer - 1) * (int32_t)stats.passes);
    CHECK(stats.reused >= 90 * (QUEUE_N - 1));
    for (k = 0; k < QUEUE_N; k++) {
        CHECK(infer_request_wait(r[k]) == INFER_OK);
        got[k].reason = INFER_STOP_LIMIT;
        CHECK(memcmp(&got[k], &want[k], sizeof *got) == 0);
        infer_request_close(r[k]);
        infer_sampler_destroy(samplers[k]);
    }
    CHECK(infer_queue_destroy(q) == INFER_OK && infer_model_close(m) == INFER_OK);
}

static void test_slices_queue(void) {
    queue_out *want = (queue_out *)calloc(QUEUE_N, sizeof *want), *got = (queue_out *)calloc(QUEUE_N, sizeof *got);
    size_t i;
    for (i = 0; i < INFER__COUNT(queue_files); i += (size_t)check_every(3)) slice_queue(queue_files[i], want, got);
    free(want);
    free(got);
}

static void suite_slices(void) {
    RUN(test_slices_same);
    RUN(test_slices_head);
    RUN(test_slices_rows);
    RUN(test_slices_behind);
    RUN(test_slices_ends);
    RUN(test_slices_queue);
}
