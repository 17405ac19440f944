/* senses.h: the projector of a text model: its stacks, and encoded pictures and sounds. Included by model.h. */
#ifndef INFER__SENSES_H
#define INFER__SENSES_H

/* An encoded picture or sound that the same pixels or samples give again. The media has no reference of this. */
typedef struct infer__kept_media {
    uint64_t key;       /* a hash of what was encoded and how; 0 = nothing */
    uint64_t used;      /* number of the last use */
    infer_media *media;
    int32_t idle;       /* 1 = nobody has a reference: it is the keeper's */
} infer__kept_media;
enum { INFER__KEPT_MEDIA = 16, INFER__SENSES = 2 }; /* at most; INFER__STACK_VISION - 1, INFER__STACK_AUDIO - 1 */
struct infer__senses {
    infer__mutex encoding; /* held by what uses the stacks and contexts */
    infer__mutex lock;     /* of what is kept, and of thread */
    uint64_t thread;       /* infer__thread_self of who encodes; 0 = nobody */
    infer_model *stacks[INFER__SENSES];     /* NULL = none: */
    infer_error why[INFER__SENSES];         /* for a reason, if the file has one */
    infer_context *contexts[INFER__SENSES]; /* of the last one encoded, for others of its size or smaller */
    infer__kept_media kept[INFER__KEPT_MEDIA];
    uint64_t uses;
    int32_t most;       /* that are kept idle */
};
/* senses.c. Open the file's stacks for this model; alone: the model is the projector's file itself: FORMAT,
 * UNSUPPORTED, or those that opening a model gives. */
static infer_result infer__senses_open(infer_model *m, const infer__gguf_origin *origin, int alone, infer_error *err);
static void infer__senses_close(infer_model *m);
/* As infer_media_encode; sound: at INFER__SOUND_RATE samples a second. */
enum { INFER__SOUND_RATE = 16000 };
static infer_result infer__media_encode(infer_media **out, infer_model *m, const infer_image *images, int32_t n,
                                        const infer_sound *sound, const infer_encode_params *params, infer_error *err);
/* The last reference to media that was kept is gone: 1 = it stays, idle. */
static int infer__senses_keep(infer_media *x);
#endif
