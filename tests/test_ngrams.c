/* test_ngrams.c: embeddings of n-grams: which rows of the table a token has, by all ways to it; saved sessions; positions
 * given as embeddings. */

enum { NGRAM_IDS = 40, NGRAM_VOCAB = 128 };

/* Head h of id i of the text: its n is h / each + 2. An id `end` before it, or the text's beginning, hides what is before. */
static int32_t ngrams_want(const infer__ngrams *g, const infer_token *ids, int32_t i, int32_t h) {
    uint64_t hash = 0;
    int32_t j, n = h / g->each + 2, hidden = 0;
    for (j = 0; j < n; j++) {
        const int32_t id = i - j < 0 || hidden ? g->end : ids[i - j] < 0 ? g->given : ids[i - j];
        hidden |= j > 0 && id == g->end;
        hash ^= (uint64_t)id * g->times[j];
    }
    return g->first[h] + (int32_t)(hash % (uint64_t)g->count[h]);
}

/* Evaluates ids from .. from+n-1, those below 0 (all or none) as embeddings, and looks at the rows of the pass. */
static void ngrams_eval(infer_session *s, const infer_token *ids, int32_t from, int32_t n) {
    const infer__ngrams *g = &s->context->model->hp.ngrams;
    const int32_t width = s->context->model->hp.n_embd;
    float *x = (float *)calloc((size_t)(n * width), sizeof *x);
    infer_step st;
    int32_t i, h;
    memset(&st, 0, sizeof st);
    for (i = 0; i < n * width; i++) x[i] = 0.01f * (float)(i % 17 - 8);
    st.session = s;
    st.n = n;
    st.outputs = INFER_OUT_LAST;
    if (ids[from] < 0) st.embeddings = x;
    else st.tokens = ids + from;
    CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
    for (i = 0; i < n; i++)
        for (h = 0; h < g->heads; h++)
            CHECK(s->context->row_looked[i * g->heads + h] == ngrams_want(g, ids, from + i, h));
    free(x);
}

static void ngrams_ids(infer_token *ids, int32_t end) {
    cache_ids(ids, NGRAM_IDS, 5, NGRAM_VOCAB);
    ids[4] = ids[9] = ids[10] = end; /* ends of texts, one behind the other too */
}

static void test_ngrams_rows(void) {
    infer_model *m = cache_model("qwen4exp-moe");
    infer_session *s = m ? arch_session(m, 1, 0) : NULL, *t = NULL;
    infer_token ids[NGRAM_IDS];
    infer_error e;
    int32_t i;
    if (s) {
        CHECK(m->hp.ngrams.size == 3 && m->hp.ngrams.heads == 4);
        ngrams_ids(ids, m->hp.ngrams.end);
        ngrams_eval(s, ids, 0, NGRAM_IDS);
        CHECK(infer_session_rewind(s, 7) == INFER_OK && infer_session_fork(&t, s, &e) == INFER_OK);
        for (i = 7; i < 20; i++) ngrams_eval(s, ids, i, 1);
        ids[7] = 99; /* the fork goes on otherwise */
        if (t) ngrams_eval(t, ids, 7, 9);
        for (i = 16; i < 19; i++) ids[i] = -1;
        if (t) ngrams_eval(t, ids, 16, 3);
        if (t) ngrams_eval(t, ids, 19, 5);
    }
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* A session saved and loaded goes on with the same bits: rows, what the convolution reads, entries of indexers. */
static void test_ngrams_saved(void) {
    infer_model *m = cache_model("qwen4exp-moe");
    infer_session *s = m ? arch_session(m, 2, 0) : NULL, *t = m ? arch_session(m, 3, 0) : NULL;
    infer_token ids[NGRAM_IDS];
    state_bytes b;
    int32_t i;
    memset(&b, 0, sizeof b);
    if (s && t) {
        ngrams_ids(ids, m->hp.ngrams.end);
        CHECK(infer_session_eval(s, ids, 27) == INFER_OK);
        CHECK(infer_session_save(s, state_write, &b) == INFER_OK && infer_session_load(t, state_read, &b) == INFER_OK);
        CHECK(infer_session_eval(s, ids + 27, NGRAM_IDS - 27) == INFER_OK);
        for (i = 27; i < NGRAM_IDS; i++) CHECK(infer_session_eval(t, ids + i, 1) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), NGRAM_VOCAB * sizeof(float)) == 0);
    }
    free(b.p);
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_ngrams(void) {
    RUN(test_ngrams_rows);
    RUN(test_ngrams_saved);
}
