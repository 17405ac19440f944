/* json_output.c: a reply that is JSON of a given form, whatever the model would rather say.
 *
 *   cc -O2 examples/json_output.c -o json_output -lm -lpthread -ldl && ./json_output model.gguf "A person, as JSON:"
 *
 * The schema becomes a grammar, the first stage of a sampler: it drops the tokens that would leave it. Generation stops by
 * itself when the text is complete and nothing can follow. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <stdio.h>

static const char SCHEMA[] =
    "{\"type\": \"object\", \"properties\": {"
    "  \"name\": {\"type\": \"string\", \"pattern\": \"^[A-Z][a-z ]{1,19}$\"},"
    "  \"age\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 99},"
    "  \"likes\": {\"type\": \"array\", \"items\": {\"enum\": [\"cats\", \"books\", \"rain\"]}, \"minItems\": 1, \"maxItems\": 3}"
    "}, \"required\": [\"name\", \"age\", \"likes\"], \"additionalProperties\": false}";

static int show(void *user, const char *text, size_t n) {
    (void)user;
    fwrite(text, 1, n, stdout);
    return fflush(stdout);
}

int main(int argc, char **argv) {
    infer_grammar_params rules = { .schema = SCHEMA };
    infer_stage stages[2] = { { .kind = INFER_STAGE_GRAMMAR }, { .kind = INFER_STAGE_GREEDY } };
    infer_generate_params params = { .max_tokens = 200, .text = show };
    infer_generate_info info = { 0 };
    infer_model *model = NULL;
    infer_grammar *grammar = NULL;
    infer_sampler *sampler = NULL;
    infer_session *session = NULL;
    infer_error err = { 0, "" };
    int failed = 1;

    if (argc != 3) {
        fprintf(stderr, "usage: json_output model.gguf PROMPT\n");
        return 2;
    }
    if (infer_model_open(&model, argv[1], NULL, &err) || infer_grammar_create(&grammar, model, &rules, &err)) goto done;
    stages[0].grammar = grammar;
    if (infer_sampler_create(&sampler, model, stages, 2, 1, &err) || infer_session_create(&session, model, NULL, &err))
        goto done;
    if (infer_generate(session, sampler, argv[2], &params, &info)) {
        err = *infer_session_error(session);
        goto done;
    }
    printf("\n");
    if (info.stop_reason != INFER_STOP_GRAMMAR) fprintf(stderr, "(cut off: it is not complete)\n");
    failed = 0;
done:
    if (failed) fprintf(stderr, "%s\n", err.message);
    infer_session_destroy(session);
    infer_sampler_destroy(sampler); /* before the grammar that it uses */
    infer_grammar_destroy(grammar);
    infer_model_close(model);
    return failed;
}
