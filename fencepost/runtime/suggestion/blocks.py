"""Splitting of texts into blocks that are computed together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, tee

from fencepost.data.entity import Sentence
from fencepost.data.formats.json_fields import is_json
from fencepost.errors import UsageError
from fencepost.runtime.chunks import chunk_texts
from fencepost.runtime.document import Document
from fencepost.runtime.prediction.results import PredictedText, to_sentences
from fencepost.runtime.prediction.text import Text
from fencepost.runtime.recogniser import Recogniser, SplitSentence


def read_blocks(
    recogniser: Recogniser, texts: Iterable[Text], skip: int
) -> Iterator[tuple[list[Text], list[SplitSentence]]]:
    """Yield blocks of texts with their sentences; the first `skip` texts need not be split into sentences."""
    texts = iter(texts)
    first = next(texts, None)
    texts = chain([] if first is None else [first], texts)
    stream: Iterator[SplitSentence] | None = None
    if first is not None and first.sentences is not None:  # the context of one may be in another block
        texts, again = tee(texts)
        stream = recogniser.prepare_sentences(one for text in again for one in text.sentences or ())
    count = 0
    for block in chunk_texts(texts, lambda text: len(text.text)):
        prepared: list[SplitSentence] = []
        for number, text in enumerate(block, start=count + 1):
            if (text.sentences is None) != (stream is None):
                raise UsageError("texts must be all strings or all sentences")
            if stream is not None:
                sentences = list(islice(stream, len(text.sentences or ())))
            else:
                sentences = list(recogniser.prepare(text.text)) if count >= skip else []
            prepared += _add_names(text, sentences, number)
        count += len(block)
        yield block, [one for one in prepared if one.sentence.words]


def to_text(text: str | Sentence) -> Text:
    """Return a string, or a sentence without its entities, as a text to predict."""
    if isinstance(text, Sentence):
        return Text(text.text, sentences=[text.with_entities(())], offsets=[text.word_offsets()])
    return Text(text)


def extend_digest(digest: str, block: Sequence[Text]) -> str:
    """Return a digest of the earlier texts, which have this digest, and of these."""
    total = hashlib.sha256(digest.encode())
    for text in block:
        total.update(hashlib.sha256(text.text.encode("utf-8", "surrogatepass")).digest())
    return total.hexdigest()


def _add_names(text: Text, prepared: Sequence[SplitSentence], number: int) -> Iterator[SplitSentence]:
    """Yield the sentences of a text with their ids, their document and the other fields of the text."""
    annotated = Document(text.text, [one.sentence for one in prepared], [one.words for one in prepared])
    for one, sentence in zip(prepared, to_sentences([PredictedText(text, annotated)], number), strict=True):
        meta = sentence.meta if is_json(dict(sentence.meta)) else {}
        yield replace(one, sentence=replace(sentence, meta=meta))
