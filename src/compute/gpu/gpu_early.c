/* gpu_early.c: PTX for devices on which a launch may begin before what was launched before it has ended (CUDA 9.0).
 *
 * Owns:  infer__ptx_early: the text of a program whose kernels wait for that at their start.
 * Rules: the text is that of kernels_embed.h, whose hash has been compared: clang's, without comments. A kernel that
 *        waits in a place of its own (special/cuda_one.k) stays as it is. Every kernel says at once that the next one
 *        may begin: its groups come when all of this one's have begun, and wait for all of them to end. Who waits for a
 *        launch waits for all that it waited for, so that a kernel which waits first reads what all before it wrote,
 *        and writes over nothing that one of them still reads.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

enum { INFER__PTX_EARLY_TIER = 90 }; /* compute capability, and .target, which needs .version 7.8 */

/* Where the body of the next kernel behind `at` has its first instruction; NULL: there is no kernel. */
static const char *infer__ptx_body(const char *at) {
    if ((at = strstr(at, "\n.visible .entry ")) == NULL || (at = strstr(at, "\n{\n")) == NULL) return NULL;
    at += 3;
    while (at && (strncmp(at, ".reg ", 5) == 0 || strncmp(at, ".shared ", 8) == 0 || strncmp(at, ".local ", 7) == 0))
        if ((at = strchr(at, '\n')) != NULL) at++;
    return at;
}

/* 1 when the kernel with this body waits in a place of its own. */
static int infer__ptx_waits(const char *body) {
    const char *wait = strstr(body, "griddepcontrol.wait;"), *next = wait ? strstr(body, "\n.visible .entry ") : NULL;
    return wait && (!next || wait < next);
}

/* A copy of a program's PTX whose kernels wait before they do anything, to be freed; NULL: no memory. `bytes` of text,
 * and a zero. */
static char *infer__ptx_early(infer__mem *mem, const char *text, uint64_t bytes) {
    static const char wait[] = "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n";
    const char *at, *from = text;
    char *copy, *to, *version, *target;
    uint64_t n = 0;
    for (at = text; (at = infer__ptx_body(at)) != NULL; n++) continue;
    copy = to = (char *)infer__alloc(mem, bytes + n * (sizeof wait - 1) + 1);
    if (!copy) return NULL;
    for (; n > 0; n--) {
        at = infer__ptx_body(from);
        memcpy(to, from, (size_t)(at - from));
        to += at - from;
        from = at;
        if (infer__ptx_waits(at)) continue;
        memcpy(to, wait, sizeof wait - 1);
        to += sizeof wait - 1;
    }
    memcpy(to, from, (size_t)(text + bytes - from) + 1);
    version = strstr(copy, ".version ");
    target = strstr(copy, ".target sm_");
    if (!version || !target || strtol(target + 11, NULL, 10) >= INFER__PTX_EARLY_TIER) return copy;
    memcpy(version + 9, "7.8", 3);
    memcpy(target + 11, "90", 2);
    return copy;
}

#endif
