from __future__ import annotations

import pytest

from fencepost.analysis.errors import analyze_errors, get_context
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import GROUPS, KINDS, classify_errors, evaluate
from tests.analysis.files import assert_integer_ticks, assert_labelled, bars_of, legend_of, ticks_of

WORDS = [f"w{number}" for number in range(12)]
GOLD = [
    Sentence(WORDS, [Entity(0, 3, "A"), Entity(5, 7, "B"), Entity(9, 10, "=A")], id="s1"),
    Sentence(WORDS, [Entity(0, 8, "A"), Entity(1, 3, "B")]),
    Sentence([]),
]
GUESSED = [
    Sentence(WORDS, [Entity(0, 4, "A", 0.75), Entity(5, 7, "A", 0.5), Entity(11, 12, "A", 0.25)]),
    Sentence(WORDS, [Entity(0, 8, "A", 0.9)]),
    Sentence([]),
]
ONE = classify_errors(GOLD, GUESSED)
PERFECT = classify_errors(GOLD, GOLD)


def test_error_analysis_has_counts_shares_and_examples() -> None:
    result = analyze_errors({"one": ONE, "perfect": PERFECT}, GOLD, {"data": "d"}, examples=1)
    content = result.content["models"]["one"]
    assert content["mistakes"] == 5
    assert content["f1"] == evaluate(GOLD, GUESSED).overall.f1
    counts = {kind: of["count"] for kind, of in content["kinds"].items()}
    assert counts == {
        **dict.fromkeys(KINDS, 0),
        **dict.fromkeys(("end", "type", "missing level", "missed", "spurious"), 1),
    }
    assert sum(of["share"] for of in content["kinds"].values()) == pytest.approx(1)
    assert sum(of["share"] for of in content["groups"].values()) == pytest.approx(1)
    assert content["groups"]["nested level"]["count"] == 1
    assert content["kinds"]["end"]["f1_if_corrected"] == ONE.compute_f1_without("end")
    assert content["shifts"] == {"start": {}, "end": {"1": 1}}
    assert {kind for kind, some in content["examples"].items() if some} == {k for k in KINDS if counts[k]}
    assert content["examples"]["type"] == [
        {
            "sentence": 1,
            "id": "s1",
            "text": " ".join(WORDS),
            "gold": {"start": 5, "end": 7, "type": "B", "text": "w5 w6", "score": 1.0},
            "predicted": {"start": 5, "end": 7, "type": "A", "text": "w5 w6", "score": 0.5},
        }
    ]
    flawless = result.content["models"]["perfect"]
    assert (flawless["mistakes"], flawless["f1"]) == (0, 1.0)
    assert all(of["share"] == 0 for of in flawless["kinds"].values())


def test_each_error_is_a_table_row() -> None:
    table = analyze_errors({"one": ONE}, GOLD, {}).table
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert len(rows) == len(ONE)
    assert rows[0] == {
        "model": "one",
        "kind": "end",
        "group": "boundary",
        "sentence": 1,
        "id": "s1",
        "gold_type": "A",
        "gold_start": 0,
        "gold_end": 3,
        "gold_text": "w0 w1 w2",
        "predicted_type": "A",
        "predicted_start": 0,
        "predicted_end": 4,
        "predicted_text": "w0 w1 w2 w3",
        "confidence": 0.75,
        "start_off": 0,
        "end_off": 1,
    }
    [missed] = [row for row in rows if row["kind"] == "missed"]
    assert missed["predicted_type"] is missed["confidence"] is missed["start_off"] is None
    assert "'=A" in table.to_csv()


def test_summary_has_groups_and_their_kinds() -> None:
    summary = analyze_errors({"one": ONE}, GOLD, {}).summary
    assert summary is not None
    names = [row[1] for row in summary.rows]
    assert [name for name in names if not name.startswith(" ")] == list(GROUPS)
    assert names[:4] == ["boundary", "  start", "  end", "  start and end"]
    assert summary.rows[0] == ("one", "boundary", 1, "20.0", f"{100 * ONE.compute_f1_without('end'):.1f}")


def test_figure_shows_the_counts() -> None:
    result = analyze_errors({"one": ONE, "perfect": PERFECT}, GOLD, {})
    assert_labelled(result.figure)
    kinds, shifts = result.figure.axes
    assert ticks_of(kinds) == list(KINDS)
    assert bars_of(kinds) == {"one": [ONE.count_kinds()[kind] for kind in KINDS], "perfect": [0] * len(KINDS)}
    assert ticks_of(shifts) == ["≤ -5", "-4", "-3", "-2", "-1", "+1", "+2", "+3", "+4", "≥ +5"]
    for axis in (kinds, shifts, *analyze_errors({"perfect": PERFECT}, GOLD, {}).figure.axes):
        assert_integer_ticks(axis.yaxis)
    assert bars_of(shifts)["one: end"] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert legend_of(kinds) == ["limit of a group of kinds", "one", "perfect"]
    assert legend_of(shifts) == ["one: start", "one: end", "perfect: start", "perfect: end"]
    assert legend_of(analyze_errors({"one": ONE}, GOLD, {}).figure.axes[1]) == ["start", "end"]


def test_figure_separates_groups_with_lines() -> None:
    axis = analyze_errors({"one": ONE}, GOLD, {}).figure.axes[0]
    places = [line.get_xdata()[0] for line in axis.lines]  # type: ignore[index]
    ends, place = [], -0.5
    for kinds in GROUPS.values():
        place += len(kinds)
        ends.append(place)
    assert set(places) <= set(ends)
    assert {2.5, 3.5, 4.5, 7.5} <= set(places)


def test_large_shifts_share_a_bar() -> None:
    long = [Sentence(WORDS * 3, [Entity(6, 12, "A")])]
    far = classify_errors(long, [Sentence(WORDS * 3, [Entity(0, 18, "A")])])
    bars = bars_of(analyze_errors({"a": far}, long, {}).figure.axes[1])
    assert bars["start"] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert bars["end"] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]


def test_examples_are_the_most_confident_errors() -> None:
    gold = [Sentence(WORDS)] * 3
    guessed = [Sentence(WORDS, [Entity(0, 1, "A", score)]) for score in (0.2, 0.9, 0.5)]
    examples = analyze_errors({"a": classify_errors(gold, guessed)}, gold, {}, examples=2).content["models"][
        "a"
    ]["examples"]
    assert [one["sentence"] for one in examples["spurious"]] == [2, 3]
    none = analyze_errors({"a": classify_errors(gold, guessed)}, gold, {}, examples=0).content["models"]["a"][
        "examples"
    ]
    assert set(map(len, none.values())) == {0}


def test_context_of_an_error_is_shortened() -> None:
    sentence = Sentence([str(number) for number in range(100)], [Entity(50, 52, "A")])
    [one] = classify_errors([sentence], [sentence.with_entities([])]).all
    assert get_context(sentence, one, words=2) == "... 48 49 50 51 52 53 ..."
    assert get_context(sentence, one, words=100) == " ".join(sentence.words)
