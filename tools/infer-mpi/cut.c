/* cut.c: which layers a range has: as asked, or so that the bytes of its weights are in proportion to its ranks' memory.
 * Bytes are also the time that generation takes, so ranks with the same memory are as fast as each other. */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

/* "0-11,12-23" */
static int parse(const char *text, int32_t layers, int32_t *first) {
    char *end;
    long a, b;
    const int ranges = ring_ranges();
    int r;
    for (r = 0; r < ranges; r++) {
        a = b = strtol(text, &end, 10);
        if (end == text) return 0;
        if (*end == '-') {
            text = end + 1;
            b = strtol(text, &end, 10);
            if (end == text) return 0;
        }
        if (a != (r ? first[r] : 0) || b < a || b >= layers || *end != (r + 1 < ranges ? ',' : 0)) return 0;
        first[r] = (int32_t)a;
        first[r + 1] = (int32_t)b + 1;
        text = end + 1;
    }
    return first[ranges] == layers;
}

/* Bytes of every layer, by the names of tensors, and of the rest at [layers]; the same of all where names do not say. */
static int layer_bytes(const char *path, const infer_model_params *params, int32_t layers, double *bytes) {
    infer_model_params p = *params;
    infer_model *model;
    infer_tensor_info t;
    infer_error err;
    int32_t i, most = -1;
    p.vocab_only = 1;
    p.preload = 0;
    p.projector = NULL;
    if (infer_model_open(&model, path, &p, &err) != INFER_OK) return 0;
    for (i = 0; infer_tensor_get(model, i, &t) == INFER_OK; i++) {
        char *end;
        const long block = strncmp(t.name, "blk.", 4) == 0 ? strtol(t.name + 4, &end, 10) : -1;
        if (block >= 0 && block < layers) bytes[block] += (double)t.bytes;
        else if (block < 0) bytes[layers] += (double)t.bytes;
        if (block > most) most = (int32_t)block;
    }
    for (i = 0; i < layers && most + 1 < layers; i++) bytes[i] = 1;
    if (most + 1 < layers) bytes[layers] = 0;
    infer_model_close(model);
    return 1;
}

/* 1 when layers from `at` on can be a range's; moves it to the last place before that can. */
static int find_cut(const char *path, const infer_model_params *params, int32_t low, int32_t *at, infer_error *err) {
    infer_model_params p = *params;
    infer_memory memory;
    for (; *at > low; --*at) {
        p.first_layer = *at;
        if (infer_model_memory_path(path, &p, NULL, &memory, err) != INFER_ERR_UNSUPPORTED) return err->code == INFER_OK;
    }
    return 0;
}

int cut_layers(const char *command, const char *path, const infer_model_params *params, const double *of_ranks, int32_t *first) {
    infer_memory memory;
    infer_error err;
    double *bytes, all = 0, room = 0, sum, target = 0;
    const int ranges = ring_ranges();
    int32_t i, at;
    int r, k;
    if (infer_model_memory_path(path, params, NULL, &memory, &err) != INFER_OK) return cli_fail(command, "%s: %s", path, err.message) == CLI_DONE;
    if (memory.layers < ranges)
        return cli_fail(command, "%s has %ld layers, too few for %d ranks", path, (long)memory.layers, ranges) == CLI_DONE;
    memset(first, 0, ((size_t)ranges + 1) * sizeof *first);
    if (ring.layers) {
        if (parse(ring.layers, memory.layers, first)) return 1;
        return cli_fail(command, "--layers %s: %d ranges, from layer 0 to %ld, are needed (0-3,4-7)", ring.layers, ranges,
                        (long)memory.layers - 1) == CLI_DONE;
    }
    bytes = calloc((size_t)memory.layers + 1, sizeof *bytes);
    if (bytes == NULL || !layer_bytes(path, params, memory.layers, bytes)) {
        free(bytes);
        return cli_fail(command, "%s: no memory to cut it", path) == CLI_DONE;
    }
    for (i = 0; i <= memory.layers; i++) all += bytes[i];
    for (r = 0; r < ring_size; r++) room += of_ranks[r];
    for (r = 1, at = 0, sum = bytes[memory.layers]; r < ranges; r++) { /* what belongs to no layer is the first range's */
        for (k = 0; k < ring.split; k++) target += all * (room > 0 ? of_ranks[(r - 1) * ring.split + k] / room : 1.0 / ring_size);
        while (at < memory.layers - (ranges - r) && (at <= first[r - 1] || sum + bytes[at] / 2 < target)) sum += bytes[at++];
        if (!find_cut(path, params, first[r - 1], &at, &err)) break;
        for (i = at, sum = bytes[memory.layers]; i > 0; i--) sum += bytes[i - 1];
        first[r] = at;
    }
    first[ranges] = memory.layers;
    free(bytes);
    if (r == ranges) return 1;
    return cli_fail(command, "%s cannot be cut for %d ranks: %s", path, ranges, err.message) == CLI_DONE;
}
