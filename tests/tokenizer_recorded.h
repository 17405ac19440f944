/* tokenizer_recorded.h: ids recorded by other tokenizers, for test_tokenizer.c and test_tokenizer_kinds.c: the vocabularies, the
 * formats of the references, and the tests of those that are no kind of their own. */
/* name, whether the default pre-tokenizer has to be allowed, and whether there is no tokenizers/NAME.ids */
static const struct { const char *name; int allow, no_ids; } TOK_VOCABS[] = {
    { "gpt-2", 0, 0 }, { "gpt-neox", 1, 0 }, { "llama-bpe", 0, 0 }, { "qwen2", 0, 0 }, { "deepseek-coder", 0, 0 },
    { "falcon", 0, 0 }, { "gpt-4o", 0, 1 }, { "gemma-4", 0, 0 }, { "llama-spm", 0, 0 }, { "phi-3", 0, 0 }, { "baichuan", 0, 0 }
};
enum { TOK_N_VOCABS = sizeof TOK_VOCABS / sizeof TOK_VOCABS[0] };

static const char *tok_vocab_path(const char *name, const char *suffix) {
    char rel[200];
    snprintf(rel, sizeof rel, "vocabs/ggml-vocab-%s.gguf%s", name, suffix);
    return check_reference(rel);
}
static int tok_open_named(tok_open_file *f, const char *name, int allow) {
    infer_error err;
    check_detail = name;
    if (tok_open(f, tok_vocab_path(name, ""), NULL, 0, NULL, allow, &err)) {
        CHECK_STR(infer__tokenizer_why_not(f->t), "");
        return 1;
    }
    check_note(__FILE__, __LINE__, err.message);
    return 0;
}
static int tok_open_vocab(tok_open_file *f, size_t i) { return tok_open_named(f, TOK_VOCABS[i].name, TOK_VOCABS[i].allow); }

/* tokenizers/NAME.ids, which is changed: 201 texts, three lines each. Returns the number of texts. */
static size_t tok_check_ids(tok_open_file *f, char *text, size_t text_n, char *ids) {
    char *texts = text, *line;
    size_t n_texts = 0;
    for (line = ids; *line; ) {
        size_t n = (size_t)(texts + text_n - text), len;
        char *end = (char *)memchr(text, 0x1e, n), *next = line + strcspn(line, "\n");
        if (end) n = (size_t)(end - text);
        *next = 0;
        if (strncmp(line, "plain:", 6) == 0) {
            tok_check_line(f, text, n, 0, line + 6);
        } else if (strncmp(line, "special:", 8) == 0) {
            tok_check_line(f, text, n, INFER_TEXT_SPECIAL, line + 8);
            text += n + 1;
            n_texts++;
        } else if (strncmp(line, "text: ", 6) == 0) {
            char out[4096];
            size_t count, want = tok_unhex(line + 6, strlen(line + 6), line);
            infer_error err;
            infer_token *got = tok_ids(f, text, n, 0, &count);
            const int other = tok_other_ids(text, n, 0) != NULL; /* the recorded text is of the recorded ids */
            CHECK(got && infer__detokenize(f->t, got, count, INFER_TEXT_WRITE_SPECIAL, out, sizeof out, &len, &err) == INFER_OK);
            CHECK(got && (other || (len == want && memcmp(out, line, len) == 0)));
            free(got);
        }
        line = next + 1;
    }
    return n_texts;
}

static void test_tokenizer_texts(void) {
    size_t i, n_texts = 0, file_n;
    const char *path = check_reference("tokenizers/texts.bin");
    char *texts = path ? check_read(path, &file_n) : NULL;
    if (!texts) SKIP("needs INFER_TEST_DATA: tokenizers/texts.bin");
    for (i = 0; i < TOK_N_VOCABS; i++) {
        tok_open_file f;
        char rel[100], *ids;
        if (TOK_VOCABS[i].no_ids) continue;
        snprintf(rel, sizeof rel, "tokenizers/%s.ids", TOK_VOCABS[i].name);
        ids = check_read(check_reference(rel), NULL);
        CHECK(ids != NULL);
        if (!ids || !tok_open_vocab(&f, i)) { free(ids); continue; }
        n_texts += tok_check_ids(&f, texts, file_n, ids);
        free(ids);
        tok_close(&f);
    }
    CHECK(n_texts == 201 * (TOK_N_VOCABS - 1));
    free(texts);
}

/* vocabs/NAME.gguf.inp and .out. Returns the number of lines. */
static int tok_check_vectors(tok_open_file *f, const char *name) {
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char *inp = check_read(tok_vocab_path(name, ".inp"), NULL), *in = inp;
    char *out = check_read(tok_vocab_path(name, ".out"), NULL), *line = out, *end;
    int lines = 0;
    CHECK(inp && out);
    while (inp && out && *line) {
        char *next = line + strcspn(line, "\n");
        end = strstr(in, mark); /* gemma-4: the last text has none behind it */
        *next = 0;
        tok_check_line(f, in, end ? (size_t)(end - in) : strlen(in), 0, line);
        lines++;
        line = next + 1;
        if (!end) break;
        in = end + sizeof mark - 1;
    }
    CHECK(line && *line == 0);
    free(inp);
    free(out);
    return lines;
}

static void test_tokenizer_vectors(void) {
    size_t i;
    int lines = 0;
    if (!check_reference("vocabs")) SKIP("needs INFER_TEST_DATA: vocabs/*.out");
    for (i = 0; i < TOK_N_VOCABS; i++) {
        tok_open_file f;
        if (!tok_open_vocab(&f, i)) continue;
        lines += tok_check_vectors(&f, TOK_VOCABS[i].name);
        tok_close(&f);
    }
    CHECK(lines == 46 * TOK_N_VOCABS);
}

/* SHA-256, FIPS 180-4. */
static void tok_sha256(const unsigned char *data, size_t n, char hex[65]) {
    static const uint32_t K[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
        0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
        0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
        0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
        0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
        0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2 };
    uint32_t h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    size_t total = (n + 8) / 64 * 64 + 64, at, i;
#define ROR(x, k) ((x) >> (k) | (x) << (32 - (k)))
    for (at = 0; at < total; at += 64) {
        uint32_t w[64], s[8], t1, t2;
        memset(w, 0, sizeof w);
        for (i = 0; i < 64; i++) {
            size_t p = at + i;
            uint32_t b = p < n ? data[p] : p == n ? 0x80 : p >= total - 8 ? (uint32_t)((uint64_t)n * 8 >> (total - 1 - p) * 8) & 255 : 0;
            w[i / 4] |= b << (24 - i % 4 * 8);
        }
        for (i = 16; i < 64; i++) {
            w[i] = w[i - 16] + (ROR(w[i - 15], 7) ^ ROR(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
                   (ROR(w[i - 2], 17) ^ ROR(w[i - 2], 19) ^ w[i - 2] >> 10);
        }
        memcpy(s, h, sizeof s);
        for (i = 0; i < 64; i++) {
            t1 = s[7] + (ROR(s[4], 6) ^ ROR(s[4], 11) ^ ROR(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[i] + w[i];
            t2 = (ROR(s[0], 2) ^ ROR(s[0], 13) ^ ROR(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            memmove(s + 1, s, 7 * sizeof *s);
            s[4] += t1;
            s[0] = t1 + t2;
        }
        for (i = 0; i < 8; i++) h[i] += s[i];
    }
#undef ROR
    for (i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", (unsigned)h[i]);
}

/* vocabs/NAME.gguf.extra.json: flags, and the hash of the ids of a long text. */
static void tok_check_extra(tok_open_file *f, const char *name, const char *long_text, size_t long_n) {
    char *json = check_read(tok_vocab_path(name, ".extra.json"), NULL), text[4096], hex[65];
    const char *p = json;
    infer_token *ids;
    size_t k, count;
    int cases = 0;
    CHECK(json != NULL);
    while (json && (p = strstr(p, "{\"text\": ")) != NULL) {
        size_t n;
        int flags;
        p = tok_json_string(p + 9, text, &n);
        flags = strncmp(p, ", \"add_special\": true", 21) == 0 ? INFER_TEXT_ADD_SPECIAL : 0;
        p = strstr(p, "\"parse_special\": ") + 17;
        if (*p == 't') flags |= INFER_TEXT_PARSE_SPECIAL;
        p = strstr(p, "\"ids\": [") + 8;
        tok_check_line(f, text, n, flags, p);
        cases++;
    }
    CHECK(cases >= 20);
    ids = tok_ids(f, long_text, long_n, 0, &count);
    if (ids && json) {
        unsigned char *bytes = (unsigned char *)malloc(count * 4);
        for (k = 0; k < count * 4; k++) bytes[k] = (unsigned char)((uint32_t)ids[k / 4] >> k % 4 * 8);
        tok_sha256(bytes, count * 4, hex);
        free(bytes);
        p = tok_instead ? strstr(tok_instead, "sha256 ") : strstr(json, "\"sha256_of_int32le_ids\": \"");
        CHECK(p && strncmp(p + (tok_instead ? 7 : 26), hex, 64) == 0);
    }
    free(ids);
    free(json);
}

static void test_tokenizer_extra(void) {
    size_t i, long_n = 0;
    char *long_text, hex[65];
    const char *path = check_reference("vocabs/long-text.txt");
    tok_sha256((const unsigned char *)"abc", 3, hex);
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    long_text = path ? check_read(path, &long_n) : NULL;
    if (!long_text) SKIP("needs INFER_TEST_DATA: vocabs/*.extra.json");
    for (i = 0; i < TOK_N_VOCABS; i++) {
        tok_open_file f;
        if (!tok_open_vocab(&f, i)) continue;
        tok_check_extra(&f, TOK_VOCABS[i].name, long_text, long_n);
        tok_check_round_trip(&f, long_text, long_n);
        tok_close(&f);
    }
    free(long_text);
}
