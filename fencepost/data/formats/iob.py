"""Convert tags to entities and back: IOB1, IOB2, and BIOES with its variants BMES and BILOU.

A tag is `O`, or a letter for the position of the word in an entity, a dash, and the type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from fencepost.data.entity import Entity
from fencepost.errors import quote

READ_SCHEMES = ("iob1", "iob2", "bioes")
WRITE_SCHEMES = ("iob2", "iob1", "bioes", "bmes")
OUTSIDE = "O"

BROKEN_RULES = "sentence whose tags break the rules of {}, read as the CoNLL scorer does"
"""Template of the note on such a sentence; its argument is the scheme."""

_LETTERS = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}


class Invalid(ValueError):
    """A sentence is invalid; `index` is that of the word, or line, that is wrong."""

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        super().__init__(reason)


@lru_cache(maxsize=4096)
def parse(tag: str) -> tuple[str, str] | None:
    """Return the letter of a tag, one of O, B, I, E and S, and its type; None if it is not a tag."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    letter, dash, type_ = _LETTERS.get(tag[:1]), tag[1:2], tag[2:]
    return (letter, type_) if letter and dash == "-" and type_ else None


def detect(sentences: Iterable[Sequence[str]]) -> str:
    """Return the scheme of these tags.

    E and S occur only in BIOES. In IOB2, an entity always starts with B; in IOB1 it starts with I, unless the
    word before it belongs to another entity of the same type. The more frequent of the two decides.
    """
    starts = {"B": 0, "I": 0}
    for tags in sentences:
        before = ""  # the type of the previous word, "" outside
        for letter, type_ in filter(None, map(parse, tags)):
            if letter in ("E", "S"):
                return "bioes"
            if type_ not in ("", before):
                starts[letter] += 1
            before = type_
    return "iob1" if starts["I"] > starts["B"] else "iob2"


def to_entities(
    tags: Sequence[str], scheme: str, *, strict: bool = False
) -> tuple[list[Entity], Invalid | None]:
    """Return the entities of a sentence with these tags, and the first violation of the scheme, or None.

    Invalid sequences are read as by the scorer of the CoNLL shared tasks: a tag that continues no entity
    starts one, and one that is not continued ends it. Raises `Invalid` for a string that is not a tag and,
    if `strict`, for a violation.
    """
    entities: list[Entity] = []
    broken = None
    start, open_type, before = 0, "", OUTSIDE  # without a type, no entity is open
    for index, tag in enumerate((*tags, OUTSIDE)):
        parts = parse(tag)
        if parts is None:
            raise Invalid(index, f"{quote(tag)} is not a tag; a tag is O, or B-, I-, E- or S- and a type")
        letter, type_ = parts
        continues = letter in ("I", "E") and type_ == open_type and before in ("B", "I")
        broken = broken or _find_broken_rule(index, tags, letter, before, continues, scheme)
        if not continues:
            if open_type:
                entities.append(Entity(start, index, open_type))
            start, open_type = index, type_
        before = letter
    if broken and strict:
        raise broken
    return entities, broken


def _find_broken_rule(
    index: int, tags: Sequence[str], letter: str, before: str, continues: bool, scheme: str
) -> Invalid | None:
    """Return how the tag at `index` violates its scheme; None if it does not."""
    if scheme == "bioes" and before in ("B", "I") and not continues:
        return Invalid(index - 1, f"the entity of {quote(tags[index - 1])} has no end")
    if scheme != "iob1" and letter in ("I", "E") and not continues:
        return Invalid(index, f"{quote(tags[index])} continues an entity, but none of its type is open")
    if scheme != "bioes" and letter in ("E", "S"):
        return Invalid(index, f"{quote(tags[index])} does not occur in {scheme}")
    return None


def from_entities(length: int, entities: Sequence[Entity], scheme: str = "iob2") -> list[str]:
    """Return the tags of a sentence of `length` words; the entities must be sorted and must not overlap."""
    tags = [OUTSIDE] * length
    for entity in entities:
        type_ = entity.type
        touches_its_type = entity.start > 0 and tags[entity.start - 1][2:] == type_
        letters = _make_letters(len(entity), scheme, touches_its_type)
        tags[entity.start : entity.end] = [f"{letter}-{type_}" for letter in letters]
    return tags


def _make_letters(length: int, scheme: str, touches_its_type: bool) -> str:
    if scheme == "iob1":
        return ("B" if touches_its_type else "I") + "I" * (length - 1)
    if scheme == "iob2":
        return "B" + "I" * (length - 1)
    inside = "M" if scheme == "bmes" else "I"
    return "S" if length == 1 else "B" + inside * (length - 2) + "E"
