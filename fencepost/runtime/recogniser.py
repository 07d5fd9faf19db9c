"""The recogniser: a text in, its entities out, by character offsets.

text -> sentences -> words -> entities -> characters
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np

from fencepost.data.context import with_context
from fencepost.data.entity import Entity, Sentence
from fencepost.data.text import make_splitter
from fencepost.data.text.lines import Lines, check_lines
from fencepost.data.text.splitter import Offsets
from fencepost.encoder.windows import Part, split_sentence
from fencepost.errors import UsageError
from fencepost.methods import candidates as decoding
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import Report, WordArrays
from fencepost.runtime.chunks import chunk_texts
from fencepost.runtime.engine import LOOK_AHEAD, Predictor, Watch
from fencepost.runtime.language import LanguageCheck

C = TypeVar("C")
AddCandidates = Callable[[Sequence[Sentence], WordArrays, Candidates, Candidates], None]
"""Gets sentences, their word vectors, what could be an entity in them, and what is predicted."""


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `[start, end)` of a text, which are `text`, are a `type`, with confidence `score`."""

    start: int
    end: int
    type: str
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class Annotated:
    """A text as sentences with entities; `offsets[i]` says where the words of `sentences[i]` stand in it."""

    text: str
    sentences: Sequence[Sentence]
    offsets: Sequence[Sequence[Offsets]]

    @property
    def spans(self) -> list[Span]:
        """The entities, in reading order."""
        return [
            Span(
                start := words[entity.start][0],
                end := words[entity.end - 1][1],
                entity.type,
                entity.score,
                self.text[start:end],
            )
            for sentence, words in zip(self.sentences, self.offsets, strict=True)
            for entity in sentence.entities
        ]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A sentence before the computation; `words` says where in a text its words are.

    `size` is that of its words, in the unit of `Predictor.sizes`; parts may overlap, and have more together.
    """

    sentence: Sentence
    size: int
    parts: Sequence[Part]
    words: Sequence[Offsets] = ()


class Recogniser:
    """Finds entities in texts. Make one with `fencepost.load`."""

    def __init__(
        self,
        predictor: Predictor,
        *,
        min_confidence: float = 0.0,
        types: Collection[str] | None = None,
        language: str | None = None,
        lines: Lines | None = None,
    ) -> None:
        """`min_confidence` is the least score of what is found; `types` are those to find, unless all.

        Texts are split by the rules of `language`, and at the line breaks that `lines` says: those of the
        model unless set.
        """
        self._predictor = predictor
        self.language = language or predictor.language
        check_lines(lines)
        self.lines: Lines = lines or predictor.lines
        self._splitter = make_splitter(self.language, lines=self.lines)
        self._language_check = LanguageCheck(predictor.profile, predictor.subwords, predictor.language)
        self._check(min_confidence, types)
        self._min_confidence = min_confidence
        self._wanted = None if types is None else frozenset(types)

    @property
    def types(self) -> tuple[str, ...]:
        """The types that the model knows."""
        return self._predictor.types

    @property
    def engine(self) -> str:
        """What runs: `pytorch`, `onnx` or `int8`."""
        return self._predictor.name

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of prediction, by name."""
        tree: dict[str, Any] = self._predictor.predict_settings.model_dump(mode="json")
        return tree

    def with_options(
        self,
        *,
        min_confidence: float | None = None,
        types: Collection[str] | None = None,
        **settings: Any,
    ) -> Recogniser:
        """Return the same model with other options: `with_options(select="flat", min_confidence=0.5)`.

        `settings` are those of prediction, as in `--set predict.KEY=VALUE`; what is not given stays.
        """
        other = copy.copy(self)
        if settings:
            other._predictor = self._predictor.with_options(settings)
        if min_confidence is not None:
            self._check(min_confidence, None)
            other._min_confidence = min_confidence
        if types is not None:
            self._check(0.0, types)
            other._wanted = frozenset(types)
        return other

    def _check(self, min_confidence: float, types: Collection[str] | None) -> None:
        if not 0 <= min_confidence <= 1:
            raise UsageError(f"min_confidence is {min_confidence}; a confidence is between 0 and 1")
        if isinstance(types, str):
            raise UsageError(f"types are a list of names, not the string {types!r}")
        for type_ in types or ():
            if type_ not in self.types:
                raise UsageError.unknown("type", type_, self.types)

    def __call__(self, text: str) -> list[Span]:
        """Return the entities of a text, in reading order."""
        (document,) = self.annotate([text])
        return document.spans

    @overload
    def pipe(self, texts: Iterable[str], *, as_tuples: Literal[False] = False) -> Iterator[list[Span]]: ...

    @overload
    def pipe(
        self, texts: Iterable[tuple[str, C]], *, as_tuples: Literal[True]
    ) -> Iterator[tuple[list[Span], C]]: ...

    def pipe(self, texts: Iterable[Any], *, as_tuples: bool = False) -> Iterator[Any]:
        """Yield the entities of each text, in order: a bounded number of texts is in memory at once.

        With `as_tuples`, texts come as `(text, context)`, and `(entities, context)` is yielded for each.
        """
        if not as_tuples:
            yield from (document.spans for document in self.annotate(texts))
            return
        pairs, again = tee(texts)
        documents = self.annotate(text for text, _ in pairs)
        yield from (
            (document.spans, context) for document, (_, context) in zip(documents, again, strict=False)
        )

    def annotate(self, texts: Iterable[str]) -> Iterator[Annotated]:
        """Yield each text with its sentences, words and entities, in order."""
        if isinstance(texts, str):  # else each of its characters would be one
            raise UsageError("texts are a list of strings; for a single one, call the recogniser with it")
        for chunk in chunk_texts(texts, _length):
            prepared = [list(self.prepare(text)) for text in chunk]
            found = self._entities(chain.from_iterable(prepared))
            for text, own in zip(chunk, prepared, strict=True):
                yield Annotated(text, list(islice(found, len(own))), [one.words for one in own])

    def predict(self, sentences: Iterable[Sentence], watch: Watch | None = None) -> Iterator[Sentence]:
        """Yield the same sentences, in the same order, with the entities that are found.

        Use it where words are known already. `watch` is called with each batch that is computed: sentences,
        or windows of long ones, their word vectors and the scores of the method's decoder.
        """
        yield from self._entities(self.prepare_sentences(sentences), watch)

    def make_reports(self, names: Sequence[str] | None = None) -> dict[str, Report]:
        """Return new reports that the model's method declares about its own steps, all or some, by name."""
        return self._predictor.make_reports(names)

    def watch_reports(self, reports: Mapping[str, Report]) -> Watch:
        """Return what fills these reports: a `watch` for `predict` of annotated sentences."""
        return self._predictor.watch_reports(reports)

    def watch_candidates(self, add: AddCandidates, threshold: float) -> Watch:
        """Return a `watch` that calls `add` with the possible and the predicted entities of each batch.

        The arguments of `add` are the sentences, their word vectors, all spans whose confidence, before
        calibration, reaches the threshold, whether they clash or not, and what is predicted. A span
        starts at `b * T + t` if it starts at word `t` of sentence `b`; confidences are calibrated.
        """
        every = self._predictor.with_options({"threshold": threshold, "select": "keep-all"})
        wanted = np.array([self._wanted is None or type_ in self._wanted for type_ in self.types])

        def watch(sentences: Sequence[Sentence], words: WordArrays, scores: Any) -> None:
            possible = every.select(sentences, scores)
            predicted = self._predictor.select(sentences, scores)
            predicted = predicted.take(predicted.confidence >= self._min_confidence)
            chosen = [spans.take(wanted[spans.type]) for spans in (possible, predicted)]
            add(sentences, words, *chosen)

        return watch

    def prepare(self, text: str, limit: int | None = None) -> Iterator[Prepared]:
        """Yield the sentences of a text with their parts, reading the text only as far as needed.

        With a `limit`, the end is the first word above that number. `compute` finds the entities of parts, in
        any order and any company, and `merge` those of a sentence from those of its parts; `annotate` does
        all three.
        """
        offsets, again = tee(self._splitter.sentences(text, limit))
        sentences = (Sentence([text[start:end] for start, end in words], doc="") for words in again)
        check = self._language_check
        for prepared, words in zip(self.prepare_sentences(sentences), offsets, strict=False):
            if check.rest:
                check.add(prepared.sentence.words)
            yield replace(prepared, sentence=replace(prepared.sentence, doc=None), words=words)
        if not check.is_finished:
            check.finish_text()

    def prepare_sentences(self, sentences: Iterable[Sentence]) -> Iterator[Prepared]:
        """Yield sentences whose words are known already with their parts, as `prepare` does for a text."""
        originals, sentences = tee(sentences)  # the neighbours are for the engine alone
        read = with_context(sentences, self._predictor.context)
        for sentence, original in zip(read, originals, strict=False):
            sizes = self._predictor.sizes(sentence.words)
            parts = split_sentence(sentence, sizes, self._predictor.room)
            yield Prepared(original, sum(sizes), parts)

    def compute(self, parts: Sequence[Part], watch: Watch | None = None) -> list[list[Entity]]:
        """Return the entities of each part."""
        return self._predictor.predict_entities([part.sentence for part in parts], watch)

    def merge(self, prepared: Prepared, found: Sequence[Sequence[Entity]]) -> Sentence:
        """Return the sentence with the entities that were found in its parts."""
        entities = found[0] if len(prepared.parts) == 1 else self._merged(prepared.parts, found)
        return prepared.sentence.with_entities(entity for entity in entities if self._keeps(entity))

    def _entities(self, prepared: Iterable[Prepared], watch: Watch | None = None) -> Iterator[Sentence]:
        stream = iter(prepared)
        while block := list(islice(stream, LOOK_AHEAD)):
            found = iter(self.compute([part for one in block for part in one.parts], watch))
            for one in block:
                yield self.merge(one, list(islice(found, len(one.parts))))

    def _keeps(self, entity: Entity) -> bool:
        return entity.score >= self._min_confidence and (self._wanted is None or entity.type in self._wanted)

    def _merged(self, parts: Sequence[Part], found: Sequence[Sequence[Entity]]) -> list[Entity]:
        """The entities of a sentence's windows: each window answers for those in the middle of its own words.

        So nothing is found twice; and what two windows see differently must not clash.
        """
        entities = [
            replace(entity, start=entity.start + part.start, end=entity.end + part.start)
            for part, of_part in zip(parts, found, strict=True)
            for entity in of_part
            if part.owns(entity)
        ]
        numbers = {type_: number for number, type_ in enumerate(self.types)}
        candidates = Candidates(
            np.array([entity.start for entity in entities], dtype=np.int64),
            np.array([entity.end for entity in entities], dtype=np.int64),
            np.array([numbers[entity.type] for entity in entities], dtype=np.int64),
            np.array([entity.score for entity in entities], dtype=np.float64),
        )
        mode = self._predictor.predict_settings.select
        kept = decoding.select(candidates, mode if mode in ("flat", "nested") else "keep-all")
        columns = (kept.start.tolist(), kept.end.tolist(), kept.type.tolist(), kept.confidence.tolist())
        return [
            Entity(start, end, self.types[type_], score)
            for start, end, type_, score in zip(*columns, strict=True)
        ]

    folder: Path | None = None
    """Where the model's files are; None if it was made in memory."""

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        **options: Any,
    ) -> Recogniser:
        """Return the model in a folder, or else the one of this name on the Hugging Face Hub (`owner/name`).

        It is downloaded once and then found in the cache. `revision` is a branch, a tag or a commit; `token`
        is for models that are not public. `options` are those of `fencepost.load`.
        """
        from fencepost.integrations import hub

        return hub.from_pretrained(
            name,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            **options,
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Copy the model's files into a new folder, as they were loaded, with a card if they have none.

        It is the model as it was trained and scored: options of this recogniser (`with_options`) are not
        saved, and can be given again when it is loaded.
        """
        from fencepost.integrations import hub

        hub.save_pretrained(self.folder, self._predictor, folder)

    def push_to_hub(
        self,
        name: str,
        *,
        private: bool | None = None,
        token: str | bool | None = None,
        branch: str | None = None,
        commit_message: str = "A fencepost model",
        create_pr: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Upload the files of `save_pretrained` to `owner/name` on the Hugging Face Hub, as one commit.

        The repository is made if it is not there, `private` or as the owner's are by default. Files of an
        older model in it go. `metadata` is for the top of the card, as `{"license": "apache-2.0"}`; with
        `create_pr` it all becomes a proposal. Returns the address of the commit, or of the proposal.
        """
        from fencepost.integrations import hub

        return hub.push_to_hub(
            self.folder,
            self._predictor,
            name,
            private=private,
            token=token,
            branch=branch,
            commit_message=commit_message,
            create_pr=create_pr,
            metadata=metadata,
        )


def _length(text: str) -> int:
    if not isinstance(text, str):
        raise UsageError(f"a text is a string, not {type(text).__name__} (see as_tuples for pairs)")
    return len(text)
