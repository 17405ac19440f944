/* merge.c: `infer merge`, one file of a split model. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

static int merge_model(file_model *in, const char *path) {
    out_model out = {.in = in, .alignment = file_alignment("merge", in->path, in->keys, in->n_keys)};
    const file_key **keys = out.alignment ? file_whole_keys(in, &out.n_keys) : NULL;
    char text[32];
    int status;
    if (keys == NULL) return CLI_FAILED;
    out.keys = keys;
    status = out_write(&out, path);
    if (status == CLI_DONE)
        fprintf(stderr, "%s: %d files, %.0f tensors of %s\n", path, in->n_parts, (double)in->n_tensors,
                cli_bytes_text((double)in->data_bytes, text));
    out_model_free(&out);
    free((void *)keys);
    return status;
}

int cmd_merge(int argc, char **argv) {
    const char *args[2];
    int status;
    const cli_spec spec = {"merge",
                           "FIRST OUT",
                           "Write a split model to one file. FIRST is the file whose name ends in -00001-of-0000N.gguf; the others\n"
                           "are found beside it. They are not changed; OUT appears when it is complete.\n",
                           NULL,
                           0,
                           0,
                           2,
                           2};
    cli_common common;
    file_model in;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (!file_open(&in, "merge", args[0])) return CLI_FAILED;
    cli_catch_interrupts();
    if (file_find_key(&in, "split.count") == NULL) status = cli_fail("merge", "%s is not split", args[0]);
    else if (file_is_part(&in, args[1])) status = cli_usage_error("merge", "OUT is a file of the input: give another name");
    else status = merge_model(&in, args[1]);
    file_close(&in);
    return status;
}
