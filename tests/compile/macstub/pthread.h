/* A stand-in: see unistd.h beside it. */
#ifndef STUB_PTHREAD_H
#define STUB_PTHREAD_H
#include <sys/types.h>
typedef struct stub_pthread *pthread_t;
typedef struct { long signature; char opaque[56]; } pthread_mutex_t, pthread_attr_t;
typedef struct { long signature; char opaque[40]; } pthread_cond_t;
typedef struct stub_attr pthread_mutexattr_t, pthread_condattr_t;
int pthread_attr_init(pthread_attr_t *a);
int pthread_attr_setstacksize(pthread_attr_t *a, size_t n);
int pthread_attr_destroy(pthread_attr_t *a);
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*start)(void *), void *arg);
int pthread_join(pthread_t t, void **result);
pthread_t pthread_self(void);
int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a);
int pthread_mutex_lock(pthread_mutex_t *m);
int pthread_mutex_unlock(pthread_mutex_t *m);
int pthread_mutex_destroy(pthread_mutex_t *m);
int pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *a);
int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int pthread_cond_broadcast(pthread_cond_t *c);
int pthread_cond_signal(pthread_cond_t *c);
int pthread_cond_destroy(pthread_cond_t *c);
#endif
