/* kernel_cache.c: keeps in files between runs the programs that GPU drivers have compiled, and that a device's kernels
 *passed their checks. * One file per key, written under a temporary name and renamed, so that concurrent programs do
 *not interfere. Nothing here is an
 * error: without a folder, or when a file cannot be written, kernels are compiled again. The library checks what it gets
 * back. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PATH_BYTES = 1024 };

/* The file of a key; keys come from the library, but one with a folder in it could name any file. */
static int key_path(const char *folder, const char *key, char *out) {
    size_t i;
    for (i = 0; key[i]; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", key[i])) return 0;
    return snprintf(out, MAX_PATH_BYTES, "%s/%s.bin", folder, key) < MAX_PATH_BYTES;
}

static size_t cache_get(void *folder, const char *key, void *dst, size_t cap) {
    char path[MAX_PATH_BYTES];
    FILE *file = key_path(folder, key, path) ? platform_fopen(path, "rb") : NULL;
    long n = 0;
    if (file == NULL) return 0;
    if (fseek(file, 0, SEEK_END) == 0) n = ftell(file);
    if (n > 0 && (size_t)n <= cap && (fseek(file, 0, SEEK_SET) != 0 || fread(dst, 1, (size_t)n, file) != (size_t)n)) n = 0;
    fclose(file);
    return n > 0 ? (size_t)n : 0;
}

static void cache_put(void *folder, const char *key, const void *data, size_t n) {
    char path[MAX_PATH_BYTES], made[MAX_PATH_BYTES + 32]; /* the number of the process after it */
    FILE *file;
    int ok;
    if (!key_path(folder, key, path)) return;
    snprintf(made, sizeof made, "%s.%ld", path, platform_process());
    file = platform_fopen(made, "wb");
    if (file == NULL) return;
    ok = fwrite(data, 1, n, file) == n;
    ok = fclose(file) == 0 && ok;
    if (!ok || !platform_rename(made, path)) platform_remove(made);
}

void cli_kernel_cache(const char *folder, infer_cache *out) {
    static char usual[MAX_PATH_BYTES];
    memset(out, 0, sizeof *out);
    if (folder == NULL && platform_cache_folder(usual, sizeof usual)) folder = usual;
    if (folder == NULL || *folder == 0) return;
    out->user = (void *)(uintptr_t)folder;
    out->get = cache_get;
    out->put = cache_put;
}
