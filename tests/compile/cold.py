#!/usr/bin/env python3
"""cold.py: no header of vector intrinsics is first included in a part that INFER__COLD_BEGIN makes cold.

  python3 tests/compile/cold.py CLANG [ARGUMENTS]

clang gives all functions that are defined there, those of the header too, `noinline`: every intrinsic becomes a call, and
products take 16 times as long, with nothing to see but that. What the preprocessor leaves tells: pragmas, and line markers of
files. Fails as well when it finds neither such a header nor a cold part: then it would see nothing."""
import re, subprocess, sys

INTRINSICS = re.compile(r'# \d+ "[^"]*/([a-z0-9_]*intrin|arm_neon|arm_sve|riscv_vector|wasm_simd128)\.h" 1')


def main():
    text = subprocess.run(sys.argv[1:] + ["-O2", "-DINFER_QUIET", "-DINFER_IMPLEMENTATION", "-E", "-x", "c", "../../infer.h"],
                          capture_output=True, text=True, errors="replace")
    if text.returncode:
        sys.exit(text.stderr)
    depth = deepest = found = 0
    cold = set()
    for line in text.stdout.splitlines():
        if line.startswith("#pragma clang attribute"):
            depth += 1 if "push" in line else -1
            deepest = max(deepest, depth)
        header = INTRINSICS.match(line)
        if header:
            found += 1
            if depth:
                cold.add(header.group(1))
    if cold or not found or not deepest or depth:
        sys.exit("included where all is cold: %s; %d headers of intrinsics, cold parts %d deep, %d left open"
                 % (", ".join(sorted(cold)) or "nothing", found, deepest, depth))


if __name__ == "__main__":
    main()
