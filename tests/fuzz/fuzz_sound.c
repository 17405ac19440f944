/* fuzz_sound.c: libFuzzer target for sounds. The first byte chooses the rate that is asked for, the second one whether the rest is a
 * file in memory, a file behind callbacks, of which one reads too little, with an allocation that fails, or samples.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Itests tests/fuzz/fuzz_sound.c -o fuzz_sound -lm
 *     ./fuzz_sound -max_len=4096 tests/fuzz/corpus_sound
 *
 * -DFUZZ_SEEDS gives a main of its own that writes the seeds into the folder named. */
#include "../text_parts.c"
#include "../../src/api/media/media_api.c"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int32_t rates[] = { 0, 16000, 8000, 44100, 16001 };
    fuzz_in in = { data, size };
    uint32_t rate = fuzz_below(&in, 5), mode = fuzz_byte(&in), choice = 0;
    infer_media_params params;
    infer_sound sound;
    infer_error err;
    infer_result r;
    fuzz_heap heap;
    fuzz_file file = { 0 };
    infer_io io = { 0 };
    uint8_t *copy;
    size_t i;
    memset(&params, 0, sizeof params);
    params.allocator = fuzz_allocator(&heap);
    params.rate = rates[rate];
    params.max_seconds = 2;
    params.max_memory = 64 << 20;
    if (mode % 3 == 1) choice = fuzz_byte(&in);
    copy = (uint8_t *)malloc(in.n + 8);
    if (!copy) __builtin_trap();
    if (in.n) memcpy(copy, in.p, in.n);
    if (mode % 3 == 2) {
        r = infer_sound_convert(&sound, (const float *)(void *)copy, in.n / 8, 2, (int32_t)(1000 + 250 * mode), &params, &err);
    } else if (mode % 3 == 1) {
        file.p = copy;
        file.n = in.n;
        file.fail_at = choice & 15;
        heap.fail_at = choice >> 4;
        io.user = &file;
        io.read = fuzz_read;
        io.size = in.n;
        r = infer_sound_open_io(&sound, &io, &params, &err);
    } else {
#if defined(FUZZ_POISON)
        ASAN_POISON_MEMORY_REGION(copy + in.n, 8);
#endif
        r = infer_sound_decode(&sound, copy, in.n, &params, &err);
#if defined(FUZZ_POISON)
        ASAN_UNPOISON_MEMORY_REGION(copy + in.n, 8);
#endif
    }
    if (r == INFER_ERR_MEMORY && !heap.fail_at) fuzz_stop("more memory than a sound of that length takes");
    if (r > 0 || (r == INFER_OK) != (sound.samples != NULL) || err.code != r || (r && !err.message[0])) fuzz_stop("the result");
    if (r == INFER_OK && (sound.n == 0 || (params.rate && sound.rate != params.rate))) fuzz_stop("the length or the rate");
    for (i = 0; i < sound.n; i++)
        if (sound.samples[i] != sound.samples[i]) fuzz_stop("not a number");
    infer_sound_free(&sound);
    if (heap.live) fuzz_stop("memory is left");
    free(copy);
    return 0;
}

#if defined(FUZZ_SEEDS)
int main(int argc, char **argv) {
    static const struct { const char *name; int tag, bits; } kinds[] = { { "pcm8", 1, 8 }, { "pcm16", 1, 16 }, { "pcm24", 1, 24 }, { "float", 3, 32 },
                                                                         { "double", 3, 64 }, { "alaw", 6, 8 }, { "mulaw", 7, 8 } };
    const char *dir = argc > 1 ? argv[1] : ".";
    size_t i, k;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint8_t f[2 + 44 + 96] = { 0 };
        char path[1024];
        FILE *out;
        f[0] = (uint8_t)(i % 5);
        memcpy(f + 2, "RIFF\0\0\0\0WAVEfmt \x10\0\0\0", 20);
        f[22] = (uint8_t)kinds[i].tag;
        f[24] = 2;
        f[26] = 0x40, f[27] = 0x1f; /* 8000 */
        f[34] = (uint8_t)(2 * kinds[i].bits / 8);
        f[36] = (uint8_t)kinds[i].bits;
        memcpy(f + 38, "data\x60\0\0\0", 8);
        for (k = 46; k < sizeof f; k++) f[k] = (uint8_t)(k * 11 % 64);
        snprintf(path, sizeof path, "%s/%s", dir, kinds[i].name);
        out = fopen(path, "wb");
        if (!out || fwrite(f, 1, sizeof f, out) != sizeof f) fprintf(stderr, "cannot write %s\n", path);
        if (out) fclose(out);
    }
    return 0;
}
#endif
