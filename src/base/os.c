/* os.c: the only file with OS calls: atomics, clock, CPU count, files, threads, dynamic libraries.
 *
 * Owns:  what differs between POSIX, Windows and systems with neither (bare metal, WASI: no threads, no mapping).
 * May not know: the contents of files or the work of threads.
 * Note:  under -std=c99, and when a user included a system header before us, C libraries hide pread, clock_gettime and
 *        sched_getaffinity, and 32-bit glibc keeps 32-bit offsets. The few declarations needed are here.
 */
#include "base.h"

#if defined(INFER__WINDOWS)
#  include <windows.h>
#elif defined(__unix__) || defined(__APPLE__) || defined(__linux__) || defined(__HAIKU__) || defined(__wasi__)
#  define INFER__POSIX 1
#  include <errno.h>
#  include <fcntl.h>
#  include <sched.h>
#  include <sys/stat.h>
#  include <sys/types.h>
#  if !defined(__wasi__)
#    include <sys/utsname.h>
#  endif
#  if defined(__linux__)
#    include <sys/resource.h>
#  endif
#  include <time.h>
#  include <unistd.h>
#  if !defined(INFER_NO_MMAP) && !defined(INFER_NO_STDIO) && !defined(__wasi__)
#    include <sys/mman.h>
#    define INFER__MMAP 1
#  endif
#  if defined(INFER__THREADS)
#    include <pthread.h>
#    include <signal.h>
#  endif
#  if !defined(INFER_NO_RUNTIME_LINKING) && !defined(__wasi__) && !defined(__EMSCRIPTEN__)
#    include <dlfcn.h>
#    define INFER__DLOPEN 1
#  endif
#else
#  include <time.h>
#endif
#if defined(_MSC_VER) && !defined(__clang__)
#  include <intrin.h>
#endif

/* What strict modes hide. On 32-bit glibc the 64-bit calls are used whatever _FILE_OFFSET_BITS says. */
#if defined(INFER__POSIX) && defined(__GLIBC__)
#  if defined(__WORDSIZE) && __WORDSIZE == 32
extern int open64(const char *path, int flags, ...);
extern int64_t lseek64(int fd, int64_t offset, int whence);
extern ssize_t pread64(int fd, void *dst, size_t n, int64_t offset);
#    define INFER__OPEN open64
#    define INFER__LSEEK lseek64
#    define INFER__PREAD pread64
#    define INFER__OFF int64_t
#  else
extern ssize_t pread(int fd, void *dst, size_t n, off_t offset);
#  endif
#endif
#ifndef INFER__OPEN
#  define INFER__OPEN open
#  define INFER__LSEEK lseek
#  define INFER__PREAD pread
#  define INFER__OFF off_t
#endif
#if defined(__linux__) && !defined(CLOCK_MONOTONIC)
extern int clock_gettime(int clock, struct timespec *t);
#  define INFER__CLOCK 1 /* the kernel's number of CLOCK_MONOTONIC */
#elif defined(CLOCK_MONOTONIC)
#  define INFER__CLOCK CLOCK_MONOTONIC
#endif
#if defined(INFER__POSIX) && defined(__linux__)
extern struct tm *localtime_r(const time_t *t, struct tm *out);
#endif
#if defined(__linux__) && !defined(CPU_SETSIZE)
extern int sched_getaffinity(int pid, size_t size, void *set);
extern int sched_setaffinity(int pid, size_t size, const void *set);
#endif
#if defined(__APPLE__)
extern int pthread_set_qos_class_self_np(unsigned qos, int relative);
extern int sysctlbyname(const char *name, void *old, size_t *old_size, void *to, size_t size);
#endif

/* ---- atomics ------------------------------------------------------------------------------------- */

#if defined(INFER__ATOMICS_NATIVE)
static int64_t infer__atomic_add(infer__atomic *a, int64_t n) { return __atomic_fetch_add(&a->v, n, __ATOMIC_SEQ_CST); }
static int64_t infer__atomic_get(const infer__atomic *a) { return __atomic_load_n(&a->v, __ATOMIC_SEQ_CST); }
static void infer__atomic_set(infer__atomic *a, int64_t n) { __atomic_store_n(&a->v, n, __ATOMIC_SEQ_CST); }
static int infer__atomic_swap(infer__atomic *a, int64_t from, int64_t to) {
    return __atomic_compare_exchange_n(&a->v, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
#elif defined(INFER__ATOMICS_LOCKED)
/* 32-bit CPUs without 64-bit atomics: a one-byte lock beside the value. */
static int64_t infer__atomic_add(infer__atomic *a, int64_t n) {
    int64_t before;
    while (__atomic_test_and_set(&a->lock, __ATOMIC_SEQ_CST)) {}
    before = a->v;
    a->v += n;
    __atomic_clear(&a->lock, __ATOMIC_SEQ_CST);
    return before;
}
static int64_t infer__atomic_get(const infer__atomic *a) {
    return infer__atomic_add((infer__atomic *)(uintptr_t)a, 0);
}
static void infer__atomic_set(infer__atomic *a, int64_t n) {
    while (__atomic_test_and_set(&a->lock, __ATOMIC_SEQ_CST)) {}
    a->v = n;
    __atomic_clear(&a->lock, __ATOMIC_SEQ_CST);
}
static int infer__atomic_swap(infer__atomic *a, int64_t from, int64_t to) {
    int same;
    while (__atomic_test_and_set(&a->lock, __ATOMIC_SEQ_CST)) {}
    same = a->v == from;
    if (same) a->v = to;
    __atomic_clear(&a->lock, __ATOMIC_SEQ_CST);
    return same;
}
#elif defined(INFER__ATOMICS_MSVC)
/* Compare-and-exchange is the one 64-bit operation that MSVC has on every CPU. */
static int64_t infer__atomic_get(const infer__atomic *a) {
    return _InterlockedCompareExchange64((volatile int64_t *)&a->v, 0, 0);
}
static int64_t infer__atomic_add(infer__atomic *a, int64_t n) {
    int64_t seen = infer__atomic_get(a), before;
    while ((before = _InterlockedCompareExchange64(&a->v, seen + n, seen)) != seen) seen = before;
    return before;
}
static void infer__atomic_set(infer__atomic *a, int64_t n) {
    int64_t seen = infer__atomic_get(a), before;
    while ((before = _InterlockedCompareExchange64(&a->v, n, seen)) != seen) seen = before;
}
static int infer__atomic_swap(infer__atomic *a, int64_t from, int64_t to) {
    return _InterlockedCompareExchange64(&a->v, to, from) == from;
}
#else
static int64_t infer__atomic_add(infer__atomic *a, int64_t n) {
    int64_t before = a->v;
    a->v += n;
    return before;
}
static int64_t infer__atomic_get(const infer__atomic *a) { return a->v; }
static void infer__atomic_set(infer__atomic *a, int64_t n) { a->v = n; }
static int infer__atomic_swap(infer__atomic *a, int64_t from, int64_t to) {
    if (a->v != from) return 0;
    a->v = to;
    return 1;
}
#endif

static int infer__claim(infer__atomic *calls) {
    int64_t n = infer__atomic_get(calls);
    return !(n & 1) && infer__atomic_swap(calls, n, n + 1);
}
static void infer__unclaim(infer__atomic *calls) { infer__atomic_add(calls, 1); }

static void infer__refs_take(infer__atomic *refs) { infer__atomic_add(refs, 1); }
static int infer__refs_drop(infer__atomic *refs) { return infer__atomic_add(refs, -1) == 1; }
static int infer__refs_open(const infer__atomic *refs) { return infer__atomic_get(refs) >= INFER__OWNED; }
static int infer__refs_close(infer__atomic *refs) {
    int64_t n = infer__atomic_get(refs);
    while (n >= INFER__OWNED) {
        if (infer__atomic_swap(refs, n, n - INFER__OWNED)) return n == INFER__OWNED;
        n = infer__atomic_get(refs);
    }
    return -1;
}

static void infer__links_put(infer__atomic *list, infer__link *x) {
    int64_t first;
    do {
        first = infer__atomic_get(list);
        x->next = (infer__link *)(uintptr_t)first;
    } while (!infer__atomic_swap(list, first, (int64_t)(uintptr_t)x));
}
static infer__link *infer__links_take(infer__atomic *list) {
    int64_t first = infer__atomic_get(list);
    while (first && !infer__atomic_swap(list, first, 0)) first = infer__atomic_get(list);
    return (infer__link *)(uintptr_t)first;
}

static void infer__atomic_raise(infer__atomic *a, int64_t n) {
    int64_t seen = infer__atomic_get(a);
    while (seen < n && !infer__atomic_swap(a, seen, n)) seen = infer__atomic_get(a);
}

/* ---- clock, CPUs, waiting ------------------------------------------------------------------------ */

static double infer__seconds(void) {
#if defined(INFER_SECONDS)
    return INFER_SECONDS();
#elif defined(INFER__WINDOWS)
    LARGE_INTEGER now, per_second;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&per_second);
    return (double)now.QuadPart / (double)per_second.QuadPart;
#elif defined(INFER__CLOCK)
    struct timespec t;
    if (clock_gettime(INFER__CLOCK, &t) != 0) return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
#else
    return (double)clock() / CLOCKS_PER_SEC;
#endif
}

static int infer__local_time(int out[6]) {
#if defined(INFER__WINDOWS)
    SYSTEMTIME t;
    GetLocalTime(&t);
    out[0] = t.wYear;
    out[1] = t.wMonth;
    out[2] = t.wDay;
    out[3] = t.wHour;
    out[4] = t.wMinute;
    out[5] = t.wSecond;
    return 1;
#else
    time_t now = time(NULL);
    struct tm t, *p;
#  if defined(INFER__POSIX)
    p = now == (time_t)-1 ? NULL : localtime_r(&now, &t);
#  else
    p = now == (time_t)-1 ? NULL : localtime(&now);
    if (p) t = *p;
#  endif
    if (!p) return 0;
    out[0] = t.tm_year + 1900;
    out[1] = t.tm_mon + 1;
    out[2] = t.tm_mday;
    out[3] = t.tm_hour;
    out[4] = t.tm_min;
    out[5] = t.tm_sec;
    return 1;
#endif
}

#if defined(__linux__)
/* The first bytes of a file of the kernel's, as text; empty when there is none. */
static void infer__read_text(const char *path, char *text, size_t cap) {
    int f = open(path, O_RDONLY);
    ptrdiff_t n = f >= 0 ? read(f, text, cap - 1) : 0;
    if (f >= 0) close(f);
    text[n > 0 ? n : 0] = 0;
}

/* The number that starts at *p (spaces before it skipped), 0 when there is none; advances *p past it. */
static uint64_t infer__read_number(const char **p) {
    uint64_t n = 0;
    while (**p == ' ' || **p == '\n') ++*p;
    for (; **p >= '0' && **p <= '9' && n < UINT64_MAX / 16; ++*p) n = n * 10 + (uint64_t)(**p - '0');
    return n;
}

/* Processors' worth of time that the container may use, rounded up; 0 = no limit. cgroup v2 has "quota period" or "max
 * period" in one file, v1 two files, with -1 for no limit. */
static int infer__quota(void) {
    char text[64];
    const char *p = text;
    uint64_t quota, period;
    infer__read_text("/sys/fs/cgroup/cpu.max", text, sizeof text);
    quota = infer__read_number(&p);
    period = infer__read_number(&p);
    if (!text[0]) {
        infer__read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text);
        p = text;
        quota = infer__read_number(&p);
        infer__read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", text, sizeof text);
        p = text;
        period = infer__read_number(&p);
    }
    if (quota == 0 || period == 0 || quota / period > 65535) return 0;
    return (int)((quota + period - 1) / period);
}
#endif

/* Processors that this process may run on; containers and taskset lower it. *cores: counting hardware threads of a core
 * once, 0 where the system does not report the topology. */
#if defined(INFER__WINDOWS)
static int infer__os_processors(int *cores) {
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION found[512];
    DWORD_PTR process = 0, machine = 0, rest;
    DWORD bytes = sizeof found;
    SYSTEM_INFO info;
    size_t i;
    int n = 0;
    *cores = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &process, &machine))
        for (rest = process; rest; rest &= rest - 1) n++;
    if (n > 0 && GetLogicalProcessorInformation(found, &bytes))
        for (i = 0; i < bytes / sizeof found[0]; i++)
            *cores += found[i].Relationship == RelationProcessorCore && (found[i].ProcessorMask & process);
    if (n > 0) return n;
    GetSystemInfo(&info); /* more than 64 processors: the mask is 0 */
    return info.dwNumberOfProcessors > 0 ? (int)info.dwNumberOfProcessors : 1;
}
#elif defined(__linux__)
enum { INFER__CPU_BITS = 8 * sizeof(unsigned long), INFER__CPU_SET = 4096 / sizeof(unsigned long) };

/* 1 when a processor before i is in the set and in the list of those that share its core: "0,64" or "0-3". */
static int infer__sibling_before(const char *list, const unsigned long *set, uint64_t i) {
    while (*list >= '0' && *list <= '9') {
        uint64_t first = infer__read_number(&list), last = first;
        if (*list == '-') {
            list++;
            last = infer__read_number(&list);
        }
        for (; first <= last && first < i; first++)
            if (set[first / INFER__CPU_BITS] >> first % INFER__CPU_BITS & 1) return 1;
        if (*list == ',') list++;
    }
    return 0;
}

static int infer__os_processors(int *cores) {
    unsigned long set[INFER__CPU_SET];
    char path[96], list[256];
    uint64_t i;
    int n = 0, quota = infer__quota();
    *cores = 0;
    memset(set, 0, sizeof set);
    if (sched_getaffinity(0, sizeof set, (void *)set) < 0) {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        return online > 0 && online < 65536 ? (int)online : 1;
    }
    for (i = 0; i < (uint64_t)INFER__CPU_SET * INFER__CPU_BITS; i++) {
        if (!(set[i / INFER__CPU_BITS] >> i % INFER__CPU_BITS & 1)) continue;
        n++;
        infer__format(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", (int)i);
        infer__read_text(path, list, sizeof list);
        *cores += !infer__sibling_before(list, set, i);
    }
    if (quota > 0) n = INFER__MIN(n, quota);
    *cores = INFER__MIN(*cores, n);
    return n > 0 ? n : 1;
}
#else
static int infer__os_processors(int *cores) {
    *cores = 0;
#  if defined(__APPLE__)
    {
        int n = 0;
        size_t len = sizeof n;
        if (sysctlbyname("hw.physicalcpu", &n, &len, NULL, 0) == 0) *cores = n;
    }
#  endif
#  if defined(INFER__POSIX) && defined(_SC_NPROCESSORS_ONLN)
    {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        return n > 0 && n < 65536 ? (int)n : 1;
    }
#  else
    return 1;
#  endif
}
#endif

static int infer__processors(int *cores) {
#if defined(INFER__THREADS)
    const int n = infer__os_processors(cores);
#else
    const int n = 1;
    *cores = 0;
#endif
    if (*cores <= 0 || *cores > n) *cores = n;
    return n;
}

static int infer__cores(void) {
    int cores;
    infer__processors(&cores);
    return cores;
}

/* The system's name and version, "" where it does not say. */
static void infer__system_version(char *dst, size_t cap) {
    dst[0] = 0;
#if defined(INFER__POSIX) && !defined(__wasi__)
    {
        struct utsname u;
        if (uname(&u) >= 0) infer__format(dst, cap, "%s %s %s", u.sysname, u.release, u.version);
    }
#else
    (void)cap;
#endif
}

#if defined(__linux__)
/* The number after `name` at the beginning of a line of `text`, 0 when there is none. */
static uint64_t infer__read_field(const char *text, const char *name) {
    size_t n = strlen(name);
    const char *p;
    for (p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        if (strncmp(p, name, n) != 0) continue;
        p += n;
        return infer__read_number(&p);
    }
    return 0;
}

/* The memory that one control group allows, from its three files; its page cache is reclaimable. */
static void infer__group_memory(const char *dir, const char *limit_name, const char *used_name, const char *cache,
                                uint64_t *total, uint64_t *available) {
    char path[400], text[4096];
    const char *p = text;
    uint64_t limit, used, idle;
    if (infer__format(path, sizeof path, "%s/%s", dir, limit_name) >= sizeof path) return;
    infer__read_text(path, text, sizeof text);
    limit = infer__read_number(&p);
    if (limit == 0 || limit >= (uint64_t)1 << 60) return; /* "max", or v1's number for it */
    *total = *total ? INFER__MIN(*total, limit) : limit;
    infer__format(path, sizeof path, "%s/%s", dir, used_name);
    infer__read_text(path, text, sizeof text);
    p = text;
    used = infer__read_number(&p);
    infer__format(path, sizeof path, "%s/memory.stat", dir);
    infer__read_text(path, text, sizeof text);
    idle = infer__read_field(text, cache[0] ? "total_inactive_file " : "inactive_file ") +
           infer__read_field(text, cache[0] ? "total_active_file " : "active_file ");
    used = used > idle ? used - idle : 0;
    limit = limit > used ? limit - used : 1;
    *available = *available ? INFER__MIN(*available, limit) : limit;
}

/* The limits of this process's control groups: v2, its own and those above it; v1, where a container sees its own. */
static void infer__groups_memory(uint64_t *total, uint64_t *available) {
    char text[1024], dir[320], *end, *own;
    infer__read_text("/proc/self/cgroup", text, sizeof text);
    own = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    infer__group_memory("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_", total,
                        available);
    if (!own) return;
    own = strchr(own, '/');
    own[strcspn(own, "\n")] = 0;
    if (infer__format(dir, sizeof dir, "/sys/fs/cgroup%s", own) >= sizeof dir) return;
    for (;;) {
        infer__group_memory(dir, "memory.max", "memory.current", "", total, available);
        end = strrchr(dir, '/');
        if (!end || (size_t)(end - dir) < sizeof "/sys/fs/cgroup" - 1) break;
        *end = 0;
    }
}
#endif

static void infer__machine_memory(uint64_t *total, uint64_t *available, uint64_t *swap) {
#if defined(INFER__WINDOWS)
    MEMORYSTATUSEX m;
    *total = *available = *swap = 0;
    m.dwLength = sizeof m;
    if (!GlobalMemoryStatusEx(&m)) return;
    *total = m.ullTotalPhys;
    *available = m.ullAvailPhys;
    *swap = m.ullTotalPageFile > m.ullTotalPhys ? m.ullTotalPageFile - m.ullTotalPhys : 0;
#elif defined(INFER__POSIX) && defined(_SC_PHYS_PAGES)
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    *total = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
    *available = *swap = 0;
#  if defined(_SC_AVPHYS_PAGES)
    pages = sysconf(_SC_AVPHYS_PAGES);
    *available = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
#  endif
#  if defined(__linux__)
    {
        char text[2048];
        uint64_t n;
        infer__read_text("/proc/meminfo", text, sizeof text);
        n = infer__read_field(text, "MemAvailable:");
        if (n) *available = n * 1024;
        *swap = infer__read_field(text, "SwapTotal:") * 1024;
        infer__groups_memory(total, available);
    }
#  endif
#else
    *total = *available = *swap = 0;
#endif
}

static int64_t infer__process(void) {
#if defined(INFER__POSIX) && !defined(__wasi__)
    return (int64_t)getpid();
#else
    return 0;
#endif
}

/* Yield the processor. */
static void infer__yield(void) {
#if defined(INFER__WINDOWS)
    SwitchToThread();
#elif defined(INFER__POSIX)
    sched_yield();
#endif
}

/* ---- signals ------------------------------------------------------------------------------------- */

#if defined(INFER__THREADS) && !defined(INFER__WINDOWS)

/* The signals that threads of the library block: all that are sent to a process, so that the host's threads get them.
 * The thread's own faults stay unblocked: blocked, they would kill the process without calling the host's crash
 * handler. */
#  if defined(__linux__) /* a strict mode hides sigset_t and its functions; bit n - 1 of it is signal n */
typedef struct infer__sigset { unsigned long words[128 / sizeof(unsigned long)]; } infer__sigset;
#    if defined(SIG_SETMASK)
#      define INFER__SETMASK SIG_SETMASK
typedef sigset_t infer__libc_sigset;
#    else
#      if defined(__mips__)
#        define INFER__SETMASK 3
#      else
#        define INFER__SETMASK 2
#      endif
typedef infer__sigset infer__libc_sigset;
#    endif
extern int pthread_sigmask(int how, const infer__libc_sigset *set, infer__libc_sigset *old);
static void infer__signals_all(infer__sigset *set) {
#    if defined(__mips__)
    static const unsigned char NOT[] = { 4, 5, 8, 10, 11, 12, 32, 33, 34 };
#    else
    static const unsigned char NOT[] = { 4, 5, 7, 8, 11, 31, 32, 33, 34 }; /* faults; 32 to 34 are the C library's */
#    endif
    const unsigned long one = 1;
    const size_t width = 8 * sizeof one;
    size_t i;
    memset(set, 0, sizeof *set);
    for (i = 0; i < 64; i++) set->words[i / width] |= one << i % width;
    for (i = 0; i < sizeof NOT; i++) set->words[(NOT[i] - 1u) / width] &= ~(one << (NOT[i] - 1u) % width);
}
#  else
#    define INFER__SETMASK SIG_SETMASK
typedef sigset_t infer__sigset, infer__libc_sigset;
static void infer__signals_all(infer__sigset *set) {
    static const int NOT[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    size_t i;
    sigfillset(set);
    for (i = 0; i < INFER__COUNT(NOT); i++) sigdelset(set, NOT[i]);
}
#  endif
static int infer__signals_set(const infer__sigset *set, infer__sigset *old) {
    return pthread_sigmask(INFER__SETMASK, (const infer__libc_sigset *)(const void *)set,
                           (infer__libc_sigset *)(void *)old) == 0;
}

static void infer__signals_block(infer__signals *s) {
    infer__sigset all, old;
    infer__signals_all(&all);
    s->held = infer__signals_set(&all, &old);
    memcpy(s->old, &old, sizeof old);
}

static void infer__signals_restore(const infer__signals *s) {
    infer__sigset old;
    memcpy(&old, s->old, sizeof old);
    if (s->held) infer__signals_set(&old, NULL);
}

#else

static void infer__signals_block(infer__signals *s) { s->held = 0; }
static void infer__signals_restore(const infer__signals *s) { (void)s; }

#endif

static void infer__call_once(infer__once *o, void (*fn)(void)) {
    infer__signals signals;
    const int64_t done = (int64_t)1 << 40; /* below it: the number of callers that came while fn runs */
    if (infer__atomic_get(&o->state) >= done) return;
    if (infer__atomic_add(&o->state, 1) == 0) {
        infer__signals_block(&signals); /* a driver that is loaded may start threads */
        fn();
        infer__signals_restore(&signals);
        infer__atomic_add(&o->state, done);
    } else {
        while (infer__atomic_get(&o->state) < done) infer__yield();
    }
}

/* ---- files --------------------------------------------------------------------------------------- */

#if defined(INFER_NO_STDIO) || (!defined(INFER__POSIX) && !defined(INFER__WINDOWS))

static infer_result infer__file_open(infer__file *f, const char *path, int want_map, infer_error *err) {
    (void)want_map;
    memset(f, 0, sizeof *f);
    return infer__error(err, INFER_ERR_UNSUPPORTED, "%s: built with INFER_NO_STDIO: open from memory or callbacks",
                        path);
}
static size_t infer__file_read(infer__file *f, uint64_t offset, void *dst, size_t n) {
    (void)f; (void)offset; (void)dst; (void)n;
    return 0;
}
static void infer__file_close(infer__file *f) {
    memset(f, 0, sizeof *f);
}
static int infer__file_whole(const infer__file *f, uint64_t *size) {
    *size = f->size;
    return 1;
}

#elif defined(INFER__WINDOWS)

static const char *infer__file_why(DWORD code) {
    switch (code) {
    case ERROR_FILE_NOT_FOUND: case ERROR_PATH_NOT_FOUND: return "no such file";
    case ERROR_ACCESS_DENIED: return "permission denied";
    case ERROR_SHARING_VIOLATION: return "in use by another program";
    case ERROR_TOO_MANY_OPEN_FILES: return "too many open files";
    default: return "cannot be opened";
    }
}

static infer_result infer__file_open(infer__file *f, const char *path, int want_map, infer_error *err) {
    WCHAR wide[4096];
    HANDLE h;
    LARGE_INTEGER size;
    DWORD attributes;
    memset(f, 0, sizeof *f);
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, (int)INFER__COUNT(wide)))
        return infer__error(err, INFER_ERR_IO, "%s: the path is not UTF-8, or longer than 4095 characters", path);
    attributes = GetFileAttributesW(wide);
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
        return infer__error(err, INFER_ERR_IO, "%s: is a directory", path);
    h = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                    FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        DWORD code = GetLastError();
        return infer__error(err, INFER_ERR_IO, "%s: %s (error %lu)", path, infer__file_why(code), (unsigned long)code);
    }
    if (GetFileType(h) != FILE_TYPE_DISK || !GetFileSizeEx(h, &size)) {
        CloseHandle(h);
        return infer__error(err, INFER_ERR_IO, "%s: not a regular file", path);
    }
    f->handle = (intptr_t)h;
    f->size = (uint64_t)size.QuadPart;
#  if !defined(INFER_NO_MMAP)
    if (want_map && f->size > 0 && f->size <= SIZE_MAX) { /* on failure: read instead */
        HANDLE map = CreateFileMappingW(h, NULL, PAGE_READONLY, 0, 0, NULL);
        if (map) {
            f->map = MapViewOfFile(map, FILE_MAP_READ, 0, 0, 0);
            if (f->map) f->map_handle = (intptr_t)map;
            else CloseHandle(map);
        }
    }
#  else
    (void)want_map;
#  endif
    return INFER_OK;
}

static size_t infer__file_read(infer__file *f, uint64_t offset, void *dst, size_t n) {
    size_t done = 0;
    while (f->handle && done < n) {
        OVERLAPPED at;
        DWORD got = 0, want = n - done > ((size_t)1 << 30) ? (DWORD)1 << 30 : (DWORD)(n - done);
        memset(&at, 0, sizeof at);
        at.Offset = (DWORD)(offset + done);
        at.OffsetHigh = (DWORD)((offset + done) >> 32);
        if (!ReadFile((HANDLE)f->handle, (char *)dst + done, want, &got, &at) || got == 0) break;
        done += got;
    }
    return done;
}

static void infer__file_close(infer__file *f) {
    if (f->map) UnmapViewOfFile(f->map);
    if (f->map_handle) CloseHandle((HANDLE)f->map_handle);
    if (f->handle) CloseHandle((HANDLE)f->handle);
    memset(f, 0, sizeof *f);
}

/* The system refuses to shorten a file that is mapped. */
static int infer__file_whole(const infer__file *f, uint64_t *size) {
    *size = f->size;
    return 1;
}

#else /* POSIX */

static const char *infer__file_why(int code) {
    switch (code) {
    case ENOENT: case ENOTDIR: return "no such file";
    case EACCES: case EPERM: return "permission denied";
    case EMFILE: case ENFILE: return "too many open files";
    case ENAMETOOLONG: return "the path is too long";
    case ELOOP: return "too many symbolic links";
    case EISDIR: return "is a directory";
    default: return "cannot be opened";
    }
}

static infer_result infer__file_open(infer__file *f, const char *path, int want_map, infer_error *err) {
    struct stat st;
    int64_t size;
    int fd, flags = O_RDONLY;
    memset(f, 0, sizeof *f);
#  if defined(O_NONBLOCK)
    flags |= O_NONBLOCK; /* a FIFO without a writer must fail below, not wait here; no effect on regular files */
#  endif
#  if defined(O_CLOEXEC)
    flags |= O_CLOEXEC;
#  endif
    do fd = INFER__OPEN(path, flags); while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        int code = errno;
        return infer__error(err, INFER_ERR_IO, "%s: %s (error %d)", path, infer__file_why(code), code);
    }
#  if !defined(O_CLOEXEC) && defined(FD_CLOEXEC)
    fcntl(fd, F_SETFD, FD_CLOEXEC);
#  endif
    /* EOVERFLOW: the size does not fit 32-bit fields, which only regular files can do. */
    if (fstat(fd, &st) != 0 ? errno != EOVERFLOW : !S_ISREG(st.st_mode)) {
        int is_dir = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
        close(fd);
        return infer__error(err, INFER_ERR_IO, "%s: %s", path, is_dir ? "is a directory" : "not a regular file");
    }
    size = (int64_t)INFER__LSEEK(fd, 0, SEEK_END);
    if (size < 0) {
        close(fd);
        return infer__error(err, INFER_ERR_IO, "%s: its size cannot be found (error %d)", path, errno);
    }
    f->handle = (intptr_t)fd + 1;
    f->size = (uint64_t)size;
#  if defined(INFER__MMAP)
    f->shared = want_map == INFER__MAP_SAFE && fstat(fd, &st) == 0 && (st.st_mode & S_IWOTH);
    if (want_map && !f->shared && f->size > 0 && f->size <= SIZE_MAX / 2) { /* on failure: read instead */
        void *p = mmap(NULL, (size_t)f->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) f->map = p;
    }
#  else
    (void)want_map;
#  endif
    return INFER_OK;
}

static size_t infer__file_read(infer__file *f, uint64_t offset, void *dst, size_t n) {
    size_t done = 0;
    int fd = (int)(f->handle - 1);
    while (f->handle && done < n && offset + done <= INT64_MAX) {
        size_t want = INFER__MIN(n - done, (size_t)1 << 30); /* Linux and macOS stop at 2 GiB */
        ssize_t got = INFER__PREAD(fd, (char *)dst + done, want, (INFER__OFF)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

static void infer__file_close(infer__file *f) {
#  if defined(INFER__MMAP)
    if (f->map) munmap(f->map, (size_t)f->size);
#  endif
    if (f->handle) close((int)(f->handle - 1));
    memset(f, 0, sizeof *f);
}

static int infer__file_whole(const infer__file *f, uint64_t *size) {
    struct stat st;
    int64_t now = -1;
    *size = f->size;
    if (!f->map) return 1;
    if (fstat((int)(f->handle - 1), &st) == 0) now = (int64_t)st.st_size;
    else if (errno == EOVERFLOW) now = (int64_t)INFER__LSEEK((int)(f->handle - 1), 0, SEEK_END);
    if (now < 0 || (uint64_t)now >= f->size) return 1; /* where the system does not report it, assume the file is
                                                        * unchanged */
    *size = (uint64_t)now;
    return 0;
}
#endif

static int infer__file_lock(const infer__file *f, uint64_t from, uint64_t n) {
#if defined(INFER__WINDOWS) && !defined(INFER_NO_MMAP) && !defined(INFER_NO_STDIO)
    SIZE_T least = 0, most = 0; /* a process may lock what its working set has room for */
    if (!f->map || !GetProcessWorkingSetSize(GetCurrentProcess(), &least, &most)) return 0;
    SetProcessWorkingSetSize(GetCurrentProcess(), least + (SIZE_T)n, most + (SIZE_T)n);
    return VirtualLock((char *)f->map + from, (SIZE_T)n) != 0;
#elif defined(INFER__MMAP)
    return f->map && mlock((const char *)f->map + from, (size_t)n) == 0;
#else
    (void)f;
    (void)from;
    (void)n;
    return 0;
#endif
}

#if defined(INFER__MMAP) && (defined(__linux__) || defined(__APPLE__))
extern int madvise(void *p, size_t n, int advice); /* sys/mman.h hides it from strict C99 */
#endif
static void infer__file_release(const infer__file *f) {
    if (!f->map) return;
#if defined(INFER__WINDOWS) && !defined(INFER_NO_MMAP) && !defined(INFER_NO_STDIO)
    if (VirtualUnlock(f->map, (SIZE_T)f->size)) VirtualUnlock(f->map, (SIZE_T)f->size); /* not locked: they leave the
                                                                                         * working set */
#elif defined(INFER__MMAP)
    (void)munlock(f->map, (size_t)f->size);
#  if defined(__linux__) || defined(__APPLE__)
    (void)madvise(f->map, (size_t)f->size, 4 /* MADV_DONTNEED */);
#  else
    (void)posix_madvise(f->map, (size_t)f->size, POSIX_MADV_DONTNEED);
#  endif
#endif
}

/* ---- threads ------------------------------------------------------------------------------------- */

#if !defined(INFER__THREADS)

struct infer__mutex { int unused; };
struct infer__cond { int unused; };
struct infer__thread { int unused; };
static int infer__mutex_init(infer__mutex *m) { m->unused = 0; return 1; }
static void infer__mutex_destroy(infer__mutex *m) { (void)m; }
static void infer__mutex_lock(infer__mutex *m) { (void)m; }
static void infer__mutex_unlock(infer__mutex *m) { (void)m; }
static int infer__cond_init(infer__cond *c) { c->unused = 0; return 1; }
static void infer__cond_destroy(infer__cond *c) { (void)c; }
static void infer__cond_wait(infer__cond *c, infer__mutex *m) { (void)c; (void)m; }
static void infer__cond_broadcast(infer__cond *c) { (void)c; }
static int infer__thread_start(infer__thread *t, infer__thread_fn fn, void *arg) {
    (void)t; (void)fn; (void)arg;
    return 0;
}
static void infer__thread_join(infer__thread *t) { (void)t; }
static uint64_t infer__thread_self(void) { return 1; }

#elif defined(INFER__WINDOWS)

struct infer__mutex { SRWLOCK lock; };
struct infer__cond { CONDITION_VARIABLE cond; };
struct infer__thread { HANDLE handle; infer__thread_fn fn; void *arg; };
static int infer__mutex_init(infer__mutex *m) { InitializeSRWLock(&m->lock); return 1; }
static void infer__mutex_destroy(infer__mutex *m) { (void)m; }
static void infer__mutex_lock(infer__mutex *m) { AcquireSRWLockExclusive(&m->lock); }
static void infer__mutex_unlock(infer__mutex *m) { ReleaseSRWLockExclusive(&m->lock); }
static int infer__cond_init(infer__cond *c) { InitializeConditionVariable(&c->cond); return 1; }
static void infer__cond_destroy(infer__cond *c) { (void)c; }
static void infer__cond_wait(infer__cond *c, infer__mutex *m) {
    SleepConditionVariableSRW(&c->cond, &m->lock, INFINITE, 0);
}
static void infer__cond_broadcast(infer__cond *c) { WakeAllConditionVariable(&c->cond); }
static DWORD WINAPI infer__thread_main(LPVOID p) {
    infer__thread *t = (infer__thread *)p;
    t->fn(t->arg);
    return 0;
}
static int infer__thread_start(infer__thread *t, infer__thread_fn fn, void *arg) {
    t->fn = fn;
    t->arg = arg;
    t->handle = CreateThread(NULL, (SIZE_T)1 << 20, infer__thread_main, t, 0, NULL);
    return t->handle != NULL;
}
static void infer__thread_join(infer__thread *t) {
    WaitForSingleObject(t->handle, INFINITE);
    CloseHandle(t->handle);
}
static uint64_t infer__thread_self(void) { return GetCurrentThreadId(); }

#else /* pthreads */

struct infer__mutex { pthread_mutex_t lock; };
struct infer__cond { pthread_cond_t cond; };
struct infer__thread { pthread_t handle; infer__thread_fn fn; void *arg; };
static int infer__mutex_init(infer__mutex *m) { return pthread_mutex_init(&m->lock, NULL) == 0; }
static void infer__mutex_destroy(infer__mutex *m) { pthread_mutex_destroy(&m->lock); }
static void infer__mutex_lock(infer__mutex *m) { pthread_mutex_lock(&m->lock); }
static void infer__mutex_unlock(infer__mutex *m) { pthread_mutex_unlock(&m->lock); }
static int infer__cond_init(infer__cond *c) { return pthread_cond_init(&c->cond, NULL) == 0; }
static void infer__cond_destroy(infer__cond *c) { pthread_cond_destroy(&c->cond); }
static void infer__cond_wait(infer__cond *c, infer__mutex *m) { pthread_cond_wait(&c->cond, &m->lock); }
static void infer__cond_broadcast(infer__cond *c) { pthread_cond_broadcast(&c->cond); }
static void *infer__thread_main(void *p) {
    infer__thread *t = (infer__thread *)p;
    t->fn(t->arg);
    return NULL;
}

static int infer__thread_start(infer__thread *t, infer__thread_fn fn, void *arg) {
    pthread_attr_t attr;
    infer__signals signals;
    int ok;
    t->fn = fn;
    t->arg = arg;
    if (pthread_attr_init(&attr) != 0) return 0;
    pthread_attr_setstacksize(&attr, (size_t)1 << 20); /* musl's default is 128 KiB, glibc's 8 MiB; refused = default */
    infer__signals_block(&signals);
    ok = signals.held && pthread_create(&t->handle, &attr, infer__thread_main, t) == 0;
    infer__signals_restore(&signals);
    pthread_attr_destroy(&attr);
    return ok;
}
static void infer__thread_join(infer__thread *t) { pthread_join(t->handle, NULL); }
static uint64_t infer__thread_self(void) { /* pthread_t is a pointer, a number or a struct */
    const pthread_t self = pthread_self();
    uint64_t n = 0;
    memcpy(&n, &self, INFER__MIN(sizeof n, sizeof self));
    return n ? n : 1;
}

#endif

static int infer__processor_there(int32_t processor) {
#if defined(INFER__WINDOWS) && defined(INFER__THREADS)
    DWORD_PTR own = 0, all = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all)) return -1;
    return processor >= 0 && processor < (int32_t)(8 * sizeof own) && (own >> processor & 1);
#elif defined(__linux__) && defined(INFER__THREADS)
    unsigned long set[INFER__CPU_SET];
    memset(set, 0, sizeof set);
    if (sched_getaffinity(0, sizeof set, (void *)set) < 0) return -1;
    return processor >= 0 && (uint64_t)processor < (uint64_t)INFER__CPU_SET * INFER__CPU_BITS &&
           (set[(uint32_t)processor / INFER__CPU_BITS] >> (uint32_t)processor % INFER__CPU_BITS & 1);
#else
    (void)processor;
    return -1;
#endif
}

static void infer__thread_place(int32_t processor, int low) {
#if defined(INFER__WINDOWS) && defined(INFER__THREADS)
    if (processor >= 0) SetThreadAffinityMask(GetCurrentThread(), (DWORD_PTR)1 << processor);
    if (low) SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL);
#elif defined(__linux__) && defined(INFER__THREADS)
    unsigned long set[INFER__CPU_SET];
    memset(set, 0, sizeof set);
    if (processor >= 0) {
        set[(uint32_t)processor / INFER__CPU_BITS] |= 1ul << (uint32_t)processor % INFER__CPU_BITS;
        (void)sched_setaffinity(0, sizeof set, (const void *)set);
    }
    if (low) (void)setpriority(PRIO_PROCESS, 0, 10); /* of a thread, on Linux */
#elif defined(__APPLE__) && defined(INFER__THREADS)
    (void)processor;
    if (low) (void)pthread_set_qos_class_self_np(0x11, 0); /* QOS_CLASS_UTILITY */
#else
    (void)processor;
    (void)low;
#endif
}

#if INFER__HUGE_PAGES
extern int madvise(void *p, size_t n, int advice);
static void infer__os_huge_pages(void *p, size_t n) { (void)madvise(p, n, 14 /* MADV_HUGEPAGE */); }
#endif

/* ---- dynamic libraries --------------------------------------------------------------------------- */

#if defined(INFER__DLOPEN)
static void *infer__lib_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
static void *infer__lib_symbol(void *lib, const char *name) { return dlsym(lib, name); }
static void infer__lib_close(void *lib) { if (lib) dlclose(lib); }
#elif defined(INFER__WINDOWS) && !defined(INFER_NO_RUNTIME_LINKING)
static void *infer__lib_open(const char *name) { return (void *)LoadLibraryA(name); }
static void *infer__lib_symbol(void *lib, const char *name) {
    FARPROC fn = GetProcAddress((HMODULE)lib, name);
    void *p = NULL;
    memcpy(&p, &fn, sizeof p); /* ISO C has no cast between the two kinds of pointer */
    return p;
}
static void infer__lib_close(void *lib) { if (lib) FreeLibrary((HMODULE)lib); }
#else
static void *infer__lib_open(const char *name) { (void)name; return NULL; }
static void *infer__lib_symbol(void *lib, const char *name) { (void)lib; (void)name; return NULL; }
static void infer__lib_close(void *lib) { (void)lib; }
#endif

#undef INFER__OPEN
#undef INFER__LSEEK
#undef INFER__PREAD
#undef INFER__OFF
#undef INFER__CLOCK
#undef INFER__SETMASK
