"""Sentences that are chosen from a stream."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from fencepost.data import read
from fencepost.data.entity import Sentence
from fencepost.errors import UsageError
from fencepost.runtime import chunks
from fencepost.runtime.prediction.text import Text
from fencepost.runtime.suggestion import Chooser, choose
from fencepost.runtime.suggestion.chooser import EFFORT, STRATEGIES
from fencepost.runtime.suggestion.evidence import examine
from tests.methods.running import recogniser_of
from tests.runtime import models

TEXTS = [sentence.text for sentence in islice(read("sample:train"), 24)]


@pytest.fixture(scope="module")
def recogniser():
    return recogniser_of(models.random_model("boundary-smoothing"))


def texts_of(sentences) -> list[str]:
    return ["".join(sentence.text.split()) for sentence in sentences]


def test_score_is_expected_errors_per_effort(recogniser):
    chosen = choose(recogniser, TEXTS, 24)
    sentences = [replace(one, entities=(), meta={}, id=None, doc=None) for one in chosen]
    _, evidence = examine(recogniser, list(recogniser.prepare_sentences(sentences)))
    lengths = np.array([len(sentence) for sentence in sentences])
    scores = [sentence.meta["suggest"]["score"] for sentence in chosen]
    np.testing.assert_allclose(scores, evidence.errors / (lengths + EFFORT), atol=1e-4)
    assert [sentence.meta["suggest"]["rank"] for sentence in chosen] == list(range(1, len(chosen) + 1))
    assert scores[0] == max(scores)


def test_chosen_sentences_have_the_predicted_entities(recogniser):
    predicted = {s.words: s for document in recogniser.annotate(TEXTS) for s in document.sentences}
    for sentence in choose(recogniser, TEXTS, 10):
        assert [e.key for e in sentence.entities] == [e.key for e in predicted[sentence.words].entities]
        assert sentence.text in TEXTS[int(sentence.doc) - 1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_choice_does_not_depend_on_blocks(recogniser, strategy, monkeypatch):
    whole = choose(recogniser, TEXTS, 3, strategy=strategy)
    monkeypatch.setattr(chunks, "TEXTS", 7)
    monkeypatch.setattr("fencepost.runtime.suggestion.chooser.LOOK_AHEAD", 3)
    assert texts_of(choose(recogniser, iter(TEXTS), 3, strategy=strategy)) == texts_of(whole)
    assert len(whole) == 3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_repeated_and_excluded_sentences_are_not_chosen(recogniser, strategy):
    first = choose(recogniser, TEXTS, 5, strategy=strategy)
    again = choose(recogniser, TEXTS * 2, 100, strategy=strategy, exclude=first)
    assert len(set(texts_of(again))) == len(again) > 5
    assert not set(texts_of(again)) & set(texts_of(first))
    assert choose(recogniser, TEXTS, 5, strategy=strategy, exclude=[*first, *again]) == []


def test_near_duplicates_are_avoided(recogniser):
    ranked = texts_of(choose(recogniser, TEXTS, 24, strategy="uncertainty"))
    best = next(text for text in TEXTS if "".join(text.split()) == ranked[0])
    copies = [f"{best[:-1]} {'!' * number}" for number in range(1, 6)]  # each is a different text
    chosen = texts_of(choose(recogniser, [*TEXTS, *copies], 8))
    assert sum(text.startswith(ranked[0][:-1]) for text in chosen) <= 2
    scores = {
        text: one.meta["suggest"]["score"]
        for one in choose(recogniser, [*TEXTS, *copies], 99)
        for text in texts_of([one])
    }
    by_score = sorted(scores, key=lambda text: -scores[text])[:8]
    assert (
        sum(text.startswith(ranked[0][:-1]) for text in by_score) > 2
    )  # by score alone, they would be chosen


def test_diversity_avoids_annotated_sentences(recogniser):
    """A sentence with the vector of an annotated one comes last."""
    words = Sentence(["Ada", "met", "him", "in", "London"])
    near = Sentence(["Ada", "met", "him", "in", "London", ","])
    others = [Sentence(text.split()) for text in TEXTS[:10]]
    with_it = choose(recogniser, [near, *others], 11, strategy="diversity", exclude=[words])
    ranks = {one.words: one.meta["suggest"]["rank"] for one in with_it}
    assert ranks[near.words] > 5


def test_seed_changes_random_and_diverse_choices(recogniser):
    def chosen(strategy, seed):
        return texts_of(choose(recogniser, TEXTS, 4, strategy=strategy, seed=seed))

    for strategy in ("random", "diversity"):
        assert chosen(strategy, 1) == chosen(strategy, 1)
        assert len({tuple(chosen(strategy, seed)) for seed in range(5)}) > 1
    assert chosen("uncertainty", 1) == chosen("uncertainty", 2)


def test_random_computes_only_the_chosen_sentences(recogniser, monkeypatch):
    computed = []
    compute = type(recogniser).compute
    monkeypatch.setattr(
        type(recogniser),
        "compute",
        lambda self, parts, watch: computed.extend(parts) or compute(self, parts, watch),
    )
    choose(recogniser, TEXTS, 4, strategy="random")
    assert len(computed) == 4


def test_chosen_sentences_keep_their_words_and_documents(recogniser):
    sentences = [replace(sentence, pos=None) for sentence in islice(read("sample:train"), 10)]
    for one in choose(recogniser, sentences, 4):
        (origin,) = [sentence for sentence in sentences if sentence.id == one.id]
        assert (one.words, one.doc, one.space_after) == (origin.words, origin.doc, origin.space_after)


def test_context_includes_neighbours_in_other_blocks(monkeypatch):
    model = models.random_model("boundary-smoothing", encoder={**models.SCRATCH, "context": 1})
    recogniser = recogniser_of(model)
    sentences = [replace(sentence, doc="d", pos=None) for sentence in models.sentences() if sentence.words]
    whole = choose(recogniser, sentences, 30)
    monkeypatch.setattr(chunks, "TEXTS", 3)
    parts = choose(recogniser, sentences, 30)
    assert [one.words for one in whole] == [one.words for one in parts]
    scores = [[one.meta["suggest"]["score"] for one in run] for run in (whole, parts)]
    np.testing.assert_allclose(*scores, atol=2e-5)


def test_refuses_wrong_arguments(recogniser):
    with pytest.raises(UsageError, match="count is 0"):
        choose(recogniser, TEXTS, 0)
    with pytest.raises(UsageError, match="did you mean random"):
        choose(recogniser, TEXTS, 1, strategy="randm")
    with pytest.raises(UsageError, match="not a string"):
        choose(recogniser, "one", 1)
    with pytest.raises(UsageError, match="all strings or all sentences"):
        choose(recogniser, [Sentence(["a"]), "b"], 1)
    assert choose(recogniser, [], 1) == choose(recogniser, ["", " "], 1) == []


def test_pool_has_a_limited_size(recogniser, monkeypatch):
    monkeypatch.setattr(chunks, "TEXTS", 5)
    chooser = Chooser(recogniser, 1)
    chooser.read(Text(text) for text in TEXTS)
    assert len(chooser.state.pool.sentences) == 10
    assert chooser.state.texts == len(TEXTS)
