"""The errors that speak to the user: what is wrong, where, and what to do about it.

Everything that a user can cause (a malformed file, a wrong option) is raised as a
`FencepostError`; any other exception that reaches the user is a bug of ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FencepostError(Exception):
    """The work cannot be done; the message says why and what to do."""


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
