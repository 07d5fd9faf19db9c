"""A browser for the tests of the page, and a stand-in for the server with answers by the test."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

import fencepost
from fencepost.server.guard import CONTENT_SECURITY

PAGE = Path(fencepost.__file__).parent / "server" / "page"
KINDS = {"index.html": "text/html", "style.css": "text/css", "app.js": "text/javascript"}
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1280,900",
)
FIND_RANGE = """
const findRange = (covered) => {
  for (const block of document.querySelectorAll(".block")) {
    const words = block.querySelector(".words");
    const start = words.textContent.indexOf(covered);
    if (start < 0) continue;
    const range = document.createRange();
    let at = 0;
    for (const node of words.childNodes) {
      if (!node.data) continue;
      const [from, to] = [start - at, start + covered.length - at];
      if (0 <= from && from < node.length) range.setStart(node, from);
      if (0 < to && to <= node.length) range.setEnd(node, to);
      at += node.length;
    }
    return {block, range};
  }
};
"""
PATIENCE = 20  # seconds until a test gives up on something that should have appeared

MODEL = {
    "name": "stand-in",
    "engine": "int8",
    "method": "boundary-smoothing",
    "language": "en",
    "types": ["organization", "person", "place"],
    "select": "nested",
    "version": "0.1.0",
    "limits": {"texts": 256, "words": 25_000, "body": 1_048_576},
}


@dataclass(frozen=True)
class Answer:
    """Answer of the stand-in to one request."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """Request of the page."""

    path: str
    body: Any
    token: str | None


def entity(text: str, covered: str, kind: str, score: float, *, occurrence: int = 0) -> dict[str, Any]:
    """Return an entity as the server writes it, at one of the occurrences of `covered` in `text`."""
    start = -1
    for _ in range(occurrence + 1):
        start = text.index(covered, start + 1)
    return {"start": start, "end": start + len(covered), "type": kind, "score": score, "text": covered}


def make_answer(*entities: dict[str, Any]) -> Answer:
    """Return the answer for one text."""
    return Answer({"results": [{"entities": list(entities)}]})


class StandIn:
    """Local server with the files of the page and answers by the test."""

    def __init__(self) -> None:
        self.reset()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stand_in.serve(self)

            def do_POST(self) -> None:
                stand_in.serve(self)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"

    def reset(self) -> None:
        self.requests: list[Request] = []
        self.model: dict[str, Any] = dict(MODEL)
        self.token: str | None = None
        self.answer: Callable[[Any], Answer] = lambda _: make_answer()

    @property
    def questions(self) -> list[Any]:
        """The bodies of the requests for entities."""
        return [request.body for request in self.requests if request.path == "/v1/entities"]

    def serve(self, http: BaseHTTPRequestHandler) -> None:
        name = {"/": "index.html", "/page/style.css": "style.css", "/page/app.js": "app.js"}.get(http.path)
        if name:
            kind = f"{KINDS[name]}; charset=utf-8"
            self.send(http, 200, (PAGE / name).read_bytes(), {"Content-Type": kind})
            return
        answer = self.decide(self.note(http))
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send(http, answer.status, content, {"Content-Type": "application/json", **answer.headers})

    def note(self, http: BaseHTTPRequestHandler) -> Request:
        body = http.rfile.read(int(http.headers.get("Content-Length", 0)))
        request = Request(http.path, json.loads(body) if body else None, http.headers.get("Authorization"))
        self.requests.append(request)
        return request

    def decide(self, request: Request) -> Answer:
        if self.token is not None and request.token != f"Bearer {self.token}":
            return Answer({"detail": "a bearer token is needed"}, 401)
        if request.path == "/v1/model":
            return Answer(self.model)
        if request.path == "/v1/entities":
            return self.answer(request.body)
        return Answer({"detail": "Not Found"}, 404)

    def send(self, http: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
        try:
            http.send_response(status)
            for name, value in {"Content-Security-Policy": CONTENT_SECURITY, **headers}.items():
                http.send_header(name, value)
            http.send_header("Content-Length", str(len(body)))
            http.end_headers()
            http.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the page has cancelled the request


@contextmanager
def stand_in_server() -> Iterator[StandIn]:
    server = StandIn()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Start Chromium without a window; if it is absent, skip the test, or fail where CI requires it."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    absent = [name for name, path in programs.items() if path is None]
    if absent:
        message = f"the page's tests need {' and '.join(absent)} (packages chromium and chromium-driver)"
        if os.environ.get("FENCEPOST_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs["chromium"])
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(programs["chromedriver"])))
    try:
        yield driver
    finally:
        driver.quit()


class Page:
    """The page in a browser, as a user sees and uses it."""

    def __init__(self, browser: webdriver.Chrome, url: str) -> None:
        self.browser = browser
        self.url = url
        browser.get(url)
        self.until(lambda: self.script("return document.readyState") == "complete")

    def script(self, code: str, *arguments: Any) -> Any:
        return self.browser.execute_script(code, *arguments)

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for a condition; the page may replace an element while the condition looks at it."""
        stale = [StaleElementReferenceException]
        wait = WebDriverWait(self.browser, PATIENCE, poll_frequency=0.02, ignored_exceptions=stale)
        return wait.until(lambda _: condition())

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def every(self, selector: str) -> list[WebElement]:
        """Return all visible elements."""
        return [e for e in self.browser.find_elements(By.CSS_SELECTOR, selector) if e.is_displayed()]

    def texts(self, selector: str) -> list[str]:
        return [e.text for e in self.every(selector)]

    def write(self, text: str) -> None:
        """Paste a text, which is faster than typing and works for characters that a driver cannot type."""
        self.script(
            "const field = document.getElementById('text'); field.focus(); field.select();"
            "field.setRangeText(arguments[0], 0, field.value.length, 'end');",
            text,
        )

    def find(self, text: str) -> None:
        """Request the entities of a text and wait for any answer."""
        self.write(text)
        self.one("#find").click()
        self.settle()

    def settle(self) -> None:
        """Wait until no request is pending and the bars are drawn."""
        self.until(lambda: self.one("#find").text == "Find entities")
        self.frames(3)

    def frames(self, number: int) -> None:
        self.script_async(
            "const wait = (rest) => rest ? requestAnimationFrame(() => wait(rest - 1)) : setTimeout(done);"
            "wait(arguments[0])",
            number,
        )

    def slide(self, least: float) -> None:
        self.script(
            "const slider = document.getElementById('least'); slider.value = arguments[0];"
            "slider.dispatchEvent(new Event('input', {bubbles: true}));",
            least,
        )
        self.frames(2)

    def script_async(self, code: str, *arguments: Any) -> Any:
        """Run code that calls `done` with its result."""
        return self.browser.execute_async_script(
            f"const done = arguments[arguments.length - 1]; {code}", *arguments
        )

    def chips(self) -> list[str]:
        return self.texts(".chip")

    def read_text(self) -> str:
        """Return the drawn text without the labels."""
        return self.script(
            "return [...document.querySelectorAll('.block')].map((block, number) => "
            "(number && !block.matches('.continued') ? '\\n' : '') + "
            "block.querySelector('.words').textContent).join('')"
        )

    def bars(self, covered: str) -> list[str]:
        """Return the colours of the bars below a part of the text, from the text down."""
        return self.script(
            f"{FIND_RANGE} const {{block, range}} = findRange(arguments[0]);"
            "const own = range.getClientRects()[0];"
            "const [x, y] = [(own.left + own.right) / 2, (own.top + own.bottom) / 2];"
            "return [...block.querySelectorAll('.bar:not(.off)')].map((bar) => "
            "  [bar, bar.getBoundingClientRect()])"
            ".filter(([, r]) => r.left <= x && x <= r.right && r.top <= y && y <= r.bottom)"
            ".sort(([, a], [, b]) => a.bottom - b.bottom).map(([bar]) => bar.className.match(/c\\d/)[0])",
            covered,
        )

    def point_at(self, covered: str) -> tuple[float, float]:
        """Return the position of the middle of a part of the text."""
        left, top = self.script(
            f"{FIND_RANGE} const own = findRange(arguments[0]).range.getClientRects()[0];"
            "return [(own.left + own.right) / 2, (own.top + own.bottom) / 2]",
            covered,
        )
        return left, top

    def complaints(self) -> list[str]:
        """Return the messages of the console: errors of scripts, refusals of the security policy."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def colours(self, scheme: str) -> None:
        self.browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )

    def width(self, pixels: int, height: int = 800) -> None:
        self.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": pixels, "height": height, "deviceScaleFactor": 1, "mobile": pixels < 500},
        )

    def plain(self) -> None:
        """Undo the changes of `colours` and `width`."""
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
