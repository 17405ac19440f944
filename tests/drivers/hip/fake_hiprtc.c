/* fake_hiprtc.c: the double's compiler: HIP text to a library for this computer, and that library as a "code object".
 *
 * A program goes through the preprocessor first. In what comes out only two things are not C++: memory of the group, a
 * static array with an attribute, which becomes a reference to memory of the group that runs (rewrite); and kernels, whose
 * names are collected, so that the library has a table of them (kernels). hip_host.h supplies the chip's builtins. The
 * libraries are kept in cache/ beside the double, by a hash of everything they are made of: an engine compiles the same
 * dozen of programs again and again.
 * Start: compile.
 */
#define _GNU_SOURCE
#include "fake_hip.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef FAKE_HIP_HERE
#error "say where this file lies: -DFAKE_HIP_HERE='\"/path/to/tests/drivers/hip\"'"
#endif
extern char **environ;

enum { RTC_INVALID_INPUT = 3, RTC_INVALID_PROGRAM = 4, RTC_INVALID_OPTION = 5, RTC_COMPILATION = 6 };
static const char MARK[8] = "FAKEHIP1";
typedef struct head { char mark[8], arch[24]; uint64_t size; } head; /* of a code object, then the library */

/* ---- growing texts -------------------------------------------------------------------------------------------------- */

typedef struct text { char *s; size_t n; } text;

static void add(text *t, const char *s, size_t n) {
    t->s = (char *)realloc(t->s, t->n + n + 1);
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}
static void say(text *t, const char *s) { add(t, s, strlen(s)); }

/* 1 when the file could be read. */
static int get(text *t, const char *path) {
    char part[65536];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    while ((n = fread(part, 1, sizeof part, f)) > 0) add(t, part, n);
    fclose(f);
    return 1;
}
static int put(const char *path, const char *s, size_t n) {
    FILE *f = fopen(path, "wb");
    int ok = f && fwrite(s, 1, n, f) == n;
    if (f && fclose(f) != 0) ok = 0;
    return ok;
}
static uint64_t hash(uint64_t h, const char *s, size_t n) {
    size_t i;
    for (i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    return h;
}

/* ---- HIP text to C++ -------------------------------------------------------------------------------------------------- */

static int is_word(char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "static __attribute__((shared)) T name[n];" becomes "T (&name)[n] = *(T (*)[n])hip_local(sizeof(T[n]));". Returns NULL,
 * or the place that is written in another way. */
static const char *rewrite(const char *in, text *out) {
    static const char from[] = "__attribute__((shared))";
    const char *at, *type, *name, *open, *end;
    while ((at = strstr(in, from)) != NULL) {
        const char *begin = at;
        while (begin > in && begin[-1] == ' ') begin--;
        if (begin - in < 6 || memcmp(begin - 6, "static", 6) != 0) return at;
        type = at + sizeof from - 1;
        type += strspn(type, " ");
        open = type + strcspn(type, "[;");
        if (*open != '[') return at;
        end = open + strcspn(open, ";");
        for (name = open; name > type && is_word(name[-1]); name--) {}
        if (*end != ';' || end[-1] != ']' || name == open || name == type) return at;
        add(out, in, (size_t)(begin - 6 - in));
        add(out, type, (size_t)(name - type));
        say(out, "(&");
        add(out, name, (size_t)(open - name));
        say(out, ")");
        add(out, open, (size_t)(end - open));
        say(out, " = *(");
        add(out, type, (size_t)(name - type));
        say(out, "(*)");
        add(out, open, (size_t)(end - open));
        say(out, ")hip_local(sizeof(");
        add(out, type, (size_t)(name - type));
        add(out, open, (size_t)(end - open));
        say(out, "));");
        in = end + 1;
    }
    say(out, in);
    return NULL;
}

/* The table of kernels: what is declared with "__attribute__((global" and "amdgpu_flat_work_group_size(n, n)", a void
 * function. */
static void kernels(const char *in, text *out) {
    const char *bounds, *open, *name;
    char line[300];
    say(out, "\nHIP_EXPORT const hip_kernel hip_kernels[] = {\n");
    while ((in = strstr(in, "__attribute__((global")) != NULL) {
        const char *before = strstr(in, "void ");
        if (!before) break;
        open = before + strcspn(before, "(");
        for (name = open; name > before && is_word(name[-1]); name--) {}
        bounds = strstr(in, "group_size(");
        snprintf(line, sizeof line, "HIP_KERNEL(%.*s, %d)\n", (int)(open - name), name,
                 bounds && bounds < before ? atoi(bounds + 11) : 1024);
        say(out, line);
        in = open;
    }
    say(out, "{nullptr, nullptr, nullptr, 0}};\n");
}

/* ---- calling the compiler -------------------------------------------------------------------------------------------- */

static const char *compiler(void) {
    const char *s = getenv("FAKE_HIP_CXX");
    return s && *s ? s : "clang++-19";
}

/* 1 when the command went well; what it says is added to log, for which path is written. */
static int call(const char *const *command, const char *path, text *log) {
    posix_spawn_file_actions_t files;
    pid_t child;
    int status = -1, r;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    r = posix_spawnp(&child, command[0], &files, NULL, (char *const *)command, environ);
    posix_spawn_file_actions_destroy(&files);
    if (r != 0) {
        say(log, "fake hip: error: cannot run ");
        say(log, command[0]);
        return 0;
    }
    while (waitpid(child, &status, 0) < 0) {}
    get(log, path);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The place of the libraries that were made before. */
static void cache_folder(char *to, size_t cap) {
    Dl_info info;
    const char *end = dladdr((void *)cache_folder, &info) ? strrchr(info.dli_fname, '/') : NULL;
    snprintf(to, cap, "%.*s/cache", end ? (int)(end - info.dli_fname) : 1, end ? info.dli_fname : ".");
    mkdir(to, 0777);
}

/* The library of a program into `code`, or what is wrong into log. */
static int compile(const char *name, const char *source, const char *contract, text *code, text *log) {
    char wave[64], chip[64], cache[700], kept[800], folder[800], in[900], ii[900], cpp[900], so[900], said[900];
    const char *first[] = {compiler(), "-E", "-x", "c++", "-std=c++14", "-D__HIP__=1", "-D__HIPCC_RTC__=1",
                           "-D__HIP_DEVICE_COMPILE__=1", "-D__AMDGCN__=1", wave, chip, in, "-o", ii, NULL};
    const char *second[] = {compiler(), "-x", "c++", "-std=c++14", "-O2", "-march=native", "-fno-math-errno", contract, "-w",
                            "-shared", "-fPIC", "-fvisibility=hidden", wave, chip, cpp, "-o", so, NULL};
    text host = {NULL, 0}, between = {NULL, 0}, final = {NULL, 0};
    const char *odd = NULL;
    uint64_t h = 0xcbf29ce484222325u;
    int ok, i;
    snprintf(wave, sizeof wave, "-D__AMDGCN_WAVEFRONT_SIZE=%d", hip_width());
    snprintf(chip, sizeof chip, "-D__%.*s__=1", (int)strcspn(hip_arch(), ":"), hip_arch());
    if (!get(&host, FAKE_HIP_HERE "/hip_host.h")) say(log, "fake hip: error: no " FAKE_HIP_HERE "/hip_host.h");
    for (i = 0; second[i]; i++)
        if (second[i] != cpp && second[i] != so) h = hash(h, second[i], strlen(second[i]) + 1);
    h = hash(hash(h, host.s ? host.s : "", host.n), source, strlen(source));
    free(host.s);
    cache_folder(cache, sizeof cache);
    snprintf(kept, sizeof kept, "%s/%016llx.so", cache, (unsigned long long)h);
    if (log->n > 0 || get(code, kept)) return log->n == 0;
    snprintf(folder, sizeof folder, "%s/work-XXXXXX", cache);
    if (!mkdtemp(folder)) {
        say(log, "fake hip: error: no folder to work in");
        return 0;
    }
    snprintf(in, sizeof in, "%s/%.60s.hip", folder, name && *name ? name : "program");
    snprintf(ii, sizeof ii, "%s/1.ii", folder);
    snprintf(cpp, sizeof cpp, "%s/2.cpp", folder);
    snprintf(so, sizeof so, "%s/3.so", folder);
    snprintf(said, sizeof said, "%s/said", folder);
    ok = put(in, source, strlen(source)) && call(first, said, log) && get(&between, ii);
    if (ok) {
        say(&final, "#include \"" FAKE_HIP_HERE "/hip_host.h\"\n");
        odd = rewrite(between.s ? between.s : "", &final);
        if (odd) {
            say(log, "fake hip: error: an array of the group that is not written as elsewhere: ");
            add(log, odd, strcspn(odd, "\n"));
        }
        kernels(between.s ? between.s : "", &final);
        ok = !odd && put(cpp, final.s, final.n) && call(second, said, log) && get(code, so);
        if (ok) {
            char mine[860];
            snprintf(mine, sizeof mine, "%s.%d", kept, (int)getpid());
            if (put(mine, code->s, code->n)) rename(mine, kept);
        }
    }
    free(between.s);
    free(final.s);
    remove(in);
    remove(ii);
    remove(cpp);
    remove(so);
    remove(said);
    rmdir(folder);
    return ok;
}

/* ---- the API of hiprtc --------------------------------------------------------------------------------------------------- */

static const char RTC_MARK[8] = "program";
typedef struct program { char mark[8]; char *name, *source; text log, code; } program;
static int alive;

int hip_programs(void) { return alive; }

static program *check(void *p) {
    program *r = (program *)p;
    if (r && memcmp(r->mark, RTC_MARK, 8) == 0) return r;
    hip_misuse("%p is no hiprtc program", p);
    return NULL;
}
#define BEGIN(name) \
    int code_ = hip_fails(#name); \
    if (code_) return code_

const char *hiprtcGetErrorString(int code) {
    static const char *const names[] = {
        "HIPRTC_SUCCESS", "HIPRTC_ERROR_OUT_OF_MEMORY", "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE",
        "HIPRTC_ERROR_INVALID_INPUT", "HIPRTC_ERROR_INVALID_PROGRAM", "HIPRTC_ERROR_INVALID_OPTION",
        "HIPRTC_ERROR_COMPILATION", "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
    return code >= 0 && code < 8 ? names[code] : "HIPRTC_ERROR_INTERNAL_ERROR";
}

int hiprtcCreateProgram(void **out, const char *source, const char *name, int n, const char **headers, const char **names) {
    program *p;
    BEGIN(hiprtcCreateProgram);
    (void)headers;
    (void)names;
    *out = NULL;
    if (!source || n != 0) return RTC_INVALID_INPUT;
    p = (program *)calloc(1, sizeof *p);
    if (!p) return 1;
    memcpy(p->mark, RTC_MARK, 8);
    p->source = strdup(source);
    p->name = strdup(name ? name : "");
    __atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
    *out = p;
    return 0;
}

int hiprtcDestroyProgram(void **at) {
    program *p;
    BEGIN(hiprtcDestroyProgram);
    p = at ? check(*at) : NULL;
    if (!p) return RTC_INVALID_PROGRAM;
    free(p->name);
    free(p->source);
    free(p->log.s);
    free(p->code.s);
    memset(p->mark, 0, 8);
    free(p);
    *at = NULL;
    __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
    return 0;
}

/* Options: the chip, which must be the double's own (another one can end the process of a real compiler), and two that say
 * how to do arithmetic. */
int hiprtcCompileProgram(void *at, int n, const char **options) {
    program *p;
    const char *arch = "", *contract = "-ffp-contract=fast";
    head h;
    text made = {NULL, 0};
    int i;
    BEGIN(hiprtcCompileProgram);
    p = check(at);
    if (!p) return RTC_INVALID_PROGRAM;
    for (i = 0; i < n; i++) {
        if (strncmp(options[i], "--offload-arch=", 15) == 0) arch = options[i] + 15;
        else if (strncmp(options[i], "-ffp-contract=", 14) == 0) contract = options[i];
        else if (strcmp(options[i], "-fno-gpu-flush-denormals-to-zero") != 0) return RTC_INVALID_OPTION;
    }
    if (strncmp(arch, hip_arch(), strlen(arch)) != 0 || strcspn(hip_arch(), ":") != strcspn(arch, ":")) {
        hip_misuse("hiprtc is to compile for '%s', the chip is %s", arch, hip_arch());
        return RTC_COMPILATION;
    }
    if (!compile(p->name, p->source, contract, &made, &p->log)) {
        free(made.s);
        return RTC_COMPILATION;
    }
    memset(&h, 0, sizeof h);
    memcpy(h.mark, MARK, 8);
    snprintf(h.arch, sizeof h.arch, "%.20s", arch);
    h.size = made.n;
    add(&p->code, (const char *)&h, sizeof h);
    add(&p->code, made.s, made.n);
    free(made.s);
    return 0;
}

int hiprtcGetProgramLogSize(void *at, size_t *n) {
    program *p;
    BEGIN(hiprtcGetProgramLogSize);
    if (!(p = check(at))) return RTC_INVALID_PROGRAM;
    *n = p->log.n + 1;
    return 0;
}
int hiprtcGetProgramLog(void *at, char *to) {
    program *p;
    BEGIN(hiprtcGetProgramLog);
    if (!(p = check(at))) return RTC_INVALID_PROGRAM;
    memcpy(to, p->log.s ? p->log.s : "", p->log.n + 1);
    return 0;
}
int hiprtcGetCodeSize(void *at, size_t *n) {
    program *p;
    BEGIN(hiprtcGetCodeSize);
    if (!(p = check(at)) || !p->code.n) return RTC_INVALID_PROGRAM;
    *n = p->code.n;
    return 0;
}
int hiprtcGetCode(void *at, char *to) {
    program *p;
    BEGIN(hiprtcGetCode);
    if (!(p = check(at)) || !p->code.n) return RTC_INVALID_PROGRAM;
    memcpy(to, p->code.s, p->code.n);
    return 0;
}

/* ---- code objects --------------------------------------------------------------------------------------------------------- */

struct hip_code_object { void *library; const hip_kernel *kernels; };

int hip_code_check(const void *image) {
    head h;
    memcpy(&h, image, sizeof h);
    if (memcmp(h.mark, MARK, 8) != 0) return HIP_INVALID_IMAGE;
    return strncmp(h.arch, hip_arch(), strlen(h.arch)) == 0 ? 0 : HIP_NO_BINARY;
}

int hip_code_open(hip_code_object **out, const void *image) {
    hip_code_object *c = (hip_code_object *)calloc(1, sizeof *c);
    void (*begin)(const fibers_calls *);
    char folder[700], path[800];
    void *found;
    head h;
    int file;
    *out = NULL;
    cache_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/load-XXXXXX", folder);
    file = mkstemp(path);
    memcpy(&h, image, sizeof h);
    if (c && file >= 0 && hip_code_check(image) == 0 && put(path, (const char *)image + sizeof h, h.size))
        c->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (file >= 0) {
        close(file);
        remove(path);
    }
    found = c && c->library ? dlsym(c->library, "hip_host_begin") : NULL;
    if (!found || !(c->kernels = (const hip_kernel *)dlsym(c->library, "hip_kernels"))) {
        hip_misuse("a code object was changed after it was loaded, or cannot be: %s", dlerror());
        if (c) hip_code_close(c);
        return HIP_NO_BINARY;
    }
    memcpy(&begin, &found, sizeof begin);
    begin(fibers_table());
    *out = c;
    return 0;
}

const hip_kernel *hip_code_kernel(const hip_code_object *c, const char *name) {
    const hip_kernel *k;
    for (k = c->kernels; k->name; k++)
        if (strcmp(k->name, name) == 0) return k;
    return NULL;
}

int hip_code_has(const hip_code_object *c, const hip_kernel *k) {
    const hip_kernel *each;
    for (each = c->kernels; each->name; each++)
        if (each == k) return 1;
    return 0;
}

void hip_code_close(hip_code_object *c) {
    if (c->library) dlclose(c->library);
    free(c);
}
