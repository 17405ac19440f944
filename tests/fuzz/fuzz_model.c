/* fuzz_model.c: libFuzzer target for everything between a file and its logits, through the public interface: opens the bytes,
 * describes the model, makes a session (with little memory allowed), evaluates a few tokens, rewinds, forks; encodes a picture and a sound.
 *
 * -DFUZZ_SEEDS gives a main that writes the seeds into the folder named: tiny models of several kinds. */
#include "library.h"

static void fuzz_session(infer_model *m) {
    infer_session_params p;
    infer_session *s = NULL, *t = NULL;
    infer_token ids[5] = { 0, 1, 2, 1, 0 };
    memset(&p, 0, sizeof p);
    p.context = 8;
    p.own.threads = 1;
    p.own.batch = 3;
    p.own.keep = 1;
    if (infer_session_create(&s, m, &p, NULL) == INFER_OK) {
        if (infer_session_eval(s, ids, 5) == INFER_OK) {
            if (infer_session_fork(&t, s, NULL) == INFER_OK) infer_session_eval(t, ids, 1);
            infer_session_rewind(s, 2);
            infer_session_eval(s, ids, 2);
        }
    }
    infer_session_destroy(t);
    infer_session_destroy(s);
}

/* A projector's file is a model that encodes. */
static void fuzz_picture(infer_model *m) {
    static uint8_t rgb[9 * 7 * 3] = { 1, 200, 3 };
    const infer_encode_params p = { .threads = 1 };
    const infer_image image = { .width = 9, .height = 7, .rgb = rgb };
    infer_media *x = NULL;
    infer_error e;
    if (infer_media_encode(&x, m, &image, 1, &p, &e) == INFER_OK) infer_media_free(x);
    else if (x || !e.message[0]) __builtin_trap();
}

static void fuzz_sound(infer_model *m) {
    static float samples[1600];
    const infer_encode_params p = { .threads = 1 };
    const infer_sound sound = { .samples = samples, .n = sizeof samples / sizeof *samples, .rate = 16000 };
    infer_media *x = NULL;
    infer_error e;
    size_t i;
    for (i = 0; i < sound.n; i++) samples[i] = (float)(i % 37) / 37 - 0.5f;
    if (infer_media_encode_sound(&x, m, &sound, &p, &e) == INFER_OK) infer_media_free(x);
    else if (x || !e.message[0]) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    infer_model_params p;
    infer_model *m = NULL;
    infer_error e;
    char text[64];
    size_t n;
    void *copy = malloc(size + 1); /* its own block, so that reading past the end is seen */
    if (!copy) return 0;
    memcpy(copy, data, size);
    memset(&p, 0, sizeof p);
    p.max_memory = 32 << 20;
    p.allow_default_pre = 1;
    if (infer_model_open_memory(&m, copy, size, &p, &e) == INFER_OK) {
        infer_model_describe(m, text, sizeof text, &n);
        fuzz_session(m);
        fuzz_picture(m);
        fuzz_sound(m);
        if (infer_model_close(m) != INFER_OK) __builtin_trap();
    } else if (m || e.code == INFER_OK || !e.message[0]) __builtin_trap();
    free(copy);
    return 0;
}

#ifdef FUZZ_SEEDS
#include "model_maker.h"

int main(int argc, char **argv) {
    static const char *const archs[] = { "llama", "qwen3moe", "gemma3", "gpt2", "phi2", "bloom", "deepseek2", "mamba2", "rwkv7",
                                         "qwen3next", "bert", "t5" };
    size_t i;
    uint32_t row, number;
    char path[512];
    for (i = 0; i < sizeof archs / sizeof *archs; i++) {
        maker mk;
        infer_model *m;
        for (row = 0; strcmp(INFER__ARCHS[row].name, archs[i]); row++) continue;
        number = 0;
        m = maker_computed(&mk, row, &number, 2000, 8192);
        snprintf(path, sizeof path, "%s/%s.gguf", argc > 1 ? argv[1] : ".", archs[i]);
        if (!m || !gw_save(path, mk.part[0], mk.part_n[0])) {
            fprintf(stderr, "%s: not written\n", path);
            return 1;
        }
        LLVMFuzzerTestOneInput(mk.part[0], mk.part_n[0]);
        infer_model_close(m);
        maker_free(&mk);
    }
    return 0;
}
#endif
