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

/* A projector file: of the references, media/NAME, which is in the repository, or a path. */
static const char *stack_path(const char *file) {
    char name[200];
    const int own = strncmp(file, "media/", 6) == 0;
    if (!own && strchr(file, '/')) return file;
    snprintf(name, sizeof name, "%s%s.gguf", own ? "" : "vision/models/", file);
    return own ? check_data(name) : check_reference(name);
}

static infer_result stack_open(infer_model **m, const char *file, int32_t kind, const infer_model_params *params, infer_error *e) {
    infer__gguf_origin o;
    memset(&o, 0, sizeof o);
    o.path = stack_path(file);
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

/* ---- files that are not as they should be ---- */

static infer_result stack_memory(infer_model **m, int32_t kind, const char *data, size_t n, infer_error *e) {
    infer__gguf_origin o;
    infer_model_params p;
    memset(&o, 0, sizeof o);
    memset(&p, 0, sizeof p);
    o.data = data;
    o.size = n;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    return infer__stack_open(m, &o, kind, &p, e);
}

/* A projector's file, and the model; free() it and close it. */
static char *stack_file(const char *name, int32_t kind, size_t *n, infer_model **m) {
    infer_error e;
    char *data;
    *m = NULL;
    check_detail = name;
    data = check_read(stack_path(name), n);
    CHECK(data != NULL);
    if (data && stack_memory(m, kind, data, *n, &e)) check_note(__FILE__, __LINE__, e.message);
    return data;
}

/* A copy of the file without a tensor (its bytes stay). */
static char *stack_without(const char *data, size_t n, const infer_model *m, int32_t tensor, size_t *size) {
    const char *first = m->gguf.tensors[0].name;
    size_t at, len = strlen(first), from = 0, end = 0, data_at, moved;
    char *out;
    int32_t i;
    for (at = 24; at + 8 + len < n; at++)
        if (infer__load_u64(data + at) == len && memcmp(data + at + 8, first, len) == 0) break;
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const size_t k = (size_t)infer__load_u64(data + at);
        const size_t next = at + 8 + k + 4 + 8 * (size_t)infer__load_u32(data + at + 8 + k) + 12;
        if (i == tensor) {
            from = at;
            end = next;
        }
        at = next;
    }
    data_at = (at + 31) / 32 * 32;
    moved = (at - (end - from) + 31) / 32 * 32;
    *size = moved + (n - data_at);
    out = (char *)calloc(*size, 1);
    memcpy(out, data, from);
    memcpy(out + from, data + end, at - end);
    memcpy(out + moved, data + data_at, n - data_at);
    for (i = 0; i < 8; i++) out[8 + i] = (char)((uint64_t)(m->gguf.n_tensors - 1) >> 8 * i);
    return out;
}

/* Tensors that models of a type may be without. */
static int stack_may_lack(const char *type, const char *tensor) {
    char name[160];
    static const char *const names[] = {
        "mlp v.pre_ln", "mlp v.class_embd", "mlp mm.2.", "mlp v.patch_embd.bias", "minimax_m3 v.pre_ln", "glm4v v.norm_embd", "glm4v v.position_embd",
        "pixtral mm.1.bias", "pixtral mm.2.bias", "pixtral mm.input_norm", "pixtral mm.patch_merger", "pixtral v.token_embd.img_break",
        "lightonocr mm.input_norm", "lightonocr mm.patch_merger", "lfm2 mm.input_norm", "resampler resampler.pos_embed_k",
        "glm4v mm.post_norm.bias", "gemma4a a.pre_encode.out.bias", "gemma3nv v.conv_stem.conv.bias",
        "gemma3nv mm.embedding", "gemma3nv mm.hard_emb_norm" };
    size_t i;
    if (strstr(tensor, "put_m") || strstr(tensor, "per_dim_k")) return strncmp(type, "gemma4", 6) == 0;
    snprintf(name, sizeof name, "%s %s", type, tensor);
    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) return 1;
    return 0;
}

/* The file without each of its tensors; those without which it is refused. */
static int32_t stack_missing(const char *file_name, int32_t kind) {
    infer_model *m, *other;
    infer_error e;
    size_t n, size;
    int32_t i, refused = 0;
    char *data = stack_file(file_name, kind, &n, &m);
    for (i = 0; m && i < m->gguf.n_tensors; i++) {
        const char *name = m->gguf.tensors[i].name;
        char *file = stack_without(data, n, m, i, &size), part[96];
        const infer_result r = stack_memory(&other, kind, file, size, &e);
        check_detail = name;
        snprintf(part, sizeof part, "%.*s", (int)(strrchr(name, '.') - name), name); /* or its bias, left alone */
        if (strstr(part, "attn_qkv")) part[strlen(part) - 2] = 0;
        if (r) {
            if (!strstr(name, "mm.patch_merger")) CHECK_HAS(e.message, part); /* else it is the next one that does not fit */
            refused++;
        } else {
            if (getenv("CHECK_VERBOSE")) printf("%s without %s\n", m->arch->name, name);
            if (!stack_may_lack(m->arch->name, name) && !infer__beyond_layers(m, name) && !infer__stack_other(m, name))
                check_note(__FILE__, __LINE__, "opens without it");
            CHECK(infer_model_close(other) == INFER_OK);
        }
        free(file);
    }
    CHECK(infer_model_close(m) == INFER_OK);
    free(data);
    return refused;
}

static void test_stack_missing(void) {
    size_t f;
    int32_t refused = 0;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (f = 0; f < sizeof STACK_CASES / sizeof *STACK_CASES; f += (size_t)check_every(5))
        refused += stack_missing(STACK_CASES[f][0], INFER__STACK_VISION);
    CHECK(refused > 500 / check_every(5));
}

/* The bytes of a text in a file; NULL = they are not there. */
static char *stack_find(char *data, size_t n, const char *text) {
    const size_t len = strlen(text);
    size_t i;
    for (i = 0; i + len < n; i++)
        if (memcmp(data + i, text, len) == 0) return data + i;
    return NULL;
}

static void test_stack_refused(void) {
    static const struct { const char *find, *put, *says; } cases[] = {
        { "clip.vision.image_mean", "clip.vision.image_meen", "clip.vision.image_meen" },
        { "clip.use_gelu", "clip.use_gulu", "clip.use_gulu" },
        { "v.blk.1.ffn_up.bias", "v.blk.1.ffn_up.bios", "v.blk.1.ffn_up.bi" },
        { "mm.soft_emb_norm.weight", "mm.soft_emb_norm.waight", "mm.soft_emb_norm.w" },
        { "clip.vision.patch_size", "clip.vision.potch_size", "clip.vision.patch_size" },
        { "mmproj", "adapte", "general.type" },
    };
    infer_model *m, *other = NULL;
    infer_error e;
    char *data, *at, was[40];
    size_t i, n;
    uint32_t v;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    data = stack_file("gemma3", INFER__STACK_VISION, &n, &m);
    for (i = 0; data && i < sizeof cases / sizeof *cases; i++) {
        check_detail = cases[i].find;
        at = stack_find(data, n, cases[i].find);
        CHECK(at != NULL);
        if (!at) continue;
        memcpy(was, at, strlen(cases[i].put));
        memcpy(at, cases[i].put, strlen(cases[i].put));
        CHECK(stack_memory(&other, INFER__STACK_VISION, data, n, &e) != INFER_OK && other == NULL);
        CHECK_HAS(e.message, cases[i].says);
        memcpy(at, was, strlen(cases[i].put));
    }
    at = stack_find(data, n, "clip.projector_type") + strlen("clip.projector_type") + 12;
    CHECK(memcmp(at, "gemma3", 6) == 0);
    memcpy(at, "gemma9", 6);
    CHECK(stack_memory(&other, INFER__STACK_VISION, data, n, &e) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(e.message, "projector type \"gemma9\"");
    memcpy(at, "gemma3", 6);
    at = stack_find(data, n, "clip.vision.projection_dim") + strlen("clip.vision.projection_dim") + 4;
    v = infer__load_u32(at);
    at[0] = (char)(v + 32);
    CHECK(stack_memory(&other, INFER__STACK_VISION, data, n, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "projection_dim");
    at[0] = (char)v;
    check_detail = "sizes";
    CHECK(infer__stack_tokens(m, 64, 64, &e) == 16);
    CHECK(infer__stack_tokens(m, 63, 64, &e) == 0 && e.code == INFER_ERR_ARGUMENT);
    CHECK(infer__stack_tokens(m, 0, 64, &e) == 0 && infer__stack_tokens(m, -16, 64, &e) == 0);
    CHECK(infer__stack_tokens(m, 128, 64, &e) == 0);
    CHECK_HAS(e.message, "learned 64");
    CHECK(infer__stack_tokens(m, 2147483632, 2147483632, &e) == 0 && e.code == INFER_ERR_LIMIT);
    CHECK(infer_model_close(m) == INFER_OK);
    free(data);
}

/* Encode zeros, in a size that the model may read. */
static void stack_use(infer_model *m) {
    const int sound = m->stack.kind == INFER__STACK_AUDIO;
    const int32_t side = m->stack.patch * m->stack.merge;
    const int32_t most = side > 0 && side < 200 ? side * INFER__MAX(m->stack.image / side, 1) : 0;
    const int32_t width = sound ? 200 : most, height = sound ? m->stack.bins : most;
    infer_context *c = NULL;
    infer_context_params p;
    infer_error e;
    const int32_t tokens = width > 0 && width < 300 ? infer__stack_tokens(m, width, height, &e) : 0;
    memset(&p, 0, sizeof p);
    p.threads = 1;
    if (tokens > 0 && tokens < 4096 && (int64_t)tokens * infer__stack_width(m) < 1 << 22 &&
        infer__stack_context(&c, m, &p, width, height, &e) == INFER_OK) {
        float *in = (float *)calloc((size_t)width * (size_t)height * (sound ? 1 : 3), sizeof *in);
        float *out = (float *)calloc((size_t)tokens * (size_t)infer__stack_width(m), sizeof *out);
        memset(&e, 0, sizeof e);
        CHECK(infer__stack_encode(c, in, width, height, NULL, NULL, out, &e) == INFER_OK || e.message[0]);
        free(in);
        free(out);
        CHECK(infer_context_destroy(c) == INFER_OK);
    }
}

/* Every number of the metadata becomes another one: refused, or computed. */
static void stack_hostile(const char *name, int32_t kind) {
    static const uint32_t values[] = { 0, 1, 2, 3, 5, 255, 1 << 20, 0x7fffffff, 0xffffffff };
    size_t n, v, k;
    int32_t i;
    infer_model *m, *other;
    infer_error e;
    char *data = stack_file(name, kind, &n, &m);
    for (i = 0; m && i < m->gguf.n_kv; i++)
        for (v = 0; v < sizeof values / sizeof *values && m->gguf.kv[i].type == INFER__GGUF_U32; v++) {
            char *at = data + m->gguf.kv[i].offset, was[4];
            memcpy(was, at, 4);
            for (k = 0; k < 4; k++) at[k] = (char)(values[v] >> 8 * k);
            check_detail = m->gguf.kv[i].key;
            memset(&e, 0, sizeof e);
            if (stack_memory(&other, kind, data, n, &e) == INFER_OK) {
                if (other) stack_use(other);
                CHECK(infer_model_close(other) == INFER_OK);
            } else CHECK(e.message[0] != 0);
            memcpy(at, was, 4);
        }
    CHECK(m && infer_model_close(m) == INFER_OK);
    free(data);
}

static void test_stack_hostile(void) {
    size_t f;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (f = 0; f < sizeof STACK_CASES / sizeof *STACK_CASES; f += (size_t)check_every(5)) stack_hostile(STACK_CASES[f][0], INFER__STACK_VISION);
}

/* Opening, a context, encoding: each allocation fails once. */
static void stack_fails(const char *file, int32_t kind, const stack_entry *x) {
    const long live = check_live;
    float *out = (float *)malloc((size_t)x->tokens * (size_t)x->cols * sizeof *out);
    int over = 0, at;
    for (at = 1; !over && at < 3000; at++) {
        infer_model_params p;
        infer_context_params cp;
        infer_model *m = NULL;
        infer_context *c = NULL;
        infer_error e;
        infer_result r;
        memset(&p, 0, sizeof p);
        memset(&cp, 0, sizeof cp);
        p.allocator.alloc = check_alloc;
        p.allocator.free = check_free;
        cp.threads = 2;
        check_allocs = 0;
        check_fail_at = at;
        r = stack_open(&m, file, kind, &p, &e);
        if (!r) CHECK(infer__stack_tokens(m, x->width, x->height, &e) == x->tokens && infer__stack_width(m) == x->cols);
        if (!r) r = infer__stack_context(&c, m, &cp, x->width, x->height, &e);
        if (!r) r = infer__stack_encode(c, x->in, x->width, x->height, NULL, NULL, out, &e);
        over = check_allocs < at;
        check_fail_at = 0;
        CHECK(over ? r == INFER_OK : r == INFER_ERR_MEMORY || r == INFER_OK);
        if (r) CHECK(e.code == r && e.message[0]);
        CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
        CHECK(check_live == live);
    }
    CHECK(over && at > 20);
    free(out);
}

static void test_stack_oom(void) {
    static const char *const names[] = { "gemma3 gradient-64x48", "minicpmv gradient-56x56", "qwen25vl checker-20x20",
                                         "qwen3vl noise-37x91", "gemma4v gradient-64x48", "glm4v gradient-84x84" };
    size_t f;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (f = 0; f < sizeof names / sizeof *names; f++) {
        const int model = (int)strcspn(names[f], " ");
        stack_entry x;
        char name[100], file[100];
        snprintf(name, sizeof name, "%.*s_%s", model, names[f], names[f] + model + 1);
        snprintf(file, sizeof file, "%.*s", model, names[f]);
        check_detail = name;
        CHECK(stack_entry_open(name, 0, 0, &x));
        if (check_bad) return;
        stack_fails(file, INFER__STACK_VISION, &x);
        stack_entry_close(&x);
    }
}

/* The trace names what a layer gives, and the steps before and after the layers. */
static char stack_traced[4000];
static void stack_trace(void *user, int32_t layer, const char *step, const float *x, size_t rows, size_t cols) {
    const size_t n = strlen(stack_traced);
    (void)user, (void)x, (void)rows, (void)cols;
    if (n < sizeof stack_traced - 40) snprintf(stack_traced + n, 40, "%d %.24s,", (int)layer, step);
}

static void test_stack_trace(void) {
    infer_session_params sp;
    infer_context_params p;
    infer_context *c = NULL;
    infer_model *m;
    infer_error e;
    stack_entry x;
    float *out;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    m = stack_model("gemma3", INFER__STACK_VISION, INFER_CPU_BEST);
    CHECK(stack_entry_open("gemma3_gradient-64x48", 0, 0, &x));
    memset(&sp, 0, sizeof sp);
    memset(&p, 0, sizeof p);
    sp.trace = stack_trace;
    CHECK(infer__stack_context(&c, m, &p, x.width, x.height, &e) == INFER_OK);
    out = (float *)malloc((size_t)x.tokens * (size_t)x.cols * sizeof *out);
    CHECK(infer__stack_encode(c, x.in, x.width, x.height, NULL, &sp, out, &e) == INFER_OK);
    CHECK(check_nmse(out, x.want, (size_t)x.tokens * (size_t)x.cols) < STACK_LIMIT);
    CHECK_HAS(stack_traced, "0 patches,0 matrix,0 positions,");
    CHECK_HAS(stack_traced, "0 attn_in,0 q,0 k,0 v,0 attn,0 attn_out,0 ffn_in,0 ffn_act,0 ffn_out,");
    CHECK_HAS(stack_traced, "1 stream,1 norm,1 pool,1 norm,1 matrix,1 out,");
    free(out);
    CHECK(infer_context_destroy(c) == INFER_OK && infer_model_close(m) == INFER_OK);
    stack_entry_close(&x);
}

static void suite_stack(void) {
    RUN(test_stack_recorded);
    RUN(test_stack_missing);
    RUN(test_stack_refused);
    RUN(test_stack_hostile);
    RUN(test_stack_oom);
    RUN(test_stack_trace);
}
