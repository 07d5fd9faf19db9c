"""Tokenization of words into sub-words, with the tokenizer of a pretrained encoder.

Every word is tokenized by itself, so its sub-words are the same in all sentences and can be cached. A word
that the tokenizer removes (control characters, exotic white space) becomes the unknown token. Scripts such as
Chinese have no spaces between words, so a sub-word that is only the space before such a word is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from fencepost.data.files import JSON_BYTES, SETTINGS_BYTES, read_json_object, read_text
from fencepost.errors import DataError, FencepostError, describe_error, quote

LONGEST = 64
"""Maximum number of sub-words of a word; the rest of a longer one (a URL, a gene sequence) is cut off."""

_READ = 20 * LONGEST
"""Maximum number of characters of a word that are tokenized, which is enough for `LONGEST` sub-words."""

_CACHED_WORDS = 50_000

_SPACE = "\u2581"
"""Space in the sub-words of SentencePiece."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
"""First character of a word in a script without spaces: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""


class Subwords:
    """Tokenizer of words into sub-words; `first` and `last` are the special tokens around a sentence."""

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
        self._prefix = " " if _needs_space(tokenizer) else ""
        self._space: int | None = tokenizer.token_to_id(_SPACE)
        self._source = "tokenizer"
        self._rows: int | None = None
        self._cache: dict[str, tuple[int, ...]] = {}

    def __call__(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the ids of each word's sub-words: at least one, at most `LONGEST`."""
        try:
            return [self._cache[word] for word in words]
        except KeyError:
            return self._tokenize([word[:_READ] for word in words])

    def ignores_case(self) -> bool:
        """Return whether the tokenizer does not distinguish upper and lower case."""
        return self(["ABC", "Paris"]) == self(["abc", "paris"])

    def _tokenize(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        if len(self._cache) > _CACHED_WORDS:
            self._cache = {}  # not cleared, because another thread may be using the old one
        cache = self._cache
        new = [word for word in dict.fromkeys(words) if word not in cache]
        # only Python accepts half a surrogate pair; the tokenizer gets a question mark instead
        texts = [word.encode("utf-8", "replace").decode("utf-8") for word in new]
        with _convert_errors(self._source):
            encodings = self.tokenizer.encode_batch(
                [self._prefix + text for text in texts], add_special_tokens=False
            )
        pieces = map(self._remove_space, texts, (encoding.ids for encoding in encodings))
        ids = [tuple(of_word[:LONGEST]) or (self.unknown,) for of_word in pieces]
        self._check_ids(id_ for of_word in ids for id_ in of_word)
        cache.update(zip(new, ids, strict=True))
        return [cache[word] for word in words]

    def _remove_space(self, word: str, ids: Sequence[int]) -> Sequence[int]:
        """Return the sub-words of a word without the space before it, if its script has no spaces."""
        if self._space is None or not _UNSPACED.match(word):
            return ids
        whole = self.tokenizer.token_to_id(word)
        if whole is not None:
            return (whole,)
        return ids[1:] if len(ids) > 1 and ids[0] == self._space else ids

    def require_rows(self, rows: int) -> None:
        """Set the encoder's number of embeddings; ids without an embedding then raise `DataError`."""
        self._rows = rows
        self._check_ids((self.unknown, self.pad, *self.first, *self.last))

    def _check_ids(self, ids: Iterable[int]) -> None:
        if self._rows is not None and (largest := max(ids, default=0)) >= self._rows:
            message = f"the tokenizer has the id {largest}, but the encoder has only {self._rows} embeddings"
            raise DataError(message, source=self._source)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / self.FILE))
        special = {"unknown": self.unknown, "pad": self.pad, "first": self.first, "last": self.last}
        (folder / self.SPECIAL_FILE).write_text(json.dumps(special) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Subwords:
        """Return the tokenizer that was saved in a folder; raise `DataError` if its files are invalid."""
        path = folder / cls.SPECIAL_FILE
        special = read_json_object(path, limit=SETTINGS_BYTES)
        if special.keys() != {"unknown", "pad", "first", "last"}:
            raise DataError("this file must have unknown, pad, first and last", source=str(path))
        for key, value in special.items():
            ids = value if key in ("first", "last") else [value]
            if not isinstance(ids, list) or len(ids) > LONGEST or not all(map(_is_id, ids)):
                raise DataError(f"{key} must have ids of the tokenizer, not {quote(value)}", source=str(path))
        text = read_text(folder / cls.FILE, limit=JSON_BYTES)
        with _convert_errors(str(folder / cls.FILE)):
            subwords = cls(Tokenizer.from_str(text), **special)
        subwords._source = str(folder / cls.FILE)
        return subwords


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


@contextmanager
def _convert_errors(source: str) -> Iterator[None]:
    """Raise a `DataError` for any exception of the tokenizers library.

    The library raises bare exceptions and, if it panics (for instance because a regular expression takes too
    long), one that is not an `Exception`.
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


def _needs_space(tokenizer: Tokenizer) -> bool:
    """Return whether words must be tokenized with a space before them.

    Tokenizers such as RoBERTa's take the space as part of the word. One that does not add the space itself
    would treat every word as the continuation of another.
    """
    texts = ["a", " a", "a a"]
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    bare, spaced, twice = (encoding.ids for encoding in encodings)
    return bool(twice != bare + bare and twice == bare + spaced)
