/* ptx_warp.c: what the lanes of a warp do together: shuffles, votes, reductions, barriers, matrix loads. ptx_run.c calls them when
 * all lanes that their mask names have arrived. Matrix products are in ptx_mma.c.
 */
#include "ptx.h"

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

static void shfl(ptx_warp *w, const ptx_ins *i) { /* o: d, p, a, b, c, members */
    const uint32_t *a = R32(i->o[2]), *b = R32(i->o[3]), *c = R32(i->o[4]);
    uint32_t t[32], ok = 0;
    EACH(w->mask) {
        uint32_t segment = c[l] >> 8 & 31, clamp = c[l] & 31, n = b[l] & 31, max = (l & segment) | (clamp & ~segment),
                 min = l & segment;
        int j = i->mode == SHFL_UP     ? (int)(l - n)
                : i->mode == SHFL_DOWN ? (int)(l + n)
                : i->mode == SHFL_BFLY ? (int)(l ^ n)
                                       : (int)(min | (n & ~segment));
        int in = i->mode == SHFL_UP ? j >= (int)max : j <= (int)max;
        if (!in) j = (int)l;
        ok |= (uint32_t)in << l;
        if (!(w->mask >> j & 1)) {
            ptx_fail(w, i, (int)l, PTX_FAILED, "shfl.sync reads lane %d, which does not take part", j);
            return;
        }
        t[l] = a[j];
    }
    ptx_put32(w, R32(i->o[0]), t);
    ptx_putp(w, i->o[1], ok);
}

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };
static void vote(ptx_warp *w, const ptx_ins *i) { /* o: d, source, members */
    uint32_t p = (RP(i->o[1]) ^ (i->flag ? ~0u : 0)) & w->mask, t[32];
    int yes = i->mode == VOTE_ALL ? p == w->mask : i->mode == VOTE_ANY ? p != 0 : p == 0 || p == w->mask;
    if (i->mode == VOTE_BALLOT) {
        LANES t[l] = p;
        ptx_put32(w, R32(i->o[0]), t);
    } else {
        ptx_putp(w, i->o[0], yes ? ~0u : 0);
    }
}

enum { RED_ADD, RED_MIN, RED_MAX, RED_AND, RED_OR, RED_XOR };
static void redux(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]);
    uint32_t r = 0, t[32];
    int first = 1;
    EACH(w->mask) {
        uint32_t x = a[l];
        int less = i->sign ? (int32_t)x < (int32_t)r : x < r;
        if (first) r = x;
        else if (i->mode == RED_ADD) r += x;
        else if (i->mode == RED_AND) r &= x;
        else if (i->mode == RED_OR) r |= x;
        else if (i->mode == RED_XOR) r ^= x;
        else if (less == (i->mode == RED_MIN)) r = x;
        first = 0;
    }
    LANES t[l] = r;
    ptx_put32(w, R32(i->o[0]), t);
}

static void match_any(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *a = R32(i->o[1]);
    uint32_t t[32] = {0}, m = w->mask;
    EACH(m) for (int k = 0; k < 32; k++) t[l] |= (uint32_t)(m >> k & 1 && a[k] == a[l]) << k;
    ptx_put32(w, R32(i->o[0]), t);
}

static void activemask(ptx_warp *w, const ptx_ins *i) {
    uint32_t t[32];
    LANES t[l] = w->mask;
    ptx_put32(w, R32(i->o[0]), t);
}
static void warp_sync(ptx_warp *w, const ptx_ins *i) {
    (void)i;
    w->warp_epoch++;
    if (w->b->barriers) ptx_barrier_warp_sync(w);
}
static void nothing(ptx_warp *w, const ptx_ins *i) { (void)w, (void)i; }
void ptx_grid_wait(ptx_warp *w, const ptx_ins *i) { (void)w, (void)i; } /* api_module.c looks for it */
static void trap(ptx_warp *w, const ptx_ins *i) { ptx_fail(w, i, __builtin_ctz(w->mask), PTX_FAILED, "trap"); }

/* o: 1, 2 or 4 destinations; lanes 8 m .. 8 m + 7 have the rows of matrix m */
static void ldmatrix(ptx_warp *w, const ptx_ins *i) {
    uint64_t a[32];
    int m, r;
    ptx_addresses(w, i, a);
    for (m = 0; m < i->vec; m++) {
        uint16_t x[8][8];
        uint32_t t[32];
        for (r = 0; r < 8; r++) {
            uint8_t *p = ptx_where(w, i, m * 8 + r, i->space, a[m * 8 + r], 16, 0);
            if (!p) return;
            memcpy(x[r], p, 16);
        }
        LANES {
            int row = l / 4, col = l % 4 * 2;
            t[l] =
                i->flag ? x[col][row] | (uint32_t)x[col + 1][row] << 16 : x[row][col] | (uint32_t)x[row][col + 1] << 16;
        }
        ptx_put32(w, R32(i->o[m]), t);
    }
}

const ptx_row ptx_rows_warp[] = {
    {"griddepcontrol.wait", ",", ptx_grid_wait, 0}, {"griddepcontrol.launch_dependents", ",", nothing, 0},
    {"membar.gl", ",", nothing, 0}, {"membar.cta", ",", nothing, 0}, {"membar.sys", ",", nothing, 0}, {"fence.acq_rel.gpu", ",", nothing, 0},
    {"fence.acq_rel.cta", ",", nothing, 0}, {"fence.sc.cta", ",", nothing, 0}, {"fence.sc.gpu", ",", nothing, 0}, {"trap", ",", trap, 0},
    {"activemask.b32", "w,", activemask, 0},
    {0, 0, 0, 0},
};

int ptx_decode_mma(ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why, size_t size);

/* -1: not an instruction of this part. Collective ones have ctl CTL_COLLECT, and the slot of their members in base, 0 = all lanes. */
int ptx_decode_warp(ptx_parser *p, ptx_ins *i, const char *op, char **part, int parts, ptx_operand *o, int n, char *why,
                    size_t size) {
    int k;
    if (!strcmp(op, "ret") || !strcmp(op, "exit")) {
        i->ctl = CTL_EXIT;
        return n == 0;
    }
    if (!strcmp(op, "bar") || !strcmp(op, "barrier")) {
        if (parts == 3 && !strcmp(part[1], "warp") && !strcmp(part[2], "sync")) {
            i->ctl = CTL_COLLECT, i->run = warp_sync;
            return n == 1 && ptx_source(p, &o[0], 32, &i->base);
        }
        for (k = 1; k < parts; k++)
            if (strcmp(part[k], "sync") && strcmp(part[k], "aligned") && strcmp(part[k], "cta")) return 0;
        i->ctl = CTL_BAR;
        if (n != 1 || o[0].kind != OPD_INT || o[0].value > 15) {
            snprintf(why, size, "only barriers of whole blocks, with a constant number");
            return 0;
        }
        i->imm = (int64_t)o[0].value;
        return parts > 1;
    }
    if (!strcmp(op, "shfl")) {
        static const char *const modes[] = {"up", "down", "bfly", "idx"};
        if (parts != 4 || strcmp(part[1], "sync") || strcmp(part[3], "b32") || n != 5 || o[0].kind != OPD_REG ||
            o[0].width != 32)
            return 0;
        for (k = 0; k < 4; k++)
            if (!strcmp(part[2], modes[k])) break;
        i->ctl = CTL_COLLECT, i->run = shfl, i->mode = (uint8_t)k, i->o[0] = o[0].slot, i->o[1] = o[0].second;
        return k < 4 && ptx_source(p, &o[1], 32, &i->o[2]) && ptx_source(p, &o[2], 32, &i->o[3]) &&
               ptx_source(p, &o[3], 32, &i->o[4]) && ptx_source(p, &o[4], 32, &i->base);
    }
    if (!strcmp(op, "vote")) {
        static const char *const modes[] = {"all", "any", "uni", "ballot"};
        if (parts != 4 || strcmp(part[1], "sync") || n != 3 || o[0].kind != OPD_REG) return 0;
        for (k = 0; k < 4; k++)
            if (!strcmp(part[2], modes[k])) break;
        i->ctl = CTL_COLLECT, i->run = vote, i->mode = (uint8_t)k, i->o[0] = o[0].slot, i->flag = (uint8_t)o[1].not;
        return k < 4 && o[0].width == (k == VOTE_BALLOT ? 32 : 1) && ptx_source(p, &o[1], 1, &i->o[1]) &&
               ptx_source(p, &o[2], 32, &i->base);
    }
    if (!strcmp(op, "redux")) {
        static const char *const modes[] = {"add", "min", "max", "and", "or", "xor"};
        if (parts != 4 || strcmp(part[1], "sync") || n != 3 || o[0].kind != OPD_REG || o[0].width != 32) return 0;
        for (k = 0; k < 6; k++)
            if (!strcmp(part[2], modes[k])) break;
        i->ctl = CTL_COLLECT, i->run = redux, i->mode = (uint8_t)k, i->sign = part[3][0] == 's', i->o[0] = o[0].slot;
        return k < 6 && !strcmp(part[3] + 1, "32") && ptx_source(p, &o[1], 32, &i->o[1]) &&
               ptx_source(p, &o[2], 32, &i->base);
    }
    if (!strcmp(op, "match")) {
        if (parts != 4 || strcmp(part[1], "any") || strcmp(part[2], "sync") || strcmp(part[3], "b32") || n != 3)
            return 0;
        i->ctl = CTL_COLLECT, i->run = match_any, i->o[0] = o[0].slot;
        return o[0].width == 32 && ptx_source(p, &o[1], 32, &i->o[1]) && ptx_source(p, &o[2], 32, &i->base);
    }
    if (!strcmp(op, "ldmatrix")) {
        i->ctl = CTL_COLLECT, i->run = ldmatrix, i->vec = 0;
        for (k = 1; k < parts; k++) {
            if (!strcmp(part[k], "x1") || !strcmp(part[k], "x2") || !strcmp(part[k], "x4"))
                i->vec = (uint8_t)(part[k][1] - '0');
            else if (!strcmp(part[k], "trans")) i->flag = 1;
            else if (!strcmp(part[k], "shared") || !strcmp(part[k], "shared::cta")) i->space = SPACE_SHARED;
            else if (strcmp(part[k], "sync") && strcmp(part[k], "aligned") && strcmp(part[k], "m8n8") &&
                     strcmp(part[k], "b16"))
                return 0;
        }
        if (!i->vec || n != 2 || o[1].kind != OPD_ADDR ||
            (o[0].kind == OPD_LIST ? o[0].count != i->vec : o[0].kind != OPD_REG || i->vec != 1)) {
            snprintf(why, size, "destinations or address");
            return 0;
        }
        if (o[0].kind == OPD_REG) i->o[0] = o[0].slot;
        else for (k = 0; k < i->vec; k++) i->o[k] = o[0].list[k];
        /* members: all; base is the address here, which is never a mask */
        i->base = o[1].slot, i->base_wide = o[1].width == 64, i->imm = (int64_t)o[1].value + o[1].offset, i->sign = 1;
        return 1;
    }
    if (!strcmp(op, "mma")) {
        i->ctl = CTL_COLLECT;
        return ptx_decode_mma(i, part, parts, o, n, why, size);
    }
    return -1;
}
