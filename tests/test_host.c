/* test_host.c: the library inside of somebody's program: calls from callbacks, cancels that come too late. What the
 * system does meanwhile is in test_host_system.c. */

#if !defined(_WIN32) && !defined(__wasi__)
#  include <sys/stat.h>
#  include <sys/time.h>
#  include <sys/types.h>
#  include <sys/wait.h>
#  include <dirent.h>
#  include <signal.h>
#  include <unistd.h>
#  define HOST_POSIX 1
#  if !defined(INFER_NO_THREADS)
#    include <pthread.h>
#    define HOST_THREADS 1
#  endif
#endif
#if defined(__SANITIZE_THREAD__)
#  define HOST_TSAN 1
#elif defined(__has_feature)
#  if __has_feature(thread_sanitizer)
#    define HOST_TSAN 1
#  endif
#endif

#define HOST_STORY "models/stories260K.F32.gguf"
enum { HOST_IDS = 40, HOST_VOCAB = 512 };

/* ---- calls from callbacks ----------------------------------------------------------------------------------------- */

/* What a running call has claimed, and what a call needs for itself. */
enum { HOST_SESSION = 1, HOST_CONTEXT = 2, HOST_SAMPLER = 4, HOST_GRAMMAR = 8, HOST_MODEL = 16, HOST_ALWAYS = 32, HOST_WEIGHTS = 64, HOST_BESIDE = 128 };

typedef struct host_world {
    infer_model *m;
    infer_context *c;
    infer_session *s, *other; /* of c */
    infer_sampler *sampler;   /* custom stage, grammar */
    infer_grammar *g;
    int held;                 /* by the call that runs; 0 = callbacks do nothing */
    int inside;               /* a callback is calling back */
    int callbacks;            /* that have called back */
    int left;                 /* callbacks that still may */
    const char *where;
    char text[4000];
    size_t n_text;
    state_bytes state;
} host_world;

static host_world *host_now; /* for callbacks whose user pointer is taken */
static infer_token host_ids[HOST_IDS];

static int host_count_text(void *user, const char *text, size_t n) {
    (void)user; (void)text; (void)n;
    CHECK(0); /* a refused call shows nothing */
    return 0;
}

static int host_eval(host_world *w) { return infer_session_eval(w->s, host_ids, 3); }
static int host_steps(host_world *w) {
    infer_step st[2];
    memset(st, 0, sizeof st);
    st[0].session = w->other;
    st[1].session = w->s;
    st[0].tokens = st[1].tokens = host_ids;
    st[0].n = st[1].n = 2;
    return infer_eval(w->c, st, 2, NULL);
}
static int host_eval_other(host_world *w) { return infer_session_eval(w->other, host_ids, 2); }
static int host_generate(host_world *w) {
    infer_generate_params p;
    memset(&p, 0, sizeof p);
    p.max_tokens = 3;
    p.text = host_count_text;
    return infer_generate(w->s, NULL, "One day", &p, NULL);
}
static int host_chat(host_world *w) {
    infer_chat_params p;
    infer_chat_parser *reply = NULL;
    int r;
    memset(&p, 0, sizeof p);
    p.messages_json = CA_ONCE;
    p.template_text = CA_TEMPLATE;
    r = infer_chat(w->s, NULL, &p, NULL, &reply, NULL);
    CHECK(reply == NULL);
    return r;
}
static int host_sync(host_world *w) { return infer_session_sync(w->s, host_ids, 2, NULL); }
static int host_rewind(host_world *w) { return infer_session_rewind(w->s, 0); }
static int host_fork(host_world *w) {
    infer_session *t = w->s;
    infer_error err;
    int r = infer_session_fork(&t, w->s, &err);
    CHECK(r == INFER_OK || (t == NULL && err.code == INFER_ERR_STATE && err.message[0]));
    return r;
}
static int host_save(host_world *w) {
    state_bytes b;
    int r;
    memset(&b, 0, sizeof b);
    r = infer_session_save(w->s, state_write, &b);
    CHECK(b.n == 0);
    return r;
}
static int host_load(host_world *w) { return infer_session_load(w->s, state_read, &w->state); }
static int host_save_more(host_world *w) {
    infer_session_mark mark;
    state_bytes b;
    int r;
    memset(&b, 0, sizeof b);
    memset(&mark, 0, sizeof mark);
    r = infer_session_save_more(w->s, &mark, state_write, &b);
    CHECK(b.n == 0 && mark.bytes == 0);
    return r;
}
static int host_load_more(host_world *w) {
    infer_session_mark mark;
    return infer_session_load_more(w->s, &mark, state_read, &w->state);
}
static int host_best(host_world *w) {
    infer_sampler *none[2] = { NULL, NULL };
    infer_generate_params p;
    infer_best *best = (infer_best *)w;
    int r;
    memset(&p, 0, sizeof p);
    p.max_tokens = 2;
    p.text = host_count_text;
    r = infer_generate_best(w->s, none, 2, "One day", &p, &best);
    CHECK(best == NULL);
    return r;
}
static int host_score(host_world *w) {
    float x[2] = { 7, 7 };
    int r = infer_session_score(w->s, host_ids, 2, 0, x, NULL);
    CHECK(x[0] == 7 && x[1] == 7);
    return r;
}
static int host_begin(host_world *w) {
    infer_generation *x = (infer_generation *)w;
    infer_generate_params p;
    infer_error err;
    int r;
    memset(&p, 0, sizeof p);
    p.max_tokens = 2;
    r = infer_generation_begin(&x, w->s, NULL, "One day", &p, &err);
    CHECK(x == NULL && err.code == r);
    return r;
}
static int host_begin_other(host_world *w) { /* with the session as the one that drafts, or as the negative prompt */
    infer_generation *x = NULL;
    infer_generate_params p;
    int r;
    memset(&p, 0, sizeof p);
    p.negative = w->s;
    r = infer_generation_begin(&x, w->other, NULL, "One day", &p, NULL);
    p.negative = NULL;
    p.draft = w->s;
    CHECK(infer_generation_begin(&x, w->other, NULL, "One day", &p, NULL) == r && x == NULL);
    return r;
}
static int host_set_adapters(host_world *w) { return infer_session_set_adapters(w->s, NULL, 0); }
static int host_set_adapters_all(host_world *w) { return infer_context_set_adapters(w->c, NULL, 0, NULL); }
static int host_embed(host_world *w) {
    static const char *const texts[] = { "One day" };
    float x[64] = { 7 };
    int r = infer_embed(w->c, texts, 1, NULL, x, NULL);
    CHECK(infer_embed_width(w->m, NULL) == 64 && x[0] == 7);
    return r;
}
static int host_embed_begin(host_world *w) {
    static const char *const texts[] = { "One day" };
    infer_embedding *x = (infer_embedding *)w;
    float y[64];
    int r = infer_embed_begin(&x, w->c, texts, 1, NULL, y, NULL);
    CHECK(x == NULL);
    return r;
}
static int host_slice(host_world *w) {
    infer_step st;
    memset(&st, 0, sizeof st);
    st.session = w->other;
    st.tokens = host_ids;
    st.n = 2;
    return infer_eval_slice(w->c, &st, 1, 0, NULL);
}
static int host_merge(host_world *w) { return infer_model_merge(w->m, NULL, 0, NULL, NULL); }
static int host_unmerge(host_world *w) { return infer_model_unmerge(w->m, NULL); }
static int host_offload(host_world *w) { return infer_model_offload(w->m, NULL); }
static int host_sample(host_world *w) {
    infer_token t = -5;
    int r = infer_session_sample(w->s, NULL, -1, &t);
    CHECK(t == -5);
    return r;
}
static int host_create(host_world *w) {
    infer_session *t = w->s;
    infer_error err;
    int r = infer_session_create_in(&t, w->c, NULL, &err);
    CHECK(t == NULL && err.code == r);
    return r;
}
static int host_sampler_reset(host_world *w) { return infer_sampler_reset(w->sampler); }
static int host_sampler_accept(host_world *w) { return infer_sampler_accept(w->sampler, 5); }
static int host_sampler_sample(host_world *w) {
    static const float x[HOST_VOCAB];
    infer_token t;
    return infer_sampler_sample(w->sampler, x, HOST_VOCAB, &t, NULL);
}
static int host_generate_other(host_world *w) { /* another session, the same sampler */
    infer_generate_params p;
    memset(&p, 0, sizeof p);
    p.max_tokens = 1;
    return infer_generate(w->other, w->sampler, "x", &p, NULL);
}
static int host_grammar_check(host_world *w) { return infer_grammar_check(w->g, "a", 1, NULL, NULL, NULL); }
static int host_logits(host_world *w) {
    return infer_session_logits(w->s, -1) || infer_session_hidden(w->s, -1) ? INFER_OK : INFER_ERR_STATE;
}
static int host_top(host_world *w) {
    infer_top top[2];
    return infer_session_top(w->s, -1, 2, top);
}

/* What may be asked at any time. */
static int host_read(host_world *w) {
    infer_stats stats;
    infer_memory memory;
    infer_token ids[20];
    int32_t count;
    size_t n = 0;
    CHECK(infer_session_position(w->s) >= 0 && infer_session_capacity(w->s) == 256 && infer_session_tokens(w->s));
    CHECK(infer_session_stats(w->s, &stats) == INFER_OK && infer_session_error(w->s) != NULL);
    CHECK(infer_session_profile(w->s, NULL, 0, &count) == INFER_OK);
    CHECK(infer_context_memory(w->c, &memory) == INFER_OK && memory.weights > 0);
    CHECK(infer_tokenize(w->m, "Once upon", 9, 0, ids, 20, &n, NULL) == INFER_OK && n > 0);
    CHECK(infer_detokenize(w->m, ids, n, 0, NULL, 0, &n, NULL) == INFER_OK);
    CHECK(infer_token_flags(w->m, 5) != 0);
    CHECK(infer_model_reload(w->m, NULL) == INFER_OK); /* the weights are there: nothing happens */
    return INFER_OK;
}

static const struct { const char *name; int (*call)(host_world *w); int needs; } HOST_CALLS[] = {
    { "infer_session_eval", host_eval, HOST_SESSION | HOST_CONTEXT },
    { "infer_eval", host_steps, HOST_SESSION | HOST_CONTEXT },
    { "infer_session_eval of another session", host_eval_other, HOST_CONTEXT },
    { "infer_generate", host_generate, HOST_SESSION },
    { "infer_chat", host_chat, HOST_SESSION },
    { "infer_session_sync", host_sync, HOST_SESSION },
    { "infer_session_rewind", host_rewind, HOST_SESSION },
    { "infer_session_fork", host_fork, HOST_SESSION },
    { "infer_session_save", host_save, HOST_SESSION },
    { "infer_session_load", host_load, HOST_SESSION },
    { "infer_session_save_more", host_save_more, HOST_SESSION },
    { "infer_session_load_more", host_load_more, HOST_SESSION },
    { "infer_generate_best", host_best, HOST_SESSION },
    { "infer_session_score", host_score, HOST_SESSION },
    { "infer_generation_begin", host_begin, HOST_SESSION },
    { "infer_generation_begin of another session with it", host_begin_other, HOST_BESIDE },
    { "infer_session_set_adapters", host_set_adapters, HOST_SESSION },
    { "infer_session_sample", host_sample, HOST_SESSION },
    { "infer_session_create_in", host_create, HOST_CONTEXT },
    { "infer_sampler_reset", host_sampler_reset, HOST_SAMPLER },
    { "infer_sampler_accept", host_sampler_accept, HOST_SAMPLER },
    { "infer_sampler_sample", host_sampler_sample, HOST_SAMPLER },
    { "infer_generate with the sampler", host_generate_other, HOST_SAMPLER },
    { "infer_grammar_check", host_grammar_check, HOST_GRAMMAR },
    { "infer_context_set_adapters", host_set_adapters_all, HOST_CONTEXT },
    { "infer_embed", host_embed, HOST_CONTEXT },
    { "infer_embed_begin", host_embed_begin, HOST_CONTEXT },
    { "infer_eval_slice of another session", host_slice, HOST_CONTEXT },
    { "infer_model_merge", host_merge, HOST_ALWAYS },
    { "infer_model_unmerge", host_unmerge, HOST_ALWAYS },
    { "infer_model_offload", host_offload, HOST_WEIGHTS },
    { "infer_session_logits", host_logits, HOST_CONTEXT },
    { "infer_session_top", host_top, HOST_CONTEXT } };

/* In a callback: everything that the running call's claims refuse is refused, and says so; what may be asked is told. */
static void host_call_back(host_world *w, const char *where) {
    size_t i;
    char detail[100];
    if (!w || !w->held || w->inside || w->left <= 0) return;
    w->inside = 1;
    w->left--;
    w->callbacks++;
    w->where = where;
    for (i = 0; i < sizeof HOST_CALLS / sizeof *HOST_CALLS; i++) {
        int needs = HOST_CALLS[i].needs, r;
        if (!(needs & (w->held | HOST_ALWAYS))) continue;
        snprintf(detail, sizeof detail, "%s from %s", HOST_CALLS[i].name, where);
        check_detail = detail;
        r = HOST_CALLS[i].call(w);
        CHECK(r == INFER_ERR_STATE);
        if (needs & w->held & HOST_SESSION) { /* its own error says so, too */
            CHECK(infer_session_error(w->s)->code == INFER_ERR_STATE);
            CHECK_HAS(infer_session_error(w->s)->message, "another call");
        }
    }
    check_detail = where;
    CHECK(host_read(w) == INFER_OK);
    w->inside = 0;
    check_detail = "";
}

static int host_progress(void *user, float done) { (void)done; host_call_back((host_world *)user, "progress"); return 0; }
static void host_trace(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols) {
    (void)layer; (void)step; (void)x; (void)rows; (void)cols;
    host_call_back((host_world *)user, "trace");
}
static void host_parallel(void *user, int n, void (*task)(void *arg, int i), void *arg) {
    int i;
    (void)user;
    for (i = 0; i < n; i++) task(arg, i);
    host_call_back(host_now, "parallel");
}
static void *host_alloc(void *user, size_t size, size_t align) {
    void *p = check_alloc(user, size, align);
    host_call_back(host_now, "alloc");
    return p;
}
static void host_free(void *user, void *p, size_t size) {
    host_call_back(host_now, "free");
    check_free(user, p, size);
}
static int host_text(void *user, const char *text, size_t n) {
    host_world *w = (host_world *)user;
    if (w->n_text + n < sizeof w->text) memcpy(w->text + w->n_text, text, n);
    w->n_text += n;
    host_call_back(w, "text");
    return 0;
}
static int host_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    (void)token; (void)logprob; (void)top; (void)n_top;
    host_call_back((host_world *)user, "token");
    return 0;
}
static int host_delta(void *user, const infer_chat_delta *d) {
    host_world *w = (host_world *)user;
    if (w->n_text + d->n < sizeof w->text) memcpy(w->text + w->n_text, d->text, d->n);
    w->n_text += d->n;
    host_call_back(w, "chat fn");
    return 0;
}
static int32_t host_stage(void *user, infer_candidate *c, int32_t n) {
    host_world *w = host_now;
    int held = w ? w->held : 0;
    (void)user; (void)c;
    if (held) w->held |= HOST_GRAMMAR;
    host_call_back(w, "custom stage");
    if (w) w->held = held;
    return n;
}
static size_t host_write(void *user, const void *data, size_t n) {
    host_world *w = (host_world *)user;
    host_call_back(w, "write");
    return state_write(&w->state, data, n);
}
static size_t host_read_state(void *user, void *data, size_t n) {
    host_world *w = (host_world *)user;
    host_call_back(w, "read");
    return state_read(&w->state, data, n);
}

static void host_open(host_world *w, int own_memory, int own_threads, int trace) {
    infer_model_params p;
    infer_context_params cp;
    infer_session_params sp;
    infer_grammar_params gp;
    infer_stage st[3];
    infer_error err;
    memset(w, 0, sizeof *w);
    memset(&p, 0, sizeof p);
    memset(&cp, 0, sizeof cp);
    memset(&sp, 0, sizeof sp);
    memset(&gp, 0, sizeof gp);
    memset(st, 0, sizeof st);
    host_now = NULL;
    cache_ids(host_ids, HOST_IDS, 77, HOST_VOCAB);
    p.backend = INFER_CPU;
    if (own_memory) {
        p.allocator.alloc = host_alloc;
        p.allocator.free = host_free;
    }
    if (own_threads) p.parallel = host_parallel;
    CHECK(infer_model_open(&w->m, check_data(HOST_STORY), &p, &err) == INFER_OK);
    cp.threads = 2;
    cp.batch = 8;
    cp.cells = 1024;
    CHECK(infer_context_create(&w->c, w->m, &cp, &err) == INFER_OK);
    sp.context = 256;
    CHECK(infer_session_create_in(&w->other, w->c, &sp, &err) == INFER_OK);
    sp.progress = host_progress;
    sp.progress_user = w;
    if (trace) {
        sp.trace = host_trace;
        sp.trace_user = w;
    }
    CHECK(infer_session_create_in(&w->s, w->c, &sp, &err) == INFER_OK);
    gp.gbnf = "root ::= [a-zA-Z ,.\\n]*";
    CHECK(infer_grammar_create(&w->g, w->m, &gp, &err) == INFER_OK);
    st[0].kind = INFER_STAGE_GRAMMAR;
    st[0].grammar = w->g;
    st[1].kind = INFER_STAGE_CUSTOM;
    st[1].fn = host_stage;
    st[2].kind = INFER_STAGE_GREEDY;
    CHECK(infer_sampler_create(&w->sampler, w->m, st, 3, 1, &err) == INFER_OK);
    host_now = w;
}

static void host_shut(host_world *w) {
    w->held = 0;
    host_now = NULL;
    free(w->state.p);
    CHECK(infer_session_destroy(w->s) == INFER_OK && infer_session_destroy(w->other) == INFER_OK);
    CHECK(infer_context_destroy(w->c) == INFER_OK);
    CHECK(infer_sampler_destroy(w->sampler) == INFER_OK);
    CHECK(infer_grammar_destroy(w->g) == INFER_OK);
    CHECK(infer_model_close(w->m) == INFER_OK);
}

/* Run one kind of call with callbacks that call back (held) or do nothing (0); what it gives goes to out. */
static void host_scene(host_world *w, int kind, int held, float *out) {
    infer_generate_params p;
    infer_chat_params chat;
    infer_chat_parser *reply = NULL;
    infer_session *t = NULL;
    infer_error err;
    infer_step st;
    infer_best *best = NULL;
    infer_generation *x = NULL;
    infer_session_mark mark;
    infer_result r;
    const char *text;
    float scores[20];
    size_t n;
    memset(&p, 0, sizeof p);
    memset(&chat, 0, sizeof chat);
    memset(&st, 0, sizeof st);
    w->n_text = 0;
    w->callbacks = 0;
    w->left = 30;
    p.max_tokens = 12;
    p.text = host_text;
    p.token = host_token;
    p.user = w;
    CHECK(infer_session_rewind(w->s, 0) == INFER_OK);
    w->held = held;
    switch (kind) {
    case 0: /* an eval of some passes, with room to be made for results */
        st.session = w->s;
        st.tokens = host_ids;
        st.n = HOST_IDS;
        st.outputs = INFER_OUT_ALL | INFER_OUT_HIDDEN;
        CHECK(infer_eval(w->c, &st, 1, &err) == INFER_OK && err.code == INFER_OK);
        break;
    case 1:
        CHECK(infer_generate(w->s, w->sampler, "Once upon a time", &p, NULL) == INFER_OK);
        break;
    case 2:
        p.text = NULL;
        chat.messages_json = CA_ONCE;
        chat.template_text = CA_TEMPLATE;
        chat.fn = host_delta;
        chat.user = w;
        CHECK(infer_chat(w->s, w->sampler, &chat, &p, &reply, NULL) == INFER_OK);
        break;
    case 3:
        w->held = 0;
        CHECK(infer_session_eval(w->s, host_ids, 20) == INFER_OK);
        w->state.n = w->state.at = 0;
        w->held = held;
        CHECK(infer_session_save(w->s, host_write, w) == INFER_OK);
        break;
    case 4:
        CHECK(infer_session_load(w->s, host_read_state, w) == INFER_OK);
        break;
    case 5:
        CHECK(infer_session_fork(&t, w->s, &err) == INFER_OK);
        break;
    case 6:
        CHECK(infer_session_sync(w->s, host_ids, 20, NULL) == INFER_OK);
        break;
    case 7:
        CHECK(infer_session_score(w->s, host_ids, 20, 0, scores, NULL) == INFER_OK);
        break;
    case 8:
        p.token = NULL;
        CHECK(infer_generate_best(w->s, &w->sampler, 1, "Once upon a time", &p, &best) == INFER_OK);
        infer_best_free(best);
        break;
    case 9: /* piece by piece: also between two calls */
        p.text = NULL;
        CHECK(infer_generation_begin(&x, w->s, w->sampler, "Once upon a time", &p, &err) == INFER_OK);
        do {
            host_call_back(w, "between two calls of infer_generation_next");
            r = infer_generation_next(x, 0, &text, &n);
            if (n && w->n_text + n < sizeof w->text) memcpy(w->text + w->n_text, text, n);
            w->n_text += n;
        } while (r == INFER_MORE);
        CHECK(r == INFER_OK && infer_generation_end(x) == INFER_OK);
        break;
    case 10:
        w->held = 0;
        CHECK(infer_session_eval(w->s, host_ids, 20) == INFER_OK);
        w->state.n = w->state.at = 0;
        memset(&mark, 0, sizeof mark);
        w->held = held;
        CHECK(infer_session_save_more(w->s, &mark, host_write, w) == INFER_OK);
        break;
    case 11:
        CHECK(infer_session_load_more(w->s, &mark, host_read_state, w) == INFER_OK);
        break;
    }
    w->held = 0;
    CHECK(infer_chat_parser_destroy(reply) == INFER_OK);
    CHECK(infer_session_destroy(t) == INFER_OK);
    CHECK(infer_sampler_reset(w->sampler) == INFER_OK);
    CHECK(infer_session_eval(w->s, host_ids, 1) == INFER_OK); /* the session stands where it should: its next logits say so */
    memcpy(out, infer_session_logits(w->s, -1), HOST_VOCAB * sizeof *out);
    out[HOST_VOCAB] = (float)infer_session_position(w->s);
}

/* host: callbacks. Every one calls everything that would use the same objects: refused, and the call goes on to the same
 * result. */
static void test_host_calls_from_callbacks(void) {
    static const struct { const char *name; int held; } SCENES[] = {
        { "eval", HOST_SESSION | HOST_CONTEXT | HOST_MODEL | HOST_WEIGHTS }, { "generate", HOST_SESSION | HOST_SAMPLER | HOST_MODEL | HOST_BESIDE },
        { "chat", HOST_SESSION | HOST_SAMPLER | HOST_MODEL }, { "save", HOST_SESSION | HOST_CONTEXT | HOST_MODEL },
        { "load", HOST_SESSION | HOST_CONTEXT | HOST_MODEL }, { "fork", HOST_SESSION | HOST_CONTEXT | HOST_MODEL },
        { "sync", HOST_SESSION | HOST_MODEL }, { "score", HOST_SESSION | HOST_MODEL },
        { "best", HOST_SESSION | HOST_SAMPLER | HOST_MODEL }, { "generation", HOST_SESSION | HOST_SAMPLER | HOST_MODEL | HOST_BESIDE },
        { "save_more", HOST_SESSION | HOST_CONTEXT | HOST_MODEL }, { "load_more", HOST_SESSION | HOST_CONTEXT | HOST_MODEL } };
    static float quiet[HOST_VOCAB + 1], loud[HOST_VOCAB + 1];
    host_world w;
    char text[4000];
    size_t n;
    int kind, way;
    for (way = 0; way < 3; way++) { /* progress and callbacks of results; also memory and threads; also trace */
        host_open(&w, way >= 1, way >= 1, way >= 2);
        for (kind = 0; kind < (int)(sizeof SCENES / sizeof *SCENES); kind++) {
            host_scene(&w, kind, 0, quiet);
            n = w.n_text;
            memcpy(text, w.text, n);
            CHECK(w.callbacks == 0);
            w.state.at = 0;
            host_scene(&w, kind, SCENES[kind].held, loud);
            w.state.at = 0;
            check_detail = SCENES[kind].name;
            CHECK(memcmp(quiet, loud, sizeof quiet) == 0);
            CHECK(n == w.n_text && memcmp(text, w.text, n) == 0);
            CHECK(w.callbacks > 0 || (way == 0 && kind == 5)); /* a fork has no callback but memory */
            check_detail = "";
        }
        host_shut(&w);
    }
    CHECK(check_live == 0);
}

/* A refusal is remembered beside a call that succeeds, and gone with the next one. */
static int host_refused_text(void *user, const char *text, size_t n) {
    (void)text; (void)n;
    CHECK(infer_session_rewind((infer_session *)user, 0) == INFER_ERR_STATE);
    return 0;
}
static void test_host_refusal_is_remembered(void) {
    host_world w;
    infer_generate_params p;
    host_open(&w, 0, 0, 0);
    memset(&p, 0, sizeof p);
    p.max_tokens = 2;
    p.text = host_refused_text;
    p.user = w.s;
    CHECK(infer_generate(w.s, NULL, "Once", &p, NULL) == INFER_OK);
    CHECK(infer_session_error(w.s)->code == INFER_ERR_STATE);
    CHECK_HAS(infer_session_error(w.s)->message, "another call");
    CHECK(infer_session_eval(w.s, host_ids, 1) == INFER_OK && infer_session_error(w.s)->code == INFER_OK);
    host_shut(&w);
}

/* Other sessions of the context may be used by callbacks of infer_generate: it does not hold the context. */
static int host_aside_text(void *user, const char *text, size_t n) {
    host_world *w = (host_world *)user;
    infer_session *t = NULL;
    (void)text; (void)n;
    if (w->left-- <= 0) return 0;
    CHECK(infer_session_rewind(w->other, 0) == INFER_OK && infer_session_eval(w->other, host_ids, 9) == INFER_OK);
    CHECK(infer_session_fork(&t, w->other, NULL) == INFER_OK && infer_session_eval(t, host_ids, 2) == INFER_OK);
    CHECK(infer_session_logits(w->s, -1) != NULL); /* and its own results be read */
    CHECK(infer_session_destroy(t) == INFER_OK);
    return 0;
}
static void test_host_callbacks_may_use_other_sessions(void) {
    host_world w;
    infer_generate_params p;
    char quiet[4000];
    int i;
    host_open(&w, 0, 0, 0);
    memset(&p, 0, sizeof p);
    p.max_tokens = 12;
    p.user = &w;
    for (i = 0; i < 2; i++) {
        p.text = i ? host_aside_text : host_text;
        p.token = NULL;
        w.left = 5;
        CHECK(infer_session_rewind(w.s, 0) == INFER_OK);
        CHECK(infer_generate(w.s, NULL, "Once upon a time", &p, NULL) == INFER_OK);
        if (i == 0) memcpy(quiet, infer_session_tokens(w.s), 16 * sizeof(infer_token));
        else CHECK(memcmp(quiet, infer_session_tokens(w.s), 16 * sizeof(infer_token)) == 0);
    }
    host_shut(&w);
}

/* A reply's parser: its fn may ask for the reply, and nothing else. */
static int host_parser_fn(void *user, const infer_chat_delta *d) {
    infer_chat_parser *p = *(infer_chat_parser **)user;
    (void)d;
    CHECK(infer_chat_parser_feed(p, "x", 1) == INFER_ERR_STATE && infer_chat_parser_finish(p) == INFER_ERR_STATE);
    CHECK(infer_chat_parser_destroy(p) == INFER_ERR_STATE);
    CHECK(infer_chat_parser_reply(p)->content != NULL);
    return 0;
}
static void test_host_parser_calls_back(void) {
    infer_chat_parser_params p;
    infer_chat_parser *parser = NULL;
    memset(&p, 0, sizeof p);
    p.format = "plain";
    p.fn = host_parser_fn;
    p.user = &parser;
    CHECK(infer_chat_parser_create(&parser, NULL, &p, NULL) == INFER_OK);
    CHECK(infer_chat_parser_feed(parser, "Hello, world", 12) == INFER_OK && infer_chat_parser_finish(parser) == INFER_OK);
    CHECK_STR(infer_chat_parser_reply(parser)->content, "Hello, world");
    CHECK(infer_chat_parser_destroy(parser) == INFER_OK);
}

/* While a model opens its callbacks cannot get at it. One that closes the model while a call of it runs, closes it: the call
 * comes to its end, and the model goes with the call, or with the last of what was made of it. */
static infer_model *host_opening;
static int host_seen, host_closed; /* callbacks; of them, some have closed the model */
static void host_try_close(void) {
    host_seen++;
    if (!host_opening) return;
    CHECK(infer_model_close(host_opening) == (host_closed ? INFER_ERR_STATE : INFER_OK));
    host_closed = 1;
}
static void *host_close_alloc(void *user, size_t size, size_t align) { host_try_close(); return check_alloc(user, size, align); }
static void host_close_free(void *user, void *p, size_t size) { host_try_close(); check_free(user, p, size); }
static void host_close_log(void *user, int level, const char *message) { (void)user; (void)level; (void)message; host_try_close(); }
static int host_close_progress(void *user, float done) { (void)user; (void)done; host_try_close(); return 0; }
static size_t host_close_read(void *user, uint64_t offset, void *dst, size_t n) {
    host_try_close();
    memcpy(dst, (const char *)user + offset, n);
    return n;
}
enum { HOST_CLOSINGS = 8 };
static void host_closing(infer_model *m, int kind) {
    infer_chat_params chat;
    infer_rendering *rendering = NULL;
    infer_session *s = NULL;
    infer_sampler *sampler = NULL;
    infer_grammar *g = NULL;
    infer_grammar_params gp;
    infer_stage st[INFER_STAGES_USUAL];
    infer_token ids[40];
    float row[64];
    int32_t n_stages, i;
    size_t n;
    memset(&chat, 0, sizeof chat);
    memset(&gp, 0, sizeof gp);
    chat.messages_json = CA_ONCE;
    chat.template_text = CA_TEMPLATE;
    gp.json = 1;
    CHECK(infer_sampler_usual(m, st, INFER_STAGES_USUAL, &n_stages, NULL) == INFER_OK);
    for (i = 0; i < n_stages; i++)
        if (st[i].kind == INFER_STAGE_DRY) st[i].p[0] = 1;
    host_opening = m;
    switch (kind) {
    case 0: CHECK(infer_tensor_read(m, "token_embd.weight", 3, 1, row, NULL) == INFER_OK); break;
    case 1: CHECK(infer_tokenize(m, "Once upon a time there was", 26, 0, ids, 40, &n, NULL) == INFER_OK); break;
    case 2:
        CHECK(infer_session_create(&s, m, NULL, NULL) == INFER_OK && infer_session_eval(s, host_ids, 3) == INFER_OK);
        CHECK(infer_session_destroy(s) == INFER_OK);
        break;
    case 3: CHECK(infer_chat_format(m, &chat, ids, 40, &n, NULL) == INFER_OK); break;
    case 4:
        CHECK(infer_chat_render(m, &chat, &rendering, NULL) == INFER_OK);
        host_opening = NULL; /* a rendering outlives its model, and its memory is the caller's */
        infer_rendering_free(rendering);
        break;
    case 5: CHECK(infer_grammar_create(&g, m, &gp, NULL) == INFER_OK && infer_grammar_destroy(g) == INFER_OK); break;
    case 6: CHECK(infer_sampler_create(&sampler, m, st, n_stages, 1, NULL) == INFER_OK && infer_sampler_destroy(sampler) == INFER_OK); break;
    case 7: CHECK(infer_session_create_in(&s, NULL, NULL, NULL) == INFER_ERR_ARGUMENT && infer_model_close(m) == INFER_OK); break; /* by itself */
    }
}
static void test_host_closing_from_callbacks(void) {
    infer_model_params p;
    infer_io io;
    infer_model *m;
    size_t n;
    int kind, closed = 0;
    memset(&p, 0, sizeof p);
    memset(&io, 0, sizeof io);
    cache_ids(host_ids, HOST_IDS, 77, HOST_VOCAB);
    check_live = check_fail_at = 0;
    p.backend = INFER_CPU;
    p.allocator.alloc = host_close_alloc;
    p.allocator.free = host_close_free;
    p.log = host_close_log;
    p.progress = host_close_progress;
    io.user = check_read(check_data(HOST_STORY), &n);
    io.size = n;
    io.read = host_close_read;
    for (kind = 0; kind < HOST_CLOSINGS && !check_bad; kind++) {
        host_opening = NULL;
        host_seen = 0;
        CHECK(infer_model_open_io(&host_opening, &io, 1, &p, NULL) == INFER_OK && host_seen > 20); /* its callbacks see NULL */
        m = host_opening;
        host_opening = NULL;
        host_seen = 0;
        host_closed = kind == 7;
        host_closing(m, kind);
        closed += host_seen > 0;
        if (!host_closed++) CHECK(infer_model_close(m) == INFER_OK); /* a tensor that is in memory is read without callbacks */
        CHECK(check_live == 0);
    }
    CHECK(closed >= 5);
    host_opening = NULL;
    free(io.user);
}

/* ---- cancelling ---------------------------------------------------------------------------------------------------- */

static int host_cancel_text(void *user, const char *text, size_t n) {
    (void)text; (void)n;
    infer_session_cancel((infer_session *)user);
    return 0;
}
/* host: cancel. One that comes late means nothing. */
static void test_host_cancel_that_comes_late(void) {
    host_world w;
    infer_generate_params p;
    infer_generate_info info;
    host_open(&w, 0, 0, 0);
    memset(&p, 0, sizeof p);
    p.max_tokens = 3;
    infer_session_cancel(w.s); /* nothing runs */
    CHECK(infer_session_eval(w.s, host_ids, 5) == INFER_OK && infer_session_position(w.s) == 5);
    infer_session_cancel(w.s);
    CHECK(infer_generate(w.s, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens == 3);
    infer_session_cancel(w.s);
    CHECK(infer_session_sync(w.s, host_ids, 9, NULL) == INFER_OK);
    /* in time: and only that call */
    p.text = host_cancel_text;
    p.user = w.s;
    CHECK(infer_generate(w.s, NULL, NULL, &p, &info) == INFER_CANCELLED && info.new_tokens == 1);
    p.text = NULL;
    CHECK(infer_generate(w.s, NULL, NULL, &p, &info) == INFER_OK && info.new_tokens == 3);
    /* the last callback of a call that ends by itself, and then another call */
    p.text = host_cancel_text;
    p.max_tokens = 1;
    CHECK(infer_generate(w.s, NULL, NULL, &p, &info) == INFER_CANCELLED && info.new_tokens == 1);
    CHECK(infer_session_eval(w.s, host_ids, 2) == INFER_OK);
    host_shut(&w);
}

/* A canceller that saw a call, and comes to note it when the next one runs: that one goes on. */
static int64_t host_stale_call, host_stale_eval;
static void host_stale_trace(void *user, int layer, const char *step, const float *x, size_t rows, size_t cols) {
    infer_session *s = *(infer_session **)user;
    (void)layer; (void)step; (void)x; (void)rows; (void)cols;
    if (host_stale_call) { /* what the late half of infer_session_cancel does */
        infer__atomic_raise(&s->cancel, host_stale_call);
        infer__atomic_raise(&s->context->cancel, host_stale_eval);
    }
}
static void test_host_cancel_of_the_call_before(void) {
    infer_model *m = cache_model("llama-dense");
    infer_session_params p;
    infer_session *s = NULL;
    state_bytes b;
    memset(&p, 0, sizeof p);
    memset(&b, 0, sizeof b);
    cache_ids(host_ids, HOST_IDS, 77, 128);
    p.trace = host_stale_trace;
    p.trace_user = &s;
    p.context = 64;
    host_stale_call = 0;
    CHECK(infer_session_create(&s, m, &p, NULL) == INFER_OK);
    CHECK(infer_session_eval(s, host_ids, 4) == INFER_OK);
    host_stale_call = infer__atomic_get(&s->calls) - 1;
    host_stale_eval = infer__atomic_get(&s->context->calls) - 1;
    CHECK(host_stale_call == 1 && host_stale_eval == 1);
    CHECK(infer_session_eval(s, host_ids, 4) == INFER_OK && infer_session_position(s) == 8);
    infer__atomic_raise(&s->context->cancel, host_stale_eval + 2); /* late for the second eval: saving has ops too */
    CHECK(infer_session_save(s, state_write, &b) == INFER_OK);
    free(b.p);
    CHECK(infer_session_destroy(s) == INFER_OK);
    CHECK(infer_model_close(m) == INFER_OK);
}

static void suite_host(void) {
    RUN(test_host_calls_from_callbacks);
    RUN(test_host_refusal_is_remembered);
    RUN(test_host_callbacks_may_use_other_sessions);
    RUN(test_host_parser_calls_back);
    RUN(test_host_closing_from_callbacks);
    RUN(test_host_cancel_that_comes_late);
    RUN(test_host_cancel_of_the_call_before);
}
