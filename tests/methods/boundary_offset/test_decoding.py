"""From predicted offsets to entities, compared with a simple loop."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.methods.boundary_offset import decode as boundary_offset
from fencepost.methods.boundary_offset.decode import Cells
from fencepost.methods.boundary_offset.labels import Labels
from fencepost.methods.boundary_offset.settings import BoundaryOffsetPredict
from tests.methods.boundary_offset.cases import (
    OFFSETS,
    OUT,
    PREDICTS,
    RULES,
    TYPES,
    Found,
    Key,
    Picture,
    labels_of,
    random_batch,
    seeded,
    slow_decode,
    slow_targets,
)
from tests.strategies import entities


def cells_of(picture: Picture, labels: Labels, probabilities: dict) -> Cells:
    """Return the cells in random order."""
    rows = [(*cell, name) for cell, name in picture.items() if name != OUT]
    seeded(len(rows)).shuffle(rows)
    sentence, type_, start, last = (np.array([row[n] for row in rows], dtype=np.int64) for n in (0, 1, 2, 3))
    label = np.array([labels.names.index(row[4]) for row in rows], dtype=np.int64)
    probability = np.array([probabilities[row[:4]] for row in rows], dtype=np.float64)
    return Cells(sentence, start, last, type_, label, probability)


def picture_of(lengths: list[int], batch: list[set[Key]], reach: int, offsets: str) -> Picture:
    """Return the upper triangles of the gold grids."""
    return {
        (index, type_, i, j): name
        for index, (length, keys) in enumerate(zip(lengths, batch, strict=True))
        for (i, j, type_), name in slow_targets(keys, length, reach, offsets).items()
        if i <= j
    }


def chances_of(picture: Picture, chance: random.Random) -> dict:
    return {cell: chance.uniform(0.1, 1) for cell in picture}


def fast_decode(
    picture: Picture, probabilities: dict, lengths: list[int], labels: Labels, longer: int = 0, **predict
) -> Found:
    length = max(lengths) + longer
    candidates = boundary_offset.decode(
        cells_of(picture, labels, probabilities),
        np.array(lengths),
        length,
        labels,
        BoundaryOffsetPredict(**predict),
    )
    columns = (candidates.start, candidates.end, candidates.type, candidates.confidence)
    confidences = {
        (start // length, start % length, end - start // length * length, type_): confidence
        for start, end, type_, confidence in zip(*(column.tolist() for column in columns), strict=True)
    }
    assert len(confidences) == len(candidates)
    for sentence, start, end, _ in confidences:
        assert 0 <= start < end <= lengths[sentence]
    return confidences


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("reach", range(4))
def test_gold_grids_decode_to_the_entities_in_every_mode(reach: int, offsets: str) -> None:
    chance = seeded(reach)
    labels = labels_of(reach, offsets)
    for _ in range(15):
        lengths, batch = random_batch(chance)
        picture = picture_of(lengths, batch, reach, offsets)
        probabilities = chances_of(picture, chance)
        gold = {(index, *key) for index, keys in enumerate(batch) for key in keys}
        expected = {
            (index, start, end, type_): probabilities[index, type_, start, end - 1]
            for index, start, end, type_ in gold
        }
        for predict in PREDICTS:
            confidences = fast_decode(picture, probabilities, lengths, labels, **predict)
            assert confidences == pytest.approx(expected), predict


@given(st.data(), st.integers(0, 3), st.sampled_from(OFFSETS), st.sampled_from(PREDICTS))
def test_gold_grids_of_drawn_sentences_decode_to_the_entities(data, reach, offsets, predict) -> None:
    lengths = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    batch = [
        {(e.start, e.end, TYPES.index(e.type)) for e in data.draw(entities(n, st.sampled_from(TYPES)))}
        for n in lengths
    ]
    picture = picture_of(lengths, batch, reach, offsets)
    probabilities = dict.fromkeys(picture, 1.0)
    confidences = fast_decode(picture, probabilities, lengths, labels_of(reach, offsets), **predict)
    assert set(confidences) == {(index, *key) for index, keys in enumerate(batch) for key in keys}


def spoilt(picture: Picture, labels: Labels, chance: random.Random) -> Picture:
    """Return a grid like one of a model, with missing centres and wrong labels."""
    missed, mistaken = chance.choice([0.0, 0.5, 1.0]), chance.choice([0.0, 0.05, 0.3, 1.0])
    result = {}
    for cell, name in picture.items():
        if name == "0" and chance.random() < missed:
            name = OUT
        if chance.random() < mistaken:
            name = chance.choice(labels.names[chance.choice([0, 1, 2]) :] or labels.names)
        result[cell] = name
    return result


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("reach", range(5))
def test_decoding_equals_a_simple_loop(reach: int, offsets: str) -> None:
    chance = seeded(10 * reach)
    labels = labels_of(reach, offsets)
    elected = dict.fromkeys(range(len(PREDICTS)), 0)
    for _ in range(20):
        lengths, batch = random_batch(chance)
        picture = spoilt(picture_of(lengths, batch, reach, offsets), labels, chance)
        probabilities = chances_of(picture, chance)
        for number, predict in enumerate(PREDICTS):
            expected = slow_decode(picture, probabilities, lengths, labels, reach, **predict)
            longer = chance.choice([0, 0, 3])  # padding beyond the longest
            confidences = fast_decode(picture, probabilities, lengths, labels, longer, **predict)
            assert confidences == pytest.approx(expected), predict
            elected[number] += len(confidences) - sum(name == "0" for name in picture.values())
    assert elected[0] == 0
    assert (elected[1] > 0) == (reach > 0)
    enough = {1: (1,), 2: (1, 2), 3: (1, 2)}.get(reach, ())
    decided = [count for number, count in elected.items() if PREDICTS[number].get("votes") in enough]
    assert all(decided)  # every one had something to decide


def test_each_rule_changes_results() -> None:
    """Each setting changes the entities of some grids like those above."""
    chance = seeded(5)
    labels = labels_of(2)
    different = dict.fromkeys(itertools.combinations(range(len(RULES)), 2), 0)
    for _ in range(80):
        lengths, batch = random_batch(chance)
        picture = spoilt(picture_of(lengths, batch, 2, "both"), labels, chance)
        probabilities = chances_of(picture, chance)
        results = [fast_decode(picture, probabilities, lengths, labels, **rules) for rules in RULES]
        for one, other in different:
            different[one, other] += results[one] != results[other]
    same = {pair for pair, count in different.items() if not count}
    # with votes unset there must be three, which are so rare here that the other rules seldom matter
    assert all(RULES[one]["votes"] == RULES[other]["votes"] is None for one, other in same)


def test_sentences_and_types_are_independent() -> None:
    """A single sentence and type has the same entities as together with others."""
    chance = seeded(3)
    for _ in range(20):
        reach, offsets = chance.randint(1, 4), chance.choice(OFFSETS)
        labels = labels_of(reach, offsets)
        lengths, batch = random_batch(chance, longest=5)  # short: all cells are close to a border
        picture = spoilt(picture_of(lengths, batch, reach, offsets), labels, chance)
        probabilities = chances_of(picture, chance)
        for predict in PREDICTS:
            together = fast_decode(picture, probabilities, lengths, labels, **predict)
            alone: Found = {}
            for index, type_ in itertools.product(range(len(lengths)), range(len(TYPES))):
                part = {
                    (0, 0, i, j): name
                    for (of, also, i, j), name in picture.items()
                    if (of, also) == (index, type_)
                }
                of_part = {(0, 0, i, j): probabilities[index, type_, i, j] for _, _, i, j in part}
                confidences = fast_decode(part, of_part, [lengths[index]], labels, **predict)
                alone |= {
                    (index, start, end, type_): confidences[0, start, end, 0]
                    for _, start, end, _ in confidences
                }
            assert together == pytest.approx(alone)


def decoded(picture: dict[tuple[int, int], str], length: int = 8, reach: int = 2, **predict) -> dict:
    """Decode one sentence and type; each cell has a different probability."""
    full = {(0, 0, i, j): name for (i, j), name in picture.items()}
    probabilities = {cell: 0.5 + number / 100 for number, cell in enumerate(full)}
    confidences = fast_decode(full, probabilities, [length], labels_of(reach), **predict)
    return {(start, end): confidence for (_, start, end, _), confidence in confidences.items()}


def test_enough_start_offsets_add_a_span_without_a_centre() -> None:
    """All cells, (start, last word), point at the words 3 and 4."""
    two = {(2, 4): "-1S", (4, 4): "1S"}
    three = {**two, (1, 4): "-2S"}
    assert decoded(two) == {}
    assert decoded(two, reach=1) == {(3, 5): pytest.approx(0.505)}
    assert decoded(two, votes=2) == {(3, 5): pytest.approx(0.505)}
    assert decoded(two, votes=3) == {}
    assert decoded(three) == {(3, 5): pytest.approx(0.51)}
    assert decoded(three, mode="centre") == {}
    assert decoded(three, reach=3) == {}  # which needs four
    assert decoded(two, mode="all") == {(3, 5): pytest.approx(0.505)}


def test_start_and_end_offsets_are_counted_separately() -> None:
    one_each = {(2, 4): "-1S", (3, 5): "1E"}
    assert decoded(one_each, votes=2) == {}
    assert decoded(one_each, votes=1) == {(3, 5): pytest.approx(0.505)}
    assert decoded({**one_each, (3, 3): "-1E"}, votes=2) == {
        (3, 5): pytest.approx(0.51)
    }  # the mean of all three


def test_ignores_offsets_to_empty_spans_or_outside_the_sentence() -> None:
    picture = {(0, 2): "1S", (1, 5): "2S", (4, 7): "-1E", (3, 6): "-2E", (2, 2): "-1S", (5, 5): "1E"}
    for predict in PREDICTS:
        assert decoded(picture, **predict) == {}
    assert decoded(picture, length=9, mode="all") == {(4, 9): 0.52, (3, 9): 0.53}


def test_offset_must_point_at_the_nearest_centre() -> None:
    """The words 3 and 4 are a centre; one cell within its reach points past it, another is farther."""
    picture = {(3, 4): "0", (2, 4): "1S", (0, 4): "-1S"}  # both others point at (1, 4)
    assert decoded(picture, votes=1) == {(3, 5): 0.5, (1, 5): 0.52}
    assert decoded(picture, votes=2) == {(3, 5): 0.5}
    assert decoded(picture, votes=2, nearest=False) == {(3, 5): 0.5, (1, 5): pytest.approx(0.515)}


def test_offsets_must_decrease_towards_the_span() -> None:
    picture = {(1, 4): "-2S", (5, 6): "2S"}  # at (3, 4) and (3, 6), with no cells between
    assert decoded(picture, votes=1) == {}
    assert decoded(picture, votes=1, order=False) == {(3, 5): 0.5, (3, 7): 0.51}
    chain = {(1, 4): "-2S", (2, 4): "-1S"}
    assert decoded(chain, votes=2) == {(3, 5): pytest.approx(0.505)}
    assert decoded({**chain, (2, 4): "1S"}, votes=1) == {(1, 5): 0.51}  # another sign


@pytest.mark.parametrize("reach", [0, 2])
def test_empty_grid_has_no_entities(reach: int) -> None:
    for predict in PREDICTS:
        assert fast_decode({}, {}, [3, 1], labels_of(reach), **predict) == {}
