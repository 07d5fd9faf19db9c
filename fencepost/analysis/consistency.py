"""Annotations that contradict each other, found without a model in time linear in the size of a corpus.

Each check compares annotations in similar contexts and counts the variants; the rarer ones are suspects:

- `article`, `title`, `possessive`, `punctuation`: a word such as "the", "Dr.", "'s" or "," at a boundary is
  part of some entities of a type, and just outside of others;
- `type`: the same words have different types; `annotated or not`: the same words are an entity in some
  places, and in others no word of them is part of any entity;
- `plural`: the singular and the plural of the same words have different types, or only one is annotated;
- `cut word`: an entity starts or ends inside a word, if the corpus tells where spaces are;
- `duplicate`: sentences with the same words have different entities.

Case is ignored. The lists of articles and titles are English.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fencepost.analysis.phrases import Phrase, PhraseIndex, get_phrase
from fencepost.data.entity import Sentence

Check = Literal[
    "article",
    "title",
    "possessive",
    "punctuation",
    "type",
    "annotated or not",
    "plural",
    "cut word",
    "duplicate",
]
CHECKS: tuple[Check, ...] = get_args(Check)

_ARTICLES = frozenset(
    re.findall(r"\w+", "a an the this that these those my your his her its our their some any each every no")
)
_TITLES = frozenset(
    re.findall(
        r"\w+",
        "mr mrs ms miss dr prof professor president sir lady lord king queen prince princess pope senator "
        "governor general captain chancellor judge justice minister mayor saint st",
    )
)
_POSSESSIVES = frozenset(("'s", "’s", "'", "’"))
_PUNCTUATION = frozenset(",;:.!?")
_BOUNDARY_CHECKS: tuple[tuple[Check, bool, Callable[[str], bool]], ...] = (
    ("article", True, _ARTICLES.__contains__),
    ("title", True, lambda word: word.rstrip(".") in _TITLES),
    ("possessive", False, _POSSESSIVES.__contains__),
    ("punctuation", False, _PUNCTUATION.__contains__),
)
"""Checks of boundaries: name, whether it is the start, and a test of a word in lower case."""

UNANNOTATED = "not annotated"
_RARE = 0.25
"""Maximum share of the rarer occurrences of a phrase, annotated or not, that are reported as suspects."""


@dataclass(frozen=True, slots=True)
class Place:
    """Words of a sentence (numbered from 0) with their type, or None if they are not annotated."""

    sentence: int
    start: int
    end: int
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """Subject that is annotated in several ways: the count of each, and the places of the rarer ones."""

    check: Check
    subject: str
    counts: Mapping[str, int]
    suspects: Sequence[Place]

    def to_dict(self, sentences: Sequence[Sentence]) -> dict[str, Any]:
        """Return the inconsistency for JSON, with sentences numbered from 1."""
        return {
            "check": self.check,
            "subject": self.subject,
            "counts": dict(self.counts),
            "suspects": [
                {
                    "sentence": place.sentence + 1,
                    "id": sentences[place.sentence].id,
                    "start": place.start,
                    "end": place.end,
                    "type": place.type,
                    "text": " ".join(sentences[place.sentence].words[place.start : place.end]),
                }
                for place in self.suspects
            ],
        }


Variants = dict[str, list[Place]]
"""Places by the way in which they are annotated."""


def find_inconsistencies(sentences: Sequence[Sentence]) -> list[Inconsistency]:
    """Return all inconsistencies, sorted by check and by descending number of suspects."""
    checks = (_check_boundaries, _check_phrases, _check_cut_words, _check_duplicates)
    return sorted(
        (one for check in checks for one in check(sentences)),
        key=lambda one: (CHECKS.index(one.check), -len(one.suspects), one.subject),
    )


def _make_inconsistency(check: Check, subject: str, variants: Variants) -> Inconsistency:
    """Count the variants; all places except those of the most frequent one are suspects."""
    ranked = sorted(variants, key=lambda name: (-len(variants[name]), name))
    rarer = [place for name in ranked[1:] for place in variants[name]]
    counts = {name: len(variants[name]) for name in ranked}
    rarer.sort(key=lambda place: (place.sentence, place.start, place.end, place.type or ""))
    return Inconsistency(check, subject, counts, rarer)


def _check_boundaries(sentences: Sequence[Sentence]) -> Iterator[Inconsistency]:
    """Compare the entities of a type that include a word such as an article with those next to one.

    Entities inside a larger entity that includes the word are skipped: "York" in "the York Museum".
    """
    variants: dict[tuple[Check, str], Variants] = {}
    for number, sentence in enumerate(sentences):
        words = get_phrase(sentence, 0, len(sentence))
        keys = sorted({entity.key for entity in sentence.entities})
        for start, end, type_ in keys:
            place = Place(number, start, end, type_)
            for check, first, fits in _BOUNDARY_CHECKS:
                inside, beside = (start, start - 1) if first else (end - 1, end)
                if end - start > 1 and fits(words[inside]) and not _is_verb(sentence, inside):
                    name = "part of the entity"
                elif 0 <= beside < len(words) and fits(words[beside]) and not _is_verb(sentence, beside):
                    low, high = min(start, beside), max(end, beside + 1)
                    if any(left <= low and high <= right for left, right, _ in keys):
                        continue
                    name = "outside of it"
                else:
                    continue
                variants.setdefault((check, type_), {}).setdefault(name, []).append(place)
    for (check, type_), of_type in variants.items():
        if len(of_type) > 1:
            yield _make_inconsistency(check, type_, of_type)


def _is_verb(sentence: Sentence, place: int) -> bool:
    """Return whether a word is tagged as a verb, such as the 's of "it's"."""
    return sentence.pos is not None and sentence.pos[place].startswith(("V", "AUX"))


def _check_phrases(sentences: Sequence[Sentence]) -> Iterator[Inconsistency]:
    """Compare the occurrences of the same words, and of their singular and plural forms."""
    places: dict[Phrase, Variants] = defaultdict(lambda: defaultdict(list))
    for number, sentence in enumerate(sentences):
        for start, end, type_ in sorted({entity.key for entity in sentence.entities}):
            places[get_phrase(sentence, start, end)][type_].append(Place(number, start, end, type_))
    forms: dict[Phrase, list[Phrase]] = defaultdict(list)
    for phrase in places:
        forms[_to_singular(phrase)].append(phrase)
    index = PhraseIndex({*places, *(form for singular in forms for form in _list_forms(singular))})
    bare: dict[Phrase, list[Place]] = defaultdict(list)
    for number, sentence in enumerate(sentences):
        covered = {word for entity in sentence.entities for word in range(entity.start, entity.end)}
        for start, phrase in index.find(sentence):
            end = start + len(phrase)
            if covered.isdisjoint(range(start, end)):
                bare[phrase].append(Place(number, start, end))
    for phrase, variants in places.items():
        subject = " ".join(phrase)
        if len(variants) > 1:
            yield _make_inconsistency("type", subject, variants)
        yield from _check_annotated(subject, variants, bare[phrase])
    for singular, annotated in forms.items():
        yield from _check_plurals(singular, annotated, places, bare)


def _check_annotated(subject: str, variants: Variants, bare: Sequence[Place]) -> Iterator[Inconsistency]:
    """Report words that are annotated nearly always, or nearly never."""
    annotated = [place for of_type in variants.values() for place in of_type]
    if bare and min(len(annotated), len(bare)) <= _RARE * (len(annotated) + len(bare)):
        sides = {"annotated": annotated, UNANNOTATED: list(bare)}
        yield _make_inconsistency("annotated or not", subject, sides)


def _check_plurals(
    singular: Phrase,
    annotated: Sequence[Phrase],
    places: Mapping[Phrase, Variants],
    bare: Mapping[Phrase, Sequence[Place]],
) -> Iterator[Inconsistency]:
    """Compare the forms of a phrase, if each form by itself is annotated consistently."""
    variants: Variants = {}
    for form in _list_forms(singular):
        types = places[form] if form in annotated else {}
        if len(types) > 1 or (types and bare.get(form)):
            return  # reported for the form itself
        for name, of_form in {**types, UNANNOTATED: list(bare.get(form, ()))}.items():
            if of_form:
                variants.setdefault(name, []).extend(of_form)
    if len(variants) > 1:
        yield _make_inconsistency("plural", " ".join(singular), variants)


def _to_singular(phrase: Phrase) -> Phrase:
    """Return the phrase without the regular English plural ending of its last word."""
    last = phrase[-1]
    if last.endswith("ies") and len(last) > 4:
        last = last[:-3] + "y"
    elif last.endswith(("ses", "xes", "zes", "ches", "shes")) and len(last) > 4:
        last = last[:-2]
    elif last.endswith("s") and not last.endswith(("ss", "us", "is")) and len(last) > 3:
        last = last[:-1]
    return (*phrase[:-1], last)


def _list_forms(singular: Phrase) -> list[Phrase]:
    """Return the phrase and its possible plurals."""
    last = singular[-1]
    plurals = [f"{last}s", f"{last}es", *([f"{last[:-1]}ies"] if last.endswith("y") else [])]
    every = [singular, *((*singular[:-1], plural) for plural in plurals)]
    return [form for form in every if _to_singular(form) == singular]


def _check_cut_words(sentences: Sequence[Sentence]) -> Iterator[Inconsistency]:
    by_type: dict[str, list[Place]] = {}
    total: Counter[str] = Counter()
    for number, sentence in enumerate(sentences):
        for entity in sentence.entities:
            total[entity.type] += 1
            if _is_cut(sentence, entity.start) or _is_cut(sentence, entity.end):
                by_type.setdefault(entity.type, []).append(Place(number, *entity.key))
    for type_, places in by_type.items():
        counts = {"whole words": total[type_] - len(places), "cut words": len(places)}
        yield Inconsistency("cut word", type_, counts, places)


def _is_cut(sentence: Sentence, place: int) -> bool:
    """Return whether a boundary is between two letters or digits without a space."""
    if sentence.space_after is None or not 0 < place < len(sentence) or sentence.space_after[place - 1]:
        return False
    return sentence.words[place - 1][-1:].isalnum() and sentence.words[place][:1].isalnum()


def _check_duplicates(sentences: Sequence[Sentence]) -> Iterator[Inconsistency]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, sentence in enumerate(sentences):
        if sentence.words:
            groups.setdefault(tuple(sentence.words), []).append(number)
    for words, numbers in groups.items():
        variants: Variants = {}
        for number in numbers:
            places = variants.setdefault(_describe_annotation(sentences[number], words), [])
            places.append(Place(number, 0, len(words)))
        if len(variants) > 1:
            yield _make_inconsistency("duplicate", " ".join(words), variants)


def _describe_annotation(sentence: Sentence, words: Sequence[str]) -> str:
    keys = sorted({entity.key for entity in sentence.entities})
    entities = (f"[{' '.join(words[start:end])}] {type_} ({start}-{end})" for start, end, type_ in keys)
    return ", ".join(entities) or "no entities"


def count_checks(inconsistencies: Iterable[Inconsistency]) -> dict[Check, tuple[int, int]]:
    """Return the numbers of inconsistencies and of suspects of each check."""
    counts = {check: [0, 0] for check in CHECKS}
    for one in inconsistencies:
        counts[one.check][0] += 1
        counts[one.check][1] += len(one.suspects)
    return {check: (cases, suspects) for check, (cases, suspects) in counts.items()}
