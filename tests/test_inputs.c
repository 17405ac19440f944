/* test_inputs.c: context_params.inputs: what products read, against the formulas of a layer; each row once in every architecture, with the
 * same bits whatever the threads and passes, and without any effect on results. */

/* Every row that was given. */
typedef struct inputs_row { int32_t tensor, matrix; size_t at, cols; } inputs_row;
typedef struct inputs_log {
    infer_model *m;
    inputs_row *rows;
    float *x;
    size_t n, cap, n_x, cap_x;
} inputs_log;

static void inputs_add(void *user, int32_t tensor, int32_t matrix, const float *x, size_t rows, size_t cols) {
    inputs_log *g = (inputs_log *)user;
    infer_tensor_info t;
    size_t i;
    CHECK(rows > 0 && infer_tensor_get(g->m, tensor, &t) == INFER_OK);
    CHECK(cols == t.dims[0] && matrix >= 0 && (uint64_t)matrix < t.dims[2]);
    for (i = 0; i < rows; i++) {
        if (g->n == g->cap) g->rows = (inputs_row *)realloc(g->rows, (g->cap = 2 * g->cap + 64) * sizeof *g->rows);
        if (g->n_x + cols > g->cap_x) g->x = (float *)realloc(g->x, (g->cap_x = 2 * (g->cap_x + cols)) * sizeof *g->x);
        g->rows[g->n].tensor = tensor;
        g->rows[g->n].matrix = matrix;
        g->rows[g->n].at = g->n_x;
        g->rows[g->n++].cols = cols;
        memcpy(g->x + g->n_x, x + i * cols, cols * sizeof *x);
        g->n_x += cols;
    }
}

static void inputs_free(inputs_log *g) {
    free(g->rows);
    free(g->x);
    memset(g, 0, sizeof *g);
}

static int32_t inputs_tensor(const infer_model *m, const char *name) {
    int32_t i;
    for (i = 0; i < m->gguf.n_tensors && strcmp(m->gguf.tensors[i].name, name) != 0; i++) {}
    if (i == m->gguf.n_tensors) check_note(__FILE__, __LINE__, name);
    return i;
}

/* Row `row` that a tensor of layer 0 was given; NULL when there are fewer. *matrix may be NULL. */
static const float *inputs_of(const inputs_log *g, const char *name, size_t row, int32_t *matrix) {
    char full[80];
    int32_t t;
    size_t i;
    snprintf(full, sizeof full, "blk.0.%s.weight", name);
    t = inputs_tensor(g->m, full);
    for (i = 0; i < g->n; i++)
        if (g->rows[i].tensor == t && row-- == 0) {
            if (matrix) *matrix = g->rows[i].matrix;
            return g->x + g->rows[i].at;
        }
    return NULL;
}

/* A whole tensor as float32; to be freed. */
static float *inputs_values(infer_model *m, const char *name) {
    const infer__gguf_tensor *t = &m->gguf.tensors[inputs_tensor(m, name)];
    float *x = (float *)malloc(t->rows * t->dims[0] * sizeof *x);
    CHECK(infer_tensor_read(m, name, 0, t->rows, x, NULL) == INFER_OK);
    return x;
}

/* y = W x with a matrix of layer 0, in double; matrix: of several. */
static void inputs_product(infer_model *m, const char *name, int32_t matrix, const double *x, double *y) {
    char full[80];
    const infer__gguf_tensor *t;
    float *w;
    uint64_t i, j;
    snprintf(full, sizeof full, "blk.0.%s.weight", name);
    t = &m->gguf.tensors[inputs_tensor(m, full)];
    w = inputs_values(m, full);
    for (i = 0; i < t->dims[1]; i++)
        for (y[i] = 0, j = 0; j < t->dims[0]; j++) y[i] += (double)w[((uint64_t)matrix * t->dims[1] + i) * t->dims[0] + j] * x[j];
    free(w);
}

static void inputs_norm(infer_model *m, const char *name, const double *x, double *y) {
    float *w = inputs_values(m, name);
    double sum = 0;
    int32_t i;
    for (i = 0; i < m->hp.n_embd; i++) sum += x[i] * x[i];
    for (i = 0; i < m->hp.n_embd; i++) y[i] = x[i] / sqrt(sum / m->hp.n_embd + (double)m->hp.eps) * (double)w[i];
    free(w);
}

static void inputs_close(const char *what, const float *got, const double *want, int32_t n) {
    double e = 0, s = 0;
    int32_t i;
    for (i = 0; got && i < n; i++) {
        e += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        s += want[i] * want[i];
    }
    if (!got || !(e <= 1e-11 * s) || s == 0) check_note(__FILE__, __LINE__, what);
}

static infer_model *inputs_model(const char *path) {
    infer_model_params mp;
    infer_model *m = NULL;
    infer_error e;
    memset(&mp, 0, sizeof mp);
    mp.exact = 1;
    mp.backend = INFER_CPU;
    if (infer_model_open(&m, path, &mp, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

static infer_session *inputs_session(infer_model *m, inputs_log *g, int32_t threads, int32_t batch) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = 64;
    p.own.threads = threads;
    p.own.batch = batch;
    p.own.kv_type = INFER_KV_F32;
    if (g) {
        g->m = m;
        p.own.inputs = inputs_add;
        p.own.inputs_user = g;
    }
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

static void inputs_silu_mul(const double *gate, const double *up, double *y, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) y[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
}

enum { INPUTS_MAX = 1024 };

/* Layer 0 at position 0, where attention gives the value as it is: every input by its formula. */
static void test_inputs_dense(void) {
    infer_model *m = inputs_model(check_data("models/stories260K.F32.gguf"));
    inputs_log g = { 0 };
    infer_session *s = m ? inputs_session(m, &g, 1, 0) : NULL;
    static double x[INPUTS_MAX], xn[INPUTS_MAX], v[INPUTS_MAX], a[INPUTS_MAX], y[INPUTS_MAX], gate[INPUTS_MAX], up[INPUTS_MAX];
    const infer_token ids[] = { 5, 9, 3 };
    float *table;
    infer_step st;
    int32_t i, row, each, dim;
    if (!s) return;
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = ids;
    st.n = 3;
    st.outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
    CHECK(infer_eval(infer_session_get_context(s), &st, 1, NULL) == INFER_OK);
    table = inputs_values(m, "token_embd.weight");
    for (row = 0; row < 3; row++) { /* of all rows: what needs no attention */
        for (i = 0; i < m->hp.n_embd; i++) x[i] = table[(size_t)ids[row] * (size_t)m->hp.n_embd + (size_t)i];
        inputs_norm(m, "blk.0.attn_norm.weight", x, xn);
        inputs_close("attn_q", inputs_of(&g, "attn_q", (size_t)row, NULL), xn, m->hp.n_embd);
        inputs_close("attn_k", inputs_of(&g, "attn_k", (size_t)row, NULL), xn, m->hp.n_embd);
        inputs_close("attn_v", inputs_of(&g, "attn_v", (size_t)row, NULL), xn, m->hp.n_embd);
    }
    for (i = 0; i < m->hp.n_embd; i++) x[i] = table[(size_t)ids[0] * (size_t)m->hp.n_embd + (size_t)i];
    inputs_norm(m, "blk.0.attn_norm.weight", x, xn);
    inputs_product(m, "attn_v", 0, xn, v);
    dim = m->layers[0].dim_v;
    each = m->layers[0].n_head / m->layers[0].n_head_kv;
    for (i = 0; i < m->layers[0].n_head * dim; i++) a[i] = v[i / dim / each * dim + i % dim];
    inputs_close("attn_output", inputs_of(&g, "attn_output", 0, NULL), a, m->layers[0].n_head * dim);
    inputs_product(m, "attn_output", 0, a, y);
    for (i = 0; i < m->hp.n_embd; i++) x[i] += y[i];
    inputs_norm(m, "blk.0.ffn_norm.weight", x, xn);
    inputs_close("ffn_gate", inputs_of(&g, "ffn_gate", 0, NULL), xn, m->hp.n_embd);
    inputs_close("ffn_up", inputs_of(&g, "ffn_up", 0, NULL), xn, m->hp.n_embd);
    inputs_product(m, "ffn_gate", 0, xn, gate);
    inputs_product(m, "ffn_up", 0, xn, up);
    inputs_silu_mul(gate, up, y, m->layers[0].n_ff);
    inputs_close("ffn_down", inputs_of(&g, "ffn_down", 0, NULL), y, m->layers[0].n_ff);
    CHECK(inputs_of(&g, "attn_q", 2, NULL) && !inputs_of(&g, "attn_q", 3, NULL));
    for (i = 0, row = 0; i < (int32_t)g.n; i++) /* the head reads the last hidden states */
        if (g.rows[i].tensor == inputs_tensor(m, "output.weight")) {
            CHECK(row < 3 && memcmp(g.x + g.rows[i].at, infer_session_hidden(s, row), (size_t)m->hp.n_embd * sizeof(float)) == 0);
            row++;
        }
    CHECK(row == 3);
    free(table);
    inputs_free(&g);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* The experts with the largest logits get the router's input, and their own results. */
static void test_inputs_experts(void) {
    infer_model *m = inputs_model(check_data_or_reference("archs/qwen3moe-norm-moe.gguf", NULL));
    inputs_log g = { 0 };
    infer_session *s = m ? inputs_session(m, &g, 2, 0) : NULL;
    static double x[INPUTS_MAX], logits[INPUTS_MAX], y[INPUTS_MAX], gate[INPUTS_MAX], up[INPUTS_MAX];
    infer_token ids[16];
    int32_t i, j, k, best, e, e2, seen[64];
    if (!s) return;
    for (i = 0; i < 16; i++) ids[i] = 3 + 5 * i % 40;
    CHECK(infer_session_eval(s, ids, 16) == INFER_OK);
    memset(seen, 0, sizeof seen);
    CHECK(m->hp.n_expert <= 64 && m->hp.n_used > 1);
    for (i = 0; i < 16; i++) {
        const float *in = inputs_of(&g, "ffn_gate_inp", (size_t)i, NULL);
        CHECK(in != NULL);
        for (k = 0; in && k < m->hp.n_embd; k++) x[k] = in[k];
        inputs_product(m, "ffn_gate_inp", 0, x, logits);
        for (j = 0; j < m->hp.n_used; j++) {
            const size_t row = (size_t)(i * m->hp.n_used + j);
            const float *up_in = inputs_of(&g, "ffn_up_exps", row, &e), *gate_in = inputs_of(&g, "ffn_gate_exps", row, &e2);
            for (best = 0, k = 1; k < m->hp.n_expert; k++)
                if (logits[k] > logits[best]) best = k;
            logits[best] = -1e30;
            CHECK(e == best && e2 == best && in && up_in && gate_in);
            if (!in || !up_in || !gate_in) continue;
            CHECK(memcmp(up_in, in, (size_t)m->hp.n_embd * sizeof *in) == 0 && memcmp(gate_in, in, (size_t)m->hp.n_embd * sizeof *in) == 0);
            inputs_product(m, "ffn_gate_exps", best, x, gate);
            inputs_product(m, "ffn_up_exps", best, x, up);
            inputs_silu_mul(gate, up, y, m->hp.n_ff_expert);
            inputs_close("ffn_down_exps", inputs_of(&g, "ffn_down_exps", row, &e), y, m->hp.n_ff_expert);
            CHECK(e == best);
            seen[best]++;
        }
    }
    CHECK(!inputs_of(&g, "ffn_up_exps", (size_t)(16 * m->hp.n_used), NULL));
    for (i = j = 0; i < m->hp.n_expert; i++) j += seen[i] > 0;
    CHECK(j > m->hp.n_used); /* or the test shows little */
    inputs_free(&g);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* attn_kv_b, which is used in two halves, one of them transposed: what it would be multiplied with otherwise, once. */
static void test_inputs_latent(void) {
    infer_model *m = inputs_model(check_data_or_reference("archs/deepseek2-yarn-moe.gguf", NULL));
    inputs_log g = { 0 };
    infer_session *s = m ? inputs_session(m, &g, 1, 0) : NULL;
    static double kv[INPUTS_MAX], x[INPUTS_MAX], c[INPUTS_MAX];
    const infer_token ids[] = { 5, 9 };
    const int both = m && m->layers[0].w[INFER__W_LATENT_KV_B].type != NULL;
    int32_t i, k, rank, matrix;
    float *w;
    if (!s) return;
    rank = m->layers[0].latent_rank;
    CHECK(infer_session_eval(s, ids, 2) == INFER_OK);
    for (k = 0; k < 2; k++) {
        const float *in = inputs_of(&g, "attn_kv_a_mqa", (size_t)k, NULL);
        double sum = 0;
        CHECK(in != NULL);
        for (i = 0; in && i < m->hp.n_embd; i++) x[i] = in[i];
        inputs_product(m, "attn_kv_a_mqa", 0, x, kv);
        for (i = 0; i < rank; i++) sum += kv[i] * kv[i];
        w = inputs_values(m, "blk.0.attn_kv_a_norm.weight");
        for (i = 0; i < rank; i++) c[i] = kv[i] / sqrt(sum / rank + (double)m->hp.eps) * (double)w[i];
        free(w);
        if (both) inputs_close("attn_kv_b", inputs_of(&g, "attn_kv_b", (size_t)k, NULL), c, rank);
        else if (k == 0) /* at position 0 attention gives the latent as it is, to every head */
            for (i = 0; i < m->layers[0].n_head; i++) {
                inputs_close("attn_v_b", inputs_of(&g, "attn_v_b", (size_t)(2 * i), &matrix), c, rank);
                CHECK(matrix == i);
            }
    }
    if (both) CHECK(!inputs_of(&g, "attn_kv_b", 2, NULL));
    inputs_free(&g);
    CHECK(infer_session_destroy(s) == INFER_OK && infer_model_close(m) == INFER_OK);
}

/* ---- every architecture --------------------------------------------------------------------------------------------- */

enum { INPUTS_IDS = 20 };

/* Parts of names of matrices that other ops than products read, or that these ids do not reach. */
static const char *const INPUTS_NONE[] = {
    "token_embd.", "position_embd.", "token_types.", "conv1d", "shortconv.conv.", "attn_rel_b.", "cls.", "dense_2.", "dense_3.", "per_layer_token_embd.", "ffn_gate_tid2eid.", "compressor_ape.",
    "ssm_a", "ssm_d", "rope_freqs", "lora_", "norm", ".bias", "vis_", "lerp_", "time_mix_first.", "r_k.", "indexer.", "nextn.", "ngram", "ple_",
};
/* A tensor that the model has a use for, in a layer; layers that share keys and values do not read their own. */
static int inputs_expected(const infer_model *m, int32_t t) {
    const char *name = m->gguf.tensors[t].name;
    int32_t l, s;
    size_t i;
    if (!adapter_is_matrix(&m->gguf.tensors[t])) return 0;
    for (i = 0; i < INFER__COUNT(INPUTS_NONE); i++)
        if (strstr(name, INPUTS_NONE[i])) return 0;
    for (l = 0; l < m->hp.n_layer; l++)
        for (s = 0; s < INFER__LAYER_SLOT_COUNT; s++)
            if (m->layers[l].w[s].tensor == t + 1) return !(m->layers[l].kv_from && (strstr(name, "attn_k.") || strstr(name, "attn_v.")));
    return 0;
}

/* Rows that a tensor is to be given for INPUTS_IDS tokens; 0 = it depends. */
static uint64_t inputs_rows(const infer_model *m, const infer__gguf_tensor *t) {
    if (strstr(t->name, "altup") || strstr(t->name, "attn_output_a.") || strstr(t->name, "output.") == t->name || strstr(t->name, "token_embd.") || m->hp.n_enc || m->hp.stack) return 0;
    if (strstr(t->name, "_exps.")) return INPUTS_IDS * (uint64_t)m->hp.n_used;
    if (strstr(t->name, "_chexps.")) return 0;
    return INPUTS_IDS * (t->n_dims > 2 ? t->dims[2] : 1);
}

/* Passes change what is given: indexers choose where a pass has more positions than they may choose, and what a pass reads several times comes in
 * another order. */
static int inputs_by_passes(const infer_model *m, int32_t t) {
    const char *name = m->gguf.tensors[t].name;
    return strstr(name, "indexer.") || strstr(name, "altup") || strstr(name, "attn_output_a.") || m->hp.stack;
}

static size_t inputs_comparable(inputs_log *g) {
    size_t i, n = 0;
    for (i = 0; i < g->n; i++)
        if (!inputs_by_passes(g->m, g->rows[i].tensor)) g->rows[n++] = g->rows[i];
    return n;
}

static int inputs_by_place(const void *a, const void *b) {
    const inputs_row *x = (const inputs_row *)a, *y = (const inputs_row *)b;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    if (x->matrix != y->matrix) return x->matrix < y->matrix ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void inputs_arch(void) {
    const char *path = arch_path("gguf");
    infer_model *m = path ? inputs_model(path) : NULL;
    inputs_log g[2];
    infer_session *s;
    infer_token ids[INPUTS_IDS];
    float *plain = NULL;
    const float *x;
    uint64_t *count;
    int32_t i, k, n = 0;
    size_t r;
    if (!m) return;
    check_detail = arch_file;
    memset(g, 0, sizeof g);
    for (i = 0; i < INPUTS_IDS; i++) ids[i] = (infer_token)((7 + i * 5) % (m->hp.n_vocab - 1));
    for (k = -1; k < 2; k++) { /* without; and by one thread at once, by two in small passes */
        const int whole = m->hp.encoder || m->hp.not_causal || m->hp.n_enc;
        s = inputs_session(m, k < 0 ? NULL : &g[k], k == 1 ? 2 : 1, k == 1 && !whole ? 7 : 0);
        x = s ? arch_any(s, ids, INPUTS_IDS, &n) : NULL;
        if (!x) check_note(__FILE__, __LINE__, s ? infer_session_error(s)->message : "no session");
        else if (k < 0) {
            plain = (float *)malloc((size_t)n * sizeof *plain);
            memcpy(plain, x, (size_t)n * sizeof *plain);
        } else CHECK(plain && memcmp(plain, x, (size_t)n * sizeof *plain) == 0);
        infer_session_destroy(s);
    }
    count = (uint64_t *)calloc((size_t)m->gguf.n_tensors, sizeof *count);
    for (r = 0; r < g[0].n; r++) count[g[0].rows[r].tensor]++;
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[i];
        const uint64_t want = inputs_rows(m, t);
        char msg[200];
        if (!count[i] ? !inputs_expected(m, i) : !want || count[i] == want) continue;
        snprintf(msg, sizeof msg, "%s: %llu rows, not %llu", t->name, (unsigned long long)count[i], (unsigned long long)want);
        check_note(__FILE__, __LINE__, msg);
    }
    for (k = 0; k < 2; k++) {
        g[k].n = inputs_comparable(&g[k]);
        qsort(g[k].rows, g[k].n, sizeof *g[k].rows, inputs_by_place); /* passes come one after the other */
    }
    CHECK(g[0].n == g[1].n && (g[0].n > 0 || m->hp.stack));
    for (r = 0; r < g[0].n && g[0].n == g[1].n; r++) {
        const inputs_row *a = &g[0].rows[r], *b = &g[1].rows[r];
        if (a->tensor == b->tensor && a->matrix == b->matrix && memcmp(g[0].x + a->at, g[1].x + b->at, a->cols * sizeof(float)) == 0) continue;
        check_note(__FILE__, __LINE__, m->gguf.tensors[a->tensor].name);
        break;
    }
    free(plain);
    free(count);
    for (k = 0; k < 2; k++) inputs_free(&g[k]);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_inputs_archs(void) {
    size_t i;
    const int all = getenv("INFER_TEST_DATA") != NULL && getenv("DEEP") != NULL;
    for (i = 0; i < INFER__COUNT(ARCH_FILES); i += (size_t)check_every(8)) {
        arch_file = ARCH_FILES[i];
        if (all || arch_kept()) inputs_arch();
    }
}

/* ---- the rest ------------------------------------------------------------------------------------------------------- */

/* With an adapter the weight's input stays the same row, given once, and results have the same bits as without a callback. */
static void test_inputs_adapter(void) {
    infer_model *m = inputs_model(check_data_or_reference("archs/qwen3moe-norm-moe.gguf", NULL));
    static const char *const names[] = { "blk.0.attn_q.weight", "blk.0.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight", "output.weight" };
    gguf_writer w;
    infer_adapter_use use;
    infer_error e;
    infer_token ids[12];
    float *got[2] = { NULL, NULL };
    inputs_log g = { 0 };
    size_t i, rows = 0;
    int k;
    if (!m) return;
    for (i = 0; i < 12; i++) ids[i] = (infer_token)(4 + 3 * i);
    memset(&use, 0, sizeof use);
    adapter_seed = 3;
    adapter_head(&w, m, 2);
    for (i = 0; i < INFER__COUNT(names); i++) adapter_pair(&w, m, &m->gguf.tensors[inputs_tensor(m, names[i])], 0, NULL);
    use.adapter = adapter_open(m, &w, NULL, &e);
    use.scale = 0.5f;
    for (k = 0; k < 2 && use.adapter; k++) {
        infer_session *s = inputs_session(m, k ? &g : NULL, 2, 5);
        if (!s) continue;
        CHECK(infer_session_set_adapters(s, &use, 1) == INFER_OK && infer_session_eval(s, ids, 12) == INFER_OK);
        got[k] = (float *)malloc((size_t)m->hp.n_vocab * sizeof(float));
        memcpy(got[k], infer_session_logits(s, -1), (size_t)m->hp.n_vocab * sizeof(float));
        infer_session_destroy(s);
    }
    CHECK(got[0] && got[1] && memcmp(got[0], got[1], (size_t)m->hp.n_vocab * sizeof(float)) == 0);
    for (i = 0; i < g.n; i++) rows += g.rows[i].tensor == inputs_tensor(m, names[1]);
    CHECK(rows == 12 * (size_t)m->hp.n_used);
    free(got[0]);
    free(got[1]);
    inputs_free(&g);
    CHECK(infer_adapter_close(use.adapter) == INFER_OK && infer_model_close(m) == INFER_OK);
}

static void inputs_count(void *user, int32_t tensor, int32_t matrix, const float *x, size_t rows, size_t cols) {
    (void)tensor; (void)matrix; (void)x; (void)cols;
    *(size_t *)user += rows;
}

/* Slices cut the head's matrix into pieces: its input is given once all the same. The callback takes no memory; a cancelled call gives nothing
 * after it has been told to stop. */
static void test_inputs_slices(void) {
    infer_model_params mp;
    infer_session_params p;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error e;
    infer_step st;
    const infer_token ids[] = { 1, 20, 30 };
    size_t n = 0, rows[2] = { 0, 0 };
    long allocs[3];
    int k, slices = 0;
    infer_result r;
    memset(&mp, 0, sizeof mp);
    memset(&p, 0, sizeof p);
    memset(&st, 0, sizeof st);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    mp.backend = INFER_CPU;
    check_fail_at = check_allocs = check_live = 0;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), &mp, &e) == INFER_OK);
    if (!m) return;
    p.own.threads = 1;
    for (k = 0; k < 3; k++) { /* without, at once, in slices */
        p.own.inputs = k ? inputs_count : NULL;
        p.own.inputs_user = &n;
        check_allocs = 0;
        n = 0;
        CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
        st.session = s;
        st.tokens = ids;
        st.n = 3;
        st.outputs = INFER_OUT_LAST;
        if (k < 2) CHECK(infer_eval(infer_session_get_context(s), &st, 1, &e) == INFER_OK);
        else {
            while ((r = infer_eval_slice(infer_session_get_context(s), &st, 1, 0, &e)) == INFER_MORE) slices++;
            CHECK(r == INFER_OK && slices > 4);
        }
        allocs[k] = check_allocs;
        if (k) rows[k - 1] = n;
        infer_session_destroy(s);
    }
    CHECK(allocs[0] == allocs[1] && allocs[1] == allocs[2]);
    CHECK(rows[0] == rows[1] && rows[0] == (size_t)(3 * 7 * m->hp.n_layer + 1));
    CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
}

/* A layer on a GPU is refused by name; without the callback nothing is. */
static void test_inputs_refused(void) {
    infer_model *m = inputs_model(check_data("models/stories260K.F32.gguf"));
    infer_error e;
    if (!m) return;
    CHECK(infer__give_check(m, &e) == INFER_OK);
    if (INFER__HAS_GPU) {
        m->layers[2].place = INFER__ON_DEVICE;
        CHECK(infer__give_check(m, &e) == INFER_ERR_UNSUPPORTED);
        CHECK_HAS(e.message, "context_params.inputs: layer 2 is on a GPU");
        m->layers[2].place = INFER__ON_CPU;
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_inputs(void) {
    RUN(test_inputs_dense);
    RUN(test_inputs_experts);
    RUN(test_inputs_latent);
    RUN(test_inputs_archs);
    RUN(test_inputs_adapter);
    RUN(test_inputs_slices);
    RUN(test_inputs_refused);
}
