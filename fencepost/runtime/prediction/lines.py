"""JSON lines that grow: each is whole on the disk before the next, so that a stopped run can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from fencepost.data.output import StandardOutput, open_output
from fencepost.errors import UsageError
from fencepost.runtime.chunks import chunks
from fencepost.runtime.prediction.results import as_object, head_of

if TYPE_CHECKING:
    from fencepost.runtime.prediction.results import Found
    from fencepost.runtime.prediction.texts import Text

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
        yield StandardOutput()
        return
    try:
        stream = open_output(path, mode)
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


@dataclass(frozen=True, slots=True)
class Rest:
    """What is to be predicted behind the `done` texts of an earlier run.

    The first `again` of `texts` are done too: they are computed once more as the company of the others, so
    that these get what they would have got.
    """

    done: int
    again: int
    texts: Iterator[Text]


def without_done(texts: Iterable[Text], path: Path) -> Rest:
    """What the lines of an earlier run have left to do."""
    if not path.is_file():
        return Rest(0, 0, iter(texts))
    count, last, end = _surveyed(path)
    groups = _computed_together(iter(texts))
    passed, latest, group = 0, None, next(groups, [])
    while group and passed + len(group) <= count:
        passed, latest = passed + len(group), group[-1]
        group = next(groups, [])
    again = count - passed
    if again > len(group):
        raise UsageError(f"{path}: has {count:,} lines, which is more than there are texts to predict")
    if again:
        latest = group[again - 1]
    if latest is not None:
        _check_last(path, count, last, latest)
    if path.stat().st_size > end:  # a part of a line; another's file is not cut
        if not group or not _begins(path, end, group[again]):
            raise UsageError(f"{path}:{count + 1}: {_OTHER.format(count + 1)}")
        os.truncate(path, end)
    return Rest(count, again, chain(group, chain.from_iterable(groups)))


def _computed_together(texts: Iterator[Text]) -> Iterator[list[Text]]:
    """The texts in the chunks of the recogniser; one by one where their words are known already."""
    first = next(texts, None)
    if first is None:
        return iter(())
    texts = chain([first], texts)
    return chunks(texts, _length) if first.sentences is None else ([text] for text in texts)


def _length(text: Text) -> int:
    return len(text.text)


def _check_last(path: Path, count: int, last: bytes, text: Text) -> None:
    """Refuses to go on if the last line is not of the last text that is done."""
    if _head(path, count, last) != json.loads(encoded(head_of(text))):
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
