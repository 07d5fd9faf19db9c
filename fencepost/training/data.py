"""The data of a training run: held-out sentences, fingerprints, and settings that have no effect with it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fencepost.config import Config, TrainingSettings
from fencepost.data.context import add_context, has_documents
from fencepost.data.entity import Sentence
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import UsageError
from fencepost.methods.registry import METHODS

_OF_ALL_ENCODERS = ("name", "lstm", "scratch", "features")
"""Settings of encoders that are trained from scratch, too."""


@dataclass(frozen=True)
class SoftData:
    """Sentences with soft entities, and a hash of their texts and of the model that made the entities.

    The entities themselves may differ a little when they are computed again, as for a resumed training run.
    `counts` are numbers of sentences, for the record of the training.
    """

    sentences: Sequence[Sentence]
    fingerprint: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


def hold_out(sentences: Sequence[Sentence], share: float, seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """Hold out a share of the sentences, by whole documents, as development data; return (rest, held out).

    A sentence without `doc` is a document by itself. The share is reached, and exceeded by at most the
    smallest remaining document; at least one document remains for training. Raises `UsageError` if the data
    cannot be split.
    """
    if not 0 < share < 1:
        raise UsageError(f"the share to hold out must be between 0 and 1, not {share:g}")
    names = [sentence.doc if sentence.doc is not None else index for index, sentence in enumerate(sentences)]
    sizes = Counter(names)
    if not sizes:
        raise UsageError("the training data has no sentences")
    if len(sizes) == 1:
        raise UsageError(
            "the training data has only 1 document, of which no part can be held out; give --dev"
        )
    documents = list(sizes)
    shuffled = [documents[index] for index in np.random.default_rng(seed).permutation(len(documents))]
    chosen: set[str | int] = set()
    room = share * len(sentences)
    for name in shuffled:
        if sizes[name] <= room:
            chosen.add(name)
            room -= sizes[name]
    others = [name for name in shuffled if name not in chosen]
    if room > 0 and len(others) > 1:
        chosen.add(min(others, key=lambda name: sizes[name]))
    rest = [sentence for sentence, name in zip(sentences, names, strict=True) if name not in chosen]
    out = [sentence for sentence, name in zip(sentences, names, strict=True) if name in chosen]
    return rest, out


def prepare_sentences(sentences: Iterable[Sentence], config: Config) -> list[Sentence]:
    """Return the sentences as they are used in training: with context, and without empty ones."""
    return [s for s in add_context(sentences, config.encoder.context) if s.words]


def compute_fingerprint(sentences: Iterable[Sentence]) -> dict[str, Any]:
    """Return the number of sentences and a hash of them, to recognise the same data."""
    count, content = 0, hashlib.sha256()
    for count, s in enumerate(sentences, start=1):  # noqa: B007 - used after the loop
        entities = [entity.key for entity in s.entities]
        content.update(json.dumps([s.words, entities, s.doc, s.left, s.right, s.pos]).encode())
    return {"sentences": count, "sha256": content.hexdigest()}


def find_idle_settings(
    config: Config, sentences: Sequence[Sentence], dev: Sequence[Sentence] | None
) -> Iterator[str]:
    """Yield a message for each setting that was changed and has no effect, with the reason."""
    encoder = config.encoder
    default = EncoderSettings(**METHODS[config.method.name].defaults.get("encoder", {}))
    if encoder.name == "scratch":
        for key in EncoderSettings.model_fields:
            if key not in _OF_ALL_ENCODERS and getattr(encoder, key) != getattr(default, key):
                yield f"encoder.{key} has no effect: it is for pretrained encoders, not for scratch"
    elif encoder.context and not any(s.doc is not None or s.left or s.right for s in sentences):
        yield "encoder.context has no effect: the training data does not have the sentences' documents"
    elif encoder.block and not has_documents(sentences):
        yield "encoder.block has no effect: the training data does not have the sentences' documents"
    if encoder.name != "scratch" and encoder.scratch != default.scratch and not encoder.features.characters:
        yield "encoder.scratch has no effect: it is for the encoder scratch"
    if encoder.features.pos and not any(sentence.pos for sentence in sentences):
        yield "encoder.features.pos has no effect: the training data has no parts of speech"
    yield from config.method.idle(encoder)
    yield from _find_idle_freezing(config.training, encoder, len(sentences))
    if config.training.patience and dev is None:
        yield "training.patience has no effect: there is no development data"


def _find_idle_freezing(
    training: TrainingSettings, encoder: EncoderSettings, sentences: int
) -> Iterator[str]:
    if not training.frozen_epochs:
        if training.frozen_rate != TrainingSettings().frozen_rate:
            yield "training.frozen_rate has no effect: training.frozen_epochs is 0"
    elif encoder.name == "scratch":
        yield "training.frozen_epochs has no effect: the encoder scratch has no pretrained weights"
    elif training.frozen_epochs >= training.count_epochs(sentences):
        yield "training.frozen_epochs is not below training.epochs: the pretrained weights are never trained"
