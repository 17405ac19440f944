/* main.c: the command-line program. The table of commands, and what happens before and after one runs. */
#include "cli.h"

#include <string.h>

/* A command that is not there yet has no function: it says so and fails. */
static const cli_command COMMANDS[] = {
    {"run", "MODEL -p TEXT", "continue a text", cmd_run},
    {"chat", "MODEL", "interactive chat with the model's own template", cmd_chat},
    {"tokens", "MODEL --texts FILE", "text to ids", cmd_tokens},
    {"detok", "MODEL --ids FILE", "ids to text", cmd_detok},
    {"logits", "MODEL --ids FILE --out OUT", "logits after every position", cmd_logits},
    {"embed", "MODEL --texts FILE", "one vector per text", cmd_embed},
    {"rerank", "MODEL --query TEXT --texts FILE", "a score per text", cmd_rerank},
    {"classify", "MODEL --texts FILE", "labels with probabilities", cmd_classify},
    {"template", "FILE.jinja --context FILE.json", "render a chat template", cmd_template},
    {"tensor", "MODEL NAME --out OUT", "one tensor as float32", cmd_tensor},
    {"info", "MODEL", "what a file holds", cmd_info},
    {"devices", "", "what this machine offers", cmd_devices},
    {"bench", "MODEL", "tokens per second", cmd_bench},
    {"synth", "SHAPE TYPE OUT", "write a random-weight model", cmd_synth},
    {"quantize", "IN OUT TYPE", "change the storage type", NULL},
    {"perplexity", "MODEL -f FILE", "perplexity of a text", NULL},
    {"grammar", "FILE --text TEXT", "test a grammar or a JSON schema", cmd_grammar},
    {"serve", "MODEL", "HTTP server", NULL},
};
enum { N_COMMANDS = (int)(sizeof COMMANDS / sizeof COMMANDS[0]) };

static void print_help(FILE *file) {
    int i;
    fprintf(file, "usage: infer COMMAND ...\n\n");
    for (i = 0; i < N_COMMANDS; i++) {
        char head[64];
        snprintf(head, sizeof head, "%s %s", COMMANDS[i].name, COMMANDS[i].args);
        fprintf(file, "  %-40s %s%s\n", head, COMMANDS[i].what, COMMANDS[i].run ? "" : " (not there yet)");
    }
    fprintf(file, "\n`infer COMMAND --help` explains each. Results go to stdout, statistics and progress to stderr.\n"
                  "Exit status: 0 done, 1 the work failed, 2 wrong usage.\n");
}

static int run_command(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
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
    for (i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, COMMANDS[i].name) != 0) continue;
        if (COMMANDS[i].run == NULL) return cli_fail(name, "not there yet");
        return COMMANDS[i].run(argc - 2, argv + 2);
    }
    fprintf(stderr, "infer: there is no command '%s'; `infer --help` lists them\n", name);
    return CLI_USAGE;
}

int main(int argc, char **argv) {
    int status;
    platform_init(&argc, &argv);
    status = run_command(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_DONE) {
        fprintf(stderr, "infer: cannot write to stdout\n");
        status = CLI_FAILED;
    }
    return status;
}
