"""Errors for the user: what is wrong, where, and what to do about it.

Whatever a user can cause (a malformed file, a wrong option) is raised as a `FencepostError`; any other
exception that reaches the user is a bug in Fencepost.
"""

from __future__ import annotations

import difflib
import json
import os
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LONGEST = 200
"""Maximum number of characters that a message quotes from another library's error or from a value."""


class FencepostError(Exception):
    """Base class of all errors that a user can cause; the message says what is wrong and what to do."""


class LanguageWarning(UserWarning):
    """Warning that a text differs in language or script from the text that the model was trained on."""


class UsageError(FencepostError):
    """Invalid request, such as an unknown format or options that contradict each other."""

    @classmethod
    def unknown(cls, kind: str, name: str, choices: Iterable[str]) -> UsageError:
        """Return the error for a name that is not one of the choices; it suggests the most similar one."""
        choices = list(choices)
        near = difflib.get_close_matches(name, choices, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return cls(f"there is no {kind} {name!r}; {hint}there are {', '.join(choices)}")

    @classmethod
    def no_model(cls, folder: str | Path, hint: str = "") -> UsageError:
        """Return the error for a path that is not the folder of a model."""
        reason = "it has no config.json" if Path(folder).exists() else "it does not exist"
        return cls(f"{folder}: not a model folder ({reason}){hint}")


class DataError(FencepostError):
    """Invalid file content, reported with the file and, if known, the line."""

    def __init__(self, message: str, *, source: str, line: int | None = None) -> None:
        self.message = message
        self.source = source
        self.line = line
        super().__init__(f"{self.place}: {message}")

    @property
    def place(self) -> str:
        """`file:line`, or only the file if no line is known."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@contextmanager
def require_extra(extra: str, what: str = "this") -> Iterator[None]:
    """Raise `UsageError` if a library of an optional extra is not installed.

    Use it as a context manager around the first import of the library; `what` names the feature that needs
    it. A missing module of Fencepost itself is a bug and stays a `ModuleNotFoundError`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fencepost":
            raise
        raise UsageError(
            f"{what} needs {error.name}, which is not installed: pip install 'fencepost[{extra}]'"
        ) from None


def check_path(value: object, name: str) -> Path:
    """Return the value of an argument as a path; raise `UsageError` if it is not one."""
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} must be a path, not {type(value).__name__}")
    return Path(value)


def describe_error(error: BaseException) -> str:
    """Return the message of another library's exception as one line of bounded length.

    Some exceptions contain the data they were raised for: the `repr` of a `UnicodeDecodeError` has the whole
    file, and a parser quotes the line that it cannot read. So messages must not contain `{error!r}` or
    `{error}`, but the result of this function.
    """
    if isinstance(error, OSError) and error.strerror:
        name = f": {error.filename}" if error.filename is not None else ""
        return shorten(f"{error.strerror}{name}")
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 (at byte {error.start:,})"
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error.msg}, line {error.lineno}, column {error.colno})"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, KeyError) and error.args:
        return f"{quote(error.args[0])} is missing"
    lines = str(error).strip().splitlines()
    return shorten(lines[0]) if lines else type(error).__name__


def quote(value: Any) -> str:
    """Return the `repr` of a value, bounded in length and depth."""
    return _QUOTER.repr(value)


def shorten(text: str, longest: int = _LONGEST) -> str:
    """Return the text, truncated to `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


class _Quoter(reprlib.Repr):
    """Bounded `repr` that also works for integers with more digits than Python converts to strings."""

    def repr_int(self, value: int, level: int) -> str:  # noqa: ARG002 - called by reprlib
        return f"<integer of {value.bit_length():,} bits>" if abs(value) >> 1024 else repr(value)


_QUOTER = _Quoter()
_QUOTER.maxstring = _QUOTER.maxother = _QUOTER.maxlong = 100
_QUOTER.maxlevel = 3
