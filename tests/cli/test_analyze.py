"""`fencepost analyze`, as a user runs it: four files each, with the same numbers as `evaluate`."""

from __future__ import annotations

import copy
import io
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fencepost.analysis.epochs import read_records
from fencepost.analysis.landscape import make_points
from fencepost.cli import analyze, app
from fencepost.cli.progress import count_steps
from fencepost.data import read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import Temperature, classify_errors, evaluate, match, reliability
from fencepost.methods.model import Model
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import load_model, save_model
from fencepost.training.records import find_best_epoch
from tests.analysis.files import Written
from tests.methods.running import predict
from tests.runtime import models

DATA = [
    *models.NESTED,
    Sentence(
        ["Ada", "opened", "the", "University", "of", "London"], [Entity(2, 6, "ORG"), Entity(5, 6, "LOC")]
    ),
    Sentence(["=Toronto", "met", "London"], [Entity(0, 1, "=never seen"), Entity(2, 3, "PER")], id="=id"),
]
OWN = Temperature(0.5, 0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of all methods, one of them calibrated and exported, and data."""
    folder = tmp_path_factory.mktemp("analyze")
    calibrated = copy.copy(models.trained())
    calibrated.calibration = OWN
    models.saved(calibrated, folder / "smoothing", int8=True)
    for name in ("boundary-offset", "locate-and-label", "diffusion"):
        save_model(models.random_model(name), folder / name)
    silent = models.random_model("boundary-smoothing")
    method: Any = silent.network
    with torch.no_grad():
        for weight in method.parameters():
            weight.zero_()
        method.b[0] += 50
    save_model(silent, folder / "silent")
    write(DATA, folder / "data.jsonl")
    write([one.with_entities([]) for one in DATA], folder / "none.jsonl")
    (folder / "empty.jsonl").write_text("")
    return folder


@pytest.fixture
def analyzed(run, folder: Path, tmp_path: Path, monkeypatch):
    """Run an analysis with names of models and files in the folder, and read its files.

    Drawing takes most of the time, so figures are made, but only drawn if `figure` is set.
    """

    def analyzed(
        name: str, *arguments: object, code: int = 0, figure: bool = False, file: str | None = None
    ) -> Any:
        there = [folder / str(one) if (folder / str(one)).exists() else one for one in arguments]
        there += ["--quiet"] * (name not in ("curves", "sweep"))
        out = tmp_path / f"out {code}"
        with monkeypatch.context() as patch:
            if not figure:
                patch.setattr("fencepost.analysis.result._draw", lambda *_: b"")
            result = run("analyze", name, *there, "--out", out, code=code)
        if code:
            assert not list(out.glob("*"))
            return result.stderr
        assert result.stderr == ""
        name = file or {"sweep": "sweep-f1"}.get(name, name)
        files = [f"{name}.{kind}" for kind in ("json", "csv", "png", "svg")]
        assert f"written to {out}: {', '.join(files)}\n" in result.stdout
        return Written.read(out, name, figure=figure)

    return analyzed


def evaluate_with_command(run, *arguments: object) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run("evaluate", *arguments, "--json", "--quiet").stdout)
    return result


def predicted(folder: Path, name: str) -> list[Sentence]:
    return predict(load_model(folder / name), read(folder / "data.jsonl"))


# Each analysis


def test_calibration_equals_evaluate(run, analyzed, folder: Path) -> None:
    result = analyzed(
        "calibration", "smoothing", "locate-and-label", "data.jsonl", "--engine", "pytorch", figure=True
    )
    for name in ("smoothing", "locate-and-label"):
        expected = evaluate_with_command(run, folder / name, folder / "data.jsonl", "--engine", "pytorch")
        assert result.content["models"][name]["ece"] == expected["ece"]
        assert result.content["models"][name]["bins"] == expected["reliability"]
    assert result.content["raw"] is False
    assert result.content["data"] == str(folder / "data.jsonl")
    assert result.content["folders"]["smoothing"] == str(folder / "smoothing")
    assert len(result.rows) == 20
    assert any("ECE" in text for text in result.texts)
    assert {"smoothing", "locate-and-label"} <= set(result.texts)


def test_raw_confidences_are_not_calibrated(analyzed, folder: Path) -> None:
    bare = load_model(folder / "smoothing")
    assert bare.calibration == OWN
    bare.calibration = Temperature()
    sentences = list(read(folder / "data.jsonl"))
    own = match(sentences, predict(bare, sentences)).predicted
    expected = reliability(own.score, own.matched)
    for engine in ("pytorch", "onnx"):
        arguments = ["smoothing", "data.jsonl", "--raw", "--engine", engine]
        content = analyzed("calibration", *arguments).content["models"]["smoothing"]
        assert content["ece"] == pytest.approx(expected.ece, abs=1e-5)
        assert [one["count"] for one in content["bins"]] == [one.count for one in expected.bins]
    calibrated = analyzed("calibration", "smoothing", "data.jsonl").content["models"]["smoothing"]
    assert abs(calibrated["ece"] - content["ece"]) > 0.001


def test_error_counts_equal_classify_errors(run, analyzed, folder: Path) -> None:
    result = analyzed(
        "errors", "smoothing", "diffusion", "data.jsonl", "--examples", 2, "--engine", "pytorch", figure=True
    )
    for name in ("smoothing", "diffusion"):
        expected = classify_errors(DATA, predicted(folder, name))
        content = result.content["models"][name]
        scores = evaluate_with_command(run, folder / name, folder / "data.jsonl", "--engine", "pytorch")
        assert content["f1"] == scores["f1"]
        assert {kind: of["count"] for kind, of in content["kinds"].items()} == expected.count_kinds()
        assert max(map(len, content["examples"].values())) <= 2
        assert sum(row["model"] == name for row in result.rows) == len(expected) > 0
    strange = [row for row in result.rows if row["gold_text"] == "'=Toronto" or row["id"] == "'=id"]
    assert strange
    assert not [value for row in result.rows for value in row.values() if value[:1] in "=+@" and value]
    assert "Errors by kind" in result.texts


def test_scores_by_length_equal_evaluate(run, analyzed, folder: Path) -> None:
    result = analyzed(
        "lengths", "smoothing", "locate-and-label", "data.jsonl", "--engine", "pytorch", figure=True
    )
    for name in ("smoothing", "locate-and-label"):
        expected = evaluate_with_command(run, folder / name, folder / "data.jsonl", "--engine", "pytorch")
        for length, scores in result.content["models"][name]["by_length"].items():
            assert scores.items() <= expected["by_length"][length].items()
    assert result.content["models"]["locate-and-label"]["enumerated"] == [1, 2, 4]
    assert result.content["models"]["smoothing"]["enumerated"] is None
    alone = analyzed("lengths", "locate-and-label", "data.jsonl", figure=True)
    assert "lengths that training does not enumerate" in alone.texts


@pytest.mark.parametrize(("name", "model"), [("offsets", "boundary-offset"), ("stages", "locate-and-label")])
def test_method_writes_the_report_of_a_method(analyzed, folder: Path, name: str, model: str) -> None:
    ner = load(folder / model)
    reports = ner.make_reports([name])
    list(ner.predict(DATA, ner.watch_reports(reports)))
    expected = {
        title: {row: dict(n) if isinstance(n, Mapping) else asdict(n) for row, n in rows.items()}
        for title, rows in reports[name].tables().items()
    }
    result = analyzed("method", model, "data.jsonl", "--label", "[/bold]$x$", figure=True, file=name)
    assert result.content["models"] == {"[/bold]$x$": expected}
    assert result.content["engines"] == {"[/bold]$x$": ner.engine}
    assert all(row["model"] == "[/bold]$x$" for row in result.rows)
    numbers = [
        value
        for tables in result.content["models"].values()
        for rows in tables.values()
        for row in rows.values()
        for value in row.values()
    ]
    assert [float(row["value"]) for row in result.rows] == pytest.approx(numbers)


def test_models_of_different_methods_have_different_reports(run, folder: Path, tmp_path: Path) -> None:
    names = [folder / name for name in ("boundary-offset", "locate-and-label")]
    run("analyze", "method", *names, folder / "data.jsonl", "--out", tmp_path)
    for name, model in (("offsets", "boundary-offset"), ("stages", "locate-and-label")):
        content = json.loads((tmp_path / f"{name}.json").read_text())
        assert list(content["models"]) == list(content["folders"]) == [model]


def test_settings_scores_equal_evaluate_with_set(run, analyzed, folder: Path) -> None:
    arguments = ["--sweep", "steps=1,2", "spans=4,12"]
    result = analyzed("settings", *arguments, "diffusion", "data.jsonl", figure=True)
    [rows] = result.content["models"].values()
    assert [row["set"] for row in rows] == [
        {"steps": steps, "spans": spans} for steps in (1, 2) for spans in (4, 12)
    ]
    for row in rows:
        changes = [part for key, value in row["set"].items() for part in ("--set", f"predict.{key}={value}")]
        expected = evaluate_with_command(run, folder / "diffusion", folder / "data.jsonl", *changes)
        assert row["f1"] == expected["f1"]
    assert [(row["steps"], row["spans"]) for row in result.rows] == [
        ("1", "4"),
        ("1", "12"),
        ("2", "4"),
        ("2", "12"),
    ]
    assert {"sentences per second", "F1 (%)", "steps"} <= set(result.texts)


def test_landscape_is_the_loss_around_each_model(analyzed, folder: Path, tmp_path: Path) -> None:
    write(DATA[:2], tmp_path / "corpus.train", format="jsonl")
    write(DATA[2:], tmp_path / "corpus.dev", format="jsonl")
    before = [path.read_bytes() for path in sorted((folder / "smoothing").glob("*.*"))]
    corpora = [tmp_path / "corpus.train", tmp_path / "corpus.dev"]
    arguments = ["smoothing", "diffusion", *corpora, "--points", 5, "--seed", 3, "--format", "jsonl"]
    result = analyzed("landscape", *arguments, figure=True)
    assert [path.read_bytes() for path in sorted((folder / "smoothing").glob("*.*"))] == before
    assert result.content["points"] == make_points(5)
    assert result.content["seed"] == 3
    assert list(result.content["models"]["smoothing"]) == ["corpus.train", "corpus.dev"]
    for name in ("smoothing", "diffusion"):
        model = load_model(folder / name)
        with torch.no_grad():
            loss = model(model.collate(DATA[:2]))["loss"].item()
        assert result.content["models"][name]["corpus.train"][2] == pytest.approx(loss, rel=1e-5)
    assert len(result.rows) == 2 * 2 * 5
    assert {"corpus.train", "corpus.dev", "smoothing", "diffusion"} <= set(result.texts)


def test_landscape_uses_the_first_sentences(analyzed) -> None:
    [one, other] = (
        analyzed("landscape", "smoothing", "data.jsonl", "--points", 3, "--limit", limit).content
        for limit in (1, 0)
    )
    assert (one["limit"], other["limit"]) == (1, None)
    assert list(one["models"]["smoothing"]) == ["data"]
    assert one["models"] != other["models"]


@pytest.fixture(scope="module")
def trained_run(folder: Path) -> Path:
    arguments = ["train", "--train", folder / "data.jsonl", "--dev", folder / "data.jsonl", "--epochs", 2]
    arguments += ["--encoder", "scratch", "--out", folder / "run", "--quiet"]
    for change in ("encoder.lstm.size=8", "method.size=6", "training.batch_size=4"):
        arguments += ["--set", change]
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder / "run"


def test_curves_have_the_records_of_each_run(analyzed, trained_run: Path) -> None:
    result = analyzed("curves", trained_run, trained_run, "--label", "first", "--label", "again", figure=True)
    expected = [record for record in read_records(trained_run) if "dev_f1" in record]
    for of_run in result.content["runs"].values():
        assert [{**one, "train_loss": None} for one in of_run] == [
            {**{key: value for key, value in one.items() if key in of_run[0]}, "train_loss": None}
            for one in expected
        ]
        assert all(one["train_loss"] > 0 for one in of_run)
    assert [float(row["dev_loss"]) for row in result.rows] == [one["dev_loss"] for one in expected] * 2
    assert {"first", "again", "epoch"} <= set(result.texts)


def test_landscape_at_the_model_equals_the_development_loss(analyzed, trained_run: Path) -> None:
    epochs = [record for record in read_records(trained_run) if "dev_f1" in record]
    best = find_best_epoch(epochs)
    result = analyzed("landscape", trained_run, "data.jsonl", "--points", 3)
    assert result.content["models"]["run"]["data"][1] == pytest.approx(best["dev_loss"], rel=1e-4)


def test_sweep_plots_cells_and_refuses_foreign_folders(analyzed, folder: Path) -> None:
    score = {"mean": 0.5, "std": 0.1}
    cells = [
        {"cell": f"a={value}", "settings": {"a": value}, "share": None, "boundary_noise": None, "seeds": 2}
        | {"dev_f1": score, "test_f1": {"mean": None, "std": None}}
        for value in (1, 2)
    ]
    (folder / "swept").mkdir()
    (folder / "swept" / "sweep.json").write_text(json.dumps({"cells": cells}))
    result = analyzed("sweep", "swept")
    assert result.content["cells"] == cells
    assert [(row["cell"], row["f1_mean"]) for row in result.rows] == [("a=1", "0.5"), ("a=2", "0.5")]
    assert "--over b" in analyzed("sweep", "swept", "--over", "b", code=2)
    assert "not a sweep folder" in analyzed("sweep", "smoothing", code=2)
    for foreign in ("[]", "{", '{"cells": [1]}', '{"cells": [{}]}', '{"cells": null}'):
        (folder / "swept" / "sweep.json").write_text(foreign)
        assert "not a result of fencepost sweep" in analyzed("sweep", "swept", code=2)


def test_default_model_is_the_shipped_one(analyzed) -> None:
    assert list(analyzed("errors", "data.jsonl").content["models"]) == ["names"]


# Engines and names


def test_analyses_run_on_each_engine(analyzed, folder: Path) -> None:
    f1 = evaluate(DATA, predicted(folder, "smoothing")).overall.f1
    for engine in ("onnx", "int8"):
        result = analyzed("errors", "smoothing", "data.jsonl", "--engine", engine)
        assert result.content["engines"] == {"smoothing": engine}
        assert result.content["models"]["smoothing"]["f1"] == pytest.approx(f1, abs=0.35 * (engine == "int8"))
    message = analyzed("lengths", "diffusion", "data.jsonl", "--engine", "onnx", code=2)
    assert "was not exported" in message


@pytest.mark.slow
def test_odd_model_names_are_shown_safely(run, folder: Path, tmp_path: Path, monkeypatch) -> None:
    names = ["_a$b_{$", "日本\n[red]", "x" * 200 + "1", "x" * 200 + "2", "=cmd()"]
    for name in names:
        shutil.copytree(folder / "smoothing", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    run("analyze", "calibration", *names, folder / "data.jsonl")
    result = Written.read(tmp_path / "analysis", "calibration")
    assert list(result.content["models"]) == names
    texts = "\n".join(result.texts)
    assert "_a$b_{$" in texts
    assert "日本?[red]" in texts
    assert "x1" in texts
    assert "x2" in texts
    assert {row["model"] for row in result.rows} >= {"'=cmd()", "日本\n[red]"}
    run("analyze", "landscape", *names[:2], folder / "data.jsonl", "--points", 3)
    assert "日本?[red]" in Written.read(tmp_path / "analysis", "landscape").texts


def test_models_with_the_same_name_get_different_labels(analyzed, folder: Path, tmp_path: Path) -> None:
    for place in ("one", "two"):
        shutil.copytree(folder / "smoothing", tmp_path / place / "best")
    result = analyzed("errors", "data.jsonl", tmp_path / "one" / "best", tmp_path / "two" / "best")
    assert list(result.content["models"]) == ["one/best", "two/best"]
    assert result.content["models"]["one/best"] == result.content["models"]["two/best"]
    twice = analyzed("errors", "smoothing", "data.jsonl", "smoothing")
    assert list(twice.content["models"]) == [f"1: {folder / 'smoothing'}", f"2: {folder / 'smoothing'}"]


def test_limit_uses_the_first_sentences(analyzed) -> None:
    result = analyzed("errors", "silent", "data.jsonl", "--limit", 2)
    assert result.content["models"]["silent"]["mistakes"] == 6


# No predictions, no entities


def test_model_without_predictions_has_only_missed_entities(analyzed) -> None:
    content = analyzed("errors", "silent", "data.jsonl").content["models"]["silent"]
    assert content["mistakes"] == content["groups"]["missed"]["count"] == 11
    assert content["groups"]["missed"]["f1_if_corrected"] == 1.0
    lengths = analyzed("lengths", "silent", "data.jsonl").content["models"]["silent"]["by_length"]
    assert {scores["f1"] for scores in lengths.values()} == {0.0}


def test_model_without_predictions_can_be_shown_beside_another(analyzed) -> None:
    result = analyzed("calibration", "silent", "smoothing", "data.jsonl", figure=True)
    assert result.content["models"]["silent"]["ece"] is None
    assert "no predictions" in result.texts


@pytest.mark.parametrize(
    ("name", "model", "file"),
    [
        ("errors", "smoothing", None),
        ("lengths", "smoothing", None),
        ("calibration", "smoothing", None),
        ("method", "boundary-offset", "offsets"),
        ("method", "locate-and-label", "stages"),
        ("landscape", "locate-and-label", None),
    ],
)
def test_analyses_accept_data_without_entities(analyzed, name: str, model: str, file: str | None) -> None:
    more = ["--points", 3] if name == "landscape" else []
    assert analyzed(name, model, "none.jsonl", *more, file=file).content["models"]


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("calibration", "silent", "data.jsonl"), "no model predicts any entities in this data"),
        (("errors", "smoothing", "empty.jsonl"), "empty.jsonl: contains no sentences"),
        (
            ("landscape", "smoothing", "data.jsonl", "empty.jsonl"),
            "empty.jsonl: contains no sentences",
        ),
        (("errors", "no-such", "data.jsonl"), "no-such: not a model folder"),
        (
            ("errors", "smoothing", "no-such", "data.jsonl"),
            "give one corpus, not 2: no-such, ",
        ),
        (("errors", "smoothing"), "give a corpus; usage: fencepost analyze errors MODEL... DATA"),
        (("landscape", "data.jsonl"), "data.jsonl: not a model folder"),
        (("errors", "smoothing", "no-such.jsonl"), "no-such.jsonl"),
        (
            ("errors", "smoothing", "data.jsonl", "--label", "a", "--label", "b"),
            "in this order, not a, b",
        ),
        (
            ("errors", "smoothing", "diffusion", "data.jsonl", "--label", "a", "--label", "a"),
            "give a different name",
        ),
        (
            ("errors", "smoothing", "data.jsonl", "--set", "method.size=3"),
            "only prediction settings of a trained model can be changed",
        ),
        (("method", "smoothing", "data.jsonl"), "smoothing: the method boundary-smoothing has no reports"),
        (
            ("method", "boundary-offset", "smoothing", "data.jsonl"),
            "smoothing: the method boundary-smoothing",
        ),
        (("method", "boundary-offset", "data.jsonl", "--engine", "onnx"), "was not exported"),
        (("settings", "smoothing", "data.jsonl", "--sweep", "steps=1"), "predict.steps"),
        (("settings", "diffusion", "data.jsonl", "--sweep", "steps"), "write it as KEY=VALUE,VALUE"),
        (("settings", "diffusion", "data.jsonl"), "give settings and their values with --sweep"),
        (("landscape", "smoothing", "data.jsonl", "--points", "4"), "must be odd and at least 3, not 4"),
        (("curves", "smoothing"), "smoothing: contains no records of a training run"),
        (("curves", "no-such"), "no-such: contains no records of a training run"),
    ],
)
def test_refuses_wrong_arguments(analyzed, arguments: tuple[str, ...], message: str) -> None:
    assert message in analyzed(*arguments, code=2)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((name, name) for name in ("calibration", "errors", "lengths", "settings", "landscape", "curves")),
        ("method", "stages"),
    ],
)
def test_refuses_unwritable_output_before_loading_a_model(
    run, folder: Path, tmp_path: Path, monkeypatch, command, name
) -> None:
    monkeypatch.setattr("fencepost.cli.models.ModelOptions.load", None)
    monkeypatch.setattr("fencepost.runtime.pytorch.load_model", None)
    model = folder / ("locate-and-label" if command == "method" else "smoothing")
    more = ["--sweep", "select=flat"] if command == "settings" else []
    (tmp_path / f"{name}.csv").write_text("mine")
    for out, message in (
        (tmp_path, "not a result of fencepost"),
        (tmp_path / f"{name}.csv" / "x", "cannot be created"),
    ):
        result = run("analyze", command, model, folder / "data.jsonl", "--out", out, *more, code=2)
        assert message in result.stderr
    assert (tmp_path / f"{name}.csv").read_text() == "mine"


@pytest.mark.parametrize("missing", ["matplotlib", "torch"])
def test_names_packages_that_are_not_installed(analyzed, monkeypatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    for module in [
        name
        for name in sys.modules
        if name.startswith(("fencepost.analysis.", "fencepost.methods.model", "fencepost.runtime.pytorch"))
    ]:
        monkeypatch.delitem(sys.modules, module)
    message = analyzed("landscape", "smoothing", "data.jsonl", code=2)
    assert f"this needs {missing}, which is not installed: pip install 'fencepost[train]'" in message


def test_ctrl_c_stops_a_landscape(analyzed, monkeypatch) -> None:
    calls = 0
    forward = Model.forward

    def interrupted(self: Model, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return forward(self, batch)

    monkeypatch.setattr(Model, "forward", interrupted)
    assert "interrupted" in analyzed("landscape", "smoothing", "data.jsonl", code=130)
    assert calls == 3


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_in_a_terminal_and_a_line_elsewhere(monkeypatch, capsys) -> None:
    unit = "the loss at {} points"
    with count_steps(51, "model", unit, quiet=False) as advance:
        advance()
    assert capsys.readouterr().err == "model: the loss at 51 points\n"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with count_steps(4, "odd [/red] \x1b[31mname", unit, quiet=False) as advance:
        for _ in range(4):
            advance()
    output = sys.stderr.getvalue()
    assert "odd [/red] " in output
    assert "100%" in output
    assert "\x1b[31mname" not in output
    monkeypatch.setattr(sys, "stderr", Terminal())
    with count_steps(4, "model", unit, quiet=True) as advance:
        advance()
    assert not sys.stderr.getvalue()


def test_help_lists_the_analyses(run) -> None:
    for option in ("--help", "-h"):
        text = run("analyze", option).stdout
        for name in (
            "calibration",
            "errors",
            "lengths",
            "method",
            "settings",
            "landscape",
            "curves",
        ):
            assert f" {name} " in text
    assert "--raw" in run("analyze", "calibration", "--help").stdout
    assert np.all([one.name for one in analyze.group.registered_commands])
