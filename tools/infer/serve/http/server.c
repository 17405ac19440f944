/* server.c: start, run until a signal comes, stop. */
#include "../serve.h"

#include <string.h>

static int active(server *s) {
    int n;
    pthread_mutex_lock(&s->lock);
    n = s->active;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Running replies may end until the deadline, or until another signal; then they are ended. */
static void stop(server *s) {
    const double deadline = platform_clock() + (double)s->options->grace;
    int signals = system_wait(0);
    pthread_mutex_lock(&s->lock);
    s->stopping = 1;
    pthread_mutex_unlock(&s->lock);
    http_quiesce(s);
    while (active(s) && platform_clock() < deadline && system_wait(20) <= signals) {}
    s->abort = 1;
    http_stop(s);
}

static int run(server *s) {
    const serve_options *o = s->options;
    const char *brackets = strchr(o->host, ':') ? "[" : "";
    if (!http_start(s)) return CLI_FAILED;
    fprintf(stderr, "infer serve: listening on %s://%s%s%s:%d\n", o->cert ? "https" : "http", brackets, o->host, *brackets ? "]" : "", http_port(s));
    while (system_wait(1000) == 0) http_look(s);
    stop(s);
    return CLI_DONE;
}

int serve_run(const serve_options *options) {
    static server s;
    int status = CLI_FAILED;
    s.options = options;
    s.started = platform_clock();
    pthread_mutex_init(&s.lock, NULL);
    pthread_mutex_init(&s.models_lock, NULL);
    pthread_cond_init(&s.models_changed, NULL);
    pthread_cond_init(&s.media_changed, NULL);
    if (!system_signals()) cli_fail("serve", "signals cannot be handled");
    else if (models_open(&s)) status = run(&s);
    http_stop(&s);
    models_close(&s);
    pthread_cond_destroy(&s.models_changed);
    pthread_cond_destroy(&s.media_changed);
    pthread_mutex_destroy(&s.models_lock);
    pthread_mutex_destroy(&s.lock);
    return status;
}
