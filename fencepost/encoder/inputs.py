"""Conversion of sentences to the input arrays of an encoder, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import (
    Arrays,
    Vocabulary,
    number_blocks,
    number_forms,
    number_letters,
    number_names,
    number_shapes,
    number_subwords,
    number_tags,
    number_words,
)
from fencepost.encoder.settings import EncoderSettings
from fencepost.encoder.subwords import Subwords
from fencepost.encoder.windows import Part, split_sentence


class InputReader:
    """Function from sentences to the input arrays of an encoder.

    Transformers have `subwords` and `room`; `block` is 0 if each sentence is read by itself.
    """

    def __init__(
        self, settings: EncoderSettings, known: Vocabulary, subwords: Subwords | None, room: int | None
    ) -> None:
        self.subwords, self.room = subwords, room
        self.block = min(settings.block or 0, room or 0)  # models of earlier versions have no such setting
        parts: list[Callable[[Sequence[Sentence]], Arrays]] = []
        if subwords is not None and room is not None:
            first_only = settings.pooling == "first"
            if self.block:
                parts.append(partial(number_blocks, subwords=subwords, room=room, first_only=first_only))
            else:
                context = settings.context > 0
                parts.append(
                    partial(
                        number_subwords, subwords=subwords, room=room, context=context, first_only=first_only
                    )
                )
        if "words" in known:
            parts.append(partial(number_words, numbers=number_names(known["words"])))
        if "characters" in known:
            parts.append(partial(number_letters, numbers=number_names(known["characters"])))
        if "shapes" in known:
            parts.append(partial(number_shapes, numbers=number_names(known["shapes"])))
        if "pos" in known:
            parts.append(partial(number_tags, numbers=number_names(known["pos"])))
        if "vectors" in known:
            parts.append(partial(number_forms, numbers=number_names(known["vectors"])))
        self._parts = parts

    def __call__(self, sentences: Sequence[Sentence]) -> Arrays:
        """Return the input arrays of sentences, which must not be empty."""
        arrays: Arrays = {"lengths": np.array([len(sentence) for sentence in sentences], dtype=np.int64)}
        for part in self._parts:
            arrays |= part(sentences)
        return arrays

    def sizes(self, words: Sequence[str]) -> list[int]:
        """Return the number of sub-words of each word; 1 if words are read whole."""
        return [1] * len(words) if self.subwords is None else [len(ids) for ids in self.subwords(words)]

    def split(self, sentence: Sentence) -> list[Part]:
        """Return the sentence as one part if it fits into the encoder, or else as windows."""
        return split_sentence(sentence, self.sizes(sentence.words), self.room)
