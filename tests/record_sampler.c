/* record_sampler.c: what llama.cpp's samplers leave of the cases in sampler_cases.h, as text on stdout. Not part of the
 * tests: it made tests/data/sampler-cases.txt, which the tests read. With LLAMA a built llama.cpp (static libraries):
 *
 *   cc -O1 -c -I$LLAMA/include -I$LLAMA/ggml/include tests/record_sampler.c -o build/record_sampler.o
 *   c++ build/record_sampler.o BUILD/src/libllama.a BUILD/ggml/src/libggml.a BUILD/ggml/src/libggml-cpu.a
 *       BUILD/ggml/src/libggml-base.a -fopenmp -lpthread -ldl -lm -o build/record_sampler
 *   build/record_sampler tests/data/models/TinyStories-656K.Q8_0.gguf > tests/data/sampler-cases.txt
 *
 * One line a case: row variant step, candidates left, token that was drawn (-1: none), then the likeliest ones as
 * token:probability, best first. */
#include "llama.h"
#include "sampler_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct llama_vocab *vocab;

static struct llama_sampler *make(const sampler_case *c, int32_t n) {
    static const char *breakers[4] = {"\n", ":", "\"", "*"};
    const float *p = c->p;
    struct llama_sampler *chain;
    switch (c->what) {
    case CASE_PENALTY: return llama_sampler_init_penalties(n, (int32_t)p[0], p[1], p[2], p[3]);
    case CASE_TOP_K: return llama_sampler_init_top_k((int32_t)p[0]);
    case CASE_TOP_P: return llama_sampler_init_top_p(p[0], 0);
    case CASE_MIN_P: return llama_sampler_init_min_p(p[0], 0);
    case CASE_TYPICAL: return llama_sampler_init_typical(p[0], 0);
    case CASE_SIGMA: return llama_sampler_init_top_n_sigma(p[0]);
    case CASE_TEMP: return llama_sampler_init_temp_ext(p[0], p[1], p[2]);
    case CASE_XTC: return llama_sampler_init_xtc(p[0], p[1], 0, 1);
    case CASE_DRY: return llama_sampler_init_dry(vocab, p[0], p[1], (int32_t)p[2], (int32_t)p[3], breakers, c->breakers ? 4 : 0);
    case CASE_MIROSTAT: return llama_sampler_init_mirostat(n, 1, p[0], p[1], (int32_t)p[2]);
    case CASE_MIROSTAT_2: return llama_sampler_init_mirostat_v2(1, p[0], p[1]);
    case CASE_ADAPTIVE: return llama_sampler_init_adaptive_p(p[0], p[1], 1);
    case CASE_INFILL:
        chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(40));
        llama_sampler_chain_add(chain, llama_sampler_init_top_p(0.99f, 0));
        llama_sampler_chain_add(chain, llama_sampler_init_infill(vocab));
        return chain;
    default:
        chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
        llama_sampler_chain_add(chain, llama_sampler_init_penalties(n, 64, 1.1f, 0, 0));
        llama_sampler_chain_add(chain, llama_sampler_init_dry(vocab, 0.8f, 1.75f, 2, 64, breakers, 0));
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(40));
        llama_sampler_chain_add(chain, llama_sampler_init_typical(0.9f, 0));
        llama_sampler_chain_add(chain, llama_sampler_init_top_p(0.95f, 0));
        llama_sampler_chain_add(chain, llama_sampler_init_min_p(0.05f, 0));
        llama_sampler_chain_add(chain, llama_sampler_init_temp_ext(0.8f, 0, 1));
        return chain;
    }
}

static int compare(const void *a, const void *b) {
    const llama_token_data *x = a, *y = b;
    return x->logit > y->logit ? -1 : x->logit < y->logit ? 1 : x->id - y->id;
}

int main(int argc, char **argv) {
    struct llama_model_params mp = llama_model_default_params();
    struct llama_model *model;
    int row, variant, step;
    int32_t i, n, m;
    mp.vocab_only = 1;
    model = argc > 1 ? llama_model_load_from_file(argv[1], mp) : NULL;
    if (!model) return 1;
    vocab = llama_model_get_vocab(model);
    for (row = 0; row < N_SAMPLER_CASES; row++) {
        const sampler_case *c = &SAMPLER_CASES[row];
        int steps = c->what == CASE_MIROSTAT || c->what == CASE_MIROSTAT_2 || c->what == CASE_ADAPTIVE ? SAMPLER_STEPS : 1;
        for (variant = 0; variant < SAMPLER_VARIANTS; variant++) {
            static float x[2048];
            static llama_token_data data[2048];
            int32_t history[SAMPLER_HISTORY];
            struct llama_sampler *s;
            n = sampler_case_size(c, variant);
            s = make(c, n);
            sampler_case_history(history, n, variant);
            for (i = 0; i < SAMPLER_HISTORY; i++) llama_sampler_accept(s, history[i]);
            for (step = 0; step < steps; step++) {
                llama_token_data_array a;
                llama_token drawn;
                double sum = 0;
                sampler_case_logits(x, n, c->what, variant, step);
                for (i = 0; i < n; i++) { data[i].id = i; data[i].logit = x[i]; data[i].p = 0; }
                a.data = data; a.size = (size_t)n; a.selected = -1; a.sorted = 0;
                llama_sampler_apply(s, &a);
                drawn = a.selected >= 0 ? a.data[a.selected].id : -1;
                for (i = m = 0; i < (int32_t)a.size; i++) if (a.data[i].logit > -INFINITY) a.data[m++] = a.data[i];
                qsort(a.data, (size_t)m, sizeof *a.data, compare);
                for (i = 0; i < m; i++) sum += exp((double)a.data[i].logit - a.data[0].logit);
                printf("%d %d %d %d %d", row, variant, step, (int)m, (int)drawn);
                for (i = 0; i < m && i < SAMPLER_SHOWN; i++)
                    printf(" %d:%.6g", (int)a.data[i].id, exp((double)a.data[i].logit - a.data[0].logit) / sum);
                printf("\n");
                if (drawn >= 0) llama_sampler_accept(s, drawn);
            }
            llama_sampler_free(s);
        }
    }
    llama_model_free(model);
    return 0;
}
