"""Prediction: the best class of each span, by the graph `spans`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import Decoder, FloatArray, Graphs, WordArrays, is_span, run_graph
from fencepost.methods.settings import PredictSettings


class BestClasses(NamedTuple):
    """The best class of each cell, with 0 for those that are no spans, and its probability."""

    class_: npt.NDArray[np.int32]  # [B, T, T]
    confidence: FloatArray  # [B, T, T]


class SpanDecoder(Decoder[BestClasses]):
    """The graph `spans` returns the best class of each cell, and its probability."""

    def score(self, words: WordArrays, graphs: Graphs, predict: PredictSettings) -> BestClasses:  # noqa: ARG002
        sentences, length = words.vectors.shape[:2]
        grid = (sentences, length, length)
        outputs: list[Any] = run_graph(graphs, "spans", words.inputs(), ("i", grid), ("f", grid))
        return BestClasses(outputs[0] * is_span(words.lengths, length), outputs[1])

    def candidates(self, scores: BestClasses, predict: PredictSettings) -> Candidates:  # noqa: ARG002
        """Return the cells whose best class is a type."""
        sentence, start, last = np.nonzero(scores.class_ > 0)
        offset = sentence * scores.class_.shape[1]
        return Candidates(
            offset + start,
            offset + last + 1,
            scores.class_[sentence, start, last].astype(np.int64) - 1,
            scores.confidence[sentence, start, last].astype(np.float64).clip(0, 1),
        )
