/* machinery.h: kinds of sublayers by name; and what some rows of ARCHS ask for and shared code does, so that builds
 * without these rows are without it.
 *
 * Owns:  the lists of kinds, and of such rows, as INFER_ARCH_NAME names them (test_arch_machinery compares them with
 *        the rows), and a constant for each: 0 when INFER_ONLY_ARCHS lists none of them.
 * Rules: only what no kind of sublayer of its own leads to is here. Checks that refuse a file are not left out.
 */
#ifndef INFER__MACHINERY_H
#define INFER__MACHINERY_H

#include "../base/base.h"

/* A kind of sublayer: one row in layers/kinds.c. What no row of ARCHS leads to is left out by the compiler: so kinds
 * are reached by pointers, and only compared by number. */
#define INFER__SUBLAYERS(S) \
    S(ATTENTION) S(DENSE) S(MOE) S(SHORTCONV) S(MOE_DENSE) S(KEEP) S(ROUTER) S(EMBED_SKIP) S(MAMBA) S(MAMBA_2) \
    S(MAMBA_HEADS) S(LATENT) S(DELTA) S(KDA) S(LIGHTNING) S(RESTART) S(RES_ATTENTION) S(HYPER) S(CYCLES) \
    S(INPUTS) S(INPUT) S(SCALE) S(OUT_SCALE) S(BESIDE) S(STREAMS) S(STREAMS_END) S(PREDICT) S(CORRECT) S(LAUREL) \
    S(TIME_MIX_6) S(TIME_MIX_7) S(CHANNEL_MIX) S(COMPRESSED) S(HYPER_LOW) S(SHARES) S(NGRAMS) S(CROSS) \
    S(KEEP_STREAM) S(STREAM_AGAIN) S(NEXTN) S(STACK_IN) S(STACK_BESIDE) S(STACK_HEAD) \
    S(MOBILE_EDGE) S(MOBILE_INVERTED) S(MOBILE_QUERIES)
#define INFER__SUBLAYER_ENUM(name) INFER__SUBLAYER_##name,
enum { INFER__SUBLAYER_NONE, INFER__SUBLAYERS(INFER__SUBLAYER_ENUM) INFER__SUBLAYER_COUNT };

/* What rows ask for by a field, a flag or a function of keys: named beside each list. */
#define INFER__INDEX_ARCHS(A) /* arch.index */ \
    A(deepseek32) A(deepseek4) A(dots3note) A(glm_dsa) A(hy_v4) A(minimax_m3) A(qwen4exp)
#define INFER__SPARSE_ARCHS(A) A(gemma3n) /* INFER__SPARSE */
#define INFER__SWITCH_ARCHS(A) A(graniteswitch) /* infer__switch_keys */
#define INFER__NGRAM_ARCHS(A) A(qwen4exp) /* infer__qwen4exp_keys */
#define INFER__SOURCE_ARCHS(A) A(t5) /* arch.decoder */
#if defined(INFER_ONLY_ARCHS)
#  define INFER__OR_ARCH(id) INFER__IF(INFER_ARCH_##id, | 1)
#else
#  define INFER__OR_ARCH(id) | 1
#endif
enum {
    INFER__HAS_INDEX = 0 INFER__INDEX_ARCHS(INFER__OR_ARCH),
    INFER__HAS_SPARSE = 0 INFER__SPARSE_ARCHS(INFER__OR_ARCH),
    INFER__HAS_SWITCH = 0 INFER__SWITCH_ARCHS(INFER__OR_ARCH),
    INFER__HAS_NGRAMS = 0 INFER__NGRAM_ARCHS(INFER__OR_ARCH),
    INFER__HAS_SOURCE = 0 INFER__SOURCE_ARCHS(INFER__OR_ARCH)
};
#endif
