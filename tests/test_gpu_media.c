/* test_gpu_media.c: pictures and sound on a device: recorded cases from pixels to logits with projector and text there,
 * whole and half of them; recorded embeddings with the text model alone; tokens after pictures, in passes that a driver
 * has recorded. Uses test_media_session.c and test_gpu_record.c. */

/* Whole blocks in windows; axes, and parts after layers; windows of pictures; heads of two blocks, ranges; no layers;
 * kept layers; tiles; sound in chunks and not. */
static const char *const GPU_MEDIA[] = {"gemma3_gradient-64x48+checker-20x20", "qwen2vl_text-200x120+gradient-64x48",
    "qwen3vl_text-200x120+gradient-64x48", "qwen25vl_text-280x200", "gemma4v_gradient-64x48", "gemma4uv_noise-37x91",
    "llava_noise-37x91", "llava-next_text-60x150", "lfm2_noise-37x91", "internvl_noise-37x91", "minicpmv_noise-37x91",
    "minimaxm3_noise-37x91", "pixtral_noise-37x91", "qwen3a_tones-1700", "ultravox_sweep-40000"};
enum { GPU_MEDIA_FEW = 3 }; /* of them with CHECK_EMULATED, for devices that interpret */
static size_t gpu_media_count(void) { return gpu_small() ? GPU_MEDIA_FEW : INFER__COUNT(GPU_MEDIA); }

static void gpu_media_on(int32_t backend, int32_t layers, void (*opened)(infer_model *m)) {
    seen_backend = backend;
    seen_layers = layers;
    seen_exact = backend != INFER_CPU || opened;
    seen_opened = opened;
}

/* All is where it was asked for; chunks of sound are convolved on the CPU, which has their encoder. */
static void gpu_media_placed(infer_model *m) {
    int32_t i;
    CHECK(m->device_layers == (seen_layers ? seen_layers : m->hp.n_layer));
    for (i = 0; i < INFER__SENSES; i++) {
        const infer_model *s = m->senses->stacks[i];
        if (s) CHECK(s->device_layers == (s->layers[0].on_host ? 0 : s->hp.n_layer));
    }
}

static void test_gpu_media_whole(void) {
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    GPU_NEEDED();
    gpu_media_on(check_backend(), 0, gpu_media_placed);
    for (i = 0; i < (getenv("MEDIA_CASE") ? INFER__COUNT(MEDIA_CASES) : gpu_media_count()); i++) { /* all that are named */
        const char *name = getenv("MEDIA_CASE") ? MEDIA_CASES[i] : GPU_MEDIA[i];
        if (!getenv("MEDIA_CASE") || strstr(name, getenv("MEDIA_CASE"))) media_whole(name);
    }
    gpu_media_on(INFER_CPU, 0, NULL);
}

/* One layer of the text model on the device; encoders are there whole. */
static void test_gpu_media_half(void) {
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    GPU_NEEDED();
    gpu_media_on(check_backend(), 1, gpu_media_placed);
    for (i = 0; i < gpu_media_count(); i++) media_whole(GPU_MEDIA[i]);
    gpu_media_on(INFER_CPU, 0, NULL);
}

/* Samples and a matrix are on the device; a conformer, whose steps are no ops, is on the CPU. */
static void test_gpu_media_conformer(void) {
    static const size_t sounds[] = {3, INFER__COUNT(CONFORMER_SOUNDS) - 1};
    size_t i, size = 0;
    char *data;
    GPU_NEEDED();
    data = check_read(check_data("media/gemma4a.recorded"), &size);
    gpu_media_on(check_backend(), 0, NULL);
    for (i = 0; i < INFER__COUNT(sounds); i++) {
        const conformer_table t = conformer_find(data, size, 2 * (int32_t)sounds[i] + 1);
        const int32_t samples = CONFORMER_SOUNDS[sounds[i]].samples;
        infer_model *m = conformer_open(CONFORMER_SOUNDS[sounds[i]].file, INFER_CPU_BEST);
        float *sound = conformer_sound(samples, 0);
        infer_media *x = m ? conformer_encode(m, sound, samples, 1, NULL) : NULL;
        const infer_model *s = m ? m->senses->stacks[INFER__STACK_AUDIO - 1] : NULL;
        double most;
        CHECK(s && s->layers[0].on_host == (i == 0) && s->device_layers == (i == 0 ? 0 : 1));
        CHECK(x && conformer_differ(&t, infer_media_embeddings(x, 0, NULL, NULL), 64, 1, &most) < STACK_LIMIT);
        CHECK(infer_media_free(x) == INFER_OK && infer_model_close(m) == INFER_OK && check_live == 0);
        free(sound);
    }
    gpu_media_on(INFER_CPU, 0, NULL);
    free(data);
}

/* Recorded embeddings, at once and in other passes. */
static void test_gpu_media_text(void) {
    static float got[128 * 336];
    size_t i;
    int32_t way, rows;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    GPU_NEEDED();
    for (way = 0; way < (gpu_small() ? 1 : 4); way++)
        for (i = 0; i < gpu_media_count(); i++) {
            seen_world w;
            gpu_media_on(check_backend(), way / 2, NULL); /* 0: all layers */
            if (seen_begin(&w, GPU_MEDIA[i], 256)) {
                if (way % 2) {
                    infer_session_destroy(w.s);
                    infer_context_destroy(w.c);
                    w.s = seen_session(w.m, w.x.whole ? 173 : 7, 1, &w.c);
                }
                rows = seen_eval(w.s, &w.x, got);
                CHECK(rows == w.x.logits.n && check_nmse(got, w.x.logits.v, (size_t)rows * 336) < 2e-6);
            }
            seen_end(&w);
        }
    gpu_media_on(INFER_CPU, 0, NULL);
    CHECK(check_live == 0);
}

/* Tokens up to the end of the first picture. */
static int32_t gpu_media_first(const seen_case *x) {
    int32_t n = 0;
    while (n < x->n && x->tokens[n] >= 0) n++;
    while (n < x->n && x->tokens[n] < 0) n++;
    return n;
}

/* Pictures, then tokens one by one; text alone, which no axis shifts; pictures again: shapes of passes recur, positions on
 * axes and the ends of what rows see do not. */
static void gpu_media_steps(const char *name) {
    static const infer_token text[] = {72, 105, 33, 32, 65};
    seen_world w[2];
    int32_t i, k, round, open = 1;
    for (i = 0; i < 2; i++) { /* the CPU, the device */
        gpu_media_on(i ? check_backend() : INFER_CPU, 0, i ? rec_begin : NULL);
        seen_exact = 1;
        open = seen_begin(&w[i], name, 256) && open;
    }
    for (round = 0; round < 4 && open; round++) {
        for (i = 0; i < 2; i++) {
            CHECK(infer_session_rewind(w[i].s, 0) == INFER_OK);
            CHECK(infer_session_media(w[i].s, w[i].x.media, w[i].x.n_media) == INFER_OK);
            if (round == 1) CHECK(infer_session_eval(w[i].s, text, 5) == INFER_OK);
            else if (round == 2) CHECK(infer_session_eval(w[i].s, w[i].x.tokens, gpu_media_first(&w[i].x)) == INFER_OK);
            else CHECK(infer_session_eval(w[i].s, w[i].x.tokens, w[i].x.n) == INFER_OK);
        }
        for (k = 0; k < 8 && !check_bad; k++) {
            const infer_token id = text[k % 5];
            gpu_close_to(name, infer_session_logits(w[1].s, -1), infer_session_logits(w[0].s, -1), 336);
            for (i = 0; i < 2; i++) CHECK(infer_session_eval(w[i].s, &id, 1) == INFER_OK);
        }
    }
    CHECK(!open || rec.replays > 15);
    for (i = 0; i < 2; i++) seen_end(&w[i]);
    gpu_media_on(INFER_CPU, 0, NULL);
}

static void test_gpu_media_record(void) {
    size_t i;
    if (!check_reference("")) SKIP("needs INFER_TEST_DATA");
    GPU_NEEDED();
    for (i = 0; i < GPU_MEDIA_FEW; i++) gpu_media_steps(GPU_MEDIA[i]);
    CHECK(check_live == 0 && rec.open == 0);
}

static void suite_gpu_media(void) {
    RUN_DEVICE(test_gpu_media_whole);
    RUN_DEVICE(test_gpu_media_half);
    RUN_DEVICE(test_gpu_media_text);
    RUN_DEVICE(test_gpu_media_conformer);
    RUN_DEVICE(test_gpu_media_record);
}
