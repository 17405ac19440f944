/* needs.c: tensors that every model of an architecture has, although other architectures lack them.
 *
 * Owns:  INFER__NEEDS and INFER__MODEL_NEEDS. Such tensors are optional in slots.h (most layers have no norms of Q and
 *        K), so without this check a file that lost one would be computed as a different model.
 * Facts: what llama.cpp refuses to load without, asked of it with files that lack one tensor each.
 */
#include "model.h"

/* Where a layer of these architectures has `with`, it must have `slot`. A(name), N(name, "the-name"): names as
 * INFER_ARCH_NAME has them, and as they are where they differ; those of this build become a text. */
#define INFER__NEEDS_ROWS(A, N) /* slot, with, architectures */ \
    { INFER__W_ATTN_NORM_B, INFER__W_ATTN_NORM, A(bloom) A(codeshell) A(falcon) A(gpt2) A(gptneox) A(jais) \
      A(jais2) A(nemotron) A(orion) A(phi2) A(phimoe) A(pockettts) A(rwkv6) A(rwkv7) A(stablelm) A(starcoder) \
      A(starcoder2) "" }, \
    { INFER__W_FFN_NORM_B, INFER__W_FFN_NORM, A(bloom) A(codeshell) A(gpt2) A(gptneox) A(jais) A(jais2) \
      A(nemotron) A(orion) A(phimoe) A(pockettts) A(rwkv6) A(rwkv7) A(starcoder) A(starcoder2) "" }, \
    { INFER__W_ATTN_POST_NORM, INFER__W_ATTN_OUT, A(afmoe) A(exaone4) N(gemma_embedding, "gemma-embedding") \
      A(gemma2) A(gemma3) A(gemma3n) A(gemma4) A(glm4) N(muse_glimmer, "muse-glimmer") A(olmo2) A(plamo2) \
      A(plamo3) "" }, \
    { INFER__W_FFN_POST_NORM, INFER__W_FFN_DOWN, A(afmoe) A(exaone4) N(gemma_embedding, "gemma-embedding") \
      A(gemma2) A(gemma3) A(gemma3n) A(gemma4) A(glm4) N(muse_glimmer, "muse-glimmer") A(olmo2) A(plamo2) \
      A(plamo3) "" }, \
    { INFER__W_FFN_POST_NORM, INFER__W_MOE_DOWN, A(afmoe) A(gemma4) "" }, \
    { INFER__W_ATTN_OUT_NORM_B, INFER__W_ATTN_OUT_NORM, A(bert) N(jina_bert_v2, "jina-bert-v2") \
      N(jina_bert_v3, "jina-bert-v3") N(nomic_bert, "nomic-bert") N(nomic_bert_moe, "nomic-bert-moe") "" }, \
    { INFER__W_LAYER_OUT_NORM_B, INFER__W_LAYER_OUT_NORM, A(bert) N(jina_bert_v2, "jina-bert-v2") \
      N(jina_bert_v3, "jina-bert-v3") N(nomic_bert, "nomic-bert") N(nomic_bert_moe, "nomic-bert-moe") "" }, \
    { INFER__W_INPUT_POST_NORM, INFER__W_INPUT_GATE, A(gemma3n) A(gemma4) "" }, \
    { INFER__W_ATTN_QKV_B, INFER__W_ATTN_QKV, A(bloom) A(gpt2) A(gptneox) A(jais) A(qwen) A(starcoder) "" }, \
    { INFER__W_ATTN_Q_NORM, INFER__W_ATTN_OUT, A(afmoe) A(apertus) A(bailingmoe2) A(dots1) \
      N(exaone_moe, "exaone-moe") A(exaone4) N(gemma_embedding, "gemma-embedding") A(gemma3) A(gemma3n) \
      A(gemma4) A(grovemoe) N(hunyuan_dense, "hunyuan-dense") N(hunyuan_moe, "hunyuan-moe") A(hunyuan_vl) \
      A(hy_v3) A(laguna) A(lfm2) A(lfm2moe) N(llada_moe, "llada-moe") A(maincoder) A(maple) A(mellum) \
      N(minimax_m2, "minimax-m2") N(minimax_m3, "minimax-m3") N(muse_glimmer, "muse-glimmer") A(olmo2) A(olmoe) \
      A(openelm) A(plamo2) A(plamo3) A(qwen3) A(qwen3moe) A(qwen3tts) A(qwen3vl) A(qwen3vlmoe) A(rnd1) "" }, \
    { INFER__W_ATTN_K_NORM, INFER__W_ATTN_OUT, A(afmoe) A(apertus) A(bailingmoe2) A(dots1) \
      N(exaone_moe, "exaone-moe") A(exaone4) N(gemma_embedding, "gemma-embedding") A(gemma3) A(gemma3n) \
      A(gemma4) A(grovemoe) N(hunyuan_dense, "hunyuan-dense") N(hunyuan_moe, "hunyuan-moe") A(hunyuan_vl) \
      A(hy_v3) A(laguna) A(lfm2) A(lfm2moe) N(llada_moe, "llada-moe") A(maincoder) A(maple) A(mellum) \
      N(minimax_m2, "minimax-m2") N(minimax_m3, "minimax-m3") N(muse_glimmer, "muse-glimmer") A(olmo2) A(olmoe) \
      A(openelm) A(plamo2) A(plamo3) A(qwen3) A(qwen35) A(qwen35moe) A(qwen3moe) A(qwen3next) A(qwen3tts) \
      A(qwen3vl) A(qwen3vlmoe) A(qwen4exp) A(rnd1) "" }, \
    { INFER__W_ATTN_SINKS, INFER__W_ATTN_OUT, N(gpt_oss, "gpt-oss") A(granite_swa) "" }, \
    { INFER__W_LATENT_K_NORM, INFER__W_LATENT_OUT, A(dots3note) "" }, \
    { INFER__W_LATENT_SINKS, INFER__W_LATENT_OUT, A(hy_v4) "" }, \
    { INFER__W_ATTN_OUT_B, INFER__W_ATTN_OUT, A(bloom) A(codeshell) N(gpt_oss, "gpt-oss") A(gpt2) A(gptneox) \
      A(jais) A(jais2) N(jina_bert_v2, "jina-bert-v2") N(pangu_embedded, "pangu-embedded") A(phi2) A(phimoe) \
      A(starcoder) A(starcoder2) "" }, \
    { INFER__W_ATTN_GATE, INFER__W_ATTN_OUT, A(afmoe) A(laguna) "" }, \
    { INFER__W_ATTN_SUB_NORM, INFER__W_ATTN_OUT, A(bitnet) "" }, \
    { INFER__W_FFN_GATE, INFER__W_FFN_UP, A(afmoe) A(arctic) A(arwkv7) A(baichuan) A(bailingmoe2) A(bailingmoe3) \
      A(cogvlm) A(cohere2) A(cohere2moe) N(command_r, "command-r") A(deepseek) A(deepseek2) \
      N(deepseek2_ocr, "deepseek2-ocr") A(deepseek32) A(dots1) A(dots3note) A(dream) A(ernie4_5) \
      N(ernie4_5_moe, "ernie4_5-moe") A(eurobert) A(exaone) N(exaone_moe, "exaone-moe") A(exaone4) \
      N(falcon_h1, "falcon-h1") A(gemma) N(gemma_embedding, "gemma-embedding") A(gemma2) A(gemma3) A(gemma3n) \
      A(gemma4) N(glm_dsa, "glm-dsa") A(glm4moe) A(granite) A(graniteswitch) A(hrm_text) \
      N(hunyuan_dense, "hunyuan-dense") A(hunyuan_vl) A(hy_v4) A(internlm2) A(jamba) \
      N(kimi_linear, "kimi-linear") A(laguna) A(lfm2) A(lfm2moe) A(llada) A(llama) N(llama_embed, "llama-embed") \
      A(llama4) A(maincoder) A(minicpm) A(minicpm3) N(minimax_m3, "minimax-m3") A(mistral3) A(mistral4) \
      N(muse_glimmer, "muse-glimmer") A(nanbeige) N(nomic_bert, "nomic-bert") A(olmo) A(olmo2) A(openelm) \
      A(orion) A(paddleocr) N(pangu_embedded, "pangu-embedded") A(plamo) A(qwen) A(qwen2) A(qwen2vl) A(qwen3) \
      A(qwen35) A(qwen3tts) A(qwen3vl) A(refact) A(rwkv6qwen2) A(seed_oss) A(smollm3) A(spark2_5) A(stablelm) \
      A(talkie) A(xverse) "" }, \
    { INFER__W_FFN_GATE_B, INFER__W_FFN_GATE, A(jais) "" }, \
    { INFER__W_FFN_UP_B, INFER__W_FFN_UP, A(bloom) A(codeshell) A(gpt2) A(gptneox) A(jais) A(jais2) A(phi2) \
      A(starcoder) A(starcoder2) "" }, \
    { INFER__W_FFN_DOWN_B, INFER__W_FFN_DOWN, A(bloom) A(codeshell) A(gpt2) A(gptneox) A(jais) A(jais2) \
      N(jina_bert_v2, "jina-bert-v2") A(phi2) A(starcoder) A(starcoder2) "" }, \
    { INFER__W_FFN_SUB_NORM, INFER__W_FFN_DOWN, A(bitnet) "" }, \
    { INFER__W_MOE_ROUTER_B, INFER__W_MOE_ROUTER, N(gpt_oss, "gpt-oss") "" }, \
    { INFER__W_MOE_CHOICE_B, INFER__W_MOE_ROUTER, A(afmoe) A(bailingmoe3) A(dots3note) A(glm4moe) \
      N(kimi_k3, "kimi-k3") N(kimi_linear, "kimi-linear") A(laguna) A(lfm2moe) N(minimax_m2, "minimax-m2") \
      N(minimax_m3, "minimax-m3") "" }, \
    { INFER__W_MOE_GATE, INFER__W_MOE_UP, A(afmoe) A(arctic) A(bailingmoe) A(bailingmoe2) A(bailingmoe3) A(dbrx) \
      A(deepseek) A(deepseek2) N(deepseek2_ocr, "deepseek2-ocr") A(deepseek32) A(deepseek4) A(dots1) \
      A(dots3note) N(exaone_moe, "exaone-moe") N(glm_dsa, "glm-dsa") A(glm4moe) A(grovemoe) \
      N(hunyuan_moe, "hunyuan-moe") A(hy_v4) N(kimi_linear, "kimi-linear") A(laguna) A(lfm2moe) \
      N(llada_moe, "llada-moe") A(llama4) A(maple) A(mellum) N(minimax_m2, "minimax-m2") \
      N(minimax_m3, "minimax-m3") A(olmoe) A(phimoe) A(qwen2moe) A(qwen3moe) A(qwen3vlmoe) A(qwen4exp) A(rnd1) \
      A(smallthinker) "" }, \
    { INFER__W_MOE_GATE_B, INFER__W_MOE_GATE, N(gpt_oss, "gpt-oss") "" }, \
    { INFER__W_MOE_UP_B, INFER__W_MOE_UP, N(gpt_oss, "gpt-oss") "" }, \
    { INFER__W_MOE_DOWN_B, INFER__W_MOE_DOWN, N(gpt_oss, "gpt-oss") "" }, \
    { INFER__W_SHARED_GATE, INFER__W_SHARED_UP, A(afmoe) A(bailingmoe) A(bailingmoe2) A(bailingmoe3) \
      A(cohere2moe) A(deepseek) A(deepseek2) N(deepseek2_ocr, "deepseek2-ocr") A(deepseek32) A(deepseek4) \
      A(dots1) A(dots3note) N(ernie4_5_moe, "ernie4_5-moe") N(exaone_moe, "exaone-moe") N(glm_dsa, "glm-dsa") \
      A(glm4moe) A(granite) A(granitehybrid) A(granitemoe) N(hunyuan_moe, "hunyuan-moe") A(hy_v4) A(laguna) \
      A(llama4) N(minimax_m3, "minimax-m3") A(mistral4) A(qwen2moe) A(qwen35moe) A(qwen3next) A(qwen4exp) "" }, \
    { INFER__W_SHARED_SCORE, INFER__W_SHARED_UP, A(qwen2moe) A(qwen35moe) A(qwen3next) A(qwen4exp) "" }, \
    { INFER__W_SSM_TAPS_B, INFER__W_SSM_TAPS, A(jamba) A(mamba) A(mamba2) "" }, \
    { INFER__W_SSM_NORM, INFER__W_SSM_OUT, A(granitehybrid) A(mamba2) A(nemotron_h) A(nemotron_h_moe) "" }, \
    { INFER__W_INDEX_K_NORM_B, INFER__W_INDEX_K_NORM, A(deepseek32) A(dots3note) A(hy_v4) "" }, \
    { INFER__W_KDA_F_B, INFER__W_KDA_F_A, N(kimi_k3, "kimi-k3") N(kimi_linear, "kimi-linear") "" }, \
    { INFER__W_KDA_G_B, INFER__W_KDA_G_A, N(kimi_linear, "kimi-linear") "" }
/* The same for what lies outside layers; when: only of models for which it gives 1, NULL = of all. */
#define INFER__MODEL_NEEDS_ROWS(A, N) /* slot, architectures, when */ \
    { INFER__W_POS_EMBD, A(bert) A(gpt2) A(starcoder) "", NULL }, \
    { INFER__W_TOKEN_TYPES, N(jina_bert_v2, "jina-bert-v2") "", NULL }, \
    { INFER__W_EMBD_NORM, A(bert) A(bloom) N(jina_bert_v2, "jina-bert-v2") N(jina_bert_v3, "jina-bert-v3") \
      N(modern_bert, "modern-bert") N(nomic_bert, "nomic-bert") N(nomic_bert_moe, "nomic-bert-moe") A(rwkv6) \
      A(rwkv7) "", NULL }, \
    { INFER__W_EMBD_NORM_B, A(bert) A(bloom) N(jina_bert_v2, "jina-bert-v2") N(jina_bert_v3, "jina-bert-v3") \
      N(nomic_bert, "nomic-bert") N(nomic_bert_moe, "nomic-bert-moe") A(rwkv6) A(rwkv7) "", NULL }, \
    { INFER__W_OUT_NORM_B, A(bloom) A(codeshell) A(falcon) A(gpt2) A(gptneox) A(jais) A(jais2) A(nemotron) \
      A(orion) A(phi2) A(phimoe) A(pockettts) A(rwkv6) A(rwkv7) A(stablelm) A(starcoder) A(starcoder2) \
      "", NULL }, \
    { INFER__W_OUTPUT, A(apertus) A(arwkv7) A(baichuan) A(bailingmoe) A(bailingmoe2) A(codeshell) A(dbrx) \
      A(deepseek4) A(dots1) N(exaone_moe, "exaone-moe") N(gpt_oss, "gpt-oss") A(gptneox) A(hy_v4) A(internlm2) \
      A(jais) N(kimi_k3, "kimi-k3") N(kimi_linear, "kimi-linear") N(llada_moe, "llada-moe") A(maple) A(mellum) \
      A(mimo2) N(minimax_m2, "minimax-m2") N(minimax_m3, "minimax-m3") N(muse_glimmer, "muse-glimmer") \
      A(nemotron) A(olmo2) A(olmoe) A(orion) A(phi2) A(phimoe) A(plamo) A(qwen) A(qwen2moe) A(rwkv6) \
      A(rwkv6qwen2) A(rwkv7) A(stablelm) A(step35) A(talkie) A(xverse) "", NULL }, \
    { INFER__W_OUTPUT_B, A(phi2) A(phimoe) "", NULL }, \
    { INFER__W_ROPE_FREQS, A(gemma4) "", infer__rope_scales }

#if defined(INFER_ONLY_ARCHS)
#  define INFER__NEED_WORD(name) INFER__IF(INFER_ARCH_##name, #name " ")
#  define INFER__NEED_NAME(name, text) INFER__IF(INFER_ARCH_##name, text " ")
#else
#  define INFER__NEED_WORD(name) #name " "
#  define INFER__NEED_NAME(name, text) text " "
#endif
static const struct infer__needs_row {
    int16_t slot, with; /* INFER__W_* */
    const char *archs;  /* names, separated by spaces */
} INFER__NEEDS[] = { INFER__NEEDS_ROWS(INFER__NEED_WORD, INFER__NEED_NAME) };
static const struct infer__model_needs_row {
    int16_t slot;
    const char *archs;
    int (*when)(const infer_model *m);
} INFER__MODEL_NEEDS[] = { INFER__MODEL_NEEDS_ROWS(INFER__NEED_WORD, INFER__NEED_NAME) };
#undef INFER__NEED_WORD
#undef INFER__NEED_NAME

/* Of a layer whose tensors are bound; one that is there and was not bound has its reasons. */
static infer_result infer__needs_layer(const infer_model *m, const infer__layer *l, infer_error *err) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__NEEDS); i++) {
        const struct infer__needs_row *n = &INFER__NEEDS[i];
        const infer__tensor_slot *slot = infer__layer_slot(m, l, n->slot);
        if (l->w[n->slot].type || !l->w[n->with].type || !slot || infer__slot_tensor(m, l, slot) ||
            infer__unread_kv(l, n->slot))
            continue;
        if (infer__words_have(n->archs, infer__arch_of(m)->name)) return infer__missing(l, slot, err);
    }
    return INFER_OK;
}

static infer_result infer__needs_check(const infer_model *m, infer_error *err) {
    infer_result r = INFER_OK;
    size_t i;
    int32_t k;
    for (i = 0; i < INFER__COUNT(INFER__MODEL_NEEDS); i++) {
        const struct infer__model_needs_row *n = &INFER__MODEL_NEEDS[i];
        const infer__tensor_slot *slot = infer__model_slot(m, n->slot);
        if (m->w[n->slot].type || !slot || infer__slot_tensor(m, NULL, slot)) continue;
        if (n->when && !n->when(m)) continue;
        if (infer__words_have(n->archs, infer__arch_of(m)->name)) return infer__missing(NULL, slot, err);
    }
    for (k = 0; k < infer__n_all(&m->hp) && !r; k++) r = infer__needs_layer(m, &m->layers[k], err);
    return r;
}
