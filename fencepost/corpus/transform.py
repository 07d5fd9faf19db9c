"""Changes to a corpus on its way: other names for types, fewer types."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from fencepost.entity import Entity, Sentence
from fencepost.errors import UsageError


def with_types(
    sentences: Iterable[Sentence], renames: Sequence[str], types: Collection[str] | None = None
) -> Iterator[Sentence]:
    """The sentences with types renamed by rules `OLD=NEW`, and only the entities of `types`.

    `*` in OLD stands for anything; the first rule that fits counts. Entities that are the same afterwards
    are kept once.
    """
    rules = [_rule(rename) for rename in renames]
    if not rules and types is None:
        yield from sentences
        return
    names: dict[str, str] = {}  # old to new
    for sentence in sentences:
        kept: dict[tuple[int, int, str], Entity] = {}
        for entity in sentence.entities:
            if entity.type not in names:
                names[entity.type] = _renamed(entity.type, rules)
            renamed = replace(entity, type=names[entity.type])
            if types is None or renamed.type in types:
                kept.setdefault(renamed.key, renamed)
        yield sentence.with_entities(kept.values())


def _rule(rename: str) -> tuple[re.Pattern[str], str]:
    old, equals, new = rename.partition("=")
    if not (old and equals and new):
        raise UsageError(f"a type is renamed by OLD=NEW, not by {rename!r}")
    return re.compile(".*".join(map(re.escape, old.split("*"))), re.DOTALL), new


def _renamed(type_: str, rules: Sequence[tuple[re.Pattern[str], str]]) -> str:
    return next((new for pattern, new in rules if pattern.fullmatch(type_)), type_)
