/* test_gpu_kernels.c: the embedded kernels (text, tables) and gpu_kernels.c over a made-up API, whose calls fail one
 * after the other. With INFER_NO_GPU: that there is nothing. */

#ifdef INFER_NO_GPU
#  ifdef INFER_NO_RUNTIME_LINKING
#    define LEFT_OUT_BY "INFER_NO_RUNTIME_LINKING"
#  else
#    define LEFT_OUT_BY "INFER_NO_GPU"
#  endif

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
    CHECK_STR(err.message, "backend opencl is left out of this build (" LEFT_OUT_BY ")");
    infer__gpu_close(NULL);
}

/* A model is not even looked at. */
static void test_gpu_not_built_open(void) {
    infer_model_params p;
    infer_model *m;
    infer_error err;
    memset(&p, 0, sizeof p);
    p.backend = INFER_CUDA;
    CHECK(infer_model_open(&m, "no-such-file.gguf", &p, &err) == INFER_ERR_UNSUPPORTED && m == NULL);
    CHECK_STR(err.message, "backend cuda is left out of this build (" LEFT_OUT_BY ")");
}

static void suite_gpu_kernels(void) {
    RUN(test_gpu_not_built);
    RUN(test_gpu_not_built_open);
}

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
    static infer__lzma unpacker;
    if (infer__text_unpack(&unpacker, text, out, text->bytes)) return out;
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

/* What another program packed (xz's library): characters, copies over themselves, distances met before. */
typedef struct packed_row { const char *text; uint8_t packed[40]; uint32_t n; } packed_row;
static const packed_row PACKED[] = {
    {"", {0x00, 0x83, 0xff, 0xfb, 0xff, 0xff, 0xc0, 0, 0, 0}, 10},
    {"a", {0x00, 0x30, 0xc3, 0xeb, 0xff, 0xff, 0xff, 0xe1, 0, 0, 0}, 11},
    {"abcabcabcabcabcabc!", {0x00, 0x30, 0x99, 0x4d, 0xde, 0x46, 0x10, 0xee, 0xe9, 0x1b, 0xff, 0xff, 0xda, 0xee, 0, 0}, 16},
    {"the cat, the dog, the cat, the dog; the end, the cat",
     {0x00, 0x3a, 0x1a, 0xda, 0x05, 0x20, 0x11, 0xce, 0x68, 0x16, 0xa6, 0xa7, 0x40, 0xfa, 0xd3, 0xd3, 0x1b, 0x5d,
      0xcb, 0x9b, 0x5b, 0x66, 0x82, 0x83, 0x9a, 0xcb, 0x8a, 0x0b, 0x57, 0xff, 0xff, 0xdb, 0x67, 0, 0}, 35},
};
static void test_gpu_text_format(void) {
    size_t i, k, n;
    for (i = 0; i < INFER__COUNT(PACKED); i++) {
        const packed_row *r = &PACKED[i];
        char *p = kernels_unpack_bytes(r->packed, r->n, (uint32_t)(n = strlen(r->text)));
        check_detail = r->text;
        CHECK(p != NULL && memcmp(p, r->text, n) == 0);
        free(p);
        CHECK(kernels_unpack_bytes(r->packed, r->n, (uint32_t)n + 1) == NULL);
        if (n) CHECK(kernels_unpack_bytes(r->packed, r->n, (uint32_t)n - 1) == NULL);
        for (k = 0; k < r->n; k++) CHECK(kernels_unpack_bytes(r->packed, (uint32_t)k, (uint32_t)n) == NULL);
    }
}

/* Copies from before the beginning, and further than the text: refused, nothing beside it is touched. */
static void test_gpu_text_refused(void) {
    static const char *const big[] = {"~s(qI"}, *const quote[] = {"##\"##"}, *const high[] = {"##\xa3##"}, *const shorter[] = {"##", "##"};
    static const struct { const char *const *pieces; int32_t n; } rows[] = {{big, 1}, {quote, 1}, {high, 1}, {shorter, 2}};
    const packed_row *r = &PACKED[3];
    infer__kernel_text text;
    size_t i;
    uint32_t seed = 7, round;
    memset(&text, 0, sizeof text);
    text.packed = text.bytes = 4;
    for (i = 0; i < INFER__COUNT(rows); i++) {
        check_detail = rows[i].pieces[0];
        text.pieces = rows[i].pieces;
        text.n_pieces = rows[i].n;
        CHECK(kernels_unpack(&text) == NULL);
    }
    for (round = 0; round < 20000; round++) { /* any bytes: a sanitizer watches */
        uint8_t packed[40];
        memcpy(packed, r->packed, sizeof packed);
        for (i = 0; i <= round % 5; i++) {
            seed = seed * 1664525u + 1013904223u;
            packed[1 + (seed >> 8) % (r->n - 1)] = (uint8_t)(seed >> 24);
        }
        free(kernels_unpack_bytes(packed, r->n, 1 + (seed >> 9) % 600));
    }
}

/* All text of a module in a form; free() it. The last character is a zero. */
static char *kernels_module(int32_t module, int32_t form) {
    const char *pieces[INFER__MODULE_FILES], *damaged;
    infer__mem mem;
    int32_t n, i;
    size_t size = 1;
    char *all;
    void *block;
    infer__mem_init(&mem, NULL, 0);
    block = infer__module_text(module, form, pieces, &n, &mem, &damaged);
    CHECK(block && !damaged);
    for (i = 0; block && i < n; i++) size += strlen(pieces[i]);
    all = (char *)calloc(size, 1);
    for (i = 0; block && i < n; i++) strcat(all, pieces[i]);
    infer__free(&mem, block);
    CHECK(infer__atomic_get(&mem.used) == 0);
    return all;
}

/* Its hash; 0 when it is damaged. */
static uint64_t kernels_text(const infer__kernel_text *text) {
    char *p = kernels_unpack(text);
    uint64_t hash = p ? infer__fnv(INFER__FNV, p, text->bytes) : 0;
    size_t j, digits = 0;
    int32_t k;
    check_detail = text->name;
    for (k = 0; k < text->n_pieces; k++) {
        digits += strlen(text->pieces[k]);
        CHECK(strlen(text->pieces[k]) <= 4000);
    }
    CHECK(digits == (text->packed + 3) / 4 * 5);
    CHECK(p != NULL && text->packed < text->bytes);
    for (j = 0; p && j < text->bytes; j++) CHECK(p[j] == '\n' || (p[j] >= ' ' && p[j] < 127));
    CHECK(p && p[text->bytes - 1] == '\n');
    free(p);
    return hash;
}
static void test_gpu_texts(void) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__KERNEL_TEXTS); i++) kernels_text(infer__kernel_file(i));
    for (i = 0; i < INFER__MODULE_COUNT; i++) {
        const infer__module_row *row = infer__module_at(i);
        char *all;
        check_detail = row->name;
        all = kernels_module((int32_t)i, row->files[0] < 0 ? INFER__FORM_PTX : INFER__FORM_SOURCE);
        CHECK(infer__fnv(INFER__FNV, all, strlen(all)) == (row->files[0] < 0 ? row->ptx_hash : row->hash));
        CHECK(!strstr(all, "/*"));
        free(all);
    }
}

static int kernels_occur(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what)) n++;
    return n;
}

/* What the CUDA driver gets: every kernel of the kind is an entry, for the tier of the kind. */
static void test_gpu_ptx(void) {
#ifndef INFER_NO_CUDA
    int32_t i, k, n;
    CHECK(INFER__COUNT(INFER__PTX) == INFER__MODULE_COUNT && INFER__PTX_CUDA >= 8000);
    for (i = 0; i < INFER__MODULE_COUNT; i++) {
        const infer__module_row *row = infer__module_at(i);
        const infer__kind_row *kind = &INFER__KINDS[row->kind];
        char want[80], *all;
        check_detail = row->name;
        if (kind->form == INFER__FORM_METAL || kind->form == INFER__FORM_HIP) {
            CHECK(infer__ptx_at(i)->bytes == 0 && row->ptx_hash == 0);
            continue;
        }
        all = kernels_module(i, INFER__FORM_PTX);
        CHECK(strlen(all) == infer__ptx_at(i)->bytes && infer__fnv(INFER__FNV, all, strlen(all)) == row->ptx_hash);
        snprintf(want, sizeof want, ".target sm_%d%s\n", (int)(kind->form ? kind->tier : 61),
                 kind->exact && kind->tier >= 90 ? "a" : ""); /* 7.5 has no instructions of its own alone */
        CHECK_HAS(all, want);
        CHECK(strncmp(all, ".version ", 9) == 0 && !strstr(all, "//"));
        for (k = n = 0; k < INFER__KERNEL_COUNT; k++) {
            if (INFER__KERNELS[k].kind != row->kind) continue;
            snprintf(want, sizeof want, ".visible .entry %s(\n", INFER__KERNELS[k].name);
            CHECK(kernels_occur(all, want) == 1);
            n++;
        }
        CHECK(n > 0 && kernels_occur(all, ".entry") == n);
        free(all);
    }
#endif
}

/* What `coded` stands for, "refused" when it is not `bytes` long. In blocks of exactly these sizes. */
static void kernels_names(const char *coded, size_t n, uint32_t bytes, const char *want) {
    static infer__ptx_names names;
    char *src = (char *)malloc(n ? n : 1), *dst = (char *)malloc((size_t)bytes + 1);
    memcpy(src, coded, n);
    check_detail = want;
    if (infer__ptx_names_write(&names, src, (uint32_t)n, dst, bytes)) CHECK_STR(dst, want);
    else CHECK_STR("refused", want);
    free(src);
    free(dst);
}
#define NAMES(coded, bytes, want) kernels_names(coded, sizeof coded - 1, bytes, want)

/* Numbers of registers and labels from their ranks, and bytes that stand for none. */
static void test_gpu_ptx_names(void) {
    enum { ALL = 2 * 9 + 3 * 90 + 4 * 900 + 5 * (INFER__PTX_NAMES - 999) }; /* characters of f1f2f3... */
    static infer__ptx_names names;
    static char many[2 * INFER__PTX_NAMES + 2], text[ALL + 6];
    int32_t i;
    NAMES("", 0, "");
    NAMES("add;", 4, "add;");
    NAMES("%r\x80, %r\x80, %r\x82;", 14, "%r1, %r2, %r1;");
    NAMES("%r\x80,%r\x80,%r\x82,%r\x82,%r\x81,%r\x81;", 24, "%r1,%r2,%r1,%r2,%r2,%r2;");
    NAMES("%r\x80%rd\x80%f\x80%p\x80%rs\x80_\x80%f\x80_\x81", 24, "%r1%rd1%f1%p1%rs1_1%f2_1");
    NAMES("%r\x80%r\x80\xff%r\x80%r\x81", 12, "%r1%r2%r1%r1");
    NAMES("%r\x80%r\xfe", 4, "refused");
    NAMES("%r\x80%r\xfe\x00", 4, "refused");
    NAMES("%r\x80%r\xfe\x00\x00", 6, "%r1%r1");
    NAMES("%r\x80%r\xfe\x00\x01", 6, "refused"); /* there is no name before */
    NAMES("%r\x80%r\x82", 6, "refused");
    NAMES("%r\x80%f\x81", 6, "refused");
    NAMES("%q\x80", 3, "refused"); /* no class */
    NAMES("\x80", 1, "refused");
    NAMES("%r\x80", 2, "refused"); /* longer, and shorter, than was said */
    NAMES("%r\x80", 4, "refused");
    for (i = 0; i <= INFER__PTX_NAMES; i++) memcpy(many + 2 * i, "f\x80", 2);
    CHECK(infer__ptx_names_write(&names, many, 2 * INFER__PTX_NAMES, text, ALL));
    CHECK_STR(text + ALL - 10, "f8191f8192");
    CHECK(!infer__ptx_names_write(&names, many, 2 * INFER__PTX_NAMES + 2, text, ALL + 5)); /* one name too many */
}
#undef NAMES

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
        const infer__kernel_text *text = infer__kernel_file(i);
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
    CHECK(refused > taken);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

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
        CHECK(strncmp(row->name, "k_", 2) == 0 && row->kind >= INFER__MODULE_BASE && row->kind < INFER__KIND_COUNT);
        CHECK(row->group >= 32 && row->group <= (row->kind < INFER__MODULE_SPECIAL ? 256 : 512) && (row->group & (row->group - 1)) == 0);
        CHECK(row->buffers >= 1 && row->buffers <= INFER__GPU_BUFS);
        CHECK(row->args_size >= 16 && row->args_size % 16 == 0 && row->args_size <= 256);
    }
    for (i = 0; i < INFER__MODULE_COUNT; i++) { /* the text has these kernels, with these groups, and no others */
        char *all, *body, line[80];
        check_detail = infer__module_at(i)->name;
        if (infer__module_at(i)->files[0] < 0) continue; /* PTX: see test_gpu_ptx */
        all = kernels_module(i, INFER__FORM_SOURCE);
        body = strstr(all, "#define PAGE");
        CHECK(body != NULL);
        for (k = n = 0; body && k < INFER__KERNEL_COUNT; k++) {
            if (INFER__KERNELS[k].kind != infer__module_at(i)->kind) continue;
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
        const infer__module_row *row = infer__module_at(i);
        check_detail = row->name;
        CHECK(infer__gpu_module(row->kind, row->id) == i); /* so no two have the same */
        for (n = 0; row->files[n] >= 0; n++) CHECK(row->files[n] < (int32_t)INFER__COUNT(INFER__KERNEL_TEXTS));
        CHECK((n == 0) == (INFER__KINDS[row->kind].form == INFER__FORM_PTX));
        CHECK((n == 0 || n >= 3) && n <= INFER__MODULE_FILES);
        if (n > 0) CHECK_STR(infer__kernel_file(row->files[0])->name, "dialect.h");
        if (n > 0) CHECK_STR(infer__kernel_file(row->files[1])->name, "math.k");
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
    CHECK(infer__gpu_use_kv(g, INFER_KV_Q4_0 + 1, &err) == INFER_ERR_UNSUPPORTED && fake.loads == 3);

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
    CHECK(infer__pool_create(&pool, &kernels_mem, 4, NULL, NULL, NULL, &err) == INFER_OK);
    if (x.g && pool) infer__parallel(pool, 16, kernels_race_task, &x);
    for (i = 0; i < 16; i++) CHECK(x.r[i] == INFER_OK);
    CHECK(fake.loads == 3 && fake.live[FAKE_PROGRAM] == 3);
    infer__pool_destroy(pool);
    infer__gpu_close(x.g);
    kernels_end();
}

/* A kernel that asks for shared memory gets it, or is not opened; others do not ask. */
static void kernels_shared(infer__gpu *g, int32_t kernel, int32_t id) {
    int32_t bytes = INFER__KERNELS[kernel].shared;
    void *made = NULL;
    infer_error err;
    fake.shared = 0;
    infer__error_clear(&err);
    CHECK(infer__gpu_kernel(g, g->queue, kernel, id, &made, &err) == INFER_OK && fake.shared == bytes);
    if (made) fake_kernel_close(g->queue, made);
    if (bytes == 0) return;
    fake.fail_at = fake.calls + 2;
    CHECK(infer__gpu_kernel(g, g->queue, kernel, id, &made, &err) == INFER_ERR_DEVICE && !made);
    CHECK_HAS(err.message, "fakeShared");
    CHECK(fake.live[FAKE_KERNEL] == 0);
}

/* The programs of special kinds: loaded along with the generic one where form and tier allow; that one of them cannot be
 * compiled is told, and the generic kernels are there all the same. */
static void kernels_special(int32_t module, int32_t tier, long fail_at, int want) {
    const infer__module_row *row = infer__module_at(module);
    int32_t of = INFER__KINDS[row->kind].of, k;
    infer__gpu *g = NULL;
    infer_error err;
    kernels_begin(0);
    fake.tier = tier;
    infer__error_clear(&err);
    CHECK(infer__gpu_open_in(fake_ptx_drivers, &g, &kernels_mem, NULL, INFER_CUDA, -1, NULL, &err) == INFER_OK);
    if (row->kind == INFER__MODULE_LATENT) { /* the only ones that have to be asked for */
        infer__gpu_uses uses;
        memset(&uses, 0, sizeof uses);
        uses.n_heads = 2;
        uses.heads[1].shared = 1;
        infer__gpu_want(g, &uses);
    }
    if (fail_at) fake.fail_at = fake.calls + fail_at;
    if (of == INFER__MODULE_KV) CHECK(infer__gpu_use_kv(g, row->id, &err) == INFER_OK);
    else CHECK(infer__gpu_use_type(g, infer__quant_find(row->id, NULL), &err) == INFER_OK);
    CHECK(infer__gpu_has_program(g, of, row->id));
    CHECK(infer__gpu_has_program(g, row->kind, row->id) == want);
    for (k = 0; k < INFER__KERNEL_COUNT && want; k++)
        if (INFER__KERNELS[k].kind == row->kind) kernels_shared(g, k, row->id);
    infer__gpu_close(g);
    kernels_end();
}
/* Programs that threads compile: each once, those that are kept not at all, one that fails does no harm to the others. */
static struct {
    infer__atomic builds, running, most;
    const char *kept, *refused;
    int takes;
} side;
static int side_cached(void *device, const infer__gpu_source *s, void **program) {
    infer__gpu_source whole = *s; /* whoever asks has not unpacked the text yet */
    const char *pieces[INFER__MODULE_FILES], *damaged;
    infer_error err;
    void *block;
    int32_t m = 0;
    int r;
    CHECK(s->text == NULL);
    if (!side.kept || strcmp(s->name, side.kept) != 0) return 0;
    while (strcmp(infer__module_at(m)->name, s->name) != 0) m++;
    block = infer__module_text(m, INFER__FORM_PTX, pieces, &whole.n_text, &kernels_mem, &damaged);
    whole.text = pieces;
    infer__error_clear(&err);
    r = block && fake_load(device, &whole, program, &err) == INFER_OK;
    infer__free(&kernels_mem, block);
    return r;
}
static void side_build(void *device, const infer__gpu_source *s, infer__gpu_built *b) {
    int64_t now = infer__atomic_add(&side.running, 1) + 1;
    double start = infer__seconds();
    (void)device;
    memset(b, 0, sizeof *b);
    infer__error_clear(&b->err);
    if (now > infer__atomic_get(&side.most)) infer__atomic_set(&side.most, now);
    while (infer__seconds() - start < 0.01) {}
    if (side.refused && strcmp(s->name, side.refused) == 0) b->r = infer__error(&b->err, INFER_ERR_DEVICE, "no registers left");
    infer__atomic_add(&side.builds, 1);
    infer__atomic_add(&side.running, -1);
}
static infer_result side_take(void *device, const infer__gpu_source *s, infer__gpu_built *b, void **program, infer_error *err) {
    side.takes++;
    *program = NULL;
    return b->r ? infer__error(err, b->r, "%s", b->err.message) : fake_load(device, s, program, err);
}
static char side_log[400];
static void side_logged(void *user, int level, const char *message) {
    (void)user;
    if (level <= 2) snprintf(side_log, sizeof side_log, "%s", message);
}
static void test_gpu_side_by_side(void) {
    static const char *const refused[] = {NULL, "mma_q4_k", "q4_k"};
    const infer__quant *q4 = infer__quant_find(12, NULL), *q6 = infer__quant_find(14, NULL);
    infer__driver driver = fake_ptx;
    const infer__driver *drivers[2];
    infer__report report;
    infer__gpu *g = NULL;
    infer__gpu_uses uses;
    infer_error err;
    size_t i;
    drivers[0] = &driver;
    drivers[1] = NULL;
    driver.cached = side_cached;
    driver.build = side_build;
    driver.take = side_take;
    memset(&report, 0, sizeof report);
    report.log = side_logged;
    for (i = 0; i < INFER__COUNT(refused); i++) {
        kernels_begin(0);
        fake.tier = 80;
        memset(&side, 0, sizeof side);
        memset(&uses, 0, sizeof uses);
        side_log[0] = 0;
        side.kept = "q6_k";
        side.refused = refused[i];
        uses.types[infer__quant_index(q4)] = uses.types[infer__quant_index(q6)] = INFER__USE_MATRIX;
        uses.kv_types = 1u << INFER_KV_F16;
        CHECK(infer__gpu_open_row(drivers, &g, &kernels_mem, &report, 0, NULL, &err) == INFER_OK);
        infer__gpu_use_all(g, &uses);
        CHECK(side.takes == infer__atomic_get(&side.builds) && side.takes >= 4); /* base, cache, q4_k and the special ones */
        CHECK(infer__cores() == 1 || infer__atomic_get(&side.most) > 1);
        CHECK(infer__gpu_has_program(g, INFER__MODULE_BASE, 0) && infer__gpu_has_program(g, INFER__MODULE_KV, INFER_KV_F16));
        CHECK(infer__gpu_has_program(g, INFER__MODULE_TYPE, q6->id));
        CHECK(infer__gpu_has_program(g, INFER__MODULE_TYPE, q4->id) == (i != 2));
        CHECK(infer__gpu_has_program(g, INFER__MODULE_MMA, q4->id) == (i != 1));
        if (i == 1) CHECK_HAS(side_log, "mma_q4_k: no registers left; going on without them");
        else CHECK_STR(side_log, ""); /* whoever needs a generic one asks again, and is told */
        side.takes = 0;
        side.refused = NULL;
        infer__gpu_use_all(g, &uses);
        CHECK(side.takes == (i > 0)); /* nothing is compiled twice */
        infer__gpu_close(g);
        kernels_end();
    }
}

static void test_gpu_special(void) {
    infer__gpu *g = NULL;
    infer_error err;
    int32_t i, k, before;
    for (i = 0; i < INFER__MODULE_COUNT; i += check_every(7)) {
        const infer__module_row *row = infer__module_at(i);
        const infer__kind_row *kind = &INFER__KINDS[row->kind];
        check_detail = row->name;
        if (row->kind < INFER__MODULE_SPECIAL) continue;
        CHECK(kind->tier > 0 && kind->of < INFER__MODULE_SPECIAL && infer__gpu_module(kind->of, row->id) >= 0);
        if (kind->form != INFER__FORM_PTX) continue;
        for (before = 1, k = 0; k < i; k++) /* special programs that come before it: their compilation is a call each */
            before += infer__module_at(k)->kind >= INFER__MODULE_SPECIAL && infer__module_at(k)->id == row->id &&
                      (infer__module_at(k)->kind != INFER__MODULE_LATENT || row->kind == INFER__MODULE_LATENT) &&
                      INFER__KINDS[infer__module_at(k)->kind].of == kind->of &&
                      INFER__KINDS[infer__module_at(k)->kind].tier <= kind->tier;
        kernels_special(i, kind->tier, 0, 1);
        kernels_special(i, kind->tier + 10, 0, !kind->exact);
        kernels_special(i, kind->tier - 1, 0, 0);
        kernels_special(i, kind->tier, 1 + before, 0);
    }
    kernels_begin(0); /* an API of sources has none of them */
    fake.tier = 90;
    CHECK(kernels_gpu(&g, INFER_OPENCL, -1, &err) == INFER_OK);
    for (i = 0; i < INFER__MODULE_COUNT; i++) {
        const infer__module_row *row = infer__module_at(i);
        if (row->kind == INFER__MODULE_KV) CHECK(infer__gpu_use_kv(g, row->id, &err) == INFER_OK);
        if (row->kind == INFER__MODULE_TYPE)
            CHECK(infer__gpu_use_type(g, infer__quant_find(row->id, NULL), &err) == INFER_OK);
    }
    for (i = 0; i < INFER__MODULE_COUNT; i++)
        CHECK(infer__gpu_has_program(g, infer__module_at(i)->kind, infer__module_at(i)->id) ==
              (infer__module_at(i)->kind < INFER__MODULE_SPECIAL));
    infer__gpu_close(g);
    kernels_end();
}

static void suite_gpu_kernels(void) {
    RUN(test_gpu_text_format);
    RUN(test_gpu_text_refused);
    RUN(test_gpu_texts);
    RUN(test_gpu_ptx);
    RUN(test_gpu_ptx_names);
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
    RUN(test_gpu_special);
    RUN(test_gpu_side_by_side);
}

#endif
