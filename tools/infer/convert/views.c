/* views.c: tensors whose values are those of a checkpoint in another order: permuted rows, transposed matrices, experts put together,
 * parts of fused ones. All of these are loops over the source with a step each, so one function reads them all. */
#include "convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64 << 20, SHORT_RUN = 4096, PIECE = 1 << 16 }; /* bytes, bytes, values at a time */
enum { MX_VALUES = 32, MX_CODES = 16, MX_BYTES = 17 };

/* ---- making ------------------------------------------------------------------------------------ */

made *make(checkpoint *c, const char *name, int n_dims, const uint64_t *dims) {
    file_model *m = c->m;
    const size_t n = m->n_tensors;
    file_tensor *t;
    int i;
    if ((n & (n - 1)) == 0) {
        const size_t cap = n ? 2 * n : 1;
        file_tensor *tensors = cli_grow(c->command, m->tensors, cap, sizeof *tensors);
        made *all;
        if (tensors == NULL) return NULL;
        m->tensors = tensors;
        all = cli_grow(c->command, c->made, cap, sizeof *all);
        if (all == NULL) return NULL;
        c->made = all;
    }
    memset(&c->made[n], 0, sizeof c->made[n]);
    t = &m->tensors[n];
    memset(t, 0, sizeof *t);
    t->name = cli_alloc(c->command, strlen(name) + 1, 1);
    if (t->name == NULL) return NULL;
    memcpy(t->name, name, strlen(name) + 1);
    t->n_dims = n_dims;
    for (i = 0; i < 4; i++) t->dims[i] = i < n_dims ? dims[i] : 1;
    m->n_tensors++;
    return &c->made[n];
}

void made_drop(checkpoint *c, size_t i, size_t after) {
    made *m = &c->made[i];
    free(m->views);
    free(m->values);
    memmove(m, m + 1, after * sizeof *m);
}

view *make_view(checkpoint *c, made *m, st_tensor *from, uint64_t first) {
    view *grown, *v;
    if (m == NULL) return NULL;
    grown = (m->n_views & (m->n_views - 1)) == 0 ? cli_grow(c->command, m->views, m->n_views ? 2 * m->n_views : 1, sizeof *grown) : m->views;
    if (grown == NULL) return NULL;
    m->views = grown;
    v = &grown[m->n_views++];
    memset(v, 0, sizeof *v);
    v->from = from;
    v->first = first;
    v->n = 1;
    v->factor[0] = v->factor[1] = 1;
    from->used = 1;
    return v;
}

void view_loop(view *v, uint64_t n, uint64_t step) {
    if (v == NULL || v->n_loops == VIEW_LOOPS) return;
    v->loops[v->n_loops].n = n;
    v->loops[v->n_loops++].step = step;
}

made *make_whole(checkpoint *c, const char *name, st_tensor *from, int squeezed) {
    uint64_t dims[ST_DIMS] = {1};
    int i, n = 0;
    made *m;
    for (i = from->n_dims; i-- > 0;)
        if (!squeezed || from->dims[i] != 1) dims[n++] = from->dims[i];
    if (n > 4) {
        cli_fail(c->command, "tensor %s has %d dimensions: at most 4 are possible", from->name, n);
        return NULL;
    }
    m = make(c, name, n ? n : 1, dims);
    view_loop(make_view(c, m, from, 0), from->n, 1);
    return m;
}

made *make_values(checkpoint *c, const char *name, uint64_t n, float **values) {
    made *m = make(c, name, 1, &n);
    if (m) m->values = *values = cli_alloc(c->command, (size_t)n + 1, sizeof **values);
    return m && m->values ? m : NULL;
}

/* ---- checking ---------------------------------------------------------------------------------- */

/* Its loops are within the source; loops that are one are made one. */
static int finish_view(const checkpoint *c, const char *name, view *v, int blocks) {
    const uint64_t all = blocks ? v->from->n / MX_CODES : v->from->n;
    uint64_t last = v->first;
    int i, n = 0;
    if (last >= all) return cli_fail(c->command, "tensor %s: %s is too small for what config.json asks for", name, v->from->name) == CLI_DONE;
    for (i = 0; i < v->n_loops; i++) {
        const uint64_t k = v->loops[i].n, step = v->loops[i].step;
        if (k == 0 || v->n > (uint64_t)INT64_MAX / 64 / k || (step && k - 1 > ((uint64_t)INT64_MAX - last) / step) ||
            ((v->n *= k, last += (k - 1) * step) >= all && !v->zeros))
            return cli_fail(c->command, "tensor %s: %s has not the shape that config.json asks for", name, v->from->name) == CLI_DONE;
        if (k == 1) continue;
        if (n > 0 && v->loops[n - 1].step == step * k) {
            v->loops[n - 1].n *= k;
            v->loops[n - 1].step = step;
        } else v->loops[n++] = v->loops[i];
    }
    v->n_loops = n;
    if (n == 0) view_loop(v, 1, 1);
    if (v->row == 0) return 1;
    if (v->real == 0 || v->n % v->real != 0 || v->row < v->real || v->lead > v->row - v->real || v->row > (uint64_t)INT64_MAX / 64 / v->n)
        return cli_fail(c->command, "tensor %s: %s has not the shape that config.json asks for", name, v->from->name) == CLI_DONE;
    v->n = v->n / v->real * v->row;
    return 1;
}

/* Tensors that are read value by value, not by products: kept in float32. */
static int always_f32(const file_tensor *t) {
    static const char *const PARTS[] = {"ffn_gate_inp", "position_embd", "token_types", "ssm_conv1d", "shortconv.conv", "altup_", "laurel_", "_norm", "_rel_b"};
    static const char *const ENDS[] = {".bias", ".scale", ".ssm_a", ".ssm_d"};
    size_t i;
    if (t->n_dims < 2 || (t->dims[1] == 1 && t->dims[2] == 1 && t->dims[3] == 1)) return 1;
    for (i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        if (strstr(t->name, PARTS[i])) return 1;
    for (i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++)
        if (cli_ends_with(t->name, ENDS[i])) return 1;
    return 0;
}

int32_t type_of_source(int type) { return type == ST_F32 ? TYPE_F32 : type == ST_F16 ? TYPE_F16 : type == ST_BF16 ? TYPE_BF16 : -1; }

/* The type of a tensor, and the one that it is written in. */
static int stored_types(const checkpoint *c, file_tensor *t, const made *m) {
    const int from = m->n_views ? m->views[0].from->type : ST_F32;
    size_t k;
    int exact = from != ST_F8_E4M3;
    for (k = 0; k < m->n_views; k++) exact = exact && m->views[k].factor[0] == 1 && m->views[k].factor[1] == 1;
    if (c->lora) t->natural = exact && type_of_source(from) >= 0 ? (uint32_t)type_of_source(from) : TYPE_F32;
    else if (m->op == MADE_MXFP4) t->natural = TYPE_MXFP4;
    else if (m->op != MADE_COPY || from == ST_F32 || from == ST_F64 || always_f32(t)) t->natural = TYPE_F32;
    else t->natural = from == ST_F16 ? TYPE_F16 : TYPE_BF16;
    t->type = exact || c->natural ? t->natural : TYPE_F32;
    if (type_of_source(from) >= 0 || from == ST_F64 || (from == ST_F8_E4M3 && m->views[0].scales) || m->op == MADE_MXFP4) return 1;
    return cli_fail(c->command, "tensor %s: its values are of a type that has no meaning here", m->views[0].from->name) == CLI_DONE;
}

int make_done(checkpoint *c) {
    file_model *m = c->m;
    size_t i, k;
    for (i = 0; i < m->n_tensors; i++) {
        file_tensor *t = &m->tensors[i];
        made *its = &c->made[i];
        uint64_t n = 0;
        for (k = 0; k < its->n_views; k++) {
            if (!finish_view(c, t->name, &its->views[k], its->op == MADE_MXFP4)) return 0;
            n += its->op == MADE_MXFP4 ? its->views[k].n * MX_VALUES : its->views[k].n;
            if (its->views[k].from->type != its->views[0].from->type)
                return cli_fail(c->command, "tensor %s: %s and %s are of different types", t->name, its->views[0].from->name, its->views[k].from->name) == CLI_DONE;
        }
        if (its->values) n = t->dims[0];
        if (!stored_types(c, t, its) || !file_measure(m, c->folder, t)) return 0;
        if (n != t->dims[0] * t->rows)
            return cli_fail(c->command, "tensor %s: %s has not the shape that config.json asks for", t->name, its->n_views ? its->views[0].from->name : "it") == CLI_DONE;
        t->offset = 0;
        m->data_bytes += t->bytes;
    }
    return 1;
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* Where value i of the view is in the source. */
static uint64_t place(const view *v, uint64_t i) {
    uint64_t at = v->first;
    int k;
    for (k = v->n_loops; k-- > 0;) {
        at += i % v->loops[k].n * v->loops[k].step;
        i /= v->loops[k].n;
    }
    return at;
}

/* Values [first, first + n) of a source, `width` of its values each, in a window of it. */
static const unsigned char *window_at(checkpoint *c, int w, const st_tensor *from, uint64_t width, uint64_t first, uint64_t n) {
    struct window *it = &c->windows[w];
    const uint64_t bytes = n * width * (uint64_t)st_type_bytes[from->type];
    if (it->of == from && it->first == first && it->n == n) return it->bytes;
    it->of = NULL;
    if (bytes > it->cap) {
        unsigned char *grown = bytes < SIZE_MAX / 2 ? cli_grow(c->command, it->bytes, (size_t)bytes, 1) : NULL;
        if (bytes >= SIZE_MAX / 2) cli_fail(c->command, "tensor %s is too large for memory", from->name);
        if (grown == NULL) return NULL;
        it->bytes = grown;
        it->cap = bytes;
    }
    if (!st_read(&c->st, from, first * width, it->bytes, (size_t)(n * width))) return NULL;
    it->of = from;
    it->first = first;
    it->n = n;
    return it->bytes;
}

/* How many of the inner loops a window spans, and over how many values: as many as fit, at least two. */
static int inner_loops(const view *v, uint64_t bytes, uint64_t *span) {
    int from = v->n_loops, k;
    uint64_t s = 1;
    *span = 1;
    for (k = v->n_loops; k-- > 0;) {
        s += (v->loops[k].n - 1) * v->loops[k].step;
        if (s * bytes > WINDOW && v->n_loops - k > 2) break;
        from = k;
        *span = s;
    }
    return from;
}

static int gather(checkpoint *c, const view *v, const st_tensor *source, uint64_t width, uint64_t first, uint64_t n, unsigned char *out);

/* The same of a view with zeros beside its source's values in each row. */
static int gather_rows(checkpoint *c, const view *v, const st_tensor *source, uint64_t width, uint64_t first, uint64_t n, unsigned char *out) {
    const uint64_t size = width * (uint64_t)st_type_bytes[source->type], end = v->lead + v->real;
    uint64_t i, k;
    view its = *v;
    its.row = 0;
    for (i = 0; i < n; i += k) {
        const uint64_t row = (first + i) / v->row, at = (first + i) % v->row;
        const int real = at >= v->lead && at < end;
        k = (real ? end : at < v->lead ? v->lead : v->row) - at;
        if (k > n - i) k = n - i;
        if (!real) memset(out + i * size, 0, (size_t)(k * size));
        else if (!gather(c, &its, source, width, row * v->real + at - v->lead, k, out + i * size)) return 0;
    }
    return 1;
}

/* Values first .. first + n - 1 of a view, as they are stored. source: v->from, or its scales, which have the same order; width: how many
 * of the source's values are one of the view. */
static int gather(checkpoint *c, const view *v, const st_tensor *source, uint64_t width, uint64_t first, uint64_t n, unsigned char *out) {
    const uint64_t size = width * (uint64_t)st_type_bytes[source->type], run_n = v->loops[v->n_loops - 1].n, step = v->loops[v->n_loops - 1].step;
    uint64_t span, inner = 1, i, k;
    int from, loop;
    if (v->row) return gather_rows(c, v, source, width, first, n, out);
    if (v->zeros) {
        memset(out, 0, (size_t)(n * size));
        return 1;
    }
    if (step == 1 && (v->n_loops == 1 || run_n * size >= SHORT_RUN)) { /* long runs */
        for (i = 0; i < n; i += k) {
            k = run_n - (first + i) % run_n;
            if (k > n - i) k = n - i;
            if (!st_read(&c->st, source, place(v, first + i) * width, out + i * size, (size_t)(k * width))) return 0;
        }
        return 1;
    }
    from = inner_loops(v, size, &span);
    for (loop = from; loop < v->n_loops; loop++) inner *= v->loops[loop].n;
    for (i = 0; i < n; i += k) {
        const uint64_t base = place(v, (first + i) / inner * inner);
        const unsigned char *w = window_at(c, source != v->from, source, width, base, span);
        if (w == NULL) return 0;
        k = run_n - (first + i) % run_n;
        if (k > n - i) k = n - i;
        if (step == 1) memcpy(out + i * size, w + (place(v, first + i) - base) * size, (size_t)(k * size));
        else {
            const unsigned char *p = w + (place(v, first + i) - base) * size;
            uint64_t j;
            for (j = 0; j < k; j++) memcpy(out + (i + j) * size, p + j * step * size, (size_t)size);
        }
    }
    return 1;
}

/* Float8 with 4 bits of exponent and 3 of mantissa, without infinities (E4M3FN, OCP 8-bit floating point specification). */
static float f8(unsigned char x) {
    const int e = x >> 3 & 15, m = x & 7;
    const float y = e == 15 && m == 7 ? NAN : e == 0 ? ldexpf((float)m, -9) : ldexpf((float)(8 + m), e - 10);
    return x & 0x80 ? -y : y;
}

/* Weights with factors of blocks, as DeepSeek's checkpoints store them (weight_scale_inv), or of rows. */
static int scale_f8(checkpoint *c, const view *v, uint64_t first, uint64_t n, float *x) {
    const uint64_t cols = v->from->dims[1], across = (cols + v->scale_cols - 1) / v->scale_cols;
    const unsigned char *w = window_at(c, 1, v->scales, 1, 0, v->scales->n);
    uint64_t i;
    if (w == NULL) return 0;
    for (i = 0; i < n; i++) {
        const uint64_t at = place(v, first + i), block = at / cols / v->scale_rows * across + at % cols / v->scale_cols;
        float s;
        if (v->scales->type == ST_F32) memcpy(&s, w + 4 * block, 4);
        else {
            const uint32_t bits = (uint32_t)gguf_load(w + 2 * block, 2) << 16;
            memcpy(&s, &bits, 4);
        }
        x[i] *= s;
    }
    return 1;
}

/* Values in float32, changed as the tensor asks for. raw: room for n values of the source. */
static int floats(checkpoint *c, const made *m, const view *v, uint64_t first, uint64_t n, unsigned char *raw, float *x) {
    uint64_t i;
    infer_error err;
    int k;
    if (!gather(c, v, v->from, 1, first, n, raw)) return 0;
    switch (v->from->type) {
    case ST_F8_E4M3:
        for (i = 0; i < n; i++) x[i] = f8(raw[i]);
        if (!scale_f8(c, v, first, n, x)) return 0;
        break;
    case ST_F64:
        for (i = 0; i < n; i++) {
            double d;
            memcpy(&d, raw + 8 * i, 8);
            x[i] = (float)d;
        }
        break;
    default:
        if (infer_type_decode(type_of_source(v->from->type), raw, n, x, &err) != INFER_OK) return cli_fail(c->command, "%s", err.message) == CLI_DONE;
    }
    for (k = 0; k < 2; k++)
        if (v->factor[k] != 1)
            for (i = 0; i < n; i++) x[i] *= v->factor[k];
    for (i = 0; i < n; i++) x[i] = m->op == MADE_PLUS_1 ? x[i] + 1 : m->op == MADE_NEG_EXP ? -expf(x[i]) : x[i];
    return 1;
}

/* Codes 2 i and 2 i + 1 share a byte in checkpoints, codes i and i + 16 in GGUF (OCP Microscaling formats; type 39). */
static void repack_mxfp4(const unsigned char *codes, unsigned char scale, unsigned char *out) {
    int i;
    *out++ = scale;
    for (i = 0; i < MX_CODES; i++) {
        const int low = codes[i / 2] >> 4 * (i & 1) & 15, high = codes[MX_CODES / 2 + i / 2] >> 4 * (i & 1) & 15;
        out[i] = (unsigned char)(low | high << 4);
    }
}

/* Units first .. first + n - 1 of a view (values, or blocks), as the model stores them. */
static int produce(checkpoint *c, const file_tensor *t, const made *m, const view *v, uint64_t first, uint64_t n, unsigned char *out) {
    unsigned char *raw = c->raw, *scales = raw + 8 * PIECE;
    float *x = c->values;
    const int plain = m->op == MADE_COPY && v->factor[0] == 1 && v->factor[1] == 1;
    const int same = (int32_t)t->type == type_of_source(v->from->type);
    infer_error err;
    uint64_t i;
    if (m->op == MADE_MXFP4) {
        if (!gather(c, v, v->from, MX_CODES, first, n, raw) || !gather(c, v, v->scales, 1, first, n, scales)) return 0;
        for (i = 0; i < n; i++) repack_mxfp4(raw + MX_CODES * i, scales[i], out + MX_BYTES * i);
        return 1;
    }
    if (plain && same) return gather(c, v, v->from, 1, first, n, out);
    if (!floats(c, m, v, first, n, raw, x)) return 0;
    if (infer_type_encode((int32_t)t->type, x, NULL, n, out, &err) == INFER_OK) return 1;
    return cli_fail(c->command, "tensor %s: %s", t->name, err.message) == CLI_DONE;
}

int made_read(checkpoint *c, const file_tensor *t, uint64_t offset, void *to, size_t n) {
    const made *m = &c->made[t - c->m->tensors];
    const uint64_t unit = m->op == MADE_MXFP4 ? MX_BYTES : t->type == TYPE_F32 ? 4 : 2, most = m->op == MADE_MXFP4 ? PIECE / 2 : PIECE;
    unsigned char *piece, *out = to;
    if (c->raw == NULL) { /* what is stored, scales, what is made; values */
        c->raw = cli_alloc(c->command, 9 + MX_BYTES, PIECE);
        c->values = cli_alloc(c->command, PIECE, sizeof *c->values);
        if (c->raw == NULL || c->values == NULL) return 0;
    }
    piece = c->raw + 9 * PIECE;
    if (m->values) {
        memcpy(to, (const unsigned char *)m->values + offset, n);
        return 1;
    }
    while (n > 0) {
        uint64_t first = offset / unit, skip = offset % unit, count = (skip + n + unit - 1) / unit, bytes;
        size_t k = 0;
        while (k + 1 < m->n_views && first >= m->views[k].n) first -= m->views[k++].n;
        if (count > m->views[k].n - first) count = m->views[k].n - first;
        if (count > most) count = most;
        if (!produce(c, t, m, &m->views[k], first, count, piece)) return 0;
        bytes = count * unit - skip;
        if (bytes > n) bytes = n;
        memcpy(out, piece + skip, (size_t)bytes);
        out += bytes;
        offset += bytes;
        n -= (size_t)bytes;
    }
    return 1;
}
