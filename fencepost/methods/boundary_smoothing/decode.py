"""Prediction: the most probable type of each span, computed by the graph `spans`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import Decoder, FloatArray, Graphs, WordArrays, is_span, run_graph
from fencepost.methods.settings import PredictSettings


class BestTypes(NamedTuple):
    """The class of the most probable type of each cell, 0 if it is not a span, and its probability."""

    class_: npt.NDArray[np.int32]  # [B, T, T]
    confidence: FloatArray  # [B, T, T]


class SpanDecoder(Decoder[BestTypes]):
    """Decoder for the graph `spans`, which returns the most probable type of each cell."""

    def score(self, words: WordArrays, graphs: Graphs, predict: PredictSettings) -> BestTypes:  # noqa: ARG002
        sentences, length = words.vectors.shape[:2]
        grid = (sentences, length, length)
        outputs: list[Any] = run_graph(graphs, "spans", words.inputs(), ("i", grid), ("f", grid))
        return BestTypes(outputs[0] * is_span(words.lengths, length), outputs[1])

    def candidates(self, scores: BestTypes, predict: PredictSettings) -> Candidates:
        """Return the spans with a type that is probable enough, even if "no entity" is more probable."""
        probable = ~(scores.confidence < predict.lowest_threshold())  # `Candidates` raises for NaN
        sentence, start, last = np.nonzero((scores.class_ > 0) & probable)
        offset = sentence * scores.class_.shape[1]
        return Candidates(
            offset + start,
            offset + last + 1,
            scores.class_[sentence, start, last].astype(np.int64) - 1,
            scores.confidence[sentence, start, last].astype(np.float64).clip(0, 1),
        )
