"""Scores of boundary offsets, compared with the formulas of the paper cell by cell."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fencepost.encoder.encoder import Words
from fencepost.methods.boundary_offset.blocks import Block
from fencepost.methods.boundary_offset.convolution import DepthwiseConvolution
from fencepost.methods.boundary_offset.labels import CENTRE, OUT_OF_RANGE
from fencepost.methods.boundary_offset.layers import PlaceEmbedding
from fencepost.methods.boundary_offset.network import BoundaryOffset
from fencepost.methods.boundary_offset.settings import BoundaryOffsetSettings
from tests.methods.boundary_offset.cases import (
    NETWORKS,
    TYPES,
    WIDTH,
    method_of,
    slow_bucket,
    slow_grids,
    slow_place,
    whole,
    words_for,
    words_of,
)

networks = pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS.keys())


@networks
@torch.no_grad()
def test_scores_equal_the_formulas(settings: dict) -> None:
    """The expected scores are of each sentence alone, so padding has no effect."""
    method = method_of(**settings)
    lengths = [5, 1, 7, 3]
    words = words_for(method, lengths)
    grid = method.compute_grid(method.score(words), whole(lengths))
    assert grid.shape == (4, 7, 7, len(TYPES), len(method.labels))
    for of_sentence, expected, length in zip(grid, slow_grids(method, words), lengths, strict=True):
        torch.testing.assert_close(of_sentence[:length, :length], expected)


@pytest.mark.parametrize("convolutions", range(4))
@torch.no_grad()
def test_block_equals_that_part_of_the_grid(convolutions: int) -> None:
    method = method_of(convolutions=convolutions, condition_types=True, distance_size=2)
    assert method.reach == (0, 1, 3, 6)[convolutions]
    lengths = [9, 4, 17]
    scores = method.score(words_of(lengths))
    grid = method.compute_grid(scores, whole(lengths))
    for some, length in (([2, 0], 17), ([1, 0], 9), ([1], 4)):
        for first, stop in itertools.combinations(sorted({0, 1, 3, 4, length // 2, 8, length}), 2):
            if stop > length:
                continue
            part = method.compute_grid(scores, Block(some, first, stop, length))
            for index, of_sentence in zip(some, part, strict=True):
                inside = lengths[index]
                expected = grid[index, first : min(stop, inside), :inside]
                torch.testing.assert_close(of_sentence[: len(expected), :inside], expected)


@pytest.mark.parametrize("convolutions", range(4))
@torch.no_grad()
def test_padding_has_no_effect(convolutions: int) -> None:
    method = method_of(convolutions=convolutions)
    lengths = [3, 8, 1, 5]
    words = words_of(lengths)
    vectors = words.vectors.clone()
    vectors[~words.mask] = 1e3
    grid = method.compute_grid(method.score(words), whole(lengths))
    other = method.compute_grid(method.score(Words(vectors, words.lengths, words.prompts)), whole(lengths))
    for index, length in enumerate(lengths):
        inside = grid[index, :length, :length]
        assert torch.equal(other[index, :length, :length], inside)
        alone = Words(
            words.vectors[index : index + 1, :length],
            words.lengths[index : index + 1],
            words.prompts[index : index + 1],
        )
        torch.testing.assert_close(method.compute_grid(method.score(alone), whole([length]))[0], inside)


@pytest.mark.parametrize("convolutions", range(4))
@torch.no_grad()
def test_order_of_types_matters_only_with_convolutions(convolutions: int) -> None:
    method = method_of(convolutions=convolutions, condition_types=True)
    words = words_of([4, 5])
    order = [2, 0, 1]
    grid = method.compute_grid(method.score(words), whole([4, 5]))
    shuffled = Words(words.vectors, words.lengths, words.prompts[:, order])
    other = method.compute_grid(method.score(shuffled), whole([4, 5]))
    assert torch.allclose(other, grid[:, :, :, order]) == (convolutions == 0)


@torch.no_grad()
def test_only_prompts_make_types_depend_on_the_sentence() -> None:
    words = words_of([3, 3], types=0)
    same = Words(words.vectors[:1].expand(2, -1, -1), words.lengths)
    method = method_of(type_inputs="embedding")
    grid = method.compute_grid(method.score(same), whole([3, 3]))
    torch.testing.assert_close(grid[0], grid[1])
    prompted = Words(same.vectors, same.lengths, words_of([3, 3]).prompts)
    grid = method_of().compute_grid(method_of().score(prompted), whole([3, 3]))
    assert not torch.allclose(grid[0], grid[1])


@given(
    st.tuples(*[st.integers(1, 7)] * 3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
@hypothesis_settings(max_examples=60)
def test_dilation_equals_that_of_pytorch(sizes, batch: int, channels: int, dilation: int, seed: int) -> None:
    torch.manual_seed(seed)
    layer = DepthwiseConvolution(channels, dilation).double()
    plain = layer.plain
    grid = torch.randn(batch, *sizes, channels, dtype=torch.float64)
    expected = nn.functional.conv3d(
        grid.movedim(4, 1), plain.weight, plain.bias, padding=dilation, dilation=dilation, groups=channels
    )
    torch.testing.assert_close(layer(grid), expected.movedim(1, 4))
    other = (
        grid.movedim(4, 1).contiguous().movedim(1, 4)
    )  # with the memory layout of the result of a convolution
    torch.testing.assert_close(layer(other), expected.movedim(1, 4))


def test_convolution_moves_the_grid_only_in_its_direction() -> None:
    """A kernel with one weight, one step ahead in one direction, moves the grid by the dilation."""
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
        rest = max(0, size - dilation)
        moved = layer(grid)
        torch.testing.assert_close(
            moved.narrow(1 + direction, 0, rest), grid.narrow(1 + direction, size - rest, rest)
        )
        assert (moved.narrow(1 + direction, rest, size - rest) == 0).all()


@torch.no_grad()
def test_distances_are_in_signed_buckets_of_powers_of_two() -> None:
    places = PlaceEmbedding(2, 3)
    assert places.distances.num_embeddings == 21
    far = places(0, 3, 1100)
    assert far.shape == (3, 1100, 5)
    back = places(0, 1100, 2)
    for i, j in itertools.product(
        range(3), [*range(70), 255, 256, 257, 511, 512, 513, 514, 1023, 1024, 1099]
    ):
        assert torch.equal(far[i, j], slow_place(places, i, j))
        if i < 2:
            assert torch.equal(back[j, i], slow_place(places, j, i))
    assert torch.equal(places(5, 9, 20), places(0, 20, 20)[5:9])
    buckets = [slow_bucket(distance) - 10 for distance in (0, 1, 2, 3, 4, 7, 8, 511, 512, 5000, -1, -3, -600)]
    assert buckets == [0, 1, 2, 2, 3, 3, 4, 9, 10, 10, -1, -2, -10]


def test_scores_equal_the_formulas_without_places() -> None:
    """The ablation without region embedding works without a warning of empty weights."""
    torch.manual_seed(0)
    settings = BoundaryOffsetSettings(size=4, region_size=0, convolutions=0, max_offset=1, dropout=0)
    method = BoundaryOffset(settings, WIDTH, TYPES).double()
    words = words_of([4, 2])
    grid = method.compute_grid(method.score(words), whole([4, 2]))
    for of_sentence, expected in zip(grid, slow_grids(method, words), strict=True):
        torch.testing.assert_close(of_sentence[: len(expected), : len(expected)], expected)


@torch.no_grad()
def test_conditional_norm_starts_as_layer_norm() -> None:
    settings = BoundaryOffsetSettings(size=4, condition_types=True)
    method = BoundaryOffset(settings, WIDTH, TYPES)
    words = words_of([5])
    scores = method.score(Words(words.vectors.float(), words.lengths, words.prompts.float()))
    assert (scores.gain == 1).all()
    assert (scores.shift == 0).all()
    expected = nn.functional.layer_norm(words.vectors.float(), (WIDTH,))
    torch.testing.assert_close(scores.normed, expected, atol=1e-4, rtol=1e-4)
    assert (method.second.norm.gain.weight == 0).all()


def test_initial_probability_of_out_of_range_is_99_percent() -> None:
    for settings in (BoundaryOffsetSettings(), BoundaryOffsetSettings(max_offset=0)):
        method = BoundaryOffset(settings, WIDTH, TYPES)
        others = 1 - method.b.softmax(dim=0)[OUT_OF_RANGE].item()
        assert others == pytest.approx(0.01, rel=1e-4)
        assert method.b[CENTRE:].eq(0).all()


def test_dropout_is_only_used_in_training() -> None:
    method = method_of(dropout=0.5)
    words = words_of([5])

    def grid() -> Tensor:
        return method.compute_grid(method.score(words), whole([5]))

    assert torch.equal(grid(), grid())
    method.train()
    assert not torch.equal(grid(), grid())
