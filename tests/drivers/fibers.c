/* fibers.c: see fibers.h.
 *
 * A thread of the system that runs groups is a `runner`; it has a stack per work-item and the memory of its group. The
 * thread that launches is runner 0 for that time, the others wait for work. Blocked fibers hand on to the next one that
 * can run; when there is none and not all are done, the group is stuck, and the states say why.
 * An access to guarded memory arrives as SIGSEGV on a stack of its own; the handler leaves the fiber for good.
 */
#define _GNU_SOURCE
#include "fibers.h"
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    STACK = 256 << 10, /* bytes of a fiber, its guard page included; only what is touched is real memory */
    RUNNERS = 16,
    LOCALS = 64,       /* arrays that a group may have */
    ARENA = 256 << 10, /* bytes of memory of a group, guards included */
    GUARD = 64         /* bytes behind each array */
};

/* ---- switching stacks --------------------------------------------------------------------------------------------- */

/* fibers_switch(&from, to): what the calling convention says survives a call goes onto the stack; `from` is where. */
#if !defined(FIBERS_UCONTEXT) && defined(__linux__) && defined(__x86_64__)
#define FIBERS_ASM 8 /* words that fibers_switch pops, the return address among them */
enum { RETURN_WORD = 6 };
__asm__(".text\n.p2align 4\n.type fibers_switch,@function\nfibers_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nretq\n"
        ".size fibers_switch,.-fibers_switch\n");
#elif !defined(FIBERS_UCONTEXT) && defined(__linux__) && defined(__aarch64__)
#define FIBERS_ASM 20
enum { RETURN_WORD = 11 };
__asm__(".text\n.p2align 4\n.type fibers_switch,%function\nfibers_switch:\n"
        "sub sp,sp,#160\n"
        "stp x19,x20,[sp,#0]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
        "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
        "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
        "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp,#0]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
        "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
        "add sp,sp,#160\nret\n"
        ".size fibers_switch,.-fibers_switch\n");
#endif
#ifdef FIBERS_ASM
void fibers_switch(void **from, void *to) __attribute__((visibility("hidden")));
typedef void *place; /* of a fiber that does not run: its stack pointer */
#define SWITCH(from, to) fibers_switch(&(from), to)
#else
#include <ucontext.h>
typedef ucontext_t place;
#define SWITCH(from, to) swapcontext(&(from), &(to))
#endif

/* ---- a group ------------------------------------------------------------------------------------------------------ */

enum { READY, AT_BARRIER, AT_WAVE, DONE };
static const char *const waits[] = {"running", "at a barrier", "at a collective of its wave", "done"};

typedef struct fiber {
    place at;
    int state, line;
    int what; /* at a collective: 0 barrier of the wave, 1 exchange */
    fibers_item me;
} fiber;

typedef struct wave { uint32_t arrived, turn; uint64_t slots[2][FIBERS_WAVE]; } wave;
typedef struct local { const void *key; size_t bytes; unsigned char *at; } local;

typedef struct runner {
    fiber f[FIBERS_ITEMS];
    wave w[FIBERS_ITEMS];
    char *stacks;
    size_t n_stacks;
    place home;               /* where the runner itself waits */
    const fibers_launch *job;
    uint32_t n, live, arrived; /* fibers; not done; at the barrier */
    int current, step;        /* step: +1 or -1, the order of this group */
    unsigned char *arena;
    size_t used;
    local locals[LOCALS];
    int n_locals;
    int failed;
    char why[400];
    char *alt; /* stack of the signal handler */
} runner;

static __thread runner *R; /* of this thread; NULL outside of a launch */

static void say(runner *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(runner *r, const char *format, ...) {
    va_list list;
    if (r->failed) return;
    r->failed = 1;
    va_start(list, format);
    vsnprintf(r->why, sizeof r->why, format, list);
    va_end(list);
}

static void leave(runner *r) { /* the fiber that runs, for good */
    fiber *f = &r->f[r->current];
    SWITCH(f->at, r->home);
}

/* The next fiber that can run, in the order of the group; -1: none. */
static int next_ready(const runner *r) {
    int n = (int)r->n, i, at = r->current;
    for (i = 0; i < n; i++) {
        at += r->step;
        if (at >= n) at = 0;
        if (at < 0) at = n - 1;
        if (r->f[at].state == READY) return at;
    }
    return -1;
}

static void hand_on(runner *r) {
    fiber *f = &r->f[r->current];
    int next = next_ready(r);
    if (next < 0) {
        SWITCH(f->at, r->home); /* stuck, or all done */
        return;
    }
    r->current = next;
    if (&r->f[next] != f) SWITCH(f->at, r->f[next].at);
}

static void fiber_main(void) {
    for (;;) {
        runner *r = R;
        fiber *f = &r->f[r->current];
        r->job->fn(r->job->args, &f->me);
        f->state = DONE;
        r->live--;
        hand_on(r);
    }
}

static int place_fiber(runner *r, uint32_t i) {
    char *low = r->stacks + (size_t)i * STACK;
#ifdef FIBERS_ASM
    void **top = (void **)(void *)(low + STACK) - 2; /* a multiple of 16 */
    void **sp = top - FIBERS_ASM;
    memset(sp, 0, FIBERS_ASM * sizeof *sp);
    memcpy(&sp[RETURN_WORD], &(void (*)(void)){fiber_main}, sizeof *sp);
    r->f[i].at = sp;
#else
    getcontext(&r->f[i].at);
    r->f[i].at.uc_stack.ss_sp = low;
    r->f[i].at.uc_stack.ss_size = STACK;
    r->f[i].at.uc_link = NULL;
    makecontext(&r->f[i].at, fiber_main, 0);
#endif
    return 1;
}

static int stacks(runner *r) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), i;
    char *p;
    if (r->stacks) return 1;
    p = (char *)mmap(NULL, (size_t)FIBERS_ITEMS * STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return 0;
    for (i = 0; i < FIBERS_ITEMS; i++) mprotect(p + i * STACK, page, PROT_NONE);
    r->arena = (unsigned char *)malloc(ARENA);
    if (!r->arena) return 0;
    r->stacks = p;
    return 1;
}

/* Why nothing can go on: two fibers that wait for different things. */
static void stuck(runner *r) {
    uint32_t i, a = 0;
    while (r->f[a].state == DONE) a++;
    for (i = 0; i < r->n; i++)
        if (r->f[i].state != r->f[a].state || (r->f[i].state != DONE && r->f[i].line != r->f[a].line)) break;
    if (i == r->n) i = a;
    say(r, "%s: the work-items of group (%u, %u, %u) went different ways: %u is %s in line %d, %u is %s in line %d",
        r->job->name, r->f[0].me.group[0], r->f[0].me.group[1], r->f[0].me.group[2], a, waits[r->f[a].state],
        r->f[a].line, i, waits[r->f[i].state], r->f[i].line);
}

static void check_locals(runner *r) {
    int i, k;
    for (i = 0; i < r->n_locals; i++)
        for (k = 0; k < GUARD; k++)
            if (r->locals[i].at[r->locals[i].bytes + (size_t)k] != 0xa5) {
                say(r, "%s: group (%u, %u, %u) wrote behind its array %d of %u bytes, %d bytes past the end", r->job->name,
                    r->f[0].me.group[0], r->f[0].me.group[1], r->f[0].me.group[2], i, (unsigned)r->locals[i].bytes, k);
                return;
            }
}

static void run_group(runner *r, const uint32_t group[3], uint64_t number) {
    const fibers_launch *l = r->job;
    uint32_t n = l->size[0] * l->size[1] * l->size[2], i, k, waves = (n + l->width - 1) / l->width;
    r->n = r->live = n;
    r->arrived = 0;
    r->used = 0;
    r->n_locals = 0;
    r->step = number & 1 ? -1 : 1;
    for (i = 0; i < waves; i++) r->w[i].arrived = r->w[i].turn = 0;
    for (i = 0; i < n; i++) {
        fibers_item *me = &r->f[i].me;
        place_fiber(r, i);
        r->f[i].state = READY;
        r->f[i].line = 0;
        for (k = 0; k < 3; k++) {
            me->group[k] = group[k];
            me->size[k] = l->size[k];
            me->groups[k] = l->groups[k];
        }
        me->local[0] = i % l->size[0];
        me->local[1] = i / l->size[0] % l->size[1];
        me->local[2] = i / (l->size[0] * l->size[1]);
        me->index = i;
        me->lane = i % l->width;
        me->wave = i / l->width;
        me->lanes = n - me->wave * l->width < l->width ? n - me->wave * l->width : l->width;
        me->waves = waves;
    }
    r->current = r->step > 0 ? 0 : (int)n - 1;
    SWITCH(r->home, r->f[r->current].at);
    if (!r->failed && r->live > 0) stuck(r);
    if (!r->failed) check_locals(r);
}

/* ---- what kernels call -------------------------------------------------------------------------------------------- */

static const fibers_item *call_self(void) { return &R->f[R->current].me; }

static void fail(const char *why) {
    runner *r = R;
    const fibers_item *me = &r->f[r->current].me;
    say(r, "%s: work-item %u of group (%u, %u, %u): %s", r->job->name, me->index, me->group[0], me->group[1], me->group[2],
        why);
    leave(r);
}

static void call_barrier(int32_t line) {
    runner *r = R;
    fiber *f = &r->f[r->current];
    uint32_t i;
    f->line = line;
    if (++r->arrived < r->n) {
        f->state = AT_BARRIER;
        hand_on(r);
        return;
    }
    for (i = 0; i < r->n; i++) {
        if (r->f[i].line != line) {
            f->state = AT_BARRIER;
            stuck(r);
            leave(r);
        }
    }
    for (i = 0; i < r->n; i++) r->f[i].state = READY;
    r->arrived = 0;
}

/* The last lane to arrive lets the others go on. `what`: all lanes must do the same thing, in the same line. */
static void meet(runner *r, fiber *f, wave *w, int32_t line, int what) {
    fiber *first = f - f->me.lane;
    uint32_t i;
    f->line = line;
    f->what = what;
    if (++w->arrived < f->me.lanes) {
        f->state = AT_WAVE;
        hand_on(r);
        return;
    }
    for (i = 0; i < f->me.lanes; i++) {
        if (first[i].line != line || first[i].what != what) {
            f->state = AT_WAVE;
            stuck(r);
            leave(r);
        }
    }
    for (i = 0; i < f->me.lanes; i++) first[i].state = READY;
    w->arrived = 0;
    w->turn ^= 1; /* whoever comes to the next one writes into the other slots: these may still be read */
}

static void call_wave_barrier(int32_t line) {
    runner *r = R;
    fiber *f = &r->f[r->current];
    meet(r, f, &r->w[f->me.wave], line, 0);
}

static const uint64_t *call_exchange(uint64_t bits, int32_t line) {
    runner *r = R;
    fiber *f = &r->f[r->current];
    wave *w = &r->w[f->me.wave];
    uint64_t *slots = w->slots[w->turn];
    slots[f->me.lane] = bits;
    meet(r, f, w, line, 1);
    return slots;
}

static void *call_local(const void *key, size_t bytes) {
    runner *r = R;
    size_t room = ((bytes + 15) & ~(size_t)15) + GUARD;
    local *l;
    int i;
    for (i = 0; i < r->n_locals; i++)
        if (r->locals[i].key == key && r->locals[i].bytes == bytes) return r->locals[i].at;
    if (r->n_locals == LOCALS || room > ARENA - r->used) fail("no room for more memory of the group");
    for (room = bytes, i = 0; i < r->n_locals; i++) room += r->locals[i].bytes;
    if (room > r->job->local_bytes) fail("the group takes more memory than a group has");
    l = &r->locals[r->n_locals++];
    l->key = key;
    l->bytes = bytes;
    l->at = r->arena + r->used;
    memset(l->at, 0xff, bytes);
    memset(l->at + bytes, 0xa5, GUARD);
    r->used += ((bytes + 15) & ~(size_t)15) + GUARD;
    return l->at;
}

const fibers_calls *fibers_table(void) {
    static const fibers_calls table = {call_self, call_barrier, call_wave_barrier, call_exchange, call_local, fail};
    return &table;
}

/* ---- memory with guards ------------------------------------------------------------------------------------------- */

/* A page that cannot be touched, pages, and another such one; what is asked for ends at that. */
typedef struct block { struct block *next; char *map, *at; size_t mapped, bytes; } block;
static block *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t pad(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

void *fibers_alloc(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room;
    block *b;
    if (bytes > SIZE_MAX / 2) return NULL;
    room = (pad(bytes) + page - 1) / page * page;
    if (room == 0) room = page;
    b = (block *)calloc(1, sizeof *b);
    if (!b) return NULL;
    b->mapped = room + 2 * page;
    b->bytes = bytes;
    b->map = (char *)mmap(NULL, b->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->map == MAP_FAILED) {
        free(b);
        return NULL;
    }
    mprotect(b->map, page, PROT_NONE);
    mprotect(b->map + page + room, page, PROT_NONE);
    b->at = b->map + page + room - pad(bytes);
    memset(b->at, 0xff, bytes);
    memset(b->at + bytes, 0xa5, pad(bytes) - bytes);
    pthread_mutex_lock(&blocks_lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&blocks_lock);
    return b->at;
}

int fibers_free(void *p) {
    block **at, *b;
    size_t i;
    int whole = 1;
    if (!p) return 1;
    pthread_mutex_lock(&blocks_lock);
    for (at = &blocks; *at && (*at)->at != p; at = &(*at)->next) {}
    b = *at;
    if (b) *at = b->next;
    pthread_mutex_unlock(&blocks_lock);
    if (!b) return 0;
    for (i = b->bytes; i < pad(b->bytes); i++) whole &= (unsigned char)b->at[i] == 0xa5;
    munmap(b->map, b->mapped);
    free(b);
    return whole;
}

/* The memory nearest to an address, for a message. */
static void name_address(const char *p, char *to, size_t cap) {
    const block *b, *best = NULL;
    snprintf(to, cap, "address %p, which is nowhere", (const void *)p);
    pthread_mutex_lock(&blocks_lock);
    for (b = blocks; b; b = b->next)
        if (p >= b->map && p < b->map + b->mapped) best = b;
    if (best)
        snprintf(to, cap, "byte %ld of memory of %lu bytes", (long)(p - best->at), (unsigned long)best->bytes);
    pthread_mutex_unlock(&blocks_lock);
}

/* ---- faults ------------------------------------------------------------------------------------------------------- */

static struct sigaction before[2]; /* SIGSEGV, SIGBUS */
static __thread void *fault_at;

/* Leave the fiber for its runner: this stack is not used again until the next fault. */
static void on_fault(int number, siginfo_t *info, void *context) {
    runner *r = R;
    (void)context;
    if (!r || r->current < 0) {
        sigaction(number, &before[number == SIGBUS], NULL); /* not a kernel's: happens again, for whoever was there */
        return;
    }
    fault_at = info->si_addr;
    r->failed = 2;
    leave(r);
}

static void catch_faults(runner *r) {
    stack_t alt;
    if (!r->alt) r->alt = (char *)malloc(64 << 10);
    memset(&alt, 0, sizeof alt);
    alt.ss_sp = r->alt;
    alt.ss_size = 64 << 10;
    sigaltstack(&alt, NULL);
}

static void trap(int on) {
    static const int numbers[2] = {SIGSEGV, SIGBUS};
    struct sigaction a;
    int i;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = on_fault;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (i = 0; i < 2; i++) sigaction(numbers[i], on ? &a : &before[i], on ? &before[i] : NULL);
}

/* ---- launches ----------------------------------------------------------------------------------------------------- */

static struct pool {
    pthread_mutex_t turn, lock; /* turn: one launch at a time */
    pthread_cond_t work, idle;
    runner *runners[RUNNERS];
    int n, busy;        /* threads that were started, runner 0 not counted; that still work on this launch */
    uint64_t launch;    /* number of the launch */
    const fibers_launch *job;
    uint64_t next, groups;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
          {NULL}, 0, 0, 0, NULL, 0, 0};

/* Groups until there are none left or one failed. */
static void take_groups(runner *r) {
    const fibers_launch *l = pool.job;
    r->job = l;
    r->failed = 0;
    while (!r->failed) {
        uint64_t i = __atomic_fetch_add(&pool.next, 1, __ATOMIC_RELAXED);
        uint32_t group[3];
        if (i >= pool.groups) break;
        group[0] = (uint32_t)(i % l->groups[0]);
        group[1] = (uint32_t)(i / l->groups[0] % l->groups[1]);
        group[2] = (uint32_t)(i / l->groups[0] / l->groups[1]);
        R = r;
        run_group(r, group, i);
        if (r->failed == 2) {
            const fibers_item *me = &r->f[r->current].me;
            char where[120];
            name_address((const char *)fault_at, where, sizeof where);
            r->failed = 0;
            say(r, "%s: work-item %u of group (%u, %u, %u) touched %s", l->name, me->index, me->group[0], me->group[1],
                me->group[2], where);
        }
        R = NULL;
        if (r->failed) __atomic_store_n(&pool.next, pool.groups, __ATOMIC_RELAXED);
    }
}

static void *runner_main(void *arg) {
    runner *r = (runner *)arg;
    uint64_t seen = 0;
    catch_faults(r);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.launch == seen) pthread_cond_wait(&pool.work, &pool.lock);
        seen = pool.launch;
        pthread_mutex_unlock(&pool.lock);
        take_groups(r);
        pthread_mutex_lock(&pool.lock);
        if (--pool.busy == 0) pthread_cond_signal(&pool.idle);
    }
    return NULL;
}

static int wanted_threads(void) {
    const char *s = getenv("FIBERS_THREADS");
    long n = s ? atol(s) : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > RUNNERS ? RUNNERS : (int)n;
}

static runner *runner_make(void) {
    runner *r = (runner *)calloc(1, sizeof *r);
    if (r && stacks(r)) return r;
    free(r);
    return NULL;
}

/* Once: runner 0 and the threads. */
static int pool_start(void) {
    pthread_t thread;
    int i, n = wanted_threads();
    if (pool.runners[0]) return 1;
    pool.runners[0] = runner_make();
    if (!pool.runners[0]) return 0;
    for (i = 1; i < n; i++) {
        pool.runners[i] = runner_make();
        if (!pool.runners[i] || pthread_create(&thread, NULL, runner_main, pool.runners[i])) break;
        pthread_detach(thread);
        pool.n++;
    }
    return 1;
}

static int refused(const fibers_launch *l, char *why, size_t cap) {
    uint64_t n = (uint64_t)l->size[0] * l->size[1] * l->size[2];
    const char *bad = NULL;
    if (l->size[0] == 0 || l->size[1] == 0 || l->size[2] == 0 || n > FIBERS_ITEMS) bad = "work-items of a group";
    else if (l->width < 1 || l->width > FIBERS_WAVE) bad = "work-items of a wave";
    else if (!l->groups[0] || !l->groups[1] || !l->groups[2]) bad = "groups";
    if (bad) snprintf(why, cap, "%s: a number of %s that cannot be", l->name, bad);
    return bad != NULL;
}

int fibers_run(const fibers_launch *l, char *why, size_t cap) {
    stack_t alt_before;
    int i, ok = 1;
    why[0] = 0;
    if (refused(l, why, cap)) return 0;
    pthread_mutex_lock(&pool.turn);
    if (!pool_start()) {
        snprintf(why, cap, "no memory for stacks");
        pthread_mutex_unlock(&pool.turn);
        return 0;
    }
    sigaltstack(NULL, &alt_before);
    catch_faults(pool.runners[0]);
    trap(1);
    for (i = 0; i <= pool.n; i++) pool.runners[i]->failed = 0;
    pool.job = l;
    pool.next = 0;
    pool.groups = (uint64_t)l->groups[0] * l->groups[1] * l->groups[2];
    if (pool.groups > 2 && pool.n > 0) {
        pthread_mutex_lock(&pool.lock);
        pool.busy = pool.n;
        pool.launch++;
        pthread_cond_broadcast(&pool.work);
        pthread_mutex_unlock(&pool.lock);
        take_groups(pool.runners[0]);
        pthread_mutex_lock(&pool.lock);
        while (pool.busy > 0) pthread_cond_wait(&pool.idle, &pool.lock);
        pthread_mutex_unlock(&pool.lock);
    } else {
        take_groups(pool.runners[0]);
    }
    for (i = 0; i <= pool.n; i++)
        if (ok && pool.runners[i]->failed) {
            ok = 0;
            snprintf(why, cap, "%s", pool.runners[i]->why);
        }
    trap(0);
    sigaltstack(&alt_before, NULL);
    pthread_mutex_unlock(&pool.turn);
    return ok;
}
