"""The documentation is run: every command of a `console` block, every Python block, every example."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.corpus import FORMATS, read

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Each command of a page's console blocks, with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line.rstrip())
    return found


def run(command: str, folder: Path) -> list[str]:
    program, *arguments = shlex.split(command)
    assert program == "fencepost"
    result = subprocess.run(
        [sys.executable, "-m", "fencepost", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "80"},
    )
    return [line.rstrip() for line in result.stdout.splitlines()]


def test_console_blocks_print_what_they_show(tmp_path):
    for command, expected in commands(ROOT / "README.md"):
        printed = run(command, tmp_path)
        pattern = "\n".join("(.*\n)*?.*" if line == "…" else re.escape(line) for line in expected)
        assert re.fullmatch(pattern, "\n".join(printed).strip("\n")), f"$ {command}\n" + "\n".join(printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path):
    for block in blocks(page, "python"):
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True)


def test_formats_page_names_every_format_and_its_examples_are_read(tmp_path):
    page = ROOT / "docs" / "formats.md"
    text = page.read_text(encoding="utf-8")
    for name, format_ in FORMATS.items():
        assert f"| `{name}` |" in text
        for suffix in format_.suffixes:
            assert f"`{suffix}`" in text
    for block in blocks(page, "json"):
        for line in block.splitlines():
            json.loads(line)
            (tmp_path / "example.jsonl").write_text(line + "\n")
            assert sum(len(sentence.entities) for sentence in read(tmp_path / "example.jsonl")) > 0
    for block in blocks(page, "text"):
        (tmp_path / "example.conll").write_text(block)
        (sentence,) = read(tmp_path / "example.conll")
        assert sentence.entities


def test_help_shows_every_option_that_the_pages_use():
    named = {option for page in PAGES for option in re.findall(r"--[a-z][a-z-]+", page.read_text())}
    shown = "".join(
        subprocess.check_output([sys.executable, "-m", "fencepost", *command, "--help"], text=True)
        for command in ([], ["inspect"], ["convert"], ["evaluate"])
    )
    assert {option for option in named if option not in shown} == set()
