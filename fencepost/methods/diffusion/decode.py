"""Section 4.3: prediction from noise, by the graphs `read` and `step`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import (
    Decoder,
    FloatArray,
    GraphMismatch,
    Graphs,
    WordArrays,
    run_graph,
    sigmoid,
    softmax,
)
from fencepost.methods.diffusion import process
from fencepost.methods.diffusion.settings import DiffusionPredict, DiffusionSettings


class Denoised(NamedTuple):
    """What the last step predicts for each proposal."""

    types: FloatArray  # [B, K, C + 1], logits
    boundaries: FloatArray  # [2, B, K, T], logits of each word as the first, and as the last one


class DiffusionDecoder(Decoder[Denoised]):
    """The graph `read` computes what all steps need of the words; `step` denoises the proposals once."""

    def __init__(self, settings: DiffusionSettings, types: Sequence[str]) -> None:
        super().__init__(settings, types)
        self.alpha_bar: list[float] = process.compute_alpha_bar(settings.schedule, settings.times).tolist()

    def score(self, words: WordArrays, graphs: Graphs, predict: DiffusionPredict) -> Denoised:
        """Algorithm 2: denoise random spans in `predict.steps` steps."""
        if "read" not in graphs:
            raise GraphMismatch("the graph read is missing")
        context = graphs["read"](vectors=words.vectors, lengths=words.lengths)
        named = {f"context_{number}": part for number, part in enumerate(context)}
        last = (words.lengths - 1).astype(np.float32)[:, None]  # [B, 1]
        shape = (len(last), predict.spans)  # [B, K]

        def denoise(x_t: FloatArray, time: int) -> Denoised:
            """Eq. 5."""
            left, right = (word.astype(np.int64) for word in process.decode_spans(x_t, last, self.settings))
            inputs = {"left": left, "right": right, "time": np.full(len(last), time), **named}
            of_types, of_boundaries = (*shape, 1 + len(self.types)), (2, *shape, words.vectors.shape[1])
            return Denoised(*run_graph(graphs, "step", inputs, ("f", of_types), ("f", of_boundaries)))

        times = process.sampling_times(self.settings.times, predict.steps)
        noise = np.stack(
            [process.draw_noise(predict, length, len(times)) for length in words.lengths.tolist()]
        )
        x_t = noise[:, 0]  # [B, K, 2]
        for step, (time, next_time) in enumerate(pairwise(times), start=1):
            left, right = denoise(x_t, time).boundaries.argmax(axis=3).astype(np.float32)  # [B, K]
            x_0 = np.stack(process.encode_spans(left, right, last, self.settings), axis=2)
            fresh = noise[:, step] if predict.eta else 0.0
            alpha_bar, next_alpha_bar = self.alpha_bar[time], self.alpha_bar[next_time]
            x_t = process.ddim_step(x_t, x_0, alpha_bar, next_alpha_bar, predict.eta, fresh)
        return denoise(x_t, times[-1])

    def candidates(self, scores: Denoised, predict: DiffusionPredict) -> Candidates:  # noqa: ARG002
        """Return the proposals that have a type; of several with the same boundaries, the surest of its type.

        Whether they are sure enough is decided when they are selected.
        """
        probability = softmax(scores.types)  # [B, K, C + 1]
        class_, p_type = probability.argmax(axis=2), probability.max(axis=2)  # [B, K]
        left, right = scores.boundaries.argmax(axis=3)  # [B, K]
        p_left, p_right = sigmoid(scores.boundaries.max(axis=3))
        confidence = (p_type + p_left + p_right) / 3
        kept = np.nonzero((class_ > 0) & (left <= right))
        length = scores.boundaries.shape[3]
        key = (kept[0] * length + left[kept]) * length + right[kept]  # of its sentence and boundaries
        order = np.argsort(-p_type[kept], kind="stable")
        first = order[np.unique(key[order], return_index=True)[1]]
        best = kept[0][first], kept[1][first]
        start, end = best[0] * length + left[best], best[0] * length + right[best] + 1
        return Candidates(start, end, class_[best] - 1, confidence[best].astype(np.float64).clip(0, 1))
