/* gpu_verdict.c: is a device usable? The result of checking its kernels, now or cached.
 *
 * Owns:  the verdicts in the caller's cache of compiled programs: a key and a record of fixed size.
 * Rules: a verdict applies to a device, its driver, this version and these kernels on these inputs; a change in any of
 *        them gives another key. "ok" and differing results are cached, since they are reproducible; failed launches
 *        are not. A record with a wrong mark, hash or text is ignored. The hash detects damage, not malice: writers of
 *        the cache are trusted, as with programs.
 * Start: infer__gpu_judge.
 */
#include "../gpu.h"

#ifndef INFER_NO_GPU

enum { INFER__VERDICT_TEXT = 304, INFER__VERDICT_BITS = (INFER__MODULE_COUNT + 7) / 8 };
typedef struct infer__verdict {
    uint8_t head[INFER__GPU_CACHE_HEAD];   /* mark, hash of key and the rest */
    uint8_t verdict;                       /* INFER_KERNEL_OK or DIFFERS */
    uint8_t dropped[INFER__VERDICT_BITS];  /* dropped special programs, as bits by module */
    char text[INFER__VERDICT_TEXT];        /* what differs; zero-terminated, zeros to its end */
} infer__verdict;

/* The hash of everything that results depend on; *key is the key. */
static uint64_t infer__verdict_key(infer__gpu *g, const infer__gpu_uses *u, char key[96]) {
    const infer__driver *driver = infer__gpu_driver(g);
    uint64_t identity = driver->identity ? driver->identity(infer__gpu_device(g)) : 0, kernels;
    uint64_t hash = infer__hash_text(infer__hash_text(INFER__FNV, driver->name), infer__gpu_name(g));
    uint32_t version = INFER_VERSION;
    char system[256];
    int32_t i;
    infer__system_version(system, sizeof system); /* on some systems the driver is part of the system and reports no
                                                   * version */
    hash = infer__hash_text(hash, system);
    hash = infer__fnv(hash, &identity, sizeof identity);
    hash = infer__fnv(hash, &version, sizeof version);
    for (i = 0; i < INFER__MODULE_COUNT; i++) {
        if (!infer__gpu_uses_module(g, i, u)) continue;
        kernels = infer__gpu_module_hash(g, i);
        hash = infer__fnv(hash, &kernels, sizeof kernels);
    }
    hash = infer__fnv(hash, u, sizeof *u);
    infer__format(key, 96, "infer-%s-%016llx-check", driver->name, (unsigned long long)hash);
    return hash;
}

static void infer__verdict_head(const infer__verdict *v, uint64_t key_hash, uint8_t head[INFER__GPU_CACHE_HEAD]) {
    uint64_t h = infer__fnv(key_hash, &v->verdict, 1);
    int i;
    h = infer__fnv(infer__fnv(h, v->dropped, sizeof v->dropped), v->text, sizeof v->text);
    memcpy(head, "inferck2", 8);
    for (i = 0; i < 8; i++) head[8 + i] = (uint8_t)(h >> (8 * i));
}

/* 1: *v is the cached record. */
static int infer__verdict_get(const infer_cache *cache, const char *key, uint64_t key_hash, infer__verdict *v) {
    uint8_t head[INFER__GPU_CACHE_HEAD];
    memset(v, 0, sizeof *v);
    if (!cache->get || cache->get(cache->user, key, NULL, 0) != sizeof *v) return 0;
    if (cache->get(cache->user, key, v, sizeof *v) != sizeof *v) return 0;
    infer__verdict_head(v, key_hash, head);
    if (memcmp(head, v->head, sizeof head) != 0 || v->text[sizeof v->text - 1] != 0) return 0;
    infer__clean(v->text, 0);
    return v->verdict == INFER_KERNEL_OK || v->verdict == INFER_KERNEL_DIFFERS;
}

/* v: zeros, and what has been dropped. */
static void infer__verdict_put(const infer_cache *cache, const char *key, uint64_t key_hash, infer__verdict *v,
                               int32_t verdict, const char *text) {
    if (!cache->put || (verdict != INFER_KERNEL_OK && verdict != INFER_KERNEL_DIFFERS)) return;
    v->verdict = (uint8_t)verdict;
    infer__format(v->text, sizeof v->text, "%s", text);
    infer__verdict_head(v, key_hash, v->head);
    cache->put(cache->user, key, v, sizeof *v);
}

/* Drop the special programs that are to blame; 0 when there are none. */
static int infer__verdict_drop(infer__gpu *g, infer__verdict *v, const char *why) {
    const infer__gpu_blame *b = infer__gpu_blamed(g);
    int32_t i;
    for (i = 0; i < b->n; i++) {
        int32_t m = b->modules[i];
        infer__log(infer__gpu_report(g), 2, "%s: %s; going on without %s", infer__gpu_name(g), why,
                   infer__module_at(m)->name);
        infer__gpu_drop(g, m);
        v->dropped[m / 8] = (uint8_t)(v->dropped[m / 8] | 1 << m % 8);
    }
    return b->n > 0;
}

static infer_result infer__gpu_judge(infer__gpu *g, const infer__gpu_uses *u, infer__mem *mem, int known_only,
                                     infer_error *err) {
    const infer_cache *cache = infer__gpu_cache(g);
    char key[96];
    uint64_t key_hash = infer__verdict_key(g, u, key);
    int32_t verdict, i, failed = 0;
    double start = infer__seconds();
    infer__verdict v;
    infer_error why;
    infer_result r;
    if (infer__verdict_get(cache, key, key_hash, &v)) {
        infer__log(infer__gpu_report(g), 4, "%s: its kernels have been checked before", infer__gpu_name(g));
        if (v.verdict != INFER_KERNEL_OK)
            return infer__error(err, INFER_ERR_DEVICE, "%s: %s", infer__gpu_name(g), v.text);
        for (i = 0; i < INFER__MODULE_COUNT; i++)
            if (v.dropped[i / 8] >> i % 8 & 1 && infer__module_at(i)->kind >= INFER__MODULE_SPECIAL)
                infer__gpu_drop(g, i);
        return INFER_OK;
    }
    if (known_only) return INFER_OK;
    memset(&v, 0, sizeof v);
    do {
        infer__error_clear(&why);
        r = infer__gpu_check(g, u, mem, NULL, NULL, &verdict, &why);
        if (r && verdict == INFER_KERNEL_OK)
            return infer__error(err, r, "%s", why.message); /* the check itself failed */
        failed |= verdict == INFER_KERNEL_FAILED;
    } while (verdict != INFER_KERNEL_OK && infer__verdict_drop(g, &v, why.message));
    /* a special program that was not built has not been checked: it may be available next time */
    if (!failed && (verdict != INFER_KERNEL_OK || !infer__gpu_lacks_any(g)))
        infer__verdict_put(cache, key, key_hash, &v, verdict, why.message);
    if (r) return infer__error(err, r, "%s: %s", infer__gpu_name(g), why.message);
    infer__log(infer__gpu_report(g), 3, "%s: its kernels compute what the CPU does (checked in %.2f s)",
               infer__gpu_name(g), infer__seconds() - start);
    return INFER_OK;
}

#endif
