"""Diffusion as a part of a model: it learns, is saved and loaded, and predicts deterministically."""

from __future__ import annotations

import math
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from fencepost.config import Config
from fencepost.data import read
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import evaluate
from fencepost.methods.diffusion import network as diffusion
from fencepost.methods.diffusion.loss import DenoisedScores, ProposalMatches, match_proposals
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import load_model, make_predictor, save_model
from fencepost.runtime.recogniser import Recogniser
from fencepost.training import train as train_run
from fencepost.training.trainer import Diverged
from tests.methods.diffusion.cases import Key

LEARNT = [
    Sentence(
        ["the", "king", "of", "Spain", "met", "Ada", "Lovelace"],
        [Entity(0, 4, "person"), Entity(3, 4, "place"), Entity(5, 7, "person")],
    ),
    Sentence(["Ada", "Lovelace", "left", "London"], [Entity(0, 2, "person"), Entity(3, 4, "place")]),
    Sentence(["nobody", "came"]),
    Sentence(["London"], [Entity(0, 1, "place")]),
    Sentence(
        ["the", "bank", "of", "Spain", "is", "in", "London"],
        [Entity(0, 4, "firm"), Entity(3, 4, "place"), Entity(6, 7, "place")],
    ),
    Sentence(["Paris", "met", "Paris"], [Entity(0, 1, "person"), Entity(2, 3, "place")]),
    Sentence(["it", "rained", "in", "Spain"], [Entity(3, 4, "place")]),
    Sentence(
        ["the", "king", "left", "the", "bank", "of", "London"],
        [Entity(0, 2, "person"), Entity(3, 7, "firm"), Entity(6, 7, "place")],
    ),
]


def config_of(predict: dict | None = None, lstm: int = 16, **settings) -> Config:
    return Config.parse(
        {
            "method": {
                "name": "diffusion",
                "spans": 12,
                "draws": 2,
                "times": 1000,
                "schedule": "cosine",
                "scale": 1.0,
                "coordinates": "left-width",
                "expansion": "repeat",
                "targets": "repeat",
                "distance": 0.0,
                "pooling": "mean",
                "positions": True,
                "proposal_codes": False,
                "verifier": False,
                "size": 32,
                "heads": 4,
                "layers": 1,
                "feed_forward": 64,
                "pointer_size": 32,
                "dropout": 0,
                "none_weight": 1.0,
                "boundary_weight": 1.0,
            }
            | settings,
            "encoder": {
                "name": "scratch",
                "lstm": {"size": lstm, "dropout": 0},
                "scratch": {"word_size": 32, "characters": "none", "word_dropout": 0},
            },
            "predict": {"spans": 80, "steps": 5, "threshold": 0.125, "eta": 0.0, "seed": 0} | (predict or {}),
        }
    )


LEARNERS: dict[str, dict] = {
    "positions": {"distance": 2.0},
    "verifier": {"distance": 2.0, "verifier": True, "predict": {"threshold": 0.5}},
    "paper": {
        "positions": False,
        "pooling": "first+last",
        "coordinates": "left-right",
        "expansion": "random",
        "schedule": "linear",
    },
    "pad": {"targets": "pad", "none_weight": 0.2, "distance": 2.0, "predict": {"threshold": 0.027}},
}


@cache
def train_model(name: str) -> tuple[Model, list[float]]:
    """Return a model that was trained on a few sentences, and its losses."""
    torch.manual_seed(0)
    model = Model.build(config_of(**LEARNERS[name]), LEARNT)
    return model, train(model, LEARNT, 100 if name == "paper" else 75)


def train(model: Model, sentences: list[Sentence], steps: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.015)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 2 - 2 * step / steps))
    batch = model.collate(sentences)
    losses = []
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(batch)["loss"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()
        losses.append(loss.item())
    model.eval()
    return losses


def recogniser_of(model: Model, **predict) -> Recogniser:
    return Recogniser(make_predictor(model)).with_options(**predict)


@pytest.mark.parametrize("name", LEARNERS)
def test_model_learns_its_sentences(name: str, tmp_path: Path) -> None:
    model, losses = train_model(name)
    assert sum(losses[-5:]) < sum(losses[:5]) / 4
    predicted = list(recogniser_of(model).predict(LEARNT))
    assert evaluate(LEARNT, predicted).overall.f1 > 0.75
    threshold = model.config.predict.threshold
    assert all(threshold <= entity.score <= 1 for sentence in predicted for entity in sentence.entities)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    assert list(recogniser_of(again).predict(LEARNT)) == predicted
    surest = recogniser_of(again, threshold=1).predict(LEARNT)
    assert all(entity.score == 1 for sentence in surest for entity in sentence.entities)


ScoredKeys = list[tuple[tuple[int, int, str], float]]


def predict(recogniser: Recogniser, sentences: list[Sentence]) -> list[ScoredKeys]:
    predicted = recogniser.predict(sentences)
    return [[(entity.key, entity.score) for entity in sentence.entities] for sentence in predicted]


def assert_same_entities(entities: list[ScoredKeys], expected: list[ScoredKeys]) -> None:
    assert [[key for key, _ in one] for one in entities] == [[key for key, _ in one] for one in expected]
    for one, other in zip(entities, expected, strict=True):
        assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=1e-4)


TEXTS = [*LEARNT, *islice(read("sample:train"), 8)]


def eager(folder: Path, **predict) -> Recogniser:
    """Return the saved model, changed to predict many entities, so that there is much to compare."""
    model = load_model(folder)
    with torch.no_grad():
        model.network.denoiser.classifier[-1].bias[0] -= 5
    return recogniser_of(model, threshold=0, select="keep-all", **predict)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(train_model("positions")[0], tmp_path)
    return tmp_path


@pytest.mark.parametrize("eta", [0, 1])
def test_entities_do_not_depend_on_batch_and_order(saved: Path, eta: int) -> None:
    model = eager(saved, eta=eta)
    together = predict(model, TEXTS)
    assert sum(map(len, together)) > 30
    assert sum(map(bool, together)) > 12
    assert_same_entities([one for text in TEXTS for one in predict(model, [text])], together)
    assert_same_entities(predict(model, TEXTS[::-1])[::-1], together)
    small = eager(saved, eta=eta, batch_size=3)
    assert_same_entities(predict(small, TEXTS), together)
    assert_same_entities(predict(model, [TEXTS[4]] * 5), [together[4]] * 5)


def test_seed_steps_and_spans_change_predictions_without_training(saved: Path) -> None:
    plain = predict(eager(saved), TEXTS)
    assert sum(map(len, plain)) > 30
    for change in ({"seed": 1}, {"steps": 1}, {"steps": 9}, {"spans": 7}, {"eta": 1}):
        entities = predict(eager(saved, **change), TEXTS)
        assert entities != plain, change
        assert predict(eager(saved, **change), TEXTS) == entities
        assert sum(map(len, entities)) > 16
    assert predict(eager(saved, seed=0), TEXTS) == plain


@pytest.mark.parametrize("change", [{"steps": 1}, {"steps": 3}, {"steps": 20}, {"spans": 7}, {"spans": 200}])
def test_trained_model_works_with_other_steps_and_spans(saved: Path, change: dict) -> None:
    predicted = list(recogniser_of(load_model(saved), **change).predict(LEARNT))
    assert evaluate(LEARNT, predicted).overall.f1 > (0.4 if change == {"spans": 7} else 0.7)


def test_more_spans_have_higher_recall(saved: Path) -> None:
    model = load_model(saved)
    few, many = (
        evaluate(LEARNT, list(recogniser_of(model, spans=spans).predict(LEARNT))).overall.recall
        for spans in (2, 80)
    )
    assert few < many


@pytest.mark.parametrize("steps", [1, 6])
def test_encoder_runs_once_for_all_steps(saved: Path, steps: int) -> None:
    model = load_model(saved)
    recogniser = recogniser_of(model, steps=steps)
    calls = {"encoder": 0, "denoiser": 0}

    def count(name: str):
        def hook(*_) -> None:
            calls[name] += 1

        return hook

    model.encoder.register_forward_hook(count("encoder"))
    model.network.denoiser.register_forward_hook(count("denoiser"))
    list(recogniser.predict(LEARNT))
    assert calls == {"encoder": 1, "denoiser": steps}


def test_loss_in_prediction_equals_that_of_noised_entities() -> None:
    """Samples do not come from entities, so these are noised again, with the same noise each time."""
    model, _ = train_model("positions")
    losses: list[float] = []
    for _ in range(2):
        watch = lambda sentences, words, _: losses.append(model.compute_loss(sentences, words))  # noqa: E731
        list(recogniser_of(model).predict(LEARNT, watch))
    order = sorted(LEARNT, key=len, reverse=True)
    expected = model(model.collate(order))["loss"].item()
    assert losses == pytest.approx([expected] * 2, rel=1e-4)


@pytest.mark.parametrize(("verifier", "count"), [(False, 2), (True, 1)])
def test_span_has_two_types_without_the_verifier_and_one_with_it(verifier: bool, count: int) -> None:
    sentences = [Sentence(["Paris", "sleeps"], [Entity(0, 1, "place"), Entity(0, 1, "person")])]
    torch.manual_seed(0)
    predict = {"threshold": 0.5, "select": "keep-all"}
    model = Model.build(config_of(predict, lstm=0, verifier=verifier), sentences)
    losses = train(model, sentences, 40)
    [sentence] = recogniser_of(model).predict(sentences)
    assert losses[-1] < losses[0] / 3
    assert [(entity.start, entity.end) for entity in sentence.entities] == [(0, 1)] * count


@pytest.mark.parametrize("rate", [1e4, 1e20])
def test_divergence_names_the_learning_rate(rate: float, tmp_path: Path) -> None:
    settings = config_of().model_dump(mode="json")
    settings["training"] |= {"learning_rate": rate, "epochs": 4, "batch_size": 2, "warmup": 0}
    with pytest.raises(Diverged, match=r"training\.learning_rate"):
        train_run(Config.parse(settings), LEARNT, tmp_path / "model", LEARNT)


@pytest.mark.slow
@pytest.mark.parametrize("select", ["flat", "nested", "keep-all"])
def test_threshold_is_fitted_to_selected_entities(select: str, tmp_path: Path) -> None:
    settings = config_of({"threshold": None, "select": select}).model_dump(mode="json")
    settings["training"] |= {"learning_rate": 0.01, "epochs": 6, "batch_size": 4}
    dev = list(islice(read("sample:train"), 40))
    outcome = train_run(Config.parse(settings), dev, tmp_path / "m", dev)
    assert outcome.best is not None
    assert 0 < outcome.best["dev_f1"] < 1
    model = load_model(tmp_path / "m")
    assert model.config.predict.threshold is not None  # type: ignore[attr-defined]
    assert evaluate(dev, recogniser_of(model).predict(dev)).overall.f1 == outcome.best["dev_f1"]


def test_many_entities_are_all_learnt_over_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """K is raised up to a limit; after several steps, all entities have been used."""
    monkeypatch.setattr(diffusion, "_MOST_PROPOSALS", 7)
    keys = [(start, end) for start in range(6) for end in range(start + 1, 7)]  # 21
    sentences = [Sentence([f"w{n}" for n in range(6)], [Entity(s, e, "A") for s, e in keys if e < 7])]
    torch.manual_seed(0)
    model = Model.build(config_of(lstm=0, spans=4, draws=1), sentences)
    indices = set()

    def noted(scores: DenoisedScores, *args: Any) -> ProposalMatches:
        matches = match_proposals(scores, *args)
        assert scores.types.shape[1] == 7
        assert sorted(matches.proposal.tolist()) == list(range(7))
        assert len(set(matches.entity.tolist())) == 7
        indices.update(matches.entity.tolist())
        return matches

    monkeypatch.setattr(diffusion, "match_proposals", noted)
    train(model, sentences, 60)
    assert indices == set(range(len(sentences[0].entities)))


def test_trains_and_predicts_very_long_sentences() -> None:
    """A batch has a sentence of 5000 words and one of a single word."""
    words = [f"w{number % 90}" for number in range(5000)]
    keys: list[Key] = [(0, 3, 0), (4999, 5000, 1), (200, 4800, 0)]
    entities = [Entity(start, end, "AB"[type_]) for start, end, type_ in keys]
    sentences = [Sentence(words, entities), Sentence(["w1"], [Entity(0, 1, "A")])]
    torch.manual_seed(0)
    predict = {"threshold": 0.0, "select": "keep-all", "spans": 9, "steps": 2}
    model = Model.build(config_of(predict, lstm=0, spans=4, draws=1), sentences)
    losses = train(model, sentences, 2)
    assert all(math.isfinite(loss) for loss in losses)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    denoiser = model.network.denoiser
    with torch.no_grad():
        denoiser.classifier[-1].bias[0] -= 9  # all spans are entities, unless they end before they start
    predictions: list[list[Entity]] = [[], []]
    for _ in range(2):  # with swapped pointers, spans that ended too early are valid
        denoiser.pointers = torch.nn.ModuleList(reversed(list(denoiser.pointers)))
        for sentence, entities in zip(recogniser_of(model).predict(sentences), predictions, strict=True):
            entities.extend(sentence.entities)
    for entities, expected in zip(predictions, sentences, strict=True):
        assert entities
        assert all(0 <= entity.start < entity.end <= len(expected) for entity in entities)
    assert {(entity.start, entity.end) for entity in predictions[1]} == {(0, 1)}
