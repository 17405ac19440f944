/* test_interplay.c: what has tests of its own elsewhere, at the same time: weights that leave while texts come piece by piece, records
 * of sessions whose adapters change, slices and guidance, queues whose callbacks use them, merging while others want the
 * model, fork() amid jobs. */

/* ---- weights that leave ---------------------------------------------------------------------------------------------- */

static int interplay_offload_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    infer_error e;
    (void)token; (void)logprob; (void)top; (void)n_top;
    CHECK(infer_model_offload((infer_model *)user, &e) == INFER_ERR_STATE);
    CHECK_HAS(e.message, "another call uses the weights");
    return 0;
}

/* Between two calls a generation waits for weights that have left; within one, and amid an eval, they stay. */
static void test_interplay_generation_offloaded(void) {
    enum { N = 10 };
    static const int budgets[] = { 0, 50, -1 };
    release_file file;
    infer_model *m = release_open("llama-dense", 1, &file);
    infer_session *s = m ? release_session(m) : NULL, *t = m ? release_session(m) : NULL;
    infer_generation *x = NULL;
    infer_generate_params p;
    infer_generate_info info;
    infer_token ids[4], want[4 + N];
    infer_error e;
    infer_result r;
    const char *text;
    size_t n, k;
    int left = 0, stayed = 0;
    if (!s || !t) { CHECK(0); return; }
    cache_ids(ids, 4, 5, 128);
    memset(&p, 0, sizeof p);
    p.max_tokens = N;
    p.ignore_end = 1;
    CHECK(infer_session_eval(t, ids, 4) == INFER_OK && infer_generate(t, NULL, NULL, &p, NULL) == INFER_OK);
    memcpy(want, infer_session_tokens(t), sizeof want);
    p.token = interplay_offload_token;
    p.user = m;
    for (k = 0; k < INFER__COUNT(budgets); k++) {
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, 4) == INFER_OK);
        CHECK(infer_generation_begin(&x, s, NULL, NULL, &p, &e) == INFER_OK);
        do {
            r = infer_model_offload(m, &e);
            CHECK((r == INFER_ERR_STATE) == (s->paused != 0));
            if (r == INFER_OK) {
                const int32_t at = infer_session_position(s);
                CHECK(infer_generation_next(x, budgets[k], &text, &n) == INFER_ERR_STATE && n == 0);
                CHECK_HAS(infer_session_error(s)->message, "offloaded");
                CHECK(infer_session_position(s) == at && infer_model_reload(m, &e) == INFER_OK);
                left++;
            } else stayed++;
        } while ((r = infer_generation_next(x, budgets[k], &text, &n)) == INFER_MORE);
        CHECK(r == INFER_OK && infer_generation_info(x, &info) == INFER_OK && info.new_tokens == N);
        CHECK(infer_model_offload(m, &e) == INFER_OK);
        CHECK(infer_generation_next(x, 0, &text, &n) == INFER_OK); /* it has ended, and says so again */
        CHECK(infer_generation_end(x) == INFER_OK && infer_model_reload(m, &e) == INFER_OK);
        CHECK(infer_session_position(s) == 4 + N && memcmp(infer_session_tokens(s), want, sizeof want) == 0);
    }
    CHECK(left > 4 && stayed > 4);
    CHECK(infer_session_rewind(s, 4) == INFER_OK && infer_session_eval(s, want + 4, 1) == INFER_OK);
    CHECK(infer_generation_begin(&x, s, NULL, NULL, &p, &e) == INFER_OK && infer_model_offload(m, &e) == INFER_OK);
    CHECK(infer_generation_end(x) == INFER_OK && infer_session_position(s) == 5); /* given up while they are away */
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
}

static int interplay_offload_each(void *user, int32_t text, const float *v, int32_t rows, int32_t width, const infer_error *error) {
    (void)text; (void)rows;
    CHECK(v && width > 0 && error->code == INFER_OK);
    return interplay_offload_token(user, 0, 0, NULL, 0);
}

/* The same of a job of texts; and while it is open its context is in use. */
static void test_interplay_embedding(void) {
    enum { N = 6 };
    infer_model *m = embed_open("bert-mean");
    infer_context *c = m ? embed_context(m, 1, 16, 64) : NULL;
    infer_session *s = NULL, *u = NULL;
    infer_embedding *x = NULL, *y = NULL;
    infer_embed_params p;
    infer_token ids[N][5];
    const infer_token *list[N];
    size_t lengths[N];
    float *want, *got;
    infer_error e;
    infer_result r;
    int32_t i, width, left = 0, stayed = 0;
    if (!c) { CHECK(0); return; }
    memset(&p, 0, sizeof p);
    width = infer_embed_width(m, &p);
    want = (float *)calloc((size_t)(N * width), sizeof *want);
    got = (float *)calloc((size_t)(N * width), sizeof *got);
    for (i = 0; i < N; i++) {
        cache_ids(ids[i], 5, (uint32_t)(3 + i), m->hp.n_vocab);
        list[i] = ids[i];
        lengths[i] = 5;
    }
    p.ids = list;
    p.n_ids = lengths;
    CHECK(infer_session_create_in(&s, c, NULL, &e) == INFER_OK);
    CHECK(infer_embed(c, NULL, N, &p, want, &e) == INFER_OK);
    p.each = interplay_offload_each;
    p.user = m;
    CHECK(infer_embed_begin(&x, c, NULL, N, &p, got, &e) == INFER_OK);
    do {
        CHECK(infer_session_eval(s, ids[0], 2) == INFER_ERR_STATE);
        CHECK(infer_session_create_in(&u, c, NULL, &e) == INFER_ERR_STATE && infer_embed(c, NULL, N, &p, got, &e) == INFER_ERR_STATE);
        CHECK(infer_embed_begin(&y, c, NULL, N, &p, got, &e) == INFER_ERR_STATE && !y && !u);
        r = infer_model_offload(m, &e);
        if (r == INFER_OK) {
            CHECK(infer_embed_step(x, 0, &e) == INFER_ERR_STATE);
            CHECK_HAS(e.message, "offloaded");
            CHECK(infer_model_reload(m, &e) == INFER_OK);
            left++;
        } else {
            CHECK(r == INFER_ERR_STATE && x->e.evaluating);
            stayed++;
        }
    } while ((r = infer_embed_step(x, 0, &e)) == INFER_MORE);
    CHECK(r == INFER_OK && left > N && stayed > 0 && memcmp(want, got, (size_t)(N * width) * sizeof *got) == 0);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_context_destroy(c) == INFER_OK); /* it has ended, and is open yet */
    CHECK(infer_model_close(m) == INFER_OK && infer_embed_step(x, 0, &e) == INFER_OK && infer_embed_end(x) == INFER_OK);
    free(want);
    free(got);
}

/* ---- records of sessions ----------------------------------------------------------------------------------------------- */

/* As inc_session, in a context where other sessions have each of the sets: those of a saved session have to be there. */
static infer_session *interplay_session(infer_model *m, const infer_adapter_use *use, infer_session **keep) {
    infer_context_params p;
    infer_session_params sp;
    infer_context *c = NULL;
    infer_session *s = NULL;
    infer_error e;
    int i;
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    p.cells = 2 * INC_CONTEXT;
    p.threads = 1;
    p.batch = 32;
    p.keep = 2;
    p.snapshot_every = 16;
    p.sessions = 4;
    sp.context = INC_CONTEXT;
    if (infer_context_create(&c, m, &p, &e)) { check_note(__FILE__, __LINE__, e.message); return NULL; }
    CHECK(infer_session_create_in(&s, c, &sp, &e) == INFER_OK);
    sp.context = 8;
    for (i = 0; i < 3; i++) {
        CHECK(infer_session_create_in(&keep[i], c, &sp, &e) == INFER_OK);
        CHECK(infer_session_set_adapters(keep[i], use + (i == 2), 1 + (i == 1)) == INFER_OK); /* the first, both, the second */
    }
    return s;
}
static void interplay_session_end(infer_session *s, infer_session **keep) {
    infer_context *c = s->context;
    int i;
    for (i = 0; i < 3; i++) CHECK(infer_session_destroy(keep[i]) == INFER_OK);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_context_destroy(c) == INFER_OK);
}

/* Adapters come and go, with rewinds over where they changed; a record in between whenever the last eval was cut. */
static void test_interplay_increments_adapters(void) {
    static const char *const files[] = { "llama-dense", "gemma3-real-dense", "lfm2-dense" };
    size_t f;
    for (f = 0; f < INFER__COUNT(files); f++) {
        infer_model *m = cache_model(files[f]);
        infer_adapter *a = m ? adapter_of(m, "attn", 1) : NULL, *b = m ? adapter_of(m, "ffn", 2) : NULL;
        infer_session *s, *t, *keep[6];
        infer_adapter_use use[2];
        int32_t most = 0;
        infer_session_mark mark, got;
        infer_token ids[40];
        state_bytes bytes;
        infer_error e;
        uint32_t seed = 5;
        int i, k;
        check_detail = files[f];
        if (!a || !b) { CHECK(0); return; }
        memset(use, 0, sizeof use);
        memset(&mark, 0, sizeof mark);
        memset(&bytes, 0, sizeof bytes);
        use[0].adapter = a;
        use[1].adapter = b;
        use[0].scale = use[1].scale = 0.5f;
        s = interplay_session(m, use, keep);
        t = interplay_session(m, use, keep + 3);
        for (i = 0; i < 60 && check_bad < 5; i++) {
            infer_result r;
            infer_step st;
            int32_t at = infer_session_position(s), n, dropped = 0;
            seed = seed * 1664525u + 1013904223u;
            n = 1 + (int32_t)(seed >> 20) % 20;
            cache_ids(ids, 40, seed >> 9, m->hp.n_vocab);
            k = (int)(seed >> 27) % 4; /* none, the first, both, the second */
            CHECK(infer_session_set_adapters(s, use + (k == 3), k == 3 ? 1 : k) == INFER_OK);
            if ((seed >> 24) % 3 == 0) CHECK(infer_session_rewind(s, at - INFER__MIN(at, n + 9)) == INFER_OK);
            if (infer_session_position(s) + n > INC_CONTEXT) CHECK(infer_session_rewind(s, 30) == INFER_OK);
            st = slice_step(s, ids, n);
            r = infer_eval_slice(s->context, &st, 1, 0, &e);
            CHECK(r == INFER_MORE || r == INFER_OK);
            if (r == INFER_MORE) { /* a session that is amid an eval is not saved, nor loaded */
                got = mark;
                CHECK(infer_session_save_more(s, &mark, state_write, &bytes) == INFER_ERR_STATE);
                CHECK(infer_session_load_more(s, &got, state_read, &bytes) == INFER_ERR_STATE);
                CHECK(bytes.n == mark.bytes && got.bytes == mark.bytes);
                dropped = i % 4 == 3; /* given up: as if it had never begun */
                if (dropped) CHECK(infer_eval_slice(s->context, NULL, 0, 0, &e) == INFER_OK);
                else while (r == INFER_MORE) r = infer_eval_slice(s->context, &st, 1, 0, &e);
            }
            if ((seed >> 14) % 4 == 0) continue; /* several steps in one record */
            CHECK(infer_session_save_more(s, &mark, state_write, &bytes) == INFER_OK && mark.bytes == bytes.n);
            CHECK(infer_session_set_adapters(t, NULL, 0) == INFER_OK);
            CHECK(inc_load(t, &got, &bytes, bytes.n) == INFER_OK && got.left == 0);
            most = INFER__MAX(most, s->n_adapted);
            CHECK(s->n == t->n && s->n_adapted == t->n_adapted && memcmp(s->tokens, t->tokens, (size_t)s->n * sizeof *s->tokens) == 0);
            if (!dropped) CHECK(inc_same(s, t)); /* an eval that was given up may have let go pages behind the window */
        }
        /* what is behind a load goes on with the same bits */
        CHECK(infer_session_save_more(s, &mark, state_write, &bytes) == INFER_OK && inc_load(t, &got, &bytes, bytes.n) == INFER_OK);
        CHECK(infer_session_set_adapters(s, use, 2) == INFER_OK && infer_session_set_adapters(t, use, 2) == INFER_OK);
        CHECK(infer_session_rewind(s, infer_session_position(s) / 2) == INFER_OK && infer_session_rewind(t, infer_session_position(t) / 2) == INFER_OK);
        CHECK(infer_session_eval(s, ids, 7) == INFER_OK && infer_session_eval(t, ids, 7) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), (size_t)m->hp.n_vocab * sizeof(float)) == 0 && inc_same(s, t));
        CHECK(most > 3);
        interplay_session_end(s, keep);
        interplay_session_end(t, keep + 3);
        CHECK(infer_adapter_close(a) == INFER_OK && infer_adapter_close(b) == INFER_OK && infer_model_close(m) == INFER_OK);
        free(bytes.p);
    }
}

/* ---- the best of n ----------------------------------------------------------------------------------------------------- */

/* A session that another generation uses, as itself or as its negative prompt, gives no replies. */
static void test_interplay_best_guided(void) {
    infer_model *m = generate_model(NULL);
    guide_pair g;
    infer_sampler *samplers[2] = { NULL, NULL };
    infer_generation *x = NULL;
    infer_generate_params p;
    infer_best *best = NULL;
    infer_error e;
    guide_open(&g, m, 0);
    guide_hold(g.neg, "The dog was sad");
    memset(&p, 0, sizeof p);
    p.max_tokens = 6;
    p.ignore_end = 1;
    p.negative = g.neg;
    CHECK(infer_generate_best(g.pos, samplers, 2, "Once", &p, &best) == INFER_ERR_UNSUPPORTED && !best);
    CHECK(infer_session_position(g.pos) == 0);
    CHECK(infer_generation_begin(&x, g.pos, NULL, "Once upon a time", &p, &e) == INFER_OK);
    CHECK(infer_generation_next(x, -1, NULL, NULL) == INFER_MORE);
    p.negative = NULL;
    CHECK(infer_generate_best(g.pos, samplers, 2, "Once", &p, &best) == INFER_ERR_STATE && !best);
    CHECK(infer_generate_best(g.neg, samplers, 2, "Once", &p, &best) == INFER_ERR_STATE && !best);
    CHECK(infer_session_score(g.neg, infer_session_tokens(g.pos), 2, 0, NULL, NULL) == INFER_ERR_STATE);
    while (infer_generation_next(x, 0, NULL, NULL) == INFER_MORE) {}
    CHECK(infer_generation_end(x) == INFER_OK);
    CHECK(infer_generate_best(g.neg, samplers, 2, " One", &p, &best) == INFER_OK && best && best->n == 2);
    infer_best_free(best);
    guide_close(&g);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* max_memory is used up somewhere on the way: an error, the session as it was or with the prompt, and the same again later. */
static void test_interplay_best_limit(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 64), *t = generate_session(m, 64);
    infer_sampler *samplers[4] = { NULL, NULL, NULL, NULL };
    infer_generate_params p;
    infer_best *best = NULL, *want = NULL;
    uint64_t room;
    int failed = 0, ended = 0;
    memset(&p, 0, sizeof p);
    p.max_tokens = 20;
    p.ignore_end = 1;
    CHECK(infer_generate_best(t, samplers, 4, "Once upon a time", &p, &want) == INFER_OK);
    CHECK(infer_session_eval(s, infer_session_tokens(t), 1) == INFER_OK && infer_session_rewind(s, 0) == INFER_OK);
    for (room = 0; room < 1 << 20 && !ended; room = room < 4096 ? room + 256 : room * 5 / 4) {
        const int64_t used = infer__atomic_get(&m->mem.used);
        infer_result r;
        int32_t n;
        m->mem.limit = (uint64_t)used + room; /* as max_memory sets it */
        r = infer_generate_best(s, samplers, 4, "Once upon a time", &p, &best);
        m->mem.limit = 0;
        n = infer_session_position(s);
        CHECK((r == INFER_OK) == (best != NULL) && (r == INFER_OK || r == INFER_ERR_MEMORY));
        if (r == INFER_OK) {
            ended = best->n == 4 && best->replies[0].n_tokens == 20;
            CHECK(n == infer_session_position(t) && memcmp(infer_session_tokens(s), infer_session_tokens(t), (size_t)n * sizeof(infer_token)) == 0);
            CHECK_STR(best->replies[best->best].text, want->replies[want->best].text);
        } else {
            failed++;
            CHECK(infer_session_error(s)->message[0] && (n == 0 || n == infer_session_position(t) - 20));
        }
        infer_best_free(best);
        best = NULL;
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
    }
    CHECK(failed > 5 && ended);
    infer_best_free(want);
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- queues ------------------------------------------------------------------------------------------------------------ */

typedef struct interplay_queue {
    infer_queue *q;
    infer_request *own, *other, *more[8];
    int calls, n_more, cancel_own;
} interplay_queue;

/* A full session asks: the function submits to its own queue, cancels, and is refused whatever would wait. */
static int32_t interplay_full(void *user, const infer_token *tokens, int32_t n, infer_token *keep, int32_t most) {
    interplay_queue *w = (interplay_queue *)user;
    infer_request_params rp;
    infer_request_info info;
    infer_queue_stats stats;
    infer_error e;
    memset(&rp, 0, sizeof rp);
    rp.tokens = tokens;
    rp.n_tokens = 4;
    rp.generate.max_tokens = 5;
    rp.generate.ignore_end = 1;
    if (w->n_more < 8) CHECK(infer_queue_submit(w->q, &rp, &w->more[w->n_more++], &e) == INFER_OK);
    CHECK(infer_queue_submit(w->q, &rp, NULL, &e) == INFER_OK);
    CHECK(infer_queue_step(w->q, 0) == INFER_ERR_STATE);
    CHECK(infer_request_wait(w->own) == INFER_ERR_STATE);
    CHECK(infer_request_get_info(w->own, &info) == INFER_OK && info.state == INFER_REQUEST_RUNS);
    CHECK(infer_queue_get_stats(w->q, &stats) == INFER_OK && stats.waiting > 0);
    if (w->calls == 1) infer_request_cancel(w->other);
    if (w->calls == 2) {
        infer_request_close(w->other);
        w->other = NULL;
    }
    if (w->calls++ == 3 && w->cancel_own) infer_request_cancel(w->own);
    CHECK(n > most && most > 3);
    memcpy(keep, tokens, 4 * sizeof *keep);
    return 4;
}

static void test_interplay_queue_full(void) {
    int way;
    for (way = 0; way < 4; way++) { /* with a thread of its own; cancelled by itself */
        queue_way qw = { 3, 0, 0, 0, 0, 0, 32 };
        infer_model *m = cache_model("llama-dense");
        interplay_queue w;
        infer_request_params rp;
        infer_request_info info;
        infer_token ids[6];
        infer_error e;
        int i;
        memset(&w, 0, sizeof w);
        memset(&rp, 0, sizeof rp);
        qw.thread = way & 1;
        w.cancel_own = way >> 1;
        cache_ids(ids, 6, 3, 100);
        w.q = queue_open(m, &qw);
        rp.tokens = ids;
        rp.n_tokens = 6;
        rp.generate.max_tokens = 200;
        rp.generate.ignore_end = 1;
        rp.generate.on_full = INFER_FULL_SLIDE;
        CHECK(infer_queue_submit(w.q, &rp, &w.other, &e) == INFER_OK); /* it would run long */
        rp.generate.on_full = INFER_FULL_ASK;
        rp.generate.full = interplay_full;
        rp.generate.user = &w;
        rp.generate.max_tokens = 150;
        CHECK(infer_queue_submit(w.q, &rp, &w.own, &e) == INFER_OK);
        CHECK(infer_request_wait(w.own) == (w.cancel_own ? INFER_CANCELLED : INFER_OK));
        CHECK(infer_request_get_info(w.own, &info) == INFER_OK && (w.cancel_own ? info.generate.new_tokens < 150 : info.generate.new_tokens == 150));
        CHECK(info.generate.stop_reason == (w.cancel_own ? INFER_STOP_CANCELLED : INFER_STOP_LIMIT) && w.calls > 3);
        for (i = 0; i < w.n_more; i++) {
            CHECK(infer_request_wait(w.more[i]) == INFER_OK && infer_request_get_info(w.more[i], &info) == INFER_OK);
            CHECK(info.generate.new_tokens == 5);
            infer_request_close(w.more[i]);
        }
        CHECK(w.n_more > 3 && w.other == NULL);
        infer_request_close(w.own);
        CHECK(infer_queue_destroy(w.q) == INFER_OK && infer_model_close(m) == INFER_OK);
    }
}

/* ---- merging ----------------------------------------------------------------------------------------------------------- */

typedef struct interplay_merge {
    infer_model *m;
    infer_adapter *a;
    int on, merges, tries;
} interplay_merge;
static interplay_merge *interplay_now;

static void interplay_while_merging(void) {
    interplay_merge *w = interplay_now;
    infer_adapter_use use;
    infer_session *s = NULL;
    infer_context *c = NULL;
    infer_queue *q = NULL;
    float row[128];
    infer_error e;
    if (!w || !w->on) return;
    w->on = 0; /* its own calls have callbacks, too */
    w->tries++;
    memset(&use, 0, sizeof use);
    use.adapter = w->a;
    use.scale = 1;
    CHECK(infer_session_create(&s, w->m, NULL, &e) == INFER_ERR_STATE && !s);
    CHECK_HAS(e.message, "changes the model's weights");
    CHECK(infer_context_create(&c, w->m, NULL, &e) == INFER_ERR_STATE && !c);
    CHECK(infer_queue_create(&q, w->m, NULL, &e) == INFER_ERR_STATE && !q);
    CHECK(infer_tensor_read(w->m, "token_embd.weight", 0, 1, row, &e) == INFER_ERR_STATE);
    CHECK(infer_model_offload(w->m, &e) == INFER_ERR_STATE);
    CHECK(infer_model_merge(w->m, &use, 1, NULL, &e) == INFER_ERR_STATE && infer_model_unmerge(w->m, &e) == INFER_ERR_STATE);
    w->on = 1;
}
static void *interplay_alloc(void *user, size_t size, size_t align) {
    interplay_while_merging();
    return check_alloc(user, size, align);
}
static void interplay_free(void *user, void *p, size_t size) {
    interplay_while_merging();
    check_free(user, p, size);
}
static void interplay_parallel(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    int i;
    (void)user;
    for (i = 0; i < n; i++) task(arg, i);
    interplay_while_merging();
}

/* While weights are made others neither begin with them nor close what they are made of; a merged model has queues, and stays
 * merged as long as there is one. */
static void test_interplay_merge(void) {
    static const queue_way way = { 2, 0, 0, 0, 0, 0, 64 };
    infer_model_params mp;
    interplay_merge w;
    infer_adapter_use use;
    infer_session *s = NULL;
    infer_queue *q;
    infer_request_params rp;
    infer_request *r = NULL;
    infer_token ids[5];
    infer_error e;
    memset(&mp, 0, sizeof mp);
    memset(&w, 0, sizeof w);
    memset(&use, 0, sizeof use);
    memset(&rp, 0, sizeof rp);
    check_fail_at = check_live = 0;
    interplay_now = NULL;
    mp.backend = INFER_CPU;
    mp.allocator.alloc = interplay_alloc;
    mp.allocator.free = interplay_free;
    mp.parallel = interplay_parallel;
    if (infer_model_open(&w.m, check_data("archs/llama-dense.gguf"), &mp, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    w.a = adapter_of(w.m, "attn", 1);
    use.adapter = w.a;
    use.scale = 1;
    cache_ids(ids, 5, 3, w.m->hp.n_vocab);
    interplay_now = &w;
    w.on = w.merges = 1;
    CHECK(infer_model_merge(w.m, &use, 1, "F32", &e) == INFER_OK && w.tries > 10);
    w.on = w.merges = w.tries = 0;
    q = queue_open(w.m, &way);
    rp.tokens = ids;
    rp.n_tokens = 5;
    rp.generate.max_tokens = 6;
    rp.generate.ignore_end = 1;
    CHECK(q && infer_queue_submit(q, &rp, &r, &e) == INFER_OK);
    CHECK(infer_model_unmerge(w.m, &e) == INFER_ERR_STATE);
    CHECK_HAS(e.message, "used by");
    CHECK(infer_model_merge(w.m, &use, 1, NULL, &e) == INFER_ERR_STATE && infer_model_offload(w.m, &e) == INFER_ERR_STATE);
    CHECK(infer_request_wait(r) == INFER_OK && infer_model_unmerge(w.m, &e) == INFER_ERR_STATE);
    infer_request_close(r);
    CHECK(infer_queue_destroy(q) == INFER_OK);
    w.on = 1;
    CHECK(infer_model_unmerge(w.m, &e) == INFER_OK && w.tries > 0 && !w.m->merged);
    w.on = 0;
    interplay_now = NULL;
    CHECK(infer_session_create(&s, w.m, NULL, &e) == INFER_OK && infer_session_eval(s, ids, 5) == INFER_OK); /* all is free again */
    CHECK(infer_session_destroy(s) == INFER_OK && infer_adapter_close(w.a) == INFER_OK);
    CHECK(infer_model_close(w.m) == INFER_OK && check_live == 0);
}

/* ---- guidance in two contexts -------------------------------------------------------------------------------------------- */

typedef struct interplay_guide { infer_generation *x; int tries; } interplay_guide;
static int interplay_guide_progress(void *user, float done) {
    interplay_guide *w = (interplay_guide *)user;
    (void)done;
    if (w->tries++ == 0) CHECK(infer_generation_end(w->x) == INFER_ERR_STATE && infer_generation_next(w->x, 0, NULL, NULL) == INFER_ERR_STATE);
    return 0;
}

/* A token that only the session of the negative prompt has is taken back at the end: not while that one's context is in use. */
static void test_interplay_guide_end(void) {
    infer_model *m = generate_model(NULL);
    guide_pair g;
    infer_generate_params p;
    infer_session_params sp;
    infer_session *beside = NULL;
    infer_context *c;
    interplay_guide w;
    infer_generate_info info;
    infer_error e;
    int32_t pos, neg, i;
    guide_open(&g, m, 1);
    guide_hold(g.neg, "The dog was sad");
    guide_hold(g.pos, "Once upon a time");
    pos = infer_session_position(g.pos);
    neg = infer_session_position(g.neg);
    memset(&w, 0, sizeof w);
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    p.max_tokens = 6;
    p.negative = g.neg;
    c = g.neg->context;
    sp.context = 8;
    sp.progress = interplay_guide_progress;
    sp.progress_user = &w;
    CHECK(infer_session_create_in(&beside, c, &sp, &e) == INFER_OK);
    CHECK(infer_generation_begin(&w.x, g.pos, NULL, NULL, &p, &e) == INFER_OK);
    for (i = 0; i < 200 && !(w.x->g.guide.ahead && g.pos->paused); i++) CHECK(infer_generation_next(w.x, 0, NULL, NULL) == INFER_MORE);
    CHECK(i < 200 && infer_session_eval(beside, infer_session_tokens(g.pos), 3) == INFER_OK && w.tries > 0);
    CHECK(infer_generation_info(w.x, &info) == INFER_OK && infer_generation_end(w.x) == INFER_OK);
    CHECK(infer_session_position(g.pos) == pos + info.new_tokens && infer_session_position(g.neg) == neg + info.new_tokens);
    infer_session_destroy(beside);
    guide_close(&g);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- fork() -------------------------------------------------------------------------------------------------------------- */

#if defined(HOST_THREADS) && !defined(HOST_TSAN)
/* In the child what is open can only be given back. */
static int interplay_child(infer_model *m, infer_session *s, infer_session *t, infer_context *c, infer_generation *x, infer_generation *y,
                           infer_embedding *job) {
    infer_error e;
    const char *text;
    size_t n;
    if (infer_generation_next(x, 0, &text, &n) != INFER_ERR_STATE || n) return 1;
    if (!strstr(infer_session_error(s)->message, "fork")) return 2;
    if (infer_generation_next(y, -1, &text, &n) != INFER_ERR_STATE || !strstr(infer_session_error(t)->message, "fork")) return 3;
    if (infer_embed_step(job, 0, &e) != INFER_ERR_STATE || !strstr(e.message, "fork")) return 4;
    if (infer_generation_end(x) != INFER_OK || infer_generation_end(y) != INFER_OK || infer_embed_end(job) != INFER_OK) return 5;
    if (infer_session_eval(s, infer_session_tokens(t), 1) != INFER_ERR_STATE) return 6;
    if (infer_session_destroy(s) != INFER_OK || infer_session_destroy(t) != INFER_OK || infer_context_destroy(c) != INFER_OK) return 7;
    if (infer_model_offload(m, &e) != INFER_OK || infer_model_reload(m, &e) != INFER_OK) return 8; /* nobody reads them here */
    return infer_model_close(m) == INFER_OK ? 0 : 9;
}

static void test_interplay_fork(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generation_session(m, 128), *t = generation_session(m, 128);
    infer_context *c = embed_context(m, 2, 16, 64);
    infer_generation *x = NULL, *y = NULL;
    infer_embedding *job = NULL;
    static const char *const texts[] = { "One day a dog ran", "The cat was big and red" };
    infer_generate_params p;
    infer_generate_info info;
    infer_embed_params ep;
    infer_error e;
    float *vectors;
    pid_t child;
    int status = -1, i;
    memset(&p, 0, sizeof p);
    memset(&ep, 0, sizeof ep);
    p.max_tokens = 12;
    p.ignore_end = 1;
    vectors = (float *)calloc((size_t)(2 * infer_embed_width(m, &ep)), sizeof *vectors);
    CHECK(infer_generation_begin(&x, s, NULL, "Once upon a time", &p, &e) == INFER_OK); /* amid an eval */
    CHECK(infer_generation_begin(&y, t, NULL, "One day", &p, &e) == INFER_OK);          /* between two */
    CHECK(infer_embed_begin(&job, c, texts, 2, &ep, vectors, &e) == INFER_OK);
    for (i = 0; i < 100 && !s->paused; i++) CHECK(infer_generation_next(x, 0, NULL, NULL) == INFER_MORE);
    CHECK(infer_generation_next(y, -1, NULL, NULL) == INFER_MORE && !t->paused);
    for (i = 0; i < 100 && !job->e.evaluating; i++) CHECK(infer_embed_step(job, 0, &e) == INFER_MORE);
    CHECK(s->paused && job->e.evaluating);
    child = fork();
    if (child == 0) {
        alarm(60);
        _exit(interplay_child(m, s, t, c, x, y, job));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        char text[80];
        snprintf(text, sizeof text, "the child ended with status %d", status);
        check_note(__FILE__, __LINE__, text);
    }
    while (infer_generation_next(x, 0, NULL, NULL) == INFER_MORE) {} /* the parent goes on */
    while (infer_generation_next(y, 0, NULL, NULL) == INFER_MORE) {}
    CHECK(infer_embed_step(job, -1, &e) == INFER_OK);
    CHECK(infer_generation_info(x, &info) == INFER_OK && info.new_tokens == 12 && infer_generation_info(y, &info) == INFER_OK && info.new_tokens == 12);
    CHECK(infer_generation_end(x) == INFER_OK && infer_generation_end(y) == INFER_OK && infer_embed_end(job) == INFER_OK);
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(vectors);
}
#endif

static void suite_interplay(void) {
    RUN(test_interplay_generation_offloaded);
    RUN(test_interplay_embedding);
    RUN(test_interplay_increments_adapters);
    RUN(test_interplay_best_guided);
    RUN(test_interplay_best_limit);
    RUN(test_interplay_queue_full);
    RUN(test_interplay_merge);
    RUN(test_interplay_guide_end);
#if defined(HOST_THREADS) && !defined(HOST_TSAN)
    if (!getenv("CHECK_EMULATED")) RUN(test_interplay_fork);
#endif
}
