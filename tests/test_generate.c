/* test_generate.c: infer_generate: known text, continuing, stop strings, whole characters, limits, sliding, cancelling,
 * log-probabilities, callbacks, memory. Scripted tokens (a custom sampler stage) produce any text that a test needs. */

static const char *const generate_story =
    ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball. "
    "She wanted to play with it,";

typedef struct generate_sink {
    char text[8192];
    size_t n;
    int pieces, tokens, stop_piece, stop_token, bad; /* stop_*: return non-zero on that call */
    infer_token ids[512];
    infer_session *cancel; /* cancelled on piece stop_piece */
} generate_sink;

static int generate_text(void *user, const char *s, size_t n) {
    generate_sink *k = (generate_sink *)user;
    if (n == 0 || infer_utf8_whole(s, n) != n) k->bad++;
    if (k->n + n < sizeof k->text) { memcpy(k->text + k->n, s, n); k->n += n; k->text[k->n] = 0; }
    if (++k->pieces != k->stop_piece) return 0;
    if (!k->cancel) return 1;
    infer_session_cancel(k->cancel);
    return 0;
}

static int generate_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    generate_sink *k = (generate_sink *)user;
    if (n_top == 0 && (logprob != 0 || top)) k->bad++;
    if (k->tokens < 512) k->ids[k->tokens] = token;
    return ++k->tokens == k->stop_token;
}

static infer_generate_params generate_params(generate_sink *k, int32_t max_tokens) {
    infer_generate_params p;
    memset(&p, 0, sizeof p);
    memset(k, 0, sizeof *k);
    p.max_tokens = max_tokens;
    p.text = generate_text;
    p.token = generate_token;
    p.user = k;
    return p;
}

static infer_model *generate_model(const infer_model_params *p) {
    infer_model *m = NULL;
    infer_error err;
    infer_result r = infer_model_open(&m, check_data("models/stories260K.F32.gguf"), p, &err);
    CHECK_STR(err.message, "");
    CHECK(r == INFER_OK);
    return m;
}

static infer_session *generate_session(infer_model *m, int32_t context) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error err;
    memset(&p, 0, sizeof p);
    p.context = context;
    p.own.threads = 1;
    p.own.batch = 32;
    CHECK(infer_session_create(&s, m, &p, &err) == INFER_OK);
    CHECK_STR(err.message, "");
    return s;
}

/* ---- scripted tokens --------------------------------------------------------------------------------- */

typedef struct generate_script { infer_token ids[256]; int32_t n, at; } generate_script;

static int32_t generate_scripted(void *user, infer_candidate *c, int32_t n) {
    generate_script *g = (generate_script *)user;
    int32_t i;
    for (i = 0; g->at < g->n && i < n; i++) {
        if (c[i].token != g->ids[g->at]) continue;
        g->at++;
        c[0] = c[i];
        return 1;
    }
    return 0;
}

static infer_sampler *generate_script_sampler(infer_model *m, generate_script *g) {
    infer_sampler *s = NULL;
    infer_stage st;
    infer_error err;
    memset(&st, 0, sizeof st);
    st.kind = INFER_STAGE_CUSTOM;
    st.fn = generate_scripted;
    st.user = g;
    g->at = 0;
    CHECK(infer_sampler_create(&s, m, &st, 1, 0, &err) == INFER_OK);
    return s;
}

/* The script's tokens for a text: every byte as a byte token, so that token borders lie anywhere. */
static void generate_bytes(const infer_model *m, generate_script *g, const char *text) {
    size_t i, n = strlen(text), len;
    infer_model_info info;
    infer_token t;
    char b[8];
    infer_model_get_info(m, &info);
    g->n = 0;
    for (i = 0; i < n; i++) {
        for (t = 0; t < info.vocab; t++)
            if ((infer_token_flags(m, t) & INFER_TOKEN_BYTE) && infer_token_text(m, t, b, sizeof b, &len) == INFER_OK &&
                len == 1 && b[0] == text[i]) break;
        CHECK(t < info.vocab);
        g->ids[g->n++] = t;
    }
}

/* ---- text ------------------------------------------------------------------------------------------------ */

static void test_generate_story(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 256);
    generate_sink k;
    infer_generate_params p = generate_params(&k, 80);
    infer_generate_info info;
    int i;
    char whole[4096];
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK);
    CHECK(strncmp(k.text, generate_story, strlen(generate_story)) == 0);
    CHECK(info.stop_reason == INFER_STOP_LIMIT && info.stop_token == -1 && info.stop_string == -1);
    CHECK(info.new_tokens == 80 && k.tokens == 80 && info.prompt_tokens == 5 && info.bytes == k.n && !k.bad);
    CHECK(infer_session_position(s) == 85);
    CHECK(infer_session_tokens(s)[0] == infer_token_special(m, INFER_SPECIAL_BOS));
    for (i = 0; i < 80; i++) CHECK(infer_session_tokens(s)[5 + i] == k.ids[i]);
    CHECK_STR(infer_session_error(s)->message, "");
    memcpy(whole, k.text, sizeof whole);
    /* the same in pieces: the session holds all that was generated, so an empty prompt goes on */
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    p = generate_params(&k, 1);
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK && info.new_tokens == 1);
    for (i = 1; i < 80; i += 13) {
        p.max_tokens = INFER__MIN(13, 80 - i);
        CHECK(infer_generate(s, NULL, i & 1 ? "" : NULL, &p, &info) == INFER_OK);
        CHECK(info.prompt_tokens == 0 && info.new_tokens == p.max_tokens);
    }
    CHECK_STR(k.text, whole);
    /* after a rewind there are no logits: the last token is evaluated again */
    CHECK(infer_session_rewind(s, 5) == INFER_OK && infer_session_logits(s, -1) == NULL);
    p = generate_params(&k, 80);
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK);
    CHECK_STR(k.text, whole);
    CHECK(infer_session_position(s) == 85);
    /* parameters and info may be absent; then the end or the context stops it */
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    CHECK(infer_generate(s, NULL, "Once upon a time", NULL, NULL) == INFER_OK);
    CHECK(infer_session_position(s) > 85);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_generate_prompts(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 64);
    generate_sink k;
    infer_generate_params p = generate_params(&k, 2);
    infer_generate_info info;
    const infer_token *t;
    infer_token bos = infer_token_special(m, INFER_SPECIAL_BOS);
    int i, n_bos = 0;
    /* nothing but BOS */
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK && info.prompt_tokens == 1 && info.new_tokens == 2);
    t = infer_session_tokens(s);
    CHECK(t[0] == bos && infer_session_position(s) == 3);
    /* no BOS in the middle */
    CHECK(infer_generate(s, NULL, "One day", &p, &info) == INFER_OK);
    for (i = 0; i < infer_session_position(s); i++) n_bos += infer_session_tokens(s)[i] == bos;
    CHECK(n_bos == 1 && infer_session_position(s) == 3 + info.prompt_tokens + 2);
    /* a trusted prompt that has its own gets no second one; an untrusted one cannot write any */
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    p.text_flags = INFER_TEXT_PARSE_SPECIAL;
    CHECK(infer_generate(s, NULL, "<s>One", &p, &info) == INFER_OK);
    CHECK(infer_session_tokens(s)[0] == bos && infer_session_tokens(s)[1] != bos);
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    p.text_flags = 0;
    CHECK(infer_generate(s, NULL, "<s>One", &p, &info) == INFER_OK);
    for (n_bos = i = 0; i < infer_session_position(s); i++) n_bos += infer_session_tokens(s)[i] == bos;
    CHECK(n_bos == 1);
    infer_session_destroy(s);
    infer_model_close(m);
}

/* A model without a vocabulary: nothing to begin with, but tokens that are there can be continued. */
static void test_generate_no_vocabulary(void) {
    infer_model *m = NULL;
    infer_session *s;
    infer_generate_info info;
    infer_generate_params p;
    generate_sink k;
    infer_error err;
    const infer_token ids[3] = { 1, 2, 3 };
    CHECK(infer_model_open(&m, check_data("archs/llama-dense.gguf"), NULL, &err) == INFER_OK);
    if (!m) return;
    s = generate_session(m, 32);
    CHECK(infer_generate(s, NULL, NULL, NULL, &info) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "nothing to continue from");
    CHECK(info.stop_reason == 0 && info.stop_token == -1);
    p = generate_params(&k, 4);
    CHECK(infer_session_eval(s, ids, 3) == INFER_OK);
    p.text = NULL;
    if (infer__tokenizer_size(m->tokenizer) == 0) {
        CHECK(infer_generate(s, NULL, "text", &p, &info) == INFER_ERR_UNSUPPORTED);
        CHECK(infer_session_error(s)->message[0] != 0 && infer_session_position(s) == 3);
    }
    infer_session_destroy(s);
    infer_model_close(m);
}

/* ---- stop strings ------------------------------------------------------------------------------------------- */

/* Every substring of the story as a stop string: the text ends before its first occurrence, wherever tokens begin. */
static void test_generate_stop_strings(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    size_t n = strlen(generate_story), len, at;
    CHECK(infer_session_eval(s, (const infer_token[]){ 1 }, 1) == INFER_OK);
    for (len = 1; len <= 13; len += 3) {
        for (at = 0; at + len <= 80 && at + len <= n; at += 5) {
            char stop[16];
            const char *stops[3], *first;
            generate_sink k;
            infer_generate_info info;
            infer_generate_params p = generate_params(&k, 60);
            memcpy(stop, generate_story + at, len);
            stop[len] = 0;
            first = strstr(generate_story, stop);
            stops[0] = "never seen";
            stops[1] = stop;
            stops[2] = "nor this: the par";
            p.stop = stops;
            p.n_stop = 3;
            check_detail = stop;
            CHECK(infer_session_rewind(s, 0) == INFER_OK);
            CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK);
            CHECK(info.stop_reason == INFER_STOP_STRING && info.stop_string == 1);
            CHECK(k.n == (size_t)(first - generate_story) && memcmp(k.text, generate_story, k.n) == 0);
            CHECK(info.bytes == k.n && infer_session_position(s) == 5 + info.new_tokens);
        }
    }
    infer_session_destroy(s);
    infer_model_close(m);
}

/* One byte a token: what is held back comes out when it turns out not to be a stop string. */
static void generate_stop_case(const char *text, const char *const *stop, int32_t n_stop, const char *want, int32_t which) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    generate_script g;
    infer_sampler *sampler;
    generate_sink k;
    infer_generate_info info;
    infer_generate_params p;
    generate_bytes(m, &g, text);
    sampler = generate_script_sampler(m, &g);
    p = generate_params(&k, g.n);
    p.stop = stop;
    p.n_stop = n_stop;
    check_detail = text;
    CHECK(infer_generate(s, sampler, "Once", &p, &info) == INFER_OK);
    CHECK_STR(k.text, want);
    CHECK(!k.bad && info.stop_string == which);
    CHECK(info.stop_reason == (which < 0 ? INFER_STOP_LIMIT : INFER_STOP_STRING));
    infer_sampler_destroy(sampler);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void test_generate_stop_held(void) {
    static const char *const ab[] = { "abc" };
    static const char *const two[] = { "bcd", "abcx" };
    static const char *const same[] = { "end", "en" };
    static const char *const nested[] = { "xabcy", "abc" };
    static const char *const han[] = { "\xe6\xbc\xa2" };
    generate_stop_case("xxabxabababd", ab, 1, "xxabxabababd", -1); /* never complete; the last "ab" comes out at the end */
    generate_stop_case("ab", ab, 1, "ab", -1);
    generate_stop_case("aababc tail", ab, 1, "aab", 0);
    generate_stop_case("abcd", two, 2, "a", 0);   /* the longer one begins earlier but does not come */
    generate_stop_case("-abcx", two, 2, "-", 1);
    generate_stop_case("the end", same, 2, "the ", 1); /* bytes come one by one: "en" is complete first */
    generate_stop_case("1xabcy", nested, 2, "1x", 1);
    generate_stop_case("1\xe6\xbc\xa2" "2", han, 1, "1", 0);
    generate_stop_case("1\xe6\xbc\xa3" "2", han, 1, "1\xe6\xbc\xa3" "2", -1); /* shares two bytes with it */
}

/* ---- whole characters ------------------------------------------------------------------------------------------ */

static void test_generate_utf8(void) {
    const char *text = "a\xc3\xa9 \xe6\xbc\xa2\xf0\x9f\x98\x80!";
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 64);
    generate_script g;
    infer_sampler *sampler;
    int32_t n, whole;
    generate_bytes(m, &g, text);
    CHECK(g.n == 12);
    sampler = generate_script_sampler(m, &g);
    for (n = 1; n <= g.n; n++) { /* cut anywhere: an unfinished character is not shown */
        generate_sink k;
        infer_generate_info info;
        infer_generate_params p = generate_params(&k, n);
        g.at = 0;
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        CHECK(infer_generate(s, sampler, "A", &p, &info) == INFER_OK);
        whole = (int32_t)infer_utf8_whole(text, (size_t)n);
        CHECK(k.n == (size_t)whole && memcmp(k.text, text, k.n) == 0 && !k.bad && info.bytes == k.n);
        if (n == g.n) CHECK(k.pieces == 6); /* one a character */
    }
    /* bytes that are no character are shown as they are */
    generate_bytes(m, &g, "\xff\xc3(\x80");
    {
        generate_sink k;
        infer_generate_params p = generate_params(&k, 4);
        g.at = 0;
        CHECK(infer_generate(s, sampler, NULL, &p, NULL) == INFER_OK);
        CHECK(k.n == 4 && memcmp(k.text, "\xff\xc3(\x80", 4) == 0);
    }
    infer_sampler_destroy(sampler);
    infer_session_destroy(s);
    infer_model_close(m);
}

/* Control tokens have no text; an end token stops, is not evaluated, and not reported. */
static void test_generate_control(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 64);
    generate_script g;
    infer_sampler *sampler;
    generate_sink k;
    infer_generate_info info;
    infer_generate_params p = generate_params(&k, 0);
    infer_token bos = infer_token_special(m, INFER_SPECIAL_BOS), eos = infer_token_special(m, INFER_SPECIAL_EOS);
    CHECK(infer_token_flags(m, eos) & INFER_TOKEN_END);
    CHECK(infer_token_flags(m, bos) & INFER_TOKEN_CONTROL);
    generate_bytes(m, &g, "AB_CD");
    g.ids[2] = bos;
    g.ids[g.n] = eos;
    g.ids[g.n + 1] = g.ids[0];
    g.n += 2;
    sampler = generate_script_sampler(m, &g);
    CHECK(infer_generate(s, sampler, "A", &p, &info) == INFER_OK);
    CHECK_STR(k.text, "ABCD");
    CHECK(info.stop_reason == INFER_STOP_TOKEN && info.stop_token == eos && info.new_tokens == 5 && k.tokens == 5);
    CHECK(infer_session_position(s) == info.prompt_tokens + 5);
    g.at = 0;
    p = generate_params(&k, 7);
    p.ignore_end = 1;
    CHECK(infer_generate(s, sampler, "A", &p, &info) == INFER_OK);
    CHECK_STR(k.text, "ABCDA");
    CHECK(info.stop_reason == INFER_STOP_LIMIT && info.new_tokens == 7 && k.ids[5] == eos);
    infer_sampler_destroy(sampler);
    infer_session_destroy(s);
    infer_model_close(m);
}

/* ---- callbacks and limits ------------------------------------------------------------------------------------------ */

static void test_generate_callbacks(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    generate_sink k;
    infer_generate_info info;
    infer_generate_params p = generate_params(&k, 50);
    char before[4096];
    k.stop_piece = 6;
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK);
    CHECK(info.stop_reason == INFER_STOP_CALLBACK && k.pieces == 6 && k.tokens == info.new_tokens);
    CHECK(infer_session_position(s) == 5 + info.new_tokens && info.bytes == k.n);
    memcpy(before, k.text, sizeof before);
    /* what comes next is what would have come */
    p = generate_params(&k, 20);
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK);
    strcat(before, k.text);
    CHECK(strncmp(before, generate_story, strlen(before)) == 0 && strlen(before) > 50);
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    p = generate_params(&k, 50);
    k.stop_token = 7;
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK);
    CHECK(info.stop_reason == INFER_STOP_CALLBACK && info.new_tokens == 7 && k.tokens == 7);
    CHECK(infer_session_position(s) == 12);
    infer_session_destroy(s);
    infer_model_close(m);
}

typedef struct generate_logprobs { infer_session *s; int n, bad; float last[512]; } generate_logprobs;

static int generate_check_top(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    generate_logprobs *g = (generate_logprobs *)user;
    int i;
    if (n_top != 5 || top[0].token != token || fabs(logprob - top[0].logprob) > 1e-5) g->bad++;
    for (i = 1; i < n_top; i++) if (top[i].logprob > top[i - 1].logprob) g->bad++;
    if (logprob > 0 || logprob < -6) g->bad++;
    g->n++;
    return 0;
}

static void test_generate_logprobs(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    generate_logprobs g;
    infer_generate_params p;
    infer_sampler *sampler;
    generate_script script;
    generate_sink k;
    infer_top top[3], got[512];
    double sum = 0;
    int i;
    memset(&p, 0, sizeof p);
    memset(&g, 0, sizeof g);
    p.max_tokens = 20;
    p.logprobs = 5;
    p.token = generate_check_top;
    p.user = &g;
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, NULL) == INFER_OK);
    CHECK(g.n == 20 && g.bad == 0);
    /* the probability of an unlikely token, and all of them add up to 1 */
    CHECK(infer_session_top(s, -1, 512, got) == INFER_OK);
    for (i = 0; i < 512; i++) sum += exp(got[i].logprob);
    CHECK(fabs(sum - 1) < 1e-4);
    CHECK(infer_session_top(s, -1, 3, top) == INFER_OK && top[2].token == got[2].token);
    script.n = 1;
    script.ids[0] = got[400].token;
    sampler = generate_script_sampler(m, &script);
    p = generate_params(&k, 1);
    p.logprobs = 100000; /* as many as there are */
    p.text = NULL;
    p.token = generate_token;
    k.bad = 0;
    CHECK(infer_generate(s, sampler, NULL, &p, NULL) == INFER_OK && k.tokens == 1 && k.ids[0] == got[400].token);
    infer_sampler_destroy(sampler);
    infer_session_destroy(s);
    infer_model_close(m);
}

static void test_generate_full(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 16);
    generate_sink k;
    infer_generate_info info;
    infer_generate_params p = generate_params(&k, 0);
    char text[400];
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK);
    CHECK(info.stop_reason == INFER_STOP_FULL && info.new_tokens == 12 && infer_session_position(s) == 16);
    CHECK(strncmp(k.text, generate_story, k.n) == 0);
    CHECK_STR(infer_session_error(s)->message, "");
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens == 0); /* still full */
    CHECK(info.stop_reason == INFER_STOP_FULL);
    /* a prompt that does not fit: nothing is evaluated */
    CHECK(infer_session_rewind(s, 3) == INFER_OK);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    CHECK(infer_generate(s, NULL, text, &p, &info) == INFER_CONTEXT_FULL);
    CHECK(info.stop_reason == INFER_STOP_FULL && info.prompt_tokens == 0 && infer_session_position(s) == 3);
    p.on_full = INFER_FULL_SLIDE; /* sliding cannot help: the prompt alone is larger */
    CHECK(infer_generate(s, NULL, text, &p, &info) == INFER_CONTEXT_FULL && infer_session_position(s) == 3);
    infer_session_destroy(s);
    infer_model_close(m);
}

static void test_generate_slide(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 24), *whole = generate_session(m, 24);
    generate_sink k, k2;
    infer_generate_info info;
    infer_generate_params p = generate_params(&k, 100);
    infer_token first[3], want[24];
    int i, n;
    p.on_full = INFER_FULL_SLIDE;
    p.keep_first = 3;
    p.ignore_end = 1;
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK);
    CHECK(info.stop_reason == INFER_STOP_LIMIT && info.new_tokens == 100 && k.tokens == 100);
    n = infer_session_position(s);
    CHECK(n <= 24 && n > 3);
    /* the first three are those of the prompt, the others the newest, without a gap */
    CHECK(infer_tokenize(m, "Once upon a time", 16, INFER_TEXT_ADD_SPECIAL, first, 3, &(size_t){ 0 }, NULL) == INFER_OK);
    CHECK(memcmp(infer_session_tokens(s), first, sizeof first) == 0);
    CHECK(memcmp(infer_session_tokens(s) + 3, k.ids + 100 - (n - 3), (size_t)(n - 3) * sizeof(infer_token)) == 0);
    /* a session that never slid and holds the same tokens goes on in the same way */
    memcpy(want, infer_session_tokens(s), (size_t)n * sizeof *want);
    CHECK(infer_session_eval(whole, want, n) == INFER_OK);
    p = generate_params(&k, INFER__MAX(1, 24 - n));
    CHECK(infer_generate(s, NULL, NULL, &p, NULL) == INFER_OK);
    p = generate_params(&k2, p.max_tokens);
    CHECK(infer_generate(whole, NULL, NULL, &p, NULL) == INFER_OK);
    CHECK(k.tokens == k2.tokens && memcmp(k.ids, k2.ids, (size_t)k.tokens * sizeof *k.ids) == 0);
    /* a prompt slides too; keeping everything leaves nothing to drop */
    p.on_full = INFER_FULL_SLIDE;
    p.max_tokens = 2;
    CHECK(infer_generate(s, NULL, "One day, a big dog", &p, &info) == INFER_OK);
    CHECK(info.prompt_tokens > 4 && infer_session_position(s) <= 24);
    p.keep_first = 24;
    p.max_tokens = 40;
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK && info.stop_reason == INFER_STOP_FULL);
    for (i = 0; i < 3; i++) { /* whatever is kept, it ends */
        p.keep_first = i * 10;
        p.max_tokens = 30;
        p.ignore_end = 1;
        CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens == 30);
    }
    infer_session_destroy(s);
    infer_session_destroy(whole);
    infer_model_close(m);
}

static void test_generate_cancel(void) {
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    generate_sink k;
    infer_generate_info info;
    infer_generate_params p = generate_params(&k, 40);
    char shown[4096];
    infer_session_cancel(s); /* nothing runs: it is without effect */
    k.cancel = s;
    k.stop_piece = 10;
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_CANCELLED);
    CHECK(info.stop_reason == INFER_STOP_CANCELLED && k.pieces == 10 && k.tokens == info.new_tokens);
    CHECK(infer_session_position(s) == 5 + info.new_tokens); /* what was shown is there, and no more */
    memcpy(shown, k.text, sizeof shown);
    p = generate_params(&k, 20);
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens == 20);
    strcat(shown, k.text);
    CHECK(strncmp(shown, generate_story, strlen(shown)) == 0);
    /* cancelled by the callback of the last token */
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    p = generate_params(&k, 6);
    k.cancel = s;
    k.stop_piece = 6;
    CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_CANCELLED && info.new_tokens == 6);
    p = generate_params(&k, 2);
    CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens == 2); /* the request is used up */
    infer_session_destroy(s);
    infer_model_close(m);
}

/* ---- samplers in sessions --------------------------------------------------------------------------------------------- */

static void test_generate_sampler(void) {
    infer_model *m = generate_model(NULL), *other = generate_model(NULL);
    infer_session *s = generate_session(m, 128);
    infer_sampler *a = NULL, *b = NULL, *free_one = NULL;
    generate_sink k, k2;
    infer_generate_params p;
    infer_stage st;
    infer_token t = -7, t2;
    infer_error err;
    CHECK(infer_sampler_create(&a, m, NULL, 0, 1234, &err) == INFER_OK);
    CHECK(infer_sampler_create(&b, other, NULL, 0, 1234, &err) == INFER_OK);
    CHECK(infer_sampler_create(&free_one, NULL, NULL, 0, 1234, &err) == INFER_OK);
    CHECK(infer_session_sample(s, a, -1, &t) == INFER_ERR_STATE && t == -7);
    CHECK_HAS(infer_session_error(s)->message, "no logits");
    CHECK(infer_session_sample(NULL, a, -1, &t) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_eval(s, (const infer_token[]){ 1, 300 }, 2) == INFER_OK);
    CHECK(infer_session_sample(s, a, 0, &t) == INFER_ERR_STATE); /* only the last row was kept */
    CHECK(infer_session_sample(s, a, -1, NULL) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "token is NULL");
    CHECK(infer_session_sample(s, b, -1, &t) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "another model");
    CHECK(infer_generate(s, b, "x", NULL, NULL) == INFER_ERR_ARGUMENT);
    CHECK(infer_session_sample(s, NULL, -1, &t) == INFER_OK);
    {
        infer_top top[1];
        CHECK(infer_session_top(s, -1, 1, top) == INFER_OK && top[0].token == t);
    }
    CHECK(infer_session_sample(s, a, -1, &t) == INFER_OK && infer_session_sample(s, free_one, -1, &t2) == INFER_OK);
    CHECK(t == t2); /* same seed and logits */
    CHECK(a->n_history == 1 && a->history[0] == t); /* accepted */
    { /* logits that the caller changed */
        float *x = infer_session_logits(s, -1), old = x[5];
        x[5] = 100;
        CHECK(infer_session_sample(s, NULL, -1, &t) == INFER_OK && t == 5);
        x[5] = infer__bits_f32(0x7fc00000u);
        CHECK(infer_session_sample(s, NULL, -1, &t) == INFER_ERR_STATE);
        CHECK_HAS(infer_session_error(s)->message, "logit 5");
        CHECK(infer_session_sample(s, a, -1, &t) == INFER_ERR_STATE);
        x[5] = old;
    }
    /* the same seed gives the same text, reset goes back to it, another seed differs */
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    infer_sampler_reset(a);
    p = generate_params(&k, 40);
    CHECK(infer_generate(s, a, "Once upon a time", &p, NULL) == INFER_OK);
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    infer_sampler_reset(a);
    p = generate_params(&k2, 40);
    CHECK(infer_generate(s, a, "Once upon a time", &p, NULL) == INFER_OK);
    CHECK_STR(k2.text, k.text);
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    p = generate_params(&k2, 40);
    CHECK(infer_generate(s, a, "Once upon a time", &p, NULL) == INFER_OK); /* no reset: the generator has moved on */
    CHECK(strcmp(k2.text, k.text) != 0);
    /* a repetition penalty changes what greedy says */
    memset(&st, 0, sizeof st);
    infer_sampler_destroy(a);
    {
        infer_stage two[2];
        memset(two, 0, sizeof two);
        two[0].kind = INFER_STAGE_PENALTY;
        two[0].p[0] = -1; two[0].p[3] = 20;
        two[1].kind = INFER_STAGE_GREEDY;
        CHECK(infer_sampler_create(&a, m, two, 2, 0, &err) == INFER_OK);
    }
    CHECK(infer_session_rewind(s, 0) == INFER_OK);
    p = generate_params(&k, 40);
    CHECK(infer_generate(s, a, "Once upon a time", &p, NULL) == INFER_OK);
    {
        int i, j, twice = 0;
        for (i = 0; i < k.tokens; i++) for (j = 0; j < i; j++) twice += k.ids[i] == k.ids[j];
        CHECK(twice == 0);
    }
    CHECK(infer_model_close(other) == INFER_OK); /* b uses it */
    infer_sampler_destroy(b);
    infer_sampler_destroy(a);
    infer_sampler_destroy(free_one);
    infer_sampler_destroy(NULL);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void generate_bad(infer_session *s, const infer_generate_params *p, const char *part) {
    infer_generate_info info;
    CHECK(infer_generate(s, NULL, "Once", p, &info) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, part);
    CHECK(infer_session_position(s) == 0 && info.stop_reason == 0 && info.stop_string == -1);
}

static void test_generate_bad(void) {
    static const char *const empty[] = { "a", "" };
    static const char *const null[] = { NULL };
    infer_model *m = generate_model(NULL);
    infer_session *s = generate_session(m, 64);
    infer_generate_params zero, p;
    memset(&zero, 0, sizeof zero);
    CHECK(infer_generate(NULL, NULL, "Once", NULL, NULL) == INFER_ERR_ARGUMENT);
    p = zero; p.max_tokens = -1; generate_bad(s, &p, "max_tokens is -1");
    p = zero; p.logprobs = -1; generate_bad(s, &p, "logprobs is -1");
    p = zero; p.keep_first = -2; generate_bad(s, &p, "keep_first is -2");
    p = zero; p.on_full = 4; generate_bad(s, &p, "on_full 4");
    p = zero; p.text_flags = 8; generate_bad(s, &p, "text_flags: 8");
    p = zero; p.n_stop = 1; generate_bad(s, &p, "stop is NULL");
    p = zero; p.stop = empty; p.n_stop = -1; generate_bad(s, &p, "n_stop is -1");
    p = zero; p.stop = empty; p.n_stop = 2; generate_bad(s, &p, "stop[1] is empty");
    p = zero; p.stop = null; p.n_stop = 1; generate_bad(s, &p, "stop[0] is NULL");
    infer_session_destroy(s);
    infer_model_close(m);
}

/* Every allocation of a generation fails once. */
static void test_generate_memory(void) {
    infer_model_params mp;
    infer_model *m;
    long fail, live = check_live;
    int failures = 0;
    memset(&mp, 0, sizeof mp);
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    check_fail_at = 0;
    m = generate_model(&mp);
    for (fail = 1; fail < 200; fail++) {
        infer_session *s = generate_session(m, 32);
        static const char *const stop[] = { "park" };
        infer_sampler *sampler = NULL;
        generate_sink k;
        infer_generate_params p = generate_params(&k, 60);
        infer_result r;
        int used;
        p.logprobs = 3;
        p.on_full = INFER_FULL_SLIDE;
        p.keep_first = 1;
        p.min_tokens = 2;
        p.stop = stop;
        p.n_stop = 1;
        CHECK(infer_sampler_create(&sampler, m, NULL, 0, 1, NULL) == INFER_OK);
        check_allocs = 0;
        check_fail_at = fail;
        r = infer_generate(s, sampler, "Once upon a time", &p, NULL);
        used = check_allocs >= fail;
        check_fail_at = 0;
        CHECK(r == (used ? INFER_ERR_MEMORY : INFER_OK));
        if (r != INFER_OK) { CHECK_HAS(infer_session_error(s)->message, "memory"); failures++; }
        CHECK(infer_generate(s, sampler, "One", &p, NULL) == INFER_OK); /* it goes on */
        infer_sampler_destroy(sampler);
        infer_session_destroy(s);
        if (!used) break;
    }
    CHECK(failures >= 5 && fail < 200);
    CHECK(infer_model_close(m) == INFER_OK && check_live == live);
}

/* End tokens are not chosen before min_tokens, whatever their logits. */
static void test_generate_min_tokens(void) {
    infer_model *m = generate_model(NULL);
    infer_sampler *sampler = NULL;
    infer_stage chain[1];
    infer_bias bias[1];
    infer_error e;
    int i;
    memset(chain, 0, sizeof chain);
    memset(bias, 0, sizeof bias);
    chain[0].kind = INFER_STAGE_LOGIT_BIAS;
    chain[0].bias = bias;
    chain[0].n = 1;
    bias[0].token = infer_token_special(m, INFER_SPECIAL_EOS);
    bias[0].bias = 1000;
    CHECK(infer_sampler_create(&sampler, m, chain, 1, 1, &e) == INFER_OK);
    for (i = 0; i < 9; i += 2) {
        infer_session *s = generate_session(m, 64);
        generate_sink k;
        infer_generate_params p = generate_params(&k, 20);
        infer_generate_info info;
        p.min_tokens = i;
        p.lookup = i % 4 == 0;
        CHECK(infer_generate(s, sampler, "Once upon a time", &p, &info) == INFER_OK);
        CHECK(info.new_tokens == i && info.stop_reason == INFER_STOP_TOKEN);
        infer_session_destroy(s);
    }
    {
        infer_session *s = generate_session(m, 64);
        generate_sink k;
        infer_generate_params p = generate_params(&k, 20);
        p.min_tokens = -1;
        CHECK(infer_generate(s, sampler, "Once", &p, NULL) == INFER_ERR_ARGUMENT);
        infer_session_destroy(s);
    }
    infer_sampler_destroy(sampler);
    { /* a limit of time */
        infer_session *s = generate_session(m, 64);
        generate_sink k;
        infer_generate_params p = generate_params(&k, 20);
        infer_generate_info info;
        p.seconds = 1e-9;
        CHECK(infer_generate(s, NULL, "Once upon a time", &p, &info) == INFER_OK && info.stop_reason == INFER_STOP_TIME && info.new_tokens == 0);
        p.seconds = 1e6;
        CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_OK && info.stop_reason == INFER_STOP_LIMIT && info.new_tokens == 20);
        p.seconds = -1;
        CHECK(infer_generate(s, NULL, NULL, &p, &info) == INFER_ERR_ARGUMENT);
        infer_session_destroy(s);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_generate(void) {
    RUN(test_generate_story);
    RUN(test_generate_prompts);
    RUN(test_generate_no_vocabulary);
    RUN(test_generate_stop_strings);
    RUN(test_generate_stop_held);
    RUN(test_generate_utf8);
    RUN(test_generate_control);
    RUN(test_generate_callbacks);
    RUN(test_generate_logprobs);
    RUN(test_generate_full);
    RUN(test_generate_slide);
    RUN(test_generate_cancel);
    RUN(test_generate_sampler);
    RUN(test_generate_bad);
    RUN(test_generate_min_tokens);
    RUN(test_generate_memory);
}
