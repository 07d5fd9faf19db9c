"""Reading of word vectors from a text file in GloVe's format: a word and its numbers on each line."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fencepost.errors import DataError

FloatArray = npt.NDArray[np.float32]


def read_vectors(path: Path, limit: int, needed: Container[str]) -> tuple[list[str], FloatArray]:
    """Return the first `limit` words of a file, and all words in `needed`, with their vectors `[N, d]`.

    Of several vectors of a word, the first counts. The file is streamed, so that only these vectors take
    memory. Raises `DataError` for an invalid file.
    """
    words: dict[str, None] = {}
    vectors: list[FloatArray] = []
    for number, (line, word, values) in enumerate(_read_lines(path)):
        if (number < limit or word in needed) and word not in words:
            try:
                with np.errstate(over="ignore"):  # overflow to infinity is an error below
                    vector = np.array(values.split(" "), dtype=np.float32)
            except ValueError:
                raise DataError(
                    f"the vector of {word!r} does not consist of numbers", source=str(path), line=line
                ) from None
            if not np.isfinite(vector).all():
                raise DataError(f"the vector of {word!r} is not finite", source=str(path), line=line)
            words[word] = None
            vectors.append(vector)
    if not vectors:
        raise DataError("there are no word vectors in this file", source=str(path))
    return list(words), np.stack(vectors)


def _read_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, word and numbers; a word may contain spaces, so numbers are split from the end."""
    width = 0
    try:
        with path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, start=1):
                fields = line.rstrip(" \r\n").split(" ")
                if number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields):
                    width = int(fields[1])
                    continue  # word2vec and fastText write the number of words and the width first
                width = width or len(fields) - 1
                if width < 1 or len(fields) <= width:
                    raise DataError(
                        f"{len(fields) - 1} numbers after the word, but {max(width, 1)} are needed",
                        source=str(path),
                        line=number,
                    )
                yield number, " ".join(fields[:-width]), " ".join(fields[-width:])
    except OSError as error:
        raise DataError(f"word vectors cannot be read: {error.strerror}", source=str(path)) from None
    except UnicodeDecodeError:
        raise DataError("word vectors must be a text file in UTF-8", source=str(path)) from None
