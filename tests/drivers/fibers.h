/* fibers.h: runs a GPU kernel that was compiled as C++ for this computer, with groups of work-items as on a GPU.
 *
 * Owns:  launches (fibers_run), what a kernel asks for while it runs (fibers_calls), memory with guards (fibers_alloc).
 *        Doubles of APIs (tests/drivers/metal) include this header and link fibers.c.
 * Rules: every work-item is a fiber with a stack of its own; the fibers of a group take turns on one thread of the
 *        system, the groups are shared out among one thread per core. A fiber runs until it reaches a barrier or a
 *        collective. Groups with an odd number take their fibers in reverse: a barrier that is missing shows in one of
 *        the two orders. Nothing here is fast; it is exact.
 * Found: barriers and collectives that a part of a group or wave does not reach, or that are not the same; memory of a
 *        group that is too large or written beside; reads and writes outside of memory of fibers_alloc. Memory begins
 *        as bytes of 0xff: NaN as floats, -1 as ints.
 * Not:   two work-items that use a value without a barrier in an order that happens to be right; what the GPU's own
 *        compiler makes of the text.
 * Start: fibers_launch, then fibers_calls.
 */
#ifndef FIBERS_H
#define FIBERS_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FIBERS_ITEMS = 1024, FIBERS_WAVE = 64 }; /* most work-items of a group, and of a wave */

/* What a work-item knows about itself. A wave is `width` work-items in the order of their index; the last one of a group
 * may have fewer. */
typedef struct fibers_item {
    uint32_t local[3], group[3]; /* place in its group, and of its group */
    uint32_t size[3], groups[3]; /* of a group, and how many groups there are */
    uint32_t index, lane, wave;  /* number in the group, number in its wave, number of its wave */
    uint32_t lanes, waves;       /* work-items of its wave, waves of its group */
} fibers_item;

/* What a kernel may call. The double hands the table to the kernel's library after it has loaded it. */
typedef struct fibers_calls {
    const fibers_item *(*self)(void);
    void (*barrier)(int32_t line);      /* of the group; line: of the program, for messages and to tell barriers apart */
    void (*wave_barrier)(int32_t line);
    /* Collective of a wave: everybody gives 8 bytes and gets those of all lanes, [0 .. lanes - 1], valid until the
     * next collective or barrier of the wave. */
    const uint64_t *(*exchange)(uint64_t bits, int32_t line);
    /* Memory of the group. The first work-item that asks by this key makes it; a key is any address, mostly that of a
     * static variable beside the declaration. */
    void *(*local)(const void *key, size_t bytes);
    /* The kernel found something wrong: the launch ends with this text. Does not return. */
    void (*fail)(const char *why);
} fibers_calls;

typedef struct fibers_launch {
    const char *name; /* of the kernel, for messages */
    void (*fn)(void *const *args, const fibers_item *me);
    void *const *args;
    uint32_t groups[3], size[3]; /* groups, and work-items of one: at most FIBERS_ITEMS */
    uint32_t width;              /* of a wave, 1 .. FIBERS_WAVE */
    uint32_t local_bytes;        /* that a group may have */
} fibers_launch;

const fibers_calls *fibers_table(void);

/* 1, or 0 and what went wrong in `why`. Launches of several threads take turns. FIBERS_THREADS: threads of the system,
 * else one per core, at most 16. */
int fibers_run(const fibers_launch *l, char *why, size_t cap);

/* Memory for buffers: nothing can be read or written behind its end, rounded up to 16, and little before its begin. It
 * begins at a multiple of 16. NULL when there is none. fibers_free returns 0 when the bytes behind the end were changed. */
void *fibers_alloc(size_t bytes);
int fibers_free(void *p);

#ifdef __cplusplus
}
#endif
#endif
