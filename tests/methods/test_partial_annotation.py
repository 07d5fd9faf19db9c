"""Sentences that are annotated with some types only say nothing about other types."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.methods.model import Model
from fencepost.methods.network import Gold, merge_classes
from fencepost.methods.registry import METHODS
from tests.methods.running import predict

torch.set_num_threads(1)

PEOPLE = [
    Sentence(["Ada", "met", "him", "in", "London"], [Entity(0, 1, "PER")]),
    Sentence(["Charles", "met", "her", "in", "London"], [Entity(0, 1, "PER")]),
    Sentence(["he", "met", "Ada", "in", "Paris"], [Entity(2, 3, "PER")]),
]
PLACES = [
    Sentence(["London", "is", "large"], [Entity(0, 1, "LOC")]),
    Sentence(["in", "Paris"], [Entity(1, 2, "LOC")]),
    Sentence(["he", "is", "in", "London"], [Entity(3, 4, "LOC")]),
    Sentence(["her", "London", "is", "large"], [Entity(1, 2, "LOC")]),
]


def annotate(sentences: list[Sentence], *types: str) -> list[Sentence]:
    return [replace(sentence, meta={"annotated_types": list(types)}) for sentence in sentences]


def build(method: str, sentences: list[Sentence]) -> Model:
    torch.manual_seed(0)
    config = {"method": {"name": method}, "encoder": {"name": "scratch", "scratch": {"word_dropout": 0.0}}}
    return Model.build(Config.parse(config), sentences)


def train(method: str, sentences: list[Sentence]) -> Model:
    model = build(method, sentences)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        model(model.collate(sentences))["loss"].backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("method", [name for name in METHODS if name != "diffusion"])
def test_types_without_annotation_are_predicted(method) -> None:
    places = {0: (4, 5, "LOC"), 1: (4, 5, "LOC"), 2: (4, 5, "LOC")}

    def find_places(model: Model) -> dict[int, tuple[int, int, str]]:
        predicted = predict(model, [sentence.with_entities(()) for sentence in PEOPLE])
        return {
            index: entity.key
            for index, sentence in enumerate(predicted)
            for entity in sentence.entities
            if entity.type == "LOC"
        }

    partial = train(method, [*annotate(PEOPLE, "PER"), *annotate(PLACES, "LOC")])
    assert find_places(partial) == places
    complete = train(method, [*PEOPLE, *PLACES])
    assert find_places(complete) == {}


@pytest.mark.parametrize("method", METHODS)
def test_sentence_without_annotated_types_has_no_loss(method) -> None:
    model = build(method, [*PEOPLE, *PLACES])
    empty = annotate([sentence.with_entities(()) for sentence in PEOPLE])
    assert model(model.collate(empty))["loss"].item() == pytest.approx(0, abs=1e-5)
    model.zero_grad()
    model(model.collate(empty))["loss"].backward()
    assert all(p.grad is None or p.grad.abs().sum() < 1e-3 for p in model.parameters())


@pytest.mark.parametrize("method", METHODS)
def test_listing_all_types_equals_full_annotation(method) -> None:
    sentences = [*PEOPLE, *PLACES]
    model = build(method, sentences).eval()
    losses = []
    for data in (sentences, annotate(sentences, "PER", "LOC", "unknown")):
        torch.manual_seed(1)
        losses.append(model(model.collate(data))["loss"].item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_merged_class_has_the_sum_of_probabilities() -> None:
    logits = torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True)
    annotated = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    logarithms = merge_classes(logits, annotated)
    p = logits.softmax(dim=1)
    torch.testing.assert_close(logarithms[0], p[0].log())
    torch.testing.assert_close(logarithms[1, 0].exp(), p[1, 0] + p[1, 2] + p[1, 3])
    torch.testing.assert_close(logarithms[1, 1].exp(), p[1, 1])
    torch.testing.assert_close(logarithms[2, 0].exp(), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(logarithms.exp().sum(dim=1), torch.ones(3, 2, dtype=torch.float64))
    logarithms[:, 0].sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_part_of_a_batch_keeps_its_annotated_types() -> None:
    annotated = torch.tensor([[True, False], [True, True], [False, True]])
    gold = Gold.from_columns(torch.tensor([[0, 0, 1, 0], [2, 1, 2, 1]]), annotated)
    part = gold.take([2, 1])
    assert part.annotated is not None
    assert part.annotated.tolist() == [[False, True], [True, True]]


def test_windows_of_a_long_sentence_keep_its_annotated_types() -> None:
    words = ["word"] * 700
    long = Sentence(words, [Entity(0, 1, "PER")], meta={"annotated_types": ["PER"]})
    model = build("boundary-smoothing", [long, *PLACES])
    parts = model.split([long])
    assert all(part.annotated_types == {"PER"} for part in parts)
