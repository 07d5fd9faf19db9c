"""Output as JSON lines, which are written one by one, so that a stopped run can be continued."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from fencepost.data.output import StandardOutput, open_output
from fencepost.errors import UsageError
from fencepost.runtime.chunks import chunk_texts

if TYPE_CHECKING:
    from fencepost.runtime.prediction.results import PredictedText
    from fencepost.runtime.prediction.text import Text

EXISTS = "already exists; use --resume to continue or --force to overwrite it"

_OTHER = "does not match text {:,} of the input, so it was made from another one; use --force to overwrite it"


def write_lines(predicted: Iterable[PredictedText], path: Path | None, *, resume: bool = False) -> None:
    """Write a line for each text to a file, or to standard output (None); with `resume`, append the lines."""
    with _open_lines(path, "ab" if resume else "wb") as stream:
        for one in predicted:
            stream.write(encode(one.to_record()) + b"\n")
            stream.flush()


def encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8")


@contextmanager
def _open_lines(path: Path | None, mode: Literal["ab", "wb"]) -> Iterator[BinaryIO]:
    """Yield a stream for writing; after an error, remove an incomplete line, and a file without lines."""
    if path is None:
        yield StandardOutput()
        return
    try:
        stream = open_output(path, mode)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with stream:
            yield stream
    except BaseException:  # for example a full disk, or Ctrl-C
        if path.is_file() and not cut_to_whole_lines(path)[0]:
            path.unlink()
        raise


def cut_to_whole_lines(path: Path) -> tuple[int, bytes]:
    """Remove an incomplete line at the end of a file; return the number of lines, and the last one."""
    count, last, end = _scan_lines(path)
    os.truncate(path, end)
    return count, last


def _scan_lines(path: Path) -> tuple[int, bytes, int]:
    """Return the number of whole lines of a file, the last of them, and the position of its end."""
    count, last, end = 0, b"", 0
    with path.open("rb") as stream:
        for line in stream:
            if line.endswith(b"\n"):
                count, last, end = count + 1, line, end + len(line)
    return count, last, end


def check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise UsageError(f"{path}: cannot be written: there is no folder {path.parent}")


def check_new(path: Path, *, resume: bool, force: bool) -> None:
    """Raise `UsageError` if a file exists and is not empty, unless it is to be continued or overwritten."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; give the name of a file")
    check_parent(path)
    if path.is_file() and path.stat().st_size and not (resume or force):
        raise UsageError(f"{path}: {EXISTS}")


@dataclass(frozen=True, slots=True)
class Rest:
    """Texts to predict after the `predicted` texts of an earlier run.

    The first `repeated` of `texts` were predicted too. They are computed again together with the others, so
    that these have the same entities as in a run that was not stopped.
    """

    predicted: int
    repeated: int
    texts: Iterator[Text]


def find_rest(texts: Iterable[Text], path: Path) -> Rest:
    """Return the texts without a line in the output; raise `UsageError` if that is of other texts."""
    if not path.is_file():
        return Rest(0, 0, iter(texts))
    count, last, end = _scan_lines(path)
    chunks = _make_chunks(iter(texts))
    passed, latest, chunk = 0, None, next(chunks, [])
    while chunk and passed + len(chunk) <= count:
        passed, latest = passed + len(chunk), chunk[-1]
        chunk = next(chunks, [])
    repeated = count - passed
    if repeated > len(chunk):
        raise UsageError(f"{path}: has {count:,} lines, which is more than there are texts to predict")
    if repeated:
        latest = chunk[repeated - 1]
    if latest is not None and _parse_input(path, count, last) != json.loads(encode(latest.to_record())):
        raise UsageError(f"{path}:{count}: {_OTHER.format(count)}")
    if path.stat().st_size > end:  # an incomplete line, which is removed only if predict has written it
        if not chunk or not _starts_line(path, end, chunk[repeated]):
            raise UsageError(f"{path}:{count + 1}: {_OTHER.format(count + 1)}")
        os.truncate(path, end)
    return Rest(count, repeated, chain(chunk, chain.from_iterable(chunks)))


def _make_chunks(texts: Iterator[Text]) -> Iterator[list[Text]]:
    """Yield the chunks of the recogniser, or documents, which are context, if the words are given."""
    first = next(texts, None)
    if first is None:
        return iter(())
    texts = chain([first], texts)
    return (
        chunk_texts(texts, lambda text: len(text.text))
        if first.sentences is None
        else (list(document) for _, document in groupby(texts, _get_document))
    )


def _get_document(text: Text) -> object:
    """Return the document of a sentence; without a name, each is one of its own."""
    doc = text.sentences[0].doc if text.sentences else None
    return object() if doc is None else doc


def _starts_line(path: Path, start: int, text: Text) -> bool:
    """Return whether the rest of the file from `start` is the beginning of this text's line."""
    line = encode(text.to_record())[:-1]
    with path.open("rb") as stream:
        stream.seek(start)
        return line.startswith(stream.read(len(line)))


def _parse_input(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Return the fields of an output line that come from the input."""
    try:
        value = json.loads(line)
        if isinstance(value, dict) and isinstance(value.pop("entities"), list):
            return value
    except (ValueError, KeyError, RecursionError):
        pass
    raise UsageError(f"{path}:{number}: is not output of fencepost predict, so it cannot be continued")
