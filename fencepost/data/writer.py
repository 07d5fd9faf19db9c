"""Write a corpus in any format that can hold it; what a format cannot hold is never dropped silently."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from fencepost.data.entity import Sentence
from fencepost.data.formats.format import Format, Overlaps, WriteOptions
from fencepost.data.formats.json_fields import is_json
from fencepost.data.formats.overlaps import Prefer, keep_compatible, overlapping
from fencepost.data.formats.registry import FORMATS, format_by_name, format_by_suffix
from fencepost.data.source import STANDARD_INPUT
from fencepost.errors import FencepostError, UsageError

OnRefused = Callable[[Sentence, str], None]


class CannotHold(FencepostError):
    """The target format cannot hold some of the sentences; nothing was written."""


@dataclass
class Written:
    """What became of the sentences: how many were written, left out, or lost a part on the way."""

    format: str
    sentences: int = 0
    entities: int = 0
    left_out: int = 0
    entities_dropped: int = 0
    parts_lost: Counter[str] = field(default_factory=Counter)  # by how many sentences had the part


def write(
    sentences: Iterable[Sentence],
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the word that users know
    options: WriteOptions | None = None,
    *,
    prefer: Prefer | None = None,
    on_refused: OnRefused | None = None,
) -> Written:
    """Write a corpus; the file appears whole at the end, or not at all. `-` is standard output.

    Where the format cannot hold overlapping entities, `prefer` says which to keep. Sentences that it cannot
    hold are given to `on_refused` and left out; without it, they are counted and raise `CannotHold` at the
    end.
    """
    to_stdout = str(path) == STANDARD_INPUT
    target = None if to_stdout else Path(path)
    if format:
        chosen = format_by_name(format)
    else:
        chosen = FORMATS["jsonl"] if target is None else format_by_suffix(target)
    settings = options or WriteOptions()
    if target is not None and target.suffix.lower() == ".json":
        settings = replace(settings, array=True)
    gate = _Gate(chosen, prefer, on_refused)
    if target is not None:
        check_no_loop(target)
    chosen.write(gate.passing(sentences), target, settings)
    return gate.written


def check_no_loop(path: Path) -> None:
    """Raise `UsageError` for a path on which symbolic links lead back to themselves."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(f"{path}: symbolic links here lead in a circle; give another name") from None


class _Gate:
    """Lets through what a format can hold, and keeps account of the rest."""

    def __init__(self, format_: Format, prefer: Prefer | None, on_refused: OnRefused | None) -> None:
        self.format = format_
        self.prefer = prefer
        self.on_refused = on_refused
        self.written = Written(format_.name)
        self.refused: Counter[str] = Counter()
        self.overlaps_refused = False

    def passing(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        for sentence in sentences:
            fitting = self._fit(sentence)
            if fitting is not None and not self.refused:
                self.written.sentences += 1
                self.written.entities += len(fitting.entities)
                self.written.parts_lost.update(
                    sorted(parts_of(fitting, self.format.keeps) - self.format.keeps)
                )
                yield fitting
        if self.refused:
            raise CannotHold(self._message())

    def _fit(self, sentence: Sentence) -> Sentence | None:
        """The sentence as the format can hold it; None if it cannot."""
        fitting = sentence
        if overlapping(sentence.entities, self.format.overlaps):
            if self.prefer is None:
                self.overlaps_refused = True
                self._refuse(sentence, f"{_OVERLAP_NAMES[self.format.overlaps]} entities")
                return None
            kept = keep_compatible(sentence.entities, self.format.overlaps, self.prefer)
            fitting = sentence.with_entities(kept)
        obstacle = self.format.obstacle(fitting) or _unwritable(fitting, self.format.keeps)
        if obstacle is not None:
            self._refuse(sentence, obstacle)
            return None
        self.written.entities_dropped += len(sentence.entities) - len(fitting.entities)
        return fitting

    def _refuse(self, sentence: Sentence, obstacle: str) -> None:
        if self.on_refused is None:
            self.refused[obstacle] += 1
        else:
            self.written.left_out += 1
            self.on_refused(sentence, f"{self.format.name} cannot hold {obstacle}")

    def _message(self) -> str:
        reasons = "; ".join(
            f"{count:,} {'sentence has' if count == 1 else 'sentences have'} {reason}"
            for reason, count in self.refused.most_common()
        )
        advice = ["--skip-invalid leaves these sentences out"]
        if self.overlaps_refused:
            advice.insert(0, "--overlaps outermost, innermost or best keeps some of the entities")
        if self.format.name != "jsonl":
            advice.append("jsonl holds everything")
        return f"{self.format.name} cannot hold this corpus: {reasons} ({'; '.join(advice)})"


_OVERLAP_NAMES: dict[Overlaps, str] = {"none": "overlapping or nested", "nested": "crossing"}


def parts_of(sentence: Sentence, keeps: Collection[str]) -> set[str]:
    """The optional parts that a sentence has; `keeps` are those of a format, with single keys of `meta`."""
    has = {
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
    return {part for part, there in has.items() if there}


def _unwritable(sentence: Sentence, keeps: Collection[str]) -> str | None:
    """What no file in UTF-8 can hold, or no JSON where `meta` is kept."""
    metas = [sentence.meta] if "meta" in keeps else []
    if "entity meta" in keeps:
        metas += [entity.meta for entity in sentence.entities]
    if not all(is_json(dict(meta)) for meta in metas if meta):
        return "a value in meta that JSON cannot hold"
    texts = [*sentence.words, *(entity.type for entity in sentence.entities)]
    texts += [sentence.id or "", sentence.doc or "", *sentence.left, *sentence.right]
    try:
        "".join([*texts, *(sentence.pos or ())]).encode("utf-8")
    except UnicodeEncodeError:
        return "half a surrogate pair"
    return None
