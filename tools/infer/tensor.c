/* tensor.c: `infer tensor`, one tensor as float32. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_FLOATS = 1 << 20 };

static int write_tensor(const infer_model *model, const infer_tensor_info *t, FILE *file) {
    uint64_t row, width = t->dims[0] ? t->dims[0] : 1, step = CHUNK_FLOATS / width;
    infer_error err;
    float *x;
    if (step == 0) step = 1;
    if (step > t->rows) step = t->rows;
    if (step * width > SIZE_MAX / sizeof *x) {
        cli_fail("tensor", "a row of %s is too long", t->name);
        return 0;
    }
    x = cli_alloc("tensor", (size_t)(step * width), sizeof *x);
    if (x == NULL) return 0;
    for (row = 0; row < t->rows; row += step) {
        uint64_t n = t->rows - row < step ? t->rows - row : step;
        if (infer_tensor_read(model, t->name, row, n, x, &err) != INFER_OK) {
            cli_fail("tensor", "%s", err.message);
            free(x);
            return 0;
        }
        if (!cli_write_f32(file, x, (size_t)(n * t->dims[0]))) break; /* cli_close reports it */
    }
    free(x);
    return 1;
}

int cmd_tensor(int argc, char **argv) {
    const char *out = NULL, *args[2];
    int status, ok = 0;
    const cli_option options[] = {
        {"--out", OPT_STRING, &out, "OUT", "output file; - is stdout", 0, 0},
    };
    const cli_spec spec = {"tensor",
                           "MODEL NAME --out OUT",
                           "One tensor as raw little-endian float32, row by row, whatever type it is stored in.\n"
                           "`infer info MODEL` lists the names.\n",
                           options,
                           1,
                           TAKES_MODEL,
                           2,
                           2};
    cli_common common;
    infer_model *model;
    infer_tensor_info t;
    FILE *file;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (out == NULL) return cli_usage_error("tensor", "--out OUT is missing");
    if (!cli_check_output("tensor", out, args, 1)) return CLI_USAGE;
    model = cli_open("tensor", args[0], &common, 1);
    if (model == NULL) return CLI_FAILED;
    if (infer_tensor_find(model, args[1], &t) != INFER_OK) {
        cli_fail("tensor", "%s has no tensor '%s'", args[0], args[1]);
    } else if ((file = cli_create("tensor", out)) != NULL) {
        ok = write_tensor(model, &t, file);
        if (!cli_close("tensor", file, out)) ok = 0;
        if (!ok && strcmp(out, "-") != 0) platform_remove(out);
    }
    cli_model_close(model);
    return ok ? CLI_DONE : CLI_FAILED;
}
