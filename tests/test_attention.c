/* test_attention.c: the cache of keys and values in every type, and attention over it: against sums in double, row by
 * row against the batch, over any number of threads and every instruction set. */

/* ---- exp and tanh --------------------------------------------------------------------------------------------- */

static void att_exp_scalar(const float *x, float *e, float *t) {
    infer__store_scalar(e, infer__exp_minus_scalar(infer__load_scalar(x)));
    infer__store_scalar(t, infer__tanh_scalar(infer__load_scalar(x)));
}
#if defined(INFER__SIMD_AVX2)
INFER__TARGET("avx2,fma,f16c") static void att_exp_avx2(const float *x, float *e, float *t) {
    infer__store_avx2(e, infer__exp_minus_avx2(infer__load_avx2(x)));
    infer__store_avx2(t, infer__tanh_avx2(infer__load_avx2(x)));
}
#  if defined(INFER__SIMD_AVX512)
INFER__TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
static void att_exp_avx512(const float *x, float *e, float *t) {
    infer__store_avx512(e, infer__exp_minus_avx512(infer__load_avx512(x)));
    infer__store_avx512(t, infer__tanh_avx512(infer__load_avx512(x)));
}
#  endif
#elif defined(INFER__SIMD_ARM)
static void att_exp_neon(const float *x, float *e, float *t) {
    infer__store_neon(e, infer__exp_minus_neon(infer__load_neon(x)));
    infer__store_neon(t, infer__tanh_neon(infer__load_neon(x)));
}
#endif

static void att_exp_case(void (*f)(const float *x, float *e, float *t)) {
    float x[16], e[16], t[16];
    double worst_e = 0, worst_t = 0;
    int i, l;
    for (i = 0; i < 60000; i++) {
        for (l = 0; l < 16; l++) x[l] = ops_rand() * (i % 3 == 0 ? 87.2f : i % 3 == 1 ? 1.0f : 12.0f);
        f(x, e, t);
        for (l = 0; l < 16; l++) {
            worst_e = INFER__MAX(worst_e, fabs(e[l] / exp(-fabs(x[l])) - 1));
            worst_t = INFER__MAX(worst_t, fabs(t[l] / tanh(x[l]) - 1));
        }
    }
    CHECK(worst_e < 1.2e-7 && worst_t < 2.5e-7);
    for (l = 0; l < 16; l++) x[l] = l % 2 ? 0.0f : -88.0f;
    x[2] = -1e30f;
    x[4] = 1e30f;
    x[6] = infer__bits_f32(0x7fc00000u);
    x[8] = infer__bits_f32(0xff800000u);
    f(x, e, t);
    for (l = 0; l < 16; l++)
        if (l != 6) CHECK(e[l] == (l % 2 ? 1.0f : 0.0f) && t[l] == (l % 2 ? 0.0f : l == 4 ? 1.0f : -1.0f));
    CHECK((infer__f32_bits(e[6]) & 0x7fffffffu) > 0x7f800000u && (infer__f32_bits(t[6]) & 0x7fffffffu) > 0x7f800000u);
}

static void test_attention_exp(void) {
    const uint32_t found = infer__cpu_found();
    att_exp_case(att_exp_scalar);
#if defined(INFER__SIMD_AVX2)
    if (found & INFER__CPU_AVX2) att_exp_case(att_exp_avx2);
#  if defined(INFER__SIMD_AVX512)
    if (found & INFER__CPU_AVX512) att_exp_case(att_exp_avx512);
#  endif
#elif defined(INFER__SIMD_ARM)
    if (found & INFER__CPU_NEON) att_exp_case(att_exp_neon);
#endif
    (void)found;
}

/* ---- a cache of two sequences ------------------------------------------------------------------------------------ */

typedef struct ops_att {
    int32_t n_head, n_head_kv, dim_k, dim_v, window, type;
    float softcap, max_bias, temp_scale;
} ops_att;
enum { OPS_SEQ = 2 };
/* Besides: chunks of so many positions; rows see all of their block of so many. 0 = neither. */
static int32_t att_chunk, att_block;

typedef struct ops_cache {
    infer__kv_buf k, v;
    float *ks, *vs; /* OPS_SEQ x len rows, as stored */
    float *sinks;   /* one for each head, NULL = none */
    int32_t len, n_pages, *pages, *pos, *seq;
} ops_cache;

/* n rows of dim values become what a cache of a type keeps of them. */
static void ops_round(int32_t type, float *x, int32_t n, int32_t dim) {
    static const int32_t ids[] = {-1, 0, 1, 30, 8, 2};
    const infer__quant *q = infer__quant_find(ids[type], NULL);
    float row[INFER__MAX_HEAD_DIM + INFER__KV_BLOCK];
    uint8_t bytes[sizeof row];
    for (; n > 0; n--, x += dim) {
        memset(row, 0, sizeof row);
        memcpy(row, x, (size_t)dim * sizeof *x);
        q->encode(row, bytes, (dim + INFER__KV_BLOCK - 1) / INFER__KV_BLOCK * INFER__KV_BLOCK);
        q->decode(bytes, row, (dim + INFER__KV_BLOCK - 1) / INFER__KV_BLOCK * INFER__KV_BLOCK);
        memcpy(x, row, (size_t)dim * sizeof *x);
    }
}

/* Fill the cache with random rows through kv_store, pages in a shuffled order. */
static void ops_cache_fill(infer__ctx *c, ops_cache *o, const ops_att *t, int32_t len) {
    int32_t nk = t->n_head_kv * t->dim_k, nv = t->n_head_kv * t->dim_v, i, n = OPS_SEQ * len;
    uint64_t slots;
    infer__kv_store_args a;
    infer__buf bk, bv;
    o->len = len;
    o->sinks = NULL;
    o->n_pages = (len + INFER__PAGE - 1) / INFER__PAGE;
    o->pages = (int32_t *)malloc((size_t)(OPS_SEQ * o->n_pages) * sizeof *o->pages);
    o->pos = (int32_t *)malloc((size_t)n * sizeof *o->pos);
    o->seq = (int32_t *)malloc((size_t)n * sizeof *o->seq);
    slots = (uint64_t)(OPS_SEQ * o->n_pages * INFER__PAGE * t->n_head_kv);
    o->ks = ops_floats((size_t)(n * nk));
    o->vs = ops_floats((size_t)(n * nv));
    o->k.type = o->v.type = t->type;
    CHECK(c->ops->alloc(c, &o->k.buf, slots * infer__kv_bytes(t->type, t->dim_k)) &&
          c->ops->alloc(c, &o->v.buf, slots * infer__kv_bytes(t->type, t->dim_v)));
    memset(o->k.buf.host, 0xff, (size_t)o->k.buf.bytes); /* NaN: reading what was not stored shows */
    memset(o->v.buf.host, 0xff, (size_t)o->v.buf.bytes);
    for (i = 0; i < OPS_SEQ * o->n_pages; i++) o->pages[i] = i;
    for (i = OPS_SEQ * o->n_pages - 1; i > 0; i--) {
        int32_t k = (int32_t)(ops_bits() % (uint32_t)(i + 1)), swap = o->pages[i];
        o->pages[i] = o->pages[k];
        o->pages[k] = swap;
    }
    for (i = 0; i < n; i++) {
        o->pos[i] = i / OPS_SEQ;
        o->seq[i] = i % OPS_SEQ;
    }
    c->pass.pos = o->pos;
    c->pass.seq = o->seq;
    c->pass.max_pages = o->n_pages;
    c->pass.pages[1] = o->pages;
    memset(&a, 0, sizeof a);
    a.k = ops_tensor(&bk, o->ks, n, nk, nk);
    a.v = ops_tensor(&bv, o->vs, n, nv, nv);
    a.k_cache = &o->k;
    a.v_cache = &o->v;
    a.group = 1;
    a.n_head = t->n_head_kv;
    a.dim_k = t->dim_k;
    a.dim_v = t->dim_v;
    c->ops->kv_store(c, &a);
    ops_round(t->type, o->ks, n * t->n_head_kv, t->dim_k);
    ops_round(t->type, o->vs, n * t->n_head_kv, t->dim_v);
}

/* Whole pages at once leave the bytes that row by row leaves: one sequence from the middle of a page on, another from its
 * beginning, and a third one's single page. */
static void test_attention_store(void) {
    enum { ROWS = 45 + 33 + 16, HEADS = 2, PAGES = 4 + 3 + 1 };
    static const int32_t dims[] = { 32, 80, 40 };
    static int32_t pages[3][4] = { { 6, 1, 7, 2 }, { 0, 5, 3, -1 }, { 4, -1, -1, -1 } };
    int32_t pos[ROWS], seq[ROWS], d, type, i, last;
    size_t l;
    for (i = 0; i < ROWS; i++) {
        seq[i] = i < 45 ? 0 : i < 78 ? 1 : 2;
        pos[i] = i < 45 ? 5 + i : i < 78 ? i - 45 : i - 78;
    }
    for (l = 0; l < INFER__COUNT(infer__flash_rows); l++)
        for (d = 0; d < 3 && !(infer__flash_rows[l].need & ~infer__cpu_found()); d++)
            for (type = INFER_KV_F32; type <= INFER_KV_Q4_0; type++) {
                const int32_t dim = dims[d], cols = HEADS * dim;
                float *x = ops_floats((size_t)(ROWS * cols));
                infer__kv_buf k[2], v[2];
                infer__kv_store_args a;
                infer__buf bx;
                infer__ctx c;
                ops_open(&c, 2, infer__flash_rows[l].need, cols);
                c.pass.max_pages = 4;
                c.pass.pages[1] = pages[0];
                memset(&a, 0, sizeof a);
                a.group = 1;
                a.n_head = HEADS;
                a.dim_k = a.dim_v = dim;
                for (last = 0; last < 2; last++) { /* all at once; one by one */
                    const uint64_t bytes = PAGES * INFER__PAGE * HEADS * infer__kv_bytes(type, dim);
                    k[last].type = v[last].type = type;
                    CHECK(c.ops->alloc(&c, &k[last].buf, bytes) && c.ops->alloc(&c, &v[last].buf, bytes));
                    memset(k[last].buf.host, 0x55, (size_t)bytes);
                    memset(v[last].buf.host, 0x55, (size_t)bytes);
                    a.k_cache = &k[last];
                    a.v_cache = &v[last];
                    for (i = 0; i < ROWS; i += last ? 1 : ROWS) {
                        a.k = a.v = ops_tensor(&bx, x, last ? 1 : ROWS, cols, cols);
                        a.k.offset = a.v.offset = (uint64_t)(i * cols) * sizeof *x;
                        c.pass.pos = pos + i;
                        c.pass.seq = seq + i;
                        c.ops->kv_store(&c, &a);
                    }
                }
                CHECK(memcmp(k[0].buf.host, k[1].buf.host, (size_t)k[0].buf.bytes) == 0);
                CHECK(memcmp(v[0].buf.host, v[1].buf.host, (size_t)v[0].buf.bytes) == 0);
                for (last = 0; last < 2; last++) {
                    c.ops->release(&c, &k[last].buf);
                    c.ops->release(&c, &v[last].buf);
                }
                free(x);
                ops_close(&c);
            }
}

/* What a case says of attention; temp_floor and temp_offset are the test's. */
static infer__attention_args ops_att_args(const ops_att *t) {
    infer__attention_args a;
    memset(&a, 0, sizeof a);
    a.n_head = t->n_head;
    a.n_head_kv = t->n_head_kv;
    a.dim_k = t->dim_k;
    a.dim_v = t->dim_v;
    a.window = t->window;
    a.chunk = att_chunk;
    a.scale = 1.5f / sqrtf((float)t->dim_k);
    a.softcap = t->softcap;
    a.max_bias = t->max_bias;
    a.temp_scale = t->temp_scale;
    a.temp_floor = 32;
    return a;
}

enum { OPS_LOW_SINK = -2, OPS_NO_SINKS = -1 }; /* from 0: another kind of sink for every head, beginning with this one */

/* Sinks for n heads: among the scores, far above (nothing is left), far below (as if there were none), a little above. */
static float *ops_sinks(int first, int32_t n) {
    float *s = ops_floats((size_t)n);
    int32_t h;
    for (h = 0; h < n; h++) {
        const int kind = first == OPS_LOW_SINK ? 2 : (first + h) % 5;
        if (kind == 1) s[h] = 1e4f;
        else if (kind == 2) s[h] = -1e30f;
        else s[h] = kind == 0 ? 4 * s[h] : kind == 3 ? 9 + s[h] : -40.0f;
    }
    return s;
}

static void ops_cache_drop(infer__ctx *c, ops_cache *o) {
    c->ops->release(c, &o->k.buf);
    c->ops->release(c, &o->v.buf);
    free(o->ks);
    free(o->vs);
    free(o->sinks);
    free(o->pages);
    free(o->pos);
    free(o->seq);
}

static void ops_attend(infer__ctx *c, ops_cache *o, const ops_att *t, float *q, float *y, int32_t n) {
    infer__attention_args a;
    infer__buf bq, by;
    infer__weight sinks;
    a = ops_att_args(t);
    if (o->sinks) sinks = ops_weight(ops_f32(), o->sinks, 1, t->n_head);
    a.sinks = o->sinks ? &sinks : NULL;
    a.q = ops_tensor(&bq, q, n, t->n_head * t->dim_k, t->n_head * t->dim_k);
    a.y = ops_tensor(&by, y, n, t->n_head * t->dim_v, t->n_head * t->dim_v);
    a.k_cache = &o->k;
    a.v_cache = &o->v;
    a.group = 1;
    a.temp_offset = 1;
    c->ops->attention(c, &a);
}

/* One row and head in double. */
static void ops_attend_naive(const ops_cache *o, const ops_att *t, const float *q, int32_t seq, int32_t pos, int32_t h,
                             double *y) {
    const int32_t end = att_block ? INFER__MIN(o->len, (pos / att_block + 1) * att_block) : pos + 1;
    double *s = (double *)malloc((size_t)end * sizeof *s), max = -1e300, sum = 0, slope = 0, scale = 1.5 / sqrt((double)t->dim_k);
    int32_t lo = t->window && pos >= t->window ? pos - t->window + 1 : 0, hk = h / (t->n_head / t->n_head_kv), i, d,
            n = 1;
    while (n * 2 <= t->n_head) n *= 2;
    int32_t hi = end;
    if (att_chunk) {
        lo = INFER__MAX(lo, pos / att_chunk * att_chunk);
        hi = INFER__MIN(hi, (pos / att_chunk + 1) * att_chunk);
    }
    if (o->sinks) max = o->sinks[h];
    if (t->max_bias > 0)
        slope = pow(2, h < n ? -t->max_bias * (h + 1.0) / n : -t->max_bias * (2.0 * (h - n) + 1) / (2.0 * n));
    if (t->temp_scale != 0) scale *= log(floor((pos + 1.0) / 32) + 1) * t->temp_scale + 1;
    for (i = lo; i < hi; i++) {
        s[i] = 0;
        for (d = 0; d < t->dim_k; d++)
            s[i] += (double)q[h * t->dim_k + d] * o->ks[((i * OPS_SEQ + seq) * t->n_head_kv + hk) * t->dim_k + d];
        s[i] *= scale;
        if (t->softcap > 0) s[i] = t->softcap * tanh(s[i] / t->softcap);
        s[i] += slope * (i - pos);
        if (s[i] > max) max = s[i];
    }
    for (d = 0; d < t->dim_v; d++) y[d] = 0;
    if (o->sinks) sum = exp(o->sinks[h] - max);
    for (i = lo; i < hi; i++) {
        double p = exp(s[i] - max);
        sum += p;
        for (d = 0; d < t->dim_v; d++) y[d] += p * o->vs[((i * OPS_SEQ + seq) * t->n_head_kv + hk) * t->dim_v + d];
    }
    for (d = 0; d < t->dim_v; d++) y[d] /= sum;
    free(s);
}

/* Rows 0..n-1 look from `rows` (position * 2 + sequence), every fifth at the other sequence. Against double, and each
 * row alone on one thread. sinks: see ops_sinks; one far below all scores is as if there were none, bit by bit. */
static void ops_attention_rows(const ops_att *t, int32_t len, const int32_t *rows, int32_t n, int threads, uint32_t cpu,
                               int sinks) {
    int32_t nq = t->n_head * t->dim_k, ny = t->n_head * t->dim_v, pos[64], seq[64], end[64], i, h, d;
    float *q = ops_floats((size_t)(n * nq)), *y = ops_floats((size_t)(n * ny)), *z = ops_floats((size_t)(n * ny));
    double want[INFER__MAX_HEAD_DIM];
    infer__ctx c, one;
    infer__pool *pool;
    ops_cache o;
    ops_open(&c, threads, cpu, nq > ny ? nq : ny);
    ops_cache_fill(&c, &o, t, len);
    for (i = 0; i < n; i++) {
        pos[i] = rows[i] / OPS_SEQ;
        end[i] = att_block ? INFER__MIN(len, (pos[i] / att_block + 1) * att_block) : 0;
        seq[i] = i % 5 == 4 ? 1 - rows[i] % OPS_SEQ : rows[i] % OPS_SEQ;
    }
    c.pass.pos = pos;
    c.pass.seq = seq;
    c.pass.end = att_block ? end : NULL;
    if (sinks == OPS_LOW_SINK) ops_attend(&c, &o, t, q, z, n);
    if (sinks != OPS_NO_SINKS) o.sinks = ops_sinks(sinks, t->n_head);
    ops_attend(&c, &o, t, q, y, n);
    if (sinks == OPS_LOW_SINK) CHECK(memcmp(y, z, (size_t)(n * ny) * sizeof *y) == 0);
    for (i = 0; i < n; i++) {
        for (h = 0; h < t->n_head; h++) {
            ops_attend_naive(&o, t, q + i * nq, seq[i], pos[i], h, want);
            for (d = 0; d < t->dim_v; d++) CHECK(ops_near(y[i * ny + h * t->dim_v + d], want[d], 1, 2e-6));
        }
    }
    pool = c.pool;
    for (d = 0; d < 2; d++) { /* every row alone, on the same threads and on one: the same bits */
        one = c;
        one.pool = d ? NULL : pool;
        memset(z, 0, (size_t)(n * ny) * sizeof *z);
        for (i = 0; i < n; i++) {
            one.pass.pos = pos + i;
            one.pass.seq = seq + i;
            if (att_block) one.pass.end = end + i;
            ops_attend(&one, &o, t, q + i * nq, z + i * ny, 1);
        }
        CHECK(memcmp(y, z, (size_t)(n * ny) * sizeof *y) == 0);
    }
    ops_cache_drop(&c, &o);
    free(q);
    free(y);
    free(z);
    ops_close(&c);
}

/* The small ones first. */
static const ops_att ops_att_cases[] = {
    /* heads, kv heads, dim k, dim v, window, type, softcap, max_bias, temp */
    {3, 3, 5, 3, 0, INFER_KV_F16, 0, 0, 0},      {4, 2, 8, 12, 20, INFER_KV_F32, 2, 0, 0},
    {6, 2, 7, 9, 0, INFER_KV_F16, 0, 8, 0.5f},   {4, 4, 64, 64, 0, INFER_KV_F32, 0, 0, 0},
    {4, 2, 32, 32, 0, INFER_KV_F16, 0, 0, 0},    {6, 1, 1, 1, 0, INFER_KV_F32, 0, 0, 0},
    {8, 2, 16, 48, 40, INFER_KV_F16, 0, 0, 0},   {2, 1, 128, 64, 1, INFER_KV_F32, 0, 0, 0},
    {2, 2, 20, 20, 64, INFER_KV_F16, 5, 0, 0},   {5, 5, 16, 16, 0, INFER_KV_F32, 2, 8, 0},
    {12, 3, 8, 8, 100, INFER_KV_F16, 0, 8, 0},   {4, 1, 33, 17, 0, INFER_KV_F16, 0, 0, 0.5f},
    {71, 1, 8, 8, 0, INFER_KV_F16, 0, 0, 0},     {1, 1, 256, 512, 17, INFER_KV_F16, 0, 0, 0},
    {2, 1, 1024, 1024, 0, INFER_KV_F32, 0, 0, 0}, {1, 1, 1000, 257, 65, INFER_KV_F16, 0, 0, 0},
};

/* Types, dimensions that are no multiple of a block, tiles of every width; one to four heads that share a reading. */
static const ops_att att_type_cases[] = {
    {1, 1, 40, 64, 0, INFER_KV_F16, 0, 0, 0},     {4, 2, 64, 128, 0, INFER_KV_BF16, 0, 0, 0},
    {3, 1, 72, 64, 99, INFER_KV_Q8_0, 0, 0, 0},   {4, 1, 50, 64, 0, INFER_KV_Q4_0, 0, 0, 0},
    {2, 2, 33, 192, 0, INFER_KV_Q8_0, 0, 0, 0},   {6, 2, 64, 64, 70, INFER_KV_Q4_0, 0, 0, 0},
    {3, 3, 5, 3, 0, INFER_KV_Q4_0, 0, 0, 0},      {6, 2, 33, 17, 20, INFER_KV_Q8_0, 2, 0, 0},
    {8, 2, 64, 64, 0, INFER_KV_Q8_0, 0, 0, 0},    {8, 2, 64, 96, 0, INFER_KV_Q4_0, 0, 8, 0},
    {7, 7, 80, 80, 30, INFER_KV_BF16, 0, 0, 0.5f}, {5, 1, 31, 65, 0, INFER_KV_BF16, 5, 0, 0},
    {6, 1, 128, 128, 0, INFER_KV_F16, 0, 0, 0},   {4, 4, 48, 48, 0, INFER_KV_Q8_0, 0, 0, 0},
};

static void test_attention_cases(void) {
    static const int32_t rows[] = {0,   1,   2,   31,  32,  33,  34,  63,  126, 127, 128,
                                   129, 130, 131, 132, 250, 258, 400, 402, 404, 599};
    const size_t plain = INFER__COUNT(ops_att_cases);
    char name[80];
    size_t i;
    int sinks;
    for (i = 0; i < plain + INFER__COUNT(att_type_cases); i++) {
        snprintf(name, sizeof name, "case %d", (int)i);
        check_detail = name;
        for (sinks = OPS_LOW_SINK; sinks < 1; sinks++)
            ops_attention_rows(i < plain ? &ops_att_cases[i] : &att_type_cases[i - plain], 300, rows,
                               (int32_t)INFER__COUNT(rows), 3, infer__cpu_found(), sinks < 0 ? sinks : (int)i);
    }
    check_detail = "";
}

/* What rows see is not only what lies before them: blocks that are seen whole, chunks that hide what was before, and both
 * with a window; on one page, across pages, chunks of 64 and splits. */
static void test_attention_ranges(void) {
    static const int32_t rows[] = { 0, 1, 14, 31, 32, 63, 126, 127, 128, 129, 254, 400, 598, 599 };
    static const int32_t late[] = { 2 * 511, 2 * 512, 2 * 1023 + 1, 2 * 1024, 2 * 1300 };
    static const struct { int32_t chunk, block; } cases[] = { { 7, 0 }, { 64, 0 }, { 100, 0 }, { 0, 5 }, { 0, 64 }, { 0, 4096 },
                                                             { 96, 32 }, { 600, 4096 } };
    static const ops_att plain = { 4, 2, 16, 24, 0, INFER_KV_F16, 0, 0, 0 }, window = { 4, 1, 64, 64, 33, INFER_KV_Q8_0, 2, 0, 0 };
    size_t i;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        att_chunk = cases[i].chunk;
        att_block = cases[i].block;
        ops_attention_rows(&plain, 300, rows, (int32_t)INFER__COUNT(rows), 3, infer__cpu_found(), (int)i % 3 - 1);
        ops_attention_rows(&window, 300, rows, (int32_t)INFER__COUNT(rows), 3, 0, OPS_NO_SINKS);
        ops_attention_rows(&plain, 1301, late, (int32_t)INFER__COUNT(late), 9, infer__cpu_found(), OPS_NO_SINKS);
    }
    att_chunk = att_block = 0;
}

/* More positions than a split: parts on several threads, rows that end at its edges, windows across it. */
static void test_attention_splits(void) {
    static const int32_t rows[] = {2 * 511, 2 * 512, 2 * 1024, 2 * 1023 + 1, 2 * 1299 + 1, 2 * 1300}, last[] = {2600};
    static const ops_att cases[] = {
        {4, 2, 16, 24, 0, INFER_KV_F16, 0, 0, 0},
        {4, 1, 64, 64, 0, INFER_KV_Q8_0, 0, 0, 0},
        {2, 1, 40, 40, 700, INFER_KV_Q4_0, 0, 8, 0},
        {1, 1, 8, 8, 513, INFER_KV_F32, 3, 0, 0},
        {71, 1, 8, 8, 0, INFER_KV_F16, 0, 0, 0}, /* six rows: more parts than nine workers hold, so no task is a part */
    };
    size_t i;
    int threads;
    for (i = 0; i < INFER__COUNT(cases); i++)
        for (threads = check_every(9); threads <= 9; threads += 4) {
            int sinks; /* alone, and with sinks whose kinds begin with this one */
            for (sinks = OPS_NO_SINKS; sinks <= (int)i; sinks += (int)i + 1) {
                ops_attention_rows(&cases[i], 1301, rows, (int32_t)INFER__COUNT(rows), threads, infer__cpu_found(),
                                   sinks);
                ops_attention_rows(&cases[i], 1301, last, 1, threads, infer__cpu_found(), sinks);
            }
        }
}

/* Every instruction set that runs here, on consecutive rows as a prompt has them, against double and the scalar set. */
static void test_attention_levels(void) {
    static const ops_att cases[] = {
        {8, 2, 64, 64, 0, INFER_KV_F16, 0, 0, 0},   {8, 2, 64, 64, 0, INFER_KV_BF16, 0, 0, 0},
        {6, 3, 96, 80, 90, INFER_KV_Q8_0, 2, 0, 0}, {3, 3, 48, 33, 0, INFER_KV_Q4_0, 0, 8, 0},
        {13, 1, 40, 64, 0, INFER_KV_F32, 0, 0, 0},
    };
    const uint32_t found = infer__cpu_found();
    int32_t rows[64], i;
    size_t l, k;
    int sinks;
    for (i = 0; i < 64; i++) rows[i] = 2 * (i + 70) + (i > 40);
    for (l = 0; l < INFER__COUNT(infer__flash_rows); l++) {
        if (infer__flash_rows[l].need & ~found) continue;
        for (k = 0; k < INFER__COUNT(cases); k++)
            for (sinks = OPS_LOW_SINK; sinks < 1; sinks++)
                ops_attention_rows(&cases[k], 140, rows, 64, 2, infer__flash_rows[l].need, sinks);
    }
}

/* What is read of a page is what the type's decode gives, bit by bit, on every instruction set; transposed twice, it
 * is what it was. */
static void test_attention_cache(void) {
    static const int32_t dims[] = {1, 16, 31, 32, 33, 64, 80, 128};
    static float keys[INFER__PAGE * 160], values[INFER__PAGE * 160];
    const uint32_t found = infer__cpu_found();
    int32_t type, i, d, slot, dim;
    size_t l, n;
    for (type = INFER_KV_F32; type <= INFER_KV_Q4_0; type++)
        for (n = 0; n < INFER__COUNT(dims); n++) {
            ops_att t = {1, 1, 0, 0, 0, 0, 0, 0, 0};
            infer__ctx c;
            ops_cache o;
            uint8_t *k, *v, *rows, *again;
            uint64_t bytes;
            dim = t.dim_k = t.dim_v = dims[n];
            t.type = type;
            bytes = INFER__PAGE * infer__kv_bytes(type, dim);
            ops_open(&c, 1, found, 128);
            ops_cache_fill(&c, &o, &t, 32);
            k = (uint8_t *)o.k.buf.host + (uint64_t)o.pages[1] * bytes; /* positions 16..31 of sequence 0 */
            v = (uint8_t *)o.v.buf.host + (uint64_t)o.pages[1] * bytes;
            for (l = 0; l < INFER__COUNT(infer__flash_rows); l++) {
                const infer__kv_reader *r = &infer__flash_rows[l].kv[type];
                int32_t stride = type >= INFER_KV_Q8_0 ? infer__round_up(dim, 32) : infer__round_up(dim, 16);
                if (infer__flash_rows[l].need & ~found) continue;
                if (r->keys) r->keys(keys, k, dim);
                r->values(values, v, dim, stride, 3, 14);
                for (slot = 3; slot <= 14; slot++)
                    for (d = 0; d < stride; d++) {
                        i = (slot + 16) * OPS_SEQ * dim + d;
                        CHECK(values[slot * stride + d] == (d < dim ? o.vs[i] : 0.0f));
                        if (d < dim && r->keys) CHECK(keys[d * INFER__PAGE + slot] == o.ks[i]);
                    }
            }
            rows = (uint8_t *)malloc((size_t)(2 * bytes));
            again = rows + bytes;
            infer__kv_turn(type, 1, dim, k, rows, 1);
            infer__kv_turn(type, 1, dim, again, rows, 0);
            CHECK(memcmp(again, k, (size_t)bytes) == 0);
            free(rows);
            ops_cache_drop(&c, &o);
            ops_close(&c);
        }
}

/* Scratch is made for the largest head of a model; every smaller one must fit. */
static void test_attention_scratch(void) {
    int32_t most, k, v;
    for (most = 1; most <= INFER__MAX_HEAD_DIM; most += 31)
        for (k = 1; k <= most; k += 13)
            for (v = 1; v <= most; v += 37) {
                CHECK(infer__attention_layout(k, v, INFER__KV_BLOCK, 0).end <= infer__attention_scratch(most, 0));
                CHECK(infer__attention_layout(most, v, INFER__LANES, 1).end <= infer__attention_scratch(most, 1));
            }
}

static void suite_attention(void) {
    RUN(test_attention_exp);
    RUN(test_attention_store);
    RUN(test_attention_cache);
    RUN(test_attention_scratch);
    RUN(test_attention_cases);
    RUN(test_attention_splits);
    RUN(test_attention_ranges);
    RUN(test_attention_levels);
}
