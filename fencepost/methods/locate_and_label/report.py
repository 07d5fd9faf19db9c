"""The report `stages`: the spans after each stage of prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fencepost.data.entity import Sentence
from fencepost.methods.decoder import GoldArrays, Report, Row
from fencepost.methods.locate_and_label.decode import LocateAndLabelDecoder, Proposals
from fencepost.methods.locate_and_label.settings import LocateAndLabelPredict
from fencepost.methods.locate_and_label.spans import Spans, enumerate_spans, pair_spans

STAGES = ("seeds", "after the filter", "after the regressor", "labelled", "selected")
FARTHEST = 4
"""Number of words from which offsets are counted together."""


class LocateAndLabelReport(Report):
    """Number of spans after each stage, recall of entities among them, and offsets of boundaries.

    Types are ignored: an entity counts if its span is among the spans of a stage, or near one of them (IoU
    above `method.near`).
    """

    decoder: LocateAndLabelDecoder
    predict: LocateAndLabelPredict

    def __init__(self, decoder: LocateAndLabelDecoder, predict: LocateAndLabelPredict) -> None:
        super().__init__(decoder, predict)
        self.entities = 0
        self.counts = np.zeros((len(STAGES), 3), dtype=np.int64)  # spans, entities hit, entities near
        self.moves = np.zeros((2, 2, 2 * FARTHEST + 1), dtype=np.int64)  # all or labelled, start or end

    def add(self, sentences: Sequence[Sentence], scores: Proposals, gold: GoldArrays) -> None:
        entities = _deduplicate(Spans(gold.sentence, gold.start, gold.end))
        self.entities += len(entities.start)
        labelled = self.decoder.label(scores, self.predict)[1] >= self.predict.lowest_threshold()
        candidates = self.decoder.candidates(scores, self.predict)
        chosen = self.predict.select_entities(candidates, self.decoder.types, sentences)
        length = scores.lengths.max()
        selected = Spans(chosen.start // length, chosen.start % length, (chosen.end - 1) % length + 1)
        seeds = enumerate_spans(self.decoder.seed_lengths(self.predict), scores.lengths)
        stages = (seeds, scores.seeds, scores.moved, scores.moved.take(labelled), selected)
        for number, spans in enumerate(map(_deduplicate, stages)):
            _, iou = pair_spans(entities, spans)
            near = iou > self.decoder.settings.near
            self.counts[number] += (len(spans.start), (iou == 1).sum(), near.sum())
        moves = np.stack((scores.moved.start - scores.seeds.start, scores.moved.end - scores.seeds.end))
        moves = moves.clip(-FARTHEST, FARTHEST) + FARTHEST  # [2, N]
        for number, some in enumerate((moves, moves[:, labelled])):
            self.moves[number] += [np.bincount(side, minlength=2 * FARTHEST + 1) for side in some]

    def tables(self) -> dict[str, dict[str, Row]]:
        count = max(1, self.entities)
        stages: dict[str, Row] = {
            name: {"spans": n, "per entity": n / count, "recall": hit / count, "recall, near": near / count}
            for name, (n, hit, near) in zip(STAGES, self.counts.tolist(), strict=True)
        }
        names = [f"{move:+d}" if move else "0" for move in range(-FARTHEST, FARTHEST + 1)]
        names[0], names[-1] = f"{names[0]} or less", f"{names[-1]} or more"
        columns = ("start", "end", "start, labelled", "end, labelled")
        rows = (dict(zip(columns, row, strict=True)) for row in self.moves.reshape(4, -1).T.tolist())
        offsets: dict[str, Row] = dict(zip(names, rows, strict=True))
        return {"spans": stages, "offsets in words": offsets}


def _deduplicate(spans: Spans) -> Spans:
    """Return each span once, sorted."""
    return Spans(*np.unique(np.stack(spans), axis=1))
