/* serve.c: `infer serve`: its options. What they start is built only where the HTTP library is (CLI_HTTP). */
#include "serve_options.h"

#include <stdlib.h>
#include <string.h>

/* The keys of the environment variable and of the options; whoever listens to more than this machine needs one. */
static int check_access(serve_options *o) {
    const char *key = getenv("INFER_API_KEY");
    int i;
    if (key && *key && o->keys.n == 0 && !cli_list_add("serve", &o->keys, key)) return CLI_FAILED;
    for (i = 0; i < o->keys.n; i++) {
        if (o->keys.items[i][0] == 0) return cli_usage_error("serve", "--api-key is empty");
    }
    if (o->keys.n && o->no_auth) return cli_usage_error("serve", "--api-key and --no-auth exclude each other");
    if (o->keys.n == 0 && !o->no_auth && !serve_is_loopback(o->host))
        return cli_usage_error("serve", "--host %s lets other machines in: give an --api-key (or INFER_API_KEY), or --no-auth", o->host);
    if ((o->cert == NULL) != (o->key_file == NULL)) return cli_usage_error("serve", "--tls-cert and --tls-key belong together");
    return CLI_DONE;
}

int serve_is_loopback(const char *host) {
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static int run(serve_options *o) {
#ifdef CLI_HTTP
    const char *name;
    size_t n;
    int status;
    if (o->template_path && (o->template_text = cli_read_text("serve", o->template_path, &n, &name)) == NULL) return CLI_FAILED;
    if (o->media_path && platform_path_kind(o->media_path) != PLATFORM_FOLDER)
        status = cli_fail("serve", "--media-path: %s: no such folder", o->media_path);
    else status = serve_run(o);
    free(o->template_text);
    return status;
#else
    (void)o;
    return cli_fail("serve", "this program was built without GNU libmicrohttpd: install it (Debian: libmicrohttpd-dev, Fedora: libmicrohttpd-devel, "
                             "macOS: brew install libmicrohttpd, MSYS2: mingw-w64-x86_64-libmicrohttpd) and pkg-config, and run make again");
#endif
}

int cmd_serve(int argc, char **argv) {
    serve_options o;
    const char *args[1];
    const cli_option options[] = {
        {"--host", OPT_STRING, &o.host, "ADDRESS", "address to listen on (default: 127.0.0.1, this machine alone)", 0, 0},
        {"--port", OPT_INT, &o.port, "N", "port to listen on (default: 8080); 0 = any that is free", 0, 65535},
        {"--api-key", OPT_LIST, &o.keys, "KEY", "requests must have this key (default: INFER_API_KEY, if set); may be repeated", 0, 0},
        {"--no-auth", OPT_FLAG, &o.no_auth, NULL, "let other machines in without a key", 0, 0},
        {"--cors", OPT_STRING, &o.cors, "ORIGIN", "let pages of this origin send requests; * = of any", 0, 0},
        {"--tls-cert", OPT_STRING, &o.cert, "FILE", "serve HTTPS with this certificate (PEM)", 0, 0},
        {"--tls-key", OPT_STRING, &o.key_file, "FILE", "the certificate's private key (PEM)", 0, 0},
        {"--models", OPT_STRING, &o.folder, "DIR", "serve the models in DIR instead of MODEL: each is loaded on first use, within --max-memory", 0, 0},
        {"--alias", OPT_LIST, &o.aliases, "NAME[=ID]", "another name for the model (ID: which of --models); * = any name; may be repeated", 0, 0},
        SERVE_SLOT_OPTIONS(o),
        {"--queue", OPT_INT, &o.waiting, "N", "requests that may wait for one to end; more get status 429 (default: 64)", 1, 1 << 20},
        {"-n|--predict,--n-predict,--max-tokens", OPT_INT, &o.max_tokens, "N", "maximum number of tokens per reply, whatever a request says (default: no limit)", 0, INT32_MAX / 2},
        {"--max-body", OPT_SIZE, &o.max_body, "SIZE", "largest request (default: 16M)", 1, (int64_t)1 << 32},
        {"--connections", OPT_INT, &o.connections, "N", "connections at a time (default: 256)", 1, 65536},
        {"--timeout", OPT_INT, &o.timeout, "S", "seconds that a client may take to send a request, or stop reading (default: 60)", 1, 86400},
        {"--seconds", OPT_INT, &o.seconds, "S", "maximum time of a reply (default: no limit)", 0, 86400},
        {"--grace", OPT_INT, &o.grace, "S", "seconds for running replies to end when the server is stopped (default: 10)", 0, 86400},
        {"--no-projector,--no-mmproj", OPT_FLAG, &o.no_projector, NULL, "no pictures and sound, whatever is beside the model", 0, 0},
        {"--media-path", OPT_STRING, &o.media_path, "DIR", "requests may name files below DIR: file://NAME (default: they name no files)", 0, 0},
        {"--max-image-pixels", OPT_INT, &o.max_pixels, "N", "largest picture (default: 67108864)", 1, (int64_t)1 << 32},
        {"--max-audio-seconds", OPT_INT, &o.max_sound, "S", "longest sound (default: 3600)", 1, 86400},
        SERVE_CHAT_OPTIONS(o),
        {"--log-prompts", OPT_FLAG, &o.log_prompts, NULL, "log requests with their texts to stderr (-v: without)", 0, 0},
    };
    const cli_spec spec = {"serve",
                           "MODEL | --models DIR",
                           "Serve a model over HTTP: the interfaces of OpenAI (/v1/chat/completions, /v1/completions,\n"
                           "/v1/responses, /v1/embeddings) and Anthropic (/v1/messages), /v1/rerank, /tokenize, /metrics\n"
                           "and others, and a page to chat at /. --ctx is the maximum length of a request. Sampling\n"
                           "options are the defaults of requests. Ctrl-C or SIGTERM: running replies end, then the server.\n",
                           options,
                           (int)(sizeof options / sizeof options[0]),
                           SERVE_TAKES,
                           0,
                           1};
    cli_common common;
    int status;
    memset(&o, 0, sizeof o);
    o.host = "127.0.0.1";
    o.port = 8080;
    o.slots = SERVE_SLOTS;
    o.waiting = 64;
    o.max_body = 16 << 20;
    o.connections = 256;
    o.timeout = 60;
    o.grace = SERVE_GRACE;
    o.common = &common;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    o.model = args[0];
    if ((o.model == NULL) == (o.folder == NULL)) status = cli_usage_error("serve", "give one of MODEL and --models DIR");
    else if (o.no_projector && common.projector) status = cli_usage_error("serve", "--projector and --no-projector exclude each other");
    else if (o.folder && common.projector) status = cli_usage_error("serve", "--projector needs a MODEL; in DIR, name-mmproj.gguf or mmproj-name.gguf is the projector of name*.gguf");
    else if (o.folder && common.loras.n + common.controls.n) status = cli_usage_error("serve", "--lora and --control need a MODEL");
    else if (common.sampling.grammar_text || common.sampling.schema_text || common.sampling.json_object)
        status = cli_usage_error("serve", "a grammar is given by each request: 'response_format', 'grammar'");
    else status = check_access(&o);
    return status == CLI_DONE ? run(&o) : status;
}
