/* media_tool.c: pictures and sounds by the hundred, for tests/cli/test_media.py. Reads lines, answers each with one:
 *
 *     I PATH OUT          decode a picture, its pixels to the file OUT     ok WIDTH HEIGHT | error CODE MESSAGE
 *     U PATH OUT          the same without EXIF orientation
 *     S RATE PATH OUT     decode a sound, its floats to the file OUT       ok N RATE | error CODE MESSAGE
 *     T PATH              every shorter beginning of a file                ok WHOLE ERRORS | bad LENGTH
 *                         (each fails with a message, or gives what the whole file gives)
 *     F PATH SEED N       N times some bytes changed                       ok PICTURES ERRORS
 *     B N PATH            decode it N times                                ok MILLISECONDS (the fastest)
 */
#include "text_parts.c"
#include "../src/api/media/media_api.c"
#include <stdio.h>
#include <stdlib.h>

static unsigned char *tool_read(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    unsigned char *p = NULL;
    long size;
    if (!f) return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && (p = (unsigned char *)malloc((size_t)size + 1)) != NULL) {
        rewind(f);
        *n = fread(p, 1, (size_t)size, f);
    }
    fclose(f);
    return p;
}

static int tool_write(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    int ok = f && fwrite(data, 1, n, f) == n;
    return f && fclose(f) == 0 && ok;
}

static void tool_image(const char *path, const char *out, int unrotated) {
    infer_media_params p;
    infer_image image;
    infer_error err;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.unrotated = unrotated;
    r = infer_image_open(&image, path, &p, &err);
    if (r) printf("error %d %s\n", (int)r, err.message);
    else if (!tool_write(out, image.rgb, (size_t)image.width * (size_t)image.height * 3)) printf("error 0 cannot write\n");
    else printf("ok %d %d\n", (int)image.width, (int)image.height);
    infer_image_free(&image);
}

static void tool_sound(int rate, const char *path, const char *out) {
    infer_media_params p;
    infer_sound sound;
    infer_error err;
    infer_result r;
    memset(&p, 0, sizeof p);
    p.rate = rate;
    r = infer_sound_open(&sound, path, &p, &err);
    if (r) printf("error %d %s\n", (int)r, err.message);
    else if (!tool_write(out, sound.samples, sound.n * sizeof(float))) printf("error 0 cannot write\n");
    else printf("ok %lu %d\n", (unsigned long)sound.n, (int)sound.rate);
    infer_sound_free(&sound);
}

/* What the bytes are, as one number; 0 = an error, with a message. The bytes are copied, so that ASan sees a read behind them. */
static uint64_t tool_hash(const unsigned char *bytes, size_t n, int sound) {
    infer_media_params p;
    infer_image image;
    infer_sound s;
    infer_error err;
    infer_result r;
    uint64_t h = INFER__FNV;
    unsigned char *copy = (unsigned char *)malloc(n ? n : 1);
    if (!copy) return 0;
    if (n) memcpy(copy, bytes, n);
    memset(&p, 0, sizeof p);
    p.max_pixels = 1 << 22;
    r = sound ? infer_sound_decode(&s, copy, n, &p, &err) : infer_image_decode(&image, copy, n, &p, &err);
    free(copy);
    if (r) {
        if (r > 0 || !err.message[0] || err.code != r || (sound ? (void *)s.samples : (void *)image.rgb)) abort();
        return 0;
    }
    if (sound) {
        h = infer__fnv(h, s.samples, s.n * sizeof(float));
        infer_sound_free(&s);
    } else {
        h = infer__fnv(h, &image.width, 8);
        h = infer__fnv(h, image.rgb, (uint64_t)image.width * (uint64_t)image.height * 3);
        infer_image_free(&image);
    }
    return h | 1;
}

int main(void) {
    static char line[8192], path[4096], out[4096];
    while (fgets(line, sizeof line, stdin)) {
        unsigned char *p;
        size_t n = 0, i, k, errors = 0, whole = 0, count, bad = 0;
        unsigned long seed;
        int rate, sound;
        if ((line[0] == 'I' || line[0] == 'U') && sscanf(line + 1, "%4095s %4095s", path, out) == 2) {
            tool_image(path, out, line[0] == 'U');
        } else if (line[0] == 'S' && sscanf(line + 1, "%d %4095s %4095s", &rate, path, out) == 3) {
            tool_sound(rate, path, out);
        } else if (line[0] == 'B' && sscanf(line + 1, "%d %4095s", &rate, path) == 2 && (p = tool_read(path, &n)) != NULL) {
            double best = 1e9;
            infer_image image;
            infer_error err;
            for (; rate > 0; rate--) {
                double start = infer__seconds();
                if (infer_image_decode(&image, p, n, NULL, &err)) break;
                best = INFER__MIN(best, infer__seconds() - start);
                infer_image_free(&image);
            }
            printf("ok %.1f\n", best * 1e3);
            free(p);
        } else if (line[0] == 'T' && sscanf(line + 1, "%4095s", path) == 1 && (p = tool_read(path, &n)) != NULL) {
            uint64_t want;
            sound = n > 12 && memcmp(p + 8, "WAVE", 4) == 0;
            want = tool_hash(p, n, sound);
            for (i = 0; i < n && !bad; i++) {
                uint64_t got = tool_hash(p, i, sound);
                if (got == 0) errors++;
                else if (got == want) whole++;
                else bad = i + 1;
            }
            if (bad || want == 0) printf("bad %ld\n", want ? (long)bad - 1 : -1L);
            else printf("ok %lu %lu\n", (unsigned long)whole, (unsigned long)errors);
            free(p);
        } else if (line[0] == 'F' && sscanf(line + 1, "%4095s %lu %lu", path, &seed, (unsigned long *)&count) == 3 &&
                   (p = tool_read(path, &n)) != NULL && n > 0) {
            uint64_t state = seed;
            unsigned char *copy = (unsigned char *)malloc(n);
            sound = n > 12 && memcmp(p + 8, "WAVE", 4) == 0;
            for (i = 0; copy && i < count; i++) {
                memcpy(copy, p, n);
                for (k = 1 + infer__splitmix(&state) % 4; k > 0; k--)
                    copy[infer__splitmix(&state) % n] = (unsigned char)infer__splitmix(&state);
                if (tool_hash(copy, n, sound)) whole++;
                else errors++;
            }
            free(copy);
            free(p);
            printf("ok %lu %lu\n", (unsigned long)whole, (unsigned long)errors);
        } else {
            printf("error 0 what is %.40s\n", line);
        }
        fflush(stdout);
    }
    return 0;
}
