"""Spans as numbers and back: each span is restored, and any numbers are a span."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fencepost.methods.diffusion.process import decode_spans, encode_spans
from fencepost.methods.diffusion.settings import DiffusionSettings
from tests.methods.diffusion.cases import Ends, settings_of
from tests.methods.diffusion.slow import slow_numbers, slow_shares, slow_span

SCALES = [1.0, 0.1, 2.0, 3.7]

KINDS = [
    settings_of(coordinates=coordinates, scale=scale)
    for coordinates in ("left-width", "left-right")
    for scale in SCALES
]

kinds = pytest.mark.parametrize("settings", KINDS, ids=lambda kind: f"{kind.coordinates}-{kind.scale:g}")


def numbers_of(left: Tensor, right: Tensor, lengths: Tensor, settings: DiffusionSettings) -> Tensor:
    """Encode with PyTorch, as in training, and with NumPy, as in prediction; both must agree."""
    last = lengths[:, None, None] - 1
    numbers = torch.stack(encode_spans(left, right, last, settings), dim=3)
    floats = (end.numpy().astype(np.float32) for end in (left, right, last))
    of_numpy = np.stack(encode_spans(*floats, settings), axis=3)
    assert of_numpy.dtype == np.float32
    np.testing.assert_array_equal(of_numpy, numbers.numpy())
    return numbers


def spans_of(numbers: Tensor, lengths: Tensor, settings: DiffusionSettings) -> tuple[Tensor, Tensor]:
    """Decode with PyTorch, as in training, and with NumPy, as in prediction; both must agree."""
    last = lengths[:, None, None] - 1
    spans = decode_spans(numbers, last, settings)
    of_numpy = decode_spans(numbers.numpy(), last.numpy().astype(numbers.numpy().dtype), settings)
    for one, other in zip(of_numpy, spans, strict=True):
        assert one.dtype == numbers.numpy().dtype
        np.testing.assert_array_equal(one, other.numpy())
    return spans[0].long(), spans[1].long()


def all_spans(length: int) -> tuple[Tensor, Tensor]:
    left, right = torch.triu_indices(length, length)
    return left[None, None], right[None, None]


def assert_back_again(left: Tensor, right: Tensor, lengths: Tensor, settings: DiffusionSettings) -> None:
    """Assert that numbers from -scale to scale, in single and double precision, restore the spans."""
    numbers = numbers_of(left, right, lengths, settings)
    assert numbers.shape == (*left.shape, 2)
    assert numbers.abs().max() <= settings.scale
    for precise in (numbers, numbers.double()):
        first, last = spans_of(precise, lengths, settings)
        assert torch.equal(first, left)
        assert torch.equal(last, right)


@kinds
def test_every_span_is_restored(settings: DiffusionSettings) -> None:
    for length in [*range(1, 100), 128, 129, 200, 257, 301, 400]:
        assert_back_again(*all_spans(length), torch.tensor([length]), settings)


@st.composite
def batches_of_spans(draw: st.DrawFn) -> tuple[list[int], list[list[list[Ends]]]]:
    """Draw sentences of mixed lengths with equal numbers of draws and spans."""
    draws, spans = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(1, 8) | st.integers(1, 30_000), min_size=1, max_size=4))

    def ends_in(length: int) -> st.SearchStrategy[Ends]:
        word = st.integers(0, length - 1)
        return st.tuples(word, word).map(lambda pair: (min(pair), max(pair)))

    of_sentence = [
        draw(
            st.lists(
                st.lists(ends_in(length), min_size=spans, max_size=spans), min_size=draws, max_size=draws
            )
        )
        for length in lengths
    ]
    return lengths, of_sentence


@given(batches_of_spans(), st.sampled_from(["left-width", "left-right"]), st.floats(0.05, 50))
def test_spans_of_mixed_lengths_are_restored(example, coordinates: str, scale: float) -> None:
    lengths, batch = example
    settings = settings_of(coordinates=coordinates, scale=scale)
    left, right = torch.tensor(batch).unbind(dim=3)
    assert_back_again(left, right, torch.tensor(lengths), settings)
    numbers = numbers_of(left, right, torch.tensor(lengths), settings)
    for index, of_sentence in enumerate(batch):
        for draw, spans in enumerate(of_sentence):
            expected = [slow_numbers(span, lengths[index], settings) for span in spans]
            torch.testing.assert_close(
                numbers[index, draw], torch.tensor(expected), rtol=0, atol=1e-6 * scale
            )


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 10), {"left-width": (-1, 1), "left-right": (-1, 1)}),
        ((0, 0), {"left-width": (-1, -1), "left-right": (-1, -1)}),
        ((10, 10), {"left-width": (1, -1), "left-right": (1, 1)}),
        ((5, 10), {"left-width": (0, 0), "left-right": (0, 1)}),
        ((2, 3), {"left-width": (-0.6, -0.8), "left-right": (-0.6, -0.4)}),
    ],
)
def test_numbers_equal_the_values_by_hand(span: Ends, expected: dict[str, tuple[float, float]]) -> None:
    """The batch has a sentence of eleven words and one of a single word, whose span is at the lower end."""
    left, right = torch.tensor([[[span[0]]], [[0]]]), torch.tensor([[[span[1]]], [[0]]])
    for settings in KINDS:
        numbers = numbers_of(left, right, torch.tensor([11, 1]), settings)
        one = torch.tensor([expected[settings.coordinates], (-1.0, -1.0)])
        torch.testing.assert_close(numbers[:, 0, 0], settings.scale * one, rtol=1e-5, atol=1e-6)


def decoded(pairs: list[tuple[float, float]], length: int, settings: DiffusionSettings) -> list[Ends]:
    """Decode pairs in a batch with a sentence of another length and with another draw."""
    numbers = torch.tensor([[[(0.1, 0.1)] * len(pairs), pairs], [[(-0.1, 0.2)] * len(pairs)] * 2])
    first, last = spans_of(numbers, torch.tensor([length, 3]), settings)
    assert first.dtype == last.dtype == torch.long
    return list(zip(first[0, 1].tolist(), last[0, 1].tolist(), strict=True))


any_number = st.floats(width=32, allow_nan=False) | st.floats(-4, 4, width=32)


@given(
    st.lists(st.tuples(any_number, any_number), min_size=1, max_size=20),
    st.integers(1, 12) | st.integers(1, 30_000),
    st.sampled_from(KINDS),
)
def test_any_numbers_decode_to_a_valid_span(
    pairs: list[tuple[float, float]], length: int, settings: DiffusionSettings
) -> None:
    """Even infinite ones. The span equals that of the loop, unless it depends on the last digit."""
    for pair, (first, last) in zip(pairs, decoded(pairs, length, settings), strict=True):
        assert 0 <= first <= last < length
        shares = [share * (length - 1) for share in slow_shares(pair, settings)]
        if all(abs(share % 1 - 0.5) > 1e-6 * length + 1e-5 for share in shares):
            assert (first, last) == slow_span(pair, length, settings)


def test_spans_equal_the_values_by_hand() -> None:
    """A sentence of eleven words: the nearest word counts, and values outside are at the border."""
    width, right = (settings_of(coordinates=name, scale=2.0) for name in ("left-width", "left-right"))
    assert decoded([(-2, -2), (-2, 2), (2, 2), (0, 0), (1, 1)], 11, width) == [
        (0, 0),
        (0, 10),
        (10, 10),
        (5, 10),
        (8, 10),  # of 7.5, half to even; seven and a half words more would be outside
    ]
    assert decoded([(-0.9, -1.7), (-0.9, -1.5), (-9, -1.5), (-0.9, -9)], 11, width) == [
        (3, 4),  # 2.75 and 3.5
        (3, 4),  # and 4.0
        (0, 1),
        (3, 3),
    ]
    assert decoded([(-0.9, -0.3), (-0.3, -0.9), (9, -9), (9, 9)], 11, right) == [
        (3, 4),
        (3, 4),  # in the wrong order
        (0, 10),
        (10, 10),
    ]
    for settings in (width, right):
        assert decoded([(0.3, 1.9), (-math.inf, math.inf), (7, -7)], 1, settings) == [(0, 0)] * 3


@kinds
def test_width_is_added_before_rounding(settings: DiffusionSettings) -> None:
    """A grid of numbers between words: each end is at its nearest word."""
    length = 8
    grid = [(-1.2 + 0.0137 * step) * settings.scale for step in range(175)]
    pairs = list(itertools.product(grid[::5], grid[::3]))
    expected = [slow_span(pair, length, settings) for pair in pairs]
    assert decoded(pairs, length, settings) == expected
    assert len(set(expected)) == length * (length + 1) / 2  # all spans occur
