"""JSON lines that are written one by one, each whole before the next, so that a stopped run can continue."""

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
from fencepost.runtime.chunks import chunk_texts

if TYPE_CHECKING:
    from fencepost.runtime.prediction.results import PredictedText
    from fencepost.runtime.prediction.text import Text

EXISTS = "already exists; --resume continues where it stopped, --force overwrites it"

_OTHER = "is not about text {:,} of the input, so it was made from another one; --force overwrites it"


def write_lines(predicted: Iterable[PredictedText], path: Path | None, *, resume: bool = False) -> None:
    """Write a line for each text, after those of an earlier run if wanted; None is standard output."""
    with _open_lines(path, "ab" if resume else "wb") as stream:
        for one in predicted:
            stream.write(encode(one.to_record()) + b"\n")
            stream.flush()


def encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8")


@contextmanager
def _open_lines(path: Path | None, mode: Literal["ab", "wb"]) -> Iterator[BinaryIO]:
    """Yield a stream into a file that has whole lines whatever happens, and is removed if it has none."""
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
        if path.is_file() and not cut_to_whole_lines(path)[0]:
            path.unlink()
        raise


def cut_to_whole_lines(path: Path) -> tuple[int, bytes]:
    """Cut off an incomplete line at the end of a file; return the number of lines, and the last one."""
    count, last, end = _survey(path)
    os.truncate(path, end)
    return count, last


def _survey(path: Path) -> tuple[int, bytes, int]:
    """Return the number of whole lines of a file, the last of them, and where it ends."""
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
    """Refuse to touch a file with something in it, unless the user says what to do with it."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; give the name of a file")
    check_parent(path)
    if path.is_file() and path.stat().st_size and not (resume or force):
        raise UsageError(f"{path}: {EXISTS}")


@dataclass(frozen=True, slots=True)
class Rest:
    """Texts to predict after the `done` ones of an earlier run.

    The first `again` of `texts` are done too: they are computed once more together with the others, which
    get the same entities in this way as in a run that was not stopped.
    """

    done: int
    again: int
    texts: Iterator[Text]


def find_rest(texts: Iterable[Text], path: Path) -> Rest:
    """Return the texts that the lines of an earlier run leave to predict."""
    if not path.is_file():
        return Rest(0, 0, iter(texts))
    count, last, end = _survey(path)
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
    if latest is not None and _input_of(path, count, last) != json.loads(encode(latest.to_record())):
        raise UsageError(f"{path}:{count}: {_OTHER.format(count)}")
    if path.stat().st_size > end:  # an incomplete line; a file of somebody else is not cut
        if not group or not _begins(path, end, group[again]):
            raise UsageError(f"{path}:{count + 1}: {_OTHER.format(count + 1)}")
        os.truncate(path, end)
    return Rest(count, again, chain(group, chain.from_iterable(groups)))


def _computed_together(texts: Iterator[Text]) -> Iterator[list[Text]]:
    """Yield the chunks of the recogniser; single texts where their words are known already."""
    first = next(texts, None)
    if first is None:
        return iter(())
    texts = chain([first], texts)
    return (
        chunk_texts(texts, lambda text: len(text.text))
        if first.sentences is None
        else ([text] for text in texts)
    )


def _begins(path: Path, start: int, text: Text) -> bool:
    """Return whether the file continues at `start` as the line of this text begins."""
    wanted = encode(text.to_record())[:-1]
    with path.open("rb") as stream:
        stream.seek(start)
        return wanted.startswith(stream.read(len(wanted)))


def _input_of(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Return what a line of the output has from the input."""
    try:
        value = json.loads(line)
        if isinstance(value, dict) and isinstance(value.pop("entities"), list):
            return value
    except (ValueError, KeyError, RecursionError):
        pass
    raise UsageError(f"{path}:{number}: is no line of fencepost predict, so it cannot be continued")
