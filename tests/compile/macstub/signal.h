/* A stand-in: see unistd.h beside it. */
#ifndef STUB_SIGNAL_H
#define STUB_SIGNAL_H
typedef unsigned int sigset_t;
#define SIGILL 4
#define SIGTRAP 5
#define SIGFPE 8
#define SIGBUS 10
#define SIGSEGV 11
#define SIGSYS 12
#define SIG_SETMASK 3
int sigfillset(sigset_t *set);
int sigdelset(sigset_t *set, int n);
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
#endif
