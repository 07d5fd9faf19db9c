"""`fencepost export`: graphs beside the weights, which are trusted only after a check."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fencepost.data import read
from fencepost.runtime import export as exporting
from fencepost.runtime.loading import load

pytest.importorskip("onnx")


@pytest.fixture
def model(small_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_model, tmp_path / "model"))


def facts(model: Path) -> dict:
    return json.loads((model / "onnx" / "export.json").read_text())


def test_export_without_data_is_not_trusted(run, model: Path) -> None:
    result = run("export", model, "--int8")
    assert "encoder.onnx" in result.stderr
    assert "encoder.int8.onnx" in result.stderr
    assert "not checked" in result.stderr
    assert "good" not in result.stderr.splitlines()[0]
    assert "checked" not in facts(model)
    assert load(model).engine == "onnx"  # int8 exists, but its quality is unknown
    assert load(model, engine="int8").engine == "int8"


def test_checked_graphs_are_used(run, model: Path) -> None:
    result = run("export", model, "--int8", "--check", "sample:dev", "--max-loss", 50)
    assert "the export passed the check on sample:dev" in result.stderr
    checked = facts(model)["checked"]
    assert checked["sentences"] == 150
    assert checked["float32"]["sentences_that_differ"] == 0
    assert checked["float32"]["f1"] == checked["f1"] > 0
    assert checked["int8"]["good"]
    assert load(model).engine == "int8"
    # the figures are those of the commands
    path = model.parent / "scores.json"
    for engine, f1 in (("onnx", checked["float32"]["f1"]), ("int8", checked["int8"]["f1"])):
        run("evaluate", model, "sample:dev", "--engine", engine, "--json", path)
        assert json.loads(path.read_text())["f1"] == pytest.approx(f1)


def test_removes_an_int8_graph_that_loses_too_much(run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quantised graph always loses, whichever parts are set to single precision."""
    exact = exporting._compare

    def worse(folder: Path, engine: str, *rest) -> tuple[int, float]:
        differ, f1 = exact(folder, engine, *rest)
        return (differ, f1) if engine == "onnx" else (150, f1 - 0.2)

    monkeypatch.setattr(exporting, "_compare", worse)
    result = run("export", model, "--int8", "--check", "sample:dev", code=1)
    assert "the most sensitive parts: " in result.stderr
    assert " in float32: F1 " in result.stderr
    assert "more than 0.5 below the model's" in result.stderr
    assert not (model / "onnx" / "encoder.int8.onnx").exists()
    assert facts(model)["checked"]["int8"]["good"] is False
    assert load(model).engine == "onnx"


def test_removes_graphs_that_predict_other_entities(run, model: Path, monkeypatch) -> None:
    monkeypatch.setattr(exporting, "_compare", lambda *_: (7, 0.5))
    result = run("export", model, "--check", "sample:dev", code=1)
    assert "other entities than the model in 7 of 150 sentences" in result.stderr
    assert not list((model / "onnx").glob("*.onnx"))
    assert load(model).engine == "pytorch"


def test_sets_sensitive_parts_to_float_one_by_one(run, model: Path, monkeypatch) -> None:
    """With the second part, the graph is good enough."""
    losses = iter([0.1, 0.1, 0.0])
    exact = exporting._compare

    def compare(folder: Path, engine: str, *rest) -> tuple[int, float]:
        differ, f1 = exact(folder, "onnx", *rest)
        return differ, f1 - (next(losses) if engine == "int8" else 0.0)

    monkeypatch.setattr(exporting, "_compare", compare)
    run("export", model, "--int8", "--check", "sample:dev")
    in_float = facts(model)["checked"]["int8"]["in_float"]
    source = model / "onnx" / "encoder.onnx"
    sentences = [sentence for sentence in read("sample:dev") if sentence.words][:64]
    inputs = exporting.load_predictor(model, "float32").inputs
    worst = exporting.measure_sensitivity(source, [inputs([sentence]) for sentence in sentences])
    assert in_float == list(worst)[:2]
    assert list(worst.values()) == sorted(worst.values(), reverse=True)
    assert all(off >= 0 for off in worst.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such-model",), "not a model folder"),
        (("names",), "names: this model has graphs for prediction, but no weights (model.safetensors)"),
        (("{model}", "--check", "no-such-file.jsonl"), "no-such-file.jsonl"),
        (("{model}", "--check", "{empty}"), "contains no sentences to check the graphs with"),
    ],
)
def test_refuses_wrong_arguments(run, model: Path, tmp_path: Path, arguments, message: str) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    result = run("export", *(a.format(model=model, empty=empty) for a in arguments), code=2)
    assert message in result.stderr
    assert not (model / "onnx").exists()
