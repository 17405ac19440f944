/* test_double_wgmma.h: the part of test_double.c that tests products of four warps (wgmma): numbers against a plain loop for each
 * type, swizzle and some widths, and one test for everything that must be found. What lies in shared memory is made here by
 * formulas of its own: a chunk of 16 bytes of a row is moved to the place whose number is crossed with the row's.
 */

enum { A_ROWS = 64, K_ALL = 64, OUT_FLOATS = 256 * 128, IMAGE = 65536 };
static uint8_t image[IMAGE];
static float result[OUT_FLOATS];
static char wg_text[200000];
static unsigned wg_bytes, wg_dynamic, wg_blocks = 1;

#define PROXY "fence.proxy.async.shared::cta; "
#define BAR "bar.sync 0; "
#define OPEN "wgmma.fence.sync.aligned; "
#define SHUT "wgmma.commit_group.sync.aligned; "
#define WAIT(n) "wgmma.wait_group.sync.aligned " #n "; "
#define STORE4 "st.global.v4.f32 [%rd30], {%f0, %f1, %f2, %f3}; "
#define MMA8 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd11, %rd12, 1, 1, 1, 0, 0; "
#define MMA16 \
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, %rd11, %rd12, 1, 1, 1, 0, 0; "

/* A kernel: wg_bytes of in come to dynamic shared memory, in pieces of 16 bytes; %r2 is its address, %rd10 that in a descriptor,
 * %rd11 and %rd12 descriptors of A at 0 and of B at 8192 with a swizzle of 128 bytes, %rd30 the thread's 512 bytes of out. */
static const char *wg_kernel(const char *body, const char *target, const char *version) {
    snprintf(wg_text, sizeof wg_text,
             ".version %s\n.target %s\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n"
             ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u32 pn)\n{\n"
             ".reg .pred %%p<9>; .reg .b32 %%r<40>; .reg .f32 %%f<140>; .reg .b64 %%rd<40>;\n"
             "ld.param.u64 %%rd0, [pa]; ld.param.u64 %%rd1, [pb]; ld.param.u32 %%r0, [pn]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, dyn;\n"
             "shl.b32 %%r3, %%r1, 4; mul.wide.u32 %%rd2, %%r1, 512; add.s64 %%rd30, %%rd0, %%rd2; mov.u32 %%r9, %%ntid.x; shl.b32 %%r9, %%r9, 4;\n"
             "L: setp.ge.u32 %%p1, %%r3, %%r0; @%%p1 bra E; cvt.u64.u32 %%rd3, %%r3; add.s64 %%rd3, %%rd1, %%rd3;\n"
             "ld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%rd3]; add.u32 %%r8, %%r2, %%r3;\n"
             "st.shared.v4.u32 [%%r8], {%%r4, %%r5, %%r6, %%r7}; add.u32 %%r3, %%r3, %%r9; bra L;\nE:\n"
             "cvt.u64.u32 %%rd10, %%r2; shr.u64 %%rd10, %%rd10, 4; and.b64 %%rd10, %%rd10, 0x3fff;\n"
             "add.s64 %%rd11, %%rd10, 0x4000004000010000; add.s64 %%rd12, %%rd10, 0x4000004000010200; setp.ge.u32 %%p2, %%r1, 96;\n%s\nret;\n}\n",
             version, target, body);
    return wg_text;
}

static int wg_run(const char *body, unsigned threads) {
    void *m, *f, *params[3];
    devptr to, from;
    int rc;
    params[0] = &to, params[1] = &from, params[2] = &wg_bytes;
    rc = cuModuleLoadData(&m, wg_kernel(body, "sm_90a", "8.0"));
    if (rc) return rc;
    rc = cuModuleGetFunction(&f, m, "k");
    if (!rc) rc = cuFuncSetAttribute(f, 8, (int)wg_dynamic);
    if (!rc) rc = cuMemAlloc_v2(&to, sizeof result);
    if (!rc) rc = cuMemAlloc_v2(&from, sizeof image);
    if (!rc) rc = cuMemcpyHtoD_v2(from, image, sizeof image);
    if (!rc) rc = cuMemsetD8_v2(to, 0, sizeof result);
    if (!rc) rc = cuLaunchKernel(f, wg_blocks, 1, 1, threads, 1, 1, wg_dynamic, NULL, params, NULL);
    if (!rc) rc = cuCtxSynchronize();
    if (!rc) rc = cuMemcpyDtoH_v2(result, to, sizeof result);
    cuMemFree_v2(to);
    cuMemFree_v2(from);
    cuModuleUnload(m);
    return rc;
}
static void wg_fails(int line, const char *body, unsigned threads, int code, const char *says) {
    int rc = wg_run(body, threads);
    check(rc == code, line, "the kernel's error", rc, code);
    check(strstr(fake_cuda_message(), says) != NULL, line, says, 0, 0);
    if (rc >= 700) {
        down();
        up();
    }
}
#define WG_FAILS(body, threads, code, says) wg_fails(__LINE__, body, threads, code, says)

/* ---- numbers ----------------------------------------------------------------------------------------------------------- */

static int a_at(int x, int z) { return (x * 7 + z * 5) % 23 - 11; }
static int b_at(int z, int y) { return (z * 3 + y * 11 + z * y % 5) % 19 - 9; }
static void put(unsigned at, int v, int bf16) {
    uint16_t u = bf16 ? (uint16_t)(float_of((float)v) >> 16) : half_of(v);
    memcpy(image + at, &u, 2);
}

/* Where the 16 bytes with elements 8 j .. 8 j + 7 of a row are, from the matrix's beginning; and what a descriptor of 16 of its
 * columns, from 16 s on, says beside that. Without a swizzle A and B are laid out differently, to have two kinds of offsets. */
static unsigned chunk_at(int swizzle, int rows, int row, int j, int is_b) {
    int line = 256 >> swizzle, panel = swizzle ? j / (line / 16) : 0;
    if (!swizzle && is_b) return (unsigned)(j / 2 * rows * 32 + row / 8 * 256 + j % 2 * 128 + row % 8 * 16);
    if (!swizzle) return (unsigned)(j * rows * 16 + row * 16);
    j %= line / 16;
    j ^= swizzle == 1 ? row % 8 : swizzle == 2 ? row / 2 % 4 : row / 4 % 2;
    return (unsigned)(panel * rows * line + row * line + j * 16);
}
static uint64_t slice(int swizzle, int rows, int s, unsigned at, int is_b) {
    int line = 256 >> swizzle, per = line / 32;
    uint64_t lead = 1, stride = (uint64_t)line / 2, start;
    if (swizzle) start = (uint64_t)(s / per * rows * line + s % per * 32);
    else if (is_b) start = (uint64_t)(s * rows * 32), lead = 8, stride = 16;
    else start = (uint64_t)(s * rows * 32), lead = (uint64_t)rows, stride = 8;
    return ((at + start) >> 4) | lead << 16 | stride << 32 | (uint64_t)(swizzle ? at >> 7 & 7 : 0) << 49 | (uint64_t)swizzle << 62;
}

enum { FROM_REGISTERS = 1, NEGATIVE = 2, FRESH = 4, TWO_GROUPS = 8 };
/* shift: where A begins in dynamic shared memory */
static void wg_numbers(int n, int bf16, int swizzle, unsigned shift, int how) {
    static char body[60000];
    const char *type = bf16 ? "bf16" : "f16";
    unsigned b_from = (shift + A_ROWS * K_ALL * 2 + 1023) & ~1023u;
    size_t at = 0, room = sizeof body;
    int s, x, y, z, k, r, before = failed;
    section = "wgmma";
    memset(image, 0xff, sizeof image);
    for (x = 0; x < A_ROWS; x++)
        for (z = 0; z < K_ALL; z++) put(shift + chunk_at(swizzle, A_ROWS, x, z / 8, 0) + z % 8 * 2, a_at(x, z), bf16);
    for (y = 0; y < n; y++)
        for (z = 0; z < K_ALL; z++) put(b_from + chunk_at(swizzle, n, y, z / 8, 1) + z % 8 * 2, b_at(z, y), bf16);
    wg_bytes = b_from + (unsigned)n * K_ALL * 2, wg_dynamic = wg_bytes;
#define ADD(...) at += (size_t)snprintf(body + at, room - at, __VA_ARGS__)
    ADD(PROXY BAR "setp.eq.u32 %%p3, %%r1, 1000;\n");
    for (k = 0; k < n / 2; k++) ADD("mov.f32 %%f%d, 0f40400000;\n", k); /* 3 */
    for (s = 0; s < K_ALL / 16; s++) {
        if (how & FROM_REGISTERS) { /* A's fragment: rows of the lane, pairs of columns */
            ADD("shr.u32 %%r10, %%r1, 5; shl.b32 %%r10, %%r10, 4; and.b32 %%r11, %%r1, 31; shr.u32 %%r12, %%r11, 2; add.u32 %%r10, %%r10, %%r12; and.b32 %%r11, %%r11, 3; shl.b32 %%r11, %%r11, 2;\n");
            for (r = 0; r < 4; r++) /* no swizzle: chunk j of a row at 1024 j + 16 row */
                ADD("shl.b32 %%r13, %%r10, 4; add.u32 %%r13, %%r13, %%r11; add.u32 %%r13, %%r13, %%r2; ld.shared.u32 %%r%d, [%%r13+%d];\n", 20 + s * 4 + r,
                    (int)shift + 2 * s * A_ROWS * 16 + (r & 1) * 128 + (r >> 1) * A_ROWS * 16);
        }
    }
    ADD(OPEN "\n");
    for (s = 0; s < K_ALL / 16; s++) {
        ADD("add.s64 %%rd11, %%rd10, %llu; add.s64 %%rd12, %%rd10, %llu;\n", (unsigned long long)slice(swizzle, A_ROWS, s, shift, 0),
            (unsigned long long)slice(swizzle, n, s, b_from, 1));
        ADD("wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {", n, type, type);
        for (k = 0; k < n / 2; k++) ADD("%s%%f%d", k ? ", " : "", k);
        if (how & FROM_REGISTERS) ADD("}, {%%r%d, %%r%d, %%r%d, %%r%d}, %%rd12, ", 20 + s * 4, 21 + s * 4, 22 + s * 4, 23 + s * 4);
        else ADD("}, %%rd11, %%rd12, ");
        ADD("%s, %d, 1%s, 0;\n", how & FRESH && s == 0 ? "%p3" : how & FRESH && s == 1 ? "!%p3" : "1", how & NEGATIVE ? -1 : 1,
            how & FROM_REGISTERS ? "" : ", 0");
        if (how & TWO_GROUPS && s == 1) ADD(SHUT);
        if (how & TWO_GROUPS && s == 2) ADD(WAIT(1));
    }
    ADD(SHUT WAIT(0) "\n");
    for (k = 0; k < n / 2; k += 4) ADD("st.global.v4.f32 [%%rd30+%d], {%%f%d, %%f%d, %%f%d, %%f%d};\n", k * 4, k, k + 1, k + 2, k + 3);
    EQ(wg_run(body, 128), 0);
    for (int t = 0; t < 128 && failed < before + 5; t++)
        for (r = 0; r < n / 2; r++) { /* the fragment as the manual has it, d0 .. */
            int sum = 0, lane = t % 32;
            x = 16 * (t / 32) + lane / 4 + (r % 4 < 2 ? 0 : 8), y = r / 4 * 8 + lane % 4 * 2 + r % 2;
            for (z = 0; z < K_ALL; z++) sum += a_at(x, z) * b_at(z, y);
            sum = (how & NEGATIVE ? -sum : sum) + (how & FRESH ? 0 : 3);
            if (result[t * 128 + r] != sum) EQ(result[t * 128 + r], sum);
        }
    CHECK(failed == before);
}

/* ---- what must be found ---------------------------------------------------------------------------------------------------- */

static void wg_loads(int line, const char *body, const char *target, const char *version, int code, const char *says) {
    void *m;
    int rc = cuModuleLoadData(&m, wg_kernel(body, target, version));
    check(rc == code, line, body, rc, code);
    check(!rc || strstr(fake_cuda_message(), says) != NULL, line, says, 0, 0);
    if (!rc) cuModuleUnload(m);
}
#define WG_LOADS(body, target, version, code, says) wg_loads(__LINE__, body, target, version, code, says)

static void wg_found(int checking) {
    section = checking ? "wgmma, checking" : "wgmma, found";
    memset(image, 0, sizeof image);
    wg_bytes = 16384, wg_dynamic = 16384;
    EQ(wg_run(PROXY BAR OPEN MMA8 MMA8 SHUT MMA8 SHUT WAIT(0) OPEN MMA8 SHUT WAIT(0) STORE4, 256), 0); /* two warpgroups */
    EQ(wg_run(PROXY BAR OPEN MMA16 OPEN MMA8 SHUT WAIT(0) STORE4, 128), 0);
    EQ(wg_run(PROXY BAR "setp.lt.u32 %p3, %r1, 128; @!%p3 bra S; " OPEN MMA8 SHUT WAIT(0) STORE4 "S:", 256), 0); /* one of them */
    /* registers */
    WG_FAILS(PROXY BAR MMA8 SHUT WAIT(0), 128, 719, "no wgmma.fence since the kernel began");
    WG_FAILS(PROXY BAR OPEN "mov.f32 %f1, 0f00000000; " MMA8 SHUT WAIT(0), 128, 719, "touched register 1 of D");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT WAIT(0) "add.f32 %f9, %f2, %f2; " MMA8 SHUT WAIT(0), 128, 719, "touched register 2 of D");
    WG_FAILS(PROXY BAR OPEN MMA16 MMA8 SHUT WAIT(0), 128, 719, "register 0 of D belongs to a wgmma of another shape");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT "mov.f32 %f3, 0f00000000; " WAIT(0), 128, 719, "a register of a wgmma under way, an accumulator");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT STORE4 WAIT(0), 128, 719, "a register of a wgmma under way");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT WAIT(1) STORE4 WAIT(0), 128, 719, "a register of a wgmma under way"); /* the last one may go on */
    WG_FAILS(PROXY BAR OPEN MMA8 WAIT(0) STORE4, 128, 719, "a register of a wgmma under way");              /* not committed */
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT, 128, 719, "the kernel ends before");
    WG_FAILS(PROXY BAR OPEN MMA8 WAIT(0), 128, 719, "the kernel ends before");
#define SUMS "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r20, %r21, %r22, %r23}, %rd11, %rd12, 1, 1, 1, 0, 0; "
#define FEED "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, {%r20, %r21, %r22, %r23}, %rd12, 1, 1, 1, 0; "
    EQ(wg_run(PROXY BAR OPEN SUMS SHUT WAIT(0) OPEN FEED SHUT WAIT(0), 128), 0);
    EQ(wg_run(PROXY BAR OPEN MMA8 SHUT SUMS SHUT WAIT(1) STORE4 WAIT(0), 128), 0); /* the last but one has come */
    WG_FAILS(PROXY BAR OPEN SUMS SHUT WAIT(0) FEED SHUT WAIT(0), 128, 719, "register 0 of A belongs to a wgmma of another shape");
    WG_FAILS(PROXY BAR OPEN SUMS SHUT OPEN FEED SHUT WAIT(0), 128, 719, "register 0 of A is an accumulator of a wgmma under way");
    WG_FAILS(PROXY BAR OPEN FEED SHUT OPEN SUMS SHUT WAIT(0), 128, 719, "register 0 of D is a part of A of a wgmma under way");
    WG_FAILS(PROXY BAR OPEN FEED SHUT "mov.u32 %r23, 0; " WAIT(0), 128, 719, "a part of A, is touched");
    WG_FAILS(PROXY BAR OPEN "mov.u32 %r23, 0; " FEED SHUT WAIT(0), 128, 719, "touched register 3 of A");
    /* all four warps, all lanes */
    WG_FAILS(PROXY BAR OPEN "@%p2 bra S; " MMA8 SHUT WAIT(0) "S:", 128, 719, "warp 3 of the warpgroup has not executed it and has ended");
    WG_FAILS(PROXY BAR OPEN "@%p2 bra S; " MMA8 SHUT WAIT(0) "S: bar.sync 0;", 128, 719, "warp 3 of the warpgroup has not executed it and is at a barrier");
    WG_FAILS(PROXY BAR OPEN "@%p2 bra S; " MMA8 SHUT WAIT(0) "bra F; S: " MMA8 SHUT WAIT(0) "F:", 128, 719, "wgmma is for all four together");
    WG_FAILS(PROXY BAR OPEN "setp.eq.u32 %p3, %r1, 40; @%p3 bra S; " MMA8 SHUT WAIT(0) "S:", 128, 719, "only lanes fffffeff");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT WAIT(0), 96, 719, "the warpgroup has 3 warps only");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT WAIT(0), 120, 719, "only lanes 00ffffff");
    WG_FAILS(PROXY BAR OPEN "@%p2 add.s64 %rd12, %rd12, 64; " MMA8 SHUT WAIT(0), 128, 719, "the descriptor of B is 4000004000010240, in warp 0");
    WG_FAILS(PROXY BAR OPEN "@%p2 add.s64 %rd11, %rd11, 64; " MMA8 SHUT WAIT(0), 128, 719, "the descriptor of A is 4000004000010040, in warp 0");
    WG_FAILS(PROXY BAR OPEN "setp.eq.u32 %p3, %r1, 5; @%p3 add.s64 %rd11, %rd11, 64; " MMA8 SHUT WAIT(0), 128, 719, "in lane 0");
#define MMA_P "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd11, %rd12, %p2, 1, 1, 0, 0; "
    WG_FAILS(PROXY BAR OPEN MMA_P SHUT WAIT(0), 128, 719, "scale-d is not that of warp 0");
    WG_FAILS(PROXY BAR OPEN "setp.eq.u32 %p2, %r1, 5; " MMA_P SHUT WAIT(0), 128, 719, "scale-d is not the same in all lanes");
    /* descriptors */
    WG_FAILS(PROXY BAR OPEN "or.b64 %rd11, %rd11, 0x4000; " MMA8 SHUT WAIT(0), 128, 719, "has bits that mean nothing");
    WG_FAILS(PROXY BAR OPEN "add.s64 %rd11, %rd11, 8; " MMA8 SHUT WAIT(0), 128, 719, "A begins at 128, with base offset 0: that is 128 bytes into a pattern of 1024");
    WG_FAILS(PROXY BAR OPEN "add.s64 %rd12, %rd12, 7; " MMA8 SHUT WAIT(0), 128, 719, "B begins at 8304"); /* 32 bytes leave the line of 128 */
    WG_FAILS(PROXY BAR OPEN "add.s64 %rd12, %rd12, 512; " MMA8 SHUT WAIT(0), 128, 700, "row 0 of B at 16384 is out of bounds");
    /* buffers: a thread changes one too early, or in time */
#define CHANGE(at) "st.shared.u32 [%r2+" #at "], 9; "
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT "@!%p2 bra S; " CHANGE(8192) "S: " WAIT(0), 128, 719, checking ? "is written while the wgmma of line" : "changed before a wgmma.wait_group");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT BAR CHANGE(0) WAIT(0), 128, 719, checking ? "is written while the wgmma of line" : "row 0 of A, at 0 of shared memory, changed");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT MMA8 SHUT WAIT(1) BAR CHANGE(0) WAIT(0), 128, 719, checking ? "is written while" : "changed before");
    EQ(wg_run(PROXY BAR OPEN MMA8 SHUT WAIT(0) BAR CHANGE(0), 128), 0);
    EQ(wg_run(PROXY BAR OPEN MMA8 SHUT CHANGE(12288) WAIT(0), 128), 0); /* another place */
    if (!checking) return;
    WG_FAILS(BAR OPEN MMA8 SHUT WAIT(0), 128, 719, "no fence.proxy.async between");
    WG_FAILS(BAR PROXY OPEN MMA8 SHUT WAIT(0), 128, 719, "no fence.proxy.async between"); /* too late for the others */
    WG_FAILS("fence.proxy.async.global; " BAR OPEN MMA8 SHUT WAIT(0), 128, 719, "no fence.proxy.async between");
    WG_FAILS(PROXY OPEN MMA8 SHUT WAIT(0), 128, 719, "no barrier since");
    WG_FAILS(PROXY BAR "@!%p2 bra S; " CHANGE(0) "S: bar.sync 0; " OPEN MMA8 SHUT WAIT(0), 128, 719, "no fence.proxy.async between");
    EQ(wg_run(PROXY BAR "@!%p2 bra S; " CHANGE(0) PROXY "S: bar.sync 0; " OPEN MMA8 SHUT WAIT(0), 128), 0);
    EQ(wg_run("fence.proxy.async; " BAR OPEN MMA8 SHUT WAIT(0), 128), 0);
    WG_FAILS(PROXY BAR "setp.ne.u32 %p3, %r1, 0; @%p3 bra S; " CHANGE(0) "S: bar.sync 0; " PROXY OPEN MMA8 SHUT WAIT(0), 128, 719, "thread 0 wrote shared byte 0 and had no fence.proxy.async between");
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT WAIT(0) CHANGE(0), 128, 719, "race on shared byte 0"); /* others may still multiply */
    EQ(wg_run(PROXY BAR OPEN MMA8 SHUT WAIT(0) "add.u32 %r20, %r2, %r1; st.shared.u8 [%r20+10240], %r1;", 128), 0);
#define FLY "cp.async.cg.shared.global [%r2], [%rd1], 16; cp.async.commit_group; "
    WG_FAILS(PROXY BAR "setp.ne.u32 %p3, %r1, 0; @%p3 bra S; " FLY "S: " PROXY "bar.sync 0; " OPEN MMA8 SHUT WAIT(0), 128, 719, "before its cp.async was waited for");
    WG_FAILS(PROXY BAR "setp.ne.u32 %p3, %r1, 0; @%p3 bra S; " FLY PROXY "cp.async.wait_all; S: bar.sync 0; " OPEN MMA8 SHUT WAIT(0), 128, 719, "no fence.proxy.async between");
    EQ(wg_run(PROXY BAR "setp.ne.u32 %p3, %r1, 0; @%p3 bra S; " FLY "cp.async.wait_all; " PROXY "S: bar.sync 0; " OPEN MMA8 SHUT WAIT(0), 128), 0);
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT "setp.ne.u32 %p3, %r1, 0; @%p3 bra S; " FLY "cp.async.wait_all; S: " WAIT(0), 128, 719, "is written while the wgmma of line");
    wg_bytes = 8192;
    WG_FAILS(PROXY BAR OPEN MMA8 SHUT WAIT(0), 128, 719, "B: shared byte 8192 is read before it is written");
}

static void test_wgmma(void) {
    void *m, *f, *params[3];
    unsigned n;
    section = "sm_90a";
    set("FAKE_CUDA_CAPABILITY", "80");
    WG_LOADS("", "sm_90a", "8.0", 209, "SM version");
    set("FAKE_CUDA_CAPABILITY", "100");
    WG_LOADS("", "sm_90a", "8.0", 209, "SM version");
    WG_LOADS("", "sm_90", "8.0", 0, "");
    set("FAKE_CUDA_CAPABILITY", "90");
    set("FAKE_CUDA_DRIVER", "11080");
    WG_LOADS(OPEN, "sm_90a", "8.0", 222, "version");
    set("FAKE_CUDA_DRIVER", "12000");
    WG_LOADS(OPEN MMA8 SHUT WAIT(0) PROXY "fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cluster;", "sm_90a", "8.0", 0, "");
    set("FAKE_CUDA_DRIVER", NULL);
    WG_LOADS(OPEN, "sm_90", "8.0", 218, "it needs .version 8.0 and .target sm_90a");
    WG_LOADS(OPEN, "sm_90a", "7.8", 218, "it needs .version 8.0 and .target sm_90a");
    WG_LOADS(PROXY, "sm_80", "8.0", 218, "it needs .version 8.0 and .target sm_90");
    WG_LOADS("fence.proxy.alias;", "sm_90a", "8.0", 218, "fence.proxy.alias");
    WG_LOADS("wgmma.wait_group.sync.aligned %r1;", "sm_90a", "8.0", 218, "a number of groups");
#define PRODUCT(shape, types, d, rest) WG_LOADS("wgmma.mma_async.sync.aligned." shape "." types " {" d "}, %rd11, %rd12, " rest ";", "sm_90a", "8.0", 218
    PRODUCT("m64n8k16", "f32.f16.f16", "%f0, %f1, %f2, %f3", "1, 1, 1, 0, 1"), "imm-trans of B is not 0");
    PRODUCT("m64n8k16", "f32.f16.f16", "%f0, %f1, %f2, %f3", "1, 1, 1, 1, 0"), "imm-trans of A is not 0");
    PRODUCT("m64n8k16", "f32.f16.f16", "%f0, %f1, %f2, %f3", "1, 1, 2, 0, 0"), "imm-scale-b is neither 1 nor -1");
    PRODUCT("m64n8k16", "f32.f16.f16", "%f0, %f1, %f2, %f3", "2, 1, 1, 0, 0"), "wgmma.mma_async");
    PRODUCT("m64n8k16", "f32.f16.f16", "%f0, %f1, %f2, %f3", "1, 1, 1"), "6 operands, not 8");
    PRODUCT("m64n8k16", "f32.f16.f16", "%f0, %f1, %f2", "1, 1, 1, 0, 0"), "D has 3 registers, not 4");
    PRODUCT("m64n8k16", "f32.f16.f16", "%f0, %f1, %f2, %f2", "1, 1, 1, 0, 0"), "D has a register twice");
    PRODUCT("m64n12k16", "f32.f16.f16", "%f0, %f1, %f2, %f3", "1, 1, 1, 0, 0"), "no such shape");
    PRODUCT("m64n8k8", "f32.f16.f16", "%f0, %f1, %f2, %f3", "1, 1, 1, 0, 0"), "no such shape");
    PRODUCT("m64n8k8", "f32.tf32.tf32", "%f0, %f1, %f2, %f3", "1, 1, 1"), "only products of f16 or of bf16");
    PRODUCT("m64n8k16", "f32.f16.bf16", "%f0, %f1, %f2, %f3", "1, 1, 1, 0, 0"), "only products of f16 or of bf16");
    for (int checking = 0; checking < 2; checking++) {
        set("FAKE_CUDA_CHECK", checking ? "1" : NULL);
        for (int swizzle = 0; swizzle < 4; swizzle++) {
            wg_numbers(8, 0, swizzle, 0, 0);
            wg_numbers(64, 1, swizzle, 0, FRESH);
            wg_numbers(136, swizzle & 1, swizzle, 0, TWO_GROUPS);
            wg_numbers(256, swizzle & 1, swizzle, 0, NEGATIVE);
            wg_numbers(16, 0, swizzle, swizzle == 0 ? 16 : 1024, 0);
        }
        for (int base = 1; base < 8; base++) wg_numbers(24, 0, 1, (unsigned)base * 128, 0); /* base offsets */
        wg_numbers(32, 0, 0, 0, FROM_REGISTERS);
        wg_numbers(256, 1, 0, 0, FROM_REGISTERS | FRESH);
        wg_found(checking);
    }
    set("FAKE_CUDA_CHECK", NULL);
    section = "much shared memory";
    wg_bytes = 16384, wg_dynamic = 232448;
    EQ(wg_run(PROXY BAR "add.u32 %r20, %r2, 232444; st.shared.u32 [%r20], 77; ld.shared.f32 %f0, [%r20]; st.global.f32 [%rd30], %f0;", 128), 0);
    memcpy(&n, result, 4);
    EQ(n, 77);
    wg_dynamic = 232449;
    EQ(wg_run("", 128), 1);
    EQ(cuModuleLoadData(&m, wg_kernel(".shared .align 4 .b8 sh[100]; mov.u32 %r20, sh; sub.u32 %r20, %r2, %r20; st.global.u32 [%rd0], %r20;", "sm_90a", "8.0")), 0);
    EQ(cuModuleGetFunction(&f, m, "k"), 0);
    n = 0;
    params[0] = &out_at, params[1] = &in_at, params[2] = &n;
    EQ(cuFuncSetAttribute(f, 8, 232448 - 111), 1); /* what is static counts, in units of 16 */
    EQ(cuFuncSetAttribute(f, 8, 100000), 0);
    EQ(cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 100001, NULL, params, NULL), 1);
    EQ(cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 100000, NULL, params, NULL), 0);
    EQ(cuMemcpyDtoH_v2(out, out_at, sizeof out), 0);
    EQ(out[0], 112); /* not aligned as it was declared: see README.md */
    EQ(cuModuleUnload(m), 0);
    set("FAKE_CUDA_CAPABILITY", NULL);
}
