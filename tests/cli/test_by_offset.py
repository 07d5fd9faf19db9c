"""`analyze method` with a model of boundary-offset, as a user runs it."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import pytest
from typer.testing import CliRunner

from fencepost.cli import app
from fencepost.config import Config
from fencepost.data import read, write
from fencepost.data.entity import Entity
from fencepost.methods.boundary_offset.decode import Cells
from fencepost.methods.boundary_offset.labels import NEARLY_CENTRE
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import load_model, save_model
from tests.methods.running import scores_of


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Training data, and test data from it, one sentence of which has an unknown type."""
    folder = tmp_path_factory.mktemp("data")
    write(islice(read("sample:train"), 120), folder / "train.jsonl")
    first, *others = islice(read("sample:train"), 40)
    strange = first.with_entities([*first.entities, Entity(0, 1, "never seen")])
    write([strange, *others], folder / "test.jsonl")
    return folder


@pytest.fixture(scope="module")
def model(data):
    arguments = ["train", "--method", "boundary-offset", "--train", data / "train.jsonl", "--epochs", "8"]
    arguments += [
        "--encoder",
        "scratch",
        "--set",
        "encoder.lstm.size=64",
        "--set",
        "encoder.lstm.dropout=0.1",
    ]
    arguments += ["--set", "training.learning_rate=0.01", "--set", "method.size=30", "--out", data / "model"]
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "boundary-offset on scratch: 8 epochs over 120 sentences" in result.stderr
    return data / "model"


@pytest.fixture(scope="module")
def content(model, data):
    """Scores and report of the model."""
    arguments = ["evaluate", model, data / "test.jsonl", "--json"]
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    arguments = ["analyze", "method", model, data / "test.jsonl", "--out", data / "analysis"]
    CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    report = json.loads((data / "analysis" / "offsets.json").read_text())
    assert report["engines"] == {"model": "pytorch"}
    return {**json.loads(result.stdout), "offsets": report["models"]["model"]}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["centre", "all", "rules"])
def test_scores_of_each_mode_equal_evaluate(run, model, data, content, mode):
    alone = run("evaluate", model, data / "test.jsonl", "--set", f"predict.mode={mode}", "--json").stdout
    alone = json.loads(alone)
    of_mode = content["offsets"]["decoding"][mode]
    assert of_mode == {name: alone[name] for name in of_mode}
    assert of_mode["true_positives"] > 30


def test_mode_all_predicts_most_and_centre_fewest(content):
    centre, every, rules = (content["offsets"]["decoding"][mode] for mode in ("centre", "all", "rules"))
    assert content["f1"] == rules["f1"]  # the default
    assert centre["predicted"] <= rules["predicted"] < every["predicted"]
    assert centre["recall"] <= rules["recall"] <= every["recall"]


def test_label_counts_equal_a_simple_count(model, data, content):
    """Count for each label the spans that should have it, that have it, and both."""
    correct, predicted, gold = Counter(), Counter(), Counter()
    recogniser = load_model(model)
    names = recogniser.network.labels.names
    for sentence in read(data / "test.jsonl"):
        true = {}
        entities = sorted({e.key for e in sentence.entities if e.type in recogniser.types})
        for distance in (2, 1, 0):  # nearer ones overwrite, and so does the first of equally near ones
            for start, end, type_ in reversed(entities):
                moves = [(distance, 0, "S"), (-distance, 0, "S"), (0, distance, "E"), (0, -distance, "E")]
                for by_start, by_end, side in moves:
                    cell = (start + by_start, end + by_end)
                    if 0 <= cell[0] < cell[1] <= len(sentence):
                        true[*cell, type_] = f"{by_start + by_end}{side}" if distance else "0"
        cells = scores_of(recogniser, sentence).cells
        cells = Cells._make(column[cells.label != NEARLY_CENTRE] for column in cells)
        columns = zip(cells.start, cells.last + 1, cells.type, cells.label, strict=True)
        by_cell = {
            (start, end, recogniser.types[type_]): names[label] for start, end, type_, label in columns
        }
        gold.update(true.values())
        predicted.update(by_cell.values())
        correct.update(label for cell, label in by_cell.items() if true.get(cell) == label)
    labels = content["offsets"]["labels"]
    assert list(labels) == ["-2S", "-1S", "1S", "2S", "-2E", "-1E", "1E", "2E", "0"]
    for name, row in labels.items():
        assert row["support"] == gold[name]
        # in a batch, sums have another order, which may change a label
        assert row["predicted"] == pytest.approx(predicted[name], abs=1)
        assert row["true_positives"] == pytest.approx(correct[name], abs=1)
    assert labels["0"]["support"] == content["support"] - 1  # the unknown type
    assert labels["0"]["true_positives"] > 30


def test_prints_tables(run, model, data, tmp_path):
    text = run("analyze", "method", model, data / "test.jsonl", "--out", tmp_path).stdout
    assert text.index("model: labels") < text.index("model: decoding") < text.index("offsets.json")
    for row in ("-2S", "2E", "centre", "all", "rules"):
        assert f"\n  {row} " in text


def test_refuses_the_report_for_other_methods(run, data, tmp_path):
    changes = ["encoder.name=scratch", "encoder.lstm.size=8", "method.size=4"]
    save_model(
        Model.build(Config.compose(changes=changes), list(read(data / "train.jsonl"))), tmp_path / "other"
    )
    for report in ([], ["--report", "offsets"]):
        result = run("analyze", "method", tmp_path / "other", data / "test.jsonl", *report, code=2)
        assert "the method boundary-smoothing has no reports" in result.stderr
