/* test_draft.c: speculative decoding: the same tokens, text and logits with drafts and without, for every kind of state, greedy and
 * by seeds, at limits and stop strings; two vocabularies; drafts without memory. */

typedef struct draft_out { infer_token tokens[256]; int32_t n, positions[256]; char text[4096]; size_t len; infer_session *s; } draft_out;
static int draft_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    draft_out *o = (draft_out *)user;
    if (o->n == 256) return 1;
    CHECK(n_top == 0 || (top[0].token >= 0 && logprob <= 0));
    /* what is ahead is not seen; the last token of a full context has no place */
    CHECK(infer_session_tokens(o->s)[infer_session_position(o->s) - 1] == token || infer_session_position(o->s) == infer_session_capacity(o->s));
    CHECK(infer_session_logits(o->s, -1) != NULL);
    o->positions[o->n] = infer_session_position(o->s);
    o->tokens[o->n++] = token;
    return 0;
}
static int draft_text(void *user, const char *s, size_t n) {
    draft_out *o = (draft_out *)user;
    if (n > sizeof o->text - o->len) return 1;
    memcpy(o->text + o->len, s, n);
    o->len += n;
    return 0;
}

static infer_grammar *draft_grammar; /* of the sampler; NULL = none */
static infer_adapter_use draft_adapter; /* of the session */

/* Generates behind `ids`; way 0: without drafts, 1: lookup, 2: by another session, 3: both, 4: by the model's own block. */
static infer_generate_info draft_go(infer_model *m, infer_session *by, int way, int sampled, int32_t most, const char *stop, draft_out *o) {
    infer_session *s = cells_session(m, 512, 0, 2);
    infer_sampler *sampler = NULL;
    infer_generate_params p;
    infer_generate_info info;
    infer_error e;
    infer_stage chain[2];
    infer_token ids[40];
    int32_t i;
    memset(o, 0, sizeof *o);
    memset(&p, 0, sizeof p);
    memset(&info, 0, sizeof info);
    memset(chain, 0, sizeof chain);
    if (!s) return info;
    for (i = 0; i < 40; i++) ids[i] = (infer_token)((i % 9) * 3 + 1);
    chain[0].kind = INFER_STAGE_TOP_K;
    chain[0].p[0] = 4;
    chain[1].kind = INFER_STAGE_TEMPERATURE;
    chain[1].p[0] = 0.7f;
    if (draft_grammar) {
        chain[0].kind = INFER_STAGE_GRAMMAR;
        chain[0].grammar = draft_grammar;
    }
    if (sampled) CHECK(infer_sampler_create(&sampler, m, chain, 2, 7, &e) == INFER_OK);
    if (draft_adapter.adapter) CHECK(infer_session_set_adapters(s, &draft_adapter, 1) == INFER_OK);
    CHECK(infer_session_eval(s, ids, 40) == INFER_OK);
    o->s = s;
    p.max_tokens = most;
    p.ignore_end = 1;
    p.user = o;
    p.token = draft_token;
    if (stop || infer__tokenizer_size(m->tokenizer) > 0) p.text = draft_text;
    p.logprobs = sampled ? 2 : 0;
    p.stop = &stop;
    p.n_stop = stop != NULL;
    p.lookup = way & 1;
    p.draft = way & 2 ? by : NULL;
    p.mtp = way == 4;
    p.draft_tokens = 5;
    if (infer_generate(s, sampler, NULL, &p, &info)) check_note(__FILE__, __LINE__, infer_session_error(s)->message);
    CHECK(s->ahead == 0 && s->n == 40 + o->n - (info.stop_reason == INFER_STOP_FULL) && info.accepted <= info.drafted);
    CHECK(infer_session_logits(s, -1) != NULL);
    if (s->cap - s->n >= 3) { /* and it goes on as it would have */
        CHECK(infer_session_eval(s, ids, 3) == INFER_OK);
        memcpy(o->text + sizeof o->text - 64, infer_session_logits(s, -1), 64);
    }
    infer_session_destroy(s);
    infer_sampler_destroy(sampler);
    return info;
}

static void test_draft_same(void) {
    static const char *const files[] = { "llama-dense", "gemma3-real-dense", "minicpm3-dense", "qwen35-dense", "mamba2-groups-dense", "rwkv7-small-dense", "lfm2-dense", "qwen3moe-norm-moe" };
    draft_out *want = (draft_out *)calloc(1, sizeof *want), *got = (draft_out *)calloc(1, sizeof *got);
    int32_t drafted = 0, accepted = 0;
    size_t i;
    int sampled, way;
    infer_model *words = NULL;
    infer_error e;
    if (infer_model_open(&words, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (i = 0; i < INFER__COUNT(files); i += (size_t)check_every(3)) {
        infer_model *m = cache_model(files[i]), *other = cache_model(files[i]);
        infer_session *by = other ? cells_session(other, 512, 0, 2) : NULL;
        infer__tokenizer *own[2] = { m ? m->tokenizer : NULL, other ? other->tokenizer : NULL };
        check_detail = files[i];
        if (m && other) m->tokenizer = other->tokenizer = words->tokenizer; /* these files have no texts of tokens */
        if (m && by)
            for (sampled = 0; sampled < 2; sampled++) {
                draft_go(m, by, 0, sampled, 60, NULL, want);
                for (way = 1; way < 4; way++) {
                    infer_generate_info info = draft_go(m, by, way, sampled, 60, NULL, got);
                    want->s = got->s;
                    CHECK(got->n == 60 && memcmp(got, want, sizeof *got) == 0);
                    if (way == 2 && !sampled) CHECK(info.drafted > 20 && info.accepted == info.drafted); /* it is the same model */
                    drafted += info.drafted;
                    accepted += info.accepted;
                }
            }
        infer_session_destroy(by);
        if (m) m->tokenizer = own[0];
        if (other) other->tokenizer = own[1];
        CHECK(infer_model_close(m) == INFER_OK && infer_model_close(other) == INFER_OK);
    }
    CHECK(infer_model_close(words) == INFER_OK);
    CHECK(accepted > 0 && accepted < drafted); /* some were taken back */
    free(want);
    free(got);
}

/* Where it ends inside a draft: a limit, a stop string, a full context, a callback. */
static void test_draft_ends(void) {
    infer_model *m = NULL;
    infer_error e;
    draft_out *want = (draft_out *)calloc(1, sizeof *want), *got = (draft_out *)calloc(1, sizeof *got);
    infer_generate_info info;
    infer_grammar_params gp;
    int32_t most;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    for (most = 1; most < 14; most += check_every(4)) {
        draft_go(m, NULL, 0, 0, most, NULL, want);
        draft_go(m, NULL, 1, 0, most, NULL, got);
        want->s = got->s;
        CHECK(memcmp(got, want, sizeof *got) == 0);
    }
    draft_go(m, NULL, 0, 0, 0, "e", want);
    draft_go(m, NULL, 1, 0, 0, "e", got);
    want->s = got->s;
    CHECK(memcmp(got, want, sizeof *got) == 0);
    memset(&gp, 0, sizeof gp);
    gp.gbnf = "root ::= ((\"the cat\" | \"the dog\") \" and \")+";
    CHECK(infer_grammar_create(&draft_grammar, m, &gp, &e) == INFER_OK);
    draft_go(m, NULL, 0, 1, 60, NULL, want); /* under a grammar that has few words */
    info = draft_go(m, NULL, 1, 1, 60, NULL, got);
    want->s = got->s;
    CHECK(memcmp(got, want, sizeof *got) == 0 && info.accepted > 5 && info.accepted < info.drafted);
    infer_grammar_destroy(draft_grammar);
    draft_grammar = NULL;
    draft_go(m, NULL, 0, 0, 0, NULL, want); /* until the context is full */
    draft_go(m, NULL, 1, 0, 0, NULL, got);
    CHECK_STR(got->text, want->text);
    infer_model_close(m);
    free(want);
    free(got);
}

/* An adapter that begins to count at tokens that were drafted: it counts from where it would have without. */
static void test_draft_invocation(void) {
    infer_model *m = NULL;
    gguf_writer w;
    infer_error e;
    draft_out *want = (draft_out *)calloc(1, sizeof *want), *got = (draft_out *)calloc(1, sizeof *got), *with = (draft_out *)calloc(1, sizeof *with);
    int32_t i, accepted = 0;
    if (infer_model_open(&m, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    draft_go(m, NULL, 0, 0, 60, NULL, want); /* what it writes: some of it becomes the invocation */
    for (i = 8; i < 40; i += check_every(11)) {
        const int64_t words[2] = { want->tokens[i], want->tokens[i + 1] };
        adapter_head(&w, m, 2);
        adapter_seed = 3;
        gw_ints(&w, "adapter.alora.invocation_tokens", GW_U32, words, 2);
        adapter_pair(&w, m, infer__gguf_tensor_find(&m->gguf, "blk.1.ffn_up.weight"), 0, NULL);
        memset(&draft_adapter, 0, sizeof draft_adapter);
        draft_adapter.adapter = adapter_open(m, &w, NULL, &e);
        draft_adapter.scale = 0.2f;
        draft_go(m, NULL, 0, 0, 60, NULL, got);
        accepted += draft_go(m, NULL, 1, 0, 60, NULL, with).accepted;
        got->s = with->s;
        CHECK(memcmp(got, with, sizeof *got) == 0);
        CHECK(infer_adapter_close(draft_adapter.adapter) == INFER_OK);
    }
    memset(&draft_adapter, 0, sizeof draft_adapter);
    CHECK(accepted > 0);
    CHECK(infer_model_close(m) == INFER_OK);
    free(want);
    free(got);
    free(with);
}

/* Two sampled tokens, of which the second was often drafted: as often as the logits say, over 100,000 draws (chi-square, 15 degrees of
 * freedom: more than 50 comes once in 80,000 such tests). */
static void test_draft_distribution(void) {
    enum { FEW = 4, KNOWN = 16, PROMPT = 3 * KNOWN + 1 };
    infer_model *m = cache_model("llama-dense");
    infer_session *s = m ? cells_session(m, 512, 0, 2) : NULL;
    infer_sampler *sampler = NULL;
    infer_stage chain[2];
    infer_generate_params p;
    infer_generate_info info;
    infer_error e;
    infer_top top[KNOWN], next[FEW];
    infer_token ids[PROMPT];
    draft_out *o = (draft_out *)calloc(1, sizeof *o);
    double want[FEW * FEW], sum, chi = 0;
    int32_t seen[FEW * FEW] = { 0 }, i, k, n = 100000 / check_every(100);
    int64_t accepted = 0, drafted = 0;
    if (!s) return;
    memset(chain, 0, sizeof chain);
    chain[0].kind = INFER_STAGE_TOP_K;
    chain[0].p[0] = FEW;
    chain[1].kind = INFER_STAGE_TEMPERATURE;
    chain[1].p[0] = 1;
    CHECK(infer_sampler_create(&sampler, m, chain, 2, 11, &e) == INFER_OK);
    /* a prompt in which its last token is followed by those that are likely there, and these by what is likely behind them: drafts find both */
    for (i = 0; i < PROMPT; i++) ids[i] = 1 + i % 3;
    for (k = 0; k < 6; k++) {
        for (i = 0; k > 0 && i < KNOWN; i++) {
            CHECK(infer_session_rewind(s, PROMPT) == INFER_OK && infer_session_eval(s, &top[i].token, 1) == INFER_OK && infer_session_top(s, -1, 1, next) == INFER_OK);
            ids[3 * i] = ids[PROMPT - 1];
            ids[3 * i + 1] = top[i].token;
            ids[3 * i + 2] = next[0].token;
        }
        CHECK(infer_session_rewind(s, 0) == INFER_OK && infer_session_eval(s, ids, PROMPT) == INFER_OK && infer_session_top(s, -1, KNOWN, top) == INFER_OK);
    }
    for (i = 0; i < FEW; i++) {
        CHECK(infer_session_rewind(s, PROMPT) == INFER_OK && infer_session_eval(s, &top[i].token, 1) == INFER_OK && infer_session_top(s, -1, FEW, next) == INFER_OK);
        for (k = 0, sum = 0; k < FEW; k++) sum += exp((double)next[k].logit - next[0].logit);
        for (k = 0; k < FEW; k++) want[i * FEW + k] = exp((double)next[k].logit - next[0].logit) / sum;
        for (k = 0; k < FEW; k++) o->positions[i * FEW + k] = next[k].token;
    }
    for (k = 0, sum = 0; k < FEW; k++) sum += exp((double)top[k].logit - top[0].logit);
    for (i = 0; i < FEW * FEW; i++) want[i] *= exp((double)top[i / FEW].logit - top[0].logit) / sum;
    memset(&p, 0, sizeof p);
    p.max_tokens = 2;
    p.ignore_end = 1;
    p.lookup = 1;
    for (i = 0; i < n && !check_bad; i++) {
        infer_token got[2];
        CHECK(infer_session_rewind(s, PROMPT) == INFER_OK && infer_generate(s, sampler, NULL, &p, &info) == INFER_OK);
        drafted += info.drafted;
        accepted += info.accepted;
        memcpy(got, infer_session_tokens(s) + PROMPT, sizeof got);
        for (k = 0; k < FEW * FEW && (got[0] != top[k / FEW].token || got[1] != o->positions[k]); k++) {}
        CHECK(k < FEW * FEW);
        if (k < FEW * FEW) seen[k]++;
    }
    for (i = 0; i < FEW * FEW; i++) chi += (seen[i] - n * want[i]) * (seen[i] - n * want[i]) / (n * want[i]);
    CHECK(chi < 50);
    CHECK(accepted > n / 20 && accepted < drafted);
    infer_sampler_destroy(sampler);
    infer_session_destroy(s);
    CHECK(infer_model_close(m) == INFER_OK);
    free(o);
}

static void test_draft_refused(void) {
    infer_model *m = cache_model("llama-dense"), *other = NULL;
    infer_session *s = m ? cells_session(m, 64, 0, 2) : NULL, *by;
    infer_generate_params p;
    infer_error e;
    memset(&p, 0, sizeof p);
    if (!s) return;
    p.draft_tokens = 65;
    CHECK(infer_generate(s, NULL, NULL, &p, NULL) == INFER_ERR_ARGUMENT);
    p.draft_tokens = 0;
    p.draft = s;
    CHECK(infer_generate(s, NULL, NULL, &p, NULL) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "draft is the session itself");
    if (infer_model_open(&other, check_data("models/stories260K.F32.gguf"), NULL, &e)) { check_note(__FILE__, __LINE__, e.message); return; }
    by = cells_session(other, 64, 0, 2);
    p.draft = by;
    CHECK(infer_generate(s, NULL, NULL, &p, NULL) == INFER_ERR_ARGUMENT);
    CHECK_HAS(infer_session_error(s)->message, "its vocabulary has");
    infer_session_destroy(by);
    infer_session_destroy(s);
    infer_model_close(m);
    infer_model_close(other);
}

static void suite_draft(void) {
    RUN(test_draft_same);
    RUN(test_draft_ends);
    RUN(test_draft_invocation);
    RUN(test_draft_distribution);
    RUN(test_draft_refused);
}
