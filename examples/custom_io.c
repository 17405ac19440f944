/* custom_io.c: a model that does not lie in a file of its own: in an archive, behind encryption, on a network.
 *
 *   cc -O2 examples/custom_io.c -o custom_io -lm -lpthread && ./custom_io model.gguf "Once upon a time"
 *
 * Here the callback reads from a FILE and undoes nothing; put your own bytes in its place. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>

typedef struct archive {
    FILE *file;
    long start; /* where the model begins in it */
    unsigned long calls, bytes;
} archive;

/* n bytes at offset of the model to dst: the number of bytes copied. Called by one thread at a time. */
static size_t archive_read(void *user, uint64_t offset, void *dst, size_t n) {
    archive *a = user;
    a->calls++;
    a->bytes += (unsigned long)n;
    if (fseek(a->file, a->start + (long)offset, SEEK_SET) != 0) return 0;
    return fread(dst, 1, n, a->file);
}

static int show(void *user, const char *text, size_t n) {
    (void)user;
    fwrite(text, 1, n, stdout);
    return fflush(stdout);
}

int main(int argc, char **argv) {
    archive a = { 0 };
    infer_io io = { 0 };
    infer_generate_params params = { .max_tokens = 32, .text = show };
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_error err = { 0, "" };
    int failed = 1;

    if (argc != 3 || !(a.file = fopen(argv[1], "rb"))) {
        fprintf(stderr, "usage: custom_io model.gguf PROMPT\n");
        return 2;
    }
    fseek(a.file, 0, SEEK_END);
    io.user = &a;
    io.read = archive_read;
    io.size = (uint64_t)ftell(a.file);
    if (infer_model_open_io(&model, &io, 1, NULL, &err) || infer_session_create(&session, model, NULL, &err)) goto done;
    if (infer_generate(session, NULL, argv[2], &params, NULL)) {
        err = *infer_session_error(session);
        goto done;
    }
    printf("\n");
    fprintf(stderr, "%lu bytes in %lu reads\n", a.bytes, a.calls);
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    infer_session_destroy(session);
    infer_model_close(model);
    fclose(a.file); /* after the model, which may read tensors until it is closed */
    return failed;
}
