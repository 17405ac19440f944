/* api_generate.h: the part of the public interface that generates text from a prompt. Included by api.h, after what it
 * builds on. */
#ifndef INFER_API_GENERATE_H
#define INFER_API_GENERATE_H

/* ---- the short way -------------------------------------------------------------------------- */

/* What a generation does when the context is full. */
enum {
    INFER_FULL_STOP = 0,  /* it ends (INFER_STOP_FULL) */
    INFER_FULL_SLIDE = 1, /* it keeps the first keep_first tokens and drops the oldest half of the rest */
    INFER_FULL_ASK = 2    /* `full` says which tokens the session holds from now on */
};
enum {
    INFER_STOP_LIMIT = 1,  /* max_tokens */
    INFER_STOP_TOKEN = 2,  /* an end-of-generation token, or one of stop_tokens: stop_token */
    INFER_STOP_STRING = 3, /* a stop string: stop_string is its index */
    INFER_STOP_FULL = 4,   /* the context is full */
    INFER_STOP_CALLBACK = 5,
    INFER_STOP_CANCELLED = 6,
    INFER_STOP_GRAMMAR = 7, /* the sampler's grammar is complete and nothing can follow */
    INFER_STOP_TIME = 8
};
typedef struct infer_generate_params {
    int32_t max_tokens;      /* 0 = until something else stops it */
    int32_t min_tokens;      /* end tokens and stop_tokens are not chosen before this many; a complete grammar still
                              * ends the text */
    double seconds;          /* > 0: no token is started after this time (INFER_STOP_TIME) */
    const char *const *stop; /* n_stop strings that end the text; never shown, not even partially */
    int32_t n_stop;
    const infer_token *stop_tokens; /* n_stop_tokens that end it as end-of-generation tokens do, whatever ignore_end */
    int32_t n_stop_tokens;
    int32_t logprobs;   /* k > 0: `token` receives the k most likely of every step */
    int32_t on_full;    /* INFER_FULL_* */
    int32_t keep_first; /* for SLIDE */
    /* For ASK. The session holds these n tokens (-1 where embeddings were given). Write the tokens that it should hold
     * instead to `keep`, at most `most` of them, and return how many, or 0 to stop as STOP does. The session is in use;
     * other sessions of its context may be used, to write a summary for instance. The common prefix is not evaluated
     * again, the rest is; then generation continues. When it was a prompt that did not fit, the prompt follows what is
     * kept. After an error, or when cancelled, the session holds the common prefix. */
    int32_t (*full)(void *user, const infer_token *tokens, int32_t n, infer_token *keep, int32_t most);
    int32_t ignore_end; /* 1 = end-of-generation tokens do not stop it; stop_tokens do */
    int32_t lookup;     /* 1 = drafts from what followed the last tokens when they came before: see section 9 */
    infer_session *draft; /* a session of a (smaller) model with the same vocabulary that drafts; it is in use meanwhile
                           * and follows this session; NULL = none. With lookup, it drafts where lookup finds nothing */
    int32_t mtp; /* 1 = draft with the model's own multi-token prediction blocks, for a model opened with
                  * infer_model_params.mtp. Several blocks give one token each, which limits the draft. With lookup,
                  * they draft where lookup finds nothing; with draft, they come first */
    /* Classifier-free guidance (section 9): a session of the same model that holds a negative prompt. It is in use
     * meanwhile; what is generated is also appended to it, and the text ends when it is full. NULL = none. Not together
     * with drafts, queues, or an on_full other than STOP. */
    infer_session *negative;
    float guidance; /* its scale: 1 = no effect, above 1 = away from the negative prompt; 0 = 1.5 */
    int32_t draft_tokens; /* maximum length of a draft in tokens, up to 64; 0 = 8 */
    int32_t text_flags; /* INFER_TEXT_PARSE_SPECIAL: the prompt is trusted; INFER_TEXT_WRITE_SPECIAL: the text of
                         * control tokens is also shown */
    infer_media *const *media; /* n_media, one for each INFER_MEDIA_MARKER in the prompt; in use meanwhile */
    int32_t n_media;
    infer_text_fn text; /* receives the text as it comes, whole characters only */
    void *user;
    /* Called for every token with the `logprobs` most likely ones (without logprobs, n_top and logprob are 0); non-zero
     * = stop, and the text of this token is not shown. */
    int (*token)(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top);
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_generate_params;
typedef struct infer_generate_info {
    int32_t stop_reason; /* INFER_STOP_* */
    int32_t stop_token;  /* the token that stopped it, or -1 */
    int32_t stop_string; /* index into stop, or -1 */
    int32_t prompt_tokens, new_tokens;
    uint64_t bytes; /* bytes of text */
    int32_t drafted, accepted; /* drafted tokens; how many of them were chosen */
    int32_t dropped; /* conversations: messages that were left out (infer_chat_params.on_full) */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_generate_info;
/* Continue the session with `prompt` (UTF-8; NULL or "" = continue from the current position; BOS is added at position
 * 0 where the vocabulary asks for it, unless the prompt already has it) and generate. sampler NULL = greedy; params
 * NULL = defaults; info may be NULL. A token is evaluated before it is reported: however the call ends, the session
 * holds the prompt and the reported tokens, and the next call continues from there. An end-of-generation token is
 * neither evaluated nor reported. The text of control tokens is not shown (see text_flags), nor is a character left
 * incomplete at the end. Reaching a limit is INFER_OK. When the context is full, the last position's logits still give
 * one token: it is reported, but has no place in the session (INFER_STOP_FULL). INFER_CONTEXT_FULL: the prompt does not
 * fit. INFER_ERR_ARGUMENT: nothing to continue from (empty prompt, no BOS, position 0). */
INFER_API infer_result infer_generate(infer_session *session, infer_sampler *sampler, const char *prompt,
                                      const infer_generate_params *params, infer_generate_info *info);

/* The same text piece by piece, for loops and generators. Parameters and results are those of infer_generate, except
 * that params->text must be NULL. Stop strings and tokens are copied, so prompt and params may be freed; sampler,
 * draft, negative and what `user` points to must stay valid until the end. `seconds` counts from begin. From begin
 * until it has ended, session, sampler and draft are in use (section 5), also between two calls of
 * infer_generation_next. After an error *out is NULL. */
INFER_API infer_result infer_generation_begin(infer_generation **out, infer_session *session, infer_sampler *sampler,
                                              const char *prompt, const infer_generate_params *params,
                                              infer_error *err);
/* Run for about budget_ms milliseconds, exceeding it by at most one piece of infer_eval_slice or the choice of a token.
 * 0 = the smallest piece; -1 = until there is text. *text (n bytes and a zero; both may be NULL) is the new text: whole
 * characters, perhaps none; valid until the next call on the generation. Slicing does not change a bit of the result.
 * INFER_MORE: call again; any other result is that of infer_generate, comes with the last of the text and ends it:
 *             later calls return it again, without text. INFER_ERR_STATE, and nothing changes: the generation is in
 *             use, or its context is (another generation's eval is between slices), or the model's weights are
 *             offloaded: call again later. */
INFER_API infer_result infer_generation_next(infer_generation *generation, int32_t budget_ms, const char **text,
                                             size_t *n);
/* The figures so far; may be called at any time. */
INFER_API infer_result infer_generation_info(const infer_generation *generation, infer_generate_info *out);
/* Free it; NULL is accepted. An unfinished one is abandoned as by infer_session_cancel, and pending text is lost: the
 * session holds what was evaluated completely (the prompt, and every reported token) and the next call continues from
 * there; the sampler may have accepted the token that was about to be evaluated. INFER_ERR_STATE, and nothing changes:
 * it is in use, or a context in which drafts, or a token of only one of the two guidance sessions, must be rolled back
 * is. */
INFER_API infer_result infer_generation_end(infer_generation *generation);

/* Evaluate n tokens as infer_session_eval does, and report how likely each one was: logprobs[i] is the natural
 * logarithm of the probability of tokens[i] given what precedes it, and top[i * k ..] are the k most likely tokens
 * there, as infer_session_top gives them: log-softmax in double of float32 logits. logprobs has n floats, top n x k;
 * either may be NULL (top with k 0). The first token has no prediction at position 0 or after a rewind: its logprob is
 * 0, the tokens of its top are -1. The tokens are evaluated a few rows at a time, so memory for n rows of logits is not
 * needed. The last token's logits are kept. INFER_CONTEXT_FULL: they do not fit. After a cancel or an error the session
 * is back where it was. */
INFER_API infer_result infer_session_score(infer_session *session, const infer_token *tokens, int32_t n, int32_t k,
                                           float *logprobs, infer_top *top);

/* Models that fill in masked tokens (Dream, LLaDA, RND1) have infer_model_info.masked set; infer_generate refuses them.
 * order: which of a block's masks a step fills first: those whose token has the highest probability, the lowest
 * entropy, or the largest margin over the second; in random order; from left to right. */
enum { INFER_FILL_CONFIDENCE, INFER_FILL_ENTROPY, INFER_FILL_MARGIN, INFER_FILL_RANDOM, INFER_FILL_LEFT };
typedef struct infer_fill_params {
    int32_t n;     /* tokens to write, at least 1 */
    int32_t steps; /* total number of evals, distributed evenly; 0 = one per token */
    int32_t block; /* blocks of this many tokens are filled from left to right; 0 = a single block */
    int32_t order; /* INFER_FILL_* */
    uint64_t seed; /* for INFER_FILL_RANDOM */
    /* Called after every step with the n tokens, of which `open` are masks. Non-zero = stop. */
    int (*step)(void *user, const infer_token *tokens, int32_t n, int32_t open);
    void *user;
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_fill_params;
/* Write params->n tokens after the n_prompt given ones (include the text's own special tokens) to out (n tokens; owned
 * by the caller). sampler NULL = greedy. A grammar and stages that look back (penalties) assume an
 * order that does not exist here: leave them out of the sampler. The session's context and its batch must hold all of
 * the tokens; the session is left where it was. After the end token comes whatever the model fills in there: cut the
 * text yourself. INFER_CANCELLED: stopped; out has what was filled so far. UNSUPPORTED: not such a model, or no mask
 * token in the vocabulary. */
INFER_API infer_result infer_session_fill(infer_session *session, infer_sampler *sampler, const infer_token *prompt,
                                          int32_t n_prompt, const infer_fill_params *params, infer_token *out);

#endif
