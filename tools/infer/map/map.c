/* map.c: `infer map`: its options, and what is said at the end. */
#include "map.h"

#include <stdlib.h>
#include <string.h>

int map_open_output(map *m) {
    const map_options *o = m->options;
    if (strcmp(o->out, "-") == 0) m->out = stdout;
    else m->out = platform_fopen(o->out, o->resume ? "ab" : "wb");
    if (m->out == NULL) return cli_fail(serve_command, "cannot write %s", o->out) == CLI_DONE;
    m->started = platform_clock();
    return map_read_start(m);
}

/* One line, whatever happened. Returns the exit status. */
static int report(const map *m) {
    const map_options *o = m->options;
    const double seconds = platform_clock() - m->started;
    char why[PLATFORM_PATH + 64] = "", before[64] = "", rate[128] = "";
    if (m->unwritten == 2) snprintf(why, sizeof why, "out of memory; ");
    else if (m->unwritten) snprintf(why, sizeof why, "cannot write %s; ", m->out == stdout ? "to stdout" : o->out);
    else if (m->broken) snprintf(why, sizeof why, "cannot read %s to its end; ", m->in == stdin ? "stdin" : o->in);
    else if (m->signals) snprintf(why, sizeof why, "interrupted; ");
    if (m->failed_before) snprintf(before, sizeof before, " (%llu of them failed)", (unsigned long long)m->failed_before);
    if (!o->embed)
        snprintf(rate, sizeof rate, " and %llu new ones in %.2f s, %.2f new tokens/s", (unsigned long long)m->new_tokens, seconds,
                 seconds > 0 ? (double)m->new_tokens / seconds : 0.0);
    else snprintf(rate, sizeof rate, " in %.2f s, %.2f tokens/s", seconds, seconds > 0 ? (double)m->prompt_tokens / seconds : 0.0);
    fprintf(stderr, "infer map: %s%llu lines: %llu answered, %llu failed, %llu written before%s; %llu prompt tokens%s\n", why,
            (unsigned long long)(m->answered + m->failed + m->there), (unsigned long long)m->answered, (unsigned long long)m->failed,
            (unsigned long long)m->there, before, (unsigned long long)m->prompt_tokens, rate);
    if (m->unwritten || m->broken) return CLI_FAILED;
    if (m->signals) return CLI_INTERRUPTED;
    return (m->failed || m->failed_before) && !o->allow_failed ? CLI_FAILED : CLI_DONE;
}

/* "K/N": 0 <= K < N. */
static int read_part(map *m, const char *text) {
    char *end;
    m->parts = 1;
    if (text == NULL) return 1;
    m->part = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || end[0] != '/' || end[1] < '1' || end[1] > '9') return 0;
    m->parts = strtoul(end + 1, &end, 10);
    return *end == 0 && m->part < m->parts;
}

static int run(map *m) {
    const map_options *o = m->options;
    int status;
    m->in = strcmp(o->in, "-") == 0 ? stdin : platform_fopen(o->in, "rb");
    if (m->in == NULL) return cli_fail(serve_command, "cannot read %s", o->in);
    if (o->resume && !map_ids_written(&m->ids, o->out, &m->failed_before)) return CLI_FAILED;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    pthread_cond_init(&m->room, NULL);
    if (!system_signals()) return cli_fail(serve_command, "signals cannot be handled");
    if (!(o->embed ? map_vectors(m) : map_answer(m))) return CLI_FAILED;
    if (m->out != stdout && fclose(m->out) != 0) m->unwritten = 1;
    pthread_mutex_lock(&m->lock); /* the thread that reads may still be there */
    status = report(m);
    pthread_mutex_unlock(&m->lock);
    while (m->head) {
        map_item *it = m->head;
        m->head = it->next;
        map_item_free(it);
    }
    map_ids_free(&m->ids);
    return status;
}

int cmd_map(int argc, char **argv) {
    static map m; /* the thread that reads may outlive this function */
    map_options o;
    const char *args[1], *name;
    size_t n;
    const cli_option options[] = {
        {"--in", OPT_STRING, &o.in, "FILE", "the requests, one JSON object per line (default: -, stdin)", 0, 0},
        {"--out", OPT_STRING, &o.out, "FILE", "the replies, one JSON object per line (default: -, stdout)", 0, 0},
        {"--resume", OPT_FLAG, &o.resume, NULL, "go on where --out ends: lines whose ids it has are skipped, and a last line that is cut short is removed", 0, 0},
        {"--unordered", OPT_FLAG, &o.unordered, NULL, "write replies as they come, not in the order of the lines", 0, 0},
        {"--part", OPT_STRING, &o.part, "K/N", "take every N-th line, from line K + 1 on: one of N processes, K from 0", 0, 0},
        {"--allow-failed", OPT_FLAG, &o.allow_failed, NULL, "exit status 0 also when lines failed: the errors are in the output", 0, 0},
        {"--embed", OPT_FLAG, &o.embed, NULL, "lines are {\"id\", \"text\"}: write a vector for each", 0, 0},
        {"-n|--predict,--n-predict", OPT_INT, &o.limit, "N", "maximum number of tokens for lines without max_tokens (default: 128 for a prompt, no limit for messages); -1 = no limit", -1, INT32_MAX / 2},
        {"--max-line", OPT_SIZE, &o.max_line, "SIZE", "longest line, and what all lines between reading and writing may take (default: 16M)", 1, 1 << 30},
        SERVE_SLOT_OPTIONS(m.serve),
        {"--grace", OPT_INT, &m.serve.grace, "S", "seconds for running replies to end after Ctrl-C or SIGTERM (default: 10)", 0, 86400},
        {"--media-path", OPT_STRING, &m.serve.media_path, "DIR", "messages may name files below DIR: file://NAME (default: they name no files)", 0, 0},
        SERVE_CHAT_OPTIONS(m.serve),
    };
    const cli_spec spec = {"map",
                           "MODEL --in FILE --out FILE",
                           "Answer requests that are lines of JSON, many at a time:\n"
                           "  {\"id\", \"prompt\" or \"messages\", \"max_tokens\", \"temperature\", \"seed\", \"stop\", \"schema\", ...}\n"
                           "The parameters are those of OpenAI's interfaces that `infer serve` has; sampling options are the defaults.\n"
                           "Each becomes a line, in the same order:\n"
                           "  {\"id\", \"text\", \"tokens\", \"finish_reason\", \"usage\"} or {\"id\", \"line\", \"error\"}\n"
                           "Without an id it is the line's number. Exit status 1: lines failed; the counts are on stderr.\n"
                           "docs/many-machines.md: all of it, and how to run it on many machines.\n",
                           options,
                           (int)(sizeof options / sizeof options[0]),
                           SERVE_TAKES,
                           1,
                           1};
    cli_common common;
    int status;
    memset(&o, 0, sizeof o);
    o.in = o.out = "-";
    o.limit = MAP_LIMIT_USUAL;
    o.max_line = 16 << 20;
    m.serve.slots = SERVE_SLOTS;
    m.serve.waiting = 1 << 20;
    m.serve.grace = SERVE_GRACE;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (o.limit == 0) return cli_usage_error("map", "-n: expected 1 or more, or -1 for no limit, got 0");
    serve_command = "map";
    m.options = &o;
    m.common = m.serve.common = &common;
    m.serve.model = args[0];
    m.serve.max_body = o.max_line;
    if (!read_part(&m, o.part)) return cli_usage_error("map", "--part: expected K/N, such as 0/4 to 3/4, got '%s'", o.part);
    if (o.resume && strcmp(o.out, "-") == 0) return cli_usage_error("map", "--resume needs --out FILE");
    if (!cli_check_output("map", o.out, (const char *const[]){args[0], o.in}, 2)) return CLI_USAGE;
    if (m.serve.media_path && platform_path_kind(m.serve.media_path) != PLATFORM_FOLDER)
        return cli_fail("map", "--media-path: %s: no such folder", m.serve.media_path);
    if (m.serve.template_path && (m.serve.template_text = cli_read_text("map", m.serve.template_path, &n, &name)) == NULL) return CLI_FAILED;
    status = run(&m);
    free(m.serve.template_text);
    return status;
}
