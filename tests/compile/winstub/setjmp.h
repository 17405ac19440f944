/* A stand-in: see windows.h beside it. */
typedef int jmp_buf[64];
