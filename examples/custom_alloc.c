/* custom_alloc.c: all memory of the library comes from the host, and never more than it allows.
 *
 *   cc -O2 examples/custom_alloc.c -o custom_alloc -lm -lpthread && ./custom_alloc model.gguf "Once upon a time"
 *
 * Two ways, together: an allocator that counts (put an arena or a game engine's heap here), and max_memory, which also
 * counts the weights that are mapped from the file. Asking for more is INFER_ERR_MEMORY and nothing else happens. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct heap { size_t now, peak, calls; } heap;

/* Memory of `size` bytes aligned to `align` (a power of two, at most 64), or NULL. The library keeps its own record of
 * sizes and alignment where malloc has none, so that plain malloc is enough. */
static void *heap_alloc(void *user, size_t size, size_t align) {
    heap *h = user;
    void *p = malloc(size);
    (void)align;
    if (!p) return NULL;
    h->calls++;
    h->now += size;
    if (h->now > h->peak) h->peak = h->now;
    return p;
}

static void heap_free(void *user, void *p, size_t size) {
    heap *h = user;
    h->now -= size; /* free gets the size that alloc was asked for */
    free(p);
}

static int show(void *user, const char *text, size_t n) {
    (void)user;
    fwrite(text, 1, n, stdout);
    return fflush(stdout);
}

int main(int argc, char **argv) {
    heap h = { 0, 0, 0 };
    infer_model_params model_params = { .max_memory = 64u << 20, .allocator = { &h, heap_alloc, heap_free } };
    infer_session_params session_params = { .context = 256, .own = { .threads = 1, .batch = 32 } };
    infer_generate_params params = { .max_tokens = 32, .text = show };
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_error err = { 0, "" };
    int failed = 1;

    if (argc != 3) {
        fprintf(stderr, "usage: custom_alloc model.gguf PROMPT\n");
        return 2;
    }
    if (infer_model_open(&model, argv[1], &model_params, &err) || infer_session_create(&session, model, &session_params, &err))
        goto done;
    if (infer_generate(session, NULL, argv[2], &params, NULL)) {
        err = *infer_session_error(session);
        goto done;
    }
    printf("\n");
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    infer_session_destroy(session);
    infer_model_close(model);
    fprintf(stderr, "%u allocations, %u bytes at most, %u left\n", (unsigned)h.calls, (unsigned)h.peak, (unsigned)h.now);
    return failed || h.now != 0;
}
