/* test_gguf_refuse.c: what the file layer refuses, with which code and message, and split models. Part of test_gguf.c. */

/* ---- refusals: header and metadata ---- */

static void test_gguf_refuses_header(void) {
    gguf_writer w;
    size_t n;
    unsigned char *file;
    int big;
    gguf_refuse((unsigned char *)calloc(1, 1), 0, INFER_ERR_FORMAT, "not a GGUF file: it has only 0 bytes");
    file = (unsigned char *)calloc(1, 100);
    memcpy(file, "ggjt", 4);
    gguf_refuse(file, 100, INFER_ERR_FORMAT, "header, byte 0: not a GGUF file: it starts with 67 67 6a 74");
    for (big = 0; big < 2; big++) {
        static const struct { uint32_t v; const char *says; } versions[] = {
            { 1, "GGUF version 1 is too old" }, { 4, "GGUF version 4 is not known: 2 and 3 are" }, { 65535, "version 65535" } };
        size_t i;
        for (i = 0; i < 3; i++) {
            gw_init(&w);
            w.big = big;
            w.version = versions[i].v;
            gw_str(&w, "general.architecture", "llama");
            gguf_refuse_w(&w, INFER_ERR_UNSUPPORTED, versions[i].says);
        }
    }
    gw_init(&w);
    w.version = 0;
    gw_str(&w, "general.architecture", "llama");
    gguf_refuse_w(&w, INFER_ERR_UNSUPPORTED, "version 0");
    gw_init(&w);
    file = gw_finish(&w, &n); /* no keys, no tensors: fine */
    {
        gguf_opened o;
        gguf_open(&o, GGUF_MEMORY, file, n, NULL, 0);
        CHECK(o.code == INFER_OK && o.g.n_kv == 0 && o.g.n_tensors == 0);
        CHECK(infer__gguf_find(&o.g, "x") == NULL && infer__gguf_tensor_find(&o.g, "x") == NULL);
        gguf_close(&o);
    }
    gguf_refuse(file, 23, INFER_ERR_FORMAT, "it has only 23 bytes");
}

static void test_gguf_refuses_counts(void) {
    static const uint64_t counts[] = { 3, 1000, UINT32_MAX, (uint64_t)1 << 40, UINT64_MAX / 33, INT64_MAX, UINT64_MAX };
    gguf_writer w;
    size_t i;
    for (i = 0; i < INFER__COUNT(counts); i++) {
        gw_init(&w);
        gw_int(&w, "a", GW_U32, 1);
        w.n_kv = counts[i];
        gguf_refuse_w(&w, INFER_ERR_FORMAT, "header, byte 16: ");
        gw_init(&w);
        gw_int(&w, "a", GW_U32, 1);
        w.n_tensors = counts[i];
        gguf_refuse_w(&w, INFER_ERR_FORMAT, "header, byte 8: ");
        gw_init(&w);
        gw_array(&w, "numbers", GW_U64, counts[i]);
        gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"numbers\", byte 43: an array of ");
        gw_init(&w);
        gw_array(&w, "strings", GW_STRING, counts[i]);
        gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"strings\", byte 43: an array of ");
        gw_init(&w);
        gw_key(&w, "text", GW_STRING);
        gw_uint(&w, &w.kv, counts[i], 8);
        gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"text\", byte 48: the file ends at byte 48, but ");
        gw_init(&w);
        gw_array(&w, "words", GW_STRING, 1);
        gw_uint(&w, &w.kv, counts[i], 8);
        gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"words\", byte 61: the file ends at byte 61, but ");
        gw_init(&w);
        gw_uint(&w, &w.kv, counts[i], 8);
        gw_add(&w.kv, NULL, 2); /* 2 bytes of key */
        gw_uint(&w, &w.kv, GW_U8, 4);
        w.n_kv = 1;
        gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key");
    }
}

static void test_gguf_refuses_metadata(void) {
    gguf_writer w;
    char *name = (char *)malloc(70000);
    gguf_opened o;
    unsigned char *file;
    size_t n;
    gw_init(&w);
    gw_int(&w, "a", GW_U32, 1);
    gw_int(&w, "", GW_U32, 1);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key 2, byte 41: the name is empty");
    gw_init(&w);
    gw_raw_string(&w, &w.kv, "a\0b", 3);
    gw_uint(&w, &w.kv, GW_U32, 4);
    gw_uint(&w, &w.kv, 0, 4);
    w.n_kv = 1;
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key 1, byte 24: the name contains a zero byte");
    memset(name, 'k', 69999);
    name[65536] = 0;
    gw_init(&w);
    gw_int(&w, name, GW_U32, 1);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key 1, byte 24: a name of 65536 bytes (at most 65535)");
    name[65535] = 0;
    gw_init(&w);
    gw_int(&w, name, GW_U32, 123);
    file = gw_finish(&w, &n);
    gguf_open(&o, GGUF_READ, file, n, NULL, 0);
    CHECK(o.code == INFER_OK && o.g.n_kv == 1 && strcmp(o.g.kv[0].key, name) == 0);
    gguf_close(&o);
    free(file);
    gw_init(&w);
    gw_int(&w, name, GW_BOOL, 2);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "kkkkkkk...\", byte 65571: 2 is no bool");
    gw_init(&w);
    gw_int(&w, "a\nb\xff", GW_BOOL, 2);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"a?b?\", byte 40: 2 is no bool");
    gw_init(&w);
    gw_array(&w, "flags", GW_BOOL, 3);
    gw_add(&w.kv, "\0\1\2", 3);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"flags\", byte 41: element 2 is no bool");
    gw_init(&w);
    gw_key(&w, "odd", 13);
    gw_add(&w.kv, NULL, 16);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"odd\", byte 35: unknown value type 13");
    gw_init(&w);
    gw_array(&w, "odd", 0x80000000u, 1);
    gw_add(&w.kv, NULL, 16);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"odd\", byte 39: unknown type 2147483648 of array elements");
    gw_init(&w);
    gw_array(&w, "nested", GW_ARRAY, 1);
    gw_add(&w.kv, NULL, 16);
    gguf_refuse_w(&w, INFER_ERR_UNSUPPORTED, "metadata key \"nested\", byte 42: arrays of arrays are not supported");
    gw_init(&w);
    gw_int(&w, "twice", GW_U32, 1);
    gw_int(&w, "once", GW_U32, 1);
    gw_str(&w, "twice", "x");
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"twice\", byte 82: the name occurs twice");
    free(name);
}

static void test_gguf_refuses_alignment(void) {
    static const struct { int type; int64_t v; const char *says; } bad[] = {
        { GW_U32, 0, "0 is no multiple of 8" }, { GW_U32, 1, "1 is no multiple of 8" }, { GW_U32, 33, "33 is no" },
        { GW_U32, 1 << 21, "2097152 is out of range (0 to 1048576)" }, { GW_U64, -1, "out of range" },
        { GW_I32, -32, "-32 is out of range" }, { GW_F32, 0x42000000, "must be an integer" }, { GW_BOOL, 1, "must be an integer" } };
    static const uint32_t good[] = { 8, 16, 24, 64, 4096, 1 << 20 };
    static const float x[] = { 1, 2, 3 };
    uint64_t dims[] = { 3 };
    gguf_writer w;
    size_t i, n;
    for (i = 0; i < INFER__COUNT(bad); i++) {
        gw_init(&w);
        gw_int(&w, "general.alignment", bad[i].type, bad[i].v);
        gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"general.alignment\", byte 53: ");
        gw_init(&w);
        gw_int(&w, "general.alignment", bad[i].type, bad[i].v);
        gguf_refuse_w(&w, INFER_ERR_FORMAT, bad[i].says);
    }
    gw_init(&w);
    gw_str(&w, "general.alignment", "32");
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"general.alignment\", byte 53: must be an integer");
    for (i = 0; i < INFER__COUNT(good); i++) {
        gguf_opened o;
        unsigned char *file;
        float y[3];
        gw_init(&w);
        gw_align(&w, good[i]);
        gw_tensor(&w, "a", 0, 1, dims, x, sizeof x, 4);
        gw_tensor(&w, "b", 0, 1, dims, x, sizeof x, 4);
        w.cut_padding = i & 1; /* some writers leave out the padding at the end */
        file = gw_finish(&w, &n);
        gguf_open(&o, GGUF_READ, file, n, NULL, 0);
        CHECK(o.code == INFER_OK && o.g.tensors[1].offset % good[i] == 0);
        if (o.code == INFER_OK) CHECK(infer__gguf_read_rows(&o.g, &o.g.tensors[1], 0, 1, y, NULL) == INFER_OK && y[2] == 3);
        gguf_close(&o);
        free(file);
    }
}

/* ---- refusals: tensors ---- */

typedef struct gguf_bad_tensor {
    uint32_t type, n_dims;
    uint64_t dims[5], offset;
    infer_result code;
    const char *says;
} gguf_bad_tensor;

static void test_gguf_refuses_tensors(void) {
    static const gguf_bad_tensor bad[] = {
        { 0, 0, { 0 }, 0, INFER_ERR_FORMAT, "tensor \"t\", byte 33: 0 dimensions (1 to 4 are possible)" },
        { 0, 5, { 1, 1, 1, 1, 1 }, 0, INFER_ERR_FORMAT, "tensor \"t\", byte 33: 5 dimensions" },
        { 0, 1, { 0 }, 0, INFER_ERR_FORMAT, "tensor \"t\", byte 37: dimension 0 is 0" },
        { 0, 3, { 4, 4, 0 }, 0, INFER_ERR_FORMAT, "tensor \"t\", byte 53: dimension 2 is 0" },
        { 99, 1, { 32 }, 0, INFER_ERR_UNSUPPORTED, "tensor \"t\", byte 45: unknown type 99" },
        { 0xffffffffu, 1, { 32 }, 0, INFER_ERR_UNSUPPORTED, "tensor \"t\", byte 45: unknown type 4294967295" },
        { 4, 1, { 32 }, 0, INFER_ERR_UNSUPPORTED, "tensor \"t\", byte 45: type 4 (Q4_2) was removed" },
        { 31, 1, { 32 }, 0, INFER_ERR_UNSUPPORTED, "tensor \"t\", byte 45: type 31 (Q4_0_4_4) was removed" },
        { 2, 2, { 31, 2 }, 0, INFER_ERR_FORMAT, "tensor \"t\", byte 53: rows of 31 values are no multiple of the 32 values" },
        { 12, 1, { 128 }, 0, INFER_ERR_FORMAT, "rows of 128 values are no multiple of the 256 values of a Q4_K block" },
        { 0, 2, { (uint64_t)1 << 32, (uint64_t)1 << 32 }, 0, INFER_ERR_FORMAT, "byte 53: the dimensions multiply to more" },
        { 0, 4, { 65536, 65536, 65536, 65536 }, 0, INFER_ERR_FORMAT, "the dimensions multiply to more" },
        { 0, 1, { UINT64_MAX }, 0, INFER_ERR_FORMAT, "tensor \"t\", byte 45: the dimensions multiply to more" },
        { 0, 1, { (uint64_t)1 << 60 }, 0, INFER_ERR_FORMAT, "the dimensions multiply to more" },
        { 0, 1, { (uint64_t)1 << 59 }, 0, INFER_ERR_FORMAT, "goes past the end of the file" },
        { 28, 1, { ((uint64_t)1 << 60) - 1 }, 0, INFER_ERR_FORMAT, "tensor \"t\", byte 64: its data (9223372036854775800 bytes)" },
        { 0, 1, { 8 }, 16, INFER_ERR_FORMAT, "tensor \"t\", byte 49: its offset 16 is no multiple of the alignment, 32" },
        { 0, 1, { 8 }, 32, INFER_ERR_FORMAT, "tensor \"t\", byte 96: its data (32 bytes) goes past the end of the file, byte 96" },
        { 0, 1, { 9 }, 0, INFER_ERR_FORMAT, "tensor \"t\", byte 64: its data (36 bytes) goes past the end of the file" },
        { 0, 1, { 8 }, UINT64_MAX - 31, INFER_ERR_FORMAT, "goes past the end of the file" },
        { 0, 1, { 8 }, (uint64_t)1 << 63, INFER_ERR_FORMAT, "goes past the end of the file" },
    };
    static const char *const names[] = { "", "a\0b" };
    static const char *const name_says[] = { "tensor 1, byte 24: the name is empty", "tensor 1, byte 24: the name contains a zero" };
    uint64_t dims[] = { 8 };
    gguf_writer w;
    size_t i, n;
    for (i = 0; i < INFER__COUNT(bad); i++) {
        gw_init(&w);
        gw_raw_tensor(&w, "t", 1, bad[i].type, bad[i].n_dims, bad[i].dims, bad[i].offset);
        gw_add(&w.data, NULL, 32);
        check_detail = bad[i].says;
        gguf_refuse_w(&w, bad[i].code, bad[i].says);
    }
    check_detail = "";
    for (i = 0; i < 2; i++) {
        gw_init(&w);
        gw_raw_tensor(&w, names[i], 3 * i, 0, 1, dims, 0);
        gw_add(&w.data, NULL, 32);
        gguf_refuse_w(&w, INFER_ERR_FORMAT, name_says[i]);
    }
    gw_init(&w); /* twice the same name */
    gw_tensor(&w, "same", 0, 1, dims, NULL, 32, 4);
    gw_tensor(&w, "other", 0, 1, dims, NULL, 32, 4);
    gw_tensor(&w, "same", 0, 1, dims, NULL, 32, 4);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "tensor \"same\", byte 224: the name occurs twice");
    gw_init(&w); /* the same bytes twice, in file order and not */
    gw_tensor(&w, "a", 0, 1, dims, NULL, 64, 4);
    gw_raw_tensor(&w, "b", 1, 0, 1, dims, 0);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "overlaps tensor");
    gw_init(&w);
    dims[0] = 9;
    gw_raw_tensor(&w, "c", 1, 0, 1, dims, 128);
    gw_raw_tensor(&w, "b", 1, 0, 1, dims, 64);
    gw_raw_tensor(&w, "a", 1, 0, 1, dims, 96);
    gw_raw_tensor(&w, "d", 1, 0, 1, dims, 0);
    gw_add(&w.data, NULL, 256);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "tensor \"a\", byte 256: its data overlaps tensor \"b\"");
    gw_init(&w); /* any order is fine when nothing overlaps */
    dims[0] = 8;
    for (i = 0; i < 100; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", (int)i);
        gw_raw_tensor(&w, name, strlen(name), 0, 1, dims, i * 37 % 100 * 32);
    }
    gw_add(&w.data, NULL, 3200);
    {
        gguf_opened o;
        unsigned char *file = gw_finish(&w, &n);
        gguf_open(&o, GGUF_MEMORY, file, n, NULL, 0);
        CHECK_STR(o.err.message, "");
        CHECK(o.code == INFER_OK && o.g.n_tensors == 100);
        gguf_close(&o);
        gguf_refuse(file, n - 1, INFER_ERR_FORMAT, "tensor \"t27\", byte "); /* 27 * 37 % 100 = 99: the last one's data */
    }
}

/* ---- split models ---- */

enum { GGUF_PARTS = 3 };

/* Part i of three, with i + 1 tensors; wrong: what is not as it should be. */
enum { GGUF_SPLIT_GOOD, GGUF_SPLIT_NO, GGUF_SPLIT_COUNT, GGUF_SPLIT_TOTAL, GGUF_SPLIT_SAME_NAME, GGUF_SPLIT_ORDER,
       GGUF_SPLIT_TYPE, GGUF_SPLIT_BROKEN };
static unsigned char *gguf_part(int i, int wrong, size_t *n) {
    gguf_writer w;
    char name[32];
    float x[8];
    uint64_t dims[] = { 8 };
    int t, k;
    gw_init(&w);
    w.big = wrong == GGUF_SPLIT_ORDER && i == 2;
    if (i == 0) gw_str(&w, "general.architecture", "first");
    else gw_str(&w, "general.architecture", "other");
    if (i == 1) gw_align(&w, 64);
    if (wrong == GGUF_SPLIT_TYPE && i == 1) gw_str(&w, "split.no", "1");
    else gw_int(&w, "split.no", GW_U16, wrong == GGUF_SPLIT_NO && i == 1 ? 2 : i);
    gw_int(&w, "split.count", GW_U16, wrong == GGUF_SPLIT_COUNT && i == 2 ? 4 : GGUF_PARTS);
    gw_int(&w, "split.tensors.count", GW_I32, wrong == GGUF_SPLIT_TOTAL ? 7 : 6);
    for (t = 0; t <= i; t++) {
        snprintf(name, sizeof name, "p%d.t%d", wrong == GGUF_SPLIT_SAME_NAME ? 0 : i, t);
        for (k = 0; k < 8; k++) x[k] = (float)(100 * i + 10 * t + k);
        gw_tensor(&w, name, wrong == GGUF_SPLIT_BROKEN && i == 2 ? 77 : 0, 1, dims, x, sizeof x, 4);
    }
    return gw_finish(&w, n);
}

static void gguf_check_split(infer__gguf *g) {
    static const char *const names[] = { "p0.t0", "p1.t0", "p1.t1", "p2.t0", "p2.t1", "p2.t2" };
    infer__str s;
    float x[8];
    int i, k;
    CHECK(g->n_sources == GGUF_PARTS && g->n_tensors == 6 && g->tensor_bytes == 6 * 32);
    CHECK(infer__gguf_str(g, "general.architecture", &s, NULL) == 1 && s.n == 5 && memcmp(s.s, "first", 5) == 0);
    CHECK(infer__gguf_find(g, "general.alignment") == NULL && g->n_kv == 4);
    for (i = 0; i < 6; i++) {
        infer__gguf_tensor *t = infer__gguf_tensor_find(g, names[i]);
        CHECK(t == &g->tensors[i] && t->shard == names[i][1] - '0');
        CHECK(infer__gguf_read_rows(g, t, 0, 1, x, NULL) == INFER_OK && infer__gguf_load(g, t, NULL) == INFER_OK);
        for (k = 0; k < 8; k++) CHECK(x[k] == (float)(100 * t->shard + 10 * (names[i][4] - '0') + k));
        CHECK(memcmp(x, t->data, sizeof x) == 0);
    }
}

/* Open three parts given by io. */
static infer_result gguf_open_parts(infer__gguf *g, infer__mem *mem, int wrong, int mapped, int n_io, infer_error *err,
                                    void *keep[GGUF_PARTS + 1], gguf_file files[GGUF_PARTS]) {
    infer_io io[GGUF_PARTS];
    int i;
    memset(io, 0, sizeof io);
    memset(files, 0, GGUF_PARTS * sizeof *files);
    for (i = 0; i < GGUF_PARTS; i++) {
        size_t n;
        unsigned char *p = gguf_part(i, wrong, &n);
        keep[i] = NULL;
        if (mapped) { io[i].mapped = gguf_copy_at(p, n, 0, &keep[i]); free(p); }
        else keep[i] = p;
        files[i].p = (unsigned char *)keep[i];
        files[i].n = io[i].size = n;
        io[i].user = &files[i];
        io[i].read = mapped ? NULL : gguf_read_some;
    }
    return infer__gguf_open_io(g, mem, NULL, io, n_io, err);
}

static void test_gguf_split_io(void) {
    static const struct { int wrong, n_io; infer_result code; const char *says; } bad[] = {
        { GGUF_SPLIT_NO, 3, INFER_ERR_FORMAT, "part 2: metadata keys \"split.no\" and \"split.count\" say part 3 of 3, not 2 of 3" },
        { GGUF_SPLIT_COUNT, 3, INFER_ERR_FORMAT, "part 3: metadata keys \"split.no\" and \"split.count\" say part 3 of 4" },
        { GGUF_SPLIT_TOTAL, 3, INFER_ERR_FORMAT, "metadata key \"split.tensors.count\": 7, but the 3 parts have 6" },
        { GGUF_SPLIT_SAME_NAME, 3, INFER_ERR_FORMAT, "part 2: tensor \"p0.t0\", byte " },
        { GGUF_SPLIT_ORDER, 3, INFER_ERR_FORMAT, "part 3: header, byte 4: its byte order" },
        { GGUF_SPLIT_TYPE, 3, INFER_ERR_FORMAT, "part 2: metadata key \"split.no\", byte " },
        { GGUF_SPLIT_BROKEN, 3, INFER_ERR_UNSUPPORTED, "part 3: tensor \"p2.t0\", byte " },
        { GGUF_SPLIT_GOOD, 1, INFER_ERR_ARGUMENT, "\"split.count\": the model is split into 3 parts, 1 given" },
        { GGUF_SPLIT_GOOD, 2, INFER_ERR_ARGUMENT, "\"split.count\": the model is split into 3 parts, 2 given" },
    };
    void *keep[GGUF_PARTS + 1];
    gguf_file files[GGUF_PARTS];
    infer__gguf g;
    infer__mem mem;
    infer_error e;
    size_t i;
    int k;
    infer__mem_init(&mem, NULL, 0);
    for (i = 0; i < 2; i++) {
        CHECK(gguf_open_parts(&g, &mem, GGUF_SPLIT_GOOD, (int)i, 3, &e, keep, files) == INFER_OK);
        gguf_check_split(&g);
        infer__gguf_close(&g);
        CHECK(infer__atomic_get(&mem.used) == 0);
        for (k = 0; k < GGUF_PARTS; k++) free(keep[k]);
    }
    for (i = 0; i < INFER__COUNT(bad); i++) {
        check_detail = bad[i].says;
        CHECK(gguf_open_parts(&g, &mem, bad[i].wrong, (int)i & 1, bad[i].n_io, &e, keep, files) == bad[i].code);
        CHECK_HAS(e.message, bad[i].says);
        CHECK(infer__atomic_get(&mem.used) == 0);
        for (k = 0; k < GGUF_PARTS; k++) free(keep[k]);
    }
    CHECK(infer__gguf_open_io(&g, &mem, NULL, NULL, 0, &e) == INFER_ERR_ARGUMENT);
    infer__gguf_close(&g);
}

static void test_gguf_split_path(void) {
    char path[GGUF_PARTS][300], name[64], other[300];
    infer__gguf g;
    infer__mem mem;
    infer_error e;
    int i, map;
    size_t n;
    unsigned char *p;
    infer__mem_init(&mem, NULL, 0);
    for (i = 0; i < GGUF_PARTS; i++) {
        snprintf(name, sizeof name, "%05d-of-%05d.gguf", i + 1, GGUF_PARTS);
        p = gguf_part(i, GGUF_SPLIT_GOOD, &n);
        CHECK(gw_save(gguf_temp(path[i], sizeof path[i], name), p, n));
        if (i == 0) CHECK(gw_save(gguf_temp(other, sizeof other, "single.gguf"), p, n));
        free(p);
    }
    for (map = 0; map < 2; map++) {
        CHECK(infer__gguf_open_path(&g, &mem, NULL, path[0], map, &e) == INFER_OK);
        gguf_check_split(&g);
        infer__gguf_close(&g);
        CHECK(infer__atomic_get(&mem.used) == 0);
    }
    CHECK(infer__gguf_open_path(&g, &mem, NULL, path[1], 1, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "this is part 2 of a model split into 3: open the first part");
    CHECK(infer__gguf_open_path(&g, &mem, NULL, other, 1, &e) == INFER_ERR_FORMAT);
    CHECK_HAS(e.message, "\"split.count\": the model is split into 3 parts, but the file's name does not end in -00001-of-00003");
    remove(path[2]);
    CHECK(infer__gguf_open_path(&g, &mem, NULL, path[0], 1, &e) == INFER_ERR_IO);
    CHECK_HAS(e.message, "-00003-of-00003.gguf\": ");
    CHECK(infer__gguf_open_path(&g, &mem, NULL, path[2], 1, &e) == INFER_ERR_IO); /* no such file */
    CHECK(infer__gguf_open_path(&g, &mem, NULL, "", 1, &e) == INFER_ERR_IO);
    { /* a name that only looks like a split: one file is fine */
        gguf_writer w;
        gw_init(&w);
        gw_str(&w, "general.architecture", "x");
        p = gw_finish(&w, &n);
        CHECK(gw_save(path[2], p, n));
        free(p);
        CHECK(infer__gguf_open_path(&g, &mem, NULL, path[2], 1, &e) == INFER_OK && g.n_sources == 1);
        infer__gguf_close(&g);
    }
    for (i = 0; i < GGUF_PARTS; i++) remove(path[i]);
    remove(other);
    CHECK(infer__atomic_get(&mem.used) == 0);
}

static void test_gguf_split_keys(void) {
    gguf_writer w;
    gw_init(&w);
    gw_split(&w, 0, 3, 1);
    gguf_refuse_w(&w, INFER_ERR_ARGUMENT, "metadata key \"split.count\": the model is split into 3 parts, 1 given");
    gw_init(&w);
    gw_split(&w, 5, 3, 1);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"split.no\": 5, but \"split.count\" is 3");
    gw_init(&w);
    gw_split(&w, 0, 65535, 1);
    gguf_refuse_w(&w, INFER_ERR_UNSUPPORTED, "metadata key \"split.count\": 65535 parts, at most 4096");
    gw_init(&w);
    gw_int(&w, "split.count", GW_I64, -3);
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"split.count\", byte 47: -3 is out of range");
    gw_init(&w);
    gw_str(&w, "split.tensors.count", "3");
    gguf_refuse_w(&w, INFER_ERR_FORMAT, "metadata key \"split.tensors.count\", byte 55: must be an integer");
}
