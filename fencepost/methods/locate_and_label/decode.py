"""Prediction: seeds are filtered, moved and labelled, each by a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import (
    Decoder,
    FloatArray,
    Graphs,
    IntArray,
    WordArrays,
    run_graph,
    sigmoid,
    softmax,
)
from fencepost.methods.locate_and_label.settings import LocateAndLabelPredict, LocateAndLabelSettings
from fencepost.methods.locate_and_label.spans import MaximumTable, Spans, enumerate_spans, move_spans

Inputs = dict[str, npt.NDArray[Any]]

_SPANS_AT_ONCE = 8192
"""Spans whose vectors are held at once."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """The seeds of a batch that pass the filter, and what the networks compute for each."""

    seeds: Spans  # [N]
    near: FloatArray  # [N], the filter's logit, 0 without a filter
    offsets: FloatArray  # [N, 2], t of start and end, in words
    moved: Spans  # [N], the seeds with these offsets applied
    labels: FloatArray  # [N, C + 1], the classifier's logits
    lengths: IntArray  # [B]


class LocateAndLabelDecoder(Decoder[Proposals]):
    """The graphs `filter`, `regressor` (each if the model has one) and `classifier`."""

    settings: LocateAndLabelSettings

    def score(self, words: WordArrays, graphs: Graphs, predict: LocateAndLabelPredict) -> Proposals:
        """Locate (Eq. 1-7), then label (Eq. 8-10)."""
        features = SpanFeatures(words)
        seeds, near = self._filter(words, graphs, predict)
        offsets = np.zeros((len(near), 2), dtype=np.float32)
        if self.settings.regressor:
            offsets = _run_in_blocks(graphs, "regressor", seeds, features.outer, 2)
        moved = move_spans(seeds, offsets, words.lengths)
        labels = _run_in_blocks(graphs, "classifier", moved, features.inner, 1 + len(self.types))
        return Proposals(seeds, near, offsets, moved, labels, words.lengths)

    def seed_lengths(self, predict: LocateAndLabelPredict) -> Sequence[int]:
        """Return the lengths of the seeds, in rising order."""
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
        """Return the spans whose best class is a type, with the probability of that class.

        Unlike in the paper, it is multiplied with the filter's, unless `predict.confidence` is `class`.
        """
        class_ = scores.labels.argmax(axis=1)
        confidence = softmax(scores.labels)[np.arange(len(class_)), class_]
        if self.settings.filter and predict.confidence == "both":
            confidence = confidence * sigmoid(scores.near)
        entity = class_ > 0
        sentence, start, end = scores.moved.take(entity)
        offset = sentence * scores.lengths.max()
        confidence = confidence[entity].astype(np.float64).clip(0, 1)
        return Candidates(offset + start, offset + end, class_[entity] - 1, confidence)


class SpanFeatures:
    """What the graphs of regressor and classifier see of spans."""

    def __init__(self, words: WordArrays) -> None:
        self._words = words
        self._table = MaximumTable(words.vectors, np)

    def inner(self, spans: Spans) -> Inputs:
        """Eq. 9: return the maximum over each span, its first and its last word."""
        return self._look_up(spans, first=spans.start, last=spans.end - 1)

    def outer(self, spans: Spans) -> Inputs:
        """Eq. 4: return the maximum over each span, and the words before and after it, if any."""
        last, length = self._words.lengths[spans.sentence], self._words.vectors.shape[1]
        before, behind = np.maximum(spans.start - 1, 0), np.minimum(spans.end, length - 1)
        edges = {"at_start": (spans.start == 0)[:, None], "at_end": (spans.end == last)[:, None]}
        return self._look_up(spans, before=before, behind=behind) | edges

    def _look_up(self, spans: Spans, **places: IntArray) -> Inputs:
        inputs = {"pooled": self._table.pool(spans)}
        inputs |= {name: self._words.vectors[spans.sentence, place] for name, place in places.items()}
        prompts = self._words.prompts
        return inputs if prompts is None else inputs | {"sentence": prompts[spans.sentence, 0]}


def _run_in_blocks(
    graphs: Graphs, name: str, spans: Spans, features: Callable[[Spans], Inputs], outputs: int
) -> FloatArray:
    """Return what a graph computes of the features of spans: `[N, outputs]`."""
    firsts = range(0, max(1, len(spans.start)), _SPANS_AT_ONCE)
    parts = []
    for block in (spans.take(slice(first, first + _SPANS_AT_ONCE)) for first in firsts):
        parts += run_graph(graphs, name, features(block), ("f", (len(block.start), outputs)))
    return np.concatenate(parts)
