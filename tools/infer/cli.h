/* cli.h: what the files of the command-line program share.
 *
 * One file per command (run.c, logits.c, ...), each with one function cmd_NAME that the table in main.c lists.
 * They use the public interface of infer.h only. Around them: args.c, options.c, help.c (options), common.c (opening a model,
 * reading files, errors), json.c (writing JSON), platform.c and terminal.c (the only files with calls of the operating system).
 *
 * Results go to stdout, everything else to stderr. Exit status: 0 done, 1 the work failed, 2 wrong usage,
 * 130 ended by Ctrl-C.
 */
#ifndef CLI_H
#define CLI_H

#include "../../infer.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

#if defined(__GNUC__) || defined(__clang__)
#  define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#  define CLI_PRINTF(f, a)
#endif

/* ---- main.c --------------------------------------------------------------------------------- */

typedef struct cli_command {
    const char *name;
    const char *args; /* the text after the name in the usage line */
    const char *what; /* one line */
    int (*run)(int argc, char **argv);
} cli_command;

int cmd_run(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_tokens(int argc, char **argv);
int cmd_detok(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_media(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_rerank(int argc, char **argv);
int cmd_classify(int argc, char **argv);
int cmd_tensor(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_template(int argc, char **argv);
int cmd_grammar(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_hash(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_edit(int argc, char **argv);
int cmd_split(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_perplexity(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_imatrix(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_map(int argc, char **argv);

/* ---- args.c --------------------------------------------------------------------------------- */

/* The type of an option's value and of the variable that receives it. */
enum {
    OPT_FLAG,   /* int: set to 1 */
    OPT_INT,    /* int64_t, lo .. hi; 8k, 1.5G and so on are understood */
    OPT_SIZE,   /* the same in bytes, of which a fraction does not count: 4.2G */
    OPT_FLOAT,  /* double */
    OPT_STRING, /* const char * */
    OPT_LIST,   /* cli_list: the option may be repeated */
    OPT_CHOICE, /* int64_t: the index of one of the words in `arg`, which are separated by | */
    OPT_TEXT,   /* const char *: a longer text; @FILE is the contents of a file, @@ a leading @ */
    OPT_SWITCH, /* int64_t: 0 auto, 1 on, 2 off; the option alone means on */
    OPT_LAYERS, /* int64_t: as OPT_INT; all = hi, auto = 0, none = -1 */
    OPT_INSTEAD /* int: set to 1, and parsing ends: the arguments are meant for another command */
};
typedef struct cli_list {
    const char **items;
    int n;
} cli_list;
typedef struct cli_option {
    const char *name; /* "-t,--threads|--cores": spellings; those after | are hidden */
    int kind;
    void *value;
    const char *arg;  /* what the help calls the value, or the words of OPT_CHOICE */
    const char *help; /* NULL = the option is not shown */
    int64_t lo, hi;   /* OPT_INT, OPT_SIZE; both 0 = any that is not negative */
} cli_option;

/* The sampler options given (sampling.c); made by cli_sampling_options. */
enum { CLI_SAMPLING_FIGURES = 32, CLI_SAMPLING_OPTIONS = CLI_SAMPLING_FIGURES + 8 };
typedef struct cli_sampling {
    double value[CLI_SAMPLING_FIGURES];  /* by index in sampling.c's table */
    int64_t whole[CLI_SAMPLING_FIGURES]; /* the integers among them */
    int64_t mirostat;                    /* -1 = not given */
    cli_list breakers, biases;
    const char *order, *grammar_text, *schema_text; /* see cli_read_text */
    int ignore_eos, json_object;
    infer_grammar *grammar; /* made by cli_grammar */
} cli_sampling;

/* Options that several commands share; zero in every field means "not given". */
typedef struct cli_common {
    int64_t threads, backend, device, gpu_layers, ctx, batch, kv, kv_keys, kv_values, max_memory, seed;
    int64_t needs; /* not an option: positions that the command needs without --ctx; 0 = unknown */
    int seed_given;
    int gpu_unchecked, allow_unknown;
    int ctx_whole; /* --ctx 0: as many positions as the model was trained for */
    int exact, preload, lock, no_mmap, verbose, json;
    int mtp; /* not a shared option: open models with the block that predicts further tokens */
    const char *model, *cpu_level, *pre, *devices, *shares, *kernel_cache, *report;
    cli_list loras, controls;
    int merge;
    cli_list media; /* files of pictures and sounds, in order */
    const char *projector;
    int64_t image_min, image_max; /* tokens of a picture */
    cli_sampling sampling; /* TAKES_SAMPLING */
} cli_common;

/* Which of the shared options a command takes. */
enum { TAKES_JSON = 1, TAKES_MODEL = 2, TAKES_COMPUTE = 4, TAKES_CONTEXT = 8, TAKES_SEED = 16, TAKES_DEVICE = 32,
       TAKES_SAMPLING = 64, TAKES_ADAPTERS = 128, TAKES_REPORT = 256, TAKES_MEDIA = 512,
       TAKES_PROJECTOR = 1024 };

typedef struct cli_spec {
    const char *command;
    const char *usage; /* the text after "infer COMMAND" */
    const char *about; /* one or more paragraphs for --help; lines end in \n */
    const cli_option *options;
    int n_options;
    int takes; /* TAKES_* */
    int n_args_min, n_args_max;
} cli_spec;

/* Parses options into their variables and the other words into args (n_args_max pointers; NULL where absent). Returns 1
 * to continue; 0 when the command ends with *status (help was printed, or wrong usage). */
int cli_parse(const cli_spec *spec, int argc, char **argv, cli_common *common, const char **args, int *status);
/* Calls fn with the tables of a command instead of running it. */
typedef void (*cli_visit_fn)(void *user, const cli_spec *spec, const cli_option *shared, const int *group, int n_shared);
void cli_visit(const cli_command *command, cli_visit_fn fn, void *user);
/* Spelling i of a name, *n bytes; NULL = there are fewer. */
const char *cli_spelling(const char *names, int i, int *n);
/* How many characters to insert, delete, replace or swap to turn a into b; 40 when either is longer than that. */
int cli_edit_distance(const char *a, size_t n_a, const char *b, size_t n_b);
/* An integer: digits, or a number with the suffix k, M, G or T (powers of 1024; kB, MB ... powers of 1000). Returns 0
 * if it is not one. */
int cli_parse_count(const char *text, int64_t *out);
/* A seed of 31 bits that differs from run to run. */
uint64_t cli_random_seed(void);
int cli_list_add(const char *command, cli_list *list, const char *item); /* 0 = out of memory */
void cli_args_free(void); /* items of lists, and texts that options read from files: they are there until then */
/* One line on stderr, and the exit status for wrong usage. */
int cli_usage_error(const char *command, const char *format, ...) CLI_PRINTF(2, 3);

/* ---- options.c ------------------------------------------------------------------------------ */

enum { CLI_MAX_SHARED = 40 + CLI_SAMPLING_OPTIONS };
/* The shared options of a command, to out, and the TAKES_* bit of each to group (CLI_MAX_SHARED). Returns how many. */
int cli_shared_options(int takes, cli_common *c, cli_option *out, int *group);

/* An option of another program that infer does not have: FLAG, VALUE and SWITCH are skipped after a line on stderr. */
enum { HABIT_FLAG, HABIT_VALUE, HABIT_SWITCH, HABIT_REFUSED };
typedef struct cli_habit {
    const char *names;
    int kind;
    const char *text; /* why it has no effect, or what to use instead */
} cli_habit;
const cli_habit *cli_habits(int *n);

/* ---- help.c --------------------------------------------------------------------------------- */

void cli_print_help(const cli_spec *spec, const cli_option *shared, const int *group, int n_shared);
/* `infer completions`. */
int cli_completions(int argc, char **argv, const cli_command *commands, int n_commands);

/* ---- sampling.c ----------------------------------------------------------------------------- */

/* Nothing is given yet; the options, to out (CLI_SAMPLING_OPTIONS). Returns how many. */
int cli_sampling_options(cli_sampling *s, cli_option *out);
/* Checks names and biases: returns 0 after saying what is wrong. */
int cli_sampling_check(const char *command, const cli_sampling *s);
/* The grammar that --grammar, --schema or --json-object ask for, to s->grammar (NULL: none), which the caller destroys
 * after its sampler. Says why and returns 0 on failure. */
int cli_grammar(const char *command, infer_model *model, cli_sampling *s);
/* The same from a text or a file (cli_read_text); schema: it holds a JSON Schema. model may be NULL. Says why and
 * returns NULL. */
infer_grammar *cli_grammar_text(const char *command, infer_model *model, const char *value, int schema);
/* The sampler that the options ask for, the library's own when they ask for nothing. Says why and returns NULL. */
infer_sampler *cli_sampler(const char *command, infer_model *model, const cli_sampling *s, uint64_t seed);
/* The same, saying why in *err instead (no message: memory ran out, which has been said). */
infer_sampler *cli_sampler_try(const char *command, infer_model *model, const cli_sampling *s, uint64_t seed, infer_error *err);
/* Sets a figure by its option's name with _ for -, as requests of servers call it ("top_k"): 0 = the value is out of range, -1 = there
 * is no such figure. */
int cli_sampling_set(cli_sampling *s, const char *name, double value);
/* 1 = the sampler is sure to choose the most likely token, as no sampler does. */
int cli_sampling_greedy(const cli_sampling *s);

/* ---- progress.c ----------------------------------------------------------------------------- */

/* A progress bar on stderr if that is a terminal, for operations of more than half a second. */
typedef struct cli_progress {
    const char *what; /* NULL = nothing is shown */
    double started;
    int shown; /* percent, -1 = nothing yet */
} cli_progress;
void cli_progress_begin(cli_progress *p, const char *what);
int cli_progress_show(void *user, float done); /* infer_progress_fn; user: cli_progress */
void cli_progress_end(cli_progress *p);        /* wipes the bar */

/* ---- common.c ------------------------------------------------------------------------------- */

/* One line "infer COMMAND: ..." on stderr. Returns CLI_FAILED. */
int cli_fail(const char *command, const char *format, ...) CLI_PRINTF(2, 3);
/* The parameters for opening a model, from the options; 0 after saying what is wrong with them. */
int cli_model_params(const char *command, const cli_common *common, infer_model_params *out);
/* Hooks of tools/infer-mpi, for commands that do not know of it: open: layers of params, before a model is opened that
 * will compute (0 after saying why not); context: where the others are. NULL in `infer`. */
typedef struct cli_elsewhere_hooks {
    int (*open)(const char *command, const char *path, const cli_common *common, infer_model_params *params);
    void (*context)(infer_context_params *params);
} cli_elsewhere_hooks;
extern const cli_elsewhere_hooks *cli_elsewhere;
/* Open a model as the shared options say. On failure says why and returns NULL. */
infer_model *cli_open(const char *command, const char *path, const cli_common *common, int vocab_only);
/* Context parameters as the shared options say (cells left at 0). */
void cli_context_params(const cli_common *common, infer_context_params *out);
/* A context of `cells` positions, or params->cells if those are more, with one session of `cells` in it. Says why and
 * returns 0 on failure. */
int cli_session(const char *command, infer_model *model, const infer_context_params *params, int32_t cells,
                infer_context **context, infer_session **session);
/* The same of another model: without the adapters that the command line names. */
int cli_session_plain(const char *command, infer_model *model, const infer_context_params *params, int32_t cells,
                      infer_context **context, infer_session **session);
/* The progress bar of these sessions' prompts, shown between cli_run_begin and cli_run_end. */
extern cli_progress cli_prompt_bar;
/* From now on Ctrl-C does not end the program. Between begin and end it cancels the session's call; one that came too
 * early for that is only recorded, so callbacks check cli_run_interrupted. */
void cli_catch_interrupts(void);
void cli_run_begin(infer_session *session);
int cli_run_interrupted(void); /* Ctrl-C came since the start, or since this: */
void cli_run_forget(void);
void cli_run_end(void);
/* Replaces the escapes \n, \r, \t, \\, \' and \" of a text, in place. */
void cli_unescape(char *text);
/* The text itself, or a file's if path is not NULL, to be freed; escapes: as cli_unescape does. Says why and returns
 * NULL on failure; a zero byte is one, for it would end the prompt. */
char *cli_prompt(const char *command, const char *text, const char *path, int escapes, size_t *n);
/* Positions for a session that must hold n tokens: --ctx, else the model's context up to 4096, or n if that is more. */
int32_t cli_cells(const cli_common *common, const infer_model *model, size_t n);

/* malloc and realloc that say "out of memory" and return NULL. n is a count, size the bytes of one. */
void *cli_alloc(const char *command, size_t n, size_t size);
void *cli_grow(const char *command, void *p, size_t n, size_t size);
/* A whole file ("-" = stdin), zero-terminated. Says why and returns NULL on failure. */
char *cli_read_file(const char *command, const char *path, size_t *n);
/* The text of an option's value, as cli_read_file returns it: @FILE is a file, a value that can only be a grammar, JSON
 * or a template is the text itself, any other value is the name of a file. *name: what to call it in messages. */
char *cli_read_text(const char *command, const char *value, size_t *n, const char **name);
/* Numbers of a text: whitespace-separated ids in text[0..n). Says why and returns 0 on failure. */
int cli_parse_ids(const char *command, const char *where, const char *text, size_t n, infer_token **ids, size_t *count);
/* The ids that an option names, each by itself; to be freed. Says why and returns 0 on failure. */
int cli_list_ids(const char *command, const char *option, const cli_list *list, infer_token **ids);
/* Text to ids. Says why and returns 0 on failure. *ids is to be freed. */
int cli_tokenize(const char *command, const infer_model *model, const char *text, size_t n, int32_t flags,
                 infer_token **ids, size_t *count);
/* Ids to text of *n bytes, to be freed; NULL after saying why. */
char *cli_detokenize(const char *command, const infer_model *model, const infer_token *ids, size_t count, int32_t flags,
                     size_t *n);
/* Is a file to be written none of these, which the command reads (NULL: none)? Says why and returns 0 otherwise. */
int cli_check_output(const char *command, const char *path, const char *const *inputs, size_t n);
/* Opens a file for writing ("-" = stdout), and closes it: close says why and returns 0 if a write failed. */
FILE *cli_create(const char *command, const char *path);
int cli_close(const char *command, FILE *file, const char *path);
/* Little-endian values. */
int cli_write_i32(FILE *file, const int32_t *x, size_t n);
int cli_write_f32(FILE *file, const float *x, size_t n);
/* "134.5 M", "1.2 GB" into a buffer of 32 bytes. */
const char *cli_count_text(double n, char *out);
const char *cli_bytes_text(double n, char *out);
/* The last part of a path. */
const char *cli_base_name(const char *path);
int cli_ends_with(const char *s, const char *end);

/* ---- buffer.c ------------------------------------------------------------------------------- */

/* A text that grows, zero-terminated; failed: memory ran out, which has been said. */
typedef struct cli_text {
    char *s;
    size_t n, cap;
    int failed;
} cli_text;
int cli_text_room(const char *command, cli_text *t, size_t n); /* for n bytes more and the zero; 0 = failed */
void cli_text_put(const char *command, cli_text *t, const char *s, size_t n);
void cli_text_json(const char *command, cli_text *t, const char *s, size_t n); /* as a JSON string, with its quotes */

/* n characters of base64, with or without = at the end, as *size bytes; out has room for n / 4 * 3 + 3. NULL, or where it is not base64. */
const char *cli_base64_read(const char *s, size_t n, void *out, size_t *size);

/* Rows of a command's options: the template of chats. */
#define CLI_TEMPLATE_OPTIONS(o) \
    {"--template|--chat-template-file", OPT_STRING, &(o).template_path, "FILE|TEXT", "use this Jinja template instead of the model's own", 0, 0}, \
    {"--chatml", OPT_FLAG, &(o).chatml, NULL, "use ChatML if the file has no template", 0, 0}

/* ---- texts.c -------------------------------------------------------------------------------- */

/* The source of texts: one of the first three is given. NULL = not given. */
typedef struct cli_texts_from {
    const char *texts, *ids, *text; /* files; a text itself */
    const char *separator;          /* of texts: the number of a byte */
} cli_texts_from;
/* Texts, or ids of texts; zero-initialised: none. */
typedef struct cli_texts {
    size_t n;
    const char **texts;
    size_t *lengths;
    const infer_token **ids; /* NULL: texts */
    size_t *n_ids;
    char *data;
} cli_texts;
/* Rows of a command's options that fill one. */
#define CLI_TEXTS_OPTIONS(from) \
    {"--texts", OPT_STRING, &(from).texts, "FILE", "texts, one per line; - is stdin", 0, 0}, \
    {"--separator", OPT_STRING, &(from).separator, "BYTE", "byte that ends a text, instead of newline: 0x1e", 0, 0}, \
    {"-p|--text", OPT_STRING, &(from).text, "TEXT", "a single text", 0, 0}
#define CLI_IDS_OPTION(from) {"--ids", OPT_STRING, &(from).ids, "FILE", "token ids instead of text, one line per text", 0, 0}
/* CLI_DONE, or the exit status after saying why. To be given to cli_texts_free in any case. */
int cli_texts_read(const char *command, const cli_texts_from *from, cli_texts *out);
void cli_texts_free(cli_texts *texts);
/* The fields of `out` that say what texts there are. */
void cli_texts_params(const cli_texts *texts, infer_embed_params *out);
/* A context for infer_embed. Says why and returns 0 on failure. */
int cli_embed_context(const char *command, infer_model *model, const cli_common *common, infer_context **out);

/* ---- convert/folder.c ------------------------------------------------------------------------ */

/* Opens a Hugging Face folder as a model, converted as it is read. An error whose message is empty has been said already. */
infer_result cli_folder_open(const char *command, const char *path, const infer_model_params *params, infer_model **out, infer_error *err);
/* An adapter's folder as the GGUF file that `infer convert` makes of it, to be freed. base: the path of the model. 0 after saying why not. */
int cli_folder_adapter(const char *command, const char *path, const char *base, unsigned char **out, size_t *n);
void cli_folder_close(infer_model *model); /* closes any model, and the folder that it was opened from */

/* ---- adapters.c ----------------------------------------------------------------------------- */

/* Opens what --lora and --control name; cli_open does it. Says why and returns 0 on failure. */
int cli_adapters_open(const char *command, infer_model *model, const char *path, const cli_common *common);
/* The context's sessions use them from now on. */
infer_result cli_adapters_use(infer_context *context, infer_error *err);
/* The same as a list, for requests of a queue; those that are merged are not in it. NULL: none. */
const infer_adapter_use *cli_adapters_list(int32_t *n);
/* The prefix that they require before a text (of the first that has one), NULL = none. Valid until they are closed. */
const char *cli_adapters_prefix(void);
/* Closes them and the model. */
void cli_model_close(infer_model *model);

/* ---- media.c -------------------------------------------------------------------------------- */

/* Pictures and sounds, encoded. */
typedef struct cli_media {
    infer_media **items;
    int32_t n;
} cli_media;
/* Where a file name *mmproj*.gguf has that word, in letters of any case; NULL = it is another name. */
const char *cli_projector_word(const char *name);
/* How many *mmproj*.gguf are beside a model: 0, 1 (its path to out), or 2 for more. */
int cli_projectors_beside(const char *model, char *out, size_t cap);
/* The projector of a model, where none is named: the only *mmproj*.gguf beside it, to out. Says why and returns 0 otherwise. */
int cli_projector_find(const char *command, const char *model, char *out, size_t cap);
/* Is the file a WAV sound? 0 also when it cannot be read. Sounds that are not decoded are refused by name, whatever they are opened as. */
int cli_media_is_sound(const char *path);
/* The command line's limits and threads. */
void cli_encode_params(const cli_common *common, infer_encode_params *out);
/* The picture or sound of a file, for infer_media_free. NULL after saying why, or when Ctrl-C came. */
infer_media *cli_media_open(const char *command, infer_model *model, const cli_common *common, const char *path);
/* The same with what params has besides limits, threads and progress. */
infer_media *cli_media_encode(const char *command, infer_model *model, const cli_common *common, const char *path,
                              infer_encode_params params);
/* All that the command line names, to be given to cli_media_free in any case. 0 after saying why, or when Ctrl-C came. */
int cli_media_open_all(const char *command, infer_model *model, const cli_common *common, cli_media *out);
void cli_media_free(cli_media *media);
/* The text with n_media markers before it, unless it has some itself; it is freed or returned. NULL: out of memory. */
char *cli_media_prompt(const char *command, char *text, size_t *n, int n_media);
/* cli_tokenize of a text with markers. */
int cli_media_tokenize(const char *command, const infer_model *model, const char *text, size_t n, int32_t flags,
                       const cli_media *media, infer_token **ids, size_t *count);

/* ---- devices.c ------------------------------------------------------------------------------ */

/* The backend of a context with this memory. */
const char *cli_backend_name(const infer_memory *memory);

/* ---- json.c --------------------------------------------------------------------------------- */

/* Length of the UTF-8 character at s[0..n), 0 when it is none (overlong forms and surrogates included). */
size_t cli_utf8_length(const char *s, size_t n);
/* A string with quotes; bytes that are not UTF-8 become U+FFFD. */
void json_string(FILE *file, const char *s, size_t n);
void json_text(FILE *file, const char *s); /* the same, zero-terminated; NULL is null */
void json_number(FILE *file, double x);    /* not finite is null */
void json_ids(FILE *file, const infer_token *ids, size_t n);

/* ---- files/value_text.c --------------------------------------------------------------------- */

/* "u32" of a GGUF value type, "?" when there is none. */
const char *cli_value_type(int32_t type);
/* A scalar or a string on stdout, as JSON or for people, who see the beginning of a long string unless `full`. */
void cli_print_value(const infer_meta *m, int json, int full);
/* An array of n elements, which `element` gives one after the other (0 = it cannot): in full when it is short or `full`, else the
 * first. In JSON a cut array is an object {"n", "first"}, so that scripts cannot mistake the part for the whole. */
typedef int cli_element(void *from, uint64_t i, infer_meta *out);
void cli_print_array(uint64_t n, int json, int full, cli_element *element, void *from);

/* ---- kernel_cache.c ------------------------------------------------------------------------- */

/* Keeps compiled GPU kernels in files of `folder`, which must outlive *out; NULL: infer's folder among the user's
 * caches, "": keeps nothing. */
void cli_kernel_cache(const char *folder, infer_cache *out);

/* ---- peaks.c -------------------------------------------------------------------------------- */

/* Peak rates of `threads` threads together: bytes per second from memory, operations per second (a multiply-add counts
 * as two) and the instruction used; 0 and "" for what this CPU, or the level, does not have. */
typedef struct cli_peaks {
    double bandwidth, int8, int16, bf16, f32; /* int16: of products of encoders whose weights are F16 or BF16 */
    const char *int8_by, *bf16_by, *f32_by;
} cli_peaks;
/* Takes about a second. level: infer_cpu_level. */
void cli_measure_peaks(int threads, int32_t level, cli_peaks *out);

/* ---- logprobs.c ----------------------------------------------------------------------------- */

/* JSON lines on stdout: for each of n ids its probability at its position, with the k most likely ones there (k -1 = no
 * lines), and the `next` most likely tokens after them. Says why and returns 0 on failure. */
int cli_logprobs(const char *command, const infer_model *model, infer_session *session, const infer_token *ids, size_t n,
                 int32_t k, int32_t next);

/* ---- chat_file.c ---------------------------------------------------------------------------- */

/* `infer chat --session FILE`. Functions return 0 after saying what is wrong. */
typedef struct chat_file {
    const char *path;
    char *state; /* path.state */
    infer_session_mark mark;
} chat_file;
/* *messages: the n bytes of existing messages, each a line of JSON and its end; the caller's. */
int chat_file_open(chat_file *f, const char *path, char **messages, size_t *n);
int chat_file_add(chat_file *f, const char *messages, size_t n);     /* lines, to the end */
int chat_file_replace(chat_file *f, const char *messages, size_t n); /* lines, in place of all */
void chat_file_forget(chat_file *f); /* the state is no longer valid */
int chat_file_load(chat_file *f, infer_session *session);
int chat_file_save(chat_file *f, infer_session *session);
void chat_file_close(chat_file *f);

/* ---- terminal.c ----------------------------------------------------------------------------- */

/* EDIT: keys are read one by one, Ctrl-C too. REPLY: no echo, Ctrl-C interrupts. USUAL: the initial state, which is
 * restored at exit. Returns 0 when stdin is no terminal. */
enum { TERMINAL_USUAL, TERMINAL_REPLY, TERMINAL_EDIT };
int terminal_mode(int mode);
void terminal_size(int *columns, int *rows);
/* The next byte, or one of these. milliseconds: how long to wait for it, -1 = until it comes. */
enum { TERMINAL_NOTHING = -1, TERMINAL_END = -2, TERMINAL_RESIZED = -3 };
int terminal_read(int milliseconds);

/* ---- char_width.c --------------------------------------------------------------------------- */

int cli_char_width(uint32_t c); /* columns in a terminal: 0, 1 or 2 */

/* ---- edit.c --------------------------------------------------------------------------------- */

/* Lines of input: with editing and history in a terminal, unprocessed elsewhere. */
typedef struct cli_editor cli_editor;
cli_editor *cli_editor_open(int styles); /* NULL after saying why */
enum { CLI_LINE, CLI_LINE_END, CLI_LINE_CLEARED }; /* a line; the end of input (Ctrl-D); Ctrl-C */
/* Reads a line, without its end, to *line of *n bytes, valid until the next call. */
int cli_edit(cli_editor *e, const char *prompt, const char **line, size_t *n);
int cli_edit_failed(const cli_editor *e); /* memory ran out */
void cli_editor_close(cli_editor *e);     /* the terminal is as before; e may be NULL */

/* ---- platform.c ----------------------------------------------------------------------------- */

/* UTF-8 arguments and binary standard streams on systems without them. */
void platform_init(int *argc, char ***argv);
FILE *platform_fopen(const char *path, const char *mode);
/* What can be read now, at most n bytes (below 2^31), waiting for the first; 0 = the end, -1 = failed. Not together with stdio's functions. */
long platform_read(FILE *file, void *to, size_t n);
void platform_remove(const char *path);
int platform_cut(const char *path, uint64_t size); /* truncates a file to this length; 0 = failed */
int platform_rename(const char *from, const char *to); /* replaces an existing file; 0 = failed */
int platform_seek(FILE *file, uint64_t at);    /* from the start; 0 = failed */
int platform_size(FILE *file, uint64_t *size); /* bytes, and back to the start; 0 = it cannot be told */
/* What a path names, links followed. OTHER: a device, a pipe and the like. */
enum { PLATFORM_ABSENT, PLATFORM_FILE, PLATFORM_FOLDER, PLATFORM_OTHER };
int platform_path_kind(const char *path);
/* "HOME/.cache/infer" or the system's equivalent, created if missing; 0 when there is none. */
int platform_cache_folder(char *out, size_t cap);
long platform_process(void);
/* Do the two paths name one file? 0 also when one does not exist. */
int platform_same_file(const char *a, const char *b);
int platform_is_terminal(FILE *file);
int platform_escapes(FILE *file); /* 1 = escape sequences work there */
int platform_styles(FILE *file);  /* 1 = so do bold and dimmed text, and the user has not set NO_COLOR */
int platform_same_stream(FILE *a, FILE *b); /* 1 = the same terminal or file */
enum { PLATFORM_PATH = 4096 };
/* Calls each for the entries of a folder, links followed, until it returns 0. Returns 0 when there is no such folder. */
int platform_list(const char *folder, int (*each)(void *user, const char *name, int is_folder, uint64_t bytes), void *user);
/* Ctrl-C calls f, in a signal handler or on a thread of its own, and ends nothing. */
void platform_on_interrupt(void (*f)(void));
int platform_cores(void);
double platform_clock(void);       /* seconds, monotonic */
double platform_cpu_seconds(void); /* CPU time of the whole process */
uint64_t platform_peak_rss(void);  /* bytes; 0 = unknown */
/* Run f(arg, i) for i in 0..n-1, each on a thread of its own. Returns 0 when a thread could not be started. */
int platform_run_threads(int n, void (*f)(void *arg, int i), void *arg);

/* How long each thread of the process has run, and has waited for a core while runnable, so far. */
enum { PLATFORM_MAX_THREADS = 1024 };
typedef struct platform_thread {
    long id;
    double ran, waited; /* seconds */
} platform_thread;
/* Returns the number of threads, 0 where the system does not report it. */
int platform_threads(platform_thread *out, int cap);

/* The model of --draft, with a session; path NULL = none. Returns 0 after saying what is wrong. */
typedef struct cli_drafter { infer_model *model; infer_context *context; infer_session *session; } cli_drafter;
int cli_drafter_open(const char *command, cli_drafter *d, const char *path, const cli_common *common,
                     const infer_context_params *params, int32_t cells);
void cli_drafter_close(cli_drafter *d);

double cli_median(double *x, int32_t n); /* bench.c: sorts x */

/* bench_draft.c: `infer bench --lookup|--draft|--mtp`. Returns 0 after saying what is wrong. */
typedef struct bench_draft {
    infer_session *session, *draft; /* draft: NULL = none */
    infer_session *plain;           /* the baseline that drafts are compared with: session, or one of a model without
                                     * such a block */
    const infer_token *ids;         /* n_ids: the prompt */
    int32_t n_ids, fresh, rounds;
    int lookup, mtp, json;
} bench_draft;
int bench_drafts(const bench_draft *b);

/* bench_queue.c: `infer bench --requests`. Returns 0 after saying what is wrong. */
typedef struct bench_queue {
    infer_model *model;
    infer_context_params context;
    int32_t tokens, fresh, vocab, rounds; /* of each request: of its prompt, generated */
    const int32_t *counts; /* n_counts: of requests */
    int32_t n_counts, queues; /* queues: that share the requests, each in a thread of its own; 0 = one, in this thread */
    int json;
} bench_queue;
int bench_requests(const bench_queue *b);

#endif
