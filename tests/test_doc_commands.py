"""Blocks of the documentation that need data, a server or other machines.

What can run in a test runs in `test_docs`. Here the parser of the command line reads every other command,
JSON and YAML are parsed, and the commands of the serving page are run against a server.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from fencepost.cli import app
from fencepost.config import Config
from tests.test_docs import PAGES, ROOT

LANGUAGES = {"console", "python", "sh", "json", "yaml", "toml", "text"}
OTHERS = {
    *("cat", "cd", "curl", "docker", "echo", "git", "jq", "kubectl", "make", "pip", "python", "sudo"),
    "tensorboard",
}
LAUNCHERS = ("torchrun", "accelerate")


def fenced(page: Path, language: str) -> list[str]:
    """Return the blocks in a language, also those inside of lists."""
    matches = re.findall(
        rf"^( *)```{language}\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [re.sub(f"^{indent}", "", block, flags=re.MULTILINE) for indent, block in matches]


def shell_commands(block: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a block."""
    for line in block.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("|&;"):
                yield words
                words = []
            else:
                words.append(word)
        if words:
            yield words


def of_fencepost(words: list[str]) -> list[str] | None:
    """Return the arguments of `fencepost` without redirections; None if it is another program."""
    words = words[: next((at for at, word in enumerate(words) if set(word) <= {"<", ">"}), None)]
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    if words[:1] == ["fencepost"]:
        return words[1:]
    if words[0] in LAUNCHERS:
        assert "fencepost" in words, words
        return words[words.index("fencepost") + 1 :]
    assert words[0] in OTHERS, words
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_names_its_language(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= LANGUAGES
    assert set(fences[1::2]) <= {""}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_line_accepts_every_documented_command(page):
    root = typer.main.get_command(app)
    for block in fenced(page, "sh"):
        for words in shell_commands(block):
            arguments = of_fencepost(words)
            if arguments is None:
                continue
            command, rest = root, arguments
            while rest and hasattr(command, "commands") and rest[0] in command.commands:
                command, rest = command.commands[rest[0]], rest[1:]
            assert not hasattr(command, "commands"), f"there is no command {arguments}"
            command.make_context("fencepost", list(rest))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_json_yaml_and_toml_blocks_are_valid(page):
    for block in fenced(page, "toml"):
        tomllib.loads(block)
    for block in fenced(page, "json"):
        try:
            json.loads(block)
        except ValueError:  # one value per line
            for line in block.splitlines():
                json.loads(line)
    for block in fenced(page, "yaml"):
        tree = yaml.safe_load(block)
        if set(tree) <= set(Config.model_fields):
            Config.parse(tree)


def deployed_commands() -> dict[str, list[str]]:
    """Return the arguments of `fencepost serve` in each file of `deploy/`."""
    folder = ROOT / "deploy"
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", (folder / "Dockerfile").read_text(), re.MULTILINE)
    start = re.search(r"^ExecStart=\S+/(.*)$", (folder / "fencepost.service").read_text(), re.MULTILINE)
    deployment, _ = yaml.safe_load_all((folder / "kubernetes.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert entry
    assert start
    image = json.loads(entry[1])
    return {
        "Dockerfile": image,
        "kubernetes.yaml": [*image, *container["args"]],
        "fencepost.service": start[1].split(),
    }


@pytest.mark.parametrize(("file", "words"), deployed_commands().items())
def test_command_line_accepts_commands_of_deployment_files(file, words):
    program, name, *arguments = words
    assert program == "fencepost"
    typer.main.get_command(app).commands[name].make_context(file, arguments)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_commands_of_the_serving_page_get_answers(tmp_path):
    """The commands of the page run with another port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    page = ROOT / "docs" / "serving.md"
    lines = [line for block in fenced(page, "sh") for line in block.splitlines()]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    server: subprocess.Popen[str] | None = None
    answers = []
    try:
        for line in (line.replace("8000", port) for line in lines):
            if line.startswith("fencepost serve"):
                if server is not None:
                    server.terminate()
                    assert server.wait(60) == 0
                server = subprocess.Popen(shlex.split(line), cwd=tmp_path, env=environment, text=True)
                _wait_for(port)
            else:
                output = subprocess.check_output(line, shell=True, cwd=tmp_path, env=environment, text=True)  # noqa: S602
                answers += [json.loads(output)] if line.startswith("curl") else []
    finally:
        if server is not None:
            server.kill()
            server.wait()
    assert [len(answer["results"]) for answer in answers[:2]] == [1, 2]
    assert answers[0]["results"][0]["entities"][0]["text"] == "Ada Lovelace"
    assert [answer["name"] for answer in answers[2:]] == ["names", "names"]
    (output,) = fenced(page, "json")
    assert (
        json.loads(output)["results"][0]["entities"][0].keys()
        == answers[0]["results"][0]["entities"][0].keys()
    )


def _wait_for(port: str) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", int(port)), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server does not start")
