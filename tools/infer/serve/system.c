/* system.c: the calls of the operating system that long runs need: signals, files below a folder, waiting with a limit. */
#include "serve.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#ifdef _WIN32
#  define WIN32_LEAN_AND_MEAN
#  include <windows.h>
#else
#  include <fcntl.h>
#  include <poll.h>
#  include <sys/stat.h>
#  include <unistd.h>
#endif

static volatile sig_atomic_t came;

#ifdef _WIN32

static BOOL WINAPI console_event(DWORD event) {
    (void)event;
    came++;
    return TRUE;
}
int system_signals(void) { return SetConsoleCtrlHandler(console_event, TRUE) != 0; }
int system_wait(int ms) {
    for (; ms > 0 && !came; ms -= 50) Sleep(50);
    return came;
}
unsigned char *system_read_below(const char *folder, const char *path, size_t most, size_t *n, char *why, size_t cap) {
    (void)folder;
    (void)path;
    (void)most;
    *n = 0;
    snprintf(why, cap, "files (--media-path) are not read on Windows");
    return NULL;
}

#else

static int ends[2] = {-1, -1}; /* of a pipe that signals wake the program by */

static void signalled(int number) {
    const int kept = errno;
    const char byte = (char)number;
    came++;
    if (write(ends[1], &byte, 1) < 0) {} /* it is full: there is enough to wake up */
    errno = kept;
}

int system_signals(void) {
    struct sigaction action;
    if (pipe(ends) != 0) return 0;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    memset(&action, 0, sizeof action);
    action.sa_flags = SA_RESTART;
    action.sa_handler = signalled;
    if (sigaction(SIGINT, &action, NULL) != 0 || sigaction(SIGTERM, &action, NULL) != 0) return 0;
    action.sa_handler = SIG_IGN; /* writes to a client that has gone fail by themselves */
    return sigaction(SIGPIPE, &action, NULL) == 0;
}

int system_wait(int ms) {
    struct pollfd p;
    char bytes[64];
    p.fd = ends[0];
    p.events = POLLIN;
    if (poll(&p, 1, ms) > 0 && read(ends[0], bytes, sizeof bytes) < 0) {}
    return came;
}

/* Opens a path from the folder, one name after the other, none of them a link or "..". -1 = there is no such file. */
static int open_below(int folder, const char *path) {
    char name[256];
    int at = folder, next;
    while (at >= 0) {
        const size_t n = strcspn(path, "/");
        const int last = path[n] == 0;
        if (n == 0 && !last) { /* // is / */
            path++;
            continue;
        }
        if (n == 0 || n >= sizeof name || (n == 2 && memcmp(path, "..", 2) == 0)) break;
        memcpy(name, path, n);
        name[n] = 0;
        next = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
        if (at != folder) close(at);
        if (last) return next;
        at = next;
        path += n + 1;
    }
    if (at >= 0 && at != folder) close(at);
    return -1;
}

unsigned char *system_read_below(const char *folder, const char *path, size_t most, size_t *n, char *why, size_t cap) {
    size_t length = strlen(folder);
    const int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned char *data = NULL;
    struct stat about;
    ssize_t got = 1;
    int fd = -1;
    *n = 0;
    while (length > 1 && folder[length - 1] == '/') length--;
    if (strncmp(path, folder, length) == 0 && path[length] == '/') path += length;
    if (top >= 0) fd = open_below(top, path);
    if (top >= 0) close(top);
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) snprintf(why, cap, "there is no such file below --media-path (links are not followed)");
    else if (about.st_size < 0 || (unsigned long long)about.st_size > most) snprintf(why, cap, "the file is larger than %llu bytes (--max-body)", (unsigned long long)most);
    else if ((data = malloc((size_t)about.st_size + 1)) == NULL) snprintf(why, cap, "out of memory");
    while (data && got > 0 && *n < (size_t)about.st_size) {
        got = read(fd, data + *n, (size_t)about.st_size - *n);
        if (got > 0) *n += (size_t)got;
    }
    if (fd >= 0) close(fd);
    if (data == NULL || *n == (size_t)about.st_size) return data;
    snprintf(why, cap, "the file cannot be read");
    free(data);
    return NULL;
}

#endif

int system_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int ms) {
    struct timeval now;
    struct timespec until;
    gettimeofday(&now, NULL);
    until.tv_sec = now.tv_sec + ms / 1000;
    until.tv_nsec = (long)now.tv_usec * 1000 + (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_cond_timedwait(condition, lock, &until) == 0;
}
