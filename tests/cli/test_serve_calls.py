#!/usr/bin/env python3
"""Calls that `infer serve` forces, in every format of calls: python3 tests/cli/test_serve_calls.py build/infer

A model of stories knows of no calls, so all that is right about its calls comes from the grammar. What it calls is read by the program's
own parser, and checked with python3-jsonschema against the whole schema. Each format comes with its marks as text, and as control tokens.
"""
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_file
from serve_process import PLAIN, TEMPLATE, Server, check, end, model, need_server, skip

ONCE = [{"role": "user", "content": "Once upon a time"}]
DS = "<\uff5c%s\uff5c>"
# format: (marks by which a template teaches it, those that are tokens of the models that use it)
FORMS = {
    "hermes": ("<tool_call>", ["<tool_call>", "</tool_call>"]), "bare": ("<|python_tag|>", []), "brackets": ("[TOOL_CALLS]", ["[TOOL_CALLS]"]),
    "brackets ": ("[TOOL_CALLS]f[ARGS]{}", ["[TOOL_CALLS]", "[ARGS]"]), "functools": ("functools[", []), "list": ("<|tool_call|>", ["<|tool_call|>", "<|/tool_call|>"]),
    "tool_calls": ("<tool_calls>[", ["<tool_calls>", "</tool_calls>"]), "TOOLCALL": ("<TOOLCALL>", ["<TOOLCALL>", "</TOOLCALL>"]), "function_call": ("<|function_call|>", ["<|function_call|>"]),
    "role": ("function call<|role_sep|>", ["<|message_sep|>", "<|role_sep|>"]), "function": ("<function=f><parameter=p>", ["<tool_call>", "</tool_call>"]),
    "seed": ("<seed:tool_call>", ["<seed:tool_call>", "</seed:tool_call>"]), "arg_key": ("<tool_call><arg_key>", ["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]),
    "hy": ("<tool_call{}>:opensource", ["<tool_calls:opensource>", "<arg_value:opensource>", "</arg_value:opensource>"]), "param": ("<param name=", []),
    "invoke": ("<minimax:tool_call>", ["<minimax:tool_call>", "</minimax:tool_call>"]), "dsml": ("\uff5cDSML\uff5c", ["\uff5cDSML\uff5c"]), "elements": ("]<]minimax[>[", ["]<]minimax[>["]),
    "harmony": ("<|channel|><|message|>", ["<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>"]), "numbered": ("<|tool_calls_section_begin|>", ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
        "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"]),
    "turn": ("<|tool_call:begin|>", ["<|tool_calls|>", "<|calls|>", "<|tool_call:begin|>", "<|tool_call:end|>", "<|tool_call:name|>", "<|tool_call:args|>"]),
    "fenced": ("<\uff5ctool\u2581sep\uff5c>\n```json", [DS % ("tool\u2581" + w) for w in ("calls\u2581begin", "calls\u2581end", "call\u2581begin", "call\u2581end", "sep")]),
    "sep": ("<\uff5ctool\u2581sep\uff5c>", [DS % ("tool\u2581" + w) for w in ("calls\u2581begin", "calls\u2581end", "call\u2581begin", "call\u2581end", "sep")]),
    "python": ("<|tool_call_start|>", ["<|tool_call_start|>", "<|tool_call_end|>"]), "braces": ("<|tool_call>call:", ["<|tool_call>", "<tool_call|>", '<|"|>']),
    "escape": ("<start_function_call>", ["<start_function_call>", "<end_function_call>", "<escape>"])}
ONE = ("harmony", "function_call", "role") # a reply of these has no more than one call
# What is hard to write as text: words that are other values elsewhere, marks in strings, quotes, unions, references, what is inside lists.
HARD = {"type": "object", "properties": {
    "word": {"type": "string", "enum": ["it's \"x\"", "y<z", "</parameter>", "<escape>", "12", "null"]}, "loud": {"type": "boolean"}, "times": {"type": "integer", "minimum": 2, "maximum": 11},
    "when": {"type": "string", "format": "date"}, "code": {"type": "string", "pattern": "^[A-Z/<\"]{2}[0-9]{1,3}$"}, "short": {"type": "string", "minLength": 1, "maxLength": 5},
    "maybe": {"type": ["string", "null"], "maxLength": 6}, "mixed": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 4}]}, "number": {"enum": ["1", 1]}, "what": {"const": "null"},
    "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "number", "exclusiveMaximum": 1}, "b": {"enum": [1, "1", None, True]}}, "required": ["a", "b"], "additionalProperties": False},
             "minItems": 1, "maxItems": 2},
    "ref": {"$ref": "#/$defs/d"}, "nested": {"type": "object", "properties": {"s": {"type": "string", "maxLength": 8}, "a b": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2}}, "additionalProperties": False},
    "union": {"oneOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "null"}, "maxItems": 2}]}, "optional": {"type": "integer"}},
    "$defs": {"d": {"type": "object", "properties": {"k": {"enum": ["a<b", "</x>", "\\/"]}}, "required": ["k"], "additionalProperties": False}}}
HARD["required"] = [k for k in HARD["properties"] if k != "optional"]
EASY = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}
TOOLS = [{"type": "function", "function": {"name": "say", "parameters": HARD}}, {"type": "function", "function": {"name": "count", "parameters": EASY}}, {"type": "function", "function": {"name": "time"}}]
SCHEMAS = {"say": HARD, "count": dict(EASY, additionalProperties=False), "time": {"type": "object", "additionalProperties": False}}


def named(name):
    return {"type": "function", "function": {"name": name}}


def wrong(calls, names):
    """What is wrong with calls, or None."""
    import jsonschema
    for c in calls:
        try:
            if c["function"]["name"] not in names:
                return c["function"]["name"]
            jsonschema.validate(json.loads(c["function"]["arguments"]), SCHEMAS[c["function"]["name"]], format_checker=jsonschema.FormatChecker())
        except (ValueError, jsonschema.ValidationError) as e:
            return "%.300s in %.600s" % (e, c["function"]["arguments"])
    return None if calls else "there are none"


def ask(s, **body):
    status, r = s.post("/v1/chat/completions", **dict(dict(messages=ONCE, tools=TOOLS, max_tokens=3500, temperature=0.9), **body))
    choice = r["choices"][0] if status == 200 else {"message": {}}
    return choice, choice["message"].get("tool_calls") or [], r


def with_marks(folder, marks):
    """The model with these control tokens, in place of characters that it seldom writes."""
    g = gguf_file.Gguf(PLAIN)
    tokens, kinds = g.meta["tokenizer.ggml.tokens"], g.meta["tokenizer.ggml.token_type"]
    for i, mark in enumerate(marks):
        tokens[len(tokens) - 40 + i], kinds[len(tokens) - 40 + i] = mark, 3
    changed = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds}
    path = os.path.join(folder, "marks.gguf")
    sizes = sorted(at for _, _, at in g.tensors.values()) + [len(g.data) - g.start]
    tensors = [(name, dims, kind, g.data[g.start + at:g.start + sizes[sizes.index(at) + 1]]) for name, (dims, kind, at) in g.tensors.items()]
    gguf_file.write(path, changed, tensors, [raw for key, raw in g.raw.items() if key not in changed])
    return path


def formats(folder):
    template = os.path.join(folder, "template")
    for form, (words, marks) in FORMS.items():
        with open(template, "w", encoding="utf-8") as f:
            f.write("{{ bos_token }}{% if tools %}" + words + "{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}")
        for tokens in [None] + [marks] * bool(marks):
            what = form.strip() + (" with control tokens" if tokens else "")
            s = Server(with_marks(folder, tokens) if tokens else PLAIN, "--template", template, "--ctx", "8192")
            check(s.get("/props")[1]["format"].split("/")[0] == form.strip(), "the format of " + words, s.get("/props"))
            for seed in range(2):
                choice, calls, r = ask(s, tool_choice=named("say"), seed=seed)
                why = wrong(calls, ["say"]) or (len(calls) != 1 and "%d calls" % len(calls))
                check(not why and not choice["message"].get("content") and choice["finish_reason"] == "tool_calls", "%s: a call of a tool by its name" % what, why or r)
            choice, calls, r = ask(s, tool_choice="required", parallel_tool_calls=False, seed=1)
            check(len(calls) == 1 and not wrong(calls, SCHEMAS) and not choice["message"].get("content"), "%s: one call of any tool" % what, wrong(calls, SCHEMAS) or r)
            most = 0
            for seed in range(20):
                if most > 1 or (form in ONE and seed == 3):
                    break
                choice, calls, r = ask(s, tool_choice="required", tools=TOOLS[1:], seed=seed, temperature=0.9 + 0.5 * seed, top_k=0, top_p=1, min_p=0, logprobs=True)
                check(not wrong(calls, SCHEMAS) and not choice["message"].get("content") and choice["finish_reason"] == "tool_calls" and len({c["id"] for c in calls}) == len(calls), "%s: calls of any tools" % what, wrong(calls, SCHEMAS) or r)
                most = max(most, len(calls))
            check(most == 1 if form in ONE else most > 1, "%s: several calls" % what, most)
            if tokens:
                said = [t["token"] for t in choice["logprobs"]["content"]]
                check(any(t in tokens for t in said), "%s: the marks are tokens" % what, said)
            check(s.stop() == 0, "the server ends", s.log)


def names(folder):
    """What a format has no place for is refused by name."""
    template = os.path.join(folder, "template")
    bad = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a>b": {"type": "integer"}}, "required": ["a>b"]}}}
    for form, tool, said in (("function", bad, "argument"), ("python", bad, "argument"), ("python", {"type": "function", "function": {"name": "a b"}}, "a b"), ("hermes", {"type": "function", "function": {"name": "f", "parameters":
                             {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?<=a)b"}}, "required": ["x"]}}}, "tool \"f\"")):
        with open(template, "w", encoding="utf-8") as f:
            f.write(FORMS[form][0] + "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}")
        s = Server(PLAIN, "--template", template, "--ctx", "8192")
        status, r = s.post("/v1/chat/completions", messages=ONCE, tools=[tool], tool_choice="required", max_tokens=20)
        check(status == 400 and said in r["error"]["message"] and r["error"]["param"] == "tool_choice", "%s: refused" % form, r)
        check(s.stop() == 0, "the server ends", s.log)


def choices(folder):
    """auto, none, required and a name, with reasoning before the call, in all three interfaces."""
    s = Server(model(folder, template=TEMPLATE.split("{% if enable_thinking")[0]), "--ctx", "4096", "--seed", "1")
    fn = TOOLS[1]["function"]
    plain, _, r = ask(s, tools=TOOLS, tool_choice="none", max_tokens=12, temperature=0)
    check(not plain["message"].get("tool_calls") and plain["message"]["content"].startswith(", there was"), "chat: none", r)
    for choice in None, "auto":
        got, calls, r = ask(s, tools=TOOLS, tool_choice=choice, max_tokens=12, temperature=0)
        check(not calls and got["message"]["content"] and got["finish_reason"] == "length", "chat: %s" % choice, r)
    forms = (("required", {"tool_choice": "required"}), ("a name", {"tool_choice": {"type": "function", "name": "count"}}))
    for what, body in forms + (("none", {"tool_choice": "none"}), ("auto", {"tool_choice": "auto"})):
        status, r = s.post("/v1/responses", input="Once", tools=[dict(fn, type="function")], max_output_tokens=1500, **body)
        kinds = {x["type"] for x in r.get("output", [])}
        check(status == 200 and kinds == ({"function_call"} if what in ("required", "a name") else {"message"}), "responses: %s" % what, r)
        check(all(not wrong([{"function": {"name": x["name"], "arguments": x["arguments"]}}], ["count"]) for x in r["output"] if x["type"] == "function_call"), "responses: %s: arguments" % what, r)
    for what, choice in (("any", {"type": "any"}), ("a name", {"type": "tool", "name": "count"}), ("one", {"type": "any", "disable_parallel_tool_use": True}), ("none", {"type": "none"}), ("auto", {"type": "auto"})):
        status, r = s.post("/v1/messages", messages=ONCE, tools=[{"name": "count", "input_schema": EASY}], max_tokens=1500, tool_choice=choice)
        used = [x for x in r.get("content", []) if x["type"] == "tool_use"]
        check(status == 200 and bool(used) == (what in ("any", "a name", "one")) and (len(used) == 1 or what not in ("a name", "one")) and all(set(x["input"]) == {"n"} for x in used), "messages: %s" % what, r)
    check(s.stop() == 0, "the server ends", s.log)
    s = Server(model(folder), "--ctx", "4096", "--seed", "1")
    for words in "Once upon a time", "One day": # the template opens the reasoning, which ends after so many tokens
        status, r = s.post("/v1/messages", messages=[{"role": "user", "content": words}], tools=[{"name": "count", "input_schema": EASY}], max_tokens=1500, tool_choice={"type": "any"}, thinking={"type": "enabled", "budget_tokens": 20})
        kinds = [x["type"] for x in r.get("content", [])]
        check(status == 200 and kinds[0] == "thinking" and set(kinds[1:]) == {"tool_use"} and r["stop_reason"] == "tool_use" and r["content"][0]["thinking"], "reasoning before a call", r)
    status, r = s.post("/v1/messages", messages=ONCE, tools=[{"name": "count", "input_schema": EASY}], max_tokens=1500, tool_choice={"type": "any"}, thinking={"type": "disabled"})
    check(status == 200 and {x["type"] for x in r["content"]} == {"tool_use"}, "no reasoning", r)
    status, r = s.post("/v1/chat/completions", messages=ONCE + [{"role": "assistant", "content": "I"}], tools=TOOLS, tool_choice="required")
    check(status == 400 and "begun" in r["error"]["message"], "a reply that has begun", r)
    status, r = s.post("/v1/chat/completions", messages=ONCE, tools=TOOLS, tool_choice="required", grammar='root ::= "x"')
    check(status == 400 and "tool_choice" in r["error"]["message"], "a grammar and a forced call", r)
    check(s.stop() == 0, "the server ends", s.log)


def replies(folder):
    """A form of the reply is kept also where a template always opens reasoning."""
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["age"], "additionalProperties": False}
    template = os.path.join(folder, "template")
    for form, (words, _) in FORMS.items():
        with open(template, "w", encoding="utf-8") as f:
            f.write("{{ bos_token }}{% if tools %}" + words + "{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}" + ("" if form in ("harmony", "turn") else "<think>\n"))
        s = Server(PLAIN, "--template", template, "--ctx", "8192")
        status, r = s.post("/v1/chat/completions", messages=ONCE, max_tokens=100, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        message = r["choices"][0]["message"] if status == 200 else {}
        check(1 <= json.loads(message.get("content") or '{"age": 0}')["age"] <= 9 and not message.get("reasoning_content"), "%s: JSON by a schema" % form, r)
        check(s.stop() == 0, "the server ends", s.log)


def main():
    need_server()
    try:
        import jsonschema # noqa: F401
    except ImportError:
        skip("calls", "python3-jsonschema is not installed")
        end()
    with tempfile.TemporaryDirectory() as folder:
        choices(folder)
        names(folder)
        formats(folder)
        replies(folder)
    end()


main()
