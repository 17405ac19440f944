/* test_score.c: infer_session_score beside a plain computation from all logits. */

static void score_expect(const float *x, int32_t vocab, infer_token token, int32_t k, float logprob, const infer_top *top) {
    double sum = 0, most = x[0];
    int32_t i, j;
    for (i = 1; i < vocab; i++) if (x[i] > most) most = x[i];
    for (i = 0; i < vocab; i++) sum += exp((double)x[i] - most);
    CHECK(logprob == (float)((double)x[token] - most - log(sum)));
    for (j = 0; j < k; j++) {
        int32_t above = 0;
        for (i = 0; i < vocab; i++) above += x[i] > x[top[j].token] || (x[i] == x[top[j].token] && i < top[j].token);
        CHECK(above == j && top[j].logit == x[top[j].token]);
        CHECK(top[j].logprob == (float)((double)top[j].logit - most - log(sum)));
    }
}

static void test_score_same(void) {
    enum { N = 60, K = 5 };
    infer_model *m = generate_model(NULL);
    infer_session *all = generate_session(m, 128), *s = generate_session(m, 128);
    infer_model_info info;
    infer_token ids[N];
    float logprobs[N], part[N];
    infer_top top[N * K];
    infer_step st;
    infer_error e;
    int32_t i;
    infer_model_get_info(m, &info);
    for (i = 0; i < N; i++) ids[i] = (infer_token)(i ? (i * 37) % info.vocab : 1);
    memset(&st, 0, sizeof st);
    st.session = all;
    st.tokens = ids;
    st.n = N;
    st.outputs = INFER_OUT_ALL;
    CHECK(infer_eval(all->context, &st, 1, &e) == INFER_OK);
    CHECK(infer_session_score(s, ids, N, K, logprobs, top) == INFER_OK); /* batch 32: in pieces */
    CHECK(infer_session_position(s) == N && logprobs[0] == 0 && top[0].token == -1 && top[K - 1].token == -1);
    for (i = 1; i < N; i++) score_expect(infer_session_logits(all, i - 1), info.vocab, ids[i], K, logprobs[i], top + i * K);
    CHECK(memcmp(infer_session_logits(all, -1), infer_session_logits(s, -1), (size_t)info.vocab * sizeof(float)) == 0);
    /* in two calls: the first token of the second one is predicted by the first call's last */
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    CHECK(infer_session_score(s, ids, 21, 0, part, NULL) == INFER_OK);
    CHECK(infer_session_score(s, ids + 21, N - 21, 0, part + 21, NULL) == INFER_OK);
    CHECK(memcmp(part, logprobs, sizeof part) == 0);
    /* after a rewind nothing predicts it */
    CHECK(infer_session_rewind(s, 21) == INFER_OK);
    CHECK(infer_session_score(s, ids + 21, 2, 1, part, top) == INFER_OK && part[0] == 0 && top[0].token == -1 && part[1] == logprobs[22]);
    CHECK(infer_session_score(s, ids, 1, K, NULL, top) == INFER_OK && top[0].token >= 0);
    infer_session_destroy(all);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static int score_cancel(void *user, float done) { (void)done; return --*(int *)user == 0; }
static void test_score_bad(void) {
    infer_model *m = generate_model(NULL), *bert = embed_open("bert-rank2"), *dream = embed_open("dream-dense");
    infer_session *s = generate_session(m, 32), *long_one = NULL;
    infer_session_params sp;
    infer_token ids[64] = { 1, 2, 3, 4 };
    float logprobs[64];
    infer_top top[4];
    infer_error e;
    int left = 2;
    CHECK(infer_session_score(NULL, ids, 4, 0, logprobs, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_score(s, NULL, 4, 0, logprobs, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_score(s, ids, 0, 0, logprobs, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_score(s, ids, 4, -1, logprobs, top) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_score(s, ids, 4, 513, logprobs, top) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_score(s, ids, 4, 1, logprobs, NULL) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "top is NULL");
    ids[2] = 1 << 20;
    CHECK(infer_session_score(s, ids, 4, 0, logprobs, NULL) == INFER_ERR_ARGUMENT && infer_session_position(s) == 0);
    CHECK_HAS(infer_session_error(s)->message, "token 2");
    ids[2] = 3;
    CHECK(infer_session_score(s, ids, 33, 0, logprobs, NULL) == INFER_CONTEXT_FULL && infer_session_position(s) == 0);
    infer_session_destroy(s);
    memset(&sp, 0, sizeof sp); /* cancelled within: back where it was */
    sp.context = 64;
    sp.own.batch = 8;
    sp.progress = score_cancel;
    sp.progress_user = &left;
    CHECK(infer_session_create(&long_one, m, &sp, &e) == INFER_OK);
    CHECK(infer_session_score(long_one, ids, 4, 0, logprobs, NULL) == INFER_OK);
    left = 3;
    CHECK(infer_session_score(long_one, ids, 60, 0, logprobs, NULL) == INFER_CANCELLED && infer_session_position(long_one) == 4);
    left = -1;
    CHECK(infer_session_score(long_one, ids, 60, 0, logprobs, NULL) == INFER_OK);
    infer_session_destroy(long_one);
    if (bert && infer_session_create(&s, bert, NULL, &e) == INFER_OK) {
        CHECK(infer_session_score(s, ids, 4, 0, logprobs, NULL) == INFER_ERR_UNSUPPORTED);
        infer_session_destroy(s);
    }
    if (dream && infer_session_create(&s, dream, NULL, &e) == INFER_OK) {
        CHECK(infer_session_score(s, ids, 4, 0, logprobs, NULL) == INFER_ERR_UNSUPPORTED);
        CHECK_HAS(infer_session_error(s)->message, "\"dream\"");
        infer_session_destroy(s);
    }
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(bert) == INFER_OK && infer_model_close(dream) == INFER_OK);
}

static void suite_score(void) {
    RUN(test_score_same);
    RUN(test_score_bad);
}
