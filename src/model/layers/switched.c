/* switched.c: adapters by token (Granite Switch): matrix products get a low-rank addition, B A x, of the adapter that
 * tokens of the text have switched on. * Method: a file has n + 1 pairs of A (rank rows) and B for each matrix, pair 0
 * for rows without a preceding switch token. A row's pair is the mean of the numbers (1..n) of the adapters whose
 * tokens came up to it, rounded;
 *        every other token counts as e^(-2 gain) zeros. That is softmax, in float32, over scores of +gain and -gain,
 *        as the model is published and llama.cpp computes it; usually the number of the one token there is. The
 *        embedding of such a token is that of a substitute.
 * Rules: a row's pair is computed from the session's tokens, so rewinds, forks and saved sessions need no further
 *        state. All rows have an addition: pair 0 of a file need not be 0.
 */
#include "../model.h"

enum { INFER__MAX_SWITCHES = 4096 };

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* An array of hp->switches.n ids of the vocabulary, into the arena. */
static int32_t *infer__switch_ids(infer__keys *k, const infer__hparams *hp, const char *name) {
    const uint64_t n = (uint64_t)hp->switches.n, vocab = infer__shape_of(k->m, "token_embd.weight", 1);
    const infer__kv *kv = k->failed ? NULL : infer__gguf_find(k->g, infer__key_name(k, name));
    int32_t *ids = NULL;
    if (!k->failed) k->failed = infer__key_ids(&k->m->arena, kv, k->key, n, vocab, &ids, k->err) != INFER_OK;
    return ids;
}

static void infer__switch_keys(infer__keys *k, infer__hparams *hp) {
    infer__switches *s = &hp->switches;
    const int32_t *ids;
    const uint64_t vocab = infer__shape_of(k->m, "token_embd.weight", 1);
    int32_t i;
    s->n = infer__key_int(k, "adapters.count", 1, INFER__MAX_SWITCHES, 0, 1);
    s->rank = infer__key_int(k, "adapters.lora_rank", 1, INFER__MAX_DIM, 0, 1);
    s->other = expf(-2 * infer__key_positive(k, "adapters.router_gain", 15));
    ids = infer__switch_ids(k, hp, "adapters.token_ids_activate");
    s->substitute = infer__switch_ids(k, hp, "adapters.token_ids_substitute");
    if (k->failed) return;
    s->of = (uint16_t *)infer__arena_alloc(&k->m->arena, vocab * sizeof *s->of);
    if (!s->of) {
        k->failed = 1;
        infer__error(k->err, INFER_ERR_MEMORY, "no memory for %d adapters", (int)s->n);
        return;
    }
    memset(s->of, 0, (size_t)vocab * sizeof *s->of);
    for (i = 0; i < s->n; i++) {
        if (s->of[ids[i]]) {
            infer__key_misfit(k, "adapters.token_ids_activate", "names a token twice");
            return;
        }
        s->of[ids[i]] = (uint16_t)(i + 1);
    }
}

/* The matrices of slots first, first + step, .. (n of them) get those of the slots from `a` on. */
static void infer__switch_set(infer_model *m, infer__layer *l, int first, int step, int n, int a) {
    infer__hparams *hp = &m->hp;
    int i;
    if (!hp->switches.n) return;
    for (i = 0; i < n; i++) {
        infer__weight *w = &l->w[first + i * step];
        w->low = &l->w[a + 2 * i];
        hp->pass_kept = INFER__MAX(hp->pass_kept, 1 + (int64_t)hp->switches.rank + w->rows);
    }
}

static void infer__switch_needs(const infer_model *m, const infer__layer *l, int a, int n, infer__needs *needs) {
    int i;
    if (!m->hp.switches.n) return;
    infer__need_cols(needs, m->hp.switches.rank);
    for (i = 0; i < 2 * n; i++) infer__need_experts(needs, &l->w[a + i], m->hp.switches.n + 1, 1, 0);
}

static void infer__switch_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, int slot,
                                   const char *names) {
    if (l->w[slot].low)
        infer__text_add(o, "    # %s: W x + B A x of rank %d, one of %d by the tokens before\n", names,
                        (int)m->hp.switches.rank, (int)m->hp.switches.n + 1);
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* How many tokens came, how many of them switch, and the sum of their adapters. */
typedef struct infer__switch_count { int32_t seen, active, sum; } infer__switch_count;

static void infer__switch_see(infer__switch_count *at, const infer__switches *s, const infer_token *tokens, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) {
        const int32_t of = tokens && tokens[i] >= 0 ? s->of[tokens[i]] : 0;
        at->active += of != 0;
        at->sum += of;
    }
    at->seen += n;
}

/* The pairs of the rows that infer__pass_add added: tokens `at` .. of a step at position base. */
static void infer__switch_rows(infer_context *c, const infer_step *st, int32_t base, int32_t at, int32_t count) {
    const infer__switches *s = &c->model->hp.switches;
    infer__pass *p = &c->ctx.pass;
    infer__switch_count seen = { 0, 0, 0 };
    int32_t i;
    if (!s->n) return;
    infer__switch_see(&seen, s, st->session->tokens, base);
    infer__switch_see(&seen, s, st->tokens, at);
    for (i = 0; i < count; i++) {
        const int32_t r = p->n_rows - count + i;
        float mean = 0; /* the others may count for nothing */
        infer__switch_see(&seen, s, st->tokens ? st->tokens + at + i : NULL, 1);
        if (seen.active) mean = (float)seen.sum / ((float)seen.active + (float)(seen.seen - seen.active) * s->other);
        c->row_switch[r] = (int32_t)floorf(mean + 0.5f);
        if (p->ids[r] >= 0 && s->of[p->ids[r]]) p->ids[r] = s->substitute[s->of[p->ids[r]] - 1];
    }
}

/* To where the layers find them. */
static void infer__switch_begin(infer_context *c, int32_t rows) {
    const infer__tensor ids = infer__pass_kept(c, rows, 0, rows, 1);
    if (c->model->hp.switches.n)
        c->ctx.ops->upload(&c->ctx, ids.buf, ids.offset, c->row_switch, (uint64_t)rows * sizeof(int32_t));
}

/* y += B A x, with the rows' pairs. */
static void infer__switch_add(infer_context *c, const infer__tensor *x, const infer__weight *w,
                              const infer__tensor *y) {
    const int32_t rows = x->rows, rank = c->model->hp.switches.rank;
    const infer__tensor low = infer__pass_kept(c, rows, 1, rows, rank);
    const infer__tensor more = infer__pass_kept(c, rows, 1 + (int64_t)rank, rows, y->cols);
    infer__moe_matmul_args a;
    memset(&a, 0, sizeof a);
    a.ids = infer__pass_kept(c, rows, 0, rows, 1);
    a.n_used = 1;
    a.x = *x;
    a.y = low;
    a.w = &w->low[0];
    a.rows = rank;
    infer__moe_matmul(&c->ctx, &a);
    a.x = low;
    a.y = more;
    a.w = &w->low[1];
    a.rows = y->cols;
    infer__moe_matmul(&c->ctx, &a);
    infer__add_to(c, &more, y);
}
