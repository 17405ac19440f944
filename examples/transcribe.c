/* A sound as text, without a conversation: cc -O2 examples/transcribe.c -o transcribe -lm -lpthread &&
 * ./transcribe voxtral.gguf mmproj.gguf speech.wav "<__media__>Transcribe the speech:"
 * WAV. A host that has samples already fills in an infer_sound instead. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>

static int show(void *user, const char *text, size_t n) { (void)user; return fwrite(text, 1, n, stdout) != n || fflush(stdout); }

static int progress(void *user, float done) {
    (void)user;
    fprintf(stderr, "\rlistening: %3.0f %%%s", (double)(done * 100), done >= 1 ? "\n" : "");
    return 0; /* anything else cancels */
}

int main(int argc, char **argv) {
    infer_generate_params params = { .max_tokens = 500, .text = show, .n_media = 1, .text_flags = INFER_TEXT_PARSE_SPECIAL };
    infer_encode_params encode = { .progress = progress };
    infer_model_params with = { 0 };
    infer_error err = { 0, "usage: transcribe MODEL PROJECTOR SOUND [PROMPT]" };
    infer_sound sound = { 0 };
    infer_media *media = NULL;
    infer_model *model = NULL;
    infer_session *session = NULL;
    const char *prompt = argc > 4 ? argv[4] : INFER_MEDIA_MARKER "\nTranscribe the speech.\n"; /* the sound is at the marker */
    int failed = argc < 4;
    if (!failed) {
        with.projector = argv[2];
        failed = infer_sound_open(&sound, argv[3], NULL, &err) || infer_model_open(&model, argv[1], &with, &err) ||
                 infer_media_encode_sound(&media, model, &sound, &encode, &err) || infer_session_create(&session, model, NULL, &err);
    }
    infer_sound_free(&sound);
    if (failed) fprintf(stderr, "%s\n", err.message);
    else {
        params.media = &media;
        failed = infer_generate(session, NULL, prompt, &params, NULL) < 0;
        if (failed) fprintf(stderr, "%s\n", infer_session_error(session)->message);
        putchar('\n');
    }
    infer_session_destroy(session);
    infer_media_free(media);
    infer_model_close(model);
    return failed;
}
