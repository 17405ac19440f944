// host: constructors. Static objects that open a model before main() and use and close it after; one that is never closed, with threads that
// sleep when the process ends. Usage: INFER_TEST_MODEL=FILE static_objects
#include "../../infer.h"

#include <cstdlib>
#include <cstring>

struct Model {
    infer_model *model;
    infer_session *session;
    infer_token first[8];
    bool closes;

    explicit Model(bool closes_) : model(0), session(0), closes(closes_) {
        const char *path = std::getenv("INFER_TEST_MODEL");
        infer_session_params params;
        infer_model_params open;
        std::memset(&params, 0, sizeof params);
        std::memset(&open, 0, sizeof open);
        open.backend = INFER_CPU;
        params.context = 64;
        params.own.threads = 3;
        if (!path || infer_model_open(&model, path, &open, 0) || infer_session_create(&session, model, &params, 0)) std::_Exit(2);
        if (!generate(first)) std::_Exit(3);
    }
    bool generate(infer_token *out) const {
        infer_generate_params params;
        std::memset(&params, 0, sizeof params);
        params.max_tokens = 7;
        if (infer_session_rewind(session, 0) || infer_generate(session, 0, "Once", &params, 0) || infer_session_position(session) < 8) return false;
        std::memcpy(out, infer_session_tokens(session), 8 * sizeof *out);
        return true;
    }
    ~Model() {
        infer_token again[8];
        if (!closes) return;
        if (!generate(again) || std::memcmp(first, again, sizeof again) != 0) std::_Exit(4);
        if (infer_model_close(model) || infer_session_destroy(session)) std::_Exit(5);
    }
};
static Model stays(false), goes(true);

int main() {
    infer_token now[8];
    if (!goes.generate(now) || std::memcmp(now, goes.first, sizeof now) != 0) return 6;
    return std::memcmp(stays.first, goes.first, sizeof now) != 0;
}
