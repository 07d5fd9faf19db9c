"""Section 4.3: prediction, which denoises random spans by the graphs `read` and `step`."""

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
    IntArray,
    WordArrays,
    run_graph,
    sigmoid,
    softmax,
)
from fencepost.methods.diffusion import process
from fencepost.methods.diffusion.settings import DiffusionPredict, DiffusionSettings


class Denoised(NamedTuple):
    """The predictions of the last step for each proposal, and the spans of all steps."""

    types: FloatArray  # [B, K, C + 1], logits
    boundaries: FloatArray  # [2, B, K, T], logits of each word as the first, and as the last one
    spans: IntArray  # [steps, 2, B, K], the first and the last words after each step
    verified: IntArray | None = None  # [3, N], sentence, first and last word of the verifier's spans
    labels: FloatArray | None = None  # [N, C + 1], the verifier's logits of these spans


class DiffusionDecoder(Decoder[Denoised]):
    """Decoder for the graphs `read`, which prepares the words for all steps, and `step`, one denoising step.

    The graph `verify`, if the model has it, classifies the denoised spans.
    """

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

        def denoise(x_t: FloatArray, time: int) -> tuple[FloatArray, FloatArray]:
            """Eq. 5: return the logits of types and boundaries at a time."""
            left, right = (word.astype(np.int64) for word in process.decode_spans(x_t, last, self.settings))
            inputs = {"left": left, "right": right, "time": np.full(len(last), time), **named}
            of_types, of_boundaries = (*shape, 1 + len(self.types)), (2, *shape, words.vectors.shape[1])
            types, boundaries = run_graph(graphs, "step", inputs, ("f", of_types), ("f", of_boundaries))
            return types, boundaries

        times = process.compute_sampling_times(self.settings.times, predict.steps)
        noise = np.stack(
            [process.draw_noise(predict, length, len(times)) for length in words.lengths.tolist()]
        )
        x_t = noise[:, 0]  # [B, K, 2]
        types, boundaries = denoise(x_t, times[0])
        spans = [boundaries.argmax(axis=3)]  # [2, B, K]
        for step, (time, next_time) in enumerate(pairwise(times), start=1):
            left, right = spans[-1].astype(np.float32)
            x_0 = np.stack(process.encode_spans(left, right, last, self.settings), axis=2)
            fresh = noise[:, step] if predict.eta else 0.0
            alpha_bar, next_alpha_bar = self.alpha_bar[time], self.alpha_bar[next_time]
            x_t = process.take_ddim_step(x_t, x_0, alpha_bar, next_alpha_bar, predict.eta, fresh)
            types, boundaries = denoise(x_t, next_time)
            spans.append(boundaries.argmax(axis=3))
        scores = Denoised(types, boundaries, np.stack(spans))
        return self._verify(scores, words, graphs) if self.settings.verifier else scores

    def _verify(self, scores: Denoised, words: WordArrays, graphs: Graphs) -> Denoised:
        """Add the verifier's logits of the spans of all steps, and of likely spans of the last step."""
        spans = np.concatenate((scores.spans, _pair_boundaries(scores.boundaries)))
        verified = list_spans(spans.clip(max=words.lengths[:, None] - 1), words.vectors.shape[1])
        sentence, left, right = verified
        batch, count = len(words.lengths), np.bincount(sentence, minlength=len(words.lengths))
        rank = np.arange(len(sentence)) - (count.cumsum() - count)[sentence]  # in its sentence
        padded = np.zeros((2, batch, count.max(initial=1)), dtype=np.int64)
        padded[:, sentence, rank] = left, right
        inputs = {"vectors": words.vectors, "left": padded[0], "right": padded[1]}
        (labels,) = run_graph(graphs, "verify", inputs, ("f", (*padded.shape[1:], 1 + len(self.types))))
        return scores._replace(verified=verified, labels=labels[sentence, rank])

    def candidates(self, scores: Denoised, predict: DiffusionPredict) -> Candidates:
        """Return the different spans, each with its most probable type.

        The confidence is the verifier's probability of the type, times the mean of 1 and the denoiser's
        probability. The latter is the product of the probabilities of type and boundaries, for the proposal
        with the highest product. Without a verifier, the confidence is this product for each proposal of the
        last step.
        """
        p_types, length = softmax(scores.types), scores.boundaries.shape[3]  # [B, K, C + 1]
        if scores.verified is not None and scores.labels is not None:
            sentence, left, right = scores.verified  # [N]
            type_ = scores.labels[:, 1:].argmax(axis=1)
            p_left = sigmoid(scores.boundaries[0][sentence, :, left])  # [N, K]
            p_right = sigmoid(scores.boundaries[1][sentence, :, right])
            product = (p_types[sentence, :, 1 + type_] * p_left * p_right).max(axis=1)
            confidence = softmax(scores.labels)[np.arange(len(type_)), 1 + type_] * (1 + product) / 2
        else:
            (left, right), type_ = scores.spans[-1], p_types[..., 1:].argmax(axis=2)  # [B, K]
            p_left, p_right = sigmoid(scores.boundaries.max(axis=3))
            product = p_types[..., 1:].max(axis=2) * p_left * p_right
            is_span = left <= right
            sentence = np.nonzero(is_span)[0]
            left, right, type_, confidence = (of[is_span] for of in (left, right, type_, product))
        probable = ~(confidence < predict.lowest_threshold())  # `Candidates` raises for NaN
        offset = sentence[probable] * length
        start, end = offset + left[probable], offset + right[probable] + 1
        return Candidates(start, end, type_[probable], confidence[probable].astype(np.float64).clip(0, 1))


def _pair_boundaries(boundaries: FloatArray) -> IntArray:
    """Return the spans from the two most probable first words to the two last words: `[4, 2, B, K]`."""
    best = boundaries.argmax(axis=3)[..., None]  # [2, B, K, 1]
    others = boundaries.copy()
    np.put_along_axis(others, best, -np.inf, axis=3)
    (left, right), (other_left, other_right) = best[..., 0], others.argmax(axis=3)
    return np.stack([(a, b) for a in (left, other_left) for b in (right, other_right)])


def list_spans(spans: IntArray, length: int) -> IntArray:
    """Return the sentence, the first and the last word of each different span, sorted: `[3, N]`.

    `spans` are `[steps, 2, B, K]`; those that end before they start are left out.
    """
    left, right = spans.swapaxes(0, 1)  # [steps, B, K]
    sentence = np.broadcast_to(np.arange(left.shape[1])[:, None], left.shape)
    key = np.unique(((sentence * length + left) * length + right)[left <= right])
    return np.stack((key // length**2, key // length % length, key % length))
