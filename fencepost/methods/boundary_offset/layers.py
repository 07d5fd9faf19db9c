"""Layers of the network: conditional layer norm, place embedding, second score, 3D convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fencepost.methods.boundary_offset.convolution import DepthwiseConvolution


class ConditionalNorm(nn.Module):
    """Eq. 1: layer norm whose gain and shift are linear in a condition; initialised as plain layer norm."""

    def __init__(self, width: int, condition_width: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Linear(condition_width, width), nn.Linear(condition_width, width)
        for layer, start in ((self.gain, 1.0), (self.shift, 0.0)):
            nn.init.zeros_(layer.weight)
            nn.init.constant_(layer.bias, start)

    def compute_factors(self, vectors: Tensor, conditions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the normalised vectors, and the gain and shift of each condition."""
        return normalise(vectors), self.gain(conditions), self.shift(conditions)


def normalise(vectors: Tensor) -> Tensor:
    return nn.functional.layer_norm(vectors, (int(vectors.shape[-1]),))  # export needs a constant


class SecondScore(nn.Module):
    """The authors' second score, W CLN(h_m | v_ij) + b: type vectors, normalised conditionally on the span.

    Gain G v + g and shift S v + s are linear in the span v. So with n_m = Norm(h_m), the score is a product
    of spans and types, and needs no vector for each pair of them:
    W_l ((G v + g) * n_m + S v + s) + b_l = ((W_l * n_m) G + W_l S) v + (W_l * n_m) g + W_l s + b_l.
    """

    def __init__(self, width: int, place_width: int, labels: int) -> None:
        super().__init__()
        self.width = width
        self.norm = ConditionalNorm(width, width + place_width)
        self.linear = nn.Linear(width, labels)

    def compute_factors(self, types: Tensor) -> Tensor:
        """Return the factors of a span's vector, its place embedding and 1: `[B, C, L, d + p + 1]`."""
        w, n = self.linear.weight, normalise(types)[:, :, None]  # [L, d], [B, C, 1, d]
        gain, shift = (
            torch.cat((layer.weight, layer.bias[:, None]), dim=1)
            for layer in (self.norm.gain, self.norm.shift)
        )
        factors = (w * n) @ gain + w @ shift
        bias = nn.functional.pad(self.linear.bias[:, None], (factors.shape[3] - 1, 0))
        return factors + bias

    def forward(self, spans: Tensor, places: Tensor, factors: Tensor) -> Tensor:
        """Map `[b, I, J, d]`, `[I, J, p]` and `[b, C, L, d + p + 1]` to `[b, I, J, C, L]`."""
        of_spans, of_places, constant = torch.split(factors, [self.width, places.shape[2], 1], dim=3)
        scores: Tensor = torch.einsum("bijd,bcld->bijcl", spans, of_spans)
        scores = scores + torch.einsum("ijp,bclp->bijcl", places, of_places)
        return scores + constant[:, None, None, ..., 0]


class PlaceEmbedding(nn.Module):
    """Embedding of a cell's place in the grid: its triangle, and the distance from start to last word."""

    FARTHEST = 10  # the last bucket of the distances 0, 1, 2-3, 4-7, ...: from 512 on

    def __init__(self, region_size: int, distance_size: int) -> None:
        super().__init__()
        self.width = region_size + distance_size
        self.regions = nn.Embedding(2, region_size)
        self.distances = nn.Embedding(2 * self.FARTHEST + 1, distance_size)

    def forward(self, top: int, bottom: int, length: int) -> Tensor:
        """Return the embeddings of the rows from `top` to `bottom`: `[bottom - top, length, width]`."""
        device = self.regions.weight.device
        distance = torch.arange(length, device=device) - torch.arange(top, bottom, device=device)[:, None]
        bucket = (distance.abs() + 0.5).log2().floor().long() + 1  # 0.5 avoids the logarithm of 0
        bucket = distance.sign() * bucket.clamp(max=self.FARTHEST) + self.FARTHEST
        return torch.cat((self.regions((distance < 0).long()), self.distances(bucket)), dim=2)


class Convolutions(nn.Module):
    """Eq. 4 and 5: 3D convolutions over the scores of neighbouring cells, added to a cell's own scores.

    Each label is convolved separately; linear layers before and after the convolutions mix the labels.
    """

    def __init__(self, labels: int, layers: int) -> None:
        super().__init__()
        self.before = nn.Linear(labels, labels)  # a 1x1x1 convolution
        dilations = range(1, layers + 1)
        self.layers = nn.ModuleList(DepthwiseConvolution(labels, dilation) for dilation in dilations)
        self.behind = nn.Linear(layers * labels, labels)
        self.reach = sum(dilations)
        """Maximum distance of the cells that affect a cell."""

    def forward(self, grid: Tensor, inside: Tensor) -> Tensor:
        """Map the scores `[b, I, J, C, L]` to the same shape; `inside` is 0 for padding, else 1."""
        outputs = []
        x = nn.functional.gelu(self.before(grid))
        for layer in self.layers:
            x = nn.functional.gelu(layer(x * inside))
            outputs.append(x)
        refined: Tensor = grid + self.behind(torch.cat(outputs, dim=4))
        return refined
