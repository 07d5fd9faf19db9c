"""BRAT stand-off: a text (`.txt`) and beside it its annotations by character offset (`.ann`).

A corpus is a folder of such pairs, or one pair named by either of its files. Only text-bound annotations
(`T1<tab>TYPE START END<tab>TEXT`) are entities; relations, events, attributes and notes are counted and
passed over. An entity with a gap (`START END;START END`) makes its sentences invalid.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from fencepost.data.entity import Sentence
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.json_fields import same_text
from fencepost.data.output import whole_folder
from fencepost.data.source import LINE_BYTES, Line, Reading, ReadSentence, Rejected, Source
from fencepost.data.text import WORD_SPLIT, CharSpan, Splitter, make_splitter, split_document
from fencepost.errors import DataError, UsageError, quote, shorten

DOCUMENT_BYTES = LINE_BYTES  # of a text, and of its annotations
NAME_CHARACTERS = 50  # of a file, which may take four bytes each, and 255 bytes at most
_OFFSETS = r"[0-9]{1,12} [0-9]{1,12}"
_ENTITY = re.compile(rf"T\S*\t(?P<type>\S+) (?P<offsets>{_OFFSETS}(?:;{_OFFSETS})*)(?:\t(?P<text>.*))?")
_OTHER = re.compile(r"[REAMN#*][^\t]*\t.*")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # by Windows


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the sentences that touch the characters `[start, end)` cannot be used."""

    line: int
    start: int
    end: int
    reason: str


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    if source.path is None:
        raise UsageError("BRAT corpora are folders or pairs of files; give a path")
    splitter = make_splitter(options.language, lines=options.lines, pretokenized=options.pretokenized)
    for path in source.path.rglob("*") if source.path.is_dir() else ():
        if path.is_symlink() and path.is_dir():
            source.note("folder that is a symbolic link passed over", example=path.name)
        elif path.suffix == ".txt" and not path.with_suffix(".ann").exists():
            source.note("text without annotations (.ann) passed over", example=path.name)
    for text_path, annotation_path in pairs(source.path):
        name = annotation_path.relative_to(source.path) if source.path.is_dir() else annotation_path
        _check_size(annotation_path.stat().st_size, annotation_path)
        annotations = Source.open(annotation_path)
        try:
            document = read_document(
                _read_text(text_path),
                annotations,
                options,
                splitter,
                name.with_suffix("").as_posix() if source.path.is_dir() else name.stem,
            )
            yield from (replace(reading, file=annotations.name) for reading in document)
        finally:
            annotations.close()
            source.adopt(annotations.notes.values())


def pairs(path: Path) -> list[tuple[Path, Path]]:
    """The documents that a path names: a folder's, or one by its text or its annotations."""
    if path.is_dir():
        annotations = sorted(path.rglob("*.ann"))
        if not annotations:
            raise DataError("a folder without .ann files: not a BRAT corpus", source=str(path))
    else:
        annotations = [path.with_suffix(".ann")]
    for annotation in annotations:
        for file in (annotation, annotation.with_suffix(".txt")):
            if not file.is_file():
                raise DataError(f"{file.name} is missing beside its pair", source=str(path))
    return [(annotation.with_suffix(".txt"), annotation) for annotation in annotations]


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(DOCUMENT_BYTES + 1)
        _check_size(len(content), path)
        return content.decode("utf-8")  # BRAT counts line ends as they are
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 at byte {error.start + 1}", source=str(path)) from error


def _check_size(size: int, path: Path) -> None:
    if size > DOCUMENT_BYTES:
        raise DataError(f"over {DOCUMENT_BYTES >> 20} MB: split the document", source=str(path))


def read_document(
    text: str, annotations: Source, options: ReadOptions, splitter: Splitter, name: str | None = None
) -> Iterator[Reading]:
    """The sentences of one document, named after it."""
    spans: list[CharSpan] = []
    problems: list[Problem] = []
    for line in annotations.lines():
        try:
            span = _span(line, text, options, annotations)
        except ValueError as error:
            yield Rejected(line.number, f"{error}; the whole document is left out", line.text)
            return
        if isinstance(span, Problem):
            problems.append(span)
        elif span is not None:
            spans.append(span)
    yield from _sentences(text, spans, problems, annotations, splitter, name)


def _span(line: Line, text: str, options: ReadOptions, source: Source) -> CharSpan | Problem | None:
    """What a line annotates; None where it is no entity, `ValueError` where it cannot be read."""
    if line.problem:
        raise ValueError(line.problem)
    if not line.text.strip():
        return None
    match = _ENTITY.fullmatch(line.text)
    if match is None:
        if not _OTHER.fullmatch(line.text):
            raise ValueError("not an annotation of the form T1<tab>TYPE START END<tab>TEXT")
        source.note("annotation that is not an entity passed over", line.number, line.text)
        return None
    edges = [int(number) for number in re.split("[ ;]", match["offsets"])]
    start, end = edges[0], edges[-1]
    if not (edges == sorted(edges) and start < end <= len(text)):
        raise ValueError(f"the offsets {match['offsets']} are empty or outside the text")
    if len(edges) > 2:
        reason = (
            f"{shorten(match['type'])} {shorten(match['offsets'])} has a gap. Discontinuous entities cannot "
            "be kept; leave it out, or annotate the whole stretch"
        )
        return Problem(line.number, start, end, reason)
    phrase = match["text"]
    if options.check_text and phrase is not None and not same_text(phrase, text[start:end]):
        reason = (
            f"the annotation has the text {quote(phrase)}, but its characters are {quote(text[start:end])}; "
            "correct it, or say --no-check-text if that is on purpose"
        )
        return Problem(line.number, start, end, reason)
    if not text[start:end].strip():
        return Problem(line.number, start, end, f"{match['type']} {match['offsets']} is white space")
    return CharSpan(start, end, match["type"])


def _sentences(
    text: str,
    spans: list[CharSpan],
    problems: list[Problem],
    annotations: Source,
    splitter: Splitter,
    name: str | None,
) -> Iterator[Reading]:
    document = split_document(text, spans, splitter, name, name)
    annotations.note(WORD_SPLIT, times=document.words_split)
    starts, ends = [words[0][0] for words in document.offsets], [words[-1][1] for words in document.offsets]
    invalid: dict[int, Problem] = {}  # by the number of the sentence
    for problem in problems:
        touched = range(bisect_right(ends, problem.start), bisect_left(starts, problem.end))
        for index in touched:
            invalid.setdefault(index, problem)
        if not touched:
            yield Rejected(problem.line, problem.reason, text[problem.start : problem.end])
    for index, sentence in enumerate(document.sentences):
        if index in invalid:
            raw = text[starts[index] : ends[index]]
            yield Rejected(invalid[index].line, invalid[index].reason, raw)
        else:
            yield ReadSentence(0, sentence)


def write(sentences: Iterable[Sentence], path: Path | None, options: WriteOptions) -> None:  # noqa: ARG001
    """One pair of files for each run of sentences of one document, with a sentence a line."""
    if path is None:
        raise UsageError("a BRAT corpus is a folder and cannot go to standard output; give a path")
    used: Counter[str] = Counter()
    with whole_folder(path) as folder:
        for doc, members in groupby(sentences, key=lambda sentence: sentence.doc):
            name = _file_name(doc, used)
            _write_document(folder / f"{name}.txt", folder / f"{name}.ann", members)


def _file_name(doc: str | None, used: Counter[str]) -> str:
    """A name that is safe on any file system and was not used before."""
    safe = re.sub(r"[^\w.-]", "_", doc or "").lstrip(".")[:NAME_CHARACTERS] or "sentences"
    if _RESERVED.fullmatch(safe):
        safe = f"_{safe}"
    name = safe
    while used[name.casefold()]:
        used[safe.casefold()] += 1
        name = f"{safe}-{used[safe.casefold()]}"
    used[name.casefold()] += 1
    return name


def _write_document(text_path: Path, annotation_path: Path, sentences: Iterable[Sentence]) -> None:
    offset = number = 0
    with (
        text_path.open("w", encoding="utf-8", newline="") as texts,
        annotation_path.open("w", encoding="utf-8", newline="") as annotations,
    ):
        for sentence in sentences:
            text = sentence.text
            words = sentence.word_offsets()
            for entity in sentence.entities:
                number += 1
                start, end = words[entity.start][0], words[entity.end - 1][1]
                annotations.write(
                    f"T{number}\t{entity.type} {offset + start} {offset + end}\t{text[start:end]}\n"
                )
            texts.write(text + "\n")
            offset += len(text) + 1


def obstacle(sentence: Sentence) -> str | None:
    if not sentence.words:
        return "no words"
    if any(not word or re.search(r"\s", word) for word in sentence.words):
        return "a word that is empty or holds white space"
    if any(re.search(r"\s", entity.type) for entity in sentence.entities):
        return "a type that holds white space"
    return None


BRAT = Format(
    name="brat",
    summary="a folder of .txt files with .ann files beside them",
    read=read,
    write=write,
    obstacle=obstacle,
    overlaps="any",
    keeps=frozenset({"doc", "space_after"}),
)
