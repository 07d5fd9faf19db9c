"""Depth-wise 3D convolution that is fast on CPUs, also with dilation."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DepthwiseConvolution(nn.Module):
    """A 3x3x3 convolution of each channel by itself, with padding that keeps the size of the grid.

    With dilation d, a cell is combined only with cells at distances that are multiples of d. So the grid can
    be split into d x d x d interleaved grids in which these cells are neighbours. A plain convolution over
    them, for which CPUs have fast code, computes the same as a dilated one, for which they have none.
    """

    def __init__(self, channels: int, dilation: int = 1) -> None:
        super().__init__()
        self.plain = nn.Conv3d(channels, channels, 3, padding=1, groups=channels)
        self.dilation = dilation

    def forward(self, grid: Tensor) -> Tensor:
        """Map `[B, I, J, K, channels]` to the same shape; channels are last to avoid copies."""
        if self.dilation == 1:
            return self._convolve(grid)
        if torch.onnx.is_in_onnx_export():  # a simpler graph, and onnxruntime is no slower
            return self._convolve(grid, self.dilation)
        d, (batch, *sizes, channels) = self.dilation, grid.shape
        padding = [n for size in reversed(sizes) for n in (0, -size % d)]
        i, j, k = (-(-size // d) for size in sizes)
        parts = nn.functional.pad(grid, (0, 0, *padding)).view(batch, i, d, j, d, k, d, channels)
        parts = parts.permute(0, 2, 4, 6, 1, 3, 5, 7).reshape(-1, i, j, k, channels)
        parts = self._convolve(parts).reshape(batch, d, d, d, i, j, k, channels)
        whole = parts.permute(0, 4, 1, 5, 2, 6, 3, 7).reshape(batch, i * d, j * d, k * d, channels)
        return whole[:, : sizes[0], : sizes[1], : sizes[2]]

    def _convolve(self, grid: Tensor, dilation: int = 1) -> Tensor:
        plain, on_cpu = self.plain, grid.device.type == "cpu"
        with torch.autocast("cpu", enabled=not on_cpu):  # in bfloat16, CPUs sometimes compute NaN
            output = nn.functional.conv3d(
                torch.movedim(grid.to(plain.weight.dtype) if on_cpu else grid, 4, 1),
                plain.weight,
                plain.bias,
                padding=dilation,
                dilation=dilation,
                groups=plain.groups,
            )
        return torch.movedim(output, 1, 4)
