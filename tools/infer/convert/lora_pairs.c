/* lora_pairs.c: A and B of the model's matrices from those of the checkpoint's. A matrix T of the model was made from views of matrices W of
 * the checkpoint, which are loops over W's values. W += B A: where a row of T is a row of W, its row of T's B is that row of W's B, and a
 * column of T is a column of A; where T is W transposed they change places. If T is made of several W, their ranks are side by side: rows
 * of T's B have zeros at the ranks of other W. */
#include "convert.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LOOPS = 2 * VIEW_LOOPS, MAX_BLOCKS = 64 };
enum { ROWS, COLS, EXPERTS, N_AXES }; /* of T, or of W */

typedef struct loop {
    uint64_t n, step;
} loop;
/* The places of T's rows (or columns) on one axis of W. */
typedef struct path {
    loop loops[MAX_LOOPS];
    int n, axis; /* axis -1: it is one place */
} path;
/* Rows of T, or of one of its experts, that come from one W. */
typedef struct part {
    const view *v;
    size_t module;
    uint64_t expert, n_rows;
    uint64_t first[N_AXES]; /* where in W they begin */
    path rows, cols;
} part;
/* Ranks of an expert of T that are those of a W. */
typedef struct block {
    const part *of; /* the first part that has it */
    uint64_t first;
} block;

typedef struct pairs {
    lora *l;
    const file_tensor *t;
    part *parts;
    size_t n_parts;
    uint64_t rank; /* of T */
} pairs;

static int refuse(const pairs *p, const char *why) { return cli_fail(p->l->command, "%s: an adapter for tensor %s cannot be converted: %s", p->l->folder, p->t->name, why) == CLI_DONE; }

/* ---- from views to parts -------------------------------------------------------------------------- */

/* Cuts the loops so that the inner ones, from *at on, make `size` steps. */
static int cut(loop *loops, int *n, uint64_t size, int *at) {
    uint64_t left = size; /* steps that the loops from *at on do not make yet */
    for (*at = *n; left > 1; --*at) {
        loop *l = loops + *at - 1;
        if (*at == 0) return 0;
        if (l->n <= left) {
            if (left % l->n != 0) return 0;
            left /= l->n;
            continue;
        }
        if (l->n % left != 0 || *n == MAX_LOOPS) return 0;
        memmove(l + 1, l, (size_t)(*n - *at + 1) * sizeof *l);
        ++*n;
        l[1].n = left;
        l[0].n /= left;
        l[0].step *= left;
        return 1;
    }
    return 1;
}

/* Loops that all go along one axis of W. */
static int path_of(const loop *loops, int n, const uint64_t sizes[N_AXES], path *out) {
    int i;
    out->n = 0;
    out->axis = -1;
    for (i = 0; i < n; i++) {
        loop l = loops[i];
        int axis = COLS;
        if (l.n == 1) continue;
        if (l.step == 0) return 0;
        if (l.n - 1 > (sizes[COLS] - 1) / l.step) {
            axis = ROWS;
            if (l.step % sizes[COLS] != 0) return 0;
            l.step /= sizes[COLS];
            if (l.n - 1 > (sizes[ROWS] - 1) / l.step) return 0;
        }
        if (out->axis >= 0 && out->axis != axis) return 0;
        out->axis = axis;
        out->loops[out->n++] = l;
    }
    return 1;
}

static int in_range(const path *p, uint64_t first, uint64_t size) {
    int i;
    for (i = 0; i < p->n; i++) {
        const uint64_t last = (p->loops[i].n - 1) * p->loops[i].step;
        if (last >= size || first >= size - last) return 0;
        first += last;
    }
    return first < size;
}

static part *add_part(pairs *p) {
    if ((p->n_parts & (p->n_parts - 1)) == 0) {
        part *grown = cli_grow(p->l->command, p->parts, p->n_parts ? 2 * p->n_parts : 1, sizeof *grown);
        if (grown == NULL) return NULL;
        p->parts = grown;
    }
    memset(&p->parts[p->n_parts], 0, sizeof *p->parts);
    return &p->parts[p->n_parts++];
}

/* One part: rows of one expert. at: its first value in W. */
static int one_part(pairs *p, const view *v, uint64_t expert, uint64_t n_rows, uint64_t at, const loop *loops, int n_rows_loops, int n) {
    const st_tensor *w = v->from;
    const uint64_t sizes[N_AXES] = {w->n_dims < 2 ? 1 : w->dims[w->n_dims - 2], w->dims[w->n_dims - 1], w->n_dims > 2 ? w->dims[0] : 1};
    part *it = add_part(p);
    if (it == NULL) return 0;
    it->v = v;
    it->module = (size_t)(w - p->l->through->st.tensors);
    it->expert = expert;
    it->n_rows = n_rows;
    if (v->zeros) return 1;
    if (!path_of(loops, n_rows_loops, sizes, &it->rows) || !path_of(loops + n_rows_loops, n - n_rows_loops, sizes, &it->cols)) return refuse(p, "its values are in another order");
    if (it->rows.axis < 0) it->rows.axis = it->cols.axis == ROWS ? COLS : ROWS;
    if (it->cols.axis < 0) it->cols.axis = it->rows.axis == ROWS ? COLS : ROWS;
    it->first[COLS] = at % sizes[COLS];
    it->first[ROWS] = at / sizes[COLS] % sizes[ROWS];
    it->first[EXPERTS] = at / sizes[COLS] / sizes[ROWS];
    if (it->rows.axis == it->cols.axis || it->first[EXPERTS] >= sizes[EXPERTS] || !in_range(&it->rows, it->first[it->rows.axis], sizes[it->rows.axis]) ||
        !in_range(&it->cols, it->first[it->cols.axis], sizes[it->cols.axis]))
        return refuse(p, "its values are in another order");
    return 1;
}

/* A view of T, whose first row is row `at` of all experts' rows; *n: rows. */
static int add_view(pairs *p, const view *v, uint64_t at, uint64_t *n) {
    const uint64_t cols = p->t->dims[0], rows = p->t->dims[1];
    loop loops[MAX_LOOPS];
    uint64_t all = 1, e, n_experts;
    int n_loops = v->n_loops, in_rows, in_cols, i;
    for (i = 0; i < n_loops; i++) {
        loops[i].n = v->loops[i].n;
        loops[i].step = v->loops[i].step;
        if (loops[i].n == 0 || all > (uint64_t)INT64_MAX / loops[i].n) return refuse(p, "its shape does not fit");
        all *= loops[i].n;
    }
    *n = all / cols;
    n_experts = *n > rows ? *n / rows : 1;
    if (all % cols != 0 || *n == 0 || (*n > rows ? *n % rows != 0 || at % rows != 0 : at % rows + *n > rows)) return refuse(p, "its rows are put together from parts");
    if (!cut(loops, &n_loops, *n / n_experts * cols, &in_rows) || !cut(loops, &n_loops, cols, &in_cols)) return refuse(p, "its values are in another order");
    for (e = 0; e < n_experts; e++) {
        uint64_t first = v->first, index = e;
        for (i = in_rows; i-- > 0; index /= loops[i].n) first += index % loops[i].n * loops[i].step;
        if (!one_part(p, v, at / rows + e, *n / n_experts, first, loops + in_rows, in_cols - in_rows, n_loops - in_rows)) return 0;
    }
    return 1;
}

static int find_parts(pairs *p, const made *m) {
    uint64_t at = 0, n = 0;
    size_t k;
    if (m->op != MADE_COPY || m->values || p->t->n_dims > 3 || p->t->n_dims < 2) return refuse(p, "it is no plain matrix");
    for (k = 0; k < m->n_views; k++, at += n)
        if (!add_view(p, &m->views[k], at, &n)) return 0;
    return at == p->t->dims[1] * p->t->dims[2] ? 1 : refuse(p, "its shape does not fit");
}

/* ---- from parts to A and B ------------------------------------------------------------------------- */

/* Do two parts have the same A? */
static int same_block(const part *a, const part *b) {
    return a->module == b->module && a->cols.axis == b->cols.axis && a->first[a->cols.axis] == b->first[b->cols.axis] && a->first[EXPERTS] == b->first[EXPERTS] &&
           a->cols.n == b->cols.n && memcmp(a->cols.loops, b->cols.loops, (size_t)a->cols.n * sizeof(loop)) == 0;
}

static uint64_t rank_of(const pairs *p, const block *b) { return p->l->modules[b->of->module].rank; }

/* The blocks of the expert whose parts begin at `from`; *end: the part behind its last. Returns how many, -1 = failed. */
static int blocks_of(const pairs *p, size_t from, size_t *end, block *blocks) {
    uint64_t at = 0;
    size_t i;
    int n = 0, k;
    for (i = from; i < p->n_parts && p->parts[i].expert == p->parts[from].expert; i++) {
        if (p->parts[i].v->zeros) continue;
        for (k = 0; k < n && !same_block(blocks[k].of, &p->parts[i]); k++) {}
        if (k < n) continue;
        if (n == MAX_BLOCKS) return refuse(p, "it is made of too many matrices") - 1;
        blocks[n].of = &p->parts[i];
        blocks[n].first = at;
        at += rank_of(p, &blocks[n++]);
    }
    *end = i;
    return n;
}

static int set_rank(pairs *p) {
    block blocks[MAX_BLOCKS];
    size_t i = 0;
    while (i < p->n_parts) {
        const int n = blocks_of(p, i, &i, blocks);
        const uint64_t rank = n > 0 ? blocks[n - 1].first + rank_of(p, &blocks[n - 1]) : 0;
        if (n < 0) return 0;
        if (rank > p->rank) p->rank = rank;
    }
    return 1;
}

/* A view of what belongs to the rows (columns) of T in a W: of B or A. A rank's values one after the other, or a row's. */
static view *add_side(const pairs *p, made *m, const part *it, int cols, int by_rank) {
    const lora_module *w = &p->l->modules[it->module];
    const path *way = cols ? &it->cols : &it->rows;
    const int of_b = (way->axis == ROWS) != (w->embedding || w->turned);
    const uint64_t step = of_b ? w->rank * w->n_experts : 1, rank_step = of_b ? w->n_experts : w->a->dims[1];
    const uint64_t first = it->first[way->axis] * step + it->first[EXPERTS] * (of_b ? 1 : w->rank * w->a->dims[1]);
    view *v = way->n < VIEW_LOOPS ? make_view(p->l->out, m, of_b ? w->b : w->a, first) : NULL;
    int i;
    if (way->n >= VIEW_LOOPS) refuse(p, "its values are in another order");
    if (by_rank) view_loop(v, w->rank, rank_step);
    for (i = 0; i < way->n; i++) view_loop(v, way->loops[i].n, way->loops[i].step * step);
    if (!by_rank) view_loop(v, w->rank, rank_step);
    return v;
}

static int add_zeros(const pairs *p, made *m, st_tensor *like, uint64_t n) {
    view *v = n ? make_view(p->l->out, m, like, 0) : NULL;
    view_loop(v, n, 1);
    if (v) v->zeros = 1;
    return v != NULL || n == 0;
}

/* [rows][rank] of an expert's parts. scaled: with what the ranks are multiplied with. */
static int add_rows(const pairs *p, made *m, size_t from, size_t end, const block *blocks, int scaled) {
    size_t i;
    for (i = from; i < end; i++) {
        const part *it = &p->parts[i];
        const lora_module *w = &p->l->modules[it->module];
        view *v;
        if (it->v->zeros) {
            if (!add_zeros(p, m, w->b, it->n_rows * p->rank)) return 0;
            continue;
        }
        while (!same_block(blocks->of, it)) blocks++;
        v = add_side(p, m, it, 0, 0);
        if (v == NULL) return 0;
        if (w->rank != p->rank) {
            v->row = p->rank;
            v->lead = blocks->first;
            v->real = w->rank;
        }
        if (scaled) {
            v->factor[0] = (float)(w->alpha / p->l->alpha * ((double)p->rank / (double)w->rank));
            v->factor[1] = it->v->factor[0] * it->v->factor[1];
        }
    }
    return 1;
}

/* [rank][columns] of an expert. */
static int add_cols(const pairs *p, made *m, const block *blocks, int n, st_tensor *like) {
    uint64_t rank = 0;
    int k;
    for (k = 0; k < n; k++) {
        if (add_side(p, m, blocks[k].of, 1, 1) == NULL) return 0;
        rank += rank_of(p, &blocks[k]);
    }
    return add_zeros(p, m, like, (p->rank - rank) * p->t->dims[0]);
}

static made *make_pair(const pairs *p, const char *end, uint64_t cols, uint64_t rows) {
    const uint64_t dims[3] = {cols, rows, p->t->dims[2]};
    char name[256];
    snprintf(name, sizeof name, "%.200s.%s", p->t->name, end);
    return make(p->l->out, name, p->t->n_dims, dims);
}

/* A table of tokens' vectors: A is [tokens][rank], B [width][rank]. */
static int make_table(const pairs *p) {
    block blocks[MAX_BLOCKS];
    size_t end;
    const int n = blocks_of(p, 0, &end, blocks);
    lora_module *w = &p->l->modules[p->parts[0].module];
    made *m;
    view *v;
    if (n < 0) return 0;
    if (n != 1 || end != p->n_parts) return refuse(p, "it is made of several matrices");
    m = make_pair(p, "lora_a", p->rank, p->t->dims[1]);
    if (m == NULL || !add_rows(p, m, 0, end, blocks, 0)) return 0;
    m = make_pair(p, "lora_b", p->rank, p->t->dims[0]);
    v = m ? add_side(p, m, blocks[0].of, 1, 0) : NULL;
    if (v == NULL) return 0;
    v->factor[0] = (float)(w->alpha / p->l->alpha);
    v->factor[1] = blocks[0].of->v->factor[0] * blocks[0].of->v->factor[1];
    return 1;
}

static int make_matrix(const pairs *p) {
    static const char *const ENDS[] = {"lora_a", "lora_b"};
    st_tensor *like = NULL;
    block blocks[MAX_BLOCKS];
    size_t i, end;
    int b;
    for (i = 0; i < p->n_parts && like == NULL; i++)
        if (!p->parts[i].v->zeros) like = p->l->modules[p->parts[i].module].a;
    for (b = 0; b < 2; b++) {
        made *m = b ? make_pair(p, ENDS[b], p->rank, p->t->dims[1]) : make_pair(p, ENDS[b], p->t->dims[0], p->rank);
        if (m == NULL) return 0;
        for (i = 0; i < p->n_parts; i = end) {
            const int n = blocks_of(p, i, &end, blocks);
            if (n < 0 || (b ? !add_rows(p, m, i, end, blocks, 1) : !add_cols(p, m, blocks, n, like))) return 0;
        }
    }
    return 1;
}

/* ---- all of them ----------------------------------------------------------------------------------- */

/* Has the base such a tensor? */
static int check_base(const pairs *p) {
    const file_tensor *its = file_find_tensor(&p->l->base, p->t->name), *t = p->t;
    if (its == NULL) return cli_fail(p->l->command, "%s: the base (%s) has no tensor %s, which the adapter is for", p->l->folder, p->l->base_path, t->name) == CLI_DONE;
    if (memcmp(its->dims, t->dims, sizeof its->dims) == 0) return 1;
    return cli_fail(p->l->command, "%s: the adapter is for a tensor %s of %.0f x %.0f values, the base's (%s) has %.0f x %.0f", p->l->folder, t->name, (double)t->dims[1], (double)t->dims[0],
                    p->l->base_path, (double)its->dims[1], (double)its->dims[0]) == CLI_DONE;
}

/* Modules whose W turn out to be stored as [inputs][outputs]: whatever is made of it has rows that are its columns. */
static void find_turned(const lora *l, const pairs *all, int *turned) {
    char *straight = cli_alloc(l->command, l->n_modules, 1);
    size_t i, k;
    int pass;
    if (straight) memset(straight, 0, l->n_modules);
    for (pass = 0; straight && pass < 2; pass++)
        for (i = 0; i < l->to.n_tensors; i++)
            for (k = 0; k < all[i].n_parts; k++) {
                const part *it = &all[i].parts[k];
                lora_module *w = &l->modules[it->module];
                if (it->v->zeros || w->embedding || w->turned) continue;
                if (it->rows.axis == ROWS) straight[it->module] = 1;
                else if (pass && !straight[it->module]) w->turned = *turned = 1;
            }
    free(straight);
}

int lora_pairs(lora *l, int *turned) {
    pairs *all = cli_alloc(l->command, l->to.n_tensors + 1, sizeof *all);
    size_t i;
    int ok = all != NULL;
    *turned = 0;
    if (ok) memset(all, 0, (l->to.n_tensors + 1) * sizeof *all);
    for (i = 0; ok && i < l->to.n_tensors; i++) {
        all[i].l = l;
        all[i].t = &l->to.tensors[i];
        ok = find_parts(&all[i], &l->through->made[i]);
    }
    if (ok) find_turned(l, all, turned);
    for (i = 0; ok && !*turned && i < l->to.n_tensors; i++)
        ok = check_base(&all[i]) && set_rank(&all[i]) && (strcmp(all[i].t->name, "token_embd.weight") == 0 ? make_table(&all[i]) : make_matrix(&all[i]));
    for (i = 0; all && i < l->to.n_tensors; i++) free(all[i].parts);
    free(all);
    return ok;
}
