/* conversation.h: the messages of a chat, and its turns. */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "../cli.h"

/* A turn: a user's message and everything up to the next one. */
typedef struct turn {
    size_t start, reply; /* bytes of json before it, and before its last reply */
    int32_t messages;    /* without those of the system */
    int system;          /* it is a message of the system in the middle, which stays when turns are dropped */
} turn;
typedef struct conversation {
    cli_text json;    /* "[{...},\n{...}", without the end, each message on a line of its own; json.failed: memory ran
                       * out, which has been said */
    size_t system;    /* bytes of it up to the end of the system message, or of the [ */
    size_t same;      /* the first bytes of it that have not changed since the caller set this */
    turn *turns;
    size_t n, cap;
} conversation;

/* Empty except for the system message (NULL = none). */
void conversation_begin(conversation *c, const char *system);
void conversation_free(conversation *c);
/* Another system message (NULL = none) before the same turns. */
void conversation_set_system(conversation *c, const char *system);
/* A user's message: a new turn. files: n_files pictures and sounds that it shows, at the markers of the text or, when it
 * has none, before it. Says why and returns 0, without a turn, when there are other numbers of both. */
int conversation_say(conversation *c, const char *text, size_t n, const char *const *files, int n_files);
/* The result of a call of the last reply. */
void conversation_result(conversation *c, const infer_chat_call *call, const char *text, size_t n);
void conversation_reply(conversation *c, const infer_chat_reply *r);
/* Removes the last turn; removes its last reply; 0 = none. */
int conversation_undo(conversation *c);
int conversation_take_back(conversation *c);
/* Removes the oldest turns that infer_chat has dropped (a number of messages). Returns the number of turns. */
int conversation_drop(conversation *c, int32_t messages);
/* Bytes of json up to the last turn that has a reply. */
size_t conversation_answered(const conversation *c);
/* The list as JSON, complete until something is added: conversation_open takes the end away. NULL: out of memory. */
const char *conversation_close(conversation *c);
void conversation_open(conversation *c);
/* A file of messages, as OpenAI's API has them. Says why and returns 0 on failure; the conversation is as before. */
int conversation_load(conversation *c, const char *path);
/* The same from the n bytes of messages of `path`, one a line. */
int conversation_resume(conversation *c, const char *path, const char *lines, size_t n);
int conversation_save(conversation *c, const char *path);

/* ---- attach.c ------------------------------------------------------------------------------- */

typedef struct attachment {
    char *path;
    infer_media *media;
    int used;
} attachment;
typedef struct attachments {
    infer_model *model;
    const cli_common *common;
    attachment *files; /* n */
    int n;
    const char **next; /* n_next paths, of files: for the next message */
    int n_next;
    infer_media **media; /* n_media: of the conversation, in order */
    int32_t n_media;
} attachments;
/* Reads a file for the next message. Says why and returns 0 on failure. */
int attach(attachments *a, const char *path);
/* The file attached last is no longer; NULL = there was none. */
const char *attach_undo(attachments *a);
/* Makes `media` what the conversation shows. Says why and returns 0 on failure. */
int attach_gather(attachments *a, conversation *c);
void attach_free(attachments *a);

#endif
