/*
infer.h - run GGUF language models from one C header
====================================================

 1. In short
 2. Building
 3. Objects, and who owns what
 4. Errors
 5. In a host
 6. Evaluating: steps, passes, results
 7. Going back: sync, rewind, fork, save
 8. Text
 9. Sampling
10. Conversations
11. Memory
12. What is exact, what is reproducible
13. GPUs
14. Vectors and scores of texts
15. Adapters and control vectors
16. A queue of requests
17. In slices: a loop that keeps its frame
18. Configuration macros
19. When something is wrong
20. Versions: what is promised when
21. Pictures and sound

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
    params.text = show;                      (your function: receives the text as it comes)

    if (infer_model_open(&model, "model.gguf", NULL, &err)) fail(err.message);
    if (infer_session_create(&session, model, NULL, &err)) fail(err.message);
    if (infer_generate(session, NULL, "Once upon a time", &params, NULL))
        fail(infer_session_error(session)->message);
    infer_session_destroy(session);
    infer_model_close(model);

Passing NULL for parameters, or 0 in any field, selects the default.

2. Building
-----------

    cc -O2 app.c infer_impl.c -lm -lpthread -ldl

No flags are needed: the implementation detects at run time what the CPU can do. It is C99 and must be compiled as C;
the declarations may be included from C89 and C++. Compile it with optimisation even in debug builds of your program:
without it, it is many times slower. -lpthread and -ldl may be omitted where the C library includes them.

3. Objects, and who owns what
-----------------------------

    infer_model     an open file. Immutable; threads may share it. The weights stay in the mapped file.
    infer_context   threads, work buffers and cache for one or more sessions. One eval at a time.
    infer_session   one timeline of tokens with its results. Belongs to one thread at a time.
    infer_sampler   turns logits into a token. Belongs to one thread at a time.
    infer_generation
                    a text that is generated piece by piece. Belongs to one thread at a time.
    infer_grammar   constrains what a reply may be. Belongs, with the samplers that use it, to one thread at a time.
    infer_queue     evaluates requests of many threads together; has a context and sessions of its own.
    infer_request   one request of a queue. Queues and requests may be used from any thread.

Whoever creates an object closes it, once; NULL is a no-op. Objects count references: closing gives up the caller's, and
an object goes when nothing needs it any more. A model lives as long as what was made of it (contexts, samplers,
grammars, adapters, generations, jobs of texts, queues), a context as long as its sessions, a grammar as long as its
samplers, an adapter as long as positions that were evaluated with it, a queue as long as its requests, and all of them
as long as a call, a generation, a request or a slice uses them. So they may be closed in any order, by callbacks, and
by other threads while calls run: finalizers of languages with garbage collection need no order. An unfinished
infer_eval_slice is given up when its context or one of its sessions is closed. What callbacks, allocators and files in
memory need must stay as long as the object. A handle that was closed is not to be used again; closing it once more is
INFER_ERR_STATE while the object lives.

infer_session_create makes a context that its sessions own: it goes with the last of them, and infer_context_destroy
refuses it (INFER_ERR_STATE). Pointers returned by a call (names, logits, keys) belong to the object they came from.

4. Errors
---------

Every call that can fail returns an infer_result. Below 0: the call failed. Nothing was lost, the objects remain usable,
and the message says what went wrong and where, naming the key, tensor or argument. Above 0: the call stopped early for
a reason that is not an error. The library never calls abort or exit and prints nothing, and it checks every size that
comes from a file before using it.

Tensors and keys together define what a file computes. An architecture key or a tensor that this library does not
recognise might mean a different model from the one that would be computed. Such a file opens, so its metadata and text
functions are available, but it cannot have sessions, and infer_model_why_not names the key. Keys known to have no
effect, and values that state what is done anyway, are accepted. model_params.allow_unknown proceeds regardless and logs
a warning for each. Similarly, an unrecognised vocabulary key makes infer_tokenize fail.

5. In a host
------------

What a program that has other work to do may rely on. Each entry has tests, which bear its name.

    threads         A context has its own worker threads (context_params.threads, by default one per core; -1 = half as
                    many, for a program that has other work to do meanwhile), which sleep when idle; or it uses yours:
                    set model_params.parallel.
    one at a time   Use the sessions of one context from one thread at a time; different contexts of one model may be
                    used by different threads concurrently. Any thread may close objects (section 3) and call
                    infer_session_cancel at any time. Other calls from a second thread are detected so that nothing
                    breaks; do not rely on this: calls that only read (position, tokens, logits) are not checked.
    signals         The library installs no handlers and leaves your threads' masks as they are. Its threads block all
                    signals sent to the process, so those are delivered to your threads; fault signals (SIGSEGV, SIGBUS,
                    SIGFPE, SIGILL, SIGTRAP, SIGSYS) stay unblocked for your crash handler. Calls that a signal
                    interrupts go on (no SA_RESTART is needed).
    cancel          infer_session_cancel may be called by any thread, by callbacks and by signal handlers. It ends the
                    call that runs then and no other.
    callbacks       They run on the calling thread and may call the library, but for what is refused below. C++
                    exceptions and longjmp must not leave them.
    fork            After fork() the child may use a model that is on the CPU and create its own contexts. A context of
                    the parent that has worker threads can only be destroyed in the child, after generations and jobs in
                    it have been ended; its other calls return INFER_ERR_STATE. A model on a GPU, with everything that
                    belongs to it, cannot even be closed in the child: INFER_ERR_STATE. Fork only while no other thread
                    is inside a call.
    unloading       A shared library or DLL that holds the implementation may be unloaded when all that it created is
                    closed: no thread, mapping or handler of the library's remains. Drivers of GPUs, and threads of
                    theirs, stay.
    constructors    The library has no constructors and no destructors. Static objects of C++ may open models before
                    main and close them after it, and a program may end without closing anything. Not in DllMain:
                    closing waits for threads, which do not end under the loader's lock.
    fast maths      The implementation may be compiled with -ffast-math. Compiled by clang it gives the bits of other
                    builds; gcc may change the last bits, and keeps what section 12 promises of a build.
    floating point  Calls expect rounding to the nearest and masked exceptions, as C programs start. Flushing denormals
                    to zero changes no bit.
    files           A model file is mapped, except where every user may write to it (mode o+w): then it is read into
                    memory, with a warning in the log; model_params.no_mmap = -1 maps it anyway, 1 never does. To
                    replace a model, write a new file and rename it: the old one lives on as long as it is mapped. A
                    file that is truncated would kill the process with SIGBUS where its lost pages are read. Therefore
                    everything except weights (metadata, vocabulary, templates) is always in memory, and before every
                    pass that reads weights on the CPU, and before tensors are read or uploaded, the file's size is
                    checked: if it is shorter, the call returns INFER_ERR_IO ("shortened"), the session stays where it
                    was, and once the file is restored, in place, everything works again. Two cases remain: a file
                    truncated during a pass by its owner, by its group or by root, and wrong results when one of them
                    changes it in place. no_mmap = 1 protects against these too: use it where others administer the
                    file. Windows does not allow mapped files to be truncated.

A call on an object that is in use, whether from a callback or from a second thread, is refused: it returns
INFER_ERR_STATE and changes nothing, and the running call continues to its result. In use are:

    infer_generate, infer_chat, infer_generate_best
                                    the session and its sampler or samplers; during its evals and rewinds the context
                                    too
    infer_generation_begin until it has ended
                                    the same, also between two calls of infer_generation_next: then the context only
                                    when a slice has ended in the middle of an eval
    infer_embed_begin (_rerank_, _classify_) until the job has ended
                                    the context, hence its sessions
    infer_eval, infer_session_eval, _score, _sync, _rewind, _fork, _save, _load,
    _save_more, _load_more, _set_adapters
                                    the session and its context, hence every other session of it while the call runs
    infer_model_merge, _unmerge     the weights (no call may start using them), and the adapters
    a sampler, a grammar, a reply   during its own calls

Closing is not refused, with these exceptions: infer_generation_end, infer_embed_end, infer_loading_end and
infer_chat_parser_destroy by a callback of their own call, infer_queue_destroy by one of a queue that has a thread, and
infer_generation_end where drafts have to be taken back in a context that another call uses. They return
INFER_ERR_STATE: call again later. infer_model_offload is refused during evals, calls of infer_generation_next and
infer_embed_step, and while a slice has ended within an eval.

infer_session_error reports a refusal until the next call that is accepted. At any time, callbacks may query position,
tokens, context, error, stats, profile and memory, use the model (text, metadata, tensors), use other contexts and their
sessions, and cancel. Callbacks of infer_generate and infer_chat may also read the session's logits and use other
sessions of the context; during an eval (progress, trace, parallel) results are NULL or INFER_ERR_STATE. Allocators and
log functions should not call into the library.

6. Evaluating: steps, passes, results
-------------------------------------

infer_session_eval appends tokens and leaves the logits of the last one. infer_eval does the same for several sessions
of one context at once, each with any number of tokens and its own choice of results to keep (INFER_OUT_*); the weights
are read only once for all of them. Internally the tokens are split into passes of at most `batch` rows; you do not need
to split them.

An eval is all or nothing. When the tokens do not fit, it returns INFER_CONTEXT_FULL and evaluates nothing; after a
cancel or an error the session is back where it was.

7. Going back: sync, rewind, fork, save
---------------------------------------

    infer_session_sync(s, tokens, n, &kept)    make the session hold exactly these tokens; a prefix that it already has
                                               is not evaluated again
    infer_session_rewind(s, n)                 go back to the first n tokens
    infer_session_fork(&t, s, &err)            a second session at the same position; memory is shared until one of
                                               them writes
    infer_session_save / infer_session_load    store a session as bytes and restore it
    infer_session_save_more / _load_more       the same incrementally: each record has what is new since the last

Models with sliding windows discard keys behind the window and context_params.keep; rewinding further is allowed, and
the next eval recomputes what it needs (stats.reevaluated). Rows that were given as embeddings cannot be recomputed: a
rewind that would require it returns INFER_ERR_STATE. So does the next eval after one that was cancelled or failed when
more than `keep` tokens had passed: rewind to the position named in the message, and supply the rows again.

8. Text
-------

infer_tokenize and infer_detokenize are byte-exact, except for vocabularies that normalise the text first: WordPiece
(case, accents, white space) and Unigram (its character map, white space). INFER_TEXT_PARSE_SPECIAL turns text such as
"<|im_end|>" into control tokens: never use it for text that a user typed. Without it no text becomes a control token,
whatever the vocabulary says. The only exception is "<s>" in RWKV vocabularies, whose ids are kept as recorded
elsewhere. The unknown token stands for text that has no token, unless the file also uses it as its end of text.
User-defined tokens (type 4 of GGUF) are matched in all text, as in llama.cpp and Hugging Face's tokenizers: many are
white space or words, but some files use them to mark reasoning and calls ("</think>"), so a conversation is best
tokenized by infer_chat_format (section 10). When a vocabulary names no pre-tokenizer, or an unknown one, the library
does not guess: tokenizing is refused until model_params.pre or allow_default_pre says what to do.

infer_template_render writes a conversation the way the model was trained, from its chat template (metadata key
tokenizer.chat_template) and variables as JSON. The result is a list of segments: text that came from the variables is
marked, so that special tokens are parsed only in the template's own text. Marked text comprises strings of variables,
pieces of them, values computed from variables (numbers, lengths, JSON), and template text that is cut, padded or
repeated as a variable says; text that a variable merely selects counts as the template's. A template is as untrusted as
the file: it reads nothing but its variables, and its steps, memory and output are limited.

Calls other than evals that process untrusted input (rendering, compiling a grammar or a schema, tokenizing) take
infer_limits: seconds, and a function that is asked whether to stop. SECURITY.md has a table of all limits.

9. Sampling
-----------

A sampler is a list of stages (infer_stage) that run in order; a token is then drawn from the remaining candidates. The
same seed and logits give the same tokens on every platform. In every call that takes a sampler, NULL means greedy: the
most likely token, the lowest id among equals; there is nothing to accept, reset or destroy. A sampler created with
stages NULL is not greedy: it has the usual stages.

    infer_stage chain[INFER_STAGES_USUAL];
    int32_t i, n;
    infer_sampler_usual(model, chain, INFER_STAGES_USUAL, &n, &err);        (the file's own figures, if it has any)
    for (i = 0; i < n; i++)
        if (chain[i].kind == INFER_STAGE_TOP_K) chain[i].p[0] = 20;
    infer_sampler_create(&sampler, model, chain, n, seed, &err);

Parameters mean what they mean in llama.cpp, so settings carry over. Stages that truncate (top-k, top-p, min-p,
top-n-sigma) are cheap when they come first, since then only they see the whole vocabulary. Stages that look back
(penalties, DRY) or learn (mirostat, adaptive-p) depend on the tokens that were accepted: infer_session_sample and
infer_generate accept what they choose; with infer_sampler_sample, call infer_sampler_accept yourself.

A stage of kind INFER_STAGE_GRAMMAR, normally the first one, drops every token that would violate a grammar
(infer_grammar_create: GBNF, a JSON Schema, or any JSON). The output therefore conforms at every step, and
infer_generate stops when the grammar is complete and nothing can follow (INFER_STOP_GRAMMAR). Where a vocabulary cannot
spell what the grammar allows, sampling fails with an error that says so. With trigger words or tokens a grammar is
lazy: it takes effect where a trigger appears.

infer_generate_best generates several replies side by side and keeps the likeliest. infer_session_score tells how likely
the tokens of a prompt are, and what else was expected.

Speculative decoding: generate_params.lookup, .mtp and .draft let infer_generate (and infer_chat) guess the next few
tokens and evaluate them in one pass with the token before, which takes hardly longer than that token alone. lookup
takes what followed the same tokens earlier in the session: code, lists, answers that quote the prompt. draft is a
session of a smaller model with the same vocabulary. mtp drafts with the multi-token prediction blocks that some files
have after their layers (infer_model_params.mtp loads them; every eval then runs each as one more layer): bailingmoe2,
bailingmoe3, cohere2moe, deepseek2, deepseek32, dots3note, exaone-moe, exaone4, glm-dsa, glm4, glm4moe, hy_v3, mimo2,
nemotron_h_moe, qwen35, qwen35moe, qwen3next and step35. They are on the device that has all layers, or on the CPU. One
block drafts any number of tokens, several (mimo2, step35) one each. Each token is still chosen from its own logits by
the same sampler: on the CPU, text, seeds and grammars give exactly what they give without drafts; on a GPU the last
bits of logits may depend on how many tokens a pass has, and with them a choice between near-equal tokens. Wrong guesses
are rolled back; recurrent models do that by evaluating again from their last saved state. The length of drafts adapts
to how many guesses were right (infer_generate_info.drafted, accepted).

Classifier-free guidance: generate_params.negative is a second session of the model, which holds a negative prompt (or
the prompt without an instruction, to stress the instruction). Before each choice the logits become neg + guidance *
(pos - neg), where pos and neg are the log-softmaxes of the two sessions; samplers, grammars and reported logprobs work
on these. Each token is evaluated in both sessions, in one pass when they share a context.

    infer_session_create_in(&negative, context, NULL, &err);
    infer_session_eval(negative, tokens, n);          (of the negative prompt)
    params.negative = negative; params.guidance = 1.5f;

10. Conversations
-----------------

    infer_chat_message messages[8] = { 0 };
    infer_chat_params chat = { 0 };
    infer_chat_parser *reply;
    messages[0].role = "user";
    messages[0].content = "Hello";
    chat.messages = messages;
    chat.n_messages = 1;
    chat.fn = show;                          (your function: receives content, reasoning, tool calls as they come)

    if (infer_chat(session, NULL, &chat, NULL, &reply, NULL))
        fail(infer_session_error(session)->message);
    puts(infer_chat_parser_reply(reply)->content);
    infer_chat_parser_destroy(reply);

The conversation is rendered by the model's own chat template (tokenizer.chat_template, Jinja). For the next turn,
append the reply and the next message, and call again: what the session already holds is not evaluated again. Messages
and tools may also be JSON, as OpenAI's API has them: messages_json, tools_json. Use JSON for members of a message that
the structs do not have; infer_json_quote turns text into a JSON string. Both forms give the same prompt. A file without
a template is an error, unless allow_chatml says otherwise. Control tokens are parsed only in the template's own text: a
message that spells "<|im_end|>" is just text.

The same holds for marks that a file defines as user-defined tokens, or as normal tokens in brackets: those that the
template writes, those of the reply formats known here, and those written like control tokens ("<|x|>"). They stand only
for bytes of the template. In messages, tools and results, and where template and message meet inside a mark, the text
becomes other tokens, so nothing in a message can close the reasoning, begin a call or open a turn. One case cannot be
distinguished: marks for which the vocabulary has no token, so that they are ordinary letters wherever they appear
("[INST]" in many vocabularies, "Human:"). Where templates use such marks, escape or refuse them in untrusted text. What
a template does with a message is up to the template: many cut an assistant's content at "</think>", which is intended.

The reply is parsed in the format that the template teaches: reasoning, content and tool calls are separated while it
streams, and a partial mark is never shown. A call is reported when it is complete; its arguments are always a JSON
object. Text that only began like a call is content, so nothing is lost. To answer a call, append the reply as a
message of the role "assistant" with its calls, then the result as one of the role "tool", with tool_call_id and name of
the call; examples/tools.c shows it. To make a reply consist of calls, give its sampler the grammar that
infer_chat_grammar makes of the conversation: every format of calls, with the tools' JSON Schemas. infer_chat_format,
infer_chat_render and infer_chat_parser_* are the parts it is built from, for callers that run generation themselves.

When a conversation does not fit, infer_chat returns INFER_CONTEXT_FULL, unless infer_chat_params.on_full says what to
do: INFER_CHAT_FULL_DROP leaves out the oldest turns, INFER_CHAT_FULL_ASK asks for other messages, with a summary of the
old ones for instance. generate_params.on_full is for a context that fills up during a reply, and for infer_generate:
stop, slide, or ask which tokens to keep.

11. Memory
----------

infer_model_memory and infer_model_memory_path report, before anything is allocated, what a session will take: weights
(mapped pages of the file, which the system may drop and read again), cache and scratch. model_params.max_memory caps
their sum; model_params.allocator routes every allocation to your functions. Nothing is allocated during an eval, except
for results when a step keeps more rows than any before it.

infer_memory.peak is the most that the allocator is asked for at one time: by opening, a context and a session with all
of its cells, whose evals keep one row of results. With every layer on the CPU, and weights that stay where they are (a
mapped file, a buffer), it is exact to the byte, as cache + scratch is for what is held from then on. Calls that take
texts, samplers, and infer_generate allocate a little more while they run. docs/embedded.md shows a loop that does not.

infer_model_offload frees the memory of the weights, on the host and on GPUs, while the model stays open;
infer_model_reload reads them again. Sessions on the CPU survive that; sessions with layers on a GPU must be saved
before and loaded afterwards.

A context whose cache and scratch exceed all memory of the machine (RAM and swap, or what the container's control group
allows) fails immediately with INFER_ERR_MEMORY, unless you supply the allocator: systems that overcommit would kill the
process later. Exceeding what is free now, or creating a session longer than the model was trained for (after the
scaling of its positions), logs a warning. infer_device_get(0) reports how much memory there is.

12. What is exact, what is reproducible
---------------------------------------

With model_params.exact, weights of every storage type are decoded exactly and multiplied in float32: this defines the
result. Without it, the CPU rounds the input of a matrix product where that pays off: to 8 bits with a scale per 32
values for quantised weights (normalised squared error of a test model's logits: 1.6e-4), to BF16 for BF16 weights
(1.3e-5); F32 and F16 weights keep float32, except in encoders: on CPUs with AMX weights and input are split into sums
of two BF16 values (1e-10), on those with AVX512-VNNI F16 and BF16 weights and their input are integers of 16 bits with
a scale per 64 values (1e-8; rounding weights to F16 has 3e-8). On the CPU, results do not depend on the number of
threads, on the batch, or on what other sessions do: every sum has a fixed order. They may differ in the last bits
between CPU levels (fused multiply-add); select a level with model_params.cpu_level or the environment variable
INFER_CPU_LEVEL.
context_params.kv_type determines how the cache is stored.

On Linux and Windows a process needs permission to use AMX, Intel's tiles. The library requests it when a level with AMX
is first needed: when a model is opened with INFER_CPU_BEST or such a level, or when infer_cpu_level_name is asked
whether one is usable. If the request is refused, the next lower level is used. On Linux the permission has one effect
on the rest of the program: sigaltstack refuses stacks that could not hold the tiles, about 11 KiB. With cpu_level
INFER_CPU_AVX512BF16 it is never requested.

13. GPUs
--------

    infer_model_params params = { 0 };
    params.backend = INFER_OPENCL;          (gpu_layers: how many layers; 0 = as many as fit)

The driver's library is loaded at run time, when a device is requested or listed (infer_device_get): nothing is linked,
and a machine without a driver is not an error until you request a device. Kernels are compiled when a model opens; most
drivers cache the result, and model_params.cache lets you cache it too. The first gpu_layers layers run on the device,
the others on the CPU; only the residual stream is copied between them. With all layers on the device, only token ids,
positions and page tables are uploaded, and only what you asked for is downloaded: infer_stats counts the bytes. When
its sampler begins by keeping the few largest logits (greedy, top-k, the usual stages), infer_session_sample downloads
only those: 8 bytes each; the token is the same.

INFER_AUTO selects the first API that has a GPU and can run the model: CUDA, HIP, Metal, OpenCL; otherwise the CPU. It
never selects an OpenCL device that is the CPU itself. The log says, one line each, what was selected and why the others
were not.

Before a device is used, the kernels that the model needs run on small inputs and are compared with the CPU. When a
kernel gives a different result, fails or yields a NaN, INFER_AUTO does not use the device and the log names the kernel;
if the device was explicitly requested, this is an error. There is no protection against a device that hangs. The check
takes well under a second. When model_params.cache stores the verdict, it runs once per device, driver, version of this
library and kind of model; otherwise it runs each time a model opens. model_params.gpu_unchecked skips it. A context
with a cache type other than fit.kv_type uses kernels that were not checked. infer_device_check runs all kernels of a
device (`infer devices --check`).

One device is fastest when the model fits on it. Otherwise the layers are split over all devices of the API that have
their own memory, in proportion to what is free (devices that share the CPU's memory are used only when there are no
others), and what does not fit stays on the CPU. To choose several devices yourself, list them in model_params.devices
in the order of their layers; shares says how many layers each gets. The residual stream passes through the host's
memory from one device to the next.

infer_model_memory_path reports what all this takes before anything is loaded. "As many as fit" leaves room for the
context that model_params.fit describes (zeros: the defaults, at most 4096 positions). A larger context may then not
fit, which is an error that says how much it needed:

    params.fit.cells = 32768;               (a cache for this many positions and the work buffers fit beside the layers)

If less memory turns out to be available while loading, fewer layers go to the devices, and the log says so.
model_params.progress reports the progress of the upload.

A requested device that cannot be used, too little memory on it, a storage type without kernels: each is an error that
says so, never a silent fallback. As on the CPU, products with quantised weights round their input to 8 bits (on tensor
cores to half precision, which cannot represent weights beyond 65,504) unless model_params.exact requests float32
everywhere. Sums are made in another order than on the CPU, and in another order for one row than for many, so the last
bits differ between devices and with the batch.

14. Vectors and scores of texts
-------------------------------

    float *v = malloc(n * (size_t)infer_embed_width(model, NULL) * sizeof *v);
    if (infer_embed(context, texts, n, NULL, v, &err)) fail(err.message);

One call takes any number of texts and packs them side by side into passes without padding: the cost is that of the
tokens, whatever the longest text. Vectors have length 1 unless params.normalize says otherwise, so the dot product of
two is their cosine. The file defines how tokens become a vector (infer_model_info.pooling); the model card says what to
write before a text ("query: "), which goes into params.prefix. An encoder reads a whole text in one pass, so a text may
have as many tokens as the context's batch has rows (by default as many as its cells); params.long_texts says what to do
with longer ones. infer_rerank scores documents against a query, infer_classify gives the probabilities of labels.
Decoders can embed texts too: well if they were trained for it, poorly otherwise.

15. Adapters and control vectors
--------------------------------

    infer_adapter *a;
    infer_adapter_use use = { 0 };
    infer_adapter_open(&a, model, "lora.gguf", 0, &err)
    use.adapter = a; use.scale = 1;
    infer_session_set_adapters(session, &use, 1)      from now on; several add up; 0 adapters = none again

A LoRA adapter (GGUF, as llama.cpp's converter writes it) adds the product of two small matrices to some of the model's;
a control vector adds a direction to the residual stream between layers. Sessions of one context may use different ones
in the same pass, and a session's results do not depend on what the others use. Tokens already in a session stay as they
were evaluated: rewinding, forking and saving keep, for each position, the adapters it was evaluated with.
infer_context_set_adapters applies to sessions created later, and to infer_embed, infer_rerank and infer_classify.

An adapter with invocation tokens (aLoRA) applies from the last occurrence of these tokens to the end of what is being
evaluated: whatever precedes them, a shared document for instance, is evaluated, and may be cached, without it.

Every weight matrix may be adapted: attention, the FFN, experts, the router, recurrent layers, the embedding (not a head
that shares its tensor) and the head. Other tensors are refused by name, as are DoRA's magnitudes and, unless
allow_unknown is set, norms that were trained as well. With rank 16, a token of a 1B model in Q4_0 takes about 1.05
times as long. infer_model_merge merges adapters into the model's weights, for all users of the model and at no cost per
token; infer_model_unmerge takes them out again.

16. A queue of requests
-----------------------

A queue serves many users from one model: requests join and leave the running batch at every step, and the weights are
read once for all of them.

    infer_request_params p = { 0 };
    p.prompt = "Once upon a time";           (or .tokens, or .chat: a conversation)
    p.generate.max_tokens = 64;              (and whatever infer_generate takes: stop strings, callbacks, drafts)
    if (infer_queue_create(&queue, model, NULL, &err)) fail(err.message);
    if (infer_queue_submit(queue, &p, &request, &err)) fail(err.message);
    infer_request_wait(request);             (meanwhile any thread submits, cancels and waits)
    puts(infer_request_text(request, NULL));
    infer_request_close(request);

queue_params.thread gives the queue a thread of its own. Without one, it runs inside infer_request_wait, or in slices: a
loop that draws 60 frames a second calls infer_queue_step(queue, 5) in each (examples/host/frame_loop.c). A slice may
end between two layers; infer_eval_slice does the same for callers that evaluate tokens themselves.

A request gives the same tokens and text with the same seed as when it runs alone (on the CPU the same bits: section
12). Requests with a common prefix share it, whatever kind of state the model has: it is evaluated once, even when they
arrive together, and the caches of the last requests are kept for later ones, such as the next turn of a conversation.
When memory for the cache runs out, kept caches are dropped first; then the newest request of the lowest priority is
suspended, and resumes later where it was. A request that fails does not affect the others and has its own error.

17. In slices: a loop that keeps its frame
------------------------------------------

Long calls can run for a few milliseconds at a time, without threads. The result is the same to the last bit, however it
is sliced. Generating text piece by piece:

    infer_generation *g;
    const char *text;
    infer_result r;
    if (infer_generation_begin(&g, session, NULL, "Once upon a time", NULL, &err)) fail(err.message);
    do {                                     (once a frame; -1 instead of 4 runs until there is text: for generators)
        r = infer_generation_next(g, 4, &text, NULL);
        fputs(text, stdout);
    } while (r == INFER_MORE);
    if (r < 0) fail(infer_session_error(session)->message);
    infer_generation_end(g);                 (may be called early: the session keeps what was reported)

For several texts at once, use a queue (section 16); for vectors and scores, infer_embed_begin; for evals of your own,
infer_eval_slice. A slice ends between two layers, so it may exceed its budget by the time of one layer. Tokenizing,
choosing a token and the layers of a GPU are not split. A model can be opened in slices, too:

    infer_loading *loading;
    if (infer_model_open_begin(&loading, "model.gguf", NULL, &err)) fail(err.message);
    while ((r = infer_loading_step(loading, 4, &err)) == INFER_MORE) draw_frame();
    infer_loading_end(loading, &model);      (NULL after a failure, or when it was abandoned)
    if (r < 0) fail(err.message);

Parsing the header and the vocabulary, the reads of no_mmap, the pages of preload and uploads to a GPU are split into
pieces of 0.1 to 0.5 ms (1 MiB; longer on a slow disk). Not split: growing the header's memory (16 MB with 262,000
tokens: 2 to 7 ms, up to three times); copying an unaligned buffer; looking for GPUs (30 to 300 ms, not with backend
INFER_CPU), allocating their memory, and compiling the kernels of one layer.

18. Configuration macros
------------------------

Define them before including infer.h in the file that holds the implementation.

    INFER_STATIC              all functions static: for use in one file
    INFER_API                 how functions are declared (default: extern)
    INFER_ASSERT(x)           checks for programming errors inside the library; disabled by default
    INFER_NO_STDIO            no opening by path: memory and callbacks only
    INFER_NO_MMAP             files are read, not mapped
    INFER_NO_THREADS          the library creates no threads of its own
    INFER_NO_MALLOC           no malloc: model_params.allocator (and that of other params) must be given. A sampler, a
                              grammar or a JSON value without a model has none, and reports MEMORY
    INFER_SECONDS             a function of yours, double name(void), declared before infer.h: monotonic seconds in
                              place
                              of the system's clock. One that returns 0 is no clock: slices have no end but with budget
                              0, and limits of seconds never come
    INFER_NO_SIMD             plain C kernels only
    INFER_NO_AVX512           no AVX-512 and no AMX kernels
    INFER_NO_AVX2             no AVX2 kernels either: SSE4.1 and plain C remain
    INFER_NO_RUNTIME_LINKING  no dlopen, hence no GPU: implies INFER_NO_GPU
    INFER_NO_GPU              no GPU code and no kernels
    INFER_NO_CUDA, INFER_NO_HIP, INFER_NO_METAL, INFER_NO_OPENCL
                              leaves out that API. NO_CUDA also drops the PTX; the other three together drop the kernel
                              source that they share; all four together are INFER_NO_GPU
    INFER_NO_CHAT             no templates and no conversations
    INFER_NO_GRAMMAR          no grammars and no JSON Schema
    INFER_NO_ADAPTERS         no LoRA and no control vectors
    INFER_NO_DESCRIBE         no infer_model_describe and no session_params.trace; keys are refused without the reason
    INFER_NO_DRAFTS           no speculative decoding: draft, lookup, mtp
    INFER_NO_EMBED            no vectors, labels and scores of texts
    INFER_NO_ENCODE           no infer_type_encode
    INFER_NO_EXPERTS          no mixtures of experts
    INFER_NO_FILL             no infer_session_fill, no infer_infill, and none of its marks by infer_token_special
    INFER_NO_GUIDES           no guidance by negative prompts
    INFER_NO_JSON             no infer_json_*
    INFER_NO_MEDIA            no pictures and sound: no decoders, no projectors
    INFER_NO_OFFLOAD          no infer_model_offload and no model_params.preload
    INFER_NO_QUEUE            no queues, hence no infer_generate_best
    INFER_NO_RANGES           no models of some of a file's layers, or of parts of its matrices
    INFER_NO_SAVE             sessions are neither saved nor loaded
    INFER_NO_SCORES           no infer_session_score
    INFER_NO_SLICES           nothing in slices: no infer_model_open_begin, infer_eval_slice, infer_generation_begin,
                              and no budgets of infer_embed_step and infer_queue_step
    INFER_NO_SPLIT            no models in several files
                              Calls of what INFER_NO_CHAT and those after it leave out return INFER_ERR_UNSUPPORTED and
                              name the switch
    INFER_ONLY_ARCHS          architectures, with the layers and ops that no other one has: INFER_ARCH_llama
    INFER_ONLY_TOKENIZERS     tokenizer.ggml.model: INFER_TOKENIZER_llama, _gpt2, _gemma4, _whitespace, _bert, _t5,
                              _rwkv, _plamo2
    INFER_ONLY_PRETOKENIZERS  of _gpt2: INFER_PRETOKENIZER_gpt_2, _llama3, _qwen2: the first name of a group of
                              tokenizer.ggml.pre that split alike, in INFER__PRETOKENIZERS
    INFER_ONLY_SAMPLERS       stages: INFER_SAMPLER_top_k, named as INFER_STAGE_TOP_K. A sampler of the usual chain
                              needs all nine of it; a NULL sampler (greedy) needs none
    INFER_ONLY_CACHES         types of keys and values beside F32: INFER_CACHE_f16 (the default of contexts), _bf16,
                              _q8_0, _q4_0
    INFER_ONLY_QUANTS         types beside F32, F16, BF16, Q4_0 and Q8_0: INFER_QUANT_Q4_K, INFER_QUANT_I32. GPU kernels
                              stay
                              Of these six only what is listed is kept, for instance -DINFER_ONLY_ARCHS
                              -DINFER_ARCH_qwen3 -DINFER_ARCH_jina_bert_v2 (- and . are written _). Files that need
                              something else are refused with the switch's name. MSVC needs /Zc:preprocessor
    INFER_MINIMAL             implies INFER_NO_GPU, _NO_SIMD, those from _NO_CHAT to _NO_SPLIT, and all six lists with
                              INFER_ARCH_llama, INFER_TOKENIZER_llama, INFER_SAMPLER_greedy and INFER_CACHE_f16. More
                              may be listed: -DINFER_MINIMAL -DINFER_QUANT_Q4_K; less, too: -DINFER_ARCH_llama=0.
                              With llama alone, layers have nothing that other architectures added to them, and a file
                              that does is refused. gcc compiles all but the hot loops for size, and writes tables for
                              unwinding as debugging information
    INFER_QUIET               no #pragma message when compiled without optimisation

19. When something is wrong
---------------------------

model_params.log receives messages (level 1 errors to 4 debug). infer_model_describe writes what a model's layers
compute, as resolved from its file: compare it with the paper. session_params.trace receives every step of the forward
pass, by layer and name: look for the first one that differs from another engine's. context_params.inputs receives what
every matrix is multiplied with, for statistics of activations. Include infer_build_info() in bug reports.

20. Versions: what is promised when
-----------------------------------

INFER_VERSION is 0xMMmmpp: major, minor, patch. CHANGELOG.md lists what changed.

    patch   no declaration changes. Programs run with any patch version of a shared library, older or newer, without
            recompiling.
    minor   additions only: functions, constants, fields in the place of a struct's `reserved` ones. Programs compile
            without changes and behave as before; from 1.0 on they also run with the shared library of a later minor
            version without recompiling. Calls that open a model refuse a program that was compiled with a later one
            than the library (INFER_ERR_ARGUMENT), and parameters whose reserved fields are not 0 are refused.
    major   may change anything. Until 1.0 a minor version may, too, and must match; CHANGELOG.md opens with what broke.

Promised with these: names, types and values in the declarations; 0 as the default of every parameter; who owns what;
which results a call can return, where the comments list them. Initialise structs by zeros or by the names of fields,
not by position, and let a switch over results have a default: minor versions add errors.

Not promised: the wording of messages, logs, infer_model_describe and infer_build_info; speed, and memory to the byte;
the last bits of logits, and with them texts, between versions; names that begin with infer__ or INFER__. Saved sessions
and kernels in model_params.cache that another version wrote may be refused with an error, but are never misread.

Enums are 4 bytes wide, and this header does not compile where they are not, except on ARM systems whose ABI has short
ones (__ARM_SIZEOF_MINIMAL_ENUM is 1): there, compile program and library with the same options. No struct is packed or
has bit fields. tools/declarations.py writes all declarations as JSON, and with --compare says whether two versions of
this header differ by a patch, a minor or a major version.

21. Pictures and sound
----------------------

A model sees and hears by its projector ("mmproj"), a GGUF file of its own with encoders: Gemma 3 and 4, Qwen2-VL to
Qwen3-VL, LLaVA, SmolVLM, InternVL, Pixtral, Llama 4, MiniCPM-V and others (docs/media.md has the list).

    infer_model_params with = { 0 };
    with.projector = "mmproj.gguf";          (infer_model_get_info says whether it takes images, sounds or both)
    if (infer_model_open(&model, "model.gguf", &with, &err)) fail(err.message);
    if (infer_image_open(&image, "cat.jpg", NULL, &err)) fail(err.message);
    if (infer_media_encode(&media, model, &image, 1, NULL, &err)) fail(err.message);
    infer_image_free(&image);
    params.media = &media;
    params.n_media = 1;
    infer_generate(session, NULL, "What is this? <__media__>", &params, NULL);
    infer_media_free(media);

A prompt has a marker, INFER_MEDIA_MARKER, for each picture and sound, in order. In conversations a part of a message
stands for it: infer_chat_params.media, examples/describe.c. What the model expects around a picture (begin and end
tokens, rows, tiles) is added by itself. Sounds: infer_sound_open, infer_media_encode_sound, examples/transcribe.c.
Several frames given to infer_media_encode in one call are one piece of a video, for projectors that merge frames.

Encoding is the expensive part. It happens once: media may be used in any number of prompts, sessions and threads, also
at the same time, and the model keeps what was encoded last (media_kept), so that the same pixels cost nothing again.
In sessions a position of a picture is a token below -1 made of a hash of its embeddings: syncing, forks, saved
sessions and queues compare such tokens as they do others, so the same picture at the same place is not evaluated again
either.

Some models see a picture whole: its positions attend to each other in both directions. It is then evaluated in one
pass (context_params.batch must hold it), and a session cannot be rewound into it. INFER_FULL_SLIDE does not drop parts
of a session that holds pictures: the text ends (INFER_STOP_FULL). A conversation drops them with their messages.

Decoders, limits and errors are at the declarations. Files are untrusted: pixels and seconds are limited before memory
is taken. A host that decodes by itself fills in an infer_image or infer_sound.

22. Layers elsewhere
--------------------

A model too large for one machine, or for one device's memory, is opened several times, each time with other layers:

    with.first_layer = 0;  with.layers = 12;   (machine A: also the embedding and the head; prompts, sessions, results)
    with.first_layer = 12; with.layers = 0;    (machine B: layer 12 to the last one)

Each maps and holds the weights of its layers alone; infer_model_memory says how much that is. All sessions are A's, and
everything on them works as always, with the bits of one model. After its layers A calls context_params.rest with a
small message and the rows of the pass, for infer_context_rows of B's context; what that gives goes to the next one, or
back to A. How they travel is up to you (tools/infer-mpi: over MPI). A pass without results, such as all of a prompt but
its last one, gives nothing back, so A goes on while B works. To keep both busy while generating, use several contexts
(docs/pipeline.md).

Contexts must agree: cells, batch, kv_type, keep, sessions, and the same file. infer_rows_read reads them from a
message, so that B can make a context when the first one comes. A message that does not fit is refused; rows are
trusted, so the ways between machines must be. Refused by name: mtp, adapters, context_params.inputs, pictures whose
embeddings go to later layers (deepstack) elsewhere, and cuts between layers that share keys and values.

Matrices can be cut, too: several processes with the same layers, each with some rows of every wide matrix.

    with.part = 0;  with.parts = 2;   (process A: sessions, the embedding)
    with.part = 1;  with.parts = 2;   (process B: maps and holds its rows, and what is narrow)

Each computes the results of its rows, and after every product all give theirs to each other by context_params.gather,
or to A alone those of the head. A gives passes to the others by context_params.share, for their infer_context_rows;
they do not answer. The bits are those of one model, since no sum is cut. Attention and caches are not in parts: every
process has the whole cache of its layers. Ranges may have parts: then each part gives rows to the same part of the next
range, except when infer_rows_info.head is set; part 0 of the first range calls context_params.rest for part 0 of the
next one, which runs passes in the order of infer_rows_info.pass if several contexts send them at the same time.
part_least and parts must be the same in all parts of a range. A pass is cancelled before it begins, or not at all;
slices of evals end between passes. CPUs alone. Refused by name: GPUs, and what layers elsewhere refuse; deepstack.
*/
#ifndef INFER_H
#define INFER_H

#include <stddef.h>
#include <stdint.h>

/* 0xMMmmpp: section 20. */
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
/* One line: version, compiler, what was left out of the build, CPU features found. Static storage. */
INFER_API const char *infer_build_info(void);
/* "ok", "cancelled", ... Never NULL. */
INFER_API const char *infer_result_string(infer_result r);
/* Number of devices of this machine: the CPU, which is number 0, and GPUs. */
INFER_API int32_t infer_device_count(void);
/* Describes device `index` (0 .. count-1): the numbers that `infer devices` prints, model_params.device and --device
 * take, and infer_device_memory has. INFER_ERR_ARGUMENT when out of range. */
INFER_API infer_result infer_device_get(int32_t index, infer_device_info *out);
/* Run all kernels of a GPU (every storage type, cache type, special kernel) on small inputs and compare them with the
 * CPU; fn (may be NULL) receives a row for each program and operation. INFER_OK when all results match the CPU's, else
 * INFER_ERR_DEVICE and the first that did not. Of params (NULL = defaults), allocator, max_memory, cache and log are
 * used. If the device hangs, the call does not return. */
INFER_API infer_result infer_device_check(int32_t device, const infer_model_params *params, infer_kernel_fn fn,
                                          void *user, infer_error *err);
/* Name of a CPU level ("avx2"), or NULL when there is none; usable (may be NULL) receives whether this CPU has it and
 * the operating system permits it. */
INFER_API const char *infer_cpu_level_name(int32_t level, int32_t *usable);
/* Name of the index-th architecture for which sessions can be created, NULL past the end. */
INFER_API const char *infer_arch_name(int32_t index);
/* The reference files that its results are tested against. NULL past the end. */
INFER_API const char *infer_arch_reference(int32_t index);
/* The kinds of sublayers that its layers may have, separated by ", ". NULL past the end. */
INFER_API const char *infer_arch_layers(int32_t index);
/* Operations without GPU kernels, separated by ", ": a layer that needs one stays on the CPU, and so do the layers
 * after it. "" when there are kernels for everything, NULL past the end. */
INFER_API const char *infer_arch_lacks(int32_t index);
/* Name of a storage type by its id ("Q4_K"), NULL when there is none. */
INFER_API const char *infer_type_name(int32_t id);
/* The index-th storage type that this build reads. INFER_ERR_ARGUMENT past the end. */
INFER_API infer_result infer_type_get(int32_t index, infer_type_info *out);
/* n values from and to n / values blocks of a type (infer_type_info), any alignment. Encoding searches for the codes
 * with the least sum of importance * (value - x)^2: importance has n floats from 0 on, NULL = all are equal; F32, F16
 * and BF16 round to nearest. Infinities and NaN become 0 in types with blocks. The same values give the same bytes in
 * one build.
 * INFER_ERR_ARGUMENT: n is no multiple of a block, or an importance is negative. INFER_ERR_UNSUPPORTED: the type is not
 *                     known, or cannot be written: integers, F64.
 * May be called by several threads at once. Encoding allocates nothing: IQ1, IQ2 and IQ3 take 48 KiB of stack. */
INFER_API infer_result infer_type_decode(int32_t type, const void *data, uint64_t n, float *values, infer_error *err);
INFER_API infer_result infer_type_encode(int32_t type, const float *values, const float *importance, uint64_t n,
                                         void *data, infer_error *err);

/* ---- models --------------------------------------------------------------------------------- */

#include "api_open.h" /* opening one, at once and in slices */
/* Close a model; it lives as long as what was made of it (section 3). NULL is accepted. */
INFER_API infer_result infer_model_close(infer_model *model);
/* Free the memory of the weights, on GPUs too, and keep the model open: metadata, text and the contents of sessions
 * stay usable, while evals, new contexts and infer_tensor_read return INFER_ERR_STATE. Pages of a mapped file are
 * returned to the system; weights that were read into memory are freed. A no-op when already offloaded. Adapters stay
 * loaded. STATE: another call uses the weights; adapters are merged into them; or layers are on a GPU and there are
 * contexts: save their sessions (infer_session_save) and destroy them. UNSUPPORTED: all weights are in memory supplied
 * by the caller. */
INFER_API infer_result infer_model_offload(infer_model *model, infer_error *err);
/* Load the weights again, to where they were: results are bit-identical to those before. Tensors are read again from
 * the file or the callbacks; mapped ones as model_params.preload says; progress is called as when opening. After an
 * error (MEMORY, IO, DEVICE, CANCELLED) the weights remain offloaded, and the call may be repeated. */
INFER_API infer_result infer_model_reload(infer_model *model, infer_error *err);
INFER_API infer_result infer_model_get_info(const infer_model *model, infer_model_info *out);
/* Why sessions cannot be created, "" when they can. Valid as long as the model. */
INFER_API const char *infer_model_why_not(const infer_model *model);
/* The resolved layers as readable pseudo-code. Returns the full length in *len; writes at most cap bytes with a
 * terminating zero. out may be NULL when cap is 0. */
INFER_API infer_result infer_model_describe(const infer_model *model, char *out, size_t cap, size_t *len);
/* What sessions of this model will need, before any is created. params NULL = defaults. */
INFER_API infer_result infer_model_memory(const infer_model *model, const infer_context_params *params,
                                          infer_memory *out, infer_error *err);
/* The same for a file that is not open: only its header is read. */
INFER_API infer_result infer_model_memory_path(const char *path, const infer_model_params *model_params,
                                               const infer_context_params *params, infer_memory *out, infer_error *err);

/* ---- metadata and tensors ------------------------------------------------------------------- */

INFER_API int32_t infer_meta_count(const infer_model *model);
/* The index-th key, zero-terminated, in file order; NULL when out of range. */
INFER_API const char *infer_meta_key(const infer_model *model, int32_t index);
/* The value of a key. INFER_ERR_ARGUMENT when there is none (out->kind is 0). */
INFER_API infer_result infer_meta_value(const infer_model *model, const char *key, infer_meta *out);
/* Element `index` of an array value. INFER_ERR_ARGUMENT when the key is not an array or the index is out of range. */
INFER_API infer_result infer_meta_element(const infer_model *model, const char *key, uint64_t index, infer_meta *out);
INFER_API int32_t infer_tensor_count(const infer_model *model);
INFER_API infer_result infer_tensor_get(const infer_model *model, int32_t index, infer_tensor_info *out);
/* Look up by name; INFER_ERR_ARGUMENT when there is none. */
INFER_API infer_result infer_tensor_find(const infer_model *model, const char *name, infer_tensor_info *out);
/* Read n_rows rows of dims[0] float32, starting at row `row`, decoded from whatever type they are stored in. dst holds
 * n_rows * dims[0] floats. Errors: ARGUMENT (no such tensor or rows), IO. */
INFER_API infer_result infer_tensor_read(const infer_model *model, const char *name, uint64_t row, uint64_t n_rows,
                                         float *dst, infer_error *err);

/* ---- text ----------------------------------------------------------------------------------- */

enum {
    INFER_TEXT_ADD_SPECIAL = 1,   /* add BOS / EOS where the vocabulary asks for them */
    INFER_TEXT_PARSE_SPECIAL = 2, /* turn the text of control tokens into those tokens: never for untrusted text */
    INFER_TEXT_SPECIAL = 3,       /* both */
    INFER_TEXT_WRITE_SPECIAL = 4  /* infer_detokenize: also write the text of control tokens */
};
/* Convert text (UTF-8, n bytes; invalid bytes are kept as bytes or replaced, as the vocabulary allows) to ids. *count
 * is the full number; at most cap are written. out may be NULL when cap is 0. count > cap is not an error. */
INFER_API infer_result infer_tokenize(const infer_model *model, const char *text, size_t n, int32_t flags,
                                      infer_token *out, size_t cap, size_t *count, infer_error *err);
/* The prompt for filling in the middle between two texts (an editor's text before and after the cursor), with the
 * vocabulary's own marks: prefix mark, prefix, suffix mark, suffix, middle mark, and BOS first where the vocabulary
 * asks for it. Evaluate the tokens and generate. most: maximum number of tokens, 0 = any; to fit, the beginning of the
 * prefix and the end of the suffix are dropped. *count as for infer_tokenize. UNSUPPORTED: a vocabulary without such
 * marks. */
INFER_API infer_result infer_infill(const infer_model *model, const char *prefix, size_t n_prefix, const char *suffix,
                                    size_t n_suffix, int32_t most, infer_token *out, size_t cap, size_t *count,
                                    infer_error *err);
/* Convert ids to text, byte-exact; for WordPiece, spaces before punctuation are removed again. *len is the full length
 * in bytes; at most cap are written, without a terminating zero. Errors: ARGUMENT (no such token), UNSUPPORTED,
 * MEMORY. */
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
/* The id of a special token, from the file's keys or recognised by its text; -1 when the vocabulary has none. */
INFER_API infer_token infer_token_special(const infer_model *model, int32_t which);
/* Length of the longest prefix of s that does not end inside a UTF-8 character: the part of a stream that may be shown.
 * Invalid bytes count as whole characters. */
INFER_API size_t infer_utf8_whole(const char *s, size_t n);

#include "api_text.h" /* JSON, chat templates, replies */

/* ---- contexts and sessions ------------------------------------------------------------------ */

/* What several sessions share: threads, scratch, cache pages. A context runs one eval at a time. */
INFER_API infer_result infer_context_create(infer_context **out, infer_model *model, const infer_context_params *params,
                                            infer_error *err);
/* It lives as long as its sessions. NULL is accepted. INFER_ERR_STATE: infer_session_create has made it. */
INFER_API infer_result infer_context_destroy(infer_context *context);
/* Memory held by the context, including the model's weights. */
INFER_API infer_result infer_context_memory(const infer_context *context, infer_memory *out);

/* A session with a context of its own. */
INFER_API infer_result infer_session_create(infer_session **out, infer_model *model, const infer_session_params *params,
                                            infer_error *err);
/* A session in a shared context (params->own is ignored). */
INFER_API infer_result infer_session_create_in(infer_session **out, infer_context *context,
                                               const infer_session_params *params, infer_error *err);
/* It lives as long as a call or a generation uses it. NULL is accepted. */
INFER_API infer_result infer_session_destroy(infer_session *session);

#include "api_adapters.h" /* LoRA, control vectors */

/* Append n tokens; logits of the last one are kept. The same as one step with INFER_OUT_LAST. INFER_CONTEXT_FULL: they
 * do not fit and nothing was evaluated. INFER_CANCELLED or an error: the session is back where it was. */
INFER_API infer_result infer_session_eval(infer_session *session, const infer_token *tokens, int32_t n);
/* Encode the input of a model with an encoder and a decoder (T5): the session is at position 0 again, and what is
 * evaluated from then on is the answer, whose first token is infer_model_info.decoder_start. All tokens go through in
 * one pass, so there may be at most as many as the context's batch has rows. infer_generate does this with its prompt.
 * UNSUPPORTED for other models. After an error the session has no encoded input. */
INFER_API infer_result infer_session_encode(infer_session *session, const infer_token *tokens, int32_t n);
/* Evaluate steps of several sessions of one context together, any number of tokens each: all or nothing. A session may
 * occur only once. err may be NULL; every session of the call also records the error (infer_session_error). */
INFER_API infer_result infer_eval(infer_context *context, const infer_step *steps, int32_t n_steps, infer_error *err);
/* The same for about budget_ms milliseconds, at least one CPU layer. INFER_MORE = call again with the same steps; they
 * and their tokens must stay unchanged. Any other result ends the eval. Until then the context and the sessions are in
 * use (section 5): other calls are refused, infer_session_cancel ends the eval at the next slice, and steps NULL with
 * n_steps 0 abandons it (INFER_OK; the sessions are back where they were), as does closing one of these. A slice
 * exceeds its budget by at most one layer: the output matrix is split into pieces as large as a layer (unless it has an
 * adapter by token), and passes of long prompts have as many rows (at least 16) as take about a quarter of a slice in a
 * layer. The layers of a GPU, and rows that attend to each other, are not split. */
INFER_API infer_result infer_eval_slice(infer_context *context, const infer_step *steps, int32_t n_steps,
                                        int32_t budget_ms, infer_error *err);
/* A pass of a context with other layers of the same file: section 22. message is that of its context_params.rest, rows
 * the n floats that came with it, or that the layers before gave; there is room for cap of them. *back floats take
 * their place, for the layers that follow, or, after the last one, for the caller of rest. The context's model does not
 * have layer 0, or is not part 0; its cells, batch, kv_type, keep and sessions are those of the other one. ARGUMENT: it
 * does not fit, and nothing was done; after another error sessions that the pass had rows of are to be rewound. */
INFER_API infer_result infer_context_rows(infer_context *context, const void *message, size_t size, float *rows,
                                          size_t n, size_t cap, size_t *back, infer_error *err);
/* Which context a message comes from, and what the ones that answer it are made with. */
INFER_API infer_result infer_rows_read(const void *message, size_t size, infer_rows_info *out, infer_error *err);
/* Results of the last eval: row counts the tokens of the session's step from 0, or from the end with -1, -2, ...
 * Returns vocab floats, which the caller may change until the next eval, or NULL when that row was not requested. With
 * all layers on a device, the logits may still be there and are downloaded now; if that fails, the result is NULL too
 * (infer_session_error). Once a session's logits have been requested, those of its next eval are downloaded
 * immediately. */
INFER_API float *infer_session_logits(infer_session *session, int32_t row);
/* Final hidden state, width floats; NULL when that row was not requested. */
INFER_API const float *infer_session_hidden(infer_session *session, int32_t row);
typedef struct infer_top {
    infer_token token;
    float logit;
    float logprob; /* natural log of the softmax over the whole vocabulary */
} infer_top;
/* The k most likely tokens of a row, best first (lower id first among equals). */
INFER_API infer_result infer_session_top(infer_session *session, int32_t row, int32_t k, infer_top *out);
/* One vector for the tokens of the last step, which must have kept hidden states of all of them: pooled as the model
 * says, scaled to length 1: infer_model_info.embedding floats. Of a classifier: its `labels` scores, as they are. For
 * many texts see infer_embed. */
INFER_API infer_result infer_session_embedding(infer_session *session, float *out, infer_error *err);

#include "api_embed.h" /* vectors and scores of many texts */
#include "api_media.h" /* pictures and sound */

/* Make the session hold exactly these tokens: keeps the common prefix, evaluates the rest, leaves the logits of the
 * last one. *kept (may be NULL) is the length of the reused prefix. */
INFER_API infer_result infer_session_sync(infer_session *session, const infer_token *tokens, int32_t n, int32_t *kept);
/* Go back to the first n tokens. Where a sliding window has dropped what is needed, the next eval recomputes it
 * (stats.reevaluated); with embeddings among the n, that is INFER_ERR_STATE. Otherwise it does not fail for 0 <= n <=
 * position. Logits are invalidated. */
INFER_API infer_result infer_session_rewind(infer_session *session, int32_t n);
/* A second session at the same position, sharing cache pages until one of them writes. */
INFER_API infer_result infer_session_fork(infer_session **out, infer_session *session, infer_error *err);
/* Write the session (tokens and cache) as bytes; load it into a session of the same model and kv_type. When loading
 * fails, the session is unchanged (empty if a device failed meanwhile, or the encoder of an encoder-decoder model: its
 * output is not saved but computed again). Encoders have no state: UNSUPPORTED. Loaded bytes are not trusted: at worst,
 * a forged state yields wrong tokens and results, since its checksum does not authenticate it. Errors of load: FORMAT,
 * UNSUPPORTED (version), ARGUMENT (another model, other weights or kv_type, or on the other side of the context at
 * which LongRoPE switches), CONTEXT_FULL, IO, MEMORY. */
INFER_API infer_result infer_session_save(infer_session *session, infer_write_fn write, void *user);
INFER_API infer_result infer_session_load(infer_session *session, infer_read_fn read, void *user);
/* Write what is new in the session since *mark as one record, to be appended to the earlier ones: a long conversation
 * is saved turn by turn, at a cost proportional to the turn. *mark belongs to the caller: zeros the first time (the
 * whole session is written), later as the last save or load left it. When nothing is new, nothing is written. A fork
 * continues from its parent's mark too, in a copy of the records. After a failure (IO: the callback wrote too little)
 * *mark is unchanged: truncate the file to mark->bytes and try again. STATE: the mark is not that of the session's last
 * save or load. */
INFER_API infer_result infer_session_save_more(infer_session *session, infer_session_mark *mark, infer_write_fn write,
                                               void *user);
/* Load what infer_session_save_more has written, up to the end of the data; *mark (its old contents are ignored) is
 * then where to continue. A record that is incomplete, because the writer was interrupted or the file is damaged, and
 * all records after it are ignored; mark->left and the log say so, and the next record belongs at mark->bytes: truncate
 * the file there. Guarantees and errors are those of infer_session_load. The session must be as long as the longest
 * that was saved. */
INFER_API infer_result infer_session_load_more(infer_session *session, infer_session_mark *mark, infer_read_fn read,
                                               void *user);
/* Tokens so far / maximum number of tokens. 0 for NULL. */
INFER_API int32_t infer_session_position(const infer_session *session);
INFER_API int32_t infer_session_capacity(const infer_session *session);
/* The session's context, for infer_eval, infer_embed and more sessions in it; NULL for NULL. A context made by
 * infer_session_create is destroyed with the last of its sessions, not by the caller. */
INFER_API infer_context *infer_session_get_context(const infer_session *session);
/* The tokens so far (`position` of them; -1 where embeddings were given). Valid until the session changes. */
INFER_API const infer_token *infer_session_tokens(const infer_session *session);
/* Stop the eval, sync, generate or chat that this session is running, soon: it returns INFER_CANCELLED. May be called
 * from any thread, a callback or a signal handler. It applies only to the call that is running when it is made, from
 * that call's entry to its return: when nothing is running, or the call is just returning, it has no effect, not even
 * on the next call. A call that was almost done may still return INFER_OK. If the user may press Stop before the thread
 * has entered the call, keep a flag of your own and check it in a callback (progress, text). */
INFER_API void infer_session_cancel(infer_session *session);
/* The last error of this session; never NULL. */
INFER_API const infer_error *infer_session_error(const infer_session *session);
INFER_API infer_result infer_session_stats(const infer_session *session, infer_stats *out);
/* Time per operation since the context was created; needs context_params.profile. *count is the full number. */
INFER_API infer_result infer_session_profile(const infer_session *session, infer_profile_row *out, int32_t cap,
                                             int32_t *count);

#include "api_sampling.h" /* grammars, samplers */
#include "api_generate.h" /* the short way: text from a prompt, whole or piece by piece */

#include "api_chat.h" /* conversations */
#include "api_queue.h" /* many requests */

/* Compiled without -fshort-enums and the like (section 20). */
#if !defined(__ARM_SIZEOF_MINIMAL_ENUM) || __ARM_SIZEOF_MINIMAL_ENUM == 4
typedef char infer_enums_have_4_bytes[sizeof(infer_result) == 4 && sizeof(infer_backend) == 4 &&
                                      sizeof(infer_cpu_level) == 4 && sizeof(infer_kv_type) == 4 &&
                                      sizeof(infer_pooling) == 4 && sizeof(infer_stage_kind) == 4 &&
                                      sizeof(infer_request_state) == 4 ? 1 : -1];
#endif

#ifdef __cplusplus
}
#endif
#endif /* INFER_H */
