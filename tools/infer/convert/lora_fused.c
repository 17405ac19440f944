/* lora_fused.c: a GGUF base with one tensor where the rows make several of the checkpoint's matrices. Views of the parts become views of the
 * whole, zeros where the adapter has no part; lora_pairs.c then puts their ranks side by side, as for any tensor that is made of several. */
#include "convert.h"

#include <string.h>

enum { MAX_PARTS = 3 };
static const struct {
    const char *whole, *parts[MAX_PARTS];
} FUSED[] = {
    {"attn_qkv.weight", {"attn_q.weight", "attn_k.weight", "attn_v.weight"}},
    {"ffn_gate_up_exps.weight", {"ffn_gate_exps.weight", "ffn_up_exps.weight"}}, /* of each expert */
};

typedef struct fused {
    lora *l;
    const file_tensor *whole; /* the base's */
    size_t parts[MAX_PARTS];  /* in l->to; SIZE_MAX = the adapter has none */
    uint64_t rows[MAX_PARTS];
    int n;
} fused;

static int refuse(const fused *f, const char *why) {
    return cli_fail(f->l->command, "%s: an adapter for parts of the base's tensor %s cannot be converted: %s", f->l->folder, f->whole->name, why) == CLI_DONE;
}

/* Rows of each part: of heads, as the base's keys say, or equally many. */
static int count_rows(fused *f) {
    const checkpoint *c = f->l->through;
    const uint64_t rows = f->whole->dims[1], q = c->n_head * c->head_dim, k = c->n_head_kv * c->head_dim;
    int i;
    for (i = 0; i < f->n; i++) f->rows[i] = rows / (uint64_t)f->n;
    if (f->n == MAX_PARTS) {
        if (q == 0 || k == 0 || q >= rows || k >= rows - q) return refuse(f, "which rows are Q's, K's and V's cannot be told");
        f->rows[0] = q;
        f->rows[1] = k;
        f->rows[2] = rows - q - k;
    } else if (rows % (uint64_t)f->n) return refuse(f, "its rows are no parts of one size");
    for (i = 0; i < f->n; i++) {
        const file_tensor *t = f->parts[i] == SIZE_MAX ? NULL : &f->l->to.tensors[f->parts[i]];
        if (t && (t->dims[0] != f->whole->dims[0] || t->dims[1] != f->rows[i] || t->dims[2] != f->whole->dims[2])) return refuse(f, "their shapes do not fit");
    }
    return 1;
}

/* Rows of expert e of a part: a view for each expert, or one whose first loop goes over them. */
static int add_part(const fused *f, made *to, int part, uint64_t e, st_tensor *any) {
    checkpoint *c = f->l->through;
    const uint64_t n_experts = f->whole->dims[2];
    const made *from = f->parts[part] == SIZE_MAX ? NULL : &c->made[f->parts[part]];
    size_t i, first = 0, end = from ? from->n_views : 1;
    int by_loop = 0, k;
    if (from && n_experts > 1) {
        by_loop = from->n_views == 1 && from->views[0].n_loops > 0 && from->views[0].loops[0].n == n_experts;
        if (!by_loop && from->n_views != n_experts) return refuse(f, "its values are in another order");
        first = by_loop ? 0 : (size_t)e;
        end = first + 1;
    }
    for (i = first; i < end; i++) {
        const view *its = from ? &from->views[i] : NULL;
        view *v = make_view(c, to, any, its ? its->first + (by_loop ? e * its->loops[0].step : 0) : 0);
        if (v == NULL) return 0;
        v->zeros = its == NULL || its->zeros;
        if (its == NULL) view_loop(v, f->rows[part] * f->whole->dims[0], 1);
        else v->from = its->from;
        for (k = by_loop; its && k < its->n_loops; k++) view_loop(v, its->loops[k].n, its->loops[k].step);
        for (k = 0; its && k < 2; k++) v->factor[k] = its->factor[k];
    }
    return 1;
}

static int fuse(fused *f) {
    lora *l = f->l;
    st_tensor *any = NULL;
    made *to;
    uint64_t e;
    size_t i;
    int k;
    if (!count_rows(f)) return 0;
    to = make(l->through, f->whole->name, f->whole->n_dims, f->whole->dims);
    if (to == NULL) return 0;
    for (k = 0; k < f->n; k++) {
        const made *part = f->parts[k] == SIZE_MAX ? NULL : &l->through->made[f->parts[k]];
        if (part && part->op != MADE_COPY) to->op = part->op; /* refused later */
        if (part && part->n_views) any = &l->through->st.tensors[part->views[0].from - l->through->st.tensors];
    }
    for (e = 0; any && e < f->whole->dims[2]; e++)
        for (k = 0; k < f->n; k++)
            if (!add_part(f, to, k, e, any)) return 0;
    for (i = l->to.n_tensors; i-- > 0;) {
        for (k = 0; k < f->n && f->parts[k] != i; k++) {}
        if (k == f->n) continue;
        made_drop(l->through, i, l->to.n_tensors - i - 1);
        file_drop_tensor(&l->to, i);
    }
    return 1;
}

/* The fused tensor of the base in which a tensor is a part that the base does not have by itself. */
static int find_whole(fused *f, const char *name) {
    char other[128];
    size_t row, i;
    int k;
    f->whole = NULL;
    if (file_find_tensor(&f->l->base, name)) return 0;
    for (row = 0; row < sizeof FUSED / sizeof FUSED[0]; row++)
        for (k = 0; k < MAX_PARTS && FUSED[row].parts[k]; k++) {
            const size_t n = strlen(name) - strlen(FUSED[row].parts[k]);
            if (!cli_ends_with(name, FUSED[row].parts[k]) || n >= 64) continue;
            snprintf(other, sizeof other, "%.*s%s", (int)n, name, FUSED[row].whole);
            f->whole = file_find_tensor(&f->l->base, other);
            if (f->whole == NULL) continue;
            for (f->n = 0; f->n < MAX_PARTS && FUSED[row].parts[f->n]; f->n++) {
                snprintf(other, sizeof other, "%.*s%s", (int)n, name, FUSED[row].parts[f->n]);
                for (i = 0; i < f->l->to.n_tensors && strcmp(f->l->to.tensors[i].name, other) != 0; i++) {}
                f->parts[f->n] = i < f->l->to.n_tensors ? i : SIZE_MAX;
            }
            return 1;
        }
    return 0;
}

int lora_fuse(lora *l) {
    fused f;
    size_t i = 0;
    memset(&f, 0, sizeof f);
    f.l = l;
    while (i < l->to.n_tensors) {
        if (!find_whole(&f, l->to.tensors[i].name)) i++;
        else if (!fuse(&f)) return 0;
        else i = 0; /* tensors have moved */
    }
    return 1;
}
