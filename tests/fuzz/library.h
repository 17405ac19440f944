/* library.h: the library for fuzz targets that compute little: without vector instructions (fuzz_arch has those) and GPUs, a third of the
 * time to compile. */
#ifndef FUZZ_LIBRARY_H
#define FUZZ_LIBRARY_H
#define INFER_IMPLEMENTATION
#define INFER_NO_SIMD
#define INFER_NO_GPU
#include "../../src/infer_all.c"
#endif
