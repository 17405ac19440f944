/* What is in a picture?  cc -O2 examples/describe.c -o describe -lm -lpthread && ./describe qwen3-vl.gguf mmproj.gguf cat.jpg "What is this?"
 * PNG, JPEG or PPM. A host with decoders of its own fills in an infer_image instead. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>

static int show(void *user, const infer_chat_delta *d) {
    (void)user;
    if (d->kind == INFER_CHAT_CONTENT) fwrite(d->text, 1, d->n, stdout);
    return fflush(stdout);
}

int main(int argc, char **argv) {
    infer_chat_part parts[] = { { .kind = INFER_CHAT_PART_MEDIA }, { .kind = INFER_CHAT_PART_TEXT, .text = "Describe this picture." } };
    infer_chat_message message = { .role = "user", .parts = parts, .n_parts = 2 };
    infer_chat_params chat = { .messages = &message, .n_messages = 1, .fn = show, .allow_chatml = 1, .n_media = 1 };
    infer_generate_params limits = { .max_tokens = 300 };
    infer_model_params with = { 0 };
    infer_error err = { 0, "usage: describe MODEL PROJECTOR PICTURE [QUESTION]" };
    infer_image image = { 0 };
    infer_media *media = NULL;
    infer_chat_parser *reply = NULL;
    infer_model *model = NULL;
    infer_session *session = NULL;
    int failed = argc < 4;
    if (!failed) {
        with.projector = argv[2];
        if (argc > 4) parts[1].text = argv[4];
        failed = infer_image_open(&image, argv[3], NULL, &err) || infer_model_open(&model, argv[1], &with, &err) ||
                 infer_media_encode(&media, model, &image, 1, NULL, &err) || infer_session_create(&session, model, NULL, &err);
    }
    infer_image_free(&image); /* pixels are needed only to encode them */
    if (failed) fprintf(stderr, "%s\n", err.message);
    else {
        chat.media = &media; /* one for each part that is a picture; other sessions of the model may use it, too */
        failed = infer_chat(session, NULL, &chat, &limits, &reply, NULL) < 0;
        if (failed) fprintf(stderr, "%s\n", infer_session_error(session)->message);
        putchar('\n');
    }
    infer_chat_parser_destroy(reply);
    infer_session_destroy(session);
    infer_media_free(media);
    infer_model_close(model);
    return failed;
}
