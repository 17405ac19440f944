/* story.c: a story on a microcontroller: no operating system, no files, no threads, no malloc.
 *
 * The model is a constant in flash (model.S) and its weights are read where they lie. All memory that the library uses
 * comes from one array. Before a session is created the library says how much that will be: at the end main compares.
 * docs/building.md has the commands; board.c is for Cortex-M and RISC-V under QEMU, and as short on other boards. */
#include "board.h"
#define INFER_MINIMAL
#define INFER_NO_STDIO
#define INFER_NO_THREADS
#define INFER_NO_MALLOC
#define INFER_SECONDS board_seconds
#define INFER_IMPLEMENTATION
#include "../../infer.h"

enum { ARENA = 512 * 1024, CONTEXT = 128, BATCH = 16, NEW_TOKENS = 24 };

/* Memory from an array. Holes are in order of address, and neighbours become one. */
typedef struct hole { size_t size; struct hole *next; } hole;
typedef struct arena {
    hole *holes;
    size_t now, peak; /* bytes asked for */
    size_t top;       /* the most of the array that was ever in use */
} arena;
static union { hole first; unsigned char bytes[ARENA]; } memory;

static size_t whole(size_t n) { return (n + 15) / 16 * 16; }

static void *arena_alloc(void *user, size_t size, size_t align) {
    arena *a = user;
    hole **at = &a->holes, *h;
    (void)align; /* the library aligns inside the block */
    while (*at && (*at)->size < whole(size)) at = &(*at)->next;
    if (!(h = *at)) return NULL;
    *at = h->next;
    if (h->size > whole(size)) {
        hole *rest = (hole *)(void *)((char *)h + whole(size));
        rest->size = h->size - whole(size);
        rest->next = h->next;
        *at = rest;
    }
    a->now += size;
    if (a->now > a->peak) a->peak = a->now;
    if ((size_t)((unsigned char *)h - memory.bytes) + whole(size) > a->top)
        a->top = (size_t)((unsigned char *)h - memory.bytes) + whole(size);
    return h;
}

static int joins(const hole *h) { return h->next && (const char *)h + h->size == (const char *)h->next; }

static void arena_free(void *user, void *p, size_t size) {
    arena *a = user;
    hole before = { 0, a->holes }, *at = &before, *h = p;
    while (at->next && at->next < h) at = at->next;
    h->size = whole(size);
    h->next = at->next;
    at->next = h;
    if (joins(h)) {
        h->size += h->next->size;
        h->next = h->next->next;
    }
    if (at != &before && joins(at)) {
        at->size += h->size;
        at->next = h->next;
    }
    a->holes = before.next;
    a->now -= size;
}

static void say(const char *name, size_t n) {
    char digits[16];
    size_t at = sizeof digits;
    do digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    board_write(name, strlen(name));
    board_write(digits + at, sizeof digits - at);
    board_write("\n", 1);
}

/* The likeliest token each time, until the end or NEW_TOKENS. Nothing is allocated here. */
static infer_result story(const infer_model *model, infer_session *session, const infer_token *tokens, int32_t n) {
    infer_top best;
    char text[64];
    size_t len;
    int32_t i;
    infer_result r = infer_session_eval(session, tokens, n);
    for (i = 0; r == INFER_OK && i < NEW_TOKENS; i++) {
        r = infer_session_top(session, -1, 1, &best);
        if (r || infer_token_flags(model, best.token) & INFER_TOKEN_END) return r;
        infer_token_text(model, best.token, text, sizeof text, &len);
        board_write(text, len < sizeof text ? len : sizeof text);
        r = infer_session_eval(session, &best.token, 1);
    }
    return r;
}

int main(void) {
    static const char prompt[] = "Once upon a time";
    arena a = { &memory.first, 0, 0, 0 };
    infer_model_params model_params = { .allocator = { &a, arena_alloc, arena_free } };
    infer_session_params params = { .context = CONTEXT,
                                    .own = { .cells = CONTEXT, .batch = BATCH, .threads = 1, .sessions = 1 } };
    infer_model *model = NULL;
    infer_session *session = NULL;
    infer_memory predicted = { 0 };
    infer_error err = { 0, "" };
    infer_token tokens[sizeof prompt + 1];
    size_t n = 0;
    infer_result r;
    memory.first.size = ARENA;
    r = infer_model_open_memory(&model, board_model, (size_t)(board_model_end - board_model), &model_params, &err);
    /* the prompt before the session: what tokenizing takes is free again by then */
    if (!r) r = infer_tokenize(model, prompt, sizeof prompt - 1, INFER_TEXT_ADD_SPECIAL, tokens, sizeof prompt + 1, &n, &err);
    if (!r) r = infer_model_memory(model, &params.own, &predicted, &err);
    if (!r) r = infer_session_create(&session, model, &params, &err);
    if (!r && (r = story(model, session, tokens, (int32_t)n)) != INFER_OK) err = *infer_session_error(session);
    if (r) board_write(err.message, strlen(err.message));
    say("\npeak memory: ", a.peak);
    say("predicted: ", (size_t)predicted.peak);
    say("of the array: ", a.top);
    say("stack: ", board_stack());
    infer_session_destroy(session);
    infer_model_close(model);
    return r || a.peak != predicted.peak || a.now != 0;
}
