/* tokenizer_special.c: the ids of tokens with a purpose, and which of them are added to texts.
 *
 * In the order in which llama.cpp's converter looks: the names in tokenizer_config.json among the added tokens, the ids in
 * config.json; then, where that one stops, the names in the whole vocabulary and generation_config.json.
 */
#include "tokenizer_parts.h"

#include <string.h>

static const char *const TEXT_KEYS[HF_NAMED] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
static const char *const ID_KEYS[HF_NAMED] = {"bos_token_id", "eos_token_id", "unk_token_id", "sep_token_id",
                                              "pad_token_id", "cls_token_id", "mask_token_id"};

static int same(hf_text a, hf_text b) { return a.s && b.s && a.n == b.n && memcmp(a.s, b.s, a.n) == 0; }

static int is_switch(const infer_json *v) { return infer_json_kind(v) == INFER_JSON_TRUE || infer_json_kind(v) == INFER_JSON_FALSE; }

static hf_text name_in(const infer_json *from, const char *key) {
    const infer_json *name = infer_json_get(from, key);
    return hf_string(infer_json_kind(name) == INFER_JSON_OBJECT ? infer_json_get(name, "content") : name);
}

/* ---- what the post-processor adds ---- */

static hf_text special_in(const infer_json *list, size_t i) {
    return hf_string(infer_json_get(infer_json_get(infer_json_at(list, i), "SpecialToken"), "id"));
}
static int sequence_in(const infer_json *list, size_t i, const char *id) {
    return hf_same(hf_string(infer_json_get(infer_json_get(infer_json_at(list, i), "Sequence"), "id")), id);
}

/* "single": [first] A [last] */
static void template_single(hf_vocab *v, const infer_json *single, hf_text *first, hf_text *last) {
    const size_t n = infer_json_count(single);
    hf_text *names = v->names;
    if (n < 2) return;
    *first = special_in(single, 0);
    *last = special_in(single, n - 1);
    if (first->s) {
        if (!same(*first, names[HF_BOS]) && !same(*first, names[HF_CLS])) {
            if (names[HF_BOS].s == NULL) names[HF_BOS] = *first;
            if (names[HF_CLS].s == NULL) names[HF_CLS] = *first;
        }
        v->add[HF_BOS] = same(*first, names[HF_BOS]) || same(*first, names[HF_CLS]);
    }
    if (last->s) {
        if (!same(*last, names[HF_EOS])) {
            v->old_eos = names[HF_EOS]; /* ends turns, where another one ends texts */
            names[HF_EOS] = *last;
        }
        v->add[HF_EOS] = 1;
    }
}

/* "pair": [first] A [separators] B [last] */
static void template_pair(hf_vocab *v, const infer_json *pair, hf_text first, hf_text last) {
    size_t from = 0, to = infer_json_count(pair), i;
    int add = 0;
    if (to > 0 && same(special_in(pair, 0), first)) from++;
    if (to > from && same(special_in(pair, to - 1), last)) to--;
    if (to - from < 3 || !sequence_in(pair, from, "A") || !sequence_in(pair, to - 1, "B")) return;
    for (i = from + 1; i < to - 1 && i < from + 3; i++) {
        const hf_text entry = special_in(pair, i);
        if (!same(entry, v->names[HF_SEP]) && !same(entry, v->names[HF_EOS])) continue;
        if (i == from + 1 ? last.s == NULL : to - from == 4) add = 1;
    }
    v->add[HF_SEP] = add;
    if (add && v->names[HF_SEP].s == NULL) v->names[HF_SEP] = v->names[HF_EOS];
}

static void processor(hf_vocab *v, const infer_json *p) {
    const hf_text type = hf_string(infer_json_get(p, "type"));
    hf_text *names = v->names, first = {NULL, 0}, last = {NULL, 0};
    if (hf_same(type, "ByteLevel")) {
        if (v->add[HF_BOS] < 0) v->add[HF_BOS] = 0;
        if (v->add[HF_EOS] < 0) v->add[HF_EOS] = 0;
    } else if (hf_same(type, "RobertaProcessing") || hf_same(type, "BertProcessing")) {
        v->add[HF_BOS] = v->add[HF_EOS] = 1;
        v->add[HF_SEP] = hf_same(type, "RobertaProcessing");
        if (names[HF_CLS].s == NULL) names[HF_CLS] = hf_string(infer_json_at(infer_json_get(p, "cls"), 0));
        if (names[HF_SEP].s == NULL) names[HF_SEP] = hf_string(infer_json_at(infer_json_get(p, "sep"), 0));
    } else if (hf_same(type, "TemplateProcessing")) {
        template_single(v, infer_json_get(p, "single"), &first, &last);
        template_pair(v, infer_json_get(p, "pair"), first, last);
    }
}

/* BERT's normalizers have keys of their own. */
static void normalizers(hf_vocab *v, const infer_json *rule, int depth) {
    const hf_text type = hf_string(infer_json_get(rule, "type"));
    const infer_json *list = infer_json_get(rule, "normalizers"), *lower = infer_json_get(rule, "lowercase");
    const infer_json *accents = infer_json_get(rule, "strip_accents");
    size_t i;
    if (hf_same(type, "Lowercase")) v->lowercase = 1;
    if (hf_same(type, "StripAccents")) v->strip_accents = 1;
    if (hf_same(type, "BertNormalizer") && is_switch(lower)) v->lowercase = infer_json_kind(lower) == INFER_JSON_TRUE;
    if (hf_same(type, "BertNormalizer") && is_switch(accents)) v->strip_accents = infer_json_kind(accents) == INFER_JSON_TRUE;
    if (!hf_same(type, "Sequence") || depth == 8) return;
    for (i = 0; i < infer_json_count(list); i++) normalizers(v, infer_json_at(list, i), depth + 1);
}

void hf_names(hf_vocab *v) {
    const infer_json *post = infer_json_get(v->tokenizer, "post_processor"), *list = infer_json_get(post, "processors");
    hf_text *names = v->names;
    size_t i;
    for (i = 0; i < HF_NAMED; i++) names[i] = name_in(v->settings, TEXT_KEYS[i]);
    if (v->tokenizer == NULL) return;
    normalizers(v, infer_json_get(v->tokenizer, "normalizer"), 0);
    if (names[HF_BOS].s == NULL) names[HF_BOS] = names[HF_CLS];
    if (names[HF_EOS].s == NULL) names[HF_EOS] = names[HF_SEP];
    if (list == NULL) processor(v, post);
    for (i = 0; i < infer_json_count(list); i++) processor(v, infer_json_at(list, i));
}

/* ---- ids ---- */

static void set(hf_vocab *v, int which, int64_t id) {
    if (v->special[which] >= 0 || id < 0) return;
    if ((uint64_t)id < v->n || (uint64_t)id < v->rows) v->special[which] = id;
    else hf_note(v, "a special token has the id %.0f, which no token has", (double)id);
}

/* The id that tokenizer.json's added tokens give a text, -1 = none. */
static int64_t added_id(const hf_vocab *v, hf_text text) {
    const infer_json *added = infer_json_get(v->tokenizer, "added_tokens");
    size_t i;
    if (text.s == NULL || infer_json_kind(added) != INFER_JSON_ARRAY) return -1;
    for (i = 0; i < infer_json_count(added); i++) {
        const infer_json *entry = infer_json_at(added, i), *id = infer_json_get(entry, "id");
        if (same(hf_string(infer_json_get(entry, "content")), text)) return infer_json_kind(id) == INFER_JSON_INT ? infer_json_int(id) : -1;
    }
    return -1;
}

static void set_id_of(hf_vocab *v, int which, const infer_json *id) {
    if (infer_json_kind(id) == INFER_JSON_INT) set(v, which, infer_json_int(id));
}

/* Tokens that end a reply in every program, because of their text. */
static int ends_by_text(hf_text t) {
    static const char *const TEXTS[] = {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<turn|>",
        "<|endoftext|>", "<|end_of_text|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "\xe2\x96\x81<EOT>", "[EOT]", "[EOS]",
        "<end_of_utterance>", "<eos>", "<|tool_response>", "[e~[",
        ("<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>")};
    size_t i;
    for (i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        if (hf_same(t, TEXTS[i])) return 1;
    return 0;
}

/* A list of ids that end a reply: the first is EOS where nothing else is; the others need a key when their text says nothing. */
static void eos_list(hf_vocab *v, const infer_json *list) {
    size_t i;
    if (infer_json_kind(list) != INFER_JSON_ARRAY) return;
    for (i = 0; i < infer_json_count(list) && i < 64; i++) {
        const infer_json *item = infer_json_at(list, i);
        const int64_t id = infer_json_int(item);
        if (infer_json_kind(item) != INFER_JSON_INT || id < 0 || (uint64_t)id >= v->n) continue;
        if (v->special[HF_EOS] < 0) v->special[HF_EOS] = id;
        if (id == v->special[HF_EOS] || id == v->special[HF_EOT] || id == v->special[HF_EOM] || id == v->special[HF_BOS]) continue;
        if (ends_by_text(v->tokens[id].text)) continue;
        set(v, v->special[HF_EOT] < 0 ? HF_EOT : HF_EOM, id);
    }
}

/* The unknown token, where the key's absence would mean another one: converters leave it out where bytes stand in for it. */
static void set_unknown(hf_vocab *v) {
    const int64_t usual = strcmp(v->model, "t5") == 0 ? 2 : 0;
    int64_t unknown = -1;
    size_t i;
    for (i = 0; i < v->n; i++) {
        if (v->tokens[i].type == HF_BYTE) return;
        if (v->tokens[i].type == HF_UNKNOWN && unknown < 0) unknown = (int64_t)i;
    }
    if (unknown != usual) set(v, HF_UNK, unknown);
}

int hf_specials(hf_vocab *v) {
    const int plain = strcmp(v->model, "llama") == 0 || strcmp(v->model, "t5") == 0; /* their types say which one is unknown */
    char key[32];
    int i;
    for (i = 0; i < HF_NAMED; i++) {
        const infer_json *add;
        snprintf(key, sizeof key, "add_%s", TEXT_KEYS[i]);
        add = infer_json_get(v->settings, key);
        if (v->add[i] < 0 && is_switch(add)) v->add[i] = infer_json_kind(add) == INFER_JSON_TRUE;
        set(v, i, added_id(v, v->names[i]));
        set_id_of(v, i, infer_json_get(v->config, ID_KEYS[i]));
    }
    if (!same(v->old_eos, v->names[HF_EOS])) set(v, HF_EOT, added_id(v, v->old_eos));
    for (i = 0; i < HF_NAMED; i++) {
        if (i == HF_UNK && plain) continue;
        if (v->special[i] < 0) set(v, i, hf_find(v, v->names[i]));
        if (v->special[i] < 0) set(v, i, hf_find(v, name_in(v->map, TEXT_KEYS[i])));
        set_id_of(v, i, infer_json_get(v->generation, ID_KEYS[i]));
    }
    if (plain && v->special[HF_UNK] < 0) set_unknown(v);
    return 1;
}

/* ---- what families have besides ---- */

int hf_family_in(const hf_vocab *v, const char *list) {
    const size_t n = strlen(v->family);
    const char *p = list;
    while (n && (p = strstr(p, v->family)) != NULL) {
        if ((p == list || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return 1;
        p += n;
    }
    return 0;
}

/* Purposes that no file of the folder names, by the token's text; a purpose that a file named stays. */
static const struct { const char *families; int which; const char *text; } BY_TEXT[] = {
    {"glm glm4 glm4v chatglm glmasr", HF_EOS, "<|endoftext|>"},
    {"glm glm4 glm4v chatglm glm4_moe glm4v_moe glm4_moe_lite glm_moe_dsa", HF_EOT, "<|user|>"},
    {"glm glm4 glm4v chatglm glm4_moe glm4v_moe glm4_moe_lite glm_moe_dsa", HF_UNK, "<|endoftext|>"},
    {"glm4 glm4v", HF_BOS, "<|endoftext|>"},
    {"glm4_moe glm4v_moe glm4_moe_lite glm_moe_dsa", HF_BOS, "[gMASK]"},
    {"glm4_moe glm4v_moe glm4_moe_lite glm_moe_dsa", HF_EOM, "<|observation|>"},
    {"solar_open", HF_EOS, "<|endoftext|>"},
    {"solar_open", HF_EOT, "<|endoftext|>"},
    {"solar_open", HF_UNK, "<unk>"},
    {"solar_open", HF_BOS, "<|startoftext|>"},
    {"dots3_note dots3", HF_EOT, "<|endofassistant|>"},
    {"muse_glimmer", HF_EOT, "<|eot|>"},
    {"gemma", HF_EOT, "<end_of_turn>"},
    {"gemma", HF_PREFIX, "<|fim_prefix|>"},
    {"gemma", HF_SUFFIX, "<|fim_suffix|>"},
    {"gemma", HF_MIDDLE, "<|fim_middle|>"},
    {"gpt_refact", HF_PREFIX, "<fim_prefix>"},
    {"gpt_refact", HF_SUFFIX, "<fim_suffix>"},
    {"gpt_refact", HF_MIDDLE, "<fim_middle>"},
    {"llama code_llama", HF_PREFIX, "\xe2\x96\x81<PRE>"},
    {"llama code_llama", HF_SUFFIX, "\xe2\x96\x81<SUF>"},
    {"llama code_llama", HF_MIDDLE, "\xe2\x96\x81<MID>"},
    {"llama code_llama", HF_EOT, "\xe2\x96\x81<EOT>"},
};

static const char GEMMA[] = "gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text gemma4 gemma4_text";
static const char ENCODERS[] = "bert distilbert roberta xlm-roberta camembert nomic_bert jina_bert new";
static const char SAYS_PREFIX[] = "llama mistral mixtral ministral ministral3 code_llama ernie4_5 ernie4_5_moe internlm2 internlm3 openpangu";

int hf_family_rows(hf_vocab *v) {
    const infer_json *prefix = infer_json_get(v->settings, "add_prefix_space"), *types = infer_json_get(v->config, "type_vocab_size");
    size_t i;
    for (i = 0; i < sizeof BY_TEXT / sizeof *BY_TEXT; i++) {
        hf_text text;
        text.s = BY_TEXT[i].text;
        text.n = strlen(text.s);
        if (v->special[BY_TEXT[i].which] < 0 && hf_family_in(v, BY_TEXT[i].families)) set(v, BY_TEXT[i].which, hf_find(v, text));
    }
    if (hf_family_in(v, "hunyuan_v1_dense") && infer_json_kind(infer_json_get(v->config, "eod_token_id")) == INFER_JSON_INT) {
        v->special[HF_EOS] = -1;
        set_id_of(v, HF_EOS, infer_json_get(v->config, "eod_token_id"));
    }
    eos_list(v, infer_json_get(v->config, "eos_token_id"));
    eos_list(v, infer_json_get(v->generation, "eos_token_id"));
    if (hf_family_in(v, GEMMA)) v->space_prefix = 0;
    if (strcmp(v->model, "gemma4") == 0 || hf_family_in(v, "llada")) v->add[HF_BOS] = 1;
    if (hf_family_in(v, "jamba") && v->spm == NULL) v->space_prefix = 0;
    if (hf_family_in(v, "llama") && v->rows == 49152) v->add[HF_BOS] = 0; /* Granite code */
    if (hf_family_in(v, "eurobert phi") && v->add[HF_BOS] < 0) v->add[HF_BOS] = 0;
    if (hf_family_in(v, "modernbert")) {
        if (v->add[HF_BOS] < 0) v->add[HF_BOS] = 1;
        if (v->add[HF_EOS] < 0) v->add[HF_EOS] = 1;
        if (v->add[HF_SEP] < 0) v->add[HF_SEP] = 1;
    }
    if (hf_family_in(v, SAYS_PREFIX) && is_switch(prefix)) v->space_prefix = infer_json_kind(prefix) == INFER_JSON_TRUE;
    if (strcmp(v->model, "bert") == 0 || hf_family_in(v, ENCODERS))
        v->token_types = infer_json_kind(types) == INFER_JSON_INT && infer_json_int(types) >= 0 ? infer_json_int(types) & INT32_MAX : 1;
    return 1;
}
