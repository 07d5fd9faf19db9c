"""Run the documentation: every command of a `console` block, every Python block, every example."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from fencepost.config import Config
from fencepost.data import FORMATS, read
from fencepost.methods.registry import METHODS
from fencepost.methods.settings import PredictSettings
from tools.site import command_reference, settings_reference

ROOT = Path(__file__).parent.parent
LONG = {
    "calibration.md",
    "extending.md",
    "hub.md",
    "index.md",  # like the README
    "own-data.md",
    "recipes.md",
    "sweeps.md",
    "training.md",
    "tuning.md",
}
"""Pages whose blocks train models or predict much, which takes longer than all others together."""

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = [
    pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else [], id=page.name) for page in PAGES
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Return each command of the console blocks of a page, with its documented output."""
    result: list[tuple[str, list[str]]] = []
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                result.append((line[2:], []))
            else:
                result[-1][1].append(line.rstrip())
    return result


RUN_ALL = """
import os, sys
from fencepost.cli import main
for arguments, shown in {commands}:
    target = os.open(shown, os.O_CREAT | os.O_WRONLY)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    sys.argv = ["fencepost", *arguments]
    try:
        main()
    except SystemExit:
        pass
    sys.stdout.flush()
"""


def printed(lines: list[str], folder: Path, outputs: Path) -> list[list[str]]:
    """Return the output of commands, which run in one process: starting one for each takes long."""
    programs = [shlex.split(line) for line in lines]
    assert all(program == "fencepost" for program, *_ in programs)
    commands = [(words[1:], str(outputs / f"{number}.txt")) for number, words in enumerate(programs)]
    subprocess.run(
        [sys.executable, "-c", RUN_ALL.format(commands=commands)],
        cwd=folder,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    texts = [Path(file).read_text(encoding="utf-8") for _, file in commands]
    return [[line.rstrip() for line in text.splitlines()] for text in texts]


@pytest.mark.parametrize("page", RUN)
def test_console_blocks_show_the_actual_output(page, tmp_path, tmp_path_factory):
    of_page = commands(page)
    if not of_page:
        return
    all_printed = printed([line for line, _ in of_page], tmp_path, tmp_path_factory.mktemp("shown"))
    for (command, expected), lines in zip(of_page, all_printed, strict=True):
        pattern = "\n".join("(.*\n)*?.*" if line == "…" else re.escape(line) for line in expected)
        assert re.fullmatch(pattern, "\n".join(lines).strip("\n")), f"$ {command}\n" + "\n".join(lines)


def settings(part: type[BaseModel], prefix: str) -> Iterator[tuple[str, object, str | None]]:
    """Yield every key of a part of the configuration, with its default and its description."""
    for name, field in part.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            yield from settings(type(default), f"{prefix}{name}.")
        else:
            yield prefix + name, default, field.description


SETTING = re.compile(
    r"^\| `((?:method|encoder|training|predict|text)\.[a-z_.]+)` \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE
)


def expected_rows(part: BaseModel, prefix: str) -> dict[str, tuple[str, str]]:
    """Return the default and the description that the reference should have, by key."""
    return {
        key: ("none" if default is None else f"`{json.dumps(default)}`".replace('"', ""), description or "")
        for key, default, description in settings(type(part), f"{prefix}.")
        if key != "method.name"
    }


def documented_rows(section: str) -> dict[str, tuple[str, str]]:
    rows = SETTING.findall(section)
    assert len(rows) == len({key for key, *_ in rows})
    assert all(type_ for _, type_, _, _ in rows)
    return {key: (default, description.replace("&lt;", "<")) for key, _, default, description in rows}


def sections() -> dict[str, str]:
    """Return the sections of the settings reference by title."""
    parts = re.split(r"^## (.*)$", settings_reference(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("part", ["encoder", "training", "text"])
def test_settings_reference_has_every_setting(part):
    assert documented_rows(sections()[part.title()]) == expected_rows(getattr(Config.compose(), part), part)


@pytest.mark.parametrize("method", METHODS)
def test_settings_reference_has_every_setting_of_a_method(method):
    config = Config.compose(changes=[f"method.name={method}"])
    shared = documented_rows(sections()["Prediction"])
    assert shared == expected_rows(PredictSettings(), "predict")
    own = documented_rows(sections()[f"Method `{method}`"])
    assert shared | own == expected_rows(config.method, "method") | expected_rows(config.predict, "predict")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_repeats_the_settings_reference(page):
    assert "| key | " not in page.read_text(encoding="utf-8")


def test_links_to_the_settings_reference_lead_to_sections():
    anchors = {re.sub("[^a-z -]", "", title.lower()).replace(" ", "-") for title in sections()}
    links = {link for page in PAGES for link in re.findall(r"settings\.md#([\w-]+)", page.read_text("utf-8"))}
    assert links <= anchors


@pytest.mark.parametrize("page", RUN)
def test_python_blocks_run(page, tmp_path):
    """All run in one process, each in its own namespace: starting one for each takes long."""
    programs = blocks(page, "python")
    if programs:
        run_all = f"for block in {programs!r}: exec(block, {{'__name__': '__main__'}})"
        subprocess.run([sys.executable, "-c", run_all], cwd=tmp_path, check=True, capture_output=True)


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
        (tmp_path / "example").write_text(block)
        assert next(read(tmp_path / "example")).entities


OF_OTHERS = {  # options of other programs, and one that all have
    "--from-file",  # of kubectl
    "--help",
    "--logdir",
    "--mixed",  # _precision, of accelerate launch
    "--multi",  # _gpu
    "--nnodes",
    "--node-rank",
    "--nproc-per-node",
    "--now",  # of systemctl
    "--num",  # _processes
    "--rdzv-backend",
    "--rdzv-endpoint",
    "--rdzv-id",
    *("--read-only", "--rm", "--tmpfs"),  # of docker
    "--standalone",
}


def _of_fencepost(page: Path) -> str:
    """Return the page without the commands of the benchmarks, which have other options."""
    return re.sub(r"`python\s+-m\s+benchmarks[^`]*`", "", page.read_text(encoding="utf-8"))


def test_pages_use_only_existing_options():
    named = {
        option for page in PAGES for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", _of_fencepost(page))
    }
    reference = command_reference()
    assert {one for one in named - OF_OTHERS if f"`{one}`" not in reference} == set()
