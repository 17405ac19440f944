/* edit.c: a line of input with editing and history.
 *
 * The display depends only on the text, the cursor and the terminal's width: after every key the rows of the line are
 * laid out again and redrawn. A text may have several lines, from a paste, Alt-Enter or a \ at the end of a line.
 * Without a terminal lines are read unprocessed. */
#include "../cli.h"

#include <stdlib.h>
#include <string.h>

enum { HISTORY = 200, RESULT_NONE = -1 };
enum { KEY_UP = 0x110000, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME, KEY_END, KEY_DELETE, KEY_WORD_LEFT, KEY_WORD_RIGHT,
       KEY_WORD_BACK, KEY_WORD_DELETE, KEY_NEWLINE, KEY_PASTE, KEY_NONE, KEY_RESIZED, KEY_EOF };

struct cli_editor {
    int terminal, styles;
    const char *prompt;
    cli_text text, cut, kept; /* kept: the new line while older ones are shown */
    size_t at;                /* the cursor, a byte of text */
    int row, first;           /* where the drawn cursor is: rows below the first drawn one; the first row drawn */
    char *history[HISTORY];
    int n_history, shown; /* shown: which is in text; n_history = the new line */
};

/* ---- text ----------------------------------------------------------------------------------- */

static void set(cli_text *t, const char *s, size_t n) {
    t->n = 0;
    cli_text_put("chat", t, s, n);
}

static void insert(cli_editor *e, const char *s, size_t n) {
    const size_t tail = e->text.n - e->at;
    cli_text_put("chat", &e->text, s, n);
    if (e->text.failed) return;
    memmove(e->text.s + e->at + n, e->text.s + e->at, tail);
    memcpy(e->text.s + e->at, s, n);
    e->at += n;
}

/* Removes the bytes from..to; keep: Ctrl-Y gives them back. */
static void cut(cli_editor *e, size_t from, size_t to, int keep) {
    if (keep && to > from) set(&e->cut, e->text.s + from, to - from);
    memmove(e->text.s + from, e->text.s + to, e->text.n - to + 1);
    e->text.n -= to - from;
    e->at = from;
}

/* The character at s, *len bytes; a byte that is no UTF-8 is one of its own. */
static uint32_t decode(const char *s, size_t n, size_t *len) {
    const unsigned char *u = (const unsigned char *)s;
    size_t k = u[0] < 0x80 ? 1 : u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2, i;
    uint32_t c = k == 1 ? u[0] : u[0] & (0xffu >> (k + 1));
    *len = 1;
    if (k == 1) return c;
    if (u[0] < 0xc2 || k > n || infer_utf8_whole(s, k) != k) return 0xfffd;
    for (i = 1; i < k; i++) c = c << 6 | (u[i] & 0x3f);
    *len = k;
    return c;
}

/* Columns of the character at byte i, *len bytes. */
static int columns_at(const cli_text *t, size_t i, size_t *len) {
    uint32_t c = decode(t->s + i, t->n - i, len);
    return c == '\t' ? 4 : c < 32 || c == 127 ? 1 : cli_char_width(c);
}

/* The next cursor position: after a character with its combining and joined characters. */
static size_t step_right(const cli_text *t, size_t at) {
    size_t len;
    int joined = 0;
    if (at >= t->n) return t->n;
    columns_at(t, at, &len);
    for (at += len; at < t->n; at += len) {
        uint32_t c = decode(t->s + at, t->n - at, &len);
        if (!joined && (c < 32 || cli_char_width(c) != 0)) break;
        joined = c == 0x200d;
    }
    return at;
}

static size_t step_left(const cli_text *t, size_t at) {
    size_t i = 0, before = 0;
    while (i < at) {
        before = i;
        i = step_right(t, i);
    }
    return before;
}

static int is_space(const cli_text *t, size_t at) { return strchr(" \t\n", t->s[at]) != NULL; }

static size_t word_left(const cli_text *t, size_t at) {
    while (at > 0 && is_space(t, at - 1)) at--;
    while (at > 0 && !is_space(t, at - 1)) at--;
    return at;
}

static size_t word_right(const cli_text *t, size_t at) {
    while (at < t->n && is_space(t, at)) at++;
    while (at < t->n && !is_space(t, at)) at++;
    return at;
}

static size_t line_start(const cli_text *t, size_t at) {
    while (at > 0 && t->s[at - 1] != '\n') at--;
    return at;
}

static size_t line_end(const cli_text *t, size_t at) {
    while (at < t->n && t->s[at] != '\n') at++;
    return at;
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* A walk over the rows of prompt and text. */
typedef struct pen {
    int columns, row, column;
    int first, last; /* rows to print; last < first = none */
} pen;

static int visible(const pen *p) { return p->row >= p->first && p->row <= p->last; }

static void new_row(pen *p) {
    if (p->row >= p->first && p->row < p->last) fputs("\r\n", stdout);
    p->row++;
    p->column = 0;
}

static void draw_char(pen *p, const char *s, size_t n, int columns) {
    if (p->column + columns > p->columns) new_row(p);
    if (visible(p)) {
        if (*s == '\t') fputs("    ", stdout);
        else if ((unsigned char)*s < 32 || *s == 127) putchar('?');
        else fwrite(s, 1, n, stdout);
    }
    p->column += columns;
}

/* Prints the rows first..last and finds the cursor's place and the number of rows. */
static int lay_out(const cli_editor *e, pen *p, int *cursor_row, int *cursor_column) {
    size_t i, len, n_prompt = strlen(e->prompt);
    int k, indent = 0;
    const cli_text *t = &e->text;
    p->row = p->column = 0;
    if (e->styles && visible(p)) fputs("\x1b[1m", stdout);
    for (i = 0; i < n_prompt; i += len) {
        int w = cli_char_width(decode(e->prompt + i, n_prompt - i, &len));
        draw_char(p, e->prompt + i, len, w);
        indent += w;
    }
    if (e->styles && p->first == 0 && p->last >= 0) fputs("\x1b[0m", stdout);
    if (indent > p->columns / 2) indent = 0;
    for (i = 0; i < t->n; i += len) {
        int w = columns_at(t, i, &len);
        if (t->s[i] != '\n' && p->column + w > p->columns) new_row(p);
        if (i == e->at) {
            *cursor_row = p->row;
            *cursor_column = p->column;
        }
        if (t->s[i] != '\n') {
            draw_char(p, t->s + i, len, w);
            continue;
        }
        new_row(p);
        for (k = 0; k < indent; k++) draw_char(p, " ", 1, 1);
    }
    if (p->column >= p->columns) new_row(p); /* so that the cursor has a place */
    if (e->at >= t->n) {
        *cursor_row = p->row;
        *cursor_column = p->column;
    }
    return p->row + 1;
}

/* To the first drawn row. */
static void go_up(const cli_editor *e) {
    if (e->row > 0) printf("\x1b[%dA", e->row);
    putchar('\r');
}

static void draw(cli_editor *e) {
    pen p;
    int rows, cursor_row = 0, cursor_column = 0, n, height;
    terminal_size(&p.columns, &height);
    if (p.columns < 4) p.columns = 4;
    p.first = 0;
    p.last = -1;
    n = lay_out(e, &p, &cursor_row, &cursor_column);
    if (cursor_row < e->first) e->first = cursor_row; /* the rows around the cursor that the screen can show */
    if (cursor_row >= e->first + height) e->first = cursor_row - height + 1;
    if (n <= height) e->first = 0;
    rows = n - e->first < height ? n - e->first : height;
    go_up(e);
    fputs("\x1b[J", stdout);
    p.first = e->first;
    p.last = e->first + rows - 1;
    lay_out(e, &p, &cursor_row, &cursor_column);
    if (p.last > cursor_row) printf("\x1b[%dA", p.last - cursor_row);
    putchar('\r');
    if (cursor_column > 0) printf("\x1b[%dC", cursor_column < p.columns ? cursor_column : p.columns - 1);
    e->row = cursor_row - e->first;
    fflush(stdout);
}

/* Moves the cursor after the text and starts a new line. */
static void leave(cli_editor *e, const char *mark) {
    e->at = e->text.n;
    draw(e);
    printf("%s\r\n", mark);
    fflush(stdout);
    e->row = e->first = 0;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* After ESC [ or ESC O: numbers, semicolons, a letter or ~. */
static int read_sequence(void) {
    char s[16];
    int n = 0, c;
    while (n < 15 && (c = terminal_read(100)) >= 0) {
        s[n++] = (char)c;
        if (c >= 0x40 && c <= 0x7e) break;
    }
    s[n] = 0;
    if (n == 0) return KEY_NONE;
    if (strcmp(s, "200~") == 0) return KEY_PASTE;
    if (strcmp(s, "3~") == 0) return KEY_DELETE;
    if (strcmp(s, "1~") == 0 || strcmp(s, "7~") == 0) return KEY_HOME;
    if (strcmp(s, "4~") == 0 || strcmp(s, "8~") == 0) return KEY_END;
    switch (s[n - 1]) {
    case 'A': return KEY_UP;
    case 'B': return KEY_DOWN;
    case 'C': return n > 1 ? KEY_WORD_RIGHT : KEY_RIGHT; /* with Ctrl or Alt */
    case 'D': return n > 1 ? KEY_WORD_LEFT : KEY_LEFT;
    case 'H': return KEY_HOME;
    case 'F': return KEY_END;
    default: return KEY_NONE;
    }
}

static int read_escape(void) {
    int c = terminal_read(100);
    switch (c) {
    case '[':
    case 'O': return read_sequence();
    case '\r':
    case '\n': return KEY_NEWLINE;
    case 'b': return KEY_WORD_LEFT;
    case 'f': return KEY_WORD_RIGHT;
    case 'd': return KEY_WORD_DELETE;
    case 8:
    case 127: return KEY_WORD_BACK;
    default: return KEY_NONE;
    }
}

/* A byte of text or a control character, or one of KEY_*. */
static int read_key(void) {
    int c = terminal_read(-1);
    if (c == TERMINAL_RESIZED) return KEY_RESIZED;
    if (c == TERMINAL_NOTHING) return KEY_NONE;
    if (c < 0) return KEY_EOF;
    return c == 27 ? read_escape() : c;
}

/* Reads a paste up to its end mark: line ends of any kind, no control characters. */
static void paste(cli_editor *e) {
    static const char END[] = "\x1b[201~";
    cli_text t;
    size_t i, n = 0;
    int c;
    memset(&t, 0, sizeof t);
    while ((c = terminal_read(2000)) >= 0 || c == TERMINAL_RESIZED) {
        char byte = (char)c;
        if (c < 0) continue;
        cli_text_put("chat", &t, &byte, 1);
        if (t.failed) break;
        if (t.n >= 6 && memcmp(t.s + t.n - 6, END, 6) == 0) {
            t.n -= 6;
            break;
        }
    }
    for (i = 0; i < t.n; i++) {
        char byte = t.s[i];
        if (byte == '\r' && i + 1 < t.n && t.s[i + 1] == '\n') continue;
        if (byte == '\r') byte = '\n';
        if (((unsigned char)byte >= 32 && byte != 127) || byte == '\n' || byte == '\t') t.s[n++] = byte;
    }
    if (t.s && !t.failed) insert(e, t.s, n);
    free(t.s);
}

/* ---- history -------------------------------------------------------------------------------- */

static void show_history(cli_editor *e, int which) {
    if (which < 0 || which > e->n_history || which == e->shown) return;
    if (e->shown == e->n_history) set(&e->kept, e->text.s, e->text.n);
    e->shown = which;
    if (which == e->n_history) set(&e->text, e->kept.s, e->kept.n);
    else set(&e->text, e->history[which], strlen(e->history[which]));
    e->at = e->text.n;
}

static void remember(cli_editor *e) {
    char *copy;
    if (e->text.n == 0 || (e->n_history && strcmp(e->history[e->n_history - 1], e->text.s) == 0)) return;
    copy = cli_alloc("chat", e->text.n + 1, 1);
    if (copy == NULL) return;
    memcpy(copy, e->text.s, e->text.n + 1);
    if (e->n_history == HISTORY) {
        free(e->history[0]);
        memmove(e->history, e->history + 1, (HISTORY - 1) * sizeof e->history[0]);
        e->n_history--;
    }
    e->history[e->n_history++] = copy;
}

/* Up and down: a line of the text, and beyond its first and last the history. */
static void move_line(cli_editor *e, int down) {
    const size_t start = line_start(&e->text, e->at), end = line_end(&e->text, e->at);
    size_t other, k = e->at - start;
    if (down ? end == e->text.n : start == 0) {
        show_history(e, e->shown + (down ? 1 : -1));
        return;
    }
    other = down ? end + 1 : line_start(&e->text, start - 1);
    e->at = other + k < line_end(&e->text, other) ? other + k : line_end(&e->text, other);
    while (e->at > other && ((unsigned char)e->text.s[e->at] & 0xc0) == 0x80) e->at--;
}

/* ---- the line ------------------------------------------------------------------------------- */

static int enter(cli_editor *e) {
    if (e->text.n && e->text.s[e->text.n - 1] == '\\') { /* the line goes on */
        e->text.s[e->text.n - 1] = '\n';
        e->at = e->text.n;
        return RESULT_NONE;
    }
    leave(e, "");
    remember(e);
    return CLI_LINE;
}

static void edit_key(cli_editor *e, int key) {
    cli_text *t = &e->text;
    char byte = (char)key;
    switch (key) {
    case KEY_UP:
    case 16: move_line(e, 0); break;
    case KEY_DOWN:
    case 14: move_line(e, 1); break;
    case KEY_LEFT:
    case 2: e->at = step_left(t, e->at); break;
    case KEY_RIGHT:
    case 6: e->at = step_right(t, e->at); break;
    case KEY_HOME:
    case 1: e->at = line_start(t, e->at); break;
    case KEY_END:
    case 5: e->at = line_end(t, e->at); break;
    case KEY_WORD_LEFT: e->at = word_left(t, e->at); break;
    case KEY_WORD_RIGHT: e->at = word_right(t, e->at); break;
    case KEY_DELETE: cut(e, e->at, step_right(t, e->at), 0); break;
    case 8:
    case 127: cut(e, step_left(t, e->at), e->at, 0); break;
    case 11: cut(e, e->at, line_end(t, e->at), 1); break;
    case 21: cut(e, line_start(t, e->at), e->at, 1); break;
    case 23:
    case KEY_WORD_BACK: cut(e, word_left(t, e->at), e->at, 1); break;
    case KEY_WORD_DELETE: cut(e, e->at, word_right(t, e->at), 1); break;
    case 25:
        if (e->cut.n) insert(e, e->cut.s, e->cut.n);
        break;
    case KEY_NEWLINE: insert(e, "\n", 1); break;
    case KEY_PASTE: paste(e); break;
    default:
        if (key >= 32 && key < 256) insert(e, &byte, 1);
    }
}

/* A key: CLI_LINE, CLI_LINE_END, CLI_LINE_CLEARED, or RESULT_NONE to go on. */
static int take_key(cli_editor *e, int key) {
    switch (key) {
    case '\r':
    case '\n': return enter(e);
    case KEY_EOF: return CLI_LINE_END;
    case 3:
        leave(e, "^C");
        return CLI_LINE_CLEARED;
    case 4:
        if (e->text.n == 0) {
            leave(e, "");
            return CLI_LINE_END;
        }
        edit_key(e, KEY_DELETE);
        break;
    case 12:
        fputs("\x1b[H\x1b[2J", stdout);
        e->row = 0;
        break;
    default: edit_key(e, key);
    }
    return RESULT_NONE;
}

static int edit_in_terminal(cli_editor *e) {
    int result = RESULT_NONE, key;
    e->row = e->first = 0;
    e->shown = e->n_history;
    fputs("\x1b[?2004h", stdout); /* mark what is pasted */
    while (result == RESULT_NONE && !e->text.failed) {
        if (infer_utf8_whole(e->text.s, e->at) == e->at) draw(e); /* not within a character */
        key = read_key();
        result = take_key(e, key);
    }
    fputs("\x1b[?2004l", stdout);
    fflush(stdout);
    return e->text.failed ? CLI_LINE_END : result;
}

static int read_plain(cli_editor *e) {
    char piece[4096];
    cli_text *t = &e->text;
    while (fgets(piece, sizeof piece, stdin)) {
        size_t n = strlen(piece);
        cli_text_put("chat", t, piece, n);
        if (t->failed) return CLI_LINE_END;
        if (n && piece[n - 1] == '\n') break;
    }
    if (t->n == 0) return CLI_LINE_END;
    while (t->n && (t->s[t->n - 1] == '\n' || t->s[t->n - 1] == '\r')) t->s[--t->n] = 0;
    return CLI_LINE;
}

int cli_edit(cli_editor *e, const char *prompt, const char **line, size_t *n) {
    int result;
    e->prompt = prompt;
    e->at = 0;
    set(&e->text, "", 0);
    if (e->text.failed) return CLI_LINE_END;
    if (e->terminal && terminal_mode(TERMINAL_EDIT)) {
        result = edit_in_terminal(e);
        terminal_mode(TERMINAL_REPLY);
    } else {
        if (e->terminal || platform_is_terminal(stdin)) {
            fputs(prompt, stdout);
            fflush(stdout);
        }
        result = read_plain(e);
    }
    *line = e->text.s;
    *n = e->text.n;
    return result;
}

int cli_edit_failed(const cli_editor *e) { return e->text.failed; }

cli_editor *cli_editor_open(int styles) {
    cli_editor *e = cli_alloc("chat", 1, sizeof *e);
    if (e == NULL) return NULL;
    memset(e, 0, sizeof *e);
    e->terminal = platform_is_terminal(stdin) && platform_escapes(stdout);
    e->styles = styles;
    return e;
}

void cli_editor_close(cli_editor *e) {
    int i;
    if (e == NULL) return;
    if (e->terminal) terminal_mode(TERMINAL_USUAL);
    for (i = 0; i < e->n_history; i++) free(e->history[i]);
    free(e->text.s);
    free(e->cut.s);
    free(e->kept.s);
    free(e);
}
