/* story.c: what index.html calls: a model from bytes, and a story piece by piece.
 *
 *   clang-19 --target=wasm32-wasi -mexec-model=reactor -msimd128 -O2 examples/wasm/story.c -o examples/wasm/story.wasm
 *   python3 -m http.server -d examples/wasm        then open http://localhost:8000/
 *
 * The file's bytes are in the program's memory, which JavaScript fills; weights are used where they lie. */
#define INFER_NO_STDIO
#define INFER_NO_THREADS
#define INFER_NO_RUNTIME_LINKING
#define INFER_IMPLEMENTATION
#include "../../infer.h"
#include <stdlib.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

static infer_model *model;
static infer_session *session;
static infer_generation *generation;
static infer_error err;

/* Room for n bytes, aligned so that weights need not be copied; NULL = there is none. Freed by story_free. */
void *EXPORT(story_room)(size_t n) { return aligned_alloc(64, (n + 63) / 64 * 64); }
void EXPORT(story_free)(void *p) { free(p); }

/* Why the last call failed. */
const char *EXPORT(story_error)(void) { return err.message; }

void EXPORT(story_close)(void) {
    infer_generation_end(generation);
    infer_session_destroy(session);
    infer_model_close(model);
    generation = NULL;
    session = NULL;
    model = NULL;
}

/* The GGUF file in data, which stays as it is until story_close. 1 = it is open. */
int EXPORT(story_open)(const void *data, size_t size) {
    infer_session_params params = { .context = 512, .own = { .batch = 32 } };
    story_close();
    return !infer_model_open_memory(&model, data, size, NULL, &err) &&
           !infer_session_create(&session, model, &params, &err);
}

/* Begin a story of at most n tokens: the text behind a zero-terminated prompt. 1 = it has begun. */
int EXPORT(story_begin)(const char *prompt, int32_t n) {
    infer_generate_params params = { .max_tokens = n };
    infer_generation_end(generation);
    generation = NULL;
    return !infer_session_rewind(session, 0) &&
           !infer_generation_begin(&generation, session, NULL, prompt, &params, &err);
}

static const char *text;

/* Go on for about `ms` milliseconds: 1 = there is more to come, 0 = that was the end, -1 = it failed. */
int EXPORT(story_next)(int32_t ms) {
    infer_result r = infer_generation_next(generation, ms, &text, NULL);
    if (r < 0) err = *infer_session_error(session);
    return r == INFER_MORE ? 1 : r < 0 ? -1 : 0;
}

/* What came in the last call of story_next. */
const char *EXPORT(story_text)(void) { return text; }
