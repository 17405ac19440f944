/* devices.c: `infer devices`, what this machine offers. */
#include "cli.h"

#include <string.h>

enum { MAX_LEVEL = 64 };

static const char *const BACKENDS[] = {"auto", "cpu", "cuda", "hip", "opencl", "metal"};

static const char *backend_name(int32_t backend) {
    return backend >= 0 && backend <= INFER_METAL ? BACKENDS[backend] : "other";
}

const char *cli_backend_name(const infer_memory *memory) {
    infer_device_info d;
    if (memory->n_devices == 0) return "cpu";
    return infer_device_get(memory->devices[0].device, &d) == INFER_OK ? backend_name(d.backend) : "other";
}

static int32_t best_level(void) {
    int32_t level, usable, best = 0;
    for (level = 1; level < MAX_LEVEL; level++) {
        if (infer_cpu_level_name(level, &usable) && usable) best = level;
    }
    return best;
}

static void print_json(void) {
    int32_t i, usable, first = 1, n = infer_device_count(), best = best_level();
    infer_device_info d;
    printf("{\"cpu_levels\": [");
    for (i = 1; i < MAX_LEVEL; i++) {
        const char *name = infer_cpu_level_name(i, &usable);
        if (name == NULL) continue;
        printf("%s{\"name\": \"%s\", \"usable\": %s, \"auto\": %s}", first ? "" : ", ", name, usable ? "true" : "false",
               i == best ? "true" : "false");
        first = 0;
    }
    printf("], \"devices\": [");
    for (i = 0; i < n; i++) {
        if (infer_device_get(i, &d) != INFER_OK) continue;
        printf("%s{\"device\": %ld, \"api\": \"%s\", \"name\": ", i ? ", " : "", (long)i, backend_name(d.backend));
        json_text(stdout, d.name);
        printf(", \"usable\": %s, \"unified\": %s, \"total\": %.0f, \"free\": %.0f, \"auto\": %s, \"why_not\": ",
               d.usable ? "true" : "false", d.unified ? "true" : "false", (double)d.total, (double)d.free,
               d.automatic ? "true" : "false");
        json_text(stdout, d.why_not);
        putchar('}');
    }
    printf("]}\n");
}

static void print_text(void) {
    int32_t i, usable, n = infer_device_count(), best = best_level();
    infer_device_info d;
    char total[32], memory_free[32];
    const char *why = "";
    for (i = 1; i < MAX_LEVEL; i++) {
        const char *name = infer_cpu_level_name(i, &usable);
        if (name == NULL) continue;
        if (!usable) why = i == INFER_CPU_AMXINT8 || i == INFER_CPU_AMXBF16 ? "not on this CPU, or not permitted by the system" : "not on this CPU";
        printf("cpu level  %-12s %s%s\n", name, usable ? "usable" : why, i == best ? "  <- auto" : "");
    }
    for (i = 0; i < n; i++) {
        if (infer_device_get(i, &d) != INFER_OK) continue;
        if (d.usable) {
            printf("device %-3ld %-7s %s  %s", (long)i, backend_name(d.backend), d.name,
                   cli_bytes_text((double)d.total, total));
            if (d.free < d.total) printf(", %s free", cli_bytes_text((double)d.free, memory_free)); /* else not known */
            printf("%s\n", d.automatic ? "  <- auto" : "");
        } else {
            printf("device -   %-7s %s%snot available: %s\n", backend_name(d.backend), d.name, d.name[0] ? "  " : "",
                   d.why_not);
        }
    }
}

/* ---- --check ---------------------------------------------------------------------------------------------------- */

static const char *const VERDICTS[] = {"ok", "DIFFERS", "FAILED", "not built"};

typedef struct check {
    int32_t device;
    int json, rows; /* so far, of all devices */
} check;

static void check_json(const check *c, const infer_kernel_check *row) {
    printf("%s{\"device\": %ld, \"program\": ", c->rows ? ",\n" : "", (long)c->device);
    json_text(stdout, row->program);
    printf(", \"check\": ");
    json_text(stdout, row->check);
    printf(", \"verdict\": \"%s\", \"error\": %.3g, \"limit\": %.3g, \"nmse\": %.3g, \"nmse_limit\": %.3g, \"kernels\": ",
           VERDICTS[row->verdict], row->error, row->limit, row->nmse, row->nmse_limit);
    json_text(stdout, row->kernels);
    printf(", \"input\": ");
    json_text(stdout, row->input);
    printf(", \"message\": ");
    json_text(stdout, row->message);
    putchar('}');
}

/* Prints a row at once: if a device hangs, the output shows after which kernel. */
static int check_row(void *user, const infer_kernel_check *row) {
    check *c = user;
    char error[32];
    if (c->json) {
        check_json(c, row);
    } else {
        if (row->verdict == INFER_KERNEL_NOT_BUILT || row->verdict == INFER_KERNEL_FAILED || row->error >= 1e30)
            snprintf(error, sizeof error, "-");
        else
            snprintf(error, sizeof error, "%.1e of %.0e", row->error, row->limit);
        printf("%-6ld  %-9s  %-18s  %-9s  %-16s  %s%s%s\n", (long)c->device, row->program, row->check,
               VERDICTS[row->verdict], error, row->kernels, row->kernels[0] ? ": " : "", row->input);
        if (row->message[0]) printf("        %s\n", row->message);
    }
    c->rows++;
    return fflush(stdout) != 0;
}

static int check_devices(const cli_common *common) {
    int32_t i, n = infer_device_count(), devices = 0;
    int status = CLI_DONE;
    infer_device_info d;
    infer_error err;
    check c;
    memset(&c, 0, sizeof c);
    c.json = common->json;
    if (c.json) printf("[");
    for (i = 1; i < n; i++) {
        if (infer_device_get(i, &d) != INFER_OK || !d.usable) continue;
        if (common->device > 0 && common->device != i) continue;
        if (!c.json) printf("device %ld: %s, %s\n", (long)i, backend_name(d.backend), d.name);
        if (!c.json)
            printf("%-6s  %-9s  %-18s  %-9s  %-16s  %s\n", "device", "program", "check", "result", "error of allowed",
                   "kernels: input of the worst case");
        c.device = i;
        devices++;
        if (infer_device_check(i, NULL, check_row, &c, &err) == INFER_OK) continue;
        fflush(stdout);
        status = cli_fail("devices", "%s", err.message);
    }
    if (c.json) printf("]\n");
    if (devices == 0) {
        if (common->device > 0) return cli_fail("devices", "device %ld is not a usable GPU", (long)common->device);
        if (!c.json) printf("no GPU to check\n");
    }
    return status;
}

int cmd_devices(int argc, char **argv) {
    int checked = 0;
    int64_t device = 0;
    const cli_option options[] = {
        {"--check", OPT_FLAG, &checked, NULL, "compare every GPU kernel with the CPU", 0, 0},
        {"--device", OPT_INT, &device, "N", "with --check: only this device", 1, 1000},
    };
    const cli_spec spec = {"devices",
                           "[--check]",
                           "One line per CPU level and per GPU: name, API, total and free memory, or why it cannot\n"
                           "be used. The arrow marks what `auto` picks; --device takes the number.\n"
                           "\n"
                           "--check runs all kernels (every storage type, type of cache, activation; special ones for\n"
                           "tensor cores) on small inputs on each GPU and on the CPU, and compares. A row per program\n"
                           "and operation: the result, the largest error with what is allowed (a share of the size of\n"
                           "a sum's terms), kernels and input of the worst case. ok; DIFFERS: the GPU computes something\n"
                           "else; FAILED: the driver reports an error; not built: its compiler refuses the program. The\n"
                           "exit status is 1 when a kernel that models need is not ok. A GPU that hangs stops the\n"
                           "program: the row after the last one is the one to report. Opening a model runs the same\n"
                           "checks for the kernels that it needs (--gpu-unchecked leaves them out).\n",
                           options,
                           sizeof options / sizeof *options,
                           TAKES_JSON,
                           0,
                           0};
    cli_common common;
    int status;
    if (!cli_parse(&spec, argc, argv, &common, NULL, &status)) return status;
    if (checked) {
        common.device = device;
        return check_devices(&common);
    }
    if (device > 0) return cli_usage_error("devices", "--device goes with --check");
    if (common.json)
        print_json();
    else
        print_text();
    return CLI_DONE;
}
