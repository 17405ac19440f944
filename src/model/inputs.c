/* inputs.c: the rows that matrices of the file are multiplied with, for infer_context_params.inputs.
 *
 * How:   products (infer__products, infer__moe_products) call these before they run, with the norm before them already
 *        applied; no other code of a pass knows about the callback. On the CPU alone: there x is in the host's memory,
 *        and experts are not fused.
 * Rules: the slices of a fused tensor that share an input are one product of that tensor. Weights that are not in the
 *        file as they are (tensor 0: transposed ones, adapters) are not reported; what was made from a tensor of the
 *        file reports that tensor itself (latent.c).
 */
#include "model.h"

/* Rows that are not contiguous are given one by one. */
static void infer__give_rows(infer_context *c, const infer__weight *w, int32_t matrix, const infer__tensor *x) {
    const size_t cols = (size_t)x->cols;
    int32_t i;
    if (x->stride == x->cols || x->rows == 1) {
        c->inputs(c->inputs_user, w->tensor - 1, matrix, infer__row(x, 0), (size_t)x->rows, cols);
        return;
    }
    for (i = 0; i < x->rows; i++) c->inputs(c->inputs_user, w->tensor - 1, matrix, infer__row(x, i), 1, cols);
}

static void infer__give_input(infer_context *c, const infer__weight *w, const infer__tensor *x) {
    const infer__gguf_tensor *t = w->tensor ? &c->model->gguf.tensors[w->tensor - 1] : NULL;
    if (!c->inputs || !t || !infer__ok(&c->ctx)) return;
    infer__give_rows(c, w, t->n_dims > 2 ? (int32_t)((uint64_t)w->first / t->dims[1]) : 0, x);
}

static void infer__give_products(infer_context *c, const infer__matmul_args *mm) {
    int32_t i, k;
    for (i = 0; i < mm->n_w; i++) {
        for (k = 0; k < i && mm->w[k]->tensor != mm->w[i]->tensor; k++) {}
        if (k == i) infer__give_input(c, mm->w[i], &mm->x);
    }
}

static void infer__give_experts(infer_context *c, const infer__moe_matmul_args *a) {
    int32_t i, j, expert;
    if (!a->w->tensor || !infer__ok(&c->ctx)) return;
    for (i = 0; i < a->ids.rows; i++)
        for (j = 0; j < a->n_used; j++) {
            const infer__tensor x = infer__some_rows(&a->x, a->per_expert_x ? i * a->n_used + j : i, 1);
            memcpy(&expert, infer__row(&a->ids, i) + j, sizeof expert);
            infer__give_rows(c, a->w, expert, &x);
        }
}

static infer_result infer__give_check(const infer_model *m, infer_error *err) {
    int32_t i;
    for (i = 0; INFER__HAS_GPU && i < m->hp.n_layer; i++)
        if (m->layers[i].place != INFER__ON_CPU)
            return infer__error(err, INFER_ERR_UNSUPPORTED,
                                "context_params.inputs: layer %d is on a GPU; open the model with backend INFER_CPU",
                                (int)i);
    return INFER_OK;
}
