/* describe.c: a model's resolved layers as readable pseudo-code: printed by `infer info`, and the first thing to read
 * when a model's results are unexpected. */
#include "model.h"

struct infer__text_out { char *p; size_t cap, len; };

static void infer__text_add(infer__text_out *o, const char *format, ...) {
    char line[512];
    va_list v;
    size_t i, n;
    va_start(v, format);
    infer__format_cut(line, sizeof line, &n, format, v);
    va_end(v);
    n = strlen(line);
    for (i = 0; i < n; i++, o->len++)
        if (o->len + 1 < o->cap) o->p[o->len] = line[i];
}

static const char *infer__act_name(int32_t act) {
    static const char *const names[] = { "silu", "gelu_tanh", "gelu", "relu", "relu^2", "sigmoid", "tanh",
                                        "gelu_sigmoid", "softplus", "xielu", "", "situ" };
    return act >= 0 && (size_t)act < INFER__COUNT(names) ? names[act] : "?";
}

static const char *infer__norm_name(const infer_model *m) {
    return m->hp.norm == INFER__NORM_RMS ? "rms_norm" : "layer_norm";
}

/* A norm slot's name without "blk.%d." and ".weight". */
static void infer__describe_norm(infer__text_out *o, const infer_model *m, const char *y, const char *x, int slot,
                                 const char *name, const infer__layer *l) {
    infer__text_add(o, "    %s = %s(%s)", y, infer__norm_name(m), x);
    if (slot >= 0 && l->w[slot].type) infer__text_add(o, " * %s", name);
    infer__text_add(o, "\n");
}

/* Names of norms, independent of the file's. */
static const char *infer__norm_label(int slot) {
    return slot == INFER__W_ATTN_NORM        ? "attn_norm"
           : slot == INFER__W_FFN_NORM       ? "ffn_norm"
           : slot == INFER__W_ATTN_POST_NORM ? "attn_post_norm"
           : slot == INFER__W_INPUT_POST_NORM ? "post_norm"
           : slot == INFER__W_ATTN_OUT_NORM  ? "attn_output_norm"
           : slot == INFER__W_LAYER_OUT_NORM ? "layer_output_norm"
                                             : "ffn_post_norm";
}

static void infer__describe_part(infer__text_out *o, const infer_model *m, const infer__layer *l,
                                 const infer__part *p) {
    int stream = p->reads == INFER__READS_STREAM || p->reads == INFER__READS_BOTH;
    const char *in = stream ? "x" : p->reads == INFER__READS_KEPT ? "k" : "h";
    const char *y = p->kind->result;
    if (p->reads == INFER__READS_NORM) infer__describe_norm(o, m, "h", "x", p->norm, infer__norm_label(p->norm), l);
    p->kind->describe(o, m, l, in);
    if (p->post >= 0 && !p->keeps) infer__describe_norm(o, m, y, y, p->post, infer__norm_label(p->post), l);
}

static void infer__describe_layer(infer__text_out *o, const infer_model *m, const infer__layer *l) {
    const infer__label *w;
    char sum[64];
    size_t n = 0;
    int32_t i;
    for (i = 0; i < l->n_parts; i++) {
        const infer__part *p = &l->parts[i];
        infer__describe_part(o, m, l, p);
        if (p->keeps && p->after >= 0) infer__describe_norm(o, m, "x", "x", p->after, infer__norm_label(p->after), l);
        if (p->keeps) continue;
        n += infer__format(sum + n, sizeof sum - n, "%s%s", n ? " + " : "", p->kind->result);
        if (i + 1 < l->n_parts && l->parts[i + 1].beside) continue; /* added up together */
        infer__text_add(o, "    x = x + %s", sum);
        if (p->scale != 1) infer__text_add(o, " * %g", p->scale);
        infer__text_add(o, "\n");
        if (p->after >= 0) infer__describe_norm(o, m, "x", "x", p->after, infer__norm_label(p->after), l);
        n = 0;
    }
    for (i = 0; i < l->n_parts; i++)
        for (w = l->parts[i].kind->labels; w && w->text; w++)
            if (l->w[w->slot].type)
                infer__text_add(o, "    # %-12s %d x %d %s\n", w->text, (int)l->w[w->slot].rows,
                                (int)l->w[w->slot].cols, l->w[w->slot].type->name);
}

/* Would these two layers be described alike (except for types)? */
static int infer__layers_alike(const infer__layer *a, const infer__layer *b) {
    int i;
    for (i = 0; i < a->n_parts && i < b->n_parts; i++) {
        const infer__part *p = &a->parts[i], *q = &b->parts[i];
        if (p->kind != q->kind || p->norm != q->norm || p->post != q->post || p->after != q->after ||
            p->reads != q->reads || p->beside != q->beside || memcmp(&p->scale, &q->scale, sizeof p->scale) != 0)
            return 0;
    }
    for (i = 0; i < INFER__LAYER_SLOT_COUNT; i++)
        if (a->w[i].type != b->w[i].type || a->w[i].rows != b->w[i].rows || a->w[i].cols != b->w[i].cols) return 0;
    if (a->kv_from != b->kv_from || a->chunk != b->chunk || a->act_sparse != b->act_sparse ||
        memcmp(&a->act_limit, &b->act_limit, sizeof a->act_limit) != 0 ||
        memcmp(&a->expert_limit, &b->expert_limit, sizeof a->expert_limit) != 0)
        return 0;
    return a->window == b->window && a->rope == b->rope && a->rope_kind == b->rope_kind && a->n_head == b->n_head &&
           a->n_head_kv == b->n_head_kv && a->n_ff == b->n_ff && a->n_parts == b->n_parts;
}

static void infer__describe(infer__text_out *o, const infer_model *m) {
    const infer__hparams *hp = &m->hp;
    int32_t i, j;
    if (m->why_code) {
        infer__text_add(o, "sessions cannot be created: %s\n", m->why_not);
        return;
    }
    if (m->parts > 1) infer__text_add(o, "# part %d of %d of wide matrices\n", (int)m->part, (int)m->parts);
    if (infer__follows(m))
        infer__text_add(o, "x = rows of %s, elsewhere\n", m->first ? "the layers before" : "part 0");
    else infer__text_add(o, "x = embedding[token]");
    if (!infer__follows(m) && hp->embed_scale != 1) infer__text_add(o, " * %g", hp->embed_scale);
    if (m->w[INFER__W_POS_EMBD].type) infer__text_add(o, " + position[pos]");
    if (m->w[INFER__W_TOKEN_TYPES].type) infer__text_add(o, " + type[0 or 1]");
    if (!infer__follows(m)) infer__text_add(o, "  # %d tokens, width %d\n", (int)hp->n_vocab, (int)hp->n_embd);
    if (m->w[INFER__W_EMBD_NORM].type) infer__text_add(o, "x = %s(x) * embedding_norm\n", infer__norm_name(m));
    else if (hp->embed_norm_bare) infer__text_add(o, "x = %s(x)\n", infer__norm_name(m));
    for (i = m->first; i < m->end; i = j) {
        for (j = i + 1; j < m->end && infer__layers_alike(&m->layers[i], &m->layers[j]); j++) {}
        if (j == i + 1) infer__text_add(o, "layer %d:\n", (int)i);
        else infer__text_add(o, "layers %d to %d:\n", (int)i, (int)j - 1);
        infer__describe_layer(o, m, &m->layers[i]);
    }
    if (m->end < hp->n_layer)
        infer__text_add(o, "layers %d to %d: elsewhere\n", (int)m->end, (int)hp->n_layer - 1);
    if (infer__follows(m)) return;
    if (hp->encoder) {
        if (!hp->out_norm_off) infer__text_add(o, "x = %s(x) * output_norm\n", infer__norm_name(m));
        infer__pool_describe(o, m);
        return;
    }
    if (hp->out_norm_off) infer__text_add(o, "logits = x head");
    else infer__text_add(o, "logits = %s(x)%s head", infer__norm_name(m),
                         m->w[INFER__W_OUT_NORM].type ? " * output_norm" : "");
    if (m->w[INFER__W_OUTPUT].tensor == m->w[INFER__W_TOKEN_EMBD].tensor) infer__text_add(o, " (= embedding)");
    if (m->w[INFER__W_OUTPUT_B].type) infer__text_add(o, " + bias");
    if (hp->logit_scale != 1) infer__text_add(o, " * %g", hp->logit_scale);
    if (hp->final_softcap > 0) infer__text_add(o, ", capped at %g", hp->final_softcap);
    infer__text_add(o, "\n");
}

/* Write as much as fits to out, zero-terminated; returns the full length. */
static size_t infer__describe_to(const infer_model *m, char *out, size_t cap) {
    infer__text_out o;
    o.p = out;
    o.cap = cap;
    o.len = 0;
    infer__describe(&o, m);
    if (cap) out[INFER__MIN(o.len, cap - 1)] = 0;
    return o.len;
}
