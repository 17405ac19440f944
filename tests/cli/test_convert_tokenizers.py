#!/usr/bin/env python3
"""Tests of the tokenizers in `infer convert`: python3 tests/cli/test_convert_tokenizers.py build/infer [WORD...]

Vocabularies are made here, by the standard library alone. With INFER_TEST_DATA the folders that transformers saved and real
vocabularies are converted, too: keys as llama.cpp's converter wrote them. With the packages tokenizers and sentencepiece the ids
of 1,000 texts are compared with theirs. The same harness as test_cli.py.
"""
import base64
import json
import os
import random
import re
import shutil
import struct
import sys
import types
import unicodedata

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import gguf_file
import test_cli as cli
import test_convert
from test_cli import check, infer, read, temp, write
try:
    import pre_splits
except ImportError: # without the package regex: its table is enough
    sys.modules['regex'] = types.ModuleType('regex')
    import pre_splits

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
MARK = '\u2581'
BYTE_LEVEL = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True}
BYTES_ONLY = dict(BYTE_LEVEL, use_regex=False)
PREFIX = 'tokenizer.ggml.'


# ---- folders ---------------------------------------------------------------------------------------------------------

def tiny_model(rows):
    """Tensors and configuration of a Llama with this many rows of embeddings, all zero."""
    n, ff = 8, 8
    shapes = {'model.embed_tokens.weight': (rows, n), 'model.norm.weight': (n,)}
    for part, shape in (('input_layernorm', (n,)), ('post_attention_layernorm', (n,)), ('self_attn.q_proj', (n, n)), ('self_attn.k_proj', (n, n)),
                        ('self_attn.v_proj', (n, n)), ('self_attn.o_proj', (n, n)), ('mlp.gate_proj', (ff, n)), ('mlp.up_proj', (ff, n)),
                        ('mlp.down_proj', (n, ff))):
        shapes['model.layers.0.%s.weight' % part] = shape
    tensors = {name: ('BF16', s, bytes(2 * s[0] * (s[1] if len(s) > 1 else 1))) for name, s in shapes.items()}
    return tensors, {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': n, 'intermediate_size': ff, 'num_attention_heads': 1,
                     'num_key_value_heads': 1, 'head_dim': 8, 'num_hidden_layers': 1, 'vocab_size': rows, 'max_position_embeddings': 64,
                     'rms_norm_eps': 1e-5, 'rope_theta': 10000.0, 'tie_word_embeddings': True, 'hidden_act': 'silu'}


def folder(name, rows, files, **config):
    """A model with these files: name -> bytes, text, or what becomes JSON."""
    path = temp(name)
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    tensors, own = tiny_model(rows)
    write(name + '/model.safetensors', test_convert.safetensors(tensors))
    write(name + '/config.json', json.dumps(dict(own, **config)))
    for file, content in files.items():
        os.makedirs(os.path.dirname(temp(name + '/' + file)), exist_ok=True)
        write(name + '/' + file, content if isinstance(content, (bytes, str)) else json.dumps(content, ensure_ascii=False))
    return path


def convert(path):
    """The keys, without tokenizer.ggml. where they begin with it, and the program's warnings. The file is temp('made.gguf')."""
    out = temp('made.gguf')
    if os.path.exists(out):
        os.remove(out)
    done = infer('convert', path, out)
    meta = gguf_file.Gguf(out).meta
    return {k[len(PREFIX):] if k.startswith(PREFIX) else k: v for k, v in meta.items() if k.startswith('tokenizer.')}, done.err


def refused(path, *words):
    """Conversion fails with one line that has the words, and leaves no file."""
    out = temp('never.gguf')
    err = infer('convert', path, out, status=1).err
    check(all(w in err for w in words), '%s: %s is not in: %s' % (os.path.basename(path), words, err.strip()))
    check(not os.path.exists(out), 'a file was left')


def same(got, want, what):
    check(got == want, '%s is %r, not %r' % (what, got, want))


def ids_of(texts, *options):
    path = write('texts.bin', b'\x1e'.join(t.encode('utf-8') for t in texts))
    out = infer('tokens', temp('made.gguf'), '--texts', path, *options).out.decode()
    return [[int(i) for i in line.split()] for line in out.split('\n')[:-1]]


# ---- BPE over bytes ---------------------------------------------------------------------------------------------------

def letters():
    """GPT-2's characters of the 256 bytes."""
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    names = {b: chr(b) for b in shown}
    names.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in shown)})
    return [names[b] for b in range(256)]


def added(i, text, special=True, normalized=False):
    return {'id': i, 'content': text, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': normalized, 'special': special}


def bpe(pre=BYTE_LEVEL, ignore=False, **more):
    vocab = {c: i for i, c in enumerate(letters())}
    vocab.update({'th': 256, 'the': 257, '\u0120the': 258})
    j = {'version': '1.0', 'added_tokens': [added(259, '<s>'), added(260, '</s>'), added(261, 'tool' + MARK, False), added(262, '<|x|>', False)],
         'normalizer': None, 'pre_tokenizer': pre, 'post_processor': None, 'decoder': BYTE_LEVEL,
         'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': '', 'end_of_word_suffix': '', 'fuse_unk': False,
                   'byte_fallback': False, 'ignore_merges': ignore, 'vocab': vocab, 'merges': ['t h', ['th', 'e'], '\u0120 the']}}
    j.update(more)
    return j


def test_bytes():
    """Tokens, kinds, merges in both spellings, padding; ids of texts."""
    path = folder('bytes', 266, {'tokenizer.json': bpe(), 'tokenizer_config.json': {'bos_token': '<s>', 'eos_token': {'content': '</s>'}, 'add_bos_token': True}})
    keys, err = convert(path)
    same(err, '', 'stderr')
    same(keys, {'model': 'gpt2', 'pre': 'gpt-2', 'merges': ['t h', 'th e', '\u0120 the'],
                'tokens': letters() + ['th', 'the', '\u0120the', '<s>', '</s>', 'tool ', '<|x|>', '[PAD263]', '[PAD264]', '[PAD265]'],
                'token_type': [NORMAL] * 259 + [CONTROL, CONTROL, USER, CONTROL] + [UNUSED] * 3, 'bos_token_id': 259, 'eos_token_id': 260,
                'add_bos_token': True}, 'keys')
    same(ids_of(['the the', 'tool the']), [[257, 258], [261, 257]], 'ids')
    keys, _ = convert(folder('bytes-odd', 263, {'tokenizer.json': bpe(added_tokens=[added(259, '\u0120\u0120'), added(260, '\u0120', True, True), added(261, '\u00e9'), added(262, '<unused9>', False)])}))
    same(keys['tokens'][259:], ['  ', '\u0120', '\u00e9', '<unused9>'], 'added tokens in bytes')
    same(keys['token_type'][259:], [CONTROL] * 4, 'their kinds')
    spaced = bpe()
    spaced['model']['vocab'].update({'a b': 263})
    spaced['model']['merges'] = [['a', ' b'], ['t', 'h']]
    same(convert(folder('bytes-space', 264, {'tokenizer.json': spaced}))[0]['merges'], ['a \u0120b', 't h'], 'merges with spaces')


def test_specials():
    """Names, ids of config.json, lists of ids that end a reply; what post-processors add."""
    def keys_of(files, **config):
        return convert(folder('specials', 263, files, **config))[0]
    tok = {'tokenizer.json': bpe()}
    keys = keys_of(dict(tok, **{'tokenizer_config.json': {'bos_token': '</s>'}}), bos_token_id=259, eos_token_id=260, pad_token_id=262)
    same([keys.get(k) for k in ('bos_token_id', 'eos_token_id', 'padding_token_id', 'unknown_token_id')], [260, 260, 262, None], 'ids')
    keys = keys_of(dict(tok, **{'special_tokens_map.json': {'unk_token': {'content': '<|x|>'}}, 'tokenizer_config.json': {'mask_token': 'the'}}))
    same([keys.get(k) for k in ('unknown_token_id', 'mask_token_id')], [262, 257], 'names')
    same(keys['token_type'][257], CONTROL, 'a named token')
    keys = keys_of(dict(tok, **{'generation_config.json': {'eos_token_id': [260, 262, 257, 258]}}))
    same([keys.get(k) for k in ('eos_token_id', 'eot_token_id', 'eom_token_id')], [260, 262, 257], 'a list')
    keys = keys_of(tok, eos_token_id=[259, 260]) # </s> ends replies in every program
    same([keys.get(k) for k in ('eos_token_id', 'eot_token_id', 'eom_token_id')], [259, None, None], 'a list of known texts')
    err = convert(folder('specials', 263, tok, eos_token_id=999))[1]
    check(err.startswith('warning: ') and '999' in err, err)

    def post(rule, **settings):
        return keys_of({'tokenizer.json': bpe(post_processor=rule), 'tokenizer_config.json': settings})
    first, last, a, b = [{'SpecialToken': {'id': s, 'type_id': 0}} for s in ('<s>', '</s>')] + [{'Sequence': {'id': s, 'type_id': 0}} for s in 'AB']
    adds = ('bos_token_id', 'eos_token_id', 'add_bos_token', 'add_eos_token', 'add_sep_token')
    for rule, settings, want in (
            ({'type': 'ByteLevel'}, {}, [None, None, False, False, None]),
            ({'type': 'ByteLevel'}, {'add_bos_token': True}, [None, None, False, False, None]),
            ({'type': 'TemplateProcessing', 'single': [first, a], 'pair': [first, a, first, b]}, {'eos_token': '</s>'}, [259, 260, True, None, None]),
            ({'type': 'TemplateProcessing', 'single': [first, a], 'pair': [first, a, b]}, {}, [259, None, True, None, None]),
            ({'type': 'Sequence', 'processors': [{'type': 'ByteLevel'}, {'type': 'TemplateProcessing', 'single': [first, a, last], 'pair': [first, a, last, b, last]}]},
             {'cls_token': '<s>', 'sep_token': '</s>'}, [259, 260, True, True, False]),
            ({'type': 'TemplateProcessing', 'single': [first, a, last], 'pair': [first, a, last, last, b, last]}, {'cls_token': '<s>', 'sep_token': '</s>'}, [259, 260, True, True, True]),
            ({'type': 'RobertaProcessing', 'sep': ['</s>', 260], 'cls': ['<s>', 259]}, {'bos_token': '<s>', 'eos_token': '</s>'}, [259, 260, True, True, True])):
        keys = post(rule, **settings)
        if 'pair' in rule and len(rule['pair']) == 4 and want[4] is None:
            want = want[:4] + [False]
        same([keys.get(k) for k in adds], want, '%s %s' % (rule, settings))


def test_chat():
    """Templates as a text, by name, as files."""
    tok = bpe()
    def keys_of(settings, **files):
        made = {'tokenizer.json': tok, 'tokenizer_config.json': settings}
        made.update({k.replace('__', '/').replace('_DOT_', '.'): v for k, v in files.items()})
        return {k[10:]: v for k, v in convert(folder('chat', 263, made))[0].items() if k.startswith('tokenizer.')}
    same(keys_of({'chat_template': '{{ 1 }}\u00e9'}), {'chat_template': '{{ 1 }}\u00e9'}, 'a text')
    listed = [{'name': 'default', 'template': 'D'}, {'name': 'tool_use', 'template': 'T'}, {'name': 'r a-g', 'template': 'R'}]
    want = {'chat_template': 'D', 'chat_template.tool_use': 'T', 'chat_template.r_a_g': 'R', 'chat_templates': ['r_a_g', 'tool_use']}
    same(keys_of({'chat_template': listed}), want, 'a list')
    same(keys_of({}, chat_template_DOT_jinja='D', additional_chat_templates__tool_use_DOT_jinja='T'),
         {'chat_template': 'D', 'chat_template.tool_use': 'T', 'chat_templates': ['tool_use']}, 'files')
    same(keys_of({}, chat_template_DOT_json={'chat_template': 'J'}), {'chat_template': 'J'}, 'chat_template.json')
    same(keys_of({'chat_template': "{% include 'chat_template.jinja' %}"}, chat_template_DOT_jinja='D'), {'chat_template': 'D'}, 'an include')
    refused(folder('chat', 263, {'tokenizer.json': tok, 'tokenizer_config.json': {'chat_template': [{'name': 'n%d' % i, 'template': 'x'} for i in range(99)]}}), 'too many')


def test_text_files():
    """vocab.json with merges.txt and added_tokens.json."""
    vocab = bpe()['model']['vocab']
    files = {'vocab.json': vocab, 'merges.txt': '#version: 0.2\nt h\nth e\n\n\u0120 the\n', 'added_tokens.json': {'<|y|>': 259, 'tool': 260},
             'tokenizer_config.json': {'tokenizer_class': 'Qwen2Tokenizer', 'eos_token': '<|y|>', 'added_tokens_decoder': {'261': added(261, '<z>')}}}
    keys, _ = convert(folder('slow', 262, files))
    same([keys[k] for k in ('model', 'pre', 'merges', 'eos_token_id')], ['gpt2', 'qwen2', ['t h', 'th e', '\u0120 the'], 259], 'keys')
    same((keys['tokens'][259:], keys['token_type'][259:]), (['<|y|>', 'tool', '<z>'], [CONTROL, USER, CONTROL]), 'added tokens')
    refused(folder('slow', 262, dict(files, **{'tokenizer_config.json': {}})), '--pre')
    refused(folder('slow', 262, dict(files, **{'merges.txt': 'a\n'})), 'merges.txt')
    del files['merges.txt']
    refused(folder('slow', 262, files), 'merges.txt')
    refused(folder('none', 262, {'tekken.json': {}}), 'no tokenizer', 'tekken.json')


# ---- the pre-tokenizer -----------------------------------------------------------------------------------------------

def split(regex, behavior='Isolated', invert=False):
    return {'type': 'Split', 'pattern': {'Regex': regex}, 'behavior': behavior, 'invert': invert}


def sequence(*rules):
    return {'type': 'Sequence', 'pretokenizers': list(rules)}


def rules_of(name):
    """tokenizer.json's rules of a row in pre_splits.ROWS, with Digits, Punctuation and ByteLevel where files have them."""
    out, regex_in_bytes = [], False
    for regex in pre_splits.ROWS[name]:
        if regex == pre_splits.GPT2:
            out.append(BYTE_LEVEL)
            regex_in_bytes = True
        elif regex in (r'\p{N}', r'\p{N}+'):
            out.append({'type': 'Digits', 'individual_digits': regex == r'\p{N}'})
        elif regex.startswith(r'[\p{P}'):
            out.append({'type': 'Punctuation', 'behavior': 'Contiguous' if regex.endswith('+') else 'Isolated'})
        else:
            out.append(split(regex))
    if name == 'falcon':
        out.insert(2, {'type': 'Digits', 'individual_digits': False})
    return sequence(*(out if regex_in_bytes else out + [BYTES_ONLY]))


def library_rows():
    """name -> (the expressions of its row, True when words that are tokens are not merged)"""
    text = read(os.path.join(os.path.dirname(os.path.dirname(HERE)), 'src', 'text', 'token', 'token_pre.c')).decode()
    rows = re.findall(r'INFER__PRE\(\w+, "([^"]+)",\s*([^,]+),', text)
    return {name: (pre_splits.ROWS.get(names.split()[0]), 'IGNORE_MERGES' in flags) for names, flags in rows for name in names.split()}


def test_pre_names():
    """The rules of every row give a name with the same expressions; other spellings of the same rules."""
    rows = library_rows()
    # None of these stands in tokenizer.json: defaults and marked vocabularies; words of ids in another order; the library's own expression
    other = {'default', 'gemma4', 'sarvam-moe', 'whitespace', 'jina-v2-es', 'kimi-k2'}
    check(set(pre_splits.ROWS) <= set(rows), 'rows of the library')
    for name in pre_splits.ROWS:
        if name in other:
            continue
        got = convert(folder('pre', 263, {'tokenizer.json': bpe(rules_of(name), ignore=rows[name][1])}))[0]['pre']
        check(rows[got] == rows[name] and rows[got][0] is not None, '%s became %s' % (name, got))
    kimi = pre_splits.ROWS['kimi-k2'][0]
    for part in (pre_splits.UPPER, pre_splits.LOWER):
        kimi = kimi.replace(r'(?:(?!\p{Han})%s)' % part, part[:-1] + r'&&[^\p{Han}]]')
    llama3, qwen2 = pre_splits.LLAMA3, pre_splits.QWEN2
    deepseek = [split(r) for r in ('[\r\n]', r'\s?\p{L}+', r'\s?\p{P}+', pre_splits.CJK)]
    for rules, ignore, want in (
            (sequence(split(kimi), BYTES_ONLY), False, 'kimi-k2'),
            (sequence(split(llama3, 'Removed', True), BYTES_ONLY), True, 'llama-bpe'),
            (sequence(sequence(split(llama3)), BYTES_ONLY), False, 'dbrx'),
            (sequence(split(llama3.replace(pre_splits.SHORT, "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])")), BYTES_ONLY), False, 'dbrx'),
            (sequence(split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), BYTES_ONLY), False, 'qwen2'),
            (sequence(split(qwen2.replace(r'\r\n', '\r\n')), BYTES_ONLY), False, 'qwen2'),
            (sequence(*deepseek, {'type': 'Digits', 'individual_digits': True}, BYTES_ONLY), False, 'deepseek-coder'),
            (sequence(*[split(r['pattern']['Regex'].encode('unicode_escape').decode().replace('\\\\', '\\')) for r in deepseek],
                      {'type': 'Digits', 'individual_digits': True}, BYTES_ONLY), False, 'deepseek-coder'),
            (sequence(split(' ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+'), BYTES_ONLY), False, 'bloom')):
        same(convert(folder('pre', 263, {'tokenizer.json': bpe(rules, ignore=ignore, normalizer={'type': 'NFC'})}))[0]['pre'], want, json.dumps(rules))
    err = convert(folder('pre', 263, {'tokenizer.json': bpe(BYTE_LEVEL, ignore=True)}))[1]
    check('ignore_merges' in err, err)
    err = convert(folder('pre', 263, {'tokenizer.json': bpe(dict(BYTE_LEVEL, add_prefix_space=True))}))[1]
    check('add_prefix_space' in err, err)


def test_pre_refused():
    """Unknown rules are refused with their text, never replaced."""
    for rules, word in ((sequence(split(r'\w+|[^\w\s]+'), BYTES_ONLY), 'w+|[^'), ({'type': 'Whitespace'}, 'Whitespace'), (None, 'ByteLevel'),
                        (sequence(split(pre_splits.LLAMA3)), 'ByteLevel'), (sequence(split(pre_splits.LLAMA3, 'MergedWithNext'), BYTES_ONLY), 'Isolated'),
                        (sequence(split(r'\p{N}', 'Removed', True), BYTES_ONLY), 'Isolated'), (sequence(*[BYTE_LEVEL] * 9), 'six'),
                        (sequence(split(pre_splits.QWEN2 + '|x'), BYTES_ONLY), '|x')):
        refused(folder('pre', 263, {'tokenizer.json': bpe(rules)}), word, '--pre')
    for rules, word in (({'type': 'NFKC'}, 'NFKC'), ({'type': 'Sequence', 'normalizers': [{'type': 'NFC'}, {'type': 'Replace'}]}, 'Replace')):
        refused(folder('pre', 263, {'tokenizer.json': bpe(normalizer=rules)}), word, '--pre')


# ---- BPE with byte fallback, Unigram, WordPiece -----------------------------------------------------------------------

def fallback(**more):
    vocab = {'<unk>': 0, '<s>': 1, '</s>': 2}
    vocab.update({'<0x%02X>' % b: 3 + b for b in range(256)})
    vocab.update({s: 259 + i for i, s in enumerate([MARK, 'a', 'b', 'ab', MARK + 'a', MARK + 'ab', 'ba'])})
    j = {'added_tokens': [added(i, s) for i, s in enumerate(('<unk>', '<s>', '</s>'))] + [added(266, 'x' + MARK, False), added(267, '<|y|>', False)],
         'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': MARK}, {'type': 'Replace', 'pattern': {'String': ' '}, 'content': MARK}]},
         'pre_tokenizer': None, 'post_processor': None, 'decoder': {'type': 'Sequence', 'decoders': []},
         'model': {'type': 'BPE', 'unk_token': '<unk>', 'fuse_unk': True, 'byte_fallback': True, 'vocab': vocab,
                   'merges': [MARK + ' a', 'a b', MARK + 'a b', MARK + ' ab', 'b a']}}
    j.update(more)
    return j


SETTINGS = {'bos_token': '<s>', 'eos_token': '</s>', 'unk_token': '<unk>'}


def test_fallback():
    """Llama 2's kind: scores from the order of merges. Gemma's: merges as they are. Rules that neither has are refused."""
    keys, _ = convert(folder('fallback', 268, {'tokenizer.json': fallback(), 'tokenizer_config.json': dict(SETTINGS, add_prefix_space=True)}))
    same([keys.get(k) for k in ('model', 'pre', 'merges', 'bos_token_id', 'eos_token_id', 'unknown_token_id', 'add_space_prefix')], ['llama', 'default', None, 1, 2, 0, True], 'keys')
    same(keys['token_type'], [CONTROL] * 3 + [BYTE] * 256 + [NORMAL] * 7 + [USER, CONTROL], 'kinds')
    same((keys['tokens'][266], keys['scores'][259:]), ('x ', [-6.0, -6.0, -6.0, -1.0, 0.0, -2.0, -4.0, -1000.0, -1000.0]), 'scores')
    same(ids_of(['ab', 'aba', '\u00e9x ']), [[264], [264, 260], [259, 3 + 0xc3, 3 + 0xa9, 266]], 'ids')
    gemma = fallback(normalizer={'type': 'Replace', 'pattern': {'String': ' '}, 'content': MARK},
                     pre_tokenizer={'type': 'Split', 'pattern': {'String': ' '}, 'behavior': 'MergedWithPrevious', 'invert': False})
    keys, _ = convert(folder('fallback', 268, {'tokenizer.json': gemma, 'tokenizer_config.json': SETTINGS}))
    same([keys.get(k) for k in ('model', 'pre', 'add_space_prefix', 'add_bos_token', 'merges')], ['gemma4', None, False, True, gemma['model']['merges']], 'keys')
    same(ids_of(['ab', ' ab a']), [[262], [264, 263]], 'ids')
    meta = {'type': 'Metaspace', 'replacement': MARK, 'prepend_scheme': 'first', 'split': False}
    keys, err = convert(folder('fallback', 268, {'tokenizer.json': fallback(normalizer=None, pre_tokenizer=meta), 'tokenizer_config.json': SETTINGS}))
    check(keys['model'] == 'llama' and err.startswith('warning: '), err)
    keys, err = convert(folder('fallback', 268, {'tokenizer.json': fallback(normalizer=None, pre_tokenizer=dict(meta, prepend_scheme='never')), 'tokenizer_config.json': SETTINGS}))
    same((keys['model'], err), ('gemma4', ''), 'without a prefix')
    for rules in ({'normalizer': None}, {'normalizer': {'type': 'NFKC'}}, {'pre_tokenizer': {'type': 'Whitespace'}}, {'pre_tokenizer': dict(meta, split=True)},
                  {'normalizer': {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '_'}}):
        refused(folder('fallback', 268, {'tokenizer.json': fallback(**rules)}), '--pre')


def charsmap():
    """A map of characters without an entry."""
    return struct.pack('<I', 1024) + bytes(1024) + b'\0'


def test_unigram():
    """Scores, the map of characters, spaces, kinds; ids."""
    vocab = [['<s>', 0.0], ['<pad>', 0.0], ['</s>', 0.0], ['<unk>', 0.0], [MARK + 'a', -1.5], ['b', -2], [MARK, -3.25], ['a', -4.0]]
    j = {'added_tokens': [added(i, vocab[i][0]) for i in range(4)] + [added(8, '<mask>')],
         'normalizer': {'type': 'Precompiled', 'precompiled_charsmap': base64.b64encode(charsmap()).decode()},
         'pre_tokenizer': sequence({'type': 'WhitespaceSplit'}, {'type': 'Metaspace', 'replacement': MARK, 'add_prefix_space': True}),
         'post_processor': None, 'decoder': None, 'model': {'type': 'Unigram', 'unk_id': 3, 'vocab': vocab}}
    settings = {'bos_token': '<s>', 'eos_token': '</s>', 'unk_token': '<unk>', 'pad_token': '<pad>', 'mask_token': '<mask>'}
    keys, _ = convert(folder('unigram', 10, {'tokenizer.json': j, 'tokenizer_config.json': settings}))
    same(keys, {'model': 't5', 'pre': 'default', 'tokens': [t for t, _ in vocab] + ['<mask>', '[PAD9]'], 'scores': [float(s) for _, s in vocab] + [-1000.0, -10000.0],
                'token_type': [CONTROL] * 3 + [UNKNOWN] + [NORMAL] * 4 + [CONTROL, UNUSED], 'precompiled_charsmap': list(charsmap()), 'add_space_prefix': True,
                'remove_extra_whitespaces': True, 'bos_token_id': 0, 'eos_token_id': 2, 'unknown_token_id': 3, 'padding_token_id': 1, 'mask_token_id': 8}, 'keys')
    same(ids_of(['ab  a', 'ba', 'q']), [[4, 5, 4], [6, 5, 7], [6, 3]], 'ids')
    err = convert(folder('unigram', 10, {'tokenizer.json': dict(j, pre_tokenizer={'type': 'Metaspace', 'prepend_scheme': 'always'})}))[1]
    check(err.startswith('warning: ') and 'spaces' not in err.split(':')[0], err)
    for rules, word in (({'normalizer': {'type': 'Precompiled', 'precompiled_charsmap': '?'}}, 'base64'), ({'normalizer': {'type': 'NFD'}}, 'NFD'),
                        ({'pre_tokenizer': {'type': 'Digits'}}, 'Digits'), ({'model': dict(j['model'], vocab=[['a']])}, 'score'), ({'model': dict(j['model'], vocab={})}, 'array')):
        refused(folder('unigram', 10, {'tokenizer.json': dict(j, **rules)}), word)


def test_wordpiece():
    """tokenizer.json and vocab.txt give the same tokens and ids."""
    words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'un', '##able', 'able', '##un', ',', 'caf', '##e']
    first, last, a = {'SpecialToken': {'id': '[CLS]'}}, {'SpecialToken': {'id': '[SEP]'}}, {'Sequence': {'id': 'A'}}
    j = {'added_tokens': [added(i, words[i]) for i in range(5)], 'normalizer': {'type': 'BertNormalizer', 'clean_text': True, 'handle_chinese_chars': True, 'strip_accents': None, 'lowercase': True},
         'pre_tokenizer': {'type': 'BertPreTokenizer'}, 'post_processor': {'type': 'TemplateProcessing', 'single': [first, a, last], 'pair': []}, 'decoder': None,
         'model': {'type': 'WordPiece', 'unk_token': '[UNK]', 'continuing_subword_prefix': '##', 'vocab': {w: i for i, w in enumerate(words)}}}
    settings = {'cls_token': '[CLS]', 'sep_token': '[SEP]', 'pad_token': '[PAD]', 'unk_token': '[UNK]', 'mask_token': '[MASK]', 'do_lower_case': True}
    marked = words[:5] + [w[2:] if w.startswith('##') else MARK + w for w in words[5:]]
    for name, files in (('json', {'tokenizer.json': j}), ('txt', {'vocab.txt': '\n'.join(words) + '\n'}), ('crlf', {'vocab.txt': '\r\n'.join(words)})):
        keys, _ = convert(folder('wordpiece', 13, dict(files, **{'tokenizer_config.json': settings})))
        same((keys['model'], keys['tokens'], keys['token_type']), ('bert', marked + [MARK + '[PAD12]'], [CONTROL] * 5 + [NORMAL] * 7 + [UNUSED]), name)
        same([keys.get(k) for k in ('seperator_token_id', 'padding_token_id', 'unknown_token_id', 'mask_token_id', 'normalizer.lowercase', 'token_type_count')], [3, 0, 1, 4, True, 1], name)
        same(ids_of(['Unable, able\u00e9', 'unun caf\u00e9']), [[5, 6, 9, 7, 11], [5, 8, 10, 11]], name)
        if name == 'json':
            same([keys.get(k) for k in ('bos_token_id', 'eos_token_id', 'add_bos_token', 'add_eos_token')], [2, 3, True, True], name)


# ---- SentencePiece ----------------------------------------------------------------------------------------------------

def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack('<f', value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode('utf-8') if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece(pieces, kind=2, prefix=None, extra=None, chars=b''):
    """A model: pieces of (text, score, type); fields that readers skip are in it, too."""
    out = b''.join(field(1, field(1, t) + (field(2, s) if s else b'') + (field(3, k) if k != NORMAL else b'')) for t, s, k in pieces)
    spec = field(1, 'identity') + (field(2, chars) if chars else b'')
    spec += field(3, prefix) if prefix is not None else b''
    spec += field(4, extra) if extra is not None else b''
    return out + field(2, field(4, 16) + field(3, kind) + field(10, 0.75)) + field(3, spec) + varint(9 << 3 | 1) + bytes(8)


PIECES = [('<unk>', 0.0, UNKNOWN), ('<s>', 0.0, CONTROL), ('</s>', 0.0, CONTROL), ('<0x41>', 0.0, BYTE), (MARK + 't', -1.0, NORMAL), ('he', -2.5, NORMAL),
          ('u' + MARK, 0.0, USER), ('gone', 0.0, UNUSED), (MARK, -3.0, NORMAL), ('t', -4.0, NORMAL), ('h', -5.0, NORMAL), ('e', -6.0, NORMAL)]


def test_sentencepiece_models():
    """Pieces, kinds, scores, the normalizer's switches; added tokens; too many pieces; XLM-RoBERTa's ids."""
    spm = sentencepiece(PIECES, extra=0)
    keys, err = convert(folder('spm', 14, {'tokenizer.model': spm}))
    same(keys, {'model': 'llama', 'pre': 'default', 'tokens': [t for t, _, _ in PIECES[:6]] + ['u '] + [t for t, _, _ in PIECES[7:]] + ['[PAD12]', '[PAD13]'],
                'scores': [s for _, s, _ in PIECES] + [-10000.0] * 2, 'token_type': [k for _, _, k in PIECES] + [UNUSED] * 2}, 'keys')
    same(err, '', 'stderr')
    keys, _ = convert(folder('spm', 14, {'tokenizer.model': sentencepiece(PIECES, prefix=0)}))
    same((keys['add_space_prefix'], keys['remove_extra_whitespaces']), (False, True), 'switches')
    files = {'tokenizer.model': spm, 'added_tokens.json': {'new': 12}, 'tokenizer_config.json': {'added_tokens_decoder': {'13': added(13, '<|z|>', False), '2': added(2, '</s>')}},
             'tokenizer.json': fallback(added_tokens=[added(0, '<unk>'), added(14, 'late' + MARK, False)])}
    keys, _ = convert(folder('spm', 15, files, bos_token_id=1, eos_token_id=2))
    same((keys['tokens'][12:], keys['token_type'][12:], keys['scores'][12:]), (['new', '<|z|>', 'late '], [USER, CONTROL, USER], [-1000.0] * 3), 'added tokens')
    same((keys['token_type'][0], keys['scores'][2], keys['bos_token_id']), (UNKNOWN, -1000.0, 1), 'what tokenizer.json repeats')
    keys, err = convert(folder('spm', 11, {'tokenizer.model': spm, 'added_tokens.json': {'new': 12}}))
    check(len(keys['tokens']) == 11 and err.count('warning: ') == 2 and '12 pieces' in err, err)
    uni = [(t, s, k) for t, s, k in PIECES if k != USER]
    keys, _ = convert(folder('spm', 11, {'spiece.model': sentencepiece(uni, kind=1, chars=charsmap())}))
    same((keys['model'], keys['add_space_prefix'], keys['remove_extra_whitespaces'], keys['precompiled_charsmap']), ('t5', True, True, list(charsmap())), 'Unigram')
    keys, _ = convert(folder('spm', 13, {'sentencepiece.bpe.model': sentencepiece(uni, kind=1)}))
    same(keys['tokens'], ['<s>', '<pad>', '</s>', '<unk>'] + [t for t, _, _ in uni[3:]] + ['<mask>'], 'realigned')
    same((keys['scores'][:5], keys['token_type'][3], keys['token_type'][12]), ([0.0] * 5, UNKNOWN, CONTROL), 'realigned')
    keys, err = convert(folder('spm', 12, {'tokenizer.model': sentencepiece(PIECES, chars=charsmap())}))
    check('normalization' in err, err)
    for model, word in ((b'', 'not a SentencePiece model'), (b'{"a": 1}', 'not a SentencePiece model'), (sentencepiece(PIECES, kind=4), 'neither'),
                        (field(1, field(1, 'a') + field(3, 9)), 'malformed'), (field(1, field(2, 1.0)), 'malformed'), (field(1, field(1, 'a') + field(2, float('nan'))), 'malformed'),
                        (b'\x80' * 12, 'not a SentencePiece model'), (field(1, b'\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01'), 'not a SentencePiece model')):
        refused(folder('spm', 12, {'tokenizer.model': model}), word)


# ---- hostile files ----------------------------------------------------------------------------------------------------

def test_hostile():
    """Ids that are none, twice, far apart or too high; wrong types everywhere; depth; bytes that are no UTF-8."""
    def broken(change, *words, rows=263):
        j = bpe()
        change(j)
        refused(folder('hostile', rows, {'tokenizer.json': j}), *words)
    vocab = lambda **ids: lambda j: j['model']['vocab'].update(ids)
    broken(vocab(x1=5), 'same id', "'x1'")
    broken(vocab(x1=-1), 'not possible')
    broken(vocab(x1=1 << 31), 'not possible')
    broken(vocab(x1=1 << 40), 'not possible')
    broken(vocab(x1=1.5), 'no integer')
    broken(vocab(x1='5'), 'no integer')
    broken(vocab(x1=263), 'id 263', '263 rows')
    broken(vocab(x1=4000), 'id 4000')
    broken(lambda j: None, 'id 262', '262 rows', rows=262)
    for change in (dict(vocab=[]), dict(vocab=None), dict(vocab='x'), dict(merges=None), dict(merges={'a': 'b'}), dict(merges=['ab']), dict(merges=[['a']]), dict(merges=[['a', 1]]),
                   dict(merges=[['a', 'b', 'c']]), dict(merges=[5]), dict(type='WordLevel'), dict(type=5, vocab=5), dict(end_of_word_suffix='</w>')):
        broken(lambda j: j['model'].update(change))
    for tokens in ([5], [{'id': 1}], [{'content': 'x'}], [dict(added(1, 'x'), id='1')], [added(-1, 'x')], [added(1 << 40, 'x')]):
        broken(lambda j: j.update(added_tokens=tokens))
    for change in (dict(model=None), dict(model=[]), dict(pre_tokenizer=5), dict(pre_tokenizer=[])):
        broken(lambda j: j.update(change))
    for text, word in ((b'', 'JSON'), (b'[]', 'object'), (b'{"model": ' * 300, 'JSON'), (b'{"a": "\xff"}', 'UTF-8'), (json.dumps(bpe()).encode()[:-9], 'JSON')):
        refused(folder('hostile', 263, {'tokenizer.json': text}), word)
    for name in ('tokenizer_config.json', 'special_tokens_map.json'):
        refused(folder('hostile', 263, {'tokenizer.json': bpe(), name: '{'}), name)
    same(convert(folder('hostile', 263, {'tokenizer.json': bpe(added_tokens=5, post_processor=[1, {}], normalizer=None),
                                         'tokenizer_config.json': {'bos_token': 5, 'eos_token': {'content': []}, 'chat_template': 7, 'added_tokens_decoder': [], 'additional_special_tokens': [1, {}]},
                                         'special_tokens_map.json': {'bos_token': []}, 'generation_config.json': {'eos_token_id': ['a', -1, 1 << 50, 1.5]}}))[0]['model'], 'gpt2', 'odd types')
    zero = bpe()
    zero['model']['vocab']['z\0z'] = 263
    same(convert(folder('hostile', 264, {'tokenizer.json': zero}))[0]['tokens'][263], 'z\0z', 'a zero byte')


def test_hostile_bytes():
    """Cut and flipped files: an error or a file, never a crash."""
    rng = random.Random(20)
    for name, data in (('tokenizer.model', sentencepiece(PIECES, extra=0)), ('tokenizer.json', json.dumps(fallback()).encode()), ('tokenizer.json', json.dumps(bpe()).encode())):
        path = folder('flipped', 268, {name: data})
        for i in range(30):
            broken = bytearray(data[:rng.randrange(len(data))] if i % 3 == 0 else data)
            for _ in range(0 if i % 3 == 0 else rng.randrange(1, 4)):
                broken[rng.randrange(len(broken))] = rng.choice([0, 255, rng.randrange(256)])
            write('flipped/' + name, bytes(broken))
            done = cli.subprocess.run([cli.INFER, 'convert', path, temp('flipped.gguf')], capture_output=True, timeout=60)
            lines = [s for s in done.stderr.decode('utf-8', 'replace').splitlines() if not s.startswith('warning: ')]
            check(done.returncode in (0, 1) and len(lines) == done.returncode, 'status %d: %r' % (done.returncode, done.stderr))
            if done.returncode == 0:
                os.remove(temp('flipped.gguf'))


# ---- against llama.cpp's converter, tokenizers and sentencepiece ------------------------------------------------------

def data_folder(name):
    path = next((os.path.join(f, name) for f in cli.FOLDERS if os.path.isdir(os.path.join(f, name))), None)
    if path is None:
        raise cli.Skipped('needs INFER_TEST_DATA: ' + name)
    return path


# Their converter was made to write gpt-2 for every pre-tokenizer. SentencePiece models remove superfluous spaces unless they say
# otherwise, which it does not write.
EXPLAINED = {'pre': lambda ours, theirs: theirs == 'gpt-2', 'remove_extra_whitespaces': lambda ours, theirs: ours and theirs is None}


def differences(ours, theirs, explained):
    keys = {k for k in set(ours) | set(theirs) if ours.get(k) != theirs.get(k)}
    return sorted(k for k in keys if not (k in explained and explained[k](ours.get(k), theirs.get(k))))


def keys_in(path):
    meta = gguf_file.Gguf(path).meta
    return {k[len(PREFIX):] if k.startswith(PREFIX) else k: v for k, v in meta.items() if k.startswith('tokenizer.')}


def test_folders():
    """Folders that transformers saved: every key as in the file that llama.cpp's converter made."""
    root = data_folder('hf')
    names = sorted(n for n in os.listdir(root) if os.path.isdir(os.path.join(root, n, 'hf')))
    check(len(names) >= 30, 'folders: %d' % len(names))
    for name in names:
        ours, theirs = convert(os.path.join(root, name, 'hf'))[0], keys_in(os.path.join(root, name, 'model.gguf'))
        wrong = differences(ours, theirs, EXPLAINED)
        check(not wrong, '%s: %s' % (name, [(k, ours.get(k), theirs.get(k)) for k in wrong][:2]))


REAL = { # vocabulary: its rules in tokenizer.json
    'gpt-2': BYTE_LEVEL,
    'deepseek-coder': sequence(split('[\r\n]'), split(r'\s?\p{L}+'), split(r'\s?\p{P}+'), split(pre_splits.CJK), {'type': 'Digits', 'individual_digits': True}, BYTES_ONLY),
    'falcon': rules_of('falcon'),
    'qwen2': rules_of('qwen2'),
}
NFC = ('qwen2',) # its tokenizer.json composes characters first, which no key of GGUF says: texts that are composed already have the same ids


def texts(n):
    """Recorded texts, and made ones."""
    out = read(cli.data('tokenizers', 'texts.bin')).decode('utf-8', 'replace').split('\x1e')
    try:
        import regex
        regex.compile
    except (ImportError, AttributeError):
        raise cli.Skipped('needs the package regex')
    out += [t.replace('\x1e', '').replace('\0', '') for t in pre_splits.texts(n - len(out), 7)]
    return [t for t in out if '\ufffd' not in t]


def package(name):
    try:
        return __import__(name)
    except ImportError:
        raise cli.Skipped('needs the package ' + name)


def real_folder(name, meta):
    """tokenizer.json of a vocabulary, as Hugging Face has it."""
    tokens, kinds = meta['tokens'], meta['token_type']
    j = bpe(REAL[name], added_tokens=[added(i, t, kinds[i] == CONTROL) for i, t in enumerate(tokens) if kinds[i] in (CONTROL, USER)], normalizer={'type': 'NFC'} if name in NFC else None)
    j['model'].update(vocab={t: i for i, t in enumerate(tokens) if kinds[i] == NORMAL}, merges=meta['merges'])
    settings = {name + '_token': tokens[meta[key]] for name, key in (('bos', 'bos_token_id'), ('eos', 'eos_token_id'), ('pad', 'padding_token_id')) if key in meta}
    settings.update({k: meta[k] for k in ('add_bos_token', 'add_eos_token') if k in meta})
    settings.update({'chat_template': meta['tokenizer.chat_template']} if 'tokenizer.chat_template' in meta else {})
    return folder('real-' + name, len(tokens), {'tokenizer.json': j, 'tokenizer_config.json': settings})


def compare_ids(got, want, made, allowed, what):
    wrong = [i for i in range(len(made)) if got[i] != want[i]]
    check(len(got) == len(made) and len(wrong) <= allowed, '%s: %d of %d texts differ: %s' % (what, len(wrong), len(made), [(ascii(made[i])[:60], want[i][:8], got[i][:8]) for i in wrong[:2]]))


def test_real_vocabularies():
    """Tokens, merges and ids of published vocabularies come back; with the package tokenizers: ids of 1,000 texts."""
    hf = None
    for name in REAL:
        theirs = keys_in(cli.data('vocabs', 'ggml-vocab-%s.gguf' % name))
        path = real_folder(name, theirs)
        ours = convert(path)[0]
        # an older converter took <pad> and the like for a user's tokens
        kinds = {'token_type': lambda a, b: all(x == y or (x, y) == (CONTROL, USER) for x, y in zip(a, b))}
        wrong = differences(ours, theirs, kinds)
        check(not wrong, '%s: %s' % (name, wrong))
        hf = hf or package('tokenizers')
        tok = hf.Tokenizer.from_file(path + '/tokenizer.json')
        hidden = [t for t, k in zip(ours['tokens'], ours['token_type']) if k == CONTROL]
        made = [t for t in texts(1000) if not any(h in t for h in hidden)]
        whole = len(made)
        made = [t for t in made if name not in NFC or unicodedata.normalize('NFC', t) == t]
        check(len(made) > 0.9 * whole, '%s: %d texts' % (name, len(made)))
        compare_ids(ids_of(made), [tok.encode(t, add_special_tokens=False).ids for t in made], made, 0, name)


def test_folder_ids():
    """Folders that transformers saved: ids of 1,000 texts."""
    root = data_folder('hf')
    hf = package('tokenizers')
    for name in ('apertus', 'bert', 'gemma4', 'glm4'):
        path = os.path.join(root, name, 'hf')
        ours = convert(path)[0]
        tok = hf.Tokenizer.from_file(path + '/tokenizer.json')
        hidden = [t for t, k in zip(ours['tokens'], ours['token_type']) if k == CONTROL]
        made = [t for t in texts(1000) if not any(h in t for h in hidden)]
        compare_ids(ids_of(made), [tok.encode(t, add_special_tokens=False).ids for t in made], made, 0, name)


def test_trained_models():
    """Models that SentencePiece trains here: its ids of 1,000 texts."""
    trainer = package('sentencepiece')
    import io
    made, corpus = texts(1000), []
    for name in ('README.md', 'CHANGELOG.md'):
        with open(os.path.join(os.path.dirname(os.path.dirname(HERE)), name), encoding='utf-8') as f:
            corpus += [line.strip() for line in f if line.strip()][:400]
    plain = dict(normalization_rule_name='identity', remove_extra_whitespaces=False)
    # of equally good ways to cut a text, SentencePiece and llama.cpp may choose different ones
    for name, allowed, args in (('bpe', 0, dict(plain, model_type='bpe', vocab_size=700, byte_fallback=True, user_defined_symbols=['<tool>', 'infer.h'], control_symbols=['<c>'])),
                                ('no prefix', 0, dict(plain, model_type='bpe', vocab_size=700, byte_fallback=True, add_dummy_prefix=False)),
                                ('extra spaces', 0, dict(plain, model_type='bpe', vocab_size=700, byte_fallback=True, remove_extra_whitespaces=True)),
                                ('unigram', 0, dict(model_type='unigram', vocab_size=400)), ('plain unigram', 2, dict(plain, model_type='unigram', vocab_size=400)),
                                ('unigram with bytes', 2, dict(model_type='unigram', vocab_size=600, byte_fallback=True, user_defined_symbols=['<tool>']))):
        out = io.BytesIO()
        trainer.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=out, minloglevel=2, hard_vocab_limit=False, **args)
        model = trainer.SentencePieceProcessor(model_proto=out.getvalue())
        convert(folder('trained', model.vocab_size(), {'tokenizer.model': out.getvalue()}))
        compare_ids(ids_of(made), [model.encode(t) for t in made], made, allowed, name)


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
