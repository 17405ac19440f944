/* tokenizer_text.c: the files from before tokenizer.json: vocab.txt of WordPiece, vocab.json and merges.txt of BPE. */
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

/* The next line without its end; 0 at the end of the text. */
static int line_of(const char **at, const char *end, hf_text *out) {
    const char *stop;
    if (*at == end) return 0;
    stop = memchr(*at, '\n', (size_t)(end - *at));
    out->s = *at;
    out->n = (size_t)((stop ? stop : end) - *at);
    *at = stop ? stop + 1 : end;
    if (out->n && out->s[out->n - 1] == '\r') out->n--;
    return 1;
}

/* The text of a file in the folder, which lives as long as v. */
static int text_of(hf_vocab *v, const char *name, hf_text *out) {
    int failed = 0;
    char *text = hf_read(v, name, &out->n, &failed), *p;
    if (text == NULL) return failed ? 0 : (cli_fail(v->command, "%s/%s is missing", v->folder, name), 0);
    out->s = p = hf_bytes(v, out->n);
    if (p) memcpy(p, text, out->n);
    free(text);
    return p != NULL;
}

static void wordpiece_types(hf_vocab *v) {
    static const char *const USUAL[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    const infer_json *lower = infer_json_get(v->settings, "do_lower_case"), *accents = infer_json_get(v->settings, "strip_accents");
    size_t i, k;
    for (i = 0; i < v->n; i++)
        for (k = 0; k < sizeof USUAL / sizeof *USUAL; k++)
            if (hf_same(v->tokens[i].text, USUAL[k])) v->tokens[i].type = HF_CONTROL;
    if (lower) v->lowercase = infer_json_kind(lower) == INFER_JSON_TRUE;
    if (infer_json_kind(accents) == INFER_JSON_TRUE || infer_json_kind(accents) == INFER_JSON_FALSE)
        v->strip_accents = infer_json_kind(accents) == INFER_JSON_TRUE;
}

int hf_from_vocab_txt(hf_vocab *v) {
    hf_text text, line;
    const char *at;
    int64_t id = 0;
    if (!text_of(v, "vocab.txt", &text)) return 0;
    for (at = text.s; line_of(&at, text.s + text.n, &line); id++) {
        hf_token *t = hf_token_at(v, id);
        if (t == NULL) return 0;
        t->text = line;
        t->type = HF_NORMAL;
    }
    v->n_base = v->n;
    v->model = "bert";
    v->pre = v->wanted_pre ? v->wanted_pre : "bert-bge";
    wordpiece_types(v);
    return hf_added_gpt2(v) && hf_wordpiece_marks(v);
}

static int read_merges(hf_vocab *v) {
    hf_text text, line;
    const char *at;
    size_t cap = 0;
    int first = 1;
    if (!text_of(v, "merges.txt", &text)) return 0;
    for (at = text.s; line_of(&at, text.s + text.n, &line); first = 0) {
        const char *space;
        if (line.n == 0 || (first && line.s[0] == '#')) continue; /* "#version: 0.2" */
        space = memchr(line.s, ' ', line.n);
        if (space == NULL || space == line.s || space == line.s + line.n - 1 || memchr(space + 1, ' ', line.n - (size_t)(space + 1 - line.s)))
            return cli_fail(v->command, "%s/merges.txt: '%.*s' is no pair", v->folder, (int)(line.n < 40 ? line.n : 40), line.s), 0;
        if (v->n_merges == cap) {
            hf_text *grown = cli_grow(v->command, v->merges, cap = cap * 2 + 1024, sizeof *grown);
            if (grown == NULL) return 0;
            v->merges = grown;
        }
        v->merges[v->n_merges++] = line;
    }
    v->has_merges = 1;
    return 1;
}

/* These files do not say how texts are split: the class does. */
static const char *pre_of_class(hf_vocab *v) {
    static const struct { const char *name, *pre; } CLASSES[] = {
        {"GPT2Tokenizer", "gpt-2"},      {"GPT2TokenizerFast", "gpt-2"},          {"RobertaTokenizer", "roberta-bpe"},
        {"Qwen2Tokenizer", "qwen2"},     {"Qwen2TokenizerFast", "qwen2"},         {"RobertaTokenizerFast", "roberta-bpe"},
        {"CodeGenTokenizer", "phi-2"},   {"CodeGenTokenizerFast", "phi-2"}};
    hf_text name = hf_string(infer_json_get(v->settings, "tokenizer_class"));
    size_t i;
    for (i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++)
        if (hf_same(name, CLASSES[i].name)) return CLASSES[i].pre;
    cli_fail(v->command, "%s: without tokenizer.json the pre-tokenizer is not known (tokenizer_class '%.60s'): give its name with --pre",
             v->folder, name.s ? name.s : "");
    return NULL;
}

int hf_from_vocab_json(hf_vocab *v) {
    int failed = 0;
    size_t i;
    const infer_json *vocab = hf_read_json(v, "vocab.json", &failed), *added;
    if (failed || !hf_vocab_object(v, vocab) || !read_merges(v)) return 0;
    added = hf_read_json(v, "added_tokens.json", &failed);
    if (failed) return 0;
    for (i = 0; i < infer_json_count(added); i++) {
        hf_token *t = hf_token_at(v, infer_json_kind(infer_json_at(added, i)) == INFER_JSON_INT ? infer_json_int(infer_json_at(added, i)) : -1);
        if (t == NULL) return 0;
        t->text.s = infer_json_name(added, i, &t->text.n);
        t->type = HF_USER;
    }
    v->model = "gpt2";
    v->pre = v->wanted_pre ? v->wanted_pre : pre_of_class(v);
    return v->pre != NULL && hf_added_gpt2(v);
}
