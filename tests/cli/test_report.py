#!/usr/bin/env python3
"""Tests of --report of quantize, perplexity and bench: python3 tests/cli/test_report.py build/infer [WORD...]

Reports are read as XML: pages are written so that they are that as well. With Chromium, pages and pictures are also laid out, and
their texts must be where they can be read. The same harness as test_cli.py.
"""
import html.parser
import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import gguf_file
import test_cli as cli
import wasm_page
from test_cli import check, infer, read, temp, write
from test_perplexity import made_text, stories, tiny_stories
from test_quantize import floats, made, small

SVG, XHTML = '{http://www.w3.org/2000/svg}', '{http://www.w3.org/1999/xhtml}'
HOSTILE = ['<script>alert(1)</script>.weight', 'blk.0.&lt;"\'>&amp;.weight', b'blk.1.\xff\xfe\xc0\xaf\xed\xa0\x80.weight', 'blk.2.' + 'very_long_name_' * 20 + '.weight',
           b'blk.3.\x01\x1b[31m\x7f\xef\xbf\xbe.weight', 'blk.2147483647.a.weight', 'blk.99999999999999999999.b.weight', 'blk.-1.c.weight', 'blk.600.d.weight',
           'blk.4.\u202etxt.\u4e2d\u6587\U0001f600.weight', ']]><!--.weight', 'blk.5.%s%n%d.weight']


class Page:
    """A report: title, tables as lists of rows of texts, texts and titles of plots."""
    def __init__(self, path):
        self.text = read(path).decode('utf-8')
        root = ET.fromstring(self.text)
        self.is_page = root.tag == XHTML + 'html'
        check(self.is_page or root.tag == SVG + 'svg', 'the root is %s' % root.tag)
        for e in root.iter():
            check(e.tag.split('}')[1] in 'html head meta title style body h1 h2 p b code figure figcaption div table tr th td svg g text line rect circle polyline'.split(), 'an element: %s' % e.tag)
            for name, value in e.attrib.items():
                check(name in ('lang charset name content http-equiv class tabindex role viewBox x y x1 y1 x2 y2 width height cx cy r points fill').split(), 'an attribute: %s' % name)
                check('nan' not in value and 'inf' not in value, '%s="%s"' % (name, value))
        check(not re.search(r'url\(|@import|https?:(?!//www.w3.org/(2000/svg|1999/xhtml)")', self.text), 'something from outside')
        self.tables = [[[''.join(c.itertext()) for c in row] for row in table.iter(XHTML + 'tr')] for table in root.iter(XHTML + 'table')]
        self.texts = [''.join(e.itertext()) for e in root.iter(SVG + 'text')]
        self.titles = [''.join(e.itertext()) for e in root.iter(SVG + 'title')]
        self.headings = [''.join(e.itertext()) for e in root.iter(XHTML + 'h2')]
        self.head = ''.join(next(root.iter(XHTML + 'h1'), root).itertext())

    def table(self, first):
        """The one whose first heading is that, without its headings: dictionaries."""
        found = [t for t in self.tables if t[0][0] == first]
        check(len(found) == 1 and all(len(row) == len(found[0][0]) for row in found[0]), 'tables of %s: %d' % (first, len(found)))
        return [dict(zip(found[0][0], row)) for row in found[0][1:]]


def near(text, value, what):
    check(abs(float(text) - value) <= 2e-5 * abs(value), '%s: %s, not %.9g' % (what, text, value))


def test_quantize():
    """All figures of --json are in the tables; kinds add up to the model."""
    done = infer('quantize', made(), 'Q4_K_M', '--dry-run', '--compare', 'q2_k,Q4_K,Q8_0,q2_k', '--json', '--report', temp('q.html')).json()
    page = Page(temp('q.html'))
    check(page.head == 'Quantising made0.gguf' and '--compare q2_k,Q4_K,Q8_0,q2_k' in page.text, page.head)
    rows = page.table('tensor')
    check([r['tensor'] for r in rows] == [t['name'] for t in done['tensors']], 'names')
    for r, t in zip(rows, done['tensors']):
        check((r['from'], r['to'], int(r['after'])) == (t['from'], t['type'], t['bytes']), '%s, not %s' % (r, t))
        if 'error' in t:
            near(r['error'], t['error'], t['name'])
        else:
            check(r['error'] == '', 'the error of what stays')
    check([c['type'] for c in done['compared']] == ['Q4_K_M', 'Q2_K', 'Q8_0'], '%s' % done['compared'])
    for r, c in zip(page.table('type'), done['compared']):
        check((r['type'], int(r['bytes'])) == (c['type'], c['bytes']), '%s, not %s' % (r, c))
        near(r['bits per value'], c['bits'], 'bits')
        near(r['mean error'], c['error'], 'error')
        check(c['type'] in page.texts and '%s: %.4g' % (c['type'], c['error']) in page.titles, 'the point of ' + c['type'])
    kinds = {r['kind']: r for r in page.table('kind')}
    check(int(kinds['all']['bytes after']) == sum(t['bytes'] for t in done['tensors']) == sum(int(r['bytes after']) for k, r in kinds.items() if k not in
          ('all', 'the file, with its metadata')), 'the sum')
    check(int(kinds['attn_q']['tensors']) == 16 and int(kinds['vectors']['tensors']) == 33, '%s' % kinds)
    check(int(kinds['the file, with its metadata']['bytes after']) == done['bytes'] == done['compared'][0]['bytes'], 'the file')
    cells = [t for t in page.titles if t.startswith('layer 15: ')]
    check(len(cells) == 7 * 2 and page.headings[1:3] == ['Error by layer', 'Bits by layer'], '%s, %s' % (cells, page.headings))
    down = next(t['error'] for t in done['tensors'] if t['name'] == 'blk.15.ffn_down.weight')
    check('layer 15: %.4g' % down in page.titles, 'the cell of ffn_down')


def test_compared():
    """The errors and sizes of --compare are those of each type alone; --target-size has a row of its own; a model that is written has a report too."""
    done = infer('quantize', small(), 'Q4_0', '--dry-run', '--compare', 'Q2_K,Q6_K,F32', '--json').json()['compared']
    count = {name: dims[0] * dims[1] if len(dims) == 2 else dims[0] * dims[1] * dims[2] if len(dims) == 3 else dims[0] for name, (dims, _, _) in gguf_file.Gguf(small()).tensors.items()}
    for c in done:
        alone = infer('quantize', small(), c['type'], '--dry-run', '--errors', '--json').json()
        check(alone['bytes'] == c['bytes'], '%s: bytes' % c)
        want = sum(t.get('error', 0) * count[t['name']] for t in alone['tensors']) / sum(count.values())
        check(abs(c['error'] - want) <= 1e-6 * want, '%s, not %g' % (c, want))
    done = infer('quantize', made(), 'Q4_K', '--dry-run', '--target-size', '6M', '--compare', 'Q4_K', '--json').json()
    check([c['type'] for c in done['compared']] == ['--target-size', 'Q4_K_M'] and done['compared'][0]['bytes'] == done['bytes'] <= 6 << 20, '%s' % done['compared'])
    shown = infer('quantize', small(), 'Q4_0', '--dry-run', '--compare', 'Q8_0').out.decode().splitlines()
    check(shown[-3].split() == ['size', 'bits', 'mean', 'error', 'type'] and shown[-2].endswith('  Q4_0') and shown[-1].endswith('  Q8_0'), '%s' % shown)
    infer('quantize', small(), temp('out.gguf'), 'Q4_0', '--report', temp('w.html'))
    page = Page(temp('w.html'))
    check(page.headings == ['Bits by layer', 'Bytes by kind of tensor'] and all(r['error'] == '' for r in page.table('tensor')), '%s' % page.headings)
    check(int(page.table('kind')[-1]['bytes after']) == os.path.getsize(temp('out.gguf')), 'the size of the file')


def test_picture():
    """The same plots as on the page."""
    words = ['quantize', made(), 'Q4_K_M', '--dry-run', '--compare', 'Q2_K,Q8_0']
    infer(*words, '--report', temp('q.html'))
    infer(*words, '--report', temp('q.svg'))
    page, picture = Page(temp('q.html')), Page(temp('q.svg'))
    check(page.is_page and not picture.is_page and page.titles == picture.titles, 'titles of marks')
    check(not set(page.texts + page.headings) - set(picture.texts), 'texts: %s' % (set(page.texts) - set(picture.texts)))


def test_perplexity():
    """Several models: a point and a row each. One model: its figures, along the text and the window."""
    path = made_text()
    infer('perplexity', stories(), '-f', path, '--ctx', '64', '--save-logits', temp('all.kl'))
    models = [stories(), tiny_stories(), stories()]
    done = infer('perplexity', *models, '-f', path, '--ctx', '64', '--json', '--report', temp('p.html')).json()
    page = Page(temp('p.html'))
    rows = page.table('model')
    check([r['model'] for r in rows] == models and page.headings == ['Size and perplexity'], '%s' % page.headings)
    for r, d, m in zip(rows, done, models):
        check(int(r['bytes']) == os.path.getsize(m), 'bytes')
        near(r['perplexity'], d['perplexity'], 'perplexity')
        near(r['+/-'], d['error'], 'error')
    check(page.texts.count('stories260K.F32') == 2, 'labels: %s' % page.texts)
    infer('quantize', stories(), temp('q4.gguf'), 'Q4_0')
    done = infer('perplexity', temp('q4.gguf'), '--reference', temp('all.kl'), '--json', '--report', temp('p.html')).json()
    page = Page(temp('p.html'))
    figures = {r['figure']: r['value'] for r in page.table('figure')}
    for name, key, factor in (('perplexity', 'perplexity', 1), ('perplexity +/-', 'error', 1), ('ln of ratio', 'log_ratio', 1), ('ln of ratio +/-', 'log_ratio_error', 1), ('KL mean', 'kl_mean', 1),
                              ('KL mean +/-', 'kl_error', 1), ('median', 'kl_median', 1), ('99 %', 'kl_99', 1), ('maximum', 'kl_max', 1), ('top 1 %', 'top1', 100), ('p RMS %', 'p_rms', 100)):
        near(figures[name], factor * done[key], name)
    for title, n in (('Along the text', len(page.tables[1]) - 1), ('By position in the window', 31)):
        table = [[float(x) for x in row] for row in page.tables[page.headings.index(title)][1:]]
        check(len(table) == n and [row[0] for row in table] == list(range(*((1, n + 1) if n != 31 else (32, 63)))), '%s: %s' % (title, table))
        near(sum(row[1] for row in table) / n, done['kl_mean'], title)
    infer('perplexity', stories(), '-f', path, '--ctx', '8', '--json', '--report', temp('p.html'))
    table = Page(temp('p.html')).tables[1]
    check(len(table) == 101, 'many windows are taken together: %d' % len(table))
    infer('perplexity', tiny_stories(), '--reference', temp('all.kl'), '--report', temp('p.svg'), status=1) # another vocabulary
    check(not os.path.exists(temp('p.svg')), 'a report of nothing')


def test_choices():
    lines = ['q: a\n%d\nb%d\nc\nd\ne\n' % (i % 4, i) for i in range(5)]
    path = write('hs.txt', ''.join(lines))
    done = infer('perplexity', stories(), tiny_stories(), '-f', path, '--choices', 'hellaswag', '--json', '--report', temp('c.html')).json()
    for r, d in zip(Page(temp('c.html')).table('model'), done):
        check((int(r['right']), int(r['questions'])) == (d['right'], d['questions']), '%s, not %s' % (r, d))
        near(r['accuracy %'], 100 * d['accuracy'], 'accuracy')


def test_bench():
    """Rates lie within their ranges; with --profile each operation has a bar and a row."""
    model = stories()
    done = infer('bench', model, '-p', '4,9', '-n', '3', '-r', '3', '-t', '2', '--profile', '--json', '--report', temp('b.html')).json()
    page = Page(temp('b.html'))
    rows = page.table('what')
    check([r['what'] for r in rows] == ['prompt of 4', 'prompt of 9', 'generation of 3'], '%s' % rows)
    for r, want in zip(rows, [p['tps'] for p in done['prompts']] + [done['tps']]):
        near(r['tokens/s'], want, r['what'])
        check(float(r['lowest']) <= float(r['tokens/s']) <= float(r['highest']), '%s' % r)
    near(rows[2]['GB/s'], done['gbs'], 'bandwidth') if done['gbs'] > 0.1 else None
    operations = page.table('operation')
    check([r['operation'] for r in operations] == [r['op'] for r in done['profile']], 'operations')
    for r, d in zip(operations, done['profile']):
        check(int(r['calls']) == d['calls'] and abs(float(r['seconds']) - max(0, d['seconds'])) < 1e-6, '%s, not %s' % (r, d))
        check(r['operation'] in page.texts, 'the bar of ' + r['operation'])
    infer('bench', model, '-p', '0', '-n', '1', '-r', '1', '--report', temp('b.svg'))
    picture = Page(temp('b.svg'))
    check('generation of 1' in picture.texts and 'cpu, ' in ' '.join(picture.texts), 'one bar')
    infer('synth', 'minilm-l6,layers=1,vocab=600', 'q8_0', temp('bert.gguf'))
    done = infer('bench', temp('bert.gguf'), '--embed', '3', '--texts', '9', '-r', '2', '--json', '--report', temp('b.html')).json()
    row = Page(temp('b.html')).table('what')[0]
    near(row['texts/s'], done['prompts'][0]['texts_per_s'], 'texts')
    near(row['tokens/s'], done['prompts'][0]['tps'], 'tokens')


def test_hostile_names():
    """Names that would be elements, end a comment, are no UTF-8 or no characters of XML, that are long, and layers that no model has."""
    data = floats([0.01 * (i % 37) - 0.15 for i in range(512)])
    name = '<b>"&\'.gguf' if os.name != 'nt' else 'b.gguf'
    gguf_file.write(temp(name), {'general.architecture': 'made'}, [(n, [256, 2], 0, data) for n in HOSTILE])
    infer('quantize', temp(name), 'Q4_0', '--dry-run', '--errors', '--report', temp('h.html'))
    page = Page(temp('h.html'))
    check(page.head == 'Quantising ' + name, page.head)
    rows = page.table('tensor')
    check(len(rows) == len(HOSTILE) and rows[0]['tensor'] == HOSTILE[0] and rows[1]['tensor'] == HOSTILE[1] and rows[3]['tensor'] == HOSTILE[3], 'names that are texts')
    check(rows[2]['tensor'] == 'blk.1.' + '\ufffd' * 7 + '.weight' and rows[4]['tensor'] == 'blk.3.\ufffd\ufffd[31m\ufffd\ufffd.weight', 'names that are none: %r %r' % (rows[2], rows[4]))
    check(all(r['error'] for r in rows) and 'blk.2147483647.a' in page.texts, 'errors')
    check(all(len(t) <= 60 for t in page.texts), 'texts of plots are cut: %s' % page.texts)

    class Reader(html.parser.HTMLParser): # as a browser reads it, not as XML
        def handle_starttag(self, tag, attrs):
            check(tag not in ('script', 'b') or not attrs, 'an element from a name: %s' % tag)
            names.append(tag)
    names = []
    Reader().feed(page.text)
    check('script' not in names and names.count('table') == 2, '%s' % set(names))
    copy = temp('a<i>.gguf') if os.name != 'nt' else temp('a.gguf')
    with open(copy, 'wb') as f:
        f.write(read(stories()))
    infer('perplexity', copy, copy, '-f', made_text(), '--ctx', '64', '--chunks', '1', '--report', temp('h.html'))
    check(Page(temp('h.html')).table('model')[0]['model'] == copy, 'the name of a model')


def test_many_kinds():
    """More kinds than a plot has lines, more layers than it has columns: nothing is lost from the sums."""
    data = floats([1.0] * 64)
    tensors = [('blk.%d.kind_%d.weight' % (i * 7, i), [32, 2], 0, data) for i in range(90)]
    gguf_file.write(temp('many.gguf'), {'general.architecture': 'made'}, tensors)
    infer('quantize', temp('many.gguf'), 'Q8_0', '--dry-run', '--errors', '--report', temp('m.html'))
    kinds = Page(temp('m.html')).table('kind')
    check(len(kinds) == 26 and sum(int(k['tensors']) for k in kinds[:-2]) == 90 == int(kinds[-2]['tensors']), '%s' % kinds)
    check('others' in [k['kind'] for k in kinds], 'others')


def test_little():
    """No tensors, a vector alone, one matrix outside of layers, a matrix of zeros."""
    for tensors in ([], [('a.weight', [32], 0, floats([1.0] * 32))], [('output.weight', [32, 4], 0, floats([0.5] * 128))], [('blk.0.a.weight', [32, 2], 0, floats([0.0] * 64))]):
        gguf_file.write(temp('little.gguf'), {'general.architecture': 'made'}, tensors)
        for name in ('l.html', 'l.svg'):
            done = infer('quantize', temp('little.gguf'), 'Q4_0', '--dry-run', '--compare', 'Q8_0', '--json', '--report', temp(name)).json()
            page = Page(temp(name))
            check(not page.is_page or len(done['tensors']) == len(page.table('tensor')), '%s' % tensors)
            check('Bytes by kind of tensor' in page.headings + page.texts, name)


def test_infinite():
    """A model whose perplexity is infinite beside one that is not: at the edge of the plot, by name in the table."""
    g = gguf_file.Gguf(stories())
    dims, kind, offset = g.tensors['output.weight' if g.has('output.weight') else 'token_embd.weight']
    n, data = dims[0] * dims[1], bytearray(g.data)
    at = g.start + offset
    data[at:at + 4 * n] = struct.pack('<%df' % n, *[1e6 * x for x in struct.unpack_from('<%df' % n, g.data, at)])
    bad = write('bad.gguf', bytes(data))
    words = ['-f', made_text(), '--ctx', '64', '--chunks', '2', '--json']
    for models in ([bad], [bad, bad], [bad, stories()]):
        done = infer('perplexity', *models, *words, '--report', temp('i.html')).json()
        check((done if len(models) == 1 else done[0])['perplexity'] is None, '%s' % done)
        page = Page(temp('i.html'))
        value = page.table('figure')[1]['value'] if len(models) == 1 else page.table('model')[0]['perplexity']
        check(value == 'inf' and (len(models) == 1 or 'bad: infinite' in page.titles), '%s: %s' % (value, page.titles))
        infer('perplexity', *models, *words, '--report', temp('i.svg'))
        Page(temp('i.svg'))


def test_refused():
    """Names and places that cannot be are found before the work: nothing is on stdout, and no file anywhere."""
    path, model = made_text(), stories()
    html_model = write('model.html', read(small()))
    page_text = write('text.html', read(path))
    for words in (['quantize', small(), 'Q4_0', '--dry-run'], ['perplexity', model, '-f', path], ['bench', model, '-p', '4', '-n', '0', '-r', '1']):
        for name, status in (('x', 2), ('x.htm', 2), ('x.SVG', 2), ('.svg', 2), ('-', 2), ('', 2), (os.path.join(temp('nofolder'), 'x.svg'), 1), (temp('folder.html'), 1)):
            os.makedirs(temp('folder.html'), exist_ok=True)
            done = infer(*words, '--report', name, status=status)
            check(done.out == b'' and (status == 1 or '--report' in done.err), '%s: %r, %s' % (name, done.out, done.err))
    infer('quantize', html_model, 'Q4_0', '--dry-run', '--report', html_model, status=2)
    infer('quantize', small(), temp('y.html'), 'Q4_0', '--report', temp('y.html'), status=2)
    infer('perplexity', model, '-f', page_text, '--report', page_text, status=2)
    infer('perplexity', html_model, '-f', path, '--report', html_model, status=2)
    infer('bench', html_model, '-p', '4', '--report', html_model, status=2)
    check(read(html_model) == read(small()) and read(page_text) == read(path) and not os.path.exists(temp('y.html')), 'an input was replaced')
    for words in (['--lookup'], ['--requests', '2']):
        check('--report' in infer('bench', model, *words, '-p', '4', '-n', '2', '--report', temp('z.html'), status=2).err, '%s' % words)
    for words, why in ((['--compare', 'Q2_K'], 'dry-run'), (['--dry-run', '--compare', 'Q2_K,nope'], "'nope'"), (['--dry-run', '--compare', 'Q2_K,'], "''"),
                       (['--dry-run', '--compare', ''], "''"),
                       (['--dry-run', '--compare', 'F16,BF16,Q8_0,Q4_0,Q4_1,Q5_0,Q5_1,Q2_K,Q2_K_S,Q3_K_S,Q3_K_M,Q3_K_L,Q4_K_S,Q4_K_M,Q5_K_S,Q5_K_M,Q6_K'], 'at most')):
        check(why in infer('quantize', small(), temp('z.gguf'), 'F32', *words, status=2).err, why)
    infer('perplexity', model, '-f', path, '--ctx', '100000', '--report', temp('z.html'), status=1)
    left = [f for f in os.listdir(cli.TEMP) if f.startswith(('x', 'z', 'y.')) or '.part' in f]
    check(not left, 'left: %s' % left)


def test_full_disk():
    """A file that cannot grow: one line, no part of it is left, and an older report stays."""
    if os.name != 'posix':
        raise cli.Skipped('cpu: no limits on the size of files')
    import resource
    old = write('full.html', 'as it was')
    words = [cli.INFER, 'quantize', made(), 'Q4_0', '--dry-run', '--report', old]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit, restore_signals=False)
    check(done.returncode == 1 and b'disk space' in done.stderr, '%d: %s' % (done.returncode, done.stderr))
    check(read(old) == b'as it was' and not [f for f in os.listdir(cli.TEMP) if '.part' in f], 'what is left')


LAYOUT = r"""(() => {
  const bad = [], over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5;
  if (document.documentElement.scrollWidth > window.innerWidth && document.body) bad.push('the page is wider than the window');
  for (const svg of document.querySelectorAll(document.body ? 'figure>svg' : 'svg>svg')) {
    const frame = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    if (frame.width < 200) bad.push('a plot of ' + frame.width + ' pixels');
    texts.forEach(([s, r], i) => {
      if (r.left < frame.left - 3 || r.right > frame.right + 12 || r.top < frame.top - 3 || r.bottom > frame.bottom + 3) bad.push('outside: ' + s);
      texts.slice(0, i).forEach(([t, q]) => { if (over(r, q)) bad.push('overlap: ' + s + ' and ' + t); });
    });
  }
  return bad.join('; ');
})()"""


def test_chromium():
    """Laid out wide, narrow and dark: no text of a plot is cut or covers another, the page is not wider than the window."""
    program = wasm_page.chromium()
    if program is None:
        raise cli.Skipped('chromium is not installed')
    path, reports = made_text(), []

    def made_by(name, *words):
        for ending in ('.html', '.svg'):
            infer(*words, '--report', temp(name + ending))
            reports.append(temp(name + ending))
    infer('quantize', stories(), temp('q4.gguf'), 'Q4_0')
    infer('perplexity', stories(), '-f', path, '--ctx', '64', '--save-logits', temp('all.kl'))
    made_by('c1', 'quantize', made(1), 'Q4_K_M', '--dry-run', '--compare', 'Q3_K_M,Q4_0,Q4_1,Q5_0,Q5_1,Q6_K,Q8_0,TQ2_0,MXFP4,NVFP4,F16')
    made_by('c2', 'perplexity', stories(), tiny_stories(), temp('q4.gguf'), '-f', path, '--ctx', '64')
    made_by('c3', 'perplexity', temp('q4.gguf'), '--reference', temp('all.kl'))
    made_by('c4', 'bench', stories(), '-p', '4,64', '-n', '3', '-r', '2', '--profile')
    gguf_file.write(temp('hostile.gguf'), {'general.architecture': 'made'}, [(n, [256, 2], 0, floats([0.01 * (i % 37) for i in range(512)])) for n in HOSTILE])
    made_by('c5', 'quantize', temp('hostile.gguf'), 'Q4_0', '--dry-run', '--errors')
    browser = wasm_page.Browser(program, temp('browser'))
    try:
        for report in reports:
            browser.session = None
            browser.show('file://' + report)
            browser.wait("document.readyState === 'complete' && location.protocol === 'file:'")
            for width, scheme in ((1200, 'light'), (360, 'light'), (360, 'dark')):
                if report.endswith('.svg') and width == 360:
                    continue
                browser.call('Emulation.setDeviceMetricsOverride', width=width, height=800, deviceScaleFactor=1, mobile=False)
                browser.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}])
                bad = browser.value(LAYOUT)
                check(bad == '', '%s at %d: %s' % (os.path.basename(report), width, bad))
            if report.endswith('.html'):
                colors = browser.value("getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector('svg text')).fill")
                check(colors in ('rgb(21, 25, 29)rgb(228, 232, 236)', 'rgb(21, 25, 29)rgb(163, 173, 183)'), 'dark: %s' % colors)
        browser.session = None
        browser.call('Browser.close')
    finally:
        browser.process.kill()
        browser.process.wait()


def all_tests():
    return cli.tests_in(globals())


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
