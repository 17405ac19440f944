/* check.c: runs the test suites. `check [FILTER]` runs tests whose name contains FILTER, or one of a,b,c.
 * The library is included, so that tests reach its internals: the parts in src/ or, with CHECK_INFER_H, infer.h.
 * One suite alone: -DCHECK_FILE='"test_gguf.c"' -DCHECK_SUITE=suite_gguf (and -DCHECK_PARTS='"parts.c"'). */
#if !defined(_DEFAULT_SOURCE)
#  define _DEFAULT_SOURCE 1 /* signals and processes, for test_host.c; tests/compile has what strict modes hide */
#endif
#define INFER_ASSERT(x) ((x) ? (void)0 : check_assert(__FILE__, __LINE__, #x))
static void check_assert(const char *file, int line, const char *what);
#define INFER__WATCH_SECONDS 600.0 /* machines that interpret, and sanitizers: tests of deadlines set their own */
#include "amx_twin.h" /* which the library computes on with INFER__AMX_TWIN */
#if defined(CHECK_PARTS)
#  include CHECK_PARTS
#elif defined(CHECK_INFER_H)
#  define INFER_IMPLEMENTATION
#  include "../infer.h"
#else
#  include "../src/infer_all.c"
#endif
#include "check.h"
static void check_assert(const char *file, int line, const char *what) { check_note(file, line, what); }

#ifndef CHECK_PARTS
/* Tests count calls, launches and allocations, and run on devices whose kernels do nothing: models take GPUs unchecked,
 * unless a test sets this. */
static int check_gpu_checked;
static INFER__UNUSED infer_result check_model_open(infer_model **out, const char *path, const infer_model_params *params,
                                                   infer_error *err) {
    infer_model_params p;
    if (!params) return infer_model_open(out, path, NULL, err);
    p = *params;
    p.gpu_unchecked = !check_gpu_checked;
    return infer_model_open(out, path, &p, err);
}
#  undef infer_model_open
#  define infer_model_open check_model_open
#endif

#ifdef CHECK_FILE
#  include CHECK_FILE
#else
#  include "test_base.c"
#  include "test_gguf.c"
#  include "test_quant.c"
#  include "test_encode.c"
#  include "test_unicode.c"
#  include "test_json.c"
#  include "test_media.c"
#  include "test_jinja.c"
#  include "test_budget.c"
#  include "test_schema.c"
#  include "test_tokenizer.c"
#  include "test_tokenizer_kinds.c"
#  include "test_grammar.c"
#  include "test_sampler.c"
#  include "test_sampler_top.c"
#  include "test_chat.c"
#  include "test_chat_prompt.c"
#  include "test_marks.c"
#  include "test_sampler_stages.c"
#  include "test_media_prepare.c"
#  include "test_ops.c"
#  include "test_ops_moe.c"
#  include "test_int8.c"
#  include "test_math.c"
#  include "test_attention.c"
#  include "test_float.c"
#  include "test_arch.c"
#  include "test_model.c"
#  include "test_hostile_keys.c"
#  include "test_needs.c"
#  include "test_cache.c"
#  include "test_session.c"
#  include "test_media_session.c"
#  include "test_increments.c"
#  include "test_cells.c"
#  include "test_adapters.c"
#  include "test_inputs.c"
#  include "test_merge.c"
#  include "test_draft.c"
#  include "test_nextn.c"
#  include "test_nextn_chain.c"
#  include "test_ssm.c"
#  include "test_delta.c"
#  include "test_wkv.c"
#  include "test_latent.c"
#  include "test_switch.c"
#  include "test_ngrams.c"
#  include "test_embed.c"
#  include "test_embedding.c"
#  include "test_stack.c"
#  include "test_stack_sound.c"
#  include "test_stack_conformer.c"
#  include "test_stack_blocks.c"
#  include "test_loading.c"
#  include "test_queue.c"
#  include "test_media_prompt.c"
#  include "test_slices.c"
#  include "test_infill.c"
#  include "test_index.c"
#  include "test_compress.c"
#  include "test_api.c"
#  include "test_versions.c"
#  include "test_generate.c"
#  include "test_generation.c"
#  include "test_fill.c"
#  include "test_constrained.c"
#  include "test_chat_api.c"
#  include "test_full.c"
#  include "test_chat_message.c"
#  include "test_score.c"
#  include "test_guide.c"
#  include "test_best.c"
#  include "test_oom.c"
#  include "test_release.c"
#  include "test_memory.c"
#  include "test_ranges.c"
#  include "test_parts.c"
#  include "test_broken.c"
#  include "test_host.c"
#  include "test_host_system.c"
#  include "test_life.c"
#  include "test_interplay.c"
#  include "test_hostile_model.c"
#  include "test_hostile_state.c"
#  include "test_cve.c"
#  include "test_gpu_kernels.c"
#  if !defined(INFER_NO_GPU) && !defined(INFER_NO_CUDA)
#    define CHECK_CUDA
#    include "test_gpu_cuda.c"
#  endif
#  if !defined(INFER_NO_GPU) && !defined(INFER_NO_OPENCL)
#    define CHECK_GPU
#    include "test_gpu_list.c"
#    include "test_gpu_opencl.c"
#    ifndef INFER_NO_HIP
#      include "test_gpu_hip.c"
#    endif
#    include "test_gpu_ops.c"
#    include "test_gpu_models.c"
#    include "test_gpu_ranges.c"
#    include "test_gpu_adapters.c"
#    include "test_gpu_media.c"
#    ifdef INFER__METAL_LIBRARY
#      include "test_gpu_metal.c"
#    endif
#    include "test_gpu_places.c"
#    include "test_gpu_queue.c"
#    include "test_gpu_stack.c"
#    include "test_gpu_upload.c"
#    include "test_gpu_verdict.c"
#  endif
#endif

int main(int argc, char **argv) {
    check_filter = argc > 1 ? argv[1] : NULL;
#ifdef CHECK_FILE
    CHECK_SUITE();
#else
    suite_base();
    suite_gguf();
    suite_quant();
    suite_encode();
    suite_unicode();
    suite_json();
    suite_media();
    suite_jinja();
    suite_budget();
    suite_schema();
    suite_tokenizer();
    suite_tokenizer_kinds();
    suite_grammar();
    suite_sampler();
    suite_sampler_top();
    suite_chat();
    suite_chat_prompt();
    suite_marks();
    suite_sampler_stages();
    suite_media_prepare();
    suite_ops();
    suite_ops_moe();
    suite_int8();
    suite_math();
    suite_attention();
    suite_float();
    suite_arch();
    suite_model();
    suite_hostile_keys();
    suite_needs();
    suite_cache();
    suite_session();
    suite_cells();
    suite_adapters();
    suite_inputs();
    suite_media_session();
    suite_merge();
    suite_draft();
    suite_nextn();
    suite_nextn_chain();
    suite_queue();
    suite_media_prompt();
    suite_slices();
    suite_infill();
    suite_ssm();
    suite_delta();
    suite_wkv();
    suite_latent();
    suite_switch();
    suite_ngrams();
    suite_embed();
    suite_embedding();
    suite_stack();
    suite_stack_sound();
    suite_stack_conformer();
    suite_stack_blocks();
    suite_loading();
    suite_index();
    suite_compress();
    suite_api();
    suite_versions();
    suite_generate();
    suite_generation();
    suite_fill();
    suite_constrained();
    suite_chat_api();
    suite_chat_message();
    suite_full();
    suite_score();
    suite_guide();
    suite_best();
    suite_oom();
    suite_release();
    suite_increments();
    suite_memory();
    suite_ranges();
    suite_parts();
    suite_broken();
    suite_host();
    suite_host_system();
    suite_life();
    suite_interplay();
    suite_hostile_model();
    suite_hostile_state();
    suite_cve();
    suite_gpu_kernels();
#  ifdef CHECK_CUDA
    suite_gpu_cuda();
#  endif
#  ifdef CHECK_GPU
    suite_gpu_list();
    suite_gpu_opencl();
#    ifndef INFER_NO_HIP
    suite_gpu_hip();
#    endif
    suite_gpu_ops();
    suite_gpu_models();
    suite_gpu_ranges();
    suite_gpu_adapters();
    suite_gpu_queue();
    suite_gpu_media();
#    ifdef INFER__METAL_LIBRARY
    suite_gpu_metal();
#    endif
    suite_gpu_places();
    suite_gpu_stack();
    suite_gpu_upload();
    suite_gpu_verdict();
#  endif
#endif
    return check_finish();
}
