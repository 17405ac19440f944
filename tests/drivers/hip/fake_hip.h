/* fake_hip.h: between the two parts of the double: fake_hip.c (the runtime) and fake_hiprtc.c (the compiler). */
#ifndef FAKE_HIP_H
#define FAKE_HIP_H
#include "../fibers.h"

enum { /* codes of the API */
    HIP_INVALID_VALUE = 1,
    HIP_OUT_OF_MEMORY = 2,
    HIP_NO_DEVICE = 100,
    HIP_INVALID_DEVICE = 101,
    HIP_INVALID_IMAGE = 200,
    HIP_NO_BINARY = 209,
    HIP_INVALID_HANDLE = 400,
    HIP_ILLEGAL_STATE = 401,
    HIP_NOT_FOUND = 500,
    HIP_NOT_READY = 600,
    HIP_LAUNCH_FAILURE = 719,
    HIP_CAPTURE_UNSUPPORTED = 900,
    HIP_LOCAL = 65536 /* bytes of memory that a group has */
};

/* As in hip_host.h. */
typedef struct hip_kernel {
    const char *name;
    void (*run)(void *const *args, const fibers_item *me);
    size_t (*bytes)(void);
    unsigned most;
} hip_kernel;

typedef struct hip_code_object hip_code_object;

const char *hip_arch(void); /* FAKE_HIP_ARCH */
int hip_width(void);        /* lanes of a wave */
int hip_fails(const char *name);
void hip_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

int hip_programs(void); /* hiprtc programs that are alive */
int hip_code_check(const void *image); /* a code of the API: is it for this chip? */
int hip_code_open(hip_code_object **out, const void *image);
const hip_kernel *hip_code_kernel(const hip_code_object *c, const char *name);
int hip_code_has(const hip_code_object *c, const hip_kernel *k);
void hip_code_close(hip_code_object *c);

#endif
