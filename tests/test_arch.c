/* test_arch.c: every architecture against recorded logits: the prompt at once, one id at a time, in pieces, two sessions in
 * one pass, after rewind and after fork. All ways must give the same bits, and lie within ARCH_LIMIT of the reference
 * (NMSE; the references round activations to F16, which alone moves them by about 2e-7). */

#define ARCH_LIMIT 2e-6

/* Name of a file in archs/. Those without a copy in tests/data are read from $INFER_TEST_DATA. */
static const char *const ARCH_FILES[] = {
    "afmoe-moe", "arcee-dense", "arctic-moe", "bailingmoe-moe", "bailingmoe2-moe", "bloom-dense", "bloom-real-dense",
    "cohere2-dense", "cohere2-swa-dense", "cohere2moe-moe", "command-r-dense", "command-r-plain-dense",
    "command-r-qknorm-dense", "dbrx-moe", "deepseek-moe", "dots1-moe", "ernie4_5-moe-moe", "exaone-dense",
    "exaone-moe-moe", "gemma-dense", "gemma-headdim-dense", "gemma2-dense", "gemma2-real-dense",
    "gemma2-softcap-dense", "gemma3-dense", "gemma3-real-dense", "glm4moe-moe", "glm4moe-nextn-moe", "gpt-oss-moe",
    "gpt-oss-yarn-moe", "gpt2-dense", "gpt2-tied-dense", "gptneox-dense", "gptneox-par-dense", "gptneox-seq-dense",
    "granite-dense", "granite-moe", "granite-real-dense", "granitemoe-dense", "granitemoe-moe", "granitemoe-real-moe",
    "grok-moe", "hunyuan-moe-moe", "hy_v3-moe", "internlm2-dense", "laguna-moe", "lfm2-dense", "lfm2-real-dense",
    "lfm2moe-moe", "llama-dense", "llama-headdim-dense", "llama-linear-dense", "llama-mixtral-moe", "llama-moe",
    "llama-oldlinear-dense", "llama-plain-dense", "llama-tied-dense", "llama-yarn-dense", "mellum-moe", "mimo2-moe",
    "minicpm-default-dense", "minicpm-dense", "minicpm-moe", "minicpm-real-dense", "minimax-m2-moe", "mistral3-dense",
    "mistral3-moe", "mistral3-yarn-dense", "mpt-dense", "mpt-plain-dense", "nemotron-dense", "olmo-dense",
    "olmo2-dense", "olmo2-plain-dense", "olmo2-swa-dense", "olmoe-moe", "orion-dense", "phi2-dense", "phi3-dense",
    "phi3-longrope-long-dense", "phi3-longrope-short-dense", "phi3-partial-dense", "phi3-plain-dense", "phimoe-moe",
    "qwen2-dense", "qwen2-plain-dense", "qwen2-yarn-dense", "qwen2moe-moe", "qwen2moe-plain-moe", "qwen3-dense",
    "qwen3-embed", "qwen3-plain-dense", "qwen3-rank", "qwen3moe-moe", "qwen3moe-norm-moe", "qwen3vlmoe-moe",
    "seed_oss-dense", "smallthinker-moe", "smollm3-dense", "smollm3-nope-dense", "stablelm-12b-dense",
    "stablelm-dense", "stablelm-plain-dense", "stablelm-qkbias-dense", "starcoder2-dense", "starcoder2-tied-dense",
};
static const char *arch_file;
static int32_t arch_kv = INFER_KV_F32;

typedef struct arch_ref {
    int32_t n, width, hidden; /* hidden: final hidden states instead of logits */
    int32_t *ids;
    float *x;
    char *data;
} arch_ref;

static const char *arch_path(const char *ext) {
    char name[128];
    const char *p;
    FILE *f;
    snprintf(name, sizeof name, "archs/%s.%s", arch_file, ext);
    p = check_data(name);
    f = fopen(p, "rb");
    if (f) { fclose(f); return p; }
    return check_reference(name);
}

/* The format of .logits and .embd: int32 n, int32 width, n ids, n x width float32. */
static int arch_ref_open(arch_ref *r) {
    size_t size = 0, want, at;
    const char *p = arch_path("logits");
    memset(r, 0, sizeof *r);
    r->data = p ? check_read(p, &size) : NULL;
    if (!r->data && (p = arch_path("embd")) != NULL) {
        r->data = check_read(p, &size);
        r->hidden = 1;
    }
    if (!r->data || size < 8) return 0;
    for (at = 0; at + 4 <= size; at += 4) { /* the file is little-endian, this CPU may not be */
        uint32_t u = infer__load_u32(r->data + at);
        memcpy(r->data + at, &u, 4);
    }
    memcpy(&r->n, r->data, 4);
    memcpy(&r->width, r->data + 4, 4);
    want = 8 + (size_t)r->n * 4 + (size_t)r->n * (size_t)r->width * 4;
    CHECK(size == want);
    r->ids = (int32_t *)(void *)(r->data + 8);
    r->x = (float *)(void *)(r->data + 8 + (size_t)r->n * 4);
    return size == want;
}

/* Evaluate ids [from, to) in pieces of at most `step`, appending every row to out. */
static void arch_eval(infer_session *s, const arch_ref *r, int32_t from, int32_t to, int32_t step, float *out) {
    infer_step st;
    while (from < to) {
        int32_t n = to - from < step ? to - from : step, i;
        memset(&st, 0, sizeof st);
        st.session = s;
        st.tokens = r->ids + from;
        st.n = n;
        st.outputs = r->hidden ? INFER_OUT_HIDDEN : INFER_OUT_ALL;
        CHECK(infer_eval(s->context, &st, 1, NULL) == INFER_OK);
        if (infer_session_error(s)->code) {
            check_note(__FILE__, __LINE__, infer_session_error(s)->message);
            return;
        }
        for (i = 0; i < n; i++)
            memcpy(out + (size_t)(from + i) * (size_t)r->width,
                   r->hidden ? infer_session_hidden(s, i) : infer_session_logits(s, i), (size_t)r->width * sizeof(float));
        from += n;
    }
}

static infer_session *arch_session(infer_model *m, int32_t threads, int32_t batch) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = m->hp.n_ctx < 256 ? m->hp.n_ctx : 256; /* as recorded: phi3 chooses its RoPE factors by it */
    p.own.threads = threads;
    p.own.batch = batch;
    p.own.kv_type = arch_kv;
    p.own.cells = 768;
    p.own.sessions = 3;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

/* Two sessions in one pass: b follows a by half, in other pieces. */
static void arch_together(infer_session *a, infer_session *b, const arch_ref *r, float *oa, float *ob) {
    int32_t at = 0, bt = 0, i, k;
    while (at < r->n || bt < r->n) {
        infer_step st[2];
        int32_t na = r->n - at < 11 ? r->n - at : 11, nb = r->n - bt < 5 ? r->n - bt : 5, n = 0;
        memset(st, 0, sizeof st);
        if (na > 0) { st[n].session = a; st[n].tokens = r->ids + at; st[n].n = na; n++; }
        if (nb > 0) { st[n].session = b; st[n].tokens = r->ids + bt; st[n].n = nb; n++; }
        for (k = 0; k < n; k++) st[k].outputs = r->hidden ? INFER_OUT_HIDDEN : INFER_OUT_ALL;
        CHECK(infer_eval(a->context, st, n, NULL) == INFER_OK);
        if (check_bad) return;
        for (k = 0; k < n; k++)
            for (i = 0; i < st[k].n; i++)
                memcpy((st[k].session == a ? oa + (size_t)(at + i) * (size_t)r->width : ob + (size_t)(bt + i) * (size_t)r->width),
                       r->hidden ? infer_session_hidden(st[k].session, i) : infer_session_logits(st[k].session, i),
                       (size_t)r->width * sizeof(float));
        if (na > 0) at += na;
        if (nb > 0) bt += nb;
    }
}

static void arch_same(const char *how, const float *a, const float *b, size_t n) {
    if (memcmp(a, b, n * sizeof(float)) != 0) {
        char m[120];
        snprintf(m, sizeof m, "%s: not the same bits, nmse %.3g", how, check_nmse(a, b, n));
        check_note(__FILE__, __LINE__, m);
    }
}

static void arch_run(void) {
    infer_model_params mp;
    infer_model *m = NULL;
    infer_error e;
    arch_ref r;
    infer_session *s, *t = NULL, *u = NULL;
    const char *path = arch_path("gguf");
    float *at_once, *other, *third;
    size_t n;
    double nmse;
    if (!path) SKIP("needs INFER_TEST_DATA");
    check_detail = arch_file;
    memset(&mp, 0, sizeof mp);
    if (infer_model_open(&m, path, &mp, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    if (!arch_ref_open(&r)) { check_note(__FILE__, __LINE__, "no reference"); infer_model_close(m); return; }
    n = (size_t)r.n * (size_t)r.width;
    at_once = (float *)calloc(n, sizeof(float));
    other = (float *)calloc(n, sizeof(float));
    third = (float *)calloc(n, sizeof(float));
    s = arch_session(m, 2, 0);
    if (s && at_once && other && third) {
        arch_eval(s, &r, 0, r.n, r.n, at_once);
        nmse = check_nmse(at_once, r.x, n);
        if (getenv("CHECK_VERBOSE")) printf("%-28s nmse %.3g\n", arch_file, nmse);
        if (!(nmse <= ARCH_LIMIT)) {
            char msg[80];
            snprintf(msg, sizeof msg, "nmse %.3g is above %.1g", nmse, ARCH_LIMIT);
            check_note(__FILE__, __LINE__, msg);
        }
        CHECK(infer_session_rewind(s, r.n / 3) == INFER_OK);
        memcpy(other, at_once, n * sizeof(float));
        CHECK(infer_session_fork(&t, s, &e) == INFER_OK);
        arch_eval(s, &r, r.n / 3, r.n, 9, other);
        arch_same("after rewind", other, at_once, n);
        if (t) arch_eval(t, &r, r.n / 3, r.n, 4, other);
        arch_same("after fork", other, at_once, n);
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        if (t) CHECK(infer_session_rewind(t, 0) == INFER_OK);
        memset(other, 0, n * sizeof(float));
        if (t) arch_together(s, t, &r, other, third);
        arch_same("two sessions, first", other, at_once, n);
        arch_same("two sessions, second", third, at_once, n);
        infer_session_destroy(t);
    }
    infer_session_destroy(s);
    u = arch_session(m, 1, 7); /* one thread, passes of 7 rows, one id at a time */
    if (u) {
        memset(other, 0, n * sizeof(float));
        arch_eval(u, &r, 0, r.n, 1, other);
        arch_same("one id at a time", other, at_once, n);
        CHECK(infer_session_rewind(u, 0) == INFER_OK);
        arch_eval(u, &r, 0, r.n, r.n, other);
        arch_same("passes of 7", other, at_once, n);
    }
    infer_session_destroy(u);
    CHECK(infer_model_close(m) == INFER_OK);
    free(at_once);
    free(other);
    free(third);
    free(r.data);
}

/* Every row of ARCHS has at least one file above. */
static void test_arch_all_proven(void) {
    int32_t i;
    size_t j;
    for (i = 0; infer_arch_name(i); i++) {
        size_t n = strlen(infer_arch_name(i));
        int found = 0;
        for (j = 0; j < sizeof ARCH_FILES / sizeof *ARCH_FILES; j++)
            if (strncmp(ARCH_FILES[j], infer_arch_name(i), n) == 0 && ARCH_FILES[j][n] == '-') found = 1;
        check_detail = infer_arch_name(i);
        CHECK(found);
        CHECK(infer_arch_reference(i) && *infer_arch_reference(i));
    }
    CHECK(i >= 28);
}

static void suite_arch(void) {
    size_t i;
    for (i = 0; i < sizeof ARCH_FILES / sizeof *ARCH_FILES; i++) {
        static char name[64];
        arch_file = ARCH_FILES[i];
        snprintf(name, sizeof name, "arch_%s", arch_file);
        check_run(name, arch_run);
    }
    RUN(test_arch_all_proven);
}
