/* test_encode.c: infer_type_encode: the error beside llama.cpp's encoders, edges of values, and what is refused. */

/* Sums of four uniform numbers, and weights of columns, from one generator. */
enum { ENCODE_N = 1 << 16, ENCODE_ROW = 256 };
static float encode_x[ENCODE_N], encode_w[ENCODE_N], encode_y[ENCODE_N];
static uint8_t encode_b[ENCODE_N * 5 / 4];

static void encode_values(void) {
    uint32_t s = 1;
    int i, k;
    for (i = 0; i < ENCODE_N; i++) {
        double sum = 0;
        for (k = 0; k < 4; k++) {
            s = s * 1664525u + 1013904223u;
            sum += (double)(s >> 8) / (1 << 24) - 0.5;
        }
        encode_x[i] = (float)sum;
    }
    for (i = 0; i < ENCODE_N; i++) {
        if (i < ENCODE_ROW) {
            const double a = (s = s * 1664525u + 1013904223u, (double)(s >> 8) / (1 << 24));
            encode_w[i] = (float)(a * a * a * a + 0.01);
        } else encode_w[i] = encode_w[i % ENCODE_ROW];
    }
}

/* Squared errors of these values, with equal weights and with encode_w: ggml_quantize_chunk of llama-cpp-python 0.3.36, the
 * lower of those without and with an imatrix of ones (IQ1, IQ2_XXS and IQ2_XS demand one). Of Q2_0 it was not measured: limits of our own. */
typedef struct encode_fact { int32_t id; double equal, weighted; } encode_fact;
static const encode_fact encode_facts[] = {
    {2, 0.005934, 0.005035}, {3, 0.004532, 0.003408}, {6, 0.001462, 0.001254}, {7, 0.00106, 0.0008084}, {8, 2.584e-05, 2.581e-05},
    {10, 0.06788, 0.04478}, {11, 0.01957, 0.01541}, {12, 0.004627, 0.00352}, {13, 0.001155, 0.0009336}, {14, 0.0002765, 0.0002218},
    {20, 0.005288, 0.004358}, {23, 0.005378, 0.004457}, {34, 0.583, 0.582}, {35, 0.583, 0.582}, {39, 0.01242, 0.01262}, {40, 0.009259, 0.009358},
    {41, 0.3437, 0.3439}, {42, 0.13, 0.11},
    {16, 0.1153, 0.06854}, {17, 0.08823, 0.05302}, {18, 0.03239, 0.01736}, {19, 0.2238, 0.1663}, {21, 0.01791, 0.01123}, {22, 0.05915, 0.04297},
    {29, 0.1956, 0.1216},
};

static double encode_error(const float *w) {
    double e = 0, sum = 0;
    int i;
    for (i = 0; i < ENCODE_N; i++) {
        const double v = w ? (double)w[i] : 1, d = (double)encode_x[i] - (double)encode_y[i];
        e += v * d * d;
        sum += v * (double)encode_x[i] * (double)encode_x[i];
    }
    return e / sum;
}

static void test_encode_error(void) {
    size_t i;
    infer_error err;
    encode_values();
    for (i = 0; i < INFER__COUNT(encode_facts); i++) {
        const encode_fact *f = &encode_facts[i];
        check_detail = infer_type_name(f->id);
        CHECK(infer_type_encode(f->id, encode_x, NULL, ENCODE_N, encode_b, &err) == INFER_OK);
        CHECK(infer_type_decode(f->id, encode_b, ENCODE_N, encode_y, &err) == INFER_OK);
        CHECK(encode_error(NULL) <= f->equal);
        CHECK(infer_type_encode(f->id, encode_x, encode_w, ENCODE_N, encode_b, &err) == INFER_OK);
        CHECK(infer_type_decode(f->id, encode_b, ENCODE_N, encode_y, &err) == INFER_OK);
        CHECK(encode_error(encode_w) <= f->weighted);
    }
}

/* The types that can be written, one after the other: n bytes of a block, and how many values. */
static int encode_next(int32_t *i, infer_type_info *t) {
    infer_error err;
    while (infer_type_get((*i)++, t) == INFER_OK)
        if (t->storable && infer_type_encode(t->id, NULL, NULL, 0, NULL, &err) == INFER_OK) return 1;
    return 0;
}

/* Blocks of one kind of value: what comes back is finite, and near where the type has room. Nothing is written behind them. */
static void test_encode_edges(void) {
    int32_t i = 0;
    int kind, j, types = 0;
    infer_type_info t;
    while (encode_next(&i, &t)) {
        const int even_signs = t.id == 16 || t.id == 17 || t.id == 18;
        check_detail = t.name;
        types++;
        for (kind = 0; kind < 12; kind++) {
            float x[512], y[512], w[512], top = 0;
            uint8_t b[2048 + 8];
            const size_t n = 512, bytes = n / (size_t)t.values * (size_t)t.bytes;
            for (j = 0; j < 512; j++) {
                const float sign = j % 3 ? 1.0f : -1.0f;
                w[j] = kind == 9 ? 0.0f : kind == 10 ? (float)(j == 7) : kind == 11 ? 1e30f : 1.0f;
                x[j] = kind == 0 ? 0.0f : kind == 1 ? 1.0f : kind == 2 ? -2.5f : kind == 3 ? (float)(j == 5) : kind == 4 ? sign * 1e-20f
                     : kind == 5 ? sign * 1e30f : kind == 6 ? sign * infer__bits_f32(0x7f800000) : kind == 7 ? infer__bits_f32(0x7fc00000)
                     : kind == 8 ? sign * 1e-6f * (float)j : sign * (float)(j % 16);
                if (fabsf(x[j]) > top) top = fabsf(x[j]);
            }
            memset(b, 0xa5, sizeof b);
            CHECK(infer_type_encode(t.id, x, kind >= 9 ? w : NULL, n, b, NULL) == INFER_OK);
            for (j = 0; j < 8; j++) CHECK(b[bytes + (size_t)j] == 0xa5);
            CHECK(infer_type_decode(t.id, b, n, y, NULL) == INFER_OK);
            for (j = 0; j < 512 && t.values > 1; j++) {
                CHECK(infer__finite(y[j]));
                if (kind == 0 || kind == 6 || kind == 7) CHECK(fabsf(y[j]) <= 1e-6f);
                if (kind == 1 || kind == 2) CHECK(fabsf(y[j] - x[j]) <= (t.id == 39 ? 0.21f : 0.01f) * fabsf(x[j])); /* one value fits every scale but powers of two */
                if (kind == 8 || kind == 9) CHECK(fabsf(y[j] - x[j]) <= (even_signs ? 1.4f : 1.01f) * top); /* one of eight may have the wrong sign */
            }
        }
    }
    CHECK(types == 28);
}

/* What a type stands for is encoded without an error where codes cannot be another's. */
static void test_encode_again(void) {
    static const int32_t ids[] = {2, 3, 6, 7, 8, 20, 39, 41};
    size_t i;
    int j;
    encode_values();
    for (i = 0; i < INFER__COUNT(ids); i++) {
        double e = 0, sum = 0;
        float x[256], y[256];
        check_detail = infer_type_name(ids[i]);
        CHECK(infer_type_encode(ids[i], encode_x, NULL, 256, encode_b, NULL) == INFER_OK);
        infer_type_decode(ids[i], encode_b, 256, x, NULL);
        CHECK(infer_type_encode(ids[i], x, NULL, 256, encode_b, NULL) == INFER_OK);
        infer_type_decode(ids[i], encode_b, 256, y, NULL);
        for (j = 0; j < 256; j++) {
            e += ((double)x[j] - (double)y[j]) * ((double)x[j] - (double)y[j]);
            sum += (double)x[j] * (double)x[j];
        }
        CHECK(e <= 1e-6 * sum);
    }
}

static void test_encode_refused(void) {
    float x[256] = {0}, w[256] = {0};
    uint8_t b[1024];
    infer_error err;
    w[3] = -1;
    CHECK(infer_type_encode(2, x, w, 32, b, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "value 3");
    w[3] = infer__bits_f32(0x7fc00000);
    CHECK(infer_type_encode(2, x, w, 32, b, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_type_encode(2, x, NULL, 33, b, &err) == INFER_ERR_ARGUMENT && infer_type_decode(12, b, 32, x, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "blocks of 256");
    CHECK(infer_type_encode(2, NULL, NULL, 32, b, &err) == INFER_ERR_ARGUMENT && infer_type_encode(2, x, NULL, 32, NULL, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_type_encode(2, x, NULL, UINT64_MAX - 31, b, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_type_decode(2, b, UINT64_MAX - 31, x, &err) == INFER_ERR_ARGUMENT);
    CHECK(infer_type_encode(24, x, NULL, 256, b, &err) == INFER_ERR_UNSUPPORTED);
    CHECK_HAS(err.message, "I8 is read only");
    CHECK(infer_type_encode(99, x, NULL, 256, b, &err) == INFER_ERR_UNSUPPORTED && infer_type_decode(-1, b, 256, x, &err) == INFER_ERR_UNSUPPORTED);
    CHECK(infer_type_encode(1, x, NULL, 0, NULL, &err) == INFER_OK && infer_type_decode(1, NULL, 0, NULL, &err) == INFER_OK);
}

static void suite_encode(void) {
    RUN(test_encode_error);
    RUN(test_encode_edges);
    RUN(test_encode_again);
    RUN(test_encode_refused);
}
