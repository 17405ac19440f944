/* test_tokenizer.c: vocabularies, pre-tokenizers, both merge algorithms, against ids recorded elsewhere. */
#define TEST_TOKENIZER /* for test_tokenizer_kinds.c */
#include "gguf_write.h"
#include <time.h>

typedef struct tok_open_file {
    infer__mem mem;
    infer__gguf g;
    infer__tokenizer *t;
    char log[400]; /* the last line */
    int logged;
} tok_open_file;

static void tok_log(void *user, int level, const char *message) {
    tok_open_file *f = (tok_open_file *)user;
    (void)level;
    f->logged++;
    snprintf(f->log, sizeof f->log, "%s", message);
}

/* Open path, or data when path is NULL. 0 = failed, with *err. f stays where it is until tok_close. */
static int tok_open(tok_open_file *f, const char *path, const void *data, size_t n, const char *pre, int allow,
                    infer_error *err) {
    infer__report report;
    infer__tokenizer_options options;
    infer_result r;
    memset(f, 0, sizeof *f);
    memset(&options, 0, sizeof options);
    infer__mem_init(&f->mem, NULL, 0);
    report.log = tok_log;
    report.user = f;
    options.pre = pre;
    options.allow_default_pre = allow;
    if (path) r = infer__gguf_open_path(&f->g, &f->mem, NULL, path, 1, err);
    else r = infer__gguf_open_memory(&f->g, &f->mem, NULL, data, n, err);
    if (r != INFER_OK) return 0;
    r = infer__tokenizer_open(&f->t, &f->mem, &report, &f->g, &options, err);
    CHECK((r == INFER_OK) == (f->t != NULL));
    if (r != INFER_OK) {
        CHECK(err->code == r && err->message[0]);
        infer__gguf_close(&f->g);
    }
    return r == INFER_OK;
}
static void tok_close(tok_open_file *f) {
    infer__tokenizer_close(f->t);
    infer__gguf_close(&f->g);
    CHECK(infer__atomic_get(&f->mem.used) == 0);
}

/* The ids of a text in memory of malloc; NULL on error. */
static infer_token *tok_ids(tok_open_file *f, const char *s, size_t n, int flags, size_t *count) {
    size_t full = 0, cap = n + 8;
    infer_token *out = (infer_token *)malloc(cap * sizeof *out);
    infer_error err;
    infer_result r = infer__tokenize(f->t, &f->mem, s, n, flags, out, cap, &full, &err);
    *count = full;
    if (r == INFER_OK && full > cap) { /* SPM: three bytes a space */
        out = (infer_token *)realloc(out, full * sizeof *out);
        r = infer__tokenize(f->t, &f->mem, s, n, flags, out, full, count, &err);
        CHECK(*count == full);
    }
    if (r == INFER_OK) return out;
    check_note(__FILE__, __LINE__, err.message);
    free(out);
    *count = 0;
    return NULL;
}

/* Where the recorded ids are not what the model's own code gives: lines of flags, a text in hexadecimal, ids
 * (tests/make_bert_ids.py). NULL = nowhere. */
static char *tok_instead;
/* The ids of such a text, NULL when it has none. */
static const char *tok_other_ids(const char *s, size_t n, int flags) {
    const char *line = tok_instead;
    for (; line && *line; line += strcspn(line, "\n"), line += *line != 0) {
        size_t i;
        char byte[3];
        if (*line - '0' != flags || strcspn(line + 2, " \n") != 2 * n) continue;
        for (i = 0; i < n; i++) {
            snprintf(byte, sizeof byte, "%02x", (unsigned char)s[i]);
            if (memcmp(line + 2 + 2 * i, byte, 2) != 0) break;
        }
        if (i == n) return line + 2 + 2 * n;
    }
    return NULL;
}

/* The ids must be those of a line of decimal numbers. */
static void tok_check_line(tok_open_file *f, const char *s, size_t n, int flags, const char *want) {
    size_t count, i;
    infer_token *ids = tok_ids(f, s, n, flags, &count);
    const char *other = tok_other_ids(s, n, flags);
    char *end;
    if (other) want = other;
    for (i = 0; ids; i++) {
        long id;
        while (*want == ' ' || *want == ',') want++;
        if (*want < '0' || *want > '9') break;
        id = strtol(want, &end, 10);
        if (i >= count || ids[i] != id) {
            char m[300];
            snprintf(m, sizeof m, "id %d: got %ld want %ld in \"%.120s\"", (int)i, i < count ? (long)ids[i] : -1L, id, s);
            check_note(__FILE__, __LINE__, m);
            break;
        }
        want = end;
    }
    CHECK(ids && i == count);
    free(ids);
}

/* detokenize(tokenize(s)) == s. */
static void tok_check_round_trip(tok_open_file *f, const char *s, size_t n) {
    size_t count, len = 0, again = 0;
    infer_token *ids = tok_ids(f, s, n, 0, &count);
    char *text = (char *)malloc(n + 1);
    infer_error err;
    CHECK(ids && text);
    if (ids) {
        CHECK(infer__detokenize(f->t, ids, count, INFER_TEXT_WRITE_SPECIAL, text, n, &len, &err) == INFER_OK);
        CHECK(len == n && memcmp(text, s, n) == 0);
        CHECK(infer__detokenize(f->t, ids, count, INFER_TEXT_WRITE_SPECIAL, NULL, 0, &again, &err) == INFER_OK && again == len);
    }
    free(ids);
    free(text);
}

static size_t tok_unhex(const char *hex, size_t digits, char *out) {
    size_t i;
    for (i = 0; i + 1 < digits; i += 2) {
        char two[3];
        two[0] = hex[i];
        two[1] = hex[i + 1];
        two[2] = 0;
        out[i / 2] = (char)strtol(two, NULL, 16);
    }
    return digits / 2;
}

static uint32_t tok_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* ---- what every clone has ---- */

/* tests/data/vocab-bpe-small.txt: recorded with another implementation, see its head. */
static void test_bpe_small(void) {
    static const char *const pres[] = { "gpt-2", "llama-bpe", "qwen2", "default" };
    char *file = check_read(check_data("vocab-bpe-small.txt"), NULL), text[1024];
    size_t p, lines = 0;
    CHECK(file != NULL);
    for (p = 0; file && p < 4; p++) {
        tok_open_file f;
        infer_error err;
        char *line, *next;
        if (!tok_open(&f, check_data("vocab-bpe-small.gguf"), NULL, 0, pres[p], 0, &err)) {
            check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        CHECK_STR(infer__tokenizer_why_not(f.t), "");
        check_detail = pres[p];
        for (line = file; *line; line = next) {
            size_t n = strlen(pres[p]), digits, len;
            const char *hex = line + n + 3;
            next = line + strcspn(line, "\n");
            next += *next == '\n';
            if (strncmp(line, pres[p], n) != 0 || line[n] != ' ') continue;
            digits = *hex == '.' ? 0 : strcspn(hex, " ");
            len = tok_unhex(hex, digits, text);
            text[len] = 0;
            tok_check_line(&f, text, len, line[n + 1] == 'P' ? INFER_TEXT_PARSE_SPECIAL : 0, hex + strcspn(hex, " "));
            tok_check_round_trip(&f, text, len);
            lines++;
        }
        tok_close(&f);
    }
    CHECK(lines > 400);
    free(file);
}

/* A JSON string at p, which is at its opening quote; returns what follows it. */
static const char *tok_json_string(const char *p, char *out, size_t *n) {
    *n = 0;
    for (p++; *p && *p != '"'; p++) {
        if (*p != '\\') {
            out[(*n)++] = *p;
            continue;
        }
        p++;
        if (*p == 'u') {
            uint32_t cp;
            char digits[5];
            memcpy(digits, p + 1, 4);
            digits[4] = 0;
            cp = (uint32_t)strtoul(digits, NULL, 16);
            p += 4;
            if (cp >= 0xd800 && cp < 0xdc00) {
                memcpy(digits, p + 3, 4);
                cp = 0x10000 + ((cp - 0xd800) << 10) + ((uint32_t)strtoul(digits, NULL, 16) - 0xdc00);
                p += 6;
            }
            *n += infer__utf8_put(cp, out + *n);
        } else {
            out[(*n)++] = *p == 'n' ? '\n' : *p == 't' ? '\t' : *p == 'r' ? '\r' : *p == 'b' ? '\b' : *p == 'f' ? '\f' : *p;
        }
    }
    out[*n] = 0;
    return *p ? p + 1 : p;
}

/* The prompts of the models' reference results. */
static void test_model_prompts(void) {
    static const char *const names[] = { "models/stories260K.F32", "models/TinyStories-656K.Q8_0" };
    size_t i, n;
    for (i = 0; i < 2; i++) {
        tok_open_file f;
        infer_error err;
        char path[200], text[4096];
        char *json;
        const char *p;
        int cases = 0;
        check_detail = names[i];
        snprintf(path, sizeof path, "%s.ref.json", names[i]);
        json = check_read(check_data(path), NULL);
        snprintf(path, sizeof path, "%s.gguf", names[i]);
        if (!json || !tok_open(&f, check_data(path), NULL, 0, NULL, 0, &err)) {
            check_note(__FILE__, __LINE__, json ? err.message : "no ref.json");
            free(json);
            continue;
        }
        CHECK(infer__tokenizer_adds_bos(f.t) == 1);
        for (p = json; (p = strstr(p, "\"prompt\":\"")) != NULL; cases++) {
            p = tok_json_string(p + 9, text, &n);
            p = strstr(p, "\"prompt_tokens\":[");
            if (!p) break;
            p += 17;
            tok_check_line(&f, text, n, INFER_TEXT_SPECIAL, p);
        }
        CHECK(cases >= 2);
        free(json);
        tok_close(&f);
    }
}

static void test_round_trip_random(void) {
    static const char *const names[] = { "vocab-bpe-small.gguf", "models/stories260K.F32.gguf" };
    static const char *const pres[] = { "gpt-2", "llama-bpe", "qwen2", "default" };
    static const char alphabet[] = "  \n\r\t'aEsl19.,<|>\xc3\xa9\xe4\xb8\xad\xcc\x81\xf0\x9f";
    char s[300];
    uint32_t state = 1;
    size_t i, k, n;
    int round;
    for (i = 0; i < 5; i++) {
        tok_open_file f;
        infer_error err;
        check_detail = i < 4 ? pres[i] : names[1];
        if (!tok_open(&f, check_data(names[i == 4]), NULL, 0, i < 4 ? pres[i] : NULL, 0, &err)) {
            check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        for (round = 0; round < 400; round++) {
            n = tok_random(&state) % sizeof s;
            for (k = 0; k < n; k++) {
                uint32_t x = tok_random(&state);
                s[k] = round & 1 ? (char)x : alphabet[x % (sizeof alphabet - 1)];
            }
            /* SPM cannot tell U+2581 from a space; no byte E2 here, as in the alphabet. */
            for (k = 0; k < n; k++) if ((uint8_t)s[k] == 0xe2) s[k] = 'x';
            tok_check_round_trip(&f, s, n);
        }
        tok_close(&f);
    }
}

/* Words that are cut apart or remembered give the ids of a text made as a whole. */
static void test_words(void) {
    static const char *const pres[] = { "gpt-2", "llama-bpe", "qwen2", "default", NULL };
    static const char *const parts[] = { " the", " ", "  ", "cat", "\n", " a", "1", " 23", "'s", ".", "<|user|>", "\xc3\xa9", "e", "x", "\xe2\x96\x81" };
    static char s[9000];
    uint32_t state = 3;
    size_t i, n = 0, at, count, all;
    while (n < sizeof s - 20) {
        const char *part = parts[tok_random(&state) % 15];
        memcpy(s + n, part, strlen(part));
        n += strlen(part);
    }
    for (i = 0; i < 5; i++) {
        tok_open_file f;
        infer_error err;
        infer_token *whole, *ids;
        infer__splitter words;
        check_detail = pres[i] ? pres[i] : "spm";
        if (!tok_open(&f, check_data(pres[i] ? "vocab-bpe-small.gguf" : "models/stories260K.F32.gguf"), NULL, 0, pres[i], 0, &err)) {
            check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        whole = tok_ids(&f, s, n, 0, &all);
        if (pres[i]) { /* one word at a time, too short to be remembered */
            size_t done = 0;
            for (at = 0; whole && at < n; ) {
                int32_t marked = infer__vocab_marked(&f.t->vocab, s + at, n - at, INFER_TOKEN_USER, NULL);
                size_t len = 1, end = at + 1;
                if (marked >= 0) {
                    len = (size_t)f.t->vocab.text[marked].n;
                } else {
                    while (end < n && infer__vocab_marked(&f.t->vocab, s + end, n - end, INFER_TOKEN_USER, NULL) < 0) end++;
                    infer__split_begin(&words, f.t->pre, s + at, end - at);
                    len = infer__split_next(&words);
                }
                ids = tok_ids(&f, s + at, len, 0, &count);
                CHECK(ids && done + count <= all && memcmp(ids, whole + done, count * sizeof *ids) == 0);
                free(ids);
                done += count;
                at += len;
            }
            CHECK(done == all);
        } else { /* never cut */
            size_t words = 0, len;
            for (at = 0; at < n; at += len, words++) len = infer__space_split(&f.t->vocab, s + at, n - at);
            CHECK(words > 500);
            memset(f.t->vocab.joins, 1, sizeof f.t->vocab.joins);
            ids = tok_ids(&f, s, n, 0, &count);
            CHECK(whole && ids && count == all && memcmp(ids, whole, count * sizeof *ids) == 0);
            free(ids);
        }
        free(whole);
        tok_close(&f);
    }
}

/* The words of a text, separated by '/'. */
static void tok_check_words(const char *pre, const char *s, const char *want) {
    const infer__pretokenizer *p = infer__pretokenizer_find(pre, strlen(pre));
    char got[300];
    size_t at = 0, n = strlen(s), len = 0, word;
    infer__splitter words;
    CHECK(p != NULL);
    if (!p) return;
    for (infer__split_begin(&words, p, s, n); (word = infer__split_next(&words)) != 0; ) {
        if (at) got[len++] = '/';
        memcpy(got + len, s + at, word);
        len += word;
        at += word;
    }
    CHECK(at == n);
    got[len] = 0;
    CHECK_STR(got, want);
}

static void test_pretokenizers(void) {
    tok_check_words("gpt-2", "I'll don't  HE'S 123 x1", "I/'ll/ don/'t/ / HE/'/S/ 123/ x/1");
    tok_check_words("gpt-2", "a \n\n b", "a/ \n\n/ b");
    tok_check_words("gpt-2", "a...b  ", "a/.../b/  ");
    tok_check_words("olmo", " !?", " !?");
    tok_check_words("llama-bpe", "I'LL 'tis 12345 (a) !\n\nb", "I/'LL/ '/tis/ /123/45/ (/a/)/ !\n\n/b");
    tok_check_words("falcon3", "a \n \n  b\tc", "a/ \n \n/ / b/\tc");
    tok_check_words("glm4", "x1234", "x/123/4");
    tok_check_words("llama-bpe", "a'\xc5\xbf", "a/'\xc5\xbf"); /* long s is an s when case does not count */
    tok_check_words("qwen2", "123 a\r\n", "1/2/3/ a/\r\n");
    tok_check_words("deepseek-r1-qwen", "<tag/>", "<tag//>");
    tok_check_words("default", "it's 1234567, a  (b)", "it/'/s/ /123/456/7/,/ a/  /(/b/)");
    tok_check_words("default", "12\xd9\xa3" "4567", "12\xd9\xa3/456/7");
    tok_check_words("default", "a+b \xe2\x82\xac\xc2\xa3 $x", "a/+/b/ \xe2\x82\xac\xc2\xa3/ /$/x");
    tok_check_words("gpt-4o", "HTTPServer's McDONALD'Ll a/b//\n", "HTTPServer's/ Mc/DONALD'Ll/ a//b///\n");
    tok_check_words("gpt-4o", "\xe6\x97\xa5" "ABc", "\xe6\x97\xa5" "ABc");
    tok_check_words("tekken", "HE'S 12", "HE/'S/ /1/2");
    tok_check_words("tiny_aya", "1234567 1234x", "1/234/567/ /123/4/x");
    tok_check_words("superbpe", "in 1234567 or 12", "in /1/234/567/ or /12");
    tok_check_words("afmoe", "a1234", "a/1/234");
    tok_check_words("kimi-k2", "a\xe4\xb8\xad\xe6\x96\x87 b", "a/\xe4\xb8\xad\xe6\x96\x87/ b");
    tok_check_words("exaone-moe", "it's a b  c", "it/'s/ a b/ / c");
    tok_check_words("bloom", "Hi there, (you).", "Hi/ there/, (/you/).");
    tok_check_words("chameleon", "IMGIMGABZx <sentinel:1>  \ty", "IMGIMGABZ/x/ /</sentinel/:/1/>/  /\t/y");
    tok_check_words("deepseek-llm", "a b  ", "a/ b/  ");
    tok_check_words("jais-2", "a       b", "a/    /  / b");
    tok_check_words("qwen2", "\xff\xfe\x80", "\xff\xfe\x80"); /* invalid bytes are symbols */
    CHECK(infer__pretokenizer_find("gpt-", 4) == NULL);
    CHECK(infer__pretokenizer_find("gpt-22", 6) == NULL);
    CHECK(infer__pretokenizer_find("", 0) == NULL);
}

/* Every name that a GGUF file may have is known: none is written off by mistake. */
static void test_pretokenizer_names(void) {
    static const char names[] =
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe glm4 chatglm-bpe jais-2 "
        "deepseek-llm deepseek-coder deepseek-v3 hunyuan-dense joyai-llm youtu falcon starcoder refact command-r smollm "
        "codeshell exaone minerva-7b mellum2 gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum "
        "modern-bert jina-v1-en jina-v2-code roberta-bpe exaone4 mpt olmo jais trillion granite-docling qwen2 "
        "deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open qwen35 poro-chat bloom gpt3-finnish viking tekken "
        "chameleon gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m tiny_aya cohere2moe kimi-k2 superbpe "
        "bailingmoe bailingmoe2 llada-moe seed-coder grok-2 afmoe laguna exaone-moe gemma4 granite-embed-multi-311m sarvam-moe "
        "minicpm5 whitespace default";
    const char *p = names;
    int known = 0;
    while (*p) {
        size_t len = strcspn(p, " ");
        const infer__pretokenizer *pre = infer__pretokenizer_find(p, len);
        check_detail = p;
        CHECK(pre && pre->steps[0].first);
        known++;
        p += len + (p[len] == ' ');
    }
    CHECK(known == 87);
}

/* tests/data/pre-splits.txt: recorded with the regular expressions themselves (tests/pre_splits.py). */
static void test_pretokenizer_splits(void) {
    enum { MAX_TEXTS = 100 };
    char *file = check_read(check_data("pre-splits.txt"), NULL), *line, *next;
    char *texts[MAX_TEXTS], name[100] = "";
    size_t n_texts = 0, sizes[MAX_TEXTS], at = 0, rows = 0, i;
    const infer__pretokenizer *pre = NULL;
    CHECK(file != NULL);
    for (line = file; line && *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = 0;
        if (line[0] == 'T' && n_texts < MAX_TEXTS) { /* in place: two digits become one byte */
            texts[n_texts] = line + 2;
            sizes[n_texts] = tok_unhex(line + 2, strlen(line + 2), line + 2);
            n_texts++;
        } else if (line[0] == 'P') {
            CHECK(rows == 0 || at == n_texts);
            snprintf(name, sizeof name, "%.99s", line + 2);
            check_detail = name;
            pre = infer__pretokenizer_find(name, strlen(name));
            CHECK(pre != NULL);
            at = 0;
            rows++;
        } else if (line[0] >= '0' && line[0] <= '9' && pre && at < n_texts) {
            infer__splitter words;
            size_t len;
            const char *want = line;
            char message[100], *end;
            infer__split_begin(&words, pre, texts[at], sizes[at]);
            while ((len = infer__split_next(&words)) != 0) {
                size_t n = (size_t)strtoul(want, &end, 10);
                want = end;
                if (n == len) continue;
                snprintf(message, sizeof message, "text %d at %d: got %d want %d", (int)at,
                         (int)(words.at - texts[at] - len), (int)len, (int)n);
                check_note(__FILE__, __LINE__, message);
                break;
            }
            if (len == 0) CHECK(*want == 0);
            at++;
        }
    }
    CHECK(at == n_texts && n_texts >= 60);
    CHECK(rows == (INFER__COUNT(INFER__PRETOKENIZERS) - 1));
    for (i = 0; i < (INFER__COUNT(INFER__PRETOKENIZERS) - 1); i++) { /* a new row needs a record */
        size_t len = strcspn(INFER__PRETOKENIZERS[i].names, " ");
        char *again = check_read(check_data("pre-splits.txt"), NULL), find[120];
        snprintf(find, sizeof find, "\nP %.*s\n", (int)len, INFER__PRETOKENIZERS[i].names);
        check_detail = INFER__PRETOKENIZERS[i].names;
        CHECK(again && strstr(again, find));
        free(again);
    }
    free(file);
}

/* ---- vocabularies made here ---- */

enum { TOK_NORMAL = 1, TOK_UNKNOWN, TOK_CONTROL, TOK_USER, TOK_UNUSED, TOK_BYTE };

/* "llama" or "gpt2" tokens with types; names ending the list with NULL. */
static void tok_begin(gguf_writer *w, const char *model, const char *const *tokens, const int *types) {
    int64_t kinds[64];
    size_t n = 0;
    gw_init(w);
    gw_str(w, "general.architecture", "llama");
    if (model) gw_str(w, "tokenizer.ggml.model", model);
    while (tokens[n]) {
        kinds[n] = types ? types[n] : TOK_NORMAL;
        n++;
    }
    gw_strs(w, "tokenizer.ggml.tokens", tokens, n);
    if (types) gw_ints(w, "tokenizer.ggml.token_type", GW_I32, kinds, n);
}
static int tok_end(gguf_writer *w, tok_open_file *f, unsigned char **file, infer_error *err) {
    size_t n;
    *file = gw_finish(w, &n);
    return tok_open(f, NULL, *file, n, NULL, 0, err);
}

static void test_spm_special(void) {
    static const char *const tokens[] = { "<unk>", "<s>", "</s>", "\xe2\x96\x81", "a", "b", "ab", "\xe2\x96\x81" "a", "<0x41>",
                                          "<t>", "<t>>", "<c>", "<mask>", "<", "t", ">", "<t", NULL };
    static const int types[] = { TOK_UNKNOWN, TOK_CONTROL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL,
                                 TOK_BYTE, TOK_USER, TOK_USER, TOK_CONTROL, TOK_CONTROL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL,
                                 TOK_NORMAL };
    static const float scores[] = { 0, 0, 0, -1, -2, -3, -1, -2, 0, 0, 0, 0, 0, -1, -1, -1, -1 };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    char text[40];
    size_t len;
    infer_token all[] = { 1, 7, 6, 2 }, bad[] = { 3, 17 };
    tok_begin(&w, "llama", tokens, types);
    gw_f32s(&w, "tokenizer.ggml.scores", scores, 17);
    gw_int(&w, "tokenizer.ggml.padding_token_id", GW_U32, 0xffffffff);
    gw_int(&w, "tokenizer.ggml.eot_token_id", GW_U32, 11);
    gw_int(&w, "tokenizer.ggml.add_eos_token", GW_BOOL, 1);
    CHECK(tok_end(&w, &f, &file, &err));
    if (!f.t) { check_note(__FILE__, __LINE__, err.message); free(file); return; }
    CHECK(infer__tokenizer_size(f.t) == 17);
    CHECK_HAS(f.log, "tokenizer.ggml.padding_token_id");
    CHECK(infer__token_special(f.t, INFER_SPECIAL_PAD) == -1 && infer__token_special(f.t, INFER_SPECIAL_BOS) == 1);
    CHECK(infer__token_special(f.t, INFER_SPECIAL_EOT) == 11 && infer__token_special(f.t, 99) == -1);
    CHECK(infer__token_flags(f.t, 2) == (INFER_TOKEN_CONTROL | INFER_TOKEN_END)); /* by its text */
    CHECK(infer__token_flags(f.t, 11) == (INFER_TOKEN_CONTROL | INFER_TOKEN_END)); /* by its key */
    CHECK(infer__token_flags(f.t, 8) == INFER_TOKEN_BYTE && infer__token_flags(f.t, 17) == 0);
    tok_check_line(&f, "", 0, INFER_TEXT_ADD_SPECIAL, "1 2");
    tok_check_line(&f, "ab", 2, INFER_TEXT_ADD_SPECIAL, "1 3 6 2"); /* the better score first */
    tok_check_line(&f, "a b", 3, 0, "7 3 5");
    tok_check_line(&f, "aA", 2, 0, "7 8"); /* byte token */
    tok_check_line(&f, "aZa", 3, 0, "7 0 4"); /* no byte token: unknown */
    tok_check_line(&f, "<t>a<t>>", 8, 0, "9 7 10"); /* user-defined always, the longest one */
    tok_check_line(&f, "<c>a", 4, INFER_TEXT_PARSE_SPECIAL, "11 7");
    tok_check_line(&f, "<c>a", 4, 0, "3 13 0 15 4"); /* control tokens only when asked for */
    tok_check_line(&f, "<unk>", 5, INFER_TEXT_PARSE_SPECIAL, "0");
    CHECK(infer__detokenize(f.t, all, 4, 0, text, sizeof text, &len, &err) == INFER_OK);
    CHECK(len == 3 && memcmp(text, "aab", 3) == 0); /* the leading space is not part of the text */
    CHECK(infer__detokenize(f.t, all, 4, INFER_TEXT_WRITE_SPECIAL, text, sizeof text, &len, &err) == INFER_OK);
    text[len] = 0;
    CHECK_STR(text, "<s> aab</s>");
    text[2] = '!';
    CHECK(infer__detokenize(f.t, all + 1, 2, 0, text, 2, &len, &err) == INFER_OK && len == 3 && text[2] == '!');
    CHECK(infer__detokenize(f.t, bad, 2, 0, text, 2, &len, &err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(err.message, "17");
    CHECK(infer__token_text(f.t, 7, text, sizeof text, &len) == INFER_OK && len == 2 && memcmp(text, " a", 2) == 0);
    CHECK(infer__token_text(f.t, 8, text, sizeof text, &len) == INFER_OK && len == 1 && text[0] == 'A');
    CHECK(infer__token_text(f.t, 1, text, sizeof text, &len) == INFER_OK && len == 3 && memcmp(text, "<s>", 3) == 0);
    CHECK(infer__token_text(f.t, -1, text, sizeof text, &len) == INFER_ERR_ARGUMENT && len == 0);
    tok_close(&f);
    free(file);
}

static void test_spm_white_space(void) {
    static const char *const tokens[] = { "<unk>", "<s>", "</s>", "\xe2\x96\x81", "a", "\xe2\x96\x81\xe2\x96\x81", NULL };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    tok_begin(&w, "llama", tokens, NULL);
    gw_int(&w, "tokenizer.ggml.remove_extra_whitespaces", GW_BOOL, 1);
    CHECK(tok_end(&w, &f, &file, &err));
    tok_check_line(&f, "  a   a ", 8, 0, "3 4 3 4");
    tok_check_line(&f, "   ", 3, 0, "");
    tok_close(&f);
    free(file);
    tok_begin(&w, "llama", tokens, NULL);
    gw_int(&w, "tokenizer.ggml.add_space_prefix", GW_BOOL, 0);
    gw_int(&w, "tokenizer.ggml.add_bos_token", GW_BOOL, 0);
    CHECK(tok_end(&w, &f, &file, &err));
    tok_check_line(&f, " a  a", 5, INFER_TEXT_ADD_SPECIAL, "3 4 5 4");
    tok_check_round_trip(&f, " a  a", 5);
    CHECK(!infer__tokenizer_adds_bos(f.t));
    tok_close(&f);
    free(file);
}

static void test_phi3_strips(void) {
    static const char *const tokens[] = { "<unk>", "<s>", "<|end|>", "\xe2\x96\x81", "a", NULL };
    static const int types[] = { TOK_UNKNOWN, TOK_CONTROL, TOK_CONTROL, TOK_NORMAL, TOK_NORMAL };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    tok_begin(&w, "llama", tokens, types);
    gw_str(&w, "general.name", "My Phi-3 model");
    CHECK(tok_end(&w, &f, &file, &err));
    tok_check_line(&f, "a<|end|> \n a<s> a", 17, INFER_TEXT_PARSE_SPECIAL, "3 4 2 3 4 1 3 3 4");
    tok_close(&f);
    free(file);
}

/* What is known by its text: ends of replies, places to fill in, masks that take the space before them. */
static void test_known_texts(void) {
    static const char *const tokens[] = { "a", "<|return|>", "<|call|>", "<|end|>", "<|fim_prefix|>", "<fim_suffix>", "<MID>",
                                          "<mask>", "\xc4\xa0", "<|im_end|>", NULL };
    static const int types[] = { TOK_NORMAL, TOK_CONTROL, TOK_CONTROL, TOK_CONTROL, TOK_USER, TOK_CONTROL, TOK_CONTROL, TOK_CONTROL,
                                 TOK_NORMAL, TOK_USER };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    tok_begin(&w, "gpt2", tokens, types);
    gw_str(&w, "tokenizer.ggml.pre", "jina-v2-de");
    gw_strs(&w, "tokenizer.ggml.merges", tokens, 0);
    gw_int(&w, "tokenizer.ggml.fim_suf_token_id", GW_U32, 0);
    gw_int(&w, "tokenizer.ggml.fim_mid_token_id", GW_U32, 10); /* out of range: the text counts */
    CHECK(tok_end(&w, &f, &file, &err));
    CHECK(infer__token_flags(f.t, 1) == (INFER_TOKEN_CONTROL | INFER_TOKEN_END));
    CHECK(infer__token_flags(f.t, 3) == INFER_TOKEN_CONTROL); /* ends a message, not the reply */
    CHECK(infer__token_flags(f.t, 9) == (INFER_TOKEN_CONTROL | INFER_TOKEN_END));
    CHECK(infer__token_special(f.t, INFER_SPECIAL_EOT) == 9);
    CHECK(infer__token_special(f.t, INFER_SPECIAL_FIM_PRE) == 4 && infer__token_flags(f.t, 4) == INFER_TOKEN_CONTROL);
    CHECK(infer__token_special(f.t, INFER_SPECIAL_FIM_SUF) == 0);
    CHECK(infer__token_special(f.t, INFER_SPECIAL_FIM_MID) == 6);
    tok_check_line(&f, "a \n<mask> a", 11, INFER_TEXT_PARSE_SPECIAL, "0 7 8 0");
    tok_check_line(&f, "a<|end|>", 8, INFER_TEXT_PARSE_SPECIAL, "0 3");
    tok_check_line(&f, "a<|end|>", 8, 0, "0");
    tok_close(&f);
    free(file);
}

/* Merges that name no tokens or make control tokens are left out; of equal ones the first counts. */
static void test_bpe_merges(void) {
    static const char *const tokens[] = { "a", "b", "c", "ab", "bc", "abc", "<|im_end|>", "d", "cd", "\xc4\xa0", NULL };
    static const int types[] = { TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL,
                                 TOK_CONTROL, TOK_NORMAL };
    static const char *const merges[] = { "b c", "a b", "x y", "a", "", "a bc", "b c", "ab c", "c d", " a", "a  b" };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    tok_begin(&w, "gpt2", tokens, types);
    gw_str(&w, "tokenizer.ggml.pre", "gpt-2");
    gw_strs(&w, "tokenizer.ggml.merges", merges, 11);
    CHECK(tok_end(&w, &f, &file, &err));
    CHECK_HAS(f.log, "6 of 11");
    CHECK(infer__token_flags(f.t, 6) == (INFER_TOKEN_CONTROL | INFER_TOKEN_END));
    CHECK(infer__token_special(f.t, INFER_SPECIAL_EOT) == 6 && infer__token_special(f.t, INFER_SPECIAL_BOS) == -1);
    tok_check_line(&f, "abc", 3, INFER_TEXT_SPECIAL, "5");
    tok_check_line(&f, "ab cd", 5, 0, "3 9 2 7");
    tok_check_line(&f, "a?b", 3, 0, "0 1"); /* neither byte nor unknown token: nothing */
    tok_check_line(&f, "b<|im_end|>", 11, INFER_TEXT_PARSE_SPECIAL, "1 6");
    tok_close(&f);
    free(file);
}

/* Vocabularies in UTF-8: a space is U+2581, what is no token becomes byte tokens, lines are merged separately. */
static void test_bpe_marked(void) {
    static const char *const tokens[] = { "<pad>", "<eos>", "<bos>", "<unk>", "a", "b", "\xe2\x96\x81", "\xe2\x96\x81" "a", "ab",
                                          "\xe2\x96\x81\xe2\x96\x81", "\n", "\n\n", "\n\n\n", "<0xC3>", "<0xA9>", "<0x0A>", "b\xe2\x96\x81",
                                          "<c>", "c", "\xe4\xb8\xad", NULL };
    static const int types[] = { TOK_CONTROL, TOK_CONTROL, TOK_CONTROL, TOK_UNKNOWN, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL,
                                 TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_BYTE, TOK_BYTE, TOK_BYTE, TOK_NORMAL,
                                 TOK_CONTROL, TOK_NORMAL, TOK_NORMAL };
    static const char *const merges[] = { "\xe2\x96\x81 \xe2\x96\x81", "b \xe2\x96\x81", "\xe2\x96\x81 a", "a b", "\n \n" };
    int kind; /* 0 gemma4 as a model, 1 sarvam-moe, 2 granite-embed-multi-311m */
    for (kind = 0; kind < 3; kind++) {
        gguf_writer w;
        tok_open_file f;
        infer_error err;
        unsigned char *file;
        check_detail = kind == 0 ? "gemma4" : kind == 1 ? "sarvam-moe" : "granite-embed-multi-311m";
        tok_begin(&w, kind == 0 ? "gemma4" : "gpt2", tokens, types);
        if (kind) gw_str(&w, "tokenizer.ggml.pre", check_detail);
        gw_strs(&w, "tokenizer.ggml.merges", merges, 5);
        gw_int(&w, "tokenizer.ggml.bos_token_id", GW_U32, 2);
        gw_int(&w, "tokenizer.ggml.unknown_token_id", GW_U32, 3);
        gw_int(&w, "tokenizer.ggml.add_bos_token", GW_BOOL, 0);
        CHECK(tok_end(&w, &f, &file, &err));
        if (!f.t) { check_note(__FILE__, __LINE__, err.message); free(file); continue; }
        CHECK_STR(infer__tokenizer_why_not(f.t), "");
        CHECK(infer__tokenizer_adds_bos(f.t) == (kind != 1)); /* files say it wrong */
        tok_check_line(&f, "ab a", 4, 0, "4 16 4"); /* "b " before " a" before "ab" */
        tok_check_line(&f, " a  a", 5, 0, "7 9 4");
        tok_check_line(&f, "a\xe2\x96\x81" "a", 5, 0, "4 7"); /* the mark itself */
        tok_check_line(&f, "\xc3\xa9", 2, 0, "13 14"); /* a character that is no token */
        tok_check_line(&f, "\xc3\xa8" "a", 3, 0, "3 4"); /* and lacks a byte token */
        tok_check_line(&f, "\xc3", 1, 0, "13");
        tok_check_line(&f, "\xe4\xb8\xad", 3, 0, "19");
        tok_check_line(&f, "\n\n\n", 3, 0, kind == 1 ? "11 10" : "12"); /* the run is a token, no merge makes it */
        tok_check_line(&f, "b\n\n\n\n a", 7, 0, "5 11 11 7");
        tok_check_line(&f, "<c>c", 4, INFER_TEXT_PARSE_SPECIAL, "17 18");
        tok_check_line(&f, "<c>", 3, 0, "3 18 3");
        tok_check_line(&f, "<0xC3>", 6, 0, "3 3 3 3 3 3");
        tok_check_round_trip(&f, "ab  a\xc3\xa9\n\n\n b ", 13);
        tok_close(&f);
        free(file);
    }
}

/* Words between white space, which gives no tokens. */
static void test_bpe_whitespace(void) {
    static const char *const tokens[] = { "a", "b", "ab", "<unk>", "\xc3\xa9", NULL };
    static const int types[] = { TOK_NORMAL, TOK_NORMAL, TOK_NORMAL, TOK_UNKNOWN, TOK_NORMAL };
    static const char *const merges[] = { "a b" };
    int lower;
    for (lower = 0; lower < 2; lower++) {
        gguf_writer w;
        tok_open_file f;
        infer_error err;
        unsigned char *file;
        tok_begin(&w, "whitespace", tokens, types);
        gw_str(&w, "tokenizer.ggml.pre", "whitespace");
        gw_strs(&w, "tokenizer.ggml.merges", merges, 1);
        gw_int(&w, "tokenizer.ggml.unknown_token_id", GW_U32, 3);
        gw_int(&w, "tokenizer.ggml.normalizer.lowercase", GW_BOOL, lower);
        CHECK(tok_end(&w, &f, &file, &err));
        if (lower) {
            CHECK_HAS(infer__tokenizer_why_not(f.t), "normalizer.lowercase");
        } else {
            tok_check_line(&f, " ab\n a\xe3\x80\x80" "b \xc3\xa9\xe2\x96\x81 ", 17, 0, "2 0 1 4 3");
        }
        tok_close(&f);
        free(file);
    }
}

static void tok_check_why_not(gguf_writer *w, const char *part) {
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    size_t n = 7;
    if (!tok_end(w, &f, &file, &err)) {
        check_note(__FILE__, __LINE__, err.message);
    } else {
        CHECK_HAS(infer__tokenizer_why_not(f.t), part);
        CHECK(infer__tokenize(f.t, &f.mem, "a", 1, 0, NULL, 0, &n, &err) == INFER_ERR_UNSUPPORTED && n == 0);
        CHECK_HAS(err.message, part);
        tok_close(&f);
    }
    free(file);
}

static void test_why_not(void) {
    static const char *const tokens[] = { "a", "b", NULL };
    static const char *const other[] = { "hybriddna", "no-such" };
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    size_t i, n;
    for (i = 0; i < 2; i++) {
        tok_begin(&w, other[i], tokens, NULL);
        tok_check_why_not(&w, other[i]);
    }
    tok_begin(&w, "none", tokens, NULL);
    tok_check_why_not(&w, "no vocabulary");
    gw_init(&w);
    gw_str(&w, "general.architecture", "llama");
    tok_check_why_not(&w, "missing");
    tok_begin(&w, "gpt2", tokens, NULL);
    gw_strs(&w, "tokenizer.ggml.merges", tokens, 0);
    tok_check_why_not(&w, "tokenizer.ggml.pre is missing");
    tok_begin(&w, "gpt2", tokens, NULL);
    gw_str(&w, "tokenizer.ggml.pre", "no-such");
    gw_strs(&w, "tokenizer.ggml.merges", tokens, 0);
    tok_check_why_not(&w, "'no-such' is unknown");
    tok_begin(&w, "gpt2", tokens, NULL);
    gw_str(&w, "tokenizer.ggml.pre", "gpt-2");
    tok_check_why_not(&w, "tokenizer.ggml.merges is missing");
    /* The default when allowed, and a name given by the caller. */
    for (i = 0; i < 2; i++) {
        tok_begin(&w, "gpt2", tokens, NULL);
        gw_strs(&w, "tokenizer.ggml.merges", tokens, 0);
        file = gw_finish(&w, &n);
        CHECK(tok_open(&f, NULL, file, n, i ? "gpt-2" : NULL, !i, &err));
        CHECK_STR(infer__tokenizer_why_not(f.t), "");
        CHECK(i ? !f.logged : strstr(f.log, "default") != NULL);
        tok_check_line(&f, "ab", 2, 0, "0 1");
        tok_close(&f);
        free(file);
    }
}

static void test_vocab_malformed(void) {
    static const char *const tokens[] = { "a", "b", "c", NULL };
    static const int64_t few[] = { 1, 1 };
    static const char *const parts[] = { "tokens", "tokens", "token_type", "token_type", "scores", "merges", "tokenizer.ggml.model",
                                         "tokenizer.ggml.pre", "add_bos", "tokens" };
    size_t i;
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        gguf_writer w;
        tok_open_file f;
        infer_error err;
        unsigned char *file;
        int gpt2 = i == 5 || i == 7;
        gw_init(&w);
        gw_str(&w, "general.architecture", "llama");
        if (i == 6) gw_int(&w, "tokenizer.ggml.model", GW_U32, 1);
        else gw_str(&w, "tokenizer.ggml.model", gpt2 ? "gpt2" : "llama");
        if (i == 1) gw_ints(&w, "tokenizer.ggml.tokens", GW_I32, few, 2);
        else if (i == 9) gw_strs(&w, "tokenizer.ggml.tokens", tokens, 0);
        else if (i != 0) gw_strs(&w, "tokenizer.ggml.tokens", tokens, 3);
        if (i == 2) gw_ints(&w, "tokenizer.ggml.token_type", GW_I32, few, 2);
        if (i == 3) gw_str(&w, "tokenizer.ggml.token_type", "x");
        if (i == 4) gw_ints(&w, "tokenizer.ggml.scores", GW_I32, few, 2);
        if (i == 5) gw_ints(&w, "tokenizer.ggml.merges", GW_I32, few, 2);
        if (i == 5) gw_str(&w, "tokenizer.ggml.pre", "gpt-2");
        if (i == 7) gw_int(&w, "tokenizer.ggml.pre", GW_U32, 1);
        if (i == 8) gw_str(&w, "tokenizer.ggml.add_bos_token", "yes");
        if (tok_end(&w, &f, &file, &err)) {
            check_note(__FILE__, __LINE__, parts[i]);
            tok_close(&f);
        } else {
            CHECK(err.code == INFER_ERR_FORMAT);
            CHECK_HAS(err.message, parts[i]);
        }
        free(file);
    }
}

/* Every allocation of opening and tokenizing fails once. */
static void test_tokenizer_memory(void) {
    static const char *const names[] = { "vocab-bpe-small.gguf", "models/stories260K.F32.gguf" };
    char text[6000];
    size_t i, k, count;
    for (k = 0; k < sizeof text; k++) text[k] = "the cat 12\n"[k % 11];
    for (i = 0; i < 2; i++) {
        size_t n;
        char *file = check_read(check_data(names[i]), &n);
        long at;
        infer_result r = INFER_ERR_MEMORY;
        check_detail = names[i];
        CHECK(file != NULL);
        for (at = 1; file && r == INFER_ERR_MEMORY && at < 200; at++) {
            infer_allocator a;
            infer__mem mem, plain;
            infer__gguf g;
            infer__tokenizer *t = NULL;
            infer_error err;
            a.user = NULL;
            a.alloc = check_alloc;
            a.free = check_free;
            infer__mem_init(&plain, NULL, 0);
            infer__mem_init(&mem, &a, 0);
            CHECK(infer__gguf_open_memory(&g, &plain, NULL, file, n, &err) == INFER_OK);
            check_allocs = check_live = 0;
            check_fail_at = at;
            r = infer__tokenizer_open(&t, &mem, NULL, &g, NULL, &err);
            if (r == INFER_OK) r = infer__tokenize(t, &mem, text, sizeof text, 0, NULL, 0, &count, &err);
            CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && err.code == r));
            infer__tokenizer_close(t);
            check_fail_at = 0;
            CHECK(check_live == 0);
            infer__gguf_close(&g);
        }
        CHECK(r == INFER_OK && at > 6);
        free(file);
    }
}

/* One megabyte of one thing takes n log n, not n^2. */
static void test_tokenizer_hostile_texts(void) {
    static const char *const names[] = { "vocab-bpe-small.gguf", "models/stories260K.F32.gguf" };
    static const char *const units[] = { "a", " ", "\xcc\x81", "\n", "1", "'", "<", "a ", "<|user|>", "?" };
    const size_t n = 1 << 20;
    char *s = (char *)malloc(n);
    uint32_t state = 7;
    size_t i, u, k;
    for (i = 0; s && i < 5; i++) {
        static const char *const pres[] = { "gpt-2", "llama-bpe", "qwen2", "default" };
        tok_open_file f;
        infer_error err;
        if (!tok_open(&f, check_data(names[i == 4]), NULL, 0, i < 4 ? pres[i] : NULL, 0, &err)) {
            check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        for (u = 0; u < 10; u++) {
            size_t len = strlen(units[u]), whole = n / len * len, count = 0;
            clock_t start = clock();
            double seconds;
            for (k = 0; k < n; k++) s[k] = u == 9 ? (char)tok_random(&state) : units[u][k % len];
            check_detail = u == 9 ? "random bytes" : units[u];
            CHECK(infer__tokenize(f.t, &f.mem, s, whole, 0, NULL, 0, &count, &err) == INFER_OK && count > 0);
            seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            CHECK(seconds < 30); /* a second or less when optimised; n^2 is hours */
            if (getenv("INFER_TEST_VERBOSE")) fprintf(stderr, "%s '%s': %.3f s, %d ids\n", i < 4 ? pres[i] : "spm", check_detail, seconds, (int)count);
        }
        tok_close(&f);
    }
    CHECK(s != NULL);
    free(s);
}

/* Every pre-tokenizer takes linear time, on texts made against each of their steps. */
static void test_pretokenizer_hostile_texts(void) {
    static const char *const units[] = { "a", "A", " ", "\n", " \n", "\n ", "7", "\xd9\xa3", "12\xc2\xb2", "1a", "1 ", "\xcc\x81", "A\xcc\x81",
                                         "\xe6\x97\xa5" "A", "\xe4\xb8\xad", "\xe3\x80\x80", "\xea\xb0\x80\xe3\x84\x85", "'", "'s", "!", "! ", "!a", "|.,",
                                         " (", "<sentinel:1", "IMGIMGA", "a b ", "\x01", "\xff", "\xf0\x9f\x98\x80" };
    const size_t n = 1 << 17;
    char *s = (char *)malloc(n);
    size_t i, u, k;
    CHECK(s != NULL);
    for (i = 0; s && i < (INFER__COUNT(INFER__PRETOKENIZERS) - 1); i++) {
        for (u = 0; u < sizeof units / sizeof units[0]; u++) {
            size_t len = strlen(units[u]), words = 0, word, sum = 0;
            infer__splitter x;
            clock_t start = clock();
            double seconds;
            for (k = 0; k < n; k++) s[k] = units[u][k % len];
            s[n / 3] = 'x'; /* runs end somewhere */
            infer__split_begin(&x, &INFER__PRETOKENIZERS[i], s, n);
            for (; (word = infer__split_next(&x)) != 0; sum += word) words++;
            seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            check_detail = INFER__PRETOKENIZERS[i].names;
            CHECK(words > 0 && sum == n);
            CHECK(seconds < 5); /* hundredths of a second; n^2 is minutes */
            if (seconds > 0.1 && getenv("INFER_TEST_VERBOSE"))
                fprintf(stderr, "%.20s '%s': %.3f s, %d words\n", check_detail, units[u], seconds, (int)words);
        }
    }
    free(s);
}

/* ---- against recorded ids ---- */
#include "tokenizer_recorded.h"

static void suite_tokenizer(void) {
    RUN(test_bpe_small);
    RUN(test_model_prompts);
    RUN(test_round_trip_random);
    RUN(test_words);
    RUN(test_pretokenizers);
    RUN(test_pretokenizer_names);
    RUN(test_pretokenizer_splits);
    RUN(test_spm_special);
    RUN(test_spm_white_space);
    RUN(test_phi3_strips);
    RUN(test_known_texts);
    RUN(test_bpe_merges);
    RUN(test_bpe_marked);
    RUN(test_bpe_whitespace);
    RUN(test_why_not);
    RUN(test_vocab_malformed);
    RUN(test_tokenizer_memory);
    RUN(test_tokenizer_hostile_texts);
    RUN(test_pretokenizer_hostile_texts);
    RUN(test_tokenizer_texts);
    RUN(test_tokenizer_vectors);
    RUN(test_tokenizer_extra);
}
