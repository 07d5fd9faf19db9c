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
from fencepost.methods.diffusion import decode as diffusion_decoder
from fencepost.methods.diffusion import network as diffusion
from fencepost.methods.diffusion.decode import DiffusionDecoder
from fencepost.methods.diffusion.network import DenoisedScores, DiffusionSettings
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


# Diffusion


@given(
    lengths_of_batches, seeds, st.sampled_from(["left-width", "left-right"]), st.sampled_from([1.0, 0.1, 2.0])
)
def test_spans_as_numbers_and_back(lengths: list[int], seed: int, coordinates: str, scale: float) -> None:
    dice = np.random.default_rng(seed)
    settings_ = DiffusionSettings(coordinates=coordinates, scale=scale)
    decoder = DiffusionDecoder(settings_.model_dump(), ["A"])
    words = np.array(lengths)
    ends = np.sort((dice.random((2, len(lengths), 7)) * words[:, None]).astype(np.int64), axis=0)
    left, right = (torch.from_numpy(side)[:, None] for side in ends)
    numbers = decoder._numbers_of(*ends, words)
    assert numbers.dtype == np.float32
    theirs = diffusion.numbers_of(left, right, torch.tensor(lengths), settings_)[:, 0]
    np.testing.assert_allclose(numbers, theirs.numpy(), atol=1e-6)
    noisy = dice.standard_normal((len(lengths), 50, 2), dtype=np.float32) * np.float32(1.5 * scale)
    for given_numbers in (numbers, noisy):
        ours = decoder._spans_of(given_numbers, words)
        of_torch = diffusion.spans_of(
            torch.from_numpy(given_numbers)[:, None], torch.tensor(lengths), settings_
        )
        for one, other in zip(ours, of_torch, strict=True):
            assert one.dtype == np.int64
            np.testing.assert_array_equal(one, other[:, 0].numpy())


def both_candidates(types: np.ndarray, boundaries: np.ndarray, lengths: list[int]) -> tuple[list, list]:
    method = METHODS["diffusion"](DiffusionSettings(), diffusion.DiffusionPredict(), 4, ["A", "B"])
    noisy = torch.zeros(types.shape[:2], dtype=torch.long)[:, None]
    scores = DenoisedScores(
        torch.from_numpy(types)[:, None],
        torch.from_numpy(boundaries)[:, :, None],
        (noisy, noisy),
        torch.tensor(lengths),
    )
    return rows(diffusion_decoder._candidates(types, boundaries)), rows(method.candidates(scores))


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), seeds)
def test_candidates_of_diffusion(lengths: list[int], seed: int) -> None:
    dice = np.random.default_rng(seed)
    types = dice.standard_normal((len(lengths), 12, 3), dtype=np.float32)
    boundaries = dice.standard_normal((2, len(lengths), 12, max(lengths)), dtype=np.float32)
    boundaries[:, np.arange(max(lengths)) >= np.array(lengths)[:, None, None] + np.zeros((1, 12, 1))] = -1e4
    ours, theirs = both_candidates(types, boundaries, lengths)
    assert ours == [pytest.approx(row, abs=1e-4) for row in theirs]


def test_candidates_of_diffusion_that_is_very_sure() -> None:
    types = np.array([[[0, 9, 0]]], dtype=np.float32)
    boundaries = np.array([[[[20, 30, 0]]], [[[0, 20, 30]]]], dtype=np.float32)
    ours, theirs = both_candidates(types, boundaries, [3])
    assert [row[:3] for row in ours] == [(1, 3, 0)]
    assert [row[:3] for row in theirs] == [(1, 3, 0)]


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
