"""`Recogniser`: find the entities of texts, with character offsets.

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

from fencepost.data.context import add_context
from fencepost.data.entity import Entity, Sentence, check_sentences
from fencepost.data.text import make_splitter
from fencepost.data.text.lines import Lines, check_lines
from fencepost.data.text.splitter import Offsets
from fencepost.encoder.windows import Part, join_blocks, split_sentence
from fencepost.errors import UsageError, quote, shorten
from fencepost.methods.candidates import Candidates, select
from fencepost.methods.decoder import GoldArrays, Report, WordArrays
from fencepost.methods.registry import METHODS
from fencepost.runtime.chunks import chunk_texts
from fencepost.runtime.document import Document
from fencepost.runtime.engine import LOOK_AHEAD, Predictor, Watch
from fencepost.runtime.language import LanguageCheck

C = TypeVar("C")
AddCandidates = Callable[[Sequence[Sentence], WordArrays, Candidates, Candidates], None]
"""Function of sentences, their word vectors, all possible entities, and the predicted ones."""

MinConfidence = float | Mapping[str, float]
"""Minimum confidence of all types, or by type; that of a type which is not given is 0."""


@dataclass(frozen=True, slots=True)
class SplitSentence:
    """A sentence that is split into parts that fit into the encoder.

    `size` is that of its words, in the unit of `Predictor.sizes`; parts may overlap, and be larger together.
    `words` are the offsets of its words in a text.
    """

    sentence: Sentence
    size: int
    parts: Sequence[Part]
    words: Sequence[Offsets] = ()


class Recogniser:
    """A model that finds entities in texts; made by `fencepost.load`."""

    def __init__(
        self,
        predictor: Predictor,
        *,
        min_confidence: MinConfidence = 0.0,
        types: Collection[str] | None = None,
        language: str | None = None,
        lines: Lines | None = None,
    ) -> None:
        """See `fencepost.load`."""
        self._predictor = predictor
        self.language = language or predictor.language
        check_lines(lines)
        self.lines: Lines = lines or predictor.lines
        self._splitter = make_splitter(self.language, lines=self.lines)
        self._language_check = self.make_language_check()
        self._min_confidence = self._expand_confidence(min_confidence)
        self._returned_types = self._check_types(self.types if types is None else types)

    def __repr__(self) -> str:
        name = self.folder.name if self.folder else "in memory"
        types = ", ".join(self.types)
        return f"<Recogniser {name}: {self.method}, types {shorten(types)}, engine {self.engine}>"

    @property
    def types(self) -> tuple[str, ...]:
        """Entity types that the model predicts."""
        return self._predictor.types

    @property
    def engine(self) -> str:
        """The engine that runs the model: `pytorch`, `onnx` or `int8`."""
        return self._predictor.name

    @property
    def method(self) -> str:
        """The name of the model's method, such as `boundary-smoothing`."""
        return self._predictor.method

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of prediction, by name."""
        tree: dict[str, Any] = self._predictor.predict_settings.model_dump(mode="json")
        return tree

    def with_options(
        self,
        *,
        min_confidence: MinConfidence | None = None,
        types: Collection[str] | None = None,
        **settings: Any,
    ) -> Recogniser:
        """Return the same model with other options, as in `with_options(select="flat", min_confidence=0.5)`.

        `min_confidence` and `types` are those of `fencepost.load`; `settings` are those of prediction, as in
        `--set predict.KEY=VALUE`. Options that are not given do not change.
        """
        other = copy.copy(self)
        if settings:
            other._predictor = self._predictor.with_options(settings)
        if min_confidence is not None:
            other._min_confidence = self._expand_confidence(min_confidence)
        if types is not None:
            other._returned_types = self._check_types(types)
        return other

    def _expand_confidence(self, min_confidence: MinConfidence) -> dict[str, float]:
        """Return the minimum confidence of each type; raise `UsageError` if one is wrong."""
        if not isinstance(min_confidence, Mapping):
            min_confidence = dict.fromkeys(self.types, min_confidence)
        self._check_types(min_confidence)
        for value in min_confidence.values():
            if isinstance(value, bool) or not (
                isinstance(value, int | float | np.floating) and 0 <= value <= 1
            ):
                raise UsageError(f"min_confidence is {quote(value)}; a confidence is between 0 and 1")
        return {**dict.fromkeys(self.types, 0.0), **min_confidence}

    def _check_types(self, types: Collection[str]) -> frozenset[str]:
        if isinstance(types, str):
            raise UsageError(f"types are a list of names, not the string {types!r}")
        for type_ in types:
            if type_ not in self.types:
                raise UsageError.unknown("type", type_, self.types)
        return frozenset(types)

    def __call__(self, text: str) -> Document:
        """Return the entities of a text, in reading order."""
        if not isinstance(text, str):
            raise UsageError(f"a text is a string, not {type(text).__name__}{_suggest_method(text)}")
        (document,) = self.annotate([text])
        return document

    @overload
    def pipe(self, texts: Iterable[str], *, as_tuples: Literal[False] = False) -> Iterator[Document]: ...

    @overload
    def pipe(
        self, texts: Iterable[tuple[str, C]], *, as_tuples: Literal[True]
    ) -> Iterator[tuple[Document, C]]: ...

    def pipe(self, texts: Iterable[Any], *, as_tuples: bool = False) -> Iterator[Any]:
        """Yield the entities of each text, in order, with a bounded number of texts in memory.

        With `as_tuples`, `texts` are pairs `(text, context)`, and `(entities, context)` is yielded for each.
        """
        if not as_tuples:
            yield from self.annotate(texts)
            return
        pairs, again = tee(texts)
        documents = self.annotate(text for text, _ in pairs)
        yield from ((document, context) for document, (_, context) in zip(documents, again, strict=False))

    def annotate(self, texts: Iterable[str]) -> Iterator[Document]:
        """Yield each text with its sentences, words and entities, in order."""
        if isinstance(texts, str):  # else each of its characters would be one
            raise UsageError("texts are a list of strings; for a single one, call the recogniser with it")
        if not isinstance(texts, Iterable):
            raise UsageError(f"texts are a list of strings, or another iterable, not {type(texts).__name__}")
        for chunk in chunk_texts(texts, _count_characters):
            prepared = [list(self.prepare(text)) for text in chunk]
            sentences = self._predict(chain.from_iterable(prepared))
            for text, own in zip(chunk, prepared, strict=True):
                yield Document(text, list(islice(sentences, len(own))), [one.words for one in own])

    def predict(self, sentences: Iterable[Sentence], watch: Watch | None = None) -> Iterator[Sentence]:
        """Yield the same sentences, in the same order, with the entities that the model predicts.

        Use it if the words are known already. `watch` is called with each batch that is computed: sentences,
        or windows of long ones, their word vectors and the scores of the method's decoder.
        """
        yield from self._predict(self.prepare_sentences(sentences), watch)

    def make_reports(self, names: Sequence[str] | None = None) -> dict[str, Report]:
        """Return new reports that the model's method declares about its own steps, all or some, by name.

        Raises `UsageError` for an unknown name.
        """
        declared = METHODS[self.method].reports
        for name in names or ():
            if name not in declared:
                raise UsageError(
                    f"{self.method} has no report {name!r}; it has {', '.join(declared) or 'none'}"
                )
        selection = declared if names is None else {name: declared[name] for name in names}
        decoder, settings = self._predictor.decoder, self._predictor.predict_settings
        return {name: report(decoder, settings) for name, report in selection.items()}

    def watch_reports(self, reports: Mapping[str, Report]) -> Watch:
        """Return a `watch` for `predict` of annotated sentences that fills these reports."""

        def watch(sentences: Sequence[Sentence], words: WordArrays, scores: Any) -> None:  # noqa: ARG001
            gold = GoldArrays.from_sentences(sentences, self.types)
            for report in reports.values():
                report.add(sentences, scores, gold)

        return watch

    def watch_candidates(self, add: AddCandidates, threshold: float) -> Watch:
        """Return a `watch` that calls `add` with the possible and the predicted entities of each batch.

        The arguments of `add` are the sentences, their word vectors, all spans whose confidence, before
        calibration, reaches the threshold, whether they clash or not, and the predicted ones. A span
        starts at `b * T + t` if it starts at word `t` of sentence `b`; confidences are calibrated.
        """
        every = self._predictor.with_options({"threshold": threshold, "select": "keep-all"})
        is_returned = np.array([type_ in self._returned_types for type_ in self.types], dtype=np.bool_)
        minimum = np.array([self._min_confidence[type_] for type_ in self.types])

        def watch(sentences: Sequence[Sentence], words: WordArrays, scores: Any) -> None:
            possible = every.select(sentences, scores)
            predicted = self._predictor.select(sentences, scores)
            predicted = predicted.take(predicted.confidence >= minimum[predicted.type])
            add(sentences, words, *(spans.take(is_returned[spans.type]) for spans in (possible, predicted)))

        return watch

    def make_language_check(self) -> LanguageCheck:
        """Return a check whether text is in the language of the model's training data."""
        predictor = self._predictor
        return LanguageCheck(predictor.profile, predictor.subwords, predictor.language)

    def prepare(self, text: str, limit: int | None = None) -> Iterator[SplitSentence]:
        """Yield the sentences of a text with their parts, reading the text only as far as needed.

        With a `limit`, stop after the first word above that number. `compute` predicts the entities of parts,
        in any order and any batches, and `merge` combines those of a sentence; `annotate` does all three.
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

    def prepare_sentences(self, sentences: Iterable[Sentence]) -> Iterator[SplitSentence]:
        """Yield sentences whose words are known already with their parts, as `prepare` does for a text."""
        originals, sentences = tee(check_sentences(sentences))  # the neighbours are for the engine alone
        read = add_context(sentences, self._predictor.context)
        split, again = tee(map(self._split, read))
        parts = join_blocks((part for _, own in split for part in own), self._predictor.block)
        for original, (size, own) in zip(originals, again, strict=False):
            yield SplitSentence(original, size, list(islice(parts, len(own))))

    def _split(self, sentence: Sentence) -> tuple[int, list[Part]]:
        """Return the size of a sentence and its parts."""
        sizes = self._predictor.sizes(sentence.words)
        return sum(sizes), split_sentence(sentence, sizes, self._predictor.room)

    def compute(self, parts: Sequence[Part], watch: Watch | None = None) -> list[list[Entity]]:
        """Return the entities of each part."""
        return self._predictor.predict_entities([part.sentence for part in parts], watch)

    def merge(self, prepared: SplitSentence, by_part: Sequence[Sequence[Entity]]) -> Sentence:
        """Return the sentence with the entities of its parts."""
        entities = by_part[0] if len(prepared.parts) == 1 else self._merge_windows(prepared.parts, by_part)
        return prepared.sentence.with_entities(
            entity
            for entity in entities
            if entity.type in self._returned_types and entity.score >= self._min_confidence[entity.type]
        )

    def _predict(self, prepared: Iterable[SplitSentence], watch: Watch | None = None) -> Iterator[Sentence]:
        stream = iter(prepared)
        while block := list(islice(stream, LOOK_AHEAD)):
            by_part = iter(self.compute([part for one in block for part in one.parts], watch))
            for one in block:
                yield self.merge(one, list(islice(by_part, len(one.parts))))

    def _merge_windows(self, parts: Sequence[Part], by_part: Sequence[Sequence[Entity]]) -> list[Entity]:
        """Return the entities of a sentence from those of its windows.

        Of entities in the overlap of two windows, each window contributes those in the middle of its own
        words, so that none is counted twice; those of different windows must not clash.
        """
        entities = [
            replace(entity, start=entity.start + part.start, end=entity.end + part.start)
            for part, of_part in zip(parts, by_part, strict=True)
            for entity in of_part
            if part.owns(entity)
        ]
        return resolve_clashes(entities, self.types, self._predictor.predict_settings.select)

    folder: Path | None = None
    """Folder of the model's files; None for a model that was made in memory."""

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

        It is downloaded once and then read from the cache. `revision` is a branch, a tag or a commit; `token`
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

        Create the repository if it does not exist, `private` or by the owner's default. Files of an older
        model in it are deleted. `metadata` is for the top of the card, as `{"license": "apache-2.0"}`; with
        `create_pr`, open a pull request. Return the address of the commit or of the pull request.
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


def resolve_clashes(entities: Sequence[Entity], types: Sequence[str], mode: str) -> list[Entity]:
    """Return the entities of a sentence without those that clash: in the modes `flat` and `nested` only."""
    numbers = {type_: number for number, type_ in enumerate(types)}
    candidates = Candidates(
        np.array([entity.start for entity in entities], dtype=np.int64),
        np.array([entity.end for entity in entities], dtype=np.int64),
        np.array([numbers[entity.type] for entity in entities], dtype=np.int64),
        np.array([entity.score for entity in entities], dtype=np.float64),
    )
    selected = select(candidates, mode if mode in ("flat", "nested") else "keep-all")
    columns = (selected.start, selected.end, selected.type, selected.confidence)
    return [
        Entity(start, end, types[type_], score)
        for start, end, type_, score in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _suggest_method(value: object) -> str:
    """Return the end of a message: the method that takes such a value, if there is one."""
    if isinstance(value, Sentence):
        return "; use predict for sentences: ner.predict(sentences)"
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | Mapping):
        return "; use pipe for several: ner.pipe(texts)"
    return ""


def _count_characters(text: str) -> int:
    if not isinstance(text, str):
        raise UsageError(f"a text is a string, not {type(text).__name__} (see as_tuples for pairs)")
    return len(text)
