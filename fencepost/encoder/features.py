"""What a word vector may have besides the encoder's: characters, part of speech, word vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import NAMED, PAD, Vocabulary, word_shape
from fencepost.encoder.embedder import Batch
from fencepost.encoder.settings import EncoderSettings

_LEAST_SHAPES = 3
"""Words that a shape needs in training to have an embedding of its own; the others share one."""


def names_by_frequency(names: Iterable[str], min_count: int = 1) -> list[str]:
    """Each name once, the frequent ones first, in an order that only their counts and spelling decide."""
    counts = Counter(names)
    return sorted(
        (name for name in counts if counts[name] >= min_count), key=lambda name: (-counts[name], name)
    )


class Feature(nn.Module, ABC):
    """Adds `width` numbers to each word vector."""

    width: int

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """`[B, T, width]`."""


class Characters(Feature):
    """A word from its letters: a BiLSTM's two last states, or a convolution's maximum."""

    def __init__(self, kind: Literal["cnn", "lstm"], size: int, width: int, names: Sequence[str]) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(NAMED + len(names), size, padding_idx=PAD)
        self.reader: nn.Module
        if kind == "cnn":
            self.reader = nn.Conv1d(size, width, kernel_size=3, padding=1)
        else:
            self.reader = nn.LSTM(size, width // 2, batch_first=True, bidirectional=True)

    def forward(self, batch: Batch) -> Tensor:
        spelt = self.embedding(batch["letters"])  # [W, L, size]
        if isinstance(self.reader, nn.Conv1d):
            read = self.reader(spelt.transpose(1, 2))  # [W, width, L]
            beyond = (batch["letters"] == PAD)[:, None]
            words = read.masked_fill(beyond, float("-inf")).amax(dim=2).tanh()  # [W, width]
        else:
            counts = batch["letter_counts"]
            packed = pack_padded_sequence(spelt, counts.cpu(), batch_first=True, enforce_sorted=False)
            with torch.autocast(spelt.device.type, enabled=False):  # bfloat16 has no packed LSTM on CPUs
                read, _ = self.reader(packed)
            read, _ = pad_packed_sequence(read, batch_first=True)  # [W, L, width]
            forward, backward = read.chunk(
                2, dim=2
            )  # whose last states are at the last letter, and the first
            last = (counts - 1)[:, None, None].expand(-1, 1, forward.shape[2])
            words = torch.cat((forward.gather(1, last)[:, 0], backward[:, 0]), dim=1)
        placed: Tensor = words[batch["letters_of"]]  # [B, T, width]
        return placed


class NamedEmbedding(Feature):
    """An embedding of what the batch has as `key`: a word's shape, or its part of speech if that is known."""

    def __init__(self, key: str, width: int, names: Sequence[str]) -> None:
        super().__init__()
        self.key, self.width = key, width
        self.embedding = nn.Embedding(NAMED + len(names), width, padding_idx=PAD)

    def forward(self, batch: Batch) -> Tensor:
        vectors: Tensor = self.embedding(batch[self.key])
        return vectors


class WordVectors(NamedEmbedding):
    """Vectors read from a file; a word is looked up as it is, then in lower case, else it is zeros."""

    def __init__(self, width: int, names: Sequence[str], *, trained: bool) -> None:
        super().__init__("vectors", width, names)
        nn.init.zeros_(self.embedding.weight)
        self.embedding.weight.requires_grad_(trained)


def vocabulary(settings: EncoderSettings, sentences: Sequence[Sentence]) -> Vocabulary:
    """What the encoder must know by name: from the training data, and only what its settings use."""
    found: Vocabulary = {}
    scratch = settings.name == "scratch"
    words = (word for sentence in sentences for word in sentence.words)
    if scratch and settings.scratch.word_size:
        found["words"] = names_by_frequency(words, settings.scratch.min_count)
    if settings.features.characters or (scratch and settings.scratch.characters != "none"):
        letters = (letter for sentence in sentences for word in sentence.words for letter in word)
        found["characters"] = names_by_frequency(letters)
    if settings.features.shape:
        written = (word_shape(word) for sentence in sentences for word in sentence.words)
        found["shapes"] = names_by_frequency(written, min_count=_LEAST_SHAPES)
    if settings.features.pos:
        found["pos"] = names_by_frequency(tag for sentence in sentences for tag in sentence.pos or ())
    return found


def features(settings: EncoderSettings, known: Vocabulary, vector_width: int) -> list[Feature]:
    """The features that the settings ask for."""
    wanted = settings.features
    found: list[Feature] = []
    if wanted.characters:
        size = settings.scratch.character_size
        found.append(Characters("lstm", size, wanted.characters, known["characters"]))
    if wanted.shape:
        found.append(NamedEmbedding("shapes", wanted.shape, known["shapes"]))
    if wanted.pos:
        found.append(NamedEmbedding("pos", wanted.pos, known["pos"]))
    if wanted.vectors is not None:
        found.append(WordVectors(vector_width, known["vectors"], trained=wanted.train_vectors))
    return found
