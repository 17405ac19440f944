/* ptx_decode.c: an instruction's name and operands become a function and slots. Most names are rows of tables (ptx_rows_*), found
 * by their whole name without the words that change nothing; loads and stores, conversions, and what a warp does together have
 * decoders of their own. What is not known is an error that says the name: no instruction is skipped.
 */
#include "ptx.h"

enum { HASH = 4096 };
static const ptx_row *rows_by_hash[HASH];
static pthread_once_t rows_once = PTHREAD_ONCE_INIT;

static uint32_t hash(const char *s) {
    uint32_t h = 2166136261u;
    for (; *s; s++) h = (h ^ (uint8_t)*s) * 16777619u;
    return h;
}
static void index_rows(void) {
    const ptx_row *const tables[] = {ptx_rows_int, ptx_rows_float, ptx_rows_half, ptx_rows_warp};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const ptx_row *r = tables[t]; r->name; r++) {
            uint32_t h = hash(r->name) % HASH;
            while (rows_by_hash[h]) h = (h + 1) % HASH;
            rows_by_hash[h] = r;
        }
}
static const ptx_row *find_row(const char *name) {
    pthread_once(&rows_once, index_rows);
    for (uint32_t h = hash(name) % HASH; rows_by_hash[h]; h = (h + 1) % HASH)
        if (!strcmp(rows_by_hash[h]->name, name)) return rows_by_hash[h];
    return NULL;
}

/* "s32" -> 's', 32. f16x2 and the like are no types of memory. */
int ptx_type(const char *s, char *kind, int *bits) {
    static const char *const names[] = {"u8", "u16", "u32", "u64", "s8",  "s16", "s32", "s64",
                                        "b8", "b16", "b32", "b64", "f16", "f32", "f64"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(s, names[k])) {
            *kind = s[0], *bits = atoi(s + 1);
            return 1;
        }
    if (!strcmp(s, "bf16")) {
        *kind = 'B', *bits = 16;
        return 1;
    }
    return 0;
}

int ptx_source(ptx_parser *p, ptx_operand *o, int width, uint32_t *slot) {
    uint64_t v = o->value;
    if (o->kind == OPD_REG) {
        *slot = o->slot;
        return o->width == width && o->slot != 0;
    }
    if (o->kind == OPD_SYM) {
        *slot = ptx_constant(p, width, o->value + (uint64_t)o->offset);
        return width == 64 || width == 32;
    }
    if (o->kind == OPD_F64 && width == 32) {
        double d;
        memcpy(&d, &v, 8);
        v = ptx_bits((float)d);
    } else if (o->kind == OPD_F64 ? width != 64 : o->kind == OPD_F32 ? width != 32 : o->kind != OPD_INT) {
        return 0;
    }
    if (width == 1) v = v ? ~(uint64_t)0 : 0;
    if (width == 16) v &= 0xffff;
    *slot = ptx_constant(p, width == 64 ? 64 : 32, v);
    return 1;
}

/* ---- wrappers ---------------------------------------------------------------------------------------------------------- */

/* .ftz: subnormal sources and results are zeros; .sat: the result is cut to 0..1, a NaN becomes 0. */
static void flush(uint32_t *x) { LANES if (!(x[l] & 0x7f800000)) x[l] &= 0x80000000; }
static void wrap_float(ptx_warp *w, const ptx_ins *i) {
    ptx_ins in = *i;
    uint32_t result[32], keep = w->mask;
    int k;
    for (k = 1; i->ftz & 1 && k <= i->nsrc && k < 4; k++) {
        uint32_t *s = R32(SLOT_SCRATCH * (uint32_t)k);
        memcpy(s, R32(i->o[k]), 128);
        flush(s);
        in.o[k] = SLOT_SCRATCH * (uint32_t)k;
    }
    if (i->ndst == 1 && !i->flag) in.o[0] = SLOT_SCRATCH * 4;
    in.run = i->inner;
    i->inner(w, &in);
    w->mask = keep;
    if (i->flag) return; /* a comparison */
    memcpy(result, R32(SLOT_SCRATCH * 4), 128);
    if (i->ftz & 1) flush(result);
    if (i->ftz & 2)
        LANES {
            float x = ptx_float(result[l]);
            result[l] = !(x > 0.0f) ? 0 : x > 1.0f ? 0x3f800000 : result[l];
        }
    ptx_put32(w, R32(i->o[0]), result);
}

/* ---- moves that are no rows ------------------------------------------------------------------------------------------------ */

static void pack(ptx_warp *w, const ptx_ins *i) { /* o[0] = {o[1], ..}, each of size bytes */
    int k, bits = i->size * 8;
    uint64_t t[32];
    uint32_t s[32];
    LANES {
        t[l] = 0;
        for (k = 0; k < i->nsrc; k++) t[l] |= (uint64_t)R32(i->o[1 + k])[l] << bits * k;
        s[l] = (uint32_t)t[l];
    }
    if (i->wide) ptx_put64(w, R64(i->o[0]), t);
    else ptx_put32(w, R32(i->o[0]), s);
}
static void unpack(ptx_warp *w, const ptx_ins *i) { /* {o[1], ..} = o[0] */
    int k, bits = i->size * 8;
    uint64_t t[32];
    uint32_t s[32];
    LANES t[l] = i->wide ? R64(i->o[0])[l] : R32(i->o[0])[l];
    for (k = 0; k < i->ndst; k++) {
        LANES s[l] = (uint32_t)(t[l] >> bits * k) & (bits == 16 ? 0xffff : ~0u);
        if (i->o[1 + k]) ptx_put32(w, R32(i->o[1 + k]), s);
    }
}

static int decode_pack(ptx_ins *i, int bits, ptx_operand *o) {
    ptx_operand *list = o[0].kind == OPD_LIST ? &o[0] : &o[1], *one = o[0].kind == OPD_LIST ? &o[1] : &o[0];
    int k, each = list->count ? bits / list->count : 0;
    if (one->kind != OPD_REG || one->width != bits || (each != 16 && each != 32) || list->count > 4) return 0;
    i->o[0] = one->slot, i->wide = bits == 64, i->size = (uint8_t)(each / 8);
    for (k = 0; k < list->count; k++) {
        if (list->list[k] && list->widths[k] != each) return 0;
        i->o[1 + k] = list->list[k];
        if (list == &o[1] && !list->list[k]) return 0;
    }
    i->nsrc = i->ndst = (uint8_t)list->count;
    i->run = list == &o[0] ? unpack : pack;
    return 1;
}

static int decode_cvta(ptx_parser *p, ptx_ins *i, char **part, int parts, ptx_operand *o, int n) {
    static const char *const spaces[] = {"", "global", "shared", "local", "const", "param"};
    int to = parts > 2 && !strcmp(part[1], "to"), space = 0, wide = parts && !strcmp(part[parts - 1], "u64"), k;
    const char *name = parts > 2 ? part[to ? 2 : 1] : "";
    const ptx_row *row;
    uint64_t window;
    for (k = 1; k < 6; k++)
        if (!strcmp(name, spaces[k]) || (k == SPACE_SHARED && !strcmp(name, "shared::cta"))) space = k;
    if (!space || !wide || n != 2 || o[0].kind != OPD_REG || o[0].width != 64) return 0;
    window = space == SPACE_GLOBAL ? 0 : WINDOW(space);
    row = find_row(to ? "sub.u64" : "add.u64");
    i->run = row->run, i->o[0] = o[0].slot, i->o[2] = ptx_constant(p, 64, window);
    return ptx_source(p, &o[1], 64, &i->o[1]);
}

/* ---- names that are rows ---------------------------------------------------------------------------------------------------- */

static int width_of(char c) { return c == 'p' ? 1 : c == 'h' ? 16 : c == 'w' ? 32 : c == 'q' ? 64 : 0; }

static int decode_row(ptx_parser *p, ptx_ins *i, const ptx_row *row, ptx_operand *o, int n, char *why, size_t size) {
    const char *s = row->sig;
    int k = 0, dst = 1, at = 0, setp = !strncmp(row->name, "setp", 4), want = 0;
    for (const char *c = s; *c; c++) want += *c != ',';
    if (n != want + (setp && i->mode & 3 ? 1 : 0)) {
        snprintf(why, size, "%d operands instead of %d", n, want);
        return 0;
    }
    for (; *s; s++) {
        if (*s == ',') {
            dst = 0, i->ndst = (uint8_t)at;
            continue;
        }
        if (dst ? o[k].kind != OPD_REG || (o[k].slot && o[k].width != width_of(*s))
                : !ptx_source(p, &o[k], width_of(*s), &i->o[at])) {
            snprintf(why, size, "operand %d is not of %d bits", k + 1, width_of(*s));
            return 0;
        }
        if (dst) i->o[at] = o[k].slot;
        if (o[k].not) {
            if (*s != 'p' || dst) {
                snprintf(why, size, "operand %d cannot be negated", k + 1);
                return 0;
            }
            i->mode |= 4;
        }
        k++, at++;
    }
    i->nsrc = (uint8_t)(at - i->ndst);
    i->run = row->run;
    if (!setp) return 1;
    if (i->mode & 3) {
        if (!ptx_source(p, &o[k], 1, &i->o[3])) return 0;
        if (o[k].not) i->mode |= 4;
    }
    i->o[4] = o[0].second;
    return 1;
}

int ptx_decode(ptx_parser *p, ptx_func *f, ptx_ins *i, char *name, ptx_operand *o, int n, char *why, size_t size) {
    char copy[160], whole[160], *part[16], *c;
    int parts = 0, k, ok;
    const ptx_row *row;
    snprintf(copy, sizeof copy, "%s", name);
    for (c = copy; *c && parts < 16; parts++) {
        part[parts] = c;
        c += strcspn(c, ".");
        if (*c) *c++ = 0;
    }
    why[0] = 0;
    if (!strcmp(part[0], "mbarrier") || (!strcmp(part[0], "cp") && parts > 2 && !strcmp(part[2], "bulk")) ||
        (!strcmp(part[0], "fence") && parts > 1 && !strcmp(part[1], "mbarrier_init")))
        return ptx_decode_barrier(p, f, i, part, parts, o, n, why, size);
    if (!strcmp(part[0], "ld") || !strcmp(part[0], "ldu") || !strcmp(part[0], "st") || !strcmp(part[0], "atom") ||
        !strcmp(part[0], "red") || !strcmp(part[0], "cp") || !strcmp(part[0], "prefetch") ||
        !strcmp(part[0], "prefetchu"))
        return ptx_decode_memory(p, i, part[0], part, parts, o, n, why, size);
    if (!strcmp(part[0], "cvt")) return ptx_decode_cvt(p, i, part, parts, o, n, why, size);
    if (!strcmp(part[0], "cvta")) return decode_cvta(p, i, part, parts, o, n);
    if (!strcmp(part[0], "mov") && n == 2 && (o[0].kind == OPD_LIST || o[1].kind == OPD_LIST))
        return decode_pack(i, parts == 2 && !strcmp(part[1], "b64") ? 64 : 32, o);
    if (!strcmp(part[0], "wgmma") || (!strcmp(part[0], "fence") && parts > 1 && !strcmp(part[1], "proxy")))
        return ptx_decode_wgmma(p, f->module, i, part, parts, o, n, why, size);
    ok = ptx_decode_warp(p, i, part[0], part, parts, o, n, why, size);
    if (ok >= 0) return ok;
    whole[0] = 0;
    for (k = 0; k < parts; k++) {
        if (!strcmp(part[k], "ftz")) i->ftz |= 1;
        else if (!strcmp(part[k], "sat")) i->ftz |= 2;
        else if (k && !strcmp(part[0], "setp") &&
                 (!strcmp(part[k], "and") || !strcmp(part[k], "or") || !strcmp(part[k], "xor")))
            i->mode = part[k][0] == 'a' ? 1 : part[k][0] == 'o' ? 2 : 3;
        else snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "%s%s", k ? "." : "", part[k]);
    }
    row = find_row(whole);
    if (!row) return 0;
    if (strcmp(part[0], "setp")) i->mode = (uint8_t)row->mode;
    if (!decode_row(p, i, row, o, n, why, size)) return 0;
    if (i->ftz && !strcmp(part[parts - 1], "f32")) {
        i->flag = !strcmp(part[0], "setp") || !strcmp(part[0], "testp");
        i->inner = i->run, i->run = wrap_float;
    } else if (i->ftz & 2) {
        return 0; /* .sat of integers and halves */
    }
    return 1;
}
