/* chat_parse.c: splitting a streamed reply into content, reasoning and tool calls.
 *
 * Owns:  infer__chat_reader: text between marks, and the meaning of marks. Bodies of calls are in chat_call.c.
 * Rules: the result does not depend on how the text was split into pieces. Text that may still become a mark is held
 *        back. Nothing is lost: a failed call is content, with its marks. A call is reported when it is complete, so
 *        nothing has to be retracted. White space next to marks belongs to the marks. Every byte is examined a bounded
 *        number of times.
 * Start: infer__chat_run.
 */
#include "chat.h"

enum { INFER__CHAT_HEADER_MAX = 512, INFER__CHAT_SNIFF = 64 }; /* SNIFF: most white space before a first name */

/* ---- opening -------------------------------------------------------------------------------------------------- */

static void infer__chat_mark_add(infer__chat_reader *p, const char *s, size_t n, int what, int modes, size_t row) {
    infer__chat_mark *m;
    if (!s || n == 0) return;
    INFER__ASSERT(p->n_marks < INFER__CHAT_MARKS);
    if (p->n_marks >= INFER__CHAT_MARKS) return;
    m = &p->marks[p->n_marks++];
    m->s = s;
    m->n = (uint32_t)n;
    m->what = (uint8_t)what;
    m->modes = (uint8_t)modes;
    m->row = (uint8_t)row;
    p->first[(uint8_t)s[0]] = 1;
}
static void infer__chat_mark_text(infer__chat_reader *p, const char *s, int what, int modes, size_t row) {
    if (s) infer__chat_mark_add(p, s, strlen(s), what, modes, row);
}

static void infer__chat_marks_of_format(infer__chat_reader *p) {
    enum { BOTH = INFER_CHAT_CONTENT | INFER_CHAT_REASONING };
    int harmony = p->format->flags & INFER__FORMAT_HARMONY, i;
    const char *at = p->format->dropped, *w;
    size_t len;
    for (i = 0; i < p->n_kinds; i++) {
        const infer__chat_call_kind *k = p->kinds[i];
        int modes = k->flags & INFER__CALL_INTERRUPTS ? BOTH : INFER_CHAT_CONTENT;
        infer__chat_mark_text(p, k->section, INFER__MARK_SECTION, modes, (size_t)i);
        infer__chat_mark_text(p, k->open, INFER__MARK_OPEN, modes, (size_t)i);
        infer__chat_mark_text(p, k->section_end, INFER__MARK_AFTER, INFER_CHAT_CONTENT, (size_t)i);
        infer__chat_mark_text(p, k->end, INFER__MARK_AFTER, INFER_CHAT_CONTENT, (size_t)i);
        infer__chat_mark_text(p, k->tail, INFER__MARK_AFTER, INFER_CHAT_CONTENT, (size_t)i);
    }
    while ((len = infer__chat_word(&at, &w)) > 0)
        infer__chat_mark_add(p, w, len, INFER__MARK_DROP, harmony ? BOTH : INFER_CHAT_CONTENT, 0);
    if (!harmony) return;
    infer__chat_mark_text(p, "<|start|>", INFER__MARK_HEADER, BOTH, 0);
    infer__chat_mark_text(p, "<|channel|>", INFER__MARK_HEADER, BOTH, 0);
    infer__chat_mark_text(p, "to=", INFER__MARK_HEADER, INFER_CHAT_CONTENT, 0);
}

/* 1 when the part of a name after '/', or the template, has this way of reasoning. */
static int infer__chat_thinks(const infer__chat_options *o, const infer__chat_think *t) {
    const char *at = o->format ? strchr(o->format, '/') : NULL;
    size_t n = strlen(t->name);
    if (!o->format) return infer__chat_marked(o->text, o->n, t->marks);
    for (; at; at = strchr(at, '+'))
        if (strncmp(++at, t->name, n) == 0 && (at[n] == 0 || at[n] == '+')) return 1;
    return 0;
}

static void infer__chat_think_add(infer__chat_reader *p, const infer__chat_options *o, const infer__chat_think *t,
                                  size_t row) {
    size_t len = o->n_prompt, n = strlen(t->open), at = strlen(p->name);
    infer__chat_mark_text(p, t->open, INFER__MARK_THINK, INFER_CHAT_CONTENT, row);
    infer__chat_mark_text(p, t->close, INFER__MARK_THINK_END, INFER_CHAT_CONTENT | INFER_CHAT_REASONING, row);
    infer__format(p->name + at, sizeof p->name - at, "%c%s", strchr(p->name, '/') ? '+' : '/', t->name);
    while (len > 0 && infer__chat_space(o->prompt[len - 1])) len--;
    if (len < n || memcmp(o->prompt + len - n, t->open, n) != 0) return;
    p->mode = INFER_CHAT_REASONING; /* the prompt has opened it */
    p->think = (int)row;
    p->skip = 1;
    p->fresh = 0;
}

/* The format: by name, or by the template's text. */
static infer_result infer__chat_choose(infer__chat_reader *p, const infer__chat_options *o, infer_error *err) {
    size_t n = o->format ? strcspn(o->format, "/") : 0, i;
    const infer__chat_think *t;
    for (i = 0; (p->format = infer__chat_format_at(i)) != NULL; i++) {
        if (o->format ? strlen(p->format->name) == n && memcmp(p->format->name, o->format, n) == 0
                      : infer__chat_marked(o->text, o->n, p->format->marks))
            break;
    }
    if (!p->format) return infer__error(err, INFER_ERR_ARGUMENT, "format \"%.60s\" is not known", o->format);
    for (i = 0; i < INFER__FORMAT_KINDS && p->format->kinds[i]; i++) {
        p->kinds[i] = infer__chat_kind_find(p->format->kinds[i]);
        INFER__ASSERT(p->kinds[i] != NULL);
        if (!p->kinds[i]) return infer__error(err, INFER_ERR_STATE, "format %s: a row is missing", p->format->name);
        p->n_kinds++;
    }
    infer__chat_marks_of_format(p);
    infer__format(p->name, sizeof p->name, "%s", p->format->name);
    for (i = 0; (t = infer__chat_think_at(i)) != NULL; i++)
        if (infer__chat_thinks(o, t)) infer__chat_think_add(p, o, t, i);
    if (o->format && strlen(o->format) != strlen(p->name))
        return infer__error(err, INFER_ERR_ARGUMENT, "format \"%.60s\" is not known", o->format);
    return INFER_OK;
}

static infer_result infer__chat_reader_open(infer__chat_reader **out, infer__mem *mem, const infer__chat_options *o,
                                            infer_error *err) {
    infer__chat_reader *p = (infer__chat_reader *)infer__calloc(mem, 1, sizeof *p);
    infer_result r;
    *out = NULL;
    if (!p) return infer__error(err, INFER_ERR_MEMORY, "a reply: out of memory");
    p->mem = p->arena.mem = p->in.mem = p->content.mem = p->reasoning.mem = p->scratch.mem = p->body.args.mem = mem;
    p->mode = INFER_CHAT_CONTENT;
    p->fresh = 1;
    p->fn = o->fn;
    p->user = o->user;
    p->call_number = o->call_number;
    r = infer__chat_choose(p, o, err);
    if (r == INFER_OK && o->tools) {
        r = infer__json_parse(&p->tools, &p->arena, o->tools, strlen(o->tools), err);
        if (r == INFER_OK && p->tools->kind != INFER_JSON_ARRAY && p->tools->kind != INFER_JSON_NULL)
            r = infer__error(err, INFER_ERR_ARGUMENT, "tools: a list is expected");
        if (r == INFER_OK && (p->tools->kind == INFER_JSON_NULL || p->tools->n == 0)) p->tools = NULL;
    }
    if (r != INFER_OK) infer__chat_reader_close(p);
    else *out = p;
    return r;
}

static void infer__chat_reader_close(infer__chat_reader *p) {
    infer__bytes *texts[5], **t;
    if (!p) return;
    texts[0] = &p->in;
    texts[1] = &p->content;
    texts[2] = &p->reasoning;
    texts[3] = &p->scratch;
    texts[4] = &p->body.args;
    for (t = texts; t < texts + 5; t++) infer__bytes_free(*t);
    infer__arena_free(&p->arena);
    infer__free(p->mem, p->calls);
    infer__free(p->mem, p);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Deliver in[from..end) as text of the current mode. */
static void infer__chat_out(infer__chat_reader *p, size_t from, size_t end) {
    infer__bytes *to = p->mode == INFER_CHAT_REASONING ? &p->reasoning : &p->content;
    if (from >= end) return;
    p->fresh = p->after = p->skip = 0;
    if (p->join && to->n > 0) {
        infer__bytes_char(to, '\n');
        infer__chat_deliver(p, p->mode, NULL, "\n", 1);
    }
    p->join = 0;
    infer__bytes_put(to, p->in.s + from, end - from);
    infer__chat_deliver(p, p->mode, NULL, p->in.s + from, end - from);
    if (to->failed) p->failed = INFER_ERR_MEMORY;
}

/* Continue with text after `at`. */
static void infer__chat_go_on(infer__chat_reader *p, size_t at) {
    p->at = p->scan = p->solid = at;
    p->state = INFER__CHAT_TEXT;
}

/* The longest mark at in[i..): its index; -1 none; -2 the text ends inside one. */
static int infer__chat_mark_at(const infer__chat_reader *p, size_t i, int final) {
    int k, best = -1, blank = p->fresh && p->solid <= p->at;
    for (k = 0; k < p->n_marks; k++) {
        const infer__chat_mark *m = &p->marks[k];
        size_t have = INFER__MIN(m->n, p->in.n - i);
        if (!(m->modes & p->mode) || memcmp(p->in.s + i, m->s, have) != 0) continue;
        if (m->what == INFER__MARK_AFTER && !(p->after && i == p->at)) continue;
        if (m->what == INFER__MARK_THINK && !blank) continue;
        if (m->what == INFER__MARK_HEADER && m->s[0] != '<' && !blank) continue;
        if (m->what == INFER__MARK_THINK_END &&
            !(p->mode == INFER_CHAT_REASONING ? m->row == p->think : blank)) continue;
        if (have < m->n) {
            if (!final) return -2;
        } else if (best < 0 || m->n > p->marks[best].n ||
                   (m->n == p->marks[best].n && m->what == INFER__MARK_AFTER)) {
            best = k;
        }
    }
    return best;
}

static void infer__chat_body_begin(infer__chat_reader *p, const infer__chat_call_kind *kind, size_t from) {
    infer__bytes args = p->body.args;
    args.n = 0;
    memset(&p->body, 0, sizeof p->body);
    p->body.args = args;
    p->body.kind = kind;
    p->body.from = p->body.at = from;
    p->mode = INFER_CHAT_CONTENT;
    p->state = INFER__CHAT_BODY;
}

/* A mark at in[i..). The text before it has been delivered; white space is kept until it is known to be a mark. */
static void infer__chat_mark_act(infer__chat_reader *p, const infer__chat_mark *m, size_t i) {
    size_t behind = i + m->n;
    switch (m->what) {
    case INFER__MARK_THINK:
        infer__chat_go_on(p, behind);
        p->mode = INFER_CHAT_REASONING;
        p->think = m->row;
        p->skip = p->join = 1;
        p->fresh = p->after = 0;
        break;
    case INFER__MARK_THINK_END:
        infer__chat_go_on(p, behind);
        p->mode = INFER_CHAT_CONTENT;
        p->skip = p->join = p->fresh = 1;
        break;
    case INFER__MARK_DROP:
        infer__chat_go_on(p, behind);
        p->mode = INFER_CHAT_CONTENT;
        p->skip = 1;
        if (p->format->flags & INFER__FORMAT_HARMONY) p->join = p->fresh = 1;
        break;
    case INFER__MARK_AFTER:
        infer__chat_go_on(p, behind);
        p->skip = 1;
        break;
    case INFER__MARK_OPEN:
        infer__chat_body_begin(p, p->kinds[m->row], behind);
        break;
    default: /* SECTION, HEADER: more is needed to know */
        p->body.key = i;
        p->body.kind = p->kinds[m->row];
        p->body.from = p->body.at = behind;
        p->state = m->what == INFER__MARK_SECTION ? INFER__CHAT_SECTION : INFER__CHAT_HEADER;
    }
}

/* Can in[at..) be a call in JSON? Decided by its first name: 1 yes, 0 no, -1 too early to tell. */
static int infer__chat_sniff(const infer__chat_reader *p, size_t at) {
    static const char *const NAMES[] = {"name\"", "type\"", "function\"", "id\"", "parameters\"", "arguments\"",
                                        "tool_name\"", "tool_call_id\""};
    const char *s = p->in.s;
    size_t n = p->in.n, i, from;
    if (s[at] == '[') {
        from = at + 1;
        at = infer__chat_skip(s, n, from);
        if (at - from > INFER__CHAT_SNIFF) return 0;
        if (at == n) return -1;
    }
    if (s[at] != '{') return 0;
    from = at + 1;
    at = infer__chat_skip(s, n, from);
    if (at - from > INFER__CHAT_SNIFF) return 0;
    if (at == n) return -1;
    if (s[at] != '"') return 0;
    for (i = 0; i < INFER__COUNT(NAMES); i++) {
        int r = infer__chat_begins(s, n, at + 1, NAMES[i]);
        if (r != 0) return r;
    }
    return 0;
}

/* A reply that is itself a call: 1 when its body begins, 0 when it is none, -1 too early to say. */
static int infer__chat_bare(infer__chat_reader *p, int final) {
    size_t at;
    int i, r;
    if (p->mode != INFER_CHAT_CONTENT || !p->fresh || p->solid > p->at) return 0;
    for (i = 0; i < p->n_kinds && !(p->kinds[i]->flags & INFER__CALL_BARE); i++) {}
    at = infer__chat_skip(p->in.s, p->in.n, INFER__MAX(p->at, p->scan)); /* what was looked at is white space */
    if (i == p->n_kinds || at == p->in.n || (p->in.s[at] != '{' && p->in.s[at] != '[')) return 0;
    r = infer__chat_sniff(p, at);
    if (r > 0) infer__chat_body_begin(p, p->kinds[i], at);
    return r < 0 && final ? 0 : r;
}

/* States return 1 to be called again, 0 when more text is needed. */

static int infer__chat_text(infer__chat_reader *p, int final) {
    size_t i;
    int k = -1, r;
    if (p->skip) {
        size_t at = infer__chat_skip(p->in.s, p->in.n, p->at);
        if (at > p->at) infer__chat_go_on(p, at);
        if (at == p->in.n) return 0;
    }
    if ((r = infer__chat_bare(p, final)) != 0) return r > 0;
    for (i = p->scan; i < p->in.n; i++) {
        if (p->first[(uint8_t)p->in.s[i]]) {
            k = infer__chat_mark_at(p, i, final);
            if (k != -1) break;
        }
        if (!infer__chat_space(p->in.s[i])) p->solid = i + 1;
    }
    p->scan = i;
    if (k >= 0) {
        infer__chat_out(p, p->at, p->solid);
        p->at = INFER__MAX(p->at, p->solid);
        infer__chat_mark_act(p, &p->marks[k], i);
        return 1;
    }
    if (p->solid > p->at) {
        size_t n = p->solid - p->at;
        if (p->solid == p->in.n && !final) n = infer__utf8_whole(p->in.s + p->at, n);
        infer__chat_out(p, p->at, p->at + n);
        p->at += n;
    }
    if (final && p->mode == INFER_CHAT_CONTENT && !p->skip) infer__chat_out(p, p->at, p->in.n);
    return 0;
}

/* What was held since `at` is text up to `end`. */
static int infer__chat_none(infer__chat_reader *p, size_t end) {
    infer__chat_out(p, p->at, end);
    infer__chat_go_on(p, end);
    return 1;
}

static int infer__chat_section(infer__chat_reader *p, int final) {
    const infer__chat_call_kind *k = p->body.kind;
    size_t at = infer__chat_skip(p->in.s, p->in.n, p->body.at);
    int r = at == p->in.n ? -1 : infer__chat_begins(p->in.s, p->in.n, at, k->open);
    p->body.at = at;
    if (r > 0) infer__chat_body_begin(p, k, at + strlen(k->open));
    if (r == 0 || (r < 0 && final)) return infer__chat_none(p, at);
    return r > 0;
}

static int infer__chat_in_body(infer__chat_reader *p, int final) {
    size_t end = p->body.from, first = p->n_calls;
    int r = infer__chat_body_read(p, final, &end);
    if (p->failed) return 0;
    if (r == INFER__BODY_FAIL) return infer__chat_none(p, end);
    if (r == INFER__BODY_MORE) {
        if (final) infer__chat_none(p, p->in.n);
        return 0;
    }
    infer__chat_calls_deliver(p, first);
    infer__chat_go_on(p, end);
    p->after = p->skip = p->fresh = p->join = 1;
    return 1;
}

/* Harmony: [to=NAME] <|channel|> CHANNEL [to=NAME] [<|constrain|> TYPE] <|message|> */
static int infer__chat_harmony(infer__chat_reader *p, int final) {
    static const char MESSAGE[] = "<|message|>", CHANNEL[] = "<|channel|>", TO[] = "to=", FUNCTIONS[] = "functions.";
    const char *s = p->in.s;
    size_t found, at, end, from = p->body.key;
    if (!infer__chat_seek(&p->body, s, p->in.n, MESSAGE, &found)) {
        if (p->in.n - from <= INFER__CHAT_HEADER_MAX + sizeof MESSAGE && !final) return 0;
        return infer__chat_none(p, from + 1);
    }
    if (found - from > INFER__CHAT_HEADER_MAX) return infer__chat_none(p, from + 1);
    at = infer__chat_find(s, found, from, TO, 3);
    if (at < found) {
        at += 3;
        if (found - at > 10 && memcmp(s + at, FUNCTIONS, 10) == 0) at += 10;
        for (end = at; end < found && !infer__chat_space(s[end]) && s[end] != '<'; end++) {}
        if (end > at && end - at <= INFER__CHAT_NAME_MAX) {
            infer__chat_body_begin(p, p->kinds[0], p->body.at);
            p->body.name = at;
            p->body.n_name = end - at;
            p->body.value = p->body.from;
            return 1;
        }
    }
    at = infer__chat_find(s, found, from, CHANNEL, 11);
    p->mode = found - at >= 19 && memcmp(s + at + 11, "analysis", 8) == 0 ? INFER_CHAT_REASONING : INFER_CHAT_CONTENT;
    infer__chat_go_on(p, p->body.at);
    p->skip = p->join = 1;
    p->fresh = p->after = 0;
    return 1;
}

static void infer__chat_run(infer__chat_reader *p, int final) {
    int again = 1;
    while (again && p->at < p->in.n && !p->failed && !p->stopped) {
        switch (p->state) {
        case INFER__CHAT_TEXT: again = infer__chat_text(p, final); break;
        case INFER__CHAT_SECTION: again = infer__chat_section(p, final); break;
        case INFER__CHAT_BODY: again = infer__chat_in_body(p, final); break;
        default: again = infer__chat_harmony(p, final);
        }
    }
}

static infer_result infer__chat_reader_feed(infer__chat_reader *p, const char *text, size_t n) {
    if (p->failed) return p->failed;
    if (p->state == INFER__CHAT_TEXT && p->at > 0) {
        p->in.n -= p->at;
        memmove(p->in.s, p->in.s + p->at, p->in.n);
        p->scan -= p->at;
        p->solid = p->solid > p->at ? p->solid - p->at : 0;
        p->at = 0;
    }
    infer__bytes_put(&p->in, text, n);
    if (p->in.failed) p->failed = INFER_ERR_MEMORY;
    infer__chat_run(p, 0);
    return p->failed ? p->failed : p->stopped ? INFER_CANCELLED : INFER_OK;
}

static const char *infer__chat_reader_thinks(const infer__chat_reader *p) {
    if (p->mode != INFER_CHAT_REASONING || p->state != INFER__CHAT_TEXT) return NULL;
    if (p->format->flags & INFER__FORMAT_HARMONY) return "<|end|><|start|>assistant<|channel|>final<|message|>";
    return infer__chat_think_at((size_t)p->think)->close;
}

static infer_result infer__chat_reader_begin(infer__chat_reader *p, const char *s, size_t n) {
    const infer_chat_fn fn = p->fn;
    infer_result r;
    p->fn = NULL;
    r = infer__chat_reader_feed(p, s, n);
    p->fn = fn;
    return r;
}

static infer_result infer__chat_reader_finish(infer__chat_reader *p) {
    if (p->failed) return p->failed;
    if (!p->finished) infer__chat_run(p, 1);
    p->finished = 1;
    return p->failed ? p->failed : p->stopped ? INFER_CANCELLED : INFER_OK;
}

static const infer_chat_reply *infer__chat_reader_reply(infer__chat_reader *p) {
    infer_chat_reply *r = &p->reply;
    r->content = p->content.s ? p->content.s : "";
    r->n_content = p->content.n;
    r->reasoning = p->reasoning.s ? p->reasoning.s : "";
    r->n_reasoning = p->reasoning.n;
    r->calls = p->calls;
    r->n_calls = p->n_calls;
    return r;
}

static const char *infer__chat_reader_format(const infer__chat_reader *p) { return p->name; }
