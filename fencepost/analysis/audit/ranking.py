"""Rank disagreements by the probability that the annotation is wrong, and not the models.

A confident model that contradicts an annotation is often wrong itself, and more often so for some kinds of
disagreement than for others: that it does not find an entity says little, that it finds the same words with
another boundary says much. How much is learnt from errors that were put into the training data on purpose: a
logistic regression learns to tell disagreements about these from others. The features of a disagreement
are its kind, the confidences in the suggestion and in the annotation, of the model that has not seen the
sentence and of those that have, and how the same words are annotated elsewhere in the corpus, as log odds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fencepost.analysis.audit.judged import Confidences, Judged
from fencepost.analysis.audit.suggestions import Suggestion
from fencepost.analysis.phrases import PhraseCounts
from fencepost.evaluation import KINDS, Mistake, mistakes

FloatArray = npt.NDArray[np.float64]
_PRIOR = np.array([*(-2.0 for _ in KINDS), 0.4, 0.3, 0.4, 0.0, -0.3, -0.3])
"""The weights without any errors to learn from: of each kind, and of the six log odds of `_features`."""

_LEAST = 0.005
"""Confidences nearer to 0 or 1 than this are clipped, since log odds must be finite."""


def rank(judged: Judged) -> list[Suggestion]:
    """Return a suggestion for each disagreement of models and annotations, the most suspicious first.

    Each annotation and each prediction is part of at most one.
    """
    disagreements = mistakes(judged.sentences, judged.predicted).all
    if not disagreements:
        return []
    suspicions = _sigmoid(_features(disagreements, judged) @ fit_weights(judged)).tolist()
    found = [
        Suggestion.of(one, suspicion, _confidence(one, judged.confidences))
        for one, suspicion in zip(disagreements, suspicions, strict=True)
    ]
    return sorted(found, key=lambda one: -one.suspicion)


def fit_weights(judged: Judged) -> FloatArray:
    """Return the weights of the features, fitted to the errors that were put in."""
    learnt = replace(judged, sentences=judged.planted)
    found = mistakes(learnt.sentences, judged.predicted).all
    labels = [judged.is_planted(one.sentence, one.gold, one.predicted) for one in found]
    return _fit(_features(found, learnt), np.array(labels, dtype=np.float64))


def _features(found: Sequence[Mistake], judged: Judged) -> FloatArray:
    """Return a row for each disagreement: its kind, and log odds (0 where there are none): `[N, K + 6]`.

    The latter are of the suggestion (confidence of the model that has not seen the sentence, of those that
    have, how often the same words have this type elsewhere), and the same three of the annotation. Where the
    models have learnt another annotation than this one, those that have seen it are not asked.
    """
    counts = PhraseCounts(judged.sentences)
    is_original = judged.sentences is not judged.planted
    features = np.zeros((len(found), len(_PRIOR)))
    for row, one in zip(features, found, strict=True):
        unseen, seen = judged.unseen[one.sentence], judged.seen[one.sentence]
        if is_original and judged.is_planted(one.sentence, one.predicted, one.gold):
            seen = unseen
        row[KINDS.index(one.kind)] = 1
        for place, entity, annotated in ((-6, one.predicted, False), (-3, one.gold, True)):
            if entity is not None:
                same, other = counts.elsewhere(judged.sentences[one.sentence], entity, annotated=annotated)
                row[place] = _logit(unseen.get(entity.key, 0.0))
                row[place + 1] = _logit(seen.get(entity.key, 0.0))
                row[place + 2] = math.log((same + 0.5) / (other + 0.5))
    return features


def _confidence(one: Mistake, confidences: Sequence[Confidences]) -> float | None:
    """Return the models' confidence in the gold entity, 0 if it is no candidate."""
    return None if one.gold is None else confidences[one.sentence].get(one.gold.key, 0.0)


def _logit(confidence: float) -> float:
    clipped = min(max(confidence, _LEAST), 1 - _LEAST)
    return math.log(clipped / (1 - clipped))


def _sigmoid(values: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-values))


def _fit(features: FloatArray, labels: FloatArray) -> FloatArray:
    """Return the most probable weights of a logistic regression; the prior is normal, around `_PRIOR`."""
    from scipy.optimize import minimize

    def cost(weights: FloatArray) -> tuple[float, FloatArray]:
        values, change = features @ weights, weights - _PRIOR
        loss = (np.logaddexp(0, values) - labels * values).sum() + change @ change / 2
        return float(loss), features.T @ (_sigmoid(values) - labels) + change

    found: FloatArray = minimize(cost, _PRIOR, jac=True, method="L-BFGS-B").x
    return found
