#!/bin/sh
# examples.sh: the examples print what they should. tests/all.py has compiled them to build/examples.
#   sh tests/examples.sh [FOLDER]
dir=${1:-build/examples}
model=tests/data/models/stories260K.F32.gguf
story=', there was a little girl named Lily. She loved to play outside in the park. One day, she saw'
passed=0 failed=0

# same NAME WANT PROGRAM ARGS...: stdout, with its trailing newline gone, is WANT and the exit status is 0.
same() {
    name=$1 want=$2 program=$dir/$3
    shift 3
    if [ ! -x "$program" ]; then echo "skipped $name: $program is not there"; return; fi
    prints "$name" "$want" "$program" "$@"
}
# prints NAME WANT COMMAND ARGS...: the same of any command.
prints() {
    name=$1 want=$2
    shift 2
    got=$("$@" 2>/dev/null)
    status=$?
    if [ $status = 0 ] && [ "$got" = "$want" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s: status %s\n got: %s\nwant: %s\n' "$name" $status "$got" "$want"
    fi
}
# refuses NAME PART PROGRAM ARGS...: the status is not 0 and stderr says PART.
refuses() {
    name=$1 part=$2
    shift 2
    program=$dir/$1
    shift
    if [ ! -x "$program" ]; then echo "skipped $name: $program is not there"; return; fi
    said=$("$program" "$@" 2>&1 >/dev/null)
    status=$?
    case $said in *"$part"*) ok=1 ;; *) ok=0 ;; esac
    if [ $status != 0 ] && [ $status -lt 128 ] && [ $ok = 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s: status %s\nsaid: %s\nwant: %s\n' "$name" $status "$said" "$part"
    fi
}

same hello "$story a big, red ball. She wanted to play with it, but it was too high.
Lily's mom said" hello $model "Once upon a time"
same custom_io "$story" custom_io $model "Once upon a time"
same custom_alloc "$story" custom_alloc $model "Once upon a time"
same gpu "$story" gpu $model "Once upon a time"
same "gpu with a folder" "$story" gpu $model "Once upon a time" "$dir"
same "gpu from the folder" "$story" gpu $model "Once upon a time" "$dir"
same cpp_host ", there was a little girl named Lily" cpp_host $model "Once upon a time"
same cancel ", there was a little girl named Lily. She loved to play outsid
[cancelled after 20 tokens, position 25]
e in the park. One day,
[ok, position 35]" cancel $model "Once upon a time"
same tools 'Let me see.
add{"a": 1234, "b": 4321} = 5555' tools --canned
refuses "tools without a template" "no chat template" tools $model
same two_sessions "Once upon a time|, there was a little girl named Lily. She loved to play outside in the p
The dog|was a big, red ball. He liked to play with his ball. He liked to play" \
    two_sessions $model "Once upon a time" "The dog"
same queue "16 requests, 16 texts as alone
prompt tokens evaluated 1129, shared 15391, again 0" queue $model 16
same embed " 1.000  0.995  0.491  a red ball
 0.995  1.000  0.456  a blue ball
 0.491  0.456  1.000  It was raining" embed $model "a red ball" "a blue ball" "It was raining"
notes=$dir/notes
mkdir -p "$notes"
printf 'a red ball' >"$notes/ball"
printf 'It was raining' >"$notes/rain"
same "search: an index" "2 of 2 files" search $model "$dir/notes.index" "$notes"
same "search: a question" "0.995  ball
0.456  rain" search $model "$dir/notes.index" -q "a blue ball"
refuses "search: a folder without files" "no files" search $model "$dir/no.index" "$dir/no/such"
refuses "search: no index" "cannot read" search $model "$dir/no.index" -q "a blue ball"
refuses "rerank without a classifier" "no classifier" rerank $model "a" "b"
refuses "classify without a classifier" "no classifier" classify $model "a"
same json_output '{ "name": "It is a small boxpec", "age": 30, "likes": [ "cats" ] }' \
    json_output $model "Once upon a time"
# pictures: any model of the projector's width; what it shows counts, not what it means. vision PICTURE: the first words
vision() { "$dir/describe" $model "$INFER_TEST_DATA/vision/models/gemma3.gguf" "$1" "Once upon a time" | head -c 39; }
if [ -f "$INFER_TEST_DATA/vision/models/gemma3.gguf" ]; then
    prints "describe" '"He, Jack!" said Jacky.
They seears the' vision "$INFER_TEST_DATA/vision/images/text-200x120.png"
    prints "describe another picture" '"Here!" said Johnide. "It'"'"'s a shiny pic' vision "$INFER_TEST_DATA/vision/images/rings-64x64.ppm"
    printf 'RIFF\244\14\0\0WAVEfmt \20\0\0\0\1\0\1\0\200\76\0\0\0\175\0\0\2\0\20\0data\200\14\0\0' >"$dir/tone.wav"
    head -c 3200 "$INFER_TEST_DATA/vision/audio/noise-9000.s16" >>"$dir/tone.wav"
    refuses "transcribe with an encoder of pictures" "no encoder of sound" transcribe $model "$INFER_TEST_DATA/vision/models/gemma3.gguf" "$dir/tone.wav"
else
    echo "skipped describe, transcribe: they need INFER_TEST_DATA"
fi
refuses "describe without a picture" "the format is not known" describe $model $model README.md
refuses "describe with a text model as projector" "no encoder of pictures or sound" describe $model $model tests/data/media/palette.png
refuses "transcribe without a sound" "no/such.wav" transcribe $model $model no/such.wav
for file in examples/host/*.*; do
    prints "$file has at most 60 lines" 0 awk 'END { print (NR > 60 ? NR : 0) }' "$file"
done
same frame_loop "$story a" frame_loop $model "Once upon a time" 33
same "SQLite: texts" ", there was a little girl named Lily|, there was" sqlite_functions $model \
    "SELECT generate('Once upon a time', 10), generate('Once upon a time', 3)"
same "SQLite: vectors" "0.995|1|1.000" sqlite_functions $model \
    "SELECT printf('%.3f', similarity(embed('a red ball'), embed('a blue ball'))), similarity(embed('a'), NULL) IS NULL,
        printf('%.3f', similarity(embed(x), embed(x))) FROM (SELECT 'It was raining' AS x)"
refuses "SQLite: an error of the library" "max_tokens" sqlite_functions $model "SELECT generate('a', -1)"
refuses "SQLite: NULL as a text" "text" sqlite_functions $model "SELECT embed(NULL)"
if [ -f "$dir/infer.so" ]; then
    prints Lua "text: $story a
another: , there was
its iterator has ended: nil
a model in use is not collected: true
no file: false no/such.gguf: no such file (error 2)
wrong: false max_tokens is -1
closed: false the model is closed" env LUA_CPATH="$dir/?.so" lua5.4 tests/lua_module.lua $model
else
    echo "skipped Lua: $dir/infer.so is not there"
fi
if [ -f "$dir/libinfer.so" ]; then
    prints "Python" ", there was a little girl named Lily. She loved to play outside in the p
0.995" python3 examples/host/binding.py "$dir/libinfer.so" $model "Once upon a time" "a red ball" "a blue ball"
else
    echo "skipped Python: $dir/libinfer.so is not there"
fi
for e in hello custom_io custom_alloc cpp_host cancel two_sessions embed rerank classify search gpu json_output describe transcribe; do
    refuses "$e without arguments" usage $e
done
for e in hello custom_alloc cpp_host cancel gpu json_output; do
    refuses "$e without a model" no/such.gguf $e no/such.gguf "Once"
    refuses "$e with a text as model" GGUF $e README.md "Once"
done
refuses "two_sessions without a model" no/such.gguf two_sessions no/such.gguf a b
refuses "embed without a model" no/such.gguf embed no/such.gguf a
refuses "rerank without a model" no/such.gguf rerank no/such.gguf a b
refuses "classify without a model" no/such.gguf classify no/such.gguf a
refuses "search without a model" no/such.gguf search no/such.gguf a b

echo "$passed passed, $failed failed"
[ $failed = 0 ]
