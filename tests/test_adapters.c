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
    "position_embd.", "token_types.", "conv1d", "shortconv.conv.", "attn_kv_b.", "attn_k_b.", "attn_v_b.", "attn_rel_b.", "cls.", "dense_2.",
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
static int adapter_is_matrix(const infer__gguf_tensor *t) { return t->n_dims > 1 && t->rows > 1 && t->dims[0] > 1; }

/* Evaluate some ids; *n floats, or NULL. */
static float *adapter_eval(infer_model *m, const infer_adapter_use *use, int32_t n_use, int32_t batch, size_t *n) {
    infer_token ids[24];
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    float *out = NULL;
    const float *x;
    int32_t i, width;
    memset(&p, 0, sizeof p);
    p.context = 64;
    p.own.kv_type = INFER_KV_F32;
    p.own.batch = batch;
    p.own.threads = 2;
    for (i = 0; i < 24; i++) ids[i] = (infer_token)((7 + i * 5) % (m->hp.n_vocab - 1));
    if (infer_session_create(&s, m, &p, &e)) { check_note(__FILE__, __LINE__, e.message); return NULL; }
    if (infer_session_set_adapters(s, use, n_use)) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
    x = arch_any(s, ids, 24, &width);
    if (!x) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
    *n = (size_t)width;
    if (x) {
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

static void adapter_arch(void) {
    infer_model *m = NULL, *merged = NULL;
    infer_model_params mp;
    infer_adapter *a;
    infer_adapter_use use;
    infer_error e;
    infer_result r;
    gguf_writer all, file, one;
    unsigned char *bytes;
    size_t n, n2, size;
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
        base = adapter_eval(m, NULL, 0, 0, &n);
        with = adapter_eval(m, &use, 1, 0, &n);
        want = adapter_eval(merged, NULL, 0, 0, &n2);
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
    for (i = 0; i < INFER__COUNT(ARCH_FILES); i++) {
        arch_file = ARCH_FILES[i];
        adapter_arch();
    }
}

static void suite_adapters(void) {
    RUN(test_adapters_every_matrix);
}
