/* test_gpu_ops.c: the op vtable of GPUs, on every device that is there: each op against the CPU's on the same inputs,
 * counters, limits, profile; without a device: how a pass is packed, and what happens when calls of an API fail.
 * Comes after test_ops.c, whose helpers it uses. With CHECK_EMULATED the sizes are small: for devices that interpret.
 *
 * Tolerance: a GPU adds in another order than the CPU and fuses other products, so a sum differs by a few roundings
 * (6e-8) of the size of its terms, and its exp, tanh, erf, sine by a few of theirs. 2e-6 * size is room for that; a
 * term that is missing, taken twice or of another row is 1e-3 * size and more. */
#define GPU_TOLERANCE 2e-6
static const int32_t gpu_sizes[] = {1, 3, 31, 32, 33, 63, 64, 65, 257, 1000};
static int gpu_small(void) { return getenv("CHECK_EMULATED") != NULL; }

/* ---- devices, opened once for all tests -------------------------------------------------------------------------- */

enum { GPU_DEVICES = 8 };
static infer__gpu *gpu_opened[GPU_DEVICES];
static int gpu_n_opened, gpu_started;
static infer__mem gpu_mem;
static const infer__report gpu_report;

/* Under oclgrind 21.10 buffers stay until the end: it gives the number of one that was released to the next, but what it
 * notes about written bytes keeps the length of the old one, and kernels' writes beyond that do not count. */
static infer__driver gpu_keeping;

static void gpu_keep(void *device, uint64_t handle) {
    (void)device;
    (void)handle;
}

static int gpu_devices(void) {
    const char *only = getenv("CHECK_BACKEND"); /* NULL: the devices of every API */
    infer_device_info info;
    infer_error err;
    int32_t i;
    if (gpu_started) return gpu_n_opened;
    gpu_started = 1;
    infer__mem_init(&gpu_mem, NULL, 0);
    for (i = 0; i < infer__gpu_count() && gpu_n_opened < GPU_DEVICES; i++) {
        infer__gpu **g = &gpu_opened[gpu_n_opened];
        infer__gpu_info(i, &info);
        if (!info.usable || (only && strcmp(infer__backend_name(info.backend), only) != 0)) continue;
        if (infer__gpu_open(g, &gpu_mem, &gpu_report, info.backend, i, NULL, &err)) {
            CHECK_STR(err.message, "");
            continue;
        }
        gpu_n_opened++;
        infer__atomic_set(&(*g)->latent, 1);
        if (strstr(infer__gpu_name(*g), "Oclgrind")) {
            gpu_keeping = *(*g)->driver;
            gpu_keeping.release = gpu_keep;
            (*g)->driver = &gpu_keeping;
        }
    }
    return gpu_n_opened;
}
#define GPU_NEED() do { if (!gpu_devices()) SKIP("no OpenCL device"); } while (0)

static void gpu_close_all(void) {
    while (gpu_n_opened > 0) infer__gpu_close(gpu_opened[--gpu_n_opened]);
    if (gpu_started && infer__atomic_get(&gpu_mem.used) != 0) {
        fprintf(stderr, "FAILED gpu_ops: devices leak %lld bytes\n", (long long)infer__atomic_get(&gpu_mem.used));
        check_failed++;
    }
}

static infer__needs gpu_needs; /* of the contexts that are opened, besides products of 64 rows */

/* A context on the CPU and one on a device, with the same pass. */
typedef struct gpu_pair {
    infer__ctx cpu, gpu;
    int32_t *block;
    int64_t used; /* memory before */
} gpu_pair;

/* A pass of at most `rows` rows, one sequence or more of `pages` pages; it begins as rows 0.. of sequence 0 with no
 * pages, all of them wanted. */
static void gpu_pass(infer__ctx *c, int32_t *block, int32_t rows, int32_t n_seq, int32_t pages) {
    infer__pass *p = &c->pass;
    int32_t i;
    p->n_rows = p->n_out = rows;
    p->n_seq = n_seq;
    p->max_pages = pages;
    p->block = block;
    p->block_len = 4 * (int64_t)rows + (int64_t)n_seq * (1 + 2 * pages);
    p->ids = block;
    p->pos = p->ids + rows;
    p->seq = p->pos + rows;
    p->out = p->seq + rows;
    p->extended = p->out + rows;
    p->pages[0] = p->extended + n_seq;
    p->pages[1] = p->pages[0] + n_seq * pages;
    for (i = 0; i < 2 * n_seq * pages; i++) p->pages[0][i] = -1;
    for (i = 0; i < rows; i++) p->out[i] = i;
}

static int gpu_rounded; /* 1: products round their input to 8 bits, on both, where they can */
static int gpu_halves; /* 1: the device, not the CPU, may take attention's operands as halves; 2: as BF16 */
static void gpu_pair_vectors(gpu_pair *p, int device, int32_t kv_type, int32_t rows, int32_t n_seq, int32_t pages) {
    infer_error err;
    infer__needs n = gpu_needs;
    ops_open(&p->cpu, 2, gpu_rounded ? 0 : infer__cpu_found(), 4096);
    p->cpu.exact = !gpu_rounded;
    p->block = (int32_t *)calloc((size_t)(4 * rows + n_seq * (1 + 2 * pages)), sizeof *p->block);
    gpu_pass(&p->cpu, p->block, rows, n_seq, pages);
    memset(&p->gpu, 0, sizeof p->gpu);
    CHECK(infer__gpu_use_kv(gpu_opened[device], kv_type, &err) == INFER_OK); /* a program stays: a driver may keep it */
    p->used = infer__atomic_get(&gpu_mem.used);
    p->gpu.ops = &infer__gpu_ops;
    p->gpu.mem = &gpu_mem;
    p->gpu.gpu = gpu_opened[device];
    p->gpu.kv_type = kv_type;
    p->gpu.pass = p->cpu.pass;
    p->gpu.exact = !gpu_rounded && !gpu_halves;
    n.exact = !gpu_rounded;
    n.rows = INFER__MAX(n.rows, 64);
    n.cols = 4096;
    n.block_len = (uint64_t)p->gpu.pass.block_len + 3 * (uint64_t)rows + INFER__MAX_HEAD_DIM / 2; /* with axes */
    CHECK(p->gpu.ops->prepare(&p->gpu, &n));
    CHECK_STR(p->gpu.error.message, "");
}

/* With the programs of all types of weights, which a driver's double may take minutes to compile; gpu_pair_vectors has
 * vectors alone. */
static void gpu_pair_open(gpu_pair *p, int device, int32_t kv_type, int32_t rows, int32_t n_seq, int32_t pages) {
    const infer__quant *q;
    infer_error err;
    int32_t i;
    for (i = 0; (q = infer__quant_row(i)) != NULL; i++)
        if (infer__gpu_has_type(q) && infer__gpu_use_type(gpu_opened[device], q, &err)) CHECK_STR(err.message, "");
    gpu_pair_vectors(p, device, kv_type, rows, n_seq, pages);
}

static void gpu_pair_close(gpu_pair *p) {
    CHECK_STR(p->gpu.error.message, "");
    p->gpu.ops->finish(&p->gpu);
    CHECK(p->gpu.run == NULL);
    CHECK(infer__atomic_get(&gpu_mem.used) == p->used);
    ops_close(&p->cpu);
    free(p->block);
}

static void gpu_begin(gpu_pair *p) {
    p->gpu.pass = p->cpu.pass;
    p->cpu.ops->begin(&p->cpu);
    p->gpu.ops->begin(&p->gpu);
}

/* ---- tensors and weights of both --------------------------------------------------------------------------------- */

typedef struct gpu_tensor {
    infer__buf on_cpu, on_gpu;
    infer__tensor cpu, gpu;
} gpu_tensor;

static void gpu_send(gpu_pair *p, gpu_tensor *t) {
    p->gpu.ops->upload(&p->gpu, &t->on_gpu, 0, t->on_cpu.host, t->on_cpu.bytes);
    p->gpu.ops->sync(&p->gpu);
}

/* Random rows, `pad` floats between them, `first` floats into a buffer that ends where they end. */
static void gpu_make(gpu_pair *p, gpu_tensor *t, int32_t rows, int32_t cols, int32_t pad, int32_t first) {
    size_t n = (size_t)first + (size_t)(rows - 1) * (size_t)(cols + pad) + (size_t)cols;
    memset(t, 0, sizeof *t);
    t->on_cpu.host = ops_floats(n);
    t->on_cpu.bytes = n * sizeof(float);
    t->cpu.buf = &t->on_cpu;
    t->cpu.offset = (uint64_t)first * sizeof(float);
    t->cpu.rows = rows;
    t->cpu.cols = cols;
    t->cpu.stride = cols + pad;
    t->gpu = t->cpu;
    t->gpu.buf = &t->on_gpu;
    CHECK(p->gpu.ops->alloc(&p->gpu, &t->on_gpu, t->on_cpu.bytes));
    gpu_send(p, t);
}

static void gpu_drop(gpu_pair *p, gpu_tensor *t) {
    p->gpu.ops->release(&p->gpu, &t->on_gpu);
    free(t->on_cpu.host);
}

/* What the device has in a buffer; free it. */
static void *gpu_fetch(gpu_pair *p, const infer__buf *b) {
    void *z = malloc((size_t)b->bytes);
    memset(z, 0xff, (size_t)b->bytes); /* NaN */
    p->gpu.ops->download(&p->gpu, b, 0, z, b->bytes);
    p->gpu.ops->sync(&p->gpu);
    return z;
}

/* 1 when the kernel was launched. */
static int gpu_ran(const gpu_pair *p, int32_t kernel) { return (int)(p->gpu.run->kernels[kernel / 64] >> kernel % 64 & 1); }

/* The device's values against the CPU's: within tolerance of sizes[row * cols + col], or of `size` and the value. What
 * lies before and between the rows is as it was. */
static double gpu_tolerance(void) { return gpu_halves == 2 ? 3e-3 : gpu_halves ? 1e-3 : GPU_TOLERANCE; }

static void gpu_near(gpu_pair *p, gpu_tensor *t, double size, const double *sizes) {
    float *z = (float *)gpu_fetch(p, &t->on_gpu);
    const float *y = (const float *)t->on_cpu.host;
    int64_t n = (int64_t)(t->on_cpu.bytes / sizeof *y), first = (int64_t)(t->cpu.offset / sizeof *y), i;
    for (i = 0; i < n; i++) {
        int64_t row = (i - first) / t->cpu.stride, col = (i - first) % t->cpu.stride;
        if (i < first || col >= t->cpu.cols) CHECK(memcmp(&z[i], &y[i], sizeof *y) == 0);
        else CHECK(ops_near(z[i], y[i], sizes ? sizes[row * t->cpu.cols + col] : size + fabs(y[i]), gpu_tolerance()));
    }
    free(z);
}

/* The same bits. */
static void gpu_same(gpu_pair *p, const infer__buf *on_cpu, const infer__buf *on_gpu) {
    void *z = gpu_fetch(p, on_gpu);
    CHECK(on_cpu->bytes == on_gpu->bytes && memcmp(z, on_cpu->host, (size_t)on_cpu->bytes) == 0);
    free(z);
}

typedef struct gpu_weight {
    infer__weight w;
    infer__buf on_gpu;
    uint8_t *data;
} gpu_weight;

/* A weight of these blocks, which it owns; on the device 12 bytes into a buffer (16 where products round: as far as
 * models have them even), a vector as float32. One write for all of it: oclgrind takes only the last one for written. */
static const infer__weight *gpu_weight_of(gpu_pair *p, gpu_weight *g, const infer__quant *q, void *data, int32_t rows,
                                          int32_t cols, int vector) {
    infer_error err;
    uint64_t n = (uint64_t)rows * (uint64_t)cols, bytes, first = gpu_rounded ? 16 : 12;
    float *v = (float *)calloc(2 * (size_t)n + 4, sizeof *v); /* no type takes more than 8 bytes a value */
    char *image = (char *)v;
    memset(g, 0, sizeof *g);
    g->data = (uint8_t *)data;
    g->w = ops_weight(q, g->data, rows, cols);
    bytes = vector ? n * sizeof *v : (uint64_t)rows * g->w.row_bytes;
    if (vector) q->decode(g->data, v + first / sizeof *v, (int64_t)n);
    else memcpy(image + first, g->data, (size_t)bytes);
    CHECK(infer__gpu_alloc(p->gpu.gpu, &g->on_gpu, first + bytes, &err) == INFER_OK);
    CHECK(infer__gpu_write(p->gpu.gpu, &g->on_gpu, 0, image, first + bytes, &err) == INFER_OK);
    CHECK(infer__gpu_flush(p->gpu.gpu, &err) == INFER_OK);
    free(v);
    g->w.buf = &g->on_gpu;
    g->w.offset = first;
    return &g->w;
}
/* Random blocks. */
static const infer__weight *gpu_weight_make(gpu_pair *p, gpu_weight *g, const infer__quant *q, int32_t rows,
                                            int32_t cols, int vector) {
    return gpu_weight_of(p, g, q, ops_blocks(q, (int64_t)rows * cols, 0), rows, cols, vector);
}
static const infer__weight *gpu_vector_make(gpu_pair *p, gpu_weight *g, int type, int32_t n) {
    return gpu_weight_make(p, g, infer__quant_find(type, NULL), 1, n, 1);
}

static void gpu_weight_drop(gpu_pair *p, gpu_weight *g) {
    if (!g->data) return;
    infer__gpu_free(p->gpu.gpu, &g->on_gpu);
    free(g->data);
}

/* Sum of |w[row] x|: what the rounding of a dot product is measured by. */
static double gpu_dot_size(const infer__weight *w, int64_t row, const float *x, float *v) {
    double size = 0;
    int32_t i;
    w->type->decode((const uint8_t *)w->data + (uint64_t)row * w->row_bytes, v, w->cols);
    for (i = 0; i < w->cols; i++) size += fabs((double)v[i] * x[i]);
    return size;
}

/* ---- the values per token ---------------------------------------------------------------------------------------- */

static void test_gpu_ops_pack(void) {
    static const int32_t want[] = {15, 18, 21, 24, 18, 28, 32, 2, 36, 38, 26, 40, 46, 46, 46, /* places; pages per sequence; cells; extended; looked; source; axes */
                                   5,  -1, 7,  3,  16, 0,  0,  0,  1,   /* ids, pos, seq */
                                   1,  2,  0,  1,  20, 21, 30, -1,      /* out, extended, pages of group 0 */
                                   40, 41, 50, -1,                      /* and 1 */
                                   -1, 2,  3,  4,                       /* cells before and after */
                                   70, 71, 80, 81, 90, 91};             /* looked up, two for each row */
    enum { N = sizeof want / sizeof want[0], ROWS = 9, SEQS = 4, PAGES = 6 };
    int32_t cells_in[SEQS] = {-1, 2, 9, 9}, cells_out[SEQS] = {3, 4, 9, 9}, looked[] = {70, 71, 80, 81, 90, 91};
    int32_t block[4 * ROWS + SEQS * (1 + 2 * PAGES)], to[N + 1], i;
    infer__ctx c;
    infer__pass *p = &c.pass;
    memset(&c, 0, sizeof c);
    memset(block, 0, sizeof block);
    gpu_pass(&c, block, ROWS, SEQS, PAGES); /* room for more than is used */
    p->n_rows = 3;
    p->n_out = p->n_seq = 2;
    for (i = 0; i < 3; i++) {
        p->ids[i] = want[15 + i];
        p->pos[i] = want[18 + i]; /* 16 is on the second page */
        p->seq[i] = want[21 + i];
    }
    p->out[0] = 1;
    p->out[1] = 2;
    p->extended[1] = 1;
    p->pages[0][0] = 20;
    p->pages[0][1] = 21;
    p->pages[0][2] = 22; /* not reached by this pass */
    p->pages[0][PAGES] = 30;
    p->pages[1][0] = 40;
    p->pages[1][1] = 41;
    p->pages[1][PAGES] = 50;
    p->cell_in = cells_in;
    p->cell_out = cells_out;
    p->looked = looked;
    p->looks = 2;
    CHECK(infer__gpu_pages(p) == 2 && infer__gpu_pass_len(p) == N);
    to[N] = 12345;
    infer__gpu_pack(p, to);
    for (i = 0; i < N; i++) CHECK(to[i] == want[i]);
    CHECK(to[N] == 12345);
    p->pos[1] = 15;
    p->n_out = 0;
    p->cell_in = p->cell_out = NULL; /* a model without recurrent layers */
    p->looks = 0;
    CHECK(infer__gpu_pages(p) == 1 && infer__gpu_pass_len(p) == 15 + 9 + 2 + 4);
    infer__gpu_pack(p, to);
    CHECK(to[3] == 24 && to[10] == 24 && to[4] == to[1] && to[5] == 26 && to[6] == 28 && to[7] == 1 && to[26] == 20 && to[27] == 30);
    cells_in[0] = 17; /* where rows end seeing */
    cells_in[1] = 16;
    cells_in[2] = 8;
    p->end = cells_in;
    CHECK(infer__gpu_pages(p) == 2 && infer__gpu_pass_len(p) == 15 + 12 + 2 + 8);
    infer__gpu_pack(p, to);
    CHECK(to[to[4]] == 16 && to[to[4] + 1] == 15 && to[to[4] + 2] == 7 && to[4] + 3 == 15 + 12 + 2 + 8);
}

/* What begin uploads; two passes without a wait between them; rows that the pass wants. */
static void gpu_begin_case(int device) {
    enum { ROWS = 40, SEQS = 3, PAGES = 100, N = 7, COLS = 33 };
    gpu_pair p;
    gpu_tensor x, y, z;
    infer__get_rows_args a;
    int32_t i, *out;
    gpu_pair_open(&p, device, INFER_KV_F16, ROWS, SEQS, PAGES);
    gpu_make(&p, &x, ROWS, COLS, 0, 0);
    gpu_make(&p, &y, N, COLS, 2, 1);
    gpu_make(&p, &z, N, COLS, 2, 1);
    out = p.cpu.pass.out;
    p.cpu.pass.n_out = N;
    for (i = 0; i < N; i++) out[i] = i * 5;
    p.cpu.pass.pos[3] = 1000; /* page 62: 63 of 100 */
    p.gpu.bytes_up = p.gpu.bytes_down = p.gpu.syncs = 0;
    gpu_begin(&p);
    CHECK(p.gpu.bytes_up == sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 3 * ROWS + N + SEQS * (1 + 2 * 63)));
    a.x = x.cpu;
    a.y = y.cpu;
    p.cpu.ops->get_rows(&p.cpu, &a);
    a.x = x.gpu;
    a.y = y.gpu;
    p.gpu.ops->get_rows(&p.gpu, &a);
    for (i = 0; i < N; i++) out[i] = 39 - i;
    CHECK(p.gpu.syncs == 0 && p.gpu.launches == 1);
    gpu_begin(&p);
    CHECK(p.gpu.syncs == 1); /* the first upload may still be reading */
    a.y = z.gpu;
    p.gpu.ops->get_rows(&p.gpu, &a);
    a.x = x.cpu;
    a.y = z.cpu;
    p.cpu.ops->get_rows(&p.cpu, &a);
    gpu_same(&p, &y.on_cpu, &y.on_gpu);
    gpu_same(&p, &z.on_cpu, &z.on_gpu);
    CHECK(p.gpu.bytes_down == y.on_gpu.bytes + z.on_gpu.bytes && p.gpu.syncs == 3 && p.gpu.launches == 2);
    p.gpu.bytes_up = 0;
    p.cpu.pass.n_rows = p.cpu.pass.n_seq = 1;
    p.cpu.pass.n_out = 0;
    gpu_begin(&p);
    CHECK(p.gpu.bytes_up == sizeof(int32_t) * (INFER__GPU_PASS_HEAD + 3 + 1 + 2) && p.gpu.syncs == 3);
    gpu_drop(&p, &x);
    gpu_drop(&p, &y);
    gpu_drop(&p, &z);
    gpu_pair_close(&p);
}

static void test_gpu_ops_begin(void) {
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) gpu_begin_case(d);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* weight, bias: 0 none, 1 shared by the groups, 2 a set per group. even: rows at multiples of 16 bytes, which are read
 * and written by fours, with room beside them for all that a group of work-items could write. */
static void gpu_norm_case(gpu_pair *p, int kind, int32_t n, int32_t groups, int weight, int bias, int in_place, int even) {
    gpu_tensor x, y;
    gpu_weight w, b;
    infer__norm_args a;
    int32_t rows = 3, i;
    memset(&w, 0, sizeof w);
    memset(&b, 0, sizeof b);
    gpu_make(p, &x, rows, n * groups, even ? 4 : n % 4, even ? 4 : 2);
    gpu_make(p, &y, rows + even, n * groups, even ? 512 : 3, even ? 8 : n % 3);
    y.cpu.rows = y.gpu.rows = rows;
    for (i = 0; i < (int32_t)(x.on_cpu.bytes / 4); i++) ((float *)x.on_cpu.host)[i] *= 3;
    gpu_send(p, &x);
    memset(&a, 0, sizeof a);
    if (weight) a.weight = gpu_vector_make(p, &w, n % 2, weight == 2 ? n * groups : n);
    if (bias) a.bias = gpu_vector_make(p, &b, 0, bias == 2 ? n * groups : n);
    a.kind = kind;
    a.n_groups = groups;
    a.eps = 1e-5f;
    a.x = x.cpu;
    a.y = in_place ? x.cpu : y.cpu;
    p->cpu.ops->norm(&p->cpu, &a);
    a.x = x.gpu;
    a.y = in_place ? x.gpu : y.gpu;
    p->gpu.ops->norm(&p->gpu, &a);
    gpu_near(p, in_place ? &x : &y, 2, NULL);
    gpu_weight_drop(p, &w);
    gpu_weight_drop(p, &b);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
}

static void test_gpu_ops_norm(void) {
    static const int32_t even[] = {8, 64, 200, 256, 264, 432, 512, 520, 1000, 4088};
    gpu_pair p;
    int d, i;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1);
        for (i = 0; i < (gpu_small() ? 30 : 60); i++) {
            int32_t n = gpu_sizes[i % 10], groups = n > 100 ? 1 + i % 3 : 1 + i % 5;
            gpu_norm_case(&p, i / 2 % 2 ? INFER__NORM_LAYER : INFER__NORM_RMS, n, groups, i % 3, (i + 1) % 3, i % 2, 0);
        }
        for (i = 0; i < 2 * (int)INFER__COUNT(even); i++)
            gpu_norm_case(&p, i % 2 ? INFER__NORM_LAYER : INFER__NORM_RMS, even[i / 2], 1, 0, 0, 0, 1);
        gpu_pair_close(&p);
    }
}

/* blocks: of the values that are rotated, 0 = one; by_axis: each pair by its axis' position. */
static void gpu_rope_case(gpu_pair *p, int32_t heads, int32_t dim, int32_t n_rot, int kind, int32_t blocks, int by_axis) {
    static const int32_t places[] = {0, 1, 15, 16, 511, 4097, 32767, 100000};
    enum { N = sizeof places / sizeof places[0], MAX = 512 };
    int32_t half = n_rot / 2, i, axis[3][N];
    uint8_t axes[INFER__MAX_HEAD_DIM / 2];
    float freq[MAX], turns[2 * MAX];
    gpu_tensor x;
    infer__buf on_cpu, on_gpu;
    infer__rope_args a;
    memset(&a, 0, sizeof a);
    gpu_make(p, &x, N, heads * dim, dim % 3, heads);
    for (i = 0; i < n_rot; i++) { /* two sets; on the device in turns, as sums of two floats */
        double f;
        freq[i] = (float)(pow(10000.0, -2.0 * (i % half) / n_rot) * (i < half ? 1 : 0.25));
        f = freq[i] / (2 * 3.14159265358979323846);
        turns[2 * i] = (float)f;
        turns[2 * i + 1] = (float)(f - turns[2 * i]);
    }
    for (i = 0; i < N; i++) {
        p->cpu.pass.pos[i] = places[i];
        p->cpu.pass.seq[i] = i % 2;
    }
    p->cpu.pass.extended[0] = heads % 2;
    p->cpu.pass.extended[1] = 1 - heads % 2;
    for (i = 0; i < 3 * N; i++) axis[i / N][i % N] = places[i % N] + i / N * (i % N) * 3;
    for (i = 0; i < INFER__MAX_HEAD_DIM / 2; i++) axes[i] = (uint8_t)(i % 5 % 3);
    for (i = 0; i < 3; i++) p->cpu.pass.axis[i] = by_axis ? axis[i] : NULL;
    p->cpu.pass.axes = axes;
    p->cpu.pass.n_axes = INFER__MAX_HEAD_DIM / 2;
    gpu_begin(p);
    memset(&on_cpu, 0, sizeof on_cpu);
    on_cpu.host = freq;
    on_cpu.bytes = (uint64_t)n_rot * sizeof *freq;
    CHECK(p->gpu.ops->alloc(&p->gpu, &on_gpu, 2 * on_cpu.bytes));
    p->gpu.ops->upload(&p->gpu, &on_gpu, 0, turns, on_gpu.bytes);
    a.n_head = heads;
    a.dim = dim;
    a.n_rot = n_rot;
    a.kind = kind;
    a.back = heads % 2;
    a.scale = 1.25f;
    a.axes = by_axis ? axes : NULL;
    a.blocks = blocks;
    a.x = x.cpu;
    a.freq = &on_cpu;
    p->cpu.ops->rope(&p->cpu, &a);
    a.x = x.gpu;
    a.freq = &on_gpu;
    p->gpu.ops->rope(&p->gpu, &a);
    gpu_near(p, &x, 1, NULL);
    for (i = 0; i < 3; i++) p->cpu.pass.axis[i] = NULL;
    p->gpu.ops->release(&p->gpu, &on_gpu);
    gpu_drop(p, &x);
}

static void test_gpu_ops_rope(void) {
    gpu_pair p;
    int d, kind;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 8, 2, 100000 / INFER__PAGE + 1);
        for (kind = INFER__ROPE_NONE; kind <= INFER__ROPE_HALVES; kind++) {
            gpu_rope_case(&p, 1, 2, 2, kind, 0, 0);
            gpu_rope_case(&p, 3, 20, 16, kind, 2, 1);
            gpu_rope_case(&p, 5, 33, 32, kind, 0, 1);
            gpu_rope_case(&p, 7, 100, 98, kind, 0, 0);
            if (gpu_small()) continue;
            gpu_rope_case(&p, 4, 64, 64, kind, 2, 0);
            gpu_rope_case(&p, 3, 130, 96, kind, 3, 1);
            gpu_rope_case(&p, 2, 257, 256, kind, 0, 0);
        }
        gpu_pair_close(&p);
    }
}

static void gpu_embed_case(gpu_pair *p, const infer__quant *q, int32_t cols, const infer__quant *places, float scale) {
    static const int32_t ids[] = {3, 12, -1, 0, 3, 5, 7}, pos[] = {0, 18, 4, 5, 5, 6, 1};
    enum { N = sizeof ids / sizeof ids[0], VOCAB = 13, POSITIONS = 19 };
    gpu_tensor y;
    gpu_weight table, by_pos;
    infer__embed_args a;
    double *sizes = (double *)malloc((size_t)(N * cols) * sizeof *sizes);
    float *v = ops_floats((size_t)cols);
    int32_t looked[N], i, j;
    memset(&by_pos, 0, sizeof by_pos);
    gpu_make(p, &y, N, cols, 1, 3);
    memcpy(p->cpu.pass.ids, ids, sizeof ids);
    memcpy(p->cpu.pass.pos, pos, sizeof pos);
    gpu_begin(p);
    memset(&a, 0, sizeof a);
    a.table = gpu_weight_make(p, &table, q, VOCAB, cols, 0);
    if (places) a.positions = gpu_weight_make(p, &by_pos, places, POSITIONS, cols, 0);
    a.scale = scale;
    a.pad = cols % 2;
    a.looked = !places && cols % 3 == 0;
    if (a.looked) { /* the same ids, all of one row */
        memcpy(looked, ids, sizeof ids);
        p->cpu.pass.looked = looked;
        p->cpu.pass.looks = N;
        p->cpu.pass.n_rows = 1;
        memset(p->cpu.pass.ids, 0, sizeof ids);
        gpu_begin(p);
        p->cpu.pass.looks = 0;
        p->cpu.pass.n_rows = N;
    }
    for (i = 0; i < N; i++) { /* a block's values are differences: measured by the largest of the row */
        double max = 1;
        q->decode(table.data + (uint64_t)(ids[i] < 0 ? 0 : ids[i]) * table.w.row_bytes, v, cols);
        for (j = 0; j < cols; j++) max = fabs(v[j]) > max ? fabs(v[j]) : max;
        if (places) places->decode(by_pos.data + (uint64_t)pos[i] * by_pos.w.row_bytes, v, cols);
        for (j = 0; j < cols; j++) sizes[i * cols + j] = 2 * max + (places ? fabs(v[j]) : 0);
    }
    a.y = y.cpu;
    p->cpu.ops->embed(&p->cpu, &a);
    a.y = y.gpu;
    p->gpu.ops->embed(&p->gpu, &a);
    gpu_near(p, &y, 0, sizes);
    gpu_weight_drop(p, &table);
    gpu_weight_drop(p, &by_pos);
    gpu_drop(p, &y);
    free(sizes);
    free(v);
}

static void test_gpu_ops_embed(void) {
    const infer__quant *q;
    gpu_pair p;
    int d;
    int32_t i, k;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 7, 1, 2);
        for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
            if (!infer__gpu_has_type(q)) continue;
            check_detail = q->name;
            gpu_embed_case(&p, q, q->values == 1 ? 33 : q->values, ops_f32(), 1.5f);
            gpu_embed_case(&p, q, 2048 + (q->values == 1 ? 33 : q->values), NULL, 1); /* several groups a row */
            if (gpu_small()) continue;
            for (k = 0; k < 10; k++)
                gpu_embed_case(&p, q, q->values == 1 ? gpu_sizes[k] : q->values * (k + 1), k % 2 ? ops_f32() : NULL, 1);
            gpu_embed_case(&p, q, 4096 + (q->values == 1 ? 1 : q->values), q, 0.5f);
        }
        check_detail = "";
        gpu_pair_close(&p);
    }
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

/* with: 1 = times up, 2 = divided, 4 = what comes of it cut; where: 0 y separate, 1 y = x, 2 y = up. */
static void gpu_act_case(gpu_pair *p, int kind, int32_t rows, int32_t cols, int with, int where) {
    gpu_tensor x, up, y, *to = where == 1 ? &x : where == 2 ? &up : &y;
    gpu_weight w;
    infer__act_args a;
    static const float xielu[4] = { 0.8f, 0.6f, 0.5f, -1e-6f };
    double *sizes = (double *)malloc((size_t)(rows * cols) * sizeof *sizes);
    float *v = ops_floats((size_t)cols);
    int32_t i, j;
    memset(&w, 0, sizeof w);
    memset(&a, 0, sizeof a);
    gpu_make(p, &x, rows, cols, 1, 2);
    gpu_make(p, &up, rows, cols, 0, 3);
    gpu_make(p, &y, rows, cols, 2, 0);
    for (i = 0; i < (int32_t)(x.on_cpu.bytes / 4); i++) ((float *)x.on_cpu.host)[i] *= 12;
    infer__row(&x.cpu, 0)[0] = -200; /* exp overflows */
    infer__row(&x.cpu, rows - 1)[cols - 1] = 200;
    gpu_send(p, &x);
    if (with & 2) {
        a.divide = gpu_vector_make(p, &w, cols % 2, cols);
        a.divide->type->decode(w.data, v, cols);
    }
    for (i = 0; i < rows; i++) /* 0.5 x (1 + erf x) is a difference: measured by x, whatever it comes to */
        for (j = 0; j < cols; j++) {
            double size = 1 + fabs(infer__row(&x.cpu, i)[j]);
            if (kind == INFER__ACT_RELU2 || kind == INFER__ACT_XIELU) size *= size;
            if (kind == INFER__ACT_SIGMOID || kind == INFER__ACT_TANH) size = fabs(ops_act_naive(infer__row(&x.cpu, i)[j], kind)) + 1e-30;
            if (with & 1) size *= fabs(infer__row(&up.cpu, i)[j]);
            sizes[i * cols + j] = with & 2 ? size / fabs(v[j]) : size;
        }
    a.kind = kind;
    memcpy(a.xielu, xielu, sizeof xielu);
    a.limit = with & 4 ? 1.5f : 0;
    a.limit_after = with & 4;
    a.x = x.cpu;
    a.y = to->cpu;
    if (with & 1) a.up = up.cpu;
    p->cpu.ops->act(&p->cpu, &a);
    a.x = x.gpu;
    a.y = to->gpu;
    if (with & 1) a.up = up.gpu;
    p->gpu.ops->act(&p->gpu, &a);
    gpu_near(p, to, 0, sizes);
    gpu_weight_drop(p, &w);
    gpu_drop(p, &x);
    gpu_drop(p, &up);
    gpu_drop(p, &y);
    free(sizes);
    free(v);
}

/* NaN stays NaN, and alone. */
static void gpu_act_nan_case(gpu_pair *p, int kind) {
    gpu_tensor x;
    infer__act_args a;
    float *z;
    int32_t i;
    gpu_make(p, &x, 1, 70, 0, 0);
    infer__row(&x.cpu, 0)[65] = infer__bits_f32(0x7fc00000u);
    gpu_send(p, &x);
    memset(&a, 0, sizeof a);
    a.kind = kind;
    a.x = a.y = x.gpu;
    p->gpu.ops->act(&p->gpu, &a);
    z = (float *)gpu_fetch(p, &x.on_gpu);
    for (i = 0; i < 70; i++) CHECK(infer__finite(z[i]) == (i != 65));
    free(z);
    gpu_drop(p, &x);
}

static void gpu_plain_case(gpu_pair *p, int32_t rows, int32_t cols, int which) {
    gpu_tensor x, y;
    infer__add_args add;
    infer__map_args map;
    static const float range[] = {-0.25f, 3};
    gpu_make(p, &x, rows, cols, 1, 2);
    gpu_make(p, &y, rows, cols, 3, 1);
    add.x = x.cpu;
    add.y = y.cpu;
    add.scale = 0.3f;
    p->cpu.ops->add(&p->cpu, &add);
    add.x = x.gpu;
    add.y = y.gpu;
    p->gpu.ops->add(&p->gpu, &add);
    gpu_near(p, &y, 0.3, NULL);
    map.x = x.cpu;
    map.scale = 7.0f;
    map.cap = which & 1 ? 3.0f : 0.0f;
    map.clamp = which & 2 ? 2.0f : 0.0f;
    map.range = which == 4 ? range : NULL;
    p->cpu.ops->map(&p->cpu, &map);
    map.x = x.gpu;
    p->gpu.ops->map(&p->gpu, &map);
    gpu_near(p, &x, 1, NULL);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
}

static void test_gpu_ops_elementwise(void) {
    gpu_pair p;
    int d, i;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1);
        for (i = 0; i < (gpu_small() ? 30 : 90); i++) {
            int32_t cols = i % 11 < 10 ? gpu_sizes[i % 11] : gpu_small() ? 511 : 5001;
            int where = i / INFER__ACTS;
            gpu_act_case(&p, i % INFER__ACTS, 1 + i % 4, cols, i % 4, i % 4 & 1 ? where % 3 : where % 2);
        }
        for (i = 0; i < 6; i++) gpu_act_case(&p, INFER__ACT_LINEAR, 1 + i % 4, gpu_sizes[3 * i % 10], i % 4, 0);
        for (i = 0; i < 4; i++) gpu_act_case(&p, INFER__ACT_XIELU, 1 + i, gpu_sizes[3 * i % 10], i, 0);
        for (i = 0; i < 4; i++) gpu_act_case(&p, INFER__ACT_SILU, 1 + i, gpu_sizes[3 * i % 10], 4 + i, 0);
        for (i = 0; i < INFER__ACTS; i++) gpu_act_nan_case(&p, i);
        for (i = 0; i < (gpu_small() ? 10 : 11); i++)
            gpu_plain_case(&p, 1 + i % 3, i < 10 ? gpu_sizes[9 - i] : 5001, i);
        gpu_pair_close(&p);
    }
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static void gpu_matmul_case(gpu_pair *p, const infer__quant *q, int32_t rows, int32_t cols, int32_t n, int bias) {
    gpu_tensor x, y;
    gpu_weight w, b;
    infer__matmul_args a;
    double *sizes = (double *)malloc((size_t)(n * rows) * sizeof *sizes);
    float *v = ops_floats((size_t)cols);
    int32_t i, r;
    char name[80];
    snprintf(name, sizeof name, "%s %d x %d, %d rows", q->name, (int)rows, (int)cols, (int)n);
    check_detail = name;
    memset(&b, 0, sizeof b);
    memset(&a, 0, sizeof a);
    gpu_make(p, &x, n, cols, n % 3, 1);
    gpu_make(p, &y, n, rows, 2, 3);
    a.n_w = 1;
    a.w[0] = gpu_weight_make(p, &w, q, rows, cols, 0);
    if (bias) a.b[0] = gpu_vector_make(p, &b, bias - 1, rows);
    for (i = 0; i < n; i++)
        for (r = 0; r < rows; r++)
            sizes[i * rows + r] = gpu_dot_size(&w.w, r, infer__row(&x.cpu, i), v) + (bias ? 1 : 0);
    a.x = x.cpu;
    a.y[0] = y.cpu;
    p->cpu.ops->matmul(&p->cpu, &a);
    a.x = x.gpu;
    a.y[0] = y.gpu;
    p->gpu.ops->matmul(&p->gpu, &a);
    gpu_near(p, &y, 0, sizes);
    gpu_weight_drop(p, &w);
    gpu_weight_drop(p, &b);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
    free(sizes);
    free(v);
    check_detail = "";
}

static void gpu_matmul_type(gpu_pair *p, const infer__quant *q) {
    static const int32_t n[] = {1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 70};
    int32_t unit = q->values, i;
    gpu_matmul_case(p, q, 5, unit == 1 ? 33 : unit, 2, 2);
    gpu_matmul_case(p, q, 3, unit == 1 ? 1000 : 768, 1, 1); /* more than 16 work-items take at once */
    if (gpu_small() && q->id % 3) return; /* what follows differs from type to type in nothing but how values are unpacked */
    gpu_matmul_case(p, q, 33, unit == 1 ? 31 : unit, 9, 0);
    gpu_matmul_case(p, q, 37, unit == 1 ? 1033 : 1280, 19, 1); /* few rows, many columns: thin */
    gpu_matmul_case(p, q, gpu_small() ? 9 : 31, unit == 1 ? 65 : 2 * unit, 33, 1);
    if (gpu_small()) return;
    for (i = 0; i < 33; i++) { /* 10 x 10 x 11 sizes, each of them at least three times */
        int32_t k = gpu_sizes[(3 * i + 1) % 10];
        gpu_matmul_case(p, q, gpu_sizes[i % 10], unit == 1 ? k : (k / unit + 1 + i % 3) * unit, n[i % 11], i % 3);
    }
    gpu_matmul_case(p, q, 33, unit == 1 ? 4001 : 16 * 256, 1, 0);
    gpu_matmul_case(p, q, 33, unit == 1 ? 4001 : 16 * 256, 40, 0);
}

static void test_gpu_ops_matmul_types(void) {
    const infer__quant *q;
    gpu_pair p;
    int d, types = 0;
    int32_t i;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1);
        for (i = 0; (q = infer__quant_row(i)) != NULL; i++) {
            if (!infer__gpu_has_type(q)) continue;
            gpu_matmul_type(&p, q);
            types++;
        }
        gpu_pair_close(&p);
    }
    for (i = 0; i < INFER__MODULE_COUNT; i++) types -= gpu_devices() * (infer__module_at(i)->kind == INFER__MODULE_TYPE);
    CHECK(types == 0); /* every type that has kernels */
}

/* Three weights of three types and shapes at once, their results side by side in rows of 200. */
static void gpu_matmul_three(gpu_pair *p, int32_t n) {
    static const int32_t rows[] = {101, 64, 7}, ids[] = {0, 2, 1}; /* F32, Q4_0, F16 */
    enum { COLS = 96 };
    gpu_tensor x, y;
    gpu_weight w[3], b[2];
    infer__matmul_args on_cpu, on_gpu;
    uint64_t launches;
    int32_t j, at = 5;
    memset(&on_cpu, 0, sizeof on_cpu);
    gpu_make(p, &x, n, COLS, 5, 2);
    gpu_make(p, &y, n, 200, 0, 0);
    for (j = 0; j < 3; j++) on_cpu.w[j] = gpu_weight_make(p, &w[j], infer__quant_find(ids[j], NULL), rows[j], COLS, 0);
    on_cpu.b[0] = gpu_vector_make(p, &b[0], 0, rows[0]);
    on_cpu.b[2] = gpu_vector_make(p, &b[1], 1, rows[2]);
    on_cpu.n_w = 3;
    on_gpu = on_cpu;
    on_cpu.x = x.cpu;
    on_gpu.x = x.gpu;
    for (j = 0; j < 3; j++) {
        on_cpu.y[j] = y.cpu;
        on_gpu.y[j] = y.gpu;
        on_cpu.y[j].cols = on_gpu.y[j].cols = rows[j];
        on_cpu.y[j].offset = on_gpu.y[j].offset = (uint64_t)at * sizeof(float);
        at += rows[j];
    }
    launches = p->gpu.launches;
    p->cpu.ops->matmul(&p->cpu, &on_cpu);
    p->gpu.ops->matmul(&p->gpu, &on_gpu);
    CHECK(p->gpu.launches == launches + 3);
    gpu_near(p, &y, COLS / 4, NULL); /* |w x| is 1/4 on average */
    for (j = 0; j < 3; j++) gpu_weight_drop(p, &w[j]);
    for (j = 0; j < 2; j++) gpu_weight_drop(p, &b[j]);
    gpu_drop(p, &x);
    gpu_drop(p, &y);
}

static void test_gpu_ops_matmul_three(void) {
    gpu_pair p;
    int d;
    GPU_NEED();
    for (d = 0; d < gpu_devices(); d++) {
        gpu_pair_open(&p, d, INFER_KV_F32, 1, 1, 1);
        gpu_matmul_three(&p, 1);
        if (!gpu_small()) gpu_matmul_three(&p, 40);
        gpu_pair_close(&p);
    }
}

#include "test_gpu_rounded.c"
#include "test_gpu_moe.c"
#include "test_gpu_top.c"
#include "test_gpu_step.c"
#include "test_gpu_streams.c"
#include "test_gpu_wkv.c"
#include "test_gpu_attention.c"
#include "test_gpu_index.c"
#include "test_gpu_few.c"
#include "test_gpu_faults.c"
#include "test_gpu_check.c"

static void suite_gpu_ops(void) {
    RUN(test_gpu_ops_pack);
    RUN(test_gpu_ops_faults);
    RUN_DEVICE(test_gpu_ops_begin);
    RUN_DEVICE(test_gpu_ops_norm);
    RUN_DEVICE(test_gpu_ops_rope);
    RUN_DEVICE(test_gpu_ops_embed);
    RUN_DEVICE(test_gpu_ops_elementwise);
    RUN_DEVICE(test_gpu_ops_matmul_types);
    RUN_DEVICE(test_gpu_ops_matmul_three);
    RUN_DEVICE(test_gpu_ops_rounded);
    RUN_DEVICE(test_gpu_ops_attention);
    RUN_DEVICE(test_gpu_ops_attention_block);
    RUN_DEVICE(test_gpu_ops_attention_types);
    RUN_DEVICE(test_gpu_ops_attention_shared);
    RUN_DEVICE(test_gpu_ops_attention_contexts);
    RUN_DEVICE(test_gpu_ops_attention_nan);
    RUN_DEVICE(test_gpu_few);
    RUN_DEVICE(test_gpu_few_replay);
    RUN_DEVICE(test_gpu_ops_attention_halves);
    RUN_DEVICE(test_gpu_ops_store);
    RUN_DEVICE(test_gpu_ops_rope_store);
    RUN_DEVICE(test_gpu_ops_norm_store);
    RUN(test_gpu_ops_attention_bucket);
    RUN_DEVICE(test_gpu_ops_moe_route);
    RUN_DEVICE(test_gpu_ops_moe_bias);
    RUN_DEVICE(test_gpu_ops_moe_matmul);
    RUN_DEVICE(test_gpu_ops_moe_rows);
    RUN_DEVICE(test_gpu_ops_moe_rounded);
    RUN_DEVICE(test_gpu_ops_moe_whole);
    RUN_DEVICE(test_gpu_ops_moe_halves);
    RUN_DEVICE(test_gpu_ops_moe_turns);
    RUN_DEVICE(test_gpu_ops_moe_alone);
    RUN_DEVICE(test_gpu_ops_top);
    RUN_DEVICE(test_gpu_ops_streams);
    RUN_DEVICE(test_gpu_ops_index);
    RUN_DEVICE(test_gpu_ops_attention_lists);
    RUN_DEVICE(test_gpu_ops_index_order);
    RUN_DEVICE(test_gpu_ops_compress);
    RUN_DEVICE(test_gpu_ops_wkv);
    RUN_DEVICE(test_gpu_ops_conv);
    RUN_DEVICE(test_gpu_ops_step);
    RUN_DEVICE(test_gpu_ops_errors);
    RUN_DEVICE(test_gpu_ops_profile);
    RUN(test_gpu_check_covers);
    RUN(test_gpu_check_calls);
    RUN_DEVICE(test_gpu_ops_check);
    RUN_DEVICE(test_gpu_check_wrong);
    RUN_DEVICE(test_gpu_check_blind);
    RUN_DEVICE(test_gpu_check_ways);
    RUN_DEVICE(test_gpu_check_memory);
    gpu_close_all();
}
