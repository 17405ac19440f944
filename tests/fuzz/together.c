/* together.c: the targets that library.h serves in one program, since compiling it takes longer than `make fuzz` runs each in CI. The
 * program's own name chooses: it ends with "adapter", "gguf", ... */
#include "library.h"
#define LLVMFuzzerTestOneInput fuzz_one_adapter
#include "fuzz_adapter.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_one_gguf
#include "fuzz_gguf.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_one_model
#include "fuzz_model.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_one_state
#include "fuzz_state.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_one_tokenizer
#include "fuzz_tokenizer.c"
#undef LLVMFuzzerTestOneInput

typedef int fuzz_target(const uint8_t *data, size_t size);
static fuzz_target *fuzz_chosen;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const struct { const char *name; fuzz_target *one; } targets[] = {
        { "adapter", fuzz_one_adapter }, { "gguf", fuzz_one_gguf }, { "model", fuzz_one_model }, { "state", fuzz_one_state }, { "tokenizer", fuzz_one_tokenizer }
    };
    const char *self = *argc > 0 ? (*argv)[0] : "";
    size_t i, n;
    for (i = 0; i < sizeof targets / sizeof *targets; i++) {
        n = strlen(targets[i].name);
        if (strlen(self) >= n && strcmp(self + strlen(self) - n, targets[i].name) == 0) fuzz_chosen = targets[i].one;
    }
    if (fuzz_chosen) return 0;
    fprintf(stderr, "fuzz: the program's name must end with that of a target\n");
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_chosen(data, size); }
