"""compact.py: C code in fewer lines that still reads well; amalgamate.py writes the implementation part of infer.h so (rule 10).

Only white space changes, and the line breaks of comments, which compact() checks. Strings, character constants and
preprocessor lines stay as they are; bodies of macros of several lines are code. No code comes to stand behind a comment.
The rules, each for what fits its width below:
  comments    A paragraph takes fewer lines where src/ broke it for want of room. Its */ does not stand alone.
  statements  A statement takes as few lines as it can, broken where src/ breaks it or behind a comma.
  bodies      What an if, else or loop without braces governs stands behind it.
  runs        Declarations, members of one struct that are set, calls of one function, names of an enum, short rows of a
              table and pairs of short statements stand side by side.
  blocks      A block or function of few simple statements is a line, and so is a case with its break.
  blanks      No empty line before a comment at the left margin, behind the brace that ends a function, nor between
              functions of a line each.
"""
import re

STATEMENT, BODY, TEXT, BLOCK, RUN, PAIR = 220, 220, 220, 220, 220, 200  # columns
SRC = 120  # columns of src/
STATEMENTS = 4  # in a block of a line
QUOTED = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|' + QUOTED, re.S)
COMMENT = "\x01"  # stands for each character of a comment in Line.code
HEADER = re.compile(r"else\b|(?:if|for|while|switch) (?=\()")
LABEL = re.compile(r"(?:case .*|default|[a-z]\w*) ?:$")
SHORT = re.compile(r"[*(]?[a-z_]\w*(?:->|\.|\[|\(|\+\+|--|[\w.>\[\]+-]* [-+*|&]?= )")
LEAVES = re.compile(r"(?:break|continue|return\b.*|goto \w+);$")
TYPE = r"(?:(?:const|unsigned|struct|volatile) )*(?!(?:return|goto|else|typedef|extern|static|case)\b)[A-Za-z_]\w* "
RUNS = (  # what may stand side by side: lines that match the same row with the same group
    ("block", re.compile(TYPE + r"()\**[a-z]\w*(?:\[[^=]*\])*(?: = [^;]*|, [^;]*)?;$")),
    ("struct", re.compile(TYPE + r"()\**[a-z]\w*(?:\[[\w+* ]+\])?(?:, \**[a-z]\w*(?:\[[\w+* ]+\])?)*;$")),
    ("block", re.compile(r"([a-z]\w*)(?:->|\.)[\w.>\[\]-]+ = [^;=]*;$")),
    ("block", re.compile(r"((?!INFER__ASSERT)\w+)\([^;]*\);$")),
    ("enum", re.compile(r"()\w+(?: = [^,]+)?,?$")),
    ("table", re.compile(r"()\{.*\},?$")),
)


class Line:
    """text: without its indent. code: of the same length, with comments and what stands in quotes replaced.
    kind: code, # (a directive), blank, or fixed (in or beside a comment of several lines). place: what it stands in."""
    __slots__ = ("indent", "text", "code", "kind", "place", "run")

    def __init__(self, indent, text, code, kind, place="top", run=None):
        self.indent, self.text, self.code, self.kind, self.place, self.run = indent, text, code, kind, place, run

    def __len__(self):
        return self.indent + len(self.text)

    def open(self):
        """More may stand behind it."""
        return self.kind == "code" and not self.code.endswith(COMMENT)

    def bare(self):
        return self.code.rstrip(COMMENT + " ")

    def and_line(self, other):
        glue = "" if self.code.endswith(("(", "[")) or other.code.startswith((")", "]")) else " "
        return Line(self.indent, self.text + glue + other.text, self.code + glue + other.code, "code", self.place)


def lines_of(text):
    fixed = set()

    def covered(m):
        s = m.group()
        if s[0] != "/":
            return s[0] + "s" * (len(s) - 2) + s[0]
        if "\n" in s:
            first = text.count("\n", covered.at, m.start()) + covered.line
            covered.at, covered.line = m.start(), first
            fixed.update(range(first, first + s.count("\n") + 1))
        return re.sub(r"[^\n]", COMMENT, s)
    covered.at = covered.line = 0
    code = TOKEN.sub(covered, text)
    directive = False
    for number, (raw, line) in enumerate(zip(text.split("\n"), code.split("\n"))):
        body = raw.lstrip(" ")
        indent = len(raw) - len(body)
        directive = directive or line.startswith("#", indent)
        kind = "#" if directive else "blank" if not body else "fixed" if number in fixed or not line[indent:].strip(COMMENT + " ") else "code"
        yield Line(indent, body, line[indent:], kind)
        directive = directive and raw.endswith("\\")


def depths(code, depth=0, braces=False):
    """The depth in brackets behind each character."""
    for c in code:
        depth += (c in "([") - (c in ")]") + braces * ((c == "{") - (c == "}"))
        yield depth


def depth_of(code, braces=False):
    d = 0
    for d in depths(code, 0, braces):
        pass
    return d


def place_of(head, around):
    """What the brace behind head opens."""
    head = head.strip()
    if around == "table" or head.endswith(("=", ",", "(")):
        return "table"
    if re.match(r"(?:typedef )?enum\b[^(]*$", head):
        return "enum"
    if re.match(r"(?:typedef )?(?:struct|union)\b[^(]*$", head):
        return "struct"
    return "top" if head.startswith("extern s") or head.startswith('extern "') else "block"


def put_places(lines, place):
    stack, conditions, head = [place], [], ""
    for line in lines:
        line.place = stack[-1]
        if line.kind == "#":
            word = line.code.replace(" ", "")
            if word.startswith("#if"):
                conditions.append((stack[:], head))
            elif word.startswith("#el") and conditions:
                stack, head = conditions[-1][0][:], conditions[-1][1]
            elif word.startswith("#endif") and conditions:
                conditions.pop()
        elif line.kind == "code":
            for piece in re.findall(r"[^{};]+|[{};]", line.code.replace(COMMENT, "")):
                if piece == "{":
                    stack.append(place_of(head, stack[-1]))
                elif piece == "}" and len(stack) > 1:
                    stack.pop()
                head = "" if piece in "{};" else head + " " + piece


def behind_headers(code):
    """What stands behind if (...), else, for (...) and so on; None where one does not end. And how many they are."""
    count = 0
    while True:
        m = HEADER.match(code)
        if not m:
            return code, count
        count += 1
        code = code[m.end():]
        if m.group().startswith("else"):
            code = code.lstrip()
            continue
        for at, d in enumerate(depths(code)):
            if d == 0:
                break
        else:
            return None, count
        code = code[at + 1:].lstrip()


def complete(code, place):
    """A statement, header, label or element ends with code."""
    if code.endswith("{"):
        return True
    table = place in ("table", "enum")
    if depth_of(code, table):
        return False
    if code.endswith((";", "}")) or (table and code.endswith(",")) or LABEL.match(code):
        return True
    return behind_headers(code)[0] == ""


# ---- statements -------------------------------------------------------------------------------------------------------

def pieces_of(group):
    """A statement cut wherever a line may end, as Lines; and the least depth at which src/ cuts it."""
    table = group[0].place == "table"
    ends, d = [], 0
    for line in group[:-1]:
        d += depth_of(line.code, table)
        ends.append(d)
    least, d = min(ends), 0
    for line in group:
        start, indent = 0, line.indent
        for at, d in enumerate(depths(line.code, d, table)):
            if line.code[at] == "," and d == least and line.code[at + 1:at + 2] == " " and not line.code[at + 2:].startswith(COMMENT):
                yield Line(indent, line.text[start:at + 1], line.code[start:at + 1], "code", line.place)
                start, indent = at + 2, None
        yield Line(indent, line.text[start:], line.code[start:], "code", line.place)


def bracket_column(lines, table):
    """The column behind the innermost bracket that is open behind lines; None: there is none."""
    stack = []
    for line in lines:
        for at, c in enumerate(line.code):
            if c in "([" or (table and c == "{"):
                stack.append(line.indent + at + 1)
            elif (c in ")]" or (table and c == "}")) and stack:
                stack.pop()
    return stack[-1] if stack else None


def filled(group, width):
    """The lines of a statement, broken at this width; None where a piece is too long."""
    table, result, plain = group[0].place == "table", [], group[0].indent + 4
    for piece in pieces_of(group):
        if result:
            joined = result[-1].and_line(piece)
            if len(joined) <= width:
                result[-1] = joined
                continue
            column = bracket_column(result, table)
            if column is None:
                column = plain if piece.indent is None else piece.indent
            elif result[-1].code.endswith(("(", "{")) or column + len(piece.text) > width:
                column = plain
            piece.indent = column
        if len(piece) > width:
            return None
        result.append(piece)
    return result


def statement(group, most):
    if len(group) > 1 and all(l.open() for l in group[:-1]):
        best = filled(group, most)
        if best and len(best) < len(group):  # the narrowest that needs no more lines
            narrow = (filled(group, width) for width in range(SRC, most, 5))
            return next((n for n in narrow if n and len(n) == len(best)), best)
    return group


def statements(lines, most):
    result, n = [], 0
    while n < len(lines):
        group = [lines[n]]
        if lines[n].kind == "code":
            code = lines[n].bare()
            while not complete(code, lines[n].place) and n + len(group) < len(lines):
                more = lines[n + len(group)]
                if more.kind != "code" or more.indent <= lines[n].indent:
                    break
                group.append(more)
                code += " " + more.bare()
        n += len(group)
        result += statement(group, most)
    return result


# ---- lines that become one ----------------------------------------------------------------------------------------------

def count(code):
    """Statements that end in code."""
    return sum(c == ";" and d == 0 for c, d in zip(code, depths(code)))


def simple(line):
    return line.open() and line.code.endswith(";") and not HEADER.match(line.code) and "{" not in line.code and depth_of(line.code) == 0


def body(lines, n):
    """A header and the statement that it governs."""
    line, inner = lines[n], lines[n + 1]
    if not (line.open() and inner.kind == "code" and inner.indent > line.indent and line.place == "block"):
        return None
    rest, headers = behind_headers(line.code)
    if rest != "" or not headers or not inner.bare().endswith((";", "}")) or depth_of(inner.code):
        return None
    under = behind_headers(inner.code)[1]
    if inner.code.count("{") != inner.code.count("}") or headers + under > 2:
        return None
    joined = line.and_line(inner)
    return (2, joined) if len(joined) <= (BLOCK if under else BODY) else None


def run_of(line):
    if line.run is None and line.open():
        for number, (place, shape) in enumerate(RUNS):
            m = shape.match(line.code) if place == line.place else None
            if m and depth_of(line.code, True) == 0:
                line.run = (number, m.group(1))
                break
    return line.run


def run(lines, n):
    line, more = lines[n], lines[n + 1]
    if not (line.open() and more.open() and line.indent == more.indent and run_of(line) and run_of(line) == run_of(more)):
        return None
    if line.place == "struct" and not (lines[n - 1].open() and lines[n + 2].open()):  # where some have comments each has a line
        return None
    joined = line.and_line(more)
    joined.run = line.run
    return (2, joined) if len(joined) <= RUN else None


def short(line):
    return line.place == "block" and simple(line) and count(line.code) == 1 and SHORT.match(line.code)


def pair(lines, n):
    """Two short statements, or one and what leaves the block."""
    line, more = lines[n], lines[n + 1]
    if not (line.indent == more.indent and more.open() and short(line)):
        return None
    joined = line.and_line(more)
    return (2, joined) if (LEAVES.match(more.code) or short(more)) and len(joined) <= PAIR else None


def block(lines, n):
    line = lines[n]
    if not (line.open() and line.code.endswith("{")) or line.place not in ("block", "top"):
        return None
    function = line.place == "top"
    rest, headers = behind_headers(line.code)
    loop = line.code == "do {"
    if not (line.code.endswith(") {") if function else loop or (headers and rest == "{")):
        return None
    joined = line
    for at in range(n + 1, min(n + 2 + STATEMENTS, len(lines))):
        inner = lines[at]
        if inner.indent == line.indent and at > n + 1 and (inner.text.startswith("} while (") if loop else inner.bare() == "}"):
            joined = joined.and_line(inner)
            wide = STATEMENT - 2 if function and count(joined.code) == 1 else BLOCK
            return (at + 1 - n, joined) if count(joined.code) <= STATEMENTS + loop and len(joined) <= wide else None
        if not (inner.open() and inner.indent > line.indent and inner.code.endswith(";") and depth_of(inner.code, True) == 0):
            return None
        if HEADER.match(inner.code) and not (lines[at + 1].bare() == "}" and behind_headers(inner.code)[1] == 1 and headers < 2):
            return None
        joined = joined.and_line(inner)
    return None


def case(lines, n):
    line = lines[n]
    if not (line.open() and line.place == "block" and LABEL.match(line.code) and simple(lines[n + 1])):
        return None
    joined, end = line.and_line(lines[n + 1]), 2
    if not LEAVES.match(lines[n + 1].code):
        if not (lines[n + 2].open() and LEAVES.match(lines[n + 2].code)):
            return None
        joined, end = joined.and_line(lines[n + 2]), 3
    behind = lines[n + end]
    return (end, joined) if len(joined) <= BLOCK and behind.kind == "code" and behind.indent <= line.indent else None


def one_line_function(line):
    return line.place == "top" and line.kind == "code" and line.indent == 0 and line.code.endswith("}") and "{" in line.code


def blank(lines, n):
    line, more = lines[n], lines[n + 1]
    if line.kind == "blank" and more.text.startswith("/*") and more.indent == 0:
        return 2, more
    if n and line.kind == "blank" and one_line_function(lines[n - 1]) and one_line_function(more):
        return 2, more
    if n and line.kind == "blank" and more.text and lines[n - 1].text == "}" and lines[n - 1].indent == 0:
        return 2, more
    return None


# ---- comments ---------------------------------------------------------------------------------------------------------

def words(line):
    return [line.text] if line.text == "*/" else re.sub(r"^\* *", "", line.text).split(" ")


def paragraph(lines, width):
    """Lines of one paragraph of a comment, filled."""
    hang = re.match(r"/?\* *", lines[1].text if len(lines) > 1 and lines[1].text != "*/" else "* ").group()
    result = [lines[0].text]
    for line in lines[1:]:
        for word in words(line):
            if len(result[-1]) + 1 + len(word) + lines[0].indent <= width:
                result[-1] += " " + word
            else:
                result.append(hang + word)
    return [Line(line.indent, text, COMMENT * len(text), "fixed") for line, text in zip(lines, result)]


def comments(lines):
    """Paragraphs that src/ breaks where the next word did not fit take fewer lines; its */ does not stand alone."""
    result, n = [], 0
    while n < len(lines):
        group = [lines[n]]
        n += 1
        if group[0].kind == "fixed" and group[0].code[:1] == COMMENT and not group[0].text.endswith("*/"):
            while n < len(lines) and lines[n].kind == "fixed" and not group[-1].text.endswith("*/"):
                word = words(lines[n])[0]
                wrapped = lines[n].text.startswith("* ") and len(group[-1]) + 1 + len(word) > SRC and not re.match(r"[A-Z]\w*:$", word)
                if lines[n].text != "*/" and not wrapped:
                    break
                group.append(lines[n])
                n += 1
            for width in range(SRC, TEXT + 1, 4):
                filled_group = paragraph(group, width)
                if len(filled_group) < len(group) and len(filled_group) == len(paragraph(group, TEXT)):
                    group = filled_group
                    break
        result += group
    return result


def shortened(lines, rules):
    """Each of the rules, (lines, n) -> None or (how many lines, the line they become), as often as one applies."""
    ends = [Line(0, "", "", "end")] * 4  # so that rules may look ahead
    for rule in rules:
        again = True
        while again:
            again, result, n, lines = False, [], 0, lines + ends
            while n < len(lines) - len(ends):
                found = rule(lines, n)
                if found:
                    again = True
                    lines[n + found[0] - 1] = found[1]
                    n += found[0] - 1
                else:
                    result.append(lines[n])
                    n += 1
            lines = result
    return lines


RULES = (body, run, pair, case, block, body, block, blank)


def code(lines, place, most=STATEMENT):
    put_places(lines, place)
    return shortened(statements(comments(lines), most), RULES)


# ---- macros -----------------------------------------------------------------------------------------------------------

def macro(group):
    """A #define of several lines: what is behind the first is code."""
    lines = [Line(l.indent, l.text.removesuffix("\\").rstrip(), l.code.removesuffix("\\").rstrip(), "code") for l in group]
    for l in lines:
        if not l.code.strip(COMMENT + " "):
            l.kind = "fixed"
    function = any(l.code.endswith(") {") and behind_headers(l.code)[1] == 0 for l in lines)
    inner = code(lines[1:], "top" if function else "block", STATEMENT - 2)
    if len(inner) + 1 == len(group):
        return group
    lines = [lines[0]] + inner
    if len(inner) == 1 and len(lines[0]) + 1 + len(inner[0].text) <= BLOCK:
        return [lines[0].and_line(inner[0])]
    column = max(len(l) for l in lines[:-1]) + 1
    for l in lines[:-1]:
        l.text += " " * (column - len(l)) + "\\"
    return lines


def macros(lines):
    n = 0
    while n < len(lines):
        end = n + 1
        if lines[n].kind == "#":
            while lines[end - 1].text.endswith("\\"):
                end += 1
        if end - n > 2:
            for l in macro(lines[n:end]):
                l.kind = "#"
                yield l
        else:
            yield from lines[n:end]
        n = end


def compact(text):
    lines = list(macros(list(lines_of(text))))
    result = "\n".join(" " * l.indent + l.text for l in code(lines, "top"))
    if tokens(result) != tokens(text):
        raise AssertionError("compact.py changes more than white space")
    return result


def tokens(text):
    text = TOKEN.sub(lambda m: re.sub(r"\n *\*(?!/)", "\n", m.group()), text)
    return "".join(text.replace("\\\n", "\n").split())
