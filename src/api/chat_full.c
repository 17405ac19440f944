/* chat_full.c: conversations that do not fit: dropping the oldest turns, or asking the caller.
 *
 * How:   messages form groups: a user message and everything that follows it up to the next one. System messages belong
 *        to no group and stay. As few of the oldest groups as possible are dropped until the conversation, rendered and
 *        tokenized as usual, fits; the last group stays. More messages make more tokens, so bisection finds how many.
 * Rules: made-up ids of the reply's calls go on from the calls of the whole conversation, so none comes twice.
 * Start: infer__chat_fit.
 */
#include "../model/model.h"

#if !defined(INFER_NO_CHAT)

typedef struct infer__chat_fitting {
    infer_model *model;
    infer_chat_params p;     /* in JSON; messages are those of the last attempt */
    const infer_chat_params *params; /* the caller's */
    int64_t most;            /* tokens that a conversation may have */
    infer__arena arena;      /* of what was parsed */
    const infer_json *given; /* the messages */
    int32_t *group;          /* of each message; 0 = it stays */
    int32_t n_groups;
    infer__bytes text;
    infer_media **media; /* of the messages that are left */
} infer__chat_fitting;

/* Free what infer__chat_begin made. */
static void infer__chat_turn_drop(infer_model *model, infer__chat_turn *turn) {
    infer_chat_parser_destroy(turn->parser);
    infer__free(&model->mem, turn->ids);
    turn->parser = NULL;
    turn->ids = NULL;
}

/* Messages in groups, from 1 on. They were rendered before, so they are objects with roles. */
static infer_result infer__chat_group(infer__chat_fitting *f, infer_error *err) {
    uint64_t i;
    infer_result r = infer__json_parse(&f->given, &f->arena, f->p.messages_json, strlen(f->p.messages_json), err);
    if (r != INFER_OK) return r;
    f->group = (int32_t *)infer__calloc(&f->model->mem, f->given->n + 1, sizeof *f->group);
    if (!f->group || f->given->n > INT32_MAX)
        return infer__error(err, INFER_ERR_MEMORY, "a conversation: out of memory");
    for (i = 0; i < f->given->n; i++) {
        const char *role = infer__json_get(&f->given->v.items[i], "role", 4)->s;
        if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0) continue;
        if (f->n_groups == 0 || strcmp(role, "user") == 0) f->n_groups++;
        f->group[i] = f->n_groups;
    }
    return INFER_OK;
}

/* The turn without the first `drop` groups; *fits: it is within the limit. */
static infer_result infer__chat_without(infer__chat_fitting *f, int32_t drop, infer__chat_turn *turn, int *fits,
                                        infer_error *err) {
    infer_result r;
    uint64_t i;
    int32_t dropped = 0, at = 0, n;
    f->text.n = 0;
    f->p.n_media = 0;
    infer__bytes_char(&f->text, '[');
    for (i = 0; i < f->given->n; i++) {
        n = f->media ? INFER__MIN(infer__chat_media_of(&f->given->v.items[i]), f->params->n_media - at) : 0;
        at += n;
        if (f->group[i] > 0 && f->group[i] <= drop) {
            dropped++;
            continue;
        }
        for (; n > 0; n--) f->media[f->p.n_media++] = f->params->media[at - n];
        if (f->text.n > 1) infer__bytes_char(&f->text, ',');
        infer__json_write(&f->text, &f->given->v.items[i], -1);
    }
    infer__bytes_char(&f->text, ']');
    if (f->text.failed) return infer__error(err, INFER_ERR_MEMORY, "a conversation: out of memory");
    f->p.messages_json = f->text.s;
    r = infer__chat_begin(f->model, &f->p, turn, err);
    if (r != INFER_OK) return r;
    turn->dropped = dropped;
    *fits = turn->n <= (uint64_t)f->most;
    return INFER_OK;
}

/* `turn` is the whole conversation, which does not fit; it is replaced, or freed after a failure. positions: a
 * conversation that leaves less room than requested is better than none. */
static infer_result infer__chat_drop(infer__chat_fitting *f, int32_t positions, infer__chat_turn *turn,
                                     infer_error *err) {
    const int64_t n_calls = turn->n_calls;
    infer__chat_turn other;
    int32_t low = 0, high, middle; /* low are too few; high are enough, or all that may go */
    int fits = 0;
    infer_result r = infer__chat_group(f, err);
    if (r == INFER_OK && f->p.n_media > 0) {
        f->media = (infer_media **)infer__arena_alloc(&f->arena, (uint64_t)f->p.n_media * sizeof *f->media);
        if (!f->media) r = infer__error(err, INFER_ERR_MEMORY, "a conversation: out of memory");
        f->p.media = f->media;
    }
    high = r == INFER_OK ? f->n_groups - 1 : 0;
    if (r == INFER_OK && high > 0) {
        infer__chat_turn_drop(f->model, turn);
        r = infer__chat_without(f, high, turn, &fits, err);
    }
    while (r == INFER_OK && fits && high - low > 1) {
        middle = low + (high - low) / 2;
        r = infer__chat_without(f, middle, &other, &fits, err);
        if (r != INFER_OK) break;
        if (fits) {
            infer__chat_turn_drop(f->model, turn);
            *turn = other;
            high = middle;
        } else {
            infer__chat_turn_drop(f->model, &other);
            low = middle;
            fits = 1;
        }
    }
    if (r == INFER_OK && turn->n >= (uint64_t)positions)
        r = infer__error(err, INFER_CONTEXT_FULL,
                         "the last turn and the system's messages have %llu tokens: no room for a reply within %d",
                         (unsigned long long)turn->n, (int)positions);
    if (r != INFER_OK) infer__chat_turn_drop(f->model, turn);
    else turn->parser->reader->call_number = n_calls;
    turn->media = f->params->media; /* f->media goes */
    turn->n_media = f->params->n_media;
    return r;
}

/* The same with the messages that the caller gives instead. */
static infer_result infer__chat_ask(infer__chat_fitting *f, int32_t positions, infer__chat_turn *turn,
                                    infer_error *err) {
    const int64_t n_calls = turn->n_calls;
    const int32_t n = (int32_t)INFER__MIN(turn->n, (size_t)INT32_MAX);
    infer_chat_params other = *f->params, p = *f->params;
    infer__chat_json json;
    infer_result r;
    infer__chat_turn_drop(f->model, turn);
    if (!f->params->full(f->params->user, &other, n, (int32_t)f->most))
        return infer__error(err, INFER_CONTEXT_FULL, "a conversation of %d tokens leaves no room for a reply within %d",
                            (int)n, (int)positions);
    p.messages = other.messages;
    p.n_messages = other.n_messages;
    p.messages_json = other.messages_json;
    p.media = other.media;
    p.n_media = other.n_media;
    if ((r = infer__chat_json_make(&json, &f->model->mem, &p, err)) != INFER_OK) return r;
    r = infer__chat_begin(f->model, &json.p, turn, err);
    infer__chat_json_free(&json);
    if (r != INFER_OK) return r;
    turn->parser->reader->call_number = INFER__MAX(n_calls, turn->n_calls);
    if (turn->n < (uint64_t)positions) return INFER_OK;
    r = infer__error(err, INFER_CONTEXT_FULL, "full: its conversation has %llu tokens: no room for a reply within %d",
                     (unsigned long long)turn->n, (int)positions);
    infer__chat_turn_drop(f->model, turn);
    return r;
}

/* The whole conversation, then what on_full says if it does not fit. */
static infer_result infer__chat_fit_json(infer__chat_fitting *f, int32_t positions, int32_t max_tokens,
                                         infer__chat_turn *turn, infer_error *err) {
    int32_t room = INFER__MAX(positions / 4, 1);
    infer_result r = infer__chat_begin(f->model, &f->p, turn, err);
    if (r != INFER_OK || f->p.on_full == INFER_CHAT_FULL_STOP) return r;
    if (max_tokens > 0) room = INFER__MIN(room, max_tokens);
    if (f->p.room > 0) room = f->p.room;
    f->most = (int64_t)positions - room;
    if (turn->n <= (uint64_t)f->most) return INFER_OK;
    f->arena.mem = f->text.mem = &f->model->mem;
    r = f->p.on_full == INFER_CHAT_FULL_ASK ? infer__chat_ask(f, positions, turn, err)
                                            : infer__chat_drop(f, positions, turn, err);
    infer__arena_free(&f->arena);
    infer__bytes_free(&f->text);
    infer__free(&f->model->mem, f->group);
    return r;
}

static infer_result infer__chat_fit(infer_model *model, const infer_chat_params *params, int32_t positions,
                                    int32_t max_tokens, infer__chat_turn *turn, infer_error *err) {
    infer__chat_fitting f;
    infer__chat_json json;
    infer_result r;
    memset(turn, 0, sizeof *turn);
    if (params && (params->on_full < INFER_CHAT_FULL_STOP || params->on_full > INFER_CHAT_FULL_ASK))
        return infer__error(err, INFER_ERR_ARGUMENT, "on_full %d is no INFER_CHAT_FULL_*", (int)params->on_full);
    if (params && (params->room < 0 || params->room > positions))
        return infer__error(err, INFER_ERR_ARGUMENT, "room is %d, outside 0..%d", (int)params->room, (int)positions);
    if (params && params->on_full == INFER_CHAT_FULL_ASK && !params->full)
        return infer__error(err, INFER_ERR_ARGUMENT, "on_full is INFER_CHAT_FULL_ASK, and full is NULL");
    if ((r = infer__chat_json_make(&json, &model->mem, params, err)) != INFER_OK) return r;
    memset(&f, 0, sizeof f);
    f.model = model;
    f.params = params;
    f.p = json.p;
    r = infer__chat_fit_json(&f, positions, max_tokens, turn, err);
    infer__chat_json_free(&json);
    return r;
}

#else
static infer_result infer__chat_fit(infer_model *model, const infer_chat_params *params, int32_t positions,
                                    int32_t max_tokens, infer__chat_turn *turn, infer_error *err) {
    (void)positions;
    (void)max_tokens;
    return infer__chat_begin(model, params, turn, err);
}
#endif
