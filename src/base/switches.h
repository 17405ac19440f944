/* switches.h: what the INFER_NO_* macros imply for each other.
 *
 * Owns:  the implications, so that every part tests for the one macro that is about itself.
 * Rules: a switch that leaves something out names itself in the error of a request for it.
 */
#ifndef INFER__SWITCHES_H
#define INFER__SWITCHES_H

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
#  ifndef INFER_ONLY_QUANTS
#    define INFER_ONLY_QUANTS
#  endif
#endif
#if defined(INFER_NO_AVX2) && !defined(INFER_NO_AVX512)
#  define INFER_NO_AVX512
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
#if defined(INFER_NO_HIP) && defined(INFER_NO_METAL) && defined(INFER_NO_OPENCL)
#  define INFER__NO_GPU_SOURCES /* CUDA takes PTX */
#endif

#endif
