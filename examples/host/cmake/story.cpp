// story.cpp: continues a prompt. CMakeLists.txt beside it says how it is built.
#include "infer.h"

#include <cstdio>

static int show(void *, const char *text, size_t n) { return std::fwrite(text, 1, n, stdout) != n; }

int main(int argc, char **argv) {
    infer_error err = {};
    infer_model *model = nullptr;
    infer_session *session = nullptr;
    infer_generate_params params = {};
    params.max_tokens = 64;
    params.text = show;

    if (argc != 3) return std::fprintf(stderr, "usage: story model.gguf PROMPT\n"), 2;
    bool ok = infer_model_open(&model, argv[1], nullptr, &err) == INFER_OK &&
              infer_session_create(&session, model, nullptr, &err) == INFER_OK;
    if (ok) {
        ok = infer_generate(session, nullptr, argv[2], &params, nullptr) >= 0;
        err = *infer_session_error(session);
    }
    if (!ok) std::fprintf(stderr, "%s\n", err.message);
    infer_session_destroy(session);
    infer_model_close(model);
    return ok ? 0 : 1;
}
