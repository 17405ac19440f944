/* ptx_wgmma.c: wgmma, the matrix products of four warps that run beside the threads (sm_90a). Descriptors, swizzles, fragments and
 * what must be fenced are in the PTX manual, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
 *
 * Each warp makes its own 16 rows. What it multiplies is read when the product is issued; accumulators change when a wait_group
 * covers it, and until then nobody may touch them or what they are made of. Warps run one after another, so a log for each
 * warpgroup says what its first warp did; the others must do the same.
 *
 * Start at issue() and complete(). Registers that some wgmma uses have numbers (ptx_plan), and other instructions that name one of
 * them run through watch().
 */
#include "ptx.h"

enum { F16, BF16, NEGATE_A = 1, NEGATE_B = 2, ROWS = 16, DEPTH = 16, MOST = 256 };

/* Of a kernel: which registers wgmma uses, and what else names them. */
struct ptx_watch { ptx_fn run; uint32_t first, count; };
typedef struct ptx_plan {
    int nregs;
    uint16_t *number;        /* of a register, by its slot / 64; 0 = no wgmma uses it */
    struct ptx_watch *watch; /* by instruction */
    uint16_t *touched;       /* numbers, first .. first + count for an instruction */
} ptx_plan;

/* Of a register in a warp. since: line that touched it since the last wgmma.fence; -1: no fence since the kernel began.
 * shape: N of the products that accumulated in it since then, -1: it was a part of A. */
typedef struct { int adding, feeding, since, shape; } reg_state;

typedef struct {
    const ptx_ins *i;
    int group;               /* -1: not committed */
    int add;                 /* scale-d */
    uint64_t desc[2];
    uint16_t a[ROWS][DEPTH], b[MOST][DEPTH];
} product;                   /* under way */

typedef struct {
    reg_state *regs;
    product *list;
    int count, cap, groups, steps;
    uint32_t waited;         /* step.time of its last wait_group */
} warp_state;

typedef struct { const ptx_ins *i; uint64_t desc[2]; int add; uint32_t time; } step; /* time: when the first warp did it */
typedef struct { step *list; int count, cap, first; } step_log; /* of a warpgroup; first: warp that began it */

typedef struct { uint32_t fences; uint16_t writer, busy; int line; } mark; /* of a byte of shared memory */

struct ptx_wgmma {
    warp_state *warps;
    step_log *logs;
    uint32_t *fences, *fences_met; /* proxy fences of threads: now, and at the last barrier */
    mark *marks;                   /* checking only */
    int nwarps;
};

#define FAIL(w, i, ...) ptx_fail(w, i, 0, PTX_FAILED, __VA_ARGS__)

/* ---- descriptors ------------------------------------------------------------------------------------------------------- */

/* Bits 0-13 start, 16-29 leading offset, 32-45 stride offset (all / 16), 49-51 base offset, 62-63 swizzle: none, 128, 64, 32. */
#define FIELDS (0x3fffull | 0x3fffull << 16 | 0x3fffull << 32 | 7ull << 49 | 3ull << 62)
#define FIELD(desc, bit) ((uint32_t)((desc) >> (bit)&0x3fff) << 4)
static uint32_t line_bytes(uint64_t desc) { return desc >> 62 ? 256u >> (desc >> 62) : 0; }

/* Where the c-th 8 elements of a row lie: K-major. Rows stand in eights, `stride` apart. Without a swizzle the rows of an eight are
 * 16 bytes each and the next elements are `lead` away. With it a row is a line of 128, 64 or 32 bytes, and bits 4.. of the address
 * are crossed with bits 7.., which count lines of 128 bytes from where the pattern begins. */
static uint32_t place(uint64_t desc, int row, int c) {
    uint32_t line = line_bytes(desc), base = desc >> 49 & 7, at = FIELD(desc, 0) + (uint32_t)(row / 8) * FIELD(desc, 32);
    if (!line) return at + (uint32_t)(row % 8) * 16 + (uint32_t)c * FIELD(desc, 16);
    at += (uint32_t)(row % 8) * line + (uint32_t)c * 16;
    return at ^ (((at >> 7) - base) & (line / 16 - 1)) << 4;
}

static int describe(ptx_warp *w, const ptx_ins *i, uint64_t desc, char which) {
    uint32_t line = line_bytes(desc), base = desc >> 49 & 7, in = (FIELD(desc, 0) - (base << 7)) & (line * 8 - 1);
    if (desc & ~FIELDS) {
        FAIL(w, i, "the descriptor of %c, %016llx, has bits that mean nothing", which, (unsigned long long)desc);
        return 0;
    }
    if (line && in + 2 * DEPTH > line) {
        FAIL(w, i, "%c begins at %u, with base offset %u: that is %u bytes into a pattern of %u, whose first row ends at %u",
             which, FIELD(desc, 0), base, in, line * 8, line);
        return 0;
    }
    return 1;
}

/* ---- shared memory ----------------------------------------------------------------------------------------------------- */

int ptx_wgmma_busy(const ptx_block *b, uint64_t at) { return b->wgmma->marks[at].busy ? b->wgmma->marks[at].line : 0; }
void ptx_wgmma_written(ptx_block *b, uint64_t at, uint32_t thread) {
    b->wgmma->marks[at].writer = (uint16_t)thread;
    b->wgmma->marks[at].fences = b->wgmma->fences[thread];
}

/* Checking: may wgmma read this byte? Written, by a thread that fenced the proxies and was at a barrier (or an mbarrier that this
 * warp waited for) after it; or by a bulk copy that this warp waited for. */
static int readable(ptx_warp *w, const ptx_ins *i, uint32_t at, char which) {
    ptx_block *b = w->b;
    const ptx_shadow *s = &b->shadow[at];
    mark *m = &b->wgmma->marks[at];
    if (s->flying)
        FAIL(w, i,
             s->flying == FLIES_CP     ? "%c: shared byte %u is read before its cp.async was waited for"
             : s->flying == FLIES_BULK ? "%c: shared byte %u is read while a bulk copy writes it"
                                       : "%c: shared byte %u is a part of an mbarrier",
             which, at);
    else if (!s->known) FAIL(w, i, "%c: shared byte %u is read before it is written", which, at);
    else if (s->write.thread >= BULK_THREAD && s->write.thread != ATOMIC_THREAD) {
        if (!ptx_barrier_warp_knows(b, w->index, s->write.thread, s->write.time))
            FAIL(w, i, "%c: a bulk copy wrote shared byte %u, and not all lanes of this warp waited for its mbarrier", which, at);
    } else if (s->write.epoch == b->epoch && !(b->barriers && ptx_barrier_warp_knows(b, w->index, m->writer, s->write.time)))
        FAIL(w, i, "%c: race on shared byte %u: thread %u wrote it, no barrier since", which, at, m->writer);
    else if (m->fences >= b->wgmma->fences_met[m->writer] &&
             !(b->barriers && m->fences < ptx_barrier_fences(b, w->index, m->writer)))
        FAIL(w, i, "%c: thread %u wrote shared byte %u and had no fence.proxy.async between that and the barrier", which,
             m->writer, at);
    if (b->failed) return 0;
    m->line = i->line;
    m->busy++;
    return 1;
}

/* Checking: the byte was read now, by all lanes of this warp. */
static void was_read(ptx_warp *w, uint32_t at) {
    ptx_block *b = w->b;
    ptx_access me = {b->epoch, 0, (uint16_t)(w->index * 32), 0, 0}, *past = &b->shadow[at].read;
    if (b->barriers) ptx_barrier_read(b, at, w->index, 0, b->wgmma->warps[w->index].waited);
    if (past->epoch == me.epoch) me.many = past->many > 1 || past->thread / 32 != me.thread / 32 ? 2 : 1;
    *past = me;
    b->wgmma->marks[at].busy--;
}

/* Rows of a matrix. 0: it failed. */
static int fetch(ptx_warp *w, const ptx_ins *i, uint64_t desc, int first, int rows, uint16_t to[][DEPTH], char which) {
    ptx_block *b = w->b;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 2; c++) {
            uint32_t at = place(desc, first + r, c);
            if (at + 16 > b->shared_bytes) {
                ptx_fail(w, i, 0, PTX_ILLEGAL_ADDRESS, "row %d of %c at %u is out of bounds of shared memory", first + r,
                         which, at);
                return 0;
            }
            memcpy(to[r] + c * 8, b->shared + at, 16);
            for (uint32_t k = 0; b->shadow && k < 16; k++)
                if (!readable(w, i, at + k, which)) return 0;
        }
    return 1;
}

/* The same rows when the product is complete. 0: somebody has changed them. */
static int unchanged(ptx_warp *w, const product *p, int which, int first, int rows, const uint16_t was[][DEPTH]) {
    ptx_block *b = w->b;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 2; c++) {
            uint32_t at = place(p->desc[which], first + r, c);
            if (memcmp(was[r] + c * 8, b->shared + at, 16)) {
                FAIL(w, p->i, "row %d of %c, at %u of shared memory, changed before a wgmma.wait_group covered the product",
                     first + r, "AB"[which], at);
                return 0;
            }
            for (uint32_t k = 0; b->shadow && k < 16; k++) was_read(w, at + k);
        }
    return 1;
}

/* ---- the four warps ------------------------------------------------------------------------------------------------------ */

/* Is this what the warpgroup's other warps did at this point? */
static int in_step(ptx_warp *w, const ptx_ins *i, uint64_t a, uint64_t b, int add) {
    ptx_block *block = w->b;
    warp_state *me = &block->wgmma->warps[w->index];
    step_log *log = &block->wgmma->logs[w->index / 4];
    step *s;
    if (w->index / 4 * 4 + 4 > block->nwarps) {
        FAIL(w, i, "the warpgroup has %d warps only, not 4", block->nwarps % 4);
        return 0;
    }
    if (me->steps == log->count) {
        if (log->count == log->cap) {
            int cap = log->cap ? log->cap * 2 : 64;
            s = realloc(log->list, (size_t)cap * sizeof *s);
            if (!s) {
                FAIL(w, i, "the double is out of memory");
                return 0;
            }
            log->list = s, log->cap = cap;
        }
        if (!log->count) log->first = w->index;
        s = &log->list[log->count++];
        s->i = i, s->desc[0] = a, s->desc[1] = b, s->add = add;
        s->time = block->barriers ? ptx_barrier_time(block) : 0;
    }
    s = &log->list[me->steps++];
    if (s->i != i)
        FAIL(w, i, "warp %d of the warpgroup executes line %d here: wgmma is for all four together", log->first % 4,
             s->i->line);
    else if (s->desc[0] != a || s->desc[1] != b)
        FAIL(w, i, "the descriptor of %c is %016llx, in warp %d of the warpgroup %016llx", s->desc[0] != a ? 'A' : 'B',
             (unsigned long long)(s->desc[0] != a ? a : b), log->first % 4,
             (unsigned long long)(s->desc[0] != a ? s->desc[0] : s->desc[1]));
    else if (s->add != add) FAIL(w, i, "scale-d is not that of warp %d of the warpgroup", log->first % 4);
    return !block->failed;
}

int ptx_wgmma_meet(ptx_block *b, int end) {
    struct ptx_wgmma *x = b->wgmma;
    for (int k = 0; k < b->nwarps; k++) {
        step_log *log = &x->logs[k / 4];
        if (x->warps[k].steps < log->count) {
            const ptx_ins *i = log->list[x->warps[k].steps].i;
            FAIL(&b->warps[k], i, "warp %d of the warpgroup has not executed it and %s: wgmma is for all four together",
                 k % 4, end ? "has ended" : "is at a barrier");
            return 0;
        }
        if (end && x->warps[k].count) {
            FAIL(&b->warps[k], x->warps[k].list[0].i, "the kernel ends before a wgmma.wait_group covers the product");
            return 0;
        }
    }
    for (int k = 0; k < b->nwarps; k++) x->logs[k / 4].count = x->warps[k].steps = 0;
    memcpy(x->fences_met, x->fences, sizeof *x->fences * (size_t)b->nwarps * 32);
    return 1;
}

/* ---- registers ----------------------------------------------------------------------------------------------------------- */

static reg_state *state(ptx_warp *w, uint32_t slot) {
    return &w->b->wgmma->warps[w->index].regs[w->b->f->plan->number[slot / 64] - 1];
}

/* An instruction that is no wgmma and names registers of one. */
static void watch(ptx_warp *w, const ptx_ins *i) {
    const ptx_plan *plan = w->b->f->plan;
    const struct ptx_watch *x = &plan->watch[i - w->b->f->code];
    reg_state *regs = w->b->wgmma->warps[w->index].regs;
    for (uint32_t k = x->first; k < x->first + x->count; k++) {
        reg_state *r = &regs[plan->touched[k] - 1];
        if (r->adding || r->feeding) {
            ptx_fail(w, i, __builtin_ctz(w->mask), PTX_FAILED,
                     "a register of a wgmma under way, %s, is touched: no wgmma.wait_group covers that",
                     r->adding ? "an accumulator" : "a part of A");
            return;
        }
        if (r->since >= 0) r->since = i->line;
    }
    x->run(w, i);
}

/* May a product of this shape use its registers? */
static int fenced(ptx_warp *w, const ptx_ins *i) {
    int n = i->size * 8, nd = n / 2, total = nd + (i->sign ? 4 : 0);
    for (int k = 0; k < total; k++) {
        const reg_state *r = state(w, i->more[k]);
        int shape = k < nd ? n : -1;
        if (r->since < 0) FAIL(w, i, "no wgmma.fence since the kernel began");
        else if (r->since)
            FAIL(w, i, "line %d touched register %d of %s, and there was no wgmma.fence since", r->since,
                 k < nd ? k : k - nd, k < nd ? "D" : "A");
        else if (r->shape && r->shape != shape)
            FAIL(w, i, "register %d of %s belongs to a wgmma of another shape, and there was no wgmma.fence since",
                 k < nd ? k : k - nd, k < nd ? "D" : "A");
        else if (k < nd ? r->feeding : r->adding)
            FAIL(w, i, "register %d of %s is %s of a wgmma under way: no wgmma.wait_group covers that",
                 k < nd ? k : k - nd, k < nd ? "D" : "A", k < nd ? "a part of A" : "an accumulator");
        if (w->b->failed) return 0;
    }
    return 1;
}
static void use(ptx_warp *w, const ptx_ins *i, int more) {
    int n = i->size * 8, nd = n / 2, total = nd + (i->sign ? 4 : 0);
    for (int k = 0; k < total; k++) {
        reg_state *r = state(w, i->more[k]);
        *(k < nd ? &r->adding : &r->feeding) += more;
        if (more > 0) r->shape = k < nd ? n : -1;
    }
}

/* ---- the instructions ------------------------------------------------------------------------------------------------------ */

static void wgmma_fence(ptx_warp *w, const ptx_ins *i) {
    warp_state *me = &w->b->wgmma->warps[w->index];
    if (!in_step(w, i, 0, 0, 0)) return;
    for (int k = 0; k < w->b->f->plan->nregs; k++) me->regs[k].since = me->regs[k].shape = 0;
}

static int uniform(ptx_warp *w, const ptx_ins *i, uint32_t slot, char which, uint64_t *desc) {
    const uint64_t *d = R64(slot);
    for (int l = 1; l < 32; l++)
        if (d[l] != d[0]) {
            ptx_fail(w, i, l, PTX_FAILED, "the descriptor of %c is %016llx, in lane 0 %016llx", which,
                     (unsigned long long)d[l], (unsigned long long)d[0]);
            return 0;
        }
    *desc = d[0];
    return 1;
}

static void issue(ptx_warp *w, const ptx_ins *i) {
    warp_state *me = &w->b->wgmma->warps[w->index];
    uint32_t add = RP(i->o[2]) ^ (i->wide ? ~0u : 0);
    uint64_t desc[2] = {0, 0};
    product *p;
    if (!i->sign && !uniform(w, i, i->o[0], 'A', &desc[0])) return;
    if (!uniform(w, i, i->o[1], 'B', &desc[1])) return;
    if (add && add != ~0u) {
        FAIL(w, i, "scale-d is not the same in all lanes");
        return;
    }
    if (!in_step(w, i, desc[0], desc[1], add != 0) || !fenced(w, i)) return;
    if ((!i->sign && !describe(w, i, desc[0], 'A')) || !describe(w, i, desc[1], 'B')) return;
    if (me->count == me->cap) {
        int cap = me->cap ? me->cap * 2 : 8;
        p = realloc(me->list, (size_t)cap * sizeof *p);
        if (!p) {
            FAIL(w, i, "the double is out of memory");
            return;
        }
        me->list = p, me->cap = cap;
    }
    p = &me->list[me->count];
    p->i = i, p->group = -1, p->add = add != 0, p->desc[0] = desc[0], p->desc[1] = desc[1];
    if (i->sign) {
        const uint32_t *a = i->more + i->size * 4;
        LANES for (int r = 0; r < 4; r++) {
            uint32_t v = R32(a[r])[l];
            uint16_t *to = &p->a[l / 4 + (r & 1) * 8][l % 4 * 2 + (r >> 1) * 8];
            to[0] = (uint16_t)v, to[1] = (uint16_t)(v >> 16);
        }
    } else if (!fetch(w, i, desc[0], w->index % 4 * ROWS, ROWS, p->a, 'A')) {
        return;
    }
    if (!fetch(w, i, desc[1], 0, i->size * 8, p->b, 'B')) return;
    me->count++;
    use(w, i, 1);
}

/* The product's sums reach their registers. Register r of lane l: row l / 4, and 8 more for every second pair of registers;
 * column l % 4 * 2, 1 more for every second register, 8 more for every four. */
static void complete(ptx_warp *w, const product *p) {
    static _Thread_local float b[DEPTH][MOST];
    static _Thread_local double sums[ROWS][MOST];
    const ptx_ins *i = p->i;
    int n = i->size * 8, bf16 = i->mode == BF16, negate = i->flag == NEGATE_A || i->flag == NEGATE_B;
    if (!i->sign && !unchanged(w, p, 0, w->index % 4 * ROWS, ROWS, p->a)) return;
    if (!unchanged(w, p, 1, 0, n, p->b)) return;
    for (int y = 0; y < n; y++)
        for (int z = 0; z < DEPTH; z++) b[z][y] = bf16 ? ptx_bf16_to_float(p->b[y][z]) : ptx_half_to_float(p->b[y][z]);
    memset(sums, 0, sizeof sums);
    for (int x = 0; x < ROWS; x++)
        for (int z = 0; z < DEPTH; z++) {
            double a = bf16 ? ptx_bf16_to_float(p->a[x][z]) : ptx_half_to_float(p->a[x][z]);
            for (int y = 0; y < n; y++) sums[x][y] += a * b[z][y];
        }
    for (int r = 0; r < n / 2; r++) {
        uint32_t *d = R32(i->more[r]);
        LANES {
            double sum = sums[l / 4 + (r >> 1 & 1) * 8][r / 4 * 8 + l % 4 * 2 + (r & 1)];
            d[l] = ptx_bits((float)((negate ? -sum : sum) + (p->add ? ptx_float(d[l]) : 0)));
        }
    }
    use(w, i, -1);
}

static void commit_group(ptx_warp *w, const ptx_ins *i) {
    warp_state *me = &w->b->wgmma->warps[w->index];
    if (!in_step(w, i, 0, 0, 0)) return;
    for (int k = 0; k < me->count; k++)
        if (me->list[k].group < 0) me->list[k].group = me->groups;
    me->groups++;
}
static void wait_group(ptx_warp *w, const ptx_ins *i) {
    warp_state *me = &w->b->wgmma->warps[w->index];
    int k, left = 0;
    if (!in_step(w, i, 0, 0, 0)) return;
    me->waited = w->b->wgmma->logs[w->index / 4].list[me->steps - 1].time;
    for (k = 0; k < me->count && !w->b->failed; k++) {
        product *p = &me->list[k];
        if (p->group >= 0 && p->group < me->groups - (int)i->imm) complete(w, p);
        else if (left++ != k) me->list[left - 1] = *p;
    }
    me->count = left;
}

static void fence_proxy(ptx_warp *w, const ptx_ins *i) {
    (void)i;
    if (w->b->wgmma) EACH(w->mask) w->b->wgmma->fences[(uint32_t)w->index * 32 + l]++;
    if (w->b->barriers) ptx_barrier_fence(w, 1);
}
static void nothing(ptx_warp *w, const ptx_ins *i) { (void)w, (void)i; }

/* ---- decoding -------------------------------------------------------------------------------------------------------------- */

static int decode_fence(ptx_ins *i, char **part, int parts, int n) {
    if (n || parts < 3 || parts > 4 || strcmp(part[2], "async")) return 0;
    i->run = fence_proxy;
    if (parts == 3 || !strcmp(part[3], "shared::cta") || !strcmp(part[3], "shared::cluster")) return 1;
    i->run = nothing; /* of global memory, which no wgmma reads */
    return !strcmp(part[3], "global");
}

/* Registers of a list, each of 32 bits and each once. */
static int take_list(ptx_ins *i, int at, const ptx_operand *o, int want, const char *what, char *why, size_t size) {
    if (o->kind != OPD_LIST || o->count != want) {
        snprintf(why, size, "%s has %d registers, not %d", what, o->kind == OPD_LIST ? o->count : 1, want);
        return 0;
    }
    for (int k = 0; k < want; k++) {
        if (!o->list[k] || o->widths[k] != 32) {
            snprintf(why, size, "%s is not of registers of 32 bits", what);
            return 0;
        }
        i->more[at + k] = o->list[k];
        for (int e = 0; e < k; e++)
            if (o->list[e] == o->list[k]) {
                snprintf(why, size, "%s has a register twice", what);
                return 0;
            }
    }
    return 1;
}

static int decode_product(ptx_parser *p, ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why,
                          size_t size) {
    int columns = 0, used = 0, from_registers = n > 1 && o[1].kind == OPD_LIST, k;
    char which[] = "A";
    if (parts != 8 || strcmp(part[2], "sync") || strcmp(part[3], "aligned")) return 0;
    if (strcmp(part[5], "f32") || strcmp(part[6], part[7]) || (strcmp(part[6], "f16") && strcmp(part[6], "bf16"))) {
        snprintf(why, size, "only products of f16 or of bf16 with sums in f32 are here");
        return 0;
    }
    if (sscanf(part[4], "m64n%dk16%n", &columns, &used) != 1 || part[4][used] || columns < 8 || columns > MOST ||
        columns % 8) {
        snprintf(why, size, "no such shape: m64nNk16, with N = 8, 16, .. 256");
        return 0;
    }
    if (n != (from_registers ? 7 : 8)) {
        snprintf(why, size, "%d operands, not %d", n, from_registers ? 7 : 8);
        return 0;
    }
    i->mode = part[6][0] == 'b' ? BF16 : F16, i->size = (uint8_t)(columns / 8), i->sign = (uint8_t)from_registers;
    i->more = malloc(sizeof *i->more * (MOST / 2 + 4));
    if (!i->more || !take_list(i, 0, &o[0], columns / 2, "D", why, size)) return 0;
    if (from_registers ? !take_list(i, columns / 2, &o[1], 4, "A", why, size) : !ptx_source(p, &o[1], 64, &i->o[0]))
        return 0;
    for (k = 0; from_registers && k < columns * 2; k++)
        if (i->more[k / 4] == i->more[columns / 2 + k % 4]) {
            snprintf(why, size, "a register is in D and in A");
            return 0;
        }
    if (!ptx_source(p, &o[2], 64, &i->o[1]) || (o[3].kind == OPD_INT && o[3].value > 1) ||
        !ptx_source(p, &o[3], 1, &i->o[2]))
        return 0;
    i->wide = (uint8_t)o[3].not;
    for (k = 4; k < 6; k++) {
        if (o[k].kind != OPD_INT || (o[k].value != 1 && o[k].value != (uint64_t)-1)) {
            snprintf(why, size, "imm-scale-%c is neither 1 nor -1", "ab"[k - 4]);
            return 0;
        }
        if (o[k].value != 1) i->flag |= k == 4 ? NEGATE_A : NEGATE_B;
    }
    for (; k < n; k++)
        if (o[k].kind != OPD_INT || o[k].value) {
            which[0] = (char)(k == n - 1 ? 'B' : 'A');
            snprintf(why, size, "imm-trans of %s is not 0: matrices that are not K-major are not here", which);
            return 0;
        }
    i->run = issue;
    return 1;
}

int ptx_decode_wgmma(ptx_parser *p, const ptx_module *m, ptx_ins *i, char **part, int parts, ptx_operand *o, int n,
                     char *why, size_t size) {
    const char *what = parts > 1 ? part[1] : "";
    int fence = !strcmp(part[0], "fence");
    if (m->version < 80 || m->target < 90 || (!fence && (m->target != 90 || m->suffix != 'a'))) {
        snprintf(why, size, "it needs .version 8.0 and .target sm_90%s", fence ? "" : "a");
        return 0;
    }
    if (fence) return decode_fence(i, part, parts, n);
    i->ctl = CTL_COLLECT;
    if (!strcmp(what, "mma_async")) return decode_product(p, i, part, parts, o, n, why, size);
    if (parts != 4 || strcmp(part[2], "sync") || strcmp(part[3], "aligned")) return 0;
    if (!strcmp(what, "wait_group")) {
        i->run = wait_group;
        if (n != 1 || o[0].kind != OPD_INT || o[0].value > 1 << 20) {
            snprintf(why, size, "a number of groups was expected");
            return 0;
        }
        i->imm = (int64_t)o[0].value;
        return 1;
    }
    i->run = !strcmp(what, "fence") ? wgmma_fence : !strcmp(what, "commit_group") ? commit_group : NULL;
    return i->run && n == 0;
}

int ptx_wgmma_plan(ptx_func *f, const ptx_ref *refs, int nrefs) {
    ptx_plan *plan;
    uint32_t n = 0;
    int any = 0;
    for (int k = 0; k < f->ncode; k++) {
        ptx_fn run = f->code[k].run;
        any |= run == issue || run == wgmma_fence || run == commit_group || run == wait_group;
    }
    if (!any) return 1;
    f->plan = plan = calloc(1, sizeof *plan);
    if (!plan || !(plan->number = calloc(f->reg_bytes / 64 + 1, sizeof *plan->number)) ||
        !(plan->watch = calloc((size_t)f->ncode + 1, sizeof *plan->watch)) ||
        !(plan->touched = calloc((size_t)nrefs + 1, sizeof *plan->touched)))
        return 0;
    for (int k = 0; k < f->ncode; k++) {
        const ptx_ins *i = &f->code[k];
        for (int e = 0; i->run == issue && e < i->size * 4 + (i->sign ? 4 : 0); e++)
            if (!plan->number[i->more[e] / 64]) plan->number[i->more[e] / 64] = (uint16_t)++plan->nregs;
    }
    for (int k = 0; k < nrefs; k++) {
        ptx_ins *i = &f->code[refs[k].code];
        struct ptx_watch *x = &plan->watch[refs[k].code];
        if (refs[k].slot % 64 || !plan->number[refs[k].slot / 64] || i->run == issue || !i->run) continue;
        if (!x->count) x->first = n, x->run = i->run, i->run = watch;
        x->count++;
        plan->touched[n++] = plan->number[refs[k].slot / 64];
    }
    return 1;
}
void ptx_wgmma_forget(ptx_func *f) {
    if (!f->plan) return;
    free(f->plan->number);
    free(f->plan->watch);
    free(f->plan->touched);
    free(f->plan);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------ */

int ptx_wgmma_make(ptx_block *b) {
    struct ptx_wgmma *x = b->wgmma = calloc(1, sizeof *x);
    size_t n = (size_t)b->nwarps;
    if (!x) return 0;
    x->nwarps = b->nwarps;
    x->warps = calloc(n, sizeof *x->warps);
    x->logs = calloc(n / 4 + 1, sizeof *x->logs);
    x->fences = calloc(n * 32, sizeof *x->fences);
    x->fences_met = calloc(n * 32, sizeof *x->fences_met);
    if (b->shadow) x->marks = calloc(b->shared_bytes + 1, sizeof *x->marks);
    for (size_t k = 0; x->warps && k < n; k++)
        if (!(x->warps[k].regs = calloc((size_t)b->f->plan->nregs + 1, sizeof *x->warps[k].regs))) return 0;
    return x->warps && x->logs && x->fences && x->fences_met && (!b->shadow || x->marks);
}
void ptx_wgmma_free(ptx_block *b) {
    struct ptx_wgmma *x = b->wgmma;
    if (!x) return;
    for (int k = 0; x->warps && k < x->nwarps; k++) {
        free(x->warps[k].regs);
        free(x->warps[k].list);
    }
    for (int k = 0; x->logs && k <= x->nwarps / 4; k++) free(x->logs[k].list);
    free(x->warps);
    free(x->logs);
    free(x->fences);
    free(x->fences_met);
    free(x->marks);
    free(x);
}
void ptx_wgmma_start(ptx_block *b) {
    struct ptx_wgmma *x = b->wgmma;
    size_t n = (size_t)b->nwarps;
    for (size_t k = 0; k < n; k++) {
        warp_state *me = &x->warps[k];
        me->count = me->groups = me->steps = 0;
        for (int r = 0; r < b->f->plan->nregs; r++) me->regs[r] = (reg_state){0, 0, -1, 0};
    }
    for (size_t k = 0; k <= n / 4; k++) x->logs[k].count = 0;
    memset(x->fences, 0, n * 32 * sizeof *x->fences);
    memset(x->fences_met, 0, n * 32 * sizeof *x->fences_met);
    if (x->marks) memset(x->marks, 0, b->shared_bytes * sizeof *x->marks);
}
