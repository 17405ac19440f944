/* test_tokenizer_kinds.c: vocabularies that are looked up in a trie (WordPiece, Unigram, RWKV, PLaMo-2), what opening one
 * costs, special tokens. */
#ifndef TEST_TOKENIZER
#  include "test_tokenizer.c"
#endif

/* ---- against recorded ids ---- */

/* name, and whether it has a file of ids of the 201 texts */
static const struct { const char *name; int ids; } KIND_VOCABS[] = { { "bert-bge", 1 }, { "nomic-bert-moe", 1 }, { "rwkv-world", 0 } };

static void test_kinds_recorded(void) {
    size_t i, text_n = 0, long_n = 0;
    char *others = check_read(check_data("bert-bge.ids"), NULL);
    const char *path = check_reference("tokenizers/texts.bin");
    char *texts = path ? check_read(path, &text_n) : NULL, *long_text;
    if (!texts) SKIP("needs INFER_TEST_DATA: tokenizers/texts.bin");
    long_text = check_read(check_reference("vocabs/long-text.txt"), &long_n);
    CHECK(long_text != NULL && others != NULL);
    for (i = 0; i < 3 && long_text; i++) {
        tok_open_file f;
        char rel[100], *ids;
        if (!tok_open_named(&f, KIND_VOCABS[i].name, 0)) continue;
        tok_instead = i == 0 ? others : NULL;
        CHECK(tok_check_vectors(&f, KIND_VOCABS[i].name) == 46);
        tok_check_extra(&f, KIND_VOCABS[i].name, long_text, long_n);
        snprintf(rel, sizeof rel, "tokenizers/%s.ids", KIND_VOCABS[i].name);
        ids = KIND_VOCABS[i].ids ? check_read(check_reference(rel), NULL) : NULL;
        if (ids) CHECK(tok_check_ids(&f, texts, text_n, ids) == 201);
        else CHECK(!KIND_VOCABS[i].ids);
        if (!KIND_VOCABS[i].ids) tok_check_round_trip(&f, texts, text_n);
        free(ids);
        tok_close(&f);
        tok_instead = NULL;
    }
    free(others);
    free(texts);
    free(long_text);
}

/* ---- small vocabularies, against other implementations ---- */

enum { KIND_TOKENS = 512 };
typedef struct kind_vocab { /* as it is read from a file of lines */
    gguf_writer w;
    gw_bytes texts;
    int64_t types[KIND_TOKENS];
    float scores[KIND_TOKENS];
    size_t n;
} kind_vocab;

/* "V kind key=value...": as tests/make_tokenizer_kinds.py writes it. */
static void kind_begin(kind_vocab *k, char *line) {
    char *word = strtok(line + 2, " "), key[80];
    memset(k, 0, sizeof *k);
    gw_init(&k->w);
    gw_str(&k->w, "tokenizer.ggml.model", word);
    while ((word = strtok(NULL, " ")) != NULL) {
        size_t len = strcspn(word, "=");
        snprintf(key, sizeof key, "tokenizer.ggml.%.*s", (int)len, word);
        gw_int(&k->w, key, strstr(key, "_id") ? GW_U32 : GW_BOOL, atoi(word + len + 1));
    }
}
static size_t kind_hex(const char *hex, char *out) {
    return *hex == '.' ? 0 : tok_unhex(hex, strcspn(hex, " \n"), out);
}
/* "T type score hex" */
static void kind_token(kind_vocab *k, const char *line) {
    char text[256], *end;
    size_t n;
    CHECK(k->n < KIND_TOKENS);
    if (k->n == KIND_TOKENS) return;
    k->types[k->n] = line[2] - '0';
    k->scores[k->n++] = (float)strtod(line + 4, &end);
    n = kind_hex(end + 1, text);
    gw_raw_string(&k->w, &k->texts, text, n);
}
static unsigned char *kind_end(kind_vocab *k, size_t *n) {
    gw_array(&k->w, "tokenizer.ggml.tokens", GW_STRING, k->n);
    gw_add(&k->w.kv, k->texts.p, k->texts.n);
    free(k->texts.p);
    gw_ints(&k->w, "tokenizer.ggml.token_type", GW_I32, k->types, k->n);
    gw_f32s(&k->w, "tokenizer.ggml.scores", k->scores, k->n);
    return gw_finish(&k->w, n);
}

/* Made by Hugging Face tokenizers (WordPiece, Unigram), and by slow programs of their own (PLaMo-2: the published table
 * of suffixes; RWKV: every token tried). So it proves that what is found in a trie is what those definitions say, ties
 * included; that the definitions themselves are the models', the recorded ids above prove, except for PLaMo-2. */
static void test_kinds_small(void) {
    char *data = check_read(check_data("tokenizer-kinds.txt"), NULL), *line, *next, text[512];
    kind_vocab k;
    tok_open_file f;
    unsigned char *file = NULL;
    infer_error err;
    size_t n;
    int vocabs = 0, cases = 0, open = 0;
    CHECK(data != NULL);
    for (line = data; line && *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = 0;
        if (*line == 'V') {
            if (open) tok_close(&f);
            free(file);
            file = NULL;
            open = 0;
            check_detail = line + 2;
            kind_begin(&k, line);
            vocabs++;
        } else if (*line == 'T') {
            kind_token(&k, line);
        } else if (*line == 'X') {
            if (!file) {
                file = kind_end(&k, &n);
                open = tok_open(&f, NULL, file, n, NULL, 0, &err);
                if (!open) check_note(__FILE__, __LINE__, err.message);
            }
            if (!open) continue;
            n = kind_hex(line + 2, text);
            text[n] = 0;
            tok_check_line(&f, text, n, 0, line + 2 + strcspn(line + 2, " "));
            cases++;
        }
    }
    if (open) tok_close(&f);
    free(file);
    free(data);
    CHECK(vocabs == 9 && cases > 500);
}

/* ---- by hand ---- */

static void test_unicode_maps(void) {
    static const struct { uint32_t cp, lower, upper, base; } cases[] = {
        { 'A', 'a', 'A', 'A' }, { 'z', 'z', 'Z', 'z' }, { 0xdf, 0xdf, 0xdf, 0xdf }, { 0xe9, 0xe9, 0xc9, 'e' }, { 0x130, 'i', 0x130, 'I' },
        { 0x131, 0x131, 'I', 0x131 }, { 0x1c5, 0x1c6, 0x1c4, 0x1c5 }, { 0x3a3, 0x3c3, 0x3a3, 0x3a3 }, { 0x3c2, 0x3c2, 0x3a3, 0x3c2 },
        { 0x1e9e, 0xdf, 0x1e9e, 0x1e9e }, { 0x1fb3, 0x1fb3, 0x1fbc, 0x3b1 }, { 0x212b, 0xe5, 0x212b, 'A' }, { 0xac00, 0xac00, 0xac00, 0x1100 },
        { 0xd7a3, 0xd7a3, 0xd7a3, 0x1112 }, { 0xd7a4, 0xd7a4, 0xd7a4, 0xd7a4 }, { 0x10400, 0x10428, 0x10400, 0x10400 },
        { 0x2f800, 0x2f800, 0x2f800, 0x4e3d }, { 0x2fa1d, 0x2fa1d, 0x2fa1d, 0x2a600 }, { 0x2fa1e, 0x2fa1e, 0x2fa1e, 0x2fa1e },
        { 0x226f, 0x226f, 0x226f, '>' }, { 0x10ffff, 0x10ffff, 0x10ffff, 0x10ffff }, { 0x1e943, 0x1e943, 0x1e921, 0x1e943 } };
    size_t i;
    uint32_t cp, rest[2];
    int lower = 0, upper = 0, base = 0;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK(infer__uc_lower(cases[i].cp) == cases[i].lower);
        CHECK(infer__uc_upper(cases[i].cp) == cases[i].upper);
        CHECK(infer__uc_base(cases[i].cp) == cases[i].base);
    }
    for (cp = 0; cp < 0x110000; cp++) { /* the counts of UnicodeData.txt, 15.1 */
        lower += infer__uc_lower(cp) != cp;
        upper += infer__uc_upper(cp) != cp;
        base += infer__uc_base(cp) != cp;
        if (infer__uc_base(infer__uc_base(cp)) != infer__uc_base(cp)) check_note(__FILE__, __LINE__, "a base has a base");
    }
    CHECK(lower == 1433 && upper == 1450 && base == 13233);
    CHECK(infer__uc_rest('e', rest) == 0 && infer__uc_rest(0xe9, rest) == 0 && infer__uc_rest(0xd7a4, rest) == 0);
    CHECK(infer__uc_rest(0xac00, rest) == 1 && rest[0] == 0x1161);
    CHECK(infer__uc_rest(0xd7a3, rest) == 2 && rest[0] == 0x1175 && rest[1] == 0x11c2);
    CHECK(infer__uc_rest(0x9cb, rest) == 1 && rest[0] == 0x9be && infer__uc_rest(0x1d1c0, rest) == 2 && rest[1] == 0x1d16f);
    CHECK(infer__uc_class(0x301) == (INFER__UC_MARK | INFER__UC_NONSPACING) && infer__uc_class(0x93e) == INFER__UC_MARK);
    CHECK(infer__uc_control(0) && infer__uc_control(0x7f) && infer__uc_control(0x200b) && infer__uc_control(0xe000) && infer__uc_control(0x10fffd));
    CHECK(!infer__uc_control(' ') && !infer__uc_control(0xa0) && !infer__uc_control(0x378) && !infer__uc_control(0x10ffff));
}

/* All texts of a random set that a random text begins with, against comparing with each. */
static void test_trie(void) {
    static char bytes[1 << 16];
    infer__str texts[600];
    infer__mem mem;
    uint32_t state = 11;
    int round;
    infer__mem_init(&mem, NULL, 0);
    for (round = 0; round < 60; round++) {
        infer__trie t;
        infer_error err;
        size_t at = 0, k, tries;
        int32_t n = round < 3 ? round : (int32_t)(tok_random(&state) % 600), i;
        uint32_t letters = round % 3 == 0 ? 2 : round % 3 == 1 ? 4 : 256;
        for (i = 0; i < n; i++) {
            size_t len = tok_random(&state) % (letters == 2 ? 40 : 9);
            if (round == 9 && i % 50 == 0) len = 1020 + tok_random(&state) % 10; /* around the limit */
            texts[i].s = bytes + at;
            texts[i].n = len;
            for (k = 0; k < len; k++) bytes[at + k] = (char)(round == 9 && len > 1000 ? 0 : tok_random(&state) % letters);
            at += len;
        }
        CHECK(infer__trie_open(&t, &mem, texts, n, &err) == INFER_OK);
        for (tries = 0; tries < 300; tries++) {
            infer__trie_walk w;
            char s[1040];
            int32_t found, longest = -1;
            size_t len = tok_random(&state) % 50, end, longest_n = 0, given;
            if (n > 0 && tries % 2) { /* a text of the set, cut or longer */
                const infer__str *x = &texts[tok_random(&state) % (uint32_t)n];
                memset(s, 0, sizeof s);
                memcpy(s, x->s, (size_t)x->n);
                len = (size_t)x->n + tok_random(&state) % 9;
            } else {
                for (k = 0; k < len; k++) s[k] = (char)(tok_random(&state) % letters);
            }
            memset(&w, 0, sizeof w);
            w.s = s;
            w.n = len;
            for (end = 1; end <= len && end <= INFER__TRIE_LONGEST; end++) {
                int32_t want = -1;
                for (i = 0; i < n; i++) {
                    if (texts[i].n == end && memcmp(texts[i].s, s, end) == 0) want = i;
                }
                if (want < 0) continue;
                found = infer__trie_next(&t, &w);
                CHECK(found == want && w.at == end);
                longest = want;
                longest_n = end;
            }
            CHECK(infer__trie_next(&t, &w) == -1 && infer__trie_next(&t, &w) == -1);
            CHECK(infer__trie_longest(&t, s, len, &given) == longest && given == longest_n);
        }
        infer__trie_close(&t, &mem);
    }
    CHECK(infer__atomic_get(&mem.used) == 0);
}

/* The text of ids must be `want`. */
static void kind_check_text(tok_open_file *f, const infer_token *ids, size_t n, int flags, const char *want) {
    char text[200], part[4];
    size_t len, again, k;
    infer_error err;
    CHECK(infer__detokenize(f->t, ids, n, flags, text, sizeof text - 1, &len, &err) == INFER_OK);
    text[len] = 0;
    CHECK_STR(text, want);
    for (k = 0; k <= 4; k++) { /* too little room: the beginning, and the full length */
        memset(part, '#', sizeof part);
        CHECK(infer__detokenize(f->t, ids, n, flags, k ? part : NULL, k, &again, &err) == INFER_OK && again == len);
        CHECK(memcmp(part, text, INFER__MIN(k, len)) == 0 && (k == 4 || part[k] == '#'));
    }
}

static const char *const KIND_WPM[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\xe2\x96\x81" "a", "b", "\xe2\x96\x81" "ab", "\xe2\x96\x81'",
                                        "\xe2\x96\x81s", "\xe2\x96\x81.", "\xe2\x96\x81\xc3\xa9", "\xe2\x96\x81" "E", "\xe2\x96\x81\xe4\xb8\xad", NULL };
static const int KIND_WPM_TYPES[] = { 3, 2, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

static void test_wpm(void) {
    static const infer_token ids[] = { 2, 7, 8, 9, 10, 5, 3 };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    int i;
    tok_begin(&w, "bert", KIND_WPM, KIND_WPM_TYPES);
    gw_int(&w, "tokenizer.ggml.cls_token_id", GW_U32, 2);
    gw_int(&w, "tokenizer.ggml.seperator_token_id", GW_U32, 3);
    gw_int(&w, "tokenizer.ggml.unknown_token_id", GW_U32, 1);
    gw_int(&w, "tokenizer.ggml.mask_token_id", GW_U32, 99);
    CHECK(tok_end(&w, &f, &file, &err));
    CHECK_HAS(f.log, "tokenizer.ggml.mask_token_id");
    CHECK_STR(infer__tokenizer_why_not(f.t), "");
    CHECK(infer__token_special(f.t, INFER_SPECIAL_CLS) == 2 && infer__token_special(f.t, INFER_SPECIAL_BOS) == 2);
    CHECK(infer__token_special(f.t, INFER_SPECIAL_SEP) == 3 && infer__token_special(f.t, INFER_SPECIAL_PAD) == 0);
    CHECK(infer__token_special(f.t, INFER_SPECIAL_FIM_PAD) == 0 && infer__token_special(f.t, INFER_SPECIAL_EOS) == -1);
    CHECK(infer__token_special(f.t, INFER_SPECIAL_MASK) == -1); /* BERT's place is behind this vocabulary */
    tok_check_line(&f, "AB abb\tab.b", 11, INFER_TEXT_ADD_SPECIAL, "2 7 7 6 7 10 1 3");
    tok_check_line(&f, "", 0, INFER_TEXT_ADD_SPECIAL, "2 3");
    tok_check_line(&f, " \n", 2, 0, "");
    tok_check_line(&f, "axab", 4, 0, "1"); /* one unknown token for all of the word */
    tok_check_line(&f, "\xc3\x81\xcc\x81" "b", 5, 0, "7"); /* no accents: A with an acute, twice, b */
    tok_check_line(&f, "\xc3\xa9", 2, 0, "1"); /* an e, which is no token */
    tok_check_line(&f, "a\xe2\x80\x8b" "b\xff\xef\xbf\xbd\x07", 9, 0, "7"); /* dropped: format, invalid, control */
    tok_check_line(&f, "a\v" "b\xc2\x85", 5, 0, "7"); /* controls that are white space, too */
    tok_check_line(&f, "a\tb\r\nab", 7, 0, "5 1 7");
    tok_check_line(&f, "a\xe4\xb8\xad" "a", 5, 0, "5 13 5");
    tok_check_line(&f, "[CLS]a[SEP]", 11, INFER_TEXT_PARSE_SPECIAL, "2 5 3");
    tok_check_line(&f, "[CLS]", 5, 0, "1 1 1");
    kind_check_text(&f, ids, 7, INFER_TEXT_WRITE_SPECIAL, "[CLS] ab's. a[SEP]");
    kind_check_text(&f, ids, 7, 0, " ab's. a");
    kind_check_text(&f, ids + 4, 1, 0, ".");
    tok_close(&f);
    free(file);
    for (i = 0; i < 2; i++) { /* case and accents kept; CLS and SEP not added */
        tok_begin(&w, "bert", KIND_WPM, KIND_WPM_TYPES);
        gw_int(&w, "tokenizer.ggml.unknown_token_id", GW_U32, 1);
        gw_int(&w, "tokenizer.ggml.bos_token_id", GW_U32, 2);
        gw_int(&w, "tokenizer.ggml.seperator_token_id", GW_U32, 3);
        gw_int(&w, "tokenizer.ggml.normalizer.lowercase", GW_BOOL, 0);
        if (i) gw_int(&w, "tokenizer.ggml.normalizer.strip_accents", GW_BOOL, 1);
        gw_int(&w, "tokenizer.ggml.add_bos_token", GW_BOOL, i);
        gw_int(&w, "tokenizer.ggml.add_sep_token", GW_BOOL, !i);
        CHECK(tok_end(&w, &f, &file, &err));
        CHECK(infer__token_special(f.t, INFER_SPECIAL_CLS) == 2);
        tok_check_line(&f, "E \xc3\xa9 \xc3\x89", 7, INFER_TEXT_ADD_SPECIAL, i ? "2 12 1 12" : "12 11 1 3");
        tok_close(&f);
        free(file);
    }
}

/* What cleaning does to texts of the letters that matter, against three searches and replacements, one after the other. */
static void test_wpm_clean(void) {
    static const char letters[] = "  '.?smreva";
    static const char *const from[] = { " ?", " !", " .", " ,", " ' ", " 's", " 'm", " 're", " 've" };
    static const char *const to[] = { "?", "!", ".", ",", "'", "'s", "'m", "'re", "'ve" };
    static const int pass[] = { 0, 0, 0, 0, 1, 2, 2, 2, 2 };
    uint32_t state = 5;
    int round;
    for (round = 0; round < 4000; round++) {
        char text[32], want[2][32];
        size_t n = tok_random(&state) % 24, k, at, len = n;
        int p, hit;
        for (k = 0; k < n; k++) text[k] = letters[tok_random(&state) % (sizeof letters - 1)];
        memcpy(want[0], text, n);
        for (p = 0; p < 3; p++) {
            size_t out = 0;
            for (at = 0; at < len; ) {
                for (k = 0, hit = -1; k < 9; k++) {
                    if (pass[k] == p && strlen(from[k]) <= len - at && memcmp(want[0] + at, from[k], strlen(from[k])) == 0) hit = (int)k;
                }
                if (hit < 0) {
                    want[1][out++] = want[0][at++];
                    continue;
                }
                memcpy(want[1] + out, to[hit], strlen(to[hit]));
                out += strlen(to[hit]);
                at += strlen(from[hit]);
            }
            memcpy(want[0], want[1], out);
            len = out;
        }
        text[n] = 0;
        n = infer__wpm_clean(text, n);
        CHECK(n == len && memcmp(text, want[0], n) == 0);
    }
}

/* ---- Unigram ---- */

/* A character map: "A" -> "a", "AB" -> "x y", "\xe2\x82\xac" -> "" (empty), as a double array. Offsets are chosen so that
 * labels do not meet. */
static size_t kind_charsmap(unsigned char *out) {
    static const char replacements[] = "a\0x y\0";
    uint32_t units[1024], i;
    size_t n = 0;
    memset(units, 0, sizeof units);
#define KIND_UNIT(label, leaf, offset) ((uint32_t)(label) | (uint32_t)(leaf) << 8 | (uint32_t)(offset) << 10)
    units[0] = KIND_UNIT(0, 0, 256);                              /* root: children at 256 ^ byte */
    units[256 ^ 'A'] = KIND_UNIT('A', 1, (256 ^ 'A') ^ 512);      /* at 512: value; children at 512 ^ byte */
    units[512] = 0x80000000u | 0;
    units[512 ^ 'B'] = KIND_UNIT('B', 1, (512 ^ 'B') ^ 600);
    units[600] = 0x80000000u | 2;
    units[256 ^ 0xe2] = KIND_UNIT(0xe2, 0, (256 ^ 0xe2) ^ 768);
    units[768 ^ 0x82] = KIND_UNIT(0x82, 0, (768 ^ 0x82) ^ 640);
    units[640 ^ 0xac] = KIND_UNIT(0xac, 1, (640 ^ 0xac) ^ 1000);
    units[1000] = 0x80000000u | 5;
#undef KIND_UNIT
    for (i = 0; i < 4; i++) out[n++] = (unsigned char)(sizeof units >> 8 * i);
    for (i = 0; i < sizeof units; i++) out[n++] = (unsigned char)(units[i / 4] >> i % 4 * 8);
    memcpy(out + n, replacements, sizeof replacements);
    return n + sizeof replacements - 1;
}

static const char *const KIND_UGM[] = { "<pad>", "</s>", "<unk>", "\xe2\x96\x81", "a", "b", "ab", "\xe2\x96\x81" "a", "<u>", "<0x41>", "<mask>",
                                        "x", "y", "bb", "zz", NULL };
static const int KIND_UGM_TYPES[] = { 3, 3, 2, 1, 1, 1, 1, 1, 4, 6, 3, 1, 1, 5, 3 };
static const float KIND_UGM_SCORES[] = { 0, 0, 0, -2, -3, -3, -4, -3, 0, 0, 0, -1, -1, -2, 0 };

static void kind_ugm_begin(gguf_writer *w, const char *skip) {
    tok_begin(w, "t5", KIND_UGM, KIND_UGM_TYPES);
    gw_f32s(w, "tokenizer.ggml.scores", KIND_UGM_SCORES, 15);
    if (!skip) gw_int(w, "tokenizer.ggml.add_space_prefix", GW_BOOL, 1);
}

static void test_ugm(void) {
    static const infer_token ids[] = { 7, 3, 8, 2, 1, 9 };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    kind_ugm_begin(&w, NULL);
    CHECK(tok_end(&w, &f, &file, &err));
    CHECK_STR(infer__tokenizer_why_not(f.t), "");
    tok_check_line(&f, "ab", 2, INFER_TEXT_ADD_SPECIAL, "3 6 1"); /* -6 each: the way found first */
    tok_check_line(&f, "", 0, INFER_TEXT_ADD_SPECIAL, "1");
    tok_check_line(&f, "a  b", 4, 0, "7 3 3 5");
    tok_check_line(&f, " ", 1, 0, "3 3"); /* the prefix stands before spaces, too */
    tok_check_line(&f, "qqaq", 4, 0, "3 2 4 2"); /* a run of unknown characters is one */
    tok_check_line(&f, "bb", 2, 0, "3 13"); /* unused tokens are found */
    tok_check_line(&f, "zz</s>", 6, 0, "3 2"); /* control tokens are not */
    tok_check_line(&f, "</s>a", 5, INFER_TEXT_PARSE_SPECIAL, "1 7");
    tok_check_line(&f, "A", 1, 0, "3 9"); /* bytes, where there is a token for them */
    tok_check_line(&f, "\xff", 1, 0, "3 2");
    tok_check_line(&f, "a<u>a \n<mask>", 13, INFER_TEXT_PARSE_SPECIAL, "7 8 7 10"); /* the mask takes white space */
    kind_check_text(&f, ids, 6, INFER_TEXT_WRITE_SPECIAL, "a <u><unk></s>A");
    kind_check_text(&f, ids, 6, 0, "a <u>A");
    tok_close(&f);
    free(file);
}

static void test_ugm_switches(void) {
    unsigned char map[8192];
    char text[64];
    size_t n = kind_charsmap(map), i;
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    kind_ugm_begin(&w, NULL);
    gw_int(&w, "tokenizer.ggml.remove_extra_whitespaces", GW_BOOL, 1);
    gw_array(&w, "tokenizer.ggml.precompiled_charsmap", GW_U8, n);
    gw_add(&w.kv, map, n);
    CHECK(tok_end(&w, &f, &file, &err));
    tok_check_line(&f, "  b   b ", 8, 0, "3 5 3 5");
    tok_check_line(&f, "   ", 3, 0, "");
    tok_check_line(&f, "AABaA", 5, 0, "7 11 3 12 4 4");
    tok_check_line(&f, "\xe2\x82\xac" "b\xe2\x82\xac" "b", 8, 0, "3 13"); /* replaced with nothing */
    tok_check_line(&f, "\xe2\x82", 2, 0, "3 2"); /* the map's prefix ends early */
    tok_close(&f);
    free(file);
    kind_ugm_begin(&w, "no prefix");
    gw_array(&w, "tokenizer.ggml.precompiled_charsmap", GW_I8, n); /* signed ones are the same bytes */
    gw_add(&w.kv, map, n);
    CHECK(tok_end(&w, &f, &file, &err));
    tok_check_line(&f, "b", 1, 0, "5");
    tok_check_line(&f, "AB b", 4, 0, "11 3 12 3 5");
    tok_close(&f);
    free(file);
    kind_ugm_begin(&w, "no prefix");
    gw_int(&w, "tokenizer.ggml.remove_extra_whitespaces", GW_BOOL, 1);
    gw_int(&w, "tokenizer.ggml.add_bos_token", GW_BOOL, 1);
    gw_int(&w, "tokenizer.ggml.bos_token_id", GW_U32, 0);
    gw_int(&w, "tokenizer.ggml.add_eos_token", GW_BOOL, 0);
    CHECK(tok_end(&w, &f, &file, &err));
    tok_check_line(&f, "b b", 3, INFER_TEXT_ADD_SPECIAL, "0 3 5 3 5");
    tok_close(&f);
    free(file);
    for (i = 0; i < 7; i++) { /* maps that cannot be */
        static const char *const says[] = { "replacements", "replacements", "replacements", "does not end", "not an array of bytes", "more than 256",
                                            "not an array of bytes" };
        unsigned char bad[8192];
        size_t size = n;
        memcpy(bad, map, n);
        if (i == 0) size = 3;
        if (i == 1) bad[3] = 0xff;
        if (i == 2) bad[0] = 1;
        if (i == 3) size = n - 1, bad[n - 2] = 'x';
        if (i == 5) memset(bad + n, 'x', 300), bad[n + 300] = 0, size = n + 301;
        kind_ugm_begin(&w, NULL);
        if (i == 6) gw_int(&w, "tokenizer.ggml.precompiled_charsmap", GW_U8, 1);
        else {
            gw_array(&w, "tokenizer.ggml.precompiled_charsmap", i == 4 ? GW_U16 : GW_U8, i == 4 ? size / 2 : size);
            gw_add(&w.kv, bad, i == 4 ? size / 2 * 2 : size);
        }
        if (tok_end(&w, &f, &file, &err)) {
            check_note(__FILE__, __LINE__, says[i]);
            tok_close(&f);
        } else {
            CHECK(err.code == INFER_ERR_FORMAT);
            snprintf(text, sizeof text, "%s", says[i]);
            CHECK_HAS(err.message, text);
        }
        free(file);
    }
}

/* The best cut of long texts, whose cells are given up on the way, against one that keeps all. */
static void test_ugm_long(void) {
    enum { BYTES = 60000 };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    char *s = (char *)malloc(BYTES);
    double *best = (double *)malloc((BYTES + 1) * sizeof *best);
    int32_t *token = (int32_t *)malloc((BYTES + 1) * sizeof *token), *want = (int32_t *)malloc((BYTES + 1) * sizeof *want);
    uint32_t state = 3;
    size_t at, k, n_want, count;
    int round, t;
    kind_ugm_begin(&w, "no prefix");
    CHECK(tok_end(&w, &f, &file, &err) && s && best && token && want);
    for (round = 0; round < 4 && f.t; round++) {
        infer_token *ids;
        for (at = 0; at < BYTES; at++) s[at] = "abbaqbxb"[tok_random(&state) % (round == 0 ? 1 : round == 1 ? 2 : 8)];
        for (at = 0; at <= BYTES; at++) best[at] = -1e300;
        best[0] = 0;
        for (at = 0; at < BYTES; at++) {
            int whole = 0;
            for (t = 3; t < 14; t++) {
                size_t n = strlen(KIND_UGM[t]);
                if (t == 9 || t == 10 || n > BYTES - at || memcmp(s + at, KIND_UGM[t], n) != 0) continue;
                whole |= n == 1;
                if (best[at] + (t == 8 ? 0 : KIND_UGM_SCORES[t]) > best[at + n]) {
                    best[at + n] = best[at] + (t == 8 ? 0 : KIND_UGM_SCORES[t]);
                    token[at + n] = t;
                }
            }
            if (!whole && best[at] - 14 > best[at + 1]) best[at + 1] = best[at] - 14, token[at + 1] = 2;
        }
        n_want = 0;
        for (at = BYTES; at > 0; at -= token[at] == 2 ? 1 : strlen(KIND_UGM[token[at]])) {
            if (token[at] != 2 || n_want == 0 || want[n_want - 1] != 2) want[n_want++] = token[at];
        }
        ids = tok_ids(&f, s, BYTES, 0, &count);
        CHECK(ids && count == n_want);
        for (k = 0; ids && k < count && k < n_want; k++) {
            if (ids[k] != want[n_want - 1 - k]) { check_note(__FILE__, __LINE__, "another way"); break; }
        }
        free(ids);
    }
    tok_close(&f);
    free(file);
    free(s);
    free(best);
    free(token);
    free(want);
}

/* ---- RWKV, PLaMo-2 ---- */

static void test_rwkv(void) {
    static const char *const tokens[] = { "<s>", "a", "\\n", "\\\\", "\\'", "\\xe4\\xb8\\xad", "\\xFF", "ab", "\\xe4", "\\t", "\\x", "<u>", "\\n<u>", NULL };
    static const int types[] = { 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 4 };
    static const infer_token ids[] = { 0, 1, 2, 3, 4, 5, 6, 10, 11 };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    tok_begin(&w, "rwkv", tokens, types);
    CHECK(tok_end(&w, &f, &file, &err));
    CHECK(!infer__tokenizer_adds_bos(f.t) && infer__token_special(f.t, INFER_SPECIAL_UNK) == -1);
    tok_check_line(&f, "aab\n\\'\t", 7, INFER_TEXT_ADD_SPECIAL, "1 7 2 3 4 9");
    tok_check_line(&f, "\xe4\xb8\xad\xe4\xb8\xff", 6, 0, "5 8 6"); /* B8 has no token, and there is no unknown one */
    tok_check_line(&f, "x", 1, 0, "10"); /* an escape that is none stands for its letter */
    tok_check_line(&f, "a<u>\n<u>", 8, 0, "1 11 2 11"); /* a user-defined one that is written with an escape is found last */
    kind_check_text(&f, ids, 9, INFER_TEXT_WRITE_SPECIAL, "<s>a\n\\'\xe4\xb8\xad\xffx<u>");
    tok_close(&f);
    free(file);
}

static void test_plamo2(void) {
    static const char *const tokens[] = { "<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>", "a", "ab", "b", "</s>", "<0x63>", "abc",
                                          "dd", "<0xFF>", "<0xE4>", "ee", NULL };
    static const int types[] = { 2, 3, 3, 3, 1, 1, 1, 1, 6, 1, 1, 6, 6, 1 };
    static const float scores[] = { 0, 0, 0, 0, -2, -4, -2, -3, 0, -3000, -1000, 0, 0, -1 };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    tok_begin(&w, "plamo2", tokens, types);
    gw_f32s(&w, "tokenizer.ggml.scores", scores, 14);
    CHECK(tok_end(&w, &f, &file, &err));
    CHECK(infer__token_special(f.t, INFER_SPECIAL_BOS) == 1 && infer__token_special(f.t, INFER_SPECIAL_PAD) == 3);
    CHECK(infer__token_flags(f.t, 7) == INFER_TOKEN_NORMAL); /* </s> is text here */
    CHECK(infer__token_flags(f.t, 2) & INFER_TOKEN_END);
    tok_check_line(&f, "ab", 2, INFER_TEXT_ADD_SPECIAL, "5"); /* of equal ways that with the longer first token */
    tok_check_line(&f, "abc", 3, 0, "5 8"); /* "abc" is too bad to be used, c is a byte */
    tok_check_line(&f, "a\xff\xe4\xb8", 4, 0, "4 11 12 0"); /* bytes; the unknown token for one without */
    tok_check_line(&f, "\xef\xbb\xbf" "a", 4, 0, "4");
    tok_check_line(&f, "dd", 2, 0, "10");
    tok_check_line(&f, "<|plamo:eos|></s>", 17, INFER_TEXT_PARSE_SPECIAL, "2 7");
    tok_check_line(&f, "<|plamo:pad|>", 13, 0, "0 0 0 0 4 0 0 0 0 4 0 0 0"); /* never by spelling it */
    tok_close(&f);
    free(file);
}

/* ---- special tokens of all kinds ---- */

static void test_special_ids(void) {
    static const char *const tokens[] = { "a", "<|eom_id|>", "[EOT]", "<fim-pad>", "<reponame>", "<|file_sep|>", "<|prefix|>", "<|suffix|>", "<|middle|>",
                                          "</s>", "<|tool_response>", "x", "[e~[", NULL };
    static const int types[] = { 1, 1, 4, 3, 3, 3, 4, 4, 4, 3, 4, 1, 1 };
    static const struct { int which; infer_token id; } want[] = {
        { INFER_SPECIAL_EOM, 1 }, { INFER_SPECIAL_EOT, 2 }, { INFER_SPECIAL_FIM_PAD, 3 }, { INFER_SPECIAL_FIM_REP, 11 }, { INFER_SPECIAL_FIM_SEP, 5 },
        { INFER_SPECIAL_FIM_PRE, 6 }, { INFER_SPECIAL_FIM_SUF, 7 }, { INFER_SPECIAL_FIM_MID, 8 }, { INFER_SPECIAL_CLS, 0 }, { INFER_SPECIAL_EOS, -1 } };
    static const int ends[] = { 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1 };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    size_t i;
    tok_begin(&w, "gpt2", tokens, types);
    gw_str(&w, "tokenizer.ggml.pre", "gpt-2");
    gw_strs(&w, "tokenizer.ggml.merges", tokens, 0);
    gw_int(&w, "tokenizer.ggml.fim_rep_token_id", GW_U32, 11);
    gw_int(&w, "tokenizer.ggml.cls_token_id", GW_U32, 0);
    CHECK(tok_end(&w, &f, &file, &err));
    for (i = 0; i < sizeof want / sizeof want[0]; i++) CHECK(infer__token_special(f.t, want[i].which) == want[i].id);
    for (i = 0; i < 13; i++) CHECK(((infer__token_flags(f.t, (infer_token)i) & INFER_TOKEN_END) != 0) == ends[i]);
    CHECK(infer__token_flags(f.t, 9) == INFER_TOKEN_NORMAL);                       /* </s> beside <|tool_response> */
    CHECK(infer__token_flags(f.t, 1) == (INFER_TOKEN_CONTROL | INFER_TOKEN_END)); /* by its text, whatever its type */
    tok_close(&f);
    free(file);
}

/* ---- memory, time ---- */

/* A vocabulary of each kind: letters, letters behind a space, bytes. */
static unsigned char *kind_made(const char *model, size_t *n) {
    static char texts[300][8];
    const char *names[301];
    int64_t types[300];
    float scores[300];
    gguf_writer w;
    size_t i;
    for (i = 0; i < 300; i++) {
        if (i < 4) snprintf(texts[i], 8, "<%d>", (int)i);
        else if (i < 30) snprintf(texts[i], 8, "%c", (int)('a' + i - 4));
        else if (i < 44) snprintf(texts[i], 8, "%s%c", INFER__SPACE_MARK, (int)('a' + i - 30));
        else snprintf(texts[i], 8, "<0x%02X>", (int)(i - 44));
        if (i >= 44 && strcmp(model, "rwkv") == 0) snprintf(texts[i], 8, "\\x%02x", (int)(i - 44));
        names[i] = texts[i];
        types[i] = i == 0 ? 2 : i < 4 ? 3 : i < 44 || strcmp(model, "rwkv") == 0 ? 1 : 6;
        scores[i] = -(float)(i % 7);
    }
    snprintf(texts[29], 8, "aaaaaaa");
    names[300] = NULL;
    gw_init(&w);
    gw_str(&w, "tokenizer.ggml.model", model);
    gw_strs(&w, "tokenizer.ggml.tokens", names, 300);
    gw_ints(&w, "tokenizer.ggml.token_type", GW_I32, types, 300);
    gw_f32s(&w, "tokenizer.ggml.scores", scores, 300);
    gw_int(&w, "tokenizer.ggml.unknown_token_id", GW_U32, 0);
    gw_int(&w, "tokenizer.ggml.add_space_prefix", GW_BOOL, 1);
    return gw_finish(&w, n);
}
static const char *const KIND_MODELS[] = { "bert", "t5", "rwkv", "plamo2" };

/* Every allocation of opening, tokenizing and detokenizing fails once. */
static void test_kinds_memory(void) {
    char text[3000], out[64];
    size_t i, k, count, len, n;
    for (k = 0; k < sizeof text; k++) text[k] = "the cat 12\n\xff"[k % 12];
    for (i = 0; i < 4; i++) {
        unsigned char *file = kind_made(KIND_MODELS[i], &n);
        infer_result r = INFER_ERR_MEMORY;
        long at;
        check_detail = KIND_MODELS[i];
        for (at = 1; r == INFER_ERR_MEMORY && at < 200; at++) {
            infer_allocator a = { NULL, check_alloc, check_free };
            infer__mem mem, plain;
            infer__gguf g;
            infer__tokenizer *t = NULL;
            infer_error err;
            infer_token ids[100];
            infer__mem_init(&plain, NULL, 0);
            infer__mem_init(&mem, &a, 0);
            CHECK(infer__gguf_open_memory(&g, &plain, NULL, file, n, &err) == INFER_OK);
            check_allocs = check_live = 0;
            check_fail_at = at;
            r = infer__tokenizer_open(&t, &mem, NULL, &g, NULL, &err);
            if (r == INFER_OK) r = infer__tokenize(t, &mem, text, sizeof text, 0, ids, 100, &count, &err);
            if (r == INFER_OK) r = infer__detokenize(t, ids, 100, 0, out, sizeof out, &len, &err);
            CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && err.code == r));
            infer__tokenizer_close(t);
            check_fail_at = 0;
            CHECK(check_live == 0);
            infer__gguf_close(&g);
        }
        CHECK(r == INFER_OK && at > 10);
        free(file);
    }
}

/* One megabyte of one thing: linear, so well under a second when optimised. */
static void test_kinds_hostile_texts(void) {
    static const char *const units[] = { "a", " ", "\xcc\x81", "\n", "1", "'", "<", "a ", "\xe4\xb8\xad", "e\xcc\x81", "\xe2\x96\x81", "?" };
    const size_t size = 1 << 20;
    char *s = (char *)malloc(size);
    uint32_t state = 7;
    size_t i, u, k, n;
    CHECK(s != NULL);
    for (i = 0; s && i < 4; i++) {
        unsigned char *file = kind_made(KIND_MODELS[i], &n);
        tok_open_file f;
        infer_error err;
        CHECK(tok_open(&f, NULL, file, n, NULL, 0, &err));
        for (u = 0; u < 12; u++) {
            size_t len = strlen(units[u]), whole = size / len * len, count = 0;
            clock_t start = clock();
            double seconds;
            for (k = 0; k < size; k++) s[k] = u == 11 ? (char)tok_random(&state) : units[u][k % len];
            check_detail = u == 11 ? "random bytes" : units[u];
            CHECK(infer__tokenize(f.t, &f.mem, s, whole, 0, NULL, 0, &count, &err) == INFER_OK);
            seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            CHECK(seconds < 30);
            if (getenv("INFER_TEST_VERBOSE")) fprintf(stderr, "%s '%s': %.3f s, %d ids\n", KIND_MODELS[i], check_detail, seconds, (int)count);
        }
        tok_close(&f);
        free(file);
    }
    free(s);
}

/* Tokens of a thousand bytes and a text of the same letter: as many steps as bytes times the longest token, no more. */
static void test_kinds_hostile_tokens(void) {
    static char text[100000], longest[INFER__TRIE_LONGEST + 2];
    size_t i, k, n, count;
    memset(text, 'a', sizeof text);
    for (i = 0; i < 4; i++) {
        gguf_writer w;
        tok_open_file f;
        infer_error err;
        unsigned char *file;
        check_detail = KIND_MODELS[i];
        gw_init(&w);
        gw_str(&w, "tokenizer.ggml.model", KIND_MODELS[i]);
        gw_array(&w, "tokenizer.ggml.tokens", GW_STRING, sizeof longest);
        for (k = 0; k < sizeof longest; k++) {
            memset(longest, 'a', k);
            gw_raw_string(&w, &w.kv, longest, k);
        }
        file = gw_finish(&w, &n);
        CHECK(tok_open(&f, NULL, file, n, NULL, 0, &err));
        if (f.t) {
            CHECK_HAS(f.log, "1 tokens longer than 1024 bytes");
            CHECK(infer__tokenize(f.t, &f.mem, text, sizeof text, 0, NULL, 0, &count, &err) == INFER_OK);
            CHECK(i == 0 ? count <= 1 : count >= 98);
        }
        tok_close(&f);
        free(file);
    }
}

/* A character map in which "a" leads back to where it came from, and a text of nothing else. */
static void test_ugm_circle(void) {
    unsigned char map[4 + 4 * 256 + 2];
    const uint32_t loop = 'a' | (uint32_t)'a' << 10;
    const size_t n = 1 << 19;
    char *text = (char *)malloc(n);
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    size_t i, count = 0;
    clock_t start = clock();
    CHECK(text != NULL);
    if (!text) return;
    memset(text, 'a', n);
    memset(map, 0, sizeof map);
    map[1] = 4; /* 1024 bytes of units */
    for (i = 0; i < 4; i++) map[4 + 4 * 'a' + i] = (unsigned char)(loop >> i * 8);
    map[sizeof map - 2] = 'x';
    kind_ugm_begin(&w, NULL);
    gw_array(&w, "tokenizer.ggml.precompiled_charsmap", GW_U8, sizeof map);
    gw_add(&w.kv, map, sizeof map);
    CHECK(tok_end(&w, &f, &file, &err));
    CHECK(infer__tokenize(f.t, &f.mem, text, n, 0, NULL, 0, &count, &err) == INFER_OK && count == n);
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 30); /* a tenth of a second when optimised; n^2 is minutes */
    tok_close(&f);
    free(file);
    free(text);
}

/* Opening adds at most three times the bytes of the file's tokens and merges. */
static void test_vocab_cost(void) {
    static const char *const names[] = { "baichuan", "bert-bge", "deepseek-coder", "falcon", "gemma-4", "gpt-2", "gpt-4o", "gpt-neox", "llama-bpe",
                                         "llama-spm", "nomic-bert-moe", "phi-3", "qwen2", "rwkv-world" };
    static const char *const keys[] = { "tokenizer.ggml.tokens", "tokenizer.ggml.merges" };
    size_t i, k;
    if (!check_reference("vocabs")) SKIP("needs INFER_TEST_DATA: vocabs/*.gguf");
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        infer__mem mem, own;
        infer__gguf g;
        infer__tokenizer *t;
        infer__tokenizer_options options;
        infer_error err;
        uint64_t bytes = 0, j, used;
        clock_t start;
        memset(&options, 0, sizeof options);
        options.allow_default_pre = 1;
        check_detail = names[i];
        infer__mem_init(&mem, NULL, 0);
        infer__mem_init(&own, NULL, 0);
        if (infer__gguf_open_path(&g, &mem, NULL, tok_vocab_path(names[i], ""), 1, &err) != INFER_OK) {
            check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        for (k = 0; k < 2; k++) {
            const infer__kv *kv = infer__gguf_find(&g, keys[k]);
            for (j = 0; kv && j < kv->n; j++) bytes += ((const infer__str *)kv->data)[j].n;
        }
        start = clock();
        CHECK(infer__tokenizer_open(&t, &own, NULL, &g, &options, &err) == INFER_OK);
        used = (uint64_t)infer__atomic_get(&own.used);
        if (getenv("INFER_TEST_VERBOSE")) {
            fprintf(stderr, "%s: %.1f ms, %.1f MB added to %.1f MB: %.2f\n", names[i], (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC,
                    (double)used / 1e6, (double)bytes / 1e6, (double)used / (double)bytes);
        }
        CHECK(used <= 3 * bytes);
        infer__tokenizer_close(t);
        CHECK(infer__atomic_get(&own.used) == 0);
        infer__gguf_close(&g);
    }
}

static void suite_tokenizer_kinds(void) {
    RUN(test_kinds_recorded);
    RUN(test_kinds_small);
    RUN(test_unicode_maps);
    RUN(test_trie);
    RUN(test_wpm);
    RUN(test_wpm_clean);
    RUN(test_ugm);
    RUN(test_ugm_switches);
    RUN(test_ugm_long);
    RUN(test_rwkv);
    RUN(test_plamo2);
    RUN(test_special_ids);
    RUN(test_kinds_memory);
    RUN(test_kinds_hostile_texts);
    RUN(test_kinds_hostile_tokens);
    RUN(test_ugm_circle);
    RUN(test_vocab_cost);
}
