/* A stand-in: see unistd.h beside it. */
#ifndef STUB_TIME_H
#define STUB_TIME_H
#include <stddef.h>
typedef long time_t;
typedef unsigned long clock_t;
#define CLOCKS_PER_SEC 1000000ul
struct timespec { time_t tv_sec; long tv_nsec; };
struct tm { int tm_sec, tm_min, tm_hour, tm_mday, tm_mon, tm_year, tm_wday, tm_yday, tm_isdst; long tm_gmtoff; char *tm_zone; };
typedef enum { CLOCK_REALTIME = 0, CLOCK_MONOTONIC = 6 } clockid_t;
int clock_gettime(clockid_t clock, struct timespec *t);
int nanosleep(const struct timespec *t, struct timespec *left);
clock_t clock(void);
time_t time(time_t *t);
struct tm *localtime(const time_t *t);
struct tm *localtime_r(const time_t *t, struct tm *to);
size_t strftime(char *to, size_t cap, const char *format, const struct tm *t);
#endif
