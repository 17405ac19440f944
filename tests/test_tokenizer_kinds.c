/* test_tokenizer_kinds.c: vocabularies that are looked up in a trie (WordPiece, Unigram, RWKV, PLaMo-2), what opening one
 * costs, special tokens. */
#ifndef TEST_TOKENIZER
#  include "test_tokenizer.c"
#endif

/* ---- against recorded ids ---- */

/* name, and whether it has a file of ids of the 201 texts */
static const struct { const char *name; int ids; } KIND_VOCABS[] = { { "bert-bge", 1 }, { "nomic-bert-moe", 1 }, { "rwkv-world", 0 } };

static void test_kinds_recorded(void) {
    size_t i, text_n = 0, long_n = 0;
    const char *path = check_reference("tokenizers/texts.bin");
    char *texts = path ? check_read(path, &text_n) : NULL, *long_text;
    if (!texts) SKIP("needs INFER_TEST_DATA: tokenizers/texts.bin");
    long_text = check_read(check_reference("vocabs/long-text.txt"), &long_n);
    CHECK(long_text != NULL);
    for (i = 0; i < 3 && long_text; i++) {
        tok_open_file f;
        char rel[100], *ids;
        if (!tok_open_named(&f, KIND_VOCABS[i].name, 0)) continue;
        CHECK(tok_check_vectors(&f, KIND_VOCABS[i].name) == 46);
        tok_check_extra(&f, KIND_VOCABS[i].name, long_text, long_n);
        snprintf(rel, sizeof rel, "tokenizers/%s.ids", KIND_VOCABS[i].name);
        ids = KIND_VOCABS[i].ids ? check_read(check_reference(rel), NULL) : NULL;
        if (ids) CHECK(tok_check_ids(&f, texts, text_n, ids) == 201);
        else CHECK(!KIND_VOCABS[i].ids);
        if (!KIND_VOCABS[i].ids) tok_check_round_trip(&f, texts, text_n);
        free(ids);
        tok_close(&f);
    }
    free(texts);
    free(long_text);
}

static void suite_tokenizer_kinds(void) {
    RUN(test_kinds_recorded);
}
