"""Boundary smoothing without PyTorch: the best class of each span, by one graph."""

from __future__ import annotations

import numpy as np

from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import Decoder, Graphs, PredictSettings, WordArrays, run_graph


class BoundarySmoothingDecoder(Decoder):
    """The graph `spans` says the best class of each cell, and its probability."""

    def candidates(self, words: WordArrays, graphs: Graphs, predict: PredictSettings) -> Candidates:  # noqa: ARG002
        """The cells whose best class is a type."""
        sentences, length = words.vectors.shape[:2]
        grid = (sentences, length, length)
        class_, confidence = run_graph(graphs, "spans", words.inputs(), ("i", grid), ("f", grid))
        place = np.arange(length)
        is_span = (place[:, None] <= place) & (place < words.lengths[:, None, None])
        sentence, start, last = np.nonzero((class_ > 0) & is_span)
        return Candidates(
            sentence * length + start,
            sentence * length + last + 1,
            class_[sentence, start, last] - 1,
            confidence[sentence, start, last].astype(np.float64).clip(0, 1),
        )
