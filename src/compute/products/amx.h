/* amx.h: the tile instructions of AMX, one macro each.
 *
 * Owns:  INFER__AMX (this build has code for AMX) and INFER__TILE_*.
 * How:   as bytes, so that every compiler and assembler for x86-64 accepts them without knowing AMX, and does not
 *        reorder them. Addresses are rax, strides rcx. Compilers keep nothing in tiles, so there is nothing to clobber.
 * Rules: tiles belong to a thread, and any call may clobber them: a function configures, multiplies, stores and
 *        releases. tests/amx_twin.h defines the same macros in C, for CPUs without AMX (INFER__AMX_TWIN).
 * Source: Intel SDM vol. 2, LDTILECFG, TILELOADD, TDPBSSD, TDPBF16PS; the order of sums of TDPBF16PS was verified on an
 *        Emerald Rapids.
 * Start: INFER__TILE_CONFIGURE.
 */
#ifndef INFER__AMX_H
#define INFER__AMX_H

#include "../cpu/cpu_ops.h"

#if defined(INFER__SIMD_AVX512) && defined(__x86_64__) && defined(__LP64__) == \
    !defined(_WIN32) && (defined(__linux__) || defined(_WIN32)) && (defined(__GNUC__) || defined(__clang__))
#  define INFER__AMX 1

/* 64 bytes: rows and bytes a row of each tile. */
typedef struct infer__tile_shape {
    uint8_t palette, start, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} infer__tile_shape;

#  if !defined(INFER__AMX_TWIN)
#    define INFER__TILE_CONFIGURE(shape) \
        __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" ::"a"(shape), "m"(*(shape)))
#    define INFER__TILE_RELEASE() __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0" ::: "memory")
#    define INFER__TILE_ZERO(t) __asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x49, %c0" ::"i"(0xc0 + 8 * (t)))
/* Rows of memory, `stride` bytes apart, to a tile, and back. */
#    define INFER__TILE_LOAD(t, p, stride)                                                                          \
        __asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x4b, %c2, 0x08" ::"a"(p), "c"((int64_t)(stride)), "i"(4 + 8 * (t)) \
                         : "memory")
#    define INFER__TILE_STORE(t, p, stride)                                                                         \
        __asm__ volatile(".byte 0xc4, 0xe2, 0x7a, 0x4b, %c2, 0x08" ::"a"(p), "c"((int64_t)(stride)), "i"(4 + 8 * (t)) \
                         : "memory")
/* c[m][n] += a[m][k] * b[k][n]: of four signed bytes to int32; of two BF16 to float32. */
#    define INFER__TILE_DOT8(c, a, b)                                                                               \
        __asm__ volatile(".byte 0xc4, 0xe2, %c0, 0x5e, %c1" ::"i"(0x7b - 8 * (b)), "i"(0xc0 + 8 * (c) + (a)))
#    define INFER__TILE_DOT16(c, a, b)                                                                              \
        __asm__ volatile(".byte 0xc4, 0xe2, %c0, 0x5c, %c1" ::"i"(0x7a - 8 * (b)), "i"(0xc0 + 8 * (c) + (a)))
#  endif

/* Tiles 0 .. 3 take 16 rows of sums, 4 and 5 first operands, 16 rows of a_bytes, 6 and 7 second ones, b_rows rows; rows
 * of these and of sums have `bytes`. Costs 50 ns. */
INFER__INLINE infer__tile_shape infer__tiles_shape(int a_bytes, int b_rows, int bytes) {
    infer__tile_shape s;
    int i;
    memset(&s, 0, sizeof s);
    s.palette = 1;
    for (i = 0; i < 8; i++) {
        s.rows[i] = (uint8_t)(i < 6 ? 16 : b_rows);
        s.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? a_bytes : bytes);
    }
    return s;
}
INFER__INLINE void infer__tiles_begin(int a_bytes, int b_rows, int bytes) {
    infer__tile_shape s = infer__tiles_shape(a_bytes, b_rows, bytes);
    INFER__TILE_CONFIGURE(&s);
}
#endif
#endif
