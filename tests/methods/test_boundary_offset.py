"""Boundary offsets beside slow loops, written from SPEC's words and the paper's formulas."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fencepost.config import Config
from fencepost.encoder import Words
from fencepost.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.methods import Gold, boundary_offset
from fencepost.methods.boundary_offset import (
    CENTRE,
    OUT_OF_RANGE,
    Block,
    BoundaryOffset,
    BoundaryOffsetPredict,
    BoundaryOffsetSettings,
    Cells,
    ConditionalNorm,
    Labels,
    OffsetScores,
    PlaceEmbedding,
    offset_entries,
    offset_targets,
)
from fencepost.model import Model
from fencepost.modules import DepthwiseConvolution
from tests.strategies import entities, nested_entities

torch.set_num_threads(1)

TYPES = ("A", "B", "C")
WIDTH = 6  # of word vectors
OUT = "out of range"
OFFSETS = ("both", "start", "end")
Key = tuple[int, int, int]  # start, end, type
Picture = dict[tuple[int, int, int, int], str]  # sentence, type, start, last word: the label's name


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def labels_of(reach: int, offsets: str = "both") -> Labels:
    return Labels(BoundaryOffsetSettings(max_offset=reach, offsets=offsets))


def gold_of(batch: list[set[Key]], seed: int = 0) -> Gold:
    """In any order: who builds a batch promises none."""
    rows = [(index, *key) for index, keys in enumerate(batch) for key in sorted(keys)]
    seeded(seed).shuffle(rows)
    return Gold.of(torch.tensor(rows, dtype=torch.long).view(-1, 4))


def whole(lengths: list[int]) -> Block:
    return Block(list(range(len(lengths))), 0, max(lengths), max(lengths))


def method_of(types: tuple[str, ...] = TYPES, predict: dict | None = None, **settings) -> BoundaryOffset:
    """A small one, with weights that are all random, in double precision."""
    torch.manual_seed(0)
    settings = {"size": 4, "region_size": 2, "dropout": 0.0, "max_offset": 1} | settings
    predict = {"select": "keep-all"} | (predict or {})
    method = BoundaryOffset(
        BoundaryOffsetSettings(**settings), BoundaryOffsetPredict(**predict), WIDTH, types
    ).double()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.normal_(std=0.5)
    return method.eval()


def words_of(lengths: list[int], types: int = len(TYPES), seed: int = 0) -> Words:
    """Random vectors, behind the end of a sentence too: nobody may look at those."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(lengths), max(lengths), WIDTH, generator=generator, dtype=torch.float64)
    prompts = torch.randn(len(lengths), types, WIDTH, generator=generator, dtype=torch.float64)
    return Words(vectors, torch.tensor(lengths), prompts if types else None)


def random_keys(chance: random.Random, length: int) -> set[Key]:
    """Entities that nest, cross, touch, and share boundaries and whole spans."""
    keys = set()
    for _ in range(chance.randint(0, 6)):
        start, last = sorted((chance.randrange(length), chance.randrange(length)))
        keys.add((start, last + 1, chance.randrange(len(TYPES))))
    return keys


def random_batch(chance: random.Random, longest: int = 9) -> tuple[list[int], list[set[Key]]]:
    lengths = [chance.randint(1, longest) for _ in range(chance.randint(1, 4))]
    return lengths, [random_keys(chance, length) for length in lengths]


# Labels


@pytest.mark.parametrize("reach", range(5))
def test_labels_are_as_many_as_the_paper_says(reach: int) -> None:
    assert len(labels_of(reach, "both")) == 4 * reach + 2
    assert len(labels_of(reach, "start")) == len(labels_of(reach, "end")) == 2 * reach + 2
    for offsets in OFFSETS:
        assert labels_of(reach, offsets).names[OUT_OF_RANGE] == OUT
        assert labels_of(reach, offsets).names[CENTRE] == "0"


def test_names_and_moves_of_labels() -> None:
    """1S is a span that starts one word behind where the entity starts, -2E ends two words before it."""
    labels = labels_of(2)
    assert labels.names == (OUT, "0", "-2S", "-1S", "1S", "2S", "-2E", "-1E", "1E", "2E")
    assert labels.moves.tolist() == [
        [0, 0],
        [0, 0],
        [-2, 0],
        [-1, 0],
        [1, 0],
        [2, 0],
        [0, -2],
        [0, -1],
        [0, 1],
        [0, 2],
    ]
    assert labels_of(1, "start").names == (OUT, "0", "-1S", "1S")
    assert labels_of(1, "start").moves.tolist() == [[0, 0], [0, 0], [-1, 0], [1, 0]]
    assert labels_of(1, "end").names == (OUT, "0", "-1E", "1E")
    assert labels_of(1, "end").moves.tolist() == [[0, 0], [0, 0], [0, -1], [0, 1]]
    assert labels_of(0).moves.tolist() == [[0, 0], [0, 0]]


# Targets


def slow_label(found: list[tuple[int, int]], i: int, j: int, reach: int, offsets: str) -> str:
    """What the span from word `i` to word `j` is to the entities of one type (start, end), in their order."""
    if (i, j + 1) in found:
        return "0"
    best, name = reach + 1, OUT
    for start, end in sorted(found):
        if end == j + 1 and offsets != "end" and abs(i - start) < best:
            best, name = abs(i - start), f"{i - start}S"
        if start == i and offsets != "start" and abs(j + 1 - end) < best:
            best, name = abs(j + 1 - end), f"{j + 1 - end}E"
    return name


def slow_targets(keys: set[Key], length: int, reach: int, offsets: str) -> dict[Key, str]:
    """By start, last word and type: the whole grid, the lower triangle as a mirror of the upper."""
    grid = {}
    for type_ in range(len(TYPES)):
        found = [(start, end) for start, end, of in keys if of == type_]
        for i in range(length):
            for j in range(i, length):
                grid[i, j, type_] = grid[j, i, type_] = slow_label(found, i, j, reach, offsets)
    return grid


def fast_targets(lengths: list[int], batch: list[set[Key]], labels: Labels, block: Block) -> Tensor:
    entries = offset_entries(gold_of(batch), torch.tensor(lengths), labels)
    return offset_targets(entries, block, len(TYPES))


def check_targets(lengths: list[int], batch: list[set[Key]], reach: int, offsets: str) -> None:
    labels = labels_of(reach, offsets)
    longest = max(lengths)
    targets = fast_targets(lengths, batch, labels, whole(lengths))
    assert targets.shape == (len(lengths), longest, longest, len(TYPES))
    for keys, length, of_sentence in zip(batch, lengths, targets.tolist(), strict=True):
        expected = slow_targets(keys, length, reach, offsets)
        for i, j, type_ in itertools.product(range(longest), range(longest), range(len(TYPES))):
            name = labels.names[of_sentence[i][j][type_]]
            assert name == expected.get((i, j, type_), OUT), (keys, i, j, type_)


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("reach", range(5))
def test_targets_equal_the_obvious_loop(reach: int, offsets: str) -> None:
    chance = seeded(reach)
    for _ in range(80):
        check_targets(*random_batch(chance), reach, offsets)


@given(st.data(), st.integers(0, 4), st.sampled_from(OFFSETS))
def test_targets_of_drawn_sentences_equal_the_obvious_loop(data, reach: int, offsets: str) -> None:
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    batch = [
        {
            (entity.start, entity.end, TYPES.index(entity.type))
            for entity in data.draw(
                st.one_of(f(length, st.sampled_from(TYPES)) for f in (entities, nested_entities))
            )
        }
        for length in lengths
    ]
    check_targets(lengths, batch, reach, offsets)


def test_targets_of_a_part_of_the_batch_are_that_part_of_all() -> None:
    chance = seeded(0)
    for _ in range(150):
        lengths, batch = random_batch(chance)
        labels = labels_of(chance.randint(0, 3), chance.choice(OFFSETS))
        targets = fast_targets(lengths, batch, labels, whole(lengths))
        some = chance.sample(range(len(lengths)), chance.randint(1, len(lengths)))  # in any order
        length = max(lengths[index] for index in some)
        first = chance.randrange(length)
        behind = chance.randint(first + 1, length)
        part = fast_targets(lengths, batch, labels, Block(some, first, behind, length))
        assert torch.equal(part, targets[some, first:behind, :length])


def test_an_entity_that_is_told_twice_counts_once() -> None:
    rows = [(0, 1, 3, 0), (0, 1, 3, 0), (0, 0, 3, 0), (0, 1, 3, 0)]
    once = fast_targets([4], [{(1, 3, 0), (0, 3, 0)}], labels_of(2), whole([4]))
    entries = offset_entries(Gold.of(torch.tensor(rows)), torch.tensor([4]), labels_of(2))
    assert torch.equal(offset_targets(entries, whole([4]), len(TYPES)), once)
    assert len(set(map(tuple, torch.stack(entries[:4], dim=1).tolist()))) == len(entries.label)


@pytest.mark.parametrize("reach", [0, 2])
def test_targets_without_entities(reach: int) -> None:
    targets = fast_targets([3, 1], [set(), set()], labels_of(reach), whole([3, 1]))
    assert torch.equal(targets, torch.full((2, 3, 3, len(TYPES)), OUT_OF_RANGE))


def test_of_two_entities_as_near_the_earlier_one_counts() -> None:
    """Each is a span between two entities that share its other boundary."""
    labels = labels_of(2)

    def label(keys: set[Key], i: int, j: int) -> str:
        return labels.names[int(fast_targets([6], [keys], labels, whole([6]))[0, i, j, 0])]

    assert label({(0, 2, 0), (0, 4, 0)}, 0, 2) == "1E"  # ends behind (0, 2), before (0, 4)
    assert label({(0, 6, 0), (2, 6, 0)}, 1, 5) == "1S"  # starts behind (0, 6), before (2, 6)
    assert label({(0, 6, 0), (3, 6, 0)}, 1, 5) == "1S"
    assert label({(0, 6, 0), (3, 6, 0)}, 2, 5) == "-1S"  # the later one is nearer
    assert label({(1, 4, 0), (2, 3, 0)}, 1, 2) == "-1E"  # (1, 4) starts before (2, 3), whose -1S it is too
    assert label({(1, 2, 0), (0, 3, 0)}, 1, 2) == "1S"  # and here (0, 3) starts before (1, 2)
    assert label({(2, 4, 0), (0, 4, 0)}, 2, 3) == "0"  # a centre, whatever it is to others
    assert label({(0, 3, 0)}, 1, 3) == OUT  # both boundaries moved
    assert label({(0, 3, 1)}, 0, 3) == OUT  # another type


# After Figure 2: eight words, two proteins and a cell type, S = 2. Rows are starts, columns last words.
FIGURE_2 = Sentence(
    ["the", "HMG", "box", "of", "LEF-1", "in", "T", "cells"],
    [Entity(1, 3, "protein"), Entity(1, 5, "protein"), Entity(6, 8, "cell type")],
)
PROTEIN = """
    .    .  -1S    .  -1S    .    .    .
    .  -1E    0   1E    0   1E   2E    .
  -1S    0   1S    .   1S    .    .    .
    .   1E    .    .   2S    .    .    .
  -1S    0   1S   2S    .    .    .    .
    .   1E    .    .    .    .    .    .
    .   2E    .    .    .    .    .    .
    .    .    .    .    .    .    .    .
"""
CELL_TYPE = """
    .    .    .    .    .    .    .    .
    .    .    .    .    .    .    .    .
    .    .    .    .    .    .    .    .
    .    .    .    .    .    .    .    .
    .    .    .    .    .    .    .  -2S
    .    .    .    .    .    .    .  -1S
    .    .    .    .    .    .  -1E    0
    .    .    .    .  -2S  -1S    0   1S
"""


@pytest.mark.parametrize(
    ("reach", "offsets", "gone"),
    [(2, "both", ""), (1, "both", "2"), (0, "both", "SE"), (2, "start", "E"), (2, "end", "S")],
)
def test_figure_2(reach: int, offsets: str, gone: str) -> None:
    """The grids were worked out by hand after Figure 2: eight words, three entities, two types.

    "HMG" (row 1, column 1) ends one word before "HMG box"; "HMG box of" (row 1, column 3) is between two
    entities, and the earlier counts. Here no label hides one that is farther or of the other boundary, so
    with fewer labels those that are missing (with a character of `gone`) leave cells out of range.
    """
    types = ["cell type", "protein"]
    rows = [(0, e.start, e.end, types.index(e.type)) for e in FIGURE_2.entities]
    labels = labels_of(reach, offsets)
    entries = offset_entries(Gold.of(torch.tensor(rows)), torch.tensor([8]), labels)
    targets = offset_targets(entries, whole([8]), 2)[0]
    for type_, picture in enumerate((CELL_TYPE, PROTEIN)):
        expected = [
            ["." if set(cell) & set(gone) else cell for cell in row.split()]
            for row in picture.strip().splitlines()
        ]
        names = [[labels.names[label].replace(OUT, ".") for label in row] for row in targets[..., type_]]
        assert names == expected


# Decoding


def cells_of(picture: Picture, labels: Labels, probabilities: dict) -> Cells:
    """In any order."""
    found = [(*cell, name) for cell, name in picture.items() if name != OUT]
    seeded(len(found)).shuffle(found)
    sentence, type_, start, last = (np.array([row[n] for row in found], dtype=np.int64) for n in (0, 1, 2, 3))
    label = np.array([labels.names.index(row[4]) for row in found], dtype=np.int64)
    probability = np.array([probabilities[row[:4]] for row in found], dtype=np.float64)
    return Cells(sentence, start, last, type_, label, probability)


def picture_of(lengths: list[int], batch: list[set[Key]], reach: int, offsets: str) -> Picture:
    """The upper triangles of the gold grids."""
    return {
        (index, type_, i, j): name
        for index, (length, keys) in enumerate(zip(lengths, batch, strict=True))
        for (i, j, type_), name in slow_targets(keys, length, reach, offsets).items()
        if i <= j
    }


def chances_of(picture: Picture, chance: random.Random) -> dict:
    return {cell: chance.uniform(0.1, 1) for cell in picture}


Found = dict[tuple[int, int, int, int], float]  # sentence, start, end, type: confidence


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
    found = {
        (start // length, start % length, end - start // length * length, type_): confidence
        for start, end, type_, confidence in zip(*(column.tolist() for column in columns), strict=True)
    }
    assert len(found) == len(candidates)
    for sentence, start, end, _ in found:
        assert 0 <= start < end <= lengths[sentence]
    return found


def offset_of(name: str) -> tuple[int, int]:
    """How far start and end are off."""
    k = int(name[:-1])
    return (k, 0) if name.endswith("S") else (0, k)


def is_nearest(picture: Picture, cell: tuple[int, int, int, int], labels: Labels) -> bool:
    """P's first rule: a cell within reach of centres must point at one of the nearest."""
    sentence, type_, i, j = cell
    distances = {}
    for name in labels.names[CENTRE + 1 :]:
        by_start, by_end = offset_of(name)
        if picture.get((sentence, type_, i - by_start, j - by_end)) == "0":
            distances[name] = abs(by_start) + abs(by_end)
    return not distances or distances.get(picture[cell]) == min(distances.values())


def is_in_order(picture: Picture, cell: tuple[int, int, int, int]) -> bool:
    """P's second rule: from the cell to where it points, the labels count down."""
    sentence, type_, i, j = cell
    name = picture[cell]
    k, side = int(name[:-1]), name[-1]
    step = 1 if k > 0 else -1
    for nearer in range(k - step, 0, -step):
        away = k - nearer
        between = (i - away, j) if side == "S" else (i, j - away)
        if picture.get((sentence, type_, *between)) != f"{nearer}{side}":
            return False
    return True


def slow_decode(
    picture: Picture,
    probabilities: dict,
    lengths: list[int],
    labels: Labels,
    reach: int,
    mode: str = "rules",
    votes: int | None = None,
    nearest: bool = True,
    order: bool = True,
) -> Found:
    found = {
        (sentence, i, j + 1, type_): probabilities[sentence, type_, i, j]
        for (sentence, type_, i, j), name in picture.items()
        if name == "0"
    }
    if mode == "centre":
        return found
    voters: dict[tuple[int, int, int, int], list[tuple[int, int, int, int]]] = {}
    for cell, name in picture.items():
        if name in ("0", OUT):
            continue
        sentence, type_, i, j = cell
        by_start, by_end = offset_of(name)
        start, end = i - by_start, j + 1 - by_end
        if not 0 <= start < end <= lengths[sentence] or (sentence, start, end, type_) in found:
            continue
        if mode == "rules" and nearest and not is_nearest(picture, cell, labels):
            continue
        if mode == "rules" and order and not is_in_order(picture, cell):
            continue
        voters.setdefault((sentence, start, end, type_), []).append(cell)
    needed = 1 if mode == "all" else votes if votes is not None else reach
    for key, cells in voters.items():
        sides = [picture[cell][-1] for cell in cells]
        if sides.count("S") >= needed or sides.count("E") >= needed:
            found[key] = sum(probabilities[cell] for cell in cells) / len(cells)
    return found


RULES = [
    {"mode": "rules", "nearest": nearest, "order": order, "votes": votes}
    for nearest in (True, False)
    for order in (True, False)
    for votes in (None, 1, 2)
]
PREDICTS: list[dict] = [{"mode": "centre"}, {"mode": "all"}, *RULES]


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("reach", range(4))
def test_perfect_grids_give_back_the_entities_in_every_mode(reach: int, offsets: str) -> None:
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
            found = fast_decode(picture, probabilities, lengths, labels, **predict)
            assert found == pytest.approx(expected), predict


@given(st.data(), st.integers(0, 3), st.sampled_from(OFFSETS), st.sampled_from(PREDICTS))
def test_perfect_grids_of_drawn_sentences_give_back_the_entities(data, reach, offsets, predict) -> None:
    lengths = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    batch = [
        {(e.start, e.end, TYPES.index(e.type)) for e in data.draw(entities(n, st.sampled_from(TYPES)))}
        for n in lengths
    ]
    picture = picture_of(lengths, batch, reach, offsets)
    probabilities = dict.fromkeys(picture, 1.0)
    found = fast_decode(picture, probabilities, lengths, labels_of(reach, offsets), **predict)
    assert set(found) == {(index, *key) for index, keys in enumerate(batch) for key in keys}


def spoilt(picture: Picture, labels: Labels, chance: random.Random) -> Picture:
    """A grid as a model might predict it: centres missed, labels lost and mistaken."""
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
def test_decoding_equals_the_obvious_loop(reach: int, offsets: str) -> None:
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
            found = fast_decode(picture, probabilities, lengths, labels, longer, **predict)
            assert found == pytest.approx(expected), predict
            elected[number] += len(found) - sum(name == "0" for name in picture.values())
    assert elected[0] == 0
    assert (elected[1] > 0) == (reach > 0)
    if reach == 1:
        assert min(
            elected[number] for number in range(1, len(PREDICTS)) if PREDICTS[number].get("votes") != 2
        )
    if reach in (2, 3):
        assert min(elected[number] for number in range(1, len(PREDICTS)))  # every one had something to decide


def test_the_rules_change_something() -> None:
    """In grids as those above, each switch matters."""
    chance = seeded(5)
    labels = labels_of(2)
    different = dict.fromkeys(itertools.combinations(range(len(RULES)), 2), 0)
    for _ in range(80):
        lengths, batch = random_batch(chance)
        picture = spoilt(picture_of(lengths, batch, 2, "both"), labels, chance)
        probabilities = chances_of(picture, chance)
        found = [fast_decode(picture, probabilities, lengths, labels, **rules) for rules in RULES]
        for one, other in different:
            different[one, other] += found[one] != found[other]
    same = {pair for pair, count in different.items() if not count}
    assert all(  # without a setting for votes there must be S of them, which are 2
        {RULES[one]["votes"], RULES[other]["votes"]} == {None, 2} for one, other in same
    )


def test_sentences_and_types_do_not_leak_into_each_other() -> None:
    """A sentence, and a type, alone have the same entities as together with others."""
    chance = seeded(3)
    for _ in range(20):
        reach, offsets = chance.randint(1, 4), chance.choice(OFFSETS)
        labels = labels_of(reach, offsets)
        lengths, batch = random_batch(chance, longest=5)  # short: all is close to an edge
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
                found = fast_decode(part, of_part, [lengths[index]], labels, **predict)
                alone |= {(index, start, end, type_): found[0, start, end, 0] for _, start, end, _ in found}
            assert together == pytest.approx(alone)


def decoded(picture: dict[tuple[int, int], str], length: int = 8, reach: int = 2, **predict) -> dict:
    """Of one sentence and type; all cells have another probability."""
    full = {(0, 0, i, j): name for (i, j), name in picture.items()}
    probabilities = {cell: 0.5 + number / 100 for number, cell in enumerate(full)}
    found = fast_decode(full, probabilities, [length], labels_of(reach), **predict)
    return {(start, end): confidence for (_, start, end, _), confidence in found.items()}


def test_two_start_offsets_elect_a_span_that_is_no_centre() -> None:
    """All point at the words 3 and 4; cells are (start, last word)."""
    two = {(2, 4): "-1S", (4, 4): "1S"}
    assert decoded(two) == {(3, 5): pytest.approx(0.505)}
    assert decoded(two, mode="centre") == {}
    assert decoded(two, votes=3) == {}
    assert decoded(two, reach=3) == {}  # then there must be three
    assert decoded(two, mode="all") == {(3, 5): pytest.approx(0.505)}


def test_start_and_end_offsets_are_not_added_up() -> None:
    one_each = {(2, 4): "-1S", (3, 5): "1E"}
    assert decoded(one_each) == {}
    assert decoded(one_each, votes=1) == {(3, 5): pytest.approx(0.505)}
    assert decoded({**one_each, (3, 3): "-1E"}) == {(3, 5): pytest.approx(0.51)}  # the mean of all three


def test_pointing_outside_the_sentence_or_at_an_empty_span_is_dropped() -> None:
    picture = {(0, 2): "1S", (1, 5): "2S", (4, 7): "-1E", (3, 6): "-2E", (2, 2): "-1S", (5, 5): "1E"}
    for predict in PREDICTS:
        assert decoded(picture, **predict) == {}
    assert decoded(picture, length=9, mode="all") == {(4, 9): 0.52, (3, 9): 0.53}


def test_an_offset_must_point_at_the_nearest_centre() -> None:
    """The words 3 and 4 are a centre; one cell in its reach points past it, another is out of its reach."""
    picture = {(3, 4): "0", (2, 4): "1S", (0, 4): "-1S"}  # both others point at (1, 4)
    assert decoded(picture, votes=1) == {(3, 5): 0.5, (1, 5): 0.52}
    assert decoded(picture) == {(3, 5): 0.5}
    assert decoded(picture, nearest=False) == {(3, 5): 0.5, (1, 5): pytest.approx(0.515)}


def test_offsets_must_count_down() -> None:
    picture = {(1, 4): "-2S", (5, 6): "2S"}  # at (3, 4) and (3, 6), with nothing between
    assert decoded(picture, votes=1) == {}
    assert decoded(picture, votes=1, order=False) == {(3, 5): 0.5, (3, 7): 0.51}
    chain = {(1, 4): "-2S", (2, 4): "-1S"}
    assert decoded(chain) == {(3, 5): pytest.approx(0.505)}
    assert decoded({**chain, (2, 4): "1S"}, votes=1) == {(1, 5): 0.51}  # another sign


@pytest.mark.parametrize("reach", [0, 2])
def test_nothing_is_decoded_from_nothing(reach: int) -> None:
    for predict in PREDICTS:
        assert fast_decode({}, {}, [3, 1], labels_of(reach), **predict) == {}


# Scores: Eq. 1-5


def slow_norm(vector: Tensor) -> Tensor:
    centred = vector - vector.sum() / len(vector)
    return centred / (centred.square().sum() / len(vector)).sqrt()


def slow_conditional_norm(norm: ConditionalNorm, vector: Tensor, condition: Tensor) -> Tensor:
    gain = norm.gain.weight @ condition + norm.gain.bias
    shift = norm.shift.weight @ condition + norm.shift.bias
    return gain * slow_norm(vector) + shift


def slow_bucket(distance: int) -> int:
    """0, 1, 2-3, 4-7, ..., 512 and more, below 0 as above it; the first row is that of -512."""
    bucket = 0
    while 2**bucket <= abs(distance) and bucket < 10:
        bucket += 1
    return 10 + (bucket if distance > 0 else -bucket)


def slow_place(places: PlaceEmbedding, i: int, j: int) -> Tensor:
    region = places.regions.weight[0 if i <= j else 1]
    return torch.cat((region, places.distances.weight[slow_bucket(j - i)]))


def slow_cell(method: BoundaryOffset, vectors: Tensor, h_m: Tensor, i: int, j: int) -> Tensor:
    """c_mij of one sentence `[T, d]` and one type `[d]`, Eq. 1-3: `[L]`."""
    v_ij = slow_conditional_norm(method.span_norm, vectors[i], vectors[j])
    weight = method.span_view.weight
    if method.settings.region_size + method.settings.distance_size:
        v_ij = torch.cat((v_ij, slow_place(method.places, i, j)))
        weight = torch.cat((weight, method.place_view.weight), dim=1)
    type_view = (method.type_view.linear.weight @ h_m + method.type_view.linear.bias).relu()
    span_view = (weight @ v_ij + method.span_view.bias).relu()
    joined = torch.cat((type_view, span_view))
    scores = [
        type_view @ method.U[n] @ span_view + method.W[n] @ joined + method.b[n]
        for n in range(len(method.labels))
    ]
    score = torch.stack(scores)
    if method.second is not None:
        second = method.second
        score = score + second.linear.weight @ slow_conditional_norm(second.norm, h_m, v_ij)
        score = score + second.linear.bias
    return score


def slow_grid(method: BoundaryOffset, vectors: Tensor, types: Tensor) -> Tensor:
    """Eq. 1-5 for one sentence without padding, `[T, d]`, and types `[C, d]`: `[T, T, C, L]`."""
    length = len(vectors)
    grid = torch.stack(
        [slow_cell(method, vectors, h_m, i, j) for i in range(length) for j in range(length) for h_m in types]
    ).view(length, length, len(types), -1)
    if method.convolutions is None:
        return grid
    labels = len(method.labels)
    before, behind = method.convolutions.before, method.convolutions.behind
    channels = grid.permute(3, 0, 1, 2)[None]  # [1, L, T, T, C]
    first = nn.functional.conv3d(channels, before.weight[:, :, None, None, None], before.bias)
    x = nn.functional.gelu(first)
    outputs = []
    for dilation, layer in enumerate(method.convolutions.layers, start=1):
        x = nn.functional.conv3d(
            x, layer.plain.weight, layer.plain.bias, padding=dilation, dilation=dilation, groups=labels
        )
        x = nn.functional.gelu(x)
        outputs.append(x)
    joined = torch.cat(outputs, dim=1)
    last = nn.functional.conv3d(joined, behind.weight[:, :, None, None, None], behind.bias)
    return grid + last[0].permute(1, 2, 3, 0)


def slow_grids(method: BoundaryOffset, words: Words) -> list[Tensor]:
    return [
        slow_grid(
            method,
            words.vectors[index, :length],
            method.type_vectors if words.prompts is None else words.prompts[index],
        )
        for index, length in enumerate(words.lengths.tolist())
    ]


NETWORKS: dict[str, dict] = {
    "plain": {"convolutions": 0},
    "one-convolution": {"convolutions": 1},
    "two-convolutions": {"convolutions": 2, "offsets": "end"},
    "three-convolutions": {"convolutions": 3},
    "second-score": {"convolutions": 0, "condition_types": True},
    "distances": {"convolutions": 0, "distance_size": 3, "condition_types": True},
    "distances-alone": {"convolutions": 1, "distance_size": 3, "region_size": 0},
    "embedding": {"convolutions": 1, "type_inputs": "embedding", "condition_types": True},
    "no-offsets": {"convolutions": 2, "max_offset": 0},
    "all": {
        "convolutions": 3,
        "condition_types": True,
        "distance_size": 2,
        "max_offset": 2,
        "offsets": "start",
    },
}
networks = pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS.keys())


def words_for(method: BoundaryOffset, lengths: list[int]) -> Words:
    prompts = method.settings.type_inputs == "prompts"
    return words_of(lengths, len(method.types) if prompts else 0)


@networks
@torch.no_grad()
def test_scores_equal_the_formulas(settings: dict) -> None:
    """Those of each sentence alone, without padding: so that of the others does not matter."""
    method = method_of(**settings)
    lengths = [5, 1, 7, 3]
    words = words_for(method, lengths)
    grid = method.grid(method.score(words), whole(lengths))
    assert grid.shape == (4, 7, 7, len(TYPES), len(method.labels))
    for of_sentence, expected, length in zip(grid, slow_grids(method, words), lengths, strict=True):
        torch.testing.assert_close(of_sentence[:length, :length], expected)


@pytest.mark.parametrize("convolutions", range(4))
@torch.no_grad()
def test_a_part_of_the_grid_is_that_part_of_all(convolutions: int) -> None:
    method = method_of(convolutions=convolutions, condition_types=True, distance_size=2)
    assert method.reach == (0, 1, 3, 6)[convolutions]
    lengths = [9, 4, 17]
    scores = method.score(words_of(lengths))
    grid = method.grid(scores, whole(lengths))
    for some, length in (([2, 0], 17), ([1, 0], 9), ([1], 4)):
        for first, behind in itertools.combinations(sorted({0, 1, 3, 4, length // 2, 8, length}), 2):
            if behind > length:
                continue
            part = method.grid(scores, Block(some, first, behind, length))
            for index, of_sentence in zip(some, part, strict=True):
                inside = lengths[index]
                expected = grid[index, first : min(behind, inside), :inside]
                torch.testing.assert_close(of_sentence[: len(expected), :inside], expected)
            left = max(0, first - method.reach)  # as much as matters to the upper triangle
            right = method.grid(scores, Block(some, first, behind, length), left)
            for i, j in itertools.product(range(first, behind), range(length)):
                if j >= i:
                    torch.testing.assert_close(right[:, i - first, j - left], part[:, i - first, j])


@pytest.mark.parametrize("convolutions", range(4))
@torch.no_grad()
def test_padding_changes_nothing(convolutions: int) -> None:
    method = method_of(convolutions=convolutions)
    lengths = [3, 8, 1, 5]
    words = words_of(lengths)
    changed = words.vectors.clone()
    changed[~words.mask] = 1e3
    grid = method.grid(method.score(words), whole(lengths))
    other = method.grid(method.score(Words(changed, words.lengths, words.prompts)), whole(lengths))
    for index, length in enumerate(lengths):
        inside = grid[index, :length, :length]
        assert torch.equal(other[index, :length, :length], inside)
        alone = Words(
            words.vectors[index : index + 1, :length],
            words.lengths[index : index + 1],
            words.prompts[index : index + 1],
        )
        torch.testing.assert_close(method.grid(method.score(alone), whole([length]))[0], inside)


@pytest.mark.parametrize("convolutions", range(4))
@torch.no_grad()
def test_the_order_of_types_matters_to_convolutions_alone(convolutions: int) -> None:
    method = method_of(convolutions=convolutions, condition_types=True)
    words = words_of([4, 5])
    order = [2, 0, 1]
    grid = method.grid(method.score(words), whole([4, 5]))
    shuffled = Words(words.vectors, words.lengths, words.prompts[:, order])
    other = method.grid(method.score(shuffled), whole([4, 5]))
    assert torch.allclose(other, grid[:, :, :, order]) == (convolutions == 0)


@torch.no_grad()
def test_types_are_read_with_the_sentence_or_are_the_same_in_all() -> None:
    words = words_of([3, 3], types=0)
    same = Words(words.vectors[:1].expand(2, -1, -1), words.lengths)
    method = method_of(type_inputs="embedding")
    grid = method.grid(method.score(same), whole([3, 3]))
    torch.testing.assert_close(grid[0], grid[1])
    prompted = Words(same.vectors, same.lengths, words_of([3, 3]).prompts)
    grid = method_of().grid(method_of().score(prompted), whole([3, 3]))
    assert not torch.allclose(grid[0], grid[1])


@given(
    st.tuples(*[st.integers(1, 7)] * 3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
@hypothesis_settings(max_examples=60)
def test_dilation_is_that_of_pytorch(sizes, batch: int, channels: int, dilation: int, seed: int) -> None:
    torch.manual_seed(seed)
    layer = DepthwiseConvolution(channels, dilation).double()
    plain = layer.plain
    grid = torch.randn(batch, *sizes, channels, dtype=torch.float64)
    expected = nn.functional.conv3d(
        grid.movedim(4, 1), plain.weight, plain.bias, padding=dilation, dilation=dilation, groups=channels
    )
    torch.testing.assert_close(layer(grid), expected.movedim(1, 4))
    other = grid.movedim(4, 1).contiguous().movedim(1, 4)  # laid out as a convolution leaves it
    torch.testing.assert_close(layer(other), expected.movedim(1, 4))


def test_convolutions_keep_the_three_directions_apart() -> None:
    """A kernel that looks one step ahead in one direction alone moves the grid by the dilation."""
    grid = torch.randn(1, 5, 4, 3, 2)
    for direction, dilation in itertools.product(range(3), (1, 2, 3)):
        layer = DepthwiseConvolution(2, dilation)
        with torch.no_grad():
            layer.plain.weight.zero_()
            layer.plain.bias.zero_()
            ahead = [1, 1, 1]
            ahead[direction] = 2
            layer.plain.weight[(slice(None), 0, *ahead)] = 1.0
        size = grid.shape[1 + direction]
        kept = max(0, size - dilation)
        moved = layer(grid)
        torch.testing.assert_close(
            moved.narrow(1 + direction, 0, kept), grid.narrow(1 + direction, size - kept, kept)
        )
        assert (moved.narrow(1 + direction, kept, size - kept) == 0).all()


@torch.no_grad()
def test_distances_are_in_buckets_of_powers_of_two_with_their_sign() -> None:
    places = PlaceEmbedding(2, 3)
    assert places.distances.num_embeddings == 21
    far = places(0, 3, 0, 1100)
    assert far.shape == (3, 1100, 5)
    back = places(0, 1100, 0, 2)
    for i, j in itertools.product(
        range(3), [*range(70), 255, 256, 257, 511, 512, 513, 514, 1023, 1024, 1099]
    ):
        assert torch.equal(far[i, j], slow_place(places, i, j))
        if i < 2:
            assert torch.equal(back[j, i], slow_place(places, j, i))
    part = places(5, 9, 2, 20)
    assert torch.equal(part, places(0, 20, 0, 20)[5:9, 2:])
    buckets = [slow_bucket(distance) - 10 for distance in (0, 1, 2, 3, 4, 7, 8, 511, 512, 5000, -1, -3, -600)]
    assert buckets == [0, 1, 2, 2, 3, 3, 4, 9, 10, 10, -1, -2, -10]


def test_without_places_there_is_nothing_to_embed() -> None:
    """The ablation without region embedding, and no warning of empty weights either."""
    torch.manual_seed(0)
    settings = BoundaryOffsetSettings(size=4, region_size=0, convolutions=0, max_offset=1, dropout=0)
    method = BoundaryOffset(settings, BoundaryOffsetPredict(), WIDTH, TYPES).double()
    words = words_of([4, 2])
    grid = method.grid(method.score(words), whole([4, 2]))
    for of_sentence, expected in zip(grid, slow_grids(method, words), strict=True):
        torch.testing.assert_close(of_sentence[: len(expected), : len(expected)], expected)


@torch.no_grad()
def test_conditional_norm_starts_as_layer_norm() -> None:
    settings = BoundaryOffsetSettings(size=4, condition_types=True)
    method = BoundaryOffset(settings, BoundaryOffsetPredict(), WIDTH, TYPES)
    words = words_of([5])
    scores = method.score(Words(words.vectors.float(), words.lengths, words.prompts.float()))
    assert (scores.gain == 1).all()
    assert (scores.shift == 0).all()
    expected = nn.functional.layer_norm(words.vectors.float(), (WIDTH,))
    torch.testing.assert_close(scores.normed, expected, atol=1e-4, rtol=1e-4)
    assert (method.second.norm.gain.weight == 0).all()
    assert (method.b == 0).all()


def test_dropout_is_for_training_alone() -> None:
    method = method_of(dropout=0.5)
    words = words_of([5])

    def grid() -> Tensor:
        return method.grid(method.score(words), whole([5]))

    assert torch.equal(grid(), grid())
    method.train()
    assert not torch.equal(grid(), grid())


# Blocks


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 2000), st.sampled_from([0, 1, 3, 6])
)
def test_blocks_have_every_row_of_every_sentence_once(lengths: list[int], pairs: int, reach: int) -> None:
    rows = []
    for sentences, first, behind, length in boundary_offset._blocks(lengths, pairs, reach):
        assert length == max(lengths[index] for index in sentences)
        assert 0 <= first < behind <= length
        rows += [(index, row) for index in sentences for row in range(first, behind) if row < lengths[index]]
        if (first, behind) == (0, length) and len(sentences) > 1:
            assert len(sentences) * length**2 <= pairs
        else:
            assert len(sentences) == 1
        if behind - first > 1 and (first, behind) != (0, length):
            assert (behind - first + 2 * reach) * length <= pairs
    assert sorted(rows) == [(index, row) for index, n in enumerate(lengths) for row in range(n)]


def test_one_block_where_there_is_enough_memory() -> None:
    [block] = method_of().blocks(torch.tensor([3, 7, 1]))
    assert (sorted(block.sentences), block.first, block.behind, block.length) == ([0, 1, 2], 0, 7, 7)


def loss_of(method: BoundaryOffset, words: Words, batch: list[set[Key]]) -> Tensor:
    terms = method.loss(method.score(words), gold_of(batch))
    assert list(terms) == ["offset_loss"]
    return terms["offset_loss"]


def gradients_of(method: BoundaryOffset, loss: Tensor) -> dict[str, Tensor]:
    method.zero_grad()
    loss.backward()
    assert all(parameter.grad is not None for parameter in method.parameters())
    gradients = {name: parameter.grad.clone() for name, parameter in method.named_parameters()}
    return {"loss": loss.detach()} | gradients


LENGTHS = [5, 1, 9, 3]
BATCH: list[set[Key]] = [
    {(0, 3, 0), (1, 3, 0), (1, 3, 2), (4, 5, 1)},
    {(0, 1, 1)},
    {(2, 8, 0), (2, 6, 0), (0, 9, 2), (8, 9, 2)},
    set(),
]
BUDGETS = {"rows": 1, "some-rows": 10_000, "groups": 30_000}
EVERYTHING = {"condition_types": True, "distance_size": 2, "label_smoothing": 0.1}


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS.keys())
@pytest.mark.parametrize("convolutions", [0, 1, 3])
def test_blocks_change_neither_loss_nor_gradients(monkeypatch, convolutions: int, budget: int) -> None:
    method = method_of(convolutions=convolutions, **EVERYTHING)
    words = words_of(LENGTHS)
    expected = gradients_of(method, loss_of(method, words, BATCH))
    with torch.no_grad():
        told = loss_of(method, words, BATCH)
    monkeypatch.setattr(boundary_offset, "_BUDGET", budget)
    assert len(method.blocks(words.lengths)) > 1
    found = gradients_of(method, loss_of(method, words, BATCH))
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
    with torch.no_grad():
        torch.testing.assert_close(loss_of(method, words, BATCH), told)


def test_what_is_computed_again_for_gradients_drops_out_the_same(monkeypatch) -> None:
    method = method_of(convolutions=1, dropout=0.5).train()
    words = words_of(LENGTHS)
    monkeypatch.setattr(boundary_offset, "_BUDGET", 10_000)
    torch.manual_seed(1)
    found = gradients_of(method, loss_of(method, words, BATCH))
    monkeypatch.setattr(boundary_offset, "checkpoint", lambda part, block, **_: part(block))
    torch.manual_seed(1)
    expected = gradients_of(method, loss_of(method, words, BATCH))
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)


def as_picture(cells: Cells, labels: Labels) -> tuple[Picture, dict]:
    columns = (cells.sentence, cells.type, cells.start, cells.last)
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(keys) == len(set(keys))
    names = [labels.names[label] for label in cells.label]
    return dict(zip(keys, names, strict=True)), dict(zip(keys, cells.probability.tolist(), strict=True))


@torch.no_grad()
def slow_picture(method: BoundaryOffset, words: Words) -> tuple[Picture, dict]:
    """The best label of each cell of the upper triangle, and its probability."""
    picture, probabilities = {}, {}
    for index, grid in enumerate(slow_grids(method, words)):
        for i, j, type_ in itertools.product(range(len(grid)), range(len(grid)), range(len(method.types))):
            scores = grid[i, j, type_].tolist()
            best = max(range(len(scores)), key=scores.__getitem__)
            if i <= j and best != OUT_OF_RANGE:
                total = sum(math.exp(score - scores[best]) for score in scores)
                picture[index, type_, i, j] = method.labels.names[best]
                probabilities[index, type_, i, j] = 1 / total
    return picture, probabilities


@pytest.mark.parametrize("convolutions", range(4))
@torch.no_grad()
def test_cells_and_candidates_equal_the_obvious_loop(monkeypatch, convolutions: int) -> None:
    method = method_of(convolutions=convolutions)
    words = words_of(LENGTHS)
    expected = slow_picture(method, words)
    assert len(expected[0]) > 50
    length = max(LENGTHS)
    for budget in (10**9, *BUDGETS.values()):
        monkeypatch.setattr(boundary_offset, "_BUDGET", budget)
        picture, probabilities = as_picture(method.cells(method.score(words)), method.labels)
        assert picture == expected[0]
        assert probabilities == pytest.approx(expected[1], abs=1e-4)  # ours are in single precision
    for mode in ("centre", "all", "rules"):
        method.predict = BoundaryOffsetPredict(mode=mode, select="keep-all")
        candidates = method.select(method.candidates(method.score(words)))
        columns = (candidates.start, candidates.end, candidates.type)
        keys = zip(*(column.tolist() for column in columns), strict=True)
        found = dict(zip(keys, candidates.confidence.tolist(), strict=True))
        slow = slow_decode(*expected, LENGTHS, method.labels, 1, mode)
        in_batch = {
            (index * length + start, index * length + end, type_): confidence
            for (index, start, end, type_), confidence in slow.items()
        }
        assert found == pytest.approx(in_batch, abs=1e-4)


def test_candidates_need_no_switched_off_gradients() -> None:
    """As those of the other methods."""
    method = method_of()
    scores = method.score(words_of([4, 2]))
    with torch.no_grad():
        expected = method.candidates(scores)
    assert method.candidates(scores).confidence.tolist() == expected.confidence.tolist()


# Loss: Eq. 7


def slow_loss(method: BoundaryOffset, words: Words, batch: list[set[Key]]) -> Tensor:
    settings = method.settings
    of_sentences, cells = [], []
    for grid, keys in zip(slow_grids(method, words), batch, strict=True):
        targets = slow_targets(keys, len(grid), settings.max_offset, settings.offsets)
        total = torch.zeros((), dtype=torch.float64)
        for (i, j, type_), name in targets.items():
            log_p = grid[i, j, type_] - grid[i, j, type_].exp().sum().log()
            label = method.labels.names.index(name)
            smooth = settings.label_smoothing
            total = total - (1 - smooth) * log_p[label] - smooth * log_p.sum() / len(log_p)
        of_sentences.append(total)
        cells.append(len(targets))
    if settings.mean_over == "batch":
        return torch.stack(of_sentences).sum() / sum(cells)
    means = [total / count for total, count in zip(of_sentences, cells, strict=True)]
    return torch.stack(means).sum() / len(means)


LOSSES: dict[str, dict] = {
    "sentence": {"convolutions": 0},
    "batch": {"convolutions": 0, "mean_over": "batch"},
    "smoothed": {"label_smoothing": 0.2, "convolutions": 0},
    "all": {
        "label_smoothing": 0.01,
        "mean_over": "batch",
        "max_offset": 2,
        "offsets": "start",
        "convolutions": 2,
        "condition_types": True,
        "distance_size": 2,
    },
    "embedding": {"type_inputs": "embedding", "max_offset": 0, "convolutions": 1},
}


@pytest.mark.parametrize("settings", LOSSES.values(), ids=LOSSES.keys())
def test_loss_and_gradients_equal_the_obvious_loop(settings: dict) -> None:
    method = method_of(**settings)
    lengths = [5, 1, 3]
    batch = [{(0, 3, 0), (1, 3, 1), (1, 3, 2), (4, 5, 0)}, set(), {(0, 3, 2), (2, 3, 2)}]
    words = words_for(method, lengths)
    fast = gradients_of(method, loss_of(method, words, batch))
    slow = gradients_of(method, slow_loss(method, words, batch))
    for name, gradient in slow.items():  # ours is in single precision
        torch.testing.assert_close(fast[name].double(), gradient, rtol=1e-4, atol=1e-5, msg=name)


def test_loss_is_the_mean_of_each_sentences_own() -> None:
    words = words_of(LENGTHS)
    each = []
    method = method_of()
    for index, length in enumerate(LENGTHS):
        one = slice(index, index + 1)
        alone = Words(words.vectors[one, :length], words.lengths[one], words.prompts[one])
        each.append(loss_of(method, alone, BATCH[one]))
    torch.testing.assert_close(loss_of(method, words, BATCH), torch.stack(each).mean())
    sizes = torch.tensor(LENGTHS) ** 2
    of_batch = loss_of(method_of(mean_over="batch"), words, BATCH)
    torch.testing.assert_close(of_batch, (torch.stack(each) * sizes).sum() / sizes.sum())


def test_a_batch_without_entities_has_a_loss_and_gradients() -> None:
    method = method_of(**EVERYTHING)
    gradients = gradients_of(method, loss_of(method, words_of([3, 1]), [set(), set()]))
    assert gradients["loss"] > 0
    assert all(gradient.isfinite().all() for gradient in gradients.values())


def test_in_half_precision_all_is_about_the_same(monkeypatch) -> None:
    method = method_of(**EVERYTHING).float()
    words = words_of(LENGTHS)
    words = Words(words.vectors.float(), words.lengths, words.prompts.float())
    expected = gradients_of(method, loss_of(method, words, BATCH))
    for budget in (10**9, 10_000):
        monkeypatch.setattr(boundary_offset, "_BUDGET", budget)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(method, words, BATCH)
            with torch.no_grad():
                assert len(method.candidates(method.score(words)))
        for name, gradient in gradients_of(method, loss).items():
            tolerance = 0.1 * float(expected[name].abs().max())
            torch.testing.assert_close(
                gradient.float(), expected[name], rtol=0.1, atol=tolerance, msg=f"{name}, {budget}"
            )


def test_the_mean_over_cells_is_in_single_precision_whatever_the_scores_are_in() -> None:
    """As the softmax is: in bfloat16, three digits would be left of a loss, and of each cell's weight."""
    method = method_of().float()
    words = words_of(LENGTHS)
    words = Words(words.vectors.float(), words.lengths, words.prompts.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss_of(method, words, BATCH).dtype == torch.float32


# Models


LEARNT = [
    Sentence(FIGURE_2.words, FIGURE_2.entities),
    Sentence(["T", "cells", "in", "the", "box"], [Entity(0, 2, "cell type"), Entity(4, 5, "protein")]),
    Sentence(["nothing", "of", "note"]),
    Sentence(["LEF-1"], [Entity(0, 1, "protein"), Entity(0, 1, "cell type")]),
]


def config_of(**settings) -> Config:
    return Config.parse(
        {
            "method": {"name": "boundary-offset", "size": 24, "dropout": 0, "max_offset": 2} | settings,
            "encoder": {
                "name": "scratch",
                "lstm": {"size": 32, "dropout": 0},
                "scratch": {"word_size": 24, "characters": "none", "word_dropout": 0},
            },
        }
    )


LEARNERS: dict[str, dict] = {
    "default": {},
    "three-convolutions": {"convolutions": 3, "max_offset": 1, "condition_types": True},
    "no-type-inputs": {"type_inputs": "embedding", "convolutions": 0, "offsets": "end"},
}


@pytest.mark.parametrize("settings", LEARNERS.values(), ids=LEARNERS.keys())
def test_a_model_learns_its_sentences_by_heart(settings: dict, tmp_path) -> None:
    torch.manual_seed(0)
    model = Model.build(config_of(**settings), LEARNT)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = model(model.collate(LEARNT))["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 < 0.5 < losses[0]
    model.eval()
    expected = [sorted(entity.key for entity in sentence.entities) for sentence in LEARNT]
    for predict in PREDICTS:
        model.method.predict = BoundaryOffsetPredict(select="keep-all", **predict)
        found = [sorted(entity.key for entity in sentence.entities) for sentence in model.predict(LEARNT)]
        assert found == expected, predict
    model.save(tmp_path)
    again = Model.load(tmp_path, ["predict.mode=all"])
    assert again.method.predict.mode == "all"
    assert [sorted(e.key for e in sentence.entities) for sentence in again.predict(LEARNT)] == expected


def test_auto_keeps_all_where_training_entities_overlap() -> None:
    nested = [Sentence(["a", "b"], [Entity(0, 2, "A"), Entity(1, 2, "A")])]
    crossing = [Sentence(["a", "b", "c"], [Entity(0, 2, "A"), Entity(1, 3, "A")])]
    flat = [Sentence(["a", "b"], [Entity(0, 1, "A"), Entity(1, 2, "B")])]
    for sentences, select in ((nested, "keep-all"), (crossing, "keep-all"), (flat, "flat")):
        assert Model.build(config_of(), sentences).method.predict.select == select
        assert BoundaryOffsetPredict(select="nested").fitted(sentences).select == "nested"


def test_types_are_prompts_of_the_encoder_unless_they_are_an_embedding() -> None:
    prompted = Model.build(config_of(), LEARNT)
    assert len(prompted.encoder.prompts) == 2
    assert "type_vectors" not in dict(prompted.method.named_parameters())
    embedded = Model.build(config_of(type_inputs="embedding"), LEARNT)
    assert embedded.encoder.prompts is None
    assert embedded.method.type_vectors.shape == (2, 32)
    for model, of in ((prompted, prompted.encoder.prompts), (embedded, embedded.method.type_vectors)):
        model(model.collate(LEARNT))["loss"].backward()
        assert of.grad.abs().sum() > 0


def test_every_weight_is_there_for_something() -> None:
    """None of those of an embedding that is not used, and all others get a gradient."""
    for settings in NETWORKS.values():
        method = method_of(**settings)
        gradients = gradients_of(method, loss_of(method, words_for(method, LENGTHS), BATCH))
        assert all(gradient.any() for gradient in gradients.values() if gradient.numel())


def test_weights_have_the_papers_shapes() -> None:
    settings = BoundaryOffsetSettings(max_offset=3, size=7, convolutions=3)
    method = BoundaryOffset(settings, BoundaryOffsetPredict(), WIDTH, TYPES)
    assert method.U.shape == (14, 7, 7)
    assert method.W.shape == (14, 14)
    assert method.b.shape == (14,)
    assert [layer.plain.weight.shape for layer in method.convolutions.layers] == [(14, 1, 3, 3, 3)] * 3
    assert method.places.regions.weight.shape == (2, 20)
    assert method_of(convolutions=0).convolutions is None
    assert method_of().second is None


def test_settings_of_the_paper_and_what_they_may_be() -> None:
    config = Config.parse({"method": {"name": "boundary-offset"}})
    assert (config.encoder.lstm.size, config.encoder.lstm.dropout, config.training.batch_size) == (
        256,
        0.5,
        8,
    )
    method, predict = config.method, config.predict
    assert isinstance(method, BoundaryOffsetSettings)
    assert isinstance(predict, BoundaryOffsetPredict)
    assert (method.size, method.region_size, method.offsets, method.type_inputs) == (
        150,
        20,
        "both",
        "prompts",
    )
    assert (predict.mode, predict.votes, predict.nearest, predict.order) == ("rules", None, True, True)
    for key, value in (("max_offset", -1), ("convolutions", 4), ("offsets", "none"), ("label_smoothing", 1)):
        with pytest.raises(UsageError, match=f"method.{key}"):
            Config.parse({"method": {"name": "boundary-offset", key: value}})
    for key, value in (("mode", "best"), ("votes", 0)):
        with pytest.raises(UsageError, match=f"predict.{key}"):
            Config.parse({"method": {"name": "boundary-offset"}, "predict": {key: value}})


def test_scores_are_small_however_large_the_grid_is() -> None:
    """No part of what `score` gives grows with the square of the sentence."""
    scores = method_of(condition_types=True).score(words_of([40]))
    assert isinstance(scores, OffsetScores)
    parts = (scores.normed, scores.gain, scores.shift, scores.types, scores.type_bias, scores.second)
    assert all(part.numel() <= 40 * 100 for part in parts)
