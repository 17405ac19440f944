/* arch.c: ARCHS: one row per architecture that can be computed. The second page to read, after forward.c.
 *
 * Owns:  the names of architectures (nothing outside this file compares one) and the facts that a GGUF file of that
 *        architecture does not hold: the kind of norm, rotation and activation, patterns of layers, defaults of absent
 *        keys.
 * Rules: what the file says (presence of tensors, keys) is not repeated here. A flag is named for its mathematics and
 *        read only once. A row is tested against the reference files it names, or says that it is not.
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

/* BLOOM (arXiv 2211.05100), Refact: ALiBi with the usual slopes. */
static void infer__fix_alibi(infer__hparams *hp) {
    if (hp->max_bias == 0) hp->max_bias = 8.0f;
}

/* Phi-3.5-MoE: layer norms, though the key of their epsilon is that of RMS norms. */
static void infer__fix_phimoe(infer__hparams *hp) { hp->norm = INFER__NORM_LAYER; }

/* Baichuan (arXiv 2309.10305): the 7B (32 layers) is rotated, the 13B (40) has ALiBi, and no key distinguishes them.
 * With other numbers of layers there is neither, as llama.cpp computes it: no such model was published. */
static void infer__fix_baichuan(infer__hparams *hp) {
    if (hp->n_layer != 32) hp->rope_off = 1;
    if (hp->n_layer == 40) infer__fix_alibi(hp);
}

/* EXAONE 4 (arXiv 2507.11407): the 32B (64 layers) has windows in three of four layers. Other models have them when
 * their file says which layers; a width alone is left over from their configuration. */
static void infer__fix_exaone4(infer__hparams *hp) {
    if (!hp->window_pattern && hp->n_layer != 64) hp->window = 0;
}

/* Muse Glimmer: norms after sublayers have an epsilon of their own; a cap when the file names none. */
static void infer__fix_muse(infer__hparams *hp) {
    hp->post_eps = 1e-8f;
    if (hp->final_softcap == 0) hp->final_softcap = 30.0f;
}

/* DeepSeek (arXiv 2405.04434, 2412.19437): converters write 0.1 * mscale_all_dim. In its models mscale is the same
 * number, so rotated values are not scaled: scores are. */
static void infer__fix_mistral4(infer__hparams *hp) { hp->rope_log_mul /= 0.1f; }
static void infer__fix_deepseek2(infer__hparams *hp) {
    infer__fix_mistral4(hp);
    if (hp->rope_log_mul != 0 && hp->yarn_attn == 0) hp->yarn_attn = 1;
    if (hp->router.n_group > 1 && hp->router.score == INFER__SCORE_SOFTMAX) hp->router.group_best = 1; /* DeepSeek-V2 */
}

/* Latent attention in place of the usual. */
static void infer__parts_latent(infer_model *m, infer__layer *l) {
    (void)m;
    if (l->n_head > 0 && l->n_head_kv > 0) l->parts[0].kind = &INFER__KIND_LATENT;
}

/* Before each sublayer a part that makes its input. MiniMax-01: the scaled input is also the residual, so the stream
 * becomes its own norm. */
static void infer__parts_before(infer_model *m, infer__layer *l, const infer__sublayer_kind *kind) {
    infer__part was[2], *p;
    int i;
    memcpy(was, l->parts, sizeof was);
    l->n_parts = 0;
    l->kept = m->hp.n_embd;
    for (i = 0; i < 2; i++) {
        infer__part_add(m, l, kind, was[i].norm, -1)->keeps = 1;
        p = &l->parts[l->n_parts++];
        *p = was[i];
        p->reads = INFER__READS_KEPT;
        p->norm = -1;
    }
}
static void infer__parts_minimax_01(infer_model *m, infer__layer *l) {
    infer__parts_before(m, l, &INFER__KIND_RESTART);
    l->parts[1].scale = l->parts[3].scale = 1;
}

/* Grok 1 (github.com/xai-org/grok-1): the values for files written before these keys existed. */
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
    ffn->kind = &INFER__KIND_MOE_DENSE;
    l->ffn_times = 0.70710678f;
}

/* Snowflake Arctic: experts read a norm of what attention reads, and are added after the dense FFN, which is as wide
 * as the model. */
static void infer__parts_arctic(infer_model *m, infer__layer *l) {
    infer__part *p;
    l->n_parts = 0;
    l->n_ff = l->kept = m->hp.n_embd;
    infer__part_add(m, l, &INFER__KIND_KEEP, INFER__W_EXPERTS_NORM, -1)->keeps = 1;
    infer__part_add(m, l, &INFER__KIND_ATTENTION, INFER__W_ATTN_NORM, -1);
    infer__part_add(m, l, &INFER__KIND_DENSE, INFER__W_FFN_NORM, -1);
    p = infer__part_add(m, l, &INFER__KIND_MOE, -1, -1);
    p->reads = INFER__READS_KEPT;
}

/* SmallThinker (arXiv 2507.20984): the router reads the stream before attention. */
static void infer__parts_smallthinker(infer_model *m, infer__layer *l) {
    infer__part *p;
    if (!infer__layer_has(m, l, INFER__W_MOE_ROUTER)) return;
    l->n_parts = 0;
    l->kept = m->hp.n_expert;
    l->router_kept = 1;
    p = infer__part_add(m, l, &INFER__KIND_ROUTER, -1, -1);
    p->keeps = 1;
    p->reads = INFER__READS_STREAM;
    infer__part_add(m, l, &INFER__KIND_ATTENTION, INFER__W_ATTN_NORM, -1);
    infer__part_add(m, l, &INFER__KIND_MOE, INFER__W_FFN_NORM, -1);
}

/* Cohere 2 MoE: half of the sum of experts and shared expert. */
static void infer__parts_cohere2moe(infer_model *m, infer__layer *l) {
    if (infer__layer_has(m, l, INFER__W_SHARED_UP)) l->parts[l->n_parts - 1].scale *= 0.5f;
}

/* DBRX: the norm before the experts has attention's name. */
static void infer__parts_dbrx(infer_model *m, infer__layer *l) {
    (void)m;
    l->parts[l->n_parts - 1].norm = INFER__W_ATTN_OUT_NORM;
}

/* Talkie: every layer ends with the embeddings, times a number of its own. */
static void infer__parts_talkie(infer_model *m, infer__layer *l) {
    infer__part *p = infer__part_add(m, l, &INFER__KIND_EMBED_SKIP, -1, -1);
    p->reads = INFER__READS_STREAM;
}

/* Llama 4 (the configuration of Scout and Maverick): the temperature of layers without rotation. Maverick (128 experts)
 * has no norms of heads, and no key says so. */
static void infer__fix_llama4(infer__hparams *hp) {
    hp->temp_scale = 0.1f;
    hp->temp_floor = 8192;
    hp->temp_offset = 1;
    hp->qk_norm_bare = hp->n_expert != 128;
}

/* Mamba: a layer is its mixer. */
static void infer__parts_mamba(infer_model *m, infer__layer *l) {
    l->n_parts = 0;
    infer__part_add(m, l, m->arch->mixer_else, INFER__W_ATTN_NORM, -1);
}

/* Nemotron-H (arXiv 2504.03624): a layer is an FFN where it has a width, else its mixer. */
static void infer__parts_nemotron_h(infer_model *m, infer__layer *l) {
    const infer__sublayer_kind *mixer =
        l->n_head > 0 && l->n_head_kv > 0 ? &INFER__KIND_ATTENTION : m->arch->mixer_else;
    const infer__sublayer_kind *ffn =
        infer__layer_has(m, l, INFER__W_MOE_ROUTER) ? &INFER__KIND_MOE : &INFER__KIND_DENSE;
    l->n_parts = 0;
    if (l->index >= m->hp.n_layer) { /* a block that predicts is two of the published layers */
        infer__part_add(m, l, mixer, INFER__W_ATTN_NORM, -1);
        infer__part_add(m, l, ffn, INFER__W_ATTN_POST_NORM, -1);
        return;
    }
    infer__part_add(m, l, l->n_ff > 0 ? ffn : mixer, INFER__W_ATTN_NORM, -1);
}

/* Falcon-H1 (arXiv 2507.22448): attention and Mamba-2 side by side. */
static void infer__parts_falcon_h1(infer_model *m, infer__layer *l) {
    infer__part *p;
    l->n_parts = 0;
    infer__part_add(m, l, &INFER__KIND_ATTENTION, INFER__W_ATTN_NORM, -1);
    p = infer__part_add(m, l, &INFER__KIND_MAMBA_2, INFER__W_ATTN_NORM, -1);
    p->beside = 1;
    p->reads = INFER__READS_SAME;
    infer__part_add(m, l, &INFER__KIND_DENSE, INFER__W_FFN_NORM, -1);
}

/* Gemma 3n and 4: unscaled scores; defaults are those of both configurations. */
static void infer__fix_gemma4(infer__hparams *hp) {
    if (hp->attn_scale == 0) hp->attn_scale = 1;
    if (hp->final_softcap == 0) hp->final_softcap = 30.0f;
    if (hp->rope_base_window == 0) hp->rope_base_window = 10000.0f;
}

/* A part that changes the stream itself. */
static infer__part *infer__part_stream(const infer_model *m, infer__layer *l, const infer__sublayer_kind *kind) {
    infer__part *p = infer__part_add(m, l, kind, -1, -1);
    p->keeps = 1;
    p->reads = INFER__READS_STREAM;
    return p;
}

/* Latent attention and FFN, before each a part of `kind` with a slot of its own, and one more before the head. */
static void infer__parts_between(infer_model *m, infer__layer *l, const infer__sublayer_kind *kind, int attn, int ffn) {
    infer__parts_before(m, l, kind);
    l->parts[0].post = (int16_t)attn;
    l->parts[2].post = (int16_t)ffn;
    if (l->index == m->hp.n_layer - 1) infer__part_stream(m, l, kind);
}
static void infer__parts_latent_between(infer_model *m, infer__layer *l, const infer__sublayer_kind *kind, int attn,
                                        int ffn) {
    infer__parts_latent(m, l);
    infer__parts_between(m, l, kind, attn, ffn);
}

/* Kimi K3: Kimi Linear's layers, which read sums of the stream's past; so does the head. */
static void infer__parts_kimi_k3(infer_model *m, infer__layer *l) {
    infer__parts_latent_between(m, l, &INFER__KIND_RES_ATTENTION, INFER__W_ATTN_RES_SCORE, INFER__W_FFN_RES_SCORE);
}

/* Chameleon (arXiv 2405.09818): norms of heads are layer norms, with torch's epsilon. Ids 4..8195 are pieces of
 * pictures, which text does not have: no logits. swin_norm: norms come after sublayers. */
static void infer__chameleon_keys(infer__keys *k, infer__hparams *hp) {
    hp->norm_after = infer__key_bool(k, "swin_norm", 0);
    hp->qk_norm = INFER__NORM_LAYER;
    hp->qk_eps = 1e-5f;
    hp->mute[0] = 4;
    hp->mute[1] = 8196;
}
static void infer__parts_chameleon(infer_model *m, infer__layer *l) {
    int32_t i;
    for (i = 0; i < l->n_parts && m->hp.norm_after; i++) {
        l->parts[i].reads = INFER__READS_STREAM;
        l->parts[i].post = l->parts[i].norm;
        l->parts[i].norm = -1;
    }
}

/* Barbet (OpenFormosa): layers 0, 4, 8, .. see everything, those without K/V heads are Mamba-2, heads have norms. Files
 * say all of this once more. */
static void infer__barbet_layers(infer__keys *k, const char *name, int (*listed)(infer__keys *k, int32_t layer)) {
    const infer__kv *kv = infer__gguf_find(k->g, infer__key_name(k, name));
    const int numbers = kv && kv->type == INFER__GGUF_ARRAY && infer__kv_is_numbers(kv);
    int32_t i;
    uint64_t n = 0;
    if (!kv || k->failed) return;
    for (i = 0; i < k->m->hp.n_layer && numbers; i++)
        if (listed(k, i)) {
            if (n == kv->n || infer__kv_number(kv, n) != (double)i) break;
            n++;
        }
    if (!numbers || i < k->m->hp.n_layer || n != kv->n)
        infer__key_unsupported(k, name, "not the layers that are meant: every fourth, and those without K/V heads");
}
static int infer__barbet_is_global(infer__keys *k, int32_t layer) { return !k->failed && layer % 4 == 0; }
static int infer__barbet_is_mamba(infer__keys *k, int32_t layer) {
    return infer__key_layer(k, "attention.head_count_kv", layer, 0, 1 << 16, 1) == 0;
}
static void infer__barbet_keys(infer__keys *k, infer__hparams *hp) {
    (void)hp;
    infer__barbet_layers(k, "attention.global_layers", infer__barbet_is_global);
    infer__barbet_layers(k, "mamba_layers", infer__barbet_is_mamba);
    if (!infer__key_bool(k, "attention.qk_norm", 1))
        infer__key_unsupported(k, "attention.qk_norm", "heads have norms here");
}

/* HRM-Text: the states of both stacks are the input of every run of one. */
static void infer__parts_cycles(infer_model *m, infer__layer *l) {
    infer__part was[2];
    if (l->index % m->hp.stack) return;
    memcpy(was, l->parts, sizeof was);
    l->n_parts = 0;
    infer__part_stream(m, l, &INFER__KIND_CYCLES);
    memcpy(&l->parts[l->n_parts], was, sizeof was);
    l->n_parts += 2;
}

/* HY 4: latent attention and FFN between hyper-connections; the head, too. */
static void infer__parts_hyper(infer_model *m, infer__layer *l) {
    infer__parts_latent_between(m, l, &INFER__KIND_HYPER, INFER__W_HYPER_ATTN, INFER__W_HYPER_FFN);
}

/* DeepSeek V4: its own attention likewise. YaRN does not scale rotated values. */
static void infer__fix_deepseek4(infer__hparams *hp) {
    if (hp->yarn_attn == 0) hp->yarn_attn = 1;
}
static void infer__parts_deepseek4(infer_model *m, infer__layer *l) {
    l->parts[0].kind = &INFER__KIND_COMPRESSED;
    infer__parts_between(m, l, &INFER__KIND_HYPER, INFER__W_HYPER_ATTN, INFER__W_HYPER_FFN);
}

/* Qwen 3.8 Flash Next: attention or a delta net, and experts, between hyper-connections of a low rank; n-grams in one
 * layer. */
static void infer__parts_qwen4exp(infer_model *m, infer__layer *l) {
    infer__part was[2], *p;
    int i;
    memcpy(was, l->parts, sizeof was);
    l->n_parts = 0;
    l->kept = m->hp.n_embd;
    if (l->index == 0) infer__part_stream(m, l, &INFER__KIND_SHARES);
    if (m->hp.ngrams.size && m->hp.ngrams.layer == l->index) infer__part_stream(m, l, &INFER__KIND_NGRAMS);
    for (i = 0; i < 2; i++) {
        infer__part_stream(m, l, &INFER__KIND_HYPER_LOW)->post = i ? INFER__W_HYPER_LOW_FFN :
            INFER__W_HYPER_LOW_ATTN;
        p = &l->parts[l->n_parts++];
        *p = was[i];
        p->reads = INFER__READS_KEPT;
        p->norm = p->post = -1;
        infer__part_stream(m, l, &INFER__KIND_SHARES);
    }
    if (l->index == m->hp.n_layer - 1) infer__part_stream(m, l, &INFER__KIND_HYPER_LOW);
}

/* EmbeddingGemma: as Gemma 3 where the file does not say. */
static void infer__fix_gemma_embedding(infer__hparams *hp) {
    if (hp->rope_base_window == 0) hp->rope_base_window = 10000.0f;
}

/* BERT (arXiv 1810.04805) and its kin: norms come after the addition, and there is none before the head. */
static void infer__bert_keys(infer__keys *k, infer__hparams *hp) {
    (void)k;
    hp->out_norm_off = 1;
}
static void infer__nomic_moe_keys(infer__keys *k, infer__hparams *hp) {
    const int32_t every = infer__key_int(k, "moe_every_n_layers", 0, INFER__MAX_LAYERS, 0, 0);
    char name[64];
    int32_t i;
    infer__bert_keys(k, hp);
    for (i = 0; i < hp->n_layer && !k->failed; i++) {
        infer__format(name, sizeof name, "blk.%d.ffn_gate_inp.weight", (int)i);
        if ((every > 0 && i % every == 1) != (infer__gguf_tensor_find(&k->m->gguf, name) != NULL))
            infer__key_misfit(k, "moe_every_n_layers", "other layers have experts");
    }
}

/* Jina's model of code has a second norm of attention, of the sum of the first one's result and the layer's input. */
static void infer__parts_bert(infer_model *m, infer__layer *l) {
    infer__part was[2];
    const int again = (m->arch->flags & INFER__FFN_NORM_2) && infer__layer_has(m, l, INFER__W_FFN_NORM);
    memcpy(was, l->parts, sizeof was);
    was[0].after = INFER__W_ATTN_OUT_NORM;
    was[1].after = INFER__W_LAYER_OUT_NORM;
    l->n_parts = 0;
    if (again) l->kept = m->hp.n_embd;
    if (again) infer__part_stream(m, l, &INFER__KIND_KEEP_STREAM);
    l->parts[l->n_parts++] = was[0];
    if (again) infer__part_stream(m, l, &INFER__KIND_STREAM_AGAIN)->after = INFER__W_FFN_NORM;
    l->parts[l->n_parts++] = was[1];
}

/* T5 (arXiv 1910.10683): unscaled scores. Where the head is the embedding, its input is divided by the root of the
 * width, as in the published code and transformers (llama.cpp does not), but in T5 1.1, whose FFNs have gates and whose
 * first layers alone have biases of distances. */
static void infer__t5_keys(infer__keys *k, infer__hparams *hp) {
    hp->n_buckets = infer__key_int(k, "attention.relative_buckets_count", 4, 1 << 16, 32, 0);
    if (hp->attn_scale == 0) hp->attn_scale = 1;
    if (hp->n_buckets % 4) infer__key_misfit(k, "attention.relative_buckets_count", "not a multiple of 4");
    if (!k->m->arch->decoder) return;
    hp->n_enc = hp->n_layer;
    hp->n_layer = infer__key_int(k, "decoder_block_count", 0, INFER__MAX_LAYERS, 0, 0);
    hp->n_layer = hp->n_block = hp->n_enc + (hp->n_layer ? hp->n_layer : hp->n_enc);
    hp->decoder_start = infer__key_int(k, "decoder_start_token_id", 0, INT32_MAX, 0, 0);
    if (!infer__gguf_tensor_find(&k->m->gguf, "output.weight") &&
        (!infer__gguf_tensor_find(&k->m->gguf, "dec.blk.0.ffn_gate.weight") ||
         infer__gguf_tensor_find(&k->m->gguf, "dec.blk.1.attn_rel_b.weight")))
        hp->logit_scale = 1.0f / sqrtf((float)hp->n_embd);
}
static void infer__parts_t5(infer_model *m, infer__layer *l) {
    infer__part ffn = l->parts[1];
    l->act = infer__layer_has(m, l, INFER__W_FFN_GATE) ? INFER__ACT_GELU_TANH : INFER__ACT_RELU;
    if (!m->hp.n_enc) return;
    if (l->index == m->hp.n_enc - 1) l->parts[1].after = INFER__W_ENCODED_NORM;
    if (l->index < m->hp.n_enc) return;
    l->n_parts = 1;
    infer__part_add(m, l, &INFER__KIND_CROSS, INFER__W_CROSS_NORM, -1);
    l->parts[l->n_parts++] = ffn;
}

/* ModernBERT (arXiv 2412.13663): the embeddings' norm is the first layer's, too. */
static void infer__parts_modern_bert(infer_model *m, infer__layer *l) {
    if (l->index > 0 || infer__layer_has(m, l, INFER__W_ATTN_NORM)) return;
    l->parts[0].reads = INFER__READS_STREAM;
    l->parts[0].norm = -1;
}

/* Gemma 4: after the FFN the layer's own input, and all of it times a number; experts beside the FFN. */
static void infer__parts_gemma4(infer_model *m, infer__layer *l) {
    l->n_parts = 0;
    if (m->hp.n_per_layer && l->index == 0) infer__part_stream(m, l, &INFER__KIND_INPUTS);
    infer__part_add(m, l, &INFER__KIND_ATTENTION, INFER__W_ATTN_NORM, INFER__W_ATTN_POST_NORM);
    if (infer__layer_has(m, l, INFER__W_MOE_ROUTER)) {
        infer__part_add(m, l, &INFER__KIND_BESIDE, INFER__W_FFN_NORM, INFER__W_FFN_POST_NORM)->reads =
            INFER__READS_BOTH;
        l->kept = m->hp.n_expert;
        l->router_kept = 1;
    } else infer__part_add(m, l, &INFER__KIND_DENSE, INFER__W_FFN_NORM, INFER__W_FFN_POST_NORM);
    if (m->hp.n_per_layer)
        infer__part_add(m, l, &INFER__KIND_INPUT, -1, INFER__W_INPUT_POST_NORM)->reads = INFER__READS_STREAM;
    if (infer__layer_has(m, l, INFER__W_EMBED_SKIP)) infer__part_stream(m, l, &INFER__KIND_OUT_SCALE);
}

/* Gemma 3n: a low-rank residual beside attention, both and the stream over the root of 2; several streams. */
static void infer__parts_gemma3n(infer_model *m, infer__layer *l) {
    infer__part *p;
    l->n_parts = 0;
    l->kept = m->hp.n_embd;
    if (l->index == 0) {
        infer__part_stream(m, l, &INFER__KIND_INPUTS);
        infer__part_stream(m, l, &INFER__KIND_STREAMS);
    }
    infer__part_stream(m, l, &INFER__KIND_PREDICT);
    infer__part_add(m, l, &INFER__KIND_ATTENTION, INFER__W_ATTN_NORM, INFER__W_ATTN_POST_NORM);
    p = infer__part_add(m, l, &INFER__KIND_LAUREL, -1, -1);
    p->reads = INFER__READS_SAME;
    p->beside = 1;
    infer__part_stream(m, l, &INFER__KIND_SCALE)->scale = 0.70710678f;
    infer__part_add(m, l, &INFER__KIND_DENSE, INFER__W_FFN_NORM, INFER__W_FFN_POST_NORM);
    p = infer__part_add(m, l, &INFER__KIND_CORRECT, -1, INFER__W_INPUT_POST_NORM);
    p->keeps = 1;
    p->reads = INFER__READS_STREAM;
    if (l->index == m->hp.n_layer - 1) infer__part_stream(m, l, &INFER__KIND_STREAMS_END);
}

/* RWKV: a time mix, then a channel mix; in models that were made of others an FFN. */
static void infer__parts_rwkv(infer_model *m, infer__layer *l) {
    const int own = m->hp.norm == INFER__NORM_LAYER;
    l->n_parts = 0;
    infer__part_add(m, l, m->arch->mixer_else, INFER__W_ATTN_NORM, -1);
    infer__part_add(m, l, own ? &INFER__KIND_CHANNEL_MIX : &INFER__KIND_DENSE, INFER__W_FFN_NORM, -1);
    if (m->hp.halve_every && (l->index + 1) % m->hp.halve_every == 0)
        infer__part_stream(m, l, &INFER__KIND_SCALE)->scale = 0.5f;
}
/* Values of layer 0 are not mixed; keys of attention. */
#define INFER__RWKV7_DROP "=blk.0.time_mix_v0.weight =blk.0.time_mix_v1.weight =blk.0.time_mix_v2.weight"
/* Files of Granite 4 models whose layers are all attention have them: their configurations describe a mixer. */
#define INFER__GRANITE_IDLE "ssm.conv_kernel ssm.state_size ssm.group_count ssm.inner_size ssm.time_step_rank"
#define INFER__RWKV_IDLE "attention.key_length attention.value_length attention.rope_pattern rope.dimension_count"

#define INFER__RMS INFER__NORM_RMS
#define INFER__LN INFER__NORM_LAYER
#define INFER__PAIRS INFER__ROPE_PAIRS
#define INFER__HALVES INFER__ROPE_HALVES

#if defined(INFER_ONLY_ARCHS)
#  define INFER__ARCH(id, ...) INFER__IF(INFER_ARCH_##id, {__VA_ARGS__},)
#else
#  define INFER__ARCH(id, ...) {__VA_ARGS__},
#endif
static const infer__arch INFER__ARCHS[] = {
    /* the name as it is in INFER_ARCH_NAME, the row */
    INFER__ARCH(afmoe, .name = "afmoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .no_rope_every = 4, .gate = INFER__ACT_SIGMOID, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__EMBED_SQRT_WIDTH,
      .layers = "attention, dense FFN, experts", .reference = "archs/afmoe-moe, hf/afmoe")
    INFER__ARCH(apertus, .name = "apertus", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_XIELU,
      .reference = "archs/apertus-dense, hf/apertus")
    INFER__ARCH(arcee, .name = "arcee", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_RELU2, .reference = "archs/arcee-dense")
    INFER__ARCH(arctic, .name = "arctic", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .parts = infer__parts_arctic,
      .layers = "attention, dense FFN, experts, kept norm", .reference = "archs/arctic-moe")
    INFER__ARCH(arwkv7, .name = "arwkv7", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_SILU, /* arXiv 2501.15570 */
      .mixer_else = &INFER__KIND_TIME_MIX_7, .fixup = infer__rwkv7_fix, .parts = infer__parts_rwkv,
      .drop = INFER__RWKV7_DROP, .idle = INFER__RWKV_IDLE,
      .layers = "dense FFN, time mix 7", .reference = "archs/arwkv7-{dense,nogate-dense}")
    INFER__ARCH(baichuan, .name = "baichuan", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__ALIBI,
      .fixup = infer__fix_baichuan, .reference = "archs/baichuan-{dense,13b-dense}")
    INFER__ARCH(bailingmoe, .name = "bailingmoe", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_RAW,
      .layers = "attention, experts", .reference = "archs/bailingmoe-moe")
    INFER__ARCH(bailingmoe2, .name = "bailingmoe2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .predicts = INFER__PREDICTS, .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW, .flags = INFER__NEXTN,
      .layers = "attention, dense FFN, experts", .reference = "archs/bailingmoe2-moe")
    INFER__ARCH(bailingmoe3, .name = "bailingmoe3", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .predicts = INFER__PREDICTS,
      .mixer_else = &INFER__KIND_KDA, .gate = INFER__ACT_SIGMOID, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW,
      .flags = INFER__KDA_BOUND | INFER__KDA_A_PLUS | INFER__GATE_NEEDED | INFER__CLAMPS | INFER__NEXTN,
      .parts = infer__parts_latent, .drop = "attn_q.bias attn_k.bias attn_v.bias",
      .idle = "attention.value_length", /* of these three rows it is some other width: value_length_mla counts */
      .layers = "dense FFN, experts, latent attention, Kimi delta attention",
      .reference = "archs/bailingmoe3-moe, hf/bailing_hybrid")
    INFER__ARCH(barbet, .name = "barbet", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .mixer_else = &INFER__KIND_MAMBA_2, .window_every = 4, .flags = INFER__WINDOW_FULL_FIRST,
      .keys = infer__barbet_keys,
      .layers = "attention, dense FFN, Mamba 2", .reference = "archs/barbet-hybrid-dense")
    INFER__ARCH(bert, .name = "bert", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_ERF, .encoder = 1,
      .flags = INFER__NO_PRE_NORM, .keys = infer__bert_keys, .parts = infer__parts_bert,
      .reference = "archs/bert-{dense,mean,rank,rank1,rank2}, hf/bert, hf/distilbert, hf/roberta, hf/xlm_roberta")
    INFER__ARCH(bitnet, .name = "bitnet", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .act_by_key = 1,
      .flags = INFER__MATRIX_SCALES, .reference = "archs/bitnet-dense, hf/bitnet")
    INFER__ARCH(bloom, .name = "bloom", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_TANH, .flags = INFER__ALIBI,
      .fixup = infer__fix_alibi, .reference = "archs/bloom-{dense,real-dense}")
    INFER__ARCH(chameleon, .name = "chameleon", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .keys = infer__chameleon_keys,
      .parts = infer__parts_chameleon, .reference = "archs/chameleon-{swin-dense,small-dense}")
    INFER__ARCH(chatglm, .name = "chatglm", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .reference = "archs/chatglm-dense, hf/glm")
    INFER__ARCH(codeshell, .name = "codeshell", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .reference = "archs/codeshell-dense")
    INFER__ARCH(cogvlm, .name = "cogvlm", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__QKV_WIDE | INFER__QKV_THIRDS,
      .ignore = "vis_", .drop = "rope_freqs.weight", /* vis_: the experts for pictures, which text does not pass */
      .reference = "archs/cogvlm-dense")
    INFER__ARCH(cohere2, .name = "cohere2", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .block = INFER__BLOCK_PARALLEL,
      .window_every = 4, .flags = INFER__LOGITS_TIMES | INFER__WINDOW_ROPE_ONLY,
      .reference = "archs/cohere2-{dense,swa-dense}")
    INFER__ARCH(cohere2moe, .name = "cohere2moe", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .predicts = INFER__PREDICTS | INFER__PREDICTS_ROTATED,
      .block = INFER__BLOCK_PARALLEL, .window_every = 4, .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW,
      .flags = INFER__LOGITS_TIMES | INFER__WINDOW_ROPE_ONLY | INFER__WINDOW_FULL_FIRST | INFER__ROPE_LEADING |
               INFER__NORM_BY_KEY | INFER__NEXTN,
      .parts = infer__parts_cohere2moe,
      .layers = "attention, dense FFN, experts", .reference = "archs/cohere2moe-moe, hf/cohere2_moe")
    INFER__ARCH(command_r, .name = "command-r", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .block = INFER__BLOCK_PARALLEL, .flags = INFER__LOGITS_TIMES,
      .reference = "archs/command-r-{dense,plain-dense,qknorm-dense}")
    INFER__ARCH(dbrx, .name = "dbrx", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .parts = infer__parts_dbrx,
      .layers = "attention, experts", .reference = "archs/dbrx-moe, hf/dbrx")
    INFER__ARCH(deci, .name = "deci", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .reference = "archs/deci-dense") /* layers without attention or FFN are refused by their keys */
    INFER__ARCH(deepseek, .name = "deepseek", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_RAW,
      .layers = "attention, dense FFN, experts", .reference = "archs/deepseek-moe")
    INFER__ARCH(deepseek2, .name = "deepseek2", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__NEXTN,
      .predicts = INFER__PREDICTS,
      .experts = INFER__EXPERTS_RAW, .fixup = infer__fix_deepseek2, .parts = infer__parts_latent,
      .layers = "dense FFN, experts, latent attention",
      .reference = "archs/deepseek2-{moe,lite-moe,groups-moe,nextn-moe,old-moe,yarn-moe,oldyarn-moe}, "
                   "hf/{deepseek_v2_lite,deepseek_v2_yarn,deepseek_v3,deepseek_v3_yarn,glm4_moe_lite}")
    INFER__ARCH(deepseek2_ocr, .name = "deepseek2-ocr", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .experts = INFER__EXPERTS_RAW,
      .layers = "attention, dense FFN, experts", .reference = "archs/deepseek2-ocr-moe")
    INFER__ARCH(deepseek32, .name = "deepseek32", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__NEXTN,
      .predicts = INFER__PREDICTS, .experts = INFER__EXPERTS_RAW, .index = INFER__HALVES, .fixup = infer__fix_deepseek2,
      .parts = infer__parts_latent,
      .layers = "dense FFN, experts, latent attention",
      .reference = "archs/deepseek32-{moe,topk-moe}, hf/deepseek_v32")
    INFER__ARCH(deepseek4, .name = "deepseek4", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .score = INFER__SCORE_SQRT_SOFTPLUS, .experts = INFER__EXPERTS_RAW, .index = INFER__PAIRS,
      .flags = INFER__NEXTN | INFER__WINDOW_ALL | INFER__CLAMPS_BEFORE | INFER__CLAMPS_ALL,
      .keys = infer__deepseek4_keys, .fixup = infer__fix_deepseek4, .parts = infer__parts_deepseek4,
      .layers = "experts, hyper-connections, compressed attention",
      .reference = "archs/deepseek4-{moe,topk-moe}")
    INFER__ARCH(dots1, .name = "dots1", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW,
      .layers = "attention, dense FFN, experts", .reference = "archs/dots1-moe, hf/dots1")
    INFER__ARCH(dots3note, .name = "dots3note", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .predicts = INFER__PREDICTS | INFER__PREDICTS_WINDOW,
      .window_every = INFER__WINDOW_BY_FILE, .gate = INFER__ACT_SIGMOID, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .index = INFER__PAIRS, .flags = INFER__NEXTN | INFER__GATE_NEEDED | INFER__INDEX_SHARED,
      .parts = infer__parts_latent,
      .layers = "dense FFN, experts, latent attention",
      .reference = "archs/dots3note-{pairs-moe,moe}")
    INFER__ARCH(dream, .name = "dream", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .flags = INFER__NOT_CAUSAL,
      .drop = "=output.bias",
      .idle = "attention.causal diffusion.shift_logits", /* never causal; about the use of the logits */ .reference = "archs/dream-dense")
    INFER__ARCH(ernie4_5, .name = "ernie4_5", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .drop = "attn_output.bias", /* which no published model has, and llama.cpp does not add */
      .reference = "archs/ernie4_5-moe (a dense model), hf/ernie4_5")
    INFER__ARCH(ernie4_5_moe, .name = "ernie4_5-moe", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_STEP,
      .drop = "attn_output.bias",
      .layers = "attention, dense FFN, experts", .reference = "archs/ernie4_5-moe-moe, hf/ernie4_5_moe")
    INFER__ARCH(eurobert, .name = "eurobert", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .encoder = 1,
      .reference = "archs/eurobert-dense, hf/eurobert")
    INFER__ARCH(exaone, .name = "exaone", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .reference = "archs/exaone-dense")
    INFER__ARCH(exaone_moe, .name = "exaone-moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .predicts = INFER__PREDICTS,
      .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW, .flags = INFER__NEXTN | INFER__WINDOW_ROPE_ONLY,
      .layers = "attention, dense FFN, experts", .reference = "archs/exaone-moe-moe, hf/exaone_moe")
    INFER__ARCH(exaone4, .name = "exaone4", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .predicts = INFER__PREDICTS | INFER__PREDICTS_WINDOW,
      .flags = INFER__NO_PRE_NORM | INFER__WINDOW_ROPE_ONLY | INFER__ROPE_NO_WINDOW | INFER__NEXTN,
      .fixup = infer__fix_exaone4,
      .reference = "archs/exaone4-{dense,plain-dense,swa-dense}, hf/exaone4, hf/exaone4_nosw")
    INFER__ARCH(falcon, .name = "falcon", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_ERF,
      .block = INFER__BLOCK_PARALLEL, .flags = INFER__ATTN_NORM_2,
      .reference = "archs/falcon-{dense,7b-dense,40b-dense}, hf/falcon")
    INFER__ARCH(falcon_h1, .name = "falcon-h1", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .parts = infer__parts_falcon_h1, .drop = "rope_freqs.weight attn_output.bias", /* which llama.cpp does not use */
      .layers = "attention, dense FFN, Mamba 2", .reference = "archs/falcon-h1-{dense,groups-dense}, hf/falcon_h1")
    INFER__ARCH(gemma, .name = "gemma", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .flags = INFER__EMBED_SQRT_WIDTH, .reference = "archs/gemma-{dense,headdim-dense}")
    INFER__ARCH(gemma_embedding, .name = "gemma-embedding", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH, .encoder = 1,
      .window_every = 6, .flags = INFER__EMBED_SQRT_WIDTH, .fixup = infer__fix_gemma_embedding,
      .reference = "archs/gemma-embedding-{dense,real-dense}, hf/embeddinggemma")
    INFER__ARCH(gemma2, .name = "gemma2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH, .window_every = 2,
      .flags = INFER__EMBED_SQRT_WIDTH | INFER__ATTN_CAP | INFER__FINAL_CAP, .fixup = infer__fix_gemma2,
      .reference = "archs/gemma2-{dense,real-dense,softcap-dense}")
    INFER__ARCH(gemma3, .name = "gemma3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH, .window_every = 6,
      .flags = INFER__EMBED_SQRT_WIDTH | INFER__WINDOW_ROPE_PLAIN | INFER__FINAL_CAP, .fixup = infer__fix_gemma3,
      .reference = "archs/gemma3-{dense,real-dense}")
    INFER__ARCH(gemma3n, .name = "gemma3n", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH, .window_every = 5,
      .flags = INFER__EMBED_SQRT_WIDTH | INFER__FINAL_CAP | INFER__WINDOW_ROPE_PLAIN | INFER__V_NORM_BARE |
               INFER__SPARSE,
      .keys = infer__gemma3n_keys, .fixup = infer__fix_gemma4, .parts = infer__parts_gemma3n,
      .layers = "attention, dense FFN, inputs of layers, scale, streams, mean of streams, prediction, "
                "correction, low-rank residual",
      .reference = "archs/gemma3n-dense, hf/gemma3n, hf/gemma3n_c")
    INFER__ARCH(gemma4, .name = "gemma4", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .window_every = INFER__WINDOW_BY_FILE,
      .flags = INFER__EMBED_SQRT_WIDTH | INFER__FINAL_CAP | INFER__WINDOW_ROPE_PLAIN | INFER__V_NORM_BARE |
               INFER__V_MAY_BE_K | INFER__SPANS_WINDOW,
      .keys = infer__gemma4_keys, .fixup = infer__fix_gemma4, .parts = infer__parts_gemma4,
      .layers = "attention, dense FFN, inputs of layers, input of the layer, output scale, experts beside a dense FFN",
      .reference = "archs/gemma4-{dense,sharedkv-dense,moe}, hf/gemma4, hf/gemma4_moe")
    INFER__ARCH(glm_dsa, .name = "glm-dsa", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .score = INFER__SCORE_SIGMOID,
      .predicts = INFER__PREDICTS,
      .flags = INFER__NEXTN | INFER__INDEX_SHARED, .experts = INFER__EXPERTS_RAW, .index = INFER__PAIRS,
      .parts = infer__parts_latent,
      .layers = "dense FFN, experts, latent attention",
      .reference = "archs/glm-dsa-{shared-moe,moe,topk-moe}, hf/glm_moe_dsa")
    INFER__ARCH(glm4, .name = "glm4", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .predicts = INFER__PREDICTS,
      .flags = INFER__ROPE_SECTIONS | INFER__SECTIONS_HALVES | INFER__NEXTN, .reference = "archs/glm4-dense, hf/glm4")
    INFER__ARCH(glm4moe, .name = "glm4moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .score = INFER__SCORE_SIGMOID,
      .predicts = INFER__PREDICTS, .experts = INFER__EXPERTS_RAW, .flags = INFER__POST_ATTN_IS_FFN | INFER__NEXTN,
      .layers = "attention, dense FFN, experts",
      .reference = "archs/glm4moe-{moe,nextn-moe}, hf/{glm4_moe,solar_open}")
    INFER__ARCH(gpt_oss, .name = "gpt-oss", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_SIGMOID, .act_limit = 7.0f,
      .act_add = 1.0f, .window_every = 2, .flags = INFER__POST_ATTN_IS_FFN | INFER__YARN_UNROUNDED,
      .layers = "attention, experts", .reference = "archs/gpt-oss-moe, hf/gpt_oss")
    INFER__ARCH(gpt2, .name = "gpt2", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_TANH,
      .reference = "archs/gpt2-{dense,tied-dense}, models/gpt-nano-sort")
    INFER__ARCH(gptneox, .name = "gptneox", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .flags = INFER__PARALLEL_BY_KEY, .reference = "archs/gptneox-{dense,par-dense,seq-dense}")
    INFER__ARCH(granite, .name = "granite", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .flags = INFER__LOGITS_OVER | INFER__ROPE_BY_KEY,
      .idle = INFER__GRANITE_IDLE,
      .layers = "attention, dense FFN, experts", .reference = "archs/granite-{dense,moe,real-dense}")
    INFER__ARCH(granite_swa, .name = "granite_swa", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .window_every = INFER__WINDOW_BY_FILE, .flags = INFER__LOGITS_OVER,
      .layers = "attention, dense FFN, experts",
      .reference = "archs/granite_swa-dense, hf/{granite_swa,granitemoe_swa}")
    INFER__ARCH(granitehybrid, .name = "granitehybrid", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, /* also Bamba */
      .mixer_else = &INFER__KIND_MAMBA_2, .flags = INFER__LOGITS_OVER | INFER__ROPE_BY_KEY,
      .layers = "attention, dense FFN, experts, Mamba 2",
      .reference = "archs/granitehybrid-{dense,nope-moe}, hf/{granitehybrid_dense,granitemoehybrid,bamba}")
    INFER__ARCH(granitemoe, .name = "granitemoe", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .flags = INFER__LOGITS_OVER | INFER__ROPE_BY_KEY,
      .idle = INFER__GRANITE_IDLE,
      .layers = "attention, dense FFN, experts",
      .reference = "archs/granitemoe-{dense,moe,real-moe}, hf/{granitemoe,granitemoeshared}")
    INFER__ARCH(graniteswitch, .name = "graniteswitch", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .flags = INFER__LOGITS_OVER | INFER__ROPE_BY_KEY, .keys = infer__switch_keys,
      .reference = "archs/graniteswitch-dense")
    INFER__ARCH(grok, .name = "grok", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .experts = INFER__EXPERTS_SUM,
      .flags = INFER__LOGITS_TIMES | INFER__ATTN_CAP | INFER__FINAL_CAP | INFER__ATTN_SCALE_OUT,
      .fixup = infer__fix_grok, .parts = infer__parts_grok,
      .idle = "router_logit_softcapping", /* the references do not apply it */
      .layers = "attention, experts and dense FFN", .reference = "archs/grok-moe")
    INFER__ARCH(grovemoe, .name = "grovemoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, /* arXiv 2508.07785 */
      .keys = infer__grovemoe_keys,
      .layers = "attention, experts", .reference = "archs/grovemoe-groups-moe")
    INFER__ARCH(hrm_text, .name = "hrm_text", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .gate = INFER__ACT_SIGMOID,
      .flags = INFER__NORM_BARE | INFER__GATE_NEEDED, .keys = infer__cycles_keys, .parts = infer__parts_cycles,
      .idle = "hrm.prefix_lm", /* how it was trained: its prompts may be read as one block */
      .layers = "attention, dense FFN, states of two stacks",
      .reference = "archs/hrm_text-dense, hf/hrm_text")
    INFER__ARCH(hunyuan_dense, .name = "hunyuan-dense", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__QK_NORM_ROTATED | INFER__ROPE_ALPHA,
      .reference = "archs/hunyuan-dense-dense, hf/hunyuan_dense")
    INFER__ARCH(hunyuan_moe, .name = "hunyuan-moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__QK_NORM_ROTATED,
      .layers = "attention, experts", .reference = "archs/hunyuan-moe-moe, hf/hunyuan_moe")
    INFER__ARCH(hunyuan_vl, .name = "hunyuan_vl", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__QK_NORM_ROTATED | INFER__ROPE_ALPHA | INFER__ROPE_SECTIONS,
      .reference = "archs/hunyuan_vl-dense")
    INFER__ARCH(hy_v3, .name = "hy_v3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .score = INFER__SCORE_SIGMOID,
      .predicts = INFER__PREDICTS, .experts = INFER__EXPERTS_RAW, .flags = INFER__NEXTN,
      .ignore = "ffn_gate.weight ffn_up.weight ffn_down.weight", /* in layers with experts */
      .layers = "attention, dense FFN, experts", .reference = "archs/hy_v3-moe, hf/hy_v3")
    INFER__ARCH(hy_v4, .name = "hy_v4", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .gate = INFER__ACT_SIGMOID,
      .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW, .index = INFER__PAIRS,
      .flags = INFER__GATE_NEEDED | INFER__INDEX_SHARED | INFER__INDEX_LAST | INFER__CLAMPS_BEFORE,
      .keys = infer__hyper_keys, .parts = infer__parts_hyper,
      .layers = "dense FFN, experts, latent attention, hyper-connections",
      .reference = "archs/hy_v4-{moe,topk-moe}")
    INFER__ARCH(internlm2, .name = "internlm2", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .reference = "archs/internlm2-dense")
    INFER__ARCH(jais, .name = "jais", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_SILU,
      .flags = INFER__ALIBI | INFER__SCORES_OVER_DIM, .reference = "archs/jais-dense")
    INFER__ARCH(jais2, .name = "jais2", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_RELU2,
      .reference = "archs/jais2-dense, hf/jais2")
    INFER__ARCH(jamba, .name = "jamba", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_SILU,
      .mixer_else = &INFER__KIND_MAMBA, .experts = INFER__EXPERTS_RAW,
      .layers = "attention, dense FFN, experts, Mamba", .reference = "archs/jamba-dense, hf/jamba")
    INFER__ARCH(jina_bert_v2, .name = "jina-bert-v2", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_ERF, .encoder = 1,
      .flags = INFER__NO_PRE_NORM | INFER__FFN_NORM_2, .keys = infer__bert_keys, .fixup = infer__fix_alibi,
      .parts = infer__parts_bert, .layers = "attention, dense FFN, kept stream, kept stream again",
      .reference = "archs/jina-bert-v2-{dense,code-dense,rank}")
    INFER__ARCH(jina_bert_v3, .name = "jina-bert-v3", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_ERF, .encoder = 1,
      .flags = INFER__NO_PRE_NORM, .keys = infer__bert_keys, .parts = infer__parts_bert,
      .reference = "archs/jina-bert-v3-dense, hf/jina_v3")
    INFER__ARCH(kimi_k3, .name = "kimi-k3", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_SITU,
      .mixer_else = &INFER__KIND_KDA, .gate = INFER__ACT_SIGMOID, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__KDA_BOUND, .keys = infer__kimi_k3_keys,
      .parts = infer__parts_kimi_k3, .drop = "attn_q.bias attn_k.bias attn_v.bias", .idle = "attention.value_length",
      .layers = "dense FFN, experts, latent attention, Kimi delta attention, residual attention",
      .reference = "archs/kimi-k3-moe")
    INFER__ARCH(kimi_linear, .name = "kimi-linear", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_SILU,
      .mixer_else = &INFER__KIND_KDA, .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_SUM,
      .parts = infer__parts_latent, .drop = "attn_q.bias attn_k.bias attn_v.bias", /* which llama.cpp does not add */
      .idle = "attention.value_length",
      .layers = "dense FFN, experts, latent attention, Kimi delta attention",
      .reference = "archs/kimi-linear-moe, hf/kimi_linear")
    INFER__ARCH(laguna, .name = "laguna", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .gate = INFER__ACT_SOFTPLUS, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__WINDOW_FULL_FIRST | INFER__WINDOW_ROPE_PLAIN,
      .layers = "attention, dense FFN, experts", .reference = "archs/laguna-moe, hf/laguna")
    INFER__ARCH(lfm2, .name = "lfm2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .mixer_else = &INFER__KIND_SHORTCONV, .flags = INFER__EMBD_NORM_IS_OUT | INFER__WINDOW_ALL,
      .ignore = "dense_2.weight", /* a projection on top, which the retrieval variants carry */
      .layers = "attention, dense FFN, short convolution", .reference = "archs/lfm2-{dense,real-dense}")
    INFER__ARCH(lfm2moe, .name = "lfm2moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .mixer_else = &INFER__KIND_SHORTCONV, .experts = INFER__EXPERTS_SUM,
      .flags = INFER__EMBD_NORM_IS_OUT | INFER__WINDOW_ALL,
      .layers = "attention, dense FFN, experts, short convolution", .reference = "archs/lfm2moe-moe, hf/lfm2_moe")
    INFER__ARCH(llada, .name = "llada", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__NOT_CAUSAL,
      .drop = "rope_freqs.weight attn_output.bias ffn_gate.bias ffn_up.bias ffn_down.bias",
      .idle = "attention.causal diffusion.shift_logits", .reference = "archs/llada-dense")
    INFER__ARCH(llada_moe, .name = "llada-moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__NOT_CAUSAL, .idle = "attention.causal diffusion.shift_logits",
      .layers = "attention, experts", .reference = "archs/llada-moe-moe")
    INFER__ARCH(llama, .name = "llama", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, /* also Mistral, Mixtral, Yi */
      .layers = "attention, dense FFN, experts",
      .reference = "archs/llama-*, models/stories260K, models/TinyStories-656K, quants/llama256-*")
    INFER__ARCH(llama_embed, .name = "llama-embed", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .encoder = 1,
      .reference = "archs/llama-embed-dense")
    INFER__ARCH(llama4, .name = "llama4", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .window_every = 4,
      .no_rope_every = 4, .chunk = 8192, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW | INFER__EXPERTS_STEP | INFER__EXPERTS_BEFORE,
      .flags = INFER__QK_NORM_ROTATED | INFER__QK_NORM_BARE | INFER__TEMP_NO_ROPE, .fixup = infer__fix_llama4,
      .layers = "attention, dense FFN, experts",
      .reference = "archs/llama4-{moe,chunk-moe}, hf/llama4")
    INFER__ARCH(maincoder, .name = "maincoder", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__QK_NORM_ROTATED,
      .reference = "archs/maincoder-dense")
    INFER__ARCH(maple, .name = "maple", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .window_every = INFER__WINDOW_BY_FILE, .experts = INFER__EXPERTS_SUM,
      .flags = INFER__WINDOW_ROPE_ONLY | INFER__CLAMPS_BEFORE,
      .layers = "attention, experts", .reference = "archs/maple-moe")
    INFER__ARCH(mamba, .name = "mamba", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .mixer_else = &INFER__KIND_MAMBA,
      .parts = infer__parts_mamba, .idle = "attention.key_length attention.value_length attention.rope_pattern rope.dimension_count",
      .layers = "Mamba",
      .reference = "archs/mamba-{dense,plain-dense}, hf/{mamba,falcon_mamba}") /* also FalconMamba */
    INFER__ARCH(mamba2, .name = "mamba2", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .mixer_else = &INFER__KIND_MAMBA_2,
      .parts = infer__parts_mamba, .idle = "attention.key_length attention.value_length attention.rope_pattern rope.dimension_count",
      .layers = "Mamba 2", .reference = "archs/mamba2-{dense,groups-dense}, hf/mamba2")
    INFER__ARCH(mellum, .name = "mellum", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .flags = INFER__WINDOW_ROPE_PLAIN,
      .layers = "attention, experts", .reference = "archs/mellum-moe, hf/mellum")
    INFER__ARCH(mimo2, .name = "mimo2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .predicts = INFER__PREDICTS | INFER__PREDICTS_BARE | INFER__PREDICTS_BESIDE,
      .window_every = 1, /* the file's pattern says which layers have one */
      .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_SUM, .flags = INFER__ATTN_OUT_TIMES | INFER__NEXTN,
      .ignore = "ffn_gate.weight ffn_up.weight ffn_down.weight", /* in layers with experts */
      .drop = "attn_q.bias attn_k.bias attn_v.bias",
      .layers = "attention, dense FFN, experts", .reference = "archs/mimo2-moe, hf/mimo_v2_flash")
    INFER__ARCH(minicpm, .name = "minicpm", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__LOGITS_OVER,
      .fixup = infer__fix_minicpm,
      .layers = "attention, dense FFN, experts", .reference = "archs/minicpm-{dense,default-dense,real-dense,moe}")
    INFER__ARCH(minicpm3, .name = "minicpm3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .fixup = infer__fix_minicpm, .parts = infer__parts_latent,
      .layers = "dense FFN, latent attention", .reference = "archs/minicpm3-dense, hf/minicpm3")
    INFER__ARCH(minimax_01, .name = "minimax-01", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .mixer_else = &INFER__KIND_LIGHTNING, .full_every = 8, .experts = INFER__EXPERTS_SUM,
      .parts = infer__parts_minimax_01,
      .layers = "attention, experts, lightning attention, norm",
      .reference = "archs/minimax-01-moe, hf/minimax")
    INFER__ARCH(minimax_m2, .name = "minimax-m2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_SUM,
      .layers = "attention, experts", .reference = "archs/minimax-m2-moe, hf/minimax_m2")
    INFER__ARCH(minimax_m3, .name = "minimax-m3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_SIGMOID, .act_limit = 7.0f,
      .act_add = 1.0f, .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW, .index = INFER__HALVES,
      .layers = "attention, dense FFN, experts",
      .reference = "archs/minimax-m3-{blocks-moe,moe,topk-moe}")
    INFER__ARCH(mistral3, .name = "mistral3", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .flags = INFER__ATTN_TEMPERATURE, .fixup = infer__fix_mistral3,
      .layers = "attention, dense FFN, experts", .reference = "archs/mistral3-{dense,moe,yarn-dense}")
    INFER__ARCH(mistral4, .name = "mistral4", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .flags = INFER__ATTN_TEMPERATURE | INFER__NEXTN, .experts = INFER__EXPERTS_RAW, .fixup = infer__fix_mistral4,
      .parts = infer__parts_latent,
      .layers = "dense FFN, experts, latent attention", .reference = "archs/mistral4-moe, hf/mistral4")
    INFER__ARCH(modern_bert, .name = "modern-bert", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_ERF, .act_by_key = 1,
      .encoder = 1, .window_every = 3, .flags = INFER__WINDOW_FULL_FIRST | INFER__QKV_WIDE,
      .parts = infer__parts_modern_bert,
      .label_act = 1 + INFER__ACT_GELU_ERF, .label_pooling = INFER_POOL_MEAN, .reference = "archs/modern-bert-{dense,pooled,rank}, hf/modernbert")
    INFER__ARCH(mpt, .name = "mpt", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_ERF,
      .flags = INFER__ALIBI | INFER__QK_NORM_PAIR, .reference = "archs/mpt-{dense,plain-dense}")
    INFER__ARCH(muse_glimmer, .name = "muse-glimmer", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .window_every = 4,
      .flags = INFER__EMBED_NORM_BARE | INFER__WINDOW_ROPE_ONLY | INFER__GATE_NEEDED | INFER__LOGITS_TIMES |
               INFER__FINAL_CAP,
      .gate = INFER__ACT_SIGMOID,
      .fixup = infer__fix_muse, .reference = "archs/muse-glimmer-dense, hf/muse_glimmer")
    INFER__ARCH(nanbeige, .name = "nanbeige", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .reference = "archs/nanbeige-dense")
    INFER__ARCH(nemotron, .name = "nemotron", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_RELU2,
      .reference = "archs/nemotron-dense")
    INFER__ARCH(nemotron_h, .name = "nemotron_h", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_RELU2,
      .mixer_else = &INFER__KIND_MAMBA_2, .flags = INFER__EPS_EITHER | INFER__NEXTN, .parts = infer__parts_nemotron_h,
      .layers = "attention, dense FFN, Mamba 2", .reference = "archs/nemotron_h-dense, hf/nemotron_h")
    INFER__ARCH(nemotron_h_moe, .name = "nemotron_h_moe", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_RELU2,
      .predicts = INFER__PREDICTS,
      .mixer_else = &INFER__KIND_MAMBA_2, .score = INFER__SCORE_SIGMOID, .experts = INFER__EXPERTS_RAW,
      .flags = INFER__EPS_EITHER | INFER__NEXTN, .parts = infer__parts_nemotron_h,
      .layers = "attention, dense FFN, experts, Mamba 2",
      .reference = "archs/nemotron_h_moe-dense, hf/nemotron_h_moe")
    INFER__ARCH(neo_bert, .name = "neo-bert", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .encoder = 1,
      .flags = INFER__OUT_NORM_ENC, .reference = "archs/neo-bert-dense")
    INFER__ARCH(nomic_bert, .name = "nomic-bert", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .encoder = 1,
      .flags = INFER__NO_PRE_NORM, .keys = infer__bert_keys, .parts = infer__parts_bert,
      .reference = "archs/nomic-bert-dense, hf/nomic_bert")
    INFER__ARCH(nomic_bert_moe, .name = "nomic-bert-moe", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_ERF, .encoder = 1,
      .experts = INFER__EXPERTS_RAW, .flags = INFER__NO_PRE_NORM, .keys = infer__nomic_moe_keys,
      .parts = infer__parts_bert, .layers = "attention, dense FFN, experts", .reference = "archs/nomic-bert-moe-moe")
    INFER__ARCH(olmo, .name = "olmo", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .flags = INFER__NORM_BARE,
      .reference = "archs/olmo-dense")
    INFER__ARCH(olmo2, .name = "olmo2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 4,
      .flags = INFER__NO_PRE_NORM | INFER__WINDOW_ROPE_PLAIN, .reference = "archs/olmo2-{dense,plain-dense,swa-dense}")
    INFER__ARCH(olmoe, .name = "olmoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_RAW,
      .layers = "attention, experts", .reference = "archs/olmoe-moe, hf/olmoe")
    INFER__ARCH(openelm, .name = "openelm", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .reference = "archs/openelm-dense")
    INFER__ARCH(orion, .name = "orion", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .reference = "archs/orion-dense")
    INFER__ARCH(paddleocr, .name = "paddleocr", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__ROPE_SECTIONS, .reference = "archs/paddleocr-moe (a dense model)")
    INFER__ARCH(pangu_embedded, .name = "pangu-embedded", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .drop = "rope_freqs.weight",
      .reference = "archs/pangu-embedded-dense")
    INFER__ARCH(phi2, .name = "phi2", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .block = INFER__BLOCK_PARALLEL, .reference = "archs/phi2-dense")
    INFER__ARCH(phi3, .name = "phi3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .idle = "attention.sliding_window", /* in every file, of any size; the references see everything */
      .reference = "archs/phi3-{dense,plain-dense,partial-dense,longrope-long-dense,longrope-short-dense}")
    INFER__ARCH(phimoe, .name = "phimoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .score = INFER__SCORE_SPARSEMIXER, .experts = INFER__EXPERTS_RAW, .fixup = infer__fix_phimoe,
      .idle = "attention.sliding_window", /* as phi3's */
      .layers = "attention, experts", .reference = "hf/phimoe")
    INFER__ARCH(plamo, .name = "plamo", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .block = INFER__BLOCK_PARALLEL, .reference = "archs/plamo-dense")
    INFER__ARCH(plamo2, .name = "plamo2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .mixer_else = &INFER__KIND_MAMBA_HEADS,
      .layers = "attention, dense FFN, Mamba with heads", .reference = "archs/plamo2-dense")
    INFER__ARCH(plamo3, .name = "plamo3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .window_every = 8,
      .reference = "archs/plamo3-dense")
    INFER__ARCH(plm, .name = "plm", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_RELU2, .parts = infer__parts_latent,
      .layers = "dense FFN, latent attention", .reference = "archs/plm-dense")
    INFER__ARCH(pockettts, .name = "pockettts", .norm = INFER__LN, .rope = INFER__PAIRS, .act = INFER__ACT_GELU_ERF,
      .reference = "archs/pockettts-dense")
    INFER__ARCH(qwen, .name = "qwen", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__FF_TWICE | INFER__QKV_WIDE,
      .reference = "archs/qwen-dense")
    INFER__ARCH(qwen2, .name = "qwen2", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .reference = "archs/qwen2-{dense,plain-dense,yarn-dense}")
    INFER__ARCH(qwen2moe, .name = "qwen2moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .experts = INFER__EXPERTS_RAW,
      .layers = "attention, experts", .reference = "archs/qwen2moe-{moe,plain-moe}, hf/qwen2_moe")
    INFER__ARCH(qwen2vl, .name = "qwen2vl", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__ROPE_SECTIONS | INFER__EPS_DEFAULT, .drop = "=output.bias",
      .reference = "archs/qwen2vl-{dense,mrope-dense}, hf/qwen2_vl, hf/qwen2_5_vl")
    INFER__ARCH(qwen3, .name = "qwen3", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .label_softmax = 1, .ignore = "cls.output.weight", /* a classifier, where the file does not ask for it */
      .reference = "archs/qwen3-{dense,plain-dense,embed,rank}")
    INFER__ARCH(qwen35, .name = "qwen35", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .gate = INFER__ACT_SIGMOID,
      .predicts = INFER__PREDICTS, .mixer_else = &INFER__KIND_DELTA, .full_every = 4,
      .flags = INFER__ROPE_SECTIONS | INFER__SECTIONS_MIXED | INFER__Q_GATED | INFER__DELTA_TILED | INFER__POST_ATTN_IS_FFN |
               INFER__NEXTN,
      .layers = "attention, dense FFN, gated delta net", .reference = "archs/qwen35-dense, hf/qwen3_5")
    INFER__ARCH(qwen35moe, .name = "qwen35moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .gate = INFER__ACT_SIGMOID,
      .predicts = INFER__PREDICTS, .mixer_else = &INFER__KIND_DELTA, .full_every = 4,
      .flags = INFER__ROPE_SECTIONS | INFER__SECTIONS_MIXED | INFER__Q_GATED | INFER__DELTA_TILED | INFER__POST_ATTN_IS_FFN |
               INFER__NEXTN,
      .layers = "attention, experts, gated delta net", .reference = "archs/qwen35moe-moe, hf/qwen3_5_moe")
    INFER__ARCH(qwen3moe, .name = "qwen3moe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .layers = "attention, experts", .reference = "archs/qwen3moe-{moe,norm-moe}")
    INFER__ARCH(qwen3next, .name = "qwen3next", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .gate = INFER__ACT_SIGMOID,
      .predicts = INFER__PREDICTS, .mixer_else = &INFER__KIND_DELTA, .full_every = 4,
      .flags = INFER__Q_GATED | INFER__POST_ATTN_IS_FFN | INFER__NEXTN,
      .ignore = "ssm_in.weight", /* attn_qkv and attn_gate in one, in old files */
      .layers = "attention, experts, gated delta net", .reference = "archs/qwen3next-moe, hf/qwen3_next")
    INFER__ARCH(qwen3tts, .name = "qwen3tts", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__ROPE_SECTIONS | INFER__SECTIONS_MIXED, .ignore = "cls.output.weight", .reference = "archs/qwen3tts-dense")
    INFER__ARCH(qwen3vl, .name = "qwen3vl", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__ROPE_SECTIONS | INFER__SECTIONS_MIXED,
      .label_softmax = 1, .keys = infer__deepstack_keys, .ignore = "cls.output.weight",
      .reference = "archs/qwen3vl-dense, hf/qwen3_vl")
    INFER__ARCH(qwen3vlmoe, .name = "qwen3vlmoe", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__ROPE_SECTIONS | INFER__SECTIONS_MIXED, .keys = infer__deepstack_keys,
      .layers = "attention, experts", .reference = "archs/qwen3vlmoe-moe, hf/qwen3_vl_moe")
    INFER__ARCH(qwen4exp, .name = "qwen4exp", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .gate = INFER__ACT_SIGMOID,
      .mixer_else = &INFER__KIND_DELTA, .full_every = 4, .index = INFER__HALVES,
      .flags = INFER__ROPE_SECTIONS | INFER__SECTIONS_MIXED | INFER__Q_GATED | INFER__DELTA_TILED | INFER__DELTA_SIGMOID | INFER__INDEX_MEANS,
      .keys = infer__qwen4exp_keys, .parts = infer__parts_qwen4exp,
      .drop = "attn_q.bias attn_k.bias attn_v.bias", /* which no published model has, and llama.cpp does not add */
      .layers = "attention, experts, gated delta net, low-rank hyper-connections, shares of streams, n-grams",
      .reference = "archs/qwen4exp-moe")
    INFER__ARCH(refact, .name = "refact", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_SILU, .flags = INFER__ALIBI,
      .fixup = infer__fix_alibi,
      .drop = "rope_freqs.weight attn_output.bias ffn_gate.bias ffn_up.bias ffn_down.bias",
      .reference = "archs/refact-dense")
    INFER__ARCH(rnd1, .name = "rnd1", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU, .flags = INFER__NOT_CAUSAL,
      .experts = INFER__EXPERTS_SUM, .idle = "attention.causal diffusion.shift_logits",
      .layers = "attention, experts", .reference = "archs/rnd1-moe")
    INFER__ARCH(rwkv6, .name = "rwkv6", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_RELU2,
      .mixer_else = &INFER__KIND_TIME_MIX_6, .keys = infer__rwkv6_keys, .parts = infer__parts_rwkv,
      .flags = INFER__FFN_NORM_2, .idle = INFER__RWKV_IDLE,
      .layers = "scale, time mix 6, channel mix",
      .reference = "archs/rwkv6-{dense,unfused-dense,rescale-dense}")
    INFER__ARCH(rwkv6qwen2, .name = "rwkv6qwen2", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_SILU,
      .mixer_else = &INFER__KIND_TIME_MIX_6, .parts = infer__parts_rwkv, .idle = INFER__RWKV_IDLE,
      .layers = "dense FFN, time mix 6", .reference = "archs/rwkv6qwen2-dense")
    INFER__ARCH(rwkv7, .name = "rwkv7", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_RELU2,
      .mixer_else = &INFER__KIND_TIME_MIX_7, .fixup = infer__rwkv7_fix, .parts = infer__parts_rwkv,
      .flags = INFER__FFN_NORM_2, .drop = INFER__RWKV7_DROP, .idle = INFER__RWKV_IDLE,
      .layers = "time mix 7, channel mix",
      .reference = "archs/rwkv7-{dense,small-dense}, models/tiny-rwkv7-834K")
    INFER__ARCH(seed_oss, .name = "seed_oss", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__POST_ATTN_IS_FFN, .reference = "archs/seed_oss-dense")
    INFER__ARCH(smallthinker, .name = "smallthinker", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_RELU, .window_every = 4,
      .experts = INFER__EXPERTS_SUM,
      .flags = INFER__WINDOW_FULL_FIRST | INFER__WINDOW_ROPE_ONLY | INFER__ROPE_NO_WINDOW,
      .parts = infer__parts_smallthinker,
      .layers = "attention, experts, router", .reference = "archs/smallthinker-moe")
    INFER__ARCH(smollm3, .name = "smollm3", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU, .no_rope_every = 4,
      .reference = "archs/smollm3-{dense,nope-dense}")
    INFER__ARCH(spark2_5, .name = "spark2_5", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_GELU_ERF,
      .window_every = INFER__WINDOW_BY_FILE, .gate = INFER__ACT_SIGMOID, .flags = INFER__GATE_NEEDED, .reference = "archs/spark2_5-dense")
    INFER__ARCH(stablelm, .name = "stablelm", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__PARALLEL_BY_NORM,
      .idle = "use_parallel_residual", /* converters write true where a model says nothing */
      .reference = "archs/stablelm-{dense,plain-dense,qkbias-dense,12b-dense}")
    INFER__ARCH(starcoder, .name = "starcoder", .norm = INFER__LN, .rope = INFER__ROPE_NONE, .act = INFER__ACT_GELU_TANH,
      .reference = "archs/starcoder-dense, hf/gpt_bigcode")
    INFER__ARCH(starcoder2, .name = "starcoder2", .norm = INFER__LN, .rope = INFER__HALVES, .act = INFER__ACT_GELU_TANH,
      .reference = "archs/starcoder2-{dense,tied-dense}")
    INFER__ARCH(step35, .name = "step35", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .predicts = INFER__PREDICTS | INFER__PREDICTS_BARE,
      .window_every = INFER__WINDOW_BY_FILE, .gate = INFER__ACT_SIGMOID, .score = INFER__SCORE_SIGMOID,
      .experts = INFER__EXPERTS_RAW,
      .flags = INFER__WINDOW_ROPE_PLAIN | INFER__ROPE_HALF | INFER__CLAMPS | INFER__NEXTN,
      .ignore = "ffn_gate.weight ffn_up.weight ffn_down.weight", /* in layers with experts */
      .layers = "attention, experts", .reference = "archs/step35-moe")
    INFER__ARCH(t5, .name = "t5", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_RELU, .decoder = 1,
      .keys = infer__t5_keys, .parts = infer__parts_t5, .ignore = "cross_attn_rel_b", /* which no model's code reads */
      .layers = "attention, dense FFN, cross attention",
      .reference = "archs/t5-{dense,gated-dense}, hf/t5, hf/t5_gated, hf/umt5")
    INFER__ARCH(t5encoder, .name = "t5encoder", .norm = INFER__RMS, .rope = INFER__ROPE_NONE, .act = INFER__ACT_RELU, .encoder = 1,
      .flags = INFER__OUT_NORM_ENC, .keys = infer__t5_keys, .parts = infer__parts_t5,
      .reference = "archs/t5encoder-dense")
    INFER__ARCH(talkie, .name = "talkie", .norm = INFER__RMS, .rope = INFER__HALVES, .act = INFER__ACT_SILU,
      .flags = INFER__NORM_BARE | INFER__EMBED_NORM_BARE | INFER__QK_NORM_ROTATED | INFER__Q_NORM_HEADS |
               INFER__LOGITS_TIMES,
      .keys = infer__talkie_keys, .parts = infer__parts_talkie,
      .layers = "attention, dense FFN, embeddings",
      .reference = "archs/talkie-dense")
    INFER__ARCH(xverse, .name = "xverse", .norm = INFER__RMS, .rope = INFER__PAIRS, .act = INFER__ACT_SILU,
      .reference = "archs/xverse-dense")
    {.name = NULL}
};

#undef INFER__RMS
#undef INFER__LN
#undef INFER__PAIRS
#undef INFER__HALVES
#undef INFER__ARCH

static const infer__arch *infer__arch_row(int32_t index) {
    return index >= 0 && (size_t)index < INFER__COUNT(INFER__ARCHS) - 1 ? &INFER__ARCHS[index] : NULL;
}

static const infer__arch *infer__arch_find(infer__str name) {
    const infer__arch *a = INFER__ARCHS;
    while (a->name && (strlen(a->name) != name.n || memcmp(a->name, name.s, (size_t)name.n) != 0)) a++;
    return a->name ? a : NULL;
}

/* A computed model's row. Where one alone is listed the compiler knows it, and leaves out what others ask for. */
INFER__FOLDED const infer__arch *infer__arch_of(const infer_model *m) {
    return INFER__COUNT(INFER__ARCHS) == 2 && !INFER__HAS_MEDIA ? &INFER__ARCHS[0] : m->arch;
}
