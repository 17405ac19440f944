/* msan_suites.c: the suites that read files, states and texts, and compute on every CPU level, for a build that sees reads of
 * memory that was never written (clang's MemorySanitizer): -DCHECK_FILE='"msan_suites.c"' -DCHECK_SUITE=suite_msan. */
#include "test_gguf.c"
#include "test_quant.c"
#include "test_json.c"
#include "test_jinja.c"
#include "test_schema.c"
#include "test_tokenizer.c"
#include "test_tokenizer_kinds.c"
#include "test_grammar.c"
#include "test_sampler.c"
#include "test_sampler_top.c"
#include "test_chat.c"
#include "test_chat_prompt.c"
#include "test_sampler_stages.c"
#include "test_ops.c"
#include "test_ops_moe.c"
#include "test_int8.c"
#include "test_attention.c"
#include "test_float.c"
#include "test_arch.c"
#include "test_model.c"
#include "test_cache.c"
#include "test_session.c"
#include "test_adapters.c"
#include "test_api.c"
#include "test_generate.c"
#include "test_constrained.c"
#include "test_chat_api.c"
#include "test_broken.c"
#include "test_hostile_model.c"
#include "test_hostile_state.c"
#include "test_marks.c"
#include "test_cve.c"

/* A read of what was never written, for the script that looks whether it is seen: run with the filter "planted". */
static void test_msan_planted(void) {
    volatile int *p = (volatile int *)malloc(sizeof *p);
    int *never = (int *)malloc(4 * sizeof *never);
    *p = never[2] > 7 ? 1 : 2;
    CHECK(*p != 3);
    free((void *)(uintptr_t)p);
    free(never);
}

static void suite_msan(void) {
    if (check_filter && strstr(check_filter, "planted")) RUN(test_msan_planted);
    suite_gguf();
    suite_quant();
    suite_json();
    suite_jinja();
    suite_schema();
    suite_tokenizer();
    suite_tokenizer_kinds();
    suite_grammar();
    suite_sampler();
    suite_sampler_top();
    suite_chat();
    suite_chat_prompt();
    suite_sampler_stages();
    suite_ops();
    suite_ops_moe();
    suite_int8();
    suite_attention();
    suite_float();
    suite_arch();
    suite_model();
    suite_cache();
    suite_session();
    suite_adapters();
    suite_api();
    suite_generate();
    suite_constrained();
    suite_chat_api();
    suite_broken();
    suite_hostile_model();
    suite_hostile_state();
    suite_marks();
    suite_cve();
}
