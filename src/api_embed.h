/* api_embed.h: the part of the public interface that turns texts into vectors and scores. Included by api.h, at the
 * point where its types are needed. */
#ifndef INFER_API_EMBED_H
#define INFER_API_EMBED_H

/* ---- texts as vectors and scores ------------------------------------------------------------ */

/* What happens to a text with more tokens than the model has positions, the context has cells, or, where tokens attend
 * to each other, the context's batch has rows. */
enum {
    INFER_LONG_ERROR,  /* it fails: INFER_CONTEXT_FULL, naming both figures */
    INFER_LONG_CUT,    /* its end is cut off; of a pair, the end of the second text */
    INFER_LONG_WINDOWS /* it is split into windows; its vector is the mean of theirs, weighted by tokens */
};
/* Called for each text in order: `rows` vectors of `width` floats (1 row, except with INFER_POOL_NONE), valid until it
 * returns; none when error->code is not INFER_OK. Non-zero = stop: INFER_CANCELLED. */
typedef int (*infer_vectors_fn)(void *user, int32_t text, const float *vectors, int32_t rows, int32_t width,
                                const infer_error *error);
/* Zero in any field means the default. */
typedef struct infer_embed_params {
    infer_pooling pooling;
    int32_t normalize;    /* 0, 2 = vectors of length 1; 1 = absolute values that add up to 1; -1 = as they are. Scores
                           * of INFER_POOL_RANK stay as they are */
    int32_t dimensions;   /* keep only this many first values, then normalise (Matryoshka models); 0 = all */
    int32_t long_texts;   /* INFER_LONG_* */
    const char *prefix;   /* before every text: "query: ", or whatever the model's card asks for */
    const size_t *lengths; /* n: bytes of each text; NULL = they end with a zero */
    const infer_token *const *ids; /* n: tokens instead of texts, taken as they are; */
    const size_t *n_ids;           /* and how many */
    infer_result *results; /* n: the result of each text; a text that fails then does not end the call, and its vector
                            * is zeros. NULL = the first error ends the call, and err names the text */
    infer_vectors_fn each; /* may be NULL */
    void *user;            /* of `each` */
    infer_progress_fn progress; /* after each pass; non-zero = stop: INFER_CANCELLED */
    void *progress_user;
    const char *pair;      /* infer_rerank: how a query and a document become one prompt: "{query}", "{document}" and
                            * "{instruction}" (the prefix) are replaced. NULL = as the file says
                            * (tokenizer.chat_template.rerank), else both with the vocabulary's separator between
                            * them */
    int32_t *counts;       /* n: receives how many tokens each text has; of infer_rerank, each pair. NULL = not asked */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_embed_params;

/* Floats per vector (with INFER_POOL_RANK: labels). 0: the model has no such vectors. params may be NULL. */
INFER_API int32_t infer_embed_width(const infer_model *model, const infer_embed_params *params);
/* One vector per text: out holds n x infer_embed_width floats, or is NULL with params->each. Texts are packed side by
 * side into passes of the context's batch rows; a text's vector does not depend, bit for bit, on the texts packed
 * beside it. They are tokenized as infer_tokenize does with INFER_TEXT_ADD_SPECIAL. texts is NULL with params->ids.
 * Errors: ARGUMENT (a text without tokens, too), CONTEXT_FULL, UNSUPPORTED (no classifier), MEMORY, CANCELLED. */
INFER_API infer_result infer_embed(infer_context *context, const char *const *texts, int32_t n,
                                   const infer_embed_params *params, float *out, infer_error *err);
/* How well each document answers the query; higher is better. The score is what the file's classifier gives for the
 * pair (the logit of its only label, or of "yes"); for a model with logits and a pair template (params->pair, or the
 * file's), the probability of "yes" against "no". Of params, pooling, normalize, dimensions, ids and each are not
 * used. */
INFER_API infer_result infer_rerank(infer_context *context, const char *query, const char *const *documents, int32_t n,
                                    const infer_embed_params *params, float *scores, infer_error *err);
/* Probabilities of the file's labels for each text: n x infer_model_info.labels floats. With one label that is the
 * sigmoid of its score, else the softmax of all. Of params, pooling, normalize, dimensions and each are not used. */
INFER_API infer_result infer_classify(infer_context *context, const char *const *texts, int32_t n,
                                      const infer_embed_params *params, float *out, infer_error *err);

/* The same in slices, for loops with a frame rate. Parameters and results are those of infer_embed, infer_rerank and
 * infer_classify; params is copied, and everything that it and the other arguments point to must stay valid until the
 * job has ended. From begin until then the context and its sessions are in use (section 5). After an error *out is
 * NULL. */
INFER_API infer_result infer_embed_begin(infer_embedding **out, infer_context *context, const char *const *texts,
                                         int32_t n, const infer_embed_params *params, float *vectors,
                                         infer_error *err);
INFER_API infer_result infer_rerank_begin(infer_embedding **out, infer_context *context, const char *query,
                                          const char *const *documents, int32_t n, const infer_embed_params *params,
                                          float *scores, infer_error *err);
INFER_API infer_result infer_classify_begin(infer_embedding **out, infer_context *context, const char *const *texts,
                                            int32_t n, const infer_embed_params *params, float *probabilities,
                                            infer_error *err);
/* Run for about budget_ms milliseconds, exceeding it by at most one layer of a batch or the tokenizing of one text; 0 =
 * the smallest piece, -1 = to the end. Where tokens attend to each other a layer takes all rows of the batch:
 * context_params.batch determines how long that is. Callbacks are called meanwhile. INFER_MORE: call again; any other
 * result is that of the whole call (err says why) and ends it: later calls return it again. INFER_ERR_STATE, and
 * nothing changes: another call is running it, or the model's weights are offloaded. */
INFER_API infer_result infer_embed_step(infer_embedding *embedding, int32_t budget_ms, infer_error *err);
/* Free it; NULL is accepted. An unfinished job is abandoned: texts whose callback was called, or whose entry in `out`
 * or `results` was written, have their vectors. INFER_ERR_STATE: another call is running it. */
INFER_API infer_result infer_embed_end(infer_embedding *embedding);

/* The name of a label of the classifier, zero-terminated: as much of it as fits goes to out, its length to *len.
 * INFER_ERR_ARGUMENT when the file has no name for it. */
INFER_API infer_result infer_model_label(const infer_model *model, int32_t label, char *out, size_t cap, size_t *len);
/* A vector of length 1 in fewer bytes: n int8, each 127 times the value, rounded. */
INFER_API void infer_vector_int8(const float *x, int32_t n, int8_t *out);
/* A bit for each value, 1 where it is above 0, from the highest bit of the first byte on: (n + 7) / 8 bytes. */
INFER_API void infer_vector_binary(const float *x, int32_t n, uint8_t *out);
#endif
