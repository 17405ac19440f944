/* detok.c: `infer detok`, ids to texts. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_SEPARATOR = 0x1E };

/* The text of one line of ids. *buffer grows as needed. */
static int print_text(const infer_model *model, const char *where, const char *line, size_t n, char **buffer,
                      size_t *cap) {
    infer_token *ids;
    infer_error err;
    size_t count, len = 0;
    infer_result r;
    if (!cli_parse_ids("detok", where, line, n, &ids, &count)) return 0;
    r = infer_detokenize(model, ids, count, INFER_TEXT_WRITE_SPECIAL, *buffer, *cap, &len, &err);
    if (r == INFER_OK && len > *cap) {
        char *grown = cli_grow("detok", *buffer, len, 1);
        if (grown == NULL) {
            free(ids);
            return 0;
        }
        *buffer = grown;
        *cap = len;
        r = infer_detokenize(model, ids, count, INFER_TEXT_WRITE_SPECIAL, *buffer, *cap, &len, &err);
    }
    free(ids);
    if (r != INFER_OK) {
        cli_fail("detok", "%s: %s", where, err.message);
        return 0;
    }
    if (len) fwrite(*buffer, 1, len, stdout);
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
                           "Ids to text: one line of ids per text in, texts separated by byte 0x1E out, bytes exact,\n"
                           "special tokens written out, no clean-up of spaces.\n",
                           options,
                           1,
                           TAKES_MODEL,
                           1,
                           1};
    cli_common common;
    infer_model *model;
    char *data, *buffer = NULL, where[64];
    size_t n, start, end, cap = 0, line = 1;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (path == NULL) return cli_usage_error("detok", "--ids FILE is missing");
    model = cli_open("detok", args[0], &common, 1);
    if (model == NULL) return CLI_FAILED;
    data = cli_read_file("detok", path, &n);
    buffer = data ? cli_alloc("detok", cap = 4096, 1) : NULL;
    ok = buffer != NULL;
    for (start = 0; ok && start < n; start = end + 1, line++) {
        const char *mark = memchr(data + start, '\n', n - start);
        end = mark ? (size_t)(mark - data) : n;
        if (line > 1) putchar(RECORD_SEPARATOR);
        snprintf(where, sizeof where, "line %lu", (unsigned long)line);
        ok = print_text(model, where, data + start, end - start, &buffer, &cap);
    }
    free(buffer);
    free(data);
    infer_model_close(model);
    return ok ? CLI_DONE : CLI_FAILED;
}
