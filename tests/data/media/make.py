#!/usr/bin/env python3
"""make.py: writes the pictures beside it with Pillow, and the hash (FNV-1a) of the RGB values that Pillow reads from each; the
hashes are in tests/test_media.c.

  python3 tests/data/media/make.py            write them
  python3 tests/data/media/make.py --hashes   read them: Pillow decodes them as it did
"""
import os, sys
import numpy as np
import PIL
from PIL import Image, ImageOps, features

HERE = os.path.dirname(os.path.abspath(__file__))
y, x = np.mgrid[0:21, 0:35]
rgb = Image.fromarray(np.stack([x * 7, y * 12, 128 + 100 * np.sin(x * y / 20)], -1).astype(np.uint8))
exif = Image.Exif()
exif[0x112] = 6
FILES = {"baseline-420.jpg": (rgb, dict(quality=60, subsampling="4:2:0")),
         "progressive-422-exif.jpg": (rgb, dict(quality=70, subsampling="4:2:2", progressive=True, exif=exif)),
         "restart-444.jpg": (rgb, dict(quality=50, subsampling="4:4:4", restart_marker_blocks=3)),
         "grey.jpg": (rgb.convert("L"), dict(quality=75)),
         "cmyk.jpg": (rgb.convert("CMYK"), dict(quality=50)),
         "palette.png": (rgb.quantize(13), {}),
         "rgba-exif.png": (rgb.convert("RGBA"), dict(exif=exif))}


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return h


print("Pillow %s, libjpeg-turbo %s" % (PIL.__version__, features.version("libjpeg_turbo")))
for name, (image, options) in FILES.items():
    path = os.path.join(HERE, name)
    if "--hashes" not in sys.argv:
        image.save(path, **options)
    with Image.open(path) as im:
        out = ImageOps.exif_transpose(im).convert("RGB")
    print('    { "%s", %d, %d, 0x%016xu },' % (name, out.width, out.height, fnv(out.tobytes())))
