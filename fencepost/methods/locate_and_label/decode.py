"""Locate and label without PyTorch: graphs judge spans, and what passes from one to the next is here."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from fencepost.methods import candidates as decoding
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import (
    Decoder,
    FloatArray,
    Graphs,
    IntArray,
    PredictSettings,
    TrainedSettings,
    WordArrays,
    run_graph,
)

LONGEST = 1000
"""The longest seed that settings accept, in words."""

_SPANS_AT_ONCE = 8192
"""Spans whose vectors are held at once."""


class LocateAndLabelPredict(PredictSettings):
    """Which spans pass the filter, and Soft-NMS."""

    lengths: Literal["all", "trained"] = Field(
        "all", description="Seeds: of all lengths up to the longest, or of those in training alone."
    )
    filter: float = Field(0.5, ge=0, le=1, description="The filter lets spans with this probability pass.")
    confidence: Literal["both", "class"] = Field(
        "both", description="The classifier's probability times the filter's, or alone, as in the paper."
    )
    soft_nms: bool = Field(True, description="Whether overlapping lowers scores (ablation).")
    overlap: float = Field(0.6, gt=0, le=1, description="k: the IoU with a better span from which it does.")
    decay: float = Field(0.9, ge=0, le=1, description="u: what the score is multiplied with.")
    threshold: float = Field(0.4, ge=0, le=1, description="delta: entities have a higher score.")

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if self.select == "soft-nms" and not self.soft_nms:
            raise ValueError("select is soft-nms, but soft_nms is false")
        return self

    def selected(self, candidates: Candidates) -> Candidates:
        """The better ones of those that clash, then Soft-NMS; with `soft-nms`, this alone."""
        if self.select != "soft-nms":
            candidates = super().selected(candidates)
        decay = self.decay if self.soft_nms else 1.0
        return decoding.soft_nms(candidates, self.overlap, decay, self.threshold)


class LocateAndLabelTrained(TrainedSettings):
    """The lengths of seeds, in rising order."""

    lengths: tuple[Annotated[int, Field(ge=1, le=LONGEST)], ...] = Field(min_length=1)

    @field_validator("lengths")
    @classmethod
    def _sort(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(lengths)))


class Spans(NamedTuple):
    """Spans of a batch as columns, half-open."""

    sentence: IntArray  # [N]
    start: IntArray  # [N]
    end: IntArray  # [N]

    def blocks(self) -> list[Spans]:
        """At least one, be it empty."""
        firsts = range(0, max(1, len(self.start)), _SPANS_AT_ONCE)
        return [Spans(*(column[first : first + _SPANS_AT_ONCE] for column in self)) for first in firsts]


class LocateAndLabelDecoder(Decoder):
    """The graphs `filter`, `regressor` (each if the model has one) and `classifier`."""

    Predict = LocateAndLabelPredict
    Trained = LocateAndLabelTrained

    def candidates(self, words: WordArrays, graphs: Graphs, predict: LocateAndLabelPredict) -> Candidates:
        """Filtered, moved, labelled: the spans whose best class is a type."""
        seeds, near = self._passing(words, graphs, predict)
        moved = _moved(seeds, words, graphs) if "regressor" in graphs else seeds
        logits = np.concatenate(
            [_labels(some, words, graphs, 1 + len(self.types)) for some in moved.blocks()]
        )  # [N, C + 1]
        class_ = logits.argmax(axis=1)
        confidence = softmax(logits)[np.arange(len(class_)), class_]
        if near is not None and predict.confidence == "both":
            confidence = confidence * sigmoid(near)
        entity = class_ > 0
        sentence, start, end = (column[entity] for column in moved)
        offset = sentence * words.vectors.shape[1]
        confidence = confidence[entity].astype(np.float64).clip(0, 1)
        return Candidates(offset + start, offset + end, class_[entity] - 1, confidence)

    def _passing(
        self, words: WordArrays, graphs: Graphs, predict: LocateAndLabelPredict
    ) -> tuple[Spans, FloatArray | None]:
        """All seeds that pass the filter, and their logits; without a filter, all seeds."""
        trained: tuple[int, ...] = self.method.lengths
        lengths = np.asarray(trained if predict.lengths == "trained" else range(1, trained[-1] + 1))
        starts = np.arange(words.vectors.shape[1])
        passing = starts + lengths[:, None] <= words.lengths[:, None, None]  # [B, L, T]
        near = None
        if "filter" in graphs:
            expected = (len(words.lengths), trained[-1], len(starts))
            (near,) = run_graph(graphs, "filter", words.inputs(), ("f", expected))
            near = near[:, lengths - 1]
            with np.errstate(divide="ignore"):
                least = np.log(np.float32(predict.filter)) - np.log1p(np.float32(-predict.filter))
            passing &= near >= least
        at = np.nonzero(passing)
        sentence, length, start = at
        return Spans(sentence, start, start + lengths[length]), None if near is None else near[at]


def _labels(spans: Spans, words: WordArrays, graphs: Graphs, classes: int) -> FloatArray:
    vectors = words.vectors
    inputs = {
        "pooled": pooled(vectors, spans),
        "first": vectors[spans.sentence, spans.start],
        "last": vectors[spans.sentence, spans.end - 1],
    }
    return _judged("classifier", inputs, spans, words, graphs, classes)


def _moved(seeds: Spans, words: WordArrays, graphs: Graphs) -> Spans:
    """The spans with their boundaries moved by whole words; one that would be empty stays."""
    vectors, length = words.vectors, words.vectors.shape[1]
    moves = []
    for some in seeds.blocks():
        at_start, at_end = some.start == 0, some.end == words.lengths[some.sentence]
        inputs = {
            "pooled": pooled(vectors, some),
            "before": vectors[some.sentence, np.maximum(some.start - 1, 0)],
            "behind": vectors[some.sentence, np.minimum(some.end, length - 1)],
            "at_start": at_start[:, None],
            "at_end": at_end[:, None],
        }
        moves.append(_judged("regressor", inputs, some, words, graphs, 2))
    limit = words.lengths.max() + 1  # so far out is as good as farther
    move = np.floor(np.concatenate(moves) + np.float32(0.5)).clip(-limit, limit).astype(np.int64)
    start = np.maximum(seeds.start + move[:, 0], 0)
    end = np.minimum(seeds.end + move[:, 1], words.lengths[seeds.sentence])
    full = start < end
    return Spans(seeds.sentence, np.where(full, start, seeds.start), np.where(full, end, seeds.end))


def _judged(
    name: str,
    inputs: dict[str, npt.NDArray[Any]],
    spans: Spans,
    words: WordArrays,
    graphs: Graphs,
    outputs: int,
) -> FloatArray:
    if words.prompts is not None:
        inputs["sentence"] = words.prompts[spans.sentence, 0]
    (found,) = run_graph(graphs, name, inputs, ("f", (len(spans.start), outputs)))
    return found


def pooled(vectors: FloatArray, spans: Spans) -> FloatArray:
    """The maximum over each span, `[N, d]`: of two overlapping halves, each as long as a power of two."""
    length = spans.end - spans.start
    level = np.frexp(length)[1] - 1  # the largest power of two that is not longer, exactly
    result = np.empty((len(length), vectors.shape[2]), dtype=vectors.dtype)
    table = vectors
    for number in range(int(level.max(initial=-1)) + 1):
        if number:  # over 2^number words from each on; too few left: whatever
            half = 2 ** (number - 1)
            table = table.copy()
            table[:, :-half] = np.maximum(table[:, :-half], table[:, half:])
        here = np.flatnonzero(level == number)
        sentence, start, end = (column[here] for column in spans)
        result[here] = np.maximum(table[sentence, start], table[sentence, end - 2**number])
    return result


def sigmoid(logits: FloatArray) -> FloatArray:
    """However low they are, without overflow."""
    result: FloatArray = np.exp(-np.logaddexp(np.float32(0), -logits))
    return result


def softmax(logits: FloatArray) -> FloatArray:
    """Along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return result
