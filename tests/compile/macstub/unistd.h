/* Stand-ins for the headers of macOS, as far as the library uses them: there is no SDK on other systems. With these clang
 * parses and compiles what an Apple compiler sees (INFER_* branches of __APPLE__, driver_metal.c); nothing is linked. Types
 * have the sizes that they have there; what a struct holds beside the members that are used is left out. */
#ifndef STUB_UNISTD_H
#define STUB_UNISTD_H
#include <sys/types.h>
#define SEEK_SET 0
#define SEEK_END 2
#define _SC_PAGESIZE 29
#define _SC_NPROCESSORS_ONLN 58
int close(int fd);
int getpid(void);
ssize_t pread(int fd, void *to, size_t n, off_t offset);
ssize_t read(int fd, void *to, size_t n);
off_t lseek(int fd, off_t offset, int whence);
long sysconf(int name);
#endif
