/* io.c: infer__source: one file to read from, of any kind.
 *
 * Owns:  the three origins of a file (path, memory, callbacks) behind one struct and one bounds-checked read.
 * Rules: knows nothing of GGUF. io.mapped is either NULL or the whole file at an address aligned to 32 bytes, so that
 *        no other code has to check alignment. A source is zero before it is opened and after it is closed; closing a
 *        source that failed to open is fine.
 * Start: infer__source_read.
 */
#include "format.h"

#define INFER__MAP_ALIGN 32 /* what the public interface asks of a buffer */

static int infer__source_aligned(const void *p) { return ((uintptr_t)p & (INFER__MAP_ALIGN - 1)) == 0; }

static size_t infer__source_read_file(void *user, uint64_t offset, void *dst, size_t n) {
    return infer__file_read((infer__file *)user, offset, dst, n);
}

/* A caller's mapping at an odd address: read like a file, so that tensors get aligned memory of their own. */
static size_t infer__source_read_bytes(void *user, uint64_t offset, void *dst, size_t n) {
    memcpy(dst, (const uint8_t *)user + offset, n);
    return n;
}

static infer_result infer__source_open_path(infer__source *s, const char *path, int want_map, infer_error *err) {
    infer_result r;
    memset(s, 0, sizeof *s);
    r = infer__file_open(&s->file, path, want_map, err);
    if (r != INFER_OK) return r;
    s->io.user = &s->file;
    s->io.read = infer__source_read_file;
    s->io.size = s->file.size;
    s->io.mapped = s->file.map; /* NULL when it was not wanted or the system could not: then it is read */
    return INFER_OK;
}

static infer_result infer__source_open_memory(infer__source *s, infer__mem *mem, const void *data, uint64_t size,
                                              infer_error *err) {
    memset(s, 0, sizeof *s);
    if (!data && size != 0) return infer__error(err, INFER_ERR_ARGUMENT, "data is NULL");
    s->io.size = size;
    s->io.mapped = data;
    if (size == 0 || infer__source_aligned(data)) return INFER_OK;
    s->copy = infer__alloc(mem, size);
    if (!s->copy) {
        memset(s, 0, sizeof *s);
        return infer__error(err, INFER_ERR_MEMORY,
                            "no memory to copy the file (%llu bytes), whose buffer is not aligned "
                            "to %d bytes",
                            (unsigned long long)size, INFER__MAP_ALIGN);
    }
    memcpy(s->copy, data, (size_t)size);
    s->io.mapped = s->copy;
    return INFER_OK;
}

static infer_result infer__source_open_io(infer__source *s, const infer_io *io, infer_error *err) {
    memset(s, 0, sizeof *s);
    if (!io->read && !io->mapped) return infer__error(err, INFER_ERR_ARGUMENT, "io has neither read nor mapped");
    s->io = *io;
    if (io->mapped && !infer__source_aligned(io->mapped)) {
        union { const void *in; void *out; } p; /* io.user is not const, but it is only read through */
        p.in = io->mapped;
        s->io.user = p.out;
        s->io.read = infer__source_read_bytes;
        s->io.mapped = NULL;
    }
    return INFER_OK;
}

static infer_result infer__source_read(infer__source *s, uint64_t offset, void *dst, uint64_t n, infer_error *err) {
    const uint64_t most = (uint64_t)1 << 30; /* in one call: some systems fail above 2 GiB */
    uint8_t *to = (uint8_t *)dst;
    if (offset > s->io.size || n > s->io.size - offset)
        return infer__error(err, INFER_ERR_IO, "%llu bytes at byte %llu are past the end of the file (%llu bytes)",
                            (unsigned long long)n, (unsigned long long)offset, (unsigned long long)s->io.size);
    if (n == 0) return INFER_OK;
    if (s->io.mapped && !s->file.map) { /* a mapping of ours is read as a file: that cannot end the process */
        memcpy(to, (const uint8_t *)s->io.mapped + offset, (size_t)n);
        return INFER_OK;
    }
    while (n > 0) {
        size_t part = (size_t)INFER__MIN(n, most), got = s->io.read(s->io.user, offset, to, part);
        if (got != part)
            return infer__error(err, INFER_ERR_IO, "reading %llu bytes at byte %llu gave %llu",
                                (unsigned long long)part, (unsigned long long)offset, (unsigned long long)got);
        to += part;
        offset += part;
        n -= part;
    }
    return INFER_OK;
}

static infer_result infer__source_whole(const infer__source *s, infer_error *err) {
    uint64_t size;
    if (infer__file_whole(&s->file, &size)) return INFER_OK;
    return infer__error(err, INFER_ERR_IO,
                        "the model's file was shortened while it is mapped, from %llu bytes to %llu (no_mmap protects "
                        "from that)",
                        (unsigned long long)s->file.size, (unsigned long long)size);
}

static void infer__source_close(infer__source *s, infer__mem *mem) {
    infer__free(mem, s->copy);
    infer__free(mem, s->head);
    if (s->file.handle) infer__file_close(&s->file);
    memset(s, 0, sizeof *s);
}
#undef INFER__MAP_ALIGN
