/* gpu_check_attention.c: checks of cache and attention kernels: storing, rotation, attention; lists of positions, and
 * compressed entries. The table is in gpu_check_ops.c.
 */
#include "../gpu.h"

#ifndef INFER_NO_GPU

enum { INFER__PROBE_REACH = 11 };

/* Two sequences of INFER__PROBE_LEN positions in pages of a cache on each side. */
typedef struct infer__probe_cache {
    infer__kv_buf k[2], v[2]; /* on the CPU, on the device */
    infer__gpu_heads h;
    int32_t pages;
    uint8_t *bytes; /* the downloaded bytes, and the CPU's keys as rows */
} infer__probe_cache;

static int infer__probe_cache_alloc(infer__prober *k, infer__probe_cache *o) {
    uint64_t slots, kb, vb;
    int32_t g;
    o->pages = 2 * ((INFER__PROBE_LEN + INFER__PAGE - 1) / INFER__PAGE);
    slots = (uint64_t)o->pages * INFER__PAGE * (uint64_t)o->h.n_head_kv;
    kb = slots * infer__kv_bytes(k->side[1].kv_type, o->h.dim_k);
    vb = slots * infer__kv_bytes(k->side[1].kv_type, o->h.dim_v);
    for (g = 0; g < 2; g++) {
        o->k[g].type = o->v[g].type = k->side[1].kv_type;
        if (!k->side[g].ops->alloc(&k->side[g], &o->k[g].buf, kb)) return 0;
        if (!k->side[g].ops->alloc(&k->side[g], &o->v[g].buf, vb)) return 0;
    }
    o->bytes = (uint8_t *)infer__alloc(k->mem, 2 * INFER__MAX(kb, vb));
    if (!o->bytes) return 0;
    memset(o->k[0].buf.host, 0xff, (size_t)kb); /* NaN: values never stored must not be read */
    memset(o->v[0].buf.host, 0xff, (size_t)vb);
    k->side[1].ops->upload(&k->side[1], &o->k[1].buf, 0, o->k[0].buf.host, kb);
    k->side[1].ops->upload(&k->side[1], &o->v[1].buf, 0, o->v[0].buf.host, vb);
    k->side[1].ops->sync(&k->side[1]);
    return 1;
}

static void infer__probe_cache_free(infer__prober *k, infer__probe_cache *o) {
    int32_t g;
    for (g = 0; g < 2; g++) {
        k->side[g].ops->release(&k->side[g], &o->k[g].buf);
        k->side[g].ops->release(&k->side[g], &o->v[g].buf);
    }
    infer__free(k->mem, o->bytes);
}

/* The device's cache against the CPU's, whose keys are transposed: the same bits. */
static void infer__probe_cache_same(infer__prober *k, infer__probe_cache *o) {
    infer__ctx *c = &k->side[1];
    uint64_t kb = o->k[0].buf.bytes, vb = o->v[0].buf.bytes, page = kb / (uint64_t)o->pages;
    uint8_t *rows = o->bytes + INFER__MAX(kb, vb);
    int32_t i;
    c->ops->download(c, &o->k[1].buf, 0, o->bytes, kb);
    c->ops->sync(c);
    for (i = 0; i < o->pages; i++)
        infer__kv_turn(o->k[0].type, o->h.n_head_kv, o->h.dim_k, (uint8_t *)o->k[0].buf.host + (uint64_t)i * page,
                       rows + (uint64_t)i * page, 1);
    k->limit = INFER__PROBE_ROUNDING;
    if (infer__ok(c) && memcmp(o->bytes, rows, (size_t)kb) != 0) k->other_bits = 1;
    c->ops->download(c, &o->v[1].buf, 0, o->bytes, vb);
    c->ops->sync(c);
    if (infer__ok(c) && memcmp(o->bytes, o->v[0].buf.host, (size_t)vb) != 0) k->other_bits = 1;
}

/* n rows from position `first` on, of both sequences alternately, or of the first one. */
static void infer__probe_places(infer__prober *k, int32_t n, int32_t first, int both) {
    int32_t i;
    infer__probe_pass(k, n);
    for (i = 0; i < n; i++) {
        k->side[0].pass.pos[i] = first + (both ? i / 2 : i);
        k->side[0].pass.seq[i] = both ? i % 2 : 0;
    }
}

/* Rows of keys and values into the cache; rope: rotated while stored, with queries, which are compared; 2: after norms
 * of heads. */
static void infer__probe_store(infer__prober *k, infer__probe_cache *o, int32_t n, int32_t first, int both, int rope) {
    const infer__gpu_heads *h = &o->h;
    float host[2 * INFER__PROBE_HALF];
    infer__kv_store_args a;
    infer__rope_args rq, rk;
    infer__norm_args nq, nk;
    infer__weight wq, wk;
    infer__tensor kt, vt, q;
    infer__buf freq[2];
    int32_t g, half = INFER__MIN(h->dim_k / 2, INFER__PROBE_HALF);
    if (!infer__probe_new(k) || (rope && half == 0)) return;
    kt = infer__probe_tensor(k, n, h->n_head_kv * h->dim_k, 3, 1);
    vt = infer__probe_tensor(k, n, h->n_head_kv * h->dim_v, 0, 2);
    q = infer__probe_tensor(k, rope ? n : 1, h->n_head * h->dim_k, 1, 0);
    infer__probe_places(k, n, first, both);
    memset(&a, 0, sizeof a);
    memset(&rq, 0, sizeof rq);
    if (rope && !infer__probe_freq(k, half, host, &freq[0], &freq[1])) rope = 0;
    wq = infer__probe_vector(k, h->dim_k);
    wk = infer__probe_vector(k, rope > 1 ? h->n_head_kv * h->dim_k : 1);
    infer__probe_send(k);
    a.n_head = h->n_head_kv;
    a.dim_k = h->dim_k;
    a.dim_v = h->dim_v;
    rq.n_head = h->n_head;
    rq.dim = h->dim_k;
    rq.n_rot = 2 * half;
    rq.kind = h->rope;
    rq.scale = 1.25f;
    rk = rq;
    rk.n_head = h->n_head_kv;
    memset(&nq, 0, sizeof nq);
    nq.weight = &wq;
    nq.n_groups = h->n_head;
    nq.eps = 1e-5f;
    nk = nq;
    nk.weight = &wk; /* a set for each head */
    nk.n_groups = h->n_head_kv;
    for (g = 0; g < 2; g++) {
        a.k = rk.x = infer__probe_on(k, &kt, g);
        a.v = infer__probe_on(k, &vt, g);
        rq.x = infer__probe_on(k, &q, g);
        a.k_cache = &o->k[g];
        a.v_cache = h->shared ? NULL : &o->v[g];
        rq.freq = rk.freq = &freq[g];
        a.rope_q = rope ? &rq : NULL;
        a.rope_k = rope ? &rk : NULL;
        nq.x = nq.y = rq.x;
        nk.x = nk.y = rk.x;
        a.norm_q = rope > 1 ? &nq : NULL;
        a.norm_k = rope > 1 ? &nk : NULL;
        infer__kv_store(&k->side[g], &a);
    }
    infer__probe_fetch(k);
    if (rope) {
        k->side[1].ops->release(&k->side[1], &freq[1]);
        infer__probe_near(k, &q, 1, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_ignore(k, &kt);
    } else {
        infer__probe_cache_same(k, o);
    }
    infer__probe_end(k, "%d rows, %d heads of %d and %d%s", (int)n, (int)h->n_head_kv, (int)h->dim_k, (int)h->dim_v,
                     rope > 1 ? ", norms, rotated" : rope ? ", rotated" : "");
}

static void infer__probe_attend(infer__prober *k, infer__probe_cache *o, int32_t n, int32_t first, int both,
                                double nmse) {
    const infer__gpu_heads *h = &o->h;
    const int source = (h->sees & INFER__SEES_SOURCE) != 0, biased = (h->sees & INFER__SEES_NEAR) != 0;
    infer__pass *p = &k->side[0].pass;
    infer__attention_args a;
    infer__weight sinks, bias;
    infer__tensor q, y;
    double limit = nmse > 0 ? 0.1 : INFER__PROBE_ROUNDING;
    int32_t g, i;
    if (!infer__probe_new(k)) return;
    q = infer__probe_tensor(k, n, h->n_head * h->dim_k, 1, 0);
    y = infer__probe_tensor(k, n, h->n_head * h->dim_v, 2, 5);
    sinks = infer__probe_vector(k, h->n_head);
    bias = infer__probe_weight(k, infer__quant_find(0, NULL), h->n_head, 2 * INFER__PROBE_REACH + 1);
    infer__probe_places(k, n, first, both);
    memset(&a, 0, sizeof a);
    a.around = (h->sees & INFER__SEES_AROUND) != 0;
    a.source = a.group = source;
    if (biased) a.bias = &bias;
    a.reach = INFER__PROBE_REACH;
    for (i = 0; i < n; i++)
        k->end[i] = p->pos[both ? n - 2 + (i ^ n) % 2 : n - 1] + 1; /* the last one of the sequence */
    for (i = 0; i < 2; i++) k->source[i] = first + 1 + i;
    if (a.around || h->sees & INFER__SEES_LATER) p->end = k->end;
    a.causal = h->sees & INFER__SEES_LATER && (h->window == 2 || h->max_bias > 0 || h->temp_scale != 0);
    if (source) p->source = k->source;
    a.n_head = h->n_head;
    a.n_head_kv = h->n_head_kv;
    a.dim_k = h->dim_k;
    a.dim_v = h->dim_v;
    a.window = h->window == 1 ? 33 : 0;
    a.chunk = h->window == 2 ? 33 : 0;
    a.scale = h->scale;
    a.softcap = h->softcap;
    a.max_bias = h->max_bias;
    a.temp_scale = h->temp_scale;
    a.temp_floor = 32;
    a.temp_offset = 20;
    a.sinks = h->sinks ? &sinks : NULL;
    a.k_cache = &o->k[1];
    a.v_cache = h->shared ? &o->k[1] : &o->v[1];
    infer__probe_send(k);
    if (infer__gpu_attention_tiled(&k->side[1]) && infer__gpu_flash_kernel(&k->side[1], &a) >= 0) {
        const int halves = o->k[1].type == INFER_KV_BF16 ? 2 : 1;
        limit = INFER__PROBE_LIMITS[halves];
        nmse = INFER__PROBE_NMSES[halves];
    }
    for (g = 0; g < 2; g++) {
        a.q = infer__probe_on(k, &q, g);
        a.y = infer__probe_on(k, &y, g);
        a.k_cache = &o->k[g];
        a.v_cache = h->shared ? &o->k[g] : &o->v[g];
        k->side[g].ops->attention(&k->side[g], &a);
    }
    p->end = p->source = NULL;
    infer__probe_fetch(k);
    infer__probe_near(k, &y, 1, NULL, limit, nmse);
    infer__probe_end(k, "%d rows, %d of %d heads of %d and %d, %d positions%s%s%s%s%s%s%s", (int)n, (int)h->n_head,
                     (int)h->n_head_kv, (int)h->dim_k, (int)h->dim_v, (int)(first + (both ? (n + 1) / 2 : n)),
                     h->window == 2 ? ", chunks of 33" : h->window ? ", window 33" : "",
                     h->softcap > 0 ? ", soft-capped" : "",
                     h->max_bias > 0 ? ", ALiBi" : "", h->sinks ? ", sinks" : "", h->shared ? ", shared" : "",
                     source ? " of a source" : a.around || h->sees & INFER__SEES_LATER ? ", later ones too" : "",
                     biased ? ", biases" : "");
}

/* A tile of adjacent rows: on tensor cores, if the device has them, in one part and in two; and as float. */
static void infer__probe_tile(infer__prober *k, infer__probe_cache *o) {
    const int32_t n = INFER__MAX(o->h.dim_k, o->h.dim_v) > 128 ? 11 : 35, first = INFER__PROBE_LEN - n;
    infer__ctx *c = &k->side[1];
    const int exact = c->exact;
    if (k->uses->exact & 1 && infer__gpu_find(c->run, INFER__MODULE_FLASH, o->k[1].type)) {
        infer__probe_attend(k, o, n, first, 0, 0);
        c->run->flash_parts = 2;
        infer__probe_attend(k, o, n, first, 0, 0);
        c->run->flash_parts = 0;
        if (!(k->uses->exact & 2)) return;
    }
    c->exact = 1;
    infer__probe_attend(k, o, n, first, 0, 0);
    c->exact = exact;
}

/* A cache of this shape, used by `run`. */
static void infer__probe_cached(infer__prober *k, const infer__gpu_heads *h, int fill,
                                void (*run)(infer__prober *k, infer__probe_cache *o)) {
    infer__probe_cache o;
    memset(&o, 0, sizeof o);
    o.h = *h;
    if (infer__probe_new(k) && infer__probe_cache_alloc(k, &o)) {
        if (fill) infer__probe_store(k, &o, 2 * INFER__PROBE_LEN, 0, 1, 0);
        run(k, &o);
    } else if (!k->over) infer__probe_end(k, "a cache of %d positions", 2 * (int)INFER__PROBE_LEN);
    infer__probe_cache_free(k, &o);
}

/* Attention: few rows in one part, in several, a tile of adjacent rows; then with rotated keys. */
static void infer__probe_heads(infer__prober *k, infer__probe_cache *o) {
    infer__probe_attend(k, o, 3, 20, 1, 0);
    infer__probe_attend(k, o, 3, INFER__PROBE_LEN - 2, 1, 0);
    infer__probe_tile(k, o);
    if (o->h.rope == INFER__ROPE_NONE) return;
    infer__probe_store(k, o, 4, 30, 1, 1); /* a key may be rounded differently in the last digit */
    infer__probe_attend(k, o, 3, INFER__PROBE_LEN - 2, 1, 1e-4);
    if (!(k->uses->norms >> INFER__NORM_RMS & 1)) return;
    infer__probe_store(k, o, 4, 20, 1, 2);
    infer__probe_attend(k, o, 3, INFER__PROBE_LEN - 2, 1, 1e-4);
}

static void infer__probe_attention(infer__prober *k) {
    int32_t i;
    for (i = 0; i < k->uses->n_heads; i++) infer__probe_cached(k, &k->uses->heads[i], 1, infer__probe_heads);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

enum { INFER__PROBE_TOP = 9, INFER__PROBE_BLOCK = 4, INFER__PROBE_LIST = 1 + INFER__PROBE_TOP * INFER__PROBE_BLOCK };

/* Positions chosen by scores: for all heads single ones, for each K/V head blocks. */
static void infer__probe_index(infer__prober *k, infer__probe_cache *o, int blocks) {
    const int32_t dim = o->h.dim_k, sets = blocks ? 2 : 1;
    infer__index_args a;
    infer__tensor q, w, y;
    int32_t g;
    if (!infer__probe_new(k)) return;
    q = infer__probe_tensor(k, 3, 2 * dim, 3, 1);
    w = infer__probe_tensor(k, 3, 2, 1, 2);
    y = infer__probe_tensor(k, 3, sets * INFER__PROBE_LIST, 1, 3);
    infer__probe_places(k, 3, INFER__PROBE_LEN - 2, 1);
    infer__probe_send(k);
    memset(&a, 0, sizeof a);
    a.heads = 2;
    a.dim = dim;
    a.top = INFER__PROBE_TOP;
    a.block = blocks ? INFER__PROBE_BLOCK : 1;
    a.local = blocks;
    for (g = 0; g < 2; g++) {
        a.q = infer__probe_on(k, &q, g);
        if (!blocks) a.w = infer__probe_on(k, &w, g);
        a.y = infer__probe_on(k, &y, g);
        a.k_cache = &o->k[g];
        k->side[g].ops->index(&k->side[g], &a);
    }
    infer__probe_fetch(k); /* the same bits */
    k->limit = INFER__PROBE_ROUNDING;
    infer__probe_end(k, "3 rows, %d of %d positions", (int)(a.top * a.block), (int)INFER__PROBE_LEN);
}

/* Attention to lists, in two sets. The lists are made here, since those of a wrong kernel could be anything. */
static void infer__probe_listed(infer__prober *k, infer__probe_cache *o) {
    const infer__gpu_heads *h = &o->h;
    infer__attention_args a;
    infer__tensor lists, q, y;
    int32_t g, r, i;
    if (!infer__probe_new(k)) return;
    lists = infer__probe_tensor(k, 3, 2 * INFER__PROBE_LIST, 1, 3);
    q = infer__probe_tensor(k, 3, h->n_head * h->dim_k, 1, 0);
    y = infer__probe_tensor(k, 3, h->n_head * h->dim_v, 2, 5);
    for (r = 0; r < 6; r++) {
        int32_t *list = infer__index_list(&lists, r / 2, r % 2, 2);
        list[0] = INFER__PROBE_LIST - 1 - r;
        for (i = 0; i < list[0]; i++) list[1 + i] = (r + 2 * i) % (INFER__PROBE_LEN - 2);
    }
    infer__probe_places(k, 3, INFER__PROBE_LEN - 2, 1);
    infer__probe_send(k);
    memset(&a, 0, sizeof a);
    a.n_head = h->n_head;
    a.n_head_kv = h->n_head_kv;
    a.dim_k = h->dim_k;
    a.dim_v = h->dim_v;
    a.scale = h->scale;
    a.chosen_sets = 2;
    for (g = 0; g < 2; g++) {
        a.q = infer__probe_on(k, &q, g);
        a.y = infer__probe_on(k, &y, g);
        a.chosen = infer__probe_on(k, &lists, g);
        a.k_cache = &o->k[g];
        a.v_cache = &o->v[g];
        k->side[g].ops->attention(&k->side[g], &a);
    }
    infer__probe_fetch(k);
    infer__probe_near(k, &y, 1, NULL, INFER__PROBE_ROUNDING, 0);
    infer__probe_end(k, "3 rows, lists of %d positions", (int)INFER__PROBE_LIST - 1);
}

static void infer__probe_choose(infer__prober *k, infer__probe_cache *o) {
    infer__probe_index(k, o, 0);
    infer__probe_index(k, o, 1);
}

static void infer__probe_lists(infer__prober *k) {
    static const infer__gpu_heads one = { 5, 1, 40, 33, 0, 0, INFER__ROPE_NONE, 0, 0.2f, 0, 0, 0, 0 },
                                  two = { 6, 2, 40, 33, 0, 0, INFER__ROPE_NONE, 0, 0.2f, 0, 0, 0, 0 };
    infer__probe_cached(k, &one, 1, infer__probe_choose);
    infer__probe_cached(k, &two, 1, infer__probe_listed);
}

/* Entries of 4 positions that overlap; of 16 whose mean it is. Their inputs are stored before. In a cache of few bits a
 * value may be rounded differently. */
static void infer__probe_entries_case(infer__prober *k, infer__probe_cache *o, int mean) {
    enum { N = 64, COLS = 4 * 40 + 3 };
    const int32_t every = mean ? 16 : 4, dim = o->h.dim_k;
    float host[2 * INFER__PROBE_HALF], got[64], want[64];
    double sum = 0, norm = 0;
    infer__kv_buf rows[2];
    infer__rows_store_args store;
    infer__compress_args a;
    infer__weight place, weights;
    infer__tensor x;
    infer__buf freq[2];
    uint64_t i;
    int32_t g;
    if (!infer__probe_new(k)) return;
    memset(rows, 0, sizeof rows);
    memset(&a, 0, sizeof a);
    x = infer__probe_tensor(k, N, COLS, 1, 2);
    place = infer__probe_weight(k, infer__quant_find(0, NULL), every, 2 * dim);
    weights = infer__probe_vector(k, dim);
    infer__probe_places(k, N, 0, 0);
    a.rope.kind = INFER__ROPE_PAIRS;
    a.rope.n_rot = 16;
    a.rope.scale = 1.25f;
    for (g = 0; g < 2; g++) {
        rows[g].type = INFER_KV_F32;
        if (!k->side[g].ops->alloc(&k->side[g], &rows[g].buf, (uint64_t)o->pages * INFER__PAGE * COLS * sizeof(float)))
            break;
    }
    if (g == 2 && infer__probe_freq(k, a.rope.n_rot / 2, host, &freq[0], &freq[1])) {
        infer__probe_send(k);
        memset(rows[0].buf.host, 0, (size_t)rows[0].buf.bytes); /* not what an earlier check left in memory */
        k->side[1].ops->upload(&k->side[1], &rows[1].buf, 0, rows[0].buf.host, rows[0].buf.bytes);
        k->side[1].ops->sync(&k->side[1]);
        a.width = COLS;
        a.first = 3;
        a.dim = dim;
        a.n_rows = N;
        a.every = every;
        a.overlap = !mean;
        a.place = mean ? NULL : &place;
        a.norm = &weights;
        a.eps = 1e-5f;
        for (g = 0; g < 2; g++) {
            store.x = infer__probe_on(k, &x, g);
            store.rows = &rows[g];
            store.group = 0;
            a.rows = &rows[g];
            a.entries = &o->k[g];
            a.rope.freq = &freq[g];
            k->side[g].ops->rows_store(&k->side[g], &store);
            k->side[g].ops->compress(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        k->side[1].ops->download(&k->side[1], &o->k[1].buf, 0, o->bytes, o->k[1].buf.bytes);
        k->side[1].ops->sync(&k->side[1]);
        k->side[1].ops->release(&k->side[1], &freq[1]);
        for (i = 0; infer__ok(&k->side[1]) && i < N / (uint64_t)every; i++) {
            const uint8_t *at = infer__kv_entry(&k->side[0].pass, &o->k[0], 0, every, 0, (int32_t)i, dim);
            const infer__kv_reader *read = &infer__flash_find(0)->kv[o->k[0].type];
            const uint64_t offset = (uint64_t)(at - (const uint8_t *)o->k[0].buf.host);
            read->values(want, at, dim, 0, 0, 0);
            read->values(got, o->bytes + offset, dim, 0, 0, 0);
            infer__probe_numbers(k, got, want, (uint64_t)dim, 1e6, NULL, &sum, &norm);
        }
        k->limit = 1;
        k->nmse = sum < INFER__PROBE_BAD ? sum / (norm + 1e-30) : INFER__PROBE_BAD;
        k->nmse_limit = o->k[0].type == INFER_KV_F32 ? 1e-11 : 1e-4;
    }
    for (g = 0; g < 2; g++) k->side[g].ops->release(&k->side[g], &rows[g].buf);
    infer__probe_end(k, "%d rows of %d, an entry for %d%s", (int)N, (int)COLS, (int)every, mean ? ", their mean" : "");
}

static void infer__probe_made(infer__prober *k, infer__probe_cache *o) {
    infer__probe_entries_case(k, o, 0);
    infer__probe_entries_case(k, o, 1);
}

static void infer__probe_entries(infer__prober *k) {
    static const infer__gpu_heads heads = { 1, 1, 40, 1, 0, 0, INFER__ROPE_NONE, 0, 0.2f, 0, 0, 0, 0 };
    infer__probe_cached(k, &heads, 0, infer__probe_made);
}

#endif
