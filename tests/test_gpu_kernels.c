/* test_gpu_kernels.c: the embedded kernels (text, tables) and gpu_kernels.c over a made-up API, whose calls fail one
 * after the other. With INFER_NO_GPU: that there is nothing. */

#ifdef INFER_NO_GPU

static void test_gpu_not_built(void) {
    infer__gpu *g = (infer__gpu *)&check_bad;
    infer__mem mem;
    infer_device_info info;
    infer_error err;
    infer__mem_init(&mem, NULL, 0);
    CHECK(infer__gpu_count() == 0 && !infer__gpu_has_backend(INFER_OPENCL));
    memset(&info, 1, sizeof info);
    infer__gpu_info(0, &info);
    CHECK(info.usable == 0 && info.name[0] == 0);
    CHECK(infer__gpu_open(&g, &mem, NULL, INFER_OPENCL, -1, NULL, &err) == INFER_ERR_UNSUPPORTED && g == NULL);
    CHECK_STR(err.message, "backend opencl is not in this build");
    infer__gpu_close(NULL);
}

static void suite_gpu_kernels(void) { RUN(test_gpu_not_built); }

#else
#include "fake_gpu.h"

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* Packed bytes as one zero-terminated piece; free() it. */
static char *kernels_digits(const uint8_t *packed, uint32_t n) {
    static const char digits[] = "#$&()+,-.0123456789:;<=>@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~";
    char *out = (char *)malloc((n + 3) / 4 * 5 + 1), *p = out;
    uint32_t i, k, group;
    for (i = 0; i < n; i += 4, p += 5) {
        for (group = 0, k = 0; k < 4; k++) group = group << 8 | (i + k < n ? packed[i + k] : 0u);
        for (k = 5; k-- > 0; group /= 85) p[k] = digits[group % 85];
    }
    *p = 0;
    return out;
}

/* Unpack into a block of exactly text->bytes, so that a sanitizer sees every step beside it. NULL = refused. */
static char *kernels_unpack(const infer__kernel_text *text) {
    char *out = (char *)malloc(text->bytes ? text->bytes : 1);
    if (infer__text_unpack(text, out)) return out;
    free(out);
    return NULL;
}

static char *kernels_unpack_bytes(const uint8_t *packed, uint32_t n, uint32_t bytes) {
    infer__kernel_text text;
    const char *piece = kernels_digits(packed, n);
    char *out;
    memset(&text, 0, sizeof text);
    text.pieces = &piece;
    text.n_pieces = 1;
    text.packed = n;
    text.bytes = bytes;
    out = kernels_unpack(&text);
    free((void *)(uintptr_t)piece);
    return out;
}

/* The format by example: tools/embed_kernels.py describes it. */
static void test_gpu_text_format(void) {
    static const uint8_t plain[] = {'a', 'b', 'c'}, near_copy[] = {'a', 'b', 'c', 0x80, 2, '!'},
                         longest_near[] = {'a', 'b', 0x80 | 13 << 3, 1}, run[] = {'x', 0xf0, 0, 5};
    uint8_t far_copy[64];
    char *p, want[24];
    uint32_t n = 0, i;
    CHECK((p = kernels_unpack_bytes(plain, 3, 3)) != NULL && memcmp(p, "abc", 3) == 0);
    free(p);
    CHECK((p = kernels_unpack_bytes(near_copy, 6, 7)) != NULL && memcmp(p, "abcabc!", 7) == 0);
    free(p);
    CHECK((p = kernels_unpack_bytes(longest_near, 4, 18)) != NULL && memcmp(p, "abababababababababab", 18) == 0);
    free(p);
    memset(want, 'x', sizeof want);
    CHECK((p = kernels_unpack_bytes(run, 4, 23)) != NULL && memcmp(p, want, 23) == 0);
    free(p);
    for (; n < 10; n++) far_copy[n] = (uint8_t)('0' + n);
    far_copy[n++] = '.';
    for (i = 0; i < 8; i++, n += 3) { far_copy[n] = 0xf0; far_copy[n + 1] = 9; far_copy[n + 2] = 255; }
    memcpy(far_copy + n, "\xf8\x05\x10\x01", 4); /* 20 characters from 2048 + 5 + 1 back */
    n += 4;
    CHECK((p = kernels_unpack_bytes(far_copy, n, 11 + 8 * 272 + 20)) != NULL);
    for (i = 11 + 8 * 272; p && i < 11 + 8 * 272 + 20; i++) CHECK(p[i] == p[i - 2054]);
    CHECK(p && p[10] == '.' && p[11] == '1' && p[12] == '2' && p[2187] != p[2186]);
    free(p);
}

static void test_gpu_text_refused(void) {
    static const uint8_t before_start[] = {'a', 0x80, 1}, past_end[] = {'a', 0x80, 0}, no_distance[] = {'a', 'b', 'c', 0x80},
                         no_length[] = {'a', 0xf0, 0}, no_height[] = {'a', 0xf8, 0, 0}, far_before[] = {'a', 0xf8, 0, 0, 1},
                         rest[] = {'a', 'b', 'c'};
    static const char *const big[] = {"~s(qI"}, *const many[] = {"#####", "#####"}, *const quote[] = {"##\"##"},
                      *const high[] = {"##\xa3##"}, *const shorter[] = {"##", "##"}, *const apart[] = {"##", "", "###"};
    static const struct { const char *const *pieces; int32_t n; } rows[] = {{big, 1}, {many, 2}, {quote, 1}, {high, 1},
                                                                            {shorter, 2}};
    infer__kernel_text text;
    char *p;
    size_t i;
    CHECK(kernels_unpack_bytes(before_start, 3, 4) == NULL);
    CHECK(kernels_unpack_bytes(past_end, 3, 3) == NULL);
    CHECK((p = kernels_unpack_bytes(past_end, 3, 4)) != NULL);
    free(p);
    CHECK(kernels_unpack_bytes(no_distance, 4, 6) == NULL);
    CHECK(kernels_unpack_bytes(no_length, 3, 18) == NULL);
    CHECK(kernels_unpack_bytes(no_height, 4, 5) == NULL);
    CHECK(kernels_unpack_bytes(far_before, 5, 5) == NULL);
    CHECK(kernels_unpack_bytes(rest, 3, 2) == NULL);
    CHECK(kernels_unpack_bytes(rest, 3, 4) == NULL);
    memset(&text, 0, sizeof text);
    text.packed = text.bytes = 4;
    for (i = 0; i < INFER__COUNT(rows); i++) { /* four small bytes, but for what is wrong: big is 2^32 + 0x08080808 */
        check_detail = rows[i].pieces[0];
        text.pieces = rows[i].pieces;
        text.n_pieces = rows[i].n;
        CHECK(kernels_unpack(&text) == NULL);
    }
    text.pieces = apart;
    text.n_pieces = 3;
    CHECK((p = kernels_unpack(&text)) != NULL && memcmp(p, "\0\0\0\0", 4) == 0);
    free(p);
}

/* All text of a module; free() it. The last character is a zero. */
static char *kernels_module(const infer__module_row *row) {
    char *all = NULL, *one;
    size_t n = 0;
    int32_t i;
    for (i = 0; row->files[i] >= 0; i++) {
        const infer__kernel_text *text = &INFER__KERNEL_TEXTS[row->files[i]];
        one = kernels_unpack(text);
        CHECK(one != NULL);
        all = (char *)realloc(all, n + text->bytes + 1);
        if (one) memcpy(all + n, one, text->bytes);
        n += text->bytes;
        free(one);
    }
    all[n] = 0;
    return all;
}

static void test_gpu_texts(void) {
    size_t i, j, digits;
    int32_t k;
    for (i = 0; i < INFER__COUNT(INFER__KERNEL_TEXTS); i++) {
        const infer__kernel_text *text = &INFER__KERNEL_TEXTS[i];
        char *p = kernels_unpack(text);
        check_detail = text->name;
        for (digits = 0, k = 0; k < text->n_pieces; k++) {
            digits += strlen(text->pieces[k]);
            CHECK(strlen(text->pieces[k]) <= 4000);
        }
        CHECK(digits == (text->packed + 3) / 4 * 5);
        CHECK(p != NULL && text->packed < text->bytes);
        for (j = 0; p && j < text->bytes; j++) CHECK(p[j] == '\n' || (p[j] >= ' ' && p[j] < 127));
        CHECK(p && p[text->bytes - 1] == '\n');
        free(p);
    }
    for (i = 0; i < INFER__MODULE_COUNT; i++) {
        char *all = kernels_module(&INFER__MODULES[i]);
        check_detail = INFER__MODULES[i].name;
        CHECK(infer__fnv(INFER__FNV, all, strlen(all)) == INFER__MODULES[i].hash);
        CHECK(!strstr(all, "/*"));
        free(all);
    }
}

/* A copy of a text in blocks of their own; damaged by the caller. */
static void kernels_copy(infer__kernel_text *to, const infer__kernel_text *from) {
    char **pieces = (char **)malloc((size_t)from->n_pieces * sizeof *pieces);
    int32_t i;
    *to = *from;
    for (i = 0; i < from->n_pieces; i++) {
        pieces[i] = (char *)malloc(strlen(from->pieces[i]) + 1);
        strcpy(pieces[i], from->pieces[i]);
    }
    to->pieces = (const char *const *)pieces;
}
static void kernels_drop(infer__kernel_text *t, int32_t n_pieces) {
    int32_t i;
    for (i = 0; i < n_pieces; i++) free((void *)(uintptr_t)t->pieces[i]);
    free((void *)(uintptr_t)t->pieces);
}

static void test_gpu_text_damaged(void) {
    size_t i;
    uint32_t seed = 1;
    int round, refused = 0, taken = 0;
    for (i = 0; i < INFER__COUNT(INFER__KERNEL_TEXTS); i++) {
        const infer__kernel_text *text = &INFER__KERNEL_TEXTS[i];
        check_detail = text->name;
        for (round = 0; round < 300; round++) {
            infer__kernel_text t;
            char *piece, *p;
            size_t at;
            int must = 1; /* it has to be refused */
            kernels_copy(&t, text);
            seed = seed * 1664525u + 1013904223u;
            piece = (char *)(uintptr_t)t.pieces[(seed >> 8) % (uint32_t)t.n_pieces];
            seed = seed * 1664525u + 1013904223u;
            at = (seed >> 8) % strlen(piece);
            switch (round % 6) {
            case 0: piece[at] = 0; break;
            case 1: piece[at] = "\\\"?%/'\n\x80\xff"[seed >> 28 & 7]; break;
            case 2: t.bytes += round & 1 ? 1 : 0u - 1u; break;
            case 3: t.packed += round & 1 ? 1 : 0u - 1u; break;
            case 4: t.n_pieces -= 1 + (int32_t)((seed >> 28) % (uint32_t)t.n_pieces); break;
            default: /* another digit: may give another text, and must not reach beside anything */
                piece[at] = piece[at] == 'A' ? 'B' : 'A';
                must = 0;
            }
            p = kernels_unpack(&t);
            if (must) CHECK(p == NULL);
            else if (p) taken++;
            else refused++;
            free(p);
            kernels_drop(&t, text->n_pieces);
        }
    }
    CHECK(refused > 100 && taken > 100);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static int kernels_occur(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what)) n++;
    return n;
}

static void test_gpu_kernel_table(void) {
    int32_t i, k, n;
    CHECK(INFER__COUNT(INFER__KERNELS) == INFER__KERNEL_COUNT && INFER__KERNEL_COUNT >= 13);
    CHECK_STR(INFER__KERNELS[INFER__K_NORM].name, "k_norm");
    CHECK_STR(INFER__KERNELS[INFER__K_ATTENTION].name, "k_attention");
    CHECK_STR(INFER__KERNELS[INFER__K_MOE_MATVEC].name, "k_moe_matvec");
    CHECK(INFER__KERNELS[INFER__K_NORM].kind == INFER__MODULE_BASE);
    CHECK(INFER__KERNELS[INFER__K_KV_STORE].kind == INFER__MODULE_KV);
    CHECK(INFER__KERNELS[INFER__K_MATMUL].kind == INFER__MODULE_TYPE);
    CHECK(sizeof(struct infer__k_norm) == 64 && offsetof(struct infer__k_norm, eps) == 52);
    for (k = 0; k < INFER__KERNEL_COUNT; k++) {
        const infer__kernel_row *row = &INFER__KERNELS[k];
        check_detail = row->name;
        CHECK(strncmp(row->name, "k_", 2) == 0 && row->kind >= INFER__MODULE_BASE && row->kind <= INFER__MODULE_TYPE);
        CHECK(row->group >= 32 && row->group <= 256 && (row->group & (row->group - 1)) == 0);
        CHECK(row->buffers >= 1 && row->buffers <= 8);
        CHECK(row->args_size >= 16 && row->args_size % 16 == 0 && row->args_size <= 256);
    }
    for (i = 0; i < INFER__MODULE_COUNT; i++) { /* the text has these kernels, with these groups, and no others */
        char *all = kernels_module(&INFER__MODULES[i]), *body = strstr(all, "#define PAGE"), line[80];
        check_detail = INFER__MODULES[i].name;
        CHECK(body != NULL);
        for (k = n = 0; body && k < INFER__KERNEL_COUNT; k++) {
            if (INFER__KERNELS[k].kind != INFER__MODULES[i].kind) continue;
            snprintf(line, sizeof line, "KERNEL(%s, %d)(", INFER__KERNELS[k].name + 2, (int)INFER__KERNELS[k].group);
            CHECK(kernels_occur(body, line) == 1);
            n++;
        }
        CHECK(body && n > 0 && kernels_occur(body, "KERNEL(") == n);
        free(all);
    }
}

static void test_gpu_module_table(void) {
    int32_t i, j, n, base = 0, f16 = 0;
    const infer__quant *q;
    CHECK(INFER__COUNT(INFER__MODULES) == INFER__MODULE_COUNT);
    for (i = 0; i < INFER__MODULE_COUNT; i++) {
        const infer__module_row *row = &INFER__MODULES[i];
        check_detail = row->name;
        CHECK(infer__gpu_module(row->kind, row->id) == i); /* so no two have the same */
        for (n = 0; row->files[n] >= 0; n++) CHECK(row->files[n] < (int32_t)INFER__COUNT(INFER__KERNEL_TEXTS));
        CHECK(n >= 3 && n <= INFER__MODULE_FILES);
        CHECK_STR(INFER__KERNEL_TEXTS[row->files[0]].name, "dialect.h");
        CHECK_STR(INFER__KERNEL_TEXTS[row->files[1]].name, "math.k");
        if (row->kind == INFER__MODULE_BASE) base += row->id == 0 ? 1 : 100;
        if (row->kind == INFER__MODULE_KV) {
            CHECK(row->id >= INFER_KV_F32 && row->id <= INFER_KV_Q4_0);
            f16 += row->id == INFER_KV_F16;
        }
        if (row->kind == INFER__MODULE_TYPE) {
            char name[32];
            q = infer__quant_find(row->id, NULL);
            CHECK(q && q->storable);
            for (j = 0; q && (name[j] = q->name[j]) != 0; j++)
                if (name[j] >= 'A' && name[j] <= 'Z') name[j] = (char)(name[j] - 'A' + 'a');
            if (q) CHECK_STR(row->name, name);
        }
    }
    check_detail = "";
    CHECK(base == 1 && f16 == 1);
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
        check_detail = q->name;
        CHECK(infer__gpu_has_type(q) == (infer__gpu_module(INFER__MODULE_TYPE, q->id) >= 0));
        if (q->id == 0 || q->id == 1 || q->id == 2 || q->id == 8) CHECK(infer__gpu_has_type(q));
        if (!q->storable) CHECK(!infer__gpu_has_type(q));
    }
    CHECK(infer__gpu_module(INFER__MODULE_KV, INFER_KV_DEFAULT) < 0 && infer__gpu_module(INFER__MODULE_TYPE, -1) < 0);
}

/* ---- the made-up API -------------------------------------------------------------------------------------------- */

/* Rows: 0 an API without devices, 1-3 devices of which the second cannot be used, 4 one that cannot. */
static infer__mem kernels_mem;
static void kernels_begin(long fail_at) {
    infer_allocator a;
    int i;
    memset(&a, 0, sizeof a);
    fake_reset(fail_at);
    fake.apis[FAKE_HIP].why_not = "libnone.so.1 was not found";
    fake_device(FAKE_OPENCL, "Fake One", NULL);
    fake_device(FAKE_OPENCL, "Fake Old", "version 1.0 is too old");
    fake_device(FAKE_OPENCL, "Fake Two", NULL)->free = 700;
    for (i = 0; i < 3; i++) fake.apis[FAKE_OPENCL].info[i].total = 1000u * ((uint64_t)i + 1);
    fake_device(FAKE_METAL, "Fake Broken 0", "it is broken");
    check_allocs = check_live = check_fail_at = 0;
    a.alloc = check_alloc;
    a.free = check_free;
    infer__mem_init(&kernels_mem, &a, 0);
}
static void kernels_end(void) {
    fake_closed();
    CHECK(infer__atomic_get(&kernels_mem.used) == 0 && check_live == 0);
}
static infer_result kernels_gpu(infer__gpu **g, int32_t backend, int32_t device, infer_error *err) {
    infer__error_clear(err);
    return infer__gpu_open_in(fake_drivers, g, &kernels_mem, NULL, backend, device, NULL, err);
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

static void test_gpu_rows(void) {
    static const infer__driver *const none[] = {NULL};
    infer_device_info info;
    int32_t at = -7, i;
    infer__gpu *g = NULL;
    infer_error err;
    kernels_begin(0);
    CHECK(infer__gpu_count_in(fake_drivers) == 5 && infer__gpu_count_in(none) == 0);
    CHECK(infer__gpu_row(fake_drivers, 0, &info, &at) == &fake_hip && at == -1);
    CHECK(info.backend == INFER_HIP && info.device == 0 && !info.usable && !info.name[0]);
    CHECK_STR(info.why_not, "libnone.so.1 was not found");
    for (i = 1; i < 4; i++) {
        CHECK(infer__gpu_row(fake_drivers, i, &info, &at) == &fake_opencl && at == i - 1);
        CHECK(info.backend == INFER_OPENCL && info.device == i && info.usable == (i != 2));
        CHECK_STR(info.name, i == 1 ? "Fake One" : i == 2 ? "Fake Old" : "Fake Two");
    }
    CHECK(infer__gpu_row(fake_drivers, 4, &info, &at) == &fake_metal && at == 0 && info.device == 4);
    CHECK_STR(info.why_not, "it is broken");
    CHECK(infer__gpu_row(fake_drivers, 5, &info, &at) == NULL && infer__gpu_row(fake_drivers, -1, &info, &at) == NULL);
    CHECK(infer__gpu_row(none, 0, &info, &at) == NULL && !info.usable);
    /* what is in this build */
    CHECK_STR(infer__backend_name(INFER_AUTO), "auto");
    CHECK_STR(infer__backend_name(INFER_METAL), "metal");
    CHECK(infer__backend_name(-1) == NULL && infer__backend_name(INFER_METAL + 1) == NULL);
    CHECK(!infer__gpu_has_backend(INFER_CPU) && !infer__gpu_has_backend(INFER_AUTO));
    for (i = 0; infer__drivers[i]; i++) {
        CHECK(infer__gpu_has_backend(infer__drivers[i]->backend));
        CHECK_STR(infer__drivers[i]->name, infer__backend_name(infer__drivers[i]->backend));
    }
    CHECK(infer__gpu_open_in(fake_drivers, &g, &kernels_mem, NULL, INFER_CUDA, -1, NULL, &err) == INFER_ERR_UNSUPPORTED);
    CHECK_STR(err.message, "backend cuda is not in this build");
    CHECK(g == NULL);
    CHECK(infer__gpu_open(&g, &kernels_mem, NULL, 77, -1, NULL, NULL) == INFER_ERR_UNSUPPORTED && g == NULL);
    kernels_end();
}

static void test_gpu_choice(void) {
    static const struct { int32_t backend, device; infer_result want; const char *text; } rows[] = {
        {INFER_OPENCL, -1, INFER_OK, "Fake One"},
        {INFER_OPENCL, 1, INFER_OK, "Fake One"},
        {INFER_OPENCL, 3, INFER_OK, "Fake Two"},
        {INFER_OPENCL, 2, INFER_ERR_DEVICE, "Fake Old cannot be used: version 1.0 is too old"},
        {INFER_OPENCL, 0, INFER_ERR_ARGUMENT, "hip is a device of backend hip, not opencl"},
        {INFER_OPENCL, 4, INFER_ERR_ARGUMENT, "Fake Broken 0 is a device of backend metal, not opencl"},
        {INFER_OPENCL, 5, INFER_ERR_ARGUMENT, "GPU 5: there are 5"},
        {INFER_HIP, -1, INFER_ERR_DEVICE, "backend hip has no usable device: libnone.so.1 was not found"},
        {INFER_HIP, 0, INFER_ERR_DEVICE, "hip cannot be used: libnone.so.1 was not found"},
        {INFER_METAL, -1, INFER_ERR_DEVICE, "backend metal has no usable device: it is broken"},
        {INFER_CUDA, -1, INFER_ERR_UNSUPPORTED, "backend cuda is not in this build"},
        {INFER_CUDA, 1, INFER_ERR_UNSUPPORTED, "backend cuda is not in this build"},
    };
    size_t i;
    for (i = 0; i < INFER__COUNT(rows); i++) {
        infer__gpu *g = NULL;
        infer_error err;
        check_detail = rows[i].text;
        kernels_begin(0);
        CHECK(kernels_gpu(&g, rows[i].backend, rows[i].device, &err) == rows[i].want);
        CHECK((g != NULL) == (rows[i].want == INFER_OK) && err.code == rows[i].want);
        if (!g) CHECK_STR(err.message, rows[i].text);
        if (!g) CHECK(fake.calls == 0); /* found without touching a device */
        if (g) CHECK_STR(infer__gpu_name(g), rows[i].text);
        if (g) CHECK(fake.opened == (rows[i].device == 3 ? 2 : 0));
        if (g) CHECK(infer__gpu_memory(g) == (rows[i].device == 3 ? 700u : 900u)); /* free, else nearly all */
        infer__gpu_close(g);
        kernels_end();
    }
}

/* ---- programs and memory ------------------------------------------------------------------------------------------ */

static void test_gpu_life(void) {
    const infer__quant *q4_0 = infer__quant_find(2, NULL), *q8_k = infer__quant_find(15, NULL);
    infer_cache cache;
    infer__gpu *g = NULL;
    infer__buf b;
    infer_error err;
    void *kernel = NULL;
    uint8_t bytes[16], *on_device;
    memset(&cache, 0, sizeof cache);
    cache.user = &cache;
    infer__error_clear(&err);
    kernels_begin(0);
    CHECK(infer__gpu_open_in(fake_drivers, &g, &kernels_mem, NULL, INFER_OPENCL, -1, &cache, &err) == INFER_OK);
    if (!g) return;
    CHECK(fake.loads == 1 && fake.live[FAKE_PROGRAM] == 1 && fake.live[FAKE_QUEUE] == 1);
    CHECK(fake.cache.user == &cache);
    CHECK_STR(fake.module, "base");
    CHECK(check_live == 1); /* the text is gone */
    CHECK(infer__gpu_driver(g) == &fake_opencl && infer__gpu_device(g) != NULL);

    CHECK(infer__gpu_kernel(g, g->queue, INFER__K_MATVEC, 2, &kernel, &err) == INFER_ERR_STATE && !kernel);
    CHECK_HAS(err.message, "Fake One: no program has been compiled for kernel k_matvec");
    CHECK(!infer__gpu_has_program(g, INFER__MODULE_TYPE, 2) && infer__gpu_has_program(g, INFER__MODULE_BASE, 0));
    CHECK(!infer__gpu_has_program(g, INFER__MODULE_TYPE, 999));
    CHECK(infer__gpu_use_type(g, q4_0, &err) == INFER_OK && infer__gpu_use_type(g, q4_0, NULL) == INFER_OK);
    CHECK(fake.loads == 2);
    CHECK_STR(fake.module, "q4_0");
    CHECK(infer__gpu_has_program(g, INFER__MODULE_TYPE, 2) && !infer__gpu_has_program(g, INFER__MODULE_KV, 2));
    CHECK(infer__gpu_use_kv(g, INFER_KV_F16, &err) == INFER_OK && infer__gpu_use_kv(g, INFER_KV_F16, &err) == INFER_OK);
    CHECK(fake.loads == 3 && check_live == 1);
    CHECK_STR(fake.module, "kv_f16");
    CHECK(infer__gpu_use_type(g, q8_k, &err) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(err.message, "Q8_K");
    CHECK(infer__gpu_use_kv(g, INFER_KV_Q4_0, &err) == INFER_ERR_UNSUPPORTED && fake.loads == 3);

    CHECK(infer__gpu_kernel(g, g->queue, INFER__K_MATVEC, 2, &kernel, &err) == INFER_OK && kernel);
    CHECK_STR(fake.kernel, "q4_0 k_matvec");
    CHECK(fake.group == INFER__KERNELS[INFER__K_MATVEC].group);
    if (kernel) fake_kernel_close(g->queue, kernel);
    CHECK(infer__gpu_kernel(g, g->queue, INFER__K_ATTENTION, INFER_KV_F16, &kernel, &err) == INFER_OK);
    CHECK_STR(fake.kernel, "kv_f16 k_attention");
    if (kernel) fake_kernel_close(g->queue, kernel);

    CHECK(infer__gpu_alloc(g, &b, 0, &err) == INFER_OK && b.bytes == 0 && fake.live[FAKE_MEMORY] == 0);
    infer__gpu_free(g, &b);
    CHECK(infer__gpu_alloc(g, &b, 16, &err) == INFER_OK && b.bytes == 16 && fake.live[FAKE_MEMORY] == 1);
    on_device = (uint8_t *)fake_memory(b.handle)->data;
    memset(on_device, 0, 16);
    memset(bytes, 7, sizeof bytes);
    CHECK(infer__gpu_write(g, &b, 4, bytes, 12, &err) == INFER_OK && infer__gpu_write(g, &b, 16, NULL, 0, &err) == INFER_OK);
    CHECK(on_device[4] == 0 && fake.n_pending == 1);
    CHECK(infer__gpu_flush(g, NULL) == INFER_OK && on_device[3] == 0 && on_device[4] == 7 && on_device[15] == 7);
    infer__gpu_free(g, &b);
    CHECK(b.handle == 0 && b.bytes == 0 && fake.live[FAKE_MEMORY] == 0);
    infer__gpu_free(g, &b); /* once more is harmless */
    infer__gpu_close(g);
    infer__gpu_close(NULL);
    kernels_end();
}

/* Uploads that were not flushed read the caller's memory: closing waits for them. */
static void test_gpu_close_waits(void) {
    infer__gpu *g = NULL;
    infer__buf b;
    infer_error err;
    uint8_t byte = 5;
    kernels_begin(0);
    if (kernels_gpu(&g, INFER_OPENCL, -1, &err)) { CHECK(0); return; }
    CHECK(infer__gpu_alloc(g, &b, 1, &err) == INFER_OK && infer__gpu_write(g, &b, 0, &byte, 1, &err) == INFER_OK);
    fake.syncs = 0;
    g->driver->sync(g->queue, (infer__error_clear(&err), &err));
    CHECK(infer__gpu_write(g, &b, 0, &byte, 1, &err) == INFER_OK);
    infer__gpu_free(g, &b); /* the buffer first, as drivers allow */
    infer__gpu_close(g);
    CHECK(fake.syncs == 2);
    kernels_end();
}

/* Everything once; what failed is tried again at once where that is promised. Returns the first error. */
static infer_result kernels_scenario(infer_error *err) {
    static const uint8_t bytes[64];
    const infer__quant *q = infer__quant_find(2, NULL);
    infer__gpu *g = NULL;
    infer__buf a, b;
    infer_error again;
    void *kernel = NULL;
    infer_result r = kernels_gpu(&g, INFER_OPENCL, -1, err);
    if (r) {
        CHECK(g == NULL);
        return r;
    }
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    if ((r = infer__gpu_use_type(g, q, err)) != INFER_OK) {
        CHECK(!infer__gpu_has_program(g, INFER__MODULE_TYPE, q->id));
        CHECK(infer__gpu_use_type(g, q, &again) == INFER_OK && infer__gpu_has_program(g, INFER__MODULE_TYPE, q->id));
    }
    if (!r && (r = infer__gpu_use_kv(g, INFER_KV_F32, err)) != INFER_OK)
        CHECK(infer__gpu_use_kv(g, INFER_KV_F32, &again) == INFER_OK);
    if (!r) r = infer__gpu_kernel(g, g->queue, INFER__K_EMBED, q->id, &kernel, err);
    if (!r) fake_kernel_close(g->queue, kernel);
    else CHECK(kernel == NULL);
    if (!r) r = infer__gpu_alloc(g, &a, 64, err);
    if (!r) r = infer__gpu_alloc(g, &b, 64, err);
    if (r) CHECK(b.bytes == 0 && b.handle == 0);
    if (!r) r = infer__gpu_write(g, &a, 0, bytes, 64, err);
    if (!r) r = infer__gpu_flush(g, err);
    if (!r) r = infer__gpu_write(g, &b, 0, bytes, 64, err);
    if (r) infer__gpu_flush(g, NULL);
    else r = infer__gpu_flush(g, err);
    infer__gpu_free(g, &a);
    infer__gpu_free(g, &b);
    infer__gpu_close(g);
    return r;
}

static void test_gpu_every_call_fails(void) {
    static const char *const want[] = {"fakeOpen", "fakeQueue", "base: fakeBuild", "q4_0: fakeBuild", "kv_f32: fakeBuild",
                                       "q4_0: fakeKernel", "64 bytes: fakeAlloc", "64 bytes: fakeAlloc",
                                       "upload: fakeUpload", "fakeSync", "upload: fakeUpload", "fakeSync"};
    char text[128];
    infer_error err;
    infer_result r;
    long i, total;
    kernels_begin(0);
    CHECK(kernels_scenario(&err) == INFER_OK && err.code == INFER_OK);
    kernels_end();
    total = fake.calls;
    CHECK(total == (long)INFER__COUNT(want) + 1); /* and the sync of closing, which cannot fail */
    for (i = 1; i <= total; i++) {
        kernels_begin(i);
        r = kernels_scenario(&err);
        kernels_end();
        if (i == total) { CHECK(r == INFER_OK); break; }
        check_detail = want[i - 1];
        CHECK(r == (strstr(want[i - 1], "Alloc") ? INFER_ERR_MEMORY : INFER_ERR_DEVICE) && err.code == r);
        snprintf(text, sizeof text, "Fake One: %s: error %ld", want[i - 1], -i);
        CHECK_STR(err.message, text);
    }
}

static void test_gpu_every_alloc_fails(void) {
    infer_error err;
    infer_result r;
    long i, total;
    kernels_begin(0);
    CHECK(kernels_scenario(&err) == INFER_OK);
    total = check_allocs;
    CHECK(total == 4); /* the object, and the text of three programs */
    for (i = 1; i <= total; i++) {
        kernels_begin(0);
        check_fail_at = i;
        r = kernels_scenario(&err);
        check_fail_at = 0;
        CHECK(r == INFER_ERR_MEMORY && err.code == r);
        CHECK_HAS(err.message, i == 1 ? "no memory for a GPU" : i == 2 ? "(base)" : i == 3 ? "(q4_0)" : "(kv_f32)");
        kernels_end();
    }
}

/* Threads that ask for the same program: it is compiled once. */
typedef struct kernels_race { infer__gpu *g; infer_result r[16]; } kernels_race;
static void kernels_race_task(void *arg, int task, int worker) {
    kernels_race *x = (kernels_race *)arg;
    (void)worker;
    x->r[task] = infer__gpu_use_type(x->g, infer__quant_find(task & 1 ? 8 : 2, NULL), NULL);
}
static void test_gpu_threads(void) {
    infer__pool *pool = NULL;
    kernels_race x;
    infer_error err;
    int i;
    memset(&x, 0, sizeof x);
    kernels_begin(0);
    CHECK(kernels_gpu(&x.g, INFER_OPENCL, -1, &err) == INFER_OK);
    CHECK(infer__pool_create(&pool, &kernels_mem, 4, NULL, NULL, &err) == INFER_OK);
    if (x.g && pool) infer__parallel(pool, 16, kernels_race_task, &x);
    for (i = 0; i < 16; i++) CHECK(x.r[i] == INFER_OK);
    CHECK(fake.loads == 3 && fake.live[FAKE_PROGRAM] == 3);
    infer__pool_destroy(pool);
    infer__gpu_close(x.g);
    kernels_end();
}

static void suite_gpu_kernels(void) {
    RUN(test_gpu_text_format);
    RUN(test_gpu_text_refused);
    RUN(test_gpu_texts);
    RUN(test_gpu_text_damaged);
    RUN(test_gpu_kernel_table);
    RUN(test_gpu_module_table);
    RUN(test_gpu_rows);
    RUN(test_gpu_choice);
    RUN(test_gpu_life);
    RUN(test_gpu_close_waits);
    RUN(test_gpu_every_call_fails);
    RUN(test_gpu_every_alloc_fails);
    RUN(test_gpu_threads);
}

#endif
