/* test_unicode.c: UTF-8 and character classes. */

/* Every code point: written, read back whole, and refused when cut short. */
static void test_utf8_all_code_points(void) {
    uint32_t cp;
    for (cp = 0; cp < 0x110000; cp++) {
        char s[4];
        size_t n = infer__utf8_put(cp, s), len = 9, cut;
        int ok = -1;
        if (cp >= 0xd800 && cp < 0xe000) { /* surrogates are no characters */
            if (infer__utf8_next(s, n, &len, &ok) != 0xfffd || ok || len != 1) break;
            continue;
        }
        if (infer__utf8_next(s, n, &len, &ok) != cp || !ok || len != n) break;
        if (infer__utf8_whole(s, n) != n) break;
        for (cut = 1; cut < n; cut++) {
            if (infer__utf8_next(s, cut, &len, &ok) != 0xfffd || ok || len != 1) break;
            if (infer__utf8_whole(s, cut) != 0) break;
        }
        if (cut < n) break;
    }
    CHECK(cp == 0x110000);
}

static void test_utf8_invalid(void) {
    static const char *const bad[] = {
        "\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xfe", "\xc3(", "\xe2\x28\xa1", "\xe2\x82(", "\xf0\x9f\x98("
    };
    size_t i, len;
    int ok;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_detail = bad[i];
        CHECK(infer__utf8_next(bad[i], strlen(bad[i]), &len, &ok) == 0xfffd);
        CHECK(len == 1 && ok == 0);
    }
    CHECK(infer__utf8_next("\xff", 1, &len, NULL) == 0xfffd && len == 1);
    CHECK(infer__utf8_next("A", 1, &len, NULL) == 'A' && len == 1);
}

static void test_utf8_whole(void) {
    static const struct { const char *s; size_t n, want; } cases[] = {
        { "", 0, 0 }, { "abc", 3, 3 }, { "ab\xc3", 3, 2 }, { "ab\xc3\xa9", 4, 4 }, { "ab\xe2\x82", 4, 2 },
        { "ab\xe2\x82\xac", 5, 5 }, { "\xf0", 1, 0 }, { "\xf0\x9f", 2, 0 }, { "x\xf0\x9f\x98", 4, 1 },
        { "x\xf0\x9f\x98\x80", 5, 5 },
        /* invalid bytes are whole */
        { "\x80", 1, 1 }, { "\x80\x80\x80\x80", 4, 4 }, { "\xc0", 1, 1 }, { "\xff", 1, 1 }, { "\xe0\x80", 2, 2 },
        { "\xed\xa0", 2, 2 }, { "\xf0\x80", 2, 2 }, { "\xf4\x90\x80", 3, 3 }, { "a\xc3\xa9\xa9", 4, 4 },
        { "\xf0\x9f\x98\x80\x80", 5, 5 }, { "\xe2\x82\xac\xe2", 4, 3 }
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_detail = cases[i].s;
        CHECK(infer__utf8_whole(cases[i].s, cases[i].n) == cases[i].want);
    }
}

static void test_unicode_classes(void) {
    static const struct { uint32_t cp, want; } cases[] = {
        { 'a', INFER__UC_LETTER | INFER__UC_LOWER }, { 'Z', INFER__UC_LETTER | INFER__UC_UPPER },
        { '0', INFER__UC_NUMBER | INFER__UC_DIGIT },
        { ' ', INFER__UC_SPACE }, { '\n', INFER__UC_SPACE }, { 0x85, INFER__UC_SPACE }, { 0xa0, INFER__UC_SPACE },
        { 0x1f, INFER__UC_OTHER }, { 0x200b, INFER__UC_OTHER }, { '_', INFER__UC_PUNCT | INFER__UC_CONNECTOR }, { '$', INFER__UC_SYMBOL },
        { '|', INFER__UC_SYMBOL }, { '\'', INFER__UC_PUNCT }, { 0x1c5, INFER__UC_LETTER | INFER__UC_UPPER },
        { 0x2b0, INFER__UC_LETTER }, { 0x301, INFER__UC_MARK | INFER__UC_NONSPACING }, { 0x903, INFER__UC_MARK }, { 0x663, INFER__UC_NUMBER | INFER__UC_DIGIT }, { 0xbd, INFER__UC_NUMBER },
        { 0x4e00, INFER__UC_LETTER }, { 0xac00, INFER__UC_LETTER }, { 0x1f600, INFER__UC_SYMBOL }, { 0xfffd, INFER__UC_SYMBOL },
        { 0x1fffe, INFER__UC_OTHER }, { 0x1ffff, INFER__UC_OTHER }, { 0x20000, INFER__UC_LETTER }, { 0x2a6df, INFER__UC_LETTER },
        { 0x2a6e0, INFER__UC_OTHER }, { 0x323af, INFER__UC_LETTER }, { 0x323b0, INFER__UC_OTHER }, { 0xe0100, INFER__UC_MARK | INFER__UC_NONSPACING },
        { 0xe01f0, INFER__UC_OTHER }, { 0x10ffff, INFER__UC_OTHER }, { 0xffffffffu, INFER__UC_OTHER }
    };
    /* Code points per class in Unicode 15.1.0, counted with Python's unicodedata: other, letters, marks, numbers, white
     * space, punctuation, symbols, upper case, lower case, decimal digits, connectors, marks without width. */
    static const uint32_t bits[] = { INFER__UC_OTHER, INFER__UC_LETTER, INFER__UC_MARK, INFER__UC_NUMBER, INFER__UC_SPACE,
                                     INFER__UC_PUNCT, INFER__UC_SYMBOL, INFER__UC_UPPER, INFER__UC_LOWER,
                                     INFER__UC_DIGIT, INFER__UC_CONNECTOR, INFER__UC_NONSPACING };
    static const uint32_t want[] = { 964463, 136726, 2450, 1831, 25, 842, 7775, 1862, 2233, 680, 10, 1985 };
    uint32_t count[12] = { 0 }, cp;
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) CHECK(infer__uc_class(cases[i].cp) == cases[i].want);
    for (cp = 0; cp < 0x110000; cp++) {
        uint32_t c = infer__uc_class(cp);
        for (i = 0; i < 12; i++) count[i] += (c & bits[i]) != 0;
    }
    for (cp = 0; cp < 128; cp++) CHECK(INFER__UC_ASCII[cp] == infer__uc_class(cp));
    if (strcmp(INFER__UNICODE_VERSION, "15.1.0") != 0) SKIP("the counts are those of Unicode 15.1.0");
    for (i = 0; i < 12; i++) CHECK(count[i] == want[i]);
}

static void suite_unicode(void) {
    RUN(test_utf8_all_code_points);
    RUN(test_utf8_invalid);
    RUN(test_utf8_whole);
    RUN(test_unicode_classes);
}
