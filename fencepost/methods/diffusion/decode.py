"""Diffusion without PyTorch: one graph reads the sentence, another denoises; the loop of steps is here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import (
    Decoder,
    FloatArray,
    GraphMismatch,
    Graphs,
    IntArray,
    PredictSettings,
    TrainedSettings,
    WordArrays,
    run_graph,
)
from fencepost.methods.locate_and_label.decode import sigmoid, softmax

_LEAST_SIGNAL = 1e-36
"""Of what is left of a signal's variance; much less would be 0 in single precision."""

_PHI = 1.5
"""The threshold of a model that was trained without development data."""

MOST_TIMES, MOST_SPANS, LARGEST_SCALE = 10_000, 4096, 1000.0
"""The largest settings: time and memory grow with the number of steps, and memory with the spans' square."""

N = TypeVar("N")


class DiffusionPredict(PredictSettings):
    """How noise becomes entities, and which of these count."""

    steps: int = Field(
        5,
        ge=1,
        le=MOST_TIMES,
        description="gamma: in how many steps the noise is taken away; at most method.times.",
    )
    spans: int = Field(
        60, ge=1, le=MOST_SPANS, description="K: with how many noisy spans it starts, whatever method.spans."
    )
    threshold: float | None = Field(
        None,
        ge=0,
        le=3,
        description="phi: the least sum of the probabilities of start, end and type; unless set, what is "
        "best on the development data, or 1.5 without.",
    )
    eta: float = Field(0.0, ge=0, le=1, description="New noise in each step: 0 is DDIM, 1 is DDPM.")
    seed: int = Field(0, ge=0, description="Of the noise.")

    def at_least(self, confidence: float) -> Self | None:
        return self.model_copy(update={"threshold": 3 * confidence}) if self.threshold is None else None

    def selected(self, candidates: Candidates) -> Candidates:
        """Of those that do not clash with better ones, the ones whose probabilities reach the threshold."""
        threshold = _PHI if self.threshold is None else self.threshold
        selected = super().selected(candidates)
        return selected.take(3 * selected.confidence >= threshold)


class DiffusionTrained(TrainedSettings):
    """The noise."""

    times: int = Field(ge=2, le=MOST_TIMES)
    schedule: Literal["cosine", "linear"]
    scale: float = Field(gt=0, le=LARGEST_SCALE)
    coordinates: Literal["left-width", "left-right"]


class DiffusionDecoder(Decoder):
    """The graph `read` makes of words what all steps need of them; `step` denoises spans once."""

    Predict = DiffusionPredict
    Trained = DiffusionTrained

    def __init__(self, method: Mapping[str, Any], types: Sequence[str]) -> None:
        super().__init__(method, types)
        self.kept = signal_kept(self.method.schedule, self.method.times).tolist()

    def candidates(self, words: WordArrays, graphs: Graphs, predict: DiffusionPredict) -> Candidates:
        """Section 4.3: from noise to spans, in a few steps."""
        if "read" not in graphs:
            raise GraphMismatch("the graph read is missing")
        context = graphs["read"](vectors=words.vectors, lengths=words.lengths)
        named = {f"context_{number}": part for number, part in enumerate(context)}
        scale, lengths = self.method.scale, words.lengths
        times = sampling_times(self.method.times, predict.steps)
        noise = np.stack([sentence_noise(predict, length, len(times)) for length in lengths.tolist()])
        noisy = noise[:, 0]  # [B, K, 2]
        for step, time in enumerate(times, start=1):
            left, right = self._spans_of(noisy, lengths)
            at = np.full(len(lengths), time)
            shape = (len(lengths), predict.spans)
            types, boundaries = run_graph(
                graphs,
                "step",
                {"left": left, "right": right, "time": at, **named},
                ("f", (*shape, 1 + len(self.types))),
                ("f", (2, *shape, words.vectors.shape[1])),
            )
            if step < len(times):
                pointed_at = boundaries.argmax(axis=3)
                clean = self._numbers_of(pointed_at[0], pointed_at[1], lengths).clip(-scale, scale)
                fresh = noise[:, step] if predict.eta else np.zeros_like(noisy)
                kept, next_kept = self.kept[time], self.kept[times[step]]
                noisy = ddim_step(noisy, clean, kept, next_kept, predict.eta, fresh)
        return _candidates(types, boundaries)

    def _numbers_of(self, left: IntArray, right: IntArray, lengths: IntArray) -> FloatArray:
        second = right - left if self.method.coordinates == "left-width" else right
        longest = np.maximum(lengths - 1, 1).astype(np.float32)[:, None, None]
        numbers = np.stack((left, second), axis=2).astype(np.float32) / longest
        result: FloatArray = self.method.scale * (2 * numbers - 1)
        return result

    def _spans_of(self, numbers: FloatArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
        left, second = np.moveaxis((numbers / self.method.scale).clip(-1, 1) / 2 + np.float32(0.5), 2, 0)
        right = np.minimum(left + second, 1) if self.method.coordinates == "left-width" else second
        last = (lengths - 1).astype(np.float32)[:, None]
        first_word, last_word = (np.round(last * side).astype(np.int64) for side in (left, right))
        return np.minimum(first_word, last_word), np.maximum(first_word, last_word)


def _candidates(types: FloatArray, boundaries: FloatArray) -> Candidates:
    """The spans that have a type; of several with the same boundaries, the one surest of its type."""
    probability = softmax(types)  # [B, K, C + 1]
    class_, of_type = probability.argmax(axis=2), probability.max(axis=2)
    left, right = boundaries.argmax(axis=3)  # [B, K]
    of_left, of_right = sigmoid(boundaries.max(axis=3))
    at = np.nonzero((class_ > 0) & (left <= right))
    columns = (of_type, class_, left, right, (of_type + of_left + of_right) / 3)
    of_type, class_, left, right, confidence = (column[at] for column in columns)
    length = boundaries.shape[3]
    key = (at[0] * length + left) * length + right
    order = np.lexsort((-of_type, key))
    order = order[np.diff(key[order], prepend=-1) != 0]
    offset = at[0][order] * length
    scores = confidence[order].astype(np.float64).clip(0, 1)
    return Candidates(offset + left[order], offset + right[order] + 1, class_[order] - 1, scores)


def signal_kept(schedule: str, times: int) -> npt.NDArray[np.float64]:
    """Alpha-bar: what is left of the signal's variance at each time, `[times]`."""
    if schedule == "linear":
        added = np.linspace(1e-4, 0.02, times)
    else:
        angle = (np.arange(times + 1) / times + 0.008) / 1.008 * math.pi / 2
        wanted = np.cos(angle) ** 2
        added = (1 - wanted[1:] / wanted[:-1]).clip(max=0.999)
    return np.cumprod(1 - added).clip(min=_LEAST_SIGNAL)


def sampling_times(times: int, steps: int) -> list[int]:
    """From the last time down, in even steps; the one behind the last would be -1, which is without noise."""
    points = np.linspace(times - 1, -1, min(steps, times) + 1)
    return [int(point) for point in points[:-1].round()]


def ddim_step(noisy: N, clean: N, kept: float, next_kept: float, eta: float, fresh: N) -> N:
    """Eq. 6, 7: at a time with less noise; a part of that is fresh, if `eta` is not 0 (Song et al., 2021).

    On arrays of NumPy or tensors of PyTorch alike.
    """
    noise: Any = (noisy - math.sqrt(kept) * clean) / math.sqrt(1 - kept)  # type: ignore[operator]
    variance = eta**2 * (1 - next_kept) / (1 - kept) * (1 - kept / next_kept)
    remaining = max(0.0, 1 - next_kept - variance)
    signal: Any = math.sqrt(next_kept) * clean  # type: ignore[operator]
    result: N = signal + math.sqrt(remaining) * noise + math.sqrt(variance) * fresh  # type: ignore[operator]
    return result


def sentence_noise(predict: DiffusionPredict, length: int, steps: int) -> FloatArray:
    """For a sentence of so many words, `[steps, K, 2]`: the same wherever, and with whatever others, it is.

    The spans to start from are the first of those with a higher K. Later steps have noise if they need it.
    """
    chance = np.random.default_rng((predict.seed, length))
    made = steps if predict.eta else 1
    return np.stack([chance.standard_normal((predict.spans, 2), dtype=np.float32) for _ in range(made)])
