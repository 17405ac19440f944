/* test_double_barrier.h: the part of test_double.c that tests mbarrier and cp.async.bulk. The kernels are those of
 * test_double_wgmma.h: %r2 is the address of dynamic shared memory, which has data from 0 on and mbarriers from 16384 on, 16 KB of
 * `image` are at %rd1, %rd30 is the thread's 512 bytes of out; %p3 is thread 0, %p4 thread 128, %p5 the first lane of each warp.
 */
#define INIT(at, n) "@%p3 mbarrier.init.shared::cta.b64 [%r2+" #at "], " #n "; "
#define FENCE_INIT "fence.mbarrier_init.release.cluster; "
#define ARRIVE(at) "mbarrier.arrive.shared::cta.b64 _, [%r2+" #at "]; "
#define EXPECT(at, bytes) "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+" #at "], " #bytes "; "
#define BULK(to, from, bytes, at) \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+" #to "], [%rd1+" #from "], " #bytes ", [%r2+" #at "]; "
#define TRY(at, parity) \
    "{ .reg .pred q; LAB: mbarrier.try_wait.parity.shared::cta.b64 q, [%r2+" #at "], " #parity "; @q bra DONE; bra LAB; DONE: } "
#define START "setp.eq.u32 %p3, %r1, 0; setp.eq.u32 %p4, %r1, 128; and.b32 %r39, %r1, 31; setp.eq.u32 %p5, %r39, 0; "
#define READY(n) START INIT(16384, n) FENCE_INIT BAR
#define SHOW(at) "ld.shared.u32 %r20, [%r2+" #at "]; st.global.u32 [%rd30], %r20; "
#define ONE(bytes) "@!%p3 bra S; " EXPECT(16384, bytes) BULK(0, 0, bytes, 16384) "S: "

static uint32_t word(int thread, int k) {
    uint32_t u;
    memcpy(&u, &result[thread * 128 + k], 4);
    return u;
}
static uint32_t image_word(int at) {
    uint32_t u;
    memcpy(&u, image + at, 4);
    return u;
}

/* Two stages, `rounds` times 1 KB: thread 128 brings them, 128 threads add their words. how: words that go wrong are left out. */
enum { NO_EMPTY_WAIT = 1, EARLY_ARRIVE = 2, NO_WARP_SYNC = 4, NO_FULL_WAIT = 8, LAST_WARP_ONLY = 16 };
static const char *pipeline(int rounds, int how) {
    static char body[8192];
    snprintf(body, sizeof body,
             "%s mov.u32 %%r10, 0; mov.u32 %%r11, 0; shl.b32 %%r15, %%r1, 3; add.u32 %%r15, %%r15, %%r2; setp.lt.u32 %%p6, %%r1, 128; @%%p6 bra CONSUMER; @!%%p4 bra OUT;\n"
             "PRODUCER: and.b32 %%r12, %%r10, 1; shl.b32 %%r13, %%r12, 3; add.u32 %%r13, %%r13, %%r2; shr.u32 %%r14, %%r10, 1; and.b32 %%r14, %%r14, 1; xor.b32 %%r14, %%r14, 1;\n"
             "shl.b32 %%r16, %%r12, 10; add.u32 %%r16, %%r16, %%r2; mul.wide.u32 %%rd10, %%r10, 1024; add.s64 %%rd10, %%rd10, %%rd1; mov.u32 %%r17, 1024;\n"
             "%s mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%%r13+16384], %%r17;"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%r16], [%%rd10], %%r17, [%%r13+16384];"
             "add.u32 %%r10, %%r10, 1; setp.lt.u32 %%p7, %%r10, %d; @%%p7 bra PRODUCER; bra OUT;\n"
             "CONSUMER: and.b32 %%r12, %%r10, 1; shl.b32 %%r13, %%r12, 3; add.u32 %%r13, %%r13, %%r2; shr.u32 %%r14, %%r10, 1; and.b32 %%r14, %%r14, 1;\n"
             "shl.b32 %%r16, %%r12, 10; add.u32 %%r16, %%r16, %%r15; mov.u32 %%r18, 0;\n"
             "%s %s ld.shared.v2.u32 {%%r20, %%r21}, [%%r16]; add.u32 %%r11, %%r11, %%r20; add.u32 %%r11, %%r11, %%r21;\n%s %s"
             "add.u32 %%r10, %%r10, 1; setp.lt.u32 %%p7, %%r10, %d; @%%p7 bra CONSUMER;\n"
             "st.global.u32 [%%rd30], %%r11;\nOUT:",
             START INIT(16384, 1) INIT(16392, 1) INIT(16400, 4) INIT(16408, 4) FENCE_INIT BAR, how & NO_EMPTY_WAIT ? "" : "{ .reg .pred q; W: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 q, [%r13+16400], %r14; @!q bra W; }", rounds,
             how & NO_FULL_WAIT ? "" : how & LAST_WARP_ONLY ? "setp.lt.u32 %p8, %r1, 96; @%p8 bra NONE; { .reg .pred q; W: mbarrier.try_wait.parity.shared.b64 q, [%r13+16384], %r14; @!q bra W; } NONE:"
             : "W: mbarrier.try_wait.parity.shared.b64 %p8, [%r13+16384], %r14; selp.u32 %r18, 1, 0, %p8; setp.eq.u32 %p8, %r18, 0; @%p8 bra W;",
             how & EARLY_ARRIVE ? "@%p5 mbarrier.arrive.shared.b64 _, [%r13+16400];" : "", how & NO_WARP_SYNC ? "" : "bar.warp.sync 0xffffffff;",
             how & EARLY_ARRIVE ? "" : "@%p5 mbarrier.arrive.release.cta.shared::cta.b64 _, [%r13+16400];", rounds);
    return body;
}

static void barrier_results(void) {
    section = "mbarrier";
    for (int k = 0; k < IMAGE; k++) image[k] = (uint8_t)(k * 7 + k / 256);
    wg_bytes = 0, wg_dynamic = 16384 + 512;
    /* one thread: phases, states, and what is complete when */
#define SAYS(parity) "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p6, [%r2+16384], " #parity "; selp.u32 %r20, 1, 0, %p6; "
    EQ(wg_run(START "mov.u32 %r10, 2; mbarrier.init.shared.b64 [%r2+16384], %r10; "
              SAYS(0) "st.global.u32 [%rd30], %r20; " SAYS(1) "st.global.u32 [%rd30+4], %r20; "
              "mbarrier.arrive.shared.b64 %rd20, [%r2+16384]; " SAYS(0) "st.global.u32 [%rd30+8], %r20; "
              "mbarrier.arrive.release.cta.shared::cta.b64 %rd21, [%r2+16384]; " SAYS(0) "st.global.u32 [%rd30+12], %r20; "
              SAYS(1) "st.global.u32 [%rd30+16], %r20; setp.ne.u64 %p6, %rd20, %rd21; selp.u32 %r20, 1, 0, %p6; st.global.u32 [%rd30+20], %r20; "
              ARRIVE(16384) ARRIVE(16384) SAYS(1) "st.global.u32 [%rd30+24], %r20; ", 1), 0);
    const uint32_t want[] = {0, 1, 0, 1, 0, 1, 1};
    for (int k = 0; k < 7; k++) EQ(word(0, k), want[k]);
    /* a copy: everybody waits */
    EQ(wg_run(READY(1) ONE(4096) TRY(16384, 0) "shl.b32 %r10, %r1, 4; add.u32 %r10, %r10, %r2; ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%r10+1024]; " STORE4, 128), 0);
    for (int t = 0; t < 128; t++)
        for (int k = 0; k < 4; k++) EQ(word(t, k), image_word(1024 + t * 16 + k * 4));
    /* the same: one waits, then a barrier; addresses of names, size in a register */
    EQ(wg_run(".shared .align 16 .b8 sh[64]; .shared .align 8 .b64 bar; setp.eq.u32 %p3, %r1, 0; @%p3 mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; " BAR
              "@!%p3 bra S; mov.u32 %r10, 32; mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [bar], %r10; "
              "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sh+16], [%rd1+16], %r10, [bar]; "
              "W: mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar], 0, 1000; @!%p6 bra W; S: bar.sync 0; ld.shared.u32 %r20, [sh+28]; st.global.u32 [%rd30], %r20; ", 64), 0);
    EQ(word(63, 0), image_word(28));
    /* a copy before its expect_tx; two copies of a phase; arrivals of others in it */
    EQ(wg_run(READY(64) "@!%p3 bra S; " BULK(0, 0, 16, 16384) BULK(16, 64, 16, 16384) EXPECT(16384, 32) "bra F; S: " ARRIVE(16384) "F: " TRY(16384, 0) SHOW(16), 64), 0);
    EQ(word(63, 0), image_word(64));
    /* a warp waits while the others are at a barrier; lanes of one warp for each other */
    EQ(wg_run(READY(1) "setp.lt.u32 %p6, %r1, 32; @!%p6 bra S; " TRY(16384, 0) "bra F; S: setp.eq.u32 %p6, %r1, 40; @%p6 " ARRIVE(16384) "F: bar.sync 0; ", 96), 0);
    EQ(wg_run(READY(1) "@!%p3 bra S; " TRY(16384, 0) "bra F; S: setp.eq.u32 %p6, %r1, 1; @%p6 " ARRIVE(16384) "F: bar.warp.sync 0xffffffff; ", 32), 0);
    EQ(wg_run(READY(1) TRY(16384, 1) "@%p3 " ARRIVE(16384) TRY(16384, 0) "@%p3 " ARRIVE(16384) TRY(16384, 1), 32), 0); /* the phase before the first */
    EQ(wg_run(pipeline(7, 0), 160), 0);
    for (int t = 0; t < 128; t++) {
        uint32_t sum = 0;
        for (int k = 0; k < 7; k++) sum += image_word(k * 1024 + t * 8) + image_word(k * 1024 + t * 8 + 4);
        EQ(word(t, 0), sum);
    }
    wg_blocks = 5;
    EQ(wg_run(pipeline(3, 0), 160), 0);
    wg_blocks = 1;
}

/* Kernels whose shared memory comes by bulk copies give what those with stores give. */
#define FED START INIT(16384, 1) FENCE_INIT BAR "@!%p3 bra S; " EXPECT(16384, 16384) BULK(0, 0, 8192, 16384) BULK(8192, 8192, 8192, 16384) "S: "
#define MULTIPLY OPEN MMA8 SHUT WAIT(0)
static void barrier_products(void) {
    static float stored[OUT_FLOATS];
    section = "wgmma of bulk copies";
    for (int k = 0; k < 8192; k++) {
        uint16_t h = half_of(k * 5 % 13 - 6);
        memcpy(image + k * 2, &h, 2);
    }
    wg_bytes = 16384, wg_dynamic = 16384 + 64;
    EQ(wg_run(PROXY BAR "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; " MULTIPLY STORE4, 128), 0);
    memcpy(stored, result, sizeof stored);
    wg_bytes = 0;
    EQ(wg_run(FED TRY(16384, 0) "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; " MULTIPLY STORE4, 128), 0);
    CHECK(result[0] != 0 && !memcmp(result, stored, sizeof stored));
}

static void barrier_found(int checking) {
    section = checking ? "mbarrier, checking" : "mbarrier, found";
    wg_bytes = 0, wg_dynamic = 16384 + 512;
    /* objects */
    WG_FAILS(START ARRIVE(16384), 1, 719, "the mbarrier at 16384 is used before mbarrier.init");
    WG_FAILS(START TRY(16384, 0), 1, 719, "is used before mbarrier.init");
    WG_FAILS(START EXPECT(16384, 16), 1, 719, "is used before mbarrier.init");
    WG_FAILS(START BULK(0, 0, 16, 16384), 1, 719, "is used before mbarrier.init");
    WG_FAILS(START INIT(16384, 1) ARRIVE(16392), 1, 719, "the mbarrier at 16392 is used before");
    WG_FAILS(START INIT(16388, 1), 1, 716, "misaligned");
    WG_FAILS(START INIT(16384, 1) ARRIVE(16388), 1, 716, "the mbarrier at 16388 is misaligned");
    WG_FAILS(START INIT(16896, 1), 1, 700, "out of bounds");
    WG_FAILS(START INIT(16384, 0), 1, 719, "an mbarrier for 0 arrivals");
    WG_FAILS(START INIT(16384, 1048576), 1, 719, "an mbarrier for 1048576 arrivals");
    WG_FAILS(START INIT(16384, 1) INIT(16384, 1), 1, 719, "the mbarrier at 16384 is initialised again");
    WG_FAILS(START INIT(16384, 1) "st.shared.u32 [%r2+16388], 0; " ARRIVE(16384), 1, 719,
             checking ? "shared byte 16388 is a part of an mbarrier" : "the bytes of the mbarrier at 16384 were written by something else");
    WG_FAILS(START "mov.u32 %r10, 0; M: add.u32 %r11, %r2, %r10; mbarrier.init.shared.b64 [%r11], 1; add.u32 %r10, %r10, 8; setp.lt.u32 %p6, %r10, 640; @%p6 bra M; ", 1, 719, "more than 64 mbarriers");
    /* counts */
    WG_FAILS(READY(2) EXPECT(16384, 16) ARRIVE(16384) ARRIVE(16384), 1, 719, "more arrivals at the mbarrier at 16384 than its 2: the phase waits for a tx-count of 16");
    WG_FAILS(READY(1) EXPECT(16384, 1048576), 1, 719, "the tx-count of the mbarrier at 16384 becomes 1048576");
    WG_FAILS(READY(1) EXPECT(16384, 16), 1, 719, "the kernel ends with a tx-count of 16");
    WG_FAILS(READY(1) "mov.u32 %r10, 2; " TRY(16384, %r10), 1, 719, "the parity 2 is neither 0 nor 1");
    /* nobody can go on */
    WG_FAILS(READY(2) ARRIVE(16384) TRY(16384, 0), 1, 702, "no thread can go on: the phase of parity 0 of the mbarrier at 16384 wants 1 arrivals more");
    WG_FAILS(READY(1) "@%p3 bra S; " TRY(16384, 0) "S: bar.sync 0; ", 64, 702, "no thread can go on");
    WG_FAILS(READY(1) "@%p3 bra S; " TRY(16384, 0) "S: ", 64, 702, "no thread can go on");
    WG_FAILS(READY(1) EXPECT(16384, 32) BULK(0, 0, 16, 16384) TRY(16384, 0), 1, 702, "wants 0 arrivals more and has a tx-count of 16");
    WG_FAILS(READY(1) INIT(16392, 1) FENCE_INIT EXPECT(16384, 16) BULK(0, 0, 16, 16384) TRY(16392, 0), 1, 702, "1 bulk copies for other mbarriers are under way");
    WG_FAILS(READY(1) ARRIVE(16384) ARRIVE(16384) TRY(16384, 0), 1, 702, "the phase of parity 0"); /* the wait is a phase late */
    /* copies */
    WG_FAILS(READY(1) BULK(0, 0, 24, 16384), 1, 719, "a bulk copy of 24 bytes: that is no multiple of 16");
    WG_FAILS(READY(1) BULK(0, 0, 0, 16384), 1, 719, "a bulk copy of 0 bytes");
    WG_FAILS(READY(1) BULK(8, 0, 16, 16384), 1, 716, "one is misaligned, by 16");
    WG_FAILS(READY(1) BULK(0, 8, 16, 16384), 1, 716, "one is misaligned, by 16");
    WG_FAILS(READY(1) BULK(0, 65520, 32, 16384), 1, 700, "global read of 32 bytes");
    WG_FAILS(READY(1) BULK(16880, 0, 32, 16384), 1, 700, "shared write of 32 bytes at 41f0 is out of bounds");
    WG_FAILS(READY(1) BULK(16384, 0, 16, 16384), 1, 719, "a bulk copy over the mbarrier at 16384");
    WG_FAILS(READY(1) EXPECT(16384, 48) BULK(0, 0, 32, 16384) BULK(16, 0, 16, 16384), 1, 719, "the bulk copy of line");
    WG_FAILS(READY(1) EXPECT(16384, 32) BULK(0, 0, 32, 16384) INIT(24, 1), 1, 719, checking ? "while a bulk copy writes it" : "the bulk copy of line");
    WG_FAILS(READY(1) EXPECT(16384, 16) BULK(0, 0, 16, 16384), 1, 719, "the kernel ends before the bulk copy is complete");
    WG_FAILS(READY(1) ARRIVE(16384) TRY(16384, 0) BULK(0, 0, 16, 16384) TRY(16384, 1), 1, 702, "wants 1 arrivals more and has a tx-count of -16");
    WG_FAILS(READY(2) EXPECT(16384, 16) BULK(0, 0, 16, 16384) "mbarrier.test_wait.parity.shared.b64 %p6, [%r2+16384], 0; "
             "mbarrier.test_wait.parity.shared.b64 %p6, [%r2+16384], 0; mbarrier.test_wait.parity.shared.b64 %p6, [%r2+16384], 0; ", 1, 719, "nobody waited for the last bulk copy");
    WG_FAILS(READY(1) EXPECT(16384, 16) BULK(0, 0, 16, 16384) "st.global.u32 [%rd1+4], 9; " TRY(16384, 0), 1, 719, "what the bulk copy reads was changed");
    if (checking) WG_FAILS(READY(1) ONE(16) SHOW(0) TRY(16384, 0), 32, 719, "shared byte 0 is touched while a bulk copy writes it");
    else {
        EQ(wg_run(READY(1) ONE(16) SHOW(0) TRY(16384, 0), 32), 0);
        EQ(word(5, 0), 0xffffffff); /* who does not wait */
    }
    WG_FAILS(FED TRY(16384, 0) OPEN MMA8 SHUT "@!%p3 bra T; " EXPECT(16384, 16) BULK(8192, 0, 16, 16384) "T: " WAIT(0) TRY(16384, 1), 128, 719,
             checking ? "is written while the wgmma of line" : "changed before a wgmma.wait_group");
    if (!checking) return;
    WG_FAILS(pipeline(7, NO_WARP_SYNC), 160, 719, "race on shared byte"); /* lane 0 says so before the others have read */
    WG_FAILS(pipeline(7, EARLY_ARRIVE), 160, 719, "race on shared byte");
    WG_FAILS(pipeline(7, NO_EMPTY_WAIT), 160, 719, "more arrivals at the mbarrier at 16384 than its 1");
    WG_FAILS(pipeline(7, NO_FULL_WAIT), 160, 719, "is read before it is written");
    WG_FAILS(pipeline(7, LAST_WARP_ONLY), 160, 719, "is read before it is written");
    /* who sees what */
    WG_FAILS(START INIT(16384, 64) FENCE_INIT ARRIVE(16384), 64, 719, "thread 0 initialised the mbarrier at 16384, no barrier since");
    EQ(wg_run(START INIT(16384, 32) "bar.warp.sync 0xffffffff; " ARRIVE(16384), 32), 0);
    WG_FAILS(START INIT(16384, 1) BAR BULK(0, 0, 16, 16384), 1, 719, "had no fence.mbarrier_init or fence.proxy.async since");
    EQ(wg_run(START INIT(16384, 1) PROXY BAR ONE(16) TRY(16384, 0) SHOW(0), 64), 0);
    WG_FAILS(READY(1) ONE(16) "@!%p3 bra T; " TRY(16384, 0) "T: bar.warp.sync 0xffffffff; " SHOW(0), 64, 719, "while a bulk copy writes it");
    EQ(wg_run(READY(1) ONE(16) "@!%p3 bra T; " TRY(16384, 0) "T: bar.warp.sync 0xffffffff; " SHOW(0), 32), 0);
    WG_FAILS(READY(1) INIT(16392, 1) BAR ONE(16) "setp.lt.u32 %p6, %r1, 32; @!%p6 bra F; " TRY(16384, 0) "@%p3 " ARRIVE(16392) "bra G; F: " TRY(16392, 1) "setp.eq.u32 %p6, %r1, 32; @%p6 bra H; " TRY(16392, 0) "H: " "@%p6 bra G; " SHOW(0) "G: ", 160, 0, "");
    WG_FAILS(READY(1) ONE(16) "setp.eq.u32 %p6, %r1, 5; @%p6 bra F; " TRY(16384, 0) "F: " SHOW(0), 32, 719, "while a bulk copy writes it");
    WG_FAILS(READY(1) INIT(16392, 31) BAR ONE(16) "setp.eq.u32 %p6, %r1, 5; @%p6 bra F; " TRY(16384, 0) ARRIVE(16392) "bra G; F: M: setp.eq.u32 %p7, %r1, 6; @%p7 bra M; G: "
             "vote.sync.any.pred %p7, %p6, 0xffffffff; " SHOW(0), 32, 719, "a bulk copy wrote it, and its mbarrier was not waited for");
    /* ordinary accesses, ordered by arrivals and waits */
#define WRITES "setp.lt.u32 %p6, %r1, 32; shl.b32 %r10, %r1, 2; add.u32 %r10, %r10, %r2; @!%p6 bra F; "
    EQ(wg_run(READY(32) WRITES "st.shared.u32 [%r10], %r1; " ARRIVE(16384) "bra G; F: " TRY(16384, 0) SHOW(12) "G: ", 64), 0);
    EQ(word(40, 0), 3);
    WG_FAILS(READY(32) WRITES ARRIVE(16384) "st.shared.u32 [%r10], %r1; bra G; F: " TRY(16384, 0) SHOW(12) "G: ", 64, 719, "race on shared byte 12: thread 3 wrote it");
    WG_FAILS(READY(1) WRITES "st.shared.u32 [%r10], %r1; @%p3 " ARRIVE(16384) "bra G; F: " TRY(16384, 0) SHOW(12) "G: ", 64, 719, "race on shared byte 12: thread 3 wrote it");
    EQ(wg_run(READY(1) WRITES "st.shared.u32 [%r10], %r1; bar.warp.sync 0xffffffff; @%p3 " ARRIVE(16384) "bra G; F: " TRY(16384, 0) SHOW(12) "G: ", 64), 0);
    WG_FAILS(READY(32) "st.shared.u32 [%r2+64], 1; " WRITES "ld.shared.u32 %r20, [%r2+64]; " ARRIVE(16384) "bra G; F: st.shared.u32 [%r2+64], 2; G: ", 64, 719, "race on shared byte 64");
    EQ(wg_run(READY(32) "@%p3 st.shared.u32 [%r2+64], 1; bar.sync 0; " WRITES "ld.shared.u32 %r20, [%r2+64]; " ARRIVE(16384) "bra G; F: " TRY(16384, 0) "setp.eq.u32 %p7, %r1, 33; @%p7 st.shared.u32 [%r2+64], 2; G: ", 64), 0);
    /* proxies: stores before a copy to the same place, and before wgmma */
    WG_FAILS(READY(1) "@%p3 st.shared.u32 [%r2], 1; " ONE(16) TRY(16384, 0), 32, 719, "thread 0 wrote shared byte 0 and had no fence.proxy.async between that and this copy");
    EQ(wg_run(READY(1) "@%p3 st.shared.u32 [%r2], 1; " PROXY ONE(16) TRY(16384, 0), 32), 0);
    EQ(wg_run(READY(1) "setp.eq.u32 %p6, %r1, 40; @%p6 st.shared.u32 [%r2], 1; " PROXY BAR ONE(16) TRY(16384, 0), 64), 0);
    WG_FAILS(READY(1) "setp.eq.u32 %p6, %r1, 40; @%p6 st.shared.u32 [%r2], 1; " BAR PROXY ONE(16) TRY(16384, 0), 64, 719, "thread 40 wrote shared byte 0");
    WG_FAILS(FED MULTIPLY TRY(16384, 0), 128, 719, "is read while a bulk copy writes it");
    WG_FAILS(FED "setp.lt.u32 %p6, %r1, 32; @!%p6 bra F; " TRY(16384, 0) "F: " MULTIPLY, 128, 719, "is read while a bulk copy writes it");
    EQ(wg_run(FED "setp.lt.u32 %p6, %r1, 32; @!%p6 bra F; " TRY(16384, 0) "F: bar.sync 0; " MULTIPLY, 128), 0);
    WG_FAILS(FED "setp.lt.u32 %p6, %r1, 127; @!%p6 bra F; " TRY(16384, 0) "F: " MULTIPLY, 128, 719, "not all lanes of this warp waited for its mbarrier");
    wg_bytes = 16384;
    EQ(wg_run(START INIT(16384, 128) BAR PROXY ARRIVE(16384) TRY(16384, 0) MULTIPLY, 128), 0); /* an arrival tells others of the fence */
    EQ(wg_run(START INIT(16384, 128) "bar.sync 0; @%p3 " CHANGE(0) PROXY ARRIVE(16384) TRY(16384, 0) MULTIPLY, 128), 0);
    WG_FAILS(START INIT(16384, 128) BAR ARRIVE(16384) TRY(16384, 0) PROXY MULTIPLY, 128, 719, "no fence.proxy.async between"); /* too late */
    EQ(wg_run(START INIT(16384, 128) PROXY "bar.sync 0; @%p3 " CHANGE(0) PROXY ARRIVE(16384) TRY(16384, 0) MULTIPLY, 128), 0);
    WG_FAILS(START INIT(16384, 128) PROXY "bar.sync 0; @%p3 " CHANGE(0) ARRIVE(16384) TRY(16384, 0) MULTIPLY, 128, 719, "thread 0 wrote shared byte 0 and had no fence.proxy.async");
    WG_FAILS(START INIT(16384, 128) PROXY "bar.sync 0; @%p3 " CHANGE(0) ARRIVE(16384) PROXY TRY(16384, 0) MULTIPLY, 128, 719, "thread 0 wrote shared byte 0 and had no fence.proxy.async");
    /* reads of wgmma, before a copy takes the place */
    wg_bytes = 0;
    EQ(wg_run(START INIT(16384, 1) INIT(16392, 4) FENCE_INIT BAR "@!%p3 bra S; " EXPECT(16384, 16384) BULK(0, 0, 16384, 16384) "S: " TRY(16384, 0) MULTIPLY "@%p5 " ARRIVE(16392)
              "@!%p3 bra T; " TRY(16392, 0) EXPECT(16384, 16384) BULK(0, 0, 16384, 16384) "T: " TRY(16384, 1), 128), 0);
    EQ(wg_run(START INIT(16384, 1) INIT(16392, 1) FENCE_INIT BAR "@!%p4 bra S; " EXPECT(16384, 16384) BULK(0, 0, 16384, 16384) "S: " TRY(16384, 0) "setp.ge.u32 %p6, %r1, 128; @%p6 bra U; " MULTIPLY
              "@%p3 " ARRIVE(16392) "U: @!%p4 bra T; " TRY(16392, 0) EXPECT(16384, 16384) BULK(0, 0, 16384, 16384) "T: " TRY(16384, 1), 160), 0); /* one arrival for four warps */
    WG_FAILS(START INIT(16384, 1) INIT(16392, 1) FENCE_INIT BAR "@!%p4 bra S; " EXPECT(16384, 16384) BULK(0, 0, 16384, 16384) "S: " TRY(16384, 0) "setp.ge.u32 %p6, %r1, 128; @%p6 bra U; " "@%p3 " ARRIVE(16392)
             MULTIPLY "U: @!%p4 bra T; " TRY(16392, 0) EXPECT(16384, 16384) BULK(0, 0, 16384, 16384) "T: " TRY(16384, 1), 160, 719, "race on shared byte");
    WG_FAILS(START INIT(16384, 1) FENCE_INIT BAR "@!%p4 bra S; " EXPECT(16384, 16384) BULK(0, 0, 16384, 16384) "S: " TRY(16384, 0) "setp.ge.u32 %p6, %r1, 128; @%p6 bra U; " MULTIPLY "U: "
             "@!%p4 bra T; " EXPECT(16384, 16384) BULK(0, 0, 16384, 16384) "T: " TRY(16384, 1), 160, 719, "race on shared byte");
    section = "cp.async and a warp, checking"; /* lanes read what the others brought */
#define FETCH "shl.b32 %r10, %r1, 4; add.u32 %r11, %r10, %r2; cvt.u64.u32 %rd10, %r10; add.s64 %rd10, %rd10, %rd1; cp.async.cg.shared.global [%r11], [%rd10], 16; cp.async.commit_group; cp.async.wait_group 0; "
#define NEXT "xor.b32 %r10, %r10, 16; add.u32 %r11, %r10, %r2; ld.shared.u32 %r20, [%r11]; st.global.u32 [%rd30], %r20; "
    EQ(wg_run(FETCH "bar.warp.sync 0xffffffff; " NEXT, 64), 0);
    EQ(word(40, 0), image_word(41 * 16));
    WG_FAILS(FETCH NEXT, 64, 719, "race on shared byte");
    EQ(wg_run(READY(64) FETCH "bar.warp.sync 0xffffffff; " NEXT, 64), 0); /* the same in a kernel that has mbarriers */
    WG_FAILS(READY(64) FETCH NEXT, 64, 719, "race on shared byte");
    EQ(wg_run(READY(64) FETCH ARRIVE(16384) TRY(16384, 0) NEXT, 64), 0);
}

static void test_barrier(void) {
    section = "mbarrier, names";
    set("FAKE_CUDA_CAPABILITY", "90");
#define A_WAIT "mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0;"
    WG_LOADS("mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.shared.b64 %rd20, [%r2]; mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0;", "sm_80", "7.1", 0, "");
    WG_LOADS(A_WAIT, "sm_90", "7.8", 0, "");
    WG_LOADS(A_WAIT, "sm_80", "7.8", 218, "it needs .version 7.8 and .target sm_90");
    WG_LOADS(ARRIVE(0), "sm_80", "7.1", 218, "it needs .version 7.8 and .target sm_80");
    WG_LOADS(EXPECT(0, 16), "sm_90", "7.8", 218, "it needs .version 8.0 and .target sm_90");
    WG_LOADS(BULK(0, 0, 16, 0), "sm_80", "8.0", 218, "it needs .version 8.0 and .target sm_90");
    WG_LOADS(FENCE_INIT, "sm_90", "7.8", 218, "it needs .version 8.0 and .target sm_90");
    WG_LOADS("mbarrier.inval.shared.b64 [%r2];", "sm_90", "8.0", 218, "mbarrier.inval");
    WG_LOADS("mbarrier.try_wait.shared.b64 %p3, [%r2], %rd10;", "sm_90", "8.0", 218, "mbarrier.try_wait.shared");
    WG_LOADS("mbarrier.arrive.b64 _, [%r2];", "sm_90", "8.0", 218, "mbarrier.arrive.b64");
    WG_LOADS("mbarrier.arrive.shared.b64 %r20, [%r2];", "sm_90", "8.0", 218, "operand 1 is not of 64 bits");
    WG_LOADS("mbarrier.try_wait.parity.shared.b64 _, [%r2], 0;", "sm_90", "8.0", 218, "operand 1 is not of 1 bits");
    WG_LOADS("mbarrier.try_wait.parity.shared.b64 %p3, [%r2], %rd10;", "sm_90", "8.0", 218, "operand 3 is not of 32 bits");
    WG_LOADS("mbarrier.init.shared.b64 [%r2];", "sm_90", "8.0", 218, "1 operands, not 2");
    WG_LOADS("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;", "sm_90", "8.0", 218, "cp.async.bulk.global");
    WG_LOADS("bra X; { X: } { bra X; }", "sm_90", "8.0", 218, "unknown symbol X"); /* labels are known in their braces */
    for (int checking = 0; checking < 2; checking++) {
        set("FAKE_CUDA_CHECK", checking ? "1" : NULL);
        down();
        up();
        barrier_results();
        barrier_products();
        barrier_found(checking);
    }
    set("FAKE_CUDA_CHECK", NULL);
    set("FAKE_CUDA_CAPABILITY", NULL);
}
