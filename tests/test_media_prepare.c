/* test_media_prepare.c: pictures and sounds as encoders read them, against what llama.cpp's mtmd made of them
 * ($INFER_TEST_DATA/vision: cases/NAME.json lists chunks, NAME.K.pre has the tensor of the K-th medium). */
#include "gguf_write.h"

typedef struct mp_file {
    infer__mem mem;
    infer__gguf g;
} mp_file;

static int mp_open(mp_file *f, const char *path, const void *data, size_t n) {
    infer_error err;
    infer_result r;
    memset(f, 0, sizeof *f);
    infer__mem_init(&f->mem, NULL, 0);
    if (path) r = infer__gguf_open_path(&f->g, &f->mem, NULL, path, 1, &err);
    else r = infer__gguf_open_memory(&f->g, &f->mem, NULL, data, n, &err);
    if (r != INFER_OK) check_note(__FILE__, __LINE__, err.message);
    return r == INFER_OK;
}
static void mp_close(mp_file *f) {
    infer__gguf_close(&f->g);
    CHECK(infer__atomic_get(&f->mem.used) == 0);
}

/* ---- recorded cases ---- */

static const infer_json *mp_get(const infer_json *v, const char *name) { return infer__json_get(v, name, strlen(name)); }
static int64_t mp_int(const infer_json *v, const char *name) {
    const infer_json *x = mp_get(v, name);
    CHECK(x && x->kind == INFER_JSON_INT);
    return x ? x->v.i : -1;
}
static const char *mp_text(const infer_json *v, const char *name) {
    const infer_json *x = mp_get(v, name);
    CHECK(x && x->kind == INFER_JSON_STRING);
    return x && x->kind == INFER_JSON_STRING ? x->s : "";
}
/* The name of a file of the set; NULL when there is none. */
static const char *mp_path(const char *folder, const char *name, const char *suffix) {
    char path[400];
    snprintf(path, sizeof path, "vision/%s/%s%s", folder, name, suffix);
    return check_reference(path);
}

/* P6 with a maximum of 255, and no comments. */
static int mp_picture(const char *name, infer_image *out, char **file) {
    size_t n;
    int at = 0;
    memset(out, 0, sizeof *out);
    *file = check_read(mp_path("images", name, ".ppm"), &n);
    CHECK(*file && sscanf(*file, "P6 %d %d 255%n", &out->width, &out->height, &at) == 2 && at > 0);
    if (!*file || at == 0) return 0;
    out->rgb = (uint8_t *)*file + at + 1;
    CHECK(n == (size_t)at + 1 + (size_t)out->width * (size_t)out->height * 3);
    return 1;
}
static float *mp_sound(const char *name, size_t *n) {
    char *file = check_read(mp_path("audio", name, ".s16"), n);
    float *out = (float *)malloc(*n * 2 + 4);
    size_t i;
    CHECK(file);
    *n = file ? *n / 2 : 0;
    for (i = 0; i < *n; i++) out[i] = (float)(int16_t)infer__load_u16(file + 2 * i) / 32768.0f;
    free(file);
    return out;
}

/* What the walk through a case compares. */
typedef struct mp_case {
    const infer_json *chunks;
    uint64_t chunk, medium; /* the one that comes next */
    infer_token ids[4096];  /* of the text before it */
    size_t n_ids;
    int64_t pos;
    infer__mem mem;
    const infer__tokenizer *t;
    const char *name;
    double worst;             /* the largest difference of a spectrogram */
    int tensors;
} mp_case;

static void mp_add_text(mp_case *c, const char *text, size_t n, int flags) {
    size_t count = 0;
    infer_error err;
    CHECK(infer__tokenize(c->t, &c->mem, text, n, flags | INFER_TEXT_PARSE_SPECIAL, c->ids + c->n_ids, 4096 - c->n_ids, &count,
                          &err) == INFER_OK);
    CHECK(c->n_ids + count <= 4096);
    c->n_ids += count;
}
static const infer_json *mp_next(mp_case *c, const char *type) {
    const infer_json *x = c->chunk < c->chunks->n ? &c->chunks->v.items[c->chunk++] : NULL;
    CHECK(x);
    if (x) CHECK_STR(mp_text(x, "type"), type);
    if (x) CHECK(mp_int(x, "pos") == c->pos);
    return x;
}
static void mp_end_text(mp_case *c) {
    const infer_json *x, *ids;
    size_t i;
    if (c->n_ids == 0) return;
    x = mp_next(c, "text");
    ids = x ? mp_get(x, "ids") : NULL;
    CHECK(ids && ids->n == c->n_ids);
    for (i = 0; ids && i < c->n_ids && i < ids->n; i++) CHECK(ids->v.items[i].v.i == c->ids[i]);
    c->pos += (int64_t)c->n_ids;
    c->n_ids = 0;
}

static void mp_compare(mp_case *c, const infer__media_entry *e, int kind, int number) {
    char name[64], *file;
    size_t n, i, count = (size_t)e->width * (size_t)e->height * (kind == INFER__MEDIA_IMAGE ? 3 : 1);
    const char *values;
    if (number < 0) snprintf(name, sizeof name, ".%d.pre", (int)c->medium);
    else snprintf(name, sizeof name, ".%d.%d.pre", (int)c->medium, number);
    file = check_read(mp_path("cases", c->name, name), &n);
    if (!file) return; /* counted below */
    CHECK(n == 8 + 4 * ((size_t)e->height + count));
    CHECK(infer__load_u32(file) == (uint32_t)e->height);
    CHECK(infer__load_u32(file + 4) == (uint32_t)(count / (size_t)e->height));
    values = file + 8 + 4 * (size_t)e->height;
    for (i = 0; i < count && n == 8 + 4 * ((size_t)e->height + count); i++) {
        const double d = fabs((double)e->values[i] - infer__load_f32(values + 4 * i));
        if (kind == INFER__MEDIA_IMAGE && d != 0) { CHECK(!"a value of a picture"); break; }
        if (!(d <= 2e-4)) { CHECK(!"a value of a spectrogram"); break; }
        if (d > c->worst) c->worst = d;
    }
    c->tensors++;
    free(file);
}

static void mp_list(mp_case *c, const infer__media_list *list, int pre) {
    int32_t i, j;
    int tensors = c->tensors;
    for (i = 0; i < list->n_pieces; i++) {
        const infer__media_piece *p = &list->pieces[i];
        const infer_json *x, *grid, *entries;
        if (p->kind == INFER__MEDIA_TEXT) {
            mp_add_text(c, p->text, strlen(p->text), 0);
            continue;
        }
        mp_end_text(c);
        if ((x = mp_next(c, p->kind == INFER__MEDIA_IMAGE ? "image" : "audio")) == NULL) return;
        CHECK(mp_int(x, "n_tokens") == p->n_tokens && mp_int(x, "n_pos") == p->n_pos);
        grid = mp_get(x, "grid");
        CHECK(grid && grid->n == 2 && p->nx * p->ny == p->n_tokens && (p->grid || p->ny == 1));
        if (grid && p->kind == INFER__MEDIA_IMAGE) CHECK(grid->v.items[0].v.i == p->nx && grid->v.items[1].v.i == p->ny);
        CHECK(p->grid == (mp_get(x, "positions_txy") != NULL));
        CHECK(mp_get(x, "non_causal") && (mp_get(x, "non_causal")->kind == INFER_JSON_TRUE) == (p->non_causal != 0));
        entries = mp_get(x, "entries");
        CHECK(entries && entries->n == (uint64_t)p->n_entries);
        for (j = 0; j < p->n_entries && entries && j < (int32_t)entries->n; j++) {
            const infer__media_entry *e = &list->entries[p->entry + j];
            const infer_json *size = entries->v.items[j].v.items;
            CHECK(size[0].v.i == e->width && size[1].v.i == e->height);
            if (size[0].v.i == e->width && size[1].v.i == e->height && e->values)
                mp_compare(c, e, p->kind, p->n_entries == 2 ? j : -1);
        }
        c->pos += p->n_pos;
        c->medium++;
    }
    CHECK(pre ? c->tensors - tensors == list->n_entries : c->tensors == tensors);
}

/* One or two media of a case, at its next marker. Returns how many. */
static uint64_t mp_media(mp_case *c, const infer__media_file *file, const infer_json *media, uint64_t at, int merge, int pre) {
    const char *name = media->v.items[at].s, *next = at + 1 < media->n ? media->v.items[at + 1].s : NULL;
    infer__media_list list, counts;
    infer_image picture[2];
    infer_error err;
    char *bytes[2] = {NULL, NULL};
    size_t n = 0;
    uint64_t used = 1;
    infer_result r = INFER_OK;
    memset(&list, 0, sizeof list);
    err.message[0] = 0;
    if (mp_get(&c->chunks[0].v.items[1], "non_causal") && strcmp(mp_text(&c->chunks[0].v.items[1], "type"), "audio") == 0) {
        float *samples = mp_sound(name, &n);
        CHECK(file->sound.row);
        if (file->sound.row) r = infer__media_plan_sound(&c->mem, &file->sound, n, &list, &err);
        if (file->sound.row && r == INFER_OK) r = infer__media_fill_sound(&list, &file->sound, samples, &err);
        free(samples);
    } else {
        if (!mp_picture(name, &picture[0], &bytes[0])) return 1;
        if (merge && next && mp_picture(next, &picture[1], &bytes[1])) used = 2;
        CHECK(file->image.row);
        if (file->image.row) r = infer__media_plan(&c->mem, &file->image, picture, (int32_t)used, &list, &err);
        if (file->image.row && r == INFER_OK) r = infer__media_fill(&list, &file->image, picture, &err);
        if (r == INFER_OK && file->image.row) { /* counts need no pixels */
            picture[0].rgb = picture[1].rgb = NULL;
            CHECK(infer__media_plan(&c->mem, &file->image, picture, (int32_t)used, &counts, &err) == INFER_OK);
            CHECK(counts.n_tokens == list.n_tokens && counts.n_pieces == list.n_pieces && !counts.entries[0].values);
            infer__media_list_free(&counts);
        }
    }
    if (r != INFER_OK) check_note(__FILE__, __LINE__, err.message);
    else mp_list(c, &list, pre);
    infer__media_list_free(&list);
    free(bytes[0]);
    free(bytes[1]);
    return used;
}

static void mp_run(const char *name, int *cases, int *tensors, double *worst) {
    static const char marker[] = "<__media__>";
    mp_file projector, text;
    infer__tokenizer *t = NULL;
    infer__tokenizer_options tokenizing;
    infer__media_options options;
    infer__media_file file;
    infer__arena arena;
    const infer_json *v = NULL, *media, *given;
    mp_case *c = (mp_case *)calloc(1, sizeof *c);
    infer_error err;
    const char *prompt, *end;
    char *json;
    uint64_t i;
    int merge = 0, pre = 1;
    size_t n = 0;

    check_detail = name;
    infer__mem_init(&c->mem, NULL, 0);
    memset(&arena, 0, sizeof arena);
    memset(&options, 0, sizeof options);
    memset(&tokenizing, 0, sizeof tokenizing);
    arena.mem = &c->mem;
    json = check_read(mp_path("cases", name, ".json"), &n);
    CHECK(json && infer__json_parse(&v, &arena, json, n, &err) == INFER_OK);
    if (!v) { free(json); free(c); return; }
    given = mp_get(v, "options");
    for (i = 0; given && i < given->n; i++) {
        const char *s = given->v.items[i].s;
        if (strcmp(s, "--min") == 0) options.min_tokens = (int32_t)atoi(given->v.items[++i].s);
        else if (strcmp(s, "--max") == 0) options.max_tokens = (int32_t)atoi(given->v.items[++i].s);
        else if (strcmp(s, "--merge") == 0) merge = 1;
        else if (strcmp(s, "--nopre") == 0) pre = 0;
        else check_note(__FILE__, __LINE__, s);
    }
    options.mrope = mp_get(v, "mrope")->kind == INFER_JSON_TRUE;
    c->chunks = mp_get(v, "chunks");
    c->name = name;
    media = mp_get(v, "media");
    if (!mp_open(&projector, mp_path("models", mp_text(v, "model"), ".gguf"), NULL, 0)) return;
    if (!mp_open(&text, mp_path("text", mp_text(v, "text_model"), ".gguf"), NULL, 0)) return;
    CHECK(infer__tokenizer_open(&t, &text.mem, NULL, &text.g, &tokenizing, &err) == INFER_OK);
    c->t = t;
    options.vocab = infer__tokenizer_vocab(t);
    if (infer__media_settings_read(&projector.g, &options, &file, &err) != INFER_OK) {
        check_note(__FILE__, __LINE__, err.message);
    } else {
        prompt = mp_text(v, "prompt");
        mp_add_text(c, "", 0, INFER_TEXT_ADD_SPECIAL);
        for (i = 0; (end = strstr(prompt, marker)) != NULL; prompt = end) {
            mp_add_text(c, prompt, (size_t)(end - prompt), 0);
            n = (size_t)mp_media(c, &file, media, i, merge, pre);
            for (i += n; n > 0; n--) end += sizeof marker - 1;
        }
        mp_add_text(c, prompt, strlen(prompt), 0);
        mp_end_text(c);
        CHECK(i == media->n && c->chunk == c->chunks->n && c->pos == mp_int(v, "n_pos_total"));
    }
    *cases += 1;
    *tensors += c->tensors;
    if (c->worst > *worst) *worst = c->worst;
    infer__tokenizer_close(t);
    mp_close(&projector);
    mp_close(&text);
    infer__arena_free(&arena);
    CHECK(infer__atomic_get(&c->mem.used) == 0);
    free(json);
    free(c);
}

static const char *const MP_CASES[] = {
    "cogvlm_gradient-56x56", "cogvlm_text-200x120", "dotsocr_checker-20x20", "dotsocr_text-200x120",
    "gemma3-f16_gradient-64x48", "gemma3-f16_text-200x120", "gemma3_gradient-64x48",
    "gemma3_gradient-64x48+checker-20x20", "gemma3_noise-37x91", "gemma3_rings-64x64", "gemma3_text-200x120",
    "gemma4uv_noise-37x91", "gemma4uv_text-200x120", "gemma4v-plain_noise-37x91", "gemma4v_blocks-300x60",
    "gemma4v_gradient-64x48", "gemma4v_text-200x120", "glm4v-nopos_blocks-300x60", "glm4v_gradient-84x84",
    "glm4v_noise-37x91", "glm4v_text-200x120", "glma_sweep-40000", "idefics3-old_noise-37x91",
    "idefics3_blocks-300x60", "idefics3_checker-20x20", "idefics3_noise-37x91", "idefics3_text-200x120",
    "internvl_gradient-32x32", "internvl_noise-37x91", "internvl_text-200x120", "janus_noise-37x91",
    "janus_text-200x120", "kimik25_gradient-84x84", "kimik25_noise-37x91", "kimik25_text-200x120",
    "kimivl_blocks-300x60", "kimivl_gradient-84x84", "kimivl_noise-37x91", "kimivl_text-200x120",
    "lfm2-tiles_blocks-900x640", "lfm2_blocks-300x60", "lfm2_noise-37x91", "lfm2_rings-64x64", "lfm2_text-200x120",
    "lightonocr_noise-37x91", "lightonocr_text-200x120", "llama4_blocks-300x60", "llama4_gradient-32x32",
    "llama4_noise-37x91", "llama4_text-200x120", "llava-cls_checker-20x20", "llava-cls_text-200x120",
    "llava-next_checker-20x20", "llava-next_text-200x120", "llava-next_text-60x150", "llava_gradient-64x48",
    "llava_noise-37x91", "llava_rings-56x56", "minicpmv_gradient-56x56", "minicpmv_noise-37x91",
    "minicpmv_text-200x120", "minimaxm3_noise-37x91", "minimaxm3_text-200x120", "mixed_gradient-64x48",
    "mixed_noise-9000", "musicflamingo_noise-20011", "paddleocr_blocks-300x60", "paddleocr_noise-37x91",
    "paddleocr_text-200x120", "phi4_checker-20x20", "phi4_text-200x120", "pixtral-merge_checker-20x20",
    "pixtral-merge_noise-37x91", "pixtral-merge_text-200x120", "pixtral_gradient-64x48", "pixtral_noise-37x91",
    "pixtral_text-200x120", "qwen25vl-f16_text-112x140", "qwen25vl_blocks-300x60", "qwen25vl_checker-20x20",
    "qwen25vl_gradient-112x112", "qwen25vl_text-280x200", "qwen2a_tones-56123", "qwen2vl-limits_checker-20x20",
    "qwen2vl-limits_text-200x120", "qwen2vl-video_rings-84x56+text-84x56",
    "qwen2vl-video_rings-84x56+text-84x56+checker-84x56", "qwen2vl_blocks-300x60", "qwen2vl_checker-20x20",
    "qwen2vl_noise-37x91", "qwen2vl_text-200x120", "qwen2vl_text-200x120+gradient-64x48", "qwen3a_sweep-40000",
    "qwen3a_tones-1700", "qwen3vl_noise-37x91", "qwen3vl_rings-96x96", "qwen3vl_text-200x120",
    "qwen3vl_text-200x120+gradient-64x48", "ultravox_sweep-40000", "voxtral_noise-20011",
};
static void test_prepare_cases(void) {
    int cases = 0, tensors = 0;
    double worst = 0;
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < INFER__COUNT(MP_CASES); i++) mp_run(MP_CASES[i], &cases, &tensors, &worst);
    CHECK(cases == (int)INFER__COUNT(MP_CASES) && tensors > cases);
    if (getenv("CHECK_TIMES")) fprintf(stderr, "%d cases, %d tensors, mel differs by %g\n", cases, tensors, worst);
}


/* ---- resizing ---- */

/* Checksums of what Pillow 11.1 makes of stripes: bicubic, bilinear, Lanczos. */
static const struct { int32_t w, h, dw, dh; uint64_t fnv[3]; } MP_RESIZED[] = {
    {37, 91, 64, 64, {0xac52d8a3491833ddu, 0xcf5add553eec8fe2u, 0x379644035998ec03u}},
    {91, 37, 5, 7, {0x7c9c8b1474904f10u, 0x859ca6ccb88633f9u, 0x5fa16a8e189b33bbu}},
    {1, 1, 9, 4, {0x190e37f78a4adff9u, 0x190e37f78a4adff9u, 0x190e37f78a4adff9u}},
    {1, 200, 3, 30, {0xe0e8f0820e18ba62u, 0x1b8a1f5f22e58de5u, 0x5700d6f0e36558b0u}},
    {300, 2, 31, 2, {0xbdffd7e92e019732u, 0x6ac21faf6f152709u, 0xe0da0402bb48370cu}},
    {64, 48, 64, 48, {0x0a2bba4dd069d2ecu, 0x0a2bba4dd069d2ecu, 0x0a2bba4dd069d2ecu}},
    {64, 48, 64, 20, {0xda67f35748ed3da8u, 0x737eec9ffe71e1c1u, 0x024dd80062ebc0dau}},
    {64, 48, 20, 48, {0xe019bfff5467d30eu, 0x5cfd09f38bd6def5u, 0x39c6f1bbf2676ec1u}},
    {7, 5, 8, 6, {0x53aa358f4c51ea15u, 0x4988eeb924aebee9u, 0x4b152c75b14abb7cu}},
    {50, 50, 49, 51, {0xab651982e6ff25dau, 0x3a72e03d5df2d634u, 0xaa5ed6e5beefb3d1u}},
    {200, 120, 33, 1, {0x2fd524edec7ec398u, 0x20db0f2444773244u, 0xd1529213e4bef110u}},
    {13, 17, 170, 3, {0x1432744928926cf9u, 0xe801ccecb13839cau, 0xd015ef50545c8ef7u}},
};
static void test_prepare_resize(void) {
    uint8_t *src = (uint8_t *)malloc(80000), *dst = (uint8_t *)malloc(40000);
    infer__mem mem;
    infer_error err;
    char detail[80];
    size_t i, j;
    int filter, y;
    infer__mem_init(&mem, NULL, 0);
    for (i = 0; i < INFER__COUNT(MP_RESIZED); i++)
        for (filter = 0; filter < 3; filter++) {
            const int32_t w = MP_RESIZED[i].w, h = MP_RESIZED[i].h, dw = MP_RESIZED[i].dw, dh = MP_RESIZED[i].dh;
            uint64_t seed = (uint64_t)w * 1000 + (uint64_t)h, sum = INFER__FNV;
            snprintf(detail, sizeof detail, "%d x %d to %d x %d, filter %d", w, h, dw, dh, filter);
            check_detail = detail;
            for (j = 0; j < (size_t)w * (size_t)h * 3; j++) src[j] = (uint8_t)infer__splitmix(&seed);
            for (j = 0; j < (size_t)w * (size_t)h; j++) src[j] = j / 7 % 2 ? 255 : 0;
            memset(dst, 77, 40000);
            CHECK(infer__resize(&mem, filter, src, w, h, dst, dw, dh, (size_t)dw * 3 + 5, &err) == INFER_OK);
            for (y = 0; y < dh; y++) {
                const uint8_t *row = dst + (size_t)y * ((size_t)dw * 3 + 5);
                sum = infer__fnv(sum, row, (uint64_t)dw * 3);
                CHECK(row[dw * 3] == 77 && row[dw * 3 + 4] == 77); /* nothing beyond a row */
            }
            CHECK(sum == MP_RESIZED[i].fnv[filter]);
        }
    CHECK(infer__atomic_get(&mem.used) == 0);
    free(src);
    free(dst);
}

/* ---- projectors made here ---- */

/* A projector file of a type; keys in `other` are "KEY=INTEGER" and replace those that it has, "KEY=" leaves one out. */
typedef struct mp_made {
    mp_file f;
    unsigned char *bytes;
    infer__media_file file;
    infer_error err;
    infer_result r;
} mp_made;

static int mp_replaced(const char *const *other, const char *key) {
    for (; other && *other; other++)
        if (strcspn(*other, "=") == strlen(key) && strncmp(*other, key, strlen(key)) == 0) return 1;
    return 0;
}
static void mp_make(mp_made *m, const char *type, const char *const *other, const infer__media_options *options) {
    static const struct { const char *key; int value; } ints[] = {
        {"clip.has_vision_encoder", 1}, {"clip.has_audio_encoder", 1}, {"clip.vision.image_size", 32}, {"clip.vision.patch_size", 4}, {"clip.vision.projection_dim", 64},
        {"clip.vision.projector.scale_factor", 2}, {"clip.vision.image_min_pixels", 256},
        {"clip.vision.image_max_pixels", 16384}, {"clip.audio.num_mel_bins", 80}, {"clip.audio.projector.stack_factor", 4}};
    static const float mean[3] = {0.5f, 0.5f, 0.5f}, std[3] = {0.5f, 0.5f, 0.5f};
    gguf_writer w;
    size_t n, i, j;
    memset(m, 0, sizeof *m);
    gw_init(&w);
    gw_str(&w, "general.architecture", "clip");
    for (i = 0, j = 0; i < INFER__COUNT(INFER__PROJECTORS); i++) { /* the other kind has a type of its own */
        if (strcmp(INFER__PROJECTORS[i].name, type) == 0) j |= 1u << INFER__PROJECTORS[i].kind;
    }
    gw_str(&w, "clip.vision.projector_type", j == 1u << INFER__MEDIA_SOUND ? "mlp" : type);
    gw_str(&w, "clip.audio.projector_type", j & 1u << INFER__MEDIA_SOUND ? type : "qwen2a");
    if (!mp_replaced(other, "clip.vision.image_mean")) gw_f32s(&w, "clip.vision.image_mean", mean, 3);
    if (!mp_replaced(other, "clip.vision.image_std")) gw_f32s(&w, "clip.vision.image_std", std, 3);
    for (i = 0; i < INFER__COUNT(ints); i++)
        if (!mp_replaced(other, ints[i].key)) gw_int(&w, ints[i].key, GW_U32, ints[i].value);
    for (j = 0; other && other[j]; j++) {
        const char *value = strchr(other[j], '=') + 1;
        char key[80];
        snprintf(key, sizeof key, "%.*s", (int)(value - 1 - other[j]), other[j]);
        if (strchr(value, ',')) {
            int64_t list[64];
            for (n = 0; *value && n < 64; value += *value == ',') list[n++] = strtol(value, (char **)(uintptr_t)&value, 10);
            gw_ints(&w, key, GW_I32, list, n);
        } else if (*value) {
            gw_int(&w, key, GW_I64, strtoll(value, NULL, 10));
        }
    }
    m->bytes = gw_finish(&w, &n);
    if (mp_open(&m->f, NULL, m->bytes, n)) m->r = infer__media_settings_read(&m->f.g, options, &m->file, &m->err);
}
static void mp_unmake(mp_made *m) {
    mp_close(&m->f);
    free(m->bytes);
}

/* What a key says is checked, and the message names it. */
static void test_prepare_keys(void) {
    static const struct { const char *type, *key, *value; infer_result r; const char *says; } cases[] = {
        {"gemma3", "clip.vision.image_size", "0", INFER_ERR_FORMAT, "\"clip.vision.image_size\": 0 is out of range (1 to 8192)"},
        {"gemma3", "clip.vision.image_size", "", INFER_ERR_FORMAT, "\"clip.vision.image_size\" is missing"},
        {"gemma3", "clip.vision.image_size", "8193", INFER_ERR_FORMAT, "image_size"},
        {"gemma3", "clip.vision.image_size", "-5", INFER_ERR_FORMAT, "image_size"},
        {"gemma3", "clip.vision.image_size", "7", INFER_ERR_FORMAT, "\"clip.vision.image_size\": 7 is less"},
        {"gemma3", "clip.vision.patch_size", "0", INFER_ERR_FORMAT, "patch_size"},
        {"gemma3", "clip.vision.patch_size", "4294967296", INFER_ERR_FORMAT, "patch_size"},
        {"qwen2vl_merger", "clip.vision.patch_size", "1000", INFER_ERR_UNSUPPORTED, "\"clip.vision.patch_size\": tokens of 2000"},
        {"gemma3", "clip.vision.projector.scale_factor", "0", INFER_ERR_FORMAT, "scale_factor"},
        {"dots_ocr", "clip.vision.projector.scale_factor", "", INFER_ERR_FORMAT, "scale_factor\" is missing"},
        {"lfm2", "clip.vision.projector.scale_factor", "3", INFER_ERR_UNSUPPORTED, "tokens of 12 pixels"},
        {"gemma3", "clip.vision.projection_dim", "", INFER_ERR_FORMAT, "projection_dim\" is missing"},
        {"gemma3", "clip.vision.image_mean", "1", INFER_ERR_FORMAT, "image_mean"},
        {"gemma3", "clip.vision.image_std", "1,0,1", INFER_ERR_FORMAT, "image_std"},
        {"phi4", "clip.vision.image_min_pixels", "", INFER_ERR_FORMAT, "image_min_pixels\" is missing"},
        {"phi4", "clip.vision.image_min_pixels", "20000", INFER_ERR_FORMAT, "image_min_pixels\": more than the maximum"},
        {"phi4", "clip.vision.image_max_pixels", "100000000", INFER_ERR_FORMAT, "image_max_pixels"},
        {"idefics3", "clip.vision.preproc_image_size", "65537", INFER_ERR_FORMAT, "preproc_image_size"},
        {"internvl", "clip.vision.preproc_max_tiles", "65", INFER_ERR_FORMAT, "preproc_max_tiles"},
        {"internvl", "clip.vision.preproc_min_tiles", "13", INFER_ERR_FORMAT, "preproc_min_tiles"},
        {"mlp", "clip.vision.image_grid_pinpoints", "32,64,32", INFER_ERR_FORMAT, "image_grid_pinpoints"},
        {"mlp", "clip.vision.image_grid_pinpoints", "5", INFER_ERR_FORMAT, "image_grid_pinpoints"},
        {"mlp", "clip.vision.image_grid_pinpoints", "32,63", INFER_ERR_UNSUPPORTED, "image_grid_pinpoints"},
        {"mlp", "clip.vision.image_grid_pinpoints", "32,0", INFER_ERR_UNSUPPORTED, "image_grid_pinpoints"},
        {"mlp", "clip.vision.image_grid_pinpoints", "32,2080", INFER_ERR_UNSUPPORTED, "image_grid_pinpoints"},
        {"resampler", "clip.minicpmv_version", "7", INFER_ERR_UNSUPPORTED, "clip.minicpmv_version"},
        {"resampler", "clip.minicpmv_query_num", "65537", INFER_ERR_FORMAT, "minicpmv_query_num"},
        {"ultravox", "clip.audio.num_mel_bins", "0", INFER_ERR_FORMAT, "num_mel_bins"},
        {"ultravox", "clip.audio.num_mel_bins", "513", INFER_ERR_FORMAT, "num_mel_bins"},
        {"ultravox", "clip.audio.projector.stack_factor", "", INFER_ERR_FORMAT, "stack_factor"},
        {"ultravox", "clip.audio.projector.stack_factor", "65", INFER_ERR_FORMAT, "stack_factor"},
        {"gemma3", "clip.has_vision_encoder", "2", INFER_ERR_FORMAT, "clip.has_vision_encoder"},
        {"ldp", "general.x", "", INFER_ERR_UNSUPPORTED, "projector type \"ldp\" is not supported for pictures"},
        {"gemma3na", "general.x", "", INFER_ERR_UNSUPPORTED, "\"gemma3na\" is not supported"},
        {"", "general.x", "", INFER_ERR_UNSUPPORTED, "projector type \"\""}};
    static const char *const sound[] = {"clip.has_vision_encoder=0", NULL};
    static const char *const alone[] = {"clip.has_audio_encoder=0", NULL};
    static const char *const neither[] = {"clip.has_vision_encoder=0", "clip.has_audio_encoder=", NULL};
    char other[120];
    const char *list[2] = {other, NULL};
    infer__media_options options;
    mp_made m;
    size_t i;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        snprintf(other, sizeof other, "%s=%s", cases[i].key, cases[i].value);
        check_detail = other;
        mp_make(&m, cases[i].type, list, NULL);
        CHECK(!m.file.image.row || !m.file.sound.row);
        if (m.r == INFER_OK) m.err = m.file.image.row ? m.file.sound.why : m.file.image.why;
        CHECK(m.err.code == cases[i].r);
        CHECK_HAS(m.err.message, cases[i].says);
        mp_unmake(&m);
    }
    check_detail = "";
    for (i = 0; i < INFER__COUNT(INFER__PROJECTORS); i++) { /* every row can be read */
        snprintf(other, sizeof other, "clip.minicpmv_version=%d", (int)INFER__PROJECTORS[i].versions[0]);
        mp_make(&m, INFER__PROJECTORS[i].name, list, NULL);
        CHECK(m.r == INFER_OK);
        CHECK((INFER__PROJECTORS[i].kind == INFER__MEDIA_IMAGE ? m.file.image.row : m.file.sound.row) == &INFER__PROJECTORS[i]);
        mp_unmake(&m);
    }
    mp_make(&m, "gemma3", sound, NULL);
    CHECK(m.r == INFER_OK && !m.file.image.row && m.file.sound.row);
    mp_unmake(&m);
    CHECK(m.file.image.why.code == INFER_OK);
    mp_make(&m, "ldp", alone, NULL); /* the only encoder is refused */
    CHECK(m.r == INFER_ERR_UNSUPPORTED && !m.file.image.row);
    CHECK_HAS(m.err.message, "\"ldp\" is not supported for pictures");
    mp_unmake(&m);
    mp_make(&m, "gemma3", neither, NULL);
    CHECK(m.r == INFER_ERR_FORMAT);
    CHECK_HAS(m.err.message, "neither clip.has_vision_encoder nor");
    mp_unmake(&m);
    CHECK(mp_open(&m.f, check_data("models/stories260K.F32.gguf"), NULL, 0)); /* a model, no projector */
    CHECK(infer__media_settings_read(&m.f.g, NULL, &m.file, &m.err) == INFER_ERR_FORMAT);
    CHECK_HAS(m.err.message, "general.architecture is \"llama\", not \"clip\"");
    mp_close(&m.f);
    memset(&options, 0, sizeof options);
    options.min_tokens = 20;
    options.max_tokens = 10;
    mp_make(&m, "qwen2vl_merger", NULL, &options);
    CHECK(m.r == INFER_OK && m.file.image.why.code == INFER_ERR_ARGUMENT);
    CHECK_HAS(m.file.image.why.message, "min_image_tokens 20, max_image_tokens 10");
    mp_unmake(&m);
    mp_make(&m, "gemma4v", NULL, NULL);
    CHECK(m.r == INFER_OK && m.file.image.non_causal && strcmp(m.file.image.before, "<|image>") == 0);
    mp_unmake(&m);
    snprintf(other, sizeof other, "clip.vision.projection_dim=2560");
    mp_make(&m, "gemma4v", list, NULL);
    CHECK(m.r == INFER_OK && !m.file.image.non_causal);
    mp_unmake(&m);
}

/* What llama.cpp makes of noise: a type, keys beside image_size=56 and patch_size=14, token limits, a size; entries, the
 * first one's size, and the checksum of all values. */
#define MP_LFM2 "clip.vision.patch_size=16 clip.vision.projector.scale_factor=2"
static const struct { const char *type, *keys; int32_t min, max, w, h, n, width, height; uint64_t fnv; } MP_NOISE[] = {
    {"mlp", "clip.vision.image_grid_pinpoints=112,112,112,56", 0, 0, 57, 40, 3, 56, 56, 0xe38080784ff63821u},
    {"mlp", "clip.vision.image_grid_pinpoints=56,112,112,56,112,112,168,56,56,168", 0, 0, 61, 149, 4, 56, 56, 0xc3e6bf981b6c0188u},
    {"mlp", "", 0, 0, 61, 149, 1, 56, 56, 0x41c08df00c785382u},
    {"janus_pro", "", 0, 0, 61, 149, 1, 56, 56, 0x30b49a7e30066232u},
    {"resampler", "clip.minicpmv_version=3", 0, 0, 532, 527, 10, 56, 56, 0x4fccfd30ab67155du},
    {"resampler", "clip.minicpmv_version=2", 0, 0, 61, 300, 6, 28, 126, 0xe92b46a5817180cau},
    {"internvl", "", 0, 0, 200, 120, 13, 56, 56, 0x78e54e73626758e7u},
    {"internvl", "clip.vision.preproc_min_tiles=2 clip.vision.preproc_max_tiles=9", 0, 0, 300, 61, 9, 56, 56, 0x9a3a476e8d2f1fb2u},
    {"llama4", "", 0, 0, 90, 61, 5, 56, 56, 0xddb78a1128c2aea6u},
    {"idefics3", "clip.vision.preproc_image_size=168", 0, 0, 61, 149, 7, 56, 56, 0x8e8daed8f25730a6u},
    {"idefics3", "", 0, 0, 61, 149, 4, 56, 56, 0xc3e6bf981b6c0188u},
    {"idefics3", "clip.vision.preproc_image_size=168", 20, 40, 61, 149, 3, 56, 56, 0xefeadaf0426faa66u},
    {"lfm2", MP_LFM2, 0, 0, 61, 149, 1, 192, 416, 0x1ed0e251691eccdeu},
    {"lfm2", MP_LFM2, 0, 0, 900, 640, 7, 512, 512, 0x28b9a0fbd3c04608u},
    {"lfm2", MP_LFM2, 0, 0, 1250, 1000, 10, 512, 512, 0x05582cf37ae75387u},
    {"lfm2", MP_LFM2, 0, 0, 1008, 720, 7, 512, 512, 0xd7cf9243c1b34d53u},
    {"lfm2", MP_LFM2, 0, 0, 800, 800, 5, 512, 512, 0x68bca02aa20e344fu},
    {"qwen2vl_merger", "", 0, 0, 61, 149, 1, 56, 140, 0xd76eea74e02e67b0u},
    {"qwen2vl_merger", "", 16, 40, 400, 149, 1, 280, 84, 0x1ca7d191e78f0cdau},
    {"minimax_m3", "", 0, 0, 61, 149, 1, 56, 140, 0x51900fa806bd41b7u},
    {"lightonocr", "clip.vision.preproc_image_size=140", 0, 0, 300, 149, 1, 140, 70, 0x4810be6c3177d2dcu},
    {"phi4", "clip.vision.image_min_pixels=3920 clip.vision.image_max_pixels=23520", 0, 0, 300, 149, 1, 210, 98, 0xf4a1ddf0bb176e0au},
    {"gemma4v", "clip.vision.patch_size=4 clip.vision.projector.scale_factor=3", 0, 0, 300, 40, 1, 300, 36, 0x27c9053eb9f59865u},
    {"gemma3", "", 0, 0, 300, 40, 1, 56, 56, 0xe4ccaf6865c7dd89u},
};
static void test_prepare_noise(void) {
    infer__media_options options;
    infer__media_list list;
    mp_made m;
    size_t i, j, n;
    memset(&options, 0, sizeof options);
    for (i = 0; i < INFER__COUNT(MP_NOISE); i++) {
        static const char *const usual[] = {"clip.vision.image_size=56", "clip.vision.patch_size=14", "clip.vision.projector.scale_factor=1"};
        const char *other[8], *keys = MP_NOISE[i].keys;
        char text[200], detail[160];
        infer_image image;
        uint64_t seed = (uint64_t)MP_NOISE[i].w * 100003 + (uint64_t)MP_NOISE[i].h, sum = INFER__FNV;
        snprintf(text, sizeof text, "%s", keys);
        snprintf(detail, sizeof detail, "%s %s %d x %d", MP_NOISE[i].type, keys, MP_NOISE[i].w, MP_NOISE[i].h);
        check_detail = detail;
        for (n = j = 0; text[j]; n++) {
            other[n] = text + j;
            j += strcspn(text + j, " ");
            if (text[j]) text[j++] = 0;
        }
        for (j = 0; j < 3; j++)
            if (!strstr(keys, j == 1 ? "patch_size" : j == 2 ? "scale_factor" : "?")) other[n++] = usual[j];
        other[n] = NULL;
        options.min_tokens = MP_NOISE[i].min;
        options.max_tokens = MP_NOISE[i].max;
        mp_make(&m, MP_NOISE[i].type, other, &options);
        CHECK(m.r == INFER_OK);
        image.width = MP_NOISE[i].w;
        image.height = MP_NOISE[i].h;
        n = (size_t)image.width * (size_t)image.height * 3;
        image.rgb = (uint8_t *)malloc(n);
        for (j = 0; j < n; j++) image.rgb[j] = (uint8_t)infer__splitmix(&seed);
        CHECK(infer__media_plan(&m.f.mem, &m.file.image, &image, 1, &list, &m.err) == INFER_OK);
        CHECK(infer__media_fill(&list, &m.file.image, &image, &m.err) == INFER_OK);
        CHECK(list.n_entries == MP_NOISE[i].n && list.entries[0].width == MP_NOISE[i].width && list.entries[0].height == MP_NOISE[i].height);
        for (j = 0, n = 0; j < (size_t)list.n_entries; j++) n += (size_t)list.entries[j].width * (size_t)list.entries[j].height * 3;
        for (j = 0; j < n; j++) {
            const uint32_t u = infer__f32_bits(list.values[j]);
            const uint8_t bytes[4] = {(uint8_t)u, (uint8_t)(u >> 8), (uint8_t)(u >> 16), (uint8_t)(u >> 24)};
            sum = infer__fnv(sum, bytes, 4);
        }
        CHECK(sum == MP_NOISE[i].fnv);
        infer__media_list_free(&list);
        free(image.rgb);
        mp_unmake(&m);
    }
}

/* A white picture of 2 x 1 in a square of 32 x 32: 32 x 16 in its middle. */
static void test_prepare_letterbox(void) {
    uint8_t rgb[6] = {255, 255, 255, 255, 255, 255};
    infer_image image = {2, 1, NULL, NULL};
    infer__media_list list;
    mp_made m;
    int i;
    image.rgb = rgb;
    mp_make(&m, "gemma3", NULL, NULL);
    CHECK(m.r == INFER_OK && infer__media_plan(&m.f.mem, &m.file.image, &image, 1, &list, &m.err) == INFER_OK);
    CHECK(list.n_pieces == 3 && list.n_entries == 1 && list.n_tokens == 16 && list.pieces[1].n_pos == 16);
    CHECK_STR(list.pieces[0].text, "<start_of_image>");
    CHECK_STR(list.pieces[2].text, "<end_of_image>");
    CHECK(infer__media_fill(&list, &m.file.image, &image, &m.err) == INFER_OK);
    for (i = 0; i < 32 * 96; i++) CHECK(list.entries[0].values[i] == (i / 96 >= 8 && i / 96 < 24 ? 1.0f : -1.0f));
    image.width = 1; /* not the planned one */
    CHECK(infer__media_fill(&list, &m.file.image, &image, &m.err) == INFER_ERR_ARGUMENT);
    infer__media_list_free(&list);
    mp_unmake(&m);
}

/* Any picture: a list whose parts agree, or an error. */
static void mp_plan_any(mp_made *m, const infer__media_settings *s, int32_t w, int32_t h, int *planned) {
    infer_image image = {0, 0, NULL, NULL};
    infer__media_list list;
    infer_result r;
    int32_t i, tokens = 0;
    image.width = w;
    image.height = h;
    r = infer__media_plan(&m->f.mem, s, &image, 1, &list, &m->err);
    if (r != INFER_OK) {
        CHECK((r == INFER_ERR_LIMIT || r == INFER_ERR_ARGUMENT) && m->err.message[0] && !list.pieces);
        return;
    }
    for (i = 0; i < list.n_pieces; i++) {
        const infer__media_piece *p = &list.pieces[i];
        if (p->kind == INFER__MEDIA_TEXT) { CHECK(p->text && p->text[0]); continue; }
        CHECK(p->n_tokens > 0 && p->n_pos > 0 && p->nx * p->ny == p->n_tokens && p->entry < list.n_entries);
        CHECK(list.entries[p->entry].width > 0 && list.entries[p->entry].height > 0);
        tokens += p->n_tokens;
    }
    CHECK(tokens == list.n_tokens && list.n_entries >= 1);
    if (s->max_pixels > 0 && s->row->cut == infer__cut_near)
        CHECK((int64_t)list.entries[0].width * list.entries[0].height <= s->max_pixels);
    *planned += 1;
    infer__media_list_free(&list);
}
static void test_prepare_sizes(void) {
    static const int32_t sides[] = {0, -1, 1, 2, 3, 31, 32, 33, 1000, 4000, 100000, 1 << 20, 1 << 24, INT32_MAX};
    static const char *const dots[] = {"clip.vision.image_size=1", "clip.vision.patch_size=1", "clip.vision.projector.scale_factor=1",
                                       "clip.vision.preproc_image_size=80", NULL};
    infer_image two[3] = {{64, 48, NULL, NULL}, {64, 48, NULL, NULL}, {64, 48, NULL, NULL}};
    infer__media_list list;
    mp_made m;
    size_t i, a, b;
    int planned = 0, n;
    for (i = 0; i < INFER__COUNT(INFER__PROJECTORS); i++) {
        const infer__projector *row = &INFER__PROJECTORS[i];
        uint64_t seed = i;
        if (row->kind != INFER__MEDIA_IMAGE) continue;
        check_detail = row->name;
        mp_make(&m, row->name, NULL, NULL);
        n = planned;
        for (a = 0; a < INFER__COUNT(sides); a++)
            for (b = 0; b < INFER__COUNT(sides); b++) mp_plan_any(&m, &m.file.image, sides[a], sides[b], &planned);
        for (a = 0; a < 300; a++)
            mp_plan_any(&m, &m.file.image, 1 + (int32_t)(infer__splitmix(&seed) % 3000), 1 + (int32_t)(infer__splitmix(&seed) % 3000), &planned);
        CHECK(planned - n > 300);
        CHECK(infer__media_plan(&m.f.mem, &m.file.image, two, 2, &list, &m.err) == (row->frames ? INFER_OK : INFER_ERR_ARGUMENT));
        if (row->frames) CHECK(list.n_entries == 2 && list.pieces[1].n_entries == 2 && list.n_tokens == list.pieces[1].n_tokens);
        infer__media_list_free(&list);
        CHECK(infer__media_plan(&m.f.mem, &m.file.image, two, 3, &list, &m.err) == INFER_ERR_ARGUMENT);
        mp_unmake(&m);
    }
    mp_make(&m, "idefics3", dots, NULL);
    CHECK(infer__media_plan(&m.f.mem, &m.file.image, two, 1, &list, &m.err) == INFER_ERR_LIMIT);
    CHECK_HAS(m.err.message, "4096 tiles");
    mp_unmake(&m);
    mp_make(&m, "qwen2vl_merger", NULL, NULL);
    two[1].height = 47;
    CHECK(infer__media_plan(&m.f.mem, &m.file.image, two, 2, &list, &m.err) == INFER_ERR_ARGUMENT);
    CHECK_HAS(m.err.message, "frames of a video");
    two[0].width = 40000;
    two[0].height = 40000;
    CHECK(infer__media_plan(&m.f.mem, &m.file.image, two, 1, &list, &m.err) == INFER_ERR_LIMIT);
    CHECK_HAS(m.err.message, "40000 x 40000");
    mp_unmake(&m);
}

/* A stripe of 1 x 100000 through every way of cutting: pixels, or an error. */
static void test_prepare_extreme(void) {
    uint8_t *rgb = (uint8_t *)malloc(300000);
    infer__media_list list;
    mp_made m;
    size_t i;
    int turn;
    memset(rgb, 200, 300000);
    for (i = 0; i < INFER__COUNT(INFER__PROJECTORS); i++) {
        if (INFER__PROJECTORS[i].kind != INFER__MEDIA_IMAGE) continue;
        check_detail = INFER__PROJECTORS[i].name;
        mp_make(&m, INFER__PROJECTORS[i].name, NULL, NULL);
        for (turn = 0; turn < 2; turn++) {
            infer_image image = {1, 100000, NULL, NULL};
            infer_result r;
            image.rgb = rgb;
            if (turn) image.width = 100000, image.height = 1;
            r = infer__media_plan(&m.f.mem, &m.file.image, &image, 1, &list, &m.err);
            CHECK(r == INFER_OK || r == INFER_ERR_LIMIT);
            if (r == INFER_OK) CHECK(infer__media_fill(&list, &m.file.image, &image, &m.err) == INFER_OK);
            infer__media_list_free(&list);
        }
        mp_unmake(&m);
    }
    free(rgb);
}

/* ---- spectrograms ---- */

/* One value by the definitions: a sum for each frequency, no transform. `at`: the frame's first sample. */
static double mp_mel(const float *x, int64_t n, int64_t at, int window, int fft, int reflect, int htk, int bins, int bin) {
    const double pi = 3.14159265358979323846, end = htk ? 2595 * log10(1 + 8000 / 700.0) : 15 + log(8) / (log(6.4) / 27);
    double edge[3], sum = 0, total;
    int i, k;
    for (i = 0; i < 3; i++) {
        double mel = end * (bin + i) / (bins + 1);
        edge[i] = htk ? 700 * (pow(10, mel / 2595) - 1) : mel < 15 ? mel / 0.015 : 1000 * pow(6.4, (mel - 15) / 27);
    }
    for (k = 0; k <= fft / 2; k++) {
        const double f = 16000.0 * k / fft, up = (f - edge[0]) / (edge[1] - edge[0]), down = (edge[2] - f) / (edge[2] - edge[1]);
        double w = up < down ? up : down, re = 0, im = 0;
        if (w <= 0) continue;
        for (i = 0; i < window; i++) {
            int64_t p = at + i;
            double v;
            if (p < 0 && reflect) p = -p;
            if (p >= n && reflect == 2) p = 2 * (n - 1) - p;
            v = p >= 0 && p < n ? x[p] * (0.5 - 0.5 * cos(2 * pi * i / window)) : 0;
            re += v * cos(2 * pi * k * i / fft);
            im += v * sin(2 * pi * k * i / fft);
        }
        total = re * re + im * im;
        sum += w * (htk ? sqrt(total) : total * 2 / (edge[2] - edge[0]));
    }
    return htk ? log(sum > 0.001 ? sum : 0.001) : log10(sum > 5.960464477539063e-08 ? sum : 5.960464477539063e-08);
}
static void test_prepare_mel(void) {
    static const struct { const char *type; int window, fft, before, reflect, htk; } cases[] = {
        {"qwen2a", 400, 400, 200, 1, 0}, {"qwen3a", 400, 400, 200, 2, 0}, {"gemma4a", 320, 512, 160, 0, 1}};
    enum { N = 3000 };
    float x[N];
    infer__media_list list;
    mp_made m;
    size_t i;
    int k, bin;
    uint64_t seed = 7;
    for (k = 0; k < N; k++) x[k] = (float)(0.3 * sin(k * 0.05 + k * k * 1e-4)) + (float)(infer__splitmix(&seed) >> 40) * 6e-9f;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        static const int frames[] = {0, 1, 2, 7, 16, 17};
        double max = -100, v[INFER__COUNT(frames) + 40][80];
        const infer__media_entry *e;
        int all;
        check_detail = cases[i].type;
        mp_make(&m, cases[i].type, NULL, NULL);
        CHECK(m.r == INFER_OK && infer__media_plan_sound(&m.f.mem, &m.file.sound, N, &list, &m.err) == INFER_OK);
        CHECK(infer__media_fill_sound(&list, &m.file.sound, x, &m.err) == INFER_OK && list.n_entries == 1);
        e = &list.entries[0];
        all = cases[i].htk ? (int)e->frames : 21; /* frames that the maximum may come from */
        CHECK(e->frames == (cases[i].htk ? 18 : i ? 19 : 3000) && e->width == (cases[i].htk ? 18 : i ? 100 : 3000) && e->height == 80);
        for (k = 0; k < all; k++)
            for (bin = 0; bin < 80; bin++) {
                v[k][bin] = mp_mel(x, N, k * 160 - cases[i].before, cases[i].window, cases[i].fft, cases[i].reflect, cases[i].htk, 80, bin);
                if ((k < e->frames) && v[k][bin] > max) max = v[k][bin];
            }
        for (k = 0; k < (int)INFER__COUNT(frames); k++)
            for (bin = 0; bin < 80; bin++) {
                double want = v[frames[k]][bin];
                if (!cases[i].htk) want = ((want > max - 8 ? want : max - 8) + 4) / 4;
                CHECK(fabs(e->values[bin * e->width + frames[k]] - want) < 1e-5);
            }
        if (i == 1) CHECK(e->values[19] == 0 && e->values[99] == 0); /* filled up */
        infer__media_list_free(&list);
        mp_unmake(&m);
    }
}

/* Where a second entry begins, and what is refused. */
static void test_prepare_sound_sizes(void) {
    static const struct { const char *type; size_t n; int entries, last, tokens; } cases[] = {
        {"qwen2a", 1, 1, 3000, 750}, {"qwen2a", 479839, 1, 3000, 750}, {"qwen2a", 479840, 2, 3000, 1500},
        {"ultravox", 479840, 2, 3000, 750}, {"voxtral", 16000, 1, 3000, 187}, {"glma", 16000, 1, 3000, 377},
        {"qwen3a", 1, 1, 100, 13}, {"qwen3a", 127839, 1, 800, 104}, {"qwen3a", 128000, 2, 100, 117},
        {"gemma4a", 1, 1, 1, 1}, {"gemma4a", 480000, 1, 2999, 750}, {"gemma4a", 480001, 2, 1, 751}};
    float *x = (float *)calloc(480001, sizeof *x);
    infer__media_list list;
    mp_made m;
    size_t i;
    int k;
    for (i = 0; i < INFER__COUNT(cases); i++) {
        check_detail = cases[i].type;
        mp_make(&m, cases[i].type, NULL, NULL);
        CHECK(infer__media_plan_sound(&m.f.mem, &m.file.sound, cases[i].n, &list, &m.err) == INFER_OK);
        CHECK(list.n_entries == cases[i].entries && list.entries[list.n_entries - 1].width == cases[i].last);
        CHECK(list.n_tokens == cases[i].tokens);
        CHECK(infer__media_fill_sound(&list, &m.file.sound, x, &m.err) == INFER_OK); /* silence */
        for (k = 0; k < list.n_entries; k++) CHECK(infer__finite(list.entries[k].values[0]));
        infer__media_list_free(&list);
        CHECK(infer__media_plan_sound(&m.f.mem, &m.file.sound, 0, &list, &m.err) == INFER_ERR_ARGUMENT);
        CHECK(infer__media_plan_sound(&m.f.mem, &m.file.sound, SIZE_MAX, &list, &m.err) == INFER_ERR_LIMIT);
        mp_unmake(&m);
    }
    mp_make(&m, "qwen2a", NULL, NULL);
    x[99] = infer__bits_f32(0x7fc00000u);
    CHECK(infer__media_plan_sound(&m.f.mem, &m.file.sound, 100, &list, &m.err) == INFER_OK);
    CHECK(infer__media_fill_sound(&list, &m.file.sound, x, &m.err) == INFER_ERR_ARGUMENT && !list.entries[0].values);
    CHECK_HAS(m.err.message, "sample 99");
    infer__media_list_free(&list);
    mp_unmake(&m);
    free(x);
}

/* The n-th allocation fails, for all n. */
static void test_prepare_oom(void) {
    static const char *const types[] = {"idefics3", "resampler", "lfm2", "qwen2vl_merger", "qwen3a", "qwen2a"};
    static const char *const longest[] = {"clip.vision.preproc_image_size=64", NULL};
    infer_allocator a = {NULL, check_alloc, check_free};
    uint8_t *rgb = (uint8_t *)calloc(1, 100 * 70 * 3);
    float x[500] = {0};
    infer_image image = {100, 70, NULL, NULL};
    infer__media_list list;
    infer__mem mem;
    mp_made m;
    size_t i;
    image.rgb = rgb;
    for (i = 0; i < INFER__COUNT(types); i++) {
        long n;
        int sound = i >= 4;
        infer_result r = INFER_ERR_MEMORY;
        check_detail = types[i];
        mp_make(&m, types[i], longest, NULL);
        CHECK(m.r == INFER_OK);
        for (n = 1; r != INFER_OK && n < 500; n++) {
            infer__mem_init(&mem, &a, 0);
            check_allocs = check_live = 0;
            check_fail_at = n;
            if (sound) r = infer__media_plan_sound(&mem, &m.file.sound, 500, &list, &m.err);
            else r = infer__media_plan(&mem, &m.file.image, &image, 1, &list, &m.err);
            if (r != INFER_OK) CHECK(!list.pieces && !list.arena.mem);
            else if (sound) r = infer__media_fill_sound(&list, &m.file.sound, x, &m.err);
            else r = infer__media_fill(&list, &m.file.image, &image, &m.err);
            CHECK(r == INFER_OK || (r == INFER_ERR_MEMORY && m.err.message[0]));
            infer__media_list_free(&list);
            CHECK(check_live == 0 && infer__atomic_get(&mem.used) == 0);
        }
        CHECK(r == INFER_OK && n > 5);
        check_fail_at = 0;
        mp_unmake(&m);
    }
    free(rgb);
}

static void suite_media_prepare(void) {
    RUN(test_prepare_cases);
    RUN(test_prepare_resize);
    RUN(test_prepare_keys);
    RUN(test_prepare_noise);
    RUN(test_prepare_letterbox);
    RUN(test_prepare_sizes);
    RUN(test_prepare_extreme);
    RUN(test_prepare_mel);
    RUN(test_prepare_sound_sizes);
    RUN(test_prepare_oom);
}
