/* html.c: the file around plots: a page with tables, or one picture. */
#include "report.h"
#include "../files/files.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char PAGE_CSS[] =
    ":root{color-scheme:light dark}*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:72rem;padding:1rem;font:16px/1.45 system-ui,\"Segoe UI\",Roboto,Helvetica,Arial,sans-serif;background:#fff;color:#1c2126}"
    "h1{font-size:1.4rem;margin:.2rem 0 1rem}h1,p{overflow-wrap:anywhere}p{margin:.15rem 0}b{font-weight:600;margin-right:.6rem}"
    "figure{margin:2.2rem 0;display:flex;flex-wrap:wrap;gap:1rem 1.5rem;align-items:flex-start}figcaption{flex:1 0 100%}h2{font-size:1.1rem;margin:0}"
    "figure>svg{flex:1 1 20rem;min-width:0;max-width:30rem;height:auto;overflow:visible}"
    ".t{flex:1 1 20rem;min-width:0;max-height:32rem;overflow:auto}"
    "table{width:max-content;border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}th,td{padding:.2rem .75rem .2rem 0;text-align:left;vertical-align:top}"
    "th{position:sticky;top:0;background:#fff;border-bottom:1px solid #8a949e;font-weight:600}tr+tr td{border-top:1px solid #dfe3e7}"
    ".n{text-align:right;white-space:nowrap}td:not(.n){max-width:18rem;overflow-wrap:break-word;unicode-bidi:isolate}"
    "@media(prefers-color-scheme:dark){body,th{background:#15191d;color:#e4e8ec}tr+tr td{border-color:#30373e}}";

static void put_plain(report *r, const char *s) { cli_text_put(r->command, &r->body, s, strlen(s)); }

int report_open(report *r, const char *command, const char *path, const char *const *inputs, size_t n_inputs) {
    out_file probe;
    int ok;
    memset(r, 0, sizeof *r);
    r->command = command;
    r->html = cli_ends_with(path, ".html");
    if ((!r->html && !cli_ends_with(path, ".svg")) || strcmp(path, ".html") == 0 || strcmp(path, ".svg") == 0) return cli_usage_error(command, "--report: a name ends in .html or .svg, got '%s'", path);
    if (!cli_check_output(command, path, inputs, n_inputs)) return CLI_USAGE;
    ok = out_open(&probe, command, path); /* nothing lies there during the work: not every command is told of Ctrl-C */
    out_free(&probe, 0);
    r->path = path;
    return ok ? CLI_DONE : CLI_FAILED;
}

void report_begin(report *r, const char *title, const char *of, int argc, char **argv) {
    const char *info = infer_build_info();
    char date[64] = "";
    const time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    int i;
    if (r->html) {
        put_plain(r, "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head><meta charset=\"utf-8\"/>"
                     "<meta name=\"viewport\" content=\"width=device-width\"/>"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/><title>");
        report_put(r, "%s ", title);
        report_text(r, of);
        put_plain(r, "</title><style>");
        put_plain(r, PAGE_CSS);
        put_plain(r, report_css);
        put_plain(r, "</style></head><body><h1>");
        report_put(r, "%s ", title);
        report_text(r, of);
        put_plain(r, "</h1>\n");
    } else {
        char text[512];
        snprintf(text, sizeof text, "%s %s", title, of);
        report_label(r, "h", 0, 16, text, 46);
        r->height = 26;
    }
    if (utc && strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", utc)) report_fact(r, "made", "%s by %.*s", date, (int)(r->html ? strlen(info) : strcspn(info, ",")), info);
    if (!r->html) return;
    put_plain(r, "<p><b>command</b> <code>infer ");
    report_text(r, r->command);
    for (i = 0; i < argc; i++) {
        put_plain(r, " ");
        report_text(r, argv[i]);
    }
    put_plain(r, "</code></p>\n");
}

void report_fact(report *r, const char *name, const char *format, ...) {
    char text[1024];
    const int n = r->html ? 0 : snprintf(text, sizeof text, "%s: ", name);
    va_list list;
    va_start(list, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, list);
    va_end(list);
    if (r->html) {
        report_put(r, "<p><b>%s</b> ", name);
        report_text(r, text);
        put_plain(r, "</p>\n");
        return;
    }
    r->height += 16;
    report_label(r, "m", 0, r->height - 4, text, 60);
}

void report_figure(report *r, const char *title, const char *note) {
    if (!r->html) {
        report_label(r, "h", 0, r->height + 30, title, 50);
        r->height += 38;
        return;
    }
    put_plain(r, "<figure><figcaption><h2>");
    report_text(r, title);
    put_plain(r, "</h2>");
    if (note) report_text(r, note);
    put_plain(r, "</figcaption>\n");
}

void report_figure_end(report *r) { put_plain(r, r->html ? "</figure>\n" : ""); }

/* ---- tables ----------------------------------------------------------------------------------- */

void report_table(report *r, const char *heads) {
    if (!r->html) return;
    put_plain(r, "<div class=\"t\" tabindex=\"0\"><table><tr>");
    while (*heads) {
        const int n = (int)strcspn(heads, "|"), number = *heads == '#';
        report_put(r, "<th%s>%.*s</th>", number ? " class=\"n\"" : "", n - number, heads + number);
        heads += n + (heads[n] == '|');
    }
}

void report_row(report *r) {
    if (r->html) put_plain(r, "</tr>\n<tr>");
}

void report_cell(report *r, const char *text) {
    if (!r->html) return;
    put_plain(r, "<td>");
    report_text(r, text);
    put_plain(r, "</td>");
}

void report_number(report *r, double x) {
    if (!r->html) return;
    put_plain(r, "<td class=\"n\">");
    if (x != x) put_plain(r, "nan");
    else if (!(x >= -1e300 && x <= 1e300)) put_plain(r, x > 0 ? "inf" : "-inf");
    else report_put(r, x >= -1e15 && x <= 1e15 && x == (double)(int64_t)x ? "%.0f" : "%.6g", x);
    put_plain(r, "</td>");
}

void report_no_number(report *r) {
    if (r->html) put_plain(r, "<td class=\"n\"></td>");
}

void report_table_end(report *r) {
    if (r->html) put_plain(r, "</tr></table></div>\n");
}

/* ---- the file --------------------------------------------------------------------------------- */

static int write_report(report *r) {
    enum { MARGIN = 16 };
    const double width = REPORT_WIDTH + 2 * MARGIN, height = r->height + 2 * MARGIN;
    out_file o;
    FILE *file;
    int ok;
    if (r->body.failed) return cli_fail(r->command, "cannot write %s: out of memory", r->path);
    ok = out_open(&o, r->command, r->path);
    if (ok) {
        file = o.out.file;
        if (!r->html)
            fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"%d %d %.0f %.0f\">\n<style>%s</style>\n"
                          "<rect class=\"bg\" x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%.0f\"/>\n",
                    1.6 * width, 1.6 * height, -MARGIN, -MARGIN, width, height, report_css, -MARGIN, -MARGIN, width, height);
        fwrite(r->body.s, 1, r->body.n, file);
        fputs(r->html ? "</body></html>\n" : "</svg>\n", file);
        ok = out_close(&o) && out_rename(&o);
    }
    out_free(&o, ok);
    return ok ? CLI_DONE : CLI_FAILED;
}

int report_close(report *r, int status) {
    if (r->path && status == CLI_DONE) status = write_report(r);
    free(r->body.s);
    memset(r, 0, sizeof *r);
    return status;
}
