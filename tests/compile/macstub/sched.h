/* A stand-in: see unistd.h beside it. */
#ifndef STUB_SCHED_H
#define STUB_SCHED_H
int sched_yield(void);
#endif
