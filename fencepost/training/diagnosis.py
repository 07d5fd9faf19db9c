"""Diagnosis of a training run whose model does not predict entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fencepost.data.entity import Sentence
from fencepost.evaluation import evaluate
from fencepost.methods.model import Model
from fencepost.training.scoring import make_recogniser

_LEAST_F1, _LEAST_TRAINING_F1 = 0.1, 0.3
"""Minimum F1 of a training run that succeeded, on development data and on training sentences."""

_SAMPLE = 100
"""Number of training sentences that are predicted."""

_FEW_STEPS = 300
"""Number of steps below which a training run may be too short."""

_FEW_ENTITIES = 3
"""Mean number of entities of a type below which the column of types is probably wrong."""


def explain_failure(
    model: Model, sentences: Sequence[Sentence], dev: Sequence[Sentence] | None, f1: float | None, steps: int
) -> list[str]:
    """Return a warning and the likely reasons if the training failed; an empty list if it succeeded.

    `f1` is the score on the development data. Without development data, the score on training sentences
    decides.
    """
    if f1 is not None and f1 >= _LEAST_F1:
        return []
    with_entities = [sentence for sentence in sentences if sentence.entities]
    sample = with_entities[:: max(1, len(with_entities) // _SAMPLE)][:_SAMPLE]
    known = evaluate(sample, make_recogniser(model).predict(sample)).overall.f1
    if f1 is None and known >= _LEAST_TRAINING_F1:
        return []
    scores = f"F1 on training sentences is {100 * known:.1f}"
    if f1 is not None:
        scores = f"F1 on the development data is {100 * f1:.1f}, {scores}"
    reasons = list(_find_reasons(model, sentences, dev, known, steps))
    return [f"the model has not learnt to predict the entities: {scores}", *reasons]


def _find_reasons(
    model: Model, sentences: Sequence[Sentence], dev: Sequence[Sentence] | None, known: float, steps: int
) -> Iterator[str]:
    training, is_fitted = model.config.training, known >= _LEAST_TRAINING_F1
    types = Counter(entity.type for sentence in sentences for entity in sentence.entities)
    if not is_fitted and steps < _FEW_STEPS:
        yield (
            f"too few steps: {steps:,} in {training.epochs} epochs; increase training.epochs, or set "
            "training.epochs=auto"
        )
    dev_types = Counter(entity.type for sentence in dev or () for entity in sentence.entities)
    unknown = sum(count for type_, count in dev_types.items() if type_ not in types)
    if dev is not None and not dev_types:
        yield "the development data has no entities: check its file and format"
    elif 2 * unknown > sum(dev_types.values()):
        names = ", ".join(sorted(dev_types.keys() - types.keys())[:5])
        yield f"different types: most types of the development data are not in the training data ({names})"
    if types.total() < _FEW_ENTITIES * len(types):
        yield (
            f"a wrong column: {types.total():,} entities have {len(types):,} different types; "
            "check which column or field has the types"
        )
    if not is_fitted and steps >= _FEW_STEPS:
        yield (
            f"the learning rate: training.learning_rate is {training.learning_rate:g} and "
            f"training.encoder_learning_rate is {training.encoder_learning_rate}; try half or twice of them"
        )
    if is_fitted and dev is not None:
        yield (
            "training and development data differ: the model predicts the sentences that it was trained on; "
            "compare how the two files are annotated, or add training sentences"
        )
