"""The evidence about a sentence, compared with loops over its spans."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fencepost.data.entity import Entity, Sentence
from fencepost.runtime.suggestion import evidence
from fencepost.runtime.suggestion.evidence import POSSIBLE, REACH, examine
from tests.methods.running import recogniser_of
from tests.runtime import models

SENTENCES = [sentence for sentence in models.sentences(20) if sentence.words]


def expected_errors(possible: Sentence, predicted: Sentence) -> float:
    keys = {entity.key for entity in predicted.entities}
    return sum(1 - entity.score for entity in predicted.entities) + sum(
        entity.score for entity in possible.entities if entity.key not in keys
    )


def disagreement(possible: Sentence, predicted: Sentence) -> float:
    spans = {
        entity.key: entity for entity in (*possible.entities, *predicted.entities)
    }  # predicted entities replace possible ones
    return sum(_dispute(left, right) for left, right in combinations(spans.values(), 2))


def _dispute(left: Entity, right: Entity) -> float:
    distance = abs(left.start - right.start) + abs(left.end - right.end)
    overlap = min(left.end, right.end) - max(left.start, right.start)
    if left.type != right.type or distance > REACH or overlap <= 0:
        return 0.0
    return min(left.score, 1 - left.score, right.score, 1 - right.score)


@pytest.mark.parametrize("method", models.METHODS)
def test_evidence_equals_loops_over_all_spans(method):
    recogniser = recogniser_of(models.random_model(method))
    every = recogniser.with_options(threshold=POSSIBLE, select="keep-all")
    sentences, result = examine(recogniser, list(recogniser.prepare_sentences(SENTENCES)))
    predicted = list(recogniser.predict(SENTENCES))
    possible = list(every.predict(SENTENCES))
    assert sum(len(sentence.entities) for sentence in (*possible, *predicted)) > 20
    assert [[e.key for e in s.entities] for s in sentences] == [
        [e.key for e in s.entities] for s in predicted
    ]
    errors = [expected_errors(*pair) for pair in zip(possible, predicted, strict=True)]
    np.testing.assert_allclose(result.errors, errors, atol=1e-4)
    boundaries = [disagreement(*pair) for pair in zip(possible, predicted, strict=True)]
    np.testing.assert_allclose(result.boundaries, boundaries, atol=1e-4)
    assert result.errors.max() > 0
    if method == "boundary-smoothing":
        assert result.boundaries.max() > 0


def test_windows_count_each_span_and_word_once():
    recogniser = recogniser_of(models.random_model("boundary-smoothing"))
    long = Sentence([word for sentence in SENTENCES for word in sentence.words] * 3)
    prepared = list(recogniser.prepare_sentences([SENTENCES[-1], long]))
    assert len(prepared[1].parts) > 1
    every = recogniser.with_options(threshold=POSSIBLE, select="keep-all")
    _, result = examine(recogniser, prepared)
    predicted, possible = (next(r.predict([long])) for r in (recogniser, every))
    # a clash between two windows is resolved after the errors are counted
    assert result.errors[1] == pytest.approx(expected_errors(possible, predicted), rel=0.01)
    words = []

    def add(sentences, arrays, possible, predicted):
        for index, sentence in enumerate(sentences):
            (part,) = [part for part in prepared[1].parts if part.sentence is sentence]
            own = range(part.own_start - part.start, part.own_end - part.start)
            words.extend(arrays.vectors[index, word] for word in own)

    recogniser.compute(prepared[1].parts, recogniser.watch_candidates(add, POSSIBLE))
    assert len(words) == len(long)
    np.testing.assert_allclose(result.vectors[1], np.mean(words, axis=0), atol=1e-5)


def test_vector_is_the_mean_of_the_word_vectors(pytorch):
    vectors = []
    list(pytorch.predict([SENTENCES[-1]], lambda _, words, __: vectors.append(words.vectors[0])))
    _, result = examine(pytorch, list(pytorch.prepare_sentences(SENTENCES)))
    np.testing.assert_allclose(result.vectors[-1], vectors[0].mean(axis=0), atol=1e-5)


def test_evidence_ignores_unselected_types():
    recogniser = recogniser_of(models.random_model("boundary-smoothing"))
    people = recogniser.with_options(types=["PER"])
    every = recogniser.with_options(threshold=POSSIBLE, select="keep-all", types=["PER"])
    sentences, result = examine(people, list(people.prepare_sentences(SENTENCES)))
    assert {entity.type for sentence in sentences for entity in sentence.entities} == {"PER"}
    pairs = zip(every.predict(SENTENCES), people.predict(SENTENCES), strict=True)
    np.testing.assert_allclose(result.errors, [expected_errors(*pair) for pair in pairs], atol=1e-4)


def test_moves_within_reach_are_listed_once_per_direction():
    moves = evidence._list_moves()
    both = {*moves, *((-left, -right) for left, right in moves)}
    assert len(both) == 2 * len(moves) == 2 * REACH * (REACH + 1)
    assert all(0 < abs(left) + abs(right) <= REACH for left, right in both)
