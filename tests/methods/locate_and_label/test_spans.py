"""Seeds, overlaps, pairs, maxima and moves of spans, compared with simple loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from fencepost.methods.locate_and_label.settings import LocateAndLabelSettings
from fencepost.methods.locate_and_label.spans import (
    MaximumTable,
    Spans,
    compute_iou,
    enumerate_spans,
    move_spans,
    pair_spans,
)
from tests.methods.locate_and_label.cases import (
    Key,
    Place,
    Span,
    arrays_of,
    gold_of,
    network_of,
    places_of,
    random_batch,
    seeded,
    slow_adjusted,
    slow_iou,
    slow_pair,
    slow_seeds,
    spans_of,
)


@given(st.sets(st.integers(1, 14), min_size=1), st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_seeds_are_all_spans_of_the_lengths(of_lengths: set[int], lengths: list[int]) -> None:
    """They are sorted by sentence, start and length; a sentence shorter than all lengths has none."""
    places = places_of(enumerate_spans(sorted(of_lengths), np.array(lengths)))
    assert places == [
        (index, *span)
        for index, length in enumerate(lengths)
        for span in slow_seeds(tuple(of_lengths), length)
    ]


def test_seeds_equal_those_by_hand() -> None:
    places = places_of(enumerate_spans([1, 3], np.array([2, 4])))
    assert places == [(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 0, 3), (1, 1, 2), (1, 1, 4), (1, 2, 3), (1, 3, 4)]
    assert places_of(enumerate_spans(range(5, 9), np.array([4, 1]))) == []


def test_lengths_are_sorted_unique_and_positive() -> None:
    assert LocateAndLabelSettings(lengths=(5, 1, 3, 1)).lengths == (1, 3, 5)
    assert list(LocateAndLabelSettings(lengths=(5, 1, 3, 1)).trained_lengths()) == [1, 3, 5]
    for lengths in ((), (0, 1), (-1,)):
        with pytest.raises(ValidationError):
            LocateAndLabelSettings(lengths=lengths)


def test_iou_of_spans_is_that_of_their_words() -> None:
    spans = [(start, end) for start in range(7) for end in range(start + 1, 8)]
    pairs = list(itertools.product(spans, spans))
    one, other = (spans_of([(0, *pair[side]) for pair in pairs]) for side in (0, 1))
    values = compute_iou(one, other).tolist()
    assert values == pytest.approx([slow_iou(*pair) for pair in pairs], abs=1e-6)
    assert [iou == 1 for iou in values] == [ours == theirs for ours, theirs in pairs]
    assert [iou == 0 for iou in values] == [not slow_iou(*pair) for pair in pairs]


def entities_of(batch: list[list[Key]], seed: int = 0) -> tuple[Spans, list[int]]:
    """Return the entities of sentences in random order, and their types."""
    gold = arrays_of(gold_of(batch, seed))
    return Spans(gold.sentence, gold.start, gold.end), gold.type.tolist()


def assert_paired(places: list[Place], batch: list[list[Key]], seed: int = 0) -> None:
    entities, types = entities_of(batch, seed)
    columns = pair_spans(spans_of(places), entities)
    assert [column.dtype for column in columns] == [np.int64, np.float32]
    for (index, *span), entity, iou in zip(places, *(column.tolist() for column in columns), strict=True):
        expected, highest = slow_pair(tuple(span), batch[index])
        assert iou == pytest.approx(highest, abs=1e-6)
        if expected is None:
            assert entity == -1
        else:
            assert (*places_of(entities)[entity], types[entity]) == (index, *expected)


def test_spans_are_paired_with_the_entity_of_highest_iou() -> None:
    chance = seeded(1)
    ties = 0
    for number in range(12):
        lengths, batch = random_batch(chance, longest=8)
        places = [(index, *span) for index, n in enumerate(lengths) for span in slow_seeds(range(1, 9), n)]
        chance.shuffle(places)
        assert_paired(places, batch, number)
        for index, *span in places:
            overlaps = [slow_iou(tuple(span), key[:2]) for key in batch[index]]
            ties += bool(overlaps) and overlaps.count(max(overlaps)) > 1
    assert ties > 20


def test_iou_equal_to_near_is_not_positive() -> None:
    for near, positive in ((0.5, {(0, 0, 2)}), (0.49, {(0, 0, 1), (0, 0, 2), (0, 1, 2)})):
        network = network_of(lengths=(1, 2), near=near, negatives=0, extra_negatives=0)
        examples = network.sample(gold_of([[(0, 2, 0)]]), torch.tensor([2]))
        assert set(places_of(examples.spans)) == positive
        assert sorted(examples.iou.tolist()) == [0.5] * (len(positive) - 1) + [1.0]
        assert examples.positive.all()


def test_first_of_equally_overlapping_entities_is_paired() -> None:
    batch: list[list[Key]] = [[(2, 4, 1), (0, 2, 0)], [(0, 2, 0), (2, 4, 1)], [(1, 3, 2), (1, 3, 0)]]
    entities, types = entities_of(batch)
    index, _ = pair_spans(spans_of([(0, 1, 3), (1, 1, 3), (2, 1, 3)]), entities)
    assert [types[one] for one in index] == [1, 0, 2]
    assert places_of(entities.take(index)) == [(0, 2, 4), (1, 0, 2), (2, 1, 3)]


def test_spans_without_entities_have_no_pair() -> None:
    places = [(index, *span) for index in range(3) for span in slow_seeds(range(1, 4), 3)]
    for batch in ([[], [], []], [[], [(0, 2, 1)], []], [[(1, 2, 0)], [], [(0, 1, 0), (0, 3, 2)]]):
        assert_paired(places, batch)
    assert [len(column) for column in pair_spans(spans_of([]), entities_of([[(0, 1, 0)]])[0])] == [0, 0]


LIBRARIES = (np, torch)


def maxima(vectors: Tensor, places: list[Place]) -> Tensor:
    """Return maxima; both libraries must agree, for one span or many at a time."""
    of_torch = MaximumTable(vectors, torch).pool(spans_of(places))
    table = MaximumTable(vectors.detach().numpy(), np)
    np.testing.assert_array_equal(table.pool(spans_of(places)), of_torch.detach().numpy())
    for place in places[:20]:
        np.testing.assert_array_equal(table.pool(spans_of([place])), maximum_of(vectors, place).numpy())
    return of_torch


def maximum_of(vectors: Tensor, place: Place) -> Tensor:
    index, start, end = place
    return vectors.detach()[index, start:end].amax(dim=0, keepdim=True)


@pytest.mark.parametrize("length", range(1, 41))
def test_maxima_of_all_spans_equal_a_simple_loop(length: int) -> None:
    vectors = torch.randn(2, length, 3, generator=torch.Generator().manual_seed(length))
    before = vectors.clone()
    places = [(index, *span) for index in (0, 1) for span in slow_seeds(range(1, 41), length)]
    seeded(length).shuffle(places)
    expected = torch.cat([maximum_of(vectors, place) for place in places])
    assert torch.equal(maxima(vectors, places), expected)
    assert torch.equal(vectors, before)


def test_maxima_of_very_long_spans_are_exact() -> None:
    """All lengths up to thousands of words: an inexact logarithm would miss a word."""
    length = 4100
    vectors = torch.zeros(2, length, 2)
    vectors[0] = torch.arange(length)[:, None] * torch.tensor([1.0, -1.0])  # the last, and the first word
    first = [(0, 0, end) for end in range(1, length + 1)]
    last = [(0, start, length) for start in range(length)]
    result = maxima(vectors, first + last)
    assert result.tolist() == [[end - 1, -start] for _, start, end in first + last]


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_spans_have_no_maxima(library) -> None:
    assert MaximumTable(library.zeros((1, 3, 4)), library).pool(spans_of([])).shape == (0, 4)


def test_padding_does_not_affect_maxima() -> None:
    """Any use of padding would give NaN."""
    lengths = [3, 17, 1, 8]
    vectors = torch.randn(4, 17, 3)
    for index, length in enumerate(lengths):
        vectors[index, length:] = math.nan
    places = [(index, *span) for index, n in enumerate(lengths) for span in slow_seeds(range(1, 18), n)]
    assert not maxima(vectors, places).isnan().any()


def test_gradients_of_maxima_go_to_the_maximal_words() -> None:
    vectors = torch.randn(2, 13, 3, dtype=torch.float64, requires_grad=True)
    places = [(index, *span) for index in (0, 1) for span in slow_seeds(range(1, 14), 13)]
    weights = torch.randn(len(places), 3, dtype=torch.float64)
    (maxima(vectors, places) * weights).sum().backward()
    expected = torch.zeros_like(vectors)
    for (index, start, end), weight in zip(places, weights, strict=True):
        best = start + vectors[index, start:end].argmax(dim=0)
        for feature in range(3):
            expected[index, best[feature], feature] += weight[feature]
    torch.testing.assert_close(vectors.grad, expected)


Move = tuple[Span, tuple[float, float]]


@st.composite
def sentences_with_moves(draw: st.DrawFn) -> tuple[list[int], list[list[Move]]]:
    """Draw small offsets, multiples of a half, and offsets too large for an integer."""
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    offsets = (
        st.floats(-4, 4)
        | st.integers(-8, 8).map(lambda halves: halves / 2)
        | st.sampled_from([1e4, -1e4, 1e30, -1e30, math.inf, -math.inf])
    )
    moves = []
    for length in lengths:
        of_sentence = draw(
            st.lists(st.tuples(st.sampled_from(slow_seeds(range(1, 13), length)), offsets, offsets))
        )
        moves.append([(span, (left, right)) for span, left, right in of_sentence])
    return lengths, moves


def finite(offset: float) -> float:
    """Limit an offset to a value beyond any sentence."""
    return max(-1e6, min(1e6, offset))


@given(sentences_with_moves())
def test_moves_equal_the_formula(example: tuple[list[int], list[list[Move]]]) -> None:
    lengths, moves = example
    rows = [(index, *move) for index, of_sentence in enumerate(moves) for move in of_sentence]
    spans = spans_of([(index, *span) for index, span, _ in rows])
    offsets = np.array([pair for *_, pair in rows], dtype=np.float64).reshape(-1, 2)
    moved = move_spans(spans, offsets, np.array(lengths))
    assert places_of(moved) == [
        (index, *slow_adjusted(span, (finite(left), finite(right)), lengths[index]))
        for index, span, (left, right) in rows
    ]
    for index, start, end in places_of(moved):
        assert 0 <= start < end <= lengths[index]


@pytest.mark.parametrize(
    ("span", "offsets", "expected"),
    [
        ((2, 4), (0.0, 0.0), (2, 4)),
        ((2, 4), (0.49, -0.49), (2, 4)),
        ((2, 4), (0.5, 0.5), (3, 5)),  # a half goes up
        ((2, 4), (-0.5, -0.5), (2, 4)),  # also below zero
        ((2, 4), (-0.51, -0.51), (1, 3)),
        ((2, 4), (-1.6, 1.4), (0, 5)),
        ((2, 4), (-7, 9), (0, 6)),  # to the ends of the sentence
        ((2, 4), (2, 0), (2, 4)),  # would be empty
        ((2, 4), (0, -2), (2, 4)),
        ((2, 4), (1, -2), (2, 4)),  # would end before it starts
        ((2, 4), (9, 9), (2, 4)),  # would lie after the sentence
        ((2, 4), (-9, -9), (2, 4)),  # before it
        ((2, 4), (-9, -3), (0, 1)),
        ((4, 6), (1, 5), (5, 6)),
        ((0, 6), (-1e30, 1e30), (0, 6)),
    ],
)
def test_moves_equal_those_by_hand(span: Span, offsets: tuple[float, float], expected: Span) -> None:
    """The batch has a sentence of six words and a longer one."""
    for dtype in (np.float32, np.float64):
        moved = move_spans(spans_of([(0, *span)]), np.array([offsets], dtype=dtype), np.array([6, 9]))
        assert places_of(moved) == [(0, *expected)]


def test_no_spans_have_no_moves() -> None:
    assert places_of(move_spans(spans_of([]), np.zeros((0, 2), dtype=np.float32), np.array([3]))) == []


def test_nan_offsets_do_not_move_spans() -> None:
    """They occur when training diverges, which is reported elsewhere."""
    moved = move_spans(spans_of([(0, 2, 4)]), np.array([[math.nan, -math.nan]]), np.array([6]))
    assert places_of(moved) == [(0, 2, 4)]


def test_split_returns_blocks_of_spans() -> None:
    spans = spans_of([(0, start, start + 2) for start in range(8)])
    blocks = spans.split(3)
    assert [len(block.start) for block in blocks] == [3, 3, 2]
    assert [place for block in blocks for place in places_of(block)] == places_of(spans)
    assert [len(block.start) for block in spans_of([]).split(3)] == [0]


def test_pairs_do_not_depend_on_blocks(monkeypatch) -> None:
    dice = np.random.default_rng(0)
    start, width = dice.integers(0, 20, (2, 200)), dice.integers(1, 6, (2, 200))
    spans, others = (
        Spans(np.sort(dice.integers(0, 3, 200)), s, s + w) for s, w in zip(start, width, strict=True)
    )
    whole = pair_spans(spans, others)
    monkeypatch.setattr("fencepost.methods.locate_and_label.spans._PAIRS_AT_ONCE", 300)
    for one, other in zip(pair_spans(spans, others), whole, strict=True):
        np.testing.assert_array_equal(one, other)
