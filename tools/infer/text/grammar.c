/* grammar.c: `infer grammar`, does a text match a grammar? Exit status 0 when it does. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

int cmd_grammar(int argc, char **argv) {
    const char *text = NULL, *path = NULL, *args[1];
    int schema = 0, status, ok;
    const cli_option options[] = {
        {"--text", OPT_STRING, &text, "TEXT", "the text to check", 0, 0},
        {"-f,--file", OPT_STRING, &path, "FILE", "read it from a file; - is stdin", 0, 0},
        {"--schema", OPT_FLAG, &schema, NULL, "FILE is a JSON Schema, not a GBNF grammar", 0, 0},
    };
    const cli_spec spec = {"grammar",
                           "FILE|GRAMMAR --text TEXT",
                           "Test a GBNF grammar, or a JSON Schema with --schema. Exit status 0 when the text is\n"
                           "accepted as a whole, 1 otherwise: stderr names the first byte (from 0) that is not allowed,\n"
                           "or says that the text ends too early.\n",
                           options,
                           3,
                           TAKES_JSON,
                           1,
                           1};
    cli_common common;
    infer_grammar *grammar;
    infer_error err;
    size_t n = 0, accepted = 0;
    int32_t complete = 0;
    char *data = NULL;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if ((text == NULL) == (path == NULL)) return cli_usage_error("grammar", "give --text TEXT or -f FILE");
    if (path) {
        data = cli_read_file("grammar", path, &n);
        if (data == NULL) return CLI_FAILED;
    } else {
        n = strlen(text);
    }
    grammar = cli_grammar_text("grammar", NULL, args[0], schema);
    ok = grammar != NULL;
    if (ok && infer_grammar_check(grammar, data ? data : text, n, &accepted, &complete, &err) != INFER_OK) {
        cli_fail("grammar", "%s", err.message);
        ok = 0;
    }
    if (ok && common.json)
        printf("{\"accepted\": %s, \"bytes\": %lu}\n", complete ? "true" : "false", (unsigned long)accepted);
    else if (ok && complete)
        printf("accepted\n");
    if (ok && !complete && accepted < n)
        cli_fail("grammar", "rejected: byte %lu is not allowed", (unsigned long)accepted);
    else if (ok && !complete)
        cli_fail("grammar", "rejected: the text ends too early, at byte %lu", (unsigned long)n);
    infer_grammar_destroy(grammar);
    free(data);
    return ok && complete ? CLI_DONE : CLI_FAILED;
}
