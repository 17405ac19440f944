/* bench_gpu.c: what a GPU does: bandwidth, products of each storage type, attention; by the device's own clock.
 *
 *   cc -O2 -Itests -DINFER_QUIET tests/bench_gpu.c -o build/bench_gpu -lm -lpthread -ldl && build/bench_gpu cuda
 *
 *   bench_gpu BACKEND [all | none | attention | TYPE,TYPE...] [rounds]
 *                                      BACKEND: cuda hip metal opencl; TYPE: as in files, Q4_K; none: the limits alone
 *
 * First the limits that are measured in the same run: bytes per second of a copy within the device (read and written
 * bytes both count), and on CUDA devices with tensor cores the rate of mma.sync m16n8k16 (F16 in, F32 out) from
 * registers, with capability 9.0 also of wgmma m64n256k16 from shared memory. Then, per type and shape of an 8B model,
 * the median of `rounds` runs of one product: microseconds, GB/s of weights, share of the copy's bandwidth; Tflop/s and
 * share of the largest matrix rate. Where there are products by wgmma a prompt's comes a second time, by mma.sync.
 * Weights are random bytes, a different matrix in every run, so that no cache holds them: 64 MB at least lie between
 * two uses.
 *
 * Last, with "attention" alone: the attention of one layer of an 8B model (32 heads of 128 values, 8 of keys), 1 to
 * 512 rows behind 0 to 32768 positions: microseconds of a layer; Gflop/s of what the rows see, share of the matrix
 * rate; the cache's bytes that they see, counted once, by the time. BENCH_KV: the cache's type, f16 f32 bf16 q8_0 q4_0. */
#define INFER_IMPLEMENTATION
#include "../src/infer_all.c"

#include <stdio.h>
#include <stdlib.h>

typedef struct shape { const char *name; int32_t rows, cols; } shape;
static const shape SHAPES[] = { { "q, o", 4096, 4096 }, { "k, v", 1024, 4096 }, { "gate, up", 14336, 4096 },
                                { "down", 4096, 14336 }, { "head", 128256, 4096 } };
static const int32_t BATCHES[] = { 1, 2, 4, 8, 16, 128, 512 };
enum { SPREAD = 256 << 20, ROUNDS_MAX = 101 };

static infer__mem mem;
static infer__gpu *gpu;
static infer__ctx ctx;
static double copy_rate, matrix_rate;

static int die(const char *what, const char *why) {
    fprintf(stderr, "bench_gpu: %s: %s\n", what, why);
    return 1;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

/* Seconds of the ops since the last call, by the device's clock where it has one. */
static double seconds_since(void) {
    double sum = 0;
    int i;
    ctx.ops->sync(&ctx);
    for (i = 0; i < INFER__PROFILE_OPS; i++) sum += ctx.profile[i].seconds;
    memset(ctx.profile, 0, sizeof ctx.profile);
    return sum;
}

/* ---- limits ---------------------------------------------------------------------------------------------------- */

static int measure_copy(void) {
    const infer__driver *d = infer__gpu_driver(gpu);
    infer_error err;
    infer__buf a, b;
    double best = 0, start, t;
    int i, k;
    infer__error_clear(&err);
    if (infer__gpu_alloc(gpu, &a, SPREAD, &err) || infer__gpu_alloc(gpu, &b, SPREAD, &err)) return die("copy", err.message);
    for (i = 0; i < 12; i++) {
        if (d->sync(ctx.run->queue, &err)) return die("copy", err.message);
        start = infer__seconds();
        for (k = 0; k < 8; k++)
            if (d->copy(ctx.run->queue, b.handle, 0, a.handle, 0, SPREAD, &err)) return die("copy", err.message);
        if (d->sync(ctx.run->queue, &err)) return die("copy", err.message);
        t = infer__seconds() - start;
        if (8.0 * 2 * SPREAD / t > best) best = 8.0 * 2 * SPREAD / t;
    }
    copy_rate = best;
    infer__gpu_free(gpu, &a);
    infer__gpu_free(gpu, &b);
    printf("copy within the device     %10.1f GB/s\n", copy_rate * 1e-9);
    return 0;
}

/* A kernel k_peak(float *y, uint n) in PTX, that goes n times through what a rate is measured of. */
typedef struct peak {
    char text[16384];
    size_t at;
    double flops; /* of a warp each time */
} peak;
#define PUT(...) p->at += (size_t)snprintf(p->text + p->at, sizeof p->text - p->at, __VA_ARGS__)

static void peak_begin(peak *p, const char *target, int sums) {
    int i;
    p->at = 0;
    PUT("%s\n.address_size 64\n.visible .entry k_peak(.param .u64 y, .param .align 4 .b8 a[16])\n{\n", target);
    PUT(".reg .pred %%p;\n.reg .b32 %%r<8>;\n.reg .f32 %%f<%d>;\n.reg .b64 %%q<4>;\nld.param.u32 %%r0, [a];\n"
        "mov.u32 %%r1, 0;\nmov.u32 %%r2, 1006648320;\n", sums);
    for (i = 0; i < sums; i++) PUT("mov.f32 %%f%d, 0f00000000;\n", i);
}
static void peak_end(peak *p, int sums) {
    int i;
    for (i = 1; i < sums; i++) PUT("add.f32 %%f0, %%f0, %%f%d;\n", i);
    PUT("ld.param.u64 %%q0, [y];\nst.global.f32 [%%q0], %%f0;\nret;\n}\n");
}
static void peak_loop(peak *p) { PUT("add.u32 %%r1, %%r1, 1;\nsetp.lt.u32 %%p, %%r1, %%r0;\n@%%p bra again;\n"); }

/* 16 independent chains of mma.sync per warp. */
static void peak_mma(peak *p) {
    int i;
    peak_begin(p, ".version 7.0\n.target sm_80", 64);
    PUT("again:\n");
    for (i = 0; i < 16; i++)
        PUT("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%%f%d,%%f%d,%%f%d,%%f%d}, {%%r2,%%r2,%%r2,%%r2}, "
            "{%%r2,%%r2}, {%%f%d,%%f%d,%%f%d,%%f%d};\n", 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i, 4 * i + 1, 4 * i + 2,
            4 * i + 3);
    peak_loop(p);
    peak_end(p, 64);
    p->flops = 16 * 2.0 * 16 * 8 * 16;
}

/* wgmma, 64 columns of 64 x 256 from 40 KB of zeros, over and over. */
static void peak_wgmma(peak *p) {
    int i, k;
    peak_begin(p, ".version 8.0\n.target sm_90a", 128);
    PUT(".shared .align 1024 .b8 s[40960];\nmov.u32 %%r3, s;\nmov.u32 %%r4, %%tid.x;\nshl.b32 %%r4, %%r4, 2;\n"
        "add.u32 %%r5, %%r3, %%r4;\nadd.u32 %%r6, %%r3, 40960;\nmov.u32 %%r7, 0;\nzero:\nst.shared.u32 [%%r5], %%r7;\n"
        "add.u32 %%r5, %%r5, 512;\nsetp.lt.u32 %%p, %%r5, %%r6;\n@%%p bra zero;\nfence.proxy.async.shared::cta;\n"
        "bar.sync 0;\nshr.u32 %%r3, %%r3, 4;\ncvt.u64.u32 %%q1, %%r3;\nor.b64 %%q1, %%q1, 0x4000004000010000;\n"
        "add.s64 %%q2, %%q1, 512;\n" /* 8 KB on: the 256 rows */
        "again:\nwgmma.fence.sync.aligned;\n");
    for (k = 0; k < 4; k++) {
        PUT("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {");
        for (i = 0; i < 128; i++) PUT("%s%%f%d", i ? "," : "", i);
        PUT("}, %%q1, %%q2, 1, 1, 1, 0, 0;\n");
    }
    PUT("wgmma.commit_group.sync.aligned;\n");
    peak_loop(p);
    PUT("wgmma.wait_group.sync.aligned 0;\n");
    peak_end(p, 128);
    p->flops = 2.0 * 16 * 256 * 64;
}
#undef PUT

/* The best of some runs into *rate. */
static int measure_peak(const peak *p, const char *name, double *rate) {
    enum { GROUPS = 132 * 16, LOOPS = 4096, GROUP = 128 };
    const infer__driver *d = infer__gpu_driver(gpu);
    uint32_t groups[3] = { GROUPS, 1, 1 }, args[4] = { LOOPS, 0, 0, 0 };
    const char *pieces[1];
    infer__gpu_source source;
    infer_error err;
    infer__buf y;
    void *program, *kernel;
    double start, done;
    int i;
    infer__error_clear(&err);
    memset(&source, 0, sizeof source);
    pieces[0] = p->text;
    source.text = pieces;
    source.n_text = 1;
    source.name = "peak";
    *rate = 0;
    if (d->load(infer__gpu_device(gpu), &source, &program, &err)) return die(name, err.message);
    if (d->kernel_open(&kernel, ctx.run->queue, program, "k_peak", GROUP, &err)) return die(name, err.message);
    if (infer__gpu_alloc(gpu, &y, 256, &err)) return die(name, err.message);
    for (i = 0; i < 6; i++) {
        if (d->sync(ctx.run->queue, &err)) return die(name, err.message);
        start = infer__seconds();
        if (d->launch(ctx.run->queue, kernel, groups, GROUP, &y.handle, 1, args, sizeof args, &err) ||
            d->sync(ctx.run->queue, &err))
            return die(name, err.message);
        done = p->flops * LOOPS * GROUPS * (GROUP / 32) / (infer__seconds() - start);
        *rate = INFER__MAX(*rate, done);
    }
    infer__gpu_free(gpu, &y);
    d->kernel_close(ctx.run->queue, kernel);
    d->unload(infer__gpu_device(gpu), program);
    printf("%-26s %10.1f Tflop/s\n", name, *rate * 1e-12);
    return 0;
}

static int measure_matrices(void) {
    static peak p;
    const infer__driver *d = infer__gpu_driver(gpu);
    int32_t tier = d->form == INFER__FORM_PTX && d->tier ? d->tier(infer__gpu_device(gpu)) : 0;
    double other = 0;
    if (tier < 80) return 0;
    peak_mma(&p);
    if (measure_peak(&p, "mma.sync F16, F32 sums", &matrix_rate)) return 1;
    if (tier != 90) return 0;
    peak_wgmma(&p);
    if (measure_peak(&p, "wgmma F16, F32 sums", &other)) return 1;
    matrix_rate = INFER__MAX(matrix_rate, other);
    return 0;
}

/* ---- products --------------------------------------------------------------------------------------------------- */

static infer__tensor rows_of(infer__buf *b, int32_t rows, int32_t cols) {
    infer__tensor t;
    t.buf = b;
    t.offset = 0;
    t.rows = rows;
    t.cols = t.stride = cols;
    return t;
}

/* Every value of a block is small: random bytes would be infinite scales, which some units take longer for. */
static void fill(uint8_t *p, size_t n) {
    uint64_t s = 88172645463325252u;
    size_t i;
    for (i = 0; i < n; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        p[i] = (uint8_t)(s & 0x2f);
    }
}

static int one_product(const infer__quant *q, const shape *s, int32_t n, const infer__buf *weights, infer__buf *x,
                       infer__buf *y, int rounds, const char *note) {
    uint64_t row_bytes = (uint64_t)(s->cols / q->values) * q->bytes, bytes = row_bytes * (uint64_t)s->rows, at = 0;
    infer__matmul_args a;
    infer__weight w;
    double seconds[ROUNDS_MAX], t;
    int i;
    memset(&a, 0, sizeof a);
    memset(&w, 0, sizeof w);
    w.type = q;
    w.buf = weights;
    w.rows = s->rows;
    w.cols = s->cols;
    w.row_bytes = row_bytes;
    w.name = "bench";
    a.x = rows_of(x, n, s->cols);
    a.y[0] = rows_of(y, n, s->rows);
    a.w[0] = &w;
    a.n_w = 1;
    for (i = -2; i < rounds; i++) {
        if (at + bytes > weights->bytes) at = 0;
        w.offset = at;
        at += (bytes + 255) / 256 * 256;
        ctx.pass.n_rows = n;
        ctx.ops->matmul(&ctx, &a);
        t = seconds_since();
        if (!infer__ok(&ctx)) return die(q->name, ctx.error.message);
        if (i >= 0) seconds[i] = t;
    }
    t = median(seconds, rounds);
    printf("%-8s %-9s %7d x %-6d %4d %10.1f us %8.1f GB/s %5.1f %%", q->name, s->name, (int)s->rows, (int)s->cols, (int)n,
           t * 1e6, (double)bytes / t * 1e-9, 100 * (double)bytes / t / copy_rate);
    printf(" %8.1f Tflop/s", 2.0 * s->rows * s->cols * n / t * 1e-12);
    if (matrix_rate > 0) printf(" %5.1f %%", 100 * 2.0 * s->rows * s->cols * n / t / matrix_rate);
    printf("%s\n", note);
    fflush(stdout);
    return 0;
}

static int products(const infer__quant *q, int rounds) {
    infer_error err;
    infer__buf weights, x, y;
    uint8_t *host = (uint8_t *)malloc(SPREAD);
    uint64_t at, most = 4ull * SPREAD;
    infer__gpu_set *wgmma = infer__gpu_find(ctx.run, INFER__MODULE_WGMMA, q->id);
    size_t i, k;
    int bad = host == NULL;
    if (bad) return die("memory", "none");
    infer__error_clear(&err);
    fill(host, SPREAD);
    if (infer__gpu_use_type(gpu, q, &err) || infer__gpu_alloc(gpu, &weights, most, &err) ||
        infer__gpu_alloc(gpu, &x, 512ull * 14336 * 4, &err) || infer__gpu_alloc(gpu, &y, 512ull * 128256 * 4, &err))
        bad = die(q->name, err.message);
    for (at = 0; !bad && at < most; at += SPREAD) ctx.ops->upload(&ctx, &weights, at, host, SPREAD);
    if (!bad) ctx.ops->upload(&ctx, &x, 0, host, INFER__MIN(x.bytes, SPREAD));
    ctx.ops->sync(&ctx);
    memset(ctx.profile, 0, sizeof ctx.profile);
    for (i = 0; i < INFER__COUNT(SHAPES) && !bad; i++)
        for (k = 0; k < INFER__COUNT(BATCHES) && !bad; k++) {
            if (BATCHES[k] > 8 && SHAPES[i].rows > 100000) continue; /* prompts need one row of logits */
            if (infer__gpu_has_type(q)) bad = one_product(q, &SHAPES[i], BATCHES[k], &weights, &x, &y, rounds, "");
            if (bad || !wgmma || BATCHES[k] <= 8) continue;
            wgmma->id = -1; /* it is not there */
            bad = one_product(q, &SHAPES[i], BATCHES[k], &weights, &x, &y, rounds, " (mma.sync)");
            wgmma->id = q->id;
        }
    infer__gpu_free(gpu, &weights);
    infer__gpu_free(gpu, &x);
    infer__gpu_free(gpu, &y);
    free(host);
    return bad;
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

enum { HEADS = 32, HEADS_KV = 8, DIM = 128, DEEPEST = 32768, MOST_ROWS = 512 };
enum { CACHE_PAGES = (DEEPEST + MOST_ROWS) / INFER__PAGE, COPIES = 4 /* what a run reads is gone from L2 */ };
enum { BLOCK = 4 * MOST_ROWS + 2 + 2 * CACHE_PAGES };
static const int32_t ATT_ROWS[] = { 1, 2, 8, 16, 64, 128, 512 }, ATT_DEPTHS[] = { 0, 4096, DEEPEST };
static const char *const KV_NAMES[] = { "", "f32", "f16", "bf16", "q8_0", "q4_0" };

static int one_attention(infer__kv_buf *k, infer__kv_buf *v, infer__buf *q, infer__buf *y, int32_t rows, int32_t depth,
                         int rounds) {
    infer__attention_args a;
    double seconds[ROUNDS_MAX], t, seen = 0, bytes;
    int32_t i, j, pages = (depth + rows + INFER__PAGE - 1) / INFER__PAGE;
    memset(&a, 0, sizeof a);
    a.q = rows_of(q, rows, HEADS * DIM);
    a.y = rows_of(y, rows, HEADS * DIM);
    a.k_cache = k;
    a.v_cache = v;
    a.n_head = HEADS;
    a.n_head_kv = HEADS_KV;
    a.dim_k = a.dim_v = DIM;
    a.scale = 0.088388348f;
    ctx.pass.n_rows = rows;
    for (i = 0; i < rows; i++) {
        ctx.pass.pos[i] = depth + i;
        ctx.pass.seq[i] = 0;
        seen += depth + i + 1;
    }
    for (i = -2; i < rounds; i++) {
        for (j = 0; j < pages; j++) ctx.pass.pages[0][j] = (i + 2) % COPIES * CACHE_PAGES + j;
        ctx.ops->begin(&ctx);
        ctx.ops->attention(&ctx, &a);
        t = seconds_since();
        if (!infer__ok(&ctx)) return die("attention", ctx.error.message);
        if (i >= 0) seconds[i] = t;
    }
    t = median(seconds, rounds);
    bytes = 2.0 * HEADS_KV * (double)infer__kv_bytes(k->type, DIM) * (depth + rows);
    printf("attention %-5s %5d rows behind %6d %10.1f us %9.1f Gflop/s", KV_NAMES[k->type], (int)rows, (int)depth,
           t * 1e6, 4.0 * HEADS * DIM * seen / t * 1e-9);
    if (matrix_rate > 0) printf(" %5.1f %%", 100 * 4.0 * HEADS * DIM * seen / t / matrix_rate);
    printf(" %8.1f GB/s of cache %5.1f %%\n", bytes / t * 1e-9, 100 * bytes / t / copy_rate);
    fflush(stdout);
    return 0;
}

static int attentions(int rounds) {
    uint64_t bytes = (uint64_t)COPIES * CACHE_PAGES * INFER__PAGE * HEADS_KV * infer__kv_bytes(ctx.kv_type, DIM);
    float *host = (float *)malloc((size_t)bytes);
    infer__kv_buf k, v;
    infer__buf q, y;
    infer_error err;
    uint64_t i, n = (uint64_t)MOST_ROWS * HEADS * DIM, s = 88172645463325252u;
    int bad = 0, d, r;
    if (!host) return die("memory", "none");
    infer__error_clear(&err);
    k.type = v.type = ctx.kv_type;
    if (infer__gpu_alloc(gpu, &k.buf, bytes, &err) || infer__gpu_alloc(gpu, &v.buf, bytes, &err) ||
        infer__gpu_alloc(gpu, &q, n * sizeof *host, &err) || infer__gpu_alloc(gpu, &y, n * sizeof *host, &err)) {
        free(host);
        return die("attention", err.message);
    }
    fill((uint8_t *)host, (size_t)bytes);
    ctx.ops->upload(&ctx, &k.buf, 0, host, bytes);
    ctx.ops->upload(&ctx, &v.buf, 0, host, bytes);
    ctx.ops->sync(&ctx);
    for (i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        host[i] = (float)(int32_t)(s >> 32) * 4.6566129e-10f;
    }
    ctx.ops->upload(&ctx, &q, 0, host, n * sizeof *host);
    ctx.ops->sync(&ctx);
    memset(ctx.profile, 0, sizeof ctx.profile);
    for (d = 0; d < (int)INFER__COUNT(ATT_DEPTHS) && !bad; d++)
        for (r = 0; r < (int)INFER__COUNT(ATT_ROWS) && !bad; r++)
            bad = one_attention(&k, &v, &q, &y, ATT_ROWS[r], ATT_DEPTHS[d], rounds);
    infer__gpu_free(gpu, &k.buf);
    infer__gpu_free(gpu, &v.buf);
    infer__gpu_free(gpu, &q);
    infer__gpu_free(gpu, &y);
    free(host);
    return bad;
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static int wanted(const char *list, const char *name) {
    size_t n = strlen(name);
    const char *s;
    if (strcmp(list, "all") == 0) return 1;
    for (s = list; (s = strstr(s, name)) != NULL; s += n)
        if ((s == list || s[-1] == ',') && (s[n] == 0 || s[n] == ',')) return 1;
    return 0;
}

/* A context whose ops run on the device; all types must have been compiled before. */
static int begin(const char *types) {
    static int32_t block[BLOCK];
    const char *kv = getenv("BENCH_KV");
    const infer__quant *q;
    infer_error err;
    infer__needs need;
    int32_t i;
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++)
        if (wanted(types, q->name) && infer__gpu_has_type(q) && infer__gpu_use_type(gpu, q, &err))
            return die(q->name, err.message);
    memset(&ctx, 0, sizeof ctx);
    ctx.ops = &infer__gpu_ops;
    ctx.mem = &mem;
    ctx.gpu = gpu;
    ctx.kv_type = INFER_KV_F16;
    for (i = INFER_KV_F32; kv && i <= INFER_KV_Q4_0; i++)
        if (strcmp(kv, KV_NAMES[i]) == 0) ctx.kv_type = i;
    if (infer__gpu_use_kv(gpu, ctx.kv_type, &err)) return die("cache", err.message);
    ctx.profiling = 1;
    memset(&need, 0, sizeof need);
    need.rows = 512; /* so that products round x, as those of models do */
    need.cols = 14336;
    need.cells = DEEPEST + MOST_ROWS;
    infer__need_attention(&need, HEADS, DIM, DIM);
    need.block_len = BLOCK;
    ctx.pass.n_rows = MOST_ROWS;
    ctx.pass.n_seq = 1;
    ctx.pass.n_out = 1;
    ctx.pass.max_pages = CACHE_PAGES;
    ctx.pass.block = block;
    ctx.pass.block_len = BLOCK;
    ctx.pass.ids = block;
    ctx.pass.pos = ctx.pass.ids + MOST_ROWS;
    ctx.pass.seq = ctx.pass.pos + MOST_ROWS;
    ctx.pass.out = ctx.pass.seq + MOST_ROWS;
    ctx.pass.extended = ctx.pass.out + MOST_ROWS;
    ctx.pass.pages[0] = ctx.pass.extended + 1;
    ctx.pass.pages[1] = ctx.pass.pages[0] + CACHE_PAGES;
    if (!ctx.ops->prepare(&ctx, &need)) return die("context", ctx.error.message);
    ctx.pass.n_rows = 1;
    ctx.ops->begin(&ctx);
    return infer__ok(&ctx) ? 0 : die("context", ctx.error.message);
}

int main(int argc, char **argv) {
    static const infer__report report;
    const char *types = argc > 2 ? argv[2] : "F16,Q8_0,Q4_K,Q6_K,Q4_0";
    int rounds = argc > 3 ? atoi(argv[3]) : 21, bad;
    const infer__quant *q;
    infer_error err;
    int32_t backend = INFER_CUDA, i;
    if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX) return die("usage", "bench_gpu BACKEND [TYPES] [rounds, at most 101]");
    while (backend <= INFER_METAL && strcmp(infer__backend_name(backend), argv[1]) != 0) backend++;
    infer__mem_init(&mem, NULL, 0);
    infer__error_clear(&err);
    if (infer__gpu_open(&gpu, &mem, &report, backend, -1, NULL, &err)) return die(argv[1], err.message);
    printf("%s, %s\n", infer__gpu_name(gpu), infer__gpu_driver(gpu)->timing ? "the device's clock" : "the host's clock");
    bad = begin(types) || measure_copy() || measure_matrices();
    for (i = 0; !bad && (q = infer__quant_row(i)) != NULL; i++)
        if (wanted(types, q->name) && infer__gpu_has_type(q)) bad = products(q, rounds);
    if (!bad && strcmp(types, "none") != 0) bad = attentions(rounds);
    if (ctx.ops) ctx.ops->finish(&ctx);
    infer__gpu_close(gpu);
    return bad;
}
