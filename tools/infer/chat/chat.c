/* chat.c: `infer chat`: a conversation with the model's own template.
 *
 * In a terminal there are a prompt with editing (edit.c), commands and Ctrl-C; otherwise every line of stdin is a turn.
 * Replies and tool calls go to stdout; reasoning goes there too in a terminal (dimmed), else to stderr. */
#include "conversation.h"

#include <stdlib.h>
#include <string.h>

typedef struct talk {
    infer_model *model;
    infer_session *session;
    infer_sampler *sampler;
    cli_common *common;
    uint64_t seed;
    int replies;          /* 1 = the sampler has been used */
    infer_chat_params chat;
    infer_generate_params generate;
    conversation all;
    attachments shown;
    chat_file *file; /* --session; NULL = none */
    size_t stored;   /* bytes of all.json that it has */
    int broken;      /* nothing more can be done: it could not be written, for instance */
    cli_editor *editor;
    int terminal, styles; /* terminal: input is interactive */
    int kind;             /* INFER_CHAT_* that was shown last, 0 = nothing yet */
    infer_chat_parser *last; /* the last reply, whose calls wait for results */
    const char *tool_choice; /* required, or the tool that is to be called; NULL = none */
} talk;

/* ---- showing -------------------------------------------------------------------------------- */

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

/* In a terminal a model's control characters must have no effect. */
static void print_text(const talk *t, const char *s, size_t n, FILE *file) {
    size_t i, start = 0;
    for (i = 0; t->terminal && i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        if ((c >= 32 && c != 127) || c == '\n' || c == '\t') continue;
        fwrite(s + start, 1, i - start, file);
        start = i + 1;
    }
    if (n > start) fwrite(s + start, 1, n - start, file);
}

static int show(void *user, const infer_chat_delta *d) {
    talk *t = (talk *)user;
    FILE *file = d->kind == INFER_CHAT_REASONING && !t->terminal ? stderr : stdout;
    if (cli_run_interrupted()) return 1; /* a Ctrl-C before the call began has not cancelled it */
    cli_progress_end(&cli_prompt_bar);
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
        print_text(t, d->text, d->n, file);
    }
    return fflush(file) != 0;
}

/* ---- a turn --------------------------------------------------------------------------------- */

/* Tokens of the conversation, 0 on failure: the reply then reports why. */
static size_t tokens_of(talk *t) {
    infer_error err;
    size_t count = 0;
    t->chat.messages_json = conversation_close(&t->all);
    if (t->chat.messages_json && infer_chat_format(t->model, &t->chat, NULL, 0, &count, &err) != INFER_OK) count = 0;
    conversation_open(&t->all);
    return count;
}

/* The library drops the oldest turns if less space is left for the reply than requested: an eighth of the context, or
 * the whole reply. Then a quarter is freed, so that it does not happen every turn. */
static int32_t room_to_make(talk *t) {
    const int32_t context = infer_session_capacity(t->session);
    int32_t least = context / 8 > 0 ? context / 8 : 1;
    if (t->generate.max_tokens > 0 && t->generate.max_tokens < least) least = t->generate.max_tokens;
    return tokens_of(t) + (size_t)least > (size_t)context && context / 4 > least ? context / 4 : least;
}

/* Dropped turns are removed from the conversation: otherwise they would be dropped again before each reply, and
 * everything after them evaluated again. */
static void forget_dropped(talk *t, int32_t messages) {
    const int turns = conversation_drop(&t->all, messages);
    if (turns == 0) return;
    fprintf(stderr, "infer chat: the context is full: the oldest %s dropped; --ctx N makes it larger\n",
            turns == 1 ? "turn was" : "turns were");
}

/* --tool-choice: the grammar of a reply to the user, which is calls; none for a reply to what calls returned. */
static int force_calls(talk *t) {
    infer_chat_grammar_params p;
    infer_error err;
    infer_grammar_destroy(t->common->sampling.grammar);
    t->common->sampling.grammar = NULL;
    if (t->last && infer_chat_parser_reply(t->last)->n_calls > 0) return 1;
    memset(&p, 0, sizeof p);
    if (strcmp(t->tool_choice, "required") != 0) {
        p.tool = t->tool_choice;
        p.most = 1;
    }
    if (infer_chat_grammar(&t->common->sampling.grammar, t->model, &t->chat, &p, &err) == INFER_OK) return 1;
    return cli_fail("chat", "--tool-choice: %s", err.message) == CLI_DONE;
}

/* A grammar is followed from its start in every reply, so each gets a sampler of its own. */
static int restart_grammar(talk *t) {
    if (t->common->sampling.grammar == NULL && t->tool_choice == NULL) return 1;
    if (!t->replies++ && t->tool_choice == NULL) return 1;
    infer_sampler_destroy(t->sampler);
    t->sampler = NULL;
    if (t->tool_choice && !force_calls(t)) return 0;
    t->sampler = cli_sampler("chat", t->model, &t->common->sampling, ++t->seed);
    return t->sampler != NULL;
}

static void forget_calls(talk *t) {
    infer_chat_parser_destroy(t->last);
    t->last = NULL;
}

/* What the conversation shows. */
static int gather(talk *t) {
    if (!attach_gather(&t->shown, &t->all)) return 0;
    t->chat.media = t->shown.media;
    t->chat.n_media = t->shown.n_media;
    return 1;
}

/* Reply to the conversation. On failure says why. */
static int reply(talk *t) {
    infer_generate_info info;
    infer_chat_parser *parser = NULL;
    infer_result r;
    if (!gather(t)) return 0;
    if (t->chat.on_full == INFER_CHAT_FULL_DROP) t->chat.room = room_to_make(t);
    t->chat.messages_json = conversation_close(&t->all);
    t->kind = 0;
    if (t->chat.messages_json == NULL || !restart_grammar(t)) {
        conversation_open(&t->all);
        return 0;
    }
    memset(&info, 0, sizeof info);
    cli_run_forget();
    cli_run_begin(t->session);
    r = infer_chat(t->session, t->sampler, &t->chat, &t->generate, &parser, &info);
    cli_run_end();
    change(t, 0);
    fflush(stdout);
    conversation_open(&t->all);
    if (r < 0 || r == INFER_CONTEXT_FULL) {
        if (r == INFER_CONTEXT_FULL)
            cli_fail("chat", "the conversation does not fit into a context of %ld positions (--ctx)",
                     (long)infer_session_capacity(t->session));
        else cli_fail("chat", "%s", infer_session_error(t->session)->message);
        infer_chat_parser_destroy(parser);
        return 0;
    }
    forget_dropped(t, info.dropped);
    if (info.stop_reason == INFER_STOP_FULL) fprintf(stderr, "infer chat: the reply was cut: the context is full (--ctx)\n");
    if (info.stop_reason == INFER_STOP_TIME) fprintf(stderr, "[stopped: the time is up]\n");
    if (cli_run_interrupted()) fprintf(stderr, "[stopped]\n");
    conversation_reply(&t->all, infer_chat_parser_reply(parser));
    forget_calls(t);
    t->last = parser;
    return !t->all.json.failed;
}

/* ---- --session ------------------------------------------------------------------------------ */

/* Messages of the conversation from byte `from` to `to`, as lines. */
static void put_lines(cli_text *out, const char *json, size_t from, size_t to) {
    size_t i;
    if (from < to && json[from] == ',') from += 2;
    for (i = from; i < to; i++) {
        if (json[i] == ',' && i + 1 < to && json[i + 1] == '\n') continue; /* only between messages, for strings escape it */
        cli_text_put("chat", out, json + i, 1);
    }
    if (from < to) cli_text_put("chat", out, "\n", 1);
}

/* Makes the file hold the conversation, up to the last reply; replied: with what was evaluated of it. Returns 0 after
 * saying why it cannot. */
static int store(talk *t, int replied) {
    const int rewrite = t->all.same < t->stored;
    size_t n = conversation_answered(&t->all);
    cli_text lines;
    int ok = 1;
    if (t->file == NULL || t->all.json.failed) return 1;
    if (n <= t->all.system) n = 1; /* the system message comes with the first turn */
    if (n <= t->stored && !rewrite) return 1;
    memset(&lines, 0, sizeof lines);
    put_lines(&lines, t->all.json.s, rewrite ? 1 : t->stored, n);
    if (rewrite && t->all.same <= t->all.system) chat_file_forget(t->file);
    ok = !lines.failed && (rewrite ? chat_file_replace : chat_file_add)(t->file, lines.n ? lines.s : "", lines.n);
    free(lines.s);
    if (ok) {
        t->stored = n;
        t->all.same = t->all.json.n;
        ok = !replied || chat_file_save(t->file, t->session);
    }
    if (!ok) t->broken = 1;
    return ok;
}

/* The conversation of the file so far; a system message must be the one that it began with. */
static int resume(talk *t) {
    char *lines, *begun;
    size_t n, n_begun = t->all.system;
    int ok = chat_file_open(t->file, t->file->path, &lines, &n);
    t->stored = 1;
    begun = ok ? cli_alloc("chat", n_begun, 1) : NULL;
    if (begun && n > 0) {
        memcpy(begun, t->all.json.s, n_begun);
        ok = conversation_resume(&t->all, t->file->path, lines, n);
        t->stored = t->all.json.n;
        if (ok && n_begun > 1 && (t->all.system != n_begun || memcmp(begun, t->all.json.s, n_begun) != 0))
            ok = cli_fail("chat", "the conversation in %s began with %s system message", t->file->path,
                          t->all.system > 1 ? "another" : "no") == CLI_DONE;
    }
    ok = ok && begun != NULL;
    free(begun);
    free(lines);
    return ok;
}

/* Replies, and stores it. Returns 0 if there is no reply (the turn is then unchanged) or nothing more can be stored. */
static int answer(talk *t) { return reply(t) && store(t, 1); }

/* ---- commands of the terminal --------------------------------------------------------------- */

/* Each returns 0 to end the chat. */
static int do_exit(talk *t, const char *argument) {
    (void)t;
    (void)argument;
    return 0;
}

static int do_reset(talk *t, const char *argument) {
    (void)argument;
    forget_calls(t);
    while (conversation_undo(&t->all)) {}
    t->shown.n_next = 0;
    printf("the conversation was reset\n");
    return 1;
}

static int do_undo(talk *t, const char *argument) {
    const char *path = attach_undo(&t->shown);
    (void)argument;
    if (path) return printf("%s is no longer attached\n", path) > 0;
    forget_calls(t);
    printf(conversation_undo(&t->all) ? "the last turn was removed\n" : "nothing to undo\n");
    return 1;
}

static int do_regen(talk *t, const char *argument) {
    (void)argument;
    forget_calls(t);
    if (conversation_take_back(&t->all)) answer(t);
    else printf("no reply to write again\n");
    return 1;
}

static int do_system(talk *t, const char *argument) {
    if (*argument) conversation_set_system(&t->all, argument);
    printf(*argument ? "the system message is set\n" : "usage: /system TEXT\n");
    return 1;
}

static int do_save(talk *t, const char *argument) {
    if (*argument == 0) printf("usage: /save FILE\n");
    else if (conversation_save(&t->all, argument)) printf("saved to %s\n", argument);
    return 1;
}

static int do_load(talk *t, const char *argument) {
    conversation other;
    memset(&other, 0, sizeof other);
    if (*argument == 0) printf("usage: /load FILE\n");
    else if (conversation_load(&other, argument) && !attach_gather(&t->shown, &other)) conversation_free(&other);
    else if (other.json.s) {
        conversation_free(&t->all);
        t->all = other;
        forget_calls(t);
        printf("loaded: %lu %s\n", (unsigned long)t->all.n, t->all.n == 1 ? "turn" : "turns");
    }
    return 1;
}

static int do_attach(talk *t, const char *argument) {
    infer_model_info info;
    if (*argument == 0) printf("usage: /image FILE, /audio FILE\n");
    else if (infer_model_get_info(t->model, &info) == INFER_OK && !info.images && !info.sounds)
        printf("the model was opened without a projector: infer chat MODEL --projector FILE\n");
    else {
        cli_run_forget();
        if (attach(&t->shown, argument)) printf("%s is for the next message\n", argument);
    }
    return 1;
}

static int do_help(talk *t, const char *argument);

static const struct {
    const char *names; /* as options have them */
    const char *argument, *what;
    int (*run)(talk *t, const char *argument);
} COMMANDS[] = {
    {"/help|/?", "", "show this list", do_help},
    {"/reset,/clear|/new", "", "start over; the system message stays", do_reset},
    {"/undo", "", "take back the last turn", do_undo},
    {"/regen|/retry", "", "write the last reply again", do_regen},
    {"/system", "TEXT", "change the system message", do_system},
    {"/image,/audio", "FILE", "show the model a picture or sound with the next message", do_attach},
    {"/save", "FILE", "write the conversation as JSON", do_save},
    {"/load", "FILE", "continue a saved conversation", do_load},
    {"/exit,/bye|/quit", "", "end the chat, as Ctrl-D does", do_exit},
};
enum { N_COMMANDS = (int)(sizeof COMMANDS / sizeof COMMANDS[0]) };

static int do_help(talk *t, const char *argument) {
    int i;
    (void)t;
    (void)argument;
    for (i = 0; i < N_COMMANDS; i++)
        printf("  %-13.*s %-5s %s\n", (int)strcspn(COMMANDS[i].names, "|"), COMMANDS[i].names, COMMANDS[i].argument, COMMANDS[i].what);
    printf("  Ctrl-C              stop the reply, or clear the line\n"
           "  Alt-Enter           start a new line, as \\ at the end of a line does; pasted lines stay one turn\n"
           "  //                  at the start of a line: send a / to the model\n");
    return 1;
}

/* Runs the command in `line`. Returns 0 to end the chat. */
static int command(talk *t, const char *line) {
    const size_t n = strcspn(line, " \t");
    const char *s, *argument = line + n + strspn(line + n, " \t");
    int i, k, len;
    for (i = 0; i < N_COMMANDS; i++) {
        for (k = 0; (s = cli_spelling(COMMANDS[i].names, k, &len)) != NULL; k++) {
            if ((size_t)len == n && memcmp(s, line, n) == 0) return COMMANDS[i].run(t, argument) && store(t, 0);
        }
    }
    printf("unknown command %.*s; /help lists the commands\n", (int)n, line);
    return 1;
}

/* ---- the conversation ----------------------------------------------------------------------- */

/* Results of the calls of the last reply, a line each. Returns 0 at the end of input. */
static int results(talk *t) {
    const infer_chat_reply *r = infer_chat_parser_reply(t->last);
    const char *line;
    char prompt[300];
    size_t i, n;
    int is;
    for (i = 0; i < r->n_calls; i++) {
        snprintf(prompt, sizeof prompt, "result of %.200s> ", r->calls[i].name);
        do is = cli_edit(t->editor, prompt, &line, &n);
        while (is == CLI_LINE_CLEARED);
        if (is == CLI_LINE_END) return 0;
        conversation_result(&t->all, &r->calls[i], line, n);
    }
    return 1;
}

/* A user's message, with what is attached. Returns 0 after saying why not. */
static int say(talk *t, const char *text, size_t n) {
    const int ok = conversation_say(&t->all, text, n, t->shown.next, t->shown.n_next);
    if (ok) t->shown.n_next = 0;
    return ok;
}

/* A turn of the user: 1 = a reply is due, 0 = there is nothing to reply to, -1 = end of input. */
static int listen(talk *t) {
    const char *line;
    size_t n;
    int is = cli_edit(t->editor, "> ", &line, &n);
    if (is == CLI_LINE_END) return -1;
    if (is == CLI_LINE_CLEARED || n == 0) return 0;
    if (t->terminal && line[0] == '/' && line[1] != '/') return command(t, line) ? 0 : -1;
    if (t->terminal && line[0] == '/') {
        line++;
        n--;
    }
    if (say(t, line, n)) return 1;
    if (!t->terminal) t->broken = 1;
    return 0;
}

static int converse(talk *t) {
    int ok = 1, heard;
    if (t->terminal) printf("/help lists commands; Ctrl-D ends\n");
    if (t->terminal && t->file && t->all.n)
        printf("%s: %lu %s so far\n", t->file->path, (unsigned long)t->all.n, t->all.n == 1 ? "turn" : "turns");
    while (!t->broken && !t->all.json.failed && !cli_edit_failed(t->editor)) {
        if (infer_chat_parser_reply(t->last)->n_calls > 0) heard = results(t) ? 1 : -1;
        else heard = listen(t);
        if (heard < 0) break;
        if (heard == 0 || answer(t)) continue;
        ok = 0;
        if (!t->terminal || t->broken) break;
        forget_calls(t);
        if (!t->all.json.failed && conversation_undo(&t->all)) fprintf(stderr, "infer chat: the last turn was taken back\n");
        store(t, 0);
    }
    if (t->terminal) ok = 1;
    return ok && !t->broken && !t->all.json.failed && !cli_edit_failed(t->editor);
}

/* ---- the command ---------------------------------------------------------------------------- */

typedef struct request {
    const char *system, *system_path, *tools_path, *tool_choice, *template_path, *begun, *text, *text_path, *session;
    cli_list stop, stop_ids;
    infer_token *stop_tokens; /* those of stop_ids */
    int64_t limit, thinking, thinking_tokens, color, on_full;
    double seconds;
    int lookup, mtp, chatml, escapes, go_on;
    char *prompt; /* the first turn, or NULL */
    size_t n_prompt;
} request;

/* Finds template errors before the first turn: renders the system message and a turn. */
static int try_template(talk *t) {
    infer_rendering *made = NULL;
    infer_error err;
    infer_result r;
    if (!gather(t)) return 0;
    conversation_say(&t->all, "x", 1, NULL, 0);
    t->chat.messages_json = conversation_close(&t->all);
    if (t->chat.messages_json == NULL) return 0;
    r = infer_chat_render(t->model, &t->chat, &made, &err);
    infer_rendering_free(made);
    conversation_open(&t->all);
    conversation_undo(&t->all);
    if (r == INFER_ERR_UNSUPPORTED && !t->chat.allow_chatml && strstr(err.message, "allow_chatml"))
        cli_fail("chat", "the file has no chat template; --chatml uses ChatML, --template FILE one of yours");
    else if (r != INFER_OK) cli_fail("chat", "%s", err.message);
    return r == INFER_OK;
}

/* The conversation itself, once all objects exist. */
static int begin(talk *t, const request *q) {
    int ok = 1, i;
    const int alone = q->prompt && !q->go_on;
    t->terminal = !alone && platform_is_terminal(stdin);
    t->styles = q->color == 1 || (q->color == 0 && t->terminal && platform_styles(stdout));
    if (t->terminal || (alone && platform_is_terminal(stdout))) cli_catch_interrupts();
    if (!alone && (t->editor = cli_editor_open(t->styles)) == NULL) return 0;
    for (i = 0; ok && i < t->common->media.n; i++) ok = attach(&t->shown, t->common->media.items[i]);
    if (ok && q->prompt) ok = say(t, q->prompt, q->n_prompt) && answer(t);
    return ok && (alone || converse(t));
}

static int with_model(infer_model *model, const request *q, cli_common *common, talk *t) {
    infer_context_params params;
    infer_context *context = NULL;
    int ok = 0;
    t->model = t->shown.model = model;
    t->shown.common = t->common = common;
    t->seed = common->seed_given ? (uint64_t)common->seed : cli_random_seed();
    conversation_begin(&t->all, q->system);
    t->chat.allow_chatml = q->chatml;
    t->chat.thinking = q->thinking == 0 ? 1 : q->thinking == 1 ? -1 : 0;
    t->chat.thinking_tokens = (int32_t)q->thinking_tokens;
    t->chat.begun = q->begun;
    t->tool_choice = q->tool_choice;
    t->generate.lookup = q->lookup;
    t->generate.mtp = q->mtp;
    t->chat.fn = show;
    t->chat.user = t;
    t->generate.max_tokens = q->limit > 0 ? (int32_t)q->limit : 0;
    t->generate.stop = q->stop.items;
    t->generate.n_stop = q->stop.n;
    t->generate.stop_tokens = q->stop_tokens;
    t->generate.n_stop_tokens = q->stop_ids.n;
    t->generate.seconds = q->seconds;
    t->chat.on_full = q->on_full == 1 ? INFER_CHAT_FULL_STOP : INFER_CHAT_FULL_DROP;
    if ((t->file && !resume(t)) || !try_template(t)) {
        attach_free(&t->shown);
        return 0;
    }
    if (cli_grammar("chat", model, &common->sampling)) t->sampler = cli_sampler("chat", model, &common->sampling, t->seed);
    cli_context_params(common, &params);
    if (t->sampler && cli_session("chat", model, &params, cli_cells(common, model, 0), &context, &t->session) &&
        (t->file == NULL || chat_file_load(t->file, t->session)))
        ok = begin(t, q);
    cli_editor_close(t->editor);
    forget_calls(t);
    attach_free(&t->shown);
    infer_session_destroy(t->session);
    infer_context_destroy(context);
    infer_sampler_destroy(t->sampler);
    infer_grammar_destroy(common->sampling.grammar);
    return ok;
}

/* Reads the texts that options name, then runs the conversation. */
static int with_texts(request *q, const char *path, cli_common *common) {
    talk t;
    chat_file file;
    infer_model *model = NULL;
    char *tools = NULL, *source = NULL, *system = NULL;
    const char *name;
    size_t n;
    int ok;
    memset(&t, 0, sizeof t);
    memset(&file, 0, sizeof file);
    file.path = q->session;
    if (q->session) t.file = &file;
    ok = cli_list_ids("chat", "--stop-token", &q->stop_ids, &q->stop_tokens);
    if (ok && (q->text || q->text_path)) ok = (q->prompt = cli_prompt("chat", q->text, q->text_path, q->escapes, &q->n_prompt)) != NULL;
    if (ok && q->system_path) ok = (q->system = system = cli_prompt("chat", NULL, q->system_path, 0, &n)) != NULL;
    if (ok && q->tools_path) ok = (tools = cli_read_text("chat", q->tools_path, &n, &name)) != NULL;
    if (ok && q->template_path) ok = (source = cli_read_text("chat", q->template_path, &n, &name)) != NULL;
    t.chat.tools_json = tools;
    t.chat.template_text = source;
    common->mtp = q->mtp;
    if (ok) model = cli_open("chat", path, common, 0);
    ok = model != NULL && with_model(model, q, common, &t);
    cli_model_close(model);
    conversation_free(&t.all);
    chat_file_close(&file);
    free(tools);
    free(source);
    free(system);
    free(q->prompt);
    return ok;
}

int cmd_chat(int argc, char **argv) {
    const char *args[2];
    request q;
    int single = 0, plain = 0;
    const cli_option options[] = {
        {"-p,--prompt", OPT_STRING, &q.text, "TEXT", "ask this, print the reply and exit (-i: and go on)", 0, 0},
        {"-f,--file", OPT_STRING, &q.text_path, "FILE", "the same with a file's text; - is stdin", 0, 0},
        {"-e,--escape", OPT_FLAG, &q.escapes, NULL, "\\n, \\t and so on in it stand for newline, tab ...", 0, 0},
        {"-i,-cnv|--interactive,--conversation,--interactive-first", OPT_FLAG, &q.go_on, NULL, "continue the conversation after -p or -f", 0, 0},
        {"-sys,--system|--system-prompt", OPT_STRING, &q.system, "TEXT", "the system message", 0, 0},
        {"-sysf,--system-file|--system-prompt-file", OPT_STRING, &q.system_path, "FILE", "the system message, from a file", 0, 0},
        {"--tools", OPT_STRING, &q.tools_path, "FILE|TEXT", "tools that the model may call: a JSON list", 0, 0},
        {"--tool-choice", OPT_STRING, &q.tool_choice, "NAME", "make the reply to a turn a call of this tool; required: of any tools", 0, 0},
        {"--thinking|--think", OPT_CHOICE, &q.thinking, "on|off", "switch reasoning, if the template has a switch", 0, 0},
        {"--think-tokens", OPT_INT, &q.thinking_tokens, "N", "end reasoning after N tokens", 1, INT32_MAX / 2},
        {"--begin", OPT_TEXT, &q.begun, "TEXT", "start every reply with this text (@FILE: a file's)", 0, 0},
        {"--lookup", OPT_FLAG, &q.lookup, NULL, "speculate from earlier text: the same output, faster", 0, 0},
        {"--mtp", OPT_FLAG, &q.mtp, NULL, "speculate with the model's own multi-token prediction blocks", 0, 0},
        {"-n|--predict,--n-predict", OPT_INT, &q.limit, "N", "maximum number of tokens per reply (default: no limit)", -1, INT32_MAX / 2},
        {"--stop|-r,--reverse-prompt", OPT_LIST, &q.stop, "TEXT", "end a reply before this text; may be repeated", 0, 0},
        {"--stop-token", OPT_LIST, &q.stop_ids, "ID", "end a reply at this token; may be repeated", 0, 0},
        {"--seconds", OPT_FLOAT, &q.seconds, "S", "stop a reply after S seconds", 0, 0},
        {"--on-full", OPT_CHOICE, &q.on_full, "drop|stop", "when the context is full: drop the oldest turns (default), or fail", 0, 0},
        {"--session", OPT_STRING, &q.session, "FILE", "keep the conversation in FILE; continue the one it holds", 0, 0},
        CLI_TEMPLATE_OPTIONS(q),
        {"--color|-co", OPT_SWITCH, &q.color, NULL, "bold prompt, dimmed reasoning (default: auto)", 0, 0},
        {"-st,--single-turn", OPT_FLAG, &single, NULL, NULL, 0, 0},
        {"-no-cnv,--no-conversation", OPT_INSTEAD, &plain, NULL, NULL, 0, 0},
    };
    const cli_spec spec = {"chat",
                           "MODEL",
                           "Chat with a model, using its own chat template. In a terminal, /help lists the commands.\n"
                           "When stdin is not a terminal, every line of it is a turn. Tool calls are printed as JSON,\n"
                           "one per line: {\"id\", \"name\", \"arguments\"}; the next lines of input, one per call, are\n"
                           "their results. Reasoning is dimmed in a terminal and goes to stderr otherwise. When the\n"
                           "context is full, the oldest turns are dropped, from the file of --session too; the system\n"
                           "message stays. That file has a message per line, as JSON; FILE.state, beside it, has what the\n"
                           "model evaluated of them, which only saves time.\n",
                           options,
                           (int)(sizeof options / sizeof options[0]),
                           TAKES_MODEL | TAKES_DEVICE | TAKES_COMPUTE | TAKES_CONTEXT | TAKES_ADAPTERS | TAKES_SEED | TAKES_SAMPLING | TAKES_MEDIA | TAKES_PROJECTOR,
                           1,
                           2};
    cli_common common;
    int status, ok;
    memset(&q, 0, sizeof q);
    q.thinking = -1;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (plain) return cmd_run(argc, argv); /* which reads the same words */
    if (args[1] && q.text == NULL) {
        q.text = args[1];
        args[1] = NULL;
    }
    if (args[1] || (q.text && q.text_path)) return cli_usage_error("chat", "give one of TEXT, -p TEXT and -f FILE");
    if (q.system && q.system_path) return cli_usage_error("chat", "give one of --system and --system-file");
    if (q.tool_choice && q.tools_path == NULL) return cli_usage_error("chat", "--tool-choice needs --tools");
    if (q.tool_choice && (common.sampling.grammar_text || common.sampling.schema_text || common.sampling.json_object || q.begun))
        return cli_usage_error("chat", "--tool-choice excludes --grammar, --schema, --json-object and --begin");
    if (single && q.text == NULL && q.text_path == NULL) return cli_usage_error("chat", "-st needs -p TEXT or -f FILE");
    if (single) q.go_on = 0;
    ok = with_texts(&q, args[0], &common);
    status = ok ? CLI_DONE : CLI_FAILED;
    if (cli_run_interrupted() && q.n_prompt && !q.go_on) status = CLI_INTERRUPTED;
    free(q.stop_tokens);
    return status;
}
