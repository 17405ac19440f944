/* test_nextn.c: the block that predicts further tokens: what it predicts against the same block run as a model of its own, drafts
 * that change nothing, pieces, forks, rewinds and saved sessions, refusals, no memory. */

static infer_model *nextn_model(const char *name, int mtp) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    char file[128];
    snprintf(file, sizeof file, strncmp(name, "hf/", 3) ? "archs/%s.gguf" : "%s/model.gguf", name);
    check_detail = name;
    memset(&p, 0, sizeof p);
    p.exact = 1;
    p.mtp = mtp;
    if (infer_model_open(&m, check_data_or_reference(file, NULL), &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

/* `room` drafts behind a token that was chosen: ids[0] is it. */
static int32_t nextn_drafts(infer_session *s, infer_token token, infer_token *ids, int32_t room) {
    int32_t made = 0;
    ids[0] = token;
    CHECK(infer__further_draft(s, ids, room, &made) == INFER_OK);
    return made;
}

/* ---- files that are made of a model's ------------------------------------------------------------------------------ */

/* Layers, and blocks that predict behind them; from: which of the model's blocks each of them is, ffn: and whose FFN it has, NULL:
 * its own; short_windows: nothing says whether blocks have a window. */
typedef struct nextn_shape { int32_t layers, predict; const int32_t *from, *ffn; int short_windows; } nextn_shape;

/* Keys of the model, but for those that say how many blocks there are and what they are; values by block are theirs. */
static void nextn_keys(gguf_writer *w, const infer_model *m, const nextn_shape *shape) {
    const int32_t blocks = shape->layers + shape->predict, told = shape->short_windows ? shape->layers : blocks;
    const int windows = m->hp.window > 0; /* of which layers is said for each */
    char key[64];
    int32_t i;
    uint64_t j;
    for (i = 0; i < m->gguf.n_kv; i++) {
        const infer__kv *kv = &m->gguf.kv[i];
        const infer__str *texts = (const infer__str *)kv->data;
        const size_t size = kv->type == GW_ARRAY && kv->element != GW_STRING ? gw_size((int)kv->element) : 0;
        const int each = size && kv->n == (uint64_t)m->hp.n_block && !strncmp(kv->key, m->arch->name, strlen(m->arch->name));
        const int32_t *from = shape->ffn && strstr(kv->key, ".feed_forward_length") ? shape->ffn : shape->from;
        const uint64_t n = each ? (uint64_t)blocks : kv->n;
        double number;
        int64_t whole;
        if (strstr(kv->key, ".block_count") || strstr(kv->key, ".nextn_predict_layers") || strstr(kv->key, ".leading_dense_block_count")) continue;
        if (windows && strstr(kv->key, ".attention.sliding_window_pattern")) continue;
        if (kv->type == GW_STRING) gw_strn(w, kv->key, kv->data, (size_t)kv->n);
        else if (kv->type == GW_ARRAY) {
            gw_array(w, kv->key, kv->element, n);
            for (j = 0; j < n; j++) {
                if (!size) gw_raw_string(w, &w->kv, texts[j].s, (size_t)texts[j].n);
                else gw_add(&w->kv, (const char *)kv->data + (each ? (uint64_t)from[j] : j) * size, size);
            }
        } else if (kv->type == GW_F32) {
            memcpy(&number, kv->data, 8);
            gw_f32(w, kv->key, (float)number);
        } else {
            memcpy(&whole, kv->data, 8);
            gw_int(w, kv->key, (int)kv->type, whole);
        }
    }
    snprintf(key, sizeof key, "%s.block_count", m->arch->name);
    gw_int(w, key, GW_U32, blocks);
    snprintf(key, sizeof key, "%s.leading_dense_block_count", m->arch->name);
    if (infer__gguf_peek(&m->gguf, key)) gw_int(w, key, GW_U32, shape->layers > 1 || (m->arch->predicts & INFER__PREDICTS_ROTATED));
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", m->arch->name);
    if (windows) gw_array(w, key, GW_U8, (uint64_t)told);
    for (i = 0; windows && i < told; i++) {
        const uint8_t has = m->layers[shape->from[i]].window > 0;
        gw_add(&w->kv, &has, 1);
    }
    snprintf(key, sizeof key, "%s.nextn_predict_layers", m->arch->name);
    if (shape->predict) gw_int(w, key, GW_U32, shape->predict);
}

static void nextn_tensor(gguf_writer *w, const infer__gguf_tensor *t, const char *name, int zero) {
    const size_t element = t->type->values == 1 ? (size_t)t->type->bytes : 1;
    w->big = INFER__BIG_ENDIAN; /* data is this machine's */
    gw_tensor(w, name, (uint32_t)t->type->id, (uint32_t)t->n_dims, t->dims, zero ? NULL : t->data, (size_t)t->bytes, element);
}

/* The names in a model of the block alone of what the head reads. */
static const char *nextn_head_name(const char *own) {
    if (!strcmp(own, "nextn.shared_head_norm.weight") || !strcmp(own, "layer_output_norm.weight")) return "output_norm.weight";
    return strcmp(own, "nextn.shared_head_head.weight") ? NULL : "output.weight";
}

/* A model of one layer, the k-th block, with its norm and head, its own or the model's. */
static unsigned char *nextn_alone(const infer_model *m, int32_t k, size_t *bytes) {
    gguf_writer w;
    char block[16];
    const int32_t from = m->hp.n_layer + k;
    const nextn_shape shape = { 1, 0, &from, NULL, 0 };
    int32_t i;
    const size_t len = (size_t)snprintf(block, sizeof block, "blk.%d.", (int)from);
    int own_norm = 0, own_head = 0;
    gw_init(&w);
    w.big = INFER__BIG_ENDIAN;
    nextn_keys(&w, m, &shape);
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const char *name = m->gguf.tensors[i].name;
        const char *head = strncmp(name, block, len) ? NULL : nextn_head_name(name + len);
        own_norm = own_norm || (head && !strcmp(head, "output_norm.weight"));
        own_head = own_head || (head && !strcmp(head, "output.weight"));
    }
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[i];
        const char *own = strncmp(t->name, block, len) ? NULL : t->name + len;
        char name[96];
        snprintf(name, sizeof name, "%s%s", own ? "blk.0." : "", own ? own : t->name);
        if (own && nextn_head_name(own)) snprintf(name, sizeof name, "%s", nextn_head_name(own));
        else if (own ? !strncmp(own, "nextn.", 6) : !strncmp(t->name, "blk.", 4)) continue;
        else if ((own_norm && !strcmp(t->name, "output_norm.weight")) || (own_head && !strcmp(t->name, "output.weight"))) continue;
        nextn_tensor(&w, t, name, 0);
    }
    return gw_finish(&w, bytes);
}

/* 1 for the tensors through which layers add to the stream. */
static int nextn_adds(const char *name) {
    static const char *const last[] = { "attn_output.weight", "ssm_out.weight", "ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight" };
    size_t k;
    for (k = 0; k < INFER__COUNT(last); k++)
        if (!strncmp(name, "blk.", 4) && strstr(name, last[k])) return 1;
    return 0;
}

/* What makes block b give the normed embedding to the head. */
static void nextn_right_block(gguf_writer *w, int32_t b, int32_t width) {
    const uint64_t dims[2] = { (uint64_t)width * 2, (uint64_t)width };
    float *proj = (float *)calloc((size_t)width * (size_t)width * 2, sizeof *proj);
    char name[96];
    int32_t r;
    for (r = 0; r < width; r++) proj[(size_t)r * (size_t)width * 2 + (size_t)r] = 1; /* [1 | 0] */
    snprintf(name, sizeof name, "blk.%d.nextn.eh_proj.weight", (int)b);
    gw_tensor(w, name, 0, 2, dims, proj, (size_t)width * (size_t)width * 8, 4);
    for (r = 0; r < width; r++) proj[r] = 1;
    snprintf(name, sizeof name, "blk.%d.nextn.enorm.weight", (int)b);
    gw_tensor(w, name, 0, 1, dims + 1, proj, (size_t)width * 4, 4);
    snprintf(name, sizeof name, "blk.%d.nextn.hnorm.weight", (int)b);
    gw_tensor(w, name, 0, 1, dims + 1, proj, (size_t)width * 4, 4);
    free(proj);
}

/* A file whose layers add 0, with a block, the last layer once more, that makes of an embedding what the head makes of it: what it
 * predicts is right. Embeddings, norm and head are the model's. To be freed, when models of it are closed. */
static unsigned char *nextn_right(const char *file, size_t *bytes) {
    infer_model *m = nextn_model(file, 0);
    const int32_t layers = m ? m->hp.n_layer : 0;
    int32_t i, blocks[256];
    nextn_shape shape = { 0, 1, blocks, NULL, 0 };
    gguf_writer w;
    char name[96], from[16];
    size_t len;
    if (!m || layers > 255) return NULL;
    gw_init(&w);
    w.big = INFER__BIG_ENDIAN;
    for (i = 0; i <= layers; i++) blocks[i] = INFER__MIN(i, layers - 1);
    shape.layers = layers;
    nextn_keys(&w, m, &shape);
    len = (size_t)snprintf(from, sizeof from, "blk.%d.", (int)layers - 1);
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[i];
        if (!strncmp(t->name, "blk.", 4) && atoi(t->name + 4) >= layers) continue; /* its own block */
        nextn_tensor(&w, t, t->name, nextn_adds(t->name));
        snprintf(name, sizeof name, "blk.%d.%s", (int)layers, t->name + len);
        if (!strncmp(t->name, from, len)) nextn_tensor(&w, t, name, nextn_adds(name));
    }
    nextn_right_block(&w, layers, m->hp.n_embd);
    CHECK(infer_model_close(m) == INFER_OK);
    return gw_finish(&w, bytes);
}

static infer_model *nextn_open(const unsigned char *image, size_t n, infer_model_params *p) {
    infer_model *m = NULL;
    infer_error e;
    if (infer_model_open_memory(&m, image, n, p, &e)) check_note(__FILE__, __LINE__, e.message);
    else CHECK_STR(infer_model_why_not(m), "");
    return m;
}

/* ---- what the block computes --------------------------------------------------------------------------------------- */

/* A row of a tensor as floats. */
static void nextn_row(const infer_model *m, const char *name, int block, uint64_t row, float *to) {
    char full[64];
    const infer__gguf_tensor *t;
    snprintf(full, sizeof full, "blk.%d.nextn.%s.weight", block, name);
    t = infer__gguf_tensor_find(&m->gguf, full);
    if (!t && !strcmp(name, "embed_tokens")) t = infer__gguf_tensor_find(&m->gguf, "token_embd.weight");
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

/* Drafts of texts of 1 to 56 tokens: what the block as a model, the image (which is freed), says is likeliest. */
static void nextn_block_of(infer_model *m, unsigned char *image, size_t n) {
    infer_error e;
    infer_model_params p;
    infer_model *alone;
    int block, seed, other = 0;
    block = m->hp.n_layer;
    memset(&p, 0, sizeof p);
    p.exact = 1;
    p.allow_unknown = 1; /* keys of layers that the block is not like */
    alone = nextn_open(image, n, &p);
    for (seed = 0; alone && seed < 12; seed++) {
        const int32_t count = 1 + seed * 5, width = m->hp.n_embd;
        infer_session *s = cells_session(m, seed % 3 ? 16 : 512, 0, 2), *by = cells_session(alone, 512, 0, 2);
        infer_token ids[72], drafts[4], want;
        float *x = (float *)malloc((size_t)(count + 3) * (size_t)width * sizeof *x);
        infer_step st;
        int32_t i, k;
        cache_ids(ids, count + 1, (uint32_t)(seed + 1), 128);
        memset(&st, 0, sizeof st);
        st.session = s;
        st.tokens = ids;
        st.n = count;
        st.outputs = INFER_OUT_HIDDEN;
        CHECK(infer_eval(s->context, &st, 1, &e) == INFER_OK);
        for (i = 0; i <= count; i++)
            nextn_input(m, block, ids[i], i ? infer_session_hidden(s, i - 1) : NULL, x + i * width);
        memset(&st, 0, sizeof st);
        st.session = by;
        st.embeddings = x;
        st.n = count + 1;
        st.outputs = INFER_OUT_LAST | INFER_OUT_HIDDEN;
        CHECK(infer_eval(by->context, &st, 1, &e) == INFER_OK);
        CHECK(nextn_drafts(s, ids[count], drafts, 3) == 3);
        for (k = 1; k <= 3; k++) {
            CHECK(infer__sample_greedy(infer_session_logits(by, -1), m->hp.n_vocab, &want, &e) == INFER_OK && drafts[k] == want);
            other += k > 1 && drafts[k] != drafts[k - 1];
            nextn_input(m, block, want, infer_session_hidden(by, -1), x); /* its own hidden state is the next one's */
            st.n = 1;
            CHECK(infer_eval(by->context, &st, 1, &e) == INFER_OK);
        }
        free(x);
        infer_session_destroy(s);
        infer_session_destroy(by);
    }
    CHECK(other > 5); /* not one token for everything */
    CHECK(infer_model_close(alone) == INFER_OK);
    free(image);
}
static void nextn_block(const char *file) {
    infer_model *m = nextn_model(file, 1);
    size_t n = 0;
    unsigned char *image = m ? nextn_alone(m, 0, &n) : NULL;
    if (m) nextn_block_of(m, image, n);
    CHECK(!m || infer_model_close(m) == INFER_OK);
}
static void test_nextn_block(void) { nextn_block("glm4moe-nextn-moe"); }

/* ---- drafts change nothing ---------------------------------------------------------------------------------------- */

/* Tokens, text and logits of two generations are the same. */
static int nextn_alike(draft_out *want, const draft_out *got) {
    want->s = got->s;
    return got->n == 60 && memcmp(got, want, sizeof *got) == 0;
}

static void nextn_same_models(infer_model *m, infer_model *plain) {
    draft_out *want = (draft_out *)calloc(1, sizeof *want), *got = (draft_out *)calloc(1, sizeof *got);
    int sampled;
    for (sampled = 0; m && plain && sampled < 2; sampled++) {
        draft_go(plain, NULL, 0, sampled, 60, NULL, want);
        draft_go(m, NULL, 0, sampled, 60, NULL, got);
        CHECK(nextn_alike(want, got)); /* the block alone changes nothing */
        CHECK(draft_go(m, NULL, 4, sampled, 60, NULL, got).drafted > 10 && nextn_alike(want, got));
    }
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(plain) == INFER_OK);
    free(want);
    free(got);
}
static void nextn_same(const char *file) { nextn_same_models(nextn_model(file, 1), nextn_model(file, 0)); }
static void test_nextn_same(void) { nextn_same("glm4moe-nextn-moe"); }

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
        CHECK(info.generate.drafted >= 40 && info.generate.accepted == info.generate.drafted);
        CHECK(got[k].n == 60 && !memcmp(got[k].tokens, want->tokens, 60 * sizeof *want->tokens));
        infer_request_close(r[k]);
    }
    CHECK(infer_queue_destroy(q) == INFER_OK);
    free(got);
}

/* Drafts that are right are taken, all of them; with a sampler those that it chooses. */
static void nextn_taken_image(unsigned char *image, size_t n) {
    draft_out *want = (draft_out *)calloc(1, sizeof *want), *got = (draft_out *)calloc(1, sizeof *got);
    infer_generate_info info;
    infer_model_params p;
    infer_model *m;
    memset(&p, 0, sizeof p);
    p.mtp = 1;
    m = image ? nextn_open(image, n, &p) : NULL;
    if (m) {
        draft_go(m, NULL, 0, 0, 60, NULL, want);
        info = draft_go(m, NULL, 4, 0, 60, NULL, got);
        CHECK(nextn_alike(want, got) && info.drafted >= 40 && info.accepted == info.drafted);
        nextn_queue(m, want);
        draft_go(m, NULL, 0, 1, 60, NULL, want);
        info = draft_go(m, NULL, 4, 1, 60, NULL, got);
        CHECK(nextn_alike(want, got) && info.accepted > 0 && info.accepted < info.drafted);
    }
    CHECK(infer_model_close(m) == INFER_OK);
    free(image);
    free(want);
    free(got);
}
static void nextn_taken_all(const char *file) {
    size_t n = 0;
    unsigned char *image = nextn_right(file, &n);
    nextn_taken_image(image, n);
}
static void test_nextn_right(void) {
    static const char *const files[] = { "glm4moe-nextn-moe", "qwen35-dense", "hy_v3-moe" };
    size_t i;
    for (i = 0; i < INFER__COUNT(files); i++) nextn_taken_all(files[i]);
}

static void test_nextn_references(void) {
    static const char *const files[] = { "deepseek2-nextn-moe", "qwen35moe-moe", "qwen3next-moe" };
    size_t i;
    if (!check_reference("archs")) SKIP("needs INFER_TEST_DATA");
    nextn_block(files[0]);
    nextn_same(files[0]);
    for (i = 0; i < INFER__COUNT(files); i++) nextn_taken_all(files[i]);
}

/* The same drafts behind the same tokens, whatever the way there. */
static void nextn_ways(infer_model *m, int32_t most) {
    state_bytes b;
    infer_step st;
    infer_result r;
    infer_token ids[64], want[9], got[9];
    infer_error e;
    infer_session *s = m ? cells_session(m, 512, 0, 4) : NULL, *t = NULL;
    int32_t i;
    if (!s) { CHECK(0); return; }
    cache_ids(ids, 64, 77, 128);
    CHECK(nextn_drafts(s, ids[0], got, 8) == 0); /* nothing is known yet */
    CHECK(infer_session_eval(s, ids, 50) == INFER_OK && nextn_drafts(s, ids[50], want, 8) == most);
    CHECK(nextn_drafts(s, ids[50], got, 8) == most && !memcmp(want, got, sizeof *got * (size_t)(most + 1))); /* again */
    CHECK(infer_session_fork(&t, s, &e) == INFER_OK && nextn_drafts(t, ids[50], got, 8) == most && !memcmp(want, got, sizeof *got * (size_t)(most + 1)));
    CHECK(infer_session_eval(t, ids + 3, 9) == INFER_OK && nextn_drafts(s, ids[50], got, 8) == most && !memcmp(want, got, sizeof *got * (size_t)(most + 1)));
    infer_session_destroy(t);
    CHECK(infer_session_rewind(s, 40) == INFER_OK && infer_session_eval(s, ids + 40, 10) == INFER_OK);
    CHECK(nextn_drafts(s, ids[50], got, 8) == most && !memcmp(want, got, sizeof *got * (size_t)(most + 1)));
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    for (i = 0; i < 50; i += 7) CHECK(infer_session_eval(s, ids + i, INFER__MIN(7, 50 - i)) == INFER_OK);
    CHECK(nextn_drafts(s, ids[50], got, 8) == most && !memcmp(want, got, sizeof *got * (size_t)(most + 1)));
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = ids;
    st.n = 50;
    while ((r = infer_eval_slice(s->context, &st, 1, 0, &e)) == INFER_MORE) {}
    CHECK(r == INFER_OK && nextn_drafts(s, ids[50], got, 8) == most && !memcmp(want, got, sizeof *got * (size_t)(most + 1)));
    CHECK(infer_session_rewind(s, 40) == INFER_OK);
    memset(&b, 0, sizeof b);
    CHECK(infer_session_save(s, state_write, &b) == INFER_OK);
    infer_session_destroy(s);
    s = cells_session(m, 512, 0, 4);
    CHECK(s && infer_session_load(s, state_read, &b) == INFER_OK && nextn_drafts(s, ids[40], got, 8) == 0);
    CHECK(infer_session_eval(s, ids + 40, 10) == INFER_OK && nextn_drafts(s, ids[50], got, 8) == most);
    /* of the first token behind what was loaded the hidden state before is not known: what is drafted may differ, no more */
    free(b.p);
    infer_session_destroy(s);
}
static void test_nextn_ways(void) {
    infer_model *m = nextn_model("glm4moe-nextn-moe", 1);
    nextn_ways(m, 8);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* A text in slices, drafted by the block. */
static void test_nextn_slices(void) {
    infer_model *m = nextn_model("glm4moe-nextn-moe", 1);
    infer_session *s = m ? cells_session(m, 512, 0, 2) : NULL;
    infer_generate_params p;
    infer_generate_info want, got;
    infer_generation *x = NULL;
    infer_token ids[40], said[50];
    infer_error e;
    int32_t i, within = 0;
    if (!s) return;
    memset(&p, 0, sizeof p);
    for (i = 0; i < 40; i++) ids[i] = (infer_token)(i % 9 * 3 + 1);
    p.max_tokens = 50;
    p.ignore_end = p.mtp = 1;
    p.draft_tokens = 5;
    CHECK(infer_session_eval(s, ids, 40) == INFER_OK && infer_generate(s, NULL, NULL, &p, &want) == INFER_OK);
    memcpy(said, infer_session_tokens(s) + 40, sizeof said);
    CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, 40) == INFER_OK);
    CHECK(infer_generation_begin(&x, s, NULL, NULL, &p, &e) == INFER_OK);
    while (x && infer_generation_next(x, 0, NULL, NULL) == INFER_MORE) within += x->g.drafting;
    CHECK(infer_generation_info(x, &got) == INFER_OK && infer_generation_end(x) == INFER_OK);
    CHECK(within > 0 && memcmp(&got, &want, sizeof got) == 0 && memcmp(said, infer_session_tokens(s) + 40, sizeof said) == 0);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_nextn_refused(void) {
    infer_error e;
    infer_generate_params p;
    infer_model *m = nextn_model("llama-dense", 1);
    infer_session *s = NULL;
    CHECK(m && infer_session_create(&s, m, NULL, &e) == INFER_ERR_UNSUPPORTED && strstr(e.message, "no block that predicts"));
    CHECK(!m || infer_model_close(m) == INFER_OK);
    m = nextn_model("glm4moe-nextn-moe", 0);
    s = m ? cells_session(m, 512, 0, 4) : NULL;
    CHECK(s != NULL);
    if (s) {
        memset(&p, 0, sizeof p);
        p.mtp = 1;
        CHECK(infer_generate(s, NULL, NULL, &p, NULL) == INFER_ERR_ARGUMENT && strstr(infer_session_error(s)->message, "mtp"));
        infer_session_destroy(s);
    }
    CHECK(!m || infer_model_close(m) == INFER_OK);
}

/* The n-th allocation fails, from opening to drafts: an error, or what there is without, and nothing lost. */
static void nextn_memory(const unsigned char *image, size_t n, int32_t most) {
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
        r = infer_model_open_memory(&m, image, n, &p, &e);
        if (!r) r = infer_session_create(&s, m, NULL, &e);
        if (!r) r = infer_session_eval(s, ids, 19);
        if (!r) r = infer_session_fork(&f, s, &e);
        if (!r && nextn_drafts(f, ids[19], drafts, most) != most) CHECK(check_allocs >= at);
        CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
        done = r == INFER_OK && check_allocs < at;
        check_fail_at = 0;
        infer_session_destroy(f);
        infer_session_destroy(s);
        CHECK(infer_model_close(m) == INFER_OK && check_live == live);
    }
    CHECK(done);
}
static void test_nextn_memory(void) {
    size_t n = 0;
    unsigned char *image = nextn_right("glm4moe-nextn-moe", &n);
    if (image) nextn_memory(image, n, 4);
    free(image);
}

static void suite_nextn(void) {
    RUN(test_nextn_block);
    RUN(test_nextn_same);
    RUN(test_nextn_right);
    RUN(test_nextn_references);
    RUN(test_nextn_ways);
    RUN(test_nextn_slices);
    RUN(test_nextn_refused);
    RUN(test_nextn_memory);
}
