/* conversation.h: the messages of a chat, and its turns. */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "cli.h"

/* A turn is what the user says, and all that follows up to the next. */
typedef struct turn {
    size_t start, reply; /* bytes of json before it, and before its last reply */
} turn;
typedef struct conversation {
    cli_text json;    /* "[{...},{...}", without the end; json.failed: memory ran out, which has been said */
    size_t system;    /* bytes of it up to the end of the system message, or of the [ */
    turn *turns;
    size_t n, cap;
} conversation;

/* Empty but for the system message (NULL = none). */
void conversation_begin(conversation *c, const char *system);
void conversation_free(conversation *c);
/* Another system message (NULL = none) before the same turns. */
void conversation_set_system(conversation *c, const char *system);
/* What the user says: a new turn. */
void conversation_say(conversation *c, const char *text, size_t n);
/* The result of a call of the last reply. */
void conversation_result(conversation *c, const infer_chat_call *call, const char *text, size_t n);
void conversation_reply(conversation *c, const infer_chat_reply *r);
/* Without the last turn, without its last reply, without the first turn; 0 = there is none. */
int conversation_undo(conversation *c);
int conversation_take_back(conversation *c);
int conversation_drop_first(conversation *c);
/* The list as JSON, complete until something is added: conversation_open takes the end away. NULL: out of memory. */
const char *conversation_close(conversation *c);
void conversation_open(conversation *c);
/* A file of messages, as OpenAI's API has them. Says why and returns 0 on failure; the conversation is as before. */
int conversation_load(conversation *c, const char *path);
int conversation_save(conversation *c, const char *path);

#endif
