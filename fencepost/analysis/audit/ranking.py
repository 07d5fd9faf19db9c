"""Rank disagreements by the probability that the annotation is wrong, and not the model.

A confident model that contradicts an annotation is often wrong itself, and more often so for some kinds of
disagreement than for others: that it does not find an entity says little, that it finds the same words with
another boundary says much. How much is learnt from errors that are made on purpose: a few annotations of the
corpus are changed at random, and a logistic regression learns to tell disagreements about these from others.
The models need not be trained again for that, since they have not seen the sentences which they judge. The
features of a disagreement are its kind, the confidences in the suggestion and in the annotation, and how the
same words are annotated elsewhere in the corpus, as log odds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fencepost.analysis.audit.suggestions import Judged, Suggestion
from fencepost.analysis.phrases import PhraseCounts
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import KINDS, Mistake, mistakes
from fencepost.experiments.variants import with_boundary_noise

FloatArray = npt.NDArray[np.float64]
Places = set[tuple[int, tuple[int, int, str]]]
"""Entities by sentence and key."""

BOUNDARIES, TYPES, DELETIONS, ADDITIONS = 0.02, 0.02, 0.02, 0.005
"""Shares of the annotations that are changed, removed and added on purpose."""

ROUNDS = 3
"""How often errors are made; each time in the annotations as they are."""

_PRIOR = np.array([*(-2.0 for _ in KINDS), 0.6, 0.4, 0.0, -0.3])
"""The weights without any errors to learn from: of each kind, and of the four log odds."""

_LEAST = 0.005
"""Confidences nearer to 0 or 1 than this are clipped, since log odds must be finite."""


def rank(judged: Judged, seed: int = 0) -> list[Suggestion]:
    """Return a suggestion for each disagreement of models and annotations, the most suspicious first.

    Each annotation and each prediction is part of at most one.
    """
    disagreements = mistakes(judged.sentences, judged.predicted).all
    if not disagreements:
        return []
    weights = fit_weights(judged, seed)
    suspicions = _sigmoid(_features(disagreements, judged) @ weights).tolist()
    found = [
        Suggestion.of(one, suspicion, _confidence(one, judged))
        for one, suspicion in zip(disagreements, suspicions, strict=True)
    ]
    return sorted(found, key=lambda one: -one.suspicion)


def fit_weights(judged: Judged, seed: int) -> FloatArray:
    """Return the weights of the features, fitted to errors that are made on purpose."""
    features, labels = [], []
    for number in range(ROUNDS):
        noisy, wrong, lost = make_errors(judged.sentences, seed + number)
        changed = replace(judged, sentences=noisy)
        found = mistakes(noisy, judged.predicted).all
        features.append(_features(found, changed))
        labels += [
            (one.gold is not None and (one.sentence, one.gold.key) in wrong)
            or (one.predicted is not None and (one.sentence, one.predicted.key) in lost)
            for one in found
        ]
    return _fit(np.concatenate(features), np.array(labels, dtype=np.float64))


def make_errors(sentences: Sequence[Sentence], seed: int) -> tuple[list[Sentence], Places, Places]:
    """Return the sentences with errors, the entities that are wrong, and those that are lost."""
    chance = np.random.default_rng(seed)
    entities = [entity for sentence in sentences for entity in sentence.entities]
    types = sorted({entity.type for entity in entities})
    lengths = [len(entity) for entity in entities]
    noisy, wrong, lost = [], set(), set()
    moved = with_boundary_noise(sentences, BOUNDARIES, seed)
    for number, (sentence, before) in enumerate(zip(moved, sentences, strict=True)):
        changed = _change(sentence, types, lengths, chance)
        old, new = ({entity.key for entity in one.entities} for one in (before, changed))
        wrong |= {(number, key) for key in new - old}
        lost |= {(number, key) for key in old - new}
        noisy.append(changed)
    return noisy, wrong, lost


def _change(
    sentence: Sentence, types: Sequence[str], lengths: Sequence[int], chance: np.random.Generator
) -> Sentence:
    """Return the sentence with types changed, and with entities removed and added."""
    entities = []
    for entity in sentence.entities:
        drawn = chance.random()
        if drawn < TYPES and len(types) > 1:
            others = [type_ for type_ in types if type_ != entity.type]
            entities.append(replace(entity, type=others[int(chance.integers(len(others)))]))
        elif not TYPES <= drawn < TYPES + DELETIONS:
            entities.append(entity)
        length = lengths[int(chance.integers(len(lengths)))]
        if chance.random() < ADDITIONS and length <= len(sentence):
            start = int(chance.integers(len(sentence) - length + 1))
            entities.append(Entity(start, start + length, types[int(chance.integers(len(types)))]))
    return sentence.with_entities(entities)


def _features(found: Sequence[Mistake], judged: Judged) -> FloatArray:
    """Return a row for each disagreement: its kind, and log odds (0 where there are none): `[N, K + 4]`."""
    counts = PhraseCounts(judged.sentences)
    features = np.zeros((len(found), len(_PRIOR)))
    for row, one in zip(features, found, strict=True):
        sentence = judged.sentences[one.sentence]
        row[KINDS.index(one.kind)] = 1
        if one.predicted is not None:
            same, other = counts.elsewhere(sentence, one.predicted, annotated=False)
            row[-4:-2] = _logit(one.predicted.score), math.log((same + 0.5) / (other + 0.5))
        if one.gold is not None:
            same, other = counts.elsewhere(sentence, one.gold, annotated=True)
            row[-2:] = _logit(_confidence(one, judged) or 0.0), math.log((same + 0.5) / (other + 0.5))
    return features


def _confidence(one: Mistake, judged: Judged) -> float | None:
    """Return the model's confidence in the gold entity, 0 if it is no candidate."""
    return None if one.gold is None else judged.confidences[one.sentence].get(one.gold.key, 0.0)


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
