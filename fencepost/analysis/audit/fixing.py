"""Application of the suggestions that a person has accepted."""

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
class AcceptedSuggestion:
    """Accepted suggestion, and its line in the file."""

    line: int
    sentence: int  # from 0
    words: Sequence[str]
    gold: Key | None
    suggested: Key | None


def read_accepted(path: Path) -> dict[int, list[AcceptedSuggestion]]:
    """Read the suggestions with `"accept": true` of a file, and return them by sentence.

    Raises `DataError` for a line that is not a suggestion, and if no suggestion is accepted.
    """
    accepted: dict[int, list[AcceptedSuggestion]] = {}
    source = Source.open(path)
    try:
        for record in read_objects(source):
            try:
                if record.problem:
                    raise ValueError(record.problem)
                one = _parse(record.value, record.line)
            except (ValueError, KeyError, TypeError) as error:
                message = f"not a suggestion of fencepost audit: {_describe(error)}"
                raise DataError(message, source=str(path), line=record.line) from None
            if one is not None:
                accepted.setdefault(one.sentence, []).append(one)
    finally:
        source.close()
    if not accepted:
        raise DataError('no suggestion is accepted; set "accept": true to accept one', source=str(path))
    return accepted


def _parse(value: Mapping[str, Any], line: int) -> AcceptedSuggestion | None:
    number, words = value["sentence"], value["words"]
    if type(number) is not int or number < 1 or not isinstance(words, list):
        raise ValueError("'sentence' must be an integer of at least 1, and 'words' a list")
    gold, suggested = (_parse_key(value[name], len(words)) for name in ("gold", "suggested"))
    if gold is None and suggested is None:
        raise ValueError("'gold' and 'suggested' are both null")
    accept = value.get("accept")
    if accept is not None and not isinstance(accept, bool):
        raise ValueError(f"'accept' must be true, false or null, not {quote(accept)}")
    return AcceptedSuggestion(line, number - 1, tuple(words), gold, suggested) if accept else None


def _parse_key(value: Mapping[str, Any] | None, words: int) -> Key | None:
    if value is None:
        return None
    start, end, type_ = value["start"], value["end"], value["type"]
    if type(start) is not int or type(end) is not int or not isinstance(type_, str) or end > words:
        raise ValueError(f"an entity needs a type, and a start and an end within the {words} words")
    return Entity(start, end, type_).key


def _describe(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def apply_suggestions(
    sentences: Iterable[Sentence], accepted: Mapping[int, Sequence[AcceptedSuggestion]], name: str
) -> Iterator[Sentence]:
    """Yield the sentences with the accepted suggestions applied; `name` is the file of the suggestions.

    Raises `DataError` if a sentence has other words than in the suggestion, or lacks the entity to replace.
    """
    number = -1
    for number, sentence in enumerate(sentences):
        yield _apply(sentence, accepted.get(number, ()), name)
    beyond = [one for number_, of in accepted.items() if number_ > number for one in of]
    if beyond:
        message = f"sentence {beyond[0].sentence + 1:,} does not exist; the data has {number + 1:,} sentences"
        raise DataError(message, source=name, line=beyond[0].line)


def _apply(sentence: Sentence, accepted: Sequence[AcceptedSuggestion], name: str) -> Sentence:
    entities: dict[Key, Entity] = {entity.key: entity for entity in sentence.entities}
    for one in accepted:
        place = f"sentence {one.sentence + 1:,} of the data"
        advice = "use the corpus that was audited, with the same options for reading it"
        if tuple(sentence.words) != tuple(one.words):
            raise DataError(
                f"{place} has other words than in the audit; {advice}", source=name, line=one.line
            )
        if one.gold is not None and one.gold not in entities:
            start, end, type_ = one.gold
            message = f"{place} has no entity {quote(type_)} [{start}, {end}) to change; {advice}"
            raise DataError(message, source=name, line=one.line)
        old = entities.pop(one.gold) if one.gold is not None else None
        if one.suggested is not None:
            start, end, type_ = one.suggested
            new = Entity(start, end, type_) if old is None else replace(old, start=start, end=end, type=type_)
            entities.setdefault(new.key, new)
    return sentence.with_entities(entities.values()) if accepted else sentence
