/* test_media.c: pictures and sounds: files of tests/data/media against recorded pixels, origins, limits, memory that fails, WAV of
 * all formats, the resampler. More files, against Pillow: tests/cli/test_media.py. */

static const struct { const char *name; int width, height; uint64_t hash; } media_files[] = { /* tests/data/media/make.py */
    { "baseline-420.jpg", 35, 21, 0x9c36d022604347b1u },
    { "progressive-422-exif.jpg", 21, 35, 0xd55b3bc1bcfd53f1u },
    { "restart-444.jpg", 35, 21, 0x1cc0c624a99a0a36u },
    { "grey.jpg", 35, 21, 0x95fcfbf65cef0715u },
    { "cmyk.jpg", 35, 21, 0x6d476934ee0180dbu },
    { "palette.png", 35, 21, 0x8555ff45dbfbf0e5u },
    { "rgba-exif.png", 21, 35, 0x0540c7d2e2225a72u },
};
static const char *media_path(size_t i) {
    char name[64];
    snprintf(name, sizeof name, "media/%s", media_files[i].name);
    return check_data(name);
}

static void media_same(const infer_image *image, size_t i) {
    CHECK(image->width == media_files[i].width && image->height == media_files[i].height && image->owner);
    CHECK(infer__fnv(INFER__FNV, image->rgb, (uint64_t)image->width * (uint64_t)image->height * 3) == media_files[i].hash);
}

typedef struct media_reader { const char *p; size_t n; long calls, fail_at; } media_reader;
static size_t media_read(void *user, uint64_t offset, void *dst, size_t n) {
    media_reader *r = (media_reader *)user;
    CHECK(offset <= r->n && n <= r->n - offset);
    if (++r->calls == r->fail_at) return n / 2;
    memcpy(dst, r->p + offset, n);
    return n;
}

/* By path, in memory at an odd address, by calls, mapped; and calls that read too little. */
static void test_media_origins(void) {
    infer_media_params p;
    infer_image image;
    infer_error e;
    size_t i;
    memset(&p, 0, sizeof p);
    for (i = 0; i < INFER__COUNT(media_files); i++) {
        media_reader reader = { NULL, 0, 0, 0 };
        infer_io io = { NULL, NULL, 0, NULL };
        char *odd;
        size_t n = 0;
        check_detail = media_files[i].name;
        CHECK(infer_image_open(&image, media_path(i), NULL, &e) == INFER_OK && e.code == INFER_OK && !e.message[0]);
        media_same(&image, i);
        infer_image_free(&image);
        CHECK(image.rgb == NULL && image.owner == NULL && image.width == 0);
        reader.p = check_read(media_path(i), &n);
        CHECK(reader.p != NULL);
        if (!reader.p) continue;
        reader.n = n;
        odd = (char *)malloc(n + 1);
        memcpy(odd + 1, reader.p, n);
        CHECK(infer_image_decode(&image, odd + 1, n, &p, NULL) == INFER_OK);
        media_same(&image, i);
        infer_image_free(&image);
        io.user = &reader;
        io.size = n;
        io.mapped = odd + 1;
        CHECK(infer_image_open_io(&image, &io, &p, &e) == INFER_OK && reader.calls == 0);
        media_same(&image, i);
        infer_image_free(&image);
        io.mapped = NULL;
        io.read = media_read;
        CHECK(infer_image_open_io(&image, &io, &p, &e) == INFER_OK);
        media_same(&image, i);
        infer_image_free(&image);
        for (reader.fail_at = 1; reader.fail_at <= 2; reader.fail_at++) {
            reader.calls = 0;
            CHECK(infer_image_open_io(&image, &io, &p, &e) == INFER_ERR_IO && image.rgb == NULL);
            CHECK_HAS(e.message, "gave");
        }
        free(odd);
        free((void *)(uintptr_t)reader.p);
    }
    p.unrotated = 1;
    CHECK(infer_image_open(&image, media_path(1), &p, &e) == INFER_OK && image.width == 35 && image.height == 21);
    infer_image_free(&image);
}

static int media_cancel(void *user) { return --*(int *)user < 0; }

static void test_media_arguments(void) {
    uint8_t rgb[3] = { 1, 2, 3 };
    infer_media_params p;
    infer_image image = { 1, 1, NULL, NULL };
    infer_sound sound;
    infer_error e;
    float x = 0;
    size_t n;
    int looks = 1;
    char *file = check_read(media_path(0), &n);
    CHECK(file != NULL);
    if (!file) return;
    image.rgb = rgb;
    infer_image_free(&image); /* not ours */
    infer_image_free(NULL);
    infer_sound_free(NULL);
    CHECK(image.rgb == rgb && image.width == 1);
    CHECK(infer_image_decode(NULL, file, n, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_image_decode(&image, NULL, n, NULL, &e) == INFER_ERR_ARGUMENT && image.rgb == NULL);
    CHECK(infer_image_open(&image, NULL, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_image_open_io(&image, NULL, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_image_open(&image, "tests/no-such-file.png", NULL, &e) == INFER_ERR_IO);
    CHECK(infer_sound_open(&sound, media_path(0), NULL, &e) == INFER_ERR_FORMAT && sound.samples == NULL);
    CHECK_STR(e.message, "the file is a picture (JPEG), not a sound");
    CHECK(infer_sound_convert(&sound, &x, 1, 0, 8000, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_sound_convert(&sound, NULL, 1, 1, 8000, NULL, &e) == INFER_ERR_ARGUMENT);
    CHECK(infer_sound_convert(NULL, &x, 1, 1, 8000, NULL, &e) == INFER_ERR_ARGUMENT);
    memset(&p, 0, sizeof p);
    p.reserved[2] = 1;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "infer_media_params");
    memset(&p, 0, sizeof p);
    p.rate = 999;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_ERR_ARGUMENT);
    CHECK_HAS(e.message, "got 999");
    memset(&p, 0, sizeof p);
    p.max_seconds = -1;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_ERR_ARGUMENT);
    memset(&p, 0, sizeof p);
    p.allocator.alloc = check_alloc;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_ERR_ARGUMENT);
    p.allocator.free = check_free;
    p.max_pixels = 35 * 21 - 1;
    check_allocs = 0;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_ERR_LIMIT && check_live == 0);
    CHECK_STR(e.message, "JPEG: 35x21 pixels are more than the limit of 734");
    CHECK(check_allocs == 1); /* the decoder's state, no pixels */
    p.max_pixels = 0;
    p.max_memory = 100000;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_OK);
    infer_image_free(&image);
    p.max_memory = 13000;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_ERR_MEMORY && check_live == 0);
    p.max_memory = 0;
    p.limits.cancel = media_cancel;
    p.limits.user = &looks;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_OK); /* too small to ask */
    infer_image_free(&image);
    CHECK(check_live == 0);
    free(file);
}

/* A PPM of 10^9 pixels, of 10^20; one that is asked to stop. */
static void test_media_limits(void) {
    static const char *const large[] = { "P6 100000 10000 255 a", "P6 4294967295 4294967295 255 a", "P5 0 5 255 a" };
    enum { SIDE = 2000 };
    infer_media_params p;
    infer_image image;
    infer_error e;
    size_t i, n = 16 + 3 * SIDE * SIDE;
    char *file = (char *)calloc(n, 1);
    int looks = 2;
    memset(&p, 0, sizeof p);
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    for (i = 0; i < INFER__COUNT(large); i++) {
        check_allocs = 0;
        CHECK(infer_image_decode(&image, large[i], strlen(large[i]), &p, &e) == (i < 2 ? INFER_ERR_LIMIT : INFER_ERR_FORMAT));
        CHECK(check_allocs == 0);
    }
    p.max_pixels = UINT64_MAX;
    CHECK(infer_image_decode(&image, large[0], strlen(large[0]), &p, &e) < 0 && check_allocs == 0);
    CHECK_HAS(e.message, sizeof(size_t) > 4 ? "ends early" : "more than the limit of 268435455");
    p.max_pixels = 0;
    memcpy(file, "P6 2000 2000 255\n", 17);
    CHECK(infer_image_decode(&image, file, 17 + 3 * SIDE * SIDE - 1, &p, &e) == INFER_ERR_FORMAT && check_allocs == 0);
    p.limits.cancel = media_cancel;
    p.limits.user = &looks;
    looks = 0;
    n = (size_t)snprintf(file, n, "P6 2000 1999 255\n") + 3 * SIDE * (SIDE - 1);
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_CANCELLED && image.rgb == NULL && check_live == 0);
    CHECK_STR(e.message, "cancelled while decoding");
    memset(&p.limits, 0, sizeof p.limits);
    p.limits.seconds = 1e-9;
    CHECK(infer_image_decode(&image, file, n, &p, &e) == INFER_ERR_LIMIT && check_live == 0);
    free(file);
}

/* ---- sound ------------------------------------------------------------------------------------------------------ */

static size_t media_wav(unsigned char *f, int tag, int channels, int rate, int bits, const void *data, size_t n) {
    memset(f, 0, 46);
    memcpy(f, "RIFF\0\0\0\0WAVEfmt \x10", 17);
    f[20] = (unsigned char)tag;
    f[22] = (unsigned char)channels;
    f[24] = (unsigned char)rate, f[25] = (unsigned char)(rate >> 8), f[26] = (unsigned char)(rate >> 16);
    f[32] = (unsigned char)(channels * bits / 8);
    f[34] = (unsigned char)bits;
    memcpy(f + 36, "data", 4);
    f[40] = (unsigned char)n, f[41] = (unsigned char)(n >> 8);
    memcpy(f + 44, data, n);
    return 44 + n;
}

static void test_media_sound(void) {
    static const struct { int tag, channels, bits, n; unsigned char data[16]; int frames; float want[4]; } rows[] = {
        { 1, 1, 8, 4, { 0, 128, 192, 255 }, 4, { -1, 0, 0.5f, 127 / 128.0f } },
        { 1, 2, 16, 8, { 0, 0x80, 0, 0, 0, 0x40, 0, 0x20 }, 2, { -0.5f, 0.375f } },
        { 1, 1, 24, 6, { 0, 0, 0x40, 1, 0, 0x80 }, 2, { 0.5f, -1 + 1 / 8388608.0f } },
        { 1, 1, 32, 8, { 0, 0, 0, 0x80, 0, 0, 0, 0x40 }, 2, { -1, 0.5f } },
        { 3, 1, 32, 8, { 0, 0, 0x80, 0x3e, 0, 0, 0, 0xbf }, 2, { 0.25f, -0.5f } },
        { 3, 1, 64, 8, { 0, 0, 0, 0, 0, 0, 0xe0, 0xbf }, 1, { -0.5f } },
        { 6, 1, 8, 4, { 0xd5, 0x55, 0x2a, 0xaa }, 4, { 8 / 32768.0f, -8 / 32768.0f, -32256 / 32768.0f, 32256 / 32768.0f } },
        { 7, 1, 8, 4, { 0xff, 0x00, 0x80, 0x7f }, 4, { 0, -32124 / 32768.0f, 32124 / 32768.0f, 0 } },
    };
    unsigned char file[64];
    infer_sound s;
    infer_error e;
    size_t i, n;
    int k;
    for (i = 0; i < INFER__COUNT(rows); i++) {
        n = media_wav(file, rows[i].tag, rows[i].channels, 44100, rows[i].bits, rows[i].data, (size_t)rows[i].n);
        CHECK(infer_sound_decode(&s, file, n, NULL, &e) == INFER_OK && s.n == (size_t)rows[i].frames && s.rate == 44100);
        for (k = 0; k < rows[i].frames && k < (int)s.n; k++) CHECK(s.samples[k] == rows[i].want[k]);
        infer_sound_free(&s);
        for (; n-- > 0;) CHECK(infer_sound_decode(&s, file, n, NULL, &e) == INFER_ERR_FORMAT && e.message[0] && !s.samples);
    }
}

/* A sine at other rates; silence; what is not a number. */
static void test_media_resample(void) {
    enum { N = 4410 };
    static const int rates[] = { 16000, 44100, 48000, 22051 };
    static float x[2 * N];
    const double turn = 2 * 3.14159265358979323846 * 1000;
    infer_media_params p;
    infer_sound s;
    infer_error e;
    size_t i;
    int k;
    memset(&p, 0, sizeof p);
    for (i = 0; i < N; i++) { /* the mean of both channels is the sine */
        x[2 * i] = (float)(0.5 * sin(turn * (double)i / 44100) + 0.25);
        x[2 * i + 1] = (float)(0.5 * sin(turn * (double)i / 44100) - 0.25);
    }
    for (k = 0; k < 4; k++) {
        double worst = 0;
        p.rate = rates[k];
        CHECK(infer_sound_convert(&s, x, N, 2, 44100, &p, &e) == INFER_OK && s.rate == rates[k]);
        CHECK(s.n == (size_t)(((uint64_t)N * (uint64_t)rates[k] + 44099) / 44100));
        for (i = s.n / 4; i < s.n * 3 / 4; i++)
            worst = INFER__MAX(worst, fabs(s.samples[i] - 0.5 * sin(turn * (double)i / rates[k])));
        CHECK(worst < 2e-5);
        infer_sound_free(&s);
    }
    memset(x, 0, sizeof x);
    p.rate = 16000;
    CHECK(infer_sound_convert(&s, x, N, 2, 44100, &p, &e) == INFER_OK);
    for (i = 0; i < s.n; i++) CHECK(s.samples[i] == 0);
    infer_sound_free(&s);
    x[7] = infer__bits_f32(0x7fc00000u);
    CHECK(infer_sound_convert(&s, x, N, 2, 44100, &p, &e) == INFER_ERR_FORMAT && s.samples == NULL);
    CHECK_STR(e.message, "sample 3 is not a number, or not below 1000000");
    p.max_seconds = 0.09;
    CHECK(infer_sound_convert(&s, x, N, 2, 44100, &p, &e) == INFER_ERR_LIMIT);
}

/* ---- memory that fails ------------------------------------------------------------------------------------------ */

static void test_media_memory_fails(void) {
    unsigned char file[400], data[300] = { 0 };
    infer_media_params p;
    infer_image image;
    infer_sound sound;
    infer_error e;
    infer_result r;
    size_t i, n = media_wav(file, 1, 1, 8000, 16, data, sizeof data);
    long total;
    memset(&p, 0, sizeof p);
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    p.rate = 16000;
    for (i = 0; i <= INFER__COUNT(media_files); i++) {
        int is_sound = i == INFER__COUNT(media_files);
        check_detail = is_sound ? "sound" : media_files[i].name;
        check_live = 0;
        r = INFER_ERR_MEMORY;
        for (total = 1; r == INFER_ERR_MEMORY && total < 50; total++) {
            check_allocs = 0;
            check_fail_at = total;
            r = is_sound ? infer_sound_decode(&sound, file, n, &p, &e) : infer_image_open(&image, media_path(i), &p, &e);
            CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && e.message[0] && check_live == 0));
        }
        CHECK(r == INFER_OK && total > 4);
        check_fail_at = 0;
        if (is_sound) infer_sound_free(&sound);
        else infer_image_free(&image);
        CHECK(check_live == 0);
    }
}

/* Every beginning of a file is an error, or the whole picture where only JPEG's last marker is missing. */
static void test_media_truncated(void) {
    infer_image image;
    infer_error e;
    size_t i, n, k;
    for (i = 0; i < INFER__COUNT(media_files); i++) {
        char *file = check_read(media_path(i), &n);
        check_detail = media_files[i].name;
        CHECK(file != NULL);
        for (k = 0; file && k < n; k += (size_t)(n - k < 40 ? 1 : check_every(7))) {
            char *copy = (char *)malloc(k + 1);
            memcpy(copy, file, k);
            if (infer_image_decode(&image, copy, k, NULL, &e) == INFER_OK) {
                CHECK(k + 2 >= n && strstr(media_files[i].name, "jpg"));
                media_same(&image, i);
                infer_image_free(&image);
            } else {
                CHECK((e.code == INFER_ERR_FORMAT || e.code == INFER_ERR_UNSUPPORTED) && e.message[0] && !image.rgb);
            }
            free(copy);
        }
        free(file);
    }
}

static void suite_media(void) {
    RUN(test_media_origins);
    RUN(test_media_arguments);
    RUN(test_media_limits);
    RUN(test_media_sound);
    RUN(test_media_resample);
    RUN(test_media_memory_fails);
    RUN(test_media_truncated);
}
