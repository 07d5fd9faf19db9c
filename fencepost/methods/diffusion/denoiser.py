"""Section 4.2: the entity decoder (f in the paper), from noisy spans and a sentence to entities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from fencepost.encoder.encoder import Words
from fencepost.methods.diffusion.settings import DiffusionSettings

_NUMBERS_AT_ONCE = 30_000_000
"""Maximum number of values inside a pointer (spans x words x units) that are computed at once."""

_NEVER = -10_000.0
"""Logit of an impossible word; its probability is 0 in any precision."""


class Denoiser(nn.Module):
    """Network from proposals, given by their first and last words, to types and boundaries of entities."""

    def __init__(self, settings: DiffusionSettings, width: int, classes: int) -> None:
        super().__init__()
        size = settings.size
        self.of_words = nn.Linear(width, size)
        self.of_ends = nn.Linear(2 * size, size) if settings.pooling == "first+last" else None
        self.of_places = nn.Linear(2 * size, size) if settings.positions else None
        attends = settings.layers and (settings.self_attention or settings.cross_attention)
        self.of_index = nn.Linear(size, size) if settings.proposal_codes and attends else None
        self.layers: Iterable[SpanLayer] = nn.ModuleList(  # type: ignore[assignment]
            SpanLayer(settings) for _ in range(settings.layers)
        )
        self.of_time = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, size))
        self.pointers: Iterable[Pointer] = nn.ModuleList(  # type: ignore[assignment]
            Pointer(size, settings.pointer_size) for _ in ("first word", "last word")
        )
        self.classifier = nn.Sequential(
            nn.Linear(size, size), nn.GELU(), nn.Dropout(settings.dropout), nn.Linear(size, classes)
        )

    def read(self, words: Words) -> tuple[Tensor, ...]:
        """Return what all steps need of the words, the `context` of `forward`.

        These are the vectors `[B, T, d]` and the mask `[B, T]`, codes of each position as that of a first and
        of a last word `[T, d]`, the keys and values of each layer's cross-attention, and the two pointers'
        views of the words `[B, T, h]`. What the settings disable is left out.
        """
        vectors: Tensor = self.of_words(words.vectors)
        placed, places = vectors, []
        if self.of_places is not None:
            codes = encode_numbers(vectors.shape[1], vectors)
            placed = vectors + codes
            w_first, w_last = self.of_places.weight.chunk(2, dim=1)
            places = [functional.linear(codes, w_first, self.of_places.bias), codes @ w_last.T]
        sources = [part for layer in self.layers for part in layer.project_source(placed, vectors)]
        pointed = [pointer.of_word(placed) for pointer in self.pointers]
        return vectors, words.mask, *places, *sources, *pointed

    def forward(self, left: Tensor, right: Tensor, time: Tensor, *context: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of types `[B, K, C + 1]` and of boundaries `[2, B, K, T]`.

        The proposals `[B, K]` are at the times `[B]`. Codes of their positions (not in the paper) and of
        their indices (in the authors' program) are added to queries and keys.
        """
        words, mask, *sources, pointed_left, pointed_right = context
        spans = self._pool(left, right, words)  # [B, K, d]
        places = numbers = torch.zeros_like(spans[:1, :1])
        if self.of_places is not None:
            of_first, of_last, *sources = sources
            places = of_first[left] + of_last[right]
        if self.of_index is not None:
            numbers = self.of_index(encode_numbers(spans.shape[1], spans))
        codes = places + numbers
        for index, layer in enumerate(self.layers):
            spans = layer(spans, codes, sources[2 * index : 2 * index + 2], mask)
        of_time = self.of_time(encode_sinusoids(time, spans.shape[2]).to(spans.dtype))  # [B, d]
        spans = spans + places + of_time[:, None]
        types = self.classifier(spans).float()
        boundaries = [
            pointer(pointed, spans).float().masked_fill(~mask[:, None], _NEVER)
            for pointer, pointed in zip(self.pointers, (pointed_left, pointed_right), strict=True)
        ]
        return types, torch.stack(boundaries)

    def _pool(self, left: Tensor, right: Tensor, words: Tensor) -> Tensor:
        """Return a vector for each span: `[B, K, d]`."""
        if self.of_ends is not None:
            pooled: Tensor = self.of_ends(torch.cat((_gather(words, left), _gather(words, right)), dim=2))
            return pooled
        return pool_words(left, right, words)


class Verifier(nn.Module):
    """Classifier of spans: `MLP(W_f first word + W_l last word + mean of W_i words)`."""

    def __init__(self, settings: DiffusionSettings, width: int, classes: int) -> None:
        super().__init__()
        size = 2 * settings.size
        self.of_words = nn.Linear(width, 3 * size)
        self.output = nn.Sequential(
            nn.GELU(),
            nn.Dropout(settings.dropout),
            nn.Linear(size, size),
            nn.GELU(),
            nn.Dropout(settings.dropout),
            last := nn.Linear(size, classes),
        )
        with torch.no_grad():
            last.bias[0] += 3.0  # most spans are not entities

    def forward(self, vectors: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Map words `[B, T, d]` and the first and last words of spans `[B, K]` to logits `[B, K, C + 1]`."""
        first, last, inside = self.of_words(vectors).chunk(3, dim=2)
        span = _gather(first, left) + _gather(last, right) + pool_words(left, right, inside)
        logits: Tensor = self.output(span)
        return logits.float()


def _gather(words: Tensor, index: Tensor) -> Tensor:
    """Return the words `[B, K, d]` at the indices `[B, K]`."""
    return words.gather(1, index[..., None].expand(-1, -1, words.shape[2]))


def pool_words(left: Tensor, right: Tensor, words: Tensor) -> Tensor:
    """Return the mean of the words of each span: `[B, K, d]`."""
    position = torch.arange(words.shape[1], device=words.device)
    inside = (position >= left[..., None]) & (position <= right[..., None])  # [B, K, T]
    return inside.to(words.dtype) @ words / (right - left + 1)[..., None]


class SpanLayer(nn.Module):
    """Attention among the spans, attention to the words, and a feed-forward layer."""

    def __init__(self, settings: DiffusionSettings) -> None:
        super().__init__()
        size, dropout = settings.size, settings.dropout
        self.among = Attention(size, settings.heads, dropout) if settings.self_attention else None
        self.across = Attention(size, settings.heads, dropout) if settings.cross_attention else None
        self.feed_forward = nn.Sequential(
            nn.Linear(size, settings.feed_forward),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(settings.feed_forward, size),
        )
        self.norm_among, self.norm_across, self.norm = (
            nn.LayerNorm(size) if used else nn.Identity()
            for used in (settings.self_attention, settings.cross_attention, True)
        )
        self.dropout = nn.Dropout(dropout)

    def project_source(self, placed: Tensor, words: Tensor) -> Sequence[Tensor]:
        """Return the keys and values of the cross-attention, the same in every step; empty without one."""
        if self.across is None:
            return ()
        return [part.contiguous() for part in self.across.project_source(placed, words)]

    def forward(self, spans: Tensor, codes: Tensor, source: Sequence[Tensor], mask: Tensor) -> Tensor:
        """Map `[B, K, d]` to the same shape."""
        if self.among is not None:
            values, keys = spans.view_as(spans), spans + codes  # a view, to add gradients in a fixed order
            attended = self.among(keys, self.among.project_source(keys, values))
            spans = self.norm_among(spans + self.dropout(attended))
        if self.across is not None:
            attended = self.across(spans + codes, source, mask)
            spans = self.norm_across(spans + self.dropout(attended))
        result: Tensor = self.norm(spans + self.dropout(self.feed_forward(spans)))
        return result


class Attention(nn.Module):
    """Multi-head attention: Vaswani et al., 2017, section 3.2.2."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.output = (nn.Linear(size, size) for _ in range(4))
        for linear in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(linear.weight)

    def project_source(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Project vectors `[B, S, d]` to keys `[B, heads, d / heads, S]` and values `[B, heads, S, ...]`."""
        return self._split(self.key(keys)).transpose(2, 3), self._split(self.value(values))

    def forward(self, queries: Tensor, source: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Map `[B, N, d]` to the same shape; the mask `[B, S]` is true where attention is allowed."""
        keys, values = source
        split = self._split(self.query(queries))
        scores = split / math.sqrt(split.shape[3]) @ keys  # [B, heads, N, S]
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
        weights = functional.dropout(scores.softmax(dim=3), self.dropout, self.training)
        output: Tensor = self.output((weights @ values).transpose(1, 2).flatten(2))
        return output

    def _split(self, vectors: Tensor) -> Tensor:
        return vectors.view(*vectors.shape[:2], self.heads, -1).transpose(1, 2)


class Pointer(nn.Module):
    """Logits of each word as a boundary of each span: `v' relu(W_w word + W_s span)`."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.of_word = nn.Linear(width, size)
        self.of_span = nn.Linear(width, size, bias=False)
        self.output = nn.Linear(size, 1)
        nn.init.constant_(self.output.bias, -3.0)  # most words are not the boundary

    def forward(self, pointed: Tensor, spans: Tensor) -> Tensor:
        """Map the words' views `[B, T, h]` and the spans `[B, K, d]` to logits `[B, K, T]`.

        Many spans are computed in several groups, and again for their gradients, to save memory.
        """
        views = self.of_span(spans)
        if pointed.shape[1] * views.numel() <= _NUMBERS_AT_ONCE:
            return self._compute_logits(pointed, views)
        groups = torch.split(views, max(1, _NUMBERS_AT_ONCE // pointed.numel()), dim=1)
        logits = [checkpoint(self._compute_logits, pointed, group, use_reentrant=False) for group in groups]
        return torch.cat(logits, dim=1)

    def _compute_logits(self, pointed: Tensor, views: Tensor) -> Tensor:
        logits: Tensor = self.output((pointed[:, None] + views[:, :, None]).relu_()).squeeze(3)
        return logits


def encode_numbers(count: int, like: Tensor) -> Tensor:
    """Return codes of the numbers from 0 to `count - 1`, `[count, d]`, for vectors `[..., d]`."""
    return encode_sinusoids(torch.arange(count, device=like.device), like.shape[-1]).to(like.dtype)


def encode_sinusoids(numbers: Tensor, size: int) -> Tensor:
    """Return codes of numbers, `[..., size]`: sines and cosines of wavelengths from 2 pi to 20,000 pi."""
    half = size // 2  # the size is even
    exponents = torch.arange(half, device=numbers.device) / half
    angles = numbers[..., None] * torch.exp(-math.log(10_000) * exponents)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)
