"""Prediction: seeds are filtered, moved and labelled, each step by a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.methods.candidates import Candidates, IntArray
from fencepost.methods.decoder import Decoder, FloatArray, Graphs, WordArrays, run_graph, sigmoid, softmax
from fencepost.methods.locate_and_label.settings import LocateAndLabelPredict, LocateAndLabelSettings
from fencepost.methods.locate_and_label.spans import MaximumTable, Spans, enumerate_spans, move_spans

Inputs = dict[str, npt.NDArray[Any]]
GetWords = Callable[[Spans, WordArrays], Inputs]

_SPANS_AT_ONCE = 8192
"""Maximum number of spans whose vectors are computed at once."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """The seeds of a batch that pass the filter, and the outputs of the graphs for each."""

    seeds: Spans  # [N]
    near: FloatArray  # [N], the filter's logit, 0 without a filter
    offsets: FloatArray  # [N, 2], t of start and end, in words
    moved: Spans  # [N], the seeds with these offsets applied
    labels: FloatArray  # [N, C + 1], the classifier's logits
    lengths: IntArray  # [B]


class LocateAndLabelDecoder(Decoder[Proposals]):
    """Decoder for the graphs `filter` and `regressor`, if the model has them, and `classifier`."""

    settings: LocateAndLabelSettings

    def score(self, words: WordArrays, graphs: Graphs, predict: LocateAndLabelPredict) -> Proposals:
        """Locate (Eq. 1-7), then label (Eq. 8-10)."""
        table = MaximumTable(words.vectors, np)

        def run(name: str, spans: Spans, get_words: GetWords, outputs: int) -> FloatArray:
            parts = []
            for block in spans.split(_SPANS_AT_ONCE):
                inputs = {"pooled": table.pool(block), **get_words(block, words)}
                if words.prompts is not None:
                    inputs["sentence"] = words.prompts[block.sentence, 0]
                parts += run_graph(graphs, name, inputs, ("f", (len(block.start), outputs)))
            return np.concatenate(parts)

        seeds, near = self._filter(words, graphs, predict)
        offsets = np.zeros((len(near), 2), dtype=np.float32)
        if self.settings.regressor:
            offsets = run("regressor", seeds, _get_outer_words, 2)
        moved = move_spans(seeds, offsets, words.lengths)
        labels = run("classifier", moved, _get_inner_words, 1 + len(self.types))
        return Proposals(seeds, near, offsets, moved, labels, words.lengths)

    def seed_lengths(self, predict: LocateAndLabelPredict) -> Sequence[int]:
        """Return the lengths of the seeds, sorted."""
        trained = self.settings.lengths
        return trained if predict.lengths == "trained" else range(1, trained[-1] + 1)

    def _filter(
        self, words: WordArrays, graphs: Graphs, predict: LocateAndLabelPredict
    ) -> tuple[Spans, FloatArray]:
        """Return the seeds that pass the filter, and their logits; without a filter, all seeds."""
        seeds = enumerate_spans(self.seed_lengths(predict), words.lengths)
        if not self.settings.filter:
            return seeds, np.zeros(len(seeds.start), dtype=np.float32)
        shape = (len(words.lengths), self.settings.lengths[-1], words.vectors.shape[1])
        (grid,) = run_graph(graphs, "filter", words.inputs(), ("f", shape))  # by length and start
        near = grid[seeds.sentence, seeds.end - seeds.start - 1, seeds.start]
        with np.errstate(divide="ignore"):
            threshold = np.log(np.float32(predict.filter)) - np.log1p(np.float32(-predict.filter))
        passing = near >= threshold
        return seeds.take(passing), near[passing]

    def candidates(self, scores: Proposals, predict: LocateAndLabelPredict) -> Candidates:
        """Return the spans with a type that is probable enough, even if "no entity" is more probable.

        Unlike in the paper, the type's probability is multiplied by the filter's, unless `predict.confidence`
        is `class`.
        """
        type_, confidence = self.label(scores, predict)
        probable = ~(confidence < predict.lowest_threshold())  # `Candidates` raises for NaN
        sentence, start, end = scores.moved.take(probable)
        offset = sentence * scores.lengths.max()
        clipped = confidence[probable].astype(np.float64).clip(0, 1)
        return Candidates(offset + start, offset + end, type_[probable], clipped)

    def label(self, scores: Proposals, predict: LocateAndLabelPredict) -> tuple[IntArray, FloatArray]:
        """Return the most probable type of each proposal, and its confidence."""
        type_ = scores.labels[:, 1:].argmax(axis=1)
        confidence: FloatArray = softmax(scores.labels)[np.arange(len(type_)), 1 + type_]
        if self.settings.filter and predict.confidence == "both":
            confidence = confidence * sigmoid(scores.near)
        return type_, confidence


def _get_inner_words(spans: Spans, words: WordArrays) -> Inputs:
    """Eq. 9: return the first and the last word of each span."""
    first, last = (words.vectors[spans.sentence, place] for place in (spans.start, spans.end - 1))
    return {"first": first, "last": last}


def _get_outer_words(spans: Spans, words: WordArrays) -> Inputs:
    """Eq. 4: return the words before and after each span, and whether the sentence has none there."""
    at_start, at_end = spans.start == 0, spans.end == words.lengths[spans.sentence]
    before, behind = np.where(at_start, 0, spans.start - 1), np.where(at_end, 0, spans.end)
    return {
        "before": words.vectors[spans.sentence, before],
        "behind": words.vectors[spans.sentence, behind],
        "at_start": at_start[:, None],
        "at_end": at_end[:, None],
    }
