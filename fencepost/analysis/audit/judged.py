"""What models say about annotated sentences: confidences of candidates, and what they find together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import best_cut, match
from fencepost.methods.candidates import Candidates, select

Key = tuple[int, int, str]
Confidences = Mapping[Key, float]
"""By the keys of candidates; those that are not there are improbable."""


@dataclass(frozen=True)
class Judged:
    """Annotated sentences and what models say about them, with calibrated confidences.

    `unseen` are the confidences of the model that has not seen the sentence's document, `seen` the means of
    those that have learnt from it. `predicted` is what all of them find together.
    """

    sentences: Sequence[Sentence]
    unseen: Sequence[Confidences]
    seen: Sequence[Confidences]
    predicted: Sequence[Sentence]

    @classmethod
    def of(
        cls,
        sentences: Sequence[Sentence],
        unseen: Sequence[Confidences],
        seen: Sequence[Confidences],
        config: Config,
    ) -> Judged:
        """Combine what the models say; the settings decide about clashes and the threshold."""
        predicted = select_entities(sentences, _mean(unseen, seen), config)
        return cls(sentences, unseen, seen, predicted)

    @cached_property
    def confidences(self) -> list[Confidences]:
        """The means of both sides, by sentence."""
        return _mean(self.unseen, self.seen)


def _mean(unseen: Sequence[Confidences], seen: Sequence[Confidences]) -> list[Confidences]:
    """Return the mean confidence of each candidate of either side."""
    return [
        {
            key: min(1.0, (one.get(key, 0.0) + other.get(key, 0.0)) / 2)  # sums of shares may be rounded up
            for key in one.keys() | other.keys()
        }
        for one, other in zip(unseen, seen, strict=True)
    ]


def select_entities(
    sentences: Sequence[Sentence], confidences: Sequence[Confidences], config: Config
) -> list[Sentence]:
    """Return the sentences with those candidates that do not clash and reach the threshold.

    That is the one with the best F1, unless the settings have one for all types.
    """
    fitted = config.predict.fitted(sentences).select
    mode = fitted if fitted in ("flat", "nested") else "keep-all"
    found = [s.with_entities(_select(one, mode)) for s, one in zip(sentences, confidences, strict=True)]
    threshold = config.predict.threshold
    if not isinstance(threshold, float):
        threshold = best_cut(match(sentences, found))
    least = 1.1 if threshold is None else threshold  # without one, nothing is right
    return [s.with_entities(e for e in s.entities if e.score >= least) for s in found]


def _select(confidences: Confidences, mode: str) -> list[Entity]:
    if not confidences:
        return []
    types = sorted({type_ for _, _, type_ in confidences})
    rows = [(start, end, types.index(type_)) for start, end, type_ in confidences]
    start, end, number = np.array(rows, dtype=np.int64).T
    kept = select(Candidates(start, end, number, np.array([*confidences.values()])), mode)
    columns = (kept.start.tolist(), kept.end.tolist(), kept.type.tolist(), kept.confidence.tolist())
    return [Entity(first, last, types[one], score) for first, last, one, score in zip(*columns, strict=True)]
