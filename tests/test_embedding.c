/* test_embedding.c: vectors and scores of texts in slices: the bits of infer_embed for every kind of model, windows, texts that
 * fail; given up after every slice; what is refused meanwhile; no memory. */

/* Slices to the end; gives how many said that there is more. */
static int32_t embedding_all(infer_embedding *x, int32_t budget, infer_result want) {
    infer_error e;
    infer_result r;
    int32_t n = 0;
    while ((r = infer_embed_step(x, budget, &e)) == INFER_MORE) n++;
    if (r != want) check_note(__FILE__, __LINE__, e.message);
    CHECK(r == want && e.code == want && infer_embed_step(x, budget, &e) == want && e.code == want); /* again */
    CHECK(infer_embed_end(x) == INFER_OK);
    return n;
}

/* Vectors of all files; texts that do not fit are an error each, or windows. */
static void test_embedding_same(void) {
    static embed_texts t;
    static const infer_token outside[] = { 1 << 28 };
    size_t i;
    int32_t width, texts = 24, how, seen = 0;
    for (i = 0; i < INFER__COUNT(EMBED_FILES); i += (size_t)check_every(4)) {
        infer_model *m = embed_open(EMBED_FILES[i]);
        infer_context *c;
        if (!m) continue;
        seen++;
        c = embed_context(m, 2, 96, 0);
        embed_texts_make(&t, m->hp.n_vocab, m->hp.n_ctx < 128 ? m->hp.n_ctx : 128);
        width = infer_embed_width(m, NULL);
        for (how = INFER_LONG_ERROR; how <= INFER_LONG_WINDOWS && c; how++) {
            infer_embed_params p;
            infer_embedding *x = NULL;
            infer_error e;
            infer_result results[2][EMBED_TEXTS];
            float *whole = (float *)calloc((size_t)(width * texts), sizeof *whole), *cut = (float *)calloc((size_t)(width * texts), sizeof *cut);
            int32_t n;
            if (how == INFER_LONG_WINDOWS && infer__pool_default(m) == INFER_POOL_RANK) how = INFER_LONG_CUT;
            memset(&p, 0, sizeof p);
            p.ids = t.at;
            p.n_ids = t.n;
            p.long_texts = how;
            p.results = results[0];
            t.at[7] = outside;
            t.n[7] = 1;
            CHECK(infer_embed(c, NULL, texts, &p, whole, &e) == INFER_OK);
            p.results = results[1];
            CHECK(infer_embed_begin(&x, c, NULL, texts, &p, cut, &e) == INFER_OK);
            memset(&p, 0, sizeof p); /* it is copied */
            n = x ? embedding_all(x, 0, INFER_OK) : 0;
            CHECK(n > texts + m->hp.n_layer - 1); /* a text, or a layer, at a time */
            CHECK(memcmp(whole, cut, (size_t)(width * texts) * sizeof *whole) == 0);
            CHECK(memcmp(results[0], results[1], (size_t)texts * sizeof **results) == 0 && results[0][7] == INFER_ERR_ARGUMENT);
            free(whole);
            free(cut);
            if (infer__pool_default(m) == INFER_POOL_RANK && how == INFER_LONG_CUT) break;
        }
        CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
        if (check_bad) return;
    }
    if (!seen) SKIP("needs INFER_TEST_DATA");
    CHECK(check_live == 0);
}

/* Documents and labels. */
static void test_embedding_scores(void) {
    static const char *const documents[] = { "c", "d e", "c d", "e e e" };
    static const char *const files[] = { "bert-rank2", "llama-plain-dense" };
    size_t i;
    for (i = 0; i < 2; i++) {
        char *data = NULL;
        infer_model *m = embed_words(files[i], &data);
        infer_context *c = m ? embed_context(m, 1, 16, 0) : NULL;
        infer_embedding *x = NULL;
        infer_embed_params p;
        infer_error e;
        float want[16], got[16];
        if (!m) SKIP("needs the file");
        memset(&p, 0, sizeof p);
        if (i) p.pair = "[CLS] f {query} g {document} [SEP]";
        memset(want, 0, sizeof want);
        memset(got, 0, sizeof got);
        CHECK(infer_rerank(c, "a b", documents, 4, &p, want, &e) == INFER_OK);
        CHECK(infer_rerank_begin(&x, c, "a b", documents, 4, &p, got, &e) == INFER_OK);
        CHECK(x && embedding_all(x, 0, INFER_OK) > m->hp.n_layer && memcmp(got, want, sizeof want) == 0);
        CHECK(infer_rerank_begin(&x, c, NULL, documents, 4, &p, got, &e) == INFER_ERR_ARGUMENT);
        CHECK(infer_rerank_begin(NULL, c, "a", documents, 4, &p, got, &e) == INFER_ERR_ARGUMENT);
        p.pair = NULL;
        if (i) CHECK(infer_rerank_begin(&x, c, "a b", documents, 4, &p, got, &e) == INFER_ERR_UNSUPPORTED && !x);
        if (i) CHECK(infer_classify_begin(&x, c, documents, 4, &p, got, &e) == INFER_ERR_UNSUPPORTED && !x);
        if (!i) {
            CHECK(infer_classify(c, documents, 4, &p, want, &e) == INFER_OK && infer_classify_begin(&x, c, documents, 4, &p, got, &e) == INFER_OK);
            CHECK(x && embedding_all(x, 0, INFER_OK) > m->hp.n_layer && memcmp(got, want, 12 * sizeof *want) == 0 && fabs(got[0] + got[1] + got[2] - 1) < 1e-5);
        }
        CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
        free(data);
    }
}

typedef struct embedding_meddler { infer_embedding *x; int32_t calls, stop; } embedding_meddler;
static int embedding_meddle(void *user, int32_t text, const float *v, int32_t rows, int32_t width, const infer_error *error) {
    embedding_meddler *k = (embedding_meddler *)user;
    infer_error e;
    (void)v; (void)rows; (void)width; (void)error;
    CHECK(text == k->calls++ && infer_embed_step(k->x, 0, &e) == INFER_ERR_STATE && infer_embed_end(k->x) == INFER_ERR_STATE);
    return k->calls == k->stop;
}

/* Given up after each slice, stopped by a callback, an error in the middle: the context is as it was. */
static void test_embedding_stopped(void) {
    static const char *const files[] = { "bert-mean", "gemma3-real-dense", "mamba2-dense", "t5-dense" };
    static embed_texts t;
    size_t i;
    for (i = 0; i < INFER__COUNT(files); i++) {
        infer_model *m = embed_open(files[i]);
        infer_context *c = m ? embed_context(m, 1, 64, 256) : NULL;
        infer_session *s = NULL;
        infer_embedding *x = NULL;
        infer_embed_params p;
        infer_error e;
        embedding_meddler meddler;
        float *want, *got;
        int32_t width, stop, k, g, free_pages[INFER__CACHE_GROUPS];
        infer_result r = INFER_MORE;
        if (!c) continue;
        width = infer_embed_width(m, NULL);
        want = (float *)calloc((size_t)width * 8, sizeof *want);
        got = (float *)calloc((size_t)width * 8, sizeof *got);
        embed_texts_make(&t, m->hp.n_vocab, 40);
        memset(&p, 0, sizeof p);
        p.ids = t.at;
        p.n_ids = t.n;
        CHECK(infer_embed(c, NULL, 8, &p, want, &e) == INFER_OK);
        for (g = 0; g < INFER__CACHE_GROUPS; g++) free_pages[g] = c->cache.groups[g].n_free;
        for (stop = 0; r == INFER_MORE; stop += check_every(5)) {
            CHECK(infer_embed_begin(&x, c, NULL, 8, &p, got, &e) == INFER_OK);
            for (k = 0, r = INFER_MORE; k < stop && r == INFER_MORE; k++) r = infer_embed_step(x, 0, &e);
            /* meanwhile the context is in use */
            if (r == INFER_MORE) CHECK(infer_session_create_in(&s, c, NULL, &e) == INFER_ERR_STATE && infer_embed(c, NULL, 8, &p, got, &e) == INFER_ERR_STATE);
            CHECK(infer_embed_end(x) == INFER_OK);
            CHECK(c->n_sessions == 0 && !c->resume && !(infer__atomic_get(&c->calls) & 1));
            for (g = 0; g < INFER__CACHE_GROUPS; g++) CHECK(c->cache.groups[g].n_free == free_pages[g]);
        }
        CHECK(stop > m->hp.n_layer && memcmp(want, got, (size_t)(width * 8) * sizeof *want) == 0);
        memset(&meddler, 0, sizeof meddler);
        p.each = embedding_meddle;
        p.user = &meddler;
        meddler.stop = 3;
        CHECK(infer_embed_begin(&x, c, NULL, 8, &p, NULL, &e) == INFER_OK);
        meddler.x = x;
        if (x) embedding_all(x, 1, INFER_CANCELLED);
        CHECK(meddler.calls == 3);
        t.n[5] = 0;
        p.each = NULL;
        CHECK(infer_embed_begin(&x, c, NULL, 8, &p, got, &e) == INFER_OK);
        if (x) embedding_all(x, 0, INFER_ERR_ARGUMENT); /* a text without tokens */
        CHECK(memcmp(want, got, (size_t)(width * 5) * sizeof *want) == 0);
        CHECK(infer_embed_begin(&x, NULL, NULL, 8, &p, got, &e) == INFER_ERR_ARGUMENT && infer_embed_begin(NULL, c, NULL, 8, &p, got, &e) == INFER_ERR_ARGUMENT);
        CHECK(infer_embed_begin(&x, c, NULL, -1, &p, got, &e) == INFER_ERR_ARGUMENT && !x);
        CHECK(infer_embed_step(NULL, 0, &e) == INFER_ERR_ARGUMENT && infer_embed_end(NULL) == INFER_OK);
        CHECK(infer_embed_begin(&x, c, NULL, 0, &p, got, &e) == INFER_OK && infer_embed_step(x, -2, &e) == INFER_ERR_ARGUMENT);
        if (x) embedding_all(x, 0, INFER_OK); /* nothing to do */
        free(want);
        free(got);
        CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK && check_live == 0);
    }
}

/* The n-th allocation fails, in begin or in a slice. */
static void test_embedding_memory(void) {
    infer_model *m = embed_open("bert-rank2");
    infer_context *c = m ? embed_context(m, 1, 16, 0) : NULL;
    infer_token ids[] = { 5, 6, 7, 8, 9, 10, 11, 12 };
    const infer_token *at[] = { ids, ids + 1, ids + 2 };
    size_t n[] = { 4, 5, 6 };
    infer_embed_params p;
    infer_error e;
    float v[3 * 64], w[3 * 64];
    int64_t live;
    int i;
    if (!m) SKIP("needs the file");
    memset(&p, 0, sizeof p);
    p.ids = at;
    p.n_ids = n;
    p.pooling = INFER_POOL_MEAN;
    live = check_live;
    CHECK(infer_embed(c, NULL, 3, &p, w, &e) == INFER_OK && check_live == live);
    for (i = 1; i < 200; i++) {
        infer_embedding *x = NULL;
        infer_result r;
        check_fail_at = check_allocs + i;
        r = infer_embed_begin(&x, c, NULL, 3, &p, v, &e);
        CHECK(!r == !!x);
        while (x && (r = infer_embed_step(x, 0, &e)) == INFER_MORE) {}
        CHECK(e.code == r);
        check_fail_at = 0;
        CHECK(infer_embed_end(x) == INFER_OK && check_live == live);
        if (r == INFER_OK) break;
        CHECK(r == INFER_ERR_MEMORY);
    }
    CHECK(i > 5 && i < 200 && memcmp(v, w, sizeof w) == 0);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK && check_live == 0);
}

static void suite_embedding(void) {
    RUN(test_embedding_same);
    RUN(test_embedding_scores);
    RUN(test_embedding_stopped);
    RUN(test_embedding_memory);
}
