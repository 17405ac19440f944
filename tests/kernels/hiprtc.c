/* hiprtc.c: compiles a file by AMD's compiler at run time, in a process of its own: that compiler may end it.
 *
 * hiprtc FILE CHIP: exit status 0 and the size of the code object, or 1 and what the compiler said. Without arguments: 0
 * when the library is there, else 77. The options are those of src/compute/gpu/driver_hip.c. cc hiprtc.c -ldl
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *program;
static int (*create)(program *p, const char *text, const char *name, int n, const char **headers, const char **names);
static int (*compile)(program p, int n, const char **options);
static int (*log_size)(program p, size_t *n);
static int (*log_text)(program p, char *to);
static int (*code_size)(program p, size_t *n);
static int (*code)(program p, char *to);

static int load(const char *name) {
    static const struct { const char *name; void *to; } all[] = {
        {"hiprtcCreateProgram", &create}, {"hiprtcCompileProgram", &compile}, {"hiprtcGetProgramLogSize", &log_size},
        {"hiprtcGetProgramLog", &log_text}, {"hiprtcGetCodeSize", &code_size}, {"hiprtcGetCode", &code}};
    void *lib = dlopen(name, RTLD_NOW), *found;
    size_t i;
    for (i = 0; lib && i < sizeof all / sizeof *all; i++) {
        found = dlsym(lib, all[i].name);
        if (!found) return 0;
        memcpy(all[i].to, &found, sizeof found);
    }
    return lib != NULL;
}

static char *read_all(const char *path) {
    size_t n = 0, got, cap = 1 << 22;
    char *text = (char *)calloc(1, cap);
    FILE *f = fopen(path, "rb");
    while (f && text && n + 1 < cap && (got = fread(text + n, 1, cap - 1 - n, f)) > 0) n += got;
    if (f) fclose(f);
    return f && n + 1 < cap ? text : NULL;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.7",
                                        "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
    const char *options[3] = {"", "-ffp-contract=off", "-fno-gpu-flush-denormals-to-zero"};
    char arch[64], *text;
    program p = NULL;
    size_t i, n = 0;
    for (i = 0; i < sizeof names / sizeof *names && !load(names[i]); i++) {}
    if (i == sizeof names / sizeof *names) return 77;
    if (argc != 3) return 0;
    text = read_all(argv[1]);
    snprintf(arch, sizeof arch, "--offload-arch=%.40s", argv[2]);
    options[0] = arch;
    if (!text || create(&p, text, argv[1], 0, NULL, NULL) != 0) {
        printf("%s: cannot be read or made a program\n", argv[1]);
        return 1;
    }
    if (compile(p, 3, options) != 0) {
        if (log_size(p, &n) == 0 && n > 0 && (text = (char *)calloc(1, n + 1)) != NULL && log_text(p, text) == 0) puts(text);
        return 1;
    }
    if (code_size(p, &n) != 0 || n < 64 || !(text = (char *)malloc(n)) || code(p, text) != 0 || memcmp(text, "\177ELF", 4) != 0) {
        /* a bundle of code objects begins otherwise, and is as good */
        if (n < 64 || memcmp(text, "__CLANG_OFFLOAD_BUNDLE__", 24) != 0) {
            printf("no code object\n");
            return 1;
        }
    }
    printf("%lu bytes\n", (unsigned long)n);
    return 0;
}
