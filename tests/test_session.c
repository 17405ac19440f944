/* test_session.c: steps and their outputs, sync, save and load, embeddings as input, trace, cancel, values that are not
 * finite, and memory: what a run takes against what infer_model_memory predicts. */

typedef struct state_bytes { char *p; size_t n, cap, at, stop; } state_bytes;
static size_t state_write(void *user, const void *data, size_t n) {
    state_bytes *b = (state_bytes *)user;
    if (b->stop && b->n + n > b->stop) return 0;
    if (b->n + n > b->cap) {
        b->cap = (b->n + n) * 2;
        b->p = (char *)realloc(b->p, b->cap);
    }
    memcpy(b->p + b->n, data, n);
    b->n += n;
    return n;
}
static size_t state_read(void *user, void *data, size_t n) {
    state_bytes *b = (state_bytes *)user;
    if (n > b->n - b->at) n = b->n - b->at;
    memcpy(data, b->p + b->at, n);
    b->at += n;
    return n;
}

static void test_session_outputs(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session *s = m ? cache_session(m, 1, 4, 64, 0, INFER_KV_F32) : NULL;
    infer_token ids[10];
    infer_step st;
    infer_top top[5];
    float last[128], *row;
    double sum = 0;
    int i;
    cache_ids(ids, 10, 21, 128);
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = ids;
    st.n = 10;
    if (!s) { CHECK(infer_model_close(m) == INFER_OK); return; }
    CHECK(infer_session_logits(s, 0) == NULL && infer_session_hidden(s, 0) == NULL);
    st.outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
    CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
    for (i = 0; i < 10; i++) CHECK(infer_session_logits(s, i) && infer_session_hidden(s, i));
    CHECK(infer_session_logits(s, 10) == NULL && infer_session_logits(s, -11) == NULL);
    CHECK(infer_session_logits(s, 9) == infer_session_logits(s, -1));
    CHECK(infer_session_top(s, -1, 5, top) == INFER_OK);
    row = infer_session_logits(s, -1);
    for (i = 0; i < 128; i++) {
        CHECK(row[i] <= top[0].logit);
        sum += exp(row[i]);
    }
    CHECK(fabs(top[0].logprob - (top[0].logit - log(sum))) < 1e-5);
    for (i = 1; i < 5; i++) CHECK(top[i - 1].logit >= top[i].logit && row[top[i].token] == top[i].logit);
    CHECK(infer_session_top(s, -1, 0, top) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_top(s, 99, 1, top) == INFER_ERR_STATE);
    memcpy(last, row, sizeof last);
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    CHECK(infer_session_logits(s, -1) == NULL);
    st.outputs = INFER_OUT_NONE;
    CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
    CHECK(infer_session_logits(s, -1) == NULL && infer_session_hidden(s, -1) == NULL);
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    st.outputs = INFER_OUT_LAST;
    CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
    CHECK(infer_session_logits(s, 8) == NULL && infer_session_logits(s, 9) != NULL && infer_session_hidden(s, 9) == NULL);
    CHECK(memcmp(last, infer_session_logits(s, 9), sizeof last) == 0);
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    st.outputs = INFER_OUT_HIDDEN;
    CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
    CHECK(infer_session_logits(s, 9) == NULL && infer_session_hidden(s, 0) != NULL);
    CHECK(infer_session_embedding(s, last, NULL) == INFER_OK);
    for (sum = 0, i = 0; i < 64; i++) sum += (double)last[i] * last[i];
    CHECK(fabs(sum - 1) < 1e-5);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_session_sync(void) {
    infer_model *m = cache_model("qwen3-plain-dense");
    infer_session *s = m ? cache_session(m, 1, 0, 64, 0, 0) : NULL, *t = m ? cache_session(m, 1, 0, 64, 0, 0) : NULL;
    infer_token a[20], b[20];
    int32_t kept = -1, i;
    cache_ids(a, 20, 31, 128);
    memcpy(b, a, sizeof a);
    for (i = 12; i < 20; i++) b[i] = (a[i] + 1) % 128;
    if (s && t) {
        CHECK(infer_session_sync(s, a, 20, &kept) == INFER_OK && kept == 0);
        CHECK(infer_session_sync(s, a, 20, &kept) == INFER_OK && kept == 19);
        CHECK(infer_session_logits(s, -1) != NULL);
        CHECK(infer_session_sync(s, b, 18, &kept) == INFER_OK && kept == 12);
        CHECK(infer_session_position(s) == 18);
        CHECK(memcmp(infer_session_tokens(s), b, 18 * sizeof *b) == 0);
        CHECK(infer_session_eval(t, b, 18) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), 128 * sizeof(float)) == 0);
        CHECK(infer_session_sync(s, b, 0, NULL) == INFER_ERR_ARGUMENT);
        CHECK(infer_session_sync(s, b, 65, NULL) == INFER_CONTEXT_FULL);
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Of every type of keys and values: what comes back gives the same bits; a state fits no cache of another type. */
static void test_session_save_load(void) {
    static const char *const files[] = { "gemma3-real-dense", "llama-dense" };
    infer_token ids[300];
    size_t f;
    cache_ids(ids, 300, 41, 128);
    for (f = 0; f < 10; f += (size_t)check_every(3)) {
        const int32_t type = (int32_t)f / 2 + INFER_KV_F32;
        infer_model *m = cache_model(files[f % 2]);
        infer_session *s = m ? cache_session(m, 1, 32, 320, 16, type) : NULL;
        infer_session *t = m ? cache_session(m, 1, 32, 320, 16, type) : NULL;
        infer_session *small = m ? cache_session(m, 1, 32, 64, 16, type) : NULL;
        infer_session *other;
        state_bytes b;
        float x[128], y[128];
        size_t i;
        uint32_t seed = 1;
        memset(&b, 0, sizeof b);
        if (!s || !t || !small) { CHECK(0); return; }
        CHECK(infer_session_eval(s, ids, 250) == INFER_OK);
        CHECK(infer_session_save(s, state_write, &b) == INFER_OK);
        CHECK(infer_session_eval(s, ids + 250, 5) == INFER_OK);
        memcpy(x, infer_session_logits(s, -1), sizeof x);
        CHECK(infer_session_eval(t, ids + 7, 30) == INFER_OK); /* replaced by the load */
        memcpy(y, infer_session_logits(t, -1), sizeof y);
        /* damaged states change nothing */
        for (i = 0; i < 400; i++) {
            size_t at;
            char old;
            seed = seed * 1664525u + 1013904223u;
            at = i < 100 ? i : (seed >> 4) % b.n;
            old = b.p[at];
            b.p[at] = (char)(old ^ (1 << (seed >> 29)));
            b.at = 0;
            CHECK(infer_session_load(t, state_read, &b) != INFER_OK);
            CHECK(infer_session_position(t) == 30);
            b.p[at] = old;
        }
        for (i = 0; i < b.n; i += b.n / 61 + 1) { /* cut short */
            state_bytes c = b;
            c.n = i;
            c.at = 0;
            CHECK(infer_session_load(t, state_read, &c) < 0);
        }
        CHECK(infer_session_position(t) == 30);
        CHECK(infer_session_eval(t, ids + 37, 1) == INFER_OK);
        b.at = 0;
        other = m ? cache_session(m, 1, 32, 320, 16, type == INFER_KV_Q4_0 ? INFER_KV_F32 : type + 1) : NULL;
        if (other) CHECK(infer_session_load(other, state_read, &b) == INFER_ERR_ARGUMENT);
        infer_session_destroy(other);
        b.at = 0;
        CHECK(infer_session_load(small, state_read, &b) == INFER_CONTEXT_FULL);
        CHECK_HAS(infer_session_error(small)->message, "250 tokens");
        b.at = 0;
        CHECK(infer_session_load(t, state_read, &b) == INFER_OK);
        CHECK(infer_session_position(t) == 250);
        CHECK(infer_session_eval(t, ids + 250, 5) == INFER_OK);
        CHECK(memcmp(x, infer_session_logits(t, -1), sizeof x) == 0);
        b.n = 0;
        b.stop = 1000;
        CHECK(infer_session_save(s, state_write, &b) == INFER_ERR_IO);
        infer_session_destroy(s);
        infer_session_destroy(t);
        infer_session_destroy(small);
        CHECK(infer_model_close(m) == INFER_OK);
        free(b.p);
    }
}

/* Rows of the embedding table given as embeddings are the tokens. */
static void test_session_embeddings_in(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session *s = m ? cache_session(m, 1, 9, 64, 0, 0) : NULL, *t = m ? cache_session(m, 1, 4, 64, 0, 0) : NULL;
    infer_token ids[9];
    float x[9 * 64];
    infer_step st;
    int i;
    cache_ids(ids, 9, 51, 128);
    if (s && t) {
        for (i = 0; i < 9; i++)
            CHECK(infer_tensor_read(m, "token_embd.weight", (uint64_t)ids[i], 1, x + i * 64, NULL) == INFER_OK);
        memset(&st, 0, sizeof st);
        st.session = s;
        st.embeddings = x;
        st.n = 9;
        st.outputs = INFER_OUT_LAST;
        CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
        CHECK(infer_session_eval(t, ids, 9) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), 128 * sizeof(float)) == 0);
        CHECK(infer_session_tokens(s)[0] == -1);
        x[5] = 1e30f; /* leads to values that are not finite: an error that names where, and the session stands still */
        x[5] *= 1e30f;
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_ERR_STATE);
        CHECK_HAS(infer_session_error(s)->message, "embedding");
        CHECK(infer_session_position(s) == 0);
        CHECK(infer_session_rewind(t, 0) == INFER_OK);
        st.session = t; /* in passes of 4: the last pass meets it in the keys of the first layer */
        CHECK(infer_eval(t->context, &st, 1, NULL) == INFER_ERR_STATE);
        CHECK_HAS(infer_session_error(t)->message, "layer 0");
        CHECK(infer_session_eval(t, ids, 9) == INFER_OK);
        CHECK(infer_session_eval(s, ids, 9) == INFER_OK); /* and works again */
        CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), 128 * sizeof(float)) == 0);
    }
    infer_session_destroy(s);
    infer_session_destroy(t);
    CHECK(infer_model_close(m) == INFER_OK);
}

typedef struct trace_seen { int steps, layers, first_bad; } trace_seen;
static void trace_count(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols) {
    trace_seen *t = (trace_seen *)user;
    t->steps++;
    if (layer >= t->layers) t->layers = layer + 1;
    if (!step || !x || rows < 1 || cols < 1) t->first_bad++;
}
static int progress_stop_at;
static int progress_seen;
static int progress_fn(void *user, float done) {
    (void)user;
    CHECK(done >= 0 && done <= 1);
    return ++progress_seen == progress_stop_at;
}

static void test_session_trace_progress(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session_params p;
    infer_session *s = NULL;
    infer_token ids[40];
    trace_seen seen;
    float x[128];
    memset(&p, 0, sizeof p);
    memset(&seen, 0, sizeof seen);
    cache_ids(ids, 40, 61, 128);
    p.context = 64;
    p.own.batch = 8;
    p.trace = trace_count;
    p.trace_user = &seen;
    p.progress = progress_fn;
    progress_seen = 0;
    progress_stop_at = 3;
    CHECK(infer_session_create(&s, m, &p, NULL) == INFER_OK);
    if (s) {
        CHECK(infer_session_eval(s, ids, 5) == INFER_OK); /* 1 */
        memcpy(x, infer_session_logits(s, -1), sizeof x);
        CHECK(seen.layers == 2 && seen.steps > 20 && seen.first_bad == 0);
        CHECK(infer_session_eval(s, ids + 5, 35) == INFER_CANCELLED); /* stops after its second pass */
        CHECK(infer_session_position(s) == 5);
        progress_stop_at = -1;
        CHECK(infer_session_eval(s, ids + 5, 35) == INFER_OK);
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        CHECK(infer_session_eval(s, ids, 5) == INFER_OK);
        CHECK(memcmp(x, infer_session_logits(s, -1), sizeof x) == 0);
        infer_session_cancel(s); /* nothing runs, and nothing is left for the next one */
        CHECK(infer_session_eval(s, ids, 1) == INFER_OK);
        CHECK(infer_session_position(s) == 6);
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Peak use of a run stays within the prediction; the 1B shape's scratch at batch 512 is at most 64 MiB. */
static size_t memory_live, memory_peak;
static void *memory_alloc(void *user, size_t size, size_t align) {
    char *p = (char *)check_alloc(user, size + 64, align);
    if (!p) return NULL;
    memory_live += size;
    if (memory_live > memory_peak) memory_peak = memory_live;
    return p;
}
static void memory_free(void *user, void *p, size_t size) {
    memory_live -= size;
    check_free(user, p, size);
}
static void test_session_memory(void) {
    static const char *const files[] = { "archs/gemma3-real-dense.gguf", "archs/llama-mixtral-moe.gguf",
                                         "archs/arctic-moe.gguf", "archs/gpt-oss-moe.gguf", "models/stories260K.F32.gguf", "models/TinyStories-656K.Q8_0.gguf" };
    size_t f;
    if (INFER__BIG_ENDIAN) SKIP("cpu: big-endian: weights are copied, the counts below are for mapped ones");
    for (f = 0; f < sizeof files / sizeof *files; f++) {
        infer_model_params mp;
        infer_session_params p;
        infer_model *m = NULL;
        infer_session *s = NULL;
        infer_memory want, now;
        infer_token ids[200];
        size_t opened;
        check_detail = files[f];
        memset(&mp, 0, sizeof mp);
        memset(&p, 0, sizeof p);
        memory_live = memory_peak = 0;
        mp.allocator.alloc = memory_alloc;
        mp.allocator.free = memory_free;
        CHECK(infer_model_open(&m, check_data(files[f]), &mp, NULL) == INFER_OK);
        if (!m) continue;
        opened = memory_live;
        p.context = p.own.cells = 256;
        p.own.threads = 2;
        CHECK(infer_model_memory(m, &p.own, &want, NULL) == INFER_OK);
        CHECK(infer_session_create(&s, m, &p, NULL) == INFER_OK);
        cache_ids(ids, 200, 3, 64);
        CHECK(infer_session_eval(s, ids, 200) == INFER_OK);
        CHECK(infer_context_memory(s->context, &now) == INFER_OK);
        CHECK(now.cache == want.cache && now.scratch == want.scratch && opened < want.scratch);
        CHECK(memory_peak == want.cache + want.scratch && memory_peak == want.peak);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK);
        CHECK(memory_live == 0);
    }
}

/* The pooled vector of an embedding model (last token), against the recorded one, which is not normalised. */
static void test_session_pooled(void) {
    const char *path = check_reference("archs/qwen3-embed.gguf"), *want = check_reference("archs/qwen3-embed.pooled");
    infer_model *m = NULL;
    infer_session *s;
    infer_step st;
    size_t size = 0, i;
    char *data;
    float x[64], y[64];
    double sum = 0;
    if (!path) SKIP("needs INFER_TEST_DATA");
    data = check_read(want, &size);
    arch_file = "qwen3-embed";
    CHECK(data && size == 8 + 64 * 4);
    CHECK(infer_model_open(&m, path, NULL, NULL) == INFER_OK);
    s = m && data ? cache_session(m, 1, 16, 64, 0, INFER_KV_F32) : NULL;
    if (s) {
        arch_ref r;
        CHECK(arch_ref_open(&r));
        memset(&st, 0, sizeof st);
        st.session = s;
        st.tokens = r.ids;
        st.n = r.n;
        st.outputs = INFER_OUT_HIDDEN;
        CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
        CHECK(infer_session_embedding(s, x, NULL) == INFER_OK);
        for (i = 0; i < 64; i++) {
            y[i] = infer__load_f32(data + 8 + i * 4);
            sum += (double)y[i] * y[i];
        }
        for (i = 0; i < 64; i++) y[i] = (float)(y[i] / sqrt(sum));
        CHECK(check_nmse(x, y, 64) < 2e-6);
        free(r.data);
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    free(data);
}

/* A model of the same shape whose weights are others. */
static void test_session_other_weights(void) {
    infer_model *m[2] = { NULL, NULL };
    infer_session *s[2];
    infer_token ids[20];
    infer_error e;
    state_bytes b;
    size_t n = 0;
    char *data[2];
    int i;
    memset(&b, 0, sizeof b);
    cache_ids(ids, 20, 41, 128);
    for (i = 0; i < 2; i++) {
        data[i] = check_read(check_data("archs/llama-dense.gguf"), &n);
        if (i) data[i][m[0]->gguf.tensors[0].offset + m[0]->gguf.tensors[0].bytes / 2] ^= 1;
        CHECK(data[i] && infer_model_open_memory(&m[i], data[i], n, NULL, &e) == INFER_OK);
        s[i] = cache_session(m[i], 1, 32, 64, 16, INFER_KV_F32);
        CHECK(s[i] && infer_session_eval(s[i], ids, 9 + i) == INFER_OK);
    }
    CHECK(infer_session_save(s[0], state_write, &b) == INFER_OK);
    CHECK(infer_session_load(s[0], state_read, &b) == INFER_OK);
    b.at = 0;
    CHECK(infer_session_load(s[1], state_read, &b) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s[1])->message, "its weights are others");
    CHECK(infer_session_position(s[1]) == 10);
    for (i = 0; i < 2; i++) {
        infer_session_destroy(s[i]);
        CHECK(infer_model_close(m[i]) == INFER_OK);
        free(data[i]);
    }
    free(b.p);
}

static void suite_session(void) {
    RUN(test_session_pooled);
    RUN(test_session_outputs);
    RUN(test_session_sync);
    RUN(test_session_save_load);
    RUN(test_session_other_weights);
    RUN(test_session_embeddings_in);
    RUN(test_session_trace_progress);
    RUN(test_session_memory);
}
