"""What is found in texts, and how it leaves: as a JSON object with character offsets, or as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, tee
from typing import TYPE_CHECKING, Any

from fencepost.data.formats.json_fields import name

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.data.text.splitter import Offsets
    from fencepost.runtime.prediction.texts import Text
    from fencepost.runtime.recogniser import Annotated, Recogniser, Span

DIGITS = 4  # of a confidence


@dataclass(frozen=True, slots=True)
class Found:
    """A text and what is found in it."""

    source: Text
    annotated: Annotated


@dataclass(slots=True)
class Tally:
    """What has passed so far."""

    texts: int = 0
    sentences: int = 0
    entities: int = 0

    def counting(self, found: Iterable[Found]) -> Iterator[Found]:
        for one in found:
            self.texts += 1
            self.sentences += len(one.annotated.sentences)
            self.entities += sum(len(sentence.entities) for sentence in one.annotated.sentences)
            yield one


def find(recogniser: Recogniser, texts: Iterable[Text]) -> Iterator[Found]:
    """What is found in each text, in order, as a stream. All texts have words, or none has."""
    texts = iter(texts)
    first = next(texts, None)
    if first is not None:
        way = _raw if first.sentences is None else _with_words
        yield from way(recogniser, chain([first], texts))


def _raw(recogniser: Recogniser, texts: Iterator[Text]) -> Iterator[Found]:
    texts, again = tee(texts)
    documents = recogniser.annotate(text.text for text in texts)
    for document, text in zip(documents, again, strict=False):
        yield Found(text, document)


def _with_words(recogniser: Recogniser, texts: Iterator[Text]) -> Iterator[Found]:
    from fencepost.runtime.recogniser import Annotated

    texts, again = tee(texts)
    predicted = recogniser.predict(sentence for text in texts for sentence in text.sentences or ())
    for text in again:
        yield Found(text, Annotated(text.text, list(islice(predicted, len(text.offsets))), text.offsets))


def as_object(found: Found) -> dict[str, Any]:
    """What was carried along, the text, and the entities by character."""
    return {**head_of(found.source), "entities": [entity_record(span) for span in found.annotated.spans]}


def entity_record(span: Span) -> dict[str, Any]:
    return {
        "start": span.start,
        "end": span.end,
        "type": span.type,
        "score": round(span.score, DIGITS),
        "text": span.text,
    }


def head_of(text: Text) -> dict[str, Any]:
    """All of the object that is known before anything is found."""
    return {**text.carried, "text": text.text}


def as_sentences(found: Iterable[Found]) -> Iterator[Sentence]:
    """The sentences, for the corpus formats; those of a raw text know which text they belong to."""
    for number, one in enumerate(found, start=1):
        if one.source.sentences is None:
            yield from _named(one, number)
        else:
            yield from one.annotated.sentences


def _named(found: Found, number: int) -> Iterator[Sentence]:
    carried = dict(found.source.carried)
    id_key, id_ = name(carried, ("id",))
    doc_key, doc = name(carried, ("doc", "doc_id"))
    meta = {key: value for key, value in carried.items() if key not in (id_key, doc_key)}
    pairs = zip(found.annotated.sentences, found.annotated.offsets, strict=True)
    for place, (sentence, offsets) in enumerate(pairs, start=1):
        yield replace(
            sentence,
            id=None if id_ is None and doc is None else f"{id_ or doc}-{place}",
            doc=doc or id_ or str(number),
            space_after=_spaces(offsets),
            meta=meta,
        )


def _spaces(offsets: Iterable[Offsets]) -> list[bool]:
    return [behind > end for (_, end), (behind, _) in pairwise(offsets)] + [True]
