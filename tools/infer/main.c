/* main.c: the command-line program. The table of commands, and what happens before and after one runs. */
#include "cli.h"

#include <string.h>

static int completions(int argc, char **argv);

static const cli_command COMMANDS[] = {
    {"run", "MODEL -p TEXT", "continue a text", cmd_run},
    {"chat", "MODEL", "chat, with the model's own template", cmd_chat},
    {"tokens", "MODEL --texts FILE", "tokenize texts", cmd_tokens},
    {"detok", "MODEL --ids FILE", "turn token ids back into text", cmd_detok},
    {"logits", "MODEL --ids FILE --out OUT", "logits at every position", cmd_logits},
    {"media", "PROJECTOR --image FILE", "what a projector makes of pictures and sounds", cmd_media},
    {"embed", "MODEL --texts FILE", "embed texts: one vector per text", cmd_embed},
    {"rerank", "MODEL --query TEXT --texts FILE", "rank texts by a query", cmd_rerank},
    {"classify", "MODEL --texts FILE", "label texts, with probabilities", cmd_classify},
    {"template", "FILE.jinja --context FILE.json", "render a chat template", cmd_template},
    {"tensor", "MODEL NAME --out OUT", "write one tensor as float32", cmd_tensor},
    {"info", "MODEL", "show what a file holds", cmd_info},
    {"devices", "", "show CPU levels and GPUs", cmd_devices},
    {"bench", "MODEL", "measure tokens per second", cmd_bench},
    {"list", "", "list the models on this machine", cmd_list},
    {"synth", "SHAPE TYPE OUT", "write a random-weight model", cmd_synth},
    {"hash", "FILE", "SHA-256 of a model's contents", cmd_hash},
    {"diff", "A B", "what differs between two models", cmd_diff},
    {"edit", "IN OUT --set KEY=VALUE", "change metadata: set, remove and rename keys", cmd_edit},
    {"split", "IN PREFIX --max-size SIZE", "split a model into several files", cmd_split},
    {"merge", "FIRST OUT", "merge a split model into one file", cmd_merge},
    {"convert", "FOLDER OUT", "a Hugging Face folder to a GGUF file", cmd_convert},
    {"quantize", "IN OUT TYPE", "change the storage type", cmd_quantize},
    {"imatrix", "MODEL -f TEXT --out FILE", "which columns of matrices count, for quantize", cmd_imatrix},
    {"perplexity", "MODEL... -f FILE", "how well models predict a text", cmd_perplexity},
    {"grammar", "FILE --text TEXT", "test a grammar or a JSON schema", cmd_grammar},
    {"serve", "MODEL", "serve a model over HTTP, with a page to chat", cmd_serve},
    {"map", "MODEL --in FILE --out FILE", "answer requests that are lines of a file", cmd_map},
    {"completions", "bash|zsh|fish", "print completions for a shell", completions},
};
enum { N_COMMANDS = (int)(sizeof COMMANDS / sizeof COMMANDS[0]) };

/* Names that other programs give to commands: the one here, or why there is none. */
static const struct {
    const char *name, *here, *why;
} OTHER_NAMES[] = {
    {"ls", "list", NULL},
    {"show", "info", NULL},
    {"generate", "run", NULL},
    {"pull", NULL, "infer downloads nothing; fetch a GGUF file and name it (`infer list` shows the files you have)"},
    {"ps", NULL, "no model stays loaded"},
    {"stop", NULL, "no model stays loaded"},
    {"rm", NULL, "delete the file; `infer list` shows where it is"},
};
enum { N_OTHER_NAMES = (int)(sizeof OTHER_NAMES / sizeof OTHER_NAMES[0]) };

static int completions(int argc, char **argv) { return cli_completions(argc, argv, COMMANDS, N_COMMANDS); }

static void print_help(FILE *file) {
    int i;
    fprintf(file, "usage: infer COMMAND ...\n       infer MODEL    the same as infer chat MODEL\n\ncommands:\n");
    for (i = 0; i < N_COMMANDS; i++) {
        char head[64];
        snprintf(head, sizeof head, "%s %s", COMMANDS[i].name, COMMANDS[i].args);
        fprintf(file, "  %-40s %s\n", head, COMMANDS[i].what);
    }
    fprintf(file, "\n`infer COMMAND --help` explains each. Results go to stdout, statistics and progress to stderr.\n"
                  "Exit status: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted.\n");
}

static const cli_command *find_command(const char *name) {
    int i;
    for (i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, COMMANDS[i].name) == 0) return &COMMANDS[i];
    }
    return NULL;
}

/* A word that can only be a model: a file, or a name that looks like one. */
static int is_model(const char *word) {
    size_t n = strlen(word);
    FILE *file = platform_fopen(word, "rb");
    if (file) fclose(file);
    return file != NULL || (n > 5 && strcmp(word + n - 5, ".gguf") == 0);
}

static int unknown_command(const char *name) {
    const char *best = NULL;
    int i, d, distance = 3;
    for (i = 0; i < N_COMMANDS; i++) {
        d = cli_edit_distance(name, strlen(name), COMMANDS[i].name, strlen(COMMANDS[i].name));
        if (d >= distance || d >= (int)strlen(name) - 1) continue;
        distance = d;
        best = COMMANDS[i].name;
    }
    fprintf(stderr, "infer: '%s' is neither a command nor a file", name);
    if (best) fprintf(stderr, ": did you mean %s?", best);
    fprintf(stderr, " (infer --help)\n");
    return CLI_USAGE;
}

static int run_command(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    const cli_command *command;
    int i;
    if (name == NULL) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return CLI_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("%s\n", infer_build_info());
        return CLI_DONE;
    }
    for (i = 0; i < N_OTHER_NAMES; i++) {
        if (strcmp(name, OTHER_NAMES[i].name) != 0) continue;
        name = OTHER_NAMES[i].here;
        if (name == NULL) {
            fprintf(stderr, "infer: no command '%s': %s\n", argv[1], OTHER_NAMES[i].why);
            return CLI_USAGE;
        }
        break;
    }
    command = find_command(name);
    if (command) return command->run(argc - 2, argv + 2);
    if (name[0] == '-' || is_model(name)) return cmd_chat(argc - 1, argv + 1);
    return unknown_command(name);
}

int main(int argc, char **argv) {
    int status;
    platform_init(&argc, &argv);
    status = run_command(argc, argv);
    cli_args_free();
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_DONE) {
        fprintf(stderr, "infer: cannot write to stdout\n");
        status = CLI_FAILED;
    }
    return status;
}
