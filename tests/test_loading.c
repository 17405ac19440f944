/* test_loading.c: a model opened in slices is the one that is opened at once: vocabulary, metadata, logits, memory; how much a slice
 * does at most; given up after every slice; no memory; broken files refused with the same words; what is refused meanwhile. */

enum { LOADING_PATH, LOADING_READ, LOADING_PRELOAD, LOADING_MEMORY, LOADING_IO, LOADING_WAYS };

typedef struct loading_file { const char *path; char *bytes; size_t n; } loading_file;

static size_t loading_read(void *user, uint64_t offset, void *dst, size_t n) {
    const loading_file *f = (const loading_file *)user;
    if (offset > f->n || n > f->n - offset) return 0;
    memcpy(dst, f->bytes + offset, n);
    return n;
}

static void loading_params(infer_model_params *p, int way) {
    memset(p, 0, sizeof *p);
    p->allocator.alloc = check_alloc;
    p->allocator.free = check_free;
    p->no_mmap = way == LOADING_READ;
    p->preload = way == LOADING_PRELOAD;
}

static infer_io loading_io(loading_file *f) {
    infer_io io;
    memset(&io, 0, sizeof io);
    io.user = f;
    io.read = loading_read;
    io.size = f->n;
    return io;
}

static infer_result loading_whole(infer_model **m, loading_file *f, int way, const infer_model_params *p, infer_error *e) {
    infer_io io = loading_io(f);
    if (way == LOADING_MEMORY) return infer_model_open_memory(m, f->bytes, f->n, p, e);
    if (way == LOADING_IO) return infer_model_open_io(m, &io, 1, p, e);
    return infer_model_open(m, f->path, p, e);
}

/* What begin was given is overwritten: it has copies. */
static infer_result loading_begin(infer_loading **x, loading_file *f, int way, const infer_model_params *params, infer_error *e) {
    infer_model_params p = *params;
    infer_io io = loading_io(f);
    char path[1024], pre[64];
    infer_result r;
    if (p.pre) {
        snprintf(pre, sizeof pre, "%s", p.pre);
        p.pre = pre;
    }
    if (way == LOADING_MEMORY) r = infer_model_open_memory_begin(x, f->bytes, f->n, &p, e);
    else if (way == LOADING_IO) r = infer_model_open_io_begin(x, &io, 1, &p, e);
    else {
        snprintf(path, sizeof path, "%s", f->path);
        r = infer_model_open_begin(x, path, &p, e);
        memset(path, 'x', sizeof path - 1);
    }
    memset(&p, 0xff, sizeof p);
    memset(&io, 0xff, sizeof io);
    memset(pre, 'x', sizeof pre - 1);
    return r;
}

/* Slices to the end: *steps of them, *most units of work in one. */
static infer_result loading_slices(infer_model **m, loading_file *f, int way, const infer_model_params *p, int32_t budget, int32_t *steps,
                                   uint64_t *most, infer_error *e) {
    infer_loading *x = NULL;
    infer_result r = loading_begin(&x, f, way, p, e);
    *m = NULL;
    *steps = 0;
    *most = 0;
    if (r) return r;
    while ((r = infer_loading_step(x, budget, e)) == INFER_MORE) {
        (*steps)++;
        *most = INFER__MAX(*most, x->budget.done);
        CHECK(e->code == INFER_OK);
    }
    CHECK(e->code == r && infer_loading_step(x, budget, e) == r && e->code == r); /* again */
    CHECK(infer_loading_end(x, m) == INFER_OK && !r == !!*m);
    return r;
}

static int loading_same_bytes(const void *a, const void *b, uint64_t n) { return !a == !b && (!a || memcmp(a, b, (size_t)n) == 0); }

static void loading_same_text(const infer_model *a, const infer_model *b) {
    const infer__tokenizer *s = a->tokenizer, *t = b->tokenizer;
    const infer__vocab *v = &s->vocab, *w = &t->vocab;
    CHECK(v->n == w->n && v->kind == w->kind && v->longest == w->longest && v->n_slots == w->n_slots && v->n_marked == w->n_marked);
    CHECK(v->form == w->form && v->add_bos == w->add_bos && v->unknown == w->unknown && v->lstrip == w->lstrip && v->token_bits == w->token_bits);
    if (check_bad) return;
    CHECK(loading_same_bytes(v->slots, w->slots, v->n_slots * sizeof *v->slots) && loading_same_bytes(v->flags, w->flags, (uint64_t)v->n));
    CHECK(loading_same_bytes(v->order, w->order, (uint64_t)v->n * sizeof *v->order) && loading_same_bytes(v->marked, w->marked, (uint64_t)v->n_marked * sizeof *v->marked));
    CHECK(!memcmp(v->byte_token, w->byte_token, sizeof v->byte_token) && !memcmp(v->joins, w->joins, sizeof v->joins));
    CHECK(!memcmp(v->marked_from, w->marked_from, sizeof v->marked_from) && !memcmp(v->marked_kinds, w->marked_kinds, sizeof v->marked_kinds));
    CHECK(!memcmp(v->special, w->special, sizeof v->special) && !strcmp(s->why_not, t->why_not) && s->pre == t->pre);
    CHECK(s->merges.mask == t->merges.mask && s->merges.ranks == t->merges.ranks);
    CHECK(loading_same_bytes(s->merges.slots, t->merges.slots, ((uint64_t)s->merges.mask + 1) * sizeof *s->merges.slots));
    CHECK(s->lexicon.trie.n == t->lexicon.trie.n && loading_same_bytes(s->lexicon.trie.nodes, t->lexicon.trie.nodes, ((uint64_t)s->lexicon.trie.n + 1) * sizeof *s->lexicon.trie.nodes));
    CHECK(loading_same_bytes(s->lexicon.trie.first, t->lexicon.trie.first, s->lexicon.trie.n) && memcmp(&s->lexicon.unknown, &t->lexicon.unknown, sizeof s->lexicon.unknown) == 0);
}

static void loading_same_keys(const infer_model *a, const infer_model *b) {
    int32_t i;
    uint64_t k;
    CHECK(a->gguf.n_kv == b->gguf.n_kv && a->gguf.n_tensors == b->gguf.n_tensors && a->gguf.file_bytes == b->gguf.file_bytes);
    for (i = 0; i < a->gguf.n_kv && !check_bad; i++) {
        const infer__kv *x = &a->gguf.kv[i], *y = &b->gguf.kv[i];
        CHECK(!strcmp(x->key, y->key) && x->type == y->type && x->n == y->n && x->offset == y->offset && x->element == y->element);
        if (infer__kv_is_strings(x))
            for (k = 0; k < x->n && !check_bad; k++) {
                const infer__str s = infer__kv_string(x, k), t = infer__kv_string(y, k);
                CHECK(s.n == t.n && memcmp(s.s, t.s, (size_t)s.n) == 0);
            }
        else if (x->type == INFER__GGUF_STRING) CHECK(memcmp(x->data, y->data, (size_t)x->n) == 0);
        else for (k = 0; k < x->n && !check_bad; k++) {
            const double p = infer__kv_number(x, k), q = infer__kv_number(y, k);
            CHECK(memcmp(&p, &q, sizeof p) == 0);
        }
    }
}

static void loading_same_logits(infer_model *a, infer_model *b) {
    infer_token ids[7] = { 1, 5, 9, 2, 7, 3, 4 };
    infer_session *s = NULL, *t = NULL;
    infer_error e;
    if (a->why_code || a->hp.encoder || a->hp.n_enc) return;
    CHECK(infer_session_create(&s, a, NULL, &e) == INFER_OK && infer_session_create(&t, b, NULL, &e) == INFER_OK);
    if (s && t && infer_session_eval(s, ids, 7) == INFER_OK) {
        CHECK(infer_session_eval(t, ids, 7) == INFER_OK && infer_session_logits(s, -1) && infer_session_logits(t, -1));
        if (!check_bad) CHECK(memcmp(infer_session_logits(s, -1), infer_session_logits(t, -1), (size_t)a->hp.n_vocab * sizeof(float)) == 0);
    }
    CHECK(infer_session_destroy(s) == INFER_OK && infer_session_destroy(t) == INFER_OK);
}

static void loading_same(infer_model *a, infer_model *b) {
    CHECK(a->why_code == b->why_code && !strcmp(a->why_not, b->why_not) && a->own_bytes == b->own_bytes && a->token_bytes == b->token_bytes);
    CHECK(infer__atomic_get(&a->mem.used) == infer__atomic_get(&b->mem.used) && a->weights_print == b->weights_print && a->n_params == b->n_params);
    loading_same_keys(a, b);
    if (!check_bad) loading_same_text(a, b);
    if (!check_bad) loading_same_logits(a, b);
}

static int loading_open(loading_file *f, const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s", strncmp(name, "data/", 5) ? check_reference(name) : check_data(name + 5));
    f->path = path;
    f->bytes = check_read(path, &f->n);
    return f->bytes != NULL;
}

static const char *const LOADING_FILES[] = {
    "data/vocab-bpe-small.gguf", "vocabs/ggml-vocab-bert-bge.gguf", "vocabs/ggml-vocab-llama-spm.gguf", "vocabs/ggml-vocab-llama-bpe.gguf",
    "vocabs/ggml-vocab-gemma-4.gguf", "vocabs/ggml-vocab-gpt-2.gguf", "vocabs/ggml-vocab-phi-3.gguf", "archs/qwen3-dense.gguf", "archs/mamba2-dense.gguf",
    "archs/qwen3moe-moe.gguf", "archs/bert-dense.gguf", "archs/t5-dense.gguf", "models/TinyStories-656K.Q8_0.gguf", "models/TinyStories-656K.Q4_K_M.gguf",
    "models/tiny-rwkv7-834K.F32.gguf", "models/stories260K.F32.gguf", "data/quant-vectors.gguf"
};

static void test_loading_same(void) {
    size_t i;
    int way, seen = 0;
    for (i = 0; i < INFER__COUNT(LOADING_FILES); i += (size_t)check_every(4)) {
        loading_file f;
        if (!loading_open(&f, LOADING_FILES[i])) continue;
        for (way = 0; way < LOADING_WAYS; way++) {
            infer_model_params p;
            infer_model *a = NULL, *b = NULL;
            infer_error e;
            int32_t steps;
            uint64_t most;
            loading_params(&p, way);
            CHECK(loading_whole(&a, &f, way, &p, &e) == INFER_OK);
            CHECK(loading_slices(&b, &f, way, &p, 0, &steps, &most, &e) == INFER_OK);
            if (a && b) {
                loading_same(a, b);
                CHECK(steps >= infer__tokenizer_size(a->tokenizer) / INFER__BUDGET_PIECE && most <= 3 * INFER__BUDGET_PIECE);
                if (way != LOADING_PATH && !a->why_code) CHECK(steps > (int32_t)(a->token_bytes / (INFER__BUDGET_PIECE * INFER__BUDGET_BYTES)));
            }
            CHECK(infer_model_close(b) == INFER_OK);
            CHECK(loading_slices(&b, &f, way, &p, -1, &steps, &most, &e) == INFER_OK && steps == 0);
            CHECK(infer_model_close(b) == INFER_OK);
            CHECK(loading_slices(&b, &f, way, &p, 1, &steps, &most, &e) == INFER_OK);
            CHECK(infer_model_close(a) == INFER_OK && infer_model_close(b) == INFER_OK && check_live == 0);
            seen++;
        }
        free(f.bytes);
        if (check_bad) { check_note(__FILE__, __LINE__, LOADING_FILES[i]); return; }
    }
    CHECK(seen > 0);
}

/* A pre-tokenizer's name is a copy; sorting a trie of texts with long common beginnings, many and few. */
static void test_loading_trie(void) {
    enum { N = 6000 };
    static char room[N][40];
    static infer__str texts[N];
    infer__mem mem;
    infer_error e;
    int32_t kind, i;
    infer__mem_init(&mem, NULL, 0);
    for (kind = 0; kind < 5; kind++) {
        infer__trie whole, cut;
        infer__trie_opening x;
        infer__budget budget;
        infer_result r;
        int32_t steps = 0;
        for (i = 0; i < N; i++) {
            const unsigned k = (unsigned)i * 7919u % N;
            static const char *const forms[] = { "%u", "the same beginning of %05u", "abcdefg%u", "abcdefghijklmnopqrstuvwxy", "%c%.*s" };
            if (kind == 4) snprintf(room[i], sizeof room[i], forms[4], 'a' + i % 2, (int)(k % 30), "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
            else snprintf(room[i], sizeof room[i], forms[kind], kind == 1 ? k % 3000 : k);
            texts[i].s = room[i];
            texts[i].n = strlen(room[i]);
        }
        memset(&budget, 0, sizeof budget);
        budget.end = -1;
        CHECK(infer__trie_open(&whole, &mem, texts, N, &e) == INFER_OK);
        r = infer__trie_begin(&x, &cut, &mem, texts, N, &e);
        while (r == INFER_OK && (r = infer__trie_step(&x, &cut, &mem, &budget, &e)) == INFER_MORE) { r = INFER_OK; steps++; }
        CHECK(r == INFER_OK && steps > 10 && whole.n == cut.n);
        if (!check_bad) {
            CHECK(memcmp(whole.nodes, cut.nodes, (whole.n + 1) * sizeof *whole.nodes) == 0 && memcmp(whole.first, cut.first, whole.n) == 0);
            CHECK(memcmp(whole.labels, cut.labels, whole.nodes[whole.n].label) == 0);
            for (i = 0; i < N; i++) {
                size_t len;
                const int32_t t = infer__trie_longest(&cut, texts[i].s, (size_t)texts[i].n, &len);
                CHECK(t >= i && len == texts[i].n && strcmp(room[t], room[i]) == 0); /* of equal ones the last */
            }
        }
        infer__trie_end(&x, &mem);
        infer__trie_close(&whole, &mem);
        infer__trie_close(&cut, &mem);
        if (check_bad) return;
    }
    CHECK(infer__atomic_get(&mem.used) == 0);
}

/* Given up after every slice, or after some of many. */
static void test_loading_given_up(void) {
    static const char *const names[] = { "data/vocab-bpe-small.gguf", "models/TinyStories-656K.Q8_0.gguf", "vocabs/ggml-vocab-bert-bge.gguf", "vocabs/ggml-vocab-llama-bpe.gguf", "vocabs/ggml-vocab-llama-spm.gguf" };
    size_t i;
    for (i = 0; i < INFER__COUNT(names); i++) {
        loading_file f;
        int way, seen = 0;
        if (!loading_open(&f, names[i])) continue;
        for (way = 0; way < LOADING_WAYS; way += 1 + (i > 2)) {
            infer_model_params p;
            infer_model *m = NULL;
            infer_error e;
            int32_t steps, stop, k;
            uint64_t most;
            loading_params(&p, way);
            CHECK(loading_slices(&m, &f, way, &p, 0, &steps, &most, &e) == INFER_OK && infer_model_close(m) == INFER_OK);
            for (stop = 0; stop <= steps; stop += 1 + steps / 40) {
                infer_loading *x = NULL;
                CHECK(loading_begin(&x, &f, way, &p, &e) == INFER_OK);
                for (k = 0; k < stop; k++) CHECK(infer_loading_step(x, 0, &e) == INFER_MORE);
                m = (infer_model *)&p;
                CHECK(infer_loading_end(x, stop & 1 ? &m : NULL) == INFER_OK && check_live == 0);
                if (stop & 1) CHECK(!m);
                seen++;
            }
        }
        CHECK(seen > 10);
        free(f.bytes);
    }
}

/* The n-th allocation fails. Some may: what is asked for to give memory back. */
static void test_loading_memory(void) {
    static const char *const names[] = { "data/vocab-bpe-small.gguf", "models/TinyStories-656K.Q8_0.gguf", "vocabs/ggml-vocab-bert-bge.gguf", "models/tiny-rwkv7-834K.F32.gguf" };
    size_t i;
    for (i = 0; i < INFER__COUNT(names); i++) {
        loading_file f;
        int way, n, failed = 0;
        if (!loading_open(&f, names[i])) continue;
        for (way = 0; way < LOADING_WAYS; way++) {
            for (n = 1; n < 3000; n++) {
                infer_model_params p;
                infer_model *m = NULL;
                infer_loading *x = NULL;
                infer_error e;
                infer_result r;
                int hit;
                loading_params(&p, way);
                check_fail_at = check_allocs + n;
                r = loading_begin(&x, &f, way, &p, &e);
                CHECK(!r == !!x);
                while (x && (r = infer_loading_step(x, 0, &e)) == INFER_MORE) {}
                hit = check_allocs >= check_fail_at;
                check_fail_at = 0;
                CHECK((r == INFER_OK || r == INFER_ERR_MEMORY) && e.code == r);
                CHECK(infer_loading_end(x, &m) == INFER_OK && !r == !!m && infer_model_close(m) == INFER_OK && check_live == 0);
                failed += r == INFER_ERR_MEMORY;
                if (!hit || check_bad) break;
            }
            CHECK(n > 10 && n < 3000 && failed > 10);
        }
        free(f.bytes);
    }
}

/* Cut short and damaged: the same result, in the same words. */
static void test_loading_broken(void) {
    static const char *const names[] = { "data/vocab-bpe-small.gguf", "models/stories260K.F32.gguf", "archs/bert-dense.gguf", "models/tiny-rwkv7-834K.F32.gguf" };
    size_t i;
    for (i = 0; i < INFER__COUNT(names); i++) {
        loading_file f;
        uint32_t seed = 12345;
        size_t whole, head;
        int k, refused = 0;
        if (!loading_open(&f, names[i])) continue;
        whole = f.n;
        head = INFER__MIN(whole, 30000);
        for (k = 0; k < 160 / check_every(8); k++) {
            const int way = k % 2 ? LOADING_MEMORY : LOADING_IO;
            infer_model_params p;
            infer_model *a = NULL, *b = NULL;
            infer_error e, g;
            infer_result r;
            int32_t steps;
            uint64_t most;
            size_t at;
            char kept;
            seed = seed * 1664525u + 1013904223u;
            at = (seed >> 8) % head;
            kept = f.bytes[at];
            if (k % 3 == 0) f.n = at;
            else f.bytes[at] = (char)(k % 3 == 1 ? kept ^ 1 << (seed >> 4 & 7) : 0xff);
            loading_params(&p, way);
            p.max_memory = (uint64_t)64 << 20;
            r = loading_whole(&a, &f, way, &p, &e);
            CHECK(loading_slices(&b, &f, way, &p, 0, &steps, &most, &g) == r && (!r || strcmp(e.message, g.message) == 0));
            if (check_bad) { check_note(__FILE__, __LINE__, e.message); check_note(__FILE__, __LINE__, g.message); }
            if (a && b) loading_same(a, b);
            refused += r != INFER_OK;
            CHECK(infer_model_close(a) == INFER_OK && infer_model_close(b) == INFER_OK && check_live == 0);
            f.bytes[at] = kept;
            f.n = whole;
            if (check_bad) break;
        }
        CHECK(refused > 5);
        free(f.bytes);
    }
}

/* A model in parts, whole and with something wrong in one of them. */
static void test_loading_split(void) {
    static const int kinds[] = { GGUF_SPLIT_GOOD, GGUF_SPLIT_NO, GGUF_SPLIT_COUNT, GGUF_SPLIT_TOTAL, GGUF_SPLIT_SAME_NAME, GGUF_SPLIT_ORDER, GGUF_SPLIT_TYPE, GGUF_SPLIT_BROKEN };
    size_t k;
    for (k = 0; k < INFER__COUNT(kinds); k++) {
        loading_file files[GGUF_PARTS];
        infer_io io[GGUF_PARTS];
        infer_model_params p;
        infer_model *a = NULL, *b = NULL;
        infer_loading *x = NULL;
        infer_error e, g;
        infer_result r, s;
        int i, steps = 0;
        for (i = 0; i < GGUF_PARTS; i++) {
            files[i].bytes = (char *)gguf_part(i, kinds[k], &files[i].n);
            io[i] = loading_io(&files[i]);
        }
        loading_params(&p, LOADING_IO);
        r = infer_model_open_io(&a, io, GGUF_PARTS, &p, &e);
        CHECK((r == INFER_OK) == (kinds[k] == GGUF_SPLIT_GOOD));
        CHECK(infer_model_open_io_begin(&x, io, GGUF_PARTS, &p, &g) == INFER_OK);
        memset(io, 0xff, sizeof io);
        while ((s = infer_loading_step(x, 0, &g)) == INFER_MORE) steps++;
        CHECK(s == r && (!r || strcmp(e.message, g.message) == 0) && infer_loading_end(x, &b) == INFER_OK && !a == !b && steps > 1);
        if (a && b) loading_same(a, b);
        CHECK(infer_model_close(a) == INFER_OK && infer_model_close(b) == INFER_OK && check_live == 0);
        for (i = 0; i < GGUF_PARTS; i++) free(files[i].bytes);
    }
}

typedef struct loading_meddler { infer_loading *x; int calls, stop; } loading_meddler;
static int loading_meddle(void *user, float done) {
    loading_meddler *k = (loading_meddler *)user;
    infer_model *m = NULL;
    infer_error e;
    (void)done;
    CHECK(infer_loading_step(k->x, 0, &e) == INFER_ERR_STATE && e.code == INFER_ERR_STATE && infer_loading_end(k->x, &m) == INFER_ERR_STATE && !m);
    return ++k->calls == k->stop;
}

static void test_loading_refused(void) {
    loading_file f;
    loading_meddler k;
    infer_model_params p;
    infer_model *m = (infer_model *)&p;
    infer_loading *x = NULL;
    infer_error e, g;
    infer_io io;
    infer_result r;
    int all, stop;
    CHECK(infer_loading_step(NULL, 0, &e) == INFER_ERR_ARGUMENT && infer_loading_end(NULL, &m) == INFER_OK && !m);
    CHECK(infer_model_open_begin(NULL, "x", NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_open_begin(&x, NULL, NULL, &e) == INFER_ERR_ARGUMENT && !x && !strcmp(e.message, "path is NULL"));
    CHECK(infer_model_open_memory_begin(&x, NULL, 5, NULL, &e) == INFER_ERR_ARGUMENT && !x && !strcmp(e.message, "data is NULL"));
    memset(&io, 0, sizeof io);
    CHECK(infer_model_open_io_begin(&x, NULL, 1, NULL, &e) == INFER_ERR_ARGUMENT && infer_model_open_io_begin(&x, &io, 0, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_open_io(&m, &io, 0, NULL, &g) == INFER_ERR_ARGUMENT && !strcmp(e.message, g.message));
    CHECK(infer_model_open_begin_v(&x, "x", NULL, &e, 1) == INFER_ERR_ARGUMENT && !x);
    loading_params(&p, LOADING_PATH);
    p.preload = 7;
    CHECK(infer_model_open_begin(&x, "x", &p, &e) == INFER_ERR_ARGUMENT && !x && check_live == 0);
    CHECK(infer_model_open_begin(&x, "no such file", NULL, &e) == INFER_OK && infer_loading_step(x, -2, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_loading_step(x, 0, &e) == INFER_ERR_IO && infer_model_open(&m, "no such file", NULL, &g) == INFER_ERR_IO && !strcmp(e.message, g.message));
    CHECK(infer_loading_end(x, &m) == INFER_OK && !m);
    if (!loading_open(&f, "models/TinyStories-656K.Q8_0.gguf")) SKIP("needs INFER_TEST_DATA");
    memset(&k, 0, sizeof k);
    loading_params(&p, LOADING_READ);
    p.preload = 1;
    p.progress = loading_meddle;
    p.progress_user = &k;
    for (all = 0, stop = 0; stop <= all; stop++) {
        k.calls = 0;
        k.stop = stop; /* 0 = never */
        CHECK(infer_model_open_begin(&x, f.path, &p, &e) == INFER_OK);
        k.x = x;
        while ((r = infer_loading_step(x, 0, &e)) == INFER_MORE) {}
        CHECK(r == (stop ? INFER_CANCELLED : INFER_OK) && (!stop || strstr(e.message, "cancelled")));
        if (!stop) all = k.calls;
        CHECK(infer_loading_end(x, NULL) == INFER_OK && check_live == 0); /* a whole one, too */
    }
    CHECK(all > 4);
    free(f.bytes);
}

static void suite_loading(void) {
    RUN(test_loading_trie);
    RUN(test_loading_same);
    RUN(test_loading_given_up);
    RUN(test_loading_memory);
    RUN(test_loading_broken);
    RUN(test_loading_split);
    RUN(test_loading_refused);
}
