"""A headless Chromium that tests can drive, over the DevTools protocol on a pair of pipes. Needs nothing but Python.

    with Browser("/usr/bin/chromium") as browser:
        page = browser.open(path, width=1280, height=900)
        page.run("document.title")
"""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

LONGEST_WAIT_S = 30


class BrowserError(Exception):
    """The browser, or the page in it, did not do what was asked."""


class Browser:
    """A browser process; its profile is thrown away with it."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="divvy-browser-")
        to_browser, self.send_end = os.pipe()
        self.receive_end, from_browser = os.pipe()

        def connect():
            # The browser reads from 3 and writes to 4, whatever the pipes' own numbers are.
            read_end, write_end = os.dup(to_browser), os.dup(from_browser)
            os.dup2(read_end, 3)
            os.dup2(write_end, 4)

        flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--disable-extensions"]
        flags += ["--hide-scrollbars", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-sync"]
        # A container's root has no sandbox to put the browser in; the pages are our own.
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [program, *flags, f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(
            command, preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self.received, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (BrowserError, OSError):
            self.process.kill()
        self.process.wait(timeout=LONGEST_WAIT_S)
        os.close(self.send_end)
        os.close(self.receive_end)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session=None, **parameters):
        """Sends a command and returns what comes of it; events on the way are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.send_end, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LONGEST_WAIT_S
        while True:
            answer = self.receive(deadline, method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def receive(self, deadline, what):
        while b"\0" not in self.received:
            if not select.select([self.receive_end], [], [], max(0, deadline - time.monotonic()))[0]:
                raise BrowserError(f"{what}: no answer within {LONGEST_WAIT_S} s")
            more = os.read(self.receive_end, 1 << 20)
            if not more:
                raise BrowserError(f"{what}: the browser has gone; does it start with `--headless`?")
            self.received += more
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, width=1280, height=900, scheme="light", phone=False):
        """Opens a file in a page of its own, and waits until it has loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ["Page", "Runtime", "Log", "Network"]:
            page.call(f"{domain}.enable")
        page.call("Performance.enable", timeDomain="threadTicks")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )
        page.prefer(scheme)
        page.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        page.wait("document.readyState === 'complete' && location.protocol === 'file:'")
        return page


class Page:
    """One page."""

    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def prefer(self, scheme):
        """What the system prefers: `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run(self, script):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait(self, condition, seconds=LONGEST_WAIT_S):
        deadline = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise BrowserError(f"never came true: {condition}")
            time.sleep(0.01)

    def settle(self):
        """Waits until what was asked for has been drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def busy_seconds(self):
        """Processor time that the page's own thread has taken so far, whatever else the machine does."""
        metrics = {one["name"]: one["value"] for one in self.call("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"]

    def faults(self):
        """Errors and warnings of the page, and whatever it asked of the network."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, parameters = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(one.get("value")) for one in parameters["args"]))
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                address = parameters["request"]["url"]
                if not address.startswith(("file:", "about:", "data:")):
                    found.append(f"it asked for {address}")
        return found

    def box(self, selector):
        """Left, top, width and height of an element, scrolled into view."""
        script = (
            "(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        found = self.run(script % json.dumps(selector))
        self.settle()
        return found

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def click_on(self, selector):
        left, top, width, height = self.box(selector)
        self.click(left + width / 2, top + height / 2)

    def drag(self, x, y, to_x, to_y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        for step in range(1, 6):
            share = step / 5
            self.mouse("mouseMoved", x + (to_x - x) * share, y + (to_y - y) * share, button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)
        self.settle()

    def wheel(self, x, y, delta):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def press(self, key):
        texts = {"Enter": "\r", " ": " ", "+": "+", "-": "-"}
        down = {"text": texts[key]} if key in texts else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if down else "rawKeyDown", key=key, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def screenshot(self, path, whole=True):
        """A picture of the whole page, or of what the window shows."""
        clip = {}
        if whole:
            width, height = self.run("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}, "captureBeyondViewport": True}
        picture = self.call("Page.captureScreenshot", format="png", **clip)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(picture))
