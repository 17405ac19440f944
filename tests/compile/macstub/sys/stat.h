/* A stand-in: see unistd.h beside it. */
#ifndef STUB_SYS_STAT_H
#define STUB_SYS_STAT_H
#include <sys/types.h>
struct stat { int32_t st_dev; mode_t st_mode; uint64_t st_ino; off_t st_size; };
#define S_ISDIR(m) (((m) & 0170000) == 0040000)
#define S_ISREG(m) (((m) & 0170000) == 0100000)
#define S_IWOTH 0000002
int fstat(int fd, struct stat *to);
int stat(const char *path, struct stat *to);
#endif
