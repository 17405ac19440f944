/* session.h: sessions and the functions on them: calls.c, session.c, eval.c, state.c. Included by model.h, after
 * infer_context. */
#ifndef INFER__SESSION_H
#define INFER__SESSION_H

/* A kept recurrent state after pos positions. minor: it is from an eval of one token. */
typedef struct infer__snapshot { int32_t pos, cell, minor; } infer__snapshot;
enum { INFER__SNAPSHOTS = 8 }; /* of a session, at most */

enum { INFER__FURTHER_ROWS = 65 }; /* whose hidden states are kept: of a pass that tried 64 drafts */

/* NOT: a decoder's passes, or there is one stack. SOURCE: cross attention will read the encoder's results. */
enum { INFER__ENCODES_NOT, INFER__ENCODES_SOURCE, INFER__ENCODES_VECTORS };

/* media.c: a picture or sound: texts, and rows of embeddings between them. */
typedef struct infer__media_part {
    char *text; /* UTF-8, zero-terminated, may be of control tokens; NULL = rows */
    float *rows; /* n x n_embd * (1 + n_deepstack) */
    int32_t n, n_pos; /* positions, and those for rotation */
    int32_t nx;       /* rows of the grid's width for M-RoPE; 0 = they are in a line */
    int32_t whole;    /* 1 = rows see all of the part */
    uint64_t hash;    /* of rows, n, n_pos, nx, whole */
} infer__media_part;
struct infer_media {
    infer__atomic refs;
    infer_model *model; /* whose embeddings these are */
    infer__media_part *parts;
    int32_t n_parts;
    int32_t rows, positions; /* of all parts; with the tokens of texts */
};
/* A run of positions that are media's. */
typedef struct infer__media_span {
    int32_t at, n, n_pos, nx, whole; /* [at, at + n); the others as in the part */
    const infer__media_part *part;   /* NULL: after loading, the rows are not there */
    infer_media *media;              /* that has it: a reference */
} infer__media_span;

struct infer_session {
    infer__link dead;     /* of context->dead; first, so that it is the session */
    infer__atomic refs;   /* of the caller, calls, generations and slices */
    infer_session *slice_next;
    int32_t in_slice;     /* 1 = in the list of context->slicing */
    infer_context *context;
    int32_t n, cap;      /* tokens so far, most */
    int32_t n_valid;     /* tokens whose cache entries can be used: n, or less after a far rewind */
    infer_token *tokens; /* cap */
    infer_session *source, *owner; /* source.c: its encoded input; the session whose input this is */
    int32_t encodes;     /* INFER__ENCODES_*: passes of it are the encoder's */
    int32_t type_from;   /* tokens from here on are the second text of a pair; 0 = none */
    infer__adapter_set *adapters; /* of later evals; NULL = none */
    infer__adapted *adapted;      /* n_adapted runs of the positions so far */
    int32_t n_adapted, adapted_cap;
    /* increments.c: what a mark stands for, 0 = none; of that, positions that are still as they were, -1 = and
     * the source is not; tokens that there were */
    uint64_t saved;
    int32_t saved_to, saved_n;
    int32_t minor;         /* 1 = a rewind to the end of the running eval is unlikely, -1 = likely */
    float *further; /* further.c: hidden states of further_n positions from further_at on; NULL: nothing predicts */
    int32_t further_at, further_n;
    int32_t ahead, drafts; /* draft.c: last tokens of the n not chosen yet; drafted ones of the running eval */
    infer_step step;     /* of the running eval, where the session is evaluated alone */
    int32_t paused;      /* 1 = a slice of it has ended: the context is claimed */
    double until;        /* infer__slice_end of the running slice, 0 = it has none */
    infer__media_span *spans;           /* n_spans */
    int32_t n_spans, spans_cap;
    infer_media *const *offered; /* n_offered: what tokens of evals may stand for; the caller's */
    int32_t n_offered;
    int32_t *pages[INFER__CACHE_GROUPS]; /* plan.max_pages each; -1 = none */
    int32_t first_page[INFER__CACHE_GROUPS]; /* pages before it have been freed */
    /* cells.c; cells -1 = none. cell: the state after n_valid positions (none at 0); of the running eval: cell_next
     * after the passes so far, next_pos positions; cell_out, cell_end of the running pass */
    int32_t cell, cell_minor, cell_next, next_pos, cell_out, cell_end, n_snapshots;
    infer__snapshot snapshots[INFER__SNAPSHOTS]; /* by position */
    infer_progress_fn progress;
    void *progress_user;
    infer_trace_fn trace;
    void *trace_user;
    /* results of the last eval */
    int32_t out_n, out_first_logits, out_first_hidden; /* tokens in the step; first row kept, out_n = none */
    float *logits, *hidden;
    uint64_t logits_cap, hidden_cap; /* rows */
    /* results.c: logits on the device: their row in the work area + 1, 0 = they are in `logits`; the largest of them */
    int32_t kept_row, n_top;
    infer__top_logit *top;
    uint64_t top_cap;
    int32_t top_wanted;  /* of the next eval's: what the last choice took, 0 = all */
    int32_t all_wanted;  /* all logits of this eval were requested */
    infer__atomic calls;   /* infer__claim */
    infer__atomic cancel;  /* number of the latest call of this session that shall end */
    infer__atomic eval;    /* number of the context's call that evaluates it now, 0 = none */
    infer__atomic refused; /* the last call was refused because another one ran */
    infer_error error;
    infer_stats stats;
};

/* calls.c: one call at a time. What is claimed has a reference more, so a leave may be the end of the object. */
/* The session, and the context with it: 0 or STATE, with nothing claimed. */
static int infer__session_claim(infer_session *s);
static void infer__session_leave(infer_session *s);
static infer_result infer__context_claim(infer_context *c, const char *call, infer_error *err);
static int infer__context_own(infer_context *c); /* as claim, but in a child of fork() too: 0 = another call has it */
static void infer__context_leave(infer_context *c);
static void infer__context_let(infer_context *c); /* drop a reference */
/* Close the caller's reference: STATE when it has none, or in a child of fork() that must not touch its device. */
static infer_result infer__context_end(infer_context *c);
static infer_result infer__session_end(infer_session *s);
static infer_result infer__session_enter(infer_session *s, const char *call); /* both; the error is the session's */
static infer_result infer__session_exit(infer_session *s, infer_result r);    /* both; returns r */
/* 1 in a child of fork(), which does not have its threads or devices. */
static int infer__context_lost(const infer_context *c);
static int infer__model_lost(const infer_model *m);
/* Hold the model while a call runs whose callbacks (memory, log) might close it, or while an object made from it
 * exists.
 * NULL is accepted; let returns r, and may free the model. */
static void infer__model_hold(const infer_model *m);
static infer_result infer__model_let(const infer_model *m, infer_result r);
static void infer__model_free(infer_model *m); /* api/model_api.c: no reference is left */
/* 1 when infer_session_cancel was called for the session's running call. */
static int infer__session_cancelled(const infer_session *s);

/* context.c, session.c: create completely, or fail without leaving anything; for a session, its context is claimed. */
static infer_result infer__context_make(infer_context **out, infer_model *m, const infer_context_params *params,
                                        int32_t default_sessions, infer_error *err);
static void infer__context_free(infer_context *c); /* no reference is left */
static infer_result infer__session_make(infer_session **out, infer_context *c, const infer_session_params *p,
                                        infer_error *err);
static void infer__session_free(infer_session *s); /* whatever its references; its context is claimed, or freeing */
static void infer__session_warn(const infer_session *s); /* logs settings that are allowed but seldom intended */

/* eval.c: evaluate all steps or none; the context and the sessions are claimed. */
static infer_result infer__eval_steps(infer_context *c, const infer_step *steps, int32_t n, infer_error *err);
static void infer__eval_drop(infer_context *c); /* abandon the eval after INFER_MORE */
/* Its parts, which do not read the steps: first for each of its sessions, then once. */
static void infer__eval_stand(infer_context *c, infer_session *s);
static void infer__eval_over(infer_context *c);
/* Abandon an eval of infer_eval_slice: its sessions and the context can be used again. */
static infer_result infer__slices_drop(infer_context *c);
/* Check a step's session: ARGUMENT when it is not one of the context's, or occurs in another step. */
static infer_result infer__step_owner(const infer_context *c, const infer_step *steps, int32_t i, infer_error *err);
/* The first position that must be recomputed but cannot be, since it was given as an embedding; -1 = none. */
static int32_t infer__session_lost(const infer_session *s);

/* rest.c: a pass in several contexts. rows: those of layers elsewhere become the stream of this pass' n rows (out 0),
 * or the reverse; give: the reverse, and where the model has the head, the results' rows come back to xn. */
static void infer__rest_rows(infer_context *c, int32_t n, int out);
static void infer__rest_give(infer_context *c, int32_t n);
static void infer__rest_end(infer_context *c); /* the context is no more */
static void infer__turn_take(infer_context *c);
static void infer__turn_give(infer_context *c);
static void infer__rest_copy(infer_context *c, int32_t group, int32_t to, int32_t from); /* a page elsewhere, too */
/* A page of a slot elsewhere, or a cell, to or from the host, as infer__page_move and infer__cell_move. */
static void infer__rest_move(infer_context *c, int32_t state, int32_t page, char *data, int out);
static uint64_t infer__rest_bytes(infer__plan *p, const infer_model *m);
/* The pass, once its rows are embedded, to the other parts; rows for the head. */
static void infer__share_pass(infer_context *c, int32_t n);
static void infer__share_head(infer_context *c, const infer__tensor *x);
/* parts.c: products with matrices that are cut, and what follows them; 0 = none of them is. The head's are. */
static int infer__parts_matmul(infer_context *c, const infer__matmul_args *mm);
static int infer__parts_moe(infer_context *c, const infer__moe_matmul_args *a);
static void infer__parts_head(infer_context *c, const infer__tensor *x, const infer__tensor *y);
static uint64_t infer__parts_bytes(const infer__plan *p, const infer_model *m);
static infer_result infer__parts_context(const infer_model *m, const infer_context_params *in, infer_error *err);
static infer_result infer__rest_check(const infer_model *m, const infer_context_params *in, infer_error *err);
static infer_result infer__context_rows(infer_context *c, const void *message, size_t size, float *rows, size_t n,
                                        size_t cap, size_t *back, infer_error *err);

static infer_result infer__rows_read(const void *message, size_t size, infer_rows_info *out, infer_error *err);

/* media.c. Parts are copied; their rows, from infer__alloc, become the media's unless this fails. The model is held. */
static infer_result infer__media_make(infer_media **out, infer_model *m, const infer__media_part *parts, int32_t n,
                                      infer_error *err);
/* Free it, whatever its references. */
static void infer__media_free_parts(infer_media *x);
/* Drop a reference. */
static void infer__media_let(infer_media *x);
/* The token of row i of a part. */
static infer_token infer__media_token(const infer__media_part *p, int32_t i);
/* What the tokens of later evals may stand for; NULL, 0 = nothing. Not copied. */
static void infer__session_offer(infer_session *s, infer_media *const *media, int32_t n);
/* 1 when the row of a position whose token is below 0 can be computed again. */
static int infer__span_rows(const infer_session *s, int32_t pos);
/* The first position of the span that has pos; pos where there is none. */
static int32_t infer__span_start(const infer_session *s, int32_t pos);
static void infer__spans_cut(infer_session *s, int32_t n); /* those from position n on are no more */
static int infer__spans_fork(infer_session *to, const infer_session *from);
static int infer__spans_reserve(infer_session *s, int32_t n);
/* How many of the tokens that follow the session's, about n of `left`, an eval takes without cutting what is whole. */
static int32_t infer__media_chunk(const infer_session *s, const infer_token *tokens, int32_t n, int32_t left);
/* Spans for a step's tokens, after the session's. */
static infer_result infer__spans_take(const infer_step *st, infer_error *err);
/* Of `count` rows from pos on as many as a pass may have: not a part of a span that is whole. first: the pass is
 * empty. */
static int32_t infer__spans_fit(const infer_session *s, int32_t pos, int32_t count, int32_t first);
/* Row r of the pass is position pos of s: its embedding, end and axes; then, of all rows: what the pass needs of it. */
static void infer__span_row(infer_context *c, const infer_session *s, int32_t r, int32_t pos);
static void infer__spans_use(infer_context *c);
static void infer__deepstack(infer_context *c, int32_t l, const infer__tensor *x);

/* A span in saved sessions: at, n, n_pos, nx, whole; 0 = these are not a span's. */
enum { INFER__SPAN_WORDS = 5 };
static void infer__span_words(const infer__media_span *p, uint32_t *words);
static int infer__span_of(infer__media_span *p, const uint32_t *words);

/* state.c: as the public calls; the session and its context are claimed. */
static infer_result infer__session_fork(infer_session **out, const infer_session *session, infer_error *err);
static infer_result infer__session_save(infer_session *session, infer_write_fn write, void *user);
static infer_result infer__session_load(infer_session *session, infer_read_fn read, void *user);
/* increments.c: the same. */
static infer_result infer__session_save_more(infer_session *s, infer_session_mark *mark, infer_write_fn write,
                                             void *user);
static infer_result infer__session_load_more(infer_session *s, infer_session_mark *mark, infer_read_fn read,
                                             void *user);
/* 1 when the first words of a state are those of a record. */
static int infer__increments_known(const uint32_t *w);

/* eval.c, state.c, api/generate.c: as the public calls; the caller has claimed the session, not its context. */
static infer_result infer__session_eval(infer_session *s, const infer_token *tokens, int32_t n);
static infer_result infer__session_eval_as(infer_session *s, const infer_token *tokens, int32_t n, int32_t outputs);
/* With `until`, evals return INFER_MORE when the time is over. Then the next call of that function continues, whatever
 * its arguments; tokens must stay unchanged. slice: s->step, or the rest of it; the context is claimed, and released
 * unless there is more to do. stop: abandon the rest. */
static void infer__slice_begin(infer_context *c, double until); /* of the current eval; 0 = no limit */
static infer_result infer__session_slice(infer_session *s, double until, infer_error *err);
static void infer__session_stop(infer_session *s);
/* Roll back the drafted tokens that are ahead; results of the tokens before them stay. */
static infer_result infer__session_take_back(infer_session *s);
static infer_result infer__session_rewind(infer_session *s, int32_t n);
static infer_result infer__session_sync(infer_session *s, const infer_token *tokens, int32_t n, int32_t *kept);
/* Limits reasoning: `left` more tokens may come; `ends` returns the end mark, NULL when the text is not in the middle
 * of reasoning. */
typedef struct infer__steering {
    int32_t left; /* 0 = any number */
    const char *(*ends)(void *user);
    void *user;
} infer__steering;
/* steering may be NULL. */
static infer_result infer__generate(infer_session *s, infer_sampler *sampler, const char *prompt,
                                    const infer_generate_params *params, infer__steering *steering,
                                    infer_generate_info *info);
/* api/prompt_ids.c: tokens that grow; ids are to be freed, and there is room for one more. */
typedef struct infer__ids {
    infer__mem *mem;
    const infer_model *model;
    infer_token *ids;
    size_t n;
    uint64_t cap;
} infer__ids;
/* Those of segments, by `structure` (infer__tokenize_segments), or NULL: of one text, by flags; n_media markers in them
 * stand for media. Then BOS in front, where the vocabulary asks for it and there is none. */
static infer_result infer__ids_make(infer__ids *x, const infer_segment *segments, size_t n, const uint8_t *structure,
                                    int32_t flags, infer_media *const *media, int32_t n_media, infer_error *err);
static infer_result infer__ids_begin(infer__ids *x, infer_error *err);
static void infer__ids_free(infer__ids *x);
/* The tokens of one picture or sound. */
static infer_result infer__ids_media(infer__ids *x, const infer_media *media, infer_error *err);
static infer_result infer__media_check(const infer_model *model, infer_media *const *media, int32_t n,
                                       infer_error *err);
/* The ids of a prompt (room for one more), begins: with BOS in front; p: media and text_flags. *out is to be freed. */
static infer_result infer__prompt_ids(const infer_model *model, infer__mem *mem, const char *prompt,
                                      const infer_generate_params *p, int begins, infer_token **out, size_t *n,
                                      infer_error *err);
/* The sampler is claimed for a call of the session; NULL is accepted. */
static infer_result infer__sampler_claim(infer_sampler *sampler, infer_error *err);
static void infer__sampler_leave(infer_sampler *sampler);
/* A sampler's grammar. NULL is accepted. */
static void infer__grammar_take(infer_grammar *grammar);
static void infer__grammar_let(infer_grammar *grammar);

/* As the fields of these names: without slices a pass has no end before its end. */
INFER__FOLDED int32_t infer__resume(const infer_context *c) { return INFER__HAS_SLICES ? c->resume : 0; }
INFER__FOLDED int32_t infer__stage(const infer_context *c) { return INFER__HAS_SLICES ? c->stage : 0; }

/* 1 when all rows of an eval must be in one pass, since they attend to each other. */
INFER__INLINE int infer__session_whole(const infer_session *s) {
    return INFER__VARIANT(s->context->model->hp.not_causal || s->encodes);
}

#endif
