/* code_books.c: the code books of IQ1 to IQ3 with a byte for every value, for instruction sets without a shuffle that
 * holds a book in registers: an entry is one load.
 *
 * Owns:  infer__books. 33 KB, filled once in the process, when unpack functions are chosen.
 * Start: infer__books_make.
 */
#include "cpu_int8.h"

#if defined(INFER__SIMD_AVX2) || defined(INFER__SIMD_ARM)

/* Entries of 8 or 4 values, the first in the lowest byte: infer__iq2_values and so on. */
typedef struct infer__code_books {
    uint64_t iq2xxs[256], iq2xs[512], iq2s[1024], iq1s[2048];
    uint32_t iq3xxs[256], iq3s[512];
} infer__code_books;

static infer__code_books infer__books;
static infer__once infer__books_made;

static void infer__books_make(void) {
    infer__code_books *b = &infer__books;
    int i;
    for (i = 0; i < 256; i++) b->iq2xxs[i] = infer__iq2_values(infer__iq2xxs_grid[i]);
    for (i = 0; i < 512; i++) b->iq2xs[i] = infer__iq2_values(infer__iq2xs_grid[i]);
    for (i = 0; i < 1024; i++) b->iq2s[i] = infer__iq2_values(infer__iq2s_grid[i]);
    for (i = 0; i < 2048; i++) b->iq1s[i] = infer__iq1_values(infer__iq1s_grid[i]);
    for (i = 0; i < 256; i++) b->iq3xxs[i] = (uint32_t)infer__iq3_xxs_values(infer__iq3xxs_grid[i], 0);
    for (i = 0; i < 512; i++) b->iq3s[i] = (uint32_t)infer__iq3_s_values(infer__iq3s_grid[i], 0);
}
#endif
