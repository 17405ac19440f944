/* gpu.c: on a GPU where there is one, else on the CPU, and say so. Compiled kernels are kept as files of a FOLDER, if one is
 * named, so that the second start is quick. The library never falls back by itself: a device that was asked for must work; this program decides.
 *
 *   cc -O2 examples/gpu.c -o gpu -lm -lpthread -ldl
 *   ./gpu model.gguf "Once upon a time" build
 */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>

static int show(void *user, const char *text, size_t n) {
    (void)user;
    return fwrite(text, 1, n, stdout) != n;
}

/* The keys are short and printable: good file names. */
static FILE *kernel_file(const char *folder, const char *key, const char *mode) {
    char path[1024];
    return snprintf(path, sizeof path, "%s/%s", folder, key) < (int)sizeof path ? fopen(path, mode) : NULL;
}

static size_t kept(void *folder, const char *key, void *dst, size_t cap) {
    FILE *f = kernel_file(folder, key, "rb");
    long size = 0;
    if (!f) return 0;
    if (fseek(f, 0, SEEK_END) == 0) size = ftell(f);
    rewind(f);
    if (size < 0 || (cap >= (size_t)size && fread(dst, 1, (size_t)size, f) != (size_t)size)) size = 0;
    fclose(f);
    return (size_t)size;
}

static void keep(void *folder, const char *key, const void *data, size_t n) {
    FILE *f = kernel_file(folder, key, "wb");
    if (f) {
        fwrite(data, 1, n, f); /* a file that is cut short is refused when it is read, and made again */
        fclose(f);
    }
}

int main(int argc, char **argv) {
    infer_model_params model_params = { .backend = INFER_OPENCL };
    infer_generate_params params = { .max_tokens = 32, .text = show };
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_device_info device;
    infer_stats stats;
    infer_error err = { 0, "" };
    int32_t i;
    if (argc < 3 || argc > 4) return fprintf(stderr, "usage: gpu model.gguf PROMPT [FOLDER]\n"), 1;
    if (argc == 4) {
        model_params.cache.user = argv[3];
        model_params.cache.get = kept;
        model_params.cache.put = keep;
    }

    for (i = 0; infer_device_get(i, &device) == INFER_OK; i++)
        fprintf(stderr, "device %d: %s%s%s\n", (int)i, device.name, device.usable ? "" : " cannot be used: ", device.why_not);
    if (infer_model_open(&model, argv[1], &model_params, &err)) {
        fprintf(stderr, "on the CPU, because: %s\n", err.message);
        model_params.backend = INFER_CPU;
        if (infer_model_open(&model, argv[1], &model_params, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    }
    if (infer_session_create(&session, model, NULL, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    if (infer_generate(session, NULL, argv[2], &params, NULL))
        return fprintf(stderr, "%s\n", infer_session_error(session)->message), 1;
    infer_session_stats(session, &stats);
    fprintf(stderr, "\nthe last token: %llu bytes up, %llu down, %llu launches, %llu waits\n", (unsigned long long)stats.bytes_up,
            (unsigned long long)stats.bytes_down, (unsigned long long)stats.launches, (unsigned long long)stats.syncs);
    infer_session_destroy(session);
    return infer_model_close(model) != INFER_OK;
}
