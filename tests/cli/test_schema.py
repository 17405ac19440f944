#!/usr/bin/env python3
"""test_schema.py: JSON Schema -> grammar against an independent validator, python3-jsonschema.

  python3 tests/cli/test_schema.py [build/infer]      the argument is not used

1. The table tests/data/schema-cases.jsonl is right: what it accepts is valid by jsonschema, what it rejects is not.
2. The grammar agrees with it, in several spellings (json.dumps compact, default, indented).
3. Search for what the grammar accepts and jsonschema refuses: mutations of the instances, under their schema and others'.
4. Random texts of grammars of combined schemas (allOf, anyOf, oneOf, not, if of those in the table): each is valid.
5. 1,000 random walks of a real model's mask under 20 schemas (tests/walks.c): each text parses and validates.
"""
import json, os, random, re, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
CC = os.environ.get("CC", "cc").split()
LIBS = ["-lm", "-lpthread"] + (["-ldl"] if sys.platform.startswith("linux") else [])
passed = failed = 0


def check(ok, message):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        if failed <= 30:
            print("FAILED " + message)


def finish(skipped=0):
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(1 if failed else 0)


def skip(why):
    print("skipped test_schema: " + why)
    if os.environ.get("INFER_TEST_NO_SKIP") == "1":
        check(False, why)
    finish(1)


try:
    import jsonschema
    from jsonschema import Draft202012Validator, FormatChecker
except ImportError:
    skip("python3-jsonschema is not installed")


class Tool:
    """tests/schema_tool.c: makes a grammar of a schema, checks texts."""
    def __init__(self, folder):
        exe = os.path.join(folder, "schema_tool")
        subprocess.run(CC + ["-O1", "-w", "-DINFER_QUIET", "-Itests", "tests/schema_tool.c", "-o", exe] + LIBS, check=True)
        self.p = subprocess.Popen([exe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.count = 0

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().rstrip("\n")

    def schema(self, schema):
        return self.ask("S " + json.dumps(schema))

    def accepts(self, text):
        self.count += 1
        r = self.ask("T " + text.encode("utf-8", "surrogatepass").hex())
        if r not in ("0", "1"):
            raise RuntimeError("%s for %r" % (r, text))
        return r == "1"


def formats():
    """jsonschema's checker, with the formats for which it needs packages that may not be there."""
    checker = FormatChecker()
    time = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII)

    def is_time(v):
        return not isinstance(v, str) or time.fullmatch(v) is not None

    def is_date(v):
        import datetime
        if not isinstance(v, str):
            return True
        try:
            datetime.date.fromisoformat(v)
        except ValueError:
            return False
        return re.fullmatch(r"\d{4}-\d\d-\d\d", v, re.ASCII) is not None

    def is_date_time(v):
        return not isinstance(v, str) or (v[10:11] == "T" and is_date(v[:10]) and is_time(v[11:]))

    def is_duration(v):
        if not isinstance(v, str):
            return True
        t = r"T(?=\d)(\d+H)?(\d+M)?(\d+S)?"
        ok = re.fullmatch(r"P(\d+W|(?=\d)(\d+Y)?(\d+M)?(\d+D)?(%s)?|%s)" % (t, t), v, re.ASCII)
        return ok is not None and not re.search(r"\d+Y\d+D|\d+H\d+S", v)

    def is_hostname(v):
        return not isinstance(v, str) or (len(v) <= 253 and all(re.fullmatch(
            r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", x, re.ASCII) for x in v.split(".")))

    def is_pointer(v):
        return not isinstance(v, str) or re.fullmatch(r"(/([^/~]|~[01])*)*", v, re.S) is not None

    for name, f in (("time", is_time), ("date", is_date), ("date-time", is_date_time), ("duration", is_duration),
                    ("hostname", is_hostname), ("json-pointer", is_pointer)):
        checker.checkers[name] = (f, ())
    return checker


FORMATS = formats()


def python_patterns(v):
    """In Python $ also matches before a last line break; in ECMA-262 it does not. The table has no other use of $ in patterns."""
    if isinstance(v, list):
        return [python_patterns(x) for x in v]
    if not isinstance(v, dict):
        return v
    out = {}
    for k, x in v.items():
        if k == "pattern" and isinstance(x, str):
            x = x.replace("$", r"\Z")
        elif k == "patternProperties" and isinstance(x, dict):
            x = {name.replace("$", r"\Z"): y for name, y in x.items()}
        out[k] = python_patterns(x) if k not in ("enum", "const") else x
    return out


def validator(schema):
    schema = python_patterns(schema)
    cls = jsonschema.validators.validator_for(schema, default=Draft202012Validator) if isinstance(schema, dict) else Draft202012Validator
    return cls(schema, format_checker=FORMATS)


def valid(v, value):
    try:
        return v.is_valid(value)
    except RecursionError:
        return False


def spellings(value):
    yield json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    yield json.dumps(value, ensure_ascii=False)
    yield json.dumps(value, ensure_ascii=False, indent=2)
    yield json.dumps(value, ensure_ascii=False, indent="\t")


# ---- mutations ------------------------------------------------------------------------------------------------------

LEAVES = [None, True, False, 0, 1, -1, 2, 5, 7, 10, 11, 99, 100, 1.5, -0.5, 0.25, 1e5, "", "a", "ab", "abc", "x", "b", "\n", "\u00e9",
          "2023-02-29", [], {}, [1], ["a"], {"a": 1}, {"b": "x"}, [1, 2], [[]]]


def mutate(rng, v, pool):
    """A value like v, changed at one place."""
    if rng.random() < 0.2:
        return rng.choice(pool)
    if isinstance(v, dict) and v and rng.random() < 0.85:
        out = dict(v)
        k = rng.choice(list(out))
        way = rng.random()
        if way < 0.3:
            del out[k]
        elif way < 0.7:
            out[k] = mutate(rng, out[k], pool)
        else:
            out[rng.choice(["a", "b", "c", "x", "zz", "s_q", k + "x"])] = rng.choice(pool)
        return out
    if isinstance(v, list) and v and rng.random() < 0.85:
        out = list(v)
        i = rng.randrange(len(out))
        way = rng.random()
        if way < 0.3:
            del out[i]
        elif way < 0.6:
            out[i] = mutate(rng, out[i], pool)
        else:
            out.insert(i, rng.choice(out + [rng.choice(pool)]))
        return out
    if isinstance(v, str):
        i = rng.randrange(len(v) + 1)
        way = rng.random()
        c = rng.choice("ab09zA-:.,/\"\\\n \u00e9")
        return v[:i] + c + v[i:] if way < 0.4 else v[:i] + v[i + 1:] if way < 0.7 else v[:i] + c + v[i + 1:]
    if isinstance(v, bool) or v is None:
        return rng.choice(pool)
    if isinstance(v, (int, float)):
        return rng.choice([v + 1, v - 1, v * 10, -v, v + 0.5, v * 2, v // 2])
    return rng.choice(pool)


def text_mutations(rng, text, n):
    """Texts near a good one: JSON or not."""
    for _ in range(n):
        i = rng.randrange(len(text) + 1)
        c = rng.choice('{}[]",:0123456789.eE+-\\utfn ab\n')
        yield rng.choice((text[:i] + text[i + 1:], text[:i] + c + text[i:], text[:i] + c + text[i + 1:]))


def reads(text):
    """(1, value) when Python reads it as JSON, strictly."""
    def no(_):
        raise ValueError
    try:
        return 1, json.loads(text, parse_constant=no)
    except (ValueError, RecursionError):
        return 0, None


PIECES = [{"minLength": 1}, {"maxLength": 3}, {"minimum": 2}, {"maximum": 50}, {"exclusiveMinimum": -3.5}, {"multipleOf": 3},
          {"type": ["string", "integer"]}, {"type": ["object", "array", "number"]}, {"required": ["a"]}, {"required": ["b", "c"]},
          {"maxProperties": 2}, {"minItems": 1, "maxItems": 3}, {"pattern": "[a-f]"}, {"pattern": "^[^b]*$"}, {"enum": [1, "ab", None, {"a": 1}, [1]]},
          {"properties": {"a": {"type": "integer", "maximum": 9}}}, {"properties": {"b": False}}, {"properties": {"a": {"const": "x"}}, "required": ["a"]},
          {"additionalProperties": {"type": "integer"}}, {"patternProperties": {"^a": {"type": "string"}}}, {"propertyNames": {"maxLength": 2}},
          {"items": {"type": "integer"}}, {"prefixItems": [{"type": "string"}]}, {"const": 5}, {"format": "date"}]


def combine(rng, bases, depth):
    """A random schema made of smaller ones. Those with $ref, $defs or $id keep their place at the root, so they are left out."""
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(PIECES if rng.random() < 0.7 else bases)
    def sub():
        return combine(rng, bases, depth - 1)
    way = rng.randrange(7)
    if way == 0:
        return {"allOf": [sub(), sub()]}
    if way == 1:
        return {"anyOf": [sub(), sub()]}
    if way == 2:
        return {"oneOf": [sub(), sub()]}
    if way == 3:
        return {"not": sub()}
    if way == 4:
        return {"if": sub(), "then": sub(), "else": sub()}
    if way == 5:
        return {"type": "object", "properties": {"a": sub(), "b": sub()}, "required": rng.choice([[], ["a"], ["c"]])}
    return dict(sub(), **sub())


def random_schemas(tool, rng, cases, count):
    bases = [c["schema"] for c in cases if "error" not in c and isinstance(c["schema"], dict) and
             not re.search(r"\$ref|\$id|\$anchor|\$schema|draft", json.dumps(c["schema"]))]
    made = texts = refused = nothing = 0
    for _ in range(count):
        schema = combine(rng, bases, 3)
        said = tool.schema(schema)
        if said != "ok":
            check(said.startswith("error -5") or "nothing satisfies" in said, "%s: %s" % (json.dumps(schema), said))
            refused, nothing = refused + said.startswith("error -5"), nothing + ("nothing satisfies" in said)
            if "nothing satisfies" in said: # then none of these values may satisfy it
                v = validator(schema)
                for x in LEAVES:
                    check(not valid(v, x), "%s: %s, but %r does" % (json.dumps(schema), said, x))
            continue
        made += 1
        v = validator(schema)
        for seed in range(6):
            got = tool.ask("R %d" % rng.randrange(1 << 31))
            check(got == "long" or re.fullmatch("[0-9a-f]+", got), "%s: random text: %s" % (json.dumps(schema), got))
            if not re.fullmatch("[0-9a-f]+", got):
                continue
            text = bytes.fromhex(got).decode("utf-8", "replace")
            ok, value = reads(text)
            texts += 1
            check(ok and valid(v, value), "%s: accepted, but not valid: %s" % (json.dumps(schema), text))
        for x in LEAVES:
            text = json.dumps(x, ensure_ascii=False)
            check(not tool.accepts(text) or valid(v, x), "%s: accepted, but not valid: %s" % (json.dumps(schema), text))
    print("%d random schemas: %d made %d texts, %d not supported, %d that nothing satisfies" % (count, made, texts, refused, nothing))


WALKS = ["properties", "all optional", "additional schema", "patternProperties", "prefixItems", "uniqueItems enum", "minLength",
         "pattern groups", "pattern and length", "range", "number range", "multipleOf range", "oneOf discriminator", "allOf",
         "$ref recursive", "$ref tree", "date", "date-time", "uuid", "tool call", "any", "if then else"]
MODELS = ["tests/data/models/stories260K.F32.gguf"] # its vocabulary has all bytes


def walks(folder, cases):
    """Random walks of a model's mask: every text is JSON and valid."""
    by_name = {c["name"]: c["schema"] for c in cases}
    exe = os.path.join(folder, "walks")
    subprocess.run(CC + ["-O1", "-w", "-DINFER_QUIET", "-DINFER_NO_GPU", "tests/walks.c", "-o", exe] + LIBS, check=True)
    count, total = 50, 0
    for seed, model in enumerate(MODELS):
        text = "".join(json.dumps(by_name[n]) + "\n" for n in WALKS)
        out = subprocess.run([exe, model, str(1000 * seed + 1), str(count)], input=text, capture_output=True, text=True, check=True)
        lines = out.stdout.split("\n")[:-1]
        check(len(lines) == count * len(WALKS), "walks: %d lines of %d" % (len(lines), count * len(WALKS)))
        for i, line in enumerate(lines):
            name = WALKS[min(i // count, len(WALKS) - 1)]
            if line.startswith("error"):
                check(False, "walks, %s: %s" % (name, line))
                continue
            said = bytes.fromhex(line).decode("utf-8", "replace")
            ok, value = reads(said)
            check(ok and valid(validator(by_name[name]), value), "walks, %s: not valid: %s" % (name, said))
            total += 1
    print("%d random walks under %d schemas" % (total, len(WALKS)))


def main():
    rng = random.Random(5)
    with open("tests/data/schema-cases.jsonl", encoding="utf-8") as f:
        cases = [json.loads(line) for line in f]
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(folder)
        pool = LEAVES + [v for c in cases for v in c.get("accept", []) + c.get("reject", [])]
        for c in cases:
            name, schema = c["name"], c["schema"]
            said = tool.schema(schema)
            if "error" in c:
                check(said.startswith("error %d" % c["code"]) and c["error"] in said, "%s: %s" % (name, said))
                continue
            check(said == "ok", "%s: %s" % (name, said))
            if said != "ok":
                continue
            v = validator(schema)
            for x in c["accept"]:
                check(valid(v, x), "%s: the table accepts %r, jsonschema does not" % (name, x))
                for text in spellings(x):
                    check(tool.accepts(text), "%s: %s is not accepted" % (name, text))
            for x in c["reject"]:
                check(not valid(v, x), "%s: the table rejects %r, jsonschema does not" % (name, x))
                for text in spellings(x):
                    check(not tool.accepts(text), "%s: %s is accepted" % (name, text))
            for x in c.get("strict", []):
                check(valid(v, x) and not tool.accepts(json.dumps(x, ensure_ascii=False)), "%s: %r is no exception any more" % (name, x))
            tried = missed = 0
            base = c["accept"] + c["reject"]
            for _ in range(150):
                x = rng.choice(base)
                for _ in range(rng.randrange(1, 4)):
                    x = mutate(rng, x, pool)
                text = json.dumps(x, ensure_ascii=False)
                got, want = tool.accepts(text), valid(v, x)
                check(not got or want, "%s: accepted, but not valid: %s" % (name, text))
                tried += want
                missed += want and not got
            for x in c["accept"]:
                for text in text_mutations(rng, json.dumps(x, ensure_ascii=False), 12):
                    if tool.accepts(text):
                        ok, y = reads(text)
                        check(ok and valid(v, y), "%s: accepted, but not valid: %s" % (name, text))
            if "-v" in sys.argv:
                print("%-32s valid mutations %4d, not accepted %4d" % (name, tried, missed))
        print("%d texts were checked against %d schemas" % (tool.count, len(cases)))
        random_schemas(tool, rng, cases, 400)
        walks(folder, cases)
    finish()


if __name__ == "__main__":
    main()
