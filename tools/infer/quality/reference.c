/* reference.c: a model's log-probabilities in a file, to measure others beside it. */
#include "quality.h"
#include "../synth/gguf_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};
enum { ROW_HEAD = 8 };

static size_t row_bytes(int32_t vocab) { return ROW_HEAD + 4 * (((size_t)vocab + 1) / 2); }

static float get_f32(const unsigned char *p) {
    const uint32_t v = (uint32_t)gguf_load(p, 4);
    float x;
    memcpy(&x, &v, 4);
    return x;
}
static void put_f32(unsigned char *p, float x) {
    uint32_t v;
    memcpy(&v, &x, 4);
    gguf_store(p, v, 4);
}

static int bad(const reference *r, const char *why) { return cli_fail(r->command, "%s: %s", r->path, why) == CLI_DONE; }

static int rows_alloc(reference *r) {
    r->row = cli_alloc(r->command, row_bytes(r->vocab), 1);
    r->values = cli_alloc(r->command, (size_t)r->vocab, sizeof *r->values);
    return r->row && r->values;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int read_tokens(reference *r, quality_text *text) {
    unsigned char bytes[4096];
    size_t done = 0, cap = 0, n, i;
    while (done < text->n) { /* what a file only claims is not allocated */
        n = text->n - done < sizeof bytes / 4 ? text->n - done : sizeof bytes / 4;
        if (fread(bytes, 4, n, r->file) != n) return bad(r, "it ends within its tokens");
        if (done + n > cap) {
            infer_token *more;
            cap = 2 * cap + n;
            more = cli_grow(r->command, text->tokens, cap, sizeof *more);
            if (more == NULL) return 0;
            text->tokens = more;
        }
        for (i = 0; i < n; i++) text->tokens[done + i] = (infer_token)gguf_load(bytes + 4 * i, 4);
        done += n;
    }
    return 1;
}

int reference_open(reference *r, const char *command, const char *path, quality_text *text) {
    unsigned char head[20];
    uint32_t size, vocab, windows;
    memset(r, 0, sizeof *r);
    memset(text, 0, sizeof *text);
    r->command = command;
    r->path = path;
    r->file = platform_fopen(path, "rb");
    if (r->file == NULL) return bad(r, "cannot open it");
    if (fread(head, 1, sizeof head, r->file) != sizeof head || memcmp(head, MAGIC, sizeof MAGIC) != 0)
        return bad(r, "not a file of log-probabilities (--save-logits)");
    size = (uint32_t)gguf_load(head + 8, 4);
    vocab = (uint32_t)gguf_load(head + 12, 4);
    windows = (uint32_t)gguf_load(head + 16, 4);
    if (size < 4 || size > 1 << 24) return bad(r, "windows of an impossible size");
    if (vocab < 1 || vocab > 1 << 24) return bad(r, "an impossible size of the vocabulary");
    if (windows < 1 || windows > INT32_MAX / size) return bad(r, "an impossible number of windows");
    text->size = (int32_t)size;
    text->n_windows = (int32_t)windows;
    text->n = (size_t)size * windows;
    r->vocab = (int32_t)vocab;
    return read_tokens(r, text) && rows_alloc(r);
}

const float *reference_read(reference *r) {
    float step, lowest;
    int32_t i;
    if (fread(r->row, 1, row_bytes(r->vocab), r->file) != row_bytes(r->vocab)) {
        bad(r, "it ends within its log-probabilities");
        return NULL;
    }
    step = get_f32(r->row);
    lowest = get_f32(r->row + 4);
    if (!(step >= 0 && step < 1) || !(lowest <= 0 && lowest > -1e6f)) {
        bad(r, "log-probabilities that are none");
        return NULL;
    }
    for (i = 0; i < r->vocab; i++) {
        const unsigned char *p = r->row + ROW_HEAD + 2 * i;
        r->values[i] = step * (float)(p[0] | p[1] << 8) + lowest;
    }
    return r->values;
}

/* ---- writing -------------------------------------------------------------------------------- */

int reference_create(reference *r, const char *command, FILE *file, const quality_text *text, int32_t vocab) {
    unsigned char head[12];
    memset(r, 0, sizeof *r);
    r->command = command;
    r->file = file;
    r->vocab = vocab;
    gguf_store(head, (uint32_t)text->size, 4);
    gguf_store(head + 4, (uint32_t)vocab, 4);
    gguf_store(head + 8, (uint32_t)text->n_windows, 4);
    fwrite(MAGIC, 1, sizeof MAGIC, file);
    fwrite(head, 1, sizeof head, file);
    cli_write_i32(file, text->tokens, (size_t)text->size * (size_t)text->n_windows);
    return rows_alloc(r);
}

int reference_write(reference *r, const float *logits) {
    float max, min = logits[0], log_sum, step;
    int32_t i;
    log_sum = (float)quality_log_sum(logits, r->vocab, &max);
    for (i = 1; i < r->vocab; i++)
        if (logits[i] < min) min = logits[i];
    if (min < max - 16) min = max - 16;
    step = (max - min) / 65535;
    put_f32(r->row, step);
    put_f32(r->row + 4, min - max - log_sum);
    memset(r->row + ROW_HEAD, 0, row_bytes(r->vocab) - ROW_HEAD);
    for (i = 0; step > 0 && i < r->vocab; i++) {
        const uint32_t v = logits[i] > min ? (uint32_t)lrintf((1 / step) * (logits[i] - min)) : 0;
        r->row[ROW_HEAD + 2 * i] = (unsigned char)(v & 255);
        r->row[ROW_HEAD + 2 * i + 1] = (unsigned char)(v >> 8 & 255);
    }
    return fwrite(r->row, 1, row_bytes(r->vocab), r->file) == row_bytes(r->vocab);
}

void reference_close(reference *r) {
    if (r->path && r->file) fclose(r->file); /* a file that is written is the caller's */
    free(r->row);
    free(r->values);
    memset(r, 0, sizeof *r);
}
