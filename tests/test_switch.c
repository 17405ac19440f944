/* test_switch.c: adapters by token: which pair a row has, by all ways to it; whose matrices those are. */

static char *switch_array(char *data, size_t n, const char *key) { /* the first value of an array of the file */
    size_t len = strlen(key), i;
    for (i = 0; i + len < n; i++)
        if (memcmp(data + i, key, len) == 0) return data + i + len + 16; /* its type, that of its values, how many */
    return NULL;
}

static void switch_swap(void *a, void *b, size_t n) {
    unsigned char *p = (unsigned char *)a, *q = (unsigned char *)b, t;
    for (; n > 0; n--, p++, q++) { t = *p; *p = *q; *q = t; }
}

static void switch_rows(infer_session *s, const infer_token *ids, const int32_t *want, int32_t from, int32_t n) {
    int32_t i;
    CHECK(infer_session_eval(s, ids + from, n) == INFER_OK);
    for (i = 0; i < n; i++) CHECK(s->context->row_switch[i] == want[from + i]);
}

/* 5 and 9 are adapters 1 and 2: the last one rows know of, or between those that they know of. */
static void test_switch_rows(void) {
    static const infer_token ids[] = { 3, 5, 7, 9, 9, 8, 5, 5, 5, 2 };
    static const int32_t want[] = { 0, 1, 1, 2 /* of 1.5 */, 2, 2, 2 /* of 1.5 */, 1, 1, 1 };
    enum { N = (int)INFER__COUNT(ids) };
    infer_model *m = cache_model("graniteswitch-dense");
    infer_session *s = m ? arch_session(m, 1, 0) : NULL, *t = m ? arch_session(m, 1, 4) : NULL, *u = NULL;
    infer_error e;
    int32_t i;
    if (s && t) {
        switch_rows(s, ids, want, 0, N);
        CHECK(s->context->ctx.pass.ids[1] == 1 && s->context->ctx.pass.ids[3] == 2 && s->context->ctx.pass.ids[2] == 7);
        for (i = 0; i < N; i++) switch_rows(t, ids, want, i, 1);
        CHECK(infer_session_rewind(s, 6) == INFER_OK);
        switch_rows(s, ids, want, 6, 3);
        CHECK(infer_session_rewind(s, 2) == INFER_OK && infer_session_fork(&u, s, &e) == INFER_OK);
        if (u) switch_rows(u, ids, want, 2, N - 2);
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        switch_rows(s, ids + 2, want, 0, 1); /* none before it any more */
        m->hp.switches.other = 0; /* as a gain of 50 makes it: no mean of nothing */
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        switch_rows(s, ids, want, 0, 2);
    }
    infer_session_destroy(u);
    infer_session_destroy(t);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void switch_logits(const char *data, size_t n, float *out) {
    static const infer_token ids[] = { 3, 5, 7, 11, 20, 90 };
    infer_model *m = NULL;
    infer_session *s;
    infer_error e;
    if (infer_model_open_memory(&m, data, n, NULL, &e)) check_note(__FILE__, __LINE__, e.message);
    s = m ? arch_session(m, 1, 0) : NULL;
    if (s) {
        CHECK(infer_session_eval(s, ids, (int32_t)INFER__COUNT(ids)) == INFER_OK);
        memcpy(out, infer_session_logits(s, -1), 128 * sizeof *out);
    }
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* Adapters that change places, with the tokens that switch them on, stay what they are; without them they do not. */
static void test_switch_places(void) {
    static const char *const lists[] = { "adapters.token_ids_activate", "adapters.token_ids_substitute" };
    static float was[128], ids[128], both[128];
    size_t n, i;
    int32_t l, swapped = 0;
    char *data = check_read(check_data("archs/graniteswitch-dense.gguf"), &n);
    infer_model *m = NULL;
    CHECK(data != NULL);
    if (!data) return;
    switch_logits(data, n, was);
    for (i = 0; i < 2; i++) {
        char *at = switch_array(data, n, lists[i]);
        CHECK(at != NULL);
        if (at) switch_swap(at, at + 4, 4);
    }
    switch_logits(data, n, ids);
    CHECK(memcmp(was, ids, sizeof was) != 0);
    CHECK(infer_model_open_memory(&m, data, n, NULL, NULL) == INFER_OK);
    for (l = 0; l < infer_tensor_count(m); l++) { /* 0, 1, 2 become 0, 2, 1 */
        infer_tensor_info t;
        if (infer_tensor_get(m, l, &t) != INFER_OK || !strstr(t.name, ".lora_")) continue;
        switch_swap(data + t.offset + t.bytes / 3, data + t.offset + t.bytes / 3 * 2, (size_t)(t.bytes / 3));
        swapped++;
    }
    CHECK(swapped > 0);
    CHECK(infer_model_close(m) == INFER_OK);
    switch_logits(data, n, both);
    CHECK(memcmp(was, both, sizeof was) == 0);
    free(data);
}

static void suite_switch(void) {
    RUN(test_switch_rows);
    RUN(test_switch_places);
}
