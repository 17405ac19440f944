/* rows.c: STACKS: one row per type of projector: what its layers do, and the steps before and after them.
 *
 * Owns:  the names of types (nothing else compares one), and of the tensors of steps; keys of all stacks.
 * Rules: as in arch.c. What the file says is not repeated here.
 * Facts: the models' published code, and llama.cpp's tools/mtmd, which the files are written for: where these two
 *        differ, docs/projectors.md says which one a row follows.
 */
#include "../model.h"

/* ---- steps ------------------------------------------------------------------------------------------------------- */

#define INFER__PIXELS { .kind = INFER__STEP_PATCHES }
#define INFER__MATRIX(title, how) { .kind = INFER__STEP_MATRIX, .flags = how, .name = title }
#define INFER__CONV(how) INFER__MATRIX("v.patch_embd", how)
#define INFER__FRAME { .kind = INFER__STEP_FRAME, .name = "v.patch_embd.weight.1" }
#define INFER__PLACED(how) \
  { .kind = INFER__STEP_PLACES, .flags = how, .name = "v.position_embd.weight", .other = "v.class_embd" }
#define INFER__NORMED(kind_of, title, how, epsilon) \
    { .kind = INFER__STEP_NORM, .of = kind_of, .name = title, .flags = how, .eps = epsilon }
#define INFER__ACTED(kind_of) { .kind = INFER__STEP_ACT, .of = INFER__ACT_##kind_of }
#define INFER__ACTED_OWN { .kind = INFER__STEP_ACT, .of = INFER__OWN }
#define INFER__GATED(kind_of, up, gate) { .kind = INFER__STEP_GATED, .of = kind_of, .name = up, .other = gate }
#define INFER__IS(what) { .kind = INFER__STEP_##what }
#define INFER__B INFER__STEP_BIAS
#define INFER__MAY INFER__STEP_MAY
#define INFER__MAYB (INFER__STEP_MAY | INFER__STEP_MAY_BIAS)
#define INFER__RMS INFER__NORM_RMS
#define INFER__LN INFER__NORM_LAYER
#define INFER__OWN INFER__STEP_OWN
#define INFER__PRE(kind_of, how) INFER__NORMED(kind_of, "v.pre_ln", how, 0)
#define INFER__PRE_MAY INFER__PRE(INFER__OWN, INFER__MAYB)
/* The stream, with the norm after the layers: which may be there, with a bias, without one. */
#define INFER__STREAM_MAY INFER__IS(STREAM), INFER__NORMED(INFER__OWN, "v.post_ln", INFER__MAYB, 0)
#define INFER__STREAM INFER__IS(STREAM), INFER__NORMED(INFER__OWN, "v.post_ln", INFER__B, 0)
#define INFER__STREAM_RMS INFER__IS(STREAM), INFER__NORMED(INFER__RMS, "v.post_ln", 0, 0)
/* Two matrices and what is between them. */
#define INFER__MLP(first, second, act) \
  INFER__MATRIX(first, INFER__B), INFER__ACTED(act), INFER__MATRIX(second, INFER__B)
#define INFER__STEPS_OF(name, ...) static const infer__step INFER__##name[] = { __VA_ARGS__, INFER__IS(END) };

INFER__STEPS_OF(IN_VIT, INFER__PIXELS, INFER__CONV(INFER__B), INFER__PLACED(0), INFER__PRE_MAY)
INFER__STEPS_OF(IN_CLIP, INFER__PIXELS, INFER__CONV(INFER__STEP_MAY_BIAS), INFER__PLACED(0), INFER__PRE_MAY)
INFER__STEPS_OF(IN_LLAMA4, INFER__PIXELS, INFER__CONV(0), INFER__PLACED(0), INFER__PRE(INFER__LN, INFER__B))
INFER__STEPS_OF(IN_PIXTRAL, INFER__PIXELS, INFER__CONV(0), INFER__PRE(INFER__RMS, 0)) /* no positions */
INFER__STEPS_OF(IN_DOTS, INFER__PIXELS, INFER__CONV(INFER__B), INFER__PRE_MAY)
INFER__STEPS_OF(IN_FRAMES, INFER__PIXELS, INFER__CONV(0), INFER__FRAME, INFER__PRE_MAY)
INFER__STEPS_OF(IN_QWEN3VL, INFER__PIXELS, INFER__CONV(INFER__B), INFER__FRAME, INFER__PLACED(0), INFER__PRE_MAY)
INFER__STEPS_OF(IN_GLM4V, INFER__PIXELS, INFER__CONV(INFER__B), INFER__FRAME,
                INFER__NORMED(INFER__RMS, "v.norm_embd", INFER__MAY, 0), INFER__PLACED(INFER__MAY), INFER__PRE_MAY)
INFER__STEPS_OF(IN_GEMMA4UV, INFER__PIXELS, INFER__NORMED(INFER__LN, "v.patch_norm.1", INFER__B, 1e-5f),
                INFER__CONV(INFER__B), INFER__NORMED(INFER__LN, "v.patch_norm.2", INFER__B, 1e-5f), INFER__PLACED(0),
                INFER__NORMED(INFER__LN, "v.patch_norm.3", INFER__B, 1e-5f))

INFER__STEPS_OF(HEAD_GEMMA3, INFER__STREAM, INFER__IS(POOL), INFER__NORMED(INFER__RMS, "mm.soft_emb_norm", 0, 0),
                INFER__MATRIX("mm.input_projection", INFER__STEP_TRANSPOSED))
/* LLaVA (arXiv 2310.03744): two matrices; with norms after them where a file has these (Yi). */
INFER__STEPS_OF(BESIDE_MLP, INFER__IS(STREAM), INFER__IS(KEEP))
INFER__STEPS_OF(HEAD_MLP, INFER__STREAM_MAY, INFER__IS(KEPT), INFER__IS(DROP), INFER__MATRIX("mm.0", INFER__B),
                INFER__NORMED(INFER__LN, "mm.1", INFER__MAY | INFER__B, 0), INFER__ACTED(GELU_TANH),
                INFER__MATRIX("mm.2", INFER__MAY | INFER__B), INFER__MATRIX("mm.3", INFER__MAY | INFER__B),
                INFER__NORMED(INFER__LN, "mm.4", INFER__MAY | INFER__B, 0))
INFER__STEPS_OF(HEAD_IDEFICS3, INFER__STREAM, INFER__IS(MERGE), INFER__MATRIX("mm.model.fc", 0))
INFER__STEPS_OF(HEAD_INTERNVL, INFER__STREAM_MAY, INFER__IS(DROP), INFER__IS(MERGE),
                INFER__NORMED(INFER__LN, "mm.model.mlp.0", INFER__B, 1e-5f),
                INFER__MLP("mm.model.mlp.1", "mm.model.mlp.3", GELU_TANH))
INFER__STEPS_OF(HEAD_QWEN2VL, INFER__STREAM, INFER__IS(MERGE), INFER__MLP("mm.0", "mm.2", GELU_TANH))
INFER__STEPS_OF(HEAD_QWEN25VL, INFER__STREAM_RMS, INFER__IS(MERGE), INFER__MLP("mm.0", "mm.2", GELU_TANH))
INFER__STEPS_OF(BESIDE_QWEN3VL, INFER__IS(STREAM), INFER__IS(MERGE),
                INFER__NORMED(INFER__LN, "v.deepstack.%d.norm", INFER__B, 0),
                INFER__MLP("v.deepstack.%d.fc1", "v.deepstack.%d.fc2", GELU_TANH), INFER__IS(KEEP))
INFER__STEPS_OF(HEAD_QWEN3VL, INFER__STREAM, INFER__IS(MERGE), INFER__MLP("mm.0", "mm.2", GELU_TANH), INFER__IS(JOIN))
INFER__STEPS_OF(HEAD_PIXTRAL, INFER__STREAM_MAY, INFER__NORMED(INFER__RMS, "mm.input_norm", INFER__MAY, 0), INFER__IS(MERGE),
                INFER__MATRIX("mm.patch_merger", INFER__MAY | INFER__STEP_UNFOLDED),
                INFER__MATRIX("mm.1", INFER__STEP_MAY_BIAS), INFER__ACTED(GELU_TANH),
                INFER__MATRIX("mm.2", INFER__STEP_MAY_BIAS),
                { .kind = INFER__STEP_BREAKS, .flags = INFER__MAY, .name = "v.token_embd.img_break" })
INFER__STEPS_OF(HEAD_LLAMA4, INFER__STREAM, INFER__IS(DROP), INFER__IS(MERGE), INFER__MATRIX("mm.model.mlp.1", 0),
                INFER__ACTED(GELU_TANH), INFER__MATRIX("mm.model.mlp.2", 0), INFER__ACTED(GELU_TANH),
                INFER__MATRIX("mm.model.fc", 0))
INFER__STEPS_OF(HEAD_LFM2, INFER__STREAM, INFER__IS(MERGE), INFER__NORMED(INFER__LN, "mm.input_norm", INFER__MAYB, 1e-5f),
                INFER__MLP("mm.1", "mm.2", GELU_TANH))
INFER__STEPS_OF(HEAD_PHI4, INFER__STREAM_MAY, INFER__MLP("mm.0", "mm.2", GELU_TANH))
INFER__STEPS_OF(HEAD_JANUS, INFER__STREAM, INFER__MATRIX("mm.0", INFER__B), INFER__ACTED_OWN, INFER__MATRIX("mm.1", INFER__B))
INFER__STEPS_OF(HEAD_PADDLEOCR, INFER__STREAM, INFER__NORMED(INFER__LN, "mm.input_norm", INFER__B, 1e-5f),
                INFER__IS(MERGE), INFER__MATRIX("mm.1", INFER__B), INFER__ACTED_OWN, INFER__MATRIX("mm.2", INFER__B))
INFER__STEPS_OF(HEAD_KIMIVL, INFER__STREAM, INFER__NORMED(INFER__LN, "mm.input_norm", INFER__B, 1e-5f), INFER__IS(MERGE),
                INFER__MLP("mm.1", "mm.2", GELU_TANH))
INFER__STEPS_OF(HEAD_KIMIK25, INFER__STREAM, INFER__NORMED(INFER__LN, "mm.input_norm", INFER__B, 0), INFER__IS(MERGE),
                INFER__MLP("mm.1", "mm.2", GELU_TANH))
INFER__STEPS_OF(HEAD_DOTS, INFER__IS(STREAM), INFER__NORMED(INFER__RMS, "mm.post_norm", 0, 0),
                INFER__NORMED(INFER__LN, "mm.input_norm", INFER__B, 1e-6f), INFER__IS(MERGE),
                INFER__MLP("mm.0", "mm.2", GELU_ERF))
INFER__STEPS_OF(HEAD_GLM4V, INFER__STREAM_RMS, INFER__IS(MERGE), INFER__MATRIX("mm.patch_merger", INFER__B | INFER__STEP_UNFOLDED),
                INFER__MATRIX("mm.model.fc", 0), INFER__NORMED(INFER__LN, "mm.post_norm", INFER__B, 1e-5f),
                INFER__ACTED(GELU_ERF), INFER__GATED(INFER__OWN, "mm.up", "mm.gate"), INFER__MATRIX("mm.down", 0))
INFER__STEPS_OF(HEAD_GEMMA4V, INFER__STREAM_MAY, INFER__IS(POOL), INFER__IS(SCALE),
                { .kind = INFER__STEP_STD, .flags = INFER__MAY, .name = "v.std_bias", .other = "v.std_scale" },
                INFER__NORMED(INFER__RMS, NULL, INFER__STEP_BARE, 0), INFER__MATRIX("mm.input_projection", 0))
INFER__STEPS_OF(HEAD_RESAMPLER, INFER__STREAM, INFER__MATRIX("resampler.kv", 0),
                INFER__NORMED(INFER__LN, "resampler.ln_kv", INFER__B, 0), INFER__IS(RESAMPLE),
                INFER__NORMED(INFER__LN, "resampler.ln_post", INFER__B, 0), INFER__MATRIX("resampler.proj", 0))
INFER__STEPS_OF(HEAD_GEMMA4UV, INFER__IS(STREAM), INFER__NORMED(INFER__RMS, NULL, INFER__STEP_BARE, 0),
                INFER__MATRIX("mm.input_projection", 0))
INFER__STEPS_OF(IN_GEMMA3NV, { .kind = INFER__STEP_STEM, .name = "v.conv_stem" })
INFER__STEPS_OF(HEAD_GEMMA3NV, { .kind = INFER__STEP_FUSE, .name = "v.msfa.ffn.pw_exp", .other = "v.msfa.ffn.pw_proj" },
                INFER__NORMED(INFER__RMS, "v.msfa.norm", 0, 1e-6f), INFER__IS(SCALE),
                INFER__NORMED(INFER__RMS, "mm.soft_emb_norm", 0, 1e-6f), INFER__MATRIX("mm.input_projection", 0),
                INFER__NORMED(INFER__RMS, NULL, INFER__STEP_BARE, 1e-6f))
INFER__STEPS_OF(HEAD_COGVLM, INFER__IS(STREAM), INFER__IS(DROP), INFER__MATRIX("mm.model.fc", 0),
                INFER__NORMED(INFER__LN, "mm.post_fc_norm", INFER__B, 1e-5f), INFER__ACTED(GELU_TANH),
                INFER__GATED(INFER__ACT_SILU, "mm.up", "mm.gate"), INFER__MATRIX("mm.down", 0),
                { .kind = INFER__STEP_WRAP, .name = "v.boi", .other = "v.eoi" })
INFER__STEPS_OF(HEAD_MINIMAX_M3, INFER__STREAM_MAY, INFER__MLP("mm.1", "mm.2", GELU_ERF), INFER__IS(MERGE),
                INFER__MLP("mm.merger.fc1", "mm.merger.fc2", GELU_ERF))

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Keys of preprocessing, which works on pictures and sound before they come here; and what describes the file. */
#define INFER__PIXEL_KEYS                                                                                             \
    "image_mean image_std image_min_pixels image_max_pixels preproc_image_size preproc_min_tiles preproc_max_tiles " \
    "image_grid_pinpoints mm_patch_merge_type image_aspect_ratio image_crop_resolution projector_type "              \
    "clip.has_vision_encoder clip.has_audio_encoder clip.has_text_encoder clip.has_llava_projector "                 \
    "clip.projector_type clip.minicpmv_version"

static const char *infer__stack_prefix(const infer_model *m) {
    return m->stack.kind == INFER__STACK_VISION ? "clip.vision" : "clip.audio";
}

/* The activation of FFNs: clip.use_gelu, clip.use_silu, else x * sigmoid(1.702 x). */
static void infer__stack_act(infer__keys *k, infer__hparams *hp) {
    int gelu = 0, silu = 0;
    if (infer__gguf_bool(k->g, "clip.use_gelu", &gelu, k->err) < 0 ||
        infer__gguf_bool(k->g, "clip.use_silu", &silu, k->err) < 0)
        k->failed = 1;
    if (!k->failed && gelu && silu) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_FORMAT, "keys clip.use_gelu and clip.use_silu are both true");
    }
    hp->act = k->m->stack.row->flags & INFER__STACK_ACT ? infer__arch_of(k->m)->act
              : gelu                                    ? INFER__ACT_GELU_TANH
              : silu                                    ? INFER__ACT_SILU
                                                        : INFER__ACT_GELU_SIGMOID;
}

/* feature_layer: the inputs of these layers are read, and the result of the last one. */
static void infer__stack_features(infer__keys *k, infer__hparams *hp) {
    static const char NAME[] = "feature_layer";
    infer__stack *s = &k->m->stack;
    const infer__kv *kv = infer__gguf_find(k->g, infer__key_name(k, NAME));
    uint64_t i;
    double v = -1;
    if (k->failed) return;
    if (!kv || kv->n == 0) {
        if (hp->n_layer > 1) hp->n_layer--;
        return;
    }
    if (kv->type != INFER__GGUF_ARRAY || !infer__kv_is_numbers(kv) || kv->n > INFER__COUNT(s->features)) {
        infer__key_misfit(k, NAME, "not an array of 1 to 8 numbers");
        return;
    }
    for (i = 0; i < kv->n; i++) {
        if (!(infer__kv_number(kv, i) > v && infer__kv_number(kv, i) <= hp->n_layer)) {
            infer__key_misfit(k, NAME, "not ascending numbers of layers");
            return;
        }
        v = infer__kv_number(kv, i);
        s->features[i] = (int32_t)v;
    }
    s->n_features = (int32_t)kv->n;
    if (v < 1) infer__key_misfit(k, NAME, "no layer is run");
    else hp->n_layer = (int32_t)v;
}

/* n_wa_pattern: every n-th layer sees the whole picture, the others windows of 112 pixels (Qwen2.5-VL, arXiv
 * 2502.13923). */
static void infer__stack_windows(infer__keys *k) {
    infer__stack *s = &k->m->stack;
    s->every = infer__key_int(k, "n_wa_pattern", 0, INFER__MAX_LAYERS, 0, 1);
    s->window = 112 / (s->patch * s->merge);
    if (!k->failed && s->window < 1) infer__key_misfit(k, "patch_size", "windows have 112 pixels");
    if (s->every) s->list = 1 + s->window * s->window * s->merge * s->merge;
}

/* Gemma 4 clamps what linear layers read and give. */
static const char *const INFER__STACK_ENDS[] = { ".input_min", ".input_max", ".output_min", ".output_max" };

static int infer__stack_has_ranges(const infer_model *m) {
    int32_t i;
    size_t k;
    for (i = 0; i < m->gguf.n_tensors; i++)
        for (k = 0; k < INFER__COUNT(INFER__STACK_ENDS); k++)
            if (strstr(m->gguf.tensors[i].name, INFER__STACK_ENDS[k])) return 1;
    return 0;
}

/* Is it a range of a matrix of the file? A matrix that nothing reads is refused by itself. */
static int infer__stack_range(const infer_model *m, const char *name) {
    char matrix[96];
    size_t k;
    for (k = 0; m->stack.ranged && k < INFER__COUNT(INFER__STACK_ENDS); k++) {
        const size_t n = strlen(name), end = strlen(INFER__STACK_ENDS[k]);
        if (n <= end || n > 80 || strcmp(name + n - end, INFER__STACK_ENDS[k]) != 0) continue;
        infer__format(matrix, sizeof matrix, "%.*s.weight", (int)(n - end), name);
        return infer__gguf_tensor_find(&m->gguf, matrix) != NULL;
    }
    return 0;
}

static infer_result infer__stack_ranges(infer_model *m, infer__layer *l, infer_error *err) {
    int32_t i, k;
    for (i = 0; i < INFER__LAYER_SLOT_COUNT; i++) {
        infer__weight *w = &l->w[i];
        const size_t n = w->type && w->data && w->tensor ? strlen(w->name) : 0;
        float *range = NULL;
        if (n < 8 || n > 80 || strcmp(w->name + n - 7, ".weight") != 0) continue;
        for (k = 0; k < 4; k++) {
            const infer__gguf_tensor *t;
            char name[96];
            infer_result r;
            infer__format(name, sizeof name, "%.*s%s", (int)n - 7, w->name, INFER__STACK_ENDS[k]);
            t = infer__gguf_tensor_find(&m->gguf, name);
            if (!t) continue;
            if (t->rows * t->dims[0] != 1)
                return infer__error(err, INFER_ERR_FORMAT, "tensor %s is not one number", name);
            if (!range) {
                range = (float *)infer__arena_alloc(&m->arena, 4 * sizeof *range);
                if (!range) return infer__error(err, INFER_ERR_MEMORY, "no memory for %s", name);
                range[0] = range[2] = -FLT_MAX;
                range[1] = range[3] = FLT_MAX;
            }
            if ((r = infer__gguf_read_rows(&m->gguf, t, 0, 1, range + k, err)) != INFER_OK) return r;
        }
        if (range && !(range[0] <= range[1] && range[2] <= range[3]))
            return infer__error(err, INFER_ERR_FORMAT, "tensor %s: of its ranges a lowest value is above the highest",
                                w->name);
        if (range && (w->cols > m->stack.ranged || m->gguf.tensors[w->tensor - 1].n_dims < 2))
            return infer__error(err, INFER_ERR_UNSUPPORTED, "tensor %s: no range is computed for it", w->name);
        w->range = range;
    }
    return INFER_OK;
}

/* Layers that the file has tensors of steps beside for. */
static int infer__stack_deep(const infer_model *m, int32_t layer) {
    static const char *const parts[] = { "norm", "fc1", "fc2" };
    char name[64];
    int i, n = 0;
    for (i = 0; i < 3; i++) {
        infer__format(name, sizeof name, "v.deepstack.%d.%s.weight", (int)layer, parts[i]);
        n += infer__gguf_tensor_find(&m->gguf, name) != NULL;
    }
    return n > 0;
}

static void infer__stack_keys(infer__keys *k, infer__hparams *hp) {
    infer__stack *s = &k->m->stack;
    const infer__stack_row *row = s->row;
    int32_t i;
    hp->out_norm_off = 1;
    hp->n_ctx = 1 << 20;
    if (row->theta > 0) hp->rope_base = row->theta;
    infer__stack_act(k, hp);
    s->merge = row->merge;
    if (row->merge_key) s->merge = infer__key_int(k, row->merge_key, 1, 64, s->merge, s->merge == 0);
    s->merged = s->pooled = s->merge * s->merge;
    if (s->kind == INFER__STACK_AUDIO) infer__sound_keys(k);
    if (s->kind == INFER__STACK_VISION) {
        s->image = infer__key_int(k, "image_size", 1, 1 << 20, 0, 1);
        s->patch = infer__key_int(k, "patch_size", 1, 1 << 10, 1, 1);
    }
    if (row->flags & INFER__STACK_WIDE) {
        s->patch *= s->merge;
        s->merge = s->merged = s->pooled = 1;
    }
    hp->n_out = infer__key_int(k, "projection_dim", 1, INFER__MAX_DIM, 0, 1);
    if (row->flags & INFER__STACK_SKIPS) infer__stack_features(k, hp);
    if (row->flags & INFER__STACK_WINDOWS) infer__stack_windows(k);
    if (row->flags & INFER__STACK_OWN && hp->n_layer == 0) infer__key_misfit(k, "block_count", "there are no layers");
    if (row->flags & INFER__STACK_BLOCKS) infer__blocks_keys(k, hp);
    if (hp->n_layer == 0) hp->n_layer = 1; /* for the steps */
    hp->pass_kept = s->list + (int64_t)s->n_features * hp->n_embd;
    if (row->flags & INFER__STACK_RANGES && infer__stack_has_ranges(k->m)) {
        s->ranged = INFER__MAX(hp->n_embd, infer__key_int(k, "feed_forward_length", 1, INFER__MAX_DIM, 0, 1));
        hp->pass_kept += s->ranged;
    }
    if (row->flags & INFER__STACK_RESAMPLES) infer__resample_keys(k, hp);
    if (!row->beside || row->flags & (INFER__STACK_SKIPS | INFER__STACK_OWN)) return;
    for (i = 0; i < hp->n_layer; i++) s->n_beside += infer__stack_deep(k->m, i);
    hp->pass_kept += ((int64_t)s->n_beside * hp->n_out + s->merge * s->merge - 1) / (s->merge * s->merge);
}

/* The 6B encoder of InternVL 2.5 has RMS norms, and no key says so. */
static void infer__fix_internvl(infer__hparams *hp) {
    if (hp->n_embd == 3200 && hp->n_layer == 45) hp->norm = INFER__NORM_RMS;
}
/* Gemma 4's scores: unscaled. */
static void infer__fix_gemma4v(infer__hparams *hp) { hp->attn_scale = 1; }

static void infer__stack_turn(infer__keys *k, infer__layer *l) {
    const infer__stack *s = &k->m->stack;
    infer__hparams *hp = &k->m->hp;
    const uint8_t turn = s->row->turn;
    int32_t i;
    l->listed = s->every > 0 && (l->index + 1) % s->every != 0;
    if (!turn || k->failed || l->n_rot > INFER__MAX_HEAD_DIM) return; /* which is refused later */
    if (turn & INFER__TURN_THIRDS) {
        l->rope_first = l->n_rot / 2 * 2 / 3 / 2 * 2;
        l->n_rot = 2 * l->rope_first;
    }
    l->rope_blocks = turn & INFER__TURN_BLOCKS ? 2 : 1;
    if (l->n_rot % 4) {
        infer__key_misfit(k, "attention.head_count", "heads are not multiples of 4 values");
        return;
    }
    if (!infer__axes_make(k)) return;
    for (i = 0; i < l->n_rot / 2; i++) hp->axes[i] = (i >= l->n_rot / 4) == !(turn & INFER__TURN_XY);
}

static void infer__stack_part(const infer_model *m, infer__layer *l, const infer__sublayer_kind *kind) {
    infer__part *p = infer__part_add(m, l, kind, -1, -1);
    p->keeps = 1;
    p->reads = INFER__READS_STREAM;
}

/* 1 when the stream after `layer` layers is kept. */
static int infer__stack_keeps(const infer_model *m, int32_t layer) {
    int32_t i;
    for (i = 0; i < m->stack.n_features - 1; i++)
        if (m->stack.features[i] == layer) return 1;
    return m->stack.row->beside && !(m->stack.row->flags & (INFER__STACK_SKIPS | INFER__STACK_OWN)) && layer > 0 &&
           infer__stack_deep(m, layer - 1);
}

/* Files of old converters call an FFN's matrices by each other's names, or do not tell its width. */
static void infer__stack_width_of(infer_model *m, infer__layer *l) {
    char name[64];
    uint64_t rows;
    infer__format(name, sizeof name, "%s.blk.%d.ffn_up.weight", l->stack, (int)l->block);
    rows = infer__shape_of(m, name, 1);
    if (l->n_ff == 0 && rows <= INFER__MAX_DIM)
        l->n_ff = (int32_t)(rows == (uint64_t)m->hp.n_embd ? infer__shape_of(m, name, 0) : rows);
}

/* 1 when a step is not made of ops. */
static int infer__stack_hosted(const infer__step *s) {
    for (; s->kind && s->kind != INFER__STEP_CHUNKS && s->kind != INFER__STEP_SUBSAMPLE; s++) {}
    return s->kind != 0;
}

static void infer__stack_parts(infer_model *m, infer__layer *l) {
    const int own = m->stack.row->flags & INFER__STACK_OWN;
    infer__part was[2];
    int32_t i;
    memcpy(was, l->parts, sizeof was);
    infer__stack_width_of(m, l);
    l->on_host = (l->index == 0 || own) && infer__stack_hosted(m->stack.row->input);
    l->n_parts = 0;
    if (l->index == 0) infer__stack_part(m, l, &INFER__KIND_STACK_IN);
    if (own || (l->index == 0 && infer__stack_keeps(m, 0))) infer__stack_part(m, l, &INFER__KIND_STACK_BESIDE);
    for (i = 0; i < 2 && m->hp.n_block && !own; i++) {
        l->parts[l->n_parts] = was[i];
        if (m->stack.row->flags & INFER__STACK_AFTER) {
            l->parts[l->n_parts].post = was[i].norm;
            l->parts[l->n_parts].norm = -1;
            l->parts[l->n_parts].reads = INFER__READS_STREAM;
        }
        if (infer__layer_has(m, l, i ? INFER__W_FFN_TIMES : INFER__W_ATTN_TIMES))
            l->parts[l->n_parts].times = i ? INFER__W_FFN_TIMES : INFER__W_ATTN_TIMES;
        l->n_parts++;
    }
    if (m->stack.row->flags & INFER__STACK_BLOCKS) infer__blocks_part(m, l);
    if (infer__stack_keeps(m, l->index + 1)) infer__stack_part(m, l, &INFER__KIND_STACK_BESIDE);
    if (l->index == m->hp.n_layer - 1) infer__stack_part(m, l, &INFER__KIND_STACK_HEAD);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define INFER__ENCODES_BY(function, own) \
  .act = own, .encoder = 1, .keys = infer__stack_keys, .parts = function, .idle = INFER__PIXEL_KEYS
#include "rows_audio.h"

/* title, norm, rotation, flags of the layers, what else is theirs, steps before and after, and the rest of the row. */
#define INFER__SEES(title, norm_of, rope_of, flags_of, more, steps, last, ...)                     \
  {                                                                                                \
    .arch = {INFER__ENCODES_BY(infer__stack_parts, INFER__ACT_GELU_ERF), .norm = INFER__##norm_of, \
             .rope = INFER__ROPE_##rope_of, .flags = flags_of, .name = title INFER__ALSO more},    \
    .kind = INFER__STACK_VISION, .input = INFER__##steps, .head = INFER__##last, __VA_ARGS__       \
  }
#define INFER__SEES_QWEN25VL(title)                                                                                   \
  INFER__SEES(title, RMS, HALVES, INFER__EPS, (), IN_FRAMES, HEAD_QWEN25VL, .merge = 2, INFER__SPATIAL, INFER__YX,    \
              .flags = INFER__STACK_WINDOWS,                                                                          \
              .biases = INFER__BIAS_ATTENTION | INFER__BIAS_KEYS | INFER__BIAS_FFN | INFER__NEEDS_GATE |              \
                        INFER__NEEDS_GATE_BIAS)
#define INFER__ALSO(...) __VA_ARGS__
#define INFER__LEARNED .places = INFER__PLACES_LEARNED
#define INFER__ALL .biases = INFER__BIASES
#define INFER__GATE .biases = INFER__NEEDS_GATE
#define INFER__YX .turn = INFER__TURN_YX
#define INFER__XY .turn = INFER__TURN_XY
#define INFER__EPS INFER__EPS_EITHER
#define INFER__FACTOR .merge_key = "projector.scale_factor"
#define INFER__SPATIAL .merge_key = "spatial_merge_size"

static const infer__stack_row INFER__STACKS[] = {
    INFER__SEES("cogvlm", LN, NONE, 0, (), IN_VIT, HEAD_COGVLM, .merge = 1, .flags = INFER__STACK_AFTER, INFER__LEARNED, .cls = INFER__CLASS_LAST, INFER__ALL),
    INFER__SEES("dots_ocr", RMS, HALVES, INFER__EPS, (), IN_DOTS, HEAD_DOTS, INFER__FACTOR, INFER__YX, INFER__GATE),
    INFER__SEES("gemma3", LN, NONE, 0, (), IN_VIT, HEAD_GEMMA3, .merge = 4, INFER__FACTOR, INFER__LEARNED, INFER__ALL), /* arXiv 2503.19786 */
    INFER__SEES("gemma3nv", RMS, NONE, INFER__EPS, (, .ignore = "=mm.embedding.weight =mm.hard_emb_norm.weight"), IN_GEMMA3NV,
                HEAD_GEMMA3NV, .merge = 1, .flags = INFER__STACK_BLOCKS),
    INFER__SEES("gemma4uv", RMS, NONE, INFER__EPS, (), IN_GEMMA4UV, HEAD_GEMMA4UV, .merge = 3, INFER__FACTOR, .flags = INFER__STACK_WIDE,
                .places = INFER__PLACES_SUMS),
    INFER__SEES("gemma4v", RMS, HALVES, INFER__EPS | INFER__V_NORM_BARE, (, .fixup = infer__fix_gemma4v), IN_CLIP,
                HEAD_GEMMA4V, .merge = 3, INFER__FACTOR, .places = INFER__PLACES_SUMS, .theta = 100,
                .turn = INFER__TURN_XY | INFER__TURN_BLOCKS,
                .flags = INFER__STACK_SIGNED | INFER__STACK_RANGES, .biases = INFER__NEEDS_GATE | INFER__NEEDS_NORMS),
    INFER__SEES("glm4v", RMS, HALVES, INFER__EPS, (), IN_GLM4V, HEAD_GLM4V, .merge = 2, INFER__SPATIAL, .places = INFER__PLACES_CUBIC, INFER__YX, INFER__GATE),
    INFER__SEES("idefics3", LN, NONE, 0, (), IN_VIT, HEAD_IDEFICS3, .merge = 1, INFER__FACTOR, INFER__LEARNED, INFER__ALL), /* arXiv 2408.12637 */
    INFER__SEES("internvl", LN, NONE, 0, (, .fixup = infer__fix_internvl), IN_VIT, HEAD_INTERNVL, .merge = 1, INFER__FACTOR, INFER__LEARNED,
                .cls = INFER__CLASS_LAST, .biases = INFER__BIASES | INFER__NEEDS_TIMES),
    INFER__SEES("janus_pro", LN, NONE, 0, (), IN_VIT, HEAD_JANUS, .merge = 1, INFER__LEARNED, INFER__ALL), /* arXiv 2501.17811 */
    INFER__SEES("kimik25", LN, PAIRS, 0, (), IN_VIT, HEAD_KIMIK25, .merge = 1, INFER__FACTOR, .places = INFER__PLACES_CUBIC, INFER__XY, INFER__ALL),
    INFER__SEES("kimivl", LN, PAIRS, 0, (), IN_VIT, HEAD_KIMIVL, .merge = 1, INFER__FACTOR, .places = INFER__PLACES_RESIZED, INFER__XY, INFER__ALL),
    INFER__SEES("lfm2", LN, NONE, 0, (), IN_VIT, HEAD_LFM2, .merge = 1, INFER__FACTOR, .places = INFER__PLACES_RESIZED, INFER__ALL),
    INFER__SEES("lightonocr", RMS, PAIRS, INFER__EPS, (), IN_PIXTRAL, HEAD_PIXTRAL, .merge = 1, INFER__SPATIAL, .turn = INFER__TURN_YX | INFER__TURN_BETWEEN,
                INFER__GATE),
    INFER__SEES("llama4", LN, PAIRS, 0, (), IN_LLAMA4, HEAD_LLAMA4, .merge = 1, INFER__FACTOR, INFER__LEARNED, .cls = INFER__CLASS_LAST, INFER__XY,
                .flags = INFER__STACK_COLUMNS, INFER__ALL),
    INFER__SEES("minimax_m3", LN, HALVES, 0, (), IN_FRAMES, HEAD_MINIMAX_M3, .merge = 2, INFER__SPATIAL, .flags = INFER__STACK_ACT,
                .turn = INFER__TURN_YX | INFER__TURN_BLOCKS | INFER__TURN_THIRDS, INFER__ALL),
    INFER__SEES("mlp", LN, NONE, 0, (), IN_CLIP, HEAD_MLP, .merge = 1, INFER__LEARNED, .cls = INFER__CLASS_FIRST, .flags = INFER__STACK_SKIPS, INFER__ALL,
                .beside = INFER__BESIDE_MLP),
    INFER__SEES("paddleocr", LN, HALVES, 0, (), IN_VIT, HEAD_PADDLEOCR, .merge = 2, .places = INFER__PLACES_RESIZED, INFER__YX, INFER__ALL),
    INFER__SEES("phi4", LN, NONE, 0, (), IN_VIT, HEAD_PHI4, .merge = 1, .places = INFER__PLACES_RESIZED, INFER__ALL),
    INFER__SEES("pixtral", RMS, PAIRS, INFER__EPS, (), IN_PIXTRAL, HEAD_PIXTRAL, .merge = 1, INFER__SPATIAL, .turn = INFER__TURN_YX | INFER__TURN_BETWEEN,
                INFER__GATE), /* arXiv 2410.07073 */
    INFER__SEES_QWEN25VL("qwen2.5o"), /* Qwen2.5-Omni's is that of Qwen2.5-VL */
    INFER__SEES_QWEN25VL("qwen2.5vl_merger"),
    INFER__SEES("qwen2vl_merger", LN, HALVES, 0, (), IN_FRAMES, HEAD_QWEN2VL, .merge = 2, INFER__SPATIAL, INFER__YX, INFER__ALL), /* arXiv 2409.12191 */
    INFER__SEES("qwen3vl_merger", LN, HALVES, 0, (), IN_QWEN3VL, HEAD_QWEN3VL, .merge = 2, INFER__SPATIAL, .places = INFER__PLACES_CORNERS, INFER__YX,
                INFER__ALL, .beside = INFER__BESIDE_QWEN3VL),
    INFER__SEES("resampler", LN, NONE, 0, (, .ignore = "=resampler.pos_embed_k"), IN_VIT, HEAD_RESAMPLER, .merge = 1, .places = INFER__PLACES_BUCKETS,
                .flags = INFER__STACK_RESAMPLES, INFER__ALL), /* MiniCPM-V: arXiv 2408.01800 */
    INFER__SOUND_STACKS
};

#undef INFER__PIXELS
#undef INFER__MATRIX
#undef INFER__CONV
#undef INFER__FRAME
#undef INFER__PLACED
#undef INFER__NORMED
#undef INFER__ACTED
#undef INFER__ACTED_OWN
#undef INFER__GATED
#undef INFER__IS
#undef INFER__B
#undef INFER__MAY
#undef INFER__MAYB
#undef INFER__RMS
#undef INFER__LN
#undef INFER__OWN
#undef INFER__PRE
#undef INFER__PRE_MAY
#undef INFER__STREAM_MAY
#undef INFER__STREAM
#undef INFER__STREAM_RMS
#undef INFER__MLP
#undef INFER__STEPS_OF
#undef INFER__ENCODES_BY
#undef INFER__SEES
#undef INFER__ALSO
#undef INFER__LEARNED
#undef INFER__ALL
#undef INFER__GATE
#undef INFER__YX
#undef INFER__XY
#undef INFER__EPS
#undef INFER__FACTOR
#undef INFER__SPATIAL
#undef INFER__CONV_ROWS
#undef INFER__HEARD_AT
#undef INFER__HEARD
#undef INFER__STACKED
#undef INFER__HEARS
#undef INFER__STACKS_BY
#undef INFER__SOUND_STACKS
#undef INFER__OF_LAYER
#undef INFER__RMS_OF
#undef INFER__ADDED
#undef INFER__HALF_FFN

/* ---- a file's row ------------------------------------------------------------------------------------------------ */

static int infer__stack_in(const infer__gguf *g, int32_t kind) {
    int has = 0;
    infer__gguf_bool(g, kind == INFER__STACK_VISION ? "clip.has_vision_encoder" : "clip.has_audio_encoder", &has, NULL);
    return has;
}

/* A slot's tensor name, into the arena. */
static int infer__stack_name(infer_model *m, int slot, const char *name, const char *end, int rows, int cols,
                             int need) {
    infer__tensor_slot *s = &m->stack.slots[slot - INFER__W_STACK_IN_M0];
    char text[96];
    const size_t n = infer__format(text, sizeof text, "%s%s", name, end);
    s->name = infer__arena_text(&m->arena, text, n);
    s->rows = (uint8_t)rows;
    s->cols = (uint8_t)cols;
    s->need = (uint8_t)need;
    return s->name != NULL;
}

/* The slots of a list of steps. */
static int infer__stack_slots(infer_model *m, infer__steps steps) {
    static const char *const parts[] = {"resampler.attn.q", "resampler.attn.k", "resampler.attn.v",
                                        "resampler.attn.out"};
    int ok = 1, i;
    for (; ok && steps.s->kind; infer__steps_next(&steps)) {
        const infer__step *s = steps.s;
        const int matrix = steps.matrix, vector = steps.vector;
        const int need = !(s->flags & INFER__STEP_MAY), b = s->flags & INFER__STEP_BIAS,
                  mb = s->flags & INFER__STEP_MAY_BIAS;
        switch (s->kind) {
        case INFER__STEP_SUBSAMPLE: case INFER__STEP_RELATE:
            ok = infer__conformer_slots(m, s, matrix, vector);
            break;
        case INFER__STEP_GATED: case INFER__STEP_CONV: case INFER__STEP_MATRIX: case INFER__STEP_TAPS:
            for (i = 0; ok && i < (s->kind == INFER__STEP_GATED ? 2 : 1); i++) {
                const char *name = s->kind == INFER__STEP_GATED && i == 0 ? s->other : s->name;
                ok = infer__stack_name(m, matrix + i, name, ".weight", INFER__D_ANY, INFER__D_KERNEL, need);
                if (ok && (b || mb))
                    ok = infer__stack_name(m, vector + i, name, ".bias", INFER__D_ONE, INFER__D_ANY, b && need);
            }
            break;
        case INFER__STEP_CHUNKS: ok = infer__chunks_slots(m, s, matrix, vector); break;
        case INFER__STEP_STEM: case INFER__STEP_FUSE:
            for (i = 0; ok && i < (s->other ? 2 : 1); i++)
                ok = infer__stack_name(m, matrix + i, i ? s->other : s->name, ".conv.weight", INFER__D_ANY,
                                       INFER__D_KERNEL, 1) &&
                     infer__stack_name(m, vector + i, i ? s->other : s->name, ".bn.weight", INFER__D_ONE, INFER__D_ANY,
                                       1);
            if (ok && !s->other)
                ok = infer__stack_name(m, vector + 1, s->name, ".conv.bias", INFER__D_ONE, INFER__D_ANY, 0);
            break;
        case INFER__STEP_FRAME:
            ok = infer__stack_name(m, matrix, s->name, "", INFER__D_ANY, INFER__D_KERNEL, need);
            break;
        case INFER__STEP_PLACES:
            ok = infer__stack_name(m, matrix, s->name, "", INFER__D_ANY, INFER__D_MODEL, need);
            if (ok && m->stack.row->cls)
                ok = infer__stack_name(m, vector, s->other, "", INFER__D_ONE, INFER__D_MODEL,
                                       m->stack.row->cls == INFER__CLASS_LAST);
            break;
        case INFER__STEP_NORM:
            if (s->name)
                ok = infer__stack_name(m, vector, s->name, ".weight", INFER__D_ONE, INFER__D_ANY, need);
            if (ok && (b || mb))
                ok = infer__stack_name(m, vector + 1, s->name, ".bias", INFER__D_ONE, INFER__D_ANY, b && need);
            break;
        case INFER__STEP_RESAMPLE:
            ok = infer__stack_name(m, matrix, "resampler.query", "", INFER__D_ANY, INFER__D_ANY, 1) &&
                 infer__stack_name(m, vector, "resampler.ln_q", ".weight", INFER__D_ONE, INFER__D_ANY, 1) &&
                 infer__stack_name(m, vector + 1, "resampler.ln_q", ".bias", INFER__D_ONE, INFER__D_ANY, 1);
            for (i = 0; ok && i < 4; i++)
                ok = infer__stack_name(m, matrix + 1 + i, parts[i], ".weight", INFER__D_ANY, INFER__D_ANY, 1) &&
                     infer__stack_name(m, vector + 2 + i, parts[i], ".bias", INFER__D_ONE, INFER__D_ANY, 1);
            break;
        case INFER__STEP_STD: case INFER__STEP_WRAP:
            ok = infer__stack_name(m, vector + 1, s->other, "", INFER__D_ONE, INFER__D_ANY, need); /* fall through */
        case INFER__STEP_BREAKS:
            if (ok) ok = infer__stack_name(m, vector, s->name, "", INFER__D_ONE, INFER__D_ANY, need);
            break;
        default: break;
        }
    }
    return ok;
}

static infer_result infer__stack_find(infer_model *m, infer_error *err) {
    static const char *const keys[][2] = { { "clip.projector_type", "clip.projector_type" },
                                           { "clip.vision.projector_type", "clip.audio.projector_type" } };
    infer__str type = { "", 0 };
    int32_t i;
    int r = 0;
    if (!INFER__HAS_MEDIA)
        return infer__left_out(err, "pictures and sound", "INFER_NO_MEDIA"); /* and nothing of stacks */
    for (i = 0; i < 2 && r == 0; i++) r = infer__gguf_str(&m->gguf, keys[i][m->stack.kind - 1], &type, err);
    if (r < 0) return (infer_result)r;
    if (r == 0) return infer__error(err, INFER_ERR_FORMAT, "missing key %s", keys[1][m->stack.kind - 1]);
    for (i = 0; i < (int32_t)INFER__COUNT(INFER__STACKS); i++) {
        const infer__stack_row *row = &INFER__STACKS[i];
        if (row->kind != m->stack.kind || strlen(row->arch.name) != type.n ||
            memcmp(row->arch.name, type.s, (size_t)type.n) != 0)
            continue;
        m->stack.row = row;
        m->arch = &row->arch;
        if (infer__stack_slots(m, infer__steps_in(m)) &&
            (!row->beside || infer__stack_slots(m, infer__steps_beside(m))) &&
            infer__stack_slots(m, infer__steps_head(m)))
            return INFER_OK;
        return infer__error(err, INFER_ERR_MEMORY, "no memory for names of tensors");
    }
    return infer__error(err, INFER_ERR_UNSUPPORTED, "projector type \"%.*s\" is not supported",
                        (int)INFER__MIN(type.n, 40), type.s);
}

static const infer__tensor_slot *infer__stack_slot(const infer_model *m, int s) {
    static const infer__tensor_slot none = { "", INFER__D_ANY, INFER__D_ANY, 0 };
    const infer__tensor_slot *slot = &m->stack.slots[s - INFER__W_STACK_IN_M0];
    return s < INFER__W_STACK_END && slot->name ? slot : &none;
}

static void infer__stack_rename(char *name, size_t cap) {
    static const char *const names[][2] = {
        { "attn_norm.", "ln1." }, { "ffn_norm.", "ln2." }, { "attn_output.", "attn_out." },
        { "post_attention_norm.", "attn_post_norm." }, { "post_ffw_norm.", "ffn_post_norm." } };
    char rest[96];
    size_t i;
    for (i = 0; i < INFER__COUNT(names); i++) {
        char *at = strstr(name, names[i][0]);
        if (!at || strncmp(name + 1, ".blk.", 5) != 0) continue;
        infer__format(rest, sizeof rest, "%s", at + strlen(names[i][0]));
        infer__format(at, cap - (size_t)(at - name), "%s%s", names[i][1], rest);
        return;
    }
}

/* Of two stacks in one file, those of sound are called a., mm.a. and clip.audio. */
static int infer__stack_other(const infer_model *m, const char *name) {
    const int audio =
        strncmp(name, "a.", 2) == 0 || strncmp(name, "mm.a.", 5) == 0 || strncmp(name, "clip.audio.", 11) == 0;
    const int vision = strncmp(name, "v.", 2) == 0 || strncmp(name, "clip.vision.", 12) == 0 ||
                       (strncmp(name, "mm.", 3) == 0 && !audio);
    if (!m->stack.row) return 0;
    return m->stack.kind == INFER__STACK_VISION ? audio && infer__stack_in(&m->gguf, INFER__STACK_AUDIO)
                                                : vision && infer__stack_in(&m->gguf, INFER__STACK_VISION);
}

/* What every file of the type has, though others have not. */
static infer_result infer__stack_needs(const infer_model *m, infer_error *err) {
    static const struct { int16_t slot, of; uint8_t group; } slots[] = {
        { INFER__W_ATTN_NORM_B, INFER__W_ATTN_NORM, INFER__BIAS_NORMS },
        { INFER__W_FFN_NORM_B, INFER__W_FFN_NORM, INFER__BIAS_NORMS },
        { INFER__W_ATTN_QKV_B, INFER__W_ATTN_QKV, INFER__BIAS_ATTENTION },
        { INFER__W_ATTN_Q_B, INFER__W_ATTN_Q, INFER__BIAS_ATTENTION },
        { INFER__W_ATTN_K_B, INFER__W_ATTN_K, INFER__BIAS_KEYS },
        { INFER__W_ATTN_V_B, INFER__W_ATTN_V, INFER__BIAS_ATTENTION },
        { INFER__W_ATTN_OUT_B, INFER__W_ATTN_OUT, INFER__BIAS_ATTENTION },
        { INFER__W_FFN_UP_B, INFER__W_FFN_UP, INFER__BIAS_FFN },
        { INFER__W_FFN_DOWN_B, INFER__W_FFN_DOWN, INFER__BIAS_FFN },
        { INFER__W_FFN_GATE, INFER__W_FFN_UP, INFER__NEEDS_GATE },
        { INFER__W_FFN_GATE_B, INFER__W_FFN_GATE, INFER__NEEDS_GATE_BIAS },
        { INFER__W_ATTN_Q_NORM, INFER__W_ATTN_Q, INFER__NEEDS_NORMS },
        { INFER__W_ATTN_K_NORM, INFER__W_ATTN_K, INFER__NEEDS_NORMS },
        { INFER__W_ATTN_POST_NORM, INFER__W_ATTN_OUT, INFER__NEEDS_NORMS },
        { INFER__W_FFN_POST_NORM, INFER__W_FFN_DOWN, INFER__NEEDS_NORMS },
        { INFER__W_ATTN_TIMES, INFER__W_ATTN_OUT, INFER__NEEDS_TIMES },
        { INFER__W_FFN_TIMES, INFER__W_FFN_DOWN, INFER__NEEDS_TIMES } };
    uint8_t needs = m->stack.row->biases;
    int32_t i;
    size_t k;
    if (needs & INFER__BIAS_NORMS && m->hp.norm == INFER__NORM_RMS)
        needs &= (uint8_t)~INFER__BIASES; /* InternVL's 6B */
    for (i = 0; i < m->hp.n_layer; i++)
        for (k = 0; k < INFER__COUNT(slots); k++) {
            const infer__layer *l = &m->layers[i];
            if (slots[k].group & needs && l->w[slots[k].of].type && !l->w[slots[k].slot].type)
                return infer__missing(l,
                                      slots[k].slot < INFER__W_ATTN_QKV ? &INFER__LAYER_SLOT_TABLE[slots[k].slot]
                                                                        : infer__layer_slot(m, l, slots[k].slot),
                                      err);
        }
    return INFER_OK;
}
