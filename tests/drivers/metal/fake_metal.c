/* fake_metal.c: a double of Apple's Metal and of as much of the Objective-C runtime as a program in C needs, for Linux.
 *
 * Owns:  objc_msgSend, objc_getClass, sel_registerName, objc_autoreleasePoolPush and Pop, MTLCreateSystemDefaultDevice,
 *        MTLCopyAllDevices; the objects behind them. Programs are compiled by msl_host.py and run by ../fibers.c.
 * Rules: harsher than a Mac. A command buffer runs when somebody waits for it, not before, so results that are read early
 *        are not there. Objects are never freed, so that a use after the last release is seen. Every mistake is a line on
 *        stderr and counted; what a Mac would end the process for (an unknown selector) ends it here. At the end of the
 *        process objects that are left, other than devices, are mistakes too, and mistakes make its exit code 70.
 * Faults: FAKE_METAL_FAIL is a list of words with commas between them:
 *        nodevice     there is none                    buffer:N     the N-th newBufferWithLength returns nil
 *        queue        newCommandQueue returns nil      library      newLibraryWithSource fails, with an NSError
 *        pipeline     so does the pipeline state       function     newFunctionWithName returns nil
 *        command:N    the N-th command buffer ends with status 5 and an NSError; command:N+ from then on
 *        memory:N     the same with the error for memory that ran out
 *        threads      pipelines take 32 threads        encoder:N    the N-th encoder is nil
 *        commandbuffer:N  the N-th command buffer is nil
 *        FAKE_METAL_DEVICES: a number of devices, or their kinds: u unified (Apple 7), o unified and old (Apple 5),
 *        d discrete (no Apple family), n no family at all; "u" without it. FAKE_METAL_MEMORY, FAKE_METAL_BUFFER: bytes of
 *        recommendedMaxWorkingSetSize and maxBufferLength. FAKE_METAL_PYTHON: the interpreter, python3.
 * For tests: fake_metal_mistakes, fake_metal_live, fake_metal_forgive; fake_metal_fail and fake_metal_devices, with words
 *        as above; fake_metal_fired: how many calls were made to fail.
 * Start: methods (the table at the end), then m_commit and run_commands.
 */
#define _GNU_SOURCE
#include "../fibers.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
typedef signed char BOOL;
typedef unsigned long NSUInteger;
typedef long NSInteger;
typedef struct { NSUInteger w, h, d; } MTLSize;

typedef enum kind {
    CLASS, STRING, ARRAY, ERROR, OPTIONS, DEVICE, QUEUE, BUFFER, LIBRARY, FUNCTION, PIPELINE, COMMANDS, COMPUTE, BLIT, KINDS
} kind;
static const char *const kind_names[KINDS] = {"class", "NSString", "NSArray", "NSError", "MTLCompileOptions", "MTLDevice",
    "MTLCommandQueue", "MTLBuffer", "MTLLibrary", "MTLFunction", "MTLComputePipelineState", "MTLCommandBuffer",
    "MTLComputeCommandEncoder", "MTLBlitCommandEncoder"};

/* What msl_host.h says of a program. */
typedef struct param { int index; unsigned bytes; } param;
typedef struct entry {
    const char *name;
    void (*fn)(void *const *args, const fibers_item *me);
    unsigned max_threads, n_params;
    param params[31];
} entry;

enum { ARGS = 31, MAGIC = 0x0b7ec7 };
typedef struct object object;

typedef struct bound { object *buffer; size_t offset; unsigned char *bytes; size_t size; int set; } bound;
typedef struct command { /* a dispatch, or a copy (pipeline NULL) */
    struct command *next;
    object *pipeline;
    bound args[ARGS];
    MTLSize groups, size;
    object *from, *to;
    size_t from_offset, to_offset, bytes;
} command;

struct object {
    int magic, kind;
    long refs;
    object *next;      /* of all that were made */
    object *owner;     /* retained: the device, the library, the queue, the command buffer */
    char *text;        /* of strings, errors, classes */
    long code;         /* of errors; of devices: their letter */
    void *memory;      /* of buffers; of libraries: their entries */
    size_t bytes, n;   /* bytes of devices: of their buffers */
    int mode;          /* of buffers: storage */
    int fast;          /* of options */
    object **items;    /* of arrays */
    const entry *what; /* of functions and pipelines */
    /* command buffers and encoders */
    command *first, **last;
    object *open;      /* encoder of a command buffer */
    object *error;
    object *queue_next; /* committed, not yet run: in the order of the queue */
    int status, ended;
    double started, finished;
    bound *args; /* ARGS of them */
    object *pipeline;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* recursive in effect: only the functions below take it */
static object *all;
static long mistakes;
static object *devices[16];
static int n_devices = -1;

static void mistake(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void mistake(const char *format, ...) {
    va_list list;
    __atomic_add_fetch(&mistakes, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "fake Metal: ");
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
}

/* ---- faults -------------------------------------------------------------------------------------------------------- */

enum { F_BUFFER, F_COMMAND, F_MEMORY, F_ENCODER, F_COMMAND_BUFFER, F_COUNTED };
static const char *const fault_names[F_COUNTED] = {"buffer:", "command:", "memory:", "encoder:", "commandbuffer:"};
static long fault_counts[F_COUNTED], fired;
static char faults[400];
static int faults_read;

void fake_metal_fail(const char *list);
void fake_metal_fail(const char *list) {
    snprintf(faults, sizeof faults, ",%s,", list ? list : "");
    memset(fault_counts, 0, sizeof fault_counts);
    fired = 0;
    faults_read = 1;
}

static int fault(const char *word) {
    char with[64];
    if (!faults_read) fake_metal_fail(getenv("FAKE_METAL_FAIL"));
    snprintf(with, sizeof with, ",%s,", word);
    if (!strstr(faults, with)) return 0;
    __atomic_add_fetch(&fired, 1, __ATOMIC_RELAXED);
    return 1;
}

long fake_metal_fired(void);
long fake_metal_fired(void) { return fired; }

/* Counts; 1 when this is the call that fails. */
static int fault_now(int which) {
    char with[64];
    const char *at;
    char *end;
    long n, wanted;
    if (!faults_read) fake_metal_fail(getenv("FAKE_METAL_FAIL"));
    n = __atomic_add_fetch(&fault_counts[which], 1, __ATOMIC_RELAXED);
    snprintf(with, sizeof with, ",%s", fault_names[which]);
    at = strstr(faults, with);
    if (!at) return 0;
    wanted = strtol(at + strlen(with), &end, 10);
    if (n != wanted && (*end != '+' || n < wanted)) return 0;
    __atomic_add_fetch(&fired, 1, __ATOMIC_RELAXED);
    return 1;
}

/* ---- objects ------------------------------------------------------------------------------------------------------- */

static object *make(kind k, object *owner);
static void retain(object *o);
static void release(object *o);

static object *make(kind k, object *owner) {
    object *o = (object *)calloc(1, sizeof *o);
    if (!o) abort();
    o->magic = MAGIC;
    o->kind = k;
    o->refs = 1;
    o->last = &o->first;
    o->owner = owner;
    if (owner) retain(owner);
    pthread_mutex_lock(&lock);
    o->next = all;
    all = o;
    pthread_mutex_unlock(&lock);
    return o;
}

static object *make_text(kind k, const char *text) {
    object *o = make(k, NULL);
    o->text = strdup(text);
    return o;
}

static void retain(object *o) { __atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED); }

static void drop_bound(bound *b) {
    if (b->buffer) release(b->buffer);
    free(b->bytes);
    memset(b, 0, sizeof *b);
}

static void drop_commands(object *o) {
    command *c, *next;
    int i;
    for (c = o->first; c; c = next) {
        next = c->next;
        for (i = 0; i < ARGS; i++) drop_bound(&c->args[i]);
        if (c->pipeline) release(c->pipeline);
        if (c->from) release(c->from);
        if (c->to) release(c->to);
        free(c);
    }
    o->first = NULL;
    o->last = &o->first;
}

static void run_queue(object *q, object *until);

static void die(object *o) {
    size_t i;
    if (o->kind == BUFFER) __atomic_sub_fetch(&o->owner->bytes, o->bytes, __ATOMIC_RELAXED);
    if (o->kind == BUFFER && !fibers_free(o->memory)) mistake("bytes behind a buffer of %zu were written", o->bytes);
    if ((o->kind == COMPUTE || o->kind == BLIT) && !o->ended) {
        mistake("an encoder was released before endEncoding");
        if (o->owner && o->owner->open == o) o->owner->open = NULL;
    }
    if (o->kind == QUEUE) run_queue(o, NULL);
    drop_commands(o);
    for (i = 0; i < ARGS && o->args; i++) drop_bound(&o->args[i]);
    free(o->args);
    o->args = NULL;
    if (o->pipeline) release(o->pipeline);
    if (o->error) release(o->error);
    for (i = 0; i < o->n && o->items; i++) release(o->items[i]);
    free(o->items);
    free(o->text);
    o->items = NULL;
    o->text = NULL;
    o->memory = NULL;
    if (o->owner) release(o->owner);
}

static void release(object *o) {
    long left = __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL);
    if (left == 0) die(o);
    else if (left < 0) mistake("%s %p was released once too often", kind_names[o->kind], (void *)o);
}

/* ---- autorelease pools --------------------------------------------------------------------------------------------- */

enum { POOLS = 64, POOLED = 4096 };
static __thread object *pooled[POOLED];
static __thread int n_pooled, n_pools;

void *objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(void *pool);

void *objc_autoreleasePoolPush(void) {
    n_pools++;
    return (void *)(uintptr_t)(n_pooled + 1);
}

void objc_autoreleasePoolPop(void *pool) {
    int from = (int)(uintptr_t)pool - 1;
    if (n_pools == 0 || from < 0 || from > n_pooled) {
        mistake("a pool is popped that was not pushed");
        return;
    }
    n_pools--;
    while (n_pooled > from) release(pooled[--n_pooled]);
}

static object *autorelease(object *o) {
    if (n_pools == 0) mistake("%s is autoreleased without a pool: it leaks", kind_names[o->kind]);
    else if (n_pooled == POOLED) mistake("a pool holds %d objects", POOLED);
    else pooled[n_pooled++] = o;
    return o;
}

/* ---- strings, errors, arrays, options ------------------------------------------------------------------------------ */

static object *m_string(object *class_, const char *sel, const char *utf8) {
    (void)class_; (void)sel;
    return utf8 ? autorelease(make_text(STRING, utf8)) : NULL;
}
static const char *m_utf8(object *o, const char *sel) { (void)sel; return o->text; }
static object *m_description(object *o, const char *sel) { (void)sel; return autorelease(make_text(STRING, o->text)); }
static NSInteger m_code(object *o, const char *sel) { (void)sel; return o->code; }
static NSUInteger m_count(object *o, const char *sel) { (void)sel; return o->n; }
static object *m_at(object *o, const char *sel, NSUInteger i) {
    (void)sel;
    if (i < o->n) return o->items[i];
    fprintf(stderr, "fake Metal: NSRangeException: object %lu of %zu\n", i, o->n);
    abort();
}
static object *m_retain(object *o, const char *sel) { (void)sel; retain(o); return o; }
static void m_release(object *o, const char *sel) { (void)sel; release(o); }
static object *m_autorelease(object *o, const char *sel) { (void)sel; return autorelease(o); }
static object *m_new(object *class_, const char *sel) {
    (void)sel;
    if (strcmp(class_->text, "MTLCompileOptions") != 0) {
        fprintf(stderr, "fake Metal: nobody makes a %s\n", class_->text);
        abort();
    }
    class_ = make(OPTIONS, NULL);
    class_->fast = 1;
    return class_;
}
static object *m_init(object *o, const char *sel) { (void)sel; return o; }
static void m_set_fast(object *o, const char *sel, BOOL on) { (void)sel; o->fast = on != 0; }

static void set_error(object **err, const char *text, long code) {
    object *e;
    if (!err) return;
    e = make_text(ERROR, text);
    e->code = code;
    *err = autorelease(e);
}

/* ---- devices ------------------------------------------------------------------------------------------------------- */

static unsigned long long number(const char *name, unsigned long long otherwise) {
    const char *s = getenv(name);
    return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

static object *m_name(object *d, const char *sel) {
    char text[60];
    (void)sel;
    snprintf(text, sizeof text, "Double of Metal (%s)", d->code == 'd' ? "discrete" : d->code == 'n' ? "ancient" : "unified");
    return autorelease(make_text(STRING, text));
}
static BOOL m_unified(object *d, const char *sel) { (void)sel; return d->code == 'u' || d->code == 'o'; }
static BOOL m_low_power(object *d, const char *sel) { (void)d; (void)sel; return 0; }
static uint64_t m_working_set(object *d, const char *sel) { (void)d; (void)sel; return number("FAKE_METAL_MEMORY", 8ull << 30); }
static NSUInteger m_max_buffer(object *d, const char *sel) { (void)d; (void)sel; return number("FAKE_METAL_BUFFER", 4ull << 30); }
static NSUInteger m_group_memory(object *d, const char *sel) { (void)d; (void)sel; return 32768; }
static NSUInteger m_allocated(object *d, const char *sel) { (void)sel; return __atomic_load_n(&d->bytes, __ATOMIC_RELAXED); }
static BOOL m_family(object *d, const char *sel, NSInteger family) {
    (void)sel;
    if (family > 1000 && family < 2000) return d->code == 'u' ? family <= 1007 : d->code == 'o' ? family <= 1005 : 0;
    return d->code != 'n' && (family == 2002 || (family >= 3001 && family <= 3003));
}

void fake_metal_devices(const char *s);
void fake_metal_devices(const char *s) {
    int i, n;
    if (!s) s = "u";
    n = *s >= '0' && *s <= '9' ? atoi(s) : (int)strlen(s);
    if (n > 16) n = 16;
    for (i = 0; i < n; i++) {
        devices[i] = make(DEVICE, NULL);
        devices[i]->code = *s >= '0' && *s <= '9' ? 'u' : s[i];
    }
    n_devices = n;
}
static void start_devices(void) {
    if (n_devices < 0) fake_metal_devices(getenv("FAKE_METAL_DEVICES"));
}

object *MTLCreateSystemDefaultDevice(void);
object *MTLCopyAllDevices(void);

object *MTLCreateSystemDefaultDevice(void) {
    start_devices();
    if (fault("nodevice") || n_devices == 0) return NULL;
    retain(devices[0]);
    return devices[0];
}

object *MTLCopyAllDevices(void) {
    object *o;
    int i;
    start_devices();
    o = make(ARRAY, NULL);
    if (fault("nodevice")) return o;
    o->items = (object **)calloc(16, sizeof *o->items);
    for (i = n_devices - 1; i >= 0; i--) { /* the best is not the first */
        o->items[o->n++] = devices[i];
        retain(devices[i]);
    }
    return o;
}

/* ---- buffers ------------------------------------------------------------------------------------------------------- */

static object *m_buffer(object *d, const char *sel, NSUInteger bytes, NSUInteger options) {
    object *o;
    int mode = (int)(options >> 4 & 15);
    (void)sel;
    if (fault_now(F_BUFFER)) return NULL;
    if (bytes == 0 || bytes > m_max_buffer(d, NULL)) {
        mistake("a buffer of %lu bytes: at most %lu, at least 1", bytes, m_max_buffer(d, NULL));
        return NULL;
    }
    if (mode != 0 && mode != 2) mistake("storage mode %d is not for buffers of this driver", mode);
    if (m_allocated(d, NULL) + bytes > m_working_set(d, NULL)) return NULL;
    o = make(BUFFER, d);
    o->mode = mode;
    o->bytes = bytes;
    __atomic_add_fetch(&d->bytes, bytes, __ATOMIC_RELAXED);
    o->memory = fibers_alloc(bytes);
    if (o->memory) return o;
    release(o);
    return NULL;
}
static void *m_contents(object *b, const char *sel) {
    (void)sel;
    if (b->mode == 0) return b->memory;
    mistake("contents of a private buffer");
    return NULL;
}
static NSUInteger m_length(object *b, const char *sel) { (void)sel; return b->bytes; }

/* ---- programs ------------------------------------------------------------------------------------------------------ */

static char program_folder[4096];

/* Where this library lies: build/metal; the sources are found from the folder that tests are started in. */
static void find_folder(void) {
    Dl_info info;
    char *slash;
    if (!dladdr((void *)(uintptr_t)MTLCopyAllDevices, &info) || !realpath(info.dli_fname, program_folder)) return;
    slash = strrchr(program_folder, '/');
    if (slash) *slash = 0;
}

#ifndef FAKE_METAL_SOURCE /* folder of this file */
#define FAKE_METAL_SOURCE "tests/drivers/metal"
#endif

/* msl_host.py with the text on its stdin: what it prints, 0 when it says that the text is wrong. */
static int compile(const char *text, int fast, char *out, size_t cap) {
    const char *python = getenv("FAKE_METAL_PYTHON");
    char script[] = FAKE_METAL_SOURCE "/msl_host.py", folder[] = "--folder", quick[] = "--fast";
    char interpreter[200], *argv[6];
    FILE *program = tmpfile();
    posix_spawn_file_actions_t actions;
    size_t n = 0;
    ssize_t got;
    int to[2], status = -1, k = 0, r;
    pid_t child;
    out[0] = 0;
    if (!program || pipe2(to, O_CLOEXEC)) return 0;
    fputs(text, program);
    rewind(program);
    snprintf(interpreter, sizeof interpreter, "%s", python ? python : "python3");
    argv[k++] = interpreter;
    argv[k++] = script;
    argv[k++] = folder;
    argv[k++] = program_folder;
    if (fast) argv[k++] = quick;
    argv[k] = NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(program), 0);
    posix_spawn_file_actions_adddup2(&actions, to[1], 1);
    posix_spawn_file_actions_adddup2(&actions, to[1], 2);
    r = posix_spawnp(&child, interpreter, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    fclose(program);
    close(to[1]);
    while (!r && n + 1 < cap && (got = read(to[0], out + n, cap - 1 - n)) > 0) n += (size_t)got;
    out[n] = 0;
    close(to[0]);
    if (r) snprintf(out, cap, "error: %s does not start", interpreter);
    else while (waitpid(child, &status, 0) < 0) {}
    return !r && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Programs of this process that were compiled: they stay loaded. */
typedef struct program { struct program *next; char *text; int fast; void *entries; } program;
static program *programs;
static pthread_mutex_t programs_lock = PTHREAD_MUTEX_INITIALIZER;

/* The entries of a program; NULL and what is wrong in `out`. */
static void *load(const char *text, int fast, char *out, size_t cap) {
    program *p;
    void *lib = NULL;
    pthread_mutex_lock(&programs_lock);
    for (p = programs; p && (p->fast != fast || strcmp(p->text, text) != 0); p = p->next) {}
    if (!p && compile(text, fast, out, cap)) {
        out[strcspn(out, "\n")] = 0;
        lib = dlopen(out, RTLD_NOW | RTLD_LOCAL);
        if (!lib) snprintf(out, cap, "error: %s", dlerror());
    }
    if (lib) {
        *(const fibers_calls **)dlsym(lib, "msl_calls") = fibers_table();
        p = (program *)calloc(1, sizeof *p);
        if (!p) abort();
        p->text = strdup(text);
        p->fast = fast;
        p->entries = dlsym(lib, "msl_entries");
        p->next = programs;
        programs = p;
    }
    pthread_mutex_unlock(&programs_lock);
    return p ? p->entries : NULL;
}

static object *m_library(object *d, const char *sel, object *source, object *options, object **err) {
    enum { CAP = 1 << 16 };
    char *out;
    object *o = NULL;
    void *entries;
    (void)sel;
    if (fault("library")) {
        set_error(err, "program_source:7:1: warning: odd\nprogram_source:12:3: error: planted by the test\n1 error generated.", 3);
        return NULL;
    }
    out = (char *)malloc(CAP);
    if (!out) abort();
    entries = load(source->text, options ? options->fast : 1, out, CAP);
    if (entries) {
        o = make(LIBRARY, d);
        o->memory = entries;
    } else {
        set_error(err, out, 3);
    }
    free(out);
    return o;
}

static object *m_function(object *l, const char *sel, object *name) {
    const entry *e;
    object *o;
    (void)sel;
    if (fault("function")) return NULL;
    for (e = (const entry *)l->memory; e->name && strcmp(e->name, name->text) != 0; e++) {}
    if (!e->name) return NULL;
    o = make(FUNCTION, l);
    o->what = e;
    return o;
}

static object *m_pipeline(object *d, const char *sel, object *f, object **err) {
    object *o;
    (void)sel; (void)d;
    if (fault("pipeline")) {
        set_error(err, "Compiler encountered an internal error: planted by the test", 2);
        return NULL;
    }
    o = make(PIPELINE, f);
    o->what = f->what;
    return o;
}
static NSUInteger m_max_threads(object *p, const char *sel) {
    (void)sel;
    return fault("threads") ? 32 : p->what->max_threads;
}
static NSUInteger m_width(object *p, const char *sel) { (void)p; (void)sel; return 32; }

/* ---- encoding ------------------------------------------------------------------------------------------------------ */

static object *m_queue(object *d, const char *sel) { (void)sel; return fault("queue") ? NULL : make(QUEUE, d); }

static object *m_command_buffer(object *q, const char *sel) {
    (void)sel;
    return fault_now(F_COMMAND_BUFFER) ? NULL : autorelease(make(COMMANDS, q));
}

static object *encoder(object *cb, kind k) {
    if (cb->status) mistake("an encoder of a command buffer that was committed");
    if (cb->open) mistake("a second encoder of a command buffer while one is open");
    if (fault_now(F_ENCODER)) return NULL;
    cb->open = make(k, cb);
    cb->open->args = (bound *)calloc(ARGS, sizeof(bound));
    if (!cb->open->args) abort();
    return autorelease(cb->open);
}
static object *m_compute(object *cb, const char *sel) { (void)sel; return encoder(cb, COMPUTE); }
static object *m_compute_type(object *cb, const char *sel, NSUInteger type) {
    (void)sel;
    if (type != 0) mistake("dispatches run side by side: this double has no barriers between them");
    return encoder(cb, COMPUTE);
}
static object *m_blit(object *cb, const char *sel) { (void)sel; return encoder(cb, BLIT); }

static int may_encode(object *e) {
    if (!e->ended) return 1;
    mistake("a command after endEncoding");
    return 0;
}
static void m_end(object *e, const char *sel) {
    (void)sel;
    if (e->ended) mistake("endEncoding twice");
    e->ended = 1;
    e->owner->open = NULL;
}
static void m_set_pipeline(object *e, const char *sel, object *p) {
    (void)sel;
    retain(p);
    if (e->pipeline) release(e->pipeline);
    e->pipeline = p;
}
static void m_set_buffer(object *e, const char *sel, object *b, NSUInteger offset, NSUInteger i) {
    (void)sel;
    if (i >= ARGS || (b && offset >= b->bytes)) {
        mistake("setBuffer: index %lu, offset %lu", i, offset);
        return;
    }
    drop_bound(&e->args[i]);
    if (b) retain(b);
    e->args[i].buffer = b;
    e->args[i].offset = offset;
    e->args[i].set = 1;
}
static void m_set_bytes(object *e, const char *sel, const void *bytes, NSUInteger n, NSUInteger i) {
    (void)sel;
    if (i >= ARGS || n == 0 || n > 4096) {
        mistake("setBytes: %lu bytes at index %lu", n, i);
        return;
    }
    drop_bound(&e->args[i]);
    e->args[i].bytes = (unsigned char *)malloc(n);
    memcpy(e->args[i].bytes, bytes, n);
    e->args[i].size = n;
    e->args[i].set = 1;
}

static command *append(object *e) {
    command *c = (command *)calloc(1, sizeof *c);
    if (!c) abort();
    *e->owner->last = c;
    e->owner->last = &c->next;
    return c;
}

static void m_dispatch(object *e, const char *sel, MTLSize groups, MTLSize size) {
    command *c;
    int i;
    (void)sel;
    if (!may_encode(e)) return;
    if (!e->pipeline) {
        mistake("a dispatch without a pipeline state");
        return;
    }
    if (size.w * size.h * size.d > e->pipeline->what->max_threads || size.w * size.h * size.d == 0)
        mistake("%s: %lu threads in a threadgroup, the pipeline takes %u", e->pipeline->what->name,
                size.w * size.h * size.d, e->pipeline->what->max_threads);
    c = append(e);
    c->pipeline = e->pipeline;
    retain(c->pipeline);
    c->groups = groups;
    c->size = size;
    for (i = 0; i < ARGS; i++) {
        c->args[i] = e->args[i];
        if (e->args[i].buffer) retain(e->args[i].buffer);
        if (e->args[i].bytes) {
            c->args[i].bytes = (unsigned char *)malloc(e->args[i].size);
            memcpy(c->args[i].bytes, e->args[i].bytes, e->args[i].size);
        }
    }
}

static void m_copy(object *e, const char *sel, object *from, NSUInteger from_offset, object *to, NSUInteger to_offset,
                   NSUInteger bytes) {
    command *c;
    (void)sel;
    if (!may_encode(e)) return;
    if (from_offset > from->bytes || bytes > from->bytes - from_offset || to_offset > to->bytes ||
        bytes > to->bytes - to_offset) {
        mistake("a copy of %lu bytes from %lu of %zu to %lu of %zu", bytes, from_offset, from->bytes, to_offset, to->bytes);
        return;
    }
    if ((from_offset | to_offset | bytes) & 3) mistake("a copy that is no multiple of 4 bytes");
    if (from == to && from_offset < to_offset + bytes && to_offset < from_offset + bytes) mistake("a copy onto itself");
    c = append(e);
    c->from = from;
    c->to = to;
    retain(from);
    retain(to);
    c->from_offset = from_offset;
    c->to_offset = to_offset;
    c->bytes = bytes;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "" or what is wrong. */
static void run_dispatch(const command *c, char *why, size_t cap) {
    const entry *e = c->pipeline->what;
    const object *device = c->pipeline->owner->owner->owner;
    void *args[ARGS];
    fibers_launch l;
    unsigned i;
    why[0] = 0;
    memset(args, 0, sizeof args);
    for (i = 0; i < e->n_params && !why[0]; i++) {
        const param *p = &e->params[i];
        const bound *b = &c->args[p->index];
        if (!b->set) snprintf(why, cap, "%s: nothing is bound at index %d", e->name, p->index);
        else if (b->bytes && b->size < p->bytes)
            snprintf(why, cap, "%s: %zu bytes at index %d, it takes %u", e->name, b->size, p->index, p->bytes);
        else if (b->buffer && b->buffer->owner != device) snprintf(why, cap, "%s: a buffer of another device", e->name);
        else if (b->bytes) args[p->index] = b->bytes;
        else if (b->buffer) args[p->index] = (char *)b->buffer->memory + b->offset;
    }
    if (why[0]) return;
    memset(&l, 0, sizeof l);
    l.name = e->name;
    l.fn = e->fn;
    l.args = args;
    l.groups[0] = (uint32_t)c->groups.w;
    l.groups[1] = (uint32_t)c->groups.h;
    l.groups[2] = (uint32_t)c->groups.d;
    l.size[0] = (uint32_t)c->size.w;
    l.size[1] = (uint32_t)c->size.h;
    l.size[2] = (uint32_t)c->size.d;
    l.width = 32;
    l.local_bytes = 32768;
    fibers_run(&l, why, cap);
}

static void fail_commands(object *cb, const char *text, long code) {
    cb->status = 5;
    cb->error = make_text(ERROR, text);
    cb->error->code = code;
}

static void run_commands(object *cb) {
    char why[500];
    const command *c;
    cb->started = seconds();
    if (fault_now(F_COMMAND)) fail_commands(cb, "Caused GPU Timeout Error (planted by the test)", 2);
    else if (fault_now(F_MEMORY)) fail_commands(cb, "Insufficient Memory (planted by the test)", 8);
    for (c = cb->first; c && cb->status != 5; c = c->next) {
        if (c->pipeline) {
            run_dispatch(c, why, sizeof why);
            if (!why[0]) continue;
            mistake("%s", why);
            fail_commands(cb, why, 3);
        } else {
            memcpy((char *)c->to->memory + c->to_offset, (char *)c->from->memory + c->from_offset, c->bytes);
        }
    }
    if (cb->status != 5) cb->status = 4;
    cb->finished = seconds();
    drop_commands(cb);
}

/* What was committed to a queue, in order, up to `until`. */
static void run_queue(object *q, object *until) {
    object *cb;
    while ((cb = q->queue_next) != NULL) {
        q->queue_next = cb->queue_next;
        cb->queue_next = NULL;
        run_commands(cb);
        release(cb);
        if (cb == until) return;
    }
}

static void m_commit(object *cb, const char *sel) {
    object **at = &cb->owner->queue_next;
    (void)sel;
    if (cb->status) {
        mistake("a command buffer is committed twice");
        return;
    }
    if (cb->open) mistake("a command buffer is committed with an open encoder");
    cb->status = 2;
    retain(cb);
    while (*at) at = &(*at)->queue_next;
    *at = cb;
}
static void m_wait(object *cb, const char *sel) {
    (void)sel;
    if (!cb->status) mistake("waiting for a command buffer that was not committed: this would never end");
    else if (cb->status == 2) run_queue(cb->owner, cb);
}
static NSUInteger m_status(object *cb, const char *sel) { (void)sel; return (NSUInteger)cb->status; }
static object *m_error(object *cb, const char *sel) {
    (void)sel;
    if (cb->error) retain(cb->error);
    return cb->error ? autorelease(cb->error) : NULL;
}
static double m_started(object *cb, const char *sel) { (void)sel; return cb->started; }
static double m_finished(object *cb, const char *sel) { (void)sel; return cb->finished; }

/* ---- selectors ----------------------------------------------------------------------------------------------------- */

typedef void (*method)(void);
static BOOL m_responds(object *o, const char *sel, const char *asked);
#define M(kind, sel, fn) {kind, sel, (method)fn},
static const struct { int kind; const char *sel; method fn; } methods[] = {
    M(-1, "retain", m_retain) M(-1, "release", m_release) M(-1, "autorelease", m_autorelease)
    M(-1, "respondsToSelector:", m_responds)
    M(CLASS, "stringWithUTF8String:", m_string) M(CLASS, "new", m_new) M(CLASS, "alloc", m_new)
    M(STRING, "UTF8String", m_utf8)
    M(ERROR, "localizedDescription", m_description) M(ERROR, "code", m_code)
    M(ARRAY, "count", m_count) M(ARRAY, "objectAtIndex:", m_at)
    M(OPTIONS, "init", m_init) M(OPTIONS, "setFastMathEnabled:", m_set_fast)
    M(DEVICE, "name", m_name) M(DEVICE, "hasUnifiedMemory", m_unified) M(DEVICE, "isLowPower", m_low_power)
    M(DEVICE, "recommendedMaxWorkingSetSize", m_working_set) M(DEVICE, "currentAllocatedSize", m_allocated)
    M(DEVICE, "maxBufferLength", m_max_buffer) M(DEVICE, "maxThreadgroupMemoryLength", m_group_memory)
    M(DEVICE, "supportsFamily:", m_family) M(DEVICE, "newCommandQueue", m_queue)
    M(DEVICE, "newBufferWithLength:options:", m_buffer) M(DEVICE, "newLibraryWithSource:options:error:", m_library)
    M(DEVICE, "newComputePipelineStateWithFunction:error:", m_pipeline)
    M(LIBRARY, "newFunctionWithName:", m_function)
    M(PIPELINE, "maxTotalThreadsPerThreadgroup", m_max_threads) M(PIPELINE, "threadExecutionWidth", m_width)
    M(BUFFER, "contents", m_contents) M(BUFFER, "length", m_length)
    M(QUEUE, "commandBuffer", m_command_buffer)
    M(COMMANDS, "computeCommandEncoder", m_compute) M(COMMANDS, "computeCommandEncoderWithDispatchType:", m_compute_type)
    M(COMMANDS, "blitCommandEncoder", m_blit) M(COMMANDS, "commit", m_commit) M(COMMANDS, "waitUntilCompleted", m_wait)
    M(COMMANDS, "status", m_status) M(COMMANDS, "error", m_error) M(COMMANDS, "GPUStartTime", m_started)
    M(COMMANDS, "GPUEndTime", m_finished)
    M(COMPUTE, "setComputePipelineState:", m_set_pipeline) M(COMPUTE, "setBuffer:offset:atIndex:", m_set_buffer)
    M(COMPUTE, "setBytes:length:atIndex:", m_set_bytes)
    M(COMPUTE, "dispatchThreadgroups:threadsPerThreadgroup:", m_dispatch) M(COMPUTE, "endEncoding", m_end)
    M(BLIT, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", m_copy) M(BLIT, "endEncoding", m_end)
};
#undef M
enum { METHODS = sizeof methods / sizeof methods[0] };

static method find_method(int k, const char *sel) {
    int i;
    for (i = 0; i < METHODS; i++)
        if ((methods[i].kind == -1 || methods[i].kind == k) && strcmp(methods[i].sel, sel) == 0) return methods[i].fn;
    return NULL;
}
static BOOL m_responds(object *o, const char *sel, const char *asked) {
    (void)sel;
    if (strcmp(asked, "supportsFamily:") == 0 && o->code == 'n') return 0;
    return find_method(o->kind, asked) != NULL;
}

const char *sel_registerName(const char *name);
object *objc_getClass(const char *name);

enum { SELECTORS = 256 };
static char *selectors[SELECTORS];
static int n_selectors;

const char *sel_registerName(const char *name) {
    int i;
    pthread_mutex_lock(&lock);
    for (i = 0; i < n_selectors && strcmp(selectors[i], name) != 0; i++) {}
    if (i == n_selectors && i < SELECTORS) selectors[n_selectors++] = strdup(name);
    pthread_mutex_unlock(&lock);
    return i < SELECTORS ? selectors[i] : NULL;
}

object *objc_getClass(const char *name) {
    static const char *const names[] = {"NSString", "MTLCompileOptions"};
    static object *classes[2];
    int i;
    for (i = 0; i < 2; i++) {
        if (strcmp(names[i], name) != 0) continue;
        if (!classes[i]) classes[i] = make_text(CLASS, name);
        return classes[i];
    }
    return NULL;
}

/* What a message to nil comes to: nothing, 0, 0.0. */
static void *to_nil(void) { return NULL; }

/* Called by objc_msgSend with the arguments saved: the function that they are for. */
void *fake_metal_lookup(object *o, const char *sel);
__attribute__((visibility("hidden"), used)) void *fake_metal_lookup(object *o, const char *sel) {
    method m;
    void *p;
    int i;
    if (!o) return (void *)(uintptr_t)to_nil;
    if (o->magic != MAGIC || o->kind < 0 || o->kind >= KINDS) {
        fprintf(stderr, "fake Metal: %s is sent to %p, which is no object\n", sel, (void *)o);
        abort();
    }
    for (i = 0; i < n_selectors && selectors[i] != sel; i++) {}
    if (i == n_selectors) {
        fprintf(stderr, "fake Metal: a selector that sel_registerName did not give: %s\n", sel);
        abort();
    }
    m = find_method(o->kind, sel);
    if (!m) {
        fprintf(stderr, "fake Metal: unrecognized selector %s sent to %s\n", sel, kind_names[o->kind]);
        abort();
    }
    if (o->refs <= 0) {
        fprintf(stderr, "fake Metal: %s is sent to a %s that was released\n", sel, kind_names[o->kind]);
        abort();
    }
    memcpy(&p, &m, sizeof p);
    return p;
}

/* Arguments stay where they are: in registers, which are saved around the look-up, and on the stack. */
#if defined(__x86_64__)
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend,@function\nobjc_msgSend:\n"
        "pushq %rbp\nmovq %rsp,%rbp\n"
        "pushq %rdi\npushq %rsi\npushq %rdx\npushq %rcx\npushq %r8\npushq %r9\n"
        "subq $128,%rsp\n"
        "movups %xmm0,(%rsp)\nmovups %xmm1,16(%rsp)\nmovups %xmm2,32(%rsp)\nmovups %xmm3,48(%rsp)\n"
        "movups %xmm4,64(%rsp)\nmovups %xmm5,80(%rsp)\nmovups %xmm6,96(%rsp)\nmovups %xmm7,112(%rsp)\n"
        "call fake_metal_lookup\n"
        "movq %rax,%r11\n"
        "movups (%rsp),%xmm0\nmovups 16(%rsp),%xmm1\nmovups 32(%rsp),%xmm2\nmovups 48(%rsp),%xmm3\n"
        "movups 64(%rsp),%xmm4\nmovups 80(%rsp),%xmm5\nmovups 96(%rsp),%xmm6\nmovups 112(%rsp),%xmm7\n"
        "addq $128,%rsp\n"
        "popq %r9\npopq %r8\npopq %rcx\npopq %rdx\npopq %rsi\npopq %rdi\npopq %rbp\n"
        "pxor %xmm0,%xmm0\n" /* no method has floating arguments; nil answers 0.0 */
        "jmp *%r11\n.size objc_msgSend,.-objc_msgSend\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend,%function\nobjc_msgSend:\n"
        "stp x29,x30,[sp,#-96]!\nmov x29,sp\n"
        "stp x0,x1,[sp,#16]\nstp x2,x3,[sp,#32]\nstp x4,x5,[sp,#48]\nstp x6,x7,[sp,#64]\nstr x8,[sp,#80]\n"
        "bl fake_metal_lookup\n"
        "mov x16,x0\n"
        "ldp x0,x1,[sp,#16]\nldp x2,x3,[sp,#32]\nldp x4,x5,[sp,#48]\nldp x6,x7,[sp,#64]\nldr x8,[sp,#80]\n"
        "ldp x29,x30,[sp],#96\n"
        "movi d0,#0\n"
        "br x16\n.size objc_msgSend,.-objc_msgSend\n");
#else
#error "fake_metal.c has no objc_msgSend for this processor"
#endif

/* ---- for tests ----------------------------------------------------------------------------------------------------- */

long fake_metal_mistakes(void);
long fake_metal_live(int print);
void fake_metal_forgive(void);

long fake_metal_mistakes(void) { return mistakes; }
void fake_metal_forgive(void) { mistakes = 0; }

/* Objects that somebody still holds, but for classes and devices. */
long fake_metal_live(int print) {
    object *o;
    long n = 0;
    pthread_mutex_lock(&lock);
    for (o = all; o; o = o->next) {
        if (o->refs <= 0 || o->kind == CLASS || o->kind == DEVICE) continue;
        n++;
        if (print && n <= 5) fprintf(stderr, "fake Metal: a %s is left, %ld times held\n", kind_names[o->kind], o->refs);
    }
    pthread_mutex_unlock(&lock);
    return n;
}

__attribute__((constructor)) static void begin(void) { find_folder(); }

__attribute__((destructor)) static void end(void) {
    long left = fake_metal_live(1);
    if (left == 0 && mistakes == 0) return;
    fprintf(stderr, "fake Metal: %ld mistakes, %ld objects left\n", mistakes, left);
    fflush(NULL);
    _exit(70);
}
