/* serve_options.h: the options of `infer serve`, those that `infer map` has too, and what serve.c calls with them. */
#ifndef SERVE_OPTIONS_H
#define SERVE_OPTIONS_H

#include "../cli.h"

typedef struct serve_options {
    const char *model, *folder;  /* one of them */
    cli_list aliases, keys;      /* NAME or NAME=ID; API keys */
    const char *host, *cors, *cert, *key_file, *template_path, *media_path;
    int64_t port, slots, waiting, cells, max_tokens, max_body, connections, timeout, seconds, grace;
    int64_t max_pixels, max_sound; /* 0 = the library's limits */
    int no_auth, no_projector, chatml, lookup, log_prompts;
    char *template_text;         /* of template_path */
    cli_common *common;
} serve_options;

/* Of both commands. */
enum { SERVE_SLOTS = 16, SERVE_GRACE = 10 };
#define SERVE_TAKES (TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_SEED | TAKES_SAMPLING | TAKES_PROJECTOR)
#define SERVE_SLOT_OPTIONS(o) \
    {"-np,--parallel", OPT_INT, &(o).slots, "N", "replies to generate at a time (default: 16)", 1, 4096}, \
    {"--cache", OPT_INT, &(o).cells, "N", "positions of all requests together (default: 4 times --ctx)", 1, 1 << 24}
#define SERVE_CHAT_OPTIONS(o) \
    CLI_TEMPLATE_OPTIONS(o), {"--lookup", OPT_FLAG, &(o).lookup, NULL, "speculate from earlier text: the same output, faster", 0, 0}

int serve_is_loopback(const char *host);
/* Runs the server until a signal ends it. Returns the exit status. */
int serve_run(const serve_options *options);

#endif
