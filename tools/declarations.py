#!/usr/bin/env python3
"""declarations.py: the public declarations of infer.h as JSON, for makers of bindings.

  python3 tools/declarations.py [infer.h] >declarations.json          docs/bindings.md describes the form
  python3 tools/declarations.py --compare declarations.json [infer.h]   what changed since; exit status 1 when the version of
                                                                      infer.h promises less change (section 20 of its manual)

It reads the subset of C that these declarations use and refuses anything else, so nothing is left out silently; what stands under
conditions of the preprocessor (how INFER_API is defined, extern "C") is no declaration of a program's. Comments are copied
as they stand; nothing is concluded from them, but for sentences on ownership, which are also listed by themselves.
"""
import json, os, re, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKEN = re.compile(r'/\*.*?\*/|[A-Za-z_]\w*|0[xX][0-9a-fA-F]+|\d+|[^\s\w]', re.S)
BANNER = re.compile(r"/\* -{4,} (.*?) -{4,} \*/$")
RELEASES = ("_close", "_destroy", "_free", "_end")
# Sentences that say whose something is, how long it lives, or who frees it.
OWNERSHIP = re.compile(r"\b(owned|ownership|caller's|copied|copies it|outlive|must stay|valid (until|during|as long as|after)|freed?|closed by|destroyed?|"
                       r"NULL is accepted)\b", re.I)


class Token:
    def __init__(self, text, start, end):
        self.text, self.start, self.end = text, start, end # lines
        self.comment = text.startswith("/*")


def fail(line, message):
    sys.exit("declarations.py: line %d: %s" % (line, message))


def clean(comments):
    """What comments say, on one line; None = nothing."""
    words = [re.sub(r"\n\s*\*? ?", " ", c.text[2:-2]).strip() for c in comments]
    return re.sub(r"\s+", " ", " ".join(words)) or None


# ---- the preprocessor's lines ----------------------------------------------------------------------------------------------

def preprocess(text):
    """The text with directives and what stands under conditions blanked, lines kept; and [(line, name, parameters, value)]."""
    lines, macros, stack, n = text.split("\n"), [], [], 0
    while n < len(lines):
        first = n
        if not lines[n].lstrip().startswith("#"):
            if any(stack):
                lines[n] = ""
            n += 1
            continue
        directive = lines[n]
        while directive.endswith("\\"):
            n += 1
            directive = directive[:-1] + lines[n]
        word, rest = re.match(r"\s*#\s*(\w+)\s*(.*)", directive).groups()
        if word in ("if", "ifdef", "ifndef"):
            guard = word == "ifndef" and re.match(r"#define %s$" % re.escape(rest), lines[n + 1])
            stack.append(not guard)
        elif word == "endif":
            stack.pop()
        elif word == "define" and not any(stack):
            name, parameters, value = re.match(r"(\w+)(\([^)]*\))?\s*(.*)", rest).groups()
            if value:
                macros.append((first, name, parameters and [p.strip() for p in parameters[1:-1].split(",")], re.sub(r"\s+", " ", value)))
        lines[first:n + 1] = [""] * (n + 1 - first)
        n += 1
    return "\n".join(lines), macros


def tokens_of(text):
    out, line, at = [], 1, 0
    for m in TOKEN.finditer(text):
        line += text.count("\n", at, m.start())
        at = m.start()
        out.append(Token(m.group(), line, line + m.group().count("\n")))
    return out


# ---- declarations ------------------------------------------------------------------------------------------------------------

class Parser:
    def __init__(self, tokens, constants):
        self.t, self.i, self.constants = [x for x in tokens if not x.comment], 0, constants

    def peek(self, ahead=0):
        return self.t[self.i + ahead].text if self.i + ahead < len(self.t) else ""

    def take(self, want=None):
        if self.i >= len(self.t) or (want and self.peek() != want):
            fail(self.t[min(self.i, len(self.t) - 1)].start, "expected %s, found %r" % (want or "more", self.peek()))
        self.i += 1
        return self.t[self.i - 1].text

    def number(self):
        """A constant: what dimensions and enumerators are made of."""
        sign = -1 if self.peek() == "-" and self.take() else 1
        word = self.take()
        if word not in self.constants and not re.match(r"\d", word):
            fail(self.t[self.i - 1].start, "%s is no constant" % word)
        return sign * (self.constants[word] if word in self.constants else int(word, 0))

    def base(self):
        const, words = False, []
        while re.match(r"[A-Za-z_]", self.peek()):
            word = self.peek()
            if word == "const":
                const = True
            elif word in ("struct", "enum", "unsigned", "signed", "long", "short"):
                if word in ("unsigned", "signed", "long", "short"):
                    fail(self.t[self.i].start, "%s: use a type of a fixed width" % word)
            elif not words:
                words.append(word)
            else:
                break
            self.i += 1
        if not words:
            fail(self.t[min(self.i, len(self.t) - 1)].start, "no type")
        return dict({"name": words[0]}, **({"const": True} if const else {}))

    def declarator(self, base):
        """(name or None, type)"""
        while self.peek() == "*":
            self.take()
            base = {"pointer": base}
            if self.peek() == "const":
                self.take()
                base["const"] = True
        if self.peek() == "(" and (self.peek(1) == "*" or (self.peek(2) == ")" and self.peek(3) == "(")):
            self.take()
            inside = self.i
            depth = 1
            while depth:
                depth += {"(": 1, ")": -1}.get(self.take(), 0)
            base = self.suffix(base)
            end, self.i = self.i, inside
            name, whole = self.declarator(base)
            self.take(")")
            self.i = end
            return name, whole
        name = self.take() if re.match(r"[A-Za-z_]", self.peek()) else None
        return name, self.suffix(base)

    def suffix(self, base):
        if self.peek() == "[":
            self.take()
            n = self.number()
            self.take("]")
            return {"array": n, "of": self.suffix(base)}
        if self.peek() == "(":
            self.take()
            return {"function": {"returns": base, "parameters": self.parameters()}}
        return base

    def parameters(self):
        out = []
        while self.peek() != ")":
            name, type_ = self.declarator(self.base())
            if type_ != {"name": "void"}:
                out.append({"name": name, "type": type_})
            if self.peek() == ",":
                self.take()
        self.take(")")
        return out


def items(tokens, ends):
    """Cut tokens at `ends`, outside brackets. Yields (tokens of the item, comments before it, comments behind it on its last line)."""
    lead, body, depth, i = [], [], 0, 0
    while i < len(tokens):
        x = tokens[i]
        i += 1
        if x.comment and not body:
            lead.append(x)
            continue
        body.append(x)
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(x.text, 0)
        if depth == 0 and x.text in ends:
            trail = []
            while i < len(tokens) and tokens[i].comment and tokens[i].start == (trail or [x])[-1].end:
                trail.append(tokens[i])
                i += 1
            yield body[:-1], lead, trail
            lead, body = [], []
    if body and any(not x.comment for x in body):
        yield body, lead, []


def fields(tokens, constants):
    out = []
    for body, lead, trail in items(tokens, ";"):
        comment = clean([c for c in lead + [x for x in body if x.comment] + trail])
        p = Parser(body, constants)
        base = p.base()
        while True:
            name, type_ = p.declarator(dict(base))
            out.append({"name": name, "type": type_, "comment": comment})
            if p.i == len(p.t):
                break
            p.take(",")
    return out


def values(tokens, constants):
    out, next_value = [], 0
    for body, lead, trail in items(tokens, ","):
        p = Parser(body, constants)
        name = p.take()
        if p.peek() == "=":
            p.take()
            next_value = p.number()
        if p.i != len(p.t):
            fail(body[0].start, "%s: only constants are read" % name)
        constants[name] = next_value
        out.append({"name": name, "value": next_value, "comment": clean(lead + [x for x in body if x.comment] + trail)})
        next_value += 1
    return out


def braces(body):
    """(what stands before {, inside, behind })"""
    words = [x.text for x in body]
    first, last = words.index("{"), len(words) - 1 - words[::-1].index("}")
    return [x for x in body[:first] if not x.comment], body[first + 1:last], [x for x in body[last + 1:] if not x.comment]


class Declarations:
    def __init__(self, text):
        if "#ifndef INFER_H\n" not in text:
            fail(1, "this is not infer.h")
        before, text = text.split("#ifndef INFER_H\n", 1)
        text = "\n" * before.count("\n") + "#ifndef INFER_H\n" + text.split("#endif /* INFER_H */", 1)[0] + "#endif"
        self.out = {k: [] for k in ("macros", "types", "enums", "structs", "callbacks", "functions")}
        self.constants = {}
        text, macros = preprocess(text)
        tokens = tokens_of(text)
        self.section, self.outer, self.inside, self.above, self.bottom = None, None, False, None, 0
        for name, line, parameters, value in ((m[1], m[0] + 1, m[2], m[3]) for m in macros):
            comment = clean([x for x in tokens if x.comment and x.end == line - 1 and not x.text.startswith("/***")])
            entry = {"name": name, "value": value, "comment": comment}
            if parameters is not None:
                entry["parameters"] = parameters
            elif re.fullmatch(r"0[xX][0-9a-fA-F]+|-?\d+", value):
                entry["value"] = self.constants[name] = int(value, 0)
            elif value.startswith('"'):
                entry["value"] = value.strip('"')
            self.out["macros"].append(entry)
        for body, lead, trail in items(tokens, ";"):
            self.declaration(body, lead, trail)
        self.own()

    def declaration(self, body, lead, trail):
        first = next(x for x in body if not x.comment)
        for c in lead:
            if BANNER.match(c.text):
                self.section, self.above = BANNER.match(c.text).group(1), None
            elif c.text.startswith("/***"): # a part of the header begins or ends; a part that begins may end another one
                self.section = self.outer if self.inside else self.section
                self.outer, self.inside = self.section, c.text.startswith("/*** begin")
        touches, line = [], first.start - 1 # comments that stand right above, without an empty line between
        for c in reversed(lead):
            if c.end != line or c.text.startswith("/***") or BANNER.match(c.text):
                break
            touches, line = [c] + touches, c.start - 1
        words = [x.text for x in body if not x.comment]
        brace = "{" in words
        comment = clean(touches + ([] if brace else [x for x in body if x.comment]) + trail)
        entry = {"name": None, "section": self.section, "comment": comment}
        if words[0] == "INFER_API":
            p = Parser(body, self.constants)
            p.take()
            entry["name"], type_ = p.declarator(p.base())
            if "function" not in type_ or p.i != len(p.t):
                fail(first.start, "not a function")
            entry.update(type_["function"])
            # a declaration right under another one, without a comment: what stands above both may be about both
            if comment:
                self.above = entry["name"]
            elif first.start > self.bottom + 1:
                self.above = None
            elif self.above:
                entry["below"] = self.above
            self.bottom = body[-1].end
            self.out["functions"].append(entry)
        elif brace:
            before, inside, behind = braces(body)
            kind = next((k for k in ("enum", "struct") if k in [x.text for x in before]), None)
            if not kind or len(behind) > 1:
                fail(first.start, "neither an enum nor a struct")
            entry["name"] = behind[0].text if behind else None
            entry["values" if kind == "enum" else "fields"] = (values if kind == "enum" else fields)(inside, self.constants)
            self.out[kind + "s"].append(entry)
        elif words[0] == "typedef":
            p = Parser(body, self.constants)
            p.take()
            opaque = p.peek() == "struct"
            entry["name"], type_ = p.declarator(p.base())
            if "pointer" in type_ and "function" in type_["pointer"]:
                entry.update(type_["pointer"]["function"])
                self.out["callbacks"].append(entry)
            elif "name" in type_:
                entry["is"] = "opaque" if opaque else type_["name"]
                self.out["types"].append(entry)
            else:
                fail(first.start, "unknown kind of typedef")
        else:
            fail(first.start, "unknown kind of declaration: " + " ".join(words[:6]))

    def own(self):
        """Who makes objects and who frees them, by the forms T **out and infer_thing_free(T *); sentences on ownership."""
        objects = {}
        for f in self.out["functions"]:
            for i, p in enumerate(f["parameters"]):
                inner = p["type"].get("pointer", {})
                name = inner.get("name") or inner.get("pointer", {}).get("name")
                if not name or not name.startswith("infer_"):
                    continue
                of = objects.setdefault(name, {"name": name, "created_by": [], "released_by": None})
                if "pointer" in inner and not inner.get("const") and "const" not in inner["pointer"]:
                    of["created_by"].append({"function": f["name"], "parameter": p["name"]})
                elif i == 0 and "name" in inner and f["name"].endswith(RELEASES):
                    if of["released_by"]:
                        fail(0, "%s is released by two functions" % name)
                    of["released_by"] = f["name"]
        self.out["objects"] = [o for o in objects.values() if o["created_by"] and o["released_by"]]
        for entry in self.out["functions"] + self.out["structs"] + [x for s in self.out["structs"] for x in s["fields"]]:
            sentences = [s for s in re.split(r"(?<=[.;]) (?=[A-Za-z*])", entry["comment"] or "") if OWNERSHIP.search(s)]
            if sentences:
                entry["ownership"] = sentences


# ---- two versions ------------------------------------------------------------------------------------------------------------

LEVELS = ("patch", "minor", "major")


def shape(x):
    """A function's or a callback's types, without the names of parameters."""
    if isinstance(x, list):
        return [shape(y) for y in x]
    if not isinstance(x, dict):
        return x
    parameters = {"parameters": [shape(p["type"]) for p in x["parameters"]]} if "parameters" in x else {}
    return dict({k: shape(v) for k, v in x.items() if k in ("returns", "name", "const", "pointer", "array", "of", "function")}, **parameters)


def parts(said):
    """{what: value}: what a later version must still have as it is, and {struct: fields}, which may become more."""
    out = {}
    for f in said["functions"] + said["callbacks"]:
        out[f["name"]] = shape({"returns": f["returns"], "parameters": f["parameters"]})
    for t in said["types"]:
        out[t["name"]] = t["is"]
    for e in said["enums"]:
        out.update({e["name"]: "enum"} if e["name"] else {})
        out.update({v["name"]: v["value"] for v in e["values"]})
    for m in said["macros"]:
        out["macro " + m["name"]] = m["parameters"] if "parameters" in m else m["value"]
    out.pop("macro INFER_VERSION")
    return out, {s["name"]: [(f["name"], shape(f["type"])) for f in s["fields"]] for s in said["structs"]}


def compare(old, new):
    """[(level, what changed)]"""
    (was, was_structs), (now, now_structs) = parts(old), parts(new)
    found = [("major", "%s is gone" % n) for n in (was.keys() - now.keys()) | (was_structs.keys() - now_structs.keys())]
    found += [("minor", "%s is new" % n) for n in (now.keys() - was.keys()) | (now_structs.keys() - was_structs.keys())]
    for n in was.keys() & now.keys():
        if was[n] != now[n]: # a number of enumerators grows with them
            found.append(("minor" if n.endswith("_COUNT") and now[n] > was[n] else "major", "%s is different" % n))
    for n in was_structs.keys() & now_structs.keys():
        a, b = was_structs[n], now_structs[n]
        if a != b:
            grown = b[:len(a)] == a
            found.append(("minor", "%s has more fields: %s" % (n, ", ".join(f[0] for f in b[len(a):]))) if grown else
                         ("major", "%s has other fields" % n))
    return sorted(found, key=lambda f: (-LEVELS.index(f[0]), f[1]))


def compared(old, new):
    """Prints what changed; the exit status."""
    changes = compare(old, new)
    for level, what in changes:
        print("%s: %s" % (level, what))
    was, now = ([int(x) for x in said["version"].split(".")] for said in (old, new))
    promised = "major" if now[0] > was[0] or (now[0] == 0 and now[1] > was[1]) else "minor" if now[1] > was[1] and now[0] == was[0] else "patch"
    needed = changes[0][0] if changes else "patch"
    ok = LEVELS.index(promised) >= LEVELS.index(needed)
    print("%s to %s: %d changes, of a %s version%s" % (old["version"], new["version"], len(changes), needed, "" if ok else ": raise INFER_VERSION"))
    return 0 if ok else 1


def main():
    args = [a for a in sys.argv[1:] if a != "--compare"]
    old = None
    if "--compare" in sys.argv:
        with open(args.pop(0), encoding="utf-8") as f:
            old = json.load(f)
    with open(args[0] if args else os.path.join(ROOT, "infer.h"), encoding="utf-8") as f:
        out = Declarations(f.read()).out
    version = next(m["value"] for m in out["macros"] if m["name"] == "INFER_VERSION")
    out = dict({"version": "%d.%d.%d" % (version >> 16, version >> 8 & 255, version & 255), "enum_bytes": 4}, **out)
    if old:
        return compared(old, out)
    json.dump(out, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
