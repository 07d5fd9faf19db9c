"""JSON lines that grow: each is whole on the disk before the next, so that a stopped run can go on."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from fencepost.errors import UsageError
from fencepost.prediction.found import as_object, head_of

if TYPE_CHECKING:
    from fencepost.prediction.found import Found
    from fencepost.prediction.texts import Text

_BYTES = 1 << 20  # that are looked at a time
_OTHER = "is not about text {:,} of the input, so it was made of another one; --force begins anew"


def write_lines(found: Iterable[Found], path: Path | None, *, resume: bool = False) -> None:
    """A line for each, behind those that are there if that is said; None is standard output."""
    with _growing(path, "ab" if resume else "wb") as stream:
        for one in found:
            stream.write(encoded(as_object(one)) + b"\n")
            stream.flush()


def encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8")


@contextmanager
def _growing(path: Path | None, mode: Literal["ab", "wb"]) -> Iterator[BinaryIO]:
    """A stream into a file that has whole lines whatever happens, and vanishes if it has none."""
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        stream = path.open(mode)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with stream:
            yield stream
    except BaseException:  # a full disk, Ctrl-C in the middle of a line
        if path.is_file() and not whole_lines(path)[0]:
            path.unlink()
        raise


def whole_lines(path: Path) -> tuple[int, bytes]:
    """How many lines a file has, and the last one; a part of a line at its end is cut off."""
    count, last, end = _surveyed(path)
    os.truncate(path, end)
    return count, last


def _surveyed(path: Path) -> tuple[int, bytes, int]:
    """How many whole lines a file has, the last of them, and where it ends."""
    count = last_start = last_end = position = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_BYTES):
            count += chunk.count(b"\n")
            if (end := chunk.rfind(b"\n")) >= 0:
                before = chunk.rfind(b"\n", 0, end)
                last_start = position + before + 1 if before >= 0 else last_end
                last_end = position + end + 1
            position += len(chunk)
        stream.seek(last_start)
        return count, stream.read(last_end - last_start), last_end


def check_new(path: Path, *, resume: bool, force: bool) -> None:
    """Refuses to touch a file with something in it, unless it is said what to do."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: cannot be written: there is no folder {path.parent}")
    if path.is_file() and path.stat().st_size and not (resume or force):
        raise UsageError(f"{path}: is there already; --resume goes on where it stopped, --force begins anew")


def without_done(texts: Iterable[Text], path: Path) -> tuple[int, Iterator[Text]]:
    """How many texts the lines of an earlier run are of, and the other ones."""
    stream = iter(texts)
    if not path.is_file():
        return 0, stream
    count, last, end = _surveyed(path)
    if count:
        _check_last(path, count, last, stream)
    if path.stat().st_size > end:  # a part of a line; another's file is not cut
        following = next(stream, None)
        if following is None or not _begins(path, end, following):
            raise UsageError(f"{path}:{count + 1}: {_OTHER.format(count + 1)}")
        os.truncate(path, end)
        stream = chain([following], stream)
    return count, stream


def _check_last(path: Path, count: int, last: bytes, stream: Iterator[Text]) -> None:
    """Passes the texts that are done; refuses to go on if the last line is not of the last of them."""
    passed = deque(enumerate(islice(stream, count), start=1), maxlen=1)
    if not passed or passed[0][0] < count:
        raise UsageError(f"{path}: has {count:,} lines, which is more than there are texts to predict")
    if _head(path, count, last) != json.loads(encoded(head_of(passed[0][1]))):
        raise UsageError(f"{path}:{count}: {_OTHER.format(count)}")


def _begins(path: Path, start: int, text: Text) -> bool:
    """Whether what stands in the file from there on is how the line of this text begins."""
    wanted = encoded(head_of(text))[:-1]
    with path.open("rb") as stream:
        stream.seek(start)
        return wanted.startswith(stream.read(len(wanted)))


def _head(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
        if isinstance(value, dict) and isinstance(value.pop("entities"), list):
            return value
    except (ValueError, KeyError, RecursionError):
        pass
    raise UsageError(f"{path}:{number}: is no line of fencepost predict, so it cannot go on behind it")
