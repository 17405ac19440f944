/* texts.c: lists of texts and of ids, one a line or a record, for the commands that take many. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

void cli_texts_free(cli_texts *t) {
    size_t i;
    for (i = 0; i < t->n && t->ids; i++) free((void *)t->ids[i]);
    free((void *)t->ids);
    free(t->n_ids);
    free((void *)t->texts);
    free(t->lengths);
    free(t->data);
    memset(t, 0, sizeof *t);
}

/* Where the records of data end: at `separator`, which the last record does not need. */
static int texts_split(const char *command, cli_texts *t, char *data, size_t n, int separator) {
    size_t i, start = 0, count = 0;
    t->data = data;
    for (i = 0; i < n; i++) count += data[i] == (char)separator;
    t->texts = (const char **)cli_alloc(command, count + 1, sizeof *t->texts);
    t->lengths = (size_t *)cli_alloc(command, count + 1, sizeof *t->lengths);
    if (t->texts == NULL || t->lengths == NULL) return 0;
    for (i = 0; i <= n; i++) {
        if (i < n && data[i] != (char)separator) continue;
        if (i == n && start == n && separator == '\n') break; /* the last line has ended */
        t->texts[t->n] = data + start;
        t->lengths[t->n] = i - start;
        if (separator == '\n' && i > start && data[i - 1] == '\r') t->lengths[t->n]--;
        t->n++;
        start = i + 1;
    }
    return 1;
}

static int texts_ids(const char *command, const char *path, cli_texts *t) {
    size_t i;
    t->ids = (const infer_token **)cli_alloc(command, t->n + 1, sizeof *t->ids);
    t->n_ids = (size_t *)cli_alloc(command, t->n + 1, sizeof *t->n_ids);
    if (t->ids == NULL || t->n_ids == NULL) return 0;
    memset((void *)t->ids, 0, (t->n + 1) * sizeof *t->ids);
    for (i = 0; i < t->n; i++) {
        infer_token *ids;
        if (!cli_parse_ids(command, path, t->texts[i], t->lengths[i], &ids, &t->n_ids[i])) return 0;
        t->ids[i] = ids;
    }
    return 1;
}

int cli_texts_read(const char *command, const cli_texts_from *from, cli_texts *t) {
    const char *path = from->texts ? from->texts : from->ids;
    const int given = (from->texts != NULL) + (from->ids != NULL) + (from->text != NULL);
    char *data, *end;
    size_t n = 0;
    long separator = '\n';
    memset(t, 0, sizeof *t);
    if (given != 1) return cli_usage_error(command, "give one of --texts FILE, --ids FILE and -p TEXT");
    if (from->separator) {
        separator = strtol(from->separator, &end, 0);
        if (*end || end == from->separator || separator < 0 || separator > 255)
            return cli_usage_error(command, "--separator: expected a byte such as 0x1e, got '%s'", from->separator);
    }
    if (from->text) {
        n = strlen(from->text);
        data = (char *)cli_alloc(command, n + 1, 1);
        if (data) memcpy(data, from->text, n + 1);
        separator = 256; /* a text may have any byte */
    } else data = cli_read_file(command, path, &n);
    if (data == NULL) return CLI_FAILED;
    if (separator == 256) {
        t->data = data;
        t->texts = (const char **)cli_alloc(command, 1, sizeof *t->texts);
        t->lengths = (size_t *)cli_alloc(command, 1, sizeof *t->lengths);
        if (t->texts == NULL || t->lengths == NULL) return CLI_FAILED;
        t->texts[0] = data;
        t->lengths[0] = n;
        t->n = 1;
    } else if (!texts_split(command, t, data, n, (int)separator)) return CLI_FAILED;
    if (t->n > INT32_MAX) return cli_fail(command, "%s has too many texts", path);
    return from->ids && !texts_ids(command, path, t) ? CLI_FAILED : CLI_DONE;
}

void cli_texts_params(const cli_texts *t, infer_embed_params *out) {
    out->lengths = t->lengths;
    out->ids = t->ids;
    out->n_ids = t->n_ids;
}

int cli_embed_context(const char *command, infer_model *model, const cli_common *common, infer_context **out) {
    infer_context_params params;
    infer_model_info info;
    infer_error err;
    *out = NULL;
    if (infer_model_get_info(model, &info) != INFER_OK) return 0;
    if (!info.computes) {
        cli_fail(command, "%s", infer_model_why_not(model));
        return 0;
    }
    cli_context_params(common, &params);
    params.cells = common->ctx_whole ? info.context : (int32_t)common->ctx;
    if (infer_context_create(out, model, &params, &err) == INFER_OK && cli_adapters_use(*out, &err) == INFER_OK)
        return 1;
    cli_fail(command, "%s", err.message);
    infer_context_destroy(*out);
    *out = NULL;
    return 0;
}
