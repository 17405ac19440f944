/* test_nextn_chain.c: several blocks that predict further tokens: what each predicts against the same block run as a model of its
 * own, by the formulas of layers/nextn.c; and what test_nextn.c checks of one block. No file that we have comes with several, so
 * these are made: layers of a recorded model as blocks, with changed weights. */

typedef struct chain_file {
    const char *file;
    int32_t from[3];      /* the layers that the blocks are copies of */
    const char *head[2];  /* names of a block's norm before the head, and of its head; NULL = the model's */
    int predicts;         /* what the architecture's blocks read, by the sources in layers/nextn.c and docs/architectures.md */
} chain_file;

static const chain_file chain_files[] = {
    { "step35-moe", { 1, 0, 1 }, { "nextn.shared_head_norm", "nextn.shared_head_head" }, INFER__PREDICTS | INFER__PREDICTS_BARE }, /* with a window, without one */
    { "mimo2-moe", { 1, 1, 0 }, { "layer_output_norm", NULL }, INFER__PREDICTS | INFER__PREDICTS_BARE | INFER__PREDICTS_BESIDE },
    { "glm4moe-moe", { 1, 1, 0 }, { NULL, "nextn.shared_head_head" }, INFER__PREDICTS }, /* hidden states behind norms */
};

/* One block, of architectures that no recorded file with one is of. */
static const chain_file chain_singles[] = {
    { "deepseek32-topk-moe", { 1 }, { "nextn.shared_head_norm", "nextn.shared_head_head" }, INFER__PREDICTS },
    { "glm-dsa-topk-moe", { 1 }, { "nextn.shared_head_norm", NULL }, INFER__PREDICTS },
    { "cohere2moe-moe", { 1 }, { NULL, NULL }, INFER__PREDICTS | INFER__PREDICTS_ROTATED },
    { "exaone-moe-moe", { 0 }, { "nextn.shared_head_norm", NULL }, INFER__PREDICTS },
    { "exaone4-swa-dense", { 0 }, { "nextn.shared_head_norm", NULL }, INFER__PREDICTS | INFER__PREDICTS_WINDOW },
    { "bailingmoe2-moe", { 1 }, { "layer_output_norm", NULL }, INFER__PREDICTS },
    { "bailingmoe3-moe", { 0 }, { "nextn.shared_head_norm", NULL }, INFER__PREDICTS },
    { "glm4-dense", { 1 }, { "nextn.shared_head_norm", "nextn.shared_head_head" }, INFER__PREDICTS },
    { "dots3note-moe", { 1 }, { "nextn.shared_head_norm", NULL }, INFER__PREDICTS | INFER__PREDICTS_WINDOW },
    { "hf/nemotron_h_moe", { 2 }, { "nextn.shared_head_norm", NULL }, INFER__PREDICTS },
};

static float chain_value(uint32_t *state, float middle, float reach) {
    *state = *state * 1664525u + 1013904223u;
    return middle + reach * ((float)(*state >> 8) / 8388608.0f - 1);
}

static void chain_random(gguf_writer *w, int32_t block, const char *name, uint64_t cols, uint64_t rows, float middle, float reach) {
    const uint64_t dims[2] = { cols, rows };
    float *x = (float *)malloc((size_t)(cols * rows) * sizeof *x);
    uint32_t state = (uint32_t)block * 77 + (uint32_t)strlen(name);
    char full[96];
    uint64_t i;
    for (i = 0; i < cols * rows; i++) x[i] = chain_value(&state, middle, reach);
    snprintf(full, sizeof full, "blk.%d.%s.weight", (int)block, name);
    gw_tensor(w, full, 0, rows > 1 ? 2 : 1, dims, x, (size_t)(cols * rows) * sizeof *x, 4);
    free(x);
}

/* The tensor of a layer as a block's: each its own weights. */
static void chain_tensor(gguf_writer *w, const infer__gguf_tensor *t, const char *name, int32_t block) {
    float *x;
    uint32_t state = (uint32_t)block * 991 + 5;
    uint64_t i;
    if (t->type->id != 0 || !t->data) { nextn_tensor(w, t, name, 0); return; } /* no data: the architecture drops it */
    x = (float *)malloc((size_t)t->bytes + 4);
    memcpy(x, t->data, (size_t)t->bytes);
    for (i = 0; i < t->bytes / 4; i++) x[i] *= chain_value(&state, 1, 0.5f);
    gw_tensor(w, name, 0, (uint32_t)t->n_dims, t->dims, x, (size_t)t->bytes, 4);
    free(x);
}

/* What is wrong with an image, or right: its layers add 0, and blocks make of an embedding what the head makes of it. */
enum { CHAIN_SOUND, CHAIN_RIGHT, CHAIN_LACKS_PROJ, CHAIN_TWO_NORMS, CHAIN_SHORT_WINDOWS };

/* A model with `blocks` blocks. To be freed, when models of it are closed. */
static unsigned char *chain_image(const chain_file *f, int32_t blocks, int kind, size_t *bytes) {
    infer_model *m = nextn_model(f->file, 0);
    const int32_t layers = m ? m->hp.n_layer : 0, width = m ? m->hp.n_embd : 0;
    const int32_t ffn_of = strcmp(f->file, "hf/nemotron_h_moe") ? -1 : 3; /* a block is two of its layers */
    int32_t from[96], ffn[96], i, b;
    nextn_shape shape = { layers, blocks, from, ffn, kind == CHAIN_SHORT_WINDOWS };
    gguf_writer w;
    if (!m) return NULL;
    gw_init(&w);
    w.big = INFER__BIG_ENDIAN;
    for (i = 0; i < layers + blocks; i++) {
        from[i] = i < layers ? i : f->from[(i - layers) % 3];
        ffn[i] = i < layers || ffn_of < 0 ? from[i] : ffn_of;
    }
    nextn_keys(&w, m, &shape);
    for (i = 0; i < m->gguf.n_tensors; i++) /* factors of pairs: a block alone may have no use for them */
        if (strcmp(m->gguf.tensors[i].name, "rope_freqs.weight") != 0)
            nextn_tensor(&w, &m->gguf.tensors[i], m->gguf.tensors[i].name, kind == CHAIN_RIGHT && nextn_adds(m->gguf.tensors[i].name));
    for (b = layers; b < layers + blocks; b++) {
        char block[16], name[96];
        const size_t len = (size_t)snprintf(block, sizeof block, "blk.%d.", (int)from[b]);
        for (i = 0; i < m->gguf.n_tensors; i++) {
            const infer__gguf_tensor *t = &m->gguf.tensors[i];
            const int second = ffn_of >= 0 && !strncmp(t->name, "blk.3.", 6);
            if (strncmp(t->name, block, len) && !second) continue;
            snprintf(name, sizeof name, "blk.%d.%s", (int)b, second && strstr(t->name, "attn_norm") ? "post_attention_norm.weight" : t->name + len);
            if (kind == CHAIN_RIGHT && nextn_adds(name)) nextn_tensor(&w, t, name, 1);
            else chain_tensor(&w, t, name, b);
        }
        if (kind == CHAIN_RIGHT) {
            nextn_right_block(&w, b, width);
            continue;
        }
        if (kind != CHAIN_LACKS_PROJ || b != layers + 1) chain_random(&w, b, "nextn.eh_proj", (uint64_t)width * 2, (uint64_t)width, 0, 0.2f);
        chain_random(&w, b, "nextn.enorm", (uint64_t)width, 1, 1, 0.6f);
        chain_random(&w, b, "nextn.hnorm", (uint64_t)width, 1, 1, 0.6f);
        if (kind == CHAIN_TWO_NORMS) chain_random(&w, b, "nextn.shared_head_norm", (uint64_t)width, 1, 1, 0.6f);
        if (f->head[0]) chain_random(&w, b, f->head[0], (uint64_t)width, 1, 1, 0.6f);
        if (f->head[1]) chain_random(&w, b, f->head[1], (uint64_t)width, (uint64_t)m->hp.n_vocab, 0, 0.3f);
    }
    CHECK(infer_model_close(m) == INFER_OK);
    return gw_finish(&w, bytes);
}

/* ---- what blocks compute ------------------------------------------------------------------------------------------- */

typedef struct chain_trace { int layer; size_t n; float *rows; } chain_trace;
static void chain_traced(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols) {
    chain_trace *t = (chain_trace *)user;
    if (layer != t->layer || strcmp(step, "out") != 0) return;
    memcpy(t->rows + t->n, x, rows * cols * sizeof *x);
    t->n += rows * cols;
}

/* Evaluate n tokens, or rows; *h: what their last layer gives, behind the norm before the head or not. */
static void chain_eval(infer_session *s, const infer_token *ids, const float *rows, int32_t n, int bare, float *h) {
    infer_step st;
    infer_error e;
    chain_trace trace;
    const infer_model *m = s->context->model;
    int32_t i;
    trace.layer = (int)m->hp.n_layer - 1;
    trace.n = 0;
    trace.rows = h;
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = ids;
    st.embeddings = rows;
    st.n = n;
    st.outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
    if (bare) {
        s->trace = chain_traced;
        s->trace_user = &trace;
    }
    CHECK(infer_eval(s->context, &st, 1, &e) == INFER_OK);
    CHECK(!bare || trace.n == (size_t)n * (size_t)m->hp.n_embd);
    for (i = 0; i < n && !bare; i++)
        memcpy(h + (size_t)i * (size_t)m->hp.n_embd, infer_session_hidden(s, i), (size_t)m->hp.n_embd * sizeof *h);
    s->trace = NULL;
}

/* What is kept of a level for the row before pos is what `h` has. */
static void chain_kept(const infer_session *s, int32_t block, int32_t pos, const float *h) {
    const float *kept = infer__further_hidden(s, block, pos);
    const int32_t width = s->context->model->hp.n_embd;
    double sum = 0, off = 0;
    int32_t i;
    CHECK(kept != NULL);
    for (i = 0; kept && i < width; i++) {
        sum += (double)h[i] * h[i];
        off += ((double)h[i] - kept[i]) * ((double)h[i] - kept[i]);
    }
    CHECK(off <= 1e-8 * sum);
}

static void chain_blocks(const chain_file *f) {
    infer_model_params p;
    infer_model *m, *alone[3];
    unsigned char *image, *images[3];
    size_t n = 0;
    int32_t k;
    int seed, differ = 0, beside, bare;
    memset(&p, 0, sizeof p);
    p.exact = p.mtp = 1;
    check_detail = f->file;
    image = chain_image(f, 3, CHAIN_SOUND, &n);
    m = image ? nextn_open(image, n, &p) : NULL;
    if (!m) { free(image); return; }
    beside = f->predicts & INFER__PREDICTS_BESIDE;
    bare = f->predicts & INFER__PREDICTS_BARE;
    CHECK(m->hp.n_predict == 3 && m->arch->predicts == f->predicts);
    p.mtp = 0;
    for (k = 0; k < 3; k++) {
        images[k] = nextn_alone(m, k, &n);
        alone[k] = nextn_open(images[k], n, &p);
    }
    for (seed = 0; seed < 14 && alone[0] && alone[1] && alone[2]; seed++) {
        static const int32_t batches[] = { 16, 512, 1, 3 };
        const int32_t count = seed < 3 ? seed + 1 : seed * 5, width = m->hp.n_embd, rows = count + 3;
        infer_session *s = cells_session(m, batches[seed % 4], 0, 2);
        infer_token ids[96], drafts[6];
        float *x = (float *)calloc((size_t)(rows * width), sizeof *x), *h[4];
        int32_t i;
        for (k = 0; k < 4; k++) h[k] = (float *)calloc((size_t)(rows * width), sizeof **h);
        cache_ids(ids, count + 1, (uint32_t)(seed + 1), 128);
        chain_eval(s, ids, NULL, count, bare, h[0]);
        CHECK(nextn_drafts(s, ids[count], drafts, 5) == 3); /* as many as there are blocks */
        for (k = 0; k < 3; k++) {
            infer_session *by = cells_session(alone[k], 512, 0, 2);
            for (i = 0; i <= count + k; i++) {
                const int32_t before = i - 1 - (beside ? k : 0);
                nextn_input(m, m->hp.n_layer + k, ids[i], before < 0 ? NULL : h[beside ? 0 : k] + before * width, x + i * width);
            }
            chain_eval(by, NULL, x, count + 1 + k, bare, h[k + 1]);
            CHECK(infer__sample_greedy(infer_session_logits(by, -1), m->hp.n_vocab, &ids[count + 1 + k], NULL) == INFER_OK);
            CHECK(drafts[k + 1] == ids[count + 1 + k]);
            differ += k > 0 && drafts[k + 1] != drafts[k];
            if (!beside) chain_kept(s, k, count, h[k] + (count - 1) * width);
            else if (count > k) chain_kept(s, k, count, h[0] + (count - 1 - k) * width);
            infer_session_destroy(by);
        }
        for (k = 0; k < 4; k++) free(h[k]);
        free(x);
        infer_session_destroy(s);
    }
    CHECK(differ > 5);
    for (k = 0; k < 3; k++) {
        CHECK(infer_model_close(alone[k]) == INFER_OK);
        free(images[k]);
    }
    CHECK(infer_model_close(m) == INFER_OK);
    free(image);
}

/* ---- what they change: nothing --------------------------------------------------------------------------------------- */

static void chain_changes(const chain_file *f) {
    infer_model_params p;
    infer_model *m;
    size_t n = 0;
    unsigned char *image = chain_image(f, 3, CHAIN_SOUND, &n);
    check_detail = f->file;
    if (!image) return;
    memset(&p, 0, sizeof p);
    p.exact = p.mtp = 1;
    m = nextn_open(image, n, &p);
    nextn_ways(m, 3);
    p.mtp = 0;
    nextn_same_models(m, nextn_open(image, n, &p)); /* which closes them */
    free(image);
}

/* Drafts that are right are taken, each as long as there are blocks. */
static void chain_right(const chain_file *f) {
    size_t n = 0;
    unsigned char *image = chain_image(f, 3, CHAIN_RIGHT, &n);
    check_detail = f->file;
    if (image) nextn_taken_image(image, n); /* which frees it */
}

static void chain_memory(const chain_file *f) {
    size_t n = 0;
    unsigned char *image = chain_image(f, 3, CHAIN_SOUND, &n);
    check_detail = f->file;
    if (image) nextn_memory(image, n, 3);
    free(image);
}

static void chain_refused(const chain_file *f, int32_t blocks, int kind, const char *why) {
    infer_model_params p;
    infer_error e;
    infer_model *m = NULL;
    infer_session *s = NULL;
    size_t n = 0;
    unsigned char *image = chain_image(f, blocks, kind, &n);
    memset(&p, 0, sizeof p);
    for (p.mtp = 1; image && p.mtp >= 0; p.mtp--) {
        CHECK(infer_model_open_memory(&m, image, n, &p, &e) == INFER_OK);
        if (p.mtp) {
            CHECK(infer_session_create(&s, m, NULL, &e) != INFER_OK);
            CHECK_HAS(e.message, why);
        } else CHECK_STR(infer_model_why_not(m), ""); /* plain decoding does not read blocks */
        CHECK(infer_model_close(m) == INFER_OK);
    }
    free(image);
}
static void test_nextn_chain_refused(void) {
    if (!check_reference("archs")) SKIP("needs INFER_TEST_DATA");
    chain_refused(&chain_files[0], 3, CHAIN_LACKS_PROJ, "missing tensor blk.3.nextn.eh_proj.weight");
    chain_refused(&chain_files[1], 2, CHAIN_TWO_NORMS, "both nextn.shared_head_norm and layer_output_norm");
    chain_refused(&chain_files[1], 17, CHAIN_SOUND, "17 blocks that predict");
}

/* How long the next draft is follows from how many of the last were right, also where blocks make it shorter than it might be. */
static void test_nextn_chain_length(void) {
    infer__drafting d;
    memset(&d, 0, sizeof d);
    d.mtp = 1;
    d.most = 8;
    d.now = 8;
    d.made = 3;
    infer__draft_judge(&d, 1);
    CHECK(d.now == 2);
    d.made = 2;
    infer__draft_judge(&d, 0);
    CHECK(d.now == 1);
    d.made = 1;
    infer__draft_judge(&d, 1);
    CHECK(d.now == 2);
    d.made = 2;
    infer__draft_judge(&d, 2);
    CHECK(d.now == 4);
}

/* Nemotron-H's block as a model of two layers. */
static unsigned char *chain_alone_nemotron(const infer_model *m, size_t *bytes) {
    const int32_t from[2] = { 2, 3 };
    const nextn_shape shape = { 2, 0, from, NULL, 0 };
    gguf_writer w;
    char block[16], name[96];
    const size_t len = (size_t)snprintf(block, sizeof block, "blk.%d.", (int)m->hp.n_layer);
    infer_model *trunk = nextn_model("hf/nemotron_h_moe", 0); /* whose keys are of its layers */
    int32_t i;
    if (!trunk) return NULL;
    gw_init(&w);
    w.big = INFER__BIG_ENDIAN;
    nextn_keys(&w, trunk, &shape);
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[i];
        const char *own = t->name + len;
        const int second = strstr(t->name, "ffn_") || strstr(t->name, "exp_probs_b");
        snprintf(name, sizeof name, "blk.%d.%s", second, own);
        if (strncmp(t->name, block, len) && strncmp(t->name, "blk.", 4) && strcmp(t->name, "output_norm.weight")) snprintf(name, sizeof name, "%s", t->name);
        else if (strncmp(t->name, block, len)) continue;
        else if (nextn_head_name(own)) snprintf(name, sizeof name, "%s", nextn_head_name(own));
        else if (!strncmp(own, "nextn.", 6)) continue;
        else if (!strcmp(own, "post_attention_norm.weight")) snprintf(name, sizeof name, "blk.1.attn_norm.weight");
        nextn_tensor(&w, t, name, 0);
    }
    CHECK(infer_model_close(trunk) == INFER_OK);
    return gw_finish(&w, bytes);
}

static void chain_single(const chain_file *f, int kind) {
    infer_model_params p;
    infer_model *m;
    size_t n = 0, bytes = 0;
    unsigned char *image = chain_image(f, 1, kind, &n), *alone;
    check_detail = f->file;
    if (!image) return;
    memset(&p, 0, sizeof p);
    p.exact = p.mtp = 1;
    m = nextn_open(image, n, &p);
    if (m) {
        CHECK(m->arch->predicts == f->predicts);
        alone = strcmp(f->file, "hf/nemotron_h_moe") ? nextn_alone(m, 0, &bytes) : chain_alone_nemotron(m, &bytes);
        nextn_block_of(m, alone, bytes);
    }
    p.mtp = 0;
    nextn_same_models(m, nextn_open(image, n, &p)); /* which closes them */
    free(image);
}
static void test_nextn_chain_singles(void) {
    size_t i;
    if (!check_reference("archs")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(chain_singles); i++) chain_single(&chain_singles[i], CHAIN_SOUND);
}

/* Files whose pattern of windows is of layers only: blocks have one, where the makers' code says so. */
static void test_nextn_chain_windows(void) {
    size_t i;
    if (!check_reference("archs")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(chain_singles); i++) {
        const chain_file *f = &chain_singles[i];
        if (!strcmp(f->file, "dots3note-moe") || !strcmp(f->file, "exaone4-swa-dense")) chain_single(f, CHAIN_SHORT_WINDOWS);
        if (!strcmp(f->file, "exaone-moe-moe")) chain_refused(f, 1, CHAIN_SHORT_WINDOWS, "does not say it of block 2");
    }
}

static void chain_all(void (*check)(const chain_file *f)) {
    size_t i;
    for (i = 0; i < INFER__COUNT(chain_files); i++) check(&chain_files[i]);
}
static void test_nextn_chain_blocks(void) {
    if (!check_reference("archs")) SKIP("needs INFER_TEST_DATA");
    chain_all(chain_blocks);
}
static void test_nextn_chain_changes(void) {
    if (!check_reference("archs")) SKIP("needs INFER_TEST_DATA");
    chain_all(chain_changes);
}

static void test_nextn_chain_right(void) {
    if (!check_reference("archs")) SKIP("needs INFER_TEST_DATA");
    chain_all(chain_right);
}
static void test_nextn_chain_memory(void) {
    if (!check_reference("archs")) SKIP("needs INFER_TEST_DATA");
    chain_all(chain_memory);
}

static void suite_nextn_chain(void) {
    RUN(test_nextn_chain_blocks);
    RUN(test_nextn_chain_changes);
    RUN(test_nextn_chain_singles);
    RUN(test_nextn_chain_windows);
    RUN(test_nextn_chain_right);
    RUN(test_nextn_chain_refused);
    RUN(test_nextn_chain_length);
    RUN(test_nextn_chain_memory);
}
