/* archs.h: what some architectures ask for and shared code does, so that builds without these are without it.
 *
 * Owns:  the lists of such architectures, as INFER_ARCH_NAME names them (test_arch_machinery compares them with rows
 *        of ARCHS), and a constant for each: 0 when INFER_ONLY_ARCHS lists none of them.
 * Rules: only what no kind of sublayer of its own leads to is here. Checks that refuse a file are not left out.
 */
#ifndef INFER__ARCHS_H
#define INFER__ARCHS_H

#include "switches.h"

/* What rows ask for by a field, a flag or a function of keys: named beside each list. */
#define INFER__INDEX_ARCHS(A) /* arch.index */ \
    A(deepseek32) A(deepseek4) A(dots3note) A(glm_dsa) A(hy_v4) A(minimax_m3) A(qwen4exp)
#define INFER__SPARSE_ARCHS(A) A(gemma3n) /* INFER__SPARSE */
#define INFER__SWITCH_ARCHS(A) A(graniteswitch) /* infer__switch_keys */
#define INFER__NGRAM_ARCHS(A) A(qwen4exp) /* infer__qwen4exp_keys */
#define INFER__SOURCE_ARCHS(A) A(t5) /* arch.decoder */
/* All but llama: its layers are plain ones: causal attention (grouped, rotated, maybe with biases) and an FFN with a
 * gate of SiLU, both after an RMS norm. So are those of builds of llama alone, where files that have more are refused:
 * their tensors have no slot (weights.c), their keys are not looked up, or hparams.c refuses the value. */
#define INFER__VARIANT_ARCHS(A) \
    A(afmoe) A(apertus) A(arcee) A(arctic) A(arwkv7) A(baichuan) A(bailingmoe) A(bailingmoe2) A(bailingmoe3) \
    A(barbet) A(bert) A(bitnet) A(bloom) A(chameleon) A(chatglm) A(codeshell) A(cogvlm) A(cohere2) A(cohere2moe) \
    A(command_r) A(dbrx) A(deci) A(deepseek) A(deepseek2) A(deepseek2_ocr) A(deepseek32) A(deepseek4) A(dots1) \
    A(dots3note) A(dream) A(ernie4_5) A(ernie4_5_moe) A(eurobert) A(exaone) A(exaone_moe) A(exaone4) A(falcon) \
    A(falcon_h1) A(gemma) A(gemma_embedding) A(gemma2) A(gemma3) A(gemma3n) A(gemma4) A(glm_dsa) A(glm4) A(glm4moe) \
    A(gpt_oss) A(gpt2) A(gptneox) A(granite) A(granite_swa) A(granitehybrid) A(granitemoe) A(graniteswitch) A(grok) \
    A(grovemoe) A(hrm_text) A(hunyuan_dense) A(hunyuan_moe) A(hunyuan_vl) A(hy_v3) A(hy_v4) A(internlm2) A(jais) \
    A(jais2) A(jamba) A(jina_bert_v2) A(jina_bert_v3) A(kimi_k3) A(kimi_linear) A(laguna) A(lfm2) A(lfm2moe) \
    A(llada) A(llada_moe) A(llama_embed) A(llama4) A(maincoder) A(maple) A(mamba) A(mamba2) A(mellum) A(mimo2) \
    A(minicpm) A(minicpm3) A(minimax_01) A(minimax_m2) A(minimax_m3) A(mistral3) A(mistral4) A(modern_bert) A(mpt) \
    A(muse_glimmer) A(nanbeige) A(nemotron) A(nemotron_h) A(nemotron_h_moe) A(neo_bert) A(nomic_bert) \
    A(nomic_bert_moe) A(olmo) A(olmo2) A(olmoe) A(openelm) A(orion) A(paddleocr) A(pangu_embedded) A(phi2) A(phi3) \
    A(phimoe) A(plamo) A(plamo2) A(plamo3) A(plm) A(pockettts) A(qwen) A(qwen2) A(qwen2moe) A(qwen2vl) A(qwen3) \
    A(qwen35) A(qwen35moe) A(qwen3moe) A(qwen3next) A(qwen3tts) A(qwen3vl) A(qwen3vlmoe) A(qwen4exp) A(refact) \
    A(rnd1) A(rwkv6) A(rwkv6qwen2) A(rwkv7) A(seed_oss) A(smallthinker) A(smollm3) A(spark2_5) A(stablelm) \
    A(starcoder) A(starcoder2) A(step35) A(t5) A(t5encoder) A(talkie) A(xverse)
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
    INFER__HAS_SOURCE = 0 INFER__SOURCE_ARCHS(INFER__OR_ARCH),
    INFER__HAS_VARIANTS = INFER__HAS_MEDIA INFER__VARIANT_ARCHS(INFER__OR_ARCH),
    INFER__HAS_ACTS = INFER__HAS_VARIANTS | INFER__HAS_EXPERTS /* activations beside SiLU */
};
/* What plain layers do not have. */
#define INFER__VARIANT(x) (INFER__HAS_VARIANTS ? (x) : 0)
#endif
