/* test_cve.c: the classes of published holes in readers of GGUF files, saved sessions and chat templates, tried on this library:
 * one test a class, with its numbers. What makes each class impossible is asserted, not that one file is refused.
 *
 * Not here: CVE-2024-42477, -42478, -42479 and the later ones of RPC servers. This library has no server and takes no
 * pointers, handles or buffer sizes from anybody else: there is no such surface. Values above that are well formed but
 * wrong for a model (hyper-parameters as indices) are tests/test_broken.c and tests/fuzz/fuzz_arch.c.
 *
 * Needs test_session.c before it (state_write, state_read). */

/* ---- what an open asks for --------------------------------------------------------------------------------------------- */

static size_t cve_largest; /* bytes that were asked for at once */
static void *cve_alloc(void *user, size_t size, size_t align) {
    if (size > cve_largest) cve_largest = size;
    return check_alloc(user, size, align);
}

/* The file, in a block of exactly its size, is refused with `code` and a message that has `says`; nothing is left, and no block
 * was asked for that is out of proportion to the file. Frees it. */
static void cve_refuse(unsigned char *file, size_t n, infer_result code, const char *says) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    void *exact = malloc(n ? n : 1);
    memset(&p, 0, sizeof p);
    p.backend = INFER_CPU;
    p.allocator.alloc = cve_alloc;
    p.allocator.free = check_free;
    check_live = check_allocs = check_fail_at = 0;
    cve_largest = 0;
    if (n) memcpy(exact, file, n);
    CHECK(infer_model_open_memory(&m, exact, n, &p, &e) == code && m == NULL && e.code == code);
    CHECK_HAS(e.message, says);
    CHECK(check_live == 0 && cve_largest < 100000 + 20 * n);
    free(exact);
    free(file);
}
static void cve_refuse_as(gguf_writer *w, infer_result code, const char *says) {
    size_t n;
    unsigned char *file = gw_finish(w, &n);
    check_detail = says;
    cve_refuse(file, n, code, says);
}
static void cve_refuse_w(gguf_writer *w, const char *says) { cve_refuse_as(w, INFER_ERR_FORMAT, says); }

/* One tensor with any dims, type and offset, and 64 bytes of data. */
static void cve_tensor(uint32_t type, uint32_t n_dims, const uint64_t *dims, uint64_t offset, const char *says) {
    gguf_writer w;
    gw_init(&w);
    gw_raw_tensor(&w, "t", 1, type, n_dims, dims, offset);
    gw_add(&w.data, NULL, 64);
    cve_refuse_w(&w, says);
}

static void test_cve_2024_21802_dims_overflow(void) {
    static const uint64_t dims[][4] = {{(uint64_t)1 << 32, (uint64_t)1 << 32, 1, 1}, {UINT64_MAX, 2, 1, 1}, {3, UINT64_MAX / 3 + 1, 1, 1},
                                       {(uint64_t)1 << 16, (uint64_t)1 << 16, (uint64_t)1 << 16, (uint64_t)1 << 16}};
    static const uint64_t many[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    size_t i;
    for (i = 0; i < INFER__COUNT(dims); i++) cve_tensor(0, 4, dims[i], 0, "tensor \"t\"");
    cve_tensor(0, 5, many, 0, "tensor \"t\"");
    cve_tensor(0, 0, many, 0, "tensor \"t\"");
}

/* A count that is more than the file can have; also a hole of Ollama without a number (issue 17042 there): memory for such a count
 * was asked for before the elements were read. */
static void cve_count(int what, uint64_t count) {
    gguf_writer w;
    gw_init(&w);
    if (what < 3) gw_array(&w, "a", what == 0 ? GW_U64 : what == 1 ? GW_STRING : GW_U8, count);
    else if (what == 3) {
        gw_key(&w, "a", GW_STRING);
        gw_uint(&w, &w.kv, count, 8);
    } else if (what == 4) {
        gw_uint(&w, &w.kv, count, 8); /* the length of a key */
        gw_add(&w.kv, NULL, 8);
        w.n_kv = 1;
    } else gw_int(&w, "a", GW_U32, 1);
    if (what == 5) w.n_kv = count;
    if (what == 6) w.n_tensors = count;
    cve_refuse_w(&w, what == 6 ? "header, byte 8" : what == 5 ? "header, byte 16" : "metadata key");
}
static const uint64_t CVE_COUNTS[] = {2, 1 << 20, UINT32_MAX, (uint64_t)1 << 40, UINT64_MAX / 8 + 2, UINT64_MAX / 16 + 2, INT64_MAX, UINT64_MAX - 7, UINT64_MAX};

static void test_cve_2024_21825_array_count(void) {
    size_t i, k;
    for (i = 0; i < INFER__COUNT(CVE_COUNTS); i++)
        for (k = 0; k < 3; k++) cve_count((int)k, CVE_COUNTS[i]);
}
static void test_cve_2024_21836_n_tensors(void) {
    size_t i;
    for (i = 0; i < INFER__COUNT(CVE_COUNTS); i++) cve_count(6, CVE_COUNTS[i]);
}
static void test_cve_2024_23496_string_length(void) {
    size_t i;
    for (i = 1; i < INFER__COUNT(CVE_COUNTS); i++) {
        cve_count(3, CVE_COUNTS[i]);
        cve_count(4, CVE_COUNTS[i]);
    }
}
static void test_cve_2024_23605_n_kv(void) {
    size_t i;
    for (i = 0; i < INFER__COUNT(CVE_COUNTS); i++) cve_count(5, CVE_COUNTS[i]);
}

static void test_cve_2024_32878_cut_while_reading(void) {
    gguf_writer w;
    unsigned char *file, *part;
    size_t n, i;
    static const char *const words[] = {"a", "bc", ""};
    static const int64_t ints[] = {1, 2, 3};
    uint64_t dims[2] = {4, 2};
    gw_init(&w);
    gw_str(&w, "general.name", "x");
    gw_strs(&w, "words", words, 3);
    gw_ints(&w, "ints", GW_I64, ints, 3);
    gw_tensor(&w, "t", 0, 2, dims, NULL, 32, 4);
    gw_tensor(&w, "u", 0, 2, dims, NULL, 32, 4);
    file = gw_finish(&w, &n);
    for (i = 0; i < n; i++) { /* nothing that was not read yet is looked at or freed */
        part = (unsigned char *)malloc(n);
        memcpy(part, file, n);
        cve_refuse(part, i, INFER_ERR_FORMAT, "byte");
    }
    free(file);
    gw_init(&w);
    gw_array(&w, "nested", GW_ARRAY, 1);
    gw_uint(&w, &w.kv, GW_U32, 4);
    gw_uint(&w, &w.kv, 1, 8);
    gw_uint(&w, &w.kv, 1, 4);
    cve_refuse_as(&w, INFER_ERR_UNSUPPORTED, "metadata key \"nested\"");
}

static void test_cve_2024_41130_nothing_there(void) {
    gguf_writer w;
    size_t n;
    unsigned char *file;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_model_info info;
    infer_tensor_info t;
    infer_meta v;
    infer_error e;
    float x;
    size_t len;
    CHECK(infer_model_open_memory(&m, NULL, 100, NULL, &e) == INFER_ERR_ARGUMENT && m == NULL);
    CHECK(infer_model_open_memory(NULL, "", 0, NULL, &e) == INFER_ERR_ARGUMENT);
    gw_init(&w);
    gw_array(&w, "none", GW_STRING, 0);
    gw_strn(&w, "empty", "", 0);
    file = gw_finish(&w, &n);
    CHECK(infer_model_open_memory(&m, file, n, NULL, &e) == INFER_OK); /* no architecture, no tensor, no data */
    CHECK(infer_model_get_info(m, &info) == INFER_OK && !info.computes && infer_model_why_not(m)[0]);
    CHECK(infer_tensor_count(m) == 0 && infer_tensor_get(m, 0, &t) == INFER_ERR_ARGUMENT && infer_tensor_find(m, "t", &t) == INFER_ERR_ARGUMENT);
    CHECK(infer_meta_element(m, "none", 0, &v) == INFER_ERR_ARGUMENT && infer_meta_value(m, "", &v) == INFER_ERR_ARGUMENT);
    CHECK(infer_meta_key(m, -1) == NULL && infer_meta_key(m, 2) == NULL);
    CHECK(infer_tensor_read(m, "t", 0, 1, &x, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_create(&s, m, NULL, &e) < 0 && s == NULL && e.message[0]);
    CHECK(infer_tokenize(m, "a", 1, 0, NULL, 0, &len, &e) < 0);
    CHECK(infer_model_close(m) == INFER_OK);
    free(file);
}

/* ---- templates ----------------------------------------------------------------------------------------------------------- */

/* A template has no way to anything but its variables: attributes of Python objects are undefined, so what follows them fails or
 * is empty; nothing can be imported, and no file can be named. */
static void test_cve_2024_34359_template_code(void) {
    static const char *const tries[] = {
        "{{ ''.__class__ }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ messages.__class__.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('echo BAD').read() }}", "{{ self.__init__.__globals__['__builtins__'] }}",
        "{{ namespace.__init__.__globals__ }}", "{{ lipsum.__globals__['os'].popen('echo BAD').read() }}", "{{ config }}", "{{ request }}",
        "{{ ''|attr('__class__') }}", "{{ messages|map(attribute='__class__')|list }}", "{{ ['a']|map('attr', '__class__')|list }}",
        "{{ '{0.__class__}'.format('') }}", "{{ '%s' | format(''.__class__) }}", "{{ ''['__class__'] }}", "{{ range.__class__ }}",
        "{{ raise_exception.__globals__ }}", "{{ strftime_now.__globals__ }}", "{{ dict.__bases__ }}", "{{ joiner.__init__ }}",
        "{% macro f() %}{% endmacro %}{{ f.__globals__ }}", "{{ loop.__class__ }}", "{% for x in [1] %}{{ loop.__class__ }}{% endfor %}",
        "{% include '/etc/passwd' %}", "{% import 'os' as os %}{{ os }}", "{% extends '/etc/passwd' %}", "{% from 'os' import popen %}",
        "{{ ''.__class__.__base__.__subclasses__()[0]('BAD') }}", "{{ eval('1') }}", "{{ open('/etc/passwd').read() }}",
        "{{ __import__('os') }}", "{{ globals() }}", "{{ ().__class__ }}", "{{ {}.__class__ }}", "{{ 1.0.__class__ }}", "{{ none.__class__ }}"};
    static const char messages[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}";
    size_t i;
    for (i = 0; i < INFER__COUNT(tries); i++) {
        infer_template *t = NULL;
        infer_rendering *r = NULL;
        infer_json *context = NULL;
        infer_error e;
        check_detail = tries[i];
        CHECK(infer_json_parse(&context, messages, sizeof messages - 1, NULL, &e) == INFER_OK);
        if (infer_template_create(&t, tries[i], strlen(tries[i]), NULL, &e) == INFER_OK &&
            infer_template_render(t, context, NULL, &r, &e) == INFER_OK) {
            /* at most what an undefined value is written as: nothing; once, twice or in a list */
            CHECK(!strstr(r->text, "class") && !strstr(r->text, "BAD") && !strstr(r->text, "root:") && !strstr(r->text, "built"));
            CHECK(r->n <= strlen("[Undefined]"));
        } else CHECK(e.message[0]);
        infer_rendering_free(r);
        infer_template_destroy(t);
        infer_json_free(context);
    }
    check_detail = "";
}

/* ---- vocabularies ---------------------------------------------------------------------------------------------------------- */

/* A token that is longer than the buffer it is asked into, at every size of it; lengths are size_t all the way. */
static void test_cve_2025_49847_long_token(void) {
    enum { LONG = 300 };
    char text[LONG + 1];
    const char *words[4];
    gguf_writer w;
    unsigned char *file;
    size_t n, cap, len;
    infer_model *m = NULL;
    infer_error e;
    memset(text, 'a', LONG);
    text[LONG] = 0;
    words[0] = "<unk>"; words[1] = "<s>"; words[2] = "</s>"; words[3] = text;
    gw_init(&w);
    gw_str(&w, "tokenizer.ggml.model", "llama");
    gw_strs(&w, "tokenizer.ggml.tokens", words, 4);
    file = gw_finish(&w, &n);
    CHECK(infer_model_open_memory(&m, file, n, NULL, &e) == INFER_OK);
    for (cap = 0; m && cap <= LONG + 1; cap += cap < 8 || cap > LONG - 8 ? 1 : 37) {
        infer_token id = 3;
        char *out = (char *)malloc(cap ? cap : 1);
        out[0] = 'x';
        CHECK(infer_token_text(m, 3, out, cap, &len) == INFER_OK && len == LONG && out[0] == (cap ? 'a' : 'x'));
        CHECK(infer_detokenize(m, &id, 1, 0, out, cap, &len, &e) == INFER_OK && len == LONG);
        free(out);
    }
    CHECK(infer_token_text(m, 4, NULL, 0, &len) == INFER_ERR_ARGUMENT && infer_token_text(m, INT32_MIN, NULL, 0, &len) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_close(m) == INFER_OK);
    free(file);
}

/* More tokens than there is room for, at every size of it: what is written ends there, the count is the full one. */
static void test_cve_2025_52566_token_count(void) {
    infer_model *m = NULL;
    infer_error e;
    size_t cap, n = 0, all = 0;
    static const char text[] = "Once upon a time </s><s> there was";
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e) == INFER_OK);
    CHECK(infer_tokenize(m, text, sizeof text - 1, INFER_TEXT_SPECIAL, NULL, 0, &all, &e) == INFER_OK && all > 8);
    for (cap = 0; m && cap <= all + 1; cap++) {
        infer_token *ids = (infer_token *)malloc((cap ? cap : 1) * sizeof *ids);
        CHECK(infer_tokenize(m, text, sizeof text - 1, INFER_TEXT_SPECIAL, ids, cap, &n, &e) == INFER_OK && n == all);
        free(ids);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- sizes of tensors --------------------------------------------------------------------------------------------------------- */

/* Each size is possible, their sum passes 64 bits, with and without the padding between them. The second number is a way around
 * the first one's repair: nothing here adds sizes up to allocate their sum. */
static void test_cve_2025_53630_2026_27940_sum_of_sizes(void) {
    static const uint64_t quarter[] = {(uint64_t)1 << 62, ((uint64_t)1 << 62) - 1, ((uint64_t)1 << 62) - 8};
    size_t k;
    int i;
    for (k = 0; k < 3; k++) {
        gguf_writer w;
        uint64_t offset = 0;
        gw_init(&w);
        for (i = 0; i < 5; i++) {
            char name[4] = "t0";
            name[1] = (char)('0' + i);
            gw_raw_tensor(&w, name, 2, 24 /* I8 */, 1, &quarter[k], offset);
            offset += (quarter[k] + 31) & ~(uint64_t)31;
        }
        gw_add(&w.data, NULL, 64);
        cve_refuse_w(&w, "tensor \"t0\"");
    }
}

static void test_cve_2026_33298_bytes_of_a_tensor(void) {
    /* the number of values fits, times the bytes of a value or block it does not, or is a small number modulo 2^64 */
    static const uint64_t f64[2] = {(uint64_t)1 << 31, (uint64_t)1 << 31}, f32[2] = {((uint64_t)1 << 62) + 4, 1};
    static const uint64_t q8[2] = {32, (uint64_t)1 << 59}, q6[2] = {256, UINT64_MAX / 256 / 210 * 2}, f16[4] = {8, (uint64_t)1 << 20, (uint64_t)1 << 20, (uint64_t)1 << 20};
    cve_tensor(28, 2, f64, 0, "tensor \"t\"");
    cve_tensor(0, 2, f32, 0, "tensor \"t\"");
    cve_tensor(8, 2, q8, 0, "tensor \"t\"");
    cve_tensor(14, 2, q6, 0, "tensor \"t\"");
    cve_tensor(1, 4, f16, 0, "tensor \"t\"");
}

/* Fewer bytes than dims, type and offset say: nothing behind the file's end is ever read (Ollama's "Bleeding Llama"). */
static void test_cve_2026_7482_less_than_dims_say(void) {
    static const uint64_t d17[1] = {17}, d16[1] = {16}, wide[2] = {256, 2}, one[1] = {1};
    gguf_writer w;
    uint64_t dims[1] = {16};
    unsigned char *file;
    size_t n;
    infer_model *m = NULL;
    float x[16];
    cve_tensor(0, 1, d17, 0, "tensor \"t\"");
    cve_tensor(0, 1, d16, 32, "tensor \"t\"");
    cve_tensor(0, 1, one, 64, "tensor \"t\"");
    cve_tensor(12, 2, wide, 0, "tensor \"t\"");
    cve_tensor(0, 1, one, (uint64_t)1 << 40, "tensor \"t\"");
    cve_tensor(0, 1, d16, UINT64_MAX - 31, "tensor \"t\"");
    gw_init(&w);
    gw_tensor(&w, "t", 0, 1, dims, NULL, 64, 4);
    file = gw_finish(&w, &n);
    CHECK(infer_model_open_memory(&m, file, n, NULL, NULL) == INFER_OK);
    CHECK(infer_tensor_read(m, "t", 0, 1, x, NULL) == INFER_OK);
    CHECK(infer_tensor_read(m, "t", 0, 2, x, NULL) == INFER_ERR_ARGUMENT && infer_tensor_read(m, "t", UINT64_MAX, 2, x, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_model_close(m) == INFER_OK);
    free(file);
}

/* Padding (GGML_PAD) that overflows and an alignment without bounds; no number (oss-security, 2026-05-15). */
static void test_cve_none_alignment(void) {
    static const uint64_t bad[] = {0, 3, 31, 33, 0x80000001u, UINT32_MAX};
    static const uint64_t dims[1] = {16};
    gguf_writer w;
    size_t i;
    for (i = 0; i < INFER__COUNT(bad); i++) {
        gw_init(&w);
        gw_int(&w, "general.alignment", GW_U32, (int64_t)bad[i]);
        gw_raw_tensor(&w, "t", 1, 0, 1, dims, 0);
        gw_add(&w.data, NULL, 64);
        cve_refuse_w(&w, "general.alignment");
    }
    gw_init(&w);
    gw_int(&w, "general.alignment", GW_U32, (int64_t)1 << 31); /* a power of two: the data would begin behind the file */
    gw_raw_tensor(&w, "t", 1, 0, 1, dims, 0);
    gw_add(&w.data, NULL, 64);
    cve_refuse_w(&w, "");
    gw_init(&w);
    gw_str(&w, "general.alignment", "32");
    cve_refuse_w(&w, "general.alignment");
}

/* ---- metadata of another type than is asked for ---------------------------------------------------------------------------------- */

/* An array of strings read as numbers, and the other way round; no number. */
static void test_cve_none_array_elements(void) {
    static const int64_t ints[] = {1, 2, 3, 4};
    static const char *const words[] = {"a", "b", "c", "d"};
    static const char *const keys[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"};
    int k, kind;
    for (k = 0; k < 4; k++) {
        for (kind = 0; kind < 3; kind++) {
            gguf_writer w;
            size_t n, len;
            unsigned char *file;
            infer_model *m = NULL;
            infer_error e;
            int strings = k == 0 || k == 3, i;
            gw_init(&w);
            gw_str(&w, "tokenizer.ggml.model", k == 3 ? "gpt2" : "llama");
            gw_str(&w, "tokenizer.ggml.pre", "gpt-2");
            for (i = 0; i < 4; i++) {
                if (i == k && kind == 0 && strings) gw_ints(&w, keys[i], GW_U64, ints, 4);
                else if (i == k && kind == 0) gw_strs(&w, keys[i], words, 4);
                else if (i == k && kind == 1) gw_str(&w, keys[i], "abcdefgh");
                else if (i == k) gw_int(&w, keys[i], GW_U64, INT64_MAX);
                else if (i == 1) gw_ints(&w, keys[i], GW_I8, ints, 4);
                else if (i == 2) gw_ints(&w, keys[i], GW_I32, ints, 4);
                else if (i == 0 || k == 3) gw_strs(&w, keys[i], words, 4);
            }
            file = gw_finish(&w, &n);
            check_detail = keys[k];
            if (infer_model_open_memory(&m, file, n, NULL, &e) == INFER_OK) { /* text is refused then, by the key's name */
                CHECK(infer_tokenize(m, "ab", 2, 0, NULL, 0, &len, &e) < 0);
                CHECK(infer_model_close(m) == INFER_OK);
            }
            CHECK_HAS(e.message, keys[k]);
            free(file);
        }
    }
    check_detail = "";
}

/* ---- sessions ---------------------------------------------------------------------------------------------------------------------- */

/* Numbers of tokens to keep or drop that are negative or more than there are (n_discard of llama.cpp's server). */
static void test_cve_2026_21869_negative_counts(void) {
    static const int32_t bad[] = {-1, -100, INT32_MIN, INT32_MIN + 1};
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_session_params p;
    infer_generate_params g;
    infer_error e;
    size_t i;
    infer_token ids[4] = {1, 2, 3, 4};
    memset(&p, 0, sizeof p);
    p.context = 32;
    p.own.threads = 1;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e) == INFER_OK);
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
    if (!s) return;
    CHECK(infer_session_eval(s, ids, 4) == INFER_OK);
    for (i = 0; i < INFER__COUNT(bad); i++) {
        memset(&g, 0, sizeof g);
        g.max_tokens = 40;
        g.on_full = INFER_FULL_SLIDE;
        g.ignore_end = 1;
        g.keep_first = bad[i];
        CHECK(infer_generate(s, NULL, NULL, &g, NULL) == INFER_ERR_ARGUMENT && infer_session_position(s) == 4);
        CHECK_HAS(infer_session_error(s)->message, "keep_first");
        CHECK(infer_session_rewind(s, bad[i]) == INFER_ERR_ARGUMENT);
        CHECK(infer_session_eval(s, ids, bad[i]) == INFER_ERR_ARGUMENT);
        CHECK(infer_session_sync(s, ids, bad[i], NULL) == INFER_ERR_ARGUMENT && infer_session_position(s) == 4);
        CHECK(infer_session_logits(s, bad[i] < -1 ? bad[i] : INT32_MIN) == NULL);
    }
    g.keep_first = INT32_MAX; /* more than there are: something has to go all the same, or it says so */
    i = (size_t)infer_generate(s, NULL, NULL, &g, NULL);
    CHECK(infer_session_position(s) <= 32);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

/* A saved session that claims more than there is room for, its check sum right: nothing is written beyond the session's own
 * tables and pages. */
static void test_cve_2026_43629_state_restore(void) {
    static const uint32_t values[] = {33, 64, 4096, 1 << 24, INT32_MAX, 0x80000000u, UINT32_MAX - 14, UINT32_MAX};
    enum { HEAD = 64, N = 7 /* words of the header: tokens, valid ones, first pages */ };
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_session_params p;
    infer_error e;
    infer_token ids[20];
    state_bytes b;
    size_t i, k;
    memset(&p, 0, sizeof p);
    memset(&b, 0, sizeof b);
    p.context = 32;
    p.own.threads = 1;
    for (i = 0; i < 20; i++) ids[i] = (infer_token)i;
    CHECK(infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e) == INFER_OK);
    CHECK(infer_session_create(&s, m, &p, &e) == INFER_OK);
    if (!s) return;
    CHECK(infer_session_eval(s, ids, 20) == INFER_OK && infer_session_save(s, state_write, &b) == INFER_OK);
    for (i = 0; i < INFER__COUNT(values); i++) {
        for (k = 0; k < 5; k++) { /* one word, or both counts */
            char *copy = (char *)malloc(b.n);
            state_bytes c = b;
            uint64_t sum;
            infer_result r;
            memcpy(copy, b.p, b.n);
            memcpy(copy + (N + (k & 3)) * 4, &values[i], 4);
            if (k == 4) memcpy(copy + (N + 1) * 4, &values[i], 4);
            sum = infer__fnv(INFER__FNV, copy, b.n - 8);
            memcpy(copy + b.n - 8, &sum, 8);
            c.p = copy;
            c.at = 0;
            r = infer_session_load(s, state_read, &c);
            CHECK(r != INFER_OK && infer_session_error(s)->message[0]);
            CHECK(infer_session_position(s) == 20 && memcmp(infer_session_tokens(s), ids, sizeof ids) == 0);
            free(copy);
        }
    }
    b.at = 0;
    CHECK(infer_session_load(s, state_read, &b) == INFER_OK && infer_session_position(s) == 20);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    free(b.p);
}

static void suite_cve(void) {
    RUN(test_cve_2024_21802_dims_overflow);
    RUN(test_cve_2024_21825_array_count);
    RUN(test_cve_2024_21836_n_tensors);
    RUN(test_cve_2024_23496_string_length);
    RUN(test_cve_2024_23605_n_kv);
    RUN(test_cve_2024_32878_cut_while_reading);
    RUN(test_cve_2024_41130_nothing_there);
    RUN(test_cve_2024_34359_template_code);
    RUN(test_cve_2025_49847_long_token);
    RUN(test_cve_2025_52566_token_count);
    RUN(test_cve_2025_53630_2026_27940_sum_of_sizes);
    RUN(test_cve_2026_33298_bytes_of_a_tensor);
    RUN(test_cve_2026_7482_less_than_dims_say);
    RUN(test_cve_none_alignment);
    RUN(test_cve_none_array_elements);
    RUN(test_cve_2026_21869_negative_counts);
    RUN(test_cve_2026_43629_state_restore);
}
