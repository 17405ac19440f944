/* board.c: start-up, output and the end of a program on Cortex-M and RISC-V, by semihosting: under QEMU, or on a board
 * with a debugger. On your board: its own start-up code and a UART. sections.ld says where things lie. */
#include "board.h"
#include <stdint.h>

int main(void);
void board_start(void);
extern unsigned char data_load[], data_start[], data_end[], bss_start[], bss_end[], stack_end[], stack_top[];

/* ---- what differs ---- */

#if defined(__arm__)
enum { SEMI_WRITEC = 3, SEMI_EXIT = 0x20 };
static int semihosting(int op, const void *argument) {
    register int r0 __asm__("r0") = op;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
static void board_fpu(void) {
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: full access to CP10 and CP11 */
    __asm__ volatile("dsb\n isb");
}
static void board_fault(void);
/* The stack's first word and the handlers up to SysTick, of which only faults can come here. */
__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))(uintptr_t)stack_top, board_start, board_fault, board_fault, board_fault, board_fault, board_fault };
#elif defined(__riscv)
enum { SEMI_WRITEC = 3, SEMI_EXIT = 0x20 };
static int semihosting(int op, const void *argument) {
    register int a0 __asm__("a0") = op;
    register const void *a1 __asm__("a1") = argument;
    __asm__ volatile(".balign 16\n .option push\n .option norvc\n"
                     "slli x0, x0, 0x1f\n ebreak\n srai x0, x0, 7\n .option pop"
                     : "+r"(a0) : "r"(a1) : "memory");
    return a0;
}
static void board_fault(void);
static void board_fpu(void) {
    __asm__ volatile("csrs mstatus, %0" : : "r"(1 << 13)); /* FS: on */
    __asm__ volatile("csrw mtvec, %0" : : "r"(board_fault));
}
/* The thread's variables: picolibc has errno there. All are zero at first: sections.ld checks it. */
__attribute__((aligned(16), used)) unsigned char board_tls[64];
/* No stack yet: the first instructions make one. */
__attribute__((section(".vectors"), naked, used)) void board_reset(void) {
    __asm__ volatile("la sp, stack_top\n la tp, board_tls\n j board_start");
}
#endif

/* ---- what is the same ---- */

static void board_exit(int status) {
    const uintptr_t arguments[2] = { 0x20026, (uintptr_t)status }; /* ADP_Stopped_ApplicationExit */
    for (;;) semihosting(SEMI_EXIT, arguments);
}

#if defined(__riscv)
__attribute__((aligned(4)))
#endif
static void board_fault(void) { board_exit(70); }

void board_write(const char *text, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) semihosting(SEMI_WRITEC, text + i);
}

double board_seconds(void) { return 0; }

/* board_start fills the stack below itself with this. */
enum { UNUSED = 0xa5 };

size_t board_stack(void) {
    const unsigned char *p = stack_end;
    while (*p == UNUSED) p++;
    return (size_t)(stack_top - p);
}

void board_start(void) {
    unsigned char *to, *from = data_load;
    board_fpu();
    for (to = data_start; to < data_end; to++) *to = *from++;
    for (to = bss_start; to < bss_end; to++) *to = 0;
    for (to = stack_end; to < (unsigned char *)__builtin_frame_address(0) - 256; to++) *(volatile unsigned char *)to = UNUSED;
    board_exit(main());
}
