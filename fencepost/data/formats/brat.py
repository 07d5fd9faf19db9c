"""BRAT standoff format: pairs of a text (`.txt`) and its annotations by character offset (`.ann`).

A corpus is a folder of such pairs, or one pair named by either of its files. Only text-bound annotations
(`T1<tab>TYPE START END<tab>TEXT`) are entities; relations, events, attributes and notes are skipped and
counted. A discontinuous entity (`START END;START END`) makes its sentences invalid.
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
from fencepost.data.formats.json_fields import is_same_text
from fencepost.data.output import whole_folder
from fencepost.data.source import LINE_BYTES, Line, Reading, ReadSentence, Rejection, Source
from fencepost.data.text import WORD_SPLIT, CharSpan, Splitter, make_splitter, split_document
from fencepost.errors import DataError, UsageError, quote, shorten

DOCUMENT_BYTES = LINE_BYTES  # maximum size of a text, and of its annotations
NAME_CHARACTERS = 50  # maximum length of a file name: 255 bytes, up to four for a character
_OFFSETS = r"[0-9]{1,12} [0-9]{1,12}"
_ENTITY = re.compile(rf"T\S*\t(?P<type>\S+) (?P<offsets>{_OFFSETS}(?:;{_OFFSETS})*)(?:\t(?P<text>.*))?")
_OTHER = re.compile(r"[REAMN#*][^\t]*\t.*")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # names that Windows reserves


@dataclass(frozen=True, slots=True)
class Defect:
    """The reason why sentences with any of the characters `[start, end)` are invalid."""

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
            source.note("folder that is a symbolic link skipped", example=path.name)
        elif path.suffix == ".txt" and not path.with_suffix(".ann").exists():
            source.note("text without annotations (.ann) skipped", example=path.name)
    root = source.path if source.path.is_dir() else source.path.parent
    for text_path, annotation_path in find_pairs(source.path):
        name = annotation_path.relative_to(root).with_suffix("").as_posix()
        _check_size(annotation_path.stat().st_size, annotation_path)
        annotations = Source.open(annotation_path)
        try:
            document = read_document(_read_text(text_path), annotations, options, splitter, name)
            yield from (replace(reading, file=annotations.name) for reading in document)
        finally:
            annotations.close()
            source.merge_notes(annotations.notes.values())


def find_pairs(path: Path) -> list[tuple[Path, Path]]:
    """Return the pairs of a folder, or the pair of a file; raises `DataError` if a file is missing."""
    if path.is_dir():
        annotations = sorted(path.rglob("*.ann"))
        if not annotations:
            raise DataError("a folder without .ann files: not a BRAT corpus", source=str(path))
    else:
        annotations = [path.with_suffix(".ann")]
    for annotation in annotations:
        for file in (annotation, annotation.with_suffix(".txt")):
            if not file.is_file():
                raise DataError(f"{file.name} is missing beside its text or annotations", source=str(path))
    return [(annotation.with_suffix(".txt"), annotation) for annotation in annotations]


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(DOCUMENT_BYTES + 1)
        _check_size(len(content), path)
        return content.decode("utf-8")  # offsets count CRLF as two characters
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 at byte {error.start + 1}", source=str(path)) from error


def _check_size(size: int, path: Path) -> None:
    if size > DOCUMENT_BYTES:
        raise DataError(f"larger than {DOCUMENT_BYTES >> 20} MB; split the document", source=str(path))


def read_document(
    text: str, annotations: Source, options: ReadOptions, splitter: Splitter, name: str | None = None
) -> Iterator[Reading]:
    """Yield the sentences of one document, with ids made from its name."""
    spans: list[CharSpan] = []
    problems: list[Defect] = []
    for line in annotations.read_lines():
        try:
            span = _parse_line(line, text, options, annotations)
        except ValueError as error:
            yield Rejection(line.number, f"{error}; the whole document is skipped", line.text)
            return
        if isinstance(span, Defect):
            problems.append(span)
        elif span is not None:
            spans.append(span)
    yield from _convert_document(text, spans, problems, annotations, splitter, name)


def _parse_line(line: Line, text: str, options: ReadOptions, source: Source) -> CharSpan | Defect | None:
    """Return the span of a line, why it is invalid, or None if it has no entity; may raise `ValueError`."""
    if line.problem:
        raise ValueError(line.problem)
    if not line.text.strip():
        return None
    match = _ENTITY.fullmatch(line.text)
    if match is None:
        if not _OTHER.fullmatch(line.text):
            raise ValueError("not an annotation of the form T1<tab>TYPE START END<tab>TEXT")
        source.note("annotation that is not an entity skipped", line.number, line.text)
        return None
    offsets = [int(number) for number in re.split("[ ;]", match["offsets"])]
    start, end = offsets[0], offsets[-1]
    if not (offsets == sorted(offsets) and start < end <= len(text)):
        raise ValueError(f"the offsets {match['offsets']} are empty or outside the text")
    if len(offsets) > 2:
        reason = (
            f"{shorten(match['type'])} {shorten(match['offsets'])} is discontinuous, which is not supported; "
            "remove it, or annotate the whole span"
        )
        return Defect(line.number, start, end, reason)
    phrase = match["text"]
    if options.check_text and phrase is not None and not is_same_text(phrase, text[start:end]):
        reason = (
            f"the annotation has the text {quote(phrase)}, but the characters at its offsets are "
            f"{quote(text[start:end])}; correct it, or use --no-check-text if this is intended"
        )
        return Defect(line.number, start, end, reason)
    if not text[start:end].strip():
        reason = f"{match['type']} {match['offsets']} contains only white space"
        return Defect(line.number, start, end, reason)
    return CharSpan(start, end, match["type"])


def _convert_document(
    text: str,
    spans: list[CharSpan],
    problems: list[Defect],
    annotations: Source,
    splitter: Splitter,
    name: str | None,
) -> Iterator[Reading]:
    document = split_document(text, spans, splitter, name, name)
    annotations.note(WORD_SPLIT, times=document.words_split)
    starts, ends = [words[0][0] for words in document.offsets], [words[-1][1] for words in document.offsets]
    invalid: dict[int, Defect] = {}  # defects by the index of the sentence
    for problem in problems:
        affected = range(bisect_right(ends, problem.start), bisect_left(starts, problem.end))
        for index in affected:
            invalid.setdefault(index, problem)
        if not affected:
            yield Rejection(problem.line, problem.reason, text[problem.start : problem.end])
    for index, sentence in enumerate(document.sentences):
        if index in invalid:
            raw = text[starts[index] : ends[index]]
            yield Rejection(invalid[index].line, invalid[index].reason, raw)
        else:
            yield ReadSentence(0, sentence)


def write(sentences: Iterable[Sentence], path: Path | None, options: WriteOptions) -> None:  # noqa: ARG001
    """Write a pair of files for each document, with a line for each sentence."""
    if path is None:
        raise UsageError("a BRAT corpus is a folder and cannot be written to standard output; give a path")
    names: Counter[str] = Counter()
    with whole_folder(path) as folder:
        for doc, members in groupby(sentences, key=lambda sentence: sentence.doc):
            name = _make_file_name(doc, names)
            _write_document(folder / f"{name}.txt", folder / f"{name}.ann", members)


def _make_file_name(doc: str | None, names: Counter[str]) -> str:
    """Return a file name that is valid on any file system and not in `names`."""
    safe = re.sub(r"[^\w.-]", "_", doc or "").lstrip(".")[:NAME_CHARACTERS] or "sentences"
    if _RESERVED.fullmatch(safe):
        safe = f"_{safe}"
    name = safe
    while names[name.casefold()]:
        names[safe.casefold()] += 1
        name = f"{safe}-{names[safe.casefold()]}"
    names[name.casefold()] += 1
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


def find_obstacle(sentence: Sentence) -> str | None:
    if not sentence.words:
        return "no words"
    if any(not word or re.search(r"\s", word) for word in sentence.words):
        return "a word that is empty or contains white space"
    if any(re.search(r"\s", entity.type) for entity in sentence.entities):
        return "a type that contains white space"
    return None


BRAT = Format(
    name="brat",
    summary="a folder of .txt files with .ann files beside them",
    read=read,
    write=write,
    find_obstacle=find_obstacle,
    overlaps="any",
    keeps=frozenset({"doc", "space_after"}),
)
