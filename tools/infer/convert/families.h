/* families.h: what config.json's rows and names cannot say of a family, a file for each kind. In all of them: keys_* writes keys,
 * tensor_* makes a tensor (1 = made, 0 = not its own, -1 = failed), rest_* makes what has no tensor in the checkpoint. */
#ifndef FAMILIES_H
#define FAMILIES_H

#include "convert.h"

/* ---- families_dense.c ---- */
int keys_qwen3_vl(checkpoint *c);
int keys_phi3(checkpoint *c);
int keys_gpt2(checkpoint *c);
int keys_smollm3(checkpoint *c);
int keys_windows(checkpoint *c); /* which layers have a sliding window, from layer_types */
int rest_llama3(checkpoint *c);  /* factors of frequencies, where the config asks for them */
int rest_longrope(checkpoint *c);
int tensor_gptneox(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_apertus(checkpoint *c);

/* ---- families_gemma.c ---- */
int keys_gemma3n(checkpoint *c);
int rest_gemma3n(checkpoint *c);
int tensor_gemma3n(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_gemma4(checkpoint *c);
int rest_gemma4(checkpoint *c);

/* ---- families_experts.c ---- */
int keys_deepseek2(checkpoint *c);
int tensor_deepseek2(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_glm4moe(checkpoint *c);
int tensor_gpt_oss(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_llama4(checkpoint *c);
int tensor_llama4(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);

/* ---- families_linear.c: layers with a recurrent state ---- */
int keys_qwen_linear(checkpoint *c);
int tensor_qwen_linear(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_mamba(checkpoint *c);
int tensor_mamba2(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_mamba2(checkpoint *c);
int keys_granite_hybrid(checkpoint *c);
int keys_jamba(checkpoint *c);
int keys_nemotron_h(checkpoint *c);
int keys_falcon_h1(checkpoint *c);
int tensor_falcon_h1(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_lfm2(checkpoint *c);

/* ---- families_encoders.c ---- */
int keys_bert(checkpoint *c);
int tensor_bert(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_nomic(checkpoint *c);
int tensor_nomic(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);
int keys_modernbert(checkpoint *c);
int keys_pooling(checkpoint *c);
int tensor_t5(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);

#endif
