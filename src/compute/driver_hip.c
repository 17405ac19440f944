/* driver_hip.c: the driver of AMD's HIP runtime. */
#include "gpu.h"

#if !defined(INFER_NO_GPU) && !defined(INFER_NO_HIP)

static int32_t infer__hip_devices(const char **why_not) {
    if (why_not) *why_not = "not written yet";
    return 0;
}

static const infer__driver infer__hip_driver = {
    .name = "hip",
    .backend = INFER_HIP,
    .devices = infer__hip_devices,
};

#endif
