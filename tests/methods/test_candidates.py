from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import UsageError
from fencepost.methods.candidates import SELECTORS, Candidates, select

Row = tuple[int, int, int, float]  # start, end, type, confidence

MODES = sorted(set(SELECTORS) - {"soft-nms"})  # it lowers confidences and has its own tests


def from_rows(rows: list[Row]) -> Candidates:
    start, end, types, confidence = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Candidates(np.array(start), np.array(end), np.array(types), np.array(confidence))


def to_rows(candidates: Candidates) -> list[Row]:
    columns = (candidates.start, candidates.end, candidates.type, candidates.confidence)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def selected(rows: list[Row], mode: str) -> list[Row]:
    return to_rows(select(from_rows(rows), mode))


def clash(mode: str, one: Row, other: Row) -> bool:
    """Return whether two rows clash by the definition, as sets of words."""
    ours, theirs = set(range(*one[:2])), set(range(*other[:2]))
    overlap = bool(ours & theirs)
    if mode == "flat":
        return overlap
    return mode == "nested" and overlap and not (ours <= theirs or theirs <= ours)


def best_of_duplicates(rows: list[Row]) -> list[Row]:
    return [row for row in set(rows) if row[3] == max(r[3] for r in rows if r[:3] == row[:3])]


def precedence(row: Row) -> tuple[float, int, int, int]:
    start, end, type_, confidence = row
    return -confidence, start, end, type_


def brute_force(rows: list[Row], mode: str) -> list[Row]:
    selection: list[Row] = []
    for row in sorted(best_of_duplicates(rows), key=precedence):
        if not any(clash(mode, row, other) for other in selection):
            selection.append(row)
    return sorted(selection)


@st.composite
def row(draw: st.DrawFn, words: int = 12) -> Row:
    start = draw(st.integers(0, words - 1))
    end = draw(st.integers(start + 1, words))
    confidence = draw(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1))
    return start, end, draw(st.integers(0, 2)), confidence


rows_of = st.lists(row(), max_size=40)
modes = st.sampled_from(MODES)


@given(rows_of, modes)
def test_selection_equals_a_simple_loop(rows: list[Row], mode: str) -> None:
    assert selected(rows, mode) == brute_force(rows, mode)


@given(rows_of, modes)
def test_rejected_candidates_clash_with_better_selected_ones(rows: list[Row], mode: str) -> None:
    selection = selected(rows, mode)
    for index, one in enumerate(selection):
        assert not any(clash(mode, one, other) for other in selection[index + 1 :])
    for dropped in set(best_of_duplicates(rows)) - set(selection):
        assert any(
            clash(mode, dropped, other) and precedence(other) < precedence(dropped) for other in selection
        )


@given(rows_of, modes, st.randoms())
def test_order_of_the_input_has_no_effect(rows: list[Row], mode: str, random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert selected(shuffled, mode) == selected(rows, mode)


@given(rows_of, modes)
def test_selecting_again_changes_nothing(rows: list[Row], mode: str) -> None:
    once = selected(rows, mode)
    assert selected(once, mode) == once


@given(st.lists(rows_of, max_size=4), modes)
def test_sentences_of_a_batch_are_independent(batch: list[list[Row]], mode: str) -> None:
    def shift(rows: list[Row], by: int) -> list[Row]:
        return [(start + by, end + by, *rest) for start, end, *rest in rows]

    together = [row for number, rows in enumerate(batch) for row in shift(rows, 12 * number)]
    apart = [row for number, rows in enumerate(batch) for row in shift(selected(rows, mode), 12 * number)]
    assert selected(together, mode) == apart


@pytest.mark.parametrize("mode", ["flat", "nested"])
@pytest.mark.parametrize("longest", [3, 40, 400])
def test_selection_of_many_candidates_equals_a_simple_loop(mode: str, longest: int) -> None:
    """There are enough candidates for several blocks, which hypothesis never draws."""
    random = np.random.default_rng(longest)
    start = random.integers(0, 400, 1500)
    end = start + random.integers(1, longest + 1, 1500)
    confidence = random.integers(0, 200, 1500) / 200
    rows = to_rows(Candidates(start, end, random.integers(0, 3, 1500), confidence))
    assert selected(rows, mode) == brute_force(rows, mode)


def test_selection_equals_the_result_by_hand() -> None:
    rows = [
        (0, 4, 0, 0.9),  # the University of Toronto
        (3, 4, 1, 0.8),  # Toronto, inside
        (3, 6, 0, 0.7),  # crosses the university
        (0, 4, 1, 0.6),  # the university again, with another type
        (4, 6, 2, 0.5),  # touches it
        (0, 6, 2, 0.4),  # holds all of them
    ]
    assert selected(rows, "flat") == [rows[0], rows[4]]
    assert selected(rows, "nested") == [rows[0], rows[3], rows[5], rows[1], rows[4]]
    assert selected(rows, "keep-all") == sorted(rows)


def test_rejected_candidate_does_not_suppress_others() -> None:
    rows = [(0, 3, 0, 0.9), (2, 5, 0, 0.8), (4, 7, 0, 0.7)]
    for mode in ("flat", "nested"):
        assert selected(rows, mode) == [rows[0], rows[2]]


@pytest.mark.parametrize("mode", MODES)
def test_duplicate_counts_once_with_its_highest_confidence(mode: str) -> None:
    assert selected([(1, 3, 0, 0.2), (1, 3, 0, 0.9), (1, 3, 0, 0.5)], mode) == [(1, 3, 0, 0.9)]


def test_ties_are_broken_by_start_end_and_type() -> None:
    assert selected([(1, 3, 0, 0.5), (0, 2, 1, 0.5)], "flat") == [(0, 2, 1, 0.5)]
    assert selected([(0, 3, 0, 0.5), (0, 2, 1, 0.5)], "flat") == [(0, 2, 1, 0.5)]
    assert selected([(0, 2, 1, 0.5), (0, 2, 0, 0.5)], "flat") == [(0, 2, 0, 0.5)]
    assert selected([(1, 3, 0, 0.5), (0, 2, 1, 0.5)], "nested") == [(0, 2, 1, 0.5)]


@pytest.mark.parametrize("mode", MODES)
def test_no_candidates_give_no_selection(mode: str) -> None:
    assert len(select(Candidates([], [], [], []), mode)) == 0


@pytest.mark.parametrize("mode", ["flat", "nested"])
def test_huge_positions_need_little_memory(mode: str) -> None:
    far = 2**62
    rows = [(0, far, 0, 0.5), (far - 1, far + 1, 0, 0.9), (far, far + 2, 0, 0.1)]
    assert selected(rows, mode) == [rows[1]]


def test_custom_selector_gets_unique_candidates_and_its_result_is_sorted() -> None:
    def backwards(candidates: Candidates) -> Candidates:
        assert to_rows(candidates) == [(0, 1, 0, 0.2), (2, 3, 0, 0.9)]
        return candidates.take(np.array([1, 0]))

    rows = [(2, 3, 0, 0.1), (2, 3, 0, 0.9), (0, 1, 0, 0.2)]
    assert to_rows(select(from_rows(rows), backwards)) == [(0, 1, 0, 0.2), (2, 3, 0, 0.9)]


def test_refuses_an_unknown_mode_and_suggests_the_nearest() -> None:
    nothing = from_rows([])
    with pytest.raises(
        UsageError, match=r"'nestd'; did you mean nested\? there are flat, nested, keep-all, soft-nms"
    ):
        select(nothing, "nestd")
    with pytest.raises(UsageError, match=r"; there are flat, nested, keep-all, soft-nms$"):
        select(nothing, "xyz")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [1, 2], [0], [0.5]), "of one length"),
        (([[0]], [[1]], [[0]], [[0.5]]), "one-dimensional"),
        (([0], [1], [0], [float("nan")]), "candidate 0 is nan"),
        (([0, 0], [1, 1], [0, 0], [1.0, 1.5]), "candidate 1 is 1.5"),
        (([0], [1], [0], [-0.1]), "between 0 and 1"),
        (([2], [2], [0], [0.5]), "start is 2 and end is 2"),
        (([-1], [2], [0], [0.5]), "start is -1"),
        (([0.5], [2], [0], [0.5]), "start must hold integers"),
    ],
)
def test_refuses_invalid_columns(columns, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Candidates(*columns)


def test_small_number_types_are_widened() -> None:
    candidates = Candidates(
        np.array([0, 250], np.uint8),
        np.array([2, 255], np.uint8),
        np.array([1, 0], np.int16),
        np.array([0.5, 1.0], np.float32),
    )
    assert to_rows(select(candidates, "nested")) == [(0, 2, 1, 0.5), (250, 255, 0, 1.0)]


def test_take_accepts_positions_and_masks() -> None:
    candidates = from_rows([(0, 1, 0, 0.1), (1, 2, 0, 0.2), (2, 3, 0, 0.3)])
    assert to_rows(candidates.take(np.array([2, 0]))) == [(2, 3, 0, 0.3), (0, 1, 0, 0.1)]
    assert to_rows(candidates.take(np.array([False, True, False]))) == [(1, 2, 0, 0.2)]
