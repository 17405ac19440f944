/* api_chat.h: the part of the public interface for conversations: prompts rendered by a chat template, and replies.
 * Included by api.h, after what it builds on. */
#ifndef INFER_API_CHAT_H
#define INFER_API_CHAT_H

/* ---- conversations ---------------------------------------------------------------------------- */

/* What becomes of a conversation that does not fit. A turn is a user message with everything that follows it up to the
 * next one, so a tool's result stays with its call. */
enum {
    INFER_CHAT_FULL_STOP = 0, /* INFER_CONTEXT_FULL */
    INFER_CHAT_FULL_DROP = 1, /* the oldest turns are dropped, as few as possible; messages of the roles "system" and
                               * "developer" and the last turn stay. infer_generate_info.dropped is the number of
                               * dropped messages */
    INFER_CHAT_FULL_ASK = 2   /* `full` supplies other messages */
};
/* A piece of a message's content. */
enum {
    INFER_CHAT_PART_TEXT = 1, /* text: n bytes of UTF-8 */
    INFER_CHAT_PART_MEDIA = 2 /* a picture or sound: the next one of infer_chat_params.media; text is not read */
};
typedef struct infer_chat_part {
    int32_t kind;     /* INFER_CHAT_PART_* */
    const char *text;
    size_t n;         /* 0 = text is zero-terminated */
} infer_chat_part;
/* A message. Zero or NULL in any field except role means that there is none; a length of 0 means that the text is
 * zero-terminated. Bytes that are not UTF-8 become U+FFFD each. The fields from content to n_calls are those of
 * infer_chat_reply, so that a reply can be passed back: copy them, and set role to "assistant". */
typedef struct infer_chat_message {
    const char *role;      /* "system", "user", "assistant", "tool", or what else the template knows */
    const char *content;
    size_t n_content;
    const char *reasoning; /* assistant */
    size_t n_reasoning;
    const infer_chat_call *calls; /* assistant: n_calls */
    size_t n_calls;
    const char *tool_call_id; /* tool: the call that it answers */
    const char *name;         /* tool: its name; or the author's */
    const infer_chat_part *parts; /* n_parts, in place of content */
    size_t n_parts;
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_chat_message;

/* A conversation: messages as structs or, in messages_json, as zero-terminated JSON in the form made common by OpenAI's
 * API; tools likewise. Both forms give the same. Zero in any other field means the default. Everything is copied: it
 * may be freed when the call returns. Errors name the message: "messages[2]: ...".
 * Structs become members of the JSON form: reasoning is "reasoning_content", a call is {"id", "type": "function",
 * "function": {"name", "arguments": {...}}}, a tool {"type": "function", "function": {"name", "description",
 * "parameters"}}. Only the following is changed before the template sees messages:
 *   content: a list consisting only of {"type": "text", "text"} parts becomes one string; other lists are kept. In an
 *     assistant's message, null or a missing content becomes "".
 *   tool_calls: arguments given as JSON in a string become the object that they spell. If the template then fails
 *     (other than by raise_exception), it is retried once with arguments as text, which some templates need.
 *   reasoning of an assistant may be called reasoning_content, reasoning or thinking: the template sees the name that
 *     it uses.
 * No tools (or []) are None in the template, as in Hugging Face's transformers; if the template then fails, it is
 * retried once without this variable. */
typedef struct infer_chat_params {
    const infer_chat_message *messages; /* n_messages */
    size_t n_messages;
    const infer_chat_tool *tools; /* n_tools; NULL = none */
    size_t n_tools;
    const char *messages_json; /* in place of messages: [{"role": "user", "content": "..."}, ...] */
    const char *tools_json;    /* in place of tools: [{"type": "function", "function": {"name", "description",
                                * "parameters"}}, ...] */
    const char *variables; /* {"name": value, ...}: additional variables for the template */
    int32_t thinking;      /* 1 = on, -1 = off: the template's enable_thinking or thinking. UNSUPPORTED if neither */
    int32_t thinking_tokens; /* > 0: limit of the reasoning; at the limit, the end mark of the template's format is
                              * appended and the model answers. For replies: infer_chat and queues */
    int32_t no_generation_prompt; /* 1 = do not begin the assistant's reply */
    const char *begun;     /* text that the reply begins with and the model continues: part of the prompt and of the
                            * reply, but fn does not receive it; plain text, as messages are. NULL = none */
    int32_t allow_chatml; /* 1 = a model whose file has no template gets ChatML, without tools; else that is an error */
    const char *now;       /* "YYYY-MM-DD HH:MM:SS" for the template's strftime_now; NULL = the local clock */
    const char
        *template_name; /* for files with several templates; NULL = "tool_use" when there are tools and the file has it,
                                * else the main one */
    const char *template_text; /* a template instead of the file's */
    /* The pictures and sounds of the conversation, n_media, in the order of the parts that stand for them
     * (INFER_CHAT_PART_MEDIA; in JSON, parts whose type is "image", "image_url", "input_image", "audio", "audio_url" or
     * "input_audio") and of INFER_MEDIA_MARKER in texts. Such parts become the marker before the template sees them;
     * with n_media 0 they stay as they are. In use until the reply is complete */
    infer_media *const *media;
    int32_t n_media;
    int32_t on_full; /* INFER_CHAT_FULL_*: when the conversation does not fit. For replies: infer_chat and queues */
    int32_t room;    /* positions that on_full leaves for the reply; 0 = a quarter of all, or generate.max_tokens if
                      * that is less */
    /* For INFER_CHAT_FULL_ASK: the conversation has `tokens` tokens, and only `most` fit. Change the messages in *chat,
     * a copy of these params: messages and n_messages, or messages_json (what they point to stays the caller's and must
     * be valid until the call returns; other fields are not read). Return 1 to answer them instead, or 0 to give up:
     * INFER_CONTEXT_FULL. Called once per call; the session is in use. */
    int (*full)(void *user, struct infer_chat_params *chat, int32_t tokens, int32_t most);
    infer_chat_fn fn;      /* infer_chat: receives the reply as it comes; non-zero = stop */
    void *user;
    infer_limits limits;   /* for rendering: seconds (2), cancel */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_chat_params;

/* The text of a conversation, as the model's own template writes it, in segments. model may be NULL when template_text
 * is given (bos_token and eos_token are then empty). Free it with infer_rendering_free. Errors: ARGUMENT (params; no
 * such template), FORMAT (JSON, or an unusable template: line and column), STATE (the template refuses: its own
 * message), UNSUPPORTED (the file has no template, and allow_chatml is 0; a construct that is not supported),
 * MEMORY. */
INFER_API infer_result infer_chat_render(const infer_model *model, const infer_chat_params *params,
                                         infer_rendering **out, infer_error *err);
/* Which calls a reply must consist of. Zero or NULL in any field means the default. */
typedef struct infer_chat_grammar_params {
    const char *tool;     /* only this one of the conversation's tools; NULL = any */
    int32_t most;         /* calls of one reply; 0 = 16. Some formats have no more than one */
    int32_t no_reasoning; /* 1 = no reasoning comes first, unless the prompt has begun it */
    infer_limits limits;  /* for compiling: seconds (2), cancel */
    uint64_t reserved[4]; /* 0: fields of later versions (section 20) */
} infer_chat_grammar_params;
/* A grammar of the replies to this conversation that are tool calls and nothing else, written as the template's format
 * writes them, with arguments that satisfy the tools' JSON Schemas (an argument that a schema does not name is allowed
 * where the schema says so itself, and where the format writes arguments as JSON). Give it to the sampler of infer_chat
 * or of a request: what the parser then reads are calls. Reasoning may come first where the template has it, unless
 * chat->thinking is -1, no_reasoning is 1 or the prompt has ended it. The marks of the format are single tokens where
 * the vocabulary has them. chat->begun must be NULL. params may be NULL. Errors: those of infer_chat_render and
 * infer_grammar_create;
 * ARGUMENT (no tools, or none of this name), UNSUPPORTED (the template teaches no format of calls; a name or a schema
 * that the format has no place for, with the tool's name). */
INFER_API infer_result infer_chat_grammar(infer_grammar **out, infer_model *model, const infer_chat_params *chat,
                                          const infer_chat_grammar_params *params, infer_error *err);
/* The tokens of a conversation. Control tokens and marks (section 10) come only from the template's text, never from
 * messages; BOS is added where the vocabulary asks for it and the template has not written it. *count is the full
 * number; at most cap are written. */
INFER_API infer_result infer_chat_format(const infer_model *model, const infer_chat_params *params, infer_token *out,
                                         size_t cap, size_t *count, infer_error *err);
/* Reply to a conversation: make the session hold it (what matches the present tokens is not evaluated again),
 * generate, and parse the reply. generate (may be NULL) has the limits, stop strings and so on of infer_generate; its
 * `text` must be NULL and its n_media 0: params->fn receives the text, and params has the media. sampler NULL =
 * greedy. *reply is the parser that has read the reply. It is also set after a failure if part of the reply arrived:
 * use infer_chat_parser_reply, then infer_chat_parser_destroy. info->prompt_tokens is the length of the conversation.
 * Results are those of infer_generate; INFER_CONTEXT_FULL: the conversation does not fit. */
INFER_API infer_result infer_chat(infer_session *session, infer_sampler *sampler, const infer_chat_params *params,
                                  const infer_generate_params *generate, infer_chat_parser **reply,
                                  infer_generate_info *info);

#endif
