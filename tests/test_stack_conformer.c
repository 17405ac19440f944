/* test_stack_conformer.c: Gemma 4's sound, gemma4a and gemma4ua, in files of tests/data/media: spectrograms, embeddings and
 * logits as llama.cpp has them, short and long sounds, bad files, failing allocations. After test_stack_sound.c and
 * test_media_session.c. */

#define CONFORMER "media/gemma4a"
#define CONFORMER_RAW "media/gemma4ua"

/* tests/data/media/gemma4a.recorded: tables (n, width, numbers of rows, values) in this order: of each sound some frames of the
 * spectrogram, and some embeddings; a picture's embeddings; logits. */
static const struct { const char *file; int32_t samples, part, silent; } CONFORMER_SOUNDS[] = {
    { CONFORMER, 161, 0, 0 }, { CONFORMER, 1000, 0, 0 }, { CONFORMER, 9000, 0, 0 }, { CONFORMER, 23456, 0, 0 },
    { CONFORMER, 480000, 0, 0 }, { CONFORMER, 500000, 1, 0 }, { CONFORMER, 5000, 0, 1 }, { CONFORMER_RAW, 23456, 0, 0 } };
typedef struct conformer_table { int32_t n, width; const char *rows, *values; } conformer_table;

/* Table number `at` of the file in data. */
static conformer_table conformer_find(const char *data, size_t size, int32_t at) {
    conformer_table t;
    size_t i = 0;
    memset(&t, 0, sizeof t);
    while (data && at-- >= 0 && i + 8 <= size) {
        t.n = (int32_t)infer__load_u32(data + i);
        t.width = (int32_t)infer__load_u32(data + i + 4);
        t.rows = data + i + 8;
        t.values = t.rows + 4 * t.n;
        i += 8 + 4 * (size_t)t.n * (1 + (size_t)t.width);
    }
    CHECK(t.n > 0 && i <= size);
    return t;
}

/* NMSE and the largest difference of a table and rows of a matrix: value j of row i is at i * row + j * col. */
static double conformer_differ(const conformer_table *t, const float *got, size_t row, size_t col, double *most) {
    double sum = 0, all = 0;
    int32_t i, j;
    *most = 0;
    for (i = 0; i < t->n; i++)
        for (j = 0; j < t->width; j++) {
            float want;
            double d;
            memcpy(&want, t->values + 4 * ((size_t)i * (size_t)t->width + (size_t)j), 4);
            d = fabs((double)want - (double)got[infer__load_u32(t->rows + 4 * i) * row + (size_t)j * col]);
            if (!(d <= *most)) *most = d;
            sum += d * d;
            all += (double)want * (double)want;
        }
    return sum / all;
}

/* Noise and a triangle of rising pitch, some of it quiet: integers, so that every machine has the same. */
static float *conformer_sound(int32_t n, int silent) {
    float *out = (float *)calloc((size_t)n + 1, sizeof *out);
    uint32_t x = 1;
    int32_t phase = 0, i;
    for (i = 0; i < n && !silent; i++) {
        int32_t tri, v, noise;
        x = x * 1664525u + 1013904223u;
        phase = (phase + 200 + i / 64) & 65535;
        tri = (phase < 32768 ? 32768 - phase : phase - 32768) * 2 - 32768;
        noise = (int32_t)(x >> 16) - 32768;
        v = (noise + 32768) / 16 - 2048 + (tri + 32768) / 4 - 8192; /* rounded down */
        if (i / 4000 % 3 == 2) v = (v + 65536) / 64 - 1024;
        out[i] = (float)v / 32768.0f;
    }
    return out;
}

typedef struct conformer_seen { const conformer_table *t; int32_t part, found, bins; double most; } conformer_seen;
static void conformer_prepared(void *user, int32_t number, int32_t frame, const float *values, int32_t width, int32_t height) {
    conformer_seen *x = (conformer_seen *)user;
    if (number != x->part) return;
    CHECK(frame == 0 && height == x->t->width);
    x->found++;
    conformer_differ(x->t, values, 1, (size_t)width, &x->most);
}

static infer_model *conformer_open(const char *file, int32_t level) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    memset(&p, 0, sizeof p);
    p.cpu_level = level;
    p.exact = level != INFER_CPU_BEST;
    p.backend = seen_backend;
    p.media_kept = -1;
    p.allocator.alloc = check_alloc;
    p.allocator.free = check_free;
    if (infer_model_open(&m, stack_path(file), &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return m;
}

static infer_media *conformer_encode(infer_model *m, float *samples, int32_t n, int32_t threads, conformer_seen *seen) {
    infer_encode_params p;
    infer_media *x = NULL;
    infer_sound sound;
    infer_error e;
    memset(&p, 0, sizeof p);
    memset(&sound, 0, sizeof sound);
    p.threads = threads;
    if (seen) p.prepared = conformer_prepared;
    p.prepared_user = seen;
    sound.samples = samples;
    sound.n = (size_t)n;
    sound.rate = 16000;
    if (infer_media_encode_sound(&x, m, &sound, &p, &e)) check_note(__FILE__, __LINE__, e.message);
    return x;
}

static void test_conformer_recorded(void) {
    size_t size = 0, i;
    char *data = check_read(check_data("media/gemma4a.recorded"), &size), text[100];
    int32_t level, n, k, width, other;
    for (level = 0; level < 2; level++)
        for (i = 0; i < INFER__COUNT(CONFORMER_SOUNDS); i++) {
            const int32_t samples = CONFORMER_SOUNDS[i].samples, part = CONFORMER_SOUNDS[i].part;
            const conformer_table frames = conformer_find(data, size, 2 * (int32_t)i), embd = conformer_find(data, size, 2 * (int32_t)i + 1);
            infer_model *m = conformer_open(CONFORMER_SOUNDS[i].file, level ? INFER_CPU_SCALAR : INFER_CPU_BEST);
            float *sound = conformer_sound(samples, CONFORMER_SOUNDS[i].silent);
            conformer_seen seen;
            infer_media *one, *three;
            memset(&seen, 0, sizeof seen);
            seen.t = &frames;
            seen.part = part;
            one = m ? conformer_encode(m, sound, samples, 1, &seen) : NULL;
            three = m ? conformer_encode(m, sound, samples, 3, NULL) : NULL;
            if (one && three) {
                const float *a = infer_media_embeddings(one, part, &n, &width), *b = infer_media_embeddings(three, part, &k, &other);
                double most;
                const double nmse = a && width == embd.width ? conformer_differ(&embd, a, (size_t)width, 1, &most) : 1;
                snprintf(text, sizeof text, "%d samples, level %d: frames %.3g, nmse %.3g", (int)samples, (int)level, seen.most, nmse);
                check_detail = text;
                if (getenv("CHECK_VERBOSE")) printf("%s\n", text);
                CHECK(seen.found == 1 && seen.most < 2e-4 && nmse < STACK_LIMIT);
                CHECK(b && n == k && width == other && memcmp(a, b, 4 * (size_t)n * (size_t)width) == 0);
                CHECK((int32_t)infer__load_u32(embd.rows + 4 * (embd.n - 1)) == n - 1);
            }
            CHECK(infer_media_free(one) == INFER_OK && infer_media_free(three) == INFER_OK && infer_model_close(m) == INFER_OK);
            free(sound);
        }
    CHECK(check_live == 0);
    free(data);
}

/* The other encoder of the file. */
static void test_conformer_picture(void) {
    enum { WIDE = 52, HIGH = 40 };
    size_t size = 0;
    char *data = check_read(check_data("media/gemma4a.recorded"), &size);
    const conformer_table t = conformer_find(data, size, 2 * (int32_t)INFER__COUNT(CONFORMER_SOUNDS));
    static uint8_t rgb[WIDE * HIGH * 3];
    infer_model *m = conformer_open(CONFORMER, INFER_CPU_BEST);
    infer_model_info info;
    infer_media *x = NULL;
    infer_image image;
    infer_error e;
    const float *got;
    double most;
    int32_t i, n, width;
    for (i = 0; i < WIDE * HIGH * 3; i++) {
        const int32_t c = i % 3, col = i / 3 % WIDE, row = i / 3 / WIDE;
        rgb[i] = (uint8_t)(col * 7 + row * 13 + c * 50 + col * row / 5);
    }
    memset(&image, 0, sizeof image);
    image.width = WIDE;
    image.height = HIGH;
    image.rgb = rgb;
    CHECK(m && infer_model_get_info(m, &info) == INFER_OK && info.images == 1 && info.sounds == 1);
    CHECK(m && infer_media_encode(&x, m, &image, 1, NULL, &e) == INFER_OK);
    got = infer_media_embeddings(x, 0, &n, &width);
    CHECK(got && n == 80 && width == 64 && conformer_differ(&t, got, 64, 1, &most) < STACK_LIMIT);
    CHECK(infer_media_free(x) == INFER_OK && infer_model_close(m) == INFER_OK && check_live == 0);
    free(data);
}

/* With a text model: the prompt's tokens, and logits after it. */
static void test_conformer_logits(void) {
    static float got[64 * 336];
    static const char prompt[] = "Hear <__media__> what?";
    size_t size = 0, count = 0;
    char *data;
    conformer_table t;
    infer_context *c = NULL;
    infer_session *s;
    infer_model *m;
    infer_error e;
    seen_case x;
    float *sound;
    double most;
    int32_t i, k;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    data = check_read(check_data("media/gemma4a.recorded"), &size);
    t = conformer_find(data, size, 2 * (int32_t)INFER__COUNT(CONFORMER_SOUNDS) + 1);
    memset(&x, 0, sizeof x);
    m = seen_open_both("gemma4", stack_path(CONFORMER), &e);
    CHECK(m != NULL);
    sound = conformer_sound(23456, 0);
    x.media[0] = m ? conformer_encode(m, sound, 23456, 2, NULL) : NULL;
    x.n_media = 1;
    x.tokens[0] = 257;
    CHECK(m && infer_media_tokens(m, prompt, strlen(prompt), INFER_TEXT_PARSE_SPECIAL, x.media, 1, x.tokens + 1, 4000, &count, &e) == INFER_OK);
    x.n = (int32_t)count + 1;
    for (i = k = 0; i < x.n; i++)
        if (x.tokens[i] >= 0) CHECK(k < t.n && x.tokens[i] == (infer_token)infer__load_u32(t.rows + 4 * k++));
    CHECK(k == t.n && x.n == t.n + 37);
    if (m && k == t.n) {
        char rows[4 * 64];
        for (i = 0; i < k; i++) memset(rows + 4 * i, 0, 4), rows[4 * i] = (char)i;
        t.rows = rows;
        s = seen_session(m, 512, 2, &c);
        CHECK(seen_eval(s, &x, got) == k && conformer_differ(&t, got, 336, 1, &most) < STACK_LIMIT);
        infer_session_destroy(s);
        infer_context_destroy(c);
    }
    seen_case_free(&x);
    CHECK(infer_model_close(m) == INFER_OK && check_live == 0);
    free(sound);
    free(data);
}

/* Sounds that are hardly there. */
static void test_conformer_short(void) {
    static const struct { int32_t samples, parts, last; } t[] = { { 1, 1, 1 }, { 2, 1, 1 }, { 160, 1, 1 }, { 800, 1, 1 }, { 801, 1, 2 }, { 480001, 2, 1 } };
    infer_model *m = conformer_open(CONFORMER, INFER_CPU_BEST), *raw = conformer_open(CONFORMER_RAW, INFER_CPU_BEST);
    float *sound = conformer_sound(480001, 0);
    infer_media *x = NULL;
    infer_sound none;
    infer_error e;
    int32_t n, width;
    size_t i;
    for (i = 0; i < INFER__COUNT(t) && m && raw; i++) {
        x = conformer_encode(m, sound, t[i].samples, 1, NULL);
        n = 0;
        CHECK(infer_media_embeddings(x, t[i].parts - 1, &n, &width) && n == t[i].last && !infer_media_embeddings(x, t[i].parts, &n, &width));
        CHECK(infer_media_free(x) == INFER_OK);
        x = conformer_encode(raw, sound, t[i].samples, 1, NULL);
        CHECK(infer_media_embeddings(x, 0, &n, &width) && n == (t[i].samples + 639) / 640 && !infer_media_embeddings(x, 1, &n, &width));
        CHECK(infer_media_free(x) == INFER_OK);
    }
    x = NULL;
    memset(&none, 0, sizeof none);
    none.samples = sound;
    none.rate = 16000;
    CHECK(m && infer_media_encode_sound(&x, m, &none, NULL, &e) == INFER_ERR_ARGUMENT && !x && strstr(e.message, "0 samples"));
    none.n = 3;
    sound[1] = (float)NAN;
    CHECK(m && infer_media_encode_sound(&x, m, &none, NULL, &e) == INFER_ERR_ARGUMENT && !x && strstr(e.message, "sample 1 "));
    CHECK(infer_model_close(m) == INFER_OK && infer_model_close(raw) == INFER_OK && check_live == 0);
    free(sound);
}

static void test_conformer_files(void) {
    static const struct { const char *file, *from, *to; int32_t value; const char *says; } t[] = {
        { CONFORMER, "gemma4a", "gemma5a", 0, "projector type \"gemma5a\" is not supported" },
        { CONFORMER, "clip.audio.num_mel_bins", NULL, 0, "clip.audio.num_mel_bins" },
        { CONFORMER, "clip.audio.num_mel_bins", NULL, 600, "clip.audio.num_mel_bins" },
        { CONFORMER, "clip.audio.num_mel_bins", NULL, 45, "tensor a.input_projection.weight" },
        { CONFORMER, "clip.audio.attention.head_count", NULL, 0, "clip.audio.attention.head_count" },
        { CONFORMER, "clip.audio.attention.head_count", NULL, 3, "clip.audio.attention.head_count" },
        { CONFORMER, "clip.audio.attention.head_count", NULL, 4, "tensor a.blk.0.per_dim_scale.weight" },
        { CONFORMER, "clip.audio.embedding_length", NULL, 64, "embeddings are 32 values, the layers need 64" },
        { CONFORMER, "clip.audio.projection_dim", NULL, 63, "clip.audio.projection_dim is 63" },
        { CONFORMER, "clip.audio.block_count", NULL, 4, "missing tensor a.blk.3.ffn_up.weight" },
        { CONFORMER, "clip.audio.block_count", NULL, 2, "a.blk.2." },
        { CONFORMER, "clip.audio.block_count", NULL, 0, "clip.audio.block_count" },
        { CONFORMER, "a.blk.1.conv_dw.weight", "a.blk.1.conv_pw.weight", 0, "a.blk.1.conv_" },
        { CONFORMER, "a.blk.2.norm_conv.weight", "a.blk.2.conv_norm.waight", 0, "a.blk.2.norm_conv.weight" },
        { CONFORMER, "a.blk.0.ffn_down_1.input_max", "a.input_projection.input_max", 0, "tensor a.input_projection.weight: no range" },
        { CONFORMER, "a.blk.0.ffn_down_1.input_max", "a.blk.0.attn_k_rel.input_max", 0, "tensor a.blk.0.attn_k_rel.weight: no range" },
        { CONFORMER, "a.blk.0.ffn_down_1.input_max", "a.blk.0.ffn_down_1.input_mix", 0, "tensor a.blk.0.ffn_down_1.input_mix" },
        { CONFORMER, "a.blk.0.ffn_down_1.input_max", "a.blk.0.ffn_dawn_1.input_max", 0, "tensor a.blk.0.ffn_dawn_1.input_max" },
        { CONFORMER, "a.blk.1.ffn_down.input_max", "a.blk.1.norm_out.input_max", 0, "" },
        { CONFORMER_RAW, "clip.audio.embedding_length", NULL, 128, "embeddings are 640 values, the layers need 128" },
        { CONFORMER_RAW, "clip.audio.num_mel_bins", NULL, 641, "clip.audio.num_mel_bins" },
    };
    size_t i;
    for (i = 0; i < INFER__COUNT(t); i++) {
        infer_error e;
        memset(&e, 0, sizeof e);
        check_detail = t[i].says;
        CHECK(stack_altered(t[i].file, t[i].from, t[i].to, t[i].value, &e) != INFER_OK);
        if (!strstr(e.message, t[i].says)) check_note(__FILE__, __LINE__, e.message);
    }
    CHECK(stack_missing(CONFORMER, INFER__STACK_AUDIO) > 60);
    CHECK(stack_missing(CONFORMER_RAW, INFER__STACK_AUDIO) == 1);
}

static void test_conformer_sizes(void) {
    static const struct { const char *file; int32_t frames, bins, tokens; const char *says; } t[] = {
        { CONFORMER, 1, 40, 1, "" }, { CONFORMER, 4, 40, 1, "" }, { CONFORMER, 5, 40, 2, "" }, { CONFORMER, 2999, 40, 750, "" },
        { CONFORMER, 0, 40, 0, "a sound of 0 frames" }, { CONFORMER, -1, 40, 0, "a sound of -1 frames" },
        { CONFORMER, INT32_MAX, 40, 0, "below 2^20" }, { CONFORMER, 8, 41, 0, "a spectrogram of 41 bins" },
        { CONFORMER_RAW, 7, 640, 7, "" }, { CONFORMER_RAW, 7, 128, 0, "a spectrogram of 128 bins" }, { CONFORMER_RAW, 1 << 20, 640, 0, "below 2^20" } };
    size_t i;
    for (i = 0; i < INFER__COUNT(t); i++) {
        infer_model *m = stack_model(t[i].file, INFER__STACK_AUDIO, INFER_CPU_BEST);
        infer_error e;
        memset(&e, 0, sizeof e);
        check_detail = t[i].says;
        CHECK(m && infer__stack_tokens(m, t[i].frames, t[i].bins, &e) == t[i].tokens && strstr(e.message, t[i].says));
        CHECK(infer_model_close(m) == INFER_OK);
    }
}

static void test_conformer_memory(void) {
    static float in[30 * 640];
    stack_entry x;
    memset(&x, 0, sizeof x);
    x.in = in;
    x.width = 30;
    x.height = 40;
    x.tokens = 8;
    x.cols = 64;
    stack_fails(CONFORMER, INFER__STACK_AUDIO, &x);
    x.height = 640;
    x.tokens = 30;
    stack_fails(CONFORMER_RAW, INFER__STACK_AUDIO, &x);
}

static void test_conformer_hostile(void) {
    stack_hostile(CONFORMER, INFER__STACK_AUDIO);
    stack_hostile(CONFORMER_RAW, INFER__STACK_AUDIO);
    check_detail = NULL;
}

static void suite_stack_conformer(void) {
    RUN(test_conformer_recorded);
    RUN(test_conformer_picture);
    RUN(test_conformer_logits);
    RUN(test_conformer_short);
    RUN(test_conformer_files);
    RUN(test_conformer_sizes);
    RUN(test_conformer_memory);
    RUN(test_conformer_hostile);
}
