/* adapter.h: adapters of an open model: low-rank additions to its matrices (LoRA), directions added to the stream.
 *
 * Owns:  infer_adapter (one file), and sets of them, which sessions use.
 * Rules: an adapter never changes once it is open. Positions keep the set they were evaluated with (runs of a session),
 *        so after a rewind they are evaluated again with the same set. Rows of a pass form runs of one set, too; what a
 *        set adds to a row does not depend on other rows. Sets belong to a context: equal sets are one object.
 *        References are counted under the context's claim.
 * Start: adapter.c (opening), adapted.c (sets, passes).
 */
#ifndef INFER__ADAPTER_H
#define INFER__ADAPTER_H

#include "../compute/backend.h"
#include "../compute/gpu/gpu.h"
#include "../format/format.h"

/* Tables of which rows are added to the stream: of tokens, of kinds of tokens. */
enum { INFER__EMBEDS_TOKENS = 1, INFER__EMBEDS_TYPES = 2 };

/* Added to the products of one of the model's tensors: scale * B A x. For the embedding, A has a row for each id. */
typedef struct infer__adapter_pair {
    int32_t tensor;           /* its index in the model's file */
    int32_t rank, rows, cols; /* A and B of an expert: rank x cols, rows x rank */
    int32_t n_expert;         /* 0 = none */
    int32_t embeds;           /* INFER__EMBEDS_*, 0 = it is a product's */
    int32_t scales;           /* 1 + the model's tensor that scales the experts' results; 0 = none */
    float scale;              /* alpha / rank */
    int32_t kind; /* INFER__LOW_* of the next two: [n_expert][rank][cols], [n_expert] of B transposed; */
    void *a, *b;              /* A of the embedding is float32, [cols ids][rank] */
    float *file_a, *file_b;   /* float32 as in the file, while the adapter opens */
    uint64_t a_at, b_at;      /* on devices; B there [n_expert][rows][rank] */
} infer__adapter_pair;

struct infer_adapter {
    infer_model *model;
    infer__arena arena, file_order; /* file_order: values as in the file, while the adapter opens */
    char *name, *task, *prefix; /* NULL = the file does not say */
    int32_t control;            /* 1 = directions, not pairs */
    int32_t n_pairs, rank;      /* rank: the largest */
    infer__adapter_pair *pairs;
    int32_t *pair_of;           /* by the model's tensors: 1 + a pair's index, 0 = none */
    float **directions;         /* n_layer, NULL = none: n_embd floats */
    uint64_t *direction_at;     /* on devices */
    infer_token *invocation;    /* n_invocation: the tokens from which on it applies; 0 = to all of the text */
    int32_t n_invocation;
    infer__buf device[INFER_MAX_DEVICES];
    uint64_t device_bytes;      /* of all values, on each device */
    uint64_t print;             /* a hash of shapes and some of the values, to identify the adapter */
    infer__atomic users;        /* references: of the caller, sets and requests that have it, a merge */
};

/* Adapters with their scales, in the caller's order. */
typedef struct infer__adapter_set {
    struct infer__adapter_set *next; /* of the context's */
    struct infer__adapter_set *less; /* without the one that waits for its invocation; NULL = none */
    const infer_adapter *waits;      /* that one */
    int64_t number;                  /* unique among the sets of the context */
    uint64_t print;
    int32_t refs, n;
    infer_adapter_use use[1]; /* n */
} infer__adapter_set;

/* Positions of a session from `from` on (to the next run), or rows of a pass, and their set: NULL = none. */
typedef struct infer__adapted { int32_t from; infer__adapter_set *set; } infer__adapted;

/* adapter.c */
static infer_result infer__adapter_build(infer_adapter *a, infer__gguf *g, int allow_unknown, infer_error *err);
static void infer__adapter_free(infer_adapter *a); /* while it opens */
static void infer__adapter_gone(infer_adapter *a); /* no reference is left */
static void infer__adapter_let(infer_adapter *a);  /* drop a reference */

/* merge.c: a slot of the model with merged adapters; `other` is its old weight. */
typedef struct infer__merged {
    infer__weight *slot, now, other;
    int32_t embeds, made; /* made: now.data is this one's memory */
    struct infer__device *device; /* of a slot that is on a device: now.buf is buf; NULL = it is not */
    infer__buf buf;
    uint8_t use; /* of its kernels: INFER__USE_* */
} infer__merged;
/* This call is the model's only user besides adapters. type NULL: each matrix's own, or Q8_0. */
static infer_result infer__include(infer_model *m, const infer_adapter_use *uses, int32_t n, const infer__quant *type,
                                 infer_error *err);
static void infer__exclude(infer_model *m); /* nothing happens when it was not merged */
static void infer__include_free(infer_model *m); /* of a model that ends */

/* adapted.c; the context is claimed. Set the adapters that a session's further tokens are evaluated with. */
static infer_result infer__adapters_set(infer_session *s, const infer_adapter_use *uses, int32_t n, infer_error *err);
/* Set the adapters of future sessions. */
static infer_result infer__adapters_default(infer_context *c, const infer_adapter_use *uses, int32_t n,
                                            infer_error *err);
/* The session uses `set` (NULL = none) from now on; at its end all references go. */
static void infer__adapters_begin(infer_session *s, infer__adapter_set *set);
static void infer__adapters_end(infer_session *s);
/* Reserve the runs that an eval may add; 0 = no memory. */
static int infer__adapters_reserve(infer_session *s);
static void infer__adapters_cut(infer_session *s, int32_t n); /* positions from n on are no more */
static int infer__adapters_fork(infer_session *to, const infer_session *from);
/* The tokens of a step have been evaluated; session->n is unchanged so far. */
static void infer__adapters_commit(infer_session *s, const infer_step *st);
/* The sets of the rows that infer__pass_add added: tokens `at` .. of a step at position base. */
static void infer__adapted_rows(infer_context *c, const infer_step *st, int32_t base, int32_t at, int32_t count);
/* A hash that identifies the rows' sets, for recordings. */
static uint64_t infer__adapted_print(const infer_context *c, uint64_t hash);
/* 1 when something is added to the products of w in this pass. */
static int infer__adapted_weight(const infer_context *c, const infer__weight *w);
/* Fuse the additions of the rows' sets into a product's args, without the first `skip` parts. 1 when there are more
 * parts than fit. result: mm's rows are results of the pass, from this one on; -1: they are rows of the pass. */
static int infer__adapted_parts(infer_context *c, const infer__matmul_args *mm, int32_t result, int32_t skip,
                                infer__low_args *a);
/* And to one of experts, which has been made. */
static void infer__adapted_experts(infer_context *c, const infer__moe_matmul_args *a);
/* To embeddings, INFER__EMBEDS_*, whose rows are scaled so; to the stream after a layer. */
static void infer__adapted_embed(infer_context *c, int32_t embeds, float scale, const infer__tensor *x);
static void infer__adapted_layer(infer_context *c, int32_t layer, const infer__tensor *x);
/* Saved sessions: a run as words: from, and the hash of its set. When loading, ARGUMENT if the context has no such set;
 * the runs are allocated from the model's memory and become the session's. */
enum { INFER__ADAPTED_WORDS = 3 };
static void infer__adapters_words(const infer__adapted *run, uint32_t words[INFER__ADAPTED_WORDS]);
static infer_result infer__adapters_find(const infer_session *s, const char *data, int32_t n, uint32_t tokens,
                                         infer__adapted *runs, infer_error *err);
static void infer__adapters_load(infer_session *s, infer__adapted *runs, int32_t n);
static void infer__adapter_set_drop(infer_context *c, infer__adapter_set *set);
#endif
