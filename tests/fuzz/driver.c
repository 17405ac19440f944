/* driver.c: a main for the fuzz targets where clang's libFuzzer is missing: random changes to the seed files, no coverage.
 * Understands -max_total_time=SECONDS, -seed=N and folders of seeds; other options are ignored, so that the call is the same. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak)); /* together.c has it */

enum { MAX_SEEDS = 4096, MAX_SIZE = 1 << 20 };
static uint8_t *seeds[MAX_SEEDS];
static size_t sizes[MAX_SEEDS];
static int n_seeds;
static uint64_t state = 88172645463325252u;

static uint64_t next_random(void) { /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}
static size_t below(size_t n) { return n ? (size_t)(next_random() % n) : 0; }

static void load(const char *folder) {
    DIR *d = opendir(folder);
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL && n_seeds < MAX_SEEDS) {
        char path[2048];
        FILE *f;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        f = fopen(path, "rb");
        if (!f) continue;
        seeds[n_seeds] = (uint8_t *)malloc(MAX_SIZE);
        if (seeds[n_seeds]) {
            sizes[n_seeds] = fread(seeds[n_seeds], 1, MAX_SIZE, f);
            n_seeds++;
        }
        fclose(f);
    }
    if (d) closedir(d);
}

static size_t change(uint8_t *p, size_t n) {
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0xfe};
    size_t times = 1 + below(8), k;
    while (times-- && n) {
        size_t at = below(below(2) ? n : (n < 256 ? n : 256)); /* half of the changes hit the beginning */
        switch (below(6)) {
        case 0: p[at] = (uint8_t)next_random(); break;
        case 1: p[at] ^= (uint8_t)(1u << below(8)); break;
        case 2: p[at] = edges[below(sizeof edges)]; break;
        case 3: n = at; break; /* cut */
        case 4: for (k = 0; k < 8 && at + k < n; k++) p[at + k] = edges[below(sizeof edges)]; break;
        default: k = below(n - at); memmove(p + at, p + below(n - k), k); break;
        }
    }
    return n;
}

int main(int argc, char **argv) {
    double seconds = 60;
    unsigned long runs = 0;
    time_t start = time(NULL);
    static uint8_t buf[MAX_SIZE];
    int i;
    if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
    for (i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-max_total_time=", 16) == 0) seconds = atof(argv[i] + 16);
        else if (strncmp(argv[i], "-seed=", 6) == 0) state ^= strtoull(argv[i] + 6, NULL, 10) * 0x9e3779b97f4a7c15u;
        else if (argv[i][0] != '-') load(argv[i]);
    }
    for (i = 0; i < n_seeds; i++, runs++) LLVMFuzzerTestOneInput(seeds[i], sizes[i]);
    while (difftime(time(NULL), start) < seconds) {
        size_t n = 0, s = below((size_t)n_seeds), k;
        uint8_t *exact;
        if (n_seeds) memcpy(buf, seeds[s], n = sizes[s]);
        else for (n = below(512), k = 0; k < n; k++) buf[k] = (uint8_t)next_random();
        n = change(buf, n);
        exact = (uint8_t *)malloc(n ? n : 1); /* its own block, so that ASan sees reads past the end */
        if (!exact) return 1;
        memcpy(exact, buf, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
        runs++;
    }
    printf("driver: %lu runs, %d seeds\n", runs, n_seeds);
    return 0;
}
