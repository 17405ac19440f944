/* The declarations as C89 programs and C++ programs use them. The same text is compiled as C89, C99, C++98 and C++17. */
#include "../../infer.h"

int decl_use(const char *path);
int decl_use(const char *path) {
    infer_model_params p = {0};
    infer_context_params c = {0};
    infer_session_params s = {0};
    infer_generate_params g = {0};
    infer_error err;
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_result r;
    p.backend = INFER_CPU;
    c.threads = 2;
    s.own = c;
    g.max_tokens = 1;
    r = infer_model_open(&model, path, &p, &err);
    if (r == INFER_OK) r = infer_session_create(&session, model, &s, &err);
    if (r == INFER_OK) r = infer_generate(session, NULL, "x", &g, NULL);
    infer_session_destroy(session);
    infer_model_close(model);
    return (int)r;
}
