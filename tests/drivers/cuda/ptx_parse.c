/* ptx_parse.c: text of PTX -> a module. One pass over a copy without comments: directives and variables of the module, then for
 * each kernel its parameters, registers, variables and instructions; branches get their targets at the end of a kernel.
 * Registers get places in a warp's block of registers here, and so do immediates (ptx_constant).
 */
#include "ptx.h"
#include <ctype.h>

typedef struct {
    char name[96];
    uint32_t slot;
    int width, count, depth;
} reg_decl; /* count -1: one register of that name */
typedef struct { char *name; int at, scope; } label;

struct ptx_parser {
    ptx_module *m;
    ptx_func *f;
    char *text, *at, *shown;
    int line, depth;
    reg_decl *regs;
    int nregs, cap_regs;
    label *labels, *jumps;
    int nlabels, njumps;
    int *outer, nscopes, scope; /* the {} around each {}; -1: none */
    int failed;
    char *log;
    size_t log_size;
    uint32_t list[160];        /* what stands in {} of one instruction: 128 accumulators are the most */
    int widths[160], nlist;
    ptx_ref *refs;             /* of sm_90a: registers that instructions name */
    int nrefs;
};

static int fail(ptx_parser *p, const char *format, ...) {
    va_list v;
    int n;
    if (p->failed) return 0;
    p->failed = 1;
    if (!p->log_size) return 0;
    n = snprintf(p->log, p->log_size, "ptxas application ptx input, line %d; error   : ", p->line);
    va_start(v, format);
    if (n > 0 && (size_t)n < p->log_size) vsnprintf(p->log + n, p->log_size - (size_t)n, format, v);
    va_end(v);
    return 0;
}

static void *grow(ptx_parser *p, void *items, int n, size_t size) { /* room for item n */
    void *more;
    if (n & (n - 1)) return items;
    more = realloc(items, size * (n ? (size_t)n * 2 : 1));
    if (!more) fail(p, "out of memory");
    return more ? more : items;
}

static void skip(ptx_parser *p) {
    for (; isspace((unsigned char)*p->at); p->at++) p->line += *p->at == '\n';
}
static int word_char(int c) { return isalnum(c) || c == '_' || c == '$' || c == '%'; }
static int word(ptx_parser *p, char *out, size_t size) {
    size_t n = 0;
    skip(p);
    while (word_char((unsigned char)p->at[n])) n++;
    if (!n || n >= size) return 0;
    memcpy(out, p->at, n);
    out[n] = 0;
    p->at += n;
    return 1;
}
static int take(ptx_parser *p, char c) {
    skip(p);
    if (*p->at != c) return 0;
    p->at++;
    return 1;
}
static int directive(ptx_parser *p, const char *name) { /* ".name" */
    size_t n = strlen(name);
    skip(p);
    if (strncmp(p->at, name, n) || word_char((unsigned char)p->at[n])) return 0;
    p->at += n;
    return 1;
}

/* ---- places -------------------------------------------------------------------------------------------------------------- */

static uint32_t place(ptx_func *f, int width, int count) {
    size_t each = width == 1    ? 4
                  : width == 64 ? 256
                                : 128,
           at = (f->reg_bytes + (width == 1 ? 3 : 63)) & ~(size_t)(width == 1 ? 3 : 63);
    f->reg_bytes = at + each * (size_t)count;
    f->regs32 += count * (width == 1 ? 0 : width == 64 ? 2 : 1);
    return (uint32_t)at;
}

uint32_t ptx_constant(ptx_parser *p, int width, uint64_t value) {
    ptx_func *f = p->f;
    int k, wide = width == 64;
    if (!wide && value >> 47 != 2) value = (uint32_t)value; /* but for an address that finish() will know */
    for (k = 0; k < f->nfills; k++)
        if (f->fills[k].value == value && f->fills[k].wide == wide) return f->fills[k].at;
    f->fills = grow(p, f->fills, f->nfills, sizeof *f->fills);
    if (p->failed) return 0;
    f->fills[f->nfills].value = value, f->fills[f->nfills].wide = (uint8_t)wide;
    f->regs32 -= wide ? 2 : 1;
    return f->fills[f->nfills++].at = place(f, wide ? 64 : 32, 1);
}

static int reg_type(const char *s) {
    return !strcmp(s, "pred") ? 1 : strlen(s) < 2 ? 0 : atoi(s + 1 + (s[0] == 'b' && s[1] == 'f'));
}

static void declare_regs(ptx_parser *p) { /* after .reg */
    char type[16], name[96];
    int width;
    skip(p);
    if (*p->at++ != '.' || !word(p, type, sizeof type) || !(width = reg_type(type))) {
        fail(p, ".reg without a type that is known");
        return;
    }
    if (width == 8) width = 16;
    if (width != 1 && width != 16 && width != 32 && width != 64) {
        fail(p, "registers of %d bits are not supported", width);
        return;
    }
    do {
        int count = -1;
        if (!word(p, name, sizeof name)) {
            fail(p, ".reg without a name");
            return;
        }
        if (take(p, '<')) {
            count = (int)strtol(p->at, &p->at, 10);
            if (!take(p, '>') || count < 0 || count > 100000) {
                fail(p, "a number of registers that is not supported");
                return;
            }
        }
        p->regs = grow(p, p->regs, p->nregs, sizeof *p->regs);
        if (p->failed) return;
        reg_decl *r = &p->regs[p->nregs++];
        snprintf(r->name, sizeof r->name, "%s", name);
        r->width = width, r->count = count, r->depth = p->depth;
        r->slot = place(p->f, width, count < 0 ? 1 : count);
    } while (take(p, ','));
    if (!take(p, ';')) fail(p, ".reg without ;");
}

static int find_reg(ptx_parser *p, const char *name, uint32_t *slot, int *width) {
    size_t digits = strlen(name);
    int k, number;
    while (digits && isdigit((unsigned char)name[digits - 1])) digits--;
    number = name[digits] ? atoi(name + digits) : -1;
    for (k = p->nregs - 1; k >= 0; k--) {
        reg_decl *r = &p->regs[k];
        int hit = r->count < 0
                      ? !strcmp(r->name, name)
                      : number >= 0 && number < r->count && strlen(r->name) == digits && !memcmp(r->name, name, digits);
        if (hit) {
            *width = r->width;
            *slot = r->slot + (r->count < 0 ? 0 : (uint32_t)number * (r->width == 1 ? 4 : r->width == 64 ? 256 : 128));
            return 1;
        }
    }
    return 0;
}

static const char *const specials[] = {"tid.x",
                                       "tid.y",
                                       "tid.z",
                                       "ntid.x",
                                       "ntid.y",
                                       "ntid.z",
                                       "ctaid.x",
                                       "ctaid.y",
                                       "ctaid.z",
                                       "nctaid.x",
                                       "nctaid.y",
                                       "nctaid.z",
                                       "laneid",
                                       "warpid",
                                       "nwarpid",
                                       "smid",
                                       "nsmid",
                                       "lanemask_eq",
                                       "lanemask_le",
                                       "lanemask_lt",
                                       "lanemask_ge",
                                       "lanemask_gt",
                                       "dynamic_smem_size",
                                       "total_smem_size",
                                       NULL};

static ptx_sym *find_sym(ptx_sym *syms, int n, const char *name) {
    for (int k = 0; k < n; k++)
        if (!strcmp(syms[k].name, name)) return &syms[k];
    return NULL;
}

/* ---- variables ------------------------------------------------------------------------------------------------------------- */

/* [.align n] .type name[size][= {..}] ; of memory in a space. Initial bytes go to data. */
static void variable(ptx_parser *p, int space, int is_extern, int in_module) {
    char type[16], name[200];
    int align = 0, each, bracket = 0;
    uint64_t count = 1;
    ptx_sym sym;
    ptx_func *f = p->f;
    size_t *total = !f ? NULL : space == SPACE_SHARED ? &f->shared_bytes : &f->local_bytes;
    if (directive(p, ".align")) {
        skip(p);
        align = (int)strtol(p->at, &p->at, 10);
    }
    skip(p);
    if (*p->at++ != '.' || !word(p, type, sizeof type) || strlen(type) < 2 || !word(p, name, sizeof name)) {
        fail(p, "a variable without type or name");
        return;
    }
    each = atoi(type + 1) / 8;
    while (take(p, '[')) {
        skip(p);
        bracket = 1;
        count *= *p->at == ']' ? 0 : strtoull(p->at, &p->at, 10);
        if (!take(p, ']')) {
            fail(p, "%s: [ without ]", name);
            return;
        }
    }
    if (each < 1 || (align & (align - 1)) || count > (uint64_t)1 << 31) {
        fail(p, "%s: a type that is not supported", name);
        return;
    }
    if (align < each) align = each;
    memset(&sym, 0, sizeof sym);
    sym.space = space, sym.size = count * (uint64_t)each, sym.align = align;
    if (space == SPACE_CONST) {
        uint8_t *more;
        sym.at = (p->m->const_bytes + (size_t)align - 1) & ~(uint64_t)(align - 1);
        more = realloc(p->m->constants, sym.at + sym.size + 1);
        if (!more || sym.at + sym.size > 65536) {
            fail(p, "%s: more than 64 KiB of constants", name);
            if (more) p->m->constants = more;
            return;
        }
        memset(more + p->m->const_bytes, 0, sym.at + sym.size - p->m->const_bytes);
        p->m->constants = more, p->m->const_bytes = sym.at + sym.size;
    } else if (space == SPACE_GLOBAL) {
        fail(p, "%s: variables in global memory are not supported", name);
        return;
    } else if (is_extern || (bracket && !count)) {
        sym.at = ~(uint64_t)0; /* dynamic: behind all static ones */
    } else if (f) {
        sym.at = (*total + (size_t)align - 1) & ~(uint64_t)(align - 1);
        *total = sym.at + sym.size;
    }
    if (take(p, '=')) {
        int list = take(p, '{'), n = 0;
        if (space != SPACE_CONST) {
            fail(p, "%s: only constants can have values", name);
            return;
        }
        do {
            uint64_t v;
            skip(p);
            if (!strncmp(p->at, "0f", 2) || !strncmp(p->at, "0F", 2) || !strncmp(p->at, "0d", 2))
                v = strtoull(p->at + 2, &p->at, 16);
            else v = *p->at == '-' ? (uint64_t)strtoll(p->at, &p->at, 0) : strtoull(p->at, &p->at, 0);
            if (*p->at == 'U') p->at++;
            if ((uint64_t)n >= count) {
                fail(p, "%s: too many values", name);
                return;
            }
            memcpy(p->m->constants + sym.at + (size_t)n++ * (size_t)each, &v, (size_t)each);
        } while (list && take(p, ','));
        if (list && !take(p, '}')) fail(p, "%s: values that are not numbers", name);
    }
    if (!take(p, ';')) fail(p, "%s: a variable without ;", name);
    if (!(sym.name = strdup(name))) fail(p, "out of memory");
    if (in_module) {
        p->m->syms = grow(p, p->m->syms, p->m->nsyms, sizeof sym);
        p->m->syms[p->m->nsyms++] = sym;
    } else {
        f->syms = grow(p, f->syms, f->nsyms, sizeof sym);
        f->syms[f->nsyms++] = sym;
    }
}

/* Shared memory of the module gets its place in each kernel that names it. */
static ptx_sym *place_shared(ptx_parser *p, ptx_sym *of_module) {
    ptx_func *f = p->f;
    ptx_sym s = *of_module;
    s.name = strdup(s.name);
    if (!s.name) fail(p, "out of memory");
    if (s.at != ~(uint64_t)0) {
        s.at = (f->shared_bytes + (size_t)s.align - 1) & ~(uint64_t)(s.align - 1);
        f->shared_bytes = s.at + s.size;
    }
    f->syms = grow(p, f->syms, f->nsyms, sizeof s);
    f->syms[f->nsyms] = s;
    return &f->syms[f->nsyms++];
}

/* ---- operands --------------------------------------------------------------------------------------------------------------- */

/* A register, number or symbol. */
static int atom_operand(ptx_parser *p, ptx_operand *o) {
    char name[200];
    memset(o, 0, sizeof *o);
    o->space = -1;
    skip(p);
    if (*p->at == '!') {
        p->at++;
        o->not = 1;
    }
    if (isdigit((unsigned char)*p->at) || *p->at == '-') {
        char *end;
        o->kind = OPD_INT;
        if (!strncmp(p->at, "0f", 2) || !strncmp(p->at, "0F", 2))
            o->kind = OPD_F32, o->value = strtoull(p->at + 2, &end, 16);
        else if (!strncmp(p->at, "0d", 2) || !strncmp(p->at, "0D", 2))
            o->kind = OPD_F64, o->value = strtoull(p->at + 2, &end, 16);
        else if (!strncmp(p->at, "0b", 2)) o->value = strtoull(p->at + 2, &end, 2);
        else {
            o->value = *p->at == '-' ? (uint64_t)strtoll(p->at, &end, 0) : strtoull(p->at, &end, 0);
            if (*end == '.') {
                double d = strtod(p->at, &end);
                o->kind = OPD_F64;
                memcpy(&o->value, &d, 8);
            }
        }
        if (*end == 'U') end++;
        p->at = end;
        return 1;
    }
    if (!word(p, name, sizeof name)) return fail(p, "an operand that is none, at '%.20s'", p->at);
    snprintf(o->name, sizeof o->name, "%s", name);
    if (!strcmp(name, "_")) {
        o->kind = OPD_REG;
        return 1;
    }
    if (!strcmp(name, "WARP_SZ")) {
        o->kind = OPD_INT, o->value = 32;
        return 1;
    }
    if (find_reg(p, name, &o->slot, &o->width)) {
        o->kind = OPD_REG;
        return 1;
    }
    if (name[0] == '%') {
        if (*p->at == '.' && strchr("xyz", p->at[1])) {
            snprintf(name + strlen(name), 3, ".%c", p->at[1]);
            p->at += 2;
        }
        for (int k = 0; specials[k]; k++)
            if (!strcmp(name + 1, specials[k])) {
                if (!p->f->special[k]) p->f->special[k] = place(p->f, 32, 1), p->f->regs32--;
                o->kind = OPD_REG, o->slot = p->f->special[k], o->width = 32;
                return 1;
            }
        return fail(p, "unknown register %s", name);
    }
    ptx_sym *s = find_sym(p->f->syms, p->f->nsyms, name);
    if (!s && (s = find_sym(p->m->syms, p->m->nsyms, name)) && s->space == SPACE_SHARED) s = place_shared(p, s);
    if (s) {
        o->kind = OPD_SYM, o->space = s->space, o->value = s->at;
        if (s->at == ~(uint64_t)0)
            p->f->dynamic = 1, o->value = (uint64_t)1 << 48; /* resolved when the kernel's variables are known */
        return 1;
    }
    o->kind = OPD_LABEL;
    return 1;
}

static int operand(ptx_parser *p, ptx_operand *o) {
    if (take(p, '[')) {
        ptx_operand base;
        if (!atom_operand(p, &base)) return 0;
        *o = base;
        o->kind = OPD_ADDR;
        if (base.kind == OPD_LABEL) return fail(p, "unknown symbol %s", base.name);
        if (base.kind == OPD_REG && base.width != 32 && base.width != 64) return fail(p, "%s is no address", base.name);
        while (take(p, '+')) {
            skip(p);
            o->offset += strtoll(p->at, &p->at, 0);
        }
        skip(p);
        if (*p->at == '-') o->offset += strtoll(p->at, &p->at, 0);
        return take(p, ']') || fail(p, "[ without ]");
    }
    if (take(p, '{')) {
        memset(o, 0, sizeof *o);
        o->kind = OPD_LIST, o->space = -1;
        o->list = p->list + p->nlist, o->widths = p->widths + p->nlist;
        do {
            ptx_operand x;
            if (p->nlist == (int)(sizeof p->list / sizeof *p->list)) return fail(p, "more than 160 values in {}");
            if (!atom_operand(p, &x)) return 0;
            if (x.kind == OPD_INT || x.kind == OPD_F32) x.slot = ptx_constant(p, 32, x.value), x.width = 32;
            else if (x.kind != OPD_REG) return fail(p, "unknown register %s", x.name);
            p->list[p->nlist] = x.slot, p->widths[p->nlist++] = x.width;
            o->count++;
        } while (take(p, ','));
        return take(p, '}') || fail(p, "{ without }");
    }
    if (!atom_operand(p, o)) return 0;
    if (o->kind == OPD_REG && take(p, '|')) {
        ptx_operand second;
        if (!atom_operand(p, &second) || second.kind != OPD_REG) return fail(p, "no register after |");
        o->second = second.slot;
    }
    if (o->kind == OPD_SYM && take(p, '+')) {
        skip(p);
        o->offset = strtoll(p->at, &p->at, 0);
    }
    return 1;
}

/* ---- instructions ------------------------------------------------------------------------------------------------------------ */

static ptx_ins *append(ptx_parser *p) {
    ptx_func *f = p->f;
    f->code = grow(p, f->code, f->ncode, sizeof *f->code);
    if (p->failed) return NULL;
    ptx_ins *i = &f->code[f->ncode++];
    memset(i, 0, sizeof *i);
    i->line = p->line, i->text = "";
    return i;
}

static void add_label(ptx_parser *p, label **list, int *n, const char *name, int at) {
    *list = grow(p, *list, *n, sizeof **list);
    if (p->failed) return;
    (*list)[*n].name = strdup(name), (*list)[*n].at = at, (*list)[*n].scope = p->scope;
    if (!(*list)[(*n)++].name) fail(p, "out of memory");
}

/* The instruction that was appended last names a register. */
static void refer(ptx_parser *p, uint32_t slot) {
    p->refs = grow(p, p->refs, p->nrefs, sizeof *p->refs);
    if (p->failed || !slot) return;
    p->refs[p->nrefs].code = (uint32_t)p->f->ncode - 1, p->refs[p->nrefs++].slot = slot;
}

static void instruction(ptx_parser *p) {
    ptx_operand o[16], guard;
    ptx_ins local, *i;
    char name[160], why[200] = "";
    int n = 0;
    size_t len = 0;
    const char *shown = p->shown + (p->at - p->text);
    char *end = strchr(p->at, ';');
    if (!end) {
        fail(p, "no ; after '%.30s'", p->at);
        return;
    }
    p->shown[end - p->text] = 0;
    memset(&local, 0, sizeof local);
    local.line = p->line, local.text = shown;
    p->nlist = 0;
    if (take(p, '@')) {
        if (!atom_operand(p, &guard)) return;
        if (guard.kind != OPD_REG || guard.width != 1) {
            fail(p, "%s is no predicate", guard.name);
            return;
        }
        local.guard = guard.slot, local.guard_not = (uint8_t)guard.not;
    }
    skip(p);
    while (word_char((unsigned char)p->at[len]) || p->at[len] == '.' || p->at[len] == ':') len++;
    if (!len || len >= sizeof name) {
        fail(p, "no instruction at '%.30s'", p->at);
        return;
    }
    memcpy(name, p->at, len);
    name[len] = 0;
    p->at += len;
    skip(p);
    while (*p->at != ';') {
        if (n == 16 || !operand(p, &o[n++])) {
            fail(p, "too many operands");
            return;
        }
        if (!take(p, ',')) break;
    }
    if (!take(p, ';')) {
        fail(p, "'%.30s' after the operands of %s", p->at, name);
        return;
    }
    if (!strcmp(name, "bra") || !strcmp(name, "bra.uni")) {
        if (n != 1 || o[0].kind != OPD_LABEL) {
            fail(p, "%s without a label", name);
            return;
        }
        local.ctl = CTL_BRA;
        add_label(p, &p->jumps, &p->njumps, o[0].name, p->f->ncode);
    } else {
        for (int k = 0; k < n; k++)
            if (o[k].kind == OPD_LABEL) {
                fail(p, "unknown symbol %s", o[k].name);
                return;
            }
        if (!ptx_decode(p, p->f, &local, name, o, n, why, sizeof why)) {
            free(local.more);
            fail(p, "%s '%s'%s%s",
                 why[0] ? "Operands do not fit" : "Not a name of any known instruction, or not one of this double:",
                 name, why[0] ? ": " : "", why);
            return;
        }
    }
    i = append(p);
    if (!i) {
        free(local.more);
        return;
    }
    *i = local;
    for (int k = 0; p->m->suffix && k < n; k++) {
        if (o[k].kind == OPD_LIST)
            for (int e = 0; e < o[k].count; e++) refer(p, o[k].list[e]);
        else if (o[k].kind == OPD_REG || o[k].kind == OPD_ADDR) refer(p, o[k].slot);
    }
}

static void body(ptx_parser *p) {
    int depth = 0;
    p->scope = -1;
    while (!p->failed) {
        char name[200];
        char *before;
        int line;
        skip(p);
        if (take(p, '{')) {
            p->depth = ++depth;
            p->outer = grow(p, p->outer, p->nscopes, sizeof *p->outer);
            if (p->failed) return;
            p->outer[p->nscopes] = p->scope, p->scope = p->nscopes++;
            continue;
        }
        if (take(p, '}')) {
            while (p->nregs && p->regs[p->nregs - 1].depth >= depth) p->nregs--;
            p->depth = --depth;
            if (depth <= 0) return;
            p->scope = p->outer[p->scope];
            continue;
        }
        if (!*p->at) {
            fail(p, "the kernel has no end");
        } else if (directive(p, ".reg")) {
            declare_regs(p);
        } else if (directive(p, ".shared")) {
            variable(p, SPACE_SHARED, 0, 0);
        } else if (directive(p, ".local")) {
            variable(p, SPACE_LOCAL, 0, 0);
        } else if (directive(p, ".pragma")) {
            p->at += strcspn(p->at, ";");
            take(p, ';');
        } else if (directive(p, ".loc")) {
            p->at += strcspn(p->at, "\n");
        } else if (*p->at == '.') {
            fail(p, "directive '%.20s' is not supported", p->at);
        } else {
            before = p->at, line = p->line;
            if (word(p, name, sizeof name) && *p->at == ':' && p->at[1] != ':') {
                ptx_ins *i;
                p->at++;
                add_label(p, &p->labels, &p->nlabels, name, p->f->ncode);
                i = append(p);
                if (i) i->ctl = CTL_LABEL;
            } else {
                p->at = before, p->line = line;
                instruction(p);
            }
        }
    }
}

static void params(ptx_parser *p) {
    ptx_func *f = p->f;
    if (!take(p, '(')) return;
    while (!take(p, ')')) {
        char type[16], name[200];
        int align = 0, each;
        uint64_t count = 1;
        ptx_sym s;
        if (!directive(p, ".param")) {
            fail(p, "a parameter without .param");
            return;
        }
        while (!p->failed) { /* .align n, .ptr, .global .. come before and behind the type */
            if (directive(p, ".align")) align = (skip(p), (int)strtol(p->at, &p->at, 10));
            else if (!directive(p, ".ptr") && !directive(p, ".global") && !directive(p, ".shared") &&
                     !directive(p, ".const")) {
                skip(p);
                if (*p->at != '.') break;
                p->at++;
                if (!word(p, type, sizeof type)) fail(p, "a parameter without type");
            }
        }
        if (p->failed || !word(p, name, sizeof name)) {
            fail(p, "a parameter without name");
            return;
        }
        each = atoi(type + 1) / 8;
        if (take(p, '[')) {
            count = strtoull(p->at, &p->at, 10);
            take(p, ']');
        } else if (align && each > 1) {
            align = each; /* .ptr .align speaks of what it points to */
        }
        if (align < each) align = each;
        if (each < 1 || count > 4096 || (align & (align - 1))) {
            fail(p, "%s: a parameter that is not supported", name);
            return;
        }
        memset(&s, 0, sizeof s);
        s.space = SPACE_PARAM, s.align = align, s.size = count * (uint64_t)each, s.name = strdup(name);
        s.at = (f->param_bytes + (size_t)align - 1) & ~(size_t)(align - 1);
        f->param_bytes = s.at + s.size;
        f->syms = grow(p, f->syms, f->nsyms, sizeof s);
        f->syms[f->nsyms++] = s;
        f->nparams++;
        take(p, ',');
    }
}

static void finish(ptx_parser *p) {
    ptx_func *f = p->f;
    ptx_ins *i;
    int k, n;
    uint64_t behind;
    for (k = 0; k < p->njumps && !p->failed; k++) {
        int scope = p->jumps[k].scope, found = 0;
        for (n = 0; !found && scope >= -1; scope = scope < 0 ? -2 : p->outer[scope]) /* the innermost label of that name */
            for (n = 0; n < p->nlabels; n++)
                if (p->labels[n].scope == scope && !strcmp(p->labels[n].name, p->jumps[k].name)) {
                    found = 1;
                    break;
                }
        if (!found) fail(p, "unknown symbol %s", p->jumps[k].name);
        else f->code[p->jumps[k].at].imm = p->labels[n].at;
    }
    i = append(p); /* the end of the text is the end of the kernel */
    if (i) i->ctl = CTL_EXIT;
    if (!p->failed && !ptx_wgmma_plan(f, p->refs, p->nrefs)) fail(p, "out of memory");
    behind = f->shared_bytes = (f->shared_bytes + 15) / 16 * 16; /* drivers that link take no notice of a larger .align */
    for (k = 0; k < f->nfills; k++)
        if (f->fills[k].value >> 47 == 2 && f->dynamic) f->fills[k].value += behind - ((uint64_t)1 << 48);
    for (k = 0; k < f->ncode && f->dynamic; k++)
        if (f->code[k].imm >> 47 == 2) f->code[k].imm += (int64_t)behind - ((int64_t)1 << 48);
    for (k = 0; k < p->nlabels; k++) free(p->labels[k].name);
    for (k = 0; k < p->njumps; k++) free(p->jumps[k].name);
    free(p->labels);
    free(p->jumps);
    p->labels = p->jumps = NULL;
    p->nlabels = p->njumps = p->nregs = p->nrefs = p->nscopes = 0;
    p->f = NULL;
}

static void entry(ptx_parser *p) {
    char name[200];
    ptx_func *f = calloc(1, sizeof *f);
    if (!f || !word(p, name, sizeof name) || !(f->name = strdup(name))) {
        free(f);
        fail(p, "a kernel without name");
        return;
    }
    f->module = p->m;
    f->max_threads = 1024;
    f->reg_bytes = SLOT_FIRST;
    p->m->funcs = grow(p, p->m->funcs, p->m->nfuncs, sizeof *p->m->funcs);
    p->m->funcs[p->m->nfuncs++] = f;
    p->f = f;
    params(p);
    for (;;) {
        int want[3] = {1, 1, 1}, k = 0, req;
        if (p->failed) return;
        if (directive(p, ".minnctapersm") || directive(p, ".maxnreg") || directive(p, ".maxclusterrank")) {
            skip(p);
            strtol(p->at, &p->at, 10);
            continue;
        }
        req = directive(p, ".reqntid");
        if (!req && !directive(p, ".maxntid")) break;
        do want[k++] = (skip(p), (int)strtol(p->at, &p->at, 10));
        while (k < 3 && take(p, ','));
        f->max_threads = want[0] * want[1] * want[2];
        if (req) memcpy(f->req, want, sizeof want);
    }
    body(p);
    finish(p);
}

static void strip_comments(char *s) {
    while (*s) {
        if (s[0] == '/' && s[1] == '/') {
            while (*s && *s != '\n') *s++ = ' ';
        } else if (s[0] == '/' && s[1] == '*') {
            char *end = strstr(s + 2, "*/");
            end = end ? end + 2 : s + strlen(s);
            for (; s < end; s++)
                if (*s != '\n') *s = ' ';
        } else if (*s == '"') {
            s++;
            while (*s && *s != '"' && *s != '\n') s++;
            if (*s == '"') s++;
        } else {
            s++;
        }
    }
}

static int module_level(ptx_parser *p, int capability, int max_version) {
    int is_extern = 0, seen_target = 0;
    for (;;) {
        skip(p);
        if (p->failed) return 218;
        if (!*p->at) break;
        if (directive(p, ".version")) {
            int major = (skip(p), (int)strtol(p->at, &p->at, 10)),
                minor = *p->at == '.' ? (int)strtol(p->at + 1, &p->at, 10) : 0;
            p->m->version = major * 10 + minor;
            if (p->m->version > max_version) {
                fail(p, "Unsupported .version %d.%d; current version is '%d.%d'", major, minor, max_version / 10,
                     max_version % 10);
                return 222;
            }
        } else if (directive(p, ".target")) {
            skip(p);
            if (strncmp(p->at, "sm_", 3)) fail(p, ".target without sm_");
            p->m->target = (int)strtol(p->at + 3, &p->at, 10);
            if (*p->at == 'a' || *p->at == 'f') p->m->suffix = *p->at;
            p->at += strcspn(p->at, "\n"); /* sm_90a, debug */
            seen_target = 1;
            /* sm_90a runs on 9.0 and nowhere else, sm_100f on what is 10 */
            if (p->m->target > capability || (p->m->suffix == 'a' && p->m->target != capability) ||
                (p->m->suffix == 'f' && p->m->target / 10 != capability / 10)) {
                fail(p, "SM version specified by .target is higher than default SM version assumed");
                return 209;
            }
        } else if (directive(p, ".address_size")) {
            skip(p);
            if (strtol(p->at, &p->at, 10) != 64) fail(p, "addresses of other than 64 bits are not supported");
        } else if (directive(p, ".visible") || directive(p, ".weak")) {
        } else if (directive(p, ".extern")) {
            is_extern = 1;
            continue;
        } else if (directive(p, ".const")) {
            variable(p, SPACE_CONST, 0, 1);
        } else if (directive(p, ".shared")) {
            variable(p, SPACE_SHARED, is_extern, 1);
        } else if (directive(p, ".global")) {
            variable(p, SPACE_GLOBAL, 0, 1);
        } else if (directive(p, ".pragma")) {
            p->at += strcspn(p->at, ";");
            take(p, ';');
        } else if (directive(p, ".entry")) {
            if (!p->m->version || !seen_target) fail(p, "Missing .version or .target directive at start of file");
            else entry(p);
        } else {
            fail(p, "'%.20s' is not supported", p->at);
        }
        is_extern = 0;
    }
    if (!p->m->version || !seen_target) {
        fail(p, "Missing .version directive at start of file");
        return 218;
    }
    return p->failed ? 218 : 0;
}

int ptx_parse(const char *text, int capability, int max_version, ptx_module **out, char *log, size_t log_size) {
    ptx_parser p;
    int rc;
    memset(&p, 0, sizeof p);
    *out = NULL;
    p.line = 1, p.log = log, p.log_size = log_size;
    if (log_size) log[0] = 0;
    p.m = calloc(1, sizeof *p.m);
    p.text = strdup(text), p.shown = strdup(text);
    if (!p.m || !p.text || !p.shown) {
        free(p.m);
        free(p.text);
        free(p.shown);
        return 2;
    }
    p.m->text = p.shown;
    strip_comments(p.text);
    p.at = p.text;
    rc = module_level(&p, capability, max_version);
    if (p.f) finish(&p);
    free(p.text);
    free(p.regs);
    free(p.refs);
    free(p.outer);
    free(p.labels);
    free(p.jumps);
    if (rc) ptx_free(p.m);
    else *out = p.m;
    return rc;
}

void ptx_free(ptx_module *m) {
    int k, n;
    if (!m) return;
    for (k = 0; k < m->nfuncs; k++) {
        ptx_func *f = m->funcs[k];
        for (n = 0; n < f->nsyms; n++) free(f->syms[n].name);
        for (n = 0; n < f->ncode; n++) free(f->code[n].more);
        ptx_wgmma_forget(f);
        free(f->name);
        free(f->code);
        free(f->syms);
        free(f->fills);
        free(f);
    }
    for (k = 0; k < m->nsyms; k++) free(m->syms[k].name);
    free(m->funcs);
    free(m->syms);
    free(m->constants);
    free(m->text);
    free(m);
}

ptx_func *ptx_find(ptx_module *m, const char *name) {
    for (int k = 0; k < m->nfuncs; k++)
        if (!strcmp(m->funcs[k]->name, name)) return m->funcs[k];
    return NULL;
}
