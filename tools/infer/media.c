/* media.c: pictures and sounds of the command line: the projector's file, reading what files hold, encoding it, and
 * prompts with markers. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* ---- the projector -------------------------------------------------------------------------- */

typedef struct search {
    char names[600]; /* with commas between */
    char found[PLATFORM_PATH];
    int n;
} search;

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Does s begin with the word, of small letters? */
static int begins(const char *s, const char *word) {
    while (*word && lower(*s) == *word) s++, word++;
    return *word == 0;
}

const char *cli_projector_word(const char *name) {
    const size_t n = strlen(name);
    if (n < 5 || !begins(name + n - 5, ".gguf")) return NULL;
    while (*name && !begins(name, "mmproj")) name++;
    return *name ? name : NULL;
}

static int each_entry(void *user, const char *name, int is_folder, uint64_t bytes) {
    search *s = (search *)user;
    (void)bytes;
    if (is_folder || cli_projector_word(name) == NULL) return 1;
    snprintf(s->names + strlen(s->names), sizeof s->names - strlen(s->names), "%s%s", s->n++ ? ", " : "", name);
    snprintf(s->found, sizeof s->found, "%s", name);
    return 1;
}

static int beside(const char *model, search *s, char *out, size_t cap) {
    const char *base = cli_base_name(model);
    char folder[PLATFORM_PATH];
    int n;
    memset(s, 0, sizeof *s);
    if (platform_path_kind(model) == PLATFORM_FOLDER) n = snprintf(folder, sizeof folder, "%s/", model);
    else n = snprintf(folder, sizeof folder, "%.*s", (int)(base - model), model);
    if (n >= 0 && n < (int)sizeof folder) platform_list(n ? folder : ".", each_entry, s);
    return s->n > 1 || (s->n == 1 && snprintf(out, cap, "%s%s", folder, s->found) >= (int)cap) ? 2 : s->n;
}

int cli_projectors_beside(const char *model, char *out, size_t cap) {
    search s;
    return beside(model, &s, out, cap);
}

int cli_projector_find(const char *command, const char *model, char *out, size_t cap) {
    search s;
    if (beside(model, &s, out, cap) == 1) return 1;
    if (s.n > 1) cli_fail(command, "several projectors are beside the model: choose one with --projector FILE: %s", s.names);
    else cli_fail(command, "pictures and sound need the model's projector: --projector FILE (no *mmproj*.gguf is beside %s)", model);
    return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

int cli_media_is_sound(const char *path) {
    static const char *const BEGINNINGS[] = {"RIFF", "RF64", "BW64"};
    FILE *file = platform_fopen(path, "rb");
    char head[12];
    size_t n = file ? fread(head, 1, sizeof head, file) : 0, i;
    if (file) fclose(file);
    for (i = 0; n == sizeof head && i < sizeof BEGINNINGS / sizeof BEGINNINGS[0]; i++)
        if (memcmp(head, BEGINNINGS[i], 4) == 0 && memcmp(head + 8, "WAVE", 4) == 0) return 1;
    return 0;
}

static int show(void *user, float done) { return cli_progress_show(user, done) || cli_run_interrupted(); }

void cli_encode_params(const cli_common *common, infer_encode_params *out) {
    out->min_tokens = (int32_t)common->image_min;
    out->max_tokens = (int32_t)common->image_max;
    out->threads = (int32_t)common->threads;
}

infer_media *cli_media_open(const char *command, infer_model *model, const cli_common *common, const char *path) {
    infer_encode_params params;
    memset(&params, 0, sizeof params);
    return cli_media_encode(command, model, common, path, params);
}

infer_media *cli_media_encode(const char *command, infer_model *model, const cli_common *common, const char *path,
                              infer_encode_params params) {
    infer_image image;
    infer_sound sound;
    infer_media *out = NULL;
    infer_error err;
    infer_result r;
    cli_progress bar;
    const int hears = cli_media_is_sound(path);
    memset(&image, 0, sizeof image);
    memset(&sound, 0, sizeof sound);
    cli_encode_params(common, &params);
    params.progress = show;
    params.progress_user = &bar;
    cli_progress_begin(&bar, hears ? "sound" : "picture");
    r = hears ? infer_sound_open(&sound, path, NULL, &err) : infer_image_open(&image, path, NULL, &err);
    if (r == INFER_OK)
        r = hears ? infer_media_encode_sound(&out, model, &sound, &params, &err)
                  : infer_media_encode(&out, model, &image, 1, &params, &err);
    cli_progress_end(&bar);
    infer_image_free(&image);
    infer_sound_free(&sound);
    if (r != INFER_OK && !(r == INFER_CANCELLED && cli_run_interrupted())) {
        if (strstr(err.message, path)) cli_fail(command, "%s", err.message); /* it names the file itself */
        else cli_fail(command, "%s: %s", path, err.message);
    }
    return out;
}

int cli_media_open_all(const char *command, infer_model *model, const cli_common *common, cli_media *out) {
    const int n = common->media.n;
    memset(out, 0, sizeof *out);
    if (n == 0) return 1;
    out->items = cli_alloc(command, (size_t)n, sizeof *out->items);
    while (out->items && out->n < n && (out->items[out->n] = cli_media_open(command, model, common, common->media.items[out->n])) != NULL) out->n++;
    return out->n == n;
}

void cli_media_free(cli_media *media) {
    while (media->n > 0) infer_media_free(media->items[--media->n]);
    free(media->items);
    memset(media, 0, sizeof *media);
}

/* ---- prompts -------------------------------------------------------------------------------- */

char *cli_media_prompt(const char *command, char *text, size_t *n, int n_media) {
    const size_t more = (size_t)n_media * (sizeof INFER_MEDIA_MARKER - 1);
    char *with;
    int i;
    if (text == NULL || n_media == 0 || strstr(text, INFER_MEDIA_MARKER)) return text;
    with = cli_alloc(command, *n + more + 1, 1);
    if (with) {
        for (i = 0; i < n_media; i++) memcpy(with + (size_t)i * (sizeof INFER_MEDIA_MARKER - 1), INFER_MEDIA_MARKER, sizeof INFER_MEDIA_MARKER - 1);
        memcpy(with + more, text, *n + 1);
        *n += more;
    }
    free(text);
    return with;
}

int cli_media_tokenize(const char *command, const infer_model *model, const char *text, size_t n, int32_t flags,
                       const cli_media *media, infer_token **ids, size_t *count) {
    infer_error err;
    size_t cap = 0;
    if (media->n == 0) return cli_tokenize(command, model, text, n, flags, ids, count);
    *ids = NULL;
    for (;;) { /* the second round has room */
        if (infer_media_tokens(model, text, n, flags, media->items, media->n, *ids, cap, count, &err) != INFER_OK) {
            cli_fail(command, "%s", err.message);
            break;
        }
        if (*ids) return 1;
        cap = *count;
        if ((*ids = cli_alloc(command, cap + 1, sizeof **ids)) == NULL) break;
    }
    free(*ids);
    *ids = NULL;
    return 0;
}
