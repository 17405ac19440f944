/* diff.c: `infer diff`, what differs between two models. Everything is compared before anything is printed. */
#include "diff.h"

#include <stdlib.h>
#include <string.h>

typedef struct key_pair {
    const file_key *a, *b; /* NULL = the file has no such key */
} key_pair;

typedef struct tensor_pair {
    const file_tensor *a, *b;
    diff_values values;
} tensor_pair;

typedef struct diff {
    diff_side a, b;
    key_pair *keys; /* those that differ */
    tensor_pair *tensors;
    size_t n_keys, n_tensors;
    int json, full;
} diff;

/* Of two sorted lists the names that come next: below 0 a's, above 0 b's, 0 both; NULL = the list is over. */
static int next(const char *a, const char *b) { return a == NULL ? 1 : b == NULL ? -1 : strcmp(a, b); }

static int find_keys(diff *d) {
    size_t n_a = 0, n_b = 0, i = 0, k = 0;
    const file_key **a = file_sorted_keys(&d->a.file, &n_a), **b = file_sorted_keys(&d->b.file, &n_b);
    int ok = a && b;
    d->keys = ok ? cli_alloc("diff", n_a + n_b + 1, sizeof *d->keys) : NULL;
    while (d->keys && (i < n_a || k < n_b)) {
        const int order = next(i < n_a ? a[i]->name : NULL, k < n_b ? b[k]->name : NULL);
        key_pair p = {NULL, NULL};
        if (order <= 0) p.a = a[i++];
        if (order >= 0) p.b = b[k++];
        if (p.a && p.b && p.a->type == p.b->type && p.a->bytes == p.b->bytes && memcmp(p.a->value, p.b->value, p.a->bytes) == 0)
            continue;
        d->keys[d->n_keys++] = p;
    }
    free((void *)a);
    free((void *)b);
    return d->keys != NULL;
}

static int find_tensors(diff *d, const cli_common *common) {
    const size_t n_a = d->a.file.n_tensors, n_b = d->b.file.n_tensors;
    const file_tensor **a = file_sorted_tensors(&d->a.file), **b = file_sorted_tensors(&d->b.file);
    int status = a && b ? CLI_DONE : CLI_FAILED, same;
    size_t i = 0, k = 0;
    cli_progress bar;
    d->tensors = status == CLI_DONE ? cli_alloc("diff", n_a + n_b + 1, sizeof *d->tensors) : NULL;
    if (d->tensors == NULL) status = CLI_FAILED;
    cli_progress_begin(&bar, "comparing");
    while (status == CLI_DONE && (i < n_a || k < n_b)) {
        const int order = next(i < n_a ? a[i]->name : NULL, k < n_b ? b[k]->name : NULL);
        tensor_pair p;
        memset(&p, 0, sizeof p);
        if (order <= 0) p.a = a[i++];
        if (order >= 0) p.b = b[k++];
        same = 0;
        if (p.a && p.b) status = diff_compare(&d->a, &d->b, common, p.a, p.b, &same, &p.values);
        if (!same) d->tensors[d->n_tensors++] = p;
        cli_progress_show(&bar, (float)(i + k) / (float)(n_a + n_b));
    }
    cli_progress_end(&bar);
    free((void *)a);
    free((void *)b);
    return status;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Elements that differ between arrays of one type and length: how many, and the first with its two values. */
static uint64_t differing_elements(const key_pair *p, uint64_t *first, infer_meta *a, infer_meta *b) {
    const unsigned char *x = p->a->value + GGUF_ARRAY_HEAD, *y = p->b->value + GGUF_ARRAY_HEAD;
    uint64_t i, n = 0;
    for (i = 0; i < p->a->n; i++) {
        infer_meta v, w;
        const size_t n_x = value_decode(p->a->element, x, &v), n_y = value_decode(p->b->element, y, &w);
        if (n_x != n_y || memcmp(x, y, n_x) != 0) {
            if (n == 0) {
                *first = i;
                *a = v;
                *b = w;
            }
            n++;
        }
        x += n_x;
        y += n_y;
    }
    return n;
}

static int are_alike(const key_pair *p) {
    return p->a && p->b && p->a->type == GGUF_ARRAY && p->b->type == GGUF_ARRAY && p->a->element == p->b->element &&
           p->a->n == p->b->n;
}

static void print_key(const diff *d, const key_pair *p) {
    const file_key *one = p->a ? p->a : p->b;
    const int retyped = p->a && p->b && (p->a->type != p->b->type || p->a->element != p->b->element);
    infer_meta a, b;
    uint64_t first = 0, n;
    printf("%c key ", p->a == NULL ? '+' : p->b == NULL ? '-' : '~');
    value_print_name(one->name);
    printf("  ");
    value_print_type(one);
    printf(" = ");
    value_print(one, 0, d->full);
    if (p->a && p->b) {
        printf(" -> ");
        if (retyped) value_print_type(p->b);
        if (retyped) printf(" = ");
        value_print(p->b, 0, d->full);
    }
    if (are_alike(p)) {
        n = differing_elements(p, &first, &a, &b);
        printf("; %.0f of %.0f elements differ, the first is %.0f: ", (double)n, (double)one->n, (double)first);
        cli_print_value(&a, 0, d->full);
        printf(" -> ");
        cli_print_value(&b, 0, d->full);
    }
    putchar('\n');
}

static void print_json_value(const diff *d, const char *side, const file_key *k) {
    printf(", \"%s\": ", side);
    if (k == NULL) {
        printf("null");
        return;
    }
    printf("{\"type\": \"");
    value_print_type(k);
    printf("\", \"value\": ");
    value_print(k, 1, d->full);
    putchar('}');
}

static void print_json_key(const diff *d, const key_pair *p) {
    infer_meta a, b;
    uint64_t first = 0;
    printf("{\"key\": ");
    json_text(stdout, p->a ? p->a->name : p->b->name);
    print_json_value(d, "a", p->a);
    print_json_value(d, "b", p->b);
    if (are_alike(p)) {
        printf(", \"differing\": %.0f", (double)differing_elements(p, &first, &a, &b));
        printf(", \"first\": %.0f", (double)first);
    }
    putchar('}');
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void print_shape(const file_tensor *t) {
    int k;
    printf("%s ", infer_type_name((int32_t)t->type));
    for (k = 0; k < t->n_dims; k++) printf(k ? " x %.0f" : "%.0f", (double)t->dims[k]);
}

static void print_tensor(const tensor_pair *p) {
    const file_tensor *one = p->a ? p->a : p->b;
    printf("%c tensor ", p->a == NULL ? '+' : p->b == NULL ? '-' : '~');
    value_print_name(one->name);
    printf("  ");
    print_shape(one);
    if (p->a && p->b && (p->a->type != p->b->type || p->a->n_dims != p->b->n_dims || !p->values.known)) {
        printf(" -> ");
        print_shape(p->b);
    }
    if (p->values.known)
        printf("; largest difference %.4g, NMSE %.4g, %.0f of %.0f values differ", p->values.largest, p->values.nmse,
               (double)p->values.differing, (double)one->rows * (double)one->dims[0]);
    putchar('\n');
}

static void print_json_shape(const char *side, const file_tensor *t) {
    int k;
    printf(", \"%s\": ", side);
    if (t == NULL) {
        printf("null");
        return;
    }
    printf("{\"type\": \"%s\", \"dims\": [", infer_type_name((int32_t)t->type));
    for (k = 0; k < t->n_dims; k++) printf(k ? ", %.0f" : "%.0f", (double)t->dims[k]);
    printf("]}");
}

static void print_json_tensor(const tensor_pair *p) {
    printf("{\"name\": ");
    json_text(stdout, p->a ? p->a->name : p->b->name);
    print_json_shape("a", p->a);
    print_json_shape("b", p->b);
    if (p->values.known) {
        printf(", \"largest\": ");
        json_number(stdout, p->values.largest);
        printf(", \"nmse\": ");
        json_number(stdout, p->values.nmse);
        printf(", \"differing\": %.0f", (double)p->values.differing);
    }
    putchar('}');
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_diff(const diff *d) {
    size_t i;
    if (d->json) {
        printf("{\"a\": ");
        json_text(stdout, d->a.file.path);
        printf(", \"b\": ");
        json_text(stdout, d->b.file.path);
        printf(", \"same\": %s, \"keys\": [", d->n_keys + d->n_tensors ? "false" : "true");
    }
    for (i = 0; i < d->n_keys; i++) {
        if (d->json && i) printf(", ");
        if (d->json) print_json_key(d, &d->keys[i]);
        else print_key(d, &d->keys[i]);
    }
    if (d->json) printf("], \"tensors\": [");
    for (i = 0; i < d->n_tensors; i++) {
        if (d->json && i) printf(", ");
        if (d->json) print_json_tensor(&d->tensors[i]);
        else print_tensor(&d->tensors[i]);
    }
    if (d->json) printf("]}\n");
}

static int compare(diff *d, const cli_common *common) {
    int status = find_keys(d) ? find_tensors(d, common) : CLI_FAILED;
    if (status != CLI_DONE) return status;
    print_diff(d);
    if (d->n_keys + d->n_tensors == 0) return CLI_DONE;
    return cli_fail("diff", "the models differ: %.0f key%s, %.0f tensor%s", (double)d->n_keys, d->n_keys == 1 ? "" : "s",
                    (double)d->n_tensors, d->n_tensors == 1 ? "" : "s");
}

int cmd_diff(int argc, char **argv) {
    const char *args[2];
    int status, full = 0;
    const cli_option options[] = {
        {"--full", OPT_FLAG, &full, NULL, "show long arrays and strings in full", 0, 0},
    };
    const cli_spec spec = {"diff",
                           "A B",
                           "What differs between two models: keys and tensors only in A (-), only in B (+), and in both but not\n"
                           "the same (~). Values of tensors are compared as float32, whatever they are stored in; NMSE is\n"
                           "sum((b - a)^2) / sum(a^2). Order, alignment and the split into files do not count (general.alignment,\n"
                           "split.*). Exit status: 0 the same, 1 they differ or cannot be compared (then stdout is empty), 2 wrong\n"
                           "usage.\n",
                           options,
                           1,
                           TAKES_JSON,
                           2,
                           2};
    cli_common common;
    diff d;
    memset(&d, 0, sizeof d);
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    d.json = common.json;
    d.full = full;
    cli_catch_interrupts();
    status = file_open(&d.a.file, "diff", args[0]) && file_open(&d.b.file, "diff", args[1]) ? compare(&d, &common) : CLI_FAILED;
    if (d.a.model) cli_model_close(d.a.model);
    if (d.b.model) cli_model_close(d.b.model);
    file_close(&d.a.file);
    file_close(&d.b.file);
    free(d.keys);
    free(d.tensors);
    return status;
}
