/* vocab.c: the tokens of a file: texts, flags, special ids.
 *
 * Owns:  everything about tokens except the algorithms: text -> token (a hash table over views of the file), flags,
 *        special ids, tokens that end a reply, the bytes of a token.
 * Rules: every array of the file is checked against the number of tokens before use; an id out of range is ignored with
 *        a line in the log. Does not know how texts are split or merged.
 * Invariants: when it is open nothing changes, so threads may share it.
 * Format: the tokenizer keys of the GGUF specification; marker texts are those that published models use.
 * Start: infer__vocab_begin, infer__vocab_step.
 */
#include "../text.h"

enum {
    INFER__TOKEN_TYPES = INFER_TOKEN_NORMAL | INFER_TOKEN_UNKNOWN | INFER_TOKEN_CONTROL | INFER_TOKEN_USER |
                         INFER_TOKEN_UNUSED | INFER_TOKEN_BYTE,
    INFER__PROBES_MAX = 2048   /* at load 3/4 a run of 300 is already unlikely: longer ones are attacks */
};

/* What a kind has when no key says otherwise: ids (-1 = none) and switches (-1 = another part decides). The ids are the
 * places where the first vocabulary of the kind has them; llama.cpp assumes the same. */
typedef struct infer__vocab_model {
    const char *name; /* tokenizer.ggml.model */
    int8_t kind, bos, eos, unk, sep, pad, mask, add_bos, add_eos, add_sep, add_space_prefix;
} infer__vocab_model;
#if defined(INFER_ONLY_TOKENIZERS)
#  define INFER__VOCAB_MODEL(name, ...) INFER__IF(INFER_TOKENIZER_##name, {#name, __VA_ARGS__},)
#else
#  define INFER__VOCAB_MODEL(name, ...) {#name, __VA_ARGS__},
#endif
static const infer__vocab_model INFER__VOCAB_MODELS[] = {
    INFER__VOCAB_MODEL(llama, INFER__VOCAB_SPM,    1,   2,  0,   -1,  -1, -1,  1,  0, 0, 1)
    INFER__VOCAB_MODEL(gpt2, INFER__VOCAB_BPE,    -1,  -1, -1,  -1,  -1, -1,  -1, 0, 0, 0)
    INFER__VOCAB_MODEL(gemma4, INFER__VOCAB_BPE,    -1,  -1, -1,  -1,  -1, -1,  -1, 0, 0, 0)
    INFER__VOCAB_MODEL(whitespace, INFER__VOCAB_BPE,  -1,  -1, -1,  -1,  -1, -1,  -1, 0, 0, 0)
    INFER__VOCAB_MODEL(bert, INFER__VOCAB_WPM,    101, -1, 100, 102, 0,  103, 1,  0, 1, 0)
    INFER__VOCAB_MODEL(t5, INFER__VOCAB_UGM,    -1,  1,  2,   -1,  0,  -1,  0,  1, 0, 0)
    INFER__VOCAB_MODEL(rwkv, INFER__VOCAB_RWKV,   -1,  -1, -1,  -1,  -1, -1,  0,  0, 0, 0)
    INFER__VOCAB_MODEL(plamo2, INFER__VOCAB_PLAMO2, 1,   2,  0,   -1,  3,  -1,  0,  0, 0, 0)
    {"none",     INFER__VOCAB_NONE,   -1,  -1, -1,  -1,  -1, -1,  0,  0, 0, 0},
    {"no_vocab", INFER__VOCAB_NONE,   -1,  -1, -1,  -1,  -1, -1,  0,  0, 0, 0},
    {"",         INFER__VOCAB_OTHER,  -1,  -1, -1,  -1,  -1, -1,  0,  0, 0, 0} /* any other: cannot tokenize */
};
#undef INFER__VOCAB_MODEL

/* Ids specified by keys. The second row of a kind is an older name of the key. */
static const struct { const char *key; int which; } INFER__SPECIAL_KEYS[] = {
    {"tokenizer.ggml.bos_token_id", INFER_SPECIAL_BOS},
    {"tokenizer.ggml.eos_token_id", INFER_SPECIAL_EOS},
    {"tokenizer.ggml.eot_token_id", INFER_SPECIAL_EOT},
    {"tokenizer.ggml.eom_token_id", INFER_SPECIAL_EOM},
    {"tokenizer.ggml.unknown_token_id", INFER_SPECIAL_UNK},
    {"tokenizer.ggml.seperator_token_id", INFER_SPECIAL_SEP}, /* as llama.cpp spells it; then the specification */
    {"tokenizer.ggml.separator_token_id", INFER_SPECIAL_SEP},
    {"tokenizer.ggml.padding_token_id", INFER_SPECIAL_PAD},
    {"tokenizer.ggml.cls_token_id", INFER_SPECIAL_CLS},
    {"tokenizer.ggml.mask_token_id", INFER_SPECIAL_MASK},
#if INFER__HAS_FILL
    {"tokenizer.ggml.prefix_token_id", INFER_SPECIAL_FIM_PRE},
    {"tokenizer.ggml.suffix_token_id", INFER_SPECIAL_FIM_SUF},
    {"tokenizer.ggml.middle_token_id", INFER_SPECIAL_FIM_MID},
    {"tokenizer.ggml.fim_pre_token_id", INFER_SPECIAL_FIM_PRE},
    {"tokenizer.ggml.fim_suf_token_id", INFER_SPECIAL_FIM_SUF},
    {"tokenizer.ggml.fim_mid_token_id", INFER_SPECIAL_FIM_MID},
#endif
    {"tokenizer.ggml.fim_pad_token_id", INFER_SPECIAL_FIM_PAD},
    {"tokenizer.ggml.fim_rep_token_id", INFER_SPECIAL_FIM_REP},
    {"tokenizer.ggml.fim_sep_token_id", INFER_SPECIAL_FIM_SEP}
};

/* Texts that say what a token is for, best first: used where no key gives the id. DeepSeek writes its markers with
 * U+FF5C and U+2581. */
#define INFER__BAR "\xef\xbd\x9c"
static const struct { const char *text; int which; } INFER__SPECIAL_TEXTS[] = {
    {"<|eot_id|>", INFER_SPECIAL_EOT}, {"<|im_end|>", INFER_SPECIAL_EOT}, {"<|end|>", INFER_SPECIAL_EOT},
    {"<end_of_turn>", INFER_SPECIAL_EOT}, {"<|endoftext|>", INFER_SPECIAL_EOT}, {"<|end_of_text|>", INFER_SPECIAL_EOT},
    {"<EOT>", INFER_SPECIAL_EOT}, {"_<EOT>", INFER_SPECIAL_EOT}, {INFER__SPACE_MARK "<EOT>", INFER_SPECIAL_EOT},
    {"<" INFER__BAR "end" INFER__SPACE_MARK "of" INFER__SPACE_MARK "sentence" INFER__BAR ">", INFER_SPECIAL_EOT},
    {"<end_of_utterance>", INFER_SPECIAL_EOT}, {"[EOT]", INFER_SPECIAL_EOT},
    {"<|eom_id|>", INFER_SPECIAL_EOM},
#if INFER__HAS_FILL
    {"<|fim_prefix|>", INFER_SPECIAL_FIM_PRE}, {"<fim-prefix>", INFER_SPECIAL_FIM_PRE},
    {"<fim_prefix>", INFER_SPECIAL_FIM_PRE}, {"<PRE>", INFER_SPECIAL_FIM_PRE},
    {"<" INFER__BAR "fim" INFER__SPACE_MARK "begin" INFER__BAR ">", INFER_SPECIAL_FIM_PRE},
    {INFER__SPACE_MARK "<PRE>", INFER_SPECIAL_FIM_PRE}, {"<|code_prefix|>", INFER_SPECIAL_FIM_PRE},
    {"<|prefix|>", INFER_SPECIAL_FIM_PRE},
    {"<|fim_suffix|>", INFER_SPECIAL_FIM_SUF}, {"<fim-suffix>", INFER_SPECIAL_FIM_SUF},
    {"<fim_suffix>", INFER_SPECIAL_FIM_SUF}, {"<SUF>", INFER_SPECIAL_FIM_SUF},
    {"<" INFER__BAR "fim" INFER__SPACE_MARK "hole" INFER__BAR ">", INFER_SPECIAL_FIM_SUF},
    {INFER__SPACE_MARK "<SUF>", INFER_SPECIAL_FIM_SUF}, {"<|code_suffix|>", INFER_SPECIAL_FIM_SUF},
    {"<|suffix|>", INFER_SPECIAL_FIM_SUF},
    {"<|fim_middle|>", INFER_SPECIAL_FIM_MID}, {"<fim-middle>", INFER_SPECIAL_FIM_MID},
    {"<fim_middle>", INFER_SPECIAL_FIM_MID}, {"<MID>", INFER_SPECIAL_FIM_MID},
    {"<" INFER__BAR "fim" INFER__SPACE_MARK "end" INFER__BAR ">", INFER_SPECIAL_FIM_MID},
    {INFER__SPACE_MARK "<MID>", INFER_SPECIAL_FIM_MID}, {"<|code_middle|>", INFER_SPECIAL_FIM_MID},
    {"<|middle|>", INFER_SPECIAL_FIM_MID},
#endif
    {"<|fim_pad|>", INFER_SPECIAL_FIM_PAD}, {"<fim-pad>", INFER_SPECIAL_FIM_PAD}, {"<fim_pad>", INFER_SPECIAL_FIM_PAD},
    {"<PAD>", INFER_SPECIAL_FIM_PAD}, {"[PAD]", INFER_SPECIAL_FIM_PAD},
    {"<|fim_repo|>", INFER_SPECIAL_FIM_REP}, {"<|repo_name|>", INFER_SPECIAL_FIM_REP},
    {"<fim-repo>", INFER_SPECIAL_FIM_REP}, {"<REPO>", INFER_SPECIAL_FIM_REP}, {"<reponame>", INFER_SPECIAL_FIM_REP},
    {"<|file_sep|>", INFER_SPECIAL_FIM_SEP}
};

/* Tokens with these texts end a reply, whatever the keys say, and are control tokens, whatever their type says. */
static const char *const INFER__END_TEXTS[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<turn|>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>",
    INFER__SPACE_MARK "<EOT>", "[EOT]", "[EOS]", "<end_of_utterance>", "<eos>", "<|tool_response>", "[e~[",
    "<" INFER__BAR "end" INFER__SPACE_MARK "of" INFER__SPACE_MARK "sentence" INFER__BAR ">"
};
#undef INFER__BAR

/* So do tokens for these purposes: after them a model goes on with another file. */
static const int INFER__END_SPECIALS[] = {
    INFER_SPECIAL_EOS, INFER_SPECIAL_EOT, INFER_SPECIAL_EOM, INFER_SPECIAL_FIM_PAD, INFER_SPECIAL_FIM_REP,
    INFER_SPECIAL_FIM_SEP
};

/* ---- text -> token ------------------------------------------------------------------------------- */

/* 64 bits of s mixed by multiplications (constants: SplitMix64's); the upper half is the hash. */
static uint32_t infer__vocab_hash(const char *s, size_t n) {
    uint64_t h = 0x9e3779b97f4a7c15u ^ n, last;
    size_t i;
    for (i = 0; i + 8 < n; i += 8) {
        h = (h ^ infer__load_u64(s + i)) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 32;
    }
    if (n >= 8) last = infer__load_u64(s + n - 8);
    else if (n >= 4) last = (uint64_t)infer__load_u32(s) << 32 | infer__load_u32(s + n - 4);
    else if (n > 0) last = (uint64_t)(uint8_t)s[0] << 16 | (uint64_t)(uint8_t)s[n / 2] << 8 | (uint8_t)s[n - 1];
    else last = 0;
    h = (h ^ last) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 32) * 0x94d049bb133111ebu;
    return (uint32_t)(h >> 32);
}

static int infer__vocab_is(const infer__vocab *v, int32_t token, const char *s, size_t n) {
    return v->text[token].n == n && memcmp(v->text[token].s, s, n) == 0;
}

/* Where a search begins. Of the hash the lowest bits, which count least for this, are kept in the slot. */
INFER__INLINE uint32_t infer__vocab_slot(const infer__vocab *v, uint32_t hash) {
    return (uint32_t)((uint64_t)hash * v->n_slots >> 32);
}

/* The token that a search for this hash sees first, whatever its text, for asking for memory in advance; -1 = none. */
INFER__INLINE int32_t infer__vocab_guess(const infer__vocab *v, uint32_t hash) {
    uint32_t slot = v->slots[infer__vocab_slot(v, hash)];
    return slot == UINT32_MAX ? -1 : (int32_t)(slot & (((uint32_t)1 << v->token_bits) - 1));
}

/* infer__vocab_find when the hash is known. */
static int32_t infer__vocab_find_hashed(const infer__vocab *v, const char *s, size_t n, uint32_t hash) {
    const uint32_t token_mask = ((uint32_t)1 << v->token_bits) - 1;
    uint32_t i, slot;
    if (n == 0 || n > v->longest) return -1;
    for (i = infer__vocab_slot(v, hash); (slot = v->slots[i]) != UINT32_MAX; i = i + 1 < v->n_slots ? i + 1 : 0) {
        if ((slot ^ hash << v->token_bits) <= token_mask && infer__vocab_is(v, (int32_t)(slot & token_mask), s, n)) {
            return (int32_t)(slot & token_mask);
        }
    }
    return -1;
}

static int32_t infer__vocab_find(const infer__vocab *v, const char *s, size_t n) {
    return n == 0 || n > v->longest ? -1 : infer__vocab_find_hashed(v, s, n, infer__vocab_hash(s, n));
}

/* The table, to be emptied. */
static infer_result infer__vocab_slots(infer__vocab *v, infer_error *err) {
    v->token_bits = 1;
    while (v->n >= (int32_t)(((uint32_t)1 << v->token_bits) - 1)) v->token_bits++; /* n < 2^30; all ones is no token */
    v->n_slots = (uint32_t)v->n + (uint32_t)v->n / 3 + 16;
    v->slots = (uint32_t *)infer__alloc(v->mem, (uint64_t)v->n_slots * sizeof *v->slots);
    return v->slots ? INFER_OK : infer__error(err, INFER_ERR_MEMORY, "out of memory for %d tokens", (int)v->n);
}

/* Tokens from .. to - 1 into the table. */
static infer_result infer__vocab_index(infer__vocab *v, int32_t from, int32_t to, infer_error *err) {
    const uint32_t token_mask = ((uint32_t)1 << v->token_bits) - 1;
    int32_t t;
    for (t = from; t < to; t++) {
        const infer__str *s = &v->text[t];
        uint32_t hash, i, slot, probes = 0;
        if (s->n == 0) continue;
        if (s->n > v->longest) v->longest = s->n;
        hash = infer__vocab_hash(s->s, (size_t)s->n);
        for (i = infer__vocab_slot(v, hash); (slot = v->slots[i]) != UINT32_MAX; i = i + 1 < v->n_slots ? i + 1 : 0) {
            if ((slot ^ hash << v->token_bits) <= token_mask &&
                infer__vocab_is(v, (int32_t)(slot & token_mask), s->s, (size_t)s->n)) {
                break;
            }
            if (++probes > INFER__PROBES_MAX) {
                return infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.tokens: too many texts with one hash");
            }
        }
        v->slots[i] = hash << v->token_bits | (uint32_t)t;
    }
    return INFER_OK;
}

/* ---- marked tokens --------------------------------------------------------------------------------- */

/* By text; equal texts by id, so that the last one of a run is the one to use. */
static int infer__marked_after(const infer__vocab *v, int32_t a, int32_t b) {
    uint64_t na = v->text[a].n, nb = v->text[b].n;
    int c = memcmp(v->text[a].s, v->text[b].s, (size_t)INFER__MIN(na, nb));
    if (c != 0) return c > 0;
    return na != nb ? na > nb : a > b;
}

/* Heap sort: no recursion, no worst case, no memory. Steps `from` .. to - 1 of n / 2 + n - 1. */
static void infer__marked_sort(const infer__vocab *v, int32_t *a, int32_t n, int32_t from, int32_t to) {
    int32_t start = INFER__MAX(n / 2 - from, 0), end = INFER__MIN(n + n / 2 - from, n);
    for (; from < to; from++) {
        int32_t root, child, x;
        if (start > 0) {
            x = a[--start];
        } else {
            x = a[--end];
            a[end] = a[0];
        }
        for (root = start; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && infer__marked_after(v, a[child + 1], a[child])) child++;
            if (!infer__marked_after(v, a[child], x)) break;
            a[root] = a[child];
        }
        a[root] = x;
    }
}

enum { INFER__MARKED_MOST = 1 << 18 }; /* sorting more would take seconds; vocabularies have some thousands */

/* Which kinds of marked tokens this one is, 0 = none. A normal token in brackets may turn out to be a template's mark
 * (token_structure.c). */
static int infer__vocab_mark_kinds(const infer__vocab *v, int32_t token) {
    const infer__str *s = &v->text[token];
    int flags = v->flags[token];
    if (!(flags & INFER_TOKEN_NORMAL)) return flags & (INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN | INFER_TOKEN_USER);
    if (s->n < 3 || (s->s[0] != '<' && s->s[0] != '[')) return 0;
    return s->s[s->n - 1] == (s->s[0] == '<' ? '>' : ']') ? INFER_TOKEN_NORMAL : 0;
}

static int32_t infer__vocab_mark_count(const infer__vocab *v, int32_t from, int32_t to) {
    int32_t t, n = 0;
    for (t = from; t < to; t++) n += infer__vocab_mark_kinds(v, t) != 0;
    return n;
}

/* Room for n marked tokens. */
static infer_result infer__vocab_mark_room(infer__vocab *v, int32_t n, infer_error *err) {
    if (n > INFER__MARKED_MOST)
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "key tokenizer.ggml.token_type: %d special tokens, more than %d", (int)n,
                            (int)INFER__MARKED_MOST);
    if (n == 0) return INFER_OK;
    v->marked = (int32_t *)infer__alloc(v->mem, (uint64_t)n * sizeof *v->marked);
    return v->marked ? INFER_OK : infer__error(err, INFER_ERR_MEMORY, "out of memory for %d special tokens", (int)n);
}

/* Those of tokens from .. to - 1, not yet sorted. Returns how many special ones are too long. */
static int32_t infer__vocab_mark(infer__vocab *v, int32_t from, int32_t to) {
    int32_t t, too_long = 0;
    for (t = from; t < to; t++) {
        int kinds = infer__vocab_mark_kinds(v, t);
        if (!kinds || v->text[t].n == 0) continue;
        if (infer__vocab_kind(v, INFER__VOCAB_RWKV) && memchr(v->text[t].s, '\\', (size_t)v->text[t].n))
            continue; /* escaped */
        if (v->text[t].n > INFER__MARKED_LONGEST) {
            too_long += kinds != INFER_TOKEN_NORMAL;
            continue;
        }
        v->marked[v->n_marked++] = t;
        v->marked_kinds[(uint8_t)v->text[t].s[0]] |= (uint8_t)kinds;
    }
    return too_long;
}

/* Where each first byte begins, when they are sorted. */
static void infer__vocab_mark_end(infer__vocab *v) {
    int32_t t, b = 0;
    for (t = 0; t < v->n_marked; t++) {
        int32_t first = (uint8_t)v->text[v->marked[t]].s[0];
        while (b <= first) v->marked_from[b++] = t;
    }
    while (b <= 256) v->marked_from[b++] = v->n_marked;
}

/* First of marked[lo..hi) whose byte `depth` is at least `byte`; their first `depth` bytes are equal. */
static int32_t infer__marked_bound(const infer__vocab *v, int32_t lo, int32_t hi, size_t depth, int byte) {
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if ((uint8_t)v->text[v->marked[mid]].s[depth] < byte) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* 1 when a token is of these kinds, and `never` (may be NULL) has no bit for it. */
INFER__INLINE int infer__marked_is(const infer__vocab *v, int32_t token, int kinds, const uint8_t *never) {
    return (v->flags[token] & kinds) && !(never && (never[token >> 3] >> (token & 7) & 1));
}

static int32_t infer__vocab_marked(const infer__vocab *v, const char *s, size_t n, int kinds, const uint8_t *never) {
    uint8_t first = (uint8_t)s[0];
    int32_t lo = v->marked_from[first], hi = v->marked_from[first + 1], best = -1;
    size_t depth = 1;

    if (!(v->marked_kinds[first] & kinds)) return -1;
    while (lo < hi) { /* the range of texts that begin with s[0..depth) */
        for (; lo < hi && v->text[v->marked[lo]].n == depth; lo++) {
            if (infer__marked_is(v, v->marked[lo], kinds, never)) best = v->marked[lo];
        }
        if (depth >= n || lo >= hi) break;
        if (hi - lo == 1) {
            const infer__str *t = &v->text[v->marked[lo]];
            if (infer__marked_is(v, v->marked[lo], kinds, never) && t->n <= n &&
                memcmp(t->s + depth, s + depth, (size_t)t->n - depth) == 0) {
                best = v->marked[lo];
            }
            break;
        }
        lo = infer__marked_bound(v, lo, hi, depth, (uint8_t)s[depth]);
        hi = infer__marked_bound(v, lo, hi, depth, (uint8_t)s[depth] + 1);
        depth++;
    }
    return best;
}

/* ---- bytes <-> text -------------------------------------------------------------------------------- */

/* GPT-2 writes the bytes of its tokens as printable characters: 21..7E, A1..AC, AE..FF are themselves, the other 68 are
 * U+0100 and on in order. */
static uint32_t infer__byte_to_char(uint8_t b) {
    if (b < 0x21) return 0x100u + b;
    if (b >= 0x7f && b <= 0xa0) return 0x121u + b - 0x7f;
    return b == 0xad ? 0x143 : b;
}

/* The byte, or -1 when cp is not in that alphabet. */
static int infer__char_to_byte(uint32_t cp) {
    if (cp <= 0xff) return cp < 0x21 || (cp >= 0x7f && cp <= 0xa0) || cp == 0xad ? -1 : (int)cp;
    if (cp < 0x121) return (int)(cp - 0x100);
    if (cp < 0x143) return (int)(cp - 0x121 + 0x7f);
    return cp == 0x143 ? 0xad : -1;
}

static int infer__hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* The byte that "<0xAB>" names, -1 for other texts. */
static int infer__byte_token_value(const infer__str *t) {
    int high, low;
    if (t->n != 6 || memcmp(t->s, "<0x", 3) != 0 || t->s[5] != '>') return -1;
    high = infer__hex_digit(t->s[3]);
    low = infer__hex_digit(t->s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* \t, \n, \r, \xAB; what else stands after a backslash is itself. */
static size_t infer__unescape_one(const char *s, size_t n, char *out) {
    const char *known = "tnr", *as = "\t\n\r", *hit;
    *out = s[0];
    if (s[0] != '\\' || n < 2) return 1;
    *out = s[1];
    if (s[1] == 'x' && n >= 4 && infer__hex_digit(s[2]) >= 0 && infer__hex_digit(s[3]) >= 0) {
        *out = (char)(infer__hex_digit(s[2]) * 16 + infer__hex_digit(s[3]));
        return 4;
    }
    hit = s[1] ? strchr(known, s[1]) : NULL;
    if (hit) *out = as[hit - known];
    return 2;
}
static size_t infer__vocab_unescape(const infer__str *t, char *out, size_t cap) {
    size_t at = 0, len = 0;
    char c;
    while (at < t->n) {
        at += infer__unescape_one(t->s + at, (size_t)t->n - at, &c);
        if (len < cap) out[len] = c;
        len++;
    }
    return len;
}

static size_t infer__vocab_piece(const infer__vocab *v, int32_t token, size_t skip, char *out, size_t cap) {
    const infer__str *t = &v->text[token];
    int flags = v->flags[token], plain = (flags & (INFER_TOKEN_NORMAL | INFER_TOKEN_UNUSED)) != 0;
    int marks = infer__vocab_kind(v, INFER__VOCAB_SPM) || infer__vocab_kind(v, INFER__VOCAB_WPM) ||
                infer__vocab_kind(v, INFER__VOCAB_UGM) || v->form == INFER__FORM_MARKED;
    size_t at = 0, len = 0, step;

    while (at < t->n) {
        char c = t->s[at];
        step = 1;
        if (flags & INFER_TOKEN_BYTE) {
            c = (char)infer__byte_token_value(t);
            step = (size_t)t->n;
        } else if (infer__vocab_kind(v, INFER__VOCAB_RWKV)) {
            step = infer__unescape_one(t->s + at, (size_t)t->n - at, &c);
        } else if (plain && marks && t->n - at >= 3 && memcmp(t->s + at, INFER__SPACE_MARK, 3) == 0) {
            c = ' ';
            step = 3;
        } else if (plain && infer__vocab_kind(v, INFER__VOCAB_BPE) && v->form == INFER__FORM_BYTES &&
                   (uint8_t)c >= 0x80) {
            int byte = infer__char_to_byte(infer__utf8_next(t->s + at, (size_t)t->n - at, &step, NULL));
            if (byte < 0) step = 1; /* not in the alphabet: as it is */
            else c = (char)byte;
        }
        at += step;
        if (skip > 0) {
            skip--;
            continue;
        }
        if (len < cap) out[len] = c;
        len++;
    }
    return len;
}

static void infer__vocab_bytes(infer__vocab *v) {
    static const char HEX[] = "0123456789ABCDEF";
    int b;
    for (b = 0; b < 256; b++) {
        char name[8] = "<0x00>", one[4];
        int32_t t;
        if (infer__vocab_kind(v, INFER__VOCAB_BPE) && v->form == INFER__FORM_BYTES) {
            t = infer__vocab_find(v, one, infer__utf8_put(infer__byte_to_char((uint8_t)b), one));
            if (t >= 0 && (v->flags[t] & INFER__TOKEN_NEVER_TEXT)) t = -1;
        } else {
            name[3] = HEX[b >> 4];
            name[4] = HEX[b & 15];
            t = infer__vocab_find(v, name, 6);
            if (t >= 0 && !(v->flags[t] & INFER_TOKEN_BYTE)) t = -1;
        }
        v->byte_token[b] = t;
    }
}

/* ---- flags and special ids -------------------------------------------------------------------------- */

/* What text becomes where it has no token: the unknown token, unless that has another role too. GPT-2's is its end of
 * text: a text must not end a reply by a byte that has no token. */
static void infer__vocab_unknown(infer__vocab *v) {
    infer_token unknown = v->special[INFER_SPECIAL_UNK];
    int i;
    v->unknown = unknown;
    if (unknown >= 0 && (v->flags[unknown] & INFER_TOKEN_END)) v->unknown = -1;
    for (i = 0; i < INFER_SPECIAL_COUNT && unknown >= 0; i++)
        if (i != INFER_SPECIAL_UNK && i != INFER_SPECIAL_PAD && v->special[i] == unknown) v->unknown = -1;
}

static int32_t infer__vocab_find_text(const infer__vocab *v, const char *text) {
    return infer__vocab_find(v, text, strlen(text));
}

/* Which bytes stand before a space inside tokens from .. to - 1: a text may be cut before every other space. */
static void infer__vocab_joins(infer__vocab *v, int32_t from, int32_t to) {
    int32_t t;
    uint64_t i;
    for (t = from; t < to; t++) {
        for (i = 1; i + 3 <= v->text[t].n; i++) {
            if (memcmp(v->text[t].s + i, INFER__SPACE_MARK, 3) == 0) v->joins[(uint8_t)v->text[t].s[i - 1]] = 1;
        }
    }
}

static void infer__vocab_spelled(infer__vocab *v, int form) {
    v->form = form;
    infer__vocab_bytes(v);
}

static infer_result infer__vocab_types_begin(infer__vocab *v, const infer__gguf *g, infer_error *err) {
    const infer__kv *types = infer__gguf_find(g, "tokenizer.ggml.token_type");
    if (types && (!infer__kv_is_numbers(types) || types->n < (uint64_t)v->n)) {
        return infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.token_type is not an array of %d numbers",
                            (int)v->n);
    }
    v->flags = (uint8_t *)infer__alloc(v->mem, (uint64_t)v->n);
    return v->flags ? INFER_OK : infer__error(err, INFER_ERR_MEMORY, "out of memory for %d tokens", (int)v->n);
}

/* tokenizer.ggml.token_type: 1 normal .. 6 byte become the bits 1 << (type - 1). */
static void infer__vocab_types(infer__vocab *v, const infer__gguf *g, int32_t from, int32_t to) {
    const infer__kv *types = infer__gguf_find(g, "tokenizer.ggml.token_type");
    int32_t t;
    for (t = from; t < to; t++) {
        double type = types ? infer__kv_number(types, (uint64_t)t) : 1;
        int is_byte = infer__byte_token_value(&v->text[t]) >= 0;
        v->flags[t] = (uint8_t)(type >= 1 && type <= 6 ? 1 << ((int)type - 1) : INFER_TOKEN_NORMAL);
        if ((v->flags[t] & INFER_TOKEN_BYTE) && !is_byte) v->flags[t] = INFER_TOKEN_NORMAL;
        if (!types && is_byte && (infer__vocab_kind(v, INFER__VOCAB_SPM) || infer__vocab_kind(v, INFER__VOCAB_PLAMO2)))
            v->flags[t] = INFER_TOKEN_BYTE;
    }
}

static infer_result infer__vocab_scores_begin(infer__vocab *v, const infer__gguf *g, infer_error *err) {
    v->scores = infer__gguf_find(g, "tokenizer.ggml.scores");
    if (v->scores && (!infer__kv_is_numbers(v->scores) || v->scores->n < (uint64_t)v->n)) {
        return infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.scores is not an array of %d numbers", (int)v->n);
    }
    if (!infer__vocab_kind(v, INFER__VOCAB_SPM)) return INFER_OK;
    v->order = (uint32_t *)infer__calloc(v->mem, (uint64_t)v->n, sizeof *v->order);
    return v->order ? INFER_OK : infer__error(err, INFER_ERR_MEMORY, "out of memory for %d scores", (int)v->n);
}

/* SPM: scores of tokens from .. to - 1 as integers that order like them. */
static void infer__vocab_scores(infer__vocab *v, int32_t from, int32_t to) {
    int32_t t;
    for (t = from; v->scores && t < to; t++) {
        /* The bits of a float, with the sign bit flipped or all of them, order like the float. */
        uint32_t u = infer__f32_bits(infer__vocab_score(v, t));
        if (u == 0x80000000u) u = 0;
        v->order[t] = u & 0x80000000u ? u : ~(u | 0x80000000u);
    }
}

static float infer__vocab_score(const infer__vocab *v, int32_t token) {
    double score = v->scores ? infer__kv_number(v->scores, (uint64_t)token) : 0;
    return (float)(score > -1e30 ? (score < 1e30 ? score : 1e30) : -1e30);
}

INFER__COLD_BEGIN
/* Files do not always say that a token which marks structure is a control token. */
static void infer__vocab_control(infer__vocab *v, int32_t token) {
    v->flags[token] = (uint8_t)((v->flags[token] & ~INFER__TOKEN_TYPES) | INFER_TOKEN_CONTROL);
}

static void infer__vocab_specials(infer__vocab *v, const infer__vocab_model *model, const infer__report *report,
                                  const infer__gguf *g) {
    int has_bos = 0;
    size_t i;
    uint32_t id = 0;
    v->lstrip = -1;
    for (i = 0; i < INFER_SPECIAL_COUNT; i++) v->special[i] = -1;
    v->special[INFER_SPECIAL_BOS] = model->bos;
    v->special[INFER_SPECIAL_EOS] = model->eos;
    v->special[INFER_SPECIAL_UNK] = model->unk;
    v->special[INFER_SPECIAL_SEP] = model->sep;
    v->special[INFER_SPECIAL_PAD] = model->pad;
    v->special[INFER_SPECIAL_MASK] = model->mask;
    for (i = 0; i < INFER_SPECIAL_COUNT; i++) {
        if (v->special[i] >= v->n) v->special[i] = -1;
    }
    for (i = 0; i < INFER__COUNT(INFER__SPECIAL_KEYS); i++) {
        const char *key = INFER__SPECIAL_KEYS[i].key;
        int which = INFER__SPECIAL_KEYS[i].which, found = infer__gguf_u32(g, key, &id, NULL);
        if (found == 0) continue;
        if (found < 0 || id >= (uint32_t)v->n) {
            infer__log(report, 3, "%s is not a token: ignored", key);
            continue;
        }
        v->special[which] = (int32_t)id;
        has_bos |= which == INFER_SPECIAL_BOS;
    }
    if (infer__vocab_kind(v, INFER__VOCAB_WPM)) { /* CLS begins a text: two names of one token */
        if (!has_bos && v->special[INFER_SPECIAL_CLS] >= 0)
            v->special[INFER_SPECIAL_BOS] = v->special[INFER_SPECIAL_CLS];
        if (v->special[INFER_SPECIAL_CLS] < 0) v->special[INFER_SPECIAL_CLS] = v->special[INFER_SPECIAL_BOS];
    }
    for (i = 0; i < INFER__COUNT(INFER__SPECIAL_TEXTS); i++) {
        int which = INFER__SPECIAL_TEXTS[i].which;
        int32_t t = v->special[which] < 0 ? infer__vocab_find_text(v, INFER__SPECIAL_TEXTS[i].text) : -1;
        if (t < 0) continue;
        v->special[which] = t;
        infer__vocab_control(v, t);
    }
}

/* 1 when a token with this text ends a reply. */
static int infer__vocab_is_end(const infer__vocab *v, const char *text) {
    int32_t t = infer__vocab_find_text(v, text);
    return t >= 0 && (v->flags[t] & INFER_TOKEN_END);
}

static void infer__vocab_ends(infer__vocab *v) {
    int32_t t;
    size_t i;
    for (i = 0; i < INFER__COUNT(INFER__END_TEXTS); i++) {
        t = infer__vocab_find_text(v, INFER__END_TEXTS[i]);
        if (t < 0) continue;
        infer__vocab_control(v, t);
        v->flags[t] |= INFER_TOKEN_END;
    }
    for (i = 0; i < INFER__COUNT(INFER__END_SPECIALS); i++) {
        t = v->special[INFER__END_SPECIALS[i]];
        if (t >= 0) v->flags[t] |= INFER_TOKEN_END;
    }
    /* In the formats of gpt-oss and solar-open <|end|> ends a message of a reply, not the reply. It stays a control
     * token: what a user typed must not end a message. */
    t = infer__vocab_find_text(v, "<|end|>");
    if (t >= 0 && ((infer__vocab_is_end(v, "<|return|>") && infer__vocab_is_end(v, "<|call|>")) ||
                   (infer__vocab_is_end(v, "<|flush|>") && infer__vocab_is_end(v, "<|calls|>")))) {
        v->flags[t] = INFER_TOKEN_CONTROL;
        if (v->special[INFER_SPECIAL_EOT] == t) v->special[INFER_SPECIAL_EOT] = -1;
    }
    /* Gemma 4 and PLaMo-2 have </s> as a tag like any other. */
    t = infer__vocab_find_text(v, "</s>");
    if (t >= 0 && (infer__vocab_is_end(v, "<|tool_response>") || infer__vocab_is_end(v, "<|plamo:eos|>")))
        v->flags[t] = INFER_TOKEN_NORMAL;
}

/* 1 when the value of a text key contains `part`, whatever the case of ASCII letters; part is lower case. */
static int infer__meta_contains(const infer__gguf *g, const char *key, const char *part) {
    infer__str s = {"", 0};
    size_t n = strlen(part), i, j;
    if (infer__gguf_str(g, key, &s, NULL) <= 0) return 0;
    for (i = 0; i + n <= s.n; i++) {
        for (j = 0; j < n; j++) {
            char c = s.s[i + j];
            if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
            if (c != part[j]) break;
        }
        if (j == n) return 1;
    }
    return 0;
}

/* GGUF does not store whether a special token takes the white space beside it. Phi-3's do, except for three; the mask
 * of
 * Unigram vocabularies (XLM-RoBERTa has one) and ModernBERT's take what stands before them. */
static void infer__vocab_strips(infer__vocab *v, const infer__gguf *g) {
    static const char *const KEEP[] = {"<unk>", "<s>", "<|endoftext|>"};
    const int kinds = INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN | INFER_TOKEN_USER;
    int32_t t;
    size_t i;
    if (infer__vocab_kind(v, INFER__VOCAB_UGM)) v->lstrip = infer__vocab_find_text(v, "<mask>");
    if (infer__meta_contains(g, "general.name", "modern-bert")) v->lstrip = infer__vocab_find_text(v, "[MASK]");
    if (!infer__meta_contains(g, "general.name", "phi-3") && !infer__meta_contains(g, "general.name", "phi3")) return;
    for (t = 0; t < v->n; t++) {
        if (v->flags[t] & kinds) v->flags[t] |= INFER__TOKEN_RSTRIP;
    }
    for (i = 0; i < INFER__COUNT(KEEP); i++) {
        t = infer__vocab_find_text(v, KEEP[i]);
        if (t >= 0) v->flags[t] &= (uint8_t)~INFER__TOKEN_RSTRIP;
    }
}

/* *out = the key's value, or stays as it is. */
static infer_result infer__vocab_switch(const infer__gguf *g, const char *key, int *out, infer_error *err) {
    int value = 0, found = infer__gguf_bool(g, key, &value, err);
    if (found < 0) return (infer_result)found;
    if (found) *out = value != 0;
    return INFER_OK;
}

static infer_result infer__vocab_switches(infer__vocab *v, const infer__gguf *g, infer_error *err) {
    const struct { const char *key; int *out; } switches[] = {
        {"tokenizer.ggml.add_bos_token", &v->add_bos},
        {"tokenizer.ggml.add_eos_token", &v->add_eos},
        {"tokenizer.ggml.add_sep_token", &v->add_sep},
        {"tokenizer.ggml.add_space_prefix", &v->add_space_prefix},
        {"tokenizer.ggml.remove_extra_whitespaces", &v->remove_extra_whitespaces},
        {"tokenizer.ggml.normalizer.lowercase", &v->lowercase},
        {"tokenizer.ggml.normalizer.strip_accents", &v->strip_accents}
    };
    infer_result r = INFER_OK;
    size_t i;
    v->lowercase = 1;
    v->strip_accents = -1;
    for (i = 0; i < INFER__COUNT(switches) && r == INFER_OK; i++)
        r = infer__vocab_switch(g, switches[i].key, switches[i].out, err);
    if (v->strip_accents < 0) v->strip_accents = v->lowercase; /* as BERT's own tokenizer */
    return r;
}

/* The row of tokenizer.ggml.model: NONE when the key is missing, OTHER when it is unknown. */
static infer_result infer__vocab_model_find(const infer__vocab_model **out, const infer__gguf *g, infer_error *err) {
    infer__str model = {"", 0};
    const infer__vocab_model *row = INFER__VOCAB_MODELS;
    int found = infer__gguf_str(g, "tokenizer.ggml.model", &model, err);
    if (found < 0) return (infer_result)found;
    if (!found) {
        model.s = "none";
        model.n = 4;
    }
    while (row->name[0] && (strlen(row->name) != model.n || memcmp(row->name, model.s, (size_t)model.n) != 0)) row++;
    *out = row;
    return INFER_OK;
}

/* What the file says of its tokens, and an empty vocabulary of as many. */
static infer_result infer__vocab_begin(infer__vocab_opening *x, infer__vocab *v, infer__mem *mem, const infer__gguf *g,
                                       infer_error *err) {
    const infer__kv *tokens = infer__gguf_find(g, "tokenizer.ggml.tokens");
    const infer__vocab_model *model = NULL;
    infer_result r;

    memset(v, 0, sizeof *v);
    v->mem = mem;
    r = infer__vocab_model_find(&model, g, err);
    if (r != INFER_OK) return r;
    v->kind = model->kind;
    if (tokens && (!infer__kv_is_strings(tokens) || tokens->n >= 1u << 30)) {
        return infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.tokens is not an array of texts");
    }
    if (v->kind != INFER__VOCAB_NONE && (!tokens || tokens->n == 0)) {
        return infer__error(err, INFER_ERR_FORMAT, "tokenizer.ggml.tokens is missing or empty");
    }
    v->n = tokens ? (int32_t)tokens->n : 0;
    v->text = tokens ? (const infer__str *)tokens->data : NULL;
    v->add_bos = model->add_bos;
    v->add_eos = model->add_eos;
    v->add_sep = model->add_sep;
    v->add_space_prefix = model->add_space_prefix;

    memset(x, 0, sizeof *x);
    x->model = model;
    return infer__vocab_slots(v, err);
}

enum { /* infer__vocab_opening.stage: loops, each with what stands before it */
    INFER__VOCAB_EMPTY, INFER__VOCAB_INDEX, INFER__VOCAB_TYPES, INFER__VOCAB_SCORES, INFER__VOCAB_JOINS,
    INFER__VOCAB_COUNT, INFER__VOCAB_MARK, INFER__VOCAB_SORT, INFER__VOCAB_DONE
};

/* How many elements the loop of the stage has. */
static int32_t infer__vocab_loop(const infer__vocab_opening *x, const infer__vocab *v) {
    switch (x->stage) {
    case INFER__VOCAB_EMPTY: return (int32_t)v->n_slots;
    case INFER__VOCAB_SCORES: return infer__vocab_kind(v, INFER__VOCAB_SPM) ? v->n : 0;
    case INFER__VOCAB_JOINS: return infer__vocab_kind(v, INFER__VOCAB_SPM) ? v->n : 0;
    case INFER__VOCAB_SORT: return v->n_marked > 1 ? v->n_marked / 2 + v->n_marked - 1 : 0;
    default: return v->n;
    }
}

/* What comes before the loop of a stage. */
static infer_result infer__vocab_before(infer__vocab_opening *x, infer__vocab *v, const infer__report *report,
                                        const infer__gguf *g, infer_error *err) {
    infer_result r;
    switch (x->stage) {
    case INFER__VOCAB_TYPES: return v->n > 0 ? infer__vocab_types_begin(v, g, err) : INFER_OK;
    case INFER__VOCAB_SCORES:
        if (!infer__vocab_kind(v, INFER__VOCAB_SPM) && !infer__vocab_kind(v, INFER__VOCAB_UGM) &&
            !infer__vocab_kind(v, INFER__VOCAB_PLAMO2))
            return INFER_OK;
        return infer__vocab_scores_begin(v, g, err);
    case INFER__VOCAB_JOINS:
        r = infer__vocab_switches(v, g, err);
        if (r != INFER_OK) return r;
        infer__vocab_specials(v, x->model, report, g);
        infer__vocab_ends(v);
        infer__vocab_unknown(v);
        infer__vocab_bytes(v); /* flags are final */
        return INFER_OK;
    case INFER__VOCAB_COUNT: infer__vocab_strips(v, g); return INFER_OK;
    case INFER__VOCAB_MARK: return infer__vocab_mark_room(v, x->count, err);
    case INFER__VOCAB_SORT:
        if (x->too_long)
            infer__log(report, 2, "tokenizer: %d special tokens longer than %d bytes are not looked for in texts",
                       (int)x->too_long, (int)INFER__MARKED_LONGEST);
        return INFER_OK;
    default: return INFER_OK;
    }
}

/* Elements from .. to - 1 of the loop of a stage. */
static infer_result infer__vocab_piece_of(infer__vocab_opening *x, infer__vocab *v, const infer__gguf *g, int32_t from,
                                          int32_t to, infer_error *err) {
    switch (x->stage) {
    case INFER__VOCAB_EMPTY: memset(v->slots + from, 0xff, (size_t)(to - from) * sizeof *v->slots); return INFER_OK;
    case INFER__VOCAB_INDEX: return infer__vocab_index(v, from, to, err);
    case INFER__VOCAB_TYPES: infer__vocab_types(v, g, from, to); return INFER_OK;
    case INFER__VOCAB_SCORES: infer__vocab_scores(v, from, to); return INFER_OK;
    case INFER__VOCAB_JOINS: infer__vocab_joins(v, from, to); return INFER_OK;
    case INFER__VOCAB_COUNT: x->count += infer__vocab_mark_count(v, from, to); return INFER_OK;
    case INFER__VOCAB_MARK: x->too_long += infer__vocab_mark(v, from, to); return INFER_OK;
    default: infer__marked_sort(v, v->marked, v->n_marked, from, to); return INFER_OK;
    }
}

static infer_result infer__vocab_step(infer__vocab_opening *x, infer__vocab *v, const infer__report *report,
                                      const infer__gguf *g, infer__budget *budget, infer_error *err) {
    infer_result r = INFER_OK;
    for (; x->stage < INFER__VOCAB_DONE; x->stage++) {
        if (x->i == 0) r = infer__vocab_before(x, v, report, g, err);
        while (r == INFER_OK && x->i < infer__vocab_loop(x, v)) {
            const int32_t n = (int32_t)infer__budget_piece(budget, (uint64_t)(infer__vocab_loop(x, v) - x->i), 1);
            r = infer__vocab_piece_of(x, v, g, x->i, x->i + n, err);
            x->i += n;
            if (r == INFER_OK && infer__budget_over(budget, (uint64_t)n)) return INFER_MORE;
        }
        if (r != INFER_OK) return r; /* the rest is closed with the tokenizer */
        x->i = 0;
    }
    infer__vocab_mark_end(v);
    return INFER_OK;
}

static void infer__vocab_close(infer__vocab *v) {
    if (!v->mem) return;
    infer__free(v->mem, v->slots);
    infer__free(v->mem, v->flags);
    infer__free(v->mem, v->order);
    infer__free(v->mem, v->marked);
    v->slots = NULL;
    v->flags = NULL;
    v->order = NULL;
    v->marked = NULL;
}
INFER__COLD_END
