/* A stand-in: see unistd.h beside it. */
#ifndef STUB_DLFCN_H
#define STUB_DLFCN_H
#define RTLD_NOW 2
#define RTLD_LOCAL 4
void *dlopen(const char *path, int mode);
void *dlsym(void *lib, const char *name);
int dlclose(void *lib);
char *dlerror(void);
#endif
