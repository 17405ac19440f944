/* detok.c: `infer detok`, ids to texts. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_SEPARATOR = 0x1E };

/* The text of one line of ids. */
static int print_text(const infer_model *model, const char *where, const char *line, size_t n) {
    infer_token *ids;
    size_t count, len = 0;
    char *text;
    if (!cli_parse_ids("detok", where, line, n, &ids, &count)) return 0;
    text = cli_detokenize("detok", model, ids, count, INFER_TEXT_WRITE_SPECIAL, &len);
    free(ids);
    if (text == NULL) return 0;
    if (len) fwrite(text, 1, len, stdout);
    free(text);
    return 1;
}

int cmd_detok(int argc, char **argv) {
    const char *path = NULL, *args[1];
    int status, ok = 1;
    const cli_option options[] = {
        {"--ids", OPT_STRING, &path, "FILE", "one line of ids per text; - is stdin", 0, 0},
    };
    const cli_spec spec = {"detok",
                           "MODEL --ids FILE",
                           "Turn ids back into text. Reads one line of ids per text; writes the exact bytes of the texts,\n"
                           "separated by byte 0x1E, with special tokens written out and spaces left as they are.\n",
                           options,
                           1,
                           TAKES_MODEL,
                           1,
                           1};
    cli_common common;
    infer_model *model;
    char *data, where[64];
    size_t n, start, end, line = 1;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (path == NULL) return cli_usage_error("detok", "--ids FILE is missing");
    model = cli_open("detok", args[0], &common, 1);
    if (model == NULL) return CLI_FAILED;
    data = cli_read_file("detok", path, &n);
    ok = data != NULL;
    for (start = 0; ok && start < n; start = end + 1, line++) {
        const char *mark = memchr(data + start, '\n', n - start);
        end = mark ? (size_t)(mark - data) : n;
        if (line > 1) putchar(RECORD_SEPARATOR);
        snprintf(where, sizeof where, "line %lu", (unsigned long)line);
        ok = print_text(model, where, data + start, end - start);
    }
    free(data);
    cli_model_close(model);
    return ok ? CLI_DONE : CLI_FAILED;
}
