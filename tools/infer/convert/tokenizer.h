/* tokenizer.h: the tokenizer of a Hugging Face folder as tokenizer.* keys of a GGUF file. */
#ifndef CONVERT_TOKENIZER_H
#define CONVERT_TOKENIZER_H

#include "../synth/gguf_write.h"

/* Writes the keys to out. config, generation: config.json of the (text) model and generation_config.json, NULL = none. vocab: rows of the embedding; a shorter
 * vocabulary is padded, 0 = as many as there are tokens. pre: the name of the pre-tokenizer, NULL = found from the rules in
 * tokenizer.json. Returns 0 after saying what is wrong; out then holds an unknown part of the keys. */
int hf_tokenizer(const char *command, const char *folder, const infer_json *config, const infer_json *generation, uint64_t vocab, const char *pre, gguf_out *out);

#endif
