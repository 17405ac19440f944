/* dialect.h: the only file that knows which GPU language a kernel is compiled as. The rules are in README.md.
 * Targets: OpenCL C 1.2; CUDA by clang without a toolkit; HIP by hiprtc or clang; Metal.
 * A kernel:   ARGS(scale) { uint n; float by; uint pad0, pad1; };
 *             KERNEL(scale, 64)(GBUF(float, x, 0), GARGS(scale, a, 1) GTID) { ... }
 * Inside:     LID = number in the group; GROUP_X, GROUP_Y, GROUP_Z = which group. Only kernels may use them: functions
 *             (FN) get numbers as arguments.
 */
#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)

#define GLOBAL __global
#define LOCAL __local
#define PRIVATE __private
#define FN static
#define TABLE(T, name, n) __constant T name[n]
#define BOOK(T, name, n) __constant T name[n]
#define ARGS(name) struct name##_args
#define KERNEL(name, size) __kernel __attribute__((reqd_work_group_size(size, 1, 1))) void k_##name
#define GBUF(T, p, i) __global T *p
#define GARGS(name, a, i) const struct name##_args a
#define GTID
#define LOCAL_ARRAY(T, name, n) __local T name[n]
#define LID ((uint)get_local_id(0))
#define GROUP_X ((uint)get_group_id(0))
#define GROUP_Y ((uint)get_group_id(1))
#define GROUP_Z ((uint)get_group_id(2))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define BITS(x) as_uint(x)
#define FLOAT(u) as_float(u)
#define SQRT(x) sqrt(x)
#define FMA(a, b, c) fma(a, b, c)
#define RINT(x) rint(x)
FN float h2f(ushort h) { return vload_half(0, (const PRIVATE half *)&h); }
FN ushort f2h(float x) { ushort h; vstore_half_rte(x, 0, (PRIVATE half *)&h); return h; }
#ifdef INFER_DOT4 /* by driver_opencl.c, where the device lists cl_khr_integer_dot_product; OpenCL C 3.0 then */
#define DOT4(a, b, c) ((c) + dot_4x8packed_ss_int(a, b))
#endif

#elif defined(__METAL_VERSION__)

#include <metal_stdlib>
using namespace metal;
#define GLOBAL device
#define LOCAL threadgroup
#define PRIVATE thread
#define FN static inline
#define TABLE(T, name, n) constant T name[n]
#define BOOK(T, name, n) constant T name[n]
#define ARGS(name) struct name##_args
#define KERNEL(name, size) [[max_total_threads_per_threadgroup(size)]] kernel void k_##name
#define GBUF(T, p, i) device T *p [[buffer(i)]]
#define GARGS(name, a, i) constant name##_args &a [[buffer(i)]]
#define GTID , uint3 gt_local [[thread_position_in_threadgroup]], uint3 gt_group [[threadgroup_position_in_grid]]
#define LOCAL_ARRAY(T, name, n) threadgroup T name[n]
#define LID (gt_local.x)
#define GROUP_X (gt_group.x)
#define GROUP_Y (gt_group.y)
#define GROUP_Z (gt_group.z)
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define BITS(x) as_type<uint>(x)
#define FLOAT(u) as_type<float>(u)
#define SQRT(x) sqrt(x)
#define FMA(a, b, c) fma(a, b, c)
#define RINT(x) rint(x)
FN float h2f(ushort h) { return float(as_type<half>(h)); }
FN ushort f2h(float x) { return as_type<ushort>(half(x)); }

#else /* CUDA and HIP */

#define uchar unsigned char
#define ushort unsigned short
#define uint unsigned int
#define ulong unsigned long long
#define GLOBAL
#define LOCAL
#define PRIVATE
#define FN static __attribute__((device, always_inline)) /* a call would put arrays of its caller into memory */
#define TABLE(T, name, n) static __attribute__((constant)) T name[n]
#define BOOK(T, name, n) static __attribute__((device)) const T name[n]
#define ARGS(name) struct name##_args
#if defined(__HIP__) /* clang looks at launch_bounds for CUDA alone, and has registers for 1,024 work-items */
#define KERNEL(name, size) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(size, size))) void k_##name
#else
#define KERNEL(name, size) extern "C" __attribute__((global, launch_bounds(size))) void k_##name
#endif
#define GBUF(T, p, i) T *p
#define GARGS(name, a, i) const name##_args a
#define GTID
#define LOCAL_ARRAY(T, name, n) static __attribute__((shared)) T name[n]
#define BITS(x) __builtin_bit_cast(uint, (float)(x))
#define FLOAT(u) __builtin_bit_cast(float, (uint)(u))
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define RINT(x) __builtin_rintf(x)
#if defined(__HIP__)
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || \
    defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__) || \
    defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) || \
    defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
#define DOT4(a, b, c) __builtin_amdgcn_sdot4((int)(a), (int)(b), c, false)
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) || \
    defined(__gfx1150__) || defined(__gfx1151__) || defined(__gfx1152__) || defined(__gfx1153__) || \
    defined(__gfx1200__) || defined(__gfx1201__)
#define DOT4(a, b, c) __builtin_amdgcn_sudot4(true, (int)(a), true, (int)(b), c, false)
#endif
#define LID __builtin_amdgcn_workitem_id_x()
#define GROUP_X __builtin_amdgcn_workgroup_id_x()
#define GROUP_Y __builtin_amdgcn_workgroup_id_y()
#define GROUP_Z __builtin_amdgcn_workgroup_id_z()
#define BARRIER() \
    (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \
     __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#define SQRT(x) __builtin_sqrtf(x)
#define SHUFFLE_XOR(x, mask) shuffle_xor(x, mask)
FN float shuffle_xor(float x, uint mask) { /* of 32 lanes; the pattern is part of the instruction */
    int v = (int)BITS(x);
    switch (mask) {
    case 16: v = __builtin_amdgcn_ds_swizzle(v, 16 << 10 | 31); break;
    case 8: v = __builtin_amdgcn_ds_swizzle(v, 8 << 10 | 31); break;
    case 4: v = __builtin_amdgcn_ds_swizzle(v, 4 << 10 | 31); break;
    case 2: v = __builtin_amdgcn_ds_swizzle(v, 2 << 10 | 31); break;
    default: v = __builtin_amdgcn_ds_swizzle(v, 1 << 10 | 31);
    }
    return FLOAT(v);
}
FN float h2f(ushort h) { return (float)__builtin_bit_cast(_Float16, h); }
FN ushort f2h(float x) { return __builtin_bit_cast(ushort, (_Float16)x); }
#else
#define LID ((uint)__nvvm_read_ptx_sreg_tid_x())
#define GROUP_X ((uint)__nvvm_read_ptx_sreg_ctaid_x())
#define GROUP_Y ((uint)__nvvm_read_ptx_sreg_ctaid_y())
#define GROUP_Z ((uint)__nvvm_read_ptx_sreg_ctaid_z())
#define BARRIER() __syncthreads()
FN int dot4(uint a, uint b, int c) { /* PTX: sm_61 */
    int d;
    __asm__("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
#define DOT4(a, b, c) dot4(a, b, c)
#define SHUFFLE_XOR(x, mask) __nvvm_shfl_sync_bfly_f32(0xffffffffu, x, mask, 31)
#define SQRT(x) __nvvm_sqrt_rn_f(x)
FN float h2f(ushort h) { return (float)__builtin_bit_cast(_Float16, h); }
FN ushort f2h(float x) { ushort h; __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
#endif
#endif

/* What one instruction reads where addresses are multiples of its size. */
struct words4 { uint v[4]; } __attribute__((aligned(16)));
struct words2 { uint v[2]; } __attribute__((aligned(8)));
struct halves4 { ushort v[4]; } __attribute__((aligned(8)));
struct four { float v[4]; } __attribute__((aligned(16)));

/* c + the products of the four signed bytes of a and of b. Targets without an instruction for it multiply. */
#ifndef DOT4
FN int dot4(uint a, uint b, int c) {
    return c + ((int)a >> 24) * ((int)b >> 24) + ((int)(a << 8) >> 24) * ((int)(b << 8) >> 24) +
           ((int)(a << 16) >> 24) * ((int)(b << 16) >> 24) + ((int)(a << 24) >> 24) * ((int)(b << 24) >> 24);
}
#define DOT4(a, b, c) dot4(a, b, c)
#endif

/* Sum over 32 lanes, work-items 32 k .. 32 k + 31 of a group. `part` holds a float per work-item of the group for each
 * of `n` sums, n <= 32; lane c < n gets the sum of x[c], the others anything. A butterfly and the tree in local memory
 * add in one order: halves, quarters, ... of the lanes. SHUFFLE_XOR(x, m): x of lane ^ m. */
FN float lanes_sums(LOCAL float *part, uint lid, uint size, uint n, PRIVATE const float *x) {
    uint lane = lid % 32, c;
#ifdef SHUFFLE_XOR
    float r = 0.0f, s;
    (void)part;
    (void)size;
#pragma unroll
    for (c = 0; c < n; c++) {
        s = x[c];
        s += SHUFFLE_XOR(s, 16);
        s += SHUFFLE_XOR(s, 8);
        s += SHUFFLE_XOR(s, 4);
        s += SHUFFLE_XOR(s, 2);
        s += SHUFFLE_XOR(s, 1);
        if (lane == c) r = s;
    }
    return r;
#else
    LOCAL float *p = part + (lane < n ? lane : 0) * size + (lid - lane);
    uint i, step;
#pragma unroll
    for (c = 0; c < n; c++) part[c * size + lid] = x[c];
    BARRIER();
    if (lane < n)
        for (step = 16; step > 0; step /= 2)
            for (i = 0; i < step; i++) p[i] += p[i + step];
    return lane < n ? p[0] : 0.0f;
#endif
}

/* A byte offset that passes 4 GiB, from the two 4-byte fields NAME_lo and NAME_hi of the args. */
#define OFFSET(a, name) ((ulong)(a).name##_hi << 32 | (ulong)(a).name##_lo)

/* The values per token of a pass, one buffer of ints written once per eval: words 0..14 say where the arrays begin.
 * PASS(p, IDS)[row]; pages of sequence s in group g: PASS_TABLE(p, g, s)[pos / PAGE]. */
#define PASS_IDS 0
#define PASS_POS 1
#define PASS_SEQ 2
#define PASS_OUT 3
#define PASS_LAST 4 /* the last position that a row sees: its own, but in models that see later ones of an eval */
#define PASS_PAGES0 5 /* and 6: of cache groups 0 and 1 */
#define PASS_STRIDE 7 /* not a place: pages per sequence in both tables */
#define PASS_CELLS_IN 8 /* cells of recurrent states before the pass, -1 = none; in models that have such states */
#define PASS_CELLS_OUT 9 /* and after it */
#define PASS_EXTENDED 10 /* of a sequence: 1 = the long RoPE frequencies */
#define PASS_LOOKED 11 /* rows of a table of n-grams, several for each row; in models that have one */
#define PASS_SOURCE 12 /* positions of a sequence's source; in models that have an encoder beside the decoder */
#define PASS_AXES 13 /* of each pair the axis whose position rotates it; in passes that have AXIS: */
#define PASS_AXIS 14 /* of each row its positions on three axes, axis by axis */
#define PASS(p, what) ((p) + (p)[PASS_##what])
#define PASS_TABLE(p, group, seq) ((p) + (p)[PASS_PAGES0 + (group)] + (seq) * (p)[PASS_STRIDE])
#define PAGE 16 /* positions in a cache page */
