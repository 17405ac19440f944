/* model.S: the file MODEL as a constant. */
    .section .rodata.model, "a"
    .balign 64
    .globl board_model, board_model_end
board_model:
    .incbin MODEL
board_model_end:
