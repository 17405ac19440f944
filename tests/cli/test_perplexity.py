#!/usr/bin/env python3
"""Tests of `infer perplexity`: python3 tests/cli/test_perplexity.py build/infer [WORD...]

Figures are compared with those computed here from `infer logits`, and with what llama.cpp (build of llama-cpp-python 0.3.36,
`llama-perplexity --no-escape`) printed for the same texts. The same harness as test_cli.py.
"""
import math
import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_cli as cli
from test_cli import check, infer, read, temp, write

WORDS = {'who': 'Tim Lily Tom Sue Ben Anna Max Mia', 'did': 'saw|liked|found|wanted|looked at|played with',
         'what': 'ball dog cat tree house toy car bird flower book'}


class Words:
    """Sentences that are the same everywhere."""
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return (self.state >> 16) % n

    def one(self, kind):
        words = WORDS[kind].split('|' if '|' in WORDS[kind] else None)
        return words[self.below(len(words))]

    def sentence(self):
        return '%s %s the %s' % (self.one('who'), self.one('did'), self.one('what'))


def text(sentences=120):
    w = Words(1)
    return ''.join('Once upon a time, %s. ' % w.sentence() if w.below(8) == 0 else '%s. ' % w.sentence() for _ in range(sentences))


def stories():
    return cli.data('models', 'stories260K.F32.gguf')


def tiny_stories():
    return cli.data('models', 'TinyStories-656K.Q8_0.gguf')


def made_text():
    return write('text.txt', text())


def near(a, b, most, what):
    check(abs(a - b) <= most * max(abs(a), abs(b)), '%s: %.9g, not %.9g' % (what, a, b))


def log_softmax(row):
    top = max(row)
    total = math.log(sum(math.exp(x - top) for x in row))
    return [x - top - total for x in row]


def tokens(model, content):
    """Ids with what the vocabulary puts around a text."""
    return [int(x) for x in infer('tokens', model, '--texts', write('one.txt', content + '\x1e'), '--special').out.split()]


def windows_of(model, size, *options):
    """Windows of the text's ids, and of each the log-probabilities at the positions that count, by `infer logits`."""
    ids, bos, found = tokens(model, text()), tokens(model, ''), []
    for k in range(len(ids) // size):
        window = ids[k * size:(k + 1) * size]
        rows = cli.logits(model, bos[:1] + window[1:], *options)
        found.append((window, [log_softmax(row) for row in rows[size // 2:size - 1]]))
    return found


def losses(windows, size):
    return [-rows[i][window[size // 2 + i + 1]] for window, rows in windows for i in range(len(rows))]


def mean_error(x):
    mean = sum(x) / len(x)
    return mean, math.sqrt(max(0, sum(v * v for v in x) / len(x) - mean * mean) / (len(x) - 1))


def test_figure():
    """The exponential of the mean loss over the second halves of windows, and its error."""
    path = made_text()
    for size in (64, 33):
        done = infer('perplexity', stories(), '-f', path, '--ctx', size, '--exact', '--json').json()
        x = losses(windows_of(stories(), size, '--exact'), size)
        mean, error = mean_error(x)
        check(done['tokens'] == len(x), 'tokens: %d, not %d' % (done['tokens'], len(x)))
        near(done['perplexity'], math.exp(mean), 1e-5, 'perplexity')
        near(done['error'], math.exp(mean) * error, 1e-4, 'error')


def test_llama_cpp():
    """What llama.cpp printed, with a cache of F32 and no flash attention. It rounds the input of Q8_0's products, --exact does not."""
    path = made_text()
    for model, size, figure, most in ((stories(), 128, LLAMA[0], 1e-4), (stories(), 256, LLAMA[1], 1e-4), (tiny_stories(), 128, LLAMA[2], 1e-2)):
        done = infer('perplexity', model, '-f', path, '--ctx', size, '--exact', '--kv', 'f32', '--json').json()
        near(done['perplexity'], figure, most, 'perplexity of %s' % os.path.basename(model))


def test_windows():
    """--chunks takes the first windows; the text may come from stdin; a last newline does not count."""
    path = made_text()
    first = infer('perplexity', stories(), '-f', path, '--ctx', '64', '--chunks', '2', '--json').json()
    check(first['tokens'] == 2 * 31, '%s' % first)
    same = infer('perplexity', stories(), '-f', '-', '--ctx', '64', '--chunks', '2', '--json', stdin=text().encode() + b'\n').json()
    check(same == first, '%s, not %s' % (same, first))
    threads = infer('perplexity', stories(), '-f', path, '--ctx', '64', '--chunks', '2', '--json', '-t', '2', '-b', '7').json()
    check(threads == first, 'threads and batches: %s, not %s' % (threads, first))
    shown = infer('perplexity', stories(), '-f', path, '--ctx', '64', '--chunks', '2').out.decode()
    check('%.4f' % first['perplexity'] in shown and '(62 tokens)' in shown, shown)


def test_saved():
    """--save-logits: the form of the file, and every value beside the logits."""
    path, size = made_text(), 64
    infer('perplexity', stories(), '-f', path, '--ctx', size, '--chunks', '3', '--exact', '--save-logits', temp('all.kl'))
    data = read(temp('all.kl'))
    windows = windows_of(stories(), size, '--exact')[:3]
    check(data[:8] == b'_logits_', 'magic')
    n, vocab, count = struct.unpack('<iii', data[8:20])
    check((n, vocab, count) == (size, len(windows[0][1][0]), 3), '%s' % ((n, vocab, count),))
    ids = struct.unpack('<%di' % (n * count), data[20:20 + 4 * n * count])
    check(list(ids) == [x for window, _ in windows for x in window], 'tokens')
    at, each = 20 + 4 * n * count, 8 + 4 * ((vocab + 1) // 2)
    check(len(data) == at + each * 3 * 31, 'length')
    for row in (row for _, rows in windows for row in rows):
        step, lowest = struct.unpack('<ff', data[at:at + 8])
        for x, v in zip(row, struct.unpack('<%dH' % vocab, data[at + 8:at + 8 + 2 * vocab])):
            check(abs(max(x, max(row) - 16) - (lowest + step * v)) < step + 1e-5, 'a value: %g, not %g' % (lowest + step * v, x))
        at += each


def saved(name, ids, size, rows):
    """A reference with these probabilities: as a file has them. ids: of whole windows."""
    vocab = len(rows[0])
    out = b'_logits_' + struct.pack('<iii%di' % len(ids), size, vocab, len(ids) // size, *ids)
    for row in rows:
        top = max(row)
        low = max(min(row), top - 16)
        step = (top - low) / 65535 or 1e-9
        out += struct.pack('<ff', step, low) + struct.pack('<%dH' % (vocab + vocab % 2), *([max(0, round((x - low) / step)) for x in row] + [0] * (vocab % 2)))
    return write(name, out)


def test_reference():
    """Beside itself, and beside probabilities that were made here: KL divergence, ratio, top 1 and RMS are those computed here."""
    path, size = made_text(), 64
    windows = windows_of(stories(), size, '--exact')[:3]
    ids, rows = [x for window, _ in windows for x in window], [row for _, r in windows for row in r]
    own = saved('own.kl', ids, size, rows)
    done = infer('perplexity', stories(), '--reference', own, '--exact', '--json').json()
    check(abs(done['kl_mean']) < 1e-6 and done['top1'] == 1 and done['p_rms'] < 1e-4 and abs(done['log_ratio']) < 1e-3, '%s' % done)
    flat = [log_softmax([0.4 * x + 0.1 * (i % 7) for i, x in enumerate(row)]) for row in rows]
    done = infer('perplexity', stories(), '-f', path, '--ctx', size, '--reference', saved('flat.kl', ids, size, flat), '--exact', '--json').json()
    kls = [sum(math.exp(b) * (b - a) for a, b in zip(row, base)) for row, base in zip(rows, flat)]
    nexts = [window[size // 2 + i + 1] for window, r in windows for i in range(len(r))]
    p = [math.exp(row[t]) - math.exp(base[t]) for row, base, t in zip(rows, flat, nexts)]
    ratio = [base[t] - row[t] for row, base, t in zip(rows, flat, nexts)]
    kls_sorted = sorted(kls)
    near(done['kl_mean'], mean_error(kls)[0], 1e-3, 'mean KL divergence')
    near(done['kl_error'], mean_error(kls)[1], 1e-3, 'its error')
    near(done['kl_median'], kls_sorted[46], 1e-3, 'median')
    near(done['kl_99'], kls_sorted[91] + (0.99 * 92 - 91) * (kls_sorted[92] - kls_sorted[91]), 1e-3, '99 %')
    near(done['kl_max'], kls_sorted[92], 1e-3, 'maximum')
    near(done['p_rms'], math.sqrt(sum(x * x for x in p) / len(p)), 1e-3, 'RMS')
    near(done['log_ratio'], mean_error(ratio)[0], 1e-3, 'ratio')
    near(done['log_ratio_error'], mean_error(ratio)[1], 1e-2, 'its error')
    same = sum(max(range(len(r)), key=r.__getitem__) == max(range(len(b)), key=b.__getitem__) for r, b in zip(rows, flat))
    check(abs(done['top1'] - same / len(rows)) < 1e-6 and same < len(rows), 'top 1: %s, not %s' % (done['top1'], same / len(rows)))
    shown = infer('perplexity', stories(), '--reference', temp('flat.kl'), '--exact').out.decode()
    for word in ('reference', 'KL divergence', 'same top 1', 'RMS of p', '%.6f' % done['kl_median']):
        check(word in shown, shown)


def test_table():
    """Several models: a row each, a list in JSON, in their order."""
    path = made_text()
    models = [stories(), tiny_stories(), stories()]
    done = infer('perplexity', *models, '-f', path, '--ctx', '128', '--json').json()
    check([d['model'] for d in done] == models and done[0]['perplexity'] == done[2]['perplexity'] != done[1]['perplexity'], '%s' % done)
    rows = infer('perplexity', *models, '-f', path, '--ctx', '128').out.decode().splitlines()
    check(len(rows) == 4 and all(r.endswith(m) and '%.4f' % d['perplexity'] in r for r, m, d in zip(rows[1:], models, done)), '%s' % rows)
    infer('perplexity', *models, '-f', path, '--save-logits', temp('no.kl'), status=2)


def test_refused():
    path = made_text()
    for words, why in ((['-f', path, '--ctx', '2'], 'at least 4'), (['-f', path, '--ctx', '1024'], 'at least two windows'), (['-f', temp('none')], 'none'),
                       (['--reference', temp('none.kl')], 'cannot open'), (['--reference', path], 'not a file of')):
        check(why in infer('perplexity', stories(), *words, status=1).err, why)
    infer('perplexity', stories(), status=2)
    for model, why in (('bert-mean', 'has no logits'), ('dream-dense', 'masked'), ('t5-gated-dense', 'encoder')):
        if cli.find('archs', model + '.gguf'):
            check(why in infer('perplexity', cli.data('archs', model + '.gguf'), '-f', path, '--ctx', '8', status=1).err, why)


def test_bad_reference():
    """Cut at every place that matters, of other tokens, windows and vocabularies, and with figures that are none."""
    path = made_text()
    infer('perplexity', stories(), '-f', path, '--ctx', '64', '--chunks', '2', '--save-logits', temp('good.kl'))
    good = read(temp('good.kl'))
    head = 20 + 4 * 128
    for n in (0, 7, 8, 19, 20, 23, head - 1, head, head + 7, head + 8, head + 9, len(good) - 1):
        write('bad.kl', good[:n])
        check('bad.kl' in infer('perplexity', stories(), '--reference', temp('bad.kl'), status=1).err, 'cut at %d' % n)
    whole = len(good) - head
    for at, value, why in ((8, 3, 'size'), (8, -1, 'size'), (8, 2**31 - 1, 'size'), (12, 0, 'vocabulary'), (12, 511, 'vocabulary'), (12, -1, 'vocabulary'), (16, 0, 'number'),
                           (16, 2**31 - 1, 'number'), (16, 2**24, 'ends within'), (20, -1, 'token 0'), (20 + 4 * 127, 10**6, 'token 127'),
                           (head, 0x7fc00000, 'that are none'), (head + 4, 0x7f800000, 'that are none'), (head + 4, 0x3f800000, 'that are none')):
        write('bad.kl', good[:at] + struct.pack('<I', value % 2**32) + good[at + 4:])
        check(why in infer('perplexity', stories(), '--reference', temp('bad.kl'), status=1).err, '%d = %d: %s' % (at, value, why))
    check(whole > 0 and 'another text' in infer('perplexity', stories(), '--reference', temp('good.kl'), '-f', '-', status=1, stdin=text(99)[5:].encode()).err, 'another text')
    check('windows of 64' in infer('perplexity', stories(), '--reference', temp('good.kl'), '--ctx', '32', status=1).err, 'windows')
    infer('perplexity', stories(), '--reference', temp('good.kl'), '-f', path) # without --ctx: the file's


def test_whole_or_not():
    """What --save-logits writes appears when it is complete."""
    path = made_text()
    infer('perplexity', stories(), '-f', path, '--ctx', '1024', '--save-logits', temp('never.kl'), status=1)
    infer('perplexity', stories(), '-f', path, '--ctx', '64', '--save-logits', os.path.join(temp('nofolder'), 'x.kl'), status=1)
    left = [f for f in os.listdir(cli.TEMP) if f.startswith('never.kl')]
    check(not left, 'left: %s' % left)
    if os.path.exists('/dev/full'):
        infer('perplexity', stories(), '-f', path, '--ctx', '64', '--save-logits', '/dev/full', status=1)


def questions():
    """The same 40 questions in each form: files, by Words."""
    w, lines, rows, tasks = Words(7), [], [], []
    for i in range(40):
        lines.append('Story: Once upon a time %s.' % w.sentence())
        lines.append(str(w.below(4)))
        lines += ['Then %s%s' % (w.sentence(), ['.', ' and was happy.', ' in the park. They had fun.'][w.below(3)]) for _ in range(4)]
        a, b = w.one('who'), w.one('who')
        b = 'Zoe' if a == b else b
        rows.append('%d,"%s and %s were friends, so _ %s the %s and smiled all day.",%s,%s,%d' % (i, a, b, w.one('did'), w.one('what'), a, b, 1 + w.below(2)))
        ends = [w.sentence() for _ in range(2 + w.below(4))]
        tasks.append(('Once upon a time %s.' % w.sentence(), ends, w.below(len(ends))))
    return {'hellaswag': write('hs.txt', '\n'.join(lines) + '\n'), 'winogrande': write('wg.csv', '\r\n'.join(rows) + '\n'),
            'tasks': write('tasks.bin', packed(tasks))}


def packed(tasks):
    def one(s):
        return struct.pack('<I', len(s.encode())) + s.encode()
    bodies = [one(q) + struct.pack('<I', len(ends)) + b''.join(map(one, ends)) + struct.pack('<%dI' % len(ends), *[int(i == k) for i in range(len(ends))])
              + struct.pack('<I', 1) + one('x') + struct.pack('<I', 0) for q, ends, k in tasks]
    return struct.pack('<I%dI' % len(tasks), len(tasks), *[sum(map(len, bodies[:i])) for i in range(len(tasks))]) + b''.join(bodies)


def test_choices():
    """As many right answers as llama.cpp finds."""
    for form, path in questions().items():
        for model in (stories(), tiny_stories()):
            done = infer('perplexity', model, '-f', path, '--choices', form, '--exact', '--json').json()
            want = LLAMA_RIGHT[form][model == tiny_stories()]
            check(done['questions'] == 40 and done['right'] == want, '%s: %s, not %d' % (form, done, want))
            near(done['accuracy'], want / 40, 1e-6, 'accuracy')
            near(done['error'], math.sqrt(want / 40 * (1 - want / 40) / 39), 1e-6, 'error')
    done = infer('perplexity', stories(), '-f', temp('hs.txt'), '--choices', 'hellaswag', '--chunks', '7', '--json').json()
    check(done['questions'] == 7 and done['chance'] == 0.25, '%s' % done)
    rows = infer('perplexity', stories(), tiny_stories(), '-f', temp('hs.txt'), '--choices', 'hellaswag').out.decode().splitlines()
    check(len(rows) == 3 and 'accuracy' in rows[0], '%s' % rows)
    check('of 40 questions' in infer('perplexity', stories(), '-f', temp('hs.txt'), '--choices', 'hellaswag').out.decode(), 'text')


def test_bad_choices():
    good = {form: read(path) for form, path in questions().items()}
    lines = good['hellaswag'].split(b'\n')
    task = packed([('q', ['a', 'b'], 0)])
    for form, data, why in (('hellaswag', b'', 'no questions'), ('hellaswag', b'\n'.join(lines[:5]), 'six lines'), ('hellaswag', b'\n'.join(lines[:1]), 'six lines'),
                            ('hellaswag', b'a\n4\nb\nc\nd\ne\n', '0 to 3'), ('hellaswag', b'a\n1\nb\n\nd\ne\n', 'empty'),
                            ('hellaswag', b'a\n1\nb\nb\nb\nb\n', 'no tokens of its own'), ('hellaswag', b'a ' * 3000 + b'\n1\nb\nc\nd\ne\n', '--ctx'),
                            ('winogrande', b'0,a _ b,c,d', 'five fields'), ('winogrande', b'0,a _ b,c,d,3', 'neither'), ('winogrande', b'0,a b,c,d,1', 'no _'),
                            ('winogrande', b'0,"a _ b,c,d,1', 'five fields'), ('winogrande', b'0,"a _ b"x,c,d,1', 'five fields'), ('winogrande', b'0,a _ b,c,,1', 'empty'),
                            ('tasks', b'', 'no file of tasks'), ('tasks', b'\0\0\0\0', 'no file of tasks'), ('tasks', b'\xff\xff\xff\xff' + task, 'no file of tasks'),
                            ('tasks', packed([('q', ['a'], 0)]), 'two answers'), ('tasks', packed([('q', ['a', 'b'], 5)]), 'one of them right')):
        write('bad.txt', data)
        check(why in infer('perplexity', stories(), '-f', temp('bad.txt'), '--choices', form, status=1).err, '%s: %s' % (form, why))
    for n in range(1, len(task)):
        write('bad.txt', task[:n])
        infer('perplexity', stories(), '-f', temp('bad.txt'), '--choices', 'tasks', status=1)
    infer('perplexity', stories(), '--choices', 'tasks', status=2)


LLAMA = (8.2982, 9.0685, 477.9033)
LLAMA_RIGHT = {'hellaswag': (12, 10), 'winogrande': (18, 16), 'tasks': (10, 11)}


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
