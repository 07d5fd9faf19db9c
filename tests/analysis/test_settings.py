from __future__ import annotations

from typing import Any

import pytest

from fencepost.analysis.settings import analyze_settings
from tests.analysis.files import assert_labelled, legend_of, lines_of, ticks_of


def row(f1: float, speed: float, **settings: Any) -> dict[str, Any]:
    return {"set": settings, "precision": f1, "recall": f1, "f1": f1, "sentences_per_second": speed}


ROWS = [
    row(0.5, 100.0, steps=1, spans=20),
    row(0.6, 50.0, steps=1, spans=60),
    row(0.7, 40.0, steps=10, spans=20),
    row(0.8, 20.04, steps=10, spans=60),
]


def test_figure_has_a_line_per_value_of_the_second_setting() -> None:
    result = analyze_settings({"a": ROWS}, ["steps", "spans"], {"data": "d"})
    assert result.content == {"data": "d", "models": {"a": ROWS}}
    assert result.table.columns == (
        "model",
        "steps",
        "spans",
        "precision",
        "recall",
        "f1",
        "sentences_per_second",
    )
    assert result.table.rows[3] == ("a", 10, 60, 0.8, 0.8, 0.8, 20.04)
    assert result.summary is not None
    assert result.summary.rows[3] == ("a", 10, 60, "80.0", "20.0")
    assert_labelled(result.figure)
    scores, speeds = result.figure.axes
    assert ticks_of(scores) == ticks_of(speeds) == ["1", "10"]
    assert lines_of(scores) == {
        "spans=20": ([0, 1], pytest.approx([50, 70])),
        "spans=60": ([0, 1], pytest.approx([60, 80])),
    }
    assert lines_of(speeds)["spans=20"] == ([0, 1], [100.0, 40.0])
    assert scores.get_xlabel() == "steps"
    assert legend_of(speeds) == ["spans=20", "spans=60"]


def test_figure_has_a_line_per_model() -> None:
    other = [row(0.1, 1.0, select="flat"), row(0.2, 1.0, select="nested")]
    result = analyze_settings({"a": other, "_b": other}, ["select"], {})
    _, speeds = result.figure.axes
    assert legend_of(speeds) == ["a", " _b"]
    assert ticks_of(speeds) == ["flat", "nested"]
    two = analyze_settings({"a": ROWS, "b": ROWS}, ["steps", "spans"], {}).figure.axes[1]
    assert legend_of(two) == ["a spans=20", "a spans=60", "b spans=20", "b spans=60"]
