/* fuzz_tokenizer.c: libFuzzer target for the text layer: vocabularies and texts that nobody meant.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/fuzz_tokenizer.c -o fuzz_tokenizer -lm
 *     ./fuzz_tokenizer -max_len=4096 tests/fuzz/corpus_tokenizer
 *
 * The first byte chooses: 0 a SentencePiece vocabulary, 1 a byte-pair one, 4 WordPiece, 5 Unigram, 6 RWKV, 7 PLaMo-2, all
 * spelled by the bytes that follow; 2 a GGUF file; 3 a good byte-pair vocabulary with a hostile text, which must come
 * back byte for byte. The second byte gives the pre-tokenizer (one of FUZZ_PRES, or the row that a third byte names) and
 * flags. A spelled token is: length, type, score, bytes; length 255 ends the list. Merges: length, bytes; 255 ends. From
 * 4 on: a byte of switches; Unigram's character map: the number of its units, units, the length of its replacements,
 * these. The rest is the text. */
#include "library.h"
#include "fuzz.h"
#include "../gguf_write.h"

static const char *const FUZZ_PRES[] = { "gpt-2", "llama-bpe", "qwen2", "default", "jina-v2-de", "", "?", "" };
enum { FUZZ_ANY_ROW = 5 }; /* of FUZZ_PRES: that of the third byte */

/* 255 behind the end, which ends a list. */
static uint8_t fuzz_byte_or_end(fuzz_in *in) {
    if (in->n == 0) return 255;
    in->n--;
    return *in->p++;
}
static const uint8_t *fuzz_take(fuzz_in *in, size_t *n) {
    const uint8_t *p = in->p;
    if (*n > in->n) *n = in->n;
    in->p += *n;
    in->n -= *n;
    return p;
}

enum { FUZZ_SPM, FUZZ_BPE, FUZZ_GGUF, FUZZ_GOOD, FUZZ_WPM, FUZZ_UGM };
static const char *const FUZZ_KIND_MODELS[] = { "llama", "gpt2", NULL, NULL, "bert", "t5", "rwkv", "plamo2" };
static const char *const FUZZ_SWITCHES[] = { "add_space_prefix", "remove_extra_whitespaces", "normalizer.lowercase", "normalizer.strip_accents",
                                             "add_bos_token", "add_sep_token" };

static void fuzz_switches(fuzz_in *in, gguf_writer *w, int mode) {
    uint8_t b = fuzz_byte_or_end(in);
    const uint8_t *map;
    char key[80];
    size_t i, n;
    for (i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s", FUZZ_SWITCHES[i]);
        gw_int(w, key, GW_BOOL, b >> i & 1);
    }
    gw_int(w, "tokenizer.ggml.unknown_token_id", GW_U32, 0);
    if (mode != FUZZ_UGM) return;
    n = 4 * (size_t)fuzz_byte_or_end(in);
    map = fuzz_take(in, &n);
    i = fuzz_byte_or_end(in);
    if (i > in->n) i = in->n;
    gw_array(w, "tokenizer.ggml.precompiled_charsmap", GW_U8, 4 + n + i + 1);
    gw_uint(w, &w->kv, n, 4);
    gw_add(&w->kv, map, n);
    map = fuzz_take(in, &i);
    gw_add(&w->kv, map, i);
    gw_add(&w->kv, NULL, 1);
}

/* The spelled vocabulary as a GGUF file. */
static uint8_t *fuzz_spelled(fuzz_in *in, int mode, size_t *size) {
    const int bpe = mode == FUZZ_BPE;
    gguf_writer w;
    gw_bytes tokens = { NULL, 0, 0 }, types = { NULL, 0, 0 }, scores = { NULL, 0, 0 }, merges = { NULL, 0, 0 };
    uint64_t n = 0, n_merges = 0;
    size_t len;
    uint8_t b;
    gw_init(&w);
    while ((b = fuzz_byte_or_end(in)) != 255) {
        const uint8_t *text;
        gw_uint(&w, &types, fuzz_byte_or_end(in) & 7, 1);
        gw_uint(&w, &scores, fuzz_byte_or_end(in), 1);
        len = b;
        text = fuzz_take(in, &len);
        gw_raw_string(&w, &tokens, text, len);
        n++;
    }
    while (bpe && (b = fuzz_byte_or_end(in)) != 255) {
        const uint8_t *text;
        len = b;
        text = fuzz_take(in, &len);
        gw_raw_string(&w, &merges, text, len);
        n_merges++;
    }
    gw_str(&w, "tokenizer.ggml.model", FUZZ_KIND_MODELS[mode]);
    gw_str(&w, "general.name", "phi-3");
    gw_array(&w, "tokenizer.ggml.tokens", GW_STRING, n);
    gw_add(&w.kv, tokens.p, tokens.n);
    gw_array(&w, "tokenizer.ggml.token_type", GW_U8, n);
    gw_add(&w.kv, types.p, types.n);
    gw_array(&w, "tokenizer.ggml.scores", GW_I8, n);
    gw_add(&w.kv, scores.p, scores.n);
    gw_array(&w, "tokenizer.ggml.merges", GW_STRING, n_merges);
    gw_add(&w.kv, merges.p, merges.n);
    if (mode >= FUZZ_WPM) fuzz_switches(in, &w, mode);
    else if (n) gw_int(&w, "tokenizer.ggml.remove_extra_whitespaces", GW_BOOL, n & 1);
    free(tokens.p);
    free(types.p);
    free(scores.p);
    free(merges.p);
    return gw_finish(&w, size);
}

/* All bytes, a few merges, and a user-defined and a control token. */
static uint8_t *fuzz_good(size_t *size) {
    static const char *const more[] = { "ab", "abc", "bc", "\xc4\xa0\xc4\xa0", "<u>", "<c>" };
    static const char *const merges[] = { "a b", "b c", "ab c", "a bc", "\xc4\xa0 \xc4\xa0" };
    gguf_writer w;
    char text[4];
    uint32_t i;
    gw_init(&w);
    gw_str(&w, "tokenizer.ggml.model", "gpt2");
    gw_array(&w, "tokenizer.ggml.tokens", GW_STRING, 262);
    for (i = 0; i < 256; i++) gw_raw_string(&w, &w.kv, text, infer__utf8_put(infer__byte_to_char((uint8_t)i), text));
    for (i = 0; i < 6; i++) gw_raw_string(&w, &w.kv, more[i], strlen(more[i]));
    gw_array(&w, "tokenizer.ggml.token_type", GW_U8, 262);
    for (i = 0; i < 262; i++) gw_uint(&w, &w.kv, i == 260 ? 4 : i == 261 ? 3 : 1, 1);
    gw_strs(&w, "tokenizer.ggml.merges", merges, 5);
    return gw_finish(&w, size);
}

static void fuzz_text(const infer__tokenizer *t, infer__mem *mem, const char *s, size_t n, int flags, int round_trip) {
    size_t count = 0, again = 0, len = 0, i, cap;
    infer_token *ids;
    char *text;
    infer_error err;
    infer_result r = infer__tokenize(t, mem, s, n, flags, NULL, 0, &count, &err);
    if (infer__tokenizer_why_not(t)[0]) {
        if (r != INFER_ERR_UNSUPPORTED) __builtin_trap();
        return;
    }
    if (r != INFER_OK || count > 800 * n + 8) __builtin_trap(); /* a character map may write much for little */
    cap = count / 2 + 1;
    ids = (infer_token *)malloc(cap * sizeof *ids); /* too few: nothing may be written behind */
    if (infer__tokenize(t, mem, s, n, flags, ids, cap, &again, &err) != INFER_OK || again != count) __builtin_trap();
    ids = (infer_token *)realloc(ids, (count + 1) * sizeof *ids);
    infer__tokenize(t, mem, s, n, flags, ids, count, &again, &err);
    for (i = 0; i < count; i++) if (ids[i] < 0 || ids[i] >= infer__tokenizer_size(t)) __builtin_trap();
    if (infer__detokenize(t, ids, count, INFER_TEXT_WRITE_SPECIAL, NULL, 0, &len, &err) != INFER_OK) __builtin_trap();
    text = (char *)malloc(len + 1);
    if (infer__detokenize(t, ids, count, INFER_TEXT_WRITE_SPECIAL, text, len, &again, &err) != INFER_OK) __builtin_trap();
    if (again != len || (round_trip && (len != n || (n && memcmp(text, s, n) != 0)))) __builtin_trap();
    free(text);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in;
    infer__mem mem;
    infer__gguf g;
    infer__tokenizer *t;
    infer__tokenizer_options options;
    infer_error err;
    const infer__pretokenizer *row;
    char name[64];
    uint8_t *made = NULL, mode, how, *copy;
    size_t n;
    in.p = data;
    in.n = size;
    mode = fuzz_byte_or_end(&in) & 7;
    how = fuzz_byte_or_end(&in);
    memset(&options, 0, sizeof options);
    options.pre = FUZZ_PRES[how & 7];
    if ((how & 7) == FUZZ_ANY_ROW) {
        row = &INFER__PRETOKENIZERS[fuzz_byte_or_end(&in) % INFER__COUNT(INFER__PRETOKENIZERS)];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(row->names, " "), row->names);
        options.pre = name;
    }
    row = infer__pretokenizer_find(options.pre, strlen(options.pre));
    if (FUZZ_KIND_MODELS[mode]) made = fuzz_spelled(&in, mode, &n);
    if (mode == FUZZ_GOOD) made = fuzz_good(&n);
    infer__mem_init(&mem, NULL, 0);
    options.allow_default_pre = mode == FUZZ_GOOD || (how & 8);
    if (infer__gguf_open_memory(&g, &mem, NULL, made ? made : in.p, made ? n : in.n, &err) == INFER_OK) {
        copy = (uint8_t *)malloc(in.n + 1); /* of the text, so that reading past its end is seen */
        copy = (uint8_t *)realloc(copy, in.n ? in.n : 1);
        if (in.n) memcpy(copy, in.p, in.n);
        if (infer__tokenizer_open(&t, &mem, NULL, &g, &options, &err) == INFER_OK) {
            char piece[8];
            int32_t i;
            /* Only a vocabulary in GPT-2's alphabet is good for every text. */
            fuzz_text(t, &mem, (const char *)copy, in.n, how >> 4 & 3,
                      mode == FUZZ_GOOD && !(row && (row->flags & (INFER__PRE_MARKED | INFER__PRE_UTF8))));
            for (i = -1; i <= infer__tokenizer_size(t) && i < 300; i++) infer__token_text(t, i, piece, sizeof piece, &n);
            infer__tokenizer_close(t);
        } else if (mode == FUZZ_GOOD) {
            __builtin_trap();
        }
        free(copy);
        infer__gguf_close(&g);
    } else if (mode == FUZZ_GOOD) {
        __builtin_trap();
    }
    if (infer__atomic_get(&mem.used) != 0) __builtin_trap();
    free(made);
    return 0;
}
