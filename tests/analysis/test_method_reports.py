from __future__ import annotations

import pytest

from fencepost.analysis.method_reports import Tables, analyze_reports
from fencepost.evaluation import Score
from tests.analysis.files import assert_integer_ticks, assert_labelled, bars_of, ticks_of

OFFSETS: Tables = {"labels": {"S-1": Score.of(1, 2, 4), "0": Score.of(3, 3, 3)}}
STAGES: Tables = {
    "stages": {
        "seeds": {"spans": 2000, "spans a sentence": 20.0, "recall": 1.0, "recall, near": 1.0},
        "selected": {"spans": 4, "spans a sentence": 0.04, "recall": 0.5, "recall, near": 0.75},
    },
    "moves": {"-1": {"start": 0, "end": 1}, "0": {"start": 9, "end": 8}},
}


def test_scores_are_in_percent_with_counts_in_the_table() -> None:
    result = analyze_reports("offsets", {"m_$1$": OFFSETS}, {"data": "d"})
    assert result.name == "offsets"
    content = result.content["models"]["m_$1$"]["labels"]
    assert content["S-1"]["true_positives"] == 1
    assert content["S-1"]["f1"] == 2 / 6
    assert ("m_$1$", "labels", "S-1", "recall", 0.25) in result.table.rows
    assert len(result.table.rows) == 2 * 6
    assert_labelled(result.figure)
    [axis] = result.figure.axes
    assert bars_of(axis) == {"precision": [50, 100], "recall": [25, 100], "F1": [pytest.approx(100 / 3), 100]}
    assert axis.get_ylabel() == "%"
    assert axis.get_title() == r"m_\$1\$: labels"


def test_ratios_counts_and_means_have_separate_panels() -> None:
    result = analyze_reports("stages", {"a": STAGES, "b": OFFSETS}, {})
    assert_labelled(result.figure)
    of_a = [axis for axis in result.figure.axes if axis.get_title().startswith("a: ")]
    of_b = [axis for axis in result.figure.axes if axis.get_title().startswith("b: ")]
    assert (len(of_a), len(of_b), len(result.figure.axes)) == (4, 1, 5)
    ratios, counts, means, moves = of_a
    assert bars_of(ratios) == {"recall": [100, 50], "recall, near": [100, 75]}
    assert ratios.get_ylabel() == "%"
    assert bars_of(counts) == {"spans": [2000, 4]}
    assert counts.get_ylabel() == "spans"
    assert counts.get_yscale() == "log"  # otherwise small ones would be invisible
    assert bars_of(means) == {"spans a sentence": [20.0, 0.04]}
    assert bars_of(moves) == {"start": [0, 9], "end": [1, 8]}
    assert ticks_of(moves) == ["-1", "0"]
    assert moves.get_ylabel() == "count"
    assert_integer_ticks(counts.yaxis)
    assert_integer_ticks(moves.yaxis)
