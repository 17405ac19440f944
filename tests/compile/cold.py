#!/usr/bin/env python3
"""cold.py: no header of vector intrinsics is first included in a part with options of its own (INFER__COLD_BEGIN,
INFER__PASSES_BEGIN), and all such parts end: the user's code after the header has the user's options.

  python3 tests/compile/cold.py COMPILER [ARGUMENTS]

clang gives all functions that are defined there, those of the header too, `noinline`: every intrinsic becomes a call, and
products take 16 times as long, with nothing to see but that. gcc takes memory for each. What the preprocessor leaves tells:
pragmas, and line markers of files. Fails as well when it finds neither such a header nor a cold part: then it would see nothing."""
import os, re, subprocess, sys

INTRINSICS = re.compile(r'# \d+ "[^"]*/([a-z0-9_]*intrin|arm_neon|arm_sve|riscv_vector|wasm_simd128)\.h" 1')


def main():
    text = subprocess.run(sys.argv[1:] + ["-O2", "-DINFER_QUIET", "-DINFER_IMPLEMENTATION", "-E", "-x", "c", "../../infer.h"],
                          capture_output=True, text=True, errors="replace")
    if text.returncode:
        sys.exit(text.stderr)
    depth = deepest = found = 0
    cold, file = set(), ""
    for line in text.stdout.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            file = os.path.basename(marker.group(1))
        if file == "infer.h" and re.match("#pragma (clang attribute|GCC p(ush|op)_options)", line): # headers have their own
            depth += 1 if "push" in line else -1
            deepest = max(deepest, depth)
        header = INTRINSICS.match(line)
        if header:
            found += 1
            if depth:
                cold.add(header.group(1))
    if cold or not found or not deepest or depth:
        sys.exit("included in a part: %s; %d headers of intrinsics, parts %d deep, %d left open"
                 % (", ".join(sorted(cold)) or "nothing", found, deepest, depth))


if __name__ == "__main__":
    main()
