/* fake.h: what the parts of the driver API share. api.c has the entry to every function, devices, contexts and errors, api_memory.c
 * memory and copies, api_module.c modules and kernels, api_stream.c streams, events and graphs.
 *
 * One lock is held in every function. Work on a stream waits in a list until somebody waits for it, so that a program that frees
 * or changes memory too early is wrong every time, not once in a thousand. Handles are looked up in lists before they are used.
 */
#ifndef FAKE_H
#define FAKE_H
#include "ptx.h"

#define API __attribute__((visibility("default")))
typedef unsigned long long devptr;

enum {
    E_INVALID_VALUE = 1,
    E_OUT_OF_MEMORY = 2,
    E_NOT_INITIALIZED = 3,
    E_STUB = 34,
    E_NO_DEVICE = 100,
    E_INVALID_DEVICE = 101,
    E_INVALID_IMAGE = 200,
    E_INVALID_CONTEXT = 201,
    E_NO_BINARY = 209,
    E_INVALID_PTX = 218,
    E_UNSUPPORTED_PTX = 222,
    E_INVALID_HANDLE = 400,
    E_ILLEGAL_STATE = 401,
    E_NOT_FOUND = 500,
    E_NOT_READY = 600,
    E_ILLEGAL_ADDRESS = 700,
    E_OUT_OF_RESOURCES = 701,
    E_ALREADY_REGISTERED = 712,
    E_NOT_REGISTERED = 713,
    E_LAUNCH_FAILED = 719,
    E_CAPTURE_UNSUPPORTED = 900,
    E_CAPTURE_INVALIDATED = 901,
    E_CAPTURE_UNJOINED = 904,
    E_CAPTURE_IMPLICIT = 906,
    E_CAPTURED_EVENT = 907,
    E_CAPTURE_WRONG_THREAD = 908
};

/* Everything that has a handle. */
enum { K_CONTEXT, K_STREAM, K_EVENT, K_MODULE, K_FUNCTION, K_GRAPH, K_EXEC, K_LINK, K_KINDS };
typedef struct object {
    struct object *next;
    int kind;
    struct context *ctx;
} object;

typedef struct context {
    object o;
    int device, refs, sticky;
    struct stream *null;
} context;

typedef struct event {
    object o;
    unsigned flags;
    uint64_t wanted, done;  /* how often recorded, and how many of these have run */
    struct stream *stream;  /* that the last record was put on */
    double time;
    int refs, dead;
    struct capture *capture;
} event;

typedef struct function {
    object o;
    ptx_func *f;
    struct module *module;
    int dynamic;            /* shared bytes that a launch may ask for */
} function;
typedef struct module { object o; ptx_module *m; } module;

enum { OP_TO_DEVICE, OP_TO_HOST, OP_COPY, OP_SET, OP_KERNEL, OP_RECORD, OP_WAIT, OP_GRAPH };
typedef struct op {
    struct op *next;
    int kind;
    devptr dst, src;
    void *host;
    size_t bytes;
    unsigned value;
    function *f;
    uint32_t grid[3], block[3];
    size_t dynamic;
    uint8_t *params;
    event *e;
    uint64_t number;
    struct exec *exec;
} op;

typedef struct { op *first, *last; } op_list;
typedef struct graph { object o; op_list ops; } graph;
typedef struct exec { object o; op_list ops; int refs, dead; } exec;

typedef struct capture {
    struct stream *origin;
    int mode, invalid, streams;
    pthread_t thread;
    op_list ops;
} capture;

typedef struct stream {
    object o;
    int blocking, joined;   /* joined: the capture's origin waits for all that this stream has */
    op_list ops;
    capture *capture;
} stream;

extern object *fake_objects[K_KINDS];
extern char fake_text[600];

/* Flags of what a function needs. */
enum { NEED_INIT = 1, NEED_CTX = 2, IS_FREE = 4 };
int fake_enter(const char *name, int needs, int *free_anyway);
int fake_leave(int rc);
context *fake_current(void);
void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
long long fake_number(const char *name, long long otherwise);
int fake_capability(void);
int fake_driver(void);
int fake_devices(void);
int fake_max_ptx(void);
void fake_stick(context *c, int code);
int fake_is_sticky(int code);

/* ENTER(needs): the function's beginning; it returns when there is an error. Functions that free go on after a sticky error. */
#define ENTER(needs) \
    int sticky_ = 0, rc_ = fake_enter(__func__, needs, &sticky_); \
    if (rc_) return fake_leave(rc_)
#define LEAVE(rc) \
    do { \
        int left_ = (rc); \
        return fake_leave(left_ ? left_ : sticky_); \
    } while (0)
#define REQUIRE(condition, rc) \
    do { \
        if (!(condition)) return fake_leave(rc); \
    } while (0)

void fake_add(object *o, int kind, context *c);
void fake_remove(object *o);
object *fake_find(int kind, const void *handle);

/* memory */
ptx_range *fake_range(devptr at, size_t bytes);      /* of any device */
int fake_ranges(int device, ptx_range **out);        /* a new list, sorted: what kernels of a device may touch */
void fake_release_memory(int device);
int fake_leaked_memory(void);
void fake_known(ptx_range *r, devptr at, size_t bytes);

/* streams */
stream *fake_stream(void *handle);                   /* NULL: no such */
stream *fake_new_stream(context *c, int blocking);
int fake_enqueue(stream *s, op *o);
int fake_drain(stream *s);
int fake_drain_context(context *c, int only_blocking);
int fake_unsafe(void);                               /* a call that captures forbid: 900, and they are invalid */
int fake_legacy(context *c);                         /* the same for what the legacy stream does */
void fake_free_op(op *o);
int fake_run_kernel(context *c, op *o);
double fake_now(void);
void fake_say_work(void);
#endif
