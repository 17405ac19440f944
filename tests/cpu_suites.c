/* cpu_suites.c: the suites of the CPU's arithmetic alone, for machines without files, threads or processes:
 * -DCHECK_FILE='"cpu_suites.c"' -DCHECK_SUITE=suite_cpu. */
#include "test_ops.c"
#include "test_ops_moe.c"
#include "test_int8.c"
#include "test_math.c"
#include "test_attention.c"
#include "test_float.c"

static void suite_cpu(void) {
    suite_ops();
    suite_ops_moe();
    suite_int8();
    suite_math();
    suite_attention();
    suite_float();
}
