/* grammar_vocab.h: a vocabulary of some 300 tokens for tests of masks: all bytes, pieces of JSON and of words, characters
 * of several bytes and parts of them, tokens that end a reply, control and user-defined ones. */
#ifndef GRAMMAR_VOCAB_H
#define GRAMMAR_VOCAB_H
#include "gguf_write.h"

static const char *const GRAMMAR_PIECES[] = {
    "ab", "abc", "bc", "aa", "aaa", "aaaa", "the", " the", "he", "th", "\",", "\":", "\": ", "\"}", "\"]", "{\"", "[\"", "\", \"", "\\\"", "\\n",
    "\\u", "12", "123", "00", "0.", "-1", "e+", "true", "false", "null", "},", "],", "  ", "    ", " \n", "\n\n", "((", "))", "()", "[[", "]]",
    "\xc3\xa9", "\xe2\x82", "\x82\xac", "\xe2\x82\xac", "\xf0\x9f\x98", "\x98\x80", "\xc3\xa9\xc3\xa9", "a\xc3", "\xa9z", "x\"", "a\"", "ab\"", "abc\"", "abc\",", "aaaaaaaa",
    "xyz", "xy", "yz", "zz", "+-", "--", "<think>", "a b", "b a" };
enum { GRAMMAR_PIECES_N = (int)(sizeof GRAMMAR_PIECES / sizeof GRAMMAR_PIECES[0]), GRAMMAR_CONTROL = 256 + GRAMMAR_PIECES_N,
       GRAMMAR_USER, GRAMMAR_END, GRAMMAR_UNUSED, GRAMMAR_TOKENS };

/* As the bytes of a GGUF file, to be freed. */
static uint8_t *grammar_vocab(size_t *size) {
    gguf_writer w;
    int i;
    gw_init(&w);
    gw_str(&w, "tokenizer.ggml.model", "gpt2");
    gw_array(&w, "tokenizer.ggml.tokens", GW_STRING, GRAMMAR_TOKENS);
    for (i = 0; i < GRAMMAR_CONTROL; i++) { /* in GPT-2's byte alphabet */
        char text[64], one;
        const char *s = i < 256 ? &one : GRAMMAR_PIECES[i - 256];
        size_t n = i < 256 ? 1 : strlen(s), k, at = 0;
        one = (char)i;
        for (k = 0; k < n; k++) at += infer__utf8_put(infer__byte_to_char((uint8_t)s[k]), text + at);
        gw_raw_string(&w, &w.kv, text, at);
    }
    gw_raw_string(&w, &w.kv, "<|tool|>", 8);
    gw_raw_string(&w, &w.kv, "<call>", 6);
    gw_raw_string(&w, &w.kv, "<|im_end|>", 10);
    gw_raw_string(&w, &w.kv, "<unused0>", 9);
    gw_array(&w, "tokenizer.ggml.token_type", GW_U8, GRAMMAR_TOKENS);
    for (i = 0; i < GRAMMAR_TOKENS; i++) {
        int type = i == GRAMMAR_CONTROL || i == GRAMMAR_END ? 3 : i == GRAMMAR_USER ? 4 : i == GRAMMAR_UNUSED ? 5 : 1;
        gw_uint(&w, &w.kv, (uint64_t)type, 1);
    }
    gw_strs(&w, "tokenizer.ggml.merges", (const char *const[]){ "a b", "ab c", "a a" }, 3);
    gw_str(&w, "tokenizer.ggml.pre", "gpt-2");
    gw_int(&w, "tokenizer.ggml.eos_token_id", GW_U32, GRAMMAR_END);
    return gw_finish(&w, size);
}
#endif
