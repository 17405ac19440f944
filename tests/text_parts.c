/* text_parts.c: the library up to its text layer, for tests, fuzzers and benchmarks that need no more: it compiles in a few
 * seconds. Use: -DCHECK_PARTS='"text_parts.c"' with CHECK_FILE and CHECK_SUITE (tests/check.c), or include it. */
#ifndef INFER__WATCH_SECONDS
#  define INFER__WATCH_SECONDS 600.0 /* sanitizers are slow: what a deadline ends would look like a finding */
#endif
#include "../src/infer_text.c"
