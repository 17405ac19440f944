/* walks.c: random walks of a grammar's mask on a real model, by the public API alone.
 *
 *     walks MODEL SEED COUNT < schemas        one JSON Schema a line
 *
 * prints COUNT lines for each schema: the text that came out, in hex, or "error MESSAGE". The temperature is high, so that
 * the grammar and not the model decides; after 60 tokens those that close something are preferred, since a random walk
 * through a recursive schema need not end. tests/cli/test_schema.py validates the texts. */
#define INFER_IMPLEMENTATION
#include "../src/infer_all.c"
#include <stdio.h>
#include <stdlib.h>

enum { WALK_CLOSE = 60, WALK_MOST = 4000 };

typedef struct walk { infer_model *model; int n; } walk;

/* 1 = the token only closes: quotes, brackets, braces; or it ends the text. */
static int walk_closes(const walk *w, infer_token token) {
    char text[64];
    size_t len = 0, i;
    if (infer_token_flags(w->model, token) & INFER_TOKEN_END) return 1;
    if (infer_token_text(w->model, token, text, sizeof text, &len) != INFER_OK || len == 0 || len > sizeof text) return 0;
    for (i = 0; i < len; i++) if (!strchr("\"]}", text[i])) return 0;
    return 1;
}
static int32_t walk_stage(void *user, infer_candidate *c, int32_t n) {
    walk *w = (walk *)user;
    int32_t i;
    for (i = 0; w->n > WALK_CLOSE && i < n; i++) if (walk_closes(w, c[i].token)) c[i].logit += 100;
    return n;
}

static int walk_once(walk *w, infer_session *session, infer_sampler *sampler, infer_error *err) {
    char text[64];
    infer_token token = infer_token_special(w->model, INFER_SPECIAL_BOS);
    size_t len, i;
    w->n = 0;
    infer_sampler_reset(sampler);
    if (infer_session_rewind(session, 0) != INFER_OK) return 0;
    while (w->n++ < WALK_MOST) {
        if (infer_session_position(session) == infer_session_capacity(session)) infer_session_rewind(session, 0);
        if (infer_session_eval(session, &token, 1) != INFER_OK || infer_session_sample(session, sampler, 0, &token) != INFER_OK) {
            *err = *infer_session_error(session);
            return 0;
        }
        if (infer_token_flags(w->model, token) & INFER_TOKEN_END) {
            printf("\n");
            return 1;
        }
        if (infer_token_text(w->model, token, text, sizeof text, &len) != INFER_OK || len > sizeof text) len = 0;
        for (i = 0; i < len; i++) printf("%02x", (uint8_t)text[i]);
    }
    snprintf(err->message, sizeof err->message, "no end after %d tokens", WALK_MOST);
    return 0;
}

int main(int argc, char **argv) {
    static char line[1 << 20];
    infer_error err;
    infer_session *session = NULL;
    walk w;
    int i, count = argc > 3 ? atoi(argv[3]) : 0;
    uint64_t seed = argc > 3 ? (uint64_t)atol(argv[2]) : 0;
    memset(&w, 0, sizeof w);
    if (argc != 4) return fprintf(stderr, "usage: walks MODEL SEED COUNT < schemas\n") > 0;
    if (infer_model_open(&w.model, argv[1], NULL, &err) != INFER_OK || infer_session_create(&session, w.model, NULL, &err) != INFER_OK)
        return fprintf(stderr, "%s\n", err.message) > 0;
    while (fgets(line, sizeof line, stdin)) {
        infer_grammar_params p;
        infer_grammar *grammar = NULL;
        infer_sampler *sampler = NULL;
        infer_stage stages[3];
        memset(&p, 0, sizeof p);
        memset(stages, 0, sizeof stages);
        p.schema = line;
        stages[0].kind = INFER_STAGE_GRAMMAR;
        stages[1].kind = INFER_STAGE_CUSTOM;
        stages[1].fn = walk_stage;
        stages[1].user = &w;
        stages[2].kind = INFER_STAGE_TEMPERATURE;
        stages[2].p[0] = 4;
        if (infer_grammar_create(&grammar, w.model, &p, &err) != INFER_OK) {
            printf("error %s\n", err.message);
            continue;
        }
        stages[0].grammar = grammar;
        for (i = 0; i < count; i++) {
            if (infer_sampler_create(&sampler, w.model, stages, 3, seed++, &err) != INFER_OK ||
                !walk_once(&w, session, sampler, &err))
                printf("error %s\n", err.message);
            infer_sampler_destroy(sampler);
            sampler = NULL;
        }
        infer_grammar_destroy(grammar);
    }
    infer_session_destroy(session);
    return infer_model_close(w.model) != INFER_OK;
}
