/* test_double.c: tests of the double itself. Instructions against values worked out by hand, collectives, memory, matrix products
 * against plain loops, everything that checking must find, every refusal of the driver API, planned errors, captures.
 *
 *   test_double build/drivers/cuda/libcuda.so.1 [file.ptx ..]     the files must load
 */
#include "test_double.h"

/* ---- instructions, one at a time: a, b, c in %r10 .. %r12 and %f10 .. %f12; the result in %r20, %f20 or %rd20 ------------------- */

static const struct { const char *body; uint32_t a, b, c; uint64_t want; } ops[] = {
    {"add.s32 %r20, %r10, %r11;", 0xffffffff, 2, 0, 1},
    {"sub.s32 %r20, %r10, %r11;", 1, 2, 0, 0xffffffff},
    {"mul.lo.s32 %r20, %r10, %r11;", 0x10001, 0x10001, 0, 0x20001},
    {"mul.hi.s32 %r20, %r10, %r11;", 0xfffffffe, 3, 0, 0xffffffff},
    {"mul.hi.u32 %r20, %r10, %r11;", 0xfffffffe, 3, 0, 2},
    {"mad.lo.s32 %r20, %r10, %r11, %r12;", 3, 5, 7, 22},
    {"mul.wide.s32 %rd20, %r10, %r11;", 0xffffffff, 2, 0, 0xfffffffffffffffe},
    {"mul.wide.u32 %rd20, %r10, %r11;", 0xffffffff, 2, 0, 0x1fffffffe},
    {"cvt.u64.u32 %rd10, %r12; mad.wide.u32 %rd20, %r10, %r11, %rd10;", 0x10000, 0x10000, 5, 0x100000005},
    {"div.u32 %r20, %r10, %r11;", 100, 7, 0, 14},
    {"div.s32 %r20, %r10, %r11;", 0xffffff9c, 7, 0, 0xfffffff2},
    {"rem.s32 %r20, %r10, %r11;", 0xffffff9c, 7, 0, 0xfffffffe},
    {"rem.u32 %r20, %r10, %r11;", 100, 7, 0, 2},
    {"min.s32 %r20, %r10, %r11;", 0xffffffff, 1, 0, 0xffffffff},
    {"min.u32 %r20, %r10, %r11;", 0xffffffff, 1, 0, 1},
    {"max.s32 %r20, %r10, %r11;", 0xffffffff, 1, 0, 1},
    {"abs.s32 %r20, %r10;", 0xfffffffb, 0, 0, 5},
    {"neg.s32 %r20, %r10;", 5, 0, 0, 0xfffffffb},
    {"not.b32 %r20, %r10;", 0xff00ff00, 0, 0, 0x00ff00ff},
    {"shl.b32 %r20, %r10, %r11;", 1, 31, 0, 0x80000000},
    {"shl.b32 %r20, %r10, %r11;", 1, 32, 0, 0},
    {"shr.s32 %r20, %r10, %r11;", 0x80000000, 40, 0, 0xffffffff},
    {"shr.u32 %r20, %r10, %r11;", 0x80000000, 31, 0, 1},
    {"cvt.u64.u32 %rd10, %r10; shl.b64 %rd20, %rd10, 40;", 3, 0, 0, 0x30000000000},
    {"cvt.s64.s32 %rd10, %r10; shr.s64 %rd20, %rd10, 70;", 0x80000000, 0, 0, 0xffffffffffffffff},
    {"shf.l.wrap.b32 %r20, %r10, %r11, %r12;", 0x80000001, 0x7, 4, 0x78},
    {"shf.r.wrap.b32 %r20, %r10, %r11, %r12;", 0x80000001, 0x7, 4, 0x78000000},
    {"shf.r.clamp.b32 %r20, %r10, %r11, %r12;", 1, 7, 40, 7},
    {"bfe.u32 %r20, %r10, %r11, %r12;", 0x12345678, 8, 12, 0x456},
    {"bfe.s32 %r20, %r10, %r11, %r12;", 0x0000f800, 8, 8, 0xfffffff8},
    {"bfe.u32 %r20, %r10, %r11, %r12;", 0xffffffff, 28, 8, 0xf},
    {"bfe.s32 %r20, %r10, %r11, %r12;", 0x80000000, 28, 8, 0xfffffff8},
    {"bfe.u32 %r20, %r10, %r11, %r12;", 0xffffffff, 4, 0, 0},
    {"bfi.b32 %r20, %r10, %r11, 8, 4;", 0x3, 0xffffffff, 0, 0xfffff3ff},
    {"prmt.b32 %r20, %r10, %r11, %r12;", 0x33221100, 0x77665544, 0x7410, 0x77441100},
    {"prmt.b32 %r20, %r10, %r11, %r12;", 0x33228011, 0, 0x9999, 0xffffffff},
    {"popc.b32 %r20, %r10;", 0xf0f0, 0, 0, 8},
    {"clz.b32 %r20, %r10;", 0x00010000, 0, 0, 15},
    {"clz.b32 %r20, %r10;", 0, 0, 0, 32},
    {"bfind.u32 %r20, %r10;", 0x00010000, 0, 0, 16},
    {"brev.b32 %r20, %r10;", 0x1, 0, 0, 0x80000000},
    {"lop3.b32 %r20, %r10, %r11, %r12, 0xe8;", 0xc, 0xa, 0x9, 0x8},
    {"dp4a.s32.s32 %r20, %r10, %r11, %r12;", 0xff010203, 0x02030405, 10, 34},
    {"dp4a.u32.u32 %r20, %r10, %r11, %r12;", 0xff010203, 0x02030405, 10, 546},
    {"dp4a.s32.u32 %r20, %r10, %r11, %r12;", 0xff000000, 0xff000000, 0, 0xffffff01},
    {"setp.lt.s32 %p1, %r10, %r11; selp.b32 %r20, 1, 2, %p1;", 0xffffffff, 0, 0, 1},
    {"setp.lt.u32 %p1, %r10, %r11; selp.b32 %r20, 1, 2, %p1;", 0xffffffff, 0, 0, 2},
    {"setp.eq.s32 %p2, %r10, %r10; setp.lt.and.s32 %p1|%p3, %r10, %r11, !%p2; selp.b32 %r20, 1, 2, %p1;", 0, 1, 0, 2},
    {"setp.eq.s32 %p2, %r10, %r10; setp.gt.and.s32 %p1|%p3, %r10, %r11, %p2; selp.b32 %r20, 1, 2, %p3;", 0, 1, 0, 1},
    {"setp.ne.s32 %p2, %r10, %r10; setp.lt.or.s32 %p1, %r10, %r11, %p2; not.pred %p1, %p1; selp.b32 %r20, 1, 2, %p1;", 0, 1, 0, 2},
    {"mov.u32 %r20, 7; setp.eq.s32 %p1, %r10, 0; @%p1 mov.u32 %r20, 8; @!%p1 mov.u32 %r20, 9;", 1, 0, 0, 9},
    {"mov.b64 %rd20, {%r10, %r11};", 1, 2, 0, 0x200000001},
    {"mov.b64 %rd10, {%r10, %r11}; mov.b64 {%r21, %r20}, %rd10;", 1, 2, 0, 2},
    {"mov.b32 {%h1, %h2}, %r10; mov.b32 %r20, {%h2, %h1};", 0x12345678, 0, 0, 0x56781234},
    {"cvt.u16.u32 %h1, %r10; mul.wide.u16 %r20, %h1, 3;", 0x1ffff, 0, 0, 0x2fffd},
    {"cvt.u16.u32 %h1, %r10; add.s16 %h2, %h1, %h1; cvt.u32.u16 %r20, %h2;", 0xffff, 0, 0, 0xfffe},
    {"cvt.u16.u32 %h1, %r10; shr.s16 %h2, %h1, 4; cvt.u32.u16 %r20, %h2;", 0x8000, 0, 0, 0xf800},
    {"cvt.s32.s8 %r20, %r10;", 0x80, 0, 0, 0xffffff80},
    {"cvt.s32.s16 %r20, %r10;", 0x18000, 0, 0, 0xffff8000},
    {"cvt.s64.s32 %rd20, %r10;", 0x80000000, 0, 0, 0xffffffff80000000},
    {"cvt.sat.u8.s32 %h1, %r10; cvt.u32.u16 %r20, %h1;", 300, 0, 0, 255},
    {"cvt.sat.s8.s32 %r20, %r10;", 0xfffffe00, 0, 0, 0xffffff80},
    /* floats: 1 = 3f800000, 1.5 = 3fc00000, 2 = 40000000, 3 = 40400000, -2.5 = c0200000, NaN = 7fc00000 */
    {"add.f32 %f20, %f10, %f11;", 0x3f800000, 0x3fc00000, 0, 0x40200000},
    {"fma.rn.f32 %f20, %f10, %f11, %f12;", 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000},
    {"mul.f32 %f20, %f10, %f11; add.f32 %f20, %f20, %f12;", 0x3f800001, 0x3f800001, 0xbf800002, 0},
    {"div.rn.f32 %f20, %f10, %f11;", 0x3f800000, 0x40400000, 0, 0x3eaaaaab},
    {"rcp.rn.f32 %f20, %f10;", 0x40000000, 0, 0, 0x3f000000},
    {"sqrt.rn.f32 %f20, %f10;", 0x40000000, 0, 0, 0x3fb504f3},
    {"rsqrt.approx.f32 %f20, %f10;", 0x40800000, 0, 0, 0x3f000000},
    {"ex2.approx.f32 %f20, %f10;", 0x40400000, 0, 0, 0x41000000},
    {"lg2.approx.f32 %f20, %f10;", 0x41000000, 0, 0, 0x40400000},
    {"min.f32 %f20, %f10, %f11;", 0x7fc00000, 0x3f800000, 0, 0x3f800000},
    {"max.f32 %f20, %f10, %f11;", 0x80000000, 0x00000000, 0, 0x00000000},
    {"min.f32 %f20, %f10, %f11;", 0x80000000, 0x00000000, 0, 0x80000000},
    {"max.NaN.f32 %f20, %f10, %f11;", 0x7fc00000, 0x3f800000, 0, 0x7fffffff},
    {"abs.f32 %f20, %f10;", 0xc0200000, 0, 0, 0x40200000},
    {"neg.f32 %f20, %f10;", 0x40200000, 0, 0, 0xc0200000},
    {"add.ftz.f32 %f20, %f10, %f11;", 0x00000001, 0x00000001, 0, 0},
    {"add.f32 %f20, %f10, %f11;", 0x00000001, 0x00000001, 0, 2},
    {"add.sat.f32 %f20, %f10, %f11;", 0x3f800000, 0x3f800000, 0, 0x3f800000},
    {"setp.lt.f32 %p1, %f10, %f11; selp.b32 %r20, 1, 2, %p1;", 0x7fc00000, 0x3f800000, 0, 2},
    {"setp.ltu.f32 %p1, %f10, %f11; selp.b32 %r20, 1, 2, %p1;", 0x7fc00000, 0x3f800000, 0, 1},
    {"setp.ne.f32 %p1, %f10, %f11; selp.b32 %r20, 1, 2, %p1;", 0x7fc00000, 0x3f800000, 0, 2},
    {"setp.neu.f32 %p1, %f10, %f11; selp.b32 %r20, 1, 2, %p1;", 0x7fc00000, 0x3f800000, 0, 1},
    {"setp.num.f32 %p1, %f10, %f11; selp.b32 %r20, 1, 2, %p1;", 0x7fc00000, 0x3f800000, 0, 2},
    {"setp.nan.f32 %p1, %f10, %f11; selp.b32 %r20, 1, 2, %p1;", 0x7fc00000, 0x3f800000, 0, 1},
    {"cvt.rn.f32.s32 %f20, %r10;", 0xffffffff, 0, 0, 0xbf800000},
    {"cvt.rn.f32.u32 %f20, %r10;", 0xffffffff, 0, 0, 0x4f800000},
    {"cvt.rz.f32.u32 %f20, %r10;", 0xffffffff, 0, 0, 0x4f7fffff},
    {"cvt.rp.f32.s32 %f20, %r10;", 0x01000001, 0, 0, 0x4b800001},
    {"cvt.rm.f32.s32 %f20, %r10;", 0x01000001, 0, 0, 0x4b800000},
    {"cvt.rzi.s32.f32 %r20, %f10;", 0xc0200000, 0, 0, 0xfffffffe},
    {"cvt.rni.s32.f32 %r20, %f10;", 0xc0200000, 0, 0, 0xfffffffe},
    {"cvt.rmi.s32.f32 %r20, %f10;", 0xc0200000, 0, 0, 0xfffffffd},
    {"cvt.rpi.s32.f32 %r20, %f10;", 0xc0200000, 0, 0, 0xfffffffe},
    {"cvt.rzi.s32.f32 %r20, %f10;", 0x7fc00000, 0, 0, 0},
    {"cvt.rzi.s32.f32 %r20, %f10;", 0x7f800000, 0, 0, 0x7fffffff},
    {"cvt.rzi.u32.f32 %r20, %f10;", 0xc0200000, 0, 0, 0},
    {"cvt.rni.f32.f32 %f20, %f10;", 0x40200000, 0, 0, 0x40000000},
    {"cvt.rzi.f32.f32 %f20, %f10;", 0xc0200000, 0, 0, 0xc0000000},
    {"cvt.f64.f32 %d1, %f10; cvt.rn.f32.f64 %f20, %d1;", 0x40490fdb, 0, 0, 0x40490fdb},
    {"cvt.f64.f32 %d1, %f10; mul.rn.f64 %d2, %d1, %d1; cvt.rn.f32.f64 %f20, %d2;", 0x3fc00000, 0, 0, 0x40100000},
    /* halves: 1 = 3c00, 2 = 4000, biggest 7bff, smallest 0001 */
    {"cvt.rn.f16.f32 %h1, %f10; cvt.u32.u16 %r20, %h1;", 0x3f800000, 0, 0, 0x3c00},
    {"cvt.rn.f16.f32 %h1, %f10; cvt.u32.u16 %r20, %h1;", 0x477fefff, 0, 0, 0x7bff},
    {"cvt.rn.f16.f32 %h1, %f10; cvt.u32.u16 %r20, %h1;", 0x477ff000, 0, 0, 0x7c00},
    {"cvt.rz.f16.f32 %h1, %f10; cvt.u32.u16 %r20, %h1;", 0x477ff000, 0, 0, 0x7bff},
    {"cvt.rn.f16.f32 %h1, %f10; cvt.u32.u16 %r20, %h1;", 0x33000000, 0, 0, 0x0000},
    {"cvt.rn.f16.f32 %h1, %f10; cvt.u32.u16 %r20, %h1;", 0x33000001, 0, 0, 0x0001},
    {"cvt.rn.f16.f32 %h1, %f10; cvt.u32.u16 %r20, %h1;", 0x3f801000, 0, 0, 0x3c00},
    {"cvt.rn.f16.f32 %h1, %f10; cvt.u32.u16 %r20, %h1;", 0x3f803000, 0, 0, 0x3c02},
    {"cvt.u16.u32 %h1, %r10; cvt.f32.f16 %f20, %h1;", 0x0001, 0, 0, 0x33800000},
    {"cvt.u16.u32 %h1, %r10; cvt.f32.f16 %f20, %h1;", 0xfc00, 0, 0, 0xff800000},
    {"cvt.u16.u32 %h1, %r10; cvt.f32.f16 %f20, %h1;", 0x7bff, 0, 0, 0x477fe000},
    {"cvt.u16.u32 %h1, %r10; add.f16 %h2, %h1, %h1; cvt.u32.u16 %r20, %h2;", 0x3c00, 0, 0, 0x4000},
    {"fma.rn.f16x2 %r20, %r10, %r11, %r12;", 0x3c004000, 0x40004000, 0x3c003c00, 0x42004500},
    {"mul.f16x2 %r20, %r10, %r11;", 0x3c017bff, 0x3c014000, 0, 0x3c027c00},
};

static void test_ops(void) {
    char body[1024];
    section = "instructions";
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        uint64_t got;
        int rc;
        snprintf(body, sizeof body,
                 "mov.u32 %%r10, %u; mov.u32 %%r11, %u; mov.u32 %%r12, %u; mov.b32 %%f10, %%r10; mov.b32 %%f11, %%r11; mov.b32 %%f12, %%r12;"
                 "mov.u32 %%r20, 0; mov.u64 %%rd20, 0; mov.f32 %%f20, 0f00000000;\n%s\n"
                 "mov.b32 %%r30, %%f20; or.b32 %%r30, %%r30, %%r20; cvt.u64.u32 %%rd30, %%r30; or.b64 %%rd20, %%rd20, %%rd30;"
                 "st.global.u64 [%%rd0], %%rd20;",
                 ops[k].a, ops[k].b, ops[k].c, ops[k].body);
        rc = run(body, 61, 1);
        memcpy(&got, out, 8);
        check(!rc && got == ops[k].want, (int)k, ops[k].body, rc ? rc : (long long)got, (long long)ops[k].want);
    }
    set("FAKE_CUDA_CAPABILITY", "80"); /* bf16 and tf32 */
    EQ(run("cvt.rn.bf16x2.f32 %r20, 0f3f800000, 0f40490fdb; st.global.u32 [%rd0], %r20;", 80, 1), 0);
    EQ(out[0], 0x3f804049);
    EQ(run("cvt.rn.bf16.f32 %h1, 0f3f818000; cvt.u32.u16 %r20, %h1; st.global.u32 [%rd0], %r20;", 80, 1), 0);
    EQ(out[0], 0x3f82);
    EQ(run("cvt.rna.tf32.f32 %r20, 0f3f801000; st.global.u32 [%rd0], %r20;", 80, 1), 0);
    EQ(out[0], 0x3f802000);
    /* 1.5 * 2 + 1, and 3.140625 squared plus a quarter of the last place, which must be rounded once */
    EQ(run("mov.u32 %r21, 0x3fc04049; mov.u32 %r22, 0x40004049; mov.u32 %r23, 0x3f803b00; fma.rn.bf16x2 %r20, %r21, %r22, %r23; st.global.u32 [%rd0], %r20;",
           80, 1), 0);
    EQ(out[0] >> 16, 0x4080);
    EQ(out[0] & 0xffff, 0x411e);
    set("FAKE_CUDA_CAPABILITY", NULL);
}

/* ---- lanes that part, warps, blocks, memory ------------------------------------------------------------------------------ */

static void test_lanes(void) {
    section = "lanes";
    /* Collatz: every lane loops as often as it likes, with a branch inside */
    EQ(run("add.u32 %r10, %r1, 1; mov.u32 %r11, 0;\nL: setp.eq.s32 %p1, %r10, 1; @%p1 bra E; and.b32 %r12, %r10, 1; setp.eq.s32 %p2, %r12, 0;\n"
           "@%p2 bra H; mad.lo.s32 %r10, %r10, 3, 1; bra.uni N;\nH: shr.u32 %r10, %r10, 1;\nN: add.s32 %r11, %r11, 1; bra L;\n"
           "E: st.global.u32 [%rd3], %r11;", 61, 100), 0);
    for (uint32_t t = 0; t < 100; t++) {
        uint32_t n = t + 1, steps = 0;
        for (; n != 1; steps++) n = n & 1 ? n * 3 + 1 : n / 2;
        EQ(out[t], steps);
    }
    /* lanes that part and meet again before a shuffle; some leave early behind it */
    EQ(run("and.b32 %r10, %r1, 1; setp.eq.s32 %p1, %r10, 0; @%p1 bra A; mov.u32 %r11, 100; bra B;\nA: mov.u32 %r11, 200;\n"
           "B: shfl.sync.bfly.b32 %r12, %r11, 1, 31, 0xffffffff; @%p1 exit; st.global.u32 [%rd3], %r12;", 61, 32), 0);
    for (int t = 0; t < 32; t++) EQ(out[t], t & 1 ? 200 : 0);
    EQ(run("shfl.sync.up.b32 %r10|%p1, %r1, 3, 0, 0xffffffff; selp.b32 %r11, 1000, 0, %p1; add.u32 %r10, %r10, %r11; st.global.u32 [%rd3], %r10;",
           61, 32), 0);
    for (int t = 0; t < 32; t++) EQ(out[t], t < 3 ? t : t - 3 + 1000);
    EQ(run("shfl.sync.down.b32 %r10, %r1, 4, 0x181f, 0xffffffff; st.global.u32 [%rd3], %r10;", 61, 32), 0); /* in eights */
    for (int t = 0; t < 32; t++) EQ(out[t], t % 8 + 4 < 8 ? t + 4 : t);
    EQ(run("shfl.sync.idx.b32 %r10, %r1, 5, 31, 0xffffffff; st.global.u32 [%rd3], %r10;", 61, 64), 0);
    for (int t = 0; t < 64; t++) EQ(out[t], t / 32 * 32 + 5);
    EQ(run("and.b32 %r10, %r1, 3; setp.eq.s32 %p1, %r10, 0; vote.sync.ballot.b32 %r11, %p1, 0xffffffff; vote.sync.any.pred %p2, %p1, 0xffffffff;"
           "vote.sync.all.pred %p3, %p1, 0xffffffff; selp.b32 %r12, 1, 0, %p2; selp.b32 %r13, 2, 0, %p3; xor.b32 %r11, %r11, %r12;"
           "xor.b32 %r11, %r11, %r13; st.global.u32 [%rd3], %r11;", 61, 32), 0);
    EQ(out[7], 0x11111110);
    set("FAKE_CUDA_CAPABILITY", "80");
    EQ(run("redux.sync.add.s32 %r10, %r1, 0xffffffff; redux.sync.max.u32 %r11, %r1, 0xffffffff; mad.lo.s32 %r10, %r11, 1000, %r10;"
           "st.global.u32 [%rd3], %r10;", 80, 32), 0);
    EQ(out[3], 31496);
    /* half of the warp by itself */
    EQ(run("setp.ge.u32 %p1, %r1, 16; @%p1 bra E; shfl.sync.bfly.b32 %r10, %r1, 15, 31, 0x0000ffff; st.global.u32 [%rd3], %r10;\nE:", 80, 32), 0);
    for (int t = 0; t < 16; t++) EQ(out[t], 15 - t);
    set("FAKE_CUDA_CAPABILITY", NULL);
    /* a sum by a tree in shared memory, over 8 warps */
    EQ(run(".shared .align 4 .b8 sh[1024];|mov.u32 %r10, sh; shl.b32 %r11, %r1, 2; add.u32 %r12, %r10, %r11; st.shared.u32 [%r12], %r1; bar.sync 0;"
           "mov.u32 %r13, 128;\nL: setp.ge.u32 %p1, %r1, %r13; @%p1 bra N; shl.b32 %r14, %r13, 2; add.u32 %r14, %r12, %r14; ld.shared.u32 %r15, [%r14];"
           "ld.shared.u32 %r16, [%r12]; add.u32 %r15, %r15, %r16; st.shared.u32 [%r12], %r15;\nN: bar.sync 0; shr.u32 %r13, %r13, 1;"
           "setp.ne.s32 %p2, %r13, 0; @%p2 bra L; ld.shared.u32 %r20, [sh]; st.global.u32 [%rd3], %r20;", 61, 256), 0);
    EQ(out[0], 255 * 128);
    EQ(out[255], 255 * 128);
    /* dynamic shared memory begins behind what is static; blocks and all special registers */
    EQ(run_blocks(".extern .shared .align 16 .b8 dyn[]; .shared .align 4 .b8 sh[12];|mov.u64 %rd10, dyn; cvt.u32.u64 %r10, %rd10; mov.u32 %r11, sh;"
                  "sub.u32 %r12, %r10, %r11; mov.u32 %r13, %ctaid.x; mov.u32 %r14, %ntid.x; mad.lo.s32 %r15, %r13, %r14, %r1; mul.wide.u32 %rd11, %r15, 4;"
                  "add.s64 %rd12, %rd0, %rd11; add.u64 %rd13, %rd10, %rd2; st.shared.u32 [%rd13], %r15; ld.shared.u32 %r16, [%rd13]; mov.u32 %r17, %nctaid.x;"
                  "mad.lo.s32 %r18, %r17, 10000, %r16; mad.lo.s32 %r18, %r12, 1000000, %r18; st.global.u32 [%rd12], %r18;", 61, 5, 40, 0, 160), 0);
    for (int t = 0; t < 200; t++) EQ(out[t], 16050000 + t);
}

static void test_memory(void) {
    section = "memory";
    for (int k = 0; k < WORDS; k++) in[k] = 0x80818283u + (uint32_t)k * 0x01010101u;
    EQ(run("ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+16]; st.global.v2.u32 [%rd0+8], {%r13, %r10}; ld.global.nc.u64 %rd10, [%rd1]; st.global.u64 [%rd0],"
           "%rd10; ld.global.s8 %r14, [%rd1]; st.global.u32 [%rd0+16], %r14; ld.global.u8 %h1, [%rd1+1]; st.global.u16 [%rd0+20], %h1; ld.global.s16 %rd11,"
           "[%rd1+2]; st.global.u64 [%rd0+24], %rd11; st.global.u8 [%rd0+22], %r10; ld.global.L2::128B.u32 %r15, [%rd1+12]; st.global.wb.u32 [%rd0+32], %r15;", 61, 1), 0);
    EQ(out[0], in[0]);
    EQ(out[1], in[1]);
    EQ(out[2], in[7]);
    EQ(out[3], in[4]);
    EQ(out[4], 0xffffff83);
    EQ(out[5], 0x00870082 | (in[4] & 255) << 16);
    EQ(out[6], 0xffff8081);
    EQ(out[7], 0xffffffff);
    EQ(out[8], in[3]);
    /* constants, local memory, addresses of any space */
    EQ(run(".const .align 4 .b32 table[4] = {1, 20, 300, 4000}; .shared .align 8 .b8 sh[128];|.local .align 8 .b8 mine[16]; and.b32 %r10, %r1, 3; mul.wide.u32 %rd10, %r10, 4;"
           "mov.u64 %rd11, table; add.u64 %rd12, %rd11, %rd10; ld.const.u32 %r11, [%rd12]; mov.u64 %rd13, mine; cvta.local.u64 %rd14, %rd13; add.u64 %rd15, %rd14, %rd10;"
           "st.u32 [%rd15], %r11; st.local.u32 [mine], %r1; ld.u32 %r12, [%rd15]; cvta.const.u64 %rd16, %rd12; ld.u32 %r13, [%rd16]; mov.u64 %rd17, sh;"
           "cvta.shared.u64 %rd18, %rd17; add.u64 %rd18, %rd18, %rd2; st.u32 [%rd18], %r13; cvta.to.shared.u64 %rd19, %rd18; ld.shared.u32 %r14, [%rd19];"
           "add.u32 %r15, %r12, %r14; cvta.to.global.u64 %rd3, %rd3; st.u32 [%rd3], %r15;", 61, 8), 0);
    for (int t = 0; t < 8; t++) {
        static const uint32_t table[4] = {1, 20, 300, 4000};
        EQ(out[t], t % 4 ? 2 * table[t % 4] : table[0] + (uint32_t)t);
    }
    EQ(run_blocks("atom.global.add.u32 %r10, [%rd0], 1; red.global.max.s32 [%rd0+4], %r1; atom.global.cas.b32 %r11, [%rd0+8], 0, 5; mov.f32 %f1, 0f3f800000;"
                  "red.global.add.f32 [%rd0+12], %f1; atom.global.inc.u32 %r12, [%rd0+16], 2; atom.global.exch.b32 %r13, [%rd0+20], %r1;"
                  "atom.global.add.u64 %rd10, [%rd0+24], 3;", 61, 50, 64, 0, 0), 0);
    EQ(out[0], 3200);
    EQ(out[1], 63);
    EQ(out[2], 5);
    { float f; memcpy(&f, &out[3], 4); EQ(f, 3200); }
    EQ(out[4], 3200 % 3);
    EQ(out[6], 9600);
}

/* ---- what must be found ----------------------------------------------------------------------------------------------------- */

static void test_found(void) {
    static const char *const half = "setp.ge.u32 %p1, %r1, 16; @%p1 bra E; ";
    char body[1024];
    section = "found";
    FAILS("ld.global.u32 %r10, [%rd0+16384]; st.global.u32 [%rd0], %r10;", 61, 1, 700, "out of bounds");
    FAILS("ld.global.u32 %r10, [%rd0-4];", 61, 1, 700, "global read of 4 bytes");
    FAILS("ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd0+8];", 61, 1, 716, "misaligned");
    FAILS("st.global.v4.u32 [%rd0+8], {%r1, %r1, %r1, %r1};", 61, 1, 716, "misaligned");
    FAILS("mov.u64 %rd10, 0; ld.global.u32 %r10, [%rd10];", 61, 1, 700, "out of bounds");
    FAILS("setp.eq.s32 %p1, %r1, 37; selp.b64 %rd10, 0, %rd3, %p1; st.global.u32 [%rd10], %r1;", 61, 64, 700, "thread (37, 0, 0)");
    FAILS("ld.global.u32 %r10, [%rd0+2];", 61, 1, 716, "misaligned");
    FAILS(".shared .align 4 .b8 sh[64];|mov.u32 %r10, sh; ld.shared.u32 %r11, [%r10+64];", 61, 1, 700, "shared read");
    FAILS(".shared .align 4 .b8 sh[64];|mov.u32 %r10, sh; shl.b32 %r11, %r1, 2; add.u32 %r10, %r10, %r11; st.shared.u32 [%r10], %r1;", 61, 17, 700, "thread (16, 0, 0)");
    FAILS(".local .align 4 .b8 mine[16]; st.local.u32 [mine+16], %r1;", 61, 1, 700, "local write");
    FAILS("ld.param.u32 %r10, [pa+20];", 61, 1, 700, "param read");
    FAILS(".shared .align 4 .b8 sh[64];|mov.u64 %rd10, sh; ld.global.u32 %r11, [%rd10];", 61, 1, 700, "global read");
    snprintf(body, sizeof body, "%s shfl.sync.bfly.b32 %%r10, %%r1, 1, 31, 0xffffffff; E:", half);
    FAILS(body, 61, 32, 719, "only lanes 0000ffff");
    FAILS("shfl.sync.bfly.b32 %r10, %r1, 1, 31, 0xffff;", 61, 32, 719, "lacks the lane itself");
    FAILS("shfl.sync.idx.b32 %r10, %r1, 20, 31, 0x3ff;", 61, 10, 719, "does not take part");
    snprintf(body, sizeof body, "%s bar.sync 0; E:", half);
    FAILS(body, 61, 32, 719, "16 of 32 threads");
    FAILS("setp.ge.u32 %p1, %r1, 32; @%p1 bra E; bar.sync 0; E:", 61, 64, 719, "32 of 64 threads");
    snprintf(body, sizeof body, "%s bar.sync 0; bra F; E: bar.sync 0; F:", half);
    FAILS(body, 61, 32, 719, "different barriers");
    FAILS("trap;", 61, 1, 719, "trap");
    set("FAKE_CUDA_BUDGET", "100000");
    FAILS("L: bra L;", 61, 1, 702, "has run");
    set("FAKE_CUDA_BUDGET", NULL);
    /* with checking */
    set("FAKE_CUDA_CHECK", "1");
    down();
    up();
    FAILS(".shared .align 4 .b8 sh[64];|ld.shared.u32 %r10, [sh]; st.global.u32 [%rd0], %r10;", 61, 1, 719, "before it is written");
    FAILS(".local .align 4 .b8 mine[16]; ld.local.u32 %r10, [mine]; st.global.u32 [%rd0], %r10;", 61, 1, 719, "before it is written");
    FAILS(".shared .align 4 .b8 sh[512];|mov.u32 %r10, sh; shl.b32 %r11, %r1, 2; add.u32 %r12, %r10, %r11; st.shared.u32 [%r12], %r1;"
          "xor.b32 %r11, %r11, 4; add.u32 %r12, %r10, %r11; ld.shared.u32 %r13, [%r12];", 61, 32, 719, "race on shared byte 4: thread 1 wrote it");
    FAILS(".shared .align 4 .b8 sh[512];|mov.u32 %r10, sh; shl.b32 %r11, %r1, 2; add.u32 %r12, %r10, %r11; st.shared.u32 [%r12], %r1; bar.sync 0;"
          "ld.shared.u32 %r13, [sh]; st.shared.u32 [%r12], %r13;", 61, 64, 719, "race on shared byte 0: thread");
    FAILS(".shared .align 4 .b8 sh[512];|st.shared.u32 [sh], %r1;", 61, 64, 719, "race on shared byte 0: thread 0 wrote it");
    EQ(run(".shared .align 4 .b8 sh[512];|st.shared.u32 [sh], 7; bar.sync 0; ld.shared.u32 %r10, [sh]; st.global.u32 [%rd3], %r10;", 61, 64), 0); /* the same value */
    EQ(run(".shared .align 4 .b8 sh[512];|mov.u32 %r10, sh; shl.b32 %r11, %r1, 2; add.u32 %r12, %r10, %r11; st.shared.u32 [%r12], %r1; bar.warp.sync 0xffffffff;"
           "xor.b32 %r11, %r11, 4; add.u32 %r12, %r10, %r11; ld.shared.u32 %r13, [%r12]; st.global.u32 [%rd3], %r13;", 61, 64), 0);
    EQ(out[6], 7);
    { /* memory of the device that was never written */
        devptr fresh;
        EQ(cuMemAlloc_v2(&fresh, 64), 0);
        snprintf(body, sizeof body, "mov.u64 %%rd10, %llu; ld.global.u32 %%r10, [%%rd10+4]; st.global.u32 [%%rd0], %%r10;", fresh);
        EQ(cuMemsetD8_v2(fresh, 0, 8), 0);
        EQ(run(body, 61, 1), 0);
        snprintf(body, sizeof body, "mov.u64 %%rd10, %llu; ld.global.u32 %%r10, [%%rd10+8]; st.global.u32 [%%rd0], %%r10;", fresh);
        EQ(run(body, 61, 1), 719);
        CHECK(strstr(fake_cuda_message(), "global byte"));
        cuMemFree_v2(fresh);
        down();
        up();
    }
    set("FAKE_CUDA_CHECK", NULL);
    { /* after freeing */
        devptr gone;
        EQ(cuMemAlloc_v2(&gone, 64), 0);
        EQ(cuMemFree_v2(gone), 0);
        snprintf(body, sizeof body, "mov.u64 %%rd10, %llu; st.global.u32 [%%rd10], %%r1;", gone);
        FAILS(body, 61, 1, 700, "out of bounds of every allocation");
    }
}

/* ---- cp.async, ldmatrix, mma ---------------------------------------------------------------------------------------------------- */

#define COPY \
    ".shared .align 16 .b8 sh[1024];|mov.u32 %r10, sh; shl.b32 %r11, %r1, 4; add.u32 %r12, %r10, %r11; cvt.u64.u32 %rd10, %r11; add.u64 %rd11, %rd1, %rd10;" \
    "add.u64 %rd12, %rd0, %rd10; cp.async.cg.shared.global [%r12], [%rd11], 16; cp.async.commit_group; "
#define READ "ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r12]; st.global.v4.u32 [%rd12], {%r20, %r21, %r22, %r23};"

static uint16_t half_of(int n) { /* -64 .. 64, exactly */
    int e = 0, m = n < 0 ? -n : n;
    if (!m) return 0;
    while (m >> (e + 1)) e++;
    return (uint16_t)((n < 0 ? 0x8000 : 0) | (e + 15) << 10 | ((m << (10 - e)) & 0x3ff));
}
static uint32_t float_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

/* A kernel that loads a registers of A, b of B and 4 of C per lane, multiplies, and stores 4. */
static int run_mma(const char *name, int a, int b) {
    char body[2048] = "";
    int k, n = a + b + 4, at;
    at = snprintf(body, sizeof body, "mul.lo.s32 %%r9, %%r1, %d; mul.wide.u32 %%rd10, %%r9, 4; add.u64 %%rd11, %%rd1, %%rd10; mul.wide.u32 %%rd12, %%r1, 16; add.u64 %%rd12, %%rd0, %%rd12;", n);
    for (k = 0; k < n; k++) at += snprintf(body + at, sizeof body - (size_t)at, "ld.global.u32 %%r%d, [%%rd11+%d];", 20 + k, 4 * k);
    at += snprintf(body + at, sizeof body - (size_t)at, "%s {%%r40, %%r41, %%r42, %%r43}, {", name);
    for (k = 0; k < a; k++) at += snprintf(body + at, sizeof body - (size_t)at, "%s%%r%d", k ? ", " : "", 20 + k);
    at += snprintf(body + at, sizeof body - (size_t)at, "}, {");
    for (k = 0; k < b; k++) at += snprintf(body + at, sizeof body - (size_t)at, "%s%%r%d", k ? ", " : "", 20 + a + k);
    snprintf(body + at, sizeof body - (size_t)at, "}, {%%r%d, %%r%d, %%r%d, %%r%d}; st.global.v4.u32 [%%rd12], {%%r40, %%r41, %%r42, %%r43};", 20 + a + b, 21 + a + b,
             22 + a + b, 23 + a + b);
    return run(body, 80, 32);
}

/* type: 'h' f16, 'b' bf16, 't' tf32, 's' s8, 'u' u8. Fragments as the PTX manual has them, element by element. */
static void mma(const char *name, char type, int depth) {
    int per = type == 't' ? 1 : type == 's' || type == 'u' ? 4 : 2, na = 16 * depth / 32 / per, nb = 8 * depth / 32 / per, x, y, z, i, lane;
    static int A[16][32], B[32][8], C[16][8];
    section = name;
    for (x = 0; x < 16; x++)
        for (z = 0; z < depth; z++) A[x][z] = (x * 7 + z * 5) % 23 - (type == 'u' ? 0 : 11);
    for (z = 0; z < depth; z++)
        for (y = 0; y < 8; y++) B[z][y] = (z * 3 + y * 11) % 19 - (type == 'u' ? 0 : 9);
    for (x = 0; x < 16; x++)
        for (y = 0; y < 8; y++) C[x][y] = x * 8 + y;
    memset(in, 0, sizeof in);
    for (lane = 0; lane < 32; lane++) {
        uint32_t *r = in + lane * (na + nb + 4);
        int group = lane >> 2, in_group = lane % 4;
        for (i = 0; i < na * per; i++) { /* a_i */
            int row, col, v;
            if (type == 't') row = i == 0 || i == 2 ? group : group + 8, col = i < 2 ? in_group : in_group + 4;
            else if (per == 2) row = i < 2 || (i >= 4 && i < 6) ? group : group + 8, col = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
            else row = i < 4 || (i >= 8 && i < 12) ? group : group + 8, col = in_group * 4 + (i & 3) + (i >= 8 ? 16 : 0);
            v = A[row][col];
            r[i / per] |= type == 'h' ? (uint32_t)half_of(v) << 16 * (i & 1) : type == 'b' ? float_of((float)v) >> 16 << 16 * (i & 1)
                          : type == 't' ? float_of((float)v) : (uint32_t)(v & 255) << 8 * (i & 3);
        }
        for (i = 0; i < nb * per; i++) { /* b_i */
            int row = type == 't' ? in_group + 4 * i : per == 2 ? in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0) : in_group * 4 + (i & 3) + (i >= 4 ? 16 : 0);
            int v = B[row][group];
            r[na + i / per] |= type == 'h' ? (uint32_t)half_of(v) << 16 * (i & 1) : type == 'b' ? float_of((float)v) >> 16 << 16 * (i & 1)
                               : type == 't' ? float_of((float)v) : (uint32_t)(v & 255) << 8 * (i & 3);
        }
        for (i = 0; i < 4; i++) {
            int v = C[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
            r[na + nb + i] = per == 4 ? (uint32_t)v : float_of((float)v);
        }
    }
    EQ(run_mma(name, na, nb), 0);
    for (lane = 0; lane < 32; lane++)
        for (i = 0; i < 4; i++) {
            int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, col = lane % 4 * 2 + (i & 1), sum = C[row][col];
            for (z = 0; z < depth; z++) sum += A[row][z] * B[z][col];
            EQ(out[lane * 4 + i], per == 4 ? (uint32_t)sum : float_of((float)sum));
        }
}

static void test_tensor(void) {
    set("FAKE_CUDA_CAPABILITY", "80");
    section = "cp.async";
    for (int k = 0; k < WORDS; k++) in[k] = (uint32_t)k * 2654435761u;
    EQ(run(COPY "cp.async.wait_group 0; " READ, 80, 64), 0);
    for (int k = 0; k < 256; k++) EQ(out[k], in[k]);
    EQ(run(COPY READ, 80, 64), 0); /* not waited for: it has not come */
    for (int k = 0; k < 256; k++) EQ(out[k], 0xffffffff);
    EQ(run(COPY "cp.async.wait_group 1; " READ, 80, 64), 0); /* the last group may be under way still */
    EQ(out[5], 0xffffffff);
    EQ(run(COPY "cp.async.ca.shared.global [%r12+512], [%rd11+4], 4; cp.async.commit_group; cp.async.wait_group 1; " READ
           "ld.shared.u32 %r30, [%r12+512]; st.global.u32 [%rd12+512], %r30;", 80, 32), 0);
    EQ(out[9], in[9]); /* the group before the last has come */
    EQ(out[128], 0xffffffff);
    EQ(run(COPY "cp.async.ca.shared.global [%r12+512], [%rd11+4], 4; cp.async.commit_group; cp.async.wait_group 0; " READ
           "ld.shared.u32 %r30, [%r12+512]; st.global.u32 [%rd12+512], %r30;", 80, 32), 0);
    EQ(out[132], in[5]);
    EQ(run(COPY "cp.async.wait_all; cp.async.cg.shared.global [%r12], [%rd11], 16, 8; cp.async.wait_all; " READ, 80, 32), 0); /* the rest is 0 */
    EQ(out[1], in[1]);
    EQ(out[2], 0);
    FAILS("cp.async.cg.shared.global [%r1], [%rd1], 8;", 80, 1, 218, "cannot copy");
    set("FAKE_CUDA_CHECK", "1");
    down();
    up();
    FAILS(COPY READ, 80, 64, 719, "before its cp.async was waited for");
    EQ(run(COPY "cp.async.wait_all; " READ, 80, 64), 0);
    FAILS(COPY "cp.async.wait_all; xor.b32 %r12, %r12, 16; " READ, 80, 64, 719, "race on shared byte");
    EQ(run(COPY "cp.async.wait_all; bar.sync 0; xor.b32 %r12, %r12, 16; " READ, 80, 64), 0);
    set("FAKE_CUDA_CHECK", NULL);
    section = "ldmatrix"; /* element e of shared memory is e; lane l gives row l */
    for (int trans = 0; trans < 2; trans++) {
        char body[1024];
        snprintf(body, sizeof body,
                 ".shared .align 16 .b8 sh[512];|mov.u32 %%r10, sh; shl.b32 %%r11, %%r1, 4; add.u32 %%r12, %%r10, %%r11; shl.b32 %%r13, %%r1, 3; mad.lo.s32 %%r14, %%r13, 65537, 65536;"
                 "add.u32 %%r15, %%r14, 131074; add.u32 %%r16, %%r14, 262148; add.u32 %%r17, %%r14, 393222; st.shared.v4.u32 [%%r12], {%%r14, %%r15, %%r16, %%r17}; bar.sync 0;"
                 "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%r20, %%r21, %%r22, %%r23}, [%%r12]; mul.wide.u32 %%rd10, %%r1, 16; add.u64 %%rd11, %%rd0, %%rd10;"
                 "st.global.v4.u32 [%%rd11], {%%r20, %%r21, %%r22, %%r23};", trans ? ".trans" : "");
        EQ(run(body, 80, 32), 0);
        for (uint32_t l = 0; l < 32; l++)
            for (uint32_t m = 0; m < 4; m++)
                for (uint32_t e = 0; e < 2; e++) {
                    uint32_t row = trans ? l % 4 * 2 + e : l / 4, col = trans ? l / 4 : l % 4 * 2 + e;
                    EQ(out[l * 4 + m] >> 16 * e & 0xffff, m * 64 + row * 8 + col);
                }
    }
    mma("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 'h', 16);
    mma("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 'h', 8);
    mma("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 'b', 16);
    mma("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 't', 8);
    mma("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 's', 32);
    mma("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", 'u', 32);
    mma("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 's', 16);
    section = "mma";
    FAILS("setp.ge.u32 %p1, %r1, 16; @%p1 bra E; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r10, %r11, %r12, %r13}, {%r10, %r11, %r12, %r13}, {%r10, %r11},"
          "{%r10, %r11, %r12, %r13}; E:", 80, 32, 719, "only lanes 0000ffff");
    set("FAKE_CUDA_CAPABILITY", NULL);
}

#include "test_double_api.h"
#include "test_double_wgmma.h"
#include "test_double_barrier.h"

int main(int argc, char **argv) {
    if (argc < 2 || !load_library(argv[1])) {
        printf("usage: test_double libcuda.so.1 [file.ptx ..]\n");
        return 1;
    }
    set("FAKE_CUDA_LOG", "/dev/null");
    test_before();
    up();
    test_ops();
    test_lanes();
    test_memory();
    test_found();
    test_tensor();
    test_wgmma();
    test_barrier();
    test_api();
    test_async();
    test_capture();
    test_planned();
    test_files(argc - 2, argv + 2);
    down();
    section = "leaks";
    EQ(fake_cuda_live(), 0);
    printf("the CUDA double: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
