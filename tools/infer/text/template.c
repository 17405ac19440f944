/* template.c: `infer template`, rendering a chat template. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

/* The template of a model's file, a copy; NULL after saying why. */
static char *model_template(const char *path, const cli_common *common, size_t *n) {
    infer_model *model = cli_open("template", path, common, 1);
    char *copy = NULL;
    infer_meta meta;
    if (model == NULL) return NULL;
    if (infer_meta_value(model, "tokenizer.chat_template", &meta) != INFER_OK || meta.kind != INFER_META_STRING) {
        cli_fail("template", "%s has no tokenizer.chat_template", path);
    } else {
        *n = (size_t)meta.n;
        copy = cli_alloc("template", *n + 1, 1);
        if (copy != NULL) memcpy(copy, meta.s, *n);
    }
    cli_model_close(model);
    return copy;
}

static void print_segments(const infer_rendering *r) {
    size_t i;
    printf("{\"text\": ");
    json_string(stdout, r->text, r->n);
    printf(", \"segments\": [");
    for (i = 0; i < r->n_segments; i++) {
        printf("%s{\"from_message\": %s, \"text\": ", i ? ", " : "", r->segments[i].from_message ? "true" : "false");
        json_string(stdout, r->segments[i].text, r->segments[i].n);
        printf("}");
    }
    printf("]}\n");
}

int cmd_template(int argc, char **argv) {
    const char *context_path = NULL, *trusted_path = NULL, *args[1];
    infer_template_params params = {0};
    int status, ok = 0;
    const cli_option options[] = {
        {"--context", OPT_STRING, &context_path, "FILE.json", "the variables, a JSON object; - is stdin", 0, 0},
        {"--trusted", OPT_STRING, &trusted_path, "FILE.json", "further variables whose text is trusted as the template's own", 0, 0},
        {"--now", OPT_STRING, &params.now, "TIME", "\"YYYY-MM-DD HH:MM:SS\" for strftime_now (default: now)", 0, 0},
    };
    const cli_spec spec = {"template",
                           "FILE.jinja|MODEL.gguf --context FILE.json",
                           "Render a chat template with the variables of a JSON file. Prints the text and no extra newline;\n"
                           "--json prints its segments too. An exception raised by the template is the error message.\n",
                           options,
                           3,
                           TAKES_JSON,
                           1,
                           1};
    cli_common common;
    char *text = NULL, *json[2] = {NULL, NULL};
    infer_json *values[2] = {NULL, NULL};
    infer_template *t = NULL;
    infer_rendering *r = NULL;
    infer_error err;
    size_t n, length;
    int i;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (context_path == NULL) return cli_usage_error("template", "--context FILE.json is missing");
    length = strlen(args[0]);
    if (length > 5 && strcmp(args[0] + length - 5, ".gguf") == 0) text = model_template(args[0], &common, &n);
    else text = cli_read_file("template", args[0], &n);
    ok = text != NULL;
    for (i = 0; ok && i < 2; i++) {
        const char *path = i == 0 ? context_path : trusted_path;
        size_t size;
        if (path == NULL) continue;
        json[i] = cli_read_file("template", path, &size);
        ok = json[i] != NULL;
        if (ok && infer_json_parse(&values[i], json[i], size, NULL, &err) != INFER_OK) {
            cli_fail("template", "%s: %s", path, err.message);
            ok = 0;
        }
    }
    params.trusted = values[1];
    if (ok && (infer_template_create(&t, text, n, NULL, &err) != INFER_OK ||
               infer_template_render(t, values[0], &params, &r, &err) != INFER_OK)) {
        cli_fail("template", "%s", err.message);
        ok = 0;
    }
    if (ok && common.json) print_segments(r);
    else if (ok && r->n) fwrite(r->text, 1, r->n, stdout);
    infer_rendering_free(r);
    infer_template_destroy(t);
    for (i = 0; i < 2; i++) {
        infer_json_free(values[i]);
        free(json[i]);
    }
    free(text);
    return ok ? CLI_DONE : CLI_FAILED;
}
