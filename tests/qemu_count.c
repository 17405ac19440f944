/* qemu_count.c: a plugin of qemu-user that counts the instructions of one function and of what it calls.
 *
 *     qemu-aarch64 (or qemu-riscv64) -plugin qemu_count.so,in=0xADDRESS,part=0xADDRESS,part=0xADDRESS PROGRAM
 *
 * in: the function. part: functions at whose calls counting starts again; at the end a line for each says what was
 * counted from there on. Addresses are those of nm, so the program is linked statically to a fixed place. One thread.
 *
 * How: the function begins when the block at its address runs, and has ended when the instruction after the call is
 * reached that the block before ended with. Blocks are counted whole when they begin. The declarations below are what
 * this needs of version 1 of the interface, that of qemu 4.2 to 8.2. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGISTERS = 0 };
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*f)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*f)(unsigned, void *), int flags, void *arg);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*f)(plugin_id, void *), void *arg);

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

enum { PARTS = 8 };
typedef struct block {
    uint64_t at, end, n;
    bool calls; /* the last instruction is a call */
} block;

static uint64_t function, parts[PARTS], counts[PARTS + 1], back; /* back: where the function returns to; 0: not in it */
static int n_parts, part;                                        /* counts[0]: before the first part */
static const block *last;
static bool riscv;

/* bl, blr; jal and jalr to x1, c.jalr */
static bool is_call(uint32_t word, size_t bytes) {
    if (!riscv) return (word & 0xfc000000u) == 0x94000000u || (word & 0xfffffc1fu) == 0xd63f0000u;
    if (bytes == 2) return (word & 0xf07fu) == 0x9002u && (word & 0x0f80u) != 0;
    return (word & 0xfffu) == 0x0efu || (word & 0x7fffu) == 0x00e7u;
}

static void run(unsigned cpu, void *arg) {
    const block *b = (const block *)arg;
    int i;
    (void)cpu;
    if (b->at == back) back = 0;
    for (i = 0; i < n_parts; i++)
        if (b->at == parts[i]) part = i + 1;
    if (b->at == function && back == 0) {
        if (last == NULL || !last->calls) {
            fprintf(stderr, "qemu_count: the function was entered by something that is no call\n");
            exit(1);
        }
        back = last->end;
    }
    if (back) counts[part] += b->n;
    last = b;
}

static void translate(plugin_id id, struct qemu_plugin_tb *tb) {
    block *b = (block *)malloc(sizeof *b); /* for good: the translation may run at any time */
    const struct qemu_plugin_insn *insn;
    uint32_t word = 0;
    (void)id;
    if (b == NULL) abort();
    b->at = qemu_plugin_tb_vaddr(tb);
    b->n = qemu_plugin_tb_n_insns(tb);
    insn = qemu_plugin_tb_get_insn(tb, (size_t)b->n - 1);
    b->end = qemu_plugin_insn_vaddr(insn) + qemu_plugin_insn_size(insn);
    memcpy(&word, qemu_plugin_insn_data(insn), qemu_plugin_insn_size(insn));
    b->calls = is_call(word, qemu_plugin_insn_size(insn));
    qemu_plugin_register_vcpu_tb_exec_cb(tb, run, NO_REGISTERS, b);
}

static void report(plugin_id id, void *arg) {
    int i;
    (void)id;
    (void)arg;
    for (i = 1; i <= n_parts; i++) fprintf(stderr, "counted %" PRIu64 "\n", counts[i]);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    int i;
    riscv = strcmp(*(const char *const *)info, "riscv64") == 0; /* its first member is the target's name */
    for (i = 0; i < argc; i++) {
        if (strncmp(argv[i], "in=", 3) == 0) function = strtoull(argv[i] + 3, NULL, 0);
        else if (strncmp(argv[i], "part=", 5) == 0 && n_parts < PARTS) parts[n_parts++] = strtoull(argv[i] + 5, NULL, 0);
        else return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, report, NULL);
    return function == 0;
}
