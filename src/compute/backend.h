/* backend.h: the op vtable: the operations of a forward pass, whatever runs them.
 *
 * Owns:  infer__ctx (one pass: values per token, sticky error, kernels), tensors, weights, op arguments, infer__ops.
 * Rules: an op never returns an error; it calls infer__fail, and later ops do nothing (the caller checks once, at the
 *        end). Nothing allocates during a pass. Arguments are fixed for a shape; what changes per token (ids,
 *        positions, page tables) is in infer__pass, one buffer written once per pass, so that a recorded graph stays
 *        valid. Knows no layers, architectures or files.
 * Sums:  every sum has a fixed order that depends on neither threads nor batch: dot products walk K in INFER__LANES
 *        accumulators (lane = k % INFER__LANES, lanes added pairwise at the end: infer__sum_lanes), attention walks
 *        keys in chunks of INFER__KV_CHUNK positions counted from position 0, and the results of every INFER__KV_SPLIT
 *        positions are merged in order.
 */
#ifndef INFER__BACKEND_H
#define INFER__BACKEND_H

#include "../base/base.h"
#include "../quant/quant_types.h"

enum {
    INFER__LANES = 16,    /* accumulators of a dot product: one AVX-512 register, two AVX2, four NEON */
    INFER__PAGE = 16,     /* positions in a cache page */
    INFER__KV_CHUNK = 64, /* positions per step of online softmax: a multiple of INFER__PAGE */
    INFER__KV_SPLIT = 512, /* positions after which it restarts: a multiple of INFER__KV_CHUNK */
    INFER__KV_BLOCK = 32, /* values in a block of a Q8_0 or Q4_0 cache */
    INFER__MAX_DIM = 1 << 24, /* of a row: keeps int32 products of indices in range where they are small */
    INFER__MAX_HEAD_DIM = 1024, /* so that one head's accumulators fit on a worker's scratch */
    INFER__CACHE_GROUPS = 2, /* of pages, 0: layers that keep everything, 1: sliding-window layers */
    INFER__AXES = 4, /* positions of a row, for rotation */
    INFER__ROPE_SETS = 4 /* sets of RoPE frequencies that a model may have */
};

typedef struct infer__ctx infer__ctx;
typedef struct infer__ops infer__ops;

/* Memory of a backend: host on the CPU, handle on a device (the driver's). */
typedef struct infer__buf {
    void *host;
    uint64_t handle;
    uint64_t bytes;
} infer__buf;

/* Activations: rows x cols float32, rows `stride` floats apart. A view into a buffer; made by the forward pass. */
typedef struct infer__tensor {
    infer__buf *buf;
    uint64_t offset; /* bytes */
    int32_t rows, cols, stride;
} infer__tensor;

/* A matrix of the file (or a slice of its rows): rows x cols values of one storage type, y = W x gives `rows` values.
 * data points into the mapped file, which the CPU reads. On a device buf holds matrices as they are in the file, and
 * vectors (norms, biases, scales) as float32 whatever their type. */
typedef struct infer__weight {
    const infer__quant *type; /* NULL = absent */
    const void *data;
    const infer__buf *buf;    /* on a device; offset in bytes, a multiple of 4 */
    uint64_t offset;
    int32_t rows, cols;
    uint64_t row_bytes;
    const char *name;
    int32_t tensor;           /* of the file: 1 + its index, 0 = derived; */
    int32_t first;            /* its row that is this one's first */
    uint64_t at;              /* release.c: 1 + offset of data in the tensor's bytes, 0 = not from the file */
    /* parts.c: of every `each` rows of the tensor (a matrix, or an expert's) only `held` from row `here` on are in this
     * process, and data is of that row; `step` rows further are those of the next expert. each 0 = all are here */
    int32_t each, here, held, step;
    const float *range;       /* lowest and highest value of inputs, and of results, which are clamped; NULL = none */
    const struct infer__weight *low; /* two: A and B of the addition to its products, see switched.c; NULL = none */
} infer__weight;

/* Rows of it that are here. */
INFER__INLINE int64_t infer__weight_held(const infer__weight *w) {
    return w->each ? (int64_t)INFER__MAX(w->rows / w->each, 1) * w->held : w->rows;
}

/* Values per token of one pass: one block of int32 that a device gets in one upload. Pointers point into `block`. */
typedef struct infer__pass {
    int32_t n_rows, n_out, n_seq;
    int32_t *block;
    int64_t block_len;
    int32_t *ids;  /* n_rows: token, or -1 when the row's embedding was given */
    int32_t *pos;  /* n_rows: position in its sequence */
    int32_t *end;  /* n_rows: rows attend to positions below it, also later ones; NULL = up to their own (causal) */
    /* n_rows each: where rows are on up to four axes, for rotation alone (M-RoPE: text has pos on all); NULL = pos */
    const int32_t *axis[INFER__AXES];
    const uint8_t *axes; /* n_axes: of pairs, as in infer__rope_args; where there is axis[0], for devices */
    int32_t n_axes;
    int32_t *seq;  /* n_rows: 0..n_seq-1 */
    int32_t *looked, looks; /* n_rows x looks: rows of a table (n-grams, kinds of tokens); 0 = none */
    int32_t *out;  /* n_out: rows whose results are wanted, ascending */
    int32_t *extended; /* n_seq: 1 = the long RoPE frequencies (longrope) */
    int32_t *pages[INFER__CACHE_GROUPS]; /* n_seq x max_pages: page of positions [i*PAGE, (i+1)*PAGE), -1 = none */
    int32_t max_pages;
    int32_t *source; /* n_seq: positions of its source, which pages[1] are of; NULL = sequences have none */
    int32_t *cell_in, *cell_out; /* n_seq: cells of recurrent state before the pass (-1: all zeros) and after it */
} infer__pass;

/* Keys or values of one layer: pages of [n_head][INFER__PAGE] rows. A row is one head's dim values: numbers, or blocks
 * of INFER__KV_BLOCK as in files (Q8_0, Q4_0), the last one padded. The CPU stores a page's keys transposed, the same
 * bytes in another order: see cpu_kv.c. */
typedef struct infer__kv_buf {
    infer__buf buf;
    int32_t type; /* infer_kv_type, resolved: never DEFAULT */
} infer__kv_buf;
/* INFER__CACHE(name, rows): rows of tables for a type of caches that this build has; F32 is always there. */
#if defined(INFER_ONLY_CACHES)
#  define INFER__CACHE(name, ...) INFER__IF(INFER_CACHE_##name, __VA_ARGS__,)
#  define INFER__CACHE_BIT(name, type) INFER__IF(INFER_CACHE_##name, | 1 << type)
#else
#  define INFER__CACHE(name, ...) __VA_ARGS__,
#  define INFER__CACHE_BIT(name, type) | 1 << type
#endif
enum { /* a bit per type */
    INFER__CACHES = 1 << INFER_KV_F32 INFER__CACHE_BIT(f16, INFER_KV_F16) INFER__CACHE_BIT(bf16, INFER_KV_BF16)
                    INFER__CACHE_BIT(q8_0, INFER_KV_Q8_0) INFER__CACHE_BIT(q4_0, INFER_KV_Q4_0)
};
/* Bytes of a row of dim values. */
INFER__INLINE uint64_t infer__kv_bytes(int32_t type, int32_t dim) {
    uint64_t n = (uint64_t)dim, blocks = (n + INFER__KV_BLOCK - 1) / INFER__KV_BLOCK;
    if (type == INFER_KV_Q8_0) return 34 * blocks;
    if (type == INFER_KV_Q4_0) return 18 * blocks;
    return type == INFER_KV_F32 ? 4 * n : 2 * n;
}
/* Rows of a page whose slot has one for every `every` positions, and how many there are before position pos. */
INFER__INLINE int32_t infer__page_rows(int32_t every) {
    return every <= 1 ? INFER__PAGE : every < INFER__PAGE ? INFER__PAGE / every : 1;
}
INFER__INLINE int32_t infer__rows_before(int32_t every, int32_t pos) { return every <= 1 ? pos : pos / every; }
/* Bytes before the rows of (page, head) in a cache buffer. */
INFER__INLINE uint64_t infer__kv_offset(int32_t type, int32_t page, int32_t head, int32_t n_head, int32_t dim) {
    return ((uint64_t)page * (uint64_t)n_head + (uint64_t)head) * INFER__PAGE * infer__kv_bytes(type, dim);
}

/* ---- op arguments ------------------------------------------------------------------------------ */

/* y[i] = table[ids[i]] * scale (+ positions[pos[i]]); rows whose id is -1 keep their content (except for + positions),
 * or get the table's row 0 with `pad`. looked: by the pass's `looked` instead of ids. add: to
 * what is there. */
typedef struct infer__embed_args {
    infer__tensor y;
    const infer__weight *table, *positions; /* positions may be NULL */
    float scale;
    int32_t pad, looked, add;
} infer__embed_args;
static const int32_t *infer__embed_ids(const infer__pass *p, const infer__embed_args *a);

/* y = rows of x named by pass->out */
typedef struct infer__get_rows_args { infer__tensor x, y; } infer__get_rows_args;

enum { INFER__NORM_RMS, INFER__NORM_LAYER };
/* Each group of cols/n_groups values is normalised: RMS: x / sqrt(mean(x^2) + eps); LAYER: (x - mean) / sqrt(var +
 * eps); then * weight + bias. n_groups > 1: heads; weight and bias have cols/n_groups values (shared) or cols (one set
 * per head). weight, bias may be NULL. x and y may be the same. */
typedef struct infer__norm_args {
    infer__tensor x, y;
    const infer__weight *weight, *bias;
    int32_t kind, n_groups;
    float eps;
} infer__norm_args;

/* 1 when weight or bias (NULL = none) has a value for each of a group, or for each of a row: for assertions. */
INFER__INLINE int infer__norm_fits(const infer__norm_args *a, const infer__weight *w) {
    int64_t n = w ? (int64_t)w->rows * w->cols : 0;
    return !w || n == a->x.cols || n == a->x.cols / a->n_groups;
}

/* Low-rank additions (LoRA, arXiv 2106.09685) to the results of up to three matrices for the same rows:
 * y[p.of] += p.scale * B A x for every part p, in order, for its rows. a: [rank][x.cols]; b: B transposed, in the
 * layout of `mix` of infer__kernels; its columns first, first + 1, .. are y's. With ids they are pairs of matrices of
 * experts, one after the other; rows are tokens, and per_expert_x and weights mean what they do in
 * infer__moe_matmul_args. On the host a and b are of `kind`; on a device float32 at these offsets (bytes) of buf, where
 * B is not transposed: [width][rank].
 * room: for the values of A x of all parts; on a device also for those of B A x of one. */
enum { INFER__LOW_PARTS = 16 };
enum { INFER__LOW_F32, INFER__LOW_F16, INFER__LOW_BF16 };
INFER__INLINE int32_t infer__low_bytes(int32_t kind) { return kind == INFER__LOW_F32 ? 4 : 2; }
/* Number of values of B transposed, padded to whole blocks of columns. */
INFER__INLINE int64_t infer__low_turned(int32_t rank, int32_t width) {
    return (int64_t)rank * ((width + INFER__LANES - 1) / INFER__LANES * INFER__LANES);
}
typedef struct infer__low_part {
    int32_t of, row, rows, rank, width, first, kind;
    float scale;
    const uint8_t *a, *b;
    const infer__buf *buf;
    uint64_t a_at, b_at;
} infer__low_part;
typedef struct infer__low_args {
    infer__tensor x, y[3], ids, weights; /* ids.buf NULL: there are no experts; weights.buf NULL = none */
    infer__buf *room;
    int32_t n_expert, n_used, per_expert_x, n_parts;
    infer__low_part parts[INFER__LOW_PARTS];
} infer__low_args;

/* y[j] = x * w[j]^T (+ b[j]), j < n_w: up to three weights sharing an input, so that it is prepared once.
 * x is n x cols, w is rows x cols, y is n x rows. */
typedef struct infer__matmul_args {
    infer__tensor x;
    int32_t n_w;
    const infer__weight *w[3], *b[3]; /* b[j] may be NULL */
    infer__tensor y[3];
    /* Ops before and after this one that a backend may fuse with it; then intermediate results (x, y[j]) need not be
     * written. NULL = none. See infer__matmul. */
    const struct infer__norm_args *norm; /* gives x: norm->y is x */
    int32_t keep;                        /* 1: others read x, too, so it must be written */
    const infer__low_args *low;          /* of x and y */
    const struct infer__act_args *act;   /* of y[1] with up = y[0] into y[0], or of y[0] alone when n_w is 1 */
    const struct infer__add_args *add;   /* of y[0]: add->x is y[0]; n_w is 1 */
    const infer__weight *next; /* the matrix of the next product, after other ops: may be prefetched. NULL = unknown */
} infer__matmul_args;

enum { INFER__ROPE_NONE, INFER__ROPE_PAIRS, INFER__ROPE_HALVES };
/* Rotate the first n_rot values of every head of x (rows x n_head*dim), by angle pos * freq[i], i < n_rot/2; PAIRS
 * rotates (2i, 2i+1), HALVES (i, i + n_rot/2), backwards with `back`; cos and sin are multiplied by `scale` (YaRN's
 * magnitude). freq holds two sets of n_rot/2 float32: normal and extended (see infer__pass). Source: RoFormer, arXiv
 * 2104.09864. */
typedef struct infer__rope_args {
    infer__tensor x;
    int32_t n_head, dim, n_rot, kind, back;
    const infer__buf *freq; /* on a device: revolutions per position, as sums of two float32 */
    const uint8_t *axes;    /* n_rot/2: the axis whose position rotates the pair; NULL = the row's position */
    float scale;
    int32_t blocks; /* the n_rot values are so many parts, each with pairs of its own; 0 = one */
} infer__rope_args;

/* Store rows of k and v (rows x n_head*dim) into the cache pages of their positions. v_cache NULL: of k alone. */
typedef struct infer__kv_store_args {
    infer__tensor k, v;
    infer__kv_buf *k_cache, *v_cache;
    int32_t group, n_head, dim_k, dim_v;
    const infer__rope_args *rope_q,
        *rope_k; /* to fuse: rotations of q, which is written, and of k, which need not be. NULL = none */
    const infer__norm_args *norm_q, *norm_k; /* and norms of heads before that, in place. NULL = none */
} infer__kv_store_args;

/* Rows of x, as they are, into the pages of their positions; the slot's type is float32. */
typedef struct infer__rows_store_args {
    infer__tensor x;
    infer__kv_buf *rows;
    int32_t group;
} infer__rows_store_args;

/* A page of a cache buffer, and the same as rows in the host's memory: [n_head][INFER__PAGE][dim], position by
 * position, the format of saved sessions. keys: the CPU stores them transposed. every: see infer__page_rows. spare:
 * scratch of the same size. import may change rows, which must stay valid until the next sync. */
typedef struct infer__kv_page_args {
    infer__kv_buf *buf;
    int32_t page, n_head, dim, keys, every;
    void *rows, *spare;
} infer__kv_page_args;
INFER__INLINE uint64_t infer__kv_page_bytes(const infer__kv_page_args *a) {
    return (uint64_t)infer__page_rows(a->every) * (uint64_t)a->n_head * infer__kv_bytes(a->buf->type, a->dim);
}

/* For every row and head: softmax(softcap(scale * temp(pos) * q.k) + slope * (kpos - pos)) v over the positions of the
 * row's sequence that it sees (infer__row_sees): those below pass->end, and of them the last `window` up to its own,
 * and those of its own chunk of `chunk` positions (Llama 4); around: the window is centred on the row, window / 2
 * positions on either side, and slopes count distances on both. Head h reads K/V head h / (n_head / n_head_kv).
 * softcap(x) = cap * tanh(x / cap), 0 = none. slopes from max_bias (ALiBi, arXiv 2108.12409), 0 = none.
 * temp(pos) = log(floor((pos + temp_offset) / temp_floor) + 1) * temp_scale + 1, temp_scale 0 = none.
 * sinks: n_head values, NULL = none: each is one more score of its head's softmax, used as it is (no scale, cap or
 * slope), without a value: it takes a share of the weights and contributes nothing (gpt-oss; idea: arXiv 2309.17453).
 * bias: n_head x (2 * reach + 1) float32, NULL = none: added to the score of a key by its distance ahead of the row,
 * clamped to -reach .. reach (relative positions: T5, arXiv 1910.10683). Without softcap. source: rows attend to all
 * positions of their sequence's encoded input (cross attention), whatever their own position. chosen: the lists of
 * infer__index_args (buf NULL = none): a row attends only to those positions, K/V head g those of set g * chosen_sets /
 * n_head_kv. Without window, chunk and slopes. A number i below 0 in a list is entry -1 - i of `more` (compressed
 * attention), which has one entry per more_every positions. */
typedef struct infer__attention_args {
    infer__tensor q, y; /* rows x n_head*dim_k, rows x n_head*dim_v */
    /* v_cache may be k_cache: then a value is the first dim_v of its key (latent attention) */
    const infer__kv_buf *k_cache, *v_cache;
    int32_t group, n_head, n_head_kv, dim_k, dim_v, window, chunk; /* 0 = none */
    float scale, softcap, max_bias, temp_scale, temp_floor, temp_offset;
    const infer__weight *sinks, *bias;
    int32_t reach, around, source;
    int32_t causal; /* 1 = rows see positions up to their own whatever pass->end is */
    infer__tensor chosen;
    const infer__kv_buf *more; /* NULL = none; n_head_kv is 1, and v_cache k_cache */
    int32_t chosen_sets, more_every, more_group;
} infer__attention_args;

/* Compressed attention (DeepSeek V4): positions (e * every .. (e + 1) * every - 1) make entry e, which is written by
 * the row with its last position. `rows` holds [width] float32 for each position; from `first` on there are n = dim
 * (twice that with `overlap`) values to be summed, and n scores of them; place has n more for each of `every`
 * positions. Value i of the sum: values i of the positions, weighted by the softmax of score i + place i. With overlap
 * values and scores i are those of the `every` positions before (except for entry 0), and values and scores dim + i of
 * its own. place NULL: there are no scores; the sum is the mean, and the first n_rot values are rotated.
 * The entry is the RMS norm of the sum, with the last n_rot values rotated to its first position (rope.x is not used;
 * kind NONE: not rotated). */
typedef struct infer__compress_args {
    const infer__kv_buf *rows;
    infer__kv_buf *entries;
    int32_t rows_group, group, n_rows, width, first, dim, every, overlap;
    const infer__weight *place, *norm;
    float eps;
    infer__rope_args rope;
} infer__compress_args;

/* The choice of an indexer among the positions up to a row's own (DeepSeek Sparse Attention: the DeepSeek-V3.2-Exp
 * report). Keys are one head of dim values, in k_cache. The score of position s is, with w, the sum over the heads h,
 * in order, of w[h] * max(q[h] . key s, 0), and there is one set; without w each head has a set of its own, scored by
 * q[h] . key s (MiniMax M3), unless `sum` says that w is 1 for all. Positions are in blocks of `block`, counted from 0,
 * the score of one is its largest; the
 * `top` blocks with the largest scores are chosen, the last `local` ones up to the row's own before all others. The
 * lower block comes first among equals, NaN last. every (0, 1 = none): k_cache has one entry per `every` positions, and
 * entries are chosen instead of positions; a row may choose those whose positions are all up to its own. Only with
 * block 1. gives: what is listed for an entry. q.buf NULL: all are chosen. y: a row has `sets` lists of int32 (bits):
 * the count, then the numbers; y.cols / sets is large enough. */
enum {
    INFER__INDEX_POSITIONS, /* of the session, ascending; with every 0 */
    INFER__INDEX_RUNS,      /* an entry's positions, and then those up to the row's own that are not part of one yet */
    INFER__INDEX_ENTRIES    /* -1 - entry, and then the last `window` positions up to the row's own */
};
typedef struct infer__index_args {
    infer__tensor q, w, y; /* rows x heads*dim, rows x heads (buf NULL = none), as said */
    const infer__kv_buf *k_cache;
    int32_t group, heads, dim, top, block, local, every, sum, gives, window;
} infer__index_args;
INFER__INLINE int32_t infer__index_sets(const infer__index_args *a) {
    return !a->q.buf || a->w.buf || a->sum ? 1 : a->heads;
}
/* The list of a row and set. */
INFER__INLINE int32_t *infer__index_list(const infer__tensor *y, int32_t row, int32_t set, int32_t sets) {
    return (int32_t *)((char *)y->buf->host + y->offset) + (int64_t)row * y->stride + (int64_t)set * (y->cols / sets);
}

/* The positions [*lo, *hi) that row r of the pass sees. */
INFER__INLINE void infer__row_sees(const infer__pass *p, const infer__attention_args *a, int32_t r, int32_t *lo,
                                   int32_t *hi) {
    int32_t pos = p->pos[r];
    if (a->source) {
        *lo = 0;
        *hi = p->source[p->seq[r]];
        return;
    }
    *hi = p->end && !a->causal ? p->end[r] : pos + 1;
    if (a->around && a->window > 0) {
        *lo = INFER__MAX(pos - a->window / 2, 0);
        *hi = (int32_t)INFER__MIN(*hi, (int64_t)pos + a->window / 2 + 1);
        return;
    }
    *lo = a->window > 0 && pos >= a->window ? pos - a->window + 1 : 0;
    if (a->chunk <= 0) return;
    *lo = INFER__MAX(*lo, pos / a->chunk * a->chunk);
    *hi = (int32_t)INFER__MIN((int64_t)*hi, ((int64_t)pos / a->chunk + 1) * a->chunk);
}

enum {
    INFER__ACT_SILU,
    INFER__ACT_GELU_TANH,
    INFER__ACT_GELU_ERF,
    INFER__ACT_RELU,
    INFER__ACT_RELU2,
    INFER__ACT_SIGMOID,
    INFER__ACT_TANH,
    INFER__ACTS_TAKEN, /* those above can be fused with products */
    INFER__ACT_GELU_SIGMOID = INFER__ACTS_TAKEN, /* x * sigmoid(1.702 x): arXiv 1606.08415 */
    INFER__ACT_SOFTPLUS, /* log(1 + exp x) */
    INFER__ACTS, /* how many take one value and no parameters */
    INFER__ACT_XIELU = INFER__ACTS,
    INFER__ACT_LINEAR, /* x as it is */
    INFER__ACT_SITU    /* of several ops: infer__act_run */
};
/* y = act(x) (* up when up.buf is set) (/ divide[col] when divide is set). y may be x or up. With limit > 0, x is first
 * clamped to at most limit, and up to -limit .. limit; limit_after: act(x) is clamped instead of x (Step 3.5); up_add
 * is added to up (gpt-oss: limit 7, up_add 1). Where x has fewer columns than y, each applies to y.cols / x.cols
 * adjacent columns (a gate for a whole row, or for a head).
 * XIELU (arXiv 2411.13010), with `xielu` = alpha_p, alpha_n, beta, eps: alpha_p x^2 + beta x above 0, else
 * alpha_n (exp(min(x, eps)) - 1 - x) + beta x. */
typedef struct infer__act_args {
    infer__tensor x, up, y;
    const infer__weight *divide;
    int32_t kind, limit_after;
    float limit, up_add;
    float xielu[4];
} infer__act_args;
/* 1 when nothing is clamped, added or broadcast. */
INFER__INLINE int infer__act_plain(const infer__act_args *a) {
    return a->limit == 0 && a->up_add == 0 && a->x.cols == a->y.cols;
}

typedef struct infer__add_args { infer__tensor x, y; float scale; } infer__add_args; /* y += x * scale */
/* y = cap * tanh(x * scale / cap) (cap 0 = none), then clamped to [-clamp, clamp] (0 = none), in place; or to range[0]
 * .. range[1] (NULL = none), of which the first is not above the second */
typedef struct infer__map_args { infer__tensor x; float scale, cap, clamp; const float *range; } infer__map_args;

enum { INFER__MAX_EXPERTS = 1024, INFER__MAX_EXPERT_GROUPS = 64 };
enum { INFER__SCORE_SOFTMAX, INFER__SCORE_SIGMOID, INFER__SCORE_SQRT_SOFTPLUS /* sqrt(log(1 + exp x)) */,
       INFER__SCORES, /* how many: the CPU's op alone knows the others */
       INFER__SCORE_SPARSEMIXER = INFER__SCORES };
/* How a layer's router chooses from logits of n_expert experts. An expert's score is the softmax over all of them, or a
 * function of its own logit. Experts are chosen by score + bias (by the logit where there is neither bias nor groups),
 * the lower index first among equals; the weights are scores without bias. Groups (n_group > 1: n_expert / n_group
 * adjacent experts each): first the group_used groups with the largest sum of their group_best largest score + bias,
 * then experts of these alone (DeepSeek-V3, arXiv 2412.19437).
 * SparseMixer (GRIN, arXiv 2409.12136; no bias, no groups) takes the largest logit, n_used times, without those taken
 * before; its score is the softmax over those that remain and are within 2% of it:
 * (largest - x) / max(|x|, largest) <= 0.02. */
typedef struct infer__router {
    int32_t n_expert, n_used;
    int32_t score;     /* INFER__SCORE_* */
    int32_t n_group, group_used, group_best; /* n_group 0, 1 = none; group_best 1 or 2 */
    int32_t before;    /* 1 = the weights multiply the experts' inputs, not their results: not for moe_route */
    int32_t normalise; /* 1 = weights are divided by their sum, or by floor where that is larger */
    float floor, scale; /* scale: of the weights, last */
} infer__router;
/* x: rows x n_expert logits. ids and weights are rows x n_used, ids stored as float32 bit patterns of int32 in a tensor
 * of the same shape. A NaN logit makes the row's weights NaN. */
typedef struct infer__moe_route_args {
    infer__tensor x, ids, weights;
    infer__tensor groups; /* ids / per_group: in ids' buffer, with its stride. per_group 0: not wanted */
    int32_t per_group;
    const infer__router *router;
    const infer__weight *bias; /* n_expert values, or NULL */
    const infer__weight *scales; /* the same: each finally multiplies the weight of its expert */
    const infer__weight *table;  /* n_used experts for each id of the pass, or NULL; rows without id choose */
} infer__moe_route_args;
/* Biases of experts: y[t*n_used + j] += b[ids[t][j]], or with `weights` y[t] += sum_j weights[t][j] * b[ids[t][j]] in
 * order j = 0.. . bias holds n_expert x y.cols values. */
typedef struct infer__moe_bias_args {
    infer__tensor y, ids, weights; /* weights.buf NULL = none */
    const infer__weight *bias;
    int32_t n_used;
} infer__moe_bias_args;
/* Experts: w holds n_expert matrices of `rows` rows each, one after the other (w->rows = n_expert * rows).
 * per_expert_x 0: x has one row per token, y[t*n_used + j] = W[ids[t][j]] x[t]; 1: x has a row per (token, expert).
 * With `weights` (down projection) the n_used results are summed in order j = 0..: y[t] = sum_j weights[t][j] * r_j.
 * ids.buf NULL: ids[t][j] is j, for backends with INFER__FUSE_EXPERTS.
 * step (the CPU alone): rows from one matrix to the next, where w has others between them; 0 = `rows`.
 * Ops after it that may be fused (infer__moe_matmul): y's biases, another product of the same x and experts (a gate,
 * with its biases), the activation, the sum. Backends that do not fuse them run them as separate ops. */
typedef struct infer__moe_matmul_args {
    infer__tensor x, y, ids, weights; /* weights.buf NULL = none */
    const infer__weight *w;
    int32_t rows, n_used, per_expert_x, step;
    const infer__moe_bias_args *bias;
    const struct infer__moe_matmul_args *gate;
    const infer__act_args *act;
    const infer__add_args *add;
} infer__moe_matmul_args;

/* Causal convolution over the rows of each sequence, every column for itself: with u = x (* gate_in),
 * y[t][i] = (gate_out[t][i] *) sum over k = 0 .. taps-1 of w[i][k] * u[t - (taps-1) + k][i]. Rows of a sequence follow
 * each other. Rows of u before the pass are in cell pass->cell_in of the state, the last taps-1 of them, oldest first;
 * those after it are left in pass->cell_out, another one. w: x.cols rows of `taps`. gate buf NULL = none; y is not
 * x. bias: x.cols values, added to the sum; silu: y is SiLU of that. x_run: columns of x come in runs of this length,
 * x_step floats apart; 0 = contiguous. apart (the CPU alone): dilation, in rows from tap to tap; (taps-1) * apart rows
 * are kept; 0 is 1. state NULL (the CPU alone): no row was before the pass, and none is left. */
typedef struct infer__conv_args {
    infer__tensor x, gate_in, gate_out, y;
    const infer__weight *w;
    const infer__weight *bias; /* NULL = none */
    int32_t silu, x_run, x_step;
    infer__buf *state; /* cells of (taps-1) x x.cols float32 */
    int32_t taps, apart;
} infer__conv_args;

/* A picture between convolutions, on the CPU: side x side positions, rows of t, from left to right and the top down. */
typedef struct infer__plane { infer__tensor t; int32_t side; } infer__plane;
/* cpu_plane.c. Positions first .. of a convolution, y->rows of them: its kernel reads side x side positions of x, then
 * those `step` further, with zeros around x so that there are ceil(n / step) of n, the smaller half before it. w NULL:
 * y = what the kernel reads, position by position; else a kernel per column: w has side * side rows of weights, strides
 * are all x's, a multiple of INFER__LANES. */
static void infer__cpu_plane(infer__ctx *c, const infer__plane *x, int32_t side, int32_t step, const float *w,
                             int32_t first, const infer__tensor *y);
/* The softmax of every row, in place; strides are a multiple of INFER__LANES, and what is beyond y->cols is lost. */
static void infer__cpu_softmax(infer__ctx *c, const infer__tensor *y);

/* Selective state spaces (Mamba, arXiv 2312.00752; with heads and groups Mamba-2, arXiv 2405.21060), over the rows of
 * each sequence. Head h of `dim` values, with B and C of group h / (heads / groups), has a state S of `state` x dim:
 * d = softplus(dt[h] + dt_bias[h]); S[n][i] = exp(d a[h]) S[n][i] + d B[n] x[i];
 * y[i] = sum_n C[n] S[n][i] + skip[h] x[i].
 * own_a: a head is one value, and a is [ceil(heads / INFER__LANES)][state][INFER__LANES]: a number for each n. grows:
 * some of a are above 0. y may be x. a, dt_bias, skip: float32.
 * The state before the pass is in cell pass->cell_in (-1: zeros), the state after it is written to pass->cell_out,
 * another cell: a cell is [units][state][lanes], infer__ssm_units and infer__ssm_lanes; the lanes beyond a head's are
 * 0. */
typedef struct infer__ssm_args {
    infer__tensor x, dt, b, c, y; /* rows x heads*dim, rows x heads, rows x groups*state twice, as x */
    const infer__weight *a, *dt_bias, *skip;
    infer__buf *cells;
    int32_t heads, dim, groups, state, own_a, grows;
} infer__ssm_args;
/* Heads, or with own_a blocks of INFER__LANES of them. */
INFER__INLINE int32_t infer__ssm_units(int32_t heads, int own_a) {
    return own_a ? (heads + INFER__LANES - 1) / INFER__LANES : heads;
}
INFER__INLINE int32_t infer__ssm_lanes(int32_t dim, int own_a) {
    return own_a ? INFER__LANES : (dim + INFER__LANES - 1) / INFER__LANES * INFER__LANES;
}

/* Gated delta rule (arXiv 2412.06464), over the rows of each sequence. Head h of `dim` values, with q and k of key head
 * h / (heads / k_heads), or h % k_heads where `tiled`, has a state S of `state` x dim:
 * keep = exp(a[h] softplus(alpha[h] + dt_bias[h])); u = sigmoid(beta[h]) (v - keep S k); S = keep S + k u; y = S q.
 * k is divided by its length, q by its length and the root of `state`; eps is added to the squares of lengths.
 * alpha and beta of head h are at h / run * run_step + h % run of their rows. y may be v. a, dt_bias: float32.
 * KEYS (Kimi delta attention, arXiv 2510.26692): alpha, dt_bias and keep have a value for each of a head's `state`, and
 * u = sigmoid(beta) (v - S (keep k)); with a `bound` (below 0) keep = exp(bound sigmoid(a[h] (alpha + dt_bias))).
 * PLAIN (lightning attention, arXiv 2501.08313): keep = exp(a[h]); S = keep S + k v; y = S q. q and k are taken as they
 * are. step: columns from a head's q, k, v to the next one's, where they are interleaved; y is not v then.
 * State before the pass and after it: as infer__ssm_args; a cell is [heads][blocks][state][INFER__LANES],
 * ceil(dim / INFER__LANES) blocks per head, so that what a block of lanes reads is contiguous. */
enum { INFER__DELTA_HEADS, INFER__DELTA_KEYS, INFER__DELTA_PLAIN };
typedef struct infer__delta_args {
    infer__tensor q, k, v, alpha, beta, y; /* rows x k_heads*state twice, rows x heads*dim; y as v */
    const infer__weight *a, *dt_bias;
    infer__buf *cells;
    int32_t kind, heads, k_heads, dim, state, tiled, run, run_step, step; /* kind: INFER__DELTA_* */
    float eps, bound;
} infer__delta_args;

/* Linear attention with a decay for each key (RWKV-6, arXiv 2404.05892; gated, arXiv 2312.06635; RWKV-7, arXiv
 * 2503.14456), over the rows of each sequence. A head has a state S of dim x dim (keys x values) and reads k and v of
 * head h / (heads / kv_heads):
 * 6: d = exp(-exp(w)); y = (S + u k^T v) r; S = d S + k^T v.
 * GATED: d as 6; k = k (1 - d); S = d S + k^T v; y = S r / sqrt(dim).
 * 7: d = exp(-sigmoid(w) / sqrt(e)); a = sigmoid(rate); e = k k_k, of length 1 (at least 1e-12 is divided by);
 *    k = k (1 + (a - 1) k_a); where `mix`: v = v + (first - v) sigmoid(mix);
 *    S = d S - (e a)^T (e S) + k^T v; y = S r; bonus = (r k u summed) v, u being the model's r_k.
 * y may be w, bonus may be v. Weights: float32. Cells as infer__delta_args has them,
 * state and dim being dim rounded up to INFER__LANES. */
enum { INFER__WKV_6, INFER__WKV_GATED, INFER__WKV_7 };
typedef struct infer__wkv_args {
    infer__tensor r, k, v, w, y, rate, first, mix, bonus; /* rows x heads*dim; k, v: rows x kv_heads*dim */
    const infer__weight *u, *k_k, *k_a;
    infer__buf *cells;
    int32_t kind, heads, kv_heads, dim;
} infer__wkv_args;

enum {
    INFER__STREAMS_PREDICT,
    INFER__STREAMS_CORRECT,
    INFER__STREAMS_MATCH,
    INFER__STREAMS_CUT,
    INFER__STREAMS_ATTEND,
    INFER__STREAMS_JOIN,
    INFER__STREAMS_SPREAD,
    INFER__STREAMS_KEYED
};
enum { INFER__MAX_STREAMS = 8 };
/* n residual streams (layers/altup.c): stream 0 is x, the others are in rest ([(n-1) * rows][cols], one after the
 * other).
 * PREDICT: to stream i is added the sum over j of coef[i * n + j] * stream j, all at once; base = stream 0 then.
 * CORRECT: to stream i is added (x - base) * (1 + coef[i]), where stream 0 is base; scaled = stream 0 * scale then.
 * MATCH: streams 1.. become as long as x.
 * CUT, of x alone: max(x - (mean + cut * standard deviation), 0), both of the row.
 * ATTEND: base = sum of p_i stream i, p the softmax of (stream i / its root mean square) scale; cut: epsilon of
 *         squares.
 * The last two have n streams in rest, beside each other (rows x n * cols), and x is none of them.
 * JOIN: coef[i] = sigmoid(coef[i] * scale[0] + offset[i]) + cut; base = sum of coef[i] stream i. Where coef has more
 *       columns, coef[n + i] = times * sigmoid(coef[n + i] * scale[1] + offset[n + i]) + cut, without cut where it has
 *       n * n more: a matrix M[j][i], coef * scale[2] + offset, made balanced (Sinkhorn) in `rounds`: each row its
 *       softmax, + cut; columns over (their sum + cut); and rounds - 1 times first rows so, then columns.
 * SPREAD: to stream i is added coef[n + i] * x; where there is M it becomes that + sum over j of M[j][i] stream j.
 * KEYED: key i (rest as the streams) becomes x * sigmoid(r), r the root of |d| (at least 1e-6) with d's sign,
 *        d = key i . stream i (base, as they are) / root of cols. */
typedef struct infer__streams_args {
    int32_t kind, n, rounds;
    infer__tensor x, rest, base, coef, scaled;
    const infer__weight *scale, *offset;
    float cut, times;
} infer__streams_args;

/* The k largest of each row of x, largest first, lower columns first among equals; -0 is 0. y: rows x 2k: the column
 * (as the bits of an int32) and the value, alternating. A value that is not finite makes the row's first column -1; the
 * rest is then undefined. scratch has room for infer__top_scratch floats for each row that is done at once, and at
 * least for one; k is at most INFER__TOP_MOST and x.cols. */
enum { INFER__TOP_MOST = 1024 };
typedef struct infer__top_args {
    infer__tensor x, y, scratch; /* scratch: one row */
    int32_t k;
} infer__top_args;

/* The largest ops of a context's passes, from which a backend computes its scratch. 0 where there are no such ops. */
typedef struct infer__needs {
    int32_t threads;       /* of the pool */
    uint32_t cpu;          /* INFER__CPU_* */
    int32_t exact;
    uint64_t block_len;    /* ints of infer__pass.block */
    int32_t rows, cells;   /* of a pass; positions of a session */
    int32_t cols;          /* values of the longest row that a product, a norm or a rotation reads */
    int32_t head;          /* longest head of attention; 0 = not known, any that fits cols */
    uint64_t head_values;  /* attention: most of n_head * (dim_v + 2) */
    int32_t turn_sets, turn_cols; /* sine/cosine tables: sets of RoPE frequencies; most rotated values of a head; 0 = no
                                   * tables */
    int32_t n_expert, n_used;
    int32_t expert_cols; /* longest row that is an expert's own */
    int32_t float_cols;  /* longest row that experts of F32, F16 or BF16 read */
    int32_t sum_cols;      /* longest result of theirs that is summed up */
    int32_t n_placed, placed_cols; /* the same of matrices that are not chosen: of a row, their longest row */
    int32_t index_sets;    /* most sets that `index` chooses for a row; 0 = nothing is chosen */
} infer__needs;
/* One more product, attention or mixture. */
static void infer__need_cols(infer__needs *n, int32_t cols);
static void infer__need_attention(infer__needs *n, int32_t n_head, int32_t dim_k, int32_t dim_v);
/* sum_cols: columns of results that are summed up, their inputs being rows of experts; 0 = w reads rows of tokens. */
static void infer__need_experts(infer__needs *n, const infer__weight *w, int32_t n_expert, int32_t n_used,
                                int32_t sum_cols);

/* ---- the vtable --------------------------------------------------------------------------------- */

enum {
    INFER__FUSE_NORM = 1,
    INFER__FUSE_ACT = 2,
    INFER__FUSE_ADD = 4 /* of matmul */,
    INFER__FUSE_ROPE = 8, /* of kv_store */
    INFER__FUSE_EXPERTS = 16, /* of moe_matmul, all of them */
    INFER__FUSE_LOW = 32, /* of matmul */
    INFER__FUSE_HEADS = 64 /* norms, of kv_store */
};

enum { /* of infer__ops.supports, with infer__*_args of that name */
    INFER__OP_EMBED, INFER__OP_MATMUL, INFER__OP_ATTENTION, INFER__OP_MOE_ROUTE,
    INFER__OP_MOE_MATMUL, INFER__OP_CONV, INFER__OP_ACT,
    INFER__OP_SSM, INFER__OP_DELTA, INFER__OP_WKV, INFER__OP_STREAMS, INFER__OP_INDEX, INFER__OP_COMPRESS
};

enum { INFER__RECORD_NOT, INFER__RECORD_NOW, INFER__RECORD_DONE };

struct infer__ops {
    const char *name;
    uint32_t
        fuses; /* INFER__FUSE_*: what its ops can fuse. An op that cannot for some shape runs the others */
    void (*embed)(infer__ctx *c, const infer__embed_args *a);
    void (*get_rows)(infer__ctx *c, const infer__get_rows_args *a);
    void (*norm)(infer__ctx *c, const infer__norm_args *a);
    void (*matmul)(infer__ctx *c, const infer__matmul_args *a);
    void (*rope)(infer__ctx *c, const infer__rope_args *a);
    void (*kv_store)(infer__ctx *c, const infer__kv_store_args *a);
    void (*kv_export)(infer__ctx *c, const infer__kv_page_args *a); /* finished when it returns */
    void (*kv_import)(infer__ctx *c, const infer__kv_page_args *a);
    void (*attention)(infer__ctx *c, const infer__attention_args *a);
    void (*conv)(infer__ctx *c, const infer__conv_args *a);
    void (*ssm)(infer__ctx *c, const infer__ssm_args *a);
    void (*delta)(infer__ctx *c, const infer__delta_args *a);
    void (*wkv)(infer__ctx *c, const infer__wkv_args *a);
    void (*act)(infer__ctx *c, const infer__act_args *a);
    void (*add)(infer__ctx *c, const infer__add_args *a);
    void (*map)(infer__ctx *c, const infer__map_args *a);
    void (*moe_route)(infer__ctx *c, const infer__moe_route_args *a);
    void (*moe_matmul)(infer__ctx *c, const infer__moe_matmul_args *a);
    void (*moe_bias)(infer__ctx *c, const infer__moe_bias_args *a);
    void (*low)(infer__ctx *c, const infer__low_args *a);
    void (*top)(infer__ctx *c, const infer__top_args *a);
    void (*streams)(infer__ctx *c, const infer__streams_args *a);
    void (*index)(infer__ctx *c, const infer__index_args *a);
    void (*compress)(infer__ctx *c, const infer__compress_args *a);
    void (*rows_store)(infer__ctx *c, const infer__rows_store_args *a);
    /* The pass is filled: copy what the ops need from it. */
    void (*begin)(infer__ctx *c);
    /* Recording passes of one shape (NULL: not supported). record, after begin: from here on the ops depend only on
     * `shape` and the pass's values. NOT: call the ops as usual; DONE: a recording was replayed; NOW: call the ops,
     * then record_end, which returns 0 when they must be called again, since nothing was recorded. */
    int (*record)(infer__ctx *c, uint64_t shape);
    int (*record_end)(infer__ctx *c);
    /* Wait until downloads have arrived and uploads have been read: their memory must stay valid until then. Waits
     * after a failure too. */
    void (*sync)(infer__ctx *c);
    /* Memory of the device. alloc returns 0 when there is none left; devices report details by infer__fail. */
    int (*alloc)(infer__ctx *c, infer__buf *b, uint64_t bytes);
    void (*release)(infer__ctx *c, infer__buf *b);
    void (*upload)(infer__ctx *c, infer__buf *b, uint64_t offset, const void *src, uint64_t bytes);
    void (*download)(infer__ctx *c, const infer__buf *b, uint64_t offset, void *dst, uint64_t bytes);
    void (*copy_bytes)(infer__ctx *c, infer__buf *dst, uint64_t dst_offset, const infer__buf *src, uint64_t src_offset,
                       uint64_t bytes); /* within the device: cache pages */
    /* Bytes that prepare allocates: where its ops run and, for a device, also on the host. */
    void (*sizes)(const infer__needs *n, uint64_t *here, uint64_t *host);
    /* 1 when there is a kernel for op INFER__OP_* with such arguments: shapes, types and flags matter, buffers may be
     * NULL. Called while a model opens: a layer that needs an unsupported op stays on the CPU, which has all. */
    int (*supports)(int32_t op, const void *args);
    /* Called once, when the context is made: scratch, queues, kernels. */
    int (*prepare)(infer__ctx *c, const infer__needs *n);
    void (*finish)(infer__ctx *c);
};

/* Run the op with the ops to be fused; those that the backend cannot fuse are run before and after it. */
static void infer__matmul(infer__ctx *c, const infer__matmul_args *a);
static void infer__kv_store(infer__ctx *c, const infer__kv_store_args *a);
/* Rows [from, from + n) of t. */
static infer__tensor infer__some_rows(const infer__tensor *t, int32_t from, int32_t n);

/* ---- isa.c: CPU features are a mask, not a ladder ------------------------------------------------- */

enum { /* infer__cpu bits */
    INFER__CPU_SSE41 = 1, INFER__CPU_AVX2 = 2 /* with FMA and F16C */, INFER__CPU_AVXVNNI = 4,
    INFER__CPU_AVX512 = 8 /* F BW DQ VL */, INFER__CPU_AVX512VNNI = 16, INFER__CPU_AVX512BF16 = 32,
    INFER__CPU_NEON = 64, INFER__CPU_DOTPROD = 128, INFER__CPU_I8MM = 256,
    INFER__CPU_RVV = 512 /* 1.0 */, INFER__CPU_SIMD128 = 1024, INFER__CPU_AMXINT8 = 2048, INFER__CPU_AMXBF16 = 4096,
    INFER__CPU_AMX = INFER__CPU_AMXINT8 | INFER__CPU_AMXBF16,
    INFER__CPU_ENCODES = 8192 /* the model only encodes (no CPU feature): its F16, F32 weights may go through tiles */
};
/* The features found by CPUID and XCR0 (HWCAP on ARM), limited by INFER_CPU_LEVEL; requests AMX from the operating
 * system. */
static uint32_t infer__cpu_found(void);
/* The found features that the level allows (infer_cpu_level); requests AMX only if the level has it. */
static uint32_t infer__cpu_mask(int32_t level);
/* Name of a level ("avx2") and, in *need (may be NULL), the features it takes; NULL when there is no such level. */
static const char *infer__cpu_level_name(int32_t level, uint32_t *need);

/* Float kernels: one body in cpu_ops.h, one set of wrappers per level. The first row whose `need` is covered is used.
 * All compute the same sums in the same order; they differ by fused multiply-add only. */
typedef struct infer__kernels {
    const char *name;
    uint32_t need;
    /* y[j] = dot of w with x + j*stride, j < n (any n >= 1), each in INFER__LANES lanes */
    void (*dot)(const float *w, const float *x, int64_t stride, int32_t n, int64_t k, float *y);
    /* y[j*sy + i] = dot of w + i*sw with x + j*sx, i < n_w, j < n_x: the same bits as n_w * n_x single dots */
    void (*tile)(const float *w, int64_t sw, int32_t n_w, const float *x, int64_t sx, int32_t n_x, int64_t k, float *y,
                 int64_t sy);
    void (*axpy)(float *y, const float *x, float a, int64_t n);  /* y += a * x */
    /* y[r*sy + i] += scale * sum over j < k of a[r*sa + j] * w[j][at + i], i < n, r < rows: the sum first, in order.
     * w: INFER__LOW_* values, columns in blocks of INFER__LANES: [block][k][lane] */
    void (*mix)(float *y, int64_t sy, int32_t rows, const void *w, int32_t kind, int64_t at, const float *a, int64_t sa,
                int32_t k, float scale, int64_t n);
    /* y[i] = dot of row i < rows of w with x: k INFER__LOW_* values each; the bits of `tile` */
    void (*low_dots)(float *y, const void *w, int32_t kind, int32_t rows, const float *x, int64_t k);
    void (*widen)(float *y, const void *x, int32_t kind, int64_t n); /* INFER__LOW_F16, _BF16 to float32 */
    void (*scale)(float *y, float a, int64_t n);
    float (*sum)(const float *x, int64_t n);
    float (*sum_sq_diff)(const float *x, float mean, int64_t n); /* sum (x - mean)^2 */
    /* y = act(x) * up: up may be NULL, y may be x or up */
    void (*act)(float *y, const float *x, const float *up, int32_t kind, int64_t n);
    void (*softcap)(float *x, float scale, float cap, int64_t n); /* x = cap * tanh(x * scale / cap) */
    /* y = (x - mean) * inv (* w) (+ b): w, b may be NULL, y may be x */
    void (*norm)(float *y, const float *x, float mean, float inv, const float *w, const float *b, int64_t n);
    /* INFER__ROPE_*: rotate `half` pairs of x by angles with these cosines and sines */
    void (*rotate)(float *x, const float *cosine, const float *sine, int32_t half, int32_t kind);
    int (*finite)(const float *x, int64_t n);                    /* 1 when no value is infinite or NaN */
} infer__kernels;
static const infer__kernels *infer__kernels_find(uint32_t cpu);

struct infer__int8; /* integer dot products: cpu_int8.h */
struct infer__x8;
struct infer__floats; /* blocks of dot products with float weights: cpu_float.h */
static const struct infer__floats *infer__floats_find(uint32_t cpu);
/* Choose everything in ctx that depends on the CPU's features: kernels, int8, unpack, floats. */
static void infer__cpu_select(infer__ctx *c, uint32_t cpu);

/* ---- the context of a pass ------------------------------------------------------------------------- */

enum { INFER__PROFILE_OPS = 16 };
typedef struct infer__profile { const char *op; uint64_t calls, bytes; double seconds; } infer__profile;

struct infer__ctx {
    const infer__ops *ops; /* of the device where the pass is */
    int32_t apart;                /* 1: every intermediate result is read (trace, checks), so ops are not fused */
    const infer__kernels *kernels;
    infer__mem *mem;
    infer__pool *pool;
    struct infer__gpu *gpu;       /* the device where the pass is, NULL on the CPU */
    struct infer__gpu_run *run;   /* this context's queue on it */
    int32_t kv_type;              /* of the cache */
    infer__pass pass;
    infer_error error;            /* sticky: the first failure of this pass */
    const infer__atomic *cancel;  /* if not NULL, a value above cancel_seen ends the pass at the next op */
    int64_t cancel_seen;
    int32_t exact;
    int32_t profiling;
    infer__profile profile[INFER__PROFILE_OPS];
    struct infer__cpu_run *cpu;   /* the CPU's scratch, NULL when no layer runs there */
    const struct infer__int8 *int8;
    infer__unpack_fn unpack[INFER__QUANTS_MAX]; /* by index of the storage type; NULL: it is decoded to float32 */
    const struct infer__floats *floats;
    uint64_t bytes_up, bytes_down, launches, syncs; /* of the last eval */
};

static const infer__ops infer__cpu_ops; /* cpu_backend.c; tentative so that tests can name it */
/* The ops of the place where the pass is. Without GPUs that is known: then the compiler leaves out ops that nothing in
 * this build calls. */
INFER__FOLDED const infer__ops *infer__ops_of(const infer__ctx *c) { return INFER__HAS_GPU ? c->ops : &infer__cpu_ops; }

/* Remember the first error. */
static void infer__fail(infer__ctx *c, infer_result code, const char *format, ...) INFER__PRINTF(3, 4);
/* 1 when nothing has failed. */
INFER__INLINE int infer__ok(const infer__ctx *c) { return c->error.code == INFER_OK; }
/* CPU address of row r. */
INFER__INLINE float *infer__row(const infer__tensor *t, int32_t r) {
    return (float *)((char *)t->buf->host + t->offset) + (int64_t)r * t->stride;
}

/* Around every op: begin gives the time, or -1 when the op must not run (an earlier failure, or cancelled); end counts
 * one call, the bytes of weights and cache it read, and the time when the context is profiling. */
static double infer__op_begin(infer__ctx *c);
/* The profile's row of an op, made when it is new; NULL when there are too many. */
static infer__profile *infer__op_row(infer__ctx *c, const char *op);
static void infer__op_end(infer__ctx *c, const char *op, uint64_t bytes, double began);
/* 1, or a failure: check that ids and positions are inside their tables, and that a vector has a type without blocks
 * (`what`: for the message). */
static int infer__embed_ok(infer__ctx *c, const infer__embed_args *a);
static int infer__vector_ok(infer__ctx *c, const infer__weight *w, const char *what);
/* Cached positions that attention reads, over all rows; bytes of their keys and values. */
static uint64_t infer__attention_seen(const infer__ctx *c, const infer__attention_args *a);
static uint64_t infer__attention_bytes(const infer__attention_args *a, uint64_t seen);
/* Floats of scratch that `top` of k of n columns takes for a row. */
static uint64_t infer__top_scratch(int32_t n, int32_t k);
#endif
