/* test_stack.c: encoders of pictures and sound: recorded embeddings, threads and levels, bad files and sizes. */

#define STACK_LIMIT 2e-6

/* Projector files of vision, and what there is of them, separated by spaces: pictures, several of them with +. */
static const char *const STACK_CASES[][2] = {
    { "cogvlm", "gradient-56x56 text-200x120" },
    { "dotsocr", "checker-20x20 text-200x120" },
    { "gemma3", "gradient-64x48+checker-20x20 gradient-64x48 noise-37x91 rings-64x64 text-200x120" },
    { "gemma3-f16", "gradient-64x48 text-200x120" },
    { "gemma4uv", "noise-37x91 text-200x120" },
    { "glm4v", "gradient-84x84 noise-37x91 text-200x120" },
    { "glm4v-nopos", "blocks-300x60" },
    { "idefics3", "blocks-300x60 checker-20x20 noise-37x91 text-200x120" },
    { "idefics3-old", "noise-37x91" },
    { "internvl", "gradient-32x32 noise-37x91 text-200x120" },
    { "janus", "noise-37x91 text-200x120" },
    { "kimik25", "gradient-84x84 noise-37x91 text-200x120" },
    { "kimivl", "blocks-300x60 gradient-84x84 noise-37x91 text-200x120" },
    { "lfm2", "blocks-300x60 noise-37x91 rings-64x64 text-200x120" },
    { "lightonocr", "noise-37x91 text-200x120" },
    { "llama4", "blocks-300x60 gradient-32x32 noise-37x91 text-200x120" },
    { "llava", "gradient-64x48 noise-37x91 rings-56x56" },
    { "llava-cls", "checker-20x20 text-200x120" },
    { "llava-next", "checker-20x20 text-200x120 text-60x150" },
    { "minimaxm3", "noise-37x91 text-200x120" },
    { "mixed", "gradient-64x48" },
    { "paddleocr", "blocks-300x60 noise-37x91 text-200x120" },
    { "phi4", "checker-20x20 text-200x120" },
    { "pixtral", "gradient-64x48 noise-37x91 text-200x120" },
    { "pixtral-merge", "checker-20x20 noise-37x91 text-200x120" },
    { "qwen25vl", "blocks-300x60 checker-20x20 gradient-112x112 text-280x200" },
    { "qwen25vl-f16", "text-112x140" },
    { "qwen2vl", "blocks-300x60 checker-20x20 noise-37x91 text-200x120+gradient-64x48 text-200x120" },
    { "qwen2vl-limits", "checker-20x20 text-200x120" },
    { "qwen2vl-video", "rings-84x56+text-84x56+checker-84x56 rings-84x56+text-84x56" },
    { "qwen3vl", "noise-37x91 rings-96x96 text-200x120+gradient-64x48 text-200x120" },
    { "gemma4v-plain", "noise-37x91" },
    { "gemma4v", "blocks-300x60 gradient-64x48 text-200x120" },
    { "minicpmv", "gradient-56x56 noise-37x91 text-200x120" },
};

/* And of sound. */
static const char *const STACK_SOUNDS[][2] = {
    { "glma", "sweep-40000" },
    { "mixed", "noise-9000" },
    { "musicflamingo", "noise-20011" },
    { "qwen2a", "tones-56123" },
    { "qwen3a", "sweep-40000 tones-1700" },
    { "ultravox", "sweep-40000" },
    { "voxtral", "noise-20011" },
};

static float *stack_tensor(const char *name, const char *end, char **data, int32_t *n, int32_t *width) {
    char path[200];
    size_t size = 0;
    snprintf(path, sizeof path, "vision/cases/%s.%s", name, end);
    *data = check_read(check_reference(path), &size);
    if (!*data) return NULL;
    *n = (int32_t)infer__load_u32(*data);
    *width = (int32_t)infer__load_u32(*data + 4);
    if (size != 8 + 4 * (size_t)*n + 4 * (size_t)*n * (size_t)*width) return NULL;
    return (float *)(void *)(*data + 8 + 4 * *n);
}

static infer_result stack_open(infer_model **m, const char *file, int32_t kind, const infer_model_params *params, infer_error *e) {
    infer__gguf_origin o;
    char path[200];
    snprintf(path, sizeof path, "vision/models/%s.gguf", file);
    memset(&o, 0, sizeof o);
    o.path = check_reference(path);
    return infer__stack_open(m, &o, kind, params, e);
}

/* A recorded entry: pixels, one or two frames of them, and embeddings. */
typedef struct stack_entry { char *data[3]; const float *in, *second, *want; int32_t width, height, tokens, cols; } stack_entry;

static int stack_entry_open(const char *name, int number, int sound, stack_entry *x) {
    char end[40];
    int32_t n, wide;
    memset(x, 0, sizeof *x);
    snprintf(end, sizeof end, "%d.embd", number);
    x->want = stack_tensor(name, end, &x->data[0], &x->tokens, &x->cols);
    snprintf(end, sizeof end, "%d.pre", number);
    x->in = stack_tensor(name, end, &x->data[1], &n, &wide);
    if (x->want && !x->in) {
        snprintf(end, sizeof end, "%d.0.pre", number);
        x->in = stack_tensor(name, end, &x->data[1], &n, &wide);
        snprintf(end, sizeof end, "%d.1.pre", number);
        x->second = stack_tensor(name, end, &x->data[2], &n, &wide);
    }
    if (x->in) {
        x->height = n;
        x->width = sound ? wide : wide / 3;
    }
    return x->want != NULL && x->in != NULL;
}

static void stack_entry_close(stack_entry *x) {
    int i;
    for (i = 0; i < 3; i++) free(x->data[i]);
}

/* The embeddings of an entry with this many threads; free() them. */
static float *stack_run(infer_model *m, const stack_entry *x, int32_t threads) {
    infer_context_params p;
    infer_context *c = NULL;
    infer_error e;
    float *out;
    int32_t n;
    memset(&p, 0, sizeof p);
    p.threads = threads;
    n = infer__stack_tokens(m, x->width, x->height, &e);
    if (!n || infer__stack_context(&c, m, &p, x->width, x->height, &e)) {
        check_note(__FILE__, __LINE__, e.message);
        return NULL;
    }
    CHECK(n == x->tokens && infer__stack_width(m) == x->cols);
    out = (float *)malloc((size_t)n * (size_t)infer__stack_width(m) * sizeof *out);
    if (infer__stack_encode(c, x->in, x->width, x->height, x->second, NULL, out, &e)) {
        check_note(__FILE__, __LINE__, e.message);
        free(out);
        out = NULL;
    }
    CHECK(infer_context_destroy(c) == INFER_OK);
    if (check_bad == 0) return out;
    free(out);
    return NULL;
}

static infer_model *stack_model(const char *file, int32_t kind, int32_t level) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.cpu_level = level;
    p.exact = level != INFER_CPU_BEST;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    if (stack_open(&m, file, kind, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

static void stack_compare(const infer_model *m, const char *name, int number, const float *got, const stack_entry *x) {
    /* the original's first patch is there: llama.cpp loses it, and has the class token in the last place */
    const int32_t lost = m->stack.row->cls == INFER__CLASS_FIRST && m->stack.vectors[0];
    const size_t n = (size_t)(x->tokens - lost) * (size_t)x->cols;
    const double nmse = check_nmse(got + lost * x->cols, x->want, n);
    char text[200];
    if (getenv("CHECK_VERBOSE")) fflush(stdout), printf("%-16s %-40s %d nmse %.3g\n", m->arch->name, name, number, nmse);
    snprintf(text, sizeof text, "%s, number %d: nmse %.3g", m->arch->name, number, nmse);
    if (!(nmse <= STACK_LIMIT)) check_note(__FILE__, __LINE__, text);
}

/* All entries of a case, at the best and at the scalar level; of the first one with other threads, too. */
static void stack_case_run(infer_model *const *m, const char *name) {
    stack_entry x;
    int i, level;
    check_detail = name;
    for (i = 0; stack_entry_open(name, i, m[0]->stack.kind == INFER__STACK_AUDIO, &x); i++, stack_entry_close(&x))
        for (level = 0; level < (i ? 1 : 2); level++) {
            float *one = stack_run(m[level], &x, 1), *three = i ? NULL : stack_run(m[level], &x, 3);
            if (one) stack_compare(m[level], name, i, one, &x);
            if (one && three) CHECK(memcmp(one, three, (size_t)x.tokens * (size_t)x.cols * sizeof *one) == 0);
            free(one);
            free(three);
        }
    stack_entry_close(&x);
    CHECK(i > 0);
}

/* llama.cpp has the class token after the patches, with the last position, so that all positions are one off. */
static void stack_shift(infer_model *m) {
    const int32_t n = m->hp.n_embd, rows = m->stack.wide;
    float *table = (float *)(uintptr_t)m->stack.table;
    float *last = (float *)malloc((size_t)n * sizeof *last);
    if (m->stack.row->cls == INFER__CLASS_FIRST && m->stack.vectors[0]) {
        memcpy(last, table + (rows - 1) * n, (size_t)n * sizeof *last);
        memmove(table + n, table, (size_t)(rows - 1) * (size_t)n * sizeof *last);
        memcpy(table, last, (size_t)n * sizeof *last);
    }
    free(last);
}

static void stack_cases(const char *const (*cases)[2], size_t count, int32_t kind) {
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < count; i++) {
        infer_model *m[2];
        const char *at = cases[i][1];
        char name[200];
        if (getenv("STACK_ONLY") && !strstr(cases[i][0], getenv("STACK_ONLY"))) continue;
        check_detail = cases[i][0];
        m[0] = stack_model(cases[i][0], kind, INFER_CPU_BEST);
        m[1] = stack_model(cases[i][0], kind, INFER_CPU_SCALAR);
        if (m[0] && m[1]) {
            stack_shift(m[0]);
            stack_shift(m[1]);
        }
        for (; *at && m[0] && m[1]; at += strcspn(at, " "), at += *at == ' ') {
            const int bad = check_bad;
            check_bad = 0;
            snprintf(name, sizeof name, "%s_%.*s", cases[i][0], (int)strcspn(at, " "), at);
            stack_case_run(m, name);
            check_bad += bad;
        }
        CHECK(infer_model_close(m[0]) == INFER_OK && infer_model_close(m[1]) == INFER_OK);
    }
}

static void test_stack_recorded(void) {
    stack_cases(STACK_CASES, sizeof STACK_CASES / sizeof *STACK_CASES, INFER__STACK_VISION);
}

static void test_stack_sounds(void) {
    stack_cases(STACK_SOUNDS, sizeof STACK_SOUNDS / sizeof *STACK_SOUNDS, INFER__STACK_AUDIO);
}

/* Open a projector file of sound with a name or a text replaced by one as long, or the int32 after a key by `value`. */
static infer_result stack_altered(const char *file, const char *from, const char *to, int32_t value, infer_error *e) {
    char path[200];
    size_t size = 0, i, n = strlen(from);
    infer__gguf_origin o;
    infer_model *m = NULL;
    infer_result r;
    char *data;
    int found = 0;
    snprintf(path, sizeof path, "vision/models/%s.gguf", file);
    data = check_read(check_reference(path), &size);
    for (i = 0; data && i + n + 8 <= size; i++) {
        if (memcmp(data + i, from, n) != 0) continue;
        found = 1;
        if (to) memcpy(data + i, to, n);
        else memcpy(data + i + n + 4, &value, 4);
    }
    CHECK(found && (!to || strlen(to) == n));
    memset(&o, 0, sizeof o);
    o.data = data;
    o.size = size;
    r = infer__stack_open(&m, &o, INFER__STACK_AUDIO, NULL, e);
    CHECK(infer_model_close(m) == INFER_OK);
    free(data);
    return r;
}

static void test_stack_sound_files(void) {
    static const struct { const char *file, *from, *to; int32_t value; const char *says; } t[] = {
        { "ultravox", "ultravox", "ultravax", 0, "projector type \"ultravax\" is not supported" },
        { "ultravox", "a.conv1d.2.bias", "a.conv1d.2.bios", 0, "missing tensor a.conv1d.2.bias" },
        { "ultravox", "a.conv1d.1.weight", "a.conv1d.9.weight", 0, "missing tensor a.conv1d.1.weight" },
        { "ultravox", "a.position_embd", "a.position_amba", 0, "missing tensor a.position_embd.weight" },
        { "ultravox", "a.blk.1.attn_q.bias", "a.blk.1.attn_q.bios", 0, "a.blk.1.attn_q.bi" },
        { "ultravox", "a.blk.1.ln1.bias", "a.blk.1.ln1.bios", 0, "a.blk.1.ln1.bi" },
        { "ultravox", "mm.a.norm_mid.weight", "mm.a.norm_max.weight", 0, "missing tensor mm.a.norm_mid.weight" },
        { "ultravox", "clip.audio.num_mel_bins", "clip.audio.num_mel_bans", 0, "clip.audio.num_mel_bins" },
        { "ultravox", "clip.audio.num_mel_bins", NULL, 0, "clip.audio.num_mel_bins" },
        { "ultravox", "clip.audio.num_mel_bins", NULL, 79, "tensor a.conv1d.1.weight" },
        { "ultravox", "clip.audio.projector.stack_factor", NULL, 0, "clip.audio.projector.stack_factor" },
        { "ultravox", "clip.audio.projector.stack_factor", NULL, 7, "tensor mm.a.norm_pre.weight" },
        { "ultravox", "projector.stack_factor", "projector.stick_factor", 0, "stack_factor" },
        { "ultravox", "clip.audio.projection_dim", NULL, 63, "clip.audio.projection_dim is 63" },
        { "ultravox", "general.name", "clip.audio.x", 0, "clip.audio.x" },
        { "voxtral", "a.blk.0.attn_q.bias", "a.blk.0.attn_k.bios", 0, "a.blk.0.attn_" },
        { "qwen2a", "mm.a.fc.bias", "mm.a.fc.bios", 0, "missing tensor mm.a.fc.bias" },
        { "glma", "v.eoi", "v.eoj", 0, "missing tensor v.eoi" },
        { "qwen3a", "a.conv2d.3.bias", "a.conv2d.4.bias", 0, "missing tensor a.conv2d.3.bias" },
        { "qwen3a", "clip.audio.num_mel_bins", NULL, 136, "tensor a.conv_out.weight" },
        { "mixed", "clip.audio.projector_type", "clip.audio.projector_tape", 0, "clip.audio.projector_type" },
    };
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        infer_error e;
        memset(&e, 0, sizeof e);
        check_detail = t[i].says;
        CHECK(stack_altered(t[i].file, t[i].from, t[i].to, t[i].value, &e) != INFER_OK);
        if (!strstr(e.message, t[i].says)) check_note(__FILE__, __LINE__, e.message);
    }
}

static void test_stack_sound_sizes(void) {
    static const struct { const char *file; int32_t frames, bins; const char *says; } t[] = {
        { "ultravox", 3000, 128, "a spectrogram of 128 bins: the model reads 80" },
        { "ultravox", 0, 80, "a sound of 0 frames" },
        { "ultravox", -2, 80, "a sound of -2 frames" },
        { "ultravox", 2999, 80, "multiples of 2" },
        { "ultravox", 3002, 80, "learned 1500 positions" },
        { "ultravox", INT32_MAX - 1, 80, "below 2^20" },
        { "ultravox", 2, 80, "too short" },
        { "qwen3a", 150, 128, "multiples of 100" },
        { "qwen3a", 100, 80, "a spectrogram of 80 bins: the model reads 128" },
    };
    infer_error e;
    infer_context *c = NULL;
    float values[4] = { 0, 0, 0, 0 }, out[4];
    infer_model *m;
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        m = stack_model(t[i].file, INFER__STACK_AUDIO, INFER_CPU_BEST);
        check_detail = t[i].says;
        CHECK(m && infer__stack_tokens(m, t[i].frames, t[i].bins, &e) == 0 && strstr(e.message, t[i].says));
        CHECK(infer__stack_context(&c, m, NULL, t[i].frames, t[i].bins, &e) == INFER_ERR_ARGUMENT && !c);
        CHECK(infer_model_close(m) == INFER_OK);
    }
    m = stack_model("ultravox", INFER__STACK_AUDIO, INFER_CPU_BEST);
    CHECK(m && infer__stack_context(&c, m, NULL, 40, 80, &e) == INFER_OK);
    CHECK(infer__stack_encode(c, values, 80, 80, NULL, NULL, out, &e) == INFER_ERR_ARGUMENT && strstr(e.message, "has room for 20"));
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    check_detail = NULL;
}

/* The n-th allocation fails, of opening, of making the context, of encoding. Frames whose last group is filled up. */
static void test_stack_sound_memory(void) {
    static const struct { const char *file; int32_t frames, bins, tokens; } t[] = { { "ultravox", 44, 80, 3 }, { "qwen3a", 100, 128, 13 } };
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < sizeof t / sizeof *t; i++) {
        const long live = check_live;
        float *in = (float *)calloc((size_t)t[i].frames * (size_t)t[i].bins, sizeof *in), out[13 * 64];
        long at;
        int failed = 1;
        for (at = 1; failed && at < 2000; at++) {
            infer_model_params p;
            infer_context *c = NULL;
            infer_model *m = NULL;
            infer_error e;
            infer_result r;
            memset(&p, 0, sizeof p);
            p.allocator.alloc = check_alloc;
            p.allocator.free = check_free;
            check_allocs = 0;
            check_fail_at = at;
            r = stack_open(&m, t[i].file, INFER__STACK_AUDIO, &p, &e);
            if (!r) CHECK(infer__stack_tokens(m, t[i].frames, t[i].bins, &e) == t[i].tokens);
            if (!r) r = infer__stack_context(&c, m, NULL, t[i].frames, t[i].bins, &e);
            if (!r) r = infer__stack_encode(c, in, t[i].frames, t[i].bins, NULL, NULL, out, &e);
            failed = check_allocs >= at;
            check_fail_at = 0;
            check_detail = t[i].file;
            if (r && r != INFER_ERR_MEMORY) check_note(__FILE__, __LINE__, e.message);
            CHECK(failed || !r);
            CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
            CHECK(check_live == live);
        }
        CHECK(!failed);
        free(in);
    }
    check_detail = NULL;
}

static void suite_stack(void) {
    RUN(test_stack_recorded);
    RUN(test_stack_sounds);
    RUN(test_stack_sound_files);
    RUN(test_stack_sound_sizes);
    RUN(test_stack_sound_memory);
}
