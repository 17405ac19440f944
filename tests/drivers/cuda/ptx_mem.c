/* ptx_mem.c: instructions that touch memory: loads, stores, atomics, asynchronous copies. Every access is checked: inside what was
 * allocated, aligned to its size. With checking on (ptx_launch.check) also: written before it is read, and no two threads of a
 * block touch the same shared bytes, one of them writing, without a barrier between (ptx_barrier.c has what mbarrier orders).
 *
 * Bytes that cp.async brings arrive when its thread waits for them; until then they are 0xff and, with checking on, may not be read.
 */
#include "ptx.h"

enum { ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND, ATOM_OR, ATOM_XOR, ATOM_EXCH, ATOM_CAS, ATOM_INC, ATOM_DEC };
enum { KIND_READ, KIND_WRITE, KIND_ATOMIC };

static const char *space_name(int space) {
    static const char *const names[] = {"generic", "global", "shared", "local", "const", "param"};
    return names[space];
}

void ptx_addresses(ptx_warp *w, const ptx_ins *i, uint64_t *a) {
    uint64_t offset = (uint64_t)i->imm;
    if (!i->base) {
        LANES a[l] = offset;
    } else if (i->base_wide) {
        const uint64_t *r = R64(i->base);
        LANES a[l] = r[l] + offset;
    } else {
        const uint32_t *r = R32(i->base);
        LANES a[l] = (uint32_t)(r[l] + (uint32_t)offset);
    }
}

static const ptx_range *find_range(const ptx_launch *x, uint64_t a) {
    int lo = 0, hi = x->nranges;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (x->ranges[mid].base <= a) lo = mid + 1;
        else hi = mid;
    }
    return lo && a - x->ranges[lo - 1].base < x->ranges[lo - 1].size ? &x->ranges[lo - 1] : NULL;
}

/* Is b's access of the past not ordered before what thread t of warp w does now? */
static int unordered(const ptx_warp *w, const ptx_access *past, uint32_t t, int kind) {
    if (past->thread >= BULK_THREAD && past->thread != ATOMIC_THREAD)
        return !ptx_barrier_knows(w->b, t, past->thread, past->time);
    if (past->epoch != w->b->epoch || past->thread == t) return 0;
    if (past->thread == ATOMIC_THREAD) return kind != KIND_ATOMIC;
    if (w->b->barriers) return !ptx_barrier_knows(w->b, t, past->thread, past->time);
    return past->many > 1 || past->thread / 32 != t / 32 || past->warp_epoch == w->warp_epoch;
}

static int check_shared(ptx_warp *w, const ptx_ins *i, int lane, uint64_t a, int bytes, int kind, const uint8_t *data) {
    ptx_block *b = w->b;
    uint32_t t = (uint32_t)(w->index * 32 + lane);
    int k;
    for (k = 0; k < bytes; k++) {
        ptx_shadow *s = &b->shadow[a + (uint64_t)k];
        ptx_access me = {b->epoch, w->warp_epoch, (uint16_t)(kind == KIND_ATOMIC ? ATOMIC_THREAD : t), 0,
                         b->barriers ? ptx_barrier_time(b) : 0};
        if (s->flying) {
            ptx_fail(w, i, lane, PTX_FAILED,
                     s->flying == FLIES_CP     ? "shared byte %llu is touched before its cp.async was waited for"
                     : s->flying == FLIES_BULK ? "shared byte %llu is touched while a bulk copy writes it"
                                               : "shared byte %llu is a part of an mbarrier, and touched by something else",
                     (unsigned long long)a + (unsigned)k);
            return 0;
        }
        if (kind != KIND_WRITE && !s->known) {
            ptx_fail(w, i, lane, PTX_FAILED, "shared byte %llu is read before it is written",
                     (unsigned long long)a + (unsigned)k);
            return 0;
        }
        if (b->wgmma && kind != KIND_READ && ptx_wgmma_busy(b, a + (uint64_t)k)) {
            ptx_fail(w, i, lane, PTX_FAILED,
                     "shared byte %llu is written while the wgmma of line %d reads it: no wgmma.wait_group covers that",
                     (unsigned long long)a + (unsigned)k, ptx_wgmma_busy(b, a + (uint64_t)k));
            return 0;
        }
        if (unordered(w, &s->write, t, kind) &&
            !(kind == KIND_WRITE && data && data[k] == b->shared[a + (uint64_t)k])) {
            if (s->write.thread >= BULK_THREAD && s->write.thread != ATOMIC_THREAD)
                ptx_fail(w, i, lane, PTX_FAILED,
                         "race on shared byte %llu: a bulk copy wrote it, and its mbarrier was not waited for",
                         (unsigned long long)a + (unsigned)k);
            else
                ptx_fail(w, i, lane, PTX_FAILED, "race on shared byte %llu: thread %u wrote it, no barrier since",
                         (unsigned long long)a + (unsigned)k, s->write.thread);
            return 0;
        }
        int reader = kind == KIND_READ             ? -1
                     : b->barriers                 ? ptx_barrier_reader(b, a + (uint64_t)k, t)
                     : unordered(w, &s->read, t, kind) ? s->read.thread
                                                   : -1;
        if (reader >= 0) {
            ptx_fail(w, i, lane, PTX_FAILED, "race on shared byte %llu: thread %d read it, no barrier since",
                     (unsigned long long)a + (unsigned)k, reader);
            return 0;
        }
        if (kind == KIND_READ) {
            if (b->barriers) ptx_barrier_read(b, a + (uint64_t)k, w->index, 1u << lane, me.time);
            if (s->read.epoch == me.epoch && s->read.thread != t)
                me.many = s->read.many > 1 || s->read.thread / 32 != t / 32 ? 2 : 1;
            s->read = me;
        } else {
            s->write = me;
            s->known = 1;
            if (b->wgmma) ptx_wgmma_written(b, a + (uint64_t)k, t);
            if (b->barriers) ptx_barrier_written(b, a + (uint64_t)k, t);
        }
    }
    return 1;
}

/* What checking knows about one access that is inside. */
static int checked(ptx_warp *w, const ptx_ins *i, int lane, int space, uint64_t a, int bytes, int kind,
                   const uint8_t *data, const ptx_range *r) {
    uint8_t *known = NULL;
    int k;
    if (space == SPACE_SHARED) return check_shared(w, i, lane, a, bytes, kind, data);
    if (space == SPACE_GLOBAL && r->known) known = r->known + (a - r->base);
    if (space == SPACE_LOCAL) known = w->local_known + (size_t)lane * w->b->f->local_bytes + a;
    for (k = 0; known && k < bytes; k++) {
        if (kind == KIND_WRITE) {
            known[k] = 1;
        } else if (!known[k]) {
            ptx_fail(w, i, lane, PTX_FAILED, "%s byte at %llx is read before it is written", space_name(space),
                     (unsigned long long)a + (unsigned)k);
            return 0;
        }
    }
    return 1;
}

/* Where one lane's access is in the host's memory; NULL: it failed. */
static uint8_t *where(ptx_warp *w, const ptx_ins *i, int lane, int space, uint64_t a, int bytes, int kind,
                      const uint8_t *data) {
    ptx_block *b = w->b;
    const ptx_range *r = NULL;
    uint64_t size = 0, base = 0;
    uint8_t *host = NULL;
    if (space == SPACE_GENERIC) {
        space = (int)(a >> 56);
        if (space > SPACE_PARAM) space = SPACE_GLOBAL;
        else if (space > SPACE_GLOBAL) a &= WINDOW(1) - 1;
        if (space == SPACE_GENERIC) space = SPACE_GLOBAL;
    }
    switch (space) {
    case SPACE_GLOBAL:
        r = find_range(b->launch, a);
        if (r) base = r->base, size = r->size, host = r->host;
        break;
    case SPACE_SHARED: host = b->shared, size = b->shared_bytes; break;
    case SPACE_LOCAL: host = w->local + (size_t)lane * b->f->local_bytes, size = b->f->local_bytes; break;
    case SPACE_CONST: host = b->f->module->constants, size = b->f->module->const_bytes; break;
    default: host = (uint8_t *)(uintptr_t)b->launch->params, size = b->f->param_bytes; break;
    }
    if (!host || a < base || a - base >= size || size - (a - base) < (uint64_t)bytes ||
        (kind != KIND_READ && space >= SPACE_CONST)) {
        ptx_fail(w, i, lane, PTX_ILLEGAL_ADDRESS, "%s %s of %d bytes at %llx is out of bounds%s", space_name(space),
                 kind == KIND_READ ? "read" : "write", bytes, (unsigned long long)a,
                 space == SPACE_GLOBAL ? " of every allocation" : "");
        return NULL;
    }
    if (a & (uint64_t)(bytes - 1)) {
        ptx_fail(w, i, lane, PTX_MISALIGNED, "%s access of %d bytes at %llx is misaligned", space_name(space), bytes,
                 (unsigned long long)a);
        return NULL;
    }
    if (b->launch->check && !checked(w, i, lane, space, a, bytes, kind, data, r)) return NULL;
    return host + (a - base);
}

uint8_t *ptx_where(ptx_warp *w, const ptx_ins *i, int lane, int space, uint64_t a, int bytes, int write) {
    return where(w, i, lane, space, a, bytes, write ? KIND_WRITE : KIND_READ, NULL);
}

/* Many bytes of global memory that one lane's instruction reads; NULL: it failed. */
const uint8_t *ptx_global(ptx_warp *w, const ptx_ins *i, int lane, uint64_t a, uint32_t bytes) {
    const ptx_range *r = find_range(w->b->launch, a);
    if (!r || r->size - (a - r->base) < bytes) {
        ptx_fail(w, i, lane, PTX_ILLEGAL_ADDRESS, "global read of %u bytes at %llx is out of bounds of every allocation",
                 bytes, (unsigned long long)a);
        return NULL;
    }
    if (w->b->launch->check && !checked(w, i, lane, SPACE_GLOBAL, a, (int)bytes, KIND_READ, NULL, r)) return NULL;
    return r->host + (a - r->base);
}

/* Host pointers of all lanes; lanes that are off get the first one's. 0: the access failed. */
static inline int resolve(ptx_warp *w, const ptx_ins *i, int bytes, int kind, uint8_t **p) {
    ptx_block *b = w->b;
    uint64_t a[32], lo, hi, any = 0, base = 0, size = 0;
    uint32_t m = w->mask;
    uint8_t *host = NULL;
    int first = __builtin_ctz(m), space = i->space;
    ptx_addresses(w, i, a);
    if (m != ~0u) LANES a[l] = m >> l & 1 ? a[l] : a[first];
    lo = hi = a[first];
    LANES {
        lo = a[l] < lo ? a[l] : lo;
        hi = a[l] > hi ? a[l] : hi;
        any |= a[l];
    }
    if (!b->launch->check) {
        if (space == SPACE_GENERIC && lo >> 56 >= SPACE_CONST) space = SPACE_GLOBAL;
        if (space == SPACE_GLOBAL) {
            const ptx_range *r = b->last;
            if (!r || lo < r->base || lo - r->base >= r->size) r = find_range(b->launch, lo);
            if (r) b->last = r, base = r->base, size = r->size, host = r->host;
        } else if (space == SPACE_SHARED) {
            host = b->shared, size = b->shared_bytes;
        } else if (kind == KIND_READ && space == SPACE_CONST) {
            host = b->f->module->constants, size = b->f->module->const_bytes;
        } else if (kind == KIND_READ && space == SPACE_PARAM) {
            host = (uint8_t *)(uintptr_t)b->launch->params, size = b->f->param_bytes;
        }
        if (host && !(any & (uint64_t)(bytes - 1)) && lo >= base && hi - base < size &&
            size - (hi - base) >= (uint64_t)bytes) {
            LANES p[l] = host + (a[l] - base);
            return 1;
        }
    }
    EACH(m) {
        p[l] = where(w, i, (int)l, i->space, a[l], bytes, kind, NULL);
        if (!p[l]) return 0;
    }
    LANES if (!(m >> l & 1)) p[l] = p[first];
    return 1;
}

#define GATHER(T) LANES { T v; memcpy(&v, p[l] + at, sizeof v); t[l] = (uint64_t)(int64_t)v; }
static void load(ptx_warp *w, const ptx_ins *i) {
    uint8_t *p[32];
    int k, n = i->vec, size = i->size;
    if (!resolve(w, i, size * n, KIND_READ, p)) return;
    for (k = 0; k < n; k++) {
        int at = k * size;
        if (!i->o[k]) continue;
        if (size == 4 && !i->wide) {
            uint32_t t[32];
            LANES memcpy(&t[l], p[l] + at, 4);
            ptx_put32(w, R32(i->o[k]), t);
            continue;
        }
        uint64_t t[32];
        switch (size * 2 + i->sign) {
        case 2: GATHER(uint8_t) break;
        case 3: GATHER(int8_t) break;
        case 4: GATHER(uint16_t) break;
        case 5: GATHER(int16_t) break;
        case 8: GATHER(uint32_t) break;
        case 9: GATHER(int32_t) break;
        default: GATHER(uint64_t) break;
        }
        if (i->wide) {
            ptx_put64(w, R64(i->o[k]), t);
        } else {
            uint32_t s[32], keep = i->flag ? 0xffff : ~0u; /* a register of 16 bits */
            LANES s[l] = (uint32_t)t[l] & keep;
            ptx_put32(w, R32(i->o[k]), s);
        }
    }
}

static void store(ptx_warp *w, const ptx_ins *i) {
    uint8_t *p[32];
    int k, n = i->vec, size = i->size;
    if (w->b->launch->check) { /* lane by lane, since what is written matters to races */
        uint64_t a[32];
        ptx_addresses(w, i, a);
        EACH(w->mask) {
            uint8_t data[64];
            for (k = 0; k < n; k++)
                memcpy(data + k * size, i->wide ? (void *)&R64(i->o[k])[l] : (void *)&R32(i->o[k])[l], (size_t)size);
            p[l] = where(w, i, (int)l, i->space, a[l], size * n, KIND_WRITE, data);
            if (!p[l]) return;
            memcpy(p[l], data, (size_t)(size * n));
        }
        return;
    }
    if (!resolve(w, i, size * n, KIND_WRITE, p)) return;
    for (k = 0; k < n; k++) {
        int at = k * size;
        if (size == 8) {
            const uint64_t *s = R64(i->o[k]);
            EACH(w->mask) memcpy(p[l] + at, &s[l], 8);
        } else if (i->wide) {
            const uint64_t *s = R64(i->o[k]);
            EACH(w->mask) memcpy(p[l] + at, &s[l], (size_t)size);
        } else {
            const uint32_t *s = R32(i->o[k]);
            if (size == 4) EACH(w->mask) memcpy(p[l] + at, &s[l], 4);
            else if (size == 2) EACH(w->mask) memcpy(p[l] + at, &s[l], 2);
            else EACH(w->mask) p[l][at] = (uint8_t)s[l];
        }
    }
}

/* ---- atomics: mode = operation, sign = signed, flag = 1 f32, 2 f16x2, 3 f64 --------------------------------------------- */

static uint64_t combine(const ptx_ins *i, uint64_t old, uint64_t x, uint64_t y) {
    int wide = i->size == 8;
    if (i->flag == 1) return ptx_bits(ptx_float((uint32_t)old) + ptx_float((uint32_t)x));
    if (i->flag == 2)
        return ptx_float_to_half(ptx_half_to_float((uint16_t)old) + ptx_half_to_float((uint16_t)x), 'n') |
               (uint32_t)ptx_float_to_half(
                   ptx_half_to_float((uint16_t)(old >> 16)) + ptx_half_to_float((uint16_t)(x >> 16)), 'n')
                   << 16;
    if (i->flag == 3) {
        double a, b;
        uint64_t u;
        memcpy(&a, &old, 8);
        memcpy(&b, &x, 8);
        a += b;
        memcpy(&u, &a, 8);
        return u;
    }
    switch (i->mode) {
    case ATOM_ADD: return old + x;
    case ATOM_AND: return old & x;
    case ATOM_OR: return old | x;
    case ATOM_XOR: return old ^ x;
    case ATOM_EXCH: return x;
    case ATOM_CAS: return old == x ? y : old;
    case ATOM_INC: return old >= x ? 0 : old + 1;
    case ATOM_DEC: return old == 0 || old > x ? x : old - 1;
    default: {
        int less = !i->sign ? old < x : wide ? (int64_t)old < (int64_t)x : (int32_t)old < (int32_t)x;
        return less == (i->mode == ATOM_MIN) ? old : x;
    }
    }
}

static void atom(ptx_warp *w, const ptx_ins *i) { /* o: result or 0, b, c */
    uint8_t *p[32];
    uint64_t a[32];
    ptx_addresses(w, i, a);
    EACH(w->mask) if (!(p[l] = where(w, i, (int)l, i->space, a[l], i->size, KIND_ATOMIC, NULL))) return;
    EACH(w->mask) {
        if (i->size == 8) {
            uint64_t *at = (uint64_t *)(void *)p[l], old = __atomic_load_n(at, __ATOMIC_SEQ_CST), new;
            do new = combine(i, old, R64(i->o[1])[l], i->o[2] ? R64(i->o[2])[l] : 0);
            while (!__atomic_compare_exchange_n(at, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
            if (i->o[0]) R64(i->o[0])[l] = old;
        } else {
            uint32_t *at = (uint32_t *)(void *)p[l], old = __atomic_load_n(at, __ATOMIC_SEQ_CST), new;
            do new = (uint32_t)combine(i, old, R32(i->o[1])[l], i->o[2] ? R32(i->o[2])[l] : 0);
            while (!__atomic_compare_exchange_n(at, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
            if (i->o[0]) R32(i->o[0])[l] = old;
        }
    }
}

/* ---- cp.async ----------------------------------------------------------------------------------------------------------- */

/* cp.async [base + imm] <- [o[0] + flag bytes], size bytes; o[1]: how many are read, the rest is 0. */
static void cp_async(ptx_warp *w, const ptx_ins *i) {
    ptx_block *b = w->b;
    uint64_t to[32], from[32];
    ptx_ins source = *i;
    ptx_addresses(w, i, to);
    source.base = i->o[0], source.base_wide = 1, source.imm = (int64_t)(int32_t)i->o[2];
    ptx_addresses(w, &source, from);
    EACH(w->mask) {
        uint32_t t = (uint32_t)w->index * 32 + l;
        int n = i->o[1] ? (int)R32(i->o[1])[l] : i->size;
        uint8_t *d = where(w, i, (int)l, SPACE_SHARED, to[l], i->size, KIND_WRITE, NULL), *s = NULL;
        ptx_copy *c;
        if (!d) return;
        if (n < 0 || n > i->size) {
            ptx_fail(w, i, (int)l, PTX_FAILED, "cp.async of %d bytes reads %d", i->size, n);
            return;
        }
        if (from[l] & (uint64_t)(i->size - 1)) {
            ptx_fail(w, i, (int)l, PTX_MISALIGNED, "cp.async reads %d bytes at %llx", i->size,
                     (unsigned long long)from[l]);
            return;
        }
        if (n == i->size && !(s = where(w, i, (int)l, SPACE_GLOBAL, from[l], n, KIND_READ, NULL))) return;
        if (b->ncopies == b->cap_copies) {
            int cap = b->cap_copies ? b->cap_copies * 2 : 256;
            ptx_copy *more = realloc(b->copies, (size_t)cap * sizeof *more);
            if (!more) {
                ptx_fail(w, i, (int)l, PTX_FAILED, "the double is out of memory");
                return;
            }
            b->copies = more, b->cap_copies = cap;
        }
        c = &b->copies[b->ncopies++];
        memset(c, 0, sizeof *c);
        c->at = (uint32_t)to[l], c->bytes = (uint32_t)i->size, c->thread = t, c->group = b->groups[t];
        if (s) memcpy(c->data, s, (size_t)n);
        else
            for (int k = 0; k < n; k++) { /* a part: byte by byte, since only what is read must be there */
                uint8_t *one = where(w, i, (int)l, SPACE_GLOBAL, from[l] + (uint64_t)k, 1, KIND_READ, NULL);
                if (!one) return;
                c->data[k] = *one;
            }
        memset(d, 0xff, (size_t)i->size);
        for (int k = 0; b->shadow && k < i->size; k++) b->shadow[to[l] + (uint64_t)k].flying = FLIES_CP;
    }
}

/* Copies of the lanes in mask arrive, but for those of the last `keep` groups; keep -1: all of them. */
static void arrive(ptx_warp *w, int keep) {
    ptx_block *b = w->b;
    int n, left = 0;
    for (n = 0; n < b->ncopies; n++) {
        ptx_copy *c = &b->copies[n];
        int mine = (int)(c->thread / 32) == w->index && w->mask >> c->thread % 32 & 1;
        if (!mine || (keep >= 0 && c->group >= b->groups[c->thread] - keep)) {
            b->copies[left++] = *c;
            continue;
        }
        memcpy(b->shared + c->at, c->data, c->bytes);
        for (uint32_t k = 0; b->shadow && k < c->bytes; k++) {
            ptx_shadow *s = &b->shadow[c->at + k];
            ptx_access me = {b->epoch, w->warp_epoch, (uint16_t)c->thread, 0, b->barriers ? ptx_barrier_time(b) : 0};
            s->flying = FLIES_NOT, s->known = 1, s->write = me;
            if (b->wgmma) ptx_wgmma_written(b, c->at + k, c->thread);
            if (b->barriers) ptx_barrier_written(b, c->at + k, c->thread);
        }
    }
    b->ncopies = left;
}
void ptx_cp_commit(ptx_warp *w, const ptx_ins *i) {
    (void)i;
    EACH(w->mask) w->b->groups[(uint32_t)w->index * 32 + l]++;
}
void ptx_cp_wait(ptx_warp *w, const ptx_ins *i) { arrive(w, (int)i->imm); }

/* ---- decoding ------------------------------------------------------------------------------------------------------------- */

static int is_one_of(const char *s, const char *const *list) {
    for (; *list; list++)
        if (!strcmp(s, *list)) return 1;
    return 0;
}

/* Words that say how memory is cached or ordered: a warp's accesses are in order here, so they change nothing. */
static int changes_nothing(const char *s) {
    static const char *const words[] = {"nc",  "ca",       "cg",      "cs",      "lu",      "cv",      "wb",
                                        "wt",  "volatile", "relaxed", "acquire", "release", "acq_rel", "weak",
                                        "gpu", "cta",      "sys",     "noftz",   "unified", "entry",   NULL};
    return is_one_of(s, words) || !strncmp(s, "L1::", 4) || !strncmp(s, "L2::", 4);
}
static int space_of(const char *s) {
    if (!strcmp(s, "global")) return SPACE_GLOBAL;
    if (!strcmp(s, "shared") || !strcmp(s, "shared::cta")) return SPACE_SHARED;
    if (!strcmp(s, "local")) return SPACE_LOCAL;
    if (!strcmp(s, "const")) return SPACE_CONST;
    if (!strcmp(s, "param") || !strcmp(s, "param::entry")) return SPACE_PARAM;
    return -1;
}

int ptx_set_address(ptx_ins *i, const ptx_operand *o, char *why, size_t size) {
    if (o->kind != OPD_ADDR) {
        snprintf(why, size, "an address was expected");
        return 0;
    }
    i->base = o->slot, i->base_wide = o->width == 64, i->imm = (int64_t)o->value + o->offset;
    if (o->space >= 0 && i->space == SPACE_GENERIC)
        i->imm += (int64_t)(o->space == SPACE_GLOBAL ? 0 : WINDOW(o->space));
    if (o->space >= 0 && i->space != SPACE_GENERIC && o->space != i->space) {
        snprintf(why, size, "%s is %s memory", o->name, space_name(o->space));
        return 0;
    }
    return 1;
}

static void prefetch(ptx_warp *w, const ptx_ins *i) { (void)w, (void)i; }

static int decode_cp(ptx_parser *p, ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why, size_t size) {
    const char *what = parts > 2 ? part[2] : "";
    if (parts < 3 || strcmp(part[1], "async")) return 0;
    if (!strcmp(what, "commit_group")) {
        i->run = ptx_cp_commit;
        return 1;
    }
    if (!strcmp(what, "wait_all") || !strcmp(what, "wait_group")) {
        i->run = ptx_cp_wait;
        i->imm = what[5] == 'a' ? -1 : n == 1 && o[0].kind == OPD_INT ? (int64_t)o[0].value : -2;
        return i->imm >= -1;
    }
    if ((strcmp(what, "ca") && strcmp(what, "cg")) || n < 3 || o[2].kind != OPD_INT) return 0;
    i->size = (uint8_t)o[2].value, i->space = SPACE_SHARED, i->run = cp_async;
    if ((i->size != 4 && i->size != 8 && i->size != 16) || (what[1] == 'g' && i->size != 16)) {
        snprintf(why, size, "cp.async.%s cannot copy %d bytes", what, i->size);
        return 0;
    }
    if (!ptx_set_address(i, &o[0], why, size) || o[1].kind != OPD_ADDR || (o[1].slot && o[1].width != 64)) return 0;
    i->o[0] = o[1].slot ? o[1].slot : ptx_constant(p, 64, o[1].value);
    i->o[2] = (uint32_t)(int32_t)o[1].offset;
    return n < 4 || ptx_source(p, &o[3], 32, &i->o[1]);
}

static int decode_atom(ptx_parser *p, ptx_ins *i, const char *op, char **part, int parts, ptx_operand *o, int n,
                       char *why, size_t size) {
    static const char *const names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
    int k, m, mode = -1, bits = 0, red = !strcmp(op, "red"), width;
    char kind = 0;
    for (k = 1; k < parts; k++) {
        for (m = 0; m < 10; m++)
            if (!strcmp(part[k], names[m])) break;
        if (space_of(part[k]) >= 0) i->space = (uint8_t)space_of(part[k]);
        else if (m < 10) mode = m;
        else if (!strcmp(part[k], "f16x2")) kind = 'h', bits = 32;
        else if (!ptx_type(part[k], &kind, &bits) && !changes_nothing(part[k])) return 0;
    }
    if (mode < 0 || (bits != 32 && bits != 64) || n != (red ? 2 : 3) + (mode == ATOM_CAS)) return 0;
    if ((kind == 'f' || kind == 'h') && mode != ATOM_ADD && mode != ATOM_EXCH) return 0;
    i->mode = (uint8_t)mode, i->size = (uint8_t)(bits / 8), i->sign = kind == 's', i->run = atom;
    i->flag = mode != ATOM_ADD ? 0 : kind == 'h' ? 2 : kind == 'f' ? (bits == 64 ? 3 : 1) : 0;
    width = bits;
    if (!red) {
        if (o[0].kind != OPD_REG || (o[0].slot && o[0].width != width)) return 0;
        i->o[0] = o[0].slot;
        o++;
    }
    return ptx_set_address(i, &o[0], why, size) && ptx_source(p, &o[1], width, &i->o[1]) &&
           (mode != ATOM_CAS || ptx_source(p, &o[2], width, &i->o[2]));
}

int ptx_decode_memory(ptx_parser *p, ptx_ins *i, const char *op, char **part, int parts, ptx_operand *o, int n,
                      char *why, size_t size) {
    int k, bits = 0, is_store = !strcmp(op, "st"), width = 0, vec = 1;
    ptx_operand *value, *address;
    char kind = 0;
    if (!strcmp(op, "cp")) return decode_cp(p, i, part, parts, o, n, why, size);
    if (!strncmp(op, "prefetch", 8)) { /* asks for memory that need not be there */
        i->run = prefetch;
        return n == 1 && o[0].kind == OPD_ADDR;
    }
    if (!strcmp(op, "atom") || !strcmp(op, "red")) return decode_atom(p, i, op, part, parts, o, n, why, size);
    for (k = 1; k < parts; k++) {
        if (space_of(part[k]) >= 0) i->space = (uint8_t)space_of(part[k]);
        else if (!strcmp(part[k], "v2")) vec = 2;
        else if (!strcmp(part[k], "v4")) vec = 4;
        else if (!ptx_type(part[k], &kind, &bits) && !changes_nothing(part[k])) return 0;
    }
    if (n != 2 || bits < 8) return 0;
    value = is_store ? &o[1] : &o[0], address = is_store ? &o[0] : &o[1];
    if (value->kind == OPD_LIST ? value->count != vec : vec != 1) {
        snprintf(why, size, "%d values of a vector of %d", value->kind == OPD_LIST ? value->count : 1, vec);
        return 0;
    }
    for (k = 0; k < vec; k++) {
        if (value->kind == OPD_LIST) {
            i->o[k] = value->list[k];
            if (value->widths[k]) width = value->widths[k];
        } else if (value->kind == OPD_REG) {
            i->o[k] = value->slot, width = value->width;
        } else if (is_store) {
            width = bits == 64 ? 64 : 32;
            if (!ptx_source(p, value, width, &i->o[k])) return 0;
        } else {
            return 0;
        }
    }
    if (width < (bits == 8 ? 16 : bits)) {
        snprintf(why, size, "a register of %d bits for %d", width, bits);
        return 0;
    }
    i->size = (uint8_t)(bits / 8), i->vec = (uint8_t)vec, i->sign = kind == 's' && !is_store, i->wide = width == 64,
    i->flag = width == 16;
    i->run = is_store ? store : load;
    if (i->size * vec > 16) {
        snprintf(why, size, "more than 16 bytes");
        return 0;
    }
    return ptx_set_address(i, address, why, size);
}
