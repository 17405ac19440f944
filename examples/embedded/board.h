/* board.h: what story.c needs of a board. */
#ifndef BOARD_H
#define BOARD_H
#include <stddef.h>

/* A GGUF file in flash, aligned to 32 bytes or more: the library would copy it otherwise. */
extern const unsigned char board_model[], board_model_end[];

void board_write(const char *text, size_t n);
double board_seconds(void); /* 0 on a board without a clock */
size_t board_stack(void);   /* the most bytes of stack that were ever in use */
#endif
