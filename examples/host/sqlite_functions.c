/* sqlite_functions.c: a model in SQL: generate(prompt, tokens), embed(text), similarity(vector, vector).
 *   cc -O2 examples/host/sqlite_functions.c -o sqlite_functions -lsqlite3 -lm -lpthread -ldl
 *   ./sqlite_functions model.gguf "SELECT generate('Once upon a time', 24)" */
#define INFER_IMPLEMENTATION
#include "../../infer.h"
#include <sqlite3.h>
#include <stdio.h>

static infer_model *model;
static infer_session *session; /* one: SQLite calls functions of a connection one at a time */

static int append(void *out, const char *text, size_t n) { return sqlite3_str_append(out, text, (int)n), sqlite3_str_errcode(out); }
static void generate(sqlite3_context *c, int n, sqlite3_value **v) {
    sqlite3_str *out = sqlite3_str_new(NULL);
    infer_generate_params p = { .text = append, .user = out, .max_tokens = n > 1 ? sqlite3_value_int(v[1]) : 64 };
    infer_result r = infer_session_rewind(session, 0);
    if (r == INFER_OK) r = infer_generate(session, NULL, n > 0 ? (const char *)sqlite3_value_text(v[0]) : NULL, &p, NULL);
    if (r < 0) sqlite3_result_error(c, infer_session_error(session)->message, -1);
    else sqlite3_result_text(c, sqlite3_str_value(out), sqlite3_str_length(out), SQLITE_TRANSIENT);
    sqlite3_free(sqlite3_str_finish(out));
}

static void embed(sqlite3_context *c, int n, sqlite3_value **v) { /* a blob of floats */
    const char *text = (const char *)sqlite3_value_text(v[0]);
    const int bytes = infer_embed_width(model, NULL) * (int)sizeof(float);
    float *out = sqlite3_malloc(bytes);
    infer_error err = { 0, "embed: out of memory" };
    if (out && !infer_embed(infer_session_get_context(session), &text, n, NULL, out, &err)) {
        sqlite3_result_blob(c, out, bytes, sqlite3_free);
    } else {
        sqlite3_result_error(c, err.message, -1);
        sqlite3_free(out);
    }
}

static void similarity(sqlite3_context *c, int n, sqlite3_value **v) { /* of vectors of length 1: their product */
    const float *a = sqlite3_value_blob(v[0]), *b = sqlite3_value_blob(v[1]);
    double sum = 0;
    if (!a || !b || sqlite3_value_bytes(v[0]) != sqlite3_value_bytes(v[1])) return; /* NULL */
    for (n = sqlite3_value_bytes(v[0]) / (int)sizeof(float); n > 0; n--) sum += (double)*a++ * *b++;
    sqlite3_result_double(c, sum);
}

static int row(void *user, int n, char **values, char **names) {
    for (int i = 0; i < n; i++) printf("%s%s", values[i] ? values[i] : "NULL", i + 1 < n ? "|" : "\n");
    return (void)user, (void)names, 0;
}

int main(int argc, char **argv) {
    infer_error err = { 0, "usage: sqlite_functions model.gguf SQL" };
    char *why = NULL;
    sqlite3 *db;
    if (argc != 3 || infer_model_open(&model, argv[1], NULL, &err) || infer_session_create(&session, model, NULL, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    if (sqlite3_open(":memory:", &db) || sqlite3_create_function(db, "generate", -1, SQLITE_UTF8, NULL, generate, NULL, NULL) ||
        sqlite3_create_function(db, "embed", 1, SQLITE_UTF8, NULL, embed, NULL, NULL) ||
        sqlite3_create_function(db, "similarity", 2, SQLITE_UTF8, NULL, similarity, NULL, NULL) || sqlite3_exec(db, argv[2], row, NULL, &why))
        fprintf(stderr, "%s\n", why ? why : sqlite3_errmsg(db));
    return sqlite3_close(db) || infer_session_destroy(session) || infer_model_close(model) || why != NULL;
}
