#!/usr/bin/env python3
"""Tests of the interfaces of `infer serve`, by the makers' own clients: python3 tests/cli/test_serve.py build/infer

Needs GNU libmicrohttpd in the program, and openai and anthropic for Python; what is missing is skipped by name. What the server
endures is in test_serve_faults.py. The last line is "N passed, N failed, N skipped".
"""
import base64
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
import gguf_file
from serve_process import INFER, PLAIN, Server, check, end, events, model, need_server, skip

ONCE = [{"role": "user", "content": "Once upon a time"}]
STORY = ", there was a little girl named"
ADD = {"type": "function", "function": {"name": "add", "description": "adds", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"], "additionalProperties": False}}}
TIME = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}


def gbnf(text):
    return 'root ::= "%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def call(name, arguments):
    return '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>' % (name, json.dumps(arguments))


# ---- OpenAI: chat ----------------------------------------------------------------------------------------------------

def chat(o, s):
    r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=12, temperature=0)
    story = r.choices[0].message.content
    check(story.startswith(STORY[:20]) and r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 12 and r.usage.prompt_tokens == 5, "a reply", r)
    parts = list(o.chat.completions.create(model="model", messages=ONCE, max_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}))
    text = "".join(p.choices[0].delta.content or "" for p in parts if p.choices)
    check(text == story and parts[0].choices[0].delta.role == "assistant" and parts[-1].usage.completion_tokens == 12 and not parts[-1].choices, "a stream", text)
    check([p.choices[0].finish_reason for p in parts if p.choices][-1] == "length" and all(p.usage is None for p in parts[:-1]) and len({p.id for p in parts}) == 1, "its end")
    long = [{"role": "user", "content": "Once upon a time there was a girl. " * 10}]
    for _ in range(2):
        r = o.chat.completions.create(model="model", messages=long, max_tokens=2)
    check(r.usage.prompt_tokens_details.cached_tokens > 30, "a prompt that is evaluated once", r.usage)
    status, _, raw = s.send("POST", "/v1/chat/completions", dict(messages=ONCE, max_tokens=2, temperature=0, stream=True))
    check(status == 200 and raw.endswith("data: [DONE]\n\n") and events(raw)[-2][1]["choices"][0]["delta"] == {}, "the end of a raw stream", raw)
    r = o.chat.completions.create(model="model", messages=ONCE, max_completion_tokens=20, temperature=0, stop=["girl", "never"])
    check(r.choices[0].message.content == ", there was a little " and r.choices[0].finish_reason == "stop", "stop", r)
    many = o.chat.completions.create(model="model", messages=ONCE, max_tokens=20, n=3, seed=7, temperature=1.5)
    again = o.chat.completions.create(model="model", messages=ONCE, max_tokens=20, n=3, seed=7, temperature=1.5)
    texts = [c.message.content for c in many.choices]
    check(len(set(texts)) == 3 and texts == [c.message.content for c in again.choices] and many.usage.completion_tokens > 20, "several replies, the same for a seed", texts)
    parts = list(o.chat.completions.create(model="model", messages=ONCE, max_tokens=20, n=3, seed=7, temperature=1.5, stream=True))
    got = ["".join(p.choices[0].delta.content or "" for p in parts if p.choices[0].index == i) for i in range(3)]
    check(got == texts, "several replies in a stream", got)
    comma = [t["id"] for t in s.post("/tokenize", content="time,", with_pieces=True)[1]["tokens"] if t["piece"] == ","][0]
    r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=6, temperature=0, logit_bias={str(comma): -100})
    check(not r.choices[0].message.content.startswith(","), "logit_bias", r)
    r = o.chat.completions.create(model="model", messages=ONCE + [{"role": "assistant", "content": STORY[:20]}], max_tokens=4, temperature=0)
    check(story.startswith(STORY[:20] + r.choices[0].message.content), "an assistant's message goes on", r)
    r = o.chat.completions.create(model="model", messages=[{"role": "developer", "content": "Once "}, {"role": "user", "content": [{"type": "text", "text": "upon a time"}]}], max_tokens=12, temperature=0)
    check(r.choices[0].message.content == story, "roles and parts of text", r)
    r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=5, temperature=0, user="me", store=False, metadata={"a": "b"}, service_tier="auto")
    check(r.choices[0].finish_reason == "length", "what changes nothing is accepted", r)
    r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=12, temperature=0, extra_body={"stop_token_ids": [comma]})
    check(r.choices[0].finish_reason == "stop" and r.usage.completion_tokens < 3, "stop_token_ids", r)


def logprobs(o):
    r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=5, temperature=0, logprobs=True, top_logprobs=3)
    rows = r.choices[0].logprobs.content
    check(len(rows) == 5 and "".join(x.token for x in rows) == r.choices[0].message.content, "log probabilities of all tokens", rows)
    check(all(len(x.top_logprobs) == 3 and x.top_logprobs[0].token == x.token and x.top_logprobs[0].logprob == x.logprob <= 0 for x in rows) and
          bytes(rows[0].bytes).decode() == rows[0].token, "and of the likeliest", rows)
    parts = list(o.chat.completions.create(model="model", messages=ONCE, max_tokens=5, temperature=0, logprobs=True, top_logprobs=3, stream=True))
    streamed = [x for p in parts for x in (p.choices[0].logprobs.content if p.choices[0].logprobs else [])]
    check(streamed == rows, "the same in a stream", streamed)


def forms(o):
    r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=200, seed=1, response_format={"type": "json_object"}, stop=None)
    try:
        ok = isinstance(json.loads(r.choices[0].message.content), dict)
    except ValueError:
        ok = r.choices[0].finish_reason == "length"
    check(ok, "a JSON object", r.choices[0].message.content)
    schema = {"type": "object", "properties": {"name": {"enum": ["Lily", "Tom"]}, "age": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["name", "age"], "additionalProperties": False}
    for seed in range(3):
        r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=200, seed=seed, response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}})
        got = json.loads(r.choices[0].message.content)
        check(set(got) == {"name", "age"} and got["name"] in ("Lily", "Tom") and 1 <= got["age"] <= 9 and r.choices[0].finish_reason == "stop", "JSON by a schema", got)
    r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=50, extra_body={"grammar": gbnf("yes, \"quoted\"")})
    check(r.choices[0].message.content == 'yes, "quoted"', "a grammar", r)
    r = o.chat.completions.create(model="model", messages=ONCE, max_tokens=50, extra_body={"grammar": gbnf("<think>hm</think>yes"), "top_k": 5})
    check(r.choices[0].message.content == "yes" and r.choices[0].message.reasoning_content == "hm" and 0 < r.usage.completion_tokens_details.reasoning_tokens < r.usage.completion_tokens, "reasoning", r)
    parts = list(o.chat.completions.create(model="model", messages=ONCE, max_tokens=50, stream=True, extra_body={"grammar": gbnf("<think>hm</think>yes")}))
    kinds = [k for p in parts for k in ("reasoning_content", "content") if getattr(p.choices[0].delta, k, None)]
    check(kinds == sorted(kinds, reverse=True) and "reasoning_content" in kinds and "content" in kinds, "reasoning in a stream", kinds)


def tools(o):
    both = {"grammar": gbnf(call("add", {"a": 1, "b": 2}) + "\n" + call("time", {}))}
    r = o.chat.completions.create(model="model", messages=ONCE, tools=[ADD, TIME], max_tokens=200, extra_body=both)
    calls = r.choices[0].message.tool_calls
    check(len(calls) == 2 and [c.function.name for c in calls] == ["add", "time"] and json.loads(calls[0].function.arguments) == {"a": 1, "b": 2} and
          r.choices[0].finish_reason == "tool_calls" and r.choices[0].message.content is None and calls[0].id != calls[1].id, "parallel calls", r)
    r = o.chat.completions.create(model="model", messages=ONCE, tools=[ADD, TIME], max_tokens=200, parallel_tool_calls=False, extra_body=both)
    check(len(r.choices[0].message.tool_calls) == 1 and r.choices[0].finish_reason == "tool_calls", "no parallel ones", r)
    parts = [p.choices[0] for p in o.chat.completions.create(model="model", messages=ONCE, tools=[ADD, TIME], max_tokens=200, stream=True, extra_body=both)]
    deltas = [d for p in parts for d in p.delta.tool_calls or []]
    check([(d.index, d.function.name) for d in deltas if d.function.name] == [(0, "add"), (1, "time")] and
          json.loads("".join(d.function.arguments for d in deltas if d.index == 0)) == {"a": 1, "b": 2} and parts[-1].finish_reason == "tool_calls", "calls in a stream", deltas)
    history = ONCE + [r.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": r.choices[0].message.tool_calls[0].id, "content": "3"}]
    r = o.chat.completions.create(model="model", messages=history, tools=[ADD], max_tokens=20, extra_body={"grammar": gbnf("It is 3.")})
    check(r.choices[0].message.content == "It is 3." and r.choices[0].finish_reason == "stop", "the result of a call", r)
    for choice, names in (("required", {"add", "time"}), ({"type": "function", "function": {"name": "add"}}, {"add"})):
        for seed in range(3):
            r = o.chat.completions.create(model="model", messages=ONCE, tools=[ADD, TIME], tool_choice=choice, parallel_tool_calls=False, max_tokens=300, seed=seed, temperature=0.5, reasoning_effort="none")
            got = r.choices[0].message.tool_calls or []
            if check(len(got) == 1 and got[0].function.name in names and not r.choices[0].message.content, "a call that is forced", r) and got[0].function.name == "add":
                check(set(json.loads(got[0].function.arguments)) == {"a", "b"}, "its arguments", got)
    r = o.chat.completions.create(model="model", messages=ONCE, tools=[ADD], tool_choice="none", max_tokens=12, temperature=0)
    check(r.choices[0].message.content.startswith(STORY[:20]) and not r.choices[0].message.tool_calls, "no tools", r)


def refusals(openai, o, s):
    for what, body, code in (("unknown parameters", {"extra_body": {"nonsense": 1}}, "unsupported_parameter"), ("functions", {"extra_body": {"functions": []}}, "unsupported_parameter"),
                             ("a wrong type", {"max_tokens": "many"}, "invalid_type"), ("a value out of range", {"n": 1000}, "invalid_type"),
                             ("audio", {"modalities": ["text", "audio"]}, "unsupported_value"), ("a schema that is none", {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}}, None),
                             ("reasoning_effort", {"reasoning_effort": "high"}, "unsupported_parameter"), ("a tool of another type", {"tools": [{"type": "web_search"}]}, "unsupported_tool"),
                             ("a form and tools", {"tools": [ADD], "response_format": {"type": "json_object"}}, None),
                             ("an unknown tool", {"tools": [ADD], "tool_choice": {"type": "function", "function": {"name": "nope"}}}, None),
                             ("the model's temperature", {"temperature": "hot"}, "invalid_type"), ("stop strings beyond 64", {"stop": ["x%d" % i for i in range(65)]}, None),
                             ("tokens that are none", {"extra_body": {"stop_token_ids": [10 ** 9]}}, "invalid_type"),
                             ("a wrong grammar", {"extra_body": {"grammar": "root ::= ("}}, "invalid_grammar")):
        try:
            r = o.chat.completions.create(**dict(dict(model="model", messages=ONCE, max_tokens=5), **body))
            check(False, "%s: refused" % what, r)
        except openai.BadRequestError as e:
            check((code is None or e.code == code) and e.type == "invalid_request_error" and e.body["message"], "%s: refused by name" % what, e)
    for what, messages in (("an image", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]), ("no messages", []), ("no role", [{"content": "x"}])):
        try:
            o.chat.completions.create(model="model", messages=messages, max_tokens=5)
            check(False, what)
        except openai.BadRequestError as e:
            check(e.param == "messages", what, e)
    try:
        o.chat.completions.create(model="model", messages=[{"role": "user", "content": "word " * 3000}], max_tokens=5)
        check(False, "a prompt that is too long")
    except openai.BadRequestError as e:
        check(e.code == "context_length_exceeded", "a prompt that is too long", e)
    try:
        o.chat.completions.create(model="gpt-4", messages=ONCE)
        check(False, "another model")
    except openai.NotFoundError as e:
        check(e.code == "model_not_found", "another model", e)
    for method, path, body, status in (("GET", "/nothing", None, 404), ("GET", "/v1/chat/completions", None, 405), ("POST", "/v1/chat/completions", "{", 400), ("POST", "/v1/chat/completions", "[]", 400),
                                       ("POST", "/v1/chat/completions", b'{"messages": [{"role": "user", "content": "\xff"}], "max_tokens": 1}', None)):
        got, _, text = s.send(method, path, body)
        check(got == status or status is None and got in (200, 400), "%s %s" % (method, path), text)


# ---- OpenAI: the rest ------------------------------------------------------------------------------------------------

def completions(openai, o):
    r = o.completions.create(model="model", prompt="Once upon a time", max_tokens=12, temperature=0)
    check(r.choices[0].text.startswith(STORY[:20]) and r.choices[0].finish_reason == "length" and r.usage.prompt_tokens == 5, "a completion", r)
    story = r.choices[0].text
    check(len(o.completions.create(model="model", prompt="Once", temperature=0, logprobs=0).choices[0].logprobs.tokens) == 16, "16 tokens by default")
    parts = list(o.completions.create(model="model", prompt="Once upon a time", max_tokens=12, temperature=0, stream=True))
    check("".join(p.choices[0].text for p in parts) == story and parts[-1].choices[0].finish_reason == "length", "its stream", parts)
    r = o.completions.create(model="model", prompt=["Once upon a time", "There was"], max_tokens=4, temperature=0, n=2, echo=True, logprobs=2)
    check([c.text[:9] for c in r.choices] == ["Once upon"] * 2 + ["There was"] * 2 and [c.index for c in r.choices] == [0, 1, 2, 3], "prompts, echoed", r)
    l = r.choices[0].logprobs
    check("".join(l.tokens[1:]).strip() == r.choices[0].text and l.token_logprobs[0] is None and all(x <= 0 for x in l.token_logprobs[1:]) and len(l.top_logprobs[2]) == 2 and len(l.text_offset) == len(l.tokens),
          "log probabilities of the prompt", l)
    only = o.completions.create(model="model", prompt="Once upon a time", max_tokens=0, echo=True, logprobs=1)
    check(only.choices[0].text == "Once upon a time" and only.usage.completion_tokens == 0 and only.usage.prompt_tokens == 5 and
          all(abs(a - b) < 1e-4 for a, b in zip(only.choices[0].logprobs.token_logprobs[1:], l.token_logprobs[1:])), "a prompt alone", only)
    for echo in (False, True): # characters count the whole text, whatever it comes in
        whole = o.completions.create(model="model", prompt="Once upon a time", max_tokens=6, temperature=0, logprobs=2, echo=echo).choices[0]
        parts = [p.choices[0] for p in o.completions.create(model="model", prompt="Once upon a time", max_tokens=6, temperature=0, logprobs=2, echo=echo, stream=True)]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            got = [x for p in parts for x in getattr(p.logprobs, name)]
            check(got == getattr(whole.logprobs, name) and len(got) == (11 if echo else 6), "%s in a stream, echo %s" % (name, echo), (got, whole))
        check("".join(p.text for p in parts) == whole.text and whole.logprobs.text_offset[:2] == [0, len(whole.logprobs.tokens[0])], "text in a stream, echo %s" % echo, parts)
    ids = o.post("/../tokenize", body={"content": "Once upon a time", "add_special": True}, cast_to=object)["tokens"]
    check(o.completions.create(model="model", prompt=ids, max_tokens=12, temperature=0).choices[0].text == story, "a prompt of tokens", ids)
    for what, body in (("suffix", {"suffix": "end"}), ("best_of", {"best_of": 3}), ("an empty list", {"prompt": []}), ("tokens that are none", {"prompt": [99999999]})):
        try:
            o.completions.create(**dict(dict(model="model", prompt="x", max_tokens=2), **body))
            check(False, "%s is refused" % what)
        except openai.BadRequestError as e:
            check(e.body["message"], "%s is refused" % what, e)


def responses(openai, o, s):
    r = o.responses.create(model="model", input="Once upon a time", max_output_tokens=12, temperature=0)
    check(r.output_text.startswith(STORY[:20]) and r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens" and r.usage.output_tokens == 12, "a response", r)
    story = r.output_text
    r = o.responses.create(model="model", instructions="Once ", input=[{"role": "user", "content": [{"type": "input_text", "text": "upon a time"}]}], max_output_tokens=12, temperature=0)
    check(r.output_text == story, "instructions and parts", r)
    told = list(o.responses.create(model="model", input="Once upon a time", max_output_tokens=40, stream=True, extra_body={"grammar": gbnf("<think>hm</think>yes")}))
    order = [e.type for i, e in enumerate(told) if i == 0 or e.type != told[i - 1].type]
    check(order == ["response.created", "response.in_progress"] +
          [x for kind in ("reasoning_text", "output_text") for x in ("response.output_item.added", "response.content_part.added", "response.%s.delta" % kind, "response.%s.done" % kind,
                                                                      "response.content_part.done", "response.output_item.done")] + ["response.completed"], "the order of events", order)
    check([e.sequence_number for e in told] == list(range(len(told))) and "".join(e.delta for e in told if e.type == "response.output_text.delta") == "yes", "their numbers and text")
    final = told[-1].response
    check([x.type for x in final.output] == ["reasoning", "message"] and final.output_text == "yes" and final.output[0].content[0].text == "hm" and final.usage.output_tokens_details.reasoning_tokens > 0, "the whole at the end", final)
    fn = [{"type": "function", "name": "add", "parameters": ADD["function"]["parameters"], "strict": True}]
    asked = {"grammar": gbnf("So: " + call("add", {"a": 1, "b": 2}))}
    told = list(o.responses.create(model="model", input="Once upon a time", tools=fn, max_output_tokens=100, stream=True, extra_body=asked))
    kinds = [e.type for e in told if e.type.startswith("response.function_call")]
    check(kinds == ["response.function_call_arguments.delta", "response.function_call_arguments.done"] and [x.type for x in told[-1].response.output] == ["message", "function_call"], "a call in a stream", kinds)
    item = told[-1].response.output[1]
    check(item.name == "add" and json.loads(item.arguments) == {"a": 1, "b": 2}, "a call", item)
    r = o.responses.create(model="model", input=[{"role": "user", "content": "x"}] + [x.model_dump() for x in told[-1].response.output] + [{"type": "function_call_output", "call_id": item.call_id, "output": "3"}],
                           tools=fn, max_output_tokens=20, extra_body={"grammar": gbnf("It is 3.")})
    check(r.output_text == "It is 3." and r.status == "completed", "its result", r)
    r = o.responses.create(model="model", input="x", tools=fn, tool_choice={"type": "function", "name": "add"}, max_output_tokens=200, reasoning={"effort": "none"})
    check(r.output[0].type == "function_call", "a call that is forced", r)
    r = o.responses.create(model="model", input="x", max_output_tokens=100, text={"format": {"type": "json_schema", "name": "n", "schema": {"enum": [1, 2]}}})
    check(r.output_text in ("1", "2"), "a schema", r)
    for what, body in (("previous_response_id", {"previous_response_id": "resp_1"}), ("background", {"background": True}), ("an image", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}),
                       ("other tools", {"tools": [{"type": "web_search"}]})):
        try:
            o.responses.create(**dict(dict(model="model", input="x", max_output_tokens=2), **body))
            check(False, "%s is refused" % what)
        except openai.BadRequestError as e:
            check(e.body["message"], "%s is refused" % what, e)


def vectors(o, s):
    r = o.embeddings.create(model="model", input=["Once upon a time", "the end"])
    raw = o.embeddings.create(model="model", input=["Once upon a time", "the end"], encoding_format="float")
    check(len(r.data) == 2 and len(r.data[0].embedding) == 64 and abs(sum(x * x for x in r.data[0].embedding) - 1) < 1e-4 and r.usage.prompt_tokens > 4, "vectors", r.usage)
    check(all(abs(a - b) < 1e-6 for a, b in zip(r.data[1].embedding, raw.data[1].embedding)), "base64 and floats")
    check(len(o.embeddings.create(model="model", input="x", dimensions=8).data[0].embedding) == 8, "dimensions")
    check(o.embeddings.create(model="model", input=[[1, 403, 407]]).data[0].embedding != r.data[0].embedding, "tokens")
    status, got = s.post("/v1/embeddings", input=["x"], encoding_format="base64")
    check(status == 200 and len(struct.unpack("<64f", base64.b64decode(got["data"][0]["embedding"]))) == 64, "raw base64", got)
    status, got = s.post("/v1/embeddings", input=[])
    check(status == 400 and got["error"]["param"] == "input", "no texts", got)
    status, got = s.post("/v1/embeddings", input=["x"] * 2049)
    check(status == 400 and "2048" in got["error"]["message"], "too many texts", got)
    status, got = s.post("/v1/rerank", query="x", documents=["a", "b"])
    check(status == 400 and "classifier" in got["error"]["message"], "a model that does not rank", got)


def together():
    """Vectors that many ask for at once are made together, and are those that each gets alone; usage counts each one's own tokens."""
    s = Server(PLAIN, "--parallel", "4")
    asks = [dict(input=["Once upon a time", "the end"] * (i % 3 + 1) + ["word " * i]) for i in range(1, 16)] + [dict(input="park", dimensions=8), dict(input=[[1, 403, 407]]), dict(input=[[1], [403, 5]])]
    alone = [s.post("/v1/embeddings", **ask) for ask in asks]
    bad = dict(input=["fine", "word " * 3000])
    refused = s.post("/v1/embeddings", **bad)
    check(refused[0] == 400 and "text 1" in refused[1]["error"]["message"] and all(status == 200 for status, _ in alone), "one that is too long", refused)
    counts = [sum(s.post("/tokenize", content=t, add_special=True)[1]["count"] if isinstance(t, str) else len(t) for t in (ask["input"] if isinstance(ask["input"], list) else [ask["input"]])) for ask in asks]
    check(counts == [r["usage"]["prompt_tokens"] for _, r in alone], "tokens of each", (counts, alone))
    got = {}

    def post(i, ask):
        got[i] = s.post("/v1/embeddings", **ask)
    for _ in range(3):
        threads = [threading.Thread(target=post, args=(i, ask)) for i, ask in enumerate(asks + [bad])]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        check([got.get(i) for i in range(len(asks))] == alone and got.get(len(asks)) == refused, "the same vectors as alone, and errors of the request that has them",
              [i for i in range(len(asks)) if got.get(i) != alone[i]] or got.get(len(asks)))
    check(s.stop() == 0, "the server ends", s.log)


def infill(folder):
    """What stands between a prompt and its suffix, by a vocabulary that has marks for it: the tokens that `infer run --fim` has."""
    path, behind, marks = os.path.join(folder, "fim.gguf"), os.path.join(folder, "behind"), (500, 501, 502)
    g = gguf_file.Gguf(PLAIN)
    tensors = [(name, dims, kind, g.data[g.start + at:g.start + at + 4 * math.prod(dims)]) for name, (dims, kind, at) in g.tensors.items()]
    gguf_file.write(path, {"tokenizer.ggml.fim_%s_token_id" % name: i for name, i in zip(("pre", "suf", "mid"), marks)}, tensors, g.raw.values())
    with open(behind, "w") as f:
        f.write(" in the park.")
    run = subprocess.run([INFER, "run", path, "-p", "Once upon a time", "--fim", behind, "-n", "12", "--temp", "0", "--ignore-end", "--json", "--backend", "cpu"], capture_output=True, text=True)
    want = json.loads(run.stdout)
    s = Server(path)
    ask = dict(prompt="Once upon a time", suffix=" in the park.", max_tokens=12, temperature=0, ignore_eos=True)
    status, r = s.post("/v1/completions", **ask)
    check(status == 200 and r["choices"][0]["text"] == want["text"] and r["usage"]["prompt_tokens"] == len(want["prompt_tokens"]) and set(marks) <= set(want["prompt_tokens"]), "suffix", (r, want))
    other = s.post("/v1/completions", **dict(ask, suffix=" and then it rained."))[1]
    check(other["usage"]["prompt_tokens"] != r["usage"]["prompt_tokens"], "another suffix", other)
    _, _, raw = s.send("POST", "/v1/completions", dict(ask, stream=True))
    check("".join(d["choices"][0]["text"] for _, d in events(raw) if isinstance(d, dict)) == want["text"], "suffix in a stream", raw)
    status, r = s.post("/v1/completions", **dict(ask, prompt=["Once", "Once upon a time"]))
    check(status == 200 and [c["index"] for c in r["choices"]] == [0, 1] and r["choices"][1]["text"] == want["text"], "several prompts", r)
    for what, body, said in (("echo", {"echo": True}, "echo"), ("tokens", {"prompt": [1, 403]}, "text")):
        status, r = s.post("/v1/completions", **dict(ask, **body))
        check(status == 400 and said in r["error"]["message"], "suffix and %s" % what, r)
    check(s.stop() == 0, "the server ends", s.log)


def ranks(folder):
    """A classifier: the story's model with a matrix of one label."""
    g = gguf_file.Gguf(PLAIN)
    tensors = [(name, dims, kind, g.data[g.start + at:g.start + at + 4 * math.prod(dims)]) for name, (dims, kind, at) in g.tensors.items()]
    tensors.append(("cls.output.weight", [64, 1], gguf_file.TENSOR_F32, struct.pack("<64f", *[(-1) ** i / 8 for i in range(64)])))
    path = os.path.join(folder, "ranks.gguf")
    gguf_file.write(path, {"llama.pooling_type": 4}, tensors, g.raw.values())
    s = Server(path)
    status, got = s.post("/v1/rerank", query="Once", documents=[" upon", {"text": " the"}, " a"], top_n=2, return_documents=True)
    scores = [r["relevance_score"] for r in got.get("results", [])]
    check(status == 200 and len(scores) == 2 and scores[0] >= scores[1] and got["results"][0]["document"]["text"] == [" upon", " the", " a"][got["results"][0]["index"]], "ranks", got)
    alone = [s.post("/v1/rerank", query="Once", documents=[d])[1]["results"][0]["relevance_score"] for d in (" upon", " the", " a")]
    check(scores == sorted(alone, reverse=True)[:2], "scores as alone", (scores, alone))
    one, two = (s.post("/v1/rerank", query="Once", documents=d)[1]["usage"]["prompt_tokens"] for d in ([" upon"], [" upon", " upon"]))
    check(two == 2 * one > 2, "tokens of pairs", (one, two))
    check(s.stop() == 0, "the server ends")


# ---- Anthropic -------------------------------------------------------------------------------------------------------

def messages(anthropic, a, s):
    r = a.messages.create(model="model", max_tokens=12, messages=ONCE, extra_body={"temperature": 0})
    check(r.content[0].text.startswith(STORY[:20]) and r.stop_reason == "max_tokens" and r.usage.output_tokens == 12 and r.usage.input_tokens == 5, "a message", r)
    story = r.content[0].text
    r = a.messages.create(model="model", max_tokens=12, system=[{"type": "text", "text": "Once "}], messages=[{"role": "user", "content": [{"type": "text", "text": "upon a time"}]}], extra_body={"temperature": 0}, stop_sequences=["little"])
    check(r.stop_reason == "stop_sequence" and r.stop_sequence == "little" and story.startswith(r.content[0].text), "a stop sequence", r)
    with a.messages.stream(model="model", max_tokens=12, messages=ONCE, extra_body={"temperature": 0}) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    check(text == story and final.stop_reason == "max_tokens" and final.usage.output_tokens == 12 and final.usage.input_tokens == 5, "a stream", final)
    fn = [{"name": "add", "description": "adds", "input_schema": ADD["function"]["parameters"]}]
    _, _, raw = s.send("POST", "/v1/messages", dict(model="model", max_tokens=12, messages=ONCE, temperature=0, stream=True))
    order = [name for i, (name, data) in enumerate(events(raw)) if i == 0 or name != events(raw)[i - 1][0]]
    check(order == ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"] and all(n == d["type"] for n, d in events(raw)), "the order of events", order)
    r = a.messages.create(model="model", max_tokens=300, messages=ONCE, tools=fn, tool_choice={"type": "tool", "name": "add"}, extra_body={"temperature": 0.3})
    check(r.stop_reason == "tool_use" and r.content[0].type == "tool_use" and r.content[0].name == "add" and set(r.content[0].input) == {"a", "b"}, "a call that is forced", r)
    with a.messages.stream(model="model", max_tokens=300, messages=ONCE, tools=fn, tool_choice={"type": "any"}, extra_body={"temperature": 0.3}) as stream:
        kinds = [e.type for e in stream]
        final = stream.get_final_message()
    check(final.content[0].type == "tool_use" and set(final.content[0].input) == {"a", "b"} and final.stop_reason == "tool_use" and "input_json" in kinds, "a call in a stream", kinds)
    back = ONCE + [{"role": "assistant", "content": [c.model_dump() for c in r.content]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": r.content[0].id, "content": "3"}, {"type": "text", "text": "so"}]}]
    n = a.messages.count_tokens(model="model", messages=back, tools=fn).input_tokens
    r = a.messages.create(model="model", max_tokens=5, messages=back, tools=fn, extra_body={"temperature": 0})
    check(r.usage.input_tokens == n > 20, "the result of a call, and its tokens", (r, n))
    check(a.messages.count_tokens(model="model", messages=ONCE).input_tokens == 5, "tokens are counted")
    r = a.messages.create(model="model", max_tokens=60, messages=ONCE, output_config={"format": {"type": "json_schema", "schema": {"enum": ["yes", "no"]}}})
    check(r.content[0].text in ('"yes"', '"no"'), "a schema", r)
    r = a.messages.create(model="model", max_tokens=1050, messages=ONCE, thinking={"type": "enabled", "budget_tokens": 1024}, extra_body={"temperature": 1})
    check(r.content[0].type == "thinking", "thinking", r)
    with a.messages.stream(model="model", max_tokens=30, messages=ONCE, thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
        kinds = {e.type for e in stream}
    check("thinking" in kinds, "thinking in a stream", kinds)
    for what, body in (("an image", {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]}]}), ("unknown parameters", {"extra_body": {"nonsense": 1}}),
                       ("tools of the server", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}), ("a context that is full", {"messages": [{"role": "user", "content": "word " * 3000}]})):
        try:
            a.messages.create(**dict(dict(model="model", max_tokens=5, messages=ONCE), **body))
            check(False, "%s is refused" % what)
        except anthropic.BadRequestError as e:
            check(e.body["type"] == "error" and e.body["error"]["type"] == "invalid_request_error" and e.body["error"]["message"], "%s is refused" % what, e)
    try:
        a.messages.create(model="other", max_tokens=5, messages=ONCE)
        check(False, "another model")
    except anthropic.NotFoundError as e:
        check(e.body["error"]["type"] == "not_found_error", "another model", e)


# ---- texts and figures -----------------------------------------------------------------------------------------------

def texts(s):
    status, r = s.post("/tokenize", content="Once upon a time")
    check(status == 200 and len(r["tokens"]) == r["count"] == 4, "tokens", r)
    check(s.post("/detokenize", tokens=r["tokens"])[1]["content"].strip() == "Once upon a time", "and back")
    status, r = s.post("/tokenize", content="\u00e9\u4e2d", with_pieces=True, add_special=True)
    check(status == 200 and all(isinstance(t["id"], int) and isinstance(t["piece"], (str, list)) for t in r["tokens"]), "pieces", r)
    check(s.post("/detokenize", tokens=[10 ** 9])[0] == 400 and s.post("/tokenize")[0] == 400, "what is no token")
    check(s.post("/apply-template", messages=ONCE)[1]["prompt"].endswith("Once upon a time"), "the template")
    check(s.post("/apply-template", messages=ONCE, tools=[ADD])[1]["prompt"] == "<s>add <tool_call>Once upon a time", "the template with tools", s.post("/apply-template", messages=ONCE, tools=[ADD]))
    status, r = s.get("/v1/models")
    check([m["id"] for m in r["data"]][:1] == ["model"] and s.get("/v1/models/model")[1]["id"] == "model" and s.get("/v1/models/other")[0] == 404, "models", r)
    status, r = s.get("/props")
    check(r["context"] == 2048 and r["chat"] and r["model"] == "model" and r["format"].startswith("hermes"), "what a page needs to know", r)
    check(s.get("/slots") == (200, []) and s.get("/health") == (200, {"status": "ok"}), "slots and health")
    status, headers, text = s.send("GET", "/metrics")
    count = s.metric("first_token_seconds_count")
    check(status == 200 and headers["Content-Type"].startswith("text/plain") and s.metric("new_tokens_total") > 100 and s.metric("prompt_tokens_cached_total") > 10, "figures", text)
    check(count > 20 and 'infer_first_token_seconds_bucket{le="+Inf"} %d\n' % count in text and s.metric("queue_running") == 0, "times", text)
    for line in text.splitlines():
        check(line.startswith("# ") or len(line.rsplit(" ", 1)) == 2 and float(line.rsplit(" ", 1)[1]) >= 0, "a line of figures", line)
    status, headers, text = s.send("GET", "/")
    check(status == 200 and text.startswith("<!") and "script-src" in headers["Content-Security-Policy"] and "unsafe-inline" not in headers["Content-Security-Policy"].split("style-src")[0], "the page", headers)


def defaults():
    """What the command line sets is what requests without it get; a file without a template chats by ChatML if it is told to."""
    s = Server(PLAIN, "--chatml", "--top-k", "1", "--lookup")
    ask = dict(prompt="Once upon a time", max_tokens=12)
    texts = {s.post("/v1/completions", seed=i, **ask)[1]["choices"][0]["text"] for i in range(3)}
    check(len(texts) == 1 and texts.pop().startswith(STORY[:20]), "sampling options of the server", texts)
    texts = {s.post("/v1/completions", seed=i, top_k=40, temperature=1.5, **ask)[1]["choices"][0]["text"] for i in range(3)}
    check(len(texts) > 1, "a request's own come first", texts)
    figures = dict(temperature=0.5, top_p=0.9, frequency_penalty=0.1, presence_penalty=0.1, top_k=5, min_p=0.1, typical_p=0.9, top_n_sigma=1, xtc_probability=0.1, xtc_threshold=0.2, dynatemp_range=0.1,
                   dynatemp_exponent=1, repeat_penalty=1.1, repetition_penalty=1.1, repeat_last_n=32, dry_multiplier=0.5, dry_base=1.5, dry_allowed_length=2, dry_penalty_last_n=-1)
    for name, value in figures.items():
        check(s.post("/v1/completions", **dict(ask, **{name: value}))[0] == 200 and s.post("/v1/completions", **dict(ask, **{name: "x"}))[0] == 400, name)
    status, r = s.post("/apply-template", messages=ONCE)
    check(status == 200 and r["prompt"].startswith("<|im_start|>user\nOnce upon a time<|im_end|>"), "ChatML", r)
    check(s.stop() == 0, "the server ends", s.log)
    s = Server(PLAIN)
    status, r = s.post("/v1/chat/completions", messages=ONCE)
    check(status == 400 and r["error"]["code"] == "no_chat_template" and "--chatml" in r["error"]["message"], "no template", r)
    check(s.stop() == 0, "the server ends", s.log)


def agent(s):
    """LangChain's agent with two tools, which a model that is told what to say calls one after the other."""
    try:
        from langchain.agents import create_agent
        from langchain_openai import ChatOpenAI
        import httpx
    except ImportError as e:
        skip("LangChain", str(e))
        return
    said = [call("add", {"a": 2, "b": 3}), call("times", {"a": 5, "b": 4}), "The result is 20."]
    used = []

    def add(a: int, b: int) -> int:
        """Adds."""
        used.append(("add", a, b))
        return a + b

    def times(a: int, b: int) -> int:
        """Multiplies."""
        used.append(("times", a, b))
        return a * b

    class Told(httpx.Client):
        def send(self, request, **rest):
            body = json.loads(request.content)
            body["grammar"] = gbnf(said.pop(0))
            request = httpx.Request(request.method, request.url, headers={k: v for k, v in request.headers.items() if k.lower() != "content-length"}, content=json.dumps(body))
            return super().send(request, **rest)
    llm = ChatOpenAI(model="model", base_url=s.url + "/v1", api_key="none", http_client=Told(), max_tokens=200)
    end_of = create_agent(llm, [add, times]).invoke({"messages": [{"role": "user", "content": "(2 + 3) * 4?"}]})
    check(used == [("add", 2, 3), ("times", 5, 4)] and end_of["messages"][-1].content == "The result is 20.", "an agent", (used, end_of))


def main():
    need_server()
    with tempfile.TemporaryDirectory() as folder:
        s = Server(model(folder))
        try:
            import openai
            o = openai.OpenAI(base_url=s.url + "/v1", api_key="none", max_retries=0)
            chat(o, s)
            logprobs(o)
            forms(o)
            tools(o)
            refusals(openai, o, s)
            completions(openai, o)
            responses(openai, o, s)
            vectors(o, s)
        except ImportError as e:
            skip("OpenAI's client", str(e))
        try:
            import anthropic
            messages(anthropic, anthropic.Anthropic(base_url=s.url, api_key="none", max_retries=0), s)
        except ImportError as e:
            skip("Anthropic's client", str(e))
        texts(s)
        agent(s)
        check(s.stop() == 0, "the server ends", s.log)
        ranks(folder)
        together()
        infill(folder)
        defaults()
    end()


main()
