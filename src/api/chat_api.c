/* chat_api.c: replies and conversations for callers.
 *
 * Owns:  infer_chat_parser: argument checks around text/chat_parse.c, and its memory.
 * Rules: left out by INFER_NO_CHAT: every function is there and says so.
 */
#include "../model/model.h"

struct infer_chat_parser {
    infer__mem mem;
    infer__chat_reader *reader;
};
