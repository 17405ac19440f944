/* test_merge.c: adapters in a model's own weights: beside files made by hand, who may merge, failures. Every matrix of every
 * architecture is in test_adapters.c, whose helpers these tests use. */
#include "gguf_write.h"

/* t of a model's file with delta in it, of the same type. */
static void merge_encode(gguf_writer *w, infer_model *m, const infer__gguf_tensor *t, const infer__quant *type, const float *delta) {
    const uint64_t n = t->rows * t->dims[0];
    float *x = (float *)malloc(n * sizeof *x);
    uint8_t *y = (uint8_t *)malloc(n * sizeof *x);
    uint64_t i;
    CHECK(infer_tensor_read(m, t->name, 0, t->rows, x, NULL) == INFER_OK);
    for (i = 0; i < n; i++) x[i] += delta[i];
    type->encode(x, y, (int64_t)n);
    gw_tensor(w, t->name, (uint32_t)type->id, (uint32_t)t->n_dims, t->dims, y, n / (uint64_t)type->values * (uint64_t)type->bytes,
              type->values == 1 ? (size_t)type->bytes : 1);
    free(x);
    free(y);
}

static void merge_keep(gguf_writer *w, const infer_model *m, const infer__gguf_tensor *t) {
    gw_tensor(w, t->name, (uint32_t)t->type->id, (uint32_t)t->n_dims, t->dims, (const char *)m->gguf.sources[t->shard].io.mapped + t->offset, t->bytes, 1);
}

/* A merged model of blocks beside a file whose weights have been made so by hand; `type` NULL: what the file has. */
static void merge_quantised(const char *name, const char *type, const char *becomes) {
    infer_model *m = NULL, *hand = NULL;
    const infer__quant *as = infer__quant_named(becomes);
    gguf_writer all, file;
    infer_adapter *a;
    infer_adapter_use use;
    infer_error e;
    unsigned char *bytes;
    size_t size, n = 0, n2 = 0;
    float *got = NULL, *want = NULL, *base = NULL;
    int32_t i;
    const char *path = check_reference(name);
    if (!path) return;
    check_detail = name;
    if (infer_model_open(&m, path, NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    adapter_seed = 3;
    adapter_head(&all, m, 2);
    gw_init(&file);
    adapter_copy_keys(&file, m);
    for (i = 0; i < m->gguf.n_tensors; i++) {
        const infer__gguf_tensor *t = &m->gguf.tensors[i];
        float *delta = NULL;
        if (strncmp(t->name, "blk.", 4) == 0 && t->n_dims > 1) {
            adapter_pair(&all, m, t, 2.0 / ADAPTER_RANK * 0.3f, &delta);
            merge_encode(&file, m, t, as, delta);
        } else merge_keep(&file, m, t);
        free(delta);
    }
    bytes = gw_finish(&file, &size);
    a = adapter_open(m, &all, NULL, &e);
    memset(&use, 0, sizeof use);
    use.adapter = a;
    use.scale = 0.3f;
    if (infer_model_open_memory(&hand, bytes, size, NULL, &e)) check_note(__FILE__, __LINE__, e.message);
    if (a && hand) {
        base = adapter_eval(m, NULL, 0, &n);
        want = adapter_eval(hand, NULL, 0, &n2);
        if (infer_model_merge(m, &use, 1, type, &e)) check_note(__FILE__, __LINE__, e.message);
        CHECK(strcmp(m->layers[0].w[INFER__W_ATTN_Q].type->name, becomes) == 0);
        CHECK(m->token_bytes == hand->token_bytes);
        CHECK(infer_adapter_close(a) == INFER_OK); /* not needed any more */
        a = NULL;
        got = adapter_eval(m, NULL, 0, &n);
        if (got && want && base && n == n2) {
            const double off = check_nmse(got, want, n), moved = check_nmse(base, want, n);
            if (getenv("CHECK_VERBOSE")) printf("%-24s %s: moved %.3g, off %.3g\n", name, becomes, moved, off);
            CHECK(off <= 1e-4 && off < moved * 0.01);
        } else CHECK(!"results");
        free(got);
        CHECK(infer_model_unmerge(m, &e) == INFER_OK);
        got = adapter_eval(m, NULL, 0, &n);
        CHECK(got && base && memcmp(got, base, n * sizeof *got) == 0);
    }
    free(got);
    free(want);
    free(base);
    infer_adapter_close(a);
    CHECK(infer_model_close(m) == INFER_OK);
    infer_model_close(hand);
    free(bytes);
}

static void test_adapters_merge_types(void) {
    merge_quantised("quants/llama256-q8_0.gguf", NULL, "Q8_0");
    merge_quantised("quants/llama256-q4_0.gguf", NULL, "Q4_0");
    merge_quantised("quants/llama256-q4_0.gguf", "bf16", "BF16");
    merge_quantised("quants/llama256-q4_K.gguf", NULL, "Q8_0"); /* nothing writes Q4_K */
}

/* Who may merge and when; a saved session knows; the model may end as it is. */
static void test_adapters_merge_refused(void) {
    infer_model *m = cache_model("llama-dense"), *other = cache_model("llama-dense");
    infer_adapter *a = m ? adapter_of(m, "", 1) : NULL, *foreign = other ? adapter_of(other, "", 1) : NULL;
    infer_adapter_use use;
    infer_context *c;
    infer_session *s;
    infer_error e;
    state_bytes saved;
    infer_token ids[4];
    if (!a || !foreign) return;
    memset(&use, 0, sizeof use);
    memset(&saved, 0, sizeof saved);
    use.adapter = a;
    use.scale = 1;
    cache_ids(ids, 4, 3, m->hp.n_vocab);
    c = adapter_context(m, 1, 64);
    s = adapter_session(c);
    CHECK(infer_session_eval(s, ids, 4) == INFER_OK);
    CHECK(infer_session_save(s, state_write, &saved) == INFER_OK);
    CHECK(infer_model_merge(m, &use, 1, NULL, &e) == INFER_ERR_STATE);
    CHECK_HAS(e.message, "used by contexts");
    CHECK(infer_model_unmerge(m, &e) == INFER_ERR_STATE);
    infer_session_destroy(s);
    infer_context_destroy(c);
    CHECK(infer_model_merge(NULL, &use, 1, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_merge(m, NULL, 1, NULL, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_merge(m, &use, INFER_MAX_ADAPTERS + 1, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_merge(m, &use, 1, "Q4_K", &e) == INFER_ERR_ARGUMENT); /* nothing writes it */
    CHECK_HAS(e.message, "Q4_K");
    CHECK(infer_model_merge(m, &use, 1, "Q4_", &e) == INFER_ERR_ARGUMENT);
    use.adapter = foreign;
    CHECK(infer_model_merge(m, &use, 1, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "another model");
    use.adapter = NULL;
    CHECK(infer_model_merge(m, &use, 1, NULL, &e) == INFER_ERR_ARGUMENT);
    use.adapter = a;
    use.scale = 0; /* that changes nothing, and is undone as well */
    CHECK(infer_model_merge(m, &use, 1, NULL, &e) == INFER_OK && m->n_merged == 0);
    CHECK(infer_model_unmerge(m, &e) == INFER_OK);
    use.scale = 1;
    CHECK(infer_model_merge(m, &use, 1, NULL, &e) == INFER_OK);
    c = adapter_context(m, 1, 64);
    s = adapter_session(c);
    CHECK(infer_session_load(s, state_read, &saved) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_unmerge(m, &e) == INFER_ERR_STATE);
    infer_session_destroy(s);
    infer_context_destroy(c);
    CHECK(infer_model_unmerge(m, &e) == INFER_OK);
    c = adapter_context(m, 1, 64);
    s = adapter_session(c);
    saved.at = 0;
    CHECK(infer_session_load(s, state_read, &saved) == INFER_OK);
    infer_session_destroy(s);
    infer_context_destroy(c);
    CHECK(infer_model_offload(m, &e) == INFER_OK); /* weights that are not there cannot be merged, nor merged ones leave */
    CHECK(infer_model_merge(m, &use, 1, NULL, &e) == INFER_ERR_STATE);
    CHECK_HAS(e.message, "offloaded");
    CHECK(infer_model_unmerge(m, &e) == INFER_ERR_STATE && infer_model_reload(m, &e) == INFER_OK);
    CHECK(infer_model_merge(m, &use, 1, NULL, &e) == INFER_OK);
    CHECK(infer_model_offload(m, &e) == INFER_ERR_STATE);
    CHECK_HAS(e.message, "include adapters");
    CHECK(infer_adapter_close(a) == INFER_OK && infer_adapter_close(foreign) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(other) == INFER_OK);
    free(saved.p);
}

static void test_adapters_merge_oom(void) {
    infer_model_params mp;
    infer_model *m = NULL;
    gguf_writer w;
    infer_adapter *a;
    infer_adapter_use use;
    infer_error e;
    infer_result r = INFER_ERR_MEMORY;
    long at, live;
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    check_fail_at = 0;
    if (infer_model_open(&m, check_data("archs/qwen3moe-norm-moe.gguf"), &mp, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    adapter_head(&w, m, 2);
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.0.attn_q.weight"), 0, NULL);
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.0.ffn_up_exps.weight"), 0, NULL);
    a = adapter_open(m, &w, NULL, &e);
    memset(&use, 0, sizeof use);
    use.adapter = a;
    use.scale = 1;
    live = check_live;
    for (at = 1; a && r == INFER_ERR_MEMORY && at < 100; at++) {
        const void *was = m->layers[0].w[INFER__W_ATTN_Q].data;
        check_allocs = 0;
        check_fail_at = at;
        r = infer_model_merge(m, &use, 1, NULL, &e);
        check_fail_at = 0;
        CHECK((m->layers[0].w[INFER__W_ATTN_Q].data != was) == (r == INFER_OK));
        CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && check_live == live));
    }
    CHECK(r == INFER_OK && at > 6);
    CHECK(infer_model_unmerge(m, &e) == INFER_OK && check_live == live);
    CHECK(infer_model_merge(m, &use, 1, NULL, &e) == INFER_OK); /* and the model ends so */
    infer_adapter_close(a);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_merge(void) {
    RUN(test_adapters_merge_types);
    RUN(test_adapters_merge_refused);
    RUN(test_adapters_merge_oom);
}
