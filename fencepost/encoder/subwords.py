"""Words to sub-words, with the tokenizer that a pretrained encoder was trained with.

Every word is cut for itself, so the pieces of a word are the same wherever it stands and a cache
makes most of the work a look-up. A word never vanishes: where the tokenizer makes nothing of it
(control characters, exotic white space), it becomes the unknown token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from fencepost.data.files import JSON_BYTES, SETTINGS_BYTES, read_json_object, read_text
from fencepost.errors import DataError, FencepostError, describe_error, quote

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
        self._source = "tokenizer"
        self._rows: int | None = None
        self._pieces: dict[str, tuple[int, ...]] = {}

    def __call__(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of each word's pieces: at least one, at most `LONGEST`."""
        try:
            return [self._pieces[word] for word in words]
        except KeyError:
            return self._learn([word[:_READ] for word in words])

    def ignores_case(self) -> bool:
        """Return whether the tokenizer makes no difference between upper and lower case."""
        return self(["ABC", "Paris"]) == self(["abc", "paris"])

    def _learn(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        if len(self._pieces) > _CACHED_WORDS:
            self._pieces = {}  # not emptied: another thread may be at work with the old one
        known = self._pieces
        new = [word for word in dict.fromkeys(words) if word not in known]
        # half a surrogate pair is a character to Python only; the tokenizer gets a question mark for it
        texts = [(self._prefix + word).encode("utf-8", "replace").decode("utf-8") for word in new]
        with _tokenizer_errors(self._source):
            encodings = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        pieces = [tuple(encoding.ids[:LONGEST]) or (self.unknown,) for encoding in encodings]
        self._check_ids(id_ for of_word in pieces for id_ in of_word)
        known.update(zip(new, pieces, strict=True))
        return [known[word] for word in words]

    def require_rows(self, rows: int) -> None:
        """Set how many embeddings the encoder has; from now on, an id without one is a `DataError`."""
        self._rows = rows
        self._check_ids((self.unknown, self.pad, *self.first, *self.last))

    def _check_ids(self, ids: Iterable[int]) -> None:
        if self._rows is not None and (largest := max(ids, default=0)) >= self._rows:
            message = f"the tokenizer has the id {largest}, but the encoder only {self._rows} embeddings"
            raise DataError(message, source=self._source)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / self.FILE))
        special = {"unknown": self.unknown, "pad": self.pad, "first": self.first, "last": self.last}
        (folder / self.SPECIAL_FILE).write_text(json.dumps(special) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Subwords:
        """Return the one that was saved there; raises `DataError` if its files are not as they should be."""
        path = folder / cls.SPECIAL_FILE
        special = read_json_object(path, limit=SETTINGS_BYTES)
        if special.keys() != {"unknown", "pad", "first", "last"}:
            raise DataError("this file must have unknown, pad, first and last", source=str(path))
        for key, value in special.items():
            ids = value if key in ("first", "last") else [value]
            if not isinstance(ids, list) or len(ids) > LONGEST or not all(map(_is_id, ids)):
                raise DataError(
                    f"{key} must be of ids of the tokenizer, not {quote(value)}", source=str(path)
                )
        text = read_text(folder / cls.FILE, limit=JSON_BYTES)
        with _tokenizer_errors(str(folder / cls.FILE)):
            subwords = cls(Tokenizer.from_str(text), **special)
        subwords._source = str(folder / cls.FILE)
        return subwords


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


@contextmanager
def _tokenizer_errors(source: str) -> Iterator[None]:
    """Turn whatever the tokenizers library raises into a `DataError`.

    It raises bare exceptions, and where it panics (as for a regular expression that takes too long) one
    that is not even an `Exception`.
    """
    try:
        yield
    except FencepostError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        message = f"the tokenizer of this model cannot be read: {describe_error(error)}"
        raise DataError(message, source=source) from None


def _wants_space(tokenizer: Tokenizer) -> bool:
    """Whether a word inside a sentence is known with the space before it, which we must then add.

    RoBERTa and its kin take the space as part of the word; a tokenizer of that kind which adds no
    space by itself would take every word for the continuation of another.
    """
    texts = ["a", " a", "a a"]
    bare, spaced, twice = (one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False))
    return bool(twice != bare + bare and twice == bare + spaced)
