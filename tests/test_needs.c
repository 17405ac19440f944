/* test_needs.c: files that lack one tensor which all files of their architecture have are refused by its name. Uses
 * ARCH_FILES of test_arch.c and keys_run of test_hostile_keys.c. */

/* A copy of the file without a tensor (its bytes stay); NULL when it has none of that name. */
static char *needs_without(const char *data, size_t n, const infer_model *m, const char *name, size_t *size) {
    const char *first = m->gguf.tensors[0].name;
    size_t at, len = strlen(first), from = 0, end = 0, data_at, moved;
    uint64_t count = infer__load_u64(data + 8) - 1;
    char *out;
    int32_t i;
    for (at = 24; at + 8 + len < n; at++)
        if (infer__load_u64(data + at) == len && memcmp(data + at + 8, first, len) == 0) break;
    for (i = 0; i < m->gguf.n_tensors && at + 16 < n; i++) {
        size_t next, k = (size_t)infer__load_u64(data + at);
        next = at + 8 + k + 4 + 8 * (size_t)infer__load_u32(data + at + 8 + k) + 12;
        if (k == strlen(name) && memcmp(data + at + 8, name, k) == 0) {
            from = at;
            end = next;
        }
        at = next;
    }
    if (!end) return NULL;
    data_at = (at + 31) / 32 * 32;
    moved = (at - (end - from) + 31) / 32 * 32;
    *size = moved + (n - data_at);
    out = (char *)calloc(*size, 1);
    memcpy(out, data, from);
    memcpy(out + from, data + end, at - end);
    memcpy(out + moved, data + data_at, n - data_at);
    for (i = 0; i < 8; i++) out[8 + i] = (char)(count >> 8 * i);
    return out;
}

static int needs_tried;
/* 1 = the file has such a tensor, and without it is refused by name. */
static int needs_refused(const char *data, size_t n, const infer_model *m, const infer__gguf_tensor *t) {
    static float out[4096];
    char why[512], want[96];
    size_t size;
    char *file = t ? needs_without(data, n, m, t->name, &size) : NULL;
    if (!file) return 0;
    check_detail = t->name;
    snprintf(want, sizeof want, "%.*s", (int)(strrchr(t->name, '.') - t->name), t->name); /* or its bias, left alone */
    CHECK(!keys_run(file, size, 1, NULL, out, 4096, why, sizeof why));
    CHECK_HAS(why, want);
    needs_tried++;
    free(file);
    return 1;
}

static void test_needs_by_name(void) {
    static char layer_done[INFER__COUNT(INFER__NEEDS)][256], model_done[INFER__COUNT(INFER__MODEL_NEEDS)][256];
    size_t f, i;
    int32_t k, a;
    memset(layer_done, 0, sizeof layer_done);
    memset(model_done, 0, sizeof model_done);
    needs_tried = 0;
    for (f = 0; f < INFER__COUNT(ARCH_FILES) && check_bad < 5; f++) {
        const char *path;
        infer_model *m = NULL;
        char *data;
        size_t n = 0;
        arch_file = ARCH_FILES[f];
        path = arch_path("gguf");
        if (!path) continue;
        check_detail = arch_file;
        data = check_read(path, &n);
        CHECK(data && infer_model_open(&m, path, NULL, NULL) == INFER_OK);
        if (!m) continue;
        CHECK_STR(infer_model_why_not(m), "");
        for (a = 0; infer__arch_row(a) != m->arch; a++) {}
        CHECK(a < 256);
        for (i = 0; i < INFER__COUNT(INFER__NEEDS); i++)
            for (k = m->hp.n_layer - 1; k >= 0 && !layer_done[i][a]; k--) {
                const infer__layer *l = &m->layers[k];
                const infer__tensor_slot *slot = infer__layer_slot(m, l, INFER__NEEDS[i].slot);
                if (!slot || !l->w[INFER__NEEDS[i].slot].type || !l->w[INFER__NEEDS[i].with].type ||
                    !infer__words_have(INFER__NEEDS[i].archs, m->arch->name))
                    continue;
                layer_done[i][a] = (char)needs_refused(data, n, m, infer__slot_tensor(m, l, slot));
            }
        for (i = 0; i < INFER__COUNT(INFER__MODEL_NEEDS); i++) {
            const infer__tensor_slot *slot = infer__model_slot(m, INFER__MODEL_NEEDS[i].slot);
            if (!slot || model_done[i][a] || !infer__words_have(INFER__MODEL_NEEDS[i].archs, m->arch->name)) continue;
            model_done[i][a] = (char)needs_refused(data, n, m, infer__slot_tensor(m, NULL, slot));
        }
        CHECK(infer_model_close(m) == INFER_OK);
        free(data);
    }
    CHECK(needs_tried > 20);
    if (check_reference("archs") == NULL) return;
    for (a = 0; infer__arch_row(a); a++) { /* every row's every name has a file that shows it */
        check_detail = infer__arch_row(a)->name;
        for (i = 0; i < INFER__COUNT(INFER__NEEDS); i++)
            if (infer__words_have(INFER__NEEDS[i].archs, check_detail)) CHECK(layer_done[i][a]);
        for (i = 0; i < INFER__COUNT(INFER__MODEL_NEEDS); i++)
            if (infer__words_have(INFER__MODEL_NEEDS[i].archs, check_detail)) CHECK(model_done[i][a]);
    }
    check_detail = "";
}

/* Factors are needed by models with a layer that uses them: not by a gemma4 that has nothing but windows. */
static void test_needs_factors(void) {
    const char *path = check_reference("archs/gemma4-dense.gguf");
    infer_model *m = NULL, *less = NULL;
    infer_error e;
    char *data, *file;
    size_t n, size = 0, i;
    if (!path) SKIP("needs INFER_TEST_DATA: archs");
    data = check_read(path, &n);
    CHECK(data && infer_model_open(&m, path, NULL, &e) == INFER_OK);
    file = m ? needs_without(data, n, m, "rope_freqs.weight", &size) : NULL;
    CHECK(file && infer_model_open_memory(&less, file, size, NULL, &e) == INFER_OK);
    if (less) {
        CHECK_HAS(infer_model_why_not(less), "missing tensor rope_freqs.weight");
        CHECK(infer__needs_check(less, &e) == INFER_ERR_FORMAT);
        for (i = 0; i < INFER__COUNT(less->ropes); i++) less->ropes[i].scaled = 0;
        CHECK(infer__needs_check(less, &e) == INFER_OK);
    }
    CHECK(infer_model_close(less) == INFER_OK && infer_model_close(m) == INFER_OK);
    free(file);
    free(data);
}

static void suite_needs(void) {
    RUN(test_needs_by_name);
    RUN(test_needs_factors);
}
