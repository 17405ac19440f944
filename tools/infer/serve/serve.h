/* serve.h: what the files of `infer serve` share.
 *
 *   serve.c      the command and its options
 *   request.c    a JSON body to values, by a table of parameters for each interface
 *   models.c     models, with their queues and contexts
 *   generate.c   requests of a queue that answer one HTTP request, and what they produce
 *   media.c      pictures and sounds of requests
 *   chat.c       a conversation, the form of its reply, and whether the template agrees
 *   reply.c      stop reasons, log probabilities and other parts of replies that interfaces share
 *   failure.c    errors in the form of each interface
 *   out.c        writing JSON
 *   system.c     signals, files below a folder and time
 *
 * http/ is built only where libmicrohttpd is. `infer map` makes jobs of lines with the files above.
 *   server.c     start, run and stop
 *   http.c       the only file that knows libmicrohttpd: connections, limits, access, responses
 *   route.c      the table of paths
 *   chat_completions.c, completions.c, responses.c, messages.c, embeddings.c, text.c, status.c
 *                the interfaces
 *   page.c       the page at /
 *   socket.c     sockets
 *
 * Threads: every connection has one, which may wait; each queue has one, which must not. What a queue's callbacks produce is
 * collected in a `job` under its lock and written by the connection's thread. */
#ifndef SERVE_H
#define SERVE_H

#include "serve_options.h"

#include <pthread.h>
#include <stdatomic.h>

extern const char *serve_command; /* failure.c: what messages on stderr call the program: "serve", or "map" */

/* ---- out.c ---------------------------------------------------------------------------------- */

/* Appends a format: %j a zero-terminated text as a JSON string (NULL: null), %J the same of (const char *, size_t), %s text as it is,
 * %S the same of (const char *, size_t), %t a cli_text as it is, %T as a JSON string: when it has failed, so has t; %d (long long),
 * %g (double; not finite: null), %b (int) true or false, %v (infer_json *), %% */
void out(cli_text *t, const char *format, ...);
void out_clear(cli_text *t); /* empty, keeping its memory */
void out_end(cli_text *t);

/* ---- failure.c ------------------------------------------------------------------------------ */

/* Why a request is not served: an HTTP status and what is said. status 0 = it is. */
typedef struct failure {
    int status, retry; /* retry: seconds, 0 = no such header */
    const char *code;  /* "context_length_exceeded", NULL = none */
    char param[96];    /* the parameter, "" = none */
    char message[640];
} failure;
enum { FORM_OPENAI, FORM_ANTHROPIC };
/* Sets f, unless it is set already. Returns 0. */
int fail(failure *f, int status, const char *code, const char *param, const char *format, ...) CLI_PRINTF(5, 6);
/* The same from a result of the library. */
int fail_by(failure *f, infer_result result, const char *message);
void failure_body(cli_text *t, int form, const failure *f);

/* ---- request.c ------------------------------------------------------------------------------ */

/* A parameter of an interface. A value of null counts as not given. */
enum {
    PARAM_FLAG,    /* int */
    PARAM_INT,     /* int64_t, lo .. hi */
    PARAM_NUMBER,  /* double, lo .. hi */
    PARAM_TEXT,    /* const char *, zero-terminated */
    PARAM_LIST, PARAM_OBJECT, PARAM_ANY, /* const infer_json * */
    PARAM_SAMPLING, /* a figure of the sampler: cli_sampling_set */
    PARAM_IGNORED, /* it changes nothing */
    PARAM_ONLY     /* `only` is the one value, as JSON, that is supported */
};
typedef struct parameter {
    const char *name;
    int kind;
    size_t at; /* offset in `asked` */
    double lo, hi;
    const char *only;
} parameter;

/* What requests ask for. Zero = not given, -1 for numbers. */
typedef struct asked {
    const char *model, *user_text, *suffix, *grammar, *format, *effort, *query, *content, *instructions, *now;
    int stream, echo, logprobs, has_parallel, parallel, add_special, parse_special, with_pieces, return_documents, has_return;
    int64_t n, max_tokens, max_completion, min_tokens, seed, top_logprobs, best_of, dimensions, top_n, normalize;
    const infer_json *messages, *prompt, *tools, *tool_choice, *response_format, *stop, *stop_tokens, *logit_bias, *stream_options, *variables, *schema,
        *input, *documents, *tokens, *system, *thinking, *text, *reasoning;
    int ignore_eos;
    cli_sampling sampling;
    cli_list biases; /* of sampling: texts that are its own */
} asked;
#define PARAM_AT(field) offsetof(asked, field)

/* Reads the members of an object by a table. The values point into it. Returns 0 after setting f. asked_free in any case. */
int asked_read(asked *a, const infer_json *object, const parameter *table, size_t n, const cli_sampling *defaults, failure *f);
void asked_free(asked *a);
/* Rows that several interfaces have: figures of the sampler (cli_sampling_set knows more spellings); what this server has besides
 * OpenAI's; what changes nothing here. */
#define SERVE_FIGURE(name) {name, PARAM_SAMPLING, 0, 0, 0, NULL}
#define SERVE_PARAMS_SAMPLING \
    SERVE_FIGURE("temperature"), SERVE_FIGURE("top_p"), SERVE_FIGURE("frequency_penalty"), SERVE_FIGURE("presence_penalty"), \
    SERVE_FIGURE("top_k"), SERVE_FIGURE("min_p"), SERVE_FIGURE("typical_p"), SERVE_FIGURE("top_n_sigma"), \
    SERVE_FIGURE("xtc_probability"), SERVE_FIGURE("xtc_threshold"), SERVE_FIGURE("dynatemp_range"), SERVE_FIGURE("dynatemp_exponent"), \
    SERVE_FIGURE("repeat_penalty"), SERVE_FIGURE("repetition_penalty"), SERVE_FIGURE("repeat_last_n"), SERVE_FIGURE("dry_multiplier"), \
    SERVE_FIGURE("dry_base"), SERVE_FIGURE("dry_allowed_length"), SERVE_FIGURE("dry_penalty_last_n")
/* Rows of interfaces in OpenAI's form: of all; of those that give several replies; of texts and of chats; of those that chat. */
#define SERVE_PARAM_MODEL {"model", PARAM_TEXT, PARAM_AT(model), 0, 0, NULL}
#define SERVE_PARAM_SEED {"seed", PARAM_INT, PARAM_AT(seed), -1, 9e15, NULL}
#define SERVE_PARAMS_REPLY \
    SERVE_PARAM_MODEL, {"stream", PARAM_FLAG, PARAM_AT(stream), 0, 0, NULL}, SERVE_PARAM_SEED
#define SERVE_PARAMS_FORM \
    {"stop", PARAM_ANY, PARAM_AT(stop), 0, 0, NULL}, {"logit_bias", PARAM_OBJECT, PARAM_AT(logit_bias), 0, 0, NULL}, \
    {"response_format", PARAM_OBJECT, PARAM_AT(response_format), 0, 0, NULL}
#define SERVE_PARAMS_REPLIES \
    {"stream_options", PARAM_OBJECT, PARAM_AT(stream_options), 0, 0, NULL}, {"n", PARAM_INT, PARAM_AT(n), 1, MAX_CHOICES, NULL}, \
    SERVE_PARAMS_FORM
#define SERVE_PARAMS_PROMPT \
    {"prompt", PARAM_ANY, PARAM_AT(prompt), 0, 0, NULL}, {"suffix", PARAM_TEXT, PARAM_AT(suffix), 0, 0, NULL}
#define SERVE_PARAMS_CHAT \
    {"messages", PARAM_LIST, PARAM_AT(messages), 0, 0, NULL}, {"max_tokens", PARAM_INT, PARAM_AT(max_tokens), 1, 1e9, NULL}, \
    {"max_completion_tokens", PARAM_INT, PARAM_AT(max_completion), 1, 1e9, NULL}, {"reasoning_effort", PARAM_TEXT, PARAM_AT(effort), 0, 0, NULL}
#define SERVE_PARAMS_TEMPLATE \
    {"tools", PARAM_LIST, PARAM_AT(tools), 0, 0, NULL}, {"chat_template_kwargs", PARAM_OBJECT, PARAM_AT(variables), 0, 0, NULL}
#define SERVE_PARAMS_TOOLS \
    {"tool_choice", PARAM_ANY, PARAM_AT(tool_choice), 0, 0, NULL}, {"parallel_tool_calls", PARAM_FLAG, PARAM_AT(parallel), 0, 0, NULL}
#define SERVE_PARAMS_MORE \
    {"grammar", PARAM_TEXT, PARAM_AT(grammar), 0, 0, NULL}, {"min_tokens", PARAM_INT, PARAM_AT(min_tokens), 0, 1e9, NULL}, \
    {"ignore_eos", PARAM_FLAG, PARAM_AT(ignore_eos), 0, 0, NULL}, {"stop_token_ids", PARAM_LIST, PARAM_AT(stop_tokens), 0, 0, NULL}
#define SERVE_IGNORED(name) {name, PARAM_IGNORED, 0, 0, 0, NULL}
#define SERVE_PARAMS_IGNORED \
    SERVE_IGNORED("user"), SERVE_IGNORED("metadata"), SERVE_IGNORED("store"), SERVE_IGNORED("service_tier"), \
    SERVE_IGNORED("safety_identifier"), SERVE_IGNORED("prompt_cache_key"), SERVE_IGNORED("prompt_cache_retention"), \
    SERVE_IGNORED("prompt_cache_options")
/* A member by name that has to be a text; NULL after setting f. */
const char *json_get_text(const infer_json *object, const char *name, const char *where, failure *f);
int json_is(const infer_json *v, const char *text); /* is it this string? */
/* A list of ids of tokens to *ids (also an empty one), which the caller frees in any case; else `param` must be `what`. 0 after setting f. */
int json_tokens(const infer_json *list, int32_t vocab, infer_token **ids, size_t *n, const char *param, const char *what, failure *f);
struct served;
/* The tokens of a text, or, with a suffix, of filling the gap before it; the caller frees *ids in any case. 0 after setting f. */
int text_tokens(const struct served *m, const char *text, size_t n, const char *suffix, int32_t flags, infer_token **ids, size_t *count, failure *f);
/* The same of a 'prompt' that is a text or a list of tokens; there is at least one token. what: as of json_tokens. */
int prompt_tokens(const struct served *m, const infer_json *prompt, const char *suffix, const char *what, infer_token **ids, size_t *n, failure *f);

/* ---- models.c ------------------------------------------------------------------------------- */

enum { MODEL_ABSENT, MODEL_LOADING, MODEL_READY };
typedef struct served {
    char *id, *path;
    int state, refs;
    double used;  /* when it was last */
    uint64_t bytes, created;
    infer_model *model;
    infer_model_info info;
    char *projector;            /* NULL = none */
    uint64_t projector_bytes, projector_key; /* of a folder's: its file; how much of the names agrees */
    infer_queue *queue;         /* NULL = it does not generate */
    char why_no_queue[512];
    int32_t positions;          /* of a request */
    int32_t slots;
    int plain;                  /* the usual sampler penalises nothing */
    const char *template_text;  /* NULL = none */
    char format[64];            /* of its replies: "hermes/think" */
    pthread_mutex_t texts_lock; /* of the context for vectors, made on first use */
    infer_context *texts;
    int texts_waiting;
    struct texts *asking;       /* models_lock: those whose vectors are to be made */
    struct served *next;
} served;

struct server;
int models_open(struct server *s);
void models_close(struct server *s);
/* The model that a request names (NULL: the only one), loaded. models_release it. NULL after setting f. */
served *models_take(struct server *s, const char *name, failure *f);
void models_release(struct server *s, served *m);
/* The same without loading it. */
const served *models_find(struct server *s, const char *name, failure *f);

/* ---- server.c ------------------------------------------------------------------------------- */

enum { TIMES = 12 }; /* buckets of times in /metrics */
typedef struct counters {
    uint64_t requests, failed, refused, cancelled; /* HTTP requests; statuses 4xx and 5xx; 429; vanished or slow clients */
    uint64_t prompt_tokens, reused, new_tokens;
    uint64_t media[2], media_positions;            /* pictures, sounds; what they take of prompts */
    uint64_t first[TIMES + 1], whole[TIMES + 1];   /* of replies */
    double first_sum, whole_sum;
} counters;

struct job;
typedef struct server {
    const serve_options *options;
    pthread_mutex_t lock; /* counters, jobs */
    counters counters;
    struct job *jobs;     /* that run */
    int active;           /* HTTP requests */
    int media_busy;       /* a picture or sound is being encoded; lock */
    int64_t media_waiting; /* requests that wait for that */
    pthread_cond_t media_changed;
    atomic_int stopping, abort; /* no new requests; end the running ones */
    double started;
    pthread_mutex_t models_lock;
    pthread_cond_t models_changed;
    served *models;
    int n_models;
} server;
extern const double SERVE_TIMES[TIMES]; /* generate.c */

/* ---- http.c --------------------------------------------------------------------------------- */

struct MHD_Connection;
struct route;
/* An HTTP request, and its response. */
typedef struct call {
    server *server;
    struct MHD_Connection *connection;
    const struct route *route;
    char path[256];
    const char *rest; /* what follows the route's path */
    infer_json *json; /* the body */
    cli_text body;
    failure failure;
    int form, status, too_large, answered;
    cli_text out;
    const char *type;
    struct job *job;  /* the response is what it writes */
    double started;
    int (*alive)(struct call *c); /* see call_alive; NULL = always */
} call;
int call_alive(call *c); /* generate.c: is the client still there? */
int http_start(server *s);
void http_look(server *s); /* once a second: ends connections that take too long to say what they want */
void http_quiesce(server *s);
void http_stop(server *s);
int http_port(server *s);
const char *call_header(call *c, const char *name); /* of the request; NULL = none */
const char *call_argument(call *c, const char *name); /* after the ? of its address */

/* ---- route.c -------------------------------------------------------------------------------- */

typedef struct route {
    const char *method, *path; /* a path that ends in / stands for all that begin with it */
    int form, open;            /* open: without a key */
    void (*run)(call *c);
} route;
/* NULL: none; *known: another method has this path. */
const route *route_find(const char *method, const char *path, const char **rest, int *known);

/* ---- generate.c ----------------------------------------------------------------------------- */

enum { EVENT_TEXT, EVENT_REASONING, EVENT_CALL, EVENT_ARGUMENTS, EVENT_TOKEN };
/* What a queue's callbacks have produced: a header, then n bytes. */
typedef struct event {
    int32_t kind, choice;
    int32_t number;   /* CALL, ARGUMENTS: of the call; TOKEN: the token */
    float logprob;
    size_t n;         /* CALL: id, 0, name; TOKEN: infer_top[] */
} event;

typedef struct choice {
    struct job *job;
    int index;
    infer_request *request;
    infer_sampler *sampler;
    int done;             /* job->lock */
    int32_t unseen;       /* tokens since the last text: the queue's */
    int32_t reasoning_tokens;
    /* the connection's */
    cli_text text, reasoning, calls; /* calls: rows of JSON */
    cli_text logprobs;    /* chat completions': rows that were not given out */
    int n_calls, ended;
    int begun, block;     /* the writer's */
    infer_request_info info;
    infer_error error;
    const char *stop;     /* the stop string that ended it, NULL = none */
} choice;

/* How an interface writes: a stream's events, or the whole. NULL: nothing is to be done. */
typedef struct writer {
    void (*start)(struct job *j); /* of a stream */
    /* With logprobs: a token that the next text may have; n <= j->k: the likeliest ones. */
    void (*token)(struct job *j, choice *c, infer_token token, double logprob, const infer_top *top, int n);
    void (*text)(struct job *j, choice *c, int reasoning, const char *s, size_t n);
    void (*call)(struct job *j, choice *c, int number, const char *id, const char *name);
    void (*arguments)(struct job *j, choice *c, int number, const char *s, size_t n);
    void (*end)(struct job *j, choice *c);
    void (*finish)(struct job *j);
    void (*broken)(struct job *j, const failure *f); /* after the beginning */
    void (*whole)(struct job *j);
} writer;

enum { MAX_CHOICES = 64 };
typedef struct job {
    server *server;
    call *call;
    const writer *writer;
    served *model;
    asked asked;
    char id[64];
    long long created;
    int stream, usage, k; /* usage: at the end of the stream; k: logprobs, -1 = none */
    infer_request_params params;
    infer_chat_params chat;
    infer_media **media; /* n_media: the conversation's, in order */
    int32_t n_media;
    int64_t media_positions;
    cli_text messages, tools, variables, begun, ended, tool; /* of chat; ended: a template that ends the reasoning; tool: the only one */
    const char **stops;
    infer_token *stop_ids;
    infer_grammar *grammar;
    int tool_calls;      /* the model may call: replies are parsed for calls */
    int one_call;        /* no more than one */
    int formed, forced;  /* the reply has a given form; it consists of calls, */
    int no_reasoning;    /* with no reasoning before them that the template does not begin */
    int nothing;         /* no token is to be generated */
    void *own;           /* the interface's; freed with the job */
    void (*own_free)(void *own);
    void (*choose)(struct job *j, choice *c, infer_request_params *p); /* what differs between the choices; NULL = nothing */
    uint64_t seed;
    choice *choices;
    int n_choices, n_ended;
    void (*on_ended)(struct job *j); /* called by the queue's thread when one has; NULL = nothing is */
    int groups;          /* of choices with the same prompt: prompts */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int waits;           /* the connection's thread */
    cli_text events, taken; /* lock; the connection's */
    int slow, gone;      /* lock: the events did not fit; the client has vanished */
    int lost;            /* the connection's: one of these */
    cli_text out;        /* of the stream: what is to be sent */
    size_t sent;
    int started, finished;
    double looked;       /* looked: whether the client is there */
    struct job *before, *after; /* server->jobs */
} job;

/* A job for the call; the model is taken. NULL after setting the call's failure. */
job *job_create(call *c, const writer *w, const parameter *table, size_t n);
/* Fields of params that interfaces have in common, from `asked`. Returns 0 after setting the call's failure. */
int job_prepare(job *j);
/* Submits the requests. */
int job_submit(job *j);
/* Until all replies are there. Returns 0 after setting the call's failure. */
int job_wait(job *j);
/* Prepares, submits and answers: a stream, or the whole reply when it is complete. Owns j. */
void job_answer(job *j);
/* The next bytes of the stream; 0 = it has ended, (size_t)-1 = the client has gone, or is too slow. */
size_t job_read(job *j, char *to, size_t most);
void job_free(job *j);

/* ---- chat.c --------------------------------------------------------------------------------- */

/* The content of a message that another interface's is made of: a text, or parts. */
typedef struct content {
    cli_text text, parts;
    int texts, n_parts;
} content;
void content_text(content *c, const char *between, const char *s, size_t n); /* between: after a text */
void content_image(content *c, const char *before, const char *url, size_t n); /* before: the beginning of the URL */
void content_sound(content *c, const infer_json *sound);
void content_write(content *c, cli_text *t); /* as JSON; then it is empty */
void content_end(content *c);

/* The conversation of j->chat from OpenAI's form, as JSON or as text of JSON. Each returns 0 after setting the call's failure. */
int chat_messages_text(job *j, const cli_text *messages);
int chat_tools_text(job *j, const cli_text *tools, const cli_text *tool_choice); /* empty: none */
int chat_messages(job *j, const infer_json *messages);
int chat_variables(job *j);
/* tool_choice and parallel_tool_calls, too. After chat_messages. */
int chat_tools(job *j, const infer_json *tools, const infer_json *tool_choice);
/* {"type": "json_schema", ...}; `where`: the parameter's name. And the grammar or schema of the request, if any. */
int chat_response_format(job *j, const infer_json *format, const char *where);
int chat_grammar(job *j, const infer_grammar_params *p, const char *where);
/* Last: what has been set agrees with the template. */
int chat_check(job *j);
int chat_prepare(job *j); /* all of this, for a request in OpenAI's form */

/* ---- media.c -------------------------------------------------------------------------------- */

enum { MEDIA_IMAGE = 1, MEDIA_SOUND };
/* Is the part of a message (in OpenAI's form) a picture or sound? 0 = neither. */
int media_is_part(const infer_json *part);
/* Encodes what such a part has, as the next of j->media. `where` is for messages. Returns 0 after setting the call's failure. */
int media_take(job *j, const infer_json *part, const char *where);
void media_free(job *j);

/* ---- reply.c -------------------------------------------------------------------------------- */

int reply_cut(const choice *c);              /* it has ended at a limit */
const char *finish_reason(const choice *c); /* OpenAI's */
/* Of writers: they collect a choice's text, reasoning and calls. */
void reply_text(job *j, choice *c, int reasoning, const char *s, size_t n);
void reply_call(job *j, choice *c, int number, const char *id, const char *name);
void reply_arguments(job *j, choice *c, int number, const char *s, size_t n);
/* Completions of OpenAI: what is before and after the choices, the end of a stream, and stream_options (0 after setting the failure). */
void write_head(const job *j, cli_text *t, const char *object);
void write_tail(const job *j, cli_text *t);
void sse_done(job *j, const char *object);
int take_stream_options(job *j);
void random_id(char *to, size_t cap, const char *prefix);
cli_text *sse_begin(job *j, const char *name); /* an event of j->out: its data are to be appended; name NULL = data alone */
void sse_end(job *j);
void sse_broken(job *j, const failure *f);     /* an error as the last event */
/* A token's bytes. Returns how many. */
enum { TOKEN_BYTES = 512 };
size_t token_text(const served *m, infer_token token, char *text);

/* ---- embeddings.c --------------------------------------------------------------------------- */

/* The context for vectors and scores, locked until models_texts_done. Returns 0 after setting f.
 * t (may be NULL) is in m->asking while it waits: who has the context may do its work and take it out. */
struct texts;
int models_texts(struct server *s, served *m, struct texts *t, failure *f);
void models_texts_done(struct server *s, served *m);

/* ---- system.c ------------------------------------------------------------------------------- */

int system_signals(void);     /* SIGINT and SIGTERM are counted from now on */
int system_wait(int ms);      /* until a signal, at most ms: how many came */
/* A file below a folder, by a path from there or with the folder before it, to be freed; without following links. NULL: `why` says why. */
unsigned char *system_read_below(const char *folder, const char *path, size_t most, size_t *n, char *why, size_t cap);
int system_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int ms); /* 0 = the time is over */

/* ---- socket.c ------------------------------------------------------------------------------- */

int system_socket_open(int fd); /* 0 = the other side has closed it */
void system_socket_end(int fd); /* reading and writing end */

extern const char serve_page_policy[]; /* page.c: Content-Security-Policy of the page */

/* ---- the interfaces ------------------------------------------------------------------------- */

void route_page(call *c);
void route_chat_completions(call *c);
void route_completions(call *c);
void route_responses(call *c);
void route_messages(call *c);
void route_count_tokens(call *c);
void route_embeddings(call *c);
void route_rerank(call *c);
void route_tokenize(call *c);
void route_detokenize(call *c);
void route_apply_template(call *c);
void route_health(call *c);
void route_models(call *c);
void route_model(call *c);
void route_props(call *c);
void route_slots(call *c);
void route_metrics(call *c);

#endif
