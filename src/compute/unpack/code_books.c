/* code_books.c: the code books of IQ1 to IQ3 with a byte for every value, for instruction sets without a shuffle that
 * holds a book in registers: an entry is one load.
 *
 * Owns:  infer__book_*, 33 KB, filled once in the process, when unpack functions are chosen; infer__iq_scales.
 * Start: infer__books_make.
 */
#include "../products/cpu_int8.h"

#if defined(INFER__SIMD_AVX2) || defined(INFER__SIMD_ARM) || defined(INFER__SIMD_RVV)
#  define INFER__BOOKS 1

/* Scales of 16 rows as odd numbers of bytes, collected row by row. */
typedef struct infer__iq_scales { uint8_t of[INFER__GROUP][16]; } infer__iq_scales;

/* Entries of 8 or 4 values, the first in the lowest byte: infer__iq2_values and so on. */
static uint64_t infer__book_iq2xxs[256], infer__book_iq2xs[512], infer__book_iq2s[1024], infer__book_iq1s[2048];
static uint32_t infer__book_iq3xxs[256], infer__book_iq3s[512];
static infer__once infer__books_once;

static void infer__books_make(void) {
    int i;
    for (i = 0; i < 256; i++) {
        infer__book_iq2xxs[i] = infer__iq2_values(infer__iq2xxs_grid[i]);
        infer__book_iq3xxs[i] = (uint32_t)infer__iq3_xxs_values(infer__iq3xxs_grid[i], 0);
    }
    for (i = 0; i < 512; i++) {
        infer__book_iq2xs[i] = infer__iq2_values(infer__iq2xs_grid[i]);
        infer__book_iq3s[i] = (uint32_t)infer__iq3_s_values(infer__iq3s_grid[i], 0);
    }
    for (i = 0; i < 1024; i++) infer__book_iq2s[i] = infer__iq2_values(infer__iq2s_grid[i]);
    for (i = 0; i < 2048; i++) infer__book_iq1s[i] = infer__iq1_values(infer__iq1s_grid[i]);
}
#endif
