"""scripted_server.py: a server for the chat page whose replies a test chooses: what `infer serve` speaks, from the standard library.

The last message of the user says what comes: its first word is the name of a script below, otherwise the reply repeats it.
"""
import http.server
import json
import os
import sys
import threading
import time
import urllib.parse

sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), 'tools'))
import embed_page

CONTEXT = 2048
MARKDOWN = '''# Heading one

A paragraph with **bold**, *italic*, ***both***, ~~gone~~, `code with <b>`, snake_case_words and 2 * 3 * 4.
Its second line, with a [link](https://example.org/a_(b)?q=1 "title"), https://example.com/x. and <mailto:a@example.org>.

## Lists

- one
- two with `code`
  - nested **bold**
  - nested too

    a paragraph in it
- [x] done

3. third
4. fourth
   ```c
   int x = 1;
   ```
5) other

> quoted *text*
> > twice

| name | count | side |
|:-----|------:|:----:|
| `a\\|b` | 1 | left |
| long cell | 20,000 | **x** |

---

```python
def f(x):
    return "<script>" + x  # **not bold**

print(f(1))
```

The end.
'''
HOSTILE = '''<script>document.title = 'owned'</script> <img src=x onerror="document.title='owned'"> [x](javascript:alert(1)) ![y](https://example.org/y.png)

<svg onload=alert(1)> `<iframe>` **<b onclick=alert(1)>** [a<img src=x onerror=alert(1)>](https://example.org/"onmouseover=alert(1))

```html
<script>document.title = 'owned'</script>
</code></pre><script>document.title = 'owned'</script>
```

| <script>a</script> | b |
|---|---|
| [x](data:text/html,<script>alert(1)</script>) | [y](vbscript:x) |
'''
WIDE = 'w' * 300 + '\n\n| ' + ' | '.join('column %d' % i for i in range(20)) + ' |\n' + '|---' * 20 + '|\n\n```\n' + 'long line ' * 60 + '\n```\n\n' + '`' + 'c' * 200 + '` https://example.org/' + 'p' * 200


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.url = 'http://127.0.0.1:%d/' % self.server_port
        self.page = embed_page.page()
        self.reset()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, address):
        pass # a page that goes away

    def reset(self):
        self.key, self.models, self.bodies, self.failures, self.gone, self.chat, self.vision = None, ['small'], [], 0, threading.Event(), True, False
        self.more = threading.Event() # lets a reply that waits go on


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *args):
        pass

    def answer(self, status, body, kind='application/json', **headers):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in dict(headers, Content_Type=kind, Content_Length=len(data)).items():
            self.send_header(name.replace('_', '-'), str(value))
        self.end_headers()
        self.wfile.write(data)

    def refused(self):
        if self.server.key and self.headers.get('Authorization') != 'Bearer ' + self.server.key:
            self.answer(401, {'error': {'message': 'Incorrect API key', 'type': 'invalid_request_error'}})
            return True
        return False

    def do_GET(self):
        path, _, query = self.path.partition('?')
        if path == '/':
            self.answer(200, self.server.page, 'text/html; charset=utf-8', Content_Security_Policy=embed_page.policy(self.server.page))
        elif self.refused():
            return
        elif path == '/v1/models':
            self.answer(200, {'object': 'list', 'data': [{'id': m, 'object': 'model', 'created': 0, 'owned_by': 'infer'} for m in self.server.models]})
        elif path == '/props':
            model = urllib.parse.unquote(query.partition('model=')[2]) or self.server.models[0]
            self.answer(200, {'model': model, 'context': CONTEXT, 'chat': self.server.chat, 'modalities': {'vision': self.server.vision, 'audio': False}})
        else:
            self.answer(404, {'error': {'message': 'no such path'}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        if self.refused():
            return
        if self.path == '/tokenize':
            self.answer(200, {'tokens': list(range(len(body['content'].split())))})
            return
        self.server.bodies.append(body)
        texts = [m['content'] if isinstance(m['content'], str) else ''.join(x.get('text', '[picture]') for x in m['content']) for m in body['messages'] if m['role'] == 'user']
        word, _, rest = texts[-1].partition(' ')
        if word in ('fail', 'busy') and self.server.failures:
            self.server.failures -= 1
            if word == 'busy':
                self.answer(429, {'error': {'message': 'The queue is full.'}}, Retry_After=7)
            else:
                self.answer(500, {'error': {'message': 'Something <b>broke</b>.', 'type': 'server_error'}})
            return
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Connection', 'close')
        self.end_headers()
        self.close_connection = True
        self.count = 0
        try:
            finish = (getattr(self, 'reply_' + word, None) or self.reply_any)(body, texts[-1], rest)
            if finish:
                self.chunk({}, finish)
                self.event({'choices': [], 'usage': {'prompt_tokens': 10, 'completion_tokens': self.count, 'total_tokens': 10 + self.count}})
                self.wfile.write(b'data: [DONE]\n\n')
        except OSError:
            self.server.gone.set() # the page has gone

    def event(self, data):
        self.wfile.write(b'data: ' + json.dumps(data).encode() + b'\n\n')

    def chunk(self, delta, finish=None):
        self.count += not finish
        self.event({'object': 'chat.completion.chunk', 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})

    def say(self, text, pause=0.0, size=7, kind='content'):
        for i in range(0, len(text), size):
            self.chunk({kind: text[i:i + size]})
            if pause:
                time.sleep(pause)

    def reply_any(self, body, text, rest):
        self.say('Reply %d to: %s' % (len(self.server.bodies), text), 0.005, 3)
        return 'stop'

    def reply_slow(self, body, text, rest):
        for i in range(100000):
            self.say('word%d ' % i, 0.01)
        return 'stop'

    def reply_wait(self, body, text, rest):
        """Goes on when the test says so."""
        self.say('line\n\n' * 60)
        self.server.more.wait(20)
        self.say('more\n\n' * 20)
        return 'stop'

    def reply_markdown(self, body, text, rest):
        self.say(MARKDOWN, 0.001)
        return 'stop'

    def reply_hostile(self, body, text, rest):
        self.say(HOSTILE, 0.001, 5)
        return 'stop'

    def reply_wide(self, body, text, rest):
        self.say(WIDE)
        return 'stop'

    def reply_reason(self, body, text, rest):
        self.say('First <b>this</b>.\nThen that. ' * 3, 0.002, kind='reasoning_content')
        self.say('So **yes**.')
        return 'stop'

    def reply_tool(self, body, text, rest):
        if body['messages'][-1]['role'] == 'tool':
            self.say('It is ' + ', '.join(m['content'] for m in body['messages'] if m['role'] == 'tool') + '.')
            return 'stop'
        self.say('I look it up.')
        for index, city in enumerate(['Oslo', 'Rome<b>']):
            self.chunk({'tool_calls': [{'index': index, 'id': 'call_%d' % index, 'type': 'function', 'function': {'name': 'weather', 'arguments': ''}}]})
            for part in ('{"city":', ' "%s"' % city, '}'):
                self.chunk({'tool_calls': [{'index': index, 'function': {'arguments': part}}]})
        return 'tool_calls'

    def reply_early(self, body, text, rest):
        self.say('only a part')
        return None

    def reply_broken(self, body, text, rest):
        self.say('a part')
        self.event({'error': {'message': 'out of memory', 'type': 'server_error'}})
        return None

    def reply_cut(self, body, text, rest):
        self.say('as far as')
        return 'length'

    def reply_long(self, body, text, rest):
        for i in range(4000):
            self.chunk({'content': '%d. item **%d** of a list with `code`\n%s' % (i + 1, i, '\n' * (i % 50 == 49))})
        self.say('\n```\n' + 'a line of code, again and again\n' * 8000 + '```\n\n', size=200)
        self.say('p ' * 20000, size=100)
        self.say('\n\n' + 'A paragraph of **some** words.\n\n' * 500, 0.001)
        return 'stop'
