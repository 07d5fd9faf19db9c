"""Prediction of texts, and their conversion to JSON objects and to sentences of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, repeat, tee
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats.json_fields import find_name
from fencepost.runtime.document import Document
from fencepost.runtime.offsets import OffsetUnit
from fencepost.runtime.prediction.text import Text
from fencepost.runtime.recogniser import Recogniser


@dataclass(frozen=True, slots=True)
class PredictedText:
    """A text as it was read, and the same text with the predicted entities."""

    source: Text
    annotated: Document
    unit: OffsetUnit = "characters"

    def to_record(self) -> dict[str, Any]:
        """Return the other fields of the input, the text, and the entities with their offsets."""
        return {**self.source.to_record(), **self.annotated.to_dict(self.unit)}


@dataclass(slots=True)
class Counts:
    """Numbers of texts, sentences and entities."""

    texts: int = 0
    sentences: int = 0
    entities: int = 0

    def count(self, predicted: Iterable[PredictedText]) -> Iterator[PredictedText]:
        """Yield the same texts, and count them."""
        for one in predicted:
            self.texts += 1
            self.sentences += len(one.annotated.sentences)
            self.entities += sum(len(sentence.entities) for sentence in one.annotated.sentences)
            yield one

    def add(self, other: Counts) -> None:
        self.texts += other.texts
        self.sentences += other.sentences
        self.entities += other.entities


def predict_texts(
    recogniser: Recogniser, texts: Iterable[Text], unit: OffsetUnit = "characters"
) -> Iterator[PredictedText]:
    """Yield each text with its entities, in order; either all texts have words, or none has.

    `unit` is that of the offsets in their JSON objects.
    """
    texts = iter(texts)
    first = next(texts, None)
    if first is None:
        return
    texts, again = tee(chain([first], texts))
    if first.sentences is None:
        annotated = recogniser.annotate(text.text for text in texts)
        yield from map(PredictedText, again, annotated, repeat(unit))
        return
    predicted = recogniser.predict(sentence for text in texts for sentence in text.sentences or ())
    for text in again:
        sentences = list(islice(predicted, len(text.offsets)))
        yield PredictedText(text, Document(text.text, sentences, text.offsets), unit)


def to_sentences(predicted: Iterable[PredictedText], first: int = 1) -> Iterator[Sentence]:
    """Yield the sentences of all texts; those of a raw text have its id as their document.

    `first` is the number of the first text.
    """
    for number, one in enumerate(predicted, start=first):
        if one.source.sentences is None:
            yield from _add_names(one, number)
        else:
            yield from one.annotated.sentences


def _add_names(text: PredictedText, number: int) -> Iterator[Sentence]:
    """Yield the sentences of a raw text with ids and the other fields of the text."""
    fields = text.source.fields
    id_key, id_ = find_name(fields, ("id",))
    doc_key, doc = find_name(fields, ("doc", "doc_id"))
    meta = {key: value for key, value in fields.items() if key not in (id_key, doc_key)}
    pairs = zip(text.annotated.sentences, text.annotated.offsets, strict=True)
    for position, (sentence, offsets) in enumerate(pairs, start=1):
        yield replace(
            sentence,
            id=None if id_ is None and doc is None else f"{id_ or doc}-{position}",
            doc=doc or id_ or str(number),
            space_after=[start > end for (_, end), (start, _) in pairwise(offsets)] + [True],
            meta=meta,
        )
