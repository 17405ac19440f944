/* driver_metal.c: the driver of Apple's Metal. */
#include "gpu.h"

#if !defined(INFER_NO_GPU) && !defined(INFER_NO_METAL)

static int32_t infer__metal_devices(const char **why_not) {
    if (why_not) *why_not = "not written yet";
    return 0;
}

static const infer__driver infer__metal_driver = {
    .name = "metal",
    .backend = INFER_METAL,
    .devices = infer__metal_devices,
};

#endif
