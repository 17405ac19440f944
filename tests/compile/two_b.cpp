// The other half as C++, calling into the C implementation.
#include "../../infer.h"
extern "C" unsigned two_b(void);
extern "C" unsigned two_b(void) {
    infer_model_params p = {0};
    return p.backend == 0 ? infer_version() : 0;
}
