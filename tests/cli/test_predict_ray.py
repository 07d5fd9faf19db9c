"""Refusals of `predict --engine ray` before Ray is started; and Parquet without Ray."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet, table

from fencepost.cli import predict_ray
from fencepost.errors import FencepostError


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch):
    def started(*_):
        raise AssertionError("Ray must not start")

    monkeypatch.setattr(predict_ray, "open_ray", started)


@pytest.fixture
def command(tmp_path, small_model) -> list[object]:
    (tmp_path / "in.txt").write_text("Ada\nmet him\n")
    return [
        *("predict", small_model, "--engine", "ray"),
        *("--input", tmp_path / "in.txt", "--output", tmp_path / "out"),
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--to", "conll"], "--to cannot be used with --engine ray"),
        (["--limit", "3"], "--limit cannot be used with --engine ray"),
        (["--overlaps", "best"], "--overlaps cannot be used with --engine ray"),
        (["--pretokenized"], "--pretokenized cannot be used with --engine ray"),
        (["--output", "-"], "--engine ray writes one file per input file: give a folder with --output"),
        (
            ["--input", "-"],
            "--engine ray reads files: give a file, a folder or a quoted pattern with --input",
        ),
        (["--input", "nowhere*"], "nowhere*: no file matches this pattern"),
        (["--input", ""], "the file name is empty"),
        (["--ray-address", "ray://head:10001"], "on a machine of the cluster, with --ray-address auto"),
        (["--resume", "--force"], "give only one of them"),
        (["--types", "PERS"], "there is no type 'PERS'"),
        (["--min-confidence", "3"], "a confidence is between 0 and 1"),
        (["--format", "conll"], "is a corpus (conll)"),
        (["--engine", "ray:int8"], "this model was not exported to int8"),
        (["--engine", "auto", "--workers", "2"], "--workers needs --engine ray"),
        (["--engine", "auto", "--ray-address", "auto"], "--ray-address needs --engine ray"),
    ],
)
def test_refuses_invalid_options(run, command, tmp_path, more, message):
    assert message in run(*command, *more, code=2).stderr
    assert not (tmp_path / "out").exists()


def test_refuses_csv_with_advice(run, command, tmp_path):
    (tmp_path / "in.csv").write_text("text\nAda\n")
    message = run(*command, "--input", tmp_path / "in.csv", code=2).stderr
    assert "leave out --engine ray, or save it as Parquet or as JSON lines" in message


def test_refuses_texts_in_the_command(run, small_model, tmp_path):
    message = run(
        "predict", small_model, "Ada", "--engine", "ray", "--output", tmp_path / "out", code=2
    ).stderr
    assert "--engine ray reads files" in message


def test_refuses_invalid_lines_before_starting_ray(run, command, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a"}\n{"text": 3}\n')
    message = run(*command, "--input", path, code=2).stderr
    assert "in.jsonl:2: 'text' is missing, or not a string" in message
    assert not (tmp_path / "out").exists()


@pytest.fixture
def earlier(tmp_path) -> Callable[[], dict[str, str]]:
    """Write an earlier output and return a function that reads it."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text('{"fencepost": "1", "command": "predict", "shards": [{}]}')
    (out / "part-00000-of-00001.jsonl").write_text("precious\n")
    return lambda: {str(path.relative_to(out)): path.read_text() for path in out.rglob("*")}


def test_failures_keep_an_earlier_output(run, command, tmp_path, earlier, monkeypatch):
    before = earlier()
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": 3}\n')
    run(*command, "--input", tmp_path / "in.jsonl", "--force", code=2)
    assert earlier() == before
    message = run(*command, "--input", tmp_path / "out", "--force", code=2).stderr
    assert "the input is inside the output folder" in message
    run(*command, "--ray-address", "ray://head:10001", "--force", code=2)
    assert earlier() == before

    def silent(*_):
        raise FencepostError("the Ray cluster does not answer")

    monkeypatch.setattr(predict_ray, "open_ray", silent)
    message = run(*command, "--force", code=1).stderr
    assert "does not answer" in message
    assert "--resume" not in message
    assert earlier() == before


def test_interrupted_start_of_ray_creates_no_output(run, command, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(predict_ray, "open_ray", interrupted)
    assert "--resume" not in run(*command, code=130).stderr
    assert not (tmp_path / "out").exists()


def test_missing_ray_is_named_and_keeps_an_earlier_output(run, command, monkeypatch, tmp_path, earlier):
    before = earlier()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "ray.data", None)
    for more in (["--force"], ["--output", tmp_path / "new"]):
        message = run(*command, *more, code=2).stderr
        assert "--engine ray needs ray.data, which is not installed: pip install 'fencepost[ray]'" in message
    assert earlier() == before
    assert not (tmp_path / "new").exists()


# One process


def test_predicts_parquet_in_one_process(run, small_model, tmp_path):
    path: Path = tmp_path / "in.parquet"
    rows = {
        "id": [1, 2, 3],
        "text": ["Ada", None, "London"],
        "raw": [b"x", b"y", b"z"],
        "tags": [["a"], [], None],
    }
    parquet.write_table(table(rows), path)
    arguments = ["predict", small_model, "--input", path, "--output", "-"]
    assert "in.parquet:2: 'text' is missing, or not a string" in run(*arguments, code=2).stderr
    result = run(*arguments, "--skip-invalid")
    first, second = map(json.loads, result.stdout.splitlines())
    assert {**first, "entities": []} == {"id": 1, "tags": ["a"], "text": "Ada", "entities": []}
    assert (second["id"], second["tags"], second["text"]) == (3, None, "London")
    assert "what JSON cannot represent is not in the output: column 'raw' (binary)\n" in result.stderr


def test_refuses_parquet_from_standard_input(run, small_model, tmp_path):
    path = tmp_path / "in.parquet"
    parquet.write_table(table({"text": ["Ada"]}), path)
    message = run("predict", small_model, "--output", "-", stdin=path.read_bytes(), code=2).stderr
    assert "Parquet can only be read from a file; use --input" in message


def test_names_missing_pyarrow(run, small_model, tmp_path, monkeypatch):
    path = tmp_path / "in.parquet"
    parquet.write_table(table({"text": ["Ada"]}), path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = run("predict", small_model, "--input", path, code=2).stderr
    assert "needs pyarrow, which is not installed: pip install 'fencepost[tables]'" in message
