/* model.h: hyper-parameters, layers, weights, model, context, session: the state of everything above ops.
 *
 * Owns:  the resolved description of a model (infer__layer[]), cache pages, the structs behind the public handles.
 * Rules: an ARCHS row is read while a model opens and never afterwards: what a layer does is in its infer__layer.
 *        Only arch.c knows architecture names. Nothing here names a vendor: layers run on the CPU or on "the device".
 * Start: forward.c (the loop), then arch.c (the rows), then this page.
 */
#ifndef INFER__MODEL_H
#define INFER__MODEL_H

#include "../base/base.h"
#include "../compute/gpu/gpu.h"
#include "../format/format.h"
#include "../text/text.h"
#include "adapter.h"
#include "machinery.h"
#include "slots.h"
#include <float.h>
#include <math.h>

/* ---- architecture rows (arch.c) ---------------------------------------------------------------- */

typedef struct infer__hparams infer__hparams;
typedef struct infer__layer infer__layer;
typedef struct infer__part infer__part;
typedef struct infer__keys infer__keys;
typedef struct infer__sublayer infer__sublayer;
typedef struct infer__sublayer_kind infer__sublayer_kind;
typedef struct infer__text_out infer__text_out;

enum { INFER__BLOCK_SERIAL, INFER__BLOCK_PARALLEL }; /* parallel: attention and FFN both read the block's input */

/* Differences in mathematics that the file does not name. Read while a model opens, never in a pass. (64 bits: no
 * enum) */
#define INFER__FLAG(n) ((uint64_t)1 << (n))
#define INFER__EMBED_SQRT_WIDTH INFER__FLAG(0) /* embeddings * sqrt(width) */
#define INFER__NORM_BARE INFER__FLAG(1) /* norms before sublayers and head have no weights */
#define INFER__NO_PRE_NORM INFER__FLAG(2) /* sublayers read the residual stream as it is */
#define INFER__POST_ATTN_IS_FFN INFER__FLAG(3) /* post_attention_norm is the norm before the FFN */
#define INFER__LOGITS_TIMES INFER__FLAG(4) /* logits * logit_scale */
#define INFER__LOGITS_OVER INFER__FLAG(5) /* logits / logit_scale */
#define INFER__ALIBI INFER__FLAG(6) /* attention.max_alibi_bias applies (8 when the file does not say) */
#define INFER__WINDOW_ROPE_ONLY INFER__FLAG(7) /* layers that see everything are not rotated */
#define INFER__WINDOW_ROPE_PLAIN INFER__FLAG(8) /* sliding-window layers ignore rope.scaling */
#define INFER__PARALLEL_BY_KEY INFER__FLAG(9) /* block kind from use_parallel_residual */
#define INFER__PARALLEL_BY_NORM INFER__FLAG(10) /* parallel when there is no ffn_norm */
#define INFER__ATTN_TEMPERATURE INFER__FLAG(11) /* attention.temperature_scale applies */
#define INFER__QK_NORM_PAIR INFER__FLAG(12) /* Q/K norms count only when both exist */
#define INFER__ATTN_CAP INFER__FLAG(13) /* attn_logit_softcapping applies */
#define INFER__FINAL_CAP INFER__FLAG(14) /* final_logit_softcapping applies */
#define INFER__ROPE_BY_KEY INFER__FLAG(15) /* rope.scaling.finetuned = false: no layer is rotated */
#define INFER__YARN_UNROUNDED INFER__FLAG(16) /* YaRN's ramp begins and ends between pairs */
#define INFER__EMBD_NORM_IS_OUT INFER__FLAG(17) /* token_embd_norm is the norm before the head */
#define INFER__WINDOW_ALL INFER__FLAG(18) /* every layer has the file's window, unless its pattern says otherwise */
#define INFER__NEXTN INFER__FLAG(19) /* nextn_predict_layers: the last blocks are not for plain decoding */
#define INFER__QK_NORM_ROTATED INFER__FLAG(20) /* Q/K norms come after the rotation */
#define INFER__WINDOW_FULL_FIRST INFER__FLAG(21) /* of window_every layers the first sees everything */
#define INFER__ROPE_NO_WINDOW INFER__FLAG(22) /* with WINDOW_ROPE_ONLY: all are rotated where none has a window */
#define INFER__ATTN_OUT_TIMES INFER__FLAG(23) /* attention's result * attention.value_scale */
#define INFER__ATTN_SCALE_OUT INFER__FLAG(24) /* attention.output_scale is the scale of scores */
#define INFER__NORM_BY_KEY INFER__FLAG(25) /* RMS norms where attention.layer_norm_rms_epsilon exists */
#define INFER__ROPE_LEADING INFER__FLAG(26) /* with WINDOW_ROPE_ONLY: the leading dense layers are rotated, too */
#define INFER__FF_TWICE INFER__FLAG(30) /* feed_forward_length counts the rows of gate and up together */
#define INFER__QKV_WIDE INFER__FLAG(31) /* attn_qkv has three times the queries' rows, also with fewer K/V heads */
#define INFER__QKV_THIRDS INFER__FLAG(32) /* and Q, K, V begin at thirds of them; else one follows the other */
#define INFER__ROPE_SECTIONS INFER__FLAG(33) /* rope.dimension_sections may be there: M-RoPE */
#define INFER__SECTIONS_MIXED INFER__FLAG(46) /* pairs of the sections alternate: time, height, width, time, .. */
#define INFER__SPANS_WINDOW INFER__FLAG(51) /* only in layers with a window do rows of a picture see later ones */
#define INFER__SECTIONS_HALVES INFER__FLAG(34) /* with sections, HALVES is the rotation */
#define INFER__ATTN_NORM_2 INFER__FLAG(35) /* where attn_norm_2 exists it is attention's norm, attn_norm the FFN's */
#define INFER__SCORES_OVER_DIM INFER__FLAG(36) /* scores are divided by the width of a head, not by its root */
#define INFER__ROPE_ALPHA INFER__FLAG(37) /* rope.scaling.alpha applies: base * alpha^(dim / (dim - 2)) */
#define INFER__MATRIX_SCALES INFER__FLAG(38) /* the tensors called .scale multiply a matrix's results */
#define INFER__EMBED_NORM_BARE INFER__FLAG(39) /* embeddings are normalised, without weights */
#define INFER__Q_NORM_HEADS INFER__FLAG(40) /* Q's norm is a number a head, K's has no weights */
#define INFER__EPS_DEFAULT INFER__FLAG(41) /* norms have next to no epsilon where the file names none */
#define INFER__GATE_NEEDED INFER__FLAG(42) /* every layer of attention has a gate */
#define INFER__QK_NORM_BARE INFER__FLAG(55) /* in layers that are rotated Q and K have a norm without weights */
#define INFER__TEMP_NO_ROPE INFER__FLAG(56) /* the temperature of positions is for layers that are not rotated */
#define INFER__NOT_CAUSAL INFER__FLAG(57) /* a token sees all tokens of its eval, later ones too */
#define INFER__ROPE_HALF INFER__FLAG(58) /* rope.dimension_count is twice that of layers without a window */
#define INFER__CLAMPS INFER__FLAG(59) /* swiglu_clamp_exp and swiglu_clamp_shexp apply, to the activation's result */
#define INFER__CLAMPS_BEFORE INFER__FLAG(60) /* swiglu_clamp_exp applies, to the activation's input */
#define INFER__FFN_NORM_2 INFER__FLAG(50) /* attn_norm_2 is the norm before the FFN */
#define INFER__KDA_BOUND INFER__FLAG(48) /* kda.gate_lower_bound applies */
#define INFER__KDA_A_PLUS INFER__FLAG(49) /* it must be there, and ssm_a is above 0 */
#define INFER__Q_GATED INFER__FLAG(52) /* attn_q computes a head's query and the gate of its result */
#define INFER__DELTA_TILED INFER__FLAG(53) /* value heads of a delta net are ordered by key head: h % k_heads */
#define INFER__EPS_EITHER INFER__FLAG(47) /* the epsilon of RMS norms may have the other norm's name */
#define INFER__V_NORM_BARE INFER__FLAG(61) /* V has a norm without weights */
#define INFER__V_MAY_BE_K INFER__FLAG(62) /* without attn_v, V is the result of attn_k, before norm and rotation */
#define INFER__SPARSE INFER__FLAG(63) /* activation_sparsity_scale: of an FFN's gates only the largest stay */

#define INFER__OUT_NORM_ENC INFER__FLAG(45) /* the last norm is that of an encoder */
#define INFER__INDEX_LAST INFER__FLAG(28) /* indexers rotate the last values of a head, and have the norms' epsilon */
#define INFER__CLAMPS_ALL INFER__FLAG(29) /* and swiglu_clamp_shexp, else _exp, to that of shared experts */
#define INFER__DELTA_SIGMOID INFER__FLAG(43) /* results of delta nets are gated by a sigmoid, not by SiLU */
#define INFER__INDEX_MEANS INFER__FLAG(44) /* indexers choose blocks of attention.compress_ratios by means of keys */
#define INFER__INDEX_SHARED INFER__FLAG(27) /* attention.indexer.types: some layers use the choice of an earlier one */

/* The same, of routers and experts. */
enum {
    INFER__EXPERTS_RAW = 1,  /* weights are not divided by their sum, unless a key says so */
    INFER__EXPERTS_SUM = 2,  /* they are, whatever keys say */
    INFER__EXPERTS_STEP = 4, /* interleave_moe_layer_step: experts in every n-th layer only */
    INFER__EXPERTS_BEFORE = 8 /* weights multiply the experts' inputs, not their results */
};

/* Inputs of blocks that predict further tokens, from the position before: nextn.c. */
enum {
    INFER__PREDICTS = 1, /* the hidden state after the norm before the head; of the block before, if there is one */
    INFER__PREDICTS_BARE = 2, /* as it is before that norm */
    INFER__PREDICTS_BESIDE = 4, /* block i reads the layers' own, i + 1 positions before */
    INFER__PREDICTS_WINDOW = 8,  /* blocks have the window where the file says of layers only which have it */
    INFER__PREDICTS_ROTATED = 16 /* blocks are rotated, also where layers without a window are not */
};

/* window_every: the file says which layers have a window, or has no windows. */
enum { INFER__WINDOW_BY_FILE = 255 };

typedef struct infer__arch {
    const char *name;       /* general.architecture, and the prefix of its keys */
    uint8_t norm, rope, act; /* INFER__NORM_*, INFER__ROPE_*, INFER__ACT_* */
    uint8_t act_by_key;     /* 1: hidden_activation may name another one */
    uint8_t block;          /* INFER__BLOCK_* */
    uint8_t encoder;        /* 1: texts are seen whole: tokens see each other, nothing is kept, there are no logits */
    uint8_t decoder;        /* 1: an encoder's layers, and then a decoder's, which attend to its results: source.c */
    uint8_t label_act;      /* 1 + INFER__ACT_* after a classifier's first matrix; 0 = tanh's */
    uint8_t label_pooling;  /* infer_pooling of what a classifier reads; 0 = first of encoders, else last */
    uint8_t label_softmax;  /* 1: labels' scores are a softmax */
    uint8_t full_every;     /* N: keys, else every N-th layer, say which layers do not have mixer_else: see
                             * infer__read_recurrent; 0 = K/V heads do */
    uint8_t window_every;   /* N: every N-th layer sees everything, the others a sliding window; 0 = no windows */
    uint8_t no_rope_every;  /* N: every N-th layer is not rotated; 0 = all are */
    int32_t chunk;          /* windows are chunks, of this many positions where no key gives the size; 0 = they slide */
    uint8_t gate;           /* INFER__ACT_* of attn_gate, where layers have one; 0 = none has (SiLU is none) */
    uint8_t index;          /* INFER__ROPE_* of indexers, where layers may have one; 0 = none has */
    uint8_t predicts; /* INFER__PREDICTS_*: blocks after the layers that predict further tokens; 0 = not computed */
    uint8_t score, experts; /* INFER__SCORE_* of a router when no key says it; INFER__EXPERTS_* */
    float act_limit, act_add; /* of the activation: limit and up_add of infer__act_args */
    const infer__sublayer_kind *mixer_else; /* the mixer of layers without K/V heads; NULL = every layer has some */
    uint64_t flags;
    void (*keys)(infer__keys *k, infer__hparams *hp); /* keys that few rows have; may be NULL */
    void (*fixup)(infer__hparams *hp); /* defaults that need arithmetic; may be NULL */
    void (*parts)(infer_model *m, infer__layer *l); /* changes a layer's list of sublayers; NULL: it is as usual */
    const char *ignore;     /* tensors that no sublayer reads and the model's own code does not use: parts of names, or
                             * =names, separated by spaces */
    const char *drop;       /* and those that one would read, but the model's own code does not */
    const char *idle;       /* keys that it does not use either, separated by spaces: see keys.c */
    const char *layers;     /* kinds of its sublayers, as in kinds.c's order; NULL = attention and a dense FFN */
    const char *lacks;      /* the part that devices have no kernels for; NULL = none */
    const char *reference;  /* the reference for tests of its results */
} infer__arch;

static const infer__arch *infer__arch_find(infer__str name);
static const infer__arch *infer__arch_row(int32_t index); /* NULL past the end */

/* ---- hyper-parameters (hparams.c) ---------------------------------------------------------------- */

enum { INFER__MAX_LAYERS = 1024, INFER__MAX_EXPERTS_USED = 64 };

/* Adapters that tokens switch on: switched.c. n 0 = none. */
typedef struct infer__switches {
    int32_t n, rank;
    float other;         /* weight of a token that switches nothing, relative to one that does */
    uint16_t *of;        /* n_vocab: the adapter (1..n) that a token switches on; 0 = none */
    int32_t *substitute; /* n: ids whose embeddings the tokens have */
} infer__switches;

/* Rows of a table by the hash of a token and those before it: ngrams.c. size 0 = none. */
enum { INFER__NGRAM_MOST = 8, INFER__NGRAM_HEADS = 64 };
typedef struct infer__ngrams {
    int32_t layer, size, each, heads, taps; /* heads: rows of a token, `each` for every n; taps: of the convolution */
    int32_t end, given; /* the id that ends texts; that of positions given as embeddings */
    int32_t first[INFER__NGRAM_HEADS], count[INFER__NGRAM_HEADS];
    uint64_t times[INFER__NGRAM_MOST], rows; /* rows: that the table must have */
} infer__ngrams;

struct infer__hparams {
    int32_t n_vocab, n_ctx, n_embd, n_layer;
    int32_t n_block; /* with those of layers that plain decoding does not run, the last ones */
    int32_t n_head; /* of the first layer: per-layer values are in infer__layer */
    int32_t window_pattern; /* 1 = the file says which layers have a window */
    int32_t window, n_expert, n_used, n_ff_expert, n_ff_shared;
    float eps, post_eps; /* of norms; of those after sublayers */
    int32_t embed_norm_bare;
    float embed_scale, residual_scale, logit_scale; /* 1 = none; logit_scale multiplies */
    float attn_softcap, final_softcap, attn_scale, max_bias, clamp_kqv;
    float temp_scale, temp_floor, temp_offset;
    float rope_base, rope_base_window;
    uint8_t *axes;        /* pairs' axes of M-RoPE, as in infer__rope_args; NULL = all positions are numbers */
    int32_t n_deepstack;  /* layers after which rows of pictures get another part of their embedding */
    int32_t rope_scaling; /* INFER__SCALING_* */
    float rope_factor, rope_attn_factor, rope_log_mul, rope_alpha;
    int32_t rope_ctx; /* context the frequencies were trained for: yarn, longrope */
    int32_t rope_off; /* 1 = no layer is rotated */
    float yarn_fast, yarn_slow; /* turns over rope_ctx from which a pair keeps its angle, below which it is stretched */
    float yarn_ext;   /* share of the kept angle, 0..1: 1 = YaRN, 0 = linear */
    float yarn_attn;  /* scale of cos and sin as the file gives it; 0 = by the formula */
    int32_t pooling;  /* infer_pooling; DEFAULT: the file does not say */
    int32_t label_pooling; /* of what a classifier reads */
    int32_t n_labels; /* that it gives; 0 = none */
    int32_t n_out;    /* width of pooled vectors */
    int32_t norm, act, block;
    int32_t moe_step;     /* layers moe_step - 1, 2 moe_step - 1, .. have experts, from leading_dense on; 0 = any may */
    int32_t leading_dense;
    int32_t n_by_id;      /* the first layers whose experts are chosen by a table of ids */
    int32_t qk_norm_bare; /* see INFER__QK_NORM_BARE */
    int32_t not_causal;   /* 1 = a token sees all tokens of its eval */
    int32_t encoder;      /* see infer__arch */
    int32_t n_enc;        /* the first n_enc layers are an encoder's, the others a decoder's; 0 = one stack */
    int32_t decoder_start; /* the id that a decoder's text begins with */
    int32_t n_buckets;    /* of distances between tokens, each of which has a bias: 0 = none */
    int32_t n_per_layer;  /* values that each layer gets of a token beside the stream; 0 = none */
    int32_t n_kv_layer;   /* layers from here on read the keys and values of earlier ones; 0 = none does */
    int32_t n_streams;    /* of the residual; 0 = one */
    int32_t halve_every;  /* the stream is halved after every n-th layer; 0 = never */
    int32_t n_latent;     /* width of experts' inputs and results; 0 = the model's */
    int32_t n_ff_group;   /* width of the expert that per_group experts share, and the factor of its results; */
    int32_t per_group;    /* per_group 0 = they share none */
    float group_scale;
    int32_t stack, low_cycles; /* layers of each of two stacks; runs of the low one: cycles.c; 0 = none */
    int32_t norm_after;   /* 1 = norms of sublayers come after them */
    int32_t qk_norm; /* INFER__NORM_* of heads, and its epsilon, where they differ from the others'; 0 = they do not */
    float qk_eps;
    int32_t mute[2];      /* ids from .. to below which the head gives no logits: -FLT_MAX */
    int32_t n_hyper;      /* streams of hyper-connections; 0 = none */
    int32_t hyper_rounds; /* rounds of balancing the mix between streams; 0 = no mixing */
    int32_t hyper_rank;   /* of matrices that mix them value by value: hyper_low.c; 0 = these are not there */
    int32_t out_norm_off; /* 1 = the head reads the stream as it is */
    infer__ngrams ngrams;
    float hyper_eps, hyper_times;
    int32_t res_every;    /* layers 0, res_every, .. keep the stream for residual attention */
    int32_t n_predict;    /* layers with indices from n_layer on that predict further tokens: nextn.c */
    int32_t predicts;     /* INFER__PREDICTS_* */
    int64_t pass_kept;    /* floats a row that are kept from layer 0 to the last one */
    infer__switches switches;
    infer__router router; /* of layers with experts */
};
/* expert_gating_func: none was given; softmax over all experts; sigmoid; softmax over those used; sqrt(softplus). */
enum { INFER__GATING_NONE, INFER__GATING_SOFTMAX, INFER__GATING_SIGMOID, INFER__GATING_SOFTMAX_USED,
       INFER__GATING_SQRT_SOFTPLUS };
enum { INFER__SCALING_NONE, INFER__SCALING_LINEAR, INFER__SCALING_YARN, INFER__SCALING_LONGROPE };

INFER__FOLDED int32_t infer__encoder(const infer__hparams *hp) { return INFER__VARIANT(hp->encoder); } /* the fields */
INFER__FOLDED int32_t infer__not_causal(const infer__hparams *hp) { return INFER__VARIANT(hp->not_causal); }
INFER__FOLDED int32_t infer__n_enc(const infer__hparams *hp) { return INFER__HAS_SOURCE ? hp->n_enc : 0; }

/* Layers, and the blocks after them that predict. */
INFER__FOLDED int32_t infer__n_all(const infer__hparams *hp) {
    return hp->n_layer + (INFER__HAS_DRAFTS ? hp->n_predict : 0);
}
INFER__INLINE int32_t infer__expert_groups(const infer__hparams *hp) {
    return hp->per_group ? hp->n_expert / hp->per_group : 0;
}
/* Columns of an expert's input, and of its result. */
INFER__INLINE int32_t infer__expert_in(const infer__hparams *hp) { return hp->n_latent ? hp->n_latent : hp->n_embd; }

/* layers/cycles.c */
static void infer__cycles_keys(infer__keys *k, infer__hparams *hp);
static int32_t infer__file_block(const infer__hparams *hp, int32_t layer); /* of the file, where its tensors are */

/* layers/hyper.c */
static void infer__hyper_keys(infer__keys *k, infer__hparams *hp);
static void infer__hyper_mixed_keys(infer__keys *k, infer__hparams *hp);
/* Coefficients of a sublayer. */
INFER__INLINE int32_t infer__hyper_coefs(const infer__hparams *hp) {
    return hp->n_hyper * (2 + (hp->hyper_rounds ? hp->n_hyper : 0));
}

/* layers/compressed.c */
static void infer__deepseek4_keys(infer__keys *k, infer__hparams *hp);

/* layers/residual_attention.c */
static void infer__kimi_k3_keys(infer__keys *k, infer__hparams *hp);

/* layers/ngrams.c */
static void infer__qwen4exp_keys(infer__keys *k, infer__hparams *hp);
static void infer__ngram_rows(infer_context *c, const infer_step *st, int32_t base, int32_t at, int32_t count);

/* layers/switched.c */
static void infer__switch_keys(infer__keys *k, infer__hparams *hp);
static void infer__switch_rows(infer_context *c, const infer_step *st, int32_t base, int32_t at, int32_t count);
static void infer__switch_begin(infer_context *c, int32_t rows);
static void infer__switch_add(infer_context *c, const infer__tensor *x, const infer__weight *w,
                              const infer__tensor *y);

/* layers/embed_skip.c */
static void infer__embed_keep(infer_context *c, const infer__tensor *x);
static void infer__talkie_keys(infer__keys *k, infer__hparams *hp);
static void infer__grovemoe_keys(infer__keys *k, infer__hparams *hp);

/* session/media.c */
static void infer__deepstack_keys(infer__keys *k, infer__hparams *hp);

/* layers/per_layer.c */
static void infer__gemma4_keys(infer__keys *k, infer__hparams *hp);
static void infer__gemma3n_keys(infer__keys *k, infer__hparams *hp);

/* layers/rwkv.c */
static void infer__rwkv6_keys(infer__keys *k, infer__hparams *hp);
static void infer__rwkv7_fix(infer__hparams *hp);

/* layers/kinds.c: the sublayers of a layer whose heads and FFN width are known. */
static void infer__layer_parts(infer_model *m, infer__layer *l);
/* One more, read through the norm of slot `norm`; post: slot of its result's norm where the file has it, -1 = none. */
static infer__part *infer__part_add(const infer_model *m, infer__layer *l, const infer__sublayer_kind *kind, int norm,
                                    int post);

/* hparams.c: keys that a layer's kinds look up, all under the architecture's prefix. A failure sticks: then they give
 * `absent` (floats 0), and opening ends with an error that names the key. */
struct infer__keys {
    infer_model *m; /* values of keys go to its arena */
    const infer__gguf *g;
    const char *prefix;
    infer_error *err;
    char key[160];
    int32_t failed;
};
/* An integer in lo..hi, `absent` when there is none (need = it must be there). */
static int32_t infer__key_int(infer__keys *k, const char *name, int32_t lo, int32_t hi, int32_t absent, int need);
/* A number per layer: the key may be one number or an array of n_layer. */
static int32_t infer__key_layer(infer__keys *k, const char *name, int32_t layer, int32_t lo, int32_t hi,
                                int32_t absent);
static float infer__key_float(infer__keys *k, const char *name); /* finite, 0 when absent */
/* The same for a layer: one number, or an array of n_layer. */
static float infer__key_layer_float(infer__keys *k, const char *name, int32_t layer, float absent);
static int infer__key_bool(infer__keys *k, const char *name, int absent);
static const char *infer__key_name(infer__keys *k, const char *name); /* with the prefix */
/* UNSUPPORTED, by the name of the key. */
static void infer__key_unsupported(infer__keys *k, const char *name, const char *why);
/* FORMAT: the key contradicts the others. */
static void infer__key_misfit(infer__keys *k, const char *name, const char *why);

/* keys.c */
/* Exactly n ids of a vocabulary, into the arena; kv NULL: there are none, which is an error. */
static infer_result infer__key_ids(infer__arena *arena, const infer__kv *kv, const char *key, uint64_t n,
                                   uint64_t vocab, int32_t **out, infer_error *err);
/* 1 when a number, or all numbers of an array, are 0 or `value`. An empty array or text is nothing at all. */
static int infer__idle_is(const infer_model *m, const infer__kv *kv, double value);
/* 1 when `words`, separated by spaces (NULL: none), have this one: a row's idle keys. */
static int infer__words_have(const char *words, const char *word);
/* UNSUPPORTED, by name: a key of the architecture that no code looked up, and not known to be without effect. */
static infer_result infer__keys_check(const infer_model *m, infer_error *err);
/* UNSUPPORTED when the file says that it is an adapter, a projector, or anything else but a model. */
static infer_result infer__check_type(const infer_model *m, infer_error *err);
/* The file's key cannot be followed: UNSUPPORTED, or OK and a line in the log with params.allow_unknown. */
static infer_result infer__key_refuse(const infer_model *m, const char *key, const char *why, infer_error *err);

/* ---- weights (weights.c) ---------------------------------------------------------------------------- */

/* A tensor's row in the tables of slots.h. */
typedef struct infer__tensor_slot { const char *name; uint8_t rows, cols, need; } infer__tensor_slot;
/* 1 when the file has the tensor of a layer's slot. */
static int infer__layer_has(const infer_model *m, const infer__layer *l, int slot);
/* FORMAT, by name: the layer needs a tensor here. UNSUPPORTED: a tensor is there, but it is read only together with
 * another one, that of slot `with`. */
static infer_result infer__need(const infer__layer *l, int slot, infer_error *err);
static infer_result infer__only_with(const infer_model *m, const infer__layer *l, int slot, int with, infer_error *err);
static infer_result infer__no_use(const infer_model *m, const infer__layer *l, const char *name, infer_error *err);
/* Rows [first, first + n) of a matrix. */
static infer__weight infer__slice_rows(const infer__weight *w, int64_t first, int32_t n);
/* The same, or values of a vector (a matrix of one row). */
static infer__weight infer__slice(const infer__weight *w, int64_t first, int32_t n);
/* The float that a layer's slot holds, `absent` without it or when only sizes are asked for. */
static float infer__slot_float(const infer__layer *l, int slot, float absent);

/* ---- layers ------------------------------------------------------------------------------------------ */

/* A sublayer's state in a session: a slot. Pages and bytes follow from slots, not from layers: a layer may have
 * none, may read another layer's, and its values may be a part of its keys (then both of part.state are one slot). */
enum {
    INFER__STATE_KEYS,
    INFER__STATE_VALUES,   /* [n_head][dim] for each position, in pages of the group; or for every `every` positions */
    INFER__STATE_ROWS,     /* the same, float32 whatever the cache's type */
    INFER__STATE_RECURRENT /* [n_head][dim] float32, whatever the position: a cell; its "pages" are cells (cells.c) */
};
typedef struct infer__state {
    int32_t kind;  /* INFER__STATE_* */
    int32_t layer; /* that owns it: the slot is where the layer runs */
    int32_t group; /* INFER__GROUP_* */
    int32_t n_head, dim;
    int32_t every; /* positions that one entry is for: 0, 1 = each has its own */
    int32_t source; /* 1 = its positions are those of a session's source */
} infer__state;
/* Cache groups: layers that see everything; that see a window. A group's window is the largest of its layers, or none
 * when one of them sees everything. */
enum { INFER__GROUP_FULL, INFER__GROUP_WINDOW, INFER__GROUP_CELLS, INFER__GROUPS };

/* One resolved rotation: a set of frequencies that layers share. */
typedef struct infer__rope {
    float base;
    int32_t n_rot, scaled; /* scaled: position scalings and factors of the file apply */
    int32_t turn; /* INFER__TURN_*: of a grid */
    infer__buf freq;   /* 2 x n_rot/2 float32: normal and extended */
    infer__buf device[INFER_MAX_DEVICES]; /* the same on each device: see infer__rope_args */
    float scale;     /* of cos and sin */
} infer__rope;

/* Where layers run: on the CPU (0), or on GPU d of the model: INFER__ON_DEVICE + d stands for devices[d]. */
enum {
    INFER__ON_CPU,
    INFER__ON_DEVICE,
    INFER__PLACES = INFER__HAS_GPU ? INFER__ON_DEVICE + INFER_MAX_DEVICES : INFER__ON_DEVICE
};

/* Device memory of a group of weights: a layer's, the embedding's, the head's. Several buffers where the device's
 * largest one is smaller than the group. */
typedef struct infer__bufs { infer__buf *b; int32_t n; } infer__bufs;

typedef struct infer__label { int16_t slot; const char *text; } infer__label;
struct infer__sublayer_kind { /* functions may be NULL where a kind has no such thing */
    int32_t id; /* INFER__SUBLAYER_* */
    const char *name;
    const char *in, *out; /* names of its input and output in a trace */
    const char *result; /* name of the output in a description */
    int16_t slots, slots_end; /* its own weight slots: [slots, slots_end) */
    int16_t more, more_end;   /* and those of a stage that several kinds have */
    /* While a model opens, in this order. keys: look up and range check what the file says of the layer's shape. check:
     * the weights are bound; what must be there, and what must not. split: they are loaded; cut fused ones, keep
     * small ones as numbers. */
    void (*keys)(infer__keys *k, infer__layer *l);
    infer_result (*check)(const infer_model *m, infer__layer *l, infer_error *err);
    infer_result (*split)(infer_model *m, infer__layer *l, infer_error *err);
    void (*state)(infer_model *m, infer__layer *l, infer__part *p); /* infer__state_add for its states */
    int64_t (*cols)(const infer_model *m, const infer__layer *l); /* floats of work area that it needs a row */
    void (*needs)(const infer_model *m, const infer__layer *l, infer__needs *n); /* its largest ops */
    /* NULL, or the operation that these ops have no kernel for. Types of matrices are checked in place.c. */
    const char *(*lacks)(const infer__ops *ops, const infer__layer *l);
    /* x -> out, with fused norm and addition: see infer__sublayer. Does not change s->add. */
    void (*run)(infer_context *c, const infer__layer *l, infer__sublayer *s);
    /* What it computes, as text: `in` is the name of its input. labels: weights worth listing, ended by text NULL. */
    void (*describe)(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in);
    const infer__label *labels;
};
#define INFER__SUBLAYER_KIND(name) static const infer__sublayer_kind INFER__KIND_##name;
INFER__SUBLAYERS(INFER__SUBLAYER_KIND)

/* The input of a sublayer. */
enum {
    INFER__READS_NORM,   /* a norm of the residual stream, its own */
    INFER__READS_SAME, /* the input of the one before it */
    INFER__READS_STREAM, /* the stream as it is */
    INFER__READS_KEPT, /* a value kept by an earlier part */
    INFER__READS_BOTH    /* the stream, and makes the norm itself */
};
/* One sublayer of a layer: stream += scale * post-norm(kind(norm(stream))). A layer runs its parts in order. */
struct infer__part {
    const infer__sublayer_kind *kind;
    int16_t norm, post; /* slots of the norm before it (the bias is the next one) and of its result's; -1 = none */
    int16_t after;      /* of the stream's, once the result has been added */
    int16_t times;      /* of the factors of the result's values, before that norm; -1 = none */
    int8_t reads;       /* INFER__READS_* */
    int8_t beside; /* 1: reads the stream as the part before it found it: parallel blocks, two mixers side by side */
    int8_t keeps;  /* 1: its result is kept for a later part of the layer, not added; or it changes the stream itself */
    float scale;
    /* slots of infer_model.states that it reads; -1 = none. Attention: keys, values, keys of its indexer (or the rows
     * that its entries are means of, and the entries); compressed: keys, rows that entries are made of, entries, those
     * of its indexer */
    int32_t state[4];
};
enum { INFER__MAX_PARTS = 10 };

/* Sizes of a state space mixer (layers/mamba.c), as in infer__ssm_args: heads of dim values, inner in all; proj:
 * results of the first matrix; conv: the convolved ones among them; rank: of dt before its matrix, 0 = it has none. */
typedef struct infer__ssm {
    int32_t inner, heads, dim, groups, state, proj, conv, rank;
    int32_t own_a, grows;
    int32_t tiled, kda; /* of delta nets: see infer__delta_args; 1 = Kimi's: INFER__DELTA_KEYS */
    float bound;        /* of their decays */
    int32_t gate;       /* INFER__ACT_* of the factor of their results */
    int32_t bare_norms; /* 1 = dt, B and C have norms without weights, where they have none with */
} infer__ssm;

/* An indexer (layers/indexer.c), sizes as in infer__index_args; heads 0 = the layer has none. */
typedef struct infer__indexer {
    int32_t heads, dim, top, block, local;
    int32_t every;  /* its keys are means of this many positions, which are chosen together; 0 = each has its own */
    int32_t latent; /* 1 = of latent attention: one set for all heads, weighted */
    int32_t shared; /* 1 = the choice of the last one before it is used */
    int32_t last;   /* 1 = the last values of a head are rotated */
    int32_t rope;   /* INFER__ROPE_* */
} infer__indexer;
/* Compressed attention (layers/compressed.c): one entry for every so many positions (0 = none), made of twice as many
 * where they overlap; groups of the output's first matrix, results of each. */
typedef struct infer__compress { int32_t every, overlap, groups, rank; } infer__compress;
/* Sizes of RWKV's time mix (layers/rwkv.c), as in infer__wkv_args. seven: the version is 7; rank: of pairs of matrices,
 * see slots.h; mixed: how many mixtures of a row and the one before there are. */
typedef struct infer__wkv { int32_t seven, heads, kv_heads, dim, rank[5], mixed; } infer__wkv;

/* Everything that a pass needs of a layer; unused fields are 0. */
struct infer__layer {
    int32_t index;
    int32_t block; /* of the file: several layers may run one */
    int32_t sub, sub_cols; /* where blocks are stages: the number in it; values of a position that it gives */
    const char *stack; /* NULL, or "enc", "dec": the prefix of its tensors' names */
    int32_t place;       /* INFER__ON_CPU, or INFER__ON_DEVICE + the device's index */
    infer__bufs weights; /* on a device: all of its weights */
    int32_t n_parts;
    infer__part parts[INFER__MAX_PARTS];
    int32_t kept;        /* floats a row that a part keeps for later ones; 0 = none does */
    int32_t router_kept; /* 1 = they are the router's logits */
    int32_t n_head, n_head_kv, dim_k, dim_v, n_ff;
    int32_t window; /* 0 = sees everything */
    int32_t chunk;  /* of that many positions: sees those of its own chunk; 0 = the window slides */
    int32_t not_causal; /* 1 = tokens of an eval attend to each other; a window is centred on them */
    int32_t spans_causal; /* 1 = also rows of a picture see only what is before them */
    int32_t kv_from;    /* 1 + the layer whose keys and values it reads; 0 = its own */
    int32_t kv_read;    /* 1 = other layers read its own */
    int32_t v_norm_bare; /* 1 = V has a norm without weights */
    int32_t rope_kind, n_rot, rope_scaled;
    float rope_base;
    const infer__rope *rope; /* NULL = not rotated */
    int32_t rope_first, rope_blocks; /* of stacks: the first value of a head that is rotated; as in infer__rope_args */
    int32_t listed; /* 1 = rows attend to the positions that the pass lists: windows of a picture */
    int32_t on_host; /* 1 = of stacks: it has steps that are no ops */
    int32_t q_groups, k_groups; /* QK-norm: heads normalised apart, or 1 = the whole row */
    int32_t qk_norm_rotated;       /* 1 = after the rotation */
    int32_t gate;               /* activation of attn_gate, or of the gate beside Q */
    int32_t q_gated;            /* 1 = attn_q computes both: [head][query, gate] */
    int32_t act;
    int32_t conv_taps;
    infer__ssm ssm;
    infer__wkv wkv;
    int32_t latent_rank, latent_q_rank, latent_k, latent_v; /* of latent attention; the last two: widths of heads */
    infer__indexer index_of;
    infer__compress compress;
    float attn_scale, attn_softcap, max_bias, clamp_kqv; /* as in infer__attention_args; clamp of Q, K, V: 0 = none */
    float temp_scale, temp_floor, temp_offset;
    float act_limit, act_add;   /* of the FFN's activation: infer__act_args */
    float expert_limit;         /* the limit in experts */
    float act_cut;              /* see INFER__STREAMS_CUT, of the FFN's gates */
    int32_t act_sparse;         /* 1 = they are cut */
    int32_t limit_after;
    float ffn_times;            /* of experts and a dense FFN together */
    float xielu[4];             /* see infer__act_args */
    float attn_scales[4];       /* of the results of the matrices of Q, K, V and attention's output; 1 = none */
    float ffn_scales[3];        /* gate, up, down */
    int32_t q_norm_bare, k_norm_bare; /* 1 = Q, K have a norm without weights */
    const infer__router *router; /* of experts */
    infer__weight w[INFER__LAYER_SLOT_COUNT];
};
/* Values per position for entries of dim. */
INFER__INLINE int32_t infer__compress_values(const infer__layer *l, int32_t dim) {
    return dim * (1 + l->compress.overlap);
}
/* Positions up to its own that an entry is made of. */
INFER__INLINE int32_t infer__compress_reach(const infer__layer *l) {
    return l->compress.every * (1 + l->compress.overlap);
}

#include "stack/stack.h" /* encoders of pictures and sound */

/* ---- model --------------------------------------------------------------------------------------------- */

/* Sizes derived from a model and context_params: used to create a context and to predict its memory. */
typedef struct infer__plan {
    int32_t threads, batch, cells, kv_type, keep, sessions, n_seq;
    int32_t max_pages;                     /* of one session's table */
    int32_t n_pages[INFER__GROUPS];
    int32_t snapshot_every;                /* positions between two kept states of recurrent layers */
    int64_t work_cols;                     /* floats a row in the shared work area: experts need more than 2^31 */
    int64_t pass_kept;                     /* of them, those kept for the pass: hp.pass_kept, chosen positions */
    int64_t carried;                       /* of those, the ones copied between devices */
    infer__needs needs;                    /* the ops for which backends reserve scratch */
    int32_t head_rows;                     /* rows of logits computed at a time */
    int32_t top_rows;                      /* and of logits that may stay on the device; 0 = the head is not there */
    uint64_t top_bytes;                    /* of infer__place.top there; before that is known, as if it were */
    uint64_t top_scratch;                  /* floats at its end */
    uint64_t work_bytes, x_bytes, block_len;
    uint64_t rest_bytes;                   /* of rows and message for layers elsewhere; 0 = there are none */
    uint64_t rest_floats;                  /* those of the rows */
    uint64_t parts_bytes;                  /* of the results of a product in parts; 0 = there are none */
    uint64_t device_bytes;                 /* of a device beside weights and cache; and top_bytes with the head */
    uint64_t device_host_bytes;            /* of the host's, for each device */
    uint64_t hop_bytes;                    /* of the staging buffer between two GPUs; 0 with fewer */
    uint64_t cache_bytes[INFER__PLACES], scratch_bytes[INFER__PLACES];
} infer__plan;

/* A device that the model's layers may run on. */
typedef struct infer__device {
    infer__gpu *gpu;
    int32_t row;      /* as infer__gpu_info counts */
    int32_t n_layers; /* that run on it; 0 = it is not used */
    int32_t most;     /* layers that it may get: fewer after an allocation failed */
    uint64_t memory;  /* bytes that were free */
    uint64_t bytes;   /* of weights there */
} infer__device;

struct infer_model {
    infer__mem mem;
    infer__report report;
    infer_model_params params; /* as given; `pre` is not kept */
    infer__gguf gguf;
    infer__tokenizer *tokenizer;
    infer__arena arena;        /* strings and layers */
    char *arch_name, *name;    /* zero-terminated copies */
    const char *quant;
    uint64_t n_params;
    uint64_t own_bytes;        /* of metadata, vocabulary, layers: everything but weights */
    uint64_t open_peak;        /* most bytes of the allocator while it was opened */
    int32_t sizes_only;        /* opened to predict memory: weights have names and shapes, but no bytes */
    /* set by infer__model_build; why_code is INFER_OK when sessions can be created */
    infer_result why_code;
    char why_not[508];
    uint64_t weights_print; /* identifies the file among those with the same shapes */
    const infer__arch *arch;
    infer__stack stack; /* of a projector file; row NULL: this is a model of texts */
    infer__hparams hp;
    infer__layer *layers;
    int32_t first, end;        /* it has the layers first .. end - 1: params.first_layer, layers */
    infer__mutex turn;         /* with layers elsewhere: contexts that are not waiting for those compute in turn */
    int32_t has_turn;
    uint64_t range_bytes;      /* of their tensors, where others are elsewhere */
    int32_t part, parts;       /* it has some rows of wide matrices: parts.c; of 1 all rows */
    int32_t cut_head;          /* 1 = of the head, too */
    uint64_t part_least;       /* bytes from which a matrix is cut */
    uint64_t n_given;          /* passes that went on to layers elsewhere */
    infer__state *states;      /* in the order of layers, also of those elsewhere */
    int32_t n_states, max_states;
    infer__weight w[INFER__MODEL_SLOT_COUNT];
    infer__rope ropes[INFER__ROPE_SETS];
    int32_t n_ropes;
    infer__apis apis;          /* GPU APIs to choose from; NULL = those of this build */
    infer__device devices[INFER_MAX_DEVICES]; /* n_devices, in the order of their layers; 0: everything is on the CPU */
    int32_t n_devices;
    int32_t automatic;         /* chosen by INFER_AUTO: the CPU may replace them if they fail while opening */
    int32_t place_limit;       /* layers that have kernels */
    infer__plan fit;           /* sizes of the context that "as many as fit" leaves room for: params.fit */
    infer__bufs device_front, device_head; /* embedding, and head unless it is the same tensor, on a device */
    int32_t device_layers;     /* the number of first layers there, with the embedding; all: with the head */
    uint64_t device_bytes;     /* of weights on all devices */
    uint64_t dropped_bytes;    /* of tensors that were read into memory, sent to a device and freed here */
    uint64_t token_bytes;      /* of weights that evaluating one token reads */
    uint32_t cpu;              /* INFER__CPU_* mask */
    struct infer__merged *merged; /* n_merged slots whose weights include adapters, NULL = it was not merged */
    int32_t n_merged;
    uint64_t unmerged_print, unmerged_token_bytes; /* the previous values of these */
    infer__atomic numbers;        /* of contexts made so far */
    infer__atomic held, contexts; /* release.c: who reads the weights; contexts alive */
    infer__atomic users;       /* references: of the caller, what was made of it, calls that run */
    infer__atomic adapters;    /* adapters alone */
    struct infer__senses *senses; /* its projector, NULL = none */
    int64_t process;           /* that opened it: devices cannot be used in a child of fork() */
};

#include "opening.h" /* how a parsed file becomes layers with weights */

/* ---- cache (cache.c) -------------------------------------------------------------------------------------- */

typedef struct infer__cache_group {
    int32_t n_pages, n_free;
    int32_t *refs; /* sessions that hold a page */
    int32_t *free; /* stack of free pages */
    int32_t window; /* the largest of its layers, 0 = everything is kept */
} infer__cache_group;

typedef struct infer__kv_cache {
    infer__cache_group groups[INFER__GROUPS];
    infer__kv_buf *bufs; /* one per slot of infer_model.states */
    int32_t n_bufs;
} infer__kv_cache;

/* ---- contexts and sessions ----------------------------------------------------------------------------------- */

/* The plan of a context, for a model that computes. default_sessions: one of these. */
enum { INFER__SESSIONS_OWN = 2, INFER__SESSIONS_SHARED = 16 }; /* of a session's own context, of a shared one */
static infer_result infer__plan_make(infer__plan *p, const infer_model *m, const infer_context_params *params,
                                     int32_t default_sessions, infer_error *err);
/* Ranges of the integers of `in`, which the caller calls `name`. */
static infer_result infer__plan_check(const infer_context_params *in, const char *name, infer_error *err);
/* The part of the plan that does not depend on where layers run; `in` has been checked. */
static void infer__plan_sizes(infer__plan *p, const infer_model *m, const infer_context_params *in,
                              int32_t default_sessions);
/* Bytes of the slots that a layer owns; 0 when they are too many to count. */
static int infer__plan_layer_cache(const infer__plan *p, const infer_model *m, int32_t layer, uint64_t *bytes);

/* MEMORY when the host has less memory than the plan's context needs; a warning when less is free. */
static infer_result infer__plan_fits(const infer__plan *p, const infer_model *m, infer_error *err);

/* Memory of the plan's context and one session, with the model itself. */
static void infer__plan_memory(const infer__plan *p, const infer_model *m, infer_memory *out);

/* Work buffers of one device, and the data that ctx needs during the pass. */
typedef struct infer__place {
    const infer__ops *ops;       /* see infer__ops_of */
    int32_t used;                /* 0 = no layer runs there */
    struct infer__gpu *gpu;      /* NULL on the CPU */
    struct infer__gpu_run *run;
    infer__buf x, xn, out, work; /* residual stream, normed, sublayer output; work: Q K V att / gate up / logits */
    infer__buf room;             /* for the additions of adapters; empty without adapters */
    infer__buf top;              /* of a device with the head: the largest logits of top_rows rows, and scratch */
} infer__place;

/* eval.c: where the passes over a list of steps stand. */
typedef struct infer__pass_cursor {
    const infer_step *steps;
    int32_t n, step, at; /* the next row is token `at` of step `step` */
    int64_t done, total;
    double seconds;      /* so far */
    int32_t behind;      /* number of steps whose sessions have caught up */
} infer__pass_cursor;

/* Where a pass continues: at a layer, or after the layers with the first logits, the others, the MTP block. */
enum { INFER__STAGE_LAYERS, INFER__STAGE_HEAD, INFER__STAGE_FETCH, INFER__STAGE_FURTHER };

struct infer_context {
    infer_model *model;
    infer__ctx ctx;
    infer__pool *pool;
    infer__plan plan;
    infer__kv_cache cache;
    infer__place places[INFER__PLACES], *at; /* at: where the running pass is */
    float *hop;                  /* staging buffer between two GPUs, NULL with fewer */
    float *peek;                 /* copy of values on a device, for looking at (trace, checking) */
    uint64_t peek_len;
    infer_session **active;      /* n_seq: the sessions of the running pass */
    infer_session **kept;        /* n_seq: those whose logits are in the device's work area (results.c) */
    int32_t n_kept;
    infer__atomic calls;         /* infer__claim; with INFER__FREEING a thread frees sessions: calls.c */
    infer__atomic refs, dead, freeing; /* references; closed sessions to be freed; the thread that frees them */
    infer__atomic cancel;        /* number of the latest eval, a call of this context, that shall end */
    int32_t n_sessions;
    infer__adapter_set *adapter_sets, *adapters; /* all that are in use; that of new sessions */
    int64_t adapter_numbers;
    /* of the running eval */
    float **out_logits, **out_hidden; /* batch: where results of pass->out go, NULL = not wanted */
    int32_t *out_top; /* batch: number of largest logits to read; the others stay on the device; 0 = all */
    const float **row_embd;           /* batch: embeddings given for rows, NULL = none */
    const float **row_deep;           /* batch: n_deepstack more rows of width n_embd for a row, NULL = none */
    int32_t *row_end, *row_axis;      /* batch, AXES x batch: pass->end and pass->axis, where media needs them */
    int32_t n_deep, n_whole, n_shifted; /* rows of the pass that need row_deep, row_end, row_axis */
    int32_t *row_switch;              /* batch: the adapters of rows, see infer__switches */
    infer__adapted *adapted;          /* batch: n_adapted runs of rows with the same adapters; 0 = no row has any */
    int32_t n_adapted;
    int32_t *row_looked;              /* batch x infer__looks: of rows, see there */
    const infer__picture *picture;    /* of a stack's pass */
    infer__buf direct;                /* host: the logits of this pass were computed where they are wanted */
    int32_t in_turn;             /* 1 = it holds the model's turn */
    int64_t number;              /* of all contexts of the model: in messages */
    infer_rest_fn rest;          /* of context_params */
    void *rest_user;
    infer_share_fn share;
    infer_gather_fn gather;
    void *parts_user;
    infer__buf gathered;         /* host: results of a product, part by part */
    float *rows;                 /* that come and go: rest_bytes, or of the caller of infer_context_rows */
    infer_trace_fn trace;
    void *trace_user;
    infer_inputs_fn inputs;      /* of context_params */
    void *inputs_user;
    int32_t encodes;             /* INFER__ENCODES_* of the running pass */
    infer__pass_cursor cursor;
    infer__pass_cursor behind;   /* of tokens that are evaluated again before: infer__catch_up */
    infer_step behind_step;
    double pause;                /* infer__slice_end of the slice, 0 = it has none */
    infer__atomic sliced;        /* 1 = an eval of infer_eval_slice waits for its next slice: */
    infer_session *slicing;      /* these are its sessions, by slice_next */
    double slice;                /* about how many seconds it has; 0 = passes have the rows that they are given */
    int32_t resume;              /* the layer at which a pass goes on that a slice has ended, 0 = none */
    int32_t stage;               /* INFER__STAGE_*: where after the layers it goes on */
    int32_t head_at, head_row;   /* results from head_at on are multiplied by the head from this row of it on */
    double pass_seconds, row_seconds; /* so far; of a row in a layer, lately, in passes of many rows, 0 = not known */
    int32_t checking;            /* name the first layer with a value that is not finite */
};

#include "session/session.h" /* sessions, and which calls may begin */
#include "stack/senses.h"    /* pictures and sound */

/* cache.c */
/* Switch to a device: ctx gets its ops, device and queue. Returns 0 when no layer runs there. */
INFER__INLINE int infer__enter(infer_context *c, int32_t place) {
    infer__place *p = &c->places[place];
    c->at = p;
    c->ctx.ops = p->ops;
    c->ctx.gpu = p->gpu;
    c->ctx.run = p->run;
    return p->used;
}
/* The device of a slot, and switching to it. */
INFER__INLINE int32_t infer__state_place(const infer_model *m, int32_t state) {
    return m->layers[m->states[state].layer].place;
}
INFER__FOLDED const infer__ops *infer__state_ops(infer_context *c, int32_t state) {
    infer__enter(c, infer__state_place(c->model, state));
    return infer__ops_of(&c->ctx);
}
/* 1 when its layer is not elsewhere. */
INFER__INLINE int infer__state_here(const infer_model *m, int32_t state) {
    return infer__here(m, m->states[state].layer);
}
/* The slot whose buffer a slot uses: that of another layer in encoders, which keep nothing between layers. */
static int32_t infer__state_buf(const infer_model *m, int32_t state);
static infer_result infer__cache_create(infer_context *c, infer_error *err);
/* What it takes of the allocator beside the bytes of pages on the CPU. */
static uint64_t infer__cache_host_bytes(const infer__plan *p, const infer_model *m);
static void infer__cache_destroy(infer_context *c);
/* Add a slot that the layer owns; returns its index. The model has room for four per part. */
static int32_t infer__state_add(infer_model *m, const infer__layer *l, int32_t kind, int32_t group, int32_t n_head,
                                int32_t dim);
/* The type of a slot in a cache of this type; bytes of a page of it. */
static int32_t infer__state_type(int32_t kv_type, const infer__state *s);
static uint64_t infer__page_bytes(int32_t kv_type, const infer__state *s);
/* The window of a cache group, 0 = everything is kept; -1 = the model has no slots there. */
static int32_t infer__group_window(const infer_model *m, int32_t group);
/* Pages that a session may need beyond those it has to evaluate `n` tokens from position `pos` on, in passes of
 * `batch`. */
static int32_t infer__cache_need(const infer_context *c, const infer_session *s, int32_t group, int32_t pos, int32_t n);
/* Make positions [pos, pos + n) writable: frees pages that left the window, takes new ones, copies shared ones.
 * Returns 0 when no page is free, or with an error in ctx. */
static int infer__cache_write(infer_context *c, infer_session *s, int32_t pos, int32_t n);
/* Free the pages of positions >= n (0 = all). */
static void infer__cache_cut(infer_context *c, infer_session *s, int32_t n);
/* dst takes over references to all pages of src. */
static void infer__cache_share(infer_context *c, infer_session *dst, const infer_session *src);
/* 1 when every key in the windows of an eval from position n on is still there. */
static int infer__cache_has(const infer_context *c, const infer_session *s, int32_t n);

/* cells.c: states of recurrent layers; nothing happens in models that have none. */
static int infer__cells_used(const infer_context *c);
static void infer__cells_start(infer_session *s); /* a new session has none */
/* 1 when there are cells for an eval of these steps; may drop kept states of their sessions. */
static int infer__cells_reserve(infer_context *c, const infer_step *steps, int32_t n);
/* Cells of the pass for its sequence q, whose rows end before position `end`; 0 when there is none. */
static int infer__cells_pass(infer_context *c, infer_session *s, int32_t q, int32_t end);
static void infer__cells_passed(infer_context *c, infer_session *s); /* after a pass */
/* After all passes of n tokens, before n_valid changes. */
static void infer__cells_commit(infer_context *c, infer_session *s, int32_t tokens);
static void infer__cells_settle(infer_context *c,
                                infer_session *s); /* after a failure: the state after n_valid stays */
/* The last position up to n from which the session can continue: its keys, values and states exist. */
static int32_t infer__cells_back(const infer_context *c, const infer_session *s, int32_t n);
/* Restore the session's state after `pos` (from infer__cells_back, or 0) and drop later ones. Before n_valid
 * changes. */
static void infer__cells_cut(infer_context *c, infer_session *s, int32_t pos);
/* 1 when a cell is free, or one is the session's alone. */
static int infer__cells_room(const infer_context *c, const infer_session *s);
static void infer__cells_share(infer_context *c, infer_session *dst, const infer_session *src);

/* results.c: logits that stay on the device until they are requested. */
/* Floats and bytes for it in the plan. */
static void infer__plan_top(infer__plan *p, const infer_model *m);
/* Before a pass: decide for each of its results whether its logits may stay; none may unless it is the last pass. */
static void infer__results_choose(infer_context *c, int last);
/* After the pass's first `rows` logits: select the largest of each row, as many as wanted; nothing when none are. */
static void infer__results_top(infer_context *c, int32_t rows);
/* How many of the largest the pass computes for each row; 0 = none. */
static int32_t infer__results_most(const infer_context *c);
/* At the end of the pass: download the results of infer__results_top. */
static void infer__results_fetch(infer_context *c);
/* After it: 1 when the downloaded values are finite; remember those that stayed. */
static int infer__results_finite(const infer_context *c);
static void infer__results_keep(infer_context *c);
/* Room for the largest that the next eval brings. */
static int infer__results_reserve(infer_session *s, int32_t n);
/* Invalidate the session's logits on the device. */
static void infer__results_drop(infer_session *s);
/* Download its logits to s->logits, if they are still on the device. */
static infer_result infer__results_bring(infer_session *s, infer_error *err);
/* The n largest to s->top. */
static infer_result infer__results_best(infer_session *s, int32_t n, infer_error *err);
/* The k largest of n logits with their log-probabilities, lower tokens first among equals. */
static void infer__results_list(const float *x, int32_t n, int32_t k, infer_top *out);
/* Row of s->logits for a row of the last eval's step, -1 when its logits were not kept. */
static int32_t infer__results_row(const infer_session *s, int32_t row);
/* logprob = logit - *largest - this: the logarithm of the softmax's sum, in double. */
static double infer__results_log_sum(const float *x, int32_t n, double *largest);

/* forward.c: run ctx.pass; results go to out_logits / out_hidden. Errors are in ctx.error. */
static void infer__forward(infer_context *c);
/* Pass a step's values to the trace callback, if there is one. layer -1 = outside layers. */
static void infer__trace(infer_context *c, int32_t layer, const char *step, const infer__tensor *t);

/* inputs.c: give what products read to context_params.inputs. x is computed. */
static void infer__give_products(infer_context *c, const infer__matmul_args *mm);
static void infer__give_experts(infer_context *c, const infer__moe_matmul_args *a);
/* x as the input of w, nothing when there is no callback. */
static void infer__give_input(infer_context *c, const infer__weight *w, const infer__tensor *x);
/* UNSUPPORTED where layers do not run on the CPU. */
static infer_result infer__give_check(const infer_model *m, infer_error *err);

/* A mixer or FFN: x -> out, with the operations before and after it. The norm is fused into its first product and
 * the addition into its last one (see infer__matmul_args), or it runs them by the two functions. */
struct infer__sublayer {
    const infer__part *part;
    infer__tensor x, out;
    const infer__norm_args *norm; /* that makes x; NULL = x exists */
    const infer__add_args *add;   /* of out; NULL = it is added elsewhere */
};
static void infer__sublayer_norm(infer_context *c, infer__sublayer *s);
static void infer__sublayer_add(infer_context *c, const infer__sublayer *s);
/* y = w x, + b unless that is NULL. */
/* infer__matmul and infer__moe_matmul, and the additions of adapters, the model's own and those of sessions. */
static void infer__moe_products(infer_context *c, const infer__moe_matmul_args *a);
static void infer__products(infer_context *c, const infer__matmul_args *mm);
static void infer__product(infer_context *c, const infer__tensor *x, const infer__weight *w, const infer__weight *b,
                           const infer__tensor *y);
/* y = act(w x); y += x. */
static void infer__product_act(infer_context *c, const infer__tensor *x, int32_t kind, const infer__weight *w,
                               const infer__tensor *y);
static void infer__add_scaled(infer_context *c, const infer__tensor *x, float scale, const infer__tensor *y);
static void infer__add_to(infer_context *c, const infer__tensor *x, const infer__tensor *y);
/* y = act(x) */
static void infer__act_rows(infer_context *c, int32_t kind, const infer__tensor *x, const infer__tensor *y);
/* y *= act(gate): value by value, or one gate for a group of adjacent values when y has more columns. */
static void infer__gate(infer_context *c, int32_t act, const infer__tensor *gate, const infer__tensor *y);
/* The place of a layer for results of a part that later ones read. */
static infer__tensor infer__kept(infer_context *c, const infer__layer *l, int32_t rows);
/* [rows][cols] of the values kept for the pass, after `first` floats for each of pass_rows. The first hp.pass_kept of
 * them are copied between devices, the rest (chosen positions) only where layers share indexers. */
static infer__tensor infer__pass_kept(infer_context *c, int32_t pass_rows, int64_t first, int32_t rows, int32_t cols);

/* layers/attention.c: the frequencies of a layer that rotates, where it runs. */
static const infer__buf *infer__rope_freq(const infer__layer *l);
/* layers/indexer.c: ints per row of the layer's indexer's choice, in sessions of this many cells; 0 = no indexer. */
static int64_t infer__indexer_list(const infer__layer *l, int32_t cells);
/* Whether a row at pos sees more than the layer's indexer may choose. */
static int infer__indexer_chooses(const infer__layer *l, int32_t pos);
/* The operation that devices have no kernels for, NULL = none. */
static const char *infer__indexer_lacks(const infer__ops *ops, const infer__layer *l);

/* layers/nextn.c: the blocks after the layers; session/further.c: keys and values of the blocks for a pass' rows,
 * whose last results are in x; and their state in a session. */
static void infer__nextn_keys(infer__keys *k, infer__hparams *hp);
static void infer__nextn_parts(infer_model *m, infer__layer *l);
static void infer__further_fill(infer_context *c);
static uint64_t infer__further_bytes(const infer__hparams *hp); /* of infer_session.further; 0 = it has none */
/* Bytes of the allocator that a session of all cells takes, and evals that keep one row of results. */
static uint64_t infer__session_bytes(const infer__plan *p, const infer_model *m);
static void infer__further_fork(infer_session *to, const infer_session *from);

/* The part of this kind, NULL when the layer has none. */
INFER__INLINE const infer__part *infer__layer_part(const infer__layer *l, int32_t kind) {
    int32_t i;
    for (i = 0; i < l->n_parts; i++)
        if (l->parts[i].kind->id == kind) return &l->parts[i];
    return NULL;
}

/* Compute the embeddings of a pass's rows again, as the first layer gets them. */
static void infer__embed_rows(infer_context *c, const infer__weight *table, const infer__tensor *x);
/* t *= scale, where a matrix has one. */
static void infer__times(infer_context *c, const infer__weight *w, const infer__tensor *t); /* t / w, a vector */
static void infer__scale_rows(infer_context *c, float scale, const infer__tensor *t);
/* Columns [first, first + n) of t. */
static infer__tensor infer__columns(const infer__tensor *t, int32_t first, int32_t n);
/* y = x */
static void infer__copy_rows(infer_context *c, const infer__tensor *x, const infer__tensor *y);
/* A sublayer's last product, times `scale`: to its output, or added to the stream. */
static void infer__last_product(infer_context *c, const infer__tensor *x, const infer__weight *w,
                                const infer__weight *b, float scale, const infer__sublayer *s);
/* y = norm(x), of whole rows, by weights[0] and, of layer norms, biases in weights[1]. */
static infer__norm_args infer__norm_of(const infer_context *c, const infer__weight *weights, const infer__tensor *x,
                                       const infer__tensor *y);
static void infer__norm_to(infer_context *c, const infer__weight *weights, const infer__tensor *x,
                           const infer__tensor *y);
/* y = norm(x), `groups` to a row, by the weights of a slot alone; without weights where it is empty. */
static void infer__slot_norm(infer_context *c, const infer__layer *l, int slot, int32_t groups, const infer__tensor *x,
                             const infer__tensor *y);
/* The norm before a sublayer's last matrix; nothing when the slot is empty. */
static void infer__sub_norm(infer_context *c, const infer__layer *l, int slot, const infer__tensor *t);

/* layers/cross.c: keys and values of x, the encoder's rows, for a layer's cross attention. */
static void infer__cross_store(infer_context *c, const infer__layer *l, const infer__part *p, const infer__tensor *x);
/* source.c; the session is claimed, in encode its context is not. */
static infer_result infer__session_encode(infer_session *s, const infer_token *tokens, int32_t n);
static infer_result infer__source_set(infer_session *s, const infer_token *tokens, int32_t n, infer_error *err);
static infer_result infer__source_fork(infer_session *to, const infer_session *from);
static infer_result infer__session_cut(infer_session *s, int32_t n);
/* layers/encoder.c, pool.c */
static infer_result infer__pool_check(infer_model *m, infer_error *err); /* after the weights are bound */
/* The vector of a text of n tokens, whose hidden states are `rows`: width floats, hp.n_out, n_labels for RANK. scratch:
 * infer__pool_scratch floats. */
static infer_result infer__pool_text(const infer_model *m, int32_t pooling, const float *rows, int32_t n, float *out,
                                float *scratch, infer_error *err);
/* x is divided by its length (2), by the sum of its absolute values (1), or stays; zeros stay. */
static void infer__pool_scale(float *x, int32_t n, int32_t norm);
static uint64_t infer__pool_scratch(const infer_model *m);
/* The pooling used when the caller names none. */
static int32_t infer__pool_default(const infer_model *m);
static int32_t infer__pool_usual(const infer_model *m); /* and where the file names none, either */
/* Indices of a row of the pass into a table: n-grams, or its kind of token. */
static int32_t infer__looks(const infer_model *m);
static void infer__pool_describe(infer__text_out *o, const infer_model *m);

/* describe.c: write as much of a model's description as fits to out, zero-terminated; returns the full length. */
static size_t infer__describe_to(const infer_model *m, char *out, size_t cap);
/* Its lines, for kinds of sublayers. */
static void infer__text_add(infer__text_out *o, const char *format, ...) INFER__PRINTF(2, 3);
static const char *infer__norm_name(const infer_model *m);
static const char *infer__act_name(int32_t act);

/* Used by several parts. */
static infer__tensor infer__view(infer__buf *b, uint64_t first_float, int32_t rows, int32_t cols);
static const infer__weight *infer__opt(const infer__weight *w); /* w, or NULL when absent */
#endif
