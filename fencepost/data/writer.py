"""Write a corpus in any format that can represent it; nothing is lost without a message."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from fencepost.data.entity import Sentence, check_sentences
from fencepost.data.formats.format import Format, Overlaps, WriteOptions
from fencepost.data.formats.json_fields import is_json
from fencepost.data.formats.overlaps import Prefer, has_forbidden_overlap, select_compatible
from fencepost.data.formats.registry import FORMATS, format_by_name, format_by_suffix
from fencepost.data.source import STANDARD_INPUT
from fencepost.errors import FencepostError, UsageError, check_path

OnRefused = Callable[[Sentence, str], None]


class RepresentationError(FencepostError):
    """The target format cannot represent some of the sentences; nothing was written."""


@dataclass
class WriteResult:
    """Number of sentences and entities that were written, and of those that were left out or lost a part."""

    format: str
    sentences: int = 0
    entities: int = 0
    left_out: int = 0
    entities_dropped: int = 0
    parts_lost: Counter[str] = field(default_factory=Counter)  # number of sentences that had the part


def write(
    sentences: Iterable[Sentence],
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the word that users know
    options: WriteOptions | None = None,
    *,
    prefer: Prefer | None = None,
    on_refused: OnRefused | None = None,
) -> WriteResult:
    """Write a corpus and return what was written; if this fails, an existing file stays as it is.

    A `path` of `-` is standard output. If the format cannot represent overlapping entities, `prefer` says
    which to keep. Sentences that the format cannot represent are passed to `on_refused` and left out;
    without it, they are counted and raise `RepresentationError` at the end.
    """
    target = None if str(path) == STANDARD_INPUT else check_path(path, "the output")
    if format:
        format_ = format_by_name(format)
    else:
        format_ = FORMATS["jsonl"] if target is None else format_by_suffix(target)
    settings = options or WriteOptions()
    if target is not None and target.suffix.lower() == ".json":
        settings = replace(settings, array=True)
    filter_ = _Filter(format_, prefer, on_refused)
    if target is not None:
        check_no_loop(target)
    format_.write(filter_.select(check_sentences(sentences)), target, settings)
    return filter_.result


def check_no_loop(path: Path) -> None:
    """Raise `UsageError` for a path whose symbolic links form a loop."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(f"{path}: the symbolic links form a loop; use another name") from None


class _Filter:
    """Selects the sentences that a format can represent, and counts the others."""

    def __init__(self, format_: Format, prefer: Prefer | None, on_refused: OnRefused | None) -> None:
        self.format = format_
        self.prefer = prefer
        self.on_refused = on_refused
        self.result = WriteResult(format_.name)
        self.refused: Counter[str] = Counter()
        self.overlap = _OVERLAPS.get(format_.overlaps, "")

    def select(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        for sentence in sentences:
            fitting = self._fit(sentence)
            if fitting is not None and not self.refused:
                self.result.sentences += 1
                self.result.entities += len(fitting.entities)
                self.result.parts_lost.update(
                    sorted(list_optional_parts(fitting, self.format.keeps) - self.format.keeps)
                )
                yield fitting
        if self.refused:
            raise RepresentationError(self._describe_refusals())

    def _fit(self, sentence: Sentence) -> Sentence | None:
        """Return the sentence as the format can represent it; None if it cannot."""
        fitting = sentence
        if has_forbidden_overlap(sentence.entities, self.format.overlaps):
            if self.prefer is None:
                self._refuse(sentence, self.overlap)
                return None
            entities = select_compatible(sentence.entities, self.format.overlaps, self.prefer)
            fitting = sentence.with_entities(entities)
        obstacle = self.format.find_obstacle(fitting) or _find_unwritable(fitting, self.format.keeps)
        if obstacle is not None:
            self._refuse(sentence, obstacle)
            return None
        self.result.entities_dropped += len(sentence.entities) - len(fitting.entities)
        return fitting

    def _refuse(self, sentence: Sentence, obstacle: str) -> None:
        if self.on_refused is None:
            self.refused[obstacle] += 1
        else:
            self.result.left_out += 1
            self.on_refused(sentence, f"{self.format.name} cannot represent {obstacle}")

    def _describe_refusals(self) -> str:
        reasons = "; ".join(
            f"{count:,} {'sentence has' if count == 1 else 'sentences have'} {reason}"
            for reason, count in self.refused.most_common()
        )
        advice = ["--skip-invalid (on_refused= in Python) leaves these sentences out"]
        if self.overlap in self.refused:
            advice.insert(
                0, "--overlaps outermost, innermost or best (prefer= in Python) keeps some of the entities"
            )
        if self.format.name != "jsonl":
            advice.append("jsonl represents everything")
        return f"{self.format.name} cannot represent this corpus: {'; '.join([reasons, *advice])}"


_OVERLAPS: dict[Overlaps, str] = {"none": "overlapping or nested entities", "nested": "crossing entities"}
"""Overlaps that a format cannot represent, by those that it can."""


def list_optional_parts(sentence: Sentence, keeps: Collection[str]) -> set[str]:
    """Return the optional parts of a sentence; a `meta` whose keys are all in `keeps` does not count."""
    presence = {
        "id": sentence.id is not None,
        "doc": sentence.doc is not None,
        "pos": sentence.pos is not None,
        "space_after": sentence.space_after is not None,
        "left": bool(sentence.left),
        "right": bool(sentence.right),
        "meta": not sentence.meta.keys() <= set(keeps),
        "score": any(entity.score != 1.0 for entity in sentence.entities),
        "entity meta": any(entity.meta for entity in sentence.entities),
    }
    return {part for part, is_present in presence.items() if is_present}


def _find_unwritable(sentence: Sentence, keeps: Collection[str]) -> str | None:
    """Return what neither UTF-8 nor, where `meta` is kept, JSON can represent; None if there is nothing."""
    metas = [sentence.meta] if "meta" in keeps else []
    if "entity meta" in keeps:
        metas += [entity.meta for entity in sentence.entities]
    if not all(is_json(dict(meta)) for meta in metas if meta):
        return "a value in meta that JSON cannot represent"
    texts = [*sentence.words, *(entity.type for entity in sentence.entities)]
    texts += [sentence.id or "", sentence.doc or "", *sentence.left, *sentence.right]
    try:
        "".join([*texts, *(sentence.pos or ())]).encode("utf-8")
    except UnicodeEncodeError:
        return "half of a surrogate pair"
    return None
