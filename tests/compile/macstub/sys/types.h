/* A stand-in: see unistd.h beside it. */
#ifndef STUB_SYS_TYPES_H
#define STUB_SYS_TYPES_H
#include <stddef.h>
#include <stdint.h>
typedef long ssize_t;
typedef int64_t off_t;
typedef unsigned short mode_t;
#endif
