"""Texts in blocks that are computed together, with their sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, tee

from fencepost.data.entity import Sentence
from fencepost.data.formats.json_fields import is_json
from fencepost.errors import UsageError
from fencepost.runtime.chunks import chunk_texts
from fencepost.runtime.prediction.results import PredictedText, to_sentences
from fencepost.runtime.prediction.text import Text
from fencepost.runtime.recogniser import Annotated, Prepared, Recogniser


def read_blocks(
    recogniser: Recogniser, texts: Iterable[Text], done: int
) -> Iterator[tuple[list[Text], list[Prepared]]]:
    """Yield texts that are computed together, with their sentences; the first `done` without, if possible."""
    texts = iter(texts)
    first = next(texts, None)
    texts = chain([] if first is None else [first], texts)
    stream: Iterator[Prepared] | None = None
    if first is not None and first.sentences is not None:  # neighbouring ones may be in different blocks
        texts, again = tee(texts)
        stream = recogniser.prepare_sentences(one for text in again for one in text.sentences or ())
    passed = 0
    for block in chunk_texts(texts, lambda text: len(text.text)):
        prepared: list[Prepared] = []
        for number, text in enumerate(block, start=passed + 1):
            if (text.sentences is None) != (stream is None):
                raise UsageError("texts are strings, or all of them sentences; they cannot be mixed")
            if stream is not None:
                of_text = list(islice(stream, len(text.sentences or ())))
            else:
                of_text = list(recogniser.prepare(text.text)) if passed >= done else []
            prepared += _name(text, of_text, number)
        passed += len(block)
        yield block, [one for one in prepared if one.sentence.words]


def to_text(text: str | Sentence) -> Text:
    """Return a string, or a sentence without its entities, as a text to predict."""
    if isinstance(text, Sentence):
        return Text(text.text, sentences=[text.with_entities(())], offsets=[text.word_offsets()])
    return Text(text)


def extend_digest(digest: str, block: Sequence[Text]) -> str:
    """Return a digest of these texts and those before."""
    total = hashlib.sha256(digest.encode())
    for text in block:
        total.update(hashlib.sha256(text.text.encode("utf-8", "surrogatepass")).digest())
    return total.hexdigest()


def _name(text: Text, prepared: Sequence[Prepared], number: int) -> Iterator[Prepared]:
    """Yield the sentences of a text with what else is known of them."""
    annotated = Annotated(text.text, [one.sentence for one in prepared], [one.words for one in prepared])
    for one, sentence in zip(prepared, to_sentences([PredictedText(text, annotated)], number), strict=True):
        meta = sentence.meta if is_json(dict(sentence.meta)) else {}
        yield replace(one, sentence=replace(sentence, meta=meta))
