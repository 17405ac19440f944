/* map.h: what the files of `infer map` share.
 *
 *   map.c      the command and its options
 *   lines.c    lines of a file; those of the input are read by a thread of its own
 *   ids.c      ids that came before, in the input or in what an earlier run wrote
 *   items.c    lines between reading and writing: their ids, their order, the counts
 *   answer.c   lines to requests of a queue, and replies to lines: jobs of the server (serve/serve.h) without HTTP
 *   vectors.c  the same for --embed: texts to vectors
 *
 * Threads: one reads, a queue's evaluates, the main one does the rest. Memory is bounded by the number and the bytes of lines that are
 * between reading and writing, whatever the length of the input; ids alone take memory for each line. */
#ifndef MAP_H
#define MAP_H

#include "../serve/serve.h"

/* ---- lines.c -------------------------------------------------------------------------------- */

/* A text that comes in pieces, cut into lines. */
typedef struct map_splitter {
    cli_text line;   /* so far, without its end */
    uint64_t number; /* from 1 */
    uint64_t bytes, ended; /* so far; of lines that have ended */
    size_t most;
    int too_long;    /* the line is longer: then it is empty */
} map_splitter;
/* Calls fn with each line that ends in the next n bytes, until it returns 0. */
typedef int map_line_fn(void *user, map_splitter *s);
int map_split(map_splitter *s, const char *text, size_t n, map_line_fn *fn, void *user);

struct map;
struct map_item;
int map_read_start(struct map *m); /* the thread that reads; 0 after saying why not */
struct map_item *map_read_take(struct map *m); /* the next line; the lock is held; NULL = there is none */

/* ---- ids.c ---------------------------------------------------------------------------------- */

enum { ID_READ = 1, ID_WRITTEN = 2 }; /* it is in the input; in the output of an earlier run */
typedef struct map_ids {
    uint64_t (*rows)[2]; /* cap of them: 126 bits of SHA-256 and what is known */
    size_t n, cap;
} map_ids;
/* Adds to what is known of an id. Returns what was known before; -1: memory ran out, which has been said. */
int map_ids_add(map_ids *ids, const cli_text *id, int known);
void map_ids_free(map_ids *ids);
/* Takes the ids of what an earlier run wrote to a file, and cuts off a last line without its end. No file is one without lines.
 * *failed: how many lines are errors. 0 after saying what is wrong. */
int map_ids_written(map_ids *ids, const char *path, uint64_t *failed);

/* ---- items.c -------------------------------------------------------------------------------- */

enum { MAP_LIMIT_USUAL = -2 };
typedef struct map_options {
    const char *in, *out;
    int resume, unordered, embed, allow_failed;
    const char *part; /* "K/N" */
    int64_t limit; /* tokens of a line that does not say it; -1 = no limit, or: */
    int64_t max_line;
} map_options;

enum { ITEM_RUNS, ITEM_READY, ITEM_DROPPED };
/* A line that was read and whose reply was not written. */
typedef struct map_item {
    call call;             /* first, for what knows calls only; its json is the line */
    job *job;              /* RUNS */
    uint64_t line;         /* its number */
    cli_text text;         /* until it is parsed */
    size_t bytes;          /* of that */
    int too_long;
    const infer_json *id;  /* NULL = the line's number, or */
    int nameless;          /* 1 = it has none */
    int state, failed;
    cli_text out;          /* READY: what is to be written */
    int32_t prompt, fresh; /* tokens */
    struct map_item *next, *next_done;
} map_item;

typedef struct map {
    server server; /* first, for what knows servers only */
    serve_options serve;
    const map_options *options;
    cli_common *common;
    FILE *in, *out;
    pthread_mutex_t lock;
    pthread_cond_t changed, room; /* for the main thread; for the one that reads */
    map_splitter splitter;        /* of the one that reads */
    uint64_t part, parts;         /* which takes the lines part + 1, part + 1 + parts, ... */
    /* lock */
    map_item *first, *last;       /* that nobody has looked at */
    size_t n_lines, n_bytes;      /* of these */
    int ended, broken, stop;      /* the input has ended; it could not be read; no more of it is wanted */
    map_item *done;               /* whose replies have ended */
    /* the main thread's */
    double started;
    int signals;
    double deadline;              /* of running replies, once a signal has come */
    map_ids ids;
    map_item *head, *tail;        /* in the order of the lines */
    size_t items, bytes;          /* of these */
    int running;
    int unwritten;                /* the output cannot be written; 2 = for lack of memory */
    uint64_t answered, failed, there, failed_before, prompt_tokens, new_tokens;
} map;

/* Waits, if asked to, until there is a line, a reply or a signal, or nothing will come. Returns the next line, if there is room for it: fewer
 * than `most` lines between reading and writing. The replies that have ended go to *done. */
map_item *map_next(map *m, int wait, size_t most, map_item **done);
int map_ended(map *m); /* there will be no further line */
/* Has a signal asked for the end? Then no line is read any more. 2 = at once: another one, or the time is over. */
int map_stopped(map *m);
/* Parses the line, and puts the item behind those that are to be written. It is READY when it is an error already. Returns 0 after freeing it:
 * it is in the output of an earlier run. */
int map_item_add(map *m, map_item *it);
void map_item_free(map_item *it);
void map_id(const map_item *it, cli_text *t); /* as JSON */
/* The item is READY: an error, that of its call; or its `out`. */
void map_item_failed(map_item *it);
void map_item_answered(map_item *it);
/* Writes what is to be written next, and forgets it. */
void map_write(map *m);

/* ---- answer.c, vectors.c -------------------------------------------------------------------- */

/* Open the model and take all lines. Return 0 after saying what is wrong with the model. */
int map_answer(map *m);
int map_vectors(map *m);
int map_open_output(map *m); /* map.c: when the model is there; and reading begins. 0 after saying why not */

#endif
