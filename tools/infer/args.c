/* args.c: parses a command line by the command's table of options.
 *
 * A command describes its options in an array of cli_option and names the groups of shared ones it takes (options.c).
 * Options and other words may be mixed; "--" ends the options. Values follow as the next word, as --name=value, and
 * numbers also directly (-n4). Every wrong usage is one line on stderr and exit status 2. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char SWITCH[] = "auto|on|off";

/* ---- names ---------------------------------------------------------------------------------- */

const char *cli_spelling(const char *names, int i, int *n) {
    for (;; i--) {
        size_t len = strcspn(names, ",|");
        if (len == 0) return NULL;
        *n = (int)len;
        if (i == 0) return names;
        names += len;
        if (*names == 0) return NULL;
        names++;
    }
}

static int has_spelling(const char *names, const char *word, size_t n) {
    const char *s;
    int i, len;
    for (i = 0; (s = cli_spelling(names, i, &len)) != NULL; i++) {
        if ((size_t)len == n && memcmp(s, word, n) == 0) return 1;
    }
    return 0;
}

typedef struct parser {
    const cli_spec *spec;
    const cli_option *shared;
    int n_shared;
    int argc;
    char **argv;
} parser;

/* The command's own options come before shared ones of the same name. */
static const cli_option *find_option(const parser *p, const char *word, size_t n) {
    int i;
    for (i = 0; i < p->spec->n_options; i++) {
        if (has_spelling(p->spec->options[i].name, word, n)) return &p->spec->options[i];
    }
    for (i = 0; i < p->n_shared; i++) {
        if (has_spelling(p->shared[i].name, word, n)) return &p->shared[i];
    }
    return NULL;
}

int cli_edit_distance(const char *a, size_t n_a, const char *b, size_t n_b) {
    enum { MAX = 40 };
    int rows[3][MAX + 1], *before = rows[0], *last = rows[1], *now = rows[2], *spare;
    size_t i, k;
    if (n_a > MAX || n_b > MAX) return MAX;
    for (k = 0; k <= n_b; k++) last[k] = before[k] = (int)k;
    for (i = 1; i <= n_a; i++) {
        now[0] = (int)i;
        for (k = 1; k <= n_b; k++) {
            int best = last[k - 1] + (a[i - 1] != b[k - 1]);
            if (last[k] + 1 < best) best = last[k] + 1;
            if (now[k - 1] + 1 < best) best = now[k - 1] + 1;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] && before[k - 2] + 1 < best)
                best = before[k - 2] + 1;
            now[k] = best;
        }
        spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[n_b];
}

/* The spelling nearest to the n bytes at word, to `best` if it beats *distance. */
static void nearest(const cli_option *list, int n_list, const char *word, size_t n, int *distance, char best[64]) {
    const char *s;
    int i, k, len, d;
    for (i = 0; i < n_list; i++) {
        for (k = 0; (s = cli_spelling(list[i].name, k, &len)) != NULL; k++) {
            d = cli_edit_distance(word, n, s, (size_t)len);
            if (d >= *distance) continue;
            *distance = d;
            snprintf(best, 64, "%.*s", len, s);
        }
    }
}

/* A command stands in for another once: run for chat, or chat for run. */
static int instead_taken;

/* Does a word from i on say that another command is meant? Then its flag is set. */
static int instead(const parser *p, int i) {
    for (; i < p->argc && !instead_taken; i++) {
        const cli_option *o = find_option(p, p->argv[i], strlen(p->argv[i]));
        if (o == NULL || o->kind != OPT_INSTEAD) continue;
        *(int *)o->value = instead_taken = 1;
        return 1;
    }
    return 0;
}

static int unknown_option(const parser *p, const char *word) {
    size_t n = strcspn(word, "=");
    int distance = n < 4 ? 0 : n < 7 ? 2 : n < 12 ? 3 : 4; /* one more than what still counts as a slip */
    char best[64] = "";
    nearest(p->spec->options, p->spec->n_options, word, n, &distance, best);
    nearest(p->shared, p->n_shared, word, n, &distance, best);
    if (best[0])
        cli_usage_error(p->spec->command, "unknown option %.*s: did you mean %s?", (int)(n < 60 ? n : 60), word, best);
    else
        cli_usage_error(p->spec->command, "unknown option %.*s", (int)(n < 60 ? n : 60), word);
    return 0;
}

/* ---- values --------------------------------------------------------------------------------- */

static int parse_choice(const char *words, const char *text) {
    size_t n = strlen(text);
    int index = 0;
    while (*words) {
        const char *end = strchr(words, '|');
        size_t len = end ? (size_t)(end - words) : strlen(words);
        if (len == n && memcmp(words, text, n) == 0) return index;
        words += len + (end ? 1 : 0);
        index++;
    }
    return -1;
}

/* whole_only: 0 = a fraction is left out. */
static int parse_number(const char *text, int whole_only, int64_t *out) {
    static const char UNITS[] = "kmgt";
    char *end;
    const char *unit;
    double x, step = 1024, scale = 1;
    long long whole;
    errno = 0;
    whole = strtoll(text, &end, 10);
    *out = whole;
    if (end == text || errno != 0) return 0;
    if (*end == 0) return 1;
    if (text[strspn(text, "0123456789.")] != *end && *end != '.') return 0; /* a sign, or spaces */
    x = strtod(text, &end);
    unit = *end ? strchr(UNITS, *end | 32) : NULL;
    if (unit == NULL || !(x >= 0)) return 0;
    end++;
    if ((*end | 32) == 'b' && end[1] == 0) step = 1000;
    else if (!(*end == 0 || ((*end | 32) == 'i' && (end[1] | 32) == 'b' && end[2] == 0))) return 0;
    for (; unit >= UNITS; unit--) scale *= step;
    x *= scale;
    if ((whole_only && x != floor(x)) || x >= 9.2e18) return 0;
    *out = (int64_t)x;
    return 1;
}
int cli_parse_count(const char *text, int64_t *out) { return parse_number(text, 1, out); }

/* Texts of OPT_TEXT that were read from files, and items of lists; freed when the program ends. */
static void **kept;
static int n_kept;

void cli_args_free(void) {
    while (n_kept > 0) free(kept[--n_kept]);
    free(kept);
    kept = NULL;
}

/* Where p is kept, or a new place; -1 = out of memory. */
static int place_of(const char *command, const void *p) {
    void **grown;
    int i;
    for (i = 0; p && i < n_kept; i++)
        if (kept[i] == p) return i;
    grown = cli_grow(command, kept, (size_t)n_kept + 1, sizeof *grown);
    if (grown == NULL) return -1;
    kept = grown;
    kept[n_kept] = NULL;
    return n_kept++;
}

int cli_list_add(const char *command, cli_list *list, const char *item) {
    const int at = place_of(command, (const void *)list->items);
    const char **items = at < 0 ? NULL : cli_grow(command, kept[at], (size_t)list->n + 1, sizeof *items);
    if (items == NULL) return 0;
    items[list->n++] = item;
    list->items = items;
    kept[at] = (void *)items;
    return 1;
}

static int set_text(const char *command, const char *name, const char **value, const char *text) {
    char *data;
    size_t n;
    int at;
    *value = text;
    if (text[0] != '@') return 1;
    *value = text + 1;
    if (text[1] == '@') return 1; /* a text that begins with @ */
    at = place_of(command, NULL);
    if (at < 0) return 0;
    kept[at] = data = cli_read_file(command, text + 1, &n);
    if (data == NULL) return 0;
    *value = data;
    if (strlen(data) == n) return 1;
    cli_fail(command, "%s: %s holds a zero byte", name, text + 1);
    return 0;
}

static int set_number(const char *command, const cli_option *o, const char *name, const char *text) {
    const int64_t hi = o->lo == 0 && o->hi == 0 ? INT64_MAX : o->hi;
    int64_t x = 0;
    int ok = parse_number(text, o->kind != OPT_SIZE, &x);
    if (o->kind == OPT_LAYERS && (strcmp(text, "all") == 0 || strcmp(text, "auto") == 0 || strcmp(text, "none") == 0)) {
        *(int64_t *)o->value = text[1] == 'l' ? hi : text[1] == 'u' ? 0 : -1;
        return 1;
    }
    if (ok && x >= o->lo && x <= hi) {
        *(int64_t *)o->value = o->kind == OPT_LAYERS && x == 0 ? -1 : x;
        return 1;
    }
    if (!ok && o->kind == OPT_SIZE)
        cli_usage_error(command, "%s: expected a size such as 800K, 500M or 4.2G, got '%s'", name, text);
    else if (hi >= INT32_MAX / 2)
        cli_usage_error(command, "%s: expected a whole number, %lld or more, got '%s'", name, (long long)o->lo, text);
    else
        cli_usage_error(command, "%s: expected %lld to %lld%s, got '%s'", name, (long long)o->lo, (long long)hi,
                        o->kind == OPT_LAYERS ? ", all, auto or none" : "", text);
    return 0;
}

/* Store one option's value. Returns 0 after saying what is wrong; *failed: it was not the usage. */
static int set_option(const char *command, const cli_option *o, const char *name, const char *text, int *failed) {
    char *end = NULL;
    double x;
    int k;
    switch (o->kind) {
    case OPT_STRING: *(const char **)o->value = text; return 1;
    case OPT_TEXT:
        *failed = !set_text(command, name, (const char **)o->value, text);
        return !*failed;
    case OPT_LIST:
        *failed = !cli_list_add(command, o->value, text);
        return !*failed;
    case OPT_CHOICE:
    case OPT_SWITCH:
        k = parse_choice(o->kind == OPT_SWITCH ? SWITCH : o->arg, text);
        if (k >= 0) *(int64_t *)o->value = k;
        else cli_usage_error(command, "%s: expected %s, got '%s'", name, o->kind == OPT_SWITCH ? SWITCH : o->arg, text);
        return k >= 0;
    case OPT_FLOAT:
        x = strtod(text, &end);
        if (end == text || *end != 0 || !(x >= -1e30 && x <= 1e30)) {
            cli_usage_error(command, "%s: expected a number, got '%s'", name, text);
            return 0;
        }
        *(double *)o->value = x;
        return 1;
    default: return set_number(command, o, name, text);
    }
}

/* ---- one option ----------------------------------------------------------------------------- */

/* Is the word after an option with an optional on|off|auto its value? */
static int next_is_switch(const parser *p, int i) { return i + 1 < p->argc && parse_choice(SWITCH, p->argv[i + 1]) >= 0; }

/* Options of other programs: 1 = skipped with a note, 0 = refused, -1 = not one of them. */
static int take_habit(const parser *p, int *i) {
    const char *word = p->argv[*i];
    size_t n = strcspn(word, "=");
    int n_habits, k;
    const cli_habit *habits = cli_habits(&n_habits);
    for (k = 0; k < n_habits; k++) {
        const cli_habit *h = &habits[k];
        if (!has_spelling(h->names, word, n)) continue;
        if (h->kind == HABIT_REFUSED) {
            cli_usage_error(p->spec->command, "%.*s: %s", (int)n, word, h->text);
            return 0;
        }
        fprintf(stderr, "infer %s: %.*s: %s\n", p->spec->command, (int)n, word, h->text);
        if (word[n] == 0 && (h->kind == HABIT_VALUE || (h->kind == HABIT_SWITCH && next_is_switch(p, *i)))) ++*i;
        return 1;
    }
    return -1;
}

/* "-n4": the option whose name the word begins with and whose number is the rest; *n = bytes of the name. */
static const cli_option *find_attached(const parser *p, const char *word, size_t *n) {
    const cli_option *o;
    if (word[1] == '-') return NULL;
    for (*n = strcspn(word, "0123456789"); *n >= 2 && word[*n]; --*n) {
        if (word[*n] != '-' && (word[*n] < '0' || word[*n] > '9')) break;
        o = find_option(p, word, *n);
        if (o && (o->kind == OPT_INT || o->kind == OPT_SIZE || o->kind == OPT_FLOAT || o->kind == OPT_LAYERS)) return o;
    }
    return NULL;
}

/* The option at argv[*i], which may use the next word too. WRONG after saying what is wrong; INSTEAD: another command is
 * meant. */
enum { WRONG, TAKEN, INSTEAD };
static int take_option(const parser *p, int *i, int *failed) {
    const char *word = p->argv[*i], *text = NULL;
    size_t n = strlen(word);
    const cli_option *o = find_option(p, word, n);
    char name[64];
    if (o == NULL && strchr(word, '=')) {
        n = strcspn(word, "=");
        o = find_option(p, word, n);
        text = word + n + 1;
    }
    if (o == NULL && (o = find_attached(p, word, &n)) != NULL) text = word + n;
    if (o == NULL) {
        int known = take_habit(p, i);
        return known >= 0 ? known : instead(p, *i) ? INSTEAD : unknown_option(p, word);
    }
    snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), word);
    if (o->kind == OPT_INSTEAD && text == NULL) return instead(p, *i) ? INSTEAD : TAKEN;
    if (o->kind == OPT_FLAG || o->kind == OPT_INSTEAD) {
        if (text) cli_usage_error(p->spec->command, "%s takes no value", name);
        *(int *)o->value = 1;
        return text == NULL;
    }
    if (text == NULL && o->kind == OPT_SWITCH && !next_is_switch(p, *i)) text = "on";
    if (text == NULL) {
        if (*i + 1 >= p->argc) {
            cli_usage_error(p->spec->command, "%s needs a value", name);
            return 0;
        }
        text = p->argv[++*i];
    }
    return set_option(p->spec->command, o, name, text, failed);
}

/* ---- the command line ----------------------------------------------------------------------- */

static cli_visit_fn visit_fn;
static void *visit_user;
void cli_visit(const cli_command *command, cli_visit_fn fn, void *user) {
    visit_fn = fn;
    visit_user = user;
    command->run(0, NULL);
    visit_fn = NULL;
}

uint64_t cli_random_seed(void) {
    double clock = platform_clock();
    uint64_t x = (uint64_t)time(NULL) ^ (uint64_t)(clock * 1e9) ^ ((uint64_t)platform_process() << 32);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u; /* mixed as splitmix64 does (Steele, Lea, Flood 2014) */
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) & 0x7fffffff;
}

static int is_option(const char *word) { return word[0] == '-' && word[1] != 0; }

enum { NOT_GIVEN = -2 };

static void set_defaults(cli_common *c) {
    memset(c, 0, sizeof *c);
    c->seed = c->kv_keys = c->kv_values = c->ctx = NOT_GIVEN;
    c->device = -1;
}

/* Checks combinations of options. Returns 0 after saying what is wrong. */
static int finish(const cli_spec *spec, cli_common *c) {
    const int64_t keys = c->kv_keys, values = c->kv_values;
    if (keys != NOT_GIVEN && values != NOT_GIVEN && keys != values) {
        cli_usage_error(spec->command, "-ctk and -ctv: keys and values have one type here; give both the same, or --kv");
        return 0;
    }
    if (keys != NOT_GIVEN || values != NOT_GIVEN) {
        c->kv = keys != NOT_GIVEN ? keys : values;
        if (values == NOT_GIVEN || keys == NOT_GIVEN)
            fprintf(stderr, "infer %s: %s\n", spec->command,
                    keys != NOT_GIVEN ? "-ctk: values are stored in this type too" : "-ctv: keys are stored in this type too");
    }
    if (c->lock && c->no_mmap) {
        cli_usage_error(spec->command, "--lock and --no-mmap exclude each other: only a mapped file can be locked");
        return 0;
    }
    c->ctx_whole = c->ctx == 0;
    if (c->ctx == NOT_GIVEN) c->ctx = 0;
    c->seed_given = c->seed != NOT_GIVEN;
    if (c->seed == -1) c->seed = (int64_t)cli_random_seed();
    if (!c->seed_given) c->seed = 0;
    return !(spec->takes & TAKES_SAMPLING) || cli_sampling_check(spec->command, &c->sampling);
}

int cli_parse(const cli_spec *spec, int argc, char **argv, cli_common *common, const char **args, int *status) {
    cli_option shared[CLI_MAX_SHARED];
    int group[CLI_MAX_SHARED], i, n_args = 0, options_end = 0, failed = 0;
    parser p;
    set_defaults(common);
    p.spec = spec;
    p.shared = shared;
    p.n_shared = cli_shared_options(spec->takes, common, shared, group);
    p.argc = argc;
    p.argv = argv;
    for (i = 0; i < spec->n_args_max; i++) args[i] = NULL;
    *status = CLI_DONE;
    if (visit_fn) {
        visit_fn(visit_user, spec, shared, group, p.n_shared);
        return 0;
    }
    *status = CLI_USAGE;
    for (i = 0; i < argc; i++) {
        if (!options_end && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            cli_print_help(spec, shared, group, p.n_shared);
            *status = CLI_DONE;
            return 0;
        }
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = 1;
        } else if (!options_end && is_option(argv[i])) {
            const int taken = take_option(&p, &i, &failed);
            if (taken == TAKEN) continue;
            *status = taken == INSTEAD ? CLI_DONE : failed ? CLI_FAILED : CLI_USAGE;
            return taken == INSTEAD;
        } else {
            if (n_args == spec->n_args_max) {
                cli_usage_error(spec->command, "unexpected word '%s'", argv[i]);
                return 0;
            }
            args[n_args++] = argv[i];
        }
    }
    if (common->model) { /* -m FILE stands before the other words */
        if (n_args == spec->n_args_max) {
            cli_usage_error(spec->command, "unexpected word '%s'", args[n_args - 1]);
            return 0;
        }
        memmove((void *)(args + 1), (const void *)args, (size_t)n_args++ * sizeof *args);
        args[0] = common->model;
    }
    if (n_args < spec->n_args_min) {
        cli_usage_error(spec->command, "missing argument; usage: infer %s %s", spec->command, spec->usage);
        return 0;
    }
    if (!finish(spec, common)) return 0;
    *status = CLI_DONE;
    return 1;
}

int cli_usage_error(const char *command, const char *format, ...) {
    va_list list;
    fprintf(stderr, "infer %s: ", command);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, " (infer %s --help)\n", command);
    return CLI_USAGE;
}
