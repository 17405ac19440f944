/* tokens.c: `infer tokens`, texts to ids. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_SEPARATOR = 0x1E };

static int print_ids(const infer_model *model, const char *text, size_t n, int32_t flags) {
    infer_token *ids;
    size_t count, i;
    if (!cli_tokenize("tokens", model, text, n, flags, &ids, &count)) return 0;
    for (i = 0; i < count; i++) printf(i ? " %ld" : "%ld", (long)ids[i]);
    putchar('\n');
    free(ids);
    return 1;
}

int cmd_tokens(int argc, char **argv) {
    const char *texts = NULL, *text_arg = NULL, *args[1];
    int special = 0, status;
    const cli_option options[] = {
        {"--texts", OPT_STRING, &texts, "FILE", "the texts, separated by byte 0x1E; - is stdin", 0, 0},
        {"-p,--prompt", OPT_STRING, &text_arg, "TEXT", "a single text", 0, 0},
        {"--special", OPT_FLAG, &special, NULL, "add the model's special tokens and parse those written in the text", 0, 0},
    };
    const cli_spec spec = {"tokens",
                           "MODEL --texts FILE",
                           "Tokenize texts. One line per text: ids separated by one space, an empty line for none.\n"
                           "Works on any GGUF file with a vocabulary, whatever its architecture.\n",
                           options,
                           3,
                           TAKES_MODEL,
                           1,
                           1};
    cli_common common;
    infer_model *model;
    char *data = NULL;
    size_t n, start = 0, end;
    int ok;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if ((texts == NULL) == (text_arg == NULL)) return cli_usage_error("tokens", "give --texts FILE or -p TEXT");
    model = cli_open("tokens", args[0], &common, 1);
    if (model == NULL) return CLI_FAILED;
    if (texts) {
        data = cli_read_file("tokens", texts, &n);
        ok = data != NULL;
        while (ok && start <= n) {
            const char *mark = memchr(data + start, RECORD_SEPARATOR, n - start);
            end = mark ? (size_t)(mark - data) : n;
            ok = print_ids(model, data + start, end - start, special ? INFER_TEXT_SPECIAL : 0);
            start = end + 1;
        }
    } else {
        ok = print_ids(model, text_arg, strlen(text_arg), special ? INFER_TEXT_SPECIAL : 0);
    }
    free(data);
    cli_model_close(model);
    return ok ? CLI_DONE : CLI_FAILED;
}
