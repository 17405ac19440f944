/* options.c: the options that commands share, and options of other programs that users type out of habit.
 *
 * A name's spellings are separated by commas; those after a | work but are not shown. A row without a help text is
 * not shown at all. */
#include "cli.h"

#include <stddef.h>

static const char BACKENDS[] = "auto|cpu|cuda|hip|opencl|metal"; /* in the order of infer_backend */
static const char KV[] = "default|f32|f16|bf16|q8_0|q4_0";       /* in the order of infer_kv_type */

/* A row of the table: `at` is the offset of its field in cli_common. */
typedef struct shared_row {
    int takes;
    const char *name;
    int kind;
    size_t at;
    const char *arg, *help;
    int64_t lo, hi;
} shared_row;

#define AT(field) offsetof(cli_common, field)
static const shared_row ROWS[] = {
    {TAKES_COMPUTE, "-t,--threads", OPT_INT, AT(threads), "N", "threads (default: one per core)", 1, 64},
    {TAKES_COMPUTE, "--exact", OPT_FLAG, AT(exact), NULL, "keep activations in F32: slower, the reference result", 0, 0},
    {TAKES_COMPUTE, "--cpu-level", OPT_STRING, AT(cpu_level), "LEVEL",
     "newest instructions to use, as `infer devices` names them", 0, 0},
    {TAKES_COMPUTE, "--preload", OPT_FLAG, AT(preload), NULL, "read all weights before starting", 0, 0},
    {TAKES_COMPUTE, "--lock,--mlock", OPT_FLAG, AT(lock), NULL, "preload, and keep the weights from being swapped out", 0, 0},
    {TAKES_COMPUTE, "--no-mmap", OPT_FLAG, AT(no_mmap), NULL, "read the file into memory instead of mapping it", 0, 0},
    {TAKES_DEVICE, "--backend", OPT_CHOICE, AT(backend), BACKENDS, "where to compute", 0, 0},
    {TAKES_DEVICE, "--device", OPT_INT, AT(device), "N", "device to use, as `infer devices` numbers them; 0 = the CPU", 0, 1000},
    {TAKES_DEVICE, "--devices", OPT_STRING, AT(devices), "N,N,..", "several devices of one backend, in this order", 0, 0},
    {TAKES_DEVICE, "--shares", OPT_STRING, AT(shares), "X,X,..",
     "how --devices split the layers (default: by free memory)", 0, 0},
    {TAKES_DEVICE, "-ngl,--gpu-layers|--n-gpu-layers", OPT_LAYERS, AT(gpu_layers), "N",
     "layers on the GPU: a number (0 = none), all, none or auto (default: auto, as many as fit)", 0, 1000000},
    {TAKES_DEVICE, "--gpu-unchecked", OPT_FLAG, AT(gpu_unchecked), NULL,
     "skip the check of the GPU's kernels against the CPU", 0, 0},
    {TAKES_DEVICE, "--kernel-cache", OPT_STRING, AT(kernel_cache), "DIR",
     "keep compiled GPU kernels there (default: the user's cache folder; '' = nowhere)", 0, 0},
    {TAKES_CONTEXT, "-c,--ctx|--ctx-size", OPT_INT, AT(ctx), "N",
     "context size in tokens; 0 = what the model was trained for (default: that, up to 4096)", 0, INT32_MAX},
    {TAKES_CONTEXT, "-b,--batch|--batch-size,-ub,--ubatch-size", OPT_INT, AT(batch), "N",
     "prompt tokens per pass (default 512)", 1, 1 << 20},
    {TAKES_CONTEXT, "--kv", OPT_CHOICE, AT(kv), KV, "type of the KV cache (default: f16)", 0, 0},
    {TAKES_CONTEXT, "-ctk,--cache-type-k", OPT_CHOICE, AT(kv_keys), KV, NULL, 0, 0},
    {TAKES_CONTEXT, "-ctv,--cache-type-v", OPT_CHOICE, AT(kv_values), KV, NULL, 0, 0},
    {TAKES_ADAPTERS, "--lora", OPT_LIST, AT(loras), "FILE[=SCALE]", "apply this LoRA adapter (GGUF, or a folder of PEFT's); may be repeated", 0, 0},
    {TAKES_ADAPTERS, "--merge", OPT_FLAG, AT(merge), NULL,
     "merge --lora into the weights: takes memory, but no time per token", 0, 0},
    {TAKES_ADAPTERS, "--control|--control-vector", OPT_LIST, AT(controls), "FILE[=SCALE][,FIRST-LAST]",
     "apply this control vector to these layers; may be repeated", 0, 0},
    {TAKES_MEDIA, "--image,--audio|--media", OPT_LIST, AT(media), "FILE", "a picture (PNG, JPEG, PPM) or sound (WAV); may be repeated", 0, 0},
    {TAKES_PROJECTOR, "--projector,--mmproj|-mm", OPT_STRING, AT(projector), "FILE",
     "the model's encoders of pictures and sound (default: the only *mmproj*.gguf beside the model, with --image, and in `serve`)", 0, 0},
    {TAKES_MEDIA | TAKES_PROJECTOR, "--image-min-tokens|--min", OPT_INT, AT(image_min), "N", "tokens of a picture at least, where its size decides", 1, 1 << 20},
    {TAKES_MEDIA | TAKES_PROJECTOR, "--image-max-tokens|--max", OPT_INT, AT(image_max), "N", "and at most (default: as the projector says)", 1, 1 << 20},
    {TAKES_SEED, "-s,--seed", OPT_INT, AT(seed), "N", "random seed; -1 = a new one every time", -1, INT64_MAX},
    {TAKES_MODEL, "-m,--model", OPT_STRING, AT(model), "FILE", "the model, in place of the word MODEL", 0, 0},
    {TAKES_MODEL, "--pre", OPT_STRING, AT(pre), "NAME", "pre-tokenizer to use instead of the file's", 0, 0},
    {TAKES_MODEL, "--allow-unknown", OPT_FLAG, AT(allow_unknown), NULL,
     "ignore unrecognised metadata and tensors", 0, 0},
    {TAKES_MODEL, "--max-memory", OPT_SIZE, AT(max_memory), "SIZE", "fail rather than use more memory: 500M, 1.5G", 1, INT64_MAX},
    {TAKES_MODEL, "-v,--verbose|--log-verbose", OPT_FLAG, AT(verbose), NULL, "log to stderr", 0, 0},
    {TAKES_REPORT, "--report", OPT_STRING, AT(report), "FILE", "write plots and tables to a page FILE.html, or the plots to FILE.svg", 0, 0},
    {TAKES_JSON, "--json", OPT_FLAG, AT(json), NULL, "machine-readable result on stdout", 0, 0},
};
enum { N_ROWS = (int)(sizeof ROWS / sizeof ROWS[0]) };
typedef char rows_fit[(int)N_ROWS + CLI_SAMPLING_OPTIONS <= (int)CLI_MAX_SHARED ? 1 : -1];

int cli_shared_options(int takes, cli_common *c, cli_option *out, int *group) {
    int n = 0, i, k;
    if (takes & TAKES_SAMPLING) {
        n = cli_sampling_options(&c->sampling, out);
        for (i = 0; i < n; i++) group[i] = TAKES_SAMPLING;
    }
    for (k = 0; k < N_ROWS; k++) {
        const shared_row *r = &ROWS[k];
        if (!(takes & r->takes)) continue;
        out[n].name = r->name;
        out[n].kind = r->kind;
        out[n].value = (char *)c + r->at;
        out[n].arg = r->arg;
        out[n].help = r->help;
        out[n].lo = r->lo;
        out[n].hi = r->hi;
        group[n++] = r->takes;
    }
    return n;
}

/* ---- habits --------------------------------------------------------------------------------- */

static const cli_habit HABITS[] = {
    {"-fa,--flash-attn", HABIT_SWITCH, "attention is always computed that way"},
    {"--warmup,--no-warmup", HABIT_FLAG, "there is no warm-up"},
    {"--mmap", HABIT_FLAG, "files are mapped by default"},
    {"--jinja", HABIT_FLAG, "chat always renders the model's own template"},
    {"--no-display-prompt,--no-escape,--simple-io,--log-disable,--no-perf,--no-prefill-assistant", HABIT_FLAG, "this is the default here"},
    {"--nowordwrap", HABIT_FLAG, "lines are never wrapped here"},
    {"--no-ppl", HABIT_FLAG, "there is none: see infer perplexity"},
    {"-tb,--threads-batch", HABIT_VALUE, "prompts use the threads of -t"},
    {"-hf,--hf-repo,-hff,--hf-file,-hfr,-mu,--model-url,-dr", HABIT_REFUSED,
     "infer downloads nothing; fetch the file first and pass it with -m (`infer list` shows the files you have)"},
    {"-mg,--main-gpu,-dev", HABIT_REFUSED, "use --device N, as `infer devices` numbers them"},
    {"-ts,--tensor-split", HABIT_REFUSED, "use --devices N,N with --shares X,X"},
    {"-sm,--split-mode", HABIT_REFUSED, "devices always split by layer: see --devices and --shares"},
    {"-ot,--override-tensor,-cmoe,--cpu-moe,-ncmoe,--n-cpu-moe,-nkvo,--no-kv-offload", HABIT_REFUSED,
     "not supported; -ngl N chooses how many layers the GPU gets"},
    {"--numa,-C,--cpu-mask,--prio,--poll", HABIT_REFUSED, "not supported; -t N sets the threads"},
    {"--rope-scaling,--rope-scale,--rope-freq-base,--rope-freq-scale,--yarn-orig-ctx,--yarn-ext-factor", HABIT_REFUSED,
     "not supported; position scaling is what the file says (`infer info` shows it)"},
    {"--override-kv", HABIT_REFUSED, "not supported; metadata is what the file says"},
    {"--keep,--context-shift", HABIT_REFUSED,
     "use run's --on-full slide --keep-first N; chat keeps the system prompt and the latest turns when the context is full"},
    {"--no-context-shift", HABIT_REFUSED, "use --on-full stop, which is run's default"},
    {"--prompt-cache,--prompt-cache-all", HABIT_REFUSED, "not supported; chat has --session FILE"},
    {"--chat-template", HABIT_REFUSED, "use --template FILE (or the template's text), or --chatml"},
    {"--lora-scaled", HABIT_REFUSED, "use --lora FILE=SCALE"},
    {"--control-vector-scaled", HABIT_REFUSED, "use --control FILE=SCALE"},
    {"--control-vector-layer-range", HABIT_REFUSED, "use --control FILE,FIRST-LAST"},
    {"--reasoning-budget", HABIT_REFUSED, "use --think-tokens N, or --thinking off"},
    {"--reasoning-format,--hidethinking", HABIT_REFUSED,
     "not supported; reasoning goes to stderr when stdin is not a terminal"},
    {"--format", HABIT_REFUSED, "use --json-object, or --schema FILE"},
    {"-mli,--multiline-input", HABIT_REFUSED, "not needed; end a line with \\ to go on, or paste the text"},
    {"--in-prefix,--in-suffix,--in-prefix-bos", HABIT_REFUSED, "not supported; the template sets what surrounds a turn"},
    {"--no-mmproj", HABIT_FLAG, "a projector is opened for --projector and --image alone"},
    {"-mmu,--mmproj-url", HABIT_REFUSED, "infer downloads nothing; fetch the file first and pass it with --projector"},
    {"--pure", HABIT_REFUSED, "use --type '*=TYPE', which gives it to all matrices"},
    {"--leave-output-tensor", HABIT_REFUSED, "use --keep output.weight"},
    {"--tensor-type-file", HABIT_REFUSED, "use --type PATTERN=TYPE, once for each line"},
    {"--include-weights,--exclude-weights", HABIT_REFUSED, "not supported; importance is used for all matrices that the file has"},
    {"--kl-divergence", HABIT_FLAG, "--reference FILE asks for it"},
    {"--hellaswag,--winogrande,--multiple-choice", HABIT_REFUSED, "use --choices hellaswag, winogrande or tasks"},
    {"--ppl-stride", HABIT_REFUSED, "not supported; windows do not overlap"},
    {"--save-frequency", HABIT_REFUSED, "use --save-every N, which writes OUT itself"},
    {"--output-format", HABIT_REFUSED, "not supported; files of importance are GGUF"},
    {"--outfile", HABIT_REFUSED, "not needed; OUT is the word after FOLDER"},
    {"--model-name", HABIT_REFUSED, "use `infer edit IN OUT --set general.name=NAME` afterwards"},
    {"--no-lazy,--use-temp-file", HABIT_FLAG, "one matrix at a time is read"},
    {"--keepalive", HABIT_REFUSED, "not needed; the model is loaded for this command only"},
};

const cli_habit *cli_habits(int *n) {
    *n = (int)(sizeof HABITS / sizeof HABITS[0]);
    return HABITS;
}
