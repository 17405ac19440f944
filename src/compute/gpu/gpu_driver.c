/* gpu_driver.c: shared by GPU drivers: loading a library, compiler logs, compiled programs in the caller's cache. *
 * Rules: names no vendor. Data from the cache is not trusted: its size and hash are checked, since drivers crash on
 * damaged programs.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU
#include "../../../kernels_embed.h" /* here, since drivers may be left out */

static int infer__gpu_library(const char *const *names, size_t n, const char *(*find)(void *table, void *lib),
                              void *table, char *why_not, size_t cap) {
    size_t i;
    for (i = 0; i < n; i++) {
        void *lib = infer__lib_open(names[i]);
        const char *missing = lib ? find(table, lib) : NULL;
        if (lib && !missing) {
            why_not[0] = 0;
            return 1;
        }
        if (missing) infer__format(why_not, cap, "%s has no %s", names[i], missing);
        else if (!why_not[0]) infer__format(why_not, cap, "%s was not found", names[i]);
        infer__lib_close(lib);
    }
#if defined(INFER_NO_RUNTIME_LINKING)
    infer__format(why_not, cap, "built with INFER_NO_RUNTIME_LINKING");
#endif
    return 0;
}

/* Where the first line begins that has "error" in it, in lower or upper case; else the text. */
static const char *infer__gpu_error_line(const char *text) {
    static const char lower[] = "error", upper[] = "ERROR";
    const char *line = text, *s;
    for (s = text; *s; s++) {
        int i = 0;
        while (i < 5 && (s[i] == lower[i] || s[i] == upper[i])) i++;
        if (i == 5) return line;
        if (*s == '\n') line = s + 1;
    }
    return text;
}

static void infer__gpu_log_line(const char *text, char *to, size_t cap) {
    const char *s = infer__gpu_error_line(text);
    size_t at = 0;
    for (; *s && at + 1 < cap; s++) {
        char c = *s == '\n' || *s == '\r' || *s == '\t' ? ' ' : *s;
        if (c != ' ' || (at > 0 && to[at - 1] != ' ')) to[at++] = c;
    }
    to[at] = 0;
    if (at == 0) infer__format(to, cap, "no log");
}

static uint64_t infer__hash_text(uint64_t hash, const char *text) {
    return infer__fnv(hash, text, strlen(text) + 1); /* including the zero, so that "ab" "c" differs from "a" "bc" */
}

/* ---- compiled programs in the caller's cache --------------------------------------------------------------------- */

/* The hash that a binary's key and head are made of; *key is the key. */
static uint64_t infer__gpu_key(const infer__gpu_source *source, const char *api, uint64_t hash, char key[96]) {
    int i;
    for (i = 0; i < 8; i++) {
        uint8_t byte = (uint8_t)(source->hash >> (8 * i));
        hash = infer__fnv(hash, &byte, 1);
    }
    infer__format(key, 96, "infer-%s-%016llx-%s", api, (unsigned long long)hash, source->name);
    return infer__hash_text(hash, source->name);
}

/* The header of a binary: a mark, and the hash of key and binary. */
static void infer__gpu_head(uint8_t head[INFER__GPU_CACHE_HEAD], uint64_t key_hash, const uint8_t *binary, size_t n) {
    uint64_t h = infer__fnv(key_hash, binary, n);
    int i;
    memcpy(head, "infercl1", 8);
    for (i = 0; i < 8; i++) head[8 + i] = (uint8_t)(h >> (8 * i));
}

static uint8_t *infer__gpu_cached(infer__mem *mem, const infer__gpu_source *source, const char *api,
                                  uint64_t device_hash, size_t *size) {
    const infer_cache *cache = source->cache;
    char key[96];
    uint8_t *data, head[INFER__GPU_CACHE_HEAD];
    uint64_t key_hash = infer__gpu_key(source, api, device_hash, key);
    size_t n = cache && cache->get ? cache->get(cache->user, key, NULL, 0) : 0;
    *size = 0;
    if (n <= INFER__GPU_CACHE_HEAD || n > INFER__GPU_CACHE_MAX) return NULL;
    data = (uint8_t *)infer__alloc(mem, n);
    if (!data) return NULL;
    *size = n - INFER__GPU_CACHE_HEAD;
    if (cache->get(cache->user, key, data, n) == n) {
        infer__gpu_head(head, key_hash, data + INFER__GPU_CACHE_HEAD, *size);
        if (memcmp(head, data, sizeof head) == 0) return data;
    }
    infer__free(mem, data);
    return NULL;
}

static void infer__gpu_keep(const infer__gpu_source *source, const char *api, uint64_t device_hash, uint8_t *data,
                            size_t n) {
    const infer_cache *cache = source->cache;
    char key[96];
    uint64_t key_hash = infer__gpu_key(source, api, device_hash, key);
    if (!cache || !cache->put) return;
    infer__gpu_head(data, key_hash, data + INFER__GPU_CACHE_HEAD, n);
    cache->put(cache->user, key, data, n + INFER__GPU_CACHE_HEAD);
}

#endif
