/* rows.c: STACKS: one row per type of projector: what its layers do, and the steps before and after them.
 *
 * Owns:  the names of types (nothing else compares one), and of the tensors of steps; keys of all stacks.
 * Rules: as in arch.c. What the file says is not repeated here.
 * Facts: the models' published code, and llama.cpp's tools/mtmd, which the files are written for: where these two
 *        differ, docs/media.md says which one a row follows.
 */
#include "../model.h"

/* ---- steps ------------------------------------------------------------------------------------------------------- */

#define INFER__PIXELS { .kind = INFER__STEP_PATCHES }
#define INFER__CONV(bias) { .kind = INFER__STEP_MATRIX, .flags = bias, .name = "v.patch_embd" }
#define INFER__PLACED(cls) { .kind = INFER__STEP_PLACES, .name = "v.position_embd.weight", .other = cls }
#define INFER__MATRIX(title, how) { .kind = INFER__STEP_MATRIX, .flags = how, .name = title }
#define INFER__NORMED(kind_of, title, how, epsilon) \
    { .kind = INFER__STEP_NORM, .of = kind_of, .name = title, .flags = how, .eps = epsilon }
#define INFER__ACTED(kind_of) { .kind = INFER__STEP_ACT, .of = kind_of }
#define INFER__IS(what) { .kind = INFER__STEP_##what }
#define INFER__B INFER__STEP_BIAS
#define INFER__RMS INFER__NORM_RMS
#define INFER__LN INFER__NORM_LAYER
#define INFER__OWN INFER__STEP_OWN

static const infer__step INFER__IN_VIT[] = { /* SigLIP */
    INFER__PIXELS, INFER__CONV(INFER__B), INFER__PLACED(NULL), INFER__IS(END) };

static const infer__step INFER__HEAD_GEMMA3[] = {
    INFER__IS(STREAM), INFER__NORMED(INFER__LN, "v.post_ln", INFER__B, 0), INFER__IS(POOL),
    INFER__NORMED(INFER__RMS, "mm.soft_emb_norm", 0, 0),
    INFER__MATRIX("mm.input_projection", INFER__STEP_TRANSPOSED), INFER__IS(END) };

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Keys of preprocessing, which works on pictures and sound before they come here; and what describes the file. */
#define INFER__PIXEL_KEYS                                                                                             \
    "image_mean image_std image_min_pixels image_max_pixels preproc_image_size preproc_min_tiles preproc_max_tiles " \
    "image_grid_pinpoints mm_patch_merge_type image_aspect_ratio image_crop_resolution projector_type "              \
    "clip.has_vision_encoder clip.has_audio_encoder clip.has_text_encoder clip.has_llava_projector "                 \
    "clip.projector_type"

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
    hp->act = gelu ? INFER__ACT_GELU_TANH : silu ? INFER__ACT_SILU : INFER__ACT_GELU_SIGMOID;
}

static void infer__stack_keys(infer__keys *k, infer__hparams *hp) {
    infer__stack *s = &k->m->stack;
    hp->out_norm_off = 1;
    hp->n_ctx = 1 << 20;
    infer__stack_act(k, hp);
    if (s->kind == INFER__STACK_VISION) {
        s->image = infer__key_int(k, "image_size", 1, 1 << 20, 0, 1);
        s->patch = infer__key_int(k, "patch_size", 1, 1 << 10, 0, 1);
    }
    s->merge = s->row->merge;
    if (s->row->merge_key) s->merge = infer__key_int(k, s->row->merge_key, 1, 64, s->merge, s->merge == 0);
    hp->n_out = infer__key_int(k, "projection_dim", 1, INFER__MAX_DIM, 0, 1);
    if (hp->n_layer == 0) hp->n_layer = 1; /* for the steps */
}

static void infer__stack_parts(infer_model *m, infer__layer *l) {
    infer__part was[2], *p;
    int32_t i;
    memcpy(was, l->parts, sizeof was);
    l->n_parts = 0;
    if (l->index == 0) {
        p = infer__part_add(m, l, &INFER__KIND_STACK_IN, -1, -1);
        p->keeps = 1;
        p->reads = INFER__READS_STREAM;
    }
    for (i = 0; i < 2 && m->hp.n_block; i++) l->parts[l->n_parts++] = was[i];
    if (l->index < m->hp.n_layer - 1) return;
    p = infer__part_add(m, l, &INFER__KIND_STACK_HEAD, -1, -1);
    p->keeps = 1;
    p->reads = INFER__READS_STREAM;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define INFER__ENCODES                                                                                              \
    .act = INFER__ACT_GELU_TANH, .encoder = 1, .keys = infer__stack_keys, .parts = infer__stack_parts,             \
    .idle = INFER__PIXEL_KEYS

static const infer__stack_row INFER__STACKS[] = {
    { { .name = "gemma3", .norm = INFER__LN, INFER__ENCODES }, /* arXiv 2503.19786 */
      .kind = INFER__STACK_VISION, .merge = 4, .merge_key = "projector.scale_factor", .places = INFER__PLACES_LEARNED,
      .biases = 1, .input = INFER__IN_VIT, .head = INFER__HEAD_GEMMA3 },
};

#undef INFER__PIXELS
#undef INFER__CONV
#undef INFER__PLACED
#undef INFER__MATRIX
#undef INFER__NORMED
#undef INFER__ACTED
#undef INFER__IS
#undef INFER__B
#undef INFER__RMS
#undef INFER__LN
#undef INFER__OWN
#undef INFER__ENCODES

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

/* The slots of a list of steps, from the first matrix and the first vector on. */
static int infer__stack_slots(infer_model *m, const infer__step *s, int matrix, int vector) {
    int ok = 1;
    for (; ok && s->kind; s++) {
        const int need = !(s->flags & INFER__STEP_MAY), b = s->flags & INFER__STEP_BIAS,
                  mb = s->flags & INFER__STEP_MAY_BIAS;
        switch (s->kind) {
        case INFER__STEP_GATED:
            ok = infer__stack_name(m, matrix++, s->other, ".weight", INFER__D_ANY, INFER__D_KERNEL, need);
            if (ok && (b || mb))
                ok = infer__stack_name(m, vector, s->other, ".bias", INFER__D_ONE, INFER__D_ANY, b && need);
            vector++; /* fall through */
        case INFER__STEP_MATRIX:
            if (ok) ok = infer__stack_name(m, matrix, s->name, ".weight", INFER__D_ANY, INFER__D_KERNEL, need);
            if (ok && (b || mb))
                ok = infer__stack_name(m, vector, s->name, ".bias", INFER__D_ONE, INFER__D_ANY, b && need);
            matrix++;
            vector++;
            break;
        case INFER__STEP_FRAME:
            ok = infer__stack_name(m, matrix++, s->name, "", INFER__D_ANY, INFER__D_KERNEL, need);
            break;
        case INFER__STEP_PLACES:
            ok = infer__stack_name(m, matrix++, s->name, "", INFER__D_ANY, INFER__D_MODEL, need);
            if (ok && s->other) ok = infer__stack_name(m, vector, s->other, "", INFER__D_ONE, INFER__D_MODEL, need);
            vector++;
            break;
        case INFER__STEP_NORM:
            if (!(s->flags & INFER__STEP_BARE))
                ok = infer__stack_name(m, vector, s->name, ".weight", INFER__D_ONE, INFER__D_ANY, need);
            if (ok && (b || mb))
                ok = infer__stack_name(m, vector + 1, s->name, ".bias", INFER__D_ONE, INFER__D_ANY, b && need);
            vector += 2;
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
        if (infer__stack_slots(m, row->input, INFER__W_STACK_IN_M0, INFER__W_STACK_IN_V0) &&
            infer__stack_slots(m, row->head, INFER__W_STACK_HEAD_M0, INFER__W_STACK_HEAD_V0))
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

/* Biases that every file of the type has. */
static infer_result infer__stack_needs(const infer_model *m, infer_error *err) {
    static const int16_t slots[][2] = {
        { INFER__W_ATTN_NORM_B, INFER__W_ATTN_NORM }, { INFER__W_FFN_NORM_B, INFER__W_FFN_NORM },
        { INFER__W_ATTN_QKV_B, INFER__W_ATTN_QKV }, { INFER__W_ATTN_OUT_B, INFER__W_ATTN_OUT },
        { INFER__W_FFN_UP_B, INFER__W_FFN_UP }, { INFER__W_FFN_DOWN_B, INFER__W_FFN_DOWN } };
    int32_t i, k, s;
    for (i = 0; i < m->hp.n_layer && m->stack.row->biases; i++) {
        const infer__layer *l = &m->layers[i];
        for (k = 0; k < (int32_t)INFER__COUNT(slots); k++)
            if (l->w[slots[k][1]].type && !l->w[slots[k][0]].type)
                return infer__missing(l, infer__layer_slot(m, l, slots[k][0]), err);
        for (s = INFER__W_ATTN_Q; s <= INFER__W_ATTN_V; s += 2)
            if (!l->w[INFER__W_ATTN_QKV].type && l->w[s].type && !l->w[s + 1].type)
                return infer__missing(l, infer__layer_slot(m, l, s + 1), err);
    }
    return INFER_OK;
}
