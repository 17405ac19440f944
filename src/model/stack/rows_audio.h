/* rows_audio.h: encoders of sound: their steps, and INFER__SOUND_STACKS, rows of INFER__STACKS. Part of rows.c, whose
 * macros these are.
 *
 * Facts: Whisper is arXiv 2212.04356.
 */
#ifndef INFER__ROWS_AUDIO_H
#define INFER__ROWS_AUDIO_H

#define INFER__CONV_ROWS(title, step) \
  { .kind = INFER__STEP_CONV, .flags = INFER__B, .of = step, .name = title }, INFER__ACTED(GELU_ERF)
#define INFER__HEARD_AT { .kind = INFER__STEP_PLACES, .name = "a.position_embd.weight" }
#define INFER__HEARD INFER__NORMED(INFER__OWN, "a.post_ln", INFER__MAYB, 0)
#define INFER__STACKED { .kind = INFER__STEP_MERGE, .flags = INFER__STEP_FILLED }

INFER__STEPS_OF(IN_WHISPER, INFER__IS(FRAMES), INFER__CONV_ROWS("a.conv1d.1", 1), INFER__CONV_ROWS("a.conv1d.2", 2),
                INFER__HEARD_AT)
INFER__STEPS_OF(IN_QWEN3A,
                { .kind = INFER__STEP_CHUNKS, .flags = INFER__B, .of = INFER__ACT_GELU_ERF, .name = "a.conv2d.%d" },
                INFER__MATRIX("a.conv_out", INFER__STEP_MAY_BIAS | INFER__STEP_UNFOLDED), INFER__HEARD_AT)

INFER__STEPS_OF(HEAD_ULTRAVOX, INFER__IS(STREAM), INFER__HEARD, INFER__STACKED,
                INFER__NORMED(INFER__RMS, "mm.a.norm_pre", 0, 1e-6f), INFER__MATRIX("mm.a.mlp.1", 0),
                { .kind = INFER__STEP_GLU, .of = INFER__ACT_SILU },
                INFER__NORMED(INFER__RMS, "mm.a.norm_mid", 0, 1e-6f), INFER__MATRIX("mm.a.mlp.2", 0))
INFER__STEPS_OF(HEAD_QWEN2A, INFER__IS(STREAM), INFER__IS(POOL), INFER__HEARD, INFER__MATRIX("mm.a.fc", INFER__B))
INFER__STEPS_OF(HEAD_VOXTRAL, INFER__IS(STREAM), INFER__IS(POOL), INFER__HEARD, INFER__STACKED,
                INFER__MATRIX("mm.a.mlp.1", 0), INFER__ACTED(GELU_ERF), INFER__MATRIX("mm.a.mlp.2", 0))
INFER__STEPS_OF(HEAD_FLAMINGO, INFER__IS(STREAM), INFER__IS(POOL), INFER__HEARD,
                INFER__MLP("mm.a.mlp.1", "mm.a.mlp.2", GELU_ERF))
INFER__STEPS_OF(HEAD_GLMA, INFER__IS(STREAM), INFER__HEARD, INFER__NORMED(INFER__LN, "mm.a.norm_pre", INFER__B, 0),
                INFER__IS(MERGE), INFER__MLP("mm.a.mlp.1", "mm.a.mlp.2", GELU_ERF),
                { .kind = INFER__STEP_WRAP, .name = "v.boi", .other = "v.eoi" })
INFER__STEPS_OF(HEAD_QWEN3A, INFER__IS(STREAM), INFER__HEARD, INFER__MLP("mm.a.mlp.1", "mm.a.mlp.2", GELU_ERF))

/* Gemma 4's conformer (arXiv 2005.08100; transformers): of two FFNs a half is added each; what is called conv_norm is
 * the norm before the convolution, and norm_conv the one after it. Norms: RMS, epsilon 1e-6 whatever the key says. */
#define INFER__OF_LAYER(title) "a.blk.%d." title
#define INFER__RMS_OF(title) INFER__NORMED(INFER__RMS, title, 0, 1e-6f)
#define INFER__ADDED(halves) { .kind = INFER__STEP_ADD, .of = halves }, INFER__IS(STREAM)
#define INFER__HALF_FFN(end)                                                                                       \
  INFER__RMS_OF(INFER__OF_LAYER("ffn_norm" end)), INFER__MATRIX(INFER__OF_LAYER("ffn_up" end), 0),                 \
    INFER__ACTED(SILU), INFER__MATRIX(INFER__OF_LAYER("ffn_down" end), 0),                                         \
    INFER__RMS_OF(INFER__OF_LAYER("ffn_post_norm" end)), INFER__ADDED(1)
INFER__STEPS_OF(IN_GEMMA4A, { .kind = INFER__STEP_SUBSAMPLE, .name = "a.conv1d.%d" },
                INFER__MATRIX("a.input_projection", INFER__STEP_MAY_BIAS))
INFER__STEPS_OF(EACH_GEMMA4A, INFER__IS(STREAM), INFER__HALF_FFN(""), INFER__RMS_OF(INFER__OF_LAYER("attn_pre_norm")),
                INFER__IS(RELATE),
                INFER__MATRIX(INFER__OF_LAYER("attn_out"), INFER__STEP_MAY_BIAS),
                INFER__RMS_OF(INFER__OF_LAYER("attn_post_norm")), INFER__ADDED(2),
                INFER__RMS_OF(INFER__OF_LAYER("conv_norm")), INFER__MATRIX(INFER__OF_LAYER("conv_pw1"), 0),
                { .kind = INFER__STEP_GLU, .of = INFER__ACT_SIGMOID },
                { .kind = INFER__STEP_TAPS, .flags = INFER__STEP_MAY_BIAS, .name = INFER__OF_LAYER("conv_dw") },
                INFER__RMS_OF(INFER__OF_LAYER("norm_conv")), INFER__ACTED(SILU),
                INFER__MATRIX(INFER__OF_LAYER("conv_pw2"), 0), INFER__ADDED(2), INFER__HALF_FFN("_1"),
                INFER__RMS_OF(INFER__OF_LAYER("ln2")))
INFER__STEPS_OF(HEAD_GEMMA4A, INFER__IS(STREAM), INFER__MATRIX("a.pre_encode.out", INFER__STEP_MAY_BIAS),
                INFER__NORMED(INFER__RMS, "mm.a.soft_emb_norm", INFER__STEP_BARE | INFER__MAY, 1e-6f),
                INFER__MATRIX("mm.a.input_projection", 0))
/* Gemma 4 without an encoder: 640 samples are a row. */
INFER__STEPS_OF(IN_GEMMA4UA, INFER__IS(FRAMES))
INFER__STEPS_OF(HEAD_GEMMA4UA, INFER__IS(STREAM), INFER__NORMED(INFER__RMS, NULL, INFER__STEP_BARE, 1e-6f),
                INFER__MATRIX("mm.a.input_projection", 0))

/* Keys have no bias in Whisper. */
#define INFER__HEARS(title, steps, last, at, which)                                                               \
  { .arch = { INFER__ENCODES_BY(infer__stack_parts, INFER__ACT_GELU_ERF), .norm = INFER__LN, .name = title },     \
    .kind = INFER__STACK_AUDIO, .flags = INFER__STACK_ACT, .input = INFER__##steps, .head = INFER__##last,        \
    .places = INFER__PLACES_##at, .biases = INFER__BIASES & ~INFER__BIAS_KEYS, which }
#define INFER__STACKS_BY .merge_key = "projector.stack_factor"
#define INFER__SOUND_STACKS                                                                                       \
    { .arch = { INFER__ENCODES_BY(infer__stack_parts, INFER__ACT_SILU), .norm = INFER__RMS, .flags = INFER__EPS,  \
                .name = "gemma4a" },                                                                              \
      .kind = INFER__STACK_AUDIO, .merge = 1, .input = INFER__IN_GEMMA4A, .beside = INFER__EACH_GEMMA4A,          \
      .head = INFER__HEAD_GEMMA4A, .flags = INFER__STACK_ACT | INFER__STACK_RANGES | INFER__STACK_OWN },          \
    { .arch = { INFER__ENCODES_BY(infer__stack_parts, INFER__ACT_SILU), .norm = INFER__RMS, .flags = INFER__EPS,  \
                .name = "gemma4ua" },                                                                             \
      .kind = INFER__STACK_AUDIO, .merge = 1, .input = INFER__IN_GEMMA4UA, .head = INFER__HEAD_GEMMA4UA,          \
      .flags = INFER__STACK_ACT | INFER__STACK_SAMPLES },                                                        \
    INFER__HEARS("glma", IN_WHISPER, HEAD_GLMA, FRAMES, INFER__STACKS_BY),                                        \
    INFER__HEARS("musicflamingo", IN_WHISPER, HEAD_FLAMINGO, FRAMES, .merge = 1),                                 \
    INFER__HEARS("qwen2.5o", IN_WHISPER, HEAD_QWEN2A, FRAMES, .merge = 1),                                        \
    INFER__HEARS("qwen2a", IN_WHISPER, HEAD_QWEN2A, FRAMES, .merge = 1),                                          \
    INFER__HEARS("qwen3a", IN_QWEN3A, HEAD_QWEN3A, CHUNKS, .merge = 1),                                           \
    INFER__HEARS("ultravox", IN_WHISPER, HEAD_ULTRAVOX, FRAMES, INFER__STACKS_BY),                                \
    INFER__HEARS("voxtral", IN_WHISPER, HEAD_VOXTRAL, FRAMES, INFER__STACKS_BY),
#endif
