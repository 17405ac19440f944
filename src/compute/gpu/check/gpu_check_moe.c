/* gpu_check_moe.c: checks of expert kernels: the router's choice, biases. Products are with the others,
 * in gpu_check_ops.c, which has the table.
 */
#include "../gpu.h"

#ifndef INFER_NO_GPU

/* Every score function, with and without a router's other options. */
static void infer__probe_route(infer__prober *k) {
    static const struct { int8_t score, bias, groups, normalise; } cases[] = {
        {INFER__SCORE_SOFTMAX, 0, 0, 0},      {INFER__SCORE_SOFTMAX, 0, 0, 1}, {INFER__SCORE_SIGMOID, 1, 0, 1},
        {INFER__SCORE_SQRT_SOFTPLUS, 1, 0, 0}, {INFER__SCORE_SIGMOID, 1, 1, 1}, {INFER__SCORE_SOFTMAX, 1, 1, 0},
        {INFER__SCORE_SPARSEMIXER, 0, 0, 0}};
    const int32_t given = INFER__MIN(INFER__MAX(k->uses->n_expert, 1), INFER__MAX_EXPERTS);
    infer__moe_route_args a;
    infer__router r;
    infer__weight bias, scales, table;
    infer__tensor x, ids, weights;
    int32_t j, g, n;
    float place;
    size_t i;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        if (!infer__probe_new(k)) return;
        memset(&a, 0, sizeof a);
        memset(&r, 0, sizeof r);
        n = cases[i].groups ? 5 * ((given + 4) / 5) : given;
        n = INFER__MIN(n, 1020); /* which 5 divides */
        r.n_expert = cases[i].groups ? n : given;
        r.n_used = INFER__MIN(INFER__MAX(k->uses->n_used, 1), given);
        r.score = cases[i].score;
        r.normalise = cases[i].normalise;
        r.floor = 1e-20f;
        r.scale = 2.5f;
        if (cases[i].groups) {
            r.n_group = 5;
            r.group_used = 3;
            r.group_best = 2 - (int32_t)i % 2;
            r.n_used = INFER__MIN(r.n_used, n / 5 * 3);
        }
        x = infer__probe_tensor(k, 3, r.n_expert, 2, 1);
        ids = infer__probe_tensor(k, 3, r.n_used, 1, 3);
        weights = infer__probe_tensor(k, 3, r.n_used, 0, 2);
        bias = infer__probe_vector(k, r.n_expert);
        scales = infer__probe_vector(k, r.n_expert);
        for (j = 0; j < r.n_expert; j++) { /* the last row is all equal, others have equal ones */
            infer__row(&x, 2)[j] = 3;
            if (j % 7 == 3) infer__row(&x, 0)[j] = 0.9f;
            /* far apart, so that rounding of scores chooses nothing else */
            place = (float)((j * 37 + 5) % r.n_expert);
            ((float *)((char *)k->at[0].host + bias.offset))[j] = place * (4 + 0.0137f * place);
        }
        infer__probe_pass(k, 3);
        k->side[0].pass.ids[1] = -1; /* with a table the others have their experts there */
        table = infer__probe_weight(k, infer__quant_find(INFER__GPU_I32, NULL), 1, r.n_used);
        for (j = 0; j < r.n_used; j++)
            ((int32_t *)((char *)k->at[0].host + table.offset))[j] = (j * 5 + 2) % r.n_expert;
        a.table = i == 1 || i == 3 ? &table : NULL;
        a.router = &r;
        a.bias = cases[i].bias ? &bias : NULL;
        a.scales = i % 2 ? &scales : NULL;
        infer__probe_send(k);
        for (g = 0; g < 2; g++) {
            a.x = infer__probe_on(k, &x, g);
            a.ids = infer__probe_on(k, &ids, g);
            a.weights = infer__probe_on(k, &weights, g);
            k->side[g].ops->moe_route(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &weights, 0.5, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "3 rows, %d of %d experts%s%s%s%s", (int)r.n_used, (int)r.n_expert,
                         cases[i].bias ? ", biased" : "", cases[i].groups ? ", 3 of 5 groups" : "",
                         a.scales ? ", scaled" : "", a.table ? ", by id" : "");
    }
}

/* Biases of pairs, and summed by weight. */
static void infer__probe_moe_bias(infer__prober *k) {
    const int32_t n = 3, used = 2, experts = 4, cols = 257;
    infer__moe_bias_args a;
    infer__weight bias;
    infer__tensor y, ids, weights;
    int32_t sum, t, j, g, id;
    for (sum = 0; sum < 2; sum++) {
        if (!infer__probe_new(k)) return;
        y = infer__probe_tensor(k, sum ? n : n * used, cols, 3, 1);
        ids = infer__probe_tensor(k, n, used, 2, 0);
        weights = infer__probe_tensor(k, n, used, 1, 3);
        bias = infer__probe_vector(k, experts * cols);
        for (t = 0; t < n; t++)
            for (j = 0; j < used; j++) {
                id = (t * 3 + j) % experts;
                memcpy(infer__row(&ids, t) + j, &id, sizeof id);
            }
        memset(&a, 0, sizeof a);
        a.bias = &bias;
        a.n_used = used;
        infer__probe_send(k);
        for (g = 0; g < 2; g++) {
            a.y = infer__probe_on(k, &y, g);
            a.ids = infer__probe_on(k, &ids, g);
            if (sum) a.weights = infer__probe_on(k, &weights, g);
            k->side[g].ops->moe_bias(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &y, 3, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "%d rows of %d, %d of %d experts%s", (int)n, (int)cols, (int)used, (int)experts,
                         sum ? ", summed by weight" : "");
    }
}

#endif
