/* attach.c: pictures and sounds of a conversation. Its messages name their files, as parts {"type": "image", "path": FILE};
 * what the files hold is encoded once, and kept while a message names it: the file may change meanwhile. */
#include "conversation.h"

#include <stdlib.h>
#include <string.h>

static attachment *find(const attachments *a, const char *path) {
    int i;
    for (i = 0; i < a->n; i++)
        if (strcmp(a->files[i].path, path) == 0) return &a->files[i];
    return NULL;
}

/* The file's picture or sound, opened when it is new. NULL after saying why. */
static attachment *open_file(attachments *a, const char *path) {
    attachment *f = find(a, path), *grown;
    infer_media *media;
    if (f) return f;
    grown = cli_grow("chat", a->files, (size_t)a->n + 1, sizeof *grown);
    if (grown == NULL) return NULL;
    a->files = grown;
    if ((media = cli_media_open("chat", a->model, a->common, path)) == NULL) return NULL;
    f = &a->files[a->n];
    memset(f, 0, sizeof *f);
    f->media = media;
    if ((f->path = cli_alloc("chat", strlen(path) + 1, 1)) == NULL) {
        infer_media_free(media);
        return NULL;
    }
    strcpy(f->path, path);
    a->n++;
    return f;
}

int attach(attachments *a, const char *path) {
    const char **grown = cli_grow("chat", a->next, (size_t)a->n_next + 1, sizeof *grown);
    attachment *f;
    if (grown == NULL) return 0;
    a->next = grown;
    if ((f = open_file(a, path)) == NULL) return 0;
    a->next[a->n_next++] = f->path;
    return 1;
}

const char *attach_undo(attachments *a) { return a->n_next > 0 ? a->next[--a->n_next] : NULL; }

/* The path of a part that is a picture or sound; "" when it names no file, NULL for other parts. */
static const char *path_of(const infer_json *part) {
    static const char *const TYPES[] = {"image", "image_url", "input_image", "audio", "audio_url", "input_audio"};
    const char *type = infer_json_string(infer_json_get(part, "type"), NULL), *path;
    size_t i;
    for (i = 0; type && i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (strcmp(type, TYPES[i]) != 0) continue;
        path = infer_json_string(infer_json_get(part, "path"), NULL);
        return path ? path : "";
    }
    return NULL;
}

/* One more of the conversation. */
static int use(attachments *a, const char *path) {
    attachment *f = *path ? open_file(a, path)
                          : (cli_fail("chat", "a picture or sound of the conversation names no file: {\"type\": \"image\", \"path\": FILE}"), NULL);
    infer_media **grown = f ? cli_grow("chat", a->media, (size_t)a->n_media + 1, sizeof *grown) : NULL;
    if (grown == NULL) return 0;
    f->used = 1;
    a->media = grown;
    a->media[a->n_media++] = f->media;
    return 1;
}

/* Forget what is neither in the conversation nor attached for its next message. */
static void prune(attachments *a) {
    int i, k, n = 0;
    for (k = 0; k < a->n_next; k++) find(a, a->next[k])->used = 1;
    for (i = 0; i < a->n; i++) {
        if (a->files[i].used) a->files[n++] = a->files[i];
        else {
            infer_media_free(a->files[i].media);
            free(a->files[i].path);
        }
    }
    a->n = n;
}

int attach_gather(attachments *a, conversation *c) {
    infer_json *list = NULL;
    const infer_json *content;
    const char *text = conversation_close(c), *path;
    infer_error err;
    size_t i, k;
    int ok = text != NULL;
    a->n_media = 0;
    for (i = 0; i < (size_t)a->n; i++) a->files[i].used = 0;
    if (ok && infer_json_parse(&list, text, strlen(text), NULL, &err) != INFER_OK) ok = cli_fail("chat", "%s", err.message) == CLI_DONE;
    for (i = 0; ok && i < infer_json_count(list); i++) {
        content = infer_json_get(infer_json_at(list, i), "content");
        for (k = 0; ok && infer_json_kind(content) == INFER_JSON_ARRAY && k < infer_json_count(content); k++)
            if ((path = path_of(infer_json_at(content, k))) != NULL) ok = use(a, path);
    }
    infer_json_free(list);
    if (text) conversation_open(c);
    if (ok) prune(a);
    return ok;
}

void attach_free(attachments *a) {
    a->n_next = 0;
    while (a->n > 0) {
        infer_media_free(a->files[--a->n].media);
        free(a->files[a->n].path);
    }
    free(a->files);
    free((void *)a->next);
    free(a->media);
    memset(a, 0, sizeof *a);
}
