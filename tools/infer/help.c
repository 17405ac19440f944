/* help.c: --help of a command, and `infer completions`, from the tables of options. */
#include "cli.h"

#include <string.h>

/* ---- help ----------------------------------------------------------------------------------- */

/* The text from column 30 on, wrapped between words before column 112. */
static void print_wrapped(const char *text) {
    enum { WIDTH = 82 };
    while (strlen(text) > WIDTH) {
        int n = WIDTH;
        while (n > 0 && text[n] != ' ') n--;
        if (n == 0) break;
        printf("%.*s\n%30s", n, text, "");
        text += n + 1;
    }
    printf("%s\n", text);
}

static void print_option(const cli_option *o) {
    char head[96];
    const char *arg = o->kind == OPT_SWITCH ? "[on|off|auto]" : o->arg;
    int n = (int)strcspn(o->name, "|"), first = (int)strcspn(o->name, ",|");
    if (o->help == NULL) return;
    snprintf(head, sizeof head, "%.*s%s%.*s%s%s", first, o->name, first < n ? ", " : "", first < n ? n - first - 1 : 0,
             first < n ? o->name + first + 1 : "", arg ? " " : "", arg ? arg : "");
    if (strlen(head) > 26) printf("  %s\n  %-26s  ", head, "");
    else printf("  %-26s  ", head);
    print_wrapped(o->help);
}

/* A shared option is hidden when the command has one with the same main name. */
static int is_own(const cli_spec *spec, const cli_option *o) {
    int i, k, m, n_a, n_b;
    const char *a, *b;
    for (i = 0; i < spec->n_options; i++) {
        for (k = 0; (a = cli_spelling(o->name, k, &n_a)) != NULL && a < o->name + strcspn(o->name, "|"); k++) {
            for (m = 0; (b = cli_spelling(spec->options[i].name, m, &n_b)) != NULL; m++) {
                if (n_a == n_b && memcmp(a, b, (size_t)n_a) == 0 && n_a > 2) return 1;
            }
        }
    }
    return 0;
}

static void print_group(const char *title, int groups, const cli_spec *spec, const cli_option *shared, const int *group,
                        int n_shared) {
    int i;
    for (i = 0; i < n_shared; i++) {
        if (!(group[i] & groups) || is_own(spec, &shared[i])) continue;
        if (title) printf("\n%s:\n", title);
        title = NULL;
        print_option(&shared[i]);
    }
}

void cli_print_help(const cli_spec *spec, const cli_option *shared, const int *group, int n_shared) {
    int i;
    printf("usage: infer %s %s\n\n%s", spec->command, spec->usage, spec->about);
    if (spec->n_options + n_shared > 0) printf("\noptions:\n");
    for (i = 0; i < spec->n_options; i++) print_option(&spec->options[i]);
    print_group(NULL, TAKES_SEED | TAKES_JSON | TAKES_REPORT, spec, shared, group, n_shared);
    print_group("sampling", TAKES_SAMPLING, spec, shared, group, n_shared);
    print_group("pictures and sound", TAKES_MEDIA | TAKES_PROJECTOR, spec, shared, group, n_shared);
    print_group("model", TAKES_MODEL | TAKES_ADAPTERS, spec, shared, group, n_shared);
    print_group("context", TAKES_CONTEXT, spec, shared, group, n_shared);
    print_group("devices and speed", TAKES_COMPUTE | TAKES_DEVICE, spec, shared, group, n_shared);
}

/* ---- completions ---------------------------------------------------------------------------- */

enum { BASH, ZSH, FISH };
typedef struct script {
    int shell;
    void (*each)(const struct script *s, const cli_spec *spec, const cli_option *o);
} script;

/* Is the option's value a file? The help calls it FILE, FILE.json, FILE[=SCALE], OUT or DIR. */
static int takes_file(const cli_option *o) {
    if (o->kind != OPT_STRING && o->kind != OPT_LIST && o->kind != OPT_TEXT) return 0;
    return o->arg && (strncmp(o->arg, "FILE", 4) == 0 || strcmp(o->arg, "OUT") == 0 || strcmp(o->arg, "DIR") == 0);
}

static const char *words_of(const cli_option *o) {
    return o->kind == OPT_CHOICE ? o->arg : o->kind == OPT_SWITCH ? "on|off|auto" : NULL;
}

/* The words between the bars, with `separator` between them. */
static void print_words(const char *words, char separator) {
    for (; *words; words++) putchar(*words == '|' ? separator : *words);
}

/* The visible spellings, with `separator` between them and after each. */
static void print_names(const cli_option *o, char separator) {
    int i, n;
    const char *s, *end = o->name + strcspn(o->name, "|");
    for (i = 0; (s = cli_spelling(o->name, i, &n)) != NULL && s < end; i++) printf("%.*s%c", n, s, separator);
}

static void names_only(const script *s, const cli_spec *spec, const cli_option *o) {
    (void)s;
    (void)spec;
    print_names(o, ' ');
}

/* A case of bash's and zsh's function: what may follow COMMAND OPTION. */
static void print_case(const script *s, const cli_spec *spec, const cli_option *o) {
    const char *words = words_of(o);
    int i, n;
    const char *name, *end = o->name + strcspn(o->name, "|");
    if (o->kind == OPT_FLAG || o->kind == OPT_SWITCH) return;
    for (i = 0; (name = cli_spelling(o->name, i, &n)) != NULL && name < end; i++)
        printf("%s'%s %.*s'", i ? "|" : "    ", spec->command, n, name);
    printf(") ");
    if (takes_file(o)) printf(s->shell == ZSH ? "_files" : "local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$cur\"))");
    else if (words == NULL) printf(":");
    else {
        printf(s->shell == ZSH ? "compadd -- " : "COMPREPLY=($(compgen -W '");
        print_words(words, ' ');
        if (s->shell == BASH) printf("' -- \"$cur\"))");
    }
    printf("; return;;\n");
}

static void print_quoted(const char *text) {
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

static void print_fish(const script *s, const cli_spec *spec, const cli_option *o) {
    const char *words = words_of(o), *name, *end = o->name + strcspn(o->name, "|");
    int i, n;
    (void)s;
    printf("complete -c infer -n '__fish_seen_subcommand_from %s'", spec->command);
    for (i = 0; (name = cli_spelling(o->name, i, &n)) != NULL && name < end; i++) {
        if (name[1] == '-') printf(" -l %.*s", n - 2, name + 2);
        else printf(n == 2 ? " -s %.*s" : " -o %.*s", n - 1, name + 1);
    }
    if (takes_file(o)) printf(" -rF");
    else if (words && o->kind == OPT_CHOICE) {
        printf(" -xa '");
        print_words(words, ' ');
        printf("'");
    } else if (o->kind != OPT_FLAG && o->kind != OPT_SWITCH) printf(" -x");
    printf(" -d ");
    print_quoted(o->help);
    putchar('\n');
}

static void each_option(void *user, const cli_spec *spec, const cli_option *shared, const int *group, int n_shared) {
    const script *s = user;
    int i;
    (void)group;
    for (i = 0; i < spec->n_options; i++) {
        if (spec->options[i].help) s->each(s, spec, &spec->options[i]);
    }
    for (i = 0; i < n_shared; i++) {
        if (shared[i].help && !is_own(spec, &shared[i])) s->each(s, spec, &shared[i]);
    }
}

static void print_commands(const cli_command *commands, int n) {
    int i;
    for (i = 0; i < n; i++) {
        if (commands[i].run) printf("%s ", commands[i].name);
    }
}

/* bash and zsh: a function that looks at the command and at the word before the cursor. */
static void print_function(const cli_command *commands, int n, script *s) {
    int i;
    const int zsh = s->shell == ZSH;
    printf(zsh ? "#compdef infer\n_infer() {\n  local cur=\"${words[CURRENT]}\" prev=\"${words[CURRENT-1]}\" command=\"${words[2]}\"\n"
                 "  if (( CURRENT == 2 )); then\n    compadd -- "
               : "_infer() {\n  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\" command=\"${COMP_WORDS[1]}\"\n"
                 "  COMPREPLY=()\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '");
    print_commands(commands, n);
    printf(zsh ? "\n    _files\n    return\n  fi\n  case \"$command $prev\" in\n"
               : "' -- \"$cur\"))\n    local IFS=$'\\n'\n    COMPREPLY+=($(compgen -f -- \"$cur\"))\n    return\n  fi\n  case \"$command $prev\" in\n");
    s->each = print_case;
    for (i = 0; i < n; i++) cli_visit(&commands[i], each_option, s);
    printf("  esac\n  case \"$cur\" in\n  -*)\n    case \"$command\" in\n");
    s->each = names_only;
    for (i = 0; i < n; i++) {
        printf(zsh ? "    %s) compadd -- " : "    %s) COMPREPLY=($(compgen -W '", commands[i].name);
        cli_visit(&commands[i], each_option, s);
        printf(zsh ? "--help;;\n" : "--help' -- \"$cur\"));;\n");
    }
    printf(zsh ? "    esac;;\n  *) _files;;\n  esac\n}\nif [ \"$funcstack[1]\" = _infer ]; then _infer \"$@\"; else compdef _infer infer; fi\n"
               : "    esac;;\n  *)\n    local IFS=$'\\n'\n    COMPREPLY=($(compgen -f -- \"$cur\"));;\n  esac\n}\ncomplete -o filenames -F _infer infer\n");
}

int cli_completions(int argc, char **argv, const cli_command *commands, int n_commands) {
    static const char *const SHELLS[] = {"bash", "zsh", "fish"};
    const char *args[1];
    const cli_spec spec = {"completions",
                           "bash|zsh|fish",
                           "Print a script that completes commands, options and files in a shell:\n"
                           "  bash   source <(infer completions bash)\n"
                           "  zsh    source <(infer completions zsh)\n"
                           "  fish   infer completions fish | source\n",
                           NULL, 0, 0, 1, 1};
    cli_common common;
    script s;
    int status, i;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    for (s.shell = 0; s.shell < 3 && strcmp(args[0], SHELLS[s.shell]) != 0; s.shell++) {}
    if (s.shell == 3) return cli_usage_error("completions", "expected bash, zsh or fish, got '%s'", args[0]);
    if (s.shell != FISH) {
        print_function(commands, n_commands, &s);
        return CLI_DONE;
    }
    s.each = print_fish;
    for (i = 0; i < n_commands; i++) {
        printf("complete -c infer -n __fish_use_subcommand -a %s -d ", commands[i].name);
        print_quoted(commands[i].what);
        putchar('\n');
        cli_visit(&commands[i], each_option, &s);
    }
    return CLI_DONE;
}
