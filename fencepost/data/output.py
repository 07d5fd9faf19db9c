"""Atomic output: files are written in a temporary folder and moved to their place when they are complete."""

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
from fencepost.data.formats.format import Write, WriteOptions
from fencepost.errors import FencepostError, UsageError, describe_error

TEMPORARY = ".fencepost-"
"""Prefix of the names of temporary folders."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a full disk
Encode = Callable[[Iterable[Sentence], WriteOptions], Iterator[str]]


class WriteError(FencepostError):
    """A file cannot be written, for example because the disk is full."""


def text_writer(encode: Encode) -> Write:
    """Return the `write` function of a format whose corpora are single text files."""

    def write(sentences: Iterable[Sentence], path: Path | None, options: WriteOptions) -> None:
        with whole_file(path) as stream:
            at_start = True
            for piece in encode(sentences, options):
                # Readers remove a byte order mark at the start, so one that belongs to a word is doubled.
                stream.write((at_start and piece[:1] == "\ufeff") * "\ufeff".encode())
                stream.write(piece.encode("utf-8"))
                at_start = at_start and not piece

    return write


@contextmanager
def raise_write_errors(path: Path | str, *others: type[Exception]) -> Iterator[None]:
    """Convert an `OSError`, or an error of the types `others`, to a `WriteError` that names the file.

    Errors of writes do not contain the name of the file, and some libraries raise other types. A
    `BrokenPipeError` is not converted: it means that the reader of the output has closed it.
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
    """Open a file whose write errors are `WriteError`s that contain `name`, by default the path."""
    with _raise_if_full(name or path):
        return io.BufferedWriter(_Output(path, mode, name or path))


@contextmanager
def _raise_if_full(path: Path) -> Iterator[None]:
    """Raise a `WriteError` that names the file if the disk is full; other errors may concern other files."""
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
        with raise_write_errors(self._name):
            return super().write(data)

    def close(self) -> None:
        with raise_write_errors(self._name):
            super().close()


class StandardOutput(io.BytesIO):
    """Standard output whose write errors are `WriteError`s that name it."""

    def write(self, data: Any) -> int:
        with raise_write_errors("standard output"):
            return sys.stdout.buffer.write(data)

    def flush(self) -> None:
        with raise_write_errors("standard output"):
            sys.stdout.buffer.flush()


@contextmanager
def whole_file(path: Path | None) -> Iterator[BinaryIO]:
    """Yield a stream to a new file that replaces `path` at the end, and is removed on an error.

    If `path` is None, the stream writes directly to standard output.
    """
    if path is None:
        output = StandardOutput()
        yield output
        output.flush()
        return
    if path.is_dir():
        raise UsageError(f"{path}: this is a folder; give the name of a file")
    if path.exists() and not path.is_file():  # a pipe or a device must not be replaced
        with open_output(path, "wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))  # replaces the target of a link, but a loop of links itself
    with _make_temporary(target, path) as temporary:
        with open_output(temporary, "wb", path) as stream:
            yield stream
        with raise_write_errors(path):
            temporary.replace(target)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder that is moved to `path`, which must not exist, or removed on an error."""
    try:
        is_occupied = path.exists() and (not path.is_dir() or any(path.iterdir()))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    if is_occupied:
        raise UsageError(f"{path}: already exists and is not an empty folder; give another name")
    with _make_temporary(path, path) as temporary, _raise_if_full(path):
        temporary.mkdir()
        yield temporary
        temporary.replace(path)


@contextmanager
def _make_temporary(target: Path, path: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder beside the target; raise an error if `path` cannot be written."""
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

    A process that is killed leaves its folder behind; such folders are removed first.
    """
    remove_leftovers(parent)
    while True:
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(dir=parent, prefix=TEMPORARY))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            with suppress(ImportError, OSError):  # Windows, and file systems without locks
                stack.callback(os.close, _lock(folder, wait=True))
            if folder.exists():  # otherwise another process removed it before it was locked
                yield folder
                return


def remove_leftovers(parent: Path, pattern: str = f"{TEMPORARY}????????") -> None:
    """Remove the temporary folders in `parent` whose processes have ended, so that they are not locked."""
    for folder in [path for path in parent.glob(pattern) if path.is_dir() and not path.is_symlink()]:
        with suppress(ImportError, OSError), ExitStack() as stack:
            stack.callback(os.close, _lock(folder, wait=False))
            shutil.rmtree(folder)


def _lock(path: Path, *, wait: bool) -> int:
    """Lock a folder and return the file descriptor; closing it, or the end of the process, unlocks it."""
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
