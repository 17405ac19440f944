/* A stand-in: see unistd.h beside it. */
#ifndef STUB_STDLIB_H
#define STUB_STDLIB_H
#include <stddef.h>
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
void free(void *p);
char *getenv(const char *name);
void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));
double strtod(const char *s, char **end);
#endif
