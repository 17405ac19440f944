/* gpu_check_conv.c: the kernel of short convolutions beside the CPU's op. The table is in gpu_check_ops.c.
 */
#include "gpu.h"

#ifndef INFER_NO_GPU

/* 5 rows of a sequence with a state, 2 of one without. The cells come first in the case, as they do in a buffer. */
static void infer__probe_conv(infer__prober *k) {
    enum { COLS = 131, ROWS = 7, FIRST = 5, CELLS = 4 };
    int32_t in[2] = {1, -1}, out[2] = {3, 0};
    infer__pass *p = &k->side[0].pass;
    infer__conv_args a;
    infer__weight w;
    infer__tensor state, x, y;
    int32_t i, g, with, taps;
    for (with = 0; with < 4; with++) {
        if (!infer__probe_new(k)) return;
        taps = with & 1 ? 4 : 2;
        state = infer__probe_tensor(k, CELLS * (taps - 1), COLS, 0, 0);
        x = infer__probe_tensor(k, ROWS, 3 * COLS, 1, 2);
        y = infer__probe_tensor(k, ROWS, COLS, 2, 1);
        w = infer__probe_weight(k, infer__quant_find(0, NULL), COLS, taps);
        INFER__ASSERT(state.offset == 0);
        infer__probe_pass(k, ROWS);
        for (i = FIRST; i < ROWS; i++) p->seq[i] = 1;
        p->cell_in = in;
        p->cell_out = out;
        memset(&a, 0, sizeof a);
        a.w = &w;
        a.taps = taps;
        infer__probe_send(k);
        for (g = 0; g < 2; g++) {
            a.x = infer__probe_on(k, &x, g);
            a.x.cols = COLS;
            a.y = infer__probe_on(k, &y, g);
            if (with & 2) {
                a.gate_in = a.gate_out = a.x;
                a.gate_in.offset += COLS * sizeof(float);
                a.gate_out.offset += 2 * COLS * sizeof(float);
            }
            a.state = &k->at[g];
            k->side[g].ops->conv(&k->side[g], &a);
        }
        infer__probe_fetch(k);
        infer__probe_near(k, &state, 1, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_near(k, &y, 4, NULL, INFER__PROBE_ROUNDING, 0);
        infer__probe_end(k, "%d taps, rows of two sequences of %d%s", (int)taps, (int)COLS, with & 2 ? ", gated" : "");
        p->cell_in = p->cell_out = NULL;
    }
}

#endif
