"""Prediction in tests: a network's graphs in PyTorch, and a model's predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Words
from fencepost.methods.decoder import Graphs, WordArrays
from fencepost.methods.model import Model
from fencepost.methods.network import Network
from fencepost.runtime.pytorch import ModuleGraph, make_predictor
from fencepost.runtime.recogniser import Recogniser


def graphs_of(network: Network, words: Words) -> Graphs:
    """What a decoder runs; `words` are an example."""
    return {name: ModuleGraph(graph) for name, graph in network.eval().graphs(words).items()}


def arrays_of(words: Words) -> WordArrays:
    parts = (words.vectors, words.lengths, words.prompts)
    return WordArrays(*(None if part is None else part.detach().numpy() for part in parts))


def recogniser_of(model: Model, **settings: Any) -> Recogniser:
    """With other settings of prediction, if any are given."""
    recogniser = Recogniser(make_predictor(model.eval()))
    return recogniser.using(**settings) if settings else recogniser


def predict(model: Model, sentences: Iterable[Sentence], **settings: Any) -> list[Sentence]:
    return list(recogniser_of(model, **settings).predict(sentences))
