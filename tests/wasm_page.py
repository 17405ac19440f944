#!/usr/bin/env python3
"""wasm_page.py: examples/wasm in headless Chromium: choose a file, press the button, read the story.

  python3 tests/wasm_page.py FOLDER CHROMIUM     FOLDER has index.html and story.wasm

Chromium is driven by its DevTools protocol over a pipe: JSON messages that end with a zero byte, on descriptors 3 and 4.
"""
import functools, http.server, json, os, shutil, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "tests", "data", "models", "stories260K.F32.gguf")
QUANTISED = os.path.join(ROOT, "tests", "data", "models", "TinyStories-656K.Q8_0.gguf")
STORY = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
SECONDS = 120


def chromium():
    """The name of the browser as it is installed; None = it is not."""
    return next((c for c in ("chromium-headless-shell", "chromium", "google-chrome", "chrome") if shutil.which(c)), None)


class Browser:
    def __init__(self, program, home):
        to_read, self.to = os.pipe()
        self.from_, from_write = os.pipe()
        # descriptors 3 and 4 by a shell: a preexec_fn may close what Popen itself needs
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_read, from_write), "sh", program, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--remote-debugging-pipe", "--user-data-dir=" + home, "about:blank"],
            pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.number, self.rest, self.session = 0, b"", None

    def message(self):
        while b"\0" not in self.rest:
            data = os.read(self.from_, 1 << 16)
            if not data:
                raise EOFError("the browser has ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        """The result of a command; messages that are no answer to it are dropped."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.to, json.dumps(command).encode() + b"\0")
        while True:
            m = self.message()
            if m.get("id") == self.number:
                if "error" in m:
                    raise RuntimeError("%s: %s" % (method, m["error"]["message"]))
                return m["result"]

    def show(self, url):
        target = self.call("Target.createTarget", url=url)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression):
        """Until it is true; what it last was."""
        end = time.time() + SECONDS
        while not self.value(expression) and time.time() < end:
            time.sleep(0.05)
        return self.value(expression)

    def choose(self, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        self.call("DOM.setFileInputFiles", files=[path], nodeId=node)


def status(browser, *ends):
    """The page's status once it is one of those."""
    browser.wait("/%s/.test(document.getElementById('status').textContent)" % "|".join(ends))
    return browser.value("document.getElementById('status').textContent")


def main():
    folder, program = sys.argv[1:]
    passed = failed = 0

    def check(what, got, right):
        nonlocal passed, failed
        passed, failed = passed + right, failed + (not right)
        if not right:
            print("FAILED %s: %r" % (what, got))
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = Browser(program, home)
        watchdog = threading.Timer(3 * SECONDS, browser.process.kill)
        watchdog.start()
        try:
            browser.show("http://127.0.0.1:%d/index.html" % server.server_port)
            check("the page", browser.value("location.href"), bool(browser.wait("document.readyState === 'complete' && location.port")))
            browser.choose(os.path.join(ROOT, "README.md"))
            said = status(browser, "GGUF")
            check("a file that is no model", said, "GGUF" in said and browser.value("document.getElementById('go').disabled"))
            for model in (MODEL, QUANTISED):
                browser.choose(model)
                check("a model", status(browser, "Ready"), status(browser, "Ready") == "Ready.")
                browser.value("document.getElementById('go').click()")
                check("the end", status(browser, "Done"), status(browser, "Done") == "Done.")
                story = browser.value("document.getElementById('story').textContent")
                check("the story", story, story.startswith(STORY if model == MODEL else "Once upon a time, a little girl named Lily"))
            browser.session = None
            browser.call("Browser.close")
        except (EOFError, RuntimeError, OSError) as e:
            check("Chromium", str(e), False)
        finally:
            watchdog.cancel()
            browser.process.kill()
            browser.process.wait()
    server.shutdown()
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
