/* ptx.h: what the parts of the PTX interpreter share. ptx_parse.c makes a module of text, ptx_decode.c makes instructions of lines,
 * ptx_run.c runs a grid, ptx_ops.c, ptx_float.c, ptx_mem.c, ptx_warp.c, ptx_wgmma.c and ptx_barrier.c
 * hold the instructions.
 *
 * A warp's registers are one block of memory: 32 lanes of 4 bytes (or 8), a predicate is one word with a bit per lane. Immediates
 * and special registers lie there too, so an operand is always an offset. An instruction is a function that works on all lanes
 * at once and stores those of the mask.
 *
 * Addresses have the space in their top byte, when they are generic: what is read in the wrong space is out of bounds.
 */
#ifndef PTX_H
#define PTX_H
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES for (int l = 0; l < 32; l++)
#define EACH(m) for (uint32_t m_ = (m), l = 0; m_ && (l = (uint32_t)__builtin_ctz(m_), 1); m_ &= m_ - 1)

enum { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_CONST, SPACE_PARAM };
#define WINDOW(space) ((uint64_t)(space) << 56)

/* Error codes of the driver API that running a kernel ends in. */
enum { PTX_OK = 0, PTX_ILLEGAL_ADDRESS = 700, PTX_TIMEOUT = 702, PTX_MISALIGNED = 716, PTX_FAILED = 719 };

typedef struct ptx_warp ptx_warp;
typedef struct ptx_ins ptx_ins;
typedef void (*ptx_fn)(ptx_warp *w, const ptx_ins *i);

/* What ends the straight run of instructions. */
enum { CTL_NONE, CTL_LABEL, CTL_BRA, CTL_EXIT, CTL_BAR, CTL_COLLECT, CTL_POLL };

struct ptx_ins {
    ptx_fn run;
    uint8_t ctl, space, vec, size;  /* size: bytes of an element in memory */
    uint8_t sign, wide, flag, ftz;  /* sign: loads extend it; wide: the register has 8 bytes */
    uint8_t mode, ndst, nsrc, guard_not;
    uint32_t guard;                 /* predicate, 0 = always */
    uint32_t base;                  /* address: register, 0 = none */
    uint8_t base_wide;
    int64_t imm;                    /* offset of an address, target of a branch, what an instruction needs */
    uint32_t o[6];                  /* operands: destinations first */
    uint32_t *more;                 /* all operands, when there are more than 6 */
    ptx_fn inner;                   /* what a wrapper wraps */
    const char *text;
    int line;
};

typedef struct {
    char *name;
    int space;
    uint64_t at, size;
    int align;
} ptx_sym;

typedef struct ptx_module ptx_module;

typedef struct {
    ptx_module *module;
    char *name;
    ptx_ins *code;
    int ncode;
    ptx_sym *syms; /* parameters, shared and local variables */
    int nsyms;
    int nparams;
    size_t param_bytes, shared_bytes, local_bytes, reg_bytes;
    int dynamic;   /* names an .extern .shared array */
    int max_threads, req[3];
    int regs32;    /* declared registers in units of 4 bytes */
    struct ptx_fill { uint32_t at; uint8_t wide; uint64_t value; } *fills; /* immediates */
    int nfills;
    uint32_t special[40]; /* slot of a special register, 0 = not used */
    struct ptx_plan *plan; /* of a kernel with wgmma, else NULL */
    int barriers;  /* it has mbarrier or cp.async.bulk */
} ptx_func;

struct ptx_module {
    int version, target; /* 63, 61 */
    char suffix;         /* 'a' of sm_90a, or 0 */
    ptx_func **funcs;
    int nfuncs;
    ptx_sym *syms;
    int nsyms;
    uint8_t *constants;
    size_t const_bytes;
    char *text;
};

/* 0, or an error of the driver API with a message in log. */
int ptx_parse(const char *text, int capability, int max_version, ptx_module **out, char *log, size_t log_size);
void ptx_free(ptx_module *m);
ptx_func *ptx_find(ptx_module *m, const char *name);

/* Memory that kernels may touch: sorted by address, no two overlap. */
typedef struct {
    uint64_t base, size;
    uint8_t *host;
    uint8_t *known; /* checking: a byte for each byte, 1 = written */
} ptx_range;

typedef struct {
    ptx_func *f;
    uint32_t grid[3], block[3];
    size_t dynamic;
    const uint8_t *params;
    const ptx_range *ranges;
    int nranges, threads, check;
    uint64_t budget;            /* instructions of a warp before it counts as hanging */
    char error[600];            /* out */
    uint64_t instructions;      /* out: of threads */
} ptx_launch;

int ptx_run(ptx_launch *launch);
void ptx_grid_wait(ptx_warp *w, const ptx_ins *i); /* what griddepcontrol.wait does: nothing */

/* ---- while running ------------------------------------------------------------------------------------------------ */

/* time: of a kernel with mbarrier, see ptx_barrier.c. thread: also BULK_THREAD + mbarrier, or ATOMIC_THREAD. */
typedef struct { uint32_t epoch, warp_epoch; uint16_t thread; uint8_t many; uint32_t time; } ptx_access;
enum { BULK_THREAD = 0x8000, ATOMIC_THREAD = 0xfffe };
enum { FLIES_NOT, FLIES_CP, FLIES_BULK, IS_MBARRIER };
typedef struct { ptx_access write, read; uint8_t known, flying; } ptx_shadow; /* of a byte of shared memory */

typedef struct {
    uint32_t at, bytes, thread;
    int group;
    uint8_t data[16];
} ptx_copy; /* cp.async that has not arrived */

typedef struct ptx_block {
    ptx_launch *launch;
    ptx_func *f;
    uint8_t *shared;
    size_t shared_bytes;
    ptx_shadow *shadow;      /* checking only */
    uint32_t epoch, id[3];
    ptx_warp *warps;
    int nwarps, nthreads;
    ptx_copy *copies;
    int ncopies, cap_copies;
    int *groups;             /* committed groups per thread */
    struct ptx_wgmma *wgmma; /* NULL: the kernel has none */
    struct ptx_barriers *barriers; /* the same */
    struct ptx_pool *pool;
    const ptx_range *last;
    int failed;
} ptx_block;

typedef struct { uint32_t pc, mask; } ptx_group;
enum { WAIT_NONE, WAIT_BAR, WAIT_COLLECT };

struct ptx_warp {
    uint8_t *r;              /* registers */
    uint32_t mask;           /* lanes that the instruction works on */
    uint32_t live;           /* lanes that have not exited */
    ptx_block *b;
    ptx_group run[32];       /* lanes that can run, by place */
    int nrun;
    ptx_group wait[32];      /* lanes that wait at a collective instruction for others */
    int nwait;
    ptx_group sleep[32];     /* lanes whose mbarrier was not ready: they go on in the block's next round */
    int nsleep;
    uint32_t missed;         /* lanes that found it not ready just now */
    uint32_t at_bar, bar_pc; /* lanes at a barrier */
    uint32_t arrived;        /* lanes of a collective instruction */
    uint8_t *local, *local_known;
    uint32_t warp_epoch;
    uint64_t count, steps;
    int index;
};

void ptx_fail(ptx_warp *w, const ptx_ins *i, int lane, int code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Slots that every warp has. 0 is no register. */
enum { SLOT_NONE = 0, SLOT_SCRATCH = 256, SLOT_FIRST = 256 * 6 };

#define R32(o) ((uint32_t *)(void *)(w->r + (o)))
#define R64(o) ((uint64_t *)(void *)(w->r + (o)))
#define RF(o) ((float *)(void *)(w->r + (o)))
#define RD(o) ((double *)(void *)(w->r + (o)))
#define RP(o) (*(uint32_t *)(void *)(w->r + (o)))

static inline void ptx_put32(ptx_warp *w, uint32_t *d, const uint32_t *t) {
    uint32_t m = w->mask;
    if (m == ~0u) LANES d[l] = t[l];
    else LANES d[l] = m >> l & 1 ? t[l] : d[l];
}
static inline void ptx_put64(ptx_warp *w, uint64_t *d, const uint64_t *t) {
    uint32_t m = w->mask;
    if (m == ~0u) LANES d[l] = t[l];
    else LANES d[l] = m >> l & 1 ? t[l] : d[l];
}
static inline void ptx_putp(ptx_warp *w, uint32_t slot, uint32_t t) {
    if (slot) RP(slot) = (RP(slot) & ~w->mask) | (t & w->mask);
}
static inline const uint32_t *ptx_operands(const ptx_ins *i) { return i->more ? i->more : i->o; }

/* ---- decoding ------------------------------------------------------------------------------------------------------- */

/* Operands: a letter each. p predicate, h 16, w 32, q 64 bits; x any register of 16..64 bits (a load's or store's), destinations
 * before the comma. [ an address. * the rest, as the row's prepare reads them. */
typedef struct { const char *name, *sig; ptx_fn run; int mode; } ptx_row;
extern const ptx_row ptx_rows_int[], ptx_rows_float[], ptx_rows_warp[], ptx_rows_half[];

typedef struct {
    int kind;                /* OPD_* */
    int width;               /* of a register: 1, 16, 32, 64 */
    uint32_t slot;
    int not;                 /* !%p */
    uint64_t value;
    int64_t offset;
    int space;               /* of a symbol; -1 none */
    uint32_t *list;          /* {a, b, ..}, in the parser's memory */
    int *widths, count;
    uint32_t second;         /* p|q */
    char name[200];
} ptx_operand;
enum { OPD_NONE, OPD_REG, OPD_INT, OPD_F32, OPD_F64, OPD_SYM, OPD_ADDR, OPD_LIST, OPD_LABEL };

typedef struct ptx_parser ptx_parser;
uint32_t ptx_constant(ptx_parser *p, int width, uint64_t value); /* the slot of an immediate */
int ptx_decode(ptx_parser *p, ptx_func *f, ptx_ins *i, char *name, ptx_operand *o, int n, char *why, size_t why_size);
int ptx_decode_memory(ptx_parser *p, ptx_ins *i, const char *op, char **part, int parts, ptx_operand *o, int n,
                      char *why, size_t size);
int ptx_decode_cvt(ptx_parser *p, ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why, size_t size);
int ptx_decode_warp(ptx_parser *p, ptx_ins *i, const char *op, char **part, int parts, ptx_operand *o, int n, char *why,
                    size_t size);
int ptx_type(const char *s, char *kind, int *bits);
int ptx_source(ptx_parser *p, ptx_operand *o, int width, uint32_t *slot);

/* ---- products of four warps, of ptx_wgmma.c ----------------------------------------------------------------------- */

typedef struct { uint32_t code, slot; } ptx_ref; /* instruction number code names the register in slot */
int ptx_decode_wgmma(ptx_parser *p, const ptx_module *m, ptx_ins *i, char **part, int parts, ptx_operand *o, int n,
                     char *why, size_t size);
int ptx_wgmma_plan(ptx_func *f, const ptx_ref *refs, int nrefs); /* 0: out of memory */
void ptx_wgmma_forget(ptx_func *f);
int ptx_wgmma_make(ptx_block *b);               /* 0: out of memory */
void ptx_wgmma_free(ptx_block *b);
void ptx_wgmma_start(ptx_block *b);             /* the block begins */
int ptx_wgmma_meet(ptx_block *b, int end);      /* all warps are at a barrier, or have ended; 0: it failed */
/* Checking: thread writes a byte of shared memory. Nonzero: a product under way reads it, and this is its line. */
int ptx_wgmma_busy(const ptx_block *b, uint64_t at);
void ptx_wgmma_written(ptx_block *b, uint64_t at, uint32_t thread);

/* ---- mbarrier and cp.async.bulk, of ptx_barrier.c -------------------------------------------------------------------- */

int ptx_decode_barrier(ptx_parser *p, ptx_func *f, ptx_ins *i, char **part, int parts, ptx_operand *o, int n, char *why,
                       size_t size);
int ptx_barrier_make(ptx_block *b);             /* 0: out of memory */
void ptx_barrier_free(ptx_block *b);
void ptx_barrier_start(ptx_block *b);           /* the block begins */
int ptx_barrier_idle(ptx_block *b);             /* a round has ended, and some lanes sleep; 0: it failed */
int ptx_barrier_end(ptx_block *b);              /* all threads have ended; 0: it failed */
void ptx_barrier_fence(ptx_warp *w, int proxy); /* fence.mbarrier_init, or of the async proxy */
/* Checking, of what is ordered: */
void ptx_barrier_meet(ptx_block *b);            /* all threads are at a barrier */
void ptx_barrier_warp_sync(ptx_warp *w);
uint32_t ptx_barrier_time(const ptx_block *b);
int ptx_barrier_knows(const ptx_block *b, uint32_t thread, uint32_t who, uint32_t time);
int ptx_barrier_warp_knows(ptx_block *b, int warp, uint32_t who, uint32_t time);
uint32_t ptx_barrier_fences(ptx_block *b, int warp, uint32_t who); /* proxy fences of who that the warp knows of */
void ptx_barrier_written(ptx_block *b, uint64_t at, uint32_t thread);
void ptx_barrier_read(ptx_block *b, uint64_t at, int warp, uint32_t lanes, uint32_t time); /* lanes 0: by wgmma */
int ptx_barrier_reader(const ptx_block *b, uint64_t at, uint32_t thread);   /* who read it, unordered; -1 nobody */

/* ---- memory, of ptx_mem.c ------------------------------------------------------------------------------------------- */

void ptx_addresses(ptx_warp *w, const ptx_ins *i, uint64_t *a);
uint8_t *ptx_where(ptx_warp *w, const ptx_ins *i, int lane, int space, uint64_t a, int bytes, int write);
const uint8_t *ptx_global(ptx_warp *w, const ptx_ins *i, int lane, uint64_t a, uint32_t bytes); /* to be read */
int ptx_set_address(ptx_ins *i, const ptx_operand *o, char *why, size_t size);
void ptx_copies_arrive(ptx_block *b, uint32_t thread, int keep);
void ptx_cp_commit(ptx_warp *w, const ptx_ins *i);
void ptx_cp_wait(ptx_warp *w, const ptx_ins *i);

/* ---- numbers ---------------------------------------------------------------------------------------------------------- */

float ptx_half_to_float(uint16_t h);
uint16_t ptx_float_to_half(float x, int round); /* 'n' even, 'z' zero, 'm' down, 'p' up */
static inline float ptx_bf16_to_float(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
uint16_t ptx_float_to_bf16(float x, int round);
static inline uint32_t ptx_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float ptx_float(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
#endif
