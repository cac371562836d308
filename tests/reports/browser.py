# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium for the checks of pages: opens them, resizes them and evaluates expressions."""
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path


class Browser:
    """Chromium, driven over a pair of pipes: messages of JSON that end in a zero byte."""

    def __init__(self):
        self.profile = tempfile.mkdtemp()
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()

        def give_pipes():  # the browser reads from 3 and writes to 4
            high = [os.dup(fd) for fd in (commands, answers)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu",
                 "--disable-dev-shm-usage", "--user-data-dir=" + self.profile]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        self.process = subprocess.Popen(["chromium", *flags, "about:blank"], close_fds=False,
                                        preexec_fn=give_pipes, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.numbers = itertools.count(1)
        self.unread = b""
        self.events = []

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.unread:
            read = os.read(self.answers, 1 << 16)
            if not read:
                raise RuntimeError("the browser has gone")
            self.unread += read
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)


class Page:
    """A tab with the page at `path`; drawn, or failed after some seconds."""

    def __init__(self, browser, path):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target,
                                    flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        browser.events.clear()
        self.call("Page.navigate", url=Path(path).absolute().as_uri())
        self.is_drawn = self.wait_for("document.documentElement?.dataset.ready === 'true'")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.value(condition):
            if time.monotonic() > end or self.messages():
                return False
            time.sleep(0.02)
        return True

    def show(self, width, scheme="light"):
        """Sets a window of `width` pixels, light or dark, and waits for the layout of the page."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def settle(self):
        """Waits until the page has run its callbacks of the next frame."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>"
                   " requestAnimationFrame(() => requestAnimationFrame(() => done(true))))))")

    def messages(self):
        """Returns messages on the console, exceptions and requests of the page."""
        found = []
        for event in self.browser.events:
            about = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                details = about["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                found.append(f"console: {about['args']}")
            elif event["method"] == "Log.entryAdded":
                found.append(about["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and about["type"] != "Document":
                found.append("request of " + about["request"]["url"])
        return found


def texts(selector):
    """Returns an expression for the text of every element that the selector finds."""
    return f"[...document.querySelectorAll({json.dumps(selector)})].map((n) => n.textContent)"
