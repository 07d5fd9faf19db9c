"""Attention, compared with that of PyTorch, and codes of numbers, compared with the formula."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fencepost.methods.diffusion.denoiser import Attention, encode_sinusoids


def pair_of(size: int, heads: int) -> tuple[Attention, nn.MultiheadAttention]:
    """Return our attention and that of PyTorch with the same weights."""
    torch.manual_seed(0)
    ours = Attention(size, heads, 0.0).double()
    theirs = nn.MultiheadAttention(size, heads, batch_first=True).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(std=0.5)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in (ours.query, ours.key, ours.value)]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in (ours.query, ours.key, ours.value)]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    return ours, theirs


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_equals_that_of_pytorch(heads: int, masked: bool) -> None:
    ours, theirs = pair_of(8, heads)
    queries, keys, values = (torch.randn(3, length, 8).double() for length in (4, 6, 6))
    mask = torch.arange(6) < torch.tensor([6, 1, 4])[:, None] if masked else None
    expected, _ = theirs(queries, keys, values, key_padding_mask=None if mask is None else ~mask)
    result = ours(queries, ours.project_source(keys, values), mask)
    assert result.shape == (3, 4, 8)
    torch.testing.assert_close(result, expected)


def test_masked_vectors_have_no_effect() -> None:
    ours, _ = pair_of(8, 2)
    queries, keys, values = (torch.randn(2, length, 8).double() for length in (4, 6, 6))
    mask = torch.arange(6) < torch.tensor([3, 5])[:, None]
    expected = ours(queries, ours.project_source(keys, values), mask)
    keys[~mask], values[~mask] = 50.0, 1e6
    torch.testing.assert_close(ours(queries, ours.project_source(keys, values), mask), expected)


@torch.no_grad()
def test_dropout_is_only_used_in_training() -> None:
    attention = Attention(8, 2, 0.5)
    vectors = torch.randn(1, 20, 8)
    source = attention.project_source(vectors, vectors)
    first, second = (attention(vectors, source) for _ in range(2))
    assert not torch.equal(first, second)
    attention.eval()
    first, second = (attention(vectors, source) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("size", [2, 4, 32])
def test_codes_equal_the_formula(size: int) -> None:
    positions = torch.tensor([[0, 1, 2], [17, 500, 999]])
    codes = encode_sinusoids(positions, size)
    assert codes.shape == (2, 3, size)
    half = size // 2
    for row, numbers in zip(codes, positions.tolist(), strict=True):
        for code, number in zip(row, numbers, strict=True):
            angles = [number / 10_000 ** (index / half) for index in range(half)]
            expected = [*map(math.sin, angles), *map(math.cos, angles)] + [0.0] * (size % 2)
            torch.testing.assert_close(code, torch.tensor(expected), rtol=0, atol=2e-4)


def test_different_numbers_have_different_codes() -> None:
    codes = encode_sinusoids(torch.arange(5000), 16)
    distances = torch.cdist(codes[::7], codes)
    distances[torch.arange(len(distances)), torch.arange(0, 5000, 7)] = math.inf
    assert distances.min() > 1e-2
