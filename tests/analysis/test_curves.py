from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fencepost.analysis.curves import curves, epochs_of
from tests.analysis.files import Written, assert_labelled, legend_of, lines_of


def epoch(number: int, loss: float, f1: float, **more: Any) -> dict[str, Any]:
    scores = {"dev_loss": loss, "dev_precision": f1, "dev_recall": f1 / 2, "dev_f1": f1}
    return {"step": 10 * number, "epoch": float(number), **scores, **more}


RUNS = {
    "one": [epoch(1, 5.0, 0.1), epoch(2, 2.0, 0.6, dev_ece=0.05), epoch(3, 2.5, 0.6), epoch(4, 3.0, 0.5)],
    "_two": [epoch(1, 4.0, 0.2)],
}


def test_by_hand() -> None:
    found = curves(RUNS, {"folders": {"one": "a"}})
    assert found.told == {"folders": {"one": "a"}, "runs": RUNS}
    assert found.table.columns == (
        *("run", "epoch", "dev_loss", "dev_precision", "dev_recall", "dev_f1", "dev_ece"),
    )
    assert found.table.rows[1] == ("one", 2.0, 2.0, 0.6, 0.3, 0.6, 0.05)
    assert found.table.rows[0][-1] is None
    assert len(found.table.rows) == 5
    assert found.summary is not None
    # of epochs that are as good, the first is kept
    assert found.summary.rows == [("one", 4, "60.0", 2.0, 2.0, 2.0), ("_two", 1, "20.0", 1.0, 4.0, 1.0)]


def test_the_figure_has_the_same_numbers() -> None:
    figure = curves(RUNS, {}).figure
    assert_labelled(figure)
    losses, scores = figure.axes
    assert lines_of(losses) == {
        "one": ([1, 2, 3, 4], [5.0, 2.0, 2.5, 3.0]),
        " _two": ([1], [4.0]),
    }
    assert lines_of(scores)["one"] == ([1, 2, 3, 4], pytest.approx([10, 60, 60, 50]))
    assert legend_of(scores) == ["one", " _two"]
    rings = [np.asarray(ring.get_offsets()).tolist() for ring in scores.collections]
    assert rings == [[[2.0, 60.0]], [[1.0, 20.0]]]


def test_only_ends_of_epochs_are_taken() -> None:
    steps = [{"step": 1, "loss": 3.0}, 7, "dev_f1", None, {"dev_f1": 0.5}]
    assert epochs_of([steps[0], *RUNS["one"], *steps[1:]]) == RUNS["one"]


def test_a_loss_that_is_no_number_does_not_spoil_the_files(tmp_path: Path) -> None:
    lines = [json.dumps(epoch(1, math.nan, 0.0)), json.dumps(epoch(2, 2.0, 0.5))]
    curves({"a": epochs_of([json.loads(line) for line in lines])}, {}).save(tmp_path)
    found = Written.read(tmp_path, "curves")
    assert [one["dev_loss"] for one in found.told["runs"]["a"]] == [None, 2.0]
    assert "F1 on the development data, in %" in found.texts
