"""`distil`: soft entities in every method, the selected sentences, and refusals."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import LanguageWarning, UsageError
from fencepost.methods.boundary_smoothing.loss import make_targets
from fencepost.methods.boundary_smoothing.settings import BoundarySmoothingSettings
from fencepost.methods.decoder import GoldArrays
from fencepost.methods.network import Gold
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import save_model
from fencepost.runtime.recogniser import Recogniser
from fencepost.training import distil, train
from fencepost.training.data import SoftData
from fencepost.training.distillation import annotate, compute_certainty, draw_sentences
from fencepost.training.scoring import make_recogniser
from tests.runtime import models
from tests.runtime.models import NESTED

TYPES = ["LOC", "ORG", "PER"]
SOFT = {"soft_entities": True}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    folder = tmp_path_factory.mktemp("teacher") / "model"
    save_model(models.trained(), folder)
    return load(folder)


# Soft entities


def test_only_soft_entities_have_probabilities() -> None:
    sure = Sentence(["Ada", "met", "Bob"], [Entity(0, 1, "PER", 0.3)])
    unsure = Sentence(["Eve", "met", "Bob"], [Entity(0, 1, "PER", 0.3), Entity(2, 3, "XXX", 0.9)], meta=SOFT)
    assert GoldArrays.from_sentences([sure], TYPES).probability is None
    both = GoldArrays.from_sentences([sure, unsure], TYPES)
    assert both.probability is not None
    assert both.probability.tolist() == pytest.approx([1.0, 0.3])
    assert both.sentence.tolist() == [0, 1]
    nothing = GoldArrays.from_sentences([Sentence(["x"], meta=SOFT)], TYPES)
    assert nothing.probability is not None
    assert nothing.probability.shape == (0,)


@given(
    probability=st.floats(0, 1),
    start=st.integers(0, 4),
    length=st.integers(1, 3),
    epsilon=st.sampled_from([0.0, 0.2]),
)
def test_soft_targets_are_weighted_by_the_probability(
    probability: float, start: int, length: int, epsilon: float
) -> None:
    """The rest of the probability goes to the target of a sentence without entities."""
    settings = BoundarySmoothingSettings(epsilon=epsilon)
    columns = torch.tensor([[0, start, min(5, start + length), 1]])
    lengths = torch.tensor([5])
    soft = Gold.from_columns(columns, probability=torch.tensor([probability]))
    certain, none = Gold.from_columns(columns), Gold.from_columns(columns[:0])
    actual, with_entity, without = (make_targets(g, lengths, 5, 3, settings) for g in (soft, certain, none))
    assert torch.allclose(actual, probability * with_entity + (1 - probability) * without, atol=1e-6)
    assert torch.allclose(actual.sum(dim=1), torch.ones(1, 5, 5), atol=1e-6)


def test_entities_are_drawn_with_their_probabilities() -> None:
    torch.manual_seed(0)
    columns = torch.tensor([[0, 0, 1, 0], [0, 1, 2, 1], [1, 0, 3, 2], [1, 2, 3, 0]])
    gold = Gold.from_columns(columns, probability=torch.tensor([1.0, 0.0, 0.25, 0.75]))
    draws = [gold.draw() for _ in range(2000)]
    counts = Counter(row for draw in draws for row in draw.end.tolist())
    assert draws[0].probability is None
    assert counts[1] == 2000
    assert counts[2] == 0
    assert counts[3] == pytest.approx(2000, abs=120)  # of two entities
    types = Counter(type_ for draw in draws for type_ in draw.type.tolist())
    assert types[2] == pytest.approx(500, abs=80)
    certain = Gold.from_columns(columns)
    assert certain.draw() is certain


@pytest.mark.parametrize("method", models.METHODS)
def test_each_method_learns_probabilities(method: str, tmp_path: Path) -> None:
    """Two words are equally frequent, but one is mostly an entity and the other mostly not."""
    soft = [
        Sentence(["Bob", "met", "Eve"], [Entity(0, 1, "PER", 0.95), Entity(2, 3, "PER", 0.05)], meta=SOFT),
        Sentence(["Eve", "met", "Bob"], [Entity(2, 3, "PER", 0.95), Entity(0, 1, "PER", 0.05)], meta=SOFT),
    ] * 8
    training = {"epochs": 25, "batch_size": 4, "learning_rate": 0.02, "seed": 1}
    config = models.config(method, training=training, predict={"threshold": 0.0, "select": "keep-all"})
    model = train(config, NESTED[:2] * 4, tmp_path / "model", soft=SoftData(soft)).model
    (sentence,) = make_recogniser(model).predict([Sentence(["Bob", "met", "Eve"])])
    scores = {e.start: e.score for e in sentence.entities if len(e) == 1 and e.type == "PER"}
    assert scores.get(0, 0.0) > scores.get(2, 0.0) + 0.3


def test_soft_sentences_do_not_change_types_or_settings(tmp_path: Path) -> None:
    """Candidates of a teacher cross, so that `select` would change if they counted."""
    flat = [Sentence(["Ada", "met", "Bob"], [Entity(0, 1, "PER"), Entity(2, 3, "PER")])]
    crossing = Sentence(["a", "b", "c"], [Entity(0, 2, "PER", 0.4), Entity(1, 3, "ORG", 0.4)], meta=SOFT)
    config = models.config("boundary-smoothing", training={"epochs": 1})
    model = train(config, flat, tmp_path / "model", soft=SoftData([crossing])).model
    assert model.types == ("PER",)
    assert model.config.predict.select == "flat"


# The sentences


def test_certainty_equals_the_value_by_hand() -> None:
    def certainty(*scores: float) -> float:
        words = ["w"] * max(1, len(scores))
        return compute_certainty(Sentence(words, [Entity(i, i + 1, "X", s) for i, s in enumerate(scores)]))

    assert certainty() == 1
    assert certainty(0.5) == 0
    assert certainty(1.0, 0.0) == 1
    assert certainty(0.9, 0.5) == pytest.approx(0.4)


@given(
    texts=st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=30),
    annotated=st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=5),
    count=st.integers(1, 12),
    seed=st.integers(0, 9),
)
def test_draws_distinct_sentences_without_annotation(
    teacher: Recogniser, texts: list[list[str]], annotated: list[list[str]], count: int, seed: int
) -> None:
    known = [Sentence(words) for words in annotated]
    sample, read = draw_sentences(texts, known, count, seed, teacher)
    possible = {tuple(words) for words in texts if len(words) >= 3 and words not in annotated}
    assert read == len(texts)
    assert set(sample) <= possible
    assert len(sample) == len(set(sample)) <= count
    assert not possible or sample
    assert (sample, read) == draw_sentences(iter(texts), known, count, seed, teacher)


def test_each_sentence_is_equally_likely(teacher: Recogniser) -> None:
    texts = [["the", "word", str(number)] for number in range(20)]
    counts = Counter(
        words for seed in range(1000) for words in draw_sentences(texts, (), 5, seed, teacher)[0]
    )
    expected = 1000 * 5 / 20
    assert (
        sum((counts[tuple(words)] - expected) ** 2 / expected for words in texts) < 43.8
    )  # chi^2, p = 0.001


def test_teacher_annotates_with_its_probabilities(teacher: Recogniser) -> None:
    texts = [sentence.words for sentence in NESTED] * 20
    soft = annotate(teacher, texts, seed=1)
    assert all(sentence.has_soft_entities for sentence in soft)
    every = teacher.with_options(threshold=0.05, select="keep-all")
    for sentence in soft[:8]:
        (again,) = every.predict([Sentence(sentence.words)])
        assert [e.key for e in again.entities] == [e.key for e in sentence.entities]
        assert [e.score for e in again.entities] == pytest.approx([e.score for e in sentence.entities])
    certain = np.mean([compute_certainty(next(every.predict([Sentence(words)]))) for words in texts[:4]])
    assert len(soft) == pytest.approx(certain * len(texts), abs=4 * len(texts) ** 0.5 / 2)


def test_student_learns_from_raw_text(teacher: Recogniser, tmp_path: Path) -> None:
    """The annotated sentences alone do not say what Charles and London are."""
    annotated = [NESTED[0], NESTED[3], NESTED[2]]
    raw = [NESTED[1].words, [*NESTED[1].words[:3], "and", "him"], ["him", "in", "London"]]
    config = models.config(
        "boundary-smoothing", training={"epochs": 40, "batch_size": 2, "learning_rate": 0.02}
    )
    alone = train(config, annotated, tmp_path / "alone").model
    result = distil(config, teacher, raw, annotated, tmp_path / "student", count=3)
    assert result.raw_sentences is not None
    assert (result.raw_sentences["read"], result.raw_sentences["drawn"]) == (3, 3)
    assert 1 <= result.raw_sentences["used"] <= 3
    gold = {entity.key for entity in NESTED[1].entities}

    def count_correct(recogniser: Recogniser) -> int:
        (sentence,) = recogniser.predict([Sentence(NESTED[1].words)])
        return len(gold & {entity.key for entity in sentence.entities})

    assert count_correct(teacher) == 3
    assert count_correct(load(tmp_path / "student")) > count_correct(make_recogniser(alone))


# What is refused


def test_refuses_other_types_and_unsuitable_texts(teacher: Recogniser, tmp_path: Path) -> None:
    config, out = models.config("boundary-smoothing"), tmp_path / "out"
    other = [Sentence(["Ada"], [Entity(0, 1, "GENE")])]
    with pytest.raises(UsageError, match="same types; only one of them has GENE, LOC, ORG, PER"):
        distil(config, teacher, [["a", "b", "c"]], other, out)
    for texts in ([], [["a", "b"]], [NESTED[0].words]):
        with pytest.raises(UsageError, match=r"none of 3 words or more that is not annotated"):
            distil(config, teacher, texts, NESTED, out)
    assert not out.exists()


def test_warns_of_texts_in_another_language() -> None:
    words = ["Это", "предложение", "на", "другом", "языке"]
    english = load()
    with pytest.warns(LanguageWarning, match="another language"):
        draw_sentences([words] * 30, (), 5, 1, english)


def test_resuming_needs_the_same_teacher_and_texts(teacher: Recogniser, tmp_path: Path) -> None:
    raw = [["him", "and", str(number)] for number in range(6)]
    config, out = models.config("boundary-smoothing", training={"epochs": 3}), tmp_path / "out"

    def stop(epoch: int, _: float) -> None:
        if epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distil(config, teacher, raw, NESTED, out, NESTED, after_epoch=stop)
    for other, texts in ((teacher, raw[:3]), (teacher.with_options(select="flat"), raw)):
        with pytest.raises(UsageError, match="other texts or another teacher"):
            distil(config, other, texts, NESTED, out, NESTED, resume=True)
    result = distil(config, teacher, raw, NESTED, out, NESTED, resume=True)
    whole = distil(config, teacher, raw, NESTED, tmp_path / "whole", NESTED)
    ours, theirs = result.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
