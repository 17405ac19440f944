/* text_parts.c: the library up to its text layer, for tests, fuzzers and benchmarks that need no more: it compiles in a few
 * seconds. Use: -DCHECK_PARTS='"text_parts.c"' with CHECK_FILE and CHECK_SUITE (tests/check.c), or include it. */
#include "../src/infer_text.c"
