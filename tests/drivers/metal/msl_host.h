/* msl_host.h: what a program in the Metal Shading Language sees when msl_host.py compiles it for this computer.
 *
 * Owns:  types, arithmetic and collectives of the language, as far as kernels/ use them (functions that are not here are
 *        compile errors, as a misspelt one would be); what the double reads of a compiled program (msl_entry).
 * Rules: address spaces are plain memory here; msl_host.py looks at them in another pass. Barriers and collectives are
 *        macros, so that they know their line. A simdgroup has 32 lanes.
 * Start: metal::, then msl_entry. tests/drivers/fibers.h says how work-items run.
 */
#ifndef MSL_HOST_H
#define MSL_HOST_H
#include "../fibers.h"
#include <string.h>

#define kernel
#define device
#define constant const
#define thread

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
struct uint3 { uint x, y, z; };

/* Of the program; the double fills it after loading. */
extern "C" { extern const fibers_calls *msl_calls; }

/* A parameter that is bound by index: bytes is 0 for a pointer, else the size of what a reference needs. */
struct msl_param { int index; unsigned bytes; };
struct msl_entry {
    const char *name;
    void (*fn)(void *const *args, const fibers_item *me);
    unsigned max_threads, n_params;
    msl_param params[31];
};

template <class T> static inline T msl_position(const uint v[3]);
template <> inline uint msl_position<uint>(const uint v[3]) { return v[0]; }
template <> inline ushort msl_position<ushort>(const uint v[3]) { return (ushort)v[0]; }
template <> inline uint3 msl_position<uint3>(const uint v[3]) { return {v[0], v[1], v[2]}; }

template <class To, class From> static inline To as_type(From x) {
    static_assert(sizeof(To) == sizeof(From), "as_type takes a value of the same size");
    To to;
    memcpy(&to, &x, sizeof to);
    return to;
}

namespace metal {

static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float sqrt(float x) { return __builtin_sqrtf(x); }
static inline float rint(float x) { return __builtin_rintf(x); }

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
static inline mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }
static inline void msl_barrier(mem_flags, int line) { msl_calls->barrier(line); }
static inline void msl_wave_barrier(mem_flags, int line) { msl_calls->wave_barrier(line); }

/* ---- collectives of a simdgroup ---- */

template <class T> static inline const uint64_t *msl_give(T x, int line) {
    static_assert(sizeof(T) <= 8, "a value of at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x);
    return msl_calls->exchange(bits, line);
}
template <class T> static inline T msl_take(const uint64_t *all, uint lane) {
    T x;
    memcpy(&x, &all[lane % 32], sizeof x);
    return x;
}
template <class T> static inline T msl_simd_shuffle(T x, uint lane, int line) { return msl_take<T>(msl_give(x, line), lane); }
template <class T> static inline T msl_simd_shuffle_xor(T x, uint mask, int line) {
    return msl_take<T>(msl_give(x, line), msl_calls->self()->lane ^ mask);
}
template <class T> static inline T msl_simd_shuffle_down(T x, uint by, int line) {
    const uint64_t *all = msl_give(x, line);
    uint lane = msl_calls->self()->lane;
    return lane + by < 32 ? msl_take<T>(all, lane + by) : x; /* beyond the end the language promises nothing */
}
template <class T> static inline T msl_simd_sum(T x, int line) {
    const uint64_t *all = msl_give(x, line);
    T part[32];
    uint lanes = msl_calls->self()->lanes, i, n;
    for (i = 0; i < 32; i++) part[i] = i < lanes ? msl_take<T>(all, i) : (T)0;
    for (n = 16; n > 0; n /= 2)
        for (i = 0; i < n; i++) part[i] += part[i + n];
    return part[0];
}
template <class T> static inline T msl_simd_max(T x, int line) {
    const uint64_t *all = msl_give(x, line);
    uint lanes = msl_calls->self()->lanes, i;
    T most = msl_take<T>(all, 0);
    for (i = 1; i < lanes; i++) {
        T other = msl_take<T>(all, i);
        most = other > most ? other : most;
    }
    return most;
}

/* ---- 8 x 8 matrices ---- */

/* Two values in every lane, as thread_elements() has them; which ones is not promised, here: of row lane / 4 those of
 * columns lane % 4 * 2 and the next. */
template <class T, int Columns, int Rows> struct simdgroup_matrix {
    static_assert(Columns == 8 && Rows == 8, "matrices are 8 x 8");
    T v[2];
    simdgroup_matrix() { memset(v, 0xff, sizeof v); }
    explicit simdgroup_matrix(T x) { v[0] = v[1] = x; }
    T *thread_elements() { return v; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;

struct ulong2 {
    ulong x, y;
    ulong2(ulong both) : x(both), y(both) {}
    ulong2(ulong a, ulong b) : x(a), y(b) {}
};

/* The place of this lane's value k in memory. origin: x is the column, y the row. */
static inline size_t msl_matrix_at(uint k, ulong elements_per_row, ulong2 origin, bool transposed) {
    uint lane = msl_calls->self()->lane, row = lane / 4, col = lane % 4 * 2 + k;
    if (msl_calls->self()->lanes != 32) msl_calls->fail("a matrix in a simdgroup of fewer than 32 lanes");
    return transposed ? (origin.y + col) * elements_per_row + origin.x + row
                      : (origin.y + row) * elements_per_row + origin.x + col;
}
template <class T>
static inline void msl_matrix_load(int line, simdgroup_matrix<T, 8, 8> &m, const T *from, ulong elements_per_row = 8,
                                   ulong2 origin = 0, bool transposed = false) {
    uint k;
    msl_calls->wave_barrier(line);
    for (k = 0; k < 2; k++) m.v[k] = from[msl_matrix_at(k, elements_per_row, origin, transposed)];
}
template <class T>
static inline void msl_matrix_store(int line, const simdgroup_matrix<T, 8, 8> &m, T *to, ulong elements_per_row = 8,
                                    ulong2 origin = 0, bool transposed = false) {
    uint k;
    for (k = 0; k < 2; k++) to[msl_matrix_at(k, elements_per_row, origin, transposed)] = m.v[k];
    msl_calls->wave_barrier(line);
}
/* d = a b + c: sums in float, in the order of k. */
template <class D, class A, class B, class C>
static inline void msl_matrix_multiply(int line, simdgroup_matrix<D, 8, 8> &d, const simdgroup_matrix<A, 8, 8> &a,
                                       const simdgroup_matrix<B, 8, 8> &b, const simdgroup_matrix<C, 8, 8> &c) {
    uint lane = msl_calls->self()->lane, row = lane / 4, col = lane % 4 * 2, i, k;
    A left[8];
    B right[8][2];
    const uint64_t *all;
    struct { A v[2]; } mine_a;
    struct { B v[2]; } mine_b;
    memcpy(mine_a.v, a.v, sizeof mine_a.v);
    memcpy(mine_b.v, b.v, sizeof mine_b.v);
    all = msl_give(mine_a, line);
    for (i = 0; i < 4; i++) memcpy(&left[2 * i], &all[row * 4 + i], sizeof mine_a);
    all = msl_give(mine_b, line);
    for (i = 0; i < 8; i++) memcpy(right[i], &all[i * 4 + col / 2], sizeof mine_b);
    for (k = 0; k < 2; k++) {
        float sum = (float)c.v[k];
        for (i = 0; i < 8; i++) sum += (float)left[i] * (float)right[i][k];
        d.v[k] = (D)sum;
    }
}
template <class T, int Columns, int Rows = Columns>
static inline simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T x) {
    return simdgroup_matrix<T, Columns, Rows>(x);
}

} /* namespace metal */

#define threadgroup_barrier(flags) msl_barrier(flags, __LINE__)
#define simdgroup_barrier(flags) msl_wave_barrier(flags, __LINE__)
#define simd_sum(x) msl_simd_sum(x, __LINE__)
#define simd_max(x) msl_simd_max(x, __LINE__)
#define simd_shuffle(x, lane) msl_simd_shuffle(x, lane, __LINE__)
#define simd_shuffle_xor(x, mask) msl_simd_shuffle_xor(x, mask, __LINE__)
#define simd_shuffle_down(x, by) msl_simd_shuffle_down(x, by, __LINE__)
#define simd_broadcast(x, lane) msl_simd_shuffle(x, lane, __LINE__)
#define simdgroup_load(...) msl_matrix_load(__LINE__, __VA_ARGS__)
#define simdgroup_store(...) msl_matrix_store(__LINE__, __VA_ARGS__)
#define simdgroup_multiply_accumulate(...) msl_matrix_multiply(__LINE__, __VA_ARGS__)

#endif
