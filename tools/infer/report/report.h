/* report.h: --report FILE, plots and tables of a command's result: a page (.html) or a picture (.svg) that needs nothing else.
 *
 * A report is collected in memory and written when it is complete. What runs out of memory is said once, when it is written.
 * Names and values may be anything: texts are escaped, bytes that are not UTF-8 become U+FFFD, values that are not finite are
 * drawn at the edge (infinite) or left out (NaN), and tables name them.
 */
#ifndef REPORT_H
#define REPORT_H

#include "../cli.h"

typedef struct report {
    const char *command, *path;
    int html;
    cli_text body;
    double height; /* of the picture so far */
} report;

/* ---- html.c --------------------------------------------------------------------------------- */

/* Before the work: checks the name and that a file can be written there. inputs: paths that it must not replace, NULL among them is
 * skipped. An exit status. */
int report_open(report *r, const char *command, const char *path, const char *const *inputs, size_t n_inputs);
/* The title and what it is about, the date and the command line. */
void report_begin(report *r, const char *title, const char *of, int argc, char **argv);
void report_fact(report *r, const char *name, const char *format, ...) CLI_PRINTF(3, 4);
/* A figure holds a plot and tables. note (or NULL): what is shown. */
void report_figure(report *r, const char *title, const char *note);
void report_figure_end(report *r);
/* Tables are on pages only. heads: names of columns with | between them; # before one: it holds numbers. */
void report_table(report *r, const char *heads);
void report_row(report *r);
void report_cell(report *r, const char *text);
void report_number(report *r, double x);
void report_no_number(report *r);
void report_table_end(report *r);
/* An exit status: `status`, or what writing the file gives if that is CLI_DONE. Frees the report in any case. */
int report_close(report *r, int status);

/* ---- svg.c ---------------------------------------------------------------------------------- */

enum { REPORT_WIDTH = 400 };    /* of plots; the unit is that of the viewBox */
extern const char report_css[]; /* of plots */
void report_put(report *r, const char *format, ...) CLI_PRINTF(2, 3); /* at most 1 KiB */
void report_text(report *r, const char *s);                           /* escaped for XML */
/* A text in at most so many characters; classes as in report_css. */
void report_label(report *r, const char *classes, double x, double y, const char *text, int most);

typedef struct report_axis {
    const char *name;
    int bytes; /* values are numbers of bytes */
    int log;   /* logarithmic where the values span more than a factor of 30 */
} report_axis;
typedef struct report_series {
    const char *name;
    const double *values, *low, *high; /* low, high: the range of each, or NULL */
} report_series;
typedef struct report_point {
    const char *name;
    double x, y, error; /* error: of y */
} report_point;

/* Bars from 0 to the right, those of one name below each other. */
void report_bars(report *r, const report_axis *axis, const char *const *names, size_t n, const report_series *series, size_t n_series);
void report_points(report *r, const report_axis *x, const report_axis *y, const report_point *points, size_t n);
/* The values of a series at xs, connected. */
void report_line(report *r, const report_axis *x, const report_axis *y, const double *xs, const double *values, size_t n);
/* Cells of colour, rows[i] first; a cell without a value is NaN. Columns are numbered from `first`; -1 is outside of the layers. */
void report_map(report *r, const report_axis *axis, const char *columns, long first, size_t n_columns, const char *const *rows, size_t n_rows,
                const double *values);

#endif
