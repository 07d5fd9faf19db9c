"""Section 4.1: spans as numbers, how noise is added to them, and how it is removed.

What takes an `Array` computes with arrays of NumPy and tensors of PyTorch alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.methods.decoder import FloatArray
from fencepost.methods.diffusion.settings import DiffusionPredict, DiffusionSettings

Array = Any

_LEAST_ALPHA_BAR = 1e-36
"""Much less would be 0 in single precision."""


def encode_spans(left: Array, right: Array, last: Array, settings: DiffusionSettings) -> tuple[Array, Array]:
    """Return the two numbers, each from -lambda to lambda, of spans by their first and last words.

    `last` is the index of the last word of each span's sentence. The numbers are left and right as in the
    paper, or left and width as in the authors' program (`coordinates`); the least width is that of one word.
    """
    second = right - left if settings.coordinates == "left-width" else right
    left, second = left / last.clip(min=1), second / last.clip(min=1)
    return settings.scale * (2 * left - 1), settings.scale * (2 * second - 1).clip(min=-1)


def decode_spans(numbers: Array, last: Array, settings: DiffusionSettings) -> tuple[Array, Array]:
    """Return the first and last words, as whole floats, of spans by their numbers `[..., 2]`.

    Whatever the numbers, these are words of the sentence in this order.
    """
    shares = (numbers / settings.scale).clip(-1, 1) / 2 + 0.5
    left, right = shares[..., 0], shares[..., 1]
    if settings.coordinates == "left-width":
        right = (left + right).clip(max=1)
    left, right = (last * left).round(), (last * right).round()
    return left.clip(max=right), right.clip(min=left)


def compute_alpha_bar(schedule: str, times: int) -> npt.NDArray[np.float64]:
    """Eq. 3: return the share of the signal in the variance at each time, `[times]`."""
    if schedule == "linear":
        beta = np.linspace(1e-4, 0.02, times)
    else:
        angle = (np.arange(times + 1) / times + 0.008) / 1.008 * math.pi / 2
        target = np.cos(angle) ** 2
        beta = (1 - target[1:] / target[:-1]).clip(max=0.999)
    return np.cumprod(1 - beta).clip(min=_LEAST_ALPHA_BAR)


def sampling_times(times: int, steps: int) -> list[int]:
    """Return tau: evenly spaced times from the last one down; the next after them, -1, has no noise."""
    points = np.linspace(times - 1, -1, min(steps, times) + 1)
    return [int(point) for point in points[:-1].round()]


def ddim_step(
    x_t: Array, x_0: Array, alpha_bar: float, next_alpha_bar: float, eta: float, fresh: Array
) -> Array:
    """Eq. 6, 7: return `x_t` at the next time, which has less noise, given the predicted `x_0`.

    With `eta` above 0, a part of the remaining noise is replaced by `fresh` noise (Song et al., 2021, Eq. 12
    and 16; in the authors' program `eta` is 1).
    """
    epsilon = (x_t - math.sqrt(alpha_bar) * x_0) / math.sqrt(1 - alpha_bar)
    variance = eta**2 * (1 - next_alpha_bar) / (1 - alpha_bar) * (1 - alpha_bar / next_alpha_bar)
    remaining = max(0.0, 1 - next_alpha_bar - variance)
    return math.sqrt(next_alpha_bar) * x_0 + math.sqrt(remaining) * epsilon + math.sqrt(variance) * fresh


def draw_noise(predict: DiffusionPredict, length: int, steps: int) -> FloatArray:
    """Return noise for a sentence of `length` words, `[steps, K, 2]`: the same in whatever batch it is.

    The first spans are the same for every K. Without `eta`, only the first step has noise.
    """
    generator = np.random.default_rng((predict.seed, length))
    rows = steps if predict.eta else 1
    return np.stack([generator.standard_normal((predict.spans, 2), dtype=np.float32) for _ in range(rows)])
