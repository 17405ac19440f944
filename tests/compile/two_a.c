/* Half of a program in two translation units: this one has the implementation (or its own copy, with INFER_STATIC). */
#define INFER_IMPLEMENTATION
#include "../../infer.h"
unsigned two_b(void);
int main(void) {
    infer_error err;
    infer_model *model = NULL;
    if (infer_version() != INFER_VERSION || two_b() != INFER_VERSION) return 1;
    if (infer_model_open(&model, "no such file", NULL, &err) >= 0 || model || err.message[0] == 0) return 2;
    return 0;
}
