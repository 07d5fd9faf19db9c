"""Sentences to the arrays that an encoder reads, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import (
    Arrays,
    Vocabulary,
    forms,
    letters,
    numbered,
    rectangle,
    shapes,
    tags,
    word_numbers,
)
from fencepost.encoder.settings import EncoderSettings
from fencepost.encoder.subwords import Subwords
from fencepost.encoder.windows import Part, split_sentence


class InputReader:
    """All arrays that an encoder with these settings needs; a transformer has `subwords` and a `room`."""

    def __init__(
        self, settings: EncoderSettings, known: Vocabulary, subwords: Subwords | None, room: int | None
    ) -> None:
        self.subwords, self.room = subwords, room
        parts: list[Callable[[Sequence[Sentence]], Arrays]] = []
        if subwords is not None and room is not None:
            first_only = settings.pooling == "first"
            context = settings.context > 0
            parts.append(
                partial(rectangle, subwords=subwords, room=room, context=context, first_only=first_only)
            )
        if "words" in known:
            parts.append(partial(word_numbers, numbers=numbered(known["words"])))
        if "characters" in known:
            parts.append(partial(letters, numbers=numbered(known["characters"])))
        if "shapes" in known:
            parts.append(partial(shapes, numbers=numbered(known["shapes"])))
        if "pos" in known:
            parts.append(partial(tags, numbers=numbered(known["pos"])))
        if "vectors" in known:
            parts.append(partial(forms, numbers=numbered(known["vectors"])))
        self._parts = parts

    def __call__(self, sentences: Sequence[Sentence]) -> Arrays:
        """None of the sentences may be empty."""
        arrays: Arrays = {"lengths": np.array([len(sentence) for sentence in sentences], dtype=np.int64)}
        for part in self._parts:
            arrays |= part(sentences)
        return arrays

    def sizes(self, words: Sequence[str]) -> list[int]:
        """Return the number of pieces of each word, or 1 where words are read whole."""
        return [1] * len(words) if self.subwords is None else [len(of) for of in self.subwords(words)]

    def split(self, sentence: Sentence) -> list[Part]:
        """Return the sentence as one part if it fits into the encoder, or else windows over it."""
        return split_sentence(sentence, self.sizes(sentence.words), self.room)
