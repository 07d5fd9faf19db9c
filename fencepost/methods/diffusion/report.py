"""The report `stages`: the spans after each step of prediction, and the accuracy of the last step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fencepost.data.entity import Sentence
from fencepost.methods.decoder import GoldArrays, IntArray, Report, Row
from fencepost.methods.diffusion.decode import Denoised, DiffusionDecoder, list_spans
from fencepost.methods.diffusion.settings import DiffusionPredict

PARTS = ("all", "first word right", "last word right", "both right", "type right, too")


class DiffusionReport(Report):
    """Number of different spans and entities among them after each step, and accuracy of the last step.

    A proposal is compared with the entity with the highest IoU; types count only in the last row of the
    second table.
    """

    decoder: DiffusionDecoder
    predict: DiffusionPredict

    def __init__(self, decoder: DiffusionDecoder, predict: DiffusionPredict) -> None:
        super().__init__(decoder, predict)
        self.entities = 0
        self.spans: dict[str, IntArray] = {}  # different ones, and entities among them
        self.proposals = np.zeros(len(PARTS), dtype=np.int64)

    def add(self, sentences: Sequence[Sentence], scores: Denoised, gold: GoldArrays) -> None:
        length = scores.boundaries.shape[3]
        entities = np.unique((gold.sentence * length + gold.start) * length + gold.end - 1)
        self.entities += len(entities)
        stages = {
            f"after step {number}": spans for number, spans in enumerate(scores.spans[:, None], start=1)
        }
        stages["after any step"] = scores.spans
        lists = {name: list_spans(spans, length) for name, spans in stages.items()}
        if scores.verified is not None:
            lists["verified"] = scores.verified
        candidates = self.decoder.candidates(scores, self.predict)
        selected = self.predict.select_entities(candidates, self.decoder.types, sentences)
        columns = (selected.start // length, selected.start % length, (selected.end - 1) % length)
        lists["selected"] = np.stack(columns)
        for name, (sentence, left, right) in lists.items():
            keys = np.unique((sentence * length + left) * length + right)
            counts = np.array((len(keys), np.isin(entities, keys).sum()))
            self.spans[name] = self.spans.get(name, np.zeros(2, dtype=np.int64)) + counts
        self._add_proposals(scores, gold)

    def _add_proposals(self, scores: Denoised, gold: GoldArrays) -> None:
        sentence, proposal = np.nonzero(scores.spans[-1, 0] <= scores.spans[-1, 1])
        self.proposals[0] += len(sentence)
        if not len(gold.start):
            return
        left, right = scores.spans[-1][:, sentence, proposal]  # [M]
        type_ = scores.types[sentence, proposal, 1:].argmax(axis=1)
        shared = np.minimum(right[:, None] + 1, gold.end) - np.maximum(left[:, None], gold.start)  # [M, N]
        iou = shared / ((right - left + 1)[:, None] + (gold.end - gold.start) - shared)
        iou[sentence[:, None] != gold.sentence] = -1
        near = (iou + 1e-6 * (type_[:, None] == gold.type)).argmax(axis=1)  # an entity may have two types
        own = sentence == gold.sentence[near]
        first, last = own & (left == gold.start[near]), own & (right == gold.end[near] - 1)
        both = first & last
        self.proposals[1:] += [part.sum() for part in (first, last, both, both & (type_ == gold.type[near]))]

    def tables(self) -> dict[str, dict[str, Row]]:
        count, proposals = max(1, self.entities), max(1, int(self.proposals[0]))
        spans: dict[str, Row] = {
            name: {"spans": n, "per entity": n / count, "recall": hit / count}
            for name, (n, hit) in ((name, counts.tolist()) for name, counts in self.spans.items())
        }
        of_last: dict[str, Row] = {
            name: {"proposals": n, "share": n / proposals}
            for name, n in zip(PARTS, self.proposals.tolist(), strict=True)
        }
        return {"spans": spans, "proposals of the last step": of_last}
