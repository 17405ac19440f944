/* api_queue.h: the part of the public interface that serves many requests from one model. Included by api.h, after what
 * requests are made of. */
#ifndef INFER_API_QUEUE_H
#define INFER_API_QUEUE_H

/* ---- a queue of requests --------------------------------------------------------------------- */

typedef struct infer_queue infer_queue;     /* evaluates the requests of any number of threads together */
typedef struct infer_request infer_request; /* one of them, until infer_request_close */

typedef struct infer_queue_params {
    infer_context_params context; /* cells 0 = 4 times `positions`; sessions 0 = slots + kept / 4 */
    int32_t slots;       /* maximum number of requests that run at once; 0 = 16 */
    int32_t waiting;     /* requests that may wait for a slot; 0 = 1024 */
    int32_t positions;   /* maximum length of a request, prompt and generated tokens; 0 = the model's context, at most
                          * 4096 */
    int32_t prompt_rows; /* maximum prompt tokens in a pass that also generates: few keep the running requests fast,
                          * many start new ones sooner; 0 = 128 */
    int32_t kept;        /* maximum number of ended requests whose cache is kept for others with the same prefix; the
                          * least recently used are dropped first, and all of them before a request has to wait for
                          * memory; 0 = 16, -1 = none */
    int32_t thread;      /* 1 = the queue runs in a thread of its own, which calls the callbacks and the allocator;
                          * 0 = it runs in infer_queue_step and infer_request_wait */
} infer_queue_params;

/* A request. Everything is copied except the sampler, the adapters and generate.draft: these are in use until it has
 * ended. */
typedef struct infer_request_params {
    const char *prompt;            /* a text (UTF-8), BOS in front where the vocabulary asks for it; */
    const infer_token *tokens;     /* or n_tokens tokens, as they are; */
    int32_t n_tokens;
    const infer_chat_params *chat; /* or a conversation: its fn receives the reply, generate.text must be NULL */
    infer_sampler *sampler;        /* NULL = greedy; no other request's */
    infer_generate_params generate; /* as for infer_generate; seconds count from submission */
    const infer_adapter_use *adapters; /* n_adapters */
    int32_t n_adapters;
    int32_t priority;              /* higher ones begin first and keep their memory longest; equal ones in order */
    void (*done)(void *user, infer_request *request); /* called when it has ended; the last of its callbacks */
    void *user;                    /* of done */
} infer_request_params;

typedef enum infer_request_state {
    INFER_REQUEST_WAITING = 0,
    INFER_REQUEST_PROMPT = 1, /* its prompt is being evaluated */
    INFER_REQUEST_RUNS = 2,
    INFER_REQUEST_ENDED = 3
} infer_request_state;
typedef struct infer_request_info {
    infer_request_state state;
    infer_result result;          /* once it has ended; as infer_generate returns it */
    infer_generate_info generate; /* so far */
    int32_t reused;               /* prompt tokens reused from another request */
    double waited, first, seconds; /* since submission: until it began; until its first token; until now or its end */
} infer_request_info;

typedef struct infer_queue_stats {
    int32_t waiting, running, kept; /* now */
    uint64_t ended, preempted;      /* preempted: suspended to free memory for others; resumes later */
    uint64_t prompt_tokens, reused; /* prompt tokens that were evaluated; that were reused instead */
    uint64_t new_tokens, passes;
    uint64_t again;                 /* tokens evaluated again after their request was preempted */
} infer_queue_stats;

/* UNSUPPORTED: encoders, models with an encoder and a decoder, models that fill in masked tokens; params->thread in a
 * build without threads. */
INFER_API infer_result infer_queue_create(infer_queue **out, infer_model *model, const infer_queue_params *params,
                                          infer_error *err);
/* Cancels unfinished requests, and waits for them. NULL is accepted. INFER_ERR_STATE, and nothing changes: a request is
 * not closed yet, or the call comes from a callback of the queue. */
INFER_API infer_result infer_queue_destroy(infer_queue *queue);
/* From any thread, and from callbacks. *request may be used until infer_request_close; request NULL = it counts as
 * closed already; follow it by its callbacks. Errors: LIMIT (too many requests are waiting), CONTEXT_FULL (the prompt
 * does not fit), STATE (the sampler is in use), ARGUMENT and others as of infer_generate and infer_chat. */
INFER_API infer_result infer_queue_submit(infer_queue *queue, const infer_request_params *params,
                                          infer_request **request, infer_error *err);
/* Run for about budget_ms milliseconds (exceeding it by at most one CPU layer: see infer_eval_slice; prompts are split
 * so that layers are short); 0 = one pass, -1 = until everything has ended.
 * INFER_MORE: there is more to do; INFER_OK: there is not. INFER_ERR_STATE: another thread (perhaps the queue's own) or
 *             the caller of this callback is running it. Failures are reported by the requests. */
INFER_API infer_result infer_queue_step(infer_queue *queue, int32_t budget_ms);
INFER_API infer_result infer_queue_get_stats(infer_queue *queue, infer_queue_stats *out);

/* End the request soon, as infer_session_cancel ends infer_generate. From any thread. */
INFER_API void infer_request_cancel(infer_request *request);
/* Wait for the request to end (after `done`) and return its result. A queue without a thread is run by this call.
 * INFER_ERR_STATE: from a callback of the queue, or after fork(). */
INFER_API infer_result infer_request_wait(infer_request *request);
INFER_API infer_result infer_request_get_info(infer_request *request, infer_request_info *out);
/* The results, once it has ended (also in `done`): the text, zero-terminated, *n bytes (n may be NULL); the reply to a
 * conversation; the tokens, starting with those of the prompt; and the error. Before that: "", an empty reply, none. */
INFER_API const char *infer_request_text(const infer_request *request, size_t *n);
INFER_API const infer_chat_reply *infer_request_reply(const infer_request *request);
INFER_API const infer_token *infer_request_tokens(const infer_request *request, int32_t *n_prompt, int32_t *n);
INFER_API const infer_error *infer_request_error(const infer_request *request);
/* Release the request; cancels it if it has not ended (its callbacks may be called until it has). NULL is accepted. */
INFER_API void infer_request_close(infer_request *request);

/* ---- the best of several replies -------------------------------------------------------------- */

typedef struct infer_best_reply {
    const char *text; /* n_text bytes, zero-terminated */
    size_t n_text;
    const infer_token *tokens; /* n_tokens that were generated */
    int32_t n_tokens;
    double logprob; /* mean log probability of the tokens, before sampling; -1e30 without tokens */
    infer_generate_info info;
} infer_best_reply;
/* Free it with infer_best_free; independent of the session. */
typedef struct infer_best {
    const infer_best_reply *replies; /* n, in the order of the samplers */
    int32_t n;
    int32_t best; /* the one of the highest logprob, the first among equals */
} infer_best;
/* Continue the session with `prompt` in n ways, and choose the likeliest. The prompt is evaluated once, then n replies
 * are generated side by side, each what infer_generate gives with its sampler (on the CPU the same bits). Afterwards
 * the session holds the prompt and the best reply. samplers: n different ones, usually with seeds s, s + 1, ...; NULL
 * among them = greedy. n: 1 to the context's cells. Replies for which the context has no cells wait for others; with
 * cells for the prompt and n replies, each rounded up to 16, all run at once. prompt and params as for infer_generate,
 * except: params.text receives the best reply's text, once; token and draft must be NULL; negative is UNSUPPORTED;
 * on_full does not make room for the prompt. After an error or a cancel *out is NULL, and the session holds the prompt,
 * or what it held before. UNSUPPORTED: models that queues do not support; adapters other than those the session's
 * tokens were evaluated with. */
INFER_API infer_result infer_generate_best(infer_session *session, infer_sampler *const *samplers, int32_t n,
                                           const char *prompt, const infer_generate_params *params, infer_best **out);
INFER_API void infer_best_free(infer_best *best); /* NULL is accepted */

#endif
