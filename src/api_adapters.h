/* api_adapters.h: the part of the public interface that changes what a model computes, session by session. Included by
 * api.h, at the point where its types are needed. */
#ifndef INFER_API_ADAPTERS_H
#define INFER_API_ADAPTERS_H

/* ---- adapters and control vectors ----------------------------------------------------------- */

enum { INFER_MAX_ADAPTERS = 16 }; /* that a session may use at once */
/* An adapter and how it is used. */
typedef struct infer_adapter_use {
    infer_adapter *adapter;
    float scale; /* multiplies what it adds: 1 = as trained, 0 = nothing */
    int32_t first_layer, last_layer; /* control vector: the layers after which it is added, counted from 0; last 0 = all
                                      * from first on */
} infer_adapter_use;
typedef struct infer_adapter_info {
    const char *name;   /* general.name; these texts are "" where the file does not say, and valid as long as it is */
    const char *task;   /* adapter.lora.task_name: what it was trained for */
    const char *prefix; /* adapter.lora.prompt_prefix: what belongs before a text; the caller adds it */
    int32_t control;    /* 1 = a control vector */
    int32_t matrices, rank; /* of a LoRA: matrices that it changes; its largest rank */
    const infer_token *invocation; /* n_invocation tokens (aLoRA): it applies from the last place where these begin */
    int32_t n_invocation;          /* in the session's tokens, not before; 0 = to all tokens */
    uint64_t bytes;     /* of its values as float32: what it takes on each device, and at most on the host */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_adapter_info;

/* Open a LoRA adapter or a control vector (GGUF) for a model that is open. It may be used in any number of sessions,
 * at any scale. F16 and BF16 values are kept as they are, others become float32, and the file is closed again.
 * allow_unknown: 1 = ignore, with a line in the log, what llama.cpp ignores as well: norms (tensors NAME_norm.weight),
 * directions for layers that the model does not have, keys of unknown meaning. Errors: ARGUMENT (made for another
 * model: no such tensor, wrong width), FORMAT, UNSUPPORTED (names the tensor or key), MEMORY, IO, DEVICE. */
INFER_API infer_result infer_adapter_open(infer_adapter **out, infer_model *model, const char *path,
                                          int32_t allow_unknown, infer_error *err);
/* The same from a file in memory, which may be freed afterwards. */
INFER_API infer_result infer_adapter_open_memory(infer_adapter **out, infer_model *model, const void *data, size_t size,
                                                 int32_t allow_unknown, infer_error *err);
/* It lives as long as a context, a session, or tokens that were evaluated with it. NULL is accepted. */
INFER_API infer_result infer_adapter_close(infer_adapter *adapter);
INFER_API infer_result infer_adapter_get_info(const infer_adapter *adapter, infer_adapter_info *out);

/* Merge LoRA adapters into the model's weights, so that evaluating costs no more than without them: W + scale * B A in
 * separate memory (counted against max_memory), stored in the matrix's own type, or in Q8_0 if the library cannot write
 * that type. type: NULL, or "F32", "F16", "BF16", "Q8_0", "Q4_0", ... for all of them. F32 gives the same logits as
 * using the adapters in a session; other types round, so results differ about as much as by quantising the model. The
 * file is not changed, nor is what infer_tensor_read returns. The adapters may be closed afterwards; sessions may use
 * others on top. A session saved before the merge does not load after it, and vice versa. Errors, after which nothing
 * has changed: STATE (the model is in use by anything but adapters, or has been merged before: infer_model_unmerge),
 * ARGUMENT (another model's adapter, a type that the library cannot write), UNSUPPORTED (control vectors; adapters with
 * an invocation; rows that are not whole blocks of the type), MEMORY, IO and DEVICE (weights that are on GPUs are made
 * from the file, and uploaded beside the old ones). */
INFER_API infer_result infer_model_merge(infer_model *model, const infer_adapter_use *uses, int32_t n, const char *type,
                                         infer_error *err);
/* Restore the file's weights, bit for bit; a no-op on a model that was not merged. STATE as above. */
INFER_API infer_result infer_model_unmerge(infer_model *model, infer_error *err);

/* Set the adapters that the session uses from now on; n 0 = none. Several adapters add up. Tokens already in the
 * session stay as they were evaluated: call infer_session_rewind(session, 0) first to apply the adapters to all of it.
 * Sessions of one eval may use different ones. A saved session can be loaded into one that uses the same adapters at
 * the same scales. Errors: ARGUMENT (an adapter of another model), UNSUPPORTED (two that wait for their invocation),
 * MEMORY. */
INFER_API infer_result infer_session_set_adapters(infer_session *session, const infer_adapter_use *uses, int32_t n);
/* Set the adapters that sessions created from now on start with, and that infer_embed, infer_rerank and infer_classify
 * use. */
INFER_API infer_result infer_context_set_adapters(infer_context *context, const infer_adapter_use *uses, int32_t n,
                                                  infer_error *err);

#endif
