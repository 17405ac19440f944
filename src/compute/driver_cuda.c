/* driver_cuda.c: the driver of NVIDIA's CUDA driver API. */
#include "gpu.h"

#if !defined(INFER_NO_GPU) && !defined(INFER_NO_CUDA)

static int32_t infer__cuda_devices(const char **why_not) {
    if (why_not) *why_not = "not written yet";
    return 0;
}

static const infer__driver infer__cuda_driver = {
    .name = "cuda",
    .backend = INFER_CUDA,
    .devices = infer__cuda_devices,
};

#endif
