#!/usr/bin/env python3
"""size_table.py: memory and times by size of model, as rows of a table for docs/memory.md. Files are made by `infer synth`.

  python3 tools/size_table.py [build/infer] [SHAPE[:TYPE] ...]
"""
import os, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CC = os.environ.get("CC", "cc")
SHAPES = ["smollm2-135m", "qwen3-0.6b", "llama3.2-1b", "llama3.2-3b", "llama3.1-8b"]
PROGRAM = r"""
#define INFER_IMPLEMENTATION
#include "infer.h"
#include <stdio.h>
#include <stdlib.h>
/* MODEL: file, weights, cache for 4096 positions and for 512, work buffers (MB, predicted); to open, to make a session, to evaluate
 * 64 tokens and one more (ms); resident memory of the process then, but for the file (MB). */
static long resident(const char *field) {
    char line[200];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) if (strncmp(line, field, strlen(field)) == 0) kb = strtol(line + strlen(field) + 1, NULL, 10);
    if (f) fclose(f);
    return kb;
}
int main(int argc, char **argv) {
    infer_model_params mp = { 0 };
    infer_context_params cp = { 0 };
    infer_session_params sp = { 0 };
    infer_memory full, small;
    infer_model_info info;
    infer_model *model;
    infer_session *session;
    infer_error err;
    infer_token ids[65];
    double t[5];
    int i;
    if (argc < 2) return 2;
    mp.backend = INFER_CPU;
    for (i = 0; i < 65; i++) ids[i] = 7 * i + 1;
    cp.cells = 4096;
    if (infer_model_memory_path(argv[1], &mp, &cp, &full, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    cp.cells = 512;
    if (infer_model_memory_path(argv[1], &mp, &cp, &small, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    t[0] = infer__seconds();
    if (infer_model_open(&model, argv[1], &mp, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    t[1] = infer__seconds();
    sp.context = sp.own.cells = 512;
    if (infer_session_create(&session, model, &sp, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    t[2] = infer__seconds();
    if (infer_session_eval(session, ids, 64)) return fprintf(stderr, "%s\n", infer_session_error(session)->message), 1;
    t[3] = infer__seconds();
    if (infer_session_eval(session, ids + 64, 1)) return 1;
    t[4] = infer__seconds();
    infer_model_get_info(model, &info);
    printf("%.0f %.0f %.0f %.0f %.0f %.1f %.1f %.0f %.0f %.0f\n", info.file_bytes / 1e6, full.weights / 1e6,
           full.cache / 1e6, small.cache / 1e6, small.scratch / 1e6, (t[1] - t[0]) * 1e3, (t[2] - t[1]) * 1e3, (t[3] - t[2]) * 1e3, (t[4] - t[3]) * 1e3, resident("RssAnon:") / 1e3);
    return 0;
}
"""


def main():
    infer = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "infer")
    with tempfile.TemporaryDirectory() as folder:
        source, exe, path = (os.path.join(folder, name) for name in ("size.c", "size", "model.gguf"))
        with open(source, "w") as f:
            f.write(PROGRAM)
        subprocess.run([CC, "-O2", "-w", "-I", ROOT, source, "-o", exe, "-lm", "-lpthread", "-ldl"], check=True)
        print("| model | file | cache of 4096 | of 512 | work buffers | resident | open | session | 64 tokens, first time | a token |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for wanted in sys.argv[2:] or SHAPES:
            shape, _, kind = wanted.partition(":")
            subprocess.run([infer, "synth", shape, kind or "q4_0", path], check=True, capture_output=True)
            runs = [subprocess.run([exe, path], check=True, capture_output=True, text=True).stdout for _ in range(3)]
            runs = [[float(x) for x in run.split()] for run in runs]
            best = [min(column) for column in zip(*runs)]
            print("| %s %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f ms | %.1f ms | %.0f ms | %.0f ms |" % (
                (shape, (kind or "q4_0").upper(), best[0], best[2], best[3], best[4], best[9], best[5], best[6], best[7], best[8])), flush=True)


if __name__ == "__main__":
    main()
