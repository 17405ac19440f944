/* The other half: declarations only, or with INFER_STATIC a second implementation. */
#if defined(INFER_STATIC)
#define INFER_IMPLEMENTATION
#endif
#include "../../infer.h"
unsigned two_b(void);
unsigned two_b(void) { return infer_version(); }
