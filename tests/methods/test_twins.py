"""What is written twice, for PyTorch and for NumPy, does the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.config import Config
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import WordArrays
from fencepost.methods.decoders import DECODERS
from fencepost.methods.locate_and_label import decode as label_decoder
from fencepost.methods.locate_and_label import network as locate_and_label
from fencepost.methods.locate_and_label.decode import LocateAndLabelDecoder, pooled, softmax
from fencepost.methods.locate_and_label.network import MaximumTable, adjusted, enumerated
from fencepost.methods.networks import METHODS

torch.set_num_threads(1)

lengths_of_batches = st.lists(st.integers(1, 9) | st.integers(1, 400), min_size=1, max_size=4)
seeds = st.integers(0, 2**32 - 1)


def rows(candidates: Candidates) -> list[tuple[Any, ...]]:
    columns = (candidates.start, candidates.end, candidates.type, candidates.confidence.round(5))
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_every_method_has_a_decoder_and_its_settings() -> None:
    assert set(DECODERS) == set(METHODS)
    for name, method in METHODS.items():
        assert DECODERS[name].Predict is method.Predict
        assert Config.parse({"method": {"name": name}}).predict == DECODERS[name].Predict()


# Locate and label


def random_spans(dice: np.random.Generator, lengths: list[int], count: int) -> label_decoder.Spans:
    sentence = dice.integers(0, len(lengths), count)
    start = (dice.random(count) * np.array(lengths)[sentence]).astype(np.int64)
    room = np.array(lengths)[sentence] - start
    return label_decoder.Spans(sentence, start, start + 1 + (dice.random(count) * room).astype(np.int64))


def as_tensors(spans: label_decoder.Spans) -> locate_and_label.Spans:
    return locate_and_label.Spans(*map(torch.from_numpy, spans))


@settings(max_examples=50)
@given(lengths_of_batches, seeds, st.integers(0, 30))
def test_maxima_of_spans(lengths: list[int], seed: int, count: int) -> None:
    dice = np.random.default_rng(seed)
    vectors = dice.standard_normal((len(lengths), max(lengths), 3), dtype=np.float32)
    before = vectors.copy()
    spans = random_spans(dice, lengths, count)
    found = pooled(vectors, spans)
    assert found.shape == (count, 3)
    np.testing.assert_array_equal(vectors, before)
    of_torch = MaximumTable(torch.from_numpy(vectors)).of(as_tensors(spans))
    np.testing.assert_array_equal(found, of_torch.numpy())
    for vector, sentence, start, end in zip(found, *spans, strict=True):
        np.testing.assert_array_equal(vector, vectors[sentence, start:end].max(axis=0))


@settings(max_examples=50)
@given(lengths_of_batches, seeds, st.integers(1, 30))
def test_moves_of_boundaries(lengths: list[int], seed: int, count: int) -> None:
    dice = np.random.default_rng(seed)
    spans = random_spans(dice, lengths, count)
    moves = (dice.standard_normal((count, 2)) * dice.choice([0.4, 3, 1e6])).astype(np.float32)
    moves[::3] = np.round(moves[::3]) + np.float32(0.5)
    words = WordArrays(np.zeros((len(lengths), max(lengths), 2), dtype=np.float32), np.array(lengths))
    moved = label_decoder._moved(spans, words, {"regressor": lambda **_: [moves]})
    expected = adjusted(as_tensors(spans), torch.from_numpy(moves), torch.tensor(lengths))
    for one, other in zip(moved, expected, strict=True):
        np.testing.assert_array_equal(one, other.numpy())


@settings(max_examples=50)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.lists(st.integers(1, 14), min_size=1, max_size=4, unique=True).map(sorted),
    st.sampled_from(["all", "trained"]),
)
def test_seeds_without_a_filter(lengths: list[int], trained: list[int], which: str) -> None:
    decoder = LocateAndLabelDecoder({"lengths": trained}, ["A"])
    words = WordArrays(np.zeros((len(lengths), max(lengths), 2), dtype=np.float32), np.array(lengths))
    predict = label_decoder.LocateAndLabelPredict(lengths=which)
    spans, near = decoder._passing(words, {}, predict)
    assert near is None
    seeds_ = trained if which == "trained" else range(1, trained[-1] + 1)
    expected = enumerated(seeds_, torch.tensor(lengths))
    assert sorted(zip(*map(np.ndarray.tolist, spans), strict=True)) == sorted(
        zip(*(column.tolist() for column in expected), strict=True)
    )


@pytest.mark.parametrize("least", [0.0, 0.3, 0.5, 1.0])
def test_what_passes_the_filter(least: float) -> None:
    """Those at the threshold too; at 0 all, however sure the filter is, at 1 none that is not."""
    near = np.array([[[0.0, 5.0, -5.0, -200.0], [200.0, -0.8472979, 1.0, 1.0]]], dtype=np.float32)
    words = WordArrays(np.zeros((1, 4, 2), dtype=np.float32), np.array([4]))
    decoder = LocateAndLabelDecoder({"lengths": [1, 2]}, ["A"])
    predict = label_decoder.LocateAndLabelPredict(filter=least)
    spans, kept = decoder._passing(words, {"filter": lambda **_: [near]}, predict)
    limit = torch.logit(torch.tensor(least)).item()
    valid = [(0, start, start + 1) for start in range(4)] + [(0, start, start + 2) for start in range(3)]
    expected = [s for s in valid if near[0, s[2] - s[1] - 1, s[1]] >= np.float32(limit)]
    assert sorted(zip(*map(np.ndarray.tolist, spans), strict=True)) == sorted(expected)
    graphs = {
        "filter": lambda **_: [near],
        "classifier": lambda **inputs: [np.tile(np.float32([0, 1]), (len(inputs["pooled"]), 1))],
    }
    found = decoder.candidates(words, graphs, predict)
    assert len(found) == len(kept)
    assert found.confidence == pytest.approx(
        softmax(np.array([0.0, 1.0]))[1] / (1 + np.exp(-kept.astype(float)))
    )


def test_spans_in_blocks(monkeypatch) -> None:
    """Of many spans, some at a time; of none, none."""
    monkeypatch.setattr(label_decoder, "_SPANS_AT_ONCE", 3)
    dice = np.random.default_rng(0)
    spans = random_spans(dice, [5, 9], 8)
    blocks = spans.blocks()
    assert [len(block.start) for block in blocks] == [3, 3, 2]
    for column, parts in zip(spans, zip(*blocks, strict=True), strict=True):
        np.testing.assert_array_equal(np.concatenate(parts), column)
    assert [len(block.start) for block in random_spans(dice, [5], 0).blocks()] == [0]


# Some sentences of a batch


def test_some_sentences_are_as_long_as_the_longest_of_them() -> None:
    vectors = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    words = WordArrays(vectors, np.array([4, 1, 2]), vectors[:, :1])
    some = words.take([2, 1])
    np.testing.assert_array_equal(some.vectors, vectors[[2, 1], :2])
    np.testing.assert_array_equal(some.prompts, vectors[[2, 1], :1])
    assert some.lengths.tolist() == [2, 1]
    assert set(words.inputs()) == {"vectors", "prompts"}
    assert set(WordArrays(vectors, words.lengths).inputs()) == {"vectors"}


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12))
def test_grids_of_offsets_are_computed_in_bounded_groups(lengths: list[int]) -> None:
    decoder = DECODERS["boundary-offset"]({"max_offset": 2, "offsets": "both"}, ["A", "B"])
    numbers = 2 * len(decoder.labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fencepost.methods.boundary_offset.decode._NUMBERS_AT_ONCE", 2000 * numbers)
        groups = list(decoder._together(np.array(lengths)))
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[index] for index in group) ** 2 <= 2000
