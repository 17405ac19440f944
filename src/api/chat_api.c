/* chat_api.c: replies and conversations for callers.
 *
 * Owns:  infer_chat_parser (argument checks around chat_parse.c), the choice of a file's template, infer_chat_*.
 * Rules: replies are generated as by infer_generate, with its stop strings, limits and cancelling. With INFER_NO_CHAT
 *        every call returns UNSUPPORTED.
 * Start: infer_chat.
 */
#include "../model/model.h"

/* A conversation to be answered. */
typedef struct infer__chat_turn {
    infer_chat_parser *parser;
    infer_token *ids; /* n: to be freed */
    size_t n;
    int chatml;       /* "<|im_end|>" ends the reply */
    const infer_generate_params *generate; /* the caller's; or NULL */
    infer__steering steering;
    int64_t n_calls; /* of the conversation: the number of the reply's first */
    int32_t dropped; /* messages that were left out */
    infer_media *const *media; /* n_media: what its ids stand for; the caller's */
    int32_t n_media;
    infer_result r; /* of reading */
} infer__chat_turn;

/* chat_full.c: infer__chat_begin for a conversation made to fit into `positions` with room for a reply. */
static infer_result infer__chat_fit(infer_model *model, const infer_chat_params *params, int32_t positions,
                                    int32_t max_tokens, infer__chat_turn *turn, infer_error *err);

#if !defined(INFER_NO_CHAT)

/* ---- replies ------------------------------------------------------------------------------------------------- */

struct infer_chat_parser {
    infer__mem mem;
    infer__chat_reader *reader;
    infer__atomic calls; /* infer__claim: `fn` may not call back */
};

/* The main template of a file, or the one with this name: 1 when it is there. */
static int infer__chat_file_template(const infer_model *m, const char *name, infer__str *out) {
    char key[128];
    const infer__kv *kv;
    infer__format(key, sizeof key, name ? "tokenizer.chat_template.%s" : "tokenizer.chat_template", name);
    kv = infer__gguf_find(&m->gguf, key);
    return kv && infer__gguf_str(&m->gguf, key, out, NULL) && out->n > 0;
}

/* The tools, given in either form, as JSON (perhaps stored in `own`); NULL = none. */
static infer_result infer__chat_tools_given(infer__bytes *own, const infer_chat_tool *tools, size_t n, const char *json,
                                            const char **out, infer_error *err) {
    infer_result r;
    *out = json;
    if (tools && json) return infer__error(err, INFER_ERR_ARGUMENT, "tools and tools_json are both given");
    if (!tools && n > 0) return infer__error(err, INFER_ERR_ARGUMENT, "tools is NULL but n_tools is not 0");
    if (n == 0) return INFER_OK;
    r = infer__chat_tools_json(own, tools, n, err);
    *out = own->s;
    return r;
}

INFER_API infer_result infer_chat_parser_create(infer_chat_parser **out, const infer_model *model,
                                                const infer_chat_parser_params *params, infer_error *err) {
    infer_chat_parser_params none;
    infer_chat_parser *parser;
    infer__chat_options o;
    infer__str text = {NULL, 0};
    infer__bytes tools;
    infer__mem mem;
    infer_result r;
    memset(&none, 0, sizeof none);
    memset(&o, 0, sizeof o);
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!params) params = &none;
    if (!params->allocator.alloc != !params->allocator.free)
        return infer__error(err, INFER_ERR_ARGUMENT, "allocator: alloc and free must both be given, or neither");
    infer__error_clear(err);
    if (infer__reserved_check(params->reserved, "chat_parser_params", err)) return INFER_ERR_ARGUMENT;
    o.format = params->format;
    if (params->template_text) {
        o.text = params->template_text;
        o.n = strlen(o.text);
    } else if (model && infer__chat_file_template(model, NULL, &text)) {
        o.text = text.s;
        o.n = (size_t)text.n;
    } else if (!o.format) {
        return infer__error(err, INFER_ERR_ARGUMENT, "no format, and no chat template to recognise one in");
    }
    o.prompt = params->prompt;
    o.n_prompt = params->prompt ? strlen(params->prompt) : 0;
    o.call_number = params->first_call;
    o.fn = params->fn;
    o.user = params->user;
    infer__mem_init(&mem, params->allocator.alloc ? &params->allocator : model ? &model->mem.a : NULL, 0);
    memset(&tools, 0, sizeof tools);
    tools.mem = &mem;
    infer__model_hold(model);
    r = infer__chat_tools_given(&tools, params->tools, params->n_tools, params->tools_json, &o.tools, err);
    if (r != INFER_OK) {
        infer__bytes_free(&tools);
        return infer__model_let(model, r);
    }
    parser = (infer_chat_parser *)infer__calloc(&mem, 1, sizeof *parser);
    if (parser) {
        parser->mem = mem;
        r = infer__chat_reader_open(&parser->reader, &parser->mem, &o, err);
        if (r != INFER_OK) infer_chat_parser_destroy(parser);
        else *out = parser;
    } else {
        r = infer__error(err, INFER_ERR_MEMORY, "a reply: out of memory");
    }
    infer__bytes_free(&tools);
    return infer__model_let(model, r);
}

INFER_API infer_result infer_chat_parser_destroy(infer_chat_parser *parser) {
    infer__mem mem;
    if (!parser) return INFER_OK;
    if (!infer__claim(&parser->calls)) return INFER_ERR_STATE;
    infer__chat_reader_close(parser->reader);
    mem = parser->mem; /* the struct is freed through it */
    infer__free(&mem, parser);
    return INFER_OK;
}

INFER_API infer_result infer_chat_parser_feed(infer_chat_parser *parser, const char *text, size_t n) {
    infer_result r;
    if (!parser || (!text && n > 0)) return INFER_ERR_ARGUMENT;
    if (!infer__claim(&parser->calls)) return INFER_ERR_STATE;
    r = infer__chat_reader_feed(parser->reader, text, n);
    infer__unclaim(&parser->calls);
    return r;
}
INFER_API infer_result infer_chat_parser_finish(infer_chat_parser *parser) {
    infer_result r;
    if (!parser) return INFER_ERR_ARGUMENT;
    if (!infer__claim(&parser->calls)) return INFER_ERR_STATE;
    r = infer__chat_reader_finish(parser->reader);
    infer__unclaim(&parser->calls);
    return r;
}
INFER_API const infer_chat_reply *infer_chat_parser_reply(infer_chat_parser *parser) {
    static const infer_chat_reply none = {"", 0, "", 0, NULL, 0};
    return parser ? infer__chat_reader_reply(parser->reader) : &none;
}
INFER_API const char *infer_chat_parser_format(const infer_chat_parser *parser) {
    return parser ? infer__chat_reader_format(parser->reader) : "";
}

/* ---- conversations from structs ---------------------------------------------------------------------------------- */

/* The caller's conversation converted to JSON, the only form used from here on. */
typedef struct infer__chat_json {
    infer_chat_params p; /* messages and tools are NULL */
    infer__bytes messages, tools;
} infer__chat_json;

static void infer__chat_json_free(infer__chat_json *c) {
    infer__bytes_free(&c->messages);
    infer__bytes_free(&c->tools);
}

/* After a failure there is nothing to free. */
static infer_result infer__chat_json_make(infer__chat_json *c, infer__mem *mem, const infer_chat_params *p,
                                          infer_error *err) {
    infer_result r = INFER_OK;
    size_t i, k;
    memset(c, 0, sizeof *c);
    c->messages.mem = c->tools.mem = mem;
    if (!p) return infer__error(err, INFER_ERR_ARGUMENT, "params is NULL");
    if (p->messages && p->messages_json)
        return infer__error(err, INFER_ERR_ARGUMENT, "messages and messages_json are both given");
    if (!p->messages && !p->messages_json)
        return infer__error(err, INFER_ERR_ARGUMENT, "messages and messages_json are both NULL");
    if (p->messages && p->n_messages == 0)
        return infer__error(err, INFER_ERR_ARGUMENT, "n_messages is 0 (messages are structs; JSON is messages_json)");
    for (i = 0; p->messages && i < p->n_messages && p->n_media < 1; i++)
        for (k = 0; p->messages[i].parts && k < p->messages[i].n_parts; k++)
            if (p->messages[i].parts[k].kind == INFER_CHAT_PART_MEDIA)
                return infer__error(err, INFER_ERR_ARGUMENT,
                                    "messages[%d]: parts[%d] is a picture or sound, and n_media is 0", (int)i, (int)k);
    c->p = *p;
    if (p->messages) {
        r = infer__chat_messages_json(&c->messages, p->messages, p->n_messages, err);
        c->p.messages_json = c->messages.s;
    }
    if (r == INFER_OK)
        r = infer__chat_tools_given(&c->tools, p->tools, p->n_tools, p->tools_json, &c->p.tools_json, err);
    c->p.messages = NULL;
    c->p.tools = NULL;
    c->p.n_messages = c->p.n_tools = 0;
    if (r != INFER_OK) infer__chat_json_free(c);
    return r;
}

/* ---- prompts --------------------------------------------------------------------------------------------------- */

/* The template of last resort: ChatML, as OpenAI published it, without tools. */
static const char INFER__CHATML[] = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
                                    "message['content'] + '<|im_end|>\\n' }}{% endfor %}"
                                    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* A conversation that has been rendered. */
typedef struct infer__chat_made {
    infer__rendered text;
    infer__template *t; /* closed by infer__chat_made_free */
    infer__str source; /* the template */
    int64_t n_calls;   /* in the messages */
    int chatml;
} infer__chat_made;

static void infer__chat_made_free(infer__chat_made *made) {
    infer__rendered_free(&made->text);
    infer__template_close(made->t);
    made->t = NULL;
}

static infer_result infer__chat_source(const infer_model *model, const infer_chat_params *p, infer__chat_made *made,
                                       infer_error *err) {
    int tools = p->tools_json && strspn(p->tools_json, " \t\r\n[]") < strlen(p->tools_json);
    if (p->template_text) {
        made->source.s = p->template_text;
        made->source.n = strlen(p->template_text);
        return INFER_OK;
    }
    if (!model) return infer__error(err, INFER_ERR_ARGUMENT, "model and template_text are NULL");
    if (p->template_name) {
        if (infer__chat_file_template(model, p->template_name, &made->source)) return INFER_OK;
        return infer__error(err, INFER_ERR_ARGUMENT, "template_name: the file has no tokenizer.chat_template.%.60s",
                            p->template_name);
    }
    if (tools && infer__chat_file_template(model, "tool_use", &made->source)) return INFER_OK;
    if (infer__chat_file_template(model, NULL, &made->source)) return INFER_OK;
    if (!p->allow_chatml)
        return infer__error(err, INFER_ERR_UNSUPPORTED,
                            "the file has no chat template (tokenizer.chat_template), and allow_chatml is 0");
    if (tools)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "tools: the file has no chat template, and ChatML has none");
    made->source.s = INFER__CHATML;
    made->source.n = sizeof INFER__CHATML - 1;
    made->chatml = 1;
    return INFER_OK;
}

/* {"bos_token": "<s>", ...} of the model's special tokens, in an arena. */
static infer_result infer__chat_specials(const infer_model *model, infer__arena *arena, infer_json *out,
                                         infer_error *err) {
    static const struct { const char *name; int which, always; } NAMES[] = {
        {"bos_token", INFER_SPECIAL_BOS, 1}, {"eos_token", INFER_SPECIAL_EOS, 1}, {"unk_token", INFER_SPECIAL_UNK, 0},
        {"sep_token", INFER_SPECIAL_SEP, 0}, {"pad_token", INFER_SPECIAL_PAD, 0}, {"mask_token", INFER_SPECIAL_MASK, 0}};
    infer_json *items = (infer_json *)infer__arena_alloc(arena, 2 * INFER__COUNT(NAMES) * sizeof *items);
    size_t i, len;
    memset(out, 0, sizeof *out);
    if (!items) return infer__error(err, INFER_ERR_MEMORY, "a conversation: out of memory");
    out->kind = INFER_JSON_OBJECT;
    out->v.items = items;
    for (i = 0; i < INFER__COUNT(NAMES); i++) {
        infer_token id = model ? infer__token_special(model->tokenizer, NAMES[i].which) : -1;
        infer_json *pair = &items[2 * out->n];
        char *s;
        if (id < 0 && !NAMES[i].always) continue;
        len = 0;
        if (id >= 0) infer__token_text(model->tokenizer, id, NULL, 0, &len);
        s = (char *)infer__arena_alloc(arena, (uint64_t)len + 1);
        if (!s) return infer__error(err, INFER_ERR_MEMORY, "a conversation: out of memory");
        if (id >= 0) infer__token_text(model->tokenizer, id, s, len, &len);
        pair[0].kind = pair[1].kind = INFER_JSON_STRING;
        pair[0].s = NAMES[i].name;
        pair[0].n = strlen(NAMES[i].name);
        pair[1].s = s;
        pair[1].n = len;
        out->n++;
    }
    return INFER_OK;
}

/* One more segment of a message after a rendering; 0 = no memory, and nothing has changed. */
static int infer__chat_append(infer__rendered *to, const char *text) {
    const size_t n = strlen(text);
    infer_segment *segments;
    char *all = (char *)infer__realloc(to->mem, NULL, (uint64_t)to->n + n + 1, 1);
    size_t i;
    if (!all) return 0;
    segments = (infer_segment *)infer__realloc(to->mem, to->segments, (uint64_t)to->n_segments + 1, sizeof *segments);
    if (!segments) {
        infer__free(to->mem, all);
        return 0;
    }
    if (to->n) memcpy(all, to->text, to->n);
    memcpy(all + to->n, text, n + 1);
    for (i = 0; i < to->n_segments; i++) segments[i].text = all + (segments[i].text - to->text);
    memset(&segments[i], 0, sizeof segments[i]);
    segments[i].text = all + to->n;
    segments[i].n = n;
    segments[i].from_message = 1;
    infer__free(to->mem, to->text);
    to->text = all;
    to->n += n;
    to->segments = segments;
    to->n_segments++;
    return 1;
}

/* p has JSON alone. */
static infer_result infer__chat_make(infer__mem *mem, const infer_model *model, const infer_chat_params *p,
                                     infer__chat_made *made, infer_error *err) {
    infer__chat_request rq;
    infer__watch watch;
    infer__arena arena;
    infer_json specials;
    infer_result r;
    memset(made, 0, sizeof *made);
    memset(&rq, 0, sizeof rq);
    memset(&arena, 0, sizeof arena);
    arena.mem = mem;
    if (infer__reserved_check(p->reserved, "chat_params", err)) return INFER_ERR_ARGUMENT;
    if (p->begun && p->no_generation_prompt)
        return infer__error(err, INFER_ERR_ARGUMENT, "begun: no_generation_prompt leaves no reply to begin");
    if (p->thinking < -1 || p->thinking > 1)
        return infer__error(err, INFER_ERR_ARGUMENT, "thinking is %d", (int)p->thinking);
    if ((r = infer__chat_source(model, p, made, err)) != INFER_OK) return r;
    if ((r = infer__template_open(&made->t, mem, made->source.s, (size_t)made->source.n, err)) != INFER_OK) return r;
    rq.t = made->t;
    rq.text = made->source.s;
    rq.n = (size_t)made->source.n;
    rq.messages = p->messages_json;
    rq.tools = p->tools_json;
    rq.variables = p->variables;
    rq.thinking = p->thinking;
    rq.no_generation_prompt = p->no_generation_prompt;
    rq.media = p->n_media > 0;
    rq.now = p->now;
    infer__watch_begin(&watch, &p->limits, INFER__WATCH_SECONDS);
    rq.watch = &watch;
    rq.trusted = &specials;
    r = infer__chat_specials(model, &arena, &specials, err);
    if (r == INFER_OK) r = infer__chat_prompt(mem, &rq, &made->text, &made->n_calls, err);
    infer__arena_free(&arena);
    if (r == INFER_OK && p->begun && p->begun[0] && !infer__chat_append(&made->text, p->begun))
        r = infer__error(err, INFER_ERR_MEMORY, "a conversation: out of memory");
    if (r != INFER_OK) infer__chat_made_free(made);
    return r;
}

/* The ids of a rendered conversation, to be freed by the caller; room for at least one. */
static infer_result infer__chat_ids(infer__mem *mem, const infer_model *model, const infer__chat_made *made,
                                    infer_media *const *media, int32_t n_media, infer_token **out, size_t *count,
                                    infer_error *err) {
    const infer__rendered *text = &made->text;
    infer__ids x;
    uint8_t *structure;
    infer_result r;
    *out = NULL;
    *count = 0;
    memset(&x, 0, sizeof x);
    x.mem = mem;
    x.model = model;
    if ((r = infer__media_check(model, media, n_media, err)) != INFER_OK) return r;
    r = infer__chat_structure(&structure, mem, model->tokenizer, made->t, text, err);
    if (r != INFER_OK) return r;
    r = infer__ids_make(&x, text->segments, text->n_segments, structure, 0, media, n_media, err);
    infer__free(mem, structure);
    if (r == INFER_OK) r = infer__ids_begin(&x, err);
    if (r == INFER_OK && x.n == 0) r = infer__error(err, INFER_ERR_FORMAT, "the chat template wrote nothing");
    if (r != INFER_OK) {
        infer__ids_free(&x);
        return r;
    }
    *out = x.ids;
    *count = x.n;
    return INFER_OK;
}

INFER_API infer_result infer_chat_render(const infer_model *model, const infer_chat_params *params,
                                         infer_rendering **out, infer_error *err) {
    infer__rendering *rendering;
    infer__chat_json json;
    infer__chat_made made;
    infer__mem mem;
    infer_result r;
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    infer__error_clear(err);
    infer__mem_init(&mem, model ? &model->mem.a : NULL, 0);
    infer__model_hold(model);
    rendering = (infer__rendering *)infer__calloc(&mem, 1, sizeof *rendering);
    if (!rendering)
        return infer__model_let(model, infer__error(err, INFER_ERR_MEMORY, "a conversation: out of memory"));
    rendering->mem = mem;
    if ((r = infer__chat_json_make(&json, &rendering->mem, params, err)) == INFER_OK) {
        r = infer__chat_make(&rendering->mem, model, &json.p, &made, err);
        infer__template_close(made.t);
        infer__chat_json_free(&json);
    }
    infer__model_let(model, r);
    if (r != INFER_OK) {
        infer_rendering_free(&rendering->shown);
        return r;
    }
    rendering->rendered = made.text;
    rendering->shown.text = made.text.text;
    rendering->shown.n = made.text.n;
    rendering->shown.segments = made.text.segments;
    rendering->shown.n_segments = made.text.n_segments;
    *out = &rendering->shown;
    return INFER_OK;
}

INFER_API infer_result infer_chat_format(const infer_model *model, const infer_chat_params *params, infer_token *out,
                                         size_t cap, size_t *count, infer_error *err) {
    infer__chat_json json;
    infer__chat_made made;
    infer_token *ids;
    infer__mem *mem;
    infer_result r;
    if (count) *count = 0;
    if (!model || !count) return infer__error(err, INFER_ERR_ARGUMENT, "%s is NULL", model ? "count" : "model");
    if (!out && cap > 0) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL but cap is not 0");
    infer__error_clear(err);
    mem = infer__model_mem(model);
    infer__model_hold(model);
    if ((r = infer__chat_json_make(&json, mem, params, err)) != INFER_OK) return infer__model_let(model, r);
    r = infer__chat_make(mem, model, &json.p, &made, err);
    infer__chat_json_free(&json);
    if (r != INFER_OK) return infer__model_let(model, r);
    r = infer__chat_ids(mem, model, &made, json.p.media, json.p.n_media, &ids, count, err);
    if (r == INFER_OK && cap > 0) memcpy(out, ids, INFER__MIN(cap, *count) * sizeof *ids);
    if (r == INFER_OK) infer__free(mem, ids);
    infer__chat_made_free(&made);
    return infer__model_let(model, r);
}

/* ---- the whole turn ---------------------------------------------------------------------------------------------- */

static int infer__chat_take_token(void *user, infer_token token, float logprob, const infer_top *top, int32_t n_top) {
    const infer_generate_params *g = ((infer__chat_turn *)user)->generate;
    return g->token(g->user, token, logprob, top, n_top);
}

static int infer__chat_take_text(void *user, const char *text, size_t n) {
    infer__chat_turn *turn = (infer__chat_turn *)user;
    turn->r = infer_chat_parser_feed(turn->parser, text, n);
    return turn->r != INFER_OK;
}

/* A parser for the text that follows the conversation. */
static infer_result infer__chat_turn_parser(const infer_model *model, const infer_chat_params *p,
                                            const infer__chat_made *made, infer_chat_parser **out, infer_error *err) {
    const infer__rendered *text = &made->text;
    const size_t n = text->n_segments - (p->begun && p->begun[0]); /* those before the reply */
    const infer_segment *last = n ? &text->segments[n - 1] : NULL;
    infer__arena arena; /* zero-terminated copies */
    infer_chat_parser_params q;
    infer_result r = INFER_ERR_MEMORY;
    memset(&q, 0, sizeof q);
    memset(&arena, 0, sizeof arena);
    arena.mem = infer__model_mem(model);
    q.template_text = infer__arena_text(&arena, made->source.s, (size_t)made->source.n);
    q.prompt = last && !last->from_message ? infer__arena_text(&arena, last->text, last->n) : "";
    q.tools_json = p->tools_json;
    q.first_call = made->n_calls;
    q.fn = p->fn;
    q.user = p->user;
    if (q.template_text && q.prompt) r = infer_chat_parser_create(out, model, &q, err);
    else infer__error(err, r, "a conversation: out of memory");
    if (r == INFER_OK && p->begun && infer__chat_reader_begin((*out)->reader, p->begun, strlen(p->begun)) != INFER_OK)
        r = infer__error(err, INFER_ERR_MEMORY, "a reply: out of memory");
    infer__arena_free(&arena);
    return r;
}

#if !defined(INFER_NO_GRAMMAR)
/* 1 when the prompt ends with the end of reasoning: there is none to come. */
static int infer__chat_reasoned(const infer__rendered *text) {
    const infer__chat_think *t;
    size_t n = text->n, i, len;
    while (n > 0 && infer__chat_space(text->text[n - 1])) n--;
    for (i = 0; (t = infer__chat_think_at(i)) != NULL; i++)
        if ((len = strlen(t->close)) <= n && memcmp(text->text + n - len, t->close, len) == 0) return 1;
    return 0;
}

static infer_result infer__chat_grammar_text(infer__bytes *out, infer_model *model, const infer_chat_params *chat,
                                             const infer_chat_grammar_params *params, infer_error *err) {
    infer__calls_wanted want;
    infer__chat_made made;
    infer_chat_parser *parser = NULL;
    infer__watch watch;
    infer_result r = infer__chat_make(&model->mem, model, chat, &made, err);
    if (r != INFER_OK) return r;
    infer__watch_begin(&watch, &params->limits, INFER__WATCH_SECONDS);
    memset(&want, 0, sizeof want);
    want.tokenizer = model->tokenizer;
    want.tool = params->tool;
    want.most = params->most;
    want.no_reasoning = params->no_reasoning || chat->thinking < 0 || infer__chat_reasoned(&made.text);
    want.text = made.source.s;
    want.n = (size_t)made.source.n;
    want.watch = &watch;
    r = infer__chat_turn_parser(model, chat, &made, &parser, err);
    if (r == INFER_OK) r = infer__chat_grammar(out, parser->reader, &model->mem, &want, err);
    infer_chat_parser_destroy(parser);
    infer__chat_made_free(&made);
    return r;
}

INFER_API infer_result infer_chat_grammar(infer_grammar **out, infer_model *model, const infer_chat_params *chat,
                                          const infer_chat_grammar_params *params, infer_error *err) {
    infer_chat_grammar_params none;
    infer_grammar_params g;
    infer__chat_json json;
    infer__bytes text;
    infer_result r;
    memset(&none, 0, sizeof none);
    memset(&text, 0, sizeof text);
    memset(&g, 0, sizeof g);
    if (!out) return infer__error(err, INFER_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    if (!model || !chat) return infer__error(err, INFER_ERR_ARGUMENT, "%s is NULL", model ? "chat" : "model");
    if (!params) params = &none;
    infer__error_clear(err);
    if (infer__reserved_check(params->reserved, "chat_grammar_params", err)) return INFER_ERR_ARGUMENT;
    if (params->most < 0) return infer__error(err, INFER_ERR_ARGUMENT, "most is %d", (int)params->most);
    if (chat->begun && chat->begun[0])
        return infer__error(err, INFER_ERR_ARGUMENT, "a reply that has begun cannot become a call");
    infer__model_hold(model);
    text.mem = &model->mem;
    if ((r = infer__chat_json_make(&json, &model->mem, chat, err)) == INFER_OK) {
        json.p.fn = NULL;
        r = infer__chat_grammar_text(&text, model, &json.p, params, err);
        infer__chat_json_free(&json);
    }
    g.gbnf = text.s;
    g.limits = params->limits;
    if (r == INFER_OK) r = infer_grammar_create(out, model, &g, err);
    infer__bytes_free(&text);
    return infer__model_let(model, r);
}
#endif

/* The caller's stop strings, plus the end mark of ChatML where it is used. */
static infer_result infer__chat_stops(infer__mem *mem, int chatml, infer_generate_params *g, const char ***out,
                                      infer_error *err) {
    const char **stops;
    *out = NULL;
    if (!chatml || g->n_stop < 0 || g->n_stop == INT32_MAX || (g->n_stop > 0 && !g->stop)) return INFER_OK;
    stops = (const char **)infer__calloc(mem, (uint64_t)g->n_stop + 1, sizeof *stops);
    if (!stops) return infer__error(err, INFER_ERR_MEMORY, "a conversation: out of memory");
    if (g->n_stop) memcpy((void *)stops, (const void *)g->stop, (size_t)g->n_stop * sizeof *stops);
    stops[g->n_stop++] = "<|im_end|>";
    g->stop = *out = stops;
    return INFER_OK;
}

static const char *infer__chat_ends_thinking(void *parser) {
    return infer__chat_reader_thinks(((const infer_chat_parser *)parser)->reader);
}

/* Ids and a parser, or an error and nothing. params has JSON alone. */
static infer_result infer__chat_begin(infer_model *model, const infer_chat_params *params, infer__chat_turn *turn,
                                      infer_error *err) {
    infer__chat_made made;
    infer_result r;
    memset(turn, 0, sizeof *turn);
    if (params->thinking_tokens < 0)
        return infer__error(err, INFER_ERR_ARGUMENT, "thinking_tokens is %d", (int)params->thinking_tokens);
    if (params->no_generation_prompt)
        return infer__error(err, INFER_ERR_ARGUMENT, "no_generation_prompt: there would be no reply");
    r = infer__chat_make(&model->mem, model, params, &made, err);
    if (r != INFER_OK) return r;
    turn->chatml = made.chatml;
    turn->n_calls = made.n_calls;
    turn->media = params->media;
    turn->n_media = params->n_media;
    turn->steering.left = params->thinking_tokens;
    turn->steering.ends = infer__chat_ends_thinking;
    r = infer__chat_turn_parser(model, params, &made, &turn->parser, err);
    if (r == INFER_OK)
        r = infer__chat_ids(&model->mem, model, &made, params->media, params->n_media, &turn->ids, &turn->n, err);
    infer__chat_made_free(&made);
    if (r == INFER_OK) return r;
    infer_chat_parser_destroy(turn->parser);
    turn->parser = NULL;
    return r;
}

static int32_t infer__chat_take_full(void *user, const infer_token *tokens, int32_t n, infer_token *keep,
                                     int32_t most) {
    const infer_generate_params *g = ((infer__chat_turn *)user)->generate;
    return g->full(g->user, tokens, n, keep, most);
}

/* Make the session hold the conversation, then generate and parse the reply. */
static infer_result infer__chat_run_turn(infer_session *s, infer_sampler *sampler, infer_generate_params *g,
                                         infer__chat_turn *turn, infer_generate_info *info) {
    infer__mem *mem = &s->context->model->mem;
    const char **stops = NULL;
    const size_t n = turn->n;
    infer_result r, read;
    info->prompt_tokens = (int32_t)INFER__MIN(n, (size_t)INT32_MAX);
    r = n > (size_t)INT32_MAX ? INFER_CONTEXT_FULL : infer__session_sync(s, turn->ids, (int32_t)n, NULL);
    if (r == INFER_CONTEXT_FULL) info->stop_reason = INFER_STOP_FULL;
    if (r == INFER_CANCELLED) info->stop_reason = INFER_STOP_CANCELLED;
    if (r == INFER_OK) r = infer__chat_stops(mem, turn->chatml, g, &stops, &s->error);
    if (r != INFER_OK) return r;
    if (g->token) g->token = infer__chat_take_token;
    if (g->full) g->full = infer__chat_take_full;
    g->text = infer__chat_take_text;
    g->user = turn;
    g->text_flags |= INFER_TEXT_WRITE_SPECIAL;
    turn->steering.user = turn->parser;
    r = infer__generate(s, sampler, NULL, g, &turn->steering, info);
    info->prompt_tokens = (int32_t)n;
    info->dropped = turn->dropped;
    infer__free(mem, (void *)stops);
    read = infer_chat_parser_finish(turn->parser);
    if (turn->r == INFER_ERR_MEMORY || read == INFER_ERR_MEMORY) {
        infer_result worse = infer__error(&s->error, INFER_ERR_MEMORY, "a reply: out of memory");
        return r < 0 ? r : worse;
    }
    if (read == INFER_CANCELLED && info->stop_reason != INFER_STOP_CANCELLED) info->stop_reason = INFER_STOP_CALLBACK;
    return r;
}

/* As infer_chat; the session and the sampler are claimed. */
static infer_result infer__chat(infer_session *session, infer_sampler *sampler, const infer_chat_params *params,
                                const infer_generate_params *generate, infer_chat_parser **reply,
                                infer_generate_info *info) {
    infer_generate_params g;
    infer__chat_turn turn;
    infer_model *model = session->context->model;
    infer_result r;
    memset(&g, 0, sizeof g);
    infer__error_clear(&session->error);
    if (!reply) return infer__error(&session->error, INFER_ERR_ARGUMENT, "reply is NULL");
    if (generate) g = *generate;
    if (g.text || g.n_media)
        return infer__error(&session->error, INFER_ERR_ARGUMENT, g.text ? "generate: text must be NULL"
                            : "generate: n_media must be 0: a conversation has its media in infer_chat_params");
    r = infer__chat_fit(model, params, infer_session_capacity(session), g.max_tokens, &turn, &session->error);
    if (r == INFER_CONTEXT_FULL) info->stop_reason = INFER_STOP_FULL;
    if (r != INFER_OK) return r;
    turn.generate = generate;
    infer__session_offer(session, turn.media, turn.n_media);
    r = infer__chat_run_turn(session, sampler, &g, &turn, info);
    infer__session_offer(session, NULL, 0);
    infer__free(&model->mem, turn.ids);
    if (r < 0 && info->new_tokens == 0) infer_chat_parser_destroy(turn.parser);
    else *reply = turn.parser;
    return r;
}

INFER_API infer_result infer_chat(infer_session *session, infer_sampler *sampler, const infer_chat_params *params,
                                  const infer_generate_params *generate, infer_chat_parser **reply,
                                  infer_generate_info *info) {
    infer_generate_info own;
    infer_result r;
    if (!info) info = &own;
    memset(info, 0, sizeof *info);
    info->stop_token = info->stop_string = -1;
    if (reply) *reply = NULL;
    if (!session) return INFER_ERR_ARGUMENT;
    if (!infer__session_claim(session)) return INFER_ERR_STATE;
    if ((r = infer__sampler_claim(sampler, &session->error)) == INFER_OK) {
        r = infer__chat(session, sampler, params, generate, reply, info);
        infer__sampler_leave(sampler);
    }
    infer__session_leave(session);
    return r;
}

#else /* INFER_NO_CHAT */

static infer_result infer__chat_left_out(infer_error *err) {
    return infer__error(err, INFER_ERR_UNSUPPORTED, "conversations are left out of this build (INFER_NO_CHAT)");
}
static infer_result infer__chat_begin(infer_model *model, const infer_chat_params *params, infer__chat_turn *turn,
                                      infer_error *err) {
    (void)model;
    (void)params;
    memset(turn, 0, sizeof *turn);
    return infer__chat_left_out(err);
}
static infer_result infer__chat_stops(infer__mem *mem, int chatml, infer_generate_params *g, const char ***out,
                                      infer_error *err) {
    (void)mem;
    (void)chatml;
    (void)g;
    (void)err;
    *out = NULL;
    return INFER_OK;
}
INFER_API infer_result infer_chat_parser_create(infer_chat_parser **out, const infer_model *model,
                                                const infer_chat_parser_params *params, infer_error *err) {
    (void)model;
    (void)params;
    if (out) *out = NULL;
    return infer__chat_left_out(err);
}
INFER_API infer_result infer_chat_parser_destroy(infer_chat_parser *parser) {
    (void)parser;
    return INFER_OK;
}
INFER_API infer_result infer_chat_parser_feed(infer_chat_parser *parser, const char *text, size_t n) {
    (void)parser;
    (void)text;
    (void)n;
    return INFER_ERR_UNSUPPORTED;
}
INFER_API infer_result infer_chat_parser_finish(infer_chat_parser *parser) {
    (void)parser;
    return INFER_ERR_UNSUPPORTED;
}
INFER_API const infer_chat_reply *infer_chat_parser_reply(infer_chat_parser *parser) {
    static const infer_chat_reply none = {"", 0, "", 0, NULL, 0};
    (void)parser;
    return &none;
}
INFER_API const char *infer_chat_parser_format(const infer_chat_parser *parser) {
    (void)parser;
    return "";
}
INFER_API infer_result infer_chat_render(const infer_model *model, const infer_chat_params *params,
                                         infer_rendering **out, infer_error *err) {
    (void)model;
    (void)params;
    if (out) *out = NULL;
    return infer__chat_left_out(err);
}
INFER_API infer_result infer_chat_format(const infer_model *model, const infer_chat_params *params, infer_token *out,
                                         size_t cap, size_t *count, infer_error *err) {
    (void)model;
    (void)params;
    (void)out;
    (void)cap;
    if (count) *count = 0;
    return infer__chat_left_out(err);
}
INFER_API infer_result infer_chat(infer_session *session, infer_sampler *sampler, const infer_chat_params *params,
                                  const infer_generate_params *generate, infer_chat_parser **reply,
                                  infer_generate_info *info) {
    (void)sampler;
    (void)params;
    (void)generate;
    (void)info;
    if (reply) *reply = NULL;
    return session ? infer__chat_left_out(&session->error) : INFER_ERR_ARGUMENT;
}
#endif

#if defined(INFER_NO_CHAT) || defined(INFER_NO_GRAMMAR)
INFER_API infer_result infer_chat_grammar(infer_grammar **out, infer_model *model, const infer_chat_params *chat,
                                          const infer_chat_grammar_params *params, infer_error *err) {
    (void)model;
    (void)chat;
    (void)params;
    if (out) *out = NULL;
#if defined(INFER_NO_CHAT)
    return infer__chat_left_out(err);
#else
    return infer__grammar_left_out(err);
#endif
}
#endif
