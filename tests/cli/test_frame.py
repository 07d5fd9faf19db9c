"""The frame of the command line: exit codes, streams, `--json`, quick start."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fencepost import __version__
from fencepost.cli.frame import fill_json_target
from tests.cli.conftest import heed_ctrl_c

COMMAND = [sys.executable, "-m", "fencepost"]


def shell(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def test_prints_version_and_help():
    assert shell("--version").stdout == f"fencepost {__version__}\n"
    help_ = shell("--help")
    assert help_.returncode == 0
    for command in ("convert", "evaluate", "inspect"):
        assert command in help_.stdout


def test_no_arguments_print_help_and_exit_with_2():
    result = shell()
    assert result.returncode == 2
    assert "Usage" in result.stdout + result.stderr


def test_importing_the_cli_imports_no_heavy_modules():
    heavy = {"numpy", "spacy", "torch", "transformers", "pydantic", "scipy"}
    code = f"import sys, fencepost.cli; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspekt"], "inspekt"),
        (["inspect"], "FILE"),
        (["inspect", "--colour", "x"], "--colour"),
        (["inspect", "nowhere.conll"], "nowhere.conll: cannot be read: No such file or directory"),
        (["inspect", "sample:test", "--format", "jsnl"], "did you mean jsonl?"),
        (["inspect", "sample:none"], "it has train, dev, test"),
        (["convert", "sample:test", "out"], "the file name shows no known format"),
        (["inspect", "sample:test", "--word-column", "0"], "columns are numbered from 1"),
    ],
)
def test_wrong_usage_exits_with_2_and_a_message(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run(*arguments, code=2).stderr


def test_wrong_command_exits_with_2_without_a_traceback():
    result = shell("inspekt")
    assert result.returncode == 2
    assert "inspekt" in result.stderr
    assert "Traceback" not in result.stderr


def test_bad_input_exits_with_2_and_names_file_and_line(tmp_path):
    bad = tmp_path / "bad.conll"
    bad.write_text("Ada B-PER\nLovelace I-PER\n\nin O\nLondon B_LOC\n")
    result = shell("inspect", bad)
    assert result.returncode == 2
    assert result.stderr.startswith(f"fencepost: {bad}:5: 'B_LOC' is not a tag")
    assert result.stdout == ""


def test_refused_work_exits_with_1(tmp_path):
    result = shell("convert", "sample:test", tmp_path / "out.conll")
    assert result.returncode == 1
    assert "91 sentences have overlapping or nested entities" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_closed_pipe_prints_no_traceback():
    command = [*COMMAND, "convert", "sample:train", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as producer:
        assert producer.stdout.readline().startswith(b"{")
        producer.stdout.close()
        assert b"Traceback" not in producer.stderr.read()


def interrupted(process):
    """Return the messages; a signal just before the process waits for input can be lost, so send several."""
    for _ in range(6):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=10)[1]
    raise AssertionError


def test_ctrl_c_leaves_no_half_file(tmp_path):
    endless = tmp_path / "endless.jsonl"
    os.mkfifo(endless)
    out = tmp_path / "out.jsonl"
    out.write_text("what was there before\n")
    process = subprocess.Popen(
        [*COMMAND, "convert", str(endless), str(out)], stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c
    )
    line = b'{"words": ["a"], "entities": []}\n' * 50_000
    with endless.open("wb") as stream:
        stream.write(line)
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)  # until the temporary file is there
        errors = interrupted(process)
    assert process.returncode == 130
    assert errors == b"fencepost: interrupted\n"
    assert out.read_text() == "what was there before\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["endless.jsonl", "out.jsonl"]


def test_piped_output_has_no_colours_and_quiet_prints_nothing(tmp_path):
    result = shell("inspect", "sample:dev", "--examples", "2")
    assert "\x1b" not in result.stdout
    assert shell("convert", "sample:dev", tmp_path / "out.xml", "--quiet").stderr == ""
    assert "\x1b" in shell("inspect", "sample:dev", env={**os.environ, "FORCE_COLOR": "1"}).stdout


def test_progress_bar_is_in_the_terminal_and_not_in_the_output(tmp_path):
    import pty

    terminal, side = pty.openpty()
    command = [*COMMAND, "convert", "sample:train", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=side) as process:
        os.close(side)
        lines = process.stdout.read().splitlines()
        output = b""
        with contextlib.suppress(OSError):  # the terminal's end
            while chunk := os.read(terminal, 65536):
                output += chunk
    os.close(terminal)
    assert process.returncode == 0
    assert len(lines) == 900
    assert all(line.startswith(b"{") for line in lines)
    assert b"train.jsonl" in output
    assert b"sentences" in output


@pytest.mark.parametrize(
    ("arguments", "filled"),
    [
        (["a", "--json"], ["a", "--json", "-"]),
        (["--json", "a.conll"], ["--json", "-", "a.conll"]),
        (["a", "--json", "x.json"], ["a", "--json", "x.json"]),
        (["a", "--json", "-"], ["a", "--json", "-"]),
        (["a", "--json", "--quiet"], ["a", "--json", "-", "--quiet"]),
        (["--", "--json"], ["--", "--json"]),
    ],
)
def test_json_without_a_file_goes_to_standard_output(arguments, filled):
    assert fill_json_target(arguments) == filled


def test_json_never_overwrites_a_corpus(run, tmp_path):
    corpus = tmp_path / "corpus.json"
    run("convert", "sample:dev", corpus)
    before = corpus.read_bytes()
    result = run("inspect", "--json", corpus, "sample:dev", code=2)
    assert "not a result of fencepost" in result.stderr
    assert corpus.read_bytes() == before
    report = tmp_path / "report.json"
    for _ in range(2):  # a result may be overwritten
        run("inspect", "sample:dev", "--json", report)
    assert json.loads(report.read_text())["corpora"][0]["sentences"] == 150


def test_refuses_unwritable_paths(run, tmp_path):
    result = run("convert", "sample:dev", tmp_path / "no-such-folder" / "out.jsonl", code=2)
    assert "cannot be written" in result.stderr
    result = run("convert", "sample:dev", Path(tmp_path), "--to", "jsonl", code=2)
    assert "is a folder" in result.stderr


def test_works_with_ascii_terminal_and_closed_standard_input(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = shell("inspect", "sample:dev", "--examples", "1", env=environment)
    assert result.returncode == 0
    assert "sample:dev" in result.stdout
    corpus = tmp_path / "a.jsonl"
    corpus.write_text(
        '{"words": ["科"], "entities": [{"start": 0, "end": 1, "type": "科"}]}\n', encoding="utf-8"
    )
    figures = json.loads(shell("inspect", corpus, "--json", env=environment).stdout)["corpora"][0]
    assert figures["by_type"] == {"科": 1}
    command = f"{sys.executable} -m fencepost inspect {corpus} <&-"
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0


def test_standard_input_is_read_once(run):
    assert "given twice" in run("inspect", "-", "-", code=2).stderr
    assert "given twice" in run("evaluate", "--gold", "-", "--predicted", "-", code=2).stderr


def test_reads_a_file_whose_name_is_not_utf8(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.conll"
    Path(os.fsdecode(name)).write_text("a O\n")
    report = tmp_path / "report.json"
    subprocess.run([*COMMAND, "inspect", name, "--json", report], check=True, capture_output=True)
    assert json.loads(report.read_text())["corpora"][0]["sentences"] == 1
