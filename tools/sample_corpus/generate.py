"""Generate the sample corpus: `python -m tools.sample_corpus.generate` writes its three files again.

The annotation guideline:

1. An entity is the longest phrase that names something; names inside it are entities as well.
2. `the` belongs to the entity that it opens (`[the Bank of [Norway]]`), but not where the name
   only modifies another noun (`the [Bank of [Norway]] library`); `a` and `an` never belong to it,
   and a product takes no article at all (`the [Kestrel 500]`).
3. A complement with `of` is inside (`[the Museum of Fine Arts]`); a phrase with `in`, `at`, `for`
   or `from` is outside (`[the Museum of Fine Arts] in [Oslo]`), except in the title of a work.
4. A title before a name is outside (`Dr. [Ada Marsh]`), and so is a possessive `'s`, unless rule 5
   makes the whole an entity.
5. A phrase whose head is a lower-case noun is an entity only if the noun is a relative, an office
   or a part played (person), a unit (organization), a part of a place or of a time, or an occasion
   (event), and `of` or `'s` ties it to an entity: `[[Ada Marsh]'s brother]`, `[the mayor of
   [Oslo]]`, `[the [Ghent] office of [Vantor]]`, `[the spring of [1998]]`; not `[Ada Marsh]'s
   house`, `the [Ghent] office`, `the mayor`, `a spokesman for [Vantor]`.
6. Inside another name, a full personal name is an entity (`[the [Ada Marsh] Foundation]`), a lone
   surname is not (`[Marsh & Sons]`). Places, years and makers inside names are entities, but not
   after `River` or `Lake` (`[Lake Victoria]`).
7. Universities, museums, banks and teams are organizations; stations, bridges, parks, rivers and
   planets are places. Quotation marks around a work are outside.
8. A date is one entity (`[3 May 1998]`). Quantities, durations, languages and adjectives of
   nationality are no entities.
9. Coordinated names are separate entities; `[[Austin], [Texas]]` is one place that holds two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, TypeVar

from fencepost.data.entity import Entity, Sentence
from fencepost.data.sample import PARTS, get_path
from tools.sample_corpus.lexicon import (
    AMBIGUOUS,
    CLAUSE_SENTENCES,
    LAND_OF,
    NAMES,
    OPENINGS,
    OTHER_SENTENCES,
    RULES,
    TOPICS,
    WITHOUT_ENTITIES,
    WORDS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SIZES = {"train": 900, "dev": 150, "test": 150}
SEED = 3  # the first with which all checks of tests/data/test_sample.py pass

SENTENCE_WORDS = range(4, 36)
LONGEST_ENTITY = 12
DEEPEST_RULE = 5

SHARE_AMBIGUOUS = 0.25  # share of names with several types, among all names
SHARE_UNSEEN = 0.6  # share of names that are not in train, among the other names of dev and test
SHARE_DEEP = 0.45  # probability that a rule is expanded further, if possible
SHARE_WITHOUT_ENTITIES = 0.75  # share of documents with one sentence without entities
SHARE_OTHER = 0.25  # share of sentences without a clause, among those with entities
SHARE_OFF_TOPIC = 0.25

NO_SPACE_BEFORE = frozenset({",", ".", ";", ":", "?", "!", ")", "”", "'s"})
NO_SPACE_AFTER = frozenset({"(", "“"})
VOWELS = frozenset("aeiouAEIOU")

T = TypeVar("T")


@dataclass(frozen=True)
class Piece:
    """Words, and the entities among them as `(start, end, type)`."""

    words: tuple[str, ...] = ()
    entities: tuple[tuple[int, int, str], ...] = ()

    def __add__(self, other: Piece) -> Piece:
        shift = len(self.words)
        entities = tuple((start + shift, end + shift, type_) for start, end, type_ in other.entities)
        return Piece(self.words + other.words, self.entities + entities)

    def mark(self, start: int, type_: str) -> Piece:
        """Return the piece with an additional entity from `start` to the end."""
        return Piece(self.words, (*self.entities, (start, len(self.words), type_)))


class Dice:
    """Random choices that are the same on every machine and with every version of Python.

    Only `Random.random` is used: of the methods of `Random`, it alone guarantees its sequence.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311  (a corpus, not a secret)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def choose(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)


class Names:
    """Names that one part of the corpus may use."""

    def __init__(self, dice: Dice, part: str) -> None:
        self._dice = dice
        self._part = part

    def choose(self, kind: str) -> str:
        ambiguous, *shares = _deal(NAMES[kind])
        if ambiguous and self._dice.chance(SHARE_AMBIGUOUS):
            return self._dice.choose(ambiguous)
        unseen = self._part != "train" and self._dice.chance(SHARE_UNSEEN)
        return self._dice.choose(shares[PARTS.index(self._part) if unseen else 0])


def _deal(names: Sequence[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return the ambiguous names, and those of the others for train, dev and test (3, 1 and 1 of five)."""
    plain = [name for name in names if name not in AMBIGUOUS]
    return (
        [name for name in names if name in AMBIGUOUS],
        [name for index, name in enumerate(plain) if index % 5 < 3],
        plain[3::5],
        plain[4::5],
    )


class Writer:
    """Writes the sentences of one document, about one person (the hero) and one organization."""

    def __init__(self, dice: Dice, part: str) -> None:
        self._dice = dice
        self._names = Names(dice, part)
        self._depth = 0
        self._introduced = False
        self._topic = dice.choose((*sorted(TOPICS), "culture"))
        self._pronouns = dice.choose((("woman", "she", "her", "her"), ("man", "he", "his", "him")))
        self._first = self._names.choose(self._pronouns[0])
        self._surname = self._names.choose("surname")
        self._honorific = dice.choose(("Dr.", "Professor", "Captain"))
        self._firm = self.write("{firm_name}")

    def write(self, template: str) -> Piece:
        """Return the words of a template, with filled slots, and brackets converted to entities."""
        piece = Piece()
        opened: list[tuple[int, str]] = []
        for item in template.split():
            if item.startswith("["):
                opened.append((len(piece.words), item[1:]))
            elif item == "]":
                piece = piece.mark(*opened.pop())
            elif item.startswith("{"):
                piece += self._fill(item[1:-1])
            else:
                piece += Piece((item,))
        return piece

    def write_opening(self) -> Piece:
        """Return the first sentence of the document, with the full name of the hero."""
        self._introduced = False
        return self.write(self._dice.choose(OPENINGS))

    def write_sentence(self) -> Piece:
        """Return a later sentence with entities."""
        self._introduced = True
        other = self._dice.chance(SHARE_OTHER)
        return self.write(self._dice.choose(OTHER_SENTENCES if other else CLAUSE_SENTENCES))

    def write_plain_sentence(self) -> Piece:
        """Return a later sentence without entities."""
        return self.write(self._dice.choose(WITHOUT_ENTITIES))

    def _fill(self, slot: str) -> Piece:
        if slot in RULES:
            return self._expand(slot)
        if slot in NAMES:
            return Piece(tuple(self._names.choose(slot).split()))
        if slot in WORDS:
            return Piece(tuple(self._dice.choose(WORDS[slot]).split()))
        return self._fill_from_document(slot)

    def _expand(self, rule: str) -> Piece:
        """Return one expansion of a rule; a simple one if the recursion is deep."""
        simple, deep = RULES[rule]
        go_deeper = deep and self._depth < DEEPEST_RULE and self._dice.chance(SHARE_DEEP)
        self._depth += 1
        piece = self.write(self._dice.choose(deep if go_deeper else simple))
        self._depth -= 1
        return piece

    def _fill_from_document(self, slot: str) -> Piece:
        _, she, her, him = self._pronouns
        match slot:
            case "she" | "her" | "him":
                return Piece(({"she": she, "her": her, "him": him}[slot],))
            case "hero":
                return self._name_hero()
            case "hero_first":
                return Piece((self._first,))
            case "firm":
                return self._firm
            case "city_and_land":
                return self._choose_city()
            case "topic_clause":
                return self.write(self._dice.choose(TOPICS[self._choose_topic()]))
            case "year":
                return Piece((str(1920 + self._dice.below(100)),))
            case "number_of_day":
                return Piece((str(1 + self._dice.below(28)),))
            case "number":
                return Piece((self._choose_number(),))
        raise AssertionError(f"there is no rule, name or word list {slot!r}")

    def _name_hero(self) -> Piece:
        """Return the full name of the hero the first time, and mostly a short form later."""
        full = f"[person {self._first} {self._surname} ]"
        surname = f"[person {self._surname} ]"
        if not self._introduced:
            self._introduced = True
            return self.write(full)
        forms = (full, surname, surname, f"{self._honorific} {surname}", f"[person {self._first} ]")
        return self.write(self._dice.choose(forms))

    def _choose_topic(self) -> str:
        off_topic = self._dice.chance(SHARE_OFF_TOPIC)
        return self._dice.choose(sorted(TOPICS)) if off_topic else self._topic

    def _choose_city(self) -> Piece:
        """Return a city, with its country or region if the lexicon has it."""
        city = self._names.choose("town")
        if city not in LAND_OF:
            return self.write(f"[place {city} ]")
        return self.write(f"[place [place {city} ] , [place {LAND_OF[city]} ] ]")

    def _choose_number(self) -> str:
        """Return a quantity; one in four looks like a year."""
        like_a_year = self._dice.chance(0.25)
        return str(1920 + self._dice.below(100) if like_a_year else 3 + self._dice.below(90))


def generate() -> dict[str, list[Sentence]]:
    """Return the three parts; no sentence occurs twice in them."""
    dice = Dice(SEED)
    keys: set[str] = set()
    return {part: list(_generate_part(dice, part, keys)) for part in PARTS}


def _generate_part(dice: Dice, part: str, keys: set[str]) -> Iterator[Sentence]:
    left = SIZES[part]
    document = 0
    while left:
        name = f"{part}-{document:03}"
        # A document has 4 to 8 sentences, and leaves either none or enough for another one.
        size = left if left <= 8 else min(4 + dice.below(5), left - 4)
        yield from _generate_document(dice, part, name, size, keys)
        left -= size
        document += 1


def _generate_document(dice: Dice, part: str, name: str, size: int, keys: set[str]) -> Iterator[Sentence]:
    writer = Writer(dice, part)
    writers = [writer.write_opening, *[writer.write_sentence] * (size - 1)]
    if dice.chance(SHARE_WITHOUT_ENTITIES):
        writers[1 + dice.below(size - 1)] = writer.write_plain_sentence
    for index, write in enumerate(writers):
        piece = _polish(write())
        while not _is_acceptable(piece, keys):
            piece = _polish(write())
        keys.add(_make_key(piece.words))
        yield Sentence(
            words=piece.words,
            entities=tuple(Entity(*entity) for entity in piece.entities),
            id=f"{name}-{index}",
            doc=name,
            space_after=_find_spaces(piece.words),
        )


def _is_acceptable(piece: Piece, keys: set[str]) -> bool:
    """Return whether a sentence is new, not too short or long, and repeats no entity and no quotation."""
    entities = [_make_key(piece.words[start:end]) for start, end, _ in piece.entities]
    return (
        len(piece.words) in SENTENCE_WORDS
        and all(end - start <= LONGEST_ENTITY for start, end, _ in piece.entities)
        and len(set(entities)) == len(entities)
        and not (piece.words[0] == "“" and "“" in piece.words[1:])
        and _make_key(piece.words) not in keys
    )


def _make_key(words: Iterable[str]) -> str:
    return " ".join(words).casefold()


def _polish(piece: Piece) -> Piece:
    """Return a sentence with a capital letter at its start, and `an` before vowels."""
    words = list(piece.words)
    for index, following in enumerate(words[1:]):
        if words[index] in ("a", "A") and _starts_with_vowel(following):
            words[index] += "n"
    first = 1 if words[0] == "“" else 0
    words[first] = words[first][0].upper() + words[first][1:]
    return Piece(tuple(words), piece.entities)


def _starts_with_vowel(word: str) -> bool:
    return word[0] in VOWELS and not word.casefold().startswith(("uni", "eu", "uru", "uk"))


def _find_spaces(words: Sequence[str]) -> tuple[bool, ...]:
    """Return which words are followed by a space; the last one is not."""
    spaces = [
        word not in NO_SPACE_AFTER and following not in NO_SPACE_BEFORE for word, following in pairwise(words)
    ]
    return (*spaces, False)


def to_json(sentence: Sentence) -> str:
    """Return a sentence as a line of the files in the package."""
    return json.dumps(
        {
            "id": sentence.id,
            "doc": sentence.doc,
            "words": list(sentence.words),
            "entities": [
                {"start": entity.start, "end": entity.end, "type": entity.type}
                for entity in sentence.entities
            ],
            "space_after": list(sentence.space_after or ()),
        },
        ensure_ascii=False,
    )


def main() -> None:
    """Rewrite the three files of the package."""
    for part, sentences in generate().items():
        text = "".join(to_json(sentence) + "\n" for sentence in sentences)
        get_path(part).write_bytes(text.encode("utf-8"))


if __name__ == "__main__":
    main()
