/* files.h: what the commands that work on files share: hash, diff, edit, split, merge.
 *
 * They need what the library's interface does not give: a tensor's bytes as they are stored, values of metadata bit for
 * bit, and files that the library refuses to open, because an edit may be what they lack. So gguf_read.c reads the
 * format itself. Little-endian files of versions 2 and 3. Functions return 0 after saying what is wrong.
 */
#ifndef FILES_H
#define FILES_H

#include "../cli.h"
#include "../synth/gguf_write.h"

/* ---- gguf_read.c, gguf_parts.c --------------------------------------------------------------- */

enum { GGUF_ARRAY_HEAD = 12 }; /* bytes before an array's elements: their type and number */
extern const unsigned char value_sizes[GGUF_N_TYPES]; /* bytes; 0 = it varies */

typedef struct file_key {
    char *name;
    uint32_t type, element; /* element: of an array */
    uint64_t n;             /* elements of an array, else 1 */
    unsigned char *value;   /* as it is stored after the type */
    size_t bytes;
} file_key;

typedef struct file_tensor {
    char *name;
    uint32_t type, natural; /* natural: what it is written in where no type is asked for; the same, but for folders with F8 weights */
    int n_dims;
    uint64_t dims[4], rows; /* dims[0] is the length of a row; unused ones are 1; rows = dims[1] * dims[2] * dims[3] */
    uint64_t offset, bytes; /* from the start of its part */
    int part;
} file_tensor;

/* A model: one file, the parts of a split one, or a Hugging Face folder. Zero-initialised: closed. */
typedef struct file_model {
    const char *command, *path; /* of the first part */
    file_key *keys;             /* of the first part, as in the file */
    file_tensor *tensors;       /* of all parts, as in the files */
    size_t n_keys, n_tensors;
    int n_parts;
    uint64_t data_bytes; /* of all tensors */
    FILE *file;          /* the part that is open, and where it is */
    int open_part;
    uint64_t at;
    int *was;            /* quantize --prune-layers: the numbers that layers had; NULL = the same */
    struct checkpoint *folder; /* a Hugging Face folder, read as a model: the tensors' data comes from it; or NULL */
} file_model;

enum { FILE_MAX_PARTS = 4096 }; /* as the library has it */
int file_open(file_model *m, const char *command, const char *path);
/* Of a folder: the pre-tokenizer's name, or the path of the model that an adapter is for; see convert/convert.h. NULL = it says so itself. */
int file_open_with(file_model *m, const char *command, const char *path, const char *pre, const char *base);
const char *file_base(const file_model *m); /* the path of the model that a folder with an adapter is for; NULL = it is none */
void file_close(file_model *m);
/* n bytes of a tensor from `offset` on. */
int file_read(file_model *m, const file_tensor *t, uint64_t offset, void *to, size_t n);
/* The path of a part, to be freed. */
char *file_part_path(const file_model *m, int part);
int file_is_part(const file_model *m, const char *path); /* is it one of the model's files? */
const file_key *file_find_key(const file_model *m, const char *name);
const file_tensor *file_find_tensor(const file_model *m, const char *name); /* NULL = there is none; looks at all */
int file_is_split(const char *key); /* split.*: which part of a split model a file is */
/* All keys but these, to be freed. */
const file_key **file_whole_keys(const file_model *m, size_t *n);
/* Those and general.alignment: how contents are laid out in files. Models that differ in these alone are the same. */
int file_is_layout(const char *key);
/* The alignment that these keys ask for, or 0. */
uint64_t file_alignment(const char *command, const char *path, const file_key *keys, size_t n);
/* Keys but those of layout, and tensors, by name; to be freed. */
const file_key **file_sorted_keys(const file_model *m, size_t *n);
const file_tensor **file_sorted_tensors(const file_model *m);
int file_measure(const file_model *m, const char *path, file_tensor *t); /* rows and bytes, by type and dims; path: for messages */
/* The header of the file that is open, whose path this is: adds its keys and tensors. */
int file_read_header(file_model *m, const char *path, int part);
void file_drop_keys(file_model *m, size_t from);
void file_drop_tensor(file_model *m, size_t i);
size_t file_value_bytes(uint32_t type, const unsigned char *p); /* of a value that is known to be in order */
/* A scalar, or a string, at p. Returns the bytes it takes. */
size_t value_decode(uint32_t type, const unsigned char *p, infer_meta *out);

/* ---- write.c -------------------------------------------------------------------------------- */

/* A file being written under another name. To be given to out_free in any case; zero-initialised: none. */
typedef struct out_file {
    const char *command, *path;
    char *part; /* the other name */
    gguf_out out;
    int renamed;
} out_file;
typedef struct out_progress {
    cli_progress bar;
    uint64_t done; /* of the input's data_bytes */
} out_progress;
int out_open(out_file *o, const char *command, const char *path);
/* A tensor's data as it is. An exit status; a failed write is found when the file is closed. */
int out_copy(gguf_out *out, file_model *in, const file_tensor *t, out_progress *p);
int out_close(out_file *o);
int out_rename(out_file *o);
/* kept = 0: the file is removed, under either name. */
void out_free(out_file *o, int kept);

/* ---- write_model.c -------------------------------------------------------------------------- */

/* A model to be written, to one file or to several. Zero-initialised, the caller sets what is above the line. */
typedef struct out_model {
    file_model *in;
    const file_key *const *keys;
    size_t n_keys;
    const file_tensor *tensors; /* in->n_tensors, as they are written; NULL = as they are */
    uint64_t alignment;
    int64_t max_size, max_tensors; /* of a file; 0 = no limit */
    int keep_split;                /* in files as the input is */
    const char *doing;             /* for the progress bar; NULL = "writing" */
    int (*data)(void *user, gguf_out *out, size_t i, out_progress *p); /* writes that of a tensor; NULL = out_copy. An exit status */
    int (*check)(void *user, const char *path);                       /* of what was written, before it gets its name; or NULL */
    void *user;
    /* ---- set by out_plan */
    uint64_t header_bytes, bytes; /* of all files */
    size_t *first;                /* n_files + 1: the first tensor of each, then their number */
    int n_files;
    char **paths; /* of files; by out_write */
} out_model;
int out_is_split(const out_model *m); /* is it to be written in parts? */
/* Which tensors go into which file. */
int out_plan(out_model *m);
/* The same, and writes them: to this path, or to PATH-00001-of-0000N.gguf and so on, where PATH loses its .gguf. An exit status. */
int out_write(out_model *m, const char *path);
void out_model_free(out_model *m);

/* ---- value_parse.c -------------------------------------------------------------------------- */

/* The type that a word names: "u32", or "u32[]" with GGUF_ARRAY to *type and the elements' to *element. 0 = none. */
int value_type_named(const char *word, uint32_t *type, uint32_t *element);
/* The value of k's type (and element) that a text spells, to k->value, which is to be freed. */
int value_parse(const char *command, file_key *k, const char *text);

/* ---- value_text.c --------------------------------------------------------------------------- */

void value_print(const file_key *k, int json, int full);
void value_print_name(const char *name); /* of a key or a tensor, for people */
void value_print_type(const file_key *k); /* "u32", "string[]" */

/* ---- sha256.c ------------------------------------------------------------------------------- */

typedef struct sha256 {
    uint32_t state[8];
    unsigned char block[64];
    uint64_t n; /* bytes so far */
} sha256;
enum { SHA256_BYTES = 32 };
void sha256_begin(sha256 *s);
void sha256_add(sha256 *s, const void *p, size_t n);
void sha256_end(sha256 *s, unsigned char out[SHA256_BYTES]);

#endif
