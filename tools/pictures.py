"""Make the pictures of README and documentation: terminal, server page, report (with Chromium), and figures.

    python -m tools.pictures MODEL

`MODEL` is the folder of a model that was trained on the sample corpus, as `make demo` makes it. Needs
`chromium` and `chromedriver`; the files are written to `docs/images`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
TEXT = "The University of Toronto's president met Ada Lovelace in London."
GALLERY = {
    "calibration": ("sample:test",),
    "errors": ("sample:test",),
    "lengths": ("sample:test",),
    "curves": (),
}
"""Analyses whose figures are in the gallery, with their arguments after the model."""
FENCEPOST = (sys.executable, "-m", "fencepost")


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with open_browser() as browser, tempfile.TemporaryDirectory() as folder:
        draw_terminal(browser, Path(folder))
        draw_page(browser)
        draw_report(browser, sys.argv[1], Path(folder))
        draw_gallery(sys.argv[1], Path(folder))


@contextmanager
def open_browser() -> Iterator[Chrome]:
    """Open a headless browser that connects to nothing but this machine."""
    options = ChromeOptions()
    for argument in (
        *(
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-sync",
        ),
        *(
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
        ),
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or ""
    browser = Chrome(options, Service(shutil.which("chromedriver") or ""))  # or Selenium would look for them
    try:
        yield browser
    finally:
        browser.quit()


def save(browser: Chrome, name: str, width: int, height: int) -> None:
    """Save what the window shows at this size."""
    browser.set_window_size(width, height)
    inner = browser.execute_script("return [window.innerWidth, window.innerHeight]")
    browser.set_window_size(2 * width - inner[0], 2 * height - inner[1])
    browser.save_screenshot(str(IMAGES / name))


def draw_terminal(browser: Chrome, folder: Path) -> None:
    """Show a command and its output in the colours of a terminal."""
    command = [*FENCEPOST, "predict", TEXT]
    environment = {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm-256color"}
    output = subprocess.run(
        ["/usr/bin/env", *(f"{name}={value}" for name, value in environment.items()), *command],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    console = Console(record=True, width=80, file=(folder / "ignored").open("w"), force_terminal=True)
    console.print(Text(f'$ fencepost predict "{TEXT}"', style="bold"), soft_wrap=True)
    console.print(Text.from_ansi(output.rstrip("\n")), soft_wrap=True)
    style = "body { background: #0c0c0c; color: #d9d9d9; margin: 24px; font-size: 15px; } pre { margin: 0 }"
    page = console.export_html(theme=MONOKAI, inline_styles=True).replace(
        "</head>", f"<style>{style}</style></head>"
    )
    (folder / "terminal.html").write_text(page, encoding="utf-8")
    browser.get((folder / "terminal.html").as_uri())
    save(browser, "terminal.png", 840, 160)


def draw_page(browser: Chrome) -> None:
    """Show the server's page with its example."""
    server = subprocess.Popen(
        [*FENCEPOST, "serve", "--port", "8765"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        browser.set_window_size(1000, 1000)  # bars are drawn only near the visible part
        wait = WebDriverWait(browser, 30, ignored_exceptions=[Exception])
        wait.until(lambda one: one.get("http://127.0.0.1:8765/") or one.find_element(By.ID, "find"))
        wait.until(lambda one: one.find_element(By.CLASS_NAME, "bar"))
        save(browser, "page.png", 1000, 880)
    finally:
        server.terminate()
        server.wait()


def draw_report(browser: Chrome, model: str, folder: Path) -> None:
    """Show the beginning of a report."""
    report = folder / "report.html"
    subprocess.run([*FENCEPOST, "report", model, "--data", "sample:test", "--out", str(report)], check=True)
    browser.get(report.as_uri())
    save(browser, "report.png", 1000, 820)


def draw_gallery(model: str, folder: Path) -> None:
    """Save the figures of some analyses of the model."""
    for name, arguments in GALLERY.items():
        out = folder / name
        subprocess.run([*FENCEPOST, "analyze", name, model, *arguments, "--out", str(out)], check=True)
        [figure] = out.glob("*.png")
        shutil.copyfile(figure, IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
