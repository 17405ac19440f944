/*
infer.h - run GGUF language models from one C header
====================================================

 1. In short
 2. Building
 3. Objects, and who owns what
 4. Errors
 5. Threads
 6. Evaluating: steps, passes, results
 7. Going back: sync, rewind, fork, save
 8. Text
 9. Sampling
10. Conversations
11. Memory
12. What is exact, what is reproducible
13. GPUs
14. Configuration macros
15. When something is wrong

1. In short
-----------

In one .c file:

    #define INFER_IMPLEMENTATION
    #include "infer.h"

and wherever you use it:

    #include "infer.h"

    infer_model *model;
    infer_session *session;
    infer_error err;
    infer_generate_params params = { 0 };
    params.max_tokens = 64;
    params.text = show;                      (your function: gets the text as it comes)

    if (infer_model_open(&model, "model.gguf", NULL, &err)) fail(err.message);
    if (infer_session_create(&session, model, NULL, &err)) fail(err.message);
    if (infer_generate(session, NULL, "Once upon a time", &params, NULL))
        fail(infer_session_error(session)->message);
    infer_session_destroy(session);
    infer_model_close(model);

NULL for parameters, and 0 in any field of them, means the default.

2. Building
-----------

    cc -O2 app.c infer_impl.c -lm -lpthread -ldl

No flag is needed: the implementation finds out at run time what the CPU can do. It is C99 and must be compiled as C;
the declarations may be included from C89 and C++. Compile it with optimisation even in debug builds of your program:
without, it is many times slower. -lpthread and -ldl may be left out where the C library has them inside.

3. Objects, and who owns what
-----------------------------

    infer_model     an open file. Never changes; threads may share it. The weights stay in the mapped file.
    infer_context   threads, work buffers and cache for one or more sessions. One eval at a time.
    infer_session   one timeline of tokens with its results. Belongs to one thread at a time.
    infer_sampler   turns logits into a token. Belongs to one thread at a time.
    infer_grammar   what a reply may be. Belongs, with the samplers that use it, to one thread at a time.

Whoever creates an object destroys it; destroying NULL does nothing. A model cannot be closed while it has contexts,
sessions, samplers or grammars (INFER_ERR_STATE); a context not while it has sessions, a grammar not while samplers use
it. infer_session_create makes a context that belongs to its sessions: it goes with the last of them. Pointers that a
call returns (names, logits, keys) belong to the object they came from.

4. Errors
---------

Every call that can fail returns an infer_result. Below 0: it failed, nothing was lost, the objects can be used on; the
message says what and where, with the name of the key, tensor or argument. Above 0: it stopped for a reason that is no
error. The library never calls abort or exit, prints nothing, and every size that comes from a file is checked before it
is used.

A file says what it computes by tensors and by keys. A key of the architecture, or a tensor, that nothing here knows the
use of might mean another model than the one that would be computed: such a file opens, for its metadata and its text,
but it has no sessions, and infer_model_why_not names the key. Keys that are known to be without effect, and values that
say what is done anyway, are fine. model_params.allow_unknown goes on, with a warning in the log for each. In the same
way a key of the vocabulary that nobody knows makes infer_tokenize an error.

5. Threads
----------

A context has worker threads of its own (context_params.threads, by default one for each core), which sleep when nothing
runs; or it uses yours: set model_params.parallel. They block every signal that is sent to the process, so those reach
your threads; signals of a fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS) stay open, for your crash handler.
The sessions of one context are used by one thread at a time; different contexts of one model by different threads at
once. Only infer_session_cancel may be called while another thread uses the session.

Callbacks run on the thread that called. From a callback, and from a second thread, a call on an object in use is
refused: INFER_ERR_STATE, nothing has changed, and the call that runs goes on to its result. What is in use:

    infer_generate, infer_chat      the session and the sampler; with every eval and rewind in it the context too
    infer_eval, infer_session_eval, _sync, _rewind, _fork, _save, _load
                                    the session and its context, and so every other session of it while it runs
    a sampler, a grammar, a reply   in its own calls

Refused are also infer_session_destroy, infer_sampler_destroy, infer_sampler_reset and infer_chat_parser_destroy: they
return INFER_ERR_STATE, the object stays, and is destroyed by calling again when the call has ended.
infer_context_destroy and infer_model_close refuse as always. infer_session_error tells of a refusal until the next call
that is accepted. Callbacks may ask at any time for position, tokens, context, error, stats, profile and memory, use the
model (text, metadata, tensors), use other contexts and their sessions, and cancel. Callbacks of infer_generate and
infer_chat may also read the session's logits and use other sessions of the context; during an eval (progress, trace,
parallel) results are NULL or INFER_ERR_STATE. An allocator should call nothing of the library. Second threads are found
out so that nothing breaks, not so that programs rely on it: what only reads (position, tokens, logits) is not checked.

After fork() the child may use a model that is on the CPU, and make contexts of its own. A context of the parent that
has worker threads can only be destroyed there, its other calls are INFER_ERR_STATE. A model on a GPU, with all that
belongs to it, cannot even be closed in the child: INFER_ERR_STATE. Fork while no call of another thread runs.

6. Evaluating: steps, passes, results
-------------------------------------

infer_session_eval appends tokens and leaves the logits of the last one. infer_eval does it for several sessions of a
context together, each with any number of tokens, and says for each what to keep (INFER_OUT_*): the weights are read
once for all of them. Internally the tokens are cut into passes of at most `batch` rows; you need not.

An eval is whole or not at all. When the tokens do not fit it is INFER_CONTEXT_FULL and nothing was evaluated; after a
cancel or an error the session stands where it stood.

7. Going back: sync, rewind, fork, save
---------------------------------------

    infer_session_sync(s, tokens, n, &kept)    hold exactly these tokens; what agrees with the present ones is not
                                               evaluated again
    infer_session_rewind(s, n)                 go back to the first n tokens
    infer_session_fork(&t, s, &err)            a second session at the same place; memory is shared until one of them
                                               writes
    infer_session_save / infer_session_load    keep a session as bytes

Models with sliding windows forget keys behind the window and context_params.keep; going back further is allowed, and
the next eval computes again what is needed (stats.reevaluated). Rows that were given as embeddings cannot be computed
again: a rewind that would need it is INFER_ERR_STATE. So is the next eval after one that was cancelled or failed when
more than `keep` tokens had passed: rewind to the position that the message names, and give the rows again.

8. Text
-------

infer_tokenize and infer_detokenize are byte exact, but for vocabularies that change the text first: WordPiece (case,
accents, white space) and Unigram (its character map, white space). INFER_TEXT_PARSE_SPECIAL turns text such as
"<|im_end|>" into control tokens: never give it text that a user typed. Without it no text becomes a control token,
whatever the vocabulary says, but for "<s>" in RWKV vocabularies, whose ids are kept as recorded elsewhere; the unknown
token stands for what has no token, unless the file uses it as its end of text too. User-defined tokens (type 4 of
GGUF) are matched in all text, as in llama.cpp and Hugging Face's tokenizers: many are white space or words, but some
files mark reasoning and calls with them ("</think>"), so a conversation is best tokenized by infer_chat_format
(section 10). A vocabulary that names no pre-tokenizer, or one that is not known here, is not guessed at: tokenizing is
refused until model_params.pre or allow_default_pre says what to do.

infer_template_render writes a conversation the way the model was trained, from its chat template (metadata key
tokenizer.chat_template) and variables as JSON. The result is segments: what came from the variables is marked, so that
special tokens are parsed in the template's own text only. Marked are strings of variables, pieces of them, what is
computed of variables (numbers, lengths, JSON) and template text that is cut, padded or repeated as a variable says;
text that a variable merely chooses is the template's. A template is untrusted like the file: it reads nothing but its
variables, and steps, memory and output are limited.

Calls that work on what is not trusted and are no evals (rendering, compiling a grammar or a schema, tokenizing) take
infer_limits: seconds, and a function that is asked whether to stop. SECURITY.md has the table of all limits.

9. Sampling
-----------

A sampler is a list of stages (infer_stage), run in order; then a token is drawn from what is left. The same seed and
logits give the same tokens on every platform. NULL instead of a sampler is greedy: the most likely token.

    infer_stage chain[INFER_STAGES_USUAL];
    int32_t i, n;
    infer_sampler_usual(model, chain, INFER_STAGES_USUAL, &n, &err);        (the file's own figures, if it has some)
    for (i = 0; i < n; i++)
        if (chain[i].kind == INFER_STAGE_TOP_K) chain[i].p[0] = 20;
    infer_sampler_create(&sampler, model, chain, n, seed, &err);

Parameters mean what they mean in llama.cpp, so settings can be moved; stages that cut (top-k, top-p, min-p,
top-n-sigma) are cheap when they come first, since only those see the whole vocabulary. Stages that look back
(penalties, DRY) or learn (mirostat, adaptive-p) know the tokens that were accepted: infer_session_sample and
infer_generate accept what they choose; with infer_sampler_sample call infer_sampler_accept.

A stage of kind INFER_STAGE_GRAMMAR, normally the first one, drops every token that would leave a grammar
(infer_grammar_create: GBNF, a JSON Schema, or any JSON). What is drawn is then right at every step, and infer_generate
stops when the grammar is complete and nothing can follow (INFER_STOP_GRAMMAR). Where a vocabulary cannot spell what the
grammar allows, sampling is an error that says so. With trigger words or tokens a grammar is lazy: it begins where a
trigger appears.

10. Conversations
-----------------

    infer_chat_params chat = { 0 };
    infer_chat_parser *reply;
    chat.messages = "[{\"role\": \"user\", \"content\": \"Hello\"}]";
    chat.fn = show;                          (your function: gets content, reasoning, tool calls as they come)

    if (infer_chat(session, NULL, &chat, NULL, &reply, NULL))
        fail(infer_session_error(session)->message);
    puts(infer_chat_parser_reply(reply)->content);
    infer_chat_parser_destroy(reply);

The conversation is written by the model's own chat template (tokenizer.chat_template, Jinja). For the next turn append
the reply and the next message, and call again: what the session holds already is not evaluated again. A file without a
template is an error, unless allow_chatml says otherwise. Control tokens are parsed in the template's own text alone: a
message that spells "<|im_end|>" is just text.

The same holds for marks that a file has as user-defined tokens, or as normal ones in brackets: those that the template
writes, those of the formats of replies that are known here, and those written like control tokens ("<|x|>"). They
stand for bytes of the template alone; in messages, tools and results, and where template and message meet inside of a
mark, the text becomes other tokens. So nothing in a message closes the reasoning, begins a call or opens a turn. What
cannot be told apart: marks that a vocabulary has no token for, so that they are ordinary letters wherever they stand
("[INST]" in many vocabularies, "Human:"); where templates use such, escape or refuse them in text that is not trusted.
What a template does with a message is the template's: many cut an assistant's content at "</think>", which is meant.

The reply is read in the format that the template teaches: reasoning, content and tool calls are told apart while it
streams, and no half of a mark is ever shown. A call is told when it is complete; its arguments are always a JSON
object. What only began like a call is content, so nothing is lost. A call is answered by messages behind the reply:
{"role": "assistant", "content": ..., "tool_calls": [{"id", "type": "function", "function": {"name", "arguments"}}]} and
{"role": "tool", "tool_call_id", "name", "content"}; examples/tools.c shows it. infer_chat_format, infer_chat_render and
infer_chat_parser_* are its parts, for callers that generate in a way of their own.

11. Memory
----------

infer_model_memory and infer_model_memory_path tell before anything is allocated what a session will take: weights
(mapped pages of the file, which the system may drop and read again), cache and scratch. model_params.max_memory caps
their sum; model_params.allocator makes every allocation yours. Nothing is allocated during an eval, but for results
when a step keeps more rows than any before it.

A context whose cache and scratch are more than all memory of the machine (RAM and swap, or what the container's control
group allows) is INFER_ERR_MEMORY at once, unless the allocator is yours: systems that promise more than they have would
end the process later. More than is free now, and a session longer than the model was trained for (after the scaling of
its positions), is a warning in the log. infer_device_get(0) tells what there is.

A mapped file that somebody shortens would end the process with SIGBUS when its lost pages are read. Therefore: what is
not weights (metadata, vocabulary, templates) is always read into memory; before every pass that reads weights on the
CPU, and before tensors are read or uploaded, the file's size is looked at, and a shorter one is INFER_ERR_IO
("shortened") with the session where it stood; when the file is restored, in place, everything goes on. A file that
every user may write to (mode o+w) is not mapped but read into memory, with a warning in the log; model_params.no_mmap
= -1 maps it all the same. What is left is a file shortened during a pass by its owner, by its group or by root, and
wrong results when one of them changes it in place. no_mmap = 1 protects from that too: use it where others administer
the file. To replace a model write a new file and rename it: the old one lives on as long as it is mapped. Windows does
not let mapped files be shortened. The library installs no signal handlers.

12. What is exact, what is reproducible
---------------------------------------

With model_params.exact weights of every storage type are decoded exactly and multiplied in float32: the definition of
a result. Without it the CPU rounds the input of a matrix product where that pays: to 8 bits with a scale per 32
values for quantised weights (normalised squared error of a test model's logits: 1.6e-4), to BF16 for BF16 weights
(1.3e-5); F32 and F16 weights keep float32. On the CPU results do not depend on the number of threads, on the batch,
or on what other sessions do: every sum has a fixed order. They may differ in the last bits between CPU levels (fused
multiply-add), which model_params.cpu_level and the environment variable INFER_CPU_LEVEL choose.
context_params.kv_type rounds the cache as it says.

13. GPUs
--------

    infer_model_params params = { 0 };
    params.backend = INFER_OPENCL;          (gpu_layers: how many layers; 0 = as many as fit)

The driver's library is loaded at run time, when a device is asked for or listed (infer_device_get): nothing is linked,
and a machine without one is no error until you ask for one. Kernels are compiled when a model opens; most drivers keep
the result, and model_params.cache lets you keep it too. The first gpu_layers layers run on the device, the others on
the CPU; between them the residual stream is copied, and nothing else. With all layers on the device only token ids,
positions and page tables go up and what you asked for comes down: infer_stats counts the bytes. infer_session_sample
takes the few largest logits from there when its sampler begins by keeping those (greedy, top-k, the usual stages): 8
bytes each; the token is the same.

INFER_AUTO takes the first API that has a GPU and can run the model: CUDA, HIP, Metal, OpenCL; else the CPU. A device of
OpenCL that is the CPU itself it never takes. The log says what was taken, and why not the others, a line each.

Before a device is taken, the kernels that the model will use run on small inputs beside the CPU. When one computes
something else, fails or gives no number, INFER_AUTO does not take the device and the log names the kernel; where the
device was asked for it is an error. A device that hangs cannot be helped. This takes well under a second when
model_params.cache keeps the answer once per device, driver, version of this library and kind of model, else each time
a model opens; model_params.gpu_unchecked leaves it out. A context with another type of cache than fit.kv_type has
kernels that were not checked. infer_device_check runs all kernels of a device (`infer devices --check`).

One device is fastest where the model fits there. Otherwise its layers are split over all devices of the API that have
memory of their own, in proportion to what is free (those that share the CPU's memory only when there are no others),
and what does not fit stays on the CPU. model_params.devices names several devices yourself, in the order of their
layers, and shares says how many layers each gets. The residual stream passes through the host's memory from one to the
next.

What all this takes is known before anything is loaded: infer_model_memory_path. "As many as fit" leaves room for the
context that model_params.fit describes (zeros: the defaults, at most 4096 positions); a larger one may then not fit,
which is an error that says how much it wanted:

    params.fit.cells = 32768;               (a cache for so many positions, and the work buffers, fit beside the layers)

Where memory turns out to be less while loading, fewer layers go to the devices, and the log says so.
model_params.progress follows the upload.

A device that was asked for and cannot be used, memory that it does not have, a storage type without kernels: each is an
error that says so, never a silent detour. As on the CPU, products with quantised weights round their input to 8 bits
(on tensor cores to halves, which weights beyond 65,504 do not fit into) unless model_params.exact asks for float32
everywhere. Sums have another order than on the CPU, and one row another than many, so last bits differ between devices
and with the batch.

14. Configuration macros
------------------------

Define them before including infer.h, where the implementation is.

    INFER_STATIC              all functions static: for use in one file
    INFER_API                 how functions are declared (default: extern)
    INFER_ASSERT(x)           checks for programming errors inside the library; none by default
    INFER_NO_STDIO            no files by path: memory and callbacks only
    INFER_NO_MMAP             files are read, not mapped
    INFER_NO_THREADS          no threads of its own
    INFER_NO_SIMD             plain C kernels only
    INFER_NO_AVX512           no AVX-512 kernels
    INFER_NO_RUNTIME_LINKING  no dlopen, and so no GPU
    INFER_NO_GPU              no GPU code and no kernels
    INFER_NO_CUDA, INFER_NO_HIP, INFER_NO_METAL, INFER_NO_OPENCL
                              without that API
    INFER_NO_CHAT             no templates and no conversations: their calls say so
    INFER_QUIET               no remark when compiled without optimisation

15. When something is wrong
---------------------------

model_params.log gets messages (level 1 errors to 4 debug). infer_model_describe writes out what a model's layers
compute, as resolved from its file: compare it with the paper. session_params.trace gets every step of the forward pass,
by layer and name: the first that differs from another engine's is where to look. infer_build_info() belongs in a bug
report.
*/
#ifndef INFER_H
#define INFER_H

#include <stddef.h>
#include <stdint.h>

/* 0xMMmmpp. Before 1.0 a minor version may change the interface; CHANGELOG.md opens with what broke. */
#define INFER_VERSION 0x000100

#ifndef INFER_API
#  ifdef INFER_STATIC
#    if defined(__GNUC__) || defined(__clang__)
#      define INFER_API static __attribute__((unused))
#    else
#      define INFER_API static
#    endif
#  else
#    define INFER_API extern
#  endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#include "api_types.h" /* results, enums, callbacks, parameters, what calls report */

/* ---- the library ---------------------------------------------------------------------------- */

/* The version that the implementation was built from (INFER_VERSION). */
INFER_API uint32_t infer_version(void);
/* One line: version, compiler, what was left out, CPU features found. Static storage. */
INFER_API const char *infer_build_info(void);
/* "ok", "cancelled", ... Never NULL. */
INFER_API const char *infer_result_string(infer_result r);
/* Devices that this machine offers: the CPU first, then GPUs. */
INFER_API int32_t infer_device_count(void);
/* Describes device `index` (0 .. count-1). INFER_ERR_ARGUMENT when out of range. */
INFER_API infer_result infer_device_get(int32_t index, infer_device_info *out);
/* Run all kernels of a GPU (every storage type, cache type, special kernel) on small inputs beside the CPU; fn (may be
 * NULL) gets a row for each program and operation. INFER_OK when all computed what the CPU did, else INFER_ERR_DEVICE
 * and the first that did not. Of params (NULL = defaults) allocator, max_memory, cache and log are used. A device that
 * hangs keeps the call from returning. */
INFER_API infer_result infer_device_check(int32_t device, const infer_model_params *params, infer_kernel_fn fn,
                                          void *user, infer_error *err);
/* Name of a CPU level ("avx2"), NULL when there is none; usable (may be NULL) tells whether this CPU has it. */
INFER_API const char *infer_cpu_level_name(int32_t level, int32_t *usable);
/* Name of the index-th architecture that sessions can be created for, NULL past the end. */
INFER_API const char *infer_arch_name(int32_t index);
/* What proves it: the reference files its results are tested against. NULL past the end. */
INFER_API const char *infer_arch_reference(int32_t index);
/* Name of a storage type by its id ("Q4_K"), NULL when there is none. */
INFER_API const char *infer_type_name(int32_t id);
/* The index-th storage type that this build reads. INFER_ERR_ARGUMENT past the end. */
INFER_API infer_result infer_type_get(int32_t index, infer_type_info *out);

/* ---- models --------------------------------------------------------------------------------- */

/* Open a GGUF file (UTF-8 path, on Windows too). Of split files name the first; the others are found beside it.
 * Weights are mapped and stay in the file. A file of any architecture opens; infer_model_info.computes tells
 * whether sessions can be created. On error *out is NULL. Close with infer_model_close.
 * Errors: IO, FORMAT (names key or tensor and offset), MEMORY, UNSUPPORTED, ARGUMENT. */
#define infer_model_open(out, path, params, err) infer_model_open_v(out, path, params, err, INFER_VERSION)
/* The same from a file in memory. The buffer stays the caller's and must outlive the model; it is copied when it
 * is not aligned to 32 bytes. */
#define infer_model_open_memory(out, data, size, params, err) \
    infer_model_open_memory_v(out, data, size, params, err, INFER_VERSION)
/* The same from callbacks: n_io files (1, or the parts of a split model in order). io is copied. Tensors are read
 * into memory unless io->mapped is set. */
#define infer_model_open_io(out, io, n_io, params, err) infer_model_open_io_v(out, io, n_io, params, err, INFER_VERSION)

INFER_API infer_result infer_model_open_v(infer_model **out, const char *path, const infer_model_params *params,
                                          infer_error *err, uint32_t version);
INFER_API infer_result infer_model_open_memory_v(infer_model **out, const void *data, size_t size,
                                                 const infer_model_params *params, infer_error *err, uint32_t version);
INFER_API infer_result infer_model_open_io_v(infer_model **out, const infer_io *io, int32_t n_io,
                                             const infer_model_params *params, infer_error *err, uint32_t version);
/* Close a model. NULL is accepted. INFER_ERR_STATE, and the model stays open, while it has contexts, sessions,
 * samplers or grammars. */
INFER_API infer_result infer_model_close(infer_model *model);
INFER_API infer_result infer_model_get_info(const infer_model *model, infer_model_info *out);
/* Why sessions cannot be created, "" when they can. Lives as long as the model. */
INFER_API const char *infer_model_why_not(const infer_model *model);
/* The resolved layers as readable pseudo-code. Returns the full length in *len; writes at most cap bytes with a
 * terminating zero. out may be NULL when cap is 0. */
INFER_API infer_result infer_model_describe(const infer_model *model, char *out, size_t cap, size_t *len);
/* What sessions of this model will need, before any is created. params NULL = defaults. */
INFER_API infer_result infer_model_memory(const infer_model *model, const infer_context_params *params,
                                          infer_memory *out, infer_error *err);
/* The same for a file that is not open: reads its header only. */
INFER_API infer_result infer_model_memory_path(const char *path, const infer_model_params *model_params,
                                               const infer_context_params *params, infer_memory *out, infer_error *err);

/* ---- metadata and tensors ------------------------------------------------------------------- */

INFER_API int32_t infer_meta_count(const infer_model *model);
/* The index-th key, zero-terminated, in file order; NULL when out of range. */
INFER_API const char *infer_meta_key(const infer_model *model, int32_t index);
/* The value of a key. INFER_ERR_ARGUMENT when there is none (out->kind is 0). */
INFER_API infer_result infer_meta_value(const infer_model *model, const char *key, infer_meta *out);
/* Element `index` of an array value. INFER_ERR_ARGUMENT when the key is no array or the index out of range. */
INFER_API infer_result infer_meta_element(const infer_model *model, const char *key, uint64_t index, infer_meta *out);
INFER_API int32_t infer_tensor_count(const infer_model *model);
INFER_API infer_result infer_tensor_get(const infer_model *model, int32_t index, infer_tensor_info *out);
/* Look up by name; INFER_ERR_ARGUMENT when there is none. */
INFER_API infer_result infer_tensor_find(const infer_model *model, const char *name, infer_tensor_info *out);
/* n_rows rows of dims[0] float32 from row `row` on, decoded from whatever type they are stored in. dst holds
 * n_rows * dims[0] floats. Errors: ARGUMENT (no such tensor or rows), IO. */
INFER_API infer_result infer_tensor_read(const infer_model *model, const char *name, uint64_t row, uint64_t n_rows,
                                         float *dst, infer_error *err);

/* ---- text ----------------------------------------------------------------------------------- */

enum {
    INFER_TEXT_ADD_SPECIAL = 1,   /* add BOS / EOS as the vocabulary asks */
    INFER_TEXT_PARSE_SPECIAL = 2, /* turn the text of control tokens into those tokens: never for untrusted text */
    INFER_TEXT_SPECIAL = 3,       /* both */
    INFER_TEXT_WRITE_SPECIAL = 4  /* infer_detokenize: write the text of control tokens out too */
};
/* Text (UTF-8, n bytes; invalid bytes are kept as bytes or replaced as the vocabulary can) to ids. *count is the
 * full number; at most cap are written. out may be NULL when cap is 0. It is no error when count > cap. */
INFER_API infer_result infer_tokenize(const infer_model *model, const char *text, size_t n, int32_t flags,
                                      infer_token *out, size_t cap, size_t *count, infer_error *err);
/* Ids to text, byte exact; of WordPiece, spaces before punctuation are taken out again. *len is the full length in
 * bytes, at most cap are written, no zero is added. Errors: ARGUMENT (no such token), UNSUPPORTED, MEMORY. */
INFER_API infer_result infer_detokenize(const infer_model *model, const infer_token *tokens, size_t n, int32_t flags,
                                        char *out, size_t cap, size_t *len, infer_error *err);
/* The bytes that one token stands for inside a text (may be part of a character). Control tokens give their text. */
INFER_API infer_result infer_token_text(const infer_model *model, infer_token token, char *out, size_t cap,
                                        size_t *len);
enum {
    INFER_TOKEN_NORMAL = 1, INFER_TOKEN_UNKNOWN = 2, INFER_TOKEN_CONTROL = 4, INFER_TOKEN_USER = 8,
    INFER_TOKEN_UNUSED = 16, INFER_TOKEN_BYTE = 32, INFER_TOKEN_END = 64 /* ends a reply */
};
/* INFER_TOKEN_* of a token, 0 when it is out of range. */
INFER_API int32_t infer_token_flags(const infer_model *model, infer_token token);
enum { INFER_SPECIAL_BOS, INFER_SPECIAL_EOS, INFER_SPECIAL_EOT, INFER_SPECIAL_UNK, INFER_SPECIAL_SEP, INFER_SPECIAL_PAD,
       INFER_SPECIAL_MASK, INFER_SPECIAL_FIM_PRE, INFER_SPECIAL_FIM_SUF, INFER_SPECIAL_FIM_MID, INFER_SPECIAL_EOM,
       INFER_SPECIAL_CLS, INFER_SPECIAL_FIM_PAD, INFER_SPECIAL_FIM_REP, INFER_SPECIAL_FIM_SEP, INFER_SPECIAL_COUNT };
/* The id of a special token, -1 when the vocabulary has none: from the file's keys, or known by its text. */
INFER_API infer_token infer_token_special(const infer_model *model, int32_t which);
/* Length of the longest prefix of s that does not end inside a UTF-8 character: what may be shown of a stream.
 * Invalid bytes count as whole characters. */
INFER_API size_t infer_utf8_whole(const char *s, size_t n);

#include "api_text.h" /* JSON, chat templates, replies */

/* ---- contexts and sessions ------------------------------------------------------------------ */

/* What several sessions share: threads, scratch, cache pages. One eval runs in a context at a time. */
INFER_API infer_result infer_context_create(infer_context **out, infer_model *model, const infer_context_params *params,
                                            infer_error *err);
/* NULL is accepted. INFER_ERR_STATE while it has sessions. */
INFER_API infer_result infer_context_destroy(infer_context *context);
/* Memory it holds, the model's weights included. */
INFER_API infer_result infer_context_memory(const infer_context *context, infer_memory *out);

/* A session with a context of its own. */
INFER_API infer_result infer_session_create(infer_session **out, infer_model *model, const infer_session_params *params,
                                            infer_error *err);
/* A session in a shared context (params->own is ignored). */
INFER_API infer_result infer_session_create_in(infer_session **out, infer_context *context,
                                               const infer_session_params *params, infer_error *err);
/* NULL is accepted. INFER_ERR_STATE, and the session stays as it is, while a call uses it or its context: destroy it
 * after that call. */
INFER_API infer_result infer_session_destroy(infer_session *session);

/* Append n tokens; logits of the last one are kept. The same as one step with INFER_OUT_LAST.
 * INFER_CONTEXT_FULL: they do not fit and nothing was evaluated. INFER_CANCELLED or an error: the session
 * stands where it stood. */
INFER_API infer_result infer_session_eval(infer_session *session, const infer_token *tokens, int32_t n);
/* Steps of several sessions of one context, any number of tokens each, together: all or nothing. A session may
 * occur once. err may be NULL; every session of the call remembers the error too (infer_session_error). */
INFER_API infer_result infer_eval(infer_context *context, const infer_step *steps, int32_t n_steps, infer_error *err);
/* Results of the last eval: row counts the tokens of the session's step from 0, or from the end with -1, -2, ...
 * NULL when that row was not asked for. vocab floats; the caller may change them until the next eval. With all layers
 * on a device they may still be there and come down now; NULL too when that fails (infer_session_error). A session
 * whose logits were asked for gets those of its next eval at once. */
INFER_API float *infer_session_logits(infer_session *session, int32_t row);
/* Final hidden state, width floats; NULL when that row was not asked for. */
INFER_API const float *infer_session_hidden(infer_session *session, int32_t row);
typedef struct infer_top {
    infer_token token;
    float logit;
    float logprob; /* natural log of the softmax over the whole vocabulary */
} infer_top;
/* The k most likely tokens of a row, best first (lower id first among equals). */
INFER_API infer_result infer_session_top(infer_session *session, int32_t row, int32_t k, infer_top *out);
/* One vector for the tokens of the last step, which must have kept hidden states of all of them: pooled as the
 * model says (mean, first, last), scaled to length 1. out holds width floats. */
INFER_API infer_result infer_session_embedding(infer_session *session, float *out, infer_error *err);

/* Make the session hold exactly these tokens: keeps the common prefix, evaluates the rest, leaves the logits of the
 * last. *kept (may be NULL) is the length of the prefix that was reused. */
INFER_API infer_result infer_session_sync(infer_session *session, const infer_token *tokens, int32_t n, int32_t *kept);
/* Go back to the first n tokens. Where a sliding window has dropped what is needed, the next eval computes it again
 * (stats.reevaluated); with embeddings among the n that is INFER_ERR_STATE. Otherwise it does not fail for 0 <= n <=
 * position. Logits are dropped. */
INFER_API infer_result infer_session_rewind(infer_session *session, int32_t n);
/* A second session at the same position, sharing cache pages until one of them writes. */
INFER_API infer_result infer_session_fork(infer_session **out, infer_session *session, infer_error *err);
/* Write the session (tokens and cache) as bytes; load it into a session of the same model and kv_type. A session
 * that could not be loaded is unchanged (empty when a device failed meanwhile). Loaded bytes are not trusted: a forged
 * state gives wrong tokens and results at worst, since its check sum is no authentication. Errors of load: FORMAT,
 * UNSUPPORTED (version), ARGUMENT (another model or kv_type, or on the other side of the context that LongRoPE changes
 * at), CONTEXT_FULL, IO, MEMORY. */
INFER_API infer_result infer_session_save(infer_session *session, infer_write_fn write, void *user);
INFER_API infer_result infer_session_load(infer_session *session, infer_read_fn read, void *user);
/* Tokens so far / most tokens possible. */
INFER_API int32_t infer_session_position(const infer_session *session);
INFER_API int32_t infer_session_context(const infer_session *session);
/* The tokens so far (position of them; -1 where embeddings were given). Valid until the session changes. */
INFER_API const infer_token *infer_session_tokens(const infer_session *session);
/* Stop the eval, sync, generate or chat of this session that runs now, soon: INFER_CANCELLED. From any thread, a
 * callback or a signal handler. It means the call that is running while it is made, from its entry to its return, and
 * no other: when nothing runs, or the call just ends, it is without effect, also on the next call. A call that had all
 * but ended may still return INFER_OK. A program whose user may press Stop before its thread has entered the call keeps
 * a flag of its own, and has a callback (progress, text) look at it. */
INFER_API void infer_session_cancel(infer_session *session);
/* The last error of this session; never NULL. */
INFER_API const infer_error *infer_session_error(const infer_session *session);
INFER_API infer_result infer_session_stats(const infer_session *session, infer_stats *out);
/* Time per operation since the context was made; needs context_params.profile. *count is the full number. */
INFER_API infer_result infer_session_profile(const infer_session *session, infer_profile_row *out, int32_t cap,
                                             int32_t *count);

/* ---- grammars ------------------------------------------------------------------------------- */

/* What a reply may be: one of gbnf, schema, json. With triggers the grammar is lazy: everything is allowed until one of
 * them appears; the text from the trigger's first byte on is then what the grammar must match. */
typedef struct infer_grammar_params {
    const char *gbnf;   /* a grammar in llama.cpp's notation (grammars/README.md there), UTF-8 */
    const char *schema; /* a JSON Schema: docs/json-schema.md says what is supported */
    int32_t json;       /* 1 = any JSON value */
    const char *root;   /* the rule to begin with; NULL = "root". For json: "object", "array" or "string" */
    const char *const *trigger_words;  /* texts */
    int32_t n_trigger_words;
    const infer_token *trigger_tokens; /* a trigger token is matched by its text, or by a <token> terminal */
    int32_t n_trigger_tokens;
    infer_limits limits; /* of compiling: seconds (2), cancel */
} infer_grammar_params;
/* Compile a grammar; params are copied. model may be NULL: then it can check texts and not sample, and <text> terminals
 * are unknown. It keeps caches (at most some 100 MB, usually a few), so it and its samplers belong to one thread at a
 * time. Errors: FORMAT (line and column; also for what can never end: a rule without a finite text, left recursion),
 * MEMORY, ARGUMENT, UNSUPPORTED (schema), LIMIT, CANCELLED. */
INFER_API infer_result infer_grammar_create(infer_grammar **out, infer_model *model, const infer_grammar_params *params,
                                            infer_error *err);
/* NULL is accepted. INFER_ERR_STATE while a sampler uses it. */
INFER_API infer_result infer_grammar_destroy(infer_grammar *grammar);
/* Match a text from the beginning: *accepted (may be NULL) = bytes until the first that is not allowed, *complete (may
 * be NULL) = 1 when all are accepted and the text may end there. INFER_OK also for a text that does not match. */
INFER_API infer_result infer_grammar_check(infer_grammar *grammar, const char *text, size_t n, size_t *accepted,
                                           int32_t *complete, infer_error *err);

/* ---- sampling ------------------------------------------------------------------------------- */

/* A candidate during sampling. */
typedef struct infer_candidate {
    infer_token token;
    float logit;
    float p; /* probability after the last stage that computed it */
} infer_candidate;
/* A caller's own stage: change, reorder or shorten the n candidates (best first after TOP_K and TOP_P; by id
 * while no stage but MIN_P and TOP_N_SIGMA has cut); return how many remain (1..n), 0 to fail. */
typedef int32_t (*infer_stage_fn)(void *user, infer_candidate *candidates, int32_t n);

/* Added to the logit of a token; -INFINITY takes the token away. */
typedef struct infer_bias {
    infer_token token;
    float bias;
} infer_bias;

/* Stages of a sampler, run in the order given. Unless noted, a parameter of 0 switches the stage off. Parameters mean
 * what those of the same name mean in llama.cpp. */
typedef enum infer_stage_kind {
    /* Keep the most likely candidate (lowest id among equals). */
    INFER_STAGE_GREEDY = 1,
    /* p[0] = temperature: logits / p[0]; below 0.0001 = greedy. */
    INFER_STAGE_TEMPERATURE = 2,
    /* p[0] = k: the k most likely. */
    INFER_STAGE_TOP_K = 3,
    /* p[0] = p in 0..1: the smallest set of probability >= p; 1 = off. */
    INFER_STAGE_TOP_P = 4,
    /* p[0] = share of the best one's probability that a candidate must have. */
    INFER_STAGE_MIN_P = 5,
    /* p[0] = last n tokens looked at (-1 = all that were accepted), p[1] = repeat (1 = off; positive logits are
     * divided, others multiplied), p[2] = frequency, p[3] = presence (both are subtracted and may be negative). */
    INFER_STAGE_PENALTY = 6,
    /* fn(user, ...). */
    INFER_STAGE_CUSTOM = 7,
    /* p[0] = temperature, p[1] = range, p[2] = exponent (0..100): the temperature is p[0] - p[1] (not below 0) when the
     * candidates' entropy is 0, p[0] + p[1] when it is the largest possible, between them as
     * (entropy / largest)^p[2]. Range 0: as TEMPERATURE. */
    INFER_STAGE_DYNAMIC_TEMPERATURE = 8,
    /* p[0] = p in 0..1: those whose surprise is nearest to the entropy, until their probability is above p; 1 = off. */
    INFER_STAGE_TYPICAL = 9,
    /* p[0] = n: logits at most n standard deviations below the best; below 0 = off. */
    INFER_STAGE_TOP_N_SIGMA = 10,
    /* p[0] = probability that it does anything, p[1] = threshold: of candidates of at least that probability only the
     * least likely stays; above 0.5 = off. */
    INFER_STAGE_XTC = 11,
    /* p[0] = tau, the surprise aimed at in bits, p[1] = eta, the rate of learning, p[2] = m, candidates that the
     * distribution is estimated from (0 = 100). MIROSTAT, MIROSTAT_2 and ADAPTIVE_P must be the last stage: they learn
     * from the token that was drawn when it is accepted, and from no other. */
    INFER_STAGE_MIROSTAT = 12,
    /* p[0] = tau, p[1] = eta: drops what has more surprise than it has learnt to allow. */
    INFER_STAGE_MIROSTAT_2 = 13,
    /* p[0] = multiplier, p[1] = base (below 1 = off), p[2] = allowed length, p[3] = last n tokens looked at (-1 = all
     * that were accepted): a token that would extend a repetition of n >= p[2] tokens loses p[0] * p[1]^(n - p[2]).
     * Repetitions do not reach across sequence breakers: text = a JSON array of at most 64 texts of 1 to 40 bytes,
     * NULL = ["\n", ":", "\"", "*"]; they need a model. Finding them takes time once. */
    INFER_STAGE_DRY = 14,
    /* p[0] = target, a probability; below 0 = off. p[1] = decay, 0..0.99: prefers tokens of about this probability, so
     * that the mean over about 1 / (1 - decay) tokens is it. */
    INFER_STAGE_ADAPTIVE_P = 15,
    /* For filling a gap in a text (after TOP_K and TOP_P): tokens that begin alike count as one, unlikely ones go, and
     * an end token is preferred when in doubt; needs a model. */
    INFER_STAGE_INFILL = 16,
    /* bias = n of them; tokens that do not exist are an error when there is a model. */
    INFER_STAGE_LOGIT_BIAS = 17,
    /* Drop the tokens that `grammar` does not allow; the first stage as a rule. A token that ends the reply is allowed
     * when the grammar is complete. */
    INFER_STAGE_GRAMMAR = 20
} infer_stage_kind;
typedef struct infer_stage {
    int32_t kind; /* infer_stage_kind */
    float p[4];
    int32_t n;        /* LOGIT_BIAS: of bias */
    const char *text; /* DRY: zero-terminated UTF-8 */
    infer_stage_fn fn;
    void *user;
    const infer_bias *bias;
    infer_grammar *grammar; /* GRAMMAR: the caller's; outlives the sampler. Every sampler has its own place in it */
} infer_stage;

/* After the stages a token is drawn from the softmax of the remaining logits with the sampler's own generator: the
 * same seed and logits give the same tokens on every platform. stages NULL (with n_stages 0) = those of
 * infer_sampler_usual. model may be NULL: then the file's figures are not used, and stages that need a vocabulary are
 * refused. stages are copied (texts and biases too). INFER_ERR_ARGUMENT names the stage. */
INFER_API infer_result infer_sampler_create(infer_sampler **out, infer_model *model, const infer_stage *stages,
                                            int32_t n_stages, uint64_t seed, infer_error *err);
/* The usual chain, to be looked at, changed and given to infer_sampler_create: penalty (64, 1, 0, 0), DRY (0, 1.75, 2,
 * 64), top-n-sigma 0, top-k 40, typical 1, top-p 0.95, min-p 0.05, XTC (0, 0.1), dynamic temperature (0.8, 0, 1), where
 * the file's general.sampling.* keys replace figures and order; with general.sampling.mirostat it is temperature and
 * mirostat.
 * *n is how many there are, never more than INFER_STAGES_USUAL; at most cap are written. model may be NULL. */
enum { INFER_STAGES_USUAL = 24 };
INFER_API infer_result infer_sampler_usual(const infer_model *model, infer_stage *out, int32_t cap, int32_t *n,
                                           infer_error *err);
/* One stage with its usual figures, or the file's (model may be NULL); zeros for kinds that have none. */
INFER_API infer_result infer_sampler_stage(const infer_model *model, int32_t kind, infer_stage *out, infer_error *err);
/* The kind that a name means, as general.sampling.sequence and other programs write it: "top_k", "top-k" and "topk",
 * "typ_p", "temperature", "penalties", ... 0 = unknown. */
INFER_API int32_t infer_stage_named(const char *name);
/* NULL is accepted. INFER_ERR_STATE, and nothing has happened, while a call uses the sampler. */
INFER_API infer_result infer_sampler_destroy(infer_sampler *sampler);
/* Back to the seed, and no accepted tokens. INFER_ERR_STATE while a call uses the sampler. */
INFER_API infer_result infer_sampler_reset(infer_sampler *sampler);
/* Tell it a token that was used (for stages that look back, learn or follow). infer_session_sample does this itself.
 * INFER_ERR_MEMORY; INFER_ERR_STATE: a grammar does not allow it, and nothing has changed. */
INFER_API infer_result infer_sampler_accept(infer_sampler *sampler, infer_token token);
/* Choose among n logits (not changed). NaN or no finite logit is INFER_ERR_STATE. */
INFER_API infer_result infer_sampler_sample(infer_sampler *sampler, const float *logits, int32_t n, infer_token *token,
                                            infer_error *err);
/* Choose from a row of the last eval's logits, and accept the token. sampler NULL = greedy. */
INFER_API infer_result infer_session_sample(infer_session *session, infer_sampler *sampler, int32_t row,
                                            infer_token *token);

/* ---- the short way -------------------------------------------------------------------------- */

enum { INFER_FULL_STOP = 0, INFER_FULL_SLIDE = 1 };
enum {
    INFER_STOP_LIMIT = 1,  /* max_tokens */
    INFER_STOP_TOKEN = 2,  /* an end-of-generation token: stop_token */
    INFER_STOP_STRING = 3, /* a stop string: stop_string is its index */
    INFER_STOP_FULL = 4,   /* the context is full */
    INFER_STOP_CALLBACK = 5,
    INFER_STOP_CANCELLED = 6,
    INFER_STOP_GRAMMAR = 7 /* the sampler's grammar is complete and nothing can follow */
};
typedef struct infer_generate_params {
    int32_t max_tokens;      /* 0 = until something else stops it */
    const char *const *stop; /* n_stop strings that end the text; never shown, not even in part */
    int32_t n_stop;
    int32_t logprobs;   /* k > 0: `tokens` gets the k most likely of every step */
    int32_t on_full;    /* INFER_FULL_*; SLIDE keeps the first keep_first tokens and drops half of the rest */
    int32_t keep_first;
    int32_t ignore_end; /* 1 = end-of-generation tokens do not stop it */
    int32_t text_flags; /* INFER_TEXT_PARSE_SPECIAL: the prompt is trusted; INFER_TEXT_WRITE_SPECIAL: the text of
                         * control tokens is shown too */
    infer_text_fn text; /* gets the text as it comes, whole characters only */
    void *user;
    /* Called for every token with the `logprobs` most likely ones (else n_top and logprob are 0); non-zero = stop, and
     * the text of this token is not shown. */
    int (*token)(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top);
} infer_generate_params;
typedef struct infer_generate_info {
    int32_t stop_reason; /* INFER_STOP_* */
    int32_t stop_token;  /* the token that stopped it, or -1 */
    int32_t stop_string; /* index into stop, or -1 */
    int32_t prompt_tokens, new_tokens;
    uint64_t bytes; /* of text */
} infer_generate_info;
/* Continue the session with `prompt` (UTF-8; NULL or "" = continue from where it stands; BOS is added at position 0
 * where the vocabulary asks, unless the prompt has it) and generate. sampler NULL = greedy; params NULL = defaults;
 * info may be NULL. A token is evaluated before it is reported: however it ends, the session holds the prompt and the
 * tokens that were reported, and the next call goes on from there. An end-of-generation token is neither evaluated nor
 * reported; the text of control tokens is not shown (see text_flags); nor is a character that the end leaves
 * unfinished. Reaching a limit is INFER_OK. When the context is full, the last position's logits still give one token:
 * it is reported, but has no place in the session (INFER_STOP_FULL). INFER_CONTEXT_FULL: the prompt does not fit.
 * INFER_ERR_ARGUMENT: nothing to continue from (empty prompt, no BOS, position 0). */
INFER_API infer_result infer_generate(infer_session *session, infer_sampler *sampler, const char *prompt,
                                      const infer_generate_params *params, infer_generate_info *info);

/* Models that fill in masked tokens (Dream, LLaDA, RND1): infer_model_info.masked; infer_generate refuses them. order:
 * which of a block's masks a step fills first: those whose token has the largest probability, the least entropy, the
 * largest distance to the second; at random; from left to right. */
enum { INFER_FILL_CONFIDENCE, INFER_FILL_ENTROPY, INFER_FILL_MARGIN, INFER_FILL_RANDOM, INFER_FILL_LEFT };
typedef struct infer_fill_params {
    int32_t n;     /* tokens to write, at least 1 */
    int32_t steps; /* evals in all, shared out evenly; 0 = one for each token */
    int32_t block; /* blocks of so many tokens are filled from left to right; 0 = all are one block */
    int32_t order; /* INFER_FILL_* */
    uint64_t seed; /* of INFER_FILL_RANDOM */
    /* After every step: the n tokens, of which `open` are masks. Non-zero = stop. */
    int (*step)(void *user, const infer_token *tokens, int32_t n, int32_t open);
    void *user;
} infer_fill_params;
/* Write params->n tokens behind the n_prompt given ones (the text's own special tokens included), to out (n; the
 * caller's). sampler NULL = the most likely tokens; its grammar and what looks back (penalties) know no order here:
 * leave them out. The session's context and its batch must hold all of them; the session is left where it was. After
 * the end token comes what the model fills in there: cut the text yourself. INFER_CANCELLED: stopped; out has what was
 * filled so far. UNSUPPORTED: no such model, or no mask token in the vocabulary. */
INFER_API infer_result infer_session_fill(infer_session *session, infer_sampler *sampler, const infer_token *prompt,
                                          int32_t n_prompt, const infer_fill_params *params, infer_token *out);

/* ---- conversations ---------------------------------------------------------------------------- */

/* A conversation. Zero in any field but messages means the default. Texts are zero-terminated JSON, in the form that
 * OpenAI's interface made common; what is changed before the template sees them is said here, and nothing else is:
 *   content: a list of {"type": "text", "text"} parts alone becomes one string; other lists stay. null, or none at all,
 *     in an assistant's message becomes "".
 *   tool_calls: arguments that are JSON in a string become the object that they spell. Should the template then fail
 *     (not: raise_exception), it is tried once with arguments as text, which some templates need.
 *   reasoning of an assistant may be called reasoning_content, reasoning or thinking: the template gets its own name.
 * tools NULL or [] is None in the template, as with Hugging Face's transformers; should the template then fail, it is
 * tried once with no such variable. */
typedef struct infer_chat_params {
    const char *messages;  /* [{"role": "user", "content": "..."}, ...] */
    const char *tools;     /* [{"type": "function", "function": {"name", "description", "parameters"}}, ...] */
    const char *variables; /* {"name": value, ...}: more variables for the template */
    int32_t thinking;      /* 1 = on, -1 = off: the template's enable_thinking or thinking. UNSUPPORTED without such */
    int32_t no_generation_prompt; /* 1 = do not begin the assistant's reply */
    int32_t allow_chatml; /* 1 = a model whose file has no template gets ChatML, without tools; else that is an error */
    const char *now;       /* "YYYY-MM-DD HH:MM:SS" for the template's strftime_now; NULL = the local clock */
    const char
        *template_name; /* of several in the file; NULL = "tool_use" when there are tools and the file has it, else
                                * the main one */
    const char *template_text; /* a template instead of the file's */
    infer_chat_fn fn;      /* infer_chat: gets the reply as it comes; non-zero = stop */
    void *user;
    infer_limits limits;   /* of rendering: seconds (2), cancel */
} infer_chat_params;

/* The text of a conversation, as the model's own template writes it, in segments. model may be NULL when template_text
 * is given (then bos_token and eos_token are empty). Free it with infer_rendering_free. Errors: ARGUMENT (params; no
 * such template), FORMAT (JSON, or a template that cannot be used: line and column), STATE (the template refuses: its
 * own message), UNSUPPORTED (the file has no template, and allow_chatml is 0; a construct that is not offered),
 * MEMORY. */
INFER_API infer_result infer_chat_render(const infer_model *model, const infer_chat_params *params,
                                         infer_rendering **out, infer_error *err);
/* Its tokens. Control tokens and marks (section 10) come from the template's text alone, never from messages; BOS is
 * added where the vocabulary asks for it and the template has not written it. *count is the full number; at most cap
 * are written. */
INFER_API infer_result infer_chat_format(const infer_model *model, const infer_chat_params *params, infer_token *out,
                                         size_t cap, size_t *count, infer_error *err);
/* Reply to a conversation: make the session hold it (what agrees with the present tokens is not evaluated again),
 * generate, read the reply. generate (may be NULL) has the limits, stop strings and so on of infer_generate; its `text`
 * must be NULL: params->fn is told instead. *reply is the parser that has read it, also after a failure when something
 * came: infer_chat_parser_reply, then infer_chat_parser_destroy. info->prompt_tokens is the length of the conversation.
 * Results as of infer_generate; INFER_CONTEXT_FULL: the conversation does not fit. */
INFER_API infer_result infer_chat(infer_session *session, infer_sampler *sampler, const infer_chat_params *params,
                                  const infer_generate_params *generate, infer_chat_parser **reply,
                                  infer_generate_info *info);

#ifdef __cplusplus
}
#endif
#endif /* INFER_H */
