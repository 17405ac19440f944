/* test_life.c: how long objects live: closed in any order, by callbacks, by other threads, in the middle of slices, with no
 * memory. What is still open works as before, and in the end nothing is left. */

enum { LIFE_MODEL, LIFE_CONTEXT, LIFE_SESSION, LIFE_FORK, LIFE_OWN, LIFE_OWN_FORK, LIFE_GRAMMAR, LIFE_SAMPLER, LIFE_ADAPTER, LIFE_GENERATION,
       LIFE_SIDE, LIFE_JOB, LIFE_QUEUE, LIFE_WAITS, LIFE_RUNS, LIFE_ENDED, LIFE_OBJECTS };
static const char *const LIFE_NAMES[] = { "model", "context", "session", "fork", "own session", "its fork", "grammar", "sampler", "adapter",
                                          "generation", "side context", "job", "queue", "request that waits", "that runs", "that ended" };

typedef struct life_world {
    infer_model *m;
    infer_context *c, *side;
    infer_session *s, *fork, *own, *own_fork;
    infer_grammar *g;
    infer_sampler *sampler;
    infer_adapter *a;
    infer_generation *x;
    infer_embedding *job;
    infer_queue *q;
    infer_request *waits, *runs, *ended;
    const char *texts[2];
    float vectors[2 * 64];
} life_world;

static unsigned char *life_lora; /* the file of an adapter */
static size_t life_lora_n;
static float life_want[HOST_VOCAB]; /* logits of host_ids */

static infer_result life_adapter(life_world *w, infer_error *e) {
    return infer_adapter_open_memory(&w->a, w->m, life_lora, life_lora_n, 0, e);
}

/* Everything that there is, each used by others. Returns the first error: then what could be made is there. */
static infer_result life_make(life_world *w, int failing) {
    static const queue_way way = { 1, 0, 256, 0, 0, 0, 64 };
    infer_model_params mp;
    infer_context_params cp;
    infer_session_params sp;
    infer_grammar_params gp;
    infer_generate_params p;
    infer_request_params rp;
    infer_queue_params qp;
    infer_adapter_use use;
    infer_stage st[2];
    infer_error e;
    const char *text;
    infer_result r;
    int i;
    memset(w, 0, sizeof *w);
    memset(&mp, 0, sizeof mp);
    memset(&cp, 0, sizeof cp);
    memset(&sp, 0, sizeof sp);
    memset(&gp, 0, sizeof gp);
    memset(&p, 0, sizeof p);
    memset(&rp, 0, sizeof rp);
    memset(&qp, 0, sizeof qp);
    memset(&use, 0, sizeof use);
    memset(st, 0, sizeof st);
    mp.backend = INFER_CPU;
    mp.allocator.alloc = check_alloc;
    mp.allocator.free = check_free;
    cp.threads = 2;
    cp.cells = 256;
    cp.batch = 64;
    r = infer_model_open(&w->m, check_data(HOST_STORY), &mp, &e);
    if (!r) r = life_adapter(w, &e);
    if (!r) r = infer_context_create(&w->c, w->m, &cp, &e);
    if (!r) r = infer_context_create(&w->side, w->m, &cp, &e);
    sp.context = 64;
    sp.own = cp;
    if (!r) r = infer_session_create_in(&w->s, w->c, &sp, &e);
    if (!r) r = infer_session_create(&w->own, w->m, &sp, &e);
    use.adapter = w->a;
    use.scale = 1;
    if (!r) r = infer_session_set_adapters(w->own, &use, 1);
    if (!r) r = infer_session_eval(w->own, host_ids, HOST_IDS);
    if (!r) r = infer_session_fork(&w->own_fork, w->own, &e);
    if (!r) r = infer_session_eval(w->s, host_ids, HOST_IDS);
    if (!r) r = infer_session_fork(&w->fork, w->s, &e);
    gp.gbnf = "root ::= [a-zA-Z ,.\\n]*";
    if (!r) r = infer_grammar_create(&w->g, w->m, &gp, &e);
    st[0].kind = INFER_STAGE_GRAMMAR;
    st[0].grammar = w->g;
    st[1].kind = INFER_STAGE_GREEDY;
    if (!r) r = infer_sampler_create(&w->sampler, w->m, st, 2, 1, &e);
    p.max_tokens = 12;
    if (!r) r = infer_generation_begin(&w->x, w->s, w->sampler, "Once upon a time", &p, &e);
    for (i = 0; i < 40 && !r; i++) { /* until a slice ends in the middle of a later eval */
        r = infer_generation_next(w->x, 0, &text, NULL);
        if (r == INFER_MORE) r = i > 8 && w->s->paused ? INFER_MORE : INFER_OK;
    }
    if (r == INFER_MORE) r = INFER_OK;
    w->texts[0] = "One day";
    w->texts[1] = "a little girl";
    if (!r) r = infer_embed_begin(&w->job, w->side, w->texts, 2, NULL, w->vectors, &e);
    if (!r && (r = infer_embed_step(w->job, 0, &e)) == INFER_MORE) r = INFER_OK;
    qp.context = cp;
    qp.positions = way.positions;
    qp.slots = way.slots;
    if (!r) r = infer_queue_create(&w->q, w->m, &qp, &e);
    rp.prompt = "Once";
    rp.generate.max_tokens = 2;
    if (!r) r = infer_queue_submit(w->q, &rp, &w->ended, &e);
    if (!r) r = infer_request_wait(w->ended);
    rp.generate.max_tokens = 20;
    rp.adapters = &use;
    rp.n_adapters = 1;
    if (!r) r = infer_queue_submit(w->q, &rp, &w->runs, &e);
    if (!r && (r = infer_queue_step(w->q, 0)) == INFER_MORE) r = INFER_OK;
    if (!r) r = infer_queue_submit(w->q, &rp, &w->waits, &e);
    CHECK(failing || (r == INFER_OK && w->x && w->job && w->waits));
    return r;
}

/* Close one of them; closing it again, before it is gone, is refused. */
static void life_close(life_world *w, int which) {
    infer_result r = INFER_OK;
    switch (which) {
    case LIFE_MODEL: r = infer_model_close(w->m); w->m = NULL; break;
    case LIFE_CONTEXT: r = infer_context_destroy(w->c); w->c = NULL; break;
    case LIFE_SESSION: r = infer_session_destroy(w->s); w->s = NULL; break;
    case LIFE_FORK: r = infer_session_destroy(w->fork); w->fork = NULL; break;
    case LIFE_OWN: r = infer_session_destroy(w->own); w->own = NULL; break;
    case LIFE_OWN_FORK: r = infer_session_destroy(w->own_fork); w->own_fork = NULL; break;
    case LIFE_GRAMMAR: r = infer_grammar_destroy(w->g); w->g = NULL; break;
    case LIFE_SAMPLER: r = infer_sampler_destroy(w->sampler); w->sampler = NULL; break;
    case LIFE_ADAPTER: r = infer_adapter_close(w->a); w->a = NULL; break;
    case LIFE_GENERATION: r = infer_generation_end(w->x); w->x = NULL; break;
    case LIFE_SIDE: r = infer_context_destroy(w->side); w->side = NULL; break;
    case LIFE_JOB: r = infer_embed_end(w->job); w->job = NULL; break;
    case LIFE_QUEUE: r = infer_queue_destroy(w->q); w->q = NULL; break;
    case LIFE_WAITS: infer_request_close(w->waits); w->waits = NULL; break;
    case LIFE_RUNS: infer_request_close(w->runs); w->runs = NULL; break;
    case LIFE_ENDED: infer_request_close(w->ended); w->ended = NULL; break;
    }
    CHECK(r == INFER_OK);
}

/* What is still open works, whatever is closed. */
static void life_use(life_world *w, uint32_t seed) {
    const char *text;
    infer_session *t = NULL;
    infer_request_info info;
    infer_error e;
    infer_result r;
    size_t n = 0;
    int32_t i;
    switch (seed % 8) {
    case 0:
        if (w->fork) CHECK(infer_session_position(w->fork) == HOST_IDS && infer_session_tokens(w->fork)[3] == host_ids[3]);
        break;
    case 1:
        if (!w->own_fork) break;
        CHECK(infer_session_rewind(w->own_fork, 0) == INFER_OK && infer_session_set_adapters(w->own_fork, NULL, 0) == INFER_OK);
        CHECK(infer_session_eval(w->own_fork, host_ids, HOST_IDS) == INFER_OK);
        CHECK(memcmp(infer_session_logits(w->own_fork, -1), life_want, sizeof life_want) == 0);
        break;
    case 2:
        if (!w->x) break;
        r = infer_generation_next(w->x, 0, &text, &n);
        CHECK(r == INFER_MORE || r == INFER_OK);
        break;
    case 3:
        if (!w->own) break;
        CHECK(infer_session_fork(&t, w->own, &e) == INFER_OK && infer_session_eval(t, host_ids, 3) == INFER_OK);
        CHECK(infer_session_destroy(t) == INFER_OK);
        break;
    case 4:
        if (!w->job) break;
        r = infer_embed_step(w->job, 0, &e);
        CHECK(r == INFER_MORE || r == INFER_OK);
        break;
    case 5:
        if (w->q) CHECK(infer_queue_step(w->q, 0) >= INFER_OK);
        break;
    case 6:
        if (w->ended) CHECK(strlen(infer_request_text(w->ended, &n)) == n && n > 0 && infer_request_tokens(w->ended, NULL, &i) && i > 2);
        if (w->runs && !w->q) { /* its queue is closed: it was cancelled */
            CHECK(infer_request_get_info(w->runs, &info) == INFER_OK && info.state == INFER_REQUEST_ENDED);
            CHECK(info.result == INFER_CANCELLED || info.result == INFER_OK);
            CHECK(infer_request_wait(w->runs) == info.result);
        }
        break;
    case 7:
        if (w->m) CHECK(infer_tokenize(w->m, "One day", 7, 0, NULL, 0, &n, &e) == INFER_OK && n > 0);
        if (w->g) CHECK(infer_grammar_check(w->g, "One day", 7, &n, NULL, &e) == INFER_OK && n == 7);
        break;
    }
}

static void life_close_all(life_world *w, uint32_t *seed, int use) {
    int order[LIFE_OBJECTS], i, k, t;
    char detail[400];
    size_t at = 0;
    for (i = 0; i < LIFE_OBJECTS; i++) order[i] = i;
    for (i = LIFE_OBJECTS - 1; i > 0; i--) {
        *seed = *seed * 1664525u + 1013904223u;
        k = (int)((*seed >> 8) % (uint32_t)(i + 1));
        t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (i = 0; i < LIFE_OBJECTS && at < sizeof detail - 40; i++) at += (size_t)snprintf(detail + at, sizeof detail - at, "%s, ", LIFE_NAMES[order[i]]);
    check_detail = detail;
    for (i = 0; i < LIFE_OBJECTS; i++) {
        if (use) {
            *seed = *seed * 1664525u + 1013904223u;
            life_use(w, *seed >> 8);
        }
        life_close(w, order[i]);
    }
    check_detail = "";
}

static int life_begin(void) {
    infer_model *m = NULL;
    infer_session *s = NULL;
    gguf_writer w;
    cache_ids(host_ids, HOST_IDS, 77, HOST_VOCAB);
    host_now = NULL;
    check_fail_at = 0;
    if (infer_model_open(&m, check_data(HOST_STORY), NULL, NULL)) { CHECK(!"the model"); return 0; }
    adapter_seed = 5;
    adapter_head(&w, m, 8);
    adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.0.attn_q.weight"), 1, NULL);
    free(life_lora);
    life_lora = gw_finish(&w, &life_lora_n);
    s = cache_session(m, 2, 64, 64, 0, 0);
    CHECK(infer_session_eval(s, host_ids, HOST_IDS) == INFER_OK);
    memcpy(life_want, infer_session_logits(s, -1), sizeof life_want);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    return life_lora != NULL;
}

/* ---- any order ------------------------------------------------------------------------------------------------------------ */

static void test_life_orders(void) {
    life_world w;
    uint32_t seed = 1;
    int i;
    if (!life_begin()) return;
    for (i = 0; i < 150 / check_every(20) && !check_bad; i++) {
        check_live = 0;
        life_make(&w, 0);
        life_close_all(&w, &seed, i & 1);
        CHECK(check_live == 0);
    }
}

static void test_life_orders_without_memory(void) {
    life_world w;
    uint32_t seed = 2;
    long i, total;
    int failed = 0;
    if (!life_begin()) return;
    check_allocs = check_live = 0;
    life_make(&w, 0);
    life_close_all(&w, &seed, 0);
    total = check_allocs;
    for (i = 1; i <= total && !check_bad; i += check_every(50)) {
        check_allocs = check_live = 0;
        check_fail_at = i;
        failed += life_make(&w, 1) == INFER_ERR_MEMORY;
        life_close_all(&w, &seed, 0);
        CHECK(check_live == 0);
    }
    check_fail_at = 0;
    CHECK(total > 200 && failed * check_every(50) > total / 2);
}

/* ---- by callbacks --------------------------------------------------------------------------------------------------------- */

typedef struct life_closer { life_world *w; int closes; char text[400]; size_t n; } life_closer;
static int life_text(void *user, const char *text, size_t n) {
    life_closer *c = (life_closer *)user;
    const infer_session *s = c->w->own_fork;
    uint32_t seed = 3;
    if (c->n + n < sizeof c->text) memcpy(c->text + c->n, text, n);
    c->n += n;
    if (c->closes && s) { /* all of it, the session that generates and what it needs too */
        life_close_all(c->w, &seed, 0);
        CHECK(check_live > 0 && infer_session_position(s) > 0);
    }
    return 0;
}
static void test_life_closed_by_callbacks(void) {
    life_world w;
    life_closer c;
    infer_generate_params p;
    char want[400];
    int closes;
    if (!life_begin()) return;
    for (closes = 0; closes < 2; closes++) {
        infer_session *s;
        uint32_t seed = 4;
        check_live = 0;
        memset(&c, 0, sizeof c);
        memset(&p, 0, sizeof p);
        c.w = &w;
        c.closes = closes;
        p.max_tokens = 20;
        p.text = life_text;
        p.user = &c;
        life_make(&w, 0);
        CHECK(infer_generation_end(w.x) == INFER_OK); /* the sampler is free */
        w.x = NULL;
        s = w.own_fork;
        CHECK(infer_generate(s, w.sampler, "Once upon a time", &p, NULL) == INFER_OK && c.n > 10);
        if (!closes) {
            memcpy(want, c.text, sizeof want);
            life_close_all(&w, &seed, 0);
        } else CHECK(memcmp(want, c.text, sizeof want) == 0);
        CHECK(check_live == 0);
    }
}

static infer_queue *life_queue;
static int life_queue_closes;
static int life_queue_text(void *user, const char *text, size_t n) {
    (void)user; (void)text; (void)n;
    if (life_queue && life_queue_closes) CHECK(infer_queue_destroy(life_queue) == (life_queue->has_thread ? INFER_ERR_STATE : INFER_OK));
    else if (life_queue) CHECK(infer_queue_step(life_queue, 0) == INFER_ERR_STATE);
    if (!life_queue->has_thread) life_queue = NULL;
    return 0;
}
static void test_life_queue_closed_by_callbacks(void) {
    infer_request_params p;
    infer_request_info info;
    infer_request *r[2];
    infer_model *m = NULL;
    infer_queue *q;
    infer_error e;
    size_t n;
    int way, i;
    for (way = 0; way < 2; way++) { /* run by whoever waits; by a thread of its own */
        queue_way of = { 1, 0, 256, 0, 0, 0, 64 };
        of.thread = way;
#if defined(INFER__NO_THREADS)
        if (way) break;
#endif
        if (infer_model_open(&m, check_data(HOST_STORY), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
        q = life_queue = queue_open(m, &of);
        life_queue_closes = 1;
        memset(&p, 0, sizeof p);
        p.prompt = "Once upon a time";
        p.generate.max_tokens = 6;
        p.generate.text = life_queue_text;
        CHECK(infer_queue_submit(q, &p, &r[0], &e) == INFER_OK);
        p.generate.text = NULL;
        CHECK(infer_queue_submit(q, &p, &r[1], &e) == INFER_OK);
        CHECK(infer_model_close(m) == INFER_OK);
        for (i = 0; i < 2; i++) {
            CHECK(infer_request_wait(r[i]) == (way ? INFER_OK : INFER_CANCELLED));
            CHECK(infer_request_get_info(r[i], &info) == INFER_OK && info.state == INFER_REQUEST_ENDED);
            infer_request_text(r[i], &n);
            CHECK((n > 0) == (way || i == 0)); /* the second one had not begun */
        }
        infer_request_close(r[0]);
        if (way) CHECK(infer_queue_destroy(q) == INFER_OK);
        CHECK(infer_request_wait(r[1]) == (way ? INFER_OK : INFER_CANCELLED)); /* it outlives its queue */
        infer_request_close(r[1]);
    }
}

/* ---- in the middle of a slice --------------------------------------------------------------------------------------------- */

static void test_life_slices(void) {
    infer_model *m = NULL;
    infer_context_params cp;
    infer_error e;
    int way;
    if (!life_begin()) return;
    if (infer_model_open(&m, check_data(HOST_STORY), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    memset(&cp, 0, sizeof cp);
    cp.threads = 2;
    cp.cells = 256;
    for (way = 0; way < 4; way++) {
        const uint64_t used = (uint64_t)infer__atomic_get(&m->mem.used);
        infer_step *steps = (infer_step *)calloc(2, sizeof *steps);
        infer_context *c = NULL;
        infer_session *s[3] = { NULL, NULL, NULL };
        int i;
        CHECK(infer_context_create(&c, m, &cp, &e) == INFER_OK);
        for (i = 0; i < 3; i++) CHECK(infer_session_create_in(&s[i], c, NULL, &e) == INFER_OK);
        for (i = 0; i < 2; i++) {
            steps[i].session = s[i];
            steps[i].tokens = host_ids;
            steps[i].n = HOST_IDS;
        }
        CHECK(infer_eval_slice(c, steps, 2, 0, &e) == INFER_MORE);
        memset(steps, 255, 2 * sizeof *steps); /* it is given up, so nobody looks at them */
        if (way == 0) {
            CHECK(infer_session_destroy(s[2]) == INFER_OK); /* not of the slice */
            CHECK(infer_session_eval(s[0], host_ids, 1) == INFER_ERR_STATE);
            CHECK(infer_session_destroy(s[1]) == INFER_OK && infer_session_error(s[0])->code == INFER_CANCELLED);
        } else if (way == 1) {
            CHECK(infer_context_destroy(c) == INFER_OK && infer_session_error(s[1])->code == INFER_CANCELLED);
            CHECK(infer_session_destroy(s[1]) == INFER_OK && infer_session_destroy(s[2]) == INFER_OK);
        } else {
            CHECK(infer_session_destroy(s[way - 2]) == INFER_OK && infer_session_destroy(s[3 - way]) == INFER_OK);
            s[0] = s[2];
        }
        CHECK(infer__atomic_get(&m->held) == 0 && infer_session_position(s[0]) == 0);
        CHECK(infer_session_eval(s[0], host_ids, HOST_IDS) == INFER_OK);
        CHECK(memcmp(infer_session_logits(s[0], -1), life_want, sizeof life_want) == 0);
        CHECK(infer_session_destroy(s[0]) == INFER_OK);
        if (way != 1) CHECK(infer_context_destroy(c) == INFER_OK);
        CHECK((uint64_t)infer__atomic_get(&m->mem.used) == used);
        free(steps);
    }
    CHECK(infer_model_close(m) == INFER_OK);
}

/* ---- by a thread that collects garbage ------------------------------------------------------------------------------------ */

#if defined(HOST_THREADS)
#  if defined(HOST_TSAN)
enum { LIFE_SLOTS = 4, LIFE_FORKS = 200 };
#  else
enum { LIFE_SLOTS = 4, LIFE_FORKS = 1000 };
#  endif
typedef struct life_collector { infer__atomic sessions[LIFE_SLOTS], samplers[LIFE_SLOTS], stop; } life_collector;
static void *life_collect(void *arg) {
    life_collector *c = (life_collector *)arg;
    int stop, i;
    do {
        stop = infer__atomic_get(&c->stop) != 0;
        for (i = 0; i < LIFE_SLOTS; i++) {
            int64_t s = infer__atomic_get(&c->sessions[i]), t = infer__atomic_get(&c->samplers[i]);
            if (s) {
                CHECK(infer_session_destroy((infer_session *)(uintptr_t)s) == INFER_OK);
                infer__atomic_set(&c->sessions[i], 0);
            }
            if (t) {
                CHECK(infer_sampler_destroy((infer_sampler *)(uintptr_t)t) == INFER_OK);
                infer__atomic_set(&c->samplers[i], 0);
            }
        }
        sched_yield();
    } while (!stop);
    return NULL;
}
/* host: one at a time. Calls of the thread that uses a context are never refused, and its results are what they are, whatever is destroyed. */
static void test_life_collected_by_a_thread(void) {
    life_collector c;
    infer_grammar_params gp;
    infer_stage st[2];
    infer_model *m = NULL;
    infer_session *s, *t;
    infer_grammar *g = NULL;
    infer_sampler *sampler;
    infer_error e;
    pthread_t thread;
    uint64_t used;
    int i, given = 0;
    if (!life_begin()) return;
    if (infer_model_open(&m, check_data(HOST_STORY), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    used = (uint64_t)infer__atomic_get(&m->mem.used);
    memset(&c, 0, sizeof c);
    memset(&gp, 0, sizeof gp);
    memset(st, 0, sizeof st);
    gp.gbnf = "root ::= [a-zA-Z ,.\\n]*";
    CHECK(infer_grammar_create(&g, m, &gp, &e) == INFER_OK);
    st[0].kind = INFER_STAGE_GRAMMAR;
    st[0].grammar = g;
    st[1].kind = INFER_STAGE_GREEDY;
    s = cache_session(m, 2, 64, 256, 0, 0);
    CHECK(pthread_create(&thread, NULL, life_collect, &c) == 0);
    for (i = 0; i < LIFE_FORKS && !check_bad; i++) {
        const int slot = i % LIFE_SLOTS;
        infer_token token;
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, host_ids, 4 + i % 8) == INFER_OK);
        CHECK(infer_session_fork(&t, s, &e) == INFER_OK && infer_session_eval(t, host_ids, 2) == INFER_OK);
        CHECK(infer_sampler_create(&sampler, m, st, 2, 1, &e) == INFER_OK && infer_session_sample(s, sampler, -1, &token) == INFER_OK);
        if (!infer__atomic_get(&c.sessions[slot])) {
            infer__atomic_set(&c.sessions[slot], (int64_t)(uintptr_t)t);
            given++;
        } else CHECK(infer_session_destroy(t) == INFER_OK);
        if (!infer__atomic_get(&c.samplers[slot])) infer__atomic_set(&c.samplers[slot], (int64_t)(uintptr_t)sampler);
        else CHECK(infer_sampler_destroy(sampler) == INFER_OK);
    }
    CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, host_ids, HOST_IDS) == INFER_OK);
    CHECK(memcmp(infer_session_logits(s, -1), life_want, sizeof life_want) == 0);
    infer__atomic_set(&c.stop, 1);
    pthread_join(thread, NULL);
    CHECK(given > 20 && infer_grammar_destroy(g) == INFER_OK && infer_session_destroy(s) == INFER_OK);
    CHECK((uint64_t)infer__atomic_get(&m->mem.used) == used);
    CHECK(infer_model_close(m) == INFER_OK);
}
#endif

static void suite_life(void) {
    RUN(test_life_orders);
    RUN(test_life_orders_without_memory);
    RUN(test_life_closed_by_callbacks);
    RUN(test_life_queue_closed_by_callbacks);
    RUN(test_life_slices);
#if defined(HOST_THREADS)
    RUN(test_life_collected_by_a_thread);
#endif
    free(life_lora);
    life_lora = NULL;
}
