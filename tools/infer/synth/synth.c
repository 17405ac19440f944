/* synth.c: `infer synth`, models with random weights in the shape of real ones: for speed and memory measurements
 * without a download. The same shape, type and seed give the same file everywhere.
 *
 * Matrices get values of mean 0 and standard deviation 1/sqrt(row length), so that activations neither vanish nor
 * explode; norm weights are near 1. Tensors are written as they are made: a 5 GB file needs a megabyte of memory. */
#include "../files/files.h"
#include "synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct writer {
    gguf_out *out;
    const synth_shape *s;
    int type;
    int announcing; /* two passes over the tensors: announced, then written */
    const char *empty; /* the first tensor without values */
    uint64_t seed, index, total;
    cli_progress bar;
} writer;

static double rope_divisor(const synth_shape *s, uint64_t i) {
    /* Llama 3.1's rule: wavelengths above 8192 are divided by the factor, below 2048 kept, mixed between. */
    double pi = 3.14159265358979323846, factor = synth_get(s, "rope_factor");
    double wave = 2 * pi * pow(synth_get(s, "rope_base"), 2.0 * (double)i / synth_get(s, "head_dim")), smooth;
    if (wave < 8192 / 4.0) return 1;
    if (wave > 8192) return factor;
    smooth = (8192 / wave - 1) / (4 - 1.0);
    return 1 / ((1 - smooth) / factor + smooth);
}

static void write_values(writer *w, int kind, int type, const uint64_t *dims, uint64_t blocks) {
    enum { BUFFER = 1 << 16 };
    unsigned char buffer[BUFFER];
    uint64_t i, state = w->seed * 0x632BE59BD9B4E019u + w->index * 0x9E6C63D0876A9A35u;
    size_t n = 0, bytes = synth_types[type].bytes;
    int plain = kind == SYNTH_NORM || kind == SYNTH_MINUS;
    double mean = kind == SYNTH_NORM ? 1 : kind == SYNTH_MINUS ? -1 : 0;
    double deviation = plain ? 0.1 : kind == SYNTH_BIAS ? 0.02 : 1 / sqrt((double)dims[0]);
    for (i = 0; i < blocks && !w->out->failed; i++) {
        if (kind == SYNTH_ROPE_FREQS)
            synth_block(buffer + n, type, rope_divisor(w->s, i), 0, &state);
        else
            synth_block(buffer + n, type, mean, deviation, &state);
        n += bytes;
        if (n + bytes > BUFFER || i + 1 == blocks) {
            gguf_data(w->out, buffer, n);
            n = 0;
            if (cli_run_interrupted()) return;
            cli_progress_show(&w->bar, (float)((double)w->out->written / (double)w->total));
        }
    }
    gguf_pad(w->out);
}

/* Of attention's values and of what leaves the feed-forward part: mixtures give more bits to those of the first and last eighth
 * of the layers, and every third between (as llama.cpp's do). */
static int more_bits(const writer *w, int64_t l) {
    int64_t n = (int64_t)synth_get(w->s, "layers"), eighth = n / 8;
    return l < eighth || l >= 7 * n / 8 || (l - eighth) % 3 == 2;
}

/* The type of a tensor's values. */
static int type_of(const writer *w, const synth_tensor *t, int64_t layer) {
    int type = T_F32, more = t->kind == SYNTH_MORE || (t->kind == SYNTH_MIXED && more_bits(w, layer)) ||
                             (t->kind == SYNTH_EMBED && synth_get(w->s, "tied") > 0);
    if (t->kind <= SYNTH_EMBED) type = w->type == T_MXFP4 ? t->dims[2] ? T_MXFP4 : T_Q8_0 : more ? synth_types[w->type].more : w->type;
    return type;
}

static void tensor(writer *w, const synth_tensor *t, int64_t layer) {
    char full[64];
    uint64_t dims[4], blocks = 1;
    int type = type_of(w, t, layer), n_dims, i;
    for (n_dims = 0; n_dims < 4 && t->dims[n_dims]; n_dims++) {
        double x = synth_value(w->s, t->dims[n_dims], layer);
        if (!(x >= 1)) {
            if (!w->empty) w->empty = t->name;
            return;
        }
        dims[n_dims] = (uint64_t)x;
    }
    if (layer >= 0)
        snprintf(full, sizeof full, "blk.%ld.%s", (long)layer, t->name);
    else
        snprintf(full, sizeof full, "%s", t->name);
    if (dims[0] % synth_types[type].values != 0) type = T_F16; /* rows that are not whole blocks */
    for (i = 1; i < n_dims; i++) blocks *= dims[i];
    blocks *= dims[0] / synth_types[type].values;
    if (w->announcing)
        gguf_tensor(w->out, full, synth_types[type].id, n_dims, dims, blocks * synth_types[type].bytes);
    else if (!cli_run_interrupted())
        write_values(w, t->kind, type, dims, blocks);
    w->index++;
}

static void tensors(writer *w, const synth_tensor *t, int64_t layer) {
    for (; t->name; t++) {
        if (!t->when || synth_value(w->s, t->when, layer) != 0) tensor(w, t, layer);
    }
}

static void all_tensors(writer *w) {
    const synth_family *f = w->s->family;
    int64_t l, n = (int64_t)synth_get(w->s, "layers");
    int i;
    w->index = 0;
    tensors(w, f->front, -1);
    for (l = 0; l < n; l++) {
        for (i = 0; i < SYNTH_LAYER_LISTS && f->layer[i]; i++) tensors(w, f->layer[i], l);
    }
    tensors(w, f->back, -1);
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Piece number i after the special and byte tokens: the printable ASCII characters and the word mark U+2581, then
 * a..z strings of two letters and more, every other one with the mark in front. */
static void piece(int64_t i, char *out) {
    const int64_t n_single = 95;
    int64_t k, length, count = 26 * 26;
    out[0] = 0;
    if (i < n_single) {
        if (i == 0)
            strcpy(out, "\xE2\x96\x81");
        else
            snprintf(out, 16, "%c", (char)(' ' + i));
        return;
    }
    k = (i - n_single) / 2;
    for (length = 2; k >= count; length++) {
        k -= count;
        count *= 26;
    }
    if ((i - n_single) % 2) strcpy(out, "\xE2\x96\x81");
    out += strlen(out);
    out[length] = 0;
    while (length > 0) {
        out[--length] = (char)('a' + k % 26);
        k /= 26;
    }
}

/* A SentencePiece-like vocabulary of the right size; "none" when the size leaves no room for it. */
static void put_vocabulary(gguf_out *g, int64_t n) {
    const int64_t first = 3 + 256; /* unknown, begin, end, bytes */
    int64_t i;
    char text[48];
    if (n < first + 96) {
        gguf_string(g, "tokenizer.ggml.model", "none");
        return;
    }
    gguf_string(g, "tokenizer.ggml.model", "llama");
    gguf_string(g, "tokenizer.ggml.pre", "default");
    gguf_array(g, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)n);
    for (i = 0; i < n; i++) {
        if (i < 3)
            snprintf(text, sizeof text, "%s", i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>");
        else if (i < first)
            snprintf(text, sizeof text, "<0x%02X>", (int)(i - 3));
        else
            piece(i - first, text);
        gguf_element_string(g, text);
    }
    gguf_array(g, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)n);
    for (i = 0; i < n; i++) gguf_element_f32(g, i < first ? 0 : (double)(first - i));
    gguf_array(g, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)n);
    for (i = 0; i < n; i++) gguf_element_i32(g, i == 0 ? 2 : i < 3 ? 3 : i < first ? 6 : 1);
    gguf_u32(g, "tokenizer.ggml.bos_token_id", 1);
    gguf_u32(g, "tokenizer.ggml.eos_token_id", 2);
    gguf_u32(g, "tokenizer.ggml.unknown_token_id", 0);
    gguf_bool(g, "tokenizer.ggml.add_bos_token", 1);
}

/* An array with an element for each layer, or the numbers of a list. */
static void put_array(gguf_out *g, const synth_shape *s, const synth_key *k, const char *name) {
    int64_t n = (int64_t)synth_get(s, "layers"), l;
    const char *at = k->value;
    char *end;
    if (k->type == 'I') {
        for (n = 1; *at; at++) n += *at == ' ';
        gguf_array(g, name, GGUF_I32, (uint64_t)n);
        for (at = k->value; *at; at = end) gguf_element_i32(g, (int32_t)strtol(at, &end, 10));
        return;
    }
    gguf_array(g, name, k->type == 'F' ? GGUF_F32 : k->type == 'B' ? GGUF_BOOL : GGUF_U32, (uint64_t)n);
    for (l = 0; l < n; l++) {
        double x = synth_value(s, k->value, l);
        if (k->type == 'F') gguf_element_f32(g, x);
        else if (k->type == 'B') gguf_element_bool(g, x != 0);
        else gguf_element_i32(g, (int32_t)x);
    }
}

static void put_key(gguf_out *g, const synth_shape *s, const synth_key *k) {
    char name[96];
    if (k->when && synth_value(s, k->when, 0) == 0) return;
    if (strncmp(k->key, "tokenizer.", 10) == 0) snprintf(name, sizeof name, "%s", k->key);
    else snprintf(name, sizeof name, "%s.%s", s->family->arch, k->key);
    if (k->type == 's') gguf_string(g, name, k->value);
    else if (k->type == 'u') gguf_u32(g, name, (uint32_t)synth_value(s, k->value, 0));
    else if (k->type == 'f') gguf_f32(g, name, synth_value(s, k->value, 0));
    else if (k->type == 'b') gguf_bool(g, name, synth_value(s, k->value, 0) != 0);
    else put_array(g, s, k, name);
}

static void put_metadata(writer *w, uint64_t seed) {
    const synth_shape *s = w->s;
    gguf_out *g = w->out;
    const synth_key *k;
    char text[96];
    int i;
    gguf_string(g, "general.architecture", s->family->arch);
    snprintf(text, sizeof text, "synthetic %s, seed %llu", s->name, (unsigned long long)seed);
    gguf_string(g, "general.name", text);
    gguf_u32(g, "general.file_type", synth_types[w->type].file_type);
    gguf_u32(g, "general.quantization_version", 2);
    for (i = 0; i < SYNTH_KEY_LISTS && s->family->keys[i]; i++) {
        for (k = s->family->keys[i]; k->key; k++) put_key(g, s, k);
    }
    put_vocabulary(g, (int64_t)synth_get(s, "vocab"));
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_list(void) {
    int i;
    synth_list_shapes();
    printf("\ntypes:");
    for (i = 0; i < SYNTH_TYPES; i++) printf(" %s", synth_types[i].name);
    printf("\n");
}

static int find_type(const char *name) {
    int i, k;
    for (i = 0; i < SYNTH_TYPES; i++) {
        for (k = 0; synth_types[i].name[k]; k++) {
            char c = name[k] >= 'A' && name[k] <= 'Z' ? (char)(name[k] - 'A' + 'a') : name[k];
            if (c != synth_types[i].name[k]) break;
        }
        if (synth_types[i].name[k] == 0 && name[k] == 0) return i;
    }
    return -1;
}

/* Exit status. */
static int write_model(const synth_shape *s, int type, uint64_t seed, const char *path) {
    writer w;
    out_file file;
    int status;
    char text[32];
    cli_catch_interrupts();
    if (!out_open(&file, "synth", path)) return CLI_FAILED;
    memset(&w, 0, sizeof w);
    w.out = &file.out;
    w.s = s;
    w.type = type;
    w.seed = seed + 1;
    put_metadata(&w, seed);
    w.announcing = 1;
    all_tensors(&w);
    w.announcing = 0;
    if (w.empty) status = cli_usage_error("synth", "the shape leaves no values for %s", w.empty);
    else {
        w.total = w.out->data_n;
        cli_progress_begin(&w.bar, "writing");
        gguf_begin(w.out);
        all_tensors(&w);
        cli_progress_end(&w.bar);
        status = cli_run_interrupted() ? CLI_INTERRUPTED : out_close(&file) && out_rename(&file) ? CLI_DONE : CLI_FAILED;
    }
    if (status == CLI_DONE) fprintf(stderr, "%s: %.0f tensors, %s\n", path, (double)w.out->n_tensors, cli_bytes_text((double)w.total, text));
    out_free(&file, status == CLI_DONE);
    return status;
}

int cmd_synth(int argc, char **argv) {
    const char *args[3];
    int list = 0, status, type;
    const cli_option options[] = {
        {"--list", OPT_FLAG, &list, NULL, "list the shapes, types and keys", 0, 0},
    };
    const cli_spec spec = {"synth",
                           "SHAPE TYPE OUT",
                           "Write a model with random weights. SHAPE is a name from --list, or key=value,... or both:\n"
                           "llama3.2-1b,layers=2. The same shape, type and seed (default 0) give the same file.\n",
                           options,
                           1,
                           TAKES_SEED,
                           0,
                           3};
    cli_common common;
    synth_shape s;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (list) {
        print_list();
        return CLI_DONE;
    }
    if (args[2] == NULL) return cli_usage_error("synth", "usage: infer synth SHAPE TYPE OUT");
    type = find_type(args[1]);
    if (type < 0) return cli_usage_error("synth", "unknown type '%s' (--list shows them)", args[1]);
    if (!synth_parse(args[0], &s)) return CLI_USAGE;
    return write_model(&s, type, (uint64_t)common.seed, args[2]);
}
