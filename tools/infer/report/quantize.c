/* quantize.c: the report of `infer quantize`: tensors by kind and layer, and types beside each other. */
#include "../quantize/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KINDS = 24, MAX_LAYERS = 512, COLUMNS = MAX_LAYERS + 1, NAME = 64 }; /* column 0: tensors outside of layers */

/* Tensors of one role: "attn_q" of all layers. */
typedef struct kind {
    char name[NAME];
    double tensors, before, after;
    int measured, vectors;
    double bytes[COLUMNS], values[COLUMNS], errors[COLUMNS], with_error[COLUMNS]; /* errors: times values; with_error: values that have one */
} kind;
typedef struct kinds {
    kind *list;
    size_t n;
    int n_columns;
} kinds;

/* The kind of a tensor, and its column in *column (-1: beyond those that are shown). */
static kind *kind_of(kinds *k, const file_tensor *t, int *column) {
    const char *rest;
    const int layer = tensor_layer(t->name, &rest);
    char name[NAME];
    size_t i, n;
    snprintf(name, sizeof name, "%.*s%s", layer < 0 ? 0 : (int)(strstr(t->name, "blk.") - t->name), t->name, rest);
    n = strlen(name);
    if (n > 7 && strcmp(name + n - 7, ".weight") == 0) name[n - 7] = 0;
    if (t->n_dims < 2) snprintf(name, sizeof name, "vectors");
    *column = layer < MAX_LAYERS ? layer + 1 : -1;
    if (*column >= k->n_columns) k->n_columns = *column + 1;
    for (i = 0; i < k->n && strcmp(k->list[i].name, name) != 0; i++) {}
    if (i == MAX_KINDS) {
        i = MAX_KINDS - 1; /* too many to be told apart */
        snprintf(k->list[i].name, NAME, "others");
        k->list[i].vectors = 0;
    } else if (i == k->n) {
        memcpy(k->list[k->n].name, name, NAME);
        k->list[k->n++].vectors = t->n_dims < 2;
    }
    return &k->list[i];
}

static void add_tensors(kinds *k, const file_model *in, const file_tensor *to, const double *errors) {
    size_t i;
    for (i = 0; i < in->n_tensors; i++) {
        const double values = (double)to[i].dims[0] * (double)to[i].rows;
        int column;
        kind *x = kind_of(k, &to[i], &column);
        x->tensors++;
        x->before += (double)in->tensors[i].bytes;
        x->after += (double)to[i].bytes;
        if (column < 0) continue;
        x->bytes[column] += (double)to[i].bytes;
        x->values[column] += values;
        if (errors[i] < 0) continue;
        x->errors[column] += errors[i] * values;
        x->with_error[column] += values;
        x->measured = 1;
    }
}

static void show_tensors(report *r, const file_model *in, const file_tensor *to, const double *errors) {
    size_t i;
    report_table(r, "tensor|from|to|#bytes before|#after|#error");
    for (i = 0; r->html && i < in->n_tensors; i++) {
        report_row(r);
        report_cell(r, in->tensors[i].name);
        report_cell(r, infer_type_name((int32_t)in->tensors[i].type));
        report_cell(r, infer_type_name((int32_t)to[i].type));
        report_number(r, (double)in->tensors[i].bytes);
        report_number(r, (double)to[i].bytes);
        if (errors[i] < 0) report_no_number(r);
        else report_number(r, errors[i]);
    }
    report_table_end(r);
}

/* Bits of a value, or its error, by layer and kind. Returns 0 when no tensor has any. */
static int show_map(report *r, const kinds *k, int errors) {
    static const report_axis axes[] = {{"bits per value", 0, 0}, {"error: squared difference over squared value", 0, 1}};
    double *values = cli_alloc(r->command, MAX_KINDS * COLUMNS, sizeof *values);
    const char *rows[MAX_KINDS];
    size_t i, n = 0, n_columns;
    int c, first = 1;
    if (values == NULL) {
        r->body.failed = 1;
        return 0;
    }
    for (i = 0; i < k->n; i++)
        if (!k->list[i].vectors && (errors ? k->list[i].with_error : k->list[i].values)[0] > 0) first = 0;
    n_columns = k->n_columns > first ? (size_t)(k->n_columns - first) : 0;
    for (i = 0; i < k->n; i++) {
        const kind *x = &k->list[i];
        if (errors ? !x->measured : x->vectors) continue;
        for (c = first; c < k->n_columns; c++) {
            const double over = errors ? x->with_error[c] : x->values[c];
            values[n * n_columns + (size_t)(c - first)] = over > 0 ? (errors ? x->errors[c] : 8 * x->bytes[c]) / over : NAN;
        }
        rows[n++] = x->name;
    }
    if (n > 0 && n_columns > 0) {
        report_figure(r, errors ? "Error by layer" : "Bits by layer", NULL);
        report_map(r, &axes[errors], "layer", first - 1, n_columns, rows, n, values);
    }
    free(values);
    return n > 0 && n_columns > 0;
}

static int less_bytes(const void *a, const void *b) {
    const kind *x = a, *y = b;
    return x->before < y->before ? 1 : x->before > y->before ? -1 : strcmp(x->name, y->name);
}

static void show_kinds(report *r, kinds *k, const outcome *o) {
    static const report_axis axis = {"bytes", 1, 0};
    const char *names[MAX_KINDS];
    double before[MAX_KINDS], after[MAX_KINDS], tensors = 0, sum[2] = {0, 0};
    const report_series series[] = {{"before", before, NULL, NULL}, {"after", after, NULL, NULL}};
    size_t i;
    qsort(k->list, k->n, sizeof *k->list, less_bytes);
    report_figure(r, "Bytes by kind of tensor", NULL);
    for (i = 0; i < k->n; i++) {
        names[i] = k->list[i].name;
        before[i] = k->list[i].before;
        after[i] = k->list[i].after;
        tensors += k->list[i].tensors;
        sum[0] += before[i];
        sum[1] += after[i];
    }
    report_bars(r, &axis, names, k->n, series, 2);
    report_table(r, "kind|#tensors|#bytes before|#bytes after");
    for (i = 0; i <= k->n; i++) {
        report_row(r);
        report_cell(r, i < k->n ? names[i] : "all");
        report_number(r, i < k->n ? k->list[i].tensors : tensors);
        report_number(r, i < k->n ? before[i] : sum[0]);
        report_number(r, i < k->n ? after[i] : sum[1]);
    }
    report_row(r);
    report_cell(r, "the file, with its metadata");
    report_no_number(r);
    report_no_number(r);
    report_number(r, (double)o->bytes);
    report_table_end(r);
    report_figure_end(r);
}

static void show_outcomes(report *r, const outcome *o, size_t n) {
    static const report_axis x = {"size of the file", 1, 0}, y = {"mean error of a value", 0, 1};
    report_point *points = cli_alloc(r->command, n + 1, sizeof *points);
    size_t i;
    if (points == NULL) {
        r->body.failed = 1;
        return;
    }
    for (i = 0; i < n; i++) {
        points[i].name = o[i].name;
        points[i].x = (double)o[i].bytes;
        points[i].y = o[i].error;
        points[i].error = 0;
    }
    report_figure(r, "Size and error of types", "Squared difference over squared value of each tensor, in the mean over all values of the model; tensors that stay as they are count as 0.");
    report_points(r, &x, &y, points, n);
    report_table(r, "type|#bytes|#bits per value|#mean error");
    for (i = 0; i < n; i++) {
        report_row(r);
        report_cell(r, o[i].name);
        report_number(r, (double)o[i].bytes);
        report_number(r, o[i].bits);
        report_number(r, o[i].error);
    }
    report_table_end(r);
    report_figure_end(r);
    free(points);
}

void report_quantize(report *r, const file_model *in, const file_tensor *to, const double *errors, const outcome *outcomes, size_t n_outcomes) {
    kinds k;
    char before[32], after[32];
    int i, shown = 0;
    report_fact(r, "type", "%s: %s of %s, %.2f bits per value", outcomes[0].name, cli_bytes_text((double)outcomes[0].bytes, after), cli_bytes_text((double)in->data_bytes, before),
                outcomes[0].bits);
    memset(&k, 0, sizeof k);
    k.list = cli_alloc(r->command, MAX_KINDS, sizeof *k.list);
    if (k.list == NULL) {
        r->body.failed = 1;
        return;
    }
    memset(k.list, 0, MAX_KINDS * sizeof *k.list);
    add_tensors(&k, in, to, errors);
    if (n_outcomes > 1) show_outcomes(r, outcomes, n_outcomes);
    for (i = 1; i >= 0; i--) { /* the table of tensors is beside the first map */
        if (!show_map(r, &k, i)) continue;
        if (!shown) show_tensors(r, in, to, errors);
        report_figure_end(r);
        shown = 1;
    }
    show_kinds(r, &k, &outcomes[0]);
    if (!shown) {
        report_figure(r, "Tensors", NULL);
        show_tensors(r, in, to, errors);
        report_figure_end(r);
    }
    free(k.list);
}
