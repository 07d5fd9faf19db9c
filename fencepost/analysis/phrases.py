"""Phrases of a corpus: how often the same words occur, and how often they are annotated, with which type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.data.entity import Entity, Sentence

Phrase = tuple[str, ...]
"""Words in lower case."""


def phrase_of(sentence: Sentence, start: int, end: int) -> Phrase:
    return tuple(word.lower() for word in sentence.words[start:end])


class PhraseIndex:
    """A set of phrases, which are found in sentences in time proportional to the words of these.

    Of each first word, only the lengths of the phrases that begin with it are tried.
    """

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self.phrases = set(phrases)
        self._lengths: dict[str, set[int]] = {}
        for phrase in self.phrases:
            self._lengths.setdefault(phrase[0], set()).add(len(phrase))

    def find(self, sentence: Sentence) -> Iterator[tuple[int, Phrase]]:
        """Yield the start of each occurrence, and the phrase."""
        words = phrase_of(sentence, 0, len(sentence))
        for start, word in enumerate(words):
            for length in sorted(self._lengths.get(word, ())):
                phrase = words[start : start + length]
                if len(phrase) == length and phrase in self.phrases:
                    yield start, phrase


class PhraseCounts:
    """How often each annotated phrase occurs in a corpus, and how often it is annotated as each type."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.annotated = Counter(
            (phrase_of(sentence, *entity.span), entity.type)
            for sentence in sentences
            for entity in sentence.entities
        )
        index = PhraseIndex(phrase for phrase, _ in self.annotated)
        self.occurrences = Counter(phrase for sentence in sentences for _, phrase in index.find(sentence))

    def elsewhere(self, sentence: Sentence, entity: Entity, *, annotated: bool) -> tuple[int, int]:
        """Return how often the entity's words have its type elsewhere, and how often they have not.

        `annotated` says whether the entity is one of the counted annotations, which is left out.
        """
        phrase = phrase_of(sentence, *entity.span)
        same = max(0, self.annotated[phrase, entity.type] - annotated)
        return same, max(0, self.occurrences[phrase] - 1 - same)
