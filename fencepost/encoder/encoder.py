"""The encoder: word vectors of a transformer or trained from scratch, with optional features and a BiLSTM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from fencepost.data.context import has_documents
from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import NAMED, Vocabulary
from fencepost.encoder.bilstm import run_bilstm
from fencepost.encoder.embedder import Batch, Embedder, to_tensors
from fencepost.encoder.features import WordVectors, build_vocabulary, make_features
from fencepost.encoder.inputs import InputReader
from fencepost.encoder.scratch import Scratch
from fencepost.encoder.settings import BLOCK, SHAPE_SIZE, EncoderSettings, LSTMSettings
from fencepost.encoder.vectors import read_vectors
from fencepost.encoder.vocabulary import VOCABULARY_FILE, read_vocabulary
from fencepost.errors import DataError


@dataclass(frozen=True, slots=True)
class Words:
    """Input of a method: the vectors of words, and of the prompts that the method needs."""

    vectors: Tensor  # [B, T, d]
    lengths: Tensor  # [B]
    prompts: Tensor | None = None  # [B, P, d]

    @property
    def mask(self) -> Tensor:
        """Which positions are words and not padding, `[B, T]`."""
        positions = torch.arange(self.vectors.shape[1], device=self.lengths.device)
        return positions < self.lengths[:, None]


class Encoder(nn.Module):
    """Network from a batch of sentences to `Words`."""

    VOCABULARY_FILE = VOCABULARY_FILE

    def __init__(
        self,
        settings: EncoderSettings,
        embedder: Embedder,
        known: Vocabulary,
        prompts: int = 0,
        vector_width: int = 0,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.embedder = embedder
        self.known = known
        self.vector_width = vector_width
        self.inputs = InputReader(settings, known, embedder.subwords, embedder.room)
        features = make_features(settings, known, vector_width)
        self.features = nn.ModuleList(features)
        self.prompts = nn.Parameter(torch.randn(prompts, embedder.prompt_width)) if prompts else None
        width = embedder.width + sum(feature.width for feature in features)
        self.lstm = BiLSTM(width, settings.lstm) if settings.lstm.size else None
        self.width: int = settings.lstm.size or width

    @classmethod
    def build(
        cls,
        settings: EncoderSettings,
        sentences: Sequence[Sentence],
        prompts: int = 0,
        prompt_names: Sequence[str] = (),
    ) -> Encoder:
        """Return an untrained encoder for training sentences; prompts are initialised from their names."""
        encoder = cls._build(settings, sentences, prompts)
        if encoder.prompts is not None:
            for prompt, name in zip(encoder.prompts.data, prompt_names, strict=False):
                vector = encoder.embedder.embed_text(name)
                if vector is not None:
                    prompt.copy_(vector)
        return encoder

    @classmethod
    def _build(cls, settings: EncoderSettings, sentences: Sequence[Sentence], prompts: int) -> Encoder:
        settings = _choose_block(settings, sentences)
        known = build_vocabulary(settings, sentences)
        embedder = _make_embedder(settings, known, prompts)
        if settings.features.shape is None:
            settings = _choose_shape(settings, embedder)
            known = build_vocabulary(settings, sentences)
        path = settings.features.vectors
        if path is None:
            return cls(settings, embedder, known, prompts)
        forms = {form for s in sentences for word in s.words for form in (word, word.lower())}
        known["vectors"], vectors = read_vectors(path, settings.features.vectors_limit, forms)
        encoder = cls(settings, embedder, known, prompts, vector_width=vectors.shape[1])
        feature = next(feature for feature in encoder.features if isinstance(feature, WordVectors))
        feature.embedding.weight.data[NAMED:] = torch.from_numpy(vectors)
        return encoder

    @classmethod
    def read(cls, settings: EncoderSettings, folder: Path, prompts: int = 0) -> Callable[[], Encoder]:
        """Read a saved encoder, except for the weights; return a function that builds it.

        Raises `DataError` for an invalid file.
        """
        known, vector_width = read_vocabulary(folder)
        needed = [*build_vocabulary(settings, ()), *(["vectors"] if settings.features.vectors else [])]
        for kind in needed:
            if kind not in known:
                path = folder / VOCABULARY_FILE
                raise DataError(f"the vocabulary of this model has no {kind}", source=str(path))
        known = {kind: known[kind] for kind in needed}
        build_embedder: Callable[[], Embedder] = partial(Scratch, settings.scratch, known)
        if settings.name != "scratch":
            from fencepost.encoder.pretrained import Pretrained

            build_embedder = Pretrained.read(settings, folder, prompts)
        return lambda: cls(settings, build_embedder(), known, prompts, vector_width)

    def save(self, folder: Path) -> None:
        self.embedder.save(folder)
        saved = {"vector_width": self.vector_width, "known": self.known}
        text = json.dumps(saved, indent=0)
        (folder / VOCABULARY_FILE).write_text(text + "\n", encoding="utf-8")

    def pretrained_weights(self) -> Iterator[nn.Parameter]:
        """Yield the weights that are trained at the encoder's learning rate."""
        yield from self.embedder.pretrained_weights()

    def collate(self, sentences: Sequence[Sentence]) -> Batch:
        """Return the input tensors of sentences, which must not be empty."""
        return to_tensors(self.inputs(sentences))

    def forward(self, batch: Batch) -> Words:
        vectors, prompts = self.embedder(batch, self.prompts)  # [B, T, d], [B, P, d]
        vectors = torch.cat([vectors, *(feature(batch) for feature in self.features)], dim=2)
        lengths = batch["lengths"]
        if self.lstm is None and not self.features:
            return Words(vectors, lengths, prompts)
        # the BiLSTM reads prompts, which have no features, and words as one sequence
        extra = 0
        if prompts is not None:
            extra = prompts.shape[1]
            prompts = nn.functional.pad(prompts, (0, vectors.shape[2] - prompts.shape[2]))
            vectors = torch.cat((prompts, vectors), dim=1)  # [B, P + T, d]
        if self.lstm is not None:
            vectors = self.lstm(vectors, lengths + extra)
        return Words(vectors[:, extra:], lengths, vectors[:, :extra] if extra else None)


class BiLSTM(nn.Module):
    """A BiLSTM with `size / 2` units in each direction."""

    def __init__(self, width: int, settings: LSTMSettings) -> None:
        super().__init__()
        self.dropout = nn.Dropout(settings.dropout)
        self.lstm = nn.LSTM(
            width,
            settings.size // 2,
            settings.layers,
            batch_first=True,
            bidirectional=True,
            dropout=settings.dropout if settings.layers > 1 else 0.0,
        )

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Map `[B, T, d]` to `[B, T, size]`, with zeros for padding."""
        return run_bilstm(self.lstm, self.dropout(vectors), lengths)


def _choose_block(settings: EncoderSettings, sentences: Sequence[Sentence]) -> EncoderSettings:
    """Return the settings with blocks of sentences, if the training data has documents with several."""
    if settings.block is not None:
        return settings
    has_blocks = settings.name != "scratch" and not settings.context and has_documents(sentences)
    return settings.model_copy(update={"block": BLOCK if has_blocks else 0})


def _choose_shape(settings: EncoderSettings, embedder: Embedder) -> EncoderSettings:
    """Return the settings with shapes of words, which represent case, if the tokenizer ignores case."""
    ignores_case = embedder.subwords is not None and embedder.subwords.ignores_case()
    features = settings.features.model_copy(update={"shape": SHAPE_SIZE if ignores_case else 0})
    return settings.model_copy(update={"features": features})


def _make_embedder(settings: EncoderSettings, known: Vocabulary, prompts: int) -> Embedder:
    """Return an embedder that is trained from scratch, or a pretrained transformer."""
    if settings.name == "scratch":
        return Scratch(settings.scratch, known)
    from fencepost.encoder.pretrained import Pretrained

    return Pretrained.fetch(settings, prompts)
