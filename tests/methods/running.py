"""Prediction in tests: a network's graphs in PyTorch, and a model's predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Words
from fencepost.methods.decoder import Graphs, WordArrays
from fencepost.methods.model import Model
from fencepost.methods.network import Network
from fencepost.runtime.pytorch import ModuleGraph, make_predictor
from fencepost.runtime.recogniser import Recogniser


def graphs_of(network: Network, words: Words) -> Graphs:
    """Return the graphs that a decoder runs; `words` are an example."""
    return {name: ModuleGraph(graph) for name, graph in network.eval().graphs(words).items()}


def arrays_of(words: Words) -> WordArrays:
    parts = (words.vectors, words.lengths, words.prompts)
    return WordArrays(*(None if part is None else part.detach().numpy() for part in parts))


def recogniser_of(model: Model, **settings: Any) -> Recogniser:
    """Return a recogniser with the given settings of prediction."""
    recogniser = Recogniser(make_predictor(model.eval()))
    return recogniser.with_options(**settings) if settings else recogniser


def predict(model: Model, sentences: Iterable[Sentence], **settings: Any) -> list[Sentence]:
    return list(recogniser_of(model, **settings).predict(sentences))


def scores_of(model: Model, sentence: Sentence) -> Any:
    """Return the scores of the decoder for a single sentence."""
    batches: list[Any] = []
    make_predictor(model.eval()).predict_entities([sentence], lambda _, __, scores: batches.append(scores))
    return batches[0]


def loss_of(model: Model, sentences: Iterable[Sentence]) -> float:
    """Return the loss as the trainer computes it on development data."""
    losses: list[tuple[float, int]] = []

    def watch(batch: Sequence[Sentence], words: WordArrays, _: Any) -> None:
        losses.append((model.compute_loss(batch, words), len(batch)))

    list(recogniser_of(model).predict(sentences, watch))
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)
