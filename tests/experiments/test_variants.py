"""Shares of training data, and noise at its boundaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data import read
from fencepost.data.entity import Entity, Sentence
from fencepost.experiments.variants import add_boundary_noise, sample_share
from tests.strategies import entities

SAMPLE = list(read("sample:train"))
seeds = st.integers(0, 2**32 - 1)
shares = st.floats(0, 1, exclude_min=True)
some_sentences = st.integers(0, 8).flatmap(
    lambda length: entities(length).map(lambda spans: [Sentence(["a"] * length, spans)] * 2)
)


@given(st.integers(0, 200), shares, seeds)
def test_share_is_drawn_by_the_seed_in_corpus_order(count, share, seed):
    sentences = [Sentence([str(number)]) for number in range(count)]
    indices = np.random.default_rng(seed).permutation(count)[: max(1, round(share * count))]
    assert [int(one.words[0]) for one in sample_share(sentences, share, seed)] == sorted(indices)


@given(shares, shares, seeds)
def test_smaller_share_is_part_of_a_larger_one(one, other, seed):
    small, large = (sample_share(SAMPLE[:50], share, seed) for share in sorted((one, other)))
    assert {sentence.id for sentence in small} <= {sentence.id for sentence in large}


def test_full_share_is_the_whole_corpus():
    assert sample_share(SAMPLE, 1.0, 7) == SAMPLE
    assert len(sample_share(SAMPLE, 0.125, 7)) == round(0.125 * len(SAMPLE))
    assert sample_share(SAMPLE, 0.5, 7) != sample_share(SAMPLE, 0.5, 8)


def distance(one, other):
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def moves(before, after):
    """Return the number of moved entities; each has moved by one word at one boundary.

    Old and new entities can be paired in several ways; there must be at least one.
    """
    there, here = Counter(e.key for e in before.entities), Counter(e.key for e in after.entities)
    gone, new = list((there - here).elements()), list((here - there).elements())
    assert _paired(gone, new)
    return len(gone)


def _paired(gone, new):
    if not gone:
        return not new
    first, *others = gone
    return any(
        distance(first, one) == 1 and first[2] == one[2] and _paired(others, new[:at] + new[at + 1 :])
        for at, one in enumerate(new)
    )


@given(some_sentences, st.floats(0, 1), seeds)
def test_noise_moves_one_boundary_by_one_word(sentences, probability, seed):
    noisy = add_boundary_noise(sentences, probability, seed)
    assert [one.with_entities([]) for one in noisy] == [one.with_entities([]) for one in sentences]
    for before, after in zip(sentences, noisy, strict=True):
        assert len(after.entities) == len(before.entities)
        moves(before, after)
        assert all(0 <= e.start < e.end <= len(after.words) for e in after.entities)
        assert Counter(e.type for e in after.entities) == Counter(e.type for e in before.entities)
        assert len({e.key for e in after.entities}) >= len(
            {e.key for e in before.entities}
        )  # no two have become equal


@given(some_sentences, seeds)
def test_noise_0_changes_nothing_and_noise_1_everything_possible(sentences, seed):
    assert add_boundary_noise(sentences, 0.0, seed) == sentences
    for before, after in zip(sentences, add_boundary_noise(sentences, 1.0, seed), strict=True):
        stayed = {e.key for e in before.entities} & {e.key for e in after.entities}
        keys = {e.key for e in (*before.entities, *after.entities)}
        for start, end, type_ in stayed:  # no move was possible
            steps = ((start + 1, end), (start - 1, end), (start, end + 1), (start, end - 1))
            free = [(*step, type_) for step in steps if 0 <= step[0] < step[1] <= len(before.words)]
            assert set(free) <= keys


@pytest.mark.parametrize("probability", [0.05, 0.1, 0.5, 1.0])
def test_share_of_moved_entities_is_the_probability(probability):
    noisy = add_boundary_noise(SAMPLE, probability, 3)
    moved = sum(moves(before, after) for before, after in zip(SAMPLE, noisy, strict=True))
    entities = sum(len(sentence.entities) for sentence in SAMPLE)
    deviation = (probability * (1 - probability) / entities) ** 0.5
    assert moved / entities == pytest.approx(probability, abs=4 * deviation + 0.003)  # few cannot move


def test_all_four_moves_are_equally_frequent():
    sentence = Sentence(list("abcdefgh"), [Entity(3, 5, "X")])
    noisy = add_boundary_noise([sentence] * 4000, 1.0, 1)
    counts = Counter(one.entities[0].span for one in noisy)
    assert counts.keys() == {(2, 5), (4, 5), (3, 4), (3, 6)}
    assert all(abs(count - 1000) < 120 for count in counts.values())


def test_entities_without_free_places_stay():
    alone = Sentence(["a"], [Entity(0, 1, "X")])
    assert add_boundary_noise([alone], 1.0, 1) == [alone]  # no room
    pair = Sentence(["a", "b"], [Entity(0, 1, "X")])
    assert [one.entities[0].span for one in add_boundary_noise([pair] * 9, 1.0, 1)] == [(0, 2)] * 9
    full = Sentence(["a", "b"], [Entity(0, 1, "X"), Entity(0, 2, "X"), Entity(1, 2, "X")])
    assert add_boundary_noise([full], 1.0, 1) == [full]  # all places are occupied
    other = Sentence(["a", "b"], [Entity(0, 1, "X"), Entity(0, 2, "Y"), Entity(1, 2, "Y")])
    moved = add_boundary_noise([other], 1.0, 1)[0]
    assert Entity(0, 2, "X") in moved.entities  # another type is no obstacle


def test_noise_depends_on_the_seed():
    one, again, other = (add_boundary_noise(SAMPLE, 0.3, seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_more_noise_includes_less_noise():
    def moved(probability):
        noisy = add_boundary_noise(SAMPLE, probability, 1)
        return {n for n, (a, b) in enumerate(zip(SAMPLE, noisy, strict=True)) if a != b}

    little, more = moved(0.1), moved(0.4)
    assert len(little - more) <= 2  # a place may be occupied if more have moved
    assert len(more) > 2 * len(little)
