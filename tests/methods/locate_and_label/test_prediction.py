"""Predictions of locate-and-label, compared with a loop over spans; and as a part of a model."""

from __future__ import annotations

import math
from functools import cache
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fencepost.config import Config
from fencepost.data import read
from fencepost.data.entity import Entity, Sentence
from fencepost.encoder.encoder import Words
from fencepost.evaluation import evaluate
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import GraphMismatch, WordArrays
from fencepost.methods.locate_and_label import decode
from fencepost.methods.locate_and_label.decode import LocateAndLabelDecoder
from fencepost.methods.locate_and_label.settings import LocateAndLabelPredict, LocateAndLabelSettings
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import ModuleGraph, load_model, load_predictor, make_predictor, save_model
from fencepost.runtime.recogniser import Recogniser
from tests.methods.locate_and_label.cases import (
    LENGTHS,
    TYPES,
    Place,
    Prediction,
    SlowProposal,
    alone,
    assert_same,
    places_of,
    prediction_of,
    proposals_of,
    slow_adjusted,
    slow_proposals,
    slow_seeds,
    words_for,
)

NETWORKS: dict[str, dict] = {
    "plain": {},
    "trained-lengths": {"predict": {"lengths": "trained"}},
    "no-filter": {"filter": False},
    "no-regressor": {"regressor": False},
    "neither": {"filter": False, "regressor": False, "predict": {"lengths": "trained"}},
    "sentence-vector": {"sentence_vector": True},
    "strict-filter": {"predict": {"filter": 0.9}},
    "long": {"lengths": (3, 20)},
    "both-confidences": {"predict": {"confidence": "both"}},
    "both-without-filter": {"predict": {"confidence": "both"}, "filter": False},
}

networks = pytest.mark.parametrize("settings", NETWORKS.values(), ids=NETWORKS.keys())


@networks
@torch.no_grad()
def test_scores_equal_the_formulas(settings: dict) -> None:
    """The expected scores are of each span alone, so other spans and padding have no effect."""
    method = prediction_of(**settings)
    for seed in range(3):
        words = words_for(method, LENGTHS, seed)
        scores = method.score(words)
        assert_same(proposals_of(scores), slow_proposals(method, words))


@torch.no_grad()
def test_score_test_covers_all_kinds_of_moves() -> None:
    """Spans are filtered out, move, would leave the sentence, or would be empty."""
    method = prediction_of()
    proposals = slow_proposals(method, words_for(method, LENGTHS))
    seeds = sum(len(slow_seeds(method.decoder.seed_lengths(method.predict), length)) for length in LENGTHS)
    assert seeds / 5 < len(proposals) < seeds * 4 / 5
    kinds = set()
    for (index, start, end), proposal in proposals.items():
        by_start, by_end = (math.floor(offset + 0.5) for offset in proposal.offsets)
        if proposal.moved != (start, end):
            kinds.add("moved")
        elif by_start or by_end:
            kinds.add("empty" if start + by_start >= end + by_end else "at the edge")
        if start + by_start < 0 or end + by_end > LENGTHS[index]:
            kinds.add("outside")
    assert kinds == {"moved", "empty", "at the edge", "outside"}


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.5, 0.8, 1.0])
@torch.no_grad()
def test_proposals_are_the_seeds_that_pass_the_filter(threshold: float) -> None:
    every = prediction_of({"filter": 0.0})
    words = words_for(every, LENGTHS)
    probabilities = {
        place: 1 / (1 + math.exp(-proposal.near))
        for place, proposal in proposals_of(every.score(words)).items()
    }
    assert len(probabilities) == sum(len(slow_seeds(range(1, 6), length)) for length in LENGTHS)
    scores = prediction_of({"filter": threshold}).score(words)
    assert proposals_of(scores).keys() == {place for place, p in probabilities.items() if p >= threshold}
    sizes = {
        len(column) for column in (*scores.seeds, scores.near, scores.offsets, *scores.moved, scores.labels)
    }
    assert sizes == {len(proposals_of(scores))}


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.9])
@torch.no_grad()
def test_filter_keeps_a_span_at_the_threshold(threshold: float) -> None:
    method = prediction_of({"filter": threshold})
    method.network.filter.output.weight.zero_()
    for more, passing in ((0.0, True), (-1e-3, False), (1e-3, True)):
        method.network.filter.output.bias.copy_(torch.logit(torch.tensor([threshold])) + more)
        assert bool(len(method.score(words_for(method, [3])).near)) == passing


@networks
@torch.no_grad()
def test_no_candidates_pass_a_filter_of_1(settings: dict) -> None:
    settings = {**settings, "filter": True, "predict": {**settings.get("predict", {}), "filter": 1.0}}
    method = prediction_of(**settings)
    scores = method.score(words_for(method, LENGTHS))
    assert scores.labels.shape == (0, 1 + len(TYPES))
    assert scores.offsets.shape == (0, 2)
    assert len(method.select(method.candidates(scores))) == 0


@pytest.mark.parametrize("filtered", [True, False])
@torch.no_grad()
def test_proposals_are_correct_for_sentences_shorter_than_some_lengths(filtered: bool) -> None:
    """Sentences may be much shorter, and lengths have gaps."""
    method = prediction_of({"lengths": "trained", "filter": 0.0}, lengths=(4, 6, 11), filter=filtered)
    for length in range(1, 13):
        for lengths in ([length], [length, 1], [2, length, 3]):
            words = words_for(method, lengths)
            scores = method.score(words)
            assert_same(proposals_of(scores), slow_proposals(method, words))
            assert len(scores.near) == sum(max(0, length - long + 1) for long in (4, 6, 11))
            assert len(method.select(method.candidates(scores))) <= len(scores.near)


def test_seed_lengths_are_all_or_the_trained_ones() -> None:
    decoder = LocateAndLabelDecoder(LocateAndLabelSettings(lengths=(2, 5)), TYPES)
    assert list(decoder.seed_lengths(LocateAndLabelPredict(lengths="all"))) == [1, 2, 3, 4, 5]
    assert list(decoder.seed_lengths(LocateAndLabelPredict(lengths="trained"))) == [2, 5]


@hypothesis_settings(max_examples=50)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.lists(st.integers(1, 14), min_size=1, max_size=4, unique=True).map(sorted),
    st.sampled_from(["all", "trained"]),
    st.integers(0, 2**32 - 1),
)
def test_seeds_without_a_filter_are_moved_by_the_regressor(
    lengths: list[int], trained: list[int], which: str, seed: int
) -> None:
    """All spans of the lengths move as in the formula, for any offsets."""
    dice = np.random.default_rng(seed)
    words = WordArrays(np.zeros((len(lengths), max(lengths), 2), dtype=np.float32), np.array(lengths))

    def regressor(**inputs: np.ndarray) -> list[np.ndarray]:
        moves = dice.standard_normal((len(inputs["pooled"]), 2)) * dice.choice([0.4, 3, 1e6])
        moves[::3] = np.round(moves[::3]) + 0.5
        return [moves.astype(np.float32)]

    graphs = {"regressor": regressor, "classifier": same_labels}
    decoder = LocateAndLabelDecoder(LocateAndLabelSettings(lengths=tuple(trained), filter=False), ["A"])
    scores = decoder.score(words, graphs, LocateAndLabelPredict(lengths=which))
    assert not scores.near.any()
    of_lengths = trained if which == "trained" else range(1, trained[-1] + 1)
    seeds = [
        (index, *span) for index, length in enumerate(lengths) for span in slow_seeds(of_lengths, length)
    ]
    assert places_of(scores.seeds) == seeds
    assert places_of(scores.moved) == [
        (index, *slow_adjusted(tuple(span), tuple(offsets), lengths[index]))
        for (index, *span), offsets in zip(seeds, scores.offsets.astype(float).tolist(), strict=True)
    ]


def same_labels(**inputs: np.ndarray) -> list[np.ndarray]:
    """Return the logits 0 and 1 for every span."""
    return [np.tile(np.float32([0, 1]), (len(inputs["pooled"]), 1))]


LOGIT = math.log(0.3 / 0.7)


@pytest.mark.parametrize(
    ("threshold", "logit"), [(0.0, -math.inf), (0.3, LOGIT), (0.5, 0.0), (1.0, math.inf)]
)
def test_filter_keeps_logits_at_or_above_its_threshold(threshold: float, logit: float) -> None:
    """At 0 all spans pass, at 1 only those with a probability of exactly 1."""
    near = np.array([[[0.0, 5.0, -5.0, -200.0], [200.0, LOGIT, 1.0, 1.0]]], dtype=np.float32)
    words = WordArrays(np.zeros((1, 4, 2), dtype=np.float32), np.array([4]))
    decoder = LocateAndLabelDecoder(LocateAndLabelSettings(lengths=(1, 2), regressor=False), ["A"])
    predict = LocateAndLabelPredict(filter=threshold, threshold=0.0)
    scores = decoder.score(words, {"filter": lambda **_: [near], "classifier": same_labels}, predict)
    valid = [(0, start, start + 1) for start in range(4)] + [(0, start, start + 2) for start in range(3)]
    expected = [s for s in valid if near[0, s[2] - s[1] - 1, s[1]] >= np.float32(logit)]
    assert sorted(places_of(scores.seeds)) == sorted(expected)
    candidates = decoder.candidates(scores, predict)
    assert len(candidates) == len(expected)
    label = math.e / (1 + math.e)
    assert candidates.confidence == pytest.approx(label / (1 + np.exp(-scores.near.astype(float))))


@torch.no_grad()
def test_classifier_runs_on_blocks_of_spans(monkeypatch) -> None:
    """Many spans are several blocks; no spans are one empty block."""
    sizes: list[int] = []

    def classifier(**inputs: np.ndarray) -> list[np.ndarray]:
        sizes.append(len(inputs["pooled"]))
        return same_labels(**inputs)

    monkeypatch.setattr(decode, "_SPANS_AT_ONCE", 3)
    decoder = LocateAndLabelDecoder(
        LocateAndLabelSettings(lengths=(2,), filter=False, regressor=False), ["A"]
    )
    for length, expected in ((9, [3, 3, 2]), (1, [0])):
        sizes.clear()
        words = WordArrays(np.zeros((1, length, 2), dtype=np.float32), np.array([length]))
        predict = LocateAndLabelPredict(lengths="trained")
        scores = decoder.score(words, {"classifier": classifier}, predict)
        assert scores.labels.shape == (sum(expected), 2)
        assert sizes == expected


@pytest.mark.parametrize("missing", ["filter", "regressor", "classifier"])
def test_names_a_missing_graph(missing: str) -> None:
    method, words = prediction_of({"filter": 0.0}), words_for(prediction_of(), LENGTHS)
    graphs = {name: ModuleGraph(graph) for name, graph in method.network.graphs(words).items()}
    del graphs[missing]
    arrays = WordArrays(words.vectors.numpy(), words.lengths.numpy())
    with pytest.raises(GraphMismatch, match=f"the graph {missing} is missing"):
        method.decoder.score(arrays, graphs, method.predict)


def shifted(proposals: dict[Place, SlowProposal], index: int) -> dict[Place, SlowProposal]:
    return {(index, start, end): rest for (_, start, end), rest in proposals.items()}


@networks
@torch.no_grad()
def test_scores_do_not_depend_on_the_batch(settings: dict) -> None:
    method = prediction_of(**settings)
    words = words_for(method, LENGTHS)
    apart: dict[Place, SlowProposal] = {}
    for index in range(len(LENGTHS)):
        apart |= shifted(proposals_of(method.score(alone(words, index))), index)
    assert_same(proposals_of(method.score(words)), apart)


@networks
@torch.no_grad()
def test_padding_has_no_effect(settings: dict) -> None:
    method = prediction_of(**settings)
    words = words_for(method, LENGTHS)
    vectors = words.vectors.clone()
    vectors[~words.mask] = math.nan
    expected = method.score(words)
    scores = method.score(Words(vectors, words.lengths, words.prompts))
    assert proposals_of(scores) == proposals_of(expected)


@networks
@pytest.mark.parametrize("at_once", [1, 7])
@torch.no_grad()
def test_scores_do_not_depend_on_blocks(monkeypatch, settings: dict, at_once: int) -> None:
    method = prediction_of(**settings)
    words = words_for(method, LENGTHS)
    expected = proposals_of(method.score(words))
    monkeypatch.setattr(decode, "_SPANS_AT_ONCE", at_once)
    assert_same(proposals_of(method.score(words)), expected)


@torch.no_grad()
def test_sentence_vector_affects_only_its_sentence() -> None:
    method = prediction_of(sentence_vector=True)
    words = words_for(method, LENGTHS)
    other = words.prompts.clone()
    other[0] += 1
    scores = method.score(Words(words.vectors, words.lengths, other))
    before, after = proposals_of(method.score(words)), proposals_of(scores)
    assert {place for place in before if place[0]} == {place for place in after if place[0]}
    for place in before.keys() & after.keys():
        for part in ("near", "offsets", "labels"):
            same = getattr(before[place], part) == pytest.approx(getattr(after[place], part), abs=1e-6)
            assert same == (place[0] > 0), part
    assert method.settings.prompts(TYPES) == 1
    assert prediction_of().settings.prompts(TYPES) == 0


Found = dict[tuple[int, int, int], float]  # start and end in the batch, type: confidence


def found_in(candidates: Candidates) -> Found:
    columns = (candidates.start.tolist(), candidates.end.tolist(), candidates.type.tolist())
    keys = list(zip(*columns, strict=True))
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, candidates.confidence.tolist(), strict=True))


def slow_entities(method: Prediction, words: Words) -> tuple[Found, int]:
    """Return each proposed span and best type with its highest confidence, and the number of proposals."""
    best: Found = {}
    proposals = 0
    length = words.vectors.shape[1]
    for (index, *_), proposal in slow_proposals(method, words).items():
        total = sum(math.exp(label) for label in proposal.labels)
        class_ = max(range(1, len(proposal.labels)), key=proposal.labels.__getitem__)
        start, end = proposal.moved
        key = (index * length + start, index * length + end, class_ - 1)
        confidence = math.exp(proposal.labels[class_]) / total
        if method.predict.confidence == "both" and method.network.filter is not None:
            confidence /= 1 + math.exp(-proposal.near)
        if confidence >= method.predict.threshold:
            best[key] = max(best.get(key, 0.0), confidence)
            proposals += 1
    return best, proposals


@networks
@pytest.mark.parametrize("threshold", [0.0, 0.25])
@torch.no_grad()
def test_entities_are_the_proposals_above_the_threshold(settings: dict, threshold: float) -> None:
    """Duplicates count once with the highest probability; "no entity" may be more probable."""
    settings = settings | {"predict": settings.get("predict", {}) | {"threshold": threshold}}
    method = prediction_of(**settings)
    words = words_for(method, LENGTHS)
    candidates = method.candidates(method.score(words))
    expected, proposals = slow_entities(method, words)
    assert len(candidates) == proposals
    assert ((candidates.confidence >= 0) & (candidates.confidence <= 1)).all()
    assert found_in(method.select(candidates)) == pytest.approx(expected, abs=1e-5)
    assert proposals >= len(expected) > 3
    assert proposals > len(expected) or method.network.regressor is None or method.settings.sentence_vector


@torch.no_grad()
def test_confidences_of_huge_logits_are_probabilities() -> None:
    method = prediction_of()
    method.network.classifier.output.weight.mul_(1e4)
    candidates = method.candidates(method.score(words_for(method, LENGTHS)))
    assert len(candidates) > 3
    assert ((candidates.confidence >= 0) & (candidates.confidence <= 1)).all()


def chosen(rows: dict[tuple[int, int, int], float], **predict) -> Found:
    columns = zip(*rows, strict=True)
    return found_in(prediction_of(predict).select(Candidates(*map(list, columns), list(rows.values()))))


ROWS = {(0, 4, 0): 0.9, (0, 5, 0): 0.8, (4, 7, 1): 0.7, (3, 8, 1): 0.75, (9, 10, 2): 0.3}


def test_soft_nms_is_applied_after_selection() -> None:
    """With `nested`, (3, 8) crosses (0, 4), and (4, 7) crosses (0, 5)."""
    soft = {"soft_nms": True, "overlap": 0.6, "decay": 0.9, "threshold": 0.5}
    approximately = pytest.approx
    assert chosen(ROWS, select="nested", **soft) == approximately({(0, 4, 0): 0.9, (0, 5, 0): 0.72})
    assert chosen(ROWS, select="flat", **soft) == approximately({(0, 4, 0): 0.9, (4, 7, 1): 0.7})
    everything = {(0, 4, 0): 0.9, (0, 5, 0): 0.72, (4, 7, 1): 0.63, (3, 8, 1): 0.75}
    assert chosen(ROWS, select="keep-all", **soft) == approximately(everything)
    assert chosen(ROWS, select="soft-nms", **soft) == approximately(everything)
    assert chosen(ROWS, select="soft-nms", **soft | {"threshold": 0.65}) == approximately(
        {(0, 4, 0): 0.9, (0, 5, 0): 0.72, (3, 8, 1): 0.75}
    )


def test_only_the_threshold_applies_without_soft_nms() -> None:
    assert chosen(ROWS, select="keep-all", soft_nms=False, threshold=0.5) == {
        key: score for key, score in ROWS.items() if score > 0.5
    }
    assert chosen(ROWS, select="keep-all", soft_nms=False, threshold=0.0) == ROWS
    with pytest.raises(ValidationError, match="soft_nms is false"):
        LocateAndLabelPredict(select="soft-nms", soft_nms=False)


def config_of(predict: dict | None = None, lstm: int = 32, **settings) -> Config:
    return Config.parse(
        {
            "method": {
                "name": "locate-and-label",
                "lengths": [1, 2, 3, 4, 6],
                "near": 0.7,
                "hit": 1.0,
                "negatives": 5.0,
                "extra_negatives": 2,
                "size": 32,
                "dropout": 0,
                "regressor_weight": 0.3,
            }
            | settings,
            "encoder": {
                "name": "scratch",
                "lstm": {"size": lstm, "dropout": 0},
                "scratch": {"word_size": 32, "characters": "none", "word_dropout": 0},
            },
            "predict": {"lengths": "all", "filter": 0.5, "confidence": "class", "threshold": 0.3}
            | (predict or {}),
        }
    )


def train(model: Model, sentences: list[Sentence], steps: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(model.collate(sentences))["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


LEARNERS: dict[str, dict] = {
    "plain": {},
    "sentence-vector": {"sentence_vector": True},
    "no-filter": {"filter": False},
    "no-regressor": {"regressor": False},
}


@cache
def train_model(name: str) -> tuple[list[Sentence], Model, list[float]]:
    """Return some sentences, a model that was trained on them, and its losses."""
    sentences = list(islice(read("sample:train"), 20))
    torch.manual_seed(0)
    model = Model.build(config_of(**LEARNERS[name]), sentences)
    return sentences, model, train(model, sentences, 50)


@pytest.mark.parametrize("name", LEARNERS)
def test_model_learns_its_sentences(name: str, tmp_path) -> None:
    sentences, model, losses = train_model(name)
    assert (model.encoder.prompts is None) == (name != "sentence-vector")
    assert losses[-1] < losses[0] / 10
    predicted = list(Recogniser(make_predictor(model)).predict(sentences))
    assert evaluate(sentences, predicted).overall.f1 > 0.8
    assert all(0.3 < entity.score <= 1 for sentence in predicted for entity in sentence.entities)
    save_model(model, tmp_path)
    assert load_model(tmp_path).config == model.config
    again = Recogniser(load_predictor(tmp_path))
    assert list(again.predict(sentences)) == predicted
    nothing = again.with_options(threshold=1).predict(sentences)
    assert not any(sentence.entities for sentence in nothing)


def test_entities_do_not_depend_on_the_batch() -> None:
    sentences, model, _ = train_model("plain")
    recogniser = Recogniser(make_predictor(model)).with_options(select="keep-all", filter=0.2, threshold=0.2)
    together = list(recogniser.predict(sentences))
    assert sum(len(sentence.entities) for sentence in together) > 40
    for sentence, expected in zip(sentences, together, strict=True):
        [predicted] = recogniser.predict([sentence])
        assert [entity.key for entity in predicted.entities] == [entity.key for entity in expected.entities]
        scores = [entity.score for entity in expected.entities]
        assert [entity.score for entity in predicted.entities] == pytest.approx(scores, abs=1e-4)


def test_regressor_finds_entities_longer_than_all_seeds() -> None:
    """Entities have five words, seeds at most four."""
    sentences = [
        Sentence([*before, "the", "old", "house", "of", "stone", *after], [Entity(n, n + 5, "place")])
        for n in range(4)
        for before, after in [(list("abcd")[:n], ["was", "sold"])]
    ]
    torch.manual_seed(0)
    model = Model.build(config_of(lengths=[1, 2, 3, 4], near=0.6, regressor_weight=1.0), sentences)
    train(model, sentences, 60)
    keys = [
        [entity.key for entity in sentence.entities]
        for sentence in Recogniser(make_predictor(model)).predict(sentences)
    ]
    assert keys == [[entity.key for entity in sentence.entities] for sentence in sentences]


def test_trains_and_predicts_very_long_sentences() -> None:
    """A batch has a sentence of 5000 words and one of a single word."""
    [short] = islice(read("sample:train"), 1)
    words = [*short.words, *(f"w{number % 90}" for number in range(5000 - len(short))), "Accra"]
    long = Sentence(words, [*short.entities, Entity(5000, 5001, "place"), Entity(200, 4800, "time")])
    sentences = [long, Sentence(["Accra"], [Entity(0, 1, "place")])]
    torch.manual_seed(0)
    predict = {"filter": 0.0, "threshold": 0.0, "select": "keep-all"}
    model = Model.build(config_of(predict, lstm=0), sentences)
    losses = train(model, sentences, 2)
    assert all(math.isfinite(loss) for loss in losses)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    predicted = Recogniser(make_predictor(model.eval())).predict(sentences)
    for expected, sentence in zip(sentences, predicted, strict=True):
        assert sentence.words == expected.words
        assert all(0 <= entity.start < entity.end <= len(expected) for entity in sentence.entities)
        assert len(sentence.entities) > len(expected) / 100


def test_loss_in_prediction_equals_that_of_the_examples() -> None:
    """The proposals of the filter are not examples, so these are scored again."""
    sentences = list(islice(read("sample:train"), 6))
    torch.manual_seed(0)
    model = Model.build(config_of({"batch_size": 6}), sentences).eval()
    losses: list[float] = []
    predictor = make_predictor(model)
    predictor.predict_entities(
        sentences, lambda batch, words, _: losses.append(model.compute_loss(batch, words))
    )
    order = sorted(sentences, key=len, reverse=True)
    assert losses == [pytest.approx(model(model.collate(order))["loss"].item(), rel=1e-4)]
