/* A stand-in: see unistd.h beside it. */
#ifndef STUB_FCNTL_H
#define STUB_FCNTL_H
#include <sys/types.h>
#define O_RDONLY 0
#define O_WRONLY 1
#define O_CREAT 0x200
#define O_TRUNC 0x400
#define O_CLOEXEC 0x1000000
int open(const char *path, int flags, ...);
#endif
