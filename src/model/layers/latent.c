/* latent.c: latent attention (MLA; DeepSeek-V2, arXiv 2405.04434), absorbed.
 *
 * All heads read one latent row per position, and a rotated part of the key that they share:
 *     latent, k_pe = x W_kva;  latent = norm(latent);  q_nope, q_pe = (norm(x W_qa) W_qb, or x W_q) of each head
 *     score = q_nope (W_kb latent) + rotate(q_pe) rotate(k_pe);  y = W_vb (sum of weights * latent), of each head
 * The cache holds only latent and k_pe. W_kb is applied to the query and W_vb after the sum ("absorbed", section
 * 2.1.2), for prompts as well as single tokens, so that a row's result does not depend on the pass. This is attention
 * with one K/V head whose values are the front of its keys. An indexer may choose the positions that it reads
 * (indexer.c); k_pe may have a norm, and what heads give a gate (dots3-note).
 */
#include "../model.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void infer__latent_misfit(infer__keys *k, const char *name, int32_t value, int32_t least, int32_t most) {
    if (k->failed) return;
    k->failed = 1;
    infer__error(k->err, INFER_ERR_FORMAT, "key %s is %d, latent attention needs %d..%d here", infer__key_name(k, name),
                 (int)value, (int)least, (int)most);
}

/* Files from before the absorbed form name the widths of heads as others do. Since then key_length and value_length are
 * of the cache's rows, and widths of heads have keys of their own. */
static void infer__latent_keys(infer__keys *k, infer__layer *l) {
    const infer__hparams *hp = &k->m->hp;
    const infer__arch *a = infer__arch_of(k->m);
    int absorbed = infer__gguf_peek(k->g, infer__key_name(k, "attention.key_length_mla")) != NULL;
    int32_t width = hp->n_embd / l->n_head, cached_k, cached_v, rot;
    l->window = infer__mix_attention_window(k, l->index);
    l->gate = a->gate;
    l->latent_rank = infer__key_int(k, "attention.kv_lora_rank", 1, INFER__MAX_HEAD_DIM, 0, 1);
    l->latent_q_rank = infer__key_int(k, "attention.q_lora_rank", 0, INFER__MAX_DIM, 0, 0);
    cached_k = infer__key_int(k, "attention.key_length", 1, INFER__MAX_HEAD_DIM, absorbed ? 0 : width, 0);
    cached_v = absorbed && infer__words_have(a->idle, "attention.value_length")
                   ? 0
                   : infer__key_int(k, "attention.value_length", 1, INFER__MAX_HEAD_DIM, absorbed ? 0 : width, 0);
    l->latent_k = cached_k;
    l->latent_v = cached_v;
    if (absorbed) {
        l->latent_k = infer__key_int(k, "attention.key_length_mla", 1, INFER__MAX_HEAD_DIM, 0, 1);
        l->latent_v = infer__key_int(k, "attention.value_length_mla", 1, INFER__MAX_HEAD_DIM, 0, 1);
    }
    if (l->window) { /* sizes of their own */
        l->latent_rank = infer__key_int(k, "attention.kv_lora_rank_swa", 1, INFER__MAX_HEAD_DIM, l->latent_rank, 0);
        l->latent_k = infer__key_int(k, "attention.key_length_mla_swa", 1, INFER__MAX_HEAD_DIM, l->latent_k, 0);
        l->latent_v = infer__key_int(k, "attention.value_length_mla_swa", 1, INFER__MAX_HEAD_DIM, l->latent_v, 0);
        cached_k = infer__key_int(k, "attention.key_length_swa", 1, INFER__MAX_HEAD_DIM, cached_k, 0);
        cached_v = infer__key_int(k, "attention.value_length_swa", 1, INFER__MAX_HEAD_DIM, cached_v, 0);
    }
    rot = l->n_rot = infer__key_int(k, "rope.dimension_count", 2, INFER__MAX_HEAD_DIM, 0, 1);
    if (k->failed) return;
    if (rot % 2 != 0 || rot > l->latent_k)
        infer__latent_misfit(k, "rope.dimension_count", rot, 2, l->latent_k);
    if (l->latent_v < 1 || l->latent_v > INFER__MAX_HEAD_DIM)
        infer__latent_misfit(k, "attention.value_length", l->latent_v, 1, INFER__MAX_HEAD_DIM);
    if (l->latent_k > INFER__MAX_HEAD_DIM)
        infer__latent_misfit(k, "attention.key_length", l->latent_k, 1, INFER__MAX_HEAD_DIM);
    if (l->latent_rank + rot > INFER__MAX_HEAD_DIM)
        infer__latent_misfit(k, "attention.kv_lora_rank", l->latent_rank, 1, INFER__MAX_HEAD_DIM - rot);
    if (absorbed && cached_k && cached_k != l->latent_rank + rot)
        infer__latent_misfit(k, l->window ? "attention.key_length_swa" : "attention.key_length", cached_k,
                             l->latent_rank + rot, l->latent_rank + rot);
    if (absorbed && cached_v && cached_v != l->latent_rank)
        infer__latent_misfit(k, l->window ? "attention.value_length_swa" : "attention.value_length", cached_v,
                             l->latent_rank, l->latent_rank);
    if ((int64_t)l->n_head * (l->latent_rank + INFER__MAX(l->latent_k, l->latent_v)) > INFER__MAX_DIM)
        infer__latent_misfit(k, "attention.head_count", l->n_head, 1,
                             INFER__MAX_DIM / (l->latent_rank + INFER__MAX(l->latent_k, l->latent_v)));
    if (l->n_head_kv != 1 && l->n_head_kv != l->n_head)
        infer__latent_misfit(k, "attention.head_count_kv", l->n_head_kv, 1, 1);
    if (k->failed) return;
    l->n_head_kv = 1;
    l->dim_k = l->latent_rank + rot;
    l->dim_v = l->latent_rank;
    l->rope_kind = infer__key_layer(k, "attention.rope_pattern", l->index, 0, 1, 1) ? a->rope : INFER__ROPE_NONE;
    if (hp->clamp_kqv != 0) infer__key_unsupported(k, "attention.clamp_kqv", "not with latent attention");
    l->rope_base = l->window ? hp->rope_base_window : hp->rope_base;
    l->rope_scaled = 1;
    l->attn_scale = 1.0f / sqrtf((float)l->latent_k);
    if (hp->attn_scale != 0) l->attn_scale = hp->attn_scale;
    /* DeepSeek scales the scores of both parts where YaRN scales the rotated part: mscale_all_dim of its
     * configuration */
    if (hp->rope_scaling == INFER__SCALING_YARN && hp->rope_factor > 1 && hp->rope_log_mul != 0 && hp->yarn_ext != 0) {
        double mscale = 0.1 * hp->rope_log_mul * log(hp->rope_factor) + 1;
        l->attn_scale = (float)(l->attn_scale * mscale * mscale);
    }
    l->temp_scale = hp->temp_scale;
    if (l->temp_scale != 0)
        l->temp_floor = (float)infer__key_int(k, "attention.temperature_length", 1, 1 << 30, hp->rope_ctx, 0);
    infer__indexer_keys(k, l, 1);
}

static infer_result infer__latent_check(const infer_model *m, infer__layer *l, infer_error *err) {
    static const int16_t with_rank[] = { INFER__W_LATENT_Q_A, INFER__W_LATENT_Q_A_NORM, INFER__W_LATENT_Q_B };
    infer__weight *w = l->w;
    infer_result r = infer__need(l, INFER__W_LATENT_KV_A, err);
    int i;
    if (!r) r = infer__need(l, INFER__W_LATENT_KV_A_NORM, err);
    for (i = 0; i < 3 && !r; i++) {
        if (!w[INFER__W_LATENT_Q].type) r = infer__need(l, with_rank[i], err);
        else if (w[with_rank[i]].type) r = infer__no_use(m, l, w[with_rank[i]].name, err);
    }
    for (i = INFER__W_LATENT_K_B; i <= INFER__W_LATENT_V_B && !r; i++) {
        if (!w[INFER__W_LATENT_KV_B].type) r = infer__need(l, i, err);
        else if (w[i].type) r = infer__no_use(m, l, w[i].name, err);
    }
    if (!r && w[INFER__W_LATENT_Q].type && l->latent_q_rank)
        r = infer__error(err, INFER_ERR_FORMAT, "key %s.attention.q_lora_rank is %d, but tensor %s exists",
                         infer__arch_of(m)->name, (int)l->latent_q_rank, w[INFER__W_LATENT_Q].name);
    if (!r) r = infer__check_gate(m, l, INFER__W_LATENT_GATE, l->latent_v, err);
    if (!r) r = infer__indexer_check(m, l, err);
    if (r || w[INFER__W_LATENT_KV_B].type || l->latent_k > l->n_rot) return r;
    return infer__error(err, INFER_ERR_FORMAT, "key %s.rope.dimension_count is %d: nothing is left of %d for tensor %s",
                        infer__arch_of(m)->name, (int)l->n_rot, (int)l->latent_k, w[INFER__W_LATENT_K_B].name);
}

/* Values of a head's query that W_kb multiplies: all that are not rotated; if all are rotated, any (W_kb is zeros). */
static int32_t infer__latent_taken(const infer__layer *l) {
    return l->latent_k > l->n_rot ? l->latent_k - l->n_rot : l->n_rot;
}

/* The keys' half of attn_kv_b, transposed: per head [rank][nope] from [nope][rank]. Not all storage types can be
 * transposed directly, so it is F32. */
static infer_result infer__latent_split(infer_model *m, infer__layer *l, infer_error *err) {
    const infer__weight *both = &l->w[INFER__W_LATENT_KV_B];
    infer__weight *w = &l->w[INFER__W_LATENT_K_B];
    int32_t rank = l->latent_rank, nope = l->latent_k - l->n_rot, taken = infer__latent_taken(l), h, i, j;
    uint64_t n = (uint64_t)l->n_head * (uint64_t)rank * (uint64_t)taken;
    const char *removed;
    float *turned, *row;
    if (!both->type) return INFER_OK;
    turned = (float *)infer__arena_alloc(&m->arena, (n + (uint64_t)rank) * sizeof *turned);
    if (!turned) return infer__error(err, INFER_ERR_MEMORY, "no memory for the keys of %s", both->name);
    row = turned + n;
    if (both->data) memset(turned, 0, (size_t)n * sizeof *turned);
    for (h = 0; h < l->n_head && both->data; h++)
        for (i = 0; i < nope; i++) {
            uint64_t at = (uint64_t)h * (uint64_t)(nope + l->latent_v) + (uint64_t)i;
            both->type->decode((const char *)both->data + at * both->row_bytes, row, rank);
            for (j = 0; j < rank; j++)
                turned[((uint64_t)h * (uint64_t)rank + (uint64_t)j) * (uint64_t)taken + (uint64_t)i] = row[j];
        }
    memset(w, 0, sizeof *w);
    w->type = infer__quant_find(0, &removed); /* F32 */
    w->data = both->data ? turned : NULL; /* NULL: only sizes are asked for */
    w->rows = l->n_head * rank;
    w->cols = taken;
    w->row_bytes = (uint64_t)taken * sizeof *turned;
    w->name = both->name;
    return INFER_OK;
}

/* Floats a row: the query before W_qb, the query, the cache's row, the absorbed query, the heads' latent sums, and W_vb
 * times these; their gate; the indexer's. */
static int64_t infer__latent_cols(const infer_model *m, const infer__layer *l) {
    (void)m;
    return (int64_t)l->latent_q_rank + l->dim_k + l->w[INFER__W_LATENT_GATE].rows + infer__indexer_cols(l) +
           (int64_t)l->n_head * (l->latent_k + l->dim_k + l->latent_rank + l->latent_v);
}

/* One row a position; values are a part of it. */
static void infer__latent_state(infer_model *m, infer__layer *l, infer__part *p) {
    const int32_t group = l->window ? INFER__GROUP_WINDOW : INFER__GROUP_FULL;
    p->state[0] = p->state[1] = infer__state_add(m, l, INFER__STATE_KEYS, group, 1, l->dim_k);
    infer__indexer_state(m, l, p);
}

static void infer__latent_needs(const infer_model *m, const infer__layer *l, infer__needs *n) {
    (void)m;
    infer__need_attention(n, l->n_head, l->dim_k, l->dim_v);
    infer__need_cols(n, INFER__MAX(l->latent_q_rank, l->n_head * INFER__MAX(l->latent_k, l->latent_v)));
    n->n_placed = INFER__MAX(n->n_placed, l->n_head);
    n->placed_cols = INFER__MAX(n->placed_cols, INFER__MAX(l->latent_rank, infer__latent_taken(l)));
    infer__indexer_needs(l, n);
}

static const char *infer__latent_lacks(const infer__ops *ops, const infer__layer *l) {
    infer__attention_args a;
    infer__act_args copy;
    memset(&a, 0, sizeof a);
    memset(&copy, 0, sizeof copy);
    a.dim_k = l->dim_k;
    a.dim_v = l->dim_v;
    copy.kind = INFER__ACT_LINEAR;
    if (!ops->supports(INFER__OP_ATTENTION, &a) || !ops->supports(INFER__OP_ACT, &copy)) return "latent attention";
    return infer__indexer_lacks(ops, l);
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

static void infer__latent_rotate(infer_context *c, const infer__layer *l, const infer__tensor *t, int32_t first,
                                 int32_t n_head, int32_t dim) {
    infer__rope_args a;
    infer__tensor part = infer__columns(t, first, n_head * dim); /* the last head has only its rotated part */
    if (!infer__rope_of(c, l, &part, n_head, &a)) return;
    a.dim = dim;
    infer__ops_of(&c->ctx)->rope(&c->ctx, &a);
}

/* The rotated parts of queries, after the latent ones. */
static void infer__latent_queries(infer_context *c, const infer__layer *l, const infer__tensor *q,
                                  const infer__tensor *to) {
    infer__act_args a;
    memset(&a, 0, sizeof a);
    a.x = infer__columns(q, l->latent_k - l->n_rot, l->n_rot);
    a.y = infer__columns(to, l->latent_rank, l->n_rot);
    a.x.rows = a.y.rows = q->rows * l->n_head; /* a row a head */
    a.x.stride = l->latent_k;
    a.y.stride = l->dim_k;
    a.kind = INFER__ACT_LINEAR;
    infer__ops_of(&c->ctx)->act(&c->ctx, &a);
}

/* y = W x for each head: x and y, whose rows are as long as that, have heads x_step and y_step columns apart; its
 * matrix is w_rows rows, from row w_first of every w_step. */
typedef struct infer__latent_heads { int32_t x_step, y_step, w_step, w_first, w_rows, w_cols; } infer__latent_heads;

static void infer__latent_product(infer_context *c, const infer__layer *l, const infer__weight *w,
                                  const infer__latent_heads *a, const infer__tensor *x, const infer__tensor *y) {
    int32_t h;
    if (infer__fuses(&c->ctx) & INFER__FUSE_EXPERTS && a->w_step == a->w_rows && !w->low) { /* as experts of a row */
        infer__moe_matmul_args m;
        memset(&m, 0, sizeof m);
        m.x = *x;
        m.y = *y;
        m.x.rows = m.y.rows = x->rows * l->n_head;
        m.x.cols = a->w_cols;
        m.y.cols = a->w_rows;
        m.x.stride = a->x_step;
        m.y.stride = a->y_step;
        m.ids.rows = x->rows;
        m.w = w;
        m.rows = a->w_rows;
        m.n_used = l->n_head;
        m.per_expert_x = 1;
        infer__moe_matmul(&c->ctx, &m);
        return;
    }
    for (h = 0; h < l->n_head; h++) {
        infer__weight one = infer__slice_rows(w, (int64_t)h * a->w_step + a->w_first, a->w_rows);
        infer__tensor from = infer__columns(x, h * a->x_step, a->w_cols);
        infer__tensor to = infer__columns(y, h * a->y_step, a->w_rows);
        infer__product(c, &from, &one, NULL, &to);
    }
}

static void infer__mix_latent(infer_context *c, const infer__layer *l, infer__sublayer *s) {
    const infer__weight *w = l->w;
    int32_t n = s->x.rows, heads = l->n_head, lora = w[INFER__W_LATENT_Q].type == NULL;
    uint64_t at = 0, rows = (uint64_t)n;
    infer__tensor low, q, kv, wide, sums, y, gate, latent, shared;
    infer__latent_heads in, out;
    infer__weight values;
    infer__matmul_args mm;
    infer__kv_store_args store;
    infer__attention_args att;
    low = infer__view(&c->at->work, 0, n, l->latent_q_rank);
    q = infer__view(&c->at->work, at += rows * (uint64_t)l->latent_q_rank, n, heads * l->latent_k);
    kv = infer__view(&c->at->work, at += rows * (uint64_t)(heads * l->latent_k), n, l->dim_k);
    wide = infer__view(&c->at->work, at += rows * (uint64_t)l->dim_k, n, heads * l->dim_k);
    sums = infer__view(&c->at->work, at += rows * (uint64_t)(heads * l->dim_k), n, heads * l->latent_rank);
    y = infer__view(&c->at->work, at += rows * (uint64_t)(heads * l->latent_rank), n, heads * l->latent_v);
    gate = infer__view(&c->at->work, at + rows * (uint64_t)(heads * l->latent_v), n, w[INFER__W_LATENT_GATE].rows);
    latent = infer__columns(&kv, 0, l->latent_rank);
    shared = infer__columns(&kv, l->latent_rank, l->n_rot);

    if (l->index_of.heads || gate.cols) infer__sublayer_norm(c, s);
    memset(&mm, 0, sizeof mm);
    mm.x = s->x;
    mm.norm = s->norm;
    mm.n_w = 2;
    mm.w[0] = &w[lora ? INFER__W_LATENT_Q_A : INFER__W_LATENT_Q];
    mm.w[1] = &w[INFER__W_LATENT_KV_A];
    mm.y[0] = lora ? low : q;
    mm.y[1] = kv;
    infer__products(c, &mm);
    if (lora) {
        infer__sub_norm(c, l, INFER__W_LATENT_Q_A_NORM, &low);
        infer__product(c, &low, &w[INFER__W_LATENT_Q_B], NULL, &q);
    }
    infer__sub_norm(c, l, INFER__W_LATENT_KV_A_NORM, &latent);
    infer__sub_norm(c, l, INFER__W_LATENT_K_NORM, &shared);
    if (w[INFER__W_LATENT_KV_B].type)
        infer__give_input(c, &w[INFER__W_LATENT_KV_B], &latent); /* were it not absorbed */
    infer__latent_rotate(c, l, &shared, 0, 1, l->n_rot);
    infer__latent_rotate(c, l, &q, l->latent_k - l->n_rot, heads, l->latent_k);
    infer__trace(c, l->index, "q", &q);
    infer__trace(c, l->index, "latent", &kv);

    memset(&store, 0, sizeof store);
    store.k = kv;
    store.k_cache = &c->cache.bufs[s->part->state[0]];
    store.group = c->model->states[s->part->state[0]].group;
    store.n_head = 1;
    store.dim_k = l->dim_k;
    infer__kv_store(&c->ctx, &store);

    memset(&in, 0, sizeof in);
    in.x_step = l->latent_k;
    in.y_step = l->dim_k;
    in.w_step = in.w_rows = l->latent_rank;
    in.w_cols = infer__latent_taken(l);
    infer__latent_product(c, l, &w[INFER__W_LATENT_K_B], &in, &q, &wide);
    infer__latent_queries(c, l, &q, &wide);

    memset(&att, 0, sizeof att);
    att.q = wide;
    att.y = sums;
    att.k_cache = att.v_cache = store.k_cache;
    att.group = store.group;
    att.n_head = heads;
    att.n_head_kv = 1;
    att.dim_k = l->dim_k;
    att.dim_v = l->dim_v;
    att.window = l->window;
    att.sinks = infer__opt(&w[INFER__W_LATENT_SINKS]);
    att.scale = l->attn_scale;
    att.temp_scale = l->temp_scale;
    att.temp_floor = l->temp_floor;
    infer__indexer_run(c, l, s, &low, &att);
    infer__ops_of(&c->ctx)->attention(&c->ctx, &att);

    memset(&out, 0, sizeof out);
    out.x_step = out.w_cols = l->latent_rank;
    out.y_step = out.w_rows = out.w_step = l->latent_v;
    values = w[INFER__W_LATENT_V_B];
    if (w[INFER__W_LATENT_KV_B].type) {
        out.w_first = l->latent_k - l->n_rot;
        out.w_step += out.w_first;
        values = w[INFER__W_LATENT_KV_B];
        values.tensor = 0; /* its input has been given */
    }
    infer__latent_product(c, l, &values, &out, &sums, &y);
    if (gate.cols) {
        infer__product(c, &s->x, &w[INFER__W_LATENT_GATE], NULL, &gate);
        infer__gate(c, l->gate, &gate, &y);
    }
    infer__trace(c, l->index, "attn", &y);
    infer__last_product(c, &y, &w[INFER__W_LATENT_OUT], NULL, 1, s);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void infer__latent_describe(infer__text_out *o, const infer_model *m, const infer__layer *l, const char *in) {
    const char *norm = infer__norm_name(m);
    if (l->w[INFER__W_LATENT_Q].type) infer__text_add(o, "    q = %s Wq", in);
    else infer__text_add(o, "    q = %s(%s Wqa) Wqb", norm, in);
    infer__text_add(o, "  # %d heads of %d\n    c, k = %s Wkva;  c = %s(c)", (int)l->n_head, (int)l->latent_k, in,
                    norm);
    if (l->w[INFER__W_LATENT_K_NORM].type) infer__text_add(o, ";  k = %s(k)", norm);
    infer__text_add(o, "  # the cache: a latent of %d, %d rotated\n", (int)l->latent_rank, (int)l->n_rot);
    if (l->rope)
        infer__text_add(o, "    q, k = rotate(q, k)  # last %d of %d, %s, base %g%s\n", (int)l->n_rot, (int)l->latent_k,
                    l->rope_kind == INFER__ROPE_PAIRS ? "pairs" : "halves", l->rope_base,
                    m->hp.rope_scaling ? ", scaled" : "");
    infer__indexer_describe(o, l, in);
    infer__text_add(o, "    a = softmax((q Wkb, q) (c, k) * %g) c Wvb  # values of %d", l->attn_scale,
                    (int)l->latent_v);
    if (l->window) infer__text_add(o, ", of the last %d positions", (int)l->window);
    if (l->w[INFER__W_LATENT_SINKS].type) infer__text_add(o, ", a sink beside them");
    infer__text_add(o, "\n");
    if (l->w[INFER__W_LATENT_GATE].type)
        infer__text_add(o, "    a = a * %s(gate %s)\n", infer__act_name(l->gate), in);
    infer__text_add(o, "    a = a Wo\n");
}

static const infer__label INFER__LATENT_LABELS[] = {
    { INFER__W_LATENT_Q, "Wq" }, { INFER__W_LATENT_Q_A, "Wqa" }, { INFER__W_LATENT_Q_B, "Wqb" },
    { INFER__W_LATENT_KV_A, "Wkva" }, { INFER__W_LATENT_KV_B, "Wkvb" }, { INFER__W_LATENT_K_B, "Wkb" },
    { INFER__W_LATENT_V_B, "Wvb" }, { INFER__W_LATENT_OUT, "Wo" }, { 0, NULL } };
