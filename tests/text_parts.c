/* text_parts.c: the library up to its text layer, for tests, fuzzers and benchmarks that need no more: it compiles in a
 * second. Use: -DCHECK_PARTS='"text_parts.c"' with CHECK_FILE and CHECK_SUITE (tests/check.c), or include it. */
#ifndef INFER_IMPLEMENTATION
#define INFER_IMPLEMENTATION
#endif
#include "../src/base/prologue.h"
#include "../src/api.h"
#include "../src/base/base.h"
#include "../src/base/report.c"
#include "../src/base/os.c"
#include "../src/base/mem.c"
#include "../src/base/number.c"
#include "../src/base/pool.c"
#include "../src/quant/quant_types.h"
#include "../src/quant/quant_basic.c"
#include "../src/quant/quant_k.c"
#include "../src/quant/quant_iq_tables.h"
#include "../src/quant/quant_iq.c"
#include "../src/quant/quant_mx.c"
#include "../src/quant/quant_table.c"
#include "../src/format/format.h"
#include "../src/format/io.c"
#include "../src/format/gguf.c"
#include "../src/format/gguf_read.c"
#include "../src/text/text_all.c"
