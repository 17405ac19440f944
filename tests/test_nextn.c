/* test_nextn.c: the block that predicts further tokens: what it predicts against the same block run as a model of its own, drafts
 * that change nothing, pieces, forks, rewinds and saved sessions, refusals, no memory. */

static const char *const nextn_files[] = { "glm4moe-nextn-moe", "deepseek2-nextn-moe" };

static infer_model *nextn_model(const char *name, int mtp, infer_error *e) {
    infer_model_params p;
    infer_model *m = NULL;
    char file[128];
    snprintf(file, sizeof file, "archs/%s.gguf", name);
    check_detail = name;
    memset(&p, 0, sizeof p);
    p.exact = 1;
    p.mtp = mtp;
    if (infer_model_open(&m, check_data_or_reference(file, NULL), &p, e)) return NULL;
    return m;
}

static infer_session *nextn_session(infer_model *m, int32_t batch) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = 200;
    p.own.threads = 2;
    p.own.batch = batch;
    p.own.cells = 800;
    p.own.sessions = 4;
    p.own.kv_type = INFER_KV_F32;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

/* `room` drafts behind a token that was chosen: ids[0] is it. */
static int32_t nextn_drafts(infer_session *s, infer_token token, infer_token *ids, int32_t room) {
    ids[0] = token;
    return infer__further_draft(s, ids, room);
}

/* ---- the block as a model ---------------------------------------------------------------------------------------- */

static char *nextn_find(char *image, size_t n, const char *key) { /* behind the key */
    const size_t len = strlen(key);
    size_t i;
    for (i = 8; i + len < n; i++)
        if (!memcmp(image + i, key, len)) return image + i + len;
    CHECK(!"no such key");
    return NULL;
}
static void nextn_set(char *image, size_t n, const char *key, uint32_t value) { /* of type 4, or the test would not see it */
    char *at = nextn_find(image, n, key);
    if (at) memcpy(at + 4, &value, 4);
}

/* Blocks 0 and `block` change their names, the head's norm and matrix are the block's own: a model of one layer. */
static infer_model *nextn_alone(const infer_model *m, char *image, size_t n, int block) {
    infer_model_params p;
    infer_model *alone = NULL;
    infer_error e;
    char name[64], prefix[2][16];
    const infer__gguf_tensor *from, *to;
    size_t i;
    int k;
    static const char *const own[2][2] = { { "shared_head_norm", "output_norm.weight" }, { "shared_head_head", "output.weight" } };
    for (k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "blk.%d.nextn.%s.weight", block, own[k][0]);
        from = infer__gguf_tensor_find(&m->gguf, name);
        to = infer__gguf_tensor_find(&m->gguf, own[k][1]);
        if (!from || !to || from->bytes != to->bytes) { CHECK(0); return NULL; }
        memcpy(image + to->offset, image + from->offset, (size_t)to->bytes);
    }
    snprintf(prefix[0], sizeof prefix[0], "blk.0.");
    snprintf(prefix[1], sizeof prefix[1], "blk.%d.", block);
    for (i = 0; i + 6 < n; i++)
        if (!memcmp(image + i, prefix[0], 6)) image[i + 4] = prefix[1][4];
        else if (!memcmp(image + i, prefix[1], 6) && memcmp(image + i + 6, "nextn", 5)) image[i + 4] = '0';
    snprintf(name, sizeof name, "%s.nextn_predict_layers", m->arch->name);
    nextn_set(image, n, name, (uint32_t)block);
    snprintf(name, sizeof name, "%s.leading_dense_block_count", m->arch->name);
    nextn_set(image, n, name, 0);
    memset(&p, 0, sizeof p);
    p.exact = 1;
    if (infer_model_open_memory(&alone, image, n, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return alone;
}

/* A row of a tensor as floats. */
static void nextn_row(const infer_model *m, const char *name, int block, uint64_t row, float *to) {
    char full[64];
    const infer__gguf_tensor *t;
    snprintf(full, sizeof full, "blk.%d.nextn.%s.weight", block, name);
    t = infer__gguf_tensor_find(&m->gguf, full);
    if (!t) { CHECK(0); return; }
    t->type->decode((const uint8_t *)t->data + row * t->row_bytes, to, (int64_t)t->dims[0]);
}
static void nextn_norm(const infer_model *m, const char *name, int block, const float *x, int32_t n, float *to) {
    float w[256];
    double sum = 0;
    int32_t i;
    nextn_row(m, name, block, 0, w);
    for (i = 0; i < n; i++) sum += (double)x[i] * x[i];
    for (i = 0; i < n; i++) to[i] = (float)(x[i] / sqrt(sum / n + (double)m->hp.eps)) * w[i];
}

/* What the block's layer reads, by the paper. hidden NULL: zeros. */
static void nextn_input(const infer_model *m, int block, infer_token token, const float *hidden, float *to) {
    const int32_t n = m->hp.n_embd;
    float both[512], row[512], e[256];
    int32_t i, j;
    memset(both, 0, sizeof both);
    nextn_row(m, "embed_tokens", block, (uint64_t)token, e);
    nextn_norm(m, "enorm", block, e, n, both);
    if (hidden) nextn_norm(m, "hnorm", block, hidden, n, both + n);
    for (i = 0; i < n; i++) {
        double sum = 0;
        nextn_row(m, "eh_proj", block, (uint64_t)i, row);
        for (j = 0; j < 2 * n; j++) sum += (double)row[j] * both[j];
        to[i] = (float)sum;
    }
}

static infer_token nextn_best(const float *v, int32_t n) {
    infer_token best = 0;
    int32_t i;
    for (i = 1; i < n; i++)
        if (v[i] > v[best]) best = i;
    return best;
}

/* Drafts of texts of 1 to 60 tokens: what the block as a model says is likeliest. */
static void test_nextn_block(void) {
    size_t f;
    for (f = 0; f < INFER__COUNT(nextn_files); f++) {
        infer_error e;
        char path[128];
        size_t n = 0;
        infer_model *m = nextn_model(nextn_files[f], 1, &e), *alone;
        char *image;
        int block, seed, other = 0;
        if (!m) { CHECK(strstr(e.message, "open")); continue; } /* no references */
        snprintf(path, sizeof path, "archs/%s.gguf", nextn_files[f]);
        image = check_read(check_data_or_reference(path, NULL), &n);
        block = m->hp.n_layer;
        alone = image ? nextn_alone(m, image, n, block) : NULL;
        for (seed = 0; alone && seed < 12; seed++) {
            const int32_t count = 1 + seed * 5, width = m->hp.n_embd;
            infer_session *s = nextn_session(m, seed % 3 ? 16 : 512), *by = nextn_session(alone, 512);
            infer_token ids[72], drafts[4];
            float *x = (float *)malloc((size_t)(count + 3) * (size_t)width * sizeof *x);
            infer_step st;
            int32_t i, k;
            cache_ids(ids, count + 1, (uint32_t)(seed + 1), 128);
            memset(&st, 0, sizeof st);
            st.session = s;
            st.tokens = ids;
            st.n = count;
            st.outputs = INFER_OUT_HIDDEN;
            CHECK(infer_eval(st.session->context, &st, 1, &e) == INFER_OK);
            for (i = 0; i <= count; i++)
                nextn_input(m, block, ids[i], i ? infer_session_hidden(s, i - 1) : NULL, x + i * width);
            memset(&st, 0, sizeof st);
            st.session = by;
            st.embeddings = x;
            st.n = count + 1;
            st.outputs = INFER_OUT_LAST | INFER_OUT_HIDDEN;
            CHECK(infer_eval(st.session->context, &st, 1, &e) == INFER_OK);
            CHECK(nextn_drafts(s, ids[count], drafts, 3) == 3);
            for (k = 1; k <= 3; k++) {
                infer_token want = nextn_best(infer_session_logits(by, -1), 128);
                CHECK(drafts[k] == want);
                other += k > 1 && drafts[k] != drafts[k - 1];
                nextn_input(m, block, want, infer_session_hidden(by, -1), x); /* its own hidden state is the next one's */
                st.embeddings = x;
                st.n = 1;
                CHECK(infer_eval(st.session->context, &st, 1, &e) == INFER_OK);
            }
            free(x);
            infer_session_destroy(s);
            infer_session_destroy(by);
        }
        CHECK(other > 5); /* not one token for everything */
        if (alone) CHECK(infer_model_close(alone) == INFER_OK);
        CHECK(infer_model_close(m) == INFER_OK);
        free(image);
    }
}

/* ---- drafts change nothing ---------------------------------------------------------------------------------------- */

static void test_nextn_same(void) {
    draft_out *want = (draft_out *)calloc(1, sizeof *want), *got = (draft_out *)calloc(1, sizeof *got);
    size_t f;
    int sampled;
    for (f = 0; f < INFER__COUNT(nextn_files); f++) {
        infer_error e;
        infer_model *m = nextn_model(nextn_files[f], 1, &e), *plain = nextn_model(nextn_files[f], 0, &e);
        for (sampled = 0; m && plain && sampled < 2; sampled++) {
            int32_t drafted;
            draft_go(plain, NULL, 0, sampled, 60, NULL, want);
            draft_go(m, NULL, 0, sampled, 60, NULL, got);
            want->s = got->s;
            CHECK(got->n == 60 && !memcmp(got, want, sizeof *got)); /* the block alone changes nothing */
            drafted = draft_go(m, NULL, 4, sampled, 60, NULL, got).drafted;
            want->s = got->s;
            CHECK(got->n == 60 && !memcmp(got, want, sizeof *got) && drafted > 10);
        }
        infer_model_close(m);
        infer_model_close(plain);
    }
    free(want);
    free(got);
}

static void nextn_copy(const infer_model *m, char *image, const char *from, const char *to) {
    const infer__gguf_tensor *a = infer__gguf_tensor_find(&m->gguf, from), *b = infer__gguf_tensor_find(&m->gguf, to);
    CHECK(a && b && a->bytes == b->bytes);
    if (a && b && a->bytes == b->bytes) memcpy(image + b->offset, image + a->offset, (size_t)a->bytes);
}

/* A file whose layers do nothing, and whose block repeats what the head makes of an embedding: what it predicts is right. To be
 * freed, as long as a model of it is open. */
static char *nextn_right_image(size_t *bytes) {
    static const char *const nothing[] = { "blk.0.attn_output", "blk.1.attn_output", "blk.2.attn_output", "blk.0.ffn_down", "blk.1.ffn_down_exps",
                                           "blk.1.ffn_down_shexp", "blk.2.ffn_down_exps", "blk.2.ffn_down_shexp" };
    infer_error e;
    infer_model *m = nextn_model(nextn_files[0], 0, &e);
    size_t n = 0, i;
    char *image = check_read(check_data("archs/glm4moe-nextn-moe.gguf"), &n), name[64];
    const infer__gguf_tensor *t;
    int32_t r;
    if (!m || !image) { CHECK(0); return image; }
    for (i = 0; i < INFER__COUNT(nothing); i++) {
        snprintf(name, sizeof name, "%s.weight", nothing[i]);
        t = infer__gguf_tensor_find(&m->gguf, name);
        CHECK(t != NULL);
        if (t) memset(image + t->offset, 0, (size_t)t->bytes);
    }
    nextn_copy(m, image, "token_embd.weight", "blk.2.nextn.embed_tokens.weight");
    nextn_copy(m, image, "output.weight", "blk.2.nextn.shared_head_head.weight");
    nextn_copy(m, image, "output_norm.weight", "blk.2.nextn.shared_head_norm.weight");
    t = infer__gguf_tensor_find(&m->gguf, "blk.2.nextn.enorm.weight");
    for (i = 0; t && i < 64; i++) memcpy(image + t->offset + 4 * i, "\0\0\x80\x3f", 4); /* 1 */
    t = infer__gguf_tensor_find(&m->gguf, "blk.2.nextn.eh_proj.weight"); /* [1 | 0], halves */
    if (t) memset(image + t->offset, 0, (size_t)t->bytes);
    for (r = 0; t && r < 64; r++) memcpy(image + t->offset + (size_t)r * 256 + (size_t)r * 2, "\0\x3c", 2);
    CHECK(infer_model_close(m) == INFER_OK);
    *bytes = n;
    return image;
}

/* ---- files without a block get one --------------------------------------------------------------------------------- */

static uint64_t nextn_u64(const char *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static const char *nextn_skip(const char *p, uint32_t type) { /* a value of a key */
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    uint64_t i, n;
    uint32_t of;
    if (type == 8) return p + 8 + nextn_u64(p);
    if (type != 9) return p + sizes[type];
    memcpy(&of, p, 4);
    n = nextn_u64(p + 4);
    for (p += 12, i = 0; i < n; i++) p = nextn_skip(p, of);
    return p;
}
static char *nextn_put(char *to, const void *from, size_t n) {
    memcpy(to, from, n);
    return to + n;
}
static char *nextn_info(char *to, const char *name, uint64_t cols, uint64_t rows, uint64_t offset) { /* of F32 */
    uint64_t n = strlen(name);
    uint32_t dims = rows ? 2 : 1, type = 0;
    to = nextn_put(nextn_put(to, &n, 8), name, (size_t)n);
    to = nextn_put(nextn_put(to, &dims, 4), &cols, 8);
    if (rows) to = nextn_put(to, &rows, 8);
    return nextn_put(nextn_put(to, &type, 4), &offset, 8);
}

/* A file of two layers of width 64 and a third one, layer 1 once more, that predicts; what layers add is 0, so it is right. It takes
 * embeddings, norm and head from the model. */
static char *nextn_extended(const char *arch, const char *file, size_t *bytes) {
    static const char *const last[] = { "attn_output.weight", "ssm_out.weight", "ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight" };
    enum { WIDTH = 64 };
    infer_error e;
    infer_model *m = nextn_model(file, 0, &e);
    char path[128], key[64], *image, *out, *to, *data;
    const char *p, *infos, *info;
    const float one = 1;
    uint64_t nt, nk, i, offset, start, len, added = 0;
    size_t n = 0, k;
    uint32_t type, value = 1;
    snprintf(path, sizeof path, "archs/%s.gguf", file);
    image = check_read(check_data_or_reference(path, NULL), &n);
    out = (char *)calloc(1, 2 * n + 65536);
    if (!m || !image || !out) { CHECK(!m); free(image); free(out); return NULL; }
    for (i = 0; i < (uint64_t)m->gguf.n_tensors; i++)
        for (k = 0; k < INFER__COUNT(last); k++)
            if (strstr(m->gguf.tensors[i].name, last[k]) && !strncmp(m->gguf.tensors[i].name, "blk.", 4))
                memset(image + m->gguf.tensors[i].offset, 0, (size_t)m->gguf.tensors[i].bytes);
    snprintf(key, sizeof key, "%s.block_count", arch);
    nextn_set(image, n, key, 3);
    nt = nextn_u64(image + 8);
    nk = nextn_u64(image + 16);
    for (p = image + 24, i = 0; i < nk; i++) {
        p += 8 + nextn_u64(p);
        memcpy(&type, p, 4);
        p = nextn_skip(p + 4, type);
    }
    infos = p;
    start = m->gguf.tensors[0].offset;
    for (i = 0; i < nt; i++) start = INFER__MIN(start, m->gguf.tensors[i].offset);
    to = nextn_put(out, image, (size_t)(infos - image)); /* header and keys, and one more */
    snprintf(key, sizeof key, "%s.nextn_predict_layers", arch);
    len = strlen(key);
    to = nextn_put(nextn_put(to, &len, 8), key, (size_t)len);
    type = 4;
    to = nextn_put(nextn_put(to, &type, 4), &value, 4);
    nk++;
    memcpy(out + 16, &nk, 8);
    for (i = 0, info = infos; i < nt; i++) {
        memcpy(&value, info + 8 + nextn_u64(info), 4); /* dimensions */
        info += 8 + nextn_u64(info) + 4 + 8 * value + 12;
    }
    to = nextn_put(to, infos, (size_t)(info - infos));
    offset = ((uint64_t)n - start + 31) / 32 * 32; /* of new data */
    data = (char *)calloc(1, n + 65536);
    for (i = 0, k = 0, p = infos; i < nt; i++) {
        const char *of = p;
        len = nextn_u64(p);
        memcpy(&value, p + 8 + len, 4);
        p += 8 + len + 4 + 8 * value + 12;
        if (memcmp(of + 8, "blk.1.", 6)) continue;
        to = nextn_put(to, of, (size_t)(p - of));
        to[-(p - of) + 12] = '2';
        len = offset + k;
        memcpy(to - 8, &len, 8);
        memcpy(data + k, image + start + nextn_u64(p - 8), (size_t)m->gguf.tensors[i].bytes);
        k += (size_t)(m->gguf.tensors[i].bytes + 31) / 32 * 32;
        added++;
    }
    to = nextn_info(to, "blk.2.nextn.eh_proj.weight", 2 * WIDTH, WIDTH, offset + k);
    for (i = 0; i < WIDTH; i++) memcpy(data + k + i * 4 * (2 * WIDTH + 1), &one, 4); /* [1 | 0] */
    k += 8 * WIDTH * WIDTH;
    to = nextn_info(to, "blk.2.nextn.enorm.weight", WIDTH, 0, offset + k);
    to = nextn_info(to, "blk.2.nextn.hnorm.weight", WIDTH, 0, offset + k + 4 * WIDTH);
    for (i = 0; i < 2 * WIDTH; i++, k += 4) memcpy(data + k, &one, 4);
    nt += added + 3;
    memcpy(out + 8, &nt, 8);
    to = out + (to - out + 31) / 32 * 32;
    to = nextn_put(to, image + start, n - (size_t)start);
    to = nextn_put(to + (offset - (n - start)), data, k);
    *bytes = (size_t)(to - out);
    free(image);
    free(data);
    CHECK(infer_model_close(m) == INFER_OK);
    return out;
}

static void test_nextn_others(void) {
    static const char *const files[][2] = { { "qwen35", "qwen35-dense" }, { "qwen35moe", "qwen35moe-moe" }, { "qwen3next", "qwen3next-moe" },
                                            { "hy_v3", "hy_v3-moe" } };
    draft_out *want = (draft_out *)calloc(1, sizeof *want), *got = (draft_out *)calloc(1, sizeof *got);
    size_t i, n = 0;
    for (i = 0; i < INFER__COUNT(files); i++) {
        char *image = nextn_extended(files[i][0], files[i][1], &n);
        infer_model_params p;
        infer_model *m = NULL;
        infer_generate_info info;
        infer_error e;
        if (!image) continue;
        memset(&p, 0, sizeof p);
        p.mtp = 1;
        if (infer_model_open_memory(&m, image, n, &p, &e)) check_note(__FILE__, __LINE__, e.message);
        else {
            CHECK_STR(infer_model_why_not(m), "");
            draft_go(m, NULL, 0, 0, 60, NULL, want);
            info = draft_go(m, NULL, 4, 0, 60, NULL, got);
            want->s = got->s;
            CHECK(got->n == 60 && !memcmp(got, want, sizeof *got) && info.drafted > 45 && info.accepted == info.drafted);
            CHECK(infer_model_close(m) == INFER_OK);
        }
        free(image);
    }
    free(want);
    free(got);
}

static int nextn_taken(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    draft_out *o = (draft_out *)user;
    (void)logprob, (void)top, (void)n_top;
    if (o->n < 256) o->tokens[o->n++] = token;
    return 0;
}

/* Three requests of a queue, each with drafts: what one alone writes, in fewer passes. */
static void nextn_queue(infer_model *m, const draft_out *want) {
    infer_queue_params qp;
    infer_queue *q = NULL;
    infer_request *r[3];
    infer_error e;
    infer_token ids[40];
    draft_out *got = (draft_out *)calloc(3, sizeof *got);
    int32_t i, k;
    memset(&qp, 0, sizeof qp);
    qp.context.threads = 2;
    qp.context.kv_type = INFER_KV_F32;
    qp.context.cells = 1024;
    qp.positions = 200;
    qp.slots = 3;
    for (i = 0; i < 40; i++) ids[i] = (infer_token)((i % 9) * 3 + 1);
    CHECK(infer_queue_create(&q, m, &qp, &e) == INFER_OK);
    for (k = 0; k < 3; k++) {
        infer_request_params p;
        memset(&p, 0, sizeof p);
        p.tokens = ids;
        p.n_tokens = 40;
        p.generate.max_tokens = 60;
        p.generate.ignore_end = 1;
        p.generate.mtp = 1;
        p.generate.token = nextn_taken;
        p.generate.user = &got[k];
        if (infer_queue_submit(q, &p, &r[k], &e)) check_note(__FILE__, __LINE__, e.message);
    }
    while (infer_queue_step(q, 1000) == INFER_MORE) {}
    for (k = 0; k < 3; k++) {
        infer_request_info info;
        CHECK(infer_request_wait(r[k]) == INFER_OK && infer_request_get_info(r[k], &info) == INFER_OK);
        CHECK(info.generate.drafted > 45 && info.generate.accepted == info.generate.drafted);
        CHECK(got[k].n == 60 && !memcmp(got[k].tokens, want->tokens, 60 * sizeof *want->tokens));
        infer_request_close(r[k]);
    }
    CHECK(infer_queue_destroy(q) == INFER_OK);
    free(got);
}

static void test_nextn_right(void) {
    draft_out *want = (draft_out *)calloc(1, sizeof *want), *got = (draft_out *)calloc(1, sizeof *got);
    infer_error e;
    infer_model_params p;
    infer_model *right = NULL;
    size_t n = 0;
    char *image = nextn_right_image(&n);
    if (!image) return;
    memset(&p, 0, sizeof p);
    p.mtp = 1;
    if (infer_model_open_memory(&right, image, n, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    else {
        infer_generate_info info;
        draft_go(right, NULL, 0, 0, 60, NULL, want);
        info = draft_go(right, NULL, 4, 0, 60, NULL, got);
        want->s = got->s;
        CHECK(got->n == 60 && !memcmp(got, want, sizeof *got) && info.drafted > 45 && info.accepted == info.drafted);
        nextn_queue(right, want);
        draft_go(right, NULL, 0, 1, 60, NULL, want); /* drawn: now and then another one */
        info = draft_go(right, NULL, 4, 1, 60, NULL, got);
        want->s = got->s;
        CHECK(got->n == 60 && !memcmp(got, want, sizeof *got) && info.accepted > 0 && info.accepted < info.drafted);
        CHECK(infer_model_close(right) == INFER_OK);
    }
    free(image);
    free(want);
    free(got);
}

/* The same drafts behind the same tokens, whatever the way there. */
static void test_nextn_ways(void) {
    state_bytes b;
    infer_step st;
    infer_result r;
    infer_token ids[64], want[9], got[9];
    infer_error e;
    infer_model *m = nextn_model(nextn_files[0], 1, &e);
    infer_session *s = m ? nextn_session(m, 512) : NULL, *t = NULL;
    int32_t i;
    if (!s) { CHECK(!m); return; }
    cache_ids(ids, 64, 77, 128);
    CHECK(nextn_drafts(s, ids[0], got, 8) == 0); /* nothing is known yet */
    CHECK(infer_session_eval(s, ids, 50) == INFER_OK && nextn_drafts(s, ids[50], want, 8) == 8);
    CHECK(nextn_drafts(s, ids[50], got, 8) == 8 && !memcmp(want, got, sizeof got)); /* again */
    CHECK(infer_session_fork(&t, s, &e) == INFER_OK && nextn_drafts(t, ids[50], got, 8) == 8 && !memcmp(want, got, sizeof got));
    CHECK(infer_session_eval(t, ids + 3, 9) == INFER_OK && nextn_drafts(s, ids[50], got, 8) == 8 && !memcmp(want, got, sizeof got));
    infer_session_destroy(t);
    CHECK(infer_session_rewind(s, 40) == INFER_OK && infer_session_eval(s, ids + 40, 10) == INFER_OK);
    CHECK(nextn_drafts(s, ids[50], got, 8) == 8 && !memcmp(want, got, sizeof got));
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    for (i = 0; i < 50; i += 7) CHECK(infer_session_eval(s, ids + i, INFER__MIN(7, 50 - i)) == INFER_OK);
    CHECK(nextn_drafts(s, ids[50], got, 8) == 8 && !memcmp(want, got, sizeof got));
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = ids;
    st.n = 50;
    while ((r = infer_eval_slice(s->context, &st, 1, 0, &e)) == INFER_MORE) {}
    CHECK(r == INFER_OK && nextn_drafts(s, ids[50], got, 8) == 8 && !memcmp(want, got, sizeof got));
    CHECK(infer_session_rewind(s, 40) == INFER_OK);
    memset(&b, 0, sizeof b);
    CHECK(infer_session_save(s, state_write, &b) == INFER_OK);
    infer_session_destroy(s);
    s = nextn_session(m, 512);
    CHECK(s && infer_session_load(s, state_read, &b) == INFER_OK && nextn_drafts(s, ids[40], got, 8) == 0);
    CHECK(infer_session_eval(s, ids + 40, 10) == INFER_OK && nextn_drafts(s, ids[50], got, 8) == 8);
    /* of the first token behind what was loaded the hidden state before is not known: what is drafted may differ, no more */
    free(b.p);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_nextn_refused(void) {
    infer_error e;
    infer_generate_params p;
    infer_model *m = nextn_model("llama-dense", 1, &e);
    infer_session *s = NULL;
    CHECK(m && infer_session_create(&s, m, NULL, &e) == INFER_ERR_UNSUPPORTED && strstr(e.message, "no block that predicts"));
    CHECK(!m || infer_model_close(m) == INFER_OK);
    m = nextn_model(nextn_files[0], 0, &e);
    s = m ? nextn_session(m, 512) : NULL;
    if (s) {
        memset(&p, 0, sizeof p);
        p.mtp = 1;
        CHECK(infer_generate(s, NULL, NULL, &p, NULL) == INFER_ERR_ARGUMENT && strstr(infer_session_error(s)->message, "mtp"));
        infer_session_destroy(s);
    }
    CHECK(!m || infer_model_close(m) == INFER_OK);
}

/* The n-th allocation fails, from opening to drafts: an error, or what there is without, and nothing lost. */
static void test_nextn_memory(void) {
    infer_model_params p;
    infer_error e;
    infer_token ids[20], drafts[5];
    long at;
    int done = 0;
    memset(&p, 0, sizeof p);
    p.mtp = 1;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    cache_ids(ids, 20, 5, 128);
    for (at = 1; at < 2000 && !done; at += 1 + at / 40) {
        const long live = check_live;
        infer_model *m = NULL;
        infer_session *s = NULL, *f = NULL;
        infer_result r;
        check_allocs = 0;
        check_fail_at = at;
        r = infer_model_open(&m, check_data("archs/glm4moe-nextn-moe.gguf"), &p, &e);
        if (!r) r = infer_session_create(&s, m, NULL, &e);
        if (!r) r = infer_session_eval(s, ids, 19);
        if (!r) r = infer_session_fork(&f, s, &e);
        if (!r && nextn_drafts(f, ids[19], drafts, 4) != 4) CHECK(check_allocs >= at);
        CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
        done = r == INFER_OK && check_allocs < at;
        check_fail_at = 0;
        infer_session_destroy(f);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK && check_live == live);
    }
    CHECK(done);
}

static void suite_nextn(void) {
    if (!INFER__BIG_ENDIAN) { /* these edit numbers of files, which are little-endian */
        RUN(test_nextn_block);
        RUN(test_nextn_right);
        RUN(test_nextn_others);
    }
    RUN(test_nextn_same);
    RUN(test_nextn_ways);
    RUN(test_nextn_refused);
    RUN(test_nextn_memory);
}
