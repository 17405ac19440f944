/* search.c: find the file that answers a question. The index is one file: for each text its vector, then its name.
 *
 *   cc -O2 examples/search.c -o search -lm -lpthread
 *   ./search embedder.gguf notes.index notes/             reads every file of the folder
 *   ./search embedder.gguf notes.index -q "when is the rent due?"
 *
 * Models that want other words before a question than before a text get them with params.prefix. */
#define INFER_IMPLEMENTATION
#include "../infer.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 256, BEST = 5 };

static infer_context *context;
static infer_error err;

/* The whole file, to free; NULL when it cannot be read. */
static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long n = 0;
    if (f && fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0) text = malloc((size_t)n + 1);
    if (text) {
        rewind(f);
        text[fread(text, 1, (size_t)n, f)] = 0;
    }
    if (f) fclose(f);
    return text;
}

typedef struct index_file { FILE *f; char (*names)[NAME]; int32_t skipped; } index_file;

/* infer_embed calls this with every text's vector as soon as it has it: nothing is kept in memory. */
static int write_vector(void *user, int32_t text, const float *v, int32_t rows, int32_t width, const infer_error *error) {
    index_file *x = user;
    if (rows == 0) { /* the others go on */
        fprintf(stderr, "%s: %s\n", x->names[text], error->message);
        x->skipped++;
        return 0;
    }
    return fwrite(v, sizeof *v, (size_t)width, x->f) != (size_t)width || fwrite(x->names[text], NAME, 1, x->f) != 1;
}

static int make_index(const char *out, const char *folder) {
    infer_embed_params params = { .long_texts = INFER_LONG_WINDOWS };
    index_file x = { 0 };
    char **texts = NULL, path[4096];
    infer_result *results = NULL, r = INFER_ERR_MEMORY;
    DIR *d = opendir(folder);
    struct dirent *e;
    int32_t n = 0, i;
    while (d && (e = readdir(d)) != NULL) {
        char **more = realloc(texts, ((size_t)n + 1) * sizeof *texts);
        char(*names)[NAME] = realloc(x.names, ((size_t)n + 1) * sizeof *names);
        if (more) texts = more;
        if (names) x.names = names;
        if (!more || !names || e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        memset(x.names[n], 0, NAME);
        snprintf(x.names[n], NAME, "%s", e->d_name);
        texts[n] = read_text(path);
        n += texts[n] != NULL; /* folders are none */
    }
    if (d) closedir(d);
    results = calloc((size_t)n + 1, sizeof *results); /* with it, a text that fails does not end the call */
    params.results = results;
    params.each = write_vector;
    params.user = &x;
    x.f = d && n && results ? fopen(out, "wb") : NULL;
    if (x.f) r = infer_embed(context, (const char *const *)texts, n, &params, NULL, &err);
    if (x.f && fclose(x.f) != 0) r = INFER_ERR_IO;
    if (x.f) printf("%d of %d files\n", (int)(n - x.skipped), (int)n);
    else snprintf(err.message, sizeof err.message, "%s has no files, or %s cannot be written", folder, out);
    for (i = 0; i < n; i++) free(texts[i]);
    free(texts);
    free(x.names);
    free(results);
    return r == INFER_OK;
}

static int answer(const char *index, const char *query, int32_t width) {
    struct { float score; char name[NAME]; } best[BEST + 1] = { { 0 } };
    float *v = malloc(2 * (size_t)width * sizeof *v), *q = v ? v + width : NULL;
    FILE *f = fopen(index, "rb");
    char name[NAME];
    int i, k, n = 0, ok = f && v && infer_embed(context, &query, 1, NULL, q, &err) == INFER_OK;
    if (!f) snprintf(err.message, sizeof err.message, "cannot read %s", index);
    while (ok && fread(v, sizeof *v, (size_t)width, f) == (size_t)width && fread(name, NAME, 1, f) == 1) {
        float dot = 0; /* both have length 1: this is the cosine */
        for (k = 0; k < width; k++) dot += v[k] * q[k];
        for (i = n; i > 0 && best[i - 1].score < dot; i--) best[i] = best[i - 1];
        best[i].score = dot;
        memcpy(best[i].name, name, NAME);
        n += n < BEST;
    }
    for (i = 0; ok && i < n; i++) printf("%.3f  %.255s\n", best[i].score, best[i].name);
    if (f) fclose(f);
    free(v);
    return ok;
}

int main(int argc, char **argv) {
    infer_model *model = NULL;
    int ask = argc == 5 && strcmp(argv[3], "-q") == 0, ok = 0;
    snprintf(err.message, sizeof err.message, "usage: search model.gguf INDEX FOLDER | -q QUERY");
    if ((argc == 4 || ask) && !infer_model_open(&model, argv[1], NULL, &err) && !infer_context_create(&context, model, NULL, &err))
        ok = ask ? answer(argv[2], argv[4], infer_embed_width(model, NULL)) : make_index(argv[2], argv[3]);
    if (!ok) fprintf(stderr, "%s\n", err.message);
    infer_context_destroy(context);
    infer_model_close(model);
    return !ok;
}
