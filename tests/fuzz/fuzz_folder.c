/* fuzz_folder.c: libFuzzer target for Hugging Face folders, which `infer convert` and every command that takes a model read. The program's
 * files are linked with it (tests/all.py, fuzz_sources):
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DINFER_QUIET -I. -Itests tests/fuzz/fuzz_folder.c PROGRAM'S FILES -o fuzz_folder -lm
 *     ./fuzz_folder tests/fuzz/corpus_folder
 *
 * The first byte chooses the file that the rest is (FUZZ_FILES; of safetensors the header), the other files are a small model that is in
 * order. Always: what is refused says so on one line; of what opens all keys and tensors are read; everything is given back. */
#define INFER_IMPLEMENTATION
#define INFER_NO_SIMD
#define INFER_NO_GPU
#include "infer.h"
#include "fuzz.h"
#include "tools/infer/convert/convert.h"
#include <sys/stat.h>
#include <unistd.h>

enum { FUZZ_DATA = 4096, FUZZ_PIECE = 512 };
enum { CONFIG, TOKENIZER, TOKENIZER_CONFIG, TENSORS, SENTENCES, ADAPTER, ADAPTER_TENSORS, N_FILES };
static const char *const FUZZ_FILES[N_FILES] = {"config.json",     "tokenizer.json",      "tokenizer_config.json",    "model.safetensors",
                                                "tokenizer.model", "adapter_config.json", "adapter_model.safetensors"};
static const char *const FUZZ_TEXTS[N_FILES] = {
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 8, \"intermediate_size\": 8, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 4, \"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-05, "
    "\"rope_theta\": 10000.0, \"hidden_act\": \"silu\", \"tie_word_embeddings\": true, \"vocab_size\": 6, \"bos_token_id\": 0, \"eos_token_id\": 1}",
    "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true}, {\"id\": 1, \"content\": \"</s>\", \"special\": true}], "
    "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}, \"decoder\": {\"type\": \"ByteLevel\"}, "
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"<s>\": 0, \"</s>\": 1, \"a\": 2, \"b\": 3, \"ab\": 4, \"c\": 5}, \"merges\": [[\"a\", \"b\"]]}}",
    "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_bos_token\": false, \"chat_template\": \"{{ messages }}\"}",
    NULL,
    NULL,
    "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"target_modules\": [\"q_proj\"], \"task_type\": \"CAUSAL_LM\", \"bias\": \"none\"}",
    NULL};
/* Tensors of the model, and of the adapter. */
static const struct { const char *name; int rows, cols; } FUZZ_TENSORS[] = {
    {"model.embed_tokens.weight", 6, 8}, {"model.norm.weight", 0, 8}, {"model.layers.0.input_layernorm.weight", 0, 8},
    {"model.layers.0.post_attention_layernorm.weight", 0, 8}, {"model.layers.0.self_attn.q_proj.weight", 8, 8},
    {"model.layers.0.self_attn.k_proj.weight", 4, 8}, {"model.layers.0.self_attn.v_proj.weight", 4, 8},
    {"model.layers.0.self_attn.o_proj.weight", 8, 8}, {"model.layers.0.mlp.gate_proj.weight", 8, 8}, {"model.layers.0.mlp.up_proj.weight", 8, 8},
    {"model.layers.0.mlp.down_proj.weight", 8, 8}, {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 2, 8},
    {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 8, 2}};
enum { N_TENSORS = 13, N_OWN = 11 };

static char fuzz_base[64], fuzz_work[64]; /* a folder that stays in order, and the one that is changed */

/* The bytes of data that a header speaks of: there must be neither more nor fewer. */
static size_t fuzz_data(const char *header, size_t n) {
    static const char WORD[] = "\"data_offsets\": [";
    size_t most = 0, i, value;
    for (i = 0; i + sizeof WORD < n; i++) {
        if (memcmp(header + i, WORD, sizeof WORD - 1) != 0) continue;
        while (i < n && header[i] != ',' && header[i] != ']') i++;
        for (i += 2, value = 0; i < n && header[i] >= '0' && header[i] <= '9' && value < FUZZ_DATA; i++) value = 10 * value + (size_t)(header[i] - '0');
        if (value > most) most = value;
    }
    return INFER__MIN(most, FUZZ_DATA);
}

static void fuzz_write(const char *folder, int file, const void *data, size_t n) {
    static const uint8_t zeros[FUZZ_DATA];
    const int header = file == TENSORS || file == ADAPTER_TENSORS;
    const size_t values = header ? fuzz_data((const char *)data, n) : 0;
    uint8_t length[8];
    char path[128];
    FILE *f;
    int i;
    snprintf(path, sizeof path, "%s/%s", folder, FUZZ_FILES[file]);
    for (i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)n >> 8 * i);
    f = fopen(path, "wb");
    if (!f || (header && fwrite(length, 8, 1, f) != 1) || (n > 0 && fwrite(data, n, 1, f) != 1) || (values > 0 && fwrite(zeros, values, 1, f) != 1) ||
        fclose(f) != 0)
        fuzz_stop("a file could not be written");
}

/* The header of a file of tensors first .. end-1, F32 one after the other. */
static size_t fuzz_header(char *text, size_t size, int first, int end) {
    size_t n = 0;
    int i, at = 0;
    for (i = first; i < end; i++) {
        const int rows = FUZZ_TENSORS[i].rows, cols = FUZZ_TENSORS[i].cols, bytes = (rows ? rows : 1) * cols * 4;
        char dims[32];
        snprintf(dims, sizeof dims, rows ? "%d, %d" : "%.0d%d", rows, cols);
        n += (size_t)snprintf(text + n, size - n, "%c\"%s\": {\"dtype\": \"F32\", \"shape\": [%s], \"data_offsets\": [%d, %d]}", i == first ? '{' : ',',
                              FUZZ_TENSORS[i].name, dims, at, at + bytes);
        at += bytes;
    }
    return n + (size_t)snprintf(text + n, size - n, "}");
}

static void fuzz_model_files(const char *folder) {
    char text[4096];
    int i;
    for (i = 0; i < TENSORS; i++) fuzz_write(folder, i, FUZZ_TEXTS[i], strlen(FUZZ_TEXTS[i]));
    fuzz_write(folder, TENSORS, text, fuzz_header(text, sizeof text, 0, N_OWN));
}

static void fuzz_remove(const char *folder) {
    char path[128];
    int i;
    for (i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, FUZZ_FILES[i]);
        remove(path);
    }
}

static void fuzz_end(void) {
    fuzz_remove(fuzz_base);
    fuzz_remove(fuzz_work);
    rmdir(fuzz_base);
    rmdir(fuzz_work);
}

/* Read all that the model has. */
static int fuzz_values(file_model *m) {
    static uint8_t piece[FUZZ_PIECE];
    size_t i;
    uint64_t at;
    for (i = 0; i < m->n_tensors; i++)
        for (at = 0; at < m->tensors[i].bytes; at += FUZZ_PIECE)
            if (!file_read(m, &m->tensors[i], at, piece, (size_t)INFER__MIN(m->tensors[i].bytes - at, FUZZ_PIECE))) return 0;
    return 1;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    file_model m;
    (void)argc;
    (void)argv;
    snprintf(fuzz_base, sizeof fuzz_base, "%s/fuzz_folder_%ld_base", in, (long)getpid());
    snprintf(fuzz_work, sizeof fuzz_work, "%s/fuzz_folder_%ld", in, (long)getpid());
    if (mkdir(fuzz_base, 0700) || mkdir(fuzz_work, 0700)) fuzz_stop("no folders");
    fuzz_model_files(fuzz_base);
    atexit(fuzz_end);
    memset(&m, 0, sizeof m);
    if (!file_open(&m, "fuzz", fuzz_base) || !fuzz_values(&m)) fuzz_stop("the model that is in order is refused");
    file_close(&m);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = {data, size};
    const int file = (int)fuzz_below(&in, N_FILES);
    FILE *errors = stderr;
    file_model m;
    char text[4096], *said = NULL, *line;
    size_t n_said = 0;
    int ok;
    memset(&m, 0, sizeof m);
    fuzz_remove(fuzz_work);
    if (file < ADAPTER) fuzz_model_files(fuzz_work);
    else {
        fuzz_write(fuzz_work, ADAPTER, FUZZ_TEXTS[ADAPTER], strlen(FUZZ_TEXTS[ADAPTER]));
        fuzz_write(fuzz_work, ADAPTER_TENSORS, text, fuzz_header(text, sizeof text, N_OWN, N_TENSORS));
    }
    if (file == SENTENCES) { /* a tokenizer.json would be read instead */
        snprintf(text, sizeof text, "%s/%s", fuzz_work, FUZZ_FILES[TOKENIZER]);
        remove(text);
    }
    fuzz_write(fuzz_work, file, in.p, in.n);
    stderr = open_memstream(&said, &n_said);
    if (!stderr) return 0;
    ok = file_open_with(&m, "fuzz", fuzz_work, NULL, file >= ADAPTER ? fuzz_base : NULL) && fuzz_values(&m);
    file_close(&m);
    fclose(stderr);
    stderr = errors;
    line = said;
    while (line && strncmp(line, "warning: ", 9) == 0 && strchr(line, '\n')) line = strchr(line, '\n') + 1;
    if (!ok && (!line || !*line)) fuzz_stop("a refusal without a message");
    if (ok && line && *line) fuzz_stop("a message without a refusal");
    if (!ok && strchr(line, '\n') != line + strlen(line) - 1) fuzz_stop(said);
    free(said);
    return 0;
}
