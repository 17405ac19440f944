/* test_stack.c: encoders of pictures and sound: recorded embeddings, threads and levels, bad files and sizes. */

#define STACK_LIMIT 2e-6

/* A case: an entry of a picture or sound, and its embeddings. */
typedef struct stack_case { char *in, *out; int32_t n, width, tokens, cols; } stack_case;

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

/* The embeddings of a .pre file with this many threads; free() them. */
static float *stack_run(infer_model *m, const float *in, int32_t width, int32_t height, int32_t threads, int32_t *tokens) {
    infer_context_params p;
    infer_context *c = NULL;
    infer_error e;
    float *out = NULL;
    memset(&p, 0, sizeof p);
    p.threads = threads;
    *tokens = infer__stack_tokens(m, width, height, &e);
    if (!*tokens || infer__stack_context(&c, m, &p, width, height, &e)) {
        check_note(__FILE__, __LINE__, e.message);
        return NULL;
    }
    out = (float *)malloc((size_t)*tokens * (size_t)infer__stack_width(m) * sizeof *out);
    if (infer__stack_encode(c, in, width, height, NULL, NULL, out, &e)) {
        check_note(__FILE__, __LINE__, e.message);
        free(out);
        out = NULL;
    }
    CHECK(infer_context_destroy(c) == INFER_OK);
    return out;
}

static void stack_case_run(const char *model, const char *name, int32_t level) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    char *pre, *embd;
    int32_t height, width3, tokens, cols, n = 0;
    float *in = stack_tensor(name, "pre", &pre, &height, &width3), *want = stack_tensor(name, "embd", &embd, &tokens, &cols);
    float *one = NULL, *three = NULL;
    char text[200];
    check_detail = name;
    memset(&p, 0, sizeof p);
    p.cpu_level = level;
    p.exact = level != INFER_CPU_BEST;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    CHECK(in && want);
    if (stack_open(&m, model, INFER__STACK_VISION, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    if (m && in && want) {
        CHECK(infer__stack_width(m) == cols);
        one = stack_run(m, in, width3 / 3, height, 1, &n);
        three = stack_run(m, in, width3 / 3, height, 3, &n);
        CHECK(n == tokens);
    }
    if (one && three && n == tokens) {
        const double nmse = check_nmse(one, want, (size_t)tokens * (size_t)cols);
        if (getenv("CHECK_VERBOSE")) printf("%-40s nmse %.3g\n", name, nmse);
        snprintf(text, sizeof text, "%s: nmse %.3g", m->arch->name, nmse);
        if (!(nmse <= STACK_LIMIT)) check_note(__FILE__, __LINE__, text);
        CHECK(memcmp(one, three, (size_t)tokens * (size_t)cols * sizeof *one) == 0);
    }
    free(one);
    free(three);
    free(pre);
    free(embd);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_stack_recorded(void) {
    static const char *const cases[][2] = { { "gemma3", "gemma3_gradient-64x48.0" }, { "gemma3-f16", "gemma3-f16_text-200x120.0" } };
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        stack_case_run(cases[i][0], cases[i][1], INFER_CPU_BEST);
        stack_case_run(cases[i][0], cases[i][1], INFER_CPU_SCALAR);
    }
}

static void suite_stack(void) { RUN(test_stack_recorded); }
