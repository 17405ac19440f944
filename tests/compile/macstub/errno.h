/* A stand-in: see unistd.h beside it. */
#ifndef STUB_ERRNO_H
#define STUB_ERRNO_H
int *__error(void);
#define errno (*__error())
#define ENOENT 2
#define EINTR 4
#define EACCES 13
#define EPERM 1
#define ENOTDIR 20
#define EISDIR 21
#define EINVAL 22
#define ENFILE 23
#define EMFILE 24
#define EFBIG 27
#define EROFS 30
#define ENAMETOOLONG 63
#define ELOOP 62
#define ENOMEM 12
#define EIO 5
#define EOVERFLOW 84
#endif
