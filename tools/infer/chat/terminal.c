/* terminal.c: keys and size of the terminal, the second file with calls of the operating system. */
#if !defined(_WIN32) && !defined(_DEFAULT_SOURCE)
#  define _DEFAULT_SOURCE 1
#endif
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#  define _POSIX_C_SOURCE 200809L
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#  define _DARWIN_C_SOURCE 1
#endif
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#  define WIN32_LEAN_AND_MEAN
#  ifndef NOMINMAX
#    define NOMINMAX
#  endif
#  include <windows.h>

static DWORD usual_mode;
static int mode_known, columns_seen, rows_seen;

int terminal_mode(int mode) {
    HANDLE in = GetStdHandle(STD_INPUT_HANDLE);
    if (!mode_known && !GetConsoleMode(in, &usual_mode)) return 0;
    mode_known = 1;
    if (mode == TERMINAL_USUAL) return SetConsoleMode(in, usual_mode) != 0;
    return SetConsoleMode(in, ENABLE_VIRTUAL_TERMINAL_INPUT | (mode == TERMINAL_REPLY ? ENABLE_PROCESSED_INPUT : 0)) != 0;
}

void terminal_size(int *columns, int *rows) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    int ok = GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &info) != 0;
    *columns = ok ? info.srWindow.Right - info.srWindow.Left + 1 : 80;
    *rows = ok ? info.srWindow.Bottom - info.srWindow.Top + 1 : 24;
}

/* The console delivers UTF-16 units; their UTF-8 bytes are buffered here. */
static unsigned char waiting[8];
static int n_waiting;

int terminal_read(int milliseconds) {
    HANDLE in = GetStdHandle(STD_INPUT_HANDLE);
    wchar_t units[2];
    DWORD n;
    int columns, rows, c, k = 1;
    if (n_waiting == 0) {
        if (WaitForSingleObject(in, milliseconds < 0 ? 250 : (DWORD)milliseconds) == WAIT_TIMEOUT) {
            terminal_size(&columns, &rows);
            if (columns != columns_seen || rows != rows_seen) {
                columns_seen = columns;
                rows_seen = rows;
                return TERMINAL_RESIZED;
            }
            return milliseconds < 0 ? TERMINAL_RESIZED : TERMINAL_NOTHING;
        }
        if (!ReadConsoleW(in, units, 1, &n, NULL) || n == 0) return TERMINAL_END;
        if (units[0] >= 0xd800 && units[0] < 0xdc00 && ReadConsoleW(in, units + 1, 1, &n, NULL) && n) k = 2;
        n_waiting = WideCharToMultiByte(CP_UTF8, 0, units, k, (char *)waiting, sizeof waiting, NULL, NULL);
        if (n_waiting <= 0) return TERMINAL_NOTHING;
    }
    c = waiting[0];
    memmove(waiting, waiting + 1, (size_t)--n_waiting);
    return c;
}

#else

#  include <errno.h>
#  include <poll.h>
#  include <signal.h>
#  include <sys/ioctl.h>
#  include <termios.h>
#  include <unistd.h>

static struct termios usual;
static int usual_known;
static volatile sig_atomic_t resized, editing;

static void on_resize(int number) {
    (void)number;
    resized = 1;
}

static void restore(void) {
    if (usual_known) tcsetattr(0, TCSANOW, &usual);
}

/* Signals that end the program, and what they did before: a driver's handlers too. */
static const int ENDS[] = {SIGTERM, SIGHUP};
enum { N_ENDS = (int)(sizeof ENDS / sizeof ENDS[0]) };
static struct sigaction before[N_ENDS];

/* Restores the terminal, then ends the program as the signal would have. */
static void on_end(int number) {
    static const char MARKS_OFF[] = "\x1b[0m\x1b[?2004l\r\n"; /* see edit_in_terminal */
    const int error = errno;
    int i;
    restore();
    if (editing && write(1, MARKS_OFF, sizeof MARKS_OFF - 1) < 0) errno = error;
    for (i = 0; i < N_ENDS; i++) {
        if (ENDS[i] == number) sigaction(number, &before[i], NULL);
    }
    raise(number); /* comes when this returns */
}

static void catch_ends(void) {
    struct sigaction action;
    int i;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_end;
    sigaddset(&action.sa_mask, SIGTTOU); /* so that tcsetattr works in the background too */
    for (i = 0; i < N_ENDS; i++) {
        if (sigaction(ENDS[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN) sigaction(ENDS[i], &action, NULL);
    }
}

int terminal_mode(int mode) {
    struct termios t;
    struct sigaction action;
    if (!usual_known) {
        if (tcgetattr(0, &usual) != 0) return 0;
        usual_known = 1;
        atexit(restore);
        memset(&action, 0, sizeof action);
        action.sa_handler = on_resize; /* without SA_RESTART: it ends poll */
        sigaction(SIGWINCH, &action, NULL);
        catch_ends();
    }
    t = usual;
    editing = mode == TERMINAL_EDIT;
    if (mode != TERMINAL_USUAL) {
        t.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN);
        t.c_cc[VMIN] = 1;
        t.c_cc[VTIME] = 0;
    }
    if (mode == TERMINAL_EDIT) {
        t.c_lflag &= ~(tcflag_t)ISIG;
        t.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IXON | ISTRIP);
    }
    return tcsetattr(0, TCSADRAIN, &t) == 0;
}

void terminal_size(int *columns, int *rows) {
    struct winsize size;
    int ok = ioctl(1, TIOCGWINSZ, &size) == 0 || ioctl(0, TIOCGWINSZ, &size) == 0;
    *columns = ok && size.ws_col > 0 ? size.ws_col : 80;
    *rows = ok && size.ws_row > 0 ? size.ws_row : 24;
}

int terminal_read(int milliseconds) {
    struct pollfd p;
    unsigned char c;
    int n;
    p.fd = 0;
    p.events = POLLIN;
    for (;;) {
        if (resized) {
            resized = 0;
            return TERMINAL_RESIZED;
        }
        n = poll(&p, 1, milliseconds);
        if (n == 0) return TERMINAL_NOTHING;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return TERMINAL_END;
        n = (int)read(0, &c, 1);
        if (n == 1) return c;
        if (n == 0 || errno != EINTR) return TERMINAL_END;
    }
}

#endif
