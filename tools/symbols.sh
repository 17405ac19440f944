#!/bin/sh
# symbols.sh [FILE.h | FILE.o]: compile the implementation, unless it is there, and look at the object: it may export infer_*
# only, and must not refer to anything that ends the process or prints. CC and NM choose the tools.
set -eu
cd "$(dirname "$0")/.."
header=${1:-infer.h}
dir=build/symbols
mkdir -p "$dir"
case $header in
*.o) object=$header ;;
*)
    object=$dir/impl.o
    printf '#define INFER_IMPLEMENTATION\n#define INFER_QUIET\n#include "../../%s"\n' "$header" >"$dir/impl.c"
    ${CC:-cc} -std=c99 -O1 -U_FORTIFY_SOURCE -c "$dir/impl.c" -o "$object"
    ;;
esac
${NM:-nm} -g "$object" | awk '
    { name = $NF; kind = $(NF - 1); sub(/^_(infer_|infer__)/, "infer_", name) }
    kind != "U" && kind != "w" {
        exported++
        if (name !~ /^infer_[a-z]/) { print "symbols: exports " name ": make it static"; bad = 1 }
    }
    kind == "U" && name ~ /^_?_?(abort|exit|_exit|_Exit|quick_exit|printf|fprintf|puts|fputs|putchar|perror|system|__assert_fail|stdout|stderr|stdin)(_chk)?(@.*)?$/ {
        print "symbols: refers to " name ": return an error instead"; bad = 1
    }
    END {
        if (exported == 0) { print "symbols: exports nothing: is INFER_API wrong?"; bad = 1 }
        if (!bad) print "symbols: " exported " exported, all infer_*"
        exit bad
    }'
