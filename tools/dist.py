#!/usr/bin/env python3
"""dist.py: the release, build/dist/infer-VERSION.tar.gz (infer.h and LICENSE) and SHA256SUMS of it and of both files.

  python3 tools/dist.py [FOLDER]    FOLDER instead of build/dist

The same sources give the same bytes: no times, no owners. Check a download with `sha256sum -c --ignore-missing SHA256SUMS`.
"""
import gzip, hashlib, io, os, re, subprocess, sys, tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILES = ("LICENSE", "infer.h")


def archive(folder, files):
    """A gzipped tar of {name: bytes} in this folder."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(folder + "/" + name) # mode 644, time and owner 0
            entry.size = len(data)
            t.addfile(entry, io.BytesIO(data))
    return gzip.compress(tar.getvalue(), 9, mtime=0)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "dist")
    if subprocess.run([sys.executable, os.path.join(ROOT, "amalgamate.py"), "--check"]).returncode:
        return 1
    files = {}
    for name in FILES:
        with open(os.path.join(ROOT, name), "rb") as f:
            files[name] = f.read()
    version = re.match(rb"/\* infer\.h (\d+\.\d+\.\d+),", files["infer.h"])
    if not version:
        sys.exit("dist.py: the first line of infer.h names no version. Run `make amalgamate`.")
    folder = "infer-" + version.group(1).decode()
    made = {folder + ".tar.gz": archive(folder, files)}
    sums = {**made, **{folder + "/" + name: data for name, data in files.items()}}
    made["SHA256SUMS"] = "".join("%s  %s\n" % (hashlib.sha256(data).hexdigest(), name) for name, data in sorted(sums.items())).encode()
    os.makedirs(out, exist_ok=True)
    for name, data in made.items():
        with open(os.path.join(out, name), "wb") as f:
            f.write(data)
        print("%s: %d bytes" % (os.path.join(out, name), len(data)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
