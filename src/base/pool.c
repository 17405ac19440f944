/* pool.c: parallel_for: a job is n tasks, each run exactly once by whichever worker takes it first.
 *
 * Owns:  the worker threads, or the calls to the host's parallel_for.
 * May not know: what a task does.
 * How:   the tasks are cut into shares, one after the other, one for each worker (or for a few). `left` of a share
 *        counts down: the worker that decrements it from k to k-1 runs task end - k, so that tasks of a share begin in
 *        ascending order and memory is read forwards. A worker takes from its own share and then from the others: one
 *        whose core is busy takes fewer. `undone` counts tasks that have not finished; the job ends at 0. fn, arg and
 *        end are written before `left` and read only by workers with an unfinished task, so a worker that wakes
 *        late finds either nothing to do or the next job, never a mixture. Workers wait for a change of `number`. Idle
 *        workers spin (ops follow each other within microseconds, tokens within tens), then sleep. A spin that lasts
 *        gives its core away in between, so that whoever is waited for can run there: with 8 threads on 2 cores a job
 *        of 32 tasks of 0.4 us takes 7 us, and 27 us where workers sleep at once. Sleeping uses Dekker's pattern: the
 *        sleeper announces itself and then looks at the counter, the waker changes the counter and then looks for
 *        sleepers; with sequentially consistent atomics one of them sees the other.
 * Layout: a share is a cache line of its own, so is what all workers watch, and what ends the job.
 * Invariant: one job at a time, from one thread at a time; tasks do not start jobs.
 */
#include "base.h"

enum {
    INFER__SPIN_PAUSES = 64,      /* between two looks at the clock: a microsecond or two */
    INFER__SPIN_YIELD_MICROS = 8, /* from here on a spin gives its core away in between */
    INFER__SPIN_MICROS = 100,     /* and then sleeps: waking costs 5 to 50 */
    INFER__SPIN_ROUNDS = 1 << 14, /* where the clock stands still */
    INFER__SHARES = 16            /* at most: starting a job writes to every one */
};

typedef struct infer__worker {
    infer__pool *pool;
    int id, low;
    int32_t processor; /* -1 = any */
    infer__thread thread;
} infer__worker;

/* Tasks not taken yet: left of them, before `end`. */
typedef struct infer__share {
    infer__atomic left;
    int end;
    char pad[2 * INFER__ALIGN]; /* CPUs fetch lines in pairs */
} infer__share;

struct infer__pool {
    struct infer__pool_job { infer__atomic number; infer__task_fn fn; void *arg; char pad[2 * INFER__ALIGN]; } job;
    infer__share share[INFER__SHARES];
    struct infer__pool_end { infer__atomic undone; char pad[2 * INFER__ALIGN]; } end;
    infer__atomic sleepers, waiting, stop;
    infer__mem *mem;
    infer_parallel_fn host;
    void *host_user;
    int threads; /* workers, the caller among them */
    infer__worker *workers; /* [1 .. threads-1]; NULL with a host */
    infer__mutex lock;
    infer__cond wake, done;
    int has_lock, has_wake, has_done;
    int64_t process; /* that started the workers: a child of fork() has none of them */
};

/* Tell the CPU that this is a spin loop. */
INFER__INLINE void infer__pause(void) {
#if defined(INFER__X86) && (defined(__GNUC__) || defined(__clang__))
    __builtin_ia32_pause();
#elif defined(INFER__ARM64) && (defined(__GNUC__) || defined(__clang__))
    __asm__ volatile("yield");
#endif
}

/* Wait for a while for a job after number `seen`, or (seen < 0) for the end of this one; 1 when it is so. */
static int infer__pool_spin(const infer__pool *p, int64_t seen) {
    double began = 0, now;
    int round, i;
    for (round = 0; round < INFER__SPIN_ROUNDS; round++) {
        for (i = 0; i < INFER__SPIN_PAUSES; i++) {
            if (seen < 0 ? infer__atomic_get(&p->end.undone) <= 0 : infer__atomic_get(&p->job.number) != seen) return 1;
            infer__pause();
        }
        now = infer__seconds();
        if (began == 0) began = now;
        if (now - began > INFER__SPIN_MICROS * 1e-6) break;
        if (now - began > INFER__SPIN_YIELD_MICROS * 1e-6) infer__yield();
    }
    return 0;
}

static void infer__await(const infer__atomic *a, int64_t n) {
    int i;
    for (;;) {
        for (i = 0; i < INFER__SPIN_PAUSES; i++) {
            if (infer__atomic_get(a) >= n) return;
            infer__pause();
        }
        infer__yield();
    }
}

static int infer__pool_shares(const infer__pool *p) { return INFER__MIN(p->threads, INFER__SHARES); }

/* The first task of share i of n. */
static int infer__share_begin(const infer__pool *p, int n_tasks, int i) {
    return (int)((int64_t)n_tasks * i / infer__pool_shares(p));
}

/* Take tasks until there are none. */
static void infer__pool_work(infer__pool *p, int worker) {
    int shares = infer__pool_shares(p), k;
    int64_t ran = 0, left;
    for (k = 0; k < shares; k++) {
        infer__share *s = &p->share[(worker + k) % shares];
        while (infer__atomic_get(&s->left) > 0 && (left = infer__atomic_add(&s->left, -1)) > 0) {
            p->job.fn(p->job.arg, s->end - (int)left, worker);
            ran++;
        }
    }
    if (ran > 0 && infer__atomic_add(&p->end.undone, -ran) == ran && infer__atomic_get(&p->waiting)) {
        infer__mutex_lock(&p->lock);
        infer__cond_broadcast(&p->done);
        infer__mutex_unlock(&p->lock);
    }
}

static void infer__pool_main(void *arg) {
    infer__worker *w = (infer__worker *)arg;
    infer__pool *p = w->pool;
    int64_t seen = 0;
    infer__thread_place(w->processor, w->low);
    for (;;) {
        if (!infer__pool_spin(p, seen)) {
            infer__mutex_lock(&p->lock);
            infer__atomic_add(&p->sleepers, 1);
            while (infer__atomic_get(&p->job.number) == seen && !infer__atomic_get(&p->stop))
                infer__cond_wait(&p->wake, &p->lock);
            infer__atomic_add(&p->sleepers, -1);
            infer__mutex_unlock(&p->lock);
        }
        if (infer__atomic_get(&p->stop)) return;
        seen = infer__atomic_get(&p->job.number);
        infer__pool_work(p, w->id);
    }
}

static uint64_t infer__pool_bytes(int threads, infer_parallel_fn host) {
    return infer__block_bytes(sizeof(infer__pool)) +
           infer__block_bytes(!host && threads > 1 ? (uint64_t)threads * sizeof(infer__worker) : 0);
}

static infer_result infer__pool_create(infer__pool **out, infer__mem *mem, int threads, const infer__placing *placing,
                                       infer_parallel_fn host, void *host_user, infer_error *err) {
    infer__pool *p = (infer__pool *)infer__calloc(mem, 1, sizeof *p);
    int i;
    *out = NULL;
    if (!p) return infer__error(err, INFER_ERR_MEMORY, "out of memory for the thread pool");
    p->mem = mem;
    p->host = host;
    p->host_user = host_user;
    p->threads = threads < 1 ? 1 : threads;
    p->process = infer__process();
    if (!host && p->threads > 1) {
        p->workers = (infer__worker *)infer__calloc(mem, (uint64_t)p->threads, sizeof *p->workers);
        if (!p->workers) {
            infer__pool_destroy(p);
            return infer__error(err, INFER_ERR_MEMORY, "out of memory for %d threads", threads);
        }
        p->has_lock = infer__mutex_init(&p->lock);
        p->has_wake = infer__cond_init(&p->wake);
        p->has_done = infer__cond_init(&p->done);
        threads = p->has_lock && p->has_wake && p->has_done ? p->threads : 1;
        for (i = 1; i < threads; i++) {
            p->workers[i].pool = p;
            p->workers[i].id = i;
            p->workers[i].processor = placing && placing->n > 0 ? placing->processors[i % placing->n] : -1;
            p->workers[i].low = placing && placing->low;
            if (!infer__thread_start(&p->workers[i].thread, infer__pool_main, &p->workers[i])) break;
        }
        p->threads = i; /* those that started, and the caller */
    }
    *out = p;
    return INFER_OK;
}

static int infer__pool_lost(const infer__pool *p) { return p->workers && p->process != infer__process(); }

static void infer__pool_destroy(infer__pool *p) {
    int i;
    int lost;
    if (!p) return;
    lost = infer__pool_lost(p); /* then no thread can be joined, and conditions still have their waiters */
    if (!lost && p->has_lock && p->has_wake && p->has_done) {
        infer__mutex_lock(&p->lock);
        infer__atomic_set(&p->stop, 1);
        infer__cond_broadcast(&p->wake);
        infer__mutex_unlock(&p->lock);
        for (i = 1; i < p->threads; i++) infer__thread_join(&p->workers[i].thread);
    }
    if (p->has_done && !lost) infer__cond_destroy(&p->done);
    if (p->has_wake && !lost) infer__cond_destroy(&p->wake);
    if (p->has_lock && !lost) infer__mutex_destroy(&p->lock);
    infer__free(p->mem, p->workers);
    infer__free(p->mem, p);
}

static int infer__pool_threads(const infer__pool *p) {
    return p ? p->threads : 1;
}

static int infer__pool_first(const infer__pool *p, int n_tasks, int worker) {
    return p ? infer__share_begin(p, n_tasks, worker % infer__pool_shares(p)) : 0;
}

/* One call of the host's parallel_for: worker i. */
static void infer__pool_host_task(void *arg, int i) {
    infer__pool *p = (infer__pool *)arg;
#if defined(INFER__ATOMICS)
    infer__pool_work(p, i);
#else
    int task; /* nothing may be shared: every worker has its own tasks */
    for (task = i; task < p->end.undone.v; task += p->threads) p->job.fn(p->job.arg, task, i);
#endif
}

static void infer__parallel(infer__pool *p, int n_tasks, infer__task_fn fn, void *arg) {
    int i, begin, shares;
    if (!p || p->threads == 1 || n_tasks <= 1) {
        for (i = 0; i < n_tasks; i++) fn(arg, i, 0);
        return;
    }
    p->job.fn = fn;
    p->job.arg = arg;
    infer__atomic_set(&p->end.undone, n_tasks);
    shares = infer__pool_shares(p);
    for (i = 0; i < shares; i++) {
        begin = infer__share_begin(p, n_tasks, i);
        p->share[i].end = infer__share_begin(p, n_tasks, i + 1);
        infer__atomic_set(&p->share[i].left, p->share[i].end - begin);
    }
    infer__atomic_add(&p->job.number, 1);
    if (p->host) {
        p->host(p->host_user, INFER__MIN(p->threads, n_tasks), infer__pool_host_task, p);
        return;
    }
    if (infer__atomic_get(&p->sleepers) > 0) {
        infer__mutex_lock(&p->lock);
        infer__cond_broadcast(&p->wake);
        infer__mutex_unlock(&p->lock);
    }
    infer__pool_work(p, 0);
    if (infer__pool_spin(p, -1)) return;
    infer__mutex_lock(&p->lock);
    infer__atomic_set(&p->waiting, 1);
    while (infer__atomic_get(&p->end.undone) > 0) infer__cond_wait(&p->done, &p->lock);
    infer__atomic_set(&p->waiting, 0);
    infer__mutex_unlock(&p->lock);
}
