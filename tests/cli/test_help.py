"""`--help` of every command: switches without a type, options under titles, and a valid example."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fencepost.cli import app

ROOT = typer.main.get_command(app)


def commands(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from commands(one, (*path, name))
    else:
        yield path, command


COMMANDS = dict(commands())


def help_of(*path: str) -> str:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("path", [(), ("analyze",), *COMMANDS], ids=" ".join)
def test_switches_have_no_type(path):
    page = help_of(*path)
    assert re.search(r"--help +-h +Show this message", page)
    assert "<bool>" not in page


@pytest.mark.parametrize("path", [(), ("analyze",)], ids=" ".join)
def test_commands_are_listed_by_name(path):
    listed = re.findall(r"^│ ([a-z]+) ", help_of(*path).partition("Commands")[2], re.MULTILINE)
    assert len(listed) > 5
    assert listed == sorted(listed)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_examples_in_help_are_valid(path):
    text = COMMANDS[path].help
    examples = re.findall(r"^(?:Example: )?(fencepost .*(?:\n.+)*)", text, re.MULTILINE)
    assert examples, f"fencepost {' '.join(path)} --help has no example"
    for example in examples:
        words = shlex.split(example)
        assert words[1 : 1 + len(path)] == list(path)
        COMMANDS[path].make_context("fencepost", words[1 + len(path) :])
        page = " ".join(help_of(*path).split())
        assert " ".join(example.split()) in page


@pytest.mark.parametrize(
    "path", [("evaluate",), ("compare",), ("report",), ("analyze", "errors")], ids=" ".join
)
def test_shared_options_have_titles(path):
    page = help_of(*path)
    panels = dict(re.findall(r"╭─ ([^─]+) ─+╮(.*?)╰─", page, re.DOTALL))
    assert {"--engine", "--device", "--threads", "--set"} <= set(re.findall(r"--\w+", panels["Model"]))
    assert "--skip-invalid" in panels["How to read the input"]
    assert "--quiet" in panels["Output"]
