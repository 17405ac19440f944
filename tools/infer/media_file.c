/* media_file.c: `infer media`, what a projector makes of pictures and sounds: embeddings, and the tensors that its encoder
 * reads. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* A tensor, or embeddings: n rows of width values. */
typedef struct table {
    float *values;
    int32_t n, width, number, frame, frames;
} table;

typedef struct job {
    table *tensors;
    int n, cap, sound, base; /* base: embeddings of the media before this one */
    int failed;
} job;

static void keep(void *user, int32_t embedding, int32_t frame, const float *values, int32_t width, int32_t height) {
    job *j = (job *)user;
    const size_t cols = (size_t)width * (j->sound ? 1 : 3), n = cols * (size_t)height;
    table *t;
    if (j->n == j->cap) {
        t = cli_grow("media", j->tensors, (size_t)j->cap * 2 + 16, sizeof *t);
        if (t == NULL) {
            j->failed = 1;
            return;
        }
        j->tensors = t;
        j->cap = j->cap * 2 + 16;
    }
    t = &j->tensors[j->n];
    t->values = cli_alloc("media", n, sizeof *t->values);
    if (t->values == NULL) {
        j->failed = 1;
        return;
    }
    memcpy(t->values, values, n * sizeof *values);
    t->n = height;
    t->width = (int32_t)cols;
    t->number = j->base + embedding;
    t->frame = frame;
    t->frames = 1;
    if (frame > 0) t->frames = j->tensors[j->n - 1].frames = 2;
    j->n++;
}

/* OUT, OUT.1 of several, OUT.1.0 of the first frame of two: n, width, ids from 0 on, values. */
static int write_table(const char *out, const table *t, int many) {
    char name[PLATFORM_PATH], tail[40] = "";
    int32_t head[2], i;
    FILE *file;
    int ok, n = 0;
    if ((many || t->frames > 1) && strcmp(out, "-") == 0) return cli_fail("media", "stdout takes one table, and these are several: name a file") == CLI_DONE;
    if (many) n += snprintf(tail, sizeof tail, ".%ld", (long)t->number);
    if (t->frames > 1) snprintf(tail + n, sizeof tail - (size_t)n, ".%ld", (long)t->frame);
    if ((size_t)snprintf(name, sizeof name, "%s%s", out, tail) >= sizeof name) return cli_fail("media", "the name is too long: %s%s", out, tail) == CLI_DONE;
    file = cli_create("media", name);
    if (file == NULL) return 0;
    head[0] = t->n;
    head[1] = t->width;
    ok = cli_write_i32(file, head, 2);
    for (i = 0; ok && i < t->n; i++) ok = cli_write_i32(file, &i, 1);
    ok = ok && cli_write_f32(file, t->values, (size_t)t->n * (size_t)t->width);
    if (!cli_close("media", file, name)) ok = 0;
    if (!ok && strcmp(name, "-") != 0) platform_remove(name);
    return ok;
}

static int write_embeddings(const cli_media *media, const char *out, int many) {
    table t;
    int i, ok = 1;
    int32_t k;
    memset(&t, 0, sizeof t);
    for (i = 0; i < media->n && ok; i++)
        for (k = 0; ok && (t.values = (float *)(uintptr_t)infer_media_embeddings(media->items[i], k, &t.n, &t.width)) != NULL; k++) {
            ok = write_table(out, &t, many);
            t.number++;
        }
    return ok;
}

static int encode_all(infer_model *model, const cli_common *common, job *j, cli_media *media) {
    infer_encode_params params;
    int32_t n, width;
    memset(&params, 0, sizeof params);
    params.prepared = keep;
    params.prepared_user = j;
    media->items = cli_alloc("media", (size_t)common->media.n, sizeof *media->items);
    for (; media->items && media->n < common->media.n; media->n++) {
        const char *path = common->media.items[media->n];
        infer_media *one;
        int32_t k;
        j->sound = cli_media_is_sound(path);
        one = cli_media_encode("media", model, common, path, params);
        if (one == NULL || j->failed) {
            infer_media_free(one);
            return 0;
        }
        media->items[media->n] = one;
        for (k = 0; infer_media_embeddings(one, k, &n, &width) != NULL; k++) j->base++;
    }
    return media->items != NULL;
}

/* At the end: a failure is one line. */
static void print_sizes(const cli_media *media, const cli_common *common) {
    int32_t i, k, n, width;
    for (i = 0; i < media->n; i++)
        for (k = 0; infer_media_embeddings(media->items[i], k, &n, &width) != NULL; k++)
            fprintf(stderr, "%s: %ld embeddings of %ld values\n", common->media.items[i], (long)n, (long)width);
}

/* Is OUT no file that is read? */
static int may_write(const char *out, const char *projector, const cli_common *common) {
    return out == NULL || (cli_check_output("media", out, &projector, 1) && cli_check_output("media", out, common->media.items, (size_t)common->media.n));
}

int cmd_media(int argc, char **argv) {
    const char *out = NULL, *pre = NULL, *args[1];
    const cli_option options[] = {
        {"--out", OPT_STRING, &out, "OUT", "embeddings, a row for each token; of several pictures, tiles or sounds OUT.0, OUT.1, ..", 0, 0},
        {"--pre", OPT_STRING, &pre, "OUT", "the tensor that the encoder reads, in the same way", 0, 0},
    };
    const cli_spec spec = {"media",
                           "PROJECTOR --image FILE",
                           "What a projector (an mmproj file) makes of pictures and sounds. OUT is little-endian: int32 n, int32 width,\n"
                           "n int32 from 0 on, n x width float32; with --pre rows of pixels (red, green, blue) or mel bins.\n",
                           options,
                           sizeof options / sizeof options[0],
                           TAKES_DEVICE | TAKES_COMPUTE | TAKES_MEDIA,
                           1,
                           1};
    cli_common common, its;
    infer_model *model;
    cli_media media;
    job j;
    int status, ok, i;
    if (!cli_parse(&spec, argc, argv, &common, args, &status)) return status;
    if (common.media.n == 0 || common.projector) return cli_usage_error("media", common.projector ? "the projector is the file before the options" : "--image FILE or --audio FILE is needed");
    if (out && pre && strcmp(out, pre) == 0) return cli_usage_error("media", "--out and --pre are the same file");
    if (!may_write(out, args[0], &common) || !may_write(pre, args[0], &common)) return CLI_USAGE;
    its = common;
    its.media.n = 0; /* it is the projector itself that is opened */
    memset(&j, 0, sizeof j);
    memset(&media, 0, sizeof media);
    model = cli_open("media", args[0], &its, 0);
    ok = model != NULL && encode_all(model, &common, &j, &media);
    if (ok && out) ok = write_embeddings(&media, out, j.base > 1);
    for (i = 0; i < j.n && ok && pre; i++) ok = write_table(pre, &j.tensors[i], j.base > 1);
    if (ok) print_sizes(&media, &common);
    for (i = 0; i < j.n; i++) free(j.tensors[i].values);
    free(j.tensors);
    cli_media_free(&media);
    cli_model_close(model);
    return ok ? CLI_DONE : CLI_FAILED;
}
