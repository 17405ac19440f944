/* test_float.c: products with F32, F16 and BF16 weights: every level that this CPU has against the definition, bit for
 * bit (F32, F16), a plain version of the same sums (BF16), or exact sums (BF16, tiles, integers); GEMV against
 * many columns. */

enum { FLOAT_PAD = 3 };

/* sum of row w (BF16) times x rounded to BF16, as cpu_float.h says; *size = sum of magnitudes. */
static float float_twin(const uint8_t *w, const float *x, int32_t cols, double *size) {
    float lanes[INFER__LANES] = {0};
    int32_t k, i;
    *size = 0;
    for (k = 0; k < (cols + 1) / 2 * 2; k++) {
        uint16_t h;
        float v;
        i = k ^ 1; /* the odd one of a pair first */
        if (i >= cols) continue;
        memcpy(&h, w + 2 * (size_t)i, 2);
        v = infer__bf16_f32(h) * infer__bf16_f32(infer__f32_bf16(x[i]));
        lanes[i / 2 % INFER__LANES] += v;
        *size += fabs(v);
    }
    return infer__sum_lanes(lanes);
}

static double float_exact(const uint8_t *w, const float *x, int32_t cols) {
    double d = 0;
    int32_t i;
    for (i = 0; i < cols; i++) {
        uint16_t h;
        memcpy(&h, w + 2 * (size_t)i, 2);
        d += (double)infer__bf16_f32(h) * x[i];
    }
    return d;
}

static int float_there(const struct infer__floats *f) {
    return (f->need & ~(infer__cpu_found() | INFER__CPU_ENCODES)) == 0;
}

/* 1 on the level that multiplies F16 and BF16 as integers. */
static int float_int16(const infer__ctx *c) {
    const uint32_t need = INFER__CPU_ENCODES | INFER__CPU_AVX512VNNI;
    return (c->floats->need & (need | INFER__CPU_AMXBF16)) == need;
}

/* Products as integers: rounding each block of 64 changes a sum by at most 8 / 32760 of the product of the norms, and on
 * average by a square of 1 / 6 of a unit each. */
static void float_int16_case(const float *decoded, const float *x, int32_t rows, int32_t cols, int32_t n_x, const float *y, int32_t sy) {
    double squares = 0, expected = 0;
    int32_t i, j, k, n = 0;
    for (j = 0; j < n_x; j += 1 + j / 8)
        for (i = 0; i < rows; i++, n++) {
            double sum = 0, norms = 0, e, w = 0, v = 0;
            for (k = 0; k < cols; k++) {
                double p = decoded[i * cols + k], q = x[j * (cols + FLOAT_PAD) + k];
                sum += p * q;
                w += p * p;
                v += q * q;
                if (k % 64 != 63 && k + 1 < cols) continue;
                norms += sqrt(w * v);
                expected += w * v / (6.0 * 32760 * 32760);
                w = v = 0;
            }
            e = y[j * sy + i] - sum;
            squares += e * e;
            CHECK(ops_near(y[j * sy + i], sum, norms, 8.1 / 32760));
        }
    /* of few values few errors are independent */
    CHECK(n < 64 || squares < ((rows + n_x) * cols < 500 ? 8 : 2) * expected);
}

/* a * b + c, rounded once: fmaf of some C libraries rounds twice. The sum of doubles is rounded to odd: then the second
 * rounding is right. */
static float float_fused(float a, float b, float c) {
    const double p = (double)a * b;
    volatile double s = p + c, part = s - p, rest = (p - (s - part)) + (c - part);
    double sum = s;
    int64_t u;
    memcpy(&u, &sum, sizeof u);
    if (rest != 0 && (u & 1) == 0) u += (rest > 0) == (sum > 0) ? 1 : -1;
    memcpy(&sum, &u, sizeof u);
    return (float)sum;
}

/* Sums of outer products: bit for bit runs of 64 values, by fused multiply-add. */
static float float_runs(const float *w, const float *x, int32_t cols) {
    float sum = 0, run = 0;
    int32_t k;
    for (k = 0; k < cols; k++) {
        run = float_fused(w[k], x[k], k % 64 ? run : 0);
        if (k % 64 == 63 || k + 1 == cols) sum = k < 64 ? run : sum + run;
    }
    return sum;
}

/* Row by row against the definition's order, that of outer products, or as sums of two BF16: then as near to the exact
 * sum as that allows. */
static void float_decoded_case(const infer__ctx *c, int id, const float *decoded, const float *x, int32_t rows, int32_t cols, int32_t n_x,
                               const float *y, float *z, int32_t sy) {
    const int tiled = c->floats->tiled && c->floats->tiled->by[id].multiply, two = tiled && (c->floats->need & INFER__CPU_AMXBF16);
    int32_t i, j, k;
    if (!tiled) {
        c->kernels->tile(decoded, cols, rows, x, cols + FLOAT_PAD, n_x, cols, z, sy);
        for (j = 0; j < n_x; j++) CHECK(memcmp(y + j * sy, z + j * sy, (size_t)rows * sizeof *y) == 0);
    }
    for (j = 0; j < n_x && tiled && !two; j += 1 + j / 8)
        for (i = 0; i < rows; i++)
            CHECK(infer__f32_bits(y[j * sy + i]) == infer__f32_bits(float_runs(decoded + i * cols, x + j * (cols + FLOAT_PAD), cols)));
    for (j = 0; j < n_x && two; j += 1 + j / 8)
        for (i = 0; i < rows; i++) {
            double sum = 0, all = 0;
            for (k = 0; k < cols; k++) {
                double v = (double)decoded[i * cols + k] * x[j * (cols + FLOAT_PAD) + k];
                sum += v;
                all += fabs(v);
            }
            CHECK(ops_near(y[j * sy + i], sum, all, 1.0 / 30000));
        }
}

/* rows x cols by n_x columns, on the level of c, from row `first` on. */
static void float_case(infer__ctx *c, int id, int32_t first, int32_t rows, int32_t cols, int32_t n_x) {
    const infer__quant *q = infer__quant_find(id, NULL);
    uint8_t *data = ops_blocks(q, (int64_t)(first + rows) * cols, 1); /* at an odd address */
    infer__weight w = ops_weight(q, data, first + rows, cols);
    const int int16 = float_int16(c) && id != 0;
    int32_t sy = rows + FLOAT_PAD, i, j;
    int prepared;
    size_t size = (size_t)n_x * (size_t)sy;
    float *x = ops_floats((size_t)n_x * (size_t)(cols + FLOAT_PAD)), *y = ops_floats(size), *z = ops_floats(size), *bias = ops_floats((size_t)rows);
    float *decoded = (float *)malloc((size_t)rows * (size_t)cols * sizeof *decoded), *guard = y + rows;
    infer__buf buf;
    infer__tensor t = ops_tensor(&buf, x, n_x, cols, cols + FLOAT_PAD);
    const uint8_t *columns = (const uint8_t *)x;
    int64_t sx = (cols + FLOAT_PAD) * (int64_t)sizeof *x;
    char detail[100];
    sprintf(detail, "%s %s %d x %d, %d columns", c->floats->name, q->name, (int)rows, (int)cols, (int)n_x);
    check_detail = detail;
    CHECK(infer__float_usable(c, &w, &prepared));
    if (prepared) {
        infer__float_prepare(c, &t);
        columns = c->cpu->float_x;
        sx = infer__float_row_bytes(c->floats, cols);
    }
    for (j = 0; j < n_x; j++)
        for (i = 0; i < FLOAT_PAD; i++) guard[j * sy + i] = 7.0f;
    infer__float_tile(c, &w, first, rows, columns, sx, n_x, n_x, NULL, y, sy, 0);
    for (j = 0; j < n_x; j++)
        for (i = 0; i < FLOAT_PAD; i++) CHECK(guard[j * sy + i] == 7.0f);
    q->decode(data + (uint64_t)first * w.row_bytes, decoded, (int64_t)rows * cols);
    if (int16) float_int16_case(decoded, x, rows, cols, n_x, y, sy);
    else if (id != 30) float_decoded_case(c, id, decoded, x, rows, cols, n_x, y, z, sy);
    for (j = 0; id == 30 && !int16 && j < n_x; j += 1 + j / 8)
        for (i = 0; i < rows; i++) {
            const uint8_t *row = data + (uint64_t)(first + i) * w.row_bytes;
            const float *col = x + (size_t)j * (size_t)(cols + FLOAT_PAD);
            double all;
            float twin = float_twin(row, col, cols, &all);
            CHECK(ops_near(y[j * sy + i], twin, all, 1e-6));
            CHECK(ops_near(y[j * sy + i], float_exact(row, col, cols), all, 1.0 / 256)); /* half of a unit, and sums */
        }
    for (j = 0; j < n_x; j += 1 + j / 4) { /* GEMV: other blocks, other cuts */
        infer__tensor one = ops_tensor(&buf, x, 1, cols, cols + FLOAT_PAD);
        one.offset += (uint64_t)j * (uint64_t)one.stride * sizeof *x;
        if (prepared) infer__float_prepare(c, &one);
        infer__float_tile(c, &w, first, rows, prepared ? columns : columns + j * sx, sx, 1, 1, NULL, z, sy, 0);
        CHECK(memcmp(y + j * sy, z, (size_t)rows * sizeof *y) == 0);
    }
    if (prepared) infer__float_prepare(c, &t);
    infer__float_tile(c, &w, first + rows - 1, 1, columns, sx, n_x, n_x, NULL, z, sy, 0); /* a row alone */
    for (j = 0; j < n_x; j++) CHECK(infer__f32_bits(z[j * sy]) == infer__f32_bits(y[j * sy + rows - 1]));
    infer__float_tile(c, &w, first, rows, columns, sx, n_x, n_x, bias, z, sy, 0);
    for (j = 0; j < n_x; j++)
        for (i = 0; i < rows; i++) CHECK(infer__f32_bits(z[j * sy + i]) == infer__f32_bits(y[j * sy + i] + bias[i]));
    free(data - 1);
    free(x);
    free(y);
    free(z);
    free(bias);
    free(decoded);
    check_detail = "";
}

static void test_float_levels(void) {
    static const int ids[] = {0, 1, 30};
    static const int32_t cols[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 63, 64, 100, 577, 1023, 1024, 1041, 2049, 3103};
    /* more rows, columns and steps than are made ready together, groups of columns that are not whole */
    static const struct { int32_t rows, cols, n_x; } tiles[] = {{150, 97, 16}, {17, 32, 17}, {33, 543, 50}, {130, 1030, 64}, {16, 300, 63}, {100, 128, 41}};
    infer__ctx c;
    size_t l, t, k;
    int32_t n;
    for (l = 0; l < INFER__COUNT(infer__floats_rows); l++) {
        const struct infer__floats *f = &infer__floats_rows[l];
        if (!float_there(f)) continue;
        ops_open(&c, 1, f->need, 3103);
        c.exact = 0;
        CHECK(c.floats == f);
        for (t = 0; t < INFER__COUNT(ids); t++) {
            for (n = 0; n < 6 && f->tiled; n++)
                float_case(&c, ids[t], n % 2, tiles[n].rows, tiles[n].cols, tiles[n].n_x);
            for (k = 0; k < INFER__COUNT(cols); k++) {
                for (n = 1; n < 28; n += 1 + n / 8) float_case(&c, ids[t], n & 1, 1 + n % 9, cols[k], n);
                float_case(&c, ids[t], 0, 4, cols[k], 1);
            }
            float_case(&c, ids[t], 3, 35, 1100, 7); /* more rows than are decoded at once */
            float_case(&c, ids[t], 0, 37, 1057, 33);
        }
        ops_close(&c);
    }
}

/* More columns than fit on the scratch at once. */
static void test_float_panels(void) {
    static const int ids[] = {0, 1, 30};
    infer__ctx c;
    size_t t;
    int encodes;
    for (encodes = 0; encodes < 2; encodes++) {
        uint32_t cpu = infer__cpu_found() | (encodes ? INFER__CPU_ENCODES : 0);
        ops_open(&c, 1, cpu, 2100);
        c.exact = 0;
        c.ops->finish(&c);
        ops_prepare(&c, cpu, 601, 2100);
        for (t = 0; t < INFER__COUNT(ids); t++) float_case(&c, ids[t], 0, 6, 2100, c.floats->tiled ? 601 : 401);
        ops_close(&c);
    }
}

/* Products as integers of values that are not ordinary: `rare` in row 0 and, the other way round, in column 0. */
static void test_float_int16_rare(void) {
    static const float rare[] = {0, 65504, 6e-8f, 3e38f, 1e25f, 1e-14f, 1e-20f, 2e-39f, INFINITY, -INFINITY, NAN};
    static const int ids[] = {1, 30};
    enum { COLS = 100, N = 2 };
    infer__ctx c;
    size_t r, t;
    int32_t i, j, k;
    ops_open(&c, 1, infer__cpu_found() | INFER__CPU_ENCODES, COLS);
    c.exact = 0;
    for (t = 0; t < 2 && float_int16(&c); t++)
        for (r = 0; r < INFER__COUNT(rare); r++) {
            const infer__quant *q = infer__quant_find(ids[t], NULL);
            float rows[2][COLS], x[N * COLS], y[N * 2], scale = rare[r] >= 1e20f && rare[r] < 1e38f ? 1e-20f : 1;
            uint8_t data[2 * COLS * 2];
            infer__weight w = ops_weight(q, data, 2, COLS);
            infer__buf buf;
            infer__tensor tx = ops_tensor(&buf, x, N, COLS, COLS);
            for (k = 0; k < COLS; k++) {
                rows[0][k] = k % 3 ? rare[r] * (float)(1 - k % 2 * 0.5) : 0;
                rows[1][k] = ops_rand();
                x[COLS + k] = ops_rand() * scale;
                x[k] = rare[r] < 1e20f && k > 70 ? rare[r] : 1;
            }
            q->encode(rows[0], data, COLS);
            q->encode(rows[1], data + w.row_bytes, COLS);
            infer__float_prepare(&c, &tx);
            infer__float_tile(&c, &w, 0, 2, c.cpu->float_x, infer__float_row_bytes(c.floats, COLS), N, N, NULL, y, 2, 0);
            for (i = 0; i < 2; i++) {
                q->decode(data + (uint64_t)i * w.row_bytes, rows[i], COLS);
                for (j = 0; j < N; j++) {
                    double sum = 0, all = 0, p = 0, v = 0;
                    for (k = 0; k < COLS; k++) {
                        const double a = rows[i][k], b = x[j * COLS + k];
                        sum += a * b;
                        p += a * a;
                        v += b * b;
                        if (k % 64 != 63 && k + 1 < COLS) continue;
                        all += p < 1e-60 || v < 1e-60 ? 1e9 * sqrt(p * v) : sqrt(p * v);
                        p = v = 0;
                    }
                    if (all <= 3e38) CHECK(ops_near(y[j * 2 + i], sum, all, 8.1 / 32760));
                    else /* not a number; too large for one, where terms of the sum are */
                        CHECK(!(fabs(y[j * 2 + i]) <= 3e38) || (isfinite(all) && ops_near(y[j * 2 + i], sum, all, 8.1 / 32760)));
                }
            }
        }
    ops_close(&c);
}

/* Rounding of activations: what is special stays so, in both layouts. */
static void test_float_prepare(void) {
    static const uint32_t bits[] = {0,          0x80000000u, 0x3f800000u, 0x3f808000u, 0x3f818000u, 0x3f807fffu,
                                    0x3f808001u, 0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7f800001u, 0xffffffffu,
                                    0x00400000u, 0x00008000u, 0x7fc00000u, 0x7f80ffffu};
    float x[35];
    uint8_t out[256];
    uint16_t h;
    uint32_t u;
    size_t l;
    int i, n;
    for (i = 0; i < 35; i++) x[i] = infer__bits_f32(bits[i % 16]);
    for (l = 0; l < INFER__COUNT(infer__floats_rows); l++) {
        const struct infer__floats *f = &infer__floats_rows[l];
        if (!float_there(f) || f->tiled) continue;
        check_detail = f->name;
        for (n = 1; n <= 35; n++) {
            memset(out, 255, sizeof out);
            f->prepare(x, out, n);
            for (i = 0; i < (n + 31) / 32 * 32; i++) {
                uint16_t want = i < n ? infer__f32_bf16(x[i]) : 0;
                if (f->pairs) {
                    memcpy(&h, out + 2 * i, 2);
                } else {
                    memcpy(&u, out + i / 32 * 128 + (1 - i % 2) * 64 + i % 32 / 2 * 4, 4);
                    CHECK((u & 0xffff) == 0);
                    h = (uint16_t)(u >> 16);
                }
                CHECK(h == want);
            }
        }
    }
}

/* Three kinds share an input, with biases, over threads; and exact, which differs for BF16 only. */
static void test_float_matmul(void) {
    static const int ids[3] = {30, 1, 0};
    enum { ROWS = 70, COLS = 1090, N = 30 };
    float *x = ops_floats(N * (COLS + 5)), *y = ops_floats(N * 1000), *z = ops_floats(N * 1000), *bias = ops_floats(ROWS);
    uint8_t *data[3];
    infer__weight w[3], b[3];
    infer__ctx c;
    int32_t i, j, r, threads;
    int differs = 0;
    memset(b, 0, sizeof b);
    for (j = 0; j < 3; j++) {
        const infer__quant *q = infer__quant_find(ids[j], NULL);
        data[j] = ops_blocks(q, ROWS * COLS, 0);
        w[j] = ops_weight(q, data[j], ROWS, COLS);
    }
    b[0] = ops_weight(ops_f32(), bias, 1, ROWS);
    for (threads = 1; threads < 4; threads++) {
        memset(threads > 1 ? z : y, 0, N * 1000 * sizeof *y);
        ops_open(&c, threads, infer__cpu_found(), COLS);
        c.exact = 0;
        ops_matmul_three(&c, w, b, x, N, COLS, threads > 1 ? z : y);
        if (threads > 1) CHECK(memcmp(y, z, N * 1000 * sizeof *y) == 0);
        for (r = 0; r < N; r += 3) { /* each row alone */
            memset(z, 0, 1000 * sizeof *z);
            ops_matmul_three(&c, w, b, x + r * (COLS + 5), 1, COLS, z);
            CHECK(memcmp(y + r * 1000, z, 1000 * sizeof *z) == 0);
        }
        ops_close(&c);
    }
    ops_open(&c, 1, infer__cpu_found(), COLS);
    c.exact = 1;
    memset(z, 0, N * 1000 * sizeof *z);
    ops_matmul_three(&c, w, b, x, N, COLS, z);
    for (r = 0; r < N; r++) {
        for (i = 0; i < ROWS; i++) {
            float v = y[r * 1000 + i], e = z[r * 1000 + i];
            differs |= v != e;
            CHECK(ops_near(v, e, COLS, 1.0 / 512));
            CHECK(ops_near(e, float_exact(data[0] + (uint64_t)i * w[0].row_bytes, x + r * (COLS + 5), COLS) + bias[i],
                           COLS, 1e-6));
        }
        CHECK(memcmp(y + r * 1000 + ROWS, z + r * 1000 + ROWS, 2 * ROWS * sizeof *y) == 0);
    }
    CHECK(differs);
    ops_close(&c);
    for (j = 0; j < 3; j++) free(data[j]);
    free(x);
    free(y);
    free(z);
    free(bias);
}

static void suite_float(void) {
    RUN(test_float_levels);
    RUN(test_float_panels);
    RUN(test_float_int16_rare);
    RUN(test_float_prepare);
    RUN(test_float_matmul);
}
