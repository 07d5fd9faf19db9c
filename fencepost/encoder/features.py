"""Features that extend the word vectors of an encoder: characters, shapes, parts of speech, word vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import NAMED, PAD, Vocabulary, get_shape
from fencepost.encoder.bilstm import run_bilstm
from fencepost.encoder.embedder import Batch
from fencepost.encoder.settings import EncoderSettings

_LEAST_SHAPES = 3
"""Minimum number of training words of a shape with its own embedding; all other shapes share one."""


def sort_by_frequency(names: Iterable[str], min_count: int = 1) -> list[str]:
    """Return each name once, sorted by descending count, then by spelling."""
    counts = Counter(names)
    return sorted(
        (name for name in counts if counts[name] >= min_count), key=lambda name: (-counts[name], name)
    )


class Feature(nn.Module, ABC):
    """Interface of features, which extend each word vector by `width` numbers."""

    width: int

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Return the features of each word, `[B, T, width]`."""


class Characters(Feature):
    """Vector of a word's letters: the last states of a BiLSTM, or the maximum of a convolution."""

    def __init__(self, kind: Literal["cnn", "lstm"], size: int, width: int, names: Sequence[str]) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(NAMED + len(names), size, padding_idx=PAD)
        self.reader: nn.Conv1d | nn.LSTM
        if kind == "cnn":
            self.reader = nn.Conv1d(size, width, kernel_size=3, padding=1)
        else:
            self.reader = nn.LSTM(size, width // 2, batch_first=True, bidirectional=True)

    def forward(self, batch: Batch) -> Tensor:
        letters = self.embedding(batch["letters"])  # [W, L, size]
        if isinstance(self.reader, nn.Conv1d):
            states = self.reader(letters.transpose(1, 2))  # [W, width, L]
            padding = (batch["letters"] == PAD)[:, None]
            words = states.masked_fill(padding, float("-inf")).amax(dim=2).tanh()  # [W, width]
        else:
            counts = batch["letter_counts"]
            states = run_bilstm(self.reader, letters, counts)  # [W, L, width]
            forward, backward = states.chunk(2, dim=2)
            last = (counts - 1)[:, None, None].expand(-1, 1, forward.shape[2])
            words = torch.cat((forward.gather(1, last)[:, 0], backward[:, 0]), dim=1)
        features: Tensor = words[batch["letters_of"]]  # [B, T, width]
        return features


class NamedEmbedding(Feature):
    """Embedding of the names whose numbers are in the batch as `key`, such as shapes or parts of speech."""

    def __init__(self, key: str, width: int, names: Sequence[str]) -> None:
        super().__init__()
        self.key, self.width = key, width
        self.embedding = nn.Embedding(NAMED + len(names), width, padding_idx=PAD)

    def forward(self, batch: Batch) -> Tensor:
        vectors: Tensor = self.embedding(batch[self.key])
        return vectors


class WordVectors(NamedEmbedding):
    """Word vectors from a file; words that are not in it, even in lower case, have zeros."""

    def __init__(self, width: int, names: Sequence[str], *, trained: bool) -> None:
        super().__init__("vectors", width, names)
        nn.init.zeros_(self.embedding.weight)
        self.embedding.weight.requires_grad_(trained)


def build_vocabulary(settings: EncoderSettings, sentences: Sequence[Sentence]) -> Vocabulary:
    """Return the vocabulary of training sentences, with the kinds of names that the settings need."""
    known: Vocabulary = {}
    scratch = settings.name == "scratch"
    words = [word for sentence in sentences for word in sentence.words]
    if scratch and settings.scratch.word_size:
        known["words"] = sort_by_frequency(words, settings.scratch.min_count)
    if settings.features.characters or (scratch and settings.scratch.characters != "none"):
        known["characters"] = sort_by_frequency(letter for word in words for letter in word)
    if settings.features.shape:
        known["shapes"] = sort_by_frequency(map(get_shape, words), min_count=_LEAST_SHAPES)
    if settings.features.pos:
        known["pos"] = sort_by_frequency(tag for sentence in sentences for tag in sentence.pos or ())
    return known


def make_features(settings: EncoderSettings, known: Vocabulary, vector_width: int) -> list[Feature]:
    """Return the features that the settings enable."""
    enabled = settings.features
    features: list[Feature] = []
    if enabled.characters:
        size = settings.scratch.character_size
        features.append(Characters("lstm", size, enabled.characters, known["characters"]))
    if enabled.shape:
        features.append(NamedEmbedding("shapes", enabled.shape, known["shapes"]))
    if enabled.pos:
        features.append(NamedEmbedding("pos", enabled.pos, known["pos"]))
    if enabled.vectors is not None:
        features.append(WordVectors(vector_width, known["vectors"], trained=enabled.train_vectors))
    return features
