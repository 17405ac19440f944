/* A stand-in: see unistd.h beside it. */
#ifndef STUB_SYS_MMAN_H
#define STUB_SYS_MMAN_H
#include <sys/types.h>
#define PROT_READ 1
#define MAP_SHARED 1
#define MAP_PRIVATE 2
#define MAP_FAILED ((void *)-1)
#define MADV_WILLNEED 3
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
int munmap(void *p, size_t n);
int mlock(const void *p, size_t n);
int munlock(const void *p, size_t n);
int madvise(void *p, size_t n, int advice);
#endif
