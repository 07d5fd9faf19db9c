from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fencepost.analysis.curves import analyze_curves
from fencepost.analysis.epochs import Epoch, read_epochs
from tests.analysis.files import Written, assert_integer_ticks, assert_labelled, legend_of, lines_of

RUNS = {
    "one": [
        Epoch(1, 9.0, 5.0, 0.1, 0.05, 0.1),
        Epoch(2, 4.0, 2.0, 0.6, 0.3, 0.6, 0.05),
        Epoch(3, 1.0, 2.5, 0.6, 0.3, 0.6),
        Epoch(4, 0.5, 3.0, 0.5, 0.25, 0.5),
    ],
    "_two": [Epoch(1, None, 4.0, 0.2, 0.1, 0.2)],
}


def test_curves_equal_the_values_by_hand() -> None:
    result = analyze_curves(RUNS, {"folders": {"one": "a"}})
    assert result.content["folders"] == {"one": "a"}
    names = ("epoch", "train_loss", "dev_loss", "dev_precision", "dev_recall", "dev_f1", "dev_ece")
    assert result.table.columns == ("run", *names)
    assert result.table.rows[1] == ("one", 2, 4.0, 2.0, 0.6, 0.3, 0.6, 0.05)
    assert result.content["runs"]["one"][1] == dict(zip(names, result.table.rows[1][1:], strict=True))
    assert len(result.table.rows) == 5
    assert result.summary is not None
    # the first of equally good epochs is kept
    assert result.summary.rows == [("one", 4, "60.0", 2, 2.0, 2), ("_two", 1, "20.0", 1, 4.0, 1)]


def test_figure_shows_the_numbers() -> None:
    figure = analyze_curves(RUNS, {}).figure
    assert_labelled(figure)
    losses, scores = figure.axes
    assert lines_of(losses) == {
        "one, training": ([1, 2, 3, 4], [9.0, 4.0, 1.0, 0.5]),
        "one": ([1, 2, 3, 4], [5.0, 2.0, 2.5, 3.0]),
        " _two": ([1], [4.0]),
    }
    assert lines_of(scores)["one"] == ([1, 2, 3, 4], pytest.approx([10, 60, 60, 50]))
    assert legend_of(scores) == ["one", " _two", "development data", "training data", "lowest loss, best F1"]
    rings = [np.asarray(ring.get_offsets()).tolist() for ring in scores.collections]
    assert rings == [[[2.0, 60.0]], [[1.0, 20.0]]]
    assert_integer_ticks(losses.xaxis)
    assert_integer_ticks(scores.xaxis)


def test_run_without_development_data_has_its_training_loss() -> None:
    result = analyze_curves({"a": [Epoch(1, 3.0), Epoch(2, 2.0)]}, {})
    assert lines_of(result.figure.axes[0])["a, training"] == ([1, 2], [3.0, 2.0])
    assert result.summary is not None
    assert result.summary.rows == [("a", 2, None, None, None, None)]


def record(**values: Any) -> str:
    return json.dumps(values)


def test_reads_epochs_from_records(tmp_path: Path) -> None:
    """The training loss is the mean over the steps since the last record; other lines are ignored."""
    scores = {"dev_precision": 0.5, "dev_recall": 0.25, "dev_f1": 0.4, "dev_ece": 0.1}
    lines = [
        record(step=10, epoch=0.5, loss=4.0),
        record(step=20, epoch=1.0, loss=2.0),
        record(step=20, epoch=1.0, dev_loss=math.nan, **scores),
        record(step=40, epoch=2.0, loss=1.0),
        "7",
        "not JSON",
        record(step=40, epoch=2.0, dev_loss=2.5, **scores),
        record(dev_f1=0.5),
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    epochs = read_epochs(tmp_path)
    assert epochs == [Epoch(1, 3.0, None, 0.5, 0.25, 0.4, 0.1), Epoch(2, 1.0, 2.5, 0.5, 0.25, 0.4, 0.1)]
    analyze_curves({"a": epochs}, {}).save(tmp_path)
    files = Written.read(tmp_path, "curves")
    assert [one["dev_loss"] for one in files.content["runs"]["a"]] == [None, 2.5]
    assert "F1 on the development data" in files.texts
    assert read_epochs(tmp_path / "nowhere") == []
