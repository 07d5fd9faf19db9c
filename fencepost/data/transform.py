"""Changes to the types of a corpus: renaming and selecting them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError


class TypeChanges:
    """Renames types by rules `OLD=NEW`, selects the entities of some types, and counts the changes.

    `*` in OLD matches anything; the first rule that matches applies. Of entities that become equal, one is
    kept.
    """

    def __init__(self, renames: Sequence[str] = (), types: Collection[str] | None = None) -> None:
        self.rules = {rename: _parse_rule(rename) for rename in renames}
        self.types = types
        self.other_types = 0  # entities of other types
        self.duplicates = 0  # entities that became equal to another
        self._names: dict[str, str] = {}  # old names of all types so far, with the new ones
        self._matches: set[str] = set()  # rules that matched

    def apply(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        for sentence in sentences:
            yield self._change(sentence) if self.rules or self.types is not None else sentence

    def find_unused(self) -> list[str]:
        """Return the rules that never matched and the types that no entity had, which may be misspelt."""
        missing = set(self.types or ()) - set(self._names.values())
        return [rule for rule in self.rules if rule not in self._matches] + sorted(missing)

    def _change(self, sentence: Sentence) -> Sentence:
        entities: dict[tuple[int, int, str], Entity] = {}
        for old in sentence.entities:
            entity = replace(old, type=self._rename(old.type))
            if self.types is not None and entity.type not in self.types:
                self.other_types += 1
            elif entities.setdefault(entity.key, entity) is not entity:
                self.duplicates += 1
        return sentence.with_entities(entities.values())

    def _rename(self, type_: str) -> str:
        if type_ not in self._names:
            rule = next((rule for rule, (old, _) in self.rules.items() if old.fullmatch(type_)), None)
            if rule is not None:
                self._matches.add(rule)
            self._names[type_] = self.rules[rule][1] if rule is not None else type_
        return self._names[type_]


def _parse_rule(rename: str) -> tuple[re.Pattern[str], str]:
    old, equals, new = rename.partition("=")
    if not (old and equals and new):
        raise UsageError(f"a rule to rename types must have the form OLD=NEW, not {rename!r}")
    return re.compile(".*".join(map(re.escape, old.split("*"))), re.DOTALL), new
