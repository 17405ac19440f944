/* adapted.c: evaluating with adapters: the sets of sessions, positions and rows of a pass, and what they add.
 *
 * How:   a pass has runs of rows with the same set. Products (infer__products, infer__moe_products) and embeddings add
 *        each set's contribution for that tensor to the rows of its run, and the end of a layer adds its directions; no
 *        other code of a pass knows about adapters.
 * Rules: an adapter with an invocation (aLoRA) applies from the last occurrence of the invocation tokens to the end of
 *        what is being evaluated; before that its set applies without it. Each token of a draft counts as an eval of
 *        its own, as it would be without drafts. Cached tokens stay as they were evaluated.
 */
#include "model.h"

/* ---- sets -------------------------------------------------------------------------------------------------------- */

static void infer__adapter_set_drop(infer_context *c, infer__adapter_set *set) {
    infer__adapter_set **at = &c->adapter_sets;
    int32_t i;
    if (!set || --set->refs > 0) return;
    while (*at != set) at = &(*at)->next;
    *at = set->next;
    infer__adapter_set_drop(c, set->less);
    for (i = 0; i < set->n; i++) infer__atomic_add(&set->use[i].adapter->users, -1);
    infer__free(&c->model->mem, set);
}

static infer__adapter_set *infer__adapter_set_take(infer__adapter_set *set) {
    if (set) set->refs++;
    return set;
}

static int infer__adapter_use_same(const infer_adapter_use *a, const infer_adapter_use *b) {
    return a->adapter == b->adapter && a->scale == b->scale && a->first_layer == b->first_layer &&
           a->last_layer == b->last_layer;
}

/* The context's set of n adapters (NULL when there are none), with one more reference. */
static infer_result infer__adapter_set_make(infer_context *c, const infer_adapter_use *uses, int32_t n,
                                            infer__adapter_set **out, infer_error *err) {
    infer__adapter_set *set;
    int32_t i;
    *out = NULL;
    if (n == 0) return INFER_OK;
    for (set = c->adapter_sets; set; set = set->next) {
        for (i = 0; i < n && set->n == n && infer__adapter_use_same(&uses[i], &set->use[i]); i++) {}
        if (i == n) {
            *out = infer__adapter_set_take(set);
            return INFER_OK;
        }
    }
    set = (infer__adapter_set *)infer__calloc(&c->model->mem, 1, sizeof *set + (uint64_t)n * sizeof *uses);
    if (!set) return infer__error(err, INFER_ERR_MEMORY, "no memory for %d adapters", (int)n);
    memcpy(set->use, uses, (size_t)n * sizeof *uses);
    set->n = n;
    set->refs = 1;
    set->number = ++c->adapter_numbers;
    set->print = INFER__FNV;
    for (i = 0; i < n; i++) {
        const int32_t layers[2] = { uses[i].first_layer, uses[i].last_layer };
        infer__atomic_add(&uses[i].adapter->users, 1);
        set->print = infer__fnv(set->print, &uses[i].adapter->print, sizeof set->print);
        set->print = infer__fnv(set->print, &uses[i].scale, sizeof uses[i].scale);
        set->print = infer__fnv(set->print, layers, sizeof layers);
    }
    set->next = c->adapter_sets;
    c->adapter_sets = set;
    *out = set;
    return INFER_OK;
}

/* Buffers, on each device with layers, for what a set's adapters add to a product: A x of all adapters for three
 * matrices; on GPUs also B A x of one. */
static infer_result infer__adapter_room(infer_context *c, const infer_adapter_use *uses, int32_t n, infer_error *err) {
    const infer_model *m = c->model;
    const uint64_t batch = (uint64_t)c->plan.batch;
    uint64_t ranks = 0, most = 0, bytes;
    int32_t i, k;
    for (k = 0; k < n; k++)
        for (i = 0; i < uses[k].adapter->n_pairs; i++) {
            const infer__adapter_pair *p = &uses[k].adapter->pairs[i];
            const uint64_t rows = p->tensor + 1 == m->w[INFER__W_OUTPUT].tensor && !p->embeds
                                      ? (uint64_t)c->plan.head_rows
                                      : batch * (uint64_t)(p->n_expert ? m->hp.n_used : 1);
            most = INFER__MAX(most, rows * ((uint64_t)p->rank + (uint64_t)p->rows));
        }
    for (k = 0; k < n; k++) ranks += (uint64_t)uses[k].adapter->rank;
    for (i = 0; i < INFER__PLACES; i++) {
        infer__buf *room = &c->places[i].room, more;
        bytes = (i == INFER__ON_CPU ? 3 * batch * ranks : most) * sizeof(float);
        if (!infer__enter(c, i) || room->bytes >= bytes) continue;
        infer__error_clear(&c->ctx.error);
        if (!c->at->ops->alloc(&c->ctx, &more, bytes)) /* sessions continue with the smaller buffer */
            return infer__error(err, INFER_ERR_MEMORY, "no memory for what adapters add: %llu bytes",
                                (unsigned long long)bytes);
        c->at->ops->sync(&c->ctx);
        if (room->bytes) c->at->ops->release(&c->ctx, room);
        *room = more;
    }
    return INFER_OK;
}

/* Make a set of checked uses, and the set without the adapter that has an invocation. */
static infer_result infer__adapter_set_of(infer_context *c, const infer_adapter_use *uses, int32_t n,
                                          infer__adapter_set **out, infer_error *err) {
    infer_adapter_use less[INFER_MAX_ADAPTERS];
    infer_result r = INFER_OK;
    int32_t i, k = 0, waits = -1;
    *out = NULL;
    if (n < 0 || n > INFER_MAX_ADAPTERS || (n > 0 && !uses))
        return infer__error(err, INFER_ERR_ARGUMENT, "%d adapters: there may be 0 to %d", (int)n,
                            (int)INFER_MAX_ADAPTERS);
    for (i = 0; i < n; i++) {
        const infer_adapter *a = uses[i].adapter;
        if (!a || a->model != c->model || !infer__finite(uses[i].scale) || uses[i].first_layer < 0 ||
            uses[i].last_layer < 0)
            return infer__error(err, INFER_ERR_ARGUMENT, "adapter %d: %s", (int)i,
                                !a                      ? "it is NULL"
                                : a->model != c->model ? "it was opened for another model"
                                                       : "its scale or its layers are no numbers of such");
        if (a->n_invocation && waits >= 0)
            return infer__error(err, INFER_ERR_UNSUPPORTED, "adapters %d and %d both wait for an invocation",
                                (int)waits, (int)i);
        if (a->n_invocation) waits = i;
        else less[k++] = uses[i];
    }
    r = infer__adapter_room(c, uses, n, err);
    if (!r) r = infer__adapter_set_make(c, uses, n, out, err);
    if (r || waits < 0 || (*out)->waits) return r;
    r = infer__adapter_set_make(c, less, k, &(*out)->less, err);
    if (r) {
        infer__adapter_set_drop(c, *out);
        *out = NULL;
    } else (*out)->waits = uses[waits].adapter;
    return r;
}

static infer_result infer__adapters_default(infer_context *c, const infer_adapter_use *uses, int32_t n,
                                            infer_error *err) {
    infer__adapter_set *set;
    infer_result r = infer__adapter_set_of(c, uses, n, &set, err);
    if (r) return r;
    infer__adapter_set_drop(c, c->adapters);
    c->adapters = set;
    return INFER_OK;
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static infer_result infer__adapters_set(infer_session *s, const infer_adapter_use *uses, int32_t n, infer_error *err) {
    infer__adapter_set *set;
    infer_result r = infer__adapter_set_of(s->context, uses, n, &set, err);
    if (r) return r;
    infer__adapters_begin(s, set);
    if (s->source) infer__adapters_begin(s->source, set); /* of what it will encode */
    infer__adapter_set_drop(s->context, set);
    return INFER_OK;
}

static void infer__adapters_begin(infer_session *s, infer__adapter_set *set) {
    infer__adapter_set_take(set);
    infer__adapter_set_drop(s->context, s->adapters);
    s->adapters = set;
}

static void infer__adapters_cut(infer_session *s, int32_t n) {
    while (s->n_adapted && s->adapted[s->n_adapted - 1].from >= n)
        infer__adapter_set_drop(s->context, s->adapted[--s->n_adapted].set);
}

static void infer__adapters_end(infer_session *s) {
    infer__adapters_cut(s, 0);
    infer__adapter_set_drop(s->context, s->adapters);
    infer__free(&s->context->model->mem, s->adapted);
}

/* An eval adds at most two runs: before its adapter's invocation, and from there on. */
static int infer__adapters_reserve(infer_session *s) {
    infer__adapted *p;
    if ((!s->adapters && !s->n_adapted) || s->n_adapted + 2 <= s->adapted_cap) return 1;
    p = (infer__adapted *)infer__realloc(&s->context->model->mem, s->adapted, (uint64_t)s->n_adapted + 8, sizeof *p);
    if (!p) return 0;
    s->adapted = p;
    s->adapted_cap = s->n_adapted + 8;
    return 1;
}

/* Use this set from position `from` on; there is room for the run. */
static void infer__adapters_run(infer_session *s, int32_t from, infer__adapter_set *set) {
    infer__adapted *last = s->n_adapted ? &s->adapted[s->n_adapted - 1] : NULL;
    if (last ? last->set == set : !set) return;
    s->adapted[s->n_adapted].from = from;
    s->adapted[s->n_adapted++].set = infer__adapter_set_take(set);
}

static int infer__adapters_fork(infer_session *to, const infer_session *from) {
    int32_t i;
    infer__adapters_begin(to, from->adapters);
    if (!from->n_adapted) return 1;
    to->adapted = (infer__adapted *)infer__calloc(&to->context->model->mem, (uint64_t)from->n_adapted,
                                                  sizeof *to->adapted);
    if (!to->adapted) return 0;
    to->adapted_cap = to->n_adapted = from->n_adapted;
    memcpy(to->adapted, from->adapted, (size_t)from->n_adapted * sizeof *to->adapted);
    for (i = 0; i < to->n_adapted; i++) infer__adapter_set_take(to->adapted[i].set);
    return 1;
}

/* Token `at` of the session's tokens followed by the step's. */
static infer_token infer__adapters_token(const infer_session *s, const infer_step *st, int32_t at) {
    return at < s->n ? s->tokens[at] : st->tokens ? st->tokens[at - s->n] : -1;
}

/* The position from which the adapter with an invocation applies, INT32_MAX = not yet. */
static int32_t infer__adapters_invoked(const infer_session *s, const infer_step *st) {
    const infer_adapter *a = s->adapters->waits;
    const int32_t last = s->n + st->n - a->n_invocation;
    int32_t from, i, k;
    for (k = 0; k <= last; k++) {
        from = s->drafts ? k : last - k; /* one by one the first place counts, once it is whole */
        for (i = 0; i < a->n_invocation && infer__adapters_token(s, st, from + i) == a->invocation[i]; i++) {}
        if (i == a->n_invocation) return s->drafts ? from + i - 1 : from;
    }
    return INT32_MAX;
}

static void infer__adapters_commit(infer_session *s, const infer_step *st) {
    const int32_t from = s->adapters && s->adapters->waits ? infer__adapters_invoked(s, st) : s->n;
    if (from > s->n) infer__adapters_run(s, s->n, s->adapters->less);
    if (from < s->n + st->n) infer__adapters_run(s, INFER__MAX(from, s->n), s->adapters);
}

/* ---- rows of a pass ---------------------------------------------------------------------------------------------- */

static void infer__adapted_rows(infer_context *c, const infer_step *st, int32_t base, int32_t at, int32_t count) {
    const infer_session *s = st->session;
    int32_t first = c->ctx.pass.n_rows - count, from = -1, i, k;
    if (first == 0) c->n_adapted = 0;
    if (!s->adapters && !s->n_adapted && !c->n_adapted) return;
    if (s->adapters && s->adapters->waits) from = infer__adapters_invoked(s, st);
    for (i = 0; i < count; i++) {
        const int32_t pos = base + at + i;
        infer__adapter_set *set = s->adapters;
        if (set && from > pos) set = set->less;
        if (pos < s->n) { /* once more */
            for (k = 0, set = NULL; k < s->n_adapted && s->adapted[k].from <= pos; k++) set = s->adapted[k].set;
        }
        if (c->n_adapted ? c->adapted[c->n_adapted - 1].set == set : !set) continue;
        c->adapted[c->n_adapted].from = first + i;
        c->adapted[c->n_adapted++].set = set;
    }
}

static uint64_t infer__adapted_print(const infer_context *c, uint64_t hash) {
    int32_t i;
    for (i = 0; i < c->n_adapted; i++) {
        const int64_t run[2] = { c->adapted[i].from, c->adapted[i].set ? c->adapted[i].set->number : 0 };
        hash = infer__fnv(hash, run, sizeof run);
    }
    return hash;
}

/* What a set's adapter has for a weight, NULL = nothing. */
static const infer__adapter_pair *infer__adapted_pair(const infer_adapter_use *use, const infer__weight *w) {
    const infer_adapter *a = use->adapter;
    const int32_t at = w->tensor && a->pair_of ? a->pair_of[w->tensor - 1] : 0;
    return at && !a->pairs[at - 1].embeds ? &a->pairs[at - 1] : NULL;
}

static int infer__adapted_weight(const infer_context *c, const infer__weight *w) {
    int32_t i, k;
    for (i = 0; i < c->n_adapted; i++)
        for (k = 0; c->adapted[i].set && k < c->adapted[i].set->n; k++)
            if (infer__adapted_pair(&c->adapted[i].set->use[k], w)) return 1;
    return 0;
}

/* The buffer of an adapter where the pass is, NULL on the CPU. */
static const infer__buf *infer__adapted_buf(const infer_context *c, const infer_adapter *a) {
    const int32_t place = (int32_t)(c->at - c->places);
    return place == INFER__ON_CPU ? NULL : &a->device[place - INFER__ON_DEVICE];
}

/* Append a part: what `use` adds to rows [row, row + n) of y[of], the products of w; the first `skip` parts are left
 * out. 0 when there is no room. */
static int infer__adapted_part(const infer_context *c, infer__low_args *a, const infer_adapter_use *use,
                               const infer__weight *w, int32_t of, int32_t row, int32_t n, int32_t *skip) {
    const infer__adapter_pair *p = infer__adapted_pair(use, w);
    infer__low_part *part = &a->parts[a->n_parts];
    if (!p || use->scale == 0 || (*skip)-- > 0) return 1;
    if (a->n_parts == INFER__LOW_PARTS) return 0;
    a->n_parts++;
    part->of = of;
    part->row = row;
    part->rows = n;
    part->rank = p->rank;
    part->width = p->rows;
    part->first = w->first;
    part->kind = p->kind;
    part->scale = use->scale * p->scale;
    part->a = (const uint8_t *)p->a;
    part->b = (const uint8_t *)p->b;
    part->buf = infer__adapted_buf(c, use->adapter);
    part->a_at = p->a_at;
    part->b_at = p->b_at;
    return 1;
}

/* The set of row `from` of n, and how many rows from there on have the same. result >= 0: they are results of the pass,
 * from this one on, whose rows pass.out names; -1: rows of the pass. */
static infer__adapter_set *infer__adapted_run(const infer_context *c, int32_t from, int32_t n, int32_t result,
                                              int32_t *count) {
    infer__adapter_set *set = NULL;
    int32_t i, k;
    for (i = from; i < n; i++) {
        const int32_t row = result < 0 ? i : c->ctx.pass.out[result + i];
        infer__adapter_set *now = NULL;
        for (k = 0; k < c->n_adapted && c->adapted[k].from <= row; k++) now = c->adapted[k].set;
        if (i == from) set = now;
        else if (now != set) break;
    }
    *count = i - from;
    return set;
}

static int infer__adapted_parts(infer_context *c, const infer__matmul_args *mm, int32_t result, int32_t skip,
                                infer__low_args *a) {
    int32_t from, n, i, k, ok = 1;
    memset(a, 0, sizeof *a);
    a->room = &c->at->room;
    a->x = mm->x;
    for (i = 0; i < mm->n_w; i++) a->y[i] = mm->y[i];
    for (from = 0; from < mm->x.rows && ok; from += n) {
        const infer__adapter_set *set = infer__adapted_run(c, from, mm->x.rows, result, &n);
        for (k = 0; set && k < set->n && ok; k++)
            for (i = 0; i < mm->n_w && ok; i++)
                ok = infer__adapted_part(c, a, &set->use[k], mm->w[i], i, from, n, &skip);
    }
    return !ok;
}

static void infer__adapted_experts(infer_context *c, const infer__moe_matmul_args *m) {
    infer__low_args a;
    int32_t from, n, k, skip, done = 0, ok;
    do {
        memset(&a, 0, sizeof a);
        a.room = &c->at->room;
        a.x = m->x;
        a.y[0] = m->y;
        a.ids = m->ids;
        a.weights = m->weights;
        a.n_expert = m->w->rows / m->rows;
        a.n_used = m->n_used;
        a.per_expert_x = m->per_expert_x;
        for (from = 0, skip = done, ok = 1; from < m->ids.rows && ok; from += n) {
            const infer__adapter_set *set = infer__adapted_run(c, from, m->ids.rows, -1, &n);
            for (k = 0; set && k < set->n && ok; k++)
                ok = infer__adapted_part(c, &a, &set->use[k], m->w, 0, from, n, &skip);
        }
        if (a.n_parts) c->ctx.ops->low(&c->ctx, &a);
        done += a.n_parts;
    } while (!ok);
}

/* y += scale * B times the rows of A that ids name, on the CPU. */
static void infer__adapted_embed_host(infer_context *c, const infer__adapter_pair *p, float scale,
                                      const infer__tensor *x, int32_t from, int32_t n) {
    const int32_t *ids = p->embeds == INFER__EMBEDS_TYPES ? c->ctx.pass.looked : c->ctx.pass.ids;
    int32_t i;
    for (i = from; i < from + n; i++) {
        const int32_t id = ids[i];
        if (id >= 0)
            c->ctx.kernels->mix(infer__row(x, i), 0, 1, p->b, p->kind, 0,
                                (const float *)p->a + (int64_t)id * p->rank, p->rank, p->rank, scale, p->rows);
    }
}

/* The same on a device. Rows without an id get nothing: their low rows are zeroed. */
static void infer__adapted_embed_device(infer_context *c, const infer_adapter *a, const infer__adapter_pair *p,
                                        float scale, const infer__tensor *x, int32_t from, int32_t n) {
    const infer__ops *ops = c->at->ops;
    infer__embed_args e;
    infer__low_part part;
    infer__weight table, up;
    infer__matmul_args m;
    infer__add_args add;
    const int32_t *ids;
    int32_t i, end;
    memset(&part, 0, sizeof part);
    part.buf = infer__adapted_buf(c, a);
    table = infer__low_matrix(&part, p->a_at, p->cols, p->rank);
    up = infer__low_matrix(&part, p->b_at, p->rows, p->rank);
    memset(&e, 0, sizeof e);
    e.y = infer__view(&c->at->room, 0, x->rows, p->rank);
    e.table = &table;
    e.scale = 1;
    e.looked = p->embeds == INFER__EMBEDS_TYPES;
    ids = e.looked ? c->ctx.pass.looked : c->ctx.pass.ids;
    ops->embed(&c->ctx, &e);
    for (i = from; i < from + n; i = end + 1) {
        for (end = i; end < from + n && ids[end] >= 0; end++) {}
        if (end == i) continue;
        memset(&m, 0, sizeof m);
        m.x = infer__some_rows(&e.y, i, end - i);
        m.n_w = 1;
        m.w[0] = &up;
        m.y[0] = infer__view(&c->at->room, (uint64_t)x->rows * (uint64_t)p->rank, end - i, p->rows);
        ops->matmul(&c->ctx, &m);
        add.x = m.y[0];
        add.y = infer__some_rows(x, i, end - i);
        add.scale = scale;
        ops->add(&c->ctx, &add);
    }
}

static void infer__adapted_embed(infer_context *c, int32_t embeds, float scale, const infer__tensor *x) {
    const int slot = embeds == INFER__EMBEDS_TYPES ? INFER__W_TOKEN_TYPES : INFER__W_TOKEN_EMBD;
    const int32_t tensor = c->model->w[slot].tensor;
    int32_t from, n, k;
    for (from = 0; c->n_adapted && from < x->rows; from += n) {
        const infer__adapter_set *set = infer__adapted_run(c, from, x->rows, -1, &n);
        for (k = 0; set && k < set->n; k++) {
            const infer_adapter *a = set->use[k].adapter;
            const int32_t at = a->pair_of && tensor ? a->pair_of[tensor - 1] : 0;
            const infer__adapter_pair *p = at ? &a->pairs[at - 1] : NULL;
            if (!p || set->use[k].scale == 0) continue;
            if (x->buf->host) infer__adapted_embed_host(c, p, set->use[k].scale * p->scale * scale, x, from, n);
            else infer__adapted_embed_device(c, a, p, set->use[k].scale * p->scale * scale, x, from, n);
        }
    }
}

static void infer__adapted_layer(infer_context *c, int32_t layer, const infer__tensor *x) {
    int32_t from, n, k;
    if (layer >= c->model->hp.n_layer) return; /* directions belong to layers, not to prediction blocks */
    for (from = 0; c->n_adapted && from < x->rows; from += n) {
        const infer__adapter_set *set = infer__adapted_run(c, from, x->rows, -1, &n);
        for (k = 0; set && k < set->n; k++) {
            const infer_adapter_use *use = &set->use[k];
            const infer_adapter *a = use->adapter;
            infer__buf host;
            infer__add_args add;
            if (!a->control || !a->directions[layer] || use->scale == 0 || layer < use->first_layer ||
                (use->last_layer && layer > use->last_layer))
                continue;
            memset(&host, 0, sizeof host);
            host.host = a->directions[layer];
            add.y = infer__some_rows(x, from, n);
            add.x = add.y; /* every row the same */
            add.x.stride = 0;
            add.x.buf = c->at == &c->places[INFER__ON_CPU] ? &host : (infer__buf *)(uintptr_t)infer__adapted_buf(c, a);
            add.x.offset = add.x.buf == &host ? 0 : a->direction_at[layer];
            add.scale = use->scale;
            c->at->ops->add(&c->ctx, &add);
        }
    }
}

/* ---- saved sessions ---------------------------------------------------------------------------------------------- */

static void infer__adapters_words(const infer__adapted *run, uint32_t words[INFER__ADAPTED_WORDS]) {
    const uint64_t print = run->set ? run->set->print : 0;
    words[0] = (uint32_t)run->from;
    words[1] = (uint32_t)print;
    words[2] = (uint32_t)(print >> 32);
}

/* Convert the words of a saved state of `tokens` tokens to runs with sets of the context. */
static infer_result infer__adapters_find(const infer_session *s, const char *data, int32_t n, uint32_t tokens,
                                         infer__adapted *runs, infer_error *err) {
    uint32_t words[INFER__ADAPTED_WORDS];
    int32_t i;
    for (i = 0; i < n; i++) {
        infer__adapter_set *set = s->context->adapter_sets;
        uint64_t print;
        memcpy(words, data + (size_t)i * sizeof words, sizeof words);
        print = words[1] | (uint64_t)words[2] << 32;
        if (!print) set = NULL;
        if (words[0] >= tokens || (i > 0 && (int32_t)words[0] <= runs[i - 1].from))
            return infer__error(err, INFER_ERR_FORMAT, "infer_session_load: adapters from position %u on",
                                (unsigned)words[0]);
        while (set && set->print != print) set = set->next;
        if (print && !set)
            return infer__error(err, INFER_ERR_ARGUMENT,
                                "infer_session_load: saved with adapters that the session does not have: set them "
                                "first, with the same scales");
        runs[i].from = (int32_t)words[0];
        runs[i].set = set;
    }
    return INFER_OK;
}

/* The session takes them over, `runs` too. */
static void infer__adapters_load(infer_session *s, infer__adapted *runs, int32_t n) {
    int32_t i;
    for (i = 0; i < n; i++) infer__adapter_set_take(runs[i].set);
    infer__adapters_cut(s, 0);
    infer__free(&s->context->model->mem, s->adapted);
    s->adapted = runs;
    s->n_adapted = s->adapted_cap = n;
}
