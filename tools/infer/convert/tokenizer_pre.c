/* tokenizer_pre.c: the pre-tokenizer's name, from the rules that tokenizer.json holds.
 *
 * The rules become a list of steps in one form, each an expression that cuts inside the pieces of the one before, and the list
 * is looked up (tokenizer_pre_tables.h). Rules that are not supported are refused with their text: a name that cuts differently
 * would give other ids without a word.
 */
#include "tokenizer_parts.h"
#include "tokenizer_pre_tables.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, DEPTH = 8 };

typedef struct rules {
    hf_vocab *v;
    const char *steps[STEPS + 1];
    int n;
    int bytes;       /* characters become bytes' characters */
    int space;       /* a space is put before a text */
    int failed;      /* out of memory */
    const char *bad; /* what is not understood */
} rules;

/* ---- expressions in one form ---- */

static char *replaced(hf_vocab *v, const char *s, const char *from, const char *to) {
    const size_t n = strlen(s), n_from = strlen(from), n_to = strlen(to);
    size_t count = 0, at = 0;
    const char *p;
    char *out;
    for (p = s; (p = strstr(p, from)) != NULL; p += n_from) count++;
    out = hf_bytes(v, n + count * n_to);
    if (out == NULL) return NULL;
    while ((p = strstr(s, from)) != NULL) {
        memcpy(out + at, s, (size_t)(p - s));
        at += (size_t)(p - s);
        memcpy(out + at, to, n_to);
        at += n_to;
        s = p + n_from;
    }
    strcpy(out + at, s);
    return out;
}

static int hex_digits(const char *s, size_t n, size_t most) {
    size_t i;
    for (i = 0; i < n && i < most && ((s[i] >= '0' && s[i] <= '9') || ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'f')); i++) { }
    return (int)i;
}

/* One character or escape of an expression in its usual spelling, to out (16 bytes). Returns how many bytes it takes of s. */
static size_t usual(const char *s, size_t n, char *out) {
    const unsigned char c = (unsigned char)s[0];
    const size_t more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    size_t i;
    if (c == '\r' || c == '\n' || c == '\t') {
        snprintf(out, 16, "\\%c", c == '\r' ? 'r' : c == '\n' ? 'n' : 't');
        return 1;
    }
    if (c >= 0xc0 && more < n) {
        uint32_t cp = c & (0x3f >> more);
        for (i = 1; i <= more; i++) cp = cp << 6 | ((unsigned char)s[i] & 63);
        snprintf(out, 16, "\\x{%lx}", (unsigned long)cp);
        return more + 1;
    }
    out[0] = (char)c;
    out[1] = 0;
    if (c != '\\' || n < 2) return 1;
    out[1] = s[1];
    out[2] = 0;
    return 2;
}

static int ends(const char *s, const char *end) { return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0; }

static const char *canonical(hf_vocab *v, hf_text regex) {
    char part[16], *out, *last;
    size_t i = 0, at = 0;
    if (memchr(regex.s, 0, regex.n) || regex.n > 65536) return regex.s;
    out = hf_bytes(v, 12 * regex.n); /* \x{10ffff} of two bytes or more */
    if (out == NULL) return NULL;
    while (i < regex.n) {
        if (regex.s[i] == '\\' && i + 6 <= regex.n && regex.s[i + 1] == 'u' && hex_digits(regex.s + i + 2, 4, 4) == 4) {
            char digits[5];
            memcpy(digits, regex.s + i + 2, 4);
            digits[4] = 0;
            snprintf(part, sizeof part, "\\x{%lx}", strtoul(digits, NULL, 16));
            i += 6;
        } else {
            i += usual(regex.s + i, regex.n - i, part);
        }
        memcpy(out + at, part, strlen(part));
        at += strlen(part);
    }
    out[at] = 0;
    for (i = 0; i < sizeof SPELLINGS / sizeof *SPELLINGS && out; i++)
        if (strstr(out, SPELLINGS[i].from)) out = replaced(v, out, SPELLINGS[i].from, SPELLINGS[i].to);
    if (out == NULL) return NULL;
    /* what \s+(?!\S) leaves is one character before a word: a piece whether or not an alternative names it */
    last = ends(out, "|\\s+(?!\\S)|\\s+") ? out + strlen(out) - 4 : ends(out, "|\\s+(?!\\S)|\\s") ? out + strlen(out) - 3 : NULL;
    if (last) *last = 0;
    return out;
}

/* ---- the steps of a pre-tokenizer ---- */

static void step(rules *r, const char *text) {
    if (text == NULL) r->failed = 1;
    else if (r->n == STEPS) r->bad = "more than six steps";
    else r->steps[r->n++] = text;
}

static int is(const infer_json *v, const char *name, int usually) {
    const infer_json *flag = infer_json_get(v, name);
    return flag == NULL ? usually : infer_json_kind(flag) == INFER_JSON_TRUE;
}

static void split_step(rules *r, const infer_json *rule) {
    const hf_text regex = hf_string(infer_json_get(infer_json_get(rule, "pattern"), "Regex"));
    const hf_text behavior = hf_string(infer_json_get(rule, "behavior"));
    const int invert = is(rule, "invert", 0);
    if (regex.s == NULL) {
        r->bad = "Split by a text";
    } else if (hf_same(behavior, "Isolated") || (hf_same(behavior, "Removed") && invert && ends(regex.s, "|\\s+"))) {
        step(r, canonical(r->v, regex)); /* of expressions that match everything, nothing is removed */
    } else {
        r->bad = "Split that is not Isolated";
    }
}

static void collect(rules *r, const infer_json *rule, int depth) {
    const hf_text type = hf_string(infer_json_get(rule, "type"));
    const infer_json *list = infer_json_get(rule, "pretokenizers");
    size_t i;
    if (r->bad || r->failed || infer_json_kind(rule) == INFER_JSON_NULL) return;
    if (hf_same(type, "Sequence")) {
        if (depth == DEPTH) r->bad = "nested too deeply";
        for (i = 0; i < infer_json_count(list) && depth < DEPTH; i++) collect(r, infer_json_at(list, i), depth + 1);
    } else if (hf_same(type, "Split")) {
        split_step(r, rule);
    } else if (hf_same(type, "Digits")) {
        step(r, is(rule, "individual_digits", 0) ? DIGIT : DIGITS);
    } else if (hf_same(type, "Punctuation")) {
        const hf_text behavior = hf_string(infer_json_get(rule, "behavior"));
        if (hf_same(behavior, "Contiguous")) step(r, PUNCTUATIONS);
        else if (behavior.s == NULL || hf_same(behavior, "Isolated")) step(r, PUNCTUATION);
        else r->bad = "Punctuation of another kind";
    } else if (hf_same(type, "ByteLevel")) {
        r->bytes = 1;
        r->space |= is(rule, "add_prefix_space", 1);
        if (is(rule, "use_regex", 1)) step(r, GPT2);
    } else {
        r->bad = type.s ? type.s : "no type";
    }
}

/* ---- what changes characters before that ---- */

/* NULL when GGUF files can say it or, as with NFC, leave it to the text; else what is not supported. */
static const char *normalizer(hf_vocab *v, const infer_json *rule, int depth) {
    const hf_text type = hf_string(infer_json_get(rule, "type"));
    const infer_json *list = infer_json_get(rule, "normalizers");
    const char *bad = NULL;
    size_t i;
    if (infer_json_kind(rule) == INFER_JSON_NULL || hf_same(type, "NFC")) return NULL;
    if (hf_same(type, "Sequence")) {
        for (i = 0; i < infer_json_count(list) && depth < DEPTH && !bad; i++) bad = normalizer(v, infer_json_at(list, i), depth + 1);
        return depth == DEPTH ? "nested too deeply" : bad;
    }
    if (hf_same(type, "Lowercase") || hf_same(type, "StripAccents") || hf_same(type, "BertNormalizer")) return NULL;
    return type.s ? type.s : "no type";
}

static const char *refuse(const hf_vocab *v, const infer_json *rule, const char *what, const char *why) {
    char text[640];
    size_t n = 0;
    if (infer_json_write(rule, -1, text, sizeof text, &n) != INFER_OK) n = 0;
    if (n == 0) text[0] = 0;
    cli_fail(v->command, "%s/tokenizer.json: GGUF files have no name for this %s (%.60s): %s%s; --pre NAME takes the rules of NAME",
             v->folder, what, why, text, n >= sizeof text ? "..." : "");
    return NULL;
}

/* ---- which name ---- */

static int same_steps(const pre_row *row, const rules *r) {
    int i;
    for (i = 0; i < r->n; i++)
        if (row->steps[i] == NULL || strcmp(row->steps[i], r->steps[i]) != 0) return 0;
    return i == STEPS || row->steps[i] == NULL;
}

const char *hf_pre_find(hf_vocab *v) {
    const infer_json *pre = infer_json_get(v->tokenizer, "pre_tokenizer"), *norm = infer_json_get(v->tokenizer, "normalizer");
    const int ignore = infer_json_kind(infer_json_get(infer_json_get(v->tokenizer, "model"), "ignore_merges")) == INFER_JSON_TRUE;
    const pre_row *other = NULL;
    const char *bad = normalizer(v, norm, 0);
    rules r;
    size_t i;
    if (bad) return refuse(v, norm, "normalizer", bad);
    memset(&r, 0, sizeof r);
    r.v = v;
    collect(&r, pre, 0);
    if (r.failed) return NULL;
    if (!r.bad && !r.bytes) r.bad = "no ByteLevel";
    if (r.bad) return refuse(v, pre, "pre_tokenizer", r.bad);
    if (r.space) hf_note(v, "tokenizer.json: add_prefix_space is left out: no space is put before texts");
    for (i = 0; i < sizeof PRE_ROWS / sizeof *PRE_ROWS; i++) {
        const pre_row *row = &PRE_ROWS[i];
        if ((row->families && !hf_family_in(v, row->families)) || !same_steps(row, &r)) continue;
        if (row->ignore == 2 || row->ignore == ignore) return row->name;
        other = row;
    }
    if (other == NULL) return refuse(v, pre, "pre_tokenizer", "unknown rules");
    hf_note(v, "tokenizer.json: the pre-tokenizer '%s' has these rules, but ignore_merges is %s there: words that no merges make may differ",
            other->name, ignore ? "off" : "on");
    return other->name;
}

/* ---- BPE on marked text ---- */

static int is_mark(hf_text t) { return hf_same(t, "\xe2\x96\x81"); }

/* 0 when a rule is not one of those of Llama 2 and Gemma. */
static int marked_normalizer(const infer_json *rule, hf_marked *out, int depth) {
    const hf_text type = hf_string(infer_json_get(rule, "type"));
    const infer_json *list = infer_json_get(rule, "normalizers");
    size_t i;
    if (infer_json_kind(rule) == INFER_JSON_NULL) return 1;
    if (hf_same(type, "Sequence")) {
        for (i = 0; i < infer_json_count(list); i++)
            if (depth == DEPTH || !marked_normalizer(infer_json_at(list, i), out, depth + 1)) return 0;
        return 1;
    }
    if (hf_same(type, "Prepend")) {
        out->prefix = 1;
        return is_mark(hf_string(infer_json_get(rule, "prepend")));
    }
    out->marks = 1;
    return hf_same(type, "Replace") && hf_same(hf_string(infer_json_get(infer_json_get(rule, "pattern"), "String")), " ") &&
           is_mark(hf_string(infer_json_get(rule, "content")));
}

static int marked_pre(const infer_json *rule, hf_marked *out) {
    const hf_text type = hf_string(infer_json_get(rule, "type")), scheme = hf_string(infer_json_get(rule, "prepend_scheme"));
    if (infer_json_kind(rule) == INFER_JSON_NULL) return 1;
    if (hf_same(type, "Metaspace")) {
        out->marks = 1;
        out->prefix = out->unless = scheme.s ? !hf_same(scheme, "never") : is(rule, "add_prefix_space", 1);
        return !is(rule, "split", 1);
    }
    out->by_space = 1; /* behind the normalizer there are no spaces: no cut is ever made */
    return hf_same(type, "Split") && hf_same(hf_string(infer_json_get(infer_json_get(rule, "pattern"), "String")), " ") &&
           hf_same(hf_string(infer_json_get(rule, "behavior")), "MergedWithPrevious");
}

int hf_marked_rules(hf_vocab *v, hf_marked *out) {
    const infer_json *pre = infer_json_get(v->tokenizer, "pre_tokenizer"), *norm = infer_json_get(v->tokenizer, "normalizer");
    memset(out, 0, sizeof *out);
    if (!marked_normalizer(norm, out, 0)) return refuse(v, norm, "normalizer", "BPE with byte fallback"), 0;
    if (!marked_pre(pre, out)) return refuse(v, pre, "pre_tokenizer", "BPE with byte fallback"), 0;
    if (!out->marks) return refuse(v, norm, "normalizer", "spaces are not marked"), 0;
    return 1;
}
