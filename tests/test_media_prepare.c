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
    double far;             /* the largest difference of a spectrogram */
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
        if (d > c->far) c->far = d;
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

static void mp_run(const char *name, int *cases, int *tensors, double *far) {
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
    if (c->far > *far) *far = c->far;
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
static void test_media_cases(void) {
    int cases = 0, tensors = 0;
    double far = 0;
    size_t i;
    if (!check_reference("")) SKIP("INFER_TEST_DATA is not set");
    for (i = 0; i < INFER__COUNT(MP_CASES); i++) mp_run(MP_CASES[i], &cases, &tensors, &far);
    CHECK(cases == (int)INFER__COUNT(MP_CASES) && tensors > cases);
    if (getenv("CHECK_TIMES")) fprintf(stderr, "%d cases, %d tensors, mel differs by %g\n", cases, tensors, far);
}

static void suite_media_prepare(void) {
    RUN(test_media_cases);
}
