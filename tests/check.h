/* check.h: a small test harness. A test is a void function; RUN(fn) runs it; CHECK(x) counts failures. */
#ifndef CHECK_H
#define CHECK_H
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *check_filter;          /* parts of the names of tests to run, separated by commas */
static const char *check_test = "";       /* the running test */
static const char *check_detail = "";     /* what it is looking at: a file, a size */
static int check_passed, check_failed, check_skipped, check_bad, check_skip;
static char check_skips[256][160];

static void check_note(const char *file, int line, const char *what) {
    if (check_bad++ < 10) fprintf(stderr, "%s:%d: %s [%s]: failed: %s\n", file, line, check_test, check_detail, what);
}
#define CHECK(x) ((x) ? (void)0 : check_note(__FILE__, __LINE__, #x))
#define CHECK_STR(a, b) check_str(__FILE__, __LINE__, (a), (b))
static void check_str(const char *file, int line, const char *a, const char *b) {
    char m[700];
    if (strcmp(a, b) == 0) return;
    snprintf(m, sizeof m, "got \"%.300s\" want \"%.300s\"", a, b);
    check_note(file, line, m);
}
/* The message of an infer_error must contain `part`. */
#define CHECK_HAS(text, part) check_has(__FILE__, __LINE__, (text), (part))
static void check_has(const char *file, int line, const char *text, const char *part) {
    char m[700];
    if (strstr(text, part)) return;
    snprintf(m, sizeof m, "\"%.300s\" should contain \"%.200s\"", text, part);
    check_note(file, line, m);
}
/* Normalised mean squared error: sum (a-b)^2 / sum b^2; huge when a has NaN. Where b is no logit but -FLT_MAX a is, too. */
static double check_nmse(const float *a, const float *b, size_t n) {
    double e = 0, s = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        double d = (double)a[i] - b[i];
        if (b[i] == -FLT_MAX && d == 0) continue;
        e += d * d;
        s += (double)b[i] * b[i];
    }
    if (!(e < 1e300)) return 1e300;
    return s > 0 ? e / s : e;
}
/* Mark the running test as skipped (then return from it). With INFER_TEST_NO_SKIP=1 a skip is a failure, unless its
 * reason starts with "cpu:" (an instruction set this CPU lacks) or "ptxas:". */
static void check_skip_test(const char *why) {
    const char *no = getenv("INFER_TEST_NO_SKIP");
    if (no && no[0] == '1' && strncmp(why, "cpu:", 4) != 0 && strncmp(why, "ptxas:", 6) != 0) {
        check_note(__FILE__, __LINE__, why);
        return;
    }
    check_skip = 1;
    if (check_skipped < 256) snprintf(check_skips[check_skipped], sizeof check_skips[0], "%s: %s", check_test, why);
}
#define SKIP(why) do { check_skip_test(why); return; } while (0)

/* The step of a loop over many cases: 1, or n where the CPU's instructions are interpreted. */
static INFER__UNUSED int check_every(int n) { return getenv("CHECK_EMULATED") ? n : 1; }

/* Does the name have one of the parts, which are separated by commas? */
static int check_chosen(const char *name, const char *parts) {
    char part[80];
    for (; parts && *parts; parts += strcspn(parts, ","), parts += *parts == ',') {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(parts, ","), parts);
        if (part[0] && strstr(name, part)) return 1;
    }
    return 0;
}

/* CPU seconds of this process; WASI has no such clock. */
static double check_seconds(void) {
#ifdef __wasi__
    return 0;
#else
    return (double)clock() / CLOCKS_PER_SEC;
#endif
}

/* CHECK_TIMES=1: say the CPU seconds of each. */
static void check_run(const char *name, void (*fn)(void)) {
    double start;
    if (check_filter && !check_chosen(name, check_filter)) return;
    if (check_chosen(name, getenv("CHECK_WITHOUT"))) return; /* those are left out */
    check_test = name; check_detail = ""; check_bad = 0; check_skip = 0;
    start = check_seconds();
    fn();
    if (getenv("CHECK_TIMES")) fprintf(stderr, "%7.2f s %s\n", check_seconds() - start, name);
    if (check_bad) { check_failed++; fprintf(stderr, "FAILED %s (%d checks)\n", name, check_bad); }
    else if (check_skip) check_skipped++;
    else check_passed++;
}
#define RUN(fn) check_run(#fn, fn)
/* A test that needs a GPU: not part of builds that cannot load drivers (static ones for other CPUs). */
#if defined(INFER_NO_RUNTIME_LINKING)
enum { CHECK_DEVICES = 0 };
#else
enum { CHECK_DEVICES = 1 };
#endif
#define RUN_DEVICE(fn) (CHECK_DEVICES ? RUN(fn) : (void)(fn))

/* Paths: tests/data/NAME, and $INFER_TEST_DATA/NAME (NULL without it). Up to 8 results live at once. */
static const char *check_path(const char *dir, const char *name) {
    static char buf[8][1024];
    static int at;
    at = (at + 1) & 7;
    snprintf(buf[at], sizeof buf[0], "%s/%s", dir, name);
    return buf[at];
}
static const char *check_data(const char *name) {
    const char *d = getenv("INFER_TEST_LOCAL");
    return check_path(d ? d : "tests/data", name);
}
static const char *check_reference(const char *name) {
    const char *d = getenv("INFER_TEST_DATA");
    return d && *d ? check_path(d, name) : NULL;
}
/* The repository's own where it has that file (*kept = 1; kept may be NULL), else the reference. */
static INFER__UNUSED const char *check_data_or_reference(const char *name, int *kept) {
    const char *p = check_data(name);
    FILE *f = fopen(p, "rb");
    if (kept) *kept = f != NULL;
    if (f) fclose(f);
    return f ? p : check_reference(name);
}
/* A whole file; NULL when it cannot be read. Zero-terminated; free() it. */
static char *check_read(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    char *p = NULL;
    long size;
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    fseek(f, 0, SEEK_SET);
    if (size >= 0 && (p = (char *)malloc((size_t)size + 1)) != NULL) {
        if (fread(p, 1, (size_t)size, f) != (size_t)size) { free(p); p = NULL; }
        else { p[size] = 0; if (n) *n = (size_t)size; }
    }
    fclose(f);
    return p;
}

/* An allocator that counts and that fails on call number check_fail_at (from 1; 0 = never). */
static long check_allocs, check_live, check_fail_at;
/* Counted for all threads: a queue's own allocates beside its caller. Compilers without atomics make no threads. */
static long check_count(long *n, long add) {
#if defined __GNUC__ && !defined __TINYC__
    return __atomic_add_fetch(n, add, __ATOMIC_SEQ_CST);
#else
    return *n += add;
#endif
}
static void *check_alloc(void *user, size_t size, size_t align) {
    void *p = NULL;
    (void)user;
    if (check_count(&check_allocs, 1) == check_fail_at) return NULL;
    (void)align; /* the library aligns by itself; aligned_alloc is neither C99 nor on Windows */
    p = malloc(size);
    if (p) check_count(&check_live, 1);
    return p;
}
static void check_free(void *user, void *p, size_t size) {
    (void)user; (void)size;
    check_count(&check_live, -1);
    free(p);
}

static int check_finish(void) {
    int i;
    for (i = 0; i < check_skipped && i < 256; i++) printf("skipped %s\n", check_skips[i]);
    printf("%d passed, %d failed, %d skipped\n", check_passed, check_failed, check_skipped);
    return check_failed != 0;
}
#endif
