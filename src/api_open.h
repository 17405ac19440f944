/* api_open.h: the part of the public interface that opens models. Included by api.h, at the point where its types are
 * needed. */
#ifndef INFER_API_OPEN_H
#define INFER_API_OPEN_H

/* Open a GGUF file (UTF-8 path, on Windows too). For split files, name the first; the others are found beside it.
 * Weights are mapped and stay in the file. A file of any architecture opens; infer_model_info.computes tells whether
 * sessions can be created. On error *out is NULL. Close with infer_model_close.
 * Errors: IO, FORMAT (names key or tensor and offset), MEMORY, UNSUPPORTED, ARGUMENT. */
INFER_API infer_result infer_model_open(infer_model **out, const char *path, const infer_model_params *params,
                                        infer_error *err);
/* The same from a file in memory. The caller keeps ownership of the buffer, which must outlive the model; it is copied
 * when it is not aligned to 32 bytes. */
INFER_API infer_result infer_model_open_memory(infer_model **out, const void *data, size_t size,
                                               const infer_model_params *params, infer_error *err);
/* The same from callbacks: n_io files (1, or the parts of a split model in order). io is copied. Tensors are read into
 * memory unless io->mapped is set. */
INFER_API infer_result infer_model_open_io(infer_model **out, const infer_io *io, int32_t n_io,
                                           const infer_model_params *params, infer_error *err);

/* The same in slices, for loops with a frame rate: begin takes the arguments of the calls above and copies them (a file
 * in memory stays the caller's), step works for about budget_ms milliseconds (0 = the smallest piece, -1 = to the end),
 * end returns the model. Section 17 says what is not split. Callbacks of params are called by step. When begin fails,
 * *out is NULL.
 * INFER_MORE: call step again; any other result is that of the whole call (err says why) and ends it: later calls
 * return it again. INFER_ERR_STATE: another call is running it. An infer_loading belongs to one thread at a time. */
INFER_API infer_result infer_model_open_begin(infer_loading **out, const char *path, const infer_model_params *params,
                                              infer_error *err);
INFER_API infer_result infer_model_open_memory_begin(infer_loading **out, const void *data, size_t size,
                                                     const infer_model_params *params, infer_error *err);
INFER_API infer_result infer_model_open_io_begin(infer_loading **out, const infer_io *io, int32_t n_io,
                                                 const infer_model_params *params, infer_error *err);
INFER_API infer_result infer_loading_step(infer_loading *loading, int32_t budget_ms, infer_error *err);
/* Free it; NULL is accepted. If step has returned INFER_OK, *model is the open model, to be closed by
 * infer_model_close; otherwise it is NULL, and everything is freed. With model NULL a model that is open is closed,
 * too. INFER_ERR_STATE: another call is running it. */
INFER_API infer_result infer_loading_end(infer_loading *loading, infer_model **model);

/* C and C++ programs call these six with the version of the header that they were compiled with, through macros of the
 * same names. INFER_ERR_ARGUMENT when the implementation has another one and structs may differ (section 20). Other
 * languages call the functions and compare infer_version themselves, or pass the version that they were made for. */
INFER_API infer_result infer_model_open_v(infer_model **out, const char *path, const infer_model_params *params,
                                          infer_error *err, uint32_t version);
INFER_API infer_result infer_model_open_memory_v(infer_model **out, const void *data, size_t size,
                                                 const infer_model_params *params, infer_error *err, uint32_t version);
INFER_API infer_result infer_model_open_io_v(infer_model **out, const infer_io *io, int32_t n_io,
                                             const infer_model_params *params, infer_error *err, uint32_t version);
INFER_API infer_result infer_model_open_begin_v(infer_loading **out, const char *path, const infer_model_params *params,
                                                infer_error *err, uint32_t version);
INFER_API infer_result infer_model_open_memory_begin_v(infer_loading **out, const void *data, size_t size,
                                                       const infer_model_params *params, infer_error *err,
                                                       uint32_t version);
INFER_API infer_result infer_model_open_io_begin_v(infer_loading **out, const infer_io *io, int32_t n_io,
                                                   const infer_model_params *params, infer_error *err,
                                                   uint32_t version);
#define infer_model_open(out, path, params, err) \
    infer_model_open_v(out, path, params, err, INFER_VERSION)
#define infer_model_open_memory(out, data, size, params, err) \
    infer_model_open_memory_v(out, data, size, params, err, INFER_VERSION)
#define infer_model_open_io(out, io, n_io, params, err) \
    infer_model_open_io_v(out, io, n_io, params, err, INFER_VERSION)
#define infer_model_open_begin(out, path, params, err) \
    infer_model_open_begin_v(out, path, params, err, INFER_VERSION)
#define infer_model_open_memory_begin(out, data, size, params, err) \
    infer_model_open_memory_begin_v(out, data, size, params, err, INFER_VERSION)
#define infer_model_open_io_begin(out, io, n_io, params, err) \
    infer_model_open_io_begin_v(out, io, n_io, params, err, INFER_VERSION)
#endif
