"""Phrases of a corpus: how often they occur, and how often they are annotated as each type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from fencepost.data.entity import Entity, Sentence

Phrase = tuple[str, ...]
"""Words in lower case."""


def get_phrase(sentence: Sentence, start: int, end: int) -> Phrase:
    return tuple(word.lower() for word in sentence.words[start:end])


class PhraseIndex:
    """Set of phrases that finds their occurrences in sentences in linear time.

    At each word, only the lengths of the phrases that start with this word are tried.
    """

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self.phrases = set(phrases)
        self._lengths: dict[str, set[int]] = {}
        for phrase in self.phrases:
            self._lengths.setdefault(phrase[0], set()).add(len(phrase))

    def find(self, sentence: Sentence) -> Iterator[tuple[int, Phrase]]:
        """Yield the start and the phrase of each occurrence."""
        words = get_phrase(sentence, 0, len(sentence))
        for start, word in enumerate(words):
            for length in sorted(self._lengths.get(word, ())):
                phrase = words[start : start + length]
                if len(phrase) == length and phrase in self.phrases:
                    yield start, phrase


class PhraseCounts:
    """Number of occurrences of each annotated phrase in a corpus, in total and annotated as each type."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.annotated = Counter(
            (get_phrase(sentence, *entity.span), entity.type)
            for sentence in sentences
            for entity in sentence.entities
        )
        index = PhraseIndex(phrase for phrase, _ in self.annotated)
        self.occurrences = Counter(phrase for sentence in sentences for _, phrase in index.find(sentence))

    def count_elsewhere(self, sentence: Sentence, entity: Entity, *, annotated: bool) -> tuple[int, int]:
        """Count the other occurrences of the entity's words: with its type, and without it.

        `annotated` tells whether the entity itself is among the counted annotations.
        """
        phrase = get_phrase(sentence, *entity.span)
        same = max(0, self.annotated[phrase, entity.type] - annotated)
        return same, max(0, self.occurrences[phrase] - 1 - same)
