"""The figures of a tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fencepost.analysis.tuning import analyze_history, analyze_importance
from tests.analysis.files import Written, assert_labelled, legend_of

Trial = dict[str, Any]


def trial(number: int, state: str, *scores: float) -> Trial:
    """Return a trial like in `tuning.json`."""
    return {
        "trial": number,
        "state": state,
        "dev_f1": max(scores, default=None),
        "dev_f1_by_epoch": list(scores),
    }


TRIALS = [
    trial(0, "failed", 0.9),
    trial(1, "complete", 0.2, 0.4),
    trial(2, "complete", 0.1, 0.3),
    trial(3, "pruned", 0.8),
    trial(4, "complete", 0.3, 0.5, 0.45),
    trial(5, "running", 0.9),
]


def points(collection: Any) -> list[tuple[float, float]]:
    return [(float(x), pytest.approx(float(y))) for x, y in np.asarray(collection.get_offsets())]


def test_only_complete_trials_can_be_the_best() -> None:
    result = analyze_history(TRIALS, {"tuning": "f"})
    assert result.name == "tuning-history"
    assert result.content == {"tuning": "f", "trials": TRIALS}
    assert list(result.table.rows) == [
        (0, "failed", 0.9, None),
        (1, "complete", 0.4, 0.4),
        (2, "complete", 0.3, 0.4),
        (3, "pruned", 0.8, 0.4),
        (4, "complete", 0.5, 0.5),
    ]
    scores, epochs = result.figure.axes
    assert_labelled(result.figure)
    assert legend_of(scores) == ["complete", "pruned", "failed (on the axis)", "best so far"]
    complete, pruned = scores.collections
    assert points(complete) == [(1, 40), (2, 30), (4, 50)]
    assert points(pruned) == [(3, 80)]
    failed, steps = scores.lines
    assert np.asarray(failed.get_xydata()).tolist() == [[0, 0]]  # in units of the panel, not a score
    assert scores.get_xlim()[0] < 0
    assert np.asarray(steps.get_xydata()).tolist() == [[1, 40], [2, 40], [3, 40], [4, 50]]
    assert [len(line.get_xdata()) for line in epochs.lines] == [1, 2, 2, 1, 3]  # type: ignore[arg-type]
    assert legend_of(epochs) == ["pruned or failed", "complete", "best: trial 4"]
    thick = max(epochs.lines, key=lambda line: line.get_linewidth())
    assert np.asarray(thick.get_ydata()).tolist() == [30, 50, 45]


def test_history_without_complete_trials_has_no_best(tmp_path: Path) -> None:
    result = analyze_history([trial(0, "failed"), trial(1, "failed", 0.1)], {})
    scores, epochs = result.figure.axes
    assert (legend_of(scores), legend_of(epochs)) == (["failed (on the axis)"], ["pruned or failed"])
    result.save(tmp_path)
    assert [row["best_so_far"] for row in Written.read(tmp_path, "tuning-history", figure=False).rows] == [
        "",
        "",
    ]


def test_figures_are_written(tmp_path: Path) -> None:
    analyze_history(TRIALS, {}).save(tmp_path)
    analyze_importance({"method.epsilon": 0.7, "a.b$c_d": 0.2, "training.learning_rate": 0.1}, {}).save(
        tmp_path
    )
    assert "failed (on the axis)" in Written.read(tmp_path, "tuning-history").texts
    files = Written.read(tmp_path, "tuning-importance")
    assert {"method.epsilon", "a.b$c_d", "70.0"} <= set(files.texts)
    assert files.rows[0] == {"setting": "method.epsilon", "importance": "0.7"}


def test_importance_bars_are_in_order() -> None:
    result = analyze_importance({"method.epsilon": 0.7, "training.learning_rate": 0.3}, {})
    (panel,) = result.figure.axes
    assert_labelled(result.figure)
    assert [bar.get_width() for bar in panel.patches] == [70, 30]  # type: ignore[attr-defined]
    lowest_first = [label.get_text() for label in panel.get_yticklabels()]
    assert lowest_first == ["method.epsilon", "training.learning_rate"]
    assert list(panel.get_yticks()) == [2, 1]
    assert list(result.table.rows) == [("method.epsilon", 0.7), ("training.learning_rate", 0.3)]
    assert result.content["importance"] == {"method.epsilon": 0.7, "training.learning_rate": 0.3}
