/* hip_host.h: what HIP text needs to be C++ for this computer: fake_hip.c puts it in front of a program.
 *
 * Owns:  the chip's builtins over the calls of fibers.h; hip_thunk, which takes a kernel's arguments out of the bytes that
 *        a launch packs, as the chip's calling convention lays them out: each at a multiple of its own alignment.
 * Rules: C++14, as hiprtc compiles. A builtin that is not here is not used by any kernel: add it when one does.
 */
#include "../fibers.h"

static const fibers_calls *hip_calls;
#define HIP_EXPORT extern "C" __attribute__((visibility("default")))
HIP_EXPORT void hip_host_begin(const fibers_calls *calls) { hip_calls = calls; }

#define amdgpu_flat_work_group_size(least, most) /* of kernels: fake_hiprtc.c has read it */
#define __builtin_amdgcn_workitem_id_x() (hip_calls->self()->local[0])
#define __builtin_amdgcn_workitem_id_y() (hip_calls->self()->local[1])
#define __builtin_amdgcn_workitem_id_z() (hip_calls->self()->local[2])
#define __builtin_amdgcn_workgroup_id_x() (hip_calls->self()->group[0])
#define __builtin_amdgcn_workgroup_id_y() (hip_calls->self()->group[1])
#define __builtin_amdgcn_workgroup_id_z() (hip_calls->self()->group[2])
#define __builtin_amdgcn_wavefrontsize() ((unsigned)__AMDGCN_WAVEFRONT_SIZE)
#define __builtin_amdgcn_fence(order, scope) ((void)0) /* fibers of a group take turns */
#define __builtin_amdgcn_s_barrier() hip_calls->barrier(__LINE__)
#define __builtin_amdgcn_wave_barrier() hip_calls->wave_barrier(__LINE__)
/* The value of the lane whose number is a / 4; a lane that does not exist gives 0. */
#define __builtin_amdgcn_ds_bpermute(a, value) hip_bpermute(a, value, __LINE__)
static inline int hip_bpermute(int a, int value, int line) {
    const uint64_t *all = hip_calls->exchange((uint64_t)(unsigned)value, line);
    unsigned lane = (unsigned)a / 4 % __AMDGCN_WAVEFRONT_SIZE;
    return lane < hip_calls->self()->lanes ? (int)(unsigned)all[lane] : 0;
}
/* What lane l of 32 reads in the bits of `pattern`: of lane ((l & bits 0 .. 4) | bits 5 .. 9) ^ bits 10 .. 14. */
#define __builtin_amdgcn_ds_swizzle(value, pattern) hip_swizzle<pattern>(value, __LINE__)
template <unsigned pattern> static inline int hip_swizzle(int value, int line) { /* it is part of the instruction */
    const uint64_t *all = hip_calls->exchange((uint64_t)(unsigned)value, line);
    unsigned mine = hip_calls->self()->lane, lane = ((mine & pattern) | pattern >> 5) ^ pattern >> 10;
    lane = mine / 32 * 32 + lane % 32;
    return lane < hip_calls->self()->lanes ? (int)(unsigned)all[lane] : 0;
}

/* c + the products of four bytes of a and b, signed or not. */
static inline int hip_dot4(int sa, int a, int sb, int b, int c) {
    for (int i = 0; i < 32; i += 8) {
        int x = a >> i & 255, y = b >> i & 255;
        c += (sa ? (int)(signed char)x : x) * (sb ? (int)(signed char)y : y);
    }
    return c;
}
#define __builtin_amdgcn_sdot4(a, b, c, clamp) hip_dot4(1, a, 1, b, c)
#define __builtin_amdgcn_sudot4(sa, a, sb, b, c, clamp) hip_dot4(sa, a, sb, b, c)

/* ---- matrix units ----
 * D += A B as the instruction set manuals lay the operands out over a wave: of `rows` x `rows` results lane l has those
 * of column l % rows, sum i in row `row(l, i)`; of A's row and B's column l % rows it holds `each` values: lanes 0 ..
 * rows - 1 the first ones, the next lanes the next ones (16: RDNA 3, whose halves of a wave hold all, twice). Products are
 * exact, sums float, one after the other. */
static inline float hip_value(_Float16 v) { return (float)v; }
static inline float hip_value(short v) { return __builtin_bit_cast(float, (unsigned)(unsigned short)v << 16); }
#if defined(__gfx90a__)
#define HIP_FLUSHES 1 /* MI200: operands below the normal halves are 0 */
#else
#define HIP_FLUSHES 0
#endif
static inline _Float16 hip_operand(_Float16 v) {
    return HIP_FLUSHES && (__builtin_bit_cast(unsigned short, v) & 0x7c00) == 0 ? (_Float16)0 : v;
}
static inline short hip_operand(short v) { return v; }

/* What all lanes have of an operand. */
template <typename T, int each, typename V> static inline void hip_give(V v, T (*to)[16], int line) {
    for (int at = 0; at < each; at += 4) {
        uint64_t bits = 0;
        for (int i = at; i < at + 4 && i < each; i++)
            bits |= (uint64_t)__builtin_bit_cast(unsigned short, hip_operand(v[i])) << 16 * (i - at);
        const uint64_t *all = hip_calls->exchange(bits, line);
        for (int l = 0; l < __AMDGCN_WAVEFRONT_SIZE; l++)
            for (int i = at; i < at + 4 && i < each; i++)
                to[l][i] = __builtin_bit_cast(T, (unsigned short)(all[l] >> 16 * (i - at)));
    }
    for (int l = 0; each == 16 && l < 16; l++)
        if (__builtin_memcmp(to[l], to[l + 16], sizeof *to) != 0) hip_calls->fail("lanes l and l + 16 differ in an operand");
}
/* Value k of row r. */
template <typename T, int each, int rows> static inline float hip_value_at(const T (*of)[16], int r, int k) {
    return hip_value(of[each == 16 ? r : k / each * rows + r][k % each]);
}
template <typename T, int each, int rows, int depth, typename V, typename S>
static inline S hip_multiply(V a, V b, S sums, int (*row)(int lane, int i), int line) {
    const int lane = (int)hip_calls->self()->lane, lanes = (int)hip_calls->self()->lanes;
    T of_a[FIBERS_WAVE][16], of_b[FIBERS_WAVE][16];
    if (lanes != __AMDGCN_WAVEFRONT_SIZE) hip_calls->fail("a wave at a matrix unit is not whole");
    hip_give<T, each>(a, of_a, line);
    hip_give<T, each>(b, of_b, line);
    for (int i = 0; i < rows * rows / lanes; i++)
        for (int k = 0; k < depth; k++)
            sums[i] += hip_value_at<T, each, rows>(of_a, row(lane, i), k) * hip_value_at<T, each, rows>(of_b, lane % rows, k);
    return sums;
}
static inline int hip_row_mfma(int lane, int i) { return 8 * (i / 4) + 4 * (lane / 32) + i % 4; }
static inline int hip_row_rdna3(int lane, int i) { return 2 * i + lane / 16; }
static inline int hip_row_rdna4(int lane, int i) { return 8 * (lane / 16) + i; }
#define __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, x, y, z) \
    hip_multiply<_Float16, 4, 32, 8>(a, b, c, hip_row_mfma, __LINE__)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, x, y, z) \
    hip_multiply<short, 4, 32, 8>(a, b, c, hip_row_mfma, __LINE__)
#define __builtin_amdgcn_mfma_f32_32x32x4bf16(a, b, c, x, y, z) \
    hip_multiply<short, 2, 32, 4>(a, b, c, hip_row_mfma, __LINE__)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c) \
    hip_multiply<_Float16, 16, 16, 16>(a, b, c, hip_row_rdna3, __LINE__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c) \
    hip_multiply<short, 16, 16, 16>(a, b, c, hip_row_rdna3, __LINE__)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c) \
    hip_multiply<_Float16, 8, 16, 16>(a, b, c, hip_row_rdna4, __LINE__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c) \
    hip_multiply<short, 8, 16, 16>(a, b, c, hip_row_rdna4, __LINE__)

#define hip_local(bytes) hip_calls->local(({ static const char key = 0; &key; }), bytes) /* memory of the group */

/* In the order of the parameters. */
struct hip_arguments {
    const char *bytes;
    size_t at;
    template <typename T> T next() {
        T value;
        at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
        __builtin_memcpy(&value, bytes + at, sizeof value);
        at += sizeof value;
        return value;
    }
};
template <typename T> constexpr size_t hip_sum(size_t at) {
    return (at + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T);
}
template <typename F, F f> struct hip_thunk;
template <typename... A, void (*f)(A...)> struct hip_thunk<void (*)(A...), f> {
    struct call { call(A... a) { f(a...); } }; /* braces fix the order in which arguments are taken */
    static void run(void *const *args, const fibers_item *) {
        hip_arguments from = {(const char *)args[0], 0};
        (void)from;
        call{from.template next<A>()...};
    }
    static size_t bytes() {
        size_t at = 0;
        const int each[] = {0, (at = hip_sum<A>(at), 0)...};
        (void)each;
        return at;
    }
};
struct hip_kernel {
    const char *name;
    void (*run)(void *const *args, const fibers_item *me);
    size_t (*bytes)(); /* of its arguments */
    unsigned most;     /* work-items of a group */
};
#define HIP_KERNEL(f, most) {#f, hip_thunk<decltype(&f), &f>::run, hip_thunk<decltype(&f), &f>::bytes, most},
HIP_EXPORT const hip_kernel hip_kernels[]; /* its rows follow the program */
