/* needs.c: tensors that every model of an architecture has, although other architectures lack them.
 *
 * Owns:  INFER__NEEDS and INFER__MODEL_NEEDS. Such tensors are optional in slots.h (most layers have no norms of Q and
 *        K), so without this check a file that lost one would be computed as a different model.
 * Facts: what llama.cpp refuses to load without, asked of it with files that lack one tensor each.
 */
#include "model.h"

/* Where a layer of these architectures has `with`, it must have `slot`. */
static const struct infer__needs_row {
    int16_t slot, with; /* INFER__W_* */
    const char *archs;  /* names, separated by spaces */
} INFER__NEEDS[] = {
    { INFER__W_ATTN_NORM_B, INFER__W_ATTN_NORM,
      "bloom codeshell falcon gpt2 gptneox jais jais2 nemotron orion phi2 phimoe pockettts rwkv6 rwkv7 stablelm "
      "starcoder starcoder2" },
    { INFER__W_FFN_NORM_B, INFER__W_FFN_NORM,
      "bloom codeshell gpt2 gptneox jais jais2 nemotron orion phimoe pockettts rwkv6 rwkv7 starcoder starcoder2" },
    { INFER__W_ATTN_POST_NORM, INFER__W_ATTN_OUT,
      "afmoe exaone4 gemma-embedding gemma2 gemma3 gemma3n gemma4 glm4 muse-glimmer olmo2 plamo2 plamo3" },
    { INFER__W_FFN_POST_NORM, INFER__W_FFN_DOWN,
      "afmoe exaone4 gemma-embedding gemma2 gemma3 gemma3n gemma4 glm4 muse-glimmer olmo2 plamo2 plamo3" },
    { INFER__W_FFN_POST_NORM, INFER__W_MOE_DOWN, "afmoe gemma4" },
    { INFER__W_ATTN_OUT_NORM_B, INFER__W_ATTN_OUT_NORM, "bert jina-bert-v2 jina-bert-v3 nomic-bert nomic-bert-moe" },
    { INFER__W_LAYER_OUT_NORM_B, INFER__W_LAYER_OUT_NORM,
      "bert jina-bert-v2 jina-bert-v3 nomic-bert nomic-bert-moe" },
    { INFER__W_INPUT_POST_NORM, INFER__W_INPUT_GATE, "gemma3n gemma4" },
    { INFER__W_ATTN_QKV_B, INFER__W_ATTN_QKV, "bloom gpt2 gptneox jais qwen starcoder" },
    { INFER__W_ATTN_Q_NORM, INFER__W_ATTN_OUT,
      "afmoe apertus bailingmoe2 dots1 exaone-moe exaone4 gemma-embedding gemma3 gemma3n gemma4 grovemoe "
      "hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 laguna lfm2 lfm2moe llada-moe maincoder maple mellum "
      "minimax-m2 minimax-m3 muse-glimmer olmo2 olmoe openelm plamo2 plamo3 qwen3 qwen3moe qwen3tts qwen3vl "
      "qwen3vlmoe rnd1" },
    { INFER__W_ATTN_K_NORM, INFER__W_ATTN_OUT,
      "afmoe apertus bailingmoe2 dots1 exaone-moe exaone4 gemma-embedding gemma3 gemma3n gemma4 "
      "grovemoe hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 laguna lfm2 lfm2moe llada-moe maincoder maple mellum "
      "minimax-m2 minimax-m3 muse-glimmer olmo2 olmoe openelm plamo2 plamo3 qwen3 qwen35 qwen35moe qwen3moe "
      "qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp rnd1" },
    { INFER__W_ATTN_SINKS, INFER__W_ATTN_OUT, "gpt-oss granite_swa" },
    { INFER__W_LATENT_K_NORM, INFER__W_LATENT_OUT, "dots3note" },
    { INFER__W_LATENT_SINKS, INFER__W_LATENT_OUT, "hy_v4" },
    { INFER__W_ATTN_OUT_B, INFER__W_ATTN_OUT,
      "bloom codeshell gpt-oss gpt2 gptneox jais jais2 jina-bert-v2 pangu-embedded phi2 phimoe starcoder "
      "starcoder2" },
    { INFER__W_ATTN_GATE, INFER__W_ATTN_OUT, "afmoe laguna" },
    { INFER__W_ATTN_SUB_NORM, INFER__W_ATTN_OUT, "bitnet" },
    { INFER__W_FFN_GATE, INFER__W_FFN_UP,
      "afmoe arctic arwkv7 baichuan bailingmoe2 bailingmoe3 cogvlm cohere2 cohere2moe command-r deepseek "
      "deepseek2 deepseek2-ocr deepseek32 dots1 dots3note dream ernie4_5 ernie4_5-moe eurobert exaone "
      "exaone-moe exaone4 falcon-h1 gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 glm-dsa glm4moe granite "
      "graniteswitch hrm_text hunyuan-dense hunyuan_vl hy_v4 internlm2 jamba kimi-linear laguna lfm2 lfm2moe "
      "llada llama llama-embed llama4 maincoder minicpm minicpm3 minimax-m3 mistral3 mistral4 muse-glimmer "
      "nanbeige nomic-bert olmo olmo2 openelm orion paddleocr pangu-embedded plamo qwen qwen2 qwen2vl qwen3 "
      "qwen35 qwen3tts qwen3vl refact rwkv6qwen2 seed_oss smollm3 spark2_5 stablelm talkie xverse" },
    { INFER__W_FFN_GATE_B, INFER__W_FFN_GATE, "jais" },
    { INFER__W_FFN_UP_B, INFER__W_FFN_UP, "bloom codeshell gpt2 gptneox jais jais2 phi2 starcoder starcoder2" },
    { INFER__W_FFN_DOWN_B, INFER__W_FFN_DOWN,
      "bloom codeshell gpt2 gptneox jais jais2 jina-bert-v2 phi2 starcoder starcoder2" },
    { INFER__W_FFN_SUB_NORM, INFER__W_FFN_DOWN, "bitnet" },
    { INFER__W_MOE_ROUTER_B, INFER__W_MOE_ROUTER, "gpt-oss" },
    { INFER__W_MOE_CHOICE_B, INFER__W_MOE_ROUTER,
      "afmoe bailingmoe3 dots3note glm4moe kimi-k3 kimi-linear laguna lfm2moe minimax-m2 minimax-m3" },
    { INFER__W_MOE_GATE, INFER__W_MOE_UP,
      "afmoe arctic bailingmoe bailingmoe2 bailingmoe3 dbrx deepseek deepseek2 deepseek2-ocr deepseek32 "
      "deepseek4 dots1 dots3note exaone-moe glm-dsa glm4moe grovemoe hunyuan-moe hy_v4 kimi-linear laguna "
      "lfm2moe llada-moe llama4 maple mellum minimax-m2 minimax-m3 olmoe phimoe qwen2moe qwen3moe qwen3vlmoe "
      "qwen4exp rnd1 smallthinker" },
    { INFER__W_MOE_GATE_B, INFER__W_MOE_GATE, "gpt-oss" },
    { INFER__W_MOE_UP_B, INFER__W_MOE_UP, "gpt-oss" },
    { INFER__W_MOE_DOWN_B, INFER__W_MOE_DOWN, "gpt-oss" },
    { INFER__W_SHARED_GATE, INFER__W_SHARED_UP,
      "afmoe bailingmoe bailingmoe2 bailingmoe3 cohere2moe deepseek deepseek2 deepseek2-ocr deepseek32 "
      "deepseek4 dots1 dots3note ernie4_5-moe exaone-moe glm-dsa glm4moe granite granitehybrid granitemoe "
      "hunyuan-moe hy_v4 laguna llama4 minimax-m3 mistral4 qwen2moe qwen35moe qwen3next qwen4exp" },
    { INFER__W_SHARED_SCORE, INFER__W_SHARED_UP, "qwen2moe qwen35moe qwen3next qwen4exp" },
    { INFER__W_SSM_TAPS_B, INFER__W_SSM_TAPS, "jamba mamba mamba2" },
    { INFER__W_SSM_NORM, INFER__W_SSM_OUT, "granitehybrid mamba2 nemotron_h nemotron_h_moe" },
    { INFER__W_INDEX_K_NORM_B, INFER__W_INDEX_K_NORM, "deepseek32 dots3note hy_v4" },
    { INFER__W_KDA_F_B, INFER__W_KDA_F_A, "kimi-k3 kimi-linear" },
    { INFER__W_KDA_G_B, INFER__W_KDA_G_A, "kimi-linear" } };

/* The same for tensors outside layers; when: only for models for which it returns 1, NULL = of all. */
static const struct infer__model_needs_row {
    int16_t slot;
    const char *archs;
    int (*when)(const infer_model *m);
} INFER__MODEL_NEEDS[] = {
    { INFER__W_POS_EMBD, "bert gpt2 starcoder", NULL },
    { INFER__W_TOKEN_TYPES, "jina-bert-v2", NULL },
    { INFER__W_EMBD_NORM, "bert bloom jina-bert-v2 jina-bert-v3 modern-bert nomic-bert nomic-bert-moe rwkv6 rwkv7", NULL },
    { INFER__W_EMBD_NORM_B, "bert bloom jina-bert-v2 jina-bert-v3 nomic-bert nomic-bert-moe rwkv6 rwkv7", NULL },
    { INFER__W_OUT_NORM_B,
      "bloom codeshell falcon gpt2 gptneox jais jais2 nemotron orion phi2 phimoe pockettts rwkv6 rwkv7 stablelm "
      "starcoder starcoder2", NULL },
    { INFER__W_OUTPUT,
      "apertus arwkv7 baichuan bailingmoe bailingmoe2 codeshell dbrx deepseek4 dots1 exaone-moe gpt-oss gptneox "
      "hy_v4 internlm2 jais kimi-k3 kimi-linear llada-moe maple mellum mimo2 minimax-m2 minimax-m3 muse-glimmer "
      "nemotron olmo2 olmoe orion phi2 phimoe plamo qwen qwen2moe rwkv6 rwkv6qwen2 rwkv7 stablelm step35 talkie "
      "xverse", NULL },
    { INFER__W_OUTPUT_B, "phi2 phimoe", NULL },
    { INFER__W_ROPE_FREQS, "gemma4", infer__rope_scales }, };

/* Of a layer whose tensors are bound; one that is there and was not bound has its reasons. */
static infer_result infer__needs_layer(const infer_model *m, const infer__layer *l, infer_error *err) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__NEEDS); i++) {
        const struct infer__needs_row *n = &INFER__NEEDS[i];
        const infer__tensor_slot *slot = infer__layer_slot(m, l, n->slot);
        if (l->w[n->slot].type || !l->w[n->with].type || !slot || infer__slot_tensor(m, l, slot) ||
            infer__unread_kv(l, n->slot))
            continue;
        if (infer__words_have(n->archs, m->arch->name)) return infer__missing(l, slot, err);
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
        if (infer__words_have(n->archs, m->arch->name)) return infer__missing(NULL, slot, err);
    }
    for (k = 0; k < infer__n_all(&m->hp) && !r; k++) r = infer__needs_layer(m, &m->layers[k], err);
    return r;
}
