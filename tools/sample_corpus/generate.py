"""Write the sample corpus: `python -m tools.sample_corpus.generate` makes its three files again.

The annotation guideline:

1. A mention is the longest phrase that names something; names inside it are mentions as well.
2. `the` belongs to the mention that it opens (`[the Bank of [Norway]]`), but not where the name
   only modifies another noun (`the [Bank of [Norway]] library`); `a` and `an` never belong to it,
   and a product takes no article at all (`the [Kestrel 500]`).
3. A complement with `of` is inside (`[the Museum of Fine Arts]`); a phrase with `in`, `at`, `for`
   or `from` is outside (`[the Museum of Fine Arts] in [Oslo]`), except in the title of a work.
4. A title before a name is outside (`Dr. [Ada Marsh]`), and so is a possessive `'s`, unless rule 5
   makes the whole a mention.
5. A phrase whose head is a lower-case noun is a mention only if the noun is a relative, an office
   or a part played (person), a unit (organization), a part of a place or of a time, or an occasion
   (event), and `of` or `'s` ties it to a mention: `[[Ada Marsh]'s brother]`, `[the mayor of
   [Oslo]]`, `[the [Ghent] office of [Vantor]]`, `[the spring of [1998]]`; not `[Ada Marsh]'s
   house`, `the [Ghent] office`, `the mayor`, `a spokesman for [Vantor]`.
6. Inside another name, a full personal name is a mention (`[the [Ada Marsh] Foundation]`), a lone
   surname is not (`[Marsh & Sons]`). Places, years and makers inside names are mentions, but not
   after `River` or `Lake` (`[Lake Victoria]`).
7. Universities, museums, banks and teams are organizations; stations, bridges, parks, rivers and
   planets are places. Quotation marks around a work are outside.
8. A date is one mention (`[3 May 1998]`). Quantities, durations, languages and adjectives of
   nationality are no mentions.
9. Coordinated names are separate mentions; `[[Austin], [Texas]]` is one place that holds two.
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
SEED = 3  # the first with which every property that tests/data/test_sample.py checks holds

SENTENCE_WORDS = range(4, 36)
LONGEST_ENTITY = 12
DEEPEST_RULE = 5

SHARE_AMBIGUOUS = 0.25  # of all names: those that belong to several types
SHARE_UNSEEN = 0.6  # of the other names of dev and test: those that train never shows
SHARE_DEEP = 0.45  # how often a rule goes deeper where it may
SHARE_WITHOUT_ENTITIES = 0.75  # of the documents: those with one sentence that has no entity
SHARE_OTHER = 0.25  # of the sentences with entities: those that no clause makes
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
        moved = tuple((start + shift, end + shift, type_) for start, end, type_ in other.entities)
        return Piece(self.words + other.words, self.entities + moved)

    def marked(self, start: int, type_: str) -> Piece:
        """The same piece, where everything from `start` on is an entity."""
        return Piece(self.words, (*self.entities, (start, len(self.words), type_)))


class Dice:
    """Random choices that come out the same on every machine and every version of Python.

    Only `Random.random` is used: of the methods of `Random`, it alone promises its sequence.
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
    """The names that one split may use."""

    def __init__(self, dice: Dice, split: str) -> None:
        self._dice = dice
        self._split = split

    def choose(self, kind: str) -> str:
        ambiguous, *shares = _deal(NAMES[kind])
        if ambiguous and self._dice.chance(SHARE_AMBIGUOUS):
            return self._dice.choose(ambiguous)
        unseen = self._split != "train" and self._dice.chance(SHARE_UNSEEN)
        return self._dice.choose(shares[PARTS.index(self._split) if unseen else 0])


def _deal(names: Sequence[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    """The ambiguous names, then what train, dev and test get of the others: 3, 1 and 1 in five."""
    plain = [name for name in names if name not in AMBIGUOUS]
    return (
        [name for name in names if name in AMBIGUOUS],
        [name for index, name in enumerate(plain) if index % 5 < 3],
        plain[3::5],
        plain[4::5],
    )


class Writer:
    """Writes the sentences of one document, about one person (the hero) and one organization."""

    def __init__(self, dice: Dice, split: str) -> None:
        self._dice = dice
        self._names = Names(dice, split)
        self._depth = 0
        self._introduced = False
        self._topic = dice.choose((*sorted(TOPICS), "culture"))
        self._pronouns = dice.choose((("woman", "she", "her", "her"), ("man", "he", "his", "him")))
        self._first = self._names.choose(self._pronouns[0])
        self._surname = self._names.choose("surname")
        self._honorific = dice.choose(("Dr.", "Professor", "Captain"))
        self._firm = self.write("{firm_name}")

    def write(self, template: str) -> Piece:
        """The words of a template, its slots filled and its brackets turned into entities."""
        piece = Piece()
        opened: list[tuple[int, str]] = []
        for item in template.split():
            if item.startswith("["):
                opened.append((len(piece.words), item[1:]))
            elif item == "]":
                piece = piece.marked(*opened.pop())
            elif item.startswith("{"):
                piece += self._fill(item[1:-1])
            else:
                piece += Piece((item,))
        return piece

    def opening(self) -> Piece:
        """The first sentence of the document, which names the hero in full."""
        self._introduced = False
        return self.write(self._dice.choose(OPENINGS))

    def sentence(self) -> Piece:
        """Any later sentence that has entities."""
        self._introduced = True
        other = self._dice.chance(SHARE_OTHER)
        return self.write(self._dice.choose(OTHER_SENTENCES if other else CLAUSE_SENTENCES))

    def plain_sentence(self) -> Piece:
        """Any later sentence that has none."""
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
        """One way of writing a rule; the deeper in the recursion, the simpler."""
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
                return self._hero()
            case "hero_first":
                return Piece((self._first,))
            case "firm":
                return self._firm
            case "city_and_land":
                return self._city_and_land()
            case "topic_clause":
                return self.write(self._dice.choose(TOPICS[self._current_topic()]))
            case "year":
                return Piece((str(1920 + self._dice.below(100)),))
            case "number_of_day":
                return Piece((str(1 + self._dice.below(28)),))
            case "number":
                return Piece((self._number(),))
        raise AssertionError(f"no rule, name or word list is called {slot!r}")

    def _hero(self) -> Piece:
        """The full name when it comes first; later mostly a short form."""
        full = f"[person {self._first} {self._surname} ]"
        surname = f"[person {self._surname} ]"
        if not self._introduced:
            self._introduced = True
            return self.write(full)
        forms = (full, surname, surname, f"{self._honorific} {surname}", f"[person {self._first} ]")
        return self.write(self._dice.choose(forms))

    def _current_topic(self) -> str:
        off_topic = self._dice.chance(SHARE_OFF_TOPIC)
        return self._dice.choose(sorted(TOPICS)) if off_topic else self._topic

    def _city_and_land(self) -> Piece:
        """A city, with its land where the lexicon knows it."""
        city = self._names.choose("town")
        if city not in LAND_OF:
            return self.write(f"[place {city} ]")
        return self.write(f"[place [place {city} ] , [place {LAND_OF[city]} ] ]")

    def _number(self) -> str:
        """A quantity; one in four looks like a year."""
        like_a_year = self._dice.chance(0.25)
        return str(1920 + self._dice.below(100) if like_a_year else 3 + self._dice.below(90))


def generate() -> dict[str, list[Sentence]]:
    """The three splits; no sentence occurs twice in them."""
    dice = Dice(SEED)
    seen: set[str] = set()
    return {split: list(_split(dice, split, seen)) for split in PARTS}


def _split(dice: Dice, split: str, seen: set[str]) -> Iterator[Sentence]:
    left = SIZES[split]
    document = 0
    while left:
        name = f"{split}-{document:03}"
        # A document has 4 to 8 sentences, and leaves either none or enough for another one.
        size = left if left <= 8 else min(4 + dice.below(5), left - 4)
        yield from _document(dice, split, name, size, seen)
        left -= size
        document += 1


def _document(dice: Dice, split: str, name: str, size: int, seen: set[str]) -> Iterator[Sentence]:
    writer = Writer(dice, split)
    writers = [writer.opening, *[writer.sentence] * (size - 1)]
    if dice.chance(SHARE_WITHOUT_ENTITIES):
        writers[1 + dice.below(size - 1)] = writer.plain_sentence
    for index, write in enumerate(writers):
        piece = _polished(write())
        while not _acceptable(piece, seen):
            piece = _polished(write())
        seen.add(_key(piece.words))
        yield Sentence(
            words=piece.words,
            entities=tuple(Entity(*entity) for entity in piece.entities),
            id=f"{name}-{index}",
            doc=name,
            space_after=_spaces(piece.words),
        )


def _acceptable(piece: Piece, seen: set[str]) -> bool:
    """Whether a sentence is new, of a good length, names nothing twice and nests no quotations."""
    mentions = [_key(piece.words[start:end]) for start, end, _ in piece.entities]
    return (
        len(piece.words) in SENTENCE_WORDS
        and all(end - start <= LONGEST_ENTITY for start, end, _ in piece.entities)
        and len(set(mentions)) == len(mentions)
        and not (piece.words[0] == "“" and "“" in piece.words[1:])
        and _key(piece.words) not in seen
    )


def _key(words: Iterable[str]) -> str:
    return " ".join(words).casefold()


def _polished(piece: Piece) -> Piece:
    """With a capital where a sentence starts, and `an` before a vowel."""
    words = list(piece.words)
    for index, following in enumerate(words[1:]):
        if words[index] in ("a", "A") and _starts_with_vowel(following):
            words[index] += "n"
    first = 1 if words[0] == "“" else 0
    words[first] = words[first][0].upper() + words[first][1:]
    return Piece(tuple(words), piece.entities)


def _starts_with_vowel(word: str) -> bool:
    return word[0] in VOWELS and not word.casefold().startswith(("uni", "eu", "uru", "uk"))


def _spaces(words: Sequence[str]) -> tuple[bool, ...]:
    """Which words are followed by a space; the last one is not."""
    spaces = [
        word not in NO_SPACE_AFTER and following not in NO_SPACE_BEFORE for word, following in pairwise(words)
    ]
    return (*spaces, False)


def to_json(sentence: Sentence) -> str:
    """A sentence as a line of the shipped files."""
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
    """Rewrite the three files that ship in the package."""
    for split, sentences in generate().items():
        text = "".join(to_json(sentence) + "\n" for sentence in sentences)
        get_path(split).write_bytes(text.encode("utf-8"))


if __name__ == "__main__":
    main()
