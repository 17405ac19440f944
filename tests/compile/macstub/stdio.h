/* A stand-in: see unistd.h beside it. */
#ifndef STUB_STDIO_H
#define STUB_STDIO_H
#include <stdarg.h>
#include <stddef.h>
int snprintf(char *dst, size_t n, const char *format, ...);
int vsnprintf(char *dst, size_t n, const char *format, va_list args);
#endif
