/* test_hostile_extremes.c: every number among an architecture's keys, of every kind of model, changed in its place to one that
 * nobody means. Part of test_hostile_keys.c. */

static const uint32_t EXTREMES[] = { 0, 1, 3, 64, 0x7fffffff, 0xffffffffu, 0x7fc00000 /* NaN */, 0x7e967699 /* 1e38 */ };

/* The model opens, or says why not; it computes something, or the call fails and says why. */
static void extreme_run(const char *data, size_t n, const char *arch) {
    infer_model_params mp;
    infer_session_params sp;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error e;
    infer_token ids[5] = { 1, 2, 0, 1, 3 };
    int32_t n_out;
    memset(&mp, 0, sizeof mp);
    memset(&sp, 0, sizeof sp);
    mp.backend = INFER_CPU;
    if (infer_model_open_memory(&m, data, n, &mp, &e)) { /* the file itself opens, whatever its keys say */
        check_note(__FILE__, __LINE__, e.message);
        return;
    }
    sp.context = 8;
    sp.own.threads = 1;
    if (infer_model_why_not(m)[0]) {
        if (!strstr(infer_model_why_not(m), arch) && !strstr(infer_model_why_not(m), "tensor ")) CHECK_HAS(infer_model_why_not(m), "key ");
    } else if (infer_session_create(&s, m, &sp, &e)) CHECK(e.message[0]);
    else if (!arch_any(s, ids, 5, &n_out)) CHECK(infer_session_error(s)->message[0]);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* The numbers of one model: scalars, and of arrays with a few each one and all. */
static int extremes_of(char *data, size_t n, const char *arch, const char *file) {
    infer_model *m = NULL;
    char prefix[64], detail[300], kept[8 * 4];
    int32_t i;
    size_t v, at, one, all, first, each;
    int tried = 0;
    snprintf(prefix, sizeof prefix, "%s.", arch);
    if (infer_model_open_memory(&m, data, n, NULL, NULL)) return 0;
    for (i = 0; i < m->gguf.n_kv; i++) {
        const infer__kv *kv = &m->gguf.kv[i];
        const uint32_t type = kv->type == INFER__GGUF_ARRAY ? kv->element : kv->type;
        if (strncmp(kv->key, prefix, strlen(prefix)) != 0) continue;
        if (type != INFER__GGUF_U32 && type != INFER__GGUF_I32 && type != INFER__GGUF_F32) continue;
        one = 4;
        at = (size_t)kv->offset + (kv->type == INFER__GGUF_ARRAY ? 12 : 0); /* behind type and count */
        all = kv->type == INFER__GGUF_ARRAY ? (size_t)kv->n * one : one;
        if (all > sizeof kept || at + all > n) continue;
        memcpy(kept, data + at, all);
        for (v = 0; v < sizeof EXTREMES / sizeof *EXTREMES; v++)
            for (first = 0; first <= all; first += one) { /* one of them, behind the last all */
                if (first == all && all == one) break;
                for (each = first < all ? first : 0; each < (first < all ? first + one : all); each += one)
                    memcpy(data + at + each, &EXTREMES[v], one);
                snprintf(detail, sizeof detail, "%s = %lu in %s", kv->key, (unsigned long)EXTREMES[v], file);
                check_detail = detail;
                extreme_run(data, n, arch);
                memcpy(data + at, kept, all);
                tried++;
            }
    }
    infer_model_close(m);
    return tried;
}

static void extremes_in_rows(int here) {
    int kept, part = check_every(24), tried = 0;
    size_t f, n;
    for (f = 0; f < sizeof KEY_MODELS / sizeof *KEY_MODELS; f += (size_t)part) {
        const char *from = key_model_path(f, &kept);
        char *data = from && kept == here ? check_read(from, &n) : NULL;
        if (data) tried += extremes_of(data, n, KEY_MODELS[f].arch, KEY_MODELS[f].file);
        free(data);
    }
    check_detail = "";
    if (here) CHECK(tried > 2000 / part);
}

static void test_hostile_extremes(void) { extremes_in_rows(1); }

static void test_hostile_extremes_references(void) {
    if (!check_reference("archs/olmoe-moe.gguf")) SKIP("needs INFER_TEST_DATA");
    extremes_in_rows(0);
}
