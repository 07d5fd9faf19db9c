"""The errors that speak to the user: what is wrong, where, and what to do about it.

Everything that a user can cause (a malformed file, a wrong option) is raised as a
`FencepostError`; any other exception that reaches the user is a bug of ours.
"""

from __future__ import annotations

import difflib
import json
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_LONGEST = 200
"""Number of characters of a foreign error, or of a value, that a message quotes."""


class FencepostError(Exception):
    """The work cannot be done; the message says why and what to do."""


class LanguageWarning(UserWarning):
    """A text looks unlike what the model was trained on."""


class UsageError(FencepostError):
    """The request itself is wrong: an unknown format, options that contradict each other."""

    @classmethod
    def unknown(cls, kind: str, name: str, choices: Iterable[str]) -> UsageError:
        """For a name that is none of the choices; the message has them all, and the nearest first."""
        choices = list(choices)
        near = difflib.get_close_matches(name, choices, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return cls(f"there is no {kind} {name!r}; {hint}there are {', '.join(choices)}")


class DataError(FencepostError):
    """Something in a file is wrong, at a place that the user can go to."""

    def __init__(self, message: str, *, source: str, line: int | None = None) -> None:
        self.message = message
        self.source = source
        self.line = line
        super().__init__(f"{self.place}: {message}")

    @property
    def place(self) -> str:
        """`file:line`, or the file alone where the problem is the file as a whole."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@contextmanager
def require_extra(extra: str, what: str = "this") -> Iterator[None]:
    """Raise `UsageError` if a library of an optional extra is not installed.

    Put the first import of the library inside; `what` names the work that needs it. That a module of
    Fencepost itself is missing is a bug, and stays a `ModuleNotFoundError`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fencepost":
            raise
        raise UsageError(
            f"{what} needs {error.name}, which is not installed: pip install 'fencepost[{extra}]'"
        ) from None


def describe_error(error: BaseException) -> str:
    """Return what an exception of another library says, as one bounded line for a message of ours.

    The text of some exceptions holds the data they were raised for: a `UnicodeDecodeError` carries the whole
    file in its `repr`, a parser quotes the line that it cannot read. So a message of ours never contains
    `{error!r}` or an unbounded `{error}`; it contains what this function returns.
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
    """Return the text, cut to `longest` characters where it has more."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


class _Quoter(reprlib.Repr):
    """A bounded `repr` that does not fail for integers of more digits than Python writes."""

    def repr_int(self, value: int, level: int) -> str:  # noqa: ARG002 - reprlib calls it so
        return f"<integer of {value.bit_length():,} bits>" if abs(value) >> 1024 else repr(value)


_QUOTER = _Quoter()
_QUOTER.maxstring = _QUOTER.maxother = _QUOTER.maxlong = 100
_QUOTER.maxlevel = 3
