/* split.c: `infer split`, a model in several files. */
#include "files.h"

#include <stdlib.h>
#include <string.h>

int cmd_split(int argc, char **argv) {
    const char *args[2];
    const file_key **keys;
    int status;
    file_model in;
    out_model out;
    const cli_option options[] = {
        {"--max-size|--split-max-size", OPT_SIZE, &out.max_size, "SIZE", "bytes of a file at most: 500M, 2G", 1, INT64_MAX},
        {"--max-tensors|--split-max-tensors", OPT_INT, &out.max_tensors, "N", "tensors of a file at most", 1, INT32_MAX},
    };
    const cli_spec spec = {"split",
                           "IN PREFIX --max-size SIZE | --max-tensors N",
                           "Split a model into files PREFIX-00001-of-0000N.gguf and so on. The first holds the metadata, and is the\n"
                           "one to name when the model is used. A split model can be split again. The input is not changed; the\n"
                           "files appear when all are complete. It fails if a single tensor needs more than --max-size.\n",
                           options,
                           2,
                           0,
                           2,
                           2};
    cli_common common;
    memset(&out, 0, sizeof out);
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (!out_is_split(&out)) return cli_usage_error("split", "give --max-size or --max-tensors");
    if (!file_open(&in, "split", args[0])) return CLI_FAILED;
    cli_catch_interrupts();
    out.in = &in;
    keys = file_whole_keys(&in, &out.n_keys);
    out.keys = keys;
    out.alignment = file_alignment("split", args[0], in.keys, in.n_keys);
    status = keys && out.alignment ? out_write(&out, args[1]) : CLI_FAILED;
    if (status == CLI_DONE)
        fprintf(stderr, "%s: %d file%s, %.0f tensors\n", out.paths[0], out.n_files, out.n_files == 1 ? "" : "s", (double)in.n_tensors);
    out_model_free(&out);
    free((void *)keys);
    file_close(&in);
    return status;
}
