"""Warning about text in a language that a model was not trained on.

A model predicts entities in any text, but its confidences mean little for text unlike its training data.
Another script is recognised by its letters. In the same script, a language is recognised by its function
words, which are the most frequent words of any text, and by the number of sub-words of its words.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from fencepost.data.text.profile import count_scripts
from fencepost.encoder.settings import TextProfile
from fencepost.encoder.subwords import Subwords
from fencepost.errors import LanguageWarning

_MIN_LETTERS, _MIN_WORDS = 15, 20  # less text is not judged
_MAX_FOREIGN = 0.5  # share of letters in other scripts
_MIN_SHARE = 0.15  # share of the most frequent words in training data that has function words
_SPLIT = ((1.4, 0.25), (1.8, 0.4))  # sub-words per lower-case word, and the fraction of that share to expect
_MAX_UNKNOWN, _LETTERS_PER_SUBWORD = 0.3, 1.5  # limits for a tokenizer that knows the script


class LanguageCheck:
    """Comparison of the first words of a run with the training text.

    Models of earlier versions have no profile of their training text; then only the tokenizer is used.
    """

    WORDS = 1_000
    """Number of words that are examined."""

    def __init__(self, profile: TextProfile | None, tokenizer: Subwords | None, language: str) -> None:
        self.profile, self.tokenizer = profile, tokenizer
        self.has_long_subwords = language not in ("ja", "ko", "zh")  # there, many are single letters
        self.rest = self.WORDS
        self.is_finished = False
        self.letters: Counter[str] = Counter()
        self.words = self.known = self.lower = self.lower_subwords = 0
        self.subwords = self.unknown = self.subword_letters = 0

    def add(self, words: Sequence[str]) -> None:
        """Count the words of a sentence, until `WORDS` have been counted."""
        words = [word for word in words[: self.rest] if any(map(str.isalpha, word))]
        self.rest -= len(words)
        self.letters += count_scripts(words)
        self.words += len(words)
        self.known += sum(word.lower() in self.profile.words for word in words) if self.profile else 0
        for word, subwords in zip(words, self.tokenizer(words) if self.tokenizer else (), strict=False):
            if not any(map(str.isdigit, word)) and not (word.isascii() and len(word) == 1):
                self.subword_letters += sum(map(str.isalpha, word))
                self.subwords += len(subwords)
                self.unknown += subwords.count(self.tokenizer.unknown) if self.tokenizer else 0
            if word.islower() and word.isalpha():
                self.lower += 1
                self.lower_subwords += len(subwords)

    def judge(self) -> str | None:
        """Return how the text differs from the training text; None if it does not, or is too short."""
        if self.letters.total() < _MIN_LETTERS:
            return None
        return self._judge_subwords() if self.profile is None else self._judge_words(self.profile)

    def _judge_subwords(self) -> str | None:
        if self.has_long_subwords and self.subwords * _LETTERS_PER_SUBWORD > self.subword_letters:
            length = self.subword_letters / self.subwords
            return f"the model's tokenizer splits it into sub-words of {length:.1f} letters"
        if self.unknown > _MAX_UNKNOWN * self.subwords:
            return f"{self.unknown / self.subwords:.0%} of its sub-words are unknown to the model's tokenizer"
        return None

    def _judge_words(self, profile: TextProfile) -> str | None:
        letters = self.letters.total()
        foreign = Counter({one: count for one, count in self.letters.items() if one not in profile.scripts})
        if profile.scripts and foreign.total() > _MAX_FOREIGN * letters:
            script = foreign.most_common(1)[0][0].capitalize().replace("Cjk", "Chinese")
            return f"{foreign.total() / letters:.0%} of its letters are of other scripts, such as {script}"
        splits = (part for mean, part in _SPLIT if self.lower_subwords > mean * self.lower)
        is_enough = self.lower >= _MIN_WORDS and profile.share >= _MIN_SHARE
        if is_enough and self.known < max(splits, default=0.0) * profile.share * self.words:
            return (
                f"{self.known / self.words:.0%} of its words are among the {len(profile.words)} most "
                f"frequent words of the training data, instead of {profile.share:.0%}"
            )
        return None

    def finish_text(self) -> None:
        """Warn, once, if the text so far is unlike the training text; stop counting after `WORDS`."""
        reason = self.judge()
        self.is_finished = not self.rest or reason is not None
        if reason is not None:
            self.rest = 0
            warnings.warn(
                "this text differs from the training data of the model, and may be in another language: "
                f"{reason}. Predictions may be wrong even with a high confidence. (Shown once.)",
                LanguageWarning,
                stacklevel=3,
            )
