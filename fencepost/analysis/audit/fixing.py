"""Apply the suggestions that a person has accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.json_records import read_objects
from fencepost.data.source import Source
from fencepost.errors import DataError, quote

Key = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted suggestion, and its line in the file."""

    line: int
    sentence: int  # from 0
    words: Sequence[str]
    gold: Key | None
    suggested: Key | None


def read_accepted(path: Path) -> dict[int, list[Accepted]]:
    """Return the suggestions with `"accept": true`, by sentence.

    Raises `DataError` for a line that is no suggestion, and a file without any accepted ones.
    """
    found: dict[int, list[Accepted]] = {}
    source = Source.open(path)
    try:
        for record in read_objects(source):
            try:
                if record.problem:
                    raise ValueError(record.problem)
                one = _accepted(record.value, record.line)
            except (ValueError, KeyError, TypeError) as error:
                message = f"no suggestion of fencepost audit: {_reason(error)}"
                raise DataError(message, source=str(path), line=record.line) from None
            if one is not None:
                found.setdefault(one.sentence, []).append(one)
    finally:
        source.close()
    if not found:
        raise DataError('no suggestion is accepted; set "accept": true in some', source=str(path))
    return found


def _accepted(value: Mapping[str, Any], line: int) -> Accepted | None:
    number, words = value["sentence"], value["words"]
    if type(number) is not int or number < 1 or not isinstance(words, list):
        raise ValueError("'sentence' must be a number from 1 and 'words' a list")
    gold, suggested = _key(value["gold"], len(words)), _key(value["suggested"], len(words))
    if gold is None and suggested is None:
        raise ValueError("'gold' and 'suggested' are both null")
    accept = value.get("accept")
    if accept is not None and not isinstance(accept, bool):
        raise ValueError(f"'accept' must be true, false or null, not {quote(accept)}")
    return Accepted(line, number - 1, tuple(words), gold, suggested) if accept else None


def _key(value: Mapping[str, Any] | None, words: int) -> Key | None:
    if value is None:
        return None
    start, end, type_ = value["start"], value["end"], value["type"]
    if type(start) is not int or type(end) is not int or not isinstance(type_, str) or end > words:
        raise ValueError(f"an entity has a type, a start and an end among the {words} words")
    return Entity(start, end, type_).key


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def apply_suggestions(
    sentences: Iterable[Sentence], accepted: Mapping[int, Sequence[Accepted]], name: str
) -> Iterator[Sentence]:
    """Yield the sentences with the accepted suggestions applied; `name` is that of the suggestions' file.

    Raises `DataError` if a sentence has other words than the suggestion, or not the entity to replace.
    """
    number = -1
    for number, sentence in enumerate(sentences):
        yield _apply(sentence, accepted.get(number, ()), name)
    beyond = [one for number_, of in accepted.items() if number_ > number for one in of]
    if beyond:
        message = f"there is no sentence {beyond[0].sentence + 1:,} in the data, which has {number + 1:,}"
        raise DataError(message, source=name, line=beyond[0].line)


def _apply(sentence: Sentence, accepted: Sequence[Accepted], name: str) -> Sentence:
    entities: dict[Key, Entity] = {entity.key: entity for entity in sentence.entities}
    for one in accepted:
        place = f"sentence {one.sentence + 1:,} of the data"
        advice = "use the data that was audited, with the same options for reading it"
        if tuple(sentence.words) != tuple(one.words):
            raise DataError(f"{place} has other words now; {advice}", source=name, line=one.line)
        if one.gold is not None and one.gold not in entities:
            start, end, type_ = one.gold
            message = f"{place} has no {quote(type_)} [{start}, {end}) to change (any more); {advice}"
            raise DataError(message, source=name, line=one.line)
        old = entities.pop(one.gold) if one.gold is not None else None
        if one.suggested is not None:
            start, end, type_ = one.suggested
            new = Entity(start, end, type_) if old is None else replace(old, start=start, end=end, type=type_)
            entities.setdefault(new.key, new)
    return sentence.with_entities(entities.values()) if accepted else sentence
