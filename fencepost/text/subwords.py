"""Words to sub-words, with the tokenizer that a pretrained encoder was trained with.

Every word is cut for itself, so the pieces of a word are the same wherever it stands and a cache
makes most of the work a look-up. A word never vanishes: where the tokenizer makes nothing of it
(control characters, exotic white space), it becomes the unknown token.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from fencepost.errors import DataError

LONGEST = 64
"""A word of more pieces than this (a URL, a gene sequence) is represented by its first ones."""

_READ = 20 * LONGEST
"""Characters of a word that are read: plenty for the pieces that are kept of it."""

_CACHED_WORDS = 50_000


class Subwords:
    """Cuts words into pieces; `first` and `last` are the special tokens around a sentence."""

    FILE = "tokenizer.json"
    SPECIAL_FILE = "special_tokens.json"

    def __init__(
        self, tokenizer: Tokenizer, *, unknown: int, pad: int, first: Sequence[int], last: Sequence[int]
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.unknown, self.pad = unknown, pad
        self.first, self.last = tuple(first), tuple(last)
        self._prefix = " " if _wants_space(tokenizer) else ""
        self._pieces: dict[str, tuple[int, ...]] = {}

    def __call__(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of each word's pieces: at least one, at most `LONGEST`."""
        try:
            return [self._pieces[word] for word in words]
        except KeyError:
            return self._learn([word[:_READ] for word in words])

    def _learn(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        if len(self._pieces) > _CACHED_WORDS:
            self._pieces = {}  # not emptied: another thread may be at work with the old one
        known = self._pieces
        new = [word for word in dict.fromkeys(words) if word not in known]
        # half a surrogate pair is a character to Python only; the tokenizer gets a question mark for it
        texts = [(self._prefix + word).encode("utf-8", "replace").decode("utf-8") for word in new]
        encodings = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        for word, encoding in zip(new, encodings, strict=True):
            known[word] = tuple(encoding.ids[:LONGEST]) or (self.unknown,)
        return [known[word] for word in words]

    def save(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / self.FILE))
        special = {"unknown": self.unknown, "pad": self.pad, "first": self.first, "last": self.last}
        (folder / self.SPECIAL_FILE).write_text(json.dumps(special) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Subwords:
        try:
            special = json.loads((folder / cls.SPECIAL_FILE).read_text(encoding="utf-8"))
            return cls(Tokenizer.from_file(str(folder / cls.FILE)), **special)
        except Exception as error:  # noqa: BLE001 - the tokenizers library raises bare exceptions
            message = f"the tokenizer of this model cannot be read: {error}"
            raise DataError(message, source=str(folder)) from None


def _wants_space(tokenizer: Tokenizer) -> bool:
    """Whether a word inside a sentence is known with the space before it, which we must then add.

    RoBERTa and its kin take the space as part of the word; a tokenizer of that kind which adds no
    space by itself would take every word for the continuation of another.
    """
    texts = ["a", " a", "a a"]
    bare, spaced, twice = (one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False))
    return bool(twice != bare + bare and twice == bare + spaced)
