"""`analyze settings`, as a user runs it."""

from __future__ import annotations

import json
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fencepost.cli import app
from fencepost.cli.frame import repeat_option
from fencepost.config import Config
from fencepost.data import read, write
from fencepost.evaluation import evaluate
from fencepost.runtime.pytorch import load_model
from fencepost.runtime.recogniser import Recogniser
from fencepost.training import train
from tests.methods.running import predict


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a small model and test data."""
    folder = tmp_path_factory.mktemp("sweep")
    sentences = list(islice(read("sample:train"), 40))
    write(sentences, folder / "test.jsonl")
    settings = {
        "method": {"name": "diffusion", "size": 32, "feed_forward": 32, "pointer_size": 32, "spans": 20},
        "encoder": {"name": "scratch", "lstm": {"size": 32, "layers": 1, "dropout": 0.0}},
        "training": {"epochs": 8, "batch_size": 4, "learning_rate": 0.005},
        "predict": {"threshold": 0.5},
    }
    train(Config.parse(settings), sentences, folder / "model")
    return folder


def sweep(
    folder: Path, out: Path, *arguments: Any, code: int = 0, model: Path | None = None
) -> tuple[Result, dict[str, Any]]:
    """Return the output of the command, and the JSON that it writes."""
    names = [model or folder / "model", folder / "test.jsonl", "--out", out]
    result = CliRunner().invoke(app, ["analyze", "settings", *map(str, [*names, *arguments])])
    assert result.exit_code == code, result.output
    path = out / "settings.json"
    return result, json.loads(path.read_text()) if path.is_file() else {}


def swept(content: dict[str, Any]) -> list[dict[str, Any]]:
    [rows] = content["models"].values()
    return list(rows)


@pytest.mark.slow
def test_each_combination_equals_a_model_with_these_settings(folder: Path, tmp_path: Path) -> None:
    _, content = sweep(folder, tmp_path, "--sweep", "steps=1,3", "spans=2,5,30", "--quiet")
    rows = swept(content)
    assert content["engines"] == {"model": "pytorch"}
    assert [row["set"] for row in rows] == [
        {"steps": steps, "spans": spans} for steps, spans in product((1, 3), (2, 5, 30))
    ]
    data = list(read(folder / "test.jsonl"))
    for row in rows:
        expected = evaluate(data, predict(load_model(folder / "model"), data, **row["set"])).overall
        assert (row["f1"], row["predicted"]) == (expected.f1, expected.predicted)
        assert row["sentences_per_second"] > 0
    assert len({row["predicted"] for row in rows}) > 2


def test_prints_a_row_for_each_combination(folder: Path, tmp_path: Path) -> None:
    result, content = sweep(folder, tmp_path, "--sweep", "steps=1,2", "spans=5", "--set", "predict.seed=3")
    header, *rows = [line for line in result.stdout.splitlines() if line.startswith("  model ")]
    assert header.split() == ["model", "steps", "spans", "F1", "sentences", "per", "second"]
    assert [row.split()[:3] for row in rows] == [["model", "1", "5"], ["model", "2", "5"]]
    assert result.stderr.splitlines()[0].startswith("1/2 steps=1 spans=5: F1 ")
    assert [row.split()[3] for row in rows] == [f"{100 * row['f1']:.1f}" for row in swept(content)]
    assert "engine: model (pytorch)" in result.stdout


def test_all_notations_of_sweep_are_equal(folder: Path, tmp_path: Path) -> None:
    one = ["--sweep", "steps=1,2", "spans=5,3"]
    two = ["--sweep", "predict.steps=1,2", "--sweep", "spans=5,3"]
    three = ["--sweep=steps=1,2", "spans=5,3"]
    results = [_rows(sweep(folder, tmp_path, *way, "-q")[1]) for way in (one, two, three)]
    assert results == [_rows_wanted()] * 3
    before = ["analyze", "settings", *one, folder / "model", folder / "test.jsonl", "--out", tmp_path / "b"]
    CliRunner().invoke(app, [str(a) for a in before])
    assert _rows(json.loads((tmp_path / "b" / "settings.json").read_text())) == _rows_wanted()


def _rows(content: dict[str, Any]) -> list[dict[str, int]]:
    return [row["set"] for row in swept(content)]


def _rows_wanted() -> list[dict[str, int]]:
    return [{"steps": steps, "spans": spans} for steps, spans in product((1, 2), (5, 3))]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--sweep", "a=1", "b=2", "M"], ["--sweep", "a=1", "--sweep", "b=2", "M"]),
        (["M", "a=1", "--sweep", "b=2"], ["M", "a=1", "--sweep", "b=2"]),
        (["--sweep", "a=1", "--", "b=2"], ["--sweep", "a=1", "--", "b=2"]),
        (["--sweep", "a=1", "./b=2"], ["--sweep", "a=1", "./b=2"]),
        (["--sweep"], ["--sweep"]),
        (["--sweep=a=1", "b=2", "c=3", "M"], ["--sweep=a=1", "--sweep", "b=2", "--sweep", "c=3", "M"]),
    ],
)
def test_values_after_one_option_are_split(args: list[str], expected: list[str]) -> None:
    assert repeat_option("--sweep", args) == expected


def test_other_methods_can_be_swept(tmp_path: Path, folder: Path) -> None:
    settings = {
        "method": {"size": 8, "width_size": 4},
        "encoder": {"name": "scratch", "lstm": {"size": 8}},
        "training": {"epochs": 1},
    }
    train(Config.parse(settings), list(read(folder / "test.jsonl")), tmp_path / "model")
    result, content = sweep(folder, tmp_path, "--sweep", "select=flat,nested", model=tmp_path / "model")
    assert "select=nested" in result.stderr
    assert _rows(content) == [{"select": "flat"}, {"select": "nested"}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["steps"], "--sweep steps: write it as KEY=VALUE,VALUE, for example steps=1,2,5"),
        (["steps=1,,2"], "--sweep steps=1,,2: write it as"),
        (["=1"], "write it as"),
        (["steps=1", "predict.steps=2"], "--sweep predict.steps=2: steps is given twice"),
        (["stepz=1"], "predict.stepz: there is no such key; did you mean predict.steps?"),
        (["steps=1,0"], "predict.steps: should be greater than or equal to 1, not 0"),
    ],
)
def test_refuses_wrong_settings_before_any_prediction(
    folder: Path, tmp_path: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Recogniser, "predict", never)
    result, _ = sweep(folder, tmp_path, "--sweep", *arguments, code=2)
    assert message in result.stderr
    assert not result.stdout


def test_ctrl_c_keeps_finished_combinations(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict = Recogniser.predict

    def interrupted(self: Recogniser, sentences: Any) -> Any:
        if self.settings["steps"] == 3:
            raise KeyboardInterrupt
        return predict(self, sentences)

    monkeypatch.setattr(Recogniser, "predict", interrupted)
    result, content = sweep(folder, tmp_path, "--sweep", "steps=1,2,3,4", code=130)
    assert _rows(content) == [{"steps": 1}, {"steps": 2}]
    assert "written to" in result.stdout
    assert "interrupted" in result.stderr


@pytest.mark.parametrize("content", ["", '{"words": [], "entities": []}\n'])
def test_refuses_a_corpus_without_sentences(folder: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "empty.jsonl").write_text(content)
    arguments = [str(folder / "model"), str(tmp_path / "empty.jsonl"), "--format", "jsonl"]
    result = CliRunner().invoke(app, ["analyze", "settings", *arguments, "--sweep", "steps=1"])
    assert result.exit_code == 2
    assert "sentences" in result.stderr
    assert not result.stdout


def test_refuses_a_sweep_without_settings_or_corpus(folder: Path) -> None:
    commands = {
        "give settings and their values with --sweep": [folder / "model", folder / "test.jsonl"],
        "give a corpus": [folder / "model", "--sweep", "steps=1"],
    }
    for message, arguments in commands.items():
        result = CliRunner().invoke(app, ["analyze", "settings", *map(str, arguments)])
        assert result.exit_code == 2
        assert message in result.stderr
