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
    for (i = 1; i < MAX_LEVEL; i++) {
        const char *name = infer_cpu_level_name(i, &usable);
        if (name == NULL) continue;
        printf("cpu level  %-12s %s%s\n", name, usable ? "usable" : "not on this CPU", i == best ? "  <- auto" : "");
    }
    for (i = 0; i < n; i++) {
        if (infer_device_get(i, &d) != INFER_OK) continue;
        if (d.usable) {
            printf("device %-3ld %-7s %s  %s, %s free%s\n", (long)i, backend_name(d.backend), d.name,
                   cli_bytes_text((double)d.total, total), cli_bytes_text((double)d.free, memory_free),
                   d.automatic ? "  <- auto" : "");
        } else {
            printf("device -   %-7s %s%snot available: %s\n", backend_name(d.backend), d.name, d.name[0] ? "  " : "",
                   d.why_not);
        }
    }
}

int cmd_devices(int argc, char **argv) {
    const cli_spec spec = {"devices",
                           "",
                           "One line per CPU level and per GPU: name, API, memory in all and free, or why it cannot\n"
                           "be used. The arrow marks what `auto` picks; --device takes the number.\n",
                           NULL,
                           0,
                           TAKES_JSON,
                           0,
                           0};
    cli_common common;
    int status;
    if (!cli_parse(&spec, argc, argv, &common, NULL, &status)) return status;
    if (common.json)
        print_json();
    else
        print_text();
    return CLI_DONE;
}
