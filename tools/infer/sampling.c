/* sampling.c: the sampler options of `run` and `chat`, and the sampler that they ask for.
 *
 * The chain is the model's usual one (infer_sampler_usual) with the values given, or the stages that --samplers names
 * in that order. Options that have no effect are reported on stderr. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Options that are a parameter of a stage: p[index]. */
typedef struct figure {
    const char *name;
    int32_t kind, index;
    int whole; /* an integer, lo or more */
    int lo;
    const char *arg, *help;
} figure;
static const figure FIGURES[] = {
    {"--temp|--temperature", INFER_STAGE_DYNAMIC_TEMPERATURE, 0, 0, 0, "T", "temperature (default 0.8); 0 = always the most likely token"},
    {"--top-k", INFER_STAGE_TOP_K, 0, 1, 0, "K", "keep the K most likely tokens (default 40); 0 = all"},
    {"--top-p", INFER_STAGE_TOP_P, 0, 0, 0, "P", "keep the smallest set with this total probability (default 0.95); 1 = off"},
    {"--min-p", INFER_STAGE_MIN_P, 0, 0, 0, "P", "drop tokens below this fraction of the top probability (default 0.05); 0 = off"},
    {"--typical|--typical-p", INFER_STAGE_TYPICAL, 0, 0, 0, "P", "locally typical sampling with this total probability; 1 = off (default)"},
    {"--top-n-sigma|--top-nsigma", INFER_STAGE_TOP_N_SIGMA, 0, 0, 0, "N", "keep logits within N standard deviations of the top; 0 = off (default)"},
    {"--xtc-probability", INFER_STAGE_XTC, 0, 0, 0, "P", "XTC: chance of dropping the top choices (default 0 = off)"},
    {"--xtc-threshold", INFER_STAGE_XTC, 1, 0, 0, "P", "XTC: drop all but the last token above this probability (default 0.1)"},
    {"--dynatemp-range", INFER_STAGE_DYNAMIC_TEMPERATURE, 1, 0, 0, "R", "dynamic temperature: from T - R to T + R by entropy (default 0 = off)"},
    {"--dynatemp-exponent", INFER_STAGE_DYNAMIC_TEMPERATURE, 2, 0, 0, "X", "dynamic temperature: exponent of the entropy (default 1)"},
    {"--mirostat-tau", INFER_STAGE_MIROSTAT, 0, 0, 0, "X", "mirostat: target surprise in bits (default 5)"},
    {"--mirostat-eta", INFER_STAGE_MIROSTAT, 1, 0, 0, "X", "mirostat: learning rate (default 0.1)"},
    {"--repeat-penalty|--repetition-penalty", INFER_STAGE_PENALTY, 1, 0, 0, "X", "penalty for tokens that occurred (default 1 = off)"},
    {"--repeat-last-n", INFER_STAGE_PENALTY, 0, 1, -1, "N", "tokens that the penalties look back on (default 64); -1 = all"},
    {"--frequency-penalty", INFER_STAGE_PENALTY, 2, 0, 0, "X", "penalty for each time a token occurred (default 0)"},
    {"--presence-penalty", INFER_STAGE_PENALTY, 3, 0, 0, "X", "penalty, once, for tokens that occurred (default 0)"},
    {"--dry-multiplier", INFER_STAGE_DRY, 0, 0, 0, "X", "DRY: strength of the penalty for repeated sequences (default 0 = off)"},
    {"--dry-base", INFER_STAGE_DRY, 1, 0, 0, "X", "DRY: growth of the penalty per repeated token (default 1.75)"},
    {"--dry-allowed-length", INFER_STAGE_DRY, 2, 1, 0, "N", "DRY: repetitions up to this length are free (default 2)"},
    {"--dry-penalty-last-n", INFER_STAGE_DRY, 3, 1, -1, "N", "DRY: tokens to look back on (default 64); -1 = all"},
    {"--adaptive-target", INFER_STAGE_ADAPTIVE_P, 0, 0, 0, "P", "adaptive-p: prefer tokens near this probability; -1 = off (default)"},
    {"--adaptive-decay", INFER_STAGE_ADAPTIVE_P, 1, 0, 0, "X", "adaptive-p: average over 1 / (1 - X) tokens (default 0.9)"},
};
enum { N_FIGURES = (int)(sizeof FIGURES / sizeof FIGURES[0]), MAX_STAGES = INFER_STAGES_USUAL + 4 };
typedef char figures_fit[(int)N_FIGURES <= (int)CLI_SAMPLING_FIGURES ? 1 : -1];

static const double NOT_GIVEN = -2e30; /* no option can be that */

int cli_sampling_options(cli_sampling *s, cli_option *out) {
    int i, n = 0;
    cli_option o;
    memset(s, 0, sizeof *s);
    s->mirostat = -1;
    for (i = 0; i < N_FIGURES; i++) {
        s->value[i] = NOT_GIVEN;
        s->whole[i] = INT64_MIN;
        o.name = FIGURES[i].name;
        o.kind = FIGURES[i].whole ? OPT_INT : OPT_FLOAT;
        o.value = FIGURES[i].whole ? (void *)&s->whole[i] : (void *)&s->value[i];
        o.arg = FIGURES[i].arg;
        o.help = FIGURES[i].help;
        o.lo = FIGURES[i].lo;
        o.hi = INT32_MAX;
        out[n++] = o;
    }
    {
        const cli_option more[] = {
            {"--mirostat", OPT_INT, &s->mirostat, "N", "1 or 2: sample with temperature and this mirostat only; 0 = off", 0, 2},
            {"--dry-sequence-breaker", OPT_LIST, &s->breakers, "TEXT",
             "DRY: a repetition ends at this text; may be repeated; none = never (default: \\n : \" *)", 0, 0},
            {"--logit-bias|-l", OPT_LIST, &s->biases, "ID+X|TEXT=X",
             "add X to this token's logit, or to those of all tokens that spell TEXT (-X subtracts, -inf bans); may be repeated", 0, 0},
            {"--ignore-eos", OPT_FLAG, &s->ignore_eos, NULL, "ban all end tokens", 0, 0},
            {"--grammar|--grammar-file", OPT_STRING, &s->grammar_text, "FILE|TEXT", "force output that this GBNF grammar accepts", 0, 0},
            {"--schema|-j,--json-schema,-jf,--json-schema-file", OPT_STRING, &s->schema_text, "FILE|TEXT",
             "force JSON that this schema accepts", 0, 0},
            {"--json-object", OPT_FLAG, &s->json_object, NULL, "force a JSON object", 0, 0},
            {"--samplers", OPT_STRING, &s->order, "A;B;C",
             "sampler stages, in this order: penalties dry top_n_sigma top_k typ_p top_p min_p xtc temperature infill", 0, 0},
        };
        for (i = 0; i < (int)(sizeof more / sizeof more[0]); i++) out[n++] = more[i];
    }
    return n;
}

/* The value of option i; 0 when it was not given. */
static int given(const cli_sampling *s, int i, double *value) {
    if (FIGURES[i].whole && s->whole[i] == INT64_MIN) return 0;
    if (!FIGURES[i].whole && s->value[i] == NOT_GIVEN) return 0;
    *value = FIGURES[i].whole ? (double)s->whole[i] : s->value[i];
    return 1;
}

static int anything_given(const cli_sampling *s) {
    double unused;
    int i;
    for (i = 0; i < N_FIGURES; i++) {
        if (given(s, i, &unused)) return 1;
    }
    return s->mirostat >= 0 || s->breakers.n || s->biases.n || s->ignore_eos || s->order || s->grammar;
}

/* Mirostat's two kinds share their options. */
static int is_of(int32_t kind, const figure *f) {
    return kind == f->kind || (kind == INFER_STAGE_MIROSTAT_2 && f->kind == INFER_STAGE_MIROSTAT) ||
           (kind == INFER_STAGE_TEMPERATURE && f->kind == INFER_STAGE_DYNAMIC_TEMPERATURE && f->index == 0);
}

/* ---- texts of options ---------------------------------------------------------------------------------------- */

/* "NUMBER" or "-inf". */
static int parse_number(const char *text, float *out) {
    char *end;
    double bias;
    *out = -(float)HUGE_VAL;
    if (strcmp(text, "-inf") == 0) return 1;
    bias = strtod(text, &end);
    *out = (float)bias;
    return end != text && *end == 0 && fabs(bias) < 1e30;
}

/* "ID+NUMBER", "ID-NUMBER", "ID-inf": *n is 0. "TEXT=NUMBER": the text is everything before the last '=', *n bytes. */
static int parse_bias(const char *text, infer_bias *out, size_t *n) {
    char *sign;
    const char *equals = strrchr(text, '=');
    long token = strtol(text, &sign, 10);
    *n = 0;
    if (sign != text && (*sign == '+' || *sign == '-') && token >= 0 && token <= INT32_MAX &&
        parse_number(sign, &out->bias)) {
        out->token = (infer_token)token;
        return 1;
    }
    if (equals == NULL || equals == text || !parse_number(equals + 1, &out->bias)) return 0;
    *n = (size_t)(equals - text);
    return 1;
}

/* The kind that the first name of "a;b;c" means, 0 = none that may be named; returns where the next one begins. */
static const char *next_name(const char *order, int32_t *kind) {
    size_t n = strcspn(order, ";");
    char name[32];
    *kind = 0;
    if (n < sizeof name) {
        memcpy(name, order, n);
        name[n] = 0;
        *kind = infer_stage_named(name);
        if (*kind == INFER_STAGE_CUSTOM || *kind == INFER_STAGE_LOGIT_BIAS || *kind == INFER_STAGE_GRAMMAR) *kind = 0;
    }
    return order + n + (order[n] == ';');
}

int cli_sampling_check(const char *command, const cli_sampling *s) {
    const char *name = s->order ? s->order : "", *next;
    int32_t kind;
    infer_bias unused;
    size_t n;
    int i;
    for (; *name; name = next) {
        next = next_name(name, &kind);
        if (kind == 0) {
            cli_usage_error(command, "--samplers: unknown sampler '%.*s'", (int)strcspn(name, ";"), name);
            return 0;
        }
    }
    for (i = 0; i < s->biases.n; i++) {
        if (parse_bias(s->biases.items[i], &unused, &n)) continue;
        cli_usage_error(command, "--logit-bias needs ID+NUMBER, ID-NUMBER or TEXT=NUMBER, not '%s'", s->biases.items[i]);
        return 0;
    }
    return 1;
}

/* ---- the chain ------------------------------------------------------------------------------------------------ */

typedef struct chain {
    const char *command;
    infer_error *err;
    infer_model *model;
    infer_stage stages[MAX_STAGES];
    int n;
    infer_bias *biases;
    size_t n_biases;
    char *breakers; /* JSON */
} chain;

static int add_stage(chain *c, int32_t kind) {
    if (c->n == MAX_STAGES) {
        snprintf(c->err->message, sizeof c->err->message, "there are more than %d sampler stages", (int)MAX_STAGES);
        return 0;
    }
    if (infer_sampler_stage(c->model, kind, &c->stages[c->n], c->err) != INFER_OK) return 0;
    c->n++;
    return 1;
}

static int add_bias(chain *c, infer_token token, float bias) {
    infer_bias *grown = cli_grow(c->command, c->biases, c->n_biases + 1, sizeof *grown);
    if (grown == NULL) return 0;
    grown[c->n_biases].token = token;
    grown[c->n_biases++].bias = bias;
    c->biases = grown;
    return 1;
}

/* For all tokens that spell a text. */
static int add_text_bias(chain *c, const char *text, size_t n, float bias) {
    infer_bias *found;
    size_t count, i;
    int ok = 1;
    if (infer_bias_text(c->model, text, n, bias, NULL, 0, &count, c->err) != INFER_OK) return 0;
    found = cli_alloc(c->command, count, sizeof *found);
    if (found == NULL) return 0;
    if (infer_bias_text(c->model, text, n, bias, found, count, &count, c->err) != INFER_OK) ok = 0;
    for (i = 0; ok && i < count; i++) ok = add_bias(c, found[i].token, found[i].bias);
    free(found);
    return ok;
}

/* --logit-bias and --ignore-eos: one stage, the first. */
static int add_biases(chain *c, const cli_sampling *s) {
    infer_model_info info;
    infer_bias b;
    infer_token t;
    size_t n;
    int i;
    for (i = 0; i < s->biases.n; i++) {
        if (!parse_bias(s->biases.items[i], &b, &n)) return 0;
        if (n ? !add_text_bias(c, s->biases.items[i], n, b.bias) : !add_bias(c, b.token, b.bias)) return 0;
    }
    if (s->ignore_eos && infer_model_get_info(c->model, &info) == INFER_OK) {
        for (t = 0; t < info.vocab; t++) {
            if ((infer_token_flags(c->model, t) & INFER_TOKEN_END) && !add_bias(c, t, -(float)HUGE_VAL)) return 0;
        }
    }
    if (c->n_biases == 0) return 1;
    if (!add_stage(c, INFER_STAGE_LOGIT_BIAS)) return 0;
    c->stages[c->n - 1].bias = c->biases;
    c->stages[c->n - 1].n = (int32_t)c->n_biases;
    return 1;
}

/* The stages that --samplers names. */
static int add_named(chain *c, const char *order) {
    int32_t kind;
    while (*order) {
        order = next_name(order, &kind);
        if (!add_stage(c, kind)) return 0;
    }
    return 1;
}

static int add_usual(chain *c, const cli_sampling *s) {
    infer_stage usual[INFER_STAGES_USUAL];
    int32_t i, n = 0;
    if (s->mirostat > 0) {
        return add_stage(c, INFER_STAGE_DYNAMIC_TEMPERATURE) &&
               add_stage(c, s->mirostat == 1 ? INFER_STAGE_MIROSTAT : INFER_STAGE_MIROSTAT_2);
    }
    /* --mirostat 0: the usual order also when the file asks for mirostat */
    if (infer_sampler_usual(s->mirostat == 0 ? NULL : c->model, usual, INFER_STAGES_USUAL, &n, c->err) != INFER_OK) return 0;
    for (i = 0; i < n; i++) {
        if (!add_stage(c, usual[i].kind)) return 0;
    }
    return 1;
}

/* Breakers as a JSON array. */
static int make_breakers(chain *c, const cli_list *list) {
    static const char HEX[] = "0123456789abcdef";
    size_t n = 3, at = 0;
    int i;
    const char *p;
    for (i = 0; i < list->n; i++) n += 6 * strlen(list->items[i]) + 3;
    c->breakers = cli_alloc(c->command, n, 1);
    if (c->breakers == NULL) return 0;
    c->breakers[at++] = '[';
    for (i = 0; i < list->n && !(list->n == 1 && strcmp(list->items[0], "none") == 0); i++) {
        if (i) c->breakers[at++] = ',';
        c->breakers[at++] = '"';
        for (p = list->items[i]; *p; p++) {
            if ((unsigned char)*p >= 0x20 && *p != '"') { /* backslashes stay: \n is an escape here as in JSON */
                c->breakers[at++] = *p;
                continue;
            }
            memcpy(c->breakers + at, "\\u00", 4);
            c->breakers[at + 4] = HEX[(unsigned char)*p >> 4];
            c->breakers[at + 5] = HEX[*p & 15];
            at += 6;
        }
        c->breakers[at++] = '"';
    }
    memcpy(c->breakers + at, "]", 2);
    return 1;
}

/* The figures that were given into their stages. */
static int set_figures(chain *c, const cli_sampling *s) {
    double value;
    int i, k, used;
    for (i = 0; i < N_FIGURES; i++) {
        if (!given(s, i, &value)) continue;
        for (k = used = 0; k < c->n; k++) {
            if (!is_of(c->stages[k].kind, &FIGURES[i])) continue;
            c->stages[k].p[FIGURES[i].index] = (float)value;
            used = 1;
        }
        if (!used)
            fprintf(stderr, "infer %s: %.*s is not used: its stage is not among the samplers\n", c->command,
                    (int)strcspn(FIGURES[i].name, "|"), FIGURES[i].name);
    }
    if (s->breakers.n == 0) return 1;
    if (!make_breakers(c, &s->breakers)) return 0;
    for (k = 0; k < c->n; k++) {
        if (c->stages[k].kind == INFER_STAGE_DRY) c->stages[k].text = c->breakers;
    }
    return 1;
}

/* --adaptive-target adds its stage at the end, where it must be, unless --samplers gives its position. */
static int add_adaptive(chain *c, const cli_sampling *s) {
    double target;
    int i;
    if (s->order || s->mirostat > 0) return 1;
    for (i = 0; i < N_FIGURES; i++) {
        if (FIGURES[i].kind == INFER_STAGE_ADAPTIVE_P && FIGURES[i].index == 0) break;
    }
    return !given(s, i, &target) || add_stage(c, INFER_STAGE_ADAPTIVE_P);
}

infer_grammar *cli_grammar_text(const char *command, infer_model *model, const char *value, int schema) {
    infer_grammar_params p;
    infer_grammar *grammar = NULL;
    infer_error err;
    const char *name;
    size_t n;
    char *text = cli_read_text(command, value, &n, &name);
    if (text == NULL) return NULL;
    memset(&p, 0, sizeof p);
    if (schema) p.schema = text;
    else p.gbnf = text;
    if (strlen(text) != n) cli_fail(command, "%s holds a zero byte", name);
    else if (infer_grammar_create(&grammar, model, &p, &err) != INFER_OK) cli_fail(command, "%s: %s", name, err.message);
    free(text);
    return grammar;
}

int cli_grammar(const char *command, infer_model *model, cli_sampling *s) {
    infer_grammar_params p;
    infer_error err;
    int n = (s->grammar_text != NULL) + (s->schema_text != NULL) + s->json_object;
    s->grammar = NULL;
    if (n == 0) return 1;
    if (n > 1) {
        cli_usage_error(command, "give one of --grammar, --schema and --json-object");
        return 0;
    }
    if (!s->json_object) {
        s->grammar = cli_grammar_text(command, model, s->schema_text ? s->schema_text : s->grammar_text,
                                      s->schema_text != NULL);
        return s->grammar != NULL;
    }
    memset(&p, 0, sizeof p);
    p.json = 1;
    p.root = "object";
    if (infer_grammar_create(&s->grammar, model, &p, &err) == INFER_OK) return 1;
    cli_fail(command, "%s", err.message);
    return 0;
}

infer_sampler *cli_sampler_try(const char *command, infer_model *model, const cli_sampling *s, uint64_t seed, infer_error *err) {
    infer_sampler *sampler = NULL;
    chain c;
    int ok;
    memset(&c, 0, sizeof c);
    memset(err, 0, sizeof *err);
    c.command = command;
    c.err = err;
    c.model = model;
    ok = !anything_given(s);
    if (!ok) {
        ok = add_biases(&c, s);
        if (ok && s->grammar) { /* after biases, before what cuts */
            ok = add_stage(&c, INFER_STAGE_GRAMMAR);
            if (ok) c.stages[c.n - 1].grammar = s->grammar;
        }
        ok = ok && (s->order ? add_named(&c, s->order) : add_usual(&c, s));
        ok = ok && add_adaptive(&c, s) && set_figures(&c, s);
    }
    if (ok) infer_sampler_create(&sampler, model, anything_given(s) ? c.stages : NULL, c.n, seed, err);
    free(c.biases);
    free(c.breakers);
    return sampler;
}

infer_sampler *cli_sampler(const char *command, infer_model *model, const cli_sampling *s, uint64_t seed) {
    infer_error err;
    infer_sampler *sampler = cli_sampler_try(command, model, s, seed, &err);
    if (sampler == NULL && err.message[0]) cli_fail(command, "%s", err.message);
    return sampler;
}

/* Is the option's name, or a spelling of it, this one with _ for -? */
static int is_called(const char *names, const char *name) {
    const char *s;
    int i, k, n;
    for (i = 0; (s = cli_spelling(names, i, &n)) != NULL; i++) {
        if ((size_t)n != strlen(name) + 2) continue;
        for (k = 2; k < n && (s[k] == '-' ? '_' : s[k]) == name[k - 2]; k++) {}
        if (k == n) return 1;
    }
    return 0;
}

int cli_sampling_set(cli_sampling *s, const char *name, double value) {
    int i;
    for (i = 0; i < N_FIGURES; i++) {
        if (!is_called(FIGURES[i].name, name)) continue;
        if (!(value >= -1e9 && value <= 1e9)) return 0;
        if (FIGURES[i].whole && (value != floor(value) || value < FIGURES[i].lo)) return 0;
        s->value[i] = value;
        s->whole[i] = (int64_t)value;
        return 1;
    }
    return -1;
}

int cli_sampling_greedy(const cli_sampling *s) {
    double value;
    int i, zero = 0;
    for (i = 0; i < N_FIGURES; i++) {
        if (!given(s, i, &value)) continue;
        if (FIGURES[i].kind == INFER_STAGE_DYNAMIC_TEMPERATURE && FIGURES[i].index == 0) zero = value < 1e-4 && value >= 0;
        else if (FIGURES[i].kind == INFER_STAGE_PENALTY || FIGURES[i].kind == INFER_STAGE_DRY || FIGURES[i].kind == INFER_STAGE_XTC ||
                 FIGURES[i].kind == INFER_STAGE_ADAPTIVE_P || FIGURES[i].kind == INFER_STAGE_DYNAMIC_TEMPERATURE) return 0;
    }
    return zero && s->mirostat <= 0 && s->biases.n == 0 && !s->ignore_eos && !s->order && !s->grammar;
}
