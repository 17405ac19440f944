/* infer_all.c: the table of contents. Parts in the order in which they appear in infer.h, lowest layer first;
 * those up to texts are in infer_text.c.
 * Also a valid build by itself: cc -O2 -c src/infer_all.c. To read: this page, model/forward.c, model/arch.c,
 * compute/backend.h, then any part. */
#ifndef INFER_IMPLEMENTATION
#define INFER_IMPLEMENTATION
#endif
#include "infer_text.c"            /* base, quant, format, text: listed there */

/* compute: ops */
#include "compute/backend.h"
#include "compute/cpu/cpu_math.h"          /* exp and tanh, once for all widths; activations of one float */
#include "compute/cpu/cpu_ops.h"           /* float kernels: one body, one wrapper per level; intrinsics, never cold */
INFER__COLD_BEGIN
#include "compute/ops.c"                   /* errors, checks and counts of all backends */
#include "compute/isa.c"                   /* what this CPU can do */
INFER__COLD_END
#include "compute/cpu/cpu_exp.h"           /* exp and tanh of 16 floats */
#include "compute/cpu/cpu_kv.c"            /* keys and values: layout, reading */
INFER__SMALL_BEGIN
#include "compute/cpu/cpu_flash_direct.c"  /* few pairs: directly from the cache */
#include "compute/cpu/cpu_flash.c"         /* tiles of scores and of weighted sums, softmax */
#include "compute/cpu/cpu_kernels.c"
#include "compute/cpu/cpu_weights.c"       /* weights as float32; how work goes to the pool */
INFER__SMALL_END
#include "compute/products/cpu_int8.h"     /* integer dot products: the arithmetic, what a level provides */
#include "compute/products/int8_scalar.c"  /* the definition of a level */
#include "compute/products/int8_lanes.h"   /* the levels of x86 with less than that */
#include "compute/products/int8_sse41.c"
#include "compute/products/int8_avx2.c"
#include "compute/products/int8_avx512.c"  /* with VNNI; then without */
#include "compute/products/int8_avx512bw.c"
#include "compute/products/int8_amx.c"     /* tiles of columns */
#include "compute/products/int8_arm.c"     /* NEON, dotprod, i8mm */
#include "compute/products/int8_wasm.c"    /* WebAssembly */
#include "compute/products/int8_rvv.c"     /* RISC-V */
#include "compute/unpack/unpack_avx2.c"  /* faster unpacking of storage types */
#include "compute/unpack/unpack_avx2_k.c"
#include "compute/unpack/code_books.c"   /* IQ1 to IQ3 with a byte a value */
#include "compute/unpack/unpack_avx2_iq.c"
#include "compute/unpack/unpack_avx512.c"
#include "compute/unpack/unpack_avx512_k.c"
#include "compute/unpack/unpack_avx512_iq.c"
#include "compute/unpack/unpack_neon.c"
#include "compute/unpack/unpack_neon_k.c"
#include "compute/unpack/unpack_neon_iq.c"
#include "compute/unpack/unpack_rvv.c"
#include "compute/unpack/unpack_rvv_iq.c"
#include "compute/gemv/row_sse41.c"    /* one column without unpacking first */
#include "compute/gemv/row_avx2.c"
#include "compute/gemv/row_avx2_iq.c"
#include "compute/gemv/row_wasm.c"
#include "compute/gemv/row_rvv.c"
#include "compute/gemv/alone_avx512.c"
#include "compute/gemv/alone_dotprod.c"
#include "compute/gemv/alone_arm.c"
INFER__SMALL_BEGIN
#include "compute/products/cpu_int8.c"     /* the engine of quantised products */
INFER__SMALL_END
#include "compute/products/cpu_float.h"    /* F32, F16, BF16 weights: the arithmetic, one body for every level */
#include "compute/products/float_outer.c"  /* F32 by outer products */
#include "compute/products/float_int16.c"  /* F16 as integers of 16 bits */
#include "compute/products/float_amx.c"    /* tiles of rows and columns */
#include "compute/products/float_rvv.c"
#include "compute/products/float_levels.c" /* FLOATS */
INFER__SMALL_BEGIN
#include "compute/products/cpu_float.c"    /* the engine of such products */
#include "compute/cpu/cpu_low.c"           /* adapters */
#include "compute/cpu/cpu_matmul.c"
#include "compute/cpu/cpu_kv_store.c"
#include "compute/cpu/cpu_attention.c"
#include "compute/cpu/cpu_index.c"         /* which positions attention reads */
#include "compute/cpu/cpu_compress.c"      /* compressed keys */
#include "compute/cpu/cpu_moe.c"
#include "compute/cpu/cpu_conv.c"
#include "compute/cpu/cpu_plane.c"         /* convolutions of pictures */
#include "compute/cpu/cpu_ssm.c"           /* selective state spaces: Mamba 1 and 2 */
#include "compute/cpu/cpu_delta.c"         /* gated delta rule */
#include "compute/cpu/cpu_wkv.c"           /* RWKV: token shift and recurrence */
#include "compute/cpu/cpu_streams.c"
#include "compute/cpu/cpu_top.c"
#include "compute/cpu/cpu_backend.c"       /* the op vtable of the CPU */
INFER__SMALL_END
#include "compute/gpu/gpu.h"               /* what a GPU's driver offers */
INFER__COLD_BEGIN
#include "compute/gpu/gpu_driver.c"        /* what drivers share */
#include "compute/gpu/driver_cuda.c"
#include "compute/gpu/driver_cuda_launch.c"
#include "compute/gpu/driver_hip.c"
#include "compute/gpu/driver_metal.c"
#include "compute/gpu/driver_opencl.c"
#include "compute/gpu/gpu_unpack.c"        /* kernel texts out of kernels_embed.h */
#include "compute/gpu/gpu_kernels.c"       /* devices, programs; the kernels themselves: kernels_embed.h */
#include "compute/gpu/gpu_run.c"           /* queue, values per token, launches */
#include "compute/gpu/gpu_record.c"        /* passes kept by the driver; times of launches */
#include "compute/gpu/gpu_matmul.c"        /* the ops, once for all GPUs */
#include "compute/gpu/gpu_one.c"
#include "compute/gpu/gpu_moe.c"
#include "compute/gpu/gpu_attention.c"
#include "compute/gpu/gpu_index.c"
#include "compute/gpu/gpu_sample.c"
#include "compute/gpu/gpu_streams.c"
#include "compute/gpu/gpu_step.c"          /* convolutions and states of recurrent layers */
#include "compute/gpu/gpu_backend.c"
#include "compute/gpu/check/gpu_check.c"   /* kernels beside the CPU: inputs, comparing */
#include "compute/gpu/check/gpu_check_moe.c"
#include "compute/gpu/check/gpu_check_step.c"
#include "compute/gpu/check/gpu_check_attention.c"
#include "compute/gpu/check/gpu_check_ops.c" /* INFER__PROBES: a row per op */
#include "compute/gpu/check/gpu_verdict.c"       /* what they said, kept */

/* model: layers */
#include "model/model.h"
#include "model/arch.c"            /* ARCHS: one row per architecture */
#include "model/hparams.c"         /* metadata keys -> hparams and layers */
#include "model/keys.c"            /* IDLE_KEYS: keys without effect; the others are refused */
#include "model/rope.c"            /* RoPE frequencies and their scalings */
#include "model/weights.c"         /* WEIGHT_SLOTS: tensors -> layers */
#include "model/needs.c"           /* NEEDS: tensors that all files of an architecture have */
#include "model/place.c"           /* which layers run on which device */
#include "model/upload.c"          /* and their weights there */
#include "model/release.c"         /* weights that leave memory for a while */
#include "model/model.c"           /* opening: the steps above in order */
#include "model/plan.c"            /* sizes of a context */
#include "model/session/cache.c"           /* pages of keys and values */
#include "model/session/cells.c"           /* recurrent states */
#include "model/layers/switched.c" /* adapters by token */
#include "model/layers/indexer.c"  /* which positions attention reads */
#include "model/layers/attention.c"
#include "model/layers/ffn.c"
#include "model/layers/moe.c"      /* experts */
#include "model/layers/shortconv.c"
#include "model/layers/mamba.c"
#include "model/layers/delta.c"    /* gated delta nets */
#include "model/layers/rwkv.c"     /* time mix, channel mix */
#include "model/layers/lightning.c"
#include "model/layers/residual_attention.c"
#include "model/layers/cycles.c"
#include "model/layers/hyper.c"
#include "model/layers/hyper_low.c"
#include "model/layers/ngrams.c"
#include "model/layers/latent.c"
#include "model/layers/compressed.c"     /* attention over compressed keys */
#include "model/layers/embed_skip.c"
#include "model/layers/per_layer.c"      /* inputs of each layer */
#include "model/layers/experts_beside.c"
#include "model/layers/altup.c"          /* several streams */
#include "model/layers/cross.c"          /* attention to what an encoder makes */
#include "model/layers/encoder.c"        /* kept streams */
#include "model/layers/nextn.c"    /* the block that predicts a further token */
#include "model/stack/rows.c"      /* STACKS: one row per type of projector */
#include "model/stack/steps.c"     /* what comes before and after the layers of a stack */
#include "model/stack/sound.c"     /* a sound's rows: frames, convolutions */
#include "model/stack/conformer.c" /* steps of a conformer */
#include "model/stack/mobile.c"    /* Gemma 3n's blocks of convolutions */
#include "model/stack/picture.c"   /* a picture's rows: order, pixels, positions, windows */
#include "model/stack/encode.c"    /* opening a stack, encoding a picture */
#include "model/stack/senses.c"    /* the projector of a text model, and what it has encoded */
#include "model/layers/kinds.c"    /* INFER__SUBLAYER_KINDS: one row per kind of mixer and FFN */
#include "model/describe.c"        /* a model's layers as text */
#include "model/session/results.c"         /* logits that stay on the device */
#include "model/inputs.c"          /* what products read, for the caller */
#include "model/forward.c"         /* THE LOOP */
#include "model/pool.c"            /* hidden states as one vector, classifiers */
#include "model/session/calls.c"           /* which calls may begin */
#include "model/context.c"         /* contexts: work buffers, threads */
#include "model/session/session.c"
#include "model/adapter.c"         /* adapters: files, */
#include "model/adapted.c"         /* and evaluating with them */
#include "model/merge.c"           /* adapters in weights */
#include "model/session/eval.c"            /* steps -> passes */
#include "model/session/media.c"           /* pictures and sound among the positions */
#include "model/session/further.c"         /* passes of the block that predicts further tokens */
#include "model/session/source.c"          /* encoder and decoder: the text that is answered */
#include "model/session/state.c"           /* rewind, fork, save, load */
#include "model/session/rest.c"            /* layers elsewhere */
#include "model/session/parts.c"           /* matrices over several processes */
#include "model/session/increments.c"      /* save what is new, load all of it */

/* api: argument checks and thin calls */
#include "api/library_api.c"       /* version, devices, lists */
#include "api/model_api.c"
#include "api/loading.c"           /* opening in slices */
#include "api/token_api.c"
#include "api/json_api.c"
#include "api/grammar_api.c"
#include "api/template_api.c"
#include "api/context_api.c"
#include "api/adapter_api.c"
#include "api/session_api.c"
#include "api/prompt_ids.c"        /* prompts as tokens, with media among them */
#include "api/draft.c"             /* speculative decoding */
#include "api/full.c"              /* a full context: the caller says what stays */
#include "api/guide.c"             /* classifier-free guidance */
#include "api/generate.c"
#include "api/generation.c"        /* infer_generate, and the same piece by piece */
#include "api/score.c"             /* logprobs of prompts */
#include "api/fill.c"
#include "api/embed.c"             /* vectors and scores of many texts: how, */
#include "api/embed_api.c"         /* and the calls */
#include "api/chat_api.c"          /* conversations and replies */
#include "api/chat_full.c"         /* conversations that do not fit */
#include "api/many/queue.c"             /* many requests: who begins, what a pass evaluates, whose memory is taken */
#include "api/many/queue_api.c"
#include "api/many/best.c"              /* the best of several replies */
#include "api/media/encode_api.c"      /* pictures and sounds in prompts */
#include "api/media/media_api.c"       /* pictures and sound */

INFER__COLD_END
INFER__PASSES_END
#include "base/epilogue.h"
