/* test_stack_blocks.c: Gemma 3n's encoder of pictures (stack/mobile.c), with the small files of tests/make_gemma3nv.py: recorded
 * and exact embeddings, logits after them, threads and levels, bad files, failing allocations. After test_stack.c. */

/* Files, pictures of each, and how many were recorded with llama.cpp: it computes no odd sides. */
static const struct { const char *name; int pictures, recorded; } BLOCKS[] = { { "gemma3nv", 4, 4 }, { "gemma3nv-pooled", 2, 2 }, { "gemma3nv-odd", 4, 0 } };

static const char *blocks_path(const char *name, int number, const char *end) {
    char path[100];
    if (number < 0) snprintf(path, sizeof path, "media/%s.%s", name, end);
    else snprintf(path, sizeof path, "media/%s.%d.%s", name, number, end);
    return check_data(path);
}

/* Value c of a pixel of picture n, as make_gemma3nv.py has it. */
static uint8_t blocks_pixel(int n, int64_t side, int64_t x, int64_t y, int64_t c) {
    switch (n) {
    case 0: return (uint8_t)(x * 5 + y * 3 + c * 40 + x * y / 7);
    case 1: return (uint8_t)(((x - side / 3) * (x - side / 3) + (y - side / 2) * (y - side / 2)) / 8 * (4 + c));
    case 2: return (uint8_t)((x / 8 + y / 8) % 2 * 200 + 20 * c);
    default: return (uint8_t)((x * 7919 + y * 104729 + c * 31) * (int64_t)2654435761u >> 7);
    }
}
static float *blocks_picture(int n, int32_t side) {
    float *v = (float *)malloc((size_t)side * (size_t)side * 3 * sizeof *v);
    int32_t i;
    for (i = 0; i < side * side * 3; i++) v[i] = (float)blocks_pixel(n, side, i / 3 % side, i / 3 / side, i % 3) / 255.0f;
    return v;
}

static infer_model *blocks_open(const char *name, int32_t level, infer_error *e) {
    infer__gguf_origin o;
    infer_model_params p;
    infer_model *m = NULL;
    memset(&o, 0, sizeof o);
    memset(&p, 0, sizeof p);
    o.path = blocks_path(name, -1, "gguf");
    p.cpu_level = level;
    p.exact = level != INFER_CPU_BEST;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    if (infer__stack_open(&m, &o, INFER__STACK_VISION, &p, e)) check_note(__FILE__, __LINE__, e->message);
    return m;
}

static void blocks_compare(const char *path, const float *got, const stack_entry *x, double limit) {
    seen_rows want;
    double error;
    char text[160];
    if (!seen_read(&want, path)) { check_note(__FILE__, __LINE__, path); return; }
    CHECK(want.n == x->tokens && want.width == x->cols);
    error = check_nmse(got, want.v, (size_t)want.n * (size_t)want.width);
    snprintf(text, sizeof text, "%.100s: nmse %.3g", path, error);
    if (getenv("CHECK_VERBOSE")) printf("%s\n", text);
    if (!(error <= limit)) check_note(__FILE__, __LINE__, text);
    seen_rows_free(&want);
}

static void test_stack_blocks(void) {
    static const int32_t levels[] = { INFER_CPU_BEST, INFER_CPU_SCALAR };
    size_t f, l;
    int i;
    for (f = 0; f < INFER__COUNT(BLOCKS); f++)
        for (l = 0; l < INFER__COUNT(levels); l++) {
            infer_error e;
            infer_model *m = blocks_open(BLOCKS[f].name, levels[l], &e);
            for (i = 0; m && i < (l ? 1 : BLOCKS[f].pictures); i += check_every(3)) {
                stack_entry x;
                float *in = blocks_picture(i, m->stack.image), *one, *three;
                memset(&x, 0, sizeof x);
                x.in = in;
                x.width = x.height = m->stack.image;
                x.tokens = infer__stack_tokens(m, x.width, x.height, &e);
                x.cols = m->hp.n_out;
                check_detail = BLOCKS[f].name;
                one = stack_run(m, &x, 1);
                three = i ? NULL : stack_run(m, &x, 3);
                if (one && i < BLOCKS[f].recorded) blocks_compare(blocks_path(BLOCKS[f].name, i, "embd"), one, &x, STACK_LIMIT);
                if (one) blocks_compare(blocks_path(BLOCKS[f].name, i, "exact"), one, &x, l ? 1e-10 : STACK_LIMIT);
                if (one && three) CHECK(memcmp(one, three, (size_t)x.tokens * (size_t)x.cols * sizeof *one) == 0);
                free(one);
                free(three);
                free(in);
            }
            CHECK(m && infer_model_close(m) == INFER_OK);
        }
}

/* From a picture's bytes to the logits of a text model: those that llama.cpp has after the exact embeddings. (After its own
 * they are 1.5e-5 away from these: gates that are cut at a mean multiply the noise of F16.) */
static void test_stack_blocks_logits(void) {
    static const infer_token before[] = { 1, 5, 9 }, after[] = { 7, 3, 2, 30 };
    static uint8_t rgb[64 * 64 * 3];
    float got[7 * 32], same[7 * 32];
    infer_model_params p;
    infer_model *m = NULL;
    infer_context *c = NULL;
    infer_session *s;
    infer_image image;
    infer_error e;
    seen_case x;
    int32_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    memset(&p, 0, sizeof p);
    memset(&x, 0, sizeof x);
    memset(&image, 0, sizeof image);
    p.projector = blocks_path("gemma3nv", -1, "gguf");
    for (i = 0; i < 64 * 64 * 3; i++) rgb[i] = blocks_pixel(2, 64, i / 3 % 64, i / 3 / 64, i % 3);
    image.width = image.height = 64;
    image.rgb = rgb;
    if (infer_model_open(&m, check_reference("archs/gemma3n-dense.gguf"), &p, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (i = 0; i < m->hp.n_layer; i++) /* llama.cpp's deviation of gates is over n - 1: docs/architectures.md */
        m->layers[i].act_cut *= sqrtf((float)m->layers[i].n_ff / (float)(m->layers[i].n_ff - 1));
    if (infer_media_encode(&x.media[0], m, &image, 1, NULL, &e)) check_note(__FILE__, __LINE__, e.message);
    else {
        const infer__media_part *part = x.media[0]->parts;
        while (!part->rows) part++;
        CHECK(part->n == 16 && !part->whole);
        x.n_media = 1;
        for (i = 0; i < 3; i++) x.tokens[x.n++] = before[i];
        for (i = 0; i < 16; i++) x.tokens[x.n++] = infer__media_token(part, i);
        for (i = 0; i < 4; i++) x.tokens[x.n++] = after[i];
        CHECK(seen_read(&x.logits, blocks_path("gemma3nv", -1, "logits")) && x.logits.n == 7 && x.logits.width == 32);
        s = seen_session(m, 64, 1, &c);
        CHECK(seen_eval(s, &x, got) == 7);
        if (getenv("CHECK_VERBOSE")) printf("logits: nmse %.3g\n", check_nmse(got, x.logits.v, 7 * 32));
        CHECK(check_nmse(got, x.logits.v, 7 * 32) < STACK_LIMIT);
        CHECK(infer_session_destroy(s) == INFER_OK && infer_context_destroy(c) == INFER_OK);
        s = seen_session(m, 5, 3, &c); /* in other passes */
        CHECK(seen_eval(s, &x, same) == 7 && memcmp(got, same, sizeof got) == 0);
        CHECK(infer_session_destroy(s) == INFER_OK && infer_context_destroy(c) == INFER_OK);
        seen_case_free(&x);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_stack_blocks_missing(void) {
    size_t n;
    infer_model *m;
    const char *path = blocks_path("gemma3nv-odd", -1, "gguf");
    char *data = stack_file(path, INFER__STACK_VISION, &n, &m);
    const int32_t tensors = m ? m->gguf.n_tensors : 0;
    CHECK(infer_model_close(m) == INFER_OK);
    free(data);
    CHECK(stack_missing(path, INFER__STACK_VISION) == tensors - 3); /* but a bias, and what is of text alone */
}

/* Names, shapes, sizes: what is said. */
static void test_stack_blocks_refused(void) {
    static const struct { const char *find, *put; int at; uint64_t was, now; const char *says; } t[] = {
        { "v.blk.3.0.", "v.blk.4.0.", 0, 0, 0, "no tensors of block v.blk.3.0" },
        { "v.blk.1.1.", "v.blk.1.2.", 0, 0, 0, "has no use for it here" },
        { "v.conv_stem.conv.weight", NULL, 4, 3, 1, "tensor v.conv_stem.conv.weight has 9 rows of 9" }, /* 3 x 3 x 1 */
        { "v.blk.0.0.conv_exp.weight", NULL, 4, 3, 1, "tensor v.blk.0.0.conv_exp.weight: 36 kernels of 27 values" },
        { "v.blk.1.0.dw_mid.conv.weight", NULL, 12, 5, 1, "tensor v.blk.1.0.dw_mid.conv.weight: " },
        { "v.blk.1.0.pw_exp.conv.weight", NULL, 20, 7, 6, "tensor v.blk.1.0.pw_exp.conv.weight: " },
        { "v.blk.2.1.attn.key.proj.weight", NULL, 28, 6, 5, "heads of 5 and 6 values" },
        { "v.blk.2.1.attn.output.proj.weight", NULL, 28, 22, 21, "tensor v.blk.2.1.attn.output.proj.weight has 21 rows" },
        { "v.blk.2.1.norm.weight", NULL, 4, 22, 21, "tensor v.blk.2.1.norm.weight has 21 values" },
        { "v.msfa.ffn.pw_proj.conv.weight", NULL, 28, 20, 19, "tensor v.msfa.ffn.pw_proj.bn.weight has 20 values" },
        { "clip.vision.image_size", NULL, 4, 75, 272, "image_size" },
        { "clip.vision.image_size", NULL, 4, 75, 8192, "image_size" },
        { "clip.vision.embedding_length", NULL, 4, 20, 24, "tensor v.msfa.ffn.pw_proj.conv.weight has 20 rows" },
        { "clip.vision.projection_dim", NULL, 4, 12, 16, "projection_dim is 16, but the projector gives 12" },
    };
    size_t n, i, k;
    infer_model *m, *other = NULL;
    infer_context *c = NULL;
    infer_error e;
    char *data = stack_file(blocks_path("gemma3nv-odd", -1, "gguf"), INFER__STACK_VISION, &n, &m), *copy = (char *)malloc(n);
    for (i = 0; m && i < INFER__COUNT(t); i++) {
        const size_t len = strlen(t[i].find);
        char *at;
        check_detail = t[i].says;
        memcpy(copy, data, n);
        if (t[i].put)
            while ((at = stack_find(copy, n, t[i].find)) != NULL) memcpy(at, t[i].put, len);
        else {
            at = stack_find(copy, n, t[i].find);
            CHECK(at != NULL && at[len + (size_t)t[i].at] == (char)t[i].was);
            for (k = 0; at && k < 4; k++) at[len + (size_t)t[i].at + k] = (char)(t[i].now >> 8 * k);
        }
        memset(&e, 0, sizeof e);
        CHECK(stack_memory(&other, INFER__STACK_VISION, copy, n, &e) != INFER_OK && !other);
        if (!strstr(e.message, t[i].says)) check_note(__FILE__, __LINE__, e.message);
    }
    check_detail = "sizes";
    CHECK(m && infer__stack_tokens(m, 75, 75, &e) == 25 && infer__stack_tokens(m, 75, 72, &e) == 0 && infer__stack_tokens(m, 0, 0, &e) == 0);
    CHECK_HAS(e.message, "reads 75 x 75");
    CHECK(infer__stack_context(&c, m, NULL, 72, 72, &e) == INFER_ERR_ARGUMENT && !c);
    CHECK(infer_model_close(m) == INFER_OK);
    free(copy);
    free(data);
}

static void test_stack_blocks_hostile(void) { stack_hostile(blocks_path("gemma3nv-odd", -1, "gguf"), INFER__STACK_VISION); }

static void test_stack_blocks_oom(void) {
    stack_entry x;
    float *in = blocks_picture(0, 75);
    memset(&x, 0, sizeof x);
    x.in = in;
    x.width = x.height = 75;
    x.tokens = 25;
    x.cols = 12;
    stack_fails(blocks_path("gemma3nv-odd", -1, "gguf"), INFER__STACK_VISION, &x);
    free(in);
}

/* A block for each of the layers that a trace names; the progress is told after each, and can end it. */
static float blocks_told;
static int blocks_progress(void *user, float done) {
    blocks_told = done;
    return done >= *(const float *)user;
}
static void test_stack_blocks_steps(void) {
    float stops[] = { 2, 0.5f };
    infer_context *c = NULL;
    infer_session_params sp;
    infer_error e;
    infer_model *m = blocks_open("gemma3nv-odd", INFER_CPU_BEST, &e);
    float *in = blocks_picture(1, 75), out[25 * 12];
    size_t i;
    memset(&sp, 0, sizeof sp);
    sp.trace = stack_trace;
    sp.progress = blocks_progress;
    CHECK(m && infer__stack_context(&c, m, NULL, 75, 75, &e) == INFER_OK);
    for (i = 0; c && i < 2; i++) {
        const char *at = stack_traced;
        int blocks = 0;
        stack_traced[0] = 0;
        sp.progress_user = &stops[i];
        CHECK(infer__stack_encode(c, in, 75, 75, NULL, &sp, out, &e) == (i ? INFER_CANCELLED : INFER_OK));
        while ((at = strstr(at, " block,")) != NULL) at++, blocks++;
        CHECK(i ? blocks < 6 && blocks_told < 0.7f : blocks == m->hp.n_layer && blocks_told == 1);
        if (!i) CHECK_HAS(stack_traced, "7 block,7 fusion,7 norm,7 scale,7 norm,7 matrix,7 norm,");
    }
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(in);
}

static void suite_stack_blocks(void) {
    RUN(test_stack_blocks);
    RUN(test_stack_blocks_logits);
    RUN(test_stack_blocks_missing);
    RUN(test_stack_blocks_refused);
    RUN(test_stack_blocks_hostile);
    RUN(test_stack_blocks_oom);
    RUN(test_stack_blocks_steps);
}
