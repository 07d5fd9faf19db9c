"""Files that are whole or not there: written beside their place and moved into it at the end."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fencepost.corpus.format import WriteOptions
from fencepost.entity import Sentence
from fencepost.errors import UsageError

TEMPORARY = ".fencepost-"  # how the names of files in the making begin
Encode = Callable[[Iterable[Sentence], WriteOptions], Iterator[str]]


def text_writer(encode: Encode) -> Callable[[Iterable[Sentence], Path | None, WriteOptions], None]:
    """The `write` of a format whose corpora are one text file each."""

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
def whole_file(path: Path | None) -> Iterator[BinaryIO]:
    """A stream into a new file that takes `path`'s place at the end, or vanishes on an error.

    None is standard output, which gets what there is at once.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; give the name of a file")
    if path.exists() and not path.is_file():  # a pipe or a device, which must stay what it is
        with path.open("wb") as stream:
            yield stream
        return
    path = path.resolve()  # a link stays one, too
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder that takes `path`'s place at the end, or vanishes on an error."""
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path}: already there and not an empty folder; give another name")
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=TEMPORARY))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
