/* tokenizer_pre_tables.h: the rules of tokenizer.json's pre-tokenizers, and the name that GGUF files have for each.
 *
 * Expressions are in the form that canonical (tokenizer_pre.c) makes: characters outside ASCII are \x{...}, \s*[\r\n]+ is
 * \s*[\r\n], a last |\s+ is left out. tests/pre_splits.py has the same expressions for the library's pre-tokenizers.
 */
#ifndef CONVERT_TOKENIZER_PRE_TABLES_H
#define CONVERT_TOKENIZER_PRE_TABLES_H

#define SHORT "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WHITE "|\\s*[\\r\\n]|\\s+(?!\\S)"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define WORDS(digits) "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WHITE
#define LLAMA3 SHORT "|" WORDS("{1,3}")
#define QWEN2 SHORT "|" WORDS("")
#define NO_WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(digits, after, tail, rest) \
    NO_WORD "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" rest "]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" rest "]+" after \
    "|" NO_WORD "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" rest "]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" rest "]*" after \
    "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+" tail WHITE
#define O200K CASED("{1,3}", SHORT "?", "[\\r\\n/]*", "")
#define ASCII_MARK "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define DEEPSEEK_MARKS ASCII_MARK "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" WHITE
#define SPARK_MARKS ASCII_MARK "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)"
#define KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define STOPS "!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}"
#define YOUTU \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}" \
    "\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" \
    "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define AFMOE_SCRIPTS \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}" \
    "\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}" \
    "\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define BLOOM_NESTED " ?[^(\\s|[.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}])]+" /* as BLOOM: the inner brackets are a set of their own */
#define LETTERS \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}" \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}" \
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}" \
    "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}" \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}" \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-" \
    "\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}" \
    "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}" \
    "\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}" \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}" \
    "\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}" \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}" \
    "\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}" \
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-" \
    "\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define SPACES(n) "|\\s{" n "}(?!\\S)"
#define JAIS2 \
    SHORT "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]" SPACES("512") SPACES("256") \
    SPACES("128") SPACES("64") SPACES("32") SPACES("16") SPACES("8") SPACES("4") SPACES("1,2") "|\\s{1}"
#define PUNCTUATION "punctuation"       /* each mark by itself */
#define PUNCTUATIONS "punctuation runs" /* runs of them */
#define DIGIT "\\p{N}"
#define DIGITS "\\p{N}+"
#define NOT_HAN "&&[^\\p{Han}]"

/* The first row wins whose steps are the rules, whose families (model_type, NULL = any) have this model's, and whose `ignore`
 * is the model's ignore_merges (2 = either). */
typedef struct pre_row {
    const char *name;
    int ignore;
    const char *families;
    const char *steps[6];
} pre_row;

static const pre_row PRE_ROWS[] = {
    {"phi-2", 2, "phi", {GPT2}},
    {"modern-bert", 2, "modernbert", {GPT2}},
    {"exaone4", 2, "exaone4", {GPT2}},
    {"mpt", 2, "mpt", {GPT2}},
    {"olmo", 2, "olmo gpt_neox mamba", {GPT2}},
    {"jais", 2, "jais", {GPT2}},
    {"roberta-bpe", 2, "roberta", {GPT2}},
    {"gpt-2", 0, NULL, {GPT2}},
    {"glm4", 1, "glm glm4 glm4v glm4_moe glm4v_moe glm4_moe_lite glm_moe_dsa", {LLAMA3}},
    {"falcon-h1", 2, "falcon_h1", {LLAMA3}},
    {"lfm2", 2, "lfm2 lfm2_moe lfm2_vl", {LLAMA3}},
    {"llama-bpe", 1, NULL, {LLAMA3}},
    {"chatglm-bpe", 0, "chatglm glm glm4", {LLAMA3}},
    {"dbrx", 0, NULL, {LLAMA3}},
    {"jais-2", 0, NULL, {JAIS2}},
    {"stablelm2", 0, "stablelm", {QWEN2}},
    {"hunyuan", 0, "hunyuan_v1_moe hunyuan", {QWEN2}},
    {"solar-open", 0, "solar_open", {QWEN2}},
    {"bailingmoe2", 0, "bailing_moe_v2 bailing_hybrid", {QWEN2}},
    {"bailingmoe", 0, "bailing_moe", {QWEN2}},
    {"llada-moe", 0, "llada_moe", {QWEN2}},
    {"qwen2", 0, NULL, {QWEN2}},
    {"qwen35", 0, NULL,
     {SHORT "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" WHITE}},
    {"seed-coder", 0, NULL, {SHORT "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" WHITE}},
    {"ufakzeka", 0, NULL, {WORDS("")}},
    {"laguna", 0, NULL, {"[^\\n]+|[\\n]+", QWEN2}},
    {"minicpm5", 1, NULL, {"\\p{N}{1,3}", SHORT "|" WORDS("+")}},
    {"exaone-moe", 0, NULL,
     {SHORT "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?" WHITE}},
    {"tekken", 1, NULL, {CASED("", "", "[\\r\\n/]*", "")}},
    {"llama4", 2, "llama4 llama4_text", {O200K}},
    {"minimax-m2", 2, "minimax_m2", {O200K}},
    {"gpt-4o", 2, "gpt_oss", {O200K}},
    {"gpt-4o", 0, NULL, {O200K}},
    {"granite-embed-multi-97m", 1, NULL, {O200K}},
    {"cohere2moe", 0, "cohere2_moe", {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K}},
    {"tiny_aya", 0, NULL, {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K}},
    {"kimi-k2", 0, NULL, {"\\p{Han}+|" CASED("{1,3}", SHORT "?", "[\\r\\n]*", NOT_HAN)}},
    {"youtu", 1, NULL, {YOUTU, CASED("", SHORT "?", "[\\r\\n/]*", "")}},
    {"deepseek-llm", 0, NULL, {"[\\r\\n]", "\\s?[" LETTERS "]+", "\\s?[" STOPS "]+", "\\s+$", CJK, DIGITS}},
    {"deepseek-llm", 0, NULL, {"[\\r\\n]", "\\s?[" LETTERS "]+", "\\s?[" STOPS "]+", "\\s+$", CJK, DIGIT}},
    {"deepseek-coder", 0, NULL, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, DIGIT}},
    {"hunyuan-dense", 0, "hunyuan_v1_dense", {"\\p{N}{1,3}", KANA, DEEPSEEK_MARKS}},
    {"deepseek-v3", 0, NULL, {"\\p{N}{1,3}", KANA, DEEPSEEK_MARKS}},
    {"spark2_5", 0, NULL, {"\\p{N}{1,3}", KANA, SPARK_MARKS, DIGIT}},
    {"afmoe", 0, NULL, {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", AFMOE_SCRIPTS, DEEPSEEK_MARKS}},
    {"falcon", 0, NULL, {PUNCTUATIONS, GPT2, DIGITS, "[0-9][0-9][0-9]"}},
    {"refact", 0, "gpt_refact granite granitemoe granitemoehybrid", {DIGIT, GPT2}},
    {"command-r", 0, "cohere cohere2", {DIGIT, GPT2}},
    {"smollm", 0, "llama", {DIGIT, GPT2}},
    {"exaone", 0, "exaone", {DIGIT, GPT2}},
    {"codeshell", 0, "kclgpt codeshell", {DIGIT, GPT2}},
    {"starcoder", 0, NULL, {DIGIT, GPT2}},
    {"bloom", 0, NULL, {BLOOM}},
    {"bloom", 0, NULL, {BLOOM_NESTED}},
    {"viking", 0, NULL, {BLOOM, DIGIT}},
    {"viking", 0, NULL, {BLOOM_NESTED, DIGIT}},
    {"superbpe", 0, NULL, {DIGITS, "(?=(\\d{3})+(?!\\d))"}},
    {"chameleon", 0, NULL,
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", DIGIT, PUNCTUATION, GPT2}},
};

/* Other spellings of parts, which match the same texts: contractions, quantifiers that need no way back because what follows
 * begins with none of their characters. */
static const struct { const char *from, *to; } SPELLINGS[] = {
    {"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])", SHORT},
    {"'(?i:[sdmt]|ll|ve|re)", SHORT},
    {"]?+", "]?"},
    {"}++", "}+"},
    {"]++", "]+"},
    {"]*+", "]*"},
    {"\\p{N}{1}", "\\p{N}"},
    {"\\p{N}{1,1}", "\\p{N}"},
    {"\\s*[\\r\\n]+", "\\s*[\\r\\n]"},
    {"[\\p{Han}]+", "\\p{Han}+"},
};

#endif
