"""Soft-NMS, compared with Algorithm 1 on a list that is sorted again in each step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fencepost.methods.candidates import SELECTORS, Candidates, select, soft_nms
from tests.methods.test_candidates import (
    Row,
    best_of_duplicates,
    from_rows,
    precedence,
    row,
    rows_of,
    to_rows,
)


def slow_iou(one: Row, other: Row) -> float:
    ours, theirs = set(range(*one[:2])), set(range(*other[:2]))
    return len(ours & theirs) / len(ours | theirs)


def algorithm_1(rows: list[Row], overlap: float, decay: float, threshold: float) -> list[Row]:
    """Run the algorithm as printed, where candidates are removed only at the end."""
    waiting = sorted(best_of_duplicates(rows), key=precedence)
    selection: list[Row] = []
    while waiting:
        one = waiting.pop(0)
        selection.append(one)
        lowered = [
            (*other[:3], other[3] * decay) if slow_iou(one, other) >= overlap else other for other in waiting
        ]
        waiting = []
        for other in lowered:
            at = 0
            while at < len(waiting) and precedence(waiting[at]) < precedence(other):
                at += 1
            waiting.insert(at, other)
    return sorted(row for row in selection if row[3] > threshold)


def suppress(rows: list[Row], overlap: float, decay: float, threshold: float) -> list[Row]:
    return to_rows(soft_nms(from_rows(rows), overlap, decay, threshold))


overlaps = st.sampled_from([0.01, 0.2, 1 / 3, 0.5, 0.6, 0.75, 1.0]) | st.floats(1e-3, 1)
decays = st.sampled_from([0.0, 0.5, 0.9, 1.0]) | st.floats(0, 1)
thresholds = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1)


@given(rows_of, overlaps, decays, thresholds)
def test_equals_algorithm_1(rows: list[Row], overlap: float, decay: float, threshold: float) -> None:
    assert suppress(rows, overlap, decay, threshold) == algorithm_1(rows, overlap, decay, threshold)


crowd = st.lists(row(words=4), min_size=8, max_size=30)


@given(crowd, overlaps, st.sampled_from([0.5, 0.8, 0.9]), st.sampled_from([0.0, 0.1, 0.3]))
@hypothesis_settings(max_examples=50)
def test_crowded_candidates_equal_algorithm_1(
    rows: list[Row], overlap: float, decay: float, threshold: float
) -> None:
    assert suppress(rows, overlap, decay, threshold) == algorithm_1(rows, overlap, decay, threshold)


@pytest.mark.parametrize("longest", [3, 10, 60])
@pytest.mark.parametrize("overlap", [0.1, 0.5, 0.6, 0.7])
def test_many_candidates_equal_algorithm_1(longest: int, overlap: float) -> None:
    chance = np.random.default_rng(longest)
    start = chance.integers(0, 60, 200)
    end = start + chance.integers(1, longest + 1, 200)
    rows = to_rows(Candidates(start, end, chance.integers(0, 3, 200), chance.integers(0, 40, 200) / 40))
    selection = suppress(rows, overlap, 0.9, 0.3)
    assert selection == algorithm_1(rows, overlap, 0.9, 0.3)
    assert 10 < len(selection) < 200
    assert len(set(selection) - set(rows)) > 5  # lowered, but selected


def test_selection_equals_the_result_by_hand() -> None:
    rows = [
        (0, 4, 0, 0.9),  # a
        (0, 5, 0, 0.8),  # b, IoU with a: 4/5
        (0, 4, 1, 0.76),  # c, the span of a with another type: 1
        (1, 5, 0, 0.75),  # d, with a: 3/5; with b: 4/5; with c: 3/5
        (3, 5, 0, 0.74),  # e, with a and c: 1/5; with b: 2/5; with d: 2/4
        (7, 9, 2, 0.3),  # f, with none
    ]
    # k = 0.6, u = 0.5, delta = 0.1
    # a (0.9) is taken: b, c and d are halved          b 0.4   c 0.38   d 0.375  e 0.74  f 0.3
    # e (0.74) is taken: with d it shares only 1/2      b 0.4   c 0.38   d 0.375          f 0.3
    # b (0.4) is taken: c (4/5) and d are halved                c 0.19   d 0.1875         f 0.3
    # f (0.3) is taken                                          c 0.19   d 0.1875
    # c (0.19) is taken: d is halved                                     d 0.09375
    # d (0.09375) is taken, and is not above delta
    selection = suppress(rows, 0.6, 0.5, 0.1)
    assert selection == [(0, 4, 0, 0.9), (0, 4, 1, 0.19), (0, 5, 0, 0.4), (3, 5, 0, 0.74), (7, 9, 2, 0.3)]
    # with delta = 0.3, f is not above it, and c and d neither
    assert suppress(rows, 0.6, 0.5, 0.3) == [(0, 4, 0, 0.9), (0, 5, 0, 0.4), (3, 5, 0, 0.74)]


def test_lowered_candidates_are_sorted_again() -> None:
    """The second falls below the third, so the third comes first and lowers the second once more."""
    rows = [(0, 4, 0, 0.9), (0, 5, 0, 0.8), (0, 6, 0, 0.7)]  # IoU 4/5, 5/6, and 4/6 of first and third
    assert suppress(rows, 0.75, 0.5, 0.0) == [(0, 4, 0, 0.9), (0, 5, 0, 0.8 * 0.5 * 0.5), (0, 6, 0, 0.7)]


@given(rows_of, overlaps, thresholds)
@hypothesis_settings(max_examples=40)
def test_only_the_threshold_applies_with_decay_1(rows: list[Row], overlap: float, threshold: float) -> None:
    assert suppress(rows, overlap, 1.0, threshold) == sorted(
        row for row in best_of_duplicates(rows) if row[3] > threshold
    )


def test_confidence_must_exceed_the_threshold() -> None:
    assert suppress([(0, 1, 0, 0.5), (2, 3, 0, 0.5000001)], 0.6, 0.9, 0.5) == [(2, 3, 0, 0.5000001)]
    assert suppress([(0, 1, 0, 0.0), (2, 3, 0, 1.0)], 0.6, 0.9, 0.0) == [(2, 3, 0, 1.0)]
    assert suppress([(2, 3, 0, 1.0)], 0.6, 0.9, 1.0) == []


def test_iou_equal_to_the_overlap_lowers_a_candidate() -> None:
    rows = [(0, 5, 0, 0.9), (0, 3, 0, 0.8)]  # IoU 3/5
    assert suppress(rows, 0.6, 0.5, 0.0) == [(0, 3, 0, 0.4), rows[0]]
    assert suppress(rows, 0.61, 0.5, 0.0) == [rows[1], rows[0]]


def test_ties_are_broken_by_start_end_and_type() -> None:
    for first, second in (
        ((0, 4, 2, 0.8), (1, 4, 0, 0.8)),  # by start
        ((0, 3, 2, 0.8), (0, 4, 0, 0.8)),  # by end
        ((0, 4, 0, 0.8), (0, 4, 1, 0.8)),  # by type
    ):
        for rows in ([first, second], [second, first]):
            assert suppress(rows, 0.6, 0.5, 0.0) == [first, (*second[:3], 0.4)]


def test_duplicate_candidate_does_not_lower_itself() -> None:
    assert suppress([(1, 3, 0, 0.6), (1, 3, 0, 0.9)], 0.6, 0.5, 0.0) == [(1, 3, 0, 0.9)]


def test_no_candidates_give_no_selection() -> None:
    for decay in (0.0, 0.9, 1.0):
        assert suppress([], 0.6, decay, 0.5) == []
    assert len(select(from_rows([]), "soft-nms")) == 0


@given(rows_of, overlaps, decays, thresholds, st.randoms())
@hypothesis_settings(max_examples=40)
def test_order_of_the_input_has_no_effect(rows, overlap, decay, threshold, random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert suppress(shuffled, overlap, decay, threshold) == suppress(rows, overlap, decay, threshold)


@given(st.lists(rows_of, max_size=4), overlaps, decays, thresholds)
@hypothesis_settings(max_examples=40)
def test_sentences_of_a_batch_are_independent(batch, overlap, decay, threshold) -> None:
    def shift(rows: list[Row], by: int) -> list[Row]:
        return [(start + by, end + by, *rest) for start, end, *rest in rows]

    together = [row for number, rows in enumerate(batch) for row in shift(rows, 12 * number)]
    apart = [
        row
        for number, rows in enumerate(batch)
        for row in shift(suppress(rows, overlap, decay, threshold), 12 * number)
    ]
    assert suppress(together, overlap, decay, threshold) == apart


def test_input_is_not_changed() -> None:
    candidates = from_rows([(0, 4, 0, 0.9), (0, 4, 1, 0.8)])
    soft_nms(candidates, 0.6, 0.5, 0.1)
    assert candidates.confidence.tolist() == [0.9, 0.8]


@given(rows_of)
@hypothesis_settings(max_examples=40)
def test_soft_nms_mode_uses_the_values_of_the_paper(rows: list[Row]) -> None:
    assert SELECTORS["soft-nms"] is soft_nms
    assert to_rows(select(from_rows(rows), "soft-nms")) == algorithm_1(rows, 0.6, 0.9, 0.5)


def test_selects_from_thousands_of_candidates() -> None:
    chance = np.random.default_rng(0)
    start = chance.integers(0, 3000, 20_000)
    candidates = Candidates(
        start, start + chance.integers(1, 12, 20_000), chance.integers(0, 4, 20_000), chance.random(20_000)
    )
    selection = soft_nms(candidates, 0.6, 0.9, 0.5)
    assert 1000 < len(selection) < 10_000
    assert (selection.confidence > 0.5).all()


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_selects_from_all_overlapping_spans_of_a_sentence(decay: float) -> None:
    """Each span overlaps with hundreds of others; it is lowered often, or never with decay 1."""
    start, end = np.array([(i, i + n) for n in range(1, 41) for i in range(200 - n + 1)]).T
    confidence = np.random.default_rng(0).permutation(len(start)) / len(start)
    selection = soft_nms(Candidates(start, end, np.zeros_like(start), confidence), 0.6, decay, 0.0)
    assert len(selection) == len(start) - 1  # the one with confidence 0
    order = np.lexsort((end, start))[confidence[np.lexsort((end, start))] > 0]
    lowered = selection.confidence / confidence[order]
    assert ((lowered < 1).mean() > 0.9) == (decay < 1)
    times = np.log(lowered) / np.log(0.9)
    np.testing.assert_allclose(times, times.round(), atol=1e-6)
