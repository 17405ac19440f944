/* increments.c: incremental saving of sessions, and loading what was saved that way.
 *
 * Format: records, one after the other, in machine byte order (checked by a marker); each describes the session at
 *        that time and contains what had changed. A record: 21 uint32, of which the first 17 are those of a state
 *        (state.c; 12 and 13 count what this record brings), then the position from which it is new, 1 when it replaces
 *        everything, source too (the first one does), and the sum before it (two words; 0 in the first one); a sum of
 *        that; tokens from the position on, those of a source, runs of adapters that begin there or later; all runs
 *        of media; of every slot the rows of the new positions that are still in the cache, page by page,
 *        [head][row][dim], or its recurrent state; the sum. A sum is the 64-bit FNV-1a of all records up to there, so
 *        that a record fits no other history.
 * Rules: one number records what is new: infer_session.saved_to, the lowest position that the session was rewound to
 *        since (infer__cache_cut). Loading stops at an incomplete record: the ones before it count, and the caller is
 *        informed. Loaded data is not trusted, as with states: every length is checked before it is used, and each
 *        record must contain what its positions need and earlier records lack.
 * Start: infer__session_save_more, infer__session_load_more.
 */
#include "../model.h"

enum { INFER__RECORD_WORDS = 21, INFER__RECORD_FROM = 17, INFER__RECORD_WHOLE = 18, INFER__RECORD_BEFORE = 19,
       INFER__RECORD_VERSION = 2 };

static int infer__increments_known(const uint32_t *w) { return memcmp(w, "INFERSM", 8) == 0; }

/* 0 stands for no record. */
static uint64_t infer__record_sum(uint64_t sum) { return sum ? sum : 1; }

static uint64_t infer__record_before(const uint32_t *w) {
    return w[INFER__RECORD_BEFORE] | (uint64_t)w[INFER__RECORD_BEFORE + 1] << 32;
}

/* The position from which a group's pages are new, at most the last one. */
static int32_t infer__record_first(const uint32_t *w, int32_t group) {
    const int32_t first = (int32_t)w[9 + group] * INFER__PAGE, from = (int32_t)w[INFER__RECORD_FROM];
    return INFER__MIN(INFER__MAX(first, from), (int32_t)w[8]);
}

/* Rows of page i of a slot that hold positions [from, to): *first and how many. */
static int32_t infer__record_rows(int32_t every, int32_t i, int32_t from, int32_t to, int32_t *first) {
    const int32_t begin = i * INFER__PAGE;
    *first = infer__rows_before(every, INFER__MAX(from, begin)) - infer__rows_before(every, begin);
    return infer__rows_before(every, INFER__MIN(to, begin + INFER__PAGE)) - infer__rows_before(every, begin) - *first;
}

/* Bytes of a row of one head. */
static uint64_t infer__record_row(const infer_context *c, int32_t state) {
    const infer__state *s = &c->model->states[state];
    return infer__page_of_state(c, state) / (uint64_t)s->n_head / (uint64_t)infer__page_rows(s->every);
}

/* Bytes that a record has of a slot. */
static uint64_t infer__record_bytes(const infer_context *c, const uint32_t *w, int32_t state) {
    const infer__state *s = &c->model->states[state];
    int32_t rows;
    if (!infer__state_saved(c->model, state)) return 0;
    if (s->group == INFER__GROUP_CELLS) return w[8] > 0 ? infer__page_of_state(c, state) : 0;
    rows = infer__rows_before(s->every, (int32_t)w[8]) -
           infer__rows_before(s->every, infer__record_first(w, s->group));
    return (uint64_t)rows * (uint64_t)s->n_head * infer__record_row(c, state);
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static void infer__record_slot(infer_session *s, const uint32_t *w, int32_t state, char *page, char *spare,
                               infer__state_out *o) {
    infer_context *c = s->context;
    const infer__state *slot = &c->model->states[state];
    const uint64_t head = infer__page_of_state(c, state) / (uint64_t)slot->n_head;
    uint64_t row;
    int32_t i, h, from, first, n;
    if (slot->group == INFER__GROUP_CELLS) {
        if (s->n_valid == 0) return;
        infer__cell_move(c, state, s->cell, page, 1);
        infer__state_put(o, page, infer__page_of_state(c, state));
        return;
    }
    row = infer__record_row(c, state);
    from = infer__record_first(w, slot->group);
    for (i = from / INFER__PAGE; i * INFER__PAGE < s->n_valid; i++) {
        n = infer__record_rows(slot->every, i, from, s->n_valid, &first);
        if (n == 0) continue;
        infer__page_move(c, state, s->pages[slot->group][i], page, spare, 1);
        for (h = 0; h < slot->n_head && infer__ok(&c->ctx); h++)
            infer__state_put(o, page + (uint64_t)h * head + (uint64_t)first * row, (uint64_t)n * row);
    }
}

/* A record's contents besides its pages: words 12, 13 and from 17 on. */
static int32_t infer__record_header(const infer_session *s, int whole, uint64_t before,
                                    uint32_t w[INFER__RECORD_WORDS]) {
    const int32_t from = whole ? 0 : s->saved_to;
    int32_t run = 0;
    infer__state_header(s, w);
    memcpy(w, "INFERSM", 8);
    w[3] = INFER__RECORD_VERSION;
    if (!whole) w[12] = 0;
    while (run < s->n_adapted && s->adapted[run].from < from) run++;
    w[13] = (uint32_t)(s->n_adapted - run);
    w[INFER__RECORD_FROM] = (uint32_t)from;
    w[INFER__RECORD_WHOLE] = (uint32_t)whole;
    w[INFER__RECORD_BEFORE] = (uint32_t)before;
    w[INFER__RECORD_BEFORE + 1] = (uint32_t)(before >> 32);
    return run;
}

/* Writes the new part of a session, or all of it; before: the sum of the records so far, 0 = none. `page` has room
 * for two. */
static infer_result infer__record_write(infer_session *s, int whole, uint64_t before, infer__state_out *o, char *page) {
    infer_context *c = s->context;
    uint32_t w[INFER__RECORD_WORDS];
    uint64_t sum;
    int32_t i = infer__record_header(s, whole, before, w), from = (int32_t)w[INFER__RECORD_FROM];
    infer__error_clear(&c->ctx.error);
    o->sum = before ? before : INFER__FNV;
    infer__state_put(o, w, sizeof w);
    sum = o->sum;
    infer__state_put(o, &sum, sizeof sum);
    infer__state_put(o, s->tokens + from, (uint64_t)(s->n - from) * sizeof *s->tokens);
    if (w[12]) infer__state_put(o, s->source->tokens, (uint64_t)w[12] * sizeof *s->tokens);
    for (; i < s->n_adapted; i++) {
        uint32_t words[INFER__ADAPTED_WORDS];
        infer__adapters_words(&s->adapted[i], words);
        infer__state_put(o, words, sizeof words);
    }
    infer__spans_put(s, o);
    for (i = 0; i < c->model->n_states && infer__ok(&c->ctx); i++)
        if (infer__state_saved(c->model, i)) infer__record_slot(s, w, i, page, page + infer__page_most(c), o);
    if (!infer__ok(&c->ctx))
        return infer__error(&s->error, c->ctx.error.code, "infer_session_save_more: %s", c->ctx.error.message);
    sum = o->sum = infer__record_sum(o->sum);
    o->bytes += sizeof sum;
    if (!o->failed && o->write(o->user, &sum, sizeof sum) != sizeof sum) o->failed = 1;
    return o->failed ? infer__error(&s->error, INFER_ERR_IO, "infer_session_save_more: the callback wrote too little")
                     : INFER_OK;
}

/* Mark and session are at the end of a record. */
static void infer__mark_set(infer_session_mark *mark, infer_session *s, uint64_t bytes, uint64_t sum) {
    mark->bytes = bytes;
    mark->sum = sum;
    s->saved = sum;
    s->saved_to = s->n_valid;
    s->saved_n = s->n;
}

/* As infer_session_save_more; the session and its context are claimed. */
static infer_result infer__session_save_more(infer_session *s, infer_session_mark *mark, infer_write_fn write,
                                             void *user) {
    infer_context *c = s->context;
    infer__state_out o;
    infer_result r;
    char *page;
    int whole;
    infer__error_clear(&s->error);
    if (!write || !mark)
        return infer__error(&s->error, INFER_ERR_ARGUMENT, "infer_session_save_more: %s is NULL",
                            write ? "mark" : "write");
    if ((r = infer__save_check(s, "infer_session_save_more")) != INFER_OK) return r;
    if (mark->bytes && (!s->saved || s->saved != mark->sum))
        return infer__error(&s->error, INFER_ERR_STATE,
                            "infer_session_save_more: the mark is not of this session's last save or load: begin again "
                            "with one of zeros");
    whole = !mark->bytes || s->saved_to < 0;
    if (!whole && s->saved_to == s->n_valid && s->saved_n == s->n) return INFER_OK;
    page = (char *)infer__alloc(c->ctx.mem, 2 * infer__page_most(c));
    if (!page) return infer__error(&s->error, INFER_ERR_MEMORY, "infer_session_save_more: no memory for a page");
    memset(&o, 0, sizeof o);
    o.write = write;
    o.user = user;
    r = infer__record_write(s, whole, mark->bytes ? mark->sum : 0, &o, page);
    infer__free(c->ctx.mem, page);
    if (!r) infer__mark_set(mark, s, mark->bytes + o.bytes, o.sum);
    return r;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Records that have been read so far. */
typedef struct infer__increments {
    infer_session *s;
    infer_read_fn read;
    void *user;
    infer__state_image image; /* of the last whole record; parts of it are allocated one by one */
    uint64_t *room;           /* bytes of each slot, and of tokens, source, runs */
    uint64_t sum, bytes;      /* of these records */
    uint64_t got;             /* bytes that were read of the next one */
    int cut;                  /* and then there were no more */
    int32_t n;
} infer__increments;

static int infer__increments_read(infer__increments *in, void *to, uint64_t n) {
    const uint64_t got = n ? in->read(in->user, to, (size_t)n) : 0;
    in->got += got;
    in->cut = got != n;
    return got == n;
}

/* At least n bytes at *p, which has *room. */
static int infer__increments_reserve(infer__increments *in, char **p, uint64_t *room, uint64_t n) {
    uint64_t more = n;
    char *q;
    if (n <= *room) return 1;
    if (*room && n < UINT64_MAX / 2) more = n + n / 2; /* it grows record by record */
    q = (char *)infer__realloc(in->s->context->ctx.mem, *p, more, 1);
    if (!q) return 0;
    *p = q;
    *room = more;
    return 1;
}

/* Runs that begin before a position. */
static uint32_t infer__increments_runs(const infer__increments *in, uint32_t from) {
    uint32_t i, at;
    for (i = 0; i < in->image.w[13]; i++) {
        memcpy(&at, in->image.runs + (size_t)i * INFER__ADAPTED_WORDS * sizeof at, sizeof at);
        if (at >= from) break;
    }
    return i;
}

/* Can the record of a complete header follow the records before it? *w becomes that of the state it makes. */
static infer_result infer__record_check(infer__increments *in, uint32_t *w) {
    infer_session *s = in->s;
    const uint32_t *now = in->image.w, from = w[INFER__RECORD_FROM], whole = w[INFER__RECORD_WHOLE];
    uint32_t header[INFER__STATE_WORDS];
    infer_result r;
    int32_t g;
    if (w[3] != INFER__RECORD_VERSION)
        return infer__error(&s->error, INFER_ERR_UNSUPPORTED, "infer_session_load_more: version %u", (unsigned)w[3]);
    if (whole > 1 || (in->n == 0 && !whole) || (whole && from) || (!whole && w[12]) || w[13] > w[7] || from > w[8] ||
        (in->n > 0 && !whole && from > now[8]))
        return infer__error(&s->error, INFER_ERR_FORMAT,
                            "infer_session_load_more: record %d begins at position %u, which does not follow",
                            (int)in->n, (unsigned)from);
    infer__state_header(s, header); /* for the names: the check of states reports differences */
    memcpy(w, header, 8);
    w[3] = header[3];
    if (!whole) {
        w[12] = now[12];
        w[13] += infer__increments_runs(in, from);
    }
    r = infer__state_check(s, w);
    for (g = 0; g < INFER__CACHE_GROUPS && !r && !whole; g++) /* pages before the new ones */
        if (s->context->cache.groups[g].n_pages && w[9 + g] * INFER__PAGE < from && w[9 + g] < now[9 + g])
            r = infer__error(&s->error, INFER_ERR_FORMAT,
                             "infer_session_load_more: record %d needs page %u, which is not there any more",
                             (int)in->n, (unsigned)w[9 + g]);
    return r;
}

/* Bytes of a record after its header; w as infer__record_check leaves it. */
static uint64_t infer__record_size(const infer__increments *in, const uint32_t *w, uint32_t runs) {
    const infer_context *c = in->s->context;
    uint64_t n = ((uint64_t)w[7] - w[INFER__RECORD_FROM] + (w[INFER__RECORD_WHOLE] ? w[12] : 0)) * sizeof(infer_token) +
                 ((uint64_t)runs * INFER__ADAPTED_WORDS + (uint64_t)w[16] * INFER__SPAN_WORDS) * sizeof(uint32_t);
    int32_t k;
    for (k = 0; k < c->model->n_states; k++) n += infer__record_bytes(c, w, k);
    return n;
}

/* The rows of a slot go to their pages. Returns the bytes that come next, NULL without memory. */
static const char *infer__increments_slot(infer__increments *in, const uint32_t *w, int32_t k, const char *data) {
    const infer_context *c = in->s->context;
    const infer__state *slot = &c->model->states[k];
    infer__state_slot *to = &in->image.slots[k];
    const uint64_t page = infer__page_of_state(c, k), head = page / (uint64_t)slot->n_head;
    uint64_t row;
    int32_t i, h, n, first, from, low, kept, pages = infer__state_pages(w);
    to->stride = page;
    if (slot->group == INFER__GROUP_CELLS) {
        if (!infer__increments_reserve(in, &to->p, &in->room[k], page)) return NULL;
        if (w[8] == 0) return data;
        memcpy(to->p, data, (size_t)page);
        return data + page;
    }
    row = infer__record_row(c, k);
    from = infer__record_first(w, slot->group);
    low = (int32_t)w[9 + slot->group];
    if (pages > low && !infer__increments_reserve(in, &to->p, &in->room[k], (uint64_t)(pages - low) * page))
        return NULL;
    kept = (from + INFER__PAGE - 1) / INFER__PAGE - low; /* pages that stay, the last one in part */
    if (in->n > 0 && !w[INFER__RECORD_WHOLE] && kept > 0 && low > (int32_t)in->image.w[9 + slot->group])
        memmove(to->p, to->p + (uint64_t)(low - (int32_t)in->image.w[9 + slot->group]) * page,
                (size_t)((uint64_t)kept * page));
    for (i = from / INFER__PAGE; i < pages; i++) {
        char *at = to->p + (uint64_t)(i - low) * page;
        n = infer__record_rows(slot->every, i, from, (int32_t)w[8], &first);
        for (h = 0; h < slot->n_head; h++, at += head) {
            memset(at + (uint64_t)first * row, 0, (size_t)(head - (uint64_t)first * row));
            if (n == 0) continue;
            memcpy(at + (uint64_t)first * row, data, (size_t)((uint64_t)n * row));
            data += (uint64_t)n * row;
        }
    }
    return data;
}

/* Add a record with a correct sum to the image. */
static infer_result infer__increments_add(infer__increments *in, const uint32_t *w, uint32_t runs, const char *data) {
    infer_session *s = in->s;
    const infer_model *m = s->context->model;
    infer__state_image *image = &in->image;
    uint64_t *room = in->room + m->n_states;
    const size_t token = sizeof(infer_token), run = INFER__ADAPTED_WORDS * sizeof(uint32_t);
    const size_t spans = (size_t)w[16] * INFER__SPAN_WORDS * sizeof(uint32_t);
    const size_t from = w[INFER__RECORD_FROM], fresh = w[7] - from, kept = w[13] - runs;
    int32_t k;
    if (!infer__increments_reserve(in, &image->tokens, &room[0], (uint64_t)w[7] * token) ||
        !infer__increments_reserve(in, &image->source, &room[1], (uint64_t)w[12] * token) ||
        !infer__increments_reserve(in, &image->runs, &room[2], (uint64_t)w[13] * run) ||
        !infer__increments_reserve(in, &image->spans, &room[3], spans))
        goto no_memory;
    if (fresh) memcpy(image->tokens + from * token, data, fresh * token);
    data += fresh * token;
    if (w[INFER__RECORD_WHOLE] && w[12]) {
        memcpy(image->source, data, w[12] * token);
        data += w[12] * token;
    }
    if (runs) memcpy(image->runs + kept * run, data, runs * run);
    data += runs * run;
    if (spans) memcpy(image->spans, data, spans);
    data += spans;
    for (k = 0; k < m->n_states; k++)
        if (infer__state_saved(m, k) && (data = infer__increments_slot(in, w, k, data)) == NULL) goto no_memory;
    memcpy(image->w, w, sizeof image->w);
    return INFER_OK;
no_memory:
    return infer__error(&s->error, INFER_ERR_MEMORY, "infer_session_load_more: no memory for %u positions",
                        (unsigned)w[7]);
}

/* Read the next record. *why: "" when it is valid, "the end" when there is none, else the reason. Errors are those of a
 * complete record. */
static infer_result infer__increments_next(infer__increments *in, const char **why) {
    infer_context *c = in->s->context;
    uint32_t w[INFER__RECORD_WORDS], runs;
    uint64_t size, sum, want;
    infer_result r;
    char *data;
    in->got = 0;
    *why = "its header is cut short";
    if (!infer__increments_read(in, w, sizeof w)) {
        if (in->got == 0) *why = "the end";
        return INFER_OK;
    }
    if (!infer__increments_known(w) || w[2] != 0x01020304u) {
        *why = "a machine like this has not written it by infer_session_save_more";
        return INFER_OK;
    }
    sum = infer__fnv(in->n ? in->sum : INFER__FNV, w, sizeof w);
    if (!infer__increments_read(in, &want, sizeof want)) return INFER_OK;
    *why = "the check sum of its header does not match";
    if (sum != want) return INFER_OK;
    *why = "it follows other records";
    if (infer__record_before(w) != in->sum) return INFER_OK;
    sum = infer__fnv(sum, &want, sizeof want);
    runs = w[13];
    r = infer__record_check(in, w);
    if (r) return r;
    size = infer__record_size(in, w, runs);
    data = (char *)infer__alloc(c->ctx.mem, size + 1);
    if (!data)
        return infer__error(&in->s->error, INFER_ERR_MEMORY, "infer_session_load_more: no memory for %llu bytes",
                            (unsigned long long)size);
    *why = "it is cut short";
    if (infer__increments_read(in, data, size) && infer__increments_read(in, &want, sizeof want)) {
        sum = infer__record_sum(infer__fnv(sum, data, size));
        *why = sum == want ? "" : "its check sum does not match";
        if (sum == want) r = infer__increments_add(in, w, runs, data);
        if (sum == want && !r) {
            in->sum = sum;
            in->bytes += in->got;
            in->n++;
        }
    }
    infer__free(c->ctx.mem, data);
    return r;
}

/* Bytes after the last whole record: those that were read, and what there is after them. */
static uint64_t infer__increments_left(infer__increments *in) {
    char spare[256];
    uint64_t left = in->got;
    do {
        in->got = 0;
        infer__increments_read(in, spare, sizeof spare);
        left += in->got;
    } while (in->got == sizeof spare);
    return left;
}

static infer_result infer__increments_take(infer__increments *in, infer_session_mark *mark) {
    infer_session *s = in->s;
    infer_session_mark got;
    const char *why = "";
    infer_result r = INFER_OK;
    memset(&got, 0, sizeof got);
    while (!r && !*why) r = infer__increments_next(in, &why);
    if (r) return r;
    if (in->n == 0)
        return infer__error(&s->error, in->cut ? INFER_ERR_IO : INFER_ERR_FORMAT,
                            "infer_session_load_more: the first record: %s", in->got ? why : "there is none");
    if (in->got) {
        got.left = infer__increments_left(in);
        infer__log(&s->context->model->report, 2,
                   "infer_session_load_more: record %d, at byte %llu, is not loaded, nor are the %llu bytes from there "
                   "on: %s",
                   (int)in->n, (unsigned long long)in->bytes, (unsigned long long)got.left, why);
    }
    r = infer__state_take(s, &in->image);
    if (r) return r;
    infer__mark_set(&got, s, in->bytes, in->sum);
    *mark = got;
    return INFER_OK;
}

/* As infer_session_load_more; the session and its context are claimed. */
static infer_result infer__session_load_more(infer_session *s, infer_session_mark *mark, infer_read_fn read,
                                             void *user) {
    infer_context *c = s->context;
    infer__mem *mem = c->ctx.mem;
    const infer_model *m = c->model;
    infer__increments in;
    infer_result r;
    int32_t k;
    infer__error_clear(&s->error);
    if (!read || !mark)
        return infer__error(&s->error, INFER_ERR_ARGUMENT, "infer_session_load_more: %s is NULL",
                            read ? "mark" : "read");
    if (infer__encoder(&m->hp))
        return infer__error(&s->error, INFER_ERR_UNSUPPORTED, "infer_session_load_more: an encoder keeps nothing");
    memset(&in, 0, sizeof in);
    in.s = s;
    in.read = read;
    in.user = user;
    in.room = (uint64_t *)infer__calloc(mem, (uint64_t)m->n_states + 4, sizeof *in.room);
    in.image.slots = (infer__state_slot *)infer__calloc(mem, (uint64_t)m->n_states + 1, sizeof *in.image.slots);
    in.image.spare = (char *)infer__alloc(mem, infer__page_most(c) + 1);
    r = in.room && in.image.slots && in.image.spare
            ? infer__increments_take(&in, mark)
            : infer__error(&s->error, INFER_ERR_MEMORY, "infer_session_load_more: no memory for a page");
    for (k = 0; k < m->n_states && in.image.slots; k++) infer__free(mem, in.image.slots[k].p);
    infer__free(mem, in.image.tokens);
    infer__free(mem, in.image.source);
    infer__free(mem, in.image.runs);
    infer__free(mem, in.image.spans);
    infer__free(mem, in.image.spare);
    infer__free(mem, in.image.slots);
    infer__free(mem, in.room);
    return r;
}
