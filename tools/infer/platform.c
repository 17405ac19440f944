/* platform.c: with terminal.c, the only file of the program with calls of the operating system: clock, CPU time, memory, threads,
 * terminals, and on Windows UTF-8 arguments and paths. */
#if !defined(_WIN32) && !defined(_DEFAULT_SOURCE)
#  define _DEFAULT_SOURCE 1
#endif
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#  define _POSIX_C_SOURCE 200809L
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#  define _DARWIN_C_SOURCE 1
#endif
#if !defined(_WIN32) && !defined(_FILE_OFFSET_BITS)
#  define _FILE_OFFSET_BITS 64 /* files of more than 2 GB on systems of 32 bits */
#endif
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#  define WIN32_LEAN_AND_MEAN
#  ifndef NOMINMAX
#    define NOMINMAX
#  endif
#  ifndef PSAPI_VERSION
#    define PSAPI_VERSION 2
#  endif
#  include <windows.h>
#  include <fcntl.h>
#  include <io.h>
#  include <process.h>
#  include <psapi.h>
#  include <shellapi.h>

static char *to_utf8(const wchar_t *s) {
    int n = WideCharToMultiByte(CP_UTF8, 0, s, -1, NULL, 0, NULL, NULL);
    char *out = n > 0 ? malloc((size_t)n) : NULL;
    if (out) WideCharToMultiByte(CP_UTF8, 0, s, -1, out, n, NULL, NULL);
    return out;
}

static wchar_t *to_wide(const char *s) {
    int n = MultiByteToWideChar(CP_UTF8, 0, s, -1, NULL, 0);
    wchar_t *out = n > 0 ? malloc((size_t)n * sizeof *out) : NULL;
    if (out) MultiByteToWideChar(CP_UTF8, 0, s, -1, out, n);
    return out;
}

/* The new argument list is never freed: it is used until the process ends. */
void platform_init(int *argc, char ***argv) {
    int n = 0, i;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **list = wide ? calloc((size_t)n + 1, sizeof *list) : NULL;
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
    if (list == NULL) return;
    for (i = 0; i < n; i++) {
        list[i] = to_utf8(wide[i]);
        if (list[i] == NULL) return;
    }
    *argc = n;
    *argv = list;
}

FILE *platform_fopen(const char *path, const char *mode) {
    wchar_t *wide = to_wide(path), *wide_mode = to_wide(mode);
    FILE *file = wide && wide_mode ? _wfopen(wide, wide_mode) : NULL;
    free(wide);
    free(wide_mode);
    return file;
}

void platform_remove(const char *path) {
    wchar_t *wide = to_wide(path);
    if (wide) _wremove(wide);
    free(wide);
}

int platform_rename(const char *from, const char *to) {
    wchar_t *a = to_wide(from), *b = to_wide(to);
    int ok = a && b && MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING);
    free(a);
    free(b);
    return ok;
}

long platform_read(FILE *file, void *to, size_t n) { return _read(_fileno(file), to, (unsigned)n); }

int platform_cut(const char *path, uint64_t size) {
    FILE *file = platform_fopen(path, "r+b");
    int ok = file != NULL && _chsize_s(_fileno(file), (long long)size) == 0;
    if (file != NULL && fclose(file) != 0) ok = 0;
    return ok;
}

int platform_seek(FILE *file, uint64_t at) { return at <= INT64_MAX && _fseeki64(file, (int64_t)at, SEEK_SET) == 0; }

int platform_size(FILE *file, uint64_t *size) {
    const int64_t n = _fseeki64(file, 0, SEEK_END) == 0 ? _ftelli64(file) : -1;
    *size = n < 0 ? 0 : (uint64_t)n;
    return n >= 0 && _fseeki64(file, 0, SEEK_SET) == 0;
}

int platform_path_kind(const char *path) {
    wchar_t *wide = to_wide(path);
    DWORD bits = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    if (bits == INVALID_FILE_ATTRIBUTES) return PLATFORM_ABSENT;
    if (bits & FILE_ATTRIBUTE_DIRECTORY) return PLATFORM_FOLDER;
    return bits & FILE_ATTRIBUTE_DEVICE ? PLATFORM_OTHER : PLATFORM_FILE;
}

int platform_cache_folder(char *out, size_t cap) {
    wchar_t base[MAX_PATH], *wide;
    DWORD n = GetEnvironmentVariableW(L"LOCALAPPDATA", base, MAX_PATH);
    char *text = n > 0 && n < MAX_PATH ? to_utf8(base) : NULL;
    int ok = text && (size_t)snprintf(out, cap, "%s\\infer", text) < cap;
    wide = ok ? to_wide(out) : NULL;
    ok = wide && (CreateDirectoryW(wide, NULL) || GetLastError() == ERROR_ALREADY_EXISTS);
    free(wide);
    free(text);
    return ok;
}

long platform_process(void) { return (long)GetCurrentProcessId(); }

int platform_same_file(const char *a, const char *b) {
    const char *paths[2];
    BY_HANDLE_FILE_INFORMATION info[2];
    int i;
    paths[0] = a;
    paths[1] = b;
    for (i = 0; i < 2; i++) {
        wchar_t *wide = to_wide(paths[i]);
        HANDLE h = wide ? CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                      OPEN_EXISTING, 0, NULL)
                        : INVALID_HANDLE_VALUE;
        int ok = h != INVALID_HANDLE_VALUE && GetFileInformationByHandle(h, &info[i]);
        if (h != INVALID_HANDLE_VALUE) CloseHandle(h);
        free(wide);
        if (!ok) return 0;
    }
    return info[0].dwVolumeSerialNumber == info[1].dwVolumeSerialNumber &&
           info[0].nFileIndexHigh == info[1].nFileIndexHigh && info[0].nFileIndexLow == info[1].nFileIndexLow;
}

int platform_is_terminal(FILE *file) { return _isatty(_fileno(file)); }

int platform_escapes(FILE *file) {
    HANDLE h = (HANDLE)_get_osfhandle(_fileno(file));
    DWORD mode;
    return _isatty(_fileno(file)) && GetConsoleMode(h, &mode) &&
           SetConsoleMode(h, mode | 4 /* ENABLE_VIRTUAL_TERMINAL_PROCESSING */);
}

int platform_same_stream(FILE *a, FILE *b) { return _isatty(_fileno(a)) && _isatty(_fileno(b)); }

int platform_list(const char *folder, int (*each)(void *user, const char *name, int is_folder, uint64_t bytes), void *user) {
    char pattern[PLATFORM_PATH];
    WIN32_FIND_DATAW found;
    HANDLE h;
    wchar_t *wide;
    int go_on = 1;
    if ((size_t)snprintf(pattern, sizeof pattern, "%s\\*", folder) >= sizeof pattern) return 0;
    wide = to_wide(pattern);
    h = wide ? FindFirstFileW(wide, &found) : INVALID_HANDLE_VALUE;
    free(wide);
    if (h == INVALID_HANDLE_VALUE) return 0;
    do {
        char *name = to_utf8(found.cFileName);
        if (name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            go_on = each(user, name, (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0,
                         (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow);
        free(name);
    } while (go_on && FindNextFileW(h, &found));
    FindClose(h);
    return 1;
}

static void (*on_interrupt)(void);
static BOOL WINAPI console_event(DWORD event) {
    if (event != CTRL_C_EVENT) return FALSE;
    on_interrupt();
    return TRUE;
}
void platform_on_interrupt(void (*f)(void)) {
    on_interrupt = f;
    SetConsoleCtrlHandler(console_event, TRUE);
}

int platform_cores(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
}

double platform_clock(void) {
    LARGE_INTEGER now, rate;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&rate);
    return (double)now.QuadPart / (double)rate.QuadPart;
}

static double file_time(FILETIME t) { return (double)(((uint64_t)t.dwHighDateTime << 32) | t.dwLowDateTime) * 1e-7; }

double platform_cpu_seconds(void) {
    FILETIME made, ended, kernel, user;
    if (!GetProcessTimes(GetCurrentProcess(), &made, &ended, &kernel, &user)) return 0;
    return file_time(kernel) + file_time(user);
}

uint64_t platform_peak_rss(void) {
    PROCESS_MEMORY_COUNTERS counters;
    if (!GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters)) return 0;
    return counters.PeakWorkingSetSize;
}

typedef HANDLE os_thread;
#  define OS_THREAD_RESULT unsigned __stdcall
#  define OS_THREAD_RETURN 0
#  define os_thread_start(t, f, arg) ((*(t) = (HANDLE)_beginthreadex(NULL, 0, f, arg, 0, NULL)) != NULL)
#  define os_thread_join(t) (WaitForSingleObject(t, INFINITE), CloseHandle(t))

#else

#  include <dirent.h>
#  include <errno.h>
#  include <pthread.h>
#  include <signal.h>
#  include <sys/resource.h>
#  include <sys/stat.h>
#  include <sys/time.h>
#  include <time.h>
#  include <unistd.h>

void platform_init(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
}

FILE *platform_fopen(const char *path, const char *mode) { return fopen(path, mode); }

void platform_remove(const char *path) { remove(path); }

int platform_rename(const char *from, const char *to) { return rename(from, to) == 0; }

long platform_read(FILE *file, void *to, size_t n) {
    ssize_t got;
    do {
        got = read(fileno(file), to, n);
    } while (got < 0 && errno == EINTR);
    return (long)got;
}

int platform_cut(const char *path, uint64_t size) { return truncate(path, (off_t)size) == 0; }

int platform_seek(FILE *file, uint64_t at) {
    const off_t offset = (off_t)at;
    return offset >= 0 && (uint64_t)offset == at && fseeko(file, offset, SEEK_SET) == 0;
}

int platform_size(FILE *file, uint64_t *size) {
    const off_t n = fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;
    *size = n < 0 ? 0 : (uint64_t)n;
    return n >= 0 && fseeko(file, 0, SEEK_SET) == 0;
}

int platform_path_kind(const char *path) {
    struct stat s;
    if (stat(path, &s) != 0) return PLATFORM_ABSENT;
    return S_ISREG(s.st_mode) ? PLATFORM_FILE : S_ISDIR(s.st_mode) ? PLATFORM_FOLDER : PLATFORM_OTHER;
}

static int folder_made(const char *path) { return mkdir(path, 0700) == 0 || errno == EEXIST; }

int platform_cache_folder(char *out, size_t cap) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
#  ifdef __APPLE__
    const char *under = "Library/Caches";
#  else
    const char *under = ".cache";
#  endif
    int n;
    /* relative ones must be ignored (XDG base directories) */
    if (base && *base == '/') n = snprintf(out, cap, "%s", base);
    else if (home && *home) n = snprintf(out, cap, "%s/%s", home, under);
    else return 0;
    if (n < 0 || (size_t)n + sizeof "/infer" > cap || !folder_made(out)) return 0;
    memcpy(out + n, "/infer", sizeof "/infer");
    return folder_made(out);
}

long platform_process(void) { return (long)getpid(); }

int platform_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int platform_is_terminal(FILE *file) { return isatty(fileno(file)); }

int platform_escapes(FILE *file) {
    const char *term = getenv("TERM");
    return isatty(fileno(file)) && term && strcmp(term, "dumb") != 0;
}

int platform_same_stream(FILE *a, FILE *b) {
    struct stat x, y;
    return fstat(fileno(a), &x) == 0 && fstat(fileno(b), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int platform_list(const char *folder, int (*each)(void *user, const char *name, int is_folder, uint64_t bytes), void *user) {
    DIR *dir = opendir(folder);
    struct dirent *entry;
    if (dir == NULL) return 0;
    while ((entry = readdir(dir)) != NULL) {
        char path[PLATFORM_PATH];
        struct stat s;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= sizeof path || stat(path, &s) != 0) continue;
        if (!each(user, entry->d_name, S_ISDIR(s.st_mode), (uint64_t)s.st_size)) break;
    }
    closedir(dir);
    return 1;
}

static void (*on_interrupt)(void);
static void interrupt_signal(int number) {
    (void)number;
    on_interrupt();
}
void platform_on_interrupt(void (*f)(void)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    on_interrupt = f;
    action.sa_handler = interrupt_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, NULL);
}

int platform_cores(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

double platform_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double platform_cpu_seconds(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

uint64_t platform_peak_rss(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#  ifdef __APPLE__
    return (uint64_t)usage.ru_maxrss;
#  else
    return (uint64_t)usage.ru_maxrss * 1024;
#  endif
}

/* Linux reports available memory (MemAvailable); elsewhere it is unknown. */
typedef pthread_t os_thread;
#  define OS_THREAD_RESULT void *
#  define OS_THREAD_RETURN NULL
#  define os_thread_start(t, f, arg) (pthread_create(t, NULL, f, arg) == 0)
#  define os_thread_join(t) pthread_join(t, NULL)

#endif

int platform_styles(FILE *file) {
    const char *none = getenv("NO_COLOR"); /* no-color.org: set and not empty */
    return platform_escapes(file) && !(none && *none);
}

/* ---- threads -------------------------------------------------------------------------------- */

typedef struct thread_job {
    void (*f)(void *arg, int i);
    void *arg;
    int i;
} thread_job;

static OS_THREAD_RESULT thread_main(void *p) {
    thread_job *job = p;
    job->f(job->arg, job->i);
    return OS_THREAD_RETURN;
}

int platform_run_threads(int n, void (*f)(void *arg, int i), void *arg) {
    enum { MAX = 64 };
    os_thread threads[MAX];
    thread_job jobs[MAX];
    int i, started = 0, ok = n <= MAX;
    for (i = 0; ok && i < n; i++) {
        jobs[i].f = f;
        jobs[i].arg = arg;
        jobs[i].i = i;
        ok = os_thread_start(&threads[i], thread_main, &jobs[i]);
        started += ok;
    }
    for (i = 0; i < started; i++) os_thread_join(threads[i]);
    return ok;
}

#ifdef __linux__

/* /proc/self/task/ID/schedstat: nanoseconds on a core, nanoseconds waiting for one, time slices. */
int platform_threads(platform_thread *out, int cap) {
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;
    if (dir == NULL) return 0;
    while (n < cap && (entry = readdir(dir)) != NULL) {
        char path[300];
        FILE *file;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL) continue;
        out[n].id = atol(entry->d_name);
        if (fscanf(file, "%lf %lf", &out[n].ran, &out[n].waited) == 2) {
            out[n].ran *= 1e-9;
            out[n].waited *= 1e-9;
            n++;
        }
        fclose(file);
    }
    closedir(dir);
    return n;
}
#else
int platform_threads(platform_thread *out, int cap) {
    (void)out;
    (void)cap;
    return 0;
}
#endif
