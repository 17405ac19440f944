/* list.c: `infer list`, the models that other programs have left on this machine. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 6 }; /* of folders: Hugging Face's hub needs 4, ollama's manifests 3 */

typedef struct lister {
    int json, n, failed;
    const char *place;         /* whose folder it is */
    char path[PLATFORM_PATH];  /* the folder that is read */
    char blobs[PLATFORM_PATH]; /* ollama: where its files are */
    size_t root;               /* bytes of path before the names that are shown */
    int depth, ollama;
} lister;

static void quiet(void *user, int level, const char *message) {
    (void)user;
    (void)level;
    (void)message;
}

/* A row: what the model is called, its file, and what is in it. */
static void print_file(lister *l, const char *name, const char *path, uint64_t bytes) {
    infer_model_params params;
    infer_model_info info;
    infer_model *model = NULL;
    infer_error err;
    char size[32];
    const char *arch = "", *type = "", *why = "";
    memset(&params, 0, sizeof params);
    memset(&info, 0, sizeof info);
    params.vocab_only = params.allow_unknown = params.allow_default_pre = 1;
    params.log = quiet;
    if (infer_model_open(&model, path, &params, &err) != INFER_OK) {
        why = err.message;
    } else if (infer_model_get_info(model, &info) == INFER_OK) {
        arch = info.arch;
        type = info.quant;
    }
    if (l->json) {
        printf("%s{\"name\": ", l->n ? ",\n " : "[");
        json_text(stdout, name);
        printf(", \"path\": ");
        json_text(stdout, path);
        printf(", \"from\": ");
        json_text(stdout, l->place);
        printf(", \"bytes\": %.0f, \"arch\": ", (double)bytes);
        json_text(stdout, model ? arch : NULL);
        printf(", \"type\": ");
        json_text(stdout, model ? type : NULL);
        if (!model) {
            printf(", \"error\": ");
            json_text(stdout, why);
        }
        printf("}");
    } else {
        if (l->n == 0) printf("%-44s %9s  %-14s %-8s %s\n", "NAME", "SIZE", "ARCHITECTURE", "TYPE", "FILE");
        printf("%-44s %9s  %-14s %-8s %s\n", name, cli_bytes_text((double)bytes, size), model ? arch : "unreadable", type, path);
    }
    l->n++;
    infer_model_close(model);
}

/* Is it a later part of a split file, "-00002-of-00003.gguf"? Its first part stands for all. */
static int is_later_part(const char *name) {
    const char *of = strstr(name, "-of-");
    return of && of - name >= 6 && of[-6] == '-' && strncmp(of - 5, "00001", 5) != 0 && strlen(of) == 14;
}

/* Puts /name after the path; 0 when that is too long. */
static int enter(char *path, const char *name) {
    size_t n = strlen(path);
    return (size_t)snprintf(path + n, PLATFORM_PATH - n, "/%s", name) < PLATFORM_PATH - n;
}

/* ollama's manifest at l->path: the layer that is the model names its blob by digest. */
static void print_manifest(lister *l) {
    static const char HUB[] = "registry.ollama.ai/", LIBRARY[] = "library/";
    infer_json *document = NULL;
    infer_error err;
    const infer_json *layers;
    char name[PLATFORM_PATH], *colon, path[PLATFORM_PATH], *data;
    const char *shown = l->path + l->root;
    size_t n, i;
    data = cli_read_file("list", l->path, &n);
    if (data == NULL) return;
    if (infer_json_parse(&document, data, n, NULL, &err) != INFER_OK) cli_fail("list", "%s: %s", l->path, err.message);
    if (strncmp(shown, HUB, sizeof HUB - 1) == 0) shown += sizeof HUB - 1;
    if (strncmp(shown, LIBRARY, sizeof LIBRARY - 1) == 0) shown += sizeof LIBRARY - 1;
    snprintf(name, sizeof name, "%s", shown);
    colon = strrchr(name, '/');
    if (colon) *colon = ':';
    layers = document ? infer_json_get(document, "layers") : NULL;
    for (i = 0; layers && i < infer_json_count(layers); i++) {
        const infer_json *layer = infer_json_at(layers, i);
        const char *kind = infer_json_string(infer_json_get(layer, "mediaType"), &n);
        const char *digest = infer_json_string(infer_json_get(layer, "digest"), &n);
        if (kind == NULL || digest == NULL || !cli_ends_with(kind, ".image.model") || strspn(digest, "sha256:0123456789abcdef") != n) continue;
        snprintf(path, sizeof path, "%s", l->blobs);
        if (!enter(path, digest)) continue;
        colon = strchr(path + strlen(l->blobs), ':');
        if (colon) *colon = '-';
        print_file(l, name, path, (uint64_t)infer_json_int(infer_json_get(layer, "size")));
    }
    infer_json_free(document);
    free(data);
}

static int each(void *user, const char *name, int is_folder, uint64_t bytes) {
    lister *l = user;
    size_t n = strlen(l->path);
    if (!enter(l->path, name)) {
        l->path[n] = 0;
        return 1;
    }
    if (is_folder) {
        if (l->depth > 0) {
            l->depth--;
            platform_list(l->path, each, l);
            l->depth++;
        }
    } else if (l->ollama) {
        print_manifest(l);
    } else if (cli_ends_with(name, ".gguf") && !is_later_part(name)) {
        print_file(l, name, l->path, bytes);
    }
    l->path[n] = 0;
    return 1;
}

/* The GGUF files below base/under; base NULL or "" = there is no such place. */
static void scan(lister *l, const char *place, const char *base, const char *under, int depth) {
    if (base == NULL || *base == 0) return;
    l->place = place;
    l->depth = depth;
    if ((size_t)snprintf(l->path, sizeof l->path, "%s%s", base, under) >= sizeof l->path) return;
    l->root = strlen(l->path) + 1;
    platform_list(l->path, each, l);
}

static void scan_ollama(lister *l, const char *base, const char *under) {
    if (base == NULL || *base == 0 || (size_t)snprintf(l->blobs, sizeof l->blobs, "%s%s/blobs", base, under) >= sizeof l->blobs) return;
    l->ollama = 1;
    scan(l, "ollama", l->blobs, "/../manifests", DEPTH);
    l->ollama = 0;
}

static const char *set(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void scan_all(lister *l) {
    const char *home = set("HOME") ? set("HOME") : set("USERPROFILE"), *cache = set("XDG_CACHE_HOME");
    scan(l, "current folder", ".", "", 0);
    if (set("LLAMA_CACHE")) scan(l, "llama.cpp", set("LLAMA_CACHE"), "", DEPTH);
    else {
        scan(l, "llama.cpp", cache ? cache : home, cache ? "/llama.cpp" : "/.cache/llama.cpp", DEPTH);
        scan(l, "llama.cpp", home, "/Library/Caches/llama.cpp", DEPTH);
        scan(l, "llama.cpp", set("LOCALAPPDATA"), "/llama.cpp", DEPTH);
    }
    if (set("HF_HUB_CACHE")) scan(l, "Hugging Face", set("HF_HUB_CACHE"), "", DEPTH);
    else if (set("HUGGINGFACE_HUB_CACHE")) scan(l, "Hugging Face", set("HUGGINGFACE_HUB_CACHE"), "", DEPTH);
    else if (set("HF_HOME")) scan(l, "Hugging Face", set("HF_HOME"), "/hub", DEPTH);
    else scan(l, "Hugging Face", cache ? cache : home, cache ? "/huggingface/hub" : "/.cache/huggingface/hub", DEPTH);
    scan(l, "LM Studio", home, "/.lmstudio/models", DEPTH);
    scan(l, "LM Studio", home, "/.cache/lm-studio/models", DEPTH);
    if (set("OLLAMA_MODELS")) scan_ollama(l, set("OLLAMA_MODELS"), "");
    else {
        scan_ollama(l, home, "/.ollama/models");
        scan_ollama(l, "/usr/share/ollama", "/.ollama/models");
    }
}

int cmd_list(int argc, char **argv) {
    const cli_spec spec = {"list",
                           "",
                           "List the GGUF models on this machine: in the current folder and in the folders of llama.cpp,\n"
                           "Hugging Face, LM Studio and ollama (as LLAMA_CACHE, HF_HUB_CACHE, HF_HOME and OLLAMA_MODELS\n"
                           "say, where they are set). Any FILE of the list can be given to the other commands.\n",
                           NULL,
                           0,
                           TAKES_JSON,
                           0,
                           0};
    cli_common common;
    lister *l;
    int status;
    if (!cli_parse(&spec, argc, argv, &common, NULL, &status)) return status;
    l = cli_alloc("list", 1, sizeof *l);
    if (l == NULL) return CLI_FAILED;
    memset(l, 0, sizeof *l);
    l->json = common.json;
    scan_all(l);
    if (l->json) printf(l->n ? "]\n" : "[]\n");
    else if (l->n == 0) fprintf(stderr, "infer list: no GGUF files found (infer list --help names the folders)\n");
    free(l);
    return CLI_DONE;
}
