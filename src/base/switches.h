/* switches.h: what the INFER_NO_* and INFER_ONLY_* macros imply for each other, and how tables lose rows.
 *
 * Owns:  the implications, so that every part tests for the one macro that is about itself; INFER__IF.
 * Rules: a switch that leaves something out names itself in the error of a request for it.
 *        Lists leave out rows of tables, nothing else: what only those rows lead to, by pointers to functions and to
 *        other rows, the compiler leaves out with them.
 */
#ifndef INFER__SWITCHES_H
#define INFER__SWITCHES_H

/* The rest of the arguments when the first is a macro that the user has defined as 1 or as nothing, else nothing.
 * INFER_ONLY_QUANTS keeps the rows that are listed in this way: INFER__IF(INFER_QUANT_Q4_K, {..},). */
#define INFER__IF(listed, ...) INFER__IF_LISTED(listed, __VA_ARGS__)
#define INFER__IF_LISTED(listed, ...) INFER__IF_CHOOSE(INFER__IS_##listed, __VA_ARGS__)
#define INFER__IF_CHOOSE(is, ...) INFER__IF_SECOND(is ~, INFER__IF_NOT, ~)(__VA_ARGS__)
#define INFER__IF_SECOND(first, second, ...) second
#define INFER__IS_ ~, INFER__IF_SO,
#define INFER__IS_1 ~, INFER__IF_SO,
#define INFER__IF_SO(...) __VA_ARGS__
#define INFER__IF_NOT(...)

#if defined(INFER_MINIMAL)
#  ifndef INFER_NO_GPU
#    define INFER_NO_GPU
#  endif
#  ifndef INFER_NO_SIMD
#    define INFER_NO_SIMD
#  endif
#  ifndef INFER_NO_CHAT
#    define INFER_NO_CHAT
#  endif
#  ifndef INFER_NO_GRAMMAR
#    define INFER_NO_GRAMMAR
#  endif
#  ifndef INFER_NO_ADAPTERS
#    define INFER_NO_ADAPTERS
#  endif
#  ifndef INFER_NO_DESCRIBE
#    define INFER_NO_DESCRIBE
#  endif
#  ifndef INFER_NO_DRAFTS
#    define INFER_NO_DRAFTS
#  endif
#  ifndef INFER_NO_EMBED
#    define INFER_NO_EMBED
#  endif
#  ifndef INFER_NO_ENCODE
#    define INFER_NO_ENCODE
#  endif
#  ifndef INFER_NO_EXPERTS
#    define INFER_NO_EXPERTS
#  endif
#  ifndef INFER_NO_FILL
#    define INFER_NO_FILL
#  endif
#  ifndef INFER_NO_GUIDES
#    define INFER_NO_GUIDES
#  endif
#  ifndef INFER_NO_JSON
#    define INFER_NO_JSON
#  endif
#  ifndef INFER_NO_MEDIA
#    define INFER_NO_MEDIA
#  endif
#  ifndef INFER_NO_OFFLOAD
#    define INFER_NO_OFFLOAD
#  endif
#  ifndef INFER_NO_QUEUE
#    define INFER_NO_QUEUE
#  endif
#  ifndef INFER_NO_RANGES
#    define INFER_NO_RANGES
#  endif
#  ifndef INFER_NO_SAVE
#    define INFER_NO_SAVE
#  endif
#  ifndef INFER_NO_SCORES
#    define INFER_NO_SCORES
#  endif
#  ifndef INFER_NO_SLICES
#    define INFER_NO_SLICES
#  endif
#  ifndef INFER_NO_SPLIT
#    define INFER_NO_SPLIT
#  endif
#  ifndef INFER_ONLY_QUANTS
#    define INFER_ONLY_QUANTS
#  endif
#  ifndef INFER_ONLY_ARCHS
#    define INFER_ONLY_ARCHS
#  endif
#  ifndef INFER_ARCH_llama
#    define INFER_ARCH_llama 1
#  endif
#  ifndef INFER_ONLY_TOKENIZERS
#    define INFER_ONLY_TOKENIZERS
#  endif
#  ifndef INFER_TOKENIZER_llama
#    define INFER_TOKENIZER_llama 1
#  endif
#  ifndef INFER_ONLY_PRETOKENIZERS
#    define INFER_ONLY_PRETOKENIZERS
#  endif
#  ifndef INFER_ONLY_CACHES
#    define INFER_ONLY_CACHES
#  endif
#  ifndef INFER_CACHE_f16
#    define INFER_CACHE_f16 1
#  endif
#  ifndef INFER_ONLY_SAMPLERS
#    define INFER_ONLY_SAMPLERS
#  endif
#  ifndef INFER_SAMPLER_greedy
#    define INFER_SAMPLER_greedy 1
#  endif
#endif
#if defined(INFER_NO_AVX2) && !defined(INFER_NO_AVX512)
#  define INFER_NO_AVX512
#endif

/* For messages about what is not in a table. */
#if defined(INFER_ONLY_QUANTS)
#  define INFER__OR_QUANTS ", or left out of this build (INFER_ONLY_QUANTS)"
#else
#  define INFER__OR_QUANTS ""
#endif
#if defined(INFER_ONLY_ARCHS)
#  define INFER__OR_ARCHS ", or left out of this build (INFER_ONLY_ARCHS)"
#else
#  define INFER__OR_ARCHS ""
#endif
#define INFER__OR_VARIANTS ", in a build of llama alone (INFER_ONLY_ARCHS)"
#if defined(INFER_ONLY_TOKENIZERS)
#  define INFER__OR_TOKENIZERS ", or left out of this build (INFER_ONLY_TOKENIZERS)"
#else
#  define INFER__OR_TOKENIZERS ""
#endif
#if defined(INFER_ONLY_PRETOKENIZERS)
#  define INFER__OR_PRETOKENIZERS ", or left out of this build (INFER_ONLY_PRETOKENIZERS)"
#else
#  define INFER__OR_PRETOKENIZERS ""
#endif
#if defined(INFER_ONLY_SAMPLERS)
#  define INFER__OR_SAMPLERS ", or left out of this build (INFER_ONLY_SAMPLERS)"
#else
#  define INFER__OR_SAMPLERS ""
#endif

/* Parts that are constants in conditions: where one is 0 the compiler leaves out what it guards, and what only that
 * calls.
 * A public call says so first (infer__left_out). */
#if defined(INFER_NO_ADAPTERS)
#  define INFER__HAS_ADAPTERS 0
#else
#  define INFER__HAS_ADAPTERS 1
#endif
#if defined(INFER_NO_DESCRIBE)
#  define INFER__HAS_DESCRIBE 0
#else
#  define INFER__HAS_DESCRIBE 1
#endif
#if defined(INFER_NO_ENCODE)
#  define INFER__HAS_ENCODE 0
#else
#  define INFER__HAS_ENCODE 1
#endif
#if defined(INFER_NO_DRAFTS)
#  define INFER__HAS_DRAFTS 0
#else
#  define INFER__HAS_DRAFTS 1
#endif
#if defined(INFER_NO_EMBED)
#  define INFER__HAS_EMBED 0
#else
#  define INFER__HAS_EMBED 1
#endif
#if defined(INFER_NO_EXPERTS)
#  define INFER__HAS_EXPERTS 0
#else
#  define INFER__HAS_EXPERTS 1
#endif
#if defined(INFER_NO_FILL)
#  define INFER__HAS_FILL 0
#else
#  define INFER__HAS_FILL 1
#endif
#if defined(INFER_NO_GUIDES)
#  define INFER__HAS_GUIDES 0
#else
#  define INFER__HAS_GUIDES 1
#endif
#if defined(INFER_NO_JSON)
#  define INFER__HAS_JSON 0
#else
#  define INFER__HAS_JSON 1
#endif
#if defined(INFER_NO_MEDIA)
#  define INFER__HAS_MEDIA 0
#else
#  define INFER__HAS_MEDIA 1
#endif
#if defined(INFER_NO_OFFLOAD)
#  define INFER__HAS_OFFLOAD 0
#else
#  define INFER__HAS_OFFLOAD 1
#endif
#if defined(INFER_NO_QUEUE)
#  define INFER__HAS_QUEUE 0
#else
#  define INFER__HAS_QUEUE 1
#endif
#if defined(INFER_NO_RANGES)
#  define INFER__HAS_RANGES 0
#else
#  define INFER__HAS_RANGES 1
#endif
#if defined(INFER_NO_SAVE)
#  define INFER__HAS_SAVE 0
#else
#  define INFER__HAS_SAVE 1
#endif
#if defined(INFER_NO_SCORES)
#  define INFER__HAS_SCORES 0
#else
#  define INFER__HAS_SCORES 1
#endif
#if defined(INFER_NO_SLICES)
#  define INFER__HAS_SLICES 0
#else
#  define INFER__HAS_SLICES 1
#endif
#if defined(INFER_NO_SPLIT)
#  define INFER__HAS_SPLIT 0
#else
#  define INFER__HAS_SPLIT 1
#endif

/* Every GPU API is loaded at run time. Tests keep the code for their doubles of drivers, which are linked.
 * INFER__NO_GPU_BY: the switch that left out all of them together, or NULL. */
#if defined(INFER_NO_GPU)
#  define INFER__NO_GPU_BY "INFER_NO_GPU"
#elif defined(INFER_NO_RUNTIME_LINKING) && !defined(INFER__GPU_DOUBLES)
#  define INFER__NO_GPU_BY "INFER_NO_RUNTIME_LINKING"
#  define INFER_NO_GPU
#else
#  define INFER__NO_GPU_BY NULL
#  if defined(INFER_NO_CUDA) && defined(INFER_NO_HIP) && defined(INFER_NO_METAL) && defined(INFER_NO_OPENCL)
#    define INFER_NO_GPU
#  endif
#endif
#if defined(INFER_NO_GPU)
#  define INFER__HAS_GPU 0
#else
#  define INFER__HAS_GPU 1
#endif
#if defined(INFER_NO_HIP) && defined(INFER_NO_METAL) && defined(INFER_NO_OPENCL)
#  define INFER__NO_GPU_SOURCES /* CUDA takes PTX */
#endif

#endif
