/* http.c: HTTP by libmicrohttpd: a thread for each connection, limits, who may ask, and sending responses.
 *
 * libmicrohttpd parses and sends; it ends connections on which nothing moves for --timeout seconds. What it does not limit
 * is the whole time that a client takes to say what it wants: http_look ends those that send a byte now and then. */
#include "../serve.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#  include <winsock2.h>
#  include <ws2tcpip.h>
#else
#  include <arpa/inet.h>
#  include <netdb.h>
#  include <netinet/in.h>
#  include <netinet/tcp.h>
#  include <sys/socket.h>
#  include <unistd.h>
#endif

#if MHD_VERSION >= 0x00097002
typedef enum MHD_Result answer_t;
#else
typedef int answer_t; /* its results were ints */
#endif

/* A connection, from its beginning to its end. */
typedef struct client {
    int fd, asking;  /* asking: the client has not said yet what it wants */
    double since;
    struct client *before, *after;
} client;

static struct MHD_Daemon *daemon_;
static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static client *clients;
static char *certificate, *key;

/* ---- connections ---------------------------------------------------------------------------- */

static int connection_fd(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? (int)info->connect_fd : -1;
}

static void client_begin(struct MHD_Connection *connection, void **context) {
    client *l = cli_alloc("serve", 1, sizeof *l);
    *context = l;
    if (l == NULL) return; /* it is without a limit of time */
    l->fd = connection_fd(connection);
    l->asking = 1;
    l->since = platform_clock();
    pthread_mutex_lock(&clients_lock);
    l->before = NULL;
    l->after = clients;
    if (clients) clients->before = l;
    clients = l;
    pthread_mutex_unlock(&clients_lock);
}

static void client_end(client *l) {
    if (l == NULL) return;
    pthread_mutex_lock(&clients_lock);
    if (l->before) l->before->after = l->after;
    else clients = l->after;
    if (l->after) l->after->before = l->before;
    pthread_mutex_unlock(&clients_lock);
    free(l);
}

static void connection_changed(void *user, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode what) {
    (void)user;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) client_begin(connection, context);
    else client_end(*context);
}

static void client_asks(struct MHD_Connection *connection, int asking) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    client *l = info ? info->socket_context : NULL;
    if (l == NULL) return;
    pthread_mutex_lock(&clients_lock);
    l->asking = asking;
    l->since = platform_clock();
    pthread_mutex_unlock(&clients_lock);
}

void http_look(server *s) {
    const double now = platform_clock();
    client *l;
    pthread_mutex_lock(&clients_lock); /* a client is removed before its socket is closed */
    for (l = clients; l; l = l->after) {
        if (l->asking && now - l->since > (double)s->options->timeout) system_socket_end(l->fd);
    }
    pthread_mutex_unlock(&clients_lock);
}

static int is_there(call *c) { return system_socket_open(connection_fd(c->connection)); }

const char *call_header(call *c, const char *name) { return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name); }

const char *call_argument(call *c, const char *name) { return MHD_lookup_connection_value(c->connection, MHD_GET_ARGUMENT_KIND, name); }

/* ---- who may ask ---------------------------------------------------------------------------- */

/* The time does not depend on where texts differ. */
static int same_key(const char *given, const char *key_text) {
    const size_t n = strlen(given), m = strlen(key_text);
    unsigned char differ = n != m;
    size_t i;
    for (i = 0; i < n; i++) differ |= (unsigned char)(given[i] ^ key_text[m ? i % m : 0]);
    return differ == 0;
}

static int has_key(call *c) {
    const serve_options *o = c->server->options;
    const char *given = call_header(c, "Authorization");
    int i, found = 0;
    if (given && strncmp(given, "Bearer ", 7) == 0) given += 7;
    else given = call_header(c, "x-api-key");
    if (given == NULL) return 0;
    for (i = 0; i < o->keys.n; i++) found |= same_key(given, o->keys.items[i]);
    return found;
}

/* The host of "http://host:port" or "host:port", n bytes, with its port. */
static const char *origin_host(const char *origin, size_t *n) {
    const char *scheme = strstr(origin, "://");
    if (scheme) origin = scheme + 3;
    *n = strcspn(origin, "/");
    return origin;
}

static int is_cors(call *c, const char *origin) {
    const char *allowed = c->server->options->cors;
    return allowed && origin && (strcmp(allowed, "*") == 0 || strcmp(allowed, origin) == 0);
}

/* A page of another site must not use a server that needs no key: neither by a request from there (Origin), nor by a name
 * of its own that leads to this machine (Host). */
static int may_ask(call *c) {
    const serve_options *o = c->server->options;
    const char *origin = call_header(c, "Origin"), *host = call_header(c, "Host"), *from;
    size_t n, colon;
    if (origin && !is_cors(c, origin)) {
        from = origin_host(origin, &n);
        if (host == NULL || strlen(host) != n || memcmp(host, from, n) != 0)
            return fail(&c->failure, 403, "origin_not_allowed", NULL, "requests from the pages of %.100s are not allowed (--cors)", origin);
    }
    if (o->keys.n || !serve_is_loopback(o->host) || host == NULL) return 1;
    colon = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if ((colon == 9 && memcmp(host, "localhost", 9) == 0) || (colon == 5 && memcmp(host, "[::1]", 5) == 0) ||
        (colon >= 7 && memcmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == colon)) return 1;
    return fail(&c->failure, 403, "host_not_allowed", NULL, "the host %.100s is not this server's; give it an --api-key to use it by that name",
                host);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void call_begin(call *c, const char *path, const char *method) {
    const char *length;
    int known = 0, i;
    for (i = 0; path[i] && i < (int)sizeof c->path - 1; i++) c->path[i] = path[i];
    c->path[i] = 0;
    client_asks(c->connection, 1);
    c->route = route_find(method, c->path, &c->rest, &known);
    if (c->route) c->form = c->route->form;
    if (path[i]) c->route = NULL;
    if (!may_ask(c)) return;
    if (c->server->stopping) fail(&c->failure, 503, "stopping", NULL, "the server is stopping");
    if (c->route == NULL && known) fail(&c->failure, 405, "method_not_allowed", NULL, "%s is not a method of %s", method, c->path);
    if (c->route == NULL) fail(&c->failure, 404, "not_found", NULL, "there is no %s", c->path);
    if (c->route && !c->route->open && c->server->options->keys.n && !has_key(c))
        fail(&c->failure, 401, "invalid_api_key", NULL, "%s",
             call_header(c, "Authorization") || call_header(c, "x-api-key") ? "the API key is wrong"
                                                                            : "an API key is needed: Authorization: Bearer KEY");
    length = call_header(c, "Content-Length");
    if (length && strtoull(length, NULL, 10) > (unsigned long long)c->server->options->max_body) c->too_large = 1;
}

static void call_data(call *c, const char *data, size_t n) {
    if (c->failure.status || c->too_large) return; /* read, and forgotten */
    if (c->body.n + n > (size_t)c->server->options->max_body) {
        c->too_large = 1;
        out_end(&c->body);
    } else cli_text_put("serve", &c->body, data, n);
}

/* The whole request is there. */
static void call_run(call *c) {
    infer_error err;
    client_asks(c->connection, 0);
    if (c->too_large)
        fail(&c->failure, 413, "request_too_large", NULL, "the body is larger than %lld bytes (--max-body)", (long long)c->server->options->max_body);
    if (c->body.failed) fail(&c->failure, 503, NULL, NULL, "out of memory");
    if (!c->failure.status && strcmp(c->route->method, "POST") == 0) {
        if (infer_json_parse(&c->json, c->body.s ? c->body.s : "", c->body.n, NULL, &err) != INFER_OK)
            fail(&c->failure, 400, "invalid_json", NULL, "the body is not JSON: %s", err.message);
        else if (infer_json_kind(c->json) != INFER_JSON_OBJECT) fail(&c->failure, 400, "invalid_json", NULL, "the body is not a JSON object");
    }
    if (c->server->options->log_prompts && c->body.n && !c->failure.status)
        fprintf(stderr, "%s %.*s\n", c->path, (int)(c->body.n > 100000 ? 100000 : c->body.n), c->body.s);
    out_end(&c->body);
    if (!c->failure.status) c->route->run(c);
    if (c->out.failed && !c->job) fail(&c->failure, 503, NULL, NULL, "out of memory");
    if (!c->failure.status) return;
    c->status = c->failure.status;
    c->type = NULL;
    out_clear(&c->out);
    c->out.failed = 0;
    failure_body(&c->out, c->form, &c->failure);
}

/* ---- responses ------------------------------------------------------------------------------ */

static ssize_t read_stream(void *user, uint64_t at, char *to, size_t most) {
    const size_t n = job_read(user, to, most);
    (void)at;
    return n == (size_t)-1 ? MHD_CONTENT_READER_END_WITH_ERROR : n ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void add_headers(call *c, struct MHD_Response *response) {
    const char *origin = call_header(c, "Origin");
    char number[16];
    MHD_add_response_header(response, "Content-Type", c->type ? c->type : "application/json");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (c->job) MHD_add_response_header(response, "Cache-Control", "no-cache");
    if (c->type && strncmp(c->type, "text/html", 9) == 0) {
        MHD_add_response_header(response, "Content-Security-Policy", serve_page_policy);
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
        MHD_add_response_header(response, "X-Frame-Options", "DENY");
    }
    if (is_cors(c, origin)) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", c->server->options->cors);
        MHD_add_response_header(response, "Vary", "Origin");
    }
    if (c->status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (c->failure.retry) {
        snprintf(number, sizeof number, "%d", c->failure.retry);
        MHD_add_response_header(response, "Retry-After", number);
    }
}

static answer_t respond(call *c) {
    struct MHD_Response *response;
    answer_t result;
    c->answered = 1;
    if (c->status == 0) c->status = 200;
    if (c->job) response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, c->job, NULL);
    else {
        response =
            MHD_create_response_from_buffer(c->out.n, c->out.s ? c->out.s : (char *)"", c->out.s ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
        if (response) memset(&c->out, 0, sizeof c->out);
    }
    if (response == NULL) return MHD_NO;
    add_headers(c, response);
    result = MHD_queue_response(c->connection, (unsigned)c->status, response);
    MHD_destroy_response(response);
    return result;
}

/* What a browser asks before a request to another site. */
static answer_t respond_preflight(call *c) {
    struct MHD_Response *response = MHD_create_response_from_buffer(0, (char *)"", MHD_RESPMEM_PERSISTENT);
    answer_t result;
    const char *headers = call_header(c, "Access-Control-Request-Headers");
    if (response == NULL) return MHD_NO;
    c->answered = 1;
    c->status = is_cors(c, call_header(c, "Origin")) ? 204 : 403;
    if (c->status == 204) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", c->server->options->cors);
        MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST");
        if (headers) MHD_add_response_header(response, "Access-Control-Allow-Headers", headers);
        MHD_add_response_header(response, "Vary", "Origin");
    }
    result = MHD_queue_response(c->connection, (unsigned)c->status, response);
    MHD_destroy_response(response);
    return result;
}

static answer_t access_handler(void *user, struct MHD_Connection *connection, const char *path, const char *method, const char *version,
                               const char *data, size_t *n_data, void **context) {
    server *s = user;
    call *c = *context;
    (void)version;
    if (c == NULL) { /* the head has come */
        c = *context = calloc(1, sizeof *c);
        if (c == NULL) return MHD_NO;
        c->server = s;
        c->alive = is_there;
        c->connection = connection;
        c->started = platform_clock();
        pthread_mutex_lock(&s->lock);
        s->active++;
        pthread_mutex_unlock(&s->lock);
        call_begin(c, path, method);
        if (strcmp(method, "OPTIONS") == 0) return respond_preflight(c);
        if (c->too_large) { /* it need not be sent at all */
            call_run(c);
            return respond(c);
        }
        return MHD_YES;
    }
    if (c->answered) return MHD_YES;
    if (*n_data) {
        call_data(c, data, *n_data);
        *n_data = 0;
        return c->body.failed ? MHD_NO : MHD_YES;
    }
    call_run(c);
    return respond(c);
}

/* One line about each request; never what was asked or said. */
static void log_call(const call *c) {
    const double seconds = platform_clock() - c->started;
    size_t i;
    char path[64];
    for (i = 0; c->path[i] && i + 1 < sizeof path; i++) path[i] = c->path[i] > 32 && c->path[i] < 127 ? c->path[i] : '?';
    path[i] = 0;
    fprintf(stderr, "%s %d %.3f s\n", path, c->status, seconds);
}

static void call_completed(void *user, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode why) {
    server *s = user;
    call *c = *context;
    (void)why;
    if (c == NULL) return;
    *context = NULL;
    if (c->job) job_free(c->job);
    pthread_mutex_lock(&s->lock);
    s->active--;
    s->counters.requests++;
    s->counters.failed += c->status >= 400;
    s->counters.refused += c->status == 429;
    pthread_mutex_unlock(&s->lock);
    if (s->options->common->verbose || s->options->log_prompts) log_call(c);
    if (why != MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN) client_asks(connection, 1);
    infer_json_free(c->json);
    out_end(&c->body);
    out_end(&c->out);
    free(c);
}

/* ---- start and stop ------------------------------------------------------------------------- */

static void http_log(void *user, const char *format, va_list list) {
    const server *s = user;
    if (s->options->common->verbose) vfprintf(stderr, format, list);
}

static int read_keys(const serve_options *o) {
    size_t n;
    if (o->cert == NULL) return 1;
    if (MHD_is_feature_supported(MHD_FEATURE_SSL) != MHD_YES) return cli_fail("serve", "this libmicrohttpd was built without TLS") == CLI_DONE;
    certificate = cli_read_file("serve", o->cert, &n);
    key = certificate ? cli_read_file("serve", o->key_file, &n) : NULL;
    return key != NULL;
}

/* The addresses of --host; NULL after saying why. */
static struct addrinfo *host_address(const serve_options *o) {
    struct addrinfo hints, *found = NULL;
    char port[16];
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    snprintf(port, sizeof port, "%d", (int)o->port);
    if (getaddrinfo(o->host, port, &hints, &found) == 0) return found;
    cli_fail("serve", "--host: there is no address of '%s'", o->host);
    return NULL;
}

int http_start(server *s) {
    const serve_options *o = s->options;
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct addrinfo *address;
    struct MHD_OptionItem options[16];
    int n = 0;
    memset(options, 0, sizeof options);
    if (!read_keys(o) || (address = host_address(o)) == NULL) return 0;
    if (address->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    if (o->cert) {
        flags |= MHD_USE_TLS;
        options[n].option = MHD_OPTION_HTTPS_MEM_CERT;
        options[n++].ptr_value = certificate;
        options[n].option = MHD_OPTION_HTTPS_MEM_KEY;
        options[n++].ptr_value = key;
    }
    options[n].option = MHD_OPTION_SOCK_ADDR;
    options[n++].ptr_value = address->ai_addr;
    options[n].option = MHD_OPTION_END;
    /* a head of 16 KiB has a place twice in this memory; the backlog lets a crowd wait rather than fail */
    daemon_ = MHD_start_daemon(flags, (uint16_t)o->port, NULL, NULL, access_handler, s, MHD_OPTION_EXTERNAL_LOGGER, http_log, s,
                               MHD_OPTION_NOTIFY_COMPLETED, call_completed, s, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, s,
                               MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->timeout,
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_THREAD_STACK_SIZE, (size_t)2 << 20,
                               MHD_OPTION_LISTEN_BACKLOG_SIZE, 512u, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    freeaddrinfo(address);
    if (daemon_) return 1;
    cli_fail("serve", "cannot listen on %s, port %d%s", o->host, (int)o->port,
             o->cert ? ", or the certificate and key are not usable" : ": it is in use, or not allowed");
    return 0;
}

int http_port(server *s) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
    return info ? (int)info->port : (int)s->options->port;
}

void http_quiesce(server *s) {
    const MHD_socket fd = MHD_quiesce_daemon(daemon_);
    (void)s;
#ifdef _WIN32
    if (fd != MHD_INVALID_SOCKET) closesocket(fd);
#else
    if (fd != MHD_INVALID_SOCKET) close(fd);
#endif
}

void http_stop(server *s) {
    (void)s;
    if (daemon_) MHD_stop_daemon(daemon_);
    daemon_ = NULL;
    free(certificate);
    free(key);
    certificate = key = NULL;
}
