/* gpu_kernels.c: the devices of all GPU APIs, and a model's programs on one of them.
 *
 * Owns:  the list of APIs in this build; struct infer__gpu: an open device, its programs, its upload queue.
 * May not know: what a kernel computes, how an API works.
 * Rules: a program is compiled once, when first needed; a failure leaves no state, so the next call tries again. A
 *        message about a device begins with its name. write and flush are for the thread that opens or closes the
 *        model.
 * Start: infer__gpu_rows, infer__gpu_open_in, infer__gpu_load.
 */
#include "gpu.h"

static const char *infer__backend_name(int32_t backend) {
    static const char *const names[] = {"auto", "cpu", "cuda", "hip", "opencl", "metal"};
    return backend >= 0 && backend < (int32_t)INFER__COUNT(names) ? names[backend] : NULL;
}

/* The configuration macro that removed an API, or all of them; NULL: none did. */
static const char *infer__gpu_left_out_by(int32_t backend) {
    switch (backend) {
#ifdef INFER_NO_CUDA
    case INFER_CUDA: return "INFER_NO_CUDA";
#endif
#ifdef INFER_NO_HIP
    case INFER_HIP: return "INFER_NO_HIP";
#endif
#ifdef INFER_NO_METAL
    case INFER_METAL: return "INFER_NO_METAL";
#endif
#ifdef INFER_NO_OPENCL
    case INFER_OPENCL: return "INFER_NO_OPENCL";
#endif
    default: return INFER__NO_GPU_BY;
    }
}

static infer_result infer__gpu_absent(int32_t backend, infer_error *err) {
    const char *name = infer__backend_name(backend), *by = infer__gpu_left_out_by(backend);
    if (!by) return infer__error(err, INFER_ERR_UNSUPPORTED, "backend %s is not in this build", name ? name : "?");
    return infer__error(err, INFER_ERR_UNSUPPORTED, "backend %s is left out of this build (%s)", name ? name : "?", by);
}

#ifndef INFER_NO_GPU
#include "../../../kernels_embed.h"

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* Text i of a program as source, NULL after the last one. */
static const infer__kernel_text *infer__module_part(int32_t module, int32_t i) {
#ifdef INFER__NO_GPU_SOURCES
    (void)module; (void)i;
    return NULL;
#else
    const infer__module_row *row = infer__module_at(module);
    int32_t k;
    for (k = 0; k < i; k++)
        if (row->files[k] < 0) return NULL;
    return row->files[i] < 0 ? NULL : infer__kernel_file(row->files[i]);
#endif
}

/* The PTX of a program; no bytes: this build has none. */
static infer__ptx_row infer__module_ptx(int32_t module) {
#ifndef INFER_NO_CUDA
    return *infer__ptx_at(module);
#else
    infer__ptx_row none = {0, 0, 0, 0};
    (void)module;
    return none;
#endif
}

/* 1 when this build has the program in this form. */
static int infer__module_there(int32_t module, int32_t form) {
    return form == INFER__FORM_PTX ? infer__module_ptx(module).bytes > 0 : infer__module_part(module, 0) != NULL;
}

/* A program's source: zero-terminated texts in `pieces`, in one block of memory to free (what unpacks them comes
 * first), NULL when there is no memory left (*damaged NULL) or a text is damaged (*damaged is its name). */
static void *infer__module_source(int32_t module, const char *pieces[INFER__MODULE_FILES], int32_t *n_pieces,
                                  uint64_t *hash, infer__mem *mem, const char **damaged) {
    const infer__kernel_text *text;
    uint64_t size = sizeof(infer__lzma);
    char *block, *at;
    int32_t i;
    for (i = 0; (text = infer__module_part(module, i)) != NULL; i++) size += (uint64_t)text->bytes + 1;
    *n_pieces = i;
    block = (char *)infer__alloc(mem, size);
    at = block ? block + sizeof(infer__lzma) : NULL;
    for (i = 0; block && i < *n_pieces; i++) {
        text = infer__module_part(module, i);
        if (!infer__text_unpack((infer__lzma *)block, text, at, text->bytes)) {
            *damaged = text->name;
            infer__free(mem, block);
            return NULL;
        }
        pieces[i] = at;
        *hash = infer__fnv(*hash, at, text->bytes);
        at += text->bytes;
        *at++ = 0;
    }
    return block;
}

#ifndef INFER_NO_CUDA
typedef struct infer__ptx_work { infer__lzma lzma; infer__ptx_names names; } infer__ptx_work;
#endif

/* The same of its PTX, which is one text. What precedes it in its block is unpacked, too, and discarded. */
static void *infer__module_ptx_text(int32_t module, const char *pieces[INFER__MODULE_FILES], int32_t *n_pieces,
                                    uint64_t *hash, infer__mem *mem, const char **damaged) {
    char *text = NULL;
#ifndef INFER_NO_CUDA
    const infer__ptx_row row = infer__module_ptx(module);
    const infer__kernel_text *packed = infer__ptx_block(row.block);
    infer__ptx_work *work = (infer__ptx_work *)infer__alloc(mem, sizeof *work + (uint64_t)row.at + row.coded);
    char *coded = (char *)(work + 1);
    int ok = work && infer__text_unpack(&work->lzma, packed, coded, row.at + row.coded);
    if (work && !ok) *damaged = packed->name;
    if (ok) text = (char *)infer__alloc(mem, (uint64_t)row.bytes + 1);
    if (text && !infer__ptx_names_write(&work->names, coded + row.at, row.coded, text, row.bytes)) {
        *damaged = packed->name;
        infer__free(mem, text);
        text = NULL;
    }
    if (text) *hash = infer__fnv(*hash, text, row.bytes);
    infer__free(mem, work);
#else
    (void)module; (void)hash; (void)mem; (void)damaged;
#endif
    pieces[0] = text;
    *n_pieces = 1;
    return text;
}

/* A program in the form of a driver: as infer__module_source. */
static void *infer__module_text(int32_t module, int32_t form, const char *pieces[INFER__MODULE_FILES],
                                int32_t *n_pieces, infer__mem *mem, const char **damaged) {
    const infer__module_row *row = infer__module_at(module);
    const int ptx = form == INFER__FORM_PTX;
    uint64_t hash = INFER__FNV;
    void *block;
    *damaged = NULL;
    block = ptx ? infer__module_ptx_text(module, pieces, n_pieces, &hash, mem, damaged)
                : infer__module_source(module, pieces, n_pieces, &hash, mem, damaged);
    if (!block || hash == (ptx ? row->ptx_hash : row->hash)) return block;
    *damaged = row->name;
    infer__free(mem, block);
    return NULL;
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

/* The APIs, in the order in which their devices are listed; ends with NULL. */
static const infer__driver *const infer__drivers[] = {
#ifndef INFER_NO_CUDA
    &infer__cuda_driver,
#endif
#ifndef INFER_NO_HIP
    &infer__hip_driver,
#endif
#ifndef INFER_NO_METAL
    &infer__metal_driver,
#endif
#ifndef INFER_NO_OPENCL
    &infer__opencl_driver,
#endif
    NULL
};

static const infer__driver *infer__driver_find(const infer__driver *const *drivers, int32_t backend) {
    while (*drivers && (*drivers)->backend != backend) drivers++;
    return *drivers;
}

static int infer__gpu_has_backend(int32_t backend) {
    return infer__driver_find(infer__drivers, backend) != NULL;
}

/* Row `index` of the devices of these APIs: its API, NULL when there is no such row. *at is the driver's number for
 * the device, -1 in the row of an API that has none. */
static const infer__driver *infer__gpu_row(const infer__driver *const *drivers, int32_t index, infer_device_info *out,
                                           int32_t *at) {
    int32_t n, i = index;
    memset(out, 0, sizeof *out);
    for (; *drivers && i >= 0; drivers++) {
        const char *why_not = NULL;
        n = (*drivers)->devices(&why_not);
        if (i >= INFER__MAX(n, 1)) {
            i -= INFER__MAX(n, 1);
            continue;
        }
        if (n > 0) (*drivers)->info(i, out);
        else infer__format(out->why_not, sizeof out->why_not, "%s", why_not ? why_not : "no device");
        out->backend = (*drivers)->backend;
        out->device = index;
        *at = n > 0 ? i : -1;
        return *drivers;
    }
    return NULL;
}

static int32_t infer__gpu_count_in(const infer__driver *const *drivers) {
    int32_t n, sum = 0;
    for (; *drivers; drivers++) {
        n = (*drivers)->devices(NULL);
        sum += INFER__MAX(n, 1);
    }
    return sum;
}

static int32_t infer__gpu_count(void) {
    return infer__gpu_count_in(infer__drivers);
}

static int infer__gpu_info_in(infer__apis apis, int32_t row, infer_device_info *out) {
    int32_t at;
    return infer__gpu_row(apis ? apis : infer__drivers, row, out, &at) != NULL;
}

static void infer__gpu_info(int32_t index, infer_device_info *out) {
    infer__gpu_info_in(infer__drivers, index, out);
}

/* ---- choosing --------------------------------------------------------------------------------------------------- */

static int32_t infer__gpu_api(infer__apis apis, int32_t index) {
    apis = apis ? apis : infer__drivers;
    for (; *apis && index > 0; apis++) index--;
    return *apis ? (*apis)->backend : -1;
}

/* 0: a GPU with memory of its own, 1: one that shares the CPU's, 2: a processor. */
static int infer__gpu_class(const infer_device_info *info) {
    return info->processor ? 2 : info->unified ? 1 : 0;
}

static int32_t infer__gpu_rows(infer__apis apis, int32_t backend, int all, int32_t *rows, int32_t cap, char *why_not,
                               size_t why_cap) {
    infer_device_info info;
    int32_t row, kind, at, n = 0;
    apis = apis ? apis : infer__drivers;
    infer__format(why_not, why_cap, "it is not in this build");
    for (kind = 0; kind < 3 && (all || n == 0); kind++)
        for (row = 0; infer__gpu_row(apis, row, &info, &at) != NULL && n < cap; row++) {
            if (info.backend != backend) continue;
            if (at >= 0 && info.usable && infer__gpu_class(&info) == kind) rows[n++] = row;
            else if (kind == 0 && !info.usable) infer__format(why_not, why_cap, "%s", info.why_not);
        }
    return n;
}

static int32_t infer__gpu_automatic(infer__apis apis, int takes_gpus) {
    infer_device_info info;
    char why_not[sizeof info.why_not];
    int32_t i, row, backend;
    for (i = 0; takes_gpus && (backend = infer__gpu_api(apis, i)) >= 0; i++)
        if (infer__gpu_rows(apis, backend, 0, &row, 1, why_not, sizeof why_not) > 0 &&
            infer__gpu_info_in(apis, row, &info) && !info.processor)
            return row;
    return -1;
}

/* ---- an open device --------------------------------------------------------------------------------------------- */

struct infer__gpu {
    infer__mem *mem;
    const infer__report *report;
    infer_cache cache;
    const infer__driver *driver;
    infer_device_info info;
    void *device, *queue;               /* the queue is for uploads */
    infer__atomic used;                 /* bytes of buffers */
    infer__mutex lock;                  /* of programs */
    int has_lock;
    void *programs[INFER__MODULE_COUNT]; /* NULL = not compiled yet */
    uint8_t dropped[INFER__MODULE_COUNT]; /* 1: special programs that the device is used without */
    infer__atomic latent;                 /* 1: programs of latent attention are wanted */
    infer__gpu_blame blame;               /* of the last check */
};

/* A driver's error, prefixed with the device's name; `what` may be "". */
static infer_result infer__gpu_named(const infer__gpu *g, infer_result code, const char *what, const infer_error *why,
                                     infer_error *err) {
    return infer__error(err, code, "%s: %s%s%s", infer__gpu_name(g), what, *what ? ": " : "", why->message);
}

static int32_t infer__gpu_module(int32_t kind, int32_t id) {
    int32_t i;
    for (i = 0; i < INFER__MODULE_COUNT; i++)
        if (infer__module_at(i)->kind == kind && infer__module_at(i)->id == id) return i;
    return -1;
}

/* A program's description without its text: enough to find it in the caller's cache. */
static void infer__gpu_source_name(infer__gpu *g, int32_t module, infer__gpu_source *s) {
    const infer__module_row *row = infer__module_at(module);
    memset(s, 0, sizeof *s);
    s->name = row->name;
    s->hash = g->driver->form == INFER__FORM_PTX ? row->ptx_hash : row->hash;
    s->cache = &g->cache;
}

/* And its text, in pieces; *block is to be freed. */
static infer_result infer__gpu_source_open(infer__gpu *g, int32_t module, infer__gpu_source *s,
                                           const char *pieces[INFER__MODULE_FILES], void **block, infer_error *err) {
    const char *damaged;
    infer__gpu_source_name(g, module, s);
    *block = infer__module_text(module, g->driver->form, pieces, &s->n_text, g->mem, &damaged);
    if (damaged) return infer__error(err, INFER_ERR_DEVICE, "kernel text %s of this build is damaged", damaged);
    if (!*block) return infer__error(err, INFER_ERR_MEMORY, "no memory for the text of GPU kernels (%s)", s->name);
    s->text = pieces;
    return INFER_OK;
}

/* Handle the result of compiling a program: error message and log line. */
static infer_result infer__gpu_compiled(infer__gpu *g, int32_t module, infer_result r, double start,
                                        const infer_error *why, infer_error *err) {
    const char *name = infer__module_at(module)->name;
    if (r) {
        g->programs[module] = NULL;
        return infer__gpu_named(g, r, name, why, err);
    }
    infer__log(g->report, 4, "%s: kernels %s ready in %.2f s", infer__gpu_name(g), name, infer__seconds() - start);
    return INFER_OK;
}

static infer_result infer__gpu_compile(infer__gpu *g, int32_t module, infer_error *err) {
    const char *pieces[INFER__MODULE_FILES];
    infer__gpu_source source;
    infer_error why;
    double start = infer__seconds();
    void *block;
    infer_result r = infer__gpu_source_open(g, module, &source, pieces, &block, err);
    if (r) return r;
    infer__error_clear(&why);
    r = g->driver->load(g->device, &source, &g->programs[module], &why);
    infer__free(g->mem, block);
    return infer__gpu_compiled(g, module, r, start, &why, err);
}

static infer__gpu_blame *infer__gpu_blamed(infer__gpu *g) { return &g->blame; }

static void infer__gpu_drop(infer__gpu *g, int32_t module) {
    infer__mutex_lock(&g->lock);
    if (g->programs[module]) g->driver->unload(g->device, g->programs[module]);
    g->programs[module] = NULL;
    g->dropped[module] = 1;
    infer__mutex_unlock(&g->lock);
}

/* Whether the device takes programs of a special kind. */
static int infer__gpu_takes(const infer__gpu *g, const infer__kind_row *kind) {
    int32_t tier = kind->form == g->driver->form && g->driver->tier ? g->driver->tier(g->device) : 0;
    return kind->form != INFER__FORM_SOURCE && (kind->exact ? tier == kind->tier : tier >= kind->tier);
}

/* Few models have latent attention: its programs are not loaded for the others. */
static int infer__gpu_takes_special(const infer__gpu *g, int32_t kind) {
    return infer__gpu_takes(g, &INFER__KINDS[kind]) && (kind != INFER__MODULE_LATENT || infer__atomic_get(&g->latent));
}

/* 1 for a special program that the device takes, that this build has and that could not be compiled with its generic
 * one. */
static int infer__gpu_lacks(const infer__gpu *g, int32_t module) {
    const infer__module_row *row = infer__module_at(module);
    int32_t of = row->kind < INFER__MODULE_SPECIAL ? -1 : infer__gpu_module(INFER__KINDS[row->kind].of, row->id);
    return of >= 0 && g->programs[of] && !g->programs[module] && !g->dropped[module] &&
           infer__gpu_takes_special(g, row->kind) && infer__module_there(module, g->driver->form);
}

static int infer__gpu_lacks_any(const infer__gpu *g) {
    int32_t i;
    for (i = 0; i < INFER__MODULE_COUNT; i++)
        if (infer__gpu_lacks(g, i)) return 1;
    return 0;
}

/* Enable programs that only some models need, if these uses include them. */
static void infer__gpu_want(infer__gpu *g, const infer__gpu_uses *u) {
    int32_t i;
    for (i = 0; i < u->n_heads; i++)
        if (u->heads[i].shared) infer__atomic_set(&g->latent, 1);
}

/* 1 when the check of these uses runs kernels of the module. */
static int infer__gpu_uses_module(const infer__gpu *g, int32_t module, const infer__gpu_uses *u) {
    const infer__module_row *row = infer__module_at(module);
    const infer__quant *type;
    int32_t of = INFER__KINDS[row->kind].of;
    if (row->kind >= INFER__MODULE_SPECIAL && !infer__gpu_takes_special(g, row->kind)) return 0;
    if (of == INFER__MODULE_KV) return u->kv_types >> row->id & 1;
    if (of == INFER__MODULE_BASE) return 1;
    type = infer__quant_find(row->id, NULL); /* NULL: left out by INFER_ONLY_QUANTS */
    return type != NULL && u->types[infer__quant_index(type)] != 0;
}

/* The hash of a module's text, 0 when this build has none for the device. */
static uint64_t infer__gpu_module_hash(const infer__gpu *g, int32_t module) {
    if (!infer__module_there(module, g->driver->form)) return 0;
    return g->driver->form == INFER__FORM_PTX ? infer__module_at(module)->ptx_hash : infer__module_at(module)->hash;
}

/* Load the special programs of a generic one. They are optional: a failure is logged, not returned. */
static void infer__gpu_load_special(infer__gpu *g, int32_t module) {
    const infer__module_row *row = infer__module_at(module), *s;
    infer_error why;
    int32_t i;
    for (i = 0; i < INFER__MODULE_COUNT; i++) {
        s = infer__module_at(i);
        if (s->kind < INFER__MODULE_SPECIAL || INFER__KINDS[s->kind].of != row->kind || s->id != row->id) continue;
        if (g->programs[i] || g->dropped[i] || !infer__gpu_takes_special(g, s->kind)) continue;
        if (!infer__module_there(i, g->driver->form)) continue; /* not in this build */
        infer__error_clear(&why);
        if (infer__gpu_compile(g, i, &why)) infer__log(g->report, 2, "%s; going on without them", why.message);
    }
}

/* Compile a module unless that was done. Two threads may ask at once. */
static infer_result infer__gpu_load(infer__gpu *g, int32_t module, infer_error *err) {
    infer_result r = INFER_OK;
    infer__mutex_lock(&g->lock);
    if (!g->programs[module]) {
        r = infer__gpu_compile(g, module, err);
        if (!r) infer__gpu_load_special(g, module);
    }
    infer__mutex_unlock(&g->lock);
    return r;
}

/* ---- programs side by side --------------------------------------------------------------------------------------- */

enum { INFER__GPU_COMPILERS = 8 /* threads, at most */ };

typedef struct infer__gpu_job {
    int32_t module;
    void *block;
    const char *pieces[INFER__MODULE_FILES];
    infer__gpu_source source;
    infer__gpu_built built;
    double start;
} infer__gpu_job;

typedef struct infer__gpu_jobs {
    infer__gpu *g;
    infer__gpu_job *jobs;
    int32_t n;
    infer__atomic next;
} infer__gpu_jobs;

static void infer__gpu_compiler(void *arg) {
    infer__gpu_jobs *all = (infer__gpu_jobs *)arg;
    int64_t i;
    while ((i = infer__atomic_add(&all->next, 1)) < all->n) {
        all->jobs[i].start = infer__seconds();
        all->g->driver->build(all->g->device, &all->jobs[i].source, &all->jobs[i].built);
    }
}

/* A job for a program that the uses need and that is not in the caller's cache. 0: no memory. */
static int infer__gpu_job_add(infer__gpu_jobs *all, int32_t module) {
    infer__gpu *g = all->g;
    infer__gpu_job *j = &all->jobs[all->n];
    infer_error ignored;
    j->module = module;
    j->start = infer__seconds();
    infer__gpu_source_name(g, module, &j->source);
    if (g->driver->cached(g->device, &j->source, &g->programs[module])) {
        infer__gpu_compiled(g, module, INFER_OK, j->start, NULL, NULL);
        return 1;
    }
    infer__error_clear(&ignored);
    if (infer__gpu_source_open(g, module, &j->source, j->pieces, &j->block, &ignored)) return 0;
    all->n++;
    return 1;
}

/* Programs are taken in order, whichever was ready first. A failed generic one is left for infer__gpu_load, which
 * reports it; a failed special one is only logged. */
static void infer__gpu_jobs_take(infer__gpu_jobs *all) {
    infer__gpu *g = all->g;
    infer_error said, why;
    infer_result r;
    int32_t i;
    for (i = 0; i < all->n; i++) {
        infer__gpu_job *j = &all->jobs[i];
        infer__error_clear(&said);
        infer__error_clear(&why);
        r = g->driver->take(g->device, &j->source, &j->built, &g->programs[j->module], &said);
        r = infer__gpu_compiled(g, j->module, r, j->start, &said, &why);
        if (r && infer__module_at(j->module)->kind >= INFER__MODULE_SPECIAL)
            infer__log(g->report, 2, "%s; going on without them", why.message);
        infer__free(g->mem, j->block);
    }
}

static void infer__gpu_use_all(infer__gpu *g, const infer__gpu_uses *u) {
    infer__thread threads[INFER__GPU_COMPILERS];
    infer__gpu_jobs all;
    int32_t i, n = 0, most = INFER__MIN(infer__cores(), INFER__GPU_COMPILERS);
    infer__gpu_want(g, u);
    if (!g->driver->build) return;
    all.g = g;
    all.n = 0;
    infer__atomic_set(&all.next, 0);
    all.jobs = (infer__gpu_job *)infer__calloc(g->mem, INFER__MODULE_COUNT, sizeof *all.jobs);
    if (!all.jobs) return;
    infer__mutex_lock(&g->lock);
    for (i = 0; i < INFER__MODULE_COUNT; i++)
        if (!g->programs[i] && !g->dropped[i] && infer__gpu_uses_module(g, i, u) &&
            infer__module_there(i, g->driver->form) && !infer__gpu_job_add(&all, i))
            break;
    while (n < most - 1 && n < all.n - 1 && infer__thread_start(&threads[n], infer__gpu_compiler, &all)) n++;
    infer__gpu_compiler(&all);
    for (i = 0; i < n; i++) infer__thread_join(&threads[i]);
    infer__gpu_jobs_take(&all);
    infer__mutex_unlock(&g->lock);
    infer__free(g->mem, all.jobs);
}

/* Fill driver and info of g, and *at, the driver's number for the device. */
static infer_result infer__gpu_choose(infer__gpu *g, const infer__driver *const *drivers, int32_t backend,
                                      int32_t device, int32_t *at, infer_error *err) {
    const infer__driver *wanted = infer__driver_find(drivers, backend);
    char why_not[sizeof g->info.why_not] = "";
    int32_t i;
    if (!wanted) return infer__gpu_absent(backend, err);
    if (device >= 0) {
        g->driver = infer__gpu_row(drivers, device, &g->info, at);
        if (!g->driver)
            return infer__error(err, INFER_ERR_ARGUMENT, "GPU %d: there are %d", (int)device,
                                (int)infer__gpu_count_in(drivers));
        if (g->driver != wanted)
            return infer__error(err, INFER_ERR_ARGUMENT, "%s is a device of backend %s, not %s", infer__gpu_name(g),
                                g->driver->name, wanted->name);
        if (*at >= 0 && g->info.usable) return INFER_OK;
        return infer__error(err, INFER_ERR_DEVICE, "%s cannot be used: %s", infer__gpu_name(g), g->info.why_not);
    }
    for (i = 0; (g->driver = infer__gpu_row(drivers, i, &g->info, at)) != NULL; i++) {
        if (g->driver != wanted) continue;
        if (*at >= 0 && g->info.usable) return INFER_OK;
        if (!why_not[0]) memcpy(why_not, g->info.why_not, sizeof why_not); /* of the best one */
    }
    return infer__error(err, INFER_ERR_DEVICE, "backend %s has no usable device: %s", wanted->name, why_not);
}

static infer_result infer__gpu_start(infer__gpu *g, int32_t at, infer_error *err) {
    infer__signals signals;
    infer_error why;
    infer_result r;
    infer__error_clear(&why);
    g->has_lock = infer__mutex_init(&g->lock);
    if (!g->has_lock) return infer__error(err, INFER_ERR_MEMORY, "no mutex for a GPU");
    infer__signals_block(&signals); /* for threads that the driver starts */
    r = g->driver->open(&g->device, g->mem, at, &why);
    if (r) g->device = NULL;
    if (!r && (r = g->driver->queue_open(&g->queue, g->device, &why)) != INFER_OK) g->queue = NULL;
    infer__signals_restore(&signals);
    return r ? infer__gpu_named(g, r, "", &why, err) : INFER_OK;
}

static infer_result infer__gpu_use_base(infer__gpu *g, infer_error *err) {
    return infer__gpu_load(g, infer__gpu_module(INFER__MODULE_BASE, 0), err);
}

/* A device that is not open yet; NULL when there is no memory. */
static infer__gpu *infer__gpu_new(infer__mem *mem, const infer__report *report, const infer_cache *cache) {
    infer__gpu *g = (infer__gpu *)infer__calloc(mem, 1, sizeof *g);
    if (!g) return NULL;
    g->mem = mem;
    g->report = report;
    if (cache) g->cache = *cache;
    return g;
}

static infer_result infer__gpu_open_row(infer__apis apis, infer__gpu **out, infer__mem *mem,
                                        const infer__report *report, int32_t row, const infer_cache *cache,
                                        infer_error *err) {
    infer_device_info info;
    int32_t at = -1;
    infer_result r;
    infer__gpu *g = infer__gpu_new(mem, report, cache);
    *out = NULL;
    if (!g) return infer__error(err, INFER_ERR_MEMORY, "no memory for a GPU");
    apis = apis ? apis : infer__drivers;
    infer__gpu_info_in(apis, row, &info);
    r = infer__gpu_choose(g, apis, info.backend, row, &at, err);
    if (!r) r = infer__gpu_start(g, at, err);
    if (r) infer__gpu_close(g);
    else *out = g;
    return r;
}

/* infer__gpu_open, with the APIs to choose from. */
static infer_result infer__gpu_open_in(infer__apis drivers, infer__gpu **out, infer__mem *mem,
                                       const infer__report *report, int32_t backend, int32_t device,
                                       const infer_cache *cache, infer_error *err) {
    int32_t at = -1;
    infer_result r;
    infer__gpu *g = infer__gpu_new(mem, report, cache);
    *out = NULL;
    if (!g) return infer__error(err, INFER_ERR_MEMORY, "no memory for a GPU");
    r = infer__gpu_choose(g, drivers, backend, device, &at, err);
    if (!r) r = infer__gpu_start(g, at, err);
    if (!r) r = infer__gpu_use_base(g, err);
    if (r) infer__gpu_close(g);
    else *out = g;
    return r;
}

static infer_result infer__gpu_open(infer__gpu **out, infer__mem *mem, const infer__report *report, int32_t backend,
                                    int32_t device, const infer_cache *cache, infer_error *err) {
    return infer__gpu_open_in(infer__drivers, out, mem, report, backend, device, cache, err);
}

static void infer__gpu_close(infer__gpu *g) {
    infer_error ignored;
    int32_t i;
    if (!g) return;
    if (g->queue) {
        infer__error_clear(&ignored);
        g->driver->sync(g->queue, &ignored); /* uploads may still read the caller's memory */
        g->driver->queue_close(g->queue);
    }
    for (i = 0; i < INFER__MODULE_COUNT; i++)
        if (g->programs[i]) g->driver->unload(g->device, g->programs[i]);
    if (g->device) g->driver->close(g->device);
    if (g->has_lock) infer__mutex_destroy(&g->lock);
    infer__free(g->mem, g);
}

/* An API without devices has a row without a name. */
static const char *infer__gpu_name(const infer__gpu *g) {
    return g->info.name[0] ? g->info.name : g->driver->name;
}

static uint64_t infer__gpu_memory(const infer__gpu *g) {
    uint64_t most = g->info.total / 10 * 9, known = g->driver->memory ? g->driver->memory(g->device) : 0;
    if (known) return known;
    /* free equals the total if the API does not report it */
    return g->info.free && g->info.free < most ? g->info.free : most;
}

static uint64_t infer__gpu_largest(const infer__gpu *g) {
    uint64_t n = g->driver->largest ? g->driver->largest(g->device) : 0;
    return n ? n : UINT64_MAX;
}

static const infer__driver *infer__gpu_driver(const infer__gpu *g) { return g->driver; }
static void *infer__gpu_device(const infer__gpu *g) { return g->device; }
static const infer__report *infer__gpu_report(const infer__gpu *g) { return g->report; }
static const infer_cache *infer__gpu_cache(const infer__gpu *g) { return &g->cache; }

/* ---- programs --------------------------------------------------------------------------------------------------- */

static int infer__gpu_has_type(const infer__quant *type) {
    return infer__gpu_module(INFER__MODULE_TYPE, type->id) >= 0;
}

static infer_result infer__gpu_use_type(infer__gpu *g, const infer__quant *type, infer_error *err) {
    int32_t module = infer__gpu_module(INFER__MODULE_TYPE, type->id);
    if (module < 0)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "there are no GPU kernels for type %s", type->name);
    return infer__gpu_load(g, module, err);
}

static infer_result infer__gpu_use_kv(infer__gpu *g, int32_t kv_type, infer_error *err) {
    int32_t module = infer__gpu_module(INFER__MODULE_KV, kv_type);
    if (module < 0)
        return infer__error(err, INFER_ERR_UNSUPPORTED, "there are no GPU kernels for kv_type %d", (int)kv_type);
    return infer__gpu_load(g, module, err);
}

/* The program of a kind and id, NULL when it has not been compiled. */
static void *infer__gpu_program(infer__gpu *g, int32_t kind, int32_t id) {
    int32_t module = infer__gpu_module(kind, id);
    void *program;
    if (module < 0) return NULL;
    infer__mutex_lock(&g->lock);
    program = g->programs[module];
    infer__mutex_unlock(&g->lock);
    return program;
}

static int infer__gpu_has_program(infer__gpu *g, int32_t kind, int32_t id) {
    return infer__gpu_program(g, kind, id) != NULL;
}

static infer_result infer__gpu_kernel(infer__gpu *g, void *queue, int32_t kernel, int32_t id, void **out,
                                      infer_error *err) {
    const infer__kernel_row *row = &INFER__KERNELS[kernel];
    void *program = infer__gpu_program(g, row->kind, id);
    infer_error why;
    infer_result r;
    *out = NULL;
    if (!program)
        return infer__error(err, INFER_ERR_STATE, "%s: no program has been compiled for kernel %s (id %d)",
                            infer__gpu_name(g), row->name, (int)id);
    infer__error_clear(&why);
    r = g->driver->kernel_open(out, queue, program, row->name, row->group, &why);
    if (!r && row->shared > 0) {
        r = g->driver->shared(queue, *out, row->shared, &why);
        if (r) g->driver->kernel_close(queue, *out);
    }
    if (!r && row->early && g->driver->early) g->driver->early(queue, *out);
    if (!r) return INFER_OK;
    *out = NULL;
    return infer__gpu_named(g, r, infer__module_at(infer__gpu_module(row->kind, id))->name, &why, err);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static infer_result infer__gpu_alloc(infer__gpu *g, infer__buf *b, uint64_t bytes, infer_error *err) {
    char what[40];
    infer_error why;
    infer_result r;
    memset(b, 0, sizeof *b);
    if (bytes == 0) return INFER_OK;
    infer__error_clear(&why);
    r = g->driver->alloc(g->device, bytes, &b->handle, &why);
    if (!r) {
        b->bytes = bytes;
        infer__atomic_add(&g->used, (int64_t)bytes);
        return INFER_OK;
    }
    b->handle = 0;
    infer__format(what, sizeof what, "%llu bytes", (unsigned long long)bytes);
    return infer__gpu_named(g, r, what, &why, err);
}

static void infer__gpu_free(infer__gpu *g, infer__buf *b) {
    if (b->bytes) g->driver->release(g->device, b->handle);
    infer__atomic_add(&g->used, -(int64_t)b->bytes);
    memset(b, 0, sizeof *b);
}

static infer_result infer__gpu_write(infer__gpu *g, infer__buf *b, uint64_t offset, const void *src, uint64_t bytes,
                                     infer_error *err) {
    infer_error why;
    infer_result r;
    INFER__ASSERT(offset <= b->bytes && bytes <= b->bytes - offset);
    if (bytes == 0) return INFER_OK;
    infer__error_clear(&why);
    r = g->driver->upload(g->queue, b->handle, offset, src, bytes, &why);
    return r ? infer__gpu_named(g, r, "upload", &why, err) : INFER_OK;
}

static uint64_t infer__gpu_used(const infer__gpu *g) { return (uint64_t)infer__atomic_get(&g->used); }

static infer_result infer__gpu_flush(infer__gpu *g, infer_error *err) {
    infer_error why;
    infer_result r;
    infer__error_clear(&why);
    r = g->driver->sync(g->queue, &why);
    return r ? infer__gpu_named(g, r, "", &why, err) : INFER_OK;
}

#else /* INFER_NO_GPU: no API, so no device, and nothing below is ever reached with one */

static int infer__gpu_has_backend(int32_t backend) { (void)backend; return 0; }
static int32_t infer__gpu_count(void) { return 0; }
static int infer__gpu_info_in(infer__apis apis, int32_t row, infer_device_info *out) {
    (void)apis; (void)row;
    memset(out, 0, sizeof *out);
    return 0;
}
static int32_t infer__gpu_api(infer__apis apis, int32_t index) { (void)apis; (void)index; return -1; }
static int32_t infer__gpu_rows(infer__apis apis, int32_t backend, int all, int32_t *rows, int32_t cap, char *why_not,
                               size_t why_cap) {
    (void)apis; (void)backend; (void)all; (void)rows; (void)cap;
    infer__format(why_not, why_cap, "it is not in this build");
    return 0;
}
static int32_t infer__gpu_automatic(infer__apis apis, int takes_gpus) { (void)apis; (void)takes_gpus; return -1; }
static infer_result infer__gpu_open_row(infer__apis apis, infer__gpu **out, infer__mem *mem,
                                        const infer__report *report, int32_t row, const infer_cache *cache,
                                        infer_error *err) {
    (void)apis; (void)mem; (void)report; (void)row; (void)cache;
    *out = NULL;
    return infer__gpu_absent(INFER_AUTO, err);
}
static infer_result infer__gpu_use_base(infer__gpu *g, infer_error *err) {
    (void)g;
    return infer__gpu_absent(INFER_AUTO, err);
}
static void infer__gpu_info(int32_t index, infer_device_info *out) { (void)index; memset(out, 0, sizeof *out); }
static infer_result infer__gpu_open(infer__gpu **out, infer__mem *mem, const infer__report *report, int32_t backend,
                                    int32_t device, const infer_cache *cache, infer_error *err) {
    (void)mem; (void)report; (void)device; (void)cache;
    *out = NULL;
    return infer__gpu_absent(backend, err);
}
static void infer__gpu_close(infer__gpu *g) { (void)g; }
static const char *infer__gpu_name(const infer__gpu *g) { (void)g; return ""; }
static uint64_t infer__gpu_memory(const infer__gpu *g) { (void)g; return 0; }
static uint64_t infer__gpu_largest(const infer__gpu *g) { (void)g; return UINT64_MAX; }
static int infer__gpu_has_type(const infer__quant *type) { (void)type; return 0; }
static infer_result infer__gpu_use_type(infer__gpu *g, const infer__quant *type, infer_error *err) {
    (void)g; (void)type;
    return infer__gpu_absent(INFER_AUTO, err);
}
static infer_result infer__gpu_use_kv(infer__gpu *g, int32_t kv_type, infer_error *err) {
    (void)g; (void)kv_type;
    return infer__gpu_absent(INFER_AUTO, err);
}
static infer_result infer__gpu_alloc(infer__gpu *g, infer__buf *b, uint64_t bytes, infer_error *err) {
    (void)g; (void)bytes;
    memset(b, 0, sizeof *b);
    return infer__gpu_absent(INFER_AUTO, err);
}
static void infer__gpu_free(infer__gpu *g, infer__buf *b) { (void)g; memset(b, 0, sizeof *b); }
static infer_result infer__gpu_write(infer__gpu *g, infer__buf *b, uint64_t offset, const void *src, uint64_t bytes,
                                     infer_error *err) {
    (void)g; (void)b; (void)offset; (void)src; (void)bytes;
    return infer__gpu_absent(INFER_AUTO, err);
}
static uint64_t infer__gpu_used(const infer__gpu *g) { (void)g; return 0; }
static infer_result infer__gpu_judge(infer__gpu *g, const infer__gpu_uses *u, infer__mem *mem, int known_only,
                                     infer_error *err) {
    (void)g; (void)u; (void)mem; (void)known_only;
    return infer__gpu_absent(INFER_AUTO, err);
}
static infer_result infer__gpu_check(infer__gpu *g, const infer__gpu_uses *u, infer__mem *mem, infer_kernel_fn tell,
                                     void *user, int32_t *verdict, infer_error *err) {
    (void)g; (void)u; (void)mem; (void)tell; (void)user; (void)verdict;
    return infer__gpu_absent(INFER_AUTO, err);
}
static void infer__gpu_uses_all(infer__gpu_uses *u) { memset(u, 0, sizeof *u); }
static void infer__gpu_use_all(infer__gpu *g, const infer__gpu_uses *u) { (void)g; (void)u; }
static infer_result infer__gpu_flush(infer__gpu *g, infer_error *err) {
    (void)g;
    return infer__gpu_absent(INFER_AUTO, err);
}

#endif
