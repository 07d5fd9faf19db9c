"""Predictions of several models for annotated sentences: confidences of candidates, and entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import fit_threshold, match
from fencepost.runtime.recogniser import resolve_clashes

Key = tuple[int, int, str]
Confidences = Mapping[Key, float]
"""Confidences by the keys of candidates; candidates that are missing are improbable."""


@dataclass(frozen=True)
class AuditPredictions:
    """Annotated sentences with the predictions of the models of an audit, with calibrated confidences.

    `held_out` has the confidences of the model that was not trained on the document of the sentence,
    `training` the mean confidences of the models that were. `predicted` has the sentences with the entities
    that all models predict together.
    """

    sentences: Sequence[Sentence]
    held_out: Sequence[Confidences]
    training: Sequence[Confidences]
    predicted: Sequence[Sentence]

    @classmethod
    def of(
        cls,
        sentences: Sequence[Sentence],
        held_out: Sequence[Confidences],
        training: Sequence[Confidences],
        config: Config,
    ) -> AuditPredictions:
        """Select the entities by the mean confidences, with the selection and threshold of the settings."""
        predicted = select_entities(sentences, _average(held_out, training), config)
        return cls(sentences, held_out, training, predicted)

    @cached_property
    def confidences(self) -> list[Confidences]:
        """Means of the held-out and the training confidences, by sentence."""
        return _average(self.held_out, self.training)


def _average(held_out: Sequence[Confidences], training: Sequence[Confidences]) -> list[Confidences]:
    """Return the mean confidence of each candidate; a missing confidence counts as 0."""
    return [
        {
            key: min(1.0, (one.get(key, 0.0) + other.get(key, 0.0)) / 2)  # rounding may exceed 1
            for key in one.keys() | other.keys()
        }
        for one, other in zip(held_out, training, strict=True)
    ]


def select_entities(
    sentences: Sequence[Sentence], confidences: Sequence[Confidences], config: Config
) -> list[Sentence]:
    """Return the sentences with the candidates that do not overlap illegally and reach the threshold.

    The threshold is that of the settings if it is a single number, and otherwise fitted.
    """
    mode = config.predict.fit_to(sentences).select
    types = sorted({type_ for one in confidences for _, _, type_ in one})
    candidates = ([Entity(*key, score) for key, score in one.items()] for one in confidences)
    predicted = [
        s.with_entities(resolve_clashes(one, types, mode))
        for s, one in zip(sentences, candidates, strict=True)
    ]
    threshold = config.predict.threshold
    if not isinstance(threshold, float):
        threshold = fit_threshold(match(sentences, predicted))
    minimum = 1.1 if threshold is None else threshold  # None: no prediction is correct, so none is selected
    return [s.with_entities(e for e in s.entities if e.score >= minimum) for s in predicted]
