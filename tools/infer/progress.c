/* progress.c: a progress bar on stderr for long operations, on terminals only. */
#include "cli.h"

#include <string.h>

void cli_progress_begin(cli_progress *p, const char *what) {
    p->what = platform_is_terminal(stderr) ? what : NULL;
    p->started = platform_clock();
    p->shown = -1;
}

int cli_progress_show(void *user, float done) {
    enum { WIDTH = 30 };
    cli_progress *p = (cli_progress *)user;
    int i, percent = done >= 1 ? 100 : done > 0 ? (int)(done * 100) : 0;
    char bar[WIDTH + 1];
    /* short operations show no bar */
    if (p->what == NULL || percent == p->shown || platform_clock() - p->started < 0.5) return 0;
    p->shown = percent;
    for (i = 0; i < WIDTH; i++) bar[i] = i * 100 < percent * WIDTH ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "\r%s [%s] %3d %%", p->what, bar, percent);
    fflush(stderr);
    return 0;
}

void cli_progress_end(cli_progress *p) {
    if (p->what && p->shown >= 0) fprintf(stderr, "\r%*s\r", (int)strlen(p->what) + 40, "");
    if (p->what) fflush(stderr);
    p->what = NULL;
}
