/* edit.c: `infer edit`, a copy of a file with other metadata. Tensors are copied as they are. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

/* The keys of the new file: the input's, with names and values that were made here in place of some. */
typedef struct edit {
    file_model in;
    file_key *keys; /* the names and values that are the input's are not copied */
    size_t n;
    char **own_names;       /* n_names */
    unsigned char **values; /* n_values */
    size_t n_names, n_values;
} edit;

static file_key *find(edit *e, const char *name) {
    size_t i;
    for (i = 0; i < e->n && strcmp(e->keys[i].name, name) != 0; i++) continue;
    return i < e->n ? &e->keys[i] : NULL;
}

/* A text of n bytes as the name of a key, which lives as long as e. */
static char *own_name(edit *e, const char *text, size_t n) {
    char *name = cli_alloc("edit", n + 1, 1);
    if (name == NULL) return NULL;
    memcpy(name, text, n);
    name[n] = 0;
    e->own_names[e->n_names++] = name;
    if (n > 0 && n <= 65535 && !file_is_split(name)) return name;
    cli_fail("edit", n == 0 || n > 65535 ? "a key has 1 to 65535 bytes" : "%s: keys of split models are written by `infer split` alone", name);
    return NULL;
}

static int remove_key(edit *e, const char *name) {
    file_key *k = find(e, name);
    if (k == NULL) return cli_fail("edit", "--remove: %s has no key %s", e->in.path, name) == CLI_DONE;
    memmove(k, k + 1, (size_t)(e->keys + --e->n - k) * sizeof *k);
    return 1;
}

static int rename_key(edit *e, const char *text) {
    const size_t n = strcspn(text, "=");
    char *from, *to;
    file_key *k;
    if (text[n] == 0) return cli_fail("edit", "--rename: expected OLD=NEW, got '%s'", text) == CLI_DONE;
    from = own_name(e, text, n);
    to = from ? own_name(e, text + n + 1, strlen(text + n + 1)) : NULL;
    if (to == NULL) return 0;
    k = find(e, from);
    if (k == NULL) return cli_fail("edit", "--rename: %s has no key %s", e->in.path, from) == CLI_DONE;
    if (find(e, to)) return cli_fail("edit", "--rename: %s already has a key %s", e->in.path, to) == CLI_DONE;
    k->name = to;
    return 1;
}

/* KEY=VALUE or KEY:TYPE=VALUE. */
static int set_key(edit *e, const char *text) {
    const size_t n = strcspn(text, "=");
    char *name, *colon = NULL;
    file_key *k, made;
    if (text[n] == 0) return cli_fail("edit", "--set: expected KEY=VALUE, got '%s'", text) == CLI_DONE;
    name = own_name(e, text, n);
    if (name == NULL) return 0;
    k = find(e, name);
    if (k == NULL && (colon = strrchr(name, ':')) != NULL) {
        *colon = 0;
        k = find(e, name);
    }
    memset(&made, 0, sizeof made);
    made.name = name;
    made.type = k ? k->type : GGUF_STRING;
    made.element = k ? k->element : 0;
    if (colon && !value_type_named(colon + 1, &made.type, &made.element))
        return cli_fail("edit", "--set: no type '%s': u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string, or one of them with []", colon + 1) == CLI_DONE;
    if (name[0] == 0) return cli_fail("edit", "--set: the name of the key is missing: '%s'", text) == CLI_DONE;
    if (!value_parse("edit", &made, text + n + 1)) return 0;
    e->values[e->n_values++] = made.value;
    if (k == NULL) k = &e->keys[e->n++];
    *k = made;
    return 1;
}

static int apply(edit *e, const cli_list *set, const cli_list *remove, const cli_list *rename) {
    const size_t names = (size_t)set->n + 2 * (size_t)rename->n;
    int i, ok;
    e->keys = cli_alloc("edit", e->in.n_keys + (size_t)set->n + 1, sizeof *e->keys);
    e->own_names = cli_alloc("edit", names + 1, sizeof *e->own_names);
    e->values = cli_alloc("edit", (size_t)set->n + 1, sizeof *e->values);
    ok = e->keys && e->own_names && e->values;
    if (ok && e->in.n_keys > 0) memcpy(e->keys, e->in.keys, e->in.n_keys * sizeof *e->keys);
    e->n = e->in.n_keys;
    for (i = 0; ok && i < remove->n; i++) ok = remove_key(e, remove->items[i]);
    for (i = 0; ok && i < rename->n; i++) ok = rename_key(e, rename->items[i]);
    for (i = 0; ok && i < set->n; i++) ok = set_key(e, set->items[i]);
    return ok;
}

static int write_edited(edit *e, const char *path) {
    out_model out = {.in = &e->in, .n_keys = e->n, .alignment = file_alignment("edit", path, e->keys, e->n)};
    const file_key **list = out.alignment ? cli_alloc("edit", e->n + 1, sizeof *list) : NULL;
    char text[32];
    size_t i;
    int status;
    if (list == NULL) return CLI_FAILED;
    for (i = 0; i < e->n; i++) list[i] = &e->keys[i];
    out.keys = list;
    status = out_write(&out, path);
    if (status == CLI_DONE)
        fprintf(stderr, "%s: %.0f keys, %.0f tensors of %s\n", path, (double)e->n, (double)e->in.n_tensors,
                cli_bytes_text((double)e->in.data_bytes, text));
    out_model_free(&out);
    free((void *)list);
    return status;
}

int cmd_edit(int argc, char **argv) {
    const char *args[2];
    int status;
    cli_list set = {0}, remove = {0}, rename = {0};
    const cli_option options[] = {
        {"--set", OPT_LIST, &set, "KEY[:TYPE]=VALUE", "set a key", 0, 0},
        {"--remove", OPT_LIST, &remove, "KEY", "remove a key", 0, 0},
        {"--rename", OPT_LIST, &rename, "OLD=NEW", "rename a key", 0, 0},
    };
    const cli_spec spec = {"edit",
                           "IN OUT --set KEY=VALUE --remove KEY --rename OLD=NEW",
                           "Write a copy of a file with other metadata; the input is not changed. Each option may be repeated;\n"
                           "keys are removed first, then renamed, then set. A key that exists keeps its type, a new one is a\n"
                           "string, unless KEY:TYPE=VALUE names the type: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string, or\n"
                           "one of them with [] for an array. Arrays are written 1,2,3 or [\"a\", \"b\"]; a string @FILE is the\n"
                           "contents of a file, @@ a leading @. With general.alignment the tensors move. Files that the library\n"
                           "refuses can be edited too, as long as their format is sound. OUT appears when it is complete.\n",
                           options,
                           3,
                           0,
                           2,
                           2};
    cli_common common;
    edit e;
    memset(&e, 0, sizeof e);
    if (cli_parse(&spec, argc, argv, &common, args, &status)) {
        if (set.n + remove.n + rename.n == 0) status = cli_usage_error("edit", "give at least one of --set, --remove and --rename");
        else if (!file_open(&e.in, "edit", args[0])) status = CLI_FAILED;
        else if (platform_same_file(args[0], args[1])) status = cli_usage_error("edit", "OUT is IN: give another name");
        else if (e.in.n_parts > 1) status = cli_fail("edit", "%s is split into %d files: merge them first (infer merge)", args[0], e.in.n_parts);
        else {
            cli_catch_interrupts();
            status = apply(&e, &set, &remove, &rename) ? write_edited(&e, args[1]) : CLI_FAILED;
        }
    }
    while (e.n_names > 0) free(e.own_names[--e.n_names]);
    while (e.n_values > 0) free(e.values[--e.n_values]);
    free(e.own_names);
    free(e.values);
    free(e.keys);
    file_close(&e.in);
    return status;
}
