/* test_media_prompt.c: pictures in prompts of generations, conversations and queues: the same as tokens evaluated and sampled
 * by hand; what turns that go take with them; positions that requests share; pictures that are kept; errors. */

static const char *const SHOWN[][2] = { { "gemma3", "gemma3" }, { "qwen2vl", "qwen2vl" }, { "qwen3vl", "qwen3vl" }, { "lfm2", "lfm2" } };
static const char SHOWN_TEMPLATE[] = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]";

typedef struct shown {
    infer_model *m;
    infer_media *media[2];
} shown;
static int shown_begin(shown *w, size_t i) {
    char file[100];
    infer_error e;
    memset(w, 0, sizeof *w);
    check_detail = SHOWN[i][0];
    snprintf(file, sizeof file, "vision/models/%s.gguf", SHOWN[i][1]);
    w->m = seen_open_both(SHOWN[i][0], check_reference(file), &e);
    if (!w->m) check_note(__FILE__, __LINE__, e.message);
    return w->m && seen_load(&w->media[0], w->m, "gradient-64x48", NULL, 1, NULL) && seen_load(&w->media[1], w->m, "rings-64x64", NULL, 1, NULL);
}
static void shown_end(shown *w) {
    CHECK(infer_media_free(w->media[0]) == INFER_OK && infer_media_free(w->media[1]) == INFER_OK);
    CHECK(infer_model_close(w->m) == INFER_OK && check_live == 0);
}
static infer_session *shown_session(infer_model *m, int32_t context) {
    infer_session_params p;
    infer_session *s = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.context = context;
    p.own.kv_type = INFER_KV_F32;
    p.own.threads = 2;
    if (infer_session_create(&s, m, &p, &e) != INFER_OK) check_note(__FILE__, __LINE__, e.message);
    return s;
}
static infer_generate_params shown_params(shown *w, queue_out *o) {
    infer_generate_params g;
    memset(o, 0, sizeof *o);
    memset(&g, 0, sizeof g);
    g.max_tokens = 14;
    g.ignore_end = 1;
    g.media = w->media;
    g.n_media = 2;
    g.token = queue_token;
    g.text = queue_text;
    g.user = o;
    return g;
}
static int shown_same(const queue_out *a, const queue_out *b) {
    return a->n == b->n && a->len == b->len && memcmp(a->tokens, b->tokens, sizeof a->tokens) == 0 && memcmp(a->text, b->text, a->len) == 0;
}

/* The ids of a prompt with media, BOS in front where infer_generate adds it. */
static int32_t shown_ids(const shown *w, const char *prompt, infer_media *const *media, int32_t n_media, infer_token *ids) {
    static infer_token same[2048];
    infer_error e;
    size_t n = 0, begins = 0, n_same = 0;
    CHECK(infer_tokenize(w->m, "", 0, INFER_TEXT_ADD_SPECIAL, ids, 1, &begins, &e) == INFER_OK && begins <= 1);
    if (infer_media_tokens(w->m, prompt, strlen(prompt), 0, media, n_media, ids + begins, 2000, &n, &e) != INFER_OK) check_note(__FILE__, __LINE__, e.message);
    CHECK(infer_media_tokens(w->m, prompt, strlen(prompt), INFER_TEXT_ADD_SPECIAL, media, n_media, same, 2048, &n_same, &e) == INFER_OK);
    CHECK(n_same == begins + n && memcmp(same, ids, n_same * sizeof *same) == 0); /* BOS once */
    return (int32_t)(begins + n);
}

static void test_media_prompt_generate(void) {
    static const char prompt[] = "A <__media__> b<__media__>C";
    static infer_token ids[2048];
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(SHOWN); i++) {
        queue_out hand, got;
        shown w;
        infer_generate_params g;
        infer_generate_info info;
        infer_generation *run = NULL;
        infer_session *s, *t;
        infer_sampler *sampler;
        infer_error e;
        infer_result r;
        const char *text;
        int32_t n, k, pieces = 0;
        size_t bytes;
        if (!shown_begin(&w, i)) return;
        s = shown_session(w.m, 512);
        t = shown_session(w.m, 512);
        n = shown_ids(&w, prompt, w.media, 2, ids);
        /* by hand */
        memset(&hand, 0, sizeof hand);
        sampler = queue_sampler(w.m, 1);
        CHECK(infer_session_media(s, w.media, 2) == INFER_OK && infer_session_eval(s, ids, n) == INFER_OK);
        for (k = 0; k < 14; k++) {
            infer_token token;
            CHECK(infer_session_sample(s, sampler, -1, &token) == INFER_OK && infer_session_eval(s, &token, 1) == INFER_OK);
            hand.tokens[hand.n++] = token;
        }
        infer_sampler_destroy(sampler);
        CHECK(infer_session_media(s, NULL, 0) == INFER_OK);
        for (k = 1; k < hand.n && hand.tokens[k] == hand.tokens[0]; k++) {}
        CHECK(k < hand.n); /* a reply that can differ */
        /* whole */
        g = shown_params(&w, &got);
        sampler = queue_sampler(w.m, 1);
        if (infer_generate(t, sampler, prompt, &g, &info) != INFER_OK) check_note(__FILE__, __LINE__, infer_session_error(t)->message);
        infer_sampler_destroy(sampler);
        CHECK(info.prompt_tokens == n && info.new_tokens == 14 && memcmp(got.tokens, hand.tokens, sizeof hand.tokens) == 0);
        CHECK(infer_session_position(t) == n + 14 && memcmp(infer_session_tokens(t), ids, (size_t)n * sizeof *ids) == 0);
        hand = got;
        /* in slices */
        CHECK(infer_session_rewind(t, 0) == INFER_OK);
        g = shown_params(&w, &got);
        g.text = NULL;
        sampler = queue_sampler(w.m, 1);
        if (infer_generation_begin(&run, t, sampler, prompt, &g, &e) != INFER_OK) check_note(__FILE__, __LINE__, e.message);
        do {
            r = infer_generation_next(run, 0, &text, &bytes);
            queue_text(&got, text, bytes);
            pieces++;
        } while (r == INFER_MORE);
        CHECK(r == INFER_OK && pieces > 14 && shown_same(&got, &hand));
        CHECK(infer_generation_end(run) == INFER_OK);
        infer_sampler_destroy(sampler);
        /* the best of several, the first of which is that */
        {
            infer_sampler *samplers[3];
            infer_best *best = NULL;
            CHECK(infer_session_rewind(t, 0) == INFER_OK);
            g = shown_params(&w, &got);
            g.token = NULL;
            g.text = NULL;
            for (k = 0; k < 3; k++) samplers[k] = queue_sampler(w.m, 1 + 2 * k);
            if (infer_generate_best(t, samplers, 3, prompt, &g, &best) != INFER_OK) check_note(__FILE__, __LINE__, infer_session_error(t)->message);
            CHECK(best && best->replies[0].n_tokens == 14 && memcmp(best->replies[0].tokens, hand.tokens, 14 * sizeof *ids) == 0);
            infer_best_free(best);
            g.n_media = 0; /* after a picture */
            if (infer_generate_best(t, samplers, 3, "and", &g, &best) != INFER_OK) check_note(__FILE__, __LINE__, infer_session_error(t)->message);
            infer_best_free(best);
            for (k = 0; k < 3; k++) infer_sampler_destroy(samplers[k]);
        }
        /* later prompts of the session have media of their own, or none */
        g = shown_params(&w, &got);
        g.n_media = 1;
        CHECK(infer_generate(t, NULL, "and <__media__>?", &g, &info) == INFER_OK && got.n == 14);
        g.n_media = 0;
        g.max_tokens = 2;
        CHECK(infer_generate(t, NULL, "<__media__>", &g, &info) == INFER_OK); /* a text like others */
        /* refused; the session is as it was */
        n = infer_session_position(t);
        g = shown_params(&w, &got);
        g.n_media = 1;
        CHECK(infer_generate(t, NULL, prompt, &g, NULL) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(t)->message, "the prompt has 2 markers (<__media__>) for 1 pictures and sounds");
        g.n_media = 2;
        CHECK(infer_generate(t, NULL, NULL, &g, NULL) == INFER_ERR_ARGUMENT && infer_generate(t, NULL, "<__media__>", &g, NULL) == INFER_ERR_ARGUMENT);
        CHECK(infer_generation_begin(&run, t, NULL, "<__media__>", &g, &e) == INFER_ERR_ARGUMENT || !run);
        g.media = NULL;
        CHECK(infer_generate(t, NULL, prompt, &g, NULL) == INFER_ERR_ARGUMENT);
        g.n_media = -1;
        CHECK(infer_generate(t, NULL, prompt, &g, NULL) == INFER_ERR_ARGUMENT);
        CHECK(infer_session_position(t) == n && got.n == 0);
        CHECK(infer_session_destroy(s) == INFER_OK && infer_session_destroy(t) == INFER_OK);
        shown_end(&w);
        if (check_bad) return;
    }
}

/* What a conversation gives; the session's tokens stay in it. */
static int32_t shown_chat(infer_session *s, infer_chat_params *c, char *reply, size_t cap, infer_generate_info *info) {
    infer_generate_params g;
    infer_chat_parser *parser = NULL;
    infer_result r;
    memset(&g, 0, sizeof g);
    g.max_tokens = 10;
    g.ignore_end = 1;
    c->template_text = SHOWN_TEMPLATE;
    r = infer_chat(s, NULL, c, &g, &parser, info);
    snprintf(reply, cap, "%s", parser ? infer_chat_parser_reply(parser)->content : "");
    infer_chat_parser_destroy(parser);
    return (int32_t)r;
}

static void test_media_prompt_chat(void) {
    static const char whole[] = "[system]S[user]A <__media__>b[assistant]x[user]<__media__> c[assistant]";
    static const char json[] = "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"A \"}, {\"type\": \"image_url\", \"image_url\": "
                               "{\"url\": \"x\"}}, {\"type\": \"text\", \"text\": \"b\"}]}, {\"role\": \"assistant\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"<__media__> c\"}]";
    static infer_token ids[2048];
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(SHOWN); i++) {
        const infer_chat_part parts[] = { { INFER_CHAT_PART_TEXT, "A ", 0 }, { INFER_CHAT_PART_MEDIA, NULL, 0 }, { INFER_CHAT_PART_TEXT, "b!", 1 } };
        infer_chat_message messages[4];
        infer_chat_params c;
        infer_generate_params g;
        infer_generate_info info;
        infer_chat_parser *parser;
        infer_session *s;
        infer_error e;
        shown w;
        char first[400], then[400];
        size_t count;
        int32_t n;
        if (!shown_begin(&w, i)) return;
        s = shown_session(w.m, 512);
        n = shown_ids(&w, whole, w.media, 2, ids);
        memset(messages, 0, sizeof messages);
        memset(&c, 0, sizeof c);
        messages[0].role = "system", messages[0].content = "S";
        messages[1].role = "user", messages[1].parts = parts, messages[1].n_parts = 3;
        messages[2].role = "assistant", messages[2].content = "x";
        messages[3].role = "user", messages[3].content = "<__media__> c";
        c.messages = messages;
        c.n_messages = 4;
        c.media = w.media;
        c.n_media = 2;
        if (shown_chat(s, &c, first, sizeof first, &info) != INFER_OK) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
        CHECK(info.prompt_tokens == n && infer_session_position(s) == n + 10 && memcmp(infer_session_tokens(s), ids, (size_t)n * sizeof *ids) == 0);
        CHECK(infer_chat_format(w.m, &c, NULL, 0, &count, &e) == INFER_OK && count == (size_t)n);
        c.messages = NULL;
        c.n_messages = 0;
        c.messages_json = json;
        CHECK(infer_session_rewind(s, 0) == INFER_OK);
        CHECK(shown_chat(s, &c, then, sizeof then, &info) == INFER_OK && info.prompt_tokens == n && strcmp(first, then) == 0);
        CHECK(memcmp(infer_session_tokens(s), ids, (size_t)n * sizeof *ids) == 0);
        /* refused */
        c.n_media = 1;
        CHECK(shown_chat(s, &c, then, sizeof then, &info) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(s)->message, "2 markers");
        c.messages_json = NULL;
        c.messages = messages;
        c.n_messages = 4;
        c.n_media = 0;
        CHECK(shown_chat(s, &c, then, sizeof then, &info) == INFER_ERR_ARGUMENT);
        CHECK_HAS(infer_session_error(s)->message, "messages[1]: parts[1] is a picture or sound, and n_media is 0");
        c.n_media = 2;
        memset(&g, 0, sizeof g);
        g.media = w.media;
        g.n_media = 2;
        CHECK(infer_chat(s, NULL, &c, &g, &parser, NULL) == INFER_ERR_ARGUMENT && !parser);
        CHECK_HAS(infer_session_error(s)->message, "generate: n_media must be 0");
        CHECK(infer_session_destroy(s) == INFER_OK);
        shown_end(&w);
        if (check_bad) return;
    }
}

/* Turns that are dropped take their pictures with them. */
static void test_media_prompt_drop(void) {
    static const char rest[] = "[system]S[user]<__media__>and this[assistant]yes[user]so?[assistant]";
    static infer_token ids[2048];
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(SHOWN); i++) {
        infer_chat_message m[6];
        infer_chat_params c;
        infer_generate_info info;
        infer_session *s;
        shown w;
        char reply[400];
        int32_t n;
        if (!shown_begin(&w, i)) return;
        n = shown_ids(&w, rest, w.media + 1, 1, ids);
        s = shown_session(w.m, n + 20); /* and not 16 more for the first picture, with its text */
        memset(m, 0, sizeof m);
        memset(&c, 0, sizeof c);
        m[0].role = "system", m[0].content = "S";
        m[1].role = m[3].role = m[5].role = "user";
        m[2].role = m[4].role = "assistant";
        m[1].content = "<__media__> this is a picture, and a text of some length";
        m[2].content = "no";
        m[3].content = "<__media__>and this";
        m[4].content = "yes";
        m[5].content = "so?";
        c.messages = m;
        c.n_messages = 6;
        c.media = w.media;
        c.n_media = 2;
        c.room = 12;
        CHECK(shown_chat(s, &c, reply, sizeof reply, &info) == INFER_CONTEXT_FULL);
        c.on_full = INFER_CHAT_FULL_DROP;
        if (shown_chat(s, &c, reply, sizeof reply, &info) != INFER_OK) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
        CHECK(info.dropped == 2 && info.prompt_tokens == n && memcmp(infer_session_tokens(s), ids, (size_t)n * sizeof *ids) == 0);
        CHECK(infer_session_destroy(s) == INFER_OK);
        shown_end(&w);
        if (check_bad) return;
    }
}

enum { SHOWN_REQUESTS = 8 };
/* Requests that begin with a picture, each as alone; what a request before them evaluated is not evaluated again. */
static void test_media_prompt_queue(void) {
    static const queue_way WAYS[] = { { 8, 0, 0, 0, 0, 0, 0 }, { 3, 16, 0, 4, 0, 0, 0 }, { 2, 1, 0, 0, 0, 0, 0 }, { 8, 20, 0, 0, 0, 1, 0 } };
    static const char begins[] = "What does this show: <__media__>";
    static queue_out alone[SHOWN_REQUESTS], got[SHOWN_REQUESTS];
    size_t i, k;
    int32_t j;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(SHOWN); i++) {
        static infer_token ids[2048];
        shown w;
        infer_generate_params g;
        infer_session *s;
        char prompt[SHOWN_REQUESTS][80];
        int32_t shared;
        if (!shown_begin(&w, i)) return;
        shared = shown_ids(&w, begins, w.media, 1, ids);
        s = shown_session(w.m, 512);
        for (j = 0; j < SHOWN_REQUESTS; j++) {
            infer_sampler *sampler = queue_sampler(w.m, j);
            snprintf(prompt[j], sizeof prompt[j], "%s%c%s", begins, 'A' + j, j % 3 == 2 ? " or this <__media__>?" : "?");
            g = shown_params(&w, &alone[j]);
            g.n_media = j % 3 == 2 ? 2 : 1;
            CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_generate(s, sampler, prompt[j], &g, NULL) == INFER_OK);
            infer_sampler_destroy(sampler);
        }
        CHECK(infer_session_destroy(s) == INFER_OK);
        for (k = 0; k < INFER__COUNT(WAYS); k++) {
            infer_queue *q = queue_open(w.m, &WAYS[k]);
            infer_request *requests[SHOWN_REQUESTS] = { NULL };
            infer_sampler *samplers[SHOWN_REQUESTS];
            infer_request_params rp;
            infer_request_info info;
            infer_error e;
            for (j = 0; j < SHOWN_REQUESTS; j++) {
                samplers[j] = queue_sampler(w.m, j);
                memset(&rp, 0, sizeof rp);
                rp.prompt = prompt[j];
                rp.sampler = samplers[j];
                rp.generate = shown_params(&w, &got[j]);
                rp.generate.n_media = j % 3 == 2 ? 2 : 1;
                if (infer_queue_submit(q, &rp, &requests[j], &e) != INFER_OK) check_note(__FILE__, __LINE__, e.message);
                if (j == 0) CHECK(infer_request_wait(requests[0]) == INFER_OK);
            }
            for (j = 0; j < SHOWN_REQUESTS; j++) {
                if (infer_request_wait(requests[j]) != INFER_OK) check_note(__FILE__, __LINE__, infer_request_error(requests[j])->message);
                CHECK(infer_request_get_info(requests[j], &info) == INFER_OK && shown_same(&got[j], &alone[j]));
                if (j > 0 && strcmp(SHOWN[i][0], "lfm2") != 0 && WAYS[k].slots == 8) CHECK(info.reused >= shared);
                infer_request_close(requests[j]);
                infer_sampler_destroy(samplers[j]);
            }
            /* a conversation, and tokens; numbers that differ */
            memset(&rp, 0, sizeof rp);
            rp.prompt = begins;
            rp.generate = shown_params(&w, &got[0]);
            CHECK(infer_queue_submit(q, &rp, &requests[0], &e) == INFER_ERR_ARGUMENT);
            CHECK_HAS(e.message, "1 markers");
            rp.generate.n_media = -1;
            CHECK(infer_queue_submit(q, &rp, &requests[0], &e) == INFER_ERR_ARGUMENT);
            rp.prompt = NULL;
            rp.tokens = ids;
            rp.n_tokens = shared;
            rp.generate.n_media = 0;
            CHECK(infer_queue_submit(q, &rp, &requests[0], &e) == INFER_ERR_ARGUMENT);
            rp.generate.n_media = 1;
            CHECK(infer_queue_submit(q, &rp, &requests[0], &e) == INFER_OK && infer_request_wait(requests[0]) == INFER_OK && got[0].n == 14);
            infer_request_close(requests[0]);
            CHECK(infer_queue_destroy(q) == INFER_OK);
        }
        shown_end(&w);
        if (check_bad) return;
    }
}

static int shown_count(void *user, float done) {
    int *n = (int *)user;
    (void)done;
    return ++*n == -1000; /* which a count below that begins at cancels */
}

/* Kept pictures: the same one twice is the same, and encoded once. */
static void test_media_prompt_kept(void) {
    static const int32_t KEPT[] = { 0, -1, 1, 16 };
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    for (i = 0; i < INFER__COUNT(KEPT); i++) {
        infer_model_params p;
        infer_encode_params how;
        infer_model *m = NULL;
        infer_media *a = NULL, *b = NULL;
        infer_token x[300], y[300];
        infer_error e;
        size_t n_x = 0, n_y = 0;
        int calls = 0, first;
        memset(&p, 0, sizeof p);
        memset(&how, 0, sizeof how);
        p.allocator.alloc = check_alloc;
        p.allocator.free = check_free;
        p.projector = check_reference("vision/models/qwen2vl.gguf");
        p.media_kept = KEPT[i];
        if (infer_model_open(&m, check_reference("vision/text/qwen2vl.gguf"), &p, &e) != INFER_OK) {
            check_note(__FILE__, __LINE__, e.message);
            return;
        }
        how.progress = shown_count;
        how.progress_user = &calls;
        CHECK(seen_load(&a, m, "gradient-64x48", NULL, 1, &how) && calls > 0);
        first = calls;
        calls = 0;
        CHECK(seen_load(&b, m, "gradient-64x48", NULL, 1, &how) && calls == 0 && a == b); /* in use: found however few are kept */
        CHECK(infer_media_tokens(m, "<__media__>", 11, 0, &a, 1, x, 300, &n_x, &e) == INFER_OK && n_x < 300);
        CHECK(infer_media_free(a) == INFER_OK && infer_media_free(b) == INFER_OK);
        calls = 0;
        CHECK(seen_load(&a, m, "gradient-64x48", NULL, 1, &how) && calls == (KEPT[i] < 0 ? first : 0)); /* freed */
        CHECK(infer_media_tokens(m, "<__media__>", 11, 0, &a, 1, y, 300, &n_y, &e) == INFER_OK && n_x == n_y && memcmp(x, y, n_x * sizeof *x) == 0);
        CHECK(infer_media_free(a) == INFER_OK);
        CHECK(seen_load(&b, m, "rings-64x64", NULL, 1, &how) && infer_media_free(b) == INFER_OK);
        calls = 0;
        CHECK(seen_load(&a, m, "gradient-64x48", NULL, 1, &how) && (calls == 0) == (KEPT[i] == 0 || KEPT[i] == 16)); /* displaced */
        CHECK(infer_media_free(a) == INFER_OK && seen_load(&a, m, "text-200x120", NULL, 1, &how));
        how.max_tokens = infer_media_positions(a, NULL) / 2;
        calls = 0;
        CHECK(seen_load(&b, m, "text-200x120", NULL, 1, &how) && calls > 0 && infer_media_positions(b, NULL) <= how.max_tokens + 2); /* another size */
        CHECK(infer_media_free(a) == INFER_OK && infer_media_free(b) == INFER_OK);
        CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
        p.projector = check_reference("vision/models/qwen2vl.gguf");
        p.media_kept = KEPT[i] == 16 ? 17 : -2;
        CHECK(infer_model_open(&m, check_reference("vision/text/qwen2vl.gguf"), &p, &e) == INFER_ERR_ARGUMENT && !m);
        CHECK_HAS(e.message, "media_kept");
    }
}

typedef struct shown_nested { infer_model *m; const infer_image *image, *kept; int32_t refused, found; } shown_nested;
/* Another thread gets what is kept while this one encodes. */
static void shown_other(void *arg) {
    shown_nested *x = (shown_nested *)arg;
    infer_media *a = NULL;
    x->found += infer_media_encode(&a, x->m, x->kept, 1, NULL, NULL) == INFER_OK && infer_media_free(a) == INFER_OK;
}
static int shown_again(void *user, float done) {
    shown_nested *x = (shown_nested *)user;
    infer_media *a = NULL;
    infer__thread thread;
    (void)done;
    if (x->refused == 0 && infer__thread_start(&thread, shown_other, x)) {
        infer__thread_join(&thread);
        CHECK(x->found == 1);
    }
    x->refused += infer_media_encode(&a, x->m, x->image, 1, NULL, NULL) == INFER_ERR_STATE && !a;
    return 0;
}

/* In slices: the projector's path is copied. */
static void test_media_prompt_slices(void) {
    infer_loading *x = NULL;
    infer_model *m = NULL;
    infer_model_params p;
    infer_model_info info;
    infer_error e;
    infer_result r;
    char path[1024];
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    memset(&p, 0, sizeof p);
    snprintf(path, sizeof path, "%s", check_reference("vision/models/qwen2vl.gguf"));
    p.projector = path;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    CHECK(infer_model_open_begin(&x, check_reference("vision/text/qwen2vl.gguf"), &p, &e) == INFER_OK);
    memset(path, 'x', sizeof path - 1);
    while ((r = infer_loading_step(x, 1, &e)) == INFER_MORE) {}
    CHECK(r == INFER_OK && infer_loading_end(x, &m) == INFER_OK && m);
    CHECK(infer_model_get_info(m, &info) == INFER_OK && info.images == 1);
    CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
}

/* Cancelled, and then not; by its own callback; without a projector, or with one of another width. */
static void test_media_prompt_refused(void) {
    uint8_t rgb[48] = { 9 }, first[48];
    infer_image image, kept;
    infer_sound sound;
    infer_encode_params how;
    infer_media *a = NULL;
    infer_error e;
    shown w;
    shown_nested nested = { NULL, NULL, NULL, 0, 0 };
    int calls = -1001;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    if (!shown_begin(&w, 0)) return;
    memset(&image, 0, sizeof image);
    memset(&sound, 0, sizeof sound);
    memset(&how, 0, sizeof how);
    image.width = image.height = 4;
    image.rgb = rgb;
    how.progress = shown_count;
    how.progress_user = &calls;
    CHECK(infer_media_encode(&a, w.m, &image, 1, &how, &e) == INFER_CANCELLED && !a);
    CHECK(infer_media_encode(&a, w.m, &image, 1, &how, &e) == INFER_OK && a && infer_media_free(a) == INFER_OK);
    nested.m = w.m;
    nested.image = &image;
    memcpy(first, rgb, sizeof first);
    kept = image;
    kept.rgb = first;
    nested.kept = &kept;
    rgb[0]++; /* another one */
    how.progress = shown_again;
    how.progress_user = &nested;
    CHECK(infer_media_encode(&a, w.m, &image, 1, &how, &e) == INFER_OK && nested.refused > 0 && infer_media_free(a) == INFER_OK);
    how.reserved[1] = 1;
    CHECK(infer_media_encode(&a, w.m, &image, 1, &how, &e) == INFER_ERR_ARGUMENT && !a);
    image.width = 0;
    CHECK(infer_media_encode(&a, w.m, &image, 1, NULL, &e) == INFER_ERR_ARGUMENT && !a);
    CHECK(infer_media_encode_sound(&a, w.m, &sound, NULL, &e) == INFER_ERR_UNSUPPORTED || infer_media_encode_sound(&a, w.m, &sound, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(!a && infer_media_encode(&a, w.m, NULL, 1, NULL, &e) == INFER_ERR_ARGUMENT && infer_media_encode(&a, w.m, &image, 0, NULL, &e) == INFER_ERR_ARGUMENT);
    shown_end(&w);
    w.m = seen_open_both("llama128", check_reference("vision/models/gemma3.gguf"), &e);
    CHECK(!w.m);
    CHECK_HAS(e.message, "the projector makes embeddings of 64 values, the text model needs 128");
    w.m = seen_open_both("gemma3", NULL, &e);
    image.width = 4;
    CHECK(w.m && infer_media_encode(&a, w.m, &image, 1, NULL, &e) == INFER_ERR_UNSUPPORTED && !a);
    CHECK_HAS(e.message, "no projector");
    CHECK(infer_model_close(w.m) == INFER_OK && check_live == 0);
}

static void suite_media_prompt(void) {
    RUN(test_media_prompt_generate);
    RUN(test_media_prompt_chat);
    RUN(test_media_prompt_drop);
    RUN(test_media_prompt_queue);
    RUN(test_media_prompt_kept);
    RUN(test_media_prompt_slices);
    RUN(test_media_prompt_refused);
}
