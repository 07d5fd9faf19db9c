from __future__ import annotations

from math import nan

import pytest

from fencepost.analysis.lengths import analyze_lengths
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.evaluation import Evaluation, evaluate
from tests.analysis.files import assert_labelled, legend_of, lines_of, ticks_of

WORDS = [str(number) for number in range(20)]
GOLD = [Sentence(WORDS, [Entity(0, 1, "A"), Entity(2, 3, "A"), Entity(4, 7, "A"), Entity(0, 12, "A")])]


def evaluated(*spans: tuple[int, int]) -> Evaluation:
    return evaluate(GOLD, [Sentence(WORDS, [Entity(*span, "A") for span in spans])])


ONE, OTHER = evaluated((0, 1), (4, 7), (0, 12), (0, 11)), evaluated((0, 1), (2, 3), (4, 6))


def test_numbers_equal_those_of_evaluate() -> None:
    analysis = analyze_lengths({"one": ONE, "other": OTHER}, {"one": [1, 2], "other": None}, {"data": "d"})
    for name, result in (("one", ONE), ("other", OTHER)):
        expected = result.to_dict()["by_length"]
        assert analysis.content["models"][name]["by_length"] == expected
    assert analysis.content["models"]["one"]["enumerated"] == [1, 2]
    assert analysis.content["models"]["other"]["enumerated"] is None
    assert [row[:2] for row in analysis.table.rows] == [
        *(("one", words) for words in (1, 3, 11, 12)),
        *(("other", words) for words in (1, 2, 3, 12)),
    ]
    assert analysis.table.rows[0] == ("one", 1, 1.0, 0.5, pytest.approx(2 / 3), 1, 1, 2, "yes")
    assert [row[-1] for row in analysis.table.rows] == ["yes", "no", "no", "no", None, None, None, None]
    assert analysis.summary is not None
    assert analysis.summary.rows[:4] == [
        ("one", "1", "100.0", "50.0", "66.7", 2),
        ("one", "2", "0.0", "0.0", "0.0", 0),
        ("one", "3", "100.0", "100.0", "100.0", 1),
        ("one", "10+", "50.0", "100.0", "66.7", 1),
    ]


def test_figure_has_groups_and_marks_lengths_without_seeds() -> None:
    figure = analyze_lengths({"one": ONE, "other": OTHER}, {"one": [1, 2], "other": [2, 1]}, {}).figure
    assert_labelled(figure)
    [axis] = figure.axes
    assert ticks_of(axis) == ["1\n(2)", "2\n(0)", "3\n(1)", "10+\n(1)"]
    assert lines_of(axis)["one"] == ([0, 1, 2, 3], pytest.approx([200 / 3, nan, 100, 200 / 3], nan_ok=True))
    assert lines_of(axis)["other"] == ([0, 1, 2, 3], pytest.approx([100, nan, 0, 0], nan_ok=True))
    assert legend_of(axis) == ["one", "other", "lengths that training does not enumerate"]
    assert [patch.get_x() + patch.get_width() / 2 for patch in axis.patches] == pytest.approx([2, 3])
    differ = analyze_lengths({"one": ONE, "other": OTHER}, {"one": [1, 2], "other": None}, {}).figure.axes[0]
    assert legend_of(differ) == ["one", "other"]  # the models have different lengths
    unmarked = analyze_lengths({"other": OTHER}, {"other": None}, {}).figure.axes[0]
    assert not unmarked.patches


def test_length_without_gold_entities_has_no_point() -> None:
    """A model that predicts entities of a length that the data does not have has no F1 of 0 there."""
    spurious = evaluated((0, 1), (2, 3), (4, 7), (0, 12), (8, 13))
    [axis] = analyze_lengths({"a": spurious}, {"a": None}, {}).figure.axes
    assert ticks_of(axis) == ["1\n(2)", "3\n(1)", "5\n(0)", "10+\n(1)"]
    assert lines_of(axis)["a"][1] == pytest.approx([100, 100, nan, 100], nan_ok=True)


def test_long_entities_share_a_group_and_no_entities_are_refused() -> None:
    long = evaluate([GOLD[0].with_entities([Entity(0, 15, "A")])], [GOLD[0].with_entities([])])
    analysis = analyze_lengths({"a": long}, {"a": None}, {})
    assert ticks_of(analysis.figure.axes[0]) == ["10+\n(1)"]
    nothing = evaluate([GOLD[0].with_entities([])], [GOLD[0].with_entities([])])
    with pytest.raises(UsageError, match="no entities in the data, and no model predicts any"):
        analyze_lengths({"a": nothing, "b": nothing}, {"a": [1], "b": None}, {})
