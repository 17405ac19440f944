/* test_gpu_lacks.c: what devices have no kernels for stays on the CPU, or is refused by name. Part of test_gpu_models.c.
 *
 * There are kernels for everything that files hold, so a model is opened for the CPU, a weight is given a made-up type, and
 * the model is placed again. */

static infer_model *lacks_open(const char *file) {
    infer_model *m;
    check_live = check_fail_at = 0;
    m = gpu_open(check_data(file), INFER_CPU, 0);
    if (m) m->params.backend = check_backend();
    return m;
}

/* Asked for so many layers (0: as many as go): so many go, or, when why is not NULL, none, and the error says that. */
static void lacks_place(infer_model *m, int32_t asked, int32_t layers, const char *why) {
    infer_error e;
    m->params.gpu_layers = asked;
    CHECK(infer__place_choose(m, &e) == (why ? INFER_ERR_UNSUPPORTED : INFER_OK));
    if (why) CHECK_HAS(e.message, why);
    else CHECK(m->device_layers == layers);
    infer__place_free(m);
}

static void lacks_close(infer_model *m) {
    CHECK(infer_model_close(m) == INFER_OK);
    CHECK(check_live == 0);
}

/* A type that only the CPU reads. */
static void test_gpu_model_type(void) {
    infer__quant odd;
    const infer__quant *was;
    infer_model *m;
    infer__weight *w;
    char why[160];
    int32_t i;
    GPU_NEEDED();
    m = lacks_open("models/stories260K.F32.gguf");
    if (!m) return;
    w = &m->layers[3].w[INFER__W_FFN_UP];
    was = w->type;
    odd = *was;
    odd.id = 1000;
    odd.name = "ODD";
    w->type = &odd;
    snprintf(why, sizeof why, "tensor %s: there are no GPU kernels for type ODD yet; ask for fewer gpu_layers", w->name);
    for (i = 1; i <= 5; i++) lacks_place(m, i, i, i > 3 ? why : NULL); /* the first three can go */
    lacks_place(m, 0, 3, NULL);
    w->type = was;
    w = &m->w[INFER__W_TOKEN_EMBD]; /* nothing can go without the embedding */
    was = w->type;
    w->type = &odd;
    lacks_place(m, 0, 0, "there are no GPU kernels for type ODD yet; this model runs on the CPU only");
    w->type = was;
    lacks_close(m);
}

/* An op that has no kernel for what a layer gives it keeps the layer on the CPU: taps that are not float32. */
static void test_gpu_model_lacks(void) {
    infer__quant odd = *infer__quant_find(0, NULL);
    infer_model *m;
    infer__weight *w = NULL;
    int32_t i;
    GPU_NEEDED();
    m = lacks_open("archs/lfm2-dense.gguf");
    if (!m) return;
    odd.id = 1; /* matrices of this type have kernels */
    for (i = 0; i < m->hp.n_layer && !w; i++)
        if (m->layers[i].w[INFER__W_SHORTCONV_TAPS].type) w = &m->layers[i].w[INFER__W_SHORTCONV_TAPS];
    CHECK(w != NULL);
    if (w) {
        w->type = &odd;
        lacks_place(m, i, 0, "there are no GPU kernels for its short convolution yet");
        w->type = infer__quant_find(0, NULL);
    }
    lacks_close(m);
}

static void lacks_rename(char *data, size_t n, const char *from, const char *to) {
    size_t len = strlen(from), i;
    for (i = 0; i + len < n; i++)
        if (memcmp(data + i, from, len) == 0) memcpy(data + i, to, len);
}

/* Gemma 4 without inputs of layers, as its larger models are: norms of values, heads of two widths, scales of the stream,
 * experts beside a dense FFN (without scales of their own). All of it goes to a device. */
static void lacks_gemma4(const char *path) {
    static const char key[] = "gemma4.embedding_length_per_layer_input";
    infer_model *m[2] = { NULL, NULL };
    infer_model_params p;
    infer_session_params sp;
    infer_error e;
    float *x[2] = { NULL, NULL };
    infer_token ids[40];
    size_t n, i;
    char *data;
    data = check_read(path, &n);
    check_detail = path;
    CHECK(data != NULL);
    if (!data) return;
    for (i = 0; i + sizeof key + 8 < n; i++)
        if (memcmp(data + i, key, sizeof key - 1) == 0) data[i + sizeof key - 1 + 4] = 0; /* behind its type */
    lacks_rename(data, n, "per_layer_", "per~layer_");
    lacks_rename(data, n, ".inp_gate.", ".inp~gate.");
    lacks_rename(data, n, ".proj.", ".pro~.");
    lacks_rename(data, n, ".post_norm.", ".post~norm.");
    lacks_rename(data, n, ".ffn_down_exps.scale", ".ffn_down_exps~scale");
    memset(&p, 0, sizeof p);
    memset(&sp, 0, sizeof sp);
    p.allow_unknown = 1;
    p.exact = gpu_exact; /* a device may round its inputs otherwise than the CPU does */
    sp.context = 64;
    sp.own.kv_type = INFER_KV_F32;
    for (i = 0; i < 40; i++) ids[i] = (infer_token)(i * 37 % 128);
    for (i = 0; i < 2; i++) {
        infer_session *s = NULL;
        p.backend = i ? check_backend() : INFER_CPU;
        CHECK(infer_model_open_memory(&m[i], data, n, &p, &e) == INFER_OK);
        if (!m[i]) break;
        CHECK_STR(infer_model_why_not(m[i]), "");
        CHECK(m[i]->device_layers == (i ? m[i]->hp.n_layer : 0));
        CHECK(infer_session_create(&s, m[i], &sp, &e) == INFER_OK);
        x[i] = (float *)calloc(128, sizeof(float));
        CHECK(s && infer_session_eval(s, ids, 30) == INFER_OK && infer_session_eval(s, ids + 30, 10) == INFER_OK);
        if (s && x[i] && infer_session_logits(s, -1)) memcpy(x[i], infer_session_logits(s, -1), 128 * sizeof(float));
        infer_session_destroy(s);
    }
    if (x[0] && x[1]) gpu_close_to("gemma4 without inputs of layers", x[1], x[0], 128);
    for (i = 0; i < 2; i++) {
        CHECK(infer_model_close(m[i]) == INFER_OK);
        free(x[i]);
    }
    free(data);
}

/* Layers that share keys and values run on one device: those before them go without them, or all. */
static void test_gpu_model_shared(void) {
    infer_model *m;
    int32_t i;
    GPU_NEEDED();
    m = lacks_open("archs/gemma4-sharedkv-dense.gguf");
    if (!m) return;
    CHECK(m->hp.n_layer == 6 && !m->layers[0].kv_read && m->layers[1].kv_read);
    for (i = 1; i <= 6; i++)
        lacks_place(m, i, i, i > 1 && i < 6 ? "layers 1 to 5 share keys and values and must run on one device; ask for fewer" : NULL);
    lacks_place(m, 0, 6, NULL);
    m->layers[0].kv_read = 1; /* all of them */
    lacks_place(m, 5, 0, "layers 0 to 5 share keys and values and must run on one device; ask for fewer gpu_layers, or for all");
    lacks_place(m, 0, 6, NULL);
    lacks_close(m);
}

static void test_gpu_model_gemma4(void) {
    char path[256];
    GPU_NEEDED();
    if (!check_reference("archs/gemma4-dense.gguf")) SKIP("needs INFER_TEST_DATA");
    snprintf(path, sizeof path, "%s", check_reference("archs/gemma4-dense.gguf"));
    lacks_gemma4(path);
    snprintf(path, sizeof path, "%s", check_reference("archs/gemma4-moe.gguf"));
    lacks_gemma4(path);
}
