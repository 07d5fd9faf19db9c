"""Files that are complete or absent: written in a temporary folder and moved into their place at the end."""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

from fencepost.data.entity import Sentence
from fencepost.data.formats.format import WriteOptions
from fencepost.errors import FencepostError, UsageError, describe_error

TEMPORARY = ".fencepost-"
"""Prefix of the names of temporary folders."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
Encode = Callable[[Iterable[Sentence], WriteOptions], Iterator[str]]


class WriteError(FencepostError):
    """A file cannot be written: the disk is full or fails."""


def text_writer(encode: Encode) -> Callable[[Iterable[Sentence], Path | None, WriteOptions], None]:
    """Return the `write` of a format whose corpora are one text file each."""

    def write(sentences: Iterable[Sentence], path: Path | None, options: WriteOptions) -> None:
        with whole_file(path) as stream:
            at_start = True
            for piece in encode(sentences, options):
                # A reader takes a byte order mark at the start as such: a word's own needs another.
                stream.write((at_start and piece[:1] == "\ufeff") * "\ufeff".encode())
                stream.write(piece.encode("utf-8"))
                at_start = at_start and not piece

    return write


@contextmanager
def naming(path: Path | str, *others: type[Exception]) -> Iterator[None]:
    """Raise an `OSError` of the block as a `WriteError` that names the file.

    The error of a write has no file name of its own, and some libraries raise `others` in its place.
    A `BrokenPipeError` is left as it is: the reader of the output has seen enough.
    """
    errors: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except BrokenPipeError:
        raise
    except errors as error:
        reason = getattr(error, "strerror", None) or describe_error(error)
        raise WriteError(f"{path}: cannot be written: {reason}") from error


def open_output(path: Path, mode: Literal["ab", "wb"], name: Path | None = None) -> BinaryIO:
    """Open a file whose write errors are `WriteError`s with its name, or with `name` in its place."""
    with _naming_if_full(name or path):
        return io.BufferedWriter(_Output(path, mode, name or path))


@contextmanager
def _naming_if_full(path: Path) -> Iterator[None]:
    """Raise a `WriteError` that names the file for a full disk; any other error may be about another file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise WriteError(f"{path}: cannot be written: {error.strerror}") from error


class _Output(io.FileIO):
    def __init__(self, path: Path, mode: str, name: Path) -> None:
        self._name = name
        super().__init__(path, mode)

    def write(self, data: Any) -> int:
        with naming(self._name):
            return super().write(data)

    def close(self) -> None:
        with naming(self._name):
            super().close()


class StandardOutput(io.BytesIO):
    """Standard output whose write errors are `WriteError`s with its name."""

    def write(self, data: Any) -> int:
        with naming("standard output"):
            return sys.stdout.buffer.write(data)

    def flush(self) -> None:
        with naming("standard output"):
            sys.stdout.buffer.flush()


@contextmanager
def whole_file(path: Path | None) -> Iterator[BinaryIO]:
    """Yield a stream into a new file that takes the place of `path` at the end, or vanishes on an error.

    None is standard output, which gets what there is at once.
    """
    if path is None:
        output = StandardOutput()
        yield output
        output.flush()
        return
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; give the name of a file")
    if path.exists() and not path.is_file():  # a pipe or a device, which must stay what it is
        with open_output(path, "wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))  # a link stays one; a circle of links is replaced
    with _beside(target, path) as temporary:
        with open_output(temporary, "wb", path) as stream:
            yield stream
        with naming(path):
            temporary.replace(target)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of `path` at the end, or vanishes on an error."""
    try:
        taken = path.exists() and (not path.is_dir() or any(path.iterdir()))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    if taken:
        raise UsageError(f"{path}: already there and not an empty folder; give another name")
    with _beside(path, path) as temporary, _naming_if_full(path):
        temporary.mkdir()
        yield temporary
        temporary.replace(path)


@contextmanager
def _beside(target: Path, path: Path) -> Iterator[Path]:
    """Yield the target's name in a temporary folder beside it; refuse a `path` that cannot be written."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder(target.parent))
        except OSError as error:
            kind = WriteError if error.errno in _FULL else UsageError
            raise kind(f"{path}: cannot be written: {error.strerror}") from error
        yield folder / target.name


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder in `parent`, which is removed at the end.

    A process that is killed leaves its folder, so those of processes that have ended are removed first.
    """
    remove_leftovers(parent)
    while True:
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(dir=parent, prefix=TEMPORARY))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            with suppress(ImportError, OSError):  # Windows, and file systems without locks
                stack.callback(os.close, _lock(folder, wait=True))
            if folder.exists():  # else another process took it for a leftover before it was locked
                yield folder
                return


def remove_leftovers(parent: Path, pattern: str = f"{TEMPORARY}????????") -> None:
    """Remove the temporary folders in `parent` whose processes have ended and so hold no lock."""
    for folder in [path for path in parent.glob(pattern) if path.is_dir() and not path.is_symlink()]:
        with suppress(ImportError, OSError), ExitStack() as stack:
            stack.callback(os.close, _lock(folder, wait=False))
            shutil.rmtree(folder)


def _lock(path: Path, *, wait: bool) -> int:
    """Return a descriptor that holds a lock on a folder until it is closed or the process ends."""
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
