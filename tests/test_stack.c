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

static int stack_entry_open(const char *name, int number, stack_entry *x) {
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
        x->width = wide / 3;
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

static infer_model *stack_model(const char *file, int32_t level) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.cpu_level = level;
    p.exact = level != INFER_CPU_BEST;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    if (stack_open(&m, file, INFER__STACK_VISION, &p, &e)) check_note(__FILE__, __LINE__, e.message);
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
    for (i = 0; stack_entry_open(name, i, &x); i++, stack_entry_close(&x))
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

static void test_stack_recorded(void) {
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < sizeof STACK_CASES / sizeof *STACK_CASES; i++) {
        infer_model *m[2];
        const char *at = STACK_CASES[i][1];
        char name[200];
        if (getenv("STACK_ONLY") && !strstr(STACK_CASES[i][0], getenv("STACK_ONLY"))) continue;
        check_detail = STACK_CASES[i][0];
        m[0] = stack_model(STACK_CASES[i][0], INFER_CPU_BEST);
        m[1] = stack_model(STACK_CASES[i][0], INFER_CPU_SCALAR);
        if (m[0] && m[1]) {
            stack_shift(m[0]);
            stack_shift(m[1]);
        }
        for (; *at && m[0] && m[1]; at += strcspn(at, " "), at += *at == ' ') {
            const int bad = check_bad;
            check_bad = 0;
            snprintf(name, sizeof name, "%s_%.*s", STACK_CASES[i][0], (int)strcspn(at, " "), at);
            stack_case_run(m, name);
            check_bad += bad;
        }
        CHECK(infer_model_close(m[0]) == INFER_OK && infer_model_close(m[1]) == INFER_OK);
    }
}

static void suite_stack(void) { RUN(test_stack_recorded); }
