/* fast_math.c MODEL...: the implementation compiled with -ffast-math: threads, batches and other sequences change no bit, and the
 * first model tells its story. (host: fast maths) */
#define INFER_IMPLEMENTATION
#include "../../infer.h"
#include <stdio.h>
#include <stdlib.h>

static const char STORY[] = ", there was a little girl named Lily. She loved to play outside in the park.";
enum { N = 70, ALL = 90 };

/* Logits of N tokens at once and then one by one, beside a session that does the same with others. */
static int logits(infer_model *model, int32_t threads, int32_t batch, int32_t beside, int32_t piece, float *out, size_t *n) {
    infer_context_params cp;
    infer_context *context = NULL;
    infer_session *s[2] = { NULL, NULL };
    infer_token ids[2][ALL];
    infer_step steps[2];
    infer_model_info info;
    int32_t i, k, at;
    int ok;
    memset(&cp, 0, sizeof cp);
    memset(steps, 0, sizeof steps);
    infer_model_get_info(model, &info);
    for (i = 0; i < ALL; i++) {
        ids[0][i] = (i * 37 + 11) % info.vocab;
        ids[1][i] = (i * 53 + 5) % info.vocab;
    }
    cp.threads = threads;
    cp.batch = batch;
    cp.cells = 2 * 256;
    ok = !infer_context_create(&context, model, &cp, NULL);
    for (k = 0; ok && k < 1 + beside; k++) ok = !infer_session_create_in(&s[k], context, NULL, NULL);
    *n = 0;
    for (at = 0; ok && at < ALL; at += steps[0].n) {
        const int32_t rows = at < N ? (N - at < piece ? N - at : piece) : 1;
        for (k = 0; k < 1 + beside; k++) {
            steps[k].session = s[k];
            steps[k].tokens = ids[k] + at;
            steps[k].n = rows;
            steps[k].outputs = INFER_OUT_LAST;
        }
        ok = !infer_eval(context, steps, 1 + beside, NULL);
        if (at + rows < N || !ok) continue;
        memcpy(out + *n, infer_session_logits(s[0], -1), (size_t)info.vocab * sizeof *out);
        *n += (size_t)info.vocab;
    }
    for (k = 0; k < 2; k++) infer_session_destroy(s[k]);
    infer_context_destroy(context);
    return ok;
}

static int same(const char *path) {
    static const struct { int32_t threads, batch, beside, piece; } WAYS[] = {
        { 1, 512, 0, N }, { 3, 512, 0, N }, { 2, 7, 0, N }, { 1, 512, 1, N }, { 2, 64, 0, 9 } };
    infer_model_params p;
    infer_model *model = NULL;
    infer_model_info info;
    infer_error err;
    float *want, *got;
    size_t n = 0, k = 0, i;
    int level, bad = 0;
    memset(&p, 0, sizeof p);
    p.backend = INFER_CPU;
    for (level = 0; level < 2; level++) { /* the best, and plain C */
        p.cpu_level = level ? INFER_CPU_SCALAR : INFER_CPU_BEST;
        if (infer_model_open(&model, path, &p, &err)) return printf("%s: %s\n", path, err.message), 1;
        infer_model_get_info(model, &info);
        want = (float *)calloc((size_t)info.vocab * (ALL - N + 1), sizeof *want);
        got = (float *)calloc((size_t)info.vocab * (ALL - N + 1), sizeof *got);
        for (i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
            if (!logits(model, WAYS[i].threads, WAYS[i].batch, WAYS[i].beside, WAYS[i].piece, i ? got : want, i ? &k : &n)) bad++;
            if (i && (k != n || memcmp(want, got, n * sizeof *want) != 0)) printf("%s, level %d: way %d differs\n", path, level, (int)i), bad++;
        }
        free(want);
        free(got);
        infer_model_close(model);
    }
    return bad;
}

int main(int argc, char **argv) {
    infer_model_params mp;
    infer_generate_params p;
    infer_model *model;
    infer_session *session;
    infer_error err;
    char text[200];
    size_t n = 0;
    int i, bad = 0;
    if (argc < 2) return 2;
    for (i = 1; i < argc; i++) bad += same(argv[i]);
    memset(&p, 0, sizeof p);
    memset(&mp, 0, sizeof mp);
    mp.backend = INFER_CPU;
    p.max_tokens = 32;
    if (infer_model_open(&model, argv[1], &mp, &err) || infer_session_create(&session, model, NULL, &err)) return printf("%s\n", err.message), 2;
    if (infer_generate(session, NULL, "Once upon a time", &p, NULL)) return 2;
    infer_detokenize(model, infer_session_tokens(session), (size_t)infer_session_position(session), 0, text, sizeof text, &n, NULL);
    if (!strstr(text, STORY)) printf("the story is \"%s\"\n", text), bad++;
    infer_session_destroy(session);
    infer_model_close(model);
    return bad != 0;
}
