/* families.h: the families of models, a file for each kind of them. A file has rows for the classes that config.json may name, and what rows
 * of keys and names cannot say: keys_* writes keys, tensor_* makes a tensor (1 = made, 0 = not its own, -1 = failed), rest_* makes what has
 * no tensor in the checkpoint. */
#ifndef FAMILIES_H
#define FAMILIES_H

#include "../convert.h"

#define END_KEYS {NULL, 0, NULL, 0}
#define END_NAMES {NULL, NULL, 0}
#define ROTARY_ALL {"rope.dimension_count", KEY_HEAD, NULL, 0}
#define ROTARY(share) {"rope.dimension_count", KEY_ROTARY, NULL, share}

/* Activations of architectures that have another one than SiLU, as family.act. */
#define ACT_ANY {"", ""} /* a key says which it is, or it is not asked */
#define ACT_RELU2 {"hidden_act", "relu2"}
#define ACT_MLP_RELU2 {"mlp_hidden_act", "relu2"}
#define ACT_GEMMA {"hidden_activation|hidden_act", "gelu_pytorch_tanh|gelu_new|gelu"} /* it says gelu, and means the tanh form */
#define ACT_GEMMA2 {"hidden_activation", "gelu_pytorch_tanh|gelu_new"}
#define ACT_GELU_TANH {"hidden_act|activation_function", "gelu_new|gelu_pytorch_tanh|gelu_fast|gelu"} /* docs/architectures.md */
#define ACT_FALCON {"activation|hidden_act", "gelu"}
#define ACT_BERT {"hidden_act|activation|activation_function", "gelu"}
#define ACT_NOMIC {"hidden_act|activation_function", "silu|swiglu"}
#define ACT_T5 {"feed_forward_proj", "relu|gated-gelu"}
#define ACT_DBRX {"ffn_config.ffn_act_fn.name", "silu"}
#define ACT_XIELU {"hidden_act", "xielu"}

enum { ANY_CONTEXT = 1 << 20 }; /* positions, where the config has no limit */

/* Their rows; the last one's classes are NULL. */
extern const family DENSE_FAMILIES[], EXPERTS_FAMILIES[], GRANITE_FAMILIES[], GEMMA_FAMILIES[], LINEAR_FAMILIES[], OLDER_FAMILIES[], ENCODERS_FAMILIES[];

/* ---- families.c: rows that several have ---- */
extern const key_row LLAMA[], QWEN_MOE[];
extern const name_row AFTER[], FEED_FORWARD[];
/* Matrices of n experts, one below the other. transposed: those of GGUF are. 1, or -1. */
int experts_below(checkpoint *c, st_tensor *t, int64_t layer, const char *what, uint64_t n, int transposed);

/* ---- dense.c ---- */
int keys_windows(checkpoint *c); /* which layers have a sliding window, from layer_types */
int keys_fourths(checkpoint *c); /* refuses other layers without rotation than each fourth */
int keys_hunyuan(checkpoint *c);
int keys_phi3(checkpoint *c);
int keys_qwen3_vl(checkpoint *c);
int rest_longrope(checkpoint *c);
int rest_llama3(checkpoint *c);  /* factors of frequencies, where the config asks for them */

/* ---- experts.c ---- */
int keys_weights_normed(checkpoint *c); /* norm_topk_prob, where it is false */

/* ---- linear.c ---- */
int keys_hybrid(checkpoint *c, int rotates);
int tensor_mamba2(checkpoint *c, st_tensor *t, int64_t layer, const char *rest);

/* ---- encoders.c ---- */
int keys_pooling(checkpoint *c);

#endif
