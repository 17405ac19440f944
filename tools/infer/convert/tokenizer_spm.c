/* tokenizer_spm.c: SentencePiece models: a reader of the few fields of their protocol buffer that matter.
 *
 * Format: fields, each a varint `number << 3 | kind` and a value: kind 0 a varint, 1 eight bytes, 2 a varint n and n bytes,
 * 5 four bytes. ModelProto: 1 a piece (1 text, 2 score, 3 type), 2 the trainer's settings (3 model type), 3 the normalizer's
 * (2 map of characters, 3 add_dummy_prefix, 4 remove_extra_whitespaces).
 */
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const unsigned char *p, *end;
    int bad;
} reader;

typedef struct field {
    uint64_t number, value; /* value: of kind 0; else bits of the bytes */
    int kind;
    reader inside; /* kind 2 */
} field;

static uint64_t varint(reader *r) {
    uint64_t x = 0;
    int shift;
    for (shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        const unsigned char c = *r->p++;
        x |= (uint64_t)(c & 127) << shift;
        if (c < 128) return x;
    }
    r->bad = 1;
    return 0;
}

/* 0 at the end, and when the bytes are malformed (r->bad). */
static int next(reader *r, field *f) {
    uint64_t key, n;
    if (r->bad || r->p == r->end) return 0;
    key = varint(r);
    f->number = key >> 3;
    f->kind = (int)(key & 7);
    f->value = 0;
    f->inside.p = f->inside.end = r->p;
    f->inside.bad = 0;
    if (f->kind == 0) {
        f->value = varint(r);
        return !r->bad;
    }
    n = f->kind == 1 ? 8 : f->kind == 5 ? 4 : f->kind == 2 ? varint(r) : UINT64_MAX;
    if (r->bad || f->number == 0 || n > (uint64_t)(r->end - r->p)) {
        r->bad = 1;
        return 0;
    }
    f->inside.p = r->p;
    r->p += n;
    f->inside.end = r->p;
    if (f->kind != 2) f->value = gguf_load(f->inside.p, (int)n);
    return 1;
}

static float as_float(uint64_t bits) {
    const uint32_t b = (uint32_t)bits;
    float x;
    memcpy(&x, &b, 4);
    return x;
}

typedef struct model {
    int kind; /* UNIGRAM, BPE, ... */
    int prefix, extra;
    hf_text charsmap;
} model;
enum { SPM_UNIGRAM = 1, SPM_BPE = 2 };

static int read_piece(hf_vocab *v, reader *r, int64_t id) {
    hf_token *t;
    field f;
    hf_text text = {NULL, 0};
    double score = 0;
    uint64_t type = HF_NORMAL;
    while (next(r, &f)) {
        if (f.number == 1 && f.kind == 2) {
            text.s = (const char *)f.inside.p;
            text.n = (size_t)(f.inside.end - f.inside.p);
        } else if (f.number == 2 && f.kind == 5) {
            score = as_float(f.value);
        } else if (f.number == 3 && f.kind == 0) {
            type = f.value;
        }
    }
    if (r->bad) return 0;
    if (text.s == NULL || type < HF_NORMAL || type > HF_BYTE || score != score) {
        cli_fail(v->command, "%s: the piece %.0f of the SentencePiece model is malformed", v->folder, (double)id);
        return -1;
    }
    if (v->rows && (uint64_t)id >= v->rows) return 1; /* said at the end */
    t = hf_token_at(v, id);
    if (t == NULL) return -1;
    t->text = text;
    t->score = score;
    t->type = (int)type;
    return t->type == HF_USER && !hf_spaces(v, &t->text) ? -1 : 1;
}

static void read_trainer(reader *r, model *m) {
    field f;
    while (next(r, &f))
        if (f.number == 3 && f.kind == 0) m->kind = (int)(f.value & 15);
}

static void read_normalizer(reader *r, model *m) {
    field f;
    while (next(r, &f)) {
        if (f.number == 2 && f.kind == 2) {
            m->charsmap.s = (const char *)f.inside.p;
            m->charsmap.n = (size_t)(f.inside.end - f.inside.p);
        }
        if (f.number == 3 && f.kind == 0) m->prefix = f.value != 0;
        if (f.number == 4 && f.kind == 0) m->extra = f.value != 0;
    }
}

/* XLM-RoBERTa's ids: four control tokens, the pieces from the fourth on, a mask. */
static int realign(hf_vocab *v) {
    static const struct { const char *text; int type; } FIRST[] = {
        {"<s>", HF_CONTROL}, {"<pad>", HF_CONTROL}, {"</s>", HF_CONTROL}, {"<unk>", HF_UNKNOWN}};
    hf_token *mask = hf_token_at(v, (int64_t)v->n); /* room for two more */
    size_t i;
    if (mask == NULL || hf_token_at(v, (int64_t)v->n) == NULL) return 0;
    for (i = v->n - 1; i > 4; i--) v->tokens[i - 1] = v->tokens[i - 2];
    v->tokens[v->n - 1].text.s = "<mask>";
    v->tokens[v->n - 1].text.n = 6;
    v->tokens[v->n - 1].type = HF_CONTROL;
    for (i = 0; i < 4; i++) {
        v->tokens[i].text.s = FIRST[i].text;
        v->tokens[i].text.n = strlen(FIRST[i].text);
        v->tokens[i].type = FIRST[i].type;
        v->tokens[i].score = 0;
    }
    return 1;
}

static int read_model(hf_vocab *v, const char *name, size_t n, model *m) {
    reader r;
    field f;
    int64_t pieces = 0;
    r.p = (const unsigned char *)v->spm;
    r.end = r.p + n;
    r.bad = 0;
    while (next(&r, &f)) {
        int ok = 1;
        if (f.kind != 2) continue;
        if (f.number == 1) ok = read_piece(v, &f.inside, pieces++);
        if (f.number == 2) read_trainer(&f.inside, m);
        if (f.number == 3) read_normalizer(&f.inside, m);
        if (ok < 0) return 0;
        if (f.inside.bad) r.bad = 1;
    }
    if (r.bad || v->n == 0) return cli_fail(v->command, "%s/%s: not a SentencePiece model", v->folder, name), 0;
    if (v->rows && (uint64_t)pieces > v->rows)
        hf_note(v, "%s: of %.0f pieces the first %.0f are kept, as many as the embedding has rows", name, (double)pieces, (double)v->rows);
    return 1;
}

int hf_from_spm(hf_vocab *v, const char *name) {
    model m = {SPM_UNIGRAM, 1, 1, {NULL, 0}};
    int failed = 0;
    size_t n;
    v->spm = hf_read(v, name, &n, &failed);
    if (v->spm == NULL || !read_model(v, name, n, &m)) return 0;
    if (m.kind != SPM_UNIGRAM && m.kind != SPM_BPE)
        return cli_fail(v->command, "%s/%s: neither a Unigram nor a BPE model", v->folder, name), 0;
    v->n_base = v->n;
    v->scored = 1;
    v->pre = "default";
    if (m.kind == SPM_UNIGRAM) {
        v->model = "t5";
        v->space_prefix = m.prefix;
        v->extra_spaces = m.extra;
        v->charsmap = m.charsmap;
        if (strcmp(name, HF_XLM_MODEL) == 0 && !realign(v)) return 0;
        return hf_added_spm(v);
    }
    v->model = "llama";
    if (!m.prefix) v->space_prefix = 0; /* 1 is the default of the kind */
    if (m.charsmap.n) hf_note(v, "%s: its normalization of characters is left out", name);
    if (m.extra) v->extra_spaces = 1;
    return hf_added_spm(v);
}
