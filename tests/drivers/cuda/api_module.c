/* api_module.c: modules from PTX, or from what linking made of it; their kernels, and launches. What linking makes is the text of
 * PTX behind a head that says for which capability it was made: other devices refuse it, as they refuse real machine code.
 */
#include "fake.h"
#include <unistd.h>

typedef struct { char magic[16]; int32_t capability; uint32_t bytes; } image_head;
static const char magic[16] = "\x7f" "ELF, fake, PTX:"; /* as machine code begins: drivers' callers may look */
typedef struct link {
    object o;
    char *text;
    image_head *image;
    size_t bytes;
    char *error;
    unsigned error_size;
} link_state;

enum { JIT_INFO_LOG = 3, JIT_INFO_SIZE = 4, JIT_ERROR_LOG = 5, JIT_ERROR_SIZE = 6 };

/* What the caller wants to read when it goes wrong; sizes become what was written. */
static void give_log(unsigned n, const int *options, void **values, const char *text) {
    char *log = NULL;
    unsigned k;
    size_t size = 0;
    for (k = 0; k < n; k++) {
        if (options[k] == JIT_ERROR_LOG) log = values[k];
        if (options[k] == JIT_ERROR_SIZE) size = (size_t)(uintptr_t)values[k] & 0xffffffffu;
    }
    if (log && size) snprintf(log, size, "%s", text);
    for (k = 0; k < n; k++) {
        if (options[k] == JIT_ERROR_SIZE) values[k] = (void *)(uintptr_t)(log && size && *text ? strlen(log) + 1 : 0);
        if (options[k] == JIT_INFO_SIZE) values[k] = NULL;
        if (options[k] == JIT_INFO_LOG && values[k] && k + 1 < n) ((char *)values[k])[0] = 0;
    }
}

static int load(void **out, const void *image, unsigned n, const int *options, void **values) {
    const char *text = image;
    image_head head;
    module *m;
    char log[600] = "";
    int rc = fake_unsafe();
    if (rc) return rc;
    if (!out || !image || (n && (!options || !values))) return E_INVALID_VALUE;
    *out = NULL;
    m = calloc(1, sizeof *m);
    if (!m) return E_OUT_OF_MEMORY;
    if (!memcmp(text, magic, 4)) { /* 4 bytes are there: a text of PTX is longer */
        memcpy(&head, image, sizeof head);
        if (memcmp(head.magic, magic, sizeof magic)) rc = E_INVALID_IMAGE;
        else if (head.capability / 10 != fake_capability() / 10 || head.capability > fake_capability())
            rc = E_NO_BINARY;
        else text += sizeof head;
    } else if (!strstr(text, ".version")) {
        rc = *text && strchr("./ \t\n", *text) ? E_INVALID_PTX : E_INVALID_IMAGE;
    }
    if (!rc) rc = ptx_parse(text, fake_capability(), text == image ? fake_max_ptx() : 999, &m->m, log, sizeof log);
    give_log(n, options, values, log);
    if (rc) {
        if (*log) snprintf(fake_text, sizeof fake_text, "%s", log);
        free(m);
        return rc;
    }
    fake_add(&m->o, K_MODULE, fake_current());
    *out = m;
    return 0;
}
API int cuModuleLoadData(void **out, const void *image);
API int cuModuleLoadData(void **out, const void *image) {
    ENTER(NEED_CTX);
    LEAVE(load(out, image, 0, NULL, NULL));
}
API int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values);
API int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values) {
    ENTER(NEED_CTX);
    LEAVE(load(out, image, n, options, values));
}
API int cuModuleUnload(void *handle);
API int cuModuleUnload(void *handle) {
    module *m;
    int rc;
    ENTER(NEED_CTX | IS_FREE);
    if ((rc = fake_unsafe())) LEAVE(rc);
    m = (module *)fake_find(K_MODULE, handle);
    REQUIRE(m, E_INVALID_HANDLE);
    rc = fake_drain_context(m->o.ctx, 0);
    for (object *o = fake_objects[K_FUNCTION], *next; o; o = next) {
        next = o->next;
        if (((function *)o)->module != m) continue;
        fake_remove(o);
        free(o);
    }
    fake_remove(&m->o);
    ptx_free(m->m);
    free(m);
    LEAVE(rc);
}
API int cuModuleGetFunction(void **out, void *handle, const char *name);
API int cuModuleGetFunction(void **out, void *handle, const char *name) {
    module *m;
    ptx_func *pf;
    function *f;
    ENTER(NEED_CTX);
    m = (module *)fake_find(K_MODULE, handle);
    REQUIRE(m, E_INVALID_HANDLE);
    REQUIRE(out && name, E_INVALID_VALUE);
    pf = ptx_find(m->m, name);
    REQUIRE(pf, E_NOT_FOUND);
    for (object *o = fake_objects[K_FUNCTION]; o; o = o->next)
        if (((function *)o)->f == pf) {
            *out = o;
            LEAVE(0);
        }
    f = calloc(1, sizeof *f);
    REQUIRE(f, E_OUT_OF_MEMORY);
    f->f = pf, f->module = m;
    f->dynamic = 49152 - (int)pf->shared_bytes;
    fake_add(&f->o, K_FUNCTION, fake_current());
    *out = f;
    LEAVE(0);
}

static int optin(void) {
    return fake_capability() >= 90   ? 232448
           : fake_capability() >= 80 ? 166912
           : fake_capability() >= 70 ? 98304
                                     : 49152;
}

API int cuFuncGetAttribute(int *value, int what, void *handle);
API int cuFuncGetAttribute(int *value, int what, void *handle) {
    function *f;
    ENTER(NEED_CTX);
    f = (function *)fake_find(K_FUNCTION, handle);
    REQUIRE(f, E_INVALID_HANDLE);
    REQUIRE(value, E_INVALID_VALUE);
    switch (what) {
    case 0: *value = f->f->max_threads; break;
    case 1: *value = (int)f->f->shared_bytes; break;
    case 2: *value = (int)f->module->m->const_bytes; break;
    case 3: *value = (int)f->f->local_bytes; break;
    case 4:
        *value = f->f->regs32 > 128 ? 128 : f->f->regs32;
        break; /* a guess: registers are given by machine code, not by PTX */
    case 5: *value = f->module->m->version; break;
    case 6: *value = fake_capability(); break;
    case 7: *value = 0; break;
    case 8: *value = f->dynamic; break;
    case 9: *value = -1; break;
    default: LEAVE(E_INVALID_VALUE);
    }
    LEAVE(0);
}
API int cuFuncSetAttribute(void *handle, int what, int value);
API int cuFuncSetAttribute(void *handle, int what, int value) {
    function *f;
    ENTER(NEED_CTX);
    f = (function *)fake_find(K_FUNCTION, handle);
    REQUIRE(f, E_INVALID_HANDLE);
    if (what == 9) {
        REQUIRE(value >= -1 && value <= 100, E_INVALID_VALUE);
        LEAVE(0);
    }
    REQUIRE(what == 8 && value >= 0 && value <= optin() - (int)f->f->shared_bytes, E_INVALID_VALUE);
    f->dynamic = value;
    LEAVE(0);
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *handle, int threads, size_t dynamic);
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *handle, int threads, size_t dynamic) {
    function *f;
    int n = 32, cc = fake_capability();
    size_t shared, have = cc >= 90 ? 233472 : cc >= 80 ? 167936 : 98304;
    ENTER(NEED_CTX);
    f = (function *)fake_find(K_FUNCTION, handle);
    REQUIRE(f, E_INVALID_HANDLE);
    REQUIRE(blocks && threads > 0, E_INVALID_VALUE);
    shared = f->f->shared_bytes + dynamic;
    if (n > 2048 / threads) n = 2048 / threads;
    if (shared && (size_t)n > have / shared) n = (int)(have / shared);
    if (threads > f->f->max_threads || shared > f->f->shared_bytes + (size_t)f->dynamic) n = 0;
    *blocks = n;
    LEAVE(0);
}

/* ---- launches -------------------------------------------------------------------------------------------------------------- */

enum { EXTRA_END = 0, EXTRA_POINTER = 1, EXTRA_SIZE = 2 };

API int cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned dynamic, void *s_handle, void **params, void **extra);
API int cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned dynamic, void *s_handle, void **params, void **extra) {
    function *f;
    stream *s;
    op *o;
    int k;
    ENTER(NEED_CTX);
    f = (function *)fake_find(K_FUNCTION, handle);
    REQUIRE(f, E_INVALID_HANDLE);
    s = fake_stream(s_handle);
    REQUIRE(s && s->o.ctx == f->o.ctx, E_INVALID_HANDLE);
    REQUIRE(gx && gy && gz && bx && by && bz && gx <= 0x7fffffff && gy <= 65535 && gz <= 65535, E_INVALID_VALUE);
    REQUIRE(bx <= 1024 && by <= 1024 && bz <= 64 && (uint64_t)bx * by * bz <= 1024, E_INVALID_VALUE);
    REQUIRE((int)(bx * by * bz) <= f->f->max_threads, E_INVALID_VALUE);
    REQUIRE(!f->f->req[0] || ((int)bx == f->f->req[0] && (int)by == f->f->req[1] && (int)bz == f->f->req[2]),
            E_INVALID_VALUE);
    REQUIRE(f->f->shared_bytes <= 49152 && (f->dynamic >= 0 && dynamic <= (unsigned)f->dynamic), E_INVALID_VALUE);
    REQUIRE(!(params && extra) && (params || extra || !f->f->nparams), E_INVALID_VALUE);
    o = calloc(1, sizeof *o);
    REQUIRE(o && (o->params = calloc(1, f->f->param_bytes + 16)), E_OUT_OF_MEMORY);
    o->kind = OP_KERNEL, o->f = f, o->dynamic = dynamic;
    o->grid[0] = gx, o->grid[1] = gy, o->grid[2] = gz, o->block[0] = bx, o->block[1] = by, o->block[2] = bz;
    for (k = 0; params && k < f->f->nparams; k++) {
        if (!params[k]) {
            fake_free_op(o);
            LEAVE(E_INVALID_VALUE);
        }
        memcpy(o->params + f->f->syms[k].at, params[k], f->f->syms[k].size);
    }
    if (extra) {
        const void *from = NULL;
        size_t size = 0;
        for (k = 0; extra[k] != (void *)EXTRA_END && k < 8; k += 2) {
            if (extra[k] == (void *)EXTRA_POINTER) from = extra[k + 1];
            else if (extra[k] == (void *)EXTRA_SIZE) size = *(size_t *)extra[k + 1];
            else break;
        }
        if (extra[k] != (void *)EXTRA_END || !from || size < f->f->param_bytes || size > 4096) {
            fake_free_op(o);
            LEAVE(E_INVALID_VALUE);
        }
        memcpy(o->params, from, f->f->param_bytes);
    }
    LEAVE(fake_enqueue(s, o));
}

/* The one attribute that is known lets a launch begin before the one in front of it has ended, as far as it does not wait for
 * it: here work happens one after the other, so a kernel that never waits is refused. */
typedef struct launch_attribute {
    int id;
    char pad[4];
    union { char bytes[64]; int on; } value;
} launch_attribute;
typedef struct launch_config {
    unsigned grid[3], block[3], dynamic;
    void *stream;
    launch_attribute *attributes;
    unsigned n;
} launch_config;
enum { ATTRIBUTE_PROGRAMMATIC = 6 };

static int waits(void *handle) {
    function *f;
    int k;
    ENTER(NEED_CTX);
    f = (function *)fake_find(K_FUNCTION, handle);
    REQUIRE(f, E_INVALID_HANDLE);
    for (k = 0; k < f->f->ncode && f->f->code[k].run != ptx_grid_wait; k++) continue;
    if (k == f->f->ncode) fake_log("%s is launched early and does not wait", f->f->name);
    LEAVE(k < f->f->ncode ? 0 : E_INVALID_VALUE);
}

API int cuLaunchKernelEx(const launch_config *c, void *handle, void **params, void **extra);
API int cuLaunchKernelEx(const launch_config *c, void *handle, void **params, void **extra) {
    int code;
    for (unsigned k = 0; c && k < c->n; k++)
        if (c->attributes[k].id != ATTRIBUTE_PROGRAMMATIC) return E_INVALID_VALUE;
    if (!c) return E_INVALID_VALUE;
    if (c->n > 0 && (code = waits(handle)) != 0) return code;
    return cuLaunchKernel(handle, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->dynamic, c->stream,
                          params, extra);
}

static uint64_t instructions, launches;
static double milliseconds;
API unsigned long long fake_cuda_instructions(void);
API unsigned long long fake_cuda_instructions(void) { return instructions; }
void fake_say_work(void) {
    fake_log("%llu launches, %.3f G instructions of threads in %.3f s: %.0f M/s", (unsigned long long)launches,
             (double)instructions * 1e-9, milliseconds * 1e-3,
             milliseconds > 0 ? (double)instructions / milliseconds * 1e-3 : 0.0);
}

int fake_run_kernel(context *c, op *o) {
    ptx_launch x;
    ptx_range *ranges;
    double start;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int rc;
    memset(&x, 0, sizeof x);
    x.f = o->f->f;
    memcpy(x.grid, o->grid, sizeof x.grid);
    memcpy(x.block, o->block, sizeof x.block);
    x.dynamic = o->dynamic, x.params = o->params;
    x.threads = (int)fake_number("FAKE_CUDA_THREADS", cores < 1 ? 1 : cores);
    if (x.threads < 1 || x.threads > 64) x.threads = 1;
    x.check = fake_number("FAKE_CUDA_CHECK", 0) != 0;
    x.budget = (uint64_t)fake_number("FAKE_CUDA_BUDGET", 20000000000ll);
    x.nranges = fake_ranges(c->device, &ranges);
    if (x.nranges < 0) return E_OUT_OF_MEMORY;
    x.ranges = ranges;
    start = fake_now();
    rc = ptx_run(&x);
    milliseconds += fake_now() - start;
    instructions += x.instructions;
    launches++;
    if (rc) {
        snprintf(fake_text, sizeof fake_text, "%s", x.error);
        fake_log("error %d: %s", rc, x.error);
    }
    free(ranges);
    return rc;
}

/* ---- linking ---------------------------------------------------------------------------------------------------------------- */

API int cuLinkCreate_v2(unsigned n, int *options, void **values, void **out);
API int cuLinkCreate_v2(unsigned n, int *options, void **values, void **out) {
    link_state *l;
    ENTER(NEED_CTX);
    REQUIRE(out && (!n || (options && values)), E_INVALID_VALUE);
    l = calloc(1, sizeof *l);
    REQUIRE(l, E_OUT_OF_MEMORY);
    for (unsigned k = 0; k < n; k++) { /* the buffer is written until the state is destroyed */
        if (options[k] == JIT_ERROR_LOG) l->error = values[k];
        if (options[k] == JIT_ERROR_SIZE) l->error_size = (unsigned)(uintptr_t)values[k];
    }
    fake_add(&l->o, K_LINK, fake_current());
    *out = l;
    LEAVE(0);
}
API int cuLinkAddData_v2(void *state, int type, void *data, size_t size, const char *name, unsigned n, int *options,
                         void **values);
API int cuLinkAddData_v2(void *state, int type, void *data, size_t size, const char *name, unsigned n, int *options,
                         void **values) {
    link_state *l;
    ptx_module *m;
    char log[600];
    int rc;
    (void)name, (void)n, (void)options, (void)values;
    ENTER(NEED_CTX);
    l = (link_state *)fake_find(K_LINK, state);
    REQUIRE(l && !l->image, E_INVALID_HANDLE);
    REQUIRE(type == 1 && data && size && !l->text, type == 1 ? E_INVALID_VALUE : E_INVALID_IMAGE); /* one text of PTX */
    l->text = malloc(size + 1);
    REQUIRE(l->text, E_OUT_OF_MEMORY);
    memcpy(l->text, data, size);
    l->text[size] = 0;
    rc = ptx_parse(l->text, fake_capability(), fake_max_ptx(), &m, log, sizeof log);
    ptx_free(m);
    if (rc && l->error && l->error_size) snprintf(l->error, l->error_size, "%s", log);
    if (rc) {
        free(l->text);
        l->text = NULL;
    }
    LEAVE(rc);
}
API int cuLinkComplete(void *state, void **image, size_t *bytes);
API int cuLinkComplete(void *state, void **image, size_t *bytes) {
    link_state *l;
    size_t n;
    ENTER(NEED_CTX);
    l = (link_state *)fake_find(K_LINK, state);
    REQUIRE(l, E_INVALID_HANDLE);
    REQUIRE(image && l->text, E_INVALID_VALUE);
    n = strlen(l->text) + 1;
    if (!l->image) {
        l->image = malloc(sizeof *l->image + n);
        REQUIRE(l->image, E_OUT_OF_MEMORY);
        memcpy(l->image->magic, magic, sizeof magic);
        l->image->capability = fake_capability();
        l->image->bytes = (uint32_t)n;
        memcpy(l->image + 1, l->text, n);
    }
    *image = l->image;
    if (bytes) *bytes = sizeof *l->image + n;
    LEAVE(0);
}
API int cuLinkDestroy(void *state);
API int cuLinkDestroy(void *state) {
    link_state *l;
    ENTER(NEED_CTX | IS_FREE);
    l = (link_state *)fake_find(K_LINK, state);
    REQUIRE(l, E_INVALID_HANDLE);
    fake_remove(&l->o);
    free(l->text);
    free(l->image);
    free(l);
    LEAVE(0);
}
