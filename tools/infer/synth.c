/* synth.c: `infer synth`, models with random weights in the shape of real ones: for speed and memory measurements
 * without a download. The same shape, type and seed give the same file everywhere.
 *
 * Matrices get values of mean 0 and standard deviation 1/sqrt(row length), so that activations neither vanish nor
 * explode; norm weights lie near 1. Quantised blocks are drawn directly, never quantised from floats. Tensors are
 * written as they are made: a 5 GB file needs a megabyte of memory. */
#include "gguf_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

typedef struct shape {
    const char *name, *arch;
    int64_t layers, width, heads, kv_heads, head_dim, ffn, vocab, context;
    int64_t tied; /* 1 = no output.weight: the embedding is the output matrix */
    int64_t experts, experts_used, expert_ffn, window;
    double rope_base, eps, rope_factor; /* rope_factor: Llama 3's scaling through rope_freqs; 0 = none */
} shape;

/* From the models' published configurations. 0: kv_heads = heads, head_dim = width / heads, expert_ffn = ffn. */
static const shape SHAPES[] = {
    /* name, arch, layers, width, heads, kv, head, ffn, vocab, context, tied, experts, used, expert_ffn, window, base,
     * eps, factor */
    {"stories15m", "llama", 6, 288, 6, 6, 48, 768, 32000, 256, 1, 0, 0, 0, 0, 1e4, 1e-5, 0},
    {"smollm2-135m", "llama", 30, 576, 9, 3, 64, 1536, 49152, 8192, 1, 0, 0, 0, 0, 1e5, 1e-5, 0},
    {"tinyllama-1.1b", "llama", 22, 2048, 32, 4, 64, 5632, 32000, 2048, 0, 0, 0, 0, 0, 1e4, 1e-5, 0},
    {"llama3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 1, 0, 0, 0, 0, 5e5, 1e-5, 32},
    {"llama3.2-3b", "llama", 28, 3072, 24, 8, 128, 8192, 128256, 131072, 1, 0, 0, 0, 0, 5e5, 1e-5, 32},
    {"llama3.1-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072, 0, 0, 0, 0, 0, 5e5, 1e-5, 8},
    {"mixtral-8x7b", "llama", 32, 4096, 32, 8, 128, 14336, 32000, 32768, 0, 8, 2, 0, 0, 1e6, 1e-5, 0},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1, 0, 0, 0, 0, 1e6, 1e-6, 0},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1, 0, 0, 0, 0, 1e6, 1e-6, 0},
    {"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 40960, 1, 0, 0, 0, 0, 1e6, 1e-6, 0},
    {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 40960, 0, 0, 0, 0, 0, 1e6, 1e-6, 0},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 32, 4, 128, 6144, 151936, 40960, 0, 128, 8, 768, 0, 1e6, 1e-6, 0},
    {"olmoe-1b-7b", "olmoe", 16, 2048, 16, 16, 128, 1024, 50304, 4096, 0, 64, 8, 1024, 0, 1e4, 1e-5, 0},
    {"gpt-oss-20b", "gpt-oss", 24, 2880, 64, 8, 64, 2880, 201088, 131072, 0, 32, 4, 2880, 128, 1.5e5, 1e-5, 0},
    {"gemma3-270m", "gemma3", 18, 640, 4, 1, 256, 2048, 262144, 32768, 1, 0, 0, 0, 512, 1e6, 1e-6, 0},
    {"gemma3-1b", "gemma3", 26, 1152, 4, 1, 256, 6912, 262144, 32768, 1, 0, 0, 0, 512, 1e6, 1e-6, 0},
    {"gpt2", "gpt2", 12, 768, 12, 12, 64, 3072, 50257, 1024, 1, 0, 0, 0, 0, 0, 1e-5, 0},
};
enum { N_SHAPES = (int)(sizeof SHAPES / sizeof SHAPES[0]) };
/* Where key=value,... starts from. */
static const shape PLAIN = {"plain", "llama", 2, 64, 4, 0, 0, 128, 512, 256, 0, 0, 0, 0, 0, 1e4, 1e-5, 0};

/* What the layers of an architecture hold beyond the usual. */
enum { QKV_BIAS = 1, QK_NORM = 2, GPT2_LAYER = 4, POST_NORMS = 8, WIDE_QK_NORM = 16, OSS_LAYER = 32 };
typedef struct family {
    const char *arch;
    int features;
} family;
static const family FAMILIES[] = {
    {"llama", 0},
    {"qwen2", QKV_BIAS},
    {"qwen3", QK_NORM},
    {"qwen3moe", QK_NORM},
    {"olmoe", WIDE_QK_NORM},
    {"gpt-oss", QKV_BIAS | OSS_LAYER},
    {"gemma3", QK_NORM | POST_NORMS},
    {"gpt2", GPT2_LAYER},
};
enum { N_FAMILIES = (int)(sizeof FAMILIES / sizeof FAMILIES[0]) };

typedef struct storage {
    const char *name;
    uint32_t id, file_type;
    uint32_t values, bytes; /* per block */
    int more;               /* type of the matrices that a mixture gives more bits */
} storage;
enum { T_F32, T_F16, T_BF16, T_Q8_0, T_Q4_0, T_Q4_K, T_Q6_K, T_Q4_K_M, T_MXFP4, N_STORAGE };
static const storage STORAGE[N_STORAGE] = {
    {"f32", 0, 0, 1, 4, T_F32},
    {"f16", 1, 1, 1, 2, T_F16},
    {"bf16", 30, 32, 1, 2, T_BF16},
    {"q8_0", 8, 7, 32, 34, T_Q8_0},
    {"q4_0", 2, 2, 32, 18, T_Q4_0},
    {"q4_k", 12, 14, 256, 144, T_Q4_K},
    {"q6_k", 14, 18, 256, 210, T_Q6_K},
    {"q4_k_m", 12, 15, 256, 144, T_Q6_K},
    {"mxfp4", 39, 38, 32, 17, T_Q8_0}, /* experts; other matrices are Q8_0 */
};

static int64_t *shape_field(shape *s, const char *key, size_t n) {
    const struct {
        const char *name;
        int64_t *field;
    } fields[] = {
        {"layers", &s->layers},
        {"width", &s->width},
        {"heads", &s->heads},
        {"kv_heads", &s->kv_heads},
        {"head_dim", &s->head_dim},
        {"ffn", &s->ffn},
        {"vocab", &s->vocab},
        {"context", &s->context},
        {"tied", &s->tied},
        {"experts", &s->experts},
        {"experts_used", &s->experts_used},
        {"expert_ffn", &s->expert_ffn},
        {"window", &s->window},
    };
    size_t i;
    for (i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strlen(fields[i].name) == n && memcmp(fields[i].name, key, n) == 0) return fields[i].field;
    }
    return NULL;
}

static const family *find_family(const char *arch, size_t n) {
    int i;
    for (i = 0; i < N_FAMILIES; i++) {
        if (strlen(FAMILIES[i].arch) == n && memcmp(FAMILIES[i].arch, arch, n) == 0) return &FAMILIES[i];
    }
    return NULL;
}

/* One key=value of n bytes. Returns 0 after saying what is wrong. */
static int set_field(shape *s, const char *text, size_t n) {
    const char *equals = memchr(text, '=', n);
    size_t key = equals ? (size_t)(equals - text) : n;
    int64_t *field = equals ? shape_field(s, text, key) : NULL;
    char *end;
    double x;
    if (equals && key == 4 && memcmp(text, "arch", 4) == 0) {
        const family *f = find_family(equals + 1, n - key - 1);
        if (f)
            s->arch = f->arch;
        else
            cli_usage_error("synth", "there is no shape for architecture '%.*s'", (int)(n - key - 1), equals + 1);
        return f != NULL;
    }
    x = equals ? strtod(equals + 1, &end) : 0;
    if (equals == NULL || end != text + n) {
        cli_usage_error("synth", "'%.*s' is neither a shape (--list) nor key=value", (int)n, text);
        return 0;
    }
    if (field && x >= 0 && x <= (1 << 30) && x == (double)(int64_t)x)
        *field = (int64_t)x;
    else if (key == 9 && memcmp(text, "rope_base", 9) == 0 && x > 0)
        s->rope_base = x;
    else if (key == 3 && memcmp(text, "eps", 3) == 0 && x >= 0)
        s->eps = x;
    else if (key == 11 && memcmp(text, "rope_factor", 11) == 0 && x >= 0)
        s->rope_factor = x;
    else {
        cli_usage_error("synth", "'%.*s': no such key, or a value out of range", (int)n, text);
        return 0;
    }
    return 1;
}

/* NAME, or key=value,..., or NAME,key=value,... */
static int parse_shape(const char *text, shape *s) {
    int first = 1, i;
    *s = PLAIN;
    while (*text) {
        const char *comma = strchr(text, ',');
        size_t n = comma ? (size_t)(comma - text) : strlen(text);
        int named = 0;
        for (i = 0; first && i < N_SHAPES; i++) {
            if (strlen(SHAPES[i].name) != n || memcmp(SHAPES[i].name, text, n) != 0) continue;
            *s = SHAPES[i];
            named = 1;
        }
        if (!named && !set_field(s, text, n)) return 0;
        first = 0;
        text += n + (comma ? 1 : 0);
    }
    if (s->heads < 1 || s->width < 1 || s->layers < 1 || s->vocab < 1 || s->ffn < 1 || s->context < 1) {
        cli_usage_error("synth", "layers, width, heads, ffn, vocab and context are at least 1");
        return 0;
    }
    if (s->kv_heads == 0) s->kv_heads = s->heads;
    if (s->head_dim == 0) s->head_dim = s->width / s->heads;
    if (s->expert_ffn == 0) s->expert_ffn = s->ffn;
    if (s->experts > 0 && s->experts_used == 0) s->experts_used = s->experts < 2 ? s->experts : 2;
    if (s->heads % s->kv_heads != 0 || s->head_dim % 2 != 0 || s->experts_used > s->experts) {
        cli_usage_error("synth", "kv_heads must divide heads, head_dim be even, experts_used be at most experts");
        return 0;
    }
    return 1;
}

/* ---- random values --------------------------------------------------------------------------- */

/* splitmix64: every tensor has a stream of its own, from the seed and its number. */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in -1 .. 1. */
static double uniform(uint64_t *state) { return (double)(int32_t)(next(state) >> 32) * (1.0 / 2147483648.0); }

static uint32_t bits_of(double x) {
    float f = (float)x;
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

static void store16(unsigned char *p, uint32_t x) {
    p[0] = (unsigned char)x;
    p[1] = (unsigned char)(x >> 8);
}

/* Nearest half; values here are below 65504 and what is under the smallest normal becomes a subnormal. */
static uint32_t to_half(double x) {
    uint32_t sign = x < 0 ? 0x8000u : 0, bits;
    double a = x < 0 ? -x : x;
    if (a < 6.103515625e-05) return sign | (uint32_t)(a * 16777216.0 + 0.5);
    bits = bits_of(a);
    bits += 0x0FFF + ((bits >> 13) & 1);
    return sign | ((bits - (112u << 23)) >> 13);
}

static uint32_t to_bf16(double x) {
    uint32_t bits = bits_of(x);
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

static void store_words(unsigned char *p, uint64_t x) {
    int i;
    for (i = 0; i < 8; i++) p[i] = (unsigned char)(x >> (8 * i));
}

/* 32 values of -7 .. 7: zero nibbles, which stand for -8, become 8, which stands for 0. So the mean is 0; the standard
 * deviation is sqrt(2 (1 + 4 + ... + 49) / 16) = 4.183. */
static void block_q4_0(unsigned char *p, double deviation, uint64_t *state) {
    const uint64_t ones = 0x1111111111111111u;
    int i;
    store16(p, to_half(deviation / 4.183300133 * (1 + 0.2 * uniform(state))));
    for (i = 0; i < 2; i++) {
        uint64_t w = next(state), used = (w | (w >> 1) | (w >> 2) | (w >> 3)) & ones;
        store_words(p + 2 + 8 * i, w | ((used ^ ones) << 3));
    }
}

/* 32 values of -127 .. 127 (-128 becomes 0): standard deviation 73.18. */
static void block_q8_0(unsigned char *p, double deviation, uint64_t *state) {
    int i;
    store16(p, to_half(deviation / 73.18 * (1 + 0.2 * uniform(state))));
    for (i = 0; i < 4; i++) store_words(p + 2 + 8 * i, next(state));
    for (i = 2; i < 34; i++) {
        if (p[i] == 0x80) p[i] = 0;
    }
}

/* 256 values d s (q - 7.5), q of 0 .. 15 with a deviation of 4.610: s of 32 .. 63 for each 32 values, its root mean square
 * is 48.39; the minimum is the same s times 7.5 d. Layout: two halves d and 7.5 d; 8 s and 8 minima of 6 bits, the upper two
 * bits of the last four of each in the bytes of the first four; nibbles. */
static void block_q4_k(unsigned char *p, double deviation, uint64_t *state) {
    double d = deviation / (4.610 * 48.39);
    uint64_t w = next(state);
    int i;
    store16(p, to_half(d));
    store16(p + 2, to_half(7.5 * d));
    for (i = 0; i < 4; i++) {
        unsigned low = 32 | (unsigned)(w >> (5 * i) & 31), high = 32 | (unsigned)(w >> (20 + 5 * i) & 31);
        p[4 + i] = p[8 + i] = (unsigned char)(low | high >> 4 << 6);
        p[12 + i] = (unsigned char)((high & 15) * 17);
    }
    for (i = 0; i < 16; i++) store_words(p + 16 + 8 * i, next(state));
}

/* 256 values d s (q - 32), q of 0 .. 63 with a deviation of 18.47: s of 64 .. 127 for each 16 values, its root mean square is
 * 97.27, negative half of the time since the mean of q is 31.5. Layout: lower 4 bits, upper 2, s, the half d. */
static void block_q6_k(unsigned char *p, double deviation, uint64_t *state) {
    int i;
    for (i = 0; i < 26; i++) store_words(p + 8 * i, next(state)); /* s as well */
    for (i = 192; i < 208; i++) p[i] = (unsigned char)(p[i] & 0x80 ? 0x80 + (p[i] & 63) + 1 : 64 + (p[i] & 63));
    store16(p + 208, to_half(deviation / (18.47 * 97.27)));
}

/* 32 values of 0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign: standard deviation 2.926. Layout: the scale's exponent, nibbles. */
static void block_mxfp4(unsigned char *p, double deviation, uint64_t *state) {
    p[0] = (unsigned char)(127 + (int)floor(log2(deviation / 2.926) + 0.5));
    store_words(p + 1, next(state));
    store_words(p + 9, next(state));
}

/* One block (for the plain types: one value) of the given mean and deviation. */
static void make_block(unsigned char *p, int type, double mean, double deviation, uint64_t *state) {
    static void (*const blocks[N_STORAGE])(unsigned char *, double, uint64_t *) = {
        NULL, NULL, NULL, block_q8_0, block_q4_0, block_q4_k, block_q6_k, block_q4_k, block_mxfp4,
    };
    double x;
    if (blocks[type]) {
        blocks[type](p, deviation, state);
        return;
    }
    x = mean + deviation * 1.7320508 * uniform(state);
    if (type == T_F16) {
        store16(p, to_half(x));
    } else if (type == T_BF16) {
        store16(p, to_bf16(x));
    } else {
        uint32_t b = bits_of(x);
        store16(p, b & 0xFFFF);
        store16(p + 2, b >> 16);
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

enum { KIND_MATRIX, KIND_MORE, KIND_NORM, KIND_BIAS, KIND_ROUTER, KIND_ROPE_FREQS }; /* MORE: see storage */
typedef struct writer {
    gguf_out out;
    const shape *s;
    int type;
    int announcing; /* tensors are gone through twice: announced, then written */
    uint64_t seed, index, total;
    int progress;
} writer;

static double rope_divisor(const shape *s, uint64_t i) {
    /* Llama 3.1's rule: wavelengths above 8192 are divided by the factor, below 2048 kept, mixed between. */
    double pi = 3.14159265358979323846;
    double wave = 2 * pi * pow(s->rope_base, 2.0 * (double)i / (double)s->head_dim), smooth;
    if (wave < 8192 / 4.0) return 1;
    if (wave > 8192) return s->rope_factor;
    smooth = (8192 / wave - 1) / (4 - 1.0);
    return 1 / ((1 - smooth) / s->rope_factor + smooth);
}

static void write_values(writer *w, int kind, int type, const uint64_t *dims, uint64_t blocks) {
    enum { BUFFER = 1 << 16 };
    unsigned char buffer[BUFFER];
    uint64_t i, state = w->seed * 0x632BE59BD9B4E019u + w->index * 0x9E6C63D0876A9A35u;
    size_t n = 0, bytes = STORAGE[type].bytes;
    double deviation = kind == KIND_NORM ? 0.1 : kind == KIND_BIAS ? 0.02 : 1 / sqrt((double)dims[0]);
    for (i = 0; i < blocks && !w->out.failed; i++) {
        if (kind == KIND_ROPE_FREQS)
            make_block(buffer + n, type, rope_divisor(w->s, i), 0, &state);
        else
            make_block(buffer + n, type, kind == KIND_NORM ? 1 : 0, deviation, &state);
        n += bytes;
        if (n + bytes > BUFFER || i + 1 == blocks) {
            gguf_data(&w->out, buffer, n);
            n = 0;
        }
    }
    gguf_pad(&w->out);
    if (w->progress) fprintf(stderr, "\r%3.0f %%", 100.0 * (double)w->out.written / (double)w->total);
}

static void tensor(writer *w, const char *name, int64_t layer, int kind, int64_t d0, int64_t d1, int64_t d2) {
    char full[64];
    uint64_t dims[3], blocks;
    int type = kind == KIND_MATRIX ? w->type : kind == KIND_MORE ? STORAGE[w->type].more : T_F32, n_dims = d2 ? 3 : d1 ? 2 : 1;
    if (w->type == T_MXFP4 && (kind == KIND_MATRIX || kind == KIND_MORE)) type = d2 ? T_MXFP4 : T_Q8_0;
    if (layer >= 0)
        snprintf(full, sizeof full, "blk.%ld.%s", (long)layer, name);
    else
        snprintf(full, sizeof full, "%s", name);
    dims[0] = (uint64_t)d0;
    dims[1] = d1 ? (uint64_t)d1 : 1;
    dims[2] = d2 ? (uint64_t)d2 : 1;
    if (dims[0] % STORAGE[type].values != 0) type = T_F16; /* rows that no whole number of blocks fills */
    blocks = dims[0] / STORAGE[type].values * dims[1] * dims[2];
    if (w->announcing)
        gguf_tensor(&w->out, full, STORAGE[type].id, n_dims, dims, blocks * STORAGE[type].bytes);
    else
        write_values(w, kind, type, dims, blocks);
    w->index++;
}

/* Of attention's values and of what leaves the feed-forward part: mixtures give more bits to those of the first and last eighth
 * of the layers, and every third between (as llama.cpp's do). */
static int more_bits(const writer *w, int64_t l) {
    int64_t n = w->s->layers, eighth = n / 8;
    return l < eighth || l >= 7 * n / 8 || (l - eighth) % 3 == 2 ? KIND_MORE : KIND_MATRIX;
}

static void gpt2_layer(writer *w, int64_t l) {
    const shape *s = w->s;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    tensor(w, "attn_norm.weight", l, KIND_NORM, s->width, 0, 0);
    tensor(w, "attn_norm.bias", l, KIND_BIAS, s->width, 0, 0);
    tensor(w, "attn_qkv.weight", l, KIND_MATRIX, s->width, q + 2 * kv, 0);
    tensor(w, "attn_qkv.bias", l, KIND_BIAS, q + 2 * kv, 0, 0);
    tensor(w, "attn_output.weight", l, KIND_MATRIX, q, s->width, 0);
    tensor(w, "attn_output.bias", l, KIND_BIAS, s->width, 0, 0);
    tensor(w, "ffn_norm.weight", l, KIND_NORM, s->width, 0, 0);
    tensor(w, "ffn_norm.bias", l, KIND_BIAS, s->width, 0, 0);
    tensor(w, "ffn_up.weight", l, KIND_MATRIX, s->width, s->ffn, 0);
    tensor(w, "ffn_up.bias", l, KIND_BIAS, s->ffn, 0, 0);
    tensor(w, "ffn_down.weight", l, more_bits(w, l), s->ffn, s->width, 0);
    tensor(w, "ffn_down.bias", l, KIND_BIAS, s->width, 0, 0);
}

static void usual_layer(writer *w, int64_t l, int features) {
    const shape *s = w->s;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    tensor(w, "attn_norm.weight", l, KIND_NORM, s->width, 0, 0);
    tensor(w, "attn_q.weight", l, KIND_MATRIX, s->width, q, 0);
    tensor(w, "attn_k.weight", l, KIND_MATRIX, s->width, kv, 0);
    tensor(w, "attn_v.weight", l, more_bits(w, l), s->width, kv, 0);
    if (features & QKV_BIAS) {
        tensor(w, "attn_q.bias", l, KIND_BIAS, q, 0, 0);
        tensor(w, "attn_k.bias", l, KIND_BIAS, kv, 0, 0);
        tensor(w, "attn_v.bias", l, KIND_BIAS, kv, 0, 0);
    }
    if (features & QK_NORM) {
        tensor(w, "attn_q_norm.weight", l, KIND_NORM, s->head_dim, 0, 0);
        tensor(w, "attn_k_norm.weight", l, KIND_NORM, s->head_dim, 0, 0);
    }
    if (features & WIDE_QK_NORM) {
        tensor(w, "attn_q_norm.weight", l, KIND_NORM, q, 0, 0);
        tensor(w, "attn_k_norm.weight", l, KIND_NORM, kv, 0, 0);
    }
    tensor(w, "attn_output.weight", l, KIND_MATRIX, q, s->width, 0);
    if (features & OSS_LAYER) {
        tensor(w, "attn_output.bias", l, KIND_BIAS, s->width, 0, 0);
        tensor(w, "attn_sinks.weight", l, KIND_BIAS, s->heads, 0, 0);
    }
    if (features & (POST_NORMS | OSS_LAYER)) tensor(w, "post_attention_norm.weight", l, KIND_NORM, s->width, 0, 0);
    if (!(features & OSS_LAYER)) tensor(w, "ffn_norm.weight", l, KIND_NORM, s->width, 0, 0);
    if (s->experts > 0) {
        tensor(w, "ffn_gate_inp.weight", l, KIND_ROUTER, s->width, s->experts, 0);
        tensor(w, "ffn_gate_exps.weight", l, KIND_MATRIX, s->width, s->expert_ffn, s->experts);
        tensor(w, "ffn_up_exps.weight", l, KIND_MATRIX, s->width, s->expert_ffn, s->experts);
        tensor(w, "ffn_down_exps.weight", l, more_bits(w, l), s->expert_ffn, s->width, s->experts);
        if (features & OSS_LAYER) {
            tensor(w, "ffn_gate_inp.bias", l, KIND_BIAS, s->experts, 0, 0);
            tensor(w, "ffn_gate_exps.bias", l, KIND_BIAS, s->expert_ffn, s->experts, 0);
            tensor(w, "ffn_up_exps.bias", l, KIND_BIAS, s->expert_ffn, s->experts, 0);
            tensor(w, "ffn_down_exps.bias", l, KIND_BIAS, s->width, s->experts, 0);
        }
    } else {
        tensor(w, "ffn_gate.weight", l, KIND_MATRIX, s->width, s->ffn, 0);
        tensor(w, "ffn_up.weight", l, KIND_MATRIX, s->width, s->ffn, 0);
        tensor(w, "ffn_down.weight", l, more_bits(w, l), s->ffn, s->width, 0);
    }
    if (features & POST_NORMS) tensor(w, "post_ffw_norm.weight", l, KIND_NORM, s->width, 0, 0);
}

static void all_tensors(writer *w) {
    const shape *s = w->s;
    int features = find_family(s->arch, strlen(s->arch))->features;
    int64_t l;
    w->index = 0;
    tensor(w, "token_embd.weight", -1, s->tied ? KIND_MORE : KIND_MATRIX, s->width, s->vocab, 0);
    if (features & GPT2_LAYER) tensor(w, "position_embd.weight", -1, KIND_BIAS, s->width, s->context, 0);
    if (s->rope_factor > 0) tensor(w, "rope_freqs.weight", -1, KIND_ROPE_FREQS, s->head_dim / 2, 0, 0);
    for (l = 0; l < s->layers; l++) {
        if (features & GPT2_LAYER)
            gpt2_layer(w, l);
        else
            usual_layer(w, l, features);
    }
    tensor(w, "output_norm.weight", -1, KIND_NORM, s->width, 0, 0);
    if (features & GPT2_LAYER) tensor(w, "output_norm.bias", -1, KIND_BIAS, s->width, 0, 0);
    if (!s->tied) tensor(w, "output.weight", -1, KIND_MORE, s->width, s->vocab, 0);
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Piece number i behind the special and byte tokens: the printable ASCII characters and the word mark U+2581, then
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

static void put_u32(gguf_out *g, const char *arch, const char *key, int64_t x) {
    char full[96];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    gguf_u32(g, full, (uint32_t)x);
}

static void put_f32(gguf_out *g, const char *arch, const char *key, double x) {
    char full[96];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    gguf_f32(g, full, x);
}

static void put_metadata(writer *w, uint64_t seed) {
    const shape *s = w->s;
    gguf_out *g = &w->out;
    int features = find_family(s->arch, strlen(s->arch))->features;
    char text[96];
    gguf_string(g, "general.architecture", s->arch);
    snprintf(text, sizeof text, "synthetic %s, seed %llu", s->name, (unsigned long long)seed);
    gguf_string(g, "general.name", text);
    gguf_u32(g, "general.file_type", STORAGE[w->type].file_type);
    gguf_u32(g, "general.quantization_version", 2);
    put_u32(g, s->arch, "vocab_size", s->vocab);
    put_u32(g, s->arch, "context_length", s->context);
    put_u32(g, s->arch, "embedding_length", s->width);
    put_u32(g, s->arch, "block_count", s->layers);
    put_u32(g, s->arch, "feed_forward_length", s->ffn);
    put_u32(g, s->arch, "attention.head_count", s->heads);
    put_u32(g, s->arch, "attention.head_count_kv", s->kv_heads);
    put_u32(g, s->arch, "attention.key_length", s->head_dim);
    put_u32(g, s->arch, "attention.value_length", s->head_dim);
    if (features & GPT2_LAYER) {
        put_f32(g, s->arch, "attention.layer_norm_epsilon", s->eps);
    } else {
        put_f32(g, s->arch, "attention.layer_norm_rms_epsilon", s->eps);
        put_f32(g, s->arch, "rope.freq_base", s->rope_base);
        put_u32(g, s->arch, "rope.dimension_count", s->head_dim);
    }
    if (features & OSS_LAYER) {
        char key[96];
        snprintf(key, sizeof key, "%s.rope.scaling.type", s->arch);
        gguf_string(g, key, "yarn");
        put_f32(g, s->arch, "rope.scaling.factor", 32);
        put_u32(g, s->arch, "rope.scaling.original_context_length", 4096);
    }
    if (s->window > 0) put_u32(g, s->arch, "attention.sliding_window", s->window);
    if (s->experts > 0) {
        put_u32(g, s->arch, "expert_count", s->experts);
        put_u32(g, s->arch, "expert_used_count", s->experts_used);
        put_u32(g, s->arch, "expert_feed_forward_length", s->expert_ffn);
    }
    put_vocabulary(g, s->vocab);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_list(void) {
    int i;
    for (i = 0; i < N_SHAPES; i++) {
        const shape *s = &SHAPES[i];
        char experts[48] = "";
        if (s->experts) {
            snprintf(experts, sizeof experts, ", %ld experts of which %ld", (long)s->experts, (long)s->experts_used);
        }
        printf("%-16s %-9s %2ld layers, width %ld, %ld/%ld heads of %ld, ffn %ld, vocabulary %ld%s\n", s->name, s->arch,
               (long)s->layers, (long)s->width, (long)s->heads, (long)s->kv_heads, (long)s->head_dim,
               (long)(s->experts && s->expert_ffn ? s->expert_ffn : s->ffn), (long)s->vocab, experts);
    }
    printf("\ntypes:");
    for (i = 0; i < N_STORAGE; i++) printf(" %s", STORAGE[i].name);
    printf("\nkeys: arch (");
    for (i = 0; i < N_FAMILIES; i++) printf("%s%s", i ? " " : "", FAMILIES[i].arch);
    printf("), layers, width, heads, kv_heads, head_dim, ffn, vocab, context, tied,\n"
           "      experts, experts_used, expert_ffn, window, rope_base, rope_factor, eps\n");
}

static int find_type(const char *name) {
    int i, k;
    for (i = 0; i < N_STORAGE; i++) {
        for (k = 0; STORAGE[i].name[k]; k++) {
            char c = name[k] >= 'A' && name[k] <= 'Z' ? (char)(name[k] - 'A' + 'a') : name[k];
            if (c != STORAGE[i].name[k]) break;
        }
        if (STORAGE[i].name[k] == 0 && name[k] == 0) return i;
    }
    return -1;
}

static int write_model(const shape *s, int type, uint64_t seed, const char *path) {
    writer w;
    int ok;
    char text[32];
    memset(&w, 0, sizeof w);
    w.s = s;
    w.type = type;
    w.seed = seed + 1;
    w.progress = platform_is_terminal(stderr);
    w.out.file = cli_create("synth", path);
    if (w.out.file == NULL) return 0;
    put_metadata(&w, seed);
    w.announcing = 1;
    all_tensors(&w);
    w.announcing = 0;
    w.total = w.out.data_n;
    gguf_begin(&w.out);
    all_tensors(&w);
    if (w.progress) fprintf(stderr, "\r      \r");
    ok = cli_close("synth", w.out.file, path);
    if (ok && w.out.failed) ok = cli_fail("synth", "cannot make %s: out of memory or disk space", path) == CLI_DONE;
    if (!ok && strcmp(path, "-") != 0) platform_remove(path);
    cli_bytes_text((double)w.total, text);
    if (ok) fprintf(stderr, "%s: %.0f tensors, %s\n", path, (double)w.out.n_tensors, text);
    gguf_free(&w.out);
    return ok;
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
    shape s;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (list) {
        print_list();
        return CLI_DONE;
    }
    if (args[2] == NULL) return cli_usage_error("synth", "usage: infer synth SHAPE TYPE OUT");
    type = find_type(args[1]);
    if (type < 0) return cli_usage_error("synth", "there is no type '%s' (--list)", args[1]);
    if (!parse_shape(args[0], &s)) return CLI_USAGE;
    return write_model(&s, type, (uint64_t)common.seed, args[2]) ? CLI_DONE : CLI_FAILED;
}
