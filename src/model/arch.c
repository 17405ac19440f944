/* arch.c: ARCHS: one row per architecture that can be computed. The second page to read, after forward.c.
 *
 * Owns:  the names of architectures (nothing outside this file compares one) and what a GGUF file of that architecture
 *        does not say: the kind of norm, rotation and activation, patterns of layers, defaults of absent keys.
 * Rules: what the file says (presence of tensors, keys) is not repeated here. A flag is named for its mathematics and
 *        read in one place. A row is proven by the reference files it names, or it says that it is not.
 * To add one: see CONTRIBUTING.md.
 */
#include "model.h"

/* MiniCPM (arXiv 2404.06395): width / 256 at the head, 12 at the embedding, 1.4 / sqrt(layers) in between. */
static void infer__fix_minicpm(infer__hparams *hp) {
    if (hp->embed_scale == 0) hp->embed_scale = 12.0f;
    if (hp->residual_scale == 0) hp->residual_scale = 1.4f / sqrtf((float)hp->n_layer);
    if (hp->logit_scale == 0) hp->logit_scale = 256.0f / (float)hp->n_embd;
}

/* Gemma 2 (arXiv 2408.00118): caps when the file names none; the 27B (46 layers) scales queries by width / heads. */
static void infer__fix_gemma2(infer__hparams *hp) {
    if (hp->attn_softcap == 0) hp->attn_softcap = 50.0f;
    if (hp->final_softcap == 0) hp->final_softcap = 30.0f;
    if (hp->window == 0) hp->window = 4096;
    if (hp->n_layer == 46 && hp->attn_scale == 0) hp->attn_scale = 1.0f / sqrtf((float)(hp->n_embd / hp->n_head));
}

/* Gemma 3 (arXiv 2503.19786): sliding-window layers rotate with base 10,000; the 27B (62 layers) as in Gemma 2. */
static void infer__fix_gemma3(infer__hparams *hp) {
    if (hp->rope_base_window == 0) hp->rope_base_window = 10000.0f;
    if (hp->n_layer == 62 && hp->attn_scale == 0) hp->attn_scale = 1.0f / sqrtf((float)(hp->n_embd / hp->n_head));
}

/* Mistral 3: attention temperature counts in units of the context that RoPE was trained for. */
static void infer__fix_mistral3(infer__hparams *hp) { hp->temp_floor = (float)hp->rope_ctx; }

/* BLOOM (arXiv 2211.05100): ALiBi with the usual slopes. */
static void infer__fix_bloom(infer__hparams *hp) {
    if (hp->max_bias == 0) hp->max_bias = 8.0f;
}

/* Grok 1 (github.com/xai-org/grok-1): what files from before the keys mean. */
static void infer__fix_grok(infer__hparams *hp) {
    if (hp->embed_scale == 0) hp->embed_scale = 78.38367176906169f;
    if (hp->logit_scale == 0) hp->logit_scale = 0.5773502691896257f;
    if (hp->attn_scale == 0) hp->attn_scale = 0.08838834764831845f;
    if (hp->attn_softcap == 0) hp->attn_softcap = 30.0f;
}

/* Grok: results of attention and FFN are normalised. Grok 2 has a dense FFN beside the experts; their sum is divided by
 * the root of 2. */
static void infer__parts_grok(infer_model *m, infer__layer *l) {
    infer__part *ffn = &l->parts[l->n_parts - 1];
    l->parts[0].post = INFER__W_ATTN_OUT_NORM;
    if (ffn->post < 0) ffn->post = INFER__W_LAYER_OUT_NORM;
    if (!infer__layer_has(m, l, INFER__W_FFN_UP) || !infer__layer_has(m, l, INFER__W_MOE_ROUTER)) return;
    ffn->kind = infer__sublayer_kind_of(INFER__SUBLAYER_MOE_DENSE);
    l->ffn_times = 0.70710678f;
}

/* Snowflake Arctic: experts read a norm of what attention reads, and are added behind the dense FFN, which is as wide
 * as the model. */
static void infer__parts_arctic(infer_model *m, infer__layer *l) {
    infer__part *p;
    l->n_parts = 0;
    l->n_ff = l->kept = m->hp.n_embd;
    infer__part_add(m, l, INFER__SUBLAYER_KEEP, INFER__W_EXPERTS_NORM, -1)->keeps = 1;
    infer__part_add(m, l, INFER__SUBLAYER_ATTENTION, INFER__W_ATTN_NORM, -1);
    infer__part_add(m, l, INFER__SUBLAYER_DENSE, INFER__W_FFN_NORM, -1);
    p = infer__part_add(m, l, INFER__SUBLAYER_MOE, -1, -1);
    p->reads = INFER__READS_KEPT;
}

/* SmallThinker (arXiv 2507.20984): the router reads the stream before attention. */
static void infer__parts_smallthinker(infer_model *m, infer__layer *l) {
    infer__part *p;
    if (!infer__layer_has(m, l, INFER__W_MOE_ROUTER)) return;
    l->n_parts = 0;
    l->kept = m->hp.n_expert;
    l->router_kept = 1;
    p = infer__part_add(m, l, INFER__SUBLAYER_ROUTER, -1, -1);
    p->keeps = 1;
    p->reads = INFER__READS_STREAM;
    infer__part_add(m, l, INFER__SUBLAYER_ATTENTION, INFER__W_ATTN_NORM, -1);
    infer__part_add(m, l, INFER__SUBLAYER_MOE, INFER__W_FFN_NORM, -1);
}

/* Cohere 2 MoE: half of what experts and the shared expert give together. */
static void infer__parts_cohere2moe(infer_model *m, infer__layer *l) {
    if (infer__layer_has(m, l, INFER__W_SHARED_UP)) l->parts[l->n_parts - 1].scale *= 0.5f;
}

/* DBRX: the norm before the experts has attention's name. */
static void infer__parts_dbrx(infer_model *m, infer__layer *l) {
    (void)m;
    l->parts[l->n_parts - 1].norm = INFER__W_ATTN_OUT_NORM;
}

#define INFER__RMS INFER__NORM_RMS
#define INFER__LN INFER__NORM_LAYER
#define INFER__PAIRS INFER__ROPE_PAIRS
#define INFER__HALVES INFER__ROPE_HALVES

static const infer__arch INFER__ARCHS[] = {
    { .name = "afmoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .no_rope_every = 4, .gate = INFER__ACT_SIGMOID, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__EMBED_SQRT_WIDTH, .reference = "archs/afmoe-moe, hf/afmoe" },
    { .name = "arcee", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_RELU2, .reference = "archs/arcee-dense" },
    { .name = "arctic", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .parts = infer__parts_arctic,
      .reference = "archs/arctic-moe" },
    { .name = "bailingmoe", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_RAW,
      .reference = "archs/bailingmoe-moe" },
    { .name = "bailingmoe2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW, .flags = INFER__NEXTN, .reference = "archs/bailingmoe2-moe" },
    { .name = "bloom", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_TANH, .flags = INFER__ALIBI,
      .fixup = infer__fix_bloom, .reference = "archs/bloom-{dense,real-dense}" },
    { .name = "cohere2", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .block = INFER__BLOCK_PARALLEL,
      .window_every = 4, .flags = INFER__LOGITS_TIMES | INFER__WINDOW_ROPE_ONLY,
      .reference = "archs/cohere2-{dense,swa-dense}" },
    { .name = "cohere2moe", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .block = INFER__BLOCK_PARALLEL, .window_every = 4, .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW,
      .flags = INFER__LOGITS_TIMES | INFER__WINDOW_ROPE_ONLY | INFER__WINDOW_FULL_FIRST | INFER__ROPE_LEADING |
               INFER__NORM_BY_KEY | INFER__NEXTN,
      .parts = infer__parts_cohere2moe, .reference = "archs/cohere2moe-moe, hf/cohere2_moe" },
    { .name = "command-r", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .block = INFER__BLOCK_PARALLEL, .flags = INFER__LOGITS_TIMES,
      .reference = "archs/command-r-{dense,plain-dense,qknorm-dense}" },
    { .name = "dbrx", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .parts = infer__parts_dbrx,
      .reference = "archs/dbrx-moe, hf/dbrx" },
    { .name = "deepseek", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_RAW,
      .reference = "archs/deepseek-moe" },
    { .name = "dots1", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .reference = "archs/dots1-moe, hf/dots1" },
    { .name = "ernie4_5-moe", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_STEP,
      .drop = "attn_output.bias", .reference = "archs/ernie4_5-moe-moe, hf/ernie4_5_moe" },
    { .name = "exaone", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .reference = "archs/exaone-dense" },
    { .name = "exaone-moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW, .flags = INFER__NEXTN | INFER__WINDOW_ROPE_ONLY,
      .reference = "archs/exaone-moe-moe, hf/exaone_moe" },
    { .name = "gemma", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .flags = INFER__EMBED_SQRT_WIDTH, .reference = "archs/gemma-{dense,headdim-dense}" },
    { .name = "gemma2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH, .window_every = 2,
      .flags = INFER__EMBED_SQRT_WIDTH | INFER__ATTN_CAP | INFER__FINAL_CAP, .fixup = infer__fix_gemma2,
      .reference = "archs/gemma2-{dense,real-dense,softcap-dense}" },
    { .name = "gemma3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH, .window_every = 6,
      .flags = INFER__EMBED_SQRT_WIDTH | INFER__WINDOW_ROPE_PLAIN | INFER__FINAL_CAP, .fixup = infer__fix_gemma3,
      .reference = "archs/gemma3-{dense,real-dense}" },
    { .name = "glm4moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__POST_ATTN_IS_FFN | INFER__NEXTN,
      .reference = "archs/glm4moe-{moe,nextn-moe}, hf/{glm4_moe,solar_open}" },
    { .name = "gpt-oss", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_SIGMOID, .act_limit = 7.0f,
      .act_add = 1.0f, .window_every = 2, .flags = INFER__POST_ATTN_IS_FFN,
      .reference = "archs/gpt-oss-{moe,yarn-moe}, hf/gpt_oss_trunc" },
    { .name = "gpt2", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_TANH,
      .reference = "archs/gpt2-{dense,tied-dense}, models/gpt-nano-sort" },
    { .name = "gptneox", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .flags = INFER__PARALLEL_BY_KEY, .reference = "archs/gptneox-{dense,par-dense,seq-dense}" },
    { .name = "granite", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .flags = INFER__LOGITS_OVER | INFER__ROPE_BY_KEY,
      .reference = "archs/granite-{dense,moe,real-dense}" },
    { .name = "granitemoe", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .flags = INFER__LOGITS_OVER | INFER__ROPE_BY_KEY,
      .reference = "archs/granitemoe-{dense,moe,real-moe}, hf/{granitemoe,granitemoeshared}" },
    { .name = "grok", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .experts = INFER__EXPERTS_SUM,
      .flags = INFER__LOGITS_TIMES | INFER__ATTN_CAP | INFER__FINAL_CAP | INFER__ATTN_SCALE_OUT,
      .fixup = infer__fix_grok, .parts = infer__parts_grok,
      .idle = "router_logit_softcapping", /* the references do not apply it */
      .reference = "archs/grok-moe" },
    { .name = "hunyuan-moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__QK_NORM_ROTATED, .reference = "archs/hunyuan-moe-moe, hf/hunyuan_moe" },
    { .name = "hy_v3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__NEXTN,
      .ignore = "ffn_gate.weight ffn_up.weight ffn_down.weight", /* in layers with experts */
      .reference = "archs/hy_v3-moe, hf/hy_v3" },
    { .name = "internlm2", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .reference = "archs/internlm2-dense" },
    { .name = "laguna", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .gate = INFER__ACT_SOFTPLUS, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__WINDOW_FULL_FIRST | INFER__WINDOW_ROPE_PLAIN,
      .reference = "archs/laguna-moe, hf/laguna" },
    { .name = "lfm2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .mixer_else = INFER__SUBLAYER_SHORTCONV, .flags = INFER__EMBD_NORM_IS_OUT | INFER__WINDOW_ALL,
      .ignore = "dense_2.weight", /* a projection on top, which the retrieval variants carry */
      .reference = "archs/lfm2-{dense,real-dense}" },
    { .name = "lfm2moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .mixer_else = INFER__SUBLAYER_SHORTCONV, .experts = INFER__EXPERTS_SUM,
      .flags = INFER__EMBD_NORM_IS_OUT | INFER__WINDOW_ALL, .reference = "archs/lfm2moe-moe, hf/lfm2_moe" },
    { .name = "llama", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, /* also Mistral, Mixtral, Yi */
      .reference = "archs/llama-*, models/stories260K, models/TinyStories-656K, quants/llama256-*" },
    { .name = "mellum", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .flags = INFER__WINDOW_ROPE_PLAIN, .reference = "archs/mellum-moe, hf/mellum" },
    { .name = "mimo2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .window_every = 1, /* the file's pattern says which layers have one */
      .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_SUM, .flags = INFER__ATTN_OUT_TIMES | INFER__NEXTN,
      .ignore = "ffn_gate.weight ffn_up.weight ffn_down.weight", /* in layers with experts */
      .drop = "attn_q.bias attn_k.bias attn_v.bias", .reference = "archs/mimo2-moe, hf/mimo_v2_flash" },
    { .name = "minicpm", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__LOGITS_OVER,
      .fixup = infer__fix_minicpm, .reference = "archs/minicpm-{dense,default-dense,real-dense,moe}" },
    { .name = "minimax-m2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_SUM, .reference = "archs/minimax-m2-moe, hf/minimax_m2" },
    { .name = "mistral3", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .flags = INFER__ATTN_TEMPERATURE, .fixup = infer__fix_mistral3,
      .reference = "archs/mistral3-{dense,moe,yarn-dense}" },
    { .name = "mpt", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_TANH,
      .flags = INFER__ALIBI | INFER__QK_NORM_PAIR, .reference = "archs/mpt-{dense,plain-dense}" },
    { .name = "nemotron", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_RELU2,
      .reference = "archs/nemotron-dense" },
    { .name = "olmo", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__NORM_BARE,
      .reference = "archs/olmo-dense" },
    { .name = "olmo2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .flags = INFER__NO_PRE_NORM | INFER__WINDOW_ROPE_PLAIN, .reference = "archs/olmo2-{dense,plain-dense,swa-dense}" },
    { .name = "olmoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_RAW,
      .reference = "archs/olmoe-moe, hf/olmoe" },
    { .name = "orion", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .reference = "archs/orion-dense" },
    { .name = "phi2", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .block = INFER__BLOCK_PARALLEL, .reference = "archs/phi2-dense" },
    { .name = "phi3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .idle = "attention.sliding_window", /* in every file, of any size; the references see everything */
      .reference = "archs/phi3-{dense,plain-dense,partial-dense,longrope-long-dense,longrope-short-dense}" },
    { .name = "phimoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .idle = "attention.sliding_window", /* as phi3's */
      .reference = "archs/phimoe-moe" },
    { .name = "qwen2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .reference = "archs/qwen2-{dense,plain-dense,yarn-dense}" },
    { .name = "qwen2moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_RAW,
      .reference = "archs/qwen2moe-{moe,plain-moe}, hf/qwen2_moe" },
    { .name = "qwen3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .ignore = "cls.output.weight", /* a classifier on top, which the reranker variants carry */
      .reference = "archs/qwen3-{dense,plain-dense,embed,rank}" },
    { .name = "qwen3moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .reference = "archs/qwen3moe-{moe,norm-moe}" },
    { .name = "qwen3vlmoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .idle = "rope.dimension_sections n_deepstack_layers", /* of pictures: a text's positions are equal in all sections */
      .reference = "archs/qwen3vlmoe-moe, hf/qwen3_vl_moe" },
    { .name = "seed_oss", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__POST_ATTN_IS_FFN, .reference = "archs/seed_oss-dense" },
    { .name = "smallthinker", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_RELU, .window_every = 4,
      .experts = INFER__EXPERTS_SUM,
      .flags = INFER__WINDOW_FULL_FIRST | INFER__WINDOW_ROPE_ONLY | INFER__ROPE_NO_WINDOW,
      .parts = infer__parts_smallthinker, .reference = "archs/smallthinker-moe" },
    { .name = "smollm3", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .no_rope_every = 4,
      .reference = "archs/smollm3-{dense,nope-dense}" },
    { .name = "stablelm", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__PARALLEL_BY_NORM,
      .idle = "use_parallel_residual", /* converters write true where a model says nothing */
      .reference = "archs/stablelm-{dense,plain-dense,qkbias-dense,12b-dense}" },
    { .name = "starcoder2", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .reference = "archs/starcoder2-{dense,tied-dense}" },
};

#undef INFER__RMS
#undef INFER__LN
#undef INFER__PAIRS
#undef INFER__HALVES

static const infer__arch *infer__arch_row(int32_t index) {
    return index >= 0 && (size_t)index < INFER__COUNT(INFER__ARCHS) ? &INFER__ARCHS[index] : NULL;
}

static const infer__arch *infer__arch_find(infer__str name) {
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__ARCHS); i++)
        if (strlen(INFER__ARCHS[i].name) == name.n && memcmp(INFER__ARCHS[i].name, name.s, (size_t)name.n) == 0)
            return &INFER__ARCHS[i];
    return NULL;
}
