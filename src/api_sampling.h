/* api_sampling.h: the part of the public interface that chooses tokens: grammars and samplers. Included by api.h, at
 * the point where its types are needed. */
#ifndef INFER_API_SAMPLING_H
#define INFER_API_SAMPLING_H

/* ---- grammars ------------------------------------------------------------------------------- */

/* What a reply may be: exactly one of gbnf, schema, json. With triggers the grammar is lazy: everything is allowed
 * until one of them appears; from the trigger's first byte on, the text must match the grammar. */
typedef struct infer_grammar_params {
    const char *gbnf;   /* a grammar in llama.cpp's notation (grammars/README.md there), UTF-8 */
    const char *schema; /* a JSON Schema: docs/json-schema.md says what is supported */
    int32_t json;       /* 1 = any JSON value */
    const char *root;   /* the start rule; NULL = "root". For json: "object", "array" or "string" */
    const char *const *trigger_words;  /* texts */
    int32_t n_trigger_words;
    const infer_token *trigger_tokens; /* a trigger token is matched by its text, or by a <token> terminal */
    int32_t n_trigger_tokens;
    infer_limits limits; /* for compiling: seconds (2), cancel */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_grammar_params;
/* Compile a grammar; params are copied. model may be NULL: the grammar can then check texts but not sample, and <text>
 * terminals are unknown. It keeps caches (at most some 100 MB, usually a few), so it and its samplers belong to one
 * thread at a time. Errors: FORMAT (line and column; also for what can never end: a rule without a finite text, left
 * recursion), MEMORY, ARGUMENT, UNSUPPORTED (schema), LIMIT, CANCELLED. */
INFER_API infer_result infer_grammar_create(infer_grammar **out, infer_model *model, const infer_grammar_params *params,
                                            infer_error *err);
/* It lives as long as its samplers. NULL is accepted. */
INFER_API infer_result infer_grammar_destroy(infer_grammar *grammar);
/* Match a text from the beginning: *accepted (may be NULL) = bytes before the first that is not allowed, *complete (may
 * be NULL) = 1 when all bytes are accepted and the text may end there. A text that does not match is INFER_OK too. */
INFER_API infer_result infer_grammar_check(infer_grammar *grammar, const char *text, size_t n, size_t *accepted,
                                           int32_t *complete, infer_error *err);

/* ---- sampling ------------------------------------------------------------------------------- */

/* A candidate during sampling. */
typedef struct infer_candidate {
    infer_token token;
    float logit;
    float p; /* probability after the last stage that computed it */
} infer_candidate;
/* A custom stage: change, reorder or shorten the n candidates (best first after TOP_K and TOP_P; by id while no stage
 * other than MIN_P and TOP_N_SIGMA has cut); return how many remain (1..n), or 0 to fail. */
typedef int32_t (*infer_stage_fn)(void *user, infer_candidate *candidates, int32_t n);

/* Added to the logit of a token; -INFINITY removes the token. */
typedef struct infer_bias {
    infer_token token;
    float bias;
} infer_bias;

/* Entries for a LOGIT_BIAS stage by text: one for every token that spells exactly these n bytes, as infer_token_text
 * gives them: " yes" with its space is another token than "yes", and a byte may have a second token besides the usual
 * one. Control tokens are matched by their text. *count is the number of entries; at most cap are written. ARGUMENT: no
 * token spells the text; the message says how many tokens it takes. (llama.cpp's server biases each token of such a
 * text wherever it occurs: to get that, tokenize it. A bias cannot forbid a longer text: see grammars.) */
INFER_API infer_result infer_bias_text(const infer_model *model, const char *text, size_t n, float bias,
                                       infer_bias *out, size_t cap, size_t *count, infer_error *err);

/* Stages of a sampler, run in the order given. Unless noted, a parameter of 0 switches the stage off. Parameters have
 * the same meaning as those of the same name in llama.cpp. */
typedef enum infer_stage_kind {
    /* Keep the most likely candidate (lowest id among equals). */
    INFER_STAGE_GREEDY = 1,
    /* p[0] = temperature: logits / p[0]; below 0.0001 = greedy. */
    INFER_STAGE_TEMPERATURE = 2,
    /* p[0] = k: the k most likely. */
    INFER_STAGE_TOP_K = 3,
    /* p[0] = p in 0..1: the smallest set of probability >= p; 1 = off. */
    INFER_STAGE_TOP_P = 4,
    /* p[0] = the share of the best candidate's probability that a candidate must have. */
    INFER_STAGE_MIN_P = 5,
    /* p[0] = last n tokens considered (-1 = all that were accepted), p[1] = repeat (1 = off; positive logits are
     * divided, others multiplied), p[2] = frequency, p[3] = presence (both are subtracted and may be negative). */
    INFER_STAGE_PENALTY = 6,
    /* fn(user, ...). */
    INFER_STAGE_CUSTOM = 7,
    /* p[0] = temperature, p[1] = range, p[2] = exponent (0..100): the temperature is p[0] - p[1] (not below 0) when the
     * candidates' entropy is 0, p[0] + p[1] when it is the largest possible, and in between follows (entropy /
     * largest)^p[2]. Range 0: as TEMPERATURE. */
    INFER_STAGE_DYNAMIC_TEMPERATURE = 8,
    /* p[0] = p in 0..1: keeps those whose surprise is nearest to the entropy, until their probability exceeds p; 1 =
     * off. */
    INFER_STAGE_TYPICAL = 9,
    /* p[0] = n: logits at most n standard deviations below the best; below 0 = off. */
    INFER_STAGE_TOP_N_SIGMA = 10,
    /* p[0] = probability that the stage acts at all, p[1] = threshold: of the candidates with at least that
     * probability, only the least likely stays; above 0.5 = off. */
    INFER_STAGE_XTC = 11,
    /* p[0] = tau, the target surprise in bits, p[1] = eta, the learning rate, p[2] = m, the number of candidates that
     * the distribution is estimated from (0 = 100). MIROSTAT, MIROSTAT_2 and ADAPTIVE_P must be the last stage: they
     * learn only from the token that was drawn, when it is accepted. */
    INFER_STAGE_MIROSTAT = 12,
    /* p[0] = tau, p[1] = eta: drops candidates with more surprise than it has learnt to allow. */
    INFER_STAGE_MIROSTAT_2 = 13,
    /* p[0] = multiplier, p[1] = base (below 1 = off), p[2] = allowed length, p[3] = last n tokens considered (-1 = all
     * that were accepted): a token that would extend a repetition of n >= p[2] tokens loses p[0] * p[1]^(n - p[2]).
     * Repetitions do not extend across sequence breakers: text = a JSON array of at most 64 texts of 1 to 40 bytes,
     * NULL = ["\n", ":", "\"", "*"]; they need a model. Finding them takes time once. */
    INFER_STAGE_DRY = 14,
    /* p[0] = target, a probability; below 0 = off. p[1] = decay, 0..0.99: prefers tokens of about the target
     * probability, so that the mean over about 1 / (1 - decay) tokens equals it. */
    INFER_STAGE_ADAPTIVE_P = 15,
    /* For filling a gap in a text (after TOP_K and TOP_P): tokens that begin alike count as one, unlikely ones are
     * dropped, and an end token is preferred when in doubt; needs a model. */
    INFER_STAGE_INFILL = 16,
    /* bias = n entries; a token that does not exist is an error when there is a model. */
    INFER_STAGE_LOGIT_BIAS = 17,
    /* Drop the tokens that `grammar` does not allow; usually the first stage. A token that ends the reply is allowed
     * when the grammar is complete. */
    INFER_STAGE_GRAMMAR = 20
} infer_stage_kind;
typedef struct infer_stage {
    int32_t kind; /* infer_stage_kind */
    float p[4];
    int32_t n;        /* LOGIT_BIAS: entries of bias */
    const char *text; /* DRY: zero-terminated UTF-8 */
    infer_stage_fn fn;
    void *user;
    const infer_bias *bias;
    infer_grammar *grammar; /* GRAMMAR: the caller's. Each sampler has its own position in it */
} infer_stage;

/* After the stages, a token is drawn from the softmax of the remaining logits with the sampler's own generator: the
 * same seed and logits give the same tokens on every platform. stages NULL (with n_stages 0) = those of
 * infer_sampler_usual. model may be NULL: the file's figures are then not used, and stages that need a vocabulary are
 * refused. stages are copied (texts and biases too). INFER_ERR_ARGUMENT names the stage. */
INFER_API infer_result infer_sampler_create(infer_sampler **out, infer_model *model, const infer_stage *stages,
                                            int32_t n_stages, uint64_t seed, infer_error *err);
/* The usual chain, which you can inspect, change and pass to infer_sampler_create: penalty (64, 1, 0, 0), DRY (0, 1.75,
 * 2, 64), top-n-sigma 0, top-k 40, typical 1, top-p 0.95, min-p 0.05, XTC (0, 0.1), dynamic temperature (0.8, 0, 1).
 * The file's general.sampling.* keys override figures and order; with general.sampling.mirostat the chain is
 * temperature and mirostat.
 * *n is the number of stages, never more than INFER_STAGES_USUAL; at most cap are written. model may be NULL. */
enum { INFER_STAGES_USUAL = 24 };
INFER_API infer_result infer_sampler_usual(const infer_model *model, infer_stage *out, int32_t cap, int32_t *n,
                                           infer_error *err);
/* One stage with its usual figures, or the file's (model may be NULL); zeros for kinds that have none. */
INFER_API infer_result infer_sampler_stage(const infer_model *model, int32_t kind, infer_stage *out, infer_error *err);
/* The kind that a name denotes, as general.sampling.sequence and other programs write it: "top_k", "top-k" and "topk",
 * "typ_p", "temperature", "penalties", ... 0 = unknown. */
INFER_API int32_t infer_stage_named(const char *name);
/* It lives as long as a call, a generation or a request uses it. NULL is accepted. */
INFER_API infer_result infer_sampler_destroy(infer_sampler *sampler);
/* Return to the seed and forget the accepted tokens. INFER_ERR_STATE while a call uses the sampler. */
INFER_API infer_result infer_sampler_reset(infer_sampler *sampler);
/* Tell the sampler which token was used (for stages that look back, learn or follow). infer_session_sample does this
 * itself. INFER_ERR_MEMORY; INFER_ERR_STATE: a grammar does not allow the token, and nothing has changed. */
INFER_API infer_result infer_sampler_accept(infer_sampler *sampler, infer_token token);
/* Choose among n logits (not modified). NaN, or no finite logit, is INFER_ERR_STATE. sampler NULL = greedy. */
INFER_API infer_result infer_sampler_sample(infer_sampler *sampler, const float *logits, int32_t n, infer_token *token,
                                            infer_error *err);
/* Choose from a row of the last eval's logits, and accept the token. sampler NULL = greedy. */
INFER_API infer_result infer_session_sample(infer_session *session, infer_sampler *sampler, int32_t row,
                                            infer_token *token);
#endif
