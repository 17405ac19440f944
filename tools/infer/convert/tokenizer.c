/* tokenizer.c: see tokenizer.h. The choice of the reader, padding, and the keys. */
#include "tokenizer_parts.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory, files ---- */

struct hf_block {
    hf_block *next;
    size_t n, cap;
    char bytes[1];
};
enum { BLOCK_BYTES = 1 << 16 };

char *hf_bytes(hf_vocab *v, size_t n) {
    hf_block *b = v->blocks;
    char *p;
    if (b == NULL || b->cap - b->n <= n) {
        size_t cap = n < BLOCK_BYTES ? BLOCK_BYTES : n + 1;
        b = cap > n ? cli_alloc(v->command, sizeof *b + cap, 1) : NULL;
        if (b == NULL) return NULL;
        b->n = 0;
        b->cap = cap;
        b->next = v->blocks;
        v->blocks = b;
    }
    p = b->bytes + b->n;
    p[n] = 0;
    b->n += n + 1;
    return p;
}

int hf_same(hf_text a, const char *b) { return a.s && a.n == strlen(b) && memcmp(a.s, b, a.n) == 0; }

hf_text hf_string(const infer_json *v) {
    hf_text t;
    t.n = 0;
    t.s = infer_json_string(v, &t.n);
    return t;
}

void hf_note(const hf_vocab *v, const char *format, ...) {
    char text[1024];
    size_t i;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (i = 0; text[i]; i++)
        if ((unsigned char)text[i] < 32) text[i] = ' ';
    fprintf(stderr, "warning: %s: %s\n", v->folder, text);
}

static int path_of(const hf_vocab *v, const char *name, char *path) {
    return snprintf(path, PLATFORM_PATH, "%s/%s", v->folder, name) < PLATFORM_PATH;
}

int hf_exists(hf_vocab *v, const char *name) {
    char path[PLATFORM_PATH];
    return path_of(v, name, path) && platform_path_kind(path) == PLATFORM_FILE;
}

char *hf_read(hf_vocab *v, const char *name, size_t *n, int *failed) {
    char path[PLATFORM_PATH], *text;
    if (!hf_exists(v, name)) return NULL;
    path_of(v, name, path);
    text = cli_read_file(v->command, path, n);
    if (text == NULL) *failed = 1;
    return text;
}

static infer_json *read_json(hf_vocab *v, const char *name, int *failed) {
    infer_json *document = NULL;
    infer_error err;
    size_t n;
    char *text = hf_read(v, name, &n, failed);
    if (text == NULL) return NULL;
    if (infer_json_parse(&document, text, n, NULL, &err) != INFER_OK) {
        cli_fail(v->command, "%s/%s: %s", v->folder, name, err.message);
        *failed = 1;
    } else if (infer_json_kind(document) != INFER_JSON_OBJECT) {
        cli_fail(v->command, "%s/%s: not a JSON object", v->folder, name);
        *failed = 1;
    }
    free(text);
    return document;
}

const infer_json *hf_read_json(hf_vocab *v, const char *name, int *failed) {
    if (v->n_more == (int)(sizeof v->more / sizeof *v->more)) return NULL;
    v->more[v->n_more] = read_json(v, name, failed);
    return v->more[v->n_more++];
}

/* ---- tokens ---- */

hf_token *hf_token_at(hf_vocab *v, int64_t id) {
    if (id < 0 || (uint64_t)id >= (uint64_t)1 << 31) {
        cli_fail(v->command, "%s: the token id %.0f is not possible", v->folder, (double)id);
        return NULL;
    }
    if (v->rows && (uint64_t)id >= v->rows) {
        cli_fail(v->command, "%s: the token id %.0f is too high for an embedding of %.0f rows", v->folder, (double)id, (double)v->rows);
        return NULL;
    }
    if ((size_t)id >= v->cap) {
        size_t cap = (size_t)id + (size_t)id / 2 + 1024;
        hf_token *grown;
        if ((size_t)id > 2 * v->n + (1u << 20)) { /* memory for gaps in proportion to what there is */
            cli_fail(v->command, "%s: the token id %.0f is far from the others", v->folder, (double)id);
            return NULL;
        }
        grown = cli_grow(v->command, v->tokens, cap, sizeof *grown);
        if (grown == NULL) return NULL;
        memset(grown + v->cap, 0, (cap - v->cap) * sizeof *grown);
        v->tokens = grown;
        v->cap = cap;
    }
    if ((size_t)id >= v->n) v->n = (size_t)id + 1;
    return &v->tokens[id];
}

int64_t hf_find(const hf_vocab *v, hf_text text) {
    size_t i;
    if (text.s == NULL) return -1;
    for (i = 0; i < v->n; i++) {
        const hf_text *t = &v->tokens[i].text;
        if (t->s && t->n == text.n && memcmp(t->s, text.s, text.n) == 0) return (int64_t)i;
    }
    return -1;
}

static int is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
int hf_is_byte(hf_text t) {
    return t.n == 6 && memcmp(t.s, "<0x", 3) == 0 && is_hex(t.s[3]) && is_hex(t.s[4]) && t.s[5] == '>';
}

int hf_spaces(hf_vocab *v, hf_text *text) {
    static const char MARK[] = "\xe2\x96\x81";
    size_t i, n = 0;
    char *p;
    for (i = 0; i + 3 <= text->n && memcmp(text->s + i, MARK, 3) != 0; i++) { }
    if (i + 3 > text->n) return 1;
    p = hf_bytes(v, text->n);
    if (p == NULL) return 0;
    for (i = 0; i < text->n;) {
        if (i + 3 <= text->n && memcmp(text->s + i, MARK, 3) == 0) {
            p[n++] = ' ';
            i += 3;
        } else {
            p[n++] = text->s[i++];
        }
    }
    p[n] = 0;
    text->s = p;
    text->n = n;
    return 1;
}

/* Every id up to the last row of the embedding has a token. */
static int pad(hf_vocab *v) {
    const size_t n = v->n;
    size_t i;
    if (n == 0) return cli_fail(v->command, "%s: the vocabulary is empty", v->folder), 0;
    if (v->rows > n) {
        hf_token *grown;
        if (v->rows >= (uint64_t)1 << 31) return cli_fail(v->command, "%s: too many rows in the embedding", v->folder), 0;
        grown = cli_grow(v->command, v->tokens, (size_t)v->rows, sizeof *grown);
        if (grown == NULL) return 0;
        memset(grown + n, 0, ((size_t)v->rows - n) * sizeof *grown);
        v->tokens = grown;
        v->n = v->cap = (size_t)v->rows;
    }
    for (i = 0; i < v->n; i++) {
        hf_token *t = &v->tokens[i];
        char name[32], *p;
        if (t->text.s) continue;
        t->text.n = (size_t)snprintf(name, sizeof name, "%s[PAD%.0f]", strcmp(v->model, "bert") == 0 ? "\xe2\x96\x81" : "", (double)i);
        t->text.s = p = hf_bytes(v, t->text.n);
        if (p == NULL) return 0;
        memcpy(p, name, t->text.n);
        t->score = -10000;
        t->type = HF_UNUSED;
    }
    return 1;
}

/* ---- keys ---- */

static int put_charsmap(hf_vocab *v, gguf_out *out) {
    unsigned char *data = cli_alloc(v->command, v->charsmap.n + 12, 1);
    if (data == NULL) return 0;
    gguf_store(data, GGUF_U8, 4);
    gguf_store(data + 4, v->charsmap.n, 8);
    memcpy(data + 12, v->charsmap.s, v->charsmap.n);
    gguf_raw(out, "tokenizer.ggml.precompiled_charsmap", GGUF_ARRAY, data, v->charsmap.n + 12);
    free(data);
    return 1;
}

static void put_switch(gguf_out *out, const char *key, int value) {
    if (value >= 0) gguf_bool(out, key, value);
}

static int put(hf_vocab *v, gguf_out *out) {
    static const struct { const char *key; int which; } IDS[] = {
        {"tokenizer.ggml.bos_token_id", HF_BOS},       {"tokenizer.ggml.eos_token_id", HF_EOS},
        {"tokenizer.ggml.unknown_token_id", HF_UNK},   {"tokenizer.ggml.seperator_token_id", HF_SEP},
        {"tokenizer.ggml.padding_token_id", HF_PAD},   {"tokenizer.ggml.mask_token_id", HF_MASK},
        {"tokenizer.ggml.eot_token_id", HF_EOT},       {"tokenizer.ggml.eom_token_id", HF_EOM},
        {"tokenizer.ggml.prefix_token_id", HF_PREFIX}, {"tokenizer.ggml.suffix_token_id", HF_SUFFIX},
        {"tokenizer.ggml.middle_token_id", HF_MIDDLE}};
    size_t i;
    gguf_string(out, "tokenizer.ggml.model", v->model);
    if (v->pre) gguf_string(out, "tokenizer.ggml.pre", v->pre);
    gguf_array(out, "tokenizer.ggml.tokens", GGUF_STRING, v->n);
    for (i = 0; i < v->n; i++) gguf_element_text(out, v->tokens[i].text.s, v->tokens[i].text.n);
    if (v->scored) {
        gguf_array(out, "tokenizer.ggml.scores", GGUF_F32, v->n);
        for (i = 0; i < v->n; i++) gguf_element_f32(out, v->tokens[i].score);
    }
    gguf_array(out, "tokenizer.ggml.token_type", GGUF_I32, v->n);
    for (i = 0; i < v->n; i++) gguf_element_i32(out, v->tokens[i].type);
    if (v->token_types >= 0) gguf_u32(out, "tokenizer.ggml.token_type_count", (uint32_t)v->token_types);
    if (v->has_merges) {
        gguf_array(out, "tokenizer.ggml.merges", GGUF_STRING, v->n_merges);
        for (i = 0; i < v->n_merges; i++) gguf_element_text(out, v->merges[i].s, v->merges[i].n);
    }
    for (i = 0; i < sizeof IDS / sizeof *IDS; i++)
        if (v->special[IDS[i].which] >= 0) gguf_u32(out, IDS[i].key, (uint32_t)v->special[IDS[i].which]);
    put_switch(out, "tokenizer.ggml.add_bos_token", v->add[HF_BOS]);
    put_switch(out, "tokenizer.ggml.add_eos_token", v->add[HF_EOS]);
    put_switch(out, "tokenizer.ggml.add_sep_token", v->add[HF_SEP]);
    put_switch(out, "tokenizer.ggml.add_space_prefix", v->space_prefix);
    put_switch(out, "tokenizer.ggml.remove_extra_whitespaces", v->extra_spaces);
    put_switch(out, "tokenizer.ggml.normalizer.lowercase", v->lowercase);
    put_switch(out, "tokenizer.ggml.normalizer.strip_accents", v->strip_accents);
    if (v->charsmap.n && !put_charsmap(v, out)) return 0;
    if (!hf_chat_templates(v, out)) return 0;
    if (out->failed) cli_fail(v->command, "out of memory");
    return !out->failed;
}

/* ---- which file ---- */

/* Models that tokenizer.json holds in full: BPE over bytes and WordPiece. With byte fallback and for Unigram, a SentencePiece
 * model beside it says more: scores, and the rules for spaces. */
static int prefers_json(const hf_vocab *v) {
    const infer_json *model = infer_json_get(v->tokenizer, "model");
    return infer_json_kind(infer_json_get(model, "vocab")) == INFER_JSON_OBJECT &&
           infer_json_kind(infer_json_get(model, "byte_fallback")) != INFER_JSON_TRUE;
}

static int read_tokens(hf_vocab *v) {
    static const char *const MODELS[] = {"tokenizer.model", "spiece.model", HF_XLM_MODEL};
    size_t i;
    if (prefers_json(v)) return hf_from_json(v);
    for (i = 0; i < 2; i++)
        if (hf_exists(v, MODELS[i])) return hf_from_spm(v, MODELS[i]);
    if (v->tokenizer) return hf_from_json(v); /* it has the ids that XLM-RoBERTa gives to the pieces of its model */
    if (hf_exists(v, MODELS[i])) return hf_from_spm(v, MODELS[i]);
    if (hf_exists(v, "vocab.json")) return hf_from_vocab_json(v);
    if (hf_exists(v, "vocab.txt")) return hf_from_vocab_txt(v);
    cli_fail(v->command, "%s: no tokenizer: tokenizer.json, tokenizer.model, vocab.json or vocab.txt is needed%s", v->folder,
             hf_exists(v, "tekken.json")                    ? " (tekken.json is not supported)"
             : hf_exists(v, "qwen.tiktoken") || hf_exists(v, "tiktoken.model") ? " (tiktoken files are not supported)"
                                                                               : "");
    return 0;
}

static int read_folder(hf_vocab *v) {
    int failed = 0;
    hf_text family = hf_string(infer_json_get(v->config, "model_type"));
    v->family = family.s ? family.s : "";
    v->tokenizer = read_json(v, "tokenizer.json", &failed);
    if (!failed) v->settings = read_json(v, "tokenizer_config.json", &failed);
    if (!failed) v->map = read_json(v, "special_tokens_map.json", &failed);
    if (failed) return 0;
    hf_names(v);
    if (!read_tokens(v) || !hf_specials(v) || !hf_family_rows(v) || !pad(v)) return 0;
    if (strcmp(v->model, "t5") == 0 && v->space_prefix != v->extra_spaces)
        hf_note(v, "a space %s put before texts, and superfluous ones are %s: GGUF files cannot say one without the other, so ids of some "
                "texts will differ", v->space_prefix ? "is" : "is not", v->extra_spaces ? "removed" : "kept");
    return 1;
}

int hf_tokenizer(const char *command, const char *folder, const infer_json *config, const infer_json *generation, uint64_t vocab, const char *pre, gguf_out *out) {
    hf_vocab v;
    int i, ok;
    memset(&v, 0, sizeof v);
    v.command = command;
    v.folder = folder;
    v.config = config;
    v.generation = generation;
    v.rows = vocab;
    v.wanted_pre = pre;
    v.space_prefix = v.extra_spaces = v.lowercase = v.strip_accents = -1;
    v.token_types = -1;
    for (i = 0; i < HF_SPECIALS; i++) v.special[i] = v.add[i] = -1;
    ok = read_folder(&v) && put(&v, out);
    while (v.blocks) {
        hf_block *next = v.blocks->next;
        free(v.blocks);
        v.blocks = next;
    }
    for (i = 0; i < v.n_more; i++) infer_json_free(v.more[i]);
    infer_json_free(v.tokenizer);
    infer_json_free(v.settings);
    infer_json_free(v.map);
    free(v.tokens);
    free(v.merges);
    free(v.spm);
    return ok;
}
