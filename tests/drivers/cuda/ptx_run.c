/* ptx_run.c: runs a grid. Blocks are shared out to threads of the host (a pool that stays); the warps of a block run one after
 * another, each until a barrier or its end; one that finds an mbarrier not ready lets the others run first. Lanes of a warp that part go on as groups, the one furthest back first, and join where
 * their places meet; at an instruction that a warp does together they wait for the lanes that its mask names.
 *
 * What cannot go on is an error with a message that says kernel, block, thread and instruction; the first error ends the grid.
 */
#include "ptx.h"
#include <unistd.h>

struct ptx_pool {
    ptx_launch *launch;
    uint64_t next, total, instructions;
    int failed, code;
};

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;

void ptx_fail(ptx_warp *w, const ptx_ins *i, int lane, int code, const char *format, ...) {
    ptx_block *b = w->b;
    uint32_t t = (uint32_t)(w->index * 32 + lane), nx = b->launch->block[0], ny = b->launch->block[1];
    va_list v;
    int n;
    b->failed = 1;
    pthread_mutex_lock(&error_lock);
    if (!b->pool->failed) {
        char *e = b->launch->error;
        size_t size = sizeof b->launch->error;
        b->pool->code = code;
        n = snprintf(e, size, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u), ", b->f->name, b->id[0], b->id[1],
                     b->id[2], t % nx, t / nx % ny, t / nx / ny);
        if (i && n >= 0 && (size_t)n < size)
            n += snprintf(e + n, size - (size_t)n, "line %d `%.100s`: ", i->line, i->text);
        if (n >= 0 && (size_t)n < size) {
            va_start(v, format);
            vsnprintf(e + n, size - (size_t)n, format, v);
            va_end(v);
        }
        for (; *e; e++)
            if (*e == '\n' || *e == '\t') *e = ' ';
        __atomic_store_n(&b->pool->failed, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&error_lock);
}

/* ---- a warp --------------------------------------------------------------------------------------------------------------- */

static void park(ptx_warp *w, uint32_t pc, uint32_t mask) { /* lanes that can run from pc */
    int k;
    for (k = 0; k < w->nrun; k++)
        if (w->run[k].pc == pc) {
            w->run[k].mask |= mask;
            return;
        }
    w->run[w->nrun].pc = pc;
    w->run[w->nrun++].mask = mask;
}
static void sleep_at(ptx_warp *w, uint32_t pc, uint32_t mask) { /* lanes that let others go first */
    int k;
    for (k = 0; k < w->nsleep; k++)
        if (w->sleep[k].pc == pc) break;
    if (k == w->nsleep) w->sleep[w->nsleep].pc = pc, w->sleep[w->nsleep++].mask = 0;
    w->sleep[k].mask |= mask;
}
static ptx_group pick(ptx_warp *w) { /* the lanes that are furthest back */
    int k, best = 0;
    ptx_group g;
    for (k = 1; k < w->nrun; k++)
        if (w->run[k].pc < w->run[best].pc) best = k;
    g = w->run[best];
    w->run[best] = w->run[--w->nrun];
    return g;
}

/* Lanes `mask` are at collective instruction pc. Nonzero: all that it needs have come, and these are they. */
static uint32_t gather(ptx_warp *w, const ptx_ins *i, uint32_t pc, uint32_t mask) {
    uint32_t need = ~0u, all = mask;
    int k, at = -1;
    if (!i->vec && i->base) {
        const uint32_t *members = R32(i->base);
        need = members[__builtin_ctz(mask)];
        EACH(mask) {
            if (members[l] != need || !(need >> l & 1)) {
                ptx_fail(w, i, (int)l, PTX_FAILED, "mask %08x %s", members[l],
                         members[l] != need ? "is not that of the other lanes" : "lacks the lane itself");
                return 0;
            }
        }
        need &= w->live;
    }
    for (k = 0; k < w->nwait; k++)
        if (w->wait[k].pc == pc) at = k, all |= w->wait[k].mask;
    if ((all & need) == need && all == need) {
        if (at >= 0) w->wait[at] = w->wait[--w->nwait];
        return all;
    }
    if (at < 0) at = w->nwait++;
    w->wait[at].pc = pc, w->wait[at].mask = all;
    if (all &
        ~need) { /* lanes outside the mask are there too, with a mask of their own: let those that are complete go */
        if ((all & need) == need) {
            w->wait[at].mask = all & ~need;
            return need;
        }
    }
    return 0;
}

/* Until a barrier, an mbarrier that is not ready, the end or an error. */
static void run_warp(ptx_warp *w) {
    const ptx_ins *code = w->b->f->code, *i;
    ptx_block *b = w->b;
    uint64_t count = 0, steps = 0;
    while (w->nsleep) w->nsleep--, park(w, w->sleep[w->nsleep].pc, w->sleep[w->nsleep].mask);
    while (w->nrun && !b->failed) {
        ptx_group g = pick(w);
        uint32_t pc = g.pc, active = g.mask, mask;
        int k;
        for (;;) {
            i = &code[pc];
            mask = active;
            if (i->guard) mask &= RP(i->guard) ^ (i->guard_not ? ~0u : 0);
            count += (uint32_t)__builtin_popcount(mask);
            steps++;
            if (i->ctl == CTL_NONE) {
                if (mask) {
                    w->mask = mask;
                    i->run(w, i);
                    if (b->failed) goto out;
                }
                pc++;
                continue;
            }
            if (i->ctl == CTL_LABEL) {
                if (w->nrun) {
                    for (k = 0; k < w->nrun; k++)
                        if (w->run[k].pc <= pc) break;
                    if (k < w->nrun) {
                        park(w, pc, active);
                        break;
                    }
                }
                if (steps > b->launch->budget) {
                    ptx_fail(w, i, __builtin_ctz(active), PTX_TIMEOUT, "the warp has run %llu instructions",
                             (unsigned long long)steps);
                    goto out;
                }
                pc++;
            } else if (i->ctl == CTL_BRA) {
                if (mask == active) {
                    pc = (uint32_t)i->imm;
                } else if (mask) {
                    park(w, (uint32_t)i->imm, mask);
                    park(w, pc + 1, active & ~mask);
                    break;
                } else {
                    pc++;
                }
            } else if (i->ctl == CTL_EXIT) {
                w->live &= ~mask;
                active &= ~mask;
                pc++;
                if (!active) break;
            } else if (i->ctl == CTL_BAR) {
                if (mask && w->at_bar && w->bar_pc != pc) {
                    ptx_fail(w, i, __builtin_ctz(mask), PTX_FAILED,
                             "lanes of one warp wait at different barriers (the other: line %d)", code[w->bar_pc].line);
                    goto out;
                }
                if (mask) w->at_bar |= mask, w->bar_pc = pc;
                active &= ~mask;
                pc++;
                if (!active) break;
            } else if (i->ctl == CTL_POLL) {
                w->mask = mask, w->missed = 0;
                if (mask) i->run(w, i);
                if (b->failed) goto out;
                pc++;
                if (w->missed) {
                    sleep_at(w, pc, active);
                    break;
                }
            } else {
                uint32_t go = mask ? gather(w, i, pc, mask) : 0;
                if (b->failed) goto out;
                active &= ~mask;
                if (go) {
                    w->mask = go;
                    i->run(w, i);
                    if (b->failed) goto out;
                    active |= go;
                }
                pc++;
                if (!active) break;
            }
        }
    }
    if (!b->failed && w->nwait && !w->nsleep) {
        i = &code[w->wait[0].pc];
        ptx_fail(w, i, __builtin_ctz(w->wait[0].mask), PTX_FAILED, "only lanes %08x reached it; the others have %s",
                 w->wait[0].mask,
                 w->at_bar      ? "stopped at a barrier"
                 : w->nwait > 1 ? "stopped at another such instruction"
                                : "ended");
    }
out:
    w->count += count;
    w->steps += steps;
}

/* ---- a block ---------------------------------------------------------------------------------------------------------------- */

static void start_warp(ptx_block *b, ptx_warp *w) {
    const uint32_t *s = b->f->special;
    int first = w->index * 32, n = b->nthreads - first < 32 ? b->nthreads - first : 32;
    if (w->local_known) memset(w->local_known, 0, 32 * b->f->local_bytes);
    w->live = n == 32 ? ~0u : (1u << n) - 1;
    w->nrun = w->nwait = w->nsleep = 0;
    w->at_bar = 0;
    w->warp_epoch = 1;
    park(w, 0, w->live);
    for (int k = 6; k < 9; k++)
        if (s[k]) LANES R32(s[k])[l] = b->id[k - 6];
}

static void run_block(ptx_block *b) {
    int k, waiting, ended, asleep;
    ptx_shadow *shadow = b->shadow;
    memset(b->shared, 0xff, b->shared_bytes);
    if (shadow) memset(shadow, 0, b->shared_bytes * sizeof *shadow);
    memset(b->groups, 0, sizeof *b->groups * (size_t)b->nwarps * 32);
    b->epoch = 1;
    b->ncopies = 0;
    if (b->wgmma) ptx_wgmma_start(b);
    if (b->barriers) ptx_barrier_start(b);
    for (k = 0; k < b->nwarps; k++) start_warp(b, &b->warps[k]);
    for (;;) {
        waiting = ended = asleep = 0;
        for (k = 0; k < b->nwarps; k++) {
            ptx_warp *w = &b->warps[k];
            run_warp(w);
            if (b->failed || __atomic_load_n(&b->pool->failed, __ATOMIC_ACQUIRE)) {
                b->failed = 1;
                return;
            }
            waiting += __builtin_popcount(w->at_bar);
            asleep += w->nsleep;
        }
        if (asleep) {
            if (!ptx_barrier_idle(b)) return;
            continue;
        }
        if (!waiting) {
            if (b->wgmma && !ptx_wgmma_meet(b, 1)) return;
            if (b->barriers) ptx_barrier_end(b);
            return;
        }
        ended = b->nthreads - waiting;
        for (k = 0; k < b->nwarps; k++) {
            ptx_warp *w = &b->warps[k];
            if (!w->at_bar) continue;
            if (ended) {
                ptx_fail(w, &b->f->code[w->bar_pc], __builtin_ctz(w->at_bar), PTX_FAILED,
                         "the barrier is reached by %d of %d threads, the others have ended", waiting, b->nthreads);
                return;
            }
            if (b->f->code[w->bar_pc].imm != b->f->code[b->warps[0].bar_pc].imm) {
                ptx_fail(w, &b->f->code[w->bar_pc], __builtin_ctz(w->at_bar), PTX_FAILED,
                         "warps wait at barriers of different numbers");
                return;
            }
        }
        if (b->wgmma && !ptx_wgmma_meet(b, 0)) return;
        if (b->barriers) ptx_barrier_meet(b);
        b->epoch++;
        for (k = 0; k < b->nwarps; k++) {
            ptx_warp *w = &b->warps[k];
            park(w, w->bar_pc + 1, w->at_bar);
            w->at_bar = 0;
        }
    }
}

static uint32_t special_value(const ptx_launch *x, int what, int thread, int lane) {
    const uint32_t *n = x->block;
    uint32_t t = (uint32_t)thread;
    switch (what) {
    case 0: return t % n[0];
    case 1: return t / n[0] % n[1];
    case 2: return t / n[0] / n[1];
    case 3:
    case 4:
    case 5: return n[what - 3];
    case 9:
    case 10:
    case 11: return x->grid[what - 9];
    case 12: return (uint32_t)lane;
    case 13: return t / 32;
    case 14: return (n[0] * n[1] * n[2] + 31) / 32;
    case 16: return 16;
    case 17: return 1u << lane;
    case 18: return lane == 31 ? ~0u : (2u << lane) - 1;
    case 19: return (1u << lane) - 1;
    case 20: return ~((1u << lane) - 1);
    case 21: return lane == 31 ? 0 : ~((2u << lane) - 1);
    case 22: return (uint32_t)x->dynamic;
    case 23: return (uint32_t)(x->dynamic + x->f->shared_bytes);
    default: return 0;
    }
}

/* What a thread of the host needs to run blocks. 0: out of memory. */
static int make_block(ptx_block *b, struct ptx_pool *pool) {
    ptx_launch *x = pool->launch;
    ptx_func *f = x->f;
    size_t regs = (f->reg_bytes + 255) & ~(size_t)255, local = f->local_bytes * 32;
    uint8_t *r;
    int k, n;
    memset(b, 0, sizeof *b);
    b->launch = x, b->f = f, b->pool = pool;
    b->nthreads = (int)(x->block[0] * x->block[1] * x->block[2]);
    b->nwarps = (b->nthreads + 31) / 32;
    b->shared_bytes = f->shared_bytes + x->dynamic;
    b->warps = calloc((size_t)b->nwarps, sizeof *b->warps);
    b->groups = calloc((size_t)b->nwarps * 32, sizeof *b->groups);
    r = aligned_alloc(256, regs * (size_t)b->nwarps);
    b->shared = aligned_alloc(256, (b->shared_bytes + 511) & ~(size_t)255);
    if (x->check) b->shadow = calloc(b->shared_bytes + 1, sizeof *b->shadow);
    if (!b->warps || !b->groups || !r || !b->shared || (x->check && !b->shadow) || (f->plan && !ptx_wgmma_make(b)) ||
        (f->barriers && !ptx_barrier_make(b))) {
        free(r);
        return 0;
    }
    memset(r, 0xcd, regs * (size_t)b->nwarps);
    for (k = 0; k < b->nwarps; k++) {
        ptx_warp *w = &b->warps[k];
        w->b = b, w->index = k, w->r = r + regs * (size_t)k;
        if (local) {
            w->local = malloc(local);
            w->local_known = x->check ? calloc(1, local) : NULL;
            if (!w->local || (x->check && !w->local_known)) return 0;
            memset(w->local, 0xff, local);
        }
        memset(w->r, 0, SLOT_FIRST);
        for (n = 0; n < f->nfills; n++) {
            struct ptx_fill *fill = &f->fills[n];
            if (fill->wide) LANES R64(fill->at)[l] = fill->value;
            else LANES R32(fill->at)[l] = (uint32_t)fill->value;
        }
        for (n = 0; n < 24; n++)
            if (f->special[n]) LANES R32(f->special[n])[l] = special_value(x, n, k * 32 + l, l);
    }
    return 1;
}
static void free_block(ptx_block *b) {
    if (b->warps) free(b->warps[0].r);
    for (int k = 0; b->warps && k < b->nwarps; k++) {
        free(b->warps[k].local);
        free(b->warps[k].local_known);
    }
    free(b->warps);
    free(b->groups);
    ptx_wgmma_free(b);
    ptx_barrier_free(b);
    free(b->shared);
    free(b->shadow);
    free(b->copies);
}

/* ---- the pool ---------------------------------------------------------------------------------------------------------------- */

static void work(struct ptx_pool *pool) {
    ptx_block b;
    const uint32_t *g = pool->launch->grid;
    uint64_t n;
    if (!make_block(&b, pool)) {
        pthread_mutex_lock(&error_lock);
        if (!pool->failed) {
            pool->failed = 1, pool->code = 2;
            snprintf(pool->launch->error, sizeof pool->launch->error, "the double is out of memory");
        }
        pthread_mutex_unlock(&error_lock);
    }
    while (!__atomic_load_n(&pool->failed, __ATOMIC_ACQUIRE) &&
           (n = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED)) < pool->total) {
        b.id[0] = (uint32_t)(n % g[0]), b.id[1] = (uint32_t)(n / g[0] % g[1]), b.id[2] = (uint32_t)(n / g[0] / g[1]);
        run_block(&b);
    }
    for (int k = 0; b.warps && k < b.nwarps; k++)
        __atomic_fetch_add(&pool->instructions, b.warps[k].count, __ATOMIC_RELAXED);
    free_block(&b);
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    struct ptx_pool *job;
    uint64_t number;
    int helpers, want, busy;
    pid_t owner;
} pool_state = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0, 0, 0, 0};
static pthread_mutex_t run_lock = PTHREAD_MUTEX_INITIALIZER;

static void *helper(void *unused) {
    uint64_t seen = 0;
    (void)unused;
    pthread_mutex_lock(&pool_state.lock);
    for (;;) {
        struct ptx_pool *job;
        while (pool_state.number == seen || pool_state.want == 0) {
            seen = pool_state.number;
            pthread_cond_wait(&pool_state.start, &pool_state.lock);
        }
        seen = pool_state.number;
        job = pool_state.job;
        pool_state.want--, pool_state.busy++;
        pthread_mutex_unlock(&pool_state.lock);
        work(job);
        pthread_mutex_lock(&pool_state.lock);
        if (--pool_state.busy == 0) pthread_cond_signal(&pool_state.done);
    }
    return NULL;
}

int ptx_run(ptx_launch *x) {
    struct ptx_pool pool;
    int helpers;
    memset(&pool, 0, sizeof pool);
    x->error[0] = 0;
    pool.launch = x;
    pool.total = (uint64_t)x->grid[0] * x->grid[1] * x->grid[2];
    helpers = pool.total < (uint64_t)x->threads ? (int)pool.total - 1 : x->threads - 1;
    pthread_mutex_lock(&run_lock);
    pthread_mutex_lock(&pool_state.lock);
    if (pool_state.owner != getpid())
        pool_state.owner = getpid(), pool_state.helpers = 0; /* threads do not survive fork */
    while (pool_state.helpers < helpers) {
        pthread_t t;
        if (pthread_create(&t, NULL, helper, NULL)) break;
        pthread_detach(t);
        pool_state.helpers++;
    }
    if (helpers > pool_state.helpers) helpers = pool_state.helpers;
    pool_state.job = &pool, pool_state.want = helpers, pool_state.number++;
    if (helpers > 0) pthread_cond_broadcast(&pool_state.start);
    pthread_mutex_unlock(&pool_state.lock);
    work(&pool);
    pthread_mutex_lock(&pool_state.lock);
    pool_state.want = 0; /* who has not begun need not */
    while (pool_state.busy) pthread_cond_wait(&pool_state.done, &pool_state.lock);
    pthread_mutex_unlock(&pool_state.lock);
    pthread_mutex_unlock(&run_lock);
    x->instructions = pool.instructions;
    return pool.failed ? pool.code : 0;
}
