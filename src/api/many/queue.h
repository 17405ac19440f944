/* queue.h: what the parts of queues share. Included by queue.c and queue_api.c. */
#ifndef INFER__QUEUE_H
#define INFER__QUEUE_H
#include "../../model/model.h"

enum { INFER__QUEUE_SLOTS = 16, INFER__QUEUE_WAITING = 1024, INFER__QUEUE_KEPT = 16, INFER__QUEUE_ROWS = 128 };

struct infer_request {
    infer_queue *queue;
    infer_request *next; /* of those that wait */
    uint64_t number;
    int32_t priority;
    infer__atomic cancelled;
    int32_t closed;         /* by the caller, whose reference to the queue ended with it */
    int32_t ended;          /* and `done` has been called: only the caller uses it */
    infer_request_info info;
    infer_sampler *sampler; /* claimed */
    infer_generate_params generate;
    infer_text_fn text_fn;  /* the caller's, and its user */
    int (*token_fn)(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top);
    int32_t (*full_fn)(void *user, const infer_token *tokens, int32_t n, infer_token *keep, int32_t most);
    void *user, *done_user;
    void (*done)(void *user, infer_request *request);
    void *stops;            /* infer__stops_copy */
    infer__chat_turn turn;  /* parser NULL = no conversation */
    infer_adapter_use *uses;
    int32_t n_uses;
    infer_media **media; /* n_media references: what ids below -1 stand for */
    int32_t n_media;
    infer_token *ids; /* n_ids to evaluate before tokens are chosen: the prompt, or all so far of one that was
                       * preempted; n_prompt of them are the prompt's */
    int32_t n_ids, n_prompt;
    infer__bytes text;
    infer_error error;
    double submitted, finished;
    /* while it runs */
    infer_session *session;
    infer__generation g;
    int32_t begun;          /* g is in use */
    int32_t whole;          /* its prompt is evaluated in one piece */
    int32_t cut;            /* others wait until it has evaluated this many tokens, their shared prefix; 0 = none */
    infer_step step;        /* of this pass; n 0 = none */
    infer_result result;
    int32_t over;           /* it ends */
};

/* Rules: `lock` is for the list of waiting requests, the numbers, `closed` and `ended`. Everything else belongs to
 * whoever has claimed `calls`: that thread runs passes and calls callbacks, without the lock. `refs` are of the caller,
 * of requests that are not closed, of calls that run the queue. */
struct infer_queue {
    infer_model *model;
    infer_context *context;
    infer_queue_params params; /* with the defaults filled in */
    infer__mutex lock;
    infer__cond changed;       /* a request has ended or arrived, or a thread has stopped running the queue */
    infer__thread thread;
    int32_t has_lock, has_changed, has_thread;
    int32_t processor;         /* of its thread, -1 = any */
    infer__atomic stop;        /* it is being destroyed */
    int64_t process;
    infer__atomic calls, refs; /* infer__claim */
    uint64_t runner;           /* the thread that claimed it */
    infer_request *waiting;    /* the next one first */
    int32_t n_waiting, n_requests; /* n_requests: all that exist */
    uint64_t numbers;
    infer_request **running;   /* slots */
    int32_t n_running;
    infer_session *base;       /* best.c: one that requests may begin from, the caller's; NULL = none */
    infer_session **past;      /* kept: of requests that have ended, the least recently used first */
    int32_t n_past;
    infer_step *steps;         /* slots */
    infer_request **stepping;  /* slots: whose they are */
    double row_seconds;        /* of a prompt's token in a pass, lately */
    int32_t paused, n_steps;   /* a slice has ended within a pass of n_steps steps */
    infer_queue_stats stats, shown; /* shown: with the lock */
};

/* One pass, or less than that; 1 = there is more to do. The queue is claimed. until: infer__seconds at which it should
 * end, 0 = any. */
static int infer__queue_round(infer_queue *q, double until);
/* Free a request. The lock is held. */
static void infer__request_free(infer_request *r);
/* Insert into the waiting list, after higher priorities and earlier requests of the same priority. The lock is held. */
static void infer__queue_wait(infer_queue *q, infer_request *r);

#endif
