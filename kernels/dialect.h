/* dialect.h: the only file that knows which GPU language a kernel is compiled as. The rules are in README.md.
 *
 * Faces: OpenCL C 1.2; CUDA by clang without a toolkit; HIP by hiprtc or clang; Metal.
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

#elif defined(__METAL_VERSION__)

#include <metal_stdlib>
using namespace metal;
#define GLOBAL device
#define LOCAL threadgroup
#define PRIVATE thread
#define FN static inline
#define TABLE(T, name, n) constant T name[n]
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
#define FN static __attribute__((device))
#define TABLE(T, name, n) static __attribute__((constant)) T name[n]
#define ARGS(name) struct name##_args
#define KERNEL(name, size) extern "C" __attribute__((global, launch_bounds(size))) void k_##name
#define GBUF(T, p, i) T *p
#define GARGS(name, a, i) const name##_args a
#define GTID
#define LOCAL_ARRAY(T, name, n) static __attribute__((shared)) T name[n]
#define BITS(x) __builtin_bit_cast(uint, (float)(x))
#define FLOAT(u) __builtin_bit_cast(float, (uint)(u))
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define RINT(x) __builtin_rintf(x)
#if defined(__HIP__)
#define LID __builtin_amdgcn_workitem_id_x()
#define GROUP_X __builtin_amdgcn_workgroup_id_x()
#define GROUP_Y __builtin_amdgcn_workgroup_id_y()
#define GROUP_Z __builtin_amdgcn_workgroup_id_z()
#define BARRIER() \
    (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \
     __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#define SQRT(x) __builtin_sqrtf(x)
FN float h2f(ushort h) { return (float)__builtin_bit_cast(_Float16, h); }
FN ushort f2h(float x) { return __builtin_bit_cast(ushort, (_Float16)x); }
#else
#define LID ((uint)__nvvm_read_ptx_sreg_tid_x())
#define GROUP_X ((uint)__nvvm_read_ptx_sreg_ctaid_x())
#define GROUP_Y ((uint)__nvvm_read_ptx_sreg_ctaid_y())
#define GROUP_Z ((uint)__nvvm_read_ptx_sreg_ctaid_z())
#define BARRIER() __syncthreads()
FN float shuffle_xor(float x, uint mask) {
    float y;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(mask));
    return y;
}
#define SHUFFLE_XOR(x, mask) shuffle_xor(x, mask)
#define SQRT(x) __nvvm_sqrt_rn_f(x)
FN float h2f(ushort h) { float x; __asm__("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
FN ushort f2h(float x) { ushort h; __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
#endif
#endif

/* A byte offset that passes 4 GiB, from the two 4-byte fields NAME_lo and NAME_hi of the args. */
#define OFFSET(a, name) ((ulong)(a).name##_hi << 32 | (ulong)(a).name##_lo)

/* The values per token of a pass, one buffer of ints written once per eval: words 0..7 say where the arrays begin.
 * PASS(p, IDS)[row]; pages of sequence s in group g: PASS_TABLE(p, g, s)[pos / PAGE]. */
#define PASS_IDS 0
#define PASS_POS 1
#define PASS_SEQ 2
#define PASS_OUT 3
#define PASS_EXTENDED 4
#define PASS_PAGES0 5 /* and 6: of cache groups 0 and 1 */
#define PASS_STRIDE 7 /* not a place: pages per sequence in both tables */
#define PASS(p, what) ((p) + (p)[PASS_##what])
#define PASS_TABLE(p, group, seq) ((p) + (p)[PASS_PAGES0 + (group)] + (seq) * (p)[PASS_STRIDE])
#define PAGE 16 /* positions in a cache page */
