/* unload.c (host: unloading): the library as a shared one, loaded, used and unloaded many times: threads, files, mappings and memory are back where
 * they were. Usage: unload LIBRARY MODEL */
#include "../../infer.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int entries(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}
static int lines(const char *path) {
    FILE *f = fopen(path, "r");
    int c, n = 0;
    while (f && (c = fgetc(f)) != EOF) n += c == '\n';
    if (f) fclose(f);
    return n;
}
static long pages(void) { /* resident */
    long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &resident) != 2) resident = -1;
    if (f) fclose(f);
    return resident;
}

/* Data pointers of dlsym become functions. */
#define LOAD(name) (*(void **)&name = dlsym(lib, #name))
static int life(const char *library, const char *path, char *text) {
    infer_result (*infer_model_open_v)(infer_model **, const char *, const infer_model_params *, infer_error *, uint32_t) = NULL;
    infer_result (*infer_session_create)(infer_session **, infer_model *, const infer_session_params *, infer_error *) = NULL;
    infer_result (*infer_generate)(infer_session *, infer_sampler *, const char *, const infer_generate_params *, infer_generate_info *) = NULL;
    infer_result (*infer_session_destroy)(infer_session *) = NULL;
    infer_result (*infer_model_close)(infer_model *) = NULL;
    infer_token *(*infer_session_tokens)(const infer_session *) = NULL;
    infer_result (*infer_queue_create)(infer_queue **, infer_model *, const infer_queue_params *, infer_error *) = NULL;
    infer_result (*infer_queue_submit)(infer_queue *, const infer_request_params *, infer_request **, infer_error *) = NULL;
    infer_result (*infer_queue_destroy)(infer_queue *) = NULL;
    void (*infer_request_close)(infer_request *) = NULL;
    infer_queue_params qp;
    infer_request_params rp;
    infer_queue *q = NULL;
    infer_request *r = NULL;
    infer_model_params mp;
    infer_session_params sp;
    infer_generate_params gp;
    infer_model *m = NULL;
    infer_session *s = NULL;
    infer_error e;
    int ok = 0;
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!lib) return fprintf(stderr, "%s\n", dlerror()), 0;
    memset(&mp, 0, sizeof mp);
    memset(&sp, 0, sizeof sp);
    memset(&gp, 0, sizeof gp);
    memset(&qp, 0, sizeof qp);
    memset(&rp, 0, sizeof rp);
    qp.thread = 1;
    qp.positions = 64;
    qp.context.cells = 128;
    rp.prompt = "One day";
    mp.backend = INFER_CPU;
    sp.context = 64;
    sp.own.threads = 3;
    gp.max_tokens = 8;
    if (LOAD(infer_model_open_v) && LOAD(infer_session_create) && LOAD(infer_generate) && LOAD(infer_session_destroy) &&
        LOAD(infer_model_close) && LOAD(infer_session_tokens) && infer_model_open_v(&m, path, &mp, &e, INFER_VERSION) == INFER_OK &&
        infer_session_create(&s, m, &sp, &e) == INFER_OK && infer_generate(s, NULL, "Once", &gp, NULL) == INFER_OK) {
        memcpy(text, infer_session_tokens(s), 8 * sizeof(infer_token));
        ok = 1;
    }
    if (!LOAD(infer_queue_create) || !LOAD(infer_queue_submit) || !LOAD(infer_queue_destroy) || !LOAD(infer_request_close) ||
        infer_queue_create(&q, m, &qp, &e) || infer_queue_submit(q, &rp, &r, &e)) return 0;
    if (infer_model_close(m) || infer_queue_destroy(q)) ok = 0; /* what needs them keeps them until it is closed */
    infer_request_close(r);
    if (s) infer_session_destroy(s);
    return dlclose(lib) == 0 && ok;
}

int main(int argc, char **argv) {
    char first[64], text[64];
    int i, threads = 0, files = 0, maps = 0;
    long resident = 0;
    if (argc < 3) return 2;
    for (i = 0; i < 50; i++) {
        if (!life(argv[1], argv[2], i ? text : first)) return fprintf(stderr, "life %d failed\n", i), 1;
        if (i && memcmp(first, text, 8 * sizeof(infer_token)) != 0) return fprintf(stderr, "life %d says something else\n", i), 1;
        if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) return fprintf(stderr, "life %d left the library loaded\n", i), 1;
        if (i > 3) continue; /* the C library's own arenas and stacks are there by then */
        threads = entries("/proc/self/task");
        files = entries("/proc/self/fd");
        maps = lines("/proc/self/maps");
        resident = pages();
    }
    if (entries("/proc/self/task") > threads) return fprintf(stderr, "threads: %d, then %d\n", threads, entries("/proc/self/task")), 1;
    if (entries("/proc/self/fd") > files) return fprintf(stderr, "files: %d, then %d\n", files, entries("/proc/self/fd")), 1;
    if (lines("/proc/self/maps") > maps + 4) return fprintf(stderr, "mappings: %d, then %d\n", maps, lines("/proc/self/maps")), 1;
    if (pages() > resident + 512) return fprintf(stderr, "pages: %ld, then %ld\n", resident, pages()), 1;
    return 0;
}
