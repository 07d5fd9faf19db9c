"""Section 4.1: the diffusion process: spans as numbers, the noise schedule, and a denoising step.

An `Array` is an array of NumPy or a tensor of PyTorch.
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
"""Minimum of alpha_bar; much smaller values would be 0 in single precision."""


def encode_spans(left: Array, right: Array, last: Array, settings: DiffusionSettings) -> tuple[Array, Array]:
    """Return the two numbers, from -lambda to lambda, of spans given by their first and last words.

    `last` is the index of the last word of each span's sentence. The numbers are left and right, as in the
    paper, or left and width, as in the authors' program (`coordinates`); the minimum width is one word.
    """
    second = right - left if settings.coordinates == "left-width" else right
    left, second = left / last.clip(min=1), second / last.clip(min=1)
    return settings.scale * (2 * left - 1), settings.scale * (2 * second - 1).clip(min=-1)


def decode_spans(numbers: Array, last: Array, settings: DiffusionSettings) -> tuple[Array, Array]:
    """Return the first and last words, as integral floats, of spans given by their numbers `[..., 2]`.

    They are in the sentence and in order, whatever the numbers are.
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


def compute_sampling_times(times: int, steps: int) -> list[int]:
    """Return tau: evenly spaced times from the last time down to, but without, -1, which has no noise."""
    points = np.linspace(times - 1, -1, min(steps, times) + 1)
    return [int(point) for point in points[:-1].round()]


def take_ddim_step(
    x_t: Array, x_0: Array, alpha_bar: float, next_alpha_bar: float, eta: float, fresh: Array
) -> Array:
    """Eq. 6, 7: return `x_t` at the next time, which has less noise, given the predicted `x_0`.

    With `eta` above 0, part of the remaining noise is replaced by `fresh` noise (Song et al., 2021, Eq. 12
    and 16; in the authors' program, `eta` is 1).
    """
    epsilon = (x_t - math.sqrt(alpha_bar) * x_0) / math.sqrt(1 - alpha_bar)
    variance = eta**2 * (1 - next_alpha_bar) / (1 - alpha_bar) * (1 - alpha_bar / next_alpha_bar)
    remaining = max(0.0, 1 - next_alpha_bar - variance)
    return math.sqrt(next_alpha_bar) * x_0 + math.sqrt(remaining) * epsilon + math.sqrt(variance) * fresh


def draw_noise(predict: DiffusionPredict, length: int, steps: int) -> FloatArray:
    """Return noise for a sentence of `length` words, `[steps, K, 2]`, which does not depend on its batch.

    The first spans are the same for every K. If `eta` is 0, only the first step has noise.
    """
    generator = np.random.default_rng((predict.seed, length))
    rows = steps if predict.eta else 1
    return np.stack([generator.standard_normal((predict.spans, 2), dtype=np.float32) for _ in range(rows)])
