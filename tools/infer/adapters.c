/* adapters.c: --lora, --merge and --control: adapters and control vectors of the model that a command opens. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static infer_adapter_use uses[INFER_MAX_ADAPTERS];
static int32_t n_uses, n_merged; /* n_merged: the first ones, which the weights include */

/* "FIRST-LAST" at the end of a control vector's option, after a comma; 0 = absent. */
static int layer_range(const char *s, infer_adapter_use *use) {
    char *end;
    const long first = strtol(s, &end, 10);
    long last;
    if (end == s || *end != '-') return 0;
    s = end + 1;
    last = strtol(s, &end, 10);
    if (end == s || *end || first < 0 || last < first || last > 1000000) return 0;
    use->first_layer = (int32_t)first;
    use->last_layer = (int32_t)last;
    return 1;
}

/* Cuts "=SCALE" and ",FIRST-LAST" off a copy of an option's value. Anything else belongs to the path. */
static void parse_use(char *text, int control, infer_adapter_use *use) {
    char *at = strrchr(text, ','), *end;
    double scale;
    use->scale = 1;
    if (control && at && layer_range(at + 1, use)) *at = 0;
    at = strrchr(text, '=');
    if (at == NULL || at[1] == 0) return;
    scale = strtod(at + 1, &end);
    if (*end || !(scale >= -1e30 && scale <= 1e30)) return;
    use->scale = (float)scale;
    *at = 0;
}

/* base: the model's path, for a folder. 0 after saying why not. */
static int open_adapter(const char *command, infer_model *model, const char *base, const char *path, int allow_unknown, infer_adapter **out) {
    infer_error err;
    infer_result result;
    unsigned char *file;
    size_t n;
    if (platform_path_kind(path) != PLATFORM_FOLDER) result = infer_adapter_open(out, model, path, allow_unknown, &err);
    else {
        if (!cli_folder_adapter(command, path, base, &file, &n)) return 0;
        result = infer_adapter_open_memory(out, model, file, n, allow_unknown, &err);
        free(file);
    }
    return result == INFER_OK || cli_fail(command, "%s: %s", path, err.message) == CLI_DONE;
}

static int open_one(const char *command, infer_model *model, const char *base, const char *value, int control, int allow_unknown) {
    infer_adapter_use *use = &uses[n_uses];
    infer_adapter_info info;
    size_t n = strlen(value) + 1;
    char *path;
    int ok;
    if (n_uses == INFER_MAX_ADAPTERS) return cli_fail(command, "more than %d adapters", INFER_MAX_ADAPTERS) == CLI_DONE;
    path = cli_alloc(command, n, 1);
    if (path == NULL) return 0;
    memcpy(path, value, n);
    memset(use, 0, sizeof *use);
    parse_use(path, control, use);
    ok = open_adapter(command, model, base, path, allow_unknown, &use->adapter);
    if (ok) {
        n_uses++;
        infer_adapter_get_info(use->adapter, &info);
        ok = info.control == control;
        if (!ok) cli_fail(command, "%s is %s", path, control ? "an adapter: --lora" : "a control vector: --control");
    }
    free(path);
    return ok;
}

int cli_adapters_open(const char *command, infer_model *model, const char *path, const cli_common *common) {
    infer_error err;
    int i;
    if (common->merge && common->loras.n == 0)
        return cli_fail(command, "--merge needs --lora") == CLI_DONE;
    for (i = 0; i < common->loras.n; i++)
        if (!open_one(command, model, path, common->loras.items[i], 0, common->allow_unknown)) return 0;
    if (common->merge) {
        if (infer_model_merge(model, uses, n_uses, NULL, &err) != INFER_OK)
            return cli_fail(command, "--merge: %s", err.message) == CLI_DONE;
        n_merged = n_uses;
    }
    for (i = 0; i < common->controls.n; i++)
        if (!open_one(command, model, path, common->controls.items[i], 1, common->allow_unknown)) return 0;
    return 1;
}

infer_result cli_adapters_use(infer_context *context, infer_error *err) {
    const int32_t n = n_uses - n_merged;
    return n ? infer_context_set_adapters(context, uses + n_merged, n, err) : INFER_OK;
}

const infer_adapter_use *cli_adapters_list(int32_t *n) {
    *n = n_uses - n_merged;
    return *n ? uses + n_merged : NULL;
}

const char *cli_adapters_prefix(void) {
    infer_adapter_info info;
    int32_t i;
    for (i = 0; i < n_uses; i++)
        if (infer_adapter_get_info(uses[i].adapter, &info) == INFER_OK && info.prefix[0]) return info.prefix;
    return NULL;
}

void cli_model_close(infer_model *model) {
    while (n_uses > 0) infer_adapter_close(uses[--n_uses].adapter);
    n_merged = 0;
    cli_folder_close(model);
}
