"""Changes to a corpus on its way: other names for types, fewer types."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError


class TypeChanges:
    """Renames types by rules `OLD=NEW` and keeps only the entities of some types, and keeps account of it.

    `*` in OLD stands for anything; the first rule that fits counts. Entities that are the same afterwards
    are kept once.
    """

    def __init__(self, renames: Sequence[str] = (), types: Collection[str] | None = None) -> None:
        self.rules = {rename: _rule(rename) for rename in renames}
        self.types = types
        self.removed = 0  # entities of other types
        self.merged = 0  # entities that had become the same as another
        self._names: dict[str, str] = {}  # old to new, of all types that were seen
        self._used: set[str] = set()  # rules that fitted

    def apply(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        for sentence in sentences:
            yield self._changed(sentence) if self.rules or self.types is not None else sentence

    def unused(self) -> list[str]:
        """The rules that never fitted, and the types that no entity had: most likely misspelt."""
        missing = set(self.types or ()) - set(self._names.values())
        return [rule for rule in self.rules if rule not in self._used] + sorted(missing)

    def _changed(self, sentence: Sentence) -> Sentence:
        kept: dict[tuple[int, int, str], Entity] = {}
        for entity in sentence.entities:
            renamed = replace(entity, type=self._renamed(entity.type))
            if self.types is not None and renamed.type not in self.types:
                self.removed += 1
            elif kept.setdefault(renamed.key, renamed) is not renamed:
                self.merged += 1
        return sentence.with_entities(kept.values())

    def _renamed(self, type_: str) -> str:
        if type_ not in self._names:
            rule = next((rule for rule, (old, _) in self.rules.items() if old.fullmatch(type_)), None)
            if rule is not None:
                self._used.add(rule)
            self._names[type_] = self.rules[rule][1] if rule is not None else type_
        return self._names[type_]


def _rule(rename: str) -> tuple[re.Pattern[str], str]:
    old, equals, new = rename.partition("=")
    if not (old and equals and new):
        raise UsageError(f"a type is renamed by OLD=NEW, not by {rename!r}")
    return re.compile(".*".join(map(re.escape, old.split("*"))), re.DOTALL), new
