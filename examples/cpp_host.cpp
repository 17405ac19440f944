// cpp_host.cpp: a C++ program. The implementation is C99, so it is compiled as C, once; C++ files include infer.h as it is.
//
//   cc -O2 -x c -DINFER_IMPLEMENTATION -c infer.h -o infer.o
//   c++ -O2 -std=c++11 examples/cpp_host.cpp infer.o -o cpp_host -lm -lpthread
//   ./cpp_host model.gguf "Once upon a time"
//
// Or put the two lines `#define INFER_IMPLEMENTATION` and `#include "infer.h"` in a file that ends in .c.
#include "../infer.h"

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

// Handles as unique_ptr, which may be destroyed in any order.
struct Close {
    void operator()(infer_model *m) const { infer_model_close(m); }
    void operator()(infer_session *s) const { infer_session_destroy(s); }
    void operator()(infer_sampler *s) const { infer_sampler_destroy(s); }
};
template <class T> using Handle = std::unique_ptr<T, Close>;

static void check(infer_result r, const infer_error &err) {
    if (r < 0) throw std::runtime_error(err.message);
}

// Exceptions must not cross the library: a callback that can throw catches.
static int append(void *user, const char *text, size_t n) {
    try {
        static_cast<std::string *>(user)->append(text, n);
        return 0;
    } catch (...) {
        return 1;
    }
}

int main(int argc, char **argv) try {
    if (argc != 3) throw std::runtime_error("usage: cpp_host model.gguf PROMPT");
    infer_error err = {};

    infer_model *m = nullptr;
    check(infer_model_open(&m, argv[1], nullptr, &err), err);
    Handle<infer_model> model(m);

    infer_session *s = nullptr;
    check(infer_session_create(&s, model.get(), nullptr, &err), err);
    Handle<infer_session> session(s);

    infer_stage stage = {};
    stage.kind = INFER_STAGE_GREEDY;
    infer_sampler *p = nullptr;
    check(infer_sampler_create(&p, model.get(), &stage, 1, 0, &err), err);
    Handle<infer_sampler> sampler(p);

    std::string text;
    const char *stop[] = {"."};
    infer_generate_params params = {};
    params.max_tokens = 64;
    params.stop = stop;
    params.n_stop = 1;
    params.text = append;
    params.user = &text;
    check(infer_generate(session.get(), sampler.get(), argv[2], &params, nullptr), *infer_session_error(session.get()));
    std::cout << text << "\n";
    return 0;
} catch (const std::exception &e) {
    std::cerr << e.what() << "\n";
    return 1;
}
