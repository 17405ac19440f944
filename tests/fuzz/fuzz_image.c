/* fuzz_image.c: libFuzzer target for pictures. The first byte says how the others are used: as a file in memory; as a file
 * behind callbacks, of which one reads too little, with an allocation that fails; as a PNG whose checksums are put right, so that
 * what lies behind them is reached; as the filtered rows of a PNG; as deflate data alone.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Itests tests/fuzz/fuzz_image.c -o fuzz_image -lm
 *     ./fuzz_image -max_len=4096 tests/fuzz/corpus_image
 *
 * -DFUZZ_SEEDS gives a main of its own that writes the seeds of PNG and PPM into the folder named; those of JPEG are
 * Pillow's, after a first byte of 0. */
#include "../text_parts.c"
#include "../../src/api/media/media_api.c"
#include "fuzz.h"

static volatile unsigned fuzz_sink; /* so that nothing is optimised away */

static uint32_t fuzz_crc(const uint8_t *p, size_t n) {
    uint32_t c = 0xffffffffu;
    size_t i;
    int k;
    for (i = 0; i < n; i++)
        for (c ^= p[i], k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    return ~c;
}
static void fuzz_big(uint8_t *p, uint32_t v) {
    int i;
    for (i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Puts the checksums of chunks right. */
static void fuzz_repair(uint8_t *p, size_t n) {
    size_t at = 8;
    while (n >= 12 && at <= n - 12) {
        size_t length = infer__png_u32(p + at);
        if (length > n - at - 12) return;
        fuzz_big(p + at + 8 + length, fuzz_crc(p + at + 4, length + 4));
        at += length + 12;
    }
}

static uint8_t *fuzz_chunk(uint8_t *to, const char *type, const uint8_t *data, size_t n) {
    fuzz_big(to, (uint32_t)n);
    memcpy(to + 4, type, 4);
    if (n) memcpy(to + 8, data, n);
    fuzz_big(to + 8 + n, fuzz_crc(to + 4, n + 4));
    return to + 12 + n;
}

/* A PNG whose size, kind and palette are the first bytes, and its stored rows the others: infer__png_rows is reached. */
static uint8_t *fuzz_rows(fuzz_in *in, size_t *n) {
    uint8_t head[13] = { 0 }, palette[3 * 256], *file, *to, *z;
    size_t colours = fuzz_byte(in), i, left;
    uint32_t sum;
    head[3] = (uint8_t)(1 + fuzz_below(in, 40));
    head[7] = (uint8_t)(1 + fuzz_below(in, 40));
    head[8] = (uint8_t)(1 << fuzz_below(in, 5));
    head[9] = (uint8_t)fuzz_below(in, 7);
    head[12] = (uint8_t)fuzz_below(in, 2);
    for (i = 0; i < 3 * colours; i++) palette[i] = (uint8_t)i;
    left = INFER__MIN(in->n, 60000);
    file = (uint8_t *)malloc(left + 1024 + 11);
    z = (uint8_t *)malloc(left + 11);
    if (!file || !z) __builtin_trap();
    memcpy(z, "\x78\x01\x01", 3);
    z[3] = (uint8_t)left, z[4] = (uint8_t)(left >> 8), z[5] = (uint8_t)~left, z[6] = (uint8_t)(~left >> 8);
    if (left) memcpy(z + 7, in->p, left);
    sum = infer__adler(z + 7, left);
    fuzz_big(z + 7 + left, sum);
    memcpy(file, "\x89PNG\r\n\x1a\n", 8);
    to = fuzz_chunk(file + 8, "IHDR", head, 13);
    if (colours) to = fuzz_chunk(to, "PLTE", palette, 3 * colours);
    to = fuzz_chunk(to, "IDAT", z, left + 11);
    to = fuzz_chunk(to, "IEND", NULL, 0);
    *n = (size_t)(to - file);
    free(z);
    return file;
}

static int fuzz_no_more(infer__inflate *z) { (void)z; return 0; }
static void fuzz_inflate(fuzz_in *in) {
    infer__inflate z;
    infer__watch watch;
    uint8_t *data = (uint8_t *)malloc(in->n + 1);
    memset(&z, 0, sizeof z);
    infer__watch_begin(&watch, NULL, 600);
    z.size = fuzz_word(in) % 4096;
    z.out = (uint8_t *)malloc(z.size + 1);
    if (!data || !z.out) __builtin_trap();
    if (in->n) memcpy(data, in->p, in->n);
    z.p = data;
    z.end = data + in->n;
    z.next = fuzz_no_more;
    z.watch = &watch;
    if (!infer__inflate_run(&z) && z.at != z.size) fuzz_stop("less than all");
    if (z.at > z.size) fuzz_stop("more than all");
    free(data);
    free(z.out);
}

static void fuzz_decode(const uint8_t *data, size_t size, int by_calls, uint32_t choice) {
    infer_media_params params;
    infer_image image;
    infer_error err;
    infer_result r;
    fuzz_heap heap;
    fuzz_file file = { data, size, 0, 0 };
    infer_io io = { 0 };
    memset(&params, 0, sizeof params);
    params.allocator = fuzz_allocator(&heap);
    params.max_pixels = 1 << 18;
    params.max_memory = 64 << 20;
    if (by_calls) {
        file.fail_at = choice & 15;
        heap.fail_at = choice >> 4;
        io.user = &file;
        io.read = fuzz_read;
        io.size = size;
        r = infer_image_open_io(&image, &io, &params, &err);
    } else {
        r = infer_image_decode(&image, data, size, &params, &err);
        if (r == INFER_ERR_MEMORY) fuzz_stop("more memory than a picture of that size takes");
    }
    if (r > 0 || (r == INFER_OK) != (image.rgb != NULL) || err.code != r || (r && !err.message[0])) fuzz_stop("the result");
    if (r == INFER_OK) {
        size_t n = (size_t)image.width * (size_t)image.height * 3, i;
        unsigned sum = 0;
        if (image.width < 1 || image.height < 1 || n > 3 << 18) fuzz_stop("the size");
        for (i = 0; i < n; i++) sum += image.rgb[i];
        fuzz_sink = sum;
    }
    infer_image_free(&image);
    if (heap.live) fuzz_stop("memory is left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = { data, size };
    uint32_t mode = fuzz_byte(&in), choice = 0;
    uint8_t *file;
    size_t n;
    if (mode % 8 == 4) {
        fuzz_inflate(&in);
        return 0;
    }
    if (mode % 8 == 3) {
        file = fuzz_rows(&in, &n);
    } else {
        if (mode % 8 == 1) choice = fuzz_byte(&in);
        n = in.n;
        file = (uint8_t *)malloc(n + 1);
        if (!file) __builtin_trap();
        if (n) memcpy(file, in.p, n);
        if (mode % 8 == 2) fuzz_repair(file, n);
    }
#if defined(FUZZ_POISON)
    if (mode % 8 != 3) ASAN_POISON_MEMORY_REGION(file + n, 1);
#endif
    fuzz_decode(file, n, mode % 8 == 1, choice);
#if defined(FUZZ_POISON)
    if (mode % 8 != 3) ASAN_UNPOISON_MEMORY_REGION(file + n, 1);
#endif
    free(file);
    return 0;
}

#if defined(FUZZ_SEEDS)
static void seed_save(const char *dir, const char *name, const void *data, size_t n) {
    char path[1024];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n) fprintf(stderr, "cannot write %s\n", path);
    if (f) fclose(f);
}

int main(int argc, char **argv) {
    static const char ppm[] = "\0P6 2 2 300\n12341234123412341234";
    static const uint8_t fixed[] = { 4, 20, 0, 0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x4e, 0x49, 0x4d, 0x4b, 0xcf, 0, 0 };
    const char *dir = argc > 1 ? argv[1] : ".";
    uint8_t rows[6 + 600], *file, out[2048];
    fuzz_in in;
    char name[32];
    size_t n, i;
    int colour;
    for (colour = 0; colour < 7; colour++) {
        memset(rows, 0, sizeof rows);
        rows[0] = 4, rows[1] = rows[2] = 7, rows[3] = (uint8_t)(colour == 3 ? 1 : 3), rows[4] = (uint8_t)colour, rows[5] = (uint8_t)(colour & 1);
        for (i = 6; i < sizeof rows; i++) rows[i] = (uint8_t)(i % 5 & 3);
        out[0] = 3;
        memcpy(out + 1, rows, sizeof rows);
        snprintf(name, sizeof name, "rows%d", colour);
        seed_save(dir, name, out, 1 + sizeof rows);
        in.p = rows;
        in.n = sizeof rows;
        file = fuzz_rows(&in, &n);
        out[0] = 2;
        memcpy(out + 1, file, n);
        snprintf(name, sizeof name, "png%d", colour);
        seed_save(dir, name, out, 1 + n);
        free(file);
    }
    seed_save(dir, "ppm", ppm, sizeof ppm - 1);
    seed_save(dir, "inflate", fixed, sizeof fixed);
    return 0;
}
#endif
