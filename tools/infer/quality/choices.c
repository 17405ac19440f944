/* choices.c: files of questions, in the forms that llama.cpp's perplexity reads:
 *   hellaswag   6 lines a question: the context, the number of the right ending (from 0), four endings
 *   winogrande  a line a question: number, sentence with _ for the answer (in quotes if it has commas), two answers, 1 or 2
 *   tasks       binary (ARC, MMLU, TruthfulQA): uint32 number of questions, uint32 position of each, then of each the question,
 *               and twice a list of answers; the first has one right answer. A text is a uint32 length and its bytes, a list a uint32
 *               number, its texts, and an int32 for each, 1 = right. Little-endian. */
#include "choices.h"
#include "../synth/gguf_write.h"

#include <stdlib.h>
#include <string.h>

static int bad(const choices *c, const char *why) {
    cli_fail(c->command, "%s: question %lu: %s", c->path, (unsigned long)(c->number + 1), why);
    return -1;
}

/* A line without its end; 0 when there is none. */
static int next_line(choices *c, choice_text *out) {
    const char *start = c->data + c->at, *end;
    if (c->at >= c->n) return 0;
    end = memchr(start, '\n', c->n - c->at);
    out->s = start;
    out->n = end ? (size_t)(end - start) : c->n - c->at;
    c->at += out->n + (end != NULL);
    if (out->n && start[out->n - 1] == '\r') out->n--;
    return 1;
}

static int next_hellaswag(choices *c, question *q) {
    choice_text number;
    int i, right;
    if (!next_line(c, &q->before)) return 0;
    if (!next_line(c, &number)) return bad(c, "six lines are needed");
    right = number.n == 1 ? number.s[0] - '0' : -1;
    if (right < 0 || right > 3) return bad(c, "the second line is not the number of an ending, 0 to 3");
    for (i = 0; i < 4; i++) {
        if (!next_line(c, &q->ends[i].end)) return bad(c, "six lines are needed");
        q->ends[i].right = i == right;
    }
    q->n = 4;
    q->space = 1;
    return 1;
}

/* A field of a line, which `ends` with a comma or the line; quotes around it are taken off. */
static int next_field(choice_text *line, choice_text *out, int ends) {
    const int quoted = line->n > 0 && line->s[0] == '"';
    const char *start = line->s + quoted, *stop = line->s + line->n, *end = memchr(start, quoted ? '"' : ',', (size_t)(stop - start));
    if (end == NULL && (quoted || ends == ',')) return 0;
    out->s = start;
    out->n = (size_t)((end ? end : stop) - start);
    start = end ? end + quoted : stop; /* what follows the field */
    if (start < stop ? *start != ',' || ends != ',' : ends == ',') return 0;
    line->s = start + (start < stop);
    line->n = (size_t)(stop - line->s);
    return 1;
}

static int next_winogrande(choices *c, question *q) {
    choice_text line, number, sentence, answer;
    const char *gap;
    if (!next_line(c, &line)) return 0;
    if (!next_field(&line, &number, ',') || !next_field(&line, &sentence, ',') || !next_field(&line, &q->ends[0].end, ',') ||
        !next_field(&line, &q->ends[1].end, ',') || !next_field(&line, &answer, 0))
        return bad(c, "five fields are needed: number, sentence, two answers, 1 or 2");
    if (answer.n != 1 || (answer.s[0] != '1' && answer.s[0] != '2')) return bad(c, "the last field is neither 1 nor 2");
    gap = memchr(sentence.s, '_', sentence.n);
    if (gap == NULL) return bad(c, "the sentence has no _");
    q->before.s = sentence.s;
    q->before.n = (size_t)(gap - sentence.s);
    q->after.s = gap + 1;
    q->after.n = sentence.n - q->before.n - 1;
    q->n = 2;
    q->ends[0].right = answer.s[0] == '1';
    q->ends[1].right = answer.s[0] == '2';
    return 1;
}

static int next_u32(choices *c, uint32_t *out) {
    if (c->n - c->at < 4) return 0;
    *out = (uint32_t)gguf_load((const unsigned char *)c->data + c->at, 4);
    c->at += 4;
    return 1;
}

static int next_text(choices *c, choice_text *out) {
    uint32_t n;
    if (!next_u32(c, &n) || n > c->n - c->at) return 0;
    out->s = c->data + c->at;
    out->n = n;
    c->at += n;
    return 1;
}

/* A list of answers; with q = NULL it is skipped. */
static int next_answers(choices *c, question *q) {
    uint32_t n, i, right;
    choice_text text;
    if (!next_u32(c, &n) || n > CHOICES_MAX) return 0;
    for (i = 0; i < n; i++) {
        if (!next_text(c, &text)) return 0;
        if (q) q->ends[i].end = text;
    }
    for (i = 0; i < n; i++) {
        if (!next_u32(c, &right)) return 0;
        if (q) q->ends[i].right = right == 1;
    }
    if (q) q->n = (int)n;
    return 1;
}

static int next_task(choices *c, question *q) {
    uint32_t n = 0;
    const size_t at = c->at;
    c->at = 0;
    next_u32(c, &n);
    c->at = at;
    if (c->number == n) return 0;
    if (!next_text(c, &q->before) || !next_answers(c, q) || !next_answers(c, NULL)) return bad(c, "it is cut off, or more than 100 answers");
    q->space = 1;
    return 1;
}

int choices_begin(choices *c) {
    uint32_t n;
    c->at = c->number = 0;
    if (c->form != CHOICES_TASKS) return 1;
    if (!next_u32(c, &n) || n == 0 || n > (c->n - c->at) / 4) return cli_fail(c->command, "%s is no file of tasks", c->path) == CLI_DONE;
    c->at += 4 * (size_t)n;
    return 1;
}

int choices_next(choices *c, question *q) {
    int i, right = 0, r;
    memset(q, 0, sizeof *q);
    r = c->form == CHOICES_HELLASWAG ? next_hellaswag(c, q) : c->form == CHOICES_WINOGRANDE ? next_winogrande(c, q) : next_task(c, q);
    if (r != 1) return r;
    for (i = 0; i < q->n; i++) {
        right += q->ends[i].right;
        if (q->ends[i].end.n == 0) return bad(c, "an answer is empty");
    }
    if (q->n < 2 || right == 0) return bad(c, "two answers or more are needed, one of them right");
    c->number++;
    return 1;
}
