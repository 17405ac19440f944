/* test_latent.c: latent attention: what the cache holds, its types, saving, hostile sizes. */

static infer_session *latent_session(infer_model *m, int32_t kv, int32_t threads) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = 256;
    p.own.threads = threads;
    p.own.kv_type = kv;
    p.own.cells = 768;
    if (infer_session_create(&s, m, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return s;
}

/* One slot a layer, as wide as the latent and what is rotated; a session saved and loaded goes on with the same bits. */
static void test_latent_cache(void) {
    static const struct { int32_t kv; double limit; } types[] = {
        { INFER_KV_F32, 0 }, { INFER_KV_F16, 1e-5 }, { INFER_KV_BF16, 1e-3 }, { INFER_KV_Q8_0, 1e-3 } };
    enum { IDS = 100, VOCAB = 128 };
    infer_model *m = cache_model("deepseek2-yarn-moe");
    infer_token ids[IDS];
    float want[VOCAB];
    size_t i;
    int32_t k;
    if (!m) return;
    CHECK(m->n_states == m->hp.n_layer);
    for (k = 0; k < m->n_states; k++)
        CHECK(m->states[k].kind == INFER__STATE_KEYS && m->states[k].n_head == 1 && m->states[k].dim == 48);
    cache_ids(ids, IDS, 5, VOCAB);
    for (i = 0; i < INFER__COUNT(types); i++) {
        state_bytes b;
        infer_session *s = latent_session(m, types[i].kv, 1), *t = latent_session(m, types[i].kv, 3);
        memset(&b, 0, sizeof b);
        if (s && t) {
            double nmse;
            CHECK(infer_session_eval(s, ids, IDS - 30) == INFER_OK);
            CHECK(infer_session_save(s, state_write, &b) == INFER_OK && infer_session_load(t, state_read, &b) == INFER_OK);
            CHECK(infer_session_eval(s, ids + IDS - 30, 30) == INFER_OK);
            for (k = IDS - 30; k < IDS; k++) CHECK(infer_session_eval(t, ids + k, 1) == INFER_OK);
            CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), sizeof want) == 0);
            if (i == 0) memcpy(want, infer_session_logits(s, -1), sizeof want);
            nmse = check_nmse(infer_session_logits(s, -1), want, VOCAB);
            if (getenv("CHECK_VERBOSE")) printf("cache type %d: nmse %.3g\n", (int)types[i].kv, nmse);
            CHECK(nmse <= types[i].limit && (nmse > 0) == (i > 0));
        }
        free(b.p);
        infer_session_destroy(s);
        infer_session_destroy(t);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Sizes that do not fit together, or that nothing holds, are refused by a name. */
static void test_latent_hostile(void) {
    static const char *const keys[] = {
        "deepseek2.attention.kv_lora_rank", "deepseek2.attention.q_lora_rank", "deepseek2.attention.key_length_mla",
        "deepseek2.attention.value_length_mla", "deepseek2.attention.key_length", "deepseek2.attention.value_length",
        "deepseek2.rope.dimension_count", "deepseek2.attention.head_count_kv", "deepseek2.attention.head_count" };
    static const uint32_t values[] = { 0, 2, 3, 15, 1000, 1023, 1024, 65536, 0x7fffffff, 0x80000000u, 0xffffffffu };
    size_t n = 0, i, j, k, len;
    char *file = check_read(check_data("archs/deepseek2-yarn-moe.gguf"), &n), *at, old[4];
    for (j = 0; file && j < INFER__COUNT(keys); j++) {
        len = strlen(keys[j]);
        for (i = 0, at = NULL; !at && i + len < n; i++)
            if (infer__load_u64(file + i) == len && memcmp(file + i + 8, keys[j], len) == 0) at = file + i + 8 + len + 4;
        check_detail = keys[j];
        CHECK(at != NULL);
        if (!at) continue;
        memcpy(old, at, 4);
        for (i = 0; i < INFER__COUNT(values); i++) {
            infer_model *m = NULL;
            for (k = 0; k < 4; k++) at[k] = (char)(values[i] >> 8 * k & 255);
            CHECK(infer_model_open_memory(&m, file, n, NULL, NULL) == INFER_OK);
            if (!m) continue;
            CHECK(m->why_code != INFER_OK);
            if (!strstr(infer_model_why_not(m), "key deepseek2.") && !strstr(infer_model_why_not(m), "tensor blk.0.attn"))
                check_note(__FILE__, __LINE__, infer_model_why_not(m));
            CHECK(infer_model_close(m) == INFER_OK);
        }
        memcpy(at, old, 4);
        if (j == 0) {
            infer_model *m = NULL;
            at[-5] ^= 1; /* another name */
            CHECK(infer_model_open_memory(&m, file, n, NULL, NULL) == INFER_OK && m && m->why_code == INFER_ERR_FORMAT);
            if (m) CHECK_HAS(infer_model_why_not(m), "missing key deepseek2.attention.kv_lora_rank");
            infer_model_close(m);
            at[-5] ^= 1;
        }
    }
    free(file);
}

static void suite_latent(void) {
    RUN(test_latent_cache);
    RUN(test_latent_hostile);
}
