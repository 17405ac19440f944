/* ptx_mma.c: mma.sync, the matrix products of a warp. d = a b + c; which element of a matrix lies in which register of which lane
 * is in the PTX manual ("Matrix Fragments for mma.m16n8k*"). Products and sums are made in double or in integers and the sum of k is
 * rounded once, which is at least as exact as the devices are: tests must allow for their order of sums.
 */
#include "ptx.h"

enum { F16, BF16, TF32, S8, U8 };

/* mode: type of a; flag: type of b; imm: k; size: registers of a (vec: of b); sign: c and d are f16 */
static double element(uint32_t x, int at, int type) {
    switch (type) {
    case F16: return ptx_half_to_float((uint16_t)(x >> 16 * at));
    case BF16: return ptx_bf16_to_float((uint16_t)(x >> 16 * at));
    case TF32: return ptx_float(x & 0xffffe000);
    case S8: return (int8_t)(x >> 8 * at);
    default: return (uint8_t)(x >> 8 * at);
    }
}

static void mma(ptx_warp *w, const ptx_ins *i) {
    const uint32_t *o = ptx_operands(i);
    static _Thread_local double a[16][32], b[32][8];
    int per = i->mode == TF32 ? 1 : i->mode >= S8 ? 4 : 2, k = (int)i->imm, r, e, x, y, z;
    const uint32_t *sa = o + (i->sign ? 2 : 4), *sb = sa + i->size, *sc = sb + i->vec;
    LANES {
        int group = l / 4, in = l % 4;
        /* rows group and group + 8 in turns; every second register pair lies half of k further on */
        for (r = 0; r < i->size; r++)
            for (e = 0; e < per; e++)
                a[group + (r & 1) * 8][in * per + e + (r >> 1) * per * 4] = element(R32(sa[r])[l], e, i->mode);
        for (r = 0; r < i->vec; r++)
            for (e = 0; e < per; e++) b[in * per + e + r * per * 4][group] = element(R32(sb[r])[l], e, i->flag);
    }
    uint32_t d[4][32];
    LANES for (r = 0; r < 4; r++) {
        double sum = 0;
        x = l / 4 + (r >> 1) * 8, y = l % 4 * 2 + (r & 1);
        for (z = 0; z < k; z++) sum += a[x][z] * b[z][y];
        if (i->mode >= S8) d[r][l] = (uint32_t)((int64_t)sum + (int32_t)R32(sc[r])[l]);
        else if (!i->sign) d[r][l] = ptx_bits((float)(sum + ptx_float(R32(sc[r])[l])));
        else
            d[r][l] = ptx_float_to_half(
                (float)(sum + ptx_half_to_float((uint16_t)(R32(sc[r >> 1])[l] >> 16 * (r & 1)))), 'n');
    }
    if (i->sign) {
        LANES d[0][l] |= d[1][l] << 16, d[1][l] = d[2][l] | d[3][l] << 16;
    }
    for (r = 0; r < (i->sign ? 2 : 4); r++) ptx_put32(w, R32(o[r]), d[r]);
}

int ptx_decode_mma(ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why, size_t size);
int ptx_decode_mma(ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why, size_t size) {
    static const char *const types[] = {"f16", "bf16", "tf32", "s8", "u8"};
    static const struct { const char *shape; int type, k, a, b; } shapes[] = {
        {"m16n8k8", F16, 8, 2, 1}, {"m16n8k16", F16, 16, 4, 2}, {"m16n8k8", BF16, 8, 2, 1}, {"m16n8k16", BF16, 16, 4, 2},
        {"m16n8k4", TF32, 4, 2, 1}, {"m16n8k8", TF32, 8, 4, 2}, {"m16n8k16", S8, 16, 2, 1}, {"m16n8k32", S8, 32, 4, 2},
        {"m16n8k16", U8, 16, 2, 1}, {"m16n8k32", U8, 32, 4, 2}};
    char *p[12];
    int k, m, np = 0, nd, at = 0, want[4], saturate = 0;
    for (k = 1; k < parts && np < 12; k++) {
        if (!strcmp(part[k], "satfinite")) saturate = 1;
        else p[np++] = part[k];
    }
    if (np != 9 || strcmp(p[0], "sync") || strcmp(p[1], "aligned") || strcmp(p[3], "row") || strcmp(p[4], "col") ||
        n != 4 || saturate)
        return 0;
    for (k = 0; k < 5 && strcmp(p[6], types[k]); k++) {}
    for (m = 0; m < 5 && strcmp(p[7], types[m]); m++) {}
    if (k == 5 || m == 5 || (k != m && (k < S8 || m < S8)) || strcmp(p[5], p[8])) return 0;
    i->mode = (uint8_t)k, i->flag = (uint8_t)m, i->sign = !strcmp(p[5], "f16");
    if (i->sign ? k != F16 : strcmp(p[5], k >= S8 ? "s32" : "f32")) return 0;
    for (m = 0; m < 10; m++)
        if (!strcmp(shapes[m].shape, p[2]) && shapes[m].type == k) break;
    if (m == 10) return 0;
    nd = i->sign ? 2 : 4;
    i->imm = shapes[m].k, i->size = (uint8_t)shapes[m].a, i->vec = (uint8_t)shapes[m].b, i->run = mma;
    want[0] = nd, want[1] = shapes[m].a, want[2] = shapes[m].b, want[3] = nd;
    i->more = malloc(sizeof *i->more * 16);
    if (!i->more) return 0;
    for (k = 0; k < 4; k++) {
        int count = o[k].kind == OPD_LIST ? o[k].count : o[k].kind == OPD_REG ? 1 : 0;
        if (count != want[k]) {
            snprintf(why, size, "operand %d has %d registers, not %d", k + 1, count, want[k]);
            return 0;
        }
        for (m = 0; m < count; m++) {
            i->more[at++] = o[k].kind == OPD_LIST ? o[k].list[m] : o[k].slot;
            if ((o[k].kind == OPD_LIST ? o[k].widths[m] : o[k].width) != 32) {
                snprintf(why, size, "operand %d is not of registers of 32 bits", k + 1);
                return 0;
            }
        }
    }
    return 1;
}
