"""A word of warning about text in a language that a model does not know.

A model finds entities in any text, and its confidences say nothing about what it never saw. Letters of
another script tell at once. In the same script, a language is told by its function words, which are the most
frequent ones of any text, and by what the tokenizer does to its words: it has few of another language as a
whole.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from fencepost.data.text.profile import count_scripts
from fencepost.encoder.settings import TextProfile
from fencepost.encoder.subwords import Subwords
from fencepost.errors import LanguageWarning

_ENOUGH_LETTERS, _ENOUGH_WORDS = 15, 20  # fewer tell nothing
_FOREIGN = 0.5  # share of letters in other scripts
_TELLING = 0.15  # share of the most frequent words in training data, if they are function words
_SPLIT = ((1.4, 0.25), (1.8, 0.4))  # pieces of a word in lower case, and the part of that share that is few
_UNKNOWN, _LETTERS_PER_PIECE = 0.3, 1.5  # of a tokenizer that does not know the script


class LanguageCheck:
    """Counts the first words of a run, and compares them with the training text.

    Models of earlier versions have no profile of it; then the tokenizer alone is asked, if there is one.
    """

    WORDS = 1_000
    """Words that are looked at."""

    def __init__(self, profile: TextProfile | None, subwords: Subwords | None, language: str) -> None:
        self.profile, self.subwords = profile, subwords
        self.has_long_pieces = language not in ("ja", "ko", "zh")  # there, a piece may well be a letter
        self.rest = self.WORDS
        self.is_finished = False
        self.letters: Counter[str] = Counter()
        self.words = self.known = self.lower = self.lower_pieces = self.pieces = self.unknown = self.read = 0

    def add(self, words: Sequence[str]) -> None:
        """Count the words of a sentence, as far as they are among the first of the run."""
        words = [word for word in words[: self.rest] if any(map(str.isalpha, word))]
        self.rest -= len(words)
        self.letters += count_scripts(words)
        self.words += len(words)
        self.known += sum(word.lower() in self.profile.words for word in words) if self.profile else 0
        for word, pieces in zip(words, self.subwords(words) if self.subwords else (), strict=False):
            if not any(map(str.isdigit, word)) and not (word.isascii() and len(word) == 1):
                self.read += sum(map(str.isalpha, word))
                self.pieces += len(pieces)
                self.unknown += pieces.count(self.subwords.unknown) if self.subwords else 0
            if word.islower() and word.isalpha():
                self.lower += 1
                self.lower_pieces += len(pieces)

    def judge(self) -> str | None:
        """Return what is unlike the training text; None if nothing is, or too little was read."""
        if self.letters.total() < _ENOUGH_LETTERS:
            return None
        return self._judge_pieces() if self.profile is None else self._judge_words(self.profile)

    def _judge_pieces(self) -> str | None:
        if self.has_long_pieces and self.pieces * _LETTERS_PER_PIECE > self.read:
            return (
                f"the tokenizer of the model splits it into pieces of {self.read / self.pieces:.1f} letters"
            )
        if self.unknown > _UNKNOWN * self.pieces:
            return f"{self.unknown / self.pieces:.0%} of its pieces are unknown to the tokenizer of the model"
        return None

    def _judge_words(self, profile: TextProfile) -> str | None:
        letters = self.letters.total()
        foreign = Counter({one: count for one, count in self.letters.items() if one not in profile.scripts})
        if profile.scripts and foreign.total() > _FOREIGN * letters:
            script = foreign.most_common(1)[0][0].capitalize().replace("Cjk", "Chinese")
            return f"{foreign.total() / letters:.0%} of its letters are of other scripts, such as {script}"
        few = max((part for pieces, part in _SPLIT if self.lower_pieces > pieces * self.lower), default=0.0)
        is_enough = self.lower >= _ENOUGH_WORDS and profile.share >= _TELLING
        if is_enough and self.known < few * profile.share * self.words:
            return (
                f"{self.known / self.words:.0%} of its words are among the {len(profile.words)} most "
                f"frequent ones of the training data, where they are {profile.share:.0%}"
            )
        return None

    def finish_text(self) -> None:
        """Warn, once, if what was read so far is unlike the training text; count no more after `WORDS`."""
        reason = self.judge()
        self.is_finished = not self.rest or reason is not None
        if reason is not None:
            self.rest = 0
            warnings.warn(
                "this text looks unlike what the model was trained on, perhaps it is in another language: "
                f"{reason}. What is found may be wrong, whatever its confidence. (This is said once.)",
                LanguageWarning,
                stacklevel=3,
            )
