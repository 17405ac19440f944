/* machinery.h: kinds of sublayers by name. What rows of ARCHS ask for beside kinds is in base/archs.h. */
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
#endif
