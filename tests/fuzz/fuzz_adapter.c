/* fuzz_adapter.c: libFuzzer target for files of adapters and control vectors:
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DINFER_QUIET -I. -Itests tests/fuzz/fuzz_adapter.c -o fuzz_adapter -lm
 *     ./fuzz_adapter -max_len=8192 tests/fuzz/corpus_adapter
 *
 * The first byte chooses the model (of tests/data) and whether unknown things are allowed, the rest is the file. Always: an error
 * has a message; what opens is used by a session, beside one without, whose result does not change; everything is given back. */
#include "library.h"
#include "fuzz.h"

static const char *const FUZZ_FILES[] = { "llama-dense", "qwen3moe-norm-moe", "qwen35-dense", "bert-mean", "rwkv7-small-dense" };
enum { FUZZ_MODELS = 5, FUZZ_IDS = 5 };
static infer_model *fuzz_models[FUZZ_MODELS];

/* A session's result, with or without the adapter; 0 = it failed. */
static uint64_t fuzz_eval(infer_context *c, infer_session *s) {
    static const infer_token ids[FUZZ_IDS] = { 1, 5, 3, 5, 2 };
    const infer__hparams *hp = &c->model->hp;
    infer_step st;
    infer_error e;
    memset(&st, 0, sizeof st);
    st.session = s;
    st.tokens = ids;
    st.n = FUZZ_IDS;
    st.outputs = hp->encoder ? INFER_OUT_HIDDEN : INFER_OUT_LAST;
    if (infer_eval(c, &st, 1, &e) != INFER_OK) {
        if (!e.message[0]) fuzz_stop("an error without a message");
        return 0;
    }
    return hp->encoder ? infer__fnv(INFER__FNV, infer_session_hidden(s, -1), (uint64_t)hp->n_embd * sizeof(float))
                       : infer__fnv(INFER__FNV, infer_session_logits(s, -1), (uint64_t)hp->n_vocab * sizeof(float));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    infer_context_params p;
    infer_context *c = NULL;
    infer_session *with = NULL, *without = NULL;
    infer_adapter *a = NULL;
    infer_adapter_use use;
    infer_model *m;
    infer_error e;
    int64_t used;
    uint64_t before;
    int i;
    if (size < 1) return 0;
    for (i = 0; i < FUZZ_MODELS; i++) {
        char path[80];
        snprintf(path, sizeof path, "tests/data/archs/%s.gguf", FUZZ_FILES[i]);
        if (!fuzz_models[i] && infer_model_open(&fuzz_models[i], path, NULL, &e) != INFER_OK) fuzz_stop(e.message);
    }
    m = fuzz_models[data[0] % FUZZ_MODELS];
    used = infer__atomic_get(&m->mem.used);
    if (infer_adapter_open_memory(&a, m, data + 1, size - 1, data[0] / FUZZ_MODELS & 1, &e) != INFER_OK) {
        if (a || !e.message[0]) fuzz_stop("an error without a message");
    } else {
        memset(&p, 0, sizeof p);
        memset(&use, 0, sizeof use);
        p.threads = 1;
        p.batch = 16;
        p.cells = 64;
        use.adapter = a;
        use.scale = data[0] & 128 ? -2.0f : 0.5f;
        use.last_layer = data[0] / 32 & 3;
        if (infer_context_create(&c, m, &p, &e) || infer_session_create_in(&without, c, NULL, &e) ||
            infer_session_create_in(&with, c, NULL, &e)) fuzz_stop(e.message);
        before = fuzz_eval(c, without);
        if (infer_session_set_adapters(with, &use, 1) != INFER_OK) fuzz_stop(infer_session_error(with)->message);
        fuzz_eval(c, with);
        infer_session_rewind(without, 0);
        if (fuzz_eval(c, without) != before) fuzz_stop("a session without adapters has another result");
        if (infer_adapter_close(a) != INFER_ERR_STATE) fuzz_stop("an adapter that is used was closed");
        infer_session_destroy(with);
        infer_session_destroy(without);
        if (infer_context_destroy(c) != INFER_OK || infer_adapter_close(a) != INFER_OK) fuzz_stop("something is in use");
    }
    if (infer__atomic_get(&m->mem.used) != used || infer__atomic_get(&m->users) != 0) fuzz_stop("something was not given back");
    return 0;
}
