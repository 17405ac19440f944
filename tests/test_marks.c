/* test_marks.c: text that a user wrote never becomes structure: no control token out of plain text, and in conversations
 * no mark of the template out of a message, a tool's name, its description, its arguments or its result.
 * Every special token of every vocabulary goes through every template, of which $INFER_TEST_DATA has more. */
#ifndef TEST_TOKENIZER
#  include "test_tokenizer.c"
#endif

/* ---- plain text -------------------------------------------------------------------------------------------------- */

/* No control token in the ids of s without the flag, no unknown one but for what has no token, and a byte token for
 * bytes of the text alone. */
static void mk_plain(tok_open_file *f, const char *s, size_t n) {
    const infer__vocab *v = infer__tokenizer_vocab(f->t);
    const int rwkv = v->kind == INFER__VOCAB_RWKV;
    size_t count, i;
    infer_token *ids = tok_ids(f, s, n, 0, &count);
    for (i = 0; ids && i < count; i++) {
        int flags = infer__token_flags(f->t, ids[i]);
        char m[200];
        if (ids[i] == v->unknown || (rwkv && infer__vocab_is(v, ids[i], "<s>", 3))) continue;
        if (flags & INFER_TOKEN_BYTE) flags = memchr(s, infer__byte_token_value(&v->text[ids[i]]), n) ? 0 : flags;
        if (!(flags & (INFER_TOKEN_CONTROL | INFER_TOKEN_UNKNOWN | INFER_TOKEN_BYTE))) continue;
        snprintf(m, sizeof m, "token %d of \"%.60s\"", (int)ids[i], s);
        check_note(__FILE__, __LINE__, m);
        break;
    }
    free(ids);
}

/* Texts of control, unknown and byte tokens: whole, their beginnings, all in a row; every byte alone. */
static void mk_plain_all(tok_open_file *f) {
    const infer__vocab *v = infer__tokenizer_vocab(f->t);
    char *all = (char *)malloc(1 << 16), one;
    size_t n = 0, k;
    int32_t t, seen = 0;
    int b;
    if (infer__tokenizer_why_not(f->t)[0]) {
        free(all);
        return;
    }
    for (t = 0; t < v->n; t++) {
        const infer__str *s = &v->text[t];
        if (!(v->flags[t] & INFER__TOKEN_NEVER_TEXT) || s->n == 0 || s->n > 200) continue;
        for (k = 1; k <= s->n && seen < 300; k++) mk_plain(f, s->s, k);
        if (seen++ >= 300) mk_plain(f, s->s, (size_t)s->n);
        if (n + s->n > (1 << 16) - 1) continue;
        memcpy(all + n, s->s, (size_t)s->n);
        n += (size_t)s->n;
    }
    mk_plain(f, all, n);
    for (b = 0; b < 256; b++) {
        one = (char)b;
        mk_plain(f, &one, 1);
    }
    free(all);
}

static const char *const MK_BYTE_FILES[] = {"hostile/control-byte-gpt2.gguf", "hostile/control-byte-gemma4.gguf",
                                            "hostile/control-byte-whitespace.gguf"};

/* A control token that is spelled as one byte. */
static void test_marks_control_byte(void) {
    size_t i, k, count;
    for (i = 0; i < 3; i++) {
        tok_open_file f;
        infer_error err;
        infer_token *ids;
        int control = 0;
        check_detail = MK_BYTE_FILES[i];
        if (!tok_open(&f, check_data(MK_BYTE_FILES[i]), NULL, 0, NULL, 0, &err)) {
            check_note(__FILE__, __LINE__, err.message);
            continue;
        }
        ids = tok_ids(&f, "a<b", 3, 0, &count);
        for (k = 0; k < count; k++) CHECK(!(infer__token_flags(f.t, ids[k]) & INFER_TOKEN_CONTROL));
        free(ids);
        ids = tok_ids(&f, "a<b", 3, INFER_TEXT_PARSE_SPECIAL, &count);
        for (k = 0; k < count; k++) control += (infer__token_flags(f.t, ids[k]) & INFER_TOKEN_CONTROL) != 0;
        CHECK(control == 1); /* it is there for who asks */
        free(ids);
        mk_plain_all(&f);
        tok_close(&f);
    }
}

/* Every kind of vocabulary with every way to make a control, unknown or byte token out of text. */
static void test_marks_control_kinds(void) {
    static const char *const MODELS[] = {"llama", "gpt2", "gemma4", "whitespace", "bert", "t5", "rwkv", "plamo2"};
    static const char *const MERGES[] = {"a b", "< c", "<c >", "< u", "<u n", "<un k", "<unk >", "< 0", "<0 x", "<0x 4", "<0x4 1",
                                         "<0x41 >", "x y"};
    static const struct { const char *text; int type; } TOKENS[] = {
        {"<unk>", TOK_UNKNOWN}, {"</s>", TOK_CONTROL}, {"ab", TOK_CONTROL}, {"<c", TOK_NORMAL}, {"<c>", TOK_CONTROL}, {"<u", TOK_NORMAL},
        {"<un", TOK_NORMAL}, {"<unk", TOK_NORMAL}, {"<0", TOK_NORMAL}, {"<0x", TOK_NORMAL}, {"<0x4", TOK_NORMAL}, {"<0x41", TOK_NORMAL},
        {"<0x41>", TOK_BYTE}, {"\xe2\x96\x81", TOK_NORMAL}, {"\xe2\x96\x81q", TOK_CONTROL}, {"q", TOK_CONTROL}, {"~", TOK_CONTROL},
        {"xy", TOK_UNUSED}, {"\xc3\xa9", TOK_CONTROL}, {"\xe2\x96\x81" "ab", TOK_CONTROL}};
    size_t m, i, n, k;
    for (m = 0; m < INFER__COUNT(MODELS) * 2; m++) {
        const char *tokens[200];
        char letters[100][2];
        int64_t types[200];
        float scores[200];
        gguf_writer w;
        tok_open_file f;
        infer_error err;
        unsigned char *file;
        for (n = 0; n < INFER__COUNT(TOKENS); n++) {
            tokens[n] = TOKENS[n].text;
            types[n] = TOKENS[n].type;
        }
        for (i = 0x21; i < 0x7e; i++) { /* q and ~ have no other token */
            if (i == 'q') continue;
            letters[i - 0x21][0] = (char)i;
            letters[i - 0x21][1] = 0;
            tokens[n] = letters[i - 0x21];
            types[n++] = TOK_NORMAL;
        }
        for (i = 0; i < n; i++) scores[i] = -(float)i;
        check_detail = MODELS[m / 2];
        gw_init(&w);
        gw_str(&w, "general.architecture", "llama");
        gw_str(&w, "tokenizer.ggml.model", MODELS[m / 2]);
        gw_str(&w, "tokenizer.ggml.pre", m / 2 == 3 ? "whitespace" : "llama-bpe");
        gw_strs(&w, "tokenizer.ggml.tokens", tokens, n);
        gw_ints(&w, "tokenizer.ggml.token_type", GW_I32, types, n);
        gw_f32s(&w, "tokenizer.ggml.scores", scores, n);
        gw_strs(&w, "tokenizer.ggml.merges", MERGES, INFER__COUNT(MERGES));
        gw_int(&w, "tokenizer.ggml.eos_token_id", GW_U32, 1);
        gw_int(&w, "tokenizer.ggml.bos_token_id", GW_U32, 1);
        gw_int(&w, "tokenizer.ggml.unknown_token_id", GW_U32, m % 2); /* 1: it is the end of text too */
        file = gw_finish(&w, &k);
        if (tok_open(&f, NULL, file, k, NULL, 0, &err)) {
            static const char TEXT[] = "ab a<c>b<unk> </s><0x41> q aq~ xy \xc3\xa9 \x01\xff ab";
            size_t count;
            infer_token *ids;
            CHECK_STR(infer__tokenizer_why_not(f.t), "");
            mk_plain_all(&f);
            mk_plain(&f, TEXT, sizeof TEXT - 1);
            ids = tok_ids(&f, TEXT, sizeof TEXT - 1, 0, &count); /* nothing of the end, by its spelling or as unknown */
            for (i = 0; i < count; i++) CHECK(ids[i] != 1);
            CHECK(count > 10);
            free(ids);
            tok_close(&f);
        } else {
            check_note(__FILE__, __LINE__, err.message);
        }
        free(file);
    }
}

static const char *const MK_REFERENCE[] = {"baichuan", "bert-bge", "deepseek-coder", "falcon", "gemma-4", "gpt-2", "gpt-4o", "gpt-neox",
                                           "llama-bpe", "llama-spm", "nomic-bert-moe", "phi-3", "qwen2", "rwkv-world"};
static const char *const MK_LOCAL[] = {"vocab-bpe-small.gguf", "models/stories260K.F32.gguf", "models/TinyStories-656K.Q8_0.gguf",
                                       "hostile/user-defined-marks.gguf"};
enum { MK_VOCABS = (int)(sizeof MK_REFERENCE / sizeof *MK_REFERENCE + sizeof MK_LOCAL / sizeof *MK_LOCAL) };

/* Vocabulary number i; 0 = it is not there. */
static int mk_open(tok_open_file *f, size_t i) {
    char name[100];
    infer_error err;
    const char *path = i < INFER__COUNT(MK_LOCAL) ? check_data(MK_LOCAL[i]) : NULL;
    if (!path) {
        check_detail = MK_REFERENCE[i - INFER__COUNT(MK_LOCAL)];
        snprintf(name, sizeof name, "vocabs/ggml-vocab-%s.gguf", check_detail);
        path = check_reference(name);
        if (!path) return 0;
    } else {
        check_detail = MK_LOCAL[i];
    }
    if (tok_open(f, path, NULL, 0, NULL, 1, &err)) return 1;
    check_note(__FILE__, __LINE__, err.message);
    return 0;
}
/* An emulated machine takes a sample: all would be minutes. */
static size_t mk_step(void) { return (size_t)check_every(6); }

static void test_marks_control_text(void) {
    size_t i;
    for (i = 0; i < MK_VOCABS; i += mk_step()) {
        tok_open_file f;
        if (!mk_open(&f, i)) continue;
        mk_plain_all(&f);
        tok_close(&f);
    }
}

/* ---- conversations ----------------------------------------------------------------------------------------------- */

/* Where a text goes: '#' and one of these letters in the JSON below. */
static const char MK_PLACES[] = "surnkvd"; /* system, user, result, name, argument's key, its value, description */
static const char MK_MESSAGES[] =
    "[{\"role\":\"system\",\"content\":#s},{\"role\":\"user\",\"content\":#u},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":"
    "[{\"id\":\"call00001\",\"type\":\"function\",\"function\":{\"name\":#n,\"arguments\":{#k:#v}}}]},{\"role\":\"tool\","
    "\"tool_call_id\":\"call00001\",\"name\":#n,\"content\":#r},{\"role\":\"assistant\",\"content\":\"so\"},{\"role\":\"user\",\"content\":#u}]";
static const char MK_TOOLS[] = "[{\"type\":\"function\",\"function\":{\"name\":#n,\"description\":#d,\"parameters\":{\"type\":\"object\","
                               "\"properties\":{#k:{\"type\":\"string\",\"description\":#d}},\"required\":[#k]}}}]";
static const char MK_SHORT[] = "[{\"role\":\"user\",\"content\":#u}]"; /* for templates that cannot do the others */

static char *mk_json(const char *format, char place, const char *text, size_t n) {
    infer__mem mem;
    infer__bytes b;
    char *out;
    infer__mem_init(&mem, NULL, 0);
    memset(&b, 0, sizeof b);
    b.mem = &mem;
    for (; *format; format++) {
        if (*format != '#') infer__bytes_char(&b, *format);
        else if (*++format == place) infer__json_quote(&b, text, n);
        else infer__bytes_format(&b, "\"a%c\"", *format);
    }
    CHECK(!b.failed);
    out = (char *)malloc(b.n + 1);
    memcpy(out, b.s, b.n);
    out[b.n] = 0;
    infer__bytes_free(&b);
    return out;
}

typedef struct mk_ids {
    infer_token *ids;
    size_t n, marks; /* marks: how many of them are structure */
    char text[400];  /* what they are, as far as it fits */
} mk_ids;

/* The ids of a conversation with `text` in a place (0: nowhere); 0 = the template refuses it. *bits as of
 * infer__chat_structure. */
static int mk_conversation(tok_open_file *f, const char *source, int brief, char place, const char *text, size_t n, mk_ids *out) {
    const infer__vocab *v = infer__tokenizer_vocab(f->t);
    char *messages = mk_json(brief ? MK_SHORT : MK_MESSAGES, place, text, n), *tools = brief ? NULL : mk_json(MK_TOOLS, place, text, n);
    infer__chat_request rq;
    infer__rendered r;
    uint8_t *bits = NULL;
    size_t cap, i, at = 0;
    int64_t n_calls;
    infer_error err;
    infer_json *trusted = NULL;
    int ok;
    memset(&rq, 0, sizeof rq);
    memset(&r, 0, sizeof r);
    memset(out, 0, sizeof *out);
    CHECK(infer_json_parse(&trusted, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}", 38, NULL, NULL) == INFER_OK);
    ok = infer__template_open((infer__template **)(uintptr_t)&rq.t, &f->mem, source, strlen(source), &err) == INFER_OK;
    CHECK(ok);
    rq.text = source;
    rq.n = strlen(source);
    rq.messages = messages;
    rq.tools = tools;
    rq.trusted = trusted;
    rq.now = "2024-07-26 00:00:00";
    ok = ok && infer__chat_prompt(&f->mem, &rq, &r, &n_calls, &err) == INFER_OK;
    if (ok) {
        CHECK(infer__chat_structure(&bits, &f->mem, f->t, rq.t, &r, &err) == INFER_OK);
        cap = r.n * 3 + 16;
        out->ids = (infer_token *)malloc(cap * sizeof *out->ids);
        CHECK(infer__tokenize_segments(f->t, &f->mem, r.segments, r.n_segments, bits, 0, out->ids, cap, &out->n, &err) == INFER_OK);
        CHECK(out->n <= cap);
    }
    for (i = 0; i < out->n; i++) {
        int32_t t = out->ids[i];
        if (!(v->flags[t] & INFER_TOKEN_CONTROL) && !(bits[t >> 3] >> (t & 7) & 1)) continue;
        if (t == v->unknown) continue; /* WordPiece's is a control token */
        out->marks++;
        if (at < sizeof out->text) at += (size_t)snprintf(out->text + at, sizeof out->text - at, "%.*s ", (int)v->text[t].n, v->text[t].s);
    }
    infer__free(&f->mem, bits);
    infer__rendered_free(&r);
    infer__template_close((infer__template *)(uintptr_t)rq.t);
    infer_json_free(trusted);
    free(messages);
    free(tools);
    return ok;
}

/* As many marks with the text in a place (0 = in every one) as without it. */
static long mk_compare(tok_open_file *f, const char *name, const char *source, char only, const char *text, size_t n) {
    mk_ids plain, got;
    long compared = 0;
    int brief = 0;
    const char *place;
    if (!mk_conversation(f, source, 0, 0, "", 0, &plain)) {
        brief = 1;
        if (!mk_conversation(f, source, 1, 0, "", 0, &plain)) return 0;
    }
    for (place = brief ? "u" : MK_PLACES; *place; place++) {
        if (only && !brief && *place != only) continue;
        if (!mk_conversation(f, source, brief, *place, text, n, &got)) continue; /* a name that the template refuses */
        if (got.marks != plain.marks) {
            char m[1200];
            snprintf(m, sizeof m, "%s, place %c: %d marks, not %d, by \"%.100s\": %s; not %s", name, *place, (int)got.marks,
                     (int)plain.marks, text, got.text, plain.text);
            check_note(__FILE__, __LINE__, m);
        }
        free(got.ids);
        compared++;
    }
    free(plain.ids);
    return compared;
}

/* Templates of our own, one for each way to write a conversation; what they do is what published ones do. */
static const struct { const char *name, *text; } MK_TEMPLATES[] = {
    {"hermes",
     "{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n<tools>' }}{% for t in tools %}{{ '\\n' ~ (t | tojson) }}{% endfor %}{{- '\\n</tools>\\n"
     "<tool_call>\\n{\"name\": <name>}\\n</tool_call><|im_end|>\\n' }}{% endif %}{%- for m in messages %}{%- if m.role == 'tool' %}"
     "{{- '<|im_start|>user\\n<tool_response>\\n' ~ m.content ~ '\\n</tool_response><|im_end|>\\n' }}{%- elif m.role == 'assistant' %}"
     "{%- set c = m.content.split('</think>')[-1].lstrip('\\n') %}{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' + c }}"
     "{%- for t in m.tool_calls %}{{- '\\n<tool_call>\\n{\"name\": \"' ~ t.function.name ~ '\", \"arguments\": ' ~ (t.function.arguments | tojson) "
     "~ '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- else %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
     "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}"},
    {"xml",
     "{% macro show(x) %}{% if x is string %}{{ x }}{% else %}{{ x | tojson }}{% endif %}{% endmacro %}[gMASK]<sop>{% if tools %}<|system|>\n"
     "{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}{% for m in messages %}{% if m.role == 'user' %}<|user|>\n{{ show(m.content) }}"
     "{% elif m.role == 'assistant' %}<|assistant|>\n<think></think>{{ m.content.strip() }}{% for t in m.tool_calls %}<tool_call>{{ t.function.name }}"
     "{% for k, v in t.function.arguments.items() %}<arg_key>{{ k }}</arg_key><arg_value>{{ show(v) }}</arg_value>{% endfor %}</tool_call>{% endfor %}"
     "{% elif m.role == 'tool' %}<|observation|><tool_response>{{ m.content }}</tool_response>{% else %}<|system|>\n{{ m.content }}{% endif %}"
     "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n<think>{% endif %}"},
    {"brackets",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{% if loop.last and tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]"
     "{% endif %}[INST]{{ m.content }}[/INST]{% elif m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]{% elif m.role == 'tool' %}"
     "[TOOL_RESULTS]{{ m.tool_call_id }}[TOOL_CONTENT]{{ m.content }}[/TOOL_RESULTS]{% else %}{{ '[THINK]x[/THINK]' ~ m.content }}"
     "{% for t in m.tool_calls %}{{ '[TOOL_CALLS]' ~ t.function.name ~ '[ARGS]' ~ (t.function.arguments | tojson) }}{% endfor %}{{ eos_token }}"
     "{% endif %}{% endfor %}"},
    {"split", /* marks that are put together, and bytes of marks beside a message */
     "{% for m in messages %}{{ '<{}>'.format('turn') }}<{{ m.content }}>{{ '</%s>' % 'turn' }}{{ '<' ~ '/think>' }}</{{ m.content }}{% endfor %}"
     "{% for t in tools %}<{{ t.function.name }}</{{ t.function.description }}>{% endfor %}<think"}};

/* Marks; those of known formats follow, see mk_mark. */
static const char *const MK_MARKS[] = {
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>", "<|im_start|>",
    "<|im_end|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
    "[gMASK]", "<sop>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "[THINK]",
    "[/THINK]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<turn>", "</turn>",
    ("<\xef\xbd\x9c" "User\xef\xbd\x9c>")};
static const char *mk_mark(size_t i) { /* "" = not a mark in brackets; NULL = no more */
    const char *s = i < INFER__COUNT(MK_MARKS) ? MK_MARKS[i] : infer__chat_known_at(i - INFER__COUNT(MK_MARKS));
    if (s && (strlen(s) < 3 || !strchr("<[", s[0]) || !strchr(">]", s[strlen(s) - 1]))) return "";
    return s;
}
/* All in a row, lines between some. */
static void mk_row(char *out) {
    size_t i;
    out[0] = 0;
    for (i = 0; mk_mark(i); i++) strcat(strcat(out, mk_mark(i)), i % 2 ? "" : "\n");
    CHECK(strlen(out) < 8000);
}

/* A vocabulary of a kind, all marks of one type; the beginnings of every mark are tokens, and merges lead to it. */
static int mk_marked(tok_open_file *f, const char *model, int type, unsigned char **file) {
    enum { MAX = 4000 };
    const char **tokens = (const char **)calloc(MAX, sizeof *tokens), **merges = (const char **)calloc(MAX, sizeof *merges);
    int64_t *types = (int64_t *)calloc(MAX, sizeof *types);
    float *scores = (float *)calloc(MAX, sizeof *scores);
    char *room = (char *)malloc(1 << 18), *at = room, *spelled;
    infer__vocab v;
    gguf_writer w;
    infer_error err;
    size_t n = 0, n_merges = 0, i, k, len;
    int ok, b, bytes = strcmp(model, "gpt2") == 0, rwkv = strcmp(model, "rwkv") == 0;
    memset(&v, 0, sizeof v);
    v.kind = bytes && type == TOK_NORMAL ? INFER__VOCAB_BPE : INFER__VOCAB_RWKV; /* for infer__structure_spelled: marks in GPT-2's alphabet */
#define MK_TOKEN(text, of) (tokens[n] = (text), types[n] = (of), scores[n] = -(float)n / 64, n++)
    MK_TOKEN("<unk>", TOK_UNKNOWN);
    MK_TOKEN("</s>", TOK_CONTROL);
    for (b = 0; b < 256; b++, at += 8) {
        if (bytes) at[infer__utf8_put(infer__byte_to_char((uint8_t)b), at)] = 0;
        else if (rwkv) snprintf(at, 8, "\\x%02x", b);
        else snprintf(at, 8, "<0x%02X>", b);
        MK_TOKEN(at, bytes || rwkv ? TOK_NORMAL : TOK_BYTE);
    }
    for (b = 0x21; b < 0x7f && !bytes && !rwkv; b++, at += 2) {
        at[0] = (char)b;
        at[1] = 0;
        MK_TOKEN(at, TOK_NORMAL);
    }
    if (!bytes && !rwkv) {
        MK_TOKEN("\xe2\x96\x81", TOK_NORMAL);
        MK_TOKEN("\n", TOK_NORMAL);
    }
    for (i = 0; mk_mark(i); i++) {
        const char *mark = mk_mark(i);
        len = strlen(mark);
        if (len == 0) continue;
        spelled = at;
        if (type == TOK_NORMAL && !rwkv) at[len = infer__structure_spelled(&v, mark, len, at)] = 0, at += len + 1;
        else spelled = (char *)(uintptr_t)mark;
        for (k = 1; k <= len && (uint8_t)mark[1] < 0x80; k++) {
            char *part = at;
            size_t j;
            memcpy(at, spelled, k);
            at[k] = 0;
            at += k + 1;
            for (j = 0; j < n && strcmp(tokens[j], part) != 0; j++) {}
            if (j < n && k == len) types[j] = type;
            if (j == n && k > 1) {
                merges[n_merges++] = at; /* "beginning letter" */
                memcpy(at, spelled, k - 1);
                at[k - 1] = ' ';
                at[k] = spelled[k - 1];
                at[k + 1] = 0;
                at += k + 2;
                MK_TOKEN(part, k == len ? type : TOK_NORMAL);
                if (k == len) scores[n - 1] = 10;
            }
        }
        for (k = 0; k < n && strcmp(tokens[k], spelled) != 0; k++) {}
        if (k == n) MK_TOKEN(spelled, type);
    }
    CHECK(n < MAX && n_merges < MAX && at < room + (1 << 18));
    gw_init(&w);
    gw_str(&w, "general.architecture", "llama");
    gw_str(&w, "tokenizer.ggml.model", model);
    gw_str(&w, "tokenizer.ggml.pre", strcmp(model, "whitespace") == 0 ? "whitespace" : "gpt-2");
    gw_strs(&w, "tokenizer.ggml.tokens", tokens, n);
    gw_ints(&w, "tokenizer.ggml.token_type", GW_I32, types, n);
    gw_f32s(&w, "tokenizer.ggml.scores", scores, n);
    gw_strs(&w, "tokenizer.ggml.merges", merges, n_merges);
    gw_int(&w, "tokenizer.ggml.eos_token_id", GW_U32, 1);
    gw_int(&w, "tokenizer.ggml.bos_token_id", GW_U32, 1);
    gw_int(&w, "tokenizer.ggml.unknown_token_id", GW_U32, 0);
    *file = gw_finish(&w, &k);
    ok = tok_open(f, NULL, *file, k, NULL, 1, &err);
    if (!ok) check_note(__FILE__, __LINE__, err.message);
    free((void *)tokens);
    free((void *)merges);
    free(types);
    free(scores);
    free(room);
    return ok;
}

/* Long texts too, in which words are remembered: white space without tokens must not be remembered with the mark behind
 * it. All marks in a row in every place; every mark alone, cut at its first byte, its last one, both, a place each. */
static void test_marks_templates(void) {
    static const char *const MODELS[] = {"gpt2", "llama", "gemma4", "whitespace", "bert", "t5", "rwkv", "plamo2"};
    size_t m, i, k;
    long compared = 0;
    for (m = 0; m < 2 * INFER__COUNT(MODELS); m++) {
        tok_open_file f;
        unsigned char *file;
        char row[8000];
        check_detail = MODELS[m / 2];
        if (!mk_marked(&f, MODELS[m / 2], m % 2 ? TOK_NORMAL : TOK_USER, &file)) continue;
        mk_row(row);
        for (i = 0; i < INFER__COUNT(MK_TEMPLATES); i++) {
            const char *name = MK_TEMPLATES[i].name, *source = MK_TEMPLATES[i].text;
            compared += mk_compare(&f, name, source, 0, row, strlen(row));
            for (k = 0; k < INFER__COUNT(MK_MARKS); k++) {
                size_t n = strlen(MK_MARKS[k]);
                compared += mk_compare(&f, name, source, MK_PLACES[(k + m) % 7], MK_MARKS[k], n);
                compared += mk_compare(&f, name, source, MK_PLACES[(k + m + 1) % 7], MK_MARKS[k] + 1, n - 1);
                compared += mk_compare(&f, name, source, MK_PLACES[(k + m + 2) % 7], MK_MARKS[k], n - 1);
                compared += mk_compare(&f, name, source, MK_PLACES[(k + m + 3) % 7], MK_MARKS[k] + 1, n - 2);
            }
        }
        tok_close(&f);
        free(file);
    }
    CHECK(compared > 9000);
}

/* Every special token of a vocabulary in one text: control, unknown and user-defined ones, and normal ones in brackets. */
static char *mk_specials(tok_open_file *f, size_t *n) {
    const infer__vocab *v = infer__tokenizer_vocab(f->t);
    char *out = (char *)malloc(16000);
    int32_t i;
    *n = 0;
    for (i = 0; i < v->n_marked; i++) {
        const infer__str *s = &v->text[v->marked[i]];
        if (*n + s->n > 15900 || (v->n_marked > 1000 && i > 500 && (v->flags[v->marked[i]] & INFER_TOKEN_NORMAL))) continue;
        memcpy(out + *n, s->s, (size_t)s->n);
        *n += (size_t)s->n;
        out[(*n)++] = i % 3 ? ' ' : 'x';
    }
    return out;
}

/* The same with the vocabularies and templates that models ship with. */
static void test_marks_published(void) {
    char *names[100], *sources[100], *data = NULL, *p;
    size_t n_sources = 0, i, k, n;
    long compared = 0;
    const char *list = check_reference("chat-templates/cases.jsonl");
    if (list) data = check_read(list, NULL);
    for (p = data; p && (p = strstr(p, "\"template\"")) != NULL && n_sources < 100; ) { /* "template": "NAME.jinja" */
        char path[300], *name, *end;
        name = strchr(p + 10, '"');
        end = name ? strchr(name + 1, '"') : NULL;
        if (!end) break;
        p = end + 1;
        *end = 0;
        for (k = 0; k < n_sources && strcmp(names[k], name + 1) != 0; k++) {}
        if (k < n_sources) continue;
        snprintf(path, sizeof path, "chat-templates/templates/%s", name + 1);
        names[n_sources] = name + 1;
        sources[n_sources] = check_read(check_reference(path), NULL);
        if (!sources[n_sources]) {
            snprintf(path, sizeof path, "chat-templates/templates/%s.jinja", name + 1);
            sources[n_sources] = check_read(check_reference(path), NULL);
        }
        CHECK(sources[n_sources] != NULL);
        if (sources[n_sources]) n_sources++;
    }
    for (i = 0; i < 4; i++) { /* all marks that templates are known to write */
        tok_open_file f;
        unsigned char *file;
        char row[8000];
        check_detail = i / 2 ? "llama with marks" : "gpt2 with marks";
        mk_row(row);
        if (!mk_marked(&f, i / 2 ? "llama" : "gpt2", i % 2 ? TOK_NORMAL : TOK_USER, &file)) continue;
        for (k = 0; k < n_sources; k++) compared += mk_compare(&f, names[k], sources[k], 0, row, strlen(row));
        tok_close(&f);
        free(file);
    }
    for (i = 0; i < MK_VOCABS; i += mk_step()) {
        tok_open_file f;
        char *text;
        if (!mk_open(&f, i)) continue;
        if (!infer__tokenizer_why_not(f.t)[0]) {
            text = mk_specials(&f, &n);
            for (k = 0; k < INFER__COUNT(MK_TEMPLATES); k++) compared += mk_compare(&f, MK_TEMPLATES[k].name, MK_TEMPLATES[k].text, 0, text, n);
            for (k = 0; k < n_sources; k++) compared += mk_compare(&f, names[k], sources[k], 0, text, n);
            free(text);
        }
        tok_close(&f);
    }
    CHECK(compared > 100);
    for (k = 0; k < n_sources; k++) free(sources[k]);
    free(data);
}

/* The file whose template writes "<|Assistant|>" with bars of U+FF5C: a message that spells marks gets none of them. */
static void test_marks_user_defined(void) {
    static const char SOURCE[] = "{% for m in messages %}<\xef\xbd\x9c{{ m.role|capitalize }}\xef\xbd\x9c>{{ m.content }}{% endfor %}"
                                 "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>";
    static const char *const TEXTS[] = {"</think>", "<tool_response>x</tool_response>", "<\xef\xbd\x9c" "User\xef\xbd\x9c>",
                                        "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>", "a<|im_end|>b"};
    tok_open_file f;
    infer_error err;
    infer_token *ids;
    mk_ids got;
    size_t i, n;
    check_detail = "hostile/user-defined-marks.gguf";
    if (!tok_open(&f, check_data(check_detail), NULL, 0, NULL, 0, &err)) {
        check_note(__FILE__, __LINE__, err.message);
        return;
    }
    CHECK(mk_conversation(&f, SOURCE, 1, 0, "", 0, &got) && got.marks == 1); /* its own is one */
    free(got.ids);
    for (i = 0; i < INFER__COUNT(TEXTS); i++) {
        CHECK(mk_compare(&f, "user-defined", SOURCE, 0, TEXTS[i], strlen(TEXTS[i])) > 0);
        ids = tok_ids(&f, TEXTS[i], strlen(TEXTS[i]), 0, &n); /* outside of conversations the tokens are matched */
        CHECK(i == 4 ? n > 1 : i == 1 ? n == 3 : n == 1);
        free(ids);
    }
    tok_close(&f);
}

/* What is not structure stays as it is in messages: white space, single characters, tokens that no template writes. */
static void test_marks_others_stay(void) {
    static const char *const TOKENS[] = {"a", "b", " ", "  ", "\n\n", "\xc3\xb6", "word", "<br>", "<hr>", "[x]", NULL};
    static const int TYPES[] = {TOK_NORMAL, TOK_NORMAL, TOK_USER, TOK_USER, TOK_USER, TOK_USER, TOK_USER, TOK_USER, TOK_USER, TOK_USER};
    static const char TEXT[] = "a  b\n\n\xc3\xb6word<br>[x]<hr>";
    gguf_writer w;
    tok_open_file f;
    infer_error err;
    unsigned char *file;
    mk_ids got;
    infer_token *plain;
    size_t n;
    tok_begin(&w, "gpt2", TOKENS, TYPES);
    gw_str(&w, "tokenizer.ggml.pre", "gpt-2");
    gw_strs(&w, "tokenizer.ggml.merges", NULL, 0);
    CHECK(tok_end(&w, &f, &file, &err));
    if (f.t) {
        plain = tok_ids(&f, TEXT, sizeof TEXT - 1, 0, &n);
        CHECK(n == 9);
        CHECK(mk_conversation(&f, "{{ messages[0].content }}{{ '  \\n\\n \xc3\xb6' }}", 1, 'u', TEXT, sizeof TEXT - 1, &got));
        CHECK(got.n > n && memcmp(got.ids, plain, n * sizeof *plain) == 0);
        free(got.ids);
        CHECK(mk_conversation(&f, "{{ messages[0].content }}{# <hr> #}<br>", 1, 'u', TEXT, sizeof TEXT - 1, &got));
        CHECK(got.marks == 1 && got.n < 2 * n); /* the template's <br>; the message's is not */
        free(got.ids);
        free(plain);
        tok_close(&f);
    }
    free(file);
}

static void suite_marks(void) {
    RUN(test_marks_control_byte);
    RUN(test_marks_control_kinds);
    RUN(test_marks_control_text);
    RUN(test_marks_user_defined);
    RUN(test_marks_others_stay);
    RUN(test_marks_templates);
    RUN(test_marks_published);
}
