"""A headless Chromium for tests of pages, spoken to over a pair of pipes in Chrome's DevTools
protocol: a JSON object a message, each with a zero byte behind it."""
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WAIT_S = 60


def find_browser():
    """The program's path; None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One tab. `errors` are what the console and scripts complain of, `requests` all addresses that
    were asked for, those of pages apart."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hanse-browser-"))
        for_it, self.write_end = os.pipe()
        self.read_end, from_it = os.pipe()
        # It reads from descriptor 3 and writes to 4.
        command = ('exec "$@" 3<&%d 4>&%d' % (for_it, from_it))
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking",
                 f"--user-data-dir={self.folder}", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", command, "browser", find_browser(), *flags],
                                        pass_fds=(for_it, from_it), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(for_it)
        os.close(from_it)
        self.number, self.rest, self.session = 0, b"", None
        self.errors, self.requests, self.loaded = [], [], False
        pages = [target for target in self.call("Target.getTargets")["targetInfos"]
                 if target["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        os.close(self.write_end)  # it ends by itself when nobody speaks to it any more
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **parameters):
        """What the browser answers. Raises AssertionError where it refuses or says nothing."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            answer = self.next_message(end)
            if answer and answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
        raise AssertionError(f"the browser does not answer {method}")

    def next_message(self, end):
        """The next answer, or None; events are noted."""
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read_end], [], [], max(0, end - time.monotonic()))
            data = os.read(self.read_end, 65536) if ready else b""
            if not data:
                assert not ready, "the browser has ended"
                return None
            self.rest += data
        text, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, event, what):
        if event == "Runtime.exceptionThrown":
            self.errors.append(what["exceptionDetails"]["text"])
        elif event == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(what["entry"]["text"] + " " + what["entry"].get("url", ""))
        elif event == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            self.errors.append(str(what["args"]))
        elif event == "Network.requestWillBeSent" and what.get("type") != "Document":
            if not what["request"]["url"].startswith("data:"):  # is in the page
                self.requests.append(what["request"]["url"])
        elif event == "Page.loadEventFired":
            self.loaded = True

    def look(self, width, dark=False):
        """Pages have this width, in pixels, and are dark or light from now on."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800,
                  deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, address):
        self.errors, self.requests, self.loaded = [], [], False
        self.call("Page.navigate", url=address)
        end = time.monotonic() + WAIT_S
        while not self.loaded:
            assert time.monotonic() < end, f"{address} is not loaded"
            self.next_message(min(end, time.monotonic() + 1))

    def value(self, expression):
        """Of an expression of JavaScript."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression):
        """Until it is true."""
        end = time.monotonic() + WAIT_S
        while not self.value(expression):
            assert time.monotonic() < end, (expression, self.value("document.body.innerText"))
            time.sleep(0.1)

    def picture(self):
        """PNG of the page."""
        import base64
        return base64.b64decode(self.call("Page.captureScreenshot",
                                          captureBeyondViewport=True)["data"])
