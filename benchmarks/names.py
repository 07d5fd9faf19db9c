"""Names in corpora that annotate something else: all mentions (GUM), or names of other types (WNUT17).

GUM annotates every mention, pronouns and descriptions included, with its articles, titles and `'s`. A mention
is a *name* here if the word that it is about is a proper noun, and the name is the part of it that is written
as one: "Tim Cook" of "Apple CEO Tim Cook", "University of Toronto" of "the University of Toronto 's", nothing
of "the president of France". Tags of parts of speech and the mentions inside decide, not a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fencepost import Entity, Sentence

TYPES = {
    **{name: name for name in ("event", "organization", "person", "place", "time", "object", "other")},
    **dict.fromkeys(("plant", "substance", "product"), "object"),
    **dict.fromkeys(("abstract", "animal", "creative-work"), "other"),
    **dict.fromkeys(("corporation", "group"), "organization"),
    "location": "place",
}
"""The type of a name by the type of GUM or WNUT17."""

IN_TWEETS = ("object", "organization", "person", "place")
"""Types that WNUT17 annotates completely: of `other` only works, of events and dates none."""

TITLES = frozenset(
    [
        *("mr", "mrs", "ms", "miss", "dr", "prof", "professor", "president", "vice", "senator", "sen", "rep"),
        *("representative", "congressman", "congresswoman", "governor", "gov", "mayor", "minister", "prime"),
        *("secretary", "chancellor", "ambassador", "judge", "justice", "general", "gen", "colonel", "col"),
        *(
            "captain",
            "capt",
            "major",
            "lieutenant",
            "lt",
            "sergeant",
            "sgt",
            "commander",
            "admiral",
            "officer",
        ),
        *("chief", "ceo", "cfo", "cto", "chairman", "chairwoman", "chair", "director", "manager", "editor"),
        *("coach", "reverend", "rev", "rabbi", "father", "brother", "sister", "bishop", "archbishop"),
        *("cardinal", "uncle", "aunt", "auntie", "grandma", "grandpa", "attorney", "counsel", "detective"),
        *("agent", "premier", "co-founder", "founder", "spokesman", "spokeswoman", "speaker", "deputy"),
        *("executive", "first", "lady"),
    ]
)
"""Words before the name of a person that are not part of it; those of kings, popes and saints are."""

_PROPER = ("NNP", "NNPS")
_BEFORE = (
    *("DT", "PDT", "PRP$", "JJ", "JJS", "JJR", "NN", "NNS", "CD", "``", "''", "VBN", "VBG", "HYPH", "RB"),
    "POS",
)
_MODIFIER = ("JJ", "HYPH", "POS", "CD", "VBG", "NN", "NNS", *_PROPER)
_CAPITALISED = ("JJ", "NN", "NNS", "FW", "VBN", "VBG")
_LINKS = frozenset(
    [
        *("of", "the", "and", "&", "for", "a", "an", "'s", "’s", "-", "–", "/", "@", "."),
        *("de", "la", "le", "les", "del", "da", "di", "do", "dos", "du", "von", "van", "der", "den"),
        *("bin", "al", "ibn"),
    ]
)
_LINKS_IN_TITLES = _LINKS | {"to", "in", "on", "with", "from", ":"}
_NUMBERED = ("figure", "table", "factor", "section", "chapter", "part", "step", "goal", "page", "unit")
_YEAR = re.compile(r"(1\d|20)\d\ds?")
_EDGE = ("POS", ",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "SYM", "NFP")


def find_names(sentence: Sentence) -> Sentence:
    """Return a sentence of GUM with its names in place of its mentions."""
    assert sentence.pos is not None
    chosen: dict[tuple[int, int], Entity] = {}
    for mention in sorted(sentence.entities, key=len):  # of several with one name, the shortest has its type
        find = _find_date if mention.type == "time" else _find_name
        name = find(sentence, mention)
        if name is not None:
            chosen.setdefault(name, Entity(*name, TYPES[mention.type], mention.score))
    return sentence.with_entities(chosen.values())


def _find_name(sentence: Sentence, mention: Entity) -> tuple[int, int] | None:
    """Return the name that a mention is, None if it is a description or a pronoun."""
    pos = sentence.pos
    assert pos is not None
    end = mention.end
    while end > mention.start and pos[end - 1] in _EDGE:
        end -= 1
    start = mention.start
    while start < end and not _is_proper(sentence, start):
        if pos[start] not in _BEFORE:
            return None
        start += 1
    if start == end:
        return None
    links = _LINKS_IN_TITLES if TYPES[mention.type] == "other" else _LINKS
    stop = _extend(sentence, mention, start, end, links)
    if stop < end and pos[stop] == "POS":  # the mention is about what follows
        return None if stop + 1 == mention.end else _find_name(sentence, replace(mention, start=stop + 1))
    is_list = links is _LINKS and _is_list(sentence, start, stop)
    if is_list or _is_reference(sentence, start) or _has_common_head(sentence, stop, end):
        return None
    if mention.type == "person":
        start = _skip_titles(sentence, start, stop)
    return None if start == stop else (_include_first(sentence, mention, start), stop)


def _skip_titles(sentence: Sentence, start: int, stop: int) -> int:
    """Return where the name of a person starts after titles; `stop` if nothing else is left."""
    titles = [i for i in range(start, stop) if sentence.words[i].lower().rstrip(".") in TITLES]
    start = titles[-1] + 1 if titles else start
    return start if start < stop and _is_proper(sentence, start) else stop


def _include_first(sentence: Sentence, mention: Entity, start: int) -> int:
    """Return the start of a name with its "The" (a capital inside a sentence), or the year of an event."""
    first = start - 1
    if first < mention.start:
        return start
    word = sentence.words[first]
    is_capital = word == "The" and first > 0 and sentence.words[first - 1][0].islower()
    is_year = mention.type == "event" and _YEAR.fullmatch(word)
    return first if is_capital or is_year else start


def _find_date(sentence: Sentence, mention: Entity) -> tuple[int, int] | None:
    """Return the date in a mention of a time: months, weekdays, named days, years, and their numbers."""
    words, pos = sentence.words, sentence.pos
    assert pos is not None
    marks = [
        index
        for index in range(mention.start, mention.end)
        if pos[index] in _PROPER or _YEAR.fullmatch(words[index])
    ]
    if not marks:
        return None
    start, stop = marks[0], marks[0] + 1

    def is_number(index: int) -> bool:
        return pos[index] == "CD" or bool(re.fullmatch(r"\d+(st|nd|rd|th)", words[index].lower()))

    if start > mention.start and is_number(start - 1) and not _YEAR.fullmatch(words[start]):
        start -= 1
    while stop < mention.end:
        if _YEAR.fullmatch(words[stop - 1]):
            break
        if pos[stop] in _PROPER or is_number(stop):
            stop += 1
        elif (
            words[stop] in (",", "of", "-")
            and stop + 1 < mention.end
            and (pos[stop + 1] in _PROPER or _YEAR.fullmatch(words[stop + 1]))
        ):
            stop += 2
        else:
            break
    return start, stop


def _is_proper(sentence: Sentence, index: int) -> bool:
    """Return whether a word is written as a name: a proper noun, or capitalised inside the sentence."""
    assert sentence.pos is not None
    word, tag = sentence.words[index], sentence.pos[index]
    return tag in _PROPER or (index > 0 and word[0].isupper() and tag in _CAPITALISED)


def _extend(sentence: Sentence, mention: Entity, start: int, end: int, links: frozenset[str]) -> int:
    """Return the end of the name that starts at a word: proper words, numbers after them, links between.

    A possessive is no link if its owner is a mention ("Fort Lee 's Public School"), nor is "of" after a
    person if an organization follows ("Ann Chiang of DAB").
    """
    words, pos = sentence.words, sentence.pos
    assert pos is not None
    owners = {other.end for other in sentence.entities if other.start >= start and other.end <= end}
    offices = {other.start for other in sentence.entities if other.type == "organization"}
    stop = position = start + 1
    while position < end:
        word, tag = words[position], pos[position]
        is_owned = tag == "POS" and position + 1 in owners
        is_office = mention.type == "person" and word == "of" and {position + 1, position + 2} & offices
        if word[0].isupper() or tag in _PROPER or (tag == "CD" and position == stop):
            stop = position + 1
        elif word not in links or is_owned or is_office:
            break
        position += 1
    return stop


def _is_reference(sentence: Sentence, start: int) -> bool:
    """Return whether a word starts a reference, as "Figure 2" and "http://..." do."""
    word, after = sentence.words[start].lower(), sentence.words[start + 1 : start + 2]
    return (word in _NUMBERED and bool(after) and after[0][0].isdigit()) or word.startswith(
        ("http", "doi:", "www.")
    )


def _is_list(sentence: Sentence, start: int, stop: int) -> bool:
    """Return whether a link "and" inside joins two mentions rather than the words of one name."""
    ends = {mention.end for mention in sentence.entities if mention.start >= start and mention.end < stop}
    return any(sentence.words[index] in ("and", "&", "/") and index in ends for index in range(start, stop))


def _has_common_head(sentence: Sentence, stop: int, end: int) -> bool:
    """Return whether a common noun follows that the name only describes: "the New York skyline"."""
    assert sentence.pos is not None
    for index in range(stop, end):
        if sentence.pos[index] in ("NN", "NNS"):
            return True
        if sentence.pos[index] not in _MODIFIER:
            return False
    return False


def map_types(sentence: Sentence) -> Sentence:
    """Return a sentence of WNUT17 with the types of names, marked as annotated in part."""
    entities = [replace(entity, type=TYPES[entity.type]) for entity in sentence.entities]
    meta = {**sentence.meta, "annotated_types": list(IN_TWEETS)}
    return replace(sentence, entities=entities, meta=meta)


def vary_case(sentences: Sequence[Sentence], share: float, seed: int) -> Iterator[Sentence]:
    """Yield the sentences, a share of them in lower case and a quarter as many in capitals."""
    chance = np.random.default_rng(seed).random(len(sentences))
    for sentence, number in zip(sentences, chance, strict=True):
        if number < share:
            yield change_words(sentence, str.lower)
        elif number < 1.25 * share:
            yield change_words(sentence, str.upper)
        else:
            yield sentence


def change_words(sentence: Sentence, change: object) -> Sentence:
    """Return the sentence with each word changed by a function."""
    return replace(sentence, words=[change(word) for word in sentence.words])  # type: ignore[operator]


def take_free(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Return the sentences whose licence requires nothing but attribution."""
    return [sentence for sentence in sentences if sentence.meta.get("license") == "attribution"]


def guess_tags(sentence: Sentence) -> Sentence:
    """Return the sentence with tags of parts of speech that are guessed from how its words are written.

    Capitalised words are proper nouns, except function words; what a filter without a tagger can do.
    """
    return replace(sentence, pos=[_guess_tag(word) for word in sentence.words])


def _guess_tag(word: str) -> str:
    for tag, words in _FUNCTION_WORDS.items():
        if word.lower() in words:
            return tag
    if not any(character.isalnum() for character in word):
        return "HYPH" if word in ("-", "–") else ","
    if word[0].isdigit():
        return "CD"
    return "NNP" if word[0].isupper() else "NN"


_FUNCTION_WORDS = {
    "POS": ("'s", "’s", "'", "’"),
    "DT": ("the", "a", "an", "this", "that", "these", "those", "all", "each", "every", "some", "any", "no"),
    "PRP$": ("my", "your", "his", "her", "its", "our", "their"),
    "PRP": (
        *("i", "you", "he", "she", "it", "we", "they", "me", "him", "us", "them", "myself", "yourself"),
        *("himself", "herself", "itself", "ourselves", "themselves", "there", "here", "who", "which", "what"),
        *("one", "everyone", "someone", "anyone", "nobody", "everybody", "somebody"),
    ),
    "IN": (
        *("of", "in", "on", "at", "to", "for", "from", "with", "by", "about", "as", "into", "near", "than"),
        *("after", "before", "during", "between", "under", "over", "through", "like", "if", "when", "where"),
    ),
    "CC": ("and", "or", "but", "nor", "&"),
}
