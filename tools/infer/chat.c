/* chat.c: `infer chat`: a conversation with the model's own template.
 *
 * The conversation is the text of a JSON list, which grows by a message at a time. In a terminal there are a prompt,
 * commands and Ctrl-C; otherwise every line of stdin is a turn. Answers and tool calls go to stdout, reasoning goes
 * there too in a terminal (dimmed), else to stderr. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- texts that grow -------------------------------------------------------------------------------------------- */

typedef struct text {
    char *s;
    size_t n, cap;
    int failed;
} text;

static void put(text *t, const char *s, size_t n) {
    if (t->failed) return;
    if (t->n + n + 1 > t->cap) {
        char *p = cli_grow("chat", t->s, (t->n + n + 1) * 2, 1);
        if (p == NULL) {
            t->failed = 1;
            return;
        }
        t->s = p;
        t->cap = (t->n + n + 1) * 2;
    }
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}
static void puts_to(text *t, const char *s) { put(t, s, strlen(s)); }

/* JSON on one line. */
static void puts_line(text *t, const char *s, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) put(t, s[i] == '\n' || s[i] == '\r' ? " " : s + i, 1);
}

/* A JSON string; what is no UTF-8 becomes U+FFFD. */
static void put_json(text *t, const char *s, size_t n) {
    char code[8];
    size_t i, len;
    put(t, "\"", 1);
    for (i = 0; i < n; i += len) {
        unsigned char c = (unsigned char)s[i];
        len = 1;
        if (c == '"' || c == '\\') {
            put(t, "\\", 1);
            put(t, s + i, 1);
        } else if (c < 0x20) {
            snprintf(code, sizeof code, "\\u%04x", c);
            puts_to(t, code);
        } else if (c < 0x80) {
            put(t, s + i, 1);
        } else { /* a whole character is 2 to 4 bytes, of which no shorter beginning is whole */
            len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
            if (c < 0xc2 || len > n - i || infer_utf8_whole(s + i, len - 1) != 0 || infer_utf8_whole(s + i, len) != len) {
                puts_to(t, "\xef\xbf\xbd");
                len = 1;
            } else {
                put(t, s + i, len);
            }
        }
    }
    put(t, "\"", 1);
}

/* ---- the conversation ---------------------------------------------------------------------------------------------- */

typedef struct talk {
    infer_session *session;
    infer_sampler *sampler;
    infer_chat_params chat;
    infer_generate_params generate;
    text messages; /* "[{...},\n{...}", without the end */
    size_t system; /* bytes of it that /clear leaves */
    size_t stored; /* bytes of it that are in `file` */
    chat_file *file; /* --session; NULL = none */
    int terminal, styles;
    int grammar;   /* 1 = each reply has to match one, from its start */
    int kind;      /* INFER_CHAT_* that was shown last, 0 = nothing yet */
    infer_chat_parser *last; /* the last reply, whose calls wait for results */
} talk;

static infer_session *volatile running; /* the session that Ctrl-C stops */
static volatile int interrupted;
static void on_interrupt(void) {
    interrupted = 1;
    if (running) infer_session_cancel(running);
}

static void begin_message(talk *t, const char *role) {
    puts_to(&t->messages, t->messages.n > 1 ? ",\n{\"role\":\"" : "{\"role\":\"");
    puts_to(&t->messages, role);
    puts_to(&t->messages, "\"");
}
static void member(talk *t, const char *name, const char *s, size_t n) {
    puts_to(&t->messages, ",\"");
    puts_to(&t->messages, name);
    puts_to(&t->messages, "\":");
    put_json(&t->messages, s, n);
}
static void add_message(talk *t, const char *role, const char *content, size_t n) {
    begin_message(t, role);
    member(t, "content", content, n);
    puts_to(&t->messages, "}");
}

static void add_reply(talk *t, const infer_chat_reply *r) {
    size_t i;
    begin_message(t, "assistant");
    member(t, "content", r->content, r->n_content);
    if (r->n_reasoning) member(t, "reasoning_content", r->reasoning, r->n_reasoning);
    for (i = 0; i < r->n_calls; i++) {
        const infer_chat_call *c = &r->calls[i];
        puts_to(&t->messages, i ? "," : ",\"tool_calls\":[");
        puts_to(&t->messages, "{\"type\":\"function\"");
        member(t, "id", c->id, strlen(c->id));
        puts_to(&t->messages, ",\"function\":{\"name\":");
        put_json(&t->messages, c->name, strlen(c->name));
        puts_to(&t->messages, ",\"arguments\":");
        puts_line(&t->messages, c->arguments, c->n_arguments);
        puts_to(&t->messages, "}}");
    }
    puts_to(&t->messages, r->n_calls ? "]}" : "}");
}

/* ---- showing --------------------------------------------------------------------------------------------------------- */

static void style(const talk *t, const char *code) {
    if (t->styles) fputs(code, stdout);
}

/* A line ends where another kind of text begins. */
static void change(talk *t, int kind) {
    if (t->kind == kind) return;
    if (t->kind == INFER_CHAT_REASONING) {
        style(t, "\x1b[0m");
        fputc('\n', t->terminal ? stdout : stderr);
    } else if (t->kind == INFER_CHAT_CONTENT) {
        fputc('\n', stdout);
    }
    if (kind == INFER_CHAT_REASONING) style(t, "\x1b[2m");
    t->kind = kind;
}

static int show(void *user, const infer_chat_delta *d) {
    talk *t = (talk *)user;
    FILE *file = d->kind == INFER_CHAT_REASONING && !t->terminal ? stderr : stdout;
    if (d->kind == INFER_CHAT_CALL) return 0;
    if (d->kind == INFER_CHAT_ARGUMENTS) {
        change(t, INFER_CHAT_CALL);
        fputs("{\"id\": ", stdout);
        json_text(stdout, d->id);
        fputs(", \"name\": ", stdout);
        json_text(stdout, d->name);
        fputs(", \"arguments\": ", stdout);
        fwrite(d->text, 1, d->n, stdout);
        fputs("}\n", stdout);
    } else {
        change(t, d->kind);
        fwrite(d->text, 1, d->n, file);
    }
    return fflush(file) != 0 || interrupted; /* a Ctrl-C that came before the call began cancels nothing */
}

/* ---- a turn ------------------------------------------------------------------------------------------------------------ */

/* Reply to the conversation. On failure says why, and the conversation is cut back to `before` bytes. */
static int reply(talk *t, size_t before) {
    infer_generate_info info;
    infer_chat_parser *parser = NULL;
    infer_result r;
    size_t n = t->messages.n;
    puts_to(&t->messages, "]");
    t->chat.messages = t->messages.s;
    t->kind = 0;
    if (t->messages.failed) return 0;
    interrupted = 0;
    running = t->session;
    if (t->grammar) infer_sampler_reset(t->sampler);
    r = infer_chat(t->session, t->sampler, &t->chat, &t->generate, &parser, &info);
    running = NULL;
    change(t, 0);
    t->messages.n = n;
    t->messages.s[n] = 0;
    if (r < 0 || r == INFER_CONTEXT_FULL) {
        if (r == INFER_CONTEXT_FULL)
            cli_fail("chat", "the conversation does not fit into a context of %ld positions (--ctx)",
                     (long)infer_session_context(t->session));
        else cli_fail("chat", "%s", infer_session_error(t->session)->message);
        infer_chat_parser_destroy(parser);
        t->messages.n = before;
        t->messages.s[before] = 0;
        return 0;
    }
    if (info.dropped > 0) fprintf(stderr, "[%ld messages left out]\n", (long)info.dropped);
    if (info.stop_reason == INFER_STOP_TIME) fprintf(stderr, "[stopped: the time is up]\n");
    if (info.stop_reason == INFER_STOP_FULL) fprintf(stderr, "infer chat: the context is full (--ctx)\n");
    if (r == INFER_CANCELLED || (interrupted && info.stop_reason == INFER_STOP_CALLBACK)) fprintf(stderr, "[stopped]\n");
    add_reply(t, infer_chat_parser_reply(parser));
    infer_chat_parser_destroy(t->last);
    t->last = parser;
    return !t->messages.failed;
}

/* ---- --session --------------------------------------------------------------------------------------------------------------- */

/* The messages that the file does not have yet, as lines; and what was evaluated. */
static int store(talk *t) {
    text lines;
    const char *from = t->messages.s + t->stored, *end;
    int ok;
    if (t->file == NULL) return 1;
    memset(&lines, 0, sizeof lines);
    if (*from == ',') from += 2;
    for (; (end = strstr(from, ",\n")) != NULL; from = end + 2) {
        put(&lines, from, (size_t)(end - from));
        puts_to(&lines, "\n");
    }
    puts_to(&lines, from);
    puts_to(&lines, "\n");
    ok = !lines.failed && chat_file_add(t->file, lines.s, lines.n);
    free(lines.s);
    if (!ok) return 0;
    t->stored = t->messages.n;
    return chat_file_save(t->file, t->session);
}

/* The conversation so far; a system message must be the one that it began with. */
static int resume(talk *t, const char *system) {
    char *lines, *line, *end;
    size_t n, first;
    int ok = 1;
    if (!chat_file_open(t->file, t->file->path, &lines, &n)) {
        free(lines);
        return 0;
    }
    first = n ? chat_file_system(lines, n) : 0;
    if (n && system && (first != t->messages.n || memcmp(lines, t->messages.s + 1, first - 1) != 0))
        ok = cli_fail("chat", "the conversation in %s began with %s system message", t->file->path, first ? "another" : "no") == CLI_DONE;
    if (n) t->messages.n = 1;
    for (line = lines; ok && n && *line; line = end + 1) {
        end = strchr(line, '\n'); /* every line has one */
        if (end > line) {
            if (t->messages.n > 1) puts_to(&t->messages, ",\n");
            put(&t->messages, line, (size_t)(end - line));
        }
        if (line == lines && first) t->system = t->messages.n;
        else if (line == lines) t->system = 1;
    }
    t->stored = n ? t->messages.n : 1;
    free(lines);
    return ok && !t->messages.failed;
}

/* ---- input ---------------------------------------------------------------------------------------------------------------- */

/* A line of stdin without its end; 0 at the end of input. */
static int read_line(text *line) {
    char piece[4096];
    line->n = 0;
    while (fgets(piece, sizeof piece, stdin)) {
        size_t n = strlen(piece);
        put(line, piece, n);
        if (line->failed) return 0;
        if (n && piece[n - 1] == '\n') break;
    }
    if (line->n == 0) return 0;
    while (line->n && (line->s[line->n - 1] == '\n' || line->s[line->n - 1] == '\r')) line->s[--line->n] = 0;
    return 1;
}

static int ask(const talk *t, text *line, const char *prompt) {
    if (t->terminal) {
        style(t, "\x1b[1m");
        fputs(prompt, stdout);
        style(t, "\x1b[0m");
        fflush(stdout);
    }
    return read_line(line);
}

/* Results of the calls of the last reply, a line each. Returns 0 at the end of input. */
static int results(talk *t, text *line) {
    const infer_chat_reply *r = infer_chat_parser_reply(t->last);
    char prompt[300];
    size_t i;
    for (i = 0; i < r->n_calls; i++) {
        snprintf(prompt, sizeof prompt, "result of %.200s> ", r->calls[i].name);
        if (!ask(t, line, prompt)) return 0;
        begin_message(t, "tool");
        member(t, "tool_call_id", r->calls[i].id, strlen(r->calls[i].id));
        member(t, "name", r->calls[i].name, strlen(r->calls[i].name));
        member(t, "content", line->s, line->n);
        puts_to(&t->messages, "}");
    }
    return 1;
}

static int forget(talk *t) {
    infer_chat_parser_destroy(t->last);
    t->last = NULL;
    t->messages.n = t->system;
    t->messages.s[t->system] = 0;
    t->stored = 1;
    return t->file == NULL || chat_file_clear(t->file);
}

/* A command of the terminal: 1 = it was one, -1 = the end. */
static int command(talk *t, const char *line) {
    if (line[0] != '/') return 0;
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0) return -1;
    if (strcmp(line, "/clear") == 0) {
        return forget(t) ? 1 : -1;
    }
    if (strcmp(line, "/help") != 0) printf("there is no command %s\n", line);
    printf("/clear  begin anew (the system message stays)\n/exit   end, as Ctrl-D does\n/help   this\n"
           "Ctrl-C  stop the reply\n");
    return 1;
}

static int converse(talk *t) {
    text line;
    int ok = 1, failed = 0, is;
    memset(&line, 0, sizeof line);
    if (t->terminal) printf("/help lists commands; Ctrl-D ends\n");
    for (;;) {
        size_t before = t->messages.n;
        if (infer_chat_parser_reply(t->last)->n_calls > 0) {
            if (!results(t, &line)) break;
        } else {
            if (!ask(t, &line, "> ")) break;
            is = t->terminal ? command(t, line.s) : 0;
            if (is < 0) break;
            if (is > 0 || line.n == 0) continue;
            add_message(t, "user", line.s, line.n);
        }
        if (reply(t, before)) {
            if (store(t)) continue;
            failed = 1;
            break;
        }
        ok = 0;
        if (!t->terminal || t->messages.failed || !forget(t)) break;
        fprintf(stderr, "infer chat: the conversation begins anew\n");
    }
    if (t->terminal) {
        printf("\n");
        ok = !t->messages.failed;
    }
    if (line.failed || failed) ok = 0;
    free(line.s);
    return ok;
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

typedef struct loading {
    double started;
    int shown; /* -1 = nothing */
} loading;
static int show_progress(void *user, float done) {
    loading *l = (loading *)user;
    int i, n = (int)(done * 40);
    char bar[41];
    if (n == l->shown || platform_clock() - l->started < 0.3) return 0; /* what is quick needs no bar */
    l->shown = n;
    for (i = 0; i < 40; i++) bar[i] = i < n ? '#' : '.';
    bar[40] = 0;
    fprintf(stderr, "\rloading [%s] %3d %%", bar, (int)(done * 100));
    fflush(stderr);
    return 0;
}

static infer_model *open_model(const char *path, const cli_common *common) {
    infer_model_params params;
    infer_model *model = NULL;
    infer_error err;
    loading l;
    infer_result r;
    if (!cli_model_params("chat", common, &params)) return NULL;
    l.started = platform_clock();
    l.shown = -1;
    if (platform_is_terminal(stderr)) {
        params.progress = show_progress;
        params.progress_user = &l;
    }
    r = infer_model_open(&model, path, &params, &err);
    if (l.shown >= 0) fprintf(stderr, "\r%60s\r", "");
    if (r != INFER_OK) cli_fail("chat", "%s: %s", path, err.message);
    if (r != INFER_OK || cli_adapters_open("chat", model, common)) return r == INFER_OK ? model : NULL;
    cli_model_close(model);
    return NULL;
}

typedef struct request {
    const char *system, *tools_path, *template_path, *begun, *session;
    cli_list stop, stop_ids;
    int64_t limit, thinking, thinking_tokens, on_full;
    double seconds;
    int lookup, mtp;
    int chatml;
} request;

/* What can be known to fail before the first turn: the template is tried with the system message and a turn. */
static int try_template(talk *t, const infer_model *model) {
    infer_rendering *made = NULL;
    infer_error err;
    size_t n = t->messages.n;
    infer_result r;
    add_message(t, "user", "x", 1);
    puts_to(&t->messages, "]");
    t->chat.messages = t->messages.s;
    if (t->messages.failed) return 0;
    r = infer_chat_render(model, &t->chat, &made, &err);
    infer_rendering_free(made);
    t->messages.n = n;
    t->messages.s[n] = 0;
    if (r == INFER_ERR_UNSUPPORTED && !t->chat.allow_chatml && strstr(err.message, "allow_chatml"))
        cli_fail("chat", "the file has no chat template; --chatml takes ChatML, --template FILE one of yours");
    else if (r != INFER_OK) cli_fail("chat", "%s", err.message);
    return r == INFER_OK;
}

static int with_model(infer_model *model, const request *q, cli_common *common, talk *t) {
    infer_context_params params;
    infer_context *context = NULL;
    infer_token *stop_tokens = NULL;
    uint64_t seed = common->seed_given ? (uint64_t)common->seed : (uint64_t)time(NULL);
    int ok = 0;
    puts_to(&t->messages, "[");
    if (q->system) add_message(t, "system", q->system, strlen(q->system));
    t->system = t->messages.n;
    t->chat.allow_chatml = q->chatml;
    t->chat.thinking = q->thinking == 0 ? 1 : q->thinking == 1 ? -1 : 0;
    t->chat.thinking_tokens = (int32_t)q->thinking_tokens;
    t->chat.begun = q->begun;
    t->generate.lookup = q->lookup;
    t->generate.mtp = q->mtp;
    t->chat.fn = show;
    t->chat.user = t;
    t->generate.max_tokens = (int32_t)q->limit;
    t->generate.stop = q->stop.items;
    t->generate.n_stop = q->stop.n;
    t->generate.seconds = q->seconds;
    t->chat.on_full = q->on_full == 1 ? INFER_CHAT_FULL_DROP : INFER_CHAT_FULL_STOP;
    if (!cli_list_ids("chat", "--stop-token", &q->stop_ids, &stop_tokens)) return 0;
    t->generate.stop_tokens = stop_tokens;
    t->generate.n_stop_tokens = q->stop_ids.n;
    if ((t->file && !resume(t, q->system)) || !try_template(t, model)) {
        free(stop_tokens);
        return 0;
    }
    if (cli_grammar("chat", model, &common->sampling)) t->sampler = cli_sampler("chat", model, &common->sampling, seed);
    t->grammar = common->sampling.grammar != NULL;
    cli_context_params(common, &params);
    if (t->sampler && cli_session("chat", model, &params, cli_cells(common, model, 0), &context, &t->session) &&
        (t->file == NULL || chat_file_load(t->file, t->session))) {
        t->terminal = platform_is_terminal(stdin);
        t->styles = t->terminal && platform_styles(stdout);
        if (t->terminal) platform_on_interrupt(on_interrupt);
        ok = converse(t);
    }
    infer_chat_parser_destroy(t->last);
    infer_session_destroy(t->session);
    infer_context_destroy(context);
    infer_sampler_destroy(t->sampler);
    infer_grammar_destroy(common->sampling.grammar);
    free(stop_tokens);
    return ok;
}

int cmd_chat(int argc, char **argv) {
    const char *args[1];
    request q;
    const cli_option options[] = {
        {"--system", OPT_STRING, &q.system, "TEXT", "the system message", 0, 0},
        {"--tools", OPT_STRING, &q.tools_path, "FILE", "tools that the model may call: a JSON list", 0, 0},
        {"--thinking", OPT_CHOICE, &q.thinking, "on|off", "switch reasoning, where the template has a switch", 0, 0},
        {"--think-tokens", OPT_INT, &q.thinking_tokens, "N", "end reasoning after so many tokens", 1, INT32_MAX / 2},
        {"--begin", OPT_STRING, &q.begun, "TEXT", "text that every reply begins with", 0, 0},
        {"--lookup", OPT_FLAG, &q.lookup, NULL, "guess what followed the same tokens before: the same text, sooner", 0, 0},
        {"--mtp", OPT_FLAG, &q.mtp, NULL, "... and what the model's own blocks for further tokens predict", 0, 0},
        {"-n", OPT_INT, &q.limit, "N", "tokens of a reply at most (default: no limit)", 1, INT32_MAX / 2},
        {"--stop", OPT_LIST, &q.stop, "TEXT", "end a reply before this text; may come several times", 0, 0},
        {"--stop-token", OPT_LIST, &q.stop_ids, "ID", "end a reply at this token; may come several times", 0, 0},
        {"--seconds", OPT_FLOAT, &q.seconds, "S", "begin no token of a reply after so many seconds", 0, 0},
        {"--on-full", OPT_CHOICE, &q.on_full, "stop|drop", "a conversation that does not fit: leave out its oldest turns?", 0, 0},
        {"--template", OPT_STRING, &q.template_path, "FILE", "a Jinja template instead of the model's own", 0, 0},
        {"--session", OPT_STRING, &q.session, "FILE", "go on with the conversation in FILE, which grows turn by turn", 0, 0},
        {"--chatml", OPT_FLAG, &q.chatml, NULL, "take ChatML where the file has no template", 0, 0},
    };
    const cli_spec spec = {"chat",
                           "MODEL",
                           "A conversation with the model's own chat template. Where stdin is no terminal every line\n"
                           "of it is a turn. Tool calls are printed as JSON, one a line: {\"id\", \"name\", \"arguments\"};\n"
                           "the next lines of input, one for each call, are their results. Reasoning is dimmed in a\n"
                           "terminal and goes to stderr otherwise. --session keeps the messages in FILE, one a line as\n"
                           "JSON, and what the model has evaluated of them in FILE.state, which only saves time.\n",
                           options,
                           (int)(sizeof options / sizeof options[0]),
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_SEED | TAKES_SAMPLING,
                           1,
                           1};
    cli_common common;
    infer_model *model = NULL;
    char *tools = NULL, *source = NULL;
    talk t;
    chat_file file;
    size_t n;
    int status, ok = 1;
    memset(&q, 0, sizeof q);
    memset(&t, 0, sizeof t);
    memset(&file, 0, sizeof file);
    q.thinking = -1;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) {
        free((void *)q.stop.items);
        free((void *)q.stop_ids.items);
        cli_sampling_free(&common.sampling);
        return status;
    }
    if (q.tools_path) ok = (tools = cli_read_file("chat", q.tools_path, &n)) != NULL;
    if (ok && q.template_path) ok = (source = cli_read_file("chat", q.template_path, &n)) != NULL;
    t.chat.tools = tools;
    t.chat.template_text = source;
    common.mtp = q.mtp;
    file.path = q.session;
    if (q.session) t.file = &file;
    if (ok) model = open_model(args[0], &common);
    ok = model != NULL && with_model(model, &q, &common, &t);
    cli_model_close(model);
    cli_sampling_free(&common.sampling);
    free((void *)q.stop.items);
    free((void *)q.stop_ids.items);
    free(t.messages.s);
    chat_file_close(&file);
    free(tools);
    free(source);
    return ok ? CLI_DONE : CLI_FAILED;
}
