#!/usr/bin/env python3
"""Tests of what users of other programs type: python3 tests/cli/test_habits.py build/infer

Options by llama.cpp's and ollama's names, values in every form, slips, `infer MODEL`, `infer list` and `infer completions`.
The last line is "N passed, N failed, N skipped".
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
INFER = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/infer")
MODEL = os.path.join(os.path.dirname(HERE), "data", "models", "stories260K.F32.gguf")
STORY = " upon a time, there was a little girl"
results = {"passed": 0, "failed": 0, "skipped": 0}


def check(ok, what, said=""):
    results["passed" if ok else "failed"] += 1
    if not ok:
        print("FAILED habits: %s%s" % (what, ": %r" % (said,) if said != "" else ""))


def skip(what, why):
    results["failed" if os.environ.get("INFER_TEST_NO_SKIP") == "1" else "skipped"] += 1
    print("skip %s: %s" % (what, why))


def infer(*words, stdin="", **env):
    p = subprocess.run([INFER, *words], input=stdin.encode(), capture_output=True, timeout=120, env=dict(os.environ, **env))
    return p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")


def run(*words):
    return infer("run", "-m", MODEL, *words)


def spellings(folder):
    """The same text in every form."""
    want = run("-p", "Once", "-n", "8", "--temp", "0")[1]
    check(len(want) > 8 and STORY.startswith(want), "a text", want)
    for words in (["-p", "Once", "-n8", "--temp=0"], ["-p=Once", "-n=8", "--temperature", "0"],
                  ["--prompt=Once", "--n-predict", "8", "--temp", "0"], ["Once", "-n", "8", "--temp", "0"],
                  ["-p", "Once", "-n8", "--temp", "0", "-c", "64", "-b16", "-ngl0", "--device", "0", "-s", "7", "-t1"],
                  ["-p", "Once", "-n8", "--temp", "0", "-c", "0", "--ubatch-size", "16", "-ngl", "auto"],
                  ["-p", "Once", "-n8", "--temp", "0", "-ctk", "f16", "-ctv", "f16", "--no-mmap"],
                  ["-p", "Once", "-n8", "--temp", "0", "-c", "1k", "--max-memory", "1G"],
                  ["-p", "Once", "-n8", "--temp", "0", "--max-memory", "512MiB", "--max-memory", "0.5GB", "--max-memory", "0.3G"]):
        code, out, err = run(*words)
        check(code == 0 and out == want and "infer run:" not in err, "run %s" % " ".join(words), (code, out, err))
    code, out, err = infer("run", MODEL, "-f", "-", "-n8", "--temp", "0", stdin="Once")
    check(code == 0 and out == want, "-f -", err)
    code, out, err = run("-p", "Once", "-n", "400", "--temp", "0", "-r", " there")
    check(code == 0 and out == " upon a time,", "-r stops", (out, err))
    code, out, err = run("-p", "Once", "-n", "-1", "-c", "40", "--temp", "0")
    check(code == 0 and "context full" in err and len(out) > 60, "-n -1 goes on until the context is full", (out, err))
    plain, escaped = run("-p", "a\\nb", "-n1", "--json"), run("-p", "a\\nb", "-n1", "--json", "-e")
    newline = run("-p", "a\nb", "-n1", "--json")
    ids = [json.loads(r[1])["prompt_tokens"] for r in (plain, escaped, newline)]
    check(ids[0] != ids[1] and ids[1] == ids[2], "-e", ids)
    seeds = set(run("-p", "Once", "-n1", "--seed", "-1")[2].split("seed ")[1] for _ in range(4))
    check(len(seeds) == 4, "--seed -1 is another one each time", seeds)
    code, out, err = infer("bench", "-m", MODEL, "-p", "8,0.25k", "-n0", "-r1", "--json")
    check(code == 0 and json.loads(out)["prompt_tokens"] == 256, "lists of sizes", (out[:200], err))
    check(infer("bench", "-m", MODEL, "-p", "8,x")[0] == 2 and infer("bench", "-m", MODEL, "-p", ",8")[0] == 2, "lists that are none")
    check(infer("bench", "-m", MODEL, "--queues", "2")[0] == 2, "queues without requests")
    code, out, err = infer("tensor", "-m", MODEL, "output_norm.weight", "--out", "-")
    check(code == 0, "-m before other words", err)


def notes(folder):
    """What is not needed here is said and skipped; what would change something is refused with the right spelling."""
    want = run("-p", "Once", "-n8", "--temp", "0")[1]
    for words, note in ((["-fa"], "-fa: attention is always"), (["-fa", "on"], "-fa: attention"), (["--flash-attn=auto"], "attention"),
                        (["--no-warmup"], "no warm-up"), (["-tb", "3"], "-tb: "), (["-ctk", "f16"], "-ctk: values")):
        code, out, err = run("-p", "Once", "-n8", "--temp", "0", *words)
        check(code == 0 and out == want and note in err and err.count("infer run:") == 1, "%s" % words, (out, err))
    for words, said in ((["--temprature", "0"], "unknown option --temprature: did you mean --temperature?"), (["--topk=3"], "--top-k?"),
                        (["--zebra"], "unknown option --zebra ("), (["-hf", "a/b"], "downloads nothing"), (["-mg", "0"], "--device N"),
                        (["-ctk", "f16", "-ctv", "q8_0"], "one type"), (["--lora-scaled", "x", "1"], "--lora FILE=SCALE"),
                        (["--no-mmap", "--mlock"], "exclude each other"), (["-c", "1.0001k"], "-c: expected a whole number"),
                        (["-c", "8x"], "got '8x'"), (["-c", "-8k"], "got '-8k'"), (["-n", "99999999999999999999"], "-n: expected"),
                        (["--max-memory", "9999999T"], "--max-memory: expected"), (["-t", "999"], "-t: expected 1 to 64, got '999'"),
                        (["--kv", "f12"], "--kv: expected default|f32"), (["-n", "0"], "-n: expected 1 or more"), (["-ngl", "most"], "all, auto or none"), (["-ngl", "-1"], "all, auto or none, got '-1'"),
                        (["--device", "-1"], "--device: expected 0 to 1000"), (["--max-memory", "much"], "a size such as 800K, 500M or 4.2G, got 'much'")):
        code, out, err = run("-p", "Once", *words)
        check(code == 2 and said in err and out == "" and err.count("\n") == 1, "%s is refused" % words, (code, err))
    for words, said in ((["--leave-output-tensor"], "--keep output.weight"), (["--pure"], "--type '*=TYPE'"), (["--include-weights", "x"], "importance is used")):
        code, out, err = infer("quantize", MODEL, os.path.join(folder, "never.gguf"), "Q4_0", *words)
        check(code == 2 and said in err and err.count("\n") == 1, "quantize %s is refused" % words, (code, err))
    text = os.path.join(folder, "text")
    with open(text, "w") as f:
        f.write("Once upon a time there was a girl. " * 20)
    for words, said in ((["--hellaswag"], "--choices hellaswag"), (["--ppl-stride", "4"], "do not overlap"), (["--kl-divergence"], None)):
        code, out, err = infer("perplexity", MODEL, "-f", text, "-c", "16", *words)
        check(code == 0 and "--reference FILE" in err if said is None else code == 2 and said in err, "perplexity %s" % words, (code, err))
    for words, said in ((["rum"], "did you mean run?"), (["pull", "x"], "downloads nothing"), (["xyzzy"], "neither a command nor a file")):
        code, out, err = infer(*words)
        check(code == 2 and said in err, "infer %s" % words, err)
    code, out, err = run("-p", "x", "-m", os.path.join(folder, "missing.gguf"))
    check(code == 1 and err.count("missing.gguf") == 1, "an error names the file once", err)


def texts(folder):
    """Longer texts: as they are, or @FILE; a plain word is still a file's name."""
    grammar, path = 'root ::= " abc"', os.path.join(folder, "g.gbnf")
    with open(path, "w") as f:
        f.write(grammar)
    for value in (grammar, path, "@" + path):
        code, out, err = run("-p", "Once", "-n", "9", "--grammar", value)
        check(code == 0 and out == " abc", "--grammar %s" % value, (out, err))
    schema = '{"const": 7}'
    code, out, err = run("-p", "Once", "-n", "9", "-j", schema)
    check(code == 0 and out.strip() == "7", "--schema as text", (out, err))
    code, out, err = run("-p", "Once", "--grammar", "@" + path + "x")
    check(code == 1 and "g.gbnfx" in err, "a missing @FILE", err)
    code, out, err = infer("chat", MODEL, "--chatml", "--grammar", grammar, stdin="a\nb\n")
    check(code == 0 and out == " abc\n abc\n", "chat follows a grammar in every reply", (out, err))
    begun = os.path.join(folder, "begun.txt")
    with open(begun, "w") as f:
        f.write("Once upon")
    chats = [infer("chat", MODEL, "--chatml", "--temp", "0", "-n8", "-p", "x", "--begin", value)[1] for value in ("Once upon", "@" + begun)]
    check(chats[0] == chats[1] and chats[0], "--begin @FILE", chats)
    exact = json.loads(run("-p", "@" + begun, "-n1", "--json")[1])["prompt_tokens"]
    check(len(exact) > 3, "-p takes @ as it is", exact)


def model_alone(folder):
    """`infer MODEL` and `infer -m MODEL` chat; -cnv and -no-cnv say otherwise."""
    want = infer("chat", MODEL, "--chatml", "--temp", "0", "-n8", stdin="Once\n")
    check(want[0] == 0 and want[1], "a chat", want)
    for words, stdin in (([MODEL, "--chatml"], "Once\n"), (["-m", MODEL, "--chatml"], "Once\n"), (["chat", MODEL, "Once", "--chatml"], ""),
                         (["run", MODEL, "-cnv", "--chatml"], "Once\n"),
                         (["run", MODEL, "--chatml", "-i"], "Once\n"), (["run", MODEL, "-cnv", "--chatml", "-no-cnv", "-cnv"], None), (["-m", MODEL, "-p", "Once", "--chatml"], "Once more\n"),
                         (["chat", "-m", MODEL, "-st", "-p", "Once", "--chatml"], "Once more\n"), (["chat", MODEL, "-f", "-", "--chatml"], "Once")):
        if stdin is None: # both at once: it ends, whatever it means
            check(infer(*words, "--temp", "0")[0] in (0, 2), "infer %s" % " ".join(words))
            continue
        code, out, err = infer(*words, "--temp", "0", "-n8", stdin=stdin)
        check(code == 0 and out == want[1], "infer %s" % " ".join(words), (out, err))
    code, out, err = infer("-m", MODEL, "-p", "Once", "-no-cnv", "--temp", "0", "-n8")
    check(code == 0 and STORY.startswith(out) and out, "-no-cnv runs", (out, err))
    value = json.loads(run("-n1", "--json", "-p", "-i")[1])["prompt_tokens"]
    check(value == json.loads(run("-n1", "--json", "-p=-i")[1])["prompt_tokens"], "a prompt that looks like an option")
    code, out, err = infer("chat", MODEL, "-p", "Once", "-i", "--chatml", "--temp", "0", "-n8", stdin="Once\n")
    check(code == 0 and out.startswith(want[1]) and out.count("\n") > want[1].count("\n"), "-p -i goes on", (out, err))
    path = os.path.join(folder, "system.txt")
    with open(path, "w") as f:
        f.write("Be kind.")
    said = [infer("chat", MODEL, "--chatml", "--temp", "0", "-n8", "-p", "x", *w)[1] for w in (["-sys", "Be kind."], ["-sysf", path], [])]
    check(said[0] == said[1] != said[2], "-sys and -sysf", said)


def full_context(folder):
    """The oldest turns go, the system message and the latest turns stay."""
    code, out, err = infer("chat", MODEL, "--chatml", "--temp", "0", "-n6", "-c", "160", "--system", "Be kind.", stdin="Tell me a story\n" * 9)
    check(code == 0 and "oldest turn" in err and "dropped" in err and out.count("\n") >= 9, "old turns are dropped", (out, err))
    code, out, err = infer("chat", MODEL, "--chatml", "-n6", "-c", "40", stdin="Tell me a story " * 20 + "\n")
    check(code == 1 and "does not fit" in err, "a turn that does not fit alone", err)


def statistics(folder):
    """They begin on a line of their own; Ctrl-C ends a run with them and status 130."""
    p = subprocess.run([INFER, "run", MODEL, "-p", "Once", "-n8", "--temp", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(b"\nload " in p.stdout, "statistics on their own line", p.stdout)
    check("\n" not in run("-p", "Once", "-n8", "--temp", "0")[1], "which adds nothing to stdout")
    if os.name != "posix":
        return
    p = subprocess.Popen([INFER, "run", MODEL, "-p", "Once", "-n", "-1", "-c", "100k", "--ignore-end", "-t1"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    first = p.stdout.read(20)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    check(p.returncode == 130 and len(first) == 20 and b"stopped by: Ctrl-C" in err, "Ctrl-C in run", (p.returncode, err[-200:]))


def lists(folder):
    """Models in every program's folder, under their names."""
    home = os.path.join(folder, "home")
    places = {"llama.cpp": home + "/.cache/llama.cpp/a.gguf", "LM Studio": home + "/.lmstudio/models/pub/m/b.gguf",
              "Hugging Face": home + "/.cache/huggingface/hub/models--o--n/snapshots/0123/c.gguf", "current folder": folder + "/here/d.gguf"}
    for path in places.values():
        os.makedirs(os.path.dirname(path))
        shutil.copy(MODEL, path)
    store = home + "/.ollama/models"
    for name in ("library/tiny/latest", "someone/other/q4"):
        os.makedirs(os.path.dirname(store + "/manifests/registry.ollama.ai/" + name))
        with open(store + "/manifests/registry.ollama.ai/" + name, "w") as f:
            json.dump({"layers": [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:00", "size": 1},
                                  {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:0abc", "size": os.path.getsize(MODEL)}]}, f)
    os.makedirs(store + "/blobs")
    shutil.copy(MODEL, store + "/blobs/sha256-0abc")
    for name, content in (("x-00001-of-00002.gguf", open(MODEL, "rb").read()), ("x-00002-of-00002.gguf", b""), ("bad.gguf", b"no"), ("n.txt", b"")):
        with open(folder + "/here/" + name, "wb") as f:
            f.write(content)
    env = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS", "HUGGINGFACE_HUB_CACHE")}
    env["HOME"] = home

    def listed(*words, **more):
        p = subprocess.run([INFER, "list", *words], capture_output=True, env=dict(env, **more), cwd=folder + "/here")
        check(p.returncode == 0, "infer list", p.stderr)
        return p.stdout.decode()

    rows = json.loads(listed("--json"))
    by_name = {r["name"]: r for r in rows}
    check(sorted(by_name) == ["a.gguf", "b.gguf", "bad.gguf", "c.gguf", "d.gguf", "someone/other:q4", "tiny:latest", "x-00001-of-00002.gguf"],
          "the names", sorted(by_name))
    for place, path in places.items():
        check(by_name[os.path.basename(path)]["from"] == place, "found in %s" % place, by_name)
    tiny = by_name["tiny:latest"]
    check((tiny["arch"], tiny["type"], tiny["from"], tiny["bytes"]) == ("llama", "F32", "ollama", os.path.getsize(MODEL)), "a row", tiny)
    check(os.path.samefile(tiny["path"], store + "/blobs/sha256-0abc"), "its file", tiny)
    check(by_name["bad.gguf"]["arch"] is None and by_name["bad.gguf"]["error"], "a file that is no model", by_name["bad.gguf"])
    text = listed()
    check("tiny:latest" in text and "llama" in text and "1.19 MB" in text, "as text", text)
    moved = json.loads(listed("--json", OLLAMA_MODELS=store, HOME=folder + "/nobody", LLAMA_CACHE=home + "/.lmstudio"))
    check({r["name"]: r["from"] for r in moved if r["from"] != "current folder"} ==
          {"b.gguf": "llama.cpp", "tiny:latest": "ollama", "someone/other:q4": "ollama"}, "folders that variables name", moved)


def completions(folder):
    """Commands, options, words of choices and files, asked of the shells themselves."""
    scripts = {}
    for shell in ("bash", "zsh", "fish"):
        code, out, err = infer("completions", shell)
        check(code == 0 and "infer" in out, "completions %s" % shell, err)
        scripts[shell] = os.path.join(folder, "completions." + shell)
        with open(scripts[shell], "w") as f:
            f.write(out)
    code, out, err = infer("completions", "cmd")
    check(code == 2 and "bash, zsh or fish" in err, "a shell that is not known", err)
    here = os.path.join(folder, "with space")
    os.makedirs(here)
    open(os.path.join(here, "my model.gguf"), "w").close()

    def ask(shell, line, words):
        if shell == "bash":
            ask = 'source "$1"; shift; complete -p infer | grep -q _infer || exit 9; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _infer; printf "%s\\n" "${COMPREPLY[@]}"'
            return subprocess.run(["bash", "-c", ask, "bash", scripts["bash"], *words], capture_output=True, text=True, cwd=here)
        if shell == "fish":
            return subprocess.run(["fish", "-c", "source %s; complete -C '%s'" % (scripts["fish"], line)], capture_output=True, text=True, cwd=here)
        ask = ('compdef() { :; }; compadd() { while [ "$1" != -- ]; do shift; done; shift; print -l -- "$@"; }; _files() { print -l -- *; };'
               'source "$1"; shift; words=("$@"); CURRENT=$#; _infer')
        return subprocess.run(["zsh", "-fc", ask, "zsh", scripts["zsh"], *words], capture_output=True, text=True, cwd=here)

    for shell in ("bash", "zsh", "fish"):
        if not shutil.which(shell):
            skip("completions for %s" % shell, "it is not installed")
            continue
        for line, has in (("infer r", "run"), ("infer run --tem", "--temp"), ("infer run --kv q", "q8_0"), ("infer chat --thinking o", "off"),
                          ("infer run -m my", "my model.gguf"), ("infer info my", "my model.gguf"), ("infer run --temp ", "")):
            words = line.split(" ")
            p = ask(shell, line, words)
            found = [l.split("\t")[0].replace("\\ ", " ") for l in p.stdout.splitlines()]
            check(p.returncode == 0 and (has in found if has else "run" not in found), "%s completes %s" % (shell, line), (found[:5], p.stderr))
        hidden = [l.split("\t")[0] for l in ask(shell, "infer run --", ["infer", "run", "--"]).stdout.splitlines()]
        check(not any(h in hidden for h in ("--n-predict", "--cache-type-k")) and "--seed" in hidden, "%s shows what the help shows" % shell, hidden[:9])


def helps(folder):
    """Every command's help: lines that fit, and no option twice."""
    commands = [l.split()[0] for l in infer("--help")[1].splitlines() if l.startswith("  ") and not l.startswith("   ") and "not available" not in l]
    for command in commands:
        code, out, err = infer(command, "--help")
        names = [l.split()[0].rstrip(",") for l in out[out.find("options:"):].splitlines() if l.startswith("  -")]
        check(code == 0 and out.startswith("usage: infer %s" % command), "%s --help" % command, err)
        check(len(names) == len(set(names)), "%s --help shows an option twice" % command, names)
        check(not [l for l in out.splitlines() if len(l) > 120], "%s --help has lines that are too long" % command,
              [l for l in out.splitlines() if len(l) > 120])


with tempfile.TemporaryDirectory() as where:
    for test in (spellings, notes, texts, model_alone, full_context, statistics, lists, completions, helps):
        os.makedirs(os.path.join(where, test.__name__))
        test(os.path.join(where, test.__name__))
print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
sys.exit(1 if results["failed"] else 0)
