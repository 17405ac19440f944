/* pre_split.c: splits texts as a pre-tokenizer does, for tests/pre_splits.py.
 *
 * Reads lines "NAME HEX", writes for each the lengths of the words in bytes, or "?" for a name that is unknown. */
#ifndef INFER_QUIET
#define INFER_QUIET
#endif
#include "text_parts.c"
#include <stdio.h>

static char line[1 << 16], text[1 << 15];

int main(void) {
    while (fgets(line, sizeof line, stdin)) {
        size_t name = strcspn(line, " \n"), n = 0, len;
        const char *hex = line + name + (line[name] == ' ');
        const infer__pretokenizer *pre = infer__pretokenizer_find(line, name);
        infer__splitter words;
        for (; infer__hex_digit(hex[0]) >= 0 && infer__hex_digit(hex[1]) >= 0; hex += 2)
            text[n++] = (char)(infer__hex_digit(hex[0]) * 16 + infer__hex_digit(hex[1]));
        if (!pre) fputs("?", stdout);
        else for (infer__split_begin(&words, pre, text, n); (len = infer__split_next(&words)) != 0; ) printf("%d ", (int)len);
        putchar('\n');
    }
    return 0;
}
