/* test_adapters.c: adapters and control vectors: every matrix of every architecture against a file whose weights have it added,
 * llama.cpp's references, sessions that use different ones, files that are wrong. */
#include "gguf_write.h"

enum { ADAPTER_RANK = 3 };

/* ---- files ------------------------------------------------------------------------------------------------------- */

static uint32_t adapter_seed;
static float adapter_random(void) { /* -1 .. 1 */
    adapter_seed = adapter_seed * 1664525u + 1013904223u;
    return (float)(int32_t)adapter_seed / 2147483648.0f;
}

/* A pair for tensor t of a model's file, as large as a good part of its values; *delta (may be NULL) becomes scale B A. */
static void adapter_pair(gguf_writer *w, infer_model *m, const infer__gguf_tensor *t, double scale, float **delta) {
    const int embeds = strcmp(t->name, "token_embd.weight") == 0;
    const uint64_t experts = t->n_dims > 2 ? t->dims[2] : 1, in = embeds ? t->rows : t->dims[0];
    const uint64_t out = embeds ? t->dims[0] : t->rows / experts, r = ADAPTER_RANK;
    uint64_t da[3] = { in, r, experts }, db[3] = { r, out, experts }, e, i, j, k;
    float *a = (float *)malloc(experts * r * in * sizeof *a), *b = (float *)malloc(experts * r * out * sizeof *b);
    float *x = (float *)malloc(t->rows * t->dims[0] * sizeof *x);
    char name[160];
    double square = 0;
    CHECK(infer_tensor_read(m, t->name, 0, t->rows, x, NULL) == INFER_OK);
    for (i = 0; i < t->rows * t->dims[0]; i++) square += (double)x[i] * x[i];
    square = sqrt(square / (double)(t->rows * t->dims[0])) * 0.5;
    for (i = 0; i < experts * r * in; i++) a[i] = adapter_random();
    for (i = 0; i < experts * r * out; i++) b[i] = (float)(adapter_random() * square);
    if (embeds) { da[0] = r; da[1] = in; }
    snprintf(name, sizeof name, "%s.lora_a", t->name);
    gw_tensor(w, name, 0, t->n_dims > 2 ? 3 : 2, da, a, experts * r * in * sizeof *a, sizeof *a);
    snprintf(name, sizeof name, "%s.lora_b", t->name);
    gw_tensor(w, name, 0, t->n_dims > 2 ? 3 : 2, db, b, experts * r * out * sizeof *b, sizeof *b);
    if (delta) {
        for (e = 0; e < experts; e++)
            for (i = 0; i < out; i++)
                for (j = 0; j < in; j++) {
                    double sum = 0;
                    for (k = 0; k < r; k++)
                        sum += (double)b[(e * out + i) * r + k] * a[embeds ? j * r + k : (e * r + k) * in + j];
                    x[embeds ? j * out + i : (e * out + i) * in + j] = (float)(scale * sum);
                }
        *delta = x;
    } else free(x);
    free(a);
    free(b);
}

static void adapter_head(gguf_writer *w, const infer_model *m, float alpha) {
    gw_init(w);
    gw_str(w, "general.architecture", m->arch_name);
    gw_str(w, "general.type", "adapter");
    gw_str(w, "adapter.type", "lora");
    if (alpha != 0) gw_f32(w, "adapter.lora.alpha", alpha);
}

/* All keys of a model's file. */
static void adapter_copy_keys(gguf_writer *w, const infer_model *m) {
    int32_t i;
    uint64_t j;
    for (i = 0; i < m->gguf.n_kv; i++) {
        const infer__kv *kv = &m->gguf.kv[i];
        if (kv->type == INFER__GGUF_STRING) gw_strn(w, kv->key, kv->data, (size_t)kv->n);
        else if (kv->type != INFER__GGUF_ARRAY) {
            double v = infer__kv_number(kv, 0);
            if (kv->type == INFER__GGUF_F32) gw_f32(w, kv->key, (float)v);
            else if (kv->type == INFER__GGUF_F64) gw_f64(w, kv->key, v);
            else gw_int(w, kv->key, (int)kv->type, (int64_t)v);
        } else {
            gw_array(w, kv->key, kv->element, kv->n);
            for (j = 0; j < kv->n && infer__kv_is_strings(kv); j++) {
                infer__str s = infer__kv_string(kv, j);
                gw_raw_string(w, &w->kv, s.s, (size_t)s.n);
            }
            for (j = 0; j < kv->n && infer__kv_is_numbers(kv); j++) {
                double v = infer__kv_number(kv, j);
                float f = (float)v;
                uint64_t u = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
                if (kv->element == INFER__GGUF_F32) { uint32_t bits; memcpy(&bits, &f, 4); u = bits; }
                if (kv->element == INFER__GGUF_F64) memcpy(&u, &v, 8);
                gw_uint(w, &w->kv, u, gw_size((int)kv->element));
            }
        }
    }
}

static void adapter_copy_tensor(gguf_writer *w, infer_model *m, const infer__gguf_tensor *t, const char *name, const float *delta) {
    float *x = (float *)malloc(t->rows * t->dims[0] * sizeof *x);
    uint64_t i;
    CHECK(infer_tensor_read(m, t->name, 0, t->rows, x, NULL) == INFER_OK);
    for (i = 0; delta && i < t->rows * t->dims[0]; i++) x[i] += delta[i];
    gw_tensor(w, name, 0, (uint32_t)t->n_dims, t->dims, x, t->rows * t->dims[0] * sizeof *x, sizeof *x);
    free(x);
}

static infer_adapter *adapter_open(infer_model *m, gguf_writer *w, infer_result *result, infer_error *e) {
    infer_adapter *a = NULL;
    size_t n;
    unsigned char *file = gw_finish(w, &n);
    infer_result r = infer_adapter_open_memory(&a, m, file, n, 0, e);
    CHECK((r == INFER_OK) == (a != NULL) && e->code == r);
    if (result) *result = r;
    else if (r) check_note(__FILE__, __LINE__, e->message);
    free(file);
    return a;
}

/* ---- every matrix of every architecture -------------------------------------------------------------------------- */

/* Parts of names of matrices that no product of their own reads: an adapter of one is refused by name. */
static const char *const ADAPTER_REFUSED[] = {
    "position_embd.", "conv1d", "shortconv.conv.", "attn_kv_b.", "attn_k_b.", "attn_v_b.", "attn_rel_b.", "cls.", "dense_2.",
    "dense_3.", "per_layer_token_embd.", "ffn_gate_tid2eid.", "attn_output_a.", "compressor_ape.", "ssm_a", "output_hc_",
    "altup_unembd_proj", "altup_proj", "per_layer_model_proj", "rope_freqs", "lora_", "norm", ".bias", "vis_", "time_mix_w2.", "lerp_", "time_mix_first.", "r_k."
};
static int adapter_may_refuse(const infer_model *m, const char *name) {
    int32_t l, s, read = 0;
    size_t i;
    for (s = 0; s < INFER__MODEL_SLOT_COUNT; s++) read |= m->w[s].name && strcmp(m->w[s].name, name) == 0;
    for (l = 0; l < m->hp.n_layer; l++)
        for (s = 0; s < INFER__LAYER_SLOT_COUNT; s++) read |= m->layers[l].w[s].name && strcmp(m->layers[l].w[s].name, name) == 0;
    if (!read) return 1; /* the model has no use for it, either */
    for (i = 0; i < INFER__COUNT(ADAPTER_REFUSED); i++)
        if (strstr(name, ADAPTER_REFUSED[i])) return 1;
    return 0;
}

/* A norm, or another tensor that has several rows and is no matrix: found by what the library makes of it. */
static int adapter_is_matrix(const infer__gguf_tensor *t) {
    return (t->n_dims > 1 && t->rows > 1 && t->dims[0] > 1) || strcmp(t->name, "token_types.weight") == 0;
}

/* A session of its own, with these adapters; NULL after a failure. */
static infer_session *adapter_own(infer_model *m, int32_t context, const infer_adapter_use *uses, int32_t n) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = context;
    p.own.kv_type = INFER_KV_F32;
    p.own.threads = 2;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    else if (infer_session_set_adapters(s, uses, n)) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
    return s;
}

/* Evaluate some ids; *n floats, or NULL. */
static float *adapter_eval(infer_model *m, const infer_adapter_use *use, int32_t n_use, size_t *n) {
    infer_token ids[24];
    infer_session *s = adapter_own(m, 64, use, n_use);
    float *out = NULL;
    const float *x;
    int32_t i, width;
    for (i = 0; i < 24; i++) ids[i] = (infer_token)((7 + i * 5) % (m->hp.n_vocab - 1));
    x = s ? arch_any(s, ids, 24, &width) : NULL;
    if (s && !x) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
    if (x) {
        *n = (size_t)width;
        out = (float *)malloc((size_t)width * sizeof *out);
        memcpy(out, x, (size_t)width * sizeof *out);
    }
    infer_session_destroy(s);
    return out;
}

/* Adapters are added behind the scale of a matrix. */
static void adapter_unscale(infer_model *m, const infer__gguf_tensor *t, float *delta) {
    char name[160];
    float x[64];
    const uint64_t n = t->n_dims > 2 ? t->dims[2] : 1, all = t->rows * t->dims[0];
    uint64_t i;
    snprintf(name, sizeof name, "%.*s.scale", (int)(strlen(t->name) - strlen(".weight")), t->name);
    if (!infer__gguf_tensor_find(&m->gguf, name) || strstr(name, "ffn_gate_inp")) return; /* that one is a norm's */
    CHECK(n <= 64);
    CHECK(infer_tensor_read(m, name, 0, 1, x, NULL) == INFER_OK);
    for (i = 0; i < all; i++) delta[i] /= x[i / (all / n)];
}

/* Merged, as float32, it computes what it does with the adapter, and afterwards the bits of before. */
static void adapter_merge(infer_model *m, const infer_adapter_use *use, const float *base, const float *with, size_t n) {
    const uint64_t print = m->weights_print, bytes = m->token_bytes;
    const int64_t used = infer__atomic_get(&m->mem.used);
    infer_error e;
    size_t n2 = 0;
    float *got;
    double off;
    if (infer_model_merge(m, use, 1, "f32", &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    CHECK(m->weights_print != print && infer__atomic_get(&m->mem.used) > used);
    CHECK(infer_model_merge(m, use, 1, NULL, &e) == INFER_ERR_STATE);
    CHECK_HAS(e.message, "merged before");
    got = adapter_eval(m, NULL, 0, &n2);
    off = got && n == n2 ? check_nmse(with, got, n) : 1;
    if (!(off <= 1e-10)) {
        char msg[100];
        snprintf(msg, sizeof msg, "merged: nmse %.3g", off);
        check_note(__FILE__, __LINE__, msg);
    }
    free(got);
    CHECK(infer_model_unmerge(m, &e) == INFER_OK);
    CHECK(infer_model_unmerge(m, &e) == INFER_OK); /* nothing to do */
    CHECK(m->weights_print == print && m->token_bytes == bytes && infer__atomic_get(&m->mem.used) == used);
    got = adapter_eval(m, NULL, 0, &n2);
    CHECK(got && n == n2 && memcmp(got, base, n * sizeof *got) == 0);
    free(got);
}

static void adapter_arch(void) {
    infer_model *m = NULL, *merged = NULL;
    infer_model_params mp;
    infer_adapter *a;
    infer_adapter_use use;
    infer_error e;
    infer_result r;
    gguf_writer all, file, one;
    unsigned char *bytes;
    size_t n = 0, n2 = 0, size;
    int32_t i, taken = 0;
    float *base, *with, *want;
    const char *path = arch_path("gguf");
    double moved, off;
    if (!path) return;
    memset(&mp, 0, sizeof mp);
    mp.exact = 1;
    check_detail = arch_file;
    if (infer_model_open(&m, path, &mp, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    adapter_seed = 1;
    adapter_head(&all, m, 2);
    gw_init(&file);
    adapter_copy_keys(&file, m);
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[i];
        const int embeds = strcmp(t->name, "token_embd.weight") == 0, tied = !infer__gguf_tensor_find(&m->gguf, "output.weight");
        float *delta = NULL;
        r = INFER_ERR_UNSUPPORTED;
        if (adapter_is_matrix(t) && !(embeds && tied && m->hp.n_enc)) {
            adapter_head(&one, m, 2);
            adapter_pair(&one, m, t, 0, NULL);
            a = adapter_open(m, &one, &r, &e);
            if (a) CHECK(infer_adapter_close(a) == INFER_OK);
            else if (!adapter_may_refuse(m, t->name) || r != INFER_ERR_UNSUPPORTED || !strstr(e.message, t->name)) check_note(__FILE__, __LINE__, e.message);
        }
        if (r == INFER_OK) {
            adapter_pair(&all, m, t, 2.0 / ADAPTER_RANK * 0.75, &delta);
            adapter_unscale(m, t, delta);
            taken++;
        }
        adapter_copy_tensor(&file, m, t, t->name, delta);
        if (embeds && tied && !m->hp.encoder && delta) adapter_copy_tensor(&file, m, t, "output.weight", NULL);
        free(delta);
    }
    bytes = gw_finish(&file, &size);
    a = adapter_open(m, &all, NULL, &e);
    if (infer_model_open_memory(&merged, bytes, size, &mp, &e)) check_note(__FILE__, __LINE__, e.message);
    memset(&use, 0, sizeof use);
    use.adapter = a;
    use.scale = 0.75f;
    if (a && merged) {
        base = adapter_eval(m, NULL, 0, &n);
        with = adapter_eval(m, &use, 1, &n);
        want = adapter_eval(merged, NULL, 0, &n2);
        if (base && with) adapter_merge(m, &use, base, with, n);
        if (base && with && want && n == n2) {
            off = check_nmse(with, want, n);
            moved = check_nmse(base, want, n);
            if (getenv("CHECK_VERBOSE")) printf("%-28s %3d matrices, moved %.3g, off %.3g\n", arch_file, (int)taken, moved, off);
            if (!(off <= 1e-9 && moved > 1e-3)) {
                char msg[100];
                snprintf(msg, sizeof msg, "%d matrices: nmse %.3g, %.3g from the model without", (int)taken, off, moved);
                check_note(__FILE__, __LINE__, msg);
            }
        } else CHECK(!"results");
        free(base);
        free(with);
        free(want);
    }
    CHECK(infer_model_close(m) == (a ? INFER_ERR_STATE : INFER_OK));
    if (a) {
        CHECK(infer_adapter_close(a) == INFER_OK);
        CHECK(infer_model_close(m) == INFER_OK);
    }
    infer_model_close(merged);
    free(bytes);
}

static void test_adapters_every_matrix(void) {
    size_t i;
    for (i = 0; i < INFER__COUNT(ARCH_FILES); i += (size_t)check_every(8)) {
        arch_file = ARCH_FILES[i];
        adapter_arch();
    }
}

/* ---- llama.cpp's references ---------------------------------------------------------------------------------------- */

/* Files and scales as in adapters/manifest.json; merged: the weights of the file have the adapter in them (0 = there is no such
 * recording). unknown: what llama.cpp ignores. */
typedef struct adapter_case {
    const char *name, *base, *lora[3];
    float scale[3];
    const char *control[2];
    float strength[2];
    int32_t first, last, merged, unknown;
} adapter_case;
static const adapter_case ADAPTER_CASES[] = {
    { "llama-attn", "archs/llama-dense", { "llama-attn" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama-all", "archs/llama-dense", { "llama-all" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama-rank1", "archs/llama-dense", { "llama-ffn-rank1" }, { -0.4f }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama-two", "archs/llama-dense", { "llama-all", "llama-ffn-rank1" }, { 0.7f, -0.4f }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama-three", "archs/llama-dense", { "llama-attn", "llama-all", "llama-noalpha" }, { 0.5f, -0.3f, 0.25f }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama-noalpha", "archs/llama-dense", { "llama-noalpha" }, { 0.6f }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama-mixed", "archs/llama-dense", { "llama-mixedranks-norm-shuffled" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 1 },
    { "llama-scale0", "archs/llama-dense", { "llama-all" }, { 0 }, { NULL }, { 0 }, 0, 0, 0, 0 },
    { "qwen3-dense", "archs/qwen3-dense", { "qwen3-dense-lora" }, { 0.7f }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "gemma3-dense", "archs/gemma3-dense", { "gemma3-dense-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "gpt2-dense", "archs/gpt2-dense", { "gpt2-dense-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "phi3-dense", "archs/phi3-dense", { "phi3-dense-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "qwen3moe-moe", "archs/qwen3moe-moe", { "qwen3moe-moe-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "qwen3moe-experts-only", "archs/qwen3moe-moe", { "qwen3moe-experts-only" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "qwen3moe-two", "archs/qwen3moe-moe", { "qwen3moe-moe-lora", "qwen3moe-experts-only" }, { 0.7f, -0.4f }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "mamba2-dense", "archs/mamba2-dense", { "mamba2-dense-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "qwen35-dense", "archs/qwen35-dense", { "qwen35-dense-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama-tied-dense", "archs/llama-tied-dense", { "llama-tied-dense-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama256-q8_0", "quants/llama256-q8_0", { "llama256-q8_0-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "llama256-q4_K", "quants/llama256-q4_K", { "llama256-q4_K-lora" }, { 1 }, { NULL }, { 0 }, 0, 0, 1, 0 },
    { "alora-from-invocation", "archs/qwen3-dense", { "alora-qwen3" }, { 1 }, { NULL }, { 0 }, 0, 0, 0, 0 },
    { "cvec-all", "adapters/llama6", { NULL }, { 0 }, { "cvec-full" }, { 1 }, 0, 0, 1, 0 },
    { "cvec-range", "adapters/llama6", { NULL }, { 0 }, { "cvec-full" }, { -1.5f }, 2, 3, 1, 0 },
    { "cvec-gaps", "adapters/llama6", { NULL }, { 0 }, { "cvec-gaps-beyond" }, { 1 }, 0, 0, 1, 1 },
    { "cvec-two", "adapters/llama6", { NULL }, { 0 }, { "cvec-full", "cvec-gaps-beyond" }, { 0.5f, -0.8f }, 2, 5, 1, 1 },
    { "cvec-lora", "adapters/llama6", { "llama6-lora" }, { 0.7f }, { "cvec-full" }, { 0.8f }, 1, 4, 1, 0 },
    { "cvec-gemma3-real-dense", "archs/gemma3-real-dense", { NULL }, { 0 }, { "cvec-gemma3-real-dense" }, { 1 }, 3, 5, 0, 0 },
    { "cvec-qwen3moe-moe", "archs/qwen3moe-moe", { NULL }, { 0 }, { "cvec-qwen3moe-moe" }, { 1 }, 0, 0, 0, 0 },
    { "cvec-mamba2-dense", "archs/mamba2-dense", { NULL }, { 0 }, { "cvec-mamba2-dense" }, { 1 }, 0, 0, 0, 0 },
    { "cvec-gpt2-dense", "archs/gpt2-dense", { NULL }, { 0 }, { "cvec-gpt2-dense" }, { 1 }, 0, 0, 0, 0 },
};

static const char *adapter_reference(const char *folder, const char *name, const char *ext) {
    char path[160];
    snprintf(path, sizeof path, "%s%s.%s", folder, name, ext);
    return check_reference(path);
}

/* Ids [from, to), `step` at a time; every row's logits to out, where it is not NULL. */
static void adapter_go(infer_session *s, const infer_token *ids, int32_t from, int32_t to, int32_t step, float *out) {
    const int32_t vocab = s->context->model->hp.n_vocab;
    infer_step st;
    infer_error e;
    for (; from < to; from += st.n) {
        memset(&st, 0, sizeof st);
        st.session = s;
        st.tokens = ids + from;
        st.n = to - from < step ? to - from : step;
        st.outputs = INFER_OUT_ALL;
        if (infer_eval(s->context, &st, 1, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
        if (out) memcpy(out + (size_t)from * (size_t)vocab, infer_session_logits(s, 0), (size_t)st.n * (size_t)vocab * sizeof *out);
    }
}

/* Logits of all ids, or NULL; `uses` on the session. */
static float *adapter_logits(infer_model *m, const infer_token *ids, int32_t n, const infer_adapter_use *uses, int32_t n_uses) {
    infer_session *s = adapter_own(m, 256, uses, n_uses);
    const size_t values = (size_t)n * (size_t)m->hp.n_vocab;
    float *out = s ? (float *)calloc(values, sizeof *out) : NULL;
    if (out) adapter_go(s, ids, 0, n, n, out);
    infer_session_destroy(s);
    return out;
}

static void adapter_compare(const adapter_case *c, infer_model *m, const infer_adapter_use *uses, int32_t n_uses, const char *file, double limit) {
    size_t size;
    char *data = check_read(file, &size);
    int32_t head[2];
    float *got;
    size_t at;
    if (!data) { check_note(__FILE__, __LINE__, file); return; }
    for (at = 0; at + 4 <= size; at += 4) { /* the file is little-endian, this CPU may not be */
        const uint32_t u = infer__load_u32(data + at);
        memcpy(data + at, &u, 4);
    }
    memcpy(head, data, 8);
    CHECK(head[1] == m->hp.n_vocab && size == 8 + (size_t)head[0] * 4 * (size_t)(1 + head[1]));
    got = adapter_logits(m, (const infer_token *)(void *)(data + 8), head[0], uses, n_uses);
    if (got) {
        const double nmse = check_nmse(got, (const float *)(void *)(data + 8 + (size_t)head[0] * 4), (size_t)head[0] * (size_t)head[1]);
        char msg[200];
        if (getenv("CHECK_VERBOSE")) printf("%-28s %.3g\n", c->name, nmse);
        snprintf(msg, sizeof msg, "%s: nmse %.3g is above %.1g", file, nmse, limit);
        if (!(nmse <= limit)) check_note(__FILE__, __LINE__, msg);
    }
    free(got);
    free(data);
}

static void adapter_case_run(const adapter_case *c) {
    infer_model_params mp;
    infer_model *m = NULL;
    infer_adapter_use uses[5];
    infer_error e;
    int32_t i, n = 0;
    char name[80];
    memset(&mp, 0, sizeof mp);
    memset(uses, 0, sizeof uses);
    mp.exact = 1;
    check_detail = c->name;
    if (infer_model_open(&m, adapter_reference("", c->base, "gguf"), &mp, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (i = 0; i < 3 && c->lora[i]; i++, n++) {
        if (infer_adapter_open(&uses[n].adapter, m, adapter_reference("adapters/", c->lora[i], "gguf"), c->unknown, &e)) check_note(__FILE__, __LINE__, e.message);
        uses[n].scale = c->scale[i];
    }
    for (i = 0; i < 2 && c->control[i]; i++, n++) {
        if (infer_adapter_open(&uses[n].adapter, m, adapter_reference("adapters/", c->control[i], "gguf"), c->unknown, &e)) check_note(__FILE__, __LINE__, e.message);
        uses[n].scale = c->strength[i];
        uses[n].first_layer = c->first;
        uses[n].last_layer = c->last;
    }
    adapter_compare(c, m, uses, n, adapter_reference("adapters/", c->name, "logits"), strstr(c->name, "256") ? 2e-3 : 2e-6);
    snprintf(name, sizeof name, "%s.merged", c->name);
    if (c->merged) adapter_compare(c, m, uses, n, adapter_reference("adapters/", name, "logits"), strstr(c->name, "gpt2") || strstr(c->name, "gemma") ? 1e-7 : 1e-12);
    if (strcmp(c->name, "llama-mixed") == 0) { /* what is ignored there is not ignored otherwise */
        infer_adapter *a = NULL;
        CHECK(infer_adapter_open(&a, m, adapter_reference("adapters/", c->lora[0], "gguf"), 0, &e) == INFER_ERR_UNSUPPORTED && !a);
        CHECK_HAS(e.message, "attn_norm.weight");
    }
    for (i = 0; i < n; i++) CHECK(infer_adapter_close(uses[i].adapter) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_adapters_references(void) {
    size_t i;
    if (!check_reference("adapters")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(ADAPTER_CASES); i++) adapter_case_run(&ADAPTER_CASES[i]);
}

static void test_adapters_references_refused(void) {
    static const struct { const char *name, *base; infer_result r; const char *why; } files[] = {
        { "bad-arch", "archs/llama-dense", INFER_ERR_UNSUPPORTED, "general.architecture" },
        { "bad-adapter-type", "archs/llama-dense", INFER_ERR_UNSUPPORTED, "adapter.type is \"ia3\"" },
        { "bad-general-type", "archs/llama-dense", INFER_ERR_UNSUPPORTED, "general.type is \"model\"" },
        { "bad-missing-b", "archs/llama-dense", INFER_ERR_FORMAT, "there is no blk.0.attn_q.weight.lora_b" },
        { "bad-unknown-tensor", "archs/llama-dense", INFER_ERR_ARGUMENT, "the model has no tensor blk.7.attn_q.weight" },
        { "bad-shape", "archs/llama-dense", INFER_ERR_FORMAT, "do not fit blk.0.attn_q.weight" },
        { "bad-rank-mismatch", "archs/llama-dense", INFER_ERR_FORMAT, "do not fit" },
        { "bad-suffix", "archs/llama-dense", INFER_ERR_UNSUPPORTED, "lora_magnitude" },
        { "bad-cvec-zero", "adapters/llama6", INFER_ERR_FORMAT, "direction.0" },
        { "bad-cvec-width", "adapters/llama6", INFER_ERR_ARGUMENT, "60 values, the model's stream 64" },
    };
    size_t i;
    if (!check_reference("adapters")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(files); i++) {
        infer_model *m = NULL;
        infer_adapter *a = NULL;
        infer_error e;
        check_detail = files[i].name;
        if (infer_model_open(&m, adapter_reference("", files[i].base, "gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); continue; }
        CHECK(infer_adapter_open(&a, m, adapter_reference("adapters/", files[i].name, "gguf"), 0, &e) == files[i].r && !a);
        CHECK_HAS(e.message, files[i].why);
        CHECK(infer_model_close(m) == INFER_OK);
    }
}

/* ---- sessions ----------------------------------------------------------------------------------------------------- */

/* An adapter of all matrices of layers whose name has `part` in it ("" = all that the library takes). */
static infer_adapter *adapter_of(infer_model *m, const char *part, uint32_t seed) {
    gguf_writer w, one;
    infer_error e;
    infer_result r;
    int32_t i;
    adapter_head(&w, m, 2);
    adapter_seed = seed;
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[i];
        infer_adapter *a;
        if (!adapter_is_matrix(t) || !strstr(t->name, part)) continue;
        adapter_head(&one, m, 2);
        adapter_pair(&one, m, t, 0, NULL);
        a = adapter_open(m, &one, &r, &e);
        if (a) adapter_pair(&w, m, t, 0, NULL);
        infer_adapter_close(a);
    }
    return adapter_open(m, &w, NULL, &e);
}

static infer_adapter *adapter_control(infer_model *m) {
    gguf_writer w;
    infer_error e;
    float *x = (float *)malloc((size_t)m->hp.n_embd * sizeof *x);
    infer_adapter *a;
    uint64_t width = (uint64_t)m->hp.n_embd;
    int32_t i;
    gw_init(&w);
    gw_str(&w, "general.architecture", "controlvector");
    for (i = 0; i < m->hp.n_embd; i++) x[i] = 0.3f * adapter_random();
    gw_tensor(&w, "direction.1", 0, 1, &width, x, width * sizeof *x, sizeof *x);
    a = adapter_open(m, &w, NULL, &e);
    free(x);
    return a;
}

enum { ADAPTER_IDS = 60, ADAPTER_FIRST = 13, ADAPTER_SECOND = 37 };

static infer_session *adapter_session(infer_context *c) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = 128;
    if (infer_session_create_in(&s, c, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

static infer_context *adapter_context(infer_model *m, int32_t threads, int32_t batch) {
    infer_context_params p;
    infer_context *c = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.threads = threads;
    p.batch = batch;
    p.cells = 768;
    p.snapshot_every = 16;
    p.sessions = 5;
    p.kv_type = INFER_KV_F32;
    if (infer_context_create(&c, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return c;
}

/* Looking at steps unfuses ops: what adapters add is then an op of its own. */
static void adapter_look(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols) {
    (void)user; (void)layer; (void)step; (void)x; (void)rows; (void)cols;
}

/* No adapters, then two, then one and a control vector: at once, in pieces, with other sessions beside, after going back, in
 * forks and saved sessions, by other threads and batches: the same bits. */
static void adapter_life(const char *name, int control) {
    infer_model *m = cache_model(name);
    infer_adapter *a = m ? adapter_of(m, "", 1) : NULL, *b = m ? adapter_of(m, "blk.1.", 2) : NULL, *v = control ? adapter_control(m) : NULL;
    const int32_t vocab = m ? m->hp.n_vocab : 0;
    const size_t n = (size_t)ADAPTER_IDS * (size_t)vocab, third = (size_t)ADAPTER_SECOND * (size_t)vocab;
    infer_adapter_use two[2], one[2], other;
    infer_token ids[ADAPTER_IDS];
    infer_context *c, *d;
    infer_session *s, *t, *u, *f = NULL;
    infer_step st[3];
    infer_error e;
    float *want = (float *)calloc(n, sizeof *want), *beside = (float *)calloc(n, sizeof *want), *got = (float *)calloc(n, sizeof *want);
    infer_session_mark mark, from;
    state_bytes saved;
    int32_t i, way;
    check_detail = name;
    memset(&saved, 0, sizeof saved);
    memset(two, 0, sizeof two);
    memset(one, 0, sizeof one);
    memset(&other, 0, sizeof other);
    two[0].adapter = a;
    two[0].scale = 0.5f;
    two[1].adapter = other.adapter = one[0].adapter = b;
    two[1].scale = -0.7f;
    one[0].scale = 0.9f;
    one[1].adapter = v ? v : a;
    one[1].scale = 0.3f;
    other.scale = 1;
    if (!a || !b) { CHECK(!"adapters"); return; }
    cache_ids(ids, ADAPTER_IDS, 3, vocab);
    c = adapter_context(m, 1, 64);
    s = adapter_session(c);
    adapter_go(s, ids, 0, ADAPTER_FIRST, 64, want);
    CHECK(infer_session_set_adapters(s, two, 2) == INFER_OK);
    adapter_go(s, ids, ADAPTER_FIRST, ADAPTER_SECOND, 64, want);
    CHECK(infer_session_set_adapters(s, one, 2) == INFER_OK);
    adapter_go(s, ids, ADAPTER_SECOND, ADAPTER_IDS, 64, want);
    t = adapter_session(c);
    CHECK(infer_session_set_adapters(t, &other, 1) == INFER_OK);
    adapter_go(t, ids, 0, ADAPTER_IDS, 64, beside);
    CHECK(check_nmse(beside, want, (size_t)ADAPTER_FIRST * (size_t)vocab) > 1e-4); /* they do something */
    CHECK(check_nmse(beside + third, want + third, n - third) > 1e-4);
    for (way = 0; way < 2; way++) { /* threads and batches; an op of its own for what adapters add */
        d = adapter_context(m, way ? 2 : 3, way ? 64 : 7);
        u = adapter_session(d);
        if (way) u->trace = adapter_look;
        if (way) infer_context_set_adapters(d, one, 2, &e); /* of later sessions */
        adapter_go(u, ids, 0, ADAPTER_FIRST, way ? 1 : 5, got);
        CHECK(infer_session_set_adapters(u, two, 2) == INFER_OK);
        adapter_go(u, ids, ADAPTER_FIRST, ADAPTER_SECOND, way ? 1 : 11, got);
        CHECK(infer_session_set_adapters(u, one, 2) == INFER_OK);
        adapter_go(u, ids, ADAPTER_SECOND, ADAPTER_IDS, 9, got);
        arch_same("threads and batches", got, want, n);
        f = adapter_session(d);
        adapter_go(f, ids, 0, 20, 64, got);
        CHECK((memcmp(got, want, (size_t)vocab * sizeof *got) == 0) == !way); /* way 1: with the context's */
        infer_session_destroy(f);
        CHECK(infer_adapter_close(b) == INFER_ERR_STATE);
        infer_session_destroy(u);
        infer_context_destroy(d);
    }
    /* going back over the places where they change; what follows is evaluated with the last ones */
    for (i = 0; i < 3; i++) {
        static const int32_t to[3] = { 50, 38, 37 };
        memset(got, 0, n * sizeof *got);
        CHECK(infer_session_rewind(s, to[i]) == INFER_OK);
        CHECK(infer_session_fork(&f, s, &e) == INFER_OK);
        adapter_go(s, ids, to[i], ADAPTER_IDS, 64, got);
        arch_same("after rewind", got + (size_t)to[i] * (size_t)vocab, want + (size_t)to[i] * (size_t)vocab, n - (size_t)to[i] * (size_t)vocab);
        adapter_go(f, ids, to[i], ADAPTER_IDS, 6, got);
        arch_same("after fork", got + (size_t)to[i] * (size_t)vocab, want + (size_t)to[i] * (size_t)vocab, n - (size_t)to[i] * (size_t)vocab);
        infer_session_destroy(f);
    }
    /* three sessions in one pass: different adapters, and none */
    u = adapter_session(c);
    f = adapter_session(c);
    CHECK(infer_session_set_adapters(u, &other, 1) == INFER_OK);
    CHECK(infer_session_rewind(s, ADAPTER_SECOND) == INFER_OK);
    adapter_go(u, ids, 0, 5, 5, NULL);
    memset(st, 0, sizeof st);
    st[0].session = u;
    st[0].tokens = ids + 5;
    st[0].n = 9;
    st[1].session = f;
    st[1].tokens = ids;
    st[1].n = ADAPTER_FIRST;
    st[2].session = s;
    st[2].tokens = ids + ADAPTER_SECOND;
    st[2].n = 7;
    st[0].outputs = st[1].outputs = st[2].outputs = INFER_OUT_ALL;
    CHECK(infer_eval(c, st, 3, &e) == INFER_OK);
    arch_same("beside others, one", infer_session_logits(u, 0), beside + 5 * (size_t)vocab, 9 * (size_t)vocab);
    arch_same("beside others, none", infer_session_logits(f, 0), want, ADAPTER_FIRST * (size_t)vocab);
    arch_same("beside others, changed", infer_session_logits(s, 0), want + third, 7 * (size_t)vocab);
    infer_session_destroy(u);
    infer_session_destroy(f);
    /* saved: another session of the context has the sets; one of another context has not */
    CHECK(infer_session_save(s, state_write, &saved) == INFER_OK);
    d = adapter_context(m, 1, 64);
    u = adapter_session(d);
    adapter_go(u, ids, 0, 3, 3, NULL);
    CHECK(infer_session_load(u, state_read, &saved) == INFER_ERR_ARGUMENT && u->n == 3);
    CHECK_HAS(infer_session_error(u)->message, "saved with adapters that the session does not have");
    infer_session_destroy(u);
    infer_context_destroy(d);
    u = adapter_session(c);
    saved.at = 0;
    CHECK(infer_session_set_adapters(u, one, 2) == INFER_OK);
    if (infer_session_load(u, state_read, &saved)) check_note(__FILE__, __LINE__, infer_session_error(u)->message);
    CHECK(u->n_adapted == s->n_adapted && u->n == ADAPTER_SECOND + 7);
    adapter_go(u, ids, ADAPTER_SECOND + 7, ADAPTER_IDS, 64, got);
    arch_same("after load", got + (size_t)(ADAPTER_SECOND + 7) * (size_t)vocab, want + (size_t)(ADAPTER_SECOND + 7) * (size_t)vocab, n - (size_t)(ADAPTER_SECOND + 7) * (size_t)vocab);
    CHECK(infer_session_rewind(u, ADAPTER_SECOND) == INFER_OK); /* a recurrent state is made again from the start, with what was used there */
    adapter_go(u, ids, ADAPTER_SECOND, ADAPTER_IDS, 64, got);
    arch_same("after load and rewind", got + third, want + third, n - third);
    /* record by record: runs that begin before what is new stay, others come */
    saved.n = saved.at = 0;
    memset(&mark, 0, sizeof mark);
    CHECK(infer_session_save_more(s, &mark, state_write, &saved) == INFER_OK);
    for (i = 0; i < 3; i++) {
        if (i < 2) CHECK(infer_session_rewind(s, i ? ADAPTER_FIRST + 5 : ADAPTER_FIRST + 1) == INFER_OK);
        CHECK(infer_session_set_adapters(s, i % 2 ? &other : one, i % 2 ? 1 : 2) == INFER_OK);
        CHECK(infer_session_eval(s, ids + i, 9) == INFER_OK && infer_session_save_more(s, &mark, state_write, &saved) == INFER_OK);
        saved.at = 0;
        CHECK(infer_session_load_more(u, &from, state_read, &saved) == INFER_OK && u->n_adapted == s->n_adapted && inc_same(s, u));
    }
    infer_session_destroy(u);
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(c->adapter_sets == NULL);
    infer_context_destroy(c);
    CHECK(infer_model_close(m) == INFER_ERR_STATE);
    CHECK(infer_adapter_close(a) == INFER_OK && infer_adapter_close(b) == INFER_OK && infer_adapter_close(v) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
    free(want);
    free(beside);
    free(got);
    free(saved.p);
}

/* Every kind of state. */
static void test_adapters_sessions(void) {
    static const char *const files[] = { "llama-dense", "gemma3-real-dense", "minicpm3-dense", "qwen35-dense", "mamba2-groups-dense",
                                         "rwkv7-small-dense", "lfm2-dense", "qwen3moe-norm-moe", "llama-mixtral-moe" };
    size_t i;
    for (i = 0; i < INFER__COUNT(files); i += (size_t)check_every(3)) adapter_life(files[i], 1);
}

/* More parts than go along with one product: rows of sixteen sessions, with two adapters each. */
static void test_adapters_many(void) {
    enum { SESSIONS = 16 };
    infer_model *m = cache_model("llama-dense");
    infer_adapter *a = m ? adapter_of(m, "", 1) : NULL, *b = m ? adapter_of(m, "attn", 2) : NULL;
    infer_context *c;
    infer_session *s[SESSIONS];
    infer_step st[SESSIONS];
    infer_adapter_use uses[2];
    infer_token ids[4];
    infer_error e;
    int32_t i, vocab = m ? m->hp.n_vocab : 0;
    float *alone = (float *)calloc((size_t)vocab * SESSIONS, sizeof *alone);
    if (!a || !b) return;
    c = adapter_context(m, 2, 64);
    cache_ids(ids, 4, 3, vocab);
    memset(st, 0, sizeof st);
    for (i = 0; i < SESSIONS; i++) {
        s[i] = adapter_session(c);
        memset(uses, 0, sizeof uses);
        uses[i % 2].adapter = a;
        uses[(i + 1) % 2].adapter = b;
        uses[0].scale = 0.05f * (float)i;
        uses[1].scale = -0.3f;
        CHECK(infer_session_set_adapters(s[i], uses, 2) == INFER_OK);
        CHECK(infer_session_eval(s[i], ids, 4) == INFER_OK);
        memcpy(alone + (size_t)i * (size_t)vocab, infer_session_logits(s[i], -1), (size_t)vocab * sizeof *alone);
        CHECK(infer_session_rewind(s[i], 0) == INFER_OK);
        st[i].session = s[i];
        st[i].tokens = ids;
        st[i].n = 4;
        st[i].outputs = INFER_OUT_LAST;
    }
    CHECK(infer_eval(c, st, SESSIONS, &e) == INFER_OK);
    for (i = 0; i < SESSIONS; i++) {
        arch_same("many", infer_session_logits(s[i], -1), alone + (size_t)i * (size_t)vocab, (size_t)vocab);
        infer_session_destroy(s[i]);
    }
    infer_context_destroy(c);
    infer_adapter_close(a);
    infer_adapter_close(b);
    CHECK(infer_model_close(m) == INFER_OK);
    free(alone);
}

/* An adapter that waits for its invocation: positions before it have none. Vectors of texts with the context's adapters. */
static void test_adapters_invocation(void) {
    infer_model *m = cache_model("qwen3-plain-dense");
    gguf_writer w;
    infer_error e;
    infer_adapter *a;
    infer_adapter_info info;
    infer_adapter_use use[2];
    infer_context *c;
    infer_session *s, *t;
    static const int64_t words[2] = { 7, 9 };
    infer_token ids[20];
    const int32_t vocab = m ? m->hp.n_vocab : 0;
    float *got = (float *)calloc((size_t)vocab * 20, sizeof *got), *want = (float *)calloc((size_t)vocab * 20, sizeof *want);
    int32_t i;
    if (!m) return;
    adapter_head(&w, m, 2);
    gw_ints(&w, "adapter.alora.invocation_tokens", GW_U32, words, 2);
    gw_str(&w, "adapter.lora.task_name", "a task");
    gw_str(&w, "adapter.lora.prompt_prefix", "task: ");
    gw_str(&w, "general.name", "named");
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.0.ffn_up.weight"), 0, NULL);
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.1.attn_q.weight"), 0, NULL);
    a = adapter_open(m, &w, NULL, &e);
    CHECK(infer_adapter_get_info(a, &info) == INFER_OK && info.n_invocation == 2 && info.invocation[1] == 9 && info.matrices == 2 && info.rank == ADAPTER_RANK && !info.control);
    CHECK_STR(info.name, "named");
    CHECK_STR(info.task, "a task");
    CHECK_STR(info.prefix, "task: ");
    cache_ids(ids, 20, 3, vocab);
    for (i = 0; i < 20; i++)
        if (ids[i] == 7) ids[i] = 8;
    ids[4] = ids[11] = 7;
    ids[5] = ids[12] = 9; /* the last one counts: from 11 on */
    memset(use, 0, sizeof use);
    use[0].adapter = use[1].adapter = a;
    use[0].scale = use[1].scale = 1;
    c = adapter_context(m, 2, 64);
    s = adapter_session(c);
    t = adapter_session(c);
    adapter_go(t, ids, 0, 20, 20, want);
    CHECK(infer_session_rewind(t, 0) == INFER_OK);
    CHECK(infer_session_set_adapters(s, use, 2) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(infer_session_error(s)->message, "both wait");
    CHECK(infer_session_set_adapters(s, use, 1) == INFER_OK);
    adapter_go(s, ids, 0, 20, 20, got);
    arch_same("before", got, want, 11 * (size_t)vocab);
    CHECK(check_nmse(got + 11 * (size_t)vocab, want + 11 * (size_t)vocab, 9 * (size_t)vocab) > 1e-4);
    memcpy(want, got, (size_t)vocab * 20 * sizeof *got);
    CHECK(infer_session_rewind(s, 11) == INFER_OK); /* in pieces: it begins within a piece, and goes on */
    adapter_go(s, ids, 11, 14, 3, got);
    adapter_go(s, ids, 14, 20, 1, got);
    arch_same("in pieces", got + 11 * (size_t)vocab, want + 11 * (size_t)vocab, 9 * (size_t)vocab);
    infer_session_destroy(s);
    infer_session_destroy(t);
    infer_context_destroy(c);
    CHECK(infer_adapter_close(a) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(got);
    free(want);
}

/* An encoder's adapters are the context's: the vector of a text is that of an eval with them. */
static void test_adapters_embed(void) {
    infer_model *m = cache_model("bert-mean");
    infer_adapter *a = m ? adapter_of(m, "blk.", 1) : NULL;
    infer_adapter_use use;
    infer_context *c;
    infer_embed_params p;
    infer_error e;
    static const infer_token text[5] = { 3, 9, 4, 11, 5 };
    const infer_token *ids[1] = { text };
    const size_t n_ids[1] = { 5 };
    float *x = m ? (float *)calloc(3 * (size_t)m->hp.n_out, sizeof *x) : NULL;
    int i;
    if (!a) return;
    memset(&p, 0, sizeof p);
    memset(&use, 0, sizeof use);
    p.ids = ids;
    p.n_ids = n_ids;
    use.adapter = a;
    use.scale = 1;
    c = adapter_context(m, 2, 64);
    for (i = 0; i < 3; i++) {
        CHECK(infer_context_set_adapters(c, &use, i == 1, &e) == INFER_OK);
        if (infer_embed(c, NULL, 1, &p, x + (size_t)i * (size_t)m->hp.n_out, &e)) check_note(__FILE__, __LINE__, e.message);
    }
    CHECK(memcmp(x, x + 2 * m->hp.n_out, (size_t)m->hp.n_out * sizeof *x) == 0);
    CHECK(check_nmse(x + m->hp.n_out, x, (size_t)m->hp.n_out) > 1e-4);
    infer_context_destroy(c);
    CHECK(infer_adapter_close(a) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(x);
}

/* ---- what is wrong ------------------------------------------------------------------------------------------------- */

static void adapter_refuse(infer_model *m, gguf_writer *w, infer_result want, const char *why) {
    infer_error e;
    infer_result r;
    infer_adapter *a = adapter_open(m, w, &r, &e);
    if (r != want) check_note(__FILE__, __LINE__, e.message);
    CHECK_HAS(e.message, why);
    infer_adapter_close(a);
}

static void test_adapters_refused(void) {
    infer_model *m = cache_model("llama-dense"), *other = cache_model("llama-tied-dense"), *t5 = cache_model("t5-gated-dense");
    const infer__gguf_tensor *q;
    gguf_writer w;
    infer_error e;
    infer_adapter *a = NULL, *b;
    infer_adapter_use use[INFER_MAX_ADAPTERS + 1];
    infer_context *c;
    infer_session *s;
    static const int64_t bad_id[1] = { 100000 };
    static const float nan_value[1] = { NAN };
    uint64_t one[2] = { 1, 1 };
    int i;
    if (!m || !other || !t5) return;
    q = infer__gguf_tensor_find(&m->gguf, "blk.0.attn_q.weight");
    adapter_head(&w, m, NAN);
    adapter_pair(&w, m, q, 0, NULL);
    adapter_refuse(m, &w, INFER_ERR_FORMAT, "adapter.lora.alpha");
    adapter_head(&w, m, 2);
    adapter_refuse(m, &w, INFER_ERR_FORMAT, "the adapter has no tensors");
    adapter_head(&w, m, 2);
    adapter_pair(&w, m, q, 0, NULL);
    gw_int(&w, "adapter.lora.use_rslora", GW_BOOL, 1);
    adapter_refuse(m, &w, INFER_ERR_UNSUPPORTED, "adapter.lora.use_rslora");
    adapter_head(&w, m, 2);
    adapter_pair(&w, m, q, 0, NULL);
    gw_ints(&w, "adapter.alora.invocation_tokens", GW_U32, bad_id, 1);
    adapter_refuse(m, &w, INFER_ERR_FORMAT, "100000 is no id");
    adapter_head(&w, m, 2);
    gw_tensor(&w, "blk.0.attn_q.weight.lora_b", 0, 2, one, nan_value, 4, 4);
    adapter_refuse(m, &w, INFER_ERR_FORMAT, "there is no blk.0.attn_q.weight.lora_a");
    gw_init(&w);
    gw_str(&w, "general.architecture", "controlvector");
    gw_tensor(&w, "direction.1x", 0, 2, one, nan_value, 4, 4);
    adapter_refuse(m, &w, INFER_ERR_FORMAT, "direction.1x");
    gw_init(&w);
    gw_str(&w, "general.architecture", "controlvector");
    adapter_refuse(m, &w, INFER_ERR_FORMAT, "no tensors");
    gw_init(&w);
    gw_str(&w, "general.architecture", "controlvector");
    gw_tensor(&w, "direction.1", 0, 2, one, nan_value, 4, 4);
    adapter_refuse(t5, &w, INFER_ERR_UNSUPPORTED, "control vectors are not supported in \"t5\"");
    CHECK(infer_adapter_open(NULL, m, "x", 0, &e) == INFER_ERR_ARGUMENT && infer_adapter_open(&a, NULL, "x", 0, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_adapter_open(&a, m, NULL, 0, &e) == INFER_ERR_ARGUMENT && infer_adapter_open(&a, m, "no/such/file", 0, NULL) == INFER_ERR_IO && !a);
    CHECK(infer_adapter_open_memory(&a, m, "GGUF", 4, 0, &e) == INFER_ERR_FORMAT && !a);
    CHECK(infer_adapter_close(NULL) == INFER_OK && infer_adapter_get_info(NULL, NULL) == INFER_ERR_ARGUMENT);
    a = adapter_of(m, "attn", 1);
    b = adapter_of(other, "attn", 1);
    c = adapter_context(m, 1, 64);
    s = adapter_session(c);
    memset(use, 0, sizeof use);
    for (i = 0; i <= INFER_MAX_ADAPTERS; i++) { use[i].adapter = a; use[i].scale = 0.1f; }
    CHECK(infer_session_set_adapters(s, use, INFER_MAX_ADAPTERS + 1) == INFER_ERR_ARGUMENT && infer_session_set_adapters(s, NULL, 1) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_set_adapters(NULL, use, 1) == INFER_ERR_ARGUMENT && infer_context_set_adapters(NULL, use, 1, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_set_adapters(s, use, INFER_MAX_ADAPTERS) == INFER_OK && infer_session_set_adapters(s, use, 0) == INFER_OK);
    use[1].adapter = b;
    CHECK(infer_session_set_adapters(s, use, 2) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "adapter 1: it was opened for another model");
    use[0].scale = NAN;
    CHECK(infer_session_set_adapters(s, use, 1) == INFER_ERR_ARGUMENT && !s->adapters && !c->adapter_sets);
    CHECK(infer_adapter_close(a) == INFER_OK && infer_adapter_close(b) == INFER_OK);
    infer_session_destroy(s);
    infer_context_destroy(c);
    infer_model_close(m);
    infer_model_close(other);
    infer_model_close(t5);
}

/* The n-th allocation fails, wherever it is: an error, and everything is given back. */
static void test_adapters_oom(void) {
    infer_model_params mp;
    infer_model *m = NULL;
    gguf_writer w;
    unsigned char *file;
    size_t n;
    long at, live;
    int done = 0;
    infer_error e;
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    check_fail_at = 0;
    if (infer_model_open(&m, check_data("archs/qwen3moe-norm-moe.gguf"), &mp, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    adapter_head(&w, m, 2);
    gw_str(&w, "adapter.lora.task_name", "a task");
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.0.attn_q.weight"), 0, NULL);
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.0.ffn_up_exps.weight"), 0, NULL);
    file = gw_finish(&w, &n);
    live = check_live;
    for (at = 1; at < 400 && !done; at++) {
        infer_adapter *a = NULL;
        infer_context *c = NULL;
        infer_session *s = NULL, *f = NULL;
        infer_adapter_use use;
        static const infer_token ids[3] = { 1, 2, 3 };
        infer_adapter_use more[3];
        int i;
        memset(&use, 0, sizeof use);
        check_allocs = 0;
        check_fail_at = at;
        if (infer_adapter_open_memory(&a, m, file, n, 0, &e) == INFER_OK) {
            infer_result r;
            use.adapter = a;
            use.scale = 1;
            for (i = 0; i < 3; i++) more[i] = use;
            r = infer_context_create(&c, m, NULL, &e);
            if (!r) r = infer_context_set_adapters(c, &use, 1, &e);
            if (!r) r = infer_session_create_in(&s, c, NULL, &e);
            if (!r) r = infer_session_eval(s, ids, 3);
            if (!r) use.scale = 2;
            if (!r) r = infer_session_set_adapters(s, &use, 1);
            if (!r) r = infer_session_eval(s, ids, 3);
            if (!r) r = infer_session_fork(&f, s, &e);
            if (!r) r = infer_session_set_adapters(s, more, 3); /* needs a larger room */
            CHECK(r == INFER_OK || r == INFER_ERR_MEMORY);
            done = r == INFER_OK && check_allocs < at;
            check_fail_at = 0;
            if (s) CHECK(infer_session_eval(s, ids, 3) == INFER_OK); /* whatever it has now */
        } else CHECK(e.code == INFER_ERR_MEMORY && !a);
        check_fail_at = 0;
        infer_session_destroy(f);
        infer_session_destroy(s);
        CHECK(infer_context_destroy(c) == INFER_OK);
        CHECK(infer_adapter_close(a) == INFER_OK);
        CHECK(check_live == live);
    }
    CHECK(done);
    free(file);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_adapters(void) {
    RUN(test_adapters_every_matrix);
    RUN(test_adapters_references);
    RUN(test_adapters_references_refused);
    RUN(test_adapters_sessions);
    RUN(test_adapters_many);
    RUN(test_adapters_invocation);
    RUN(test_adapters_embed);
    RUN(test_adapters_refused);
    RUN(test_adapters_oom);
}
