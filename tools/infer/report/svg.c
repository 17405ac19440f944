/* svg.c: plots. Units are those of the viewBox: 400 wide, text of 12, so that it can be read where 400 units are 330 pixels. */
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = REPORT_WIDTH, TOP = 24, LINE = 16, COLORS = 4 };
static const double CHAR = 7.6; /* width of a character, about */

/* Colours that differ for colour-blind people too. Names instead of variables, which not all programs that show SVG know. */
const char report_css[] =
    "svg text{font:12px system-ui,\"Segoe UI\",Roboto,Helvetica,Arial,sans-serif;fill:#1c2126}svg .m{fill:#56606a}"
    "svg .e{text-anchor:end}svg .c{text-anchor:middle}svg .h{font-weight:600;font-size:14px}svg .bg{fill:#fff}"
    "svg .g{stroke:#dfe3e7;stroke-width:1}svg .a{stroke:#8a949e;stroke-width:1}svg .w{stroke:#1c2126;stroke-width:1.2}"
    "svg .f0{fill:#0072b2}svg .f1{fill:#d55e00}svg .f2{fill:#009e73}svg .f3{fill:#b8548c}"
    "svg .l{fill:none;stroke:#0072b2;stroke-width:1.6;stroke-linejoin:round}svg .o{fill:none;stroke:#d55e00;stroke-width:1.6}"
    "@media(prefers-color-scheme:dark){svg text{fill:#e4e8ec}svg .m{fill:#a3adb7}svg .bg{fill:#15191d}svg .g{stroke:#30373e}"
    "svg .a{stroke:#6d7781}svg .w{stroke:#e4e8ec}svg .f0{fill:#4aa9e4}svg .f1{fill:#f58a45}svg .f2{fill:#35c69a}svg .f3{fill:#dd8fbd}"
    "svg .l{stroke:#4aa9e4}svg .o{stroke:#f58a45}}";

/* ---- text ------------------------------------------------------------------------------------- */

void report_put(report *r, const char *format, ...) {
    char s[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(s, sizeof s, format, list);
    va_end(list);
    cli_text_put(r->command, &r->body, s, strlen(s));
}

static void put_escaped(report *r, const char *s, size_t n) {
    size_t i, len;
    for (i = 0; i < n; i += len ? len : 1) {
        const unsigned char c = (unsigned char)s[i];
        const char *as = c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : c == '\'' ? "&#39;" : NULL;
        len = cli_utf8_length(s + i, n - i);
        if (len == 0 || c < 32 || c == 127 || (len == 3 && memcmp(s + i, "\xef\xbf", 2) == 0 && (unsigned char)s[i + 2] >= 0xbe)) as = "\xef\xbf\xbd"; /* XML has none of these */
        if (as) cli_text_put(r->command, &r->body, as, strlen(as));
        else cli_text_put(r->command, &r->body, s + i, len);
    }
}

void report_text(report *r, const char *s) { put_escaped(r, s, strlen(s)); }

/* Characters, wide ones twice. */
static int columns_of(const char *s, size_t n) {
    size_t i, len;
    int columns = 0;
    for (i = 0; i < n; i += len ? len : 1) {
        len = cli_utf8_length(s + i, n - i);
        columns += len > 2 ? 2 : 1;
    }
    return columns;
}

/* The bytes at the beginning of s that take at most so many columns. */
static size_t head_of(const char *s, size_t n, int columns) {
    size_t i, len;
    for (i = 0; i < n; i += len) {
        len = cli_utf8_length(s + i, n - i);
        columns -= len > 2 ? 2 : 1;
        if (columns < 0) return i;
        if (len == 0) len = 1;
    }
    return n;
}

/* A name in at most so many columns: what is too long loses its middle, as names often differ at their ends. */
static void put_name(report *r, const char *s, int most) {
    const size_t n = strlen(s);
    const int all = columns_of(s, n);
    if (all <= most) {
        put_escaped(r, s, n);
        return;
    }
    put_escaped(r, s, head_of(s, n, most / 2 - 1));
    report_put(r, "\xe2\x80\xa6");
    s += head_of(s, n, all - most / 2);
    put_escaped(r, s, strlen(s));
}

static double name_width(const char *s, int most) {
    const int n = columns_of(s, strlen(s));
    return CHAR * (n < most ? n : most);
}

static int finite_value(double x) { return x >= -1e300 && x <= 1e300; }

static const char *value_text(const report_axis *a, double x, char *out) {
    if (x != x) snprintf(out, 32, "not a number");
    else if (!finite_value(x)) snprintf(out, 32, x > 0 ? "infinite" : "-infinite");
    else if (a->bytes && x >= 0 && x < 1e18) cli_bytes_text(x, out);
    else snprintf(out, 32, fabs(x) >= 1e4 && fabs(x) < 1e7 ? "%.0f" : "%.4g", x);
    return out;
}

/* What is seen when the pointer is on a mark, and what programs that read pictures aloud say. */
static void put_title(report *r, const char *name, const report_axis *axis, double value) {
    char text[32];
    report_put(r, "<title>");
    report_text(r, name);
    report_put(r, ": %s</title>", value_text(axis, value, text));
}

/* ---- scales ----------------------------------------------------------------------------------- */

typedef struct scale {
    double low, high, least; /* least: of those above 0 */
    int n, log;
} scale;

static void scale_add(scale *s, double x) {
    if (!finite_value(x)) return;
    if (s->n == 0 || x < s->low) s->low = x;
    if (s->n == 0 || x > s->high) s->high = x;
    if (x > 0 && (s->least == 0 || x < s->least)) s->least = x;
    s->n++;
}

/* room: what is added at the ends, as a part of the range. */
static void scale_fit(scale *s, int may_log, double room) {
    const int positive = s->low >= 0;
    double span;
    if (s->n == 0) s->high = 1;
    s->log = may_log && positive && s->least > 0 && s->high / s->least > 30;
    if (s->log) {
        s->low = log10(s->least);
        s->high = log10(s->high);
    }
    span = s->high - s->low;
    if (span <= 1e-6 * fabs(s->high)) span = s->high != 0 ? fabs(s->high) : 1; /* a single value */
    else if (room == 0) return;
    s->low -= span * room;
    s->high += span * room;
    if (positive && !s->log && s->low < 0) s->low = 0;
    if (s->high - s->low <= 0) s->high = s->low + 1;
}

/* Between 0 and 1; *inside = 0: it is beyond that. */
static double scale_at(const scale *s, double x, int *inside) {
    const double v = !s->log ? x : x > 0 ? log10(x) : -1e300, at = (v - s->low) / (s->high - s->low);
    *inside = at >= -1e-9 && at <= 1 + 1e-9;
    return at < 0 ? 0 : at > 1 ? 1 : at;
}

/* Values at which an axis has a line, at most MAX_TICKS of them. */
enum { MAX_TICKS = 16 };
static int ticks_of(const scale *s, double *out) {
    int n = 0, k;
    if (s->log) {
        const int first = (int)floor(s->low), last = (int)ceil(s->high), every = (last - first) / 8 + 1;
        for (k = first; k <= last && n + 3 <= MAX_TICKS; k += every) {
            static const double parts[] = {1, 2, 5};
            int p;
            for (p = 0; p < (last - first <= 3 ? 3 : 1); p++) {
                const double at = k + log10(parts[p]);
                if (at >= s->low - 1e-9 && at <= s->high + 1e-9) out[n++] = parts[p] * pow(10, k);
            }
        }
    } else {
        const double span = s->high - s->low, power = pow(10, floor(log10(span / 5))), part = span / 5 / power;
        const double step = power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
        const double from = ceil(s->low / step);
        for (k = 0; n < MAX_TICKS && (from + k) * step <= s->high * (1 + 1e-12); k++) out[n++] = (from + k) * step;
    }
    return n;
}

/* ---- frames ----------------------------------------------------------------------------------- */

static void plot_begin(report *r, double height) {
    if (r->html) report_put(r, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %d %.0f\">\n", WIDTH, height);
    else report_put(r, "<svg x=\"0\" y=\"%.0f\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n", r->height, WIDTH, height, WIDTH, height);
    r->height += height;
}

static void plot_end(report *r) { report_put(r, "</svg>\n"); }

static void put_line(report *r, const char *class_name, double x0, double y0, double x1, double y1) {
    report_put(r, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", class_name, x0, y0, x1, y1);
}

void report_label(report *r, const char *class_name, double x, double y, const char *text, int most) {
    report_put(r, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class_name, x, y);
    put_name(r, text, most);
    report_put(r, "</text>\n");
}

typedef struct frame {
    scale x, y;
    double left, right, top, bottom;
} frame;

/* Where a pair of values is. Returns 0 when it is beyond the axes: then it is at the edge. Not for NaN. */
static int place(const frame *f, double x, double y, double *px, double *py) {
    int in_x, in_y;
    *px = f->left + scale_at(&f->x, x, &in_x) * (f->right - f->left);
    *py = f->bottom - scale_at(&f->y, y, &in_y) * (f->bottom - f->top);
    return in_x && in_y;
}

static frame frame_of(double height) {
    frame f;
    memset(&f, 0, sizeof f);
    f.top = TOP;
    f.bottom = height - 40;
    f.right = WIDTH - 6;
    return f;
}

/* Lines, numbers and names of two axes. The left margin follows from the numbers. */
static void put_axes(report *r, frame *f, const report_axis *x, const report_axis *y) {
    double ticks[MAX_TICKS], end = -1;
    char text[32];
    int i, n = ticks_of(&f->y, ticks), inside;
    f->left = 0;
    for (i = 0; i < n; i++) {
        const double w = name_width(value_text(y, ticks[i], text), 99) + 8;
        if (w > f->left) f->left = w;
    }
    report_label(r, "m", 0, 12, y->name, 58);
    for (i = 0; i < n; i++) {
        const double at = f->bottom - scale_at(&f->y, ticks[i], &inside) * (f->bottom - f->top);
        put_line(r, "g", f->left, at, f->right, at);
        report_label(r, "m e", f->left - 5, at + 4, value_text(y, ticks[i], text), 99);
    }
    n = ticks_of(&f->x, ticks);
    for (i = 0; i < n; i++) {
        const double at = f->left + scale_at(&f->x, ticks[i], &inside) * (f->right - f->left);
        const double half = name_width(value_text(x, ticks[i], text), 99) / 2, middle = at + half > WIDTH ? WIDTH - half : at;
        put_line(r, "a", at, f->bottom, at, f->bottom + 4);
        if (middle - half < end) continue; /* it would touch the one before */
        report_label(r, "m c", middle, f->bottom + 17, text, 99);
        end = middle + half + 6;
    }
    put_line(r, "a", f->left, f->bottom, f->right, f->bottom);
    report_label(r, "m e", f->right, f->bottom + 33, x->name, 58);
}

/* ---- bars ------------------------------------------------------------------------------------- */

void report_bars(report *r, const report_axis *axis, const char *const *names, size_t n, const report_series *series, size_t n_series) {
    enum { MOST = 22, BAR = 12 };
    const double each = BAR * (double)n_series + 8, top = TOP + (n_series > 1 ? 20 : 0);
    double left = 0, right = WIDTH - 74, x = 0;
    scale s;
    size_t i, k;
    int inside;
    memset(&s, 0, sizeof s);
    for (i = 0; i < n; i++) {
        if (name_width(names[i], MOST) > left) left = name_width(names[i], MOST);
        for (k = 0; k < n_series; k++) {
            scale_add(&s, series[k].values[i]);
            if (series[k].high) scale_add(&s, series[k].high[i]);
        }
    }
    scale_add(&s, 0);
    left += 8;
    scale_fit(&s, 0, 0);
    s.low = 0; /* a negative value has no bar */
    plot_begin(r, top + each * (double)n + 6);
    report_label(r, "m", 0, 12, axis->name, 58);
    for (k = 0; n_series > 1 && k < n_series; k++) {
        report_put(r, "<rect class=\"f%d\" x=\"%.1f\" y=\"22\" width=\"10\" height=\"10\"/>", (int)(k % COLORS), x);
        report_label(r, "m", x + 15, 31, series[k].name, 24);
        x += name_width(series[k].name, 24) + 35;
    }
    for (i = 0; i < n; i++) {
        const double y = top + each * (double)i;
        report_label(r, "e", left - 8, y + BAR * (double)n_series / 2 + 4, names[i], MOST);
        for (k = 0; k < n_series; k++) {
            const double value = series[k].values[i], at = y + BAR * (double)k, to = left + (value == value ? scale_at(&s, value, &inside) : 0) * (right - left);
            double end = to;
            char text[32];
            report_put(r, "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\">", (int)(k % COLORS), left, at, to - left, BAR - 1);
            put_title(r, names[i], axis, value);
            report_put(r, "</rect>");
            if (series[k].low && finite_value(series[k].low[i]) && finite_value(series[k].high[i])) {
                end = left + scale_at(&s, series[k].high[i], &inside) * (right - left);
                put_line(r, "w", left + scale_at(&s, series[k].low[i], &inside) * (right - left), at + BAR / 2 - 0.5, end, at + BAR / 2 - 0.5);
            }
            report_label(r, "m", end + 5, at + 10, value_text(axis, value, text), 99);
        }
    }
    put_line(r, "a", left, top - 4, left, top + each * (double)n);
    plot_end(r);
}

/* ---- points ----------------------------------------------------------------------------------- */

typedef struct box { double x0, y0, x1, y1; } box;

static int overlap(const box *a, const box *b) { return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1; }

/* A place for a label of this width beside (x, y): the nearest that covers none of the boxes. 0 = there is none. */
static int find_place(box *out, double x, double y, double width, const frame *f, const box *taken, size_t n) {
    static const double dx[] = {8, -8, 0, 0, 8, 8, -8, -8}, dy[] = {0, 0, -13, 13, -12, 12, -12, 12};
    int ring, side;
    size_t i;
    for (ring = 1; ring <= 6; ring++)
        for (side = 0; side < 8; side++) {
            const double cx = x + dx[side] * (ring < 3 ? ring : 3), cy = y + dy[side] * ring;
            out->x0 = dx[side] > 0 ? cx : dx[side] < 0 ? cx - width : cx - width / 2;
            out->x1 = out->x0 + width;
            out->y0 = cy - 7;
            out->y1 = cy + 7;
            if (out->x0 < f->left || out->x1 > WIDTH || out->y0 < f->top - 8 || out->y1 > f->bottom) continue;
            for (i = 0; i < n && !overlap(out, &taken[i]); i++) {}
            if (i == n) return ring;
        }
    return 0;
}

void report_points(report *r, const report_axis *x, const report_axis *y, const report_point *points, size_t n) {
    enum { MOST = 26, HEIGHT = 300 };
    box *taken = cli_alloc(r->command, 3 * n + 1, sizeof *taken); /* bars of errors, which end at n, then marks and labels */
    frame f = frame_of(HEIGHT);
    size_t i, bars = n, n_taken = n;
    double px, py, high, low;
    if (taken == NULL) {
        r->body.failed = 1;
        return;
    }
    for (i = 0; i < n; i++) {
        const report_point *p = &points[i];
        scale_add(&f.x, p->x);
        scale_add(&f.y, p->y);
        if (!(p->error > 0) || !finite_value(p->y)) continue;
        scale_add(&f.y, p->y + p->error);
        if (!y->log || p->y > p->error) scale_add(&f.y, p->y - p->error);
    }
    scale_fit(&f.x, x->log, 0.08);
    scale_fit(&f.y, y->log, 0.08);
    plot_begin(r, HEIGHT);
    put_axes(r, &f, x, y);
    for (i = 0; i < n; i++) {
        const report_point *p = &points[i];
        if (p->x != p->x || p->y != p->y) continue;
        if (p->error > 0 && finite_value(p->y) && finite_value(p->error)) {
            place(&f, p->x, p->y + p->error, &px, &high);
            place(&f, p->x, p->y - p->error, &px, &low);
            put_line(r, "w", px, high, px, low);
            put_line(r, "w", px - 3, high, px + 3, high);
            put_line(r, "w", px - 3, low, px + 3, low);
            taken[--bars] = (box){px - 3, high, px + 3, low};
        }
        report_put(r, "<circle class=\"%s\" ", place(&f, p->x, p->y, &px, &py) ? "f0" : "o");
        report_put(r, "cx=\"%.1f\" cy=\"%.1f\" r=\"4\">", px, py);
        put_title(r, p->name, y, p->y);
        report_put(r, "</circle>\n");
        taken[n_taken++] = (box){px - 5, py - 5, px + 5, py + 5};
    }
    for (i = 0; i < n; i++) {
        const report_point *p = &points[i];
        const double width = name_width(p->name, MOST);
        box b;
        int ring;
        if (p->x != p->x || p->y != p->y) continue;
        place(&f, p->x, p->y, &px, &py);
        ring = find_place(&b, px, py, width, &f, taken + bars, n_taken - bars);
        if (ring == 0) ring = find_place(&b, px, py, width, &f, taken + n, n_taken - n); /* across bars, if need be */
        if (ring == 0) continue; /* the table has it */
        if (ring > 1) put_line(r, "a", px, py, b.x0 > px ? b.x0 : b.x1 < px ? b.x1 : px, b.y0 > py ? b.y0 : b.y1 < py ? b.y1 : py);
        if (b.x0 > px || b.x1 < px) report_label(r, b.x0 > px ? "" : "e", b.x0 > px ? b.x0 : b.x1, b.y1 - 3, p->name, MOST);
        else report_label(r, "c", (b.x0 + b.x1) / 2, b.y1 - 3, p->name, MOST);
        taken[n_taken++] = b;
    }
    plot_end(r);
    free(taken);
}

/* ---- lines ------------------------------------------------------------------------------------ */

void report_line(report *r, const report_axis *x, const report_axis *y, const double *xs, const double *values, size_t n) {
    enum { HEIGHT = 220 };
    frame f = frame_of(HEIGHT);
    double px, py;
    size_t i;
    int open = 0;
    for (i = 0; i < n; i++) {
        scale_add(&f.x, xs[i]);
        scale_add(&f.y, values[i]);
    }
    scale_fit(&f.x, 0, 0);
    scale_fit(&f.y, y->log, 0.06);
    plot_begin(r, HEIGHT);
    put_axes(r, &f, x, y);
    for (i = 0; i <= n; i++) { /* a value that is none interrupts the line */
        if (i < n && finite_value(values[i])) {
            place(&f, xs[i], values[i], &px, &py);
            report_put(r, open ? " %.1f,%.1f" : "<polyline class=\"l\" points=\"%.1f,%.1f", px, py);
            open = 1;
        } else if (open) {
            report_put(r, "\"/>\n");
            open = 0;
        }
    }
    for (i = 0; i < n; i++) {
        char name[32];
        if (values[i] != values[i]) continue;
        place(&f, xs[i], values[i], &px, &py);
        report_put(r, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\">", finite_value(values[i]) ? "f0" : "o", px, py);
        put_title(r, value_text(x, xs[i], name), y, values[i]);
        report_put(r, "</circle>\n");
    }
    plot_end(r);
}

/* ---- maps ------------------------------------------------------------------------------------- */

/* From dark blue to yellow: lighter is more, without colours that are hard to tell apart. */
static void put_color(report *r, double at) {
    static const double stops[][3] = {{52, 56, 128}, {44, 100, 150}, {32, 144, 140}, {110, 190, 100}, {250, 226, 70}};
    const int i = at >= 1 ? 3 : (int)(at * 4);
    const double t = at * 4 - i;
    int c[3], k;
    for (k = 0; k < 3; k++) c[k] = (int)(stops[i][k] + t * (stops[i + 1][k] - stops[i][k]) + 0.5);
    report_put(r, "fill=\"#%02x%02x%02x\"", (unsigned)c[0], (unsigned)c[1], (unsigned)c[2]);
}

void report_map(report *r, const report_axis *axis, const char *columns, long first, size_t n_columns, const char *const *rows, size_t n_rows,
                const double *values) {
    enum { MOST = 22, PARTS = 24 };
    const double top = TOP + 12;
    double left = 0, each, end = -1;
    char low[32], high[32], note[64];
    scale s;
    size_t i, k;
    int inside;
    memset(&s, 0, sizeof s);
    for (i = 0; i < n_rows; i++) {
        if (name_width(rows[i], MOST) > left) left = name_width(rows[i], MOST);
        for (k = 0; k < n_columns; k++) scale_add(&s, values[i * n_columns + k]);
    }
    left += 8;
    value_text(axis, s.n ? s.low : 0, low);
    value_text(axis, s.n ? s.high : 0, high);
    scale_fit(&s, axis->log, 0);
    each = (WIDTH - left) / (double)(n_columns ? n_columns : 1);
    if (each > 24) each = 24;
    plot_begin(r, top + LINE * (double)n_rows + 40);
    report_label(r, "m", 0, 12, axis->name, 58);
    report_label(r, "m", 0, 30, low, 99);
    for (i = 0; i < PARTS; i++) {
        report_put(r, "<rect x=\"%.1f\" y=\"21\" width=\"5.2\" height=\"10\" ", name_width(low, 99) + 6 + 5 * (double)i);
        put_color(r, ((double)i + 0.5) / PARTS);
        report_put(r, "/>");
    }
    report_label(r, "m", name_width(low, 99) + 12 + 5 * PARTS, 30, high, 99);
    for (i = 0; i < n_rows; i++) {
        report_label(r, "e", left - 8, top + LINE * (double)i + 13, rows[i], MOST);
        for (k = 0; k < n_columns; k++) {
            const double value = values[i * n_columns + k];
            char name[64];
            if (value != value) continue;
            snprintf(name, sizeof name, first + (long)k < 0 ? "no %.40s" : "%.40s %ld", columns, first + (long)k);
            report_put(r, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" ", left + each * (double)k, top + LINE * (double)i, each > 4 ? each - 1 : each, LINE - 1);
            put_color(r, scale_at(&s, value, &inside));
            report_put(r, ">");
            put_title(r, name, axis, value);
            report_put(r, "</rect>\n");
        }
    }
    for (k = 0; k < n_columns; k++) {
        const long number = first + (long)k;
        const double at = left + each * ((double)k + 0.5);
        char text[24];
        snprintf(text, sizeof text, number < 0 ? "-" : "%ld", number);
        if (at - name_width(text, 99) / 2 < end || (number > 0 && each * 5 < 60 && number % (each * 5 < 30 ? 10 : 5) != 0)) continue;
        report_label(r, "m c", at, top + LINE * (double)n_rows + 14, text, 99);
        end = at + name_width(text, 99) / 2 + 4;
    }
    snprintf(note, sizeof note, first < 0 ? "%s; -: outside of them" : "%s", columns);
    report_label(r, "m", left, top + LINE * (double)n_rows + 31, note, 58);
    plot_end(r);
}
