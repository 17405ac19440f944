#!/usr/bin/env python3
"""Tests of pictures and sound in `infer run`, `chat`, `logits`, `media` and `info`: python3 tests/cli/test_pictures.py build/infer [WORD...]

The projectors, text models and pictures of the recorded references; their logits are llama.cpp's. Same harness as test_cli.py.
"""
import json
import os
import shutil
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_cli as cli
from test_cli import check, infer, write

PLAIN = '{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]'
EXACT = ('--kv', 'f32', '--exact')


def of(kind, name):
    return cli.data('vision', kind, name)


def world(text='gemma3', projector='gemma3'):
    return of('text', text + '.gguf'), ('--projector', of('models', projector + '.gguf'))


def rows_of(path):
    data = cli.read(path)
    n, width = struct.unpack_from('<ii', data)
    return struct.unpack_from('<%di' % n, data, 8), width, struct.unpack_from('<%df' % (n * width), data, 8 + 4 * n)


def as_recorded(case, file_of):
    """Ids and logits of a case are those of llama.cpp; the first token that `run` writes is the likeliest of the last row."""
    with open(of('cases', case + '.json'), encoding='utf-8') as f:
        about = json.load(f)
    ids, width, want = rows_of(of('cases', case + '.logits'))
    model, projector = world(about['text_model'], about['model'])
    media = [w for name in about['media'] for w in ('--media', file_of(name))]
    out = cli.temp('out.logits')
    infer('logits', model, *projector, *media, '-p', about['prompt'], '--out', out, *EXACT)
    got_ids, got_width, got = rows_of(out)
    check(got_ids == ids and got_width == width, '%s: other ids' % case)
    error = sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want)
    check(error < 5e-6, '%s: NMSE %g' % (case, error))
    done = infer('run', model, *projector, *media, '-p', about['prompt'], '--special', '-n', '1', '--temp', '0', '--ignore-end', '--json', *EXACT).json()
    last = want[-width:]
    check(done['tokens'] == [max(range(width), key=lambda t: last[t])], '%s: run writes %r' % (case, done['tokens']))
    check([t for t in done['prompt_tokens'] if t >= 0] == list(ids), '%s: tokens of the prompt' % case)


CASES = ('gemma3_text-200x120', 'gemma3_gradient-64x48+checker-20x20', 'qwen2vl_text-200x120+gradient-64x48', 'qwen3vl_text-200x120+gradient-64x48',
         'idefics3_noise-37x91', 'llama4_noise-37x91', 'glm4v_text-200x120', 'pixtral_text-200x120')


def test_pictures_logits():
    """Prompts with pictures."""
    for case in CASES:
        as_recorded(case, lambda name: of('images', name + '.ppm'))


def test_pictures_order():
    """Media in the order of the command line; before a prompt without markers; PNG as PPM; -f, escapes and limits of tokens."""
    model, projector = world('qwen2vl', 'qwen2vl')
    a, b = of('images', 'text-200x120.png'), of('images', 'gradient-64x48.ppm')
    run = ('run', model, *projector, '-n', '6', '--temp', '0', '--ignore-end', '--json')

    def tokens(*options):
        return infer(*run, *options).json()['prompt_tokens']
    both = tokens('--image', a, '--image', b, '-p', 'What?')
    check(both == tokens('--image', a, '--audio', b, '-p', '<__media__><__media__>What?'), 'media come first')
    check(both == tokens('--image', of('images', 'text-200x120.ppm'), '--media', of('images', 'gradient-64x48.png'), '-p', 'What?'), 'PNG and PPM')
    check(both != tokens('--image', b, '--image', a, '-p', 'What?'), 'their order')
    check(both == tokens('--image', a, '--image', b, '-f', write('prompt', 'What?')), '-f')
    check(len(tokens('--image', a, '--image-max-tokens', '20', '-p', 'What?')) < len(tokens('--image', a, '-p', 'What?')), 'at most')
    check(len(tokens('--image', b, '--image-min-tokens', '40', '-p', 'What?')) > len(tokens('--image', b, '-p', 'What?')), 'at least')
    alone = infer(*run, '--image', a, '-p', 'What?', '--seed', '1').json()
    best = infer(*run, '--image', a, '-p', 'What?', '--best-of', '2').json()
    check(best['replies'][0]['tokens'] == alone['tokens'], 'the best of two: %r' % best)
    for more in (('--lookup',), ('--negative-prompt', 'x', '--cfg-scale', '1')):
        check(infer(*run, '--image', a, '-p', 'What?', *more).json()['tokens'] == alone['tokens'], ' '.join(more))
    check('media ' in infer(*run, '--image', a, '-p', 'What?').err, 'statistics')


def test_pictures_find():
    """The only projector beside a model is its; of several, none."""
    model, projector = world()
    folder = cli.temp('beside')
    os.mkdir(folder)
    here = shutil.copy(model, os.path.join(folder, 'model.gguf'))
    run = ('run', here, '--image', of('images', 'rings-64x64.ppm'), '-p', 'What?', '-n', '4', '--temp', '0', '--ignore-end', '--json')
    check('--projector FILE (no *mmproj*.gguf is beside' in infer(*run, status=1).err, 'none')
    shutil.copy(projector[1], os.path.join(folder, 'MMPROJ-model-F32.gguf'))
    check(infer(*run).json()['tokens'] == infer(*run, '--mmproj', projector[1]).json()['tokens'], 'the only one')
    check(infer('run', folder + '/model.gguf', '-p', 'What?', '-n', '1', '--json').status == 0, 'without pictures')
    shutil.copy(projector[1], os.path.join(folder, 'other-mmproj.gguf'))
    err = infer(*run, status=1).err
    check('several' in err and 'MMPROJ-model-F32.gguf' in err and 'other-mmproj.gguf' in err, 'several: %r' % err)


def test_pictures_refused():
    """Files, projectors and prompts that do not fit: a line, and status 1."""
    model, projector = world()
    picture = of('images', 'text-200x120.png')
    run = ('run', model, '-p', 'What? <__media__>', '-n', '2')
    data = cli.read(picture)
    jpeg = cli.read(os.path.join(cli.HERE, '..', 'data', 'media', 'baseline-420.jpg'))
    for name, content, part in (('cut.png', data[:len(data) // 2], 'PNG'), ('cut.jpg', jpeg[:len(jpeg) // 2], 'JPEG'), ('none.png', b'', 'cut'), ('a.webp', b'RIFF\x10\0\0\0WEBPVP8 ', 'WebP'),
                                ('a.mp3', b'ID3\4' + bytes(40), 'MP3'), ('a.txt', b'not a picture', 'format')):
        path = write(name, content)
        err = infer(*run, *projector, '--image', path, status=1).err
        check(path in err and (part in err or part == 'cut'), '%s: %r' % (name, err))
    check('no/such.png' in infer(*run, *projector, '--image', 'no/such.png', status=1).err, 'no file')
    check('2 markers' not in infer(*run, *projector, '--image', picture).err, 'one and one')
    err = infer(*run, *projector, '--image', picture, '--image', picture, status=1).err
    check('the prompt has 1 markers (<__media__>) for 2 pictures and sounds' in err, 'two and one: %r' % err)
    err = infer('run', model, *projector, '-p', '<__media__><__media__>', '--image', picture, status=1).err
    check('2 markers' in err and 'for 1' in err, 'one and two: %r' % err)
    check('needs 128' in infer('run', of('text', 'llama128.gguf'), *projector, '-p', 'x', '--image', picture, status=1).err, 'another width')
    check('no encoder' in infer('run', model, '--projector', model, '-p', 'x', '--image', picture, status=1).err, 'a text model as projector')
    check('no/such.gguf' in infer('run', model, '--projector', 'no/such.gguf', '-p', 'x', status=1).err, 'no projector')
    check('--projector' in infer('run', cli.data('models', 'stories260K.F32.gguf'), '-p', 'x', '--image', picture, status=1).err, 'a text model alone')
    check('sound' in infer(*run, *projector, '--audio', wav('zero.wav', bytes(3200)), status=1).err, 'a sound, and an encoder of pictures')
    check('does not fit' in infer(*run, *projector, '--image', picture, '--ctx', '10', status=1).err, 'a small context')
    check('evaluated whole' in infer(*run, *projector, '--image', picture, '--batch', '8', status=1).err, 'a small batch')
    for option in ('--fim', '--prompt-logprobs', '--top-next'):
        check('--image is not for ' + option in infer(*run, *projector, '--image', picture, option, '1', status=2).err, option)
    check('--image is for -p' in infer('logits', model, *projector, '--image', picture, '--ids', write('ids', '1 2'), '--out', cli.temp('o'), status=2).err, 'ids')


def wav(name, samples):
    return write(name, b'RIFF' + struct.pack('<I', 36 + len(samples)) + b'WAVEfmt ' + struct.pack('<IHHIIHH', 16, 1, 1, 16000, 32000, 2, 16) +
                 b'data' + struct.pack('<I', len(samples)) + samples)


SOUNDS = ('qwen2a_tones-56123', 'qwen3a_sweep-40000', 'qwen3a_tones-1700', 'ultravox_sweep-40000')


def test_pictures_sounds():
    """Prompts with recorded sounds, as WAV."""
    for case in SOUNDS:
        as_recorded(case, lambda name: wav(name + '.wav', cli.read(of('audio', name + '.s16'))))


def test_pictures_chat():
    """One question; turns of a file; what --session keeps, with its pictures, and what it refuses."""
    model, projector = world()
    picture, other = of('images', 'text-200x120.png'), of('images', 'rings-64x64.ppm')
    chat = ('chat', model, '--template', write('plain.jinja', PLAIN), '--temp', '0', '-n', '8', '--ignore-eos')
    run = ('run', model, *projector, '--temp', '0', '-n', '8', '--ignore-end')
    one = infer(*chat, *projector, '-p', 'What?', '--image', picture).out
    check(one.rstrip(b'\n') == infer(*run, '-p', '[user]<__media__>What?[assistant]', '--image', picture).out.rstrip(b'\n'), 'one question: %r' % one)
    check(one != infer(*chat, *projector, '-p', 'What?', '--image', other).out, 'another picture')
    check(infer(*chat, *projector, '-p', 'A <__media__> b<__media__>', '--image', picture, '--image', other).out.rstrip(b'\n') ==
          infer(*run, '-p', '[user]A <__media__> b<__media__>[assistant]', '--image', picture, '--image', other).out.rstrip(b'\n'), 'markers')
    check('1 markers' in infer(*chat, *projector, '-p', 'A <__media__>', '--image', picture, '--image', other, status=1).err, 'other numbers')
    check('1 markers' in infer(*chat, *projector, '--image', picture, '--image', other, stdin=b'A <__media__>\n', status=1).err, 'of a line')
    check('no/such' in infer(*chat, *projector, '-p', 'A', '--image', 'no/such.png', status=1).err, 'no file')
    lines = infer(*chat, *projector, '--image', picture, stdin=b'What?\nAnd now?\n').out
    check(lines.startswith(one), 'the first line has the picture: %r' % lines)
    kept = cli.temp('kept.jsonl')
    first = infer(*chat, *projector, '--session', kept, '-p', 'What?', '--image', picture).out
    message = json.loads(cli.read(kept).splitlines()[0])
    check(first == one and message['content'] == [{'type': 'image', 'path': picture}, {'type': 'text', 'text': 'What?'}], 'kept: %r' % message)
    copy = shutil.copy(kept, cli.temp('copy.jsonl')) # without what was evaluated
    then = infer(*chat, *projector, '--session', kept, '-p', 'And now?').out
    check(one + then == lines, 'resumed: %r, %r' % (then, lines))
    check(infer(*chat, *projector, '--session', copy, '-p', 'And now?').out == then, 'resumed without its state')
    check('projector' in infer(*chat, '--session', copy, '-p', 'And?', status=1).err, 'resumed without a projector')
    for part, want in (({'type': 'image', 'path': 'no/such.png'}, 'no/such.png'), ({'type': 'image_url', 'image_url': {'url': 'http://x'}}, 'names no file')):
        bad = write('bad.jsonl', '{"role":"user","content":[%s]}\n{"role":"assistant","content":"x"}\n' % json.dumps(part))
        err = infer(*chat, *projector, '--session', bad, '-p', 'And?', status=1).err
        check(want in err, '%s: %r' % (want, err))


def embeddings_as_recorded(case, file_of, *options):
    """`infer media` gives the recorded tensors and embeddings, file by file."""
    with open(of('cases', case + '.json'), encoding='utf-8') as f:
        about = json.load(f)
    media = [w for name in about['media'] for w in ('--media', file_of(name))]
    n = sum(chunk['type'] != 'text' for chunk in about['chunks'])
    out, pre = cli.temp('out.embd'), cli.temp('out.pre')
    err = infer('media', of('models', about['model'] + '.gguf'), *media, '--out', out, '--pre', pre, *options).err
    check(err.count(' embeddings of ') == n, '%s: %r' % (case, err))
    for k in range(n):
        tail = '.%d' % k if n > 1 else ''
        for path, ext, limit in ((pre, 'pre', 1e-9), (out, 'embd', 2e-6)):
            ids, width, want = rows_of(of('cases', '%s.%d.%s' % (case, k, ext)))
            got_ids, got_width, got = rows_of(path + tail)
            error = sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want)
            check(got_ids == ids and got_width == width and error < limit, '%s %s %d: NMSE %g' % (case, ext, k, error))


def test_pictures_media():
    """What projectors make of files, without a text model; what is refused."""
    for case in ('gemma3_text-200x120', 'gemma3_gradient-64x48+checker-20x20', 'idefics3_noise-37x91', 'qwen25vl_text-280x200', 'qwen3vl_noise-37x91'):
        embeddings_as_recorded(case, lambda name: of('images', name + '.ppm'))
    embeddings_as_recorded('qwen2vl-limits_text-200x120', lambda name: of('images', name + '.ppm'), '--min', '16', '--max', '20')
    embeddings_as_recorded('qwen3a_tones-1700', lambda name: wav(name + '.wav', cli.read(of('audio', name + '.s16'))))
    picture = of('images', 'text-200x120.ppm')
    other, a, b = cli.temp('omni.gguf'), cli.temp('a.embd'), cli.temp('b.embd') # Qwen2.5-Omni's encoder has another name, no more
    infer('edit', of('models', 'qwen25vl.gguf'), other, '--set', 'clip.projector_type=qwen2.5o')
    infer('media', other, '--image', of('images', 'text-280x200.ppm'), '--out', a)
    infer('media', of('models', 'qwen25vl.gguf'), '--image', of('images', 'text-280x200.ppm'), '--out', b)
    check(cli.read(a) == cli.read(b), 'Qwen2.5-Omni')
    check('is needed' in infer('media', of('models', 'gemma3.gguf'), status=2).err, 'nothing to encode')
    check('--projector' in infer('media', other, '--projector', other, '--image', picture, status=2).err and b'--projector' not in infer('media', '--help').out, 'a projector of a projector')
    mine, projector = shutil.copy(picture, cli.temp('mine.ppm')), of('models', 'gemma3.gguf')
    for option in ('--out', '--pre'):
        check('another file of this command' in infer('media', projector, '--image', mine, option, mine, status=2).err, option)
    check('another file of this command' in infer('logits', of('text', 'gemma3.gguf'), '-p', 'x', '--image', mine, '--out', mine, status=2).err, 'logits')
    check(cli.read(mine) == cli.read(picture), 'a picture is not written over')
    check('the same file' in infer('media', projector, '--image', mine, '--out', a, '--pre', a, status=2).err, 'both into one')
    check('stdout takes one' in infer('media', projector, '--image', mine, '--image', mine, '--out', '-', status=1).err, 'several to stdout')
    check('too long' in infer('media', projector, '--image', mine, '--out', 'x' * 9000, status=1).err, 'a long name')
    check('no projector' in infer('media', of('text', 'gemma3.gguf'), '--image', picture, status=1).err, 'a text model')
    check('no encoder of pictures' in infer('media', of('models', 'ultravox.gguf'), '--image', picture, status=1).err, 'an encoder of sound')
    check('no vocabulary' in infer('run', of('models', 'gemma3.gguf'), '-p', 'x', status=1).err, 'a projector as a model')


def test_pictures_info():
    """What a projector is."""
    out = infer('info', of('models', 'gemma3.gguf')).out.decode()
    check('encodes  pictures: gemma3, 2 layers, 48 wide, 64 values of the text model' in out and '--projector' in out and 'computes' not in out, out[:400])
    nv = os.path.join(cli.HERE, '..', 'data', 'media', 'gemma3nv.gguf')
    out = infer('info', nv).out.decode()
    check('gemma3nv, 9 layers, 32 wide' in out, 'layers are the blocks that there are: ' + out[:400]) # its block_count is 128
    refused = cli.temp('refused.gguf')
    data = cli.read(nv)
    with open(refused, 'wb') as f:
        f.write(data.replace(b'gemma3nv', b'gemma9nv'))
    for err in (infer('media', refused, '--image', of('images', 'gradient-64x48.png'), status=1).err, infer('info', refused).out.decode()):
        check('projector type "gemma9nv" is not supported' in err, err)
    both = cli.read(os.path.join(cli.HERE, '..', 'data', 'media', 'gemma4a.gguf'))
    with open(refused, 'wb') as f:
        f.write(both.replace(b'gemma4v', b'gemma9v'))
    lines = [x for x in infer('info', refused).out.decode().splitlines() if x.startswith('encodes')]
    check(['refused: infer media says why' in x for x in lines] == [True, False], 'one of two is refused: %s' % lines)
    err = infer('media', refused, '--image', of('images', 'gradient-64x48.png'), status=1).err
    check('projector type "gemma9v" is not supported' in err, err)
    out = infer('info', of('models', 'mixed.gguf')).out.decode()
    check('encodes  pictures: gemma3' in out and 'encodes  sound: musicflamingo' in out, out[:400])


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
