#!/usr/bin/env python3
"""Tests of the chat page of `infer serve` in headless Chromium, by selenium: python3 tests/cli/test_serve_page.py build/infer [WORD...]

The server is scripted_server.py, whose policy for the page is the one that the program sends; the last section has the program itself,
where it was built with GNU libmicrohttpd. The same harness as test_cli.py.
"""
import base64
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import time
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import test_cli as cli
import wasm_page
from test_cli import check, read, temp, write

ROOT = os.path.dirname(os.path.dirname(cli.HERE))
PAGE = os.path.join(ROOT, 'tools', 'infer', 'serve', 'page')
SECONDS = 120 # of waiting: machines are stopped at times
started = []


def missing():
    """What the tests need and this computer lacks."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return 'the Python package selenium is not installed'
    return next((name + ' is not installed' for name, there in (('chromium', wasm_page.chromium()), ('chromium-driver', shutil.which('chromedriver'))) if not there), None)


class Page:
    """The page in a browser, with what tests do to it."""
    def __init__(self):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        import scripted_server
        options = webdriver.ChromeOptions()
        # Debian's command is a script, behind which the driver would not find the browser to end it
        program, behind = shutil.which(wasm_page.chromium()), '/usr/lib/chromium/' + wasm_page.chromium()
        options.binary_location = behind if os.path.exists(behind) else program
        for word in ('--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'):
            options.add_argument(word)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which('chromedriver')))
        self.driver.set_script_timeout(SECONDS)
        self.driver.set_page_load_timeout(SECONDS)
        self.driver.execute_cdp_cmd('Browser.setDownloadBehavior', {'behavior': 'allow', 'downloadPath': temp('')})
        self.server = scripted_server.Server()
        self.url = self.server.url

    def js(self, code, *args):
        return self.driver.execute_script(code, *args)

    def all(self, css):
        return self.driver.find_elements('css selector', css)

    def one(self, css):
        found = self.all(css)
        check(found, 'there is no ' + css)
        return found[0]

    def wait(self, code, what=None):
        """Until the expression is true; what it is."""
        end, value = time.time() + SECONDS, None
        while time.time() < end:
            value = self.js('return ' + code)
            if value:
                return value
            time.sleep(0.03)
        check(False, '%s: %r' % (what or code, value))

    def size(self, width, height=800, dark=False):
        self.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False})
        self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}]})

    def open(self, ready=True):
        self.driver.get(self.url)
        if ready:
            self.wait("document.getElementById('name').textContent || document.getElementById('model').value", 'the name of the model')

    def fresh(self, url=None, **settings):
        """A new page of a browser that has kept nothing. settings are attributes of the scripted server; url is that of another."""
        self.size(1200)
        self.server.reset()
        self.url = url or self.server.url
        for name, value in settings.items():
            setattr(self.server, name, value)
        self.driver.get(self.url)
        self.js('localStorage.clear(); sessionStorage.clear()')
        self.driver.get_log('browser')
        self.open('key' not in settings)

    def keys(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def say(self, text, wait=True):
        from selenium.webdriver.common.keys import Keys
        self.one('#text').send_keys(text + Keys.ENTER)
        if wait:
            self.idle()

    def idle(self):
        self.wait("document.getElementById('send').getAttribute('aria-label') === 'Send'", 'the end of the reply')

    def click(self, css):
        element = self.one(css)
        self.js('arguments[0].scrollIntoView({block: "nearest"})', element)
        element.click()

    def texts(self, css):
        return self.js('return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)', css)

    def kept(self):
        return [json.loads(text) for text in self.js("return Object.keys(localStorage).filter((k) => k.startsWith('infer.c.')).map((k) => localStorage.getItem(k))")]

    def wrong(self):
        """What the browser complained of, but for answers of the server that are errors."""
        return [line['message'] for line in self.driver.get_log('browser') if not re.search('Failed to load resource|net::ERR_', line['message'])]


def page(**settings):
    """The browser, started once for all tests."""
    why = missing()
    if why:
        raise cli.Skipped(why)
    if not started:
        started.append(Page())
    started[0].fresh(**settings)
    return started[0]


# ---- the file --------------------------------------------------------------------------------------------------------

def test_embedded():
    """The header is what the folder gives, and its strings are the page; nothing from outside, nothing that the policy forbids."""
    sys.path.insert(1, os.path.join(ROOT, 'tools'))
    import embed_page
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'embed_page.py'), '--check'], stderr=subprocess.PIPE, text=True)
    check(done.returncode == 0, done.stderr)
    text = embed_page.page()
    cc = os.environ.get('CC', 'cc').split()
    if shutil.which(cc[0]):
        source = write('page.c', '#include <stdio.h>\n#include "%s"\nint main(void) {\n    for (size_t i = 0; i < sizeof page_pieces / sizeof *page_pieces; i++) fputs(page_pieces[i], stdout);\n'
                       '    fputs(PAGE_POLICY, stderr);\n    return 0;\n}\n' % os.path.join(PAGE, '..', 'page_embed.h'))
        subprocess.run(cc + ['-Wall', '-Wextra', '-Werror', source, '-o', temp('page')], check=True)
        done = subprocess.run([temp('page')], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(done.stdout == text.encode(), 'the strings are not the page')
        check(done.stderr.decode() == embed_page.policy(text), 'the policy')
    check(not re.search(r'/\* \w+\.(js|css) \*/|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|@import|url\((?!#)', text), 'what the page must not have')
    check(not re.search(r'<[^>]*\s(style|on\w+)=', text), 'a style or a handler in an attribute')
    addresses = {a for a in re.findall(r'(?:https?:)?//[\w.-]+\.\w+', text)}
    check(addresses <= {'http://www.w3.org'}, 'addresses: %s' % addresses)
    for name in os.listdir(PAGE):
        lines = read(os.path.join(PAGE, name)).decode().splitlines()
        check(len(lines) < 1000, '%s has %d lines' % (name, len(lines)))


# ---- a conversation --------------------------------------------------------------------------------------------------

def conversation(p):
    """Two turns, both of them there after a reload. The replies."""
    p.say('Hello there')
    p.say('And again')
    replies = p.texts('article.assistant .md')
    check(p.texts('article.user .said') == ['Hello there', 'And again'] and len(replies) == 2 and all(replies), '%s' % replies)
    check('tokens/s' in p.texts('article.assistant .foot')[1], p.texts('article.assistant .foot'))
    check(re.match(r'[\d,]+ of [\d,]+ tokens of context', p.texts('#used')[0]), p.texts('#used'))
    check(0 < p.js("return document.getElementById('meter').value") < 1, 'context used')
    p.open()
    check(p.texts('article.assistant .md') == replies and 'tokens/s' in p.texts('article.assistant .foot')[1], 'after the reload: %s' % p.texts('article'))
    check(p.texts('#list .open') == ['Hello there'] and 'Hello there' in p.driver.title, 'the list')
    check(not p.wrong(), p.wrong())
    return replies


def test_conversation():
    """The second turn carries the first; nothing is asked for that was not set."""
    p = page()
    replies = conversation(p)
    check(replies == ['Reply 1 to: Hello there', 'Reply 2 to: And again'], '%s' % replies)
    body = p.server.bodies[1]
    check([(m['role'], m['content']) for m in body['messages']] == [('user', 'Hello there'), ('assistant', replies[0]), ('user', 'And again')], '%s' % body)
    check(body['model'] == 'small' and body['stream'] and body['stream_options'] == {'include_usage': True}, '%s' % body)
    check(sorted(body) == ['messages', 'model', 'stream', 'stream_options'], 'nothing that was not set: %s' % sorted(body))


def test_stop():
    """In the middle: what came stays, the server is told, the next turn works. Also after a reload in the middle."""
    p = page()
    p.say('slow', wait=False)
    p.wait("document.querySelector('article.assistant .md')?.textContent.includes('word9')")
    check(p.one('#send').get_attribute('aria-label') == 'Stop' and p.one('article.assistant').get_attribute('aria-busy') == 'true', 'while it is written')
    p.click('#send')
    p.idle()
    check(p.server.gone.wait(5), 'the request went on')
    text = p.texts('article.assistant .md')[0]
    check('word9' in text and 'stopped' in p.texts('article.assistant .foot')[0] and not p.all('.trouble'), p.texts('article'))
    check(p.one('article.assistant').get_attribute('aria-busy') == 'false', 'busy')
    p.say('next')
    check(p.texts('article.assistant .md') == [text, 'Reply 2 to: next'], p.texts('article'))
    p.say('slow', wait=False)
    p.wait("document.querySelectorAll('article.assistant .md')[2]?.textContent.includes('word9')")
    p.open()
    check('word9' in p.texts('article.assistant .md')[2] and 'stopped' in p.texts('article.assistant .foot')[2] and not p.all('.trouble'), 'a part is kept: %s' % p.texts('article')[-1:])
    p.say('slow', wait=False)
    p.wait("document.querySelectorAll('article.assistant .md')[3]?.textContent.includes('word9')")
    kept = json.loads(p.js("dispatchEvent(new Event('pagehide')); return Object.values(localStorage)[0]"))['messages'] # nothing else has run
    check(len(kept) == 8 and 'word9' in kept[7]['content'] and kept[7]['finish'] == 'stopped', 'what pagehide keeps: %s' % kept[7:])
    p.idle()
    check(not p.wrong(), p.wrong())


def test_versions():
    """Another reply, an edited message: branches, of which each can be seen again."""
    p = page()
    p.say('one')
    p.say('two')
    p.click('article.assistant:last-child [aria-label="Write it again"]')
    p.idle()
    check(p.texts('article.assistant .md') == ['Reply 1 to: one', 'Reply 3 to: two'] and '2 / 2' in p.texts('.foot')[-1], p.texts('article'))
    check([m['content'] for m in p.server.bodies[2]['messages']] == ['one', 'Reply 1 to: one', 'two'], 'what it was asked')
    p.click('article.assistant:last-child .before')
    check(p.texts('article.assistant .md') == ['Reply 1 to: one', 'Reply 2 to: two'], p.texts('article'))
    check(p.js('return document.activeElement.className') == 'tool after', 'the focus after the first version is on the way to the next')
    p.click('article.user [aria-label="Edit"]')
    area = p.one('.edit textarea')
    check(area.get_attribute('value') == 'one', 'what is edited')
    p.keys('!\ue008\ue007\ue000more\ue007') # Shift+Enter, then Enter
    p.idle()
    check(p.texts('article.user .said') == ['one!\nmore'] and p.texts('article.assistant .md')[0].startswith('Reply 4 to: one!'), p.texts('article'))
    check([m['content'] for m in p.server.bodies[3]['messages']] == ['one!\nmore'], '%s' % p.server.bodies[3])
    p.click('article.user .before')
    check(p.texts('article.user .said') == ['one', 'two'], p.texts('article'))
    p.click('article.user [aria-label="Edit"]')
    p.keys('xyz\ue00c') # Escape
    check(p.texts('article.user .said') == ['one', 'two'] and not p.all('.edit'), 'an edit that was left')
    p.open()
    check(p.texts('article.user .said') == ['one', 'two'] and '1 / 2' in p.texts('.foot')[0], 'after the reload')
    check(len(p.kept()[0]['messages']) == 7 and not p.wrong(), p.wrong())


def test_tools():
    """Calls are shown, results are typed, and the reply goes on."""
    p = page()
    p.click('#settings')
    tools = [{'type': 'function', 'function': {'name': 'weather', 'parameters': {'type': 'object'}}}]
    p.one('#tools').send_keys('[')
    check('no JSON' in p.texts('#tools-why')[0], 'half a text')
    p.one('#tools').clear()
    p.one('#tools').send_keys(json.dumps(tools))
    p.click('#sheet .row .shut')
    p.say('tool please')
    check(p.texts('.call summary') == ['Calls weather'] * 2 and p.texts('.call pre') == ['{\n  "city": "Oslo"\n}', '{\n  "city": "Rome<b>"\n}'], p.texts('.call'))
    check(p.server.bodies[0]['tools'] == tools, 'the tools')
    p.all('.call textarea')[0].send_keys('cold\ue007')
    check(len(p.all('.call textarea')) == 1 and len(p.server.bodies) == 1, 'one result of two')
    p.keys('warm')
    p.click('.call .plain')
    p.idle()
    check(p.texts('article.assistant .md')[-1] == 'It is cold, warm.', p.texts('article'))
    messages = p.server.bodies[1]['messages']
    check([m['role'] for m in messages] == ['user', 'assistant', 'tool', 'tool'] and [m.get('tool_call_id') for m in messages[2:]] == ['call_0', 'call_1'], '%s' % messages)
    check(messages[1]['tool_calls'][0] == {'id': 'call_0', 'type': 'function', 'function': {'name': 'weather', 'arguments': '{"city": "Oslo"}'}}, '%s' % messages[1])
    check(not p.all('.call textarea'), 'both are given')
    p.say('tool with the same ids')
    p.all('.call textarea')[0].send_keys('wet\ue007')
    check(len(p.all('.call textarea')) == 1 and len(p.server.bodies) == 3, 'one result of two, after others')
    check(not p.wrong(), p.wrong())


PASTE = """const t = new DataTransfer(), to = arguments[0] === 'drop' ? document.body : document.getElementById('text');
for (const [name, type, data] of arguments[1]) t.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name, {type}));
to.dispatchEvent(arguments[0] === 'drop' ? new DragEvent('drop', {dataTransfer: t, bubbles: true, cancelable: true}) : new ClipboardEvent('paste', {clipboardData: t, bubbles: true, cancelable: true}))"""


def test_pictures():
    """Chosen, pasted, dropped; made small, shown, kept, sent again, edited; refused where the model has no eyes, and what is no picture."""
    media = os.path.join(ROOT, 'tests', 'data', 'media')
    p = page()
    check(p.one('#attach').get_attribute('disabled') and 'takes no pictures' in p.one('#attach').get_attribute('title'), 'without eyes')
    p.js(PASTE, 'paste', [['a.png', 'image/png', wide_png(8, 4)]])
    p.wait("!document.getElementById('notice').hidden")
    check('takes no pictures' in p.texts('#notice span')[0] and not p.all('#attached img') and p.one('#send').get_attribute('disabled'), 'a paste without eyes')
    p = page(vision=True)
    p.wait("!document.getElementById('attach').disabled")
    p.one('#picture').send_keys(os.path.join(media, 'palette.png') + '\n' + os.path.join(media, 'baseline-420.jpg'))
    p.wait("document.querySelectorAll('#attached img').length === 2")
    p.js(PASTE, 'paste', [['wide.png', 'image/png', wide_png(3000, 1500)], ['x.txt', 'text/plain', 'aGk=']])
    p.wait("document.querySelectorAll('#attached img').length === 3")
    p.click('#attached span:nth-child(2) button')
    check(len(p.all('#attached img')) == 2 and p.js('return document.activeElement.id') == 'text', 'one is removed')
    p.say('What is this?')
    parts = p.server.bodies[0]['messages'][0]['content']
    check([x['type'] for x in parts] == ['image_url', 'image_url', 'text'] and parts[2]['text'] == 'What is this?', '%.300s' % parts)
    check(all(re.match('data:image/(png|jpeg);base64,', x['image_url']['url']) for x in parts[:2]), '%.300s' % parts)
    check(len(p.all('article.user .pictures img')) == 2 and not p.all('#attached img'), 'shown')
    sizes = "[...document.querySelectorAll('article.user img')].map((i) => i.naturalWidth + 'x' + i.naturalHeight).join(' ')"
    p.wait(sizes + ".endsWith(' 1024x512') && document.querySelector('article.user img').naturalWidth > 0", 'made small, and drawn')
    p.js(PASTE, 'drop', [['b.png', 'image/png', wide_png(5, 7)], ['broken.png', 'image/png', 'aGkhIQ==']])
    p.wait("document.querySelectorAll('#attached img').length === 1 && !document.getElementById('notice').hidden")
    check('broken.png' in p.texts('#notice span')[0], p.texts('#notice span'))
    p.wait("!document.getElementById('send').disabled")
    p.click('#send')
    p.idle()
    second = p.server.bodies[1]['messages']
    check(second[0]['content'] == parts and [x['type'] for x in second[2]['content']] == ['image_url'], 'sent again, and one without text')
    p.wait(sizes + ".endsWith(' 5x7')")
    p.open()
    check(len(p.all('article.user img')) == 3 and p.kept()[0]['messages'][0]['pictures'] == [x['image_url']['url'] for x in parts[:2]], 'kept')
    p.click('article.user [aria-label="Edit"]')
    p.keys('!\ue007')
    p.idle()
    check(p.server.bodies[2]['messages'][0]['content'] == parts[:2] + [{'type': 'text', 'text': 'What is this?!'}] and len(p.server.bodies[2]['messages']) == 1, 'edited')
    bad = {'id': 'x1', 'messages': [{'id': 'm', 'parent': None, 'role': 'user', 'content': 'hi', 'pictures': ['https://example.org/a.png']},
                                    {'id': 'n', 'parent': 'm', 'role': 'user', 'content': 'ho', 'pictures': ['data:image/svg+xml;base64,PHN2Zy8+']}]}
    p.one('#file').send_keys(write('bad.json', json.dumps({'conversations': [bad]})))
    p.wait("document.getElementById('list').children.length === 2")
    p.js("[...document.querySelectorAll('#list .open')].find((b) => b.textContent === 'Untitled').click()")
    check(p.texts('article.user .said') == ['hi', 'ho'] and not p.all('article.user img'), 'pictures from elsewhere are not shown: %s' % p.texts('article.user'))
    check(not p.wrong(), p.wrong())


def wide_png(width, height):
    """A PNG with a gradient, as base64."""
    rows = b''.join(b'\0' + bytes(v & 255 for x in range(width) for v in (x, y, x ^ y)) for y in range(height))
    chunk = lambda kind, data: struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return base64.b64encode(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows, 1)) + chunk(b'IEND', b'')).decode()


def test_reasoning():
    """Folded, as it is written; not sent again."""
    p = page()
    p.say('reason')
    details = p.one('details.reasoning')
    check(details.get_attribute('open') is None and not p.one('details.reasoning .text').is_displayed(), 'it is folded')
    p.click('details.reasoning summary')
    check(p.one('details.reasoning .text').text.startswith('First <b>this</b>.\nThen that.') and p.texts('article.assistant .md') == ['So yes.'], p.texts('article'))
    p.say('more')
    check(p.server.bodies[1]['messages'][1] == {'role': 'assistant', 'content': 'So **yes**.'}, '%s' % p.server.bodies[1])
    check(not p.wrong(), p.wrong())


def test_keyboard():
    """A conversation without a mouse: order, lines, stop, settings, another conversation; the focus is seen."""
    p = page()
    check(p.js('return document.activeElement.id') == 'text', 'the focus is in the message')
    p.keys('first\ue008\ue007\ue000second\ue007')
    p.idle()
    check(p.texts('article.user .said') == ['first\nsecond'], p.texts('article'))
    check(p.js('return document.activeElement.id') == 'text', 'after the reply')
    p.keys('slow\ue007')
    p.wait("document.querySelectorAll('article.assistant')[1]?.textContent.includes('word5')")
    p.keys('\ue00c')
    p.idle()
    check('stopped' in p.texts('.foot')[-1], 'Escape stops')
    seen = []
    p.js("document.getElementById('new').focus()")
    for _ in range(40):
        seen.append(p.js("const e = document.activeElement, s = getComputedStyle(e); return [e.id || e.getAttribute('aria-label') || e.className, "
                         "s.outlineStyle !== 'none' || getComputedStyle(e.parentNode).boxShadow !== 'none', !!(e.getAttribute('aria-label') || e.textContent || e.labels?.length)]"))
        if seen[-1][0] == 'text':
            break
        p.keys('\ue004') # Tab
    names = [s[0] for s in seen]
    check([n for n in names if n in ('new', 'open', 'Rename', 'export', 'theme', 'settings', 'scroll', 'Copy', 'text')][:8] ==
          ['new', 'open', 'Rename', 'export', 'theme', 'settings', 'scroll', 'Copy'] and names[-1] == 'text', 'the order: %s' % names)
    check(all(s[1] for s in seen[1:]), 'not seen: %s' % [s[0] for s in seen[1:] if not s[1]])
    check(all(s[2] for s in seen), 'without a name: %s' % [s[0] for s in seen if not s[2]])
    p.js("document.getElementById('settings').focus()")
    p.keys('\ue007')
    check(p.js("return document.getElementById('sheet').contains(document.activeElement)"), 'the focus is in the settings')
    p.keys('\ue00c')
    check(not p.one('#sheet').is_displayed() and p.js('return document.activeElement.id') == 'settings', 'and comes back')
    p.js("document.getElementById('new').focus()")
    p.keys('\ue007')
    check(p.js('return document.activeElement.id') == 'text' and not p.all('article'), 'a new conversation')
    check(not p.wrong(), p.wrong())


# ---- what a model says -----------------------------------------------------------------------------------------------

def test_hostile():
    """Elements, handlers and addresses in a reply, in the name of a model, in an error: texts."""
    p = page(models=['<img src=x onerror="document.title=1">'])
    p.say('hostile <script>document.title = 1</script>')
    text = p.texts('article.assistant .md')[0]
    for part in ("<script>document.title = 'owned'</script>", '<img src=x', '<svg onload=alert(1)>', '<iframe>', '<b onclick=alert(1)>', '[x](javascript:alert(1))', '[x](data:text/html,'):
        check(part in text, 'not as it was said: ' + part)
    check(p.js("return document.querySelectorAll('article script, article img, article svg:not(.icon), article iframe, article b, main [onerror], main [onclick], main [style]:not(textarea)').length") == 0, 'elements from a reply')
    check(all(a.startswith('https://example.org/') for a in p.js("return [...document.querySelectorAll('article a')].map((a) => a.href)")), 'addresses')
    check(p.js("return [...document.querySelectorAll('article a')].every((a) => a.rel === 'noopener noreferrer' && a.target === '_blank')"), 'rel')
    check('owned' not in p.driver.title and p.texts('#name') == ['<img src=x onerror="document.title=1">'], 'the title: ' + p.driver.title)
    check(p.texts('#list .open') == ['hostile <script>document.title = 1</script>'], p.texts('#list'))
    check(not p.wrong(), p.wrong())


def test_markdown():
    """Each kind of block as elements; code is copied as it is."""
    p = page()
    p.say('markdown')
    md = 'article.assistant .md'
    check([t.lower() for t in p.js("return [...document.querySelector('%s').children].map((e) => e.tagName)" % md)] ==
          'h2 p h3 ul ol ol blockquote div hr div p'.split(), p.js("return [...document.querySelector('%s').children].map((e) => e.tagName)" % md))
    check([p.texts('%s > p:first-of-type %s' % (md, t)) for t in ('strong', 'em', 'del', 'code')] == [['bold', 'both'], ['italic', 'both'], ['gone'], ['code with <b>']], 'inline')
    check('snake_case_words and 2 * 3 * 4.' in p.texts(md + ' > p')[0] and p.js("return document.querySelectorAll('%s > p br').length" % md) == 1, 'plain')
    check(p.js("return [...document.querySelectorAll('%s a')].map((a) => a.href)" % md) == ['https://example.org/a_(b)?q=1', 'https://example.com/x', 'mailto:a@example.org'], 'links')
    check(p.texts(md + ' ul > li > ul > li strong') == ['bold'] and p.texts(md + ' li li > p') == ['nested bold', 'nested too', 'a paragraph in it'], 'nested: %s' % p.texts(md + ' li li > p'))
    check(p.texts(md + ' > ul > li > p')[2] == '\u2611 done' and p.js("return [...document.querySelectorAll('%s > ol')].map((e) => e.start)" % md) == [3, 5], 'lists')
    check(p.texts(md + ' ol pre') == ['int x = 1;'] and p.texts(md + ' blockquote blockquote') == ['twice'], 'code in a list, quotes')
    check(p.texts(md + ' th') == ['name', 'count', 'side'] and p.texts(md + ' td') == ['a|b', '1', 'left', 'long cell', '20,000', 'x'], 'table: %s' % p.texts(md + ' td'))
    check(p.js("return [...document.querySelectorAll('%s tr:first-child td')].map((e) => e.className).join()" % md) == ',right,center', 'sides')
    code = 'def f(x):\n    return "<script>" + x  # **not bold**\n\nprint(f(1))'
    check(p.texts(md + ' > .code pre')[0].rstrip('\n') == code and p.texts(md + ' > .code .bar span') == ['python'], p.texts(md + ' > .code'))
    p.driver.execute_cdp_cmd('Browser.grantPermissions', {'permissions': ['clipboardReadWrite', 'clipboardSanitizedWrite']})
    p.click(md + ' > .code button')
    p.wait("document.getElementById('status').textContent === 'Copied'")
    p.one('#text').send_keys('\ue009v')
    check(p.one('#text').get_attribute('value').rstrip('\n') == code, 'copied: %r' % p.one('#text').get_attribute('value'))
    check(not p.wrong(), p.wrong())


PIECES = ['a', ' ', '\n', '\n\n', '*', '**', '_', '`', '```', '~~~', '~~', '- ', '1. ', '  ', '    ', '> ', '# ', '|', '|-|-|', 'a|b', '---', '[x](', 'https://a.example/', ')', '[', ']', '\\', '<br>', '&lt;', 'word', '\t', '+ ']


def test_grows():
    """However a text is cut while it comes, the elements are those of the whole text. Texts made to be slow are not."""
    p = page()
    p.driver.get('about:blank')
    code = ''.join(read(os.path.join(PAGE, name)).decode() for name in ('elements.js', 'markdown.js'))
    random.seed(7)
    texts = [''.join(random.choice(PIECES) for _ in range(random.randrange(4, 60))) for _ in range(700)]
    import scripted_server
    texts += [scripted_server.MARKDOWN, scripted_server.HOSTILE, 'x\na|b\n|-|-| word\ny', 'a|b\n|-|-|\n|c\n- d\n\n  e\n\nf', '```\n``\n```` \n```', '- a\n\n\n- b\n-\n--\n---\nc']
    bad = p.js(code + '''
      const bad = [], whole = (text) => { const root = el('div'); new Markdown(root).update(text, true); return root; };
      let seed = 1;
      for (const text of arguments[0]) {
        const root = el('div'), md = new Markdown(root), want = whole(text).innerHTML;
        for (let i = 0; i < text.length; i += 1 + seed % 5) { seed = seed * 48271 % 2147483647; md.update(text.slice(0, i), false); }
        md.update(text, true);
        root.normalize();
        if (root.innerHTML !== want) bad.push([text, root.innerHTML, want]);
      }
      return bad;''', texts)
    check(not bad, '%d differ, as %r' % (len(bad), bad[:1]))
    slow = {c: c * 20000 for c in ('*a ', '_a ', '[', '`a``', '> ', '- ', '**a*', '|', '\\', '![a](', '<', '&lt;', '~~a ', 'https://', '# #', '  ', '1. ', '***a', '[a](b "', '-', '*', '`')}
    for name, text in list(slow.items()):
        slow['lines of ' + name] = (name * 20 + '\n') * 1000
    times = p.js(code + '''const once = (text) => { const t = performance.now(); new Markdown(el('div')).update(text, true); return performance.now() - t; };
      const best = (text) => { let t = once(text); for (let i = 0; i < 2 && t > 500; i++) t = Math.min(t, once(text)); return t; };
      return Object.entries(arguments[0]).map(([name, text]) => [best(text), name]).sort((a, b) => b[0] - a[0])''', slow)
    check(times[0][0] < 1500, 'slow, milliseconds: %s' % times[:4])


def test_long():
    """A reply of half a megabyte: blocks that are complete are made once, counted; seconds would be those of the machine."""
    p = page()
    p.js("""window.frames_ = window.made = 0;
      const tick = () => { window.frames_++; requestAnimationFrame(tick); };
      requestAnimationFrame(tick);
      new MutationObserver((list) => { for (const m of list) if (m.target.className === 'md') window.made += m.addedNodes.length; }).observe(document.getElementById('thread'), { childList: true, subtree: true });""")
    p.say('long')
    frames, made, blocks = p.js("return [window.frames_, window.made, document.querySelector('article.assistant .md').children.length]")
    check(len(p.texts('article.assistant .md')[0]) > 350000 and blocks > 400, 'its length: %d blocks' % blocks)
    check(made <= blocks + 4 * (frames + 1), '%d blocks, made %d times in %d frames' % (blocks, made, frames))
    check(not p.wrong(), p.wrong())


# ---- the server's refusals -------------------------------------------------------------------------------------------

def test_key():
    """Asked for when the server wants one, and again when it is wrong; kept for the tab alone."""
    p = page(key='se<cr>et')
    p.wait("document.getElementById('ask').open")
    p.keys('wrong\ue007')
    p.wait("document.getElementById('ask').open && document.getElementById('ask-why').textContent.includes('refused')", 'asked again')
    p.keys('se<cr>et\ue007')
    p.wait("document.getElementById('name').textContent === 'small'")
    p.say('hello')
    check(p.texts('article.assistant .md') == ['Reply 1 to: hello'], p.texts('article'))
    p.open()
    p.say('again')
    check(len(p.texts('article.assistant .md')) == 2 and not p.one('#ask').is_displayed(), 'after a reload')
    check('se<cr>et' not in p.js('return JSON.stringify(Object.entries(localStorage))') and p.js('return sessionStorage.length') == 1, 'where it is kept')
    p.server.key = 'other'
    p.say('third', wait=False)
    p.wait("document.getElementById('ask').open")
    p.click('#ask-not')
    p.idle()
    check('Incorrect API key' in p.texts('.trouble')[0], p.texts('.trouble'))
    p.click('.trouble button')
    p.wait("document.getElementById('ask').open")
    p.keys('other\ue007')
    p.idle()
    check(p.texts('article.assistant .md')[2] == 'Reply 3 to: third' and not p.all('.trouble'), p.texts('article'))
    check(not p.wrong(), p.wrong())


def test_errors():
    """In their place, with another try: statuses, a full queue, replies that break off, a server that is not there."""
    p = page(failures=1)
    p.say('fail')
    check(p.texts('.trouble span') == ['Something <b>broke</b>.'] and p.one('.trouble').get_attribute('role') == 'alert', p.texts('.trouble'))
    p.open()
    check(len(p.all('.trouble')) == 1, 'after a reload')
    p.click('.trouble button')
    p.idle()
    check(not p.all('.trouble') and p.texts('article.assistant .md') == ['Reply 2 to: fail'] and len(p.kept()[0]['messages']) == 2, p.texts('article'))
    p.server.failures = 1
    p.say('busy')
    check(p.texts('.trouble span') == ['The queue is full. Try again in 7 s.'], p.texts('.trouble'))
    p.say('early')
    p.say('broken')
    check(p.texts('.trouble span')[1:] == ['The connection ended before the reply did.', 'out of memory'], p.texts('.trouble'))
    check(p.texts('article.assistant .md')[2:] == ['only a part', 'a part'], 'what came stays')
    p.say('cut')
    check('cut at the max tokens' in p.texts('.foot')[-1], p.texts('.foot'))
    p.js("window.was = window.fetch; window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))")
    p.say('nobody')
    check(p.texts('.trouble span')[-1] == 'The server does not answer.', p.texts('.trouble'))
    p.js('window.fetch = window.was')
    p.click('article:last-child .trouble button')
    p.idle()
    check(p.texts('article.assistant .md')[-1].endswith('to: nobody'), p.texts('article'))
    check(not p.wrong(), p.wrong())


# ---- what it looks like ----------------------------------------------------------------------------------------------

def test_narrow():
    """360 pixels: nothing is wider than the window, whatever a reply has; the list is a drawer."""
    p = page()
    p.size(360, 640)
    p.say('wide')
    p.say('markdown')
    for dark in (False, True):
        p.size(360, 640, dark)
        check(p.js("return document.documentElement.scrollWidth <= 360 && document.getElementById('scroll').scrollWidth <= document.getElementById('scroll').clientWidth"), 'wider than the window')
    outside = p.js("return [...document.querySelectorAll('main button, main textarea, .said, .md > *')].filter((e) => { const r = e.getBoundingClientRect(); return r.width && (r.left < 0 || r.right > 360); }).map((e) => e.outerHTML.slice(0, 90))")
    check(not outside, 'outside: %s' % outside)
    check(p.js("return document.getElementById('side').getBoundingClientRect().right") <= 0, 'the list is away')
    p.click('#menu')
    p.wait("document.getElementById('side').getBoundingClientRect().left === 0")
    check(p.js("return document.activeElement.id === 'new' && document.querySelector('main').inert"), 'the focus is in the drawer')
    p.keys('\ue00c')
    p.wait("document.getElementById('side').getBoundingClientRect().right <= 0")
    check(p.js('return document.activeElement.id') == 'menu', 'and comes back')
    p.click('#settings')
    box = p.js("const r = document.getElementById('sheet').getBoundingClientRect(); return [r.left, r.right, r.bottom]")
    check(box[0] >= 0 and box[1] <= 360 and box[2] <= 640, 'settings: %s' % box)
    check(not p.wrong(), p.wrong())


CONTRAST = '''
  const canvas = (c) => c.match(/[\\d.]+/g).map(Number), lum = (c) => { const [r, g, b] = canvas(c).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest('script, style, [disabled]')) continue;
    const a = lum(getComputedStyle(e).color), b = lum(ground(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2));
  }
  return [getComputedStyle(document.body).backgroundColor, bad];'''


def test_themes():
    """As the system has it, or as the switch says, which is remembered; texts have a contrast of 4.5 in both."""
    p = page(failures=1)
    p.say('fail')
    p.say('reason')
    p.click('details.reasoning summary')
    p.say('markdown')
    light, dark = 'rgb(255, 255, 255)', 'rgb(20, 23, 26)'
    for system, want in ((False, light), (True, dark)):
        p.size(1200, dark=system)
        ground, bad = p.js(CONTRAST)
        check(ground == want and not bad, '%s: %s' % (ground, bad))
    p.click('#theme')
    check(p.js(CONTRAST)[0] == light, 'the switch')
    p.open()
    check(p.js(CONTRAST) == [light, []], 'after a reload')
    p.click('#theme')
    p.size(1200)
    check(p.js(CONTRAST)[0] == light, 'as the system has it again')
    check(not p.wrong(), p.wrong())


def test_scroll():
    """While a reply comes the end stays in sight, unless the reader has gone up; nothing else moves."""
    p = page()
    p.say('hello')
    p.say('wait', wait=False)
    end = "(() => { const s = document.getElementById('scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight; })()"
    p.wait("document.querySelectorAll('article.assistant')[1]?.querySelectorAll('p').length >= 60")
    p.wait(end + ' < 2')
    p.js("document.getElementById('scroll').scrollTop -= 500")
    p.wait("!document.getElementById('latest').hidden", 'the way to the end')
    places = "return [...document.querySelectorAll('main > header, #compose, #scroll, article, article:last-child p:nth-child(-n+50)')].map((e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.width]; })"
    before = p.js(places)
    p.server.more.set()
    p.idle()
    check(p.js(places) == before, 'what was there moved')
    check(p.js('return ' + end) > 500, 'it scrolled by itself')
    p.click('#latest')
    p.wait(end + ' < 2')
    p.wait("document.getElementById('latest').hidden")
    p.js("document.getElementById('scroll').scrollTop -= 500")
    p.wait("!document.getElementById('latest').hidden")
    p.js('''document.getElementById('latest').click();
      document.getElementById('scroll').scrollTop -= 200;
      return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))''')
    check(p.one('#latest').is_displayed(), 'up, before the page has heard that it went to the end')
    check(not p.wrong(), p.wrong())


# ---- settings and what is kept ---------------------------------------------------------------------------------------

def test_settings():
    """Those that are valid are sent; a new conversation begins with them; reset. One of several models."""
    p = page(models=['small', 'large/<b>'])
    check([o.text for o in p.all('#model option')] == ['small', 'large/<b>'], 'models')
    p.js('''const was = window.fetch;
      window.fetch = async (path, options) => {
        if (path !== 'props?model=small') return was(path, options);
        await new Promise((done) => { window.late = done; });
        return new Response(JSON.stringify({ model: 'small', chat: false }));
      };
      for (const i of [0, 1]) { document.getElementById('model').selectedIndex = i; document.getElementById('model').dispatchEvent(new Event('change')); }''')
    p.js('window.late(); return new Promise((done) => setTimeout(done, 200))')
    check(p.js("return document.getElementById('model').value") == 'large/<b>' and 'no chat template' not in p.texts('#hello')[0], 'an answer about a model that was left')
    p.click('#settings')
    values = {'temperature': 0.7, 'top_p': 0.9, 'min_p': 0.05, 'top_k': 40, 'max_completion_tokens': 100, 'seed': 0}
    for name, value in values.items():
        p.one('#' + name).send_keys(str(value))
    p.one('#system').send_keys('Be brief.')
    p.click('#sheet .row .shut')
    p.say('hello')
    body = p.server.bodies[0]
    check({k: body.get(k) for k in values} == values and body['model'] == 'large/<b>', '%s' % body)
    check(body['messages'][0] == {'role': 'system', 'content': 'Be brief.'}, '%s' % body)
    p.open()
    p.click('#new')
    p.click('#settings')
    for name, bad in (('top_p', '1.5'), ('top_k', '1.5'), ('temperature', '-1')):
        p.one('#' + name).clear()
        p.one('#' + name).send_keys(bad)
    p.click('#sheet .row .shut')
    p.say('hello')
    body = p.server.bodies[1]
    check(not {'top_p', 'top_k', 'temperature'} & set(body) and body['seed'] == 0 and body['model'] == 'large/<b>', 'what is not valid is not sent: %s' % body)
    p.click('#settings')
    p.click('#reset')
    p.click('#sheet .row .shut')
    p.say('hello')
    check(sorted(p.server.bodies[2]) == ['messages', 'model', 'stream', 'stream_options'] and p.server.bodies[2]['messages'][0]['role'] == 'user', '%s' % p.server.bodies[2])
    p.one('#text').send_keys('four words are these')
    p.wait("document.getElementById('used').textContent.includes('message: 4')", 'the tokens of the message')
    p.server.chat = False
    p.click('#new')
    p.wait("document.getElementById('hello').textContent.includes('no chat template')")
    check(not p.wrong(), p.wrong())


def test_list():
    """Names, deletion and its undoing, export and import."""
    p = page()
    p.say('one')
    p.click('#new')
    p.say('two')
    check(p.texts('#list .open') == ['two', 'one'], p.texts('#list .open'))
    p.js("document.querySelector('#list .open').focus()")
    p.click('#list [aria-label="Rename"]')
    p.keys('Other <b>\ue007')
    p.wait("document.querySelector('#list .open')?.textContent === 'Other <b>'")
    p.one('#list li:nth-child(2) .open').click()
    check(p.texts('article.user .said') == ['one'], p.texts('article'))
    p.click('#export')
    end = time.time() + 5
    while not os.path.exists(temp('conversations.json')) and time.time() < end:
        time.sleep(0.05)
    check(os.path.exists(temp('conversations.json')), 'the exported file')
    data = json.loads(read(temp('conversations.json')))
    check(sorted(c['title'] for c in data['conversations']) == ['Other <b>', 'one'], '%s' % data)
    p.js("document.querySelector('#list li.current .open').focus()")
    p.click('#list li.current [aria-label="Delete"]')
    check(p.texts('#list .open') == ['Other <b>'] and not p.all('article') and len(p.kept()) == 1, 'deleted')
    p.click('#notice .plain')
    check(p.texts('article.user .said') == ['one'] and len(p.kept()) == 2, 'undone')
    p.js("document.querySelector('#list li.current .open').focus()")
    p.click('#list li.current [aria-label="Delete"]')
    data['conversations'] += [{'id': 'x'}, None, {'id': 'y', 'messages': [{'id': '1', 'parent': '2', 'role': 'user', 'content': 'x'}]}]
    p.one('#file').send_keys(write('more.json', json.dumps(data)))
    p.wait("document.querySelector('#notice span').textContent.includes('Imported')")
    check(p.texts('#notice span') == ['Imported: 1. Already here: 1. Not understood: 3.'] and p.texts('#list .open') == ['Other <b>', 'one'], p.texts('#notice'))
    p.one('#file').send_keys(write('none.json', 'none'))
    p.wait("document.querySelector('#notice span').textContent.includes('no conversations')")
    check(not p.wrong(), p.wrong())


def test_elsewhere():
    """A reply goes on while another conversation is shown; another tab sees what is kept; what was deleted meanwhile stays away."""
    p = page()
    p.say('slow', wait=False)
    p.wait("document.querySelector('article.assistant')?.textContent.includes('word5')")
    p.click('#new')
    check(not p.all('article') and p.one('#send').get_attribute('aria-label') == 'Stop', 'a new one beside it')
    p.click('#list .open')
    p.wait("document.querySelector('article.assistant')?.textContent.includes('word60')")
    p.click('#new')
    p.click('#send')
    p.idle()
    p.say('two')
    first = p.driver.current_window_handle
    p.driver.switch_to.new_window('tab')
    p.open()
    check(p.texts('#list .open') == ['two', 'slow'], p.texts('#list .open'))
    p.say('three')
    p.driver.switch_to.window(first)
    p.wait("document.querySelectorAll('article').length === 4")
    check(p.texts('article.assistant .md')[1].endswith('to: three'), p.texts('article'))
    p.say('slow', wait=False)
    p.wait("document.querySelectorAll('article.assistant')[2]?.textContent.includes('word5')")
    p.js("document.querySelector('#list li.current .open').focus()")
    p.click('#list li.current [aria-label="Delete"]')
    p.idle()
    check(p.texts('#list .open') == ['slow'] and [c['title'] for c in p.kept()] == ['slow'], 'deleted')
    check(not p.wrong(), p.wrong())


def test_removed_elsewhere():
    """A conversation that another tab deletes stays away here, also when it is shown or its reply is coming; Undo brings it back."""
    p = page()
    p.say('one')
    first = p.driver.current_window_handle
    p.driver.switch_to.new_window('tab')
    second = p.driver.current_window_handle

    def elsewhere():
        """Deletes the conversation on top in another tab."""
        p.driver.switch_to.window(second)
        p.open()
        p.js("document.querySelector('#list .open').focus()")
        p.click('#list li [aria-label="Delete"]')
        p.driver.switch_to.window(first)
    elsewhere()
    p.wait("!document.querySelector('article')", 'what is shown goes')
    check('in another tab' in p.texts('#notice span')[0] and not p.texts('#list .open'), p.texts('#notice span'))
    p.say('two')
    check(p.texts('#list .open') == ['two'] and [c['title'] for c in p.kept()] == ['two'], 'only the new one')
    p.say('slow', wait=False)
    p.wait("document.querySelectorAll('article.assistant')[1]?.textContent.includes('word5')")
    elsewhere()
    p.idle()
    time.sleep(2.5) # longer than what comes is kept after
    check(not p.texts('#list .open') and not p.kept(), 'one whose reply was coming')
    p.click('#notice button')
    check(p.texts('#list .open') == ['two'] and len(p.kept()) == 1 and len(p.kept()[0]['messages']) == 4, 'Undo')
    p.js("localStorage.removeItem(Object.keys(localStorage).find((k) => k.startsWith('infer.c.')))") # no event comes to this tab
    p.say('three')
    check(not p.kept() and not p.texts('#list .open'), 'one that was deleted before the event came')
    p.driver.switch_to.window(second)
    p.driver.close()
    p.driver.switch_to.window(first)
    check(not p.wrong(), p.wrong())


def test_damaged():
    """A storage with anything in it, and one that is full: what can be read is shown, and nothing is lost in silence."""
    p = page()
    p.say('one')
    p.js('''const good = JSON.parse(localStorage.getItem(Object.keys(localStorage).find((k) => k.startsWith('infer.c.'))));
      ['', '{', '[]', 'null', '{"id":"5"}', '{"id":"6","messages":[7]}', JSON.stringify({...good, id: 'not its key', messages: [{...good.messages[0], calls: [{ id: { toString: 1 } }]}]})].forEach((s, i) => localStorage.setItem('infer.c.' + i, s));
      localStorage.setItem('infer.settings', '{"temperature":"hot","system":5,"seed":1e999}'); localStorage.setItem('infer.theme', '<b>');''')
    p.open()
    check(p.texts('#list .open') == ['one'] and p.texts('article.user .said') == ['one'] and '7 stored conversations are damaged' in p.texts('#notice')[0], p.texts('#notice'))
    p.click('#notice .plain')
    check(len(p.kept()) == 1, 'removed')
    p.js('''let n = 1 << 22; while (n) { try { localStorage.setItem('filler' + n, 'x'.repeat(n)); } catch {} n >>= 1; } for (n = 0; n < 99; n++) try { localStorage.setItem('f' + n, ''); } catch {}''')
    p.click('#new')
    p.say('does not fit')
    check('the storage of the browser is full' in p.texts('#notice')[0] and p.texts('article.assistant .md') == ['Reply 2 to: does not fit'], p.texts('#notice'))
    p.click('#notice .tool')
    p.say('nor does this')
    check(not p.one('#notice').is_displayed(), 'it is said once')
    p.js("Object.keys(localStorage).filter((k) => k.startsWith('f')).forEach((k) => localStorage.removeItem(k))")
    p.say('fits')
    check(len(p.kept()) == 2, 'kept when there is room')
    check(not p.wrong(), p.wrong())


# ---- the program itself ----------------------------------------------------------------------------------------------

def real(*options, key=None):
    """The page of `infer serve` with these options, and the process."""
    import serve_process
    why = missing() or serve_process.missing()
    if why:
        raise cli.Skipped(why)
    server = serve_process.Server(*options, *(['--api-key', key] if key else []))
    page().fresh(server.url + '/', **({'key': key} if key else {}))
    return started[0], server


def real_model(name, context=2048):
    """A model with a chat template, which says that it was trained on so many positions."""
    import gguf_file
    import serve_process
    path = serve_process.model(temp(''), name)
    meaning = b'llama.context_length' + struct.pack('<I', gguf_file.U32)
    data = read(path)
    check(data.count(meaning) == 1, 'the length of the context')
    at = data.index(meaning) + len(meaning)
    write(name, data[:at] + struct.pack('<I', context) + data[at + 4:])
    return path


def test_real_conversation():
    """What it says is what a client gets; the tokens of a message are counted, and those of the context."""
    p, server = real(real_model('real.gguf'), '--temp', '0', '--max-tokens', '60')
    conversation(p)
    messages = [{key: m[key] for key in ('role', 'content')} for m in p.kept()[0]['messages']]
    for n in 1, 3:
        want = server.post('/v1/chat/completions', messages=messages[:n])[1]
        check(want['choices'][0]['message']['content'] == messages[n]['content'], '%s: %s' % (messages, want))
    used = want['usage']['total_tokens']
    check(p.texts('#used')[0].startswith('%d of 2,048 tokens' % used), '%d: %s' % (used, p.texts('#used')))
    p.one('#text').send_keys('four words are these')
    tokens = len(server.post('/tokenize', content='four words are these')[1]['tokens'])
    p.wait("document.getElementById('used').textContent.includes('message: %d')" % tokens, 'the tokens of the message')
    check(server.stop() == 0, server.log)


def test_real_stop():
    """Stop, and a reload in the middle: the request is cancelled and its place is free."""
    p, server = real(real_model('real.gguf', 1 << 20), '--ctx', '500000', '--ignore-eos')
    for cancelled, stop in (1, lambda: p.click('#send')), (2, p.open):
        p.say('Once upon a time', wait=False)
        p.wait("document.querySelectorAll('article.assistant .md').length === %d && document.querySelector('article:last-child .md').textContent.length > 99" % cancelled)
        running = server.get('/slots')[1]
        check(len(running) == 1 and running[0]['state'] == 'running' and running[0]['model'] == 'real', '%s' % running)
        stop()
        p.idle()
        end = time.time() + SECONDS
        while server.get('/slots')[1] and time.time() < end:
            time.sleep(0.03)
        check(server.get('/slots')[1] == [] and server.metric('requests_cancelled_total') == cancelled, 'it goes on')
        check(len(p.texts('article.assistant .md')[-1]) > 99 and 'stopped' in p.texts('article.assistant .foot')[-1] and not p.all('.trouble'), 'what came is there: %s' % p.texts('.foot, .trouble'))
    check(server.metric('queue_running') == 0 and server.stop() == 0, server.log)
    p.say('nobody')
    check(p.texts('.trouble span') == ['The server does not answer.'] and not p.wrong(), '%s' % p.wrong())


def test_real_key_models():
    """A key is asked for; of several models, each loaded when it is chosen; what a model is."""
    import serve_process
    folder = temp('models')
    os.makedirs(folder, exist_ok=True)
    for name in ('chat & talk.gguf', 'other.gguf'):
        os.replace(real_model(name), os.path.join(folder, name))
    shutil.copy(serve_process.PLAIN, os.path.join(folder, 'plain.gguf'))
    p, server = real('--models', folder, '--max-tokens', '20', key='se<cr>et')
    p.wait("document.getElementById('ask').open")
    p.keys('wrong\ue007')
    p.wait("document.getElementById('ask').open && document.getElementById('ask-why').textContent.includes('refused')", 'asked again')
    p.keys('se<cr>et\ue007')
    p.wait("document.querySelectorAll('#model option').length === 3")
    check(p.texts('#model option') == ['chat & talk', 'other', 'plain'], p.texts('#model option'))
    choose = "const m = document.getElementById('model'); m.selectedIndex = arguments[0]; m.dispatchEvent(new Event('change'))" # the list may be drawn anew
    for option in 0, 1:
        p.js(choose, option)
        p.say('hello')
    check(len(p.texts('article.assistant .md')) == 2 and all(p.texts('article.assistant .md')) and not p.all('.trouble'), p.texts('article'))
    passes = server.send('GET', '/metrics', headers={'Authorization': 'Bearer se<cr>et'})[2]
    check(all(re.search(r'(?m)^infer_queue_passes_total{model="%s"} [1-9]' % name, passes) for name in ('chat & talk', 'other')), passes)
    p.click('#new')
    p.js(choose, 2)
    p.wait("document.getElementById('hello').textContent.includes('plain has no chat template')")
    p.say('hello')
    check('the model has no chat template' in p.texts('.trouble span')[0] and not p.wrong(), p.texts('.trouble'))
    check(server.stop() == 0, server.log)


def all_tests():
    """What the driver raises is a failure of its test."""
    def caught(test):
        def run():
            try:
                test()
            except Exception as e:
                if not type(e).__module__.startswith('selenium'):
                    raise
                raise cli.Failed('%s: %s' % (type(e).__name__, str(e).split('\n')[0])) from e
        return run
    return [(name, caught(test)) for name, test in cli.tests_in(globals())]


if __name__ == '__main__':
    try:
        cli.main(all_tests, __doc__)
    finally:
        for p in started:
            p.driver.quit()
