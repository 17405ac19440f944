#!/usr/bin/env python3
"""make_chat_replies.py TEMPLATES OUT: what replies look like in the formats that chat templates teach.

Renders a conversation with an assistant's message (content, reasoning, tool calls; our own texts) by every template in
the folder TEMPLATES, with Jinja2 set up as Hugging Face's transformers does, and writes the assistant's part, as a model
would stream it, to OUT: the tools as {"tools": [...]}, then one JSON object a line with
  template, case   which template, which message
  format           how replies are written, as infer_chat_parser_format names it
  prompt           the end of the prompt: the words behind which the reply begins
  reply            what the model writes
  content, reasoning, calls   what the message said, as far as the template wrote it
test_chat.c reads it. Needs python3-jinja2.
"""
import datetime, json, os, re, sys
import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import SandboxedEnvironment

# The format that each template teaches, written down by hand.
FORMATS = {
    "Apriel-1.6-15b-Thinker-fixed": "tool_calls/steps+thinking", "Bielik-11B-v3.0-Instruct": "hermes/think",
    "GLM-4.7-Flash": "arg_key/think", "GigaChat3-10B-A1.8B": "role", "GigaChat3.1-10B-A1.8B": "function_call",
    "HuggingFaceTB-SmolLM3-3B": "plain/think", "Kimi-K2-Thinking": "numbered/think", "LFM2.5-8B-A1B": "python/think",
    "LFM2.5-Instruct": "python", "MiMo-VL": "hermes", "MiniMax-M3": "elements/minimax",
    "Mistral-Small-3.2-24B-Instruct-2506": "brackets", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "function/think",
    "NVIDIA-Nemotron-Nano-v2": "TOOLCALL/think", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes", "Qwen-QwQ-32B": "hermes/think",
    "Qwen-Qwen2.5-7B-Instruct": "hermes", "Qwen-Qwen3-0.6B": "hermes/think", "Qwen3.5-4B": "function/think",
    "Spark2.5": "arg_key/think", "StepFun3.5-Flash": "function/think",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "fenced/think", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "fenced/think",
    "deepseek-ai-DeepSeek-V3.1": "sep/think", "deepseek-ai-DeepSeek-V4": "dsml/think",
    "fireworks-ai-llama-3-firefunction-v2": "functools", "google-gemma-2-2b-it": "plain",
    "google-gemma-4-31B-it-interleaved": "braces/channel", "ibm-granite-granite-3.3-2B-Instruct": "list/think",
    "ibm-granite-granite-4.0": "hermes", "ibm-granite-granite-4.1": "hermes", "llama-cpp-deepseek-r1": "fenced/think",
    "meta-llama-Llama-3.1-8B-Instruct": "bare", "meta-llama-Llama-3.2-3B-Instruct": "bare",
    "meta-llama-Llama-3.3-70B-Instruct": "bare", "microsoft-Phi-3.5-mini-instruct": "plain",
    "mistralai-Ministral-3-14B-Reasoning-2512": "brackets/brackets", "mistralai-Mistral-Nemo-Instruct-2407": "brackets",
    "moonshotai-Kimi-K2": "numbered", "openai-gpt-oss-120b": "harmony", "openbmb-MiniCPM5-1B": "param/think",
    "poolside-Laguna-S-2.1": "arg_key/think", "poolside-Laguna-XS-2.1": "arg_key/think",
    "poolside-Laguna-XS.2": "arg_key/think", "tencent-Hy3": "hy/hy", "unsloth-Apriel-1.5": "tool_calls/steps+thinking",
    "upstage-Solar-Open-100B": "turn/turn"}

USER = "Question of the user"
CONTENT = 'I will look. Is 1 < 2 & "so" {on}?\nSecond line.'
REASONING = "First: 1 < 2.\n\nThen: ask [the] tool."
CALLS = [
    ("get_weather", {"city": "Z\u00fcrich \"Nord\"", "code": "007", "days": 3, "opts": {"units": ["c", "f"], "x": True}}),
    ("add", {"a": 1.5, "b": -2, "note": "line one\nline <two>"}),
]
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Where"}, "days": {"type": "integer", "description": "How many"},
            "opts": {"type": "object", "description": "More"}, "code": {"type": "string", "description": "Code"}}}}},
    {"type": "function", "function": {"name": "add", "description": "Sum", "parameters": {
        "type": "object", "properties": {
            "a": {"type": "number", "description": "x"}, "b": {"type": "number", "description": "y"},
            "note": {"type": "string", "description": "z"}}}}},
]
# What ends a reply: the model's end-of-generation token is not part of it.
ENDS = re.compile(r"\s*(<\|im_end\|>|<EOS>|<\|eot_id\|>|<\|eom_id\|>|<\|end_of_text\|>|<turn\|>|<end_of_turn>|\[e~\[|"
                  r"<\uff5cend\u2581of\u2581sentence\uff5c>|<SPECIAL_12>|<\uff5chy_eos:opensource\uff5c>|"
                  r"<\|call\|>|<\|return\|>|<\|calls\|>|</assistant>|(<\|message_sep\|>|<\|end\|>)\s*($|<EOS>)).*", re.S)
# What a template writes otherwise than a model would, so that it proves nothing.
CANNOT = {"NVIDIA-Nemotron-Nano-v2": "the content of the last message is written into an open <think>"}
CASES = [("all", True, True, 2), ("think", True, True, 0), ("call", False, False, 1), ("content", True, False, 0),
         ("think_call", False, True, 1), ("two", False, False, 2), ("content_call", True, False, 1)]


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return jinja2.nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True), lineno=line)


def environment():
    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                               extensions=["jinja2.ext.loopcontrols", Generation])

    def raise_exception(message):
        raise jinja2.TemplateError(message)
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime(2024, 7, 26).strftime(f)
    return env


def render(template, messages, prompt):
    return template.render(messages=messages, tools=None if template.name == "llama-cpp-deepseek-r1.jinja" else TOOLS, bos_token="<BOS>", eos_token="<EOS>",
                           add_generation_prompt=prompt, enable_thinking=True, preserve_thinking=True,
                           functions=json.dumps(TOOLS), datetime="2024-07-26")


def case(template, content, reasoning, calls):
    message = {"role": "assistant", "content": CONTENT if content else ""}
    if reasoning:
        for name in ("reasoning_content", "reasoning", "thinking"):
            message[name] = REASONING
    if calls:
        message["tool_calls"] = [
            {"id": "abcdefgh%d" % (i + 1), "type": "function", "function": {"name": n, "arguments": json.loads(json.dumps(a))}}
            for i, (n, a) in enumerate(CALLS[:calls])]
    user = {"role": "user", "content": USER}
    whole, prompt = render(template, [user, message], False), render(template, [user], True)
    opened = prompt
    if not whole.startswith(prompt):  # the prompt opens or closes a reasoning that the message does not have
        prompt = re.sub(r"(</?think[^>]*>|<\|channel>thought|<channel\|>|Here are my reasoning steps:)"
                        r"(</?think[^>]*>|<channel\|>|\s)*$", "", prompt)
    if "[BEGIN FINAL RESPONSE]" in whole[len(prompt):]:  # the line that opens this reasoning is in prompts only
        whole, prompt = opened + whole[len(prompt):].lstrip(), opened
    if not whole.startswith(prompt):
        raise jinja2.TemplateError("the prompt is no beginning of the conversation")
    reply = ENDS.sub("", whole[len(prompt):])
    if "analysis<|message|>" + CONTENT in reply:  # beside a call it is what the model thought
        content, reasoning, message["reasoning"] = False, True, CONTENT
    said = [{"name": n, "arguments": a} for n, a in CALLS[:calls] if n in reply]
    return {"prompt": prompt[-40:], "reply": reply, "content": CONTENT if content and CONTENT[:12] in reply else "",
            "reasoning": message["reasoning"] if reasoning and message["reasoning"][:12] in reply else "", "calls": said}


def main(folder, out):
    seen = set()
    with open(out, "w", encoding="utf-8") as f:
        f.write(json.dumps({"tools": TOOLS}) + "\n")
        for name in sorted(os.listdir(folder)):
            if name.removesuffix(".jinja") in CANNOT:
                print("%s: left out: %s" % (name, CANNOT[name.removesuffix(".jinja")]), file=sys.stderr)
                continue
            template = environment().from_string(open(os.path.join(folder, name), encoding="utf-8").read())
            template.name = name
            form = FORMATS[name.removesuffix(".jinja")]
            for label, *what in CASES:
                try:
                    row = case(template, *what)
                except Exception as e:  # the template refuses this message
                    print("%s, %s: %s" % (name, label, e), file=sys.stderr)
                    continue
                if (form, row["reply"], "think" in row["prompt"]) in seen or not row["reply"]:
                    continue
                seen.add((form, row["reply"], "think" in row["prompt"]))
                f.write(json.dumps(dict(template=name, case=label, format=form, **row), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
