"""The labels of boundary offsets, compared with a simple loop and with a figure worked out by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fencepost.methods.boundary_offset.blocks import Block
from fencepost.methods.boundary_offset.labels import CENTRE, OUT_OF_RANGE, Labels
from fencepost.methods.boundary_offset.loss import find_cells, make_targets
from fencepost.methods.network import Gold
from tests.methods.boundary_offset.cases import (
    FIGURE_2,
    OFFSETS,
    OUT,
    TYPES,
    Key,
    gold_of,
    labels_of,
    random_batch,
    seeded,
    slow_targets,
    whole,
)
from tests.strategies import entities, nested_entities


@pytest.mark.parametrize("reach", range(5))
def test_number_of_labels_is_that_of_the_paper(reach: int) -> None:
    assert len(labels_of(reach, "both")) == 4 * reach + 2
    assert len(labels_of(reach, "start")) == len(labels_of(reach, "end")) == 2 * reach + 2
    for offsets in OFFSETS:
        assert labels_of(reach, offsets).names[OUT_OF_RANGE] == OUT
        assert labels_of(reach, offsets).names[CENTRE] == "0"


def test_labels_have_names_and_moves() -> None:
    """1S is a span that starts one word after the start of the entity, -2E ends two words before it."""
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


def fast_targets(lengths: list[int], batch: list[set[Key]], labels: Labels, block: Block) -> Tensor:
    entries = find_cells(gold_of(batch), torch.tensor(lengths), labels)
    return make_targets(entries, block, len(TYPES))


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
def test_targets_equal_a_simple_loop(reach: int, offsets: str) -> None:
    chance = seeded(reach)
    for _ in range(80):
        check_targets(*random_batch(chance), reach, offsets)


@given(st.data(), st.integers(0, 4), st.sampled_from(OFFSETS))
def test_targets_of_drawn_sentences_equal_a_simple_loop(data, reach: int, offsets: str) -> None:
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


def test_targets_of_a_block_equal_that_part_of_all_targets() -> None:
    chance = seeded(0)
    for _ in range(150):
        lengths, batch = random_batch(chance)
        labels = labels_of(chance.randint(0, 3), chance.choice(OFFSETS))
        targets = fast_targets(lengths, batch, labels, whole(lengths))
        some = chance.sample(range(len(lengths)), chance.randint(1, len(lengths)))  # in any order
        length = max(lengths[index] for index in some)
        first = chance.randrange(length)
        stop = chance.randint(first + 1, length)
        part = fast_targets(lengths, batch, labels, Block(some, first, stop, length))
        assert torch.equal(part, targets[some, first:stop, :length])


def test_duplicate_entity_counts_once() -> None:
    rows = [(0, 1, 3, 0), (0, 1, 3, 0), (0, 0, 3, 0), (0, 1, 3, 0)]
    once = fast_targets([4], [{(1, 3, 0), (0, 3, 0)}], labels_of(2), whole([4]))
    entries = find_cells(Gold.from_columns(torch.tensor(rows)), torch.tensor([4]), labels_of(2))
    assert torch.equal(make_targets(entries, whole([4]), len(TYPES)), once)
    assert len(set(map(tuple, zip(*entries[:4], strict=True)))) == len(entries.label)


@pytest.mark.parametrize("reach", [0, 2])
def test_all_targets_are_out_of_range_without_entities(reach: int) -> None:
    targets = fast_targets([3, 1], [set(), set()], labels_of(reach), whole([3, 1]))
    assert torch.equal(targets, torch.full((2, 3, 3, len(TYPES)), OUT_OF_RANGE))


def test_earlier_of_two_equally_near_entities_decides() -> None:
    """Each span lies between two entities that share its other boundary."""
    labels = labels_of(2)

    def label(keys: set[Key], i: int, j: int) -> str:
        return labels.names[int(fast_targets([6], [keys], labels, whole([6]))[0, i, j, 0])]

    assert label({(0, 2, 0), (0, 4, 0)}, 0, 2) == "1E"  # ends after (0, 2), before (0, 4)
    assert label({(0, 6, 0), (2, 6, 0)}, 1, 5) == "1S"  # starts after (0, 6), before (2, 6)
    assert label({(0, 6, 0), (3, 6, 0)}, 1, 5) == "1S"
    assert label({(0, 6, 0), (3, 6, 0)}, 2, 5) == "-1S"  # the later one is nearer
    assert label({(1, 4, 0), (2, 3, 0)}, 1, 2) == "-1E"  # (1, 4) starts before (2, 3), whose -1S it is too
    assert label({(1, 2, 0), (0, 3, 0)}, 1, 2) == "1S"  # and here (0, 3) starts before (1, 2)
    assert label({(2, 4, 0), (0, 4, 0)}, 2, 3) == "0"  # a centre, although it is near others
    assert label({(0, 3, 0)}, 1, 3) == OUT  # both boundaries moved
    assert label({(0, 3, 1)}, 0, 3) == OUT  # another type


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
def test_targets_equal_figure_2(reach: int, offsets: str, gone: str) -> None:
    """The grids were worked out by hand after Figure 2: eight words, three entities, two types.

    "HMG" (row 1, column 1) ends one word before "HMG box"; "HMG box of" (row 1, column 3) is between two
    entities, and the earlier counts. Here no label hides one that is farther or of the other boundary, so
    cells whose label (with a character of `gone`) is not available are out of range.
    """
    types = ["cell type", "protein"]
    rows = [(0, e.start, e.end, types.index(e.type)) for e in FIGURE_2.entities]
    labels = labels_of(reach, offsets)
    entries = find_cells(Gold.from_columns(torch.tensor(rows)), torch.tensor([8]), labels)
    targets = make_targets(entries, whole([8]), 2)[0]
    for type_, picture in enumerate((CELL_TYPE, PROTEIN)):
        expected = [
            ["." if set(cell) & set(gone) else cell for cell in row.split()]
            for row in picture.strip().splitlines()
        ]
        names = [[labels.names[label].replace(OUT, ".") for label in row] for row in targets[..., type_]]
        assert names == expected
