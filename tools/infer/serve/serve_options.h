/* serve_options.h: the options of `infer serve`, and what serve.c calls with them. */
#ifndef SERVE_OPTIONS_H
#define SERVE_OPTIONS_H

#include "../cli.h"

typedef struct serve_options {
    const char *model, *folder;  /* one of them */
    cli_list aliases, keys;      /* NAME or NAME=ID; API keys */
    const char *host, *cors, *cert, *key_file, *template_path, *media_path;
    int64_t port, slots, waiting, cells, max_tokens, max_body, max_pixels, max_sound, connections, timeout, seconds, grace;
    int no_auth, no_projector, chatml, lookup, log_prompts;
    char *template_text;         /* of template_path */
    cli_common *common;
} serve_options;

int serve_is_loopback(const char *host);
/* Runs the server until a signal ends it. Returns the exit status. */
int serve_run(const serve_options *options);

#endif
